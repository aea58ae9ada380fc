"""SAC or MBPO with the two enhancements of Qiao et al. (ICML 2021), by gradients of the simulator.

Sample enhancement: every step of the environment gives further samples nearby, whose successors
follow from the Jacobian of the step to first order; reward, observation and the end of the episode
are those of the task in these successors. Beside it, for comparison, the same actions can be
simulated, which costs more and has no error. Policy enhancement: the policy follows the gradient of
the reward and of the value of the successor through the simulator, in place of the critics' own.
Together: the gradient at a first-order sample is that of the step it came from and the product of
that step's Hessian with the change of the action (docs/learning.md).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.autograd import forward_ad

import featherback.torch as fbt
from featherback._typing import Real
from featherback.envs.state import NUMPY, State
from featherback.envs.task import total
from featherback.errors import ParameterError, WorldError
from featherback.learn.gradient_runner import make_gradient_env
from featherback.learn.mbpo import Dream
from featherback.learn.replay import Replay
from featherback.learn.sac import Batch, Learner
from featherback.learn.session import Session, Trained
from featherback.learn.settings import Enhanced
from featherback.model import Model
from featherback.sim import Status

LIBRARY, TORCH = (np, NUMPY), (torch, fbt)
# controls[worlds, nu] -> q and v after a step under them, or None where there is none
Ahead = Callable[[Real], "tuple[Real, Real] | None"]


def moved(model: Model, q: Real, change: Real) -> Real:
    """Return configurations moved along tangents, real[n, nv]; rotations turn in body axes."""
    out = q.copy()
    kinds, starts, dofs = (
        np.asarray(getattr(model.mujoco, name))
        for name in ("jnt_type", "jnt_qposadr", "jnt_dofadr")
    )
    for kind, at, dof in zip(kinds, starts, dofs, strict=True):
        if kind == 0:
            out[:, at : at + 3] += change[:, dof : dof + 3]
            at, dof = at + 3, dof + 3
        if kind in (0, 1):
            out[:, at : at + 4] = turned(q[:, at : at + 4], change[:, dof : dof + 3])
        else:
            out[:, at] += change[:, dof]
    return out


def turned(quat: Real, angle: Real) -> Real:
    """Return unit quaternions (w, x, y, z) after turns by rotation vectors in their own axes."""
    half = 0.5 * np.linalg.norm(angle, axis=-1, keepdims=True)
    # sinc of NumPy has a factor of pi
    vector = 0.5 * np.sinc(half / np.pi) * angle
    w, u = quat[:, :1], quat[:, 1:]
    scalar = w * np.cos(half) - (u * vector).sum(-1, keepdims=True)
    rest = w * vector + np.cos(half) * u + np.cross(u, vector)
    out = np.concatenate([scalar, rest], -1)
    return out / np.linalg.norm(out, axis=-1, keepdims=True)


def carried(model: Model, q: Tensor, dq: Tensor) -> Tensor:
    """Return configurations moved along ambient tangents, real[n, nq], as `moved` moves them."""
    out = q + dq
    kinds, starts = (np.asarray(getattr(model.mujoco, x)) for x in ("jnt_type", "jnt_qposadr"))
    for kind, at in zip(kinds, starts, strict=True):
        if kind in (0, 1):
            own = slice(at + 3, at + 7) if kind == 0 else slice(at, at + 4)
            # a turn is an arc of the unit sphere, as long as the tangent of the quaternion
            arc = dq[:, own].norm(dim=-1, keepdim=True)
            out[:, own] = arc.cos() * q[:, own] + torch.sinc(arc / np.pi) * dq[:, own]
    return out


class Nearby:
    """Samples near those of the environment, to first order or simulated."""

    def __init__(self, settings: Enhanced, learner: Learner) -> None:
        """Take the environment of the learner."""
        self.settings, self.learner = settings, learner
        env: Any = learner.runner.env.unwrapped
        self.task, self.sim, self.worlds = env.task, env.sim, env.worlds
        self.memory = Replay(settings.model_capacity, learner.widths)
        self.first = settings.nearby == "first-order"
        self.left_out = 0

    def state_dict(self) -> dict[str, Any]:
        """Return what a checkpoint keeps."""
        return {"memory": self.memory.state_dict(), "left_out": self.left_out}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Take over what a checkpoint kept."""
        self.memory.load_state_dict(state["memory"])
        self.left_out = state["left_out"]

    def before_step(self, columns: Batch) -> Batch:
        """Make samples near the step that the worlds are about to take."""
        own = self.learner.policy.scale(columns["action"]).numpy()
        state = self.worlds.state()
        state.action = own
        after = self.first_order(state) if self.first else self.exactly(state)
        for _ in range(self.settings.samples):
            shape = columns["action"].shape
            drawn = 2.0 * torch.rand(shape, generator=self.learner.session.generator) - 1.0
            near = (columns["action"] + self.settings.radius * drawn).clamp(-1.0, 1.0)
            rows = self.sample(state, after, self.learner.policy.scale(near).numpy())
            if rows is None:
                # a step that is not finite, or without a gradient, has no samples nearby
                self.left_out += len(own)
                continue
            self.memory.add(**{**columns, "action": near, **rows})
        return columns

    def first_order(self, state: State) -> Ahead:
        """Return a function from controls to the states after the step, by its Jacobian."""
        try:
            q, v, slope = self.jacobian(state)
        except WorldError:
            return lambda u: None
        nv = v.shape[1]
        held = self.task.control(state, state.action)

        def ahead(u: Real) -> tuple[Real, Real]:
            change = np.einsum("wij,wj->wi", slope, u - held)
            return moved(self.sim.model, q, change[:, :nv]), v + change[:, nv:]

        return ahead

    def exactly(self, state: State) -> Ahead:
        """Return a function from controls to the states after the step, by simulating it."""

        def ahead(u: Real) -> tuple[Real, Real] | None:
            held = np.repeat(np.asarray(u, self.sim.dtype)[:, None], self.task.frame_skip, axis=1)
            roll = self.sim.rollout(state.q, state.v, held)
            if np.any(roll.status & np.uint32(Status.NONFINITE)):
                return None
            return roll.q[:, -1], roll.v[:, -1]

        return ahead

    def jacobian(self, state: State) -> tuple[Real, Real, Real]:
        """Return the states after the step, and their Jacobian in the control that it holds."""
        sim, skip = self.sim, self.task.frame_skip
        u = np.asarray(self.task.control(state, state.action), sim.dtype)
        roll = sim.rollout(state.q, state.v, np.repeat(u[:, None], skip, axis=1))
        n, nv = len(u), sim.model.nv
        flat = (roll.q[:, :-1].reshape(n * skip, -1), roll.v[:, :-1].reshape(n * skip, -1))
        a, b = sim.linearize(*flat, np.repeat(u, skip, axis=0))
        a, b = a.reshape(n, skip, 2 * nv, 2 * nv), b.reshape(n, skip, 2 * nv, -1)
        slope = b[:, 0]
        for k in range(1, skip):
            slope = a[:, k] @ slope + b[:, k]
        return roll.q[:, -1], roll.v[:, -1], slope

    def sample(self, state: State, ahead: Ahead, action: Real) -> dict[str, Any] | None:
        """Return reward, successor and end for other actions; None where there is none."""
        task = self.task
        u = task.control(state, action)
        found = ahead(u)
        if found is None:
            return None
        after = State(self.sim, LIBRARY, state.params)
        after.q, after.v = found
        after.act, after.u, after.action = state.act, u, action
        after.time = state.time + task.step_time(self.sim)
        ended = task.terminated(after)
        ended = np.zeros(len(u), bool) if ended is None else np.asarray(ended)
        rows = {"reward": total(task.rewards(state, after)), "after": task.observe(after)}
        rows["terminated"] = ended
        return {name: torch.from_numpy(np.asarray(x, np.float32)) for name, x in rows.items()}

    def draw(self, batch: int, real: Replay) -> Batch:
        """Return a batch of both kinds of samples."""
        generator = self.learner.session.generator
        near = round(self.settings.sample_share * batch) if len(self.memory) else 0
        parts = [real.draw(batch - near, generator)]
        if near:
            parts.append(self.memory.draw(near, generator))
        return {name: torch.cat([part[name] for part in parts]) for name in self.memory.columns}


