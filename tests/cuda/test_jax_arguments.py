"""What featherback.jax refuses of devices, and tells XLA of a GPU; one on paper stands for it."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

pytest.importorskip("jax", reason="JAX is not installed; install featherback[jax]")

import jax
import jax.numpy as jnp

import featherback as fb
import featherback.jax as fbj
from featherback.errors import ParameterError
from featherback.jax.device import DeviceEngines
from featherback.jax.spread import spread
from featherback.sim import cuda
from tests.cuda.paper_device import PaperDevice

jax.config.update("jax_enable_x64", True)
Z = np.zeros(2)


def pendulum(device: str = "cuda") -> fb.Simulator:
    """Return a simulator of a double pendulum on a GPU."""
    return fb.Simulator(fb.models.pendulum(2), device=device)


@pytest.fixture(autouse=True)
def paper(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Put devices on paper in the place of two GPUs."""
    monkeypatch.setattr(cuda, "_devices", {0: PaperDevice(), 1: PaperDevice()})
    yield
    jax.clear_caches()


@pytest.fixture
def known(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let JAX pass for one that knows CUDA."""
    monkeypatch.setattr(DeviceEngines, "require_platform", lambda self: None)


def test_several_gpus() -> None:
    """Ask for one simulator for each GPU."""
    with pytest.raises(ParameterError, match="the simulator runs on several GPUs"):
        fbj.step(pendulum("cuda:0,1"), Z, Z)


def test_without_cuda() -> None:
    """Say that this JAX has no GPU."""
    if any(device.platform == "gpu" for device in jax.devices()):
        pytest.skip("JAX has a GPU here")
    with pytest.raises(ParameterError, match='JAX has no platform "cuda" here'):
        fbj.step(pendulum(), Z, Z)


@pytest.mark.usefixtures("known")
def test_arrays_elsewhere() -> None:
    """Refuse arrays that lie on the processor, and computations that are placed there."""
    here = jax.devices("cpu")[0]
    with jax.default_device(here):
        with pytest.raises(ParameterError, match=r'step\(\): v lies on .*computes on "cuda:0"'):
            fbj.step(pendulum(), Z, jnp.zeros(2))
        with pytest.raises(ParameterError, match=r'an input lies on .*computes on "cuda:0"'):
            fbj.step(pendulum(), Z, Z)
        sim = pendulum()
        with pytest.raises(NotImplementedError, match=r'placed on cpu.*computes on "cuda:0"'):
            jax.jit(lambda q: fbj.step(sim, q, q))(Z)


@pytest.mark.usefixtures("known")
def test_wrong_numbers() -> None:
    """Refuse another number type, as on the processor."""
    with pytest.raises(fb.ShapeError, match="q has dtype float32 and the Simulator is float64"):
        jax.eval_shape(lambda q: fbj.step(pendulum(), q, q), jnp.zeros(2, jnp.float32))


@pytest.mark.usefixtures("known")
def test_calls_on_cuda() -> None:
    """Call back on the GPU, with what is changed in place: two calls for a gradient, one before."""
    sim = pendulum()
    total: Any = jax.grad(lambda q: fbj.rollout(sim, q, q, steps=3).q.sum())
    text = jax.jit(total).trace(Z).lower(lowering_platforms=("cuda",)).as_text()
    calls = [line for line in text.splitlines() if "stablehlo.custom_call" in line]
    assert [line.split("@")[1].split("(")[0] for line in calls] == (
        ["xla_buffer_python_gpu_callback"] * 3
    )
    # states, status and its step; three bars with those; three bars
    assert [line.count("#stablehlo.output_operand_alias") for line in calls] == [3, 5, 3]


def test_sums_on_cuda() -> None:
    """Add the gradients of worlds at once on a GPU, and one after the other on the processor."""
    run: Any = jax.jit(jax.grad(lambda x: spread(x, 100).sum()))
    for platform, loops in (("cuda", False), ("cpu", True)):
        text = run.trace(Z).lower(lowering_platforms=(platform,)).as_text()
        assert ("stablehlo.while" in text) == loops


@pytest.mark.usefixtures("known")
def test_buffers_of_another_gpu() -> None:
    """Refuse buffers of another device than the simulator's when XLA hands them over."""

    class Buffer:
        """A buffer on the second GPU."""

        shape = (1, 2)

        def __dlpack_device__(self) -> tuple[int, int]:
            """Return where it lies."""
            return (2, 1)

    engines = DeviceEngines(pendulum())
    message = 'placed on "cuda:1" and the simulator computes on "cuda:0"'
    with pytest.raises(ParameterError, match=message), engines.opened(None, [Buffer()]):
        pass


@pytest.mark.usefixtures("known")
def test_an_engine_for_each_stream() -> None:
    """Launch on the stream that XLA gives, by an engine that belongs to it."""

    class Context:
        """What XLA hands over of a call."""

        def __init__(self, stream: int) -> None:
            """Hold the stream."""
            self.stream = stream

    engines, found = DeviceEngines(pendulum()), []
    for stream in (7, 8, 7):
        with engines.opened(Context(stream), []) as on:
            found.append(on.engine)
            assert not on.engine.waits
    assert found[0] is found[2] is not found[1]
