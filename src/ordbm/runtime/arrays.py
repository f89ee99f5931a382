"""The kinds of arrays that pass between modules."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
Codes = NDArray[np.integer[Any]]  # of users or items, from 0; -1 for the unknown
Mask = NDArray[np.bool_]
Numbers = NDArray[np.float64]
