"""How much may come out of a file: rows, bytes and members, counted while it is read.

What a file says of itself is never relied on. Limits follow the size of what is really there: a
rating of a real set takes about a byte however well it is packed (who rated what, ten bits for the
Netflix Prize's sorted ratings), and text of ratings packs to a fifth, seldom to a twentieth. So
plain files are never refused, nor are large packed ones, and a small file stays a small matter.
"""

from __future__ import annotations

from dataclasses import dataclass

from ordbm.errors import RatingsError
from ordbm.runtime.checks import check_count

LEAST_ROWS, ROWS_PER_BYTE = 1_000_000, 1
LEAST_BYTES, BYTES_PER_BYTE = 32 * 2**20, 32


@dataclass(frozen=True, kw_only=True)
class ReadLimits:
    """The most that is read of a file, folder or archive, all that is in it taken together.

    rows: ratings, pairs or lines; unless given, a million, or one for each byte of the file if
        that is more.
    bytes: after unpacking; unless given, 32 MiB, or 32 for each byte of the file if that is more.
    members: files in an archive.
    """

    rows: int | None = None
    bytes: int | None = None
    members: int = 100_000

    def __post_init__(self) -> None:
        for name in ("rows", "bytes", "members"):
            if getattr(self, name) is not None:
                check_count(name, getattr(self, name), least=1)


class Budget:
    """What has come out of a file so far, held against the limits.

    `limits` are those that the caller may raise; None where there is no such option.
    """

    def __init__(self, limits: ReadLimits | None = None) -> None:
        self._offered = limits is not None
        self._limits = limits or ReadLimits()
        self._stored = self._rows = self._bytes = self._members = 0

    @property
    def most_bytes(self) -> int:
        """All bytes that may come out."""
        return self._limits.bytes or max(LEAST_BYTES, BYTES_PER_BYTE * self._stored)

    def add_stored(self, size: int) -> None:
        """Count bytes of a file as it lies there."""
        self._stored += size

    def add_bytes(self, size: int, label: str) -> None:
        """Count bytes that were, or are about to be, unpacked."""
        self._bytes += size
        if self._bytes > self.most_bytes:
            raise self._exceeded("bytes", self.most_bytes, "unpacks to", label)

    def add_rows(self, count: int, label: str) -> None:
        """Count rows that were read, or are about to be."""
        self._rows += count
        most = self._limits.rows or max(LEAST_ROWS, ROWS_PER_BYTE * self._stored)
        if self._rows > most:
            raise self._exceeded("rows", most, "has", label)

    def add_member(self, label: str) -> None:
        """Count a file of an archive."""
        self._members += 1
        if self._members > self._limits.members:
            raise self._exceeded("members", self._limits.members, "has", label)

    def _exceeded(self, what: str, most: int, verb: str, label: str) -> RatingsError:
        remedy = f"limits=ReadLimits({what}=...)" if self._offered else "a copy unpacked by you"
        return RatingsError(
            f"{label} {verb} more than {most:,} {what}, from a file of {self._stored:,} bytes: "
            f"refused, as rating files do not; if you trust it, give {remedy}"
        )
