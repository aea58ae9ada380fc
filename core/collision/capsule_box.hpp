// A capsule against a box: three contact points, in the frame of the box.  Branch-free, but for what
// no world needs.
// Proof: docs/derivations/collision.md.
#pragma once
#include "core/collision/box_segment.hpp"

namespace fb::FB_ISA {

template <class T>
FB_INLINE Vec3<T> box_axis(int i) {
  return {T(i == 0), T(i == 1), T(i == 2)};
}

// the normal of a segment and a box edge that cross: +- x / |x|, x = axis x u
template <class T>
FB_INLINE Vec3<T> edge_normal(const BoxSegment<T>& seg, Vec3<T> axis, T sign, Mask<T> crossed) {
  const Vec3<T> x = cross(axis, seg.u);
  return x * (sign / sqrt(select(crossed, dot(x, x), T(1))));
}

// (C.39)  given n_bar, add to seg_bar where they cross
template <class T>
FB_INLINE void edge_normal_adjoint(const BoxSegment<T>& seg, Vec3<T> axis, T sign, Mask<T> crossed,
                                   Vec3<T> n_bar, BoxSegment<T>& seg_bar) {
  const Vec3<T> x = cross(axis, seg.u);
  const T scale = sign / sqrt(select(crossed, dot(x, x), T(1)));
  const Vec3<T> n = x * scale, x_bar = (n_bar - n * dot(n, n_bar)) * scale;
  seg_bar.u += select(crossed, cross(x_bar, axis), zero3<T>());
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
// with the least overlap; an edge must beat the faces by 5 %.  Asked for where it is deep inside
template <class T>
FB_INLINE BoxExit<T> exit_of_segment(const BoxSegment<T>& seg, Mask<T> deep) {
  using R = Real<T>;
  BoxExit<T> best{box_axis<T>(0), Mask<T>(false), Bits<T>(0u), Bits<T>(0u)};
  if (!any(deep)) return best;
  const T o = T(0), e = T(1);
  const T c[3] = {seg.c.x, seg.c.y, seg.c.z}, u[3] = {seg.u.x, seg.u.y, seg.u.z};
  const T half[3] = {seg.half.x, seg.half.y, seg.half.z};
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
    const Vec3<T> axis = box_axis<T>(i), x = cross(axis, seg.u);
    const Mask<T> crossed = dot(x, x) > T(R(kAlongBox)), reversed = dot(x, seg.c) < o;
    const Vec3<T> n = edge_normal(seg, axis, select(reversed, -e, e), crossed);
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
  best.on_edge = best.on_edge & deep;
  return best;
}

// an edge of the box that a segment passes: its axis, the normal and its sign, the signs of its
// corner, and what holds the place of the passage
template <class T>
struct EdgePass {
  Vec3<T> axis, n, corner;
  T sign;
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
  x.sign = select(has_bits(exit.edge, kEdgeReversed), -e, e);
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
  x.sign = sign(kEdgeReversed);
  x.n = edge_normal(seg, x.axis, x.sign, on);
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
  Mask<T> deep, over;
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
  x.exit = exit_of_segment(x.seg, x.deep);
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

// slots closer than this part of the radius are one, the lower one; ends stay while they are as low but
// for this part of that distance, and their normal is that of the closest point but for this cosine
inline constexpr double kSameSlot = 1e-3, kLowerSlot = 1e-3, kTurnedSlot = 5e-5;

// whether the closest point lies at an end of the stretch, and whether it stands for that end
template <class T>
struct AtEnd {
  Mask<T> near, lower;
};
template <class T>
FB_INLINE AtEnd<T> at_end(const BoxApproach<T>& x, const BoxSlot<T>& end, T slack) {
  const Mask<T> near = end.active & (abs(x.s - end.s) <= slack);
  const T lower = end.at.distance - x.at.distance;
  const Mask<T> turned = (lower >= T(0)) & (dot(x.at.n, end.at.n) < T(Real<T>(1.0 - kTurnedSlot)));
  return {near, Mask<T>(near & !x.deep & (turned | (lower > slack * Real<T>(kLowerSlot))))};
}

// slot 0: the closest point where the stretch does not already hold it, or the passage of an edge
template <class T>
FB_INLINE BoxSlot<T> closest_slot(const BoxApproach<T>& x, const AtEnd<T>& lo, const AtEnd<T>& hi) {
  const Mask<T> over = x.over & (x.s >= x.along.lo) & (x.s <= x.along.hi);
  const Mask<T> held =
      (lo.near & !lo.lower) | (hi.near & !hi.lower) | (over & !lo.lower & !hi.lower);
  const Mask<T> on_edge = x.exit.on_edge;
  const Bits<T> none(0u);
  BoxSlot<T> out{x.s, x.at, Mask<T>(on_edge | !held), {x.closest, {none, none}}};
  if (!any(on_edge)) return out;
  Bits<T> bits;
  const EdgePass<T> pass = find_edge_pass(x.seg, x.exit, bits);
  T distance;
  out.s = select(on_edge, pass_of_edge(x.seg, pass, distance), x.s);
  out.at = {select(on_edge, distance, x.at.distance), select(on_edge, x.exit.n, x.at.n)};
  out.feature.id[0] = select(on_edge, bits | Bits<T>(kPassesEdge), none);
  return out;
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
  // read on an edge only
  Vec3<T> n_bar = at_bar.n;
  pass_of_edge_adjoint(seg, x.pass, select(x.on_edge, s_bar, o),
                       at_bar.distance - near_bar.distance, n_bar, seg_bar);
  edge_normal_adjoint(seg, x.pass.axis, x.pass.sign, x.on_edge, n_bar, seg_bar);
}

// feature of slots 1 and 2, in kind: the node; from bit 3 on the sides of that point (BoxSides), which
// leaves by the face where the segment is deep
inline constexpr int kEndSides = 3;

// (C.13)  the sides of an end: one that lies in the box although the closest point does not, as on a
// segment nearly along a face, leaves by the face of its stretch
template <class T>
FB_INLINE BoxSides<T> end_sides(const BoxApproach<T>& x, Vec3<T> at) {
  const BoxSides<T> found = find_box_sides(at, x.seg.half);
  if (!any(found.inside)) return found;
  const T o = T(0), ax = abs(x.face.x), ay = abs(x.face.y), az = abs(x.face.z);
  const Mask<T> on_x = (ax >= ay) & (ax >= az), on_y = (!on_x) & (ay >= az);
  const auto side = [&](const Held<T>& out, Mask<T> on, T n) {
    return Held<T>{select(found.inside, on & (n < o), out.below),
                   select(found.inside, on & !(n < o), out.above)};
  };
  return {side(found.x, on_x, x.face.x), side(found.y, on_y, x.face.y),
          side(found.z, !(on_x | on_y), x.face.z), found.inside};
}

// slots 1, 2: the ends of the stretch over the nearest face
template <class T>
FB_INLINE BoxSlot<T> end_slot(const BoxApproach<T>& x, T slack, int slot) {
  const Vec3<T> f = x.face;
  const T s = hold_within(slot == 1 ? x.along.lo : x.along.hi, x.seg.h);
  const Vec3<T> at = point_at(x.seg, s);
  const BoxSides<T> sides = end_sides(x, at);
  const BoxPoint<T> outside = point_box(at, x.seg.half, sides);
  const T height = dot(f, at) - dot(f, scaled(f, x.seg.half));
  const Mask<T> on = slot == 1 ? x.along.lo <= x.along.hi : x.along.hi - x.along.lo > slack;
  // a segment that only touches an edge may have nothing over the face
  const Mask<T> inside = x.deep & x.over;
  const Bits<T> leaves = select(inside, x.exit.face, box_bits(sides));
  const Bits<T> kind = (slot == 1 ? x.along.lo_node : x.along.hi_node) | (leaves << kEndSides);
  return {s,
          {select(inside, height, outside.distance), select(inside, f, outside.n)},
          Mask<T>(on & !x.exit.on_edge),
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
  node_place_adjoint(seg, kind, kind, dot(seg.u, x_bar), T(0), seg_bar);
}

// (C.12)-(C.14)  three balls along the segment
template <class T>
FB_INLINE void capsule_box(const Shape<T>& a, const Shape<T>& b, ContactPoint<T>* out) {
  const BoxApproach<T> x = box_approach(a, b);
  const T r = a.size.x, slack = r * Real<T>(kSameSlot);
  BoxSlot<T> slot[3];
  for (int k = 1; k < 3; ++k) slot[k] = end_slot(x, slack, k);
  const AtEnd<T> lo = at_end(x, slot[1], slack), hi = at_end(x, slot[2], slack);
  slot[0] = closest_slot(x, lo, hi);
  slot[1].active = Mask<T>(slot[1].active & !lo.lower);
  slot[2].active = Mask<T>(slot[2].active & !hi.lower);
  for (int k = 0; k < 3; ++k)
    ball_on_box(b, {a.p + column(a.R, 2) * slot[k].s, r}, slot[k].at, slot[k].active,
                slot[k].feature, out[k]);
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
