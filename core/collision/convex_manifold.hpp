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

// ---- what of a shape looks along a direction: a face, the axis of a capsule or cylinder, or nothing
// flat

enum class Flat { kNone, kAxis, kFace };
template <class R>
struct FlatSide {
  Flat flat;
  int face;
  Vec3<R> n;
};

// the face around the vertex farthest along d that looks along d most
template <class R>
FB_FN FlatSide<R> hull_side(const Convex<R>& c, Vec3<R> d) {
  FlatSide<R> best{Flat::kNone, 0, d};
  if (hull_faces(c) == 0) return best;
  int vertex = 0;
  support_of(c, d, vertex);
  const int32_t* start = vertex_faces(c) + vertex;
  R most = R(-2);
  for (int e = start[0]; e < start[1]; ++e) {
    const Vec3<R> n = face_normal(c, c.hull[e]);
    const R here = dot(n, d);
    if (!(here > most)) continue;
    most = here;
    best = {Flat::kFace, c.hull[e], n};
  }
  return best;
}
template <class R>
FB_FN FlatSide<R> flat_side(const Convex<R>& c, Vec3<R> d) {
  if (c.type == kMesh) return hull_side(c, d);
  if (c.type == kCapsule) return {Flat::kAxis, 0, d};
  const Vec3<R> q = mul_transposed(c.R, d);
  if (c.type == kCylinder) {
    const int face = q.z > R(0) ? 1 : 0;
    return {abs(q.z) > R(0.7) ? Flat::kFace : Flat::kAxis, face, face_normal(c, face)};
  }
  if (c.type != kBox) return {Flat::kNone, 0, d};
  const R x = abs(q.x), y = abs(q.y), z = abs(q.z);
  const int m = z > max(x, y) ? 2 : y > x ? 1 : 0;
  const int face = 2 * m + (component(q, m) > R(0) ? 1 : 0);
  return {Flat::kFace, face, face_normal(c, face)};
}
template <class R>
FB_INLINE int side_size(const Convex<R>& c, const FlatSide<R>& s) {
  return s.flat == Flat::kAxis ? 2 : face_size(c, s.face);
}
template <class R>
FB_INLINE int side_corner(const Convex<R>& c, const FlatSide<R>& s, int j) {
  const int n = side_size(c, s);
  const int k = j < n ? j : j - n;
  return s.flat == Flat::kAxis ? k : face_corner(c, s.face, k);
}

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
};

// one side of the reference: keep what lies within `slack` beyond it
template <class R>
struct ClipSide {
  Vec3<R> from, out;
  R slack;
  int k, sides;
};

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
    ClipRow<R> x = p;
    x.x = p.x + (in.at[j].x - p.x) * (hp / (hp - hq));
    x.name = p.along_side ? Named::kReference : Named::kCrossing;
    x.i = p.next;
    // two sides meet in the corner between them
    const int before = side.k > 0 ? side.k - 1 : side.sides - 1;
    const int after = side.k + 1 < side.sides ? side.k + 1 : 0;
    x.k = int16_t(p.along_side ? (p.next == before ? side.k : after) : side.k);
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
    if (length > R(0)) {
      cut_rows(rows, {from, side * (R(1) / length), slack, k, m}, closed, cut);
      rows.n = cut.n;
      for (int i = 0; i < cut.n; ++i) rows.at[i] = cut.at[i];
    }
    from = to;
  }
}

