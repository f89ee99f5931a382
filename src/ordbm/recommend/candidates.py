"""Which items may be listed: all, those of similar users, those linked, or those said."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ordbm.data.csr import CSR
from ordbm.data.lookup import check_not_several, listed_ids, several
from ordbm.data.scale import Scale, level_values
from ordbm.errors import RatingsError, SettingsError
from ordbm.inference.fitted import FittedModel
from ordbm.inference.known import Known
from ordbm.model.correlation import group_correlations
from ordbm.runtime.arrays import Array, Codes, Mask
from ordbm.runtime.printable import shown

SIMILAR_USERS = 50
SIMILAR_SUPPORT = 3  # common items; over two of them a correlation is always one

Candidates = Iterable[Any] | Callable[[Any], bool] | str | None


class UserCandidates(NamedTuple):
    """Candidates that follow from who it is: masks of items, made when they are asked for."""

    similar_users: Callable[[], Mask]  # what the most similar users rated
    linked: Callable[[], Mask] | None = None  # what is linked to what the user rated


def allowed_items(
    known: Known,
    candidates: Candidates,
    about: UserCandidates | None,
    exclude: Iterable[Any] = (),
) -> Mask:
    """Which items may be listed, (items,): the candidates of which something is known.

    `about` is None for a fold-in user; `exclude` is an id to leave out, or several, of which some
    may be unknown.
    """
    excluded = [] if isinstance(exclude, tuple) and not exclude else list(several(exclude))
    codes = known.items.codes(excluded)
    if len(excluded) == 1 and codes[0] < 0:
        check_not_several(excluded[0], known.items)
    kept = known.modelled_items.copy()
    kept[codes[codes >= 0]] = False
    return kept & _candidate_items(known, candidates, about)


def _candidate_items(known: Known, candidates: Candidates, about: UserCandidates | None) -> Mask:
    if candidates is None or (isinstance(candidates, str) and candidates == "all"):
        return known.modelled_items
    if isinstance(candidates, str) and candidates in UserCandidates._fields:
        if about is None:
            raise SettingsError(
                f"candidates={shown(candidates)} needs a known user: use None for somebody new"
            )
        items_of: Callable[[], Mask] | None = getattr(about, candidates)
        if items_of is None:
            raise SettingsError(f"candidates={shown(candidates)}: this model has no links")
        return items_of()
    if callable(candidates):
        return np.array([bool(candidates(item)) for item in known.items], bool)
    listed = listed_ids(candidates)
    if listed is None:
        raise SettingsError(
            f"candidates={shown(candidates)}: use 'all', 'similar_users', 'linked', a list of item "
            "ids, or a function of an id"
        )
    wanted = list(listed)
    codes = known.items.codes(wanted)
    if (codes < 0).any():
        unknown = wanted[int(np.argmax(codes < 0))]
        raise RatingsError(f"candidate {shown(unknown)} is not an item of this model: leave it out")
    allowed = np.zeros(len(known.items), bool)
    allowed[codes] = True
    return allowed


def linked_items(state: FittedModel, user: int) -> Mask:
    """The items that links of the machines join with what this user has rated, (items,)."""
    side = state.machines[0].user_side
    if side is None or not side.links.n_edges:
        raise SettingsError("candidates='linked' needs links between items: item_links=…")
    mask = np.zeros(len(state.items), bool)
    links = side.links
    for item in state.ratings.by_user.columns_of(user):
        mask[links.neighbour[links.start[item] : links.start[item + 1]]] = True
    return mask


def items_of_similar_users(by_user: CSR, by_item: CSR, user: int, scale: Scale) -> Mask:
    """The items that the users most similar to this one have rated, (items,)."""
    similar = similar_rows(by_user, by_item, user, level_values(scale), SIMILAR_USERS)
    return rated_by(by_user, similar, by_item.n_rows)


def similar_rows(rows: CSR, transposed: CSR, row: int, values: Array | None, n: int) -> Codes:
    """The n rows most similar to `row` by Pearson correlation over columns both rated.

    Only positive correlations over at least SIMILAR_SUPPORT columns count; ties go to more common
    columns, then to the first row.
    """
    mine = slice(rows.start[row], rows.start[row + 1])
    columns = rows.column[mine]
    place = transposed.positions_of(columns)
    x = np.repeat(_values(rows, values, mine), np.diff(transposed.start)[columns])
    y = _values(transposed, values, place)
    correlation, shared = group_correlations(transposed.column[place], x, y, rows.n_rows)
    good = (correlation > 0) & (shared >= SIMILAR_SUPPORT)
    good[row] = False
    similar = np.flatnonzero(good)
    order = np.lexsort((similar, -shared[similar], -correlation[similar]))
    return similar[order[:n]]


def rated_by(rows: CSR, chosen: Codes, n_columns: int) -> NDArray[np.bool_]:
    """Which columns any of the chosen rows rated, (n_columns,)."""
    mask = np.zeros(n_columns, bool)
    mask[rows.column[rows.positions_of(chosen)]] = True
    return mask


def _values(rows: CSR, values: Array | None, where: Codes | slice) -> Array:
    own = rows.value.size or values is None
    numbers: Array = rows.value[where] if own else np.asarray(values)[rows.level[where]]
    return numbers.astype(np.float64)
