"""Steps and gradients of MJX, for bench/mujoco_law.py --mjx (processor) and bench/gpu.py (GPU).

Run by an interpreter that has mujoco-mjx, for MJX_WORLDS worlds on the platform JAX_PLATFORMS;
reads a file or the text of one from its standard input and prints one line of JSON. Its solver's
loop cannot be differentiated backwards, so for the gradient it is held to one iteration with a
fixed line search, as MJX's own environments do: that gradient is not one of the solved problem.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

os.environ.setdefault("XLA_FLAGS", "--xla_cpu_multi_thread_eigen=false")
os.environ.setdefault("JAX_PLATFORMS", "cpu")

import jax
import jax.numpy as jnp
import mujoco
from mujoco import mjx

WORLDS, STEPS = int(os.environ.get("MJX_WORLDS", "64")), 10


def load(text: str) -> mujoco.MjModel:
    """Return the compiled model of a path or of a text."""
    if text.lstrip().startswith("<"):
        return mujoco.MjModel.from_xml_string(text)
    return mujoco.MjModel.from_xml_path(str(Path(text.strip())))


def starts(m: mujoco.MjModel, model: Any) -> Any:
    """Return the states of a batch, after steps of MuJoCo."""
    data = mujoco.MjData(m)
    if m.nkey:
        mujoco.mj_resetDataKeyframe(m, data, 0)
    for _ in range(200):
        mujoco.mj_step(m, data)
    one = mjx.put_data(m, data)
    noise = 0.05 * jax.random.normal(jax.random.PRNGKey(0), (WORLDS, m.nv))
    return jax.vmap(lambda dv: one.replace(qvel=one.qvel + dv))(noise)


def timed(call: Any, *given: Any) -> tuple[float, float]:
    """Return seconds to compile and seconds of a call, the shortest of three."""
    begin = time.perf_counter()
    jax.block_until_ready(call(*given))
    first, times = time.perf_counter() - begin, []
    for _ in range(3):
        begin = time.perf_counter()
        jax.block_until_ready(call(*given))
        times.append(time.perf_counter() - begin)
    return first - min(times), min(times)


def main() -> None:
    """Print the figures."""
    m = load(sys.stdin.read())
    m.opt.solver = int(mujoco.mjtSolver.mjSOL_NEWTON)
    model = mjx.put_model(m)
    data = starts(m, model)

    def steps(given: Any, one: Any) -> Any:
        def body(d: Any, _: None) -> tuple[Any, None]:
            return mjx.step(given, d), None

        return jax.lax.scan(body, one, None, length=STEPS)[0]

    run = jax.jit(jax.vmap(lambda one: steps(model, one).qpos))
    compile_s, spent = timed(run, data)
    out: dict[str, Any] = {"version": mujoco.__version__, "worlds": WORLDS}
    out |= {"compile_s": compile_s, "step_us": spent / (WORLDS * STEPS) * 1e6}
    print(json.dumps(out), flush=True)
    m.opt.iterations, m.opt.ls_iterations = 1, 4
    short = mjx.put_model(m)

    def loss(v: Any, one: Any) -> Any:
        return jnp.sum(steps(short, one.replace(qvel=v)).qpos)

    try:
        back = jax.jit(jax.vmap(jax.grad(loss)))
        compile_s, spent = timed(back, data.qvel, data)
        bad = int(jnp.sum(~jnp.isfinite(back(data.qvel, data)).all(axis=-1)))
        out |= {"gradient_compile_s": compile_s, "gradient_us": spent / (WORLDS * STEPS) * 1e6}
        out |= {"gradient_reason": f"NaN in {bad} of {WORLDS} worlds"} if bad else {}
    except (ValueError, TypeError, NotImplementedError) as error:
        out["gradient_reason"] = str(error).splitlines()[0][:120]
    print(json.dumps(out), flush=True)


if __name__ == "__main__":
    main()
