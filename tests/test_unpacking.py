"""Compressed files, Feather and open files are read within limits; what is not read is named."""

import bz2
import contextlib
import gzip
import io
import lzma
import struct
import tarfile
import zipfile

import numpy as np
import polars as pl
import pyarrow as pa
import pytest
from pyarrow import feather

from ordbm import read_ratings
from ordbm.datasets import ReadLimits, read_titles, unpacking
from ordbm.datasets.feather import FEATHER_MAGIC
from ordbm.datasets.limits import Budget
from ordbm.errors import RatingsError

PLAIN = b"user,item,rating\n1,10,5\n2,20,3\n1,20,4\n"
EXPECTED = {(1, 10, 5.0), (2, 20, 3.0), (1, 20, 4.0)}
COLUMNS = {"user": [1, 2, 1], "item": [10, 20, 20], "rating": [5.0, 3.0, 4.0]}


def zstd(content):
    sink = pa.BufferOutputStream()
    with pa.CompressedOutputStream(sink, "zstd") as stream:
        stream.write(content)
    return sink.getvalue().to_pybytes()


PACKED = {"gz": gzip.compress, "bz2": bz2.compress, "xz": lzma.compress, "zst": zstd}


def triples(ratings):
    pairs = zip(ratings.user_codes, ratings.item_codes, ratings.values.tolist(), strict=True)
    return {(ratings.users[u], ratings.items[i], value) for u, i, value in pairs}


@pytest.fixture
def written(tmp_path):
    def write(content, name="ratings.csv"):
        path = tmp_path / name
        path.write_bytes(content)
        return path

    return write


# -- compressed ------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", PACKED)
def test_packed_files_are_read_alone_in_folders_and_as_archives(tmp_path, written, form):
    path = written(PACKED[form](PLAIN), f"ratings.csv.{form}")
    written(b"licence", "README")
    assert triples(read_ratings(path)) == EXPECTED
    assert triples(read_ratings(tmp_path)) == EXPECTED  # found by its name there
    assert triples(read_ratings(written(PACKED[form](PLAIN), "called-otherwise"))) == EXPECTED
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w") as tar:
        member = tarfile.TarInfo("set/ratings.csv")
        member.size = len(PLAIN)
        tar.addfile(member, io.BytesIO(PLAIN))
    packed = PACKED[form](archive.getvalue())
    assert triples(read_ratings(written(packed, f"set.tar.{form}"))) == EXPECTED
    titles = written(PACKED[form](b"1,Alien\n"), f"movies.csv.{form}")
    assert read_titles(titles) == {1: "Alien"}


