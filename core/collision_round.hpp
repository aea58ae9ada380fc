// Spheres and capsules against each other, and a point against a box.  Branch-free.  Proof:
// docs/derivations/collision.md.
#pragma once
#include "collision_shape.hpp"

namespace fb::FB_ISA {

// (C.8)  concentric spheres part along A's local z
template <class T>
FB_INLINE void sphere_sphere(const Shape<T>& a, const Shape<T>& b, Touch<T>* out) {
  out[0] = touch_of_balls(a.p, a.size.x, b.p, b.size.x, column(a.R, 2));
}

// (C.9)  the ball around the nearest point of the segment; a centre on the segment parts along the
// capsule's local x
template <class T>
FB_INLINE void sphere_capsule(const Shape<T>& a, const Shape<T>& b, Touch<T>* out) {
  const Vec3<T> axis = column(b.R, 2);
  const T t = clamp(dot(axis, a.p - b.p), -b.size.y, b.size.y);
  out[0] = touch_of_balls(a.p, a.size.x, b.p + axis * t, b.size.x, column(b.R, 0));
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

// (C.10)  A's coordinate s of the closest pair of two segments {p + s u}, |s| <= h; arm = p_A - p_B
template <class T>
FB_INLINE T closest_on_segments(Vec3<T> arm, Vec3<T> ua, T ha, Vec3<T> ub, T hb, T sine_squared) {
  const T b = dot(ua, ub), c = dot(ua, arm), f = dot(ub, arm);
  const Mask<T> crossed = sine_squared > T(Real<T>(1e-6));
  const T free = (b * f - c) / select(crossed, sine_squared, T(1));
  const T s = clamp(select(crossed, free, T(0)), -ha, ha);
  const T t = clamp(b * s + f, -hb, hb);
  return clamp(b * t - c, -ha, ha);
}

// (C.10)  crossed: the closest pair.  Parallel: the two ends of the common stretch, into which the
// closest pair splits continuously.  Axes that meet part along their cross product, or along A's
// local x if they are parallel.
template <class T>
FB_INLINE void capsule_capsule(const Shape<T>& a, const Shape<T>& b, Touch<T>* out) {
  const Vec3<T> ua = column(a.R, 2), ub = column(b.R, 2), arm = a.p - b.p, x = cross(ua, ub);
  const T ha = a.size.y, hb = b.size.y, sine_squared = dot(x, x);
  const T closest = closest_on_segments(arm, ua, ha, ub, hb, sine_squared);

  // the stretch of A that lies beside B
  const T mid = -dot(ua, arm), reach = abs(dot(ua, ub)) * hb;
  const T lo = clamp(mid - reach, -ha, ha), hi = clamp(mid + reach, -ha, ha);

  const T w = parallel_weight(sine_squared);
  const Vec3<T> fallback = direction(x, column(a.R, 0)).u;
  for (int k = 0; k < 2; ++k) {
    const T s = closest * (T(1) - w) + (k == 0 ? lo : hi) * w;
    const T t = clamp(dot(ub, arm + ua * s), -hb, hb);
    out[k] = touch_of_balls(a.p + ua * s, a.size.x, b.p + ub * t, b.size.x, fallback);
  }
  out[1].on = (w > T(0)) & (hi > lo);
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
  const Vec3<T> d{x.x - clamp(x.x, -half.x, half.x), x.y - clamp(x.y, -half.y, half.y),
                  x.z - clamp(x.z, -half.z, half.z)};
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

// (C.11)  the ball around the sphere's centre
template <class T>
FB_INLINE void sphere_box(const Shape<T>& a, const Shape<T>& b, Touch<T>* out) {
  const BoxPoint<T> c = point_box(mul_transposed(b.R, a.p - b.p), b.size);
  const Vec3<T> n = -mul(b.R, c.n);
  const T phi = c.distance - a.size.x;
  out[0] = {phi, n, a.p + n * (a.size.x + phi * Real<T>(0.5)), Mask<T>(true)};
}

}  // namespace fb::FB_ISA
