"""Gymnasium's ant in MuJoCo itself: the file's own integrator, step and contacts, nothing of ours.

Observations, rewards and starts are those of Gymnasium's Ant-v5 without contact forces, so that a
policy of `featherback.envs` can be run there. Gymnasium itself is needed for the file only.
"""

from __future__ import annotations

from typing import Any

import mujoco
import numpy as np

from featherback._typing import Array, Bools
from featherback.envs.tasks.gymnasium_models import find_file

SKIP, LIMIT = 5, 1000  # steps of MuJoCo in one of the environment; steps of an episode
NOISE = 0.1  # of the first state
HEIGHTS = (0.2, 1.0)  # an episode ends outside [m]
CONTROL_COST, ALIVE = 0.5, 1.0


class StockAnt:
    """Several ants, stepped one after the other, as `featherback.learn.run_policy` needs them.

    Attributes:
        num_envs: number of ants.
        data: MuJoCo's data of each ant.
    """

    def __init__(self, worlds: int, integrator: str | None = None) -> None:
        """Load the file; integrator: another one than the file's, by MuJoCo's name."""
        self.model: Any = mujoco.MjModel.from_xml_path(str(find_file("ant.xml")))
        if integrator is not None:
            name = f"mjINT_{integrator.upper()}"
            self.model.opt.integrator = int(getattr(mujoco.mjtIntegrator, name))
        self.num_envs = worlds
        self.data: list[Any] = [mujoco.MjData(self.model) for _ in range(worlds)]
        self.age = np.zeros(worlds, np.int64)

    def reset(self, *, seed: int) -> tuple[Array, dict[str, Any]]:
        """Start all ants near the file's state; world i draws the numbers of seed + i."""
        for i, data in enumerate(self.data):
            rng = np.random.Generator(np.random.PCG64(np.random.SeedSequence(seed + i)))
            mujoco.mj_resetData(self.model, data)
            data.qpos += rng.uniform(low=-NOISE, high=NOISE, size=self.model.nq)
            data.qvel += NOISE * rng.standard_normal(self.model.nv)
            mujoco.mj_forward(self.model, data)
        self.age[:] = 0
        return self.observe(), {}

    def observe(self) -> Array:
        """Return q without x and y, and v, float64[worlds, 27]."""
        return np.stack([np.concatenate([data.qpos[2:], data.qvel]) for data in self.data])

    def step(self, actions: Any) -> tuple[Array, Array, Bools, Bools, dict[str, Any]]:
        """Step all ants; an episode that has ended goes on, since nobody counts it."""
        reward, ended = np.zeros(self.num_envs), np.zeros(self.num_envs, bool)
        time = SKIP * float(self.model.opt.timestep)
        for i, (data, action) in enumerate(zip(self.data, actions, strict=True)):
            before = float(data.xpos[1, 0])
            data.ctrl[:] = action
            mujoco.mj_step(self.model, data, SKIP)
            height = float(data.qpos[2])
            alive = bool(np.isfinite(data.qpos).all()) and HEIGHTS[0] <= height <= HEIGHTS[1]
            reward[i] = (float(data.xpos[1, 0]) - before) / time + ALIVE * alive
            reward[i] -= CONTROL_COST * float(np.sum(np.square(action)))
            ended[i] = not alive
        self.age += 1
        return self.observe(), reward, ended, self.age >= LIMIT, {}

    def close(self) -> None:
        """Do nothing."""
