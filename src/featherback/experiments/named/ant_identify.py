"""Masses, damping and friction of gymnasium's ant, from noisy logs.

The logs come from MuJoCo itself with contacts off, and from our engine with contacts on. The ant's
file is read from the installed gymnasium package.
"""

from __future__ import annotations

import importlib.util
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import featherback as fb
from featherback._typing import Array
from featherback.errors import FeatherbackError
from featherback.experiments.context import Context
from featherback.experiments.differences import ByDifferences, fit
from featherback.experiments.plots import COLOURS, new_figure, save_figure
from featherback.experiments.result import Claim, Result, Trace
from featherback.identify import Estimate, Log, Unknown, scale_factor, unknown
from featherback.identify.log import cut
from featherback.identify.problem import PredictionProblem

# (q, v) and a control -> the state a row later
Advance = Callable[[Array, Array, Array], tuple[Array, Array]]

SUMMARY = "masses, damping and friction of gymnasium's ant, from noisy logs of MuJoCo and our own"
ROW = 0.01  # time between rows of a log [s]; also the step of the ant's file
Q_NOISE, V_NOISE = 1e-3, 1e-2  # [m, rad], [m/s, rad/s]
FLIGHT_STEP, FLOOR_STEP = 5e-4, 2e-3  # steps of our simulators [s]
FLIGHT_WINDOW = 39  # steps between rows in a window of a flight
STIFFNESS, DAMPING, GEAR = 400.0, 30.0, 150.0  # of the servo that drives the legs
DENSITIES, DAMPINGS, FRICTIONS = (0.7, 1.4), (0.6, 1.6), (0.4, 0.8)  # what a seed hides
HORIZONS = (0.25, 0.5, 1.0)  # shares of the logs on the floor, fitted one after the other
TRUNK = ("torso", "front_left_leg", "front_right_leg", "back_leg", "right_back_leg")
NOTES = (
    "The ant is gymnasium's file as installed; a seed changes its masses (with the inertias, as "
    "the density of five rigid parts and eight links), joint damping and friction. The search "
    "starts at the file's values.",
    "In flight the state at the start of each window is estimated too; the integrator of the file "
    "(Runge-Kutta, 10 ms) is not ours, which shows as a bias of damping of about our step.",
    "On the floor each log starts at rest in a known state, and all later rows are noisy. A "
    "quarter of each log is fitted first, then half, then all: the loss rises where the horizon "
    "grows.",
)


@dataclass(frozen=True, eq=False)
class Ant:
    """The ant as a simulator with the file's parameters, and what is unknown of it.

    Attributes:
        sim: the simulator.
        unknowns: densities and dampings, and the friction where there are contacts.
        middle: float64[8], middle of the joint ranges [rad].
        reach: float64[8], amplitude of the excitation [rad].
        order: joint of each actuator.
    """

    sim: fb.Simulator
    unknowns: list[Unknown]
    middle: Array
    reach: Array
    order: list[int]


@dataclass(frozen=True, eq=False)
class Part:
    """One of the two identifications.

    Attributes:
        estimate: what was found.
        truth: float64[n], what was hidden.
        trace: its progress.
    """

    estimate: Estimate
    truth: Array
    trace: Trace

    def errors(self, word: str) -> Array:
        """Return the relative errors of the unknowns whose label begins with `word`."""
        chosen = [label.startswith(word) for label in self.estimate.labels]
        return np.abs(self.estimate.x / self.truth - 1.0)[chosen]


def ant_file() -> Path:
    """Return the path of the ant's file in the installed gymnasium package."""
    spec = importlib.util.find_spec("gymnasium")
    if spec is None or spec.origin is None:
        raise FeatherbackError(
            "run ant-identify: gymnasium is not installed; the ant's file comes with it: "
            "pip install 'gymnasium>=1.1'."
        )
    path = Path(spec.origin).parent / "envs" / "mujoco" / "assets" / "ant.xml"
    if not path.exists():
        raise FeatherbackError(
            f"run ant-identify: {path} does not exist; install a gymnasium that brings the ant's "
            "file: pip install 'gymnasium>=1.1'."
        )
    return path


