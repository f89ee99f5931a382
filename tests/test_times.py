"""When ratings were given: read, kept, told apart and split by."""

import datetime as dt
import io

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from pyarrow import feather, parquet

import ordbm
from cli_runs import json_answer
from ordbm import Ratings, hold_out, read_ratings, write_ratings
from ordbm.data.times import is_date, text_seconds, times_in_seconds
from ordbm.datasets import filter_items
from ordbm.datasets.delimited import ArrowTexts
from ordbm.errors import RatingsError, SettingsError
from ordbm.persistence.container import read_container, write_container

NOON = 1_000_000_800  # 2001-09-09 02:00:00 UTC
WORDS = "2001-09-09T02:00:00"
UTC = dt.datetime(2001, 9, 9, 2, tzinfo=dt.UTC)


@pytest.mark.parametrize(
    "time",
    [
        NOON,
        float(NOON),
        str(NOON),
        f"{NOON}.0",
        WORDS,
        f"{WORDS}Z",
        "2001-09-09 02:00",
        "2001-09-09T04:00+02:00",
        UTC,
        UTC.replace(tzinfo=None),
        UTC.astimezone(dt.timezone(dt.timedelta(hours=-5))),
        np.datetime64(WORDS),
        pd.Timestamp(WORDS),
        NOON * 1000,
        NOON * 10**6,
        NOON * 10**9,
        str(NOON * 1000),
    ],
    ids=repr,
)
def test_one_moment_in_many_forms(time):
    assert times_in_seconds([time]).tolist() == [NOON]
    assert is_date(time)


def test_days_and_columns_of_every_kind():
    days = [dt.date(1970, 1, 2), dt.date(1970, 1, 11)]
    texts = [str(day) for day in days]
    for column in (
        days,
        texts,
        np.array(texts, "datetime64[D]"),
        np.array([86400, 864000]),
        pd.Series(pd.to_datetime(texts)),
        pd.Series(pd.to_datetime(texts, utc=True)),
        pl.Series(days),
        pa.chunked_array([texts]).cast(pa.timestamp("us")),
    ):
        assert times_in_seconds(column).tolist() == [86400, 864000]


def test_the_unit_is_of_the_whole_column():
    assert times_in_seconds([5, 2e11]).tolist() == [0.005, 2e8]
    assert times_in_seconds([5, -3, 2e10]).tolist() == [5, -3, 2e10]


def test_arrow_reads_texts_as_python_does():
    for texts in (["1", "2.5", "-3"], [str(NOON * 1000), "7"], [WORDS, "1970-01-02"], ["x", "1"]):
        fast, slow = text_seconds(ArrowTexts(pa.array(texts))), text_seconds(texts)
        np.testing.assert_array_equal(fast, slow)


@pytest.mark.parametrize("bad", [None, np.nan, "soon", "", np.inf, pd.NaT, b"1"])
def test_what_is_no_time_is_named_with_its_row(bad):
    with pytest.raises(RatingsError, match=r"row 1 \(user 'bob', item 'film', time .*time=False"):
        Ratings(["ann", "bob"], ["film", "film"], [1, 2], times=[1, bad])


def test_there_is_a_time_for_each_rating():
    with pytest.raises(RatingsError, match="2 ratings, 3 times"):
        Ratings([1, 2], [1, 1], [1, 2], times=[1, 2, 3])


