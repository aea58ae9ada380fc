"""Small helpers that the model generators share: number text, scene frame, argument checks."""

from collections.abc import Iterable

from featherback.errors import ModelError

FLOOR = '<geom name="floor" type="plane" size="0 0 0.5" rgba="0.82 0.83 0.85 1"/>'

# this floor has contype 1 and shapes answer with conaffinity 1, so shapes never meet each other
GROUND = FLOOR.replace(" type=", ' contype="1" conaffinity="0" type=')


def text(values: float | Iterable[float]) -> str:
    """Return one number, or several separated by spaces, so that they read back exactly."""
    if isinstance(values, int | float):
        return repr(float(values))
    return " ".join(repr(float(value)) for value in values)


def scene(
    name: str,
    *,
    worldbody: str,
    dt: float,
    default: str = "",
    actuator: str = "",
    keyframe: str = "",
) -> str:
    """Return a complete MJCF file in radians with gravity 9.81 m/s^2 along -z.

    Args:
        name: model name.
        worldbody: elements inside ``<worldbody>``.
        dt: suggested time step [s].
        default: elements inside ``<default>``.
        actuator: elements inside ``<actuator>``.
        keyframe: elements inside ``<keyframe>``.
    """
    sections = (
        ("default", default),
        ("worldbody", worldbody),
        ("actuator", actuator),
        ("keyframe", keyframe),
    )
    body = "\n".join(f"  <{tag}>\n{inner}\n  </{tag}>" for tag, inner in sections if inner)
    return (
        f'<mujoco model="{name}">\n'
        f'  <compiler angle="radian" autolimits="true"/>\n'
        f'  <option timestep="{text(dt)}" gravity="0 0 -9.81"/>\n'
        f"{body}\n"
        f"</mujoco>\n"
    )


def check_count(function: str, argument: str, value: int) -> None:
    """Raise ModelError unless ``value`` is an integer >= 1."""
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise ModelError(
            f"models.{function}: {argument} is {value!r}; it must be an integer >= 1: "
            f"pass {argument}=1 or more."
        )


def check_positive(function: str, argument: str, value: float, unit: str) -> None:
    """Raise ModelError unless ``value`` is a finite number above zero."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0.0 < value < 1e10:
        raise ModelError(
            f"models.{function}: {argument} is {value!r}; it must be a number above 0 and below "
            f"1e10 {unit}: pass such a number."
        )
