"""Rows of the op table for MuJoCo's contact law: its parts, the mixing of geoms, whole steps."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import numpy as np

import featherback as fb
from tests.core import references, references_soft
from tests.core.models import limits_model, loop_model, pile_model, tree_model
from tests.core.ops import (
    OF_MUJOCO,
    OpRow,
    Sampler,
    Vector,
    over_parameters,
    parameters,
    pure_row,
    quat,
    quat_at_edge,
    state,
    with_gradient,
)
from tests.core.ops_models import Case
from tests.core.ops_tendons import heavy_model, tendons_model, wraps_inside_model, wraps_model

# ---- the parts of a row


def _solimp(rng: np.random.Generator) -> Vector:
    """Draw the five numbers of an impedance, all within their bounds."""
    power = rng.choice([2.0, 3.0, rng.uniform(1.1, 4)])
    return np.r_[rng.uniform(0.05, 0.95, 2), rng.uniform(0.2, 1), rng.uniform(0.2, 0.8), power]


def _solimp_at_edge(rng: np.random.Generator) -> Vector:
    """Draw five numbers at their bounds, beyond them, or alike."""
    x = _solimp(rng)
    low, high = rng.choice([-1.0, 0.0, 1e-4, 0.5, 0.9999, 1.0, 2.0], 2)
    x[:2] = (low, high) if rng.random() < 0.5 else (low, low)
    x[2] = rng.choice([-1.0, 0.0, 1e-16, 1e-12, 1.0])
    x[3] = rng.choice([-1.0, 0.0, 0.5, 1.0])
    x[4] = rng.choice([0.0, 1.0, 2.0, 50.0])
    return x


def _impedance(rng: np.random.Generator) -> Vector:
    x = _solimp(rng)
    return np.r_[x, x[2] * rng.uniform(-1.3, 1.3)]


def _impedance_at_edge(rng: np.random.Generator) -> Vector:
    x = _solimp_at_edge(rng)
    return np.r_[x, rng.choice([0.0, -0.0, x[2], -x[2], x[2] * x[3], 1e-300, 1e6])]


def _solref(rng: np.random.Generator) -> Vector:
    """Draw both forms of solref, and numbers of different sign, which the default replaces."""
    signs = ((1, 1), (1, 1), (-1, -1), (1, -1), (-1, 1))[rng.integers(5)]
    return np.multiply(signs, rng.uniform(0.5, 2, 2))


def _row_spring(rng: np.random.Generator) -> Vector:
    return np.r_[_solref(rng), rng.uniform(0.1, 0.95), rng.uniform(0.1, 0.6)]


def _row_spring_at_edge(rng: np.random.Generator) -> Vector:
    return np.r_[rng.choice([0.0, 1e-9, -1.0, 1.0], 2), rng.choice([0.0, 1e-4, 1.0, 2.0]), 0.1]


def _reference(rng: np.random.Generator) -> Vector:
    weight, h = rng.uniform(0.1, 2), rng.uniform(0.1, 0.6)
    return np.r_[_solref(rng), _impedance(rng), weight, h]


def _reference_at_edge(rng: np.random.Generator) -> Vector:
    spring = _row_spring_at_edge(rng)
    return np.r_[spring[:2], _impedance_at_edge(rng), rng.choice([0.0, 1e-15, 1.0]), 0.1]


# ---- the force of one group


def _force(cone: str, rows: int) -> Sampler:
    """Return a sampler of (D, mu, y) at which a contact pushes, sticking or sliding."""
    reference = getattr(references_soft, cone)

    def draw(rng: np.random.Generator) -> Vector:
        while True:
            y = rng.normal(size=rows)
            # every other one is pressed
            y[0] -= rng.choice([0.0, 2.0])
            x = np.r_[rng.uniform(0.5, 3), rng.uniform(0.2, 1.5, rows - 1), y]
            if np.any(reference(x)):
                return x

    return draw


def _force_at_edge(rows: int) -> Sampler:
    """Return a sampler of the tip of a cone, its axis, points on a border, little friction."""

    def draw(rng: np.random.Generator) -> Vector:
        # of less friction its cotangent is a difference of large numbers
        mu = np.full(rows - 1, rng.choice([1e-3, 0.8, 1.0]))
        y = np.zeros(rows)
        y[0] = rng.choice([-1.0, 0.0, 1.0])
        y[rng.integers(1, rows)] = rng.choice([-1.0, 0.0, 1.0, 1e-200])
        return np.r_[rng.choice([0.0, 1.0]), mu, y]

    return draw


def _cone_rows(cone: str) -> list[OpRow]:
    """Return the rows of a contact's force, for each number of its rows."""
    reference = getattr(references_soft, cone)
    return [
        pure_row(f"soft_{cone}_{n}", _force(cone, n), _force_at_edge(n), reference, value=1e-13)
        for n in (3, 4, 6)
    ]


