"""Users shared out over workers: with the engine's sums, what they learn is what one learns."""

import threading

import numpy as np
import pytest

import referee
from ordbm.data.csr import CSR, CSRPair, with_transpose
from ordbm.kernels.structures import Tables
from ordbm.model.learners import PseudoLikelihood
from ordbm.model.machine import Machine, Side
from ordbm.runtime.scratch import Scratch
from ordbm.training.engine import ITEM_SIDE, LOCAL, USER_SIDE
from ordbm.training.plan import Cut, cut_rows, for_all_workers, lay_out
from ordbm.training.side_pass import SideTraining

WORKERS, N_USERS, N_ITEMS = 3, 40, 25


class Together:
    """Workers on threads of this process, which add in their order."""

    is_whole = False

    def __init__(self, worker, barrier, tables):
        self.worker, self.barrier, self.tables = worker, barrier, tables

    def add(self, table):
        self.tables[self.worker] = table.copy()
        self.barrier.wait()
        total = sum(self.tables)
        self.barrier.wait()
        table[...] = total

    def add_counts(self, side, counts):
        if side == USER_SIDE:
            self.add(counts)

    def add_rows(self, side, table):
        if side == ITEM_SIDE:
            self.add(table)

    def add_directions(self, side, by_direction):
        if side == ITEM_SIDE:
            self.add(by_direction)

    def add_columns(self, side, block, coupling, bias):  # noqa: ARG002
        if side == USER_SIDE:
            self.add(coupling)
            self.add(bias)

    def add_shared(self, side, hidden_bias, level_bias, link):
        self.add(level_bias)
        if side == USER_SIDE:
            self.add(hidden_bias)
            self.add(link)


def of_users(ratings, users):
    """The ratings of these users, who are numbered anew."""
    own = ratings.by_user.rows_of(users)
    return CSRPair(*with_transpose(own, ratings.by_item.n_rows))


def with_users(machine, users):
    """The machine with the parameters of these users alone."""
    copy = referee.copied(machine)
    own = copy.item_side.parameters
    own = own._replace(rating_bias=own.rating_bias[users], coupling=own.coupling[users])
    links = referee.linked([], len(users))
    side = Side(own, copy.item_side.n_hidden, links, copy.item_side.unknown_bias)
    return Machine(copy.features, copy.level_bias, copy.user_side, side)


def trained(machine, ratings, cuts, counts, learner, engine, sizes, scored):
    """Three epochs over blocks that all know: of so many rows and ratings, and wide columns."""
    blocks = lay_out(ratings, cuts, machine.features.group, Scratch())
    orders = [cut.order(rows.n_rows) for cut, rows in zip(cuts, ratings, strict=True)]
    sides = []
    for number in (USER_SIDE, ITEM_SIDE):
        side, of_columns = machine.sides[number], counts[number]
        if not engine.is_whole:
            blocks[number] = [
                for_all_workers(
                    block,
                    *(
                        whole[:2]
                        if number == USER_SIDE
                        else (block.entries.column, block.entries.width)
                    ),
                    *whole[2:],
                )
                for block, whole in zip(blocks[number], sizes[number], strict=True)
            ]
        smoothing = machine.features.smoothing
        n_groups, n = len(smoothing), len(machine.level_bias)
        tables = Tables(
            smoothing, smoothing, machine.features.pair, np.zeros((side.n_columns, n)),
            np.zeros((1, n_groups, side.parameters.coupling.shape[2])),
        )  # fmt: skip
        sides.append(
            SideTraining(
                side,
                ratings[number],
                of_columns,
                blocks[number],
                orders[1 - number],
                learner,
                tables,
                machine.features.group,
                10 + number,
                2,
                bias_precision=1.0,
                co_occurrence=np.zeros((side.n_columns, 0)),
                number=number,
                engine=engine,
            )
        )
    velocity = np.zeros_like(machine.level_bias)
    objective = [
        side.learn(epoch, machine.level_bias, velocity, scored)
        for epoch in range(3)
        for side in sides
    ]
    return np.array(objective)


