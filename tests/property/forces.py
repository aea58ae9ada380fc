"""Random models whose bodies are carried and drift in a fluid, driven by muscles and at sites."""

from __future__ import annotations

import re

import numpy as np

import featherback as fb
from tests.property import random_models
from tests.property.random_models import Rng, text

SHAPES = {"sphere": 1, "capsule": 2, "cylinder": 2, "ellipsoid": 3, "box": 3}


def _geom(rng: Rng) -> str:
    """Return a geom that touches nothing, in most cases an ellipsoid to the fluid."""
    kind = str(rng.choice(list(SHAPES)))
    fluid = ""
    if rng.random() < 0.7:
        fluid = f'fluidshape="ellipsoid" fluidcoef="{text(rng.uniform(0.1, 1.5, 5))}"'
    place = f'pos="{text(rng.uniform(-0.1, 0.1, 3))}" quat="{text(random_models.unit(rng, 4))}"'
    size = text(rng.uniform(0.02, 0.15, SHAPES[kind]))
    return f'<geom type="{kind}" size="{size}" {place} contype="0" conaffinity="0" {fluid}/>'


def _muscle(found: re.Match[str], rng: Rng) -> str:
    """Return a muscle, or another actuator with a muscle's curves, in the place of an actuator."""
    if rng.random() < 0.4:
        return found.group(0)
    joint = re.search(r' joint="[^"]*"', found.group(0))
    gear = re.search(r' gear="[^"]*"', found.group(0))
    assert joint and gear
    place = f"{joint.group(0)}{gear.group(0)}"
    low = rng.uniform(0.5, 0.9)
    curves = [rng.uniform(0.3, 0.6), rng.uniform(1.3, 1.8), rng.uniform(0.5, 2)]
    ends = [rng.uniform(0.5, 2), rng.uniform(1.1, 1.6)]
    force = rng.choice([-1.0, rng.uniform(1, 20)])
    length = f'lengthrange="{text([-rng.uniform(0.5, 3), rng.uniform(0.5, 3)])}"'
    numbers = [low, low + rng.uniform(0.2, 0.6), force, rng.uniform(1, 20), *curves, *ends]
    if rng.random() < 0.3:
        passive = [numbers[0] + 0.1, *numbers[1:]]
        return (
            f'<general{place} {length} gaintype="muscle" gainprm="{text(numbers)}" '
            f'biastype="muscle" biasprm="{text(passive)}" dyntype="integrator"/>'
        )
    names = "range force scale lmin lmax vmax fpmax fvmax".split()
    values = [numbers[:2], *numbers[2:]]
    own = " ".join(f'{n}="{text(v)}"' for n, v in zip(names, values, strict=True))
    smooth = f' tausmooth="{text(rng.uniform(0.1, 1))}"' if rng.random() < 0.5 else ""
    times = text([rng.uniform(0.005, 0.05), rng.uniform(0.02, 0.1)])
    return f'<muscle{place} {length} {own} timeconst="{times}"{smooth}/>'


def _reaching(rng: Rng, sites: list[str], index: int) -> str:
    """Return an actuator on one site, on a site seen from another, or on a slider-crank."""
    one, two = (str(name) for name in rng.choice(sites, 2, replace=len(sites) < 2))
    law = (
        f'name="r{index}" gaintype="affine" gainprm="{text(rng.uniform(-2, 2, 3))}" '
        f'biastype="affine" biasprm="{text(rng.uniform(-2, 0, 3))}"'
    )
    kind = rng.integers(3)
    if kind == 2 and one != two:
        rod = text(rng.uniform(0.1, 2))
        gear = text(rng.uniform(-2, 2))
        return (
            f'<general {law} slidersite="{one}" cranksite="{two}" cranklength="{rod}" '
            f'gear="{gear}"/>'
        )
    gear = rng.normal(size=6)
    gear[:3] *= rng.random() < 0.7
    gear[3:] *= rng.random() < 0.7
    seen = f'refsite="{two}"' if kind == 1 and one != two else ""
    return f'<general {law} site="{one}" {seen} gear="{text(gear)}"/>'


def with_forces(xml: str, rng: Rng) -> str:
    """Return a random tree with gravity compensation, a fluid, and actuators of these kinds."""

    def body(found: re.Match[str]) -> str:
        share = rng.choice([0.0, 1.0, rng.uniform(-0.5, 1.5)])
        geoms = "".join(_geom(rng) for _ in range(rng.integers(3)))
        return found.group(0).replace(">", f' gravcomp="{text(share)}">{geoms}', 1)

    def joint(found: re.Match[str]) -> str:
        more = ""
        if rng.random() < 0.5:
            more += ' actuatorgravcomp="true"'
        if re.search('type="(hinge|slide)"', found.group(0)) and rng.random() < 0.5:
            more += f' actuatorfrcrange="{text([-rng.uniform(0.5, 20), rng.uniform(0.5, 20)])}"'
        return found.group(0).replace("<joint", f"<joint{more}", 1)

    def motor(found: re.Match[str]) -> str:
        more = f' armature="{text(rng.uniform(0, 0.1))}" damping="{text(rng.uniform(0, 0.5))}"'
        return found.group(0).replace("<motor", f"<motor{more}", 1)

    xml = re.sub(r'<body name="b\d+"[^>]*>', body, xml)
    xml = re.sub(r"<joint [^>]*type=[^>]*>", joint, xml)
    xml = re.sub(r"<(motor|position|velocity|general) [^>]*/>", lambda f: _muscle(f, rng), xml)
    xml = re.sub(r"<motor [^>]*/>", motor, xml)
    sites = re.findall(r'<site name="([^"]*)"', xml)
    if sites:
        rows = "".join(_reaching(rng, [*sites, "w0"], k) for k in range(rng.integers(1, 4)))
        xml = xml.replace("<worldbody>", '<worldbody><site name="w0" pos="0.1 0.2 0.3"/>', 1)
        xml = xml.replace("</mujoco>", f"<actuator>{rows}</actuator></mujoco>", 1)
    medium = f'density="{text(rng.uniform(0, 100))}" viscosity="{text(rng.uniform(0, 1))}"'
    return xml.replace("<option", f'<option {medium} wind="{text(rng.normal(size=3))}"', 1)


def draw_forces(seed: int, bodies: int | None = None, rows: bool = True) -> tuple[fb.Model, Rng]:
    """Return a random model with all of these forces, and with limits and dry friction or not."""
    rng = np.random.default_rng((seed, 13))
    xml = random_models.random_tree(rng, bodies=bodies, mass_ratio=100.0, limits=rows)
    if not rows:
        xml = re.sub(' frictionloss="[^"]*"', "", xml)
    return fb.load(with_forces(xml, rng)), rng
