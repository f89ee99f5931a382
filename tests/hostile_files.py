"""Files that mean harm, each small, built and never stored; what is said of them, at what memory.

As a script it builds all of them, reads each in a process of its own and prints a page of them:
`.venv/bin/python tests/hostile_files.py > docs/results/hostile-files.md`. Peaks are Linux's.
"""

import gzip
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from pathlib import Path

import numpy as np
import pyarrow as pa
from pyarrow import parquet

MEGABYTE = 10**6
PAGE = """# Files that mean harm

What small files made to do harm take, and what is said of them. Each is built, and read in a process of its own with the usual
[limits](../how-to/own-data.md#how-much-is-read). The first line is what Python and its libraries take to read two ratings.
Made by `.venv/bin/python tests/hostile_files.py > docs/results/hostile-files.md`; `tests/test_hostile_files.py` reads nearly all of them, too.

The most comes of files in which everybody and everything is rated once, in as many rows as are allowed.
"""
HEADER = b"user,item,rating\n"
COLLIDING = 2**61 - 1  # all multiples of it have one hash in Python


def zip_of_repeats(path, member, unit, times, compression):
    """A zip with one member, `unit` so many times."""
    with (
        zipfile.ZipFile(path, "w", compression) as archive,
        archive.open(member, "w", force_zip64=True) as file,
    ):
        for _ in range(times):
            file.write(unit)


def claiming_zip(path, times=100):
    """Six gigabytes in a member that claims 100 bytes."""
    zip_of_repeats(path, "ratings.csv", b"\n" * 60_000_000, times, zipfile.ZIP_BZIP2)
    content = bytearray(path.read_bytes())
    entry = content.find(b"PK\x01\x02")
    name_length = int.from_bytes(content[entry + 28 : entry + 30], "little")
    extra = entry + 46 + name_length
    place = entry + 24 if content[entry + 24 : entry + 28] != b"\xff" * 4 else extra + 4
    length = 4 if place == entry + 24 else 8
    content[place : place + length] = (100).to_bytes(length, "little")
    path.write_bytes(content)


def repeating_zip(path):
    """Two thousand entries of one name for one member."""
    lines = b"1:\n" + b"".join(b"%d,3,2005-01-01\n" % row for row in range(50_000))
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("mv_0000001.txt", lines)
        archive.filelist *= 2_000
    assert path.stat().st_size < MEGABYTE


def crowded_zip(path):
    """Two thousand members, none of them large by itself."""
    line = b"1,3,2005-01-01\n" * 7_000
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for movie in range(1, 2_001):
            archive.writestr(f"mv_{movie:07}.txt", b"%d:\n" % movie + line)


def plain_bomb(path):
    """A hundred megabytes of one rating."""
    zip_of_repeats(path, "ratings.csv", b"1,1,1\n" * 10**6, 17, zipfile.ZIP_DEFLATED)


def lzma_lines(path):
    """As many ratings as are read of a small file, of as many users and items."""
    lines = b"".join(b"%d,%d,%d\n" % (row, row, row % 5) for row in range(1_000_001, 1_999_900))
    with zipfile.ZipFile(path, "w", zipfile.ZIP_LZMA) as archive:
        archive.writestr("ratings.csv", HEADER + lines)


def padded_lines(path):
    """Nearly as many such ratings as a file of its size may have."""
    lines = b"".join(b"%d,%d,%d\n" % (row, row, row % 5) for row in range(1_000_001, 4_000_001))
    with zipfile.ZipFile(path, "w", zipfile.ZIP_LZMA) as archive:
        archive.writestr("ratings.csv", HEADER + lines)
        padding = np.random.default_rng(0).bytes(1_700_000)
        archive.writestr("README.txt", padding, zipfile.ZIP_STORED)


def gzipped(about, content):
    """A builder of a gzip file of what `content` gives."""

    def build(path):
        path.write_bytes(gzip.compress(content()))

    build.__doc__ = about
    return build


