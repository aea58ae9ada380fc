"""A floor on request."""

from __future__ import annotations

from typing import Literal

import numpy as np
import pytest

import featherback as fb

BODY = """<mujoco>{default}<worldbody><body pos="0 0 0.5"><freejoint/>
<geom name="{name}" size="0.1" {more}/></body></worldbody></mujoco>"""
URDF = """<robot name="r"><link name="a"><inertial><mass value="1"/>
<inertia ixx="1" iyy="1" izz="1" ixy="0" ixz="0" iyz="0"/></inertial>
<collision><geometry><box size="0.2 0.2 0.2"/></geometry></collision></link></robot>"""


def ball(default: str = "", name: str = "ball", more: str = "") -> str:
    """Return a ball in the air."""
    return BODY.format(default=default, name=name, more=more)


@pytest.mark.parametrize("law", ["hard", "mujoco"])
@pytest.mark.parametrize("text", [ball(), URDF])
def test_what_falls_comes_to_rest_on_it(text: str, law: Literal["hard", "mujoco"]) -> None:
    """Let a ball and the root of a URDF fall; they lie 0.1 m above the floor."""
    model = fb.load(text, free_root=text == URDF, floor=-0.2)
    assert model.geom_names[0] == "floor"
    sim = fb.Simulator(model, contact=law)
    roll = sim.rollout(model.q0, model.v0, steps=600)
    assert abs(roll.q[-1, 2] + 0.1) < 2e-3
    assert np.abs(roll.v[-1]).max() < 1e-2


@pytest.mark.parametrize("more", ['contype="0" conaffinity="4"', 'contype="2" conaffinity="0"', ""])
def test_it_touches_whatever_touches_anything(more: str) -> None:
    """Make a pair of the floor and a geom, whatever bits the geom has."""
    assert len(fb.load(ball(more=more), floor=0.0).parsed.pairs) == 1


def test_visual_geoms_do_not_touch_it() -> None:
    """Make no pair with a geom that touches nothing."""
    model = fb.load(ball(more='contype="0" conaffinity="0"'), floor=0.0)
    assert len(model.parsed.pairs) == 0


def test_default_classes_give_their_settings_but_no_shape() -> None:
    """Take friction and condim from the default class, and leave its shape and bits."""
    default = (
        '<default><geom type="capsule" fromto="0 0 0 0 0 1" contype="0" conaffinity="0" '
        'friction="0.3" condim="4"/></default>'
    )
    compiled = fb.load(ball(default, more='contype="1"'), floor=1).mujoco
    floor = compiled.geom("floor")
    assert int(floor.type[0]) == 0
    assert floor.pos.tolist() == [0.0, 0.0, 1.0]
    assert (float(floor.friction[0]), int(floor.condim[0])) == (0.3, 4)


def test_a_name_that_is_taken_is_left_alone() -> None:
    """Add a floor without a name where a geom has it already."""
    model = fb.load(ball(name="floor"), floor=0.0)
    assert model.geom_names[0] in ("", None)
    assert len(model.parsed.pairs) == 1
