"""Recordings of a motion: a NumPy archive that holds all that is needed to show it again.

An archive (`.npz`, read by `numpy.load` with its default settings) has these arrays:

| name | type and shape | meaning |
|---|---|---|
| `format` | text | "featherback-motion 1" |
| `xml` | text | the model, MJCF |
| `dt` | float64 | step [s] |
| `q` | float64[steps + 1, nq] | configurations in MuJoCo's layout |
| `v` | float64[steps + 1, nv] | velocities |
| `u` | float64[steps, nu] | controls |
| `act` | float64[steps + 1, na] | activations; only where the model has any |
| `target` | float64[n, 3] | points to mark [m]; n may be 0 |
| `camera` | float64[6] | look-at point [m], distance [m], azimuth and elevation [degrees] |
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from pathlib import Path

import numpy as np

from featherback._typing import Array
from featherback.errors import FeatherbackError
from featherback.experiments.files import load_arrays, save_arrays

FORMAT = "featherback-motion 1"
CAMERA = (0.0, 0.0, 0.5, 3.0, 120.0, -15.0)


@dataclass(frozen=True, eq=False)
class Recording:
    """The recorded motion of one world; see the module for the fields."""

    xml: str
    dt: float
    q: Array
    v: Array
    u: Array
    target: Array
    camera: Array
    act: Array | None = None

    @property
    def steps(self) -> int:
        """Number of steps."""
        return len(self.q) - 1

    def save(self, path: Path) -> Path:
        """Write the archive and return its path."""
        arrays = {f.name: getattr(self, f.name) for f in fields(self)}
        there = {name: array for name, array in arrays.items() if array is not None}
        return save_arrays(path, {"format": FORMAT, **there})

    @classmethod
    def load(cls, path: Path) -> Recording:
        """Read an archive.

        Raises:
            FeatherbackError: if the file is missing, cut short, or no recording.
        """
        arrays = load_arrays(path)
        names = [f.name for f in fields(cls) if f.name != "act" or "act" in arrays]
        missing = [name for name in ("format", *names) if name not in arrays]
        if missing or str(arrays["format"]) != FORMAT:
            raise FeatherbackError(
                f'{path}: not a recording of a motion in the format "{FORMAT}"; pass a file that '
                "featherback run wrote."
            )
        numbers = {name: np.asarray(arrays[name], np.float64) for name in names[2:]}
        return cls(xml=str(arrays["xml"]), dt=float(arrays["dt"]), **numbers)
