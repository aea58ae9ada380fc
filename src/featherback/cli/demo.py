"""`featherback demo`: drop a Laikago, let it stand, print what happened, and film it."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

import featherback as fb
from featherback._typing import Array
from featherback.experiments.film import make_film
from featherback.experiments.recording import Recording

DROP = 0.05  # [m] above the standing height
DURATION = 2.0  # [s]
CAMERA = (0.0, 0.0, 0.3, 2.0, 120.0, -15.0)  # look-at point [m], distance [m], angles [degrees]


@dataclass(frozen=True)
class Drop:
    """What the demo measured."""

    q: Array  # float64[steps + 1, nq]
    v: Array  # float64[steps + 1, nv]
    u: Array  # float64[steps, nu]
    dt: float  # [s]
    height: tuple[float, float]  # trunk at the start and at the end [m]
    contacts: int  # points that carry force at the end
    force: float  # sum of vertical contact forces at the end [N]
    weight: float  # mass times gravity [N]
    steps_per_second: float


def drop_laikago(model: fb.Model) -> Drop:
    """Drop the robot from 5 cm above its standing height under its position servos."""
    sim = fb.Simulator(model)
    q, v = (np.array(part) for part in model.keyframe("stand"))
    u = q[7:].copy()
    q[2] += DROP
    steps = round(DURATION / sim.dt)
    sim.step(q, v, u)
    start = time.perf_counter()
    roll = sim.rollout(q, v, np.broadcast_to(u, (steps, model.nu)))
    seconds = time.perf_counter() - start
    contacts = sim.contacts(roll.q[-1], roll.v[-1], u)
    return Drop(
        q=roll.q.astype(np.float64),
        v=roll.v.astype(np.float64),
        u=np.tile(u, (steps, 1)),
        dt=sim.dt,
        height=(float(roll.q[0, 2]), float(roll.q[-1, 2])),
        contacts=int(np.count_nonzero(contacts.force[:, 2] > 0.0)),
        force=float(contacts.force[:, 2].sum()),
        weight=float(-model.params["body_mass"].sum() * model.params["gravity"][2]),
        steps_per_second=steps / seconds,
    )


def summary(drop: Drop) -> list[tuple[str, str]]:
    """Return what the demo prints, as (what, value)."""
    start, end = drop.height
    return [
        ("trunk height", f"{start:.3f} m at release, {end:.3f} m after {DURATION:.0f} s"),
        ("contacts", f"{drop.contacts} points carry force"),
        ("contact force", f"{drop.force:.2f} N; weight {drop.weight:.2f} N"),
        ("speed", f"{drop.steps_per_second:,.0f} steps/s, one robot, one core, {fb.isa()}"),
    ]


def run_demo(out: Path) -> None:
    """Run the demo, print its summary and save a recording and a film in ``out``."""
    console = Console()
    model = fb.models.laikago()
    drop = drop_laikago(model)
    table = Table(show_header=False, box=None, padding=(0, 2, 0, 0), title="Laikago, dropped 5 cm")
    for what, value in summary(drop):
        table.add_row(what, value)
    console.print(table)
    recording = Recording(
        xml=fb.models.laikago_xml(),
        dt=drop.dt,
        q=drop.q,
        v=drop.v,
        u=drop.u,
        target=np.zeros((0, 3)),
        camera=np.array(CAMERA),
    )
    path = recording.save(out / "laikago.npz")
    film, reason = make_film(path)
    console.print(f"recording: {path}", highlight=False, soft_wrap=True)
    console.print(reason or f"film: {film}", highlight=False, soft_wrap=True)