def load_ant(contacts: bool) -> Ant:
    """Load the ant for the floor, or for a flight without contacts."""
    xml = ant_file().read_text()
    if not contacts:
        off = '<option><flag contact="disable"/></option>'
        xml = xml.replace("<worldbody>", f"{off}<worldbody>", 1)
    model = fb.load(xml, name="ant")
    sim = fb.Simulator(model, dt=FLOOR_STEP if contacts else FLIGHT_STEP, threads=2)
    names = ("body_mass", "body_inertia")
    unknowns = [scale_factor(sim, names, list(TRUNK), label="density of the trunk")]
    for leg in range(1, 5):
        thigh = model.body_names.index(f"aux_{leg}")
        unknowns.append(scale_factor(sim, names, thigh, label=f"density of thigh {leg}"))
        unknowns.append(scale_factor(sim, names, thigh + 1, label=f"density of shin {leg}"))
    hinges = [name for name in model.joint_names if name != "root"]
    unknowns += [unknown(sim, "dof_damping", name) for name in hinges]
    if contacts:
        unknowns.append(unknown(sim, "geom_friction", column=0))
    low, high = np.array(model.mujoco.jnt_range[1:], np.float64).T
    order = [int(joint) - 1 for joint in model.mujoco.actuator_trnid[:, 0]]
    return Ant(sim, unknowns, 0.5 * (low + high), 0.35 * (high - low), order)


def hide(ant: Ant, rng: np.random.Generator) -> tuple[Array, dict[str, Array]]:
    """Return hidden values of the unknowns, and the parameters they stand for."""
    bounds = {"density": DENSITIES, "dof_damping": DAMPINGS, "geom_friction": FRICTIONS}
    truth = np.array(
        [
            rng.uniform(*bounds[one.label.partition(" ")[0].partition("[")[0]])
            for one in ant.unknowns
        ]
    )
    params = {
        name: np.array(ant.sim.params[name], np.float64)
        for one in ant.unknowns
        for name in one.slopes
    }
    for one, value in zip(ant.unknowns, truth, strict=True):
        one.put(np.array([value]), params)
    return truth, params


def excite(
    ant: Ant, advance: Advance, state: tuple[Array, Array], rows: int, rng: np.random.Generator
) -> tuple[Array, Array, Array]:
    """Drive the legs along sums of sines by a servo; return q, v and u of all rows."""
    rate, phase = rng.uniform(0.5, 2.5, (3, 8)), rng.uniform(0.0, 2.0 * np.pi, (3, 8))
    share = rng.dirichlet([1.0] * 3, 8).T
    q, v = state
    motion: tuple[list[Array], list[Array], list[Array]] = ([q], [v], [])
    for row in range(rows):
        t = row * ROW
        wave = np.sin(2.0 * np.pi * rate * t + phase) - np.sin(phase) * math.exp(-5.0 * t)
        goal = ant.middle + ant.reach * np.sum(share * wave, axis=0)
        push = STIFFNESS * (goal - q[7:]) - DAMPING * v[6:]
        u = np.clip(push / GEAR, -1.0, 1.0)[ant.order]
        q, v = advance(q, v, u)
        for part, value in zip(motion, (q, v, u), strict=True):
            part.append(value)
    return np.array(motion[0]), np.array(motion[1]), np.array(motion[2])


def noisy_log(
    motion: tuple[Array, Array, Array], every: int, rng: np.random.Generator, known: bool
) -> Log:
    """Return a motion with noise; `known`: the first row is exact."""
    q, v, u = (part.copy() for part in motion)
    noise = np.full(q.shape[1], Q_NOISE)
    noise[3:7] *= 0.5
    first = 1 if known else 0
    q[first:] += noise * rng.normal(size=q[first:].shape)
    v[first:] += V_NOISE * rng.normal(size=v[first:].shape)
    return Log(q, v, u, noise, V_NOISE, every)


