"""The tasks that come with the library, by name."""

from featherback.envs.task import Task
from featherback.envs.tasks.carts import CartPole, InvertedDoublePendulum, InvertedPendulum
from featherback.envs.tasks.humanoids import Humanoid, HumanoidStandup
from featherback.envs.tasks.pendulum import NLinkPendulum
from featherback.envs.tasks.quadruped import LaikagoTrot
from featherback.envs.tasks.reacher import Reacher
from featherback.envs.tasks.runners import Ant, HalfCheetah, Hopper, Walker2d

TASKS: dict[str, type[Task]] = {
    task.__name__: task
    for task in (
        Ant,
        HalfCheetah,
        Hopper,
        Walker2d,
        Humanoid,
        HumanoidStandup,
        InvertedPendulum,
        InvertedDoublePendulum,
        Reacher,
        NLinkPendulum,
        CartPole,
        LaikagoTrot,
    )
}

__all__ = ["TASKS", *TASKS]  # pyright: ignore[reportUnsupportedDunderAll]
