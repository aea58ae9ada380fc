"""Our own robots, as functions that write MJCF and load it; ``*_xml`` return the text itself."""

from featherback.models.laikago import laikago, laikago_xml
from featherback.models.quadruped import quadruped, quadruped_xml
from featherback.models.reaching import reacher, reacher_xml
from featherback.models.simple import (
    ball,
    ball_xml,
    box,
    box_xml,
    cartpole,
    cartpole_xml,
    chain,
    chain_xml,
    pendulum,
    pendulum_xml,
)
from featherback.models.throwing import golfer, golfer_xml, thrower, thrower_xml

__all__ = [
    "ball",
    "ball_xml",
    "box",
    "box_xml",
    "cartpole",
    "cartpole_xml",
    "chain",
    "chain_xml",
    "golfer",
    "golfer_xml",
    "laikago",
    "laikago_xml",
    "pendulum",
    "pendulum_xml",
    "quadruped",
    "quadruped_xml",
    "reacher",
    "reacher_xml",
    "thrower",
    "thrower_xml",
]
