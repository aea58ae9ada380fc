"""Arms that set a ball in motion: one that throws it, one that swings a club at it."""

import math

from featherback.model import Model, load
from featherback.models._mjcf import FLOOR, scene, text

# name, height above the joint before [m], axis, range [rad], torque limit [N·m], mass [kg],
# length [m] and radius [m] of the capsule that is the link; like those of common research arms
JOINTS = (
    ("shoulder_yaw", 0.20, "0 0 1", (-2.9, 2.9), 87.0, 3.5, 0.10, 0.06),
    ("shoulder_pitch", 0.13, "0 1 0", (-1.76, 1.76), 87.0, 3.5, 0.12, 0.06),
    ("upper_roll", 0.12, "0 0 1", (-2.9, 2.9), 87.0, 3.0, 0.196, 0.055),
    ("elbow", 0.196, "0 1 0", (0.05, 3.0), 87.0, 2.5, 0.12, 0.055),
    ("forearm_roll", 0.12, "0 0 1", (-2.9, 2.9), 12.0, 2.5, 0.264, 0.05),
    ("wrist_pitch", 0.264, "0 1 0", (-2.0, 2.0), 12.0, 1.4, 0.06, 0.045),
    ("wrist_roll", 0.06, "0 0 1", (-2.9, 2.9), 12.0, 0.7, 0.05, 0.04),
)
TOUCHED_FLOOR = FLOOR.replace(" type=", ' conaffinity="1" type=')
STIFFNESS, DAMPING = 0.5, 0.08  # of the joint servos, as shares of the torque limit [1/rad, s/rad]
PALM = 0.07  # from the wrist to the palm [m]
BALL_RADIUS, BALL_MASS = 0.0366, 0.145  # of a baseball
BALL_DAMPING = 1.1e-3  # [N·m·s/rad]: a rolling ball loses its speed with the time 0.25 s
FINGER = (0.012, 0.006, 0.03)  # half edges [m]
FINGER_MASS, FINGER_FORCE = 0.05, 60.0  # [kg], [N]
COCKED = (0.0, -0.6, 0.0, 1.6, 0.0, 0.6, 0.0)  # joint angles of the keyframe "hold" [rad]


def thrower_xml() -> str:
    """Return the MJCF text of :func:`thrower`."""
    lines: list[str] = []
    for name, height, axis, ends, _, mass, length, radius in JOINTS:
        lines.append(
            f'    <body name="{name}" pos="0 0 {text(height)}">\n'
            f'      <joint name="{name}" axis="{axis}" range="{text(ends)}" damping="0.5" '
            'armature="0.1"/>\n'
            f'      <geom name="{name}" class="link" type="capsule" size="{text(radius)}" '
            f'mass="{text(mass)}" fromto="0 0 0 0 0 {text(length)}"/>'
        )
    lines.append(_hand() + "</body>" * len(JOINTS))
    hold = (*COCKED, BALL_RADIUS, BALL_RADIUS, *_held_ball(), 1.0, 0.0, 0.0, 0.0)
    body = "\n".join(
        [
            f"    {TOUCHED_FLOOR}",
            *lines,
            f"""\
    <body name="ball" pos="{text(_held_ball())}">
      <joint name="ball" type="free" damping="{text(BALL_DAMPING)}"/>
      <geom name="ball" type="sphere" size="{text(BALL_RADIUS)}" mass="{text(BALL_MASS)}"
            contype="1" rgba="0.95 0.93 0.88 1"/>
    </body>""",
        ]
    )
    motors = [
        f'    <general name="{name}" joint="{name}" ctrlrange="{text((-limit, limit))}" '
        f'forcerange="{text((-limit, limit))}" biastype="affine" '
        f'biasprm="{text((STIFFNESS * limit * angle, -STIFFNESS * limit, -DAMPING * limit))}"/>'
        for (name, _, _, _, limit, *_), angle in zip(JOINTS, COCKED, strict=True)
    ]
    motors += [
        f'    <motor name="{side}_finger" joint="{side}_finger" '
        f'ctrlrange="{text((-FINGER_FORCE, FINGER_FORCE))}"/>'
        for side in ("left", "right")
    ]
    complete = scene(
        "thrower",
        dt=0.005,
        default='    <geom contype="0" conaffinity="0" friction="1 0.005 0.0001"/>\n'
        '    <default class="link"><geom rgba="0.88 0.89 0.91 1"/></default>\n'
        '    <default class="touch"><geom conaffinity="1" rgba="0.25 0.27 0.3 1"/></default>',
        worldbody=body,
        actuator="\n".join(motors),
        keyframe=f'    <key name="hold" qpos="{text(hold)}"/>',
    )
    mimic = (
        '  <equality>\n    <joint joint1="left_finger" joint2="right_finger" polycoef="0 1 0 0 0"/>'
        "\n  </equality>\n</mujoco>"
    )
    return complete.replace("</mujoco>", mimic)


def _hand() -> str:
    """Return the palm and two fingers that close along y; opening is positive."""
    fingers = "\n".join(
        f"""\
      <body name="{side}_finger" pos="0 0 {text(PALM + BALL_RADIUS + 0.012)}">
        <joint name="{side}_finger" type="slide" axis="0 {sign} 0" range="0 0.07" damping="2"/>
        <geom name="{side}_finger" class="touch" type="box" size="{text(FINGER)}"
              pos="0 {text(sign * FINGER[1])} 0" mass="{text(FINGER_MASS)}"/>
      </body>"""
        for side, sign in (("left", 1), ("right", -1))
    )
    return f"""\
      <geom name="palm" class="touch" type="box" size="0.03 0.075 0.01" mass="0.5"
            pos="0 0 {text(PALM - 0.01)}"/>
{fingers}
"""


