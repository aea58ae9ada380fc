// Tendons around spheres and cylinders: which way the path takes, where it touches, its length and its
// slopes.  Proof: docs/derivations/tendon.md.
#pragma once
#include "core/dynamics/kinematics.hpp"

namespace fb::FB_ISA {

// points and directions of a plane
template <class T>
struct Vec2 {
  T x, y;
};
template <class T>
FB_INLINE Vec2<T> operator+(Vec2<T> a, Vec2<T> b) {
  return {a.x + b.x, a.y + b.y};
}
template <class T>
FB_INLINE Vec2<T> operator-(Vec2<T> a, Vec2<T> b) {
  return {a.x - b.x, a.y - b.y};
}
template <class T>
FB_INLINE Vec2<T> operator*(Vec2<T> a, T s) {
  return {a.x * s, a.y * s};
}
template <class T>
FB_INLINE T dot(Vec2<T> a, Vec2<T> b) {
  return dot2(a.x, b.x, a.y, b.y);
}
template <class T>
FB_INLINE T cross(Vec2<T> a, Vec2<T> b) {
  return det2(a.x, b.y, a.y, b.x);
}
// a quarter turn clockwise
template <class T>
FB_INLINE Vec2<T> clockwise(Vec2<T> a) {
  return {a.y, -a.x};
}
template <class T>
FB_INLINE Vec2<T> select(Mask<T> m, Vec2<T> a, Vec2<T> b) {
  return {select(m, a.x, b.x), select(m, a.y, b.y)};
}

// radii and squares of distances below this count as zero
inline constexpr double kLeastWrap = 1e-15;

// two ends of a part of a tendon and the geom between them, seen from its centre: x and y are the axes
// across a cylinder
template <class T>
struct WrapEnds {
  Vec3<T> a, b, side, x, y;
  T radius;
  bool cylinder, sided;
};
// the same ends, with velocities seen from the geom
template <class T>
FB_INLINE WrapEnds<Dual<T>> moving_ends(const WrapEnds<T>& e, Vec3<T> a_dot, Vec3<T> b_dot) {
  const Vec3<T> still = zero3<T>();
  return {with_tangent(e.a, a_dot),
          with_tangent(e.b, b_dot),
          with_tangent(e.side, still),
          with_tangent(e.x, still),
          with_tangent(e.y, still),
          Dual<T>(e.radius, T(0)),
          e.cylinder,
          e.sided};
}
// (E.16)  the plane of the circle: a cylinder's cross section, or that of a sphere's centre and the two
// ends, its first axis towards a and b on its left
template <class T>
struct WrapPlane {
  Vec3<T> x, y;
  Vec2<T> a, b;
};
template <class T>
FB_INLINE WrapPlane<T> wrap_plane(const WrapEnds<T>& e) {
  WrapPlane<T> k{e.x, e.y, {}, {}};
  if (!e.cylinder) {
    k.x = e.a * (T(1) / norm(e.a));
    Vec3<T> normal = cross(e.a, e.b);
    // ends in line with the centre: some plane through them
    const Mask<T> in_line = dot(normal, normal) < T(Real<T>(kLeastWrap * kLeastWrap));
    if (any(in_line)) {
      const T ax = abs(k.x.x), ay = abs(k.x.y), az = abs(k.x.z), one = T(1), zero = T(0);
      const Mask<T> z = (az > ax) & (az > ay), y = (ay > ax) & (ay > az);
      const Vec3<T> other{select(y | z, one, zero), select(y, zero, one), select(z, zero, one)};
      normal = select(in_line, cross(k.x, other), normal);
    }
    const Vec3<T> left = cross(normal, k.x);
    k.y = left * (T(1) / norm(left));
  }
  k.a = {dot(e.a, k.x), dot(e.a, k.y)};
  k.b = {dot(e.b, k.x), dot(e.b, k.y)};
  return k;
}

// (E.17)  the way that a path takes: round the geom or straight; touching it from the inside; clockwise;
// and by more than half a turn.  M is a mask
template <class M>
struct WrapWay {
  M wraps, inside, clockwise, far;
};
template <class T>
FB_FN WrapWay<Mask<T>> wrap_way(const WrapEnds<T>& e) {
  const WrapPlane<T> k = wrap_plane(e);
  const T zero = T(0), least = T(Real<T>(kLeastWrap)), square = e.radius * e.radius;
  const Mask<T> never(false);
  WrapWay<Mask<T>> way{never, never, cross(k.a, k.b) < zero, never};
  if (e.sided) {
    // from a by way of the side site to b, either by less than half a turn
    way.inside = dot(e.side, e.side) < square;
    const Vec2<T> side{dot(e.side, k.x), dot(e.side, k.y)};
    const T first = cross(k.a, side), last = cross(side, k.b);
    const Mask<T> left = (first > zero) & (last > zero), right = (first < zero) & (last < zero);
    way.far = select(way.clockwise, left, right) & !way.inside;
    way.clockwise = select(way.far, !way.clockwise, way.clockwise);
  }
  // the place of the straight path that is nearest to the centre
  const Vec2<T> along = k.b - k.a;
  const T aa = dot(k.a, k.a), bb = dot(k.b, k.b), ab = dot(along, along);
  const T share = clamp(-dot(along, k.a) / select(ab >= least, ab, T(1)), zero, T(1));
  const Vec2<T> near = k.a + along * share;
  const Mask<T> meets = dot(near, near) <= square;
  const Mask<T> within = (aa > square) & (bb > square) & !meets;
  const Mask<T> around = (aa >= square) & (bb >= square) & (ab >= least) & (meets | way.far);
  way.wraps = (e.radius >= least) & select(way.inside, within, around);
  return way;
}

// a path within the plane: lengths of its parts, where it touches and leaves, its directions at both
// ends, and its slope in the radius
template <class T>
struct PlanePath {
  T first, arc, last, by_radius;
  Vec2<T> on, off, leave, arrive;
};
// (E.18)  round the circle: two tangents and the arc between them
template <class T>
FB_INLINE PlanePath<T> outer_path(const WrapPlane<T>& k, T radius, const WrapWay<Mask<T>>& way) {
  const T square = radius * radius, aa = dot(k.a, k.a), bb = dot(k.b, k.b);
  const T turn = select(way.clockwise, radius, -radius), unit = T(1) / turn;
  PlanePath<T> p;
  p.first = sqrt(aa - square);
  p.last = sqrt(bb - square);
  p.on = (k.a * square + clockwise(k.a) * (turn * p.first)) * (T(1) / aa);
  p.off = (k.b * square - clockwise(k.b) * (turn * p.last)) * (T(1) / bb);
  p.leave = clockwise(p.on) * unit;
  p.arrive = clockwise(p.off) * unit;
  const T apart = atan2_upper(abs(cross(k.a, k.b)), dot(k.a, k.b));
  const T whole = select(way.far, T(Real<T>(6.28318530717958647693)) - apart, apart);
  p.by_radius = whole - atan2_upper(p.first, radius) - atan2_upper(p.last, radius);
  p.arc = radius * p.by_radius;
  return p;
}

// (E.19)  2 z - asin(A sin z) - asin(B sin z) - G, and its slope: z is the angle between the path and
// the normal of the circle where it touches from the inside
template <class T>
struct BendGap {
  T value, slope;
};
// the cosine of an angle of [0, pi/2] from its sine
template <class T>
FB_INLINE T cosine_of(T sine) {
  return sqrt((T(1) - sine) * (T(1) + sine));
}
template <class T>
FB_INLINE BendGap<T> bend_gap(T z, T A, T B, T G) {
  T s, c;
  sincos(z, s, c);
  const T As = A * s, Bs = B * s, ca = cosine_of(As), cb = cosine_of(Bs);
  return {(z + z) - atan2_upper(As, ca) - atan2_upper(Bs, cb) - G, T(2) - A * c / ca - B * c / cb};
}
// its root by Newton's method: the gap is convex, so that from above all steps go down; the last step
// carries tangents
template <class T>
FB_FN T solve_bend(T A, T B, T G) {
  using S = decltype(primal(A));
  const S a = primal(A), b = primal(B), g = primal(G);
  const S least = S(Real<T>(kIsDouble<T> ? 1e-15 : 1e-6));
  S z = min(S(Real<T>(1.57079632679489661923)), g / (S(2) - a - b));
  Mask<T> moving = Mask<T>(true);
  for (int i = 0; i < 60 && any(moving); ++i) {
    const BendGap<S> f = bend_gap(z, a, b, g);
    const S step = f.value / f.slope;
    moving = moving & (step > z * least);
    z = select(moving, z - step, z);
  }
  const T root = as_constant<T>(z);
  const BendGap<T> f = bend_gap(root, A, B, G);
  return root - f.value / as_constant<T>(primal(f.slope));
}
// straight to the circle and on from there, the shortest such path
template <class T>
FB_FN PlanePath<T> inner_path(const WrapPlane<T>& k, T radius) {
  const T la = sqrt(dot(k.a, k.a)), lb = sqrt(dot(k.b, k.b)), left = cross(k.a, k.b);
  const T A = radius / la, z = solve_bend(A, radius / lb, atan2_upper(abs(left), dot(k.a, k.b)));
  T s, c;
  sincos(z, s, c);
  const T As = A * s;
  // from the ray of a towards that of b
  sincos(z - atan2_upper(As, cosine_of(As)), s, c);
  const Vec2<T> ray = k.a * (T(1) / la);
  const Vec2<T> out = ray * c - clockwise(ray) * select(left < T(0), -s, s);
  PlanePath<T> p;
  p.on = p.off = out * radius;
  p.leave = p.on - k.a;
  p.arrive = k.b - p.on;
  p.first = sqrt(dot(p.leave, p.leave));
  p.last = sqrt(dot(p.arrive, p.arrive));
  p.leave = p.leave * (T(1) / p.first);
  p.arrive = p.arrive * (T(1) / p.last);
  p.arc = T(0);
  p.by_radius = dot(out, p.leave - p.arrive);
  return p;
}
template <class T>
FB_INLINE PlanePath<T> select(Mask<T> m, const PlanePath<T>& x, const PlanePath<T>& y) {
  return {select(m, x.first, y.first), select(m, x.arc, y.arc),
          select(m, x.last, y.last),   select(m, x.by_radius, y.by_radius),
          select(m, x.on, y.on),       select(m, x.off, y.off),
          select(m, x.leave, y.leave), select(m, x.arrive, y.arrive)};
}

// a path from a to b: its length and slope in the radius, its directions at both ends, and where it
// touches and leaves the geom, seen from its centre
template <class T>
struct WrapPath {
  T length, by_radius;
  Vec3<T> leave, arrive, on, off;
};
// (E.20)  on a cylinder the path is straight when the cylinder is unrolled
template <class T>
FB_FN WrapPath<T> wrapped_path(const WrapEnds<T>& e, const WrapWay<Mask<T>>& way) {
  const WrapPlane<T> k = wrap_plane(e);
  PlanePath<T> p = outer_path<T>(k, e.radius, way);
  if (any(way.inside & way.wraps)) p = select<T>(way.inside, inner_path(k, e.radius), p);
  const auto lift = [&](Vec2<T> x) { return k.x * x.x + k.y * x.y; };
  WrapPath<T> out{p.first + p.arc + p.last, p.by_radius, lift(p.leave),
                  lift(p.arrive),           lift(p.on),  lift(p.off)};
  if (!e.cylinder) return out;
  const Vec3<T> axis = cross(e.x, e.y);
  const T flat = out.length, rise = dot(e.b - e.a, axis), share = rise / flat;
  out.length = sqrt(dot2(flat, flat, rise, rise));
  const T slope = rise / out.length, level = flat / out.length;
  out.by_radius = out.by_radius * level;
  out.leave = out.leave * level + axis * slope;
  out.arrive = out.arrive * level + axis * slope;
  out.on += axis * mul_add(p.first, share, dot(e.a, axis));
  out.off += axis * mul_add(p.first + p.arc, share, dot(e.a, axis));
  return out;
}
// the same where the way is straight
template <class T>
FB_FN WrapPath<T> wrap_path(const WrapEnds<T>& e, const WrapWay<Mask<T>>& way) {
  const Vec3<T> along = e.b - e.a, zero = zero3<T>();
  const T square = dot(along, along);
  const Mask<T> apart = square > T(Real<T>(1e-30));
  const T length = select(apart, sqrt(select(apart, square, T(1))), T(0));
  const Vec3<T> n = along * select(apart, T(1) / select(apart, length, T(1)), T(0));
  const WrapPath<T> straight{length, T(0), n, n, zero, zero};
  if (!any(way.wraps)) return straight;
  const WrapPath<T> x = wrapped_path(e, way);
  return {select(way.wraps, x.length, straight.length),
          select(way.wraps, x.by_radius, straight.by_radius),
          select<T>(way.wraps, x.leave, n),
          select<T>(way.wraps, x.arrive, n),
          select<T>(way.wraps, x.on, zero),
          select<T>(way.wraps, x.off, zero)};
}

}  // namespace fb::FB_ISA
