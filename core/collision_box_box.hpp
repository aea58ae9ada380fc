// A box against a box, for one world at a time: separating axes, then a clipped face, an edge pair
// or a vertex. Proof: docs/derivations/collision.md.
#pragma once
#include "collision_round.hpp"

namespace fb::FB_ISA {

template <class T>
struct BoxFrame {
  Vec3<T> p, axis[3];
  T half[3];
};
template <class T>
FB_INLINE BoxFrame<T> box_frame(const Shape<T>& s) {
  return {s.p, {column(s.R, 0), column(s.R, 1), column(s.R, 2)}, {s.size.x, s.size.y, s.size.z}};
}
template <class T>
FB_INLINE T sign_of(T x) {
  return select(x < T(0), T(-1), T(1));
}
// extent of the box along a unit vector, from its centre
template <class T>
FB_INLINE T reach_of(const BoxFrame<T>& f, Vec3<T> n) {
  return f.half[0] * abs(dot(n, f.axis[0])) + f.half[1] * abs(dot(n, f.axis[1])) +
         f.half[2] * abs(dot(n, f.axis[2]));
}

// a candidate axis: separation [m] along the unit vector n from A to B; i, j: axes of A and B (-1:
// not involved)
template <class T>
struct BoxAxis {
  T sep;
  Vec3<T> n;
  int i, j;
};

// edges of A and B count as parallel below this squared sine
inline constexpr double kParallelEdges = 1e-6;

template <class T>
FB_INLINE BoxAxis<T> axis_of(const BoxFrame<T>& a, const BoxFrame<T>& b, Vec3<T> u, int i, int j) {
  const Vec3<T> d = b.p - a.p;
  const Vec3<T> n = u * sign_of(dot(d, u));
  return {dot(d, n) - reach_of(a, n) - reach_of(b, n), n, i, j};
}

// (C.15)  the face axis of largest separation; B's faces must beat A's by `bias`
template <class T>
FB_INLINE BoxAxis<T> best_face_axis(const BoxFrame<T>& a, const BoxFrame<T>& b, T bias) {
  BoxAxis<T> best = axis_of(a, b, a.axis[0], 0, -1);
  for (int i = 1; i < 3; ++i) {
    const BoxAxis<T> next = axis_of(a, b, a.axis[i], i, -1);
    if (next.sep > best.sep) best = next;
  }
  best.sep += bias;
  for (int j = 0; j < 3; ++j) {
    const BoxAxis<T> next = axis_of(a, b, b.axis[j], -1, j);
    if (next.sep > best.sep) best = next;
  }
  if (best.i >= 0) best.sep -= bias;
  return best;
}

// (C.15)  the edge axis of largest separation; i = -1 if all edges are parallel
template <class T>
FB_INLINE BoxAxis<T> best_edge_axis(const BoxFrame<T>& a, const BoxFrame<T>& b) {
  BoxAxis<T> best{T(Real<T>(-1e30)), a.axis[2], -1, -1};
  for (int i = 0; i < 3; ++i)
    for (int j = 0; j < 3; ++j) {
      const Vec3<T> x = cross(a.axis[i], b.axis[j]);
      const T square = dot(x, x);
      if (square < T(Real<T>(kParallelEdges))) continue;
      const BoxAxis<T> next = axis_of(a, b, x * (T(1) / sqrt(square)), i, j);
      if (next.sep > best.sep) best = next;
    }
  return best;
}

// (C.17)  the two edges that face each other along an edge axis; false if their lines come closest
// beyond an end
template <class T>
FB_INLINE bool edge_touch(const BoxFrame<T>& a, const BoxFrame<T>& b, const BoxAxis<T>& at,
                          Touch<T>& out) {
  if (at.i < 0) return false;
  Vec3<T> xa = a.p, xb = b.p;
  for (int k = 0; k < 3; ++k) {
    if (k != at.i) xa += a.axis[k] * (a.half[k] * sign_of(dot(at.n, a.axis[k])));
    if (k != at.j) xb -= b.axis[k] * (b.half[k] * sign_of(dot(at.n, b.axis[k])));
  }
  const Vec3<T> ua = a.axis[at.i], ub = b.axis[at.j], arm = xa - xb, x = cross(ua, ub);
  const T c = dot(ua, arm), f = dot(ub, arm), cosine = dot(ua, ub), square = dot(x, x);
  const T s = (cosine * f - c) / square, t = (f - cosine * c) / square;
  if (abs(s) > a.half[at.i] || abs(t) > b.half[at.j]) return false;
  xa += ua * s;
  xb += ub * t;
  out = {dot(at.n, xb - xa), at.n, (xa + xb) * Real<T>(0.5), true};
  return true;
}

// points over a reference face: (u, v) along the face, w the height over it
template <class T>
struct FacePolygon {
  Vec3<T> x[8];
  int n;
};

// (C.16)  one Sutherland-Hodgman cut: keep sign * (u or v) <= half; points within `slack` of the
// line are kept, not cut
template <class T>
FB_INLINE void cut_polygon(FacePolygon<T>& poly, bool along_v, T sign, T half, T slack) {
  const FacePolygon<T> old = poly;
  poly.n = 0;
  for (int k = 0; k < old.n; ++k) {
    const Vec3<T> p = old.x[k], q = old.x[k + 1 < old.n ? k + 1 : 0];
    const T dp = half - sign * (along_v ? p.y : p.x), dq = half - sign * (along_v ? q.y : q.x);
    if (dp >= -slack && poly.n < 8) poly.x[poly.n++] = p;
    const bool leaves = dp > slack && dq < -slack, enters = dp < -slack && dq > slack;
    if ((leaves || enters) && poly.n < 8) poly.x[poly.n++] = p + (q - p) * (dp / (dp - dq));
  }
}

// (C.16)  the face of `inc` most opposed to n, in the coordinates of face k of `ref`, whose outward
// normal is n
template <class T>
FB_INLINE FacePolygon<T> incident_face(const BoxFrame<T>& ref, const BoxFrame<T>& inc, Vec3<T> n,
                                       int k) {
  int m = 0;
  T most = abs(dot(n, inc.axis[0]));
  for (int j = 1; j < 3; ++j) {
    const T here = abs(dot(n, inc.axis[j]));
    if (here > most) {
      most = here;
      m = j;
    }
  }
  const Vec3<T> e = inc.axis[m] * (inc.half[m] * -sign_of(dot(n, inc.axis[m])));
  const Vec3<T> centre = inc.p + e - ref.p;
  const Vec3<T> y = inc.axis[(m + 1) % 3] * inc.half[(m + 1) % 3];
  const Vec3<T> z = inc.axis[(m + 2) % 3] * inc.half[(m + 2) % 3];
  const Vec3<T> corner[4] = {centre + y + z, centre - y + z, centre - y - z, centre + y - z};
  const Vec3<T> u = ref.axis[(k + 1) % 3], v = ref.axis[(k + 2) % 3];
  FacePolygon<T> poly;
  poly.n = 4;
  for (int c = 0; c < 4; ++c)
    poly.x[c] = {dot(u, corner[c]), dot(v, corner[c]), dot(n, corner[c]) - ref.half[k]};
  return poly;
}

// (C.16)  the incident face cut to the reference face, one touch per corner; the number of slots
// written
template <class T>
FB_INLINE int face_touches(const BoxFrame<T>& a, const BoxFrame<T>& b, const BoxAxis<T>& at,
                           Touch<T>* out) {
  using R = Real<T>;
  const bool on_a = at.i >= 0;
  const BoxFrame<T>&ref = on_a ? a : b, &inc = on_a ? b : a;
  const int k = on_a ? at.i : at.j;
  const Vec3<T> n = on_a ? at.n : -at.n;
  const T hu = ref.half[(k + 1) % 3], hv = ref.half[(k + 2) % 3];
  const T slack = (hu + hv) * R(kIsDouble<T> ? 1e-9 : 1e-5), same = (hu + hv) * R(1e-4);
  FacePolygon<T> poly = incident_face(ref, inc, n, k);
  for (int c = 0; c < 4; ++c) cut_polygon(poly, c >= 2, T(c & 1 ? -1 : 1), c >= 2 ? hv : hu, slack);

  const Vec3<T> u = ref.axis[(k + 1) % 3], v = ref.axis[(k + 2) % 3];
  for (int c = 0; c < poly.n; ++c) {
    const Vec3<T> x = poly.x[c];
    const Vec3<T> at_mid = ref.p + u * x.x + v * x.y + n * (ref.half[k] + x.z * R(0.5));
    bool fresh = true;
    for (int j = 0; j < c; ++j)
      fresh = fresh && !(out[j].on && dot(poly.x[j] - x, poly.x[j] - x) < same * same);
    out[c] = {x.z, at.n, at_mid, fresh};
  }
  return poly.n;
}

// (C.18)  the vertex of either box closest to the other box (deepest in it, if inside)
template <class T>
FB_INLINE Touch<T> vertex_touch(const Shape<T>& a, const Shape<T>& b) {
  Touch<T> best{T(Real<T>(1e30)), column(a.R, 2), a.p, true};
  for (int c = 0; c < 16; ++c) {
    const bool of_a = c < 8;
    const Shape<T>&from = of_a ? a : b, &to = of_a ? b : a;
    const Vec3<T> corner{(c & 1) ? from.size.x : -from.size.x, (c & 2) ? from.size.y : -from.size.y,
                         (c & 4) ? from.size.z : -from.size.z};
    const Vec3<T> x = from.p + mul(from.R, corner);
    const BoxPoint<T> at = point_box(mul_transposed(to.R, x - to.p), to.size);
    if (!(at.distance < best.phi)) continue;
    const Vec3<T> n = mul(to.R, at.n);
    best = {at.distance, of_a ? -n : n, x - n * (at.distance * Real<T>(0.5)), true};
  }
  return best;
}

template <class T>
FB_INLINE void clear_touches(const Shape<T>& a, Touch<T>* out) {
  for (int k = 0; k < pair_slots(kBoxBox); ++k) out[k] = {T(0), column(a.R, 2), a.p, false};
}

// (C.15)-(C.18)  one world: an edge pair, a clipped face, or, where boxes are apart and the face
// misses the closest point, one touch
template <class T>
FB_OUTLINE void box_box_one(const Shape<T>& a, const Shape<T>& b, Touch<T>* out) {
  using R = Real<T>;
  const BoxFrame<T> fa = box_frame(a), fb = box_frame(b);
  const T small_a = min(a.size.x, min(a.size.y, a.size.z)),
          small_b = min(b.size.x, min(b.size.y, b.size.z));
  const T small = min(small_a, small_b);
  clear_touches(a, out);

  const BoxAxis<T> face = best_face_axis(fa, fb, small * R(1e-4)), edge = best_edge_axis(fa, fb);
  const bool prefer_edge = edge.sep > face.sep + abs(face.sep) * R(0.05) + small * R(1e-3);
  const bool apart = max(face.sep, edge.sep) > T(0);
  if (prefer_edge && edge_touch(fa, fb, edge, out[0])) return;

  // a face that reaches down to the separation of its axis holds the closest point
  const int count = prefer_edge && apart ? 0 : face_touches(fa, fb, face, out);
  T lowest = T(R(1e30));
  for (int k = 0; k < count; ++k) lowest = min(lowest, out[k].phi);
  const T slack = small * R(1e-2);
  if (count > 0 && !(apart && lowest > face.sep + slack)) return;

  Touch<T> single;
  if (!(edge.sep > face.sep && edge_touch(fa, fb, edge, single))) single = vertex_touch(a, b);
  if (count > 0 && single.phi > lowest - slack) return;
  clear_touches(a, out);
  out[0] = single;
}

// the number type of one world of T, and how to read and write its lanes
template <class T>
struct OneWorld {
  using type = T;
};
#ifndef __CUDACC__
template <class R, int W>
struct OneWorld<Lane<R, W>> {
  using type = R;
};
template <class R, int W>
struct OneWorld<Dual<Lane<R, W>>> {
  using type = Dual<R>;
};
template <class R, int W>
FB_INLINE R world_of(const Lane<R, W>& a, int k) {
  return a.x[k];
}
template <class R, int W>
FB_INLINE Dual<R> world_of(const Dual<Lane<R, W>>& a, int k) {
  return {a.v.x[k], a.d.x[k]};
}
template <class R, int W>
FB_INLINE void set_world(Lane<R, W>& a, int k, R v) {
  a.x[k] = v;
}
template <class R, int W>
FB_INLINE void set_world(Dual<Lane<R, W>>& a, int k, Dual<R> v) {
  a.v.x[k] = v.v;
  a.d.x[k] = v.d;
}
template <class T, class S = typename OneWorld<T>::type>
FB_INLINE Vec3<S> world_of(const Vec3<T>& a, int k) {
  return {world_of(a.x, k), world_of(a.y, k), world_of(a.z, k)};
}
template <class T, class S = typename OneWorld<T>::type>
FB_INLINE Shape<S> world_of(const Shape<T>& a, int k) {
  Shape<S> s{world_of(a.p, k), {}, world_of(a.size, k), a.vert, a.nvert};
  for (int e = 0; e < 9; ++e) s.R.a[e] = world_of(a.R.a[e], k);
  return s;
}
template <class T, class S>
FB_INLINE void set_world(Vec3<T>& a, int k, const Vec3<S>& v) {
  set_world(a.x, k, v.x);
  set_world(a.y, k, v.y);
  set_world(a.z, k, v.z);
}
#endif

// lanes take their turns: the branches of one world do not suit another
template <class T>
FB_INLINE void box_box(const Shape<T>& a, const Shape<T>& b, Touch<T>* out) {
  using S = typename OneWorld<T>::type;
  if constexpr (sizeof(S) == sizeof(T) && sizeof(Mask<T>) == sizeof(bool)) {
    box_box_one(a, b, out);
  } else {
    Touch<S> one[pair_slots(kBoxBox)];
    for (int k = 0; k < kLanes<T>; ++k) {
      box_box_one(world_of(a, k), world_of(b, k), one);
      for (int j = 0; j < pair_slots(kBoxBox); ++j) {
        set_world(out[j].phi, k, one[j].phi);
        set_world(out[j].n, k, one[j].n);
        set_world(out[j].p, k, one[j].p);
        out[j].on.m[k] = one[j].on ? -1 : 0;
      }
    }
  }
}

}  // namespace fb::FB_ISA
