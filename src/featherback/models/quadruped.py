"""A small generic quadruped with two joints per leg, made of capsules and spheres."""

from featherback.model import Model, load
from featherback.models._mjcf import GROUND, scene, text

LEGS = ("FR", "FL", "RR", "RL")
LINK = 0.2  # thigh and shank length [m]
FOOT_RADIUS = 0.02  # [m]
STAND_POSE = (0.7, -1.4)  # hip and knee of every leg [rad]
STAND_HEIGHT = 0.3259368749137954  # trunk origin with the feet touching z = 0 [m]

DEFAULT = """\
    <joint type="hinge" axis="0 1 0" damping="3" armature="0.005"/>
    <position kp="120" forcerange="-30 30"/>
    <geom contype="0" conaffinity="1" condim="3" friction="0.9 0.005 0.0001" \
rgba="0.2 0.45 0.6 1"/>"""


def _leg(leg: str) -> str:
    """Return one leg, hip pitch and knee about y."""
    x = 0.2 if leg[0] == "F" else -0.2
    y = 0.12 if leg[1] == "L" else -0.12
    return f"""\
      <body name="{leg}_thigh" pos="{text((x, y, 0.0))}">
        <joint name="{leg}_hip" range="-1.2 2.2"/>
        <geom name="{leg}_thigh" type="capsule" size="0.025" \
fromto="0 0 0 0 0 {text(-LINK)}" mass="0.6"/>
        <body name="{leg}_shank" pos="0 0 {text(-LINK)}">
          <joint name="{leg}_knee" range="-2.6 -0.2"/>
          <geom name="{leg}_shank" type="capsule" size="0.014" fromto="0 0 0 0 0 -0.15" mass="0.2"/>
          <geom name="{leg}_foot" type="sphere" size="{text(FOOT_RADIUS)}" pos="0 0 {text(-LINK)}" \
mass="0.05"/>
          <site name="{leg}_foot" pos="0 0 {text(-LINK)}"/>
        </body>
      </body>"""


def quadruped_xml() -> str:
    """Return the MJCF text of :func:`quadruped`."""
    legs = "\n".join(_leg(leg) for leg in LEGS)
    trunk = f"""\
    {GROUND}
    <body name="trunk" pos="0 0 {text(STAND_HEIGHT)}">
      <freejoint name="root"/>
      <geom name="trunk" type="capsule" size="0.08" fromto="-0.2 0 0 0.2 0 0" mass="6"/>
{legs}
    </body>"""
    servos = "\n".join(
        f'    <position name="{leg}_{joint}" joint="{leg}_{joint}" ctrlrange="{limits}"/>'
        for leg in LEGS
        for joint, limits in (("hip", "-1.2 2.2"), ("knee", "-2.6 -0.2"))
    )
    qpos = (0.0, 0.0, STAND_HEIGHT, 1.0, 0.0, 0.0, 0.0, *(STAND_POSE * len(LEGS)))
    key = f'    <key name="stand" qpos="{text(qpos)}" ctrl="{text(STAND_POSE * len(LEGS))}"/>'
    return scene(
        "quadruped", dt=0.002, default=DEFAULT, worldbody=trunk, actuator=servos, keyframe=key
    )


def quadruped() -> Model:
    """Return a generic quadruped of 9.4 kg with two joints per leg on a floor at z = 0.

    nq 15, nv 14, nu 8. ``q`` is trunk position [m] and quaternion (wxyz), then hip pitch and knee
    [rad] for the legs FR, FL, RR, RL; ``u`` holds the servo targets [rad] in the same order. Servos
    have kp 120 N·m/rad and a torque limit of 30 N·m; joint damping is 3 N·m·s/rad. All shapes
    (trunk, thighs and shanks capsules, feet spheres) collide with the floor only. Keyframe
    ``stand`` has the feet touching the floor; sites ``FR_foot`` ... are at the foot centres.
    """
    return load(quadruped_xml(), name="quadruped")
