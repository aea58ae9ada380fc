"""The arrays the engine runs on: links, trees and integer tables, and the flat parameter vector.

A link is one joint's moving frame; link 0 is the world. A body with k joints owns k links, of which
the last carries it; a body without joints rides on its parent's link. The names of tables and
parameters are the core's (`core/model/layout.hpp`), which says what each means.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from featherback._core import (
    OptionRow,
    TypeRow,
    activation_types,
    bias_types,
    compensation_types,
    equality_types,
    friction_rules,
    gain_types,
    option_table,
    output_table,
    pair_table,
    parameter_names,
    size_names,
    table_names,
    transmission_types,
)
from featherback._typing import Array, Ints
from featherback.model.compiler import muted
from featherback.model.hfields import field_numbers, field_words
from featherback.model.hulls import hull_triangles, hull_vertices, hull_words
from featherback.model.joints import FREE, JOINTS, SINGLE
from featherback.model.pairs import SHAPES
from featherback.model.tendons import add_tendons

if TYPE_CHECKING:
    import mujoco

    from featherback.model.model import Parsed


# [shape, shape] -> kind of pair, and contact points it can give
PAIR_KIND, PAIR_SLOTS = np.zeros((2, 16, 16), np.int32)
for _, _kind, _a, _b, _slots in pair_table():
    PAIR_KIND[_a, _b], PAIR_SLOTS[_a, _b] = _kind, _slots
OUTPUTS = {row.name: row for row in output_table()}
EQUALITIES = {row.name: row.number for row in equality_types()}
FRICTION_RULES = {row.name: row.number for row in friction_rules()}
ACTIVATIONS = {row.name: row.number for row in activation_types()}
GAINS = {row.name: row.number for row in gain_types()}
BIASES = {row.name: row.number for row in bias_types()}
TRANSMISSIONS = {row.name: row.number for row in transmission_types()}
COMPENSATIONS = {row.name: row.number for row in compensation_types()}


@dataclass(frozen=True, eq=False)
class Structure:
    """What an engine is built from; its tables and parameters are read-only.

    Attributes:
        sizes: counts by name.
        tables: int32 tables by name.
        params: float64 parameters by name, in MuJoCo's shapes.
        vert: float64[nvert, 3]; for each mesh the rotation of its frame in the file's axes, its
            position there, its scale, and the vertices of its hull in that frame; for each
            height field its sizes and heights (`hfields.py`).
        touches: contact points that all pairs together can give.
        law: options of MuJoCo's contact law as the file has them, by name.
    """

    sizes: dict[str, int]
    tables: Mapping[str, Ints]
    params: Mapping[str, Array]
    vert: Array
    touches: int
    law: dict[str, Any]

    def __post_init__(self) -> None:
        """Make tables and parameters read-only."""
        for name in ("tables", "params"):
            object.__setattr__(self, name, MappingProxyType(dict(getattr(self, name))))
        for array in (*self.tables.values(), *self.params.values(), self.vert):
            array.setflags(write=False)

    def __getstate__(self) -> dict[str, Any]:
        """Travel as plain dictionaries."""
        return {**vars(self), "tables": dict(self.tables), "params": dict(self.params)}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Take what was pickled, read-only as it was."""
        self.__dict__.update(state)
        self.__post_init__()

    def packed(self, **limits: int) -> tuple[Ints, Ints]:
        """Return int32 sizes, some replaced by `limits`, and tables, in the core's order."""
        sizes = {**self.sizes, **limits}
        tables = [self.tables[name] for name in table_names()]
        return np.array([sizes[name] for name in size_names()], np.int32), np.concatenate(tables)

    def pair_geoms(self, pair: Ints) -> tuple[Ints, Ints]:
        """Return both geoms of pairs by the core's numbers; -1 where there is none."""
        npair, ngeom = self.sizes["npair"], max(self.sizes["ngeom"], 1)
        by_rule = divmod(np.maximum(pair - npair, 0), ngeom)
        tables = self.tables["pair_geom1"], self.tables["pair_geom2"]
        found: list[Ints] = []
        for table, ruled in zip(tables, by_rule, strict=True):
            listed = table[np.clip(pair, 0, npair - 1)] if npair else ruled
            known = np.where(pair < npair, listed, ruled)
            found.append(np.where(pair < 0, -1, known).astype(np.int32))
        return found[0], found[1]

    def output_shape(self, name: str) -> tuple[int, ...]:
        """Return the shape of an output of the core for one world."""
        sizes = np.array([self.sizes[size] for size in size_names()], np.int32)
        return tuple(OUTPUTS[name].shape(sizes))


