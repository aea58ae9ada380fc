"""Runs one experiment, for one seed or several, and writes its files."""

from __future__ import annotations

import os
import platform
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np

import featherback as fb
from featherback._checks import check_integer
from featherback.errors import ParameterError
from featherback.experiments.context import Context
from featherback.experiments.plots import new_figure, plot_losses
from featherback.experiments.registry import Named, find
from featherback.experiments.result import Result, write_json

PACKAGES = ("numpy", "mujoco", "scipy", "cma", "torch", "gymnasium", "matplotlib")
MAX_SEED = 2**31 - 1  # what every generator takes, with a few added to it


def versions() -> dict[str, str]:
    """Return the versions that a result depends on; packages that are not there are left out."""
    found = {"featherback": fb.__version__, "isa": fb.isa(), "python": platform.python_version()}
    for name in PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


def machine() -> dict[str, Any]:
    """Return what times depend on: kind of machine, cores, and how busy it was."""
    load = os.getloadavg()[0] if hasattr(os, "getloadavg") else None
    return {"machine": platform.machine(), "cores": os.cpu_count(), "load": load}


def run(
    name: str,
    *,
    seed: int = 0,
    quick: bool = False,
    full: bool = False,
    out: Path | None = None,
    resume: bool = False,
    show: bool = True,
) -> dict[str, Any]:
    """Run an experiment once and write its files.

    Args:
        name: name of the experiment.
        seed: seed of its random numbers, 0 to 2^31 - 1.
        quick: a run of seconds: fewer iterations of the baseline; its claims are not judged.
        full: the longest run, of hours, where an experiment has one.
        out: folder of its files; runs/NAME when None.
        resume: go on from what a stopped run saved in that folder.
        show: show progress bars on standard error.

    Returns:
        What was written to OUT/NAME.json.

    Raises:
        ParameterError: for an unknown name, a bad seed, or nothing to resume.
        FeatherbackError: matplotlib is not installed.
        KeyboardInterrupt: after Ctrl-C, when what there is has been saved.
    """
    experiment = find(name)
    check_integer(f"run {name}", "seed", seed, minimum=0, maximum=MAX_SEED)
    _check_length(experiment, quick, full)
    # a run whose plot cannot be drawn is not begun
    new_figure()
    folder = Path("runs") / name if out is None else out
    context = Context(name, seed, quick, folder, resume=resume, show=show, full=full)
    begun = machine()
    try:
        result = experiment.module.run(context)
    except KeyboardInterrupt:
        context.save()
        if context.traces:
            _write(experiment, context, begun, None)
        raise
    context.save()
    return _write(experiment, context, begun, result)


def run_seeds(
    name: str,
    seeds: int,
    *,
    quick: bool = False,
    full: bool = False,
    out: Path | None = None,
    resume: bool = False,
    show: bool = True,
) -> dict[str, Any]:
    """Run an experiment for the seeds 0 to `seeds` - 1 and write a summary.

    Each seed has the folder OUT/seedN; the summary is OUT/NAME-seeds.json: for every figure its
    values, median, minimum and maximum, for every claim in how many seeds it holds. Seeds
    that a stopped call finished are not run again with `resume`.

    Returns:
        The summary.
    """
    check_integer(f"run {name}", "seeds", seeds)
    folder = Path("runs") / name if out is None else out
    contents: list[dict[str, Any]] = []
    for seed in range(seeds):
        own = folder / f"seed{seed}"
        again = resume and (own / f"{name}-state.npz").exists()
        contents.append(
            run(name, seed=seed, quick=quick, full=full, out=own, resume=again, show=show)
        )
    summary = {
        "name": name,
        "seeds": list(range(seeds)),
        "quick": quick,
        "full": full,
        "versions": versions(),
        "figures": {
            key: spread([c["figures"].get(key) for c in contents]) for key in contents[0]["figures"]
        },
        "claims": [
            {
                "claim": claim["claim"],
                "holds": sum(c["claims"][i]["holds"] is True for c in contents),
                "of": seeds,
                **spread([c["claims"][i]["value"] for c in contents]),
            }
            for i, claim in enumerate(contents[0]["claims"])
        ],
    }
    write_json(folder / f"{name}-seeds.json", summary)
    return summary


def _check_length(experiment: Named, quick: bool, full: bool) -> None:
    """Raise ParameterError for a length that a run cannot have."""
    if full and quick:
        raise ParameterError(
            f"run {experiment.name}: --quick and --full are both given; pass one of them."
        )
    if full and not getattr(experiment.module, "HAS_FULL", False):
        raise ParameterError(
            f"run {experiment.name}: this experiment has no run that is longer than the default "
            "one; leave --full out."
        )


def spread(values: list[float | None]) -> dict[str, Any]:
    """Return values with their median, minimum and maximum; None where a seed has no value."""
    known = [float(x) for x in values if x is not None and np.isfinite(x)]
    middle = float(np.median(known)) if known else None
    ends = (min(known), max(known)) if known else (None, None)
    return {"values": values, "median": middle, "min": ends[0], "max": ends[1]}


def _write(
    experiment: Named, context: Context, begun: dict[str, Any], result: Result | None
) -> dict[str, Any]:
    """Write the plot and the JSON; without a result, what the traces hold so far."""
    traces = context.traces
    others = {k: t.to_json() for k, t in traces.items() if k not in ("ours", "baseline")}
    partial: dict[str, Any] = {
        "ours": traces["ours"].to_json() if "ours" in traces else None,
        "baseline": traces["baseline"].to_json() if "baseline" in traces else None,
        "others": others,
        "figures": {},
        "claims": [],
        "notes": [],
    }
    body = partial if result is None else result.to_json()
    shown = {k: t for k, t in traces.items() if t.loss}
    if shown:
        context.files["plot"] = plot_losses(context.path("-loss.png"), context.name, shown)
    content: dict[str, Any] = {
        "name": context.name,
        "summary": experiment.module.SUMMARY,
        "seed": context.seed,
        "quick": context.quick,
        "full": context.full,
        "finished": result is not None,
        "versions": versions(),
        "machine": begun,
        **body,
        "notes": [*body["notes"], *context.notes],
        "files": {what: path.name for what, path in context.files.items()},
    }
    write_json(context.path(".json"), content)
    return content
