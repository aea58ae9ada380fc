"""Models that are refused, one for each entry of the tables that is not supported."""

from __future__ import annotations

from dataclasses import dataclass

from tests.model.helpers import mjcf

TENDON = '<tendon><fixed name="t"><joint joint="j" coef="1"/></fixed></tendon>'
FLOOR = '<geom name="floor" type="plane" size="1 1 1"/>'


@dataclass(frozen=True)
class Refusal:
    """A model, the problem it is refused for and the notice it leaves under "drop"."""

    covers: tuple[str, ...]
    text: str
    problem: str
    notice: str
    kind: str = "dropped"


def actuator(tag: str, attributes: str = 'joint="j"', body: str = "", more: str = "") -> str:
    """Return a model with one actuator on line 8."""
    inner = f'<{tag} name="m" {attributes}/>'
    return mjcf(body, world='<site name="w"/>', after=f"{more}<actuator>{inner}</actuator>")


def law(tag: str, text: str, terms: str, *covers: str) -> Refusal:
    """Return the refusal of an actuator's law."""
    return Refusal(
        covers,
        text,
        f'<string>:8: <{tag} name="m">: an actuator with {terms} is not supported '
        "(see docs/support.md#actuator-laws)",
        f'<string>:8: <{tag} name="m">: the actuator with {terms} has no effect; its control is '
        "ignored.",
    )


def transmission(tag: str, text: str, word: str, *covers: str) -> Refusal:
    """Return the refusal of a transmission."""
    return Refusal(
        covers,
        text,
        f'<string>:8: <{tag} name="m">: an actuator with {word} transmission is not supported '
        "(see docs/support.md#transmission)",
        f'<string>:8: <{tag} name="m">: the actuator with {word} transmission has no effect; its '
        "control is ignored.",
    )


def field(covers: str, text: str, where: str, what: str, anchor: str, left: str) -> Refusal:
    """Return the refusal of a field that must be zero."""
    return Refusal(
        (covers,),
        text,
        f"{where}: {what} is not supported (see docs/support.md#{anchor})",
        f"{where}: {left} is left out.",
    )


def element(covers: str, text: str, where: str, what: str, anchor: str, tag: str) -> Refusal:
    """Return the refusal of an element that MuJoCo never sees."""
    return Refusal(
        (covers,),
        text,
        f"{where}: {what} not supported (see docs/support.md#{anchor})",
        f"{where}: <{tag}> is left out.",
    )


JOINT = '<string>:5: <joint name="k">'
BODY = '<string>:5: <body name="c">'
CHILD = '<body name="c" {}><joint name="k" {}/><geom size="1" contype="0" {}/></body>'
MOTOR = '<string>:8: <motor name="m">'
MESH = '<asset><mesh name="m" vertex="0 0 0 1 0 0 0 1 0 0 0 1">{}</mesh></asset>'
BALL = '<body name="c"><joint name="ball" type="ball"/><geom size="1" contype="0"/></body>'
PLUGIN = '<plugin plugin="mujoco.sdf.bolt"/>'