def build_structure(parsed: Parsed) -> Structure:
    """Build the engine's arrays from a parsed model."""
    m = parsed.mujoco
    tables: dict[str, Ints] = {}
    _add_links(m, tables)
    _add_trees(m, tables)
    vert = _add_geoms(m, tables)
    touches = _add_pairs(parsed, tables)
    _add_equalities(parsed, tables)
    _add_actuators(parsed, tables)
    tendon_sizes = add_tendons(parsed, tables)
    _add_fluid(m, tables)
    tables["jnt_gravcomp"] = _compensations(m, tables["jnt_forcelimited"])
    options = {row.name: row for row in option_table()}
    limited = np.flatnonzero(m.jnt_limited & (m.jnt_type != FREE))
    tables["limit_jnt"] = limited.astype(np.int32)
    tables["friction_dof"] = np.flatnonzero(m.dof_frictionloss > 0).astype(np.int32)
    sizes = {
        "nq": m.nq,
        "na": m.na,
        "nv": m.nv,
        "nu": m.nu,
        "nbody": m.nbody,
        "njnt": m.njnt,
        "nlink": len(tables["link_parent"]),
        "ntree": len(tables["tree_link"]),
        "ngeom": m.ngeom,
        "nmesh": m.nmesh,
        "nsite": m.nsite,
        "npair": len(parsed.pairs),
        "nexplicit": m.npair,
        "neq": m.neq,
        "nlimit": len(limited),
        "nfriction": len(tables["friction_dof"]),
        "nvert": len(vert),
        "nhull": len(tables["hull"]),
        "max_contacts": _room(options["max_contacts"], touches, len(tables["link_parent"]) - 1),
        "max_sweeps": options["max_sweeps"].default,
        **tendon_sizes,
        "ngravcomp": m.nbody if is_carried(m) else 0,
        "nfluid": len(tables["fluid_body"]),
        "nmedium": int(is_wet(m)),
        "nwet": m.ngeom if is_wet(m) else 0,
        "nreach": np.count_nonzero(tables["act_site"] >= 0),
        "nadhesion": np.count_nonzero(tables["act_body"] >= 0),
        "nheavy": np.count_nonzero(tables["tendon_heavy"]),
        "nmuscle": np.count_nonzero(tables["act_muscle"] >= 0),
        "nhfield": m.nhfield,
        "nruled": len(tables["geom_condim"]),
        "nswept": len(tables["swept_geom"]),
        "nmoving": np.count_nonzero(tables["geom_link"][tables["swept_geom"]]),
        "nplane": len(tables["swept_plane"]),
        "nallowed": len(tables["pair_allowed"]),
    }
    ready = {name: np.ascontiguousarray(tables[name], np.int32) for name in table_names()}
    params = _params(parsed, ready["body_link"])
    law = law_options(m)
    return Structure({k: int(v) for k, v in sizes.items()}, ready, params, vert, touches, law)


# contacts that a link has room for where there are many of them
LINK_CONTACTS = 16


def _room(option: OptionRow, touches: int, links: int) -> int:
    """Return how many contacts a world can hold by default."""
    return int(min(touches, max(option.default, LINK_CONTACTS * links), option.most))


def law_options(m: mujoco.MjModel) -> dict[str, Any]:
    """Return the options of MuJoCo's contact law as a compiled model has them."""
    import mujoco

    off = m.opt.disableflags
    # MuJoCo's own words, which the core's are
    return {
        "cone": mujoco.mjtCone(m.opt.cone).name.removeprefix("mjCONE_").lower(),
        "impratio": float(m.opt.impratio),
        "integrator": mujoco.mjtIntegrator(m.opt.integrator).name.removeprefix("mjINT_").lower(),
        "refsafe": int(not off & int(mujoco.mjtDisableBit.mjDSBL_REFSAFE)),
        "eulerdamp": int(not off & int(mujoco.mjtDisableBit.mjDSBL_EULERDAMP)),
    }


