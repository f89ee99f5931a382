"""The explanation of one prediction, in ids and words."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple

import numpy as np
from scipy.special import expit

from ordbm.data.csr import CSR
from ordbm.data.scale import RatingScale, Scale
from ordbm.errors import SettingsError
from ordbm.explain.attribution import Attribution, Share, attribution, distribution_of
from ordbm.explain.pair_terms import Pair, Terms, pair_of
from ordbm.inference.conditioned import ConditionedMachine
from ordbm.inference.distributions import LevelDistribution, RatingDistribution
from ordbm.inference.fitted import FittedModel
from ordbm.runtime.checks import check_count
from ordbm.runtime.printable import printable, shown

Kind = Literal[
    "item",
    "user",
    "item_features",
    "user_features",
    "taste",
    "item_link",
    "others",
    "user_link",
    "context",
]

SHOWN_PARTS = 8


class Part(NamedTuple):
    """What one thing did to a prediction, or several ratings of a kind together.

    kind: "item" and "user" are what the machine has learnt of the pair's own item and user;
    "item_features" and "user_features" are what features say of them, where nobody has rated the
    item or the user has rated nothing; "taste" is another rating of the user's, through the user's
    hidden units, and "item_link" one through its item's link to this item; "others" is another
    user's rating of the item, through the item's hidden units, and "user_link" one through its
    user's link to this user. "context" is what the user's ratings of about the time of the
    question, or of such a context, told beside all that. `n_ratings` is how many ratings the
    part stands for; if they are summed up, it has neither id nor rating.
    """

    kind: Kind
    effect: float
    item: Any = None
    user: Any = None
    rating: Any = None
    n_ratings: int = 0


@dataclass(frozen=True, eq=False)
class Explanation:
    """A prediction in parts: `base` plus the effects of all `parts` is `final`.

    On a scale of levels these are log-odds of a rating of `threshold` or more; on a continuous
    scale, where `threshold` is None, they are predicted means. `base` is what is predicted before
    anything is known of the user and the item. Parts with the largest effects come first.
    """

    user: Any
    item: Any
    threshold: Any
    base: float
    final: float
    parts: list[Part]
    distribution: RatingDistribution
    titles: Mapping[Any, str] | None = None

    @property
    def log_odds(self) -> float:
        """log P(rating ≥ threshold) − log P(rating < threshold)."""
        if self.threshold is None:
            raise SettingsError("a continuous scale has no log-odds: use final, the predicted mean")
        return self.final

    def to_dict(self) -> dict[str, Any]:
        """Everything in plain values; ids are as they were given."""
        found = self.distribution
        shape: dict[str, Any] = {"mean": float(found.mean()[0])}
        if isinstance(found, LevelDistribution):
            shape["levels"] = [_name(found.scale, level) for level in range(len(found.scale))]
            shape["proba"] = found.proba[0].tolist()
        else:
            shape["deviation"] = float(found.deviation()[0])
        return {
            "user": self.user,
            "item": self.item,
            "measure": "mean" if self.threshold is None else "log_odds",
            "threshold": self.threshold,
            "base": self.base,
            "final": self.final,
            "parts": [part._asdict() for part in self.parts],
            "distribution": shape,
        }

    def __str__(self) -> str:
        who = "somebody new" if self.user is None else f"user {self.user}"
        mean = f"{self._title(self.item)}, {who}: predicted {self.distribution.mean()[0]:.2f}"
        if self.threshold is None:
            lines = [mean, f"mean: {self.base:.2f} for any rating, {self.final:.2f} for this one"]
        else:
            goal = f"{_rating_text(self.threshold)} or more"
            odds = f"{self.base:+.2f} for any rating, {self.final:+.2f} for this one"
            lines = [f"{mean}; P({goal}) = {expit(self.final):.2f}", f"log-odds of {goal}: {odds}"]
        parts = self._lines()
        lines += [f"  {effect:+.2f}  {words}" for words, effect in parts[:SHOWN_PARTS]]
        rest = parts[SHOWN_PARTS:]
        if rest:
            lines.append(f"  {sum(effect for _, effect in rest):+.2f}  {len(rest):,} smaller parts")
        return "\n".join(map(printable, lines))

    def _lines(self) -> list[tuple[str, float]]:
        """(words, effect), the largest first; a rating's two ways, taste and link, as one."""
        effects: dict[tuple[Any, ...], float] = {}
        for part in self.parts:
            way = part.kind if part.rating is None else part.kind in {"taste", "item_link"}
            key = (way, part.item, part.user, part.rating, part.n_ratings)
            effects[key] = effects.get(key, 0.0) + part.effect
        lines = [(self._words(*key), effect) for key, effect in effects.items()]
        return sorted(lines, key=lambda line: -abs(line[1]))

    def _words(self, way: Kind | bool, item: Any, user: Any, rating: Any, n: int) -> str:
        if way is True:
            return f"a {_rating_text(rating)} for {self._title(item)}"
        if way is False:
            return f"a {_rating_text(rating)} by user {user}"
        return {
            "item": "the item itself",
            "user": "how the user rates",
            "item_features": "what is known of the item",
            "user_features": "what is known of the user",
            "taste": f"{n:,} ratings of the user",
            "item_link": f"{n:,} ratings of the user for linked items",
            "others": f"{n:,} ratings by others",
            "user_link": f"{n:,} ratings by linked users",
            "context": "what the user rated in such a context",
        }[way]

    def _title(self, item: Any) -> str:
        return str((self.titles or {}).get(item, item))


