from collections.abc import Mapping, Sequence
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

def shape_types() -> list[tuple[str, int]]:
    """Shapes of geoms: (name, MuJoCo's number)."""

def pair_table() -> list[tuple[str, int, int, int, int]]:
    """Pairs of shapes that can touch: (name, kind, shape A, shape B, contact points)."""

CONTACT_NUMBERS: int = 10

TRACE_NUMBERS: int = 5

class Engine:
    """One model compiled for stepping; see featherback.Simulator."""

    def __init__(self, sizes: dict, tables: dict, theta: Annotated[NDArray, dict(order='C', device='cpu', writable=False)], vert: Annotated[NDArray, dict(order='C', device='cpu', writable=False)], options: dict, isa: str, threads: int) -> None: ...

    @property
    def theta_size(self) -> int: ...

    @property
    def derived_size(self) -> int: ...

    @property
    def workspace_bytes(self) -> int: ...

    def step_one(self, q: object | None, v: object | None, u: object | None) -> object: ...

    def linearize_one(self, q: object | None, v: object | None, u: object | None) -> object: ...

    def rollout(self, arrays: dict, progress: object | None) -> None: ...

    def vjp(self, arrays: dict) -> None: ...

    def jvp(self, arrays: dict) -> None: ...

    def hvp(self, arrays: dict) -> None: ...

    def linearize(self, q: Annotated[NDArray, dict(order='C', device='cpu', writable=False)], v: Annotated[NDArray, dict(order='C', device='cpu', writable=False)], u: object | None, theta: object | None, A: Annotated[NDArray, dict(order='C', device='cpu')], B: Annotated[NDArray, dict(order='C', device='cpu')], status: Annotated[NDArray, dict(order='C', device='cpu')], status_step: Annotated[NDArray, dict(order='C', device='cpu')]) -> None: ...

    def evaluate(self, job: str, q: Annotated[NDArray, dict(order='C', device='cpu', writable=False)], v: object | None, x: object | None, y: Annotated[NDArray, dict(order='C', device='cpu')], theta: object | None, bars: dict) -> None: ...

    def contacts(self, q: Annotated[NDArray, dict(order='C', device='cpu', writable=False)], v: Annotated[NDArray, dict(order='C', device='cpu', writable=False)], u: object | None, theta: object | None, numbers: Annotated[NDArray, dict(order='C', device='cpu')], ids: Annotated[NDArray, dict(order='C', device='cpu')], count: Annotated[NDArray, dict(order='C', device='cpu')], overflow: Annotated[NDArray, dict(order='C', device='cpu')]) -> None: ...

class EnginePool:
    """Engines of one model for XLA; see featherback.jax."""

    def __init__(self, engine: Engine, key: int, sentences: Mapping[int, str], bounds: Sequence[tuple[str, int, float, float, str]], rules: Sequence[tuple[str, int, int, str]]) -> None: ...

def xla_handlers() -> dict:
    """Handlers of XLA's foreign function interface, by name and stage."""

def xla_state_type() -> dict:
    """What a compiled function holds of a Simulator, as XLA registers types."""
