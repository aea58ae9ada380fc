"""Steps and rollouts of tensors: bit for bit what the NumPy interface returns, gradients too."""

from __future__ import annotations

import itertools
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("torch", reason="torch is not installed; install featherback[torch]")

import torch

import featherback as fb
import featherback.torch as fbt
from tests.golden.sentences import refused
from tests.torch.scenes import STEPS, Scene, scene, simulator

WORLDS = 3


def tensors(case: Scene, grad: bool = True) -> tuple[torch.Tensor, ...]:
    """Return q, v, u and the parameters of a scene as tensors."""
    arrays = (case.q, case.v, case.u, *case.params.values())
    return tuple(torch.tensor(a, requires_grad=grad) for a in arrays)


def bars(roll: fb.Rollout, seed: int = 1) -> tuple[np.ndarray, np.ndarray]:
    """Return random derivatives of a loss with respect to the states of a rollout."""
    rng = np.random.default_rng(seed)
    return tuple(rng.normal(size=a.shape).astype(a.dtype) for a in (roll.q, roll.v))


def same(found: torch.Tensor | None, expected: np.ndarray) -> None:
    """Assert equal bits, shape and number type."""
    assert found is not None
    array = found.detach().numpy()
    assert array.dtype == expected.dtype
    assert array.shape == expected.shape
    assert array.tobytes() == np.ascontiguousarray(expected).tobytes()


@pytest.mark.parametrize("name", ["cartpole", "laikago"])
@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("worlds", [None, 1, WORLDS])
@pytest.mark.parametrize("own", ["all", "controls", "parameters", "none"])
def test_rollout_equals_numpy(name: str, dtype: str, worlds: int | None, own: str) -> None:
    """Return the states and gradients of the NumPy interface, bit for bit, whatever is shared."""
    case = scene(name, dtype, worlds)
    if worlds is not None and own in ("none", "parameters"):
        case = case._replace(u=case.u[0])
    if worlds is not None and own in ("none", "controls"):
        case = case._replace(params={key: a[0] for key, a in case.params.items()})
    expected = case.sim.rollout(case.q, case.v, case.u, params=case.params)
    q, v, u, *params = tensors(case)
    found = fbt.rollout(case.sim, q, v, u, dict(zip(case.params, params, strict=True)))
    same(found.q, expected.q)
    same(found.v, expected.v)
    assert found.ok
    np.testing.assert_array_equal(found.status, expected.status)
    np.testing.assert_array_equal(found.status_step, expected.status_step)
    q_bar, v_bar = bars(expected)
    gradient = expected.vjp(q_bar, v_bar)
    torch.autograd.backward([found.q, found.v], [torch.tensor(q_bar), torch.tensor(v_bar)])
    same(q.grad, gradient.q)
    same(v.grad, gradient.v)
    # a shared control has the sum over the worlds
    shared = gradient.u.ndim > case.u.ndim
    same(u.grad, gradient.u.sum(axis=0) if shared else gradient.u)
    for tensor, key in zip(params, case.params, strict=True):
        same(tensor.grad, gradient.params[key])


@pytest.mark.parametrize("name", ["cartpole", "laikago"])
@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("worlds", [None, WORLDS])
def test_step_equals_numpy(name: str, dtype: str, worlds: int | None) -> None:
    """Return the next state and gradients of the NumPy interface, bit for bit."""
    case = scene(name, dtype, worlds)
    case = case._replace(u=case.u[..., 0, :])
    expected = case.sim.step(case.q, case.v, case.u, params=case.params)
    q, v, u, *params = tensors(case)
    found = fbt.step(case.sim, q, v, u, dict(zip(case.params, params, strict=True)))
    for x, y in zip(found, expected, strict=True):
        same(x, y)
    roll = case.sim.rollout(case.q, case.v, case.u[..., None, :], params=case.params)
    q_bar, v_bar = bars(roll)
    q_bar[..., 0, :], v_bar[..., 0, :] = 0, 0
    gradient = roll.vjp(q_bar, v_bar)
    torch.autograd.backward(found, [torch.tensor(a[..., 1, :]) for a in (q_bar, v_bar)])
    same(q.grad, gradient.q)
    same(v.grad, gradient.v)
    same(u.grad, gradient.u[..., 0, :])
    for tensor, key in zip(params, case.params, strict=True):
        same(tensor.grad, gradient.params[key])


