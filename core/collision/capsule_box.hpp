// A capsule against a box: three touches, in the frame of the
// box.  Branch-free.  Proof: docs/derivations/collision.md.
#pragma once
#include "core/collision/round.hpp"

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

// one coordinate of the segment and of the box; its cotangent has the same numbers
template <class T>
struct Slab {
  T c, u, half, h;
};
template <class T>
FB_INLINE Slab<T> slab_of(const BoxSegment<T>& seg, int i) {
  if (i == 0) return {seg.c.x, seg.u.x, seg.half.x, seg.h};
  if (i == 1) return {seg.c.y, seg.u.y, seg.half.y, seg.h};
  return {seg.c.z, seg.u.z, seg.half.z, seg.h};
}

// the stretch with |c + s u| <= half in one coordinate;
// a coordinate that does not move keeps all or nothing
template <class T>
FB_INLINE Stretch<T> stretch_in_slab(const Slab<T>& x) {
  const T h = x.h, beyond = h + T(1);
  const Mask<T> moves = abs(x.u) > T(Real<T>(1e-9)), inside = abs(x.c) <= x.half;
  const T inverse = T(1) / select(moves, x.u, T(1));
  const T t0 = (-x.half - x.c) * inverse, t1 = (x.half - x.c) * inverse;
  return {select(moves, max(min(t0, t1), -h), select(inside, -h, beyond)),
          select(moves, min(max(t0, t1), h), select(inside, h, -beyond))};
}

// (C.36)  given out_bar, add to x_bar: an end is a
// crossing of a face plane or an end of the segment
template <class T>
FB_INLINE void stretch_in_slab_adjoint(const Slab<T>& x, const Stretch<T>& out_bar,
                                       Slab<T>& x_bar) {
  const T o = T(0), h = x.h;
  const Mask<T> moves = abs(x.u) > T(Real<T>(1e-9)), inside = abs(x.c) <= x.half;
  const T inverse = T(1) / select(moves, x.u, T(1));
  const T t0 = (-x.half - x.c) * inverse, t1 = (x.half - x.c) * inverse;
  const Mask<T> lo_crosses = moves & (min(t0, t1) > -h), hi_crosses = moves & (max(t0, t1) < h);
  const Mask<T> lo_beyond = !(moves | inside);
  x_bar.h += select(lo_crosses, o, select(lo_beyond, out_bar.lo, -out_bar.lo)) +
             select(hi_crosses, o, select(lo_beyond, -out_bar.hi, out_bar.hi));

  const T lo_bar = select(lo_crosses, out_bar.lo * inverse, o);
  const T hi_bar = select(hi_crosses, out_bar.hi * inverse, o);
  const T t0_bar = select(t0 < t1, lo_bar, o) + select(t0 > t1, hi_bar, o);
  const T t1_bar = select(t0 < t1, o, lo_bar) + select(t0 > t1, o, hi_bar);
  x_bar.c -= t0_bar + t1_bar;
  x_bar.half += t1_bar - t0_bar;
  x_bar.u -= t0 * t0_bar + t1 * t1_bar;
}

// -1 below the slab, 1 above it, 0 within
template <class T>
FB_INLINE T outside_sign(T x, T half) {
  return select(x > half, T(1), select(x < -half, T(-1), T(0)));
}

// half the slope of the squared distance from the box along the segment
template <class T>
FB_INLINE T distance_slope(const BoxSegment<T>& seg, T s) {
  const Vec3<T> x = point_at(seg, s), k = seg.half;
  const Vec3<T> d{x.x - hold_within(x.x, k.x), x.y - hold_within(x.y, k.y),
                  x.z - hold_within(x.z, k.z)};
  return dot(seg.u, d);
}

// crossing k of a face plane: the lower (k even) or upper end of slab k / 2, within the segment
template <class T>
FB_INLINE T crossing(const BoxSegment<T>& seg, const Stretch<T>* slab, int k) {
  return hold_within(k & 1 ? slab[k / 2].hi : slab[k / 2].lo, seg.h);
}

// below this squared sine a segment counts as parallel to an edge or a face
inline constexpr double kAlongBox = 1e-6;

