"""Options of the file that change the compiled model, applied to its arrays."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import mujoco

# flag -> arrays that are zero when it is switched off
_ZERO_WHEN_OFF: dict[str, tuple[str, ...]] = {
    "CONSTRAINT": (
        *("jnt_limited", "dof_frictionloss", "eq_active0", "tendon_limited"),
        "tendon_frictionloss",
    ),
    "EQUALITY": ("eq_active0",),
    "FRICTIONLOSS": ("dof_frictionloss", "tendon_frictionloss"),
    "LIMIT": ("jnt_limited", "tendon_limited"),
    "SPRING": ("jnt_stiffness", "jnt_stiffnesspoly", "tendon_stiffness", "tendon_stiffnesspoly"),
    "DAMPER": ("dof_damping", "dof_dampingpoly", "tendon_damping", "tendon_dampingpoly"),
    "CLAMPCTRL": ("actuator_ctrllimited",),
    "ACTUATION": ("actuator_gainprm", "actuator_biasprm", "actuator_actlimited"),
}


def apply_flags(model: mujoco.MjModel) -> None:
    """Write disabled flags into the arrays, so that only the arrays need to be read."""
    import mujoco

    off = model.opt.disableflags
    for name, fields in _ZERO_WHEN_OFF.items():
        if off & int(getattr(mujoco.mjtDisableBit, f"mjDSBL_{name}")):
            for field in fields:
                if hasattr(model, field):
                    getattr(model, field)[:] = 0
    # MuJoCo leaves all passive forces out where it has neither springs nor dampers
    passive = int(mujoco.mjtDisableBit.mjDSBL_SPRING) | int(mujoco.mjtDisableBit.mjDSBL_DAMPER)
    if off & passive == passive:
        model.body_gravcomp[:] = 0
        model.opt.density = model.opt.viscosity = 0
    if off & int(mujoco.mjtDisableBit.mjDSBL_GRAVITY):
        model.opt.gravity[:] = 0


def apply_override(model: mujoco.MjModel) -> None:
    """Write the contact override into all geoms and pairs; margins of two geoms are added up."""
    option = model.opt
    model.geom_margin[:] = 0.5 * option.o_margin
    model.geom_solref[:], model.geom_solimp[:] = option.o_solref, option.o_solimp
    model.geom_friction[:] = option.o_friction[[0, 2, 3]]
    model.pair_margin[:] = option.o_margin
    model.pair_solref[:], model.pair_solimp[:] = option.o_solref, option.o_solimp
    model.pair_friction[:] = option.o_friction
    model.pair_solreffriction[:] = 0


def with_round_friction(model: mujoco.MjModel) -> mujoco.MjModel:
    """Return a copy whose contacts have the same friction in all directions."""
    plain = copy.deepcopy(model)
    plain.pair_friction[:, 1] = plain.pair_friction[:, 0]
    plain.pair_friction[:, 4] = plain.pair_friction[:, 3]
    return plain


def site_equalities_to_bodies(model: mujoco.MjModel) -> None:
    """Rewrite connect and weld constraints between sites as the same between bodies.

    Anchors are the site positions in their bodies; the relative rotation of a weld is
    `quat1 conj(quat2)` of the two sites. The model's own behaviour stays the same.
    """
    import mujoco

    for number in range(model.neq):
        if model.eq_objtype[number] != int(mujoco.mjtObj.mjOBJ_SITE):
            continue
        first, second = int(model.eq_obj1id[number]), int(model.eq_obj2id[number])
        data = model.eq_data[number]
        if model.eq_type[number] == int(mujoco.mjtEq.mjEQ_CONNECT):
            data[0:3], data[3:6] = model.site_pos[first], model.site_pos[second]
        elif model.eq_type[number] == int(mujoco.mjtEq.mjEQ_WELD):
            # MuJoCo keeps the anchor in the second body first
            data[0:3], data[3:6] = model.site_pos[second], model.site_pos[first]
            inverse, relative = np.zeros(4), np.zeros(4)
            mujoco.mju_negQuat(inverse, model.site_quat[second])
            mujoco.mju_mulQuat(relative, model.site_quat[first], inverse)
            data[6:10] = relative
        else:
            continue
        model.eq_obj1id[number] = model.site_bodyid[first]
        model.eq_obj2id[number] = model.site_bodyid[second]
        model.eq_objtype[number] = int(mujoco.mjtObj.mjOBJ_BODY)
