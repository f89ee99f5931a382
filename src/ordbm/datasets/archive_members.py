"""Which file of a folder or archive has the ratings."""

from __future__ import annotations

from pathlib import PurePosixPath

from ordbm.datasets.netflix import FILE as NETFLIX_FILE
from ordbm.datasets.sources import Store, listed_names, visible
from ordbm.errors import RatingsError

KNOWN_NAMES = ("ratings.csv", "ratings.dat", "u.data")  # of MovieLens: 20M and later, 1M, 100K
SUFFIXES = (".csv", ".tsv", ".txt", ".dat", ".data", ".parquet")


def rating_files(store: Store) -> list[str]:
    """The file with the ratings; of the Netflix Prize's, all of them."""
    if store.single:
        return store.names
    names = visible(store.names)
    base = {name: PurePosixPath(name).name.removesuffix(".gz") for name in names}
    netflix = sorted(name for name in names if NETFLIX_FILE.fullmatch(base[name]))
    for candidates in (
        [name for name in names if base[name] in KNOWN_NAMES],
        netflix,
        [name for name in names if base[name].lower() in {f"ratings{end}" for end in SUFFIXES}],
        [name for name in names if base[name].lower().endswith(SUFFIXES)],
    ):
        if len(candidates) == 1 or (candidates and candidates is netflix):
            return candidates
        if candidates:
            raise RatingsError(
                f"{store.label} has several files that may be the ratings: "
                f"{listed_names(candidates)}; say which with member="
            )
    raise RatingsError(
        f"{store.label}: found no rating file (such as {', '.join(KNOWN_NAMES)}) among "
        f"{listed_names(names)}; say which to read with member="
    )


def named_member(store: Store, member: str) -> str:
    """The file called `member`, with or without its folders."""
    if store.single:
        raise RatingsError(f"{store.label} is a file of its own: leave member={member!r} out")
    matching = [name for name in store.names if name == member]
    matching = matching or [name for name in store.names if PurePosixPath(name).name == member]
    if len(matching) == 1:
        return matching[0]
    what = "no file" if not matching else "several files"
    raise RatingsError(f"{store.label} has {what} {member!r}; it has {listed_names(store.names)}")