// what the slope does at the crossings and the ends: it vanishes from lo to hi (flat), or turns
// from negative at lo to positive at hi with no crossing between, or has one sign
template <class T>
struct SlopeScan {
  T lo, hi, lo_slope, hi_slope;
  Mask<T> flat, rooted;
};
template <class T>
FB_INLINE SlopeScan<T> scan_slopes(const BoxSegment<T>& seg, const Stretch<T>* slab) {
  const T h = seg.h, o = T(0);
  T lo = -h, hi = h, lo_slope = distance_slope(seg, lo), hi_slope = distance_slope(seg, hi);
  T flat_lo = select(hi_slope == o, h, h + T(1)), flat_hi = select(lo_slope == o, -h, -h - T(1));
  flat_lo = select(lo_slope == o, -h, flat_lo);
  flat_hi = select(hi_slope == o, h, flat_hi);
  for (int k = 0; k < 6; ++k) {
    const T s = crossing(seg, slab, k), slope = distance_slope(seg, s);
    const Mask<T> below = (slope < o) & (s > lo), above = (slope > o) & (s < hi);
    lo = select(below, s, lo);
    lo_slope = select(below, slope, lo_slope);
    hi = select(above, s, hi);
    hi_slope = select(above, slope, hi_slope);
    flat_lo = select((slope == o) & (s < flat_lo), s, flat_lo);
    flat_hi = select((slope == o) & (s > flat_hi), s, flat_hi);
  }
  // a slope that rises by round-off only is flat as well
  const Mask<T> zero = flat_lo <= flat_hi, rooted = (lo_slope < o) & (hi_slope > o);
  const Mask<T> along = rooted & (hi_slope - lo_slope <= (hi - lo) * Real<T>(kAlongBox));
  return {select(zero, flat_lo, lo),
          select(zero, flat_hi, hi),
          lo_slope,
          hi_slope,
          Mask<T>(zero | along),
          rooted};
}

// (C.12)  the point of the segment closest to the box: the root of a piecewise linear slope,
// bracketed by the slab crossings; the middle of the stretch where the slope vanishes
template <class T>
FB_INLINE T closest_to_box(const BoxSegment<T>& seg, const Stretch<T>* slab) {
  const SlopeScan<T> x = scan_slopes(seg, slab);
  const T rise = select(x.rooted, x.hi_slope - x.lo_slope, T(1));
  const T root = x.lo - x.lo_slope * (x.hi - x.lo) / rise;
  const T end = select(x.lo_slope >= T(0), -seg.h, seg.h);
  return select(x.flat, (x.lo + x.hi) * Real<T>(0.5), select(x.rooted, root, end));
}

// (C.37)  the cotangent of both ends of a flat stretch: each goes to the end of the segment, or the
// first crossing, that gave it
template <class T>
FB_INLINE void add_flat_ends(const BoxSegment<T>& seg, const Stretch<T>* slab,
                             const SlopeScan<T>& x, T end_bar, T& h_bar, Stretch<T>* slab_bar) {
  const T h = seg.h, o = T(0);
  const Mask<T> lo_first = x.lo == -h, lo_last = (!lo_first) & (x.lo == h);
  const Mask<T> hi_last = x.hi == h, hi_first = (!hi_last) & (x.hi == -h);
  h_bar += select(lo_first, -end_bar, select(lo_last, end_bar, o));
  h_bar += select(hi_first, -end_bar, select(hi_last, end_bar, o));
  T lo_bar = select(lo_first | lo_last, o, end_bar),
    hi_bar = select(hi_first | hi_last, o, end_bar);
  for (int k = 0; k < 6; ++k) {
    const T s = crossing(seg, slab, k);
    const Mask<T> is_lo = s == x.lo, is_hi = s == x.hi;
    const T bar = select(is_lo, lo_bar, o) + select(is_hi, hi_bar, o);
    const Stretch<T>& at = slab[k / 2];
    Stretch<T>& at_bar = slab_bar[k / 2];
    hold_within_adjoint(k & 1 ? at.hi : at.lo, h, bar, k & 1 ? at_bar.hi : at_bar.lo, h_bar);
    lo_bar = select(is_lo, o, lo_bar);
    hi_bar = select(is_hi, o, hi_bar);
  }
}

