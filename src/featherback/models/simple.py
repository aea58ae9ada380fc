"""Small models with closed forms or a size of choice: chain, pendulum, ball, box, cart-pole."""

from featherback.errors import ModelError
from featherback.model import Model, load
from featherback.models._mjcf import FLOOR, GROUND, check_count, check_positive, scene, text

LEVEL = "0.7071067811865476 0 -0.7071067811865475 0"  # rotates a hanging chain to point along +x


def chain_xml(n: int, *, ground: bool = False, length: float = 0.1, motors: bool = False) -> str:
    """Return the MJCF text of :func:`chain`."""
    check_count("chain", "n", n)
    check_positive("chain", "length", length, "m")
    radius = 0.15 * length
    bodies = []
    for i in range(n):
        if i == 0:
            offset = f'pos="0 0 {text(0.5 * n * length)}" quat="{LEVEL}"' if ground else ""
        else:
            offset = f'pos="0 0 {text(-length)}"'
        axis = "0 1 0" if i % 2 == 0 else "1 0 0"
        bodies.append(
            f'    <body name="link{i}" {offset}>\n'
            f'      <joint name="joint{i}" axis="{axis}"/>\n'
            f'      <geom name="link{i}" type="capsule" size="{text(radius)}" mass="0.1" '
            f'fromto="0 0 0 0 0 {text(-length)}"/>'
        )
    bodies.append(f'      <site name="tip" pos="0 0 {text(-length)}"/>' + "</body>" * n)
    floor = [f"    {GROUND}"] if ground else []
    actuator = (
        [f'    <motor name="joint{i}" joint="joint{i}"/>' for i in range(n)] if motors else []
    )
    return scene(
        "chain",
        dt=0.001,
        default='    <joint type="hinge" damping="0.001" armature="0.0001"/>\n'
        f'    <geom contype="0" conaffinity="{int(ground)}" friction="0.6 0.005 0.0001"/>',
        worldbody="\n".join(floor + bodies),
        actuator="\n".join(actuator),
    )


def chain(n: int, *, ground: bool = False, length: float = 0.1, motors: bool = False) -> Model:
    """Return n links of 0.1 kg on hinges whose axes alternate between y and x.

    nq = nv = n (q in rad). The first joint is fixed in the world; joint damping is
    0.001 N·m·s/rad and armature 1e-4 kg·m^2. Links are capsules and never collide with each other.
    Without ground the chain hangs along -z from the origin at q = 0. With ground it points along +x
    at q = 0, half its length above a floor at z = 0 on which it falls. Site ``tip`` is at the free
    end.

    Args:
        n: number of links.
        ground: add a floor and start level.
        length: length of one link [m].
        motors: add one motor [N·m] per joint, so nu = n instead of 0.

    Raises:
        ModelError: if ``n`` is not an integer >= 1 or ``length`` not above 0.
    """
    return load(chain_xml(n, ground=ground, length=length, motors=motors), name="chain")


def pendulum_xml(n: int = 1, *, length: float = 0.5, mass: float = 1.0) -> str:
    """Return the MJCF text of :func:`pendulum`."""
    check_count("pendulum", "n", n)
    check_positive("pendulum", "length", length, "m")
    check_positive("pendulum", "mass", mass, "kg")
    radius = 0.1 * length
    inertia = text((0.4 * mass * radius**2,) * 3)
    end = f"0 0 {text(-length)}"
    bodies = [
        f'    <body name="link{i}" pos="{end if i else "0 0 0"}">\n'
        f'      <joint name="joint{i}" type="hinge" axis="0 1 0"/>\n'
        f'      <inertial mass="{text(mass)}" pos="{end}" diaginertia="{inertia}"/>\n'
        f'      <geom name="bob{i}" type="sphere" size="{text(radius)}" pos="{end}"/>'
        for i in range(n)
    ]
    bodies.append(f'      <site name="tip" pos="{end}"/>' + "</body>" * n)
    motors = [f'    <motor name="joint{i}" joint="joint{i}"/>' for i in range(n)]
    return scene(
        "pendulum",
        dt=0.001,
        default='    <geom contype="0" conaffinity="0"/>',
        worldbody="\n".join(bodies),
        actuator="\n".join(motors),
    )


