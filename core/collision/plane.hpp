// A plane against everything.  All lanes run together, but for walks over hulls.
// Proof: docs/derivations/collision.md.
#pragma once
#include "core/collision/hull_walk.hpp"

namespace fb::FB_ISA {

template <class T>
struct Plane {
  Vec3<T> o, n;
};
template <class T>
FB_INLINE Plane<T> plane_of(const Shape<T>& a) {
  return {a.p, column(a.R, 2)};
}

// (C.1)  n = R_A e_z, d = n . (c - o), phi = d - r, p = c - n (d + r) / 2
template <class T>
FB_INLINE void plane_ball(const Plane<T>& a, Vec3<T> c, T r, Mask<T> on, ContactPoint<T>& out) {
  const T d = dot(a.n, c - a.o);
  out = {d - r, a.n, c - a.n * ((d + r) * Real<T>(0.5)), on, no_feature<T>()};
}

// (C.2)  given out_bar, add to a_bar, c_bar, r_bar
template <class T>
FB_INLINE void plane_ball_adjoint(const Plane<T>& a, Vec3<T> c, T r,
                                  const ContactPointBar<T>& out_bar, ShapeBar<T>& a_bar,
                                  Vec3<T>& c_bar, T& r_bar) {
  const Vec3<T> n = a.n, arm = c - a.o;
  const T half = (dot(n, arm) + r) * Real<T>(0.5);
  const T half_bar = dot(out_bar.p, n) * Real<T>(-0.5);
  const T d_bar = out_bar.phi + half_bar;

  const Vec3<T> n_bar = out_bar.n - out_bar.p * half + arm * d_bar;
  add_point(a_bar, a.o, n * (-d_bar));
  add_direction(a_bar, n, n_bar);
  c_bar += mul_add(n, d_bar, out_bar.p);
  r_bar += half_bar - out_bar.phi;
}

// a point is a ball with r = 0
template <class T>
FB_INLINE void plane_point(const Plane<T>& a, Vec3<T> x, Mask<T> on, const Feature<T>& feature,
                           ContactPoint<T>& out) {
  const T d = dot(a.n, x - a.o);
  out = {d, a.n, x - a.n * (d * Real<T>(0.5)), on, feature};
}

// given out_bar, add to a_bar, x_bar
template <class T>
FB_INLINE void plane_point_adjoint(const Plane<T>& a, Vec3<T> x, const ContactPointBar<T>& out_bar,
                                   ShapeBar<T>& a_bar, Vec3<T>& x_bar) {
  T r_bar = T(0);
  plane_ball_adjoint(a, x, T(0), out_bar, a_bar, x_bar, r_bar);
}

// the sphere is its ball
template <class T>
FB_INLINE void plane_sphere(const Shape<T>& a, const Shape<T>& b, ContactPoint<T>* out) {
  plane_ball(plane_of(a), b.p, b.size.x, Mask<T>(true), out[0]);
}

// given out_bar, add to a_bar, b_bar
template <class T>
FB_INLINE void plane_sphere_adjoint(const Shape<T>& a, const Shape<T>& b, const SlotBar<T>& given,
                                    ShapeBar<T>& a_bar, ShapeBar<T>& b_bar) {
  Vec3<T> c_bar = zero3<T>();
  plane_ball_adjoint(plane_of(a), b.p, b.size.x, given.bar, a_bar, c_bar, b_bar.size.x);
  add_point(b_bar, b.p, c_bar);
}

// (C.3)  the two end balls; the second is a duplicate when the capsule has no length
template <class T>
FB_INLINE void plane_capsule(const Shape<T>& a, const Shape<T>& b, ContactPoint<T>* out) {
  const Vec3<T> n = column(a.R, 2), end = column(b.R, 2) * b.size.y;
  const T d = dot(n, b.p - a.p), rise = dot(n, end), r = b.size.x;
  const T high = d + rise, low = d - rise;
  const Vec3<T> top = b.p + end - n * ((high + r) * Real<T>(0.5));
  const Vec3<T> bottom = b.p - end - n * ((low + r) * Real<T>(0.5));
  out[0] = {high - r, n, top, Mask<T>(true), no_feature<T>()};
  out[1] = {low - r, n, bottom, b.size.y > T(0), no_feature<T>()};
}

// (C.22)  the end ball of a slot moves with B, and along B's axis with the half length
template <class T>
FB_INLINE void plane_capsule_adjoint(const Shape<T>& a, const Shape<T>& b, const SlotBar<T>& given,
                                     ShapeBar<T>& a_bar, ShapeBar<T>& b_bar) {
  const Vec3<T> axis = column(b.R, 2), outward = given.slot == 0 ? axis : -axis;
  const Vec3<T> c = mul_add(outward, b.size.y, b.p);
  Vec3<T> c_bar = zero3<T>();
  plane_ball_adjoint(plane_of(a), c, b.size.x, given.bar, a_bar, c_bar, b_bar.size.x);
  add_point(b_bar, c, c_bar);
  b_bar.size.y += dot(outward, c_bar);
}

// (C.4)  the eight corners, one a slot
template <class T>
FB_INLINE void plane_box(const Shape<T>& a, const Shape<T>& b, ContactPoint<T>* out) {
  const Plane<T> plane = plane_of(a);
  const Shape<T> box = b;
  for (int k = 0; k < 8; ++k)
    plane_point(plane, box_corner(box, k), Mask<T>(true), no_feature<T>(), out[k]);
}

// given out_bar, add to a_bar, b_bar
template <class T>
FB_INLINE void plane_box_adjoint(const Shape<T>& a, const Shape<T>& b, const SlotBar<T>& given,
                                 ShapeBar<T>& a_bar, ShapeBar<T>& b_bar) {
  Vec3<T> x_bar = zero3<T>();
  plane_point_adjoint(plane_of(a), box_corner(b, given.slot), given.bar, a_bar, x_bar);
  box_corner_adjoint(b, given.slot, x_bar, b_bar);
}

// below this sine of the tilt a standing cylinder keeps
// its support points fixed in its own frame (smoothly)
inline constexpr double kStandingTilt = 1e-3;

// (C.5)  a vector in the cap's plane towards the deepest rim point: the projection w of -n, turned
// into the local x axis while |w| is below kStandingTilt, where the deepest point runs around the rim
template <class T>
FB_INLINE Vec3<T> rim_vector(const Shape<T>& b, Vec3<T> n) {
  using R = Real<T>;
  const Vec3<T> axis = column(b.R, 2), x = column(b.R, 0), w = axis * dot(n, axis) - n;
  const T tilt = min(norm(w) * R(1 / kStandingTilt), T(1));
  const T weight = tilt * tilt * (T(3) - tilt * R(2));
  return w * weight + x * ((T(1) - weight) * R(kStandingTilt));
}

// cotangents of the plane's normal, the axis and the local x axis of a cylinder
template <class T>
struct RimBars {
  Vec3<T> n, axis, x;
};

// (C.24)  given the bar of the vector, add to bars; with t = |w| / k the weight has the gradient
// 6 (1 - t) w / k^2
template <class T>
FB_INLINE void rim_vector_adjoint(const Shape<T>& b, Vec3<T> n, Vec3<T> out_bar, RimBars<T>& bars) {
  using R = Real<T>;
  constexpr double k = kStandingTilt;
  const Vec3<T> axis = column(b.R, 2), x = column(b.R, 0);
  const T cosine = dot(n, axis);
  const Vec3<T> w = axis * cosine - n;
  const T tilt = min(norm(w) * R(1 / k), T(1));
  const T weight = tilt * tilt * (T(3) - tilt * R(2)), rest = (T(1) - weight) * R(k);

  // out = g w + (1 - g) k x
  const T weight_bar = dot(out_bar, w) - dot(out_bar, x) * R(k);
  const T slope = (T(1) - tilt) * R(6 / (k * k));
  const Vec3<T> w_bar = out_bar * weight + w * (slope * weight_bar);
  bars.x += out_bar * rest;
  // w = axis (n . axis) - n
  const T cosine_bar = dot(axis, w_bar);
  bars.axis += w_bar * cosine + n * cosine_bar;
  bars.n += axis * cosine_bar - w_bar;
}

// a support point of a cylinder: along the axis by `axial` half lengths, towards the rim by
// `radial` radii and aside by `across`
template <class T>
struct RimPlace {
  T axial;
  Real<T> radial, across;
};
template <class T>
FB_INLINE RimPlace<T> rim_place(int slot, Mask<T> upright) {
  using R = Real<T>;
  const T low = select(upright, T(-1), T(1));
  if (slot < 2) return {T(slot == 0 ? 1 : -1), R(1), R(0)};
  return {low, R(-0.5), R(slot == 2 ? 0.86602540378443864676 : -0.86602540378443864676)};
}

// feature of a cylinder on a plane: its axis points away from the plane, so that the cap at its start
// is the lower one; the deepest rim point has no direction
inline constexpr uint32_t kAxisAway = 1, kNoRim = 2;

// (C.5)  lying: the deepest rim points of both caps; standing: two more on the lower cap, 120
// degrees to either side
template <class T>
FB_INLINE void plane_cylinder(const Shape<T>& a, const Shape<T>& b, ContactPoint<T>* out) {
  const Plane<T> plane = plane_of(a);
  const Vec3<T> c = b.p, axis = column(b.R, 2), towards = rim_vector(b, plane.n);
  const Mask<T> upright = dot(plane.n, axis) > T(0), known = has_direction(towards);
  const Vec3<T> rim = direction(towards, known, column(b.R, 0)).u, side = cross(axis, rim);
  const T r = b.size.x, h = b.size.y;
  const Feature<T> feature =
      make_feature<T>(bits_where(upright, kAxisAway) | bits_where(!known, kNoRim));
  for (int k = 0; k < 4; ++k) {
    const RimPlace<T> at = rim_place<T>(k, upright);
    const Vec3<T> x = axis * (h * at.axial) + rim * (r * at.radial) + side * (r * at.across);
    plane_point(plane, c + x, k == 1 ? h > T(0) : Mask<T>(true), feature, out[k]);
  }
}

// (C.25)  given out_bar, add to a_bar, b_bar
template <class T>
FB_INLINE void plane_cylinder_adjoint(const Shape<T>& a, const Shape<T>& b, const SlotBar<T>& given,
                                      ShapeBar<T>& a_bar, ShapeBar<T>& b_bar) {
  const Bits<T> kind = given.feature.kind;
  const Vec3<T> n = column(a.R, 2), axis = column(b.R, 2), towards = rim_vector(b, n);
  const Mask<T> known = !has_bits(kind, kNoRim);
  const Vec3<T> rim = direction(towards, known, column(b.R, 0)).u, side = cross(axis, rim);
  const RimPlace<T> at = rim_place<T>(given.slot, has_bits(kind, kAxisAway));

  // x = p + axis (h axial) + (rim radial + side across) r
  const Vec3<T> out = rim * at.radial + side * at.across;
  const Vec3<T> x = b.p + axis * (b.size.y * at.axial) + out * b.size.x;
  Vec3<T> x_bar = zero3<T>();
  plane_point_adjoint(plane_of(a), x, given.bar, a_bar, x_bar);
  b_bar.size.x += dot(out, x_bar);
  b_bar.size.y += dot(axis, x_bar) * at.axial;

  // side = axis x rim, rim = towards / |towards|
  const Vec3<T> side_bar = x_bar * (b.size.x * at.across);
  const Vec3<T> rim_bar = x_bar * (b.size.x * at.radial) + cross(side_bar, axis);
  RimBars<T> bars{zero3<T>(), x_bar * (b.size.y * at.axial) + cross(rim, side_bar), zero3<T>()};
  Vec3<T> towards_bar = zero3<T>();
  direction_adjoint(towards, known, {rim_bar, T(0)}, towards_bar, bars.x);
  rim_vector_adjoint(b, n, towards_bar, bars);
  add_direction(a_bar, n, bars.n);
  add_point(b_bar, b.p, x_bar);
  add_direction(b_bar, axis, bars.axis);
  add_direction(b_bar, column(b.R, 0), bars.x);
}

// feature of an ellipsoid on a plane: the normal has no image, since the semi-axes vanish
inline constexpr uint32_t kNoImage = 1;

// (C.6)  with m = S R_B' n: phi = n . (c - o) - |m|, deepest point c - R_B S m / |m|
template <class T>
FB_INLINE void plane_ellipsoid(const Shape<T>& a, const Shape<T>& b, ContactPoint<T>* out) {
  const Vec3<T> n = column(a.R, 2), local = mul_transposed(b.R, n), s = b.size;
  const Vec3<T> m = scaled(local, s);
  const Mask<T> known = has_direction(m);
  const Vec3<T> u = direction(m, known, Vec3<T>{T(0), T(0), T(1)}).u;
  const Vec3<T> x = b.p - mul(b.R, scaled(u, s));
  plane_point(plane_of(a), x, Mask<T>(true), make_feature<T>(bits_where(!known, kNoImage)), out[0]);
}

// (C.26)  given out_bar, add to a_bar, b_bar
template <class T>
FB_INLINE void plane_ellipsoid_adjoint(const Shape<T>& a, const Shape<T>& b,
                                       const SlotBar<T>& given, ShapeBar<T>& a_bar,
                                       ShapeBar<T>& b_bar) {
  const Vec3<T> n = column(a.R, 2), local = mul_transposed(b.R, n), s = b.size;
  const Mask<T> known = !has_bits(given.feature.kind, kNoImage);
  const Vec3<T> m = scaled(local, s), u = direction(m, known, Vec3<T>{T(0), T(0), T(1)}).u;

  // x = p - R (S u), u = m / |m|, m = S R' n
  const Vec3<T> x = b.p - mul(b.R, scaled(u, s));
  Vec3<T> x_bar = zero3<T>(), m_bar = zero3<T>(), none = zero3<T>();
  plane_point_adjoint(plane_of(a), x, given.bar, a_bar, x_bar);
  const Vec3<T> y_bar = -mul_transposed(b.R, x_bar);
  direction_adjoint(m, known, {scaled(y_bar, s), T(0)}, m_bar, none);
  b_bar.size += scaled(y_bar, u) + scaled(m_bar, local);

  // local = R_B' n turns with n and against B
  const Vec3<T> n_bar = mul(b.R, scaled(m_bar, s));
  add_point(b_bar, x, x_bar);
  add_direction(b_bar, n, -n_bar);
  add_direction(a_bar, n, n_bar);
}

template <class T>
FB_INLINE MeshMap<T> hull_map(const Shape<T>& b) {
  const T o = T(0);
  if (b.nvert == 0) return {{{o, o, o, o, o, o, o, o, o}}, {o, o, o}, false};
  return mesh_map(b.vert, b.size);
}

// numbers and places in the mesh frame of the vertices of all slots
template <class T>
struct HullPoints {
  Bits<T> index[kHullPoints];
  Vec3<T> x[kHullPoints];
};

// the vertex with the largest score, the first of equals
template <class T>
FB_INLINE void scan_hull(const Shape<T>& b, const MeshMap<T>& map, const HullScore<T>& by, int slot,
                         HullPoints<T>& found) {
  T most = T(Real<T>(-1e30));
  Bits<T> index(0u);
  Vec3<T> best = by.x0;
  for (int k = 0; k < b.nvert; ++k) {
    const Vec3<T> x = mesh_vertex(b.vert, map, k);
    const T score = score_of(by, x);
    const Mask<T> better = score > most;
    most = select(better, score, most);
    index = select(better, Bits<T>(uint32_t(k)), index);
    best = select(better, x, best);
  }
  found.index[slot] = index;
  found.x[slot] = best;
}

// vertices of a mesh by number, another one in each world
template <class T>
FB_INLINE Vec3<T> vertex_at(const Shape<T>& b, const MeshMap<T>& map, Bits<T> index) {
  using R = Real<T>;
  Vec3<T> v = zero3<T>();
  for (int k = 0; k < kLanes<T>; ++k) {
    const R* x = b.vert + kMeshFrame + 3 * bits_at(index, k);
    write_world(v, k, lift3<OneWorldOf<T>>(x));
  }
  return mesh_vertex(map, v);
}

// hulls of more vertices are walked: a scan looks at all worlds of a number at once, a walk at one
template <class T>
FB_INLINE bool walks_hull(const Shape<T>& b) {
  return b.nvert > kWalkedVertices * kLanes<T> && b.hull != nullptr && b.hull[0] > 0;
}
// the same by walks; false where one of the worlds needs a scan
template <class T>
FB_INLINE bool walk_worlds(const Shape<T>& a, const Shape<T>& b, const MeshMap<T>& map, T far,
                           HullPoints<T>& found) {
  int id[kHullPoints] = {};
  for (int k = 0; k < kLanes<T>; ++k) {
    if constexpr (kIsOneWorld<T>) {
      if (!walk_hull(plain(a), plain(b), plain(far), id)) return false;
    } else {
      const Real<T> reach = plain(read_world(far, k));
      if (reach != Real<T>(kNoReach) &&
          !walk_hull(plain(read_world(a, k)), plain(read_world(b, k)), reach, id))
        return false;
    }
    for (int j = 0; j < kHullPoints; ++j) set_bits(found.index[j], k, uint32_t(id[j]));
  }
  for (int j = 0; j < kHullPoints; ++j) found.x[j] = vertex_at(b, map, found.index[j]);
  return true;
}

// (C.7)  four hull vertices, whose numbers are the feature's; a vertex found twice is on once
template <class T>
FB_INLINE void plane_mesh(const Shape<T>& a, const Shape<T>& b, T far, ContactPoint<T>* out) {
  const Vec3<T> m = mul_transposed(b.R, column(a.R, 2));
  const MeshMap<T> map = hull_map(b);
  HullPoints<T> found;
  if (!walks_hull(b) || !walk_worlds(a, b, map, far, found))
    for (int k = 0; k < kHullPoints; ++k) scan_hull(b, map, slot_score(m, found.x, k), k, found);
  for (int k = 0; k < kHullPoints; ++k) {
    Mask<T> on(b.nvert > 0);
    for (int j = 0; j < k; ++j) on = on & !(found.index[k] == found.index[j]);
    const Feature<T> feature{Bits<T>(0u), {found.index[k], Bits<T>(0u)}};
    plane_point(plane_of(a), b.p + mul(b.R, found.x[k]), on, feature, out[k]);
  }
}

// (C.27)  given out_bar, add to a_bar, b_bar: the vertex
// moves with B, and in B's frame with the stretch
template <class T>
FB_INLINE void plane_mesh_adjoint(const Shape<T>& a, const Shape<T>& b, const SlotBar<T>& given,
                                  ShapeBar<T>& a_bar, ShapeBar<T>& b_bar) {
  if (b.nvert == 0) return;
  const Vec3<T> local = vertex_at(b, hull_map(b), given.feature.id[0]);
  const Vec3<T> x = b.p + mul(b.R, local);
  Vec3<T> x_bar = zero3<T>();
  plane_point_adjoint(plane_of(a), x, given.bar, a_bar, x_bar);
  add_point(b_bar, x, x_bar);
  mesh_vertex_adjoint(b.vert, b.size, local, mul_transposed(b.R, x_bar), b_bar.size);
}

}  // namespace fb::FB_ISA
