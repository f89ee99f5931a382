"""How far predictions of smaller processors are from this one's: `compare_processors.py [MEMBERS]`.

Fits the default machine to nine tenths of movielens-small here and on each imitated processor of
`as_processor.py`, and prints how far the probabilities of the other ratings are apart.
"""

import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
from as_processor import LEVELS

import ordbm

USERS_LISTED = 200


def write_predictions(path: Path, members: int | None) -> None:
    """P (pairs, levels) of held-out ratings and the lists of ten of some users, into a file."""
    learn, unseen = ordbm.hold_out(ordbm.load_dataset("movielens-small"), 0.1, seed=0)
    model = ordbm.OrdinalBM(members=members).fit(learn)
    users = [unseen.users[code] for code in unseen.user_codes]
    items = [unseen.items[code] for code in unseen.item_codes]
    lists = [
        [line.item for line in model.recommend(user, n=10)]
        for user in list(unseen.users)[:USERS_LISTED]
    ]
    np.savez(path, proba=model.predict_proba(users, items), lists=np.array(lists))


def main(members: str = "") -> None:
    """Print the table."""
    tool = str(Path(__file__).with_name("as_processor.py"))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder)
        fit = [sys.executable, __file__, "--write"]
        subprocess.run([*fit, str(path / "here.npz"), members], check=True)
        here = np.load(path / "here.npz")
        for level in LEVELS:
            there_path = path / f"{level}.npz"
            imitated = [sys.executable, tool, level, *fit, str(there_path), members]
            subprocess.run(imitated, check=True)
            there = np.load(there_path)
            apart = np.abs(here["proba"] - there["proba"])
            same = (here["lists"] == there["lists"]).all(axis=1).mean()
            print(
                f"{level}: P apart by {apart.max():.1e} at most, {apart.mean():.1e} on average; "
                f"{same:.1%} of the lists of ten are the same"
            )


if __name__ == "__main__":
    if sys.argv[1:2] == ["--write"]:
        write_predictions(Path(sys.argv[2]), int(sys.argv[3]) if sys.argv[3] else None)
    else:
        main(*sys.argv[1:])
