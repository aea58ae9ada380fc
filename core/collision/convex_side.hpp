// The flat sides of convex shapes: faces and axes that look along a direction.
// Proof: docs/derivations/convex.md.
#pragma once
#include "core/collision/convex_shape.hpp"

namespace fb::FB_ISA {

// what of a shape looks along a direction: a face, the axis of a capsule or cylinder, or nothing flat
// largest sine of the angle at which a cylinder lies on its side
inline constexpr double kLyingTilt = 0.05;
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
    // a rim in between is not flat
    const int face = q.z > R(0) ? 1 : 0;
    const R along = abs(q.z);
    return {along > R(0.7)          ? Flat::kFace
            : along < R(kLyingTilt) ? Flat::kAxis
                                    : Flat::kNone,
            face, face_normal(c, face)};
  }
  if (c.type != kBox) return {Flat::kNone, 0, d};
  const R x = abs(q.x), y = abs(q.y), z = abs(q.z);
  const int m = z > max(x, y) ? 2 : y > x ? 1 : 0;
  const int face = 2 * m + ((m == 0 ? q.x : m == 1 ? q.y : q.z) > R(0) ? 1 : 0);
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

}  // namespace fb::FB_ISA
