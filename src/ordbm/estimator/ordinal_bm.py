"""OrdinalBM: settings in, a fitted model out; its verbs are in `answers`."""

from __future__ import annotations

import logging
import os
import warnings
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from typing import Any, Self

from ordbm.data.csr import CSRPair
from ordbm.data.ratings import Ratings, as_ratings
from ordbm.data.scale import RatingScale
from ordbm.data.standardiser import machine_ratings, standardiser_of
from ordbm.engines.choice import engine_named
from ordbm.engines.interface import WorkerEngine
from ordbm.errors import InterruptedWarning, NotFittedError, SettingsError
from ordbm.estimator.answers import Answers
from ordbm.estimator.context_trial import learnt_context, of_some_users
from ordbm.estimator.side_information import with_features, with_features_again
from ordbm.estimator.structure_search import Found, find_structure, sized, start_sizes, structured
from ordbm.estimator.trial_fits import ChosenLinks, Starts
from ordbm.inference.conditioned import Method
from ordbm.inference.fitted import FittedModel
from ordbm.inference.known import check_trainable
from ordbm.metrics.prediction import validation_scores
from ordbm.model.condensing import start_there
from ordbm.model.configurable import Configured
from ordbm.model.context_links import ContextLinks
from ordbm.model.declaration import arguments_of, documented_by
from ordbm.model.feature_effects import Told, with_row_inputs
from ordbm.model.features import Features, features
from ordbm.model.initialisation import check_size, links_of, new_machines
from ordbm.model.learners import Learner, Priors, PseudoLikelihood, learner_of
from ordbm.model.neighbours import Links
from ordbm.model.presence import Presence
from ordbm.model.rounding import round_machine, rounded_presence
from ordbm.model.settings import FeatureKind, Settings, settings_of
from ordbm.model.structure import Sizes
from ordbm.persistence.checkpoint import Checkpoint
from ordbm.persistence.model_file import ANSWER_MEMORY, Stored, load_model, write_model
from ordbm.priors.fold_in_priors import FoldInPriors
from ordbm.priors.resolved import ResolvedPriors, priors_of
from ordbm.runtime.arrays import Array
from ordbm.runtime.interruption import first_ctrl_c_noted, listening
from ordbm.runtime.progress import Progress, Tell, teller
from ordbm.runtime.scratch import IN_MEMORY, Scratch
from ordbm.runtime.threads import thread_count
from ordbm.training.estimate import FitEstimate, fit_estimate
from ordbm.training.feature_learning import learn_features
from ordbm.training.loop import LOG, Callback, EpochRecord, train
from ordbm.training.needs import training_room
from ordbm.training.newcomer_learning import learn_newcomers
from ordbm.training.presence_learning import learn_presence
from ordbm.training.remote_ensemble import ensemble_on
from ordbm.training.state import Preparation, Saved
from ordbm.updates.describing import taken_in, with_others
from ordbm.updates.growing import Update

# What a machine that is only tried does without.
_ALONE: dict[str, Any] = {
    "structure": None, "presence": False, "context": False, "engine": None,
}  # fmt: skip