REFUSALS = [
    # actuators: laws
    law(
        "muscle",
        actuator("muscle"),
        'dyntype="muscle", gaintype="muscle", biastype="muscle"',
        "actuator/muscle",
    ),
    law(
        "pid",
        actuator("pid", 'joint="j" kp="1" ki="1"'),
        'dyntype="pid", gaintype="pid"',
        "actuator/pid",
    ),
    law(
        "dcmotor",
        actuator("dcmotor", 'joint="j" motorconst="1" resistance="1"'),
        'dyntype="dcmotor", gaintype="dcmotor", biastype="dcmotor"',
        "actuator/dcmotor",
    ),
    law(
        "orientation",
        actuator("orientation", 'joint="ball" kp="1"', BALL),
        'gaintype="so3", biastype="so3"',
        "actuator/orientation",
    ),
    law(
        "general",
        actuator("general", 'joint="j" gaintype="user"'),
        'gaintype="user"',
        "actuator/general gaintype",
    ),
    law(
        "general",
        actuator("general", 'joint="j" biastype="user"'),
        'biastype="user"',
        "actuator/general biastype",
    ),
    law(
        "general",
        actuator("general", 'joint="j" dyntype="user"'),
        'dyntype="user"',
        "actuator/general dyntype",
    ),
    law(
        "general",
        actuator(
            "general",
            'joint="j" input="pos vel" gaintype="pid" biastype="affine" ffrange="0 1" '
            'velrange="0 1"',
        ),
        'gaintype="pid"',
        "actuator/general input",
        "actuator/general ffrange",
        "actuator/general velrange",
    ),
    # actuators: transmissions
    transmission(
        "adhesion",
        actuator("adhesion", 'body="b" ctrlrange="0 1"'),
        "body (adhesion)",
        "actuator/adhesion",
        "actuator/* body",
    ),
    transmission(
        "motor", actuator("motor", 'jointinparent="j"'), "jointinparent", "actuator/* jointinparent"
    ),
    transmission(
        "motor", actuator("motor", 'tendon="t"', more=TENDON), "tendon", "actuator/* tendon"
    ),
    transmission(
        "motor",
        actuator("motor", 'site="s" refsite="w"', '<site name="s"/>'),
        "site",
        "actuator/* site",
        "actuator/* refsite",
    ),
    transmission(
        "motor",
        actuator("motor", 'slidersite="s" cranksite="w" cranklength="1"', '<site name="s"/>'),
        "slider-crank",
        "actuator/* slidersite",
        "actuator/* cranksite",
    ),
    # actuators: terms
    field(
        "actuator/* armature",
        actuator("motor", 'joint="j" armature="1"'),
        MOTOR,
        "armature on an actuator (add gear² times it to the joint's armature)",
        "actuator-terms",
        "armature",
    ),
    field(
        "actuator/* damping",
        actuator("motor", 'joint="j" damping="1"'),
        MOTOR,
        "damping on an actuator (add gear² times it to the joint's damping)",
        "actuator-terms",
        "damping",
    ),
    field(
        "actuator/* delay",
        actuator("motor", 'joint="j" delay="0.01" nsample="9"'),
        MOTOR,
        "a delay",
        "actuator-terms",
        "delay",
    ),
    # joints, bodies, geoms
    field(
        "body/joint damping",
        mjcf('<joint name="k" damping="1 2"/>'),
        JOINT,
        "a damping with more than one number (polynomial damping)",
        "joint-terms",
        "every number of damping but the first",
    ),
    field(
        "body/joint stiffness",
        mjcf('<joint name="k" stiffness="1 2"/>'),
        JOINT,
        "a stiffness with more than one number (a polynomial spring)",
        "joint-terms",
        "every number of stiffness but the first",
    ),
    field(
        "body/joint springyield",
        mjcf('<joint name="k" stiffness="1" springyield="1"/>'),
        JOINT,
        "a plastic spring (springyield)",
        "joint-terms",
        "springyield",
    ),
    field(
        "body/joint actuatorgravcomp",
        mjcf(CHILD.format("", 'actuatorgravcomp="true"', "")),
        JOINT,
        "gravity compensation by actuators (actuatorgravcomp)",
        "gravcomp",
        "actuatorgravcomp",
    ),
    field(
        "body/body gravcomp",
        mjcf(CHILD.format('gravcomp="1"', "", "")),
        BODY,
        "gravity compensation (gravcomp)",
        "gravcomp",
        "gravcomp",
    ),
    field(
        "body/geom adhesion",
        mjcf(CHILD.format("", "", 'adhesion="1" name="h"')),
        '<string>:5: <geom name="h">',
        "adhesion",
        "geom-terms",
        "adhesion",
    ),
    field(
        "body/geom surfacevel",
        mjcf(CHILD.format("", "", 'surfacevel="1 0 0 0 0 0"')),
        '<string>:5: <geom> in <body name="c">',
        "a moving surface (surfacevel)",
        "geom-terms",
        "surfacevel",
    ),
    field(
        "contact/pair adhesion",
        mjcf(
            world=FLOOR,
            after='<contact><pair name="p" geom1="floor" geom2="g" adhesion="1"/></contact>',
        ),
        '<string>:8: <pair name="p">',
        "adhesion",
        "geom-terms",
        "adhesion",
    ),
    Refusal(
        ("contact/pair friction",),
        mjcf(
            world=FLOOR,
            after='<contact><pair name="p" geom1="floor" geom2="g" friction="0.5"/></contact>',
        ),
        '<string>:8: <pair name="p">: the two sliding frictions differ: 0.5 and 1 '
        "(see docs/support.md#condim)",
        '<string>:8: <pair name="p">: sliding friction is 0.5 in both directions.',
        "approximated",
    ),
    Refusal(
        ("contact/pair condim",),
        mjcf(
            world=FLOOR,
            after='<contact><pair name="p" geom1="floor" geom2="g" condim="4"/></contact>',
        ),
        '<string>:8: <pair name="p">: condim is 4, but only 1 and 3 are supported '
        "(see docs/support.md#condim)",
        '<string>:8: <pair name="p">: condim 4 is treated as 3: no torsional or rolling friction.',
        "approximated",
    ),
    Refusal(
        ("body/geom condim",),
        mjcf(world='<geom name="floor" type="plane" size="1 1 1" condim="6"/>'),
        '<string>:3: <geom name="floor">: condim is 6, but only 1 and 3 are supported '
        "(see docs/support.md#condim)",
        '<string>:3: <geom name="floor">: condim 6 is treated as 3: no torsional or rolling '
        "friction.",
        "approximated",
    ),
    Refusal(
        ("body/geom type",),
        mjcf(world='<geom name="w" type="cylinder" size="1 1"/>'),
        '<string>:4: <geom name="g">: sphere "g" against cylinder "w" has no collision routine yet '
        "(see docs/support.md#pairs)",
        '<string>:4: <geom name="g">: sphere "g" and cylinder "w" pass through each other.',
    ),
    Refusal(
        ("body/geom hfield", "asset/hfield"),
        mjcf(
            before='<asset><hfield name="h" nrow="2" ncol="2" size="1 1 1 1"/></asset>',
            world='<geom name="t" type="hfield" hfield="h"/>',
            after='<contact><pair geom1="t" geom2="g"/></contact>'
            '<sensor><distance geom1="t" geom2="g"/></sensor>',
        ),
        '<string>:3: <geom name="t">: height fields are not supported (see docs/support.md#hfield)',
        '<string>:3: <geom name="t">: the geom is left out.',
    ),
    Refusal(
        (),
        mjcf('<geom name="s" type="sdf" mesh="m"/>', before=MESH.format("")),
        '<string>:5: <geom name="s">: signed distance fields are not supported '
        "(see docs/support.md#sdf)",
        '<string>:5: <geom name="s">: the geom is left out.',
    ),
    # tendons and equalities
    Refusal(
        ("tendon/fixed", "default/tendon"),
        mjcf(after=TENDON, before='<default><tendon stiffness="1"/></default>'),
        '<string>:8: <fixed name="t">: tendons are not supported, and this one has stiffness '
        "(see docs/support.md#tendon)",
        '<string>:8: <fixed name="t">: the tendon is left out; it has stiffness.',
    ),
    Refusal(
        ("tendon/spatial",),
        mjcf(
            '<site name="s"/>',
            world='<site name="w"/>',
            after='<tendon><spatial name="t" damping="1" range="0 1" frictionloss="1">'
            '<site site="s"/><site site="w"/></spatial></tendon>',
        ),
        '<string>:8: <spatial name="t">: tendons are not supported, and this one has damping and '
        "a limit and dry friction (see docs/support.md#tendon)",
        '<string>:8: <spatial name="t">: the tendon is left out; it has damping and a limit and '
        "dry friction.",
    ),
    Refusal(
        ("equality/tendon",),
        mjcf(after=TENDON + '<equality><tendon name="e" tendon1="t"/></equality>'),
        '<string>:8: <tendon name="e">: equality constraints of type tendon are not supported '
        "(see docs/support.md#equality)",
        '<string>:8: <tendon name="e">: the constraint is left out.',
    ),
    *(
        element(
            f"equality/{tag}",
            mjcf(after=f'<equality><{tag} name="e" flex="f"/></equality>'),
            f'<string>:8: <{tag} name="e">',
            "equality constraints on deformable bodies are",
            "flex",
            tag,
        )
        for tag in ("flex", "flexvert", "flexstrain")
    ),
    element(
        "equality/distance",
        mjcf(after='<equality><distance name="e" geom1="g"/></equality>'),
        '<string>:8: <distance name="e">',
        "equality constraints of type distance are",
        "equality",
        "distance",
    ),
    # options
    Refusal(
        ("option density",),
        mjcf(before='<option density="1.2"/>'),
        "<string>:2: <option>: density is 1.2 kg/m³, but fluid forces are not supported "
        "(see docs/support.md#fluid)",
        "<string>:2: <option>: density is left out: there is no fluid.",
    ),
    Refusal(
        ("option viscosity",),
        mjcf(before='<option viscosity="0.1"/>'),
        "<string>:2: <option>: viscosity is 0.1 Pa·s, but fluid forces are not supported "
        "(see docs/support.md#fluid)",
        "<string>:2: <option>: viscosity is left out: there is no fluid.",
    ),
    Refusal(
        ("option/flag override",),
        mjcf(before='<option><flag override="enable"/></option>'),
        "<string>:2: <option>: the contact override (flag override) is not supported "
        "(see docs/support.md#flags)",
        "<string>:2: <option>: the contact override is left out: each geom keeps its own friction.",
    ),
    # elements that MuJoCo never sees
    element(
        "extension",
        mjcf(before=f"<extension>{PLUGIN}</extension>"),
        "<string>:2: <extension>",
        "engine plugins are",
        "plugin",
        "extension",
    ),
    element(
        "asset/model",
        mjcf(before='<asset><model name="m" file="m.xml"/></asset>'),
        '<string>:2: <model name="m">',
        "models attached from other files are",
        "attach",
        "model",
    ),
    element(
        "body/attach",
        mjcf('<attach model="m" body="x" prefix="y"/>'),
        '<string>:5: <attach> in <body name="b">',
        "models attached from other files are",
        "attach",
        "attach",
    ),
    element(
        "asset/mesh/plugin",
        mjcf(before=MESH.format(PLUGIN)),
        '<string>:2: <plugin> in <mesh name="m">',
        "engine plugins are",
        "plugin",
        "mesh",
    ),
    element(
        "body/plugin",
        mjcf(PLUGIN),
        '<string>:5: <plugin> in <body name="b">',
        "engine plugins are",
        "plugin",
        "plugin",
    ),
    element(
        "body/geom/plugin",
        mjcf(f'<geom name="h" size="1">{PLUGIN}</geom>'),
        '<string>:5: <plugin> in <geom name="h">',
        "engine plugins are",
        "plugin",
        "geom",
    ),
    element(
        "actuator/plugin",
        actuator("plugin", 'joint="j" plugin="mujoco.pid"'),
        '<string>:8: <plugin name="m">',
        "engine plugins are",
        "plugin",
        "plugin",
    ),
    element(
        "body/flexcomp",
        mjcf('<flexcomp name="f" type="grid" count="3 3 1"/>'),
        '<string>:5: <flexcomp name="f">',
        "deformable bodies are",
        "flex",
        "flexcomp",
    ),
    element(
        "deformable/flex",
        mjcf(after='<deformable><flex name="f"/></deformable>'),
        '<string>:8: <flex name="f">',
        "deformable bodies are",
        "flex",
        "flex",
    ),
    element(
        "body/composite",
        mjcf('<composite type="cable" count="5 1 1" prefix="x"/>'),
        '<string>:5: <composite> in <body name="b">',
        "composite bodies are",
        "composite",
        "composite",
    ),
]