// (C.38)  given out_bar, add to seg_bar, slab_bar.  At a root the slope stays zero: only
// coordinates outside their slab, the same ones all along the bracket, have a part
template <class T>
FB_INLINE void closest_to_box_adjoint(const BoxSegment<T>& seg, const Stretch<T>* slab, T out_bar,
                                      BoxSegment<T>& seg_bar, Stretch<T>* slab_bar) {
  const SlopeScan<T> x = scan_slopes(seg, slab);
  const T o = T(0), s = closest_to_box(seg, slab);
  const T end_bar = select(x.flat | x.rooted, o, out_bar);
  seg_bar.h += select(x.lo_slope >= o, -end_bar, end_bar);
  const T flat_bar = select(x.flat, out_bar * Real<T>(0.5), o);
  add_flat_ends(seg, slab, x, flat_bar, seg_bar.h, slab_bar);

  // u . (c + s u - w) = 0 over the coordinates outside, where w = +- half
  const Vec3<T> mid = point_at(seg, (x.lo + x.hi) * Real<T>(0.5)), k = seg.half;
  const Vec3<T> side{outside_sign(mid.x, k.x), outside_sign(mid.y, k.y), outside_sign(mid.z, k.z)};
  const Vec3<T> out = scaled(side, side), u = scaled(seg.u, out);
  const T square = dot(u, u);
  const Mask<T> solved = x.rooted & (!x.flat) & (square > T(kNoLength<T>));
  const T y = select(solved, -out_bar / select(solved, square, T(1)), o);
  const Vec3<T> d = scaled(point_at(seg, s), out) - scaled(side, k);
  seg_bar.u += (d + u * s) * y;
  seg_bar.c += u * y;
  seg_bar.half -= scaled(side, u) * y;
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
    const Mask<T> crossed = square > T(R(kAlongBox));
    const Vec3<T> n = x * (select(side < o, -e, e) / sqrt(select(crossed, square, e)));
    const T step_scale = abs(n.x) * half[0] + abs(n.y) * half[1] + abs(n.z) * half[2];
    const T overlap = step_scale - dot(n, seg.c);
    const Mask<T> better = crossed & (overlap < least);
    best.n = select(better, n, best.n);
    best.edge = select(better, unit[i], best.edge);
    best.on_edge = best.on_edge | better;
    least = select(better, overlap, least);
  }
  return best;
}

