"""The engines behind compiled functions, one crew for each Simulator."""

from __future__ import annotations

import hashlib
import struct
from dataclasses import dataclass
from functools import cache
from typing import Any
from weakref import WeakKeyDictionary

import jax
import numpy as np

from featherback._core import EnginePool, isa, xla_handlers, xla_state_type
from featherback.errors import ParameterError
from featherback.sim import Simulator
from featherback.sim.bridge import bridge_of


@dataclass(frozen=True, eq=False)
class Engines:
    """What a traced function knows of a Simulator; it lives as long as the function does.

    A compiled function names its engines by `key`, a hash of everything they were built from, so
    equal Simulators share compiled functions.

    Attributes:
        key: name of the engines in XLA.
        crew: the engines.
        dtype: number type.
        nq: length of a configuration.
        nv: length of a velocity.
        nu: length of a control.
        nposes: number of bodies and sites.
        ntheta: number of parameters.
    """

    key: int
    crew: EnginePool
    dtype: np.dtype[Any]
    nq: int
    nv: int
    nu: int
    nposes: int
    ntheta: int

    def __hash__(self) -> int:
        """Return the key."""
        return self.key

    def __eq__(self, other: object) -> bool:
        """Compare keys."""
        return isinstance(other, Engines) and other.key == self.key


_engines: WeakKeyDictionary[Simulator, Engines] = WeakKeyDictionary()


def engines_of(sim: Simulator) -> Engines:
    """Return the engines of a simulator, made on the first call."""
    if sim not in _engines:
        _register()
        m, key = sim.model, _key(sim)
        engine = bridge_of(sim).engine
        crew = EnginePool(engine, key, m.body_names)
        sizes = (m.nq, m.nv, m.nu, m.nbody + m.nsite, engine.theta_size)
        _engines[sim] = Engines(key, crew, sim.dtype, *sizes)
    return _engines[sim]


def _key(sim: Simulator) -> int:
    """Return a hash of everything an engine is built from."""
    s = sim.model.structure
    names = (sorted(s.sizes.items()), sorted(s.tables), sim.model.body_names)
    text = (names, sim.options, sim.threads, sim.dtype, isa())
    state = hashlib.blake2b(repr(text).encode(), digest_size=8)
    for _, table in sorted(s.tables.items()):
        state.update(np.ascontiguousarray(table).tobytes())
    for array in (s.vert, *sim.params.values()):
        state.update(np.ascontiguousarray(array, sim.dtype).tobytes())
    return struct.unpack("q", state.digest())[0]


@cache
def _register() -> None:
    """Tell XLA of the handlers, once in a process.

    The type must be known before its handlers are; JAX keeps that order only where the CPU's
    backend is up already.
    """
    try:
        jax.devices("cpu")
    except RuntimeError as error:
        raise ParameterError(
            "featherback.jax: JAX runs without its CPU platform, and the simulator runs there; "
            'add it, as in jax.config.update("jax_platforms", "cuda,cpu").'
        ) from error
    state: Any = xla_state_type()
    jax.ffi.register_ffi_type("featherback", state, platform="cpu")
    for name, stages in xla_handlers().items():
        jax.ffi.register_ffi_target(f"featherback_{name}", stages, platform="cpu")
