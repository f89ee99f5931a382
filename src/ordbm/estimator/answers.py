"""What a fitted model answers: predictions, lists, explanations, representations."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from ordbm.data.columns import Column
from ordbm.data.context_columns import context_places
from ordbm.data.frames import Backend
from ordbm.data.lookup import Ids, aligned_pairs, listed_ids, several
from ordbm.data.ratings import Ratings
from ordbm.data.scale import ContinuousScale, RatingScale, Scale
from ordbm.data.times import NO_TIMES, times_in_seconds
from ordbm.errors import NotFittedError, SettingsError
from ordbm.explain import (
    Explanation,
    Similar,
    explanation_of,
    nearest,
    nearest_users,
    with_context,
)
from ordbm.inference.conditioned import ConditionedMachine, Method
from ordbm.inference.distributions import Decode, RatingDistribution, level_cells
from ordbm.inference.distributions import decode as decoded
from ordbm.inference.factors import (
    Members,
    PrincipalAxes,
    check_layout,
    hidden_means,
    joined,
)
from ordbm.inference.fitted import FittedModel, Growth, Origin, strangers_apart
from ordbm.inference.joint import ENUMERATED, JointDistribution, ensemble_joint_levels
from ordbm.inference.known import check_request
from ordbm.inference.people import FoldIns, People, Users, are_of_several, fold_ins_of
from ordbm.inference.tables import level_probabilities, log_probabilities, prediction_table
from ordbm.model.context_links import ContextLinks
from ordbm.model.machine import Machine
from ordbm.model.structure import Structure
from ordbm.recommend.candidates import (
    Candidates,
    UserCandidates,
    allowed_items,
    items_of_similar_users,
    linked_items,
)
from ordbm.recommend.criteria import Score
from ordbm.recommend.list_frame import list_dict, list_frame
from ordbm.recommend.lists import lines_of, ranked_lists
from ordbm.recommend.recommendation import Ranked, Recommendation
from ordbm.runtime.arrays import Codes, Mask, Numbers
from ordbm.runtime.checks import check_count

Given = Mapping[Any, Any] | None  # {item: rating} of one person, {user: {item: rating}} of several
Context = Mapping[str, Any] | None  # {column: a value, or one for each pair}
IdPairs = tuple[Sequence[Any], Sequence[Any]]


class Answers:
    """The verbs of a fitted model. Ids are handled here; the work is elsewhere."""

    _fitted: FittedModel | None

    @property
    def _state(self) -> FittedModel:
        if self._fitted is None:
            raise NotFittedError("this model has not been fitted: call fit(ratings) first")
        return self._fitted

    def _item_codes(self, items: Sequence[Any]) -> Codes:
        return self._state.codes(items, self._state.items, self._state.modelled_items)

    def known_ratings(self) -> Ratings:
        """All ratings that answers are conditioned on."""
        state = self._state
        rated = state.given.by_user
        return Ratings.of_rows(
            state.users, state.items, state.scale, rated, state.times, state.context_columns
        )

    @property
    def growth(self) -> Growth:
        """How much was learnt from, and how much came since by `partial_fit`."""
        return self._state.growth

    @property
    def context(self) -> ContextLinks | None:
        """What times and other context of ratings were found to be good for; None without any."""
        return self._state.context

    # -- who is asked about -----------------------------------------------------------------------

    def _asked(self, users: Ids, ratings: Given) -> tuple[People, Codes]:
        """The people of `users`, and the number of each among them.

        `ratings` are {item: rating} of one person, or {user: {item: rating}} of several.
        """
        state = self._state
        if ratings is None:
            return Users(state), state.codes(several(users), state.users, state.modelled_users)
        return fold_ins_of(state, users, ratings)

    def _asked_users(self, users: Ids, ratings: Given) -> tuple[People, Codes | None]:
        """The people of `users`, and which of them: None for all users, if nobody is said."""
        if users is None:
            if ratings is None:
                return Users(self._state), None
            if are_of_several(ratings):
                users = list(ratings)
        return self._asked(users, ratings)

    def _asked_pairs(self, users: Ids, items: Ids, ratings: Given) -> tuple[IdPairs, People, Codes]:
        """(user, item) of each pair, the people, and the number of each pair's among them."""
        if items is None:
            raise SettingsError("say which items: predict(user, items), or items=[…]")
        if users is None and ratings is None:
            raise SettingsError("say either who it is for, user=…, or what they rated, ratings={…}")
        pairs = aligned_pairs(users, items)
        if ratings is None:
            state = self._state
            return pairs, Users(state), state.codes(pairs[0], state.users, state.modelled_users)
        people, person = self._asked(users if listed_ids(users) is None else pairs[0], ratings)
        if len(person) == 1:
            person = np.zeros(len(pairs[1]), np.int32)
        return pairs, people, person

    def _question_places(self, at: Any, context: Context, n_pairs: int) -> Numbers | None:
        """The time and other context of each question, (pairs, P); None if nothing is said."""
        if at is None and not context:
            return None
        times = NO_TIMES if at is None else _times(at, n_pairs)
        columns = self._state.context_columns.encoded(context or {}, n_pairs)
        return context_places(times, columns, n_pairs)

    # -- predicting -------------------------------------------------------------------------------

    def distribution(
        self, users: Ids = None, items: Ids = None, method: Method = "exact",
        *, ratings: Given = None, at: Any = None, context: Context = None,
    ) -> RatingDistribution:  # fmt: skip
        """The predicted distribution of each pair's rating, as an object with mean, median, mode…

        Users are known ones, or the question is of somebody new who gave `ratings` {item: rating};
        `users` with `ratings` is a known user who says more, or otherwise, than before; and
        {user: {item: rating}} are the ratings of several such people, known or new. A pair's own
        rating never enters its prediction. Unknown users and items get what is known of the other,
        or of all ratings.

        `at` is the time of the question, one for all pairs or one for each, as `Ratings` takes
        times: what the person rated about then tells more. It has no effect unless the model has
        learnt from ratings with times (`context`); `ratings` said here count as given just then.
        `context` {column: value}, a value for all pairs or one for each, is the same for the other
        columns of context that the model has learnt from.
        """
        pairs, people, person = self._asked_pairs(users, items, ratings)
        codes = self._item_codes(pairs[1])
        place = self._question_places(at, context, len(codes))
        return self._state.distribution_at(people, person, codes, place, method)

    def predict_proba(
        self, users: Ids = None, items: Ids = None, method: Method = "exact",
        *, ratings: Given = None, at: Any = None, context: Context = None,
    ) -> NDArray[np.float64]:  # fmt: skip
        """P(level) of each pair, (pairs, levels); rows sum to one."""
        return level_probabilities(
            self.distribution(users, items, method, ratings=ratings, at=at, context=context)
        )

    def predict(
        self, users: Ids = None, items: Ids = None, decode: Decode = "mean",
        method: Method = "exact", *, ratings: Given = None, at: Any = None, context: Context = None,
    ) -> NDArray[np.float64]:  # fmt: skip
        """The mean, median or mode of each pair's predicted distribution."""
        return decoded(
            self.distribution(users, items, method, ratings=ratings, at=at, context=context), decode
        )

    def predict_table(
        self,
        users: Ids = None,
        items: Ids = None,
        method: Method = "exact",
        backend: Backend | None = None,
        *,
        ratings: Given = None,
        at: Any = None,
        context: Context = None,
    ) -> Any:
        """A frame with a row per pair: ids, mean, median, mode, deviation, confidence, known, p_….

        `backend` is the kind of frame, "pandas", "polars" or "pyarrow"; the first one installed if
        not said.
        """
        pairs, people, person = self._asked_pairs(users, items, ratings)
        codes = self._item_codes(pairs[1])
        place = self._question_places(at, context, len(codes))
        found = self._state.distribution_at(people, person, codes, place, method)
        known = np.where(people.n_rated(person) > 0, 0, -1)
        return prediction_table(pairs, (known, codes), found, backend)

    def predict_joint(
        self,
        users: Ids = None,
        items: Ids = None,
        *,
        ratings: Given = None,
        limit: int = ENUMERATED,
        draws: int = 20_000,
        seed: int = 0,
    ) -> JointDistribution:
        """The joint distribution of several ratings: of a user, an item, or any set of pairs.

        All asked ratings are in the model together; in `predict_proba` each is there alone. One
        more unseen rating changes what the machine says of the others, so the joint's `marginals`
        differ from `predict_proba`, and dependence is to be read off the joint itself.

        `ratings` are of one person, new or known, or of several, as in `distribution`; here items
        hear those of all of them. Up to `limit` configurations are enumerated; beyond that, and
        always on a continuous scale, `draws` of them are drawn by Gibbs sampling.
        """
        state = self._state
        levels = state.scale if isinstance(state.scale, RatingScale) else None
        edges = level_cells(levels, state.standardiser) if levels and state.standardiser else None
        (user_list, item_list), people, person = self._asked_pairs(users, items, ratings)
        if isinstance(people, FoldIns):
            conditioned, user_codes = people.together(person)
        else:
            conditioned = state.conditioned
            user_codes = np.asarray(strangers_apart(person, user_list), np.int32)
        found, weight, exact = ensemble_joint_levels(
            conditioned,
            user_codes,
            strangers_apart(self._item_codes(item_list), item_list),
            edges=edges,
            limit=limit if levels else 0,
            draws=draws,
            seed=seed,
        )
        if levels:
            return JointDistribution(levels.values[found.astype(np.int64)], weight, exact)
        assert state.standardiser is not None
        own = people.own_units(person)
        read = own.centre + own.width * found.astype(np.float64)
        values = state.standardiser.mean + state.standardiser.deviation * read
        return JointDistribution(values, weight, exact)

    def log_probability(
        self, users: Ids, items: Ids, ratings: Any, method: Method = "exact",
        *, given: Given = None, at: Any = None, context: Context = None,
    ) -> NDArray[np.float64]:  # fmt: skip
        """log P of a rating for each pair (log density on a continuous scale).

        `given` are what `ratings` are to other verbs: what somebody said.
        """
        found = self.distribution(users, items, method, ratings=given, at=at, context=context)
        return log_probabilities(found, ratings)

    # -- ranking ----------------------------------------------------------------------------------

    def recommend(
        self,
        user: Any = None,
        n: int = 10,
        candidates: Candidates = None,
        *,
        ratings: Mapping[Any, Any] | None = None,
        by: str | Score | None = None,
        exclude: Iterable[Any] = (),
        diversity: float = 0.0,
    ) -> list[Recommendation]:
        """The n best items for a known user, or for somebody new who gave `ratings` {item: rating}.

        With both it is a known user who says more, or otherwise, than before. Items already rated
        are left out, and so are those nobody has rated and those in `exclude`.
        `candidates`: all items (None or "all"), the items that the 50 most similar users rated
        ("similar_users", the paper's), those linked to what the user rated ("linked"), item ids, or
        a function of an id that says whether it may be listed.

        `by`: "liked" (the default with presence), how likely an item is to be rated three quarters
        up the scale or higher; "rated", how likely it is to be rated; "gain", an expected gain;
        "mean" (the default without presence), the expected rating; "energy", the paper's expected
        decrease of energy (section 2.4), whose zero differs from item to item; or a score of
        `ordbm.scores`.

        `diversity` (0 to 1) trades score against likeness to what is listed before. An unknown user
        is somebody new without ratings. Given ratings of items that nobody has rated in training
        are left out, with a warning; an unknown item is an error.
        """
        check_request(user, ratings)
        check_count("n", n)
        people, person = self._asked(user, ratings)
        allowed = self._allowed(people, candidates, exclude)
        ranked = ranked_lists(self._state, people, person, n, by, allowed, diversity)
        return lines_of(self._state, people.presence, next(ranked))

    def recommend_all(
        self,
        users: Sequence[Any] | None = None,
        n: int = 10,
        by: str | Score | None = None,
        *,
        ratings: Mapping[Any, Mapping[Any, Any]] | None = None,
        candidates: Candidates = None,
        exclude: Iterable[Any] = (),
        diversity: float = 0.0,
        backend: Backend | None = None,
    ) -> Any:
        """The lists of `recommend` for all known users or those given, as a frame.

        Its columns are user, rank, item, score, mean, confidence and, with presence, p_rated.
        `ratings` {user: {item: rating}} are of people who said more, or are new. Works in blocks of
        users: there is never a users × items table. `backend` as in `predict_table`.
        """
        asked, ranked = self._everybody(users, n, by, ratings, candidates, exclude, diversity)
        return list_frame(self._state.items, asked, ranked, backend)

    def recommend_lists(
        self,
        users: Sequence[Any] | None = None,
        n: int = 10,
        by: str | Score | None = None,
    ) -> dict[Any, list[tuple[Any, float]]]:
        """{user: [(item, score), …]}: what `recommend_all` has, without a frame library."""
        return list_dict(self._state.items, *self._everybody(users, n, by))

    def _everybody(
        self,
        users: Sequence[Any] | None,
        n: int,
        by: str | Score | None,
        ratings: Mapping[Any, Mapping[Any, Any]] | None = None,
        candidates: Candidates = None,
        exclude: Iterable[Any] = (),
        diversity: float = 0.0,
    ) -> tuple[Column, Iterator[Ranked]]:
        check_count("n", n)
        state = self._state
        people: People
        asked: Column
        if ratings is None:
            people, person = Users(state), state.user_codes(users)
            asked = state.users.values(person)
        else:
            asked = list(ratings) if users is None else list(several(users))
            people, person = fold_ins_of(state, asked, ratings)
        allowed = self._allowed(people, candidates, exclude)
        return asked, ranked_lists(state, people, person, n, by, allowed, diversity)

    def _allowed(
        self, people: People, candidates: Candidates, exclude: Iterable[Any]
    ) -> Mask | Callable[[int], Mask]:
        """The items that may be listed, for all or for each person."""
        state = self._state
        if not (isinstance(candidates, str) and candidates in UserCandidates._fields):
            return allowed_items(state, candidates, None, exclude)
        left_out = list(several(exclude)) if exclude != () else ()

        def of(person: int) -> Mask:
            code = int(people.users[person]) if isinstance(people, FoldIns) else person
            by_user, by_item = state.ratings
            about = UserCandidates(
                partial(items_of_similar_users, by_user, by_item, code, state.scale),
                partial(linked_items, state, code),
            )
            return allowed_items(state, candidates, about if code >= 0 else None, left_out)

        return of

    def rated_proba(
        self, users: Ids = None, items: Ids = None, *, ratings: Given = None
    ) -> NDArray[np.float64]:
        """P(rated) of each pair given what else the user has rated, (pairs,). Needs `presence`.

        A pair's own rating is left out, of the user's links and of the number of their ratings;
        only the learnt biases have seen it. P of a level is this times `predict_proba`; what is
        left is P(absent).
        """
        pairs, people, person = self._asked_pairs(users, items, ratings)
        if people.presence is None:
            raise SettingsError(
                "this model has not learnt which items get rated: fit OrdinalBM(presence=True)"
            )
        odds = people.presence.pair_log_odds(person, self._item_codes(pairs[1]))
        return expit(odds.astype(np.float64))

    def warm_up(self) -> Self:
        """Compile and prepare whatever the first answers would wait for; returns the model."""
        state = self._state
        state.prepare()
        items = [state.items[int(code)] for code in np.flatnonzero(state.rated_items)[:1]]
        user = [state.users[int(code)] for code in np.flatnonzero(state.rated_users)[:1]]
        self.predict(user, items)
        self.recommend(user[0], n=1)
        scale = state.scale
        one: Any = scale.mean if isinstance(scale, ContinuousScale) else scale.values[0]
        if isinstance(scale, RatingScale) and scale.labels:
            one = scale.labels[0]
        self.recommend(ratings={items[0]: one}, n=1)
        return self

    # -- explaining -------------------------------------------------------------------------------

    def explain(
        self,
        user: Any = None,
        item: Any = None,
        threshold: Any = None,
        n: int | None = None,
        *,
        ratings: Mapping[Any, Any] | None = None,
        raters: int = 0,
        titles: Mapping[Any, str] | None = None,
        at: Any = None,
        context: Context = None,
    ) -> Explanation:
        """What moved the prediction for a pair, in parts that add up; `print` shows the largest.

        The parts are of the log-odds of a rating of `threshold` or more (by default the level that
        splits the predicted probability most evenly), on a continuous scale of the mean. The user
        is a known one, somebody new who gave `ratings` {item: rating}, or both, as `recommend`
        takes them. `n` of the user's ratings (all if not said) and `raters` ratings of the item by
        others are listed one by one, the largest first, the rest summed up. `titles` are what to
        call items in print. `at` and `context` are those of the question, as for `predict`.
        """
        if item is None or listed_ids(item) is not None or listed_ids(user) is not None:
            raise SettingsError("explain is for one user and one item: give one id of each")
        check_request(user, ratings)
        people, person = self._asked(user, ratings)
        conditioned, code = people.conditioned(int(person[0]))
        given = people.given
        if isinstance(people, FoldIns):
            given = given.rows_of(person)
        found = explanation_of(
            self._state, conditioned, given, user, code, item,
            threshold=threshold, n=n, raters=raters, titles=titles,
        )  # fmt: skip
        place = self._question_places(at, context, 1)
        if place is None or self._state.context is None:
            return found
        pair = people, person, self._item_codes([item]), place
        return with_context(found, self._state.distribution_at(*pair))

    def similar_items(self, item: Any, n: int = 10) -> list[Similar]:
        """The n items nearest in hidden space, [(item, similarity), …], nearest first.

        The similarity is the cosine of the items' centred `item_factors`; where items have no
        hidden units of their own, of their couplings to those of users.
        """
        return nearest(self._state, "item", item, n)

    def similar_users(
        self, user: Any = None, n: int = 10, *, ratings: Mapping[Any, Any] | None = None
    ) -> list[Similar]:
        """The n users nearest in hidden space, as `similar_items` has it for items.

        Nearest to a known user, to somebody new who gave `ratings`, or with both to a known user
        who says more, as `recommend` takes them.
        """
        check_request(user, ratings)
        if ratings is None:
            return nearest(self._state, "user", user, n)
        people, person = fold_ins_of(self._state, user, ratings)
        return nearest_users(self._state, people, int(person[0]), n)

    # -- representations --------------------------------------------------------------------------

    @property
    def users(self) -> list[Any]:
        """The ids of all users, in the order of `user_factors()`."""
        return list(self._state.users)

    @property
    def items(self) -> list[Any]:
        """The ids of all items, in the order of `item_factors()`."""
        return list(self._state.items)

    def user_factors(
        self,
        users: Ids = None,
        *,
        ratings: Given = None,
        members: Members = "joined",
        dimensions: int | None = None,
    ) -> NDArray[np.float32]:
        """P(h = 1 | ratings) of each user, (users, hidden units); P(h = 1) for the unknown.

        Of all users if none are said, in the order of `users`; `ratings` as in `distribution`. The
        hidden units of all machines stand side by side, or with `members="apart"` in tables of
        their own, (machines, users, hidden units). `dimensions=k` gives the first k principal
        components instead, whose axes are those of all users with ratings.
        """
        people, person = self._asked_users(users, ratings)
        return self._factors(0, people.user_parts, person, members, dimensions)

    def item_factors(
        self,
        items: Ids = None,
        *,
        members: Members = "joined",
        dimensions: int | None = None,
    ) -> NDArray[np.float32]:
        """P(h = 1 | ratings) of each item, (items, hidden units), as `user_factors` has it."""
        codes = None if items is None else self._item_codes(several(items))
        return self._factors(1, self._state.conditioned, codes, members, dimensions)

    def _factors(
        self,
        side: int,
        conditioned: Sequence[ConditionedMachine],
        codes: Codes | None,
        members: Members,
        dimensions: int | None,
    ) -> NDArray[np.float32]:
        state = self._state
        means = hidden_means(conditioned, side, codes)
        check_layout(members, dimensions, means.shape[0] * means.shape[2])
        if dimensions is None:
            return means if members == "apart" else joined(means)
        rated = (state.rated_users, state.rated_items)[side]
        axes = PrincipalAxes.of(joined(hidden_means(state.conditioned, side))[rated], dimensions)
        return ((joined(means) - axes.mean) @ axes.direction).astype(means.dtype)

    def free_energy(self, users: Ids = None, *, ratings: Given = None) -> NDArray[np.float64]:
        """-log sum_h e^-E of each user's ratings on the user side, (users,): low is typical.

        The mean over the machines; `ratings` as in `distribution`. An unknown user has no ratings
        and the free energy of hidden units alone.
        """
        people, person = self._asked_users(users, ratings)
        return np.mean([one.user_free_energy(person) for one in people.user_parts], axis=0)

    def known_users(self, users: Ids) -> Mask:
        """Whether the model has ratings by each of these users."""
        return self._state.known_users(users)

    def known_items(self, items: Ids) -> Mask:
        """Whether the model has ratings of each of these items."""
        return self._state.known_items(items)

    @property
    def machines(self) -> tuple[Machine, ...]:
        """The fitted parameters of each machine."""
        return self._state.machines

    @property
    def conditioned(self) -> tuple[ConditionedMachine, ...]:
        """Each machine with the ratings it was fitted to, for use below this front door."""
        return self._state.conditioned

    @property
    def scale(self) -> Scale:
        return self._state.scale

    @property
    def structure(self) -> Structure | None:
        """What `structure="auto"` found, and every trial that led there; None without it."""
        return self._state.structure

    @property
    def origin(self) -> Origin:
        """Which version of ordbm learnt this model, and when."""
        return self._state.origin


def _times(at: Any, n_pairs: int) -> Numbers:
    """The time of each pair's question, (pairs,)."""
    alone = isinstance(at, str) or not isinstance(at, Iterable)
    times = times_in_seconds([at] if alone else at)
    if len(times) not in (1, n_pairs):
        raise SettingsError(f"at= has {len(times):,} times for {n_pairs:,} pairs: give one, or all")
    return np.broadcast_to(times, n_pairs)
