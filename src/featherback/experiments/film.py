"""Films of recordings by MuJoCo's renderer.

`python -m featherback.experiments.film motion.npz motion.gif` renders one recording. Experiments
run it as a process of their own: the choice of the GL library is made once in a process, and a
driver that crashes takes only that process with it.
"""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np

from featherback.errors import FeatherbackError
from featherback.experiments.recording import Recording

WIDTH, HEIGHT, FRAMES_PER_SECOND = 400, 300, 25
MAX_FRAMES = 250
MARK = np.array([0.85, 0.15, 0.15, 0.6], np.float32)  # colour of a target
PATIENCE = 300.0  # seconds that a film may take
# what a machine without a display needs for MuJoCo's renderer
INSTALL_GL = (
    "install EGL (Debian, Ubuntu: apt install libegl1 libgl1-mesa-dri), or OSMesa (apt install "
    "libosmesa6) with MUJOCO_GL=osmesa"
)


def make_film(recording: Path) -> tuple[Path | None, str | None]:
    """Render a recording beside itself; return the GIF and None, or None and what is missing."""
    film = recording.with_suffix(".gif")
    if importlib.util.find_spec("PIL") is None:
        reason = "pillow is not installed: pip install 'featherback[plot]'"
    else:
        reason = _render_in_subprocess(recording, film)
    if reason is None:
        return film, None
    return None, f"{film.name} was not made, because {reason}."


def _render_in_subprocess(recording: Path, film: Path) -> str | None:
    """Render in a process of its own; return None, or why it did not work."""
    env = dict(os.environ)
    if sys.platform.startswith("linux") and not env.get("DISPLAY"):
        env.setdefault("MUJOCO_GL", "egl")
    command = [sys.executable, "-m", "featherback.experiments.film", str(recording), str(film)]
    try:
        done = subprocess.run(
            command, env=env, capture_output=True, text=True, timeout=PATIENCE, check=False
        )
    except subprocess.TimeoutExpired:
        return f"the renderer took more than {PATIENCE:.0f} s"
    if done.returncode == 0 and film.exists():
        return None
    lines = [line for line in done.stderr.splitlines() if line.strip()]
    last = lines[-1].strip().rstrip(".") if lines else f"exit status {done.returncode}"
    return f"MuJoCo's renderer failed ({last}); it needs GL: {INSTALL_GL}"


def render(motion: Recording, film: Path) -> Path:
    """Render a motion as a GIF in this process; targets are marked by small spheres."""
    import mujoco
    from PIL import Image

    model = _lit(motion.xml)
    data = mujoco.MjData(model)
    camera = mujoco.MjvCamera()
    camera.lookat[:] = motion.camera[:3]
    camera.distance, camera.azimuth, camera.elevation = motion.camera[3:]
    stride = max(round(1.0 / (FRAMES_PER_SECOND * motion.dt)), -(-motion.steps // MAX_FRAMES), 1)
    rows = [*range(0, motion.steps, stride), motion.steps]
    renderer = mujoco.Renderer(model, HEIGHT, WIDTH)
    renderer.scene.flags[mujoco.mjtRndFlag.mjRND_SHADOW] = 0
    renderer.scene.flags[mujoco.mjtRndFlag.mjRND_REFLECTION] = 0
    images: list[Any] = []
    for row in rows:
        data.qpos[:] = motion.q[row]
        mujoco.mj_forward(model, data)
        renderer.update_scene(data, camera)
        for point in motion.target:
            _mark(renderer.scene, point)
        images.append(Image.fromarray(renderer.render()).quantize(128))
    renderer.close()
    film.parent.mkdir(parents=True, exist_ok=True)
    pause = max(round(1000.0 * stride * motion.dt), 20)
    # the last picture stays for a second
    durations = [pause] * (len(images) - 1) + [1000]
    images[0].save(film, save_all=True, append_images=images[1:], duration=durations, loop=0)
    return film


def _lit(xml: str) -> Any:
    """Return the model with a bright sky, a squared floor and more light; poses are the same."""
    import mujoco

    spec = mujoco.MjSpec.from_string(xml)
    gradient, squares = mujoco.mjtBuiltin.mjBUILTIN_GRADIENT, mujoco.mjtBuiltin.mjBUILTIN_CHECKER
    sky, flat = mujoco.mjtTexture.mjTEXTURE_SKYBOX, mujoco.mjtTexture.mjTEXTURE_2D
    common: dict[str, Any] = {"width": 128, "height": 128}
    spec.add_texture(
        name="film_sky",
        type=sky,
        builtin=gradient,
        rgb1=[0.75, 0.85, 0.95],
        rgb2=[1, 1, 1],
        **common,
    )
    spec.add_texture(
        name="film_floor", type=flat, builtin=squares, rgb1=[0.80] * 3, rgb2=[0.86] * 3, **common
    )
    floor = spec.add_material(name="film_floor", texrepeat=[1, 1], texuniform=True)
    floor.textures[mujoco.mjtTextureRole.mjTEXROLE_RGB] = "film_floor"
    for geom in spec.geoms:
        if geom.type == mujoco.mjtGeom.mjGEOM_PLANE:
            geom.material = "film_floor"
    spec.visual.headlight.ambient = [0.45] * 3
    spec.visual.headlight.diffuse = [0.5] * 3
    return spec.compile()


def _mark(scene: Any, point: Any) -> None:
    """Add a small sphere to a scene."""
    import mujoco

    if scene.ngeom >= scene.maxgeom:
        return
    kind, size = mujoco.mjtGeom.mjGEOM_SPHERE, np.full(3, 0.03)
    mujoco.mjv_initGeom(scene.geoms[scene.ngeom], kind, size, point, np.eye(3).ravel(), MARK)
    scene.ngeom += 1


def main(arguments: list[str]) -> int:
    """Render the recording named first into the GIF named second."""
    if len(arguments) != 2:
        print("usage: python -m featherback.experiments.film RECORDING.npz FILM.gif")
        return 2
    try:
        render(Recording.load(Path(arguments[0])), Path(arguments[1]))
    except FeatherbackError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