def _add_links(m: mujoco.MjModel, tables: dict[str, Ints]) -> None:
    """Number the links and note which body, joint and dof belongs to which."""
    parent, kind, qadr, dof, joint = [0], [0], [0], [0], [0]
    last_dof = [-1]
    body_link = np.zeros(m.nbody, np.int32)
    jnt_link = np.zeros(m.njnt, np.int32)
    for b in range(1, m.nbody):
        link = int(body_link[m.body_parentid[b]])
        for j in range(m.body_jntadr[b], m.body_jntadr[b] + m.body_jntnum[b]):
            parent.append(link)
            kind.append(int(m.jnt_type[j]))
            qadr.append(int(m.jnt_qposadr[j]))
            dof.append(int(m.jnt_dofadr[j]))
            joint.append(j)
            last_dof.append(int(m.jnt_dofadr[j]) + JOINTS[int(m.jnt_type[j])].nv - 1)
            link = len(parent) - 1
            jnt_link[j] = link
        body_link[b] = link
    ndof = [0] + [JOINTS[k].nv for k in kind[1:]]
    dof_parent = np.arange(-1, m.nv - 1, dtype=np.int32)
    for link in range(1, len(parent)):
        dof_parent[dof[link]] = last_dof[parent[link]]
    massive = np.zeros(len(parent), np.int32)
    massive[body_link[1:]] = 1
    single = np.isin(m.jnt_type, SINGLE)
    tables.update(
        body_parent=m.body_parentid,
        body_link=body_link,
        body_jntadr=m.body_jntadr,
        body_jntnum=m.body_jntnum,
        jnt_type=m.jnt_type,
        jnt_qadr=m.jnt_qposadr,
        jnt_dofadr=m.jnt_dofadr,
        jnt_link=jnt_link,
        jnt_forcelimited=m.jnt_actfrclimited.astype(np.int32) * single,
        link_parent=np.array(parent),
        link_type=np.array(kind),
        link_qadr=np.array(qadr),
        link_dof=np.array(dof),
        link_ndof=np.array(ndof),
        link_jnt=np.array(joint),
        link_massive=massive,
        link_lastdof=np.array(last_dof),
        dof_parent=dof_parent,
        dof_link=jnt_link[m.dof_jntid] if m.nv else np.zeros(0, np.int32),
        dof_jnt=m.dof_jntid,
        site_body=m.site_bodyid,
        site_link=body_link[m.site_bodyid] if m.nsite else np.zeros(0, np.int32),
    )


def _add_trees(m: mujoco.MjModel, tables: dict[str, Ints]) -> None:
    """Group links into trees: one root on the world and everything below it."""
    parent = tables["link_parent"]
    tree = np.zeros(len(parent), np.int32)
    roots: list[int] = []
    for link in range(1, len(parent)):
        if parent[link] == 0:
            tree[link] = len(roots)
            roots.append(link)
        else:
            tree[link] = tree[parent[link]]
    dof_tree = tree[tables["dof_link"]] if m.nv else np.zeros(0, np.int32)
    tables["link_tree"] = tree
    tables["dof_tree"] = dof_tree
    tables["tree_link"] = np.array(roots, np.int32)
    tables["tree_ndof"] = np.bincount(dof_tree, minlength=len(roots)).astype(np.int32)
    tables["tree_dof"] = tables["link_dof"][roots] if roots else np.zeros(0, np.int32)


def _add_geoms(m: mujoco.MjModel, tables: dict[str, Ints]) -> Array:
    """Note what each geom is and collect the hulls of meshes and the grids of height fields."""
    start = np.zeros(m.ngeom, np.int32)
    count = np.zeros(m.ngeom, np.int32)
    assets = np.full(m.ngeom, -1, np.int32)
    first_word = np.zeros(m.ngeom, np.int32)
    known: dict[tuple[int, int], tuple[int, int, int]] = {}
    vert: list[Array] = []
    words: list[Ints] = []
    for g in range(m.ngeom):
        kind, asset = int(m.geom_type[g]), int(m.geom_dataid[g])
        if kind not in (SHAPES["mesh"], SHAPES["hfield"]) or asset < 0:
            continue
        if (kind, asset) not in known:
            numbers, points, topology = _asset_arrays(m, kind, asset)
            known[kind, asset] = (sum(map(len, vert)), points, sum(map(len, words)))
            vert.append(numbers)
            words.append(topology)
        start[g], count[g], first_word[g] = known[kind, asset]
        assets[g] = asset
    link = tables["body_link"]
    tables.update(
        geom_type=m.geom_type,
        geom_body=m.geom_bodyid,
        geom_link=link[m.geom_bodyid] if m.ngeom else np.zeros(0, np.int32),
        geom_vert=start,
        geom_nvert=count,
        geom_mesh=assets,
        geom_hull=first_word,
        hull=np.concatenate(words) if words else np.zeros(0, np.int32),
    )
    return np.concatenate(vert) if vert else np.zeros((0, 3))


