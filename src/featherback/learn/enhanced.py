"""SAC or MBPO with the two enhancements of Qiao et al. (ICML 2021), by gradients of the simulator.

Sample enhancement: every step of the environment gives further samples nearby, whose successors
follow from the Jacobian of the step to first order; reward, observation and the end of the episode
are those of the task in these successors. Beside it, for comparison, the same actions can be
simulated, which costs more and has no error. Policy enhancement: the policy follows the gradient of
the reward and of the value of the successor through the simulator, in place of the critics' own.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

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

LIBRARY = (np, NUMPY)
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


class Nearby:
    """Samples near those of the environment, to first order or simulated."""

    def __init__(self, settings: Enhanced, learner: Learner) -> None:
        """Take the environment of the learner."""
        self.settings, self.learner = settings, learner
        env: Any = learner.runner.env.unwrapped
        self.task, self.sim, self.worlds = env.task, env.sim, env.worlds
        runner = learner.runner
        widths = {"observation": runner.observations, "action": runner.actions, "reward": 0}
        widths |= {"after": runner.observations, "terminated": 0}
        self.memory = Replay(settings.model_capacity, widths)
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
            self.memory.add(observation=columns["observation"], action=near, **rows)
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

    def columns(self, columns: Batch) -> Batch:
        """Add the states of the worlds to what is kept of a step."""
        worlds: Any = self.learner.runner.env.unwrapped.worlds
        arrays = {"q": worlds.q, "v": worlds.v, "age": worlds.age}
        return {**columns, **{k: torch.tensor(np.array(x)) for k, x in arrays.items()}}

    def ahead(self, batch: Batch, action: Tensor) -> Tensor:
        """Return reward and discounted value of the successor; its gradient is the simulator's."""
        env = self.env
        env.q, env.v = batch["q"].to(env.real), batch["v"].to(env.real)
        env.age = batch["age"].to(torch.int64)
        _, reward, terminated, _, info = env.step(self.learner.policy.scale(action))
        after, reward = info["final_obs"].float(), reward.float()
        leaf = after.detach().requires_grad_()
        with torch.enable_grad():
            value = self.learner.soft_value(leaf) * ~terminated
            slope = torch.autograd.grad(value.sum(), leaf)[0]
        # the value as a plane: its gradient is in the successor alone, not in the policy behind it
        plane = value.detach() + ((after - leaf.detach()) * slope).sum(-1)
        return reward + self.settings.gamma * plane

    def worth(self, batch: Batch, action: Tensor) -> Tensor:
        """Return what the policy maximizes."""
        if self.settings.policy_gradient == "resimulated":
            return self.ahead(batch, action)
        stored = batch["action"].detach().requires_grad_()
        slope = torch.autograd.grad(self.ahead(batch, stored).sum(), stored)[0]
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
    if settings.policy_gradient != "none" and (settings.samples or settings.base == "mbpo"):
        raise ParameterError(
            f"learn enhanced: policy_gradient is {settings.policy_gradient!r} with samples = "
            f"{settings.samples} and base = {settings.base!r}; it needs states of the simulator in "
            "every sample: set samples to 0 and base to sac."
        )


def train(settings: Enhanced, session: Session) -> Trained:
    """Train a policy."""
    env = session.vector_env(1).unwrapped
    check(settings, env)
    through = settings.policy_gradient != "none"
    widths = {"q": env.sim.model.nq, "v": env.sim.model.nv, "age": 0} if through else {}
    learner = Learner(settings, session, widths)
    row: dict[str, Any] = {}
    if through:
        simulator = ThroughSimulator(settings, learner)
        learner.observe, learner.worth = simulator.columns, simulator.worth
    near = Nearby(settings, learner) if settings.samples else None
    if near is not None:
        learner.observe = near.before_step
        learner.draw_batch = lambda: near.draw(settings.batch, learner.replay)
        session.parts["near"] = near
        row["left_out"] = lambda: float(near.left_out)
    if settings.base == "mbpo":
        dream = Dream(settings, learner)
        if near is not None:
            dream.source = lambda: near.draw(len(learner.replay), learner.replay)
        learner.draw_batch, learner.after_step = dream.draw, dream.after_step
        session.parts["dream"] = dream
        row["model_error"] = lambda: dream.miss
    return session.run(
        lambda: {**learner.iterate(), **{name: get() for name, get in row.items()}},
        learner.per_iteration,
    )
