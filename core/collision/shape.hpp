// Shapes, touches and the vocabulary of the pair functions.  Proof: docs/derivations/collision.md.
#pragma once
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

// pose in common world-aligned axes; sizes [m] as in MuJoCo: sphere (radius), capsule and cylinder
// (radius, half length along local z), box (half extents), ellipsoid (semi-axes).  A plane is
// infinite, passes through p and has R's third column as normal.  A mesh is the hull of nvert
// vertices in its own frame, which lie behind the mesh's own numbers (mesh.hpp) and are the same in
// every lane; its size is how far it is stretched along the file's axes, zero as compiled.
template <class T>
struct Shape {
  ShapeType type;
  Vec3<T> p;
  Mat3<T> R;
  Vec3<T> size;
  const Real<T>* vert;
  int nvert;
};

// phi: gap [m], > 0 apart; n: unit normal from A to B; p: midway between the two surfaces; on:
// whether the slot carries a candidate.  The numbers of a slot that is off are finite and mean
// nothing.
template <class T>
struct ContactPoint {
  T phi;
  Vec3<T> n, p;
  Mask<T> active;
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
// touch, which moves with both: given one, add both
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

// cotangent of one slot of a pair
template <class T>
struct SlotBar {
  int slot;
  ContactPointBar<T> bar;
};
// cotangents of some contact points of one pair
template <class T>
struct SlotBars {
  int count;
  SlotBar<T> at[kMaxSlots];
};
template <class T>
FB_INLINE void add_slot(SlotBars<T>& x, int slot, const ContactPointBar<T>& bar) {
  x.at[x.count++] = {slot, bar};
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

// unit vector along v, or the fallback where v has no
// direction (its length is then zero and has no derivative)
template <class T>
FB_INLINE Direction<T> direction(Vec3<T> v, Vec3<T> fallback) {
  const T square = dot(v, v);
  const Mask<T> known = square > T(kNoLength<T>);
  const T length = sqrt(select(known, square, T(0)));
  const T inverse = T(1) / select(known, length, T(1));
  return {select(known, v * inverse, fallback), length};
}

// (C.19)  from the bars of (u, length) to v and the fallback: v_bar += (u_bar - u (u . u_bar)) /
// |v|
// + u length_bar
template <class T>
FB_INLINE void direction_adjoint(Vec3<T> v, const Direction<T>& out_bar, Vec3<T>& v_bar,
                                 Vec3<T>& fallback_bar) {
  const T square = dot(v, v);
  const Mask<T> known = square > T(kNoLength<T>);
  const T inverse = T(1) / sqrt(select(known, square, T(1)));
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

// given out_bar, add to x_bar, or where x is held to h_bar
template <class T>
FB_INLINE void hold_within_adjoint(T x, T h, T out_bar, T& x_bar, T& h_bar) {
  const T o = T(0);
  const Mask<T> below = x<-h, above = x> h;
  x_bar += select(below | above, o, out_bar);
  h_bar += select(below, -out_bar, select(above, out_bar, o));
}

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

// (C.8)  two balls: n = (cb - ca) / |cb - ca|, phi = |cb - ca| - ra - rb, p = ca + (ra + phi / 2) n
template <class T>
FB_INLINE ContactPoint<T> touch_of_balls(Vec3<T> ca, T ra, Vec3<T> cb, T rb, Vec3<T> fallback) {
  const Direction<T> d = direction(cb - ca, fallback);
  const T phi = d.length - ra - rb;
  return {phi, d.u, ca + d.u * (ra + phi * Real<T>(0.5)), Mask<T>(true)};
}

// (C.21)  given out_bar, add to bars
template <class T>
FB_INLINE void touch_of_balls_adjoint(Vec3<T> ca, T ra, Vec3<T> cb, T rb, Vec3<T> fallback,
                                      const ContactPointBar<T>& out_bar, BallsBar<T>& bars) {
  const Direction<T> d = direction(cb - ca, fallback);
  const T along = dot(out_bar.p, d.u), step_scale = (d.length + ra - rb) * Real<T>(0.5);
  const T length_bar = mul_add(along, T(Real<T>(0.5)), out_bar.phi);
  Vec3<T> arm_bar = zero3<T>();
  direction_adjoint(cb - ca, {mul_add(out_bar.p, step_scale, out_bar.n), length_bar}, arm_bar,
                    bars.fallback);
  bars.ca += out_bar.p - arm_bar;
  bars.cb += arm_bar;
  bars.ra += along - length_bar;
  bars.rb -= length_bar;
}

}  // namespace fb::FB_ISA
