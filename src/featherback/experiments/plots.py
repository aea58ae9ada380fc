"""Plots of an experiment."""

from __future__ import annotations

import io
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from featherback.errors import FeatherbackError
from featherback.experiments.files import write_bytes
from featherback.experiments.result import Trace

COLOURS = ("#1f6fb2", "#c8553d", "#5a8f3d", "#7d5ba6", "#8a6d3b")


def new_figure(width: float = 10.0, height: float = 4.0) -> Any:
    """Return a matplotlib figure."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise FeatherbackError(
            "run: matplotlib is not installed; plots need it: pip install 'featherback[plot]'."
        ) from None
    return Figure(figsize=(width, height), dpi=120, layout="constrained")


def save_figure(figure: Any, path: Path) -> Path:
    """Save a figure as a PNG and return its path."""
    picture = io.BytesIO()
    figure.savefig(picture, format="png")
    return write_bytes(path, picture.getvalue())


def plot_losses(
    path: Path, title: str, traces: Mapping[str, Trace], label: str = "best loss"
) -> Path:
    """Plot loss against iterations and against wall clock, one line for each trace."""
    figure = new_figure()
    left, right = figure.subplots(1, 2, sharey=True)
    log = all(value > 0.0 for trace in traces.values() for value in trace.loss)
    for colour, (name, trace) in zip(COLOURS, traces.items(), strict=False):
        text = f"{name}: {trace.method}"
        marker = "o" if len(trace.loss) < 60 else None
        style: dict[str, Any] = {"color": colour, "marker": marker, "markersize": 3.0}
        left.plot(np.arange(len(trace.loss)), trace.loss, label=text, **style)
        right.plot(np.cumsum(trace.seconds), trace.loss, **style)
    left.set_xlabel("iteration")
    right.set_xlabel("wall clock [s]")
    left.set_ylabel(label)
    for axes in (left, right):
        axes.set_xscale("symlog", linthresh=1.0 if axes is left else 0.1)
        axes.set_xlim(left=0.0)
        if log:
            axes.set_yscale("log")
        axes.grid(alpha=0.3)
    left.legend(fontsize=8)
    figure.suptitle(title)
    return save_figure(figure, path)
