"""The op table: one row for each forward/adjoint pair, with a sampler and an edge sampler."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

import featherback as fb
from featherback._core import pair_table
from tests.core import references
from tests.core.ops_models import (
    Case,
    activation,
    crowd,
    crowd_box,
    crowd_smooth,
    heavy,
    heavy_bounce,
    heavy_smooth,
    heavy_unfinished,
    hits,
    hits_smooth,
    hits_unfinished,
    limits,
    limits_smooth,
    limits_unfinished,
    loop,
    loop_smooth,
    loop_unfinished,
    mesh,
    pile,
    pile_bounce,
    pile_smooth,
    pile_unfinished,
    pure,
    robot,
    tendons,
    tendons_smooth,
    tendons_unfinished,
    tree,
    tree_bounce,
    tree_box,
    tree_interior,
    tree_mixed,
    tree_smooth,
    tree_smooth_box,
    tree_unfinished,
    wraps,
    wraps_inside,
)

Vector = np.ndarray
Sampler = Callable[[np.random.Generator], Vector]
Reference = Callable[[Vector], Vector]

# adjoints that have tests of their own
PAIR_ADJOINTS = """
    ball_on_box box_box_one box_corner capsule_place carried_slot carrier closest_on_segments
    closest_slot closest_to_box collide collide_worlds convex_convex convex_one corner crossing
    cut_polygon direction edge_middle edge_normal edges_point end_slot face_corners face_points
    free_slot hold_within mesh_vertex node_place parallel_weight pass_of_edge plane_ball
    plane_point point point_box rim_vector slot touch_of_balls vertex_point
