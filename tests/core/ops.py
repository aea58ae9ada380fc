"""The op table: one row for each forward/adjoint pair, with a sampler and an edge sampler."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

import featherback as fb
from featherback import _ops

Vector = np.ndarray
Sampler = Callable[[np.random.Generator], Vector]

# adjoints that have tests of their own
PAIR_ADJOINTS = """
    ball_on_box box_box box_box_one box_corner capsule_box capsule_capsule capsule_places
    closest_on_segments closest_slot closest_to_box collide cut_polygon direction edge_point
    edge_touch end_slot exit_of_segment face_touches has hold_within opposed_corners
    parallel_weight pass_of_edge plane_ball plane_box plane_capsule plane_cylinder
    plane_ellipsoid plane_mesh plane_point plane_sphere point_box rim_direction sphere_box
    sphere_capsule sphere_sphere stretch_in_slab stretch_over_face touch_of_balls vertex_touch
"""
TESTED_ELSEWHERE = dict.fromkeys(PAIR_ADJOINTS.split(), "tests/core/test_collision_adjoint.py")


@dataclass(frozen=True)
class OpRow:
    """One op: where it lives, how to draw its inputs, and how sharp float32 is.

    Attributes:
        label: name in test reports.
        name: name in the op set.
        ops: a function that returns the op set.
        sample: draws ordinary inputs.
        edge: draws inputs at the edges of the domain.
        reference: an independent value of the forward, where there is one.
        float_tolerance: relative error of the float32 run.
        pairing: largest error of the pairing with dual numbers.
        differentiable: 1 for each input that has a gradient, 0 elsewhere; all when None.
    """

    label: str
    name: str
    ops: Callable[[], Any]
    sample: Sampler
    edge: Sampler
    reference: Callable[[Vector], Vector] | None = None
    float_tolerance: float = 1e-5
    differentiable: Callable[[], Vector] | None = None
    pairing: float = 1e-12


@cache
def pure() -> Any:
    """Return the ops that need no model."""
    return _ops.pure_ops()


def ops_of(model: fb.Model, **options: Any) -> Any:
    """Return the ops of a model under a simulator's options."""
    sim = fb.Simulator(model, tolerance=1e-13, **options)
    structure = model.structure
    theta = np.concatenate([a.reshape(-1) for a in sim.params.values()])
    limits = ("max_contacts", "max_sweeps")
    sizes = {**structure.sizes, **{k: getattr(sim.options, k) for k in limits}}
    vert = structure.vert.reshape(-1)
    return _ops.model_ops(sizes, structure.tables, theta, vert, sim.options.core())


TREE = """
<mujoco>
  <option timestep="0.004"/>
  <default><geom contype="0" conaffinity="0"/></default>
  <worldbody>
    <geom type="plane" size="5 5 1" contype="1" conaffinity="1" friction="0.6"/>
    <body pos="0 0 0.4">
      <freejoint/>
      <geom type="box" size="0.2 0.1 0.05" mass="3"/>
      <geom type="sphere" size="0.06" pos="0.1 0.05 -0.3" contype="1" conaffinity="1" mass="0.2"/>
      <body pos="0.2 0.1 0.1" euler="20 30 40">
        <joint type="hinge" axis="1 2 3" pos="0.02 0 0.01" range="-30 40" stiffness="3"
               damping="0.2" springref="10" armature="0.01" frictionloss="0.05" name="a"/>
        <joint type="slide" axis="0 1 1" range="-0.05 0.05" damping="1" name="b"/>
        <geom type="capsule" size="0.03 0.1" mass="0.7" pos="0.01 0.02 0.1"/>
        <body pos="0 0.1 0.2" euler="10 0 70">
          <joint type="ball" pos="0.01 0 -0.02" damping="0.1" name="c"/>
          <geom type="box" size="0.05 0.04 0.1" mass="0.5"/>
          <geom type="sphere" size="0.07" pos="0 0 0.05" contype="1" conaffinity="1" mass="0.1"/>
          <body pos="0.1 0 0"><geom type="sphere" size="0.03" mass="0.3"/></body>
        </body>
      </body>
    </body>
    <body pos="1 0 0.2">
      <joint type="slide" axis="0 0 1" name="d"/>
      <joint type="hinge" axis="0 1 0" name="e" damping="0.3"/>
      <geom type="sphere" size="0.1" pos="0.05 0 -0.1" contype="1" conaffinity="1" mass="1"/>
    </body>
  </worldbody>
  <actuator>
    <position joint="a" kp="20" kv="1" ctrlrange="-1 1" forcerange="-4 4"/>
    <motor joint="b" gear="3"/>
    <velocity joint="e" kv="2"/>
    <general joint="d" gaintype="affine" gainprm="2 0.5 -0.4" biastype="affine"
             biasprm="1 -3 -0.5" gear="1.5"/>
  </actuator>
</mujoco>
"""


