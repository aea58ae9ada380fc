// Hull vertices of a mesh under a change of its scale.  Proof: docs/derivations/mesh.md.
#pragma once
#include "core/dynamics/spatial.hpp"
#include "core/number/dual.hpp"

namespace fb::FB_ISA {

// numbers before the vertices of a mesh: rotation (by rows) and place of its own frame in the
// file's axes, and the scale it was compiled with; constants, never differentiated
inline constexpr int kMeshFrame = 15;

// (H.1)  f = scale / compiled scale - 1 along the file's axes; exactly zero for a mesh as compiled
template <class T, class P>
FB_INLINE Vec3<T> mesh_stretch(const Real<T>* mesh, const P* scale) {
  const Real<T>* s0 = mesh + 12;
  return {T(scale[0]) / T(s0[0]) - T(1), T(scale[1]) / T(s0[1]) - T(1),
          T(scale[2]) / T(s0[2]) - T(1)};
}

// (H.2)  x = v + A v + b with A = R' f R, b = R' f p; it is left out where nothing is stretched,
// unless a tangent may hide behind the zero
template <class T>
struct MeshMap {
  Mat3<T> A;
  Vec3<T> b;
  bool active;
};
template <class T>
FB_INLINE MeshMap<T> mesh_map(const Real<T>* mesh, Vec3<T> f) {
  const T o = T(0);
  MeshMap<T> map{{{o, o, o, o, o, o, o, o, o}}, {o, o, o}, false};
  map.active = kTangent<T> || any(!((f.x == o) & (f.y == o) & (f.z == o)));
  if (!map.active) return map;
  const Real<T>*R = mesh, *p = mesh + 9;
  const T g[3] = {f.x, f.y, f.z};
  T b[3];
  for (int r = 0; r < 3; ++r) {
    for (int c = 0; c < 3; ++c)
      map.A.a[3 * r + c] =
          g[0] * (R[r] * R[c]) + g[1] * (R[3 + r] * R[3 + c]) + g[2] * (R[6 + r] * R[6 + c]);
    b[r] = g[0] * (R[r] * p[0]) + g[1] * (R[3 + r] * p[1]) + g[2] * (R[6 + r] * p[2]);
  }
  map.b = {b[0], b[1], b[2]};
  return map;
}
template <class T>
FB_INLINE Vec3<T> mesh_vertex(const MeshMap<T>& map, Vec3<T> v) {
  return map.active ? v + mul_add(map.A, v, map.b) : v;
}
template <class T>
FB_INLINE Vec3<T> mesh_vertex(const Real<T>* mesh, const MeshMap<T>& map, int k) {
  return mesh_vertex(map, lift3<T>(mesh + kMeshFrame + 3 * k));
}
// (H.3)  given the cotangent of a vertex x, add to that of f: R x_bar times the place in the file
// before the stretch, (R x + p) / (1 + f)
template <class T>
FB_INLINE void mesh_vertex_adjoint(const Real<T>* mesh, Vec3<T> f, Vec3<T> x, Vec3<T> x_bar,
                                   Vec3<T>& f_bar) {
  const Real<T>*R = mesh, *p = mesh + 9;
  const T o = T(1);
  const auto along = [&](int r, Vec3<T> y) {
    return dot3(T(R[r]), T(R[r + 1]), T(R[r + 2]), y.x, y.y, y.z);
  };
  f_bar += Vec3<T>{along(0, x_bar) * (along(0, x) + T(p[0])) / (o + f.x),
                   along(3, x_bar) * (along(3, x) + T(p[1])) / (o + f.y),
                   along(6, x_bar) * (along(6, x) + T(p[2])) / (o + f.z)};
}

}  // namespace fb::FB_ISA
