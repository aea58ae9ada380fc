"""The Laikago quadruped as MJCF.

Masses, centres of mass, inertias, link lengths, joint ranges and effort limits are the figures
that Unitree publishes for this robot, as repeated in the robot descriptions of example-robot-data
5.0.0: 25.433 kg in total. The description in pybullet_data 3.2.7 gives 25.567 kg and no link
inertias, so it is not the source. The text of this model, its collision shapes, servo gains and
armature are ours.
"""

from dataclasses import dataclass

from featherback.model import Model, load
from featherback.models._mjcf import GROUND, check_count, scene, text

THIGH = 0.25  # hip pitch axis to knee axis [m]
SHANK = 0.25  # knee axis to foot centre [m]
FOOT_RADIUS = 0.0265  # [m]
STAND_POSE = (0.0, 0.65, -1.3)  # hip roll, hip pitch, knee of every leg [rad]
STAND_HEIGHT = 0.42454189927452796  # trunk origin with the feet touching z = 0 [m]
SPACING = 1.5  # grid pitch for several robots [m]
LEGS = ("FR", "FL", "RR", "RL")
JOINTS = ("hip", "thigh", "knee")
EFFORT = {"hip": 20.0, "thigh": 55.0, "knee": 55.0}  # servo torque limit [N·m]
PITCH_RANGE = (-0.523598775598, 3.92699081699)  # [rad]
KNEE_RANGE = (-2.77507351067, -0.610865238198)  # [rad]
ROLL_RANGE = {"L": (-0.872664625997, 1.0471975512), "R": (-1.0471975512, 0.872664625997)}  # [rad]

# the servo's velocity gain is written as joint damping, which both engines treat implicitly
DEFAULT = """\
    <joint damping="8" armature="0.01"/>
    <position kp="200"/>
    <geom contype="0" conaffinity="1" condim="3" friction="0.8 0.005 0.0001"/>
    <default class="shape"><geom rgba="0.25 0.27 0.3 1"/></default>
    <default class="foot"><geom rgba="0.9 0.45 0.1 1"/></default>
    <default class="bumper">
      <geom contype="2" conaffinity="2" group="3" rgba="0 0 0 0"/>
    </default>"""


@dataclass(frozen=True)
class Inertial:
    """Mass [kg], centre of mass [m] and inertia about it [kg·m^2] as xx yy zz xy xz yz."""

    mass: float
    com: tuple[float, float, float]
    inertia: tuple[float, float, float, float, float, float]

    def xml(self) -> str:
        """Return the ``<inertial>`` element."""
        return (
            f'<inertial mass="{text(self.mass)}" pos="{text(self.com)}" '
            f'fullinertia="{text(self.inertia)}"/>'
        )

    def __add__(self, other: "Inertial") -> "Inertial":
        """Return the two as one rigid body."""
        mass = self.mass + other.mass
        com = tuple(
            (self.mass * a + other.mass * b) / mass
            for a, b in zip(self.com, other.com, strict=True)
        )
        parts = [_shifted(part, com) for part in (self, other)]
        total = tuple(sum(entries) for entries in zip(*parts, strict=True))
        return Inertial(mass, com, total)  # pyright: ignore[reportArgumentType]


def _shifted(part: Inertial, point: tuple[float, ...]) -> tuple[float, ...]:
    """Return the inertia of ``part`` about ``point`` (parallel axes)."""
    x, y, z = (a - b for a, b in zip(part.com, point, strict=True))
    m = part.mass
    steiner = (y * y + z * z, x * x + z * z, x * x + y * y, -x * y, -x * z, -y * z)
    return tuple(own + m * term for own, term in zip(part.inertia, steiner, strict=True))


TRUNK = Inertial(
    13.733,
    (0.002284, -4.1e-05, 0.025165),
    (0.073348887, 0.250684593, 0.254469458, 0.00030338, 0.001918218, -7.5402e-05),
)


def _hip(front: int, side: int) -> Inertial:
    """Return the hip motor, mirrored for front/rear and left/right (+1 is front and left)."""
    return Inertial(
        1.096,
        (-front * 0.001568, -side * 0.008134, 0.000864),
        (
            *(0.000822113, 0.000983196, 0.000864753),
            *(-front * side * 4.982e-06, -front * 3.672e-05, side * 2.811e-06),
        ),
    )


def _thigh(side: int) -> Inertial:
    """Return the thigh, mirrored for left/right."""
    return Inertial(
        1.528,
        (-0.000482, side * 0.02001, -0.031996),
        (0.00991611, 0.009280083, 0.00178256, side * 1.0388e-05, 0.000250428, -side * 8.511e-05),
    )


def _shank() -> Inertial:
    """Return the shank with its foot."""
    shank = Inertial(
        0.241,
        (-0.002196, -0.000381, -0.12338),
        (0.006181961, 0.006196546, 3.4774e-05, 2.37e-07, -2.985e-06, 5.138e-06),
    )
    foot = Inertial(0.06, (0.0, 0.0, -SHANK), (1.6854e-05, 1.6854e-05, 1.6854e-05, 0.0, 0.0, 0.0))
    return shank + foot


def _range(leg: str, joint: str) -> tuple[float, float]:
    """Return the range of a joint, which is also the range of its servo's target [rad]."""
    return {"hip": ROLL_RANGE[leg[1]], "thigh": PITCH_RANGE, "knee": KNEE_RANGE}[joint]


