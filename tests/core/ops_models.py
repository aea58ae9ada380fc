"""The models of the op table, and their ops under a simulator's options."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, cached_property
from typing import Any

import numpy as np

import featherback as fb
from featherback import _oracle
from tests.core.models import (
    activation_model,
    crowd_model,
    hits_model,
    laikago,
    limits_model,
    loop_model,
    mesh_model,
    pile_model,
    tree_model,
)
from tests.core.ops_tendons import heavy_model, tendons_model, wraps_inside_model, wraps_model
from tests.core.references import all_parameters


@cache
def pure() -> Any:
    """Return the ops that need no model."""
    return _oracle.pure_ops()


class Case:
    """A model under a simulator's options, with its ops."""

    def __init__(self, model: Callable[[], fb.Model], **options: Any) -> None:
        """Keep how the model is loaded, which happens at its first use."""
        self._load = model
        self._options = options

    @cached_property
    def model(self) -> fb.Model:
        """The model."""
        return self._load()

    @property
    def options(self) -> dict[str, Any]:
        """The simulator's options that are not the default."""
        return self._options

    @property
    def soft(self) -> bool:
        """Whether the contact law is MuJoCo's."""
        return self._options.get("contact") == "mujoco"

    @cached_property
    def sim(self) -> fb.Simulator:
        """The public simulator."""
        tight = {} if self.soft else {"tolerance": 1e-13}
        return fb.Simulator(self.model, **tight, **self._options)

    @cached_property
    def params(self) -> dict[str, np.ndarray]:
        """All parameters in the core's order, those of the other contact law too."""
        return all_parameters(self.sim)

    @cached_property
    def ops(self) -> Any:
        """The ops of the model under the simulator's parameters and options."""
        return _oracle.model_ops(*self.arrays)

    @cached_property
    def arrays(self) -> tuple[Any, ...]:
        """The arrays that a model's ops are made from."""
        structure, sim = self.model.structure, self.sim
        theta = np.concatenate([a.reshape(-1) for a in self.params.values()])
        limits = {name: getattr(sim.options, name) for name in ("max_contacts", "max_sweeps")}
        vert = structure.vert.reshape(-1)
        return *structure.packed(**limits), theta, vert, sim.options


# restitution and compliance of the geoms of the tree
BOUNCE = {"geom_restitution": np.full(8, 0.4), "contact_compliance": np.full(8, 1e-5)}

tree = Case(tree_model)
tree_box = Case(tree_model, friction="box")
tree_bounce = Case(tree_model, params=BOUNCE)
# of some draws the solver is done, of others it is not
tree_mixed = Case(tree_model, solver="pgs", max_sweeps=60)
tree_unfinished = Case(tree_model, solver="pgs", max_sweeps=3)
loop = Case(loop_model)
loop_unfinished = Case(loop_model, solver="pgs", max_sweeps=3, friction="box")
limits = Case(limits_model)
limits_unfinished = Case(limits_model, solver="pgs", max_sweeps=4)
pile = Case(pile_model)
pile_bounce = Case(pile_model, params={"geom_restitution": np.full(9, 0.5)})
hits = Case(hits_model, params={"geom_restitution": np.array([0.3, 0.6, 0.0, 0.5, 0.0])})
hits_unfinished = Case(
    hits_model, params={"geom_restitution": np.full(5, 0.5)}, solver="pgs", max_sweeps=4
)
pile_unfinished = Case(pile_model, solver="pgs", max_sweeps=5)
tree_smooth = Case(tree_model, smoothing=0.02)
tree_smooth_box = Case(tree_model, smoothing=0.02, friction="box")
loop_smooth = Case(loop_model, smoothing=0.01)
limits_smooth = Case(limits_model, smoothing=0.05)
pile_smooth = Case(pile_model, smoothing=0.02)
hits_smooth = Case(
    hits_model, params={"geom_restitution": np.array([0.3, 0.6, 0.0, 0.5, 0.0])}, smoothing=0.02
)
crowd_smooth = Case(crowd_model, smoothing=0.02)
tree_interior = Case(tree_model, solver="interior")
mesh = Case(mesh_model)
activation = Case(activation_model)
robot = Case(laikago)
tendons = Case(tendons_model)
heavy = Case(heavy_model)
heavy_bounce = Case(heavy_model, params={"geom_restitution": np.full(7, 0.5)})
heavy_smooth = Case(heavy_model, smoothing=0.02)
heavy_unfinished = Case(heavy_model, solver="pgs", max_sweeps=4)
tendons_smooth = Case(tendons_model, smoothing=0.02)
tendons_unfinished = Case(tendons_model, solver="pgs", max_sweeps=4)
wraps = Case(wraps_model)
wraps_inside = Case(wraps_inside_model)
crowd = Case(crowd_model)
crowd_box = Case(crowd_model, friction="box")
