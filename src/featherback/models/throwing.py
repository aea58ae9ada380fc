"""Arms that set a ball in motion: one that throws it, one that swings a club at it."""

import math

from featherback.model import Model, load
from featherback.models._mjcf import FLOOR, scene, text

# name, height above the joint before [m], axis, range [rad], torque limit [N·m], mass [kg],
# length [m] and radius [m] of the capsule that is the link; sizes of a common research arm
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
    whole = scene(
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
    return whole.replace("</mujoco>", mimic)


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
    finger forces [N] within +-60; a negative force closes the hand. The arm weighs 17.7 kg,
    reaches 1.3 m, and has the sizes, joint limits and torque limits of a common research arm.
    Only the ball touches anything: fingers, palm and floor. Keyframe ``hold`` has the ball
    between the fingers of the bent arm.

    Returns:
        The loaded model.
    """
    return load(thrower_xml(), name="thrower")
