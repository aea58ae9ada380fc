"""The pairs of geoms that may touch are MuJoCo's."""

from __future__ import annotations

import mujoco
import numpy as np
import pytest

from featherback._core import pair_table
from featherback.model.pairs import SHAPES, candidate_pairs
from tests.model.helpers import mjcf, read

FLOOR = '<geom name="floor" type="plane" size="1 1 1"/>'


def random_scene(rng: np.random.Generator) -> str:
    """Return a scene with nested, welded and mocap bodies, masks, excludes and pairs."""
    shapes = ["sphere", "capsule", "ellipsoid", "cylinder", "box"]
    bodies: list[str] = []
    geoms: list[str] = []

    def geom(kinds: list[str]) -> str:
        geoms.append(f"g{len(geoms)}")
        masks = rng.integers(0, 4, 2)
        place = " ".join(f"{x:.3f}" for x in rng.uniform(-0.3, 0.3, 3))
        return (
            f'<geom name="{geoms[-1]}" type="{rng.choice(kinds)}" size=".1 .1 .1" pos="{place}" '
            f'contype="{masks[0]}" conaffinity="{masks[1]}" condim="{rng.choice([1, 3, 4, 6])}" '
            f'priority="{rng.integers(0, 2)}"/>'
        )

    def body(depth: int) -> str:
        bodies.append(f"b{len(bodies)}")
        mocap = depth == 0 and rng.random() < 0.2
        text = f'<body name="{bodies[-1]}" mocap="{str(mocap).lower()}">'
        text += "<joint/>" if not mocap and rng.random() < 0.6 else ""
        text += '<inertial mass="1" pos="0 0 0" diaginertia="1 1 1"/>'
        text += "".join(geom(shapes) for _ in range(rng.integers(0, 3)))
        count = rng.integers(0, 3) if depth < 3 else 0
        return text + "".join(body(depth + 1) for _ in range(count)) + "</body>"

    world = "".join(geom(["plane", *shapes]) for _ in range(2))
    world += "".join(body(0) for _ in range(4)) + '<body><joint/><geom size=".1" mass="1"/></body>'
    contact = ""
    for tag, names, ends in (("exclude", bodies, "body"), ("pair", geoms, "geom")):
        picks = {tuple(sorted(rng.choice(len(names), 2, replace=False))) for _ in range(3)}
        contact += "".join(
            f'<{tag} {ends}1="{names[b]}" {ends}2="{names[a]}"/>' for a, b in sorted(picks)
        )
    flag = rng.choice(["enable", "disable"])
    return (
        f'<mujoco><option><flag filterparent="{flag}"/></option><worldbody>{world}</worldbody>'
        f"<contact>{contact}</contact></mujoco>"
    )


@pytest.mark.parametrize("seed", range(60))
def test_candidates_are_those_of_mujoco(seed: int) -> None:
    """Compare with the contacts MuJoCo makes when every geom has a huge margin."""
    print(f"seed {seed}")
    rng = np.random.default_rng(seed)
    model = mujoco.MjModel.from_xml_string(random_scene(rng))
    pairs = candidate_pairs(model)
    ours = {
        (int(a), int(b)): int(dim)
        for a, b, dim in zip(pairs.geom1, pairs.geom2, pairs.condim, strict=True)
    }
    model.geom_margin[:] = model.pair_margin[:] = model.body_margin[:] = 50.0
    data = mujoco.MjData(model)
    data.qpos[:] = rng.uniform(-1, 1, model.nq)
    mujoco.mj_kinematics(model, data)
    mujoco.mj_comPos(model, data)
    mujoco.mj_collision(model, data)
    theirs: dict[tuple[int, int], int] = {}
    for contact in data.contact:
        a, b = sorted(int(g) for g in contact.geom)
        if model.geom_type[a] > model.geom_type[b]:
            a, b = b, a
        theirs[a, b] = int(contact.dim)
    weld = model.body_weldid[model.geom_bodyid]
    moves = model.body_treeid[weld] >= 0
    # an explicit pair on one rigid body, or between two that cannot move, has no effect
    theirs = {
        (a, b): dim
        for (a, b), dim in theirs.items()
        if weld[a] != weld[b] and (moves[a] or moves[b])
    }
    assert {k: ours[k] for k in theirs if k in ours} == theirs
    # MuJoCo's routine for two boxes ignores the margin beyond overlap
    assert {
        k for k in set(ours) - set(theirs) if not (model.geom_type[list(k)] == SHAPES["box"]).all()
    } == (set())


def test_order_and_masks() -> None:
    """Put the smaller type first, sort, and leave out geoms without masks."""
    text = mjcf(
        '<geom name="h" type="box" size="1 1 1"/><geom size="1" contype="0" conaffinity="0"/>',
        world='<geom name="w" type="capsule" size="1 1"/>' + FLOOR,
    )
    parsed = read(text)
    model, pairs = parsed.mujoco, parsed.pairs
    found = zip(pairs.geom1, pairs.geom2, strict=True)
    names = [(model.geom(a).name, model.geom(b).name) for a, b in found]
    assert names == [("w", "h"), ("floor", "g"), ("floor", "h"), ("g", "w")]
    assert pairs.explicit.tolist() == [-1] * 4
    assert np.isnan(pairs.friction).all()
    assert not pairs.geom1.flags.writeable
    for array, dtype in (
        (pairs.geom1, np.int32),
        (pairs.geom2, np.int32),
        (pairs.condim, np.int32),
        (pairs.friction, np.float64),
        (pairs.explicit, np.int32),
    ):
        assert array.dtype == dtype


def test_explicit_pair_overrides_masks_and_friction() -> None:
    """Take an explicit pair whatever the masks, with its own friction and condim."""
    text = mjcf(
        world='<geom name="floor" type="plane" size="1 1 1" contype="0" conaffinity="0"/>',
        after='<contact><pair geom1="g" geom2="floor" friction="0.5 0.5" condim="1"/></contact>',
    )
    pairs = read(text).pairs
    assert (pairs.geom1.tolist(), pairs.geom2.tolist()) == ([0], [1])
    assert (pairs.friction.tolist(), pairs.condim.tolist()) == ([0.5], [1])
    assert pairs.explicit.tolist() == [0]


def test_priority_decides_condim() -> None:
    """Use the condim of the geom with the higher priority."""
    text = mjcf(
        '<geom name="h" size="1" condim="1" priority="1"/>',
        world='<geom name="floor" type="plane" size="1 1 1"/>',
    )
    assert read(text).pairs.condim.tolist() == [3, 1]


def test_supported_pairs() -> None:
    """Support every solid against every other, and all of them against planes and fields."""
    found = {name for name, *_ in pair_table()}
    solids = ["sphere", "capsule", "ellipsoid", "cylinder", "box", "mesh"]
    expected = {f"{a}-{b}" for k, a in enumerate(solids) for b in solids[k:]}
    ground = {f"{one}-{solid}" for one in ("plane", "hfield") for solid in solids}
    assert found == expected | ground
