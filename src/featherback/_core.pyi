from collections.abc import Sequence
import enum
from typing import Annotated, overload

import numpy
from numpy.typing import NDArray


def isa() -> str:
    """Instruction set of the kernels in use."""

def available_isas() -> list[str]:
    """Instruction sets this processor and build offer."""

CONTACT_NUMBERS: int = 13

TRACE_NUMBERS: int = 5

class TypeRow:
    """A type by its name and its number in the tables."""

    @property
    def name(self) -> str: ...

    @property
    def number(self) -> int: ...

class JointRow(TypeRow):
    """A type of joints, with its coordinates and dofs."""

    @property
    def nq(self) -> int: ...

    @property
    def nv(self) -> int: ...

class ParameterRow:
    """A physical parameter."""

    @property
    def name(self) -> str: ...

    @property
    def rows(self) -> str:
        """Name of the size that counts its rows, or a number."""

    @property
    def columns(self) -> int:
        """Numbers in a row."""

    @property
    def unit(self) -> str: ...

    @property
    def rule(self) -> str: ...

    @property
    def least(self) -> float:
        """A value below it has no meaning."""

    @property
    def no_gradient(self) -> str | None:
        """Why there is no gradient, or None."""

    @property
    def law(self) -> str:
        """The contact law under which it acts: both, hard or mujoco."""

class OutputRow:
    """An output of a state."""

    @property
    def name(self) -> str: ...

    @property
    def inputs(self) -> list[str]:
        """Names of its inputs, q first."""

    @property
    def result(self) -> str:
        """Symbol of its value."""

    def shape(self, sizes: Annotated[NDArray[numpy.int32], dict(shape=(37), order='C', device='cpu', writable=False)]) -> list[int]:
        """Its shape in one world of a model."""

class OptionRow:
    """A numerical option of a Simulator."""

    @property
    def name(self) -> str: ...

    @property
    def law(self) -> str:
        """The contact law under which it acts: both, hard or mujoco."""

    @property
    def doc(self) -> str: ...

    @property
    def kind(self) -> str:
        """real, whole, choice, or fixed: not for the caller to choose."""

    @property
    def default(self) -> float | int | str: ...

    @property
    def default_float32(self) -> float | int | str: ...

    @property
    def least(self) -> float: ...

    @property
    def most(self) -> float: ...

    @property
    def open(self) -> bool:
        """Whether the least value itself is not allowed."""

    @property
    def choices(self) -> list[str]: ...

class StatusRow:
    """What can go wrong in a world."""

    @property
    def name(self) -> str: ...

    @property
    def bit(self) -> int: ...

    @property
    def sentence(self) -> str: ...