def _equality(count: int) -> OpRow:
    return pure_row(
        f"soft_equality_{count}",
        lambda rng: np.r_[rng.uniform(0.5, 3), rng.normal(size=count)],
        lambda rng: np.r_[rng.choice([0.0, 1.0]), np.zeros(count)],
        references_soft.equality,
    )


def _spring_rows() -> list[OpRow]:
    """Return the rows of springs whose time constant is bounded, or taken as given."""
    ends = (_row_spring, _row_spring_at_edge)
    return [
        pure_row(name, *ends, references_soft.row_spring(safe), value=1e-13)
        for name, safe in (("row_spring_safe", True), ("row_spring_as_given", False))
    ]


PARTS: list[OpRow] = [
    pure_row(
        "power",
        lambda rng: rng.uniform((0.05, 0.1), (1, 4)),
        lambda rng: np.r_[rng.choice([1e-300, 1.0]), rng.choice([0.0, 1.0, 2.0])],
        lambda x: np.r_[x[0] ** x[1], np.log(x[0])],
    ),
    pure_row("impedance", _impedance, _impedance_at_edge, references_soft.impedance, value=1e-13),
    *_spring_rows(),
    *(
        pure_row(
            name, _reference, _reference_at_edge, references_soft.reference(sprung), value=1e-12
        )
        for name, sprung in (("reference", True), ("reference_unsprung", False))
    ),
    pure_row("quaternion_of", quat, quat_at_edge, references_soft.quaternion),
    _equality(1),
    _equality(3),
    pure_row(
        "soft_friction",
        lambda rng: np.r_[rng.uniform(0.5, 3), rng.uniform(0.3, 1), rng.normal()],
        lambda rng: np.r_[1.0, rng.choice([0.0, 1.0]), rng.choice([-1.0, 0.0, 1.0])],
        references_soft.friction,
    ),
    pure_row(
        "soft_one_sided",
        lambda rng: np.r_[rng.uniform(0.5, 3), -rng.uniform(0.01, 2)],
        lambda rng: np.r_[1.0, rng.choice([0.0, -0.0, 1.0, -1e-300])],
        references_soft.one_sided,
    ),
    *_cone_rows("ellipse"),
    *_cone_rows("pyramid"),
]

# ---- models

