"""The jobs on a real GPU; skipped by name where there is none. Run by make testgpu."""

import os
import pickle
from types import ModuleType

import numpy as np
import pytest

import featherback as fb
from featherback.errors import FeatherbackError, ParameterError
from featherback.sim import cuda, cuda_arrays
from featherback.sim.cuda_device import CudaDevice, kernel_file
from tests.cuda import cases, job_cases

# torch's own modules warn of their own functions
pytestmark = [
    pytest.mark.gpu,
    pytest.mark.filterwarnings("ignore:.*torch.jit.*:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:.*should not be instantiated:DeprecationWarning"),
]


@pytest.fixture(scope="module")
def gpu() -> CudaDevice:
    """Return the first GPU, or skip."""
    try:
        kernel_file("test", "rollout", "float64")
        device = CudaDevice("test", 0)
    except FeatherbackError as error:
        pytest.skip(str(error))
    cuda._devices[0] = device
    return device


def test_float64_is_the_processors(gpu: CudaDevice) -> None:
    """Give the rollouts and gradients of the processor in float64."""
    cases.check_laikago(1e-9)


def test_float32_is_within_its_rounding(gpu: CudaDevice) -> None:
    """Give rollouts in float32 that are as near to float64 as the processor's are."""
    model, q, v, u = cases.laikago(40, 20)
    exact = fb.Simulator(model, **cases.SMALL).rollout(q, v, u)
    sims = [
        fb.Simulator(model, dtype="float32", device=device, **cases.SMALL)
        for device in ("cuda", "cpu")
    ]
    errors = [np.abs(sim.rollout(q, v, u).q - exact.q).max() for sim in sims]
    assert errors[0] < 2 * errors[1] + 1e-5


def test_random_scenes(gpu: CudaDevice) -> None:
    """Give the rollouts and gradients of the processor in random scenes with contacts."""
    cases.check_random_scenes(20, 1e-9)


def test_mujocos_law(gpu: CudaDevice) -> None:
    """Give the rollouts and gradients of the processor under MuJoCo's law."""
    cases.check_random_scenes(6, 1e-9, contact="mujoco")


def test_bits_do_not_depend_on_the_batch(gpu: CudaDevice) -> None:
    """Give the same bits for any number of worlds, place among them and size of blocks."""
    cases.check_bits()


def test_bad_worlds_stay_alone(gpu: CudaDevice) -> None:
    """Leave all other worlds as they are where some leave the finite numbers."""
    cases.check_bad_worlds()


def test_pieces(gpu: CudaDevice) -> None:
    """Give the same bits where the worlds are run in pieces for want of memory."""
    cases.check_pieces(gpu, 2**28 + 200_000)


def test_single_world(gpu: CudaDevice) -> None:
    """Step, differentiate and checkpoint one world as the processor does."""
    cases.check_single_world()


def test_jvp(gpu: CudaDevice) -> None:
    """Give the directional derivatives of the processor."""
    cases.check_jvp(1e-9)


@pytest.mark.parametrize("kind", job_cases.KINDS)
@pytest.mark.parametrize("name", ["linearize", "contacts", "every_output", "second_order"])
def test_other_jobs(gpu: CudaDevice, name: str, kind: str) -> None:
    """Give what the processor gives, on the GPU where the kernels are built."""
    getattr(job_cases, f"check_{name}")(kind, 1e-9)


def test_pickled(gpu: CudaDevice) -> None:
    """Come out of a pickle on the same GPU."""
    sim = fb.Simulator(fb.models.pendulum(), device="cuda")
    again = pickle.loads(pickle.dumps(sim))  # noqa: S301
    assert again.device == "cuda:0"
    q, v = np.array([0.3]), np.array([0.1])
    assert np.array_equal(sim.step(q, v)[0], again.step(q, v)[0])


