// The velocity derivative of fluid forces, which the integrator implicitfast takes into the matrix that
// it solves with.  Proof: docs/derivations/fluid.md.
#pragma once
#include "core/dynamics/fluid.hpp"

namespace fb::FB_ISA {

// the numbers of a law without a tangent
template <class T>
FB_INLINE FluidLaw<Dual<T>> constant_law(const FluidLaw<T>& k) {
  FluidLaw<Dual<T>> out;
  out.ellipsoid = k.ellipsoid;
  out.rho = {k.rho, T(0)};
  out.mu = {k.mu, T(0)};
  for (int i = 0; i < 12; ++i) out.coef[i] = {k.coef[i], T(0)};
  for (int i = 0; i < 10; ++i) out.shape[i] = {k.shape[i], T(0)};
  return out;
}

// (Z.10)  B y, B = df/dv of one part, and the same of its symmetric part
template <class T>
FB_FN Force<T> slope_times(const FluidLaw<T>& k, Motion<T> v, Motion<T> y) {
  const Motion<Dual<T>> x{with_tangent(v.ang, y.ang), with_tangent(v.lin, y.lin)};
  const Force<Dual<T>> f = fluid_force(constant_law(k), x);
  return {tangent_of(f.ang), tangent_of(f.lin)};
}
template <class T>
FB_FN Force<T> symmetric_slope(const FluidLaw<T>& k, Motion<T> v, Motion<T> y) {
  Force<T> out = slope_times(k, v, y);
  fluid_force_adjoint<T>(k, v, y, out, nullptr);
  return out * T(Real<T>(0.5));
}
// (Z.11)  given the pair (y, z): cotangents of y' B z in v and in the law's numbers, and B' y
template <class T>
struct SlopeBars {
  Force<T> v, transposed;
  FluidLaw<T> law;
};
template <class T>
FB_FN SlopeBars<T> slope_adjoint(const FluidLaw<T>& k, Motion<T> v, Motion<T> y, Motion<T> z) {
  const Vec3<T> none = zero3<T>();
  const Motion<Dual<T>> x{with_tangent(v.ang, z.ang), with_tangent(v.lin, z.lin)};
  const Motion<Dual<T>> f_bar{with_tangent(y.ang, none), with_tangent(y.lin, none)};
  Force<Dual<T>> v_bar = zero_force<Dual<T>>();
  FluidLaw<Dual<T>> k_bar = no_fluid<Dual<T>>(k.ellipsoid);
  fluid_force_adjoint(constant_law(k), x, f_bar, v_bar, &k_bar);
  SlopeBars<T> out{{tangent_of(v_bar.ang), tangent_of(v_bar.lin)},
                   {value_of(v_bar.ang), value_of(v_bar.lin)},
                   no_fluid<T>(k.ellipsoid)};
  out.law.rho = k_bar.rho.d;
  out.law.mu = k_bar.mu.d;
  for (int i = 0; i < 12; ++i) out.law.coef[i] = k_bar.coef[i].d;
  for (int i = 0; i < 10; ++i) out.law.shape[i] = k_bar.shape[i].d;
  return out;
}

// six columns of a symmetric matrix over (ang, lin)
template <class T>
FB_INLINE void put_columns(const Force<T>* F, Sym6<T>& out) {
  out.I = {F[0].ang.x, F[1].ang.y, F[2].ang.z, F[1].ang.x, F[2].ang.x, F[2].ang.y};
  out.M = {F[3].lin.x, F[4].lin.y, F[5].lin.z, F[4].lin.x, F[5].lin.x, F[5].lin.y};
  for (int i = 0; i < 3; ++i) {
    out.H.a[i] = F[3 + i].ang.x;
    out.H.a[3 + i] = F[3 + i].ang.y;
    out.H.a[6 + i] = F[3 + i].ang.z;
  }
}
// what a fluid adds to the links (below), in the matrix A over the dofs
template <class T>
FB_FN void add_fluid_inertia(const Layout& s, Work<T>& w) {
  SoftWork<T>& f = w.soft;
  for (int d = 0; d < s.nv; ++d) {
    const Force<T> F = f.composite[s.dof_link[d]] * w.dof[d].S;
    f.A.diagonal[d] += dot(w.dof[d].S, F);
    const int* col = f.A.p.columns(d);
    T* row = f.A.row(d);
    for (int e = 0; e < f.A.p.count(d); ++e) row[e] += dot(w.dof[col[e]].S, F);
  }
}
// (Z.14)  B -= h times the whole slope, of a free body without children
template <class T, class P>
FB_FN void add_single_fluid(const Model<T, P>& m, int l, Work<T>& w, T* B) {
  const Layout& s = m.s;
  const int d = s.link_dof[l];
  const Vec3<T> wind = lift3<T>(m.theta.wind), still = zero3<T>();
  for (int part = 0; part < s.nfluid; ++part) {
    if (s.body_link[s.fluid_body[part]] != l) continue;
    const FluidPlace<T> at = fluid_place(m, part, w);
    const FluidLaw<T> k = fluid_law(m, part);
    const Motion<T> v = local_motion(at, w.link[l].v, wind);
    for (int j = 0; j < 6; ++j) {
      const Motion<T> S = w.dof[d + j].S;
      PlaceBars<T> none{still, still};
      const Force<T> F =
          local_motion_adjoint(at, S, still, slope_times(k, v, local_motion(at, S, still)), none);
      for (int i = 0; i < 6; ++i) B[6 * i + j] -= dot(w.dof[d + i].S, F) * m.theta.dt[0];
    }
  }
}
// (Z.12)  what the fluid adds to the inertia of each link: -h times the symmetric slope of its wrench
// in its twist; in w.soft.composite, for a link and all that it carries
template <class T, class P>
FB_FN void fluid_inertia(const Model<T, P>& m, Work<T>& w) {
  const Layout& s = m.s;
  const T zero = T(0), h = T(m.theta.dt[0]);
  const Vec3<T> wind = lift3<T>(m.theta.wind), still = zero3<T>();
  Sym6<T>* K = w.soft.composite;
  for (int l = 0; l < s.nlink; ++l) {
    K[l].I = K[l].M = {zero, zero, zero, zero, zero, zero};
    for (T& x : K[l].H.a) x = zero;
  }
  for (int i = 0; i < s.nfluid; ++i) {
    const int l = s.body_link[s.fluid_body[i]];
    const FluidPlace<T> at = fluid_place(m, i, w);
    const FluidLaw<T> k = fluid_law(m, i);
    const Motion<T> v = local_motion(at, w.link[l].v, wind);
    Force<T> F[6];
    for (int c = 0; c < 6; ++c) {
      const Vec3<T> e{T(c % 3 == 0), T(c % 3 == 1), T(c % 3 == 2)};
      const Motion<T> unit = c < 3 ? Motion<T>{e, still} : Motion<T>{still, e};
      PlaceBars<T> none{still, still};
      F[c] = local_motion_adjoint(at, unit, still,
                                  symmetric_slope(k, v, local_motion(at, unit, still)), none) *
             -h;
    }
    Sym6<T> own;
    put_columns(F, own);
    add(K[l], own);
  }
  for (int l = s.nlink - 1; l > 0; --l)
    if (s.link_parent[l] > 0) add(K[s.link_parent[l]], K[l]);
}
// cotangents of y' sym(B) z, or of y' B z, times h
template <class T>
struct SlopePair {
  Force<T> y, z, v;
  FluidLaw<T> law;
};
template <class T>
FB_FN SlopePair<T> slope_pair(const FluidLaw<T>& k, Motion<T> v, Motion<T> y, Motion<T> z, T h,
                              bool whole) {
  const SlopeBars<T> one = slope_adjoint(k, v, y, z);
  if (whole) {
    SlopePair<T> out{slope_times(k, v, z) * h, one.transposed * h, one.v * h, one.law};
    scale_law(out.law, h);
    return out;
  }
  const SlopeBars<T> two = slope_adjoint(k, v, z, y);
  const T half = h * Real<T>(0.5);
  SlopePair<T> out{symmetric_slope(k, v, z) * h, symmetric_slope(k, v, y) * h,
                   (one.v + two.v) * half, one.law};
  out.law.rho += two.law.rho;
  out.law.mu += two.law.mu;
  for (int c = 0; c < 12; ++c) out.law.coef[c] += two.law.coef[c];
  for (int c = 0; c < 10; ++c) out.law.shape[c] += two.law.shape[c];
  scale_law(out.law, half);
  return out;
}
template <class T>
FB_FN void scale_law(FluidLaw<T>& k, T scale) {
  k.rho *= scale;
  k.mu *= scale;
  for (T& x : k.coef) x *= scale;
  for (T& x : k.shape) x *= scale;
}
template <class T>
FB_INLINE bool is_single(const SoftWork<T>& f, int l) {
  for (int i = 0; i < f.nsingle; ++i)
    if (f.single[i] == l) return true;
  return false;
}
// (Z.13)  -mu' dA acc of that share, A_fluid = -h J' sym(B) J: adds to q_tan, v_bar and the parameters
template <class T, class P>
FB_FN void fluid_inertia_adjoint(const Model<T, P>& m, const StepPoint<T>& x, Work<T>& w, T* q_tan,
                                 T* v_bar) {
  const Layout& s = m.s;
  const SoftWork<T>& f = w.soft;
  const Vec3<T> wind = lift3<T>(m.theta.wind), still = zero3<T>();
  link_twists(s, w, f.mu, w.twist);
  link_twists(s, w, f.acc, w.twist2);
  for (int l = 0; l < s.nlink; ++l)
    w.bar[l].w_bar = w.bar[l].a_bar = w.bar[l].pose = w.wrench[l] = zero_force<T>();
  for (int i = 0; i < s.nfluid; ++i) {
    const int l = s.body_link[s.fluid_body[i]];
    const FluidPlace<T> at = fluid_place(m, i, w);
    const FluidLaw<T> k = fluid_law(m, i);
    const Motion<T> v = local_motion(at, w.link[l].v, wind);
    const Motion<T> y = local_motion(at, w.twist[l], still),
                    z = local_motion(at, w.twist2[l], still);
    SlopePair<T> b = slope_pair(k, v, y, z, T(m.theta.dt[0]), is_single(f, l));
    PlaceBars<T> place{still, still};
    w.bar[l].w_bar += local_motion_adjoint(at, w.twist[l], still, b.y, place);
    w.bar[l].a_bar += local_motion_adjoint(at, w.twist2[l], still, b.z, place);
    const Force<T> moved = local_motion_adjoint(at, w.link[l].v, wind, b.v, place);
    w.wrench[l] += moved;
    fluid_place_adjoint(m, i, at.c, place.turn, place.c, w);
    if (!w.theta_bar) continue;
    add3(-moved.lin, w.theta_bar->wind);
    w.theta_bar->dt[0] += dot(y, b.y) / T(m.theta.dt[0]);
    fluid_law_adjoint(m, i, b.law, w);
  }
  still_tree_adjoint(m, f.acc, f.mu, x.q, w, q_tan);
  fluid_twist_adjoint(m, x, w, q_tan, v_bar);
}
// cotangents of the links' own twists, in w.wrench, through the tree
template <class T, class P>
FB_FN void fluid_twist_adjoint(const Model<T, P>& m, const StepPoint<T>& x, Work<T>& w, T* q_tan,
                               T* v_bar) {
  for (int l = 0; l < m.s.nlink; ++l) {
    w.bar[l].w_bar = w.wrench[l];
    w.bar[l].a_bar = w.bar[l].pose = zero_force<T>();
  }
  still_tree_adjoint(m, x.v, x.v, x.q, w, q_tan);
  for (int d = 0; d < m.s.nv; ++d) v_bar[d] += dot(w.dof[d].S, w.bar[m.s.dof_link[d]].w_bar);
}

}  // namespace fb::FB_ISA
