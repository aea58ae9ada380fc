"""The engine's other jobs on a GPU: derivatives in forward mode, Jacobians, contacts, outputs.

Each has the arguments of the extension's `Engine` after the engine itself; arrays are NumPy's.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from featherback._core import output_table
from featherback._typing import Ints, Real
from featherback.sim.cuda_frame import Array, Frame, backwards, between
from featherback.sim.outputs import OF_A_STEP

if TYPE_CHECKING:
    from featherback.sim.cuda import CudaEngine


def _each(*arrays: Any) -> int:
    """Return the bytes of one world of arrays that have a world axis first."""
    return sum(a[:1].nbytes for a in arrays if a is not None)


def _in_parts(
    engine: CudaEngine, job: str, worlds: int, each: int, run: Callable[[Frame, int], None]
) -> None:
    """Run a job in pieces of worlds, each with the arrays of its own."""
    engine.device.activate()
    engine.seconds.pop(job, None)
    # what is derived from parameters, where each world has its own, and status
    each += (engine.theta_size + engine.derived_size + 8) * engine.itemsize
    for part in engine.parts(worlds, each):
        frame = Frame(engine, part)
        run(frame, part.stop - part.start)
        frame.finish()


def jvp(
    engine: CudaEngine,
    x: Real,
    u: Real | None,
    theta: Real | None,
    x_dot: Real,
    du: Real | None,
    dtheta: Real | None,
    status: Array,
    status_step: Ints,
) -> None:
    """Run tangents along all states; row 0 of x_dot is read, the others are written."""
    worlds, rows, nx = x.shape
    steps = max(rows - 1, 1)

    def run(frame: Frame, count: int) -> None:
        head = engine.common_words(frame, theta, count)
        head += [frame.read("x", x), rows * nx, nx, *frame.rows("u", u, 0, steps)]
        head += [frame.change("x_dot", x_dot), rows * nx, nx, *frame.rows("du", du, 0, steps)]
        head += frame.row("dtheta", dtheta)
        out = [frame.change("status", status), frame.change("status_step", status_step)]
        engine.run("jvp", count, steps, partial(between, head, out))

    own = [a for a in (u, du) if a is not None and a.ndim == 3]
    _in_parts(engine, "jvp", worlds, _each(x, x_dot, *own), run)


def hvp(
    engine: CudaEngine,
    x: Real,
    u: Real | None,
    theta: Real | None,
    x_dot: Real,
    du: Real | None,
    dtheta: Real | None,
    x_cot: Real | None,
    x_cot_dot: Real | None,
    x_bar: Real,
    x_bar_dot: Real,
    u_bar_dot: Real,
    theta_bar: Real | None,
    theta_bar_dot: Real | None,
    status: Array,
    status_step: Ints,
) -> None:
    """Run the adjoint and its tangent over all states, backwards."""
    worlds, rows, nx = x.shape
    steps, nu = max(rows - 1, 1), u_bar_dot.shape[-1]
    wide = engine.theta_size + engine.derived_size

    def run(frame: Frame, count: int) -> None:
        def given(name: str, cot: Real | None) -> list[int]:
            return [frame.read(name, cot), 0 if cot is None else cot.shape[1]]

        head = engine.common_words(frame, theta, count)
        head += [frame.read("x", x), rows * nx, nx, *frame.rows("u", u, 0, steps), steps]
        tail = [*given("x_cot", x_cot), frame.change("x_bar", x_bar), nx, 0, 0]
        tail += [frame.change("theta_bar", theta_bar), wide, 1]
        tail += [frame.change("status", status), frame.change("status_step", status_step), 0, 0, 0]
        tail += [frame.read("x_dot", x_dot), rows * nx, nx, *frame.rows("du", du, 0, steps)]
        tail += [*frame.row("dtheta", dtheta), *given("x_cot_dot", x_cot_dot)]
        tail += [frame.change("x_bar_dot", x_bar_dot), nx]
        tail += [frame.write("u_bar_dot", u_bar_dot), steps * nu]
        tail += [frame.change("theta_bar_dot", theta_bar_dot), wide]
        engine.run("hvp", count, steps, partial(backwards, head, tail, steps))

    own = [a for a in (u, du) if a is not None and a.ndim == 3]
    own += [x, x_dot, x_cot, x_cot_dot, u_bar_dot, theta_bar, theta_bar_dot]
    _in_parts(engine, "hvp", worlds, _each(*own), run)


def _once(engine: CudaEngine, job: str, count: int, words: list[int]) -> None:
    """Run a job that has no steps."""
    engine.run(job, count, 1, lambda first, last: words)


def linearize(
    engine: CudaEngine,
    x: Real,
    u: Real | None,
    theta: Real | None,
    A: Real,
    B: Real,
    status: Array,
    status_step: Ints,
) -> None:
    """Write the Jacobians of a step."""

    def run(frame: Frame, count: int) -> None:
        words = [*engine.common_words(frame, theta, count), *frame.row("x", x), *frame.row("u", u)]
        words += [frame.write("A", A), frame.write("B", B)]
        words += [frame.change("status", status), frame.change("status_step", status_step)]
        _once(engine, "linearize", count, words)

    _in_parts(engine, "linearize", len(x), _each(x, u, A, B), run)


def contacts(
    engine: CudaEngine,
    x: Real,
    u: Real | None,
    theta: Real | None,
    numbers: Real,
    pair: Ints,
    count: Ints,
    overflow: Array,
) -> None:
    """Write the contacts that a step sees; rows beyond their count keep what they had."""

    def run(frame: Frame, worlds: int) -> None:
        words = [*engine.common_words(frame, theta, worlds), *frame.row("x", x), *frame.row("u", u)]
        words += [frame.change("numbers", numbers), frame.change("pair", pair)]
        words += [frame.write("count", count), frame.write("overflow", overflow)]
        _once(engine, "contacts", worlds, words)

    _in_parts(engine, "contacts", len(x), _each(x, u, numbers, pair), run)


def _output_words(
    engine: CudaEngine, frame: Frame, name: str, inputs: tuple[Real | None, ...], common: list[int]
) -> list[int]:
    """Return the words of an output and of what it is a function of."""
    kind = [row.name for row in output_table()].index(name)
    read = (frame.read(key, a) for key, a in zip(("q", "v", "third"), inputs, strict=True))
    return [*common, kind, *read]


def output(
    engine: CudaEngine,
    name: str,
    q: Real,
    v: Real | None,
    x: Real | None,
    theta: Real | None,
    y: Real,
) -> None:
    """Write an output of each world to y; those that solve for contacts run on the processor."""
    if name in OF_A_STEP:
        engine.host.output(name, q, v, x, theta, y)
        return

    def run(frame: Frame, count: int) -> None:
        common = engine.common_words(frame, theta, count)
        words = _output_words(engine, frame, name, (q, v, x), common)
        _once(engine, "output", count, [*words, frame.write("y", y)])

    _in_parts(engine, "output", len(q), _each(q, v, x, y), run)


def output_vjp(
    engine: CudaEngine,
    name: str,
    q: Real,
    v: Real | None,
    x: Real | None,
    theta: Real | None,
    y_bar: Real,
    q_bar: Real,
    v_bar: Real | None,
    x_bar: Real | None,
    theta_bar: Real | None,
) -> None:
    """Write the gradient of a loss on an output."""
    if name in OF_A_STEP:
        engine.host.output_vjp(name, q, v, x, theta, y_bar, q_bar, v_bar, x_bar, theta_bar)
        return

    def run(frame: Frame, count: int) -> None:
        common = engine.common_words(frame, theta, count)
        words = _output_words(engine, frame, name, (q, v, x), common)
        words += [frame.read("y_bar", y_bar), frame.write("q_bar", q_bar)]
        words += [frame.write("v_bar", v_bar), frame.write("third_bar", x_bar)]
        words += [frame.write("theta_bar", theta_bar), engine.theta_size + engine.derived_size]
        _once(engine, "output_vjp", count, words)

    _in_parts(engine, "output_vjp", len(q), _each(q, v, x, y_bar, q_bar, theta_bar), run)
