"""One rollout and its gradient in a fresh process, for bench/tables.py; prints samples as JSON.

python bench/tables_worker.py featherback SCENE.npz SECONDS
python bench/tables_worker.py MuJoCo SCENE.npz SECONDS '{"solver": "Newton"}'
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

import featherback as fb

Vector = NDArray[np.float64]
# takes the rollout, and returns its last state and a call that takes the gradient
Forward = Callable[[], tuple[Vector, Callable[[], Vector]]]


def peak_kb() -> int:
    """Return the largest resident memory of this process so far, in kilobytes."""
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("VmHWM"))


def forget_peak() -> None:
    """Start the peak of resident memory anew at what is resident now."""
    with open("/proc/self/clear_refs", "w") as file:
        file.write("5")


def ours(q: Vector, v: Vector, u: Vector) -> Forward:
    """Return featherback's rollout and its vjp."""
    sim = fb.Simulator(fb.models.laikago(), threads=1)

    def forward() -> tuple[Vector, Callable[[], Vector]]:
        roll = sim.rollout(q, v, u)

        def backward() -> Vector:
            g = roll.vjp(np.ones_like(q), np.ones_like(v))
            return np.concatenate([np.ravel(a) for a in (g.q, g.v, g.u)])

        return np.concatenate([roll.q[-1], roll.v[-1]]), backward

    return forward


def differences(q: Vector, v: Vector, u: Vector, setting: dict[str, Any]) -> Forward:
    """Return MuJoCo's rollout, and its gradient from mjd_transitionFD at every state.

    The gradient is in tangent space: 2 nv numbers of the initial state, then the controls.
    """
    import mujoco
    from mujoco import rollout as mujoco_rollout
    from peer import STATE, STEP, Setting

    model = Setting(**setting).apply(fb.models.laikago().mujoco)
    data = mujoco.MjData(model)
    data.qpos[:], data.qvel[:] = q, v
    start = np.zeros((1, mujoco.mj_stateSize(model, STATE)))
    mujoco.mj_getState(model, data, start[0], STATE)
    n = model.nv

    def forward() -> tuple[Vector, Callable[[], Vector]]:
        states = mujoco_rollout.rollout(model, data, start, u[None])[0][0]

        def backward() -> Vector:
            A, B = np.zeros((2 * n, 2 * n)), np.zeros((2 * n, model.nu))
            bar, u_bar = np.ones(2 * n), np.zeros_like(u)
            for t in range(len(u) - 1, -1, -1):
                mujoco.mj_setState(model, data, states[t - 1] if t else start[0], STATE)
                data.ctrl[:] = u[t]
                mujoco.mjd_transitionFD(model, data, STEP, False, A, B, None, None)
                u_bar[t] = bar @ B
                bar = bar @ A
            return np.concatenate([bar, u_bar.ravel()])

        return states[-1][1 : 1 + model.nq + n], backward

    return forward


def main(arguments: list[str]) -> None:
    """Run once for the peak of memory, again until the seconds are spent; see the module."""
    tool, path, seconds = arguments[0], arguments[1], float(arguments[2])
    with np.load(path, allow_pickle=False) as scene:
        q, v, u = scene["q"], scene["v"], scene["u"]

    def tool_on(u: Vector) -> Forward:
        if tool == "featherback":
            return ours(q, v, u)
        return differences(q, v, u, json.loads(arguments[3]))

    forward = tool_on(u)
    # code is loaded and scratch allocated by a short run, which is part of the idle process
    tool_on(u[:2])()[1]()
    forget_peak()
    idle, peak = peak_kb(), 0
    samples: dict[str, list[float]] = {"forward": [], "backward": []}
    state, gradient = np.zeros(0), np.zeros(0)
    start = time.perf_counter()
    for turn in range(200):
        clock = time.perf_counter(), time.process_time()
        state, backward = forward()
        samples["forward"] += [time.perf_counter() - clock[0], time.process_time() - clock[1]]
        clock = time.perf_counter(), time.process_time()
        gradient = backward()
        samples["backward"] += [time.perf_counter() - clock[0], time.process_time() - clock[1]]
        peak = peak_kb() if turn == 0 else peak
        if time.perf_counter() - start > seconds:
            break
    # the first run warms up where there are others
    kept = {k: s[2:] if len(s) > 2 else s for k, s in samples.items()}
    report = {"idle_kb": idle, "peak_kb": peak, "state": state.tolist(), **kept}
    print(json.dumps({**report, "gradient": gradient.tolist()}))


if __name__ == "__main__":
    main(sys.argv[1:])
