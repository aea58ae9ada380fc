"""Types of arrays and parameters that the layers share."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

# float64
Array = NDArray[np.float64]
# float64 or float32, the dtype of a simulator
Real = NDArray[np.floating]
# tables of indices
Ints = NDArray[np.int32]
# masks
Bools = NDArray[np.bool_]
# parameters by name, as callers give them
Params = dict[str, ArrayLike]