"""
PAIR_FUNCTIONS = [name.replace("-", "_") for name, *_ in pair_table()]
TESTED_ELSEWHERE = dict.fromkeys(
    [*PAIR_ADJOINTS.split(), *PAIR_FUNCTIONS], "tests/core/test_collision_adjoint.py"
) | dict.fromkeys(["hfield_convex", "hfield_one"], "tests/core/test_hfield_adjoint.py")


@dataclass(frozen=True)
class OpRow:
    """One op: where it lives, how to draw its inputs, and how sharp float32 is.

    Attributes:
        label: name in test reports.
        name: name in the op set.
        ops: a function that returns the op set.
        sample: draws ordinary inputs.
        edge: draws inputs at the edges of the domain.
        reference: an independent value of the forward.
        float_tolerance: relative error of the float32 run.
        pairing: largest error of the pairing with dual numbers.
        differentiable: 1 for each input that has a gradient, 0 elsewhere; all when None.
        value: largest error of the forward against its reference, relative to the largest entry.
        stencil: step of difference quotients, for inputs of order one.
    """

    label: str
    name: str
    ops: Callable[[], Any]
    sample: Sampler
    edge: Sampler
    reference: Reference
    float_tolerance: float = 1e-5
    differentiable: Callable[[], Vector] | None = None
    pairing: float = 1e-12
    value: float = 1e-14
    stencil: float = 1e-5


def _inertia(rng: np.random.Generator) -> Vector:
    points, weights = rng.normal(size=(20, 3)), rng.uniform(0.1, 1, 20)
    square = np.einsum("k,kij->ij", weights, points[:, :, None] * points[:, None])
    io = np.trace(square) * np.eye(3) - square
    packed = [io[0, 0], io[1, 1], io[2, 2], io[0, 1], io[0, 2], io[1, 2]]
    return np.r_[weights.sum(), weights @ points, packed]


def _newton_euler(rng: np.random.Generator) -> Vector:
    return np.r_[_inertia(rng), rng.normal(size=12)]


def _newton_euler_at_rest(rng: np.random.Generator) -> Vector:
    return np.r_[_inertia(rng), np.zeros(6), rng.normal(size=6)]


def _unit(rng: np.random.Generator) -> Vector:
    n = rng.normal(size=3)
    return n / np.linalg.norm(n)


def _axis(rng: np.random.Generator) -> Vector:
    return np.eye(3)[rng.integers(3)] * rng.choice([-1.0, 1.0])


def _axis_of_any_length(rng: np.random.Generator) -> Vector:
    return rng.normal(size=3)


def quat(rng: np.random.Generator) -> Vector:
    """Draw a quaternion of any length, in every other draw of a small angle."""
    if rng.random() < 0.5:
        return rng.normal(size=4)
    return np.r_[1.0, _unit(rng) * rng.uniform(1e-6, 1e-2) / 2] * rng.uniform(0.5, 2)


def quat_at_edge(rng: np.random.Generator) -> Vector:
    """Draw no rotation, a small one, or half a turn, about an axis of the world."""
    half = rng.choice([0.0, 1e-12, 1e-4, 1e-2, np.pi]) / 2
    return np.r_[np.cos(half), np.sin(half) * _axis(rng)]


def _rows(rng: np.random.Generator) -> Vector:
    return np.r_[rng.normal(size=72), rng.uniform(0.1, 1, 3)]


def _rows_at_rest(rng: np.random.Generator) -> Vector:
    x = _rows(rng)
    x[64:72] = 0.0
    return x


def _gaps(count: int) -> Sampler:
    """Return a sampler of (phi, h): open gaps and errors of every size."""

    def draw(rng: np.random.Generator) -> Vector:
        phi = 10.0 ** rng.uniform(-8, -1) * rng.normal(size=count)
        return np.r_[phi, rng.uniform(0.001, 0.01)]

    return draw


def _gaps_at_edge(count: int) -> Sampler:
    """Return a sampler of no gap, of errors that velocity just closes, and of large ones."""

    def draw(rng: np.random.Generator) -> Vector:
        h = rng.uniform(0.001, 0.01)
        phi = np.zeros(count)
        phi[-1] = rng.choice([0.0, -h * 2e-4, h * 0.5, -h * 0.5, -1e3, 1e3])
        return np.r_[phi, h]

    return draw


def pure_row(
    name: str, sample: Sampler, edge: Sampler, reference: Reference, **precision: float
) -> OpRow:
    """Return the row of an op that needs no model."""
    return OpRow(name, name, pure, sample, edge, reference, **precision)


def _gap_row(name: str, count: int) -> OpRow:
    """Return the row of a gap term of some rows with one error."""
    reference = references.gap_term(name != "gap_term")
    return pure_row(name, _gaps(count), _gaps_at_edge(count), reference, stencil=1e-10)


def _recovery(rng: np.random.Generator) -> Vector:
    """Draw (B, b, lam, rest, lead): loads on both sides of what is helped, errors of any size."""
    lam = rng.normal(size=8) * np.where(np.arange(8) < 4, 20, 200)
    rest = rng.normal(size=8)
    lam[:4], rest[:4] = np.abs(lam[:4]), -np.abs(rest[:4])
    return np.r_[rng.normal(size=64), rng.normal(size=8) * 50, lam, rest, rng.uniform(0, 0.1, 8)]


def _recovery_of_nothing(rng: np.random.Generator) -> Vector:
    x = _recovery(rng)
    x[64:] = 0.0
    return x


def _quat_step(rng: np.random.Generator) -> Vector:
    return np.r_[rng.normal(size=7), rng.uniform(0.001, 0.1)]


def _quat_edge(rng: np.random.Generator) -> Vector:
    w = rng.choice([0.0, 1e-9, 1e-3, np.pi / 0.1]) * _unit(rng)
    return np.r_[rng.normal(size=4), w, 0.1]


def _decay(rng: np.random.Generator) -> Vector:
    return 10.0 ** rng.uniform(-6, 1, 1)


def _decay_at_edge(rng: np.random.Generator) -> Vector:
    return rng.choice([0.0, 1e-12, 39.9, 40.1, 700.0], 1)


def _solver_rows(friction: str) -> list[OpRow]:
    """Return the rows of the solver under a friction law: solved, and after a few sweeps."""
    box, ends = friction == "box", (_rows, _rows_at_rest)
    return [
        pure_row(f"solve_rows_{friction}", *ends, references.rows(box, 20_000), value=1e-8),
        pure_row(f"unrolled_rows_{friction}", *ends, references.rows(box, 7), value=1e-12),
    ]


def state(model: fb.Model, rng: np.random.Generator, extra: int, rest: bool = False) -> Vector:
    """Draw (q, v, extra numbers) near the model's first keyframe or its reference."""
    import mujoco

    q = np.array(model.keyframe(0)[0] if model.keyframe_names else model.q0)
    # the Laikago stays on its feet
    wide = 0.02 if model.keyframe_names else 0.1
    dq = rng.normal(size=model.nv) * (0.0 if rest else wide)
    dq[:3] *= 0.2
    mujoco.mj_integratePos(model.mujoco, q, dq, 1.0)
    v = rng.normal(size=model.nv) * (0.0 if rest else 10 * wide)
    return np.r_[q, v, rng.normal(size=extra) * 0.3]


