// Pair functions that run one world at a time, since the branches of one world do not suit another:
// lanes take their turns.
#pragma once
#include "core/collision/shape.hpp"

namespace fb::FB_ISA {

// the number type of one world of T
template <class T>
struct OneWorld {
  using type = T;
};
template <class T>
using OneWorldOf = typename OneWorld<T>::type;
template <class T>
inline constexpr bool kIsOneWorld = kLanes<T> == 1 && sizeof(OneWorldOf<T>) == sizeof(T);

// read_world, write_world: world k of what holds several
FB_INLINE void write_world(double& a, int, double v) { a = v; }
FB_INLINE void write_world(float& a, int, float v) { a = v; }
template <class S>
FB_INLINE void write_world(Dual<S>& a, int, Dual<S> v) {
  a = v;
}
#ifndef __CUDACC__
template <class R, int W>
struct OneWorld<Lane<R, W>> {
  using type = R;
};
template <class R, int W>
struct OneWorld<Dual<Lane<R, W>>> {
  using type = Dual<R>;
};
template <class R, int W>
FB_INLINE R read_world(const Lane<R, W>& a, int k) {
  return a.x[k];
}
template <class R, int W>
FB_INLINE Dual<R> read_world(const Dual<Lane<R, W>>& a, int k) {
  return {a.v.x[k], a.d.x[k]};
}
template <class R, int W>
FB_INLINE void write_world(Lane<R, W>& a, int k, R v) {
  a.x[k] = v;
}
template <class R, int W>
FB_INLINE void write_world(Dual<Lane<R, W>>& a, int k, Dual<R> v) {
  a.v.x[k] = v.v;
  a.d.x[k] = v.d;
}
template <class T, class S = OneWorldOf<T>>
FB_INLINE Vec3<S> read_world(const Vec3<T>& a, int k) {
  return {read_world(a.x, k), read_world(a.y, k), read_world(a.z, k)};
}
template <class T, class S = OneWorldOf<T>>
FB_INLINE Shape<S> read_world(const Shape<T>& a, int k) {
  Shape<S> s{a.type, read_world(a.p, k), {}, read_world(a.size, k), a.vert, a.nvert, a.hull};
  for (int e = 0; e < 9; ++e) s.R.a[e] = read_world(a.R.a[e], k);
  return s;
}
template <class T, class S = OneWorldOf<T>>
FB_INLINE ContactPointBar<S> read_world(const ContactPointBar<T>& a, int k) {
  return {read_world(a.phi, k), read_world(a.n, k), read_world(a.p, k)};
}
template <class T, class S = OneWorldOf<T>>
FB_INLINE ShapeBar<S> read_world(const ShapeBar<T>& a, int k) {
  return {{read_world(a.pose.ang, k), read_world(a.pose.lin, k)}, read_world(a.size, k)};
}
#endif
template <class T, class S>
FB_INLINE void write_world(Vec3<T>& a, int k, const Vec3<S>& v) {
  write_world(a.x, k, v.x);
  write_world(a.y, k, v.y);
  write_world(a.z, k, v.z);
}
template <class T, class S>
FB_INLINE void write_world(ShapeBar<T>& a, int k, const ShapeBar<S>& v) {
  write_world(a.pose.ang, k, v.pose.ang);
  write_world(a.pose.lin, k, v.pose.lin);
  write_world(a.size, k, v.size);
}
template <class T, class S = OneWorldOf<T>>
FB_INLINE Feature<S> read_world(const Feature<T>& a, int k) {
  Feature<S> f;
  f.kind = bits_at(a.kind, k);
  for (int i = 0; i < kFeatureIds; ++i) f.id[i] = bits_at(a.id[i], k);
  return f;
}
template <class T, class S>
FB_INLINE void write_world(Feature<T>& a, int k, const Feature<S>& v) {
  set_bits(a.kind, k, v.kind);
  for (int i = 0; i < kFeatureIds; ++i) set_bits(a.id[i], k, v.id[i]);
}
template <class T, class S>
FB_INLINE void write_world(ContactPoint<T>& a, int k, const ContactPoint<S>& v) {
  write_world(a.phi, k, v.phi);
  write_world(a.n, k, v.n);
  write_world(a.p, k, v.p);
  set_mask_lane(a.active, k, v.active);
  write_world(a.feature, k, v.feature);
}

template <class T>
FB_INLINE bool is_nothing(const Vec3<T>& x) {
  return is_nothing(x.x) && is_nothing(x.y) && is_nothing(x.z);
}
template <class T>
FB_INLINE bool is_nothing(const ContactPointBar<T>& x) {
  return is_nothing(x.phi) && is_nothing(x.n) && is_nothing(x.p);
}

// no contact points
template <int kSlots, class T>
FB_INLINE void clear_points(const Shape<T>& a, ContactPoint<T>* out) {
  for (int k = 0; k < kSlots; ++k)
    out[k] = {T(0), column(a.R, 2), a.p, Mask<T>(false), no_feature<T>()};
}
// the pair function `one` of one world, in each world of T but those that do not look for contacts
template <int kSlots, class T, class F>
FB_INLINE void collide_worlds(const Shape<T>& a, const Shape<T>& b, T far, ContactPoint<T>* out,
                              F one) {
  if constexpr (kIsOneWorld<T>) {
    one(a, b, far, out);
  } else {
    ContactPoint<OneWorldOf<T>> own[kSlots];
    clear_points<kSlots>(a, out);
    for (int k = 0; k < kLanes<T>; ++k) {
      const auto reach = read_world(far, k);
      if (primal(reach) == Real<T>(kNoReach)) continue;
      one(read_world(a, k), read_world(b, k), reach, own);
      for (int j = 0; j < kSlots; ++j) write_world(out[j], k, own[j]);
    }
  }
}

// its adjoint `one`: slots and worlds without a cotangent are passed over
template <class T, class F>
FB_INLINE void collide_worlds_adjoint(const Shape<T>& a, const Shape<T>& b, const SlotBars<T>& bars,
                                      ShapeBar<T>& a_bar, ShapeBar<T>& b_bar, F one) {
  using S = OneWorldOf<T>;
  if constexpr (kIsOneWorld<T>) {
    bool nothing = true;
    for (int i = 0; i < bars.count; ++i) nothing = nothing && is_nothing(bars.at[i].bar);
    if (!nothing) one(a, b, bars, a_bar, b_bar);
  } else {
    SlotBars<S> own;
    for (int k = 0; k < kLanes<T>; ++k) {
      own.count = 0;
      for (int i = 0; i < bars.count; ++i) {
        const SlotBar<T>& x = bars.at[i];
        const ContactPointBar<S> bar = read_world(x.bar, k);
        if (!is_nothing(bar)) add_slot(own, x.slot, read_world(x.feature, k), bar);
      }
      if (own.count == 0) continue;
      ShapeBar<S> own_a = read_world(a_bar, k), own_b = read_world(b_bar, k);
      one(read_world(a, k), read_world(b, k), own, own_a, own_b);
      write_world(a_bar, k, own_a);
      write_world(b_bar, k, own_b);
    }
  }
}

}  // namespace fb::FB_ISA
