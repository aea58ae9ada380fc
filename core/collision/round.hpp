// Spheres and capsules against each other, and a point against
// a box.  Branch-free.  Proof: docs/derivations/collision.md.
#pragma once
#include "core/collision/shape.hpp"

namespace fb::FB_ISA {

// (C.8)  concentric spheres part along A's local z
template <class T>
FB_INLINE void sphere_sphere(const Shape<T>& a, const Shape<T>& b, ContactPoint<T>* out) {
  out[0] = touch_of_balls(a.p, a.size.x, b.p, b.size.x, column(a.R, 2));
}

// given out_bar, add to a_bar, b_bar
template <class T>
FB_INLINE void sphere_sphere_adjoint(const Shape<T>& a, const Shape<T>& b, const SlotBar<T>& given,
                                     ShapeBar<T>& a_bar, ShapeBar<T>& b_bar) {
  const ContactPointBar<T>& out_bar = given.bar;
  const Vec3<T> fallback = column(a.R, 2);
  BallsBar<T> balls = zero_balls_bar<T>();
  touch_of_balls_adjoint(a.p, a.size.x, b.p, b.size.x, fallback, out_bar, balls);
  add_point(a_bar, a.p, balls.ca);
  add_direction(a_bar, fallback, balls.fallback);
  add_point(b_bar, b.p, balls.cb);
  a_bar.size.x += balls.ra;
  b_bar.size.x += balls.rb;
}

// (C.9)  the ball around the nearest point of the segment; a centre on the segment parts along the
// capsule's local x
template <class T>
FB_INLINE void sphere_capsule(const Shape<T>& a, const Shape<T>& b, ContactPoint<T>* out) {
  const Vec3<T> axis = column(b.R, 2);
  const T t = hold_within(dot(axis, a.p - b.p), b.size.y);
  out[0] = touch_of_balls(a.p, a.size.x, b.p + axis * t, b.size.x, column(b.R, 0));
}

// (C.28)  given out_bar, add to a_bar, b_bar
template <class T>
FB_INLINE void sphere_capsule_adjoint(const Shape<T>& a, const Shape<T>& b, const SlotBar<T>& given,
                                      ShapeBar<T>& a_bar, ShapeBar<T>& b_bar) {
  const ContactPointBar<T>& out_bar = given.bar;
  const Vec3<T> axis = column(b.R, 2), side = column(b.R, 0), arm = a.p - b.p;
  const T along = dot(axis, arm), t = hold_within(along, b.size.y);
  BallsBar<T> balls = zero_balls_bar<T>();
  touch_of_balls_adjoint(a.p, a.size.x, b.p + axis * t, b.size.x, side, out_bar, balls);

  T along_bar = T(0);
  hold_within_adjoint(along, b.size.y, dot(axis, balls.cb), along_bar, b_bar.size.y);
  const Vec3<T> arm_bar = axis * along_bar;
  add_point(a_bar, a.p, balls.ca + arm_bar);
  add_point(b_bar, b.p, balls.cb - arm_bar);
  add_direction(b_bar, axis, balls.cb * t + arm * along_bar);
  add_direction(b_bar, side, balls.fallback);
  a_bar.size.x += balls.ra;
  b_bar.size.x += balls.rb;
}

// sines of the angle between two capsules: one touch above the second, two below the first, a
// smooth split between
inline constexpr double kParallel = 0.02, kCrossed = 0.05;

// 1 for parallel axes, 0 for crossed ones, from the squared sine of their angle
template <class T>
FB_INLINE T parallel_weight(T sine_squared) {
  using R = Real<T>;
  constexpr double lo = kParallel * kParallel, hi = kCrossed * kCrossed;
  const T t = clamp((T(R(hi)) - sine_squared) * R(1 / (hi - lo)), T(0), T(1));
  return t * t * (T(3) - t * R(2));
}

// (C.29)  given out_bar, add to sine_squared_bar; a clamped t has slope zero
template <class T>
FB_INLINE void parallel_weight_adjoint(T sine_squared, T out_bar, T& sine_squared_bar) {
  using R = Real<T>;
  constexpr double lo = kParallel * kParallel, hi = kCrossed * kCrossed;
  const T t = clamp((T(R(hi)) - sine_squared) * R(1 / (hi - lo)), T(0), T(1));
  sine_squared_bar -= out_bar * (t * (T(1) - t) * R(6 / (hi - lo)));
}

// two segments {p + s u}, |s| <= h, by what their closest points depend on: b = ua . ub, c = ua .
// arm, f = ub . arm with arm = p_A - p_B
template <class T>
struct SegmentPair {
  T b, c, f, ha, hb, sine_squared;
};
template <class T>
FB_INLINE SegmentPair<T> segment_pair(const Shape<T>& a, const Shape<T>& b) {
  const Vec3<T> ua = column(a.R, 2), ub = column(b.R, 2), arm = a.p - b.p, x = cross(ua, ub);
  return {dot(ua, ub), dot(ua, arm), dot(ub, arm), a.size.y, b.size.y, dot(x, x)};
}

// (C.10)  A's coordinate s of the closest pair of two segments
template <class T>
FB_INLINE T closest_on_segments(const SegmentPair<T>& x) {
  const Mask<T> crossed = x.sine_squared > T(Real<T>(1e-6));
  const T free = (x.b * x.f - x.c) / select(crossed, x.sine_squared, T(1));
  const T s = hold_within(select(crossed, free, T(0)), x.ha);
  const T t = hold_within(x.b * s + x.f, x.hb);
  return hold_within(x.b * t - x.c, x.ha);
}

// (C.30)  given out_bar, add to x_bar: the three clamps in reverse
template <class T>
FB_INLINE void closest_on_segments_adjoint(const SegmentPair<T>& x, T out_bar,
                                           SegmentPair<T>& x_bar) {
  const T o = T(0);
  const Mask<T> crossed = x.sine_squared > T(Real<T>(1e-6));
  const T square = select(crossed, x.sine_squared, T(1));
  const T free = select(crossed, (x.b * x.f - x.c) / square, o);
  const T s = hold_within(free, x.ha), beside = x.b * s + x.f, t = hold_within(beside, x.hb);

  T back_bar = o, beside_bar = o, free_bar = o;
  hold_within_adjoint(x.b * t - x.c, x.ha, out_bar, back_bar, x_bar.ha);
  hold_within_adjoint(beside, x.hb, x.b * back_bar, beside_bar, x_bar.hb);
  hold_within_adjoint(free, x.ha, x.b * beside_bar, free_bar, x_bar.ha);
  const T over = select(crossed, free_bar / square, o);
  x_bar.b += t * back_bar + s * beside_bar + x.f * over;
  x_bar.c -= back_bar + over;
  x_bar.f += beside_bar + x.b * over;
  x_bar.sine_squared -= free * over;
}

// (C.10)  A's coordinates s of both slots, and whether the second is
// on.  Crossed: the closest pair. Parallel: the ends of the stretch
// of A beside B, into which the closest pair splits continuously
template <class T>
struct CapsulePlaces {
  T s[2];
  Mask<T> split;
};
template <class T>
FB_INLINE CapsulePlaces<T> capsule_places(const SegmentPair<T>& x) {
  const T closest = closest_on_segments(x), w = parallel_weight(x.sine_squared);
  const T step_scale = abs(x.b) * x.hb, common = closest * (T(1) - w);
  const T lo = hold_within(-x.c - step_scale, x.ha), hi = hold_within(-x.c + step_scale, x.ha);
  return {{common + lo * w, common + hi * w}, Mask<T>((w > T(0)) & (hi > lo))};
}

// (C.31)  given out_bar, add to x_bar
template <class T>
FB_INLINE void capsule_places_adjoint(const SegmentPair<T>& x, int slot, T out_bar,
                                      SegmentPair<T>& x_bar) {
  const T closest = closest_on_segments(x), w = parallel_weight(x.sine_squared);
  const T side = T(slot == 0 ? -1 : 1), tilt = select(x.b < T(0), -side, side);
  const T beside = x.b * x.hb * tilt - x.c, end = hold_within(beside, x.ha);
  T beside_bar = T(0);
  hold_within_adjoint(beside, x.ha, out_bar * w, beside_bar, x_bar.ha);
  x_bar.c -= beside_bar;
  x_bar.b += x.hb * tilt * beside_bar;
  x_bar.hb += x.b * tilt * beside_bar;
  parallel_weight_adjoint(x.sine_squared, out_bar * (end - closest), x_bar.sine_squared);
  closest_on_segments_adjoint(x, out_bar * (T(1) - w), x_bar);
}

// (C.10)  two balls at s and the point of B nearest to it.  Axes that meet part along their cross
// product, or along A's local x if they are parallel.
template <class T>
FB_INLINE void capsule_capsule(const Shape<T>& a, const Shape<T>& b, ContactPoint<T>* out) {
  const Vec3<T> ua = column(a.R, 2), ub = column(b.R, 2), arm = a.p - b.p;
  const Vec3<T> fallback = direction(cross(ua, ub), column(a.R, 0)).u;
  const CapsulePlaces<T> places = capsule_places(segment_pair(a, b));
  for (int k = 0; k < 2; ++k) {
    const T s = places.s[k], t = hold_within(dot(ub, arm + ua * s), b.size.y);
    out[k] = touch_of_balls(a.p + ua * s, a.size.x, b.p + ub * t, b.size.x, fallback);
  }
  out[1].active = places.split;
}

// (C.32)  given out_bar, add to a_bar, b_bar
template <class T>
FB_INLINE void capsule_capsule_adjoint(const Shape<T>& a, const Shape<T>& b,
                                       const SlotBar<T>& given, ShapeBar<T>& a_bar,
                                       ShapeBar<T>& b_bar) {
  const ContactPointBar<T>& out_bar = given.bar;
  const int slot = given.slot;
  const Vec3<T> ua = column(a.R, 2), ub = column(b.R, 2), arm = a.p - b.p, x = cross(ua, ub);
  const SegmentPair<T> pair = segment_pair(a, b);
  const T s = capsule_places(pair).s[slot];
  const Vec3<T> step_scale = arm + ua * s;
  const T beside = dot(ub, step_scale), t = hold_within(beside, b.size.y), o = T(0);
  BallsBar<T> balls = zero_balls_bar<T>();
  touch_of_balls_adjoint(a.p + ua * s, a.size.x, b.p + ub * t, b.size.x,
                         direction(x, column(a.R, 0)).u, out_bar, balls);

  // from the balls to t, s and the numbers of the pair of segments
  SegmentPair<T> pair_bar{o, o, o, o, o, o};
  T beside_bar = o;
  hold_within_adjoint(beside, b.size.y, dot(ub, balls.cb), beside_bar, pair_bar.hb);
  const Vec3<T> reach_bar = ub * beside_bar, point_bar = balls.ca + reach_bar;
  capsule_places_adjoint(pair, slot, dot(ua, point_bar), pair_bar);

  // from there to the axes and the arm
  Vec3<T> x_bar = x * (pair_bar.sine_squared * Real<T>(2)), side_bar = zero3<T>();
  direction_adjoint(x, {balls.fallback, o}, x_bar, side_bar);
  const Vec3<T> arm_bar = reach_bar + ua * pair_bar.c + ub * pair_bar.f;
  const Vec3<T> ua_bar = point_bar * s + ub * pair_bar.b + arm * pair_bar.c + cross(ub, x_bar);
  const Vec3<T> ub_bar =
      balls.cb * t + step_scale * beside_bar + ua * pair_bar.b + arm * pair_bar.f;
  add_point(a_bar, a.p, balls.ca + arm_bar);
  add_direction(a_bar, ua, ua_bar);
  add_direction(a_bar, column(a.R, 0), side_bar);
  add_point(b_bar, b.p, balls.cb - arm_bar);
  add_direction(b_bar, ub, ub_bar + cross(x_bar, ua));
  a_bar.size += Vec3<T>{balls.ra, pair_bar.ha, o};
  b_bar.size += Vec3<T>{balls.rb, pair_bar.hb, o};
}

// a point in the box frame: its signed distance from the surface and the outward normal there
template <class T>
struct BoxPoint {
  T distance;
  Vec3<T> n;
};

// (C.11)  outside: the distance to the nearest point; inside: minus the distance to the nearest
// face (x before y before z)
template <class T>
FB_INLINE BoxPoint<T> point_box(Vec3<T> x, Vec3<T> half) {
  const T o = T(0), e = T(1), m = T(-1);
  const Vec3<T> d{x.x - hold_within(x.x, half.x), x.y - hold_within(x.y, half.y),
                  x.z - hold_within(x.z, half.z)};
  const Vec3<T> depth{half.x - abs(x.x), half.y - abs(x.y), half.z - abs(x.z)};
  const Mask<T> y_first = depth.y < depth.x;
  const T xy = select(y_first, depth.y, depth.x);
  const Mask<T> z_first = depth.z < xy;
  const Vec3<T> nx{select(x.x < o, m, e), o, o}, ny{o, select(x.y < o, m, e), o};
  const Vec3<T> nz{o, o, select(x.z < o, m, e)};
  const Vec3<T> face = select(z_first, nz, select(y_first, ny, nx));
  const Mask<T> outside = dot(d, d) > T(kNoLength<T>);
  const Direction<T> away = direction(d, face);
  return {select(outside, away.length, -select(z_first, depth.z, xy)), away.u};
}

// (C.33)  given out_bar, add to x_bar, half_bar; a component within its slab has no part in n
template <class T>
FB_INLINE void point_box_adjoint(Vec3<T> x, Vec3<T> half, const BoxPoint<T>& out_bar,
                                 Vec3<T>& x_bar, Vec3<T>& half_bar) {
  const Vec3<T> n = point_box(x, half).n, none = zero3<T>();
  const Vec3<T> d{x.x - hold_within(x.x, half.x), x.y - hold_within(x.y, half.y),
                  x.z - hold_within(x.z, half.z)};
  Vec3<T> turn = none, fallback_bar = none;
  direction_adjoint(d, {out_bar.n, T(0)}, turn, fallback_bar);
  const Vec3<T> all = n * out_bar.distance + Vec3<T>{select(d.x == T(0), T(0), turn.x),
                                                     select(d.y == T(0), T(0), turn.y),
                                                     select(d.z == T(0), T(0), turn.z)};
  x_bar += all;
  half_bar -= Vec3<T>{select(n.x < T(0), -all.x, all.x), select(n.y < T(0), -all.y, all.y),
                      select(n.z < T(0), -all.z, all.z)};
}

// the touch of a ball at x (in the world) with a box, given the outward normal and the distance
// there in the box frame
template <class T>
FB_INLINE void ball_on_box(const Shape<T>& b, Vec3<T> x, T r, const BoxPoint<T>& at, Mask<T> on,
                           ContactPoint<T>& out) {
  const Vec3<T> n = -mul(b.R, at.n);
  const T phi = at.distance - r;
  out = {phi, n, x + n * (r + phi * Real<T>(0.5)), on};
}

// (C.34)  the box held still: given out_bar, add to x_bar (in the box frame), r_bar, at_bar
template <class T>
FB_INLINE void ball_on_box_adjoint(const Shape<T>& b, T r, const BoxPoint<T>& at,
                                   const ContactPointBar<T>& out_bar, Vec3<T>& x_bar, T& r_bar,
                                   BoxPoint<T>& at_bar) {
  const Vec3<T> p_bar = mul_transposed(b.R, out_bar.p), n_bar = mul_transposed(b.R, out_bar.n);
  const T along = -dot(p_bar, at.n), step_scale = (at.distance + r) * Real<T>(0.5);
  const T distance_bar = mul_add(along, T(Real<T>(0.5)), out_bar.phi);
  x_bar += p_bar;
  r_bar += along - distance_bar;
  at_bar.distance += distance_bar;
  at_bar.n -= mul_add(p_bar, step_scale, n_bar);
}

// (C.11)  the ball around the sphere's centre
template <class T>
FB_INLINE void sphere_box(const Shape<T>& a, const Shape<T>& b, ContactPoint<T>* out) {
  const BoxPoint<T> at = point_box(mul_transposed(b.R, a.p - b.p), b.size);
  ball_on_box(b, a.p, a.size.x, at, Mask<T>(true), out[0]);
}

// (C.35)  given out_bar, add to a_bar, b_bar: A's wrench in the box frame, then B's by (C.20)
template <class T>
FB_INLINE void sphere_box_adjoint(const Shape<T>& a, const Shape<T>& b, const SlotBar<T>& given,
                                  ShapeBar<T>& a_bar, ShapeBar<T>& b_bar) {
  const ContactPointBar<T>& out_bar = given.bar;
  const Vec3<T> x = mul_transposed(b.R, a.p - b.p);
  const BoxPoint<T> at = point_box(x, b.size);
  BoxPoint<T> at_bar{T(0), zero3<T>()};
  Vec3<T> x_bar = zero3<T>();
  ball_on_box_adjoint(b, a.size.x, at, out_bar, x_bar, a_bar.size.x, at_bar);
  point_box_adjoint(x, b.size, at_bar, x_bar, b_bar.size);
  ContactPoint<T> touch;
  ball_on_box(b, a.p, a.size.x, at, Mask<T>(true), touch);
  const Vec3<T> p_bar = mul(b.R, x_bar);
  share_wrench(touch, out_bar, Force<T>{cross(a.p, p_bar), p_bar}, a_bar, b_bar);
}

}  // namespace fb::FB_ISA
