"""Columns in parts are what they are whole: distinct values by first appearance, and codes."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ordbm.data import encoded_parts
from ordbm.data.encoded_parts import EncodedParts, RatingParts
from ordbm.data.ids import IdMap
from ordbm.data.ratings import Ratings
from ordbm.data.time_parts import TimeParts
from ordbm.data.times import times_in_seconds
from ordbm.runtime.scratch import IN_MEMORY

NEAR = st.lists(st.lists(st.integers(-40, 40), max_size=9), max_size=9)
FAR = st.lists(st.lists(st.integers(-(2**63), 2**63 - 1) | st.integers(0, 9)), max_size=9)
LARGE = st.lists(st.lists(st.integers(0, 2**64 - 1) | st.integers(0, 9)), max_size=9)
TEXTS = st.lists(st.lists(st.text(max_size=2)), max_size=9)


def coded(parts, kind, *, as_dictionary=False):
    found = EncodedParts(sum(map(len, parts)), IN_MEMORY)
    for part in parts:
        array = pa.array(part, kind)
        found.add(array.dictionary_encode() if as_dictionary else array)
    return found.id_map()


def check(parts, found):
    ids, codes = found
    expected = IdMap.of([one for part in parts for one in part])
    assert ids == expected[0]
    np.testing.assert_array_equal(codes, expected[1])


@pytest.fixture(autouse=True, params=[1, 2**20])
def pending(request, monkeypatch):
    monkeypatch.setattr(encoded_parts, "_MOST_PENDING", request.param)
    monkeypatch.setattr(encoded_parts, "_LONGEST_TABLE", 64)
    monkeypatch.setattr(encoded_parts, "_AT_ONCE", 3)


@pytest.mark.parametrize("as_dictionary", [False, True])
@given(parts=TEXTS)
def test_texts(parts, as_dictionary):
    if any(parts):
        check(parts, coded(parts, pa.string(), as_dictionary=as_dictionary))


@given(parts=NEAR)
def test_integers_that_are_near(parts):
    if any(parts):
        check(parts, coded(parts, pa.int16()))


@given(parts=FAR)
def test_integers_that_are_far(parts):
    if any(parts):
        check(parts, coded(parts, pa.int64()))


@given(parts=LARGE)
def test_integers_beyond_63_bits(parts):
    if any(parts):
        check(parts, coded(parts, pa.uint64()))


def test_a_dictionary_may_hold_more_in_another_order_and_twice():
    array = pa.DictionaryArray.from_arrays(pa.array([3, 1, 3, 0]), ["a", "b", "c", "a"])
    parts = EncodedParts(4, IN_MEMORY)
    parts.add(array)
    ids, codes = parts.id_map()
    assert ids.ids == ("a", "b")
    assert codes.tolist() == [0, 1, 0, 0]


@pytest.mark.parametrize(
    ("parts", "kind", "scale"),
    [
        ([[1, 2], [5, 3]], pa.int8(), None),
        ([[1.5, 2], [5, 3, 2]], pa.float32(), None),
        ([[True, False], [True]], pa.bool_(), None),
        ([["b", "a"], ["a"]], pa.string(), ["a", "b", "c"]),
        ([[1, 2], [5, 3]], pa.int64(), "continuous"),
        ([list(range(90)), list(range(95, 99))], pa.int32(), None),
        ([list(range(150)), list(range(90))], pa.int32(), None),
        ([list(range(200)), list(range(190, 400))], pa.float64(), None),
        ([[0.1 + 0.2, 0.3], [0.1]], pa.float64(), None),
    ],
)
def test_ratings_are_on_the_scale_that_all_of_them_tell(parts, kind, scale):
    found = RatingParts(sum(map(len, parts)), IN_MEMORY)
    for part in parts:
        found.add(pa.array(part, kind))
    on, level, value = found.whole(scale)
    whole = [one for part in parts for one in part]
    row = list(range(len(whole)))
    given_ = np.array(whole, bool) if kind == pa.bool_() else whole
    expected = Ratings(row, row, given_, scale)
    if expected.is_continuous:
        assert on.mean == pytest.approx(expected.scale.mean)
        assert on.deviation == pytest.approx(expected.scale.deviation)
        np.testing.assert_array_equal(value, expected.by_user.value)
    else:
        assert on == expected.scale
        np.testing.assert_array_equal(level, expected.levels)


@pytest.mark.parametrize(
    ("parts", "kind"),
    [
        ([[5, 10**9], [3]], pa.int64()),
        ([[5, 10**12], [3]], pa.int64()),
        ([[1.5, 2.5], [10.0**15]], pa.float64()),
        ([["2020-01-01", "2020-01-02T03:04:05"], ["1990-05-05"]], pa.string()),
        ([["17", "2000000000000"], ["18"]], pa.string()),
        ([[10**6], [5]], pa.timestamp("ms")),
        ([[1000], [5]], pa.date32()),
    ],
)
def test_times_in_parts_are_those_of_the_whole(parts, kind):
    arrays = [pa.array(part, kind) for part in parts]
    found = TimeParts(sum(map(len, parts)), IN_MEMORY)
    for array in arrays:
        found.check(array, {})
        found.add(array)
    whole = pa.concat_arrays(arrays)
    plain = whole.to_pylist() if kind == pa.string() else whole.to_numpy(zero_copy_only=False)
    np.testing.assert_array_equal(found.whole(), times_in_seconds(plain))
