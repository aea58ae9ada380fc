// Contact points of two convex shapes: a face cut to a face, the shared stretch of two axes, or one
// point.  For one world at a time.  Proof: docs/derivations/convex.md.
#pragma once
#include "core/collision/convex_closest.hpp"

namespace fb::FB_ISA {

inline constexpr int kMostPoints = 8;
template <class R>
struct ConvexSlots {
  ConvexSlot<R> at[kMostPoints];
  int n;
};

// ---- clipping with names

// a corner of the cut side is a corner of the incident side over the reference plane, a crossing of an
// incident edge and a reference edge, or a reference corner over the incident plane
enum class Named : uint8_t { kIncident, kCrossing, kReference };
template <class R>
struct ClipRow {
  Vec3<R> x;
  Named name;
  bool along_side;     // what follows: a side of the reference, not an incident edge
  int16_t i, k, next;  // numbers: incident corner or edge, reference edge or corner, what follows
};
inline constexpr int kMostRows = 2 * kMostFaceCorners;
template <class R>
struct ClipRows {
  ClipRow<R> at[kMostRows];
  int n;
  FB_INLINE ClipRows() : n(0) {}
  FB_INLINE ClipRows& operator=(const ClipRows& from) {
    if (this == &from) return *this;
    n = from.n;
    for (int k = 0; k < n; ++k) at[k] = from.at[k];
    return *this;
  }
};

// one side of the reference: keep what lies within `slack` beyond it
template <class R>
struct ClipSide {
  Vec3<R> from, out;
  R slack;
  int k, sides;
};

// whether any row lies beyond a side
template <class R>
FB_INLINE bool is_cut(const ClipRows<R>& rows, const ClipSide<R>& side) {
  for (int k = 0; k < rows.n; ++k)
    if (dot(side.out, rows.at[k].x - side.from) > side.slack) return true;
  return false;
}
// (CV.16)  one Sutherland-Hodgman cut
template <class R>
FB_FN void cut_rows(const ClipRows<R>& in, const ClipSide<R>& side, bool closed, ClipRows<R>& out) {
  out.n = 0;
  for (int i = 0; i < in.n; ++i) {
    const ClipRow<R>& p = in.at[i];
    const int j = i + 1 < in.n ? i + 1 : 0;
    const R hp = dot(side.out, p.x - side.from) - side.slack;
    const R hq = dot(side.out, in.at[j].x - side.from) - side.slack;
    const bool in_p = !(hp > R(0)), in_q = !(hq > R(0));
    if (in_p && out.n < kMostRows) out.at[out.n++] = p;
    const bool edge = closed || (i == 0 && in.n == 2);
    if (!edge || in_p == in_q || out.n == kMostRows) continue;
    // an edge all but within the slack, along the side, crosses it anywhere: it keeps its corner
    const bool along = max(hp, hq) < side.slack * R(9) && min(hp, hq) > -side.slack;
    ClipRow<R> x = in_p ? in.at[j] : p;
    if (p.along_side || !along) {
      x.x = p.x + (in.at[j].x - p.x) * (hp / (hp - hq));
      x.name = p.along_side ? Named::kReference : Named::kCrossing;
      x.i = x.next = p.next;
      x.along_side = p.along_side;
      // two sides meet in the corner between them
      const int before = side.k > 0 ? side.k - 1 : side.sides - 1;
      const int after = side.k + 1 < side.sides ? side.k + 1 : 0;
      x.k = int16_t(p.along_side ? (p.next == before ? side.k : after) : side.k);
    }
    if (in_p && closed) {
      x.along_side = true;
      x.next = int16_t(side.k);
    }
    out.at[out.n++] = x;
  }
}

// the reference side, the incident one, and which shape is the reference
template <class R>
struct FacePair {
  const Convex<R>&ref, &inc;
  FlatSide<R> on, other;
  bool on_a;
};

// (CV.16)  the incident side cut by the sides of the reference face
template <class R>
FB_FN void cut_side(const FacePair<R>& f, R slack, ClipRows<R>& rows) {
  const int n = side_size(f.inc, f.other), m = side_size(f.ref, f.on);
  rows.n = n < kMostFaceCorners ? n : kMostFaceCorners;
  for (int k = 0; k < rows.n; ++k)
    rows.at[k] = {corner_of(f.inc, side_corner(f.inc, f.other, k)),
                  Named::kIncident,
                  false,
                  int16_t(k),
                  0,
                  int16_t(k)};
  const bool closed = n > 2;
  ClipRows<R> cut;
  Vec3<R> from = corner_of(f.ref, side_corner(f.ref, f.on, 0));
  for (int k = 0; k < m; ++k) {
    const Vec3<R> to = corner_of(f.ref, side_corner(f.ref, f.on, k + 1));
    const Vec3<R> side = cross(to - from, f.on.n);
    const R length = norm(side);
    const ClipSide<R> line{from, side * (R(1) / max(length, R(1e-30))), slack, k, m};
    if (length > R(0) && is_cut(rows, line)) {
      cut_rows(rows, line, closed, cut);
      rows = cut;
    }
    from = to;
  }
}

// squared distance of row k from the line of its neighbours
template <class R>
FB_INLINE R off_line(const ClipRows<R>& rows, int k) {
  const Vec3<R> a = rows.at[k > 0 ? k - 1 : rows.n - 1].x;
  const Vec3<R> line = rows.at[k + 1 < rows.n ? k + 1 : 0].x - a;
  const Vec3<R> x = cross(line, rows.at[k].x - a);
  return dot(x, x) / max(dot(line, line), R(1e-24));
}
// (CV.17)  leave out corners within `small` of the line of their neighbours, while more than four are
// left
template <class R>
FB_FN void drop_straight(ClipRows<R>& rows, R small) {
  R away[kMostRows];
  for (int k = 0; k < rows.n && rows.n > 4; ++k) away[k] = off_line(rows, k);
  while (rows.n > 4) {
    int least = 0;
    for (int k = 1; k < rows.n; ++k)
      if (away[k] < away[least]) least = k;
    if (away[least] > small * small) return;
    --rows.n;
    for (int k = least; k < rows.n; ++k) {
      rows.at[k] = rows.at[k + 1];
      away[k] = away[k + 1];
    }
    const int before = least > 0 ? least - 1 : rows.n - 1, after = least < rows.n ? least : 0;
    away[before] = off_line(rows, before);
    away[after] = off_line(rows, after);
  }
}
// (CV.17)  keep the extremes along directions that are fixed in the reference face and turned against
// its edges, so that none ties; height counts twenty times
template <class R>
FB_FN void keep_extremes(ClipRows<R>& rows, Vec3<R> out, Vec3<R> u) {
  if (rows.n <= kMostPoints) return;
  const Vec3<R> w = cross(out, u), x0 = rows.at[0].x;
  bool kept[kMostRows];
  for (int k = 0; k < rows.n; ++k) kept[k] = false;
  R c = R(0.95533648912560601964), s = R(0.29552020666133957511);
  for (int q = 0; q < kMostPoints; ++q) {
    const Vec3<R> d = u * c + w * s - out * R(20);
    // an eighth of a turn on
    const R h = R(0.70710678118654752440), cosine = (c - s) * h;
    s = (c + s) * h;
    c = cosine;
    int best = 0;
    for (int k = 1; k < rows.n; ++k)
      if (dot(d, rows.at[k].x - x0) > dot(d, rows.at[best].x - x0)) best = k;
    kept[best] = true;
  }
  int n = 0;
  for (int k = 0; k < rows.n; ++k)
    if (kept[k]) rows.at[n++] = rows.at[k];
  rows.n = n;
}

// ---- slots

// the record of a row
template <class R>
FB_FN SlotRecord row_record(const FacePair<R>& f, const ClipRow<R>& row) {
  Piece on, other;
  int id[3];
  if (row.name == Named::kIncident) {
    face_plane(f.ref, f.on.face, id);
    on = corners_piece(id, 3);
    id[0] = side_corner(f.inc, f.other, row.i);
    other = corners_piece(id, 1);
  } else if (row.name == Named::kCrossing) {
    id[0] = side_corner(f.ref, f.on, row.k);
    id[1] = side_corner(f.ref, f.on, row.k + 1);
    on = corners_piece(id, 2);
    id[0] = side_corner(f.inc, f.other, row.i);
    id[1] = side_corner(f.inc, f.other, row.i + 1);
    other = corners_piece(id, 2);
  } else {
    id[0] = side_corner(f.ref, f.on, row.k);
    on = corners_piece(id, 1);
    face_plane(f.inc, f.other.face, id);
    other = corners_piece(id, 3);
  }
  const uint32_t carrier = f.on_a ? kFaceOfA : kFaceOfB;
  return {carrier, f.on.face, f.on_a ? on : other, f.on_a ? other : on};
}

// whether two edges cross beyond an end of one: where they lie along each other, within the slack of a
// side, they may cross anywhere
template <class R>
FB_INLINE bool crosses_beyond(const ConvexShapes<R>& w, const ConvexSlot<R>& s, R most) {
  const auto beyond = [](const Convex<R>& c, const Piece& f, const PiecePlace<R>& at) {
    return beyond_ends(f, at) * norm(corner_of(c, f.id[1]) - corner_of(c, f.id[0]));
  };
  return s.record.a.kind == kTwoCorners && s.record.b.kind == kTwoCorners &&
         max(beyond(w.a, s.record.a, s.state.a), beyond(w.b, s.record.b, s.state.b)) > most;
}
// add the slot of a record, if it is determined
template <class R>
FB_INLINE void push_slot(const ConvexShapes<R>& w, const SlotRecord& r, Vec3<R> near,
                         ConvexSlots<R>& out) {
  ConvexSlot<R> s;
  s.record = r;
  s.near = near;
  if (out.n == kMostPoints || !solve_slot(w, r, near, s.state)) return;
  s.phi = s.state.g - piece_radius(w.a, r.a) - piece_radius(w.b, r.b);
  if (is_finite(s.phi)) out.at[out.n++] = s;
}

// slots over the plane of a face; the lowest gap
template <class R>
FB_FN R face_slots(const ConvexShapes<R>& w, const FacePair<R>& f, R size, ConvexSlots<R>& out) {
  ClipRows<R> rows;
  out.n = 0;
  const R slack = size * R(kIsDouble<R> ? 1e-9 : 1e-5);
  cut_side(f, slack, rows);
  drop_straight(rows, size * R(1e-3));
  const Vec3<R> edge =
      corner_of(f.ref, side_corner(f.ref, f.on, 1)) - corner_of(f.ref, side_corner(f.ref, f.on, 0));
  keep_extremes(rows, f.on.n, edge * (R(1) / max(norm(edge), R(1e-30))));
  R low = R(1e30);
  for (int k = 0; k < rows.n; ++k) {
    const int before = out.n;
    push_slot(w, row_record(f, rows.at[k]), zero3<R>(), out);
    if (out.n > before && crosses_beyond(w, out.at[before], slack * R(100))) out.n = before;
    if (out.n > 0) low = min(low, out.at[out.n - 1].phi);
  }
  return low;
}

// (CV.18)  both ends of the stretch that two near-parallel axes share, each an end of one against the
// line of the other
template <class R>
FB_FN void axis_slots(const ConvexShapes<R>& w, Vec3<R> n, ConvexSlots<R>& out) {
  out.n = 0;
  const Vec3<R> u = column(w.a.R, 2), arm = w.b.p - w.a.p;
  const R cosine = dot(u, column(w.b.R, 2)), middle = dot(u, arm), half = w.b.size.y * abs(cosine);
  const R low = max(-w.a.size.y, middle - half), high = min(w.a.size.y, middle + half);
  if (!(low < high)) return;
  // ends that lie side by side are A's
  const R same = (w.a.size.y + w.b.size.y) * R(1e-6);
  for (int k = 0; k < 2; ++k) {
    const R end = k == 0 ? -w.a.size.y - low : high - w.a.size.y;
    const bool of_a = end > -same;
    const int id = of_a || cosine > R(0) ? k : 1 - k;
    const Piece point{kOneCorner, {id, 0, 0}};
    push_slot(w, {kFreeNormal, 0, of_a ? point : axis_piece(), of_a ? axis_piece() : point}, n,
              out);
  }
}

// whether slots have about the normal and the lowest the gap of the closest points
template <class R>
FB_FN bool lies_along(const ConvexShapes<R>& w, const ConvexSlot<R>& near,
                      const ConvexSlots<R>& slots) {
  const R size = min(extent_of(w.a), extent_of(w.b)) * R(2);
  R low = slots.at[0].phi, along = R(1);
  for (int k = 0; k < slots.n; ++k) {
    low = min(low, slots.at[k].phi);
    along = min(along, dot(slots.at[k].state.n, near.state.n));
  }
  return along > R(0.9) && abs(low - near.phi) < size * R(1e-3) + abs(near.phi) * R(0.05);
}

// largest angle between a face that carries slots and the normal, and how much better B's must be
inline constexpr double kCarrierTilt = 0.05, kCarrierBias = 0.01, kParallelAxes = 0.9995;

template <class R>
FB_INLINE R tilt_of(const FlatSide<R>& s, Vec3<R> n) {
  if (s.flat != Flat::kFace) return R(9);
  const Vec3<R> x = cross(s.n, n);
  return norm(x);
}

// (CV.19)  slots over a face within `tilt` of the normal n whose lowest slot has the gap phi; false if
// there is none
template <class R>
FB_FN bool carried_slots(const ConvexShapes<R>& w, Vec3<R> n, R phi, R tilt, ConvexSlots<R>& out) {
  const FlatSide<R> fa = flat_side(w.a, n), fb = flat_side(w.b, -n);
  if (fa.flat == Flat::kNone || fb.flat == Flat::kNone) return false;
  const R size = min(extent_of(w.a), extent_of(w.b)) * R(2);
  const R tilt_a = tilt_of(fa, n), tilt_b = tilt_of(fb, n);
  const bool a_first = tilt_a - R(kCarrierBias) <= tilt_b;
  for (int trial = 0; trial < 2; ++trial) {
    const bool on_a = a_first == (trial == 0);
    if (!((on_a ? tilt_a : tilt_b) < tilt)) continue;
    const FlatSide<R>& on = on_a ? fa : fb;
    const Convex<R>&ref = on_a ? w.a : w.b, &inc = on_a ? w.b : w.a;
    const FacePair<R> pair{ref, inc, on, flat_side(inc, -on.n), on_a};
    if (pair.other.flat == Flat::kNone) continue;
    const R low = face_slots(w, pair, size, out);
    // one point is that of the closest points
    if (out.n > 1 && abs(low - phi) < size * R(1e-3) + abs(phi) * R(0.05)) return true;
  }
  out.n = 0;
  return false;
}

// (CV.19)  the contact points of a pair nearer than far: over a face that lies across the normal, at
// both ends of two parallel axes, or one.  Well within the tilt of a face its slots need no polish
template <class R>
FB_OUTLINE void convex_slots(const ConvexShapes<R>& w, R far, ConvexSlots<R>& out) {
  out.n = 0;
  Search<R> s(w, far);
  if (!s.run(false)) return;
  const R padding = core_radius(w.a) + core_radius(w.b), tilt = R(kCarrierTilt);
  if (carried_slots(w, s.result.n, s.result.g - padding, s.curved ? tilt * R(0.6) : tilt, out)) {
    R low = out.at[0].phi;
    for (int k = 1; k < out.n; ++k) low = min(low, out.at[k].phi);
    if (low > far) out.n = 0;
    return;
  }
  const Closest<R> near = polished(s);
  const Vec3<R> n = near.slot.state.n;
  if (near.found == Found::kFar || near.slot.phi > far) return;
  if (s.curved && carried_slots(w, n, near.slot.phi, tilt, out)) return;
  const R along = dot(column(w.a.R, 2), column(w.b.R, 2));
  if (abs(along) > R(kParallelAxes) && flat_side(w.a, n).flat == Flat::kAxis &&
      flat_side(w.b, -n).flat == Flat::kAxis) {
    axis_slots(w, n, out);
    if (out.n > 0 && lies_along(w, near.slot, out)) return;
  }
  out.at[0] = near.slot;
  out.n = 1;
}

}  // namespace fb::FB_ISA