def _falling(case: Case, rng: np.random.Generator, rest: bool = False) -> Vector:
    """Draw (q, v, act, u) of bodies that come down; at rest they all come down alike."""
    model = case.model
    x = state(model, rng, model.na + model.nu, rest)
    v = x[model.nq : model.nq + model.nv]
    v[2], v[6] = -6.0, 8.0
    return x


def over_parameters(
    label: str, case: Case, draw: Callable[..., Vector], reference: Reference, **precision: float
) -> OpRow:
    """Return the row of a step over what draw(rng, rest) gives, (q, v, act, u), and parameters."""

    def point(rng: np.random.Generator, rest: bool = False) -> Vector:
        return np.r_[draw(rng, rest), parameters(case, rng)]

    def has_gradient() -> Vector:
        m = case.model
        return with_gradient(case, m.nq + m.nv + m.na + m.nu)

    return OpRow(
        f"{label}/step_theta",
        "step_theta",
        lambda: case.ops,
        point,
        lambda rng: point(rng, True),
        reference,
        differentiable=has_gradient,
        **precision,
    )


def _hit_rows(label: str, case: Case) -> list[OpRow]:
    """Return the rows of steps with hits, over states and over all parameters."""

    def draw(rng: np.random.Generator, rest: bool = False) -> Vector:
        return _falling(case, rng, rest)

    def reference(x: Vector) -> Vector:
        return references.step(case.sim, x)

    # rows of a short part weigh up to 16 / dt, and the moment of a slow hit is a gap over its speed
    pairing = {"hits/unfinished": 1e-7, "hits/smooth": 1e-8}.get(label, 1e-9)
    precision = {"value": 1e-9, "float_tolerance": 2e-3, "pairing": pairing}
    ends = (draw, lambda rng: draw(rng, True))
    return [
        OpRow(f"{label}/step", "step", lambda: case.ops, *ends, reference, **precision),
        over_parameters(label, case, draw, reference, **precision),
    ]


def _precision(label: str, name: str) -> dict[str, float]:
    """Return how sharp a model's op is.

    Rows of stiff equalities, of condition 1e6, meet in cancelling sums; so do those of several
    touches of one body, and most of all those of a crowd that shares one load.
    """
    if label.startswith("crowd"):
        # one draw of ten thousand has a nearly singular matrix, in which the last bit of an input
        # moves the Jacobian by as much
        pairing = 2e-8 if label in ("crowd/step", "crowd/step/box") else 1e-9
        # a smooth law bends within its smoothing
        stencil = 1e-6 if "smooth" in label else 3e-5
        return {"float_tolerance": 3e-3, "pairing": pairing, "stencil": stencil}
    if label in ("tendons/unfinished", "heavy/unfinished"):
        # what a few sweeps leave of stiff couplings is recovered by positions, to its own tolerance
        return {"float_tolerance": 2e-3, "pairing": 1e-8}
    if name != "step" or not label.startswith(
        ("loop", "limits", "laikago", "pile", "mesh", "tendons", "heavy", "wraps")
    ):
        return {}
    return {"float_tolerance": 2e-4, "pairing": 1e-11}