def mujoco_logs(
    ant: Ant, params: dict[str, Array], count: int, rows: int, rng: np.random.Generator
) -> list[Log]:
    """Record flights in MuJoCo with the file's integrator and step, contacts off."""
    import mujoco

    model: Any = mujoco.MjModel.from_xml_path(str(ant_file()))
    model.opt.disableflags |= int(mujoco.mjtDisableBit.mjDSBL_CONTACT)
    for name, value in params.items():
        getattr(model, name)[...] = value
    data: Any = mujoco.MjData(model)
    mujoco.mj_setConst(model, data)

    def advance(q: Array, v: Array, u: Array) -> tuple[Array, Array]:
        data.ctrl[:] = u
        mujoco.mj_step(model, data)
        return data.qpos.copy(), data.qvel.copy()

    logs: list[Log] = []
    for _ in range(count):
        mujoco.mj_resetData(model, data)
        data.qpos[7:] = ant.middle
        motion = excite(ant, advance, (data.qpos.copy(), data.qvel.copy()), rows, rng)
        logs.append(noisy_log(motion, round(ROW / ant.sim.dt), rng, known=False))
    return logs


def floor_motions(
    ant: Ant, params: dict[str, Array], count: int, rows: int, rng: np.random.Generator
) -> list[tuple[Array, Array, Array]]:
    """Record motions on the floor in our engine, each from where the ant stands at rest."""
    real = fb.Simulator(ant.sim.model, dt=ant.sim.dt, params=dict(params))
    every = round(ROW / real.dt)

    def advance(q: Array, v: Array, u: Array) -> tuple[Array, Array]:
        for _ in range(every):
            q, v = (np.asarray(part, np.float64) for part in real.step(q, v, u))
        return q, v

    q, v = np.array(real.model.q0), np.zeros(real.model.nv)
    q[2], q[7:] = 0.6, ant.middle
    still = Ant(ant.sim, ant.unknowns, ant.middle, 0.0 * ant.reach, ant.order)
    settled = excite(still, advance, (q, v), 150, rng)
    start = (settled[0][-1], settled[1][-1])
    return [excite(ant, advance, start, rows, rng) for _ in range(count)]


def weighted_error(problem: PredictionProblem, cost: float) -> float:
    """Return the root mean square of the weighted errors of a problem."""
    return math.sqrt(2.0 * cost / problem.independent)


def shorter(log: Log, rows: int) -> Log:
    """Return the first rows of a log."""
    q, v, u = (np.asarray(part)[: rows + k] for part, k in ((log.q, 1), (log.v, 1), (log.u, 0)))
    return Log(q, v, u, log.q_noise, log.v_noise, log.every)


def fly(context: Context, rng: np.random.Generator, counts: Sequence[int]) -> Part:
    """Identify from MuJoCo's logs, contacts off; the starts of windows are unknown."""
    ant = load_ant(contacts=False)
    truth, params = hide(ant, rng)
    logs = mujoco_logs(ant, params, counts[0], counts[1], rng)
    windows = cut("run ant-identify", ant.sim.model, ant.sim.dt, logs, FLIGHT_WINDOW, True)
    problem = PredictionProblem(ant.sim, windows, ant.unknowns, True)
    method = "trust region, exact; logs of MuJoCo"
    estimate, trace = fit(context, [problem], "flight", method, weighted_error)
    return Part(estimate, truth, trace)


