"""A fitted model that is told more of its users and items, or of new ones."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from ordbm.data.feature_columns import encoded_like
from ordbm.data.feature_tables import feature_table
from ordbm.data.ids import IdMap
from ordbm.errors import SettingsError
from ordbm.inference.fitted import FittedModel
from ordbm.model.feature_effects import KINDS, Told, fill_columns, fill_row_inputs
from ordbm.model.learners import Learner
from ordbm.model.rounding import round_columns_of
from ordbm.runtime.arrays import Array
from ordbm.updates.growing import (
    MOST_FITTED,
    Update,
    fit_again,
    grown,
    grown_priors,
    with_ratings,
)
from ordbm.updates.merging import NOWHERE, batch_for, joined_by
from ordbm.updates.presence_growth import expect_typical, grown_presence


class Rows(NamedTuple):
    """Features of some users, or items."""

    ids: IdMap
    features: Array  # (ids, q)


def with_others(fitted: FittedModel, told: Told, learner: Learner) -> FittedModel:
    """A model that has just learnt, with those of whom it was told and who have no ratings."""
    users, items = (
        None if about is None or not len(about.others) else Rows(about.others, about.of_others)
        for about in told
    )
    found = _described_anew(fitted, (users, items), learner)
    found.growth = found.growth._replace(users=len(found.users), items=len(found.items))
    return found


def taken_in(
    fitted: FittedModel,
    new_ratings: Any,
    withdrawn: Any,
    user_features: Any,
    item_features: Any,
    learner: Learner,
) -> tuple[FittedModel, Update]:
    """The model with these features, and then with these ratings; `fitted` is left as it was."""
    users, items = (
        None if table is None else _rows_of(fitted, table, kind)
        for kind, table in enumerate((user_features, item_features))
    )
    described = _described_anew(fitted, (users, items), learner)
    batch = batch_for(described, new_ratings, withdrawn)
    found, update = grown(described, batch, learner)
    return found, replace(
        update,
        new_users=len(found.users) - len(fitted.users),
        new_items=len(found.items) - len(fitted.items),
        described_users=0 if users is None else len(users.ids),
        described_items=0 if items is None else len(items.ids),
    )


def _described_anew(
    fitted: FittedModel,
    tables: tuple[Rows | None, Rows | None],  # of users, of items
    learner: Learner,
) -> FittedModel:
    """The model with what these tables say.

    Who or what has no ratings follows from it. Of those without ratings when effects were learnt,
    what their few ratings since then have told is fitted again. Others keep what they own.
    """
    if tables == (None, None):
        return fitted
    users, items = (
        known if table is None else known.with_more(table.ids)[0]
        for known, table in zip((fitted.users, fitted.items), tables, strict=True)
    )
    wider = batch_for(fitted, None, None)._replace(users=users, items=items)
    given, times, context, _ = joined_by(fitted, wider)
    found = with_ratings(fitted, users, items, given, times, context)
    found.fold_in_priors = grown_priors(fitted, found, learner)
    if fitted.presence is not None:
        found.presence = grown_presence(
            fitted.presence, fitted.given, found.given, NOWHERE.astype(np.int32), fitted.threads
        )
    for kind, table in enumerate(tables):
        about = found.described[kind]
        if table is None or about is None:
            continue
        codes = (users, items)[kind].codes(table.ids.given)
        about.design[codes] = table.features
        found.describe(found.described)
        count = np.diff(found.given[kind].start)[codes]
        unrated = codes[count == 0]
        about.unrated[unrated] = True
        few = about.unrated[codes] & (count > 0) & (count <= MOST_FITTED[1 - kind])
        design = np.zeros_like(about.design)
        design[unrated] = about.design[unrated]
        for machine, effects in zip(found.machines, about.effects, strict=True):
            fill_row_inputs(machine, kind, effects, about.expected)
            fill_columns(machine, kind, effects, design)
            round_columns_of(machine, 1 - kind, unrated)
        fit_again(found, 1 - kind, np.sort(codes[few]), learner)
        if kind == 1 and found.presence is not None:
            new = unrated[unrated >= len(fitted.items)]
            expect_typical(found.presence, new, found.rated_items)
    return found


def _rows_of(fitted: FittedModel, table: Any, kind: int) -> Rows:
    what = f"{KINDS[kind]}_features"
    about = fitted.described[kind]
    if about is None:
        raise SettingsError(
            f"this model was learnt without {what}, so that it does not know what they say: leave "
            f"them out, or learn anew with fit(model.known_ratings(), {what}=…)"
        )
    known = (fitted.users, fitted.items)[kind]
    found = feature_table(table, KINDS[kind], known, may_be_new=True)
    return Rows(found.ids, encoded_like(about.encoder, found, KINDS[kind]))
