"""Contact modes along rollouts: which contacts are open, stick or slide, read from their forces."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

import featherback as fb

Modes = NDArray[np.int64]
Array = NDArray[Any]

STATES = ("q", "v", "act", "u")
STICKS, SLIDES = 0, 1
# rules by which a pair gets its friction
LARGER, OWN, FIRST, SECOND = range(4)
# a sliding contact's friction is on the rim of its cone to this share
RIM = 1e-9


def contact_modes(sim: fb.Simulator, inputs: dict[str, Array], roll: fb.Rollout) -> Modes:
    """Return how many contacts of each pair of geoms stick and slide in every step.

    Args:
        sim: the simulator of the rollout.
        inputs: what was rolled out: u, and parameters by name, shared or with a world axis.
        roll: the rollout, with or without a world axis.

    Returns:
        int64[worlds, steps, pairs, 2]; one world where the rollout has no world axis.
    """
    q, v, act = (a[None] if a.ndim == 2 else a for a in (roll.q, roll.v, roll.act))
    worlds, steps = len(q), roll.steps
    u = np.broadcast_to(inputs["u"], (worlds, *inputs["u"].shape[-2:]))
    given = {name: a for name, a in inputs.items() if name not in STATES}
    own = {name for name, a in given.items() if a.ndim > sim.params[name].ndim}
    parts: list[Modes] = []
    # worlds with parameters of their own are looked at one by one
    for part in np.split(np.arange(worlds), worlds) if own else [np.arange(worlds)]:
        before = {"q": q[:, :-1], "v": v[:, :-1], "act": act[:, :-1], "u": u}
        states = {k: a[part].reshape(len(part) * steps, a.shape[-1]) for k, a in before.items()}
        params = {name: a[part[0]] if name in own else a for name, a in given.items()}
        # a world that has left the finite numbers, or is on its way, has its loss there: none
        wild = ~(np.abs(np.concatenate(list(states.values()), axis=1)) < 1e12).all(axis=1)
        states = {k: np.where(wild[:, None], a[:1], a) for k, a in states.items()}
        found = sim.contacts(**states, params=params)
        parts.append(_count(sim, found, _pair_friction(sim, params)))
    return np.concatenate(parts).reshape(worlds, steps, -1, 2)


def _pair_friction(sim: fb.Simulator, params: dict[str, Any]) -> Array:
    """Return the friction of each pair."""
    tables = sim.model.structure.tables
    given = {**sim.params, **params}
    mu, own = given["geom_friction"][:, 0], given["pair_friction"]
    first, second = (mu[tables[name]] for name in ("pair_geom1", "pair_geom2"))
    rules = {LARGER: np.maximum(first, second), OWN: own, FIRST: first, SECOND: second}
    return sum((tables["pair_rule"] == rule) * value for rule, value in rules.items())


def _count(sim: fb.Simulator, found: fb.Contacts, friction: Array) -> Modes:
    """Count sticking and sliding contacts by pair."""
    tables = sim.model.structure.tables
    pairs, ngeom = len(tables["pair_geom1"]), sim.model.ngeom
    number = np.full((ngeom + 1, ngeom + 1), pairs)
    number[tables["pair_geom1"], tables["pair_geom2"]] = np.arange(pairs)
    pair = number[found.geom1, found.geom2]
    normal = (found.force * found.normal).sum(axis=-1)
    tangent = found.force - normal[..., None] * found.normal
    states = len(pair)
    radius = np.r_[friction, 0.0][pair] * normal
    size = np.linalg.norm(tangent, axis=-1)
    if sim.options.friction == "box":
        size = np.abs(_in_frame(found.normal, tangent)).max(axis=-1, initial=0)
    slides = size >= (1 - RIM) * radius
    row, slot = np.nonzero((normal > 0) & (pair < pairs))
    index = (row * pairs + pair[row, slot]) * 2 + slides[row, slot]
    return np.bincount(index, minlength=states * pairs * 2).reshape(states, pairs, 2)


def _in_frame(normal: Array, tangent: Array) -> Array:
    """Return a tangent in the contact's frame (T.2), which box friction bounds axis by axis."""
    along_x = (np.abs(normal[..., :1]) < 0.57735) * 1.0
    e = np.concatenate([along_x, 1 - along_x, np.zeros_like(along_x)], axis=-1)
    a = e - normal * (e * normal).sum(axis=-1, keepdims=True)
    with np.errstate(invalid="ignore"):
        t1 = a / np.linalg.norm(a, axis=-1, keepdims=True)
    t2 = np.cross(normal, t1)
    return np.stack([(t * tangent).sum(axis=-1) for t in (t1, t2)], axis=-1)
