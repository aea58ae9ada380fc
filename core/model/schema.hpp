// The one schema of a model: joint and row types, sizes, integer tables, physical parameters and what
// is derived from them. Everything that Python or a bridge must know of it is exported from here.
#pragma once
#include "core/number/scalar.hpp"

namespace fb {

// no code lives in this part, so every instruction set shares it
enum JointType : int { kFree = 0, kBall = 1, kSlide = 2, kHinge = 3 };
// how the activation of an actuator follows its control; held: not at all
enum ActivationType : int { kNoActivation, kIntegrator, kFilter, kFilterExact, kHeldActivation };
// a time constant of a filter counts as no less [s]
inline constexpr double kLeastTimeConstant = 1e-15;
enum EqualityType : int { kNoEquality = -1, kConnect = 0, kWeld = 1, kJointEquality = 2 };
// whose friction a pair takes: the larger, its own, or that of the geom of higher priority
enum FrictionRule : int { kLargerFriction, kOwnFriction, kFirstFriction, kSecondFriction };

// clang-format off
#define FB_SIZES(X)                                                                                \
  X(nq) X(nv) X(na) X(nu) X(nbody) X(njnt) X(nlink) X(ntree) X(ngeom) X(nmesh) X(nsite) X(npair) X(neq)  \
  X(nlimit) X(nfriction) X(nvert) X(max_contacts) X(max_sweeps)

// integer tables, each int32, with their length in words
#define FB_TABLES(X)                                                                               \
  X(body_parent, nbody) X(body_link, nbody) X(body_jntadr, nbody) X(body_jntnum, nbody)            \
  X(jnt_type, njnt) X(jnt_qadr, njnt) X(jnt_dofadr, njnt) X(jnt_link, njnt)                        \
  X(jnt_forcelimited, njnt) X(link_parent, nlink) X(link_type, nlink) X(link_qadr, nlink)          \
  X(link_dof, nlink) X(link_ndof, nlink) X(link_tree, nlink) X(link_jnt, nlink)                    \
  X(link_massive, nlink) X(link_lastdof, nlink)                                                    \
  X(dof_parent, nv) X(dof_link, nv) X(dof_jnt, nv) X(dof_tree, nv)                                 \
  X(tree_link, ntree) X(tree_dof, ntree) X(tree_ndof, ntree)                                       \
  X(geom_type, ngeom) X(geom_body, ngeom) X(geom_link, ngeom) X(geom_vert, ngeom)                  \
  X(geom_nvert, ngeom) X(geom_mesh, ngeom) X(site_body, nsite) X(site_link, nsite)                 \
  X(pair_geom1, npair) X(pair_geom2, npair) X(pair_kind, npair) X(pair_condim, npair)              \
  X(pair_rule, npair) X(eq_type, neq) X(eq_obj1, neq) X(eq_obj2, neq) X(eq_site, neq)              \
  X(limit_jnt, nlimit) X(friction_dof, nfriction)                                                  \
  X(act_jnt, nu) X(act_affine_gain, nu) X(act_affine_bias, nu) X(act_ctrllimited, nu)              \
  X(act_forcelimited, nu) X(act_adr, nu) X(act_dyn, nu) X(act_early, nu) X(act_limited, nu)

// physical parameters, named and shaped as MuJoCo's fields (ours:
// dt, geom_restitution, contact_compliance, body_inertia_products)
#define FB_PARAMETERS(X)                                                                           \
  X(dt, 1) X(gravity, 3)                                                                           \
  X(body_pos, 3 * s.nbody) X(body_quat, 4 * s.nbody) X(body_mass, s.nbody)                         \
  X(body_ipos, 3 * s.nbody) X(body_iquat, 4 * s.nbody) X(body_inertia, 3 * s.nbody)                \
  X(body_inertia_products, 3 * s.nbody)                                                            \
  X(body_invweight0, 2 * s.nbody) X(dof_invweight0, s.nv) X(xfrc_applied, 6 * s.nbody)             \
  X(qpos0, s.nq) X(qpos_spring, s.nq)                                                              \
  X(jnt_pos, 3 * s.njnt) X(jnt_axis, 3 * s.njnt) X(jnt_range, 2 * s.njnt)                          \
  X(jnt_stiffness, s.njnt) X(jnt_actfrcrange, 2 * s.njnt)                                          \
  X(dof_damping, s.nv) X(dof_armature, s.nv) X(dof_frictionloss, s.nv)                             \
  X(geom_pos, 3 * s.ngeom) X(geom_quat, 4 * s.ngeom) X(geom_size, 3 * s.ngeom)                     \
  X(geom_friction, 3 * s.ngeom) X(geom_restitution, s.ngeom)                                       \
  X(contact_compliance, s.ngeom) X(pair_friction, s.npair)                                         \
  X(mesh_scale, 3 * s.nmesh) X(site_pos, 3 * s.nsite) X(site_quat, 4 * s.nsite)                    \
  X(eq_data, 11 * s.neq) X(actuator_gainprm, 3 * s.nu) X(actuator_biasprm, 3 * s.nu)               \
  X(actuator_gear, 6 * s.nu) X(actuator_ctrlrange, 2 * s.nu) X(actuator_forcerange, 2 * s.nu) \
  X(actuator_dynprm, s.nu) X(actuator_actrange, 2 * s.nu)

// what the step reads instead: placements and inertias in
// link frames, pair coefficients (model.hpp derives them)
#define FB_DERIVED(X)                                                                              \
  X(link_R, 9 * s.nlink) X(link_p, 3 * s.nlink) X(link_mass, s.nlink) X(link_com, 3 * s.nlink)     \
  X(link_I, 6 * s.nlink) X(body_R, 9 * s.nbody) X(body_p, 3 * s.nbody)                             \
  X(geom_R, 9 * s.ngeom) X(geom_p, 3 * s.ngeom) X(geom_radius, s.ngeom)                            \
  X(site_R, 9 * s.nsite) X(site_p, 3 * s.nsite)                                                    \
  X(pair_mu, s.npair) X(pair_restitution, s.npair) X(pair_compliance, s.npair)                     \
  X(eq_p1, 3 * s.neq) X(eq_p2, 3 * s.neq) X(eq_R1, 9 * s.neq) X(eq_R2, 9 * s.neq)

// clang-format on

}  // namespace fb
