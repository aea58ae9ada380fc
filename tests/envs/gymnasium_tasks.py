"""Gymnasium's own tasks, with their state set to one of ours."""

import sys
import types
from typing import Any

import gymnasium
import mujoco
import numpy as np

# options under which Gymnasium's tasks and ours have all terms, contact forces included
ALL_TERMS: dict[str, dict[str, Any]] = {
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


def make_theirs(name: str, **options: Any) -> Any:
    """Return Gymnasium's v5 environment without its wrappers."""
    # its renderer imports imageio, which writes pictures only
    sys.modules.setdefault("imageio", types.ModuleType("imageio"))
    env = gymnasium.make(f"{name}-v5", **options).unwrapped
    # the humanoid's file stops MuJoCo's solver long before it has the forces
    env.model.opt.solver = mujoco.mjtSolver.mjSOL_NEWTON
    env.model.opt.iterations, env.model.opt.tolerance = 200, 1e-15
    return env


def put(env: Any, q: np.ndarray, v: np.ndarray, u: np.ndarray) -> None:
    """Bring one of Gymnasium's environments into a state, all that follows from it computed."""
    env.data.ctrl[:] = u
    env.set_state(np.array(q), np.array(v))
    mujoco.mj_rnePostConstraint(env.model, env.data)


def judge(env: Any, before: Any, after: Any, u: np.ndarray) -> tuple[np.ndarray, float, bool]:
    """Return observation, reward and termination of a step from one state to another."""
    put(env, *before)
    env.do_simulation = lambda ctrl, frames: put(env, *after)
    observation, reward, terminated, _, _ = env.step(u)
    return observation, float(reward), bool(terminated)
