"""The model file: all of a fitted model in one container, and back.

What a file says is checked in full before anything is made of it: compiled code trusts its index
arrays. Whatever follows from something else (the ratings by item, both ends of a link, feature
tables) is not stored but made again.
"""

from __future__ import annotations

import json
import math
import os
from dataclasses import asdict, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ordbm.data.csr import CSR, CSRPair, with_transpose
from ordbm.data.ids import IdMap
from ordbm.data.scale import RatingScale, Scale
from ordbm.data.standardiser import LARGEST_RATING, Standardiser
from ordbm.data.times import NO_TIMES, plain_times
from ordbm.errors import ModelFileError
from ordbm.inference.distributions import cell_points, level_cells
from ordbm.inference.fitted import FittedModel, Growth, Origin
from ordbm.kernels.structures import padded
from ordbm.model.feature_effects import described_machines
from ordbm.model.features import Features, features
from ordbm.model.learners import learner_of
from ordbm.model.machine import Machine, Parameters, Side
from ordbm.model.neighbours import Links
from ordbm.model.rounding import level_axes
from ordbm.model.settings import Settings, settings_of
from ordbm.persistence.container import (
    FAULTS,
    Arrays,
    Header,
    opened_container,
    read_opened,
    taken,
    write_container,
)
from ordbm.persistence.json_values import STORABLE, packed_ids, unpacked_ids
from ordbm.persistence.packed_tables import MemoryClaimError, PackedTables, packed_tables
from ordbm.persistence.stored_context import (
    context_arrays,
    context_header,
    unpacked_columns,
    unpacked_context,
)
from ordbm.persistence.stored_features import (
    feature_arrays,
    packed_features,
    unpacked_features,
)
from ordbm.persistence.stored_links import link_arrays, unpacked_links
from ordbm.persistence.stored_presence import packed_presence, presence_arrays, unpacked_presence
from ordbm.persistence.stored_priors import (
    fold_in_arrays,
    packed_fold_in,
    unpacked_fold_in,
)
from ordbm.persistence.stored_scale import (
    packed_scale,
    unpacked_scale,
    unpacked_standardiser,
)
from ordbm.persistence.stored_settings import (
    packed_settings,
    unpacked_record,
    unpacked_settings,
)
from ordbm.persistence.stored_structure import packed_structure, unpacked_structure
from ordbm.runtime.arrays import Mask, Numbers
from ordbm.runtime.threads import thread_count
from ordbm.training.loop import EpochRecord

NEWCOMERS = ("newcomers.user", "newcomers.item")  # who was not learnt from, as names of arrays
MOST_POINTS = 2_000  # at which a continuous rating is looked at, or draws side by side
MOST_COUNTED = 2**53  # ratings
ANSWER_MEMORY = 5e8  # bytes that answers may need, whatever the size of the file, and
TIMES_THE_FILE = 20  # so many times its size


class Stored(NamedTuple):
    """A fitted model in parts: what its constructor was told, its training, what it learnt."""

    told: dict[str, Any]
    history: list[EpochRecord]
    interrupted: bool
    fitted: FittedModel
    file_bytes: int | None = None  # of the file that it comes from


def write_model(path: str | os.PathLike[str], model: Stored, *, overwrite: bool = False) -> None:
    """Write the model file; the same model gives the same bytes."""
    fitted = model.fitted
    rows = fitted.given.by_user
    arrays: Arrays = {
        "ratings.start": rows.start,
        "ratings.column": rows.column,
        "ratings.level": rows.level,
        "ratings.value": rows.value,
        **({"ratings.time": plain_times(fitted.times)} if len(fitted.times) else {}),
        **context_arrays(fitted.context, fitted.context_columns),
        **_id_arrays("user", fitted.users),
        **_id_arrays("item", fitted.items),
    }
    for number, machine in enumerate(fitted.machines):
        arrays |= _machine_arrays(machine, number)
    arrays |= presence_arrays(fitted.presence)
    arrays |= feature_arrays(fitted.described)
    for name, those in zip(NEWCOMERS, fitted.newcomers, strict=True):
        if those.new.any():
            arrays[name] = those.new.astype(np.uint8)
    lengths, arrays = packed_tables(arrays, fitted)
    assert fitted.fold_in_priors is not None
    arrays |= fold_in_arrays(fitted.fold_in_priors)
    header = {
        "version": fitted.origin.version,
        "time": fitted.origin.time,
        "settings": packed_settings(model.told),
        "interrupted": model.interrupted,
        "history": [asdict(record) for record in model.history],
        "features": fitted.machines[0].features.kind,
        "level_groups": fitted.machines[0].features.n_groups,
        "members": len(fitted.machines),
        "hidden": [int(side.n_hidden) if side else 0 for side in fitted.machines[0].sides],
        "scale": packed_scale(fitted.scale),
        "standardiser": fitted.standardiser,
        "presence": packed_presence(fitted.presence),
        "fold_in": packed_fold_in(fitted.fold_in_priors),
        "growth": fitted.growth,
        "described": packed_features(fitted.described),
        "structure": packed_structure(fitted.structure),
        "context": context_header(fitted.context_columns),
        "packed": lengths,
    }
    try:
        _stored(json.loads(json.dumps(header)), dict(arrays))
    except FAULTS as error:  # better now than when the model is gone
        raise ModelFileError(f"this model cannot be stored: {error}") from None
    write_container(path, "model", header, arrays, overwrite=overwrite)


