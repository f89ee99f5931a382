"""Which file of a folder or archive has the ratings."""

from __future__ import annotations

from pathlib import PurePosixPath

from ordbm.datasets.netflix import NETFLIX_FILE
from ordbm.datasets.sources import FileSource, name_list, visible_names
from ordbm.datasets.unpacking import unpacked_name
from ordbm.errors import RatingsError
from ordbm.runtime.printable import shown

_KNOWN_NAMES = ("ratings.csv", "ratings.dat", "u.data")  # of MovieLens: 20M and later, 1M, 100K
_SUFFIXES = (".csv", ".tsv", ".txt", ".dat", ".data", ".parquet", ".feather", ".arrow")


def rating_files(source: FileSource) -> list[str]:
    """The file with the ratings; of the Netflix Prize's, all of them."""
    if source.single:
        return source.names
    names = visible_names(source.names)
    base = {name: unpacked_name(PurePosixPath(name).name) for name in names}
    netflix = sorted(name for name in names if NETFLIX_FILE.fullmatch(base[name]))
    for candidates in (
        [name for name in names if base[name] in _KNOWN_NAMES],
        netflix,
        [name for name in names if base[name].lower() in {f"ratings{end}" for end in _SUFFIXES}],
        [name for name in names if base[name].lower().endswith(_SUFFIXES)],
    ):
        if len(candidates) == 1 or (candidates and candidates is netflix):
            return candidates
        if candidates:
            raise RatingsError(
                f"{source.label} has several files that may be the ratings: "
                f"{name_list(candidates)}; say which with member="
            )
    raise RatingsError(
        f"{source.label}: found no rating file (such as {', '.join(_KNOWN_NAMES)}) among "
        f"{name_list(names)}; say which to read with member="
    )


def named_member(source: FileSource, member: str) -> str:
    """The file called `member`, with or without its folders."""
    if source.single:
        raise RatingsError(f"{source.label} is a file of its own: leave member={shown(member)} out")
    matching = [name for name in source.names if name == member]
    matching = matching or [name for name in source.names if PurePosixPath(name).name == member]
    if len(matching) == 1:
        return matching[0]
    what = "no file" if not matching else "several files"
    raise RatingsError(
        f"{source.label} has {what} {shown(member)}; it has {name_list(source.names)}"
    )
