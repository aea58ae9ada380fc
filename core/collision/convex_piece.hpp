// The pieces of convex shapes that carry a contact point, their record in a feature, and the point,
// tangents and curvature of a piece, for one world at a time.  Proof: docs/derivations/convex.md.
#pragma once
#include "core/collision/convex_epa.hpp"

namespace fb::FB_ISA {

// one to three corners (the point, line or plane through them), a rim of a cylinder, an ellipsoid
enum PieceKind : uint32_t {
  kOneCorner,
  kTwoCorners,
  kThreeCorners,
  kLowerRim,
  kUpperRim,
  kOvalPiece
};
struct Piece {
  uint32_t kind;
  int id[3];
};
FB_INLINE bool is_curved(const Piece& f) { return f.kind > kThreeCorners; }
// corners of a piece, and how many numbers name a point of it
FB_INLINE int corner_count(const Piece& f) { return is_curved(f) ? 0 : int(f.kind) + 1; }
FB_INLINE int dimension(const Piece& f) {
  return f.kind == kOvalPiece ? 2 : is_curved(f) ? 1 : int(f.kind);
}
FB_INLINE Piece corners_piece(const int* id, int n) {
  return {uint32_t(n - 1), {id[0], n > 1 ? id[1] : 0, n > 2 ? id[2] : 0}};
}

// what gives the normal: both pieces (free), or the plane of a face of A or B
enum Carrier : uint32_t { kFreeNormal, kFaceOfA, kFaceOfB };
// (CV.7)  what the search leaves of a contact point; face: number of the carrier's
struct SlotRecord {
  uint32_t carrier;
  int face;
  Piece a, b;
};

// ---- a record in the words of a feature.  kind: carrier (2 bits), pieces of A and B (3 each), face
// or a code of the normal (24).  id: numbers of A's corners, then B's, 16 bits each, at most four.
// Where there are at most three, as beside a curved piece, the code of the normal takes the rest too

// a unit vector on the square of an octahedron, `bits` bits a side
template <class R>
FB_INLINE uint64_t normal_code(Vec3<R> n, int bits) {
  const R sum = abs(n.x) + abs(n.y) + abs(n.z), inverse = sum > R(0) ? R(1) / sum : R(0);
  R u = n.x * inverse, v = n.y * inverse;
  if (n.z < R(0)) {
    const R fold = (R(1) - abs(v)) * (u < R(0) ? R(-1) : R(1));
    v = (R(1) - abs(u)) * (v < R(0) ? R(-1) : R(1));
    u = fold;
  }
  const R top = R((1u << bits) - 1u);
  // a NaN counts as zero
  const auto whole = [&](R x) {
    return uint64_t(min(max((x + R(1)) * R(0.5) * top + R(0.5), R(0)), top));
  };
  return whole(u) | whole(v) << bits;
}
template <class R>
FB_INLINE Vec3<R> coded_normal(uint64_t code, int bits) {
  const uint64_t mask = (uint64_t(1) << bits) - 1;
  const R scale = R(2) / R((1u << bits) - 1u);
  R u = R(uint32_t(code & mask)) * scale - R(1),
    v = R(uint32_t(code >> bits & mask)) * scale - R(1);
  const R z = R(1) - abs(u) - abs(v);
  if (z < R(0)) {
    const R fold = (R(1) - abs(v)) * (u < R(0) ? R(-1) : R(1));
    v = (R(1) - abs(u)) * (v < R(0) ? R(-1) : R(1));
    u = fold;
  }
  const Vec3<R> n{u, v, z};
  return n * (R(1) / norm(n));
}

inline constexpr int kFewBits = 12, kManyBits = 20;
template <class T>
FB_FN Feature<T> feature_of(const SlotRecord& r, Vec3<Real<T>> n) {
  uint64_t ids = 0;
  int at = 0;
  for (int k = 0; k < corner_count(r.a); ++k) ids |= uint64_t(r.a.id[k] & 0xffff) << (16 * at++);
  for (int k = 0; k < corner_count(r.b); ++k) ids |= uint64_t(r.b.id[k] & 0xffff) << (16 * at++);
  uint32_t rest = uint32_t(r.face);
  if (r.carrier == kFreeNormal) {
    const uint64_t code = normal_code(n, at < 4 ? kManyBits : kFewBits);
    rest = uint32_t(code & 0xffffff);
    if (at < 4) ids |= (code >> 24) << 48;
  }
  const uint32_t kind = r.carrier | r.a.kind << 2 | r.b.kind << 5 | rest << 8;
  return {kind, {uint32_t(ids), uint32_t(ids >> 32)}};
}
// the record of a feature, and about which normal its slot has
template <class R>
FB_FN SlotRecord record_at(uint32_t kind, const uint32_t* id, Vec3<R>& n) {
  SlotRecord r{kind & 3, int(kind >> 8), {kind >> 2 & 7, {0, 0, 0}}, {kind >> 5 & 7, {0, 0, 0}}};
  const uint64_t ids = uint64_t(id[0]) | uint64_t(id[1]) << 32;
  int at = 0;
  for (int k = 0; k < corner_count(r.a); ++k) r.a.id[k] = int(ids >> (16 * at++) & 0xffff);
  for (int k = 0; k < corner_count(r.b); ++k) r.b.id[k] = int(ids >> (16 * at++) & 0xffff);
  const uint64_t code = uint64_t(kind >> 8) | (at < 4 ? (ids >> 48) << 24 : 0);
  n = r.carrier == kFreeNormal ? coded_normal<R>(code, at < 4 ? kManyBits : kFewBits) : zero3<R>();
  return r;
}

// ---- points of a piece

// which point: weights of the second and third corner, or a unit vector (in the plane of a rim; where
// an ellipsoid is a ball)
template <class T>
struct PiecePlace {
  T a[2];
  Vec3<T> m;
};
// (CV.8)  the point, its tangents, and n . its second derivative, a multiple of the identity
template <class T>
struct PiecePoint {
  Vec3<T> x, t[2];
  T bend;
};

// the place on a curved piece whose outward normal is d; the first corner of the others
template <class T>
FB_INLINE PiecePlace<T> place_at(const Convex<T>& c, const Piece& f, Vec3<T> d) {
  const T o = T(0);
  PiecePlace<T> at{{o, o}, {T(1), o, o}};
  if (!is_curved(f)) return at;
  const Vec3<T> q = mul_transposed(c.R, d);
  const Vec3<T> m = f.kind == kOvalPiece ? scaled(q, c.size) : Vec3<T>{q.x, q.y, o};
  const T square = dot(m, m);
  if (square > T(kNoLength<T>)) at.m = m * (T(1) / sqrt(square));
  return at;
}

template <class T>
FB_INLINE PiecePoint<T> point_of(const Convex<T>& c, const Piece& f, const PiecePlace<T>& at,
                                 Vec3<T> n) {
  const T o = T(0);
  PiecePoint<T> out{zero3<T>(), {zero3<T>(), zero3<T>()}, o};
  if (f.kind == kOvalPiece) {
    Vec3<T> u, w;
    basis_of(at.m, u, w);
    const Vec3<T> arm = mul(c.R, scaled(at.m, c.size));
    return {c.p + arm, {mul(c.R, scaled(u, c.size)), mul(c.R, scaled(w, c.size))}, -dot(n, arm)};
  }
  if (is_curved(f)) {
    const Vec3<T> x = column(c.R, 0), y = column(c.R, 1), z = column(c.R, 2);
    const Vec3<T> d = x * at.m.x + y * at.m.y, e = y * at.m.x - x * at.m.y;
    const T h = f.kind == kUpperRim ? c.size.y : -c.size.y;
    return {c.p + z * h + d * c.size.x, {e * c.size.x, zero3<T>()}, -c.size.x * dot(n, d)};
  }
  const Vec3<T> first = corner_of(c, f.id[0]);
  out.x = first;
  for (int k = 0; k < int(f.kind); ++k) {
    out.t[k] = corner_of(c, f.id[k + 1]) - first;
    out.x += out.t[k] * at.a[k];
  }
  return out;
}

// the next place, a step along the tangents away
template <class T>
FB_INLINE PiecePlace<T> stepped(const Piece& f, const PiecePlace<T>& at, const T* step) {
  PiecePlace<T> out = at;
  if (!is_curved(f)) {
    for (int k = 0; k < int(f.kind); ++k) out.a[k] += step[k];
    return out;
  }
  Vec3<T> u{-at.m.y, at.m.x, T(0)}, w = zero3<T>();
  if (f.kind == kOvalPiece) basis_of(at.m, u, w);
  out.m = at.m + u * step[0];
  if (f.kind == kOvalPiece) out.m += w * step[1];
  out.m = out.m * (T(1) / norm(out.m));
  return out;
}

// the radius around a piece
template <class T>
FB_INLINE bool is_padded(const Convex<T>& c, const Piece& f) {
  return !is_curved(f) && has_radius(c.type, f.id[0]);
}
template <class T>
FB_INLINE T piece_radius(const Convex<T>& c, const Piece& f) {
  return is_padded(c, f) ? c.size.x : T(0);
}

// (CV.12)  given the bars of the point and of its tangents, add to bar; origin: of the coordinates
template <class T>
FB_FN void point_adjoint(const Convex<T>& c, const Piece& f, const PiecePlace<T>& at,
                         const PiecePoint<T>& point_bar, Vec3<T> origin, ShapeBar<T>& bar) {
  const T o = T(0);
  const Vec3<T>&x_bar = point_bar.x, *t_bar = point_bar.t;
  if (!is_curved(f)) {
    Vec3<T> first_bar = x_bar;
    for (int k = 0; k < int(f.kind); ++k) {
      const Vec3<T> corner_bar = x_bar * at.a[k] + t_bar[k];
      corner_adjoint(c, f.id[k + 1], origin, corner_bar, bar);
      first_bar -= corner_bar;
    }
    corner_adjoint(c, f.id[0], origin, first_bar, bar);
    return;
  }
  const PiecePoint<T> here = point_of(c, f, at, zero3<T>());
  add_point(bar, here.x + origin, x_bar);
  for (int k = 0; k < dimension(f); ++k) add_direction(bar, here.t[k], t_bar[k]);
  const Vec3<T> along = mul_transposed(c.R, x_bar), first = mul_transposed(c.R, t_bar[0]);
  if (f.kind == kOvalPiece) {
    Vec3<T> u, w;
    basis_of(at.m, u, w);
    bar.size += scaled(at.m, along) + scaled(u, first) + scaled(w, mul_transposed(c.R, t_bar[1]));
    return;
  }
  const T r_bar = at.m.x * along.x + at.m.y * along.y + at.m.x * first.y - at.m.y * first.x;
  bar.size += Vec3<T>{r_bar, f.kind == kUpperRim ? along.z : -along.z, o};
}

}  // namespace fb::FB_ISA
