"""A policy that walks gymnasium's ant here, run in MuJoCo itself: what it keeps of its return."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from featherback._optional import import_optional
from featherback._typing import Array
from featherback.experiments.context import Context
from featherback.experiments.result import Claim, Result, Trace

if TYPE_CHECKING:
    from featherback.learn import Trained
    from featherback.learn.settings import Contact

SUMMARY = "a policy for gymnasium's ant, trained here under either contact law, run in MuJoCo"
STEPS, QUICK = 1_100_000, 10_240
EVERY = 50  # iterations between evaluations
EPISODES = 16
GOAL, MINUTES = 6000.0, 2.0  # return, and processor time in which it should be reached
KEPT = 0.9
UNSEEN = 10_000  # seed of the episodes that are counted
LAWS: tuple[Contact, ...] = ("mujoco", "hard")
NOTES = (
    "A return is that of Gymnasium's Ant-v5 without contact forces in observation and reward, "
    "without noise in the actions. In MuJoCo the ant's file is used as it is.",
    "The control beside it is MuJoCo with another of its own integrators (implicitfast): what the "
    "policy loses there is the sensitivity of the gait, not a difference between the engines.",
)


def train_ant(context: Context, contact: Contact) -> Trained:
    """Train by PPO under a contact law; a stopped run goes on from its checkpoint."""
    from featherback.learn import PPO, train

    settings = PPO(
        env="Ant",
        contact=contact,
        steps=QUICK if context.quick else STEPS,
        seed=context.seed,
        evaluate_every=5 if context.quick else EVERY,
    )
    folder = context.path(f"-{contact}")
    again = context.resume and (folder / "checkpoint.pt").exists()
    return train(settings, out=folder, resume=again, show=context.show)


def curve(trained: Trained, method: str) -> Trace:
    """Return evaluations as a trace: the return with its sign changed, against processor time."""
    rows = [row for row in trained.log if np.isfinite(row["evaluation"])]
    seconds = np.diff([0.0, *(row["cpu_seconds"] for row in rows)])
    steps = np.diff([0.0, *(row["steps"] for row in rows)])
    return Trace(
        method,
        [-row["evaluation"] for row in rows],
        [float(x) for x in seconds],
        [int(x) for x in steps],
    )


def returns(policy: Any, env: Any) -> Array:
    """Return the returns of episodes that the training has not seen."""
    from featherback.learn import run_policy

    try:
        return run_policy(policy, env, seed=UNSEEN)
    finally:
        env.close()


def measure(context: Context, policy: Any, law: Contact) -> dict[str, float]:
    """Return the mean returns of a policy here, under the other law, and in MuJoCo."""
    from featherback import envs
    from featherback.experiments.neural.stock_ant import StockAnt

    episodes = 2 if context.quick else EPISODES
    other = LAWS[1 - LAWS.index(law)]
    found = {
        name: returns(policy, envs.make("Ant", episodes, contact=name, autoreset_mode="same_step"))
        for name in (law, other)
    }
    found |= {"MuJoCo": returns(policy, StockAnt(episodes))}
    found |= {"MuJoCo, implicitfast": returns(policy, StockAnt(episodes, "implicitfast"))}
    out = {f"return under {name}": float(np.mean(x)) for name, x in list(found.items())[:2]}
    out |= {f"return in {name}": float(np.mean(x)) for name, x in list(found.items())[2:]}
    out["least return in MuJoCo"] = float(np.min(found["MuJoCo"]))
    for name in ("MuJoCo", "MuJoCo, implicitfast"):
        out[f"kept in {name}"] = float(np.mean(found[name]) / np.mean(found[law]))
    return out


def run(context: Context) -> Result:
    """Train under both laws, and run both policies here and in MuJoCo."""
    import_optional(f"run {context.name}", "torch", "torch")
    import_optional(f"run {context.name}", "gymnasium", "rl")
    figures: dict[str, float | None] = {}
    kept: dict[str, float] = {}
    for law, which in zip(LAWS, ("ours", "baseline"), strict=True):
        trained = train_ant(context, law)
        trace = curve(trained, f'PPO under contact="{law}"')
        context.traces[which] = trace
        context.files[f"policy, {law}"] = trained.policy.save(context.path(f"-{law}-policy.pt"))
        measured = measure(context, trained.policy, law)
        figures |= {f"trained under {law}: {name}": x for name, x in measured.items()}
        kept[law] = measured["kept in MuJoCo"]
        figures[f"trained under {law}: steps"] = trained.steps
        figures[f"trained under {law}: processor time [s]"] = trained.cpu_seconds
        figures[f"trained under {law}: processor time to {GOAL:.0f} [s]"] = trace.seconds_until(
            -GOAL
        )
    soonest = figures[f"trained under mujoco: processor time to {GOAL:.0f} [s]"]
    quick = context.quick
    claims = [
        Claim(
            f"trained under mujoco, keeps at least {KEPT:.0%} of its return in MuJoCo",
            kept["mujoco"],
            None if quick else kept["mujoco"] >= KEPT,
        ),
        Claim(
            f"trained under mujoco, a return of {GOAL:.0f} within {MINUTES:.0f} minutes of "
            "processor time [s]",
            soonest,
            None if quick else soonest is not None and soonest <= 60.0 * MINUTES,
        ),
    ]
    return Result(
        context.traces["ours"], context.traces["baseline"], figures, claims, notes=list(NOTES)
    )
