"""What a model tells besides its motion: poses, dynamics, contacts; and the gradients of these."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from featherback._core import CONTACT_NUMBERS
from featherback.errors import ParameterError, ShapeError, WorldError
from featherback.sim.contacts import Contacts
from featherback.sim.inputs import as_real, broadcast_worlds, named_arrays, rows, unpack_theta
from featherback.sim.tangent import Tangents

Real = NDArray[np.floating]
Params = dict[str, ArrayLike]


@dataclass(frozen=True, eq=False)
class OutputGradient:
    """Gradient of a loss on an output. World axes are those of the output.

    Attributes:
        q: real[(worlds,) nq], with respect to the configuration, ambient: it includes the
            normalisation of quaternions, so plain finite differences in q agree with it.
        params: by name, for the parameters that were given, in the shape they had: summed over the
            worlds where all shared them. A parameter that the output does not read has a zero.
        v: real[(worlds,) nv], with respect to the velocity; None where the output has none.
        a: real[(worlds,) nv], with respect to the acceleration; None but for inverse dynamics.
        tau: real[(worlds,) nv], with respect to the force; None but for forward dynamics.
    """

    q: Real
    params: dict[str, Real]
    v: Real | None = None
    a: Real | None = None
    tau: Real | None = None


class Outputs(Tangents):
    """The part of a Simulator that evaluates outputs of a state and their gradients.

    Each `<name>_vjp` takes the inputs of `<name>` and the derivative of a loss with respect to its
    result, in the shape of that result, and returns that with respect to the inputs and to the
    parameters given. It raises where a cotangent or a result is not finite.

    Attributes:
        options: numerical options.
    """

    options: Any

    def mass_matrix(self, q: ArrayLike, *, params: Params | None = None) -> Real:
        """Return M(q), real[(worlds,) nv, nv], armature included."""
        n = self.model.nv
        return self._evaluate("mass_matrix", {"q": q}, (n, n), params)

    def mass_matrix_vjp(
        self, q: ArrayLike, M_bar: ArrayLike, *, params: Params | None = None
    ) -> OutputGradient:
        """Return the gradient of a loss on `mass_matrix`."""
        bars = {"M_bar": (M_bar, (self.model.nv, self.model.nv))}
        return self._evaluate_vjp("mass_matrix", {"q": q}, bars, params)

    def bias(self, q: ArrayLike, v: ArrayLike, *, params: Params | None = None) -> Real:
        """Return c(q, v), real[(worlds,) nv]: gravity, Coriolis and centrifugal terms."""
        return self._evaluate("bias", {"q": q, "v": v}, (self.model.nv,), params)

    def bias_vjp(
        self, q: ArrayLike, v: ArrayLike, c_bar: ArrayLike, *, params: Params | None = None
    ) -> OutputGradient:
        """Return the gradient of a loss on `bias`."""
        bars = {"c_bar": (c_bar, (self.model.nv,))}
        return self._evaluate_vjp("bias", {"q": q, "v": v}, bars, params)

    def forward_dynamics(
        self, q: ArrayLike, v: ArrayLike, tau: ArrayLike, *, params: Params | None = None
    ) -> Real:
        """Return the acceleration a of M a + c = tau, without springs, damping and contact."""
        shape = (self.model.nv,)
        return self._evaluate("forward_dynamics", {"q": q, "v": v, "tau": tau}, shape, params)

    def forward_dynamics_vjp(
        self,
        q: ArrayLike,
        v: ArrayLike,
        tau: ArrayLike,
        a_bar: ArrayLike,
        *,
        params: Params | None = None,
    ) -> OutputGradient:
        """Return the gradient of a loss on `forward_dynamics`."""
        inputs = {"q": q, "v": v, "tau": tau}
        bars = {"a_bar": (a_bar, (self.model.nv,))}
        return self._evaluate_vjp("forward_dynamics", inputs, bars, params)

    def inverse_dynamics(
        self, q: ArrayLike, v: ArrayLike, a: ArrayLike, *, params: Params | None = None
    ) -> Real:
        """Return tau = M a + c, real[(worlds,) nv]."""
        shape = (self.model.nv,)
        return self._evaluate("inverse_dynamics", {"q": q, "v": v, "a": a}, shape, params)

    def inverse_dynamics_vjp(
        self,
        q: ArrayLike,
        v: ArrayLike,
        a: ArrayLike,
        tau_bar: ArrayLike,
        *,
        params: Params | None = None,
    ) -> OutputGradient:
        """Return the gradient of a loss on `inverse_dynamics`."""
        inputs = {"q": q, "v": v, "a": a}
        bars = {"tau_bar": (tau_bar, (self.model.nv,))}
        return self._evaluate_vjp("inverse_dynamics", inputs, bars, params)

    def body_poses(self, q: ArrayLike, *, params: Params | None = None) -> tuple[Real, Real]:
        """Return positions real[(worlds,) nbody, 3] and rotation matrices real[..., 3, 3]."""
        return self._poses("body_poses()", q, params, 0, self.model.nbody)

    def body_poses_vjp(
        self,
        q: ArrayLike,
        p_bar: ArrayLike | None = None,
        R_bar: ArrayLike | None = None,
        *,
        params: Params | None = None,
    ) -> OutputGradient:
        """Return the gradient of a loss on `body_poses`; a cotangent that is None is zero."""
        place = (0, self.model.nbody)
        return self._poses_vjp(
            "body_poses_vjp()", q, {"p_bar": p_bar, "R_bar": R_bar}, place, params
        )

    def site_positions(self, q: ArrayLike, *, params: Params | None = None) -> Real:
        """Return the positions of all sites in the world, real[(worlds,) nsite, 3]."""
        return self._poses("site_positions()", q, params, self.model.nbody, self.model.nsite)[0]

    def site_positions_vjp(
        self, q: ArrayLike, x_bar: ArrayLike, *, params: Params | None = None
    ) -> OutputGradient:
        """Return the gradient of a loss on `site_positions`."""
        place = (self.model.nbody, self.model.nsite)
        return self._poses_vjp("site_positions_vjp()", q, {"x_bar": x_bar}, place, params)

    def site_poses(self, q: ArrayLike, *, params: Params | None = None) -> tuple[Real, Real]:
        """Return positions real[(worlds,) nsite, 3] and rotation matrices real[..., 3, 3]."""
        return self._poses("site_poses()", q, params, self.model.nbody, self.model.nsite)

    def site_poses_vjp(
        self,
        q: ArrayLike,
        p_bar: ArrayLike | None = None,
        R_bar: ArrayLike | None = None,
        *,
        params: Params | None = None,
    ) -> OutputGradient:
        """Return the gradient of a loss on `site_poses`; a cotangent that is None is zero."""
        place = (self.model.nbody, self.model.nsite)
        return self._poses_vjp(
            "site_poses_vjp()", q, {"p_bar": p_bar, "R_bar": R_bar}, place, params
        )

    def center_of_mass(self, q: ArrayLike, *, params: Params | None = None) -> Real:
        """Return the centre of mass of the whole model in the world, real[(worlds,) 3].

        Every body but the world counts, those that are fixed in the world included, as in MuJoCo's
        `subtree_com[0]`.
        """
        self._refuse_massless("center_of_mass()", params)
        return self._evaluate("center_of_mass", {"q": q}, (3,), params)

    def center_of_mass_vjp(
        self, q: ArrayLike, x_bar: ArrayLike, *, params: Params | None = None
    ) -> OutputGradient:
        """Return the gradient of a loss on `center_of_mass`."""
        self._refuse_massless("center_of_mass_vjp()", params)
        return self._evaluate_vjp("center_of_mass", {"q": q}, {"x_bar": (x_bar, (3,))}, params)

    def contacts(
        self,
        q: ArrayLike,
        v: ArrayLike,
        u: ArrayLike | None = None,
        *,
        params: Params | None = None,
    ) -> Contacts:
        """Return the contacts that the step from (q, v, u) sees, with their forces and gaps."""
        where = "contacts()"
        named, batched = self._worlds(where, {"q": q, "v": v, "u": u})
        worlds, capacity = len(named["q"]), self.options.max_contacts
        numbers = np.zeros((worlds, capacity, CONTACT_NUMBERS), self.dtype)
        pair = np.full((worlds, capacity), -1, np.int32)
        count = np.zeros(worlds, np.int32)
        theta = self._theta(where, params, worlds if batched else None)
        overflow = np.zeros(worlds, np.uint8)
        if worlds:
            self._engine.contacts(
                named["q"], named["v"], named.get("u"), theta, numbers, pair, count, overflow
            )
        tables = self.model.structure.tables
        known = np.clip(pair, 0, None)
        one: Any = ... if batched else 0
        geom1, geom2 = (
            np.where(pair < 0, -1, tables[name][known] if len(tables[name]) else -1).astype(
                np.int32
            )
            for name in ("pair_geom1", "pair_geom2")
        )
        return Contacts(
            count=np.asarray(count[one]),
            geom1=geom1[one],
            geom2=geom2[one],
            gap=numbers[one][..., 0],
            point=numbers[one][..., 1:4],
            normal=numbers[one][..., 4:7],
            force=numbers[one][..., 7:],
            overflow=np.asarray(overflow[one] != 0),
        )

    def _worlds(self, where: str, inputs: dict[str, Any]) -> tuple[dict[str, Real], bool]:
        """Check named inputs and bring them to (worlds, n); a control that is None is zero."""
        m = self.model
        lengths = {"q": m.nq, "u": m.nu}
        wanted = {k: x for k, x in inputs.items() if k != "u" or x is not None or m.nu}
        named: dict[str, tuple[Real, bool]] = {}
        for name, value in wanted.items():
            n = lengths.get(name, m.nv)
            given = np.zeros(n) if name == "u" and value is None else value
            named[name] = rows(where, name, as_real(where, name, given, self.dtype), n, m.name)
        return broadcast_worlds(where, named)

    def _evaluate(
        self,
        job: str,
        inputs: dict[str, Any],
        shape: tuple[int, ...],
        params: Params | None,
        where: str | None = None,
    ) -> Real:
        """Run one output over the worlds of q; the third input is the job's own."""
        where = where or f"{job}()"
        named, batched = self._worlds(where, inputs)
        worlds = len(named["q"])
        y = np.empty((worlds, *shape), self.dtype)
        theta = self._theta(where, params, worlds if batched else None)
        own = next((named[k] for k in named if k not in ("q", "v")), None)
        if worlds:
            self._engine.evaluate(job, named["q"], named.get("v"), own, y, theta, {})
        return y if batched else y[0]

    def _evaluate_vjp(
        self,
        job: str,
        inputs: dict[str, Any],
        bars: dict[str, tuple[Any, tuple[int, ...]]],
        params: Params | None,
    ) -> OutputGradient:
        """Check the one cotangent of an output and run its adjoint."""
        where = f"{job}_vjp()"
        point = self._worlds(where, inputs)
        ((name, (value, shape)),) = bars.items()
        y_bar = self._cotangent(where, name, value, shape, point)
        return self._adjoint(where, job, point, y_bar, params)

    def _adjoint(
        self,
        where: str,
        job: str,
        point: tuple[dict[str, Real], bool],
        y_bar: Real,
        params: Params | None,
    ) -> OutputGradient:
        """Run the adjoint of an output over checked arrays."""
        named, batched = point
        worlds = len(named["q"])
        theta = self._theta(where, params, worlds if batched else None)
        given = {name: np.shape(value) for name, value in named_arrays(where, params).items()}
        own = next((k for k in named if k not in ("q", "v")), None)
        bars: dict[str, Real] = {"q": np.zeros((worlds, self.model.nq), self.dtype)}
        if "v" in named:
            bars["v"] = np.zeros((worlds, self.model.nv), self.dtype)
        if own:
            bars["x"] = np.zeros((worlds, self.model.nv), self.dtype)
        if given:
            numbers = self._engine.theta_size + self._engine.derived_size
            bars["theta"] = np.zeros((worlds, numbers), self.dtype)
        if worlds:
            third = named[own] if own else None
            self._engine.evaluate(job, named["q"], named.get("v"), third, y_bar, theta, bars)
        numbers = self._engine.theta_size
        parts = {k: a[:, :numbers] if k == "theta" else a for k, a in bars.items()}
        _refuse_nonfinite(where, parts)
        shown = {k: a if batched else a[0] for k, a in bars.items() if k != "theta"}
        if own:
            shown[own] = shown.pop("x")
        found = unpack_theta(bars["theta"], self._base, given) if given else {}
        return OutputGradient(params=found, **shown)

    def _cotangent(
        self,
        where: str,
        name: str,
        value: Any,
        shape: tuple[int, ...],
        point: tuple[dict[str, Real], bool],
    ) -> Real:
        """Check a cotangent and bring it to (worlds, *shape)."""
        worlds, batched = len(point[0]["q"]), point[1]
        wanted = (worlds, *shape) if batched else shape
        bar = as_real(where, name, value, self.dtype)
        if bar.shape != wanted:
            raise ShapeError(
                f"{where}: {name} has shape {bar.shape}; expected {wanted}, that of the output."
            )
        if not np.all(np.isfinite(bar)):
            raise ParameterError(
                f"{where}: {name} holds a NaN or infinity; give finite numbers, and zero where the "
                "loss does not depend on the output."
            )
        return bar.reshape(worlds, *shape)

    def _poses(
        self, where: str, q: ArrayLike, params: Params | None, first: int, count: int
    ) -> tuple[Real, Real]:
        """Return positions and rotations of bodies or sites."""
        n = self.model.nbody + self.model.nsite
        poses = self._evaluate("poses", {"q": q}, (n, 12), params, where)
        y = poses[..., first : first + count, :]
        return y[..., :3].copy(), y[..., 3:].reshape(*y.shape[:-1], 3, 3).copy()

    def _poses_vjp(
        self,
        where: str,
        q: ArrayLike,
        bars: dict[str, Any],
        place: tuple[int, int],
        params: Params | None,
    ) -> OutputGradient:
        """Run the adjoint of poses for cotangents of `place` = (first, count) among them."""
        point = self._worlds(where, {"q": q})
        first, count = place
        worlds, n = len(point[0]["q"]), self.model.nbody + self.model.nsite
        y_bar = np.zeros((worlds, n, 12), self.dtype)
        for name, value in bars.items():
            if value is None:
                continue
            turn = name == "R_bar"
            shape = (count, 3, 3) if turn else (count, 3)
            bar = self._cotangent(where, name, value, shape, point)
            part = slice(3, 12) if turn else slice(0, 3)
            y_bar[:, first : first + count, part] = bar.reshape(worlds, count, 9 if turn else 3)
        return self._adjoint(where, "poses", point, y_bar, params)

    def _refuse_massless(self, where: str, params: Params | None) -> None:
        """Refuse a centre of mass where a world has no mass."""
        given = named_arrays(where, params).get("body_mass", self._base["body_mass"])
        mass = as_real(where, 'params["body_mass"]', given, np.dtype(np.float64))
        one = mass.shape[-1:] == self._base["body_mass"].shape
        if one and np.any(mass[..., 1:].sum(axis=-1) == 0):
            raise ParameterError(
                f"{where}: no body has a mass, so there is no centre of mass; give one a mass > 0."
            )


def _refuse_nonfinite(where: str, parts: dict[str, Real]) -> None:
    """Refuse a gradient with a NaN or infinity, by world."""
    for array in parts.values():
        bad = ~np.isfinite(array).all(axis=1)
        if np.any(bad):
            raise WorldError(
                f"{where}: the gradient of world {int(np.argmax(bad))} is not finite; look for a "
                "NaN, an infinity or a quaternion of length zero in its inputs."
            )
