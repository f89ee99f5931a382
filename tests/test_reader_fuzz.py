"""Thousands of damaged rating files: a clear error or a right answer, and nothing else.

A plain twin of the readers, line by line, says what is in each damaged text; what the readers say
must account for all of its records.
"""

import gzip
import re
import zipfile

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

import ordbm
from fuzzing.rating_texts import (
    N_ROWS,
    assert_same,
    damaged,
    judged,
    read_or_words,
    rows,
    texts,
)
from ordbm import Ratings, read_ratings, write_ratings
from ordbm.errors import OrdbmError, RatingsError


@pytest.mark.parametrize("number", range(len(texts())))
def test_damaged_texts_are_read_right_or_refused_with_the_right_lines(tmp_path, number):
    name, layout, header, content = texts()[number]
    others = b"".join(other for *_, other in texts())
    rng = np.random.default_rng(number)
    path = tmp_path / name
    told = {"layout": layout, "time": False}  # the twin knows no dates
    if layout != "netflix":
        told |= {"header": header, "user": 0, "item": 1, "rating": 2}
    n_read = n_reported = 0
    for _ in range(150):
        mutant = damaged(rng, content, others)
        path.write_bytes(mutant)
        good, bad = judged(mutant, layout, header)
        found = read_or_words(path, **told)
        if isinstance(found, Ratings):
            assert not bad
            assert_same(found, good)
            n_read += 1
            continue
        assert "\n" not in found
        counted = re.search(r": ([0-9,]+) lines? cannot be used: line ([0-9]+): ", found)
        if counted:
            assert (int(counted.group(1)), int(counted.group(2))) == (len(bad), bad[0])
            n_reported += 1
        elif "cannot be told apart" in found:
            assert max(abs(float(rating)) for *_, rating in good) > 1e9
        else:
            assert re.search("is empty|has no data|first line|UTF-|damaged|not a column", found)
            assert bad or not good or re.search(rb"[\0\xfe\xff]|^\x1f\x8b|^PK", mutant)
    assert n_read > 7
    assert n_reported > 35


@pytest.mark.parametrize("number", range(len(texts())))
def test_damaged_texts_whose_form_must_be_guessed(tmp_path, number):
    """A guess may be wrong if the first line is damaged, but every line is accounted for."""
    name, layout, _, content = texts()[number]
    others = b"".join(other for *_, other in texts())
    rng = np.random.default_rng(1000 + number)
    path = tmp_path / name
    n_read = 0
    for _ in range(60):
        mutant = damaged(rng, content, others)
        path.write_bytes(mutant)
        found = read_or_words(path, time=False if layout == "netflix" else None)
        if isinstance(found, Ratings):
            n_read += 1
            split = re.split(rb"\r\n|\r|\n", mutant)
            n_lines = sum(1 for line in split if line.strip(b" \t"))
            if b'"' not in mutant and not re.search(rb"[0-9]:[\r\n]", mutant):
                assert len(found) + found.n_duplicates in (n_lines - 1, n_lines)
        else:
            assert found
    assert 4 < n_read < 56


def sound_ratings():
    cells = rows(np.random.default_rng(5), text_ids=True)
    users, items, stars = zip(*cells, strict=True)
    return Ratings(list(users), list(items), [float(text) for text in stars])


def outcome(path, expected):
    found = read_or_words(path)
    if not isinstance(found, Ratings):
        assert found
        return "refused"
    same = found.users == expected.users and found.items == expected.items
    return "same" if same and np.array_equal(found.values, expected.values) else "other"


@pytest.mark.parametrize("form", ["parquet", "zip", "csv.gz"])
def test_damaged_files_with_checksums_are_refused_or_right(tmp_path, form):
    """Never other ratings than those written: every byte of them is under a checksum."""
    expected = sound_ratings()
    path = tmp_path / f"x.{form}"
    if form == "zip":
        write_ratings(expected, tmp_path / "ratings.csv")
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.write(tmp_path / "ratings.csv", "set/ratings.csv")
    else:
        write_ratings(expected, path)
    expected = read_ratings(path)
    content = path.read_bytes()
    rng = np.random.default_rng(7)
    outcomes = []
    for _ in range(250):
        path.write_bytes(damaged(rng, content, content))
        outcomes.append(outcome(path, expected))
    assert outcomes.count("refused") > 100
    assert "other" not in outcomes


def test_damaged_parquet_without_checksums_never_does_harm(tmp_path):
    expected = sound_ratings()
    path = tmp_path / "x.parquet"
    outcomes = set()
    for compression in ("none", "zstd"):
        parquet.write_table(expected.to_frame("pyarrow"), path, compression=compression)
        content = path.read_bytes()
        rng = np.random.default_rng(8)
        for _ in range(200):
            path.write_bytes(damaged(rng, content, content))
            outcomes.add(outcome(path, expected))
    assert "refused" in outcomes


def test_files_of_noise_are_refused(tmp_path):
    rng = np.random.default_rng(9)
    names = ("x.csv", "u.data", "ratings.dat", "mv_0000001.txt", "x.parquet", "x.zip", "x.tar.gz")
    starts = (b"", b"PK\x03\x04", b"\x1f\x8b\x08\0", b"PAR1", b"1:\n", b"user,item,rating\n")
    for trial in range(150):
        path = tmp_path / names[trial % len(names)]
        path.write_bytes(starts[trial % len(starts)] + rng.bytes(int(rng.integers(0, 400))))
        with pytest.raises(OrdbmError):
            read_ratings(path)


def test_arrow_is_not_asked_to_unpickle(tmp_path):
    """Extension types that carry code stay plain storage."""
    table = pa.table({"user": [1], "item": [1], "rating": [1]})
    field = pa.field(
        "user",
        pa.int64(),
        metadata={"ARROW:extension:name": "arrow.py_extension_type",
                  "ARROW:extension:metadata": b"cos\nsystem\n(S'false'\ntR."},
    )  # fmt: skip
    schema = pa.schema([field, table.schema.field(1), table.schema.field(2)])
    parquet.write_table(table.cast(schema), tmp_path / "x.parquet")
    assert read_ratings(tmp_path / "x.parquet").users.ids == (1,)


def test_the_twin_agrees_on_sound_files(tmp_path):
    for name, layout, header, content in texts():
        (tmp_path / name).write_bytes(content)
        good, bad = judged(content, layout, header)
        assert (len(good), bad) == (N_ROWS, [])
        assert_same(ordbm.read_ratings(tmp_path / name), good)


def test_damaged_gzip_of_text(tmp_path):
    content = gzip.compress(texts()[0][-1])
    path = tmp_path / "x.csv.gz"
    for length in range(len(content)):
        path.write_bytes(content[:length])
        with pytest.raises(RatingsError):
            read_ratings(path)
