// Poses, motion subspaces and velocities of all links, world-aligned,
// about each tree's root. Proof: docs/derivations/kinematics.md.
#pragma once
#include "core/model/derive.hpp"
#include "core/workspace.hpp"

namespace fb::FB_ISA {

// unit quaternion of a free or ball joint
template <class T>
struct Quat {
  T w, x, y, z;
};
template <class T>
FB_INLINE Quat<T> normalised(const T* q) {
  const T n = sqrt(q[0] * q[0] + q[1] * q[1] + q[2] * q[2] + q[3] * q[3]);
  const T i = T(1) / n;
  return {q[0] * i, q[1] * i, q[2] * i, q[3] * i};
}

// (K.1)  pose of link l from its parent's; (K.2) its motion subspace
template <class T, class P>
FB_INLINE void link_pose(const Model<T, P>& m, int l, const T* q, Work<T>& w) {
  const Layout& s = m.s;
  LinkWork<T>& k = w.link[l];
  const LinkWork<T>& parent = w.link[s.link_parent[l]];
  const int qa = s.link_qadr[l], type = s.link_type[l], tree = s.link_tree[l];
  const bool root = s.tree_link[tree] == l;
  Vec3<T> r = mul_add(parent.R, lift3<P>(m.derived.link_p + 3 * l), parent.r);
  if (type == kFree) {
    r = lift3<T>(q + qa);
    const Quat<T> u = normalised(q + qa + 3);
    k.R = rotation(u.w, u.x, u.y, u.z);
  } else {
    const Mat3<T> E = mul(parent.R, m.derived.link_R + 9 * l);
    if (type == kHinge) {
      T sn, cs;
      sincos(q[qa] - T(m.theta.qpos0[qa]), sn, cs);
#pragma GCC unroll 3
      for (int i = 0; i < 9; i += 3) {
        k.R.a[i] = dot2(E.a[i], cs, E.a[i + 1], sn);
        k.R.a[i + 1] = det2(E.a[i + 1], cs, E.a[i], sn);
        k.R.a[i + 2] = E.a[i + 2];
      }
    } else if (type == kSlide) {
      k.R = E;
      r += column(E, 2) * (q[qa] - T(m.theta.qpos0[qa]));
    } else {
      const Quat<T> u = normalised(q + qa);
      k.R = mul(E, rotation(u.w, u.x, u.y, u.z).a);
    }
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
template <class T>
FB_INLINE void add3(Vec3<T> x, T* out) {
  out[0] += x.x;
  out[1] += x.y;
  out[2] += x.z;
}
// (K.6)  from the wrench on a link's place (its subtree's, about the tree's origin) to its
// placement in the link below and to the joint's reference
template <class T, class P>
FB_FN void link_pose_adjoint(const Model<T, P>& m, int l, const T* q, Work<T>& w) {
  const Layout& s = m.s;
  const int type = s.link_type[l], qa = s.link_qadr[l];
  if (type == kFree) return;
  const LinkWork<T>&k = w.link[l], &parent = w.link[s.link_parent[l]];
  const Force<T> f = w.bar[l].pose;
  // a slide turns about the point it starts from
  Vec3<T> pivot = k.r;
  if (type == kSlide) pivot -= column(k.R, 2) * (q[qa] - T(m.theta.qpos0[qa]));
  add3(mul_transposed(parent.R, f.lin), w.derived_bar->link_p + 3 * l);
  add_rotation_bar(mul_transposed(parent.R, f.ang - cross(pivot, f.lin)), m.derived.link_R + 9 * l,
                   w.derived_bar->link_R + 9 * l);
  if (type != kBall) w.theta_bar->qpos0[qa] -= dot(w.dof[s.link_dof[l]].S, f);
}

template <class T, class P>
FB_INLINE void link_subspace(const Model<T, P>& m, int l, Work<T>& w) {
  const LinkWork<T>& k = w.link[l];
  DofWork<T>* d = w.dof + m.s.link_dof[l];
  const int type = m.s.link_type[l];
  if (type == kHinge || type == kSlide) {
    const Vec3<T> axis = column(k.R, 2);
    d[0].S = type == kHinge ? Motion<T>{axis, cross(k.r, axis)} : Motion<T>{zero3<T>(), axis};
    return;
  }
  if (type == kFree) {
    const T o = T(0), i = T(1);
    d[0].S = {zero3<T>(), {i, o, o}};
    d[1].S = {zero3<T>(), {o, i, o}};
    d[2].S = {zero3<T>(), {o, o, i}};
    d += 3;
  }
  for (int i = 0; i < 3; ++i) {
    const Vec3<T> axis = column(k.R, i);
    d[i].S = {axis, cross(k.r, axis)};
  }
}

// (K.3)  v = v_parent + S v;  (K.4)  c = v_parent x (S v), and for a free joint (0, v_lin) x (S v)
template <class T, class P>
FB_INLINE void link_velocity(const Model<T, P>& m, int l, const T* v, Work<T>& w) {
  const Layout& s = m.s;
  LinkWork<T>& k = w.link[l];
  const Motion<T> parent = w.link[s.link_parent[l]].v;
  const DofWork<T>* d = w.dof + s.link_dof[l];
  const T* vd = v + s.link_dof[l];
  const int type = s.link_type[l];
  if (type == kFree) {
    const Motion<T> lin{zero3<T>(), {vd[0], vd[1], vd[2]}};
    const Motion<T> ang = mul_add(d[3].S, vd[3], mul_add(d[4].S, vd[4], d[5].S * vd[5]));
    k.v = lin + ang;
    k.c = cross(lin, ang);
    return;
  }
  Motion<T> vj = d[0].S * vd[0];
  if (type == kBall) vj = mul_add(d[1].S, vd[1], mul_add(d[2].S, vd[2], vj));
  k.v = parent + vj;
  k.c = cross(parent, vj);
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
    link_pose(m, l, q, w);
    link_subspace(m, l, w);
    link_velocity(m, l, v, w);
  }
}

// origin of the tree that carries link l; the world's own origin for link 0
template <class T>
FB_INLINE Vec3<T> origin_of(const Layout& s, const Work<T>& w, int l) {
  return w.origin[l == 0 ? s.ntree : s.link_tree[l]];
}

// rotation vector of a unit quaternion: the shorter
// way round, smooth at zero, (0, 0, 0) at the identity
template <class T>
FB_INLINE Vec3<T> log_quat(Quat<T> u) {
  using R = Real<T>;
  const T flip = select(u.w < T(0), T(-1), T(1));
  const Vec3<T> v = Vec3<T>{u.x, u.y, u.z} * flip;
  const T w = u.w * flip;
  const T n2 = dot(v, v);
  const Mask<T> small = n2 < T(R(1e-8));
  const T n = sqrt(select(small, T(1), n2));
  const T series = (T(2) - n2 * R(2.0 / 3.0) / (w * w)) / w;
  return v * select(small, series, atan2_upper(n, w) * R(2) / n);
}
// (K.8)  cotangent of a rotation vector e as one of a small turn: J' e_bar = e_bar + side e x e_bar
// / 2 + k e x (e x e_bar) with k = (1 - (a/2) cot(a/2)) / a^2; side -1 for a turn on the right
// (body axes), +1 on the left (world axes)
template <class T>
FB_FN Vec3<T> log_adjoint(Vec3<T> e, Vec3<T> e_bar, int side) {
  using R = Real<T>;
  const T a2 = dot(e, e);
  const Mask<T> small = a2 < T(R(1e-4));
  const T half = sqrt(select(small, T(1), a2)) * R(0.5);
  T s, c;
  sincos(half, s, c);
  const T series = T(R(1.0 / 12.0)) + a2 * R(1.0 / 720.0) + a2 * a2 * R(1.0 / 30240.0);
  const T k = select(small, series, (T(1) - half * c / s) / select(small, T(1), a2));
  const Vec3<T> x = cross(e, e_bar);
  return e_bar + x * R(0.5 * side) + cross(e, x) * k;
}
// ambient cotangent of an unnormalised quaternion that pairs as t does with a turn in body axes
template <class T, class P>
FB_INLINE void add_quat_bar(const P* quat, Vec3<T> t, T* quat_bar) {
  const T x[4] = {T(quat[0]), T(quat[1]), T(quat[2]), T(quat[3])};
  const T f = T(2) / sqrt(x[0] * x[0] + x[1] * x[1] + x[2] * x[2] + x[3] * x[3]);
  const Quat<T> g = mul(normalised(x), Quat<T>{T(0), t.x, t.y, t.z});
  quat_bar[0] += g.w * f;
  quat_bar[1] += g.x * f;
  quat_bar[2] += g.y * f;
  quat_bar[3] += g.z * f;
}
template <class T>
FB_INLINE Quat<T> mul(Quat<T> a, Quat<T> b) {
  return {
      a.w * b.w - a.x * b.x - a.y * b.y - a.z * b.z, a.w * b.x + a.x * b.w + a.y * b.z - a.z * b.y,
      a.w * b.y - a.x * b.z + a.y * b.w + a.z * b.x, a.w * b.z + a.x * b.y - a.y * b.x + a.z * b.w};
}
template <class T>
FB_INLINE Quat<T> conj(Quat<T> a) {
  return {a.w, -a.x, -a.y, -a.z};
}

}  // namespace fb::FB_ISA
