from typing import Annotated

from numpy.typing import NDArray


def isa() -> str:
    """Instruction set of the kernels in use."""

def available_isas() -> list[str]:
    """Instruction sets this processor and build offer."""

def size_names() -> list[str]:
    """Sizes that an Engine is built from."""

def table_names() -> list[str]:
    """Integer tables, in any order."""

def parameter_names() -> list[str]:
    """Physical parameters in the order in which they lie in a flat array."""

CONTACT_NUMBERS: int = 10

class Engine:
    """One model compiled for stepping; see featherback.Simulator."""

    def __init__(self, sizes: dict, tables: dict, theta: Annotated[NDArray, dict(order='C', device='cpu', writable=False)], vert: Annotated[NDArray, dict(order='C', device='cpu', writable=False)], options: dict, isa: str, threads: int) -> None: ...

    @property
    def theta_numbers(self) -> int: ...

    @property
    def derived_numbers(self) -> int: ...

    def step_one(self, q: object | None, v: object | None, u: object | None) -> object: ...

    def linearize_one(self, q: object | None, v: object | None, u: object | None) -> object: ...

    def rollout(self, q: Annotated[NDArray, dict(order='C', device='cpu')], v: Annotated[NDArray, dict(order='C', device='cpu')], u: object | None, theta: object | None, status: Annotated[NDArray, dict(order='C', device='cpu')], status_step: Annotated[NDArray, dict(order='C', device='cpu')], residual: Annotated[NDArray, dict(order='C', device='cpu')], sweeps: Annotated[NDArray, dict(order='C', device='cpu')], progress: object | None) -> None: ...

    def vjp(self, q: Annotated[NDArray, dict(order='C', device='cpu', writable=False)], v: Annotated[NDArray, dict(order='C', device='cpu', writable=False)], u: object | None, theta: object | None, q_bar: Annotated[NDArray, dict(order='C', device='cpu')], v_bar: Annotated[NDArray, dict(order='C', device='cpu')], u_bar: Annotated[NDArray, dict(order='C', device='cpu')], theta_bar: object | None, status: Annotated[NDArray, dict(order='C', device='cpu')], status_step: Annotated[NDArray, dict(order='C', device='cpu')]) -> None: ...

    def jvp(self, q: Annotated[NDArray, dict(order='C', device='cpu', writable=False)], v: Annotated[NDArray, dict(order='C', device='cpu', writable=False)], u: object | None, theta: object | None, directions: tuple, q_dot: Annotated[NDArray, dict(order='C', device='cpu')], v_dot: Annotated[NDArray, dict(order='C', device='cpu')], status: Annotated[NDArray, dict(order='C', device='cpu')], status_step: Annotated[NDArray, dict(order='C', device='cpu')]) -> None: ...

    def linearize(self, q: Annotated[NDArray, dict(order='C', device='cpu', writable=False)], v: Annotated[NDArray, dict(order='C', device='cpu', writable=False)], u: object | None, theta: object | None, A: Annotated[NDArray, dict(order='C', device='cpu')], B: Annotated[NDArray, dict(order='C', device='cpu')], status: Annotated[NDArray, dict(order='C', device='cpu')], status_step: Annotated[NDArray, dict(order='C', device='cpu')]) -> None: ...

    def evaluate(self, job: str, q: Annotated[NDArray, dict(order='C', device='cpu', writable=False)], v: object | None, x: object | None, y: Annotated[NDArray, dict(order='C', device='cpu')], theta: object | None) -> None: ...

    def contacts(self, q: Annotated[NDArray, dict(order='C', device='cpu', writable=False)], v: Annotated[NDArray, dict(order='C', device='cpu', writable=False)], u: object | None, theta: object | None, numbers: Annotated[NDArray, dict(order='C', device='cpu')], ids: Annotated[NDArray, dict(order='C', device='cpu')], count: Annotated[NDArray, dict(order='C', device='cpu')], overflow: Annotated[NDArray, dict(order='C', device='cpu')]) -> None: ...
