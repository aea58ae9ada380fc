"""Starts with overlaps, violated limits and equalities far from closed, for bench/recovery.py."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

DT = 0.002
OPTION = f'<option timestep="{DT}"/>'

PENDULUM = f"""<mujoco>{OPTION}<default><geom condim="CONDIM"/></default><worldbody>
<geom type="plane" size="2 2 .1"/><body pos="0 0 1.09"><joint axis="0 1 0" damping="0.1"/>
<geom type="capsule" fromto="0 0 0 0 0 -1" size=".02" contype="0" conaffinity="0"/>
<geom type="sphere" size=".1" pos="0 0 -1"/></body></worldbody></mujoco>"""

ARM = f"""<mujoco>{OPTION}<default><geom contype="0" conaffinity="0" type="capsule" size=".03"/>
</default><worldbody><site name="post" pos="1.02 0 1"/><body pos="0 0 1"><joint axis="0 1 0"/>
<geom fromto="0 0 0 .5 0 0"/><body name="b" pos=".5 0 0"><joint axis="0 1 0"/>
<geom fromto="0 0 0 .5 0 0"/><site name="tip" pos=".5 0 0"/></body></body></worldbody>
<equality><connect site1="tip" site2="post"/></equality></mujoco>"""

WHEEL = f"""<mujoco>{OPTION}<worldbody><body name="w" pos="0 0 1"><joint axis="0 1 0"/>
<geom size=".1" mass="1"/></body></worldbody>
<equality><connect body1="w" anchor="0 0 .1"/></equality></mujoco>"""

WELD = f"""<mujoco>{OPTION}<worldbody><body name="w" pos="0 0 1"><joint axis="0 1 0"/>
<geom type="box" size=".2 .1 .05" pos=".2 0 0" mass="1"/></body></worldbody>
<equality><weld body1="w" relpose="0 0 1 1 0 0 0"/></equality></mujoco>"""

SQUEEZE = f"""<mujoco>{OPTION}<worldbody><geom type="box" size=".1 1 1" pos="-.2 0 0"/>
<geom type="box" size=".1 1 1" pos=".2 0 0"/>
<body><freejoint/><geom type="box" size=".105 .1 .1" mass="1"/></body></worldbody></mujoco>"""

STACK = f"""<mujoco>{OPTION}<worldbody><geom type="plane" size="2 2 .1"/>
<body pos="0 0 .099"><freejoint/><geom type="box" size=".1 .1 .1" mass="1"/></body>
<body pos="0 0 .297"><freejoint/><geom type="box" size=".1 .1 .1" mass="1"/></body>
<body pos="0 0 .495"><freejoint/><geom type="box" size=".1 .1 .1" mass="1"/></body>
</worldbody></mujoco>"""


@dataclass(frozen=True)
class Start:
    """A model and where it starts, at rest unless said otherwise.

    Attributes:
        name: what stands in the table.
        xml: the model.
        q: position; the model's own where it is empty.
        steps: length of the rollout.
    """

    name: str
    xml: str
    q: tuple[float, ...] = ()
    steps: int = 100


def named() -> list[Start]:
    """Return the starts that have a line of their own."""
    frictionless, sticking = (PENDULUM.replace("CONDIM", str(n)) for n in (1, 3))
    return [
        Start("pendulum 1 cm in the floor", frictionless, (0.001,), 600),
        Start("the same, its tip sticks", sticking, (0.001,), 600),
        Start("arm tied 2 cm out of reach", ARM, (0.001, 0.0), 300),
        Start("the same, bent", ARM, (0.1, -0.3), 300),
        Start("wheel tied off its axis, 0.3 rad", WHEEL, (0.3,)),
        Start("hinge welded 0.3 rad off", WELD, (0.3,)),
        Start("box squeezed by 1 cm", SQUEEZE),
        Start("stack of 3, 1 mm overlaps", STACK),
    ]


def wheel_poses() -> list[Start]:
    """Return the tied wheel in 101 poses, from -pi to pi."""
    return [Start(f"wheel {a:.2f}", WHEEL, (float(a),)) for a in np.linspace(-np.pi, np.pi, 101)]


def _joints(rng: np.random.Generator, name: str) -> str:
    """Return the joint of one link: a hinge, a slide or a ball, some with limits and friction."""
    kind = rng.choice(["hinge", "hinge", "slide", "ball"])
    axis = " ".join(f"{x:.4f}" for x in rng.normal(size=3))
    loss = f' frictionloss="{rng.uniform(0.01, 0.5):.3f}"' if rng.random() < 0.3 else ""
    if kind == "ball":
        limit = ' range="0 40"' if rng.random() < 0.3 else ""
        return f'<joint name="{name}" type="ball" damping=".01"{limit}/>'
    wide = "-.1 .1" if kind == "slide" else "-40 40"
    limit = f' range="{wide}"' if rng.random() < 0.5 else ""
    return f'<joint name="{name}" type="{kind}" axis="{axis}" damping=".01"{limit}{loss}/>'


def _chain(rng: np.random.Generator) -> str:
    """Return a chain of two to five links over a floor and beside a box, a quarter of them tied."""
    links = int(rng.integers(2, 6))
    head, tail, last = "", "", 0.0
    for k in range(links):
        length, mass = rng.uniform(0.1, 0.4), 10 ** rng.uniform(-1, 0.7)
        place = "0 0 .5" if k == 0 else f"{last:.4f} 0 0"
        joint = "<freejoint/>" if k == 0 and rng.random() < 0.3 else _joints(rng, f"j{k}")
        head += f'<body name="b{k}" pos="{place}">{joint}<geom type="capsule" size=".03" '
        head += f'fromto="0 0 0 {length:.4f} 0 0" mass="{mass:.4f}"/>'
        tail += "</body>"
        last = length
    tie = ""
    if rng.random() < 0.25:
        tie = f'<equality><connect body1="b{links - 1}" anchor="{last:.4f} 0 0"/></equality>'
    return (
        f'<mujoco><compiler angle="degree"/>{OPTION}<worldbody><geom type="plane" size="5 5 1"/>'
        f'<geom type="box" size=".2 .2 .3" pos=".4 .1 .3"/>{head}{tail}</worldbody>{tie}</mujoco>'
    )


def chains(count: int, seed: int = 0) -> Iterator[Start]:
    """Yield random chains, thrown into the floor, the box and past their limits."""
    import mujoco

    rng = np.random.default_rng(seed)
    for k in range(count):
        xml = _chain(rng)
        model = mujoco.MjModel.from_xml_string(xml)
        q = model.qpos0.copy()
        mujoco.mj_integratePos(model, q, rng.normal(size=model.nv) * 0.5, 1.0)
        yield Start(f"chain {k}", xml, tuple(q), 20)