class ThroughSimulator:
    """What an action is worth by a step of the simulator and the value behind it."""

    def __init__(self, settings: Enhanced, learner: Learner) -> None:
        """Make the worlds in which samples are stepped again, as many as a batch has."""
        self.settings, self.learner = settings, learner
        self.env = make_gradient_env(settings, settings.batch)
        self.env.reset(0)
        self.first = settings.samples > 0 and settings.nearby == "first-order"

    @staticmethod
    def widths(env: Any) -> dict[str, int]:
        """Return the columns that samples need: state, and the action that its world took."""
        model = env.sim.model
        return {"q": model.nq, "v": model.nv, "age": 0, "taken": env.single_action_space.shape[0]}

    def columns(self, columns: Batch) -> Batch:
        """Add the states of the worlds, and their actions, to what is kept of a step."""
        worlds: Any = self.learner.runner.env.unwrapped.worlds
        arrays = {"q": worlds.q, "v": worlds.v, "age": worlds.age}
        found = {k: torch.tensor(np.array(x)) for k, x in arrays.items()}
        return {**columns, **found, "taken": columns["action"]}

    def place(self, batch: Batch) -> None:
        """Put the worlds into the states of samples."""
        env = self.env
        env.q, env.v = batch["q"].to(env.real), batch["v"].to(env.real)
        env.age = batch["age"].to(torch.int64)

    def ahead(self, batch: Batch, action: Tensor) -> Tensor:
        """Return reward and discounted value of the successor; its gradient is the simulator's."""
        self.place(batch)
        _, reward, terminated, _, info = self.env.step(self.learner.policy.scale(action))
        return reward.float() + self.value(info["final_obs"].float(), terminated)

    def value(self, after: Tensor, terminated: Tensor) -> Tensor:
        """Return the discounted value of successors as a plane about them."""
        leaf = after.detach().requires_grad_()
        with torch.enable_grad():
            value = self.learner.soft_value(leaf) * ~terminated
            slope = torch.autograd.grad(value.sum(), leaf)[0]
        # its gradient is in the successor alone, not in the policy behind it
        plane = value.detach() + ((after - leaf.detach()) * slope).sum(-1)
        return self.settings.gamma * plane

    def near(self, batch: Batch, action: Tensor) -> Tensor:
        """Return what `ahead` does, by first-order samples near the actions that worlds took.

        The gradient is for actions that move together, the sample's and that of its world: the
        simulator's first derivative there, and its second along the way between them.
        """
        self.place(batch)
        env, scale = self.env, self.learner.policy.scale
        before = env.state()
        own = scale(action).to(env.real)
        u = env.task.control(before, own)
        away = (u - env.task.control(before, scale(batch["taken"]).to(env.real))).detach()
        q, v, lost = self.first_order(before, u - away, away)
        after = State(env.sim, TORCH, before.params)
        after.q, after.v, after.act, after.u, after.action = q, v, before.act, u, own
        after.time = before.time + env.task.step_time(env.sim)
        reward = torch.where(lost, 0.0, total(env.task.rewards(before, after)))
        ended = lost | (batch["terminated"] != 0.0)
        return reward.float() + self.value(env.task.observe(after).float(), ended)

    def first_order(self, before: State, u: Tensor, away: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return q and v after a step, moved to first order, and whose step is not finite."""
        env = self.env
        sim, skip = env.sim, env.task.frame_skip
        with torch.no_grad():
            held = u[:, None].expand(-1, skip, -1)
            roll = fbt.rollout(sim, before.q, before.v, held, before.params)
        lost = (roll.status & int(Status.NONFINITE)) != 0
        # such worlds rest, and have no gradient
        rest = torch.tensor(np.asarray(sim.model.q0, sim.dtype))
        q = torch.where(lost[:, None], rest, before.q)
        v, u = (torch.where(lost[:, None], 0.0, x) for x in (before.v, u))
        with forward_ad.dual_level():
            held = forward_ad.make_dual(u, away)[:, None].expand(-1, skip, -1)
            roll = fbt.rollout(sim, q, v, held, before.params)
            ends: Any = [forward_ad.unpack_dual(x[:, -1]) for x in (roll.q, roll.v)]
        (q, dq), (v, dv) = ends
        return carried(sim.model, q, dq), v + dv, lost

    def worth(self, batch: Batch, action: Tensor) -> Tensor:
        """Return what the policy maximizes."""
        if self.settings.policy_gradient == "resimulated":
            return self.ahead(batch, action)
        stored = batch["action"].detach().requires_grad_()
        found = self.near(batch, stored) if self.first else self.ahead(batch, stored)
        slope = torch.autograd.grad(found.sum(), stored)[0]
        return (slope * action).sum(-1)


def check(settings: Enhanced, env: Any) -> None:
    """Raise ParameterError where an environment cannot be enhanced as the settings say."""
    if not all(hasattr(env, name) for name in ("task", "sim", "worlds")):
        raise ParameterError(
            f"learn enhanced: the environment {settings.env} has no gradients; name one of "
            "featherback.envs, or take a learner that needs none, such as sac."
        )
    if env.sim.model.na:
        raise ParameterError(
            f"learn enhanced: the actuators of {settings.env} have activations, which first-order "
            "samples do not cover; take a learner that needs no gradients, such as sac."
        )


def train(settings: Enhanced, session: Session) -> Trained:
    """Train a policy."""
    env: Any = session.vector_env(1).unwrapped
    check(settings, env)
    through = settings.policy_gradient != "none"
    learner = Learner(settings, session, ThroughSimulator.widths(env) if through else {})
    row: dict[str, Any] = {}
    simulator = ThroughSimulator(settings, learner) if through else None
    near = Nearby(settings, learner) if settings.samples else None
    if simulator is not None:
        learner.observe, learner.worth = simulator.columns, simulator.worth
    if near is not None:
        told = learner.observe
        learner.observe = lambda columns: near.before_step(told(columns))
        learner.draw_batch = lambda: near.draw(settings.batch, learner.replay)
        session.parts["near"] = near
        row["left_out"] = lambda: float(near.left_out)
    if settings.base == "mbpo":
        dream = Dream(settings, learner)
        if near is not None:
            dream.source = lambda: near.draw(len(learner.replay), learner.replay)
        if through:
            # samples of the dynamics have no state of the simulator
            stated = learner.draw_batch
            learner.policy_batch = lambda batch: stated()
        learner.draw_batch, learner.after_step = dream.draw, dream.after_step
        session.parts["dream"] = dream
        row["model_error"] = lambda: dream.miss
    return session.run(
        lambda: {**learner.iterate(), **{name: get() for name, get in row.items()}},
        learner.per_iteration,
    )