def _model_row(label: str, case: Case) -> OpRow:
    """Return the row of a model's op, the second word of its label."""
    name = label.split("/")[1]

    def numbers() -> int:
        # q and v are followed by an acceleration, by nothing, or by act and u
        m = case.model
        return {"inverse_dynamics": m.nv, "integrate": 0}.get(name, m.na + m.nu)

    of_model = {
        "inverse_dynamics": references.inverse_dynamics,
        "integrate": references.integrate,
        "actuation": references.actuation,
        "activation": references.activation,
    }
    return OpRow(
        label,
        name,
        lambda: case.ops,
        lambda rng: state(case.model, rng, numbers()),
        lambda rng: state(case.model, rng, numbers(), rest=True),
        lambda x: _step(case, x) if name == "step" else of_model[name](case.model, x),
        value=1e-9 if name == "step" else 1e-12,
        **_precision(label, name),
    )


def _step(case: Case, x: Vector) -> Vector:
    """Return the step of the public simulator, or with activation that of MuJoCo."""
    return references.free_step(case.model, x) if case.model.na else references.step(case.sim, x)


# parameters that steer the step without a gradient, and those that carry none here
WITHOUT_GRADIENT = (
    *("body_invweight0", "dof_invweight0", "body_invweight0_mujoco", "geom_solmix"),
    "tendon_invweight0",
)
# settings of MuJoCo's law; the hard law reads the frictions of pairs besides
OF_MUJOCO = re.compile("_(solref|solreffriction|solimp|margin|friction_rest)(_lim|_fri)?$")
# parameters of which a draw changes every number by a few per cent
SCALED = (
    "body_inertia jnt_range actuator_gear mesh_scale actuator_dynprm actuator_actrange wrap_prm "
    "tendon_stiffness tendon_damping tendon_frictionloss tendon_range tendon_lengthspring "
    "tendon_armature pair_friction_rest"
).split()


def parameters(case: Case, rng: np.random.Generator | None) -> Vector:
    """Return the flat parameters of a model, moved a little so that none is a round number.

    Those that meet in a maximum are made distinct, and the two ends of a ball's range change
    places in every other draw.
    """
    parts = []
    flip = rng is not None and rng.random() < 0.5
    for name, value in case.params.items():
        part = np.array(value, np.float64)
        if rng is None:
            parts.append(part.reshape(-1))
            continue
        if name in ("geom_friction", "geom_restitution"):
            part = part + rng.uniform(0.01, 0.3, part.shape)
        if name == "xfrc_applied":
            part = rng.normal(size=part.shape)
        if name == "contact_compliance":
            part = part + rng.uniform(1e-6, 1e-5, part.shape)
        if name.endswith(("quat", "axis", "pos", "qpos_spring", "eq_data", "qpos0", "length0")):
            part = part + rng.normal(size=part.shape) * 0.01
        if name == "body_inertia_products":
            # small beside the moments, so that the inertia stays that of a body
            least = case.params["body_inertia"].min(axis=-1, keepdims=True)
            part = rng.normal(size=part.shape) * 0.02 * least
        if name in SCALED or (case.soft and OF_MUJOCO.search(name)):
            part = part * (1 + rng.normal(size=part.shape) * 0.02)
        if name == "jnt_range" and flip:
            ball = case.model.mujoco.jnt_type == 1
            part[ball] = part[ball, ::-1]
        parts.append(part.reshape(-1))
    return np.concatenate(parts)


def with_gradient(case: Case, first: int) -> Vector:
    """Return 1 for inputs with a gradient: `first` others, then the parameters."""
    parts = [np.ones(first)]
    for name, value in case.params.items():
        soft_only = OF_MUJOCO.search(name) and name != "pair_friction_rest"
        none = name in WITHOUT_GRADIENT or (not case.soft and soft_only)
        parts.append(np.full(value.size, 0.0 if none else 1.0))
    return np.concatenate(parts)