def pendulum(n: int = 1, *, length: float = 0.5, mass: float = 1.0) -> Model:
    """Return an n-link pendulum without damping that swings in the x-z plane.

    nq = nv = nu = n. ``q`` are relative angles [rad], zero when hanging; ``u`` are torques [N·m].
    Each link carries a solid sphere of radius ``0.1 length`` at its end and no other mass, so one
    link has inertia ``1.004 mass length^2`` about its hinge and the small-swing period
    ``2 pi sqrt(1.004 length / g)``. Nothing collides. Site ``tip`` is at the last sphere.

    Args:
        n: number of links.
        length: hinge to sphere centre [m].
        mass: mass of one sphere [kg].

    Raises:
        ModelError: if ``n`` is not an integer >= 1, or a size or mass not above 0.
    """
    return load(pendulum_xml(n, length=length, mass=mass), name="pendulum")


def ball_xml(*, radius: float = 0.1, mass: float = 1.0) -> str:
    """Return the MJCF text of :func:`ball`."""
    check_positive("ball", "radius", radius, "m")
    check_positive("ball", "mass", mass, "kg")
    body = f"""\
    {FLOOR}
    <body name="ball" pos="0 0 {text(radius)}">
      <freejoint name="root"/>
      <geom name="ball" type="sphere" size="{text(radius)}" mass="{text(mass)}"/>
      <site name="centre"/>
    </body>"""
    return scene("ball", dt=0.001, worldbody=body)


def ball(*, radius: float = 0.1, mass: float = 1.0) -> Model:
    """Return a free solid sphere that touches a floor at z = 0; friction is 1.

    nq 7 (position [m], quaternion wxyz), nv 6 (world linear [m/s], body angular [rad/s]), nu 0.

    Args:
        radius: radius [m].
        mass: mass [kg].

    Raises:
        ModelError: if ``radius`` or ``mass`` is not above 0.
    """
    return load(ball_xml(radius=radius, mass=mass), name="ball")


def box_xml(*, size: tuple[float, float, float] = (0.2, 0.2, 0.2), mass: float = 1.0) -> str:
    """Return the MJCF text of :func:`box`."""
    if len(size) != 3:
        raise ModelError(
            f"models.box: size has {len(size)} numbers; it must have 3, the edge lengths [m] along "
            f"x, y and z: pass three numbers."
        )
    for name, edge in zip(("size[0]", "size[1]", "size[2]"), size, strict=True):
        check_positive("box", name, edge, "m")
    check_positive("box", "mass", mass, "kg")
    half = tuple(0.5 * edge for edge in size)
    body = f"""\
    {FLOOR}
    <body name="box" pos="0 0 {text(half[2])}">
      <freejoint name="root"/>
      <geom name="box" type="box" size="{text(half)}" mass="{text(mass)}"/>
      <site name="centre"/>
    </body>"""
    return scene("box", dt=0.001, worldbody=body)


def box(*, size: tuple[float, float, float] = (0.2, 0.2, 0.2), mass: float = 1.0) -> Model:
    """Return a free box that lies on a floor at z = 0; friction is 1.

    nq 7 (position [m], quaternion wxyz), nv 6 (world linear [m/s], body angular [rad/s]), nu 0.

    Args:
        size: edge lengths along x, y, z [m] (full edges, not halves).
        mass: mass [kg].

    Raises:
        ModelError: if an edge or ``mass`` is not above 0.
    """
    return load(box_xml(size=size, mass=mass), name="box")


def cartpole_xml() -> str:
    """Return the MJCF text of :func:`cartpole`."""
    body = """\
    <body name="cart">
      <joint name="slider" type="slide" axis="1 0 0" range="-2.4 2.4"/>
      <geom name="cart" type="box" size="0.15 0.1 0.07" mass="1"/>
      <body name="pole">
        <joint name="hinge" type="hinge" axis="0 1 0"/>
        <geom name="pole" type="capsule" size="0.02" fromto="0 0 0 0 0 1" mass="0.1"/>
        <site name="tip" pos="0 0 1"/>
      </body>
    </body>"""
    return scene(
        "cartpole",
        dt=0.005,
        default='    <geom contype="0" conaffinity="0"/>',
        worldbody=body,
        actuator='    <motor name="slider" joint="slider" ctrlrange="-10 10"/>',
        keyframe='    <key name="upright" qpos="0 0"/>\n'
        '    <key name="hanging" qpos="0 3.141592653589793"/>',
    )


def cartpole() -> Model:
    """Return a cart of 1 kg on a 4.8 m rail with a pole of 1 m and 0.1 kg, without damping.

    nq = nv = 2: cart position along x [m] (limited to +-2.4) and pole angle about y [rad], zero
    when upright; nu 1: force on the cart [N] within +-10. Nothing collides. Keyframes ``upright``
    and ``hanging``; site ``tip`` at the end of the pole.
    """
    return load(cartpole_xml(), name="cartpole")