def nested_gzip(path):
    """A gzip file in a zip: a hundred megabytes of a hundred kilobytes of a few."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("ratings.csv.gz", gzip.compress(b"1,1,1\n" * (MEGABYTE * 17)))


def sparse_tar(path):
    """Eight gigabytes in a sparse member of a tar file."""
    member = tarfile.TarInfo("ratings.csv")
    member.type = tarfile.GNUTYPE_SPARSE
    member.size = 512
    block = bytearray(member.tobuf(tarfile.GNU_FORMAT))
    block[386:410] = b"%011o\0%011o\0" % (0, 512)
    block[483:495] = b"%011o\0" % (2**33 - 1)
    block[148:156] = b" " * 8
    block[148:156] = b"%06o\0 " % sum(block[:512])
    path.write_bytes(gzip.compress(bytes(block) + HEADER.ljust(512, b"\n") + bytes(1024)))


def crowded_tar(path):
    """More members than an archive may have."""
    header = tarfile.TarInfo("x").tobuf(tarfile.USTAR_FORMAT)
    path.write_bytes(gzip.compress(header * 60_000 * 2 + bytes(1024), 9))


def one_long_text(path, encoding=None, rows=40_000):
    """One text of 300 KB in every row."""
    text, at_once = "x" * 300_000, 100
    schema = pa.schema([("user", pa.string()), ("item", pa.int32()), ("rating", pa.int32())])
    how = {"use_dictionary": ["user"], "compression": "zstd"}
    if encoding:
        how |= {"use_dictionary": False, "column_encoding": {"user": encoding}}
    else:
        index = pa.array(np.zeros(rows, np.int32))
        whole = pa.DictionaryArray.from_arrays(index, pa.array([text]))
        schema = schema.set(0, pa.field("user", whole.type))
        numbers = pa.array(np.arange(rows, dtype=np.int32))
        table = pa.table([whole, numbers, pa.array(np.full(rows, 3, np.int32))], schema=schema)
        parquet.write_table(table, path, store_schema=False, **how)
        return
    with parquet.ParquetWriter(path, schema, **how) as writer:
        rated = pa.array(np.full(at_once, 3, np.int32))
        batches = []
        users = pa.array([text] * at_once)
        for first in range(0, rows, at_once):
            items = pa.array(np.arange(first, first + at_once, dtype=np.int32))
            batches.append(pa.RecordBatch.from_arrays([users, items, rated], schema=schema))
        for batch in batches:
            writer.write_batch(batch)


def delta_text(path):
    """The same by saying, row by row, that it is what the row before has."""
    one_long_text(path, "DELTA_BYTE_ARRAY", 4_000)


def equal_rows(path, groups=15):
    """150 million rows, all the same."""
    table = pa.table({name: np.ones(10**7, np.int32) for name in ("user", "item", "rating")})
    with parquet.ParquetWriter(path, table.schema, compression="none") as writer:
        for _ in range(groups):
            writer.write_table(table, row_group_size=10**7)


def large_page(path):
    """Numbers in a single page of 80 megabytes, of a few kilobytes."""
    zeros = np.zeros(2 * 10**7, np.int32)
    table = pa.table({"user": zeros, "item": zeros[:], "rating": zeros[:]})
    parquet.write_table(
        table,
        path,
        use_dictionary=False,
        compression="zstd",
        row_group_size=10**8,
        data_page_size=2**30,
        max_rows_per_page=10**9,
    )


def counted_ids(path, rows=1_000_000, padding=0):
    """Rows of as many users and items, stored as differences of one."""
    ids = np.arange(rows, dtype=np.int64)
    table = pa.table({"user": ids, "item": ids, "rating": (ids % 5).astype(np.int8)})
    table = table.replace_schema_metadata({"": "x" * padding})
    encoding = {"user": "DELTA_BINARY_PACKED", "item": "DELTA_BINARY_PACKED"}
    parquet.write_table(
        table, path, use_dictionary=["rating"], column_encoding=encoding, compression="zstd"
    )


def padded_ids(path):
    """The same, with nearly as many rows as a file of its size may have."""
    counted_ids(path, rows=3_000_000, padding=1_400_000)


def crowded_footer(path):
    """A footer that lists a million columns of nothing."""
    chunks = b"\x26\x00\x00" * 10**6
    size = 10**6
    varint = bytes([size & 127 | 128, size >> 7 & 127 | 128, size >> 14])
    group = b"\x19\xfc" + varint + chunks + b"\x16\x00\x16\x00\x00"
    root = b"\x48\x01r\x15\x00\x00"
    footer = b"\x15\x02\x19\x1c" + root + b"\x16\x00\x19\x1c" + group + b"\x00"
    path.write_bytes(b"PAR1" + footer + len(footer).to_bytes(4, "little") + b"PAR1")


def colliding_ids(path):
    """Integers beyond 64 bits that all have one hash."""
    lines = b"".join(b"%d,%d,3\n" % (row * COLLIDING, row) for row in range(9, 50_009))
    path.write_bytes(HEADER + lines)


def honest(path):
    """What reading takes by itself."""
    path.write_bytes(HEADER + b"1,2,3\n2,2,4\n")


RATINGS = {
    "honest.csv": honest,
    "claiming.zip": claiming_zip,
    "repeating.zip": repeating_zip,
    "crowded.zip": crowded_zip,
    "bomb.zip": plain_bomb,
    "lines.zip": lzma_lines,
    "padded.zip": padded_lines,
    "nested.zip": nested_gzip,
    "bomb.csv.gz": gzipped("One rating ten million times", lambda: b"1,1,1\n" * (10 * MEGABYTE)),
    "blank.csv.gz": gzipped("Thirty million blank lines", lambda: b"\n" * (30 * MEGABYTE)),
    "wide.csv.gz": gzipped("A header of thirty million columns", lambda: b"," * (30 * MEGABYTE)),
    "quotes.csv.gz": gzipped("Thirty million quotes", lambda: HEADER + b'"' * (30 * MEGABYTE)),
    "fields.csv.gz": gzipped(
        "A line of ten million fields", lambda: HEADER + b"1,2,3" + b",ab" * (10 * MEGABYTE)
    ),
    "records.csv.gz": gzipped(
        "A record over seven million lines, in quotes", lambda: HEADER + b'"\n",' * (7 * MEGABYTE)
    ),
    "long.dat.gz": gzipped(
        "A line of ten million fields, with colons", lambda: b"1::2::3\n" + b"::a" * (10 * MEGABYTE)
    ),
    "astral.csv.gz": gzipped(
        "A line of characters of four bytes",
        lambda: HEADER + ("\U0001f600" * 7 * MEGABYTE).encode(),
    ),
    "movies.txt.gz": gzipped(
        "Ten million movies without a rating", lambda: b"1:\n" * (10 * MEGABYTE)
    ),
    "sparse.tar.gz": sparse_tar,
    "crowded.tar.gz": crowded_tar,
    "text.parquet": one_long_text,
    "delta.parquet": delta_text,
    "rows.parquet": equal_rows,
    "page.parquet": large_page,
    "ids.parquet": counted_ids,
    "padded.parquet": padded_ids,
    "footer.parquet": crowded_footer,
    "colliding.csv": colliding_ids,
}
TITLES = {
    "movies.csv.gz": gzipped("Thirty million titles", lambda: b"1,x\n" * (30 * MEGABYTE)),
    "movies.dat.gz": gzipped("One long title", lambda: b"1::" + b"x" * (30 * MEGABYTE)),
}
ITEMS = {
    "items.csv.gz": gzipped(
        "Half a million columns of items",
        lambda: b"a" + b",b" * 500_000 + b"\n" + b"," * (25 * MEGABYTE),
    )
}

READ = """
import sys
from ordbm.datasets import read_ratings, read_titles
from ordbm.datasets.titles import read_item_table
from ordbm.errors import OrdbmError
for path in sys.argv[2:]:
    try:
        found = {"ratings": read_ratings, "titles": read_titles, "items": read_item_table}[
            sys.argv[1]
        ](path)
        print(f"{len(found):,} {sys.argv[1]} read")
    except OrdbmError as error:
        print(str(error).replace(path, path.rpartition("/")[2]))
    print(next(line.split()[1] for line in open("/proc/self/status") if line.startswith("VmHWM")))
"""


def said_and_peaks(what, *paths):
    """What a process of its own says of each file, and its peak memory in bytes after each."""
    done = subprocess.run(
        [sys.executable, "-c", READ, what, *map(str, paths)],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    lines = done.stdout.splitlines()
    return lines[::2], [1024 * int(peak) for peak in lines[1::2]]


def table_of_all():
    """The table, line by line."""
    yield "| file | what it is | size | peak memory | what is said |"
    yield "| --- | --- | ---: | ---: | --- |"
    kinds = {"ratings": RATINGS, "titles": TITLES, "items": ITEMS}
    with tempfile.TemporaryDirectory() as folder:
        for what, builders in kinds.items():
            for name, build in builders.items():
                path = Path(folder) / name
                build(path)
                (said,), (peak,) = said_and_peaks(what, path)
                about = (build.__doc__ or "").strip().rstrip(".")
                size = path.stat().st_size
                yield (
                    f"| `{name}` | {about} | {size / 1000:,.1f} KB | {peak / MEGABYTE:,.0f} MB "
                    f"| {said} |"
                )
                path.unlink()


if __name__ == "__main__":
    print(PAGE)
    for line in table_of_all():
        print(line, flush=True)