class Options:
    """Numerical options of an Engine."""

    def __init__(self, *, contact: str = 'hard', cone: str = 'pyramidal', impratio: float = 1.0, integrator: str = 'euler', refsafe: int = 1, eulerdamp: int = 1, warmstart: int = 0, margin: float = 0.005, v_recover: float = 0.5, v_rest: float = 0.05, tolerance: float = 1e-10, max_sweeps: int = 200, max_contacts: int = 100, friction: str = 'cone', solver: str = 'newton', smoothing: float = 0.0, gradient: str = 'auto', regularization: float = 1e-06) -> None: ...

    @property
    def contact(self) -> str:
        """
        'hard' (the law of this library) or 'mujoco' (MuJoCo's soft law, with the file's settings).
        """

    @property
    def cone(self) -> str:
        """
        friction cone under MuJoCo's law: 'pyramidal' or 'elliptic'; by default that of the file.
        """

    @property
    def impratio(self) -> float:
        """
        ratio of friction to normal impedance under MuJoCo's law; by default that of the file.
        """

    @property
    def integrator(self) -> str:
        """
        integrator under MuJoCo's law: 'euler', 'rk4' or 'implicitfast'; by default that of the file.
        """

    @property
    def refsafe(self) -> int:
        """
        1: time constants of solref are at least two steps under MuJoCo's law; by default as in the file.
        """

    @property
    def eulerdamp(self) -> int:
        """
        1: Euler's integrator is implicit in damping under MuJoCo's law; by default as in the file.
        """

    @property
    def warmstart(self) -> int:
        """
        1: a state carries the accelerations of the last solve under MuJoCo's law, and the next may start there; default 0.
        """

    @property
    def margin(self) -> float:
        """contact and limit rows are built below this gap [m or rad]."""

    @property
    def v_recover(self) -> float:
        """largest speed of recovery from penetration [m/s]."""

    @property
    def v_rest(self) -> float:
        """approach speed below which restitution is zero [m/s]."""

    @property
    def tolerance(self) -> float:
        """residual of the contact solve, relative to the largest row velocity."""

    @property
    def max_sweeps(self) -> int:
        """cap on Gauss-Seidel sweeps in one step."""

    @property
    def max_contacts(self) -> int:
        """
        contacts one world can hold, by default at most what the model's pairs can give, and 16 for each link where that is more.
        """

    @property
    def friction(self) -> str:
        """'cone' (the true cone) or 'box' (each tangent by itself)."""

    @property
    def solver(self) -> str:
        """
        'newton' (sweeps, then Newton steps on the active set), 'pgs' (sweeps only) or 'interior' (an interior point method, world by world).
        """

    @property
    def smoothing(self) -> float:
        """
        velocity within which the laws of contacts, limits and dry friction are smooth [m/s or rad/s]: 0 is the exact law, more has derivatives of every order and takes solver 'interior'.
        """

    @property
    def gradient(self) -> str:
        """
        'auto' (implicit where the solve finished, unrolled elsewhere), 'implicit' (the solution is differentiated) or 'unrolled' (the sweeps are; solver 'pgs' only).
        """

    @property
    def regularization(self) -> float:
        """default compliance, as a share of the bodies' inverse weights."""

    def __repr__(self) -> str: ...

    def __eq__(self, arg: object, /) -> bool: ...

    def __hash__(self) -> int: ...

    def __getstate__(self) -> list[float | int | str]: ...

    def __setstate__(self, arg: Sequence[float | int | str], /) -> None: ...

class Status(enum.IntFlag):
    """State of a world after a step or a rollout; several bits may be set."""

    OK = 0
    """Nothing went wrong."""

    NONFINITE = 1
    """
    NONFINITE: the state holds a NaN or an infinity from this step on; nothing was reset. Look at the controls and the state before it, or take a smaller dt.
    """

    CONTACT_OVERFLOW = 2
    """
    CONTACT_OVERFLOW: more contacts than max_contacts were found and the last ones were left out; pass a larger max_contacts to the Simulator.
    """

    UNCONVERGED = 4
    """
    UNCONVERGED: the contact solve did not finish: what it found misses the contact law by more than 1e-6 of the velocities of its rows. Take a smaller dt, or look at mass ratios, overlaps and friction there.
    """

    NO_GRADIENT = 8
    """
    NO_GRADIENT: this step has no gradient: contacts were left out of it (pass a larger max_contacts to the Simulator), or its contacts were not solved.
    """

    def sentences(self) -> list[str]:
        """Return one sentence for each bit that is set."""

def size_names() -> list[str]:
    """Sizes that an Engine is built from, in their order."""

def table_names() -> list[str]:
    """Integer tables in the order in which they follow each other."""

def parameter_names() -> list[str]:
    """Physical parameters in the order in which they lie in a flat array."""

def joint_types() -> list[JointRow]:
    """Types of joints."""

def equality_types() -> list[TypeRow]:
    """Types of equality constraints."""

def gain_types() -> list[TypeRow]:
    """What multiplies the input of an actuator."""

def bias_types() -> list[TypeRow]:
    """What an actuator adds to it."""

def activation_types() -> list[TypeRow]:
    """How an activation follows its control."""

def wrap_types() -> list[TypeRow]:
    """What the path of a tendon is made of."""

def transmission_types() -> list[TypeRow]:
    """What an actuator acts on."""

def compensation_types() -> list[TypeRow]:
    """Where gravity compensation of a joint goes."""

def friction_rules() -> list[TypeRow]:
    """Whose friction a pair of geoms takes."""

def shape_types() -> list[tuple[str, int]]:
    """Shapes of geoms: (name, MuJoCo's number)."""

def pair_table() -> list[tuple[str, int, int, int, int]]:
    """
    Pairs of shapes that can touch: (name, kind, shape A, shape B, contact points).
    """

def parameter_table() -> list[ParameterRow]:
    """Physical parameters with their rules."""

def output_table() -> list[OutputRow]:
    """Outputs of a state."""

