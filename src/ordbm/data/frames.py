"""Frames made from columns, with whichever frame library is installed."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from importlib.util import find_spec
from typing import Any, Literal, get_args

import numpy as np

from ordbm.data.columns import Column
from ordbm.errors import SettingsError
from ordbm.runtime.printable import shown

Backend = Literal["pandas", "polars", "pyarrow"]

# What polars and pyarrow have column types for; the columns of other values become text.
_PLAIN = (bool, int, float, str, bytes, dt.date, dt.datetime, dt.time, dt.timedelta, np.generic)


def frame_of(columns: dict[str, Any], backend: Backend | None = None) -> Any:
    """The columns as a native frame of `backend`; None takes the first that is installed.

    Ids of several kinds in one column (`1` and `"a"`) stay as they are in pandas, in a column of
    objects. polars and pyarrow have no such columns: there they become text, as do ids of a kind
    that these libraries do not know (tuples, integers beyond their range).
    """
    make = {"pandas": _pandas_frame, "polars": _polars_frame, "pyarrow": _arrow_table}
    plain = {name: _python_column(values) for name, values in columns.items()}
    return make[_usable(backend)](plain)


def _usable(backend: Backend | None) -> Backend:
    """The backend asked for, or the first that is installed."""
    known: tuple[Backend, ...] = get_args(Backend)
    if backend is None:
        for name in known:
            if find_spec(name) is not None:
                return name
        raise SettingsError(
            f"a frame needs one of {', '.join(known)}, and none is installed: pip install pandas"
        )
    if backend not in known:
        raise SettingsError(f"backend={shown(backend)} is not known: use one of {', '.join(known)}")
    if find_spec(backend) is None:
        raise SettingsError(
            f"backend={shown(backend)} is not installed: pip install {backend}, or leave "
            "backend=None "
            "for what there is"
        )
    return backend


def _pandas_frame(columns: dict[str, Column]) -> Any:
    import pandas as pd  # noqa: PLC0415

    def series(values: Column) -> Any:
        if isinstance(values, np.ndarray):
            return pd.Series(values)
        if len(_kinds(values)) > 1:  # pandas would make one kind of numbers, None and booleans
            return pd.Series(values, dtype=object)
        try:
            return pd.Series(values)
        except UnicodeEncodeError:  # text that is not Unicode, such as half a surrogate pair
            return pd.Series(values, dtype=object)

    return pd.DataFrame({name: series(values) for name, values in columns.items()})


def _polars_frame(columns: dict[str, Column]) -> Any:
    import polars as pl  # noqa: PLC0415

    return pl.DataFrame([_typed(values, pl.Series).alias(name) for name, values in columns.items()])


def _arrow_table(columns: dict[str, Column]) -> Any:
    import pyarrow as pa  # noqa: PLC0415

    return pa.table({name: _typed(values, pa.array) for name, values in columns.items()})


def _typed(values: Column, make: Callable[..., Any]) -> Any:
    """The column made of `values`, or of their texts where it takes one type and they have none."""
    if isinstance(values, np.ndarray):
        return make(values)
    kinds = _kinds(values) - {type(None)}
    if len(kinds) <= 1 and all(issubclass(kind, _PLAIN) for kind in kinds):
        try:
            return make(values)
        except (OverflowError, UnicodeEncodeError):
            return make(_texts(values))
    return make(_texts(values))


def _python_column(values: Any) -> Column:
    """`values` as a list of Python values, or as an array of one type other than object."""
    if isinstance(values, np.ndarray) and values.dtype != object:
        return values
    plain = [
        value.item() if isinstance(value, np.generic) and value.dtype.kind not in "mM" else value
        for value in values
    ]
    if plain and all(isinstance(value, np.generic) for value in plain):  # dates, all their digits
        return np.array(plain)
    return plain


def _kinds(values: list[Any]) -> set[type]:
    return set(map(type, values))


def _texts(values: list[Any]) -> list[str | None]:
    """Each value as text that can be encoded; None stays None."""
    return [
        None if value is None else str(value).encode("utf-8", "backslashreplace").decode()
        for value in values
    ]
