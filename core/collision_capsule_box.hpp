// A capsule against a box: three touches, in the frame of the box.  Branch-free.  Proof:
// docs/derivations/collision.md.
#pragma once
#include "collision_round.hpp"

namespace fb::FB_ISA {

// the capsule's segment x(s) = c + s u, |s| <= h, in the frame of a box with half extents `half`
template <class T>
struct BoxSegment {
  Vec3<T> c, u, half;
  T h;
};
// a stretch of the segment; empty if lo > hi
template <class T>
struct Stretch {
  T lo, hi;
};
// outward normal of the box on which the capsule leaves it; edge: unit direction of the box edge if
// one carries the contact
template <class T>
struct BoxExit {
  Vec3<T> n, edge;
  Mask<T> on_edge;
};

template <class T>
FB_INLINE Vec3<T> point_at(const BoxSegment<T>& seg, T s) {
  return seg.c + seg.u * s;
}

// the stretch with |c + s u| <= half in one coordinate; a coordinate that does not move keeps all
// or nothing
template <class T>
FB_INLINE Stretch<T> stretch_in_slab(T c, T u, T half, T h) {
  const Mask<T> moves = abs(u) > T(Real<T>(1e-9)), inside = abs(c) <= half;
  const T inverse = T(1) / select(moves, u, T(1));
  const T t0 = (-half - c) * inverse, t1 = (half - c) * inverse;
  const T beyond = h + T(1);
  return {select(moves, max(min(t0, t1), -h), select(inside, -h, beyond)),
          select(moves, min(max(t0, t1), h), select(inside, h, -beyond))};
}

// half the slope of the squared distance from the box along the segment
template <class T>
FB_INLINE T distance_slope(const BoxSegment<T>& seg, T s) {
  const Vec3<T> x = point_at(seg, s), k = seg.half;
  const Vec3<T> d{x.x - clamp(x.x, -k.x, k.x), x.y - clamp(x.y, -k.y, k.y),
                  x.z - clamp(x.z, -k.z, k.z)};
  return dot(seg.u, d);
}

// (C.12)  the point of the segment closest to the box: the root of a piecewise linear slope,
// bracketed by the slab crossings; the middle of the stretch where the slope vanishes
template <class T>
FB_INLINE T closest_to_box(const BoxSegment<T>& seg, const Stretch<T>* slab) {
  const T h = seg.h, o = T(0);
  T lo = -h, hi = h, lo_slope = distance_slope(seg, lo), hi_slope = distance_slope(seg, hi);
  T flat_lo = select(hi_slope == o, h, h + T(1)), flat_hi = select(lo_slope == o, -h, -h - T(1));
  flat_lo = select(lo_slope == o, -h, flat_lo);
  flat_hi = select(hi_slope == o, h, flat_hi);
  for (int k = 0; k < 6; ++k) {
    const T s = clamp(k & 1 ? slab[k / 2].hi : slab[k / 2].lo, -h, h);
    const T slope = distance_slope(seg, s);
    const Mask<T> below = (slope < o) & (s > lo), above = (slope > o) & (s < hi);
    lo = select(below, s, lo);
    lo_slope = select(below, slope, lo_slope);
    hi = select(above, s, hi);
    hi_slope = select(above, slope, hi_slope);
    flat_lo = select((slope == o) & (s < flat_lo), s, flat_lo);
    flat_hi = select((slope == o) & (s > flat_hi), s, flat_hi);
  }
  const Mask<T> rooted = (lo_slope < o) & (hi_slope > o);
  const T rise = select(rooted, hi_slope - lo_slope, T(1));
  const T root = lo - lo_slope * (hi - lo) / rise;
  const T end = select(lo_slope >= o, -h, h);
  const T flat = (flat_lo + flat_hi) * Real<T>(0.5);
  return select(flat_lo <= flat_hi, flat, select(rooted, root, end));
}

// (C.14)  the way out for a segment inside the box: of three face axes and three edge axes the one
// with the least overlap; an edge must beat the faces by 5 %
template <class T>
FB_INLINE BoxExit<T> exit_of_segment(const BoxSegment<T>& seg) {
  using R = Real<T>;
  const T o = T(0), e = T(1);
  const Vec3<T> unit[3] = {{e, o, o}, {o, e, o}, {o, o, e}};
  const T c[3] = {seg.c.x, seg.c.y, seg.c.z}, u[3] = {seg.u.x, seg.u.y, seg.u.z};
  const T half[3] = {seg.half.x, seg.half.y, seg.half.z};
  BoxExit<T> best{unit[0], unit[0], Mask<T>(false)};
  T least = T(R(1e30));
  for (int i = 0; i < 3; ++i) {
    const T overlap = half[i] + seg.h * abs(u[i]) - abs(c[i]);
    const Mask<T> better = overlap < least;
    best.n = select(better, unit[i] * select(c[i] < o, -e, e), best.n);
    least = select(better, overlap, least);
  }
  least = least * R(0.95);
  for (int i = 0; i < 3; ++i) {
    const Vec3<T> x = cross(unit[i], seg.u);
    const T square = dot(x, x), side = dot(x, seg.c);
    const Mask<T> crossed = square > T(R(1e-6));
    const Vec3<T> n = x * (select(side < o, -e, e) / sqrt(select(crossed, square, e)));
    const T reach = abs(n.x) * half[0] + abs(n.y) * half[1] + abs(n.z) * half[2];
    const T overlap = reach - dot(n, seg.c);
    const Mask<T> better = crossed & (overlap < least);
    best.n = select(better, n, best.n);
    best.edge = select(better, unit[i], best.edge);
    best.on_edge = best.on_edge | better;
    least = select(better, overlap, least);
  }
  return best;
}

// (C.13)  the stretch over the face whose normal is closest to n: within both other slabs, or,
// beside the face (over = false), within the slab along which the segment runs more
template <class T>
FB_INLINE Stretch<T> stretch_over_face(const BoxSegment<T>& seg, const Stretch<T>* slab, Vec3<T> n,
                                       Mask<T>& over) {
  const T ax = abs(n.x), ay = abs(n.y), az = abs(n.z);
  const Mask<T> on_x = (ax >= ay) & (ax >= az), on_y = (!on_x) & (ay >= az);
  const T i_lo = select(on_x, slab[1].lo, slab[0].lo), i_hi = select(on_x, slab[1].hi, slab[0].hi);
  const Mask<T> on_z = !(on_x | on_y);
  const T j_lo = select(on_z, slab[1].lo, slab[2].lo), j_hi = select(on_z, slab[1].hi, slab[2].hi);
  const T i_run = abs(select(on_x, seg.u.y, seg.u.x)), j_run = abs(select(on_z, seg.u.y, seg.u.z));
  const T lo = max(i_lo, j_lo), hi = min(i_hi, j_hi);
  const Mask<T> along_i = i_run > j_run;
  over = lo <= hi;
  return {select(over, lo, select(along_i, i_lo, j_lo)),
          select(over, hi, select(along_i, i_hi, j_hi))};
}

// (C.14)  where the segment passes the box edge that carries the contact, and the signed distance
// there
template <class T>
FB_INLINE T pass_of_edge(const BoxSegment<T>& seg, const BoxExit<T>& exit, T& distance) {
  const T o = T(0);
  const Vec3<T> w{select(exit.n.x < o, -seg.half.x, seg.half.x),
                  select(exit.n.y < o, -seg.half.y, seg.half.y),
                  select(exit.n.z < o, -seg.half.z, seg.half.z)};
  const Vec3<T> across = seg.u - exit.edge * dot(seg.u, exit.edge);
  const T square = dot(across, across);
  const T s = -dot(seg.c - w, across) / select(square > T(kNoLength<T>), square, T(1));
  const T inside = clamp(s, -seg.h, seg.h);
  distance = dot(exit.n, point_at(seg, inside) - w);
  return inside;
}

// a touch of the capsule at s, given the outward normal of the box and the segment's distance in
// the box frame
template <class T>
FB_INLINE Touch<T> capsule_box_touch(const Shape<T>& a, const Shape<T>& b, T s, BoxPoint<T> at,
                                     Mask<T> on) {
  const Vec3<T> n = -mul(b.R, at.n);
  const T phi = at.distance - a.size.x;
  const Vec3<T> x = a.p + column(a.R, 2) * s;
  return {phi, n, x + n * (a.size.x + phi * Real<T>(0.5)), on};
}

// (C.12)-(C.14)  slots 1, 2: the ends of the stretch over the nearest face; slot 0: the closest
// point of the segment where it is not in that stretch, or the passage of an edge
template <class T>
FB_INLINE void capsule_box(const Shape<T>& a, const Shape<T>& b, Touch<T>* out) {
  using R = Real<T>;
  const BoxSegment<T> seg{mul_transposed(b.R, a.p - b.p), mul_transposed(b.R, column(a.R, 2)),
                          b.size, a.size.y};
  const Stretch<T> slab[3] = {stretch_in_slab(seg.c.x, seg.u.x, seg.half.x, seg.h),
                              stretch_in_slab(seg.c.y, seg.u.y, seg.half.y, seg.h),
                              stretch_in_slab(seg.c.z, seg.u.z, seg.half.z, seg.h)};
  T s = closest_to_box(seg, slab);
  BoxPoint<T> at = point_box(point_at(seg, s), seg.half);
  const Mask<T> deep = at.distance <= T(R(kIsDouble<T> ? 1e-9 : 1e-5));
  const BoxExit<T> exit = exit_of_segment(seg);
  const Mask<T> on_edge = deep & exit.on_edge;

  // the stretch, then the closest point where the stretch does not already hold it
  const Vec3<T> face = select(deep, exit.n, at.n);
  Mask<T> over;
  const Stretch<T> along = stretch_over_face(seg, slab, face, over);
  const T slack = a.size.x * R(1e-3);
  const Mask<T> some = along.lo <= along.hi;
  const Mask<T> at_end = (abs(s - along.lo) <= slack) | (abs(s - along.hi) <= slack);
  const Mask<T> held = some & (at_end | (over & (s >= along.lo) & (s <= along.hi)));
  T edge_distance;
  const T edge_s = pass_of_edge(seg, exit, edge_distance);
  s = select(on_edge, edge_s, s);
  at = {select(on_edge, edge_distance, at.distance), select(on_edge, exit.n, at.n)};
  out[0] = capsule_box_touch(a, b, s, at, on_edge | !held);

  const T face_reach =
      dot(face, Vec3<T>{face.x * seg.half.x, face.y * seg.half.y, face.z * seg.half.z});
  for (int k = 1; k < 3; ++k) {
    const T end = clamp(k == 1 ? along.lo : along.hi, -seg.h, seg.h);
    const Vec3<T> x = point_at(seg, end);
    const BoxPoint<T> outside = point_box(x, seg.half);
    const BoxPoint<T> point{select(deep, dot(face, x) - face_reach, outside.distance),
                            select(deep, face, outside.n)};
    const Mask<T> present = k == 1 ? some : along.hi - along.lo > slack;
    out[k] = capsule_box_touch(a, b, end, point, present & !on_edge);
  }
}

}  // namespace fb::FB_ISA