@cache
def tree_model() -> fb.Model:
    """Return a model with every joint type, springs, limits, friction and servos over a plane."""
    return fb.load(TREE, name="tree")


@cache
def tree_ops() -> Any:
    """Return the ops of the tree model."""
    return ops_of(tree_model())


@cache
def tree_box_ops() -> Any:
    """Return the ops of the tree model under box friction."""
    return ops_of(tree_model(), friction="box")


@cache
def unfinished_ops() -> Any:
    """Return the ops of the tree model after three sweeps, which converge to nothing."""
    return ops_of(tree_model(), solver="pgs", max_sweeps=3)


@cache
def unfinished_loop_ops() -> Any:
    """Return the ops of the loop model after three sweeps under box friction."""
    return ops_of(loop_model(), solver="pgs", max_sweeps=3, friction="box")


@cache
def bounce_ops() -> Any:
    """Return the ops of the tree model with restitution and compliance."""
    n = tree_model().ngeom
    return ops_of(
        tree_model(),
        params={"geom_restitution": np.full(n, 0.4), "contact_compliance": np.full(n, 1e-5)},
    )


LOOP = """
<mujoco>
  <option timestep="0.004"/>
  <default><geom contype="0" conaffinity="0"/></default>
  <worldbody>
    <geom type="plane" size="5 5 1" contype="1" conaffinity="1" friction="0.6"/>
    <body name="held" mocap="true" pos="0.9 0.1 0.75"/>
    <body name="a" pos="0 0 1">
      <joint name="ball" type="ball" range="0 50" stiffness="4" damping="0.2"/>
      <geom type="capsule" size="0.03" fromto="0 0 0 0.4 0 0" mass="1"/>
      <body name="b" pos="0.4 0 0">
        <joint name="h1" axis="0 1 0.2" stiffness="1"/>
        <geom type="capsule" size="0.03" fromto="0 0 0 0 0.3 -0.3" mass="0.6"/>
        <body name="c" pos="0 0.3 -0.3">
          <joint name="h2" axis="1 0 0"/>
          <geom type="box" size="0.1 0.05 0.04" pos="0.1 0 0" mass="0.5"/>
        </body>
      </body>
    </body>
    <body name="d" pos="0.9 0.1 0.7">
      <freejoint name="root"/>
      <geom type="sphere" size="0.06" contype="1" conaffinity="1" mass="0.8"/>
      <body name="e" pos="0.1 0 0">
        <joint name="s1" type="slide" axis="1 1 0"/>
        <geom type="sphere" size="0.05" mass="0.3"/>
      </body>
    </body>
  </worldbody>
  <equality>
    <connect body1="c" body2="d" anchor="0.2 0.02 0.01"/>
    <weld body1="d" body2="held" relpose="0 0 0.05 1 0.1 0.05 0"/>
    <joint joint1="h2" joint2="h1" polycoef="0.05 0.8 0.1 -0.2 0.05"/>
    <joint joint1="s1" polycoef="0.02 0 0 0 0"/>
  </equality>
  <actuator>
    <general joint="ball" gear="1 0.5 -0.3" gaintype="affine" gainprm="2 0.3 -0.1"
             biastype="affine" biasprm="0.4 -1 -0.2"/>
    <general joint="root" gear="1 0 0.5 0.2 0 0.3" biastype="affine" biasprm="0.1 0 -0.3"/>
    <position joint="h1" kp="3" forcerange="-2 2"/>
  </actuator>
</mujoco>
"""


