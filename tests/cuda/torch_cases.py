"""What must hold for tensors of torch on the simulator's device, whichever that is."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

import featherback as fb
import featherback.torch as fbt
from featherback.sim.bridge import bridge_of
from tests.cuda.cases import SMALL, difference, laikago

# of what is summed over the worlds, in another order than NumPy's
SUMMED = 1e-11


def simulators(worlds: int, steps: int) -> tuple[Any, Any, list[Any]]:
    """Return simulators on the device and on the processor, and q, v, u for both."""
    model, q, v, u = laikago(worlds, steps)
    gpu, cpu = fb.Simulator(model, device="cuda", **SMALL), fb.Simulator(model, **SMALL)
    return gpu, cpu, [torch.tensor(a) for a in (q, v, u)]


def leaves(sim: fb.Simulator, tensors: list[Any]) -> list[Any]:
    """Return copies on the device of a simulator that ask for gradients."""
    place = bridge_of(sim).place
    return [x.detach().clone().to(place).requires_grad_() for x in tensors]


def masses(sim: fb.Simulator, worlds: int | None) -> Any:
    """Return masses for all worlds, or each its own."""
    mass = torch.tensor(sim.params["body_mass"])
    return mass if worlds is None else mass * (1 + 0.01 * torch.arange(worlds)[:, None])


def loss(x: Any, seed: int = 3) -> Any:
    """Return a random linear function of a tensor."""
    weights = torch.tensor(np.random.default_rng(seed).normal(size=tuple(x.shape)))
    return (weights.to(x.device, x.dtype) * x).sum()


def compare(found: list[Any], tolerance: float, summed: bool = False) -> None:
    """Compare tensors of the device with those of the processor, pair by pair."""
    for a, b in zip(*found, strict=True):
        assert a.shape == b.shape
        assert difference(a.detach().cpu().numpy(), b.detach().numpy()) <= (
            max(tolerance, SUMMED) if summed else tolerance
        )


def check_rollout(tolerance: float) -> None:
    """Give the processor's rollouts and gradients, of all kinds of controls and parameters."""
    gpu, cpu, given = simulators(5, 4)
    for worlds in (None, 5):
        for shared in (False, True):
            rolls, bars = [], []
            for sim in (gpu, cpu):
                q, v, u, mass = leaves(sim, [*given, masses(sim, worlds)])
                roll = fbt.rollout(sim, q, v, u[0] if shared else u, {"body_mass": mass})
                assert str(roll.q.device) == bridge_of(sim).place
                (loss(roll.q) + loss(roll.v, 4)).backward()
                rolls.append([roll.q, roll.v, roll.flags])
                bars.append([x.grad for x in (q, v, u, mass)])
            compare(rolls, tolerance)
            compare(bars, tolerance, summed=True)


def check_one_world(tolerance: float) -> None:
    """Roll out and step a world without a world axis."""
    gpu, cpu, given = simulators(1, 4)
    found = []
    for sim in (gpu, cpu):
        q, v, u = leaves(sim, [x[0] for x in given])
        roll, step = fbt.rollout(sim, q, v, u), fbt.step(sim, q, v, u[0])
        (loss(roll.q) + loss(step[1])).backward()
        found.append([roll.q, roll.v, *step, q.grad, v.grad, u.grad])
    compare(found, tolerance)


class Policy(torch.nn.Module):
    """A layer on q and v."""

    def __init__(self, nq: int, nv: int, nu: int) -> None:
        """Draw the same weights every time."""
        super().__init__()
        torch.manual_seed(0)
        self.inner = torch.nn.Linear(nq + nv, nu).double()

    def forward(self, q: Any, v: Any, t: int) -> Any:
        """Return controls near the pose."""
        return q[..., 7:] + 0.01 * self.inner(torch.cat([q, v], -1))


