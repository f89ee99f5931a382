"""Rules by which numbers follow the data: settings that nobody needs to set.

They decide what a machine becomes, so they are part of what makes two runs the same. `why` has the
reason of each value; measured ones are in `docs/results/what-moved-accuracy.md`.
"""

from __future__ import annotations

from dataclasses import dataclass

from ordbm.model.declaration import Checked, setting, with_reasons


@with_reasons
@dataclass(frozen=True, kw_only=True)
class SizeRules(Checked):
    """How many hidden units and members a model has, by the number of ratings."""

    user_hidden: int = setting(25, "Hidden units of each user.")
    item_hidden: int = setting(
        100,
        "Hidden units of each item.",
        why="that side gains more: moved, (25, 100) against 50 on each",
    )
    many_ratings: int = setting(
        500_000, "Ratings from which on there are more hidden units.",
        why="measured: twice as many gain on ML-1M and lose on ML-100K",
    )  # fmt: skip
    times_hidden: int = setting(2, "How many times more there are then.", least=1)
    most_members: int = setting(
        8, "Members at most.", least=1, why="measured: squared errors fall as a + b / members"
    )
    learnt_at_once: int = setting(
        16_000_000, "Ratings times members, beyond which there are fewer members.", why="time"
    )
    most_couplings: int = setting(
        300_000_000, "Couplings of all members, beyond which there are fewer.", why="memory"
    )
    own_levels: int = setting(
        20, "Levels of a scale up to which every level has couplings of its own.", least=1,
        why="time: an epoch takes it in proportion to them",
    )  # fmt: skip
    level_groups: int = setting(
        12, "Groups of neighbouring levels that share couplings, where there are more levels.",
        least=1, why="couplings are smooth along a scale; simulated: benchmarks/levels.py",
    )  # fmt: skip

    def groups(self, n_levels: int) -> int:
        """How many levels of a scale couplings tell apart."""
        return n_levels if n_levels <= self.own_levels else min(n_levels, self.level_groups)


@with_reasons
@dataclass(frozen=True, kw_only=True)
class EmbeddingRules(Checked):
    """How many directions of co-occurrence couplings follow, and how far."""

    columns_per_direction: int = setting(
        20, "Columns of each side per direction, at least.", least=1,
        why="directions could tell apart any few columns",
    )  # fmt: skip
    ratings_per_direction: int = setting(
        3_000, "Ratings per direction, at least.", least=1, why="measured: FilmTrust"
    )
    most_per_row: float = setting(
        150.0, "A row's ratings, on average, up to which directions have their whole weight.",
        above=0,
        why="hidden units add up what all of a row's ratings say: where these are many, what they "
        "have in common would drown what each says; measured: ML-1M",
    )  # fmt: skip
    exponent: float = setting(
        4.0, "Of the share by which rows have more ratings: their weight beyond.",
        why="at 235 ratings a row a quarter of the weight serves, half harms; measured: ML-1M",
    )  # fmt: skip
    least_weight: float = setting(
        0.1, "Weight below which there are no directions.", why="not worth their time and memory"
    )
    spare: int = setting(8, "Directions followed beside those that are kept.", why="convergence")
    rounds: int = setting(6, "Of subspace iteration.", least=1, why="convergence")


@with_reasons
@dataclass(frozen=True, kw_only=True)
class ResponseStyleRules(Checked):
    """Expectation maximisation of how users' own level potentials vary."""

    most_people: int = setting(1_000, "Users looked at, evenly spaced.", least=1, why="time")
    most_work: int = setting(
        20_000_000, "Ratings looked at, times levels squared.", least=1, why="time"
    )
    rounds: int = setting(
        10, "Of expectation maximisation, each with a Newton step.", why="convergence"
    )
    longest_step: float = setting(1.0, "Of a potential in a Newton step.", above=0, why="stability")
    share_weight: float = setting(
        20.0, "Ratings by which an item's level shares are drawn to those of all.", above=0,
        why="shares of a few ratings are noise",
    )  # fmt: skip
    guess_variance: float = setting(
        0.25, "Variance of the first guess, half by order and half alike.", above=0,
        why="a start that few users suffice to leave",
    )  # fmt: skip
    guess_weight: float = setting(
        2.0, "Users per level who count as if they were like the first guess.", above=0,
        why="keeps the covariance regular where users are few",
    )  # fmt: skip
    steepest: float = setting(
        2.0, "Largest variance that a step may follow, in units of the precision.", above=0,
        why="longer steps diverge",
    )  # fmt: skip


