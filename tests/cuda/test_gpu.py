"""The jobs on a real GPU; skipped by name where there is none. Run by make testgpu."""

import pickle

import numpy as np
import pytest

import featherback as fb
from featherback.errors import FeatherbackError
from featherback.sim import cuda
from featherback.sim.cuda_device import CudaDevice, kernel_file
from tests.cuda import cases

pytestmark = pytest.mark.gpu


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


def test_pickled(gpu: CudaDevice) -> None:
    """Come out of a pickle on the same GPU."""
    sim = fb.Simulator(fb.models.pendulum(), device="cuda")
    again = pickle.loads(pickle.dumps(sim))
    assert again.device == "cuda:0"
    q, v = np.array([0.3]), np.array([0.1])
    assert np.array_equal(sim.step(q, v)[0], again.step(q, v)[0])