@documented_by(Settings)
class OrdinalBM(Configured, Answers):
    """An ordinal Boltzmann machine for ratings.

    What is not given, or None, follows the preset; what the default one has is in brackets. With
    `preset="paper"` the machine and its learning are those of section 4.1; predictions stay exact
    means, and the paper's are `predict(users, items, decode="mode", method="mean_field")`.
    """

    @arguments_of(Settings)
    def __init__(self, **given: Any) -> None:
        self._params = given
        self.settings = settings_of(**given)
        self.learner = learner_of(self.settings.learner)
        self.history: list[EpochRecord] = []
        self.interrupted = False
        self.last_update: Update | None = None
        self._fitted: FittedModel | None = None
        self._starts: Starts = (None, None)
        self._file_bytes: int | None = None  # of the file that it was loaded from

    # -- learning ---------------------------------------------------------------------------------

    @listening()
    def fit(
        self,
        ratings: Any,
        validation: Any = None,
        callbacks: Callback | Iterable[Callback] = (),
        checkpoint: str | os.PathLike[str] | None = None,
        resume: bool = False,
        progress: bool | None = None,
        *,
        user_features: Any = None,
        item_features: Any = None,
    ) -> Self:
        """Learn from ratings. With `validation`, the epoch with its best log-loss is kept.

        Both are `Ratings`, or a table that `Ratings` takes: a frame, a list of dicts, a dict of
        lists, a structured array, a SciPy sparse matrix.

        `user_features` and `item_features` are tables of what is known of users and items, a row
        for each: a column called `user` or `item` (or as such columns are in ratings; else the
        first) has the ids, all others are numbers, text, or lists of text such as genres, which may
        be one text split by "|". Values may be missing. Who or what is there without ratings is
        predicted, listed and explained by what the features of the others say.

        `progress=True` shows a bar, in a terminal and in a notebook. In any case the logger "ordbm"
        has a record of the expected cost, of each epoch and of what goes before them.

        Each callback is given an `EpochRecord` after every epoch; one that returns True ends the
        training there. If it has a method `on_progress`, that is given a `Progress` more often.

        `checkpoint` is a folder in which the training is kept as it goes. With `resume` it goes on
        from there, to the very bits it would have had without a break; settings and ratings must be
        the same, except that there may be more epochs, more patience, and any number of threads.
        Without a checkpoint in the folder it starts at the beginning, and without `resume` always.

        Ctrl-C ends the training after the epoch under way: the model is usable, `interrupted` is
        True, and a warning says so. Before the first epoch has ended, and pressed again, it is a
        KeyboardInterrupt, which leaves the model as it was before.
        """
        ratings = as_ratings(ratings)
        if validation is not None:
            validation = as_ratings(validation, scale=ratings.scale)
        check_trainable(ratings)
        ratings, told = with_features(ratings, user_features, item_features)
        if resume and checkpoint is None:
            raise SettingsError("resume=True needs the folder to go on from: say checkpoint=folder")
        return self._learnt(ratings, validation, callbacks, checkpoint, resume, progress, told)

    def _learnt(
        self,
        ratings: Ratings,
        validation: Ratings | None,
        callbacks: Callback | Iterable[Callback],
        checkpoint: str | os.PathLike[str] | None,
        resume: bool,
        progress: bool | None,
        told: Told,
    ) -> Self:
        callbacks = (callbacks,) if callable(callbacks) else tuple(callbacks)
        if not all(map(callable, callbacks)):
            raise SettingsError("a callback must be a function that takes an EpochRecord")
        settings, table = self._resolved(ratings)
        others = [0 if about is None else len(about.others) for about in told]
        check_size(settings, table, ratings.n_users + others[0], ratings.n_items + others[1])
        with ExitStack() as opened:
            if progress:
                from ordbm.training.learning_bar import learning_bar  # noqa: PLC0415 -- Rich

                shown = opened.enter_context(learning_bar())
                shown.expect(self.estimate(ratings))
                callbacks = (*callbacks, shown)
            keeper, saved = None, None
            if checkpoint is not None:
                keeper = opened.enter_context(
                    Checkpoint(checkpoint, settings, self.learner, ratings, validation, told)
                )
                saved = keeper.read() if resume else None
            engine = opened.enter_context(engine_named(settings.engine, settings.threads))
            return self._fit(
                ratings, validation, callbacks, settings, table, told, keeper, saved, engine
            )

    @listening()
    def partial_fit(
        self,
        new_ratings: Any = None,
        withdrawn: Any = None,
        *,
        user_features: Any = None,
        item_features: Any = None,
    ) -> Self:
        """Take in ratings that are new, changed or withdrawn, without learning anew.

        `new_ratings` are as those of `fit`, on the scale of the model; users and items may be new.
        A pair that has a rating is given the new one. `withdrawn` are pairs whose rating is no
        more: a list of (user, item), or a table with both columns.

        `user_features` and `item_features` are tables as those of `fit`, with the columns that the
        model was learnt with, of users and items who may be new. A row takes the place of what was
        known. What features say of each stays as it was learnt.

        All that is said afterwards is conditioned on every rating. What a user or an item owns is
        fitted to their ratings, all else fixed: at once if they are new, then each time that they
        have a tenth more (items up to 30 ratings, users up to 300; beyond, biases take a step).
        Links, and what all share, stay until `refit`. What changed is in `last_update`. A batch
        that cannot be used is an error that leaves the model as it was. A model that is not fitted
        is fitted.
        """
        told = user_features, item_features
        has_features = any(table is not None for table in told)
        if new_ratings is None and withdrawn is None and not has_features:
            raise SettingsError(
                "nothing to learn: give new_ratings, pairs that are withdrawn, or features"
            )
        if self._fitted is None:
            if withdrawn is not None:
                raise NotFittedError("there is nothing to withdraw from: fit the model first")
            if new_ratings is None:
                raise NotFittedError("features alone teach nothing: fit the model first")
            return self.fit(new_ratings, user_features=user_features, item_features=item_features)
        fitted = self._fitted
        learner = _own_learner(self.learner, fitted)
        found = taken_in(fitted, new_ratings, withdrawn, *told, learner)
        self._fitted, self.last_update = found
        LOG.info("%s", self.last_update)
        return self

    @listening()
    def refit(
        self, callbacks: Callback | Iterable[Callback] = (), progress: bool | None = None
    ) -> Self:
        """Learn anew from all ratings and features that the model has, by its own settings."""
        ratings, told = with_features_again(self.known_ratings(), self._state.described)
        return self._learnt(
            ratings, None, callbacks, None, resume=False, progress=progress, told=told
        )

    def estimate(self, ratings: Any) -> FitEstimate:
        """What `fit` of these ratings is expected to take: bytes at the peak, and seconds.

        Memory follows from sizes. Time is rough, for a machine with nothing else to
        do, validation and compiling left out; once an epoch has ended, records say what is left.
        """
        ratings = as_ratings(ratings)
        settings, table = self._resolved(ratings)
        threads = thread_count(self.settings.threads)
        found = fit_estimate(settings, self.learner, table, ratings, threads)
        if not self._learns_context(ratings, table):
            return found
        trial = self._context_trial().estimate(of_some_users(ratings, self.settings.seed))
        return found._replace(
            seconds=found.seconds + trial.seconds, memory=max(found.memory, trial.memory)
        )

    def _resolved(self, ratings: Ratings) -> tuple[Settings, Features]:
        """The settings for these ratings, and the features of their levels."""
        scale = ratings.scale
        n_levels = len(scale.values) if isinstance(scale, RatingScale) else 1
        groups = self.settings.size_rules.groups(n_levels)
        table = features(self._feature_kind(ratings), n_levels, groups)
        sizes = ratings.n_items * table.n_levels, ratings.n_users * table.n_levels
        return self.settings.resolved(len(ratings), sizes), table

    def _fit(
        self,
        ratings: Ratings,
        validation: Ratings | None,
        callbacks: tuple[Callback, ...],
        settings: Settings,
        table: Features,
        told: Told = (None, None),
        keeper: Checkpoint | None = None,
        saved: Saved | None = None,
        engine: WorkerEngine | None = None,
    ) -> Self:
        scratch, in_turn = _room(engine, settings, self.learner, table, ratings)
        _log_cost(self, ratings)
        tell = teller(callbacks)
        prepared = keeper.prepared if keeper else None
        start = self.learner.initialisation
        # Hidden units hear a use of the scale as taste; links alone have no need of own units.
        own_weight = start.own_unit_weight if any(settings.hidden_sizes) else 0.0
        standardiser = (
            standardiser_of(ratings, start.unit_weight, own_weight) if table.is_gaussian else None
        )
        orientations = machine_ratings(ratings, standardiser)
        threads = thread_count(self.settings.threads)
        learner = self.learner.for_scale(
            table.n_levels, table.n_groups, ordinal=table.kind == "ordinal"
        )
        starts = self._starts
        if prepared:
            links, structure = prepared.links, prepared.structure
        elif settings.structure:
            structure, links, starts = self._found(ratings, settings, table, learner, tell)
        else:
            structure, links = None, self._links(settings, ratings, tell)
        if structure is not None:
            settings = sized(settings, structure.sizes)
            learner = structured(learner, *structure.priors, gaussian=table.is_gaussian)
            check_size(settings, table, ratings.n_users, ratings.n_items)
            scratch, in_turn = _room(engine, settings, learner, table, ratings)
        machines = new_machines(settings, learner.initialisation, table, orientations, links)
        start_there(machines, starts)
        machines = with_row_inputs(machines, told)
        if prepared is None:
            presence = self._learnt_presence(ratings, threads, tell)
            priors = priors_of(machines[0], orientations, learner.priors, threads)
            prepared = Preparation(links, presence, priors, structure)
        if keeper is not None:
            keeper.prepared = prepared
        fitted = FittedModel(
            ratings.users,
            ratings.items,
            ratings.scale,
            standardiser,
            machines,
            CSRPair(ratings.by_user, ratings.by_item),
            threads,
            presence=rounded_presence(prepared.presence),
            times=ratings.times,
            context_columns=ratings.context,
            structure=structure,
        )
        self._watch(fitted)
        with ensemble_on(
            engine, machines, orientations, learner, self.settings.seed, self.settings.threads,
            prepared.priors, told, None if told == (None, None) else self.settings.feature_rules,
            scratch, in_turn=in_turn,
        ) as trainer:  # fmt: skip
            history, interrupted = train(
                trainer,
                self.settings.epochs,
                validate=_validator(fitted, validation) if validation is not None else None,
                patience=self.settings.patience,
                callbacks=callbacks,
                tell=tell,
                checkpoint=keeper,
                saved=saved,
            )
            centres = trainer.centres
        del trainer  # its arrays are many times a machine's
        with first_ctrl_c_noted(lambda: True) as interrupted_now:
            learn_newcomers(fitted.machines, fitted.ratings, threads)
            self._learn_features(fitted, told, centres)
            for machine in machines:
                round_machine(machine, threads)
            fitted.fold_in_priors = _fold_in_priors(fitted, learner.priors, prepared.priors)
            fitted = with_others(fitted, told, _own_learner(self.learner, fitted))
        interrupted = interrupted or interrupted_now()
        if self._learns_context(ratings, table) and not interrupted:
            fitted.context, interrupted = self._learnt_context(ratings)
        self._fitted, self.history, self.interrupted = fitted, history, interrupted
        if interrupted:
            warnings.warn(
                f"stopped by Ctrl-C after epoch {len(history)} of {self.settings.epochs}; the "
                "model is usable",
                InterruptedWarning,
                stacklevel=3,
            )
        return self

    def _learn_features(
        self, fitted: FittedModel, told: Told, centres: Sequence[tuple[Array, Array]]
    ) -> None:
        if told == (None, None):
            return
        LOG.info("learning what features say")
        rules, threads = self.settings.feature_rules, fitted.threads
        fitted.describe(
            learn_features(fitted.machines, fitted.ratings, told, rules, threads, centres)
        )

    def _learnt_presence(self, ratings: Ratings, threads: int, tell: Tell) -> Presence | None:
        if not self.settings.presence:
            return None
        LOG.info("learning which items get rated")
        return learn_presence(
            ratings.by_user,
            ratings.n_items,
            precision=self.settings.presence_precision,
            budget=self.settings.presence_budget,
            seed=self.settings.seed,
            threads=threads,
            tell=lambda share: tell(Progress("presence", share)),
            rules=self.settings.presence_rules,
        )

    def _context_trial(self) -> Self:
        """One machine, to learn what context tells of ratings that it has not seen."""
        return self.clone().set_params(**_ALONE, members=1)

    def _learns_context(self, ratings: Ratings, table: Features) -> bool:
        known = ratings.has_times or bool(ratings.context)
        return self.settings.context and known and not table.is_gaussian

    def _learnt_context(self, ratings: Ratings) -> tuple[ContextLinks | None, bool]:
        """What context tells, and whether Ctrl-C has ended the search: the rest is learnt."""
        LOG.info("learning what context tells")
        trial = self._context_trial()
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", InterruptedWarning)
                found = learnt_context(trial, ratings, self.settings.seed)
        except KeyboardInterrupt:
            return None, True
        return None if trial.interrupted else found, trial.interrupted

    def _feature_kind(self, ratings: Ratings) -> FeatureKind:
        if not ratings.is_continuous or self.settings.features == "gaussian":
            return self.settings.features
        if self._params["features"] is not None:
            raise SettingsError(
                f"these ratings are continuous, and features={self.settings.features!r} needs "
                "levels: use features='gaussian', or put them into bins with "
                "scale=ordbm.RatingScale.bins(edges)"
            )
        return "gaussian"

    def _links(self, settings: Settings, ratings: Ratings, tell: Tell) -> tuple[Links, Links]:
        if settings.item_links or settings.user_links:
            LOG.info("finding links")
        tell(Progress("links", 0.0))
        links = links_of(settings, ratings)
        tell(Progress("links", 1.0))
        return links

    def _found(
        self, ratings: Ratings, settings: Settings, table: Features, learner: Learner, tell: Tell
    ) -> Found:
        """The structure that the ratings ask for; machines without it are compared."""
        start = start_sizes(settings, learner.priors, ratings)

        def learn(part: Ratings, sizes: Sizes, links: ChosenLinks, starts: Starts) -> FittedModel:
            told = sized(settings, sizes)
            own = structured(
                self.learner, sizes, start, links.looseness, gaussian=table.is_gaussian
            )
            given = {**_ALONE, "hidden": told.hidden, "learner": own}
            model = _Trial(links[:2], starts, **{**self._params, **given, "members": 1})
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", InterruptedWarning)
                model.fit(part)
            if model.interrupted:
                raise KeyboardInterrupt
            return model._state

        LOG.info("finding a structure")
        precision = learner.priors.link_precision * table.link_tightness
        return find_structure(ratings, start, learn, settings, precision, tell)

    def _watch(self, fitted: FittedModel) -> None:
        """For a class that looks at the machines while they learn."""

    # -- files ------------------------------------------------------------------------------------

    def save(self, path: str | os.PathLike[str], *, overwrite: bool = False) -> None:
        """Write the fitted model, with ids, scale, settings and ratings, to one file.

        `ordbm.load(path)` gives a model that answers the same, bit for bit. A model that is there
        already is replaced at once, or not at all; any other file only with `overwrite`.
        """
        stored = Stored(self._params, self.history, self.interrupted, self._state)
        write_model(path, stored, overwrite=overwrite)

    def __repr__(self) -> str:
        told, kind, state = self.settings, self.settings.features, "not fitted"
        if self._fitted is not None:
            count = len(self.machines)
            told = told.resolved(len(self._fitted.ratings.by_user.column))
            kind = self.machines[0].features.kind
            state = f"fitted, {count} machines" if count > 1 else "fitted"
        links = f"item_links={told.item_links}, user_links={told.user_links}"
        return f"OrdinalBM({kind}, {told.sides}, hidden={told.hidden_sizes}, {links}; {state})"