SCENE = """
<mujoco>
  <option timestep="0.004"/>
  <worldbody>
    <geom name="floor" type="plane" size="5 5 1" friction="0.6 0.02 0.01" margin="0.002"
          solref="0.03 0.8" solimp="0.8 0.95 0.004 0.4 3" contype="1" conaffinity="1"/>
    <body pos="0 0 0.058"><freejoint/>
      <geom name="ball" size="0.06" mass="0.5" condim="6" friction="0.5 0.05 0.02" solmix="2"
            solimp="0.7 0.9 0.01 0.5 2"/>
    </body>
    <body pos="0.5 0 0.048" euler="3 5 0"><freejoint/>
      <geom name="rod" type="capsule" size="0.05" fromto="-0.1 0.02 0 0.1 0 0" mass="0.8"
            condim="4" friction="0.3 0.04 0.01" solref="-900 -40"/>
    </body>
    <body pos="1 0 0.096" euler="4 3 20"><freejoint/>
      <geom name="box" type="box" size="0.1 0.12 0.1" mass="1.2" condim="3" friction="0.4"
            priority="1" solref="0.015 1.2" margin="0.004" gap="0.001"/>
    </body>
    <body pos="1.02 0.01 0.246"><freejoint/>
      <geom name="top" size="0.05" mass="0.3" condim="1" solref="-2000 -80" solmix="0.5"/>
    </body>
    <body pos="1.5 0 0.039"><freejoint/>
      <geom name="own" size="0.04" mass="0.2"/>
    </body>
    <body pos="2 0 0.3">
      <joint name="a" axis="0.1 1 0" range="-20 0.5" damping="0.1" armature="0.01" margin="0.02"
             frictionloss="0.05" solreflimit="-800 -30" solimplimit="0.6 0.9 0.02 0.4 2.5"
             solreffriction="0.03 1.1" solimpfriction="0.8 0.8 0.01 0.5 2"/>
      <geom type="capsule" size="0.03" fromto="0 0 0 0.3 0 0" mass="0.6" contype="0"
            conaffinity="0"/>
      <body pos="0.3 0 0">
        <joint name="b" axis="0 1 0" stiffness="2" damping="0.05"/>
        <geom name="foot" size="0.04" pos="0.01 0 -0.25" mass="0.4"/>
        <body pos="0.1 0 0">
          <joint name="c" type="ball" range="0 2" margin="0.01" solreflimit="0.03 1.3"/>
          <geom size="0.03" pos="0.05 0 0" mass="0.2" contype="0" conaffinity="0"/>
        </body>
      </body>
    </body>
    <body pos="3 0 1">
      <joint name="d" type="slide" axis="0 0 1" armature="0.1"/>
      <geom size="0.05" mass="0.3" contype="0" conaffinity="0"/>
    </body>
  </worldbody>
  <contact>
    <pair geom1="floor" geom2="own" condim="6" friction="0.5 0.4 0.03 0.02 0.01" margin="0.003"
          solref="0.025 0.9" solreffriction="0.04 0.8" solimp="0.75 0.9 0.005 0.4 2"/>
    <pair geom1="floor" geom2="foot" margin="0.02" solreffriction="0.005 0.9"/>
  </contact>
  <equality>
    <joint joint1="d" joint2="a" polycoef="0.01 0.5 0.1 0 0" solref="0.04 0.7"
           solimp="0.7 0.95 0.02 0.3 2"/>
  </equality>
  <actuator>
    <motor joint="a" gear="2"/>
    <position joint="b" kp="4" kv="0.3" timeconst="0.02"/>
  </actuator>
  <keyframe><key name="start"/></keyframe>
</mujoco>
"""


@cache
def scene_model() -> fb.Model:
    """Return contacts of every number of rows with settings of their own, limits and a coupling."""
    return fb.load(SCENE, name="scene", on_unsupported="drop")


# every dynamics, early or late, some with a range that they reach
DRIVES = """
  <actuator>
    <motor joint="a" gear="2"/>
    <intvelocity joint="a" kp="3" kv="0.2" actrange="-0.02 0.03"/>
    <general joint="a" dyntype="filter" dynprm="0.03" gainprm="2" actlimited="true"
             actrange="-0.2 0.15"/>
    <position joint="b" kp="4" kv="0.3" timeconst="0.02"/>
    <general joint="b" dyntype="filterexact" dynprm="0.01" gainprm="1" actearly="true"
             actlimited="true" actrange="-0.1 0.25"/>
    <general joint="d" dyntype="filter" dynprm="0.05" gaintype="affine" gainprm="1 0.2 -0.5"
             biastype="affine" biasprm="0.1 -1 -0.4" actearly="true"/>
    <general joint="d" dyntype="integrator" gainprm="2" forcerange="-0.7 0.6"/>
  </actuator>
"""


@cache
def driven_model() -> fb.Model:
    """Return the scene with joints that are driven through activations of every kind."""
    head, _, rest = SCENE.partition("<actuator>")
    text = head + DRIVES + rest.partition("</actuator>")[2]
    return fb.load(text, name="driven", on_unsupported="drop")


# servos on joints of several dofs: a ball, a free body, and that of a tree
GEARS = """
  <actuator>
    <position joint="c" gear="0.3 -0.5 0.8" kp="0.5" kv="0.02"/>
    <general joint="c" gear="1 0.2 0" dyntype="filter" dynprm="0.02" gaintype="affine"
             gainprm="0.3 0.1 -0.005" biastype="affine" biasprm="0 0 -0.02"/>
    <velocity joint="carried" gear="1 0 2 0.1 0.2 -0.3" kv="0.4" forcerange="-0.2 0.3"/>
    <velocity joint="root" gear="0.5 0.2 -1 0.1 0.3 0.2" kv="0.6"/>
  </actuator>
"""