def load_model(path: str | os.PathLike[str], memory: float = ANSWER_MEMORY) -> Stored:
    """The model in a file, checked; no code in it is ever run.

    Its answers must need no more than `memory` bytes, or what is in proportion to the file.
    """
    with opened_container(path, "model") as file:
        header, arrays = read_opened(file, path, "model")
        file_bytes = os.fstat(file.fileno()).st_size
    try:
        stored = _stored(header, arrays, max(memory, TIMES_THE_FILE * file_bytes))
    except MemoryClaimError as claim:
        raise _too_large(path, file_bytes, claim.args[0]) from None
    except FAULTS as error:  # its checksum holds, its content does not
        reason = f"no {error}" if isinstance(error, KeyError) else error
        raise ModelFileError(
            f"{os.fspath(path)!r} does not hold a model that ordbm could have written ({reason}): "
            "save or fetch it again"
        ) from None
    needed = bytes_for_answers(stored.fitted)
    if needed > max(memory, TIMES_THE_FILE * file_bytes):
        raise _too_large(path, file_bytes, needed)
    return stored._replace(file_bytes=file_bytes)


def _too_large(path: str | os.PathLike[str], file_bytes: int, needed: int) -> ModelFileError:
    return ModelFileError(
        f"{os.fspath(path)!r} has {file_bytes:,} bytes, and its answers would need {needed:,}: if "
        f"you trust it, load it with ordbm.load(path, memory={1.1 * needed:.2g})"
    )


def bytes_for_answers(fitted: FittedModel) -> int:
    """About what is held to answer a question, beside the model itself.

    The inputs and means of all hidden units; one row's at many points, in double precision, to
    explain a pair or to join several; and every level's potential of all items.
    """
    one = fitted.machines[0]
    points = MOST_POINTS
    if fitted.standardiser is not None and isinstance(fitted.scale, RatingScale):
        points = max(points, len(cell_points(level_cells(fitted.scale, fitted.standardiser)).point))
    units = [
        (rows.n_rows, side.n_hidden)
        for side, rows in zip(one.sides, fitted.ratings, strict=True)
        if side is not None
    ]
    inputs = sum(n_rows * padded(n_hidden) for n_rows, n_hidden in units) * one.dtype.itemsize
    at_points = points * max((n_hidden for _, n_hidden in units), default=0) * 8
    potentials = len(one.level_bias) * len(fitted.items) * one.dtype.itemsize
    return 2 * inputs * len(fitted.machines) + 4 * at_points + potentials


def _stored(header: Header, arrays: Arrays, memory: float = math.inf) -> Stored:
    told = unpacked_settings(header["settings"])
    settings = settings_of(**told)
    learner_of(settings.learner)
    scale = unpacked_scale(header["scale"])
    users, items = (IdMap(unpacked_ids(f"{name}_ids", arrays)) for name in ("user", "item"))
    # The file may come from a larger computer; results do not depend on threads.
    threads = min(thread_count(settings.threads), thread_count(None))
    tables = PackedTables(header["packed"], arrays, memory, threads)
    tables.restore_indices(_index_sizes(arrays))
    n_levels = len(scale) if isinstance(scale, RatingScale) else 1
    table = features(header["features"], n_levels, _level_groups(header, n_levels))
    if scale.is_continuous and not table.is_gaussian:
        raise ValueError("continuous ratings without Gaussian features")
    standardiser = unpacked_standardiser(header["standardiser"], scale, needed=table.is_gaussian)
    rows = _rows(arrays, len(users), len(items), scale, standardiser)
    times = _times(arrays, len(rows.column))
    columns = unpacked_columns(header.get("context"), arrays, len(rows.column))
    settings = replace(settings, hidden=tuple(header["hidden"]))  # may follow the ratings
    # Presence first: restoring it takes longest.
    presence = unpacked_presence(header["presence"], arrays, len(users), len(items), tables)
    machines = _machines(header["members"], arrays, tables, settings, table, len(users), len(items))
    tables.restore()
    for machine in machines:
        _check_machine(machine)
    fold_in_priors = unpacked_fold_in(header["fold_in"], arrays, machines, len(items))
    sizes = len(users), len(items)
    described = unpacked_features(header.get("described"), arrays, machines, sizes)
    given = CSRPair(*with_transpose(rows, len(items)))
    machines = described_machines(machines, described)
    context = unpacked_context(arrays, times, columns)
    newcomers = _newcomers(arrays, sizes)
    if arrays:
        raise ValueError(f"{min(arrays)} has no place in it")
    n_links = [side.links.n_edges if side else 0 for side in machines[0].sides]
    structure = unpacked_structure(header.get("structure"), (n_links[0], n_links[1]))
    if structure is not None and structure.hidden != settings.hidden_sizes:
        raise ValueError("the structure has other hidden units")
    return Stored(
        told,
        [unpacked_record(entry) for entry in header["history"]],
        header["interrupted"] is True,
        FittedModel(
            users,
            items,
            scale,
            standardiser,
            machines,
            given,
            threads,
            _origin(header["version"], header["time"]),
            presence,
            fold_in_priors,
            times,
            _growth(header.get("growth"), len(rows.column), len(users), len(items)),
            described,
            structure,
            context,
            columns,
            newcomers,
        ),
    )


