// The vertices of a hull on which a plane carries it, found by walks along the hull's edges, one world
// at a time.  Proof: docs/derivations/collision.md.
#pragma once
#include "core/collision/convex_shape.hpp"

namespace fb::FB_ISA {

// contact points of a plane and a hull
inline constexpr int kHullPoints = 4;
// height lost against spread gained when support points are chosen: points above a cone of this
// slope are not taken
inline constexpr double kMeshSlope = 20;

// what a vertex is chosen by, in the mesh frame: its spread from x0 along `side`, or, where it is far,
// to any side, less kMeshSlope times its height over x0
template <class T>
struct HullScore {
  Vec3<T> n, x0, side;
  bool far;
};
template <class T>
FB_INLINE T score_of(const HullScore<T>& by, Vec3<T> x) {
  const Vec3<T> arm = x - by.x0;
  const T height = dot(by.n, arm);
  T spread = dot(by.side, arm);
  if (by.far) spread = norm(arm - by.n * height);
  return spread - height * Real<T>(kMeshSlope);
}
// (C.7)  of one slot: the deepest, the one farthest from it, and the farthest to either side of the
// line between them, each farthest among those that are low; found: the vertices of the slots before
template <class T>
FB_INLINE HullScore<T> slot_score(Vec3<T> n, const Vec3<T>* found, int slot) {
  const Vec3<T> none = zero3<T>();
  if (slot == 0) return {n, none, none, false};
  if (slot == 1) return {n, found[0], none, true};
  const Vec3<T> across = cross(n, found[1] - found[0]);
  const Vec3<T> side = direction(across, has_direction(across), none).u;
  return {n, found[0], slot == 2 ? side : -side, false};
}

// hulls of at most so many vertices are scanned
inline constexpr int kWalkedVertices = 32;
// vertices that a walk can gather, and the places by which it knows them
inline constexpr int kMostGathered = 256, kGatherPlaces = 512;
// how far rounding may move a score, as a share of the coordinates
inline constexpr double kScoreSlack = 2e-5;

// vertices of a hull; place: at a number made of the vertex, one more than where it stands in the list
struct Gathered {
  int count;
  uint16_t vertex[kMostGathered], place[kGatherPlaces];
};
// the place of a vertex: its own, or a free one
FB_INLINE int place_in(const Gathered& g, int vertex) {
  int at = int((uint32_t(vertex) * 0x9E3779B1u) >> 23);
  while (g.place[at] != 0 && g.vertex[g.place[at] - 1] != vertex) at = (at + 1) % kGatherPlaces;
  return at;
}
FB_INLINE void add_vertex(Gathered& g, int vertex, int place) {
  g.vertex[g.count++] = uint16_t(vertex);
  g.place[place] = uint16_t(g.count);
}

template <class R>
FB_INLINE R slack_of(Vec3<R> x) {
  return (abs(x.x) + abs(x.y) + abs(x.z)) * R(kScoreSlack);
}
template <class R>
FB_INLINE R vertex_score(const Convex<R>& c, const HullScore<R>& by, int vertex) {
  return score_of(by, mesh_vertex(c.vert, c.map, vertex));
}

// from vertex `at` to better neighbours, as long as there are any
template <class R>
FB_FN int climb_hull(const Convex<R>& c, const HullScore<R>& by, int at) {
  const int32_t* start = vertex_neighbours(c);
  R most = vertex_score(c, by, at);
  for (int from = -1; from != at;) {
    from = at;
    for (int e = start[from]; e < start[from + 1]; ++e) {
      const R here = vertex_score(c, by, c.hull[e]);
      if (here > most) {
        most = here;
        at = c.hull[e];
      }
    }
  }
  return at;
}

// the vertices that are reached from one of them over edges between scores of at least `least`, up to
// rounding; false where they are too many
template <class R>
FB_FN bool gather_hull(const Convex<R>& c, const HullScore<R>& by, int from, R least, Gathered& g) {
  const int32_t* start = vertex_neighbours(c);
  g.count = 0;
#ifdef __CUDACC__
  for (uint16_t& place : g.place) place = 0;
#else
  __builtin_memset(g.place, 0, sizeof(g.place));
#endif
  add_vertex(g, from, place_in(g, from));
  for (int i = 0; i < g.count; ++i)
    for (int e = start[g.vertex[i]]; e < start[g.vertex[i] + 1]; ++e) {
      const int place = place_in(g, c.hull[e]);
      if (g.place[place] != 0) continue;
      const Vec3<R> x = mesh_vertex(c.vert, c.map, c.hull[e]);
      if (!(score_of(by, x) + slack_of(x) >= least)) continue;
      if (g.count == kMostGathered) return false;
      add_vertex(g, c.hull[e], place);
    }
  return true;
}

// the best of those gathered, of equals the one with the smallest number
template <class R>
FB_FN int best_gathered(const Convex<R>& c, const HullScore<R>& by, const Gathered& g) {
  int best = g.vertex[0];
  R most = vertex_score(c, by, best);
  for (int i = 1; i < g.count; ++i) {
    const int k = g.vertex[i];
    const R here = vertex_score(c, by, k);
    if (here > most || (here == most && k < best)) {
      most = here;
      best = k;
    }
  }
  return best;
}

// the deepest vertex; -1 where too many are as deep
template <class R>
FB_FN int walk_to_deepest(const Convex<R>& c, const HullScore<R>& by, Gathered& g) {
  int at = vertex_towards(c, -(c.map.active ? by.n + mul(c.map.A, by.n) : by.n));
  // a vertex that is better than its neighbours by rounding alone is left over the gathered ones
  while (true) {
    at = climb_hull(c, by, at);
    const R most = vertex_score(c, by, at);
    if (!gather_hull(c, by, at, most - slack_of(mesh_vertex(c.vert, c.map, at)), g)) return -1;
    at = best_gathered(c, by, g);
    if (!(vertex_score(c, by, at) > most)) return at;
  }
}

// (C.47)  the numbers of the vertices of all slots: the deepest for all where its gap is not below far;
// false where too many vertices are low
template <class R>
FB_FN bool walk_hull(const Shape<R>& a, const Shape<R>& b, R far, int* id) {
  const Vec3<R> n = column(a.R, 2), m = mul_transposed(b.R, n);
  const Convex<R> c = convex_of(b, a.p);
  Gathered g;
  Vec3<R> found[kHullPoints];
  id[0] = walk_to_deepest(c, slot_score(m, found, 0), g);
  if (id[0] < 0) return false;
  found[0] = mesh_vertex(c.vert, c.map, id[0]);
  for (int k = 1; k < kHullPoints; ++k) id[k] = id[0];
  const R slack = slack_of(found[0]);
  if (dot(n, c.p) + dot(m, found[0]) > far + slack + slack_of(c.p)) return true;

  if (!gather_hull(c, slot_score(m, found, 1), id[0], -slack, g)) return false;
  for (int k = 1; k < kHullPoints; ++k) {
    id[k] = best_gathered(c, slot_score(m, found, k), g);
    found[k] = mesh_vertex(c.vert, c.map, id[k]);
  }
  return true;
}

}  // namespace fb::FB_ISA
