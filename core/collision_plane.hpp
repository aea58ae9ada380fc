// A plane against everything.  Branch-free: all lanes run together.  Proof:
// docs/derivations/collision.md.
#pragma once
#include "collision_shape.hpp"

namespace fb::FB_ISA {

// (C.1)  n = R_A e_z, d = n . (c - o), phi = d - r, p = c - n (d + r) / 2
template <class T>
FB_INLINE void plane_sphere(const Shape<T>& a, const Shape<T>& b, Touch<T>& out) {
  const Vec3<T> n = column(a.R, 2);
  const T d = dot(n, b.p - a.p), r = b.size.x;
  out = {d - r, n, b.p - n * ((d + r) * Real<T>(0.5)), Mask<T>(true)};
}

// (C.2)  given out_bar, add to a_bar, b_bar
template <class T>
FB_INLINE void plane_sphere_adjoint(const Shape<T>& a, const Shape<T>& b,
                                    const TouchBar<T>& out_bar, ShapeBar<T>& a_bar,
                                    ShapeBar<T>& b_bar) {
  const Vec3<T> n = column(a.R, 2), arm = b.p - a.p;
  const T d = dot(n, arm), half = (d + b.size.x) * Real<T>(0.5);
  const T half_bar = -dot(out_bar.p, n) * Real<T>(0.5);
  const T d_bar = out_bar.phi + half_bar;

  const Vec3<T> n_bar = out_bar.n - out_bar.p * half + arm * d_bar;
  const Vec3<T> o_bar = n * (-d_bar), c_bar = out_bar.p + n * d_bar;

  // a twist (w, v) moves o by v + w x o and n by w x n
  a_bar.pose += Force<T>{cross(a.p, o_bar) + cross(n, n_bar), o_bar};
  b_bar.pose += Force<T>{cross(b.p, c_bar), c_bar};
  b_bar.size.x += half_bar - out_bar.phi;
}

// (C.3)  the two end balls; the second is a duplicate when the capsule has no length
template <class T>
FB_INLINE void plane_capsule(const Shape<T>& a, const Shape<T>& b, Touch<T>* out) {
  const Vec3<T> n = column(a.R, 2), end = column(b.R, 2) * b.size.y;
  const T d = dot(n, b.p - a.p), rise = dot(n, end), r = b.size.x;
  const T high = d + rise, low = d - rise;
  out[0] = {high - r, n, b.p + end - n * ((high + r) * Real<T>(0.5)), Mask<T>(true)};
  out[1] = {low - r, n, b.p - end - n * ((low + r) * Real<T>(0.5)), b.size.y > T(0)};
}

// (C.4)  the eight corners
template <class T>
FB_INLINE void plane_box(const Shape<T>& a, const Shape<T>& b, Touch<T>* out) {
  const Vec3<T> n = column(a.R, 2);
  const Vec3<T> x = column(b.R, 0) * b.size.x, y = column(b.R, 1) * b.size.y;
  const Vec3<T> z = column(b.R, 2) * b.size.z;
  for (int k = 0; k < 8; ++k) {
    const Vec3<T> xy = ((k & 1) ? x : -x) + ((k & 2) ? y : -y);
    const Vec3<T> corner = b.p + (xy + ((k & 4) ? z : -z));
    out[k] = touch_of_point(corner, dot(n, corner - a.p), n, Mask<T>(true));
  }
}

// below this sine of the tilt a standing cylinder keeps its support points fixed in its own frame
// (smoothly)
inline constexpr double kStandingTilt = 1e-3;

// (C.5)  unit direction in the cap's plane towards the deepest rim point: the projection w of -n,
// turned into the local x axis while |w| is below kStandingTilt, where the deepest point runs
// around the rim
template <class T>
FB_INLINE Vec3<T> rim_direction(const Shape<T>& b, Vec3<T> n, Vec3<T> axis) {
  using R = Real<T>;
  const Vec3<T> x = column(b.R, 0), w = axis * dot(n, axis) - n;
  const T tilt = min(norm(w) * R(1 / kStandingTilt), T(1));
  const T weight = tilt * tilt * (T(3) - tilt * R(2));
  return direction(w * weight + x * ((T(1) - weight) * R(kStandingTilt)), x).u;
}

// (C.5)  lying: the deepest rim points of both caps; standing: two more on the lower cap, 120
// degrees to either side
template <class T>
FB_INLINE void plane_cylinder(const Shape<T>& a, const Shape<T>& b, Touch<T>* out) {
  using R = Real<T>;
  const Vec3<T> n = column(a.R, 2), axis = column(b.R, 2);
  const Vec3<T> rim = rim_direction(b, n, axis), side = cross(axis, rim);
  const Vec3<T> end = axis * b.size.y, deepest = rim * b.size.x;
  const Vec3<T> low = select(dot(n, axis) > T(0), -end, end);
  const Vec3<T> back = rim * (b.size.x * R(-0.5)),
                aside = side * (b.size.x * R(0.86602540378443864676));
  const Vec3<T> x[4] = {b.p + (end + deepest), b.p + (deepest - end), b.p + (low + back + aside),
                        b.p + (low + back - aside)};
  for (int k = 0; k < 4; ++k) {
    const Mask<T> on = k == 1 ? b.size.y > T(0) : Mask<T>(true);
    out[k] = touch_of_point(x[k], dot(n, x[k] - a.p), n, on);
  }
}

// (C.6)  with m = S R_B' n: phi = n . (c - o) - |m|, deepest point c - R_B S m / |m|
template <class T>
FB_INLINE void plane_ellipsoid(const Shape<T>& a, const Shape<T>& b, Touch<T>* out) {
  const Vec3<T> n = column(a.R, 2), local = mul_transposed(b.R, n), s = b.size;
  const Vec3<T> m{local.x * s.x, local.y * s.y, local.z * s.z};
  const Vec3<T> u = direction(m, Vec3<T>{T(0), T(0), T(1)}).u;
  const Vec3<T> x = b.p - mul(b.R, Vec3<T>{u.x * s.x, u.y * s.y, u.z * s.z});
  out[0] = touch_of_point(x, dot(n, x - a.p), n, Mask<T>(true));
}

// a hull vertex, as seen from the first one found
template <class T>
struct HullPoint {
  T score, index;
  Vec3<T> x;
};

// height lost against spread gained when support points are chosen: points above a cone of this
// slope are not taken
inline constexpr double kMeshSlope = 20;

// the vertex with the largest (side . (x - x0) + far |x - x0|) - kMeshSlope * n . (x - x0),
// distances along the plane, all in the mesh frame; the first of equals
template <class T>
FB_INLINE HullPoint<T> best_vertex(const Shape<T>& b, Vec3<T> n, Vec3<T> x0, Vec3<T> side,
                                   bool far) {
  using R = Real<T>;
  HullPoint<T> best{T(R(-1e30)), T(0), x0};
  for (int k = 0; k < b.nvert; ++k) {
    const Vec3<T> x = lift3<T>(b.vert + 3 * k), arm = x - x0;
    const T height = dot(n, arm);
    T spread = dot(side, arm);
    if (far) spread = norm(arm - n * height);
    const T score = spread - height * R(kMeshSlope);
    const Mask<T> better = score > best.score;
    best = {select(better, score, best.score), select(better, T(k), best.index),
            select(better, x, best.x)};
  }
  return best;
}

// (C.7)  four hull vertices: the deepest, the one farthest from it, and the farthest to either side
// of the line between them, each farthest among those that are low; a vertex found twice is on once
template <class T>
FB_INLINE void plane_mesh(const Shape<T>& a, const Shape<T>& b, Touch<T>* out) {
  const Vec3<T> n = column(a.R, 2), m = mul_transposed(b.R, n), none = zero3<T>();
  HullPoint<T> found[4];
  found[0] = best_vertex(b, m, none, none, false);
  found[1] = best_vertex(b, m, found[0].x, none, true);
  const Vec3<T> across = cross(m, found[1].x - found[0].x);
  const Vec3<T> side = direction(across, none).u;
  found[2] = best_vertex(b, m, found[0].x, side, false);
  found[3] = best_vertex(b, m, found[0].x, -side, false);
  for (int k = 0; k < 4; ++k) {
    Mask<T> on(b.nvert > 0);
    for (int j = 0; j < k; ++j) on = on & !(found[k].index == found[j].index);
    const Vec3<T> x = b.p + mul(b.R, found[k].x);
    out[k] = touch_of_point(x, dot(n, x - a.p), n, on);
  }
}

}  // namespace fb::FB_ISA