def some(n=60, seed=0):
    """Ratings whose time is their row, shuffled."""
    rng = np.random.default_rng(seed)
    pairs = rng.permutation(n)
    return Ratings(pairs // 10, pairs % 10, 1 + pairs % 5, times=pairs)


def test_times_stay_with_their_ratings():
    ratings = some()
    of_pair = {
        (ratings.users[u], ratings.items[i]): t
        for u, i, t in zip(ratings.user_codes, ratings.item_codes, ratings.times, strict=True)
    }
    assert all(10 * user + item == time for (user, item), time in of_pair.items())
    some_of_them = ratings.select(ratings.item_codes > 3)
    assert some_of_them.times.tolist() == ratings.times[ratings.item_codes > 3].tolist()
    fewer = filter_items(some_of_them, 1)
    assert fewer.times.tolist() == some_of_them.times.tolist()
    missing = Ratings([1, 1, 2], [1, 2, 1], [3, 0, 5], missing=0, times=[7, 8, 9])
    assert missing.times.tolist() == [7, 9]
    assert not Ratings([1], [1], [1]).has_times


@pytest.mark.parametrize(
    ("times", "kept"),
    [([30, 10, 20], 1), ([10, 30, 20], 2), ([10, 20, 30], 3), ([20, 20, 10], 2), (None, 3)],
)
def test_the_last_rating_is_the_latest_and_of_one_time_the_last_row(times, kept):
    found = Ratings([7, 7, 7], [8, 8, 8], [1, 2, 3], scale=[1, 2, 3], times=times)
    assert found.values.tolist() == [kept]
    assert found.times.tolist() == ([] if times is None else [max(times)])
    mean = Ratings([7, 7, 7], [8, 8, 8], [1, 2, 3], duplicates="mean", times=times)
    assert (mean.values.tolist(), mean.times.tolist()) == ([2], found.times.tolist())


TABLE = {"user": [1, 2, 1], "item": [10, 20, 20], "rating": [5, 3, 4]}
WHEN = [NOON, NOON + 60, NOON + 120]
STAMPS = [UTC + dt.timedelta(minutes=minute) for minute in range(3)]


@pytest.mark.parametrize("make", [dict, pd.DataFrame, pl.DataFrame, pa.table])
@pytest.mark.parametrize("times", [WHEN, STAMPS, [str(one) for one in STAMPS]], ids=type)
def test_tables_bring_their_times(make, times):
    found = Ratings(make({"date": times, **TABLE}))
    assert found.times.tolist() == [NOON, NOON + 120, NOON + 60]  # by user
    told = Ratings.from_frame(make({"date": [1, 2, 3], "when": times, **TABLE}), time="when")
    assert told.times.tolist() == found.times.tolist()
    assert not Ratings.from_frame(make({"date": times, **TABLE}), time=False).has_times


def test_a_column_that_does_not_begin_with_a_time_is_another():
    assert not Ratings({**TABLE, "date": ["09/08/2001"] * 3}).has_times
    with pytest.raises(RatingsError, match=r"row 2 .*time '09/08/2001'"):
        Ratings({**TABLE, "date": [*WHEN[:2], "09/08/2001"]})
    assert Ratings({**TABLE, "date": ["no"] * 3, "time": WHEN}).has_times


def test_records_of_four_have_a_time_if_it_looks_like_one():
    rows = [(1, 10, 5, NOON), (2, 20, 3, NOON + 60)]
    assert Ratings(rows).times.tolist() == [NOON, NOON + 60]
    assert not Ratings([(1, 10, 5, 3), (2, 20, 3, 4)]).has_times
    assert not Ratings([(1, 10, 5, None), (2, 20, 3, None)]).has_times


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("ratings.csv", "user,item,rating,timestamp\n1,10,5,{}\n2,20,3,{}\n1,20,4,{}\n"),
        ("ratings.csv", "date,user,item,rating\n{},1,10,5\n{},2,20,3\n{},1,20,4\n"),
        ("ratings.dat", "1::10::5::{}\n2::20::3::{}\n1::20::4::{}\n"),
        ("u.data", "1\t10\t5\t{}\n2\t20\t3\t{}\n1\t20\t4\t{}\n"),
    ],
)
@pytest.mark.parametrize("times", [WHEN, STAMPS], ids=["seconds", "ISO 8601"])
def test_files_bring_their_times(tmp_path, name, text, times):
    path = tmp_path / name
    path.write_text(text.format(*times))
    assert read_ratings(path).times.tolist() == [NOON, NOON + 120, NOON + 60]
    assert not read_ratings(path, time=False).has_times
    path.write_text(text.format(times[0], "soon", times[2]))
    with pytest.raises(RatingsError, match=r"line [23]: the time 'soon' is neither a number nor"):
        read_ratings(path)
    path.write_text(text.format("soon", times[1], times[2]))
    assert not read_ratings(path).has_times


def test_times_of_a_file_are_scaled_once(tmp_path):
    """Seconds past the year 5000, of a date or of finer numbers, are not taken for finer ones."""
    path = tmp_path / "r.csv"
    for texts in (["9999-12-31", "2001-02-03"], ["97830", "1e150"]):
        lines = [f"{row},{row},3,{text}\n" for row, text in enumerate(texts)]
        path.write_text("user,item,rating,time\n" + "".join(lines))
        found = read_ratings(path, time="time").times
        np.testing.assert_array_equal(found, times_in_seconds(texts))


