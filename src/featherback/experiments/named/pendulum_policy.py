"""Policies that swing an n-link pendulum up: exact gradients of episodes, and learners without."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import numpy as np

from featherback._optional import import_optional
from featherback._typing import Array
from featherback.errors import OptimizationError
from featherback.experiments.context import Context
from featherback.experiments.result import Claim, Result, Trace

if TYPE_CHECKING:
    from featherback.envs.tasks.pendulum import NLinkPendulum
    from featherback.learn import Settings, Trained

SUMMARY = "policies that swing a pendulum of 1 to 7 links up, by exact gradients and without"
HAS_FULL = True
LINKS, QUICK_LINKS = (1, 2, 3, 4, 5, 6, 7), (1,)
GUESSES = 3  # seeds of the first guesses of shooting; the worst counts
EPISODE, LAST = 100, 20  # steps of an episode, and those at its end that are counted
STARTS = 16  # episodes, each with another start
UNSEEN = 10_000  # seed of these
WIDE = 0.05  # a larger noise of the start [rad, rad/s]
NEAR = 0.9
SCENES = ("fair", "seed")
NOTES = (
    "The relative reward is 1 - 2 d^2 / d0^2 for the distance d of the tip from the highest point, "
    "d0 that of the level start: 1 at the top, -1 level, -3 hanging. Scene fair: the mean over the "
    f"last {LAST} of {EPISODE} steps and {STARTS} starts with noise, of the policy after the last "
    "update. Scene seed: that of the last step, from the one start there is; best is the best of "
    "all evaluations.",
    "Scene fair: damping of 0.1 N m s/rad, masses of 1 kg, four substeps, a reward in every step, "
    "starts with noise of 0.01. Scene seed, as in the code of Qiao et al. (2021): no damping, "
    "masses of 1 kg and then 2.16 kg, one step of 1/60 s, the time in the observation, and a "
    "reward that telescopes to the last step.",
    "stored is the policy enhancement as published: the simulator's gradient at the stored action. "
    "It, sac and mbpo make one update for each sample and have 500 samples and 500 more for each "
    "link; the original has 10 000 for each link and five updates, as --full has.",
    "shooting searches actions from the start without noise; feedback is a linear-quadratic "
    f"regulator along its path. Of {GUESSES} seeds of first guesses the worst counts.",
)


def scene_options(scene: str, links: int) -> dict[str, Any]:
    """Return the options of the task in a scene."""
    if scene == "fair":
        return {"links": links}
    return {
        "links": links,
        "masses": (1.0, *[2.16] * (links - 1)),
        "damping": 0.0,
        "frame_skip": 1,
        "substep": 1.0 / 60.0,
        "reset_noise_scale": 0.0,
        "ctrl_cost_weight": 0.0,
        "clock": True,
        "reward": "progress",
    }


def learners(context: Context, scene: str, links: int) -> dict[str, Settings]:
    """Return the settings of every learner for a number of links."""
    from featherback.learn import BPTT, MBPO, PPO, SAC, SHAC, Enhanced

    options = tuple(f"{name}={x}" for name, x in scene_options(scene, links).items())
    common: dict[str, Any] = {"env": "NLinkPendulum", "options": options, "seed": context.seed}
    small = context.quick
    many = 9600 if small else 960_000 if context.full else 128_000
    off: dict[str, Any] = {
        **common,
        "steps": 600 if small else 10_000 * links if context.full else 500 + 500 * links,
        "repeat": 5 if context.full else 1,
        "rollout": 20 if small else 50,
        "worlds": 10,
        "hidden": (128, 128),
        "batch": 128,
        "warmup": 500,
        "learning_rate": 1e-3,
        "gamma": 0.995,
    }
    if not small:
        off["evaluate_every"] = 2
    swing: dict[str, Any] = {**common, "steps": many, "evaluate_every": 1 if small else 10}
    return {
        "bptt": BPTT(**swing, log_std=-3.0),
        "shac": SHAC(**swing, worlds=32, horizon=25, hidden=(64, 64), learning_rate=1e-3),
        "ppo": PPO(**swing, hidden=(64, 64)),
        "sac": SAC(**off),
        "stored": Enhanced(**off, samples=0, policy_gradient="stored"),
        "mbpo": MBPO(**off),
    }


def run_policy(policy: Any, scene: str, links: int) -> Array:
    """Return the relative rewards of episodes from new starts, float64[steps, worlds]."""
    from featherback import envs
    from featherback.experiments.neural.swing import relative_reward

    options = scene_options(scene, links)
    env = envs.make("NLinkPendulum", STARTS, autoreset_mode="same_step", **options)
    observation, _ = env.reset(seed=UNSEEN)
    rewards: list[Array] = []
    for _ in range(EPISODE):
        observation, _, _, truncated, info = env.step(policy(observation))
        seen = info["final_obs"] if np.any(truncated) else observation
        rewards.append(relative_reward(seen, links))
    return np.array(rewards)


def counted(rewards: Array, scene: str) -> float:
    """Return what counts of relative rewards in a scene."""
    return float(np.mean(rewards[-LAST:] if scene == "fair" else rewards[-1]))


def curve(trained: Trained, method: str, scene: str) -> Trace:
    """Return what evaluations lack of the largest reward, against processor time."""
    rows = [row for row in trained.log if np.isfinite(row.get("evaluation", np.nan))]
    seconds = np.diff([0.0, *(row["cpu_seconds"] for row in rows)])
    steps = np.diff([0.0, *(row["steps"] for row in rows)])
    most = EPISODE if scene == "fair" else 1
    return Trace(
        method,
        [1.0 - row["evaluation"] / most for row in rows],
        [float(x) for x in seconds],
        [int(x) for x in steps],
    )


def shoot_all(context: Context, scene: str, links: int) -> dict[str, float | None]:
    """Return the figures of shooting, without and with feedback, the worst of several guesses."""
    from featherback import envs
    from featherback.envs.tasks.pendulum import NLinkPendulum
    from featherback.experiments.neural.swing import ITERATIONS, follow, shoot

    options = scene_options(scene, links)
    task: NLinkPendulum = NLinkPendulum(**options)
    found: dict[str, list[float]] = {"shooting": [], "feedback": [], "feedback, noise of 0.05": []}
    begun, steps = time.process_time(), 0
    for k in range(1 if context.quick else GUESSES):
        iterations = 20 if context.quick else ITERATIONS
        last = LAST if scene == "fair" else 1
        path = shoot(task, context.seed * GUESSES + k, iterations=iterations, last=last)
        steps += path.steps
        for name in found:
            given: dict[str, Any] = {**options}
            if "noise" in name:
                given["reset_noise_scale"] = WIDE
            env = envs.make("NLinkPendulum", STARTS, autoreset_mode="same_step", **given)
            rewards = follow(path, env, seed=UNSEEN, feedback=name != "shooting")
            found[name].append(counted(rewards, scene))
    where = f"{scene}, {links} links, "
    out: dict[str, float | None] = {
        f"{where}{name}: relative reward": min(x) for name, x in found.items()
    }
    out[f"{where}shooting: processor time [s]"] = time.process_time() - begun
    out[f"{where}shooting: steps"] = steps
    return out


def learn_all(context: Context, scene: str, links: int) -> dict[str, float | None]:
    """Train every learner, keep its trace, and return the figures."""
    from featherback.learn import train

    figures: dict[str, float | None] = {}
    for name, settings in learners(context, scene, links).items():
        folder = context.path(f"-{scene}-{links}-{name}")
        again = context.resume and (folder / "checkpoint.pt").exists()
        where = f"{scene}, {links} links, {name}: "
        try:
            trained = train(settings, out=folder, resume=again, show=context.show)
        except OptimizationError as error:
            # in the seed's scene a chain may leave the finite numbers, and its gradient with it
            context.notes.append(f"{where}stopped: {error}")
            figures[f"{where}relative reward"] = None
            continue
        context.save()
        trace = curve(trained, f"{name}, {links} links, {scene}", scene)
        reward = counted(run_policy(trained.policy, scene, links), scene)
        figures[f"{where}relative reward"] = reward
        if scene == "seed" and trace.loss:
            # the last policy need not be among those that were evaluated
            figures[f"{where}best"] = max(reward, 1.0 - min(trace.loss))
        figures[f"{where}processor time [s]"] = trained.cpu_seconds
        figures[f"{where}steps"] = trained.steps
        if scene == "fair" and trace.loss:
            # the traces are those of the longest pendulum
            context.traces[{"bptt": "ours", "ppo": "baseline"}.get(name, name)] = trace
    return figures


def run(context: Context) -> Result:
    """Run shooting and every learner for every number of links, in both scenes."""
    import_optional(f"run {context.name}", "torch", "torch")
    import_optional(f"run {context.name}", "gymnasium", "rl")
    figures: dict[str, float | None] = {}
    for scene in SCENES:
        for links in QUICK_LINKS if context.quick else LINKS:
            figures |= shoot_all(context, scene, links)
    for scene in SCENES:
        for links in QUICK_LINKS if context.quick else LINKS:
            figures |= learn_all(context, scene, links)
    traces = context.traces
    others = {name: x for name, x in traces.items() if name not in ("ours", "baseline")}
    return Result(
        traces["ours"],
        traces["baseline"],
        figures,
        claims(figures, context.quick),
        others=others,
        notes=list(NOTES),
    )


def claims(figures: dict[str, float | None], quick: bool) -> list[Claim]:
    """Return what should be shown."""
    rows = {
        "fair": ("feedback", "shooting with feedback: at the end, from starts with noise"),
        "seed": ("stored", "policy enhancement as published, in its own scene"),
    }
    out: list[Claim] = []
    for scene, (name, text) in rows.items():
        found = [
            x
            for key, x in figures.items()
            if key.startswith(scene) and key.endswith(f"links, {name}: relative reward")
        ]
        # a learner that stopped has shown nothing
        least = min((x for x in found if x is not None), default=None)
        holds = None not in found and least is not None and least >= NEAR
        claim = f"{text}: relative reward of at least {NEAR} for every number of links, the least"
        out.append(Claim(claim, least, None if quick else holds))
    return out
