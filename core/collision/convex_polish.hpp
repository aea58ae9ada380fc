// Where a search of two convex shapes leads: its supports become pieces, and Newton's method on these gives
// a slot, which is tested for acceptance.  For one world at a time.  Proof: docs/derivations/convex.md.
#pragma once
#include "core/collision/convex_deep.hpp"
#include "core/collision/convex_side.hpp"

namespace fb::FB_ISA {

// a slot in hand: its record, the normal that its code says, its numbers
template <class R>
struct ConvexSlot {
  SlotRecord record;
  Vec3<R> near;
  SlotState<R> state;
  R phi;
};
// what the search for the closest points found; sure: the slot is optimal
template <class R>
struct Closest {
  Found found;
  bool sure;
  ConvexSlot<R> slot;
};

// what the search leaves: normal, distance of the cores, its supports, and where cores overlap other
// directions of about the same overlap; crowded: there may be more of them
template <class R>
struct SearchResult {
  Vec3<R> n;
  R g;
  Simplex<R> simplex;
  Found found;
  Overlap<R> tie[kMostTies];
  int ties;
  bool crowded;
};

// tolerances of a search: of GJK (relative, absolute, least distance) and of EPA, and how near to the
// search a polished slot must stay, all but the first in sizes of the pair
template <class R>
struct SearchLevel {
  R gjk, slack, thin, epa, near;
};
template <class R>
FB_INLINE SearchLevel<R> search_level(bool curved, bool tight) {
  constexpr bool wide = kIsDouble<R>;
  if (!curved)
    return {R(wide ? 1.4e-14 : 7.6e-6), R(0), R(wide ? 1e-12 : 1e-4), R(wide ? 1e-12 : 1e-6),
            R(wide ? 1e-7 : 1e-4)};
  if (!tight) return {R(1e-4), R(1e-8), R(wide ? 1e-6 : 1e-4), R(1e-5), R(1e-4)};
  return {R(wide ? 1e-10 : 1e-5), R(wide ? 1e-13 : 1e-8), R(wide ? 1e-7 : 1e-4),
          R(wide ? 1e-7 : 2e-6), R(wide ? 1e-5 : 1e-4)};
}

// (CV.4)-(CV.6)  the distance or the least overlap of the cores
template <class R>
FB_FN Found search(ConvexPair<R>& pair, R far, R size, const SearchLevel<R>& level,
                   SearchResult<R>& out) {
  const GjkLimits<R> limit{far, level.gjk, level.slack * size, level.thin * size, size};
  Vec3<R> v = pair.b.p - pair.a.p;
  if (!(dot(v, v) > R(1e-20))) v = column(pair.a.R, 2);
  const GjkResult<R> r = gjk(pair, v, limit);
  if (r.found == Found::kFar) return Found::kFar;
  const R length = norm(r.v), near = size * R(kIsDouble<R> ? 1e-6 : 1e-4);
  // a short v of a flat simplex may have the direction of its rounding
  const bool apart = r.found == Found::kApart && r.simplex.n > 0 &&
                     (length > near || length + overlap_along(pair, r.v * (R(1) / length)) < near);
  if (apart) {
    out.g = length;
    out.n = r.v * (R(1) / out.g);
    out.simplex = r.simplex;
    out.found = Found::kApart;
    out.ties = 0;
    out.crowded = false;
    return out.found;
  }
  const bool curved = is_curved(pair.a) || is_curved(pair.b);
  Depth<R> d = epa(pair, r.simplex, size, level.epa * size, curved);
  const GjkLimits<R> endless{R(1e30), limit.tolerance, limit.slack, limit.thin, size};
  const bool shifted = !d.known;
  if (shifted) d = depth_by_shifts(pair, size, endless);
  if (!d.known) {
    // no extent at all: they part along A's axis
    d.n = column(pair.a.R, 2);
    d.gap = R(0);
    d.simplex.n = 1;
    d.simplex.at[0] = pair_support(pair, d.n);
    d.simplex.weight[0] = R(1);
  }
  out.n = d.n;
  out.g = d.gap;
  out.simplex = d.simplex;
  out.found = Found::kOverlap;
  out.ties = d.ties;
  out.crowded = shifted || (curved && (d.full || d.ties == kMostTies));
  for (int k = 0; k < d.ties; ++k) out.tie[k] = d.tie[k];
  return out.found;
}

// ---- from supports to pieces

// least weight of a corner that counts
template <class R>
inline constexpr R kLeastWeight = R(kIsDouble<R> ? 1e-9 : 1e-6);

// corners of more than a weight, the same ones together; at most three count
template <class R>
FB_INLINE Piece corners_of(const Simplex<R>& s, bool of_a, R least) {
  int id[4];
  R weight[4];
  int n = 0;
  for (int k = 0; k < s.n; ++k) {
    const int here = of_a ? s.at[k].ia : s.at[k].ib;
    int same = 0;
    while (same < n && id[same] != here) ++same;
    if (same == n) {
      id[n] = here;
      weight[n++] = R(0);
    }
    weight[same] += s.weight[k];
  }
  int kept[3], count = 0;
  for (int k = 0; k < n; ++k)
    if (weight[k] > least && count < 3) kept[count++] = id[k];
  if (count == 0) kept[count++] = id[0];
  return corners_piece(kept, count);
}

FB_INLINE Piece axis_piece() { return {kTwoCorners, {0, 1, 0}}; }
template <class R>
FB_INLINE Piece rim_piece(const Convex<R>& c, Vec3<R> d) {
  return {uint32_t(dot(column(c.R, 2), d) > R(0) ? kUpperRim : kLowerRim), {0, 0, 0}};
}
// a cap or the side
template <class R>
FB_INLINE Piece flat_piece(const Convex<R>& c, Vec3<R> d) {
  const R along = dot(column(c.R, 2), d);
  if (abs(along) < R(0.7)) return axis_piece();
  int id[3];
  face_plane(c, along > R(0) ? 1 : 0, id);
  return corners_piece(id, 3);
}
// a cylinder: its side, a cap, or a rim, at the point x with outward normal d
template <class R>
FB_INLINE Piece cylinder_piece(const Convex<R>& c, Vec3<R> x, Vec3<R> d) {
  const Vec3<R> q = mul_transposed(c.R, d), y = mul_transposed(c.R, x - c.p);
  const R r = c.size.x, h = c.size.y, level = R(1e-2);
  if (abs(y.z) < h * R(1 - 1e-6) && abs(q.z) < level) return axis_piece();
  const R rim = r * R(1 - 1e-3);
  if (y.x * y.x + y.y * y.y < rim * rim && q.x * q.x + q.y * q.y < level * level)
    return flat_piece(c, d);
  return rim_piece(c, d);
}
template <class R>
FB_INLINE Piece piece_of(const Convex<R>& c, const Simplex<R>& s, bool of_a, Vec3<R> d, R least) {
  if (c.type == kEllipsoid) return {kOvalPiece, {0, 0, 0}};
  if (c.type != kCylinder) return corners_of(s, of_a, least);
  Vec3<R> x = zero3<R>();
  for (int k = 0; k < s.n; ++k) x += (of_a ? s.at[k].a : s.at[k].b) * s.weight[k];
  return cylinder_piece(c, x, d);
}

// the next larger piece, where the farthest corner along d lies beyond it; false if there is none
template <class R>
FB_FN bool grow_piece(const Convex<R>& c, Piece& f, const PiecePlace<R>& at, Vec3<R> d) {
  if (c.type == kCylinder) {
    f = is_curved(f) ? flat_piece(c, d) : rim_piece(c, d);
    return true;
  }
  if (is_curved(f)) return false;
  int start = f.id[0];
  const int id = support_of(c, d, start).id, n = corner_count(f);
  for (int k = 0; k < n; ++k)
    if (f.id[k] == id) return false;
  if (n < 3) {
    f.id[n] = id;
    f.kind += 1;
    return true;
  }
  // the corner of least weight goes
  const R weight[3] = {R(1) - at.a[0] - at.a[1], at.a[0], at.a[1]};
  int least = 0;
  for (int k = 1; k < 3; ++k)
    if (weight[k] < weight[least]) least = k;
  f.id[least] = id;
  return true;
}
// one corner less on the side that has more; false if none can go
FB_INLINE bool shrink_pieces(Piece& a, Piece& b) {
  const int na = corner_count(a), nb = corner_count(b);
  if (nb > 1 && (nb >= na || is_curved(a))) {
    b.kind -= 1;
    return true;
  }
  if (na > 1) a.kind -= 1;
  return na > 1;
}

// ---- polish

// how far the farthest points of the shape lie beyond a slot's point along the outward normal d
template <class R>
FB_INLINE R beyond_piece(const Convex<R>& c, const Piece& f, Vec3<R> x, Vec3<R> d) {
  int start = is_curved(f) ? 0 : f.id[0];
  const R padding = c.type == kCylinder ? piece_radius(c, f) : R(0);
  return dot(d, support_of(c, d, start).x - x) - padding;
}

// how far a place lies beyond the ends of an edge or axis, in lengths of it
template <class R>
FB_INLINE R beyond_ends(const Piece& f, const PiecePlace<R>& at) {
  if (f.kind != kTwoCorners) return R(0);
  return max(max(-at.a[0], at.a[0] - R(1)), R(0));
}
// how far x lies beyond the loop of a face, and the edge that it lies farthest beyond
template <class R>
FB_FN R beyond_loop(const Convex<R>& c, int face, Vec3<R> x, int* edge) {
  const Vec3<R> n = face_normal(c, face);
  const int m = face_size(c, face);
  int last = face_corner(c, face, m - 1);
  Vec3<R> from = corner_of(c, last);
  R most = R(-1e30);
  for (int k = 0; k < m; ++k) {
    const int id = face_corner(c, face, k);
    const Vec3<R> to = corner_of(c, id), out = cross(to - from, n);
    const R here = dot(out, x - from) / max(norm(out), R(1e-30));
    if (here > most) {
      most = here;
      edge[0] = last;
      edge[1] = id;
    }
    last = id;
    from = to;
  }
  return most;
}
// how far corners of a face lie below the plane through x with outward normal d: those of a hull are
// merged of triangles that lie along each other but for a small angle
template <class R>
FB_FN R below_plane(const Convex<R>& c, int face, Vec3<R> x, Vec3<R> d) {
  R most = R(0);
  for (int k = 0; k < face_size(c, face) && c.type == kMesh; ++k)
    most = max(most, dot(d, x - corner_of(c, face_corner(c, face, k))));
  return most;
}
// where the point x of a flat piece lies more than `small` off the shape, the border that it lies
// beyond takes its place: of an edge an end, of a face an edge, of a cylinder's side or cap a rim.
// False if it does not
template <class R>
FB_FN bool cut_to_border(const Convex<R>& c, Piece& f, const PiecePlace<R>& at, Vec3<R> x,
                         Vec3<R> d, R small) {
  if (is_curved(f) || f.kind == kOneCorner) return false;
  if (f.kind == kTwoCorners) {
    const Vec3<R> t = corner_of(c, f.id[1]) - corner_of(c, f.id[0]);
    if (!(beyond_ends(f, at) * norm(t) > small)) return false;
    const bool second = at.a[0] > R(0.5);
    if (c.type == kCylinder)
      f = {uint32_t(second ? kUpperRim : kLowerRim), {0, 0, 0}};
    else
      f = {kOneCorner, {f.id[second ? 1 : 0], 0, 0}};
    return true;
  }
  if (c.type == kCylinder) {
    const Vec3<R> y = mul_transposed(c.R, x - c.p);
    if (!(sqrt(y.x * y.x + y.y * y.y) > c.size.x + small)) return false;
    f = rim_piece(c, d);
    return true;
  }
  // within the three corners, or within the loop of their face
  const R b = at.a[0], e = at.a[1], a = R(1) - b - e, least = R(-1e-9);
  if (b > least && e > least && a > least) return false;
  const FlatSide<R> side = flat_side(c, d);
  int edge[2];
  if (side.flat != Flat::kFace) return false;
  if (beyond_loop(c, side.face, x, edge) > small) {
    f = corners_piece(edge, 2);
    return true;
  }
  // a face that bends a little ends at an edge of these corners
  if (!(below_plane(c, side.face, x, d) > small)) return false;
  const int out = a < min(b, e) ? 0 : b < e ? 1 : 2;
  edge[0] = f.id[out == 0 ? 1 : 0];
  edge[1] = f.id[out == 2 ? 1 : 2];
  f = corners_piece(edge, 2);
  return true;
}

// how far the point x of a plane piece lies beyond its face or cap, whose outward normal is about d
template <class R>
FB_FN R beyond_face(const Convex<R>& c, const Piece& f, const PiecePlace<R>& at, Vec3<R> x,
                    Vec3<R> d) {
  if (f.kind != kThreeCorners) return R(0);
  if (c.type == kCylinder) {
    const Vec3<R> y = mul_transposed(c.R, x - c.p);
    return max(sqrt(y.x * y.x + y.y * y.y) - c.size.x, R(0));
  }
  if (!(min(R(1) - at.a[0] - at.a[1], min(at.a[0], at.a[1])) < R(0))) return R(0);
  const FlatSide<R> side = flat_side(c, d);
  int edge[2];
  return side.flat == Flat::kFace ? max(beyond_loop(c, side.face, x, edge), R(0)) : R(0);
}

// a record near the search's numbers: whether its slot is determined and where it lies
template <class R>
FB_FN bool try_record(const ConvexShapes<R>& w, const SlotRecord& r, const SearchResult<R>& s,
                      SlotState<R>& z) {
  if (is_curved(r.a) || is_curved(r.b)) {
    z.n = s.n;
    return solve_curved(w, r, 12, z);
  }
  return dimension(r.a) + dimension(r.b) <= 2 && solve_corners(w, r, s.n, z);
}

// how far from optimal a slot may be, in sizes of the pair
template <class R>
inline constexpr R kSmallMiss = R(kIsDouble<R> ? 3e-10 : 2e-6);

// how far the shapes reach beyond the points of a slot, or the points lie beyond the shapes
template <class R>
FB_INLINE R past_of(const ConvexShapes<R>& w, const SlotRecord& r, const SlotState<R>& z) {
  const Vec3<R> xa = point_of(w.a, r.a, z.a, z.n).x, xb = point_of(w.b, r.b, z.b, z.n).x;
  return abs(beyond_piece(w.a, r.a, xa, z.n)) + abs(beyond_piece(w.b, r.b, xb, -z.n));
}

// the face that two corners lie across, where it looks along d: they are no edge then
template <class R>
FB_FN bool face_across(const Convex<R>& c, Vec3<R> d, Piece& f) {
  if (f.kind != kTwoCorners || (c.type != kBox && c.type != kMesh)) return false;
  const FlatSide<R> side = flat_side(c, d);
  if (side.flat != Flat::kFace) return false;
  const int m = face_size(c, side.face);
  int at[2] = {-1, -1};
  for (int k = 0; k < m; ++k)
    for (int e = 0; e < 2; ++e)
      if (face_corner(c, side.face, k) == f.id[e]) at[e] = k;
  const int apart = at[0] > at[1] ? at[0] - at[1] : at[1] - at[0];
  if (at[0] < 0 || at[1] < 0 || apart == 1 || apart == m - 1) return false;
  int id[3];
  face_plane(c, side.face, id);
  f = corners_piece(id, 3);
  return true;
}

// the pieces of the corners of more than a weight
template <class R>
FB_INLINE SlotRecord record_of(const ConvexShapes<R>& w, const SearchResult<R>& s, R least) {
  return {kFreeNormal, 0, piece_of(w.a, s.simplex, true, s.n, least),
          piece_of(w.b, s.simplex, false, -s.n, least)};
}
// (CV.15)  Newton on the pieces of a record; accepted if optimal and at the search's root.  Pieces grow
// where a shape reaches beyond them, and shrink where they leave a choice
template <class R>
FB_FN bool polish_record(const ConvexShapes<R>& w, const SearchResult<R>& s, R size,
                         const SearchLevel<R>& level, SlotRecord r, ConvexSlot<R>& out) {
  const R small = size * kSmallMiss<R>;
  for (int trial = 0; trial < 8; ++trial) {
    SlotState<R> z;
    if (try_record(w, r, s, z)) {
      // the radius of the core is not part of the search's distance, that of a cylinder's axis is
      const R ra = piece_radius(w.a, r.a), rb = piece_radius(w.b, r.b);
      const R padding = ra + rb - core_radius(w.a) - core_radius(w.b);
      const Vec3<R> xa = point_of(w.a, r.a, z.a, z.n).x, xb = point_of(w.b, r.b, z.b, z.n).x;
      if (cut_to_border(w.a, r.a, z.a, xa, z.n, small) ||
          cut_to_border(w.b, r.b, z.b, xb, -z.n, small))
        continue;
      const bool near = abs(z.g - padding - s.g) < level.near * size && dot(z.n, s.n) > R(0.99);
      if (near) {
        const bool past_a = !(abs(beyond_piece(w.a, r.a, xa, z.n)) < small);
        const bool past_b = !(abs(beyond_piece(w.b, r.b, xb, -z.n)) < small);
        if (!past_a && !past_b) {
          out = {r, z.n, z, z.g - ra - rb};
          // a foot on the diagonal of a face: the face has the same slot and other derivatives
          SlotRecord whole = r;
          const bool across = face_across(w.a, z.n, whole.a) || face_across(w.b, -z.n, whole.b);
          SlotState<R> y;
          if (across && try_record(w, whole, s, y) && abs(y.g - z.g) < small &&
              past_of(w, whole, y) < small)
            out = {whole, y.n, y, y.g - ra - rb};
          return true;
        }
        const bool more_a = past_a && grow_piece(w.a, r.a, z.a, z.n);
        const bool more_b = past_b && grow_piece(w.b, r.b, z.b, -z.n);
        if (more_a || more_b) continue;
        return false;
      }
    }
    if (!shrink_pieces(r.a, r.b)) return false;
  }
  return false;
}

// the same from the pieces that the search found.  Where the gap is of the size of rounding a corner of
// hardly any weight turns the normal
template <class R>
FB_FN bool polish(const ConvexShapes<R>& w, const SearchResult<R>& s, R size,
                  const SearchLevel<R>& level, ConvexSlot<R>& out) {
  const SlotRecord few = record_of(w, s, kLeastWeight<R>), all = record_of(w, s, R(0));
  if (polish_record(w, s, size, level, few, out)) return true;
  const int more = corner_count(all.a) + corner_count(all.b);
  return more > corner_count(few.a) + corner_count(few.b) &&
         polish_record(w, s, size, level, all, out);
}

// how much a point off a shape counts against a gap that is too small
template <class R>
inline constexpr R kOffMiss = R(kIsDouble<R> ? 1e-6 : 1e-3);
// how far a slot is from being optimal.  The separation of the shapes along any normal is at most
// their signed distance, so the largest is the best, and of equals the one of fewer turns; its points lie
// on the shapes
template <class R>
FB_FN R miss_of(const ConvexShapes<R>& w, const SlotRecord& r, const SlotState<R>& z,
                const SearchResult<R>& s, R size) {
  const R padding =
      piece_radius(w.a, r.a) + piece_radius(w.b, r.b) - core_radius(w.a) - core_radius(w.b);
  const R ends = beyond_ends(r.a, z.a) + beyond_ends(r.b, z.b);
  const R off = beyond_face(w.a, r.a, z.a, point_of(w.a, r.a, z.a, z.n).x, z.n) +
                beyond_face(w.b, r.b, z.b, point_of(w.b, r.b, z.b, z.n).x, -z.n);
  const R turn = (R(1) - dot(z.n, s.n)) * size;
  return s.g - (z.g - padding) + R(2) * past_of(w, r, z) + turn * kSmallMiss<R> + ends * size +
         (off + apart_across(w, r, z)) * kOffMiss<R>;
}
// some of the corners of a piece; instead of it the face that looks along d; of a cylinder also the
// lower and upper rim instead of a flat piece and the reverse
inline constexpr int kFacePart = 8, kLowerPart = 9, kUpperPart = 10;
template <class R>
FB_FN Piece part_of(const Convex<R>& c, const Piece& f, int part, Vec3<R> d) {
  if (part >= kLowerPart && c.type == kCylinder) {
    const Piece rim{uint32_t(part == kLowerPart ? kLowerRim : kUpperRim), {0, 0, 0}};
    return is_curved(f) && rim.kind == f.kind ? flat_piece(c, d) : rim;
  }
  const FlatSide<R> side = part == kFacePart ? flat_side(c, d) : FlatSide<R>{Flat::kNone, 0, d};
  if (side.flat == Flat::kFace) {
    int plane[3];
    face_plane(c, side.face, plane);
    return corners_piece(plane, 3);
  }
  int id[3] = {0, 0, 0}, n = 0;
  for (int k = 0; k < corner_count(f); ++k)
    if (part >> k & 1) id[n++] = f.id[k];
  return n > 0 ? corners_piece(id, n) : f;
}
// where no record is accepted: of all that the search's corners allow the one nearest to its numbers.
// One whose normal has no direction of its own takes the search's.  Whether it is optimal
template <class R>
FB_FN bool nearest_record(const ConvexShapes<R>& w, const SearchResult<R>& s, R size, R near,
                          ConvexSlot<R>& out) {
  const SlotRecord all = record_of(w, s, R(0));
  SearchResult<R> coded = s;
  coded.n = coded_normal<R>(normal_code(s.n, kManyBits), kManyBits);
  R best = R(1e30);
  for (int ka = 1; ka <= kUpperPart; ++ka)
    for (int kb = 1; kb <= kUpperPart; ++kb) {
      const SlotRecord r{kFreeNormal, 0, part_of(w.a, all.a, ka, s.n),
                         part_of(w.b, all.b, kb, -s.n)};
      SlotState<R> z;
      z.g = R(0);
      const int d = dimension(r.a) + dimension(r.b);
      const bool regular = try_record(w, r, coded, z);
      // the first one stands where no number is finite
      const bool first = ka == 1 && kb == 1;
      if (!first && !regular && d > 1 && !is_curved(r.a) && !is_curved(r.b)) continue;
      const R miss = miss_of(w, r, z, s, size) + (regular ? R(0) : size * kSmallMiss<R>);
      if (!(miss < best) && !first) continue;
      best = miss < R(1e30) ? miss : R(1e30);
      out = {r, coded.n, z, z.g - piece_radius(w.a, r.a) - piece_radius(w.b, r.b)};
    }
  return best < near * size && past_of(w, out.record, out.state) < size * kSmallMiss<R>;
}

}  // namespace fb::FB_ISA