def _leg(prefix: str, leg: str) -> str:
    """Return one leg: hip roll about x, hip pitch and knee about y."""
    front = 1 if leg[0] == "F" else -1
    side = 1 if leg[1] == "L" else -1
    n = prefix + leg
    return f"""\
        <body name="{n}_hip" pos="{text((front * 0.21935, side * 0.0875, 0.0))}">
          {_hip(front, side).xml()}
          <joint name="{n}_hip" axis="1 0 0" range="{text(_range(leg, "hip"))}"/>
          <body name="{n}_thigh" pos="{text((0.0, side * 0.037, 0.0))}">
            {_thigh(side).xml()}
            <joint name="{n}_thigh" axis="0 1 0" range="{text(_range(leg, "thigh"))}"/>
            <geom name="{n}_thigh" class="shape" type="capsule" size="0.022" \
fromto="0 0 0 0 0 -0.23"/>
            <body name="{n}_shank" pos="0 0 {text(-THIGH)}">
              {_shank().xml()}
              <joint name="{n}_knee" axis="0 1 0" range="{text(_range(leg, "knee"))}"/>
              <geom name="{n}_shank" class="shape" type="capsule" size="0.012" \
fromto="0 0 0 0 0 -0.19"/>
              <geom name="{n}_foot" class="foot" type="sphere" size="{text(FOOT_RADIUS)}" \
pos="0 0 {text(-SHANK)}"/>
              <site name="{n}_foot" pos="0 0 {text(-SHANK)}"/>
            </body>
          </body>
        </body>"""


def _robot(prefix: str, x: float, y: float, bumper: bool) -> str:
    """Return one robot with its trunk origin at (x, y, standing height)."""
    legs = "\n".join(_leg(prefix, leg) for leg in LEGS)
    guard = (
        f'\n      <geom name="{prefix}bumper" class="bumper" type="capsule" size="0.09" '
        f'fromto="-0.19 0 0.01675 0.19 0 0.01675"/>'
    )
    return f"""\
    <body name="{prefix}trunk" pos="{text((x, y, STAND_HEIGHT))}">
      {TRUNK.xml()}
      <freejoint name="{prefix}root"/>
      <geom name="{prefix}trunk" class="shape" type="box" size="0.2808 0.086 0.09375" \
pos="0 0 0.01675"/>{guard if bumper else ""}
{legs}
    </body>"""


def _servos(prefix: str) -> str:
    """Return the twelve position servos of one robot."""
    return "\n".join(
        f'    <position name="{prefix}{leg}_{joint}" joint="{prefix}{leg}_{joint}" '
        f'ctrlrange="{text(_range(leg, joint))}" '
        f'forcerange="{text((-EFFORT[joint], EFFORT[joint]))}"/>'
        for leg in LEGS
        for joint in JOINTS
    )


def _grid(robots: int) -> list[tuple[float, float]]:
    """Return robot positions on a square grid, centred on the origin, row by row."""
    columns = next(k for k in range(1, robots + 1) if k * k >= robots)
    rows = -(-robots // columns)
    return [
        (SPACING * (i % columns - (columns - 1) / 2), SPACING * (i // columns - (rows - 1) / 2))
        for i in range(robots)
    ]


def laikago_xml(robots: int = 1) -> str:
    """Return the MJCF text of :func:`laikago`.

    Args:
        robots: how many robots stand on the floor.
    """
    check_count("laikago", "robots", robots)
    prefixes = [""] if robots == 1 else [f"robot{i}/" for i in range(robots)]
    positions = _grid(robots)
    bodies = [
        _robot(prefix, x, y, robots > 1) for prefix, (x, y) in zip(prefixes, positions, strict=True)
    ]
    qpos = [
        value
        for x, y in positions
        for value in (x, y, STAND_HEIGHT, 1.0, 0.0, 0.0, 0.0, *(STAND_POSE * len(LEGS)))
    ]
    return scene(
        "laikago",
        dt=0.002,
        default=DEFAULT,
        worldbody="\n".join([f"    {GROUND}", *bodies]),
        actuator="\n".join(_servos(prefix) for prefix in prefixes),
        keyframe=f'    <key name="stand" qpos="{text(qpos)}" '
        f'ctrl="{text(STAND_POSE * (len(LEGS) * robots))}"/>',
    )


def laikago(robots: int = 1) -> Model:
    """Return one or more Laikago quadrupeds on a floor at z = 0.

    Each robot weighs 25.433 kg and adds nq 19, nv 18, nu 12. Per robot, ``q`` is trunk position
    [m] and quaternion (wxyz), then hip roll, hip pitch and knee [rad] for the legs FR, FL, RR, RL;
    ``v`` follows MuJoCo (world linear [m/s], body angular [rad/s], joint rates [rad/s]); ``u``
    holds the servo targets [rad] in the same leg order. x points forward, y left, z up.

    The servos have kp 200 N·m/rad and torque limits of 20 (hip roll) and 55 N·m; joint damping is
    8 N·m·s/rad and armature 0.01 kg·m^2. Keyframe ``stand`` has the trunk 0.4245 m high and the
    feet touching the floor; with its joint angles as targets the robot settles 9 mm lower.

    Feet (spheres), shanks and thighs (capsules) and trunk (box) collide with the floor, never with
    the robot itself. Several robots stand on a grid 1.5 m apart, names get the prefix ``robot0/``,
    ``robot1/``, ..., and robots meet each other through one capsule along each trunk. Sites
    ``FR_foot`` ... are at the foot centres.

    Args:
        robots: how many robots stand on the floor.

    Raises:
        ModelError: if ``robots`` is not an integer >= 1.
    """
    return load(laikago_xml(robots), name="laikago")
