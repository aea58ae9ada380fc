"""Types that every layer names: arrays, and parameters by name."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import ArrayLike, NDArray

__all__ = ["Array", "Bools", "Ints", "Params", "Real"]

# float64, for what is computed in Python
Array = NDArray[np.float64]
# float64 or float32, as the Simulator computes
Real = NDArray[np.floating]
Ints = NDArray[np.int32]
Bools = NDArray[np.bool_]
# parameters by name, each in its own shape or with a leading world axis
Params = Mapping[str, ArrayLike]
