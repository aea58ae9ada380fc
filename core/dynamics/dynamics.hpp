// Articulated-body dynamics one degree of freedom at a time, inverse
// dynamics, and their adjoints. Proof: docs/derivations/dynamics.md.
#pragma once
#include "core/dynamics/kinematics.hpp"

namespace fb::FB_ISA {

// (D.1)  f = I a + v x* (I v)
template <class T>
FB_INLINE Force<T> newton_euler(const Inertia<T>& I, Motion<T> v, Motion<T> a) {
  return I * a + cross(v, I * v);
}
// (D.2)  given f_bar, add to v_bar and a_bar, and to I_bar
template <class T>
FB_INLINE void newton_euler_fields_adjoint(const Inertia<T>& I, Motion<T> v, Motion<T> f_bar,
                                           Force<T>& v_bar, Force<T>& a_bar) {
  const Motion<T> h_bar = cross(f_bar, v);  // m . (v x* h) = -(v x m) . h
  a_bar += I * f_bar;                       // I is symmetric
  v_bar += I * h_bar - cross(f_bar, I * v);
}
template <class T>
FB_INLINE void newton_euler_inertia_adjoint(Motion<T> v, Motion<T> a, Motion<T> f_bar,
                                            InertiaBar<T>& I_bar) {
  add_pairing(I_bar, f_bar, a);
  add_pairing(I_bar, cross(f_bar, v), v);
}
template <class T>
FB_INLINE void newton_euler_adjoint(const Inertia<T>& I, Motion<T> v, Motion<T> a, Motion<T> f_bar,
                                    InertiaBar<T>& I_bar, Force<T>& v_bar, Force<T>& a_bar) {
  newton_euler_fields_adjoint(I, v, f_bar, v_bar, a_bar);
  newton_euler_inertia_adjoint(v, a, f_bar, I_bar);
}

// the world accelerates upwards: gravity enters as the root's acceleration
template <class T, class P>
FB_INLINE Motion<T> gravity_acceleration(const Model<T, P>& m) {
  const P* g = m.theta.gravity;
  return {zero3<T>(), {-T(g[0]), -T(g[1]), -T(g[2])}};
}

// centre of mass of a body, relative to its tree's origin
template <class T, class P>
FB_INLINE Vec3<T> body_centre(const Model<T, P>& m, int body, const Work<T>& w) {
  const LinkWork<T>& k = w.link[m.s.body_link[body]];
  const Mat3<T> R = mul(k.R, m.derived.body_R + 9 * body);
  const Vec3<T> p = mul_add(k.R, lift3<P>(m.derived.body_p + 3 * body), k.r);
  return mul_add(R, lift3<P>(m.theta.body_ipos + 3 * body), p);
}
// given its cotangent, add to the place of the link and to the body's frame and centre
template <class T, class P>
FB_FN void body_centre_adjoint(const Model<T, P>& m, int body, Vec3<T> c, Vec3<T> c_bar,
                               Work<T>& w) {
  const int l = m.s.body_link[body];
  w.bar[l].pose += Force<T>{cross(c, c_bar), c_bar};
  if (!w.theta_bar) return;
  const Vec3<T> p_bar = mul_transposed(w.link[l].R, c_bar);
  const P *R = m.derived.body_R + 9 * body, *ipos = m.theta.body_ipos + 3 * body;
  const T g[3] = {p_bar.x, p_bar.y, p_bar.z};
  add3(p_bar, w.derived_bar->body_p + 3 * body);
  for (int r = 0; r < 3; ++r)
    for (int e = 0; e < 3; ++e) {
      w.derived_bar->body_R[9 * body + 3 * r + e] += g[r] * ipos[e];
      w.theta_bar->body_ipos[3 * body + e] += g[r] * R[3 * r + e];
    }
}
// axes of a body's inertia in the world
template <class T, class P>
FB_INLINE Mat3<T> inertia_axes(const Model<T, P>& m, int body, const Work<T>& w) {
  const Mat3<P> own = rotation_of(m.theta.body_iquat + 4 * body);
  return mul(mul(w.link[m.s.body_link[body]].R, m.derived.body_R + 9 * body), own.a);
}
// given the cotangent of their turn, add to the place of the link, to the body's frame and to the
// axes in it
template <class T, class P>
FB_FN void inertia_axes_adjoint(const Model<T, P>& m, int body, Vec3<T> turn_bar, Work<T>& w) {
  const int l = m.s.body_link[body];
  w.bar[l].pose.ang += turn_bar;
  if (!w.theta_bar) return;
  const Vec3<T> turn = mul_transposed(w.link[l].R, turn_bar);
  const P *R = m.derived.body_R + 9 * body, *quat = m.theta.body_iquat + 4 * body;
  add_rotation_bar(turn, R, w.derived_bar->body_R + 9 * body);
  // the turn seen from the body, which its inertia's axes make
  const T x[3] = {turn.x, turn.y, turn.z}, q[4] = {T(quat[0]), T(quat[1]), T(quat[2]), T(quat[3])};
  Vec3<T> own = zero3<T>();
  for (int r = 0; r < 3; ++r) own += lift3<T>(R + 3 * r) * x[r];
  Mat3<T> axes_bar;
  for (T& y : axes_bar.a) y = T(0);
  add_rotation_bar(own, rotation_of(q).a, axes_bar.a);
  rotation_of_adjoint(q, axes_bar, w.theta_bar->body_iquat + 4 * body);
}
// (D.14)  wrenches applied to bodies (force, torque at
// the centre of mass, in the world) summed on their links
template <class T, class P>
FB_FN void applied_wrenches(const Model<T, P>& m, Work<T>& w) {
  const Layout& s = m.s;
  for (int l = 0; l < s.nlink; ++l) w.ext[l] = zero_force<T>();
  for (int b = 1; b < s.nbody; ++b) {
    const P* x = m.theta.xfrc_applied + 6 * b;
    const Vec3<T> f = lift3<T>(x);
    w.ext[s.body_link[b]] += Force<T>{lift3<T>(x + 3) + cross(body_centre(m, b, w), f), f};
  }
}
// (D.15)  what they add to scale <w, ext>: to w_bar and the place of each link, to the wrenches,
// and to where they act
template <class T, class P>
FB_FN void applied_wrenches_adjoint(const Model<T, P>& m, T scale, Work<T>& w) {
  const Layout& s = m.s;
  for (int b = 1; b < s.nbody; ++b) {
    const int l = s.body_link[b];
    if (l == 0) continue;
    LinkBar<T>& bar = w.bar[l];
    const P* x = m.theta.xfrc_applied + 6 * b;
    const Vec3<T> f = lift3<T>(x), c = body_centre(m, b, w);
    bar.w_bar = mul_add(Force<T>{lift3<T>(x + 3) + cross(c, f), f}, scale, bar.w_bar);
    body_centre_adjoint(m, b, c, cross(f, bar.w.ang) * scale, w);
    if (!w.theta_bar) continue;
    T* out = w.theta_bar->xfrc_applied + 6 * b;
    add3((bar.w.lin + cross(bar.w.ang, c)) * scale, out);
    add3(bar.w.ang * scale, out + 3);
  }
}

// one axis of the world's x, y, z that a free joint moves along, the last of its dofs to be
// eliminated: U = IA S is a column, and nothing below asks for its angular part
template <int I, class T>
FB_INLINE Vec3<T> column(const Sym3<T>& A) {
  if constexpr (I == 0) return {A.xx, A.xy, A.xz};
  if constexpr (I == 1) return {A.xy, A.yy, A.yz};
  return {A.xz, A.yz, A.zz};
}
template <int I, class T>
FB_INLINE T& part(Vec3<T>& v) {
  return I == 0 ? v.x : I == 1 ? v.y : v.z;
}
template <int I, class T>
FB_INLINE void articulate_axis(int d, const T* tau, Sym3<T>& M, Vec3<T>& p, Work<T>& w) {
  DofWork<T>& e = w.dof[d];
  Vec3<T> U = column<I>(M);
  e.U = {zero3<T>(), U};
  e.Dinv = T(1) / (part<I>(U) + w.hD[d]);
  w.qdd[d] = tau[d] - part<I>(p);
  const Vec3<T> K = U * e.Dinv;
  p = mul_add(K, w.qdd[d], p);
  subtract_outer(M, U, K);
}

// (D.3)  leaves to root: U = IA S, D = S'U + hD, u = tau - S'p, then the body below feels IA - U
// U'/D and p + IA c + U u/D; u in w.qdd
template <class T, class P>
FB_INLINE void articulate_link(const Model<T, P>& m, int l, const T* tau, Work<T>& w) {
  const Layout& s = m.s;
  LinkWork<T>& k = w.link[l];
  const int parent = s.link_parent[l], first = s.link_dof[l];
  const int fixed = world_axes(s.link_type[l]);
  link_inertia(m, l, w);
  Force<T> p = cross(k.v, k.I * k.v);
  Sym6<T> IA = dense(k.I);
  if (m.applied) p -= w.ext[l];
  // what the links above have handed down
  if (w.has_child_inertia[l]) {
    add(IA, k.IA);
    p += k.p;
  }
  for (int d = first + s.link_ndof[l] - 1; d >= first + fixed; --d) {
    DofWork<T>& e = w.dof[d];
    e.U = IA * e.S;
    e.Dinv = T(1) / (dot(e.S, e.U) + w.hD[d]);
    w.qdd[d] = tau[d] - dot(e.S, p);
    const Force<T> K = e.U * e.Dinv;
    p = mul_add(K, w.qdd[d], p);
    // a root on the world leaves nothing to pass on after its first dof
    if (d > first || parent > 0) subtract_outer(IA, e.U, K);
  }
  if (fixed) {
    articulate_axis<2>(first + 2, tau, IA.M, p.lin, w);
    articulate_axis<1>(first + 1, tau, IA.M, p.lin, w);
    articulate_axis<0>(first, tau, IA.M, p.lin, w);
  }
  if (parent == 0) return;
  LinkWork<T>& j = w.link[parent];
  p += IA * k.c;
  if (w.has_child_inertia[parent]) {
    j.p += p;
    add(j.IA, IA);
  } else {
    j.p = p;
    j.IA = IA;
    w.has_child_inertia[parent] = 1;
  }
}

// one axis of a free joint in the second half of a solve: only linear parts meet there
template <int I, class T>
FB_INLINE void expand_axis(const DofWork<T>& e, T& x, Vec3<T>& V) {
  x = (x - dot(V, e.U.lin)) * e.Dinv;
  part<I>(V) += x;
}
// x = (x - U'V) / D, V += S x over the dofs of a link, from the root's side on
template <class T>
FB_INLINE void expand_link(const Layout& s, const Work<T>& w, int l, T* x, Motion<T>& V) {
  int d = s.link_dof[l];
  const int last = d + s.link_ndof[l];
  if (world_axes(s.link_type[l])) {
    expand_axis<0>(w.dof[d], x[d], V.lin);
    expand_axis<1>(w.dof[d + 1], x[d + 1], V.lin);
    expand_axis<2>(w.dof[d + 2], x[d + 2], V.lin);
    d += 3;
  }
  for (; d < last; ++d) {
    const DofWork<T>& e = w.dof[d];
    x[d] = (x[d] - dot(V, e.U)) * e.Dinv;
    V = mul_add(e.S, x[d], V);
  }
}

// Mh qdd + c(q, v) = tau, and the factorisation (U, Dinv) that later solves use
template <class T, class P>
FB_FN void articulated_body(const Model<T, P>& m, const T* tau, Work<T>& w) {
  if (m.applied) applied_wrenches(m, w);
  for (int l = 0; l < m.s.nlink; ++l) w.has_child_inertia[l] = 0;
  for (int l = m.s.nlink - 1; l > 0; --l) articulate_link(m, l, tau, w);
  // (D.4)  root to leaves: qdd = (u - U'a) / D, a += S qdd
  w.link[0].a = gravity_acceleration<T>(m);
  for (int l = 1; l < m.s.nlink; ++l) {
    Motion<T> a = w.link[m.s.link_parent[l]].a + w.link[l].c;
    expand_link(m.s, w, l, w.qdd, a);
    w.link[l].a = a;
  }
}

// (D.5)  Mh x = f with the factorisation: force sweep
// down, motion sweep up; f and x may be the same array
template <class T>
FB_FN void solve_inertia(const Layout& s, const Work<T>& w, const T* f, T* x, Force<T>* F,
                         Motion<T>* V) {
  reduce_force(s, w, f, x, F);
  expand_solution(s, w, x, V);
}
// the first half: x = L^-1 f
template <class T>
FB_FN void reduce_force(const Layout& s, const Work<T>& w, const T* f, T* x, Force<T>* F) {
  for (int l = 0; l < s.nlink; ++l) F[l] = zero_force<T>();
  for (int l = s.nlink - 1; l > 0; --l) {
    const int first = s.link_dof[l];
    const int fixed = world_axes(s.link_type[l]);
    Force<T> sum = F[l];
    for (int d = first + s.link_ndof[l] - 1; d >= first + fixed; --d) {
      const DofWork<T>& e = w.dof[d];
      x[d] = f[d] - dot(e.S, sum);
      sum = mul_add(e.U, x[d] * e.Dinv, sum);
    }
    if (fixed) {
      reduce_axis<2>(w.dof[first + 2], f[first + 2], x[first + 2], sum.lin);
      reduce_axis<1>(w.dof[first + 1], f[first + 1], x[first + 1], sum.lin);
      reduce_axis<0>(w.dof[first], f[first], x[first], sum.lin);
    }
    if (s.link_parent[l] > 0) F[s.link_parent[l]] += sum;
  }
}
// the same in the first half
template <int I, class T>
FB_INLINE void reduce_axis(const DofWork<T>& e, T f, T& x, Vec3<T>& F) {
  x = f - part<I>(F);
  F = mul_add(e.U.lin, x * e.Dinv, F);
}
// (D.6)  the second half: from u = L^-1 f to x = L^-T D^-1 u, in place; V receives the twists S x
// of all links
template <class T>
FB_FN void expand_solution(const Layout& s, const Work<T>& w, T* x, Motion<T>* V) {
  V[0] = zero_motion<T>();
  for (int l = 1; l < s.nlink; ++l) {
    Motion<T> a = V[s.link_parent[l]];
    expand_link(s, w, l, x, a);
    V[l] = a;
  }
}

// twists S x of all links for joint rates x
template <class T>
FB_FN void link_twists(const Layout& s, const Work<T>& w, const T* x, Motion<T>* V) {
  V[0] = zero_motion<T>();
  for (int l = 1; l < s.nlink; ++l) {
    Motion<T> a = V[s.link_parent[l]];
    const int first = s.link_dof[l];
    for (int d = first; d < first + s.link_ndof[l]; ++d) a = mul_add(w.dof[d].S, x[d], a);
    V[l] = a;
  }
}

// (D.7)  tau = RNEA(q, v, a) + armature a, with kinematics and inertias in w; F is scratch of nlink
template <class T, class P>
FB_FN void inverse_dynamics(const Model<T, P>& m, const T* a, T* tau, Work<T>& w, Force<T>* F) {
  const Layout& s = m.s;
  w.link[0].a = gravity_acceleration<T>(m);
  F[0] = zero_force<T>();
  for (int l = 1; l < s.nlink; ++l) {
    LinkWork<T>& k = w.link[l];
    link_inertia(m, l, w);
    k.a = w.link[s.link_parent[l]].a + k.c;
    const int first = s.link_dof[l];
    for (int d = first; d < first + s.link_ndof[l]; ++d) k.a = mul_add(w.dof[d].S, a[d], k.a);
    F[l] = newton_euler(k.I, k.v, k.a);
  }
  for (int l = s.nlink - 1; l > 0; --l) {
    const int first = s.link_dof[l];
    for (int d = first; d < first + s.link_ndof[l]; ++d)
      tau[d] = dot(w.dof[d].S, F[l]) + a[d] * m.theta.dof_armature[d];
    F[s.link_parent[l]] += F[l];
  }
}

// (D.10)  cotangent of one link's place, own part: inertia moves by a twist x, so <w, f> changes by
// the fields moved by -x
template <class T>
FB_INLINE Force<T> inertia_pose_bar(const LinkWork<T>& k, Motion<T> w, Force<T> w_bar,
                                    Force<T> v_bar, Force<T> a_bar) {
  return -(cross(w, w_bar) + cross(k.v, v_bar) + cross(k.a, a_bar));
}

// twists of link l for the paired rates w and for y, and its acceleration at a, from those of its parent
template <class T>
FB_INLINE void open_link_fields(const Layout& s, int l, const T* rate_w, const T* y, const T* a,
                                Work<T>& w) {
  LinkWork<T>& k = w.link[l];
  LinkBar<T>& b = w.bar[l];
  const int parent = s.link_parent[l], first = s.link_dof[l];
  b.w = w.bar[parent].w;
  b.y = w.bar[parent].y;
  k.a = w.link[parent].a + k.c;
  for (int d = first; d < first + s.link_ndof[l]; ++d) {
    const Motion<T> S = w.dof[d].S;
    b.w = mul_add(S, rate_w[d], b.w);
    b.y = mul_add(S, y[d], b.y);
    k.a = mul_add(S, a[d], k.a);
  }
}
// own bars of one link from scale * <w, RNEA>: sets w_bar, v_bar, a_bar, pose; y_bar becomes zero
template <class T, class P>
FB_INLINE void link_force_adjoint(const Model<T, P>& m, int l, T scale, Work<T>& w) {
  const LinkWork<T>& k = w.link[l];
  LinkBar<T>& b = w.bar[l];
  const Motion<T> f_bar = b.w * scale;
  Force<T> v_bar = zero_force<T>(), a_bar = v_bar;
  newton_euler_fields_adjoint(k.I, k.v, f_bar, v_bar, a_bar);
  b.w_bar = newton_euler(k.I, k.v, k.a) * scale;
  b.y_bar = zero_force<T>();
  b.v_bar = v_bar;
  b.a_bar = a_bar;
  b.pose = inertia_pose_bar(k, b.w, b.w_bar, v_bar, a_bar);
  if (!w.derived_bar) return;
  InertiaBar<T> I_bar{T(0), zero3<T>(), {T(0), T(0), T(0), T(0), T(0), T(0)}};
  newton_euler_inertia_adjoint(k.v, k.a, f_bar, I_bar);
  link_inertia_adjoint(m, l, I_bar, w);
}

// rates that the axes of all dofs carry: velocities, accelerations, those paired with the equation of
// motion and, unless null, new velocities
template <class T>
struct TreeRates {
  const T *v, *a, *w, *y;
};
// (D.11)  the axis of dof d, which rides on its link, carries w, y, v and a
template <class T>
FB_INLINE void axis_adjoint(Motion<T> S, const TreeRates<T>& x, int d, Force<T> joint_bar,
                            LinkBar<T>& b) {
  const T y = x.y ? x.y[d] : T(0);
  const Force<T> S_bar =
      mul_add(b.w_bar, x.w[d], mul_add(b.y_bar, y, mul_add(b.a_bar, x.a[d], joint_bar * x.v[d])));
  b.pose += cross(S, S_bar);
}

// (D.12)  leaves to root: bars of the fields through w_l = w_p + S w and so on; adds to q_bar
// (tangent, nv) and v_bar
template <class T, class P>
FB_FN void tree_adjoint(const Model<T, P>& m, const TreeRates<T>& x, Work<T>& w, T* q_bar,
                        T* v_bar) {
  const Layout& s = m.s;
  for (int l = s.nlink - 1; l > 0; --l) {
    LinkBar<T>& b = w.bar[l];
    const int first = s.link_dof[l], last = first + s.link_ndof[l], parent = s.link_parent[l];
    TwistBars<T> bars{b.v_bar, b.v_bar, b.v_bar};
    with_joint(s.link_type[l], [&](auto joint) {
      joint.twist_adjoint(x.v + first, w.link[l].v, w.link[parent].v, b.a_bar, bars);
    });
    const int riding = first + world_axes(s.link_type[l]);
    for (int d = first; d < riding; ++d) v_bar[d] += dot(w.dof[d].S, bars.fixed);
    for (int d = riding; d < last; ++d) {
      v_bar[d] += dot(w.dof[d].S, bars.riding);
      axis_adjoint(w.dof[d].S, x, d, bars.riding, b);
    }
    for (int d = first; d < last; ++d) q_bar[d] += dot(w.dof[d].S, b.pose);
    // the world accelerates by -gravity
    if (w.theta_bar && parent == 0) add3(-b.a_bar.lin, w.theta_bar->gravity);
    if (parent == 0) continue;
    LinkBar<T>& p = w.bar[parent];
    p.w_bar += b.w_bar;
    p.y_bar += b.y_bar;
    p.v_bar += bars.parent;
    p.a_bar += b.a_bar;
    p.pose += b.pose;
  }
}

// -y' dM Y of bodies at rest, link by link: -V(y) . dI V(Y), with V_bar = -I V of the other.  Twists
// of y in w.twist, of Y in w.twist2
template <class T, class P>
FB_FN void still_bars(const Model<T, P>& m, Work<T>& w) {
  w.bar[0].w = w.bar[0].y = zero_motion<T>();
  for (int l = 1; l < m.s.nlink; ++l) {
    const LinkWork<T>& link = w.link[l];
    LinkBar<T>& b = w.bar[l];
    b.w = w.twist[l];
    b.y = zero_motion<T>();
    b.w_bar = -(link.I * w.twist2[l]);
    b.a_bar = -(link.I * b.w);
    b.y_bar = zero_force<T>();
    b.pose = -(cross(b.w, b.w_bar) + cross(w.twist2[l], b.a_bar));
    if (!w.derived_bar) continue;
    InertiaBar<T> I_bar{T(0), zero3<T>(), {T(0), T(0), T(0), T(0), T(0), T(0)}};
    add_pairing(I_bar, -b.w, w.twist2[l]);
    link_inertia_adjoint(m, l, I_bar, w);
  }
}
// (D.13)  the same sweep for bodies at rest without gravity, whose fields are w (rates rate_w) and
// a (rates a)
template <class T, class P>
FB_FN void still_tree_adjoint(const Model<T, P>& m, const T* a, const T* rate_w, const T* q,
                              Work<T>& w, T* q_bar) {
  const Layout& s = m.s;
  for (int l = s.nlink - 1; l > 0; --l) {
    LinkBar<T>& b = w.bar[l];
    const int first = s.link_dof[l], last = first + s.link_ndof[l], parent = s.link_parent[l];
    for (int d = first + world_axes(s.link_type[l]); d < last; ++d)
      b.pose += cross(w.dof[d].S, mul_add(b.w_bar, rate_w[d], b.a_bar * a[d]));
    for (int d = first; d < last; ++d) q_bar[d] += dot(w.dof[d].S, b.pose);
    if (w.derived_bar) link_pose_adjoint(m, l, q, w);
    if (parent == 0) continue;
    w.bar[parent].w_bar += b.w_bar;
    w.bar[parent].a_bar += b.a_bar;
    w.bar[parent].pose += b.pose;
  }
}

// what the cotangents of inverse dynamics are added to; q: tangent
template <class T>
struct MotionBars {
  T *q, *v, *a;
};
// (D.8)  given tau_bar, add to bars; kinematics, inertias and accelerations of the forward in w
template <class T, class P>
FB_FN void inverse_dynamics_adjoint(const Model<T, P>& m, const T* v, const T* a, const T* tau_bar,
                                    const MotionBars<T>& bars, Work<T>& w) {
  link_twists(m.s, w, tau_bar, w.twist);
  for (int l = 1; l < m.s.nlink; ++l) {
    w.bar[l].w = w.twist[l];
    link_force_adjoint(m, l, T(1), w);
  }
  tree_adjoint<T, P>(m, {v, a, tau_bar, nullptr}, w, bars.q, bars.v);
  // after the sweep the bars of a link hold those of its whole subtree
  for (int d = 0; d < m.s.nv; ++d) {
    const T swept = bars.a[d] + dot(w.dof[d].S, w.bar[m.s.dof_link[d]].a_bar);
    bars.a[d] = mul_add(tau_bar[d], T(m.theta.dof_armature[d]), swept);
  }
}

}  // namespace fb::FB_ISA
