"""What a service is told when it starts; workers get a copy of it."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass
from pathlib import Path

from ordbm.errors import SettingsError

LOOPBACK_NAMES = ("localhost",)


@dataclass(frozen=True, kw_only=True)
class ServiceSettings:
    """Paths, limits and times in seconds; a limit is per worker process."""

    model: Path
    database: str  # a URL of SQLAlchemy's
    key_file: Path | None = None
    open_elsewhere: bool = False  # beyond loopback without keys
    host: str = "127.0.0.1"
    port: int = 8000
    workers: int = 1
    threads: int = 3  # that write, read and answer in batches, beside one for single questions
    queue: int = 64  # more that may wait
    timeout: float = 10.0  # for a body to arrive, and for an answer
    max_connections: int = 1000
    max_body: int = 1_000_000  # bytes
    max_import: int = 256_000_000  # bytes
    max_batch: int = 100  # questions in one request
    rate: float = 0.0  # requests a second and client; 0 is without limit
    update_every: float = 0.0  # 0 is never by itself
    keep_versions: int = 3
    keep_lists: float = 30 * 86400.0
    poll: float = 1.0  # between looks at the versions and the key file
    log_level: str = "info"

    def __post_init__(self) -> None:
        for name in ("workers", "threads", "max_batch", "max_body", "keep_versions"):
            if getattr(self, name) < 1:
                raise SettingsError(f"{name}={getattr(self, name)}: need at least 1")
        if not is_loopback(self.host) and self.key_file is None and not self.open_elsewhere:
            raise SettingsError(
                f"host {self.host} is open to others, and there are no keys: make some with "
                "`ordbm keys add` and give --key-file, or say --no-keys-anybody-may-write as well"
            )

    @property
    def versions(self) -> Path:
        """The folder of models that updates have made."""
        return self.model.with_name(self.model.name + ".versions")


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach a host of this name."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host in LOOPBACK_NAMES


def database_url(text: str | None, model: Path) -> str:
    """A URL for SQLAlchemy: SQLite beside the model unless told; psycopg speaks to PostgreSQL."""
    if text is None:
        return f"sqlite:///{model.with_name(model.name + '.sqlite3').absolute()}"
    for plain in ("postgresql://", "postgres://"):
        if text.startswith(plain):
            return "postgresql+psycopg://" + text.removeprefix(plain)
    if not text.startswith(("sqlite:///", "postgresql+psycopg://")):
        scheme = text.partition(":")[0]
        raise SettingsError(
            f"database {scheme}:…: give sqlite:///FILE or postgresql://USER:PASSWORD@HOST/NAME"
        )
    return text
