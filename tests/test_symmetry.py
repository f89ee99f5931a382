"""What must not matter: which side is which, the number of threads, names of users and items."""

from dataclasses import replace

import numpy as np
import pytest

import referee
from ordbm.inference.conditioned import ConditionedMachine
from ordbm.kernels.structures import Tables
from ordbm.model.learners import LEARNERS, PseudoLikelihood
from ordbm.model.machine import Machine
from ordbm.runtime.scratch import Scratch
from ordbm.training import plan
from ordbm.training.alternation import Trainer
from ordbm.training.plan import cut_rows, lay_out
from ordbm.training.side_pass import SideTraining

N_USERS, N_ITEMS = 23, 17
LEARNER_NAMES = ("pl", "cd", "structured")


def random_pairs(rng, n_columns, n_pairs):
    pairs = {
        tuple(sorted(rng.choice(n_columns, 2, replace=False).tolist())) for _ in range(n_pairs)
    }
    return sorted(pairs)


def larger_case(kind, sides, links, *, n_users=N_USERS, n_items=N_ITEMS, dtype=np.float64, seed=0):
    """A case with enough ratings for several blocks; its link weights start at zero."""
    rng = np.random.default_rng(seed)
    machine = referee.random_machine(
        rng, kind, sides, links, hidden=(3, 2), n_users=n_users, n_items=n_items, spread=0.2,
        item_pairs=random_pairs(rng, n_items, 3 * n_items),
        user_pairs=random_pairs(rng, n_users, 3 * n_users), link_spread=0.0, dtype=dtype,
    )  # fmt: skip
    gaussian = kind == "gaussian"
    table = referee.random_table(rng, gaussian=gaussian, n_users=n_users, n_items=n_items)
    return referee.Case(machine, referee.orientations(table, machine), table)


def all_arrays(machine):
    sides = [side.parameters for side in machine.sides if side is not None]
    return [machine.level_bias, *(array for side in sides for array in side)]


def swapped(case):
    """The same machine with users and items exchanged."""
    machine = case.machine
    other = Machine(machine.features, machine.level_bias, machine.item_side, machine.user_side)
    table = case.table.T.copy()
    return referee.Case(other, referee.orientations(table, other), table)


# Items on R are users on R'


@pytest.mark.parametrize("learner", LEARNER_NAMES)
@pytest.mark.parametrize("kind", referee.KINDS)
def test_learning_the_item_side_is_learning_the_user_side_of_the_transpose(kind, learner):
    case = larger_case(kind, "item", "users")
    other = swapped(case)
    features = case.machine.features
    found = []
    for here, number in ((case, 1), (other, 0)):
        machine = referee.copied(here.machine)
        n_columns, n = machine.sides[number].n_columns, features.n_levels
        mean = np.linspace(-1.0, 1.0, n_columns * n).reshape(n_columns, n)
        coupling_mean = np.linspace(-0.1, 0.1, machine.sides[number].parameters.coupling.size)
        tables = Tables(
            features.smoothing, features.smoothing, features.pair, mean,
            coupling_mean.reshape(machine.sides[number].parameters.coupling.shape),
        )  # fmt: skip
        rows, across = here.ratings[number], here.ratings[1 - number]
        own = replace(LEARNERS[learner], block_rows=7)
        cuts = [None, None]
        cuts[number] = cut_rows(np.diff(rows.start), n_columns, own.optimiser, 5)
        training = SideTraining(
            machine.sides[number], rows, np.diff(across.start),
            lay_out(here.ratings, cuts, features.group, Scratch())[number], np.arange(n_columns),
            own, tables, features.group, 5, 1,
            bias_precision=0.5, co_occurrence=np.zeros((n_columns, 0)),
        )  # fmt: skip
        velocity = np.zeros_like(machine.level_bias)
        objectives = [
            training.learn(epoch, machine.level_bias, velocity, np.zeros((0, n)))
            for epoch in range(2)
        ]
        found.append([np.array(objectives), *all_arrays(machine)])
    for one, two in zip(*found, strict=True):
        np.testing.assert_array_equal(one, two)
    assert np.abs(found[0][-1]).max() > 0  # links, that started at zero


