// The segment of a capsule in the frame of a box: where it crosses the planes of the faces, and the
// point of it that is closest to the box.  Branch-free.  Proof: docs/derivations/collision.md.
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

// the stretch with |c + s u| <= half in coordinate i;
// a coordinate that does not move keeps all or nothing
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

// (C.36)  given the bars of two nodes, add to seg_bar: an end moves with h; a crossing
// t = (+- half - c) / u has c_bar -= t_bar / u, half_bar += +- t_bar / u, u_bar -= t t_bar / u
template <class T>
FB_INLINE void node_place_adjoint(const BoxSegment<T>& seg, Bits<T> lo, Bits<T> hi, T lo_bar,
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
    const Mask<T> level = slope == o;
    if (!any(level)) continue;
    const Mask<T> before = level & (s < flat_lo), after = level & (s > flat_hi);
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
  node_place_adjoint(seg, x.lo_node, x.hi_node,
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

}  // namespace fb::FB_ISA
