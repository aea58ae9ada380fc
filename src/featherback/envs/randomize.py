"""Parameters that every world has of its own, drawn again at every reset."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from featherback._typing import Array, Real
from featherback.errors import ParameterError
from featherback.sim import Simulator
from featherback.sim.bridge import bridge_of, refuse_unknown

WHERE = "envs.make(): randomize"


class Randomizer:
    """Parameters of each world.

    Attributes:
        params: by name, float64[worlds, ...].
        theta: real[worlds, ntheta], all parameters flat, as the engine takes them.
    """

    def __init__(self, sim: Simulator, worlds: int, rules: Mapping[str, Any]) -> None:
        """Check the rules: a pair of factors, or a function (generator, value) -> value."""
        self._bridge = bridge_of(sim)
        self._rules: dict[str, Any] = dict(rules)
        for name, rule in self._rules.items():
            refuse_unknown(WHERE, name, list(self._bridge.shapes))
            if not callable(rule):
                _check_factors(name, rule)
        own = {name: np.asarray(sim.params[name], np.float64) for name in self._rules}
        self._base = own
        self.params = {name: np.repeat(x[None], worlds, 0) for name, x in own.items()}
        theta, _ = self._bridge.read_params(WHERE, self.params, worlds)
        assert theta is not None
        self.theta: Real = theta

    def get_state(self) -> dict[str, Array]:
        """Return the parameters of all worlds; copies."""
        return {name: value.copy() for name, value in self.params.items()}

    def set_state(self, state: Mapping[str, Array]) -> None:
        """Take over the parameters of all worlds."""
        for name, value in self.params.items():
            value[:] = state[name]
        theta, _ = self._bridge.read_params(WHERE, self.params, len(self.theta))
        self.theta[:] = theta

    def draw(self, rows: Any, generators: Any) -> None:
        """Draw the parameters of some worlds; generators[i] is that of world i."""
        for i in rows:
            for name, rule in self._rules.items():
                base = self._base[name]
                given: Any = rule
                if callable(rule):
                    self.params[name][i] = given(generators[i], base.copy())
                else:
                    self.params[name][i] = base * generators[i].uniform(*given)
        some = {name: value[rows] for name, value in self.params.items()}
        theta, _ = self._bridge.read_params(WHERE, some, len(rows))
        self.theta[rows] = theta


def _check_factors(name: str, rule: Any) -> None:
    """Refuse what is no pair of factors."""
    try:
        low, high = (float(x) for x in rule)
        good = np.isfinite([low, high]).all() and low <= high
    except (TypeError, ValueError):
        good = False
    if not good:
        raise ParameterError(
            f'{WHERE}["{name}"] is {rule!r}; it must be a pair of finite factors (low, high), or a '
            "function of a generator and the parameter's value that returns the new value."
        )