@with_reasons
@dataclass(frozen=True, kw_only=True)
class PresenceRules(Checked):
    """How it is learnt which items get rated."""

    most_linked: int = setting(4096, "Items, the most rated ones, with links.", why="memory")
    least_linked: int = setting(
        10, "Ratings of an item that has links.", why="links of fewer follow chance"
    )
    iterations: int = setting(
        10, "Of L-BFGS.", why="ending early keeps links that the data hardly show near zero"
    )
    levellings: int = setting(
        2, "Of biases after that.", why="expected counts are then those that were seen"
    )
    precision: float = setting(
        8.0, "Of links, times the cube root of the number of users.",
        why="more users show weaker links, and more of them by chance",
    )  # fmt: skip
    user_precision: float = setting(1.0, "Of a user's bias.", above=0, why="one rating's worth")
    unseen_apart: int = setting(
        10, "Of so many users one is kept apart to recalibrate by.", least=2,
        why="nine tenths learn nearly what all do",
    )  # fmt: skip
    most_unseen: int = setting(1_000, "Users kept apart at most.", least=1, why="time")
    cells: int = setting(10, "Of the recalibration map between two knots.", least=1, why="rounding")
    smoothness: float = setting(
        20.0, "Precision by which the map rises alike at neighbouring knots.", above=0,
        why="knots that few pairs reach follow their neighbours",
    )  # fmt: skip
    height: float = setting(
        1.0, "Precision by which the map rises by nothing.", above=0, why="where nothing is seen"
    )
    least_slope: float = setting(0.1, "Of the map.", above=0, why="it must keep the order")


@with_reasons
@dataclass(frozen=True, kw_only=True)
class FeatureRules(Checked):
    """How it is learnt what features of users and items say."""

    epochs_without: int = setting(
        3, "Epochs before biases of what has ratings are expected where features say.",
        why="biases that have hardly moved would show effects to be small",
    )  # fmt: skip
    centre: float = setting(
        0.05, "Variance of effects on these biases by that of the biases, to start from.", above=0
    )
    least_centre: float = setting(
        1e-4, "The same below which a column is not heard.", why="as good as nothing"
    )
    most_ratings: int = setting(60_000, "Ratings looked at.", least=1, why="time")
    alike: float = setting(
        0.1, "What a column's ratings have in common that features do not say, per rating.",
        why="a bias's curvature per rating by its precision",
    )  # fmt: skip
    rounds: int = setting(
        4, "Of learning how far features are trusted.", least=1, why="convergence"
    )
    iterations: int = setting(10, "Of L-BFGS in each round.", least=1, why="convergence")
    bias: float = setting(0.2, "Deviation of effects on biases, to start from.", above=0)
    coupling: float = setting(0.02, "The same of effects on couplings.", above=0)
    hidden: float = setting(0.5, "The same of effects on hidden inputs.", above=0)
    constant: float = setting(
        10.0, "How many times larger the constant's are, which are not learnt.", above=0,
        why="what all without ratings have in common is soon known",
    )  # fmt: skip
    least: float = setting(1e-4, "Of these deviations.", above=0, why="as good as nothing")
    most: float = setting(10.0, "Of these deviations.", above=0, why="as good as free")


@with_reasons
@dataclass(frozen=True, kw_only=True)
class StructureRules(Checked):
    """How `structure="auto"` finds sizes."""

    folds: int = setting(
        10, "Of the training ratings: each is validation for what learns from the others.", least=2,
        why="nine tenths learn nearly what all do",
    )  # fmt: skip
    validation_ratings: int = setting(
        20_000, "Validation ratings wanted: small data are looked at in several folds.", least=1,
        why="standard errors of differences in log-loss are then about 0.0005",
    )  # fmt: skip
    most_folds: int = setting(3, "Folds looked at, at most.", least=1, why="time")
    most_failures: int = setting(
        2, "Halves in a row that fail, after which no smaller ones are tried.", least=1,
        why="time; a size may learn badly between two that do not",
    )  # fmt: skip
    times_larger: int = setting(
        1, "Hidden units and directions that are tried, at most so many times those of the start.",
        least=1, why="time and memory; what is found is to be smaller",
    )  # fmt: skip
    least_gain: float = setting(
        0.002, "Log-loss by which twice as many hidden units or directions have to be better.",
        why="twice the time and memory; about what `times_hidden` gives on ML-1M, measured",
    )  # fmt: skip
    false_share: float = setting(
        0.05, "False discovery rate of links that are taken one by one.", above=0, below=1,
        why="the usual level; Benjamini and Yekutieli's, whatever depends on what",
    )  # fmt: skip
    likely_share: float = setting(
        0.5, "The same of those that are tried next.", above=0, below=1,
        why="whatever depends on what; far fewer are false where tests hardly depend on each other",
    )  # fmt: skip
