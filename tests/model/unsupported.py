"""Models with something unsupported, one for each entry of the tables that is not supported."""

from __future__ import annotations

from dataclasses import dataclass

from tests.model.helpers import mjcf

TENDON = '<tendon><fixed name="t"><joint joint="j" coef="1"/></fixed></tendon>'
FLOOR = '<geom name="floor" type="plane" size="1 1 1"/>'


@dataclass(frozen=True)
class Unsupported:
    """A model with one thing that is not supported.

    Attributes:
        covers: entries of the tables that it covers.
        text: the model.
        where: file, line and element of the message.
        fault: what the message must name.
        anchor: heading of docs/support.md that the message points to.
        kind: kind of the notice that it leaves under "drop".
        law: the contact law that does not have it; None for both.
    """

    covers: tuple[str, ...]
    text: str
    where: str
    fault: str
    anchor: str
    kind: str = "dropped"
    law: str | None = None

    @property
    def name(self) -> str:
        """Name of the case."""
        return self.covers[0] if self.covers else self.anchor


def actuator(tag: str, attributes: str = 'joint="j"', body: str = "", more: str = "") -> str:
    """Return a model with one actuator on line 8."""
    inner = f'<{tag} name="m" {attributes}/>'
    return mjcf(body, world='<site name="w"/>', after=f"{more}<actuator>{inner}</actuator>")


def law(tag: str, text: str, terms: str, *covers: str) -> Unsupported:
    """Return the case of an actuator's law."""
    return Unsupported(covers, text, f'<string>:8: <{tag} name="m">', terms, "actuator-laws")


def transmission(tag: str, text: str, word: str, *covers: str) -> Unsupported:
    """Return the case of a transmission."""
    return Unsupported(covers, text, f'<string>:8: <{tag} name="m">', word, "transmission")


JOINT = '<string>:5: <joint name="k">'
CHILD = '<body name="c" {}><joint name="k" {}/><geom size="1" contype="0" {}/></body>'
MOTOR = '<string>:8: <motor name="m">'
MESH = '<asset><mesh name="m" vertex="0 0 0 1 0 0 0 1 0 0 0 1">{}</mesh></asset>'
BALL = '<body name="c"><joint name="ball" type="ball"/><geom size="1" contype="0"/></body>'
PLUGIN = '<plugin plugin="mujoco.sdf.bolt"/>'