def option_table() -> list[OptionRow]:
    """Numerical options."""

def status_table() -> list[StatusRow]:
    """What can go wrong in a world."""

def table_size(sizes: Annotated[NDArray[numpy.int32], dict(shape=(37), order='C', device='cpu', writable=False)]) -> int:
    """Words of all integer tables together."""

class Violation:
    """What is wrong with a parameter."""

    @property
    def parameter(self) -> str: ...

    @property
    def index(self) -> int:
        """Row of the parameter."""

    @property
    def world(self) -> int:
        """-1 where all worlds share their parameters."""

    @property
    def value(self) -> float: ...

    @property
    def rule(self) -> str: ...

    @property
    def message(self) -> str: ...

class ParameterChecker:
    """Checks values of a model's parameters."""

    def __init__(self, sizes: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], tables: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], bodies: Sequence[str]) -> None: ...

    @overload
    def check(self, theta: Annotated[NDArray[numpy.float64], dict(order='C', device='cpu', writable=False)], given: Sequence[str], rounding: float) -> Violation | None:
        """
        The first violation among the given parameters of one row, or of a row for each world.
        """

    @overload
    def check(self, theta: Annotated[NDArray[numpy.float32], dict(order='C', device='cpu', writable=False)], given: Sequence[str], rounding: float) -> Violation | None: ...

def describe_worlds(status: Annotated[NDArray[numpy.uint32], dict(shape=(None,), order='C', device='cpu', writable=False)], step: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], residual: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)] | None = None) -> str:
    """Each world that is not OK, at most ten of them; empty for none."""

