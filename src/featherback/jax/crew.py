"""The engines behind compiled functions, one crew for each Simulator."""

from __future__ import annotations

import hashlib
import itertools
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
from featherback.sim.bridge import SENTENCES, bridge_of
from featherback.sim.inputs import (
    DIRECTIONS,
    EIGENVALUES,
    INERTIAS,
    NOT_NEGATIVE,
    RANGES,
    SCALE,
    in_force,
    pointed,
)

NO_ROW = (
    "0 there, since the model was loaded with none and has no friction row: give it a small "
    "frictionloss in the file"
)
LARGEST = float(np.finfo(np.float64).max)


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
        sentences = {int(k): text for k, text in SENTENCES.items()}
        engine = bridge_of(sim).engine
        crew = EnginePool(engine, key, sentences, _bounds(sim), _rules(sim))
        sizes = (m.nq, m.nv, m.nu, m.nbody + m.nsite, engine.theta_size)
        _engines[sim] = Engines(key, crew, sim.dtype, *sizes)
    return _engines[sim]


def _key(sim: Simulator) -> int:
    """Return a hash of everything an engine is built from."""
    s = sim.model.structure
    text = (sorted(s.sizes.items()), sorted(s.tables), sim.options, sim.threads, sim.dtype, isa())
    state = hashlib.blake2b(repr(text).encode(), digest_size=8)
    for _, table in sorted(s.tables.items()):
        state.update(np.ascontiguousarray(table).tobytes())
    for array in (s.vert, *sim.params.values()):
        state.update(np.ascontiguousarray(array, sim.dtype).tobytes())
    return struct.unpack("q", state.digest())[0]


def _bounds(sim: Simulator) -> list[tuple[str, int, float, float, str]]:
    """Return name, count, least and largest value of each parameter, with the rule in words."""
    bounds: list[tuple[str, int, float, float, str]] = []
    rowless = np.ones(sim.model.nv, bool)
    rowless[sim.model.structure.tables["friction_dof"]] = False
    for name, base in sim.params.items():
        if name == "dof_frictionloss":
            for none in rowless:
                high, rule = (0.0, NO_ROW) if none else (LARGEST, ">= 0")
                bounds.append((name, 1, 0.0, high, rule))
            continue
        # ranges that are not in force may be infinite
        most = LARGEST if np.all(np.isfinite(base)) else np.inf
        low, high, rule = -most, most, "finite"
        if name in NOT_NEGATIVE:
            low, rule = 0.0, ">= 0"
        if name == "geom_restitution":
            high, rule = 1.0, "from 0 to 1"
        if name == "dt":
            low, rule = float(np.nextafter(0.0, 1.0)), "> 0"
        bounds.append((name, base.size, float(low), float(high), rule))
    return bounds


def _rules(sim: Simulator) -> list[tuple[str, int, int, str]]:
    """Return what numbers must be together: the kind of rule, two places, and the sentence."""
    structure, bodies = sim.model.structure, sim.model.body_names
    sizes = [value.size for value in sim.params.values()]
    start = dict(zip(sim.params, itertools.accumulate([0, *sizes]), strict=False))
    rules: list[tuple[str, int, int, str]] = []
    for name, reason in DIRECTIONS.items():
        n = sim.params[name].shape[1]
        rules += [
            ("length", start[name] + n * i, n, f'params["{name}"][{i}] is zero; {reason}')
            for i in np.flatnonzero(pointed(name, structure)).tolist()
        ]
    for name in RANGES:
        ends = "its lower end lies above the upper; swap them."
        rules += [
            ("order", start[name] + 2 * i, 0, f'params["{name}"][{i}]: {ends}')
            for i in np.flatnonzero(in_force(name, structure)).tolist()
        ]
    rules += [
        ("length", start["mesh_scale"] + i, 1, 'params["mesh_scale"] holds 0; ' + SCALE)
        for i in range(sim.params["mesh_scale"].size)
    ]
    moments, products = (start[name] for name in INERTIAS)
    for i, body in enumerate(bodies):
        given = " and ".join(f'params["{name}"][{i}]' for name in INERTIAS)
        text = (
            f'{given} give body "{body}" an inertia with an eigenvalue below zero; ' + EIGENVALUES
        )
        rules.append(("inertia", moments + 3 * i, products + 3 * i, text))
    return rules


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