@cache
def loop_model() -> fb.Model:
    """Return a model with every equality, a limited and sprung ball, and servos on both."""
    return fb.load(LOOP, name="loop")


@cache
def loop_ops() -> Any:
    """Return the ops of the loop model."""
    return ops_of(loop_model())


@cache
def laikago() -> fb.Model:
    """Return the Laikago."""
    return fb.models.laikago()


@cache
def laikago_ops() -> Any:
    """Return the ops of the Laikago."""
    return ops_of(laikago())


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


def _rows(rng: np.random.Generator) -> Vector:
    return np.r_[rng.normal(size=72), rng.uniform(0.1, 1, 3)]


def _rows_at_rest(rng: np.random.Generator) -> Vector:
    x = _rows(rng)
    x[64:72] = 0.0
    return x


def _quat_step(rng: np.random.Generator) -> Vector:
    return np.r_[rng.normal(size=7), rng.uniform(0.001, 0.1)]


def _quat_edge(rng: np.random.Generator) -> Vector:
    w = rng.choice([0.0, 1e-9, 1e-3, np.pi / 0.1]) * _unit(rng)
    return np.r_[rng.normal(size=4), w, 0.1]


def state(model: fb.Model, rng: np.random.Generator, extra: int, rest: bool = False) -> Vector:
    """Draw (q, v, extra numbers) near the model's first keyframe or its reference."""
    import mujoco

    q = np.array(model.keyframe(0)[0] if model.keyframe_names else model.q0)
    # the Laikago stays on its feet: other shapes that touch have no adjoint
    wide = 0.02 if model.keyframe_names else 0.1
    dq = rng.normal(size=model.nv) * (0.0 if rest else wide)
    dq[:3] *= 0.2
    mujoco.mj_integratePos(model.mujoco, q, dq, 1.0)
    v = rng.normal(size=model.nv) * (0.0 if rest else 10 * wide)
    return np.r_[q, v, rng.normal(size=extra) * 0.3]


def _model_row(
    label: str, name: str, model: Callable[[], fb.Model], ops: Callable[[], Any], extra: str
) -> OpRow:
    """Return the row of a model's op; `extra` says what follows q and v."""

    def numbers() -> int:
        return {"": 0, "a": model().nv, "u": model().nu}[extra]

    return OpRow(
        label,
        name,
        ops,
        lambda rng: state(model(), rng, numbers()),
        lambda rng: state(model(), rng, numbers(), rest=True),
        float_tolerance=2e-2 if name == "step" else 2e-4,
        # stiff equalities: rows of condition 1e6 meet in cancelling sums
        pairing=1e-11 if label.startswith("loop") else 1e-12,
    )


# parameters that steer the step without a gradient, and those that carry none here
WITHOUT_GRADIENT = ("body_invweight0", "dof_invweight0")


def _parameters(model: fb.Model, rng: np.random.Generator | None) -> Vector:
    """Return the flat parameters of a model, those that meet in a maximum made distinct."""
    parts = []
    for name, value in fb.Simulator(model).params.items():
        part = np.array(value, np.float64)
        if rng is not None and name in ("geom_friction", "geom_restitution"):
            part = part + rng.uniform(0.01, 0.3, part.shape)
        if rng is not None and name == "xfrc_applied":
            part = rng.normal(size=part.shape)
        if rng is not None and name == "contact_compliance":
            part = part + rng.uniform(1e-6, 1e-5, part.shape)
        parts.append(part.reshape(-1))
    return np.concatenate(parts)


