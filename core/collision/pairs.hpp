// Shape pairs -> gaps, normals, contact points: one function per pair of shapes, chosen by kind.
// The table of pairs is FB_PAIRS in core/model/schema.hpp; shape.hpp says what goes in and out.
// Proof: docs/derivations/collision.md.
#pragma once
#include "core/collision/box_box.hpp"
#include "core/collision/capsule_box.hpp"
#include "core/collision/convex.hpp"
#include "core/collision/hfield.hpp"
#include "core/collision/plane.hpp"

namespace fb::FB_ISA {

// writes pair_slots(kind) contact points; A has the smaller shape type.  A search may end where no gap
// is smaller than far, and need not begin where it is kNoReach
template <class T>
FB_OUTLINE void collide(int kind, const Shape<T>& a, const Shape<T>& b, T far,
                        ContactPoint<T>* out) {
  switch (kind) {
#define FB_X(kind, shape_a, shape_b, slots, function)     \
  case kind:                                              \
    if constexpr (requires { function(a, b, far, out); }) \
      return function(a, b, far, out);                    \
    else                                                  \
      return function(a, b, out);
    FB_PAIRS(FB_X)
#undef FB_X
    default:
      return;
  }
}

// given the cotangents of some contact points of a pair and what carried them, add to a_bar, b_bar;
// a cotangent of zero adds exactly zero.  The adjoint of a pair takes one slot, or all of them
template <class T>
FB_OUTLINE void collide_adjoint(int kind, const Shape<T>& a, const Shape<T>& b,
                                const SlotBars<T>& bars, ShapeBar<T>& a_bar, ShapeBar<T>& b_bar) {
  switch (kind) {
#define FB_X(kind, shape_a, shape_b, slots, function)                                          \
  case kind:                                                                                   \
    if constexpr (requires { function##_adjoint(a, b, bars, a_bar, b_bar); })                  \
      return function##_adjoint(a, b, bars, a_bar, b_bar);                                     \
    else                                                                                       \
      for (int i = 0; i < bars.count; ++i) function##_adjoint(a, b, bars.at[i], a_bar, b_bar); \
    return;
    FB_PAIRS(FB_X)
#undef FB_X
    default:
      return;
  }
}

}  // namespace fb::FB_ISA