def check_closed_loop(tolerance: float) -> None:
    """Give the processor's closed loops and gradients, whatever the graph keeps."""
    gpu, cpu, given = simulators(3, 1)
    for memory in ("states", "checkpoint", "graph"):
        found = []
        for sim in (gpu, cpu):
            q, v, mass = leaves(sim, [*given[:2], masses(sim, None)])
            policy = Policy(sim.model.nq, sim.model.nv, sim.model.nu).to(bridge_of(sim).place)
            loop = fbt.closed_loop(sim, policy, q, v, 5, {"body_mass": mass}, memory=memory)
            (loss(loop.q) + loss(loop.u, 4)).backward()
            weights = [p.grad for p in policy.parameters()]
            found.append([loop.q, loop.u, loop.flags, q.grad, v.grad, mass.grad, *weights])
        compare(found, tolerance, summed=True)


def check_transformed(tolerance: float) -> None:
    """Give the processor's derivatives under torch.func, and second ones."""
    gpu, cpu, given = simulators(2, 2)
    found = []
    for sim in (gpu, cpu):
        q, v, u = (x.detach() for x in leaves(sim, given))

        def last(u: Any, sim: Any = sim, q: Any = q, v: Any = v) -> Any:
            return fbt.rollout(sim, q, v, u).q[:, -1]

        _, push = torch.func.jvp(last, (u,), (torch.ones_like(u),))
        each = torch.func.vmap(lambda a, b, c, sim=sim: fbt.step(sim, a, b, c)[0])(q, v, u[:, 0])
        bar = torch.func.grad(lambda u: loss(last(u)))
        _, curved = torch.func.jvp(bar, (u,), (torch.ones_like(u),))
        found.append([push, each, bar(u), curved])
    compare(found, tolerance)


def check_outputs(tolerance: float) -> None:
    """Give the processor's outputs and their gradients."""
    gpu, cpu, given = simulators(3, 1)
    found = []
    for sim in (gpu, cpu):
        q, v = leaves(sim, given[:2])
        y = fbt.center_of_mass(sim, q), fbt.bias(sim, q, v)
        (loss(y[0]) + loss(y[1], 4)).backward()
        found.append([*y, q.grad, v.grad])
    compare(found, tolerance)


def check_layer(tolerance: float) -> None:
    """Learn a parameter in a module on the device."""
    gpu, cpu, given = simulators(2, 3)
    found = []
    for sim in (gpu, cpu):
        layer = fbt.SimulatorLayer(sim, ["body_mass"])
        q, v, u = leaves(sim, given)
        loss(layer(q, v, u).v).backward()
        found.append([layer.body_mass.grad])
    compare(found, tolerance, summed=True)


def check_refusals() -> None:
    """Say what is wrong with states, parameters and gradients as the processor does."""
    gpu, cpu, given = simulators(2, 3)
    sentences: list[list[str]] = []
    for sim in (gpu, cpu):
        own: list[str] = []
        q, v, u = leaves(sim, given)
        nan = q.detach().clone()
        nan[1, 0] = torch.nan
        mass = masses(sim, 2).to(q.device)
        mass[1, 2] = -1.0
        huge = v.detach().clone()
        huge[1] = 1e200

        def through_bad_state(sim: Any = sim, q: Any = q, huge: Any = huge, u: Any = u) -> None:
            fbt.rollout(sim, q, huge, u).q[0].sum().backward()

        def through_bad_loss(sim: Any = sim, q: Any = q, v: Any = v, u: Any = u) -> None:
            (fbt.rollout(sim, q, v, u).q.sum() * torch.nan).backward()

        for call in (
            lambda sim=sim, nan=nan, v=v, u=u: fbt.rollout(sim, nan, v, u),
            lambda sim=sim, q=q, v=v, u=u, m=mass: fbt.rollout(sim, q, v, u, {"body_mass": m}),
            through_bad_state,
            through_bad_loss,
        ):
            try:
                call()
            except fb.FeatherbackError as error:
                own.append(str(error))
        bad = fbt.rollout(sim, q, huge, u)
        try:
            bad.raise_if_bad()
        except fb.WorldError as error:
            own.append(str(error))
        assert bad.status.tolist()[0] == 0 and bad.status.tolist()[1] != 0
        sentences.append(own)
    assert len(sentences[0]) == 5
    assert sentences[0] == sentences[1]