def test_tensors_of_torch(gpu: CudaDevice) -> None:
    """Roll out and differentiate CUDA tensors in place, with the bits of NumPy's arrays."""
    torch = pytest.importorskip("torch")
    if not torch.cuda.is_available():
        pytest.skip("torch has no CUDA here")
    model, q, v, u = cases.laikago(50, 10)
    sim = fb.Simulator(model, device="cuda", **cases.SMALL)
    x = torch.empty((50, 11, cuda_arrays.state_size(sim)), dtype=torch.float64, device="cuda")
    x[:, 0] = torch.tensor(np.concatenate([q, v], axis=1), device="cuda")
    controls = torch.tensor(u, device="cuda")
    status = cuda_arrays.rollout(sim, x, controls)
    want = sim.rollout(q, v, u)
    assert not status.any()
    assert np.array_equal(x[:, :, : model.nq].cpu().numpy(), want.q)
    x_bar, u_bar = torch.ones_like(x[:, -1]), torch.empty_like(controls)
    cuda_arrays.vjp(sim, x, controls, x_bar, u_bar)
    gradient = want.vjp(np.ones_like(want.q[:, -1]), np.ones_like(want.v[:, -1]))
    assert np.array_equal(u_bar.cpu().numpy(), gradient.u)
    assert np.array_equal(x_bar.cpu().numpy()[:, model.nq :], gradient.v)
    with pytest.raises(ParameterError, match="the simulator's is float64"):
        cuda_arrays.rollout(sim, x.float(), controls)
    with pytest.raises(ParameterError, match="does not lie on a GPU"):
        cuda_arrays.rollout(sim, x.cpu(), controls)
    with pytest.raises(ParameterError, match="not contiguous"):
        cuda_arrays.rollout(sim, x.transpose(0, 1).contiguous().transpose(0, 1), controls)


TORCH = ("rollout", "one_world", "closed_loop", "transformed", "outputs", "layer")


@pytest.mark.parametrize("name", TORCH)
def test_functions_of_torch(gpu: CudaDevice, name: str) -> None:
    """Give what the processor gives for tensors that stay on the GPU."""
    torch = pytest.importorskip("torch")
    if not torch.cuda.is_available():
        pytest.skip("torch has no CUDA here")
    from tests.cuda import torch_cases

    getattr(torch_cases, f"check_{name}")(1e-9)


def test_refusals_of_torch(gpu: CudaDevice) -> None:
    """Say what is wrong with tensors as the processor does."""
    torch = pytest.importorskip("torch")
    if not torch.cuda.is_available():
        pytest.skip("torch has no CUDA here")
    from tests.cuda import torch_cases

    torch_cases.check_refusals()
    sim = fb.Simulator(fb.models.pendulum(), device="cuda")
    import featherback.torch as fbt

    one = torch.zeros(1, dtype=torch.float64)
    with pytest.raises(fb.ShapeError, match='v is on device "cpu"'):
        fbt.step(sim, one.cuda(), one)


def test_streams_of_torch(gpu: CudaDevice) -> None:
    """Wait for what was started on the tensors' own stream, and be waited for there."""
    torch = pytest.importorskip("torch")
    if not torch.cuda.is_available():
        pytest.skip("torch has no CUDA here")
    import featherback.torch as fbt

    model, q, v, u = cases.laikago(64, 4)
    sim = fb.Simulator(model, device="cuda", **cases.SMALL)
    want = sim.rollout(q, v, u)
    given = [torch.tensor(a, device="cuda") for a in (q, v, u)]
    torch.cuda.synchronize()
    with torch.cuda.stream(torch.cuda.Stream()):
        # a long matter on this stream, at the end of which the inputs are what they should be
        late = [torch.full_like(x, 7.0) for x in given]
        torch.cuda._sleep(200_000_000)
        for x, y in zip(late, given, strict=True):
            x.copy_(y)
        found = fbt.rollout(sim, *late).q.clone()
        torch.cuda.current_stream().synchronize()
    assert np.array_equal(found.cpu().numpy(), want.q)


@pytest.fixture(scope="module")
def jax_cases(gpu: CudaDevice) -> ModuleType:
    """Return the checks of JAX's arrays, or skip."""
    # JAX takes most of the memory otherwise, and scratch needs its own
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
    jax = pytest.importorskip("jax")
    try:
        jax.devices("cuda")
    except RuntimeError as error:
        pytest.skip(f"JAX has no CUDA here: {error}")
    jax.config.update("jax_enable_x64", True)
    from tests.cuda import jax_cases

    return jax_cases


JAX = ("rollout", "one_world", "parts", "closed_loop", "mapped", "forward", "outputs")


@pytest.mark.parametrize("name", JAX)
def test_functions_of_jax(jax_cases: ModuleType, name: str) -> None:
    """Give what the processor gives for JAX's arrays that stay on the GPU."""
    getattr(jax_cases, f"check_{name}")(1e-9)


@pytest.mark.parametrize("name", ["single_precision", "threads", "life", "refusals", "status"])
def test_calls_of_jax(jax_cases: ModuleType, name: str) -> None:
    """Give the bits of NumPy's calls, tell what goes wrong, and keep engines apart."""
    getattr(jax_cases, f"check_{name}")()


def test_order_of_jax(jax_cases: ModuleType) -> None:
    """Wait for what XLA computes before a call, and be waited for."""
    jax_cases.check_order(2000)
