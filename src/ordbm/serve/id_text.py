"""Ids of any type in addresses, in JSON and in the database, with their types kept.

In JSON an id is what it is: `1` a number, `"1"` text; other types as the model file writes them,
`{"uuid": "…"}`. The database holds that JSON as text. A segment of an address, a key of a JSON
object and a cell of a csv have no types: there an id is the number or the text that the model's ids
are of, or JSON if it begins with `"`, `{`.
"""

from __future__ import annotations

import json
import math
import re
import unicodedata
from collections.abc import Hashable
from typing import Any

from ordbm.data.ids import IdMap, is_missing
from ordbm.data.lookup import check_ids_of_type
from ordbm.errors import RatingsError
from ordbm.persistence.json_values import packed, unpacked
from ordbm.runtime.printable import shown

LONGEST_KEY = 500
_KEYS = json.JSONEncoder(separators=(",", ":"), sort_keys=True, allow_nan=False)
_DECIMAL = re.compile(r"-?\d{1,17}\.\d{1,17}(e[+-]?\d{1,3})?")
_INTEGER = re.compile(r"-?(0|[1-9]\d{0,19})")  # as long as 64 bits hold


def id_of_json(plain: Any) -> Hashable:
    """The id that a JSON value stands for."""
    if isinstance(plain, bool) or plain is None:
        raise RatingsError(f"{shown(plain)} is not an id: give a number or text")
    if isinstance(plain, float):
        if not math.isfinite(plain):
            raise RatingsError("an id must not be missing or infinite")
        return int(plain) if plain.is_integer() and abs(plain) < 2**53 else plain
    if isinstance(plain, int | str):
        found: Hashable = plain
    else:
        try:
            found = unpacked(plain)
            hash(found)
        except (ValueError, TypeError, KeyError, IndexError, AttributeError, RecursionError):
            found = None
        if found is None or is_missing(found):
            raise RatingsError(
                f"{shown(plain)} is not an id: give a number, text, or another type as a model "
                'file writes it, {"uuid": "…"}'
            )
    key_of_id(found)
    return found


def id_of_text(text: str, known: IdMap) -> Hashable:
    """The id that is written without its type: what the model's ids are, or else JSON."""
    if text[:1] in ('"', "{"):
        try:
            return id_of_json(json.loads(text))
        except (ValueError, RecursionError):
            raise RatingsError(f"{shown(text)} begins as JSON and is none: quote it") from None
    number = int(text) if _INTEGER.fullmatch(text) else None
    if number is not None and "numbers" in (known.kinds or {"numbers"}):
        return text if number not in known and text in known else number
    if _DECIMAL.fullmatch(text) and float(text) in known:
        return float(text)
    key_of_id(text)
    return text


def check_kind(value: Hashable, known: IdMap, what: str) -> None:
    """An error if it is not known, but would be as another type: `"1"` for 1."""
    if value not in known:
        check_ids_of_type([value], known, what)


def key_of_id(value: Hashable) -> str:
    """An id as the database has it: JSON in ASCII, one text for each id."""
    try:
        plain = packed(value)
    except TypeError:
        raise RatingsError(f"{shown(value)} is not of a type that an id can have") from None
    key = _KEYS.encode(plain)
    if len(key) > LONGEST_KEY:
        raise RatingsError(f"an id of {len(key):,} characters: {LONGEST_KEY} are the most")
    return key


def check_text(text: str) -> str:
    """The text, unless it has half a character, which JSON can escape and UTF-8 cannot have."""
    try:
        text.encode()
    except UnicodeEncodeError:
        raise RatingsError(
            "text with half a character (a lone surrogate): give whole ones"
        ) from None
    return text


def folded(text: str) -> str:
    """Text as it is searched: lower case, without accents, one space between words."""
    whole = text.encode("utf-8", "replace").decode().replace("\x00", " ")
    plain = unicodedata.normalize("NFKD", whole.casefold())
    return " ".join("".join(c for c in plain if not unicodedata.combining(c)).split())


def id_of_key(key: str) -> Hashable:
    """The id that `key_of_id` wrote."""
    found: Hashable = unpacked(json.loads(key))
    return found


def plain_id(value: Hashable) -> Any:
    """An id in JSON's terms."""
    return value if isinstance(value, int) else packed(value)