def stand(context: Context, rng: np.random.Generator, counts: Sequence[int]) -> tuple[Part, Part]:
    """Identify from our logs, contacts on; with exact derivatives, then with differences."""
    ant = load_ant(contacts=True)
    truth, params = hide(ant, rng)
    motions = floor_motions(ant, params, counts[0], counts[1], rng)
    every = round(ROW / ant.sim.dt)
    logs = [noisy_log(motion, every, rng, known=True) for motion in motions]
    kinds: list[tuple[type[PredictionProblem], str, str]] = [
        (PredictionProblem, "ours", "exact Jacobian"),
        (ByDifferences, "baseline", "central differences"),
    ]
    parts: list[Part] = []
    for kind, which, method in kinds:
        # a short horizon has fewer contacts to go wrong, and leads near enough for a longer one
        problems = [
            kind(
                ant.sim,
                cut(
                    "run ant-identify",
                    ant.sim.model,
                    ant.sim.dt,
                    [shorter(log, round(share * counts[1])) for log in logs],
                    None,
                    False,
                ),
                ant.unknowns,
                False,
            )
            for share in HORIZONS
        ]
        words = f"trust region (scipy least_squares), {method}"
        found = fit(context, problems, which, words, weighted_error)
        parts.append(Part(found[0], truth, found[1]))
    q, v, u = motions[0]
    context.record(
        ant_file().read_text(),
        {"q": q, "v": v, "u": u},
        dt=ROW,
        camera=(0.0, 0.0, 0.4, 3.0, 120.0, -20.0),
    )
    return parts[0], parts[1]


def plot_values(context: Context, parts: dict[str, Part]) -> None:
    """Plot what was found over what was hidden, with three standard deviations."""
    figure = new_figure(10.0, 4.5)
    axes = figure.subplots()
    for i, (name, part) in enumerate(parts.items()):
        at = np.arange(len(part.truth)) + 0.2 * i
        spread = np.array(list(part.estimate.deviations.values()))
        axes.errorbar(
            at,
            part.estimate.x / part.truth - 1.0,
            3.0 * spread / part.truth,
            fmt="o",
            color=COLOURS[i],
            label=name,
        )
        if len(part.truth) == max(len(p.truth) for p in parts.values()):
            axes.set_xticks(at, part.estimate.labels, rotation=90, fontsize=7)
    axes.axhline(0.0, color="0.5", linewidth=0.8)
    axes.set_ylabel("relative error, 3 deviations")
    axes.legend()
    context.files["values"] = save_figure(figure, context.path("-values.png"))


def run(context: Context) -> Result:
    """Identify from flights recorded in MuJoCo, then from motions on the floor."""
    rng = context.rng
    flight = fly(context, rng, (1, 119) if context.quick else (4, 199))
    floor, differences = stand(context, rng, (2, 40) if context.quick else (8, 60))
    plot_values(context, {"floor, our engine": floor, "flight, MuJoCo": flight})
    figures: dict[str, float | None] = {}
    claims: list[Claim] = []
    for name, part in (("flight in MuJoCo", flight), ("on the floor", floor)):
        for word, what in (("density", "masses"), ("dof", "damping"), ("geom", "friction")):
            errors = part.errors(word)
            if not len(errors):
                continue
            worst, middle = float(errors.max()), float(np.median(errors))
            figures[f"{name}, {what}: median relative error"] = middle
            figures[f"{name}, {what}: largest relative error"] = worst
            holds = middle < 0.05 and worst < 0.15
            text = f"{name}: {what} recovered, median error under 5 % and none over 15 %"
            claims.append(Claim(text, middle, None if context.quick else holds))
        figures[f"{name}: weighted errors over the noise"] = part.estimate.misfit
        figures[f"{name}: iterations"] = part.estimate.iterations
        figures[f"{name}: directions not known to 10 %"] = len(part.estimate.unresolved())
    figures["seconds"] = floor.trace.total_seconds
    figures["seconds with differences"] = differences.trace.total_seconds
    return Result(
        ours=floor.trace,
        baseline=differences.trace,
        figures=figures,
        claims=claims,
        others={"flight": flight.trace},
        notes=list(NOTES),
    )