def _asset_arrays(m: mujoco.MjModel, kind: int, asset: int) -> tuple[Array, int, Ints]:
    """Return the numbers of a mesh or height field, how many points it has, and its words."""
    if kind == SHAPES["hfield"]:
        words = field_words(m, asset)
        return field_numbers(m, asset), int(words.prod()), words
    points = hull_vertices(m, asset)
    numbers = np.concatenate([mesh_frame(m, asset), points])
    return numbers, len(points), hull_words(points, hull_triangles(m, asset))


def mesh_frame(m: mujoco.MjModel, mesh: int) -> Array:
    """Return float64[5, 3]: rotation of a mesh's frame in the file's axes, its position, its scale.

    The compiler moves a mesh to its centre of mass and principal axes: what stands in the file,
    scaled, is at R x + p for a vertex x.
    """
    import mujoco

    rotation = np.zeros(9)
    mujoco.mju_quat2Mat(rotation, m.mesh_quat[mesh])
    return np.vstack([rotation.reshape(3, 3), m.mesh_pos[mesh], m.mesh_scale[mesh]])


def _add_pairs(parsed: Parsed, tables: dict[str, Ints]) -> int:
    """Name each pair's kind and whose friction it takes; return the number of touches."""
    m, pairs = parsed.mujoco, parsed.pairs
    shapes = m.geom_type[pairs.geom1], m.geom_type[pairs.geom2]
    kind, slots = PAIR_KIND[shapes], PAIR_SLOTS[shapes]
    assert slots.all(), "every pair of shapes has a kind"
    lead = m.geom_priority[pairs.geom1] - m.geom_priority[pairs.geom2]
    rule = np.select(
        [np.isfinite(pairs.friction), lead > 0, lead < 0],
        [FRICTION_RULES["own"], FRICTION_RULES["first"], FRICTION_RULES["second"]],
        FRICTION_RULES["larger"],
    ).astype(np.int32)
    tables.update(
        pair_geom1=pairs.geom1,
        pair_geom2=pairs.geom2,
        pair_kind=kind,
        pair_condim=pairs.condim,
        pair_rule=rule,
        pair_explicit=pairs.explicit,
    )
    ruled, none = pairs.ruled, np.zeros(0, np.int32)
    tables.update(
        geom_condim=ruled.condim if ruled else none,
        geom_priority=ruled.priority if ruled else none,
        swept_geom=ruled.geoms if ruled else none,
        swept_plane=ruled.planes if ruled else none,
        pair_allowed=ruled.allowed.view(np.int32).reshape(-1) if ruled else none,
    )
    if ruled is None:
        return int(slots.sum())
    return int((ruled.kinds * PAIR_SLOTS[: len(SHAPES), : len(SHAPES)]).sum())


def _add_equalities(parsed: Parsed, tables: dict[str, Ints]) -> None:
    """Name the equality constraints that act."""
    import mujoco

    m = parsed.mujoco
    kind = np.full(m.neq, EQUALITIES["none"], np.int32)
    site = np.zeros(m.neq, np.int32)
    for e in range(m.neq):
        if parsed.keep_equality[e] and m.eq_active0[e]:
            kind[e] = m.eq_type[e]
            site[e] = m.eq_objtype[e] == mujoco.mjtObj.mjOBJ_SITE
    tables.update(eq_type=kind, eq_obj1=m.eq_obj1id, eq_obj2=m.eq_obj2id, eq_site=site)


def _add_actuators(parsed: Parsed, tables: dict[str, Ints]) -> None:
    """Name each actuator's joint, -1 for one that has none or does not act, and its law."""
    m = parsed.mujoco
    kind = m.actuator_trntype
    on_site = np.isin(kind, (TRANSMISSIONS["site"], TRANSMISSIONS["slidercrank"]))
    on_body = kind == TRANSMISSIONS["body"]
    on_joint = ~on_site & ~on_body & (kind != TRANSMISSIONS["tendon"])
    acts, first, second = parsed.keep_actuator, *m.actuator_trnid.T.reshape(2, -1)
    joint = np.where(acts & on_joint, first, -1)
    muscle = _is_muscle(parsed)
    tables.update(
        act_jnt=joint.astype(np.int32),
        **_law_tables("gain", gain_types(), m.actuator_gaintype),
        **_law_tables("bias", bias_types(), m.actuator_biastype),
        act_ctrllimited=m.actuator_ctrllimited.astype(np.int32),
        act_forcelimited=m.actuator_forcelimited.astype(np.int32),
        act_adr=m.actuator_actadr,
        act_dyn=_activation_types(parsed),
        act_early=m.actuator_actearly.astype(np.int32),
        act_limited=m.actuator_actlimited.astype(np.int32),
        act_trn=np.where(on_joint, TRANSMISSIONS["joint"], kind),
        act_site=np.where(acts & on_site, first, -1),
        act_refsite=np.where(acts & on_site, second, -1),
        act_body=np.where(acts & on_body, first, -1),
        act_muscle=np.where(muscle, np.cumsum(muscle) - 1, -1).astype(np.int32),
    )


