"""Policies that swing an n-link pendulum up: gradients through whole episodes against others."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from featherback._optional import import_optional
from featherback.experiments.context import Context
from featherback.experiments.result import Claim, Result, Trace

if TYPE_CHECKING:
    from featherback.learn import Settings, Trained

SUMMARY = "policies that swing a pendulum of 1 to 7 links up, by exact gradients and without"
LINKS, QUICK_LINKS = (1, 3, 5, 7), (1,)
EPISODE, LAST = 100, 20  # steps of an episode, and those at its end that are counted
STARTS = 16  # episodes, each with another start
UNSEEN = 10_000  # seed of these
NEAR = 0.9
NOTES = (
    "The relative reward is 1 - 2 d^2 / d0^2 for the distance d of the tip from the highest point, "
    "d0 that of the level start: 1 at the top, -1 level, -3 hanging. It is the mean over the last "
    f"{LAST} of {EPISODE} steps and {STARTS} starts, of the policy after the last update.",
    "Differences from the original: damping of 0.1 N m s/rad, masses of 1 kg, four substeps, a "
    "reward in every step, starts with noise of 0.01. There the reward telescopes to the last "
    "frame, and the best evaluation counts.",
    "stored is the policy enhancement as published: the simulator's gradient at the stored action; "
    "it and sac make one update for each sample, and have fewer samples than the original.",
)


def learners(context: Context, links: int) -> dict[str, Settings]:
    """Return the settings of every learner for a number of links."""
    from featherback.learn import BPTT, PPO, SAC, Enhanced

    common: dict[str, Any] = {
        "env": "NLinkPendulum",
        "options": (f"links={links}",),
        "seed": context.seed,
    }
    small = context.quick
    off: dict[str, Any] = {
        **common,
        "steps": 600 if small else 2000 * links,
        "rollout": 20 if small else 100,
        "worlds": 10,
        "hidden": (128, 128),
        "batch": 128,
        "warmup": 500,
        "learning_rate": 1e-3,
        "gamma": 0.995,
    }
    enhanced: dict[str, Any] = {**off, "samples": 0, "policy_gradient": "stored"}
    return {
        "bptt": BPTT(**common, steps=32_000 if small else 480_000, evaluate_every=10),
        "ppo": PPO(**common, steps=10_240 if small else 480_000, hidden=(64, 64), evaluate_every=5),
        "sac": SAC(**off, evaluate_every=1),
        "stored": Enhanced(**enhanced, evaluate_every=1),
    }


def relative_reward(policy: Any, links: int) -> float:
    """Return the mean relative reward at the end of episodes from new starts."""
    from featherback import envs

    env = envs.make("NLinkPendulum", STARTS, links=links, autoreset_mode="same_step")
    observation, _ = env.reset(seed=UNSEEN)
    rewards: list[Any] = []
    for _ in range(EPISODE):
        observation, _, _, _, info = env.step(policy(observation))
        rewards.append(2.0 * info["reward_tip"] - 1.0)
    return float(np.mean(rewards[-LAST:]))


def curve(trained: Trained, method: str) -> Trace:
    """Return what evaluations lack of a mean reward of 1, against processor time."""
    rows = [row for row in trained.log if np.isfinite(row["evaluation"])]
    seconds = np.diff([0.0, *(row["cpu_seconds"] for row in rows)])
    steps = np.diff([0.0, *(row["steps"] for row in rows)])
    return Trace(
        method,
        [1.0 - row["evaluation"] / EPISODE for row in rows],
        [float(x) for x in seconds],
        [int(x) for x in steps],
    )


def run(context: Context) -> Result:
    """Train every learner for every number of links."""
    import_optional(f"run {context.name}", "torch", "torch")
    import_optional(f"run {context.name}", "gymnasium", "rl")
    from featherback.learn import train

    figures: dict[str, float | None] = {}
    least = 1.0
    for links in QUICK_LINKS if context.quick else LINKS:
        for name, settings in learners(context, links).items():
            folder = context.path(f"-{links}-{name}")
            again = context.resume and (folder / "checkpoint.pt").exists()
            trained = train(settings, out=folder, resume=again, show=context.show)
            reward = relative_reward(trained.policy, links)
            figures[f"{links} links, {name}: relative reward"] = reward
            figures[f"{links} links, {name}: processor time [s]"] = trained.cpu_seconds
            figures[f"{links} links, {name}: steps"] = trained.steps
            least = min(least, reward) if name == "bptt" else least
            which = {"bptt": "ours", "ppo": "baseline"}.get(name, name)
            # the traces are those of the longest pendulum
            context.traces[which] = curve(trained, f"{name}, {links} links")
    ours, baseline = context.traces["ours"], context.traces["baseline"]
    claim = Claim(
        f"gradients through whole episodes: relative reward of at least {NEAR} for every number of "
        "links, the least",
        least,
        None if context.quick else least >= NEAR,
    )
    others = {name: context.traces[name] for name in ("sac", "stored")}
    return Result(ours, baseline, figures, [claim], others=others, notes=list(NOTES))
