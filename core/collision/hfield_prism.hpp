// Height fields by their grid and by the prisms under its triangles, and the record of a contact point
// on one, for one world at a time.  Proof: docs/derivations/hfield.md.
#pragma once
#include "core/collision/convex_manifold.hpp"

namespace fb::FB_ISA {

// numbers of a field: those before the vertices of a mesh (no rotation, no shift, its sizes x, y and z
// as compiled), its base and two that are not used, then the heights of its points [m], row by row
inline constexpr int kFieldFrame = kMeshFrame + 3;

// (HF.1)  the grid as compiled; rows run along y, columns along x
template <class R>
struct FieldGrid {
  const R* height;
  R x, y, dx, dy, base;
  int rows, columns;
};
template <class T>
FB_INLINE FieldGrid<Real<T>> field_grid(const Shape<T>& field) {
  const Real<T>* v = field.vert;
  const int rows = field.hull[0], columns = field.hull[1];
  return {v + kFieldFrame,
          v[12],
          v[13],
          v[12] * Real<T>(2) / Real<T>(columns - 1),
          v[13] * Real<T>(2) / Real<T>(rows - 1),
          v[kMeshFrame],
          rows,
          columns};
}

// a point of the grid, and its place as compiled
struct GridPoint {
  int row, column;
};
FB_INLINE bool in_grid(const GridPoint& p, int rows, int columns) {
  return p.row >= 0 && p.row < rows && p.column >= 0 && p.column < columns;
}
template <class R>
FB_INLINE Vec3<R> field_point(const FieldGrid<R>& g, const GridPoint& p) {
  return {g.dx * R(p.column) - g.x, g.dy * R(p.row) - g.y, g.height[p.row * g.columns + p.column]};
}
// whether a line of the triangulation joins two points that lie (row, column) apart
FB_INLINE bool are_neighbours(int row, int column) {
  if (row == 0) return column == 1 || column == -1;
  return (row == 1 && (column == 0 || column == 1)) || (row == -1 && (column == 0 || column == -1));
}
// neighbour k of six
FB_INLINE GridPoint ring_point(const GridPoint& p, int k) {
  const int row = k == 0 || k == 3 ? 0 : k < 3 ? 1 : -1;
  const int column = k == 0 || k == 1 ? 1 : k == 2 || k == 5 ? 0 : -1;
  return {p.row + row, p.column + column};
}

// (HF.2)  one of the two triangles of a cell, divided from its first point to the opposite one
struct FieldTriangle {
  int row, column, second;
};
FB_INLINE FieldTriangle triangle_at(int number, int columns) {
  const int cell = number >> 1;
  return {cell / (columns - 1), cell % (columns - 1), number & 1};
}
FB_INLINE int triangle_number(const FieldTriangle& t, int columns) {
  return 2 * (t.row * (columns - 1) + t.column) + t.second;
}
// its points counter-clockwise seen from above
FB_INLINE GridPoint triangle_point(const FieldTriangle& t, int k) {
  const int row = t.second ? k >> 1 : k == 1 ? 0 : 1;
  const int column = t.second ? (k > 0 ? 1 : 0) : k >> 1;
  return {t.row + row, t.column + column};
}
// whether no other triangle lies beyond the edge from point k to the next
template <class R>
FB_INLINE bool is_border(const FieldGrid<R>& g, const FieldTriangle& t, int k) {
  if (t.second) return (k == 0 && t.row == 0) || (k == 1 && t.column == g.columns - 2);
  return (k == 0 && t.column == 0) || (k == 2 && t.row == g.rows - 2);
}

// a number of a cell within its range
template <class R>
FB_INLINE int held_cell(R x, int cells) {
  return x > R(0) ? (x < R(cells - 1) ? int(x) : cells - 1) : 0;
}
// whether a point over the field, in its axes as compiled, lies on its surface
template <class R>
FB_FN bool is_on_ground(const FieldGrid<R>& g, Vec3<R> x, R most) {
  const R u = (x.x + g.x) / g.dx, v = (x.y + g.y) / g.dy;
  const bool inner = u > R(0) && v > R(0) && u < R(g.columns - 1) && v < R(g.rows - 1);
  if (!inner) return false;
  const int row = held_cell(v, g.rows - 1), column = held_cell(u, g.columns - 1);
  const FieldTriangle t{row, column, v - R(row) > u - R(column) ? 0 : 1};
  const Vec3<R> first = field_point(g, triangle_point(t, 0));
  const Vec3<R> n = cross(field_point(g, triangle_point(t, 1)) - first,
                          field_point(g, triangle_point(t, 2)) - first);
  return abs(dot(n, x - first)) < most * norm(n);
}

// ---- prisms: hulls of six vertices, three at the base and above them those of a triangle

inline constexpr int kPrismVertices = 6, kPrismWords = 75, kTopFace = 0, kBottomFace = 1;
inline constexpr int kPrismNumbers = kMeshFrame + 3 * kPrismVertices;
// topology as convex_shape.hpp reads it; the side over edge k of the triangle is face k + 2
struct PrismHull {
  int32_t words[kPrismWords];
};
FB_INLINE PrismHull prism_hull() {
  // number of faces; where the neighbours, the corners of faces and the faces of vertices begin
  return {{5, 21, 24, 27, 30, 33, 36, 39, 39, 42, 45, 49, 53, 57, 57, 60, 63, 66, 69, 72, 75,
           // neighbours
           1, 2, 3, 0, 2, 4, 0, 1, 5, 0, 4, 5, 1, 3, 5, 2, 3, 4,
           // top, bottom, sides
           3, 4, 5, 0, 2, 1, 0, 1, 4, 3, 1, 2, 5, 4, 2, 0, 3, 5,
           // faces around each vertex
           1, 2, 4, 1, 2, 3, 1, 3, 4, 0, 2, 4, 0, 2, 3, 0, 3, 4}};
}

// (HF.3)  a prism as a mesh about its middle: numbers of its frame, then its vertices
template <class R>
struct Prism {
  R numbers[kPrismNumbers];
};
template <class R>
FB_FN Prism<R> prism_of(const FieldGrid<R>& g, const FieldTriangle& t) {
  Prism<R> out;
  Vec3<R> top[3], middle = zero3<R>();
  for (int k = 0; k < 3; ++k) {
    top[k] = field_point(g, triangle_point(t, k));
    middle += Vec3<R>{top[k].x, top[k].y, (top[k].z - g.base) * R(0.5)} * R(1.0 / 3);
  }
  for (int e = 0; e < 9; ++e) out.numbers[e] = R(e % 4 == 0 ? 1 : 0);
  const R frame[6] = {middle.x, middle.y, middle.z, R(1), R(1), R(1)};
  for (int e = 0; e < 6; ++e) out.numbers[9 + e] = frame[e];
  for (int k = 0; k < kPrismVertices; ++k) {
    R* v = out.numbers + kMeshFrame + 3 * k;
    const Vec3<R> x = top[k % 3];
    v[0] = x.x - middle.x;
    v[1] = x.y - middle.y;
    v[2] = (k < 3 ? -g.base : x.z) - middle.z;
  }
  return out;
}
template <class T>
FB_INLINE Shape<T> prism_shape(const Shape<T>& field, const Prism<Real<T>>& prism,
                               const PrismHull& hull) {
  const Vec3<T> middle = lift3<T>(prism.numbers + 9);
  return {kMesh,         mul_add(field.R, middle, field.p),
          field.R,       field.size,
          prism.numbers, kPrismVertices,
          hull.words};
}

// ---- a record in the words of a feature.  Carrier (2 bits), pieces of A and B (3 each), triangle
// (22), numbers of A's corners (3 each) and of B's (16 each); the carrier's face (3 of A, 17 of B), or a
// code of the normal in what is left

inline constexpr int kTriangleBits = 22;
struct FeatureBits {
  uint32_t word[1 + kFeatureIds];
  int at;
};
// the bits of a number, one by one
FB_INLINE void put_bits(FeatureBits& x, uint64_t number, int bits) {
  for (int k = 0; k < bits; ++k, ++x.at)
    x.word[x.at >> 5] |= uint32_t(number >> k & 1) << (x.at & 31);
}
FB_INLINE uint64_t take_bits(FeatureBits& x, int bits) {
  uint64_t number = 0;
  for (int k = 0; k < bits; ++k, ++x.at)
    number |= uint64_t(x.word[x.at >> 5] >> (x.at & 31) & 1) << k;
  return number;
}
// bits a side of the code of the normal
FB_INLINE int code_bits(const FeatureBits& x) {
  const int left = (32 * (1 + kFeatureIds) - x.at) / 2;
  return left < kManyBits ? left : kManyBits;
}
FB_INLINE int face_bits(uint32_t carrier) { return carrier == kFaceOfA ? 3 : 17; }
// a plane of B that carries the normal is that of its face
FB_INLINE bool names_corners(const SlotRecord& r) {
  return r.carrier != kFaceOfB || r.b.kind != kThreeCorners;
}

// (HF.4)  the feature of a slot on a triangle whose normal is about n
template <class T>
FB_FN Feature<T> field_feature(const SlotRecord& r, int triangle, Vec3<Real<T>> n) {
  FeatureBits x{{0, 0, 0}, 0};
  put_bits(x, r.carrier, 2);
  put_bits(x, r.a.kind, 3);
  put_bits(x, r.b.kind, 3);
  put_bits(x, uint64_t(triangle), kTriangleBits);
  for (int k = 0; k < corner_count(r.a); ++k) put_bits(x, uint64_t(r.a.id[k]), 3);
  if (r.carrier != kFreeNormal) put_bits(x, uint64_t(r.face), face_bits(r.carrier));
  for (int k = 0; k < corner_count(r.b) && names_corners(r); ++k)
    put_bits(x, uint64_t(r.b.id[k]), 16);
  if (r.carrier == kFreeNormal) {
    const int bits = code_bits(x);
    put_bits(x, normal_code(n, bits), 2 * bits);
  }
  return {x.word[0], {x.word[1], x.word[2]}};
}
// what a feature says
template <class R>
struct FieldRecord {
  SlotRecord record;
  int triangle;
  Vec3<R> near;
};
template <class T>
FB_FN FieldRecord<Real<T>> field_record_at(const Feature<T>& f, const Shape<T>& b) {
  FeatureBits x{{f.kind, f.id[0], f.id[1]}, 0};
  FieldRecord<Real<T>> out{{0, 0, {0, {0, 0, 0}}, {0, {0, 0, 0}}}, 0, zero3<Real<T>>()};
  SlotRecord& r = out.record;
  r.carrier = uint32_t(take_bits(x, 2));
  r.a.kind = uint32_t(take_bits(x, 3));
  r.b.kind = uint32_t(take_bits(x, 3));
  out.triangle = int(take_bits(x, kTriangleBits));
  for (int k = 0; k < corner_count(r.a); ++k) r.a.id[k] = int(take_bits(x, 3));
  if (r.carrier != kFreeNormal) r.face = int(take_bits(x, face_bits(r.carrier)));
  if (!names_corners(r)) face_plane(convex_of(b, b.p), r.face, r.b.id);
  for (int k = 0; k < corner_count(r.b) && names_corners(r); ++k) r.b.id[k] = int(take_bits(x, 16));
  if (r.carrier == kFreeNormal) {
    const int bits = code_bits(x);
    out.near = coded_normal<Real<T>>(take_bits(x, 2 * bits), bits);
  }
  return out;
}

// ---- which slots of a prism are slots of the field

// slope that rounding may give to level ground
template <class R>
inline constexpr R kLevelSlope = R(kIsDouble<R> ? 1e-6 : 1e-4);

// whether n stands upright on all lines between some points of the grid
template <class R>
FB_FN bool stands_on(const FieldGrid<R>& g, const GridPoint* at, int count, Vec3<R> n, R slope) {
  for (int k = 1; k < count; ++k)
    for (int j = 0; j < k; ++j) {
      const Vec3<R> d = field_point(g, at[k]) - field_point(g, at[j]);
      if (abs(dot(n, d)) > slope * norm(d)) return false;
    }
  return true;
}
// (HF.6)  how steeply the field rises along n from one point of the grid, or from the line between two,
// towards the neighbours that these have in common; n . d over the length of d, or of d with a stretch
template <class R>
FB_FN R steepest_rise(const FieldGrid<R>& g, const GridPoint* at, int count, Vec3<R> n,
                      Vec3<R> stretch) {
  const Vec3<R> x = field_point(g, at[0]);
  R most = R(-1e30);
  for (int k = 0; k < 6; ++k) {
    const GridPoint q = ring_point(at[0], k);
    bool shared = in_grid(q, g.rows, g.columns);
    for (int j = 1; j < count; ++j)
      shared = shared && are_neighbours(q.row - at[j].row, q.column - at[j].column);
    if (!shared) continue;
    const Vec3<R> d = field_point(g, q) - x;
    most = max(most, dot(n, d) / norm(scaled(d, stretch)));
  }
  return most;
}
// whether it falls away
template <class R>
FB_INLINE bool falls_away(const FieldGrid<R>& g, const GridPoint* at, int count, Vec3<R> n,
                          R slope) {
  return !(steepest_rise(g, at, count, n, Vec3<R>{R(1), R(1), R(1)}) > slope);
}
// the rise of the stretched field along the normal n, times the stretch, of a slot on a corner or an edge of
// a top; a large number for others
template <class R>
FB_FN R rise_beside(const FieldGrid<R>& g, const FieldTriangle& t, const SlotRecord& r, Vec3<R> n,
                    Vec3<R> stretch) {
  GridPoint at[3];
  const int count = corner_count(r.a);
  bool top = r.carrier == kFreeNormal && count < 3;
  for (int k = 0; k < count; ++k) {
    at[k] = triangle_point(t, r.a.id[k] % 3);
    top = top && r.a.id[k] >= 3;
  }
  return top ? steepest_rise(g, at, count, n, stretch) : R(1e30);
}

// the side of a prism that holds all corners of a piece, or -1
FB_INLINE int side_of(const Piece& f) {
  for (int k = 0; k < 3; ++k) {
    bool all = true;
    for (int j = 0; j < corner_count(f); ++j)
      all = all && (f.id[j] % 3 == k || f.id[j] % 3 == (k + 1) % 3);
    if (all) return k;
  }
  return -1;
}

// (HF.5)  whether a slot of a prism lies on the surface: the top, or a side at the border.  n: its
// normal, times the stretch of the field, in the field's axes
template <class R>
FB_FN bool is_on_surface(const FieldGrid<R>& g, const FieldTriangle& t, const SlotRecord& r,
                         Vec3<R> n) {
  if (r.carrier == kFaceOfA)
    return r.face == kTopFace || (r.face != kBottomFace && is_border(g, t, r.face - 2));
  const int count = corner_count(r.a);
  GridPoint at[3];
  int tops = 0;
  for (int k = 0; k < count; ++k) {
    at[k] = triangle_point(t, r.a.id[k] % 3);
    tops += r.a.id[k] < 3 ? 0 : 1;
  }
  const bool free = r.carrier == kFreeNormal;
  const R slope = norm(n) * (free ? kLevelSlope<R> : R(kCarrierTilt));
  if (!free && tops == count && !stands_on(g, at, count, n, slope)) return false;
  if (tops == count) return count == 3 || falls_away(g, at, count, n, slope);
  if (tops == 0) return false;
  // an upright edge of the border
  if (count == 2 && r.a.id[0] % 3 == r.a.id[1] % 3) {
    const bool here = is_border(g, t, r.a.id[0] % 3) || is_border(g, t, (r.a.id[0] + 2) % 3);
    return here && falls_away(g, at, 1, Vec3<R>{n.x, n.y, R(0)}, slope);
  }
  const int side = side_of(r.a);
  return side >= 0 && is_border(g, t, side);
}

}  // namespace fb::FB_ISA