// (C.39)  given n_bar, add to seg_bar: the normal on an
// edge turns with the segment, that of a face stands still
template <class T>
FB_INLINE void exit_of_segment_adjoint(const BoxSegment<T>& seg, const BoxExit<T>& exit,
                                       Vec3<T> n_bar, BoxSegment<T>& seg_bar) {
  const Vec3<T> x = cross(exit.edge, seg.u), n = exit.n;
  const T square = dot(x, x), e = T(1);
  const T scale = select(dot(x, seg.c) < T(0), -e, e) / sqrt(select(exit.on_edge, square, e));
  const Vec3<T> x_bar = (n_bar - n * dot(n, n_bar)) * scale;
  seg_bar.u += select(exit.on_edge, cross(x_bar, exit.edge), zero3<T>());
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

// (C.40)  given out_bar, add to slab_bar of the slab that gave each end
template <class T>
FB_INLINE void stretch_over_face_adjoint(const BoxSegment<T>& seg, const Stretch<T>* slab,
                                         Vec3<T> n, const Stretch<T>& out_bar,
                                         Stretch<T>* slab_bar) {
  const T o = T(0), ax = abs(n.x), ay = abs(n.y), az = abs(n.z);
  const Mask<T> on_x = (ax >= ay) & (ax >= az), on_y = (!on_x) & (ay >= az);
  const T i_lo = select(on_x, slab[1].lo, slab[0].lo), i_hi = select(on_x, slab[1].hi, slab[0].hi);
  const Mask<T> on_z = !(on_x | on_y);
  const T j_lo = select(on_z, slab[1].lo, slab[2].lo), j_hi = select(on_z, slab[1].hi, slab[2].hi);
  const T i_run = abs(select(on_x, seg.u.y, seg.u.x)), j_run = abs(select(on_z, seg.u.y, seg.u.z));
  const Mask<T> over = max(i_lo, j_lo) <= min(i_hi, j_hi), along_i = i_run > j_run;
  const Mask<T> lo_i = select(over, i_lo > j_lo, along_i),
                hi_i = select(over, i_hi < j_hi, along_i);

  const Stretch<T> i_bar{select(lo_i, out_bar.lo, o), select(hi_i, out_bar.hi, o)};
  const Stretch<T> j_bar{select(lo_i, o, out_bar.lo), select(hi_i, o, out_bar.hi)};
  slab_bar[0].lo += select(on_x, o, i_bar.lo);
  slab_bar[0].hi += select(on_x, o, i_bar.hi);
  slab_bar[1].lo += select(on_x, i_bar.lo, select(on_z, j_bar.lo, o));
  slab_bar[1].hi += select(on_x, i_bar.hi, select(on_z, j_bar.hi, o));
  slab_bar[2].lo += select(on_z, o, j_bar.lo);
  slab_bar[2].hi += select(on_z, o, j_bar.hi);
}

// (C.14)  where the segment passes the box edge that
// carries the contact, and the signed distance there
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

// (C.41)  given the bars of s and the distance, add to n_bar, seg_bar
template <class T>
FB_INLINE void pass_of_edge_adjoint(const BoxSegment<T>& seg, const BoxExit<T>& exit, T out_bar,
                                    T distance_bar, Vec3<T>& n_bar, BoxSegment<T>& seg_bar) {
  const T o = T(0), e = T(1);
  const Vec3<T> sign{select(exit.n.x < o, -e, e), select(exit.n.y < o, -e, e),
                     select(exit.n.z < o, -e, e)};
  const Vec3<T> w = scaled(seg.half, sign), arm = seg.c - w;
  const Vec3<T> across = seg.u - exit.edge * dot(seg.u, exit.edge);
  const T square = dot(across, across);
  const T inverse = e / select(square > T(kNoLength<T>), square, e);
  const T s = -dot(arm, across) * inverse, inside = hold_within(s, seg.h);

  // distance = n . (c + s u - w), then s = -(c - w) . across / |across|^2
  const Vec3<T> x_bar = exit.n * distance_bar;
  n_bar += (point_at(seg, inside) - w) * distance_bar;
  T s_bar = o;
  hold_within_adjoint(s, seg.h, out_bar + dot(seg.u, x_bar), s_bar, seg_bar.h);
  const T over = s_bar * inverse;
  const Vec3<T> across_bar = (arm + across * (s * Real<T>(2))) * (-over);
  const Vec3<T> arm_bar = x_bar - across * over;
  seg_bar.c += arm_bar;
  seg_bar.half -= scaled(arm_bar, sign);
  seg_bar.u += x_bar * inside + across_bar - exit.edge * dot(exit.edge, across_bar);
}

// how a capsule meets a box: the closest point s of its segment with the distance and normal there,
// the way out where it is deep, the face nearest to it and the stretch along that face
template <class T>
struct BoxApproach {
  BoxSegment<T> seg;
  Stretch<T> slab[3], along;
  T s;
  BoxPoint<T> at;
  BoxExit<T> exit;
  Vec3<T> face;
  Mask<T> deep, on_edge, over;
};
template <class T>
FB_INLINE BoxApproach<T> box_approach(const Shape<T>& a, const Shape<T>& b) {
  BoxApproach<T> x;
  x.seg = {mul_transposed(b.R, a.p - b.p), mul_transposed(b.R, column(a.R, 2)), b.size, a.size.y};
  for (int i = 0; i < 3; ++i) x.slab[i] = stretch_in_slab(slab_of(x.seg, i));
  x.s = closest_to_box(x.seg, x.slab);
  x.at = point_box(point_at(x.seg, x.s), x.seg.half);
  x.deep = x.at.distance <= T(Real<T>(kIsDouble<T> ? 1e-9 : 1e-5));
  x.exit = exit_of_segment(x.seg);
  x.on_edge = x.deep & x.exit.on_edge;
  x.face = select(x.deep, x.exit.n, x.at.n);
  x.along = stretch_over_face(x.seg, x.slab, x.face, x.over);
  return x;
}

// the point of the segment that carries a slot, with the distance and the outward normal there
template <class T>
struct BoxSlot {
  T s;
  BoxPoint<T> at;
  Mask<T> active;
};

// slot 0: the closest point where the stretch does not already hold it, or the passage of an edge
template <class T>
FB_INLINE BoxSlot<T> closest_slot(const BoxApproach<T>& x, T slack) {
  const T lo = x.along.lo, hi = x.along.hi;
  const Mask<T> at_end = (abs(x.s - lo) <= slack) | (abs(x.s - hi) <= slack);
  const Mask<T> held = (lo <= hi) & (at_end | (x.over & (x.s >= lo) & (x.s <= hi)));
  T distance;
  const T s = pass_of_edge(x.seg, x.exit, distance);
  return {select(x.on_edge, s, x.s),
          {select(x.on_edge, distance, x.at.distance), select(x.on_edge, x.exit.n, x.at.n)},
          Mask<T>(x.on_edge | !held)};
}

// given the bars of the ball's centre and of (distance, n), add to seg_bar, slab_bar
template <class T>
FB_INLINE void closest_slot_adjoint(const BoxApproach<T>& x, T s, Vec3<T> x_bar,
                                    const BoxPoint<T>& at_bar, BoxSegment<T>& seg_bar,
                                    Stretch<T>* slab_bar) {
  const T o = T(0);
  const Vec3<T> none = zero3<T>();
  const BoxPoint<T> near_bar{select(x.on_edge, o, at_bar.distance),
                             select(x.on_edge, none, at_bar.n)};
  point_box_adjoint(point_at(x.seg, x.s), x.seg.half, near_bar, x_bar, seg_bar.half);
  seg_bar.c += x_bar;
  seg_bar.u += x_bar * s;
  const T s_bar = dot(x.seg.u, x_bar);
  closest_to_box_adjoint(x.seg, x.slab, select(x.on_edge, o, s_bar), seg_bar, slab_bar);

  Vec3<T> n_bar = at_bar.n - near_bar.n;
  pass_of_edge_adjoint(x.seg, x.exit, select(x.on_edge, s_bar, o),
                       at_bar.distance - near_bar.distance, n_bar, seg_bar);
  exit_of_segment_adjoint(x.seg, x.exit, n_bar, seg_bar);
}

// slots 1, 2: the ends of the stretch over the nearest face
template <class T>
FB_INLINE BoxSlot<T> end_slot(const BoxApproach<T>& x, T slack, int slot) {
  const Vec3<T> f = x.face;
  const T s = hold_within(slot == 1 ? x.along.lo : x.along.hi, x.seg.h);
  const Vec3<T> at = point_at(x.seg, s);
  const BoxPoint<T> outside = point_box(at, x.seg.half);
  const T height = dot(f, at) - dot(f, scaled(f, x.seg.half));
  const Mask<T> on = slot == 1 ? x.along.lo <= x.along.hi : x.along.hi - x.along.lo > slack;
  return {s,
          {select(x.deep, height, outside.distance), select(x.deep, f, outside.n)},
          Mask<T>(on & !x.on_edge)};
}

// given the bars of the ball's centre and of (distance, n), add to seg_bar, slab_bar
template <class T>
FB_INLINE void end_slot_adjoint(const BoxApproach<T>& x, int slot, T s, Vec3<T> x_bar,
                                const BoxPoint<T>& at_bar, BoxSegment<T>& seg_bar,
                                Stretch<T>* slab_bar) {
  const T o = T(0);
  const Vec3<T> none = zero3<T>(), at = point_at(x.seg, s);
  const BoxPoint<T> out_bar{select(x.deep, o, at_bar.distance), select(x.deep, none, at_bar.n)};
  const T height_bar = at_bar.distance - out_bar.distance;
  x_bar += x.face * height_bar;
  seg_bar.half -= scaled(x.face, x.face) * height_bar;
  point_box_adjoint(at, x.seg.half, out_bar, x_bar, seg_bar.half);
  seg_bar.c += x_bar;
  seg_bar.u += x_bar * s;
  T end_bar = o;
  hold_within_adjoint(slot == 1 ? x.along.lo : x.along.hi, x.seg.h, dot(x.seg.u, x_bar), end_bar,
                      seg_bar.h);
  const Stretch<T> along_bar{slot == 1 ? end_bar : o, slot == 1 ? o : end_bar};
  stretch_over_face_adjoint(x.seg, x.slab, x.face, along_bar, slab_bar);
}

// slots closer than this part of the radius are one
inline constexpr double kSameSlot = 1e-3;

template <class T>
FB_INLINE BoxSlot<T> box_slot(const BoxApproach<T>& x, T radius, int slot) {
  const T slack = radius * Real<T>(kSameSlot);
  return slot == 0 ? closest_slot(x, slack) : end_slot(x, slack, slot);
}

// (C.12)-(C.14)  three balls along the segment
template <class T>
FB_INLINE void capsule_box(const Shape<T>& a, const Shape<T>& b, ContactPoint<T>* out) {
  const BoxApproach<T> x = box_approach(a, b);
  for (int k = 0; k < 3; ++k) {
    const BoxSlot<T> slot = box_slot(x, a.size.x, k);
    ball_on_box(b, a.p + column(a.R, 2) * slot.s, a.size.x, slot.at, slot.active, out[k]);
  }
}

// (C.42)  given out_bar, add to a_bar, b_bar: A's wrench in the box frame, then B's by (C.20)
template <class T>
FB_INLINE void capsule_box_adjoint(const Shape<T>& a, const Shape<T>& b, const SlotBar<T>& given,
                                   ShapeBar<T>& a_bar, ShapeBar<T>& b_bar) {
  const ContactPointBar<T>& out_bar = given.bar;
  const int slot = given.slot;
  const T o = T(0), r = a.size.x;
  const Vec3<T> none = zero3<T>(), axis = column(a.R, 2);
  const BoxApproach<T> x = box_approach(a, b);
  const BoxSlot<T> here = box_slot(x, r, slot);
  Vec3<T> x_bar = none;
  BoxPoint<T> at_bar{o, none};
  ball_on_box_adjoint(b, r, here.at, out_bar, x_bar, a_bar.size.x, at_bar);

  BoxSegment<T> seg_bar{none, none, none, o};
  Stretch<T> slab_bar[3] = {{o, o}, {o, o}, {o, o}};
  if (slot == 0)
    closest_slot_adjoint(x, here.s, x_bar, at_bar, seg_bar, slab_bar);
  else
    end_slot_adjoint(x, slot, here.s, x_bar, at_bar, seg_bar, slab_bar);
  Slab<T> bar[3] = {{o, o, o, o}, {o, o, o, o}, {o, o, o, o}};
  for (int i = 0; i < 3; ++i) stretch_in_slab_adjoint(slab_of(x.seg, i), slab_bar[i], bar[i]);
  a_bar.size.y += seg_bar.h + (bar[0].h + bar[1].h + bar[2].h);
  b_bar.size += seg_bar.half + Vec3<T>{bar[0].half, bar[1].half, bar[2].half};

  const Vec3<T> c_bar = mul(b.R, seg_bar.c + Vec3<T>{bar[0].c, bar[1].c, bar[2].c});
  const Vec3<T> u_bar = mul(b.R, seg_bar.u + Vec3<T>{bar[0].u, bar[1].u, bar[2].u});
  ContactPoint<T> touch;
  ball_on_box(b, a.p + axis * here.s, r, here.at, here.active, touch);
  share_wrench(touch, out_bar, Force<T>{cross(a.p, c_bar) + cross(axis, u_bar), c_bar}, a_bar,
               b_bar);
}

}  // namespace fb::FB_ISA
