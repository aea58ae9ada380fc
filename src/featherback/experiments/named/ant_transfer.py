"""A policy that walks gymnasium's ant here, run in MuJoCo itself: what it keeps of its return."""

from __future__ import annotations

import ast
import json
from typing import TYPE_CHECKING, Any

import numpy as np

from featherback._optional import import_optional
from featherback._typing import Array
from featherback.experiments.context import Context
from featherback.experiments.learning import curve, train_row
from featherback.experiments.result import Claim, Result

if TYPE_CHECKING:
    from featherback.learn import Settings, Trained
    from featherback.learn.settings import Contact

SUMMARY = "policies for gymnasium's ant, trained here under either contact law, run in MuJoCo"
HAS_FULL = True
# steps of the default run, of a quick one and of the longest
STEPS = {
    "PPO, hard": (600_000, 10_240, 6_000_000),
    "SHAC, hard and compliant": (600_000, 10_240, 6_000_000),
    "PPO, mujoco": (1_200_000, 10_240, 6_000_000),
}
COMPLIANCE = 1e-3  # of a contact [m/N]
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
    f"The contacts of SHAC yield by {COMPLIANCE:g} m/N, and its reward has the speed at the end of "
    "a step; the returns that are counted are those of the task as it is.",
)


def settings_of(context: Context, row: str) -> Settings:
    """Return the settings of a learner and a contact law."""
    from featherback import envs
    from featherback.learn import PPO, SHAC

    learner, _, law = row.partition(", ")
    common: dict[str, Any] = {
        "env": "Ant",
        "contact": law.split()[0],
        "steps": STEPS[row][1 if context.quick else 2 if context.full else 0],
        "seed": context.seed,
    }
    if learner == "PPO":
        every = 1 if context.quick else 40
        return PPO(**common, evaluate_every=every)
    geoms = len(envs.make("Ant", 1, contact="hard").sim.params["contact_compliance"])
    # the compliances of the two shapes of a contact add up
    soft = f"params={{'contact_compliance': {[0.5 * COMPLIANCE] * geoms}}}"
    every = 1 if context.quick else 40
    return SHAC(**common, worlds=256, options=("speed=end", soft), evaluate_every=every)


def returns(policy: Any, env: Any) -> Array:
    """Return the returns of episodes that the training has not seen."""
    from featherback.learn import run_policy

    try:
        return run_policy(policy, env, seed=UNSEEN)
    finally:
        env.close()


def measure(context: Context, trained: Trained) -> dict[str, float]:
    """Return the mean returns of a policy here, under the other law, and in MuJoCo."""
    from featherback import envs
    from featherback.experiments.neural.stock_ant import StockAnt

    policy, episodes = trained.policy, 2 if context.quick else EPISODES
    law: Contact = policy.about["contact"]
    own = [x for x in policy.about["options"] if x.startswith("params=")]
    other = LAWS[1 - LAWS.index(law)]
    options = {law: ast.literal_eval(own[0].removeprefix("params=")) if own else None}
    found = {
        name: returns(
            policy,
            envs.make(
                "Ant", episodes, contact=name, params=options.get(name), autoreset_mode="same_step"
            ),
        )
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
    """Train under both laws, and run the policies here and in MuJoCo."""
    import_optional(f"run {context.name}", "torch", "torch")
    import_optional(f"run {context.name}", "gymnasium", "rl")
    figures: dict[str, float | None] = {}
    soonest: dict[str, float | None] = {}
    for row, which in zip(STEPS, ("baseline", "shac", "ours"), strict=True):
        trained = train_row(context, row, settings_of(context, row))
        trace = curve(trained, row)
        context.traces[which] = trace
        known = context.kept(f"measured.{row}")
        measured = measure(context, trained) if known is None else json.loads(str(known))
        context.keep(**{f"measured.{row}": json.dumps(measured)})
        figures |= {f"{row}: {name}": x for name, x in measured.items()}
        soonest[row] = trace.seconds_until(-GOAL)
        figures[f"{row}: steps"] = trained.steps
        figures[f"{row}: processor time [s]"] = trained.cpu_seconds
        figures[f"{row}: best evaluation"] = -min(trace.loss)
        figures[f"{row}: processor time to {GOAL:.0f} [s]"] = soonest[row]
        figures[f"{row}: steps to {GOAL:.0f}"] = trace.evaluations_until(-GOAL)
    others = {"shac": context.traces["shac"]}
    return Result(
        context.traces["ours"],
        context.traces["baseline"],
        figures,
        claims(figures, soonest, context.quick),
        others=others,
        notes=list(NOTES),
    )


def claims(
    figures: dict[str, float | None], soonest: dict[str, float | None], quick: bool
) -> list[Claim]:
    """Return what should be shown."""
    kept = figures["PPO, mujoco: kept in MuJoCo"]
    assert kept is not None
    out = [
        Claim(
            f"trained under mujoco, keeps at least {KEPT:.0%} of its return in MuJoCo",
            kept,
            None if quick else kept >= KEPT,
        )
    ]
    for row, seconds in soonest.items():
        out.append(
            Claim(
                f"{row}: a return of {GOAL:.0f} within {MINUTES:.0f} minutes of processor time [s]",
                seconds,
                None if quick else seconds is not None and seconds <= 60.0 * MINUTES,
            )
        )
    return out