def test_controls_may_be_left_out_held_or_shared() -> None:
    """Take controls as the NumPy interface does: none, one for all steps, one for all worlds."""
    case = scene("cartpole", worlds=WORLDS)
    q, v = (torch.tensor(a) for a in (case.q, case.v))
    none = fbt.rollout(case.sim, q, v, steps=STEPS)
    same(none.q, case.sim.rollout(case.q, case.v, steps=STEPS).q)
    held = torch.tensor([0.7], dtype=torch.float64, requires_grad=True)
    found = fbt.rollout(case.sim, q, v, held, steps=STEPS)
    expected = case.sim.rollout(case.q, case.v, held.detach().numpy(), steps=STEPS)
    same(found.v, expected.v)
    (bar,) = torch.autograd.grad(found.v.sum(), held)
    gradient = expected.vjp(None, np.ones_like(expected.v)).u
    np.testing.assert_allclose(bar, gradient.sum(axis=(0, 1)), rtol=1e-13)
    same(fbt.step(case.sim, q, v)[0], case.sim.step(case.q, case.v)[0])
    # controls alone may have worlds
    alone = fbt.rollout(case.sim, q[0], v[0], torch.tensor(case.u))
    same(alone.q, case.sim.rollout(case.q[0], case.v[0], case.u).q)


def test_state_shared_by_worlds_has_the_sum_as_gradient() -> None:
    """Sum the gradient over the worlds for a start that has no world axis."""
    case = scene("laikago", worlds=WORLDS)
    q = torch.tensor(case.q[0], requires_grad=True)
    found = fbt.rollout(case.sim, q, torch.tensor(case.v), torch.tensor(case.u))
    (bar,) = torch.autograd.grad(found.q.square().sum(), q)
    starts = np.repeat(case.q[:1], WORLDS, axis=0)
    roll = case.sim.rollout(starts, case.v, case.u)
    np.testing.assert_allclose(bar, roll.vjp(2 * roll.q).q.sum(axis=0), rtol=1e-12, atol=1e-12)


def test_models_without_controls_are_stepped() -> None:
    """Step and differentiate a model that has no actuators."""
    sim = fb.Simulator(fb.models.chain(3))
    q = torch.full((3,), 0.3, dtype=torch.float64, requires_grad=True)
    v = torch.zeros(3, dtype=torch.float64)
    roll = sim.rollout(q.detach().numpy(), v.numpy(), steps=STEPS)
    found = fbt.rollout(sim, q, v, steps=STEPS)
    same(found.q, roll.q)
    (bar,) = torch.autograd.grad(found.q.sum(), q)
    same(bar, roll.vjp(np.ones_like(roll.q)).q)
    (bar,) = torch.autograd.grad(fbt.step(sim, q, v)[1].sum(), q)
    same(bar, sim.rollout(q.detach().numpy(), v.numpy(), steps=1).vjp(None, [[0] * 3, [1] * 3]).q)


@pytest.mark.parametrize("steps", [0, 1])
def test_few_steps_are_rolled_out(steps: int) -> None:
    """Return the start alone for no steps, with the identity as its gradient."""
    case = scene("cartpole")
    q, v, u, *_ = tensors(case)
    found = fbt.rollout(case.sim, q, v, u[:steps])
    same(found.q, case.sim.rollout(case.q, case.v, case.u[:steps]).q)
    (bar,) = torch.autograd.grad(found.q[0].sum(), q)
    np.testing.assert_array_equal(bar, np.ones(2))


def test_layouts_of_memory_do_not_matter() -> None:
    """Take transposed, sliced, expanded and negated tensors."""
    case = scene("laikago", worlds=4)
    base = fbt.rollout(case.sim, *(torch.tensor(a) for a in (case.q, case.v, case.u)))
    q = torch.tensor(case.q.T.copy()).T
    v = torch.tensor(np.repeat(case.v, 2, axis=1))[:, ::2]
    u = torch.view_as_complex(torch.tensor(np.stack([0 * case.u, -case.u], -1))).conj().imag
    assert not q.is_contiguous() and not v.is_contiguous() and u.is_neg()
    leaves = [x.requires_grad_() for x in (q, v, u)]
    found = fbt.rollout(case.sim, *leaves)
    same(found.q, base.q.numpy())
    loss = found.q.transpose(0, 1)[::2].square().sum()
    for bar, x in zip(torch.autograd.grad(loss, leaves), leaves, strict=True):
        assert bar.shape == x.shape
    expanded = torch.tensor(case.q[0]).expand(4, -1)
    np.testing.assert_array_equal(
        fbt.step(case.sim, expanded, v)[0].detach()[2],
        case.sim.step(case.q[0], case.v[2])[0],
    )


def test_any_subset_may_require_gradients() -> None:
    """Return the same gradient for whatever subset of the inputs asks for one."""
    case = scene("laikago")
    q, v, u, *params = tensors(case)
    every = (q, v, u, *params)

    def loss(inputs: tuple[torch.Tensor, ...]) -> torch.Tensor:
        given = dict(zip(case.params, inputs[3:], strict=True))
        found = fbt.rollout(case.sim, *inputs[:3], given)
        return found.q.square().sum() + found.v.sum()

    whole = torch.autograd.grad(loss(every), every)
    for chosen in itertools.product([False, True], repeat=len(every)):
        inputs = tuple(x if wanted else x.detach() for x, wanted in zip(every, chosen, strict=True))
        value = loss(inputs)
        assert value.requires_grad == any(chosen)
        if any(chosen):
            asked = [x for x in inputs if x.requires_grad]
            expected = [bar for bar, wanted in zip(whole, chosen, strict=True) if wanted]
            for bar, other in zip(torch.autograd.grad(value, asked), expected, strict=True):
                assert torch.equal(bar, other)


