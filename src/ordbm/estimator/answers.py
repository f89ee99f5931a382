"""What a fitted model answers: predictions, lists, explanations, representations."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from ordbm.data.frames import Backend
from ordbm.data.lookup import Ids, aligned_pairs, listed_ids, several
from ordbm.data.scale import RatingScale, Scale
from ordbm.errors import NotFittedError, SettingsError
from ordbm.explain import Explanation, Similar, explanation_of, nearest
from ordbm.inference.conditioned import ConditionedMachine, Method
from ordbm.inference.distributions import Decode, RatingDistribution, level_cells
from ordbm.inference.distributions import decode as decoded
from ordbm.inference.fitted import FittedModel, Origin, rows_or_prior, strangers_apart
from ordbm.inference.joint import ENUMERATED, JointDistribution, ensemble_joint_levels
from ordbm.inference.known import check_request
from ordbm.inference.tables import level_probabilities, log_probabilities, prediction_table
from ordbm.model.machine import Machine
from ordbm.recommend.candidates import (
    Candidates,
    UserCandidates,
    allowed_items,
    items_of_similar_users,
    linked_items,
)
from ordbm.recommend.criteria import Score
from ordbm.recommend.lists import Person, all_lists, person_list
from ordbm.recommend.recommendation import Recommendation
from ordbm.runtime.arrays import Mask
from ordbm.runtime.checks import check_count


class Answers:
    """The verbs of a fitted model. Ids are handled here; the work is elsewhere."""

    _fitted: FittedModel | None

    @property
    def _state(self) -> FittedModel:
        if self._fitted is None:
            raise NotFittedError("this model has not been fitted: call fit(ratings) first")
        return self._fitted

    # -- predicting -------------------------------------------------------------------------------

    def distribution(self, users: Ids, items: Ids, method: Method = "exact") -> RatingDistribution:
        """The predicted distribution of each pair's rating, as an object with mean, median, mode…

        A pair's own rating never enters its prediction. Unknown users and items get what is known
        of the other, or of all ratings.
        """
        return self._state.distribution(*self._state.pair_codes(users, items), method)

    def predict_proba(
        self, users: Ids, items: Ids, method: Method = "exact"
    ) -> NDArray[np.float64]:
        """P(level) of each pair, (pairs, levels); rows sum to one."""
        return level_probabilities(self.distribution(users, items, method))

    def predict(
        self, users: Ids, items: Ids, decode: Decode = "mean", method: Method = "exact"
    ) -> NDArray[np.float64]:
        """The mean, median or mode of each pair's predicted distribution."""
        return decoded(self.distribution(users, items, method), decode)

    def predict_table(
        self,
        users: Ids,
        items: Ids,
        method: Method = "exact",
        backend: Backend | None = None,
    ) -> Any:
        """A frame with a row per pair: ids, mean, median, mode, deviation, confidence, known, p_….

        `backend` is the kind of frame, "pandas", "polars" or "pyarrow"; the first one installed if
        not said.
        """
        pairs = aligned_pairs(users, items)
        codes = self._state.pair_codes(*pairs)
        return prediction_table(pairs, codes, self._state.distribution(*codes, method), backend)

    def predict_joint(
        self, users: Ids, items: Ids, *, limit: int = ENUMERATED, draws: int = 20_000, seed: int = 0
    ) -> JointDistribution:
        """The joint distribution of several ratings: of a user, an item, or any set of pairs.

        All asked ratings are in the model together; in `predict_proba` each is there alone. One
        more unseen rating changes what the machine says of the others, so the joint's `marginals`
        differ from `predict_proba`, and dependence is to be read off the joint itself.

        Up to `limit` configurations are enumerated; beyond that, and always on a continuous scale,
        `draws` of them are drawn by Gibbs sampling.
        """
        state = self._state
        levels = state.scale if isinstance(state.scale, RatingScale) else None
        edges = level_cells(levels, state.standardiser) if levels and state.standardiser else None
        user_list, item_list = aligned_pairs(users, items)
        user_codes, item_codes = state.pair_codes(user_list, item_list)
        found, weight, exact = ensemble_joint_levels(
            state.conditioned,
            strangers_apart(user_codes, user_list),
            strangers_apart(item_codes, item_list),
            edges=edges,
            limit=limit if levels else 0,
            draws=draws,
            seed=seed,
        )
        if levels:
            return JointDistribution(levels.values[found.astype(np.int64)], weight, exact)
        assert state.standardiser is not None
        values = state.standardiser.mean + state.standardiser.deviation * found
        return JointDistribution(values, weight, exact)

    def log_probability(
        self, users: Ids, items: Ids, ratings: Any, method: Method = "exact"
    ) -> NDArray[np.float64]:
        """log P of a rating for each pair (log density on a continuous scale)."""
        return log_probabilities(self.distribution(users, items, method), ratings)

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

        Items already rated are left out, and so are those nobody has rated and those in `exclude`.
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
        check_request(user, n, ratings)
        state = self._state
        code = state.user_code(user) if ratings is None else -1
        if code >= 0:
            person = Person(code, state.conditioned, state.conditioned_presence)
            by_user, by_item = state.ratings
            about = UserCandidates(
                partial(items_of_similar_users, by_user, by_item, code, state.scale),
                partial(linked_items, state, code),
            )
        else:
            given = state.learnt_ratings(ratings or {})
            person = Person(0, state.fold_in(given), state.fold_in_presence(given))
            about = None
        allowed = allowed_items(state, candidates, about, exclude)
        return person_list(state, person, n, by, allowed, diversity)

    def recommend_all(
        self, users: Sequence[Any] | None = None, n: int = 10, by: str | Score | None = None
    ) -> dict[Any, list[tuple[Any, float]]]:
        """{user: [(item, score), …]}, best first, for all known users or those given.

        Works in blocks of users: there is never a users × items table. A quick order (presence, or
        mean field) chooses a few times as many items as are asked for; their order is settled with
        the machines' ratings, by mean with the exact ones.
        """
        check_count("n", n)
        state = self._state
        return {
            state.users[user]: [
                (state.items[item], float(score))
                for item, score in zip(items.tolist(), found, strict=True)
            ]
            for user, items, found in all_lists(state, state.user_codes(users), n, by)
        }

    def rated_proba(self, users: Ids, items: Ids) -> NDArray[np.float64]:
        """P(rated) of each pair given what else the user has rated, (pairs,). Needs `presence`.

        A pair's own rating is left out, of the user's links and of the number of their ratings;
        only the learnt biases have seen it. P of a level is this times `predict_proba`; what is
        left is P(absent).
        """
        conditioned = self._state.conditioned_presence
        if conditioned is None:
            raise SettingsError(
                "this model has not learnt which items get rated: fit OrdinalBM(presence=True)"
            )
        odds = conditioned.pair_log_odds(*self._state.pair_codes(users, items))
        return expit(odds.astype(np.float64))

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
    ) -> Explanation:
        """What moved the prediction for a pair, in parts that add up; `print` shows the largest.

        The parts are of the log-odds of a rating of `threshold` or more (by default the level that
        splits the predicted probability most evenly), on a continuous scale of the mean. The user
        is a known one, or somebody new who gave `ratings` {item: rating}, as `recommend` takes
        them. `n` of the user's ratings (all if not said) and `raters` ratings of the item by others
        are listed one by one, the largest first, the rest summed up. `titles` are what to call
        items in print.
        """
        if item is None or listed_ids(item) is not None or listed_ids(user) is not None:
            raise SettingsError("explain is for one user and one item: give one id of each")
        check_request(user, 0, ratings)
        state = self._state
        code, person, given = 0, state.conditioned, state.given.by_user
        if ratings is None:
            code = state.user_code(user)
        else:
            learnt = state.learnt_ratings(ratings)
            person, given = state.fold_in(learnt), state.given_row(learnt)
        return explanation_of(
            state, person, given, user, code, item,
            threshold=threshold, n=n, raters=raters, titles=titles,
        )  # fmt: skip

    def similar_items(self, item: Any, n: int = 10) -> list[Similar]:
        """The n items nearest in hidden space, [(item, similarity), …], nearest first.

        The similarity is the cosine of the items' centred `item_factors`; where items have no
        hidden units of their own, of their couplings to those of users.
        """
        return nearest(self._state, "item", item, n)

    def similar_users(self, user: Any, n: int = 10) -> list[Similar]:
        """The n users nearest in hidden space, as `similar_items` has it for items."""
        return nearest(self._state, "user", user, n)

    # -- representations --------------------------------------------------------------------------

    def user_factors(self, users: Ids = None) -> NDArray[np.float32]:
        """P(h = 1 | ratings) of each user, (users, hidden units); P(h = 1) for the unknown.

        The hidden units of all machines stand side by side.
        """
        state = self._state
        codes = (
            None if users is None else state.codes(several(users), state.users, state.rated_users)
        )
        return rows_or_prior(state.conditioned, 0, codes)

    def item_factors(self, items: Ids = None) -> NDArray[np.float32]:
        """P(h = 1 | ratings) of each item, (items, hidden units)."""
        state = self._state
        codes = (
            None if items is None else state.codes(several(items), state.items, state.rated_items)
        )
        return rows_or_prior(state.conditioned, 1, codes)

    def free_energy(self, users: Ids = None) -> NDArray[np.float64]:
        """-log sum_h e^-E of each user's ratings on the user side, (users,): low is typical.

        The mean over the machines. An unknown user has no ratings and the free energy of hidden
        units alone.
        """
        state = self._state
        codes = (
            None if users is None else state.codes(several(users), state.users, state.rated_users)
        )
        return np.mean([one.user_free_energy(codes) for one in state.conditioned], axis=0)

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
    def origin(self) -> Origin:
        """Which version of ordbm learnt this model, and when."""
        return self._state.origin
