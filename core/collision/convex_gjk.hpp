// The closest points of two convex cores that are apart: GJK, for one world at a time.
// Proof: docs/derivations/convex.md.
#pragma once
#include "core/collision/convex_shape.hpp"

namespace fb::FB_ISA {

// a point w = b - a of the difference B - A, and the corners that gave it (-1: curved)
template <class R>
struct DifferencePoint {
  Vec3<R> w, a, b;
  int ia, ib;
};
// one to four of them, with the weights of the point nearest to the origin
template <class R>
struct Simplex {
  DifferencePoint<R> at[4];
  R weight[4];
  int n;
};

// two shapes, B moved by `shift`; the last corners found
template <class R>
struct ConvexPair {
  Convex<R> a, b;
  Vec3<R> shift;
  int at_a, at_b;
};
template <class R>
FB_INLINE DifferencePoint<R> pair_support(ConvexPair<R>& pair, Vec3<R> d) {
  const Support<R> a = support_of(pair.a, d, pair.at_a), b = support_of(pair.b, -d, pair.at_b);
  const Vec3<R> xb = b.x + pair.shift;
  return {xb - a.x, a.x, xb, a.id, b.id};
}

// ---- the point of a simplex nearest to the origin.  Each function gives the squared distance and the
// weights of the points; points that do not take part have none

template <class R>
struct Nearest {
  R square, weight[4];
};

// (CV.3)  a segment
template <class R>
FB_INLINE R nearest_on_segment(Vec3<R> p, Vec3<R> q, R& wp, R& wq) {
  const Vec3<R> d = q - p;
  const R length = dot(d, d);
  const R t = length > R(0) ? clamp(-dot(p, d) / length, R(0), R(1)) : R(0);
  wp = R(1) - t;
  wq = t;
  const Vec3<R> x = p * wp + q * wq;
  return dot(x, x);
}

// below this volume or area, over the product of the edges, a simplex counts as flat
template <class R>
inline constexpr R kFlatSimplex = R(kIsDouble<R> ? 1e-12 : 1e-5);

// a triangle: inside, or the nearest of the edges that the foot of the origin lies beyond
template <class R>
FB_FN Nearest<R> nearest_on_triangle(const Vec3<R>* w, int i, int j, int k) {
  const R o = R(0);
  const Vec3<R> e = w[j] - w[i], f = w[k] - w[i], n = cross(e, f);
  const R area = dot(n, n), flat = kFlatSimplex<R>;
  const bool solid = area > flat * flat * dot(e, e) * dot(f, f);
  const R inverse = solid ? R(1) / area : o;
  const R lj = dot(n, cross(f, w[i])) * inverse, lk = dot(n, cross(w[i], e)) * inverse;
  const R li = R(1) - lj - lk;
  Nearest<R> best{R(1e30), {o, o, o, o}};
  if (solid && li >= o && lj >= o && lk >= o) {
    best.weight[i] = li;
    best.weight[j] = lj;
    best.weight[k] = lk;
    const Vec3<R> x = w[i] * li + w[j] * lj + w[k] * lk;
    best.square = dot(x, x);
    return best;
  }
  const int from[3] = {j, k, i}, to[3] = {k, i, j};
  const R beyond[3] = {li, lj, lk};
  for (int m = 0; m < 3; ++m) {
    if (solid && beyond[m] >= o) continue;
    R a, b;
    const R square = nearest_on_segment(w[from[m]], w[to[m]], a, b);
    if (!(square < best.square)) continue;
    best = {square, {o, o, o, o}};
    best.weight[from[m]] = a;
    best.weight[to[m]] = b;
  }
  return best;
}

// a tetrahedron: zero inside, or the nearest of the faces that the origin lies beyond
template <class R>
FB_FN Nearest<R> nearest_in_tetrahedron(const Vec3<R>* w) {
  const R o = R(0);
  const Vec3<R> e = w[1] - w[0], f = w[2] - w[0], g = w[3] - w[0], fg = cross(f, g);
  const R volume = dot(e, fg), flat = kFlatSimplex<R>;
  const R edges = sqrt(dot(e, e) * dot(f, f) * dot(g, g));
  const bool solid = abs(volume) > flat * edges;
  const R inverse = solid ? R(-1) / volume : o;
  R l[4];
  l[1] = dot(w[0], fg) * inverse;
  l[2] = dot(w[0], cross(g, e)) * inverse;
  l[3] = dot(w[0], cross(e, f)) * inverse;
  l[0] = R(1) - l[1] - l[2] - l[3];
  if (solid && l[0] >= o && l[1] >= o && l[2] >= o && l[3] >= o)
    return {o, {l[0], l[1], l[2], l[3]}};
  Nearest<R> best{R(1e30), {o, o, o, o}};
  for (int m = 0; m < 4; ++m) {
    if (solid && l[m] >= o) continue;
    const Nearest<R> next = nearest_on_triangle(w, m == 0 ? 1 : 0, m <= 1 ? 2 : 1, m == 3 ? 2 : 3);
    if (next.square < best.square) best = next;
  }
  return best;
}

// the first n points of a simplex
template <class R>
FB_INLINE Nearest<R> nearest_in_simplex(const Simplex<R>& s, int n) {
  const R o = R(0);
  Vec3<R> w[4];
  for (int k = 0; k < n; ++k) w[k] = s.at[k].w;
  if (n == 4) return nearest_in_tetrahedron(w);
  if (n == 3) return nearest_on_triangle(w, 0, 1, 2);
  Nearest<R> best{dot(w[0], w[0]), {R(1), o, o, o}};
  if (n == 2) best.square = nearest_on_segment(w[0], w[1], best.weight[0], best.weight[1]);
  return best;
}

// ---- the search

// far: the cores are farther apart than asked for; apart: v is the vector from A to B between the
// closest points, with the simplex that carries them; overlap: the simplex is all that was found
enum class Found { kFar, kApart, kOverlap };
template <class R>
struct GjkResult {
  Found found;
  Vec3<R> v;
  Simplex<R> simplex;
};

inline constexpr int kMostSupports = 100;
template <class R>
FB_INLINE bool holds_point(const Simplex<R>& s, const DifferencePoint<R>& p) {
  for (int k = 0; k < s.n; ++k) {
    const Vec3<R> d = s.at[k].w - p.w;
    if (d.x == R(0) && d.y == R(0) && d.z == R(0)) return true;
  }
  return false;
}

// keep those of n points that carry the nearest one
template <class R>
FB_INLINE void keep_carriers(Simplex<R>& s, int n, const Nearest<R>& near) {
  s.n = 0;
  for (int k = 0; k < n; ++k) {
    if (!(near.weight[k] > R(0))) continue;
    if (s.n != k) s.at[s.n] = s.at[k];
    s.weight[s.n++] = near.weight[k];
  }
}

// what ends a search: the bound on the distance between the cores, the relative and the absolute
// tolerance of the distance; thin: below this distance v has no direction to speak of and the cores
// count as overlapping; size: of the pair
template <class R>
struct GjkLimits {
  R far, tolerance, slack, thin, size;
};

// (CV.4)  v falls to the vector between the closest points; v . w / |v| bounds the distance from below
template <class R>
FB_OUTLINE GjkResult<R> gjk(ConvexPair<R>& pair, Vec3<R> v, const GjkLimits<R>& limit) {
  constexpr R none = R(kIsDouble<R> ? 1e-14 : 1e-6), sure = R(kIsDouble<R> ? 1e-9 : 1e-5);
  GjkResult<R> out;
  Simplex<R>& s = out.simplex;
  s.n = 0;
  R low = R(-1e30);
  const R zero = none * limit.size;
  for (int step = 0; step < kMostSupports; ++step) {
    const DifferencePoint<R> p = pair_support(pair, v);
    const R vv = dot(v, v), vw = dot(v, p.w), length = sqrt(vv);
    low = max(low, vw / length);
    if (low > limit.far) {
      out.found = Found::kFar;
      return out;
    }
    const bool done = vv - vw <= limit.tolerance * vv ||
                      (length > limit.thin && length - vw / length <= limit.slack);
    if (s.n > 0 && (done || holds_point(s, p))) break;

    s.at[s.n] = p;
    const int n = s.n + 1;
    const Nearest<R> near = nearest_in_simplex(s, n);
    Vec3<R> next = zero3<R>();
    bool inside = n == 4;
    for (int k = 0; k < n; ++k) {
      next += s.at[k].w * near.weight[k];
      inside = inside && near.weight[k] > R(0);
    }
    const R square = dot(next, next);
    const bool touches = inside || square <= zero * zero;
    // a distance that is certain overrules a flat simplex
    if (touches && low <= sure * limit.size) {
      s.n = n;
      out.found = Found::kOverlap;
      out.v = v;
      return out;
    }
    if (touches || (s.n > 0 && !(square < vv))) break;
    v = next;
    keep_carriers(s, n, near);
  }
  const bool thin = dot(v, v) < limit.thin * limit.thin && low <= sure * limit.size;
  out.found = thin ? Found::kOverlap : Found::kApart;
  out.v = v;
  return out;
}

}  // namespace fb::FB_ISA
