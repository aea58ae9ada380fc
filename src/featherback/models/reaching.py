"""An arm of one metre that reaches for points: a universal joint at the base and one as elbow."""

from featherback.model import Model, load
from featherback.models._mjcf import scene, text

LINK = 0.5  # length of either link [m]
MASSES = (4.0, 2.0)  # upper and lower link [kg]
# name, axis, range [rad], gain [N·m/rad], damping [N·m·s/rad], torque limit [N·m]
JOINTS = (
    ("base_roll", "1 0 0", 1.5, 600.0, 60.0, 120.0),
    ("base_pitch", "0 1 0", 1.5, 600.0, 60.0, 120.0),
    ("elbow_roll", "1 0 0", 2.0, 200.0, 12.0, 40.0),
    ("elbow_pitch", "0 1 0", 2.0, 200.0, 12.0, 40.0),
)


def _joints(names: tuple[str, ...]) -> str:
    """Return the joints at one end of a link."""
    return "\n".join(
        f'      <joint name="{name}" axis="{axis}" range="{text((-limit, limit))}" '
        f'damping="{text(damping)}" armature="0.05"/>'
        for name, axis, limit, _, damping, _ in JOINTS
        if name in names
    )


def reacher_xml() -> str:
    """Return the MJCF text of :func:`reacher`."""
    upper, lower = (text(mass) for mass in MASSES)
    arm = f"""\
    <body name="upper" pos="0 0 0">
{_joints(("base_roll", "base_pitch"))}
      <geom name="upper" type="capsule" size="0.04" fromto="0 0 0 0 0 {text(LINK)}" mass="{upper}"/>
      <body name="lower" pos="0 0 {text(LINK)}">
{_joints(("elbow_roll", "elbow_pitch"))}
        <geom name="lower" type="capsule" size="0.03" fromto="0 0 0 0 0 {text(LINK)}" \
mass="{lower}"/>
        <site name="tip" pos="0 0 {text(LINK)}"/>
      </body>
    </body>"""
    servos = "\n".join(
        f'    <position name="{name}" joint="{name}" kp="{text(gain)}" '
        f'ctrlrange="{text((-limit, limit))}" forcerange="{text((-torque, torque))}"/>'
        for name, _, limit, gain, _, torque in JOINTS
    )
    default = '    <geom contype="0" conaffinity="0" rgba="0.85 0.5 0.2 1"/>'
    return scene("reacher", dt=0.01, default=default, worldbody=arm, actuator=servos)


def reacher() -> Model:
    """Return an arm of two links of 0.5 m that stands on its base at the origin, without contacts.

    nq 4, nv 4, nu 4. ``q`` is base roll and pitch and elbow roll and pitch [rad]; at zero the arm
    points up. ``u`` holds the servo targets [rad] in the same order; servos have a gain, a damping
    and a torque limit that holds the arm in every pose, and sag under its weight as real ones do.
    Site ``tip`` is the end of the arm.
    """
    return load(reacher_xml(), name="reacher")
