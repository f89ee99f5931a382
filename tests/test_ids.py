import datetime as dt

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ordbm.data.columns import EncodedColumn
from ordbm.data.ids import IdMap
from ordbm.errors import RatingsError

any_text = st.text(st.characters(exclude_categories=()), max_size=4)
any_id = st.one_of(
    any_text,
    st.integers(-(2**80), 2**80),
    st.booleans(),
    st.binary(max_size=3),
    st.floats(allow_nan=False),
    st.tuples(st.integers(), any_text),
    st.dates(),
)


def codes_by_the_book(ids):
    seen = []
    codes = []
    for value in ids:
        if value not in seen:
            seen.append(value)
        codes.append(seen.index(value))
    return tuple(seen), codes


@given(st.lists(any_id, max_size=40))
def test_codes_are_ranks_by_first_appearance_for_any_hashable_ids(ids):
    found, codes = IdMap.of(ids)
    assert (found.ids, codes.tolist()) == codes_by_the_book(ids)
    assert codes.dtype == np.int32
    assert found.codes(ids).tolist() == codes.tolist()


@given(st.lists(any_id, min_size=1, max_size=6), st.lists(st.integers(0, 5), max_size=20))
def test_an_encoded_column_gives_what_its_values_give(distinct, places):
    """Whatever the order of the dictionary, with values twice in it or never used."""
    codes = np.array(places, np.int32) % len(distinct)
    column = EncodedColumn(distinct, codes)
    values = [distinct[code] for code in codes]
    assert column.values.tolist() == values
    assert [column[row] for row in range(len(column))] == values
    found, found_codes = IdMap.of(column)
    expected, expected_codes = IdMap.of(values)
    assert (found, found_codes.tolist()) == (expected, expected_codes.tolist())
    assert found_codes.dtype == np.int32


def test_a_missing_id_of_an_encoded_column_is_refused():
    with pytest.raises(RatingsError, match="users must not be missing"):
        IdMap.of(EncodedColumn(["a", None], np.array([0, 1, 0], np.int32)), "users")


@given(
    st.one_of(
        st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1),
        st.lists(st.integers(-5, 5), min_size=1, max_size=60),
        st.lists(st.sampled_from([-(2**63), 2**53, 2**53 + 1, 2**63 - 1]), min_size=1),
    ),
    st.lists(st.integers(-(2**63), 2**63 - 1)),
)
def test_integer_arrays_give_what_lists_give(ids, others):
    found, codes = IdMap.of(np.array(ids, np.int64))
    from_list, list_codes = IdMap.of(ids)
    assert found == from_list
    assert codes.tolist() == list_codes.tolist()
    assert all(type(value) is int for value in found)
    queries = ids + others
    expected = [found.ids.index(q) if q in found.ids else -1 for q in queries]
    assert found.codes(np.array(queries, np.int64)).tolist() == expected
    assert found.codes(queries).tolist() == expected


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int16, np.uint16, np.uint32, np.uint64])
def test_narrow_and_unsigned_integers_do_not_overflow(dtype):
    limits = np.iinfo(dtype)
    ids = np.array([limits.max, limits.min, limits.max], dtype)
    found, codes = IdMap.of(ids)
    assert found.ids == (limits.max, limits.min)
    assert codes.tolist() == [0, 1, 0]
    assert found.codes(np.tile(ids, 3)).tolist() == [0, 1, 0] * 3


@given(st.lists(any_text, min_size=1))
def test_text_is_kept_apart_in_object_arrays(ids):
    array = np.empty(len(ids), object)
    array[:] = ids
    found, codes = IdMap.of(array)
    assert [found[code] for code in codes] == ids


def test_lookalikes_stay_distinct():
    ids = ["e\u0301", "\u00e9", "a", "a\0", "\ud800", "\udfff", "", "\0", "5", 5, (5,), b"5"]
    assert len(IdMap.of(ids)[0]) == len(ids)


def test_numpy_scalars_are_their_python_values():
    found, codes = IdMap.of([np.int64(5), 5, np.str_("x"), "x", np.float64(2.5)])
    assert codes.tolist() == [0, 0, 1, 1, 2]
    assert [type(value) for value in found] == [int, str, float]
    assert np.int32(5) in found
    assert found.codes([np.int8(5)]).tolist() == [0]