@cache
def geared_model() -> fb.Model:
    """Return the scene with servos on joints of several dofs."""
    text = SCENE.replace(
        '<body pos="1 0 0.096" euler="4 3 20"><freejoint/>',
        '<body pos="1 0 0.096" euler="4 3 20"><freejoint name="carried"/>',
    ).replace(
        '<body pos="3 0 1">',
        '<body pos="4 0 1"><freejoint name="root"/><geom size="0.05" mass="0.3" contype="0" '
        'conaffinity="0"/><body pos="0.1 0 0"><joint axis="0 1 0"/><geom size="0.04" mass="0.2" '
        'pos="0.1 0 0" contype="0" conaffinity="0"/></body></body><body pos="3 0 1">',
    )
    head, _, rest = text.partition("<actuator>")
    return fb.load(head + GEARS + rest.partition("</actuator>")[2], name="geared")


# bodies that are held at one contact, at several, and at one with each other
HELD = """
  <actuator>
    <motor joint="a" gear="2"/>
    <general body="rod" gainprm="9" ctrlrange="-3 3"/>
    <adhesion body="box" gain="20" ctrlrange="0 2" forcerange="-15 15"/>
    <general body="foot" dyntype="filter" dynprm="0.03" gainprm="6" biastype="affine"
             biasprm="2 0 0"/>
  </actuator>
"""


@cache
def adhesion_model() -> fb.Model:
    """Return the scene with actuators on bodies, which hold them at their contacts."""
    text = SCENE.replace(' gap="0.001"', "")
    for at, name in (("0.5 0 0.048", "rod"), ("1 0 0.096", "box"), ("0.3 0 0", "foot")):
        text = text.replace(f'<body pos="{at}"', f'<body name="{name}" pos="{at}"')
    head, _, rest = text.partition("<actuator>")
    return fb.load(head + HELD + rest.partition("</actuator>")[2], name="adhesion")


def _soft(
    model: Callable[[], fb.Model], cone: str, impratio: float = 1.0, integrator: str = "euler"
) -> Case:
    return Case(model, contact="mujoco", cone=cone, impratio=impratio, integrator=integrator)


scene = _soft(scene_model, "elliptic", 2.0)
scene_pyramid = _soft(scene_model, "pyramidal", 0.5)
scene_fast = _soft(scene_model, "elliptic", integrator="implicitfast")
tree = _soft(tree_model, "elliptic")
tree_fast = _soft(tree_model, "elliptic", integrator="implicitfast")
tree_rk4 = _soft(tree_model, "elliptic", integrator="rk4")
geared_fast = _soft(geared_model, "elliptic", integrator="implicitfast")
driven_rk4 = _soft(driven_model, "pyramidal", integrator="rk4")
loop = _soft(loop_model, "pyramidal")
limits = _soft(limits_model, "elliptic")
tendons = _soft(tendons_model, "pyramidal")
tendons_fast = _soft(tendons_model, "pyramidal", integrator="implicitfast")
tendons_rk4 = _soft(tendons_model, "elliptic", integrator="rk4")
adhesion = _soft(adhesion_model, "elliptic")
adhesion_rk4 = _soft(adhesion_model, "pyramidal", integrator="rk4")
heavy = _soft(heavy_model, "pyramidal")
heavy_fast = _soft(heavy_model, "elliptic", integrator="implicitfast")
heavy_rk4 = _soft(heavy_model, "pyramidal", integrator="rk4")
wraps = _soft(wraps_model, "elliptic")
wraps_inside = _soft(wraps_inside_model, "pyramidal", integrator="implicitfast")
pile = _soft(pile_model, "elliptic")
pile_pyramid = _soft(pile_model, "pyramidal", 3.0)

# ---- whole steps


def _precision(label: str) -> dict[str, float]:
    """Return how sharp a step is.

    Rows of very different stiffness meet in cancelling sums. The stiffness of a sliding ellipse is
    that before the last step of the solve; edges of a pyramid have one stiffness.
    """
    pairing = 1e-12 if label.endswith("pyramid") else 1e-9
    return {"value": 1e-9, "float_tolerance": 3e-3, "pairing": pairing}


def _draw(case: Case, rng: np.random.Generator, rest: bool = False) -> Vector:
    """Draw (q, v, act, u)."""
    return state(case.model, rng, case.model.na + case.model.nu, rest)


