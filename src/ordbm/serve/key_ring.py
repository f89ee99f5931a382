"""API keys: made at random, shown once, kept as hashes in a file, each with scopes.

A line of the file is `name scope,scope sha256`. A key has 256 random bits, which no search finds,
so one round of SHA-256 hides it well enough.
"""

from __future__ import annotations

import hashlib
import os
import re
import secrets
from pathlib import Path
from typing import NamedTuple

from ordbm.errors import SettingsError
from ordbm.runtime.atomic_files import atomic_file

SCOPES = ("read", "write", "admin")
_NAME = re.compile(r"[A-Za-z0-9._-]{1,60}")
_HASH = re.compile(r"[0-9a-f]{64}")
_PREFIX = "ordbm_"


class Client(NamedTuple):
    """Whoever asks: by the name of a key, and what it may do."""

    name: str
    scopes: frozenset[str]


EVERYBODY = Client("", frozenset(SCOPES))  # where there are no keys


class KeyRing:
    """The keys of a file, read again when it has changed."""

    def __init__(self, path: Path) -> None:
        self._path, self._stamp = path, (0, 0)
        self._clients: dict[str, Client] = {}
        self.refresh()

    def refresh(self) -> None:
        """Take in what has changed; a file that cannot be read leaves the keys as they were."""
        found = self._path.stat()
        stamp = found.st_mtime_ns, found.st_size
        if stamp != self._stamp:
            self._clients = {digest: client for client, digest in read_keys(self._path)}
            self._stamp = stamp

    def client(self, authorization: str) -> Client | None:
        """Whose key it is that a header `Bearer KEY` has."""
        kind, _, key = authorization.partition(" ")
        if kind.lower() != "bearer":
            return None
        return self._clients.get(digest_of(key.strip()))


def digest_of(key: str) -> str:
    """What the file has of a key."""
    return hashlib.sha256(key.encode("utf-8", "surrogateescape")).hexdigest()


def read_keys(path: Path) -> list[tuple[Client, str]]:
    """The keys of a file, with their hashes."""
    found = []
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        words = line.split()
        scopes = words[1].split(",") if len(words) == 3 else []
        if not scopes or not set(scopes) <= set(SCOPES) or not _HASH.fullmatch(words[2]):
            raise SettingsError(
                f"{path}: line {number} is not `name scopes hash`: write keys by `ordbm keys add`"
            )
        found.append((Client(words[0], frozenset(scopes)), words[2]))
    return found


def add_key(path: Path, name: str, scopes: list[str]) -> str:
    """A new key, which only its holder will know from now on."""
    kept = read_keys(path) if path.exists() else []
    if not _NAME.fullmatch(name):
        raise SettingsError(f"{name!r}: a name has letters, digits, dots, dashes, underscores")
    if any(client.name == name for client, _ in kept):
        raise SettingsError(f"{name}: there is a key of this name; revoke it first, or choose one")
    unknown = set(scopes) - set(SCOPES)
    if unknown or not scopes:
        raise SettingsError(f"scopes are {', '.join(SCOPES)}, not {', '.join(sorted(unknown))}")
    key = _PREFIX + secrets.token_urlsafe(32)
    _write_keys(path, [*kept, (Client(name, frozenset(scopes)), digest_of(key))])
    return key


def revoke_key(path: Path, name: str) -> None:
    """Let a key open nothing from now on."""
    kept = read_keys(path)
    left = [one for one in kept if one[0].name != name]
    if len(left) == len(kept):
        raise SettingsError(f"{path} has no key called {name}")
    _write_keys(path, left)


def _write_keys(path: Path, keys: list[tuple[Client, str]]) -> None:
    order = SCOPES.index
    lines = [
        f"{client.name} {','.join(sorted(client.scopes, key=order))} {digest}\n"
        for client, digest in keys
    ]
    text = "# keys of ordbm serve: name, scopes, SHA-256 of the key\n" + "".join(lines)
    with atomic_file(path) as file:
        os.fchmod(file.fileno(), 0o600)
        file.write(text.encode())