def _is_muscle(parsed: Parsed) -> NDArray[np.bool_]:
    """Return bool[nu]: whether gain, bias or activation of an actuator is a muscle's."""
    m = parsed.mujoco
    laws = (m.actuator_gaintype, m.actuator_biastype, _activation_types(parsed))
    numbers = (GAINS["muscle"], BIASES["muscle"], ACTIVATIONS["muscle"])
    found = np.zeros(m.nu, bool)
    for law, number in zip(laws, numbers, strict=True):
        found |= law == number
    return found


def _law_tables(part: str, laws: list[TypeRow], found: Ints) -> dict[str, Ints]:
    """Return a table for each law that is not the plain one: where it is in force."""
    return {
        f"act_{law.name}_{part}": (found == law.number).astype(np.int32)
        for law in laws
        if law.number
    }


def _activation_types(parsed: Parsed) -> Ints:
    """Return how each activation follows its control; those that are switched off are held."""
    import mujoco

    m = parsed.mujoco
    off = m.opt.disableflags & int(mujoco.mjtDisableBit.mjDSBL_ACTUATION)
    held = (m.actuator_actadr >= 0) & (~parsed.keep_actuator | bool(off))
    return np.where(held, ACTIVATIONS["held"], m.actuator_dyntype).astype(np.int32)


def _compensations(m: mujoco.MjModel, limited: Ints) -> Ints:
    """Return where each joint's gravity compensation goes.

    What actuators apply is within the joint's force limit, and is nothing where there are none.
    """
    import mujoco

    off = m.opt.disableflags & int(mujoco.mjtDisableBit.mjDSBL_ACTUATION)
    by_actuators = m.jnt_actgravcomp.astype(bool)
    ways = np.where(by_actuators & (limited > 0), COMPENSATIONS["actuator"], 0)
    if off or m.nu == 0:
        ways[by_actuators] = COMPENSATIONS["none"]
    return ways.astype(np.int32)


def is_carried(m: mujoco.MjModel) -> bool:
    """Return whether gravity is compensated; MuJoCo asks for a body with a share above zero."""
    return bool(np.any(m.body_gravcomp > 0))


def is_wet(m: mujoco.MjModel) -> bool:
    """Return whether there is a fluid."""
    return bool(m.opt.density > 0 or m.opt.viscosity > 0)


def _add_fluid(m: mujoco.MjModel, tables: dict[str, Ints]) -> None:
    """List what a fluid acts on: bodies as boxes (geom -1), or those of their geoms that say so."""
    parts: list[tuple[int, int]] = []
    wet = is_wet(m) & (tables["body_link"] > 0) & (m.body_mass >= 1e-15)
    for body in np.flatnonzero(wet):
        first = int(m.body_geomadr[body])
        geoms = np.arange(first, first + int(m.body_geomnum[body]))
        if np.any(m.geom_fluid[geoms, 0] > 0):
            parts += [(int(body), int(g)) for g in geoms if m.geom_fluid[g, 0] != 0]
        else:
            parts.append((int(body), -1))
    found = np.array(parts, np.int32).reshape(-1, 2)
    tables["fluid_body"], tables["fluid_geom"] = found[:, 0], found[:, 1]