def _index_sizes(arrays: Arrays) -> dict[str, int]:
    """How many indices there are of each kind, by arrays that are never packed."""
    n_ratings = int(taken(dict(arrays), "ratings.start", np.int64, None)[-1])
    sizes = {"ratings.column": n_ratings, "ratings.level": n_ratings}
    for side in ("user_side", "item_side"):
        if f"{side}.link_similarity" in arrays:
            n_links = len(arrays[f"{side}.link_similarity"])
            sizes |= {f"{side}.link_low": n_links, f"{side}.link_high": n_links}
    if not 0 <= n_ratings < 2**40:
        raise ValueError("the users' ratings do not add up")
    return sizes


def _id_arrays(name: str, ids: IdMap) -> Arrays:
    try:
        return packed_ids(f"{name}_ids", ids.ids)
    except (TypeError, RecursionError) as error:
        raise ModelFileError(
            f"a {name} id cannot be stored: {error}; use {STORABLE} as ids"
        ) from None


def _level_groups(header: Header, n_levels: int) -> int:
    """Of couplings; a file that does not say has them level by level."""
    groups = header.get("level_groups", n_levels)
    if type(groups) is not int or not 1 <= groups <= n_levels:
        raise ValueError("the groups of levels are not as many as levels, or fewer")
    return groups


def _growth(counts: Any, n_ratings: int, n_users: int, n_items: int) -> Growth:
    """How the model has grown; an older file's has not."""
    if counts is None:
        return Growth(n_ratings, n_users, n_items)
    if not isinstance(counts, list) or not all(
        type(count) is int and 0 <= count <= MOST_COUNTED for count in counts
    ):
        raise ValueError("what came since learning is not counted")
    growth = Growth(*counts)
    if not growth.ratings or growth.users > n_users or growth.items > n_items:
        raise ValueError("it was learnt from more users or items than there are")
    if growth.ratings + growth.new - growth.withdrawn != n_ratings:
        raise ValueError("the ratings since learning do not add up")
    return growth


def _origin(version: Any, time: Any) -> Origin:
    if not isinstance(version, str) or not isinstance(time, str):
        raise TypeError("version and time must be text")
    return Origin(version, time)


# -- ratings, parameters, links -------------------------------------------------------------------


def _rows(
    arrays: Arrays, n_users: int, n_items: int, scale: Scale, standardiser: Standardiser | None
) -> CSR:
    """The ratings by user on their scale, every index within its range."""
    n_levels = len(scale) if isinstance(scale, RatingScale) else 1
    start = taken(arrays, "ratings.start", np.int64, n_users + 1)
    column = taken(arrays, "ratings.column", np.int32, None)
    n = len(column)
    level = taken(arrays, "ratings.level", np.uint8, n)
    kind = np.float64 if scale.is_continuous else np.float32
    value = taken(arrays, "ratings.value", kind, n if scale.is_continuous else 0)
    if not n or start[0] != 0 or start[-1] != n or (start[1:] < start[:-1]).any():
        raise ValueError("the users' ratings do not add up")
    if column.min() < 0 or column.max() >= n_items or level.max() >= n_levels:
        raise ValueError("a rating is of no item or of no level")
    begins = np.zeros(n + 1, bool)
    begins[start] = True
    if not (begins[1:-1] | (column[1:] > column[:-1])).all():
        raise ValueError("a user's ratings are out of order")
    if standardiser is not None:
        with np.errstate(over="ignore", invalid="ignore"):
            apart = np.abs(value - standardiser.mean) / standardiser.deviation
        if not (apart <= LARGEST_RATING).all():
            raise ValueError("a rating is out of range")
    return CSR(start, column, level, value, np.empty(0, np.int32))


