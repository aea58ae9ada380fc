"""A policy as a file: saved by every learner, loaded and run without one."""

from __future__ import annotations

import io
import pickle
import zipfile
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray

from featherback._files import write_bytes
from featherback.errors import FeatherbackError, ShapeError
from featherback.learn.networks import PolicyNetwork, PolicyShape

FORMAT = "featherback policy 1"
# what torch raises for bytes that are none of its files, or a damaged one
DAMAGED = (RuntimeError, ValueError, KeyError, EOFError, pickle.UnpicklingError, zipfile.BadZipFile)


def read_torch(path: Path) -> Any:
    """Read a file of tensors and plain values; no code in it is run."""
    try:
        content = path.read_bytes()
    except OSError as error:
        raise FeatherbackError(
            f"{path}: cannot be read ({error.strerror}); check the name."
        ) from None
    try:
        return torch.load(io.BytesIO(content), weights_only=True)
    except DAMAGED:
        raise FeatherbackError(
            f"{path}: not a complete file of a learner; it was truncated or is another kind of "
            "file: name another one."
        ) from None


def write_torch(path: Path, content: Any) -> Path:
    """Write tensors and plain values completely or not at all."""
    buffer = io.BytesIO()
    torch.save(content, buffer)
    return write_bytes(path, buffer.getvalue())


class Policy:
    """A trained policy: observations in, actions without noise out.

    Attributes:
        network: the network, with the statistics that normalise its observations.
        about: who trained it and where: `learner`, `env`, `contact`, `seed`, `steps`.
    """

    def __init__(self, network: PolicyNetwork, about: dict[str, Any]) -> None:
        """Keep the network and where it comes from."""
        self.network = network
        self.about = about

    def __call__(self, observation: ArrayLike) -> NDArray[np.float32]:
        """Return the action for one observation, or for rows of observations."""
        x = torch.as_tensor(np.asarray(observation, np.float32))
        size = self.network.shape.observations
        if x.ndim not in (1, 2) or x.shape[-1] != size:
            raise ShapeError(
                f"policy: the observation has shape {tuple(x.shape)}; expected ({size},) or "
                f"(n, {size}) for a policy of {self.about.get('env')}."
            )
        with torch.no_grad():
            return self.network.scale(self.network.best(x)).numpy()

    def save(self, path: Path) -> Path:
        """Write the policy."""
        content = {
            "format": FORMAT,
            "shape": {**asdict(self.network.shape), "hidden": list(self.network.shape.hidden)},
            "state": self.network.state_dict(),
            "about": self.about,
        }
        return write_torch(path, content)


def load_policy(path: str | Path) -> Policy:
    """Read a policy that a learner saved."""
    content = read_torch(Path(path))
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        raise FeatherbackError(
            f"{path}: not a policy; learners save it as policy.pt in their folder: name that file."
        )
    state: dict[str, Any] = content["state"]
    shape: dict[str, Any] = content["shape"]
    shape["hidden"] = tuple(shape["hidden"])
    network = PolicyNetwork(PolicyShape(**shape), state["low"], state["high"])
    network.load_state_dict(state)
    return Policy(network.eval(), content["about"])
