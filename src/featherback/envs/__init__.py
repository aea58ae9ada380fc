"""Environments for reinforcement learning: tasks over batches of worlds.

`featherback.envs.make` returns a Gymnasium vector environment; `featherback.envs.torch.make` and
`featherback.envs.jax.make` environments with gradients. Importing this package registers the ids
`featherback/Ant-v0` and so on with Gymnasium where it is installed.
"""

from featherback.envs.registry import make, register, register_all
from featherback.envs.state import State
from featherback.envs.task import Task
from featherback.envs.tasks import TASKS

__all__ = ["TASKS", "State", "Task", "make", "register"]

register_all()
