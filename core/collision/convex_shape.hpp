// Convex shapes by their corners, faces and farthest points, for one world at a time.
// Proof: docs/derivations/convex.md.
#pragma once
#include "core/collision/one_world.hpp"

namespace fb::FB_ISA {

// a shape as the convex routine sees it, placed relative to A's centre; map, mirrored: of a mesh
template <class T>
struct Convex {
  ShapeType type;
  Vec3<T> p;
  Mat3<T> R;
  Vec3<T> size;
  MeshMap<T> map;
  bool mirrored;
  const Real<T>* vert;
  int nvert;
  const int32_t* hull;
};
template <class T>
FB_INLINE Convex<T> convex_of(const Shape<T>& s, Vec3<T> origin) {
  const T o = T(0), i = T(1);
  Convex<T> c{s.type, s.p - origin, s.R, s.size, {}, false, s.vert, s.nvert, s.hull};
  c.map.active = false;
  if (s.type == kMesh && s.nvert > 0) {
    c.map = mesh_map(s.vert, s.size);
    c.mirrored = (i + s.size.x) * (i + s.size.y) * (i + s.size.z) < o;
  }
  return c;
}

// the value of a shape without its tangent
FB_INLINE double plain(double a) { return a; }
FB_INLINE float plain(float a) { return a; }
template <class S>
FB_INLINE Real<S> plain(const Dual<S>& a) {
  return plain(a.v);
}
template <class T>
FB_INLINE Vec3<Real<T>> plain(const Vec3<T>& a) {
  return {plain(a.x), plain(a.y), plain(a.z)};
}
template <class T>
FB_INLINE Shape<Real<T>> plain(const Shape<T>& a) {
  Shape<Real<T>> s{a.type, plain(a.p), {}, plain(a.size), a.vert, a.nvert, a.hull};
  for (int e = 0; e < 9; ++e) s.R.a[e] = plain(a.R.a[e]);
  return s;
}

template <class T>
FB_INLINE Convex<Real<T>> plain(const Convex<T>& c) {
  const Real<T> o = 0;
  Convex<Real<T>> out{c.type,
                      plain(c.p),
                      {},
                      plain(c.size),
                      {{{o, o, o, o, o, o, o, o, o}}, {o, o, o}, c.map.active},
                      c.mirrored,
                      c.vert,
                      c.nvert,
                      c.hull};
  for (int e = 0; e < 9; ++e) {
    out.R.a[e] = plain(c.R.a[e]);
    if (c.map.active) out.map.A.a[e] = plain(c.map.A.a[e]);
  }
  if (c.map.active) out.map.b = plain(c.map.b);
  return out;
}

// ---- corners.  Sphere: its centre; capsule: the ends of its axis; box: bit i of the number chooses
// the side along axis i; mesh: vertices; cylinder: the ends of its axis, then eight marks on each rim

inline constexpr int kRimMarks = 8, kFirstMark = 2;
template <class T>
FB_INLINE Vec3<T> rim_mark(int k) {
  const Real<T> h(0.70710678118654752440);
  const int q = k & 3;
  const Real<T> x = q == 0 ? Real<T>(1) : q == 1 ? h : q == 2 ? Real<T>(0) : -h;
  const Real<T> y = q == 0 ? Real<T>(0) : q == 1 ? h : q == 2 ? Real<T>(1) : h;
  return {T(k < 4 ? x : -x), T(k < 4 ? y : -y), T(0)};
}
// a mark of a cylinder is on the upper rim
FB_INLINE bool is_upper_mark(int id) { return id >= kFirstMark + kRimMarks; }
FB_INLINE int mark_number(int id) { return (id - kFirstMark) % kRimMarks; }

// (CV.2)  corner `id` in the shape's frame
template <class T>
FB_INLINE Vec3<T> local_corner(const Convex<T>& c, int id) {
  const T o = T(0);
  const Vec3<T> s = c.size;
  switch (c.type) {
    case kCapsule:
      return {o, o, id == 0 ? -s.y : s.y};
    case kCylinder: {
      if (id < kFirstMark) return {o, o, id == 0 ? -s.y : s.y};
      const Vec3<T> m = rim_mark<T>(mark_number(id));
      return {m.x * s.x, m.y * s.x, is_upper_mark(id) ? s.y : -s.y};
    }
    case kBox:
      return {(id & 1) ? s.x : -s.x, (id & 2) ? s.y : -s.y, (id & 4) ? s.z : -s.z};
    case kMesh:
      return c.nvert > 0 ? mesh_vertex(c.vert, c.map, id) : zero3<T>();
    default:
      return zero3<T>();
  }
}
template <class T>
FB_INLINE Vec3<T> corner_of(const Convex<T>& c, int id) {
  return mul_add(c.R, local_corner(c, id), c.p);
}

// (CV.12)  given the bar of a corner x, add to bar; origin: what x is measured from
template <class T>
FB_FN void corner_adjoint(const Convex<T>& c, int id, Vec3<T> origin, Vec3<T> x_bar,
                          ShapeBar<T>& bar) {
  const T o = T(0);
  const Vec3<T> local = local_corner(c, id), along = mul_transposed(c.R, x_bar);
  add_point(bar, mul_add(c.R, local, c.p) + origin, x_bar);
  if (c.type == kBox)
    bar.size += Vec3<T>{(id & 1) ? along.x : -along.x, (id & 2) ? along.y : -along.y,
                        (id & 4) ? along.z : -along.z};
  if (c.type == kMesh && c.nvert > 0) mesh_vertex_adjoint(c.vert, c.size, local, along, bar.size);
  if (c.type == kCapsule || (c.type == kCylinder && id < kFirstMark))
    bar.size += Vec3<T>{o, id == 0 ? -along.z : along.z, o};
  if (c.type == kCylinder && id >= kFirstMark) {
    const Vec3<T> m = rim_mark<T>(mark_number(id));
    bar.size += Vec3<T>{m.x * along.x + m.y * along.y, is_upper_mark(id) ? along.z : -along.z, o};
  }
}

// radius around a feature of these corners: that of a sphere, a capsule, the axis of a cylinder
FB_INLINE bool has_radius(ShapeType type, int id) {
  return type == kSphere || type == kCapsule || (type == kCylinder && id < kFirstMark);
}

// ---- the topology of a hull: words of a table of the model.  h[0]: number of faces; then where the
// neighbours of each vertex, the corners of each face and the faces of each vertex begin, and after
// the last of them end; last a vertex for each direction of a grid on the sides of a cube, the farthest
// along it.  Corners of a face run counter-clockwise seen from outside

inline constexpr int kMostFaceCorners = 32, kScannedVertices = 64, kHullGrid = 8;
template <class T>
FB_INLINE int hull_faces(const Convex<T>& c) {
  return c.hull == nullptr ? 0 : c.hull[0];
}
template <class T>
FB_INLINE const int32_t* vertex_neighbours(const Convex<T>& c) {
  return c.hull + 1;
}
template <class T>
FB_INLINE const int32_t* face_starts(const Convex<T>& c) {
  return c.hull + 2 + c.nvert;
}
template <class T>
FB_INLINE const int32_t* vertex_faces(const Convex<T>& c) {
  return c.hull + 3 + c.nvert + c.hull[0];
}

// the vertex of the cell of that grid in which a direction lies
template <class R>
FB_INLINE int vertex_towards(const Convex<R>& c, Vec3<R> q) {
  const R x = abs(q.x), y = abs(q.y), z = abs(q.z);
  const bool along_x = x >= y && x >= z, along_y = !along_x && y >= z;
  const R most = along_x ? q.x : along_y ? q.y : q.z;
  const R u = along_x ? q.y : along_y ? q.z : q.x, w = along_x ? q.z : along_y ? q.x : q.y;
  const R half = R(0.5) * R(kHullGrid), share = half / (most == R(0) ? R(1) : abs(most));
  const auto cell = [&](R a) {
    const R at = mul_add(a, share, half);
    return at > R(0) ? (at < R(kHullGrid) ? int(at) : kHullGrid - 1) : 0;
  };
  const int side = (along_x ? 0 : along_y ? 2 : 4) + int(most > R(0));
  const int32_t* grid = c.hull + vertex_faces(c)[c.nvert];
  return grid[(side * kHullGrid + cell(u)) * kHullGrid + cell(w)];
}

template <class T>
FB_INLINE int face_size(const Convex<T>& c, int f) {
  if (c.type != kMesh) return c.type == kBox ? 4 : kRimMarks;
  const int32_t* start = face_starts(c) + f;
  return start[1] - start[0];
}
// corner j of face f, counter-clockwise from outside.  Box: faces 2 i and 2 i + 1 at the negative and
// the positive side of axis i; cylinder: the lower and the upper cap
template <class T>
FB_INLINE int face_corner(const Convex<T>& c, int f, int j) {
  if (c.type == kBox) {
    const int m = f >> 1, u = (m + 1) % 3, w = (m + 2) % 3, side = f & 1;
    const int first = (j == 1 || j == 2) ? 1 : 0, second = j >> 1;
    return side << m | (side ? first : second) << u | (side ? second : first) << w;
  }
  if (c.type == kCylinder)
    return f == 0 ? kFirstMark + kRimMarks - 1 - j : kFirstMark + kRimMarks + j;
  const int32_t* start = face_starts(c) + f;
  return c.hull[c.mirrored ? start[1] - 1 - j : start[0] + j];
}
// the three corners that carry the plane of a face
template <class T>
FB_INLINE void face_plane(const Convex<T>& c, int f, int* id) {
  const int n = face_size(c, f);
  for (int k = 0; k < 3; ++k) id[k] = face_corner(c, f, k * n / 3);
}
// its outward unit normal
template <class T>
FB_INLINE Vec3<T> face_normal(const Convex<T>& c, int f) {
  if (c.type == kBox) return (f & 1) ? column(c.R, f >> 1) : -column(c.R, f >> 1);
  if (c.type == kCylinder) return f == 1 ? column(c.R, 2) : -column(c.R, 2);
  int id[3];
  face_plane(c, f, id);
  const Vec3<T> x = local_corner(c, id[0]);
  const Vec3<T> m = cross(local_corner(c, id[1]) - x, local_corner(c, id[2]) - x);
  return mul(c.R, m * (T(1) / max(norm(m), T(Real<T>(1e-30)))));
}

// ---- farthest points of the core: all of the shape, but the centre of a sphere and the axis of a
// capsule

// id: number of the corner, -1 on a cylinder or ellipsoid
template <class R>
struct Support {
  Vec3<R> x;
  int id;
};

// the vertex of a hull that lies farthest along q (in the axes of the vertices): a walk to better neighbours
// ends at the farthest, since the hull is convex.  It begins at vertex `at`, or where the grid of directions
// has a better one
template <class R>
FB_INLINE int farthest_vertex(const Convex<R>& c, Vec3<R> q, int at) {
  const R* v = c.vert + kMeshFrame;
  const auto along = [&](int k) {
    return mul_add(q.x, v[3 * k], mul_add(q.y, v[3 * k + 1], q.z * v[3 * k + 2]));
  };
  const bool walks = hull_faces(c) > 0 && c.nvert > kScannedVertices;
  int best = walks ? at : 0;
  R most = along(best);
  if (walks) {
    const int begin = vertex_towards(c, q);
    const R here = along(begin);
    if (here > most) {
      most = here;
      best = begin;
    }
  } else {
    for (int k = 1; k < c.nvert; ++k) {
      const R here = along(k);
      if (here > most) {
        most = here;
        best = k;
      }
    }
    return best;
  }
  const int32_t* start = vertex_neighbours(c);
  for (int step = 0; step < c.nvert; ++step) {
    const int from = best;
    for (int e = start[from]; e < start[from + 1]; ++e) {
      const R here = along(c.hull[e]);
      if (here > most) {
        most = here;
        best = c.hull[e];
      }
    }
    if (best == from) break;
  }
  return best;
}

// (CV.1)  the farthest point of the core along d; at: the corner found last time
template <class R>
FB_FN Support<R> support_of(const Convex<R>& c, Vec3<R> d, int& at) {
  const Vec3<R> q = mul_transposed(c.R, d), s = c.size;
  int id = 0;
  Vec3<R> x = zero3<R>();
  if (c.type == kEllipsoid) {
    const Vec3<R> m = scaled(q, s);
    const R length = norm(m);
    x = scaled(m, s) * (length > R(0) ? R(1) / length : R(0));
    return {mul_add(c.R, x, c.p), -1};
  }
  if (c.type == kCylinder) {
    const R rho = sqrt(q.x * q.x + q.y * q.y);
    const bool aside = rho > abs(q.z) * R(kIsDouble<R> ? 1e-14 : 1e-6);
    const R k = aside ? s.x / rho : R(0);
    x = {aside ? q.x * k : s.x, q.y * k, q.z > R(0) ? s.y : -s.y};
    return {mul_add(c.R, x, c.p), -1};
  }
  if (c.type == kMesh)
    id = c.nvert <= 0 ? 0 : farthest_vertex(c, c.map.active ? q + mul(c.map.A, q) : q, at);
  if (c.type == kBox) id = int(q.x > R(0)) | int(q.y > R(0)) << 1 | int(q.z > R(0)) << 2;
  if (c.type == kCapsule) id = int(q.z > R(0));
  at = id;
  if (c.type == kMesh && c.nvert <= 0) return {c.p, 0};
  return {corner_of(c, id), id};
}

template <class T>
FB_INLINE bool is_curved(const Convex<T>& c) {
  return c.type == kEllipsoid || c.type == kCylinder;
}
// radius around the core
template <class T>
FB_INLINE T core_radius(const Convex<T>& c) {
  return c.type == kSphere || c.type == kCapsule ? c.size.x : T(0);
}
// about half the largest extent
template <class R>
FB_INLINE R extent_of(const Convex<R>& c) {
  if (c.type == kMesh) {
    R far = R(0);
    for (int k = 0; k < 8 && c.nvert > 0; ++k) {
      const Vec3<R> x = local_corner(c, k * (c.nvert - 1) / 7);
      far = max(far, dot(x, x));
    }
    return sqrt(far);
  }
  if (c.type == kSphere) return c.size.x;
  if (c.type == kCapsule) return c.size.x + c.size.y;
  if (c.type == kCylinder) return max(c.size.x, c.size.y);
  return max(c.size.x, max(c.size.y, c.size.z));
}

}  // namespace fb::FB_ISA