def _differentiable(model: fb.Model, first: int) -> Vector:
    """Return 1 for inputs with a gradient: `first` others, then the parameters."""
    parts = [np.ones(first)]
    for name, value in fb.Simulator(model).params.items():
        parts.append(np.full(value.size, 0.0 if name in WITHOUT_GRADIENT else 1.0))
    return np.concatenate(parts)


def _theta_rows(label: str, model: Callable[[], fb.Model], ops: Callable[[], Any]) -> list[OpRow]:
    """Return the rows of a model's ops over its parameters."""

    def step(rng: np.random.Generator, rest: bool = False) -> Vector:
        m = model()
        return np.r_[state(m, rng, m.nu, rest), _parameters(m, rng)]

    return [
        OpRow(
            f"{label}/derive",
            "derive",
            ops,
            lambda g: _parameters(model(), g),
            lambda g: _parameters(model(), None),
            float_tolerance=1e-4,
        ),
        OpRow(
            f"{label}/step_theta",
            "step_theta",
            ops,
            step,
            lambda g: step(g, True),
            float_tolerance=0.2,
            pairing=1e-11 if label == "loop" else 1e-12,
            differentiable=lambda: _differentiable(model(), model().nq + model().nv + model().nu),
        ),
    ]


ROWS: list[OpRow] = [
    OpRow("newton_euler", "newton_euler", pure, _newton_euler, _newton_euler_at_rest),
    OpRow(
        "normalised", "normalised", pure, lambda g: g.normal(size=4), lambda g: np.r_[1.0, 0, 0, 0]
    ),
    OpRow(
        "half_angle",
        "half_angle",
        pure,
        lambda g: g.uniform(0.01, 9, 1),
        lambda g: np.array([g.choice([0.0, 1e-12, 0.9e-6, 1.1e-6, np.pi**2])]),
        reference=lambda x: np.r_[np.cos(np.sqrt(x) / 2), np.sin(np.sqrt(x) / 2) / np.sqrt(x)],
        float_tolerance=1e-4,
    ),
    OpRow("integrate_quat", "integrate_quat", pure, _quat_step, _quat_edge),
    OpRow("tangents", "tangents", pure, _unit, _axis),
    OpRow("solve_rows_cone", "solve_rows_cone", pure, _rows, _rows_at_rest, float_tolerance=0.5),
    OpRow("solve_rows_box", "solve_rows_box", pure, _rows, _rows_at_rest, float_tolerance=0.5),
    OpRow("unrolled_rows_cone", "unrolled_rows_cone", pure, _rows, _rows_at_rest),
    OpRow("unrolled_rows_box", "unrolled_rows_box", pure, _rows, _rows_at_rest),
    _model_row("tree/inverse_dynamics", "inverse_dynamics", tree_model, tree_ops, "a"),
    _model_row("tree/integrate", "integrate", tree_model, tree_ops, ""),
    _model_row("tree/actuation", "actuation", tree_model, tree_ops, "u"),
    _model_row("tree/step", "step", tree_model, tree_ops, "u"),
    _model_row("tree/step/box", "step", tree_model, tree_box_ops, "u"),
    _model_row("tree/step/bounce", "step", tree_model, bounce_ops, "u"),
    _model_row("laikago/inverse_dynamics", "inverse_dynamics", laikago, laikago_ops, "a"),
    _model_row("laikago/step", "step", laikago, laikago_ops, "u"),
    _model_row("loop/actuation", "actuation", loop_model, loop_ops, "u"),
    _model_row("loop/step", "step", loop_model, loop_ops, "u"),
    *_theta_rows("tree", tree_model, tree_ops),
    *_theta_rows("loop", loop_model, loop_ops),
    *_theta_rows("laikago", laikago, laikago_ops),
    _model_row("tree/step/unfinished", "step", tree_model, unfinished_ops, "u"),
    _model_row("loop/step/unfinished", "step", loop_model, unfinished_loop_ops, "u"),
    _theta_rows("tree/unfinished", tree_model, unfinished_ops)[1],
    _theta_rows("loop/unfinished", loop_model, unfinished_loop_ops)[1],
]
