"""Rollouts and their adjoints on arrays that already lie on the GPU, by address.

For what hands out such arrays: `cuda_arrays`, and bridges to frameworks. Nothing is checked here
and nothing is copied; strides count numbers.
"""

from __future__ import annotations

from dataclasses import dataclass

from featherback.sim.cuda import CudaEngine


@dataclass(frozen=True)
class DevicePath:
    """States and controls of a rollout, with its parameters.

    Attributes:
        worlds: number of worlds.
        steps: number of steps.
        x: address of the states, and from world to world and from row to row.
        u: the same of the controls; all zero where there are none.
        theta: address of the parameters, 0 for the simulator's own.
        own: whether each world has its own parameters.
    """

    worlds: int
    steps: int
    x: tuple[int, int, int]
    u: tuple[int, int, int]
    theta: int = 0
    own: bool = False

    def common(self, engine: CudaEngine) -> list[int]:
        """Return the words of the part that every task has."""
        if not self.theta:
            return engine.own_words(self.worlds)
        return engine.theta_words(self.theta, self.worlds, self.own)


@dataclass(frozen=True)
class DeviceBars:
    """Addresses of what an adjoint reads and writes.

    Attributes:
        x: real[worlds, nx], changed.
        u: real[worlds, steps, nu], written; 0 where there are no controls.
        x_cot: real[worlds, rows, nx] of the last rows, 0 for none.
        rows: of x_cot.
        theta: real[worlds, ntheta + nderived], added to; 0 where nobody asks.
    """

    x: int
    u: int = 0
    x_cot: int = 0
    rows: int = 0
    theta: int = 0


def run_rollout(engine: CudaEngine, path: DevicePath, status: tuple[int, int]) -> None:
    """Advance from row 0 of the states; status and its step are addresses of int32[worlds]."""
    if not path.worlds or not path.steps:
        return
    head = [*path.common(engine), *path.x, *path.u, path.x[0]]

    def words(first: int, last: int) -> list[int]:
        return [*head, first, last, *status, 0, 0, 0]

    engine.seconds.pop("rollout", None)
    engine.run("rollout", path.worlds, path.steps, words)


def run_vjp(
    engine: CudaEngine,
    path: DevicePath,
    bars: DeviceBars,
    sizes: tuple[int, int],
    status: tuple[int, int],
) -> None:
    """Run the adjoint backwards over all steps; sizes are those of a state and of a control."""
    if not path.worlds or not path.steps:
        return
    steps, (nx, nu) = path.steps, sizes
    head = [*path.common(engine), *path.x, *path.u, steps]
    wide = engine.theta_size + engine.derived_size
    tail = [bars.x_cot, bars.rows, bars.x, nx, bars.u, steps * nu, bars.theta, wide, 1]

    def words(first: int, last: int) -> list[int]:
        return [*head, steps - last, steps - first, *tail, *status, 0, 0, 0]

    engine.seconds.pop("vjp", None)
    engine.run("vjp", path.worlds, steps, words)
