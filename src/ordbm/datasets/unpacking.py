"""Compressed files unpacked in memory, counted while they are; forms that are not read, by name."""

from __future__ import annotations

import bz2
import lzma
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Callable
from io import BytesIO
from typing import IO, Any

from ordbm.datasets.limits import Budget
from ordbm.errors import RatingsError

UNPACKED_AT_ONCE = 2**20
_SLICE = 2**14  # packed bytes at a time: what a stream leaves of them is copied
_MOST_DICTIONARY = 2**28  # bytes that unpacking xz may take beside what comes out; -9 needs 2^26

PACKED_SUFFIXES = (".gz", ".bz2", ".xz", ".zst")
# All that reading a damaged archive may raise: the libraries check some fields, and trip on others.
DAMAGE = (
    zipfile.BadZipFile,
    tarfile.TarError,
    zlib.error,
    lzma.LZMAError,
    struct.error,
    EOFError,
    IndexError,
    KeyError,
    OSError,
    OverflowError,
    RuntimeError,  # an encrypted member, an unknown compression
    ValueError,
)
# What files begin with that people may give, and what to do with them instead.
_NOT_READ = {
    b"\x04\x22\x4d\x18": "is compressed with lz4: unpack it, or compress it with gzip or zstd",
    b"\x1f\x9d": "is compressed with compress (.Z): unpack it first",
    b"LZIP": "is compressed with lzip: unpack it first",
    b"7z\xbc\xaf\x27\x1c": "is a 7z archive: unpack it first, or make it a zip or tar",
    b"Rar!": "is a rar archive: unpack it first, or make it a zip or tar",
    b"\xd0\xcf\x11\xe0": "is a workbook of Excel (.xls): save it as csv",
    b"SQLite format 3\0": "is an SQLite database: query it with pandas, and give Ratings(frame)",
    b"\x89HDF": "is HDF5: read it with pandas or h5py, and give Ratings(frame)",
    b"\x93NUMPY": "is a NumPy file: numpy.load it, and give Ratings(users, items, values)",
    b"ORC": "is ORC: read it with pyarrow.orc, and give Ratings(table)",
    b"Obj\x01": "is Avro: read it with polars, and give Ratings(frame)",
    b"FEA1": "is Feather of version 1: write it anew, with version 2 or as parquet",
    b"\x80\x04\x95": "is a pickle, which can run code: never read; save it as csv or parquet",
    b"\x80\x05\x95": "is a pickle, which can run code: never read; save it as csv or parquet",
    b'{"': "is JSON: read it with pandas.read_json, and give Ratings(frame)",
    b'[{"': "is JSON: read it with pandas.read_json, and give Ratings(frame)",
}


def unpacked_content(content: bytes, label: str, budget: Budget) -> bytes:
    """`content`, decompressed if it is gzip, bzip2, xz or zstd; an error if it cannot be read."""
    for magic, unpack in _UNPACKING.items():
        if content.startswith(magic):
            try:
                return unpack(content, label, budget)
            except MemoryError:
                raise RatingsError(
                    f"{label} asks for more memory than there is to unpack it"
                ) from None
            except DAMAGE as problem:
                if isinstance(problem, RatingsError):
                    raise
                raise RatingsError(f"{label} is damaged: {_first_line(problem)}") from problem
    for magic, instead in _NOT_READ.items():
        if content.startswith(magic):
            raise RatingsError(f"{label} {instead}")
    return content


def unpacked_name(name: str) -> str:
    """A file's name without what says how it is compressed."""
    for suffix in PACKED_SUFFIXES:
        if name.lower().endswith(suffix):
            return name[: -len(suffix)]
    return name


def counted(file: IO[bytes], step: int, label: str, budget: Budget) -> bytes:
    """All that an open file unpacks to, counted as it comes."""
    found = BytesIO()
    while part := file.read(step):
        budget.add_bytes(len(part), label)
        found.write(part)
    return found.getvalue()


def _gunzipped(content: bytes, label: str, budget: Budget) -> bytes:
    found = BytesIO()
    at = 0
    while at < len(content):
        stream = zlib.decompressobj(wbits=31)
        while not stream.eof:
            packed = content[at : at + _SLICE]
            part = stream.decompress(packed, UNPACKED_AT_ONCE)
            at += len(packed) - len(stream.unconsumed_tail or stream.unused_data)
            if not part and not packed and not stream.eof:
                raise EOFError("it ends in the middle")
            budget.add_bytes(len(part), label)
            found.write(part)
        at = _after_padding(content, at)
    return found.getvalue()


def _by_streams(new_stream: Callable[[], Any]) -> Callable[[bytes, str, Budget], bytes]:
    """Unpacking by the decompressors of `bz2` and `lzma`, which work alike."""

    def unpack(content: bytes, label: str, budget: Budget) -> bytes:
        found = BytesIO()
        at = 0
        while at < len(content):
            stream = new_stream()
            while not stream.eof:
                packed = content[at : at + _SLICE] if stream.needs_input else b""
                if stream.needs_input and not packed:
                    raise EOFError("it ends in the middle")
                part = stream.decompress(packed, UNPACKED_AT_ONCE)
                at += len(packed)
                budget.add_bytes(len(part), label)
                found.write(part)
            at = _after_padding(content, at - len(stream.unused_data))
        return found.getvalue()

    return unpack


def _after_padding(content: bytes, at: int) -> int:
    """Where the zeros between and after streams end."""
    while content[at : at + 1] == b"\0":
        packed = content[at : at + _SLICE]
        at += len(packed) - len(packed.lstrip(b"\0"))
    return at


def _unpacked_zstd(content: bytes, label: str, budget: Budget) -> bytes:
    import pyarrow as pa  # noqa: PLC0415

    if not pa.Codec.is_available("zstd"):
        raise RatingsError(
            f"{label} is compressed with zstd, which this pyarrow does not know: unpack it first"
        )
    with pa.CompressedInputStream(pa.BufferReader(content), "zstd") as file:
        return counted(file, UNPACKED_AT_ONCE, label, budget)


_UNPACKING: dict[bytes, Callable[[bytes, str, Budget], bytes]] = {
    b"\x1f\x8b": _gunzipped,
    b"BZh": _by_streams(bz2.BZ2Decompressor),
    b"\xfd7zXZ\0": _by_streams(lambda: lzma.LZMADecompressor(memlimit=_MOST_DICTIONARY)),
    b"\x28\xb5\x2f\xfd": _unpacked_zstd,
}


def _first_line(problem: BaseException) -> str:
    return (str(problem).splitlines() or ["unreadable"])[0]