class _Trial(OrdinalBM):
    """One whose links are given, and where its hidden units start."""

    def __init__(self, links: tuple[Links, Links], starts: Starts, **told: Any) -> None:
        super().__init__(**told)
        self._given_links, self._starts = links, starts

    def _links(self, settings: Settings, ratings: Ratings, tell: Tell) -> tuple[Links, Links]:  # noqa: ARG002
        return self._given_links


def load(path: str | os.PathLike[str], *, memory: float = ANSWER_MEMORY) -> OrdinalBM:
    """The model that `OrdinalBM.save` wrote to a file. Never runs code from it.

    A file whose answers would need more than `memory` bytes, and far more than the file has, is
    refused: such a one may be forged.
    """
    stored = load_model(path, memory)
    model = OrdinalBM(**stored.told)
    model._fitted, model.history = stored.fitted, stored.history
    model.interrupted, model._file_bytes = stored.interrupted, stored.file_bytes
    return model


def _room(
    engine: WorkerEngine | None, told: Settings, learner: Learner, table: Features, ratings: Ratings
) -> tuple[Scratch, bool]:
    """Where arrays of learning here are to be, and whether machines learn one after the other."""
    return (IN_MEMORY, False) if engine else training_room(told, learner, table, ratings)


def _fold_in_priors(fitted: FittedModel, priors: Priors, resolved: ResolvedPriors) -> FoldInPriors:
    """Those of learning; pseudo-likelihood's if it had none."""
    known: ResolvedPriors | None = resolved
    if not priors.coupling_precision:
        n_levels = fitted.machines[0].features.n_levels
        priors, known = PseudoLikelihood().priors.for_scale(n_levels), None
    return FoldInPriors.of(
        fitted.machines, fitted.ratings, priors.of_side(1), fitted.threads, known
    )


