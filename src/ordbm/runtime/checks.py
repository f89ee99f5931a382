"""Checks of settings and arguments: an error names what was said and what it may be."""

from __future__ import annotations

import math
from numbers import Integral, Real
from typing import Any

from ordbm.errors import SettingsError


def check_choice(name: str, value: object, known: tuple[str, ...]) -> None:
    """An error that names the setting unless it is one of the known ones."""
    if value not in known:
        raise SettingsError(f"{name}={value!r} is not known: use one of {', '.join(known)}")


def check_amount(name: str, value: Any) -> None:
    """An error that names the setting unless it is a number, 0 or more."""
    if not isinstance(value, Real) or not float(value) >= 0:
        raise SettingsError(f"{name}={value!r}: must be a number, 0 or more")


def check_count(name: str, value: Any, least: int = 0) -> None:
    """An error that names the setting unless it is a whole number of `least` or more."""
    whole = isinstance(value, Integral) and not isinstance(value, bool)
    if not whole or value < least:
        raise SettingsError(f"{name}={value!r}: must be a whole number, {least} or more")


def check_finite_amount(name: str, value: Any) -> None:
    """An error that names the setting unless it is a finite number of 0 or more."""
    number = isinstance(value, Real) and not isinstance(value, bool)
    if not number or not 0 <= float(value) < math.inf:
        raise SettingsError(f"{name}={value!r}: must be a number, 0 or more")
