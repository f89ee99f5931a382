"""Text from files as a terminal may show it, and values as messages may."""

from __future__ import annotations

import re

# What moves the cursor, changes colours, hides or reorders text: control characters, signs of
# direction, separators of lines, invisible characters, halves of pairs. The two joiners that
# scripts and emoji need (U+200C, U+200D) stay.
_UNSAFE = re.compile(
    "[\x00-\x1f\x7f-\x9f\xad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff"
    "\ufff9-\ufffb\ud800-\udfff\U000e0000-\U000e007f]"
)

LONGEST_SHOWN = 200  # characters of a value


def printable(text: str) -> str:
    r"""`text` with what a terminal would obey instead of show written as in Python: `\x1b`, `\n`.

    All that is printed of titles, ids, labels, names of columns and files goes through this.
    """
    return _UNSAFE.sub(lambda found: found.group().encode("unicode_escape").decode(), text)


def shown(value: object, longest: int = LONGEST_SHOWN) -> str:
    """`value` as Python writes it, the middle left out where it is long."""
    try:
        text = repr(value)
    except ValueError:  # a whole number of more digits than Python writes
        text = f"a {type(value).__name__} too long to show"
    return text if len(text) <= longest else f"{text[: longest - 23]}...{text[-20:]}"
