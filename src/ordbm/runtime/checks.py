"""Checks of settings and arguments: an error names what was said and what it may be."""

from __future__ import annotations

import math
from collections.abc import Hashable
from numbers import Integral, Real
from typing import Any

from ordbm.errors import SettingsError
from ordbm.runtime.printable import shown

LARGEST_COUNT = 2**62  # smaller ones can be doubled in 64 bits


def said(name: str, value: object) -> str:
    """`name=value` in words."""
    return f"{name}={shown(value)}"


def check_choice(name: str, value: Any, known: tuple[str, ...]) -> None:
    """An error that names the setting unless it is one of the known ones."""
    if not isinstance(value, Hashable) or value not in known:  # an array is no choice
        raise SettingsError(f"{said(name, value)} is not known: use one of {', '.join(known)}")


def check_amount(name: str, value: Any) -> None:
    """An error that names the setting unless it is a number, 0 or more."""
    if not isinstance(value, Real) or not float(value) >= 0:
        raise SettingsError(f"{said(name, value)}: must be a number, 0 or more")


def check_count(name: str, value: Any, least: int = 0, most: int | None = None) -> None:
    """An error that names the setting unless it is a whole number from `least` to `most`."""
    whole = isinstance(value, Integral) and not isinstance(value, bool)
    if not whole or value < least:
        raise SettingsError(f"{said(name, value)}: must be a whole number, {least} or more")
    if most is not None and value > most:
        raise SettingsError(f"{said(name, value)}: must be at most {most:,}")
    if value >= LARGEST_COUNT:
        raise SettingsError(f"{said(name, value)}: must be below 2**62")


def float_of(value: Any) -> float:
    """`value` as a float: infinite where it is beyond all of them, NaN if it is no number."""
    number = isinstance(value, Real) and not isinstance(value, bool)
    try:
        return float(value) if number else math.nan
    except OverflowError:
        return math.inf if value > 0 else -math.inf


def check_finite_amount(name: str, value: Any) -> None:
    """An error that names the setting unless it is a finite number of 0 or more."""
    if not 0 <= float_of(value) < math.inf:
        raise SettingsError(f"{said(name, value)}: must be a number, 0 or more")
