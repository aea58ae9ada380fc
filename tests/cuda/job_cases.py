"""What must hold for the jobs besides rollouts and their gradients, on any device."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

import featherback as fb
from tests.cuda.cases import SMALL, laikago
from tests.property.random_models import random_contact_scene, random_state

# of a robot with its feet on the ground, and of random scenes under either law
KINDS = ("laikago", "hard", "mujoco")


def points(kind: str, seeds: int = 4) -> Iterator[tuple[Any, Any, list[Any]]]:
    """Yield simulators on the device and on the processor, and q, v, u of three worlds."""
    if kind == "laikago":
        model, q, v, u = laikago(3, 1)
        yield fb.Simulator(model, device="cuda", **SMALL), fb.Simulator(model, **SMALL), [q, v, u]
        return
    for seed in range(seeds):
        rng = np.random.default_rng(seed)
        model = fb.load(random_contact_scene(rng), on_unsupported="drop")
        options: dict[str, Any] = {"contact": "mujoco"} if kind == "mujoco" else {}
        sims = (fb.Simulator(model, device="cuda", **options), fb.Simulator(model, **options))
        starts = [random_state(model, rng, spread=0.1) for _ in range(3)]
        q, v = (np.stack(part) for part in zip(*starts, strict=True))
        yield *sims, [q, v, rng.normal(size=(3, 1, model.nu))]


def own_masses(sim: fb.Simulator) -> dict[str, Any]:
    """Return masses of three worlds."""
    mass = sim.params["body_mass"]
    return {"body_mass": np.stack([mass * (1 + 0.1 * i) for i in range(3)])}


def every_params(sim: fb.Simulator) -> tuple[Any, ...]:
    """Return the simulator's own parameters, others for all worlds, and each world its own."""
    return None, {"body_mass": 1.2 * sim.params["body_mass"]}, own_masses(sim)


def same(found: Any, want: Any, tolerance: float) -> None:
    """Compare arrays, pair by pair."""
    for a, b in zip(found, want, strict=True):
        assert a.shape == b.shape
        # some are zero but for their rounding
        scale = max(float(np.abs(b).max()), 1.0) if b.size else 1.0
        assert np.abs(a - b).max(initial=0.0) <= tolerance * scale


def check_linearize(kind: str, tolerance: float) -> None:
    """Give the Jacobians of the processor; a step without one is told alike."""
    for gpu, cpu, (q, v, u) in points(kind):
        for params in every_params(cpu):
            found: list[Any] = []
            for sim in (gpu, cpu):
                try:
                    found.append(sim.linearize(q, v, u[:, 0], params=params))
                except fb.WorldError as error:
                    found.append(str(error))
            if isinstance(found[1], str):
                assert found[0] == found[1]
                continue
            same(*found, tolerance)


def check_contacts(kind: str, tolerance: float) -> None:
    """Show the contacts of the processor."""
    count = 0
    for gpu, cpu, (q, v, u) in points(kind):
        for params in every_params(cpu):
            a, b = (sim.contacts(q, v, u[:, 0], params=params) for sim in (gpu, cpu))
            for name in ("count", "geom1", "geom2", "overflow"):
                assert np.array_equal(getattr(a, name), getattr(b, name))
            names = ("gap", "point", "normal", "force", "torque")
            same(*([getattr(c, name) for name in names] for c in (a, b)), tolerance)
            count += int(b.count.sum())
    assert count > 0


def check_every_output(kind: str, tolerance: float) -> None:
    """Give the outputs of the processor and their gradients."""
    rng = np.random.default_rng(1)
    for gpu, cpu, (q, v, _) in points(kind):
        x = rng.normal(size=v.shape)
        calls: dict[str, tuple[Any, ...]] = {
            "mass_matrix": (q,),
            "bias": (q, v),
            "forward_dynamics": (q, v, x),
            "inverse_dynamics": (q, v, x),
            "center_of_mass": (q,),
            "body_poses": (q,),
            "site_poses": (q,),
        }
        for name, given in calls.items():
            for params in every_params(cpu):
                ys = [_listed(getattr(s, name)(*given, params=params)) for s in (gpu, cpu)]
                same(*ys, tolerance)
                bars = [rng.normal(size=y.shape) for y in ys[1]]
                gradients = [
                    getattr(s, f"{name}_vjp")(*given, *bars, params=params) for s in (gpu, cpu)
                ]
                same(*(_parts_of(g) for g in gradients), tolerance)


def _listed(y: Any) -> list[Any]:
    """Return an output as a list of arrays."""
    return list(y) if isinstance(y, tuple) else [y]


def _parts_of(gradient: Any) -> list[Any]:
    """Return the arrays of a gradient."""
    rest = [getattr(gradient, name) for name in ("v", "a", "tau")]
    return [gradient.q, *(a for a in rest if a is not None), *(gradient.params or {}).values()]


def check_second_order(kind: str, tolerance: float, hessian: bool = True) -> None:
    """Give the processor's derivatives along a direction, and their gradients."""
    rng = np.random.default_rng(2)
    for gpu, cpu, (q, v, u) in points(kind, seeds=3):
        du = rng.normal(size=u.shape)
        along: Any = (rng.normal(size=q.shape), rng.normal(size=v.shape), du if u.size else None)
        for params in every_params(cpu):
            found: list[Any] = []
            bars = rng.normal(size=q.shape), rng.normal(size=v.shape)
            for sim in (gpu, cpu):
                roll = sim.rollout(q, v, np.repeat(u, 3, axis=1), params=params)
                given = (*along[:2], np.repeat(du, 3, axis=1) if u.size else None)
                try:
                    found.append([*roll.jvp(*given, dparams=params)])
                    if not hessian:
                        continue
                    product = roll.hessian_vector_product(*bars, direction=given, dparams=params)
                    found[-1] += [product.q, product.v, product.u]
                    found[-1] += list((product.params or {}).values())
                except fb.WorldError as error:
                    found.append(str(error))
            if isinstance(found[1], str):
                assert found[0] == found[1]
                continue
            same(*found, tolerance)
