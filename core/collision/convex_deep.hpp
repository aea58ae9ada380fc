// Directions of least overlap of shapes that lie deep inside each other: starts, a climb from each, and
// whether a slot is a least overlap.  For one world at a time.  Proof: docs/derivations/convex.md.
#pragma once
#include "core/collision/convex_slot.hpp"

namespace fb::FB_ISA {

// a unit vector turned about a unit axis
template <class R>
FB_INLINE Vec3<R> turned(Vec3<R> n, Vec3<R> axis, R sine, R cosine) {
  const Vec3<R> along = axis * dot(axis, n);
  const Vec3<R> x = along + (n - along) * cosine + cross(axis, n) * sine;
  return x * (R(1) / norm(x));
}

// supports that were found: the overlap along any direction is at least what they say
inline constexpr int kMostSeen = 16;
template <class R>
struct SeenSupports {
  Vec3<R> w[kMostSeen];
  R size = R(0);  // of the largest
  int n = 0, next = 0;

  // the overlap along a direction, by its supports
  FB_INLINE R find(ConvexPair<R>& pair, Vec3<R> along) {
    const Vec3<R> x = pair_support(pair, along).w;
    w[next] = x;
    next = (next + 1) % kMostSeen;
    n = n < kMostSeen ? n + 1 : n;
    size = max(size, abs(x.x) + abs(x.y) + abs(x.z));
    return -dot(along, x);
  }
  // whether the overlap along a direction is no less than `most` whatever its supports are
  FB_INLINE bool exceeds(Vec3<R> along, R most) const {
    const R sure = most + size * R(kIsDouble<R> ? 1e-12 : 1e-5);
    for (int k = 0; k < n; ++k)
      if (-dot(along, w[k]) > sure) return true;
    return false;
  }
};

// (CV.20)  turns about the axes of both shapes, which keep to the kinks of their depth, and across
// them, as long as one makes the overlap less; then half as far
template <class R>
FB_FN R climb(ConvexPair<R>& pair, Vec3<R>& n) {
  SeenSupports<R> seen;
  R least = seen.find(pair, n), sine = R(0.3);
  for (int step = 0; step < 48 && sine > R(2e-3); ++step) {
    const R cosine = sqrt(R(1) - sine * sine);
    Vec3<R> u, w, best = n;
    basis_of(n, u, w);
    R here = least;
    for (int k = 0; k < 16; ++k) {
      const int m = k >> 1;
      const Vec3<R> axis = m < 3   ? column(pair.a.R, m)
                           : m < 6 ? column(pair.b.R, m - 3)
                           : m < 7 ? u
                                   : w;
      const Vec3<R> next = turned(n, axis, (k & 1) ? sine : -sine, cosine);
      if (seen.exceeds(next, here)) continue;
      const R overlap = seen.find(pair, next);
      if (!(overlap < here)) continue;
      here = overlap;
      best = next;
    }
    if (here < least)
      n = best;
    else
      sine *= R(0.5);
    least = here;
  }
  return least;
}

// the supports a tilt around a direction: where it lies on a kink, the corners on both sides of it
template <class R>
FB_FN Simplex<R> supports_around(ConvexPair<R>& pair, Vec3<R> n, R tilt) {
  const R c[3] = {R(1), R(-0.5), R(-0.5)},
          s[3] = {R(0), R(0.86602540378443864676), R(-0.86602540378443864676)};
  Vec3<R> u, w;
  basis_of(n, u, w);
  Simplex<R> out;
  out.n = 3;
  for (int k = 0; k < 3; ++k) {
    out.at[k] = pair_support(pair, n + (u * c[k] + w * s[k]) * tilt);
    out.weight[k] = R(1) / R(3);
  }
  return out;
}

// (CV.20)  where the climbs start: of many directions those of least overlap
inline constexpr int kMostStarts = 6;
template <class R>
struct ClimbStarts {
  Vec3<R> at[kMostStarts];
  R overlap[kMostStarts];
  int n;
  SeenSupports<R> seen;
};
// one more: in the place of one within 0.3 rad, as far as a climb turns at first, or of the worst where
// there are enough
template <class R>
FB_FN void add_start(ConvexPair<R>& pair, Vec3<R> n, ClimbStarts<R>& s) {
  int at = 0;
  while (at < s.n && !(dot(s.at[at], n) > R(0.955))) ++at;
  if (at == kMostStarts) --at;
  if (at < s.n && s.seen.exceeds(n, s.overlap[at])) return;
  const R here = s.seen.find(pair, n);
  if (at < s.n && !(here < s.overlap[at])) return;
  if (at == s.n) ++s.n;
  for (; at > 0 && here < s.overlap[at - 1]; --at) {
    s.at[at] = s.at[at - 1];
    s.overlap[at] = s.overlap[at - 1];
  }
  s.at[at] = n;
  s.overlap[at] = here;
}
// the same both ways, where it has a direction
template <class R>
FB_FN void add_both_ways(ConvexPair<R>& pair, Vec3<R> v, ClimbStarts<R>& s) {
  const R length = norm(v);
  if (!(length > R(kIsDouble<R> ? 1e-12 : 1e-5))) return;
  const Vec3<R> n = v * (R(1) / length);
  add_start(pair, n, s);
  add_start(pair, -n, s);
}
// both ways along the axes of a shape and the normals of a hull's faces, and what is left of them across
// the local z axis of the other shape, a kink of its overlap if it is a capsule or a cylinder
template <class R>
FB_FN void add_sides(ConvexPair<R>& pair, const Convex<R>& c, Vec3<R> axis, ClimbStarts<R>& s) {
  const int faces = c.type == kMesh ? hull_faces(c) : 0;
  for (int k = 0; k < 3 + faces; ++k) {
    const Vec3<R> n = k < 3 ? column(c.R, k) : face_normal(c, k - 3);
    add_both_ways(pair, n, s);
    add_both_ways(pair, n - axis * dot(axis, n), s);
  }
}
// directions that are known, along the sides of both shapes, and across two of their axes
template <class R>
FB_FN ClimbStarts<R> climb_starts(ConvexPair<R>& pair, Vec3<R> n, const Overlap<R>* tie, int ties) {
  ClimbStarts<R> out;
  out.n = 0;
  add_start(pair, n, out);
  for (int k = 0; k < ties; ++k) add_start(pair, tie[k].n, out);
  add_sides(pair, pair.a, column(pair.b.R, 2), out);
  add_sides(pair, pair.b, column(pair.a.R, 2), out);
  for (int k = 0; k < 9; ++k)
    add_both_ways(pair, cross(column(pair.a.R, k / 3), column(pair.b.R, k % 3)), out);
  return out;
}

// ---- least overlap

// (CV.21)  the radii of curvature of a piece as a quadratic form of tangents x, y across its normal d
template <class R>
FB_FN R piece_bend(const Convex<R>& c, const Piece& f, Vec3<R> d, Vec3<R> x, Vec3<R> y) {
  if (!is_curved(f)) return R(0);
  const Vec3<R> q = mul_transposed(c.R, d), u = mul_transposed(c.R, x), w = mul_transposed(c.R, y);
  if (f.kind == kOvalPiece) {
    const Vec3<R> m = scaled(q, c.size), su = scaled(u, c.size), sw = scaled(w, c.size);
    const R length = max(norm(m), R(1e-30)), inverse = R(1) / length;
    return (dot(su, sw) - dot(m, su) * dot(m, sw) * inverse * inverse) * inverse;
  }
  const R square = max(q.x * q.x + q.y * q.y, R(1e-30));
  const R cu = q.x * u.y - q.y * u.x, cw = q.x * w.y - q.y * w.x;
  return c.size.x * cu * cw / (square * sqrt(square));
}

// an ellipsoid whose least radius of curvature is larger than a depth
template <class R>
FB_INLINE bool is_rounder(const Convex<R>& c, const Piece& f, R depth) {
  if (f.kind != kOvalPiece) return false;
  const R least = min(c.size.x, min(c.size.y, c.size.z));
  return least * least > depth * max(c.size.x, max(c.size.y, c.size.z));
}
// (CV.21)  whether no direction nearby has less overlap than the slot of a free record: the difference
// of the shapes bends no faster than a ball of the depth
template <class R>
FB_FN bool is_least_overlap(const ConvexShapes<R>& w, const SlotRecord& r, const SlotState<R>& z) {
  const R depth = -z.g * R(1 - 1e-7);
  if (!(depth > R(0)) || is_rounder(w.a, r.a, depth) || is_rounder(w.b, r.b, depth)) return true;
  const PiecePoint<R> a = point_of(w.a, r.a, z.a, z.n), b = point_of(w.b, r.b, z.b, z.n);
  const int da = is_curved(r.a) ? 0 : dimension(r.a), db = is_curved(r.b) ? 0 : dimension(r.b);
  if (da + db > 1) return true;
  Vec3<R> u, v;
  basis_of(z.n, u, v);
  if (da + db == 1) {
    const Vec3<R> t = cross(z.n, da > 0 ? a.t[0] : b.t[0]);
    u = t * (R(1) / max(norm(t), R(1e-30)));
    return piece_bend(w.a, r.a, z.n, u, u) + piece_bend(w.b, r.b, -z.n, u, u) >= depth;
  }
  const auto bend = [&](Vec3<R> x, Vec3<R> y) {
    return piece_bend(w.a, r.a, z.n, x, y) + piece_bend(w.b, r.b, -z.n, x, y);
  };
  const R uu = bend(u, u) - depth, vv = bend(v, v) - depth, uv = bend(u, v);
  return uu >= R(0) && vv >= R(0) && uu * vv >= uv * uv;
}

}  // namespace fb::FB_ISA
