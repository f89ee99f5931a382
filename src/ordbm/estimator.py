"""OrdinalBM: the front door. Ids, scales and settings are handled here; the work is elsewhere."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, Literal, NamedTuple, Self

import narwhals as nw
import numpy as np
from numpy.typing import NDArray

from ordbm.encoding import encoded, log_frequencies, standard_of
from ordbm.errors import NotFittedError, RatingsError, SettingsError
from ordbm.evaluation import scores
from ordbm.features import FeatureKind, Standard, features
from ordbm.ids import IdMap
from ordbm.inference.distribution import (
    Decode,
    LevelDistribution,
    RatingDistribution,
    decode,
    predicted,
)
from ordbm.inference.evidence import Evidence, Method
from ordbm.inference.joint import ENUMERATED, JointDistribution, joint_levels
from ordbm.inference.newcomer import newcomer_evidence
from ordbm.learning.learners import Learner, PseudoLikelihood, learner_of
from ordbm.learning.loop import Callback, EpochRecord, train
from ordbm.learning.trainer import Trainer
from ordbm.machine import Machine, Orientations, Side, new_side
from ordbm.neighbours import Links, correlation_links, no_links
from ordbm.parallel import thread_count
from ordbm.ranking import SIMILAR_USERS, By, Catalogue, rated_by, similar_rows
from ordbm.ratings import Ratings, Scale
from ordbm.scale import RatingScale, finite_numbers
from ordbm.settings import Sides, check_count, settings_of

Ids = Any
Codes = NDArray[np.int32]
Ranked = tuple[int, NDArray[Any], NDArray[Any]]  # a user, items, scores


class Recommendation(NamedTuple):
    """One line of a list: the item, what it was ranked by, and its predicted rating."""

    item: Any
    score: float
    mean: float
    confidence: float


class OrdinalBM:
    """An ordinal Boltzmann machine for ratings.

    features: "ordinal", "categorical" or "gaussian" (taken for continuous ratings if not said).
    sides: "user", "item" or "joint": which sides have hidden units and biases.
    hidden: hidden units per user and per item, a number or (user side, item side).
    item_links, user_links: neighbours per item and per user, 0 for none.
    learner: "pl" (exact pseudo-likelihood), "cd", "structured" (the paper's), or a learner object.
    preset: "default", or "paper" for the settings of its section 4.1; whatever is said goes first.
    link_shrinkage, link_support: a correlation over c common ratings counts by c / (c + shrinkage),
        and not at all below this support.
    link_budget: co-rated pairs that finding links may visit; beyond, it is refused with the cost.
    patience: with validation ratings, epochs without a better log-loss before stopping.
    threads: how many to use (all cores if not said); results do not depend on it.
    """

    def __init__(
        self,
        features: FeatureKind | None = None,
        sides: Sides | None = None,
        hidden: int | tuple[int, int] | None = None,
        item_links: int | None = None,
        user_links: int | None = None,
        learner: str | Learner | None = None,
        epochs: int | None = None,
        seed: int | None = None,
        *,
        preset: str = "default",
        link_shrinkage: float | None = None,
        link_support: int | None = None,
        link_budget: float | None = None,
        patience: int | None = None,
        threads: int | None = None,
        dtype: Literal["float32", "float64"] | None = None,
    ) -> None:
        self.settings = settings_of(
            preset,
            features=features,
            sides=sides,
            hidden=hidden,
            item_links=item_links,
            user_links=user_links,
            learner=learner,
            epochs=epochs,
            seed=seed,
            link_shrinkage=link_shrinkage,
            link_support=link_support,
            link_budget=link_budget,
            patience=patience,
            threads=threads,
            dtype=dtype,
        )
        self.learner = learner_of(self.settings.learner)
        self._features_told = features is not None
        self.history: list[EpochRecord] = []
        self._fitted: _Fitted | None = None

    # -- learning ---------------------------------------------------------------------------------

    def fit(
        self,
        ratings: Ratings,
        validation: Ratings | None = None,
        callbacks: Iterable[Callback] = (),
    ) -> Self:
        """Learn from ratings. With `validation`, the epoch with its best log-loss is kept.

        Each callback is given an `EpochRecord` after every epoch; one that returns True ends the
        training there.
        """
        if not isinstance(ratings, Ratings):
            raise RatingsError(
                f"fit needs ordbm.Ratings, not {type(ratings).__name__}: make them with "
                "ordbm.Ratings(users, items, values) or ordbm.Ratings.from_frame(frame)"
            )
        if not len(ratings):
            raise RatingsError("no ratings to learn from: a hold-out of all ratings leaves none")
        kind = self._feature_kind(ratings)
        scale = ratings.scale
        table = features(kind, len(scale.values) if isinstance(scale, RatingScale) else 1)
        standard = standard_of(ratings, self.learner.residual_unit) if table.is_gaussian else None
        orientations = encoded(ratings, standard)
        machine = self._new_machine(ratings, table, orientations)
        threads = thread_count(self.settings.threads)
        fitted = _Fitted(
            ratings.users, ratings.items, scale, standard, machine, orientations, threads
        )
        trainer = Trainer(machine, orientations, self.learner, self.settings.seed, threads)
        self.history = train(
            trainer,
            self.settings.epochs,
            validate=fitted.validator(validation) if validation is not None else None,
            patience=self.settings.patience,
            callbacks=tuple(callbacks),
        )
        self._fitted = fitted
        return self

    def _feature_kind(self, ratings: Ratings) -> FeatureKind:
        if not ratings.is_continuous or self.settings.features == "gaussian":
            return self.settings.features
        if self._features_told:
            raise SettingsError(
                f"these ratings are continuous, and features={self.settings.features!r} needs "
                "levels: use features='gaussian', or put them into bins with "
                "scale=ordbm.RatingScale.bins(edges)"
            )
        return "gaussian"

    def _new_machine(self, ratings: Ratings, table: Any, orientations: Orientations) -> Machine:
        told = self.settings
        rng = np.random.default_rng(told.seed)
        sides: list[Side | None] = []
        for number, (name, n_links, n_columns) in enumerate(
            (("user", told.item_links, ratings.n_items), ("item", told.user_links, ratings.n_users))
        ):
            present = told.sides in (name, "joint")
            links = self._links(ratings, number, n_links) if n_links else no_links(n_columns)
            sides.append(
                new_side(
                    table,
                    links,
                    told.hidden_sizes[number] if present else 0,
                    has_bias=present,
                    spread=self.learner.spread,
                    rng=rng,
                    dtype=np.dtype(told.dtype),
                )
                if present or links.n_edges
                else None
            )
        level_bias = (
            log_frequencies(orientations.by_user.level, table.n_levels)
            if self.learner.shared_potential
            else np.zeros(table.n_levels)
        )
        return Machine(table, level_bias.astype(told.dtype), sides[0], sides[1])

    def _links(self, ratings: Ratings, side: int, n_links: int) -> Links:
        rows = (ratings.by_user, ratings.by_item)
        scale = ratings.scale
        return correlation_links(
            rows[side],
            rows[1 - side],
            scale.values if isinstance(scale, RatingScale) else None,
            n_neighbours=n_links,
            shrinkage=self.settings.link_shrinkage,
            min_support=max(self.settings.link_support, 2),
            budget=self.settings.link_budget,
            threads=self.settings.threads,
        )

    # -- predicting -------------------------------------------------------------------------------

    def distribution(self, users: Ids, items: Ids, method: Method = "exact") -> RatingDistribution:
        """The predicted distribution of each pair's rating, as an object with mean, median, mode…

        A pair's own rating never enters its prediction. Unknown users and items get what is known
        of the other, or of all ratings.
        """
        return self._state.distribution(*self._codes(users, items), method)

    def predict_proba(
        self, users: Ids, items: Ids, method: Method = "exact"
    ) -> NDArray[np.float64]:
        """P(level) of each pair, (pairs, levels); rows sum to one."""
        found = self.distribution(users, items, method)
        if not isinstance(found, LevelDistribution):
            raise SettingsError(
                "these ratings are continuous and have no levels: use predict_table or "
                "distribution, which give mean and deviation"
            )
        return found.proba

    def predict(
        self, users: Ids, items: Ids, decode: Decode = "mean", method: Method = "exact"
    ) -> NDArray[np.float64]:
        """The mean, median or mode of each pair's predicted distribution."""
        return _decoded(self.distribution(users, items, method), decode)

    def predict_table(
        self,
        users: Ids,
        items: Ids,
        method: Method = "exact",
        backend: Literal["pandas", "polars", "pyarrow"] = "pandas",
    ) -> Any:
        """A frame with a row per pair: ids, mean, median, mode, deviation, confidence, known, p_….

        `backend` is the kind of frame: "pandas", "polars" or "pyarrow".
        """
        user_list, item_list = _aligned(users, items)
        codes = self._codes(user_list, item_list)
        found = self._state.distribution(*codes, method)
        columns: dict[str, Any] = {
            "user": list(user_list),
            "item": list(item_list),
            "mean": found.mean(),
            "median": found.median(),
            "mode": found.mode(),
            "deviation": found.deviation(),
            "confidence": found.confidence(),
            "known_user": codes[0] >= 0,
            "known_item": codes[1] >= 0,
        }
        if isinstance(found, LevelDistribution):
            names = found.scale.labels or [f"{value:g}" for value in found.scale.values]
            columns |= {f"p_{name}": found.proba[:, s] for s, name in enumerate(names)}
        return nw.from_dict(columns, backend=backend).to_native()

    def predict_joint(
        self, users: Ids, items: Ids, *, limit: int = ENUMERATED, draws: int = 20_000, seed: int = 0
    ) -> JointDistribution:
        """The joint distribution of several ratings: of a user, an item, or any set of pairs.

        Up to `limit` configurations are enumerated; beyond that `draws` of them are drawn by Gibbs
        sampling.
        """
        state = self._state
        user_list, item_list = _aligned(users, items)
        user_codes, item_codes = self._codes(user_list, item_list)
        found, weight, exact = joint_levels(
            state.evidence,
            _told_apart(user_codes, user_list),
            _told_apart(item_codes, item_list),
            limit=limit,
            draws=draws,
            seed=seed,
        )
        if state.standard is not None:
            values = state.standard.mean + state.standard.deviation * found
        else:
            assert isinstance(state.scale, RatingScale)
            values = state.scale.values[found.astype(np.int64)]
        return JointDistribution(values, weight, exact)

    # -- ranking ----------------------------------------------------------------------------------

    def recommend(
        self,
        user: Any = None,
        n: int = 10,
        candidates: Iterable[Any] | Literal["all", "similar_users"] | None = None,
        *,
        ratings: Mapping[Any, Any] | None = None,
        by: By = "energy",
    ) -> list[Recommendation]:
        """The n best items for a known user, or for somebody new who gave `ratings` {item: rating}.

        Items already rated are left out, and so are those nobody has rated. `candidates`: all items
        (None or "all"), the items that the 50 most similar users rated ("similar_users", the
        paper's), or item ids. `by`: "energy", the expected decrease of energy (section 2.4), or
        "mean", the expected rating. An unknown user is somebody new without ratings.
        """
        if (user is None) == (ratings is None):
            raise SettingsError("say either who it is for, user=…, or what they rated, ratings={…}")
        if _listed(user) is not None:
            raise SettingsError("recommend is for one user: use recommend_all(users) for several")
        check_count("n", n)
        state = self._state
        if ratings is None:
            code = int(state.codes([user], state.users, state.rated_users)[0])
            evidence, catalogue = state.evidence, state.catalogue
        else:
            code = -1
        if code < 0:
            evidence = self._newcomer(ratings or {})
            catalogue = Catalogue(evidence)
            code = 0
        allowed = self._allowed(candidates, evidence, code)
        values = state.scale.values if isinstance(state.scale, RatingScale) else None
        _, items, found = next(catalogue.top(np.array([code], np.int32), n, by, values, allowed))
        users = np.full(len(items), code, np.int32)
        rating = predicted(evidence, state.scale, state.standard, users, items.astype(np.int32))
        mean = rating.mean()
        listed = [
            Recommendation(state.items[item], *map(float, figures))
            for item, *figures in zip(
                items.tolist(),
                mean if by == "mean" else found,
                mean,
                rating.confidence(),
                strict=True,
            )
        ]
        # The catalogue is scored by mean field; the few that are shown are ordered exactly.
        return sorted(listed, key=lambda line: -line.score)

    def recommend_all(
        self, users: Sequence[Any] | None = None, n: int = 10, by: By = "energy"
    ) -> dict[Any, list[tuple[Any, float]]]:
        """{user: [(item, score), …]}, best first, for all known users or those given.

        Works in blocks of users: there is never a users × items table.
        """
        check_count("n", n)
        state = self._state
        if users is None:
            codes = np.flatnonzero(state.rated_users).astype(np.int32)
        else:
            chosen = _several(users)
            codes = state.codes(chosen, state.users, state.rated_users)
            if (codes < 0).any():
                unknown = list(chosen)[int(np.argmax(codes < 0))]
                raise RatingsError(
                    f"user {unknown!r} has no ratings in this model: use recommend(ratings=…)"
                )
        values = state.scale.values if isinstance(state.scale, RatingScale) else None
        ranked = state.catalogue.top(codes, n, by, values, state.rated_items)
        return {
            state.users[user]: [
                (state.items[item], float(score))
                for item, score in zip(items.tolist(), found, strict=True)
            ]
            for user, items, found in (state.by_exact_mean(ranked) if by == "mean" else ranked)
        }

    def _newcomer(self, given: Mapping[Any, Any]) -> Evidence:
        state = self._state
        items = state.items.codes(list(given))
        if (items < 0).any():
            unknown = list(given)[int(np.argmax(items < 0))]
            raise RatingsError(f"item {unknown!r} is not in this model: leave it out")
        level = np.zeros(len(items), np.uint8)
        value = np.zeros(0, np.float32)
        if isinstance(state.scale, RatingScale) and len(items):
            level = state.scale.codes(list(given.values()), item=list(given))
        if state.standard is not None and len(items):
            raw = (
                state.scale.values[level]
                if isinstance(state.scale, RatingScale)
                else finite_numbers(list(given.values()), item=list(given))
            )
            value = ((raw - state.standard.mean) / state.standard.deviation).astype(np.float32)
            level = np.zeros(len(items), np.uint8)
        prior = self.learner if self.learner.coupling_precision > 0 else PseudoLikelihood()
        return newcomer_evidence(
            state.evidence, items, level, value, prior.coupling_precision, prior.bias_precision
        )

    def _allowed(
        self, candidates: Iterable[Any] | str | None, evidence: Evidence, code: int
    ) -> NDArray[np.bool_]:
        """Which items may be listed, (items,): the candidates that somebody has rated."""
        state = self._state
        if candidates is None or (isinstance(candidates, str) and candidates == "all"):
            return state.rated_items
        if isinstance(candidates, str) and candidates == "similar_users":
            by_user, by_item = state.evidence.ratings
            if evidence is not state.evidence:
                raise SettingsError(
                    "candidates='similar_users' needs a known user: use None for somebody new"
                )
            values = state.scale.values if isinstance(state.scale, RatingScale) else None
            similar = similar_rows(by_user, by_item, code, values, SIMILAR_USERS)
            return rated_by(by_user, similar, len(state.items))
        if isinstance(candidates, str):
            raise SettingsError(
                f"candidates={candidates!r}: use 'all', 'similar_users' or a list of item ids"
            )
        wanted = list(candidates)
        codes = state.items.codes(wanted)
        if (codes < 0).any():
            unknown = wanted[int(np.argmax(codes < 0))]
            raise RatingsError(f"candidate {unknown!r} is not an item of this model: leave it out")
        allowed = np.zeros(len(state.items), bool)
        allowed[codes] = True
        return allowed & state.rated_items

    # -- representations --------------------------------------------------------------------------

    def user_factors(self, users: Ids = None) -> NDArray[np.float32]:
        """P(h = 1 | ratings) of each user, (users, hidden units); P(h = 1) for the unknown."""
        state = self._state
        codes = (
            None if users is None else state.codes(_several(users), state.users, state.rated_users)
        )
        return _rows_or_prior(state.evidence.user_factors(), codes, state.machine.user_side)

    def item_factors(self, items: Ids = None) -> NDArray[np.float32]:
        """P(h = 1 | ratings) of each item, (items, hidden units)."""
        state = self._state
        codes = (
            None if items is None else state.codes(_several(items), state.items, state.rated_items)
        )
        return _rows_or_prior(state.evidence.item_factors(), codes, state.machine.item_side)

    @property
    def machine(self) -> Machine:
        """The fitted parameters."""
        return self._state.machine

    @property
    def evidence(self) -> Evidence:
        """The machine with the ratings it was fitted to, for use below this front door."""
        return self._state.evidence

    @property
    def scale(self) -> Scale:
        return self._state.scale

    @property
    def _state(self) -> _Fitted:
        if self._fitted is None:
            raise NotFittedError("this model has not been fitted: call fit(ratings) first")
        return self._fitted

    def _codes(self, users: Ids, items: Ids) -> tuple[Codes, Codes]:
        state = self._state
        user_list, item_list = _aligned(users, items)
        return (
            state.codes(user_list, state.users, state.rated_users),
            state.codes(item_list, state.items, state.rated_items),
        )

    def __repr__(self) -> str:
        told = self.settings
        kind = told.features if self._fitted is None else self.machine.features.kind
        shape = f"{kind}, {told.sides}, hidden={told.hidden}, item_links={told.item_links}"
        state = "fitted" if self._fitted is not None else "not fitted"
        return f"OrdinalBM({shape}, user_links={told.user_links}; {state})"


class _Fitted:
    """A learnt machine with the ids, scale and ratings it was learnt from."""

    def __init__(
        self,
        users: IdMap,
        items: IdMap,
        scale: Scale,
        standard: Standard | None,
        machine: Machine,
        ratings: Orientations,
        threads: int,
    ) -> None:
        self.users, self.items, self.scale, self.standard = users, items, scale, standard
        self.machine = machine
        self.ratings = ratings
        self.threads = threads
        self.rated_users = np.diff(ratings.by_user.start) > 0
        self.rated_items = np.diff(ratings.by_item.start) > 0

    @cached_property
    def evidence(self) -> Evidence:
        return Evidence(self.machine, self.ratings, self.threads)

    @cached_property
    def catalogue(self) -> Catalogue:
        return Catalogue(self.evidence)

    def codes(self, ids: Ids, known: IdMap, rated: NDArray[np.bool_]) -> Codes:
        """Codes of ids; -1 for the unknown and for those without ratings."""
        codes = known.codes(ids)
        return np.where((codes >= 0) & rated[codes], codes, -1).astype(np.int32)

    def distribution(self, users: Codes, items: Codes, method: Method) -> RatingDistribution:
        return predicted(self.evidence, self.scale, self.standard, users, items, method)

    def by_exact_mean(self, ranked: Iterable[Ranked]) -> Iterator[Ranked]:
        """Lists of the catalogue, ordered and scored by exact means instead of mean-field ones."""
        lists = list(ranked)
        users = [np.full(len(items), user, np.int32) for user, items, _ in lists]
        items = [items.astype(np.int32) for _, items, _ in lists]
        if not lists:
            return
        mean = self.distribution(np.concatenate(users), np.concatenate(items), "exact").mean()
        ends = np.cumsum([len(listed) for listed in items])[:-1]
        for (user, listed, _), score in zip(lists, np.split(mean, ends), strict=True):
            order = np.argsort(-score, kind="stable")
            yield user, listed[order], score[order]

    def validator(self, ratings: Ratings) -> Any:
        """A function that scores a machine on held-out ratings, given what it was trained on."""
        if not isinstance(ratings, Ratings):
            raise RatingsError(f"validation needs ordbm.Ratings, not {type(ratings).__name__}")
        if not len(ratings):
            raise RatingsError("no validation ratings: leave validation out, or hold out more")
        both_continuous = ratings.is_continuous and self.scale.is_continuous
        if ratings.scale != self.scale and not both_continuous:
            raise RatingsError(
                f"validation ratings are on {ratings.scale}, training ratings on {self.scale}: "
                "give both the same scale"
            )
        users = self.codes(ratings.users.ids, self.users, self.rated_users)[ratings.user_codes]
        items = self.codes(ratings.items.ids, self.items, self.rated_items)[ratings.item_codes]

        def validate(machine: Machine) -> dict[str, float]:
            evidence = Evidence(machine, self.ratings, self.threads)
            found = predicted(evidence, self.scale, self.standard, users, items, "exact")
            return scores(found, ratings)

        return validate


def _aligned(users: Ids, items: Ids) -> tuple[Sequence[Any], Sequence[Any]]:
    """Users and items of equal length; a single id stands for as many as needed."""
    user_list, item_list = _listed(users), _listed(items)
    if user_list is None and item_list is None:
        return [users], [items]
    if user_list is None:
        return [users] * len(item_list), item_list
    if item_list is None:
        return user_list, [items] * len(user_list)
    if len(user_list) != len(item_list):
        raise RatingsError(
            f"{len(user_list)} users and {len(item_list)} items: pairs need as many of both, or a "
            "single id on one side"
        )
    return user_list, item_list


def _several(ids: Ids) -> Any:
    """A sequence of ids; a single id is the only one."""
    listed = _listed(ids)
    return [ids] if listed is None else listed


def _told_apart(codes: Codes, ids: Sequence[Any]) -> Codes:
    """Codes in which each unknown id has a number of its own: -1, -2, …."""
    unknown = np.flatnonzero(codes < 0)
    values = list(ids)
    _, number = IdMap.of([values[place] for place in unknown])
    codes[unknown] = -1 - number
    return codes


def _listed(ids: Ids) -> Any:
    """A sequence of ids, or None for a single id."""
    if isinstance(ids, str | bytes | tuple | frozenset) or not hasattr(ids, "__iter__"):
        return None
    return ids if hasattr(ids, "__len__") else list(ids)


def _decoded(distribution: RatingDistribution, how: Decode) -> NDArray[np.float64]:
    return decode(distribution, how)


def _rows_or_prior(factors: Any, codes: Codes | None, side: Side | None) -> NDArray[np.float32]:
    """Rows of `factors`; the hidden bias alone speaks for code -1."""
    if codes is None or side is None:
        return factors if codes is None else np.zeros((len(codes), 0), np.float32)
    prior = 1.0 / (1.0 + np.exp(-side.parameters.hidden_bias[: side.n_hidden]))
    return np.where((codes >= 0)[:, None], factors[codes], prior).astype(factors.dtype)
