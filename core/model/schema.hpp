// The one schema: types of joints and rows, sizes, integer tables, parameters with their rules,
// outputs, options, statuses. Python reads these lists through the extension (bindings/schema.cpp);
// a fact stands here and nowhere else.
#pragma once
#include "core/number/scalar.hpp"

namespace fb {

// no code lives in this file, so every instruction set shares it
// clang-format off
#define FB_ENUM(constant, ...) constant,
#define FB_ENUM_AT(constant, name, number, ...) constant = number,

// ---- types of joints and rows

// joints: constant, name, MuJoCo's number, coordinates, degrees of freedom
#define FB_JOINTS(X)                                                                               \
  X(kFree, free, 0, 7, 6) X(kBall, ball, 1, 4, 3)                                                  \
  X(kSlide, slide, 2, 1, 1) X(kHinge, hinge, 3, 1, 1)
enum JointType : int { FB_JOINTS(FB_ENUM_AT) };

// equality constraints: constant, name, MuJoCo's number
#define FB_EQUALITIES(X)                                                                           \
  X(kNoEquality, none, -1) X(kConnect, connect, 0) X(kWeld, weld, 1) X(kJointEquality, joint, 2) \
  X(kTendonEquality, tendon, 3)
enum EqualityType : int { FB_EQUALITIES(FB_ENUM_AT) };

// whose friction a pair takes: the larger, its own, or that of the geom of higher priority
#define FB_FRICTION_RULES(X)                                                                       \
  X(kLargerFriction, larger) X(kOwnFriction, own)                                                  \
  X(kFirstFriction, first) X(kSecondFriction, second)
enum FrictionRule : int { FB_FRICTION_RULES(FB_ENUM) };

// the law of an actuator, force = gain * input + bias: constant, name, MuJoCo's number. A law other
// than number 0 has a table act_<name>_gain or act_<name>_bias that says where it is in force
#define FB_GAINS(X) X(kFixedGain, fixed, 0) X(kAffineGain, affine, 1) X(kMuscleGain, muscle, 2)
#define FB_BIASES(X) X(kNoBias, none, 0) X(kAffineBias, affine, 1) X(kMuscleBias, muscle, 2)
enum GainType : int { FB_GAINS(FB_ENUM_AT) };
enum BiasType : int { FB_BIASES(FB_ENUM_AT) };

// what a tendon is made of, in the order of its path: constant, name, MuJoCo's number
#define FB_WRAPS(X)                                                                                \
  X(kWrapJoint, joint, 1) X(kWrapPulley, pulley, 2) X(kWrapSite, site, 3)                          \
  X(kWrapSphere, sphere, 4) X(kWrapCylinder, cylinder, 5)
enum WrapType : int { FB_WRAPS(FB_ENUM_AT) };

// what an actuator acts on: constant, name, MuJoCo's number
#define FB_TRANSMISSIONS(X)                                                                        \
  X(kJointTransmission, joint, 0) X(kCrankTransmission, slidercrank, 2)                            \
  X(kTendonTransmission, tendon, 3) X(kSiteTransmission, site, 4) X(kBodyTransmission, body, 5)
enum TransmissionType : int { FB_TRANSMISSIONS(FB_ENUM_AT) };

// how the activation of an actuator follows its control: constant, name, MuJoCo's number; held: not
// at all
#define FB_ACTIVATIONS(X)                                                                          \
  X(kNoActivation, none, 0) X(kIntegrator, integrator, 1) X(kFilter, filter, 2)                    \
  X(kFilterExact, filterexact, 3) X(kMuscleActivation, muscle, 4) X(kHeldActivation, held, 100)
enum ActivationType : int { FB_ACTIVATIONS(FB_ENUM_AT) };
// where the gravity compensation of a joint goes: to its passive forces, to its actuators and their
// limit, or nowhere
#define FB_COMPENSATIONS(X)                                                                        \
  X(kPassiveCompensation, passive, 0) X(kActuatorCompensation, actuator, 1)                        \
  X(kNoCompensation, none, 2)
enum CompensationType : int { FB_COMPENSATIONS(FB_ENUM_AT) };
// a time constant of a filter counts as no less [s]
inline constexpr double kLeastTimeConstant = 1e-15;

// ---- shapes and pairs of shapes

// shapes of geoms, numbered as in MuJoCo; a pair names the smaller number first
#define FB_SHAPES(X)                                                                               \
  X(kPlane, 0) X(kHfield, 1) X(kSphere, 2) X(kCapsule, 3) X(kEllipsoid, 4) X(kCylinder, 5)         \
  X(kBox, 6) X(kMesh, 7)

// pairs of shapes that can touch: kind, shape A, shape B, contact points (slots) it can give, and its
// function, which stands beside its adjoint in a header that core/collision/pairs.hpp includes. A new
// pair comes last, so that the numbers of the others stay in stored tables
#define FB_PAIRS(X)                                                                                \
  X(kPlaneSphere, kPlane, kSphere, 1, plane_sphere)                                                \
  X(kPlaneCapsule, kPlane, kCapsule, 2, plane_capsule)                                             \
  X(kPlaneBox, kPlane, kBox, 8, plane_box)                                                         \
  X(kPlaneCylinder, kPlane, kCylinder, 4, plane_cylinder)                                          \
  X(kPlaneEllipsoid, kPlane, kEllipsoid, 1, plane_ellipsoid)                                       \
  X(kPlaneMesh, kPlane, kMesh, 4, plane_mesh)                                                      \
  X(kSphereSphere, kSphere, kSphere, 1, sphere_sphere)                                             \
  X(kSphereCapsule, kSphere, kCapsule, 1, sphere_capsule)                                          \
  X(kSphereBox, kSphere, kBox, 1, sphere_box)                                                      \
  X(kCapsuleCapsule, kCapsule, kCapsule, 2, capsule_capsule)                                       \
  X(kCapsuleBox, kCapsule, kBox, 3, capsule_box)                                                   \
  X(kBoxBox, kBox, kBox, 8, box_box)                                                               \
  X(kSphereEllipsoid, kSphere, kEllipsoid, 1, convex_convex)                                       \
  X(kSphereCylinder, kSphere, kCylinder, 1, convex_convex)                                         \
  X(kSphereMesh, kSphere, kMesh, 1, convex_convex)                                                 \
  X(kCapsuleEllipsoid, kCapsule, kEllipsoid, 1, convex_convex)                                     \
  X(kCapsuleCylinder, kCapsule, kCylinder, 2, convex_convex)                                       \
  X(kCapsuleMesh, kCapsule, kMesh, 2, convex_convex)                                               \
  X(kEllipsoidEllipsoid, kEllipsoid, kEllipsoid, 1, convex_convex)                                 \
  X(kEllipsoidCylinder, kEllipsoid, kCylinder, 1, convex_convex)                                   \
  X(kEllipsoidBox, kEllipsoid, kBox, 1, convex_convex)                                             \
  X(kEllipsoidMesh, kEllipsoid, kMesh, 1, convex_convex)                                           \
  X(kCylinderCylinder, kCylinder, kCylinder, 8, convex_convex)                                     \
  X(kCylinderBox, kCylinder, kBox, 8, convex_convex)                                               \
  X(kCylinderMesh, kCylinder, kMesh, 8, convex_convex)                                             \
  X(kBoxMesh, kBox, kMesh, 8, convex_convex)                                                       \
  X(kMeshMesh, kMesh, kMesh, 8, convex_convex)                                                     \
  X(kHfieldSphere, kHfield, kSphere, 8, hfield_convex)                                             \
  X(kHfieldCapsule, kHfield, kCapsule, 8, hfield_convex)                                           \
  X(kHfieldEllipsoid, kHfield, kEllipsoid, 8, hfield_convex)                                       \
  X(kHfieldCylinder, kHfield, kCylinder, 8, hfield_convex)                                         \
  X(kHfieldBox, kHfield, kBox, 8, hfield_convex)                                                   \
  X(kHfieldMesh, kHfield, kMesh, 8, hfield_convex)
#define FB_SHAPE_ENUM(name, number) name = number,
enum ShapeType : int { FB_SHAPES(FB_SHAPE_ENUM) };
enum PairKind : int { FB_PAIRS(FB_ENUM) kPairKinds };

// ---- what an engine is built from

#define FB_SIZES(X)                                                                                \
  X(nq) X(nv) X(na) X(nu) X(nbody) X(njnt) X(nlink) X(ntree) X(ngeom) X(nmesh) X(nsite) X(npair)  \
  X(nexplicit) X(neq) X(nlimit) X(nfriction) X(nvert) X(nhull) X(max_contacts) X(max_sweeps)       \
  X(ntendon) X(nwrap) X(ntendof) X(ngravcomp) X(nfluid) X(nmedium) X(nwet) X(nmuscle) X(nreach) \
  X(nhfield) X(nruled) X(nswept) X(nmoving) X(nplane) X(nallowed) X(nheavy) X(nadhesion)

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
  X(geom_nvert, ngeom) X(geom_mesh, ngeom) X(geom_hull, ngeom) X(hull, nhull)                      \
  X(site_body, nsite) X(site_link, nsite)                                                          \
  X(pair_geom1, npair) X(pair_geom2, npair) X(pair_kind, npair) X(pair_condim, npair)              \
  X(pair_rule, npair) X(pair_explicit, npair) X(eq_type, neq) X(eq_obj1, neq) X(eq_obj2, neq) X(eq_site, neq) X(eq_rows, neq)             \
  X(limit_jnt, nlimit) X(friction_dof, nfriction)                                                  \
  X(act_jnt, nu) X(act_affine_gain, nu) X(act_affine_bias, nu) X(act_ctrllimited, nu)              \
  X(act_forcelimited, nu) X(act_adr, nu) X(act_dyn, nu) X(act_early, nu) X(act_limited, nu)    \
  X(act_tendon, nu) X(tendon_adr, ntendon) X(tendon_num, ntendon) X(tendon_limited, ntendon)       \
  X(tendon_dry, ntendon) X(tendon_rows, ntendon) X(tendon_dofadr, ntendon)                         \
  X(tendon_dofnum, ntendon) X(tendon_heavy, ntendon)                                               \
  X(tendon_dof, ntendof) X(wrap_type, nwrap) X(wrap_at, nwrap) X(wrap_obj, nwrap) X(wrap_side, nwrap) \
  X(jnt_gravcomp, njnt) X(fluid_body, nfluid) X(fluid_geom, nfluid)                \
  X(act_muscle_gain, nu) X(act_muscle_bias, nu) X(act_muscle, nu)                   \
  X(act_trn, nu) X(act_site, nu) X(act_refsite, nu) X(act_body, nu)                                \
  X(geom_condim, nruled) X(geom_priority, nruled) X(swept_geom, nswept) X(swept_plane, nplane)     \
  X(pair_allowed, nallowed)

// contact laws under which a parameter or an option acts
enum class ActsUnder : int { both, hard, mujoco };

// rules for the values of a parameter (engine/check_params.cpp): name, a value below
// which none has a meaning, how a refusal ends
inline constexpr double kNoLeast = -__builtin_huge_val();
#define FB_RULES(X)                                                                                \
  X(any, kNoLeast, "give finite numbers.")                                                         \
  X(not_negative, 0, "it must be >= 0.")                                                           \
  X(positive, 0, "it must be > 0.")                                                                \
  X(fraction, 0, "it must be from 0 to 1.")                                                        \
  X(nonzero, kNoLeast, "a scale must not be zero.")                                                \
  X(quaternion, kNoLeast, "a quaternion must have a length > 0.")                                  \
  X(axis, kNoLeast, "an axis must have a length > 0.")                                             \
  X(range, kNoLeast, "the lower end must not lie above the upper.")                                \
  X(moments, 0, "all must be >= 0.")                                                               \
  X(products, kNoLeast, "all must be >= 0.")                                                       \
  X(friction_loss, 0, "give it a small frictionloss in the file.")                                 \
  X(tendon_inertia, 0, "give it a small armature in the file.")
enum class ParameterRule : int { FB_RULES(FB_ENUM) };

// why the motion has no gradient with respect to a parameter
inline constexpr const char* kHasGradient = nullptr;
inline constexpr const char* kOnlyCompliance = "it only sets the default compliance and the smoothing of rows";
inline constexpr const char* kOnlyStiffness = "it sets the stiffness of rows under MuJoCo's law";
inline constexpr const char* kOnlyMixes = "it weighs the parameters of two geoms";

// physical parameters, named and shaped as MuJoCo's fields (ours: dt, geom_restitution,
// contact_compliance, body_inertia_products): name, rows, numbers in a row, unit, rule, the rows i
// of a Layout s in which the rule is in force, why there is no gradient, the law under which it acts
#define FB_PARAMETERS(X)                                                                           \
  X(dt, 1, 1, "s", positive, true, kHasGradient, both)                                             \
  X(gravity, 3, 1, "m/s²", any, true, kHasGradient, both)                                          \
  X(body_pos, s.nbody, 3, "m", any, true, kHasGradient, both)                                      \
  X(body_quat, s.nbody, 4, "no unit", quaternion, true, kHasGradient, both)                        \
  X(body_mass, s.nbody, 1, "kg", not_negative, true, kHasGradient, both)                           \
  X(body_ipos, s.nbody, 3, "m", any, true, kHasGradient, both)                                     \
  X(body_iquat, s.nbody, 4, "no unit", quaternion, true, kHasGradient, both)                       \
  X(body_inertia, s.nbody, 3, "kg·m²", moments, true, kHasGradient, both)                          \
  X(body_inertia_products, s.nbody, 3, "kg·m²", products, true, kHasGradient, both)                \
  X(body_invweight0, s.nbody, 2, "1/kg or 1/(kg·m²)", any, true, kOnlyCompliance, hard)            \
  X(dof_invweight0, s.nv, 1, "1/kg or 1/(kg·m²)", any, true, kOnlyCompliance, both)                \
  X(xfrc_applied, s.nbody, 6, "N or N·m", any, true, kHasGradient, both)                           \
  X(qpos0, s.nq, 1, "m or rad", any, true, kHasGradient, both)                                     \
  X(qpos_spring, s.nq, 1, "m or rad", any, true, kHasGradient, both)                               \
  X(jnt_pos, s.njnt, 3, "m", any, true, kHasGradient, both)                                        \
  X(jnt_axis, s.njnt, 3, "no unit", axis, s.jnt_type[i] == kSlide || s.jnt_type[i] == kHinge,      \
    kHasGradient, both)                                                                            \
  X(jnt_range, s.njnt, 2, "m or rad", range, listed(i, s.limit_jnt, s.nlimit), kHasGradient, both) \
  X(jnt_stiffness, s.njnt, 1, "N·m/rad or N/m", not_negative, true, kHasGradient, both)            \
  X(jnt_actfrcrange, s.njnt, 2, "N·m or N", range, s.jnt_forcelimited[i] > 0, kHasGradient, both)  \
  X(dof_damping, s.nv, 1, "N·m·s/rad or N·s/m", not_negative, true, kHasGradient, both)            \
  X(dof_armature, s.nv, 1, "kg·m² or kg", not_negative, true, kHasGradient, both)                  \
  X(dof_frictionloss, s.nv, 1, "N·m or N", friction_loss, listed(i, s.friction_dof,                \
    s.nfriction), kHasGradient, both)                                                              \
  X(geom_pos, s.ngeom, 3, "m", any, true, kHasGradient, both)                                      \
  X(geom_quat, s.ngeom, 4, "no unit", quaternion, true, kHasGradient, both)                        \
  X(geom_size, s.ngeom, 3, "m", not_negative, true, kHasGradient, both)                            \
  X(geom_friction, s.ngeom, 3, "no unit", not_negative, true, kHasGradient, both)                  \
  X(geom_restitution, s.ngeom, 1, "no unit", fraction, true, kHasGradient, hard)                   \
  X(contact_compliance, s.ngeom, 1, "m/N", not_negative, true, kHasGradient, hard)                 \
  X(pair_friction, s.npair, 1, "no unit", not_negative, true, kHasGradient, both)                  \
  X(mesh_scale, s.nmesh, 3, "no unit", nonzero, true, kHasGradient, both)                          \
  X(site_pos, s.nsite, 3, "m", any, true, kHasGradient, both)                                       \
  X(site_quat, s.nsite, 4, "no unit", quaternion, true, kHasGradient, both)                         \
  X(eq_data, s.neq, 11, "m, rad or no unit", any, true, kHasGradient, both)                        \
  X(body_invweight0_mujoco, s.nbody, 2, "1/kg or 1/(kg·m²)", any, true, kOnlyStiffness, mujoco)    \
  X(geom_margin, s.ngeom, 1, "m", any, true, kHasGradient, mujoco)                                 \
  X(geom_solmix, s.ngeom, 1, "no unit", not_negative, true, kOnlyMixes, mujoco)                    \
  X(geom_solref, s.ngeom, 2, "s and no unit, or 1/s² and 1/s", any, true, kHasGradient, mujoco)    \
  X(geom_solimp, s.ngeom, 5, "no unit, m", any, true, kHasGradient, mujoco)                        \
  X(pair_friction_rest, s.nexplicit, 4, "no unit or m", not_negative, true, kHasGradient, both)    \
  X(pair_margin, s.nexplicit, 1, "m", any, true, kHasGradient, mujoco)                             \
  X(pair_solref, s.nexplicit, 2, "s and no unit, or 1/s² and 1/s", any, true, kHasGradient,        \
    mujoco)                                                                                        \
  X(pair_solreffriction, s.nexplicit, 2, "s and no unit, or 1/s² and 1/s", any, true,              \
    kHasGradient, mujoco)                                                                          \
  X(pair_solimp, s.nexplicit, 5, "no unit, m", any, true, kHasGradient, mujoco)                    \
  X(jnt_margin, s.njnt, 1, "m or rad", any, true, kHasGradient, mujoco)                            \
  X(jnt_solref, s.njnt, 2, "s and no unit, or 1/s² and 1/s", any, true, kHasGradient, mujoco)      \
  X(jnt_solimp, s.njnt, 5, "no unit, m or rad", any, true, kHasGradient, mujoco)                   \
  X(dof_solref, s.nv, 2, "s and no unit, or 1/s² and 1/s", any, true, kHasGradient, mujoco)        \
  X(dof_solimp, s.nv, 5, "no unit, m or rad", any, true, kHasGradient, mujoco)                     \
  X(eq_solref, s.neq, 2, "s and no unit, or 1/s² and 1/s", any, true, kHasGradient, mujoco)        \
  X(eq_solimp, s.neq, 5, "no unit, m or rad", any, true, kHasGradient, mujoco)                     \
  X(actuator_gainprm, s.nu, 3, "of the actuator's law", any, true, kHasGradient, both)             \
  X(actuator_biasprm, s.nu, 3, "of the actuator's law", any, true, kHasGradient, both)             \
  X(actuator_gear, s.nu, 6, "m or no unit", any, true, kHasGradient, both)                         \
  X(actuator_ctrlrange, s.nu, 2, "of the control", range, s.act_ctrllimited[i] > 0,                \
    kHasGradient, both)                                                                            \
  X(actuator_forcerange, s.nu, 2, "N·m or N", range, s.act_forcelimited[i] > 0, kHasGradient,      \
    both)                                                                                          \
  X(actuator_dynprm, s.nu, 1, "s", any, true, kHasGradient, both)                                  \
  X(actuator_actrange, s.nu, 2, "of the activation", range, s.act_limited[i] > 0, kHasGradient,    \
    both)                                                                                          \
  X(wrap_prm, s.nwrap, 1, "no unit or m", any, true, kHasGradient, both)                           \
  X(tendon_stiffness, s.ntendon, 1, "N/m", not_negative, true, kHasGradient, both)                 \
  X(tendon_lengthspring, s.ntendon, 2, "m", any, true, kHasGradient, both)                         \
  X(tendon_damping, s.ntendon, 1, "N·s/m", not_negative, true, kHasGradient, both)                 \
  X(tendon_armature, s.ntendon, 1, "kg", tendon_inertia, s.tendon_heavy[i] > 0, kHasGradient, both) \
  X(tendon_range, s.ntendon, 2, "m", range, s.tendon_limited[i] > 0, kHasGradient, both)           \
  X(tendon_frictionloss, s.ntendon, 1, "N", friction_loss, s.tendon_dry[i] > 0, kHasGradient,      \
    both)                                                                                          \
  X(tendon_length0, s.ntendon, 1, "m", any, true, kHasGradient, both)                              \
  X(tendon_invweight0, s.ntendon, 1, "1/kg", any, true, kOnlyCompliance, both)                     \
  X(tendon_margin, s.ntendon, 1, "m", any, true, kHasGradient, mujoco)                             \
  X(tendon_solref_lim, s.ntendon, 2, "s and no unit, or 1/s² and 1/s", any, true, kHasGradient,    \
    mujoco)                                                                                        \
  X(tendon_solimp_lim, s.ntendon, 5, "no unit, m", any, true, kHasGradient, mujoco)                \
  X(tendon_solref_fri, s.ntendon, 2, "s and no unit, or 1/s² and 1/s", any, true, kHasGradient,    \
    mujoco)                                                                                        \
  X(tendon_solimp_fri, s.ntendon, 5, "no unit, m", any, true, kHasGradient, mujoco)                \
  X(body_gravcomp, s.ngravcomp, 1, "no unit", any, true, kHasGradient, both)                       \
  X(density, s.nmedium, 1, "kg/m³", not_negative, true, kHasGradient, both)                        \
  X(viscosity, s.nmedium, 1, "Pa·s", not_negative, true, kHasGradient, both)                       \
  X(wind, s.nmedium, 3, "m/s", any, true, kHasGradient, both)                                      \
  X(geom_fluid, s.nwet, 12, "no unit, m³ or m⁵", any, true, kHasGradient, both)                   \
  X(muscle_gainprm, s.nmuscle, 9, "of the muscle's curves", any, true, kHasGradient, both)         \
  X(muscle_biasprm, s.nmuscle, 9, "of the muscle's curves", any, true, kHasGradient, both)         \
  X(muscle_dynprm, s.nmuscle, 3, "s, s and no unit", any, true, kHasGradient, both)                \
  X(muscle_lengthrange, s.nmuscle, 2, "of the actuator's length", range, true, kHasGradient, both) \
  X(muscle_acc0, s.nmuscle, 1, "1/kg or 1/(kg·m²)", any, true, kHasGradient, both)                 \
  X(actuator_cranklength, s.nu, 1, "m", any, true, kHasGradient, both)                             \
  X(hfield_size, s.nhfield, 3, "m", positive, true, kHasGradient, both)

// what the step reads instead: placements and inertias in
// link frames, pair coefficients (derive.hpp derives them)
#define FB_DERIVED(X)                                                                              \
  X(link_R, 9 * s.nlink) X(link_p, 3 * s.nlink) X(link_mass, s.nlink) X(link_com, 3 * s.nlink)     \
  X(link_I, 6 * s.nlink) X(body_R, 9 * s.nbody) X(body_p, 3 * s.nbody)                             \
  X(geom_R, 9 * s.ngeom) X(geom_p, 3 * s.ngeom) X(geom_radius, s.ngeom) X(geom_box, 6 * s.ngeom)   \
  X(site_R, 9 * s.nsite) X(site_p, 3 * s.nsite)                                                    \
  X(pair_mu, s.npair) X(pair_restitution, s.npair) X(pair_compliance, s.npair)                     \
  X(eq_p1, 3 * s.neq) X(eq_p2, 3 * s.neq) X(eq_R1, 9 * s.neq) X(eq_R2, 9 * s.neq)

// ---- outputs of a state: name, rank, rows, columns, inputs, the symbol of the result.  poses:
// bodies, then sites, 12 numbers each (position, rotation matrix by rows); drive: activations, then controls
#define FB_OUTPUTS(X)                                                                              \
  X(poses, 2, s.nbody + s.nsite, 12, "q", "poses")                                                 \
  X(center_of_mass, 1, 3, 1, "q", "x")                                                             \
  X(mass_matrix, 2, s.nv, s.nv, "q", "M")                                                          \
  X(bias, 1, s.nv, 1, "q v", "c")                                                                  \
  X(inverse_dynamics, 1, s.nv, 1, "q v a", "tau")                                                  \
  X(forward_dynamics, 1, s.nv, 1, "q v tau", "a")                                                  \
  X(contact_forces, 2, s.nbody, 6, "q v drive", "F")                                               \
  X(mass_centers, 2, s.nbody, 6, "q", "x")                                                         \
  X(com_inertias, 2, s.nbody, 10, "q", "I")                                                        \
  X(com_velocities, 2, s.nbody, 6, "q v", "V")
enum class Output : int { FB_OUTPUTS(FB_ENUM) };

// ---- numerical options of a Simulator

// choices: constant, word
#define FB_FRICTION_MODELS(X) X(kConeFriction, cone) X(kBoxFriction, box)
#define FB_SOLVERS(X) X(kNewtonSolver, newton) X(kPgsSolver, pgs) X(kInteriorSolver, interior)
#define FB_CONTACTS(X) X(kHardContact, hard) X(kSoftContact, mujoco)
#define FB_CONES(X) X(kPyramidalCone, pyramidal) X(kEllipticCone, elliptic)
#define FB_INTEGRATORS(X) X(kEulerIntegrator, euler) X(kRungeKutta, rk4) X(kImplicitFast, implicitfast)
#define FB_GRADIENTS(X)                                                                            \
  X(kGradientAuto, auto) X(kGradientImplicit, implicit) X(kGradientUnrolled, unrolled)
enum FrictionModel : int { FB_FRICTION_MODELS(FB_ENUM) };
enum SolverType : int { FB_SOLVERS(FB_ENUM) };
enum ContactLawType : int { FB_CONTACTS(FB_ENUM) };
enum ConeType : int { FB_CONES(FB_ENUM) };
enum IntegratorType : int { FB_INTEGRATORS(FB_ENUM) };
enum GradientMode : int { FB_GRADIENTS(FB_ENUM) };

// a default that depends on the number type R
#define FB_BY_PRECISION(wide, narrow) (sizeof(R) == 8 ? wide : narrow)
// name, type, default, allowed values (functions of bindings/schema.cpp), the law under which it
// acts, what it is.  What is fixed() cannot be chosen
#define FB_OPTIONS(X)                                                                              \
  X(contact, ContactLawType, kHardContact, FB_WORDS(FB_CONTACTS), both,                            \
    "'hard' (the law of this library) or 'mujoco' (MuJoCo's soft law, with the file's settings)")  \
  X(cone, ConeType, kPyramidalCone, FB_WORDS(FB_CONES), mujoco,                                    \
    "friction cone under MuJoCo's law: 'pyramidal' or 'elliptic'; by default that of the file")    \
  X(impratio, real, 1.0, above(0), mujoco,                                                         \
    "ratio of friction to normal impedance under MuJoCo's law; by default that of the file")       \
  X(integrator, IntegratorType, kEulerIntegrator, FB_WORDS(FB_INTEGRATORS), mujoco,                \
    "integrator under MuJoCo's law: 'euler', 'rk4' or 'implicitfast'; by default that of the file")       \
  X(refsafe, whole, 1, whole(0, 1), mujoco,                                                        \
    "1: time constants of solref are at least two steps under MuJoCo's law; by default as in "     \
    "the file")                                                                                    \
  X(eulerdamp, whole, 1, whole(0, 1), mujoco,                                                      \
    "1: Euler's integrator is implicit in damping under MuJoCo's law; by default as in the file")  \
  X(warmstart, whole, 0, whole(0, 1), mujoco,                                                      \
    "1: a state carries the accelerations of the last solve under MuJoCo's law, and the next may "  \
    "start there; default 0")                                                                      \
  X(margin, real, 0.005, at_least(0), hard,                                                        \
    "contact and limit rows are built below this gap [m or rad]")                                  \
  X(v_recover, real, 0.5, above(0), hard,                                                          \
    "largest speed of recovery from penetration [m/s]")                                            \
  X(v_rest, real, 0.05, at_least(0), hard,                                                         \
    "approach speed below which restitution is zero [m/s]")                                        \
  X(tolerance, real, FB_BY_PRECISION(1e-10, 1e-4), above(0), hard,                                 \
    "residual of the contact solve, relative to the largest row velocity")                         \
  X(max_sweeps, whole, 200, whole(1, 1000000), hard,                                               \
    "cap on Gauss-Seidel sweeps in one step")                                                      \
  X(max_contacts, whole, 100, whole(0, 100000), both,                                              \
    "contacts one world can hold, by default at most what the model's pairs can give, and 16 for " \
    "each link where that is more")                                                                \
  X(friction, FrictionModel, kConeFriction, FB_WORDS(FB_FRICTION_MODELS), hard,                    \
    "'cone' (the true cone) or 'box' (each tangent by itself)")                                    \
  X(solver, SolverType, kNewtonSolver, FB_WORDS(FB_SOLVERS), hard,                                 \
    "'newton' (sweeps, then Newton steps on the active set), 'pgs' (sweeps only) or 'interior' "    \
    "(an interior point method, world by world)")                                                  \
  X(smoothing, real, 0.0, zero_or_between(1e-8, 1), hard,                                          \
    "velocity within which the laws of contacts, limits and dry friction are smooth [m/s or "      \
    "rad/s]: 0 is the exact law, more has derivatives of every order and takes solver 'interior'") \
  X(gradient, GradientMode, kGradientAuto, FB_WORDS(FB_GRADIENTS), hard,                           \
    "'auto' (implicit where the solve finished, unrolled elsewhere), 'implicit' (the solution is " \
    "differentiated) or 'unrolled' (the sweeps are; solver 'pgs' only)")                           \
  X(regularization, real, FB_BY_PRECISION(1e-6, 1e-4), fixed(), hard,                              \
    "default compliance, as a share of the bodies' inverse weights")

template <class R>
struct Options {
  using real = R;
  using whole = int;
#define FB_X(name, type, value, ...) type name = value;
  FB_OPTIONS(FB_X)
#undef FB_X
};

// ---- what can go wrong in a world: constant, name, bit, sentence
#define FB_STATUSES(X)                                                                             \
  X(kNonFinite, NONFINITE, 1u,                                                                     \
    "the state holds a NaN or an infinity from this step on; nothing was reset. Look at the "      \
    "controls and the state before it, or take a smaller dt.")                                     \
  X(kContactOverflow, CONTACT_OVERFLOW, 2u,                                                        \
    "more contacts than max_contacts were found and the last ones were left out; pass a larger "   \
    "max_contacts to the Simulator.")                                                              \
  X(kUnconverged, UNCONVERGED, 4u,                                                                 \
    "the contact solve did not finish: what it found misses the contact law by more than 1e-6 of " \
    "the velocities of its rows. Take a smaller dt, or look at mass ratios, overlaps and friction "\
    "there.")                                                                                      \
  X(kNoGradient, NO_GRADIENT, 8u,                                                                  \
    "this step has no gradient: contacts were left out of it (pass a larger max_contacts to the "  \
    "Simulator), or its contacts were not solved.")
enum StatusBit : unsigned { FB_STATUSES(FB_ENUM_AT) };

// clang-format on

}  // namespace fb
