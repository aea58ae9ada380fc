"""Arguments that our own models refuse."""

from __future__ import annotations

import math

from featherback import models
from featherback.errors import ModelError
from tests.golden.sentences import raises

CASES = [
    raises("laikago: robots", ModelError, lambda: models.laikago(0), "models.laikago", "robots"),
    raises("chain: n", ModelError, lambda: models.chain(2.5), "models.chain", "n is 2.5"),  # type: ignore[arg-type]
    raises(
        "pendulum: length",
        ModelError,
        lambda: models.pendulum(1, length=-1.0),
        "models.pendulum",
        "length is -1.0",
    ),
    raises("ball: mass", ModelError, lambda: models.ball(mass=math.nan), "models.ball", "mass"),
    raises(
        "box: two sizes",
        ModelError,
        lambda: models.box(size=(0.1, 0.1)),  # type: ignore[arg-type]
        "models.box",
        "size",
        "2 numbers",
    ),
    raises(
        "box: a size of zero",
        ModelError,
        lambda: models.box(size=(0.1, 0.0, 0.1)),
        "models.box",
        "size[1]",
    ),
]
