// A capsule against a box: three contact points, in the frame of the box.  Branch-free.
// Proof: docs/derivations/collision.md.
#pragma once
#include "core/collision/round.hpp"

namespace fb::FB_ISA {

// the capsule's segment x(s) = c + s u, |s| <= h, in the frame of a box with half extents `half`
template <class T>
struct BoxSegment {
  Vec3<T> c, u, half;
  T h;
};
template <class T>
FB_INLINE BoxSegment<T> box_segment(const Shape<T>& a, const Shape<T>& b) {
  return {mul_transposed(b.R, a.p - b.p), mul_transposed(b.R, column(a.R, 2)), b.size, a.size.y};
}
template <class T>
FB_INLINE Vec3<T> point_at(const BoxSegment<T>& seg, T s) {
  return seg.c + seg.u * s;
}

// a point of the segment, as a number of three bits: its first or last end, or where it crosses the
// plane x_i = -half_i (kCrossings + 2 i) or x_i = half_i (one more)
inline constexpr uint32_t kFirstEnd = 0, kLastEnd = 1, kCrossings = 2, kNode = 7;

// one coordinate of the segment and of the box
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
// where a coordinate that moves crosses both of its planes: c + t0 u = -half, c + t1 u = half
template <class T>
struct Crossings {
  Mask<T> moves;
  T inverse, t0, t1;
};
template <class T>
FB_INLINE Crossings<T> crossings_of(const Slab<T>& x) {
  const Mask<T> moves = abs(x.u) > T(Real<T>(1e-9));
  const T inverse = T(1) / select(moves, x.u, T(1));
  return {moves, inverse, (-x.half - x.c) * inverse, (x.half - x.c) * inverse};
}

// a stretch of the segment, empty if lo > hi, and the nodes that its ends are
template <class T>
struct Stretch {
  T lo, hi;
  Bits<T> lo_node, hi_node;
};

// the stretch with |c + s u| <= half in coordinate i; a coordinate that does not move keeps all or
// nothing
template <class T>
FB_INLINE Stretch<T> stretch_in_slab(const BoxSegment<T>& seg, int i) {
  const Slab<T> x = slab_of(seg, i);
  const Crossings<T> y = crossings_of(x);
  const T h = x.h, beyond = h + T(1);
  const Mask<T> inside = abs(x.c) <= x.half;
  const T lo = select(y.moves, max(min(y.t0, y.t1), -h), select(inside, -h, beyond));
  const T hi = select(y.moves, min(max(y.t0, y.t1), h), select(inside, h, -beyond));

  // an end beyond the segment is an end of the segment
  const uint32_t plane = kCrossings + 2 * uint32_t(i);
  const Bits<T> first(kFirstEnd), last(kLastEnd), low(plane), high(plane + 1);
  const Bits<T> enters = select(y.t0 < y.t1, low, high), leaves = select(y.t0 > y.t1, low, high);
  return {lo, hi, select(lo > h, last, select(lo > -h, enters, first)),
          select(hi < -h, first, select(hi < h, leaves, last))};
}

// the coordinate s of a node
template <class T>
FB_INLINE T node_place(const BoxSegment<T>& seg, Bits<T> node) {
  T s = select(bits_are(node, kNode, kLastEnd), seg.h, -seg.h);
  for (uint32_t i = 0; i < 3; ++i) {
    const Crossings<T> x = crossings_of(slab_of(seg, int(i)));
    s = select(bits_are(node, kNode, kCrossings + 2 * i), x.t0, s);
    s = select(bits_are(node, kNode, kCrossings + 2 * i + 1), x.t1, s);
  }
  return s;
}

// (C.36)  given the bars of two nodes, add to seg_bar: an end moves with h; a crossing t = (+- half -
// c) / u has c_bar -= t_bar / u, half_bar += +- t_bar / u, u_bar -= t t_bar / u
template <class T>
FB_INLINE void node_places_adjoint(const BoxSegment<T>& seg, Bits<T> lo, Bits<T> hi, T lo_bar,
                                   T hi_bar, BoxSegment<T>& seg_bar) {
  const T o = T(0);
  const auto part = [&](Bits<T> node, uint32_t number, T bar) {
    return select(bits_are(node, kNode, number), bar, o);
  };
  seg_bar.h += part(lo, kLastEnd, lo_bar) - part(lo, kFirstEnd, lo_bar);
  seg_bar.h += part(hi, kLastEnd, hi_bar) - part(hi, kFirstEnd, hi_bar);
  T c[3], u[3], half[3];
  for (uint32_t i = 0; i < 3; ++i) {
    const Crossings<T> x = crossings_of(slab_of(seg, int(i)));
    const uint32_t low = kCrossings + 2 * i;
    const T over_lo = lo_bar * x.inverse, over_hi = hi_bar * x.inverse;
    const T t0_bar = part(lo, low, over_lo) + part(hi, low, over_hi);
    const T t1_bar = part(lo, low + 1, over_lo) + part(hi, low + 1, over_hi);
    c[i] = t0_bar + t1_bar;
    half[i] = t1_bar - t0_bar;
    u[i] = x.t0 * t0_bar + x.t1 * t1_bar;
  }
  seg_bar.c -= Vec3<T>{c[0], c[1], c[2]};
  seg_bar.u -= Vec3<T>{u[0], u[1], u[2]};
  seg_bar.half += Vec3<T>{half[0], half[1], half[2]};
}

// half the slope of the squared distance from the box along the segment
template <class T>
FB_INLINE T distance_slope(const BoxSegment<T>& seg, T s) {
  const Vec3<T> x = point_at(seg, s), k = seg.half;
  const Vec3<T> d{x.x - hold_within(x.x, k.x), x.y - hold_within(x.y, k.y),
                  x.z - hold_within(x.z, k.z)};
  return dot(seg.u, d);
}

// below this squared sine a segment counts as parallel to an edge or a face
inline constexpr double kAlongBox = 1e-6;

// what the slope does at the crossings and the ends: it vanishes from lo to hi (flat), or turns
// from negative at lo to positive at hi with no crossing between (rooted), or has one sign, so that
// lo is the closest end
template <class T>
struct SlopeScan {
  T lo, hi, lo_slope, hi_slope;
  Mask<T> flat, rooted;
  Bits<T> lo_node, hi_node;
};
template <class T>
FB_INLINE SlopeScan<T> scan_slopes(const BoxSegment<T>& seg, const Stretch<T>* slab) {
  const T h = seg.h, o = T(0);
  const Bits<T> first(kFirstEnd), last(kLastEnd);
  T lo = -h, hi = h, lo_slope = distance_slope(seg, lo), hi_slope = distance_slope(seg, hi);
  const Mask<T> flat_first = lo_slope == o, flat_last = hi_slope == o;
  T flat_lo = select(flat_first, -h, select(flat_last, h, h + T(1)));
  T flat_hi = select(flat_last, h, select(flat_first, -h, -h - T(1)));
  Bits<T> lo_node = first, hi_node = last;
  Bits<T> flat_lo_node = select(flat_first, first, last),
          flat_hi_node = select(flat_last, last, first);
  for (int k = 0; k < 6; ++k) {
    const Stretch<T>& x = slab[k / 2];
    const T s = hold_within(k & 1 ? x.hi : x.lo, h), slope = distance_slope(seg, s);
    const Bits<T> node = k & 1 ? x.hi_node : x.lo_node;
    const Mask<T> below = (slope < o) & (s > lo), above = (slope > o) & (s < hi);
    lo = select(below, s, lo);
    lo_node = select(below, node, lo_node);
    lo_slope = select(below, slope, lo_slope);
    hi = select(above, s, hi);
    hi_node = select(above, node, hi_node);
    hi_slope = select(above, slope, hi_slope);
    const Mask<T> before = (slope == o) & (s < flat_lo), after = (slope == o) & (s > flat_hi);
    flat_lo = select(before, s, flat_lo);
    flat_lo_node = select(before, node, flat_lo_node);
    flat_hi = select(after, s, flat_hi);
    flat_hi_node = select(after, node, flat_hi_node);
  }
  // a slope that rises by round-off only is flat as well
  const Mask<T> zero = flat_lo <= flat_hi, rooted = (lo_slope < o) & (hi_slope > o);
  const Mask<T> along = rooted & (hi_slope - lo_slope <= (hi - lo) * Real<T>(kAlongBox));
  const Mask<T> flat(zero | along), inner(flat | rooted), rises = lo_slope >= o;
  lo = select(inner, select(zero, flat_lo, lo), select(rises, -h, h));
  lo_node = select(inner, select(zero, flat_lo_node, lo_node), select(rises, first, last));
  return {lo,      select(zero, flat_hi, hi),          lo_slope, hi_slope, flat, rooted,
          lo_node, select(zero, flat_hi_node, hi_node)};
}

// feature of slot 0, in kind: flat, rooted; from bits 2 and 5 on the nodes lo and hi; from bit 8 on
// the slabs that the segment is outside of between them (two bits each); from bit 14 on the sides of
// the closest point (BoxSides).  In id[0]: the passage of an edge
inline constexpr uint32_t kFlat = 1, kRooted = 2;
inline constexpr int kLoNode = 2, kHiNode = 5, kOutside = 8, kClosestSides = 14;
template <class T>
FB_INLINE Bits<T> scan_bits(const BoxSegment<T>& seg, const SlopeScan<T>& x) {
  const Vec3<T> mid = point_at(seg, (x.lo + x.hi) * Real<T>(0.5)), k = seg.half;
  return bits_where(x.flat, kFlat) | bits_where(x.rooted, kRooted) | (x.lo_node << kLoNode) |
         (x.hi_node << kHiNode) | held_bits<T>(held_by(mid.x, k.x), kOutside) |
         held_bits<T>(held_by(mid.y, k.y), kOutside + 2) |
         held_bits<T>(held_by(mid.z, k.z), kOutside + 4);
}
template <class T>
FB_INLINE SlopeScan<T> scan_at(const BoxSegment<T>& seg, Bits<T> kind) {
  const Bits<T> lo_node = kind >> kLoNode, hi_node = kind >> kHiNode;
  const T lo = node_place(seg, lo_node), hi = node_place(seg, hi_node);
  return {lo,
          hi,
          distance_slope(seg, lo),
          distance_slope(seg, hi),
          has_bits(kind, kFlat),
          has_bits(kind, kRooted),
          lo_node,
          hi_node};
}

// (C.12)  the point of the segment closest to the box: the root of a piecewise linear slope,
// bracketed by the slab crossings; the middle of the stretch where the slope vanishes
template <class T>
FB_INLINE T closest_to_box(const SlopeScan<T>& x) {
  const T rise = select(x.rooted, x.hi_slope - x.lo_slope, T(1));
  const T root = x.lo - x.lo_slope * (x.hi - x.lo) / rise;
  return select(x.flat, (x.lo + x.hi) * Real<T>(0.5), select(x.rooted, root, x.lo));
}

// (C.37), (C.38)  given out_bar, add to seg_bar.  A flat stretch moves with both its nodes, an end
// with the segment; at a root the slope stays zero: only coordinates outside their slab, the same
// ones all along the bracket, have a part
template <class T>
FB_INLINE void closest_to_box_adjoint(const BoxSegment<T>& seg, const SlopeScan<T>& x, Bits<T> kind,
                                      T out_bar, BoxSegment<T>& seg_bar) {
  const T o = T(0), s = closest_to_box(x), half_bar = out_bar * Real<T>(0.5);
  node_places_adjoint(seg, x.lo_node, x.hi_node,
                      select(x.flat, half_bar, select(x.rooted, o, out_bar)),
                      select(x.flat, half_bar, o), seg_bar);

  // u . (c + s u - w) = 0 over the coordinates outside, where w = +- half
  const Vec3<T> side = signs_of(held_at<T>(kind, kOutside), held_at<T>(kind, kOutside + 2),
                                held_at<T>(kind, kOutside + 4));
  const Vec3<T> out = scaled(side, side), u = scaled(seg.u, out);
  const T square = dot(u, u);
  const Mask<T> solved = x.rooted & (!x.flat) & (square > T(kNoLength<T>));
  const T y = select(solved, -out_bar / select(solved, square, T(1)), o);
  const Vec3<T> d = scaled(point_at(seg, s), out) - scaled(side, seg.half);
  seg_bar.u += (d + u * s) * y;
  seg_bar.c += u * y;
  seg_bar.half -= scaled(side, u) * y;
}

template <class T>
FB_INLINE Vec3<T> box_axis(int i) {
  return {T(i == 0), T(i == 1), T(i == 2)};
}

// by which the capsule leaves the box: the outward normal, and the box edge if one carries the
// contact.  face: the sides of a point that leaves by the face (BoxSides); edge: axis and sign
template <class T>
struct BoxExit {
  Vec3<T> n;
  Mask<T> on_edge;
  Bits<T> face, edge;
};
// bits of an edge: its axis (two), then whether the normal is that of -(axis x u), and with a passage
// the corners' signs (three) and what holds the place of the passage (two)
inline constexpr uint32_t kEdgeAxis = 3, kEdgeReversed = 4;
inline constexpr int kEdgeCorner = 3, kEdgeHeld = 6;

// (C.14)  the way out for a segment inside the box: of three face axes and three edge axes the one
// with the least overlap; an edge must beat the faces by 5 %
template <class T>
FB_INLINE BoxExit<T> exit_of_segment(const BoxSegment<T>& seg) {
  using R = Real<T>;
  const T o = T(0), e = T(1);
  const T c[3] = {seg.c.x, seg.c.y, seg.c.z}, u[3] = {seg.u.x, seg.u.y, seg.u.z};
  const T half[3] = {seg.half.x, seg.half.y, seg.half.z};
  BoxExit<T> best{box_axis<T>(0), Mask<T>(false), Bits<T>(0u), Bits<T>(0u)};
  T least = T(R(1e30));
  for (int i = 0; i < 3; ++i) {
    const T overlap = half[i] + seg.h * abs(u[i]) - abs(c[i]);
    const Mask<T> better = overlap < least, below = c[i] < o;
    const Bits<T> low(1u << (2 * i)), high(2u << (2 * i));
    best.n = select(better, box_axis<T>(i) * select(below, -e, e), best.n);
    best.face = select(better, select(below, low, high), best.face);
    least = select(better, overlap, least);
  }
  least = least * R(0.95);
  for (int i = 0; i < 3; ++i) {
    const Vec3<T> x = cross(box_axis<T>(i), seg.u);
    const T square = dot(x, x);
    const Mask<T> crossed = square > T(R(kAlongBox)), reversed = dot(x, seg.c) < o;
    const Vec3<T> n = x * (select(reversed, -e, e) / sqrt(select(crossed, square, e)));
    const T reach = abs(n.x) * half[0] + abs(n.y) * half[1] + abs(n.z) * half[2];
    const T overlap = reach - dot(n, seg.c);
    const Mask<T> better = crossed & (overlap < least);
    best.n = select(better, n, best.n);
    best.edge =
        select(better, Bits<T>(uint32_t(i)) | bits_where(reversed, kEdgeReversed), best.edge);
    best.on_edge = best.on_edge | better;
    least = select(better, overlap, least);
  }
  best.face = best.face | Bits<T>(kInsideBox);
  return best;
}

// an edge of the box that a segment passes: its axis, the normal, the signs of its corner, and what
// holds the place of the passage
template <class T>
struct EdgePass {
  Vec3<T> axis, n, corner;
  Held<T> held;
};

// (C.14)  where the segment would pass the line of the edge: s = -(c - w) . v / |v|^2 with the corner
// w and v = u - axis (axis . u)
template <class T>
FB_INLINE T edge_crossing(const BoxSegment<T>& seg, const EdgePass<T>& x) {
  const Vec3<T> across = seg.u - x.axis * dot(seg.u, x.axis);
  const T square = dot(across, across);
  return -dot(seg.c - scaled(seg.half, x.corner), across) /
         select(square > T(kNoLength<T>), square, T(1));
}
// its decisions, and what is recorded of them
template <class T>
FB_INLINE EdgePass<T> find_edge_pass(const BoxSegment<T>& seg, const BoxExit<T>& exit,
                                     Bits<T>& bits) {
  const T e = T(1), o = T(0);
  const Mask<T> y = bits_are(exit.edge, kEdgeAxis, 1), z = bits_are(exit.edge, kEdgeAxis, 2);
  const Mask<T> negative[3] = {exit.n.x < o, exit.n.y < o, exit.n.z < o};
  EdgePass<T> x;
  x.axis = select(z, box_axis<T>(2), select(y, box_axis<T>(1), box_axis<T>(0)));
  x.n = exit.n;
  x.corner = {select(negative[0], -e, e), select(negative[1], -e, e), select(negative[2], -e, e)};
  x.held = held_by(edge_crossing(seg, x), seg.h);
  bits = exit.edge | held_bits<T>(x.held, kEdgeHeld);
  for (int i = 0; i < 3; ++i) bits = bits | bits_where(negative[i], 1u << (kEdgeCorner + i));
  return x;
}
// the passage as recorded; `on`: where there is one
template <class T>
FB_INLINE EdgePass<T> edge_pass_at(const BoxSegment<T>& seg, Bits<T> bits, Mask<T> on) {
  const T e = T(1);
  const Mask<T> y = bits_are(bits, kEdgeAxis, 1), z = bits_are(bits, kEdgeAxis, 2);
  const auto sign = [&](uint32_t bit) { return select(has_bits(bits, bit), -e, e); };
  EdgePass<T> x;
  x.axis = select(z, box_axis<T>(2), select(y, box_axis<T>(1), box_axis<T>(0)));
  const Vec3<T> along = cross(x.axis, seg.u);
  x.n = along * (sign(kEdgeReversed) / sqrt(select(on, dot(along, along), e)));
  x.corner = {sign(1u << kEdgeCorner), sign(2u << kEdgeCorner), sign(4u << kEdgeCorner)};
  x.held = held_at<T>(bits, kEdgeHeld);
  return x;
}

// where the segment passes the edge, and the signed distance there
template <class T>
FB_INLINE T pass_of_edge(const BoxSegment<T>& seg, const EdgePass<T>& x, T& distance) {
  const T s = hold_within(edge_crossing(seg, x), seg.h, x.held);
  distance = dot(x.n, point_at(seg, s) - scaled(seg.half, x.corner));
  return s;
}

// (C.41)  given the bars of s and the distance, add to n_bar, seg_bar
template <class T>
FB_INLINE void pass_of_edge_adjoint(const BoxSegment<T>& seg, const EdgePass<T>& pass, T out_bar,
                                    T distance_bar, Vec3<T>& n_bar, BoxSegment<T>& seg_bar) {
  const T o = T(0), e = T(1);
  const Vec3<T> w = scaled(seg.half, pass.corner), arm = seg.c - w;
  const Vec3<T> across = seg.u - pass.axis * dot(seg.u, pass.axis);
  const T square = dot(across, across);
  const T inverse = e / select(square > T(kNoLength<T>), square, e);
  const T s = -dot(arm, across) * inverse, inside = hold_within(s, seg.h, pass.held);

  // distance = n . (c + s u - w), then s = -(c - w) . across / |across|^2
  const Vec3<T> x_bar = pass.n * distance_bar;
  n_bar += (point_at(seg, inside) - w) * distance_bar;
  T s_bar = o;
  hold_within_adjoint(pass.held, out_bar + dot(seg.u, x_bar), s_bar, seg_bar.h);
  const T over = s_bar * inverse;
  const Vec3<T> across_bar = (arm + across * (s * Real<T>(2))) * (-over);
  const Vec3<T> arm_bar = x_bar - across * over;
  seg_bar.c += arm_bar;
  seg_bar.half -= scaled(arm_bar, pass.corner);
  seg_bar.u += x_bar * inside + across_bar - pass.axis * dot(pass.axis, across_bar);
}

// (C.39)  given n_bar of an edge's normal +- x / |x|, x = axis x u, add to seg_bar where there is one
template <class T>
FB_INLINE void edge_normal_adjoint(const BoxSegment<T>& seg, const EdgePass<T>& pass, Mask<T> on,
                                   Vec3<T> n_bar, BoxSegment<T>& seg_bar) {
  const Vec3<T> x = cross(pass.axis, seg.u), n = pass.n;
  const T e = T(1);
  const T scale = select(dot(x, n) < T(0), -e, e) / sqrt(select(on, dot(x, x), e));
  const Vec3<T> x_bar = (n_bar - n * dot(n, n_bar)) * scale;
  seg_bar.u += select(on, cross(x_bar, pass.axis), zero3<T>());
}

// (C.13)  the stretch over the face whose normal is closest to n: within both other slabs, or,
// beside the face (over = false), within the slab along which the segment runs more
template <class T>
FB_INLINE Stretch<T> stretch_over_face(const BoxSegment<T>& seg, const Stretch<T>* slab, Vec3<T> n,
                                       Mask<T>& over) {
  const T ax = abs(n.x), ay = abs(n.y), az = abs(n.z);
  const Mask<T> on_x = (ax >= ay) & (ax >= az), on_y = (!on_x) & (ay >= az);
  const Mask<T> on_z = !(on_x | on_y);
  const auto either = [](Mask<T> m, const Stretch<T>& p, const Stretch<T>& q) {
    return Stretch<T>{select(m, p.lo, q.lo), select(m, p.hi, q.hi), select(m, p.lo_node, q.lo_node),
                      select(m, p.hi_node, q.hi_node)};
  };
  const Stretch<T> i = either(on_x, slab[1], slab[0]), j = either(on_z, slab[1], slab[2]);
  const T i_run = abs(select(on_x, seg.u.y, seg.u.x)), j_run = abs(select(on_z, seg.u.y, seg.u.z));
  const Mask<T> along_i = i_run > j_run;
  over = max(i.lo, j.lo) <= min(i.hi, j.hi);
  const Mask<T> lo_i = select(over, i.lo > j.lo, along_i),
                hi_i = select(over, i.hi < j.hi, along_i);
  return {select(lo_i, i.lo, j.lo), select(hi_i, i.hi, j.hi), select(lo_i, i.lo_node, j.lo_node),
          select(hi_i, i.hi_node, j.hi_node)};
}

// how a capsule meets a box: the closest point s of its segment with the distance and normal there,
// the way out where it is deep, the face nearest to it and the stretch along that face
template <class T>
struct BoxApproach {
  BoxSegment<T> seg;
  Stretch<T> along;
  T s;
  BoxPoint<T> at;
  BoxExit<T> exit;
  Bits<T> closest;  // feature of slot 0
  Vec3<T> face;
  Mask<T> deep, on_edge, over;
};
template <class T>
FB_INLINE BoxApproach<T> box_approach(const Shape<T>& a, const Shape<T>& b) {
  BoxApproach<T> x;
  x.seg = box_segment(a, b);
  Stretch<T> slab[3];
  for (int i = 0; i < 3; ++i) slab[i] = stretch_in_slab(x.seg, i);
  const SlopeScan<T> scan = scan_slopes(x.seg, slab);
  x.s = closest_to_box(scan);
  const Vec3<T> near = point_at(x.seg, x.s);
  const BoxSides<T> sides = find_box_sides(near, x.seg.half);
  x.at = point_box(near, x.seg.half, sides);
  x.closest = scan_bits(x.seg, scan) | (box_bits(sides) << kClosestSides);
  x.deep = x.at.distance <= T(Real<T>(kIsDouble<T> ? 1e-9 : 1e-5));
  x.exit = exit_of_segment(x.seg);
  x.on_edge = x.deep & x.exit.on_edge;
  x.face = select(x.deep, x.exit.n, x.at.n);
  x.along = stretch_over_face(x.seg, slab, x.face, x.over);
  return x;
}

// the point of the segment that carries a slot, with the distance and the outward normal there
template <class T>
struct BoxSlot {
  T s;
  BoxPoint<T> at;
  Mask<T> active;
  Feature<T> feature;
};

// id[0] of slot 0 has this bit where the segment passes an edge
inline constexpr uint32_t kPassesEdge = 256;

// slot 0: the closest point where the stretch does not already hold it, or the passage of an edge
template <class T>
FB_INLINE BoxSlot<T> closest_slot(const BoxApproach<T>& x, T slack) {
  const T lo = x.along.lo, hi = x.along.hi;
  const Mask<T> at_end = (abs(x.s - lo) <= slack) | (abs(x.s - hi) <= slack);
  const Mask<T> held = (lo <= hi) & (at_end | (x.over & (x.s >= lo) & (x.s <= hi)));
  Bits<T> bits;
  const EdgePass<T> pass = find_edge_pass(x.seg, x.exit, bits);
  T distance;
  const T s = pass_of_edge(x.seg, pass, distance);
  return {select(x.on_edge, s, x.s),
          {select(x.on_edge, distance, x.at.distance), select(x.on_edge, x.exit.n, x.at.n)},
          Mask<T>(x.on_edge | !held),
          {x.closest, {bits | bits_where(x.on_edge, kPassesEdge), Bits<T>(0u)}}};
}

// slot 0 as recorded
template <class T>
struct ClosestSlot {
  SlopeScan<T> scan;
  BoxSides<T> sides;
  EdgePass<T> pass;
  Mask<T> on_edge;
};
template <class T>
FB_INLINE ClosestSlot<T> closest_slot_at(const BoxSegment<T>& seg, const Feature<T>& f) {
  const Mask<T> on_edge = has_bits(f.id[0], kPassesEdge);
  return {scan_at<T>(seg, f.kind), box_sides_at<T>(f.kind >> kClosestSides),
          edge_pass_at<T>(seg, f.id[0], on_edge), on_edge};
}
template <class T>
FB_INLINE BoxSlot<T> closest_slot(const BoxSegment<T>& seg, const ClosestSlot<T>& x,
                                  const Feature<T>& feature) {
  T distance;
  const T near = closest_to_box(x.scan), s = pass_of_edge(seg, x.pass, distance);
  const BoxPoint<T> at = point_box(point_at(seg, near), seg.half, x.sides);
  return {select(x.on_edge, s, near),
          {select(x.on_edge, distance, at.distance), select(x.on_edge, x.pass.n, at.n)},
          Mask<T>(true),
          feature};
}

// given the bars of the ball's centre and of (distance, n), add to seg_bar
template <class T>
FB_INLINE void closest_slot_adjoint(const BoxSegment<T>& seg, const BoxSlot<T>& here,
                                    const ClosestSlot<T>& x, Vec3<T> x_bar,
                                    const BoxPoint<T>& at_bar, BoxSegment<T>& seg_bar) {
  const T o = T(0);
  const Vec3<T> none = zero3<T>(), near = point_at(seg, closest_to_box(x.scan));
  const BoxPoint<T> near_bar{select(x.on_edge, o, at_bar.distance),
                             select(x.on_edge, none, at_bar.n)};
  point_box_adjoint(near, seg.half, x.sides, near_bar, x_bar, seg_bar.half);

  // x = c + s u with s of the closest point or of the passage
  seg_bar.c += x_bar;
  seg_bar.u += x_bar * here.s;
  const T s_bar = dot(seg.u, x_bar);
  closest_to_box_adjoint(seg, x.scan, here.feature.kind, select(x.on_edge, o, s_bar), seg_bar);
  Vec3<T> n_bar = at_bar.n - near_bar.n;
  pass_of_edge_adjoint(seg, x.pass, select(x.on_edge, s_bar, o),
                       at_bar.distance - near_bar.distance, n_bar, seg_bar);
  edge_normal_adjoint(seg, x.pass, x.on_edge, n_bar, seg_bar);
}

// feature of slots 1 and 2, in kind: the node; from bit 3 on the sides of that point (BoxSides), which
// leaves by the face where the segment is deep
inline constexpr int kEndSides = 3;

// slots 1, 2: the ends of the stretch over the nearest face
template <class T>
FB_INLINE BoxSlot<T> end_slot(const BoxApproach<T>& x, T slack, int slot) {
  const Vec3<T> f = x.face;
  const T s = hold_within(slot == 1 ? x.along.lo : x.along.hi, x.seg.h);
  const Vec3<T> at = point_at(x.seg, s);
  const BoxSides<T> sides = find_box_sides(at, x.seg.half);
  const BoxPoint<T> outside = point_box(at, x.seg.half, sides);
  const T height = dot(f, at) - dot(f, scaled(f, x.seg.half));
  const Mask<T> on = slot == 1 ? x.along.lo <= x.along.hi : x.along.hi - x.along.lo > slack;
  const Bits<T> leaves = select(x.deep, x.exit.face, box_bits(sides));
  const Bits<T> kind = (slot == 1 ? x.along.lo_node : x.along.hi_node) | (leaves << kEndSides);
  return {s,
          {select(x.deep, height, outside.distance), select(x.deep, f, outside.n)},
          Mask<T>(on & !x.on_edge),
          make_feature<T>(kind)};
}

// an end as recorded
template <class T>
FB_INLINE BoxSlot<T> end_slot(const BoxSegment<T>& seg, const Feature<T>& feature) {
  const T s = node_place<T>(seg, feature.kind);
  const BoxSides<T> sides = box_sides_at<T>(feature.kind >> kEndSides);
  return {s, point_box(point_at(seg, s), seg.half, sides), Mask<T>(true), feature};
}

// (C.40)  given the bars of the ball's centre and of (distance, n), add to seg_bar
template <class T>
FB_INLINE void end_slot_adjoint(const BoxSegment<T>& seg, const BoxSlot<T>& here, Vec3<T> x_bar,
                                const BoxPoint<T>& at_bar, BoxSegment<T>& seg_bar) {
  const Bits<T> kind = here.feature.kind;
  point_box_adjoint(point_at(seg, here.s), seg.half, box_sides_at<T>(kind >> kEndSides), at_bar,
                    x_bar, seg_bar.half);
  // x = c + s u with s of the node
  seg_bar.c += x_bar;
  seg_bar.u += x_bar * here.s;
  node_places_adjoint(seg, kind, kind, dot(seg.u, x_bar), T(0), seg_bar);
}

// slots closer than this part of the radius are one
inline constexpr double kSameSlot = 1e-3;

// (C.12)-(C.14)  three balls along the segment
template <class T>
FB_INLINE void capsule_box(const Shape<T>& a, const Shape<T>& b, ContactPoint<T>* out) {
  const BoxApproach<T> x = box_approach(a, b);
  const T r = a.size.x, slack = r * Real<T>(kSameSlot);
  for (int k = 0; k < 3; ++k) {
    const BoxSlot<T> slot = k == 0 ? closest_slot(x, slack) : end_slot(x, slack, k);
    ball_on_box(b, {a.p + column(a.R, 2) * slot.s, r}, slot.at, slot.active, slot.feature, out[k]);
  }
}

// (C.42)  given out_bar, add to a_bar, b_bar: A's wrench in the box frame, then B's by (C.20)
template <class T>
FB_INLINE void capsule_box_adjoint(const Shape<T>& a, const Shape<T>& b, const SlotBar<T>& given,
                                   ShapeBar<T>& a_bar, ShapeBar<T>& b_bar) {
  const T o = T(0), r = a.size.x;
  const Vec3<T> none = zero3<T>(), axis = column(a.R, 2);
  const BoxSegment<T> seg = box_segment(a, b);
  BoxSegment<T> seg_bar{none, none, none, o};
  Vec3<T> x_bar = none;
  BoxPoint<T> at_bar{o, none};
  BoxSlot<T> here;
  if (given.slot == 0) {
    const ClosestSlot<T> found = closest_slot_at(seg, given.feature);
    here = closest_slot(seg, found, given.feature);
    ball_on_box_adjoint(b, r, here.at, given.bar, x_bar, a_bar.size.x, at_bar);
    closest_slot_adjoint(seg, here, found, x_bar, at_bar, seg_bar);
  } else {
    here = end_slot(seg, given.feature);
    ball_on_box_adjoint(b, r, here.at, given.bar, x_bar, a_bar.size.x, at_bar);
    end_slot_adjoint(seg, here, x_bar, at_bar, seg_bar);
  }
  a_bar.size.y += seg_bar.h;
  b_bar.size += seg_bar.half;

  // c = R_B' (p_A - p_B) is a point and u = R_B' axis a direction of A, with B held still
  const Vec3<T> c_bar = mul(b.R, seg_bar.c), u_bar = mul(b.R, seg_bar.u);
  ContactPoint<T> touch;
  ball_on_box(b, {a.p + axis * here.s, r}, here.at, here.active, given.feature, touch);
  share_wrench(touch, given.bar, Force<T>{cross(a.p, c_bar) + cross(axis, u_bar), c_bar}, a_bar,
               b_bar);
}

}  // namespace fb::FB_ISA
