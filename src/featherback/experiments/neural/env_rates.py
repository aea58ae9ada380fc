"""Steps of environments for one second of one core: ours, EnvPool, Gymnasium, MuJoCo's rollout.

Every step includes observation, reward, termination and autoreset, with random actions; only
mujoco.rollout has none of these, and moves the same states. All run in one process with one thread,
in turn, and the figures are steps for one second of processor time, medians over the rounds. Ours
and EnvPool's tasks have the observations of Gymnasium's v5, contact forces included; "float32" and
"Euler" are ours with that number type and that integrator, "lean" without contact forces, "hard"
with contact="hard" in place of MuJoCo's law.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
import time
import types
from collections.abc import Callable
from typing import Any

import mujoco
import numpy as np

import featherback.envs as envs

WORLDS = 1024
# what a measurement takes at least [s], and how many environments of Gymnasium's stand for all
SHARE, SYNC = 0.25, 8
FORCES: dict[str, dict[str, Any]] = {
    "Ant": {"include_cfrc_ext_in_observation": True, "contact_cost_weight": 5e-4},
    "HalfCheetah": {},
    "Hopper": {},
    "Walker2d": {},
    "Humanoid": {"include_cfrc_ext_in_observation": True, "contact_cost_weight": 5e-7},
    "HumanoidStandup": {"include_cfrc_ext_in_observation": True, "impact_cost_weight": 5e-7},
    "InvertedPendulum": {},
    "InvertedDoublePendulum": {},
    "Reacher": {},
}
OWN = ("NLinkPendulum", "CartPole", "LaikagoTrot")
# tasks that observe constraint forces, which only MuJoCo's law has
SOFT_ONLY = ("InvertedDoublePendulum",)
Job = Callable[[], int]


def cycle(step: Callable[[Any], Any], low: Any, high: Any, worlds: int) -> Job:
    """Return a job that takes one step under random actions, and tells how many it took."""
    rng = np.random.default_rng(0)
    actions = [rng.uniform(low, high, (worlds, len(low))).astype(np.float32) for _ in range(8)]
    count = 0

    def job() -> int:
        nonlocal count
        step(actions[count % len(actions)])
        count += 1
        return worlds

    return job


def ours(name: str, worlds: int, **options: Any) -> Job:
    """Return a step of ours."""
    env = envs.make(name, worlds, autoreset_mode="same_step", **options)
    env.reset(seed=0)
    return cycle(env.step, env.worlds.low, env.worlds.high, worlds)


def envpool(name: str, worlds: int) -> Job:
    """Return a step of EnvPool's."""
    pool: Any = importlib.import_module("envpool")
    env: Any = pool.make(f"{name}-v5", env_type="gymnasium", num_envs=worlds, num_threads=1, seed=0)
    env.reset()
    low, high = env.action_space.low, env.action_space.high

    def step(action: Any) -> None:
        env.step(action.astype(np.float64))

    return cycle(step, low, high, worlds)


def gymnasium_sync(name: str) -> Job:
    """Return a step of Gymnasium's own vector environment."""
    import gymnasium

    # its renderer imports imageio, which writes pictures only
    sys.modules.setdefault("imageio", types.ModuleType("imageio"))
    env = gymnasium.make_vec(f"{name}-v5", SYNC, vectorization_mode="sync")
    env.reset(seed=0)
    space: Any = env.single_action_space
    return cycle(env.step, space.low, space.high, SYNC)


def mujoco_rollout(name: str, worlds: int, integrator: int | None) -> Job:
    """Return MuJoCo's own steps of the same states, without observations and rewards."""
    from mujoco import rollout

    task: Any = envs.TASKS[name]()
    model = mujoco.MjModel.from_xml_path(task.model().parsed.filename)
    if integrator is not None:
        model.opt.integrator = integrator
    data = mujoco.MjData(model)
    kind = mujoco.mjtState.mjSTATE_FULLPHYSICS
    rng = np.random.default_rng(0)

    def fresh() -> Any:
        state = np.zeros((worlds, mujoco.mj_stateSize(model, kind)))
        starts = [task.start(task.model(), rng) for _ in range(worlds)]
        state[:, 1 : 1 + model.nq] = [q for q, _ in starts]
        state[:, 1 + model.nq : 1 + model.nq + model.nv] = [v for _, v in starts]
        return state

    first = fresh()
    now = {"state": first, "steps": 0}

    def step(action: Any) -> None:
        held = np.repeat(np.asarray(action, np.float64)[:, None], task.frame_skip, 1)
        out, _ = rollout.rollout(model, data, now["state"], held)
        now["steps"] += 1
        # episodes of fifty steps
        now["state"] = first if now["steps"] % 50 == 0 else out[:, -1].copy()

    low, high = task.bounds(task.model())
    return cycle(step, low, high, worlds)


def jobs_of(name: str, worlds: int) -> dict[str, Job]:
    """Return all that is measured on a task."""
    if name in OWN:
        return {"ours": ours(name, worlds), "float32": ours(name, worlds, dtype="float32")}
    forces = FORCES[name]
    euler = int(mujoco.mjtIntegrator.mjINT_EULER)
    jobs = {
        "ours": ours(name, worlds, **forces),
        "float32": ours(name, worlds, dtype="float32", **forces),
        "euler": ours(name, worlds, integrator="euler", **forces),
        "gymnasium": gymnasium_sync(name),
        "rollout": mujoco_rollout(name, worlds, None),
        "rollout_euler": mujoco_rollout(name, worlds, euler),
    }
    if name not in SOFT_ONLY:
        jobs["hard"] = ours(name, worlds, contact="hard", **forces)
        jobs["hard_float32"] = ours(name, worlds, contact="hard", dtype="float32", **forces)
    if forces:
        jobs["lean"] = ours(name, worlds)
    if importlib.util.find_spec("envpool") is not None:
        jobs["envpool"] = envpool(name, worlds)
    return jobs


def measure(jobs: dict[str, Job], rounds: int) -> dict[str, float]:
    """Return steps for one second of processor time, of each job, in turn."""
    rates: dict[str, list[float]] = {name: [] for name in jobs}
    for job in jobs.values():
        job()
    for _ in range(rounds):
        for name, job in jobs.items():
            steps, start = 0, time.process_time()
            while time.process_time() - start < SHARE:
                steps += job()
            rates[name].append(steps / (time.process_time() - start))
    return {name: float(np.median(found)) for name, found in rates.items()}