def _own_learner(learner: Learner, fitted: FittedModel) -> Learner:
    """Of what one user or item owns: that of learning; pseudo-likelihood if it had no priors."""
    table = fitted.machines[0].features
    if not learner.priors.coupling_precision:
        learner = PseudoLikelihood()
    if fitted.structure is not None:
        learner = structured(learner, *fitted.structure.priors, gaussian=table.is_gaussian)
    return learner.for_scale(table.n_levels, table.n_groups, ordinal=table.kind == "ordinal")


def _log_cost(model: OrdinalBM, ratings: Ratings) -> None:
    if LOG.isEnabledFor(logging.INFO):
        cost = model.estimate(ratings)
        LOG.info(
            "learning from %s ratings, members=%d, hidden=%s: %s",
            f"{len(ratings):,}", cost.members, cost.hidden, cost,
        )  # fmt: skip
        if cost.advice:
            LOG.info("%s", cost.advice)


def _validator(fitted: FittedModel, ratings: Ratings) -> Callable[[], dict[str, float]]:
    """A function that scores the machines, as they are, on held-out ratings."""
    users, items = fitted.validation_codes(ratings)
    # A Gaussian machine learns by mean field, which is also far cheaper to score.
    method: Method = "exact" if fitted.standardiser is None else "mean_field"

    def validate() -> dict[str, float]:
        return validation_scores(fitted.distribution_now(users, items, method), ratings)

    return validate
