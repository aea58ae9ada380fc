// Shape pairs -> gaps, normals, contact points: one function per pair of shapes, chosen by kind.
// Where to start: collision_shape.hpp says what goes in and out.  Proof:
// docs/derivations/collision.md.
#pragma once
#include "core/collision/box_box.hpp"
#include "core/collision/capsule_box.hpp"
#include "core/collision/plane.hpp"

namespace fb::FB_ISA {

// writes pair_slots(kind) touches; A comes first in
// MuJoCo's order of shapes (plane, sphere, capsule, box)
template <class T>
FB_OUTLINE void collide(int kind, const Shape<T>& a, const Shape<T>& b, ContactPoint<T>* out) {
  switch (kind) {
    case kPlaneSphere:
      return plane_sphere(a, b, out[0]);
    case kPlaneCapsule:
      return plane_capsule(a, b, out);
    case kPlaneBox:
      return plane_box(a, b, out);
    case kPlaneCylinder:
      return plane_cylinder(a, b, out);
    case kPlaneEllipsoid:
      return plane_ellipsoid(a, b, out);
    case kPlaneMesh:
      return plane_mesh(a, b, out);
    case kSphereSphere:
      return sphere_sphere(a, b, out);
    case kSphereCapsule:
      return sphere_capsule(a, b, out);
    case kSphereBox:
      return sphere_box(a, b, out);
    case kCapsuleCapsule:
      return capsule_capsule(a, b, out);
    case kCapsuleBox:
      return capsule_box(a, b, out);
    case kBoxBox:
      return box_box(a, b, out);
    default:
      return;
  }
}

// one slot of all pairs but boxes
template <class T>
FB_INLINE void slot_adjoint(int kind, const Shape<T>& a, const Shape<T>& b, int slot,
                            const ContactPointBar<T>& out_bar, ShapeBar<T>& a_bar,
                            ShapeBar<T>& b_bar) {
  switch (kind) {
    case kPlaneSphere:
      return plane_sphere_adjoint(a, b, out_bar, a_bar, b_bar);
    case kPlaneCapsule:
      return plane_capsule_adjoint(a, b, slot, out_bar, a_bar, b_bar);
    case kPlaneBox:
      return plane_box_adjoint(a, b, slot, out_bar, a_bar, b_bar);
    case kPlaneCylinder:
      return plane_cylinder_adjoint(a, b, slot, out_bar, a_bar, b_bar);
    case kPlaneEllipsoid:
      return plane_ellipsoid_adjoint(a, b, out_bar, a_bar, b_bar);
    case kPlaneMesh:
      return plane_mesh_adjoint(a, b, slot, out_bar, a_bar, b_bar);
    case kSphereSphere:
      return sphere_sphere_adjoint(a, b, out_bar, a_bar, b_bar);
    case kSphereCapsule:
      return sphere_capsule_adjoint(a, b, out_bar, a_bar, b_bar);
    case kSphereBox:
      return sphere_box_adjoint(a, b, out_bar, a_bar, b_bar);
    case kCapsuleCapsule:
      return capsule_capsule_adjoint(a, b, slot, out_bar, a_bar, b_bar);
    case kCapsuleBox:
      return capsule_box_adjoint(a, b, slot, out_bar, a_bar, b_bar);
    default:
      return;
  }
}
// given the cotangents of some touches of a pair, add to
// a_bar, b_bar; a cotangent of zero adds exactly zero
template <class T>
FB_OUTLINE void collide_adjoint(int kind, const Shape<T>& a, const Shape<T>& b,
                                const SlotBars<T>& bars, ShapeBar<T>& a_bar, ShapeBar<T>& b_bar) {
  if (kind == kBoxBox) return box_box_adjoint(a, b, bars, a_bar, b_bar);
  for (int i = 0; i < bars.count; ++i)
    slot_adjoint(kind, a, b, bars.slot[i], bars.bar[i], a_bar, b_bar);
}

}  // namespace fb::FB_ISA
