"""Our PPO and SAC against those of stable-baselines3: same tasks, samples and settings.

    python bench/learners.py --save            train all, write bench/learners.json
    python bench/learners.py --save --seeds 1  one seed only; seeds and tasks that the file has stay
    python bench/learners.py --docs            put the table of that file into docs/learning.md

Both train in the same vector environment of featherback.envs, both policies are run without noise
in 16 episodes with the same starts. Observations are normalised in PPO, as are rewards by the
running deviation of the return; nothing is in SAC. Needs `pip install stable-baselines3`.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np
from mujoco_law_text import table
from seeds import EPISODES, Program, mean_return, middle, values

import featherback.envs as envs
import featherback.learn as learn

# learner and task: steps of the environment
ROWS = {
    "ppo InvertedDoublePendulum": 100_000,
    "ppo HalfCheetah": 200_000,
    "ppo Hopper": 200_000,
    "sac InvertedDoublePendulum": 4000,
    "sac HalfCheetah": 20_000,
}


def ours(learner: str, task: str, steps: int, seed: int) -> tuple[Any, float]:
    """Return our policy and the processor time of its training [s]."""
    common: dict[str, Any] = {"env": task, "steps": steps, "seed": seed}
    settings: Any = learn.PPO(**common) if learner == "ppo" else learn.SAC(**common)
    trained = learn.train(settings, show=False)
    return trained.policy, trained.cpu_seconds


def theirs(learner: str, task: str, steps: int, seed: int) -> tuple[Any, float]:
    """Return the policy of stable-baselines3 and the processor time of its training [s]."""
    import stable_baselines3 as sb3
    import torch
    from stable_baselines3.common.vec_env import VecNormalize

    import featherback.envs.sb3 as envs_sb3

    torch.set_num_threads(1)
    settings: Any = learn.PPO() if learner == "ppo" else learn.SAC()
    worlds = envs_sb3.make(task, settings.worlds, dtype="float32")
    shape: dict[str, Any] = {"net_arch": list(settings.hidden)}
    begun = time.process_time()
    if learner == "sac":
        model: Any = sb3.SAC(
            "MlpPolicy",
            worlds,
            batch_size=settings.batch,
            learning_starts=settings.warmup,
            buffer_size=settings.capacity,
            gradient_steps=settings.worlds,
            learning_rate=settings.learning_rate,
            gamma=settings.gamma,
            tau=1.0 - settings.target_share,
            ent_coef=f"auto_{settings.temperature}",
            policy_kwargs=shape,
            seed=seed,
            device="cpu",
        )
        model.learn(steps)
        return _act(model, worlds, lambda x: x), time.process_time() - begun
    normal = VecNormalize(worlds, gamma=settings.gamma)
    model = sb3.PPO(
        "MlpPolicy",
        normal,
        n_steps=settings.rollout,
        batch_size=settings.batch,
        n_epochs=settings.epochs,
        learning_rate=lambda left: settings.learning_rate * left,
        policy_kwargs={**shape, "log_std_init": settings.log_std},
        seed=seed,
        device="cpu",
    )
    model.learn(steps)
    return _act(model, worlds, normal.normalize_obs), time.process_time() - begun


def _act(model: Any, worlds: Any, seen: Any) -> Any:
    """Return a function from observations to actions without noise, in the units of the task."""
    low, high = worlds.env.worlds.low, worlds.env.worlds.high

    def act(observation: Any) -> Any:
        action, _ = model.predict(seen(np.asarray(observation, np.float32)), deterministic=True)
        return 0.5 * (high + low) + 0.5 * (high - low) * action

    return act


def measure(row: str, seed: int) -> dict[str, float]:
    """Return the mean returns of both policies and their processor times."""
    learner, task = row.split()
    found: dict[str, float] = {}
    for name, make in (("ours", ours), ("sb3", theirs)):
        policy, seconds = make(learner, task, ROWS[row], seed)
        env = envs.make(task, EPISODES, autoreset_mode="same_step")
        found[name] = mean_return(policy, env)
        found[f"{name}_seconds"] = seconds
    return found


def text(result: dict[str, Any]) -> str:
    """Return the table."""
    lines: list[list[Any]] = []
    for row, seeds in result["rows"].items():
        learner, task = row.split()
        cells = [learner.upper(), task, str(ROWS[row]), str(len(seeds))]
        for name in ("ours", "sb3"):
            found = values(seeds, name)
            cells.append(f"{np.median(found):.0f} ({min(found):.0f} to {max(found):.0f})")
        cells += [middle(seeds, f"{name}_seconds") for name in ("ours", "sb3")]
        lines.append(cells)
    head = "| learner | task | steps | seeds | ours | stable-baselines3 | ours [s] | theirs [s] |"
    facts = result["facts"]
    origin = (
        f"Returns without noise, median (minimum to maximum) of the seeds; processor time. "
        f"stable-baselines3 {result['sb3']}, {facts['processor']}."
    )
    return "\n".join([*table(head, lines), origin, ""])


def version() -> dict[str, str]:
    """Return the version of what we compare with."""
    import stable_baselines3

    return {"sb3": stable_baselines3.__version__}


if __name__ == "__main__":
    Program(__file__, str(__doc__), tuple(ROWS), measure, text, version).main()