@pytest.mark.parametrize("form", PACKED)
def test_several_streams_and_long_ones(form):
    lines = np.random.default_rng(0).bytes(3 * unpacking.UNPACKED_AT_ONCE // 2) + b"\0" * 2**20
    content = PACKED[form](lines) + PACKED[form](lines[:100])
    limits = ReadLimits(bytes=2**30)
    assert unpacking.unpacked_content(content, "x", Budget(limits)) == lines + lines[:100]


@pytest.mark.parametrize("form", PACKED)
def test_packed_files_that_are_cut_or_damaged_are_refused(written, form):
    lines = PLAIN + np.random.default_rng(0).bytes(20_000)
    whole = PACKED[form](lines)
    for content in (whole[:-1], whole[: len(whole) // 2], whole + b"rest"):
        with pytest.raises(RatingsError, match=r"ratings\.csv is damaged: "):
            read_ratings(written(content))
    random = np.random.default_rng(1)
    for _ in range(200):
        place = int(random.integers(4, len(whole)))
        changed = whole[:place] + bytes([whole[place] ^ 1 << int(random.integers(8))])
        with contextlib.suppress(RatingsError):
            found = unpacking.unpacked_content(
                changed + whole[place + 1 :], "x", Budget(ReadLimits())
            )
            assert found == lines or form == "zst"  # which has no checksum unless asked for one


@pytest.mark.parametrize("form", PACKED)
def test_bytes_are_counted_while_they_are_unpacked(written, form):
    path = written(PACKED[form](b"\n" * 2**26), f"ratings.csv.{form}")
    assert path.stat().st_size < 2**20
    with pytest.raises(RatingsError, match="unpacks to more than 33,554,432 bytes, from a file of"):
        read_ratings(path)


def test_xz_may_not_ask_for_any_amount_of_memory(written):
    filters = [{"id": lzma.FILTER_LZMA2, "dict_size": 2**30}]
    content = lzma.compress(PLAIN, filters=filters)
    with pytest.raises(RatingsError, match=r"(?i)is damaged: memory usage limit"):
        read_ratings(written(content))


@pytest.mark.parametrize("begin", unpacking._NOT_READ)
def test_forms_that_are_not_read_are_refused_by_name(written, begin):
    with pytest.raises(RatingsError, match=r"ratings\.csv is .*: \w+") as said:
        read_ratings(written(begin + b"and so on"))
    assert unpacking._NOT_READ[begin] in str(said.value)


# -- open files ------------------------------------------------------------------------------------


def test_open_files_are_read(written):
    assert triples(read_ratings(io.BytesIO(PLAIN))) == EXPECTED
    assert triples(read_ratings(io.BytesIO(gzip.compress(PLAIN)))) == EXPECTED
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as file:
        file.writestr("set/ratings.csv", PLAIN)
    assert triples(read_ratings(io.BytesIO(archive.getvalue()))) == EXPECTED
    path = written(PLAIN.replace(b"5", b"five"))
    with path.open("rb") as file, pytest.raises(RatingsError, match=r"ratings\.csv: 1 line .*five"):
        read_ratings(file)
    with pytest.raises(RatingsError, match="the open file is open as text"):
        read_ratings(io.StringIO(PLAIN.decode()))
    with pytest.raises(RatingsError, match="need the path of a file, or an open binary file, not"):
        read_ratings(5)
    closed = path.open("rb")
    closed.close()
    with pytest.raises(RatingsError, match="cannot read"):
        read_ratings(closed)


# -- Feather ---------------------------------------------------------------------------------------


def stream_of(table):
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table, max_chunksize=2)
    return sink.getvalue().to_pybytes()


@pytest.mark.parametrize("compression", ["uncompressed", "lz4", "zstd"])
def test_feather_is_read(tmp_path, compression):
    kinds = {
        "numbers": pa.table({**COLUMNS, "note": ["x" * 100] * 3}),
        "texts": pa.table({**COLUMNS, "item": ["10", "20", "20"]}),
        "categories": pa.table({**COLUMNS, "item": pa.array(["a", "b", "b"]).dictionary_encode()}),
        "floats": pa.table({**COLUMNS, "user": [1.0, 2.0, 1.0]}),
    }
    for name, table in kinds.items():
        path = tmp_path / f"{name}.feather"
        feather.write_feather(table, path, compression=compression, chunksize=2)
        found = read_ratings(path)
        assert len(found) == 3
        assert found.users.ids == (1, 2)
        assert found.items.ids == tuple(dict.fromkeys(table["item"].to_pylist()))
        assert [type(user) for user in found.users] == [int, int]
    pl.DataFrame({**COLUMNS, "item": ["long text of an item", "b", "b"]}).write_ipc(
        tmp_path / "polars.arrow", compression=compression
    )
    assert set(read_ratings(tmp_path / "polars.arrow").items) == {"long text of an item", "b"}
    with zipfile.ZipFile(tmp_path / "set.zip", "w") as archive:
        archive.write(tmp_path / "numbers.feather", "ratings.feather")
    assert triples(read_ratings(tmp_path / "set.zip")) == EXPECTED


def test_streams_of_arrow_are_read(written):
    path = written(stream_of(pa.table(COLUMNS)), "ratings.arrows")
    assert triples(read_ratings(path)) == EXPECTED
    labels = pa.DictionaryArray.from_arrays([2, 0, 1], ["bad", "fair", "good"], ordered=True)
    found = read_ratings(written(stream_of(pa.table({**COLUMNS, "rating": labels}))))
    assert found.scale.labels == ("bad", "fair", "good")


def test_feather_that_cannot_be_used_is_refused(written):
    def content(**columns):
        sink = io.BytesIO()
        feather.write_feather(pa.table({**COLUMNS, **columns}), sink)
        return sink.getvalue()

    cases = {
        "the user column holds list": content(user=[[1], [2], [3]]),
        "the user is missing in row 1": content(user=[1, None, 2]),
        "has no rows": content(**dict.fromkeys(COLUMNS, pa.array([], pa.int64()))),
        "not a whole Feather file": FEATHER_MAGIC + b"and nothing of the kind" + FEATHER_MAGIC,
    }
    for words, file in cases.items():
        with pytest.raises(RatingsError, match=words):
            read_ratings(written(file, "ratings.feather"))


def test_damaged_feather_is_refused_or_read_within_limits(written):
    table = pa.table({name: column * 50 for name, column in COLUMNS.items()})
    sink = io.BytesIO()
    feather.write_feather(table, sink, compression="lz4")
    whole = sink.getvalue()
    streamed = stream_of(table)
    for content, step in ((whole, 13), (streamed, 97)):
        for end in range(8, len(content) - 1, step):
            with pytest.raises(RatingsError, match="not a whole Feather file: its end is missing"):
                read_ratings(written(content[:end]))
    random = np.random.default_rng(0)
    for _ in range(300):
        place = int(random.integers(8, len(whole)))
        changed = whole[:place] + bytes([int(random.integers(256))]) + whole[place + 1 :]
        with contextlib.suppress(RatingsError):
            assert len(read_ratings(written(changed))) <= 10_000


def test_feather_that_claims_much_is_refused_before_it_is_unpacked(written):
    table = pa.table({**COLUMNS, "note": ["a" * 2**20] * 3})
    sink = io.BytesIO()
    feather.write_feather(table, sink, compression="zstd")
    path = written(sink.getvalue())
    with pytest.raises(RatingsError, match=r"unpacks to more than 1,000,000 bytes"):
        read_ratings(path, limits=ReadLimits(bytes=1_000_000))
    with pytest.raises(RatingsError, match="has more than 2 rows"):
        read_ratings(path, limits=ReadLimits(rows=2))
    # The size of what a buffer unpacks to stands before it: a forged one is not believed.
    content = sink.getvalue()
    places = [i for i in range(len(content) - 8) if struct.unpack_from("<q", content, i)[0] == 24]
    assert places
    for place in places:
        forged = content[:place] + struct.pack("<q", 2**40) + content[place + 8 :]
        with pytest.raises(RatingsError):
            read_ratings(written(forged))


def test_one_long_text_seen_a_million_times_is_not_written_out(written):
    n, text = 20_000, b"x" * 10_000
    views = np.zeros((n, 4), np.int32)  # length, first four letters, number of the buffer, place
    views[:, 0], views[:, 1] = len(text), np.frombuffer(text[:4], np.int32)[0]
    parts = [None, pa.py_buffer(views.tobytes()), pa.py_buffer(text)]
    user = pa.Array.from_buffers(pa.string_view(), n, parts)
    table = pa.table({"user": user, "item": range(n), "rating": [1.0] * n})
    content = stream_of(table)
    with pytest.raises(RatingsError, match="unpacks to more than"):
        read_ratings(written(content), limits=ReadLimits(bytes=len(content) + 10**7))


def test_a_part_that_is_listed_a_thousand_times_counts_as_often(written):
    n = 100_000
    table = pa.table({"user": [1] * n, "item": [1] * n, "rating": [1.0] * n})
    sink = io.BytesIO()
    feather.write_feather(table, sink, compression="zstd", chunksize=n)
    content = sink.getvalue()
    assert len(read_ratings(written(content))) == 1
    length = struct.unpack_from("<i", content, len(content) - 10)[0]
    head, listed = content[: -10 - length], bytearray(content[-10 - length : -10])
    root = struct.unpack_from("<I", listed, 0)[0]
    fields = root - struct.unpack_from("<i", listed, root)[0]
    field = root + struct.unpack_from("<H", listed, fields + 4 + 2 * 3)[0]  # the list of batches
    vector = field + struct.unpack_from("<I", listed, field)[0]
    block = bytes(listed[vector + 4 : vector + 28])
    listed += b"\0" * (-(len(listed) + 4) % 8)
    struct.pack_into("<I", listed, field, len(listed) - field)
    listed += struct.pack("<I", 1000) + 1000 * block
    forged = head + listed + struct.pack("<i", len(listed)) + FEATHER_MAGIC
    assert pa.ipc.open_file(pa.py_buffer(forged)).num_record_batches == 1000
    with pytest.raises(RatingsError, match="has more than 1,000,000 rows"):
        read_ratings(written(forged))