UNSUPPORTED = [
    # actuators: laws
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
    Unsupported(
        ("actuator/* body",),
        actuator("adhesion", 'body="b" ctrlrange="0 1"'),
        '<string>:8: <adhesion name="m">',
        "body (adhesion)",
        "transmission",
        law="hard",
    ),
    transmission(
        "adhesion",
        actuator("adhesion", 'body="b" ctrlrange="0 1"', '<geom size="1" gap="0.1"/>'),
        "a gap",
        "actuator/adhesion body",
    ),
    transmission(
        "general",
        actuator("general", 'body="b" biastype="affine" biasprm="0 0 -1"'),
        "its speed",
        "actuator/general body",
    ),
    transmission(
        "general",
        actuator("general", 'body="b"', '<joint actuatorfrcrange="-1 1"/>'),
        "actuatorfrcrange",
        "body/joint actuatorfrcrange",
    ),
    transmission(
        "motor",
        actuator("motor", 'jointinparent="ball"', BALL),
        "jointinparent (on a ball or free joint)",
        "actuator/* jointinparent",
    ),
    # actuators: terms
    Unsupported(
        ("actuator/* armature",),
        actuator("motor", 'tendon="t" armature="1"', more=TENDON),
        MOTOR,
        "armature on an actuator that does not act on a joint",
        "actuator-terms",
    ),
    Unsupported(
        ("actuator/* damping",),
        actuator("motor", 'tendon="t" damping="1"', more=TENDON),
        MOTOR,
        "damping on an actuator that does not act on a joint",
        "actuator-terms",
    ),
    Unsupported(
        ("actuator/* delay",),
        actuator("motor", 'joint="j" delay="0.01" nsample="9"'),
        MOTOR,
        "delay",
        "actuator-terms",
    ),
    # joints, bodies, geoms
    Unsupported(
        ("body/joint damping",),
        mjcf('<joint name="k" damping="1 2"/>'),
        JOINT,
        "damping",
        "joint-terms",
    ),
    Unsupported(
        ("body/joint stiffness",),
        mjcf('<joint name="k" stiffness="1 2"/>'),
        JOINT,
        "stiffness",
        "joint-terms",
    ),
    Unsupported(
        ("body/joint springyield",),
        mjcf('<joint name="k" stiffness="1" springyield="1"/>'),
        JOINT,
        "springyield",
        "joint-terms",
    ),
    Unsupported(
        ("body/geom adhesion",),
        mjcf(CHILD.format("", "", 'adhesion="1" name="h"')),
        '<string>:5: <geom name="h">',
        "adhesion",
        "geom-terms",
    ),
    Unsupported(
        ("body/geom surfacevel",),
        mjcf(CHILD.format("", "", 'surfacevel="1 0 0 0 0 0"')),
        '<string>:5: <geom> in <body name="c">',
        "surfacevel",
        "geom-terms",
    ),
    Unsupported(
        ("contact/pair adhesion",),
        mjcf(
            world=FLOOR,
            after='<contact><pair name="p" geom1="floor" geom2="g" adhesion="1"/></contact>',
        ),
        '<string>:8: <pair name="p">',
        "adhesion",
        "geom-terms",
    ),
    Unsupported(
        ("contact/pair friction",),
        mjcf(
            world=FLOOR,
            after='<contact><pair name="p" geom1="floor" geom2="g" friction="0.5"/></contact>',
        ),
        '<string>:8: <pair name="p">',
        "0.5 and 1",
        "condim",
        "approximated",
        "hard",
    ),
    Unsupported(
        ("body/geom type",),
        mjcf(
            '<geom name="s" type="sdf" mesh="m"/>',
            before=MESH.format(""),
            after='<contact><pair geom1="s" geom2="g"/></contact>'
            '<sensor><distance geom1="s" geom2="g"/></sensor>',
        ),
        '<string>:5: <geom name="s">',
        "signed distance fields",
        "sdf",
    ),
    # tendons and equalities
    Unsupported(
        ("tendon/fixed", "default/tendon"),
        mjcf(after=TENDON, before='<default><tendon stiffness="1 2"/></default>'),
        '<string>:8: <fixed name="t">',
        "polynomial spring",
        "tendon",
    ),
    Unsupported(
        ("tendon/spatial",),
        mjcf(
            '<site name="s"/>',
            world='<site name="w"/>',
            after='<tendon><spatial name="t" damping="1 2">'
            '<site site="s"/><site site="w"/></spatial></tendon>',
        ),
        '<string>:8: <spatial name="t">',
        "polynomial damping",
        "tendon",
    ),
    *(
        Unsupported(
            (f"equality/{tag}",),
            mjcf(after=f'<equality><{tag} name="e" flex="f"/></equality>'),
            f'<string>:8: <{tag} name="e">',
            "deformable bodies",
            "flex",
        )
        for tag in ("flex", "flexvert", "flexstrain")
    ),
    Unsupported(
        ("equality/distance",),
        mjcf(after='<equality><distance name="e" geom1="g"/></equality>'),
        '<string>:8: <distance name="e">',
        "type distance",
        "equality",
    ),
    # options
    Unsupported(
        ("option o_friction",),
        mjcf(before='<option o_friction="1 0.5 0.1 0.01 0.01"><flag override="enable"/></option>'),
        "<string>:2: <option>",
        "o_friction",
        "flags",
    ),
    # what MuJoCo's contact law is without
    Unsupported(
        ("option noslip_iterations",),
        mjcf(before='<option noslip_iterations="4"/>'),
        "<string>:2: <option>",
        "noslip_iterations is 4",
        "mujoco-law",
        law="mujoco",
    ),
    *(
        Unsupported(
            (f"option/flag {flag}",),
            mjcf(before=f'<option {more}><flag {flag}="enable"/></option>'),
            "<string>:2: <option>",
            f"flag {flag}",
            "mujoco-law",
            law="mujoco",
        )
        for flag, more in {
            "diagexact": "",
            "ipc": 'integrator="discrete"',
            "sleep": "",
            "speculative": "",
        }.items()
    ),
    # elements that MuJoCo never sees
    Unsupported(
        ("extension",),
        mjcf(before=f"<extension>{PLUGIN}</extension>"),
        "<string>:2: <extension>",
        "plugins",
        "plugin",
    ),
    Unsupported(
        ("asset/model",),
        mjcf(before='<asset><model name="m" file="m.xml"/></asset>'),
        '<string>:2: <model name="m">',
        "attached",
        "attach",
    ),
    Unsupported(
        ("body/attach",),
        mjcf('<attach model="m" body="x" prefix="y"/>'),
        '<string>:5: <attach> in <body name="b">',
        "attached",
        "attach",
    ),
    Unsupported(
        ("asset/mesh/plugin",),
        mjcf(before=MESH.format(PLUGIN)),
        '<string>:2: <plugin> in <mesh name="m">',
        "plugins",
        "plugin",
    ),
    Unsupported(
        ("body/plugin",),
        mjcf(PLUGIN),
        '<string>:5: <plugin> in <body name="b">',
        "plugins",
        "plugin",
    ),
    Unsupported(
        ("body/geom/plugin",),
        mjcf(f'<geom name="h" size="1">{PLUGIN}</geom>'),
        '<string>:5: <plugin> in <geom name="h">',
        "plugins",
        "plugin",
    ),
    Unsupported(
        ("actuator/plugin",),
        actuator("plugin", 'joint="j" plugin="mujoco.pid"'),
        '<string>:8: <plugin name="m">',
        "plugins",
        "plugin",
    ),
    Unsupported(
        ("body/flexcomp",),
        mjcf('<flexcomp name="f" type="grid" count="3 3 1"/>'),
        '<string>:5: <flexcomp name="f">',
        "deformable",
        "flex",
    ),
    Unsupported(
        ("deformable/flex",),
        mjcf(after='<deformable><flex name="f"/></deformable>'),
        '<string>:8: <flex name="f">',
        "deformable",
        "flex",
    ),
    Unsupported(
        ("body/composite",),
        mjcf('<composite type="cable" count="5 1 1" prefix="x"/>'),
        '<string>:5: <composite> in <body name="b">',
        "composite",
        "composite",
    ),
]