class Engine:
    """One model compiled for stepping; see featherback.Simulator."""

    def __init__(self, sizes: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], tables: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], theta: Annotated[NDArray, dict(order='C', device='cpu', writable=False)], vert: Annotated[NDArray, dict(order='C', device='cpu', writable=False)], options: Options, isa: str, threads: int) -> None: ...

    @property
    def theta_size(self) -> int: ...

    @property
    def derived_size(self) -> int: ...

    @property
    def state_size(self) -> int: ...

    @property
    def workspace_bytes(self) -> int: ...

    def rollout(self, x: Annotated[NDArray, dict(order='C', device='cpu')], u: Annotated[NDArray, dict(order='C', device='cpu', writable=False)] | None, theta: Annotated[NDArray, dict(order='C', device='cpu', writable=False)] | None, status: Annotated[NDArray[numpy.uint32], dict(shape=(None,), order='C', device='cpu')], status_step: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu')], *, steps: int, u_first: int = 0, residual: Annotated[NDArray, dict(order='C', device='cpu')] | None = None, sweeps: Annotated[NDArray, dict(order='C', device='cpu')] | None = None, factorisations: Annotated[NDArray, dict(order='C', device='cpu')] | None = None, progress: object | None = None) -> None: ...

    def vjp(self, x: Annotated[NDArray, dict(order='C', device='cpu', writable=False)], u: Annotated[NDArray, dict(order='C', device='cpu', writable=False)] | None, theta: Annotated[NDArray, dict(order='C', device='cpu', writable=False)] | None, x_cot: Annotated[NDArray, dict(order='C', device='cpu', writable=False)] | None, x_bar: Annotated[NDArray, dict(order='C', device='cpu')], u_bar: Annotated[NDArray, dict(order='C', device='cpu')], theta_bar: Annotated[NDArray, dict(order='C', device='cpu')] | None, status: Annotated[NDArray[numpy.uint32], dict(shape=(None,), order='C', device='cpu')], status_step: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu')], unrolled: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu')], ties: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu')], *, u_first: int = 0, finish_params: bool = True, trace: Annotated[NDArray, dict(order='C', device='cpu')] | None = None) -> None: ...

    def jvp(self, x: Annotated[NDArray, dict(order='C', device='cpu', writable=False)], u: Annotated[NDArray, dict(order='C', device='cpu', writable=False)] | None, theta: Annotated[NDArray, dict(order='C', device='cpu', writable=False)] | None, x_dot: Annotated[NDArray, dict(order='C', device='cpu')], du: Annotated[NDArray, dict(order='C', device='cpu', writable=False)] | None, dtheta: Annotated[NDArray, dict(order='C', device='cpu', writable=False)] | None, status: Annotated[NDArray[numpy.uint32], dict(shape=(None,), order='C', device='cpu')], status_step: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu')]) -> None: ...

    def hvp(self, x: Annotated[NDArray, dict(order='C', device='cpu', writable=False)], u: Annotated[NDArray, dict(order='C', device='cpu', writable=False)] | None, theta: Annotated[NDArray, dict(order='C', device='cpu', writable=False)] | None, x_dot: Annotated[NDArray, dict(order='C', device='cpu', writable=False)], du: Annotated[NDArray, dict(order='C', device='cpu', writable=False)] | None, dtheta: Annotated[NDArray, dict(order='C', device='cpu', writable=False)] | None, x_cot: Annotated[NDArray, dict(order='C', device='cpu', writable=False)] | None, x_cot_dot: Annotated[NDArray, dict(order='C', device='cpu', writable=False)] | None, x_bar: Annotated[NDArray, dict(order='C', device='cpu')], x_bar_dot: Annotated[NDArray, dict(order='C', device='cpu')], u_bar_dot: Annotated[NDArray, dict(order='C', device='cpu')], theta_bar: Annotated[NDArray, dict(order='C', device='cpu')] | None, theta_bar_dot: Annotated[NDArray, dict(order='C', device='cpu')] | None, status: Annotated[NDArray[numpy.uint32], dict(shape=(None,), order='C', device='cpu')], status_step: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu')]) -> None: ...

    def linearize(self, x: Annotated[NDArray, dict(order='C', device='cpu', writable=False)], u: Annotated[NDArray, dict(order='C', device='cpu', writable=False)] | None, theta: Annotated[NDArray, dict(order='C', device='cpu', writable=False)] | None, A: Annotated[NDArray, dict(order='C', device='cpu')], B: Annotated[NDArray, dict(order='C', device='cpu')], status: Annotated[NDArray[numpy.uint32], dict(shape=(None,), order='C', device='cpu')], status_step: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu')]) -> None: ...

    def contacts(self, x: Annotated[NDArray, dict(order='C', device='cpu', writable=False)], u: Annotated[NDArray, dict(order='C', device='cpu', writable=False)] | None, theta: Annotated[NDArray, dict(order='C', device='cpu', writable=False)] | None, numbers: Annotated[NDArray, dict(order='C', device='cpu')], pair: Annotated[NDArray[numpy.int32], dict(shape=(None, None), order='C', device='cpu')], count: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu')], overflow: Annotated[NDArray[numpy.uint8], dict(shape=(None,), order='C', device='cpu')]) -> None: ...

    def output(self, name: str, q: Annotated[NDArray, dict(order='C', device='cpu', writable=False)], v: Annotated[NDArray, dict(order='C', device='cpu', writable=False)] | None, x: Annotated[NDArray, dict(order='C', device='cpu', writable=False)] | None, theta: Annotated[NDArray, dict(order='C', device='cpu', writable=False)] | None, y: Annotated[NDArray, dict(order='C', device='cpu')]) -> None: ...

    def output_vjp(self, name: str, q: Annotated[NDArray, dict(order='C', device='cpu', writable=False)], v: Annotated[NDArray, dict(order='C', device='cpu', writable=False)] | None, x: Annotated[NDArray, dict(order='C', device='cpu', writable=False)] | None, theta: Annotated[NDArray, dict(order='C', device='cpu', writable=False)] | None, y_bar: Annotated[NDArray, dict(order='C', device='cpu', writable=False)], q_bar: Annotated[NDArray, dict(order='C', device='cpu')], v_bar: Annotated[NDArray, dict(order='C', device='cpu')] | None, x_bar: Annotated[NDArray, dict(order='C', device='cpu')] | None, theta_bar: Annotated[NDArray, dict(order='C', device='cpu')] | None) -> None: ...

    def step_one(self, q: object | None, v: object | None, act: object | None, u: object | None, warm: object | None, return_status: bool) -> object: ...

    def linearize_one(self, q: object | None, v: object | None, act: object | None, u: object | None) -> object: ...

class EnginePool:
    """Engines of one model for XLA; see featherback.jax."""

    def __init__(self, engine: Engine, key: int, bodies: Sequence[str]) -> None: ...

def xla_handlers() -> dict:
    """Handlers of XLA's foreign function interface, by name and stage."""

def xla_state_type() -> dict:
    """What a compiled function holds of a Simulator, as XLA registers types."""
