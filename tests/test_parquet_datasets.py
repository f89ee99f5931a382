"""Folders of parquet files are read as one file of all their rows would be, in any memory."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

import hostile_files
import ordbm
from ordbm.datasets import ReadLimits, read_pairs, read_ratings
from ordbm.errors import RatingsError, SettingsError


def table(n=300, seed=0, **more):
    rng = np.random.default_rng(seed)
    columns = {
        "user": rng.integers(0, 40, n),
        "item": rng.integers(100, 130, n),
        "rating": rng.integers(1, 6, n).astype(np.int8),
    }
    return pa.table(columns | more)


def parted(folder, whole, *, n_files=3, name="part-{}.parquet"):
    """The rows of a table in files, in their order."""
    cuts = np.linspace(0, len(whole), n_files + 1).astype(int)
    for number in range(n_files):
        path = folder / name.format(number)
        path.parent.mkdir(parents=True, exist_ok=True)
        parquet.write_table(whole[cuts[number] : cuts[number + 1]], path, row_group_size=70)
    return folder


def alike(found, expected):
    assert found.users == expected.users
    assert found.items == expected.items
    assert found.scale == expected.scale
    assert found.n_duplicates == expected.n_duplicates
    assert found.n_missing == expected.n_missing
    np.testing.assert_array_equal(found.times, expected.times)
    np.testing.assert_array_equal(found.context.values, expected.context.values)
    for side in ("by_user", "by_item"):
        for one, other in zip(getattr(found, side), getattr(expected, side), strict=True):
            np.testing.assert_array_equal(one, other)


def whole_columns(frame):
    """What `Ratings` makes of all columns at once."""
    return {name: frame[name].to_pylist() for name in frame.column_names}


@pytest.mark.parametrize("duplicates", ["last", "mean"])
@pytest.mark.parametrize("times", [False, True])
def test_a_folder_is_one_file_of_all_rows(tmp_path, duplicates, times):
    more = {"timestamp": np.random.default_rng(1).integers(10**9, 10**9 + 5, 300)} if times else {}
    whole = table(**more)
    found = read_ratings(parted(tmp_path / "all", whole), duplicates=duplicates)
    told = whole_columns(whole)
    alike(
        found,
        ordbm.Ratings(
            told["user"], told["item"], told["rating"], duplicates=duplicates,
            times=told.get("timestamp"),
        ),
    )  # fmt: skip
    assert found.has_times == times
    assert found.n_duplicates > 0


def test_folders_named_after_columns_bring_them(tmp_path):
    whole = table(120)
    for year in (2020, 2021):
        for kind in ("a", "b%20c"):
            folder = tmp_path / "all" / f"year={year}" / f"item={kind}"
            parted(folder, whole.drop_columns(["item"]), n_files=1)
    found = read_ratings(tmp_path / "all", context=["year"])
    assert set(found.items) == {"a", "b c"}
    assert set(found.context.column("year")) == {2021.0}  # the last of each pair
    assert found.n_duplicates == 480 - len(found)


def test_files_beside_the_data_are_not_read(tmp_path):
    folder = parted(tmp_path / "all", table())
    expected = read_ratings(folder)
    (folder / "_SUCCESS").touch()
    (folder / "_temporary").mkdir()
    (folder / "_temporary" / "part-9.parquet").write_bytes(b"half a file")
    (folder / ".part-0.parquet.crc").write_bytes(b"crc")
    alike(read_ratings(folder), expected)


def test_text_ids_differ_in_each_file(tmp_path):
    whole = table()
    texts = whole.set_column(0, "user", pa.array([f"ü{one}" for one in whole["user"].to_pylist()]))
    found = read_ratings(parted(tmp_path / "all", texts), memory="2MB")
    told = whole_columns(texts)
    alike(found, ordbm.Ratings(told["user"], told["item"], told["rating"]))


def test_pairs_of_a_folder(tmp_path):
    whole = table()
    users, items, *_ = read_pairs(parted(tmp_path / "all", whole))
    assert users.tolist() == whole["user"].to_pylist()
    assert items.tolist() == whole["item"].to_pylist()


def test_an_address_is_read_as_a_folder_is(tmp_path):
    fsspec = pytest.importorskip("fsspec")
    folder = parted(tmp_path / "all", table(), name="n={}/part.parquet")
    system = fsspec.filesystem("memory")
    system.put(str(folder), "/ratings", recursive=True)
    try:
        alike(read_ratings("memory://ratings/"), read_ratings(folder))
        alike(
            read_ratings("memory://ratings/n=1/part.parquet"),
            read_ratings(folder / "n=1" / "part.parquet"),
        )
        with pytest.raises(RatingsError, match="no parquet files"):
            read_ratings("memory://elsewhere/")
        with pytest.raises(SettingsError, match="only parquet"):
            read_ratings("memory://ratings/", layout="csv")
    finally:
        system.rm("/ratings", recursive=True)


def test_without_fsspec_a_sentence_says_how_to_install_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "fsspec", None)
    with pytest.raises(SettingsError, match=r"pip install 'ordbm\[remote\]'"):
        read_ratings("s3://bucket/ratings/")


def bad_at(whole, column, row, value):
    values = whole[column].to_pylist()
    values[row] = value
    return whole.set_column(whole.column_names.index(column), column, pa.array(values))


@pytest.mark.parametrize(
    ("column", "value", "told", "said"),
    [
        ("user", None, {}, "the user is missing in row 57"),
        ("rating", None, {}, "missing in row 57; rows count from 0; if that means 'not rated'"),
        ("rating", float("nan"), {}, "must be finite numbers: row 57 (user 1"),
        (
            "rating",
            9.0,
            {"scale": [1, 2, 3, 4, 5]},
            "off the scale (5 levels: 1, 2, 3, 4, 5): row 57",
        ),
        ("item", 100.5, {}, "not integers: row 57 (id 100.5)"),
        ("time", float("inf"), {}, "ISO 8601 text: row 57 (user 1"),
    ],
)
def test_a_row_that_cannot_be_used_is_named_with_its_file(tmp_path, column, value, told, said):
    whole = table(time=np.full(300, 1e9))
    whole = bad_at(bad_at(whole, "user", 157, 1), column, 157, value)
    folder = parted(tmp_path / "all", whole)
    with pytest.raises(RatingsError) as error:
        read_ratings(folder, **told)
    assert f"{folder} (part-1.parquet): " in str(error.value)
    assert said in str(error.value)


def test_repeats_are_named_with_their_file(tmp_path):
    rows = np.arange(90)
    whole = pa.table({"user": rows, "item": rows, "rating": rows % 5})
    whole = bad_at(bad_at(whole, "user", 50, 3), "item", 50, 3)
    folder = parted(tmp_path / "all", whole)
    with pytest.raises(RatingsError, match=r"part-1.parquet\): pairs .* again in row 20 \(user 3"):
        read_ratings(folder, duplicates="error")


def test_what_means_not_rated_is_left_out_and_counted(tmp_path):
    whole = bad_at(bad_at(table().cast(pa.schema(
        [("user", pa.int64()), ("item", pa.int64()), ("rating", pa.float64())]
    )), "rating", 7, None), "rating", 170, -1.0)  # fmt: skip
    found = read_ratings(parted(tmp_path / "all", whole), missing=[-1, float("nan")])
    kept = [row for row in range(300) if row not in (7, 170)]
    told = whole.take(kept)
    expected = ordbm.Ratings(*(told[name].to_pylist() for name in ("user", "item", "rating")))
    expected.n_missing = 2
    alike(found, expected)


def test_files_of_different_kinds_are_an_error_that_names_the_file(tmp_path):
    folder = parted(tmp_path / "all", table())
    other = table()
    texts = pa.array(map(str, other["user"].to_pylist()))
    parquet.write_table(other.set_column(0, "user", texts), folder / "part-2.parquet")
    with pytest.raises(
        RatingsError, match=r"part-2.parquet\): the user column holds text, and num"
    ):
        read_ratings(folder)
    parquet.write_table(other.rename_columns(["u", "v", "w"]), folder / "part-2.parquet")
    with pytest.raises(RatingsError, match=r"part-2.parquet\): no column 'user'"):
        read_ratings(folder)


def test_each_file_of_a_dataset_is_held_to_the_limits(tmp_path):
    folder = parted(tmp_path / "all", table())
    hostile_files.large_page(folder / "part-3.parquet")
    with pytest.raises(RatingsError, match=r"part-3.parquet\) has more than 1,000,000 rows"):
        read_ratings(folder)
    with pytest.raises(RatingsError, match=r"part-3.parquet\) unpacks to more than 33,554,432"):
        read_ratings(folder, limits=ReadLimits(rows=10**9))
    (folder / "part-3.parquet").write_bytes(b"PAR1 and no more")
    with pytest.raises(RatingsError, match=r"part-3.parquet\) is not a whole parquet file"):
        read_ratings(folder)


LIMITED = """
import resource, sys
import numpy, pyarrow, pyarrow.parquet, scipy.sparse
from ordbm.datasets import read_ratings
pyarrow.set_cpu_count(1); pyarrow.set_io_thread_count(1)
def data():
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) * 1024 for line in file if line.startswith("VmData"))
limit = int(sys.argv[2])
read_ratings(sys.argv[1] + "/0.parquet", memory="20MB")  # what is loaded and started once
resource.setrlimit(resource.RLIMIT_DATA, (data() + limit,) * 2)
found = read_ratings(sys.argv[1], memory=sys.argv[3])
held = [one for rows in (found.by_user, found.by_item) for one in rows] + [found.times]
print(len(found), sum(one.nbytes for one in held), int(found.by_item.level.sum(dtype=int)))
"""


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="asks Linux what is in use")
def test_a_dataset_of_three_times_the_memory_is_read(tmp_path):
    n, limit = 6_000_000, 48 * 10**6
    rng = np.random.default_rng(0)
    folder = tmp_path / "all"
    folder.mkdir()
    total = 0
    for number in range(6):
        row = np.arange(number * 10**6, (number + 1) * 10**6)
        part = pa.table(
            {
                "user": row * 7919 % n % 50_000,  # with the item, different for each row
                "item": row * 7919 % n // 50_000,
                "rating": rng.integers(1, 6, len(row)).astype(np.int8),
                "time": row + 10**9,
            }
        )
        total += int(np.sum(part["rating"].to_numpy() - 1, dtype=int))
        parquet.write_table(part, folder / f"{number}.parquet", row_group_size=10**5)
    run = [sys.executable, "-c", LIMITED, str(folder), str(limit)]
    env = os.environ | {"ARROW_DEFAULT_MEMORY_POOL": "system", "MALLOC_ARENA_MAX": "1"}
    told = {"capture_output": True, "text": True, "env": env}
    done = subprocess.run([*run, "20MB"], check=False, **told)
    assert done.returncode == 0, done.stderr
    n_read, n_bytes, levels = map(int, done.stdout.split())
    assert n_read == n
    assert n_bytes > 3 * limit
    assert levels == total
    done = subprocess.run([*run, "8GB"], check=False, **told)
    assert done.returncode != 0  # the limit is one
