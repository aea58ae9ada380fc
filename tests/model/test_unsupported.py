"""What is not supported is refused by name, and left out and listed on request."""

from __future__ import annotations

from collections.abc import Callable

import mujoco
import numpy as np
import pytest

import featherback as fb
from featherback.model.compiler import muted
from featherback.model.model import Parsed
from tests.model.helpers import message, mjcf, notes, read
from tests.model.unsupported import FLOOR, TENDON, UNSUPPORTED, Unsupported


@pytest.mark.parametrize("case", UNSUPPORTED, ids=lambda case: case.name)
def test_left_out_on_request(case: Unsupported) -> None:
    """Go on without it, list it once, and leave a model of MuJoCo's that steps."""
    parsed = read(case.text, on_unsupported="drop")
    notice, *along = notes(parsed, case.kind)
    assert notice.startswith(f"{case.where}: ")
    # an actuator that is refused for a term may be refused for what it acts on as well
    assert all("goes with it" in other or other.startswith(case.where) for other in along)
    assert parsed.mujoco.nu == parsed.mujoco.nactuator == len(parsed.keep_actuator)
    data = mujoco.MjData(parsed.mujoco)
    with muted():
        mujoco.mj_step(parsed.mujoco, data)
    assert np.isfinite(data.qpos).all()


def test_dropped_actuator_keeps_its_place_without_force() -> None:
    """Mask a refused actuator and take its gain, so that controls keep their numbers."""
    text = mjcf(
        after='<actuator><general body="b" biastype="affine" biasprm="0 0 1"/><motor joint="j"/>'
        '<dcmotor joint="j" motorconst="1" resistance="1"/></actuator>',
    )
    parsed = read(text, on_unsupported="drop")
    assert parsed.keep_actuator.tolist() == [False, True, False]
    data = mujoco.MjData(parsed.mujoco)
    data.ctrl[:] = 1.0
    mujoco.mj_forward(parsed.mujoco, data)
    assert data.actuator_force.tolist() == [0.0, 1.0, 0.0]


def test_many_problems_are_listed_ten_at_a_time_and_of_every_sort() -> None:
    """Name ten of many problems, the first of each sort before the others, and count the rest."""
    users = "".join(f'<general name="u{i}" joint="j" gaintype="user"/>' for i in range(12))
    text = mjcf(
        after=f'<actuator>{users}<general name="m" body="b" biastype="affine" biasprm="0 0 1"/>'
        "</actuator>"
    )
    lines = message(text).splitlines()
    assert lines[0].startswith("<string>: 13 things") and 'on_unsupported="drop"' in lines[0]
    assert '<string>:8: <general name="u0">' in lines[1] and "#actuator-laws" in lines[1]
    assert '<string>:8: <general name="m">' in lines[2] and "#transmission" in lines[2]
    assert len(lines) == 12
    assert "3 more" in lines[-1]


def test_idle_tendon_is_listed() -> None:
    """List a tendon that exerts no force and load the model."""
    (notice,) = notes(read(mjcf(after=TENDON)), "ignored")
    assert notice.startswith('<string>:8: <fixed name="t">: ')


def test_inactive_equality_is_listed_and_masked() -> None:
    """Mask an equality that is not active."""
    text = mjcf(
        after='<equality><connect name="e" body1="b" anchor="0 0 0" active="false"/>'
        '<joint joint1="j"/></equality>'
    )
    parsed = read(text)
    assert parsed.keep_equality.tolist() == [False, True]
    (notice,) = notes(parsed, "ignored")
    assert notice.startswith('<string>:8: <connect name="e">: ')


def test_disabled_actuator_group_is_honoured() -> None:
    """Mask the actuators of a group that the file switches off."""
    text = mjcf(
        before='<option actuatorgroupdisable="1"/>',
        after='<actuator><motor name="m" joint="j" group="1"/><motor joint="j"/></actuator>',
    )
    parsed = read(text)
    assert parsed.keep_actuator.tolist() == [False, True]
    (notice,) = notes(parsed, "ignored")
    assert notice.startswith('<string>:8: <motor name="m">: ') and "group" in notice


@pytest.mark.parametrize(
    ("flag", "check"),
    [
        ("gravity", lambda p: not p.mujoco.opt.gravity.any()),
        ("contact", lambda p: len(p.pairs) == 0),
        ("constraint", lambda p: len(p.pairs) == 0 and not p.mujoco.jnt_limited.any()),
        ("constraint", lambda p: not p.keep_equality.any()),
        ("limit", lambda p: not p.mujoco.jnt_limited.any()),
        ("equality", lambda p: not p.keep_equality.any()),
        ("frictionloss", lambda p: not p.mujoco.dof_frictionloss.any()),
        ("spring", lambda p: not p.mujoco.jnt_stiffness.any()),
        ("damper", lambda p: not p.mujoco.dof_damping.any()),
        ("clampctrl", lambda p: not p.mujoco.actuator_ctrllimited.any()),
        ("actuation", lambda p: not p.mujoco.actuator_gainprm.any()),
    ],
)
def test_disabled_flags_are_written_into_the_arrays(
    flag: str, check: Callable[[Parsed], bool]
) -> None:
    """Honour a flag that switches something off, and find it on without the flag."""
    text = mjcf(
        '<joint name="k" range="-1 1" damping="1" stiffness="1" frictionloss="1"/>',
        before="<option><flag {}/></option>",
        world=FLOOR,
        after='<actuator><motor joint="j" ctrlrange="0 1"/></actuator>'
        '<equality><joint joint1="j"/></equality>',
    )
    assert check(read(text.format(f'{flag}="disable"')))
    assert not check(read(text.format("")))