template <class R>
FB_INLINE void drop_row(ClipRows<R>& rows, int k) {
  for (int i = k; i + 1 < rows.n; ++i) rows.at[i] = rows.at[i + 1];
  --rows.n;
}
// (CV.17)  leave out corners within `small` of the line of their neighbours, while more than four are
// left
template <class R>
FB_FN void drop_straight(ClipRows<R>& rows, R small) {
  while (rows.n > 4) {
    int least = 0;
    R nearest = R(1e30);
    for (int k = 0; k < rows.n; ++k) {
      const Vec3<R> a = rows.at[k > 0 ? k - 1 : rows.n - 1].x;
      const Vec3<R> b = rows.at[k + 1 < rows.n ? k + 1 : 0].x;
      const Vec3<R> x = cross(b - a, rows.at[k].x - a);
      const R away = norm(x) / max(norm(b - a), R(1e-12));
      if (!(away < nearest)) continue;
      nearest = away;
      least = k;
    }
    if (nearest > small) return;
    drop_row(rows, least);
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
  for (int q = 0; q < kMostPoints; ++q) {
    R s, c;
    sincos(R(0.3 + q * 0.78539816339744830962), s, c);
    const Vec3<R> d = u * c + w * s - out * R(20);
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

// add the slot of a record, if it is determined
template <class R>
FB_INLINE void push_slot(const ConvexShapes<R>& w, const SlotRecord& r, Vec3<R> near,
                         ConvexSlots<R>& out) {
  ConvexSlot<R> s;
  s.record = r;
  if (out.n == kMostPoints || !solve_slot(w, r, near, s.state)) return;
  s.phi = s.state.g - piece_radius(w.a, r.a) - piece_radius(w.b, r.b);
  if (is_finite(s.phi)) out.at[out.n++] = s;
}

// slots over the plane of a face; the lowest gap
template <class R>
FB_FN R face_slots(const ConvexShapes<R>& w, const FacePair<R>& f, R size, ConvexSlots<R>& out) {
  ClipRows<R> rows;
  out.n = 0;
  cut_side(f, size * R(kIsDouble<R> ? 1e-9 : 1e-5), rows);
  drop_straight(rows, size * R(1e-3));
  const Vec3<R> edge =
      corner_of(f.ref, side_corner(f.ref, f.on, 1)) - corner_of(f.ref, side_corner(f.ref, f.on, 0));
  keep_extremes(rows, f.on.n, edge * (R(1) / max(norm(edge), R(1e-30))));
  R low = R(1e30);
  for (int k = 0; k < rows.n; ++k) {
    push_slot(w, row_record(f, rows.at[k]), zero3<R>(), out);
    if (out.n > 0) low = min(low, out.at[out.n - 1].phi);
  }
  return low;
}

// (CV.18)  both ends of the stretch that two near-parallel axes share, each an end against a line
template <class R>
FB_FN void axis_slots(const ConvexShapes<R>& w, Vec3<R> n, ConvexSlots<R>& out) {
  out.n = 0;
  for (int k = 0; k < 2; ++k)
    for (int side = 0; side < 2 && out.n < 2; ++side) {
      const Convex<R>&end = side == 0 ? w.a : w.b, &line = side == 0 ? w.b : w.a;
      const Vec3<R> x = corner_of(end, k), y = corner_of(line, 0), u = corner_of(line, 1) - y;
      const R t = dot(x - y, u), square = dot(u, u);
      if (!(t >= R(0) && t <= square)) continue;
      const Piece point{kOneCorner, {k, 0, 0}};
      const SlotRecord r{kFreeNormal, 0, side == 0 ? point : axis_piece(),
                         side == 0 ? axis_piece() : point};
      push_slot(w, r, n, out);
    }
}

// largest angle between a face that carries slots and the normal, and how much better B's must be
inline constexpr double kCarrierTilt = 0.05, kCarrierBias = 0.01, kParallelAxes = 0.9995;

template <class R>
FB_INLINE R tilt_of(const FlatSide<R>& s, Vec3<R> n) {
  if (s.flat != Flat::kFace) return R(9);
  const Vec3<R> x = cross(s.n, n);
  return norm(x);
}

// (CV.19)  the contact points of a pair nearer than far: over a face that lies across the normal and
// whose lowest slot has the signed distance, or one
template <class R>
FB_OUTLINE void convex_slots(const ConvexShapes<R>& w, R far, ConvexSlots<R>& out) {
  out.n = 0;
  const R size = min(extent_of(w.a), extent_of(w.b)) * R(2);
  const Closest<R> near = closest_contact(w, far, pair_size(w));
  if (near.found == Found::kFar) return;
  const Vec3<R> n = near.slot.state.n;
  const R phi = near.slot.phi;
  if (phi > far) return;
  const FlatSide<R> fa = flat_side(w.a, n), fb = flat_side(w.b, -n);
  if (fa.flat != Flat::kNone && fb.flat != Flat::kNone) {
    const R tilt_a = tilt_of(fa, n), tilt_b = tilt_of(fb, n);
    const bool a_first = tilt_a - R(kCarrierBias) <= tilt_b;
    for (int trial = 0; trial < 2; ++trial) {
      const bool on_a = a_first == (trial == 0);
      if (!((on_a ? tilt_a : tilt_b) < R(kCarrierTilt))) continue;
      const FlatSide<R>& on = on_a ? fa : fb;
      const Convex<R>&ref = on_a ? w.a : w.b, &inc = on_a ? w.b : w.a;
      const FacePair<R> pair{ref, inc, on, flat_side(inc, -on.n), on_a};
      if (pair.other.flat == Flat::kNone) continue;
      const R low = face_slots(w, pair, size, out);
      if (abs(low - phi) < size * R(1e-3) + abs(phi) * R(0.05)) return;
    }
    const R along = dot(column(w.a.R, 2), column(w.b.R, 2));
    out.n = 0;
    if (fa.flat == Flat::kAxis && fb.flat == Flat::kAxis && abs(along) > R(kParallelAxes))
      axis_slots(w, n, out);
    if (out.n > 0) return;
  }
  out.at[0] = near.slot;
  out.n = 1;
}

}  // namespace fb::FB_ISA
