"""Five robots by SHAC, PPO and SAC with the same processor time, and gradients by horizon."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from featherback._optional import import_optional
from featherback.experiments.context import Context
from featherback.experiments.learning import curve, last_mean, train_row
from featherback.experiments.result import Claim, Result

if TYPE_CHECKING:
    from featherback.learn import Settings

SUMMARY = "five robots by SHAC, PPO and SAC with the same processor time; gradients by horizon"
HAS_FULL = True
TASKS, QUICK_TASKS = ("Ant", "HalfCheetah", "Hopper", "Humanoid", "LaikagoTrot"), ("Hopper",)
ROWS = ("shac, compliant", "shac, hard", "ppo, hard", "sac, hard")
SECONDS = (15.0, 0.5, 600.0)  # processor time of a row: default, quick, full
SINK = 0.009  # by which the compliant contacts yield under the robot's weight [m]
HORIZONS, QUICK_HORIZONS = (2, 4, 8, 16, 32), (2, 4)
BATCHES, WORLDS = 4, 64  # of the gradients by horizon
NOTES = (
    "Every learner has the same processor time for a task; its steps follow from a short "
    "measurement before. Returns without noise, 8 episodes; end is the mean of the last quarter of "
    'the evaluations. All under contact="hard"; the compliant contacts yield by 9 mm under the '
    "robot's weight.",
    "A gradient norm is that of the mean reward over a horizon in the weights of an untrained "
    f"policy, no value behind it: the median of {BATCHES} batches of {WORLDS} worlds that have "
    "walked for as many steps before.",
)


def compliance(task: str) -> str:
    """Return the option that makes the contacts of a task yield."""
    from featherback import envs

    sim = envs.make(task, 1, contact="hard").sim
    weight = 9.81 * float(np.sum(sim.params["body_mass"]))
    # the compliances of the two shapes of a contact add up
    each = 0.5 * SINK / weight
    return f"params={{'contact_compliance': {[each] * len(sim.params['contact_compliance'])}}}"


def settings_of(row: str, task: str, seed: int, steps: int) -> Settings:
    """Return the settings of a learner for a task."""
    from featherback.learn import PPO, SAC, SHAC

    learner, _, contacts = row.partition(", ")
    common: dict[str, Any] = {"env": task, "contact": "hard", "seed": seed, "steps": steps}
    if learner == "ppo":
        return PPO(**common)
    if learner == "sac":
        return SAC(**common, rollout=25, warmup=min(1000, steps // 4))
    soft = (compliance(task),) if contacts == "compliant" else ()
    ends = () if task == "LaikagoTrot" else ("speed=end",)
    return SHAC(**common, worlds=256, options=(*ends, *soft))


def steps_for(context: Context, row: str, task: str) -> int:
    """Return how many steps a row takes in its processor time; measured once in a run."""
    from featherback.learn import train

    name = f"steps.{row}.{task}"
    known = context.kept(name)
    if known is not None:
        return int(known)
    sample = 1200 if row.startswith("sac") else 8192
    trained = train(settings_of(row, task, 0, sample // (4 if context.quick else 1)), show=False)
    seconds = SECONDS[1 if context.quick else 2 if context.full else 0]
    # the random actions at the start of SAC cost next to nothing
    cheap = trained.steps // 4 if row.startswith("sac") else 0
    rate = (trained.steps - cheap) / trained.cpu_seconds
    steps = max(int(rate * seconds), 400)
    context.keep(**{name: steps})
    return steps


def train_task(context: Context, task: str) -> dict[str, float | None]:
    """Train all learners on a task."""
    from dataclasses import replace

    figures: dict[str, float | None] = {}
    for row in ROWS:
        settings = settings_of(row, task, context.seed, steps_for(context, row, task))
        size = settings.worlds * int(getattr(settings, "rollout", getattr(settings, "horizon", 1)))
        every = max(1, settings.steps // size // 12)
        settings = replace(settings, evaluate_every=every)
        trained = train_row(context, f"{task}, {row}", settings)
        trace = curve(trained, f"{task}, {row}")
        figures[f"{task}, {row}: return at the end"] = last_mean(trace)
        figures[f"{task}, {row}: best evaluation"] = -min(trace.loss) if trace.loss else None
        figures[f"{task}, {row}: steps"] = trained.steps
        figures[f"{task}, {row}: processor time [s]"] = trained.cpu_seconds
        which = {"shac, compliant": "ours", "ppo, hard": "baseline"}.get(row, row)
        context.traces.setdefault(which, trace)
    return figures


def gradient_norm(task: str, options: dict[str, Any], horizon: int, seed: int) -> float:
    """Return the median length of the gradient of an untrained policy through a horizon."""
    import torch

    import featherback.envs.torch as envs
    from featherback.learn.networks import PolicyNetwork, PolicyShape, seeded

    env = envs.make(task, WORLDS, dtype="float32", **options)
    shape = PolicyShape(
        env.observation_size, env.action_size, (128, 64), activation="elu", norm=True, squash=True
    )
    policy: PolicyNetwork = seeded(lambda: PolicyNetwork(shape, env.low, env.high), seed)
    generator = torch.Generator().manual_seed(seed)
    observation = env.reset(seed)
    lengths: list[float] = []
    for batch in range(2 * BATCHES):
        observation = env.detach()
        total = torch.zeros(())
        for _ in range(horizon):
            noise = torch.randn(WORLDS, env.action_size, generator=generator)
            action, _ = policy.draw(observation, noise)
            observation, reward, _, _, _ = env.step(policy.scale(action))
            total = total + reward.mean()
        if batch % 2 == 0:
            continue
        grads = torch.autograd.grad(total / horizon, list(policy.body.parameters()))
        lengths.append(float(torch.cat([g.flatten() for g in grads]).norm()))
    return float(np.median(lengths))


def norms(context: Context) -> dict[str, float | None]:
    """Return gradient norms of the ant (or the task of a quick run) by horizon and contact law."""
    import ast

    task = QUICK_TASKS[0] if context.quick else "Ant"
    soft = ast.literal_eval(compliance(task).removeprefix("params="))
    laws: dict[str, dict[str, Any]] = {
        "hard": {"contact": "hard"},
        "compliant": {"contact": "hard", "params": soft},
        "mujoco": {"contact": "mujoco"},
    }
    return {
        f"{task}, {law}: gradient norm over {h} steps": gradient_norm(
            task, {**options, "speed": "end"}, h, context.seed
        )
        for law, options in laws.items()
        for h in (QUICK_HORIZONS if context.quick else HORIZONS)
    }


def run(context: Context) -> Result:
    """Train all learners on all tasks, and measure gradients."""
    import_optional(f"run {context.name}", "torch", "torch")
    import_optional(f"run {context.name}", "gymnasium", "rl")
    figures = norms(context)
    tasks = QUICK_TASKS if context.quick else TASKS
    for task in tasks:
        figures |= train_task(context, task)
    wins = 0
    for task in tasks:
        ends = [figures[f"{task}, {row}: return at the end"] or -np.inf for row in ROWS]
        wins += max(ends[:2]) > max(ends[2:])
    claim = Claim(
        f"SHAC ends above PPO and SAC with the same processor time; tasks of {len(tasks)}",
        float(wins),
        None if context.quick else wins == len(tasks),
    )
    traces = context.traces
    others = {name: x for name, x in traces.items() if name not in ("ours", "baseline")}
    return Result(
        traces["ours"], traces["baseline"], figures, [claim], others=others, notes=list(NOTES)
    )
