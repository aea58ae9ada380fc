"""Gymnasium's ant by SAC and MBPO, with and without nine samples near each real one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from featherback._optional import import_optional
from featherback.experiments.context import Context
from featherback.experiments.learning import curve, last_mean, train_row
from featherback.experiments.result import Claim, Result

if TYPE_CHECKING:
    from featherback.learn import Settings

SUMMARY = "gymnasium's ant by SAC and MBPO, with and without first-order and exact samples nearby"
HAS_FULL = True
SAMPLES = 9
BASES, KINDS = ("sac", "mbpo"), ("alone", "first-order", "exact")
NOTES = (
    'Gymnasium\'s ant as its file is, under contact="mujoco" with its integrator; returns without '
    "noise, 8 episodes; end is the mean of the last quarter of the evaluations.",
    f"first-order: {SAMPLES} further samples for each real one from the Jacobian of the step, "
    "actions within 0.1; exact: the same number of actions, simulated. Nine tenths of a batch are "
    "such samples.",
    "The default has one update for each step and 12 000 steps, at which an ant has hardly begun "
    "to walk; --full has 100 000 steps and 20 updates for each, as the original.",
)


def settings_of(context: Context, base: Any, kind: Any) -> Settings:
    """Return the settings of one row."""
    from featherback.learn import MBPO, SAC, Enhanced

    common: dict[str, Any] = {
        "env": "Ant",
        "seed": context.seed,
        "steps": 600 if context.quick else 100_000 if context.full else 12_000,
        "warmup": 300 if context.quick else 5000 if context.full else 1000,
        "rollout": 20 if context.quick else 50,
        "worlds": 10,
        "repeat": 20 if context.full else 1,
        "evaluate_every": 3 if context.quick else 4,
        "checkpoint_every": 10,
        "evaluation_episodes": 2 if context.quick else 8,
    }
    if not context.full:
        common |= {"hidden": (128, 128), "batch": 128}
    if kind == "alone":
        return (SAC if base == "sac" else MBPO)(**common)
    return Enhanced(**common, base=base, samples=SAMPLES, nearby=kind)


def run(context: Context) -> Result:
    """Train all rows."""
    import_optional(f"run {context.name}", "torch", "torch")
    import_optional(f"run {context.name}", "gymnasium", "rl")
    figures: dict[str, float | None] = {}
    for base in BASES:
        for kind in KINDS:
            row = f"{base}, {kind}"
            trained = train_row(context, row, settings_of(context, base, kind))
            trace = curve(trained, row)
            which = {"sac, first-order": "ours", "sac, alone": "baseline"}.get(row, row)
            context.traces[which] = trace
            figures[f"{row}: return at the end"] = last_mean(trace)
            figures[f"{row}: best evaluation"] = -min(trace.loss)
            figures[f"{row}: steps"] = trained.steps
            figures[f"{row}: processor time [s]"] = trained.cpu_seconds
    traces = context.traces
    claims: list[Claim] = []
    for base in BASES:
        ours, alone = (figures[f"{base}, {k}: return at the end"] for k in ("first-order", "alone"))
        gain = None if ours is None or alone is None else ours - alone
        holds = None if context.quick or gain is None else gain > 0.0
        claims.append(
            Claim(f"{base}: first-order samples raise the return at the end, by", gain, holds)
        )
    others = {name: x for name, x in traces.items() if name not in ("ours", "baseline")}
    return Result(
        traces["ours"], traces["baseline"], figures, claims, others=others, notes=list(NOTES)
    )
