// Spheres and capsules against each other, and a point against a box.  Branch-free, but for what no
// world needs.
// Proof: docs/derivations/collision.md.
#pragma once
#include "core/collision/shape.hpp"

namespace fb::FB_ISA {

// (C.8)  concentric spheres part along A's local z
template <class T>
FB_INLINE void sphere_sphere(const Shape<T>& a, const Shape<T>& b, ContactPoint<T>* out) {
  out[0] = touch_of_balls(CollisionBall<T>{a.p, a.size.x}, CollisionBall<T>{b.p, b.size.x},
                          column(a.R, 2));
}

// given out_bar, add to a_bar, b_bar
template <class T>
FB_INLINE void sphere_sphere_adjoint(const Shape<T>& a, const Shape<T>& b, const SlotBar<T>& given,
                                     ShapeBar<T>& a_bar, ShapeBar<T>& b_bar) {
  const Vec3<T> fallback = column(a.R, 2);
  BallsBar<T> balls = zero_balls_bar<T>();
  touch_of_balls_adjoint(CollisionBall<T>{a.p, a.size.x}, CollisionBall<T>{b.p, b.size.x}, fallback,
                         given.feature.kind, given.bar, balls);
  add_point(a_bar, a.p, balls.ca);
  add_direction(a_bar, fallback, balls.fallback);
  add_point(b_bar, b.p, balls.cb);
  a_bar.size.x += balls.ra;
  b_bar.size.x += balls.rb;
}

// feature of a sphere and a capsule: kConcentric, and from this bit on which end holds the nearest
// point of the segment
inline constexpr int kSegmentEnd = 1;

// (C.9)  the ball around the nearest point of the segment; a centre on the segment parts along the
// capsule's local x
template <class T>
FB_INLINE void sphere_capsule(const Shape<T>& a, const Shape<T>& b, ContactPoint<T>* out) {
  const Vec3<T> axis = column(b.R, 2);
  const T along = dot(axis, a.p - b.p);
  const Held<T> held = held_by(along, b.size.y);
  const T t = hold_within(along, b.size.y, held);
  out[0] = touch_of_balls(CollisionBall<T>{a.p, a.size.x},
                          CollisionBall<T>{b.p + axis * t, b.size.x}, column(b.R, 0));
  out[0].feature.kind = out[0].feature.kind | held_bits<T>(held, kSegmentEnd);
}

// (C.28)  given out_bar, add to a_bar, b_bar
template <class T>
FB_INLINE void sphere_capsule_adjoint(const Shape<T>& a, const Shape<T>& b, const SlotBar<T>& given,
                                      ShapeBar<T>& a_bar, ShapeBar<T>& b_bar) {
  const Vec3<T> axis = column(b.R, 2), side = column(b.R, 0), arm = a.p - b.p;
  const Held<T> held = held_at<T>(given.feature.kind, kSegmentEnd);
  const T along = dot(axis, arm), t = hold_within(along, b.size.y, held);
  BallsBar<T> balls = zero_balls_bar<T>();
  touch_of_balls_adjoint(CollisionBall<T>{a.p, a.size.x},
                         CollisionBall<T>{b.p + axis * t, b.size.x}, side, given.feature.kind,
                         given.bar, balls);

  // cb = p_B + t axis, t = axis . (p_A - p_B) or an end
  T along_bar = T(0);
  hold_within_adjoint(held, dot(axis, balls.cb), along_bar, b_bar.size.y);
  const Vec3<T> arm_bar = axis * along_bar;
  add_point(a_bar, a.p, balls.ca + arm_bar);
  add_point(b_bar, b.p, balls.cb - arm_bar);
  add_direction(b_bar, axis, balls.cb * t + arm * along_bar);
  add_direction(b_bar, side, balls.fallback);
  a_bar.size.x += balls.ra;
  b_bar.size.x += balls.rb;
}

// sines of the angle between two capsules: one contact point above the second, two below the first, a
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

// two segments {p + s u}, |s| <= h, by what their closest points depend on: b = ua . ub, c = ua . arm,
// f = ub . arm with arm = p_A - p_B
template <class T>
struct SegmentPair {
  T b, c, f, ha, hb, sine_squared;
};
template <class T>
FB_INLINE SegmentPair<T> segment_pair(const Shape<T>& a, const Shape<T>& b) {
  const Vec3<T> ua = column(a.R, 2), ub = column(b.R, 2), arm = a.p - b.p, x = cross(ua, ub);
  return {dot(ua, ub), dot(ua, arm), dot(ub, arm), a.size.y, b.size.y, dot(x, x)};
}

// what decides a slot of two capsules.  crossed: their lines have one closest pair; first, other,
// second: what holds A's, B's and again A's coordinate on the way to that of the segments; end: what
// holds the end of the stretch of A beside B; opposed: b < 0; nearest: what holds B's coordinate
template <class T>
struct CapsuleCase {
  Mask<T> crossed, opposed;
  Held<T> first, other, second, end, nearest;
};

// the bits of a feature after kConcentric: the axes have no common normal, then the case
inline constexpr uint32_t kNoNormal = 2, kLinesCross = 4, kOpposed = 8;
template <class T>
FB_INLINE Bits<T> capsule_bits(const CapsuleCase<T>& x) {
  return bits_where(x.crossed, kLinesCross) | bits_where(x.opposed, kOpposed) |
         held_bits<T>(x.first, 4) | held_bits<T>(x.other, 6) | held_bits<T>(x.second, 8) |
         held_bits<T>(x.end, 10) | held_bits<T>(x.nearest, 12);
}
template <class T>
FB_INLINE CapsuleCase<T> capsule_case(Bits<T> kind) {
  return {has_bits(kind, kLinesCross), has_bits(kind, kOpposed), held_at<T>(kind, 4),
          held_at<T>(kind, 6),         held_at<T>(kind, 8),      held_at<T>(kind, 10),
          held_at<T>(kind, 12)};
}

// (C.10)  A's coordinate of the closest pair of two lines, then A's, B's and again A's with each held
// within its segment
template <class T>
struct ClosestPair {
  T free, s, beside, t, back, closest;
};
template <class T>
FB_INLINE ClosestPair<T> closest_on_segments(const SegmentPair<T>& x, const CapsuleCase<T>& at) {
  ClosestPair<T> y;
  y.free = (x.b * x.f - x.c) / select(at.crossed, x.sine_squared, T(1));
  y.free = select(at.crossed, y.free, T(0));
  y.s = hold_within(y.free, x.ha, at.first);
  y.beside = x.b * y.s + x.f;
  y.t = hold_within(y.beside, x.hb, at.other);
  y.back = x.b * y.t - x.c;
  y.closest = hold_within(y.back, x.ha, at.second);
  return y;
}

// (C.30)  given out_bar, add to x_bar: the three clamps in reverse
template <class T>
FB_INLINE void closest_on_segments_adjoint(const SegmentPair<T>& x, const CapsuleCase<T>& at,
                                           T out_bar, SegmentPair<T>& x_bar) {
  const T o = T(0);
  const ClosestPair<T> y = closest_on_segments(x, at);
  T back_bar = o, beside_bar = o, free_bar = o;
  hold_within_adjoint(at.second, out_bar, back_bar, x_bar.ha);
  hold_within_adjoint(at.other, x.b * back_bar, beside_bar, x_bar.hb);
  hold_within_adjoint(at.first, x.b * beside_bar, free_bar, x_bar.ha);
  const T square = select(at.crossed, x.sine_squared, T(1));
  const T over = select(at.crossed, free_bar / square, o);
  x_bar.b += y.t * back_bar + y.s * beside_bar + x.f * over;
  x_bar.c -= back_bar + over;
  x_bar.f += beside_bar + x.b * over;
  x_bar.sine_squared -= y.free * over;
}

// an end of the stretch of A beside B, before it is held: -c -+ |b| hb
template <class T>
FB_INLINE T stretch_end(const SegmentPair<T>& x, int slot, Mask<T> opposed) {
  const T side = T(slot == 0 ? -1 : 1), tilt = select(opposed, -side, side);
  return x.b * x.hb * tilt - x.c;
}

// the case of A's coordinate: all but `nearest`
template <class T>
FB_INLINE CapsuleCase<T> find_capsule_case(const SegmentPair<T>& x, int slot) {
  CapsuleCase<T> at;
  at.nearest = at.first = at.other = at.second = {Mask<T>(false), Mask<T>(false)};
  at.crossed = x.sine_squared > T(Real<T>(1e-6));
  at.opposed = x.b < T(0);
  at.first = held_by(closest_on_segments(x, at).free, x.ha);
  at.other = held_by(closest_on_segments(x, at).beside, x.hb);
  at.second = held_by(closest_on_segments(x, at).back, x.ha);
  at.end = held_by(stretch_end(x, slot, at.opposed), x.ha);
  return at;
}

// (C.10)  A's coordinate of a slot.  Crossed: the closest pair.  Parallel: an end of the stretch of A
// beside B, into which the closest pair splits continuously
template <class T>
FB_INLINE T capsule_place(const SegmentPair<T>& x, int slot, const CapsuleCase<T>& at) {
  const T w = parallel_weight(x.sine_squared);
  const T end = hold_within(stretch_end(x, slot, at.opposed), x.ha, at.end);
  return closest_on_segments(x, at).closest * (T(1) - w) + end * w;
}

// (C.31)  given out_bar, add to x_bar
template <class T>
FB_INLINE void capsule_place_adjoint(const SegmentPair<T>& x, int slot, const CapsuleCase<T>& at,
                                     T out_bar, SegmentPair<T>& x_bar) {
  const T closest = closest_on_segments(x, at).closest, w = parallel_weight(x.sine_squared);
  const T side = T(slot == 0 ? -1 : 1), tilt = select(at.opposed, -side, side);
  const T end = hold_within(stretch_end(x, slot, at.opposed), x.ha, at.end);
  T beside_bar = T(0);
  hold_within_adjoint(at.end, out_bar * w, beside_bar, x_bar.ha);
  x_bar.c -= beside_bar;
  x_bar.b += x.hb * tilt * beside_bar;
  x_bar.hb += x.b * tilt * beside_bar;
  parallel_weight_adjoint(x.sine_squared, out_bar * (end - closest), x_bar.sine_squared);
  closest_on_segments_adjoint(x, at, out_bar * (T(1) - w), x_bar);
}

// (C.10)  two balls at s and the point of B nearest to it.  Axes that meet part along their cross
// product, or along A's local x if they are parallel.
template <class T>
FB_INLINE void capsule_capsule(const Shape<T>& a, const Shape<T>& b, ContactPoint<T>* out) {
  const Vec3<T> ua = column(a.R, 2), ub = column(b.R, 2), arm = a.p - b.p, x = cross(ua, ub);
  const Mask<T> known = has_direction(x);
  const Vec3<T> fallback = direction(x, known, column(a.R, 0)).u;
  const SegmentPair<T> pair = segment_pair(a, b);
  T end[2];
  for (int k = 0; k < 2; ++k) {
    CapsuleCase<T> at = find_capsule_case(pair, k);
    const T s = capsule_place(pair, k, at), beside = dot(ub, arm + ua * s);
    at.nearest = held_by(beside, b.size.y);
    const T t = hold_within(beside, b.size.y, at.nearest);
    out[k] = touch_of_balls(CollisionBall<T>{a.p + ua * s, a.size.x},
                            CollisionBall<T>{b.p + ub * t, b.size.x}, fallback);
    out[k].feature.kind = out[k].feature.kind | bits_where(!known, kNoNormal) | capsule_bits(at);
    end[k] = hold_within(stretch_end(pair, k, at.opposed), pair.ha, at.end);
  }
  out[1].active = Mask<T>((parallel_weight(pair.sine_squared) > T(0)) & (end[1] > end[0]));
}

// (C.32)  given out_bar, add to a_bar, b_bar
template <class T>
FB_INLINE void capsule_capsule_adjoint(const Shape<T>& a, const Shape<T>& b,
                                       const SlotBar<T>& given, ShapeBar<T>& a_bar,
                                       ShapeBar<T>& b_bar) {
  const Bits<T> kind = given.feature.kind;
  const Vec3<T> ua = column(a.R, 2), ub = column(b.R, 2), arm = a.p - b.p, x = cross(ua, ub);
  const SegmentPair<T> pair = segment_pair(a, b);
  const CapsuleCase<T> at = capsule_case<T>(kind);
  const Mask<T> known = !has_bits(kind, kNoNormal);
  const T s = capsule_place(pair, given.slot, at), o = T(0);
  const Vec3<T> reach = arm + ua * s;
  const T t = hold_within(dot(ub, reach), b.size.y, at.nearest);
  BallsBar<T> balls = zero_balls_bar<T>();
  touch_of_balls_adjoint(CollisionBall<T>{a.p + ua * s, a.size.x},
                         CollisionBall<T>{b.p + ub * t, b.size.x},
                         direction(x, known, column(a.R, 0)).u, kind, given.bar, balls);

  // from the balls to t, s and the numbers of the pair of segments
  SegmentPair<T> pair_bar{o, o, o, o, o, o};
  T beside_bar = o;
  hold_within_adjoint(at.nearest, dot(ub, balls.cb), beside_bar, pair_bar.hb);
  const Vec3<T> reach_bar = ub * beside_bar, point_bar = balls.ca + reach_bar;
  capsule_place_adjoint(pair, given.slot, at, dot(ua, point_bar), pair_bar);

  // from there to the axes and the arm: sine^2 = |x|^2, b = ua . ub, c = ua . arm, f = ub . arm
  Vec3<T> x_bar = x * (pair_bar.sine_squared * Real<T>(2)), side_bar = zero3<T>();
  direction_adjoint(x, known, {balls.fallback, o}, x_bar, side_bar);
  const Vec3<T> arm_bar = reach_bar + ua * pair_bar.c + ub * pair_bar.f;
  const Vec3<T> ua_bar = point_bar * s + ub * pair_bar.b + arm * pair_bar.c + cross(ub, x_bar);
  const Vec3<T> ub_bar = balls.cb * t + reach * beside_bar + ua * pair_bar.b + arm * pair_bar.f;
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

// where a point lies against a box: outside, the faces it lies beyond; inside, the one face by which
// it leaves.  Seven bits of a feature
template <class T>
struct BoxSides {
  Held<T> x, y, z;
  Mask<T> inside;
};
inline constexpr uint32_t kInsideBox = 64;
template <class T>
FB_INLINE Bits<T> box_bits(const BoxSides<T>& s) {
  return held_bits<T>(s.x, 0) | held_bits<T>(s.y, 2) | held_bits<T>(s.z, 4) |
         bits_where(s.inside, kInsideBox);
}
template <class T>
FB_INLINE BoxSides<T> box_sides_at(Bits<T> bits) {
  return {held_at<T>(bits, 0), held_at<T>(bits, 2), held_at<T>(bits, 4),
          has_bits(bits, kInsideBox)};
}

// a vector with -1 below, 1 above and 0 within each slab
template <class T>
FB_INLINE Vec3<T> signs_of(const Held<T>& x, const Held<T>& y, const Held<T>& z) {
  const auto sign = [](const Held<T>& h) {
    return select(h.below, T(-1), select(h.above, T(1), T(0)));
  };
  return {sign(x), sign(y), sign(z)};
}

// how far a point lies beyond the faces
template <class T>
FB_INLINE Vec3<T> beyond_box(Vec3<T> x, Vec3<T> half, const BoxSides<T>& s) {
  return {x.x - hold_within(x.x, half.x, s.x), x.y - hold_within(x.y, half.y, s.y),
          x.z - hold_within(x.z, half.z, s.z)};
}

// (C.11)  inside: the nearest face, x before y before z
template <class T>
FB_INLINE BoxSides<T> find_box_sides(Vec3<T> x, Vec3<T> half) {
  const T o = T(0);
  BoxSides<T> s{held_by(x.x, half.x), held_by(x.y, half.y), held_by(x.z, half.z), Mask<T>(false)};
  s.inside = !has_direction(beyond_box(x, half, s));
  if (!any(s.inside)) return s;
  const Vec3<T> depth{half.x - abs(x.x), half.y - abs(x.y), half.z - abs(x.z)};
  const Mask<T> y_first = depth.y < depth.x;
  const Mask<T> z_first = depth.z < select(y_first, depth.y, depth.x);
  const auto face = [&](const Held<T>& out, Mask<T> nearest, T at) {
    return Held<T>{select(s.inside, nearest & (at < o), out.below),
                   select(s.inside, nearest & !(at < o), out.above)};
  };
  return {face(s.x, !(y_first | z_first), x.x), face(s.y, y_first & !z_first, x.y),
          face(s.z, z_first, x.z), s.inside};
}

// (C.11)  outside: the distance to the nearest point; inside: minus the distance to the face
template <class T>
FB_INLINE BoxPoint<T> point_box(Vec3<T> x, Vec3<T> half, const BoxSides<T>& s) {
  const Vec3<T> face = signs_of(s.x, s.y, s.z);
  const Direction<T> away = direction(beyond_box(x, half, s), Mask<T>(!s.inside), face);
  if (!any(s.inside)) return {away.length, away.u};
  const auto depth = [](T at, T half_i, const Held<T>& side) {
    return half_i - select(side.below, -at, at);
  };
  const T least =
      select(s.z.below | s.z.above, depth(x.z, half.z, s.z),
             select(s.y.below | s.y.above, depth(x.y, half.y, s.y), depth(x.x, half.x, s.x)));
  return {select(s.inside, -least, away.length), away.u};
}

// (C.33)  given out_bar, add to x_bar, half_bar; a component within its slab has no part in n
template <class T>
FB_INLINE void point_box_adjoint(Vec3<T> x, Vec3<T> half, const BoxSides<T>& s,
                                 const BoxPoint<T>& out_bar, Vec3<T>& x_bar, Vec3<T>& half_bar) {
  const T o = T(0);
  const Vec3<T> n = point_box(x, half, s).n;
  Vec3<T> turn = zero3<T>(), fallback_bar = zero3<T>();
  direction_adjoint(beyond_box(x, half, s), Mask<T>(!s.inside), {out_bar.n, o}, turn, fallback_bar);
  const Vec3<T> all = n * out_bar.distance + Vec3<T>{select(s.x.below | s.x.above, turn.x, o),
                                                     select(s.y.below | s.y.above, turn.y, o),
                                                     select(s.z.below | s.z.above, turn.z, o)};
  x_bar += all;
  half_bar -= Vec3<T>{select(s.x.below, -all.x, all.x), select(s.y.below, -all.y, all.y),
                      select(s.z.below, -all.z, all.z)};
}

// the contact point of a ball at x (in the world) with a box, given the outward normal and the
// distance there in the box frame
template <class T>
FB_INLINE void ball_on_box(const Shape<T>& b, const CollisionBall<T>& ball, const BoxPoint<T>& at,
                           Mask<T> on, const Feature<T>& feature, ContactPoint<T>& out) {
  const Vec3<T> n = -mul(b.R, at.n);
  const T phi = at.distance - ball.r;
  out = {phi, n, ball.c + n * (ball.r + phi * Real<T>(0.5)), on, feature};
}

// (C.34)  the box held still: given out_bar, add to x_bar (in the box frame), r_bar, at_bar
template <class T>
FB_INLINE void ball_on_box_adjoint(const Shape<T>& b, T r, const BoxPoint<T>& at,
                                   const ContactPointBar<T>& out_bar, Vec3<T>& x_bar, T& r_bar,
                                   BoxPoint<T>& at_bar) {
  const Vec3<T> p_bar = mul_transposed(b.R, out_bar.p), n_bar = mul_transposed(b.R, out_bar.n);
  const T along = -dot(p_bar, at.n), reach = (at.distance + r) * Real<T>(0.5);
  const T distance_bar = mul_add(along, T(Real<T>(0.5)), out_bar.phi);
  x_bar += p_bar;
  r_bar += along - distance_bar;
  at_bar.distance += distance_bar;
  at_bar.n -= mul_add(p_bar, reach, n_bar);
}

// (C.11)  the ball around the sphere's centre; its feature is that of the point
template <class T>
FB_INLINE void sphere_box(const Shape<T>& a, const Shape<T>& b, ContactPoint<T>* out) {
  const Vec3<T> x = mul_transposed(b.R, a.p - b.p);
  const BoxSides<T> sides = find_box_sides(x, b.size);
  ball_on_box(b, {a.p, a.size.x}, point_box(x, b.size, sides), Mask<T>(true),
              make_feature<T>(box_bits(sides)), out[0]);
}

// (C.35)  given out_bar, add to a_bar, b_bar: A's wrench in the box frame, then B's by (C.20)
template <class T>
FB_INLINE void sphere_box_adjoint(const Shape<T>& a, const Shape<T>& b, const SlotBar<T>& given,
                                  ShapeBar<T>& a_bar, ShapeBar<T>& b_bar) {
  const Vec3<T> x = mul_transposed(b.R, a.p - b.p);
  const BoxSides<T> sides = box_sides_at<T>(given.feature.kind);
  const BoxPoint<T> at = point_box(x, b.size, sides);
  BoxPoint<T> at_bar{T(0), zero3<T>()};
  Vec3<T> x_bar = zero3<T>();
  ball_on_box_adjoint(b, a.size.x, at, given.bar, x_bar, a_bar.size.x, at_bar);
  point_box_adjoint(x, b.size, sides, at_bar, x_bar, b_bar.size);
  ContactPoint<T> touch;
  ball_on_box(b, {a.p, a.size.x}, at, Mask<T>(true), given.feature, touch);
  const Vec3<T> p_bar = mul(b.R, x_bar);
  share_wrench(touch, given.bar, Force<T>{cross(a.p, p_bar), p_bar}, a_bar, b_bar);
}

}  // namespace fb::FB_ISA