def _times(arrays: Arrays, n_ratings: int) -> Numbers:
    """When the ratings were given; an older file does not say."""
    stored = arrays.get("ratings.time")
    if stored is None:
        return NO_TIMES
    kind = np.int64 if stored.dtype == np.int64 else np.float64
    times = taken(arrays, "ratings.time", kind, n_ratings).astype(np.float64)
    if not np.isfinite(times).all():
        raise ValueError("a time is not a finite number")
    return times


def _place(member: int) -> str:
    """What the names of a machine's arrays start with; the first one's are plain, as ever."""
    return f"member{member}." if member else ""


def _machine_arrays(machine: Machine, member: int) -> Arrays:
    """Parameters by name; the links, which all machines share, with the first one's."""
    arrays = {"level_bias": machine.level_bias}
    for name, side in zip(("user", "item"), machine.sides, strict=True):
        if side is not None:
            found = side.parameters._asdict() | {"unknown_bias": side.unknown_bias}
            if side.newcomer_bias is not None and side.newcomer_input is not None:
                found["newcomer_bias"] = side.newcomer_bias
                found["newcomer_input"] = side.newcomer_input
            found |= {} if member else link_arrays(side.links)
            arrays |= {f"{name}_side.{key}": value for key, value in found.items()}
    return {_place(member) + name: array for name, array in arrays.items()}


def _machines(
    count: Any,
    arrays: Arrays,
    tables: PackedTables,
    settings: Settings,
    table: Features,
    n_users: int,
    n_items: int,
) -> list[Machine]:
    """All machines, their shapes as the settings have them; filled once tables are restored."""
    if type(count) is not int or not 1 <= count <= len(arrays):
        raise ValueError("the number of machines is at odds with what there is")
    links = [unpacked_links(arrays, *about) for about in (("user", n_items), ("item", n_users))]
    machines = []
    for member in range(count):
        place = _place(member)
        level_bias = taken(arrays, f"{place}level_bias", np.dtype(settings.dtype), table.n_levels)
        sides = [
            _side(arrays, tables, f"{place}{name}_side", number, links[number], settings, table)
            for number, name in enumerate(("user", "item"))
        ]
        machines.append(Machine(table, level_bias, *sides))
    return machines


def _side(
    arrays: Arrays,
    tables: PackedTables,
    name: str,
    number: int,
    links: Links | None,
    settings: Settings,
    table: Features,
) -> Side | None:
    """One machine's side; None where there is none."""
    present = settings.sides in (("user", "item")[number], "joint")
    if links is None:
        if present:
            raise ValueError(f"the {name} is not there")
        return None
    if not (present or links.n_edges):
        raise ValueError(f"the {name} has nothing")
    n_hidden = int(settings.hidden_sizes[number]) if present else 0
    d = padded(n_hidden)
    dtype = np.dtype(settings.dtype)

    def own(key: str, *shape: int) -> NDArray[Any]:
        return taken(arrays, f"{name}.{key}", dtype, *shape)

    parameters = Parameters(
        hidden_bias=own("hidden_bias", d),
        rating_bias=own("rating_bias", links.n_columns if present else 0, table.n_levels),
        coupling=tables.taken(
            f"{name}.coupling", dtype, (links.n_columns, table.n_levels, d),
            n_hidden, level_axes(table),
        ),
        link_weight=tables.taken(f"{name}.link_weight", dtype, (links.n_edges, table.n_pair)),
    )  # fmt: skip
    newcomer_bias = newcomer_input = None
    if f"{name}.newcomer_bias" in arrays:  # an older file says nothing of them
        newcomer_bias = own("newcomer_bias", table.n_levels)
        newcomer_input = own("newcomer_input", d)
    return Side(
        parameters,
        n_hidden,
        links,
        own("unknown_bias", table.n_levels),
        newcomer_bias=newcomer_bias,
        newcomer_input=newcomer_input,
    )


def _newcomers(arrays: Arrays, sizes: tuple[int, int]) -> tuple[Mask, Mask]:
    """Which users and items were not learnt from; none if the file does not say."""
    users, items = (
        taken(arrays, name, np.uint8, n) > 0 if name in arrays else np.zeros(n, bool)
        for name, n in zip(NEWCOMERS, sizes, strict=True)
    )
    return users, items


def _check_machine(machine: Machine) -> None:
    """An error unless all parameters are numbers of a size that can be reckoned with."""
    if machine.has_diverged:
        raise ValueError("parameters are out of range: it has diverged")
    for side in filter(None, machine.sides):
        bias, coupling = side.parameters.hidden_bias, side.parameters.coupling
        if bias[side.n_hidden :].any() or coupling[..., side.n_hidden :].any():
            raise ValueError("there are more hidden units than there should be")