@pytest.mark.parametrize("kind", ["ordinal", "categorical"])
def test_workers_learn_what_one_learns(kind):
    rng = np.random.default_rng(4)
    machine = referee.random_machine(
        rng, kind, "joint", "items", hidden=(3, 2), n_users=N_USERS, n_items=N_ITEMS,
        item_pairs=[(0, 3), (2, 7), (7, 14)], spread=0.3,
    )  # fmt: skip
    n = machine.features.n_levels
    table = referee.random_table(rng, gaussian=False, n_users=N_USERS, n_items=N_ITEMS)
    table[7] = np.nan
    ratings = referee.orientations(table, machine)
    learner = PseudoLikelihood(block_rows=9, ratings_per_unit=0.0)
    counts = [np.diff(ratings[1 - number].start) for number in (USER_SIDE, ITEM_SIDE)]
    cuts = [
        cut_rows(counts[1 - number], len(counts[number]), learner.optimiser, number)
        for number in (USER_SIDE, ITEM_SIDE)
    ]
    whole = referee.copied(machine)
    n_ratings = len(ratings.by_user.column)
    expected = trained(whole, ratings, cuts, counts, learner, LOCAL, None, np.zeros((n_ratings, n)))

    laid_out = lay_out(ratings, cuts, machine.features.group, Scratch())
    sizes = [
        [(b.entries.column, b.entries.width, b.n_rows, b.n_ratings) for b in blocks]
        for blocks in laid_out
    ]
    owner = rng.integers(WORKERS, size=N_USERS)
    barrier, tables = threading.Barrier(WORKERS), [None] * WORKERS
    machines, found = [None] * WORKERS, np.zeros((WORKERS, len(expected)))
    errors = []

    def work(worker):
        try:
            users = np.flatnonzero(owner == worker)
            renamed = np.cumsum(owner == worker, dtype=np.int32) - 1
            blocks = np.split(cuts[USER_SIDE].row, cuts[USER_SIDE].first[1:-1])
            mine = [block[owner[block] == worker] for block in blocks]
            first = np.concatenate([[0], np.cumsum([len(block) for block in mine])])
            own_cut = Cut(renamed[np.concatenate(mine)], first)
            own = of_users(ratings, users)
            machines[worker] = with_users(machine, users)
            scored = np.zeros((len(own.by_user.column), n))
            engine = Together(worker, barrier, tables)
            of_columns = [counts[USER_SIDE], counts[ITEM_SIDE][users]]
            found[worker] = trained(
                machines[worker], own, [own_cut, cuts[ITEM_SIDE]], of_columns, learner, engine,
                sizes, scored,
            )  # fmt: skip
        except BaseException as error:
            errors.append(error)
            barrier.abort()
            raise

    team = [threading.Thread(target=work, args=(worker,)) for worker in range(WORKERS)]
    for one in team:
        one.start()
    for one in team:
        one.join()
    assert not errors
    np.testing.assert_allclose(found.sum(axis=0), expected, rtol=1e-9)
    for worker, one in enumerate(machines):
        users = np.flatnonzero(owner == worker)
        np.testing.assert_allclose(one.level_bias, whole.level_bias, rtol=1e-9, atol=1e-12)
        for a, b in zip(one.user_side.parameters, whole.user_side.parameters, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-12)
        own, all_users = one.item_side.parameters, whole.item_side.parameters
        np.testing.assert_allclose(own.hidden_bias, all_users.hidden_bias, rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(own.coupling, all_users.coupling[users], rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(
            own.rating_bias, all_users.rating_bias[users], rtol=1e-9, atol=1e-12
        )
    assert np.abs(whole.item_side.parameters.coupling - machine.item_side.parameters.coupling).max()


def test_ratings_of_workers_are_those_of_all():
    """The split that the test above rests on."""
    rng = np.random.default_rng(4)
    machine = referee.random_machine(rng, "ordinal", "joint", n_users=9, n_items=5)
    ratings = referee.orientations(
        referee.random_table(rng, gaussian=False, n_users=9, n_items=5), machine
    )
    part = of_users(ratings, np.array([1, 4, 8]))
    assert isinstance(part.by_user, CSR)
    np.testing.assert_array_equal(part.by_user.columns_of(1), ratings.by_user.columns_of(4))
