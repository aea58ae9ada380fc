"""JAX's arrays on the simulator's device, where the device is the processor."""

from collections.abc import Callable

import pytest

pytest.importorskip("jax", reason="JAX is not installed; install featherback[jax]")

import jax
import numpy as np

import featherback.jax as fbj
from tests.cuda import jax_cases
from tests.cuda.host_device import HostDevice

jax.config.update("jax_enable_x64", True)
pytestmark = pytest.mark.slow

CHECKS = (
    jax_cases.check_rollout,
    jax_cases.check_one_world,
    jax_cases.check_parts,
    jax_cases.check_closed_loop,
    jax_cases.check_mapped,
)
THROUGH_MEMORY = (jax_cases.check_forward, jax_cases.check_outputs)
OTHERS = (
    jax_cases.check_single_precision,
    jax_cases.check_threads,
    jax_cases.check_life,
    jax_cases.check_refusals,
    jax_cases.check_status,
)


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_arrays(device: HostDevice, check: Callable[[float], None]) -> None:
    """Give what the processor gives, by the kernels."""
    before = len(device.launches)
    check(1e-9)
    assert any(name == "job" for name, _, _ in device.launches[before:])


@pytest.mark.parametrize("check", THROUGH_MEMORY, ids=lambda check: check.__name__)
def test_through_memory(device: HostDevice, check: Callable[[float], None]) -> None:
    """Give what the processor gives where it computes."""
    check(1e-9)


@pytest.mark.parametrize("check", OTHERS, ids=lambda check: check.__name__)
def test_calls(device: HostDevice, check: Callable[[], None]) -> None:
    """Tell what goes wrong, and keep engines apart."""
    check()


def test_order(device: HostDevice) -> None:
    """Wait for what XLA computes before a call, and be waited for."""
    jax_cases.check_order(2)


def test_what_waits(device: HostDevice, monkeypatch: pytest.MonkeyPatch) -> None:
    """Wait for nothing in a rollout, and for one number in a gradient; copy neither states."""
    sim, _, (q, v, u) = jax_cases.simulators(2, 3)
    fetched = list[tuple[int, ...]]()
    fetch = device.fetch

    def count(array: np.ndarray, address: int) -> None:
        fetched.append(array.shape)
        fetch(array, address)

    roll = jax.jit(lambda q: fbj.rollout(sim, q, v, u).q)
    bar = jax.jit(jax.grad(lambda q: fbj.rollout(sim, q, v, u).q.sum()))
    jax.block_until_ready((roll(q), bar(q)))
    monkeypatch.setattr(device, "fetch", count)
    monkeypatch.setattr(device, "stop_clock", lambda: pytest.fail("a call waited"))
    jax.block_until_ready(roll(q))
    assert fetched == []
    jax.block_until_ready(bar(q))
    assert fetched == [()]
