// Shapes, contact points and the vocabulary of the pair functions.
// Proof: docs/derivations/collision.md.
#pragma once
#include "core/collision/feature.hpp"
#include "core/model/mesh.hpp"
#include "core/model/schema.hpp"
#include "core/number/lane.hpp"

// a function that is compiled once per number type, so that every caller runs the same instructions
#ifdef __CUDACC__
#define FB_OUTLINE __host__ __device__ __noinline__
#else
#define FB_OUTLINE __attribute__((noinline))
#endif

namespace fb::FB_ISA {

// type; pose in common world-aligned axes; sizes [m] as in MuJoCo: sphere (radius), capsule and
// cylinder (radius, half length along local z), box (half extents), ellipsoid (semi-axes).  A plane is
// infinite, passes through p and has R's third column as normal.  A mesh is the hull of nvert vertices
// in its own frame, which lie behind the mesh's own numbers (mesh.hpp) and are the same in every lane;
// its size is how far it is stretched along the file's axes, zero as compiled; hull: its neighbours
// and faces (convex_shape.hpp).
template <class T>
struct Shape {
  ShapeType type;
  Vec3<T> p;
  Mat3<T> R;
  Vec3<T> size;
  const Real<T>* vert;
  int nvert;
  const int32_t* hull;
};

// phi: gap [m], > 0 apart; n: unit normal from A to B; p: midway between the two surfaces; active:
// whether the slot carries a candidate; feature: what carries it.  The numbers of a slot that is not
// active are finite and mean nothing.
template <class T>
struct ContactPoint {
  T phi;
  Vec3<T> n, p;
  Mask<T> active;
  Feature<T> feature;
};

// pose: wrench about the common origin, paired with the world twist that moves the whole shape
template <class T>
struct ShapeBar {
  Force<T> pose;
  Vec3<T> size;
};
template <class T>
struct ContactPointBar {
  T phi;
  Vec3<T> n, p;
};

// a point that moves with a shape: a twist (w, v) moves it by v + w x x
template <class T>
FB_INLINE void add_point(ShapeBar<T>& bar, Vec3<T> x, Vec3<T> x_bar) {
  bar.pose += Force<T>{cross(x, x_bar), x_bar};
}
// a direction that moves with a shape: a twist (w, v) moves it by w x u
template <class T>
FB_INLINE void add_direction(ShapeBar<T>& bar, Vec3<T> u, Vec3<T> u_bar) {
  bar.pose.ang += cross(u, u_bar);
}
// (C.20)  the wrenches of A and B sum to that of the
// contact point, which moves with both: given one, add both
template <class T>
FB_INLINE void share_wrench(const ContactPoint<T>& at, const ContactPointBar<T>& out_bar,
                            Force<T> one, ShapeBar<T>& one_bar, ShapeBar<T>& other_bar) {
  one_bar.pose += one;
  other_bar.pose += Force<T>{cross(at.n, out_bar.n) + cross(at.p, out_bar.p), out_bar.p} - one;
}

// the number of slots a pair function writes
FB_INLINE constexpr int pair_slots(int kind) {
  switch (kind) {
#define FB_X(kind, a, b, slots, function) \
  case kind:                              \
    return slots;
    FB_PAIRS(FB_X)
#undef FB_X
    default:
      return 0;
  }
}
FB_INLINE constexpr int most_slots() {
  int n = 0;
  for (int kind = 0; kind < kPairKinds; ++kind) n = pair_slots(kind) > n ? pair_slots(kind) : n;
  return n;
}
inline constexpr int kMaxSlots = most_slots();

// the gap up to which a world looks for contacts, and that of worlds which do not
inline constexpr double kNoReach = -1e30;
template <class T>
FB_INLINE T reach_where(Mask<T> near, T far) {
  return select(near, far, T(Real<T>(kNoReach)));
}

// cotangent of one slot of a pair, and what carried it
template <class T>
struct SlotBar {
  int slot;
  Feature<T> feature;
  ContactPointBar<T> bar;
};
// cotangents of some contact points of one pair
template <class T>
struct SlotBars {
  int count;
  SlotBar<T> at[kMaxSlots];
};
template <class T>
FB_INLINE void add_slot(SlotBars<T>& x, int slot, const Feature<T>& feature,
                        const ContactPointBar<T>& bar) {
  x.at[x.count++] = {slot, feature, bar};
}

// corner k of a box: bit i of k chooses the positive side along axis i
template <class T>
FB_INLINE Vec3<T> box_corner(const Shape<T>& b, int k) {
  const Vec3<T> x = column(b.R, 0) * b.size.x, y = column(b.R, 1) * b.size.y;
  const Vec3<T> z = column(b.R, 2) * b.size.z;
  return b.p + (((k & 1) ? x : -x) + ((k & 2) ? y : -y) + ((k & 4) ? z : -z));
}

// (C.23)  given x_bar, add to b_bar: a corner moves with
// the box, and along each axis with its half extent
template <class T>
FB_INLINE void box_corner_adjoint(const Shape<T>& b, int k, Vec3<T> x_bar, ShapeBar<T>& b_bar) {
  const Vec3<T> along = mul_transposed(b.R, x_bar);
  add_point(b_bar, box_corner(b, k), x_bar);
  b_bar.size += Vec3<T>{(k & 1) ? along.x : -along.x, (k & 2) ? along.y : -along.y,
                        (k & 4) ? along.z : -along.z};
}

// component by component
template <class T>
FB_INLINE Vec3<T> scaled(Vec3<T> a, Vec3<T> s) {
  return {a.x * s.x, a.y * s.y, a.z * s.z};
}

// a vector whose squared length is below this has no direction
template <class T>
inline constexpr Real<T> kNoLength = Real<T>(1e-30);

template <class T>
struct Direction {
  Vec3<T> u;
  T length;
};

// whether v has a direction
template <class T>
FB_INLINE Mask<T> has_direction(Vec3<T> v) {
  return dot(v, v) > T(kNoLength<T>);
}

// unit vector along v, or the fallback where it is not known to have a direction (its length is then
// zero and has no derivative)
template <class T>
FB_INLINE Direction<T> direction(Vec3<T> v, Mask<T> known, Vec3<T> fallback) {
  const T length = sqrt(select(known, dot(v, v), T(0)));
  const T inverse = T(1) / select(known, length, T(1));
  return {select(known, v * inverse, fallback), length};
}

// (C.19)  from the bars of (u, length) to v and the fallback:
// v_bar += (u_bar - u (u . u_bar)) / |v| + u length_bar
template <class T>
FB_INLINE void direction_adjoint(Vec3<T> v, Mask<T> known, const Direction<T>& out_bar,
                                 Vec3<T>& v_bar, Vec3<T>& fallback_bar) {
  const T inverse = T(1) / sqrt(select(known, dot(v, v), T(1)));
  const Vec3<T> u = v * inverse;
  const Vec3<T> turn = (out_bar.u - u * dot(u, out_bar.u)) * inverse;
  v_bar += select(known, mul_add(u, out_bar.length, turn), zero3<T>());
  fallback_bar += select(known, zero3<T>(), out_bar.u);
}

// x held within [-h, h]
template <class T>
FB_INLINE T hold_within(T x, T h) {
  return clamp(x, -h, h);
}

// the bound that holds a number within [-h, h]; two bits of a feature
template <class T>
struct Held {
  Mask<T> below, above;
};
template <class T>
FB_INLINE Held<T> held_by(T x, T h) {
  return {x<-h, x> h};
}
template <class T>
FB_INLINE Bits<T> held_bits(const Held<T>& held, int shift) {
  return bits_where(held.below, 1u << shift) | bits_where(held.above, 2u << shift);
}
template <class T>
FB_INLINE Held<T> held_at(Bits<T> bits, int shift) {
  return {has_bits(bits, 1u << shift), has_bits(bits, 2u << shift)};
}

// x, or the bound that holds it
template <class T>
FB_INLINE T hold_within(T x, T h, const Held<T>& held) {
  return select(held.below, -h, select(held.above, h, x));
}

// given out_bar, add to x_bar, or where x is held to h_bar
template <class T>
FB_INLINE void hold_within_adjoint(const Held<T>& held, T out_bar, T& x_bar, T& h_bar) {
  const T o = T(0);
  x_bar += select(held.below | held.above, o, out_bar);
  h_bar += select(held.below, -out_bar, select(held.above, out_bar, o));
}

template <class T>
struct CollisionBall {
  Vec3<T> c;
  T r;
};

// cotangents of two balls and of the direction in which they part when they are concentric
template <class T>
struct BallsBar {
  Vec3<T> ca, cb, fallback;
  T ra, rb;
};

template <class T>
FB_INLINE BallsBar<T> zero_balls_bar() {
  return {zero3<T>(), zero3<T>(), zero3<T>(), T(0), T(0)};
}

// feature of two balls: they are concentric
inline constexpr uint32_t kConcentric = 1;

// (C.8)  two balls: n = (cb - ca) / |cb - ca|, phi = |cb - ca| - ra - rb, p = ca + (ra + phi / 2) n
template <class T>
FB_INLINE ContactPoint<T> touch_of_balls(const CollisionBall<T>& a, const CollisionBall<T>& b,
                                         Vec3<T> fallback) {
  const Mask<T> apart = has_direction(b.c - a.c);
  const Direction<T> d = direction(b.c - a.c, apart, fallback);
  const T phi = d.length - a.r - b.r;
  return {phi, d.u, a.c + d.u * (a.r + phi * Real<T>(0.5)), Mask<T>(true),
          make_feature<T>(bits_where(!apart, kConcentric))};
}

// (C.21)  given out_bar, add to bars
template <class T>
FB_INLINE void touch_of_balls_adjoint(const CollisionBall<T>& a, const CollisionBall<T>& b,
                                      Vec3<T> fallback, Bits<T> kind,
                                      const ContactPointBar<T>& out_bar, BallsBar<T>& bars) {
  const Mask<T> apart = !has_bits(kind, kConcentric);
  const Direction<T> d = direction(b.c - a.c, apart, fallback);
  const T along = dot(out_bar.p, d.u), reach = (d.length + a.r - b.r) * Real<T>(0.5);
  const T length_bar = mul_add(along, T(Real<T>(0.5)), out_bar.phi);
  Vec3<T> arm_bar = zero3<T>();
  direction_adjoint(b.c - a.c, apart, {mul_add(out_bar.p, reach, out_bar.n), length_bar}, arm_bar,
                    bars.fallback);
  bars.ca += out_bar.p - arm_bar;
  bars.cb += arm_bar;
  bars.ra += along - length_bar;
  bars.rb -= length_bar;
}

}  // namespace fb::FB_ISA
