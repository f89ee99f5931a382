"""Text from files as a terminal may show it."""

from __future__ import annotations

import re

# What moves the cursor, changes colours, hides or reorders text: control characters, signs of
# direction, separators of lines, invisible characters, halves of pairs. The two joiners that
# scripts and emoji need (U+200C, U+200D) stay.
_UNSAFE = re.compile(
    "[\x00-\x1f\x7f-\x9f\xad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff"
    "\ufff9-\ufffb\ud800-\udfff\U000e0000-\U000e007f]"
)


def printable(text: str) -> str:
    r"""`text` with what a terminal would obey instead of show written as in Python: `\x1b`, `\n`.

    All that is printed of titles, ids, labels, names of columns and files goes through this.
    """
    return _UNSAFE.sub(lambda found: found.group().encode("unicode_escape").decode(), text)