def step_rows(label: str, case: Case, like_mujoco: bool = True) -> list[OpRow]:
    """Return the rows of a step over states, against MuJoCo's own, and over the parameters."""

    def reference(x: Vector) -> Vector:
        if like_mujoco:
            return references_soft.mujoco_step(case.sim, case.options, x)
        return references.step(case.sim, x)

    step = OpRow(
        f"soft/{label}/step",
        "step",
        lambda: case.ops,
        lambda rng: _draw(case, rng),
        lambda rng: _draw(case, rng, True),
        reference,
        **_precision(label),
    )

    def draw(rng: np.random.Generator, rest: bool = False) -> Vector:
        return _draw(case, rng, rest)

    def own(x: Vector) -> Vector:
        return references.step(case.sim, x)

    return [step, over_parameters(f"soft/{label}", case, draw, own, **_precision(label))]


def _forces_row(label: str, case: Case, pairing: float = 1e-9) -> OpRow:
    """Return the row of the contacts' forces over (q, v, act, u, parameters).

    Near the tip of a cone dual numbers carry the stiffness before the last step of the solve into
    their tangents; differences agree with the adjoint there.
    """

    def has_gradient() -> Vector:
        m = case.model
        return with_gradient(case, m.nq + m.nv + m.na + m.nu)

    def point(rng: np.random.Generator, rest: bool = False) -> Vector:
        while True:
            x = np.r_[_draw(case, rng, rest), parameters(case, rng)]
            if np.any(references.contact_forces(case.sim, x)):
                return x

    return OpRow(
        f"soft/{label}/contact_forces",
        "contact_forces",
        lambda: case.ops,
        point,
        lambda rng: point(rng, True),
        lambda x: references.contact_forces(case.sim, x),
        differentiable=has_gradient,
        stencil=3e-5,
        **{**_precision(label), "pairing": pairing},
    )


def _law_row(label: str, case: Case) -> OpRow:
    """Return the row of the parameters of every pair, over all parameters."""

    def is_read() -> Vector:
        names = ("geom", "pair")
        return np.concatenate(
            [
                np.full(
                    value.size,
                    float(
                        name in ("geom_friction", "pair_friction")
                        or (name.startswith(names) and OF_MUJOCO.search(name) is not None)
                    ),
                )
                for name, value in case.params.items()
            ]
        )

    return OpRow(
        f"soft/{label}/contact_law",
        "contact_law",
        lambda: case.ops,
        lambda rng: parameters(case, rng),
        lambda rng: parameters(case, None),
        lambda x: references_soft.contact_law(case.model, case.params, x),
        differentiable=is_read,
        value=1e-12,
    )


SOFT_ROWS: list[OpRow] = [
    *PARTS,
    _law_row("scene", scene),
    *step_rows("scene", scene),
    *step_rows("scene/pyramid", scene_pyramid),
    *step_rows("scene/implicitfast", scene_fast),
    *step_rows("tree", tree),
    *step_rows("tree/implicitfast", tree_fast),
    *step_rows("tree/rk4", tree_rk4),
    *step_rows("geared/implicitfast", geared_fast),
    *step_rows("driven/rk4/pyramid", driven_rk4),
    *step_rows("loop", loop),
    *step_rows("limits", limits),
    *step_rows("tendons/pyramid", tendons),
    *step_rows("tendons/implicitfast/pyramid", tendons_fast),
    *step_rows("tendons/rk4", tendons_rk4),
    *step_rows("adhesion", adhesion),
    *step_rows("adhesion/rk4/pyramid", adhesion_rk4),
    *step_rows("heavy/pyramid", heavy),
    *step_rows("heavy/implicitfast", heavy_fast),
    *step_rows("heavy/rk4/pyramid", heavy_rk4),
    *step_rows("wraps", wraps),
    # MuJoCo finds the point of touch from the inside to 1e-6
    *step_rows("wraps_inside/implicitfast/pyramid", wraps_inside, like_mujoco=False),
    # contact points between boxes and balls are chosen otherwise
    *step_rows("pile", pile, like_mujoco=False),
    *step_rows("pile/pyramid", pile_pyramid, like_mujoco=False),
    _forces_row("scene", scene),
    _forces_row("scene/pyramid", scene_pyramid),
    _forces_row("adhesion", adhesion, 1e-7),
    _forces_row("pile", pile),
    _forces_row("pile/pyramid", pile_pyramid),
]
