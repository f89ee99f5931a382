"""river: biased matrix factorisation and biases alone, learnt rating by rating as they come.

    python benchmarks/peers/stream_river.py ml-1m.zip out.npz

Settings are those of river's own example of matrix factorisation on MovieLens. Ratings of one user
and second are predicted together before any of them is learnt; also one by one, in the order of the
file, which gives more away. Predictions are within the scale. Writes the prediction of every rating
of the stream, and the seconds that each model took.
"""

from __future__ import annotations

import sys
import time
from itertools import pairwise
from pathlib import Path

import numpy as np
from river import optim, reco

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from stream_data import Stream, read


def biased_mf() -> reco.BiasedMF:
    """Ten factors; biases from zero, factors from N(0, 0.1²)."""
    return reco.BiasedMF(
        n_factors=10,
        bias_optimizer=optim.SGD(0.025),
        latent_optimizer=optim.SGD(0.05),
        weight_initializer=optim.initializers.Zeros(),
        latent_initializer=optim.initializers.Normal(mu=0.0, sigma=0.1, seed=73),
        l2_bias=0.0,
        l2_latent=0.0,
    )


def baseline() -> reco.Baseline:
    """The mean with a bias for each user and each item."""
    return reco.Baseline(optimizer=optim.SGD(0.025), l2=0.0, initializer=optim.initializers.Zeros())


def predicted(
    model: reco.BiasedMF | reco.Baseline, stream: Stream, group: np.ndarray
) -> np.ndarray:
    """The prediction of each rating, made before its group was learnt."""
    user, item = stream.user.tolist(), stream.item.tolist()
    rating = stream.rating.astype(float).tolist()
    found = np.empty(len(stream))
    for begin, end in pairwise(group.tolist()):
        for place in range(begin, end):
            found[place] = model.predict_one(user=user[place], item=item[place])
        for place in range(begin, end):
            model.learn_one(user=user[place], item=item[place], y=rating[place])
    return found.clip(1, 5)


def main() -> None:
    """Both models over the whole stream, twice."""
    stream = read(Path(sys.argv[1]))
    found = {}
    for words, group in (("", stream.group), (", one by one", np.arange(len(stream) + 1))):
        for name, make in {"river BiasedMF": biased_mf, "river Baseline": baseline}.items():
            started = time.process_time()
            found[name + words] = predicted(make(), stream, group)
            found[f"{name}{words} seconds"] = time.process_time() - started
    np.savez(sys.argv[2], **found)


if __name__ == "__main__":
    main()
