"""Item-based autoencoders in torch: I-AutoRec (Sedhain et al., 2015) and SparseFC (Muller et al.,
2018), written here from the papers because no maintained package has them.

An item's row of ratings (0 where there is none) goes through sigmoid layers of 500 units and is
reconstructed; only the observed ratings count. SparseFC has two such layers, and its weights are
damped by a kernel max(0, 1 − |u − v|²) between learnt places of the units. Both are fitted by
L-BFGS on all ratings at once. GLocal-K, which adds a second stage with a global kernel to SparseFC,
is not here.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import torch
from protocol import Predict, RatingsPart, learning_begins, run

HIDDEN = 500
PLACE_DIMENSIONS = 5


class Layer(torch.nn.Module):
    """x W + b, with W damped by the kernel if `sparse`."""

    def __init__(self, n_in: int, n_out: int, sparse: bool) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.empty(n_in, n_out))
        torch.nn.init.xavier_uniform_(self.weight)
        self.bias = torch.nn.Parameter(torch.zeros(n_out))
        self.places = (
            torch.nn.ParameterList(
                1e-3 * torch.randn(size, PLACE_DIMENSIONS) for size in (n_in, n_out)
            )
            if sparse
            else None
        )

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """The output, Σ W² / 2, and Σ kernel² / 2."""
        squares = self.weight.square().sum() / 2
        if self.places is None:
            return x @ self.weight + self.bias, squares, torch.zeros(())
        u, v = self.places
        distance = u.square().sum(1)[:, None] + v.square().sum(1) - 2 * u @ v.T
        kernel = torch.relu(1 - distance)
        return x @ (self.weight * kernel) + self.bias, squares, kernel.square().sum() / 2


def fit(
    ratings: RatingsPart,
    iterations: int,
    weight_decay: float,
    sparsity: float = 0.0,
    layers: int = 1,
) -> Predict:
    """I-AutoRec; with `sparsity` and two `layers`, SparseFC."""
    torch.manual_seed(0)
    shape = ratings.n_items, ratings.n_users
    rows = torch.zeros(shape)
    rows[ratings.item, ratings.user] = torch.from_numpy(ratings.rating.astype(np.float32))
    observed = (rows > 0).float()
    learning_begins()
    sizes = [ratings.n_users, *[HIDDEN] * layers, ratings.n_users]
    network = torch.nn.ModuleList(
        Layer(n_in, n_out, sparsity > 0) for n_in, n_out in pairwise(sizes)
    )

    def reconstruction() -> tuple[torch.Tensor, torch.Tensor]:
        out, penalty = rows, torch.zeros(())
        for number, layer in enumerate(network):
            out, squares, kernel = layer(torch.sigmoid(out) if number else out)
            penalty = penalty + weight_decay * squares + sparsity * kernel
        return out, penalty

    optimiser = torch.optim.LBFGS(
        network.parameters(),
        max_iter=iterations,
        max_eval=2 * iterations,
        tolerance_grad=0.0,
        tolerance_change=0.0,
        history_size=10,
        line_search_fn="strong_wolfe",
    )

    def loss() -> torch.Tensor:
        optimiser.zero_grad()
        out, penalty = reconstruction()
        value = (observed * (out - rows)).square().sum() / 2 + penalty
        value.backward()
        return value

    optimiser.step(loss)
    with torch.no_grad():
        found = reconstruction()[0].numpy()
    # A user without training ratings has an output nobody taught.
    found[:, np.bincount(ratings.user, minlength=ratings.n_users) == 0] = np.nan
    return lambda user, item: found[item, user]


if __name__ == "__main__":
    run(fit, ["torch"])