def _params(parsed: Parsed, body_link: Ints) -> dict[str, Array]:
    """Collect the physical parameters in MuJoCo's names and shapes."""
    m = parsed.mujoco
    muscle, wet = _is_muscle(parsed), is_wet(m)
    ours: dict[str, Any] = {
        "dt": np.array([m.opt.timestep]),
        "gravity": m.opt.gravity,
        "body_gravcomp": m.body_gravcomp if is_carried(m) else (),
        "density": [m.opt.density] if wet else (),
        "viscosity": [m.opt.viscosity] if wet else (),
        "wind": m.opt.wind.reshape(1, 3)[: int(wet)],
        "geom_fluid": m.geom_fluid if wet else m.geom_fluid[:0],
        "xfrc_applied": np.zeros((m.nbody, 6)),
        "body_inertia_products": np.zeros((m.nbody, 3)),
        "geom_restitution": np.zeros(m.ngeom),
        "contact_compliance": np.zeros(m.ngeom),
        "pair_friction": np.nan_to_num(parsed.pairs.friction),
        "body_invweight0": _inverse_weights(m, body_link),
        "body_invweight0_mujoco": m.body_invweight0,
        "pair_friction_rest": m.pair_friction[:, 1:],
        "actuator_gainprm": m.actuator_gainprm[:, :3],
        "actuator_biasprm": m.actuator_biasprm[:, :3],
        "eq_data": m.eq_data[:, :11],
        "actuator_dynprm": m.actuator_dynprm[:, :1],
        "muscle_gainprm": m.actuator_gainprm[muscle, :9],
        "muscle_biasprm": m.actuator_biasprm[muscle, :9],
        "muscle_dynprm": m.actuator_dynprm[muscle, :3],
        "muscle_lengthrange": m.actuator_lengthrange[muscle],
        "muscle_acc0": m.actuator_acc0[muscle],
        "hfield_size": m.hfield_size[:, :3],
    }
    params: dict[str, Array] = {}
    for name in parameter_names():
        value = np.array(ours.get(name, getattr(m, name, None)), np.float64)
        if name.startswith(("tendon_", "wrap_")) and not parsed.keep_tendon.any():
            value = value[:0]
        params[name] = value
    return params


# least inverse weight of what can move, times the mass it carries; links of robots have 0.2 to 1
LEAST_WEIGHT = 0.15


def _inverse_weights(m: mujoco.MjModel, body_link: Ints) -> Array:
    """Return float64[nbody, 2]: mean of J M^-1 J' over the axes at the reference pose.

    The first number is that of the centre of mass of everything that rides on the body's link, the
    second that of its rotation; both are zero for what cannot move. MuJoCo's own figures are those
    of each body by itself, so they would change when one body is cut into two welded ones.

    What can move has weights above zero: the first is at least LEAST_WEIGHT over the mass of the
    link and all that it carries, so that a wheel with its centre on its axis has one; the second,
    where the link cannot turn, is one over the sum of their mean moments of inertia.
    """
    import mujoco

    data = mujoco.MjData(m)
    # its warnings here are those of the compilation
    with muted():
        for stage in (mujoco.mj_kinematics, mujoco.mj_comPos, mujoco.mj_crb, mujoco.mj_factorM):
            stage(m, data)
    weights = np.zeros((m.nbody, 2))
    for link in range(1, int(body_link.max(initial=0)) + 1):
        bodies = np.flatnonzero(body_link == link)
        if len(bodies) == 0:
            continue
        mass = m.body_mass[bodies]
        rows, solved = np.zeros((6, m.nv)), np.zeros((6, m.nv))
        heavy = mass.sum() > 0
        point = mass @ data.xipos[bodies] / mass.sum() if heavy else data.xpos[bodies[0]]
        mujoco.mj_jac(m, data, rows[:3], rows[3:], point, int(bodies[0]))
        mujoco.mj_solveM(m, data, solved, rows)
        diagonal = np.einsum("ij,ij->i", rows, solved)
        place, turn = diagonal[:3].mean(), diagonal[3:].mean()
        mass = float(m.body_subtreemass[bodies[0]])
        # the square of a millimetre stands in for the inertia of points
        inertia = max(_carried_inertia(m, bodies), mass * 1e-6)
        if mass > 0:
            place, turn = max(place, LEAST_WEIGHT / mass), turn if turn > 0 else 1 / inertia
        weights[bodies] = place, turn
    return weights


def _carried_inertia(m: mujoco.MjModel, bodies: NDArray[np.intp]) -> float:
    """Return the sum of the mean moments of inertia of the bodies of a link and of what they carry.

    Bodies are numbered depth first, and the first of a link carries the others.
    """
    first = int(bodies[0])
    outside = np.flatnonzero(m.body_parentid[first + 1 :] < first)
    after = first + 1 + int(outside[0]) if len(outside) else int(m.nbody)
    return float(m.body_inertia[first:after].mean(axis=1).sum())
