"""The table of docs/parameters.md is that of the code: names, shapes, values, gradients."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import featherback as fb
from featherback.errors import ParameterError

PAGE = Path(__file__).parents[2] / "docs" / "parameters.md"

# a model in which all sizes differ
GEOMS = ("s1", "s2", "s3", "s4", "s5")
PAIRS = "".join(
    f'<pair geom1="{a}" geom2="{b}"/>'
    for i, a in enumerate(GEOMS)
    for b in GEOMS[i + 1 :]
    if (a, b) != ("s1", "s2")
)
TENDON = (
    '<fixed range="0 1" frictionloss="1"><joint joint="b" coef="1"/>'
    '<joint joint="c" coef="1"/></fixed>'
)
FIELDS = "".join(f'<hfield name="f{k}" nrow="2" ncol="2" size="1 1 1 1"/>' for k in range(20))
MUSCLES = '<muscle joint="b" lengthrange="0 1"/>' * 14
XML = f"""<mujoco><option density="1"/><default><geom contype="0"/></default>
<asset><mesh name="m" vertex="0 0 0 .1 0 0 0 .1 0 0 0 .1"/>{FIELDS}</asset><worldbody>
<geom type="plane" size="1 1 1" contype="1" conaffinity="0"/><site/><site/>
<body pos="0 0 1" gravcomp="1"><freejoint/><geom type="mesh" mesh="m"/><geom name="s1" size=".1"/>
<geom name="s2" size=".1"/>
<site/><site/><site/><site/><site/><site/>
<body pos="0 0 1"><joint name="a" type="ball"/><geom name="s3" size=".1"/>
<body pos="0 0 1"><joint name="b" range="0 1" frictionloss="1"/><geom name="s4" size=".1"/>
<body pos="0 0 1"><joint name="c" type="slide" frictionloss="1"/><geom name="s5" size=".1"/>
</body>
</body></body></body></worldbody>
<equality><joint joint1="b" joint2="c"/><joint joint1="c"/></equality>
<contact>{PAIRS}</contact><tendon>{6 * TENDON}</tendon>
<actuator><motor joint="b"/><motor joint="c"/><position joint="b"/>{MUSCLES}</actuator>
</mujoco>"""


def table() -> dict[str, dict[str, str]]:
    """Return the rows of the page by parameter, each by column."""
    lines = [line for line in PAGE.read_text(encoding="utf-8").splitlines() if line[:1] == "|"]
    head, _, *rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    return {row[0].strip("`"): dict(zip(head, row, strict=True)) for row in rows}


@pytest.fixture(scope="module")
def sims() -> dict[str, fb.Simulator]:
    """Return simulators of a model with something of every kind, by contact law."""
    model = fb.load(XML)
    both = {law: fb.Simulator(model, contact=law) for law in ("hard", "mujoco")}
    return {**both, "both": both["mujoco"]}


def test_names_and_shapes(sims: dict[str, fb.Simulator]) -> None:
    """List every parameter, in the order of the code, with its shape and its law."""
    rows, model = table(), sims["hard"].model
    sizes = {name: int(getattr(model.mujoco, name)) for name in "nbody njnt nq nv nu".split()}
    sizes |= {name: int(getattr(model.mujoco, name)) for name in "ngeom nmesh nsite neq".split()}
    sizes |= {"nhfield": model.mujoco.nhfield}
    sizes |= {name: int(getattr(model.mujoco, name)) for name in ("ntendon", "nwrap")}
    sizes |= {"npair": len(model.parsed.pairs), "nexplicit": model.mujoco.npair}
    sizes |= {"nmuscle": model.structure.sizes["nmuscle"]}
    assert len(set(sizes.values())) == len(sizes)
    sizes |= {"ngravcomp": sizes["nbody"], "nmedium": 1, "nwet": sizes["ngeom"]}
    assert list(rows) == list(model.params)
    for law in ("hard", "mujoco"):
        acting = [name for name, row in rows.items() if row["Law"] in (law, "both")]
        assert acting == list(sims[law].params)
    for name, value in model.params.items():
        cells = rows[name]["Shape"].strip("()").split(",")
        shape = tuple(sizes.get(c.strip()) or int(c) for c in cells if c.strip())
        assert shape == value.shape, name


@pytest.mark.parametrize("name", list(table()))
def test_allowed_values(sims: dict[str, fb.Simulator], name: str) -> None:
    """Raise for -1 and for 0 where the page forbids them, and nowhere else."""
    must, sim = table()[name]["Must be"], sims[table()[name]["Law"]]
    law = sim.options.contact
    forbidden = {
        -1.0: must in (">= 0", "> 0", "0 to 1", "positive semidefinite"),
        0.0: must in ("> 0", "not 0", "non-zero length"),
    }
    for number, raises in forbidden.items():
        value = np.full_like(sim.params[name], number)
        if raises:
            with pytest.raises(ParameterError, match=name):
                fb.Simulator(sim.model, contact=law, params={name: value})
        else:
            fb.Simulator(sim.model, contact=law, params={name: value})


@pytest.mark.parametrize(
    "name", [n for n, r in table().items() if r["Must be"] == "lower <= upper"]
)
def test_ranges(name: str) -> None:
    """Raise for a range in force whose lower end exceeds its upper end."""
    model = fb.load(
        XML.replace('name="b" range="0 1"', 'name="b" range="0 1" actuatorfrcrange="-1 1"').replace(
            '<motor joint="b"/>',
            '<motor joint="b" ctrlrange="-1 1" forcerange="-1 1"/>'
            '<intvelocity joint="b" kp="1" actrange="-1 1"/>',
        )
    )
    value = np.tile([1.0, -1.0], (len(model.params[name]), 1))
    with pytest.raises(ParameterError, match=name):
        fb.Simulator(model, params={name: value})


@pytest.mark.parametrize("name", list(table()))
def test_gradients(sims: dict[str, fb.Simulator], name: str) -> None:
    """Return a gradient of the parameter's shape, or raise where the page says there is none."""
    sim = sims[table()[name]["Law"]]
    model = sim.model
    given = {name: np.array(sim.params[name])}
    roll = sim.rollout(model.q0, model.v0, np.zeros((2, model.nu)), params=given)
    ones = np.ones_like(roll.q)
    if table()[name]["Gradient"] == "yes":
        assert roll.vjp(ones).params[name].shape == given[name].shape
    else:
        with pytest.raises(ParameterError, match=name):
            roll.vjp(ones)
