// A height field against any convex shape, for one world at a time: the prisms under the shape by the
// convex routine, those of their contact points that lie on the field's surface, and of many a few.
// Proof: docs/derivations/hfield.md.
#pragma once
#include "core/collision/convex.hpp"
#include "core/collision/hfield_prism.hpp"

namespace fb::FB_ISA {

// ---- contact points found so far, and which of them stay

// order: of what carries it, less where a motion keeps it
template <class R>
struct FieldContact {
  R phi;
  Vec3<R> n, p;
  Feature<R> feature;
  int order;
};
inline constexpr int kFieldContacts = 16, kFieldSlots = 8;
// size: extent of the shape over the field; axes: of the field
template <class R>
struct FieldContacts {
  FieldContact<R> at[kFieldContacts];
  int n;
  R size;
  const Mat3<R>& axes;
};

// how much a contact point counts for direction q of eight: how far out it lies, and so many times its
// depth
template <class R>
FB_INLINE R reach_along(const FieldContacts<R>& f, const FieldContact<R>& c, int q, R depth) {
  const R h = R(0.70710678118654752440);
  const R u = R(q % 4 == 0 ? 1 : q % 4 == 2 ? 0 : q % 4 == 1 ? h : -h);
  const R v = R(q % 4 == 0 ? 0 : q % 4 == 2 ? 1 : h);
  const Vec3<R> x = mul_transposed(f.axes, c.p - f.at[0].p);
  // turned by 0.3 rad against the grid, so that none ties
  const R a = R(0.95533648912560601964), b = R(0.29552020666133957511);
  const R along = (x.x * a + x.y * b) * u + (x.y * a - x.x * b) * v;
  return (q < 4 ? along : -along) - c.phi * depth;
}

// whether all have one normal
template <class R>
FB_INLINE bool has_one_normal(const FieldContacts<R>& f) {
  const R most = R(kIsDouble<R> ? 1e-12 : 1e-6);
  for (int k = 1; k < f.n; ++k) {
    const Vec3<R> d = f.at[k].n - f.at[0].n;
    if (dot(d, d) > most) return false;
  }
  return true;
}

// the contact that lies farthest out along direction q of eight
template <class R>
FB_FN int farthest_along(const FieldContacts<R>& f, int q, R depth) {
  int best = 0;
  for (int k = 1; k < f.n; ++k)
    if (reach_along(f, f.at[k], q, depth) > reach_along(f, f.at[best], q, depth)) best = k;
  return best;
}
// (HF.8)  keep those that lie farthest out along eight directions, depth counting little or much; in place of
// the first the deepest, but on a flat stretch, where the border of what touches is as deep
template <class R>
FB_FN void keep_few(FieldContacts<R>& f) {
  bool kept[kFieldContacts];
  int deepest = 0;
  for (int k = 0; k < f.n; ++k) {
    kept[k] = false;
    if (f.at[k].phi < f.at[deepest].phi) deepest = k;
  }
  const bool flat = has_one_normal(f);
  R low = R(1e30);
  for (int q = kFieldSlots - 1; q > 0; --q) {
    const int best = farthest_along(f, q, R(flat || q % 2 == 1 ? 20 : 1000));
    kept[best] = true;
    low = min(low, f.at[best].phi);
  }
  const int first = farthest_along(f, 0, R(20));
  low = min(low, f.at[first].phi) - f.size * R(kIsDouble<R> ? 1e-6 : 1e-4);
  kept[flat && !(f.at[deepest].phi < low) ? first : deepest] = true;
  int n = 0;
  for (int k = 0; k < f.n; ++k)
    if (kept[k]) f.at[n++] = f.at[k];
  f.n = n;
}

// (HF.6)  the order of two slots at the same place that are as deep: carried by the top, by a face of the
// shape, or free; then a point of the shape over the top, two edges, a point of the ground, what goes down
FB_INLINE int order_of(const SlotRecord& r) {
  const int carrier = r.carrier == kFaceOfA ? 0 : r.carrier == kFaceOfB ? 1 : 2;
  int tops = 0;
  for (int k = 0; k < corner_count(r.a); ++k) tops += r.a.id[k] < 3 ? -1 : 1;
  return 8 * carrier - tops;
}
// one more; of two at the same place the deeper one, of equals the one of less order or the first
template <class R>
FB_FN void add_contact(FieldContacts<R>& f, const FieldContact<R>& c) {
  const R same = f.size * R(kIsDouble<R> ? 1e-5 : 1e-3), turned = R(kCarrierTilt * 1.2);
  const R equal = f.size * R(kIsDouble<R> ? 1e-9 : 1e-5);
  for (int k = 0; k < f.n; ++k) {
    const Vec3<R> apart = f.at[k].p - c.p, turn = f.at[k].n - c.n;
    if (dot(apart, apart) > same * same || dot(turn, turn) > turned * turned) continue;
    const R lead = c.order < f.at[k].order ? equal : -equal;
    if (c.phi < f.at[k].phi + lead) f.at[k] = c;
    return;
  }
  if (f.n == kFieldContacts) keep_few(f);
  f.at[f.n++] = c;
}

// ---- one prism

// the largest rise of the surface along the normal of a slot that stands in for one of the surface, or that of
// a corner in a face, and how many times deeper the shape may be sunk there
inline constexpr double kMostRise = 0.5, kSteepRise = 0.85, kMostSunk = 4;
// the field, the shape over it, and what was found; reserve: what stands if nothing was; beside: of slots
// on corners and edges of the surface that are not its own the one along which it rises least
template <class R>
struct FieldSearch {
  const Shape<R>&field, &other;
  FieldGrid<R> grid;
  PrismHull hull;
  R far;
  FieldContacts<R> found;
  FieldContact<R> reserve;
  bool has_reserve;
  FieldContact<R> beside;
  R rise;
};

// whether weights of the second and third corner of a triangle are those of a point in it
template <class R>
FB_INLINE bool is_inside(R b, R c) {
  const R least = R(-1e-6);
  return b > least && c > least && R(1) - b - c > least;
}
// whether x lies in the column of a prism
template <class R>
FB_INLINE bool is_over(const Convex<R>& prism, Vec3<R> x) {
  const Vec3<R> first = local_corner(prism, 3), y = mul_transposed(prism.R, x - prism.p) - first;
  const Vec3<R> e = local_corner(prism, 4) - first, f = local_corner(prism, 5) - first;
  const R inverse = R(1) / (e.x * f.y - e.y * f.x);
  return is_inside((y.x * f.y - y.y * f.x) * inverse, (e.x * y.y - e.y * y.x) * inverse);
}

// (HF.7)  slots of shapes that overlap, along the normal n of the top: the shape's flat side cut to the
// top, or its deepest point.  Whether the top lies over that
template <class R>
FB_FN bool top_slots(const ConvexShapes<R>& w, Vec3<R> n, ConvexSlots<R>& out) {
  out.n = 0;
  const FlatSide<R> side = flat_side(w.b, -n);
  const bool lies = side.flat == Flat::kAxis || tilt_of(side, n) < R(kCarrierTilt);
  if (side.flat != Flat::kNone && lies) {
    const FlatSide<R> top{Flat::kFace, kTopFace, n};
    face_slots(w, FacePair<R>{w.a, w.b, top, side, true},
               min(extent_of(w.a), extent_of(w.b)) * R(2), out);
    if (out.n > 0) return true;
  }
  int id = 0;
  support_of(w.b, -n, id);
  const int top[3] = {3, 4, 5};
  SlotRecord r{kFreeNormal, 0, corners_piece(top, 3), corners_piece(&id, 1)};
  if (w.b.type == kEllipsoid) r.b = {kOvalPiece, {0, 0, 0}};
  if (w.b.type == kCylinder) r.b = rim_piece(w.b, -n);
  push_slot(w, r, n, out);
  return out.n > 0 && is_inside(out.at[0].state.a.a[0], out.at[0].state.a.a[1]);
}

// a slot with another piece of the ground, and about which normal; x itself where its point would go elsewhere
template <class R>
FB_FN ConvexSlot<R> spread_to(const ConvexShapes<R>& w, const ConvexSlot<R>& x, const Piece& ground,
                              Vec3<R> near) {
  ConvexSlot<R> out = x;
  out.record.a = ground;
  out.near = near;
  if (!solve_slot(w, out.record, near, out.state)) return x;
  out.phi = out.state.g - piece_radius(w.b, out.record.b);
  const R level = R(4) * kLevelSlope<R>, size = extent_of(w.b), most = R(25) * level * size;
  const Vec3<R> moved = point_of(w.b, out.record.b, out.state.b, out.state.n).x -
                        point_of(w.b, x.record.b, x.state.b, x.state.n).x;
  const bool stays = abs(out.phi - x.phi) < level * size && dot(moved, moved) < most * most;
  return stays ? out : x;
}
// a free slot on an edge or corner of the top along the top's normal n is one of the top, and one on a corner
// across whose normal an edge lies is one of that edge: there the ground goes on straight.  Not where its point
// would go elsewhere, as on a rim that lies along the top
template <class R>
FB_FN ConvexSlot<R> spread_out(const ConvexShapes<R>& w, const ConvexSlot<R>& x, Vec3<R> n) {
  const Vec3<R> turn = x.state.n - n;
  const R level = R(4) * kLevelSlope<R>;
  const int corners = corner_count(x.record.a);
  const bool point = is_curved(x.record.b) || corner_count(x.record.b) == 1;
  if (x.record.carrier != kFreeNormal || corners == 3) return x;
  const int top[3] = {3, 4, 5};
  if (point && dot(turn, turn) < level * level) {
    const ConvexSlot<R> out = spread_to(w, x, corners_piece(top, 3), n);
    if (corner_count(out.record.a) == 3) return out;
  }
  const int here = x.record.a.id[0];
  for (int k = 0; k < 3 && corners == 1 && here >= 3 && corner_count(x.record.b) < 3; ++k) {
    const Vec3<R> edge = corner_of(w.a, top[k]) - corner_of(w.a, here);
    if (top[k] == here || abs(dot(edge, x.state.n)) > level * norm(edge)) continue;
    const int ends[2] = {here, top[k]};
    const ConvexSlot<R> out = spread_to(w, x, corners_piece(ends, 2), x.state.n);
    if (corner_count(out.record.a) == 2) return out;
  }
  return x;
}

// whether the points of a free slot lie on the shapes when it is computed from its record: those of flat
// sides along each other may not, and a code does not tell the points of a rim along an edge apart
template <class R>
FB_FN bool lies_as_coded(const ConvexShapes<R>& w, const FieldRecord<R>& at) {
  if (at.record.carrier != kFreeNormal) return true;
  SlotState<R> z;
  solve_slot(w, at.record, at.near, z);
  Piece a = at.record.a, b = at.record.b;
  const R small = R(100) * kLevelSlope<R> * extent_of(w.b);
  return !cut_to_border(w.a, a, z.a, point_of(w.a, a, z.a, z.n).x, z.n, small) &&
         !cut_to_border(w.b, b, z.b, point_of(w.b, b, z.b, z.n).x, -z.n, small);
}

// a slot of the prism of a triangle; origin: of its coordinates
template <class R>
FB_FN FieldContact<R> field_contact(const FieldSearch<R>& s, const FieldTriangle& t,
                                    const ConvexShapes<R>& w, const ConvexSlot<R>& x,
                                    Vec3<R> origin) {
  const ContactPoint<R> point = slot_point(w, x.record, x.state, origin);
  return {point.phi, point.n, point.p,
          field_feature<R>(x.record, triangle_number(t, s.grid.columns), x.near),
          order_of(x.record)};
}
// (HF.7)  a slot of an overlap on a corner or edge of the surface, along whose normal n (in the field's axes)
// that rises less than along the one in hand.  Where it rises steeply a corner lies in a face along the
// normal of the top
template <class R>
FB_FN void take_beside(FieldSearch<R>& s, const FieldTriangle& t, const ConvexShapes<R>& w,
                       const ConvexSlot<R>& x, Vec3<R> n, Vec3<R> origin) {
  const Vec3<R> f = s.field.size, stretch{R(1) + f.x, R(1) + f.y, R(1) + f.z};
  const R rise =
      s.found.n > 0 ? s.rise : rise_beside(s.grid, t, x.record, scaled(n, stretch), stretch);
  if (!(rise < s.rise)) return;
  ConvexSlot<R> taken = x;
  if (!(rise < R(kMostRise))) {
    const Piece &a = x.record.a, &b = x.record.b;
    taken.record = {kFaceOfA, kTopFace, a, b};
    if (a.kind != kOneCorner || b.kind != kThreeCorners ||
        !solve_slot(w, taken.record, n, taken.state))
      return;
    const SlotState<R>& z = taken.state;
    const Vec3<R> foot = point_of(w.b, b, z.b, z.n).x;
    if (beyond_face(w.b, b, z.b, foot, -x.state.n) > R(0)) return;
  }
  const FieldContact<R> c = field_contact(s, t, w, taken, origin);
  if (!lies_as_coded(w, field_record_at(c.feature, s.other))) return;
  s.rise = rise;
  s.beside = c;
}

// whether the foot of a slot lies on the ground beside its triangle, as where that goes on level
template <class R>
FB_FN bool has_foot(const FieldSearch<R>& s, const ConvexShapes<R>& w, const ConvexSlot<R>& x,
                    Vec3<R> origin) {
  const Vec3<R> f = s.field.size;
  const Vec3<R> foot = point_of(w.a, x.record.a, x.state.a, x.state.n).x + origin - s.field.p;
  const Vec3<R> y = mul_transposed(s.field.R, foot);
  return is_on_ground(s.grid, Vec3<R>{y.x / (R(1) + f.x), y.y / (R(1) + f.y), y.z / (R(1) + f.z)},
                      kLevelSlope<R> * extent_of(w.b));
}
// (HF.7)  the lowest corner of a shape below the top with the normal n, over its foot on the top or, where that
// lies beyond, the nearest point of the top's border: below a hollow the ground is nowhere nearer
template <class R>
FB_FN void low_slot(const ConvexShapes<R>& w, int id, Vec3<R> n, ConvexSlots<R>& out) {
  const int top[3] = {3, 4, 5};
  ConvexSlots<R> low;
  low.n = 0;
  const Piece corner = corners_piece(&id, 1);
  push_slot(w, {kFreeNormal, 0, corners_piece(top, 3), corner}, n, low);
  if (low.n == 0 || low.at[0].state.g > R(0)) return;
  out = low;
  if (is_inside(low.at[0].state.a.a[0], low.at[0].state.a.a[1])) return;
  const Vec3<R> x = corner_of(w.b, id);
  Piece border{};
  R least = R(1e30);
  for (int k = 0; k < 3; ++k) {
    const int ends[2] = {top[k], top[(k + 1) % 3]};
    const Vec3<R> from = corner_of(w.a, ends[0]), t = corner_of(w.a, ends[1]) - from;
    const R along = dot(t, x - from) / dot(t, t), place = min(max(along, R(0)), R(1));
    const Vec3<R> arm = x - from - t * place;
    if (!(dot(arm, arm) < least)) continue;
    least = dot(arm, arm);
    border = along > R(0) && along < R(1) ? corners_piece(ends, 2)
                                          : corners_piece(ends + (along > R(0) ? 1 : 0), 1);
  }
  low.n = 0;
  push_slot(w, {kFreeNormal, 0, border, corner}, n, low);
  if (low.n > 0) out = low;
}
// (HF.7)  what stands if nothing else is found: the slots along the normal n of the top under the lowest point of
// the shape, or that point's own
template <class R>
FB_FN void take_reserve(FieldSearch<R>& s, const FieldTriangle& t, const ConvexShapes<R>& w,
                        Vec3<R> n, ConvexSlots<R>& slots, Vec3<R> origin) {
  int id = 0;
  if (!is_over(w.a, support_of(w.b, -column(w.a.R, 2), id).x)) return;
  if (!is_curved(w.b)) low_slot(w, id, n, slots);
  if (slots.n == 0) return;
  s.reserve = field_contact(s, t, w, slots.at[0], origin);
  s.has_reserve = true;
}

// the slots of one prism that are slots of the field
template <class R>
FB_OUTLINE void search_prism(FieldSearch<R>& s, const FieldTriangle& t) {
  const Prism<R> prism = prism_of(s.grid, t);
  const Shape<R> a = prism_shape(s.field, prism, s.hull);
  const ConvexShapes<R> w = convex_shapes(a, s.other);
  const Vec3<R> n = face_normal(w.a, kTopFace);
  int id = 0;
  // all of the prism lies below the plane of its top
  const R above = dot(n, support_of(w.b, -n, id).x - corner_of(w.a, 3)) - core_radius(w.b);
  if (!(above < s.far)) return;
  ConvexSlots<R> slots;
  convex_slots(w, s.far, slots);
  const R o = R(1);
  const Vec3<R> stretch{o + s.field.size.x, o + s.field.size.y, o + s.field.size.z};
  // a core that touches a side of the prism lies on a line of the grid, and in no prism
  const R touch = extent_of(w.a) * R(kIsDouble<R> ? 1e-9 : 1e-5);
  bool overlap = false, any = false;
  R low = R(1e30), kept = low;
  const auto take = [&](const ConvexSlot<R>& x) {
    low = min(low, x.phi);
    const Vec3<R> along = mul_transposed(s.field.R, x.state.n);
    if (!is_on_surface(s.grid, t, x.record, scaled(along, stretch))) {
      if (x.phi + core_radius(w.b) < touch) take_beside(s, t, w, x, along, a.p);
      return;
    }
    const FieldContact<R> c = field_contact(s, t, w, spread_out(w, x, n), a.p);
    if (!lies_as_coded(w, field_record_at(c.feature, s.other))) {
      if (x.phi < s.far && !(s.has_reserve && s.reserve.phi < x.phi)) s.reserve = c;
      s.has_reserve = s.has_reserve || x.phi < s.far;
      return;
    }
    any = true;
    kept = min(kept, x.phi);
    if (x.phi < s.far) add_contact(s.found, c);
  };
  for (int k = 0; k < slots.n; ++k) {
    overlap = overlap || slots.at[k].phi + core_radius(w.b) < touch;
    take(slots.at[k]);
  }
  // the lowest slot that a face carries may lie on an inner side where the closest points do not
  if (!overlap && low < kept && slots.at[0].record.carrier != kFreeNormal) {
    const Closest<R> near = closest_contact(w, s.far);
    if (near.found != Found::kFar) take(near.slot);
  }
  if (any || !overlap) return;
  const bool over = top_slots(w, n, slots) || (slots.n > 0 && has_foot(s, w, slots.at[0], a.p));
  for (int k = 0; k < slots.n && over; ++k)
    if (slots.at[k].phi < s.far) add_contact(s.found, field_contact(s, t, w, slots.at[k], a.p));
  if (!over) take_reserve(s, t, w, n, slots, a.p);
}

// ---- the cells under a shape

// (HF.9)  the range of a shape along an axis of the field, from its middle, with what matters around it
template <class R>
struct FieldRange {
  R low, high;
};
template <class R>
FB_INLINE FieldRange<R> field_range(const Convex<R>& c, Vec3<R> axis, R far) {
  int id = 0;
  const R around = core_radius(c) + far;
  const R high = dot(axis, support_of(c, axis, id).x), low = dot(axis, support_of(c, -axis, id).x);
  return {low - around, high + around};
}

// all prisms that a shape can be nearer to than far
template <class R>
FB_FN void search_field(FieldSearch<R>& s) {
  const FieldGrid<R>& g = s.grid;
  const Convex<R> c = convex_of(s.other, s.field.p);
  const Vec3<R> f = s.field.size;
  const R sx = R(1) + f.x, sy = R(1) + f.y, sz = R(1) + f.z;
  const FieldRange<R> x = field_range(c, column(s.field.R, 0), s.far);
  const FieldRange<R> y = field_range(c, column(s.field.R, 1), s.far);
  const FieldRange<R> z = field_range(c, column(s.field.R, 2), s.far);
  const bool over = g.x * sx > x.low && x.high > -g.x * sx && g.y * sy > y.low &&
                    y.high > -g.y * sy && z.high > -g.base * sz;
  if (!over) return;
  const int columns = g.columns - 1, rows = g.rows - 1;
  const int first_column = held_cell((x.low / sx + g.x) / g.dx, columns);
  const int last_column = held_cell((x.high / sx + g.x) / g.dx, columns);
  const int last_row = held_cell((y.high / sy + g.y) / g.dy, rows);
  for (int row = held_cell((y.low / sy + g.y) / g.dy, rows); row <= last_row; ++row)
    for (int column = first_column; column <= last_column; ++column) {
      const R* h = g.height + row * g.columns + column;
      const R top = max(max(h[0], h[1]), max(h[g.columns], h[g.columns + 1]));
      if (z.low > top * sz) continue;
      search_prism(s, FieldTriangle{row, column, 0});
      search_prism(s, FieldTriangle{row, column, 1});
    }
}

// ---- the pair

// a slot by its record
template <class T>
struct FieldSlot {
  FieldRecord<Real<T>> at;
  Prism<Real<T>> prism;
  PrismHull hull;
  ConvexShapes<T> shapes;
  Vec3<T> origin;
  SlotState<T> state;
};
template <class T>
FB_FN void open_slot(const Shape<T>& field, const Shape<T>& other, const Feature<T>& feature,
                     FieldSlot<T>& out) {
  const FieldGrid<Real<T>> grid = field_grid(field);
  out.at = field_record_at(feature, other);
  out.prism = prism_of(grid, triangle_at(out.at.triangle, grid.columns));
  out.hull = prism_hull();
  const Shape<T> prism = prism_shape(field, out.prism, out.hull);
  out.shapes = convex_shapes(prism, other);
  out.origin = prism.p;
  solve_slot(out.shapes, out.at.record, lifted3<T>(out.at.near), out.state);
}

// one world: at most eight slots nearer than far
template <class T>
FB_OUTLINE void hfield_one(const Shape<T>& a, const Shape<T>& b, T far, ContactPoint<T>* out) {
  using R = Real<T>;
  clear_points<kFieldSlots>(a, out);
  if (a.nvert == 0) return;
  const Shape<R> field = plain(a), other = plain(b);
  FieldSearch<R> s{field,        other,      field_grid(field),
                   prism_hull(), plain(far), {{}, 0, extent_of(convex_of(other, other.p)), field.R},
                   {},           false,      {},
                   R(kSteepRise)};
  search_field(s);
  if (s.found.n == 0 && s.rise < R(kSteepRise) && s.has_reserve &&
      s.reserve.phi > s.beside.phi * R(kMostSunk))
    s.reserve = s.beside;
  if (s.found.n == 0 && s.has_reserve) s.found.at[s.found.n++] = s.reserve;
  if (s.found.n > kFieldSlots || (s.found.n > 2 && has_one_normal(s.found))) keep_few(s.found);
  for (int k = 0; k < s.found.n; ++k) {
    const Feature<R>& f = s.found.at[k].feature;
    const Feature<T> feature{f.kind, {f.id[0], f.id[1]}};
    FieldSlot<T> slot;
    open_slot(a, b, feature, slot);
    out[k] = slot_point(slot.shapes, slot.at.record, slot.state, slot.origin);
    out[k].feature = feature;
  }
}

// (HF.10)  given the bars of some slots, add to a_bar, b_bar
template <class T>
FB_OUTLINE void hfield_one_adjoint(const Shape<T>& a, const Shape<T>& b, const SlotBars<T>& bars,
                                   ShapeBar<T>& a_bar, ShapeBar<T>& b_bar) {
  if (a.nvert == 0) return;
  for (int i = 0; i < bars.count; ++i) {
    const SlotBar<T>& given = bars.at[i];
    if (is_nothing(given.bar)) continue;
    FieldSlot<T> slot;
    open_slot(a, b, given.feature, slot);
    slot_adjoint(slot.shapes, slot.at.record, slot.state, given.bar, slot.origin, a_bar, b_bar);
  }
}

// lanes take their turns
template <class T>
FB_OUTLINE void hfield_convex(const Shape<T>& a, const Shape<T>& b, T far, ContactPoint<T>* out) {
  collide_worlds<kFieldSlots>(
      a, b, far, out,
      [](const auto& a, const auto& b, auto far, auto* out) { hfield_one(a, b, far, out); });
}

// given the bars of some slots, add to a_bar, b_bar
template <class T>
FB_OUTLINE void hfield_convex_adjoint(const Shape<T>& a, const Shape<T>& b, const SlotBars<T>& bars,
                                      ShapeBar<T>& a_bar, ShapeBar<T>& b_bar) {
  collide_worlds_adjoint(a, b, bars, a_bar, b_bar,
                         [](const auto& a, const auto& b, const auto& bars, auto& a_bar,
                            auto& b_bar) { hfield_one_adjoint(a, b, bars, a_bar, b_bar); });
}

}  // namespace fb::FB_ISA