def explanation_of(
    state: FittedModel,
    person: Sequence[ConditionedMachine],
    given: CSR,
    user: Any,
    user_code: int,
    item: Any,
    *,
    threshold: Any,
    n: int | None,
    raters: int,
    titles: Mapping[Any, str] | None,
) -> Explanation:
    """The explanation of a prediction for a user of `person`: the state's evidence, or somebody's.

    `given` are the ratings by user behind that evidence, on their scale.
    The parts are those of all machines together: they have the same ratings and links.

    At most `n` ratings of the user and `raters` of the item by others are listed by themselves.
    """
    if n is not None:
        check_count("n", n)
    check_count("raters", raters)
    item_code = state.item_code(item)
    unit = state.standardiser
    if unit is not None:
        unit = unit.of_user(given.rows_of(np.array([user_code])))
    pairs = [
        pair_of(trained, own, user_code, item_code, state.scale, unit)
        for trained, own in zip(state.conditioned, person, strict=True)
    ]
    if user_code < 0 and item_code < 0 and state.standardiser is None:
        potential = np.log(state.level_shares)  # as `predict` has it
        pairs = [pair._replace(potential=potential) for pair in pairs]
    found = distribution_of(pairs, state.scale)
    if isinstance(found, LevelDistribution):
        level = _threshold_level(found, threshold)
        shares = attribution(pairs, [pair.level >= level for pair in pairs], each_rater=raters > 0)
        chosen = _name(found.scale, level, at_least=True)
    elif threshold is not None:
        raise SettingsError("a continuous scale has no levels: leave threshold out")
    else:
        values = [pair.value for pair in pairs]
        shares, chosen = attribution(pairs, values, each_rater=raters > 0), None
    owners = _owners(state, given, user_code, item_code)
    return Explanation(
        user, item, chosen, shares.base, shares.final,
        _parts(state, given, pairs[0], shares, n, raters, owners), found, titles,
    )  # fmt: skip


def with_context(explanation: Explanation, found: RatingDistribution) -> Explanation:
    """The same with one part more, for what the time of the question made of the distribution."""
    if not isinstance(found, LevelDistribution):
        return explanation
    level = _threshold_level(found, explanation.threshold)
    above = float(found.proba[0, level:].sum())
    final = float(np.log(above) - np.log1p(-above))
    part = Part("context", final - explanation.final)
    parts = sorted([*explanation.parts, part], key=lambda part: -abs(part.effect))
    return replace(explanation, final=final, parts=parts, distribution=found)


def _threshold_level(found: LevelDistribution, threshold: Any) -> int:
    """The level of a threshold; by default the one that splits the predicted mass most evenly."""
    if len(found.scale) == 1:
        raise SettingsError("a scale of one level leaves nothing to explain")
    if threshold is None:
        above = 1.0 - np.cumsum(found.proba[0])[:-1]
        return int(np.abs(above - 0.5).argmin()) + 1
    level = int(found.scale.codes([threshold])[0])
    if level == 0:
        raise SettingsError(
            f"threshold={shown(threshold)}: every rating is at least the lowest level; use a "
            "higher one"
        )
    return level


