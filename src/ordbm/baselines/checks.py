"""Settings of baselines that must be numbers."""

from __future__ import annotations

from numbers import Real
from typing import Any

import numpy as np

from ordbm.errors import SettingsError


def check_not_negative(name: str, value: Any) -> None:
    """An error that names the setting unless it is a finite number of 0 or more."""
    number = isinstance(value, Real) and not isinstance(value, bool)
    if not number or not 0 <= float(value) < np.inf:
        raise SettingsError(f"{name}={value!r}: must be a number, 0 or more")
