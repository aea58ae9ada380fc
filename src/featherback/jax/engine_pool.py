"""The engines behind compiled functions, one pool for each Simulator."""

from __future__ import annotations

import hashlib
import math
import struct
from dataclasses import dataclass
from functools import cache
from typing import Any
from weakref import WeakKeyDictionary

import jax
import numpy as np

from featherback._core import EnginePool, isa, output_table, xla_handlers, xla_state_type
from featherback.errors import ParameterError
from featherback.jax.device import DeviceEngines
from featherback.sim import Simulator
from featherback.sim.bridge import Bridge, StateLayout, bridge_of


@dataclass(frozen=True, eq=False)
class Engines:
    """What a traced function knows of a Simulator; it lives as long as the function does.

    A compiled function names its engines by `key`, a hash of everything they were built from, so
    equal Simulators share compiled functions.

    Attributes:
        key: name of the engines in XLA.
        pool: the engines.
        layout: of the states.
        ntheta: number of parameters.
        outputs: how many numbers each output has in one world.
        gpu: the engines on the GPU of the simulator, where it has one; the pool is not used then.
    """

    key: int
    pool: EnginePool | None
    layout: StateLayout
    ntheta: int
    outputs: dict[str, int]
    gpu: DeviceEngines | None = None

    @property
    def dtype(self) -> np.dtype[Any]:
        """Number type of all arrays."""
        return self.layout.dtype

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
        bridge = bridge_of(sim)
        shape = sim.model.structure.output_shape
        outputs = {row.name: math.prod(shape(row.name)) for row in output_table()}
        key, pool, gpu = _key(bridge), None, None
        if bridge.device == "cpu":
            _register()
            pool = EnginePool(bridge.engine, key, sim.model.body_names)
        else:
            gpu = DeviceEngines(sim)
        _engines[sim] = Engines(key, pool, bridge.layout, bridge.theta_size, outputs, gpu)
    return _engines[sim]


def _key(bridge: Bridge) -> int:
    """Return a hash of everything an engine is built from."""
    model, dtype = bridge.model, bridge.layout.dtype
    text = (model.body_names, bridge.options, bridge.threads, dtype, isa())
    text += () if bridge.device == "cpu" else (bridge.device,)
    state = hashlib.blake2b(repr(text).encode(), digest_size=8)
    numbers = [
        np.ascontiguousarray(a, dtype) for a in (model.structure.vert, *bridge.params.values())
    ]
    for array in (*model.structure.packed(), *numbers):
        state.update(array.tobytes())
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
