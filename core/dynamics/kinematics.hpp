// Poses, motion subspaces and velocities of all links, world-aligned,
// about each tree's root. Proof: docs/derivations/kinematics.md.
#pragma once
#include "core/model/derive.hpp"
#include "core/workspace.hpp"

namespace fb::FB_ISA {

// (K.1)  pose of link l from its parent's
template <class J, class T, class P>
FB_INLINE void link_pose(const Model<T, P>& m, int l, const T* q, Work<T>& w) {
  const Layout& s = m.s;
  LinkWork<T>& k = w.link[l];
  const LinkWork<T>& parent = w.link[s.link_parent[l]];
  const int qa = s.link_qadr[l], tree = s.link_tree[l];
  const bool root = s.tree_link[tree] == l;
  Vec3<T> r;
  if constexpr (J::placed) {
    r = mul_add(parent.R, lift3<P>(m.derived.link_p + 3 * l), parent.r);
    const Mat3<T> E = mul(parent.R, m.derived.link_R + 9 * l);
    J::pose(E, q + qa, m.theta.qpos0 + qa, k.R, r);
  } else {
    J::pose(q + qa, m.theta.qpos0 + qa, k.R, r);
  }
  if (root) w.origin[tree] = r;
  k.r = root ? zero3<T>() : r;
}

// cotangent of a rotation matrix R that pairs with t as [x] R does with t . x
template <class T, class P>
FB_INLINE void add_rotation_bar(Vec3<T> t, const P* R, T* R_bar) {
  const Real<T> h(0.5);
  for (int c = 0; c < 3; ++c) {
    const Vec3<T> g = cross(t, Vec3<T>{T(R[c]), T(R[3 + c]), T(R[6 + c])}) * h;
    R_bar[c] += g.x;
    R_bar[3 + c] += g.y;
    R_bar[6 + c] += g.z;
  }
}
// (K.6)  from the wrench on a link's place (its subtree's, about the tree's origin) to its
// placement in the link below and to the joint's reference
template <class J, class T, class P>
FB_INLINE void placement_adjoint(const Model<T, P>& m, int l, const T* q, Work<T>& w) {
  const Layout& s = m.s;
  const int qa = s.link_qadr[l];
  const LinkWork<T>&k = w.link[l], &parent = w.link[s.link_parent[l]];
  const Force<T> f = w.bar[l].pose;
  const Vec3<T> pivot = J::pivot(k.R, k.r, q + qa, m.theta.qpos0 + qa);
  add3(mul_transposed(parent.R, f.lin), w.derived_bar->link_p + 3 * l);
  add_rotation_bar(mul_transposed(parent.R, f.ang - cross(pivot, f.lin)), m.derived.link_R + 9 * l,
                   w.derived_bar->link_R + 9 * l);
  for (int i = 0; i < J::adds; ++i)
    w.theta_bar->qpos0[qa + i] -= dot(w.dof[s.link_dof[l] + i].S, f);
}
template <class T, class P>
FB_FN void link_pose_adjoint(const Model<T, P>& m, int l, const T* q, Work<T>& w) {
  with_joint(m.s.link_type[l], [&](auto joint) {
    using J = decltype(joint);
    if constexpr (J::placed) placement_adjoint<J>(m, l, q, w);
  });
}

// add to the six numbers of an inertia's cotangent that pairs as a . I b
template <class T>
FB_INLINE void add_inertia_pair(Vec3<T> a, Vec3<T> b, T* out) {
  out[0] += a.x * b.x;
  out[1] += a.y * b.y;
  out[2] += a.z * b.z;
  out[3] += a.x * b.y + a.y * b.x;
  out[4] += a.x * b.z + a.z * b.x;
  out[5] += a.y * b.z + a.z * b.y;
}
// (K.5)  rigid inertia of link l in world axes about the tree's origin
template <class T, class P>
FB_INLINE void link_inertia(const Model<T, P>& m, int l, Work<T>& w) {
  LinkWork<T>& k = w.link[l];
  k.I.mass = T(m.derived.link_mass[l]);
  k.I.com = mul_add(k.R, lift3<P>(m.derived.link_com + 3 * l), k.r);
  k.I.Ic = rotate(k.R, m.derived.link_I + 6 * l);
}

// (K.7)  from the cotangent of the ten numbers about the tree's origin to mass, centre and inertia
// in the link; the place is not part
template <class T, class P>
FB_FN void link_inertia_adjoint(const Model<T, P>&, int l, const InertiaBar<T>& I_bar, Work<T>& w) {
  const LinkWork<T>& k = w.link[l];
  const Real<T> h(0.5);
  const Sym3<T> b = I_bar.Io;
  const T B[6] = {b.xx, b.yy, b.zz, b.xy * h, b.xz * h, b.yz * h};
  const Vec3<T> c = k.I.com;
  const Vec3<T> g = c * (b.xx + b.yy + b.zz) - mul(Sym3<T>{B[0], B[1], B[2], B[3], B[4], B[5]}, c);
  w.derived_bar->link_mass[l] += I_bar.mass + dot(I_bar.mc, c) + dot(c, g);
  add3(mul_transposed(k.R, (I_bar.mc + g * Real<T>(2)) * k.I.mass),
       w.derived_bar->link_com + 3 * l);
  Mat3<T> Rt;
  for (int r = 0; r < 3; ++r)
    for (int e = 0; e < 3; ++e) Rt.a[3 * r + e] = k.R.a[3 * e + r];
  const Sym3<T> J = rotate(Rt, B);
  T* out = w.derived_bar->link_I + 6 * l;
  out[0] += J.xx;
  out[1] += J.yy;
  out[2] += J.zz;
  out[3] += J.xy * Real<T>(2);
  out[4] += J.xz * Real<T>(2);
  out[5] += J.yz * Real<T>(2);
}

template <class T>
FB_INLINE void world_link(Work<T>& w) {
  w.link[0].R = identity3<T>();
  w.link[0].r = zero3<T>();
  w.link[0].v = zero_motion<T>();
  w.link[0].v_free = zero_motion<T>();
}

template <class T, class P>
FB_FN void kinematics(const Model<T, P>& m, const T* q, const T* v, Work<T>& w) {
  world_link(w);
  w.origin[m.s.ntree] = zero3<T>();
  for (int l = 1; l < m.s.nlink; ++l) {
    // (K.2)  motion subspace, (K.3) twist and (K.4) its velocity product
    with_joint(m.s.link_type[l], [&](auto joint) {
      using J = decltype(joint);
      const int first = m.s.link_dof[l];
      LinkWork<T>& k = w.link[l];
      link_pose<J>(m, l, q, w);
      J::axes(k.R, k.r, w.dof + first);
      J::twist(w.dof + first, v + first, w.link[m.s.link_parent[l]].v, k.v, k.c);
    });
  }
}

// origin of the tree that carries link l; the world's own origin for link 0
template <class T>
FB_INLINE Vec3<T> origin_of(const Layout& s, const Work<T>& w, int l) {
  return w.origin[l == 0 ? s.ntree : s.link_tree[l]];
}

}  // namespace fb::FB_ISA