@pytest.mark.parametrize("kind", referee.KINDS)
def test_a_whole_trainer_agrees_on_the_transpose(kind):
    """The trainer shuffles each side by its own seed: in one block, the same but for rounding."""
    case = larger_case(kind, "item", "users")
    other = swapped(case)
    learner = PseudoLikelihood(
        block_rows=referee.ONE_BLOCK, response_style_share=0.0
    )  # only users have habits
    found = []
    for here in (case, other):
        machine = referee.copied(here.machine)
        trainer = Trainer(machine, here.ratings, learner)
        objectives = [trainer.epoch(epoch) for epoch in range(2)]
        found.append([np.array(objectives), *all_arrays(machine)])
    for one, two in zip(*found, strict=True):
        np.testing.assert_allclose(one, two, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("kind", ["ordinal", "gaussian"])
def test_chunks_of_columns_change_rounding_only(kind, monkeypatch):
    """Blocks with many chunks before blocks with few: none reads what another has left behind."""
    case = larger_case(kind, "joint", "none")
    found, numbers = [], []
    for entries in (10**9, 4):
        monkeypatch.setattr(plan, "CHUNK_ENTRIES", entries)
        machine = referee.copied(case.machine)
        trainer = Trainer(machine, case.ratings, PseudoLikelihood(block_rows=N_USERS - 2))
        numbers.append({len(one.chunk_column) for one in trainer.sides[0].blocks})
        objectives = [trainer.epoch(epoch) for epoch in range(2)]
        found.append([np.array(objectives), *all_arrays(machine)])
    assert numbers[0] == {2}
    assert len(numbers[1]) > 1
    for one, two in zip(*found, strict=True):
        np.testing.assert_allclose(one, two, rtol=1e-7, atol=1e-10)


def test_no_two_sides_share_their_draws():
    """Sides alike, of ratings that are their own transpose, learn apart by what is drawn alone."""
    rng = np.random.default_rng(0)
    table = np.where(rng.random((12, 12)) < 0.6, rng.integers(3, size=(12, 12)), np.nan)
    table = np.where(np.tri(12, dtype=bool), table, table.T)
    case = referee.case("ordinal", "user", "none", n_users=12, n_items=12)

    def learnt(number, seed):
        machine = referee.copied(case.machine)
        both = Machine(machine.features, machine.level_bias, machine.user_side, machine.user_side)
        trainer = Trainer(both, referee.orientations(table, both), LEARNERS["cd"], seed)
        side = trainer.sides[number]
        side.learn(0, both.level_bias, trainer.level_velocity, trainer.scored[:0])
        return machine.user_side.parameters.coupling.tobytes()

    assert learnt(0, 3) == learnt(0, 3)
    assert len({learnt(number, seed) for number in (0, 1) for seed in range(4)}) == 8


@pytest.mark.parametrize(("kind", "sides", "links"), referee.COMBINATIONS)
def test_predictions_agree_on_the_transpose(kind, sides, links):
    case = larger_case(kind, sides, links)
    other = swapped(case)
    pairs = np.array([*np.ndindex(N_USERS, N_ITEMS), (-1, 2), (3, -1), (-1, -1)])
    one = ConditionedMachine(case.machine, case.ratings, 1)
    two = ConditionedMachine(other.machine, other.ratings, 1)
    for method in ("exact", "mean_field", "mean_field_with_own"):
        np.testing.assert_allclose(
            two.pair_scores(pairs[:, 1], pairs[:, 0], method),
            one.pair_scores(pairs[:, 0], pairs[:, 1], method),
            rtol=1e-12,
            atol=1e-12,
        )
    np.testing.assert_array_equal(one.user_factors(), two.item_factors())
    np.testing.assert_array_equal(one.item_factors(), two.user_factors())


# Bits


def learnt(case, learner, *, threads=1, seed=0):
    machine = referee.copied(case.machine)
    trainer = Trainer(machine, case.ratings, learner, seed, threads)
    objectives = [trainer.epoch(epoch) for epoch in range(2)]
    return [np.array(objectives), *all_arrays(machine)]


@pytest.mark.parametrize(
    ("kind", "learner"),
    [("ordinal", "pl"), ("ordinal", "cd"), ("ordinal", "structured"), ("gaussian", "pl")],
)
def test_bits_depend_on_the_seed_and_not_on_threads(kind, learner):
    """Joint machines with all links in single precision, with blocks of several chunks."""
    case = larger_case(kind, "joint", "both", n_users=110, n_items=90, dtype=np.float32)
    settings = replace(LEARNERS[learner], block_rows=40)
    first = learnt(case, settings)
    assert all(np.isfinite(array).all() for array in first)
    for threads in (1, 2, 3):
        for one, two in zip(first, learnt(case, settings, threads=threads), strict=True):
            np.testing.assert_array_equal(one, two)
    other = learnt(case, settings, seed=1)
    assert all((one != two).any() for one, two in zip(first, other, strict=True) if one.size > 3)


# Names


@pytest.mark.parametrize("kind", referee.KINDS)
def test_relabelling_users_and_items_permutes_predictions(kind):
    """Learnt in one block by pseudo-likelihood, where nothing is random, up to rounding."""
    case = larger_case(kind, "joint", "both")
    rng = np.random.default_rng(9)
    new_user, new_item = rng.permutation(N_USERS), rng.permutation(N_ITEMS)  # old -> new
    renamed = Machine(
        case.machine.features,
        case.machine.level_bias,
        relabelled(case.machine.user_side, new_item),
        relabelled(case.machine.item_side, new_user),
    )
    table = np.empty_like(case.table)
    table[np.ix_(new_user, new_item)] = case.table
    other = referee.Case(renamed, referee.orientations(table, renamed), table)
    users, items = np.array(list(np.ndindex(N_USERS, N_ITEMS))).T
    found = []
    for here, ask in ((case, (users, items)), (other, (new_user[users], new_item[items]))):
        machine = referee.copied(here.machine)
        trainer = Trainer(machine, here.ratings, PseudoLikelihood(block_rows=referee.ONE_BLOCK))
        for epoch in range(3):
            trainer.epoch(epoch)
        found.append(ConditionedMachine(machine, here.ratings, 1).pair_scores(*ask))
    np.testing.assert_allclose(found[1], found[0], rtol=1e-8, atol=1e-10)


def relabelled(side, new_name):
    """A side whose column c is now called new_name[c]; its link weights are zero."""
    p = side.parameters
    old_name = np.argsort(new_name)
    pairs = [(new_name[i], new_name[j]) for i, j, _ in referee.edges(side.links)]
    assert not p.link_weight.any()
    return replace(
        side,
        parameters=p._replace(
            rating_bias=p.rating_bias[old_name].copy(), coupling=p.coupling[old_name].copy()
        ),
        links=referee.linked(pairs, len(new_name)),
    )
