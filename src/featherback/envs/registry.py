"""From a name and keywords to a task, its simulator, and an environment."""

from __future__ import annotations

import difflib
import importlib.util
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from featherback._core import option_table
from featherback._optional import import_optional
from featherback.envs.options import check_task
from featherback.envs.task import Task
from featherback.envs.tasks import TASKS
from featherback.errors import ParameterError
from featherback.sim import Simulator

if TYPE_CHECKING:
    from featherback.envs.single import SingleEnv
    from featherback.envs.vector import VectorEnv
    from featherback.envs.worlds import Randomize

NAMESPACE, VERSION = "featherback", "v0"
# what a Simulator takes besides its numerical options
SIMULATOR = ("dt", "dtype", "threads", "params", *(row.name for row in option_table()))


def id_of(name: str) -> str:
    """Return the id of a task in Gymnasium's registry."""
    return f"{NAMESPACE}/{name}-{VERSION}"


def find_task(where: str, name: Any) -> type[Task]:
    """Return the task of a name, "Ant", or of an id, "featherback/Ant-v0"."""
    known = {**TASKS, **{id_of(k): t for k, t in TASKS.items()}}
    if name in known:
        return known[name]
    near = difflib.get_close_matches(str(name), list(TASKS), 1, cutoff=0.4)
    hint = f'did you mean "{near[0]}"?' if near else f"there are: {', '.join(TASKS)}."
    raise ParameterError(f"{where}: there is no task {name!r}; {hint}")


def build(where: str, name: str | Task, options: dict[str, Any]) -> tuple[Task, Simulator]:
    """Return a task and its simulator, from keywords of either."""
    kind = type(name) if isinstance(name, Task) else find_task(where, name)
    own = {key: options[key] for key in options if key in kind.option_names()}
    rest = {key: value for key, value in options.items() if key not in own}
    for key in rest:
        if key not in SIMULATOR:
            names = [*kind.option_names(), *SIMULATOR]
            near = difflib.get_close_matches(key, names, 1)
            hint = f'did you mean "{near[0]}"?' if near else f"it has: {', '.join(names)}."
            raise ParameterError(f"{where}: {kind.__name__} has no option {key!r}; {hint}")
    task = replace(name, **own) if isinstance(name, Task) else kind(**own)
    check_task(where, task)
    # None stands for the default of the task
    return task, task.simulator(**{k: v for k, v in rest.items() if v is not None})


def make(
    name: str | Task,
    worlds: int = 1,
    *,
    dtype: Any = "float64",
    threads: int = 1,
    contact: str | None = None,
    autoreset_mode: Any = "next_step",
    max_episode_steps: int | None = None,
    randomize: Randomize | None = None,
    render_mode: str | None = None,
    **options: Any,
) -> VectorEnv:
    """Return a batch of worlds of one task as a `gymnasium.vector.VectorEnv`.

    Args:
        name: a task by its name, "Ant", or its id, "featherback/Ant-v0"; or a task of one's own.
        worlds: how many.
        dtype: "float64" or "float32", of states and observations.
        threads: worker threads.
        contact: "hard" or "mujoco". None: the task's own, "mujoco" for the tasks of Gymnasium,
            since a policy learnt under that law acts in MuJoCo as it does here.
        autoreset_mode: "next_step", "same_step" or "disabled", or Gymnasium's AutoresetMode.
        max_episode_steps: length of an episode; the task's own when None.
        randomize: parameters that every world draws anew at each reset, by name: a pair (low,
            high) of factors of the parameter's own value, or a function (generator, value) ->
            value.
        render_mode: "rgb_array" or None.
        options: options of the task (its fields) and of `featherback.Simulator`.

    Raises:
        FeatherbackError: where gymnasium is not installed.
        ParameterError: where there is no such task or option.
    """
    where = "envs.make()"
    import_optional(where, "gymnasium", "rl")
    from featherback.envs.vector import VectorEnv

    given = {**options, "dtype": dtype, "threads": threads, "contact": contact}
    task, sim = build(where, name, given)
    return VectorEnv(
        task,
        sim,
        worlds,
        autoreset_mode=autoreset_mode,
        max_episode_steps=max_episode_steps,
        randomize=randomize,
        render_mode=render_mode,
    )


def make_vector(task_name: str | Task, num_envs: int = 1, **options: Any) -> VectorEnv:
    """Return what `gymnasium.make_vec` asks for."""
    return make(task_name, num_envs, **options)


def make_single(
    task_name: str | Task,
    *,
    randomize: Randomize | None = None,
    render_mode: str | None = None,
    **options: Any,
) -> SingleEnv:
    """Return what `gymnasium.make` asks for: one world."""
    import_optional("gymnasium.make()", "gymnasium", "rl")
    from featherback.envs.single import SingleEnv

    task, sim = build("gymnasium.make()", task_name, options)
    return SingleEnv(task, sim, randomize=randomize, render_mode=render_mode)


def register(task: Task | type[Task], name: str) -> None:
    """Give a task of one's own an id in Gymnasium's registry, such as "mine/Walk-v0".

    `gymnasium.make` and `gymnasium.make_vec` then know it.
    """
    gymnasium = import_optional("envs.register()", "gymnasium", "rl")
    made = task if isinstance(task, Task) else task()
    _register(gymnasium, name, made, made.max_episode_steps)


def register_all() -> None:
    """Register the library's own tasks where gymnasium is installed."""
    if importlib.util.find_spec("gymnasium") is None:
        return
    import gymnasium

    for name, task in TASKS.items():
        _register(gymnasium, id_of(name), name, task().max_episode_steps)


def _register(gymnasium: Any, env_id: str, task: str | Task, steps: int) -> None:
    """Register one id, unless it is there already."""
    if env_id in gymnasium.registry:
        return
    gymnasium.register(
        id=env_id,
        entry_point="featherback.envs.registry:make_single",
        vector_entry_point="featherback.envs.registry:make_vector",
        max_episode_steps=steps,
        kwargs={"task_name": task},
    )
