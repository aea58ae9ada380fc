"""A ball on a light rod that swings against a hanging chain."""

from featherback.model import Model, load
from featherback.models._mjcf import check_count, scene, text

LENGTH, LINK_RADIUS = 0.1, 0.015  # of one link [m]
BALL_RADIUS, BALL_MASS = 0.04, 0.1  # [m], [kg]
TOP = 1.3  # height of both hinges [m]


def struck_chain_xml(links: int = 10) -> str:
    """Return the MJCF text of :func:`struck_chain`."""
    check_count("struck_chain", "links", links)
    mass = 1.0 / links
    chain = "".join(
        f'    <body name="link{i}" pos="{text((0.0, 0.0, -LENGTH if i else TOP))}">\n'
        f'      <joint name="link{i}"/>\n'
        f'      <geom name="link{i}" type="capsule" size="{text(LINK_RADIUS)}" mass="{text(mass)}" '
        f'fromto="0 0 0 0 0 {text(-LENGTH)}" contype="1" conaffinity="0"/>\n'
        for i in range(links)
    )
    rod = (links - 0.5) * LENGTH
    apart = -(BALL_RADIUS + LINK_RADIUS + 1e-3)
    ball = (
        f'    <body name="ball" pos="{text((apart, 0.0, TOP))}">\n'
        '      <joint name="ball"/>\n'
        f'      <geom name="rod" type="capsule" size="0.003" mass="0.005" contype="0" '
        f'conaffinity="0" fromto="0 0 0 0 0 {text(-rod)}"/>\n'
        f'      <geom name="ball" type="sphere" size="{text(BALL_RADIUS)}" '
        f'mass="{text(BALL_MASS)}" pos="0 0 {text(-rod)}" contype="0" conaffinity="1" '
        'rgba="0.75 0.25 0.2 1"/>\n'
        "    </body>"
    )
    return scene(
        "struck-chain",
        dt=0.002,
        default='    <joint type="hinge" axis="0 1 0" damping="1e-3"/>\n'
        '    <geom friction="0.4 0.005 0.0001"/>',
        worldbody=chain + "    " + "</body>" * links + "\n" + ball,
    )


def struck_chain(links: int = 10) -> Model:
    """Return a hanging chain of 1 kg and, beside it, a ball of 0.1 kg on a light rod.

    nq = nv = links + 1: the hinges of the chain from the top down, then that of the rod [rad]; all
    turn about y, so the motion is in the plane. The ball hangs 1 mm beside the middle of the last
    link; released from a side it swings against the chain. Links do not meet each other.

    Args:
        links: number of links, each 0.1 m long; together they weigh 1 kg.

    Raises:
        ModelError: if ``links`` is not an integer >= 1.
    """
    return load(struck_chain_xml(links), name="struck-chain")
