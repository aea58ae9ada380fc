// The least overlap of two convex cores: EPA, and a way without it, for one world at a time.
// Proof: docs/derivations/convex.md.
#pragma once
#include "core/collision/convex_gjk.hpp"

namespace fb::FB_ISA {

// two unit vectors with u x w = n
template <class T>
FB_INLINE void basis_of(Vec3<T> n, Vec3<T>& u, Vec3<T>& w) {
  const T o = T(0), i = T(1);
  const Vec3<T> e = abs(n.x) > T(Real<T>(0.6)) ? Vec3<T>{o, i, o} : Vec3<T>{i, o, o};
  u = cross(e, n);
  u = u * (i / norm(u));
  w = cross(n, u);
}

inline constexpr int kEpaVertices = 64, kEpaFaces = 192, kEpaEdges = 128, kMostTies = 4,
                     kEpaTrials = 4;

// a face of the polytope: corners, outward unit normal, distance of its plane from the origin
template <class R>
struct EpaFace {
  uint8_t id[3];
  Vec3<R> n;
  R d;
};
template <class R>
struct Epa {
  DifferencePoint<R> at[kEpaVertices];
  EpaFace<R> face[kEpaFaces];
  int vertices, faces;
};

// n: unit vector from A to B along which they overlap, by -gap; the points that carry it
template <class R>
struct Overlap {
  Vec3<R> n;
  R gap;
  Simplex<R> simplex;
};
// the least overlap; full: there was no room to find it as exactly as asked for; tie: other directions
// of about the same overlap
template <class R>
struct Depth : Overlap<R> {
  bool known, full;
  Overlap<R> tie[kMostTies];
  int ties;
};
template <class R>
FB_INLINE void no_depth(Depth<R>& d) {
  d.known = d.full = false;
  d.ties = 0;
}

// add a face; false if it is degenerate or there is no room
template <class R>
FB_INLINE bool add_face(Epa<R>& e, int i, int j, int k) {
  if (e.faces == kEpaFaces) return false;
  const Vec3<R> x = e.at[i].w, u = e.at[j].w - x, v = e.at[k].w - x, n = cross(u, v);
  const R square = dot(n, n), flat = R(kIsDouble<R> ? 1e-24 : 1e-10);
  if (!(square > flat * dot(u, u) * dot(v, v))) return false;
  const Vec3<R> unit = n * (R(1) / sqrt(square));
  e.face[e.faces++] = {{uint8_t(i), uint8_t(j), uint8_t(k)}, unit, dot(unit, x)};
  return true;
}

// a direction in which a simplex of one to three points may grow, another one at each trial
template <class R>
FB_INLINE Vec3<R> growing_direction(const Epa<R>& e, int trial) {
  const R o = R(0), i = R(1);
  const Vec3<R> x = e.at[0].w;
  if (e.vertices == 3) {
    const Vec3<R> n = cross(e.at[1].w - x, e.at[2].w - x);
    return trial % 2 ? n : -n;
  }
  Vec3<R> axis = trial % 3 == 0   ? Vec3<R>{i, o, o}
                 : trial % 3 == 1 ? Vec3<R>{o, i, o}
                                  : Vec3<R>{o, o, i};
  if (e.vertices == 2) {
    axis = e.at[1].w - x;
    axis = axis * (i / max(norm(axis), R(1e-30)));
  }
  Vec3<R> u, w;
  basis_of(axis, u, w);
  R s, c;
  sincos(R(trial), s, c);
  return u * c + w * s;
}
// whether a point is off the span of those in hand
template <class R>
FB_INLINE bool grows(const Epa<R>& e, Vec3<R> w, R least) {
  const Vec3<R> d = w - e.at[0].w;
  if (e.vertices == 1) return dot(d, d) > least * least;
  const Vec3<R> u = e.at[1].w - e.at[0].w;
  if (e.vertices == 2) {
    const Vec3<R> n = cross(u, d);
    return dot(n, n) > least * least * dot(u, u);
  }
  const Vec3<R> n = cross(u, e.at[2].w - e.at[0].w);
  return abs(dot(n, d)) > least * norm(n);
}

// a tetrahedron from what GJK left; false where the difference of the shapes is flat
template <class R>
FB_FN bool first_tetrahedron(ConvexPair<R>& pair, const Simplex<R>& s, R size, Epa<R>& e) {
  const R least = size * R(kIsDouble<R> ? 1e-9 : 1e-5);
  e.vertices = e.faces = 0;
  for (int k = 0; k < s.n; ++k)
    if (e.vertices == 0 || grows(e, s.at[k].w, least)) e.at[e.vertices++] = s.at[k];
  for (int trial = 1; e.vertices < 4 && trial < 20; ++trial) {
    const DifferencePoint<R> p = pair_support(pair, growing_direction(e, trial));
    if (grows(e, p.w, least)) e.at[e.vertices++] = p;
  }
  if (e.vertices < 4) return false;
  const Vec3<R> x = e.at[0].w, u = e.at[1].w - x, v = e.at[2].w - x;
  if (dot(cross(u, v), e.at[3].w - x) > R(0)) {
    const DifferencePoint<R> kept = e.at[1];
    e.at[1] = e.at[2];
    e.at[2] = kept;
  }
  return add_face(e, 0, 1, 2) && add_face(e, 0, 3, 1) && add_face(e, 0, 2, 3) &&
         add_face(e, 1, 3, 2);
}

// take away the faces that see w and close the hole with faces to it; false on failure
template <class R>
FB_FN bool expand(Epa<R>& e, const DifferencePoint<R>& p, R visible) {
  uint8_t from[kEpaEdges], to[kEpaEdges];
  int edges = 0, kept = 0;
  for (int f = 0; f < e.faces; ++f) {
    const EpaFace<R>& face = e.face[f];
    if (!(dot(face.n, p.w) - face.d > visible)) {
      if (kept < f) e.face[kept] = face;
      ++kept;
      continue;
    }
    for (int k = 0; k < 3; ++k) {
      const uint8_t i = face.id[k], j = face.id[(k + 1) % 3];
      int same = 0;
      while (same < edges && !(from[same] == j && to[same] == i)) ++same;
      if (same < edges) {
        --edges;
        from[same] = from[edges];
        to[same] = to[edges];
      } else if (edges == kEpaEdges) {
        return false;
      } else {
        from[edges] = i;
        to[edges++] = j;
      }
    }
  }
  e.faces = kept;
  const int at = e.vertices;
  e.at[e.vertices++] = p;
  for (int k = 0; k < edges; ++k)
    if (!add_face(e, from[k], to[k], at)) return false;
  return edges > 0;
}

// the weights of the origin's foot on a face; all three corners count, however little
template <class R>
FB_INLINE void weigh_facet(Simplex<R>& s, Vec3<R> foot) {
  const Vec3<R> x = s.at[0].w, e = s.at[1].w - x, f = s.at[2].w - x, n = cross(e, f);
  const R inverse = R(1) / dot(n, n), least = R(1e-4);
  const R b = dot(n, cross(foot - x, f)) * inverse, c = dot(n, cross(e, foot - x)) * inverse;
  const R w[3] = {clamp(R(1) - b - c, least, R(1)), clamp(b, least, R(1)), clamp(c, least, R(1))};
  const R all = R(1) / (w[0] + w[1] + w[2]);
  for (int k = 0; k < 3; ++k) s.weight[k] = w[k] * all;
}

// within 0.03 rad of the first direction that was found, or 0.2 of another
template <class R>
FB_INLINE bool is_tied(const Depth<R>& d, Vec3<R> outward) {
  bool near = dot(d.n, outward) < R(-0.9995);
  for (int k = 0; k < d.ties; ++k) near = near || dot(d.tie[k].n, outward) < R(-0.98);
  return near;
}
// the face nearest to the origin
template <class R>
FB_INLINE int nearest_face(const Epa<R>& e) {
  int best = 0;
  for (int f = 1; f < e.faces; ++f)
    if (e.face[f].d < e.face[best].d) best = f;
  return best;
}
// the same but for those of directions that were found; -1 if it is beyond `far`
template <class R>
FB_FN int nearest_other_face(const Epa<R>& e, const Depth<R>& found, R far) {
  int best = -1;
  R least = far;
  for (int f = 0; f < e.faces; ++f)
    if (e.face[f].d < least && !is_tied(found, e.face[f].n)) {
      best = f;
      least = e.face[f].d;
    }
  return best;
}
// the overlap that a face stands for
template <class R>
FB_INLINE void face_overlap(const Epa<R>& e, const EpaFace<R>& face, Overlap<R>& out) {
  out.n = -face.n;
  out.gap = -face.d;
  out.simplex.n = 3;
  for (int k = 0; k < 3; ++k) out.simplex.at[k] = e.at[face.id[k]];
  weigh_facet(out.simplex, face.n * face.d);
}
// no room for more points: of the faces that might be nearest those along which the overlap is least
template <class R>
FB_FN void tie_faces(ConvexPair<R>& pair, const Epa<R>& e, R far, Depth<R>& out) {
  while (out.ties < kMostTies) {
    int best = -1;
    R least = R(1e30);
    for (int f = 0; f < e.faces; ++f) {
      if (!(e.face[f].d < far) || is_tied(out, e.face[f].n)) continue;
      const R here = dot(e.face[f].n, pair_support(pair, -e.face[f].n).w);
      if (!(here < least)) continue;
      best = f;
      least = here;
    }
    if (best < 0) return;
    face_overlap(e, e.face[best], out.tie[out.ties++]);
  }
}

// (CV.5)  the polytope grows at the face nearest to the origin until it is one of the difference, or
// there is no room for more.  tied: then at faces of other directions that may be as near.  False where
// a face degenerates; visible: how far beyond a face a point counts
template <class R>
FB_FN bool grow_polytope(ConvexPair<R>& pair, Epa<R>& e, R size, R tolerance, R visible, bool tied,
                         Depth<R>& out) {
  R far = R(1e30);
  while (true) {
    const int best = out.known ? nearest_other_face(e, out, far) : nearest_face(e);
    if (best < 0) return true;
    const EpaFace<R> face = e.face[best];
    const DifferencePoint<R> p = pair_support(pair, -face.n);
    const R here = dot(face.n, p.w);
    const bool done = here - face.d <= tolerance, full = e.vertices == kEpaVertices;
    if ((done || full) && !out.known) {
      out.known = true;
      face_overlap(e, face, out);
      far = here - size * R(kIsDouble<R> ? 1e-9 : 1e-5);
      out.full = full && !done;
      if (!tied) return true;
    } else if (done) {
      face_overlap(e, face, out.tie[out.ties++]);
    } else if (!full && !expand(e, p, visible)) {
      return false;
    }
    if (full) tie_faces(pair, e, far, out);
    out.full = out.full || full;
    if (full || out.ties == kMostTies) return true;
  }
}
// the same; where a face degenerates, points that lie nearly in its plane do not count
template <class R>
FB_OUTLINE Depth<R> epa(ConvexPair<R>& pair, const Simplex<R>& found, R size, R tolerance,
                        bool tied) {
  Epa<R> e;
  Depth<R> out;
  R visible = size * R(kIsDouble<R> ? 1e-15 : 5e-7);
  for (int trial = 0; trial < kEpaTrials; ++trial) {
    no_depth(out);
    if (!first_tetrahedron(pair, found, size, e)) return out;
    if (grow_polytope(pair, e, size, max(tolerance, visible), visible, tied, out)) return out;
    visible = visible * R(kIsDouble<R> ? 1e2 : 4);
  }
  out.full = true;
  return out;
}

// overlap along a unit vector n from A to B
template <class R>
FB_INLINE R overlap_along(ConvexPair<R>& pair, Vec3<R> n) {
  return -dot(n, pair_support(pair, n).w);
}

// (CV.6)  from a direction of overlap h, the closest points of A and of B moved by h and a little more
// give one of no larger overlap
template <class R>
FB_FN Depth<R> depth_from(ConvexPair<R>& pair, Vec3<R> n, R size, const GjkLimits<R>& limit) {
  Depth<R> out;
  no_depth(out);
  out.n = n;
  out.gap = -overlap_along(pair, n);
  const R most = size * R(1e-2), least = kIsDouble<R> ? size * R(1e-6) : most;
  const R little = clamp(-out.gap, least, most);
  for (int step = 0; step < 16; ++step) {
    pair.shift = out.n * (little - out.gap);
    const Vec3<R> shift = pair.shift;
    const GjkResult<R> r = gjk(pair, out.n, limit);
    pair.shift = zero3<R>();
    if (r.found != Found::kApart) break;
    const R length = norm(r.v);
    const Vec3<R> next = r.v * (R(1) / length);
    const R gap = length - dot(next, shift);
    if (out.known && !(gap > out.gap + size * R(kIsDouble<R> ? 1e-13 : 1e-6))) break;
    out.known = true;
    out.n = next;
    out.gap = gap;
    out.simplex = r.simplex;
    for (int k = 0; k < out.simplex.n; ++k) {
      out.simplex.at[k].w -= shift;
      out.simplex.at[k].b -= shift;
    }
  }
  return out;
}
// from seven directions: a local minimum each, the least of them
template <class R>
FB_OUTLINE Depth<R> depth_by_shifts(ConvexPair<R>& pair, R size, const GjkLimits<R>& limit) {
  Depth<R> best;
  no_depth(best);
  for (int k = 0; k < 7; ++k) {
    Vec3<R> n = k == 0  ? pair.b.p - pair.a.p
                : k < 4 ? column(pair.a.R, k - 1)
                        : column(pair.b.R, k - 4);
    const R length = norm(n);
    if (!(length > size * R(1e-9))) continue;
    n = n * (R(1) / length);
    if (k > 0 && overlap_along(pair, -n) < overlap_along(pair, n)) n = -n;
    const Depth<R> next = depth_from(pair, n, size, limit);
    if (next.known && (!best.known || next.gap > best.gap)) best = next;
  }
  return best;
}

}  // namespace fb::FB_ISA
