// Any two convex shapes, for one world at a time: the search gives records, from which values and
// adjoints are computed.  Proof: docs/derivations/convex.md.
#pragma once
#include "core/collision/convex_manifold.hpp"

namespace fb::FB_ISA {

template <class T>
FB_INLINE Vec3<T> lifted3(Vec3<Real<T>> v) {
  return {T(v.x), T(v.y), T(v.z)};
}
template <class T>
FB_INLINE ConvexShapes<T> convex_shapes(const Shape<T>& a, const Shape<T>& b) {
  return {convex_of(a, a.p), convex_of(b, a.p)};
}

// one world: the slots of shapes nearer than far
template <class T>
FB_OUTLINE void convex_one(const Shape<T>& a, const Shape<T>& b, T far, ContactPoint<T>* out) {
  using R = Real<T>;
  ConvexSlots<R> slots;
  const ConvexShapes<R> plainly = convex_shapes(plain(a), plain(b));
  convex_slots(plainly, plain(far), slots);
  for (int k = slots.n; k < kMostPoints; ++k)
    out[k] = {T(0), column(a.R, 2), a.p, false, no_feature<T>()};
  for (int k = 0; k < slots.n; ++k) {
    const ConvexSlot<R>& s = slots.at[k];
    const Feature<T> feature = feature_of<T>(s.record, s.near);
    if constexpr (!std::is_same_v<T, R>) {
      const ConvexShapes<T> w = convex_shapes(a, b);
      SlotState<T> z;
      Vec3<R> near;
      record_at(feature.kind, feature.id, near);
      solve_slot(w, s.record, lifted3<T>(near), z);
      out[k] = slot_point(w, s.record, z, a.p);
    } else {
      out[k] = slot_point(plainly, s.record, s.state, a.p);
    }
    out[k].feature = feature;
  }
}

// (CV.13), (CV.14)  given the bars of some slots, add to a_bar, b_bar
template <class T>
FB_OUTLINE void convex_one_adjoint(const Shape<T>& a, const Shape<T>& b, const SlotBars<T>& bars,
                                   ShapeBar<T>& a_bar, ShapeBar<T>& b_bar) {
  const ConvexShapes<T> w = convex_shapes(a, b);
  for (int i = 0; i < bars.count; ++i) {
    const SlotBar<T>& given = bars.at[i];
    if (is_nothing(given.bar)) continue;
    Vec3<Real<T>> near;
    const SlotRecord r = record_at(given.feature.kind, given.feature.id, near);
    SlotState<T> z;
    solve_slot(w, r, lifted3<T>(near), z);
    slot_adjoint(w, r, z, given.bar, a.p, a_bar, b_bar);
  }
}

// lanes take their turns
template <class T>
FB_OUTLINE void convex_convex(const Shape<T>& a, const Shape<T>& b, T far, ContactPoint<T>* out) {
  collide_worlds<kMostPoints>(
      a, b, far, out,
      [](const auto& a, const auto& b, auto far, auto* out) { convex_one(a, b, far, out); });
}

// given the bars of some slots, add to a_bar, b_bar
template <class T>
FB_OUTLINE void convex_convex_adjoint(const Shape<T>& a, const Shape<T>& b, const SlotBars<T>& bars,
                                      ShapeBar<T>& a_bar, ShapeBar<T>& b_bar) {
  collide_worlds_adjoint(a, b, bars, a_bar, b_bar,
                         [](const auto& a, const auto& b, const auto& bars, auto& a_bar,
                            auto& b_bar) { convex_one_adjoint(a, b, bars, a_bar, b_bar); });
}

}  // namespace fb::FB_ISA
