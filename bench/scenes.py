"""Initial states and controls, the same for both engines."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

import featherback as fb

SEED = 20240
WARM = 100  # untimed steps, so that each engine is timed in its own contact regime
HOLD = 10  # steps for which a random control is held: 20 ms
SWING = 0.2  # largest distance of a servo target from the stand pose [rad]


@dataclass(frozen=True)
class Scene:
    """A model with worlds to roll out.

    Attributes:
        model: the model.
        q: float64[worlds, nq], initial configurations.
        v: float64[worlds, nv].
        warm: float64[worlds, WARM, nu], controls of the untimed steps.
        u: float64[worlds, steps, nu], controls of the timed steps.
    """

    model: fb.Model
    q: NDArray[np.float64]
    v: NDArray[np.float64]
    warm: NDArray[np.float64]
    u: NDArray[np.float64]

    @property
    def worlds(self) -> int:
        """Number of worlds."""
        return len(self.q)

    @property
    def steps(self) -> int:
        """Number of timed steps."""
        return int(self.u.shape[1])

    def first(self, worlds: int) -> Scene:
        """Return the same scene with its first worlds only."""
        return Scene(self.model, *(a[:worlds] for a in (self.q, self.v, self.warm, self.u)))

    def shortened(self, steps: int) -> Scene:
        """Return the same scene with its first timed steps only."""
        return replace(self, u=np.ascontiguousarray(self.u[:, :steps]))


def laikago_scene(robots: int, worlds: int, steps: int) -> Scene:
    """Return Laikagos on the ground, servo targets drawn around the stand pose every 20 ms."""
    model = fb.models.laikago(robots=robots)
    q, v = model.keyframe("stand")
    rng = np.random.default_rng(SEED)
    joints = np.concatenate([19 * robot + np.arange(7, 19) for robot in range(robots)])
    start = np.tile(q, (worlds, 1))
    start[:, joints] += rng.uniform(-0.02, 0.02, (worlds, len(joints)))
    draws = -(-(WARM + steps) // HOLD)
    swing = np.repeat(rng.uniform(-SWING, SWING, (worlds, draws, model.nu)), HOLD, axis=1)
    controls = q[joints] + swing
    return Scene(
        model,
        start,
        np.tile(v, (worlds, 1)),
        np.ascontiguousarray(controls[:, :WARM]),
        np.ascontiguousarray(controls[:, WARM : WARM + steps]),
    )


def chain_scene(links: int, steps: int, held: bool) -> Scene:
    """Return one hanging chain of links, its tip held in the world by three rows if asked."""
    text = fb.models.chain_xml(links)
    if held:
        tip = f'<equality><connect body1="link{links - 1}" anchor="0 0 -0.1"/></equality>'
        text = text.replace("</mujoco>", f"  {tip}\n</mujoco>")
    model = fb.load(text, name="chain")
    rng = np.random.default_rng(SEED)
    q = np.zeros((1, model.nq)) if held else rng.uniform(-0.05, 0.05, (1, model.nq))
    v = rng.uniform(-0.1, 0.1, (1, model.nv)) / links
    return Scene(model, q, v, np.zeros((1, 0, 0)), np.zeros((1, steps, 0)))