def _theta_row(label: str, case: Case) -> OpRow:
    """Return the row of a model's step over its parameters."""

    def draw(rng: np.random.Generator, rest: bool) -> Vector:
        return state(case.model, rng, case.model.na + case.model.nu, rest)

    precision = {"value": 1e-9, **_precision(label, "step")}
    return over_parameters(label, case, draw, lambda x: _step(case, x), **precision)


def _theta_rows(label: str, case: Case) -> list[OpRow]:
    """Return the rows of a model's ops over its parameters."""
    derive = OpRow(
        f"{label}/derive",
        "derive",
        lambda: case.ops,
        lambda rng: parameters(case, rng),
        lambda rng: parameters(case, None),
        lambda x: references.derive(case.model, x),
        value=1e-12,
    )
    return [derive, _theta_row(label, case)]


# output -> the parameters that it reads
PLACES = "body_pos body_quat jnt_pos jnt_axis qpos0"
INERTIAS = "body_mass body_ipos body_inertia body_iquat body_inertia_products dof_armature"
# of tendons with armature
PATHS = "tendon_armature wrap_prm site_pos"
OUTPUTS = {
    "poses": f"{PLACES} site_pos site_quat",
    "center_of_mass": f"{PLACES} body_mass body_ipos",
    "mass_matrix": f"{PLACES} {INERTIAS} {PATHS}",
    "inverse_dynamics": f"{PLACES} {INERTIAS} {PATHS} gravity",
    "forward_dynamics": f"{PLACES} {INERTIAS} {PATHS} gravity",
    "mass_centers": f"{PLACES} body_mass body_ipos",
    "com_inertias": f"{PLACES} {INERTIAS.removesuffix(' dof_armature')}",
    "com_velocities": f"{PLACES} body_mass body_ipos",
}
# outputs that read the velocity
MOVING = ("inverse_dynamics", "forward_dynamics", "com_velocities")


def _output_row(label: str, name: str, case: Case) -> OpRow:
    """Return the row of an output over (q, v, a or tau, parameters)."""

    def point(rng: np.random.Generator, rest: bool = False) -> Vector:
        return np.r_[state(case.model, rng, case.model.nv, rest), parameters(case, rng)]

    def is_read() -> Vector:
        m = case.model
        read = [1.0 if name in MOVING else 0.0, 1.0 if name.endswith("dynamics") else 0.0]
        parts = [np.ones(m.nq), np.repeat(read, m.nv)]
        for key, value in case.params.items():
            parts.append(np.full(value.size, 1.0 if key in OUTPUTS[name].split() else 0.0))
        return np.concatenate(parts)

    return OpRow(
        f"{label}/output/{name}",
        f"output_{name}",
        lambda: case.ops,
        point,
        lambda rng: point(rng, True),
        lambda x: references.output(case.model, name, x),
        float_tolerance=2e-4 if name == "forward_dynamics" else 1e-5,
        differentiable=is_read,
        value=1e-10 if name == "forward_dynamics" else 1e-12,
    )


