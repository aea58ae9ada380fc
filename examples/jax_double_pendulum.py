"""Swing a double pendulum up with torques too weak to lift it: optax on rollout gradients."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import optax

import featherback as fb
import featherback.jax as fbj

jax.config.update("jax_enable_x64", True)

STEPS, DT, LIMIT = 250, 0.01, 6.0  # 2.5 s; holding both links level takes 14.7 N·m
UPRIGHT = np.array([np.pi, 0.0])


def main() -> tuple[float, float]:
    """Optimize the torques; return the last state's distance from upright and speed."""
    sim = fb.Simulator(fb.models.pendulum(2), dt=DT)
    q0, v0 = np.zeros(2), np.zeros(2)

    def loss(x: jax.Array) -> jax.Array:
        u = LIMIT * jnp.tanh(x)
        roll = fbj.rollout(sim, q0, v0, u)
        # angles enter through sines and cosines: a full turn more is upright too
        gap = 2 - 2 * jnp.cos(jnp.cumsum(roll.q - UPRIGHT, axis=-1))
        late = jnp.linspace(0, 1, STEPS + 1)[:, None] ** 8
        end = jnp.sum(gap[-1]) + 0.05 * jnp.sum(roll.v[-1] ** 2)
        return end + 0.01 * jnp.sum(late * gap) + 1e-4 * jnp.sum(u**2) / STEPS

    rate = optax.cosine_decay_schedule(0.1, 1500)
    method = optax.chain(optax.clip_by_global_norm(1.0), optax.adam(rate))

    @jax.jit
    def improve(x: jax.Array, state: optax.OptState) -> tuple[jax.Array, optax.OptState, jax.Array]:
        value, gradient = jax.value_and_grad(loss)(x)
        change, state = method.update(gradient, state)
        return x + change, state, value

    x = 0.1 * jax.random.normal(jax.random.key(0), (STEPS, 2))
    state = method.init(x)
    for i in range(1500):
        x, state, value = improve(x, state)
        if i % 300 == 0:
            print(f"iteration {i:4d}: loss {value:.4f}")
    # the check is the Simulator's own rollout of the torques found
    roll = sim.rollout(q0, v0, LIMIT * np.tanh(np.asarray(x)))
    angle = np.abs(np.angle(np.exp(1j * np.cumsum(roll.q[-1] - UPRIGHT)))).max()
    print(
        f"at {STEPS * DT:g} s: {angle:.4f} rad from upright, {np.abs(roll.v[-1]).max():.4f} rad/s"
    )
    return float(angle), float(np.abs(roll.v[-1]).max())


if __name__ == "__main__":
    ANGLE, SPEED = main()
    assert ANGLE < 0.05 and SPEED < 0.2
