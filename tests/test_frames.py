"""Frames: every library gives the same columns, with or without the others installed."""

import datetime as dt
import sys

import narwhals as nw
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from ordbm import Ratings
from ordbm.data.frames import frame_of
from ordbm.errors import SettingsError

KINDS = {"pandas": pd.DataFrame, "polars": pl.DataFrame, "pyarrow": pa.Table}

every_backend = pytest.mark.parametrize("backend", KINDS)


@pytest.fixture
def without(monkeypatch):
    """As if the named libraries were not installed."""

    def hide(*names):
        for name in names:
            monkeypatch.setitem(sys.modules, name, None)

    return hide


def column(frame, name="id"):
    return nw.from_native(frame)[name].to_list()


@every_backend
@pytest.mark.parametrize(
    "values",
    [
        [1, 2, 3],
        ["a", "b\0", ""],
        [True, False],
        [0.5, 2.0],
        [b"x", b""],
        [dt.date(2020, 1, 1), dt.date(2021, 1, 1)],
        [np.int64(5), 6],
        np.array([3, 1], np.uint8),
        np.array([0.5, 0.25], np.float32),
        np.array(["a", "bc"]),
        np.array([1, 2], object),
        pd.Series([4, 5]),
        pl.Series(["a", "b"]),
        [],
    ],
    ids=repr,
)
def test_columns_of_one_kind_keep_their_values(backend, values):
    frame = frame_of({"id": values, "row": np.arange(len(values))}, backend)
    assert isinstance(frame, KINDS[backend])
    assert column(frame) == list(values)
    assert column(frame, "row") == list(range(len(values)))


@every_backend
@pytest.mark.parametrize(
    ("values", "texts"),
    [
        ([1, "a"], ["1", "a"]),
        ([1, True, 0.5], ["1", "True", "0.5"]),
        ([(1, 2), (3, "a")], ["(1, 2)", "(3, 'a')"]),
        ([2**80, 2**200], [str(2**80), str(2**200)]),
        (["\ud800", "b"], ["\\ud800", "b"]),
        ([1, "a", None], ["1", "a", None]),
    ],
    ids=repr,
)
def test_ids_without_a_column_type_are_objects_in_pandas_and_text_elsewhere(backend, values, texts):
    found = column(frame_of({"id": values}, backend))
    expected = values if backend == "pandas" else texts
    assert found == expected
    assert list(map(type, found)) == list(map(type, expected))


@every_backend
def test_dates_keep_their_precision(backend):
    days = np.array(["2020-01-01T00:00:00.000000001", "2020-01-01"], "datetime64[ns]")
    for values in (days, list(days)):
        found = nw.from_native(frame_of({"id": values}, backend))["id"].to_numpy()
        np.testing.assert_array_equal(found.astype("datetime64[ns]"), days)


def test_the_first_library_installed_is_used(without):
    ratings = Ratings([1], [2], [3])
    for name, kind in KINDS.items():
        assert isinstance(frame_of({"id": [1]}), kind)
        assert isinstance(ratings.to_frame(), kind)
        without(name)
    with pytest.raises(SettingsError, match=r"polars, pyarrow, and none .*pip install"):
        frame_of({"id": [1]})


@every_backend
def test_a_library_that_is_absent_is_named(without, backend):
    without(backend)
    with pytest.raises(SettingsError, match=f"'{backend}' is not installed: pip install {backend}"):
        Ratings([1], [2], [3]).to_frame(backend)


@pytest.mark.parametrize("backend", ["dask", 5, [], ""], ids=repr)
def test_unknown_libraries_are_refused(backend):
    with pytest.raises(SettingsError, match="not known: use one of pandas, polars, pyarrow"):
        frame_of({"id": [1]}, backend)