def _parts(
    state: FittedModel,
    given: CSR,
    pair: Pair,
    shares: Attribution,
    n: int | None,
    raters: int,
    owners: tuple[Kind, Kind],
) -> list[Part]:
    """`owners` are what the parameters of the user and of the item come from."""
    parts: list[Part] = []
    if pair.user_terms is not None and shares.user_share is not None:
        of_user = _ratings("taste", "item_link", pair.user_terms, shares.user_share)
        parts += _standing(owners[1], "user_features", pair.user_terms, shares.user_share)
        parts += _listed(of_user, n, state, given, "item")
    if pair.item_terms is not None and shares.item_share is not None:
        parts += _standing(owners[0], "item_features", pair.item_terms, shares.item_share)
        if raters:
            of_others = _ratings("others", "user_link", pair.item_terms, shares.item_share)
            parts += _listed(of_others, raters, state, state.given.by_item, "user")
        else:
            parts += _summed(pair.item_terms, shares.item_share)
    return sorted(_joined(parts), key=lambda part: -abs(part.effect))


def _owners(state: FittedModel, given: CSR, user: int, item: int) -> tuple[Kind, Kind]:
    """Whether the user's and the item's own parameters are learnt, or follow from features."""
    described_user = user >= 0 and not len(given.columns_of(user))
    described_item = item >= 0 and not state.rated_items[item]
    return (
        "user_features" if described_user else "user",
        "item_features" if described_item else "item",
    )


def _joined(parts: Iterable[Part]) -> list[Part]:
    """What features say through a column and through hidden units, as one part."""
    found: dict[Any, Part] = {}
    for number, part in enumerate(parts):
        key = part.kind if part.kind in {"item_features", "user_features"} else number
        before = found[key].effect if key in found else 0.0
        found[key] = part._replace(effect=before + part.effect)
    return list(found.values())


def _standing(own: Kind, of_row: Kind, terms: Terms, share: Share) -> list[Part]:
    """Of the column by itself, and of the features of the row."""
    found = [Part(own, share.standing)] if terms.has_standing else []
    return [*found, Part(of_row, share.features)] if terms.features.any() else found


def _ratings(taste: Kind, link: Kind, terms: Terms, share: Share) -> list[tuple[Kind, float, int]]:
    """(kind, effect, position in the rows) of every rating, the largest effect first."""
    found: list[tuple[Kind, float, int]] = []
    if len(terms.hidden_bias):
        found += [(taste, *line) for line in zip(share.taste.tolist(), terms.place, strict=True)]
    places = terms.place[terms.linked]
    found += [(link, *line) for line in zip(share.link.tolist(), places, strict=True)]
    return sorted(found, key=lambda line: -abs(line[1]))


def _summed(terms: Terms, share: Share) -> Iterable[Part]:
    """The item's other ratings by kind, none of them by itself."""
    if len(terms.hidden_bias) and len(terms.place):
        yield Part("others", float(share.taste.sum()), n_ratings=len(terms.place))
    if len(terms.linked):
        yield Part("user_link", float(share.link.sum()), n_ratings=len(terms.linked))


def _listed(
    ratings: list[tuple[Kind, float, int]], n: int | None, state: FittedModel, given: CSR, of: str
) -> Iterable[Part]:
    """The first n as parts of their own, the others summed by kind."""
    cut = len(ratings) if n is None else n
    for kind, effect, place in ratings[:cut]:
        column, rating = int(given.column[place]), _rating(state.scale, given, place)
        if of == "item":
            yield Part(kind, effect, item=state.items[column], rating=rating, n_ratings=1)
        else:
            yield Part(kind, effect, user=state.users[column], rating=rating, n_ratings=1)
    rest = ratings[cut:]
    for kind in dict.fromkeys(kind for kind, _, _ in rest):
        effects = [effect for other, effect, _ in rest if other == kind]
        yield Part(kind, float(np.sum(effects)), n_ratings=len(effects))


def _rating(scale: Scale, given: CSR, place: int) -> Any:
    """The rating at a position, as it was given."""
    if isinstance(scale, RatingScale):
        return _name(scale, int(given.level[place]))
    return float(given.value[place])


def _name(scale: RatingScale, level: int, *, at_least: bool = False) -> Any:
    """A level's label or number; for a bin and `at_least`, the number it starts from."""
    if scale.labels is not None:
        return scale.labels[level]
    return float((scale.edges if at_least and scale.edges is not None else scale.values)[level])


def _rating_text(rating: Any) -> str:
    return rating if isinstance(rating, str) else f"{rating:g}"