ROWS: list[OpRow] = [
    pure_row("newton_euler", _newton_euler, _newton_euler_at_rest, references.newton_euler),
    pure_row(
        "normalised",
        lambda g: g.normal(size=4),
        lambda g: np.r_[1.0, 0, 0, 0],
        references.normalised,
    ),
    pure_row(
        "half_angle",
        lambda g: g.choice([g.uniform(0.01, 9, 1), g.uniform(1e-8, 1e-6, 1)]),
        lambda g: np.array([g.choice([0.0, 1e-12, 0.9e-6, 1.1e-6, np.pi**2])]),
        references.half_angle,
    ),
    pure_row("one_minus_exp", _decay, _decay_at_edge, references.one_minus_exp),
    pure_row("integrate_quat", _quat_step, _quat_edge, references.integrate_quat),
    *(
        pure_row(name, quat, quat_at_edge, references.log, pairing=1e-14)
        for name in ("log_right", "log_left")
    ),
    pure_row("axis_frame", _axis_of_any_length, _axis, references.frame),
    pure_row("rotation_of", quat, quat_at_edge, references.matrix),
    pure_row("tangents", _unit, _axis, references.tangents),
    _gap_row("gap_term", 1),
    _gap_row("gap_term_coupling", 1),
    _gap_row("gap_term_connect", 3),
    pure_row("recover_rows", _recovery, _recovery_of_nothing, references.recover_rows, value=1e-12),
    *_solver_rows("cone"),
    *_solver_rows("box"),
    _model_row("tree/inverse_dynamics", tree),
    _model_row("tree/integrate", tree),
    _model_row("tree/actuation", tree),
    _model_row("tree/step", tree),
    _model_row("tree/step/box", tree_box),
    _model_row("tree/step/bounce", tree_bounce),
    _model_row("laikago/inverse_dynamics", robot),
    _model_row("laikago/step", robot),
    _model_row("loop/actuation", loop),
    _model_row("loop/step", loop),
    _model_row("limits/actuation", limits),
    _model_row("limits/step", limits),
    _model_row("tendons/actuation", tendons),
    _model_row("tendons/step", tendons),
    *_theta_rows("tendons", tendons),
    _theta_row("tendons/smooth", tendons_smooth),
    _theta_row("tendons/unfinished", tendons_unfinished),
    _model_row("heavy/step", heavy),
    _model_row("heavy/step/bounce", heavy_bounce),
    _theta_row("heavy", heavy),
    _theta_row("heavy/bounce", heavy_bounce),
    _theta_row("heavy/smooth", heavy_smooth),
    _theta_row("heavy/unfinished", heavy_unfinished),
    _model_row("wraps/actuation", wraps),
    _model_row("wraps/step", wraps),
    _model_row("wraps_inside/step", wraps_inside),
    _theta_row("wraps", wraps),
    _theta_row("wraps_inside", wraps_inside),
    _model_row("activation/actuation", activation),
    _model_row("activation/activation", activation),
    _model_row("activation/step", activation),
    *_theta_rows("activation", activation),
    *_theta_rows("tree", tree),
    *_theta_rows("loop", loop),
    *_theta_rows("limits", limits),
    *_theta_rows("pile", pile),
    *_theta_rows("laikago", robot),
    _model_row("crowd/step", crowd),
    _model_row("crowd/step/box", crowd_box),
    _theta_row("crowd", crowd),
    _model_row("pile/step", pile),
    _model_row("pile/step/bounce", pile_bounce),
    _theta_row("pile/bounce", pile_bounce),
    *_hit_rows("hits", hits),
    *_hit_rows("hits/unfinished", hits_unfinished),
    _model_row("tree/step/mixed", tree_mixed),
    _theta_row("tree/mixed", tree_mixed),
    *_theta_rows("mesh", mesh),
    *(_output_row("limits", name, limits) for name in OUTPUTS),
    *(_output_row("mesh", name, mesh) for name in OUTPUTS),
    *(
        _output_row("heavy", name, heavy)
        for name in OUTPUTS
        if name.startswith(("mass", "inv", "for"))
    ),
    _model_row("tree/step/unfinished", tree_unfinished),
    _model_row("loop/step/unfinished", loop_unfinished),
    _theta_row("tree/unfinished", tree_unfinished),
    _theta_row("loop/unfinished", loop_unfinished),
    _theta_row("limits/unfinished", limits_unfinished),
    _theta_row("pile/unfinished", pile_unfinished),
    _model_row("tree/step/interior", tree_interior),
    _model_row("tree/step/smooth", tree_smooth),
    _model_row("tree/step/smooth/box", tree_smooth_box),
    _model_row("crowd/step/smooth", crowd_smooth),
    _theta_row("tree/smooth", tree_smooth),
    _theta_row("tree/smooth/box", tree_smooth_box),
    _theta_row("loop/smooth", loop_smooth),
    _theta_row("limits/smooth", limits_smooth),
    _theta_row("pile/smooth", pile_smooth),
    *_hit_rows("hits/smooth", hits_smooth),
]
