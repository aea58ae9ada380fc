"""The simulator as a layer of PyTorch: steps and rollouts of tensors, with gradients.

Write `import featherback.torch as fbt`.
"""

from featherback.torch.closed_loop import ClosedLoop, closed_loop
from featherback.torch.layer import SimulatorLayer
from featherback.torch.rollout import Trajectory, rollout, step

__all__ = ["ClosedLoop", "SimulatorLayer", "Trajectory", "closed_loop", "rollout", "step"]
