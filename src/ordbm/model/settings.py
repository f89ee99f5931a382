"""What an OrdinalBM can be told, and the presets that fill in what it is not told."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any, Literal, get_args

from ordbm.errors import SettingsError
from ordbm.model.features import FeatureKind
from ordbm.model.neighbours import BUDGET
from ordbm.runtime.checks import check_amount, check_choice, check_count

HIDDEN = (25, 100)  # the item side gains more from them
MANY = 500_000  # ratings from which on twice as many hidden units pay
MOST_MEMBERS = 8
LEARNT_AT_ONCE = 16_000_000  # ratings times members, beyond which there are fewer members
MOST_COUPLINGS = 300_000_000  # of all members together, again beyond which there are fewer

Sides = Literal["user", "item", "joint"]


@dataclass(frozen=True)
class Settings:
    """The shape of a machine and how it is learnt; the defaults are meant to serve all data.

    `resolved` fills in what follows the number of ratings.
    """

    features: FeatureKind = "ordinal"
    sides: Sides = "joint"
    hidden: int | tuple[int, int] | None = None  # by the number of ratings
    item_links: int = 100
    user_links: int = 0
    link_shrinkage: float = 100.0
    link_support: int = 5
    link_budget: float = BUDGET
    learner: Any = "pl"
    epochs: int = 20
    patience: int = 3  # 0: never stop early
    members: int | None = None  # by the number of ratings
    presence: bool = True
    presence_precision: float | None = None  # by the number of users
    presence_budget: float = 1e11
    seed: int = 0
    threads: int | None = None
    dtype: Literal["float32", "float64"] = "float32"

    def __post_init__(self) -> None:
        for name, known in (("features", FeatureKind), ("sides", Sides)):
            check_choice(name, getattr(self, name), get_args(known))
        check_choice("dtype", self.dtype, ("float32", "float64"))
        for name in ("item_links", "user_links", "epochs", "patience", "seed"):
            check_count(name, getattr(self, name))
        if self.seed >= 2**62:
            raise SettingsError(f"seed={self.seed!r}: must be below 2**62")
        check_count("link_support", self.link_support, least=2)
        for size in self.hidden_sizes:
            check_count("hidden", size)
        for name in ("members", "threads"):
            if getattr(self, name) is not None:
                check_count(name, getattr(self, name), least=1)
        if not isinstance(self.presence, bool):
            raise SettingsError(f"presence={self.presence!r}: use True or False")
        for name in ("link_shrinkage", "link_budget", "presence_budget"):
            check_amount(name, getattr(self, name))
        if self.presence_precision is not None:
            check_amount("presence_precision", self.presence_precision)

    @property
    def hidden_sizes(self) -> tuple[int, int]:
        """Hidden units of the user side and of the item side, before `sides` has its say."""
        if self.hidden is None:
            return HIDDEN
        if isinstance(self.hidden, tuple | list):
            if len(self.hidden) != 2:
                raise SettingsError(f"hidden={self.hidden!r}: a number, or (user side, item side)")
            return self.hidden[0], self.hidden[1]
        return self.hidden, self.hidden

    def resolved(self, n_ratings: int, levels: tuple[int, int] = (0, 0)) -> Settings:
        """The same for this many ratings, hidden units and members included.

        `levels` are those of all items, which a user's hidden unit is coupled with, and of all
        users.
        """
        scale = 2 if n_ratings >= MANY else 1
        hidden = (scale * HIDDEN[0], scale * HIDDEN[1]) if self.hidden is None else self.hidden
        sized = replace(self, hidden=hidden)
        if self.members is not None:
            return sized
        couplings = sum(
            n_levels * n_hidden
            for side, n_levels, n_hidden in zip(
                ("user", "item"), levels, sized.hidden_sizes, strict=True
            )
            if self.sides in (side, "joint")
        )
        affordable = (
            LEARNT_AT_ONCE // max(n_ratings, 1),
            MOST_COUPLINGS // max(couplings, 1),
        )
        return replace(sized, members=max(1, min(MOST_MEMBERS, *affordable)))


PRESETS: dict[str, dict[str, Any]] = {
    "default": {},
    # Section 4.1: 20 hidden units, top 100 positive Pearson neighbours on both sides, CD-1 inside
    # the alternation, blocks of 100, rate 0.1, N(0, 0.01): the last four are the learner's own.
    "paper": {
        "hidden": 20,
        "item_links": 100,
        "user_links": 100,
        "link_shrinkage": 0.0,
        "link_support": 3,
        "learner": "structured",
        "members": 1,
        "presence": False,
    },
}


def settings_of(preset: str, **told: Any) -> Settings:
    """The preset's settings with those that were told (not None) in their place."""
    check_choice("preset", preset, tuple(PRESETS))
    known = {field.name for field in fields(Settings)}
    unknown = sorted(set(told) - known)
    if unknown:
        raise SettingsError(
            f"unknown setting {unknown[0]!r}: use one of {', '.join(sorted(known))}"
        )
    chosen = {name: value for name, value in told.items() if value is not None}
    return Settings(**{**PRESETS[preset], **chosen})
