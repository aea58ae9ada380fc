"""A small car whose wheels are locked by dry friction in their joints."""

from featherback.model import Model, load
from featherback.models._mjcf import FLOOR, scene, text

WHEEL_RADIUS = 0.05  # [m]
LOCK = 2.0  # dry friction in each joint [N·m], many times what the floor can turn a wheel with
AXLES = (("rear", -0.16), ("front", 0.16))  # position along x [m]
TRACK = 0.11  # half of it [m]


def racecar_xml() -> str:
    """Return the MJCF text of :func:`racecar`."""
    wheels: list[str] = []
    for axle, x in AXLES:
        for side, sign in (("left", 1.0), ("right", -1.0)):
            name = f"{axle}_{side}"
            position = text((x, sign * TRACK, 0.0))
            wheel = (
                f'<joint name="{name}" axis="0 1 0"/>'
                f'<geom name="{name}" type="sphere" size="{text(WHEEL_RADIUS)}" mass="0.34" '
                'conaffinity="1" rgba="0.2 0.2 0.22 1"/>'
            )
            if axle == "front":
                wheel = (
                    f'<joint name="steer_{side}" axis="0 0 1" range="-0.5 0.5"/>'
                    '<inertial pos="0 0 0" mass="0.08" diaginertia="3e-5 3e-5 3e-5"/>'
                    f'<body name="wheel_{name}">{wheel}</body>'
                )
            wheels.append(f'      <body name="{name}" pos="{position}">{wheel}</body>')
    body = "\n".join(
        [
            f"    {FLOOR}",
            f'    <body name="car" pos="0 0 {text(WHEEL_RADIUS)}">',
            '      <freejoint name="root"/>',
            '      <geom name="chassis" type="box" size="0.22 0.08 0.03" pos="0 0 0.02" '
            'mass="4.372" contype="0" rgba="0.75 0.25 0.2 1"/>',
            *wheels,
            "    </body>",
        ]
    )
    return scene(
        "racecar",
        dt=0.001,
        default=f'    <joint type="hinge" frictionloss="{text(LOCK)}" damping="1e-4" '
        'armature="1e-5"/>\n    <geom conaffinity="0"/>',
        worldbody=body,
    )


def racecar() -> Model:
    """Return a car of 5.892 kg on a floor, with four wheels, two of them steered.

    nq 13: position [m], quaternion wxyz, the rear wheels, and for each front wheel its steering
    and its rotation [rad]; nv 12, nu 0. Every joint has dry friction of 2 N·m, so the wheels are
    locked: a moving car slides to rest in ``v^2 / (2 mu g)``. It stands on the floor in ``q0``.
    """
    return load(racecar_xml(), name="racecar")