def test_inputs_are_only_read(tmp_path: Path) -> None:
    """Read from memory that the system protects from writing, where a write ends the process."""
    case = scene("cartpole")
    file = tmp_path / "state"
    file.write_bytes(np.concatenate([case.q, case.v]).tobytes())
    code = f"""
import mmap, warnings, numpy as np, torch, featherback as fb, featherback.torch as fbt
file = open({str(file)!r}, "rb")
page = mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ)
warnings.simplefilter("ignore")
q, v = torch.from_numpy(np.frombuffer(page)).split(2)
sim = fb.Simulator(fb.models.cartpole())
u = torch.zeros(3, 1, dtype=torch.float64, requires_grad=True)
found = fbt.rollout(sim, q, v, u)
found.q.sum().backward()
print(found.q.detach().numpy().tobytes() == sim.rollout(q.numpy(), v.numpy(), steps=3).q.tobytes())
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.stdout, done.returncode) == ("True\n", 0), done.stderr


def test_results_are_their_own() -> None:
    """Return tensors that may be changed without effect on later calls or on the inputs."""
    case = scene("cartpole")
    q, v, u, *_ = tensors(case, grad=False)
    first = fbt.rollout(case.sim, q, v, u)
    kept = first.q.clone()
    first.q.zero_()
    assert torch.equal(fbt.rollout(case.sim, q, v, u).q, kept)
    np.testing.assert_array_equal(q, case.q)


def test_worlds_that_go_wrong_are_told() -> None:
    """Return the status of each world; refuse a gradient through a NaN, by world and step."""
    case = scene("cartpole", worlds=2)
    case.v[1] = 1e200
    u = torch.tensor(case.u, requires_grad=True)
    found = fbt.rollout(case.sim, torch.tensor(case.q), torch.tensor(case.v), u)
    expected = case.sim.rollout(case.q, case.v, case.u)
    assert not found.ok
    np.testing.assert_array_equal(found.status, expected.status)
    np.testing.assert_array_equal(found.status_step, expected.status_step)
    same(found.q[0], expected.q[0])
    with pytest.raises(fb.WorldError) as raised:
        found.raise_if_bad()
    assert str(raised.value) == f"featherback.torch.rollout(): {expected.describe_status()}"
    with pytest.raises(fb.WorldError) as raised:
        found.q[0].sum().backward()
    with pytest.raises(fb.WorldError) as other:
        expected.vjp()
    assert str(raised.value) == str(other.value).replace("vjp()", "featherback.torch.rollout()")


def test_simulator_lives_as_long_as_the_graph() -> None:
    """Differentiate a rollout whose simulator has no other owner."""
    case = scene("cartpole")
    u = torch.tensor(case.u, requires_grad=True)
    found = fbt.rollout(
        fb.Simulator(fb.models.cartpole()), torch.tensor(case.q), torch.tensor(case.v), u
    )
    found.q.sum().backward()
    roll = case.sim.rollout(case.q, case.v, case.u)
    same(u.grad, roll.vjp(np.ones_like(roll.q)).u)


def test_graph_keeps_states_only() -> None:
    """Keep the states and the inputs between forward and backward, and nothing else."""
    case = scene("laikago", worlds=WORLDS)
    inputs = tensors(case)
    sizes: list[int] = []

    def pack(x: torch.Tensor) -> torch.Tensor:
        sizes.append(x.numel() * x.element_size())
        return x

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda x: x):
        found = fbt.rollout(case.sim, *inputs[:3])
    states = sum(x.numel() * x.element_size() for x in (*found, *inputs[:3]))
    assert sum(sizes) == states


def test_import_of_featherback_takes_no_framework() -> None:
    """Import neither torch nor jax with `import featherback` and with a simulation."""
    code = (
        "import sys, featherback as fb\n"
        "fb.Simulator(fb.models.cartpole()).step([0, 0], [0, 0])\n"
        "print([name for name in ('torch', 'jax') if name in sys.modules])\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout == "[]\n", done.stderr


def test_simulators_have_different_handles() -> None:
    """Give each simulator a number of its own, and forget it with the simulator."""
    from featherback.sim.bridge import bridge_of, bridge_of_handle

    one, two = (fb.Simulator(fb.models.cartpole()) for _ in range(2))
    assert bridge_of(one).handle != bridge_of(two).handle
    assert bridge_of_handle(bridge_of(one).handle) is bridge_of(one)
    assert simulator("cartpole") is not one
    handle = bridge_of(one).handle
    del one
    refused(lambda: bridge_of_handle(handle), fb.ParameterError, handle)