def test_dates_keep_their_precision():
    ids = np.array(["2020-01-01T00:00:00.000000001", "2020-01-01"], "datetime64[ns]")
    found, codes = IdMap.of(ids)
    assert codes.tolist() == [0, 1]
    assert found.codes(ids).tolist() == [0, 1]
    assert IdMap.of([dt.date(2020, 1, 1)])[0][0] == dt.date(2020, 1, 1)


@pytest.mark.parametrize(
    "ids",
    [
        [1, None],
        ["a", float("nan")],
        np.array([1.0, np.nan]),
        [1, pd.NA],
        pd.Series([1, pd.NA], dtype="Int64"),
        pd.Series(["a", None]),
        np.array(["2020-01-01", "NaT"], "datetime64[D]"),
        np.ma.masked_array([1, 2], [False, True]),
    ],
    ids=str,
)
def test_missing_ids_are_an_error_naming_the_row(ids):
    with pytest.raises(RatingsError, match=r"users must not be missing: row 1 \(id .*drop"):
        IdMap.of(ids, "users")


def test_unhashable_ids_are_an_error_naming_the_row():
    with pytest.raises(RatingsError, match=r"hashable: row 1 \(id \[1\]\), row 2 .*tuples"):
        IdMap.of([1, [1], {}])
    known, _ = IdMap.of([1, 2])
    with pytest.raises(RatingsError, match=r"users must be hashable: row 1 \(id \[1\]\), row 2"):
        known.codes([1, [1], {}], "users")


@pytest.mark.parametrize(
    "missing", [None, float("nan"), np.nan, pd.NA, pd.NaT, np.datetime64("NaT")], ids=repr
)
def test_missing_ids_are_unknown_to_a_map(missing):
    for ids in ([1, 2], ["a", "b"], [1.5, (2, 3)]):
        known, _ = IdMap.of(ids)
        assert known.codes([ids[1], missing, ids[0]]).tolist() == [1, -1, 0]
    assert IdMap.of([1, 2])[0].codes(np.array([np.nan, 2, 1])).tolist() == [-1, 1, 0]


@pytest.mark.parametrize("value", [np.array(3), np.float64(3), np.ma.masked_array(3)], ids=repr)
def test_one_value_is_no_column(value):
    with pytest.raises(RatingsError, match=r"users: need a sequence, got one value \(3.*list"):
        IdMap.of(value, "users")


@pytest.mark.parametrize("ids", ["abc", b"abc", 5, np.zeros((2, 2)), np.array(3)], ids=repr)
def test_what_is_not_a_sequence_is_refused(ids):
    with pytest.raises(RatingsError, match="need"):
        IdMap.of(ids)


def test_map_behaves_like_a_frozen_sequence():
    found, _ = IdMap.of(["b", "a", "b"])
    assert len(found) == 2
    assert list(found) == ["b", "a"]
    assert "a" in found
    assert "c" not in found
    assert found[1] == "a"
    assert found == IdMap(("b", "a"))
    assert found != IdMap(("a", "b"))
    assert found.codes(["c", "a", None]).tolist() == [-1, 1, -1]
    with pytest.raises(AttributeError):
        found.ids = ()
    with pytest.raises(RatingsError, match="distinct"):
        IdMap((1, 1)).codes([1])


def test_empty_maps_know_nothing():
    found, codes = IdMap.of(np.array([], np.int64))
    assert len(found) == len(codes) == 0
    assert found.codes(np.array([1, 2])).tolist() == [-1, -1]


@pytest.mark.parametrize("kind", ["integers", "strings"])
def test_a_million_ids(kind):
    draws = np.random.default_rng(0).integers(0, 6_000, 1_000_000)
    ids = draws if kind == "integers" else np.array([f"user {n}" for n in range(6_000)])[draws]
    found, codes = IdMap.of(ids)
    assert len(found) == 6_000
    assert found[codes[0]] == ids[0]
    assert found[codes[-1]] == ids[-1]