def test_the_netflix_files_have_dates():
    text = b"1:\n5,3,2005-09-06\n6,4,2005-09-07\n"
    found = read_ratings(io.BytesIO(text), layout="netflix")
    assert found.times.tolist() == times_in_seconds(["2005-09-06", "2005-09-07"]).tolist()
    with pytest.raises(RatingsError, match="line 2: the time 'x'"):
        read_ratings(io.BytesIO(b"1:\n5,3,x\n"), layout="netflix")
    assert not read_ratings(io.BytesIO(b"1:\n5,3,x\n"), layout="netflix", time=False).has_times


@pytest.mark.parametrize("write", [parquet.write_table, feather.write_feather])
@pytest.mark.parametrize(
    "times",
    [
        pa.array(WHEN),
        pa.array(np.array(WHEN) * 1000.0),
        pa.array(STAMPS, pa.timestamp("ns", "UTC")),
        pa.array([str(one) for one in STAMPS]),
    ],
    ids=lambda times: str(times.type),
)
def test_columns_of_arrow_bring_their_times(tmp_path, write, times):
    path = tmp_path / "ratings.parquet"
    write(pa.table({**TABLE, "rated_at": times}), path)
    assert read_ratings(path).times.tolist() == [NOON, NOON + 120, NOON + 60]
    assert not read_ratings(path, time=False).has_times
    write(pa.table({**TABLE, "date": pa.array([None, *WHEN[1:]])}), path)
    assert not read_ratings(path).has_times  # not even the first is a time
    with pytest.raises(RatingsError, match="the time is missing in row 0"):
        read_ratings(path, time="date")
    write(pa.table({**TABLE, "date": pa.array([b"x"] * 3)}), path)
    assert not read_ratings(path).has_times
    with pytest.raises(RatingsError, match="the time column holds binary; times must be numbers"):
        read_ratings(path, time="date")


@pytest.mark.parametrize("name", ["r.csv", "r.tsv.gz", "r.parquet"])
@pytest.mark.parametrize("step", [1.0, 0.25])
def test_written_times_are_read_again(tmp_path, name, step):
    ratings = Ratings([1, 2, 1], [1, 2, 2], [1, 2, 3], times=NOON + step * np.arange(3))
    write_ratings(ratings, tmp_path / name)
    assert read_ratings(tmp_path / name).times.tolist() == ratings.times.tolist()
    again = Ratings(ratings.to_frame())
    assert again.times.tolist() == ratings.times.tolist()


def test_the_latest_are_held_out():
    ratings = some()
    train, test = hold_out(ratings, 0.25, by="time")
    assert len(test) == 15
    assert train.times.max() < test.times.min()
    train, test = hold_out(ratings, 0.25, by="user_time")
    for user in range(6):
        mine = ratings.times[ratings.user_codes == user]
        tested = test.times[test.user_codes == user]
        assert sorted(tested) == sorted(mine)[-2:]  # round(2.5), halves to even
    tied = Ratings([0] * 9, range(9), [1, 2, 3] * 3, times=[5] * 9)
    parts = [set(hold_out(tied, 0.3, seed, by="time")[1].item_codes) for seed in range(5)]
    assert len(set(map(tuple, parts))) > 1
    with pytest.raises(SettingsError, match="by='time' needs times, and these ratings have none"):
        hold_out(Ratings([1], [1], [1]), by="time")


def test_a_model_keeps_the_times(tmp_path):
    ratings = some()
    model = ordbm.OrdinalBM(members=1, hidden=2, epochs=1, presence=False).fit(ratings)
    model.save(tmp_path / "model")
    np.testing.assert_array_equal(ordbm.load(tmp_path / "model")._state.times, ratings.times)
    header, arrays = read_container(tmp_path / "model", "model")
    for wrong in (ratings.times[1:], np.where(ratings.times == 3, np.nan, 1.0), np.ones(60, bool)):
        write_container(tmp_path / "bad", "model", header, {**arrays, "ratings.time": wrong})
        with pytest.raises(ordbm.errors.ModelFileError):
            ordbm.load(tmp_path / "bad")


def test_the_command_line_splits_by_time(tmp_path):
    write_ratings(some(), tmp_path / "r.csv")
    told = ("evaluate", tmp_path / "r.csv", "--split", "time", "--members", "1", "--epochs", "1")
    found = json_answer(*told, "--validation", "0")
    assert found["ratings"]["times"]
    assert found["models"][0]["n_users"] < 6  # the latest fifth is by few
    without = json_answer("evaluate", tmp_path / "r.csv", "--time-column", "none", *told[4:])
    assert not without["ratings"]["times"]