def _held_ball() -> tuple[float, float, float]:
    """Return where the ball is in the keyframe: between the fingers of the cocked arm."""
    # all bends are about y, so the arm lies in the plane y = 0
    x, z, angle = 0.0, 0.0, 0.0
    for (_, height, axis, *_), q in zip(JOINTS, COCKED, strict=True):
        x, z = x + height * math.sin(angle), z + height * math.cos(angle)
        angle += q if axis == "0 1 0" else 0.0
    reach = PALM + BALL_RADIUS + 0.012
    return x + reach * math.sin(angle), 0.0, z + reach * math.cos(angle)


def thrower() -> Model:
    """Return an arm of seven hinges and two fingers that holds a ball, on a floor at z = 0.

    nq 16, nv 15, nu 9. The first seven coordinates are hinges [rad], then two fingers [m] that
    open along y of the hand and mirror each other, then the free ball (0.145 kg, radius 36.6 mm).
    Controls are torques [N·m], limited to 87 for the first four hinges and 12 for the wrist, and
    finger forces [N] within +-60; a negative force closes the hand. Each hinge has a servo that
    pulls it towards the keyframe, with half the torque limit per radian; servo and control together
    stay within the limit. The arm weighs 17.7 kg, reaches 0.88 m from its shoulder, and has sizes,
    joint limits and torque limits like those of common research arms.
    Only the ball touches anything: fingers, palm and floor. Keyframe ``hold`` has the ball
    between the fingers of the bent arm.
    """
    return load(thrower_xml(), name="thrower")


LINK = 0.5  # [m]
GOLF_RADIUS, GOLF_MASS = 0.02135, 0.0459  # of a golf ball
GOLF_DAMPING = 1.5e-4  # [N·m·s/rad]: a rolling ball loses its speed with the time 0.2 s
TEE = 0.03  # height of the tee [m]
HEAD = 0.03  # radius of the club's head [m]
RAISED = (1.9, 0.3)  # joint angles of the keyframe "raised" [rad]
# name, range [rad], torque limit [N·m], stiffness and damping of the servo [N·m/rad, N·m·s/rad]
SWING = (("shoulder", (-3.0, 3.0), 60.0, 0.0, 0.5), ("wrist", (-1.7, 1.7), 20.0, 15.0, 0.3))


def golfer_xml() -> str:
    """Return the MJCF text of :func:`golfer`."""
    # at the lowest point of the swing the head touches the ball at the height of its centre
    height, tee_x = TEE + GOLF_RADIUS, HEAD + GOLF_RADIUS
    joints = [
        f'<joint name="{name}" axis="0 1 0" range="{text(ends)}" damping="0.1" armature="0.01"/>'
        for name, ends, *_ in SWING
    ]
    body = f"""\
    {TOUCHED_FLOOR}
    <geom name="tee" class="touch" type="box" size="0.006 0.006 {text(0.5 * TEE)}"
          pos="{text(tee_x)} 0 {text(0.5 * TEE)}" rgba="0.7 0.55 0.35 1"/>
    <body name="arm" pos="0 0 {text(height + 2.0 * LINK)}">
      {joints[0]}
      <geom name="arm" type="capsule" size="0.035" mass="3" fromto="0 0 0 0 0 {text(-LINK)}"/>
      <body name="club" pos="0 0 {text(-LINK)}">
        {joints[1]}
        <geom name="shaft" type="capsule" size="0.008" mass="0.25"
              fromto="0 0 0 0 0 {text(-LINK)}"/>
        <geom name="head" class="touch" type="capsule" size="{text(HEAD)}" mass="0.25"
              fromto="0 -0.03 {text(-LINK)} 0 0.03 {text(-LINK)}"/>
      </body>
    </body>
    <body name="ball" pos="{text(tee_x)} 0 {text(height)}">
      <joint name="ball" type="free" damping="{text(GOLF_DAMPING)}"/>
      <geom name="ball" type="sphere" size="{text(GOLF_RADIUS)}" mass="{text(GOLF_MASS)}"
            contype="1" rgba="0.97 0.97 0.97 1"/>
    </body>"""
    motors = [
        f'    <general name="{name}" joint="{name}" ctrlrange="{text((-limit, limit))}" '
        f'forcerange="{text((-limit, limit))}" biastype="affine" '
        f'biasprm="{text((0.0, -stiffness, -damping))}"/>'
        for name, _, limit, stiffness, damping in SWING
    ]
    raised = (*RAISED, tee_x, 0.0, height, 1.0, 0.0, 0.0, 0.0)
    return scene(
        "golfer",
        dt=0.001,
        default='    <geom contype="0" conaffinity="0" friction="0.7 0.005 0.0001" '
        'rgba="0.55 0.58 0.62 1"/>\n'
        '    <default class="touch"><geom conaffinity="1"/></default>',
        worldbody=body,
        actuator="\n".join(motors),
        keyframe=f'    <key name="raised" qpos="{text(raised)}"/>',
    )


def golfer() -> Model:
    """Return an arm with a lofted club and a golf ball on a tee, on a floor at z = 0.

    nq 9, nv 8, nu 2. The first two coordinates are shoulder and wrist [rad], both about y and zero
    when arm and club hang down, then the free ball (45.9 g, radius 21.35 mm). Controls are torques
    [N·m] within +-60 and +-20; a servo of 15 N·m/rad keeps the wrist straight within its torque
    limit. Only the ball touches anything: head, tee and floor. Keyframe ``raised`` has the club
    up behind the ball; swung down it sends the ball along +x. Restitution is zero unless given, as
    for every model: pass ``geom_restitution`` to the Simulator.
    """
    return load(golfer_xml(), name="golfer")