def test_settings_without_meaning_are_listed_once_with_a_reason() -> None:
    """List what has no meaning, or under one law only, with place, count and reason."""
    text = mjcf(
        '<geom size="1" solref="0.1 1"/><geom size="1" solref="0.1 1" rgba="1 0 0 1"/>',
        before='<option integrator="RK4"/><visual><map fogend="1"/></visual>',
        after='<sensor><jointpos joint="j"/></sensor>',
    )
    parsed = read(text)
    sensor, visual = notes(parsed, "ignored")
    integrator, solref = notes(parsed, "law")
    assert integrator.startswith("<string>:2: <option>: integrator of <option>")
    assert (
        solref.startswith('<string>:5: <geom> in <body name="b">: solref') and "2 times" in solref
    )
    assert sensor.startswith("<string>:8: <jointpos>: <sensor>")
    assert visual.startswith("<string>: ") and "<map>, <visual>, rgba" in visual


def test_the_contact_override_is_written_into_geoms_and_pairs() -> None:
    """Give all contacts the settings of the override, as MuJoCo does."""
    option = (
        '<option cone="elliptic" o_margin="0.02" o_solref="0.03 0.8" o_solimp="0.7 0.9 0.01 0.4 3" '
        'o_friction="0.4 0.4 0.03 0.002 0.002"><flag override="enable"/></option>'
    )
    text = mjcf(
        '<body name="c" pos="0 0.3 0.001"><joint/><geom name="h" size="0.1" condim="6" '
        'solref="0.1 1" friction="1 0.1 0.1" margin="0.1"/></body>',
        before=option,
        world='<geom name="w" type="plane" pos="0 0 -0.105" size="1 1 1"/>',
        after='<contact><pair geom1="w" geom2="h" condim="6" solreffriction="0.1 1"/></contact>',
    )
    ours, theirs = read(text).mujoco, mujoco.MjModel.from_xml_string(text)
    found = []
    for model in (ours, theirs):
        data = mujoco.MjData(model)
        mujoco.mj_forward(model, data)
        assert data.ncon == 2 and data.nefc == 9
        found.append(np.concatenate([data.efc_aref, data.efc_D, data.efc_margin, data.qacc]))
    assert np.allclose(found[0], found[1], rtol=1e-14, atol=0)
    assert not ours.opt.enableflags


def test_one_law_refuses_what_the_other_has() -> None:
    """Name all that a law does not have, with the other law as a way out, unless it is dropped."""
    text = mjcf(
        before='<option noslip_iterations="2"><flag sleep="enable"/></option>',
        world='<geom name="w" type="plane" size="1 1 1" condim="4" margin="0.1" gap="-0.05"/>',
        after='<contact><pair name="p" geom1="w" geom2="g" friction="0.5 1 0.1 0.02 0.03" '
        'condim="6" gap="-0.01"/></contact>',
    )
    model = fb.load(text)
    assert [n.kind for n in model.notices].count("law") == 7
    for law, other, count in (("hard", "mujoco", 2), ("mujoco", "hard", 4)):
        with pytest.raises(fb.ModelError) as caught:
            fb.Simulator(model, contact=law)
        said = str(caught.value)
        assert f'{count} things are not supported under contact="{law}"' in said
        assert f'contact="{other}"' in said and 'on_unsupported="drop"' in said
    assert model.mujoco.opt.noslip_iterations == 2 and model.mujoco.opt.enableflags
    dropped = fb.load(text, on_unsupported="drop")
    assert dropped.mujoco.opt.noslip_iterations == dropped.mujoco.opt.enableflags == 0
    assert dropped.mujoco.geom_gap.min() == dropped.mujoco.pair_gap.min() == 0
    for law in ("hard", "mujoco"):
        sim = fb.Simulator(dropped, contact=law)
        assert sim.step(dropped.q0, dropped.v0, return_status=True)[2] == 0


def test_equalities_between_sites_become_equalities_between_bodies() -> None:
    """Rewrite site constraints without changing what MuJoCo makes of them."""
    text = mjcf(
        '<site name="s" pos="0.1 0.2 0.3" quat="1 2 3 4"/>'
        '<body name="c"><joint type="ball"/><geom size="0.1" contype="0"/>'
        '<site name="r" pos="0.3 0 0.1" quat="1 0 1 0"/></body>',
        world='<site name="w" pos="0.5 0 0.1"/>',
        after='<equality><weld site1="s" site2="r"/><connect site1="r" site2="w"/></equality>',
    )
    ours, theirs = read(text).mujoco, mujoco.MjModel.from_xml_string(text)
    results = []
    for model in (ours, theirs):
        data = mujoco.MjData(model)
        data.qpos[:] = [0.3, 0.5, 0.5, 0.5, 0.5]
        data.qvel[:] = [0.1, 0.2, 0.3, 0.4]
        mujoco.mj_forward(model, data)
        parts = data.efc_pos[:3], data.efc_pos[3:6], data.efc_pos[6:9]
        results.append([np.linalg.norm(part) for part in parts])
    assert ours.eq_objtype.tolist() == [int(mujoco.mjtObj.mjOBJ_BODY)] * 2
    assert results[0] == pytest.approx(results[1], rel=1e-9)
