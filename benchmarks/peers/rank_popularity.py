"""The items that most users rated, the same for everybody."""

from __future__ import annotations

from rank_protocol import by_popularity, run

if __name__ == "__main__":
    run(by_popularity, [])
