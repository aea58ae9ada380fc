// One step on one page, and its adjoint on the next.  Proof: docs/derivations/step.md.
#pragma once
#include "actuation.hpp"
#include "contact.hpp"
#include "integrate.hpp"
#include "solver_newton.hpp"

namespace fb::FB_ISA {

// free motion: v* = v + h a with Mh a + c = tau; leaves kinematics and the factorisation of Mh in w
template <class T, class P>
FB_FN void free_motion(const Model<T, P>& m, const T* q, const T* v, const T* u, Work<T>& w) {
  kinematics(m, q, v, w);
  actuation(m, q, v, u, w);
  articulated_body(m, w.tau, w);
  for (int d = 0; d < m.s.nv; ++d) w.vs[d] = mul_add(w.qdd[d], T(m.theta.dt[0]), v[d]);
  for (int l = 1; l < m.s.nlink; ++l) {
    Motion<T> a = w.link[m.s.link_parent[l]].vs;
    const int first = m.s.link_dof[l];
    for (int d = first; d < first + m.s.link_ndof[l]; ++d) a = mul_add(w.dof[d].S, w.vs[d], a);
    w.link[l].vs = a;
  }
}

template <class T, class P>
FB_FN RowProblem<T> row_problem(const Model<T, P>&, const Options<Real<T>>& o, Work<T>& w) {
  RowProblem<T> p;
  p.nrow = w.nrow;
  p.nisland = w.nisland;
  p.island_row = w.island_row;
  p.cone = w.cone;
  p.A = w.A;
  p.b = w.b;
  p.lo = w.lo;
  p.hi = w.hi;
  p.mu = w.mu;
  p.lam = w.lam;
  p.n = w.n;
  p.D = w.D;
  p.lu = w.lu;
  p.rhs = w.rhs;
  p.keep = w.keep;
  p.order = w.order;
  p.tolerance = o.tolerance;
  p.reach = Real<T>(1);
  p.max_sweeps = o.max_sweeps;
  p.box_friction = o.box_friction;
  p.exact_finish = o.exact_finish;
  return p;
}

// (q, v, u) -> (q+, v+); rows are built only in the lanes of `alive`
template <class T, class P>
FB_FN void step(const Model<T, P>& m, const Options<Real<T>>& o, const T* q, const T* v, const T* u,
                Mask<T> alive, T* q_next, T* v_next, Work<T>& w) {
  free_motion(m, q, v, u, w);
  build_rows(m, o, q, alive, w);
  w.unconverged = Mask<T>(false);
  w.residual = w.sweeps = T(0);
  for (int d = 0; d < m.s.nv; ++d) v_next[d] = w.vs[d];
  if (w.nrow > 0) {
    RowProblem<T> p = row_problem(m, o, w);
    solve_rows(p, alive);
    w.unconverged = p.unconverged;
    w.residual = p.residual;
    w.sweeps = p.sweeps;
    apply_impulses(m.s, w, w.lam, w.dv, w.twist);
    for (int d = 0; d < m.s.nv; ++d) v_next[d] += w.dv[d];
  }
  integrate(m.s, q, v_next, m.theta.dt[0], q_next);
}

// bars of the wrenches of a block: they move <lam, J w> - <z, J v+>
template <class T>
FB_INLINE void wrench_bars(const Block& k, const RowSeeds<T>& e, Work<T>& w,
                           Motion<T> F_bar[2][3]) {
  for (int side = 0; side < 2; ++side) {
    LinkBar<T>& b = w.bar[side == 0 ? k.linkA : k.linkB];
    for (int i = 0; i < k.rows; ++i) {
      const T lam = w.lam[k.row + i], z = w.z[k.row + i];
      b.w_bar = mul_add(e.F[side][i], lam, b.w_bar);
      b.y_bar = mul_add(e.F[side][i], -z, b.y_bar);
      F_bar[side][i] = b.w * lam - b.y * z;
    }
  }
}
// one contact: wrenches, and the gap that moves -z beta; returns the lanes without an adjoint
template <class T, class P>
FB_FN Mask<T> contact_adjoint(const Model<T, P>& m, const Options<Real<T>>& o, int index,
                              const RowSeeds<T>& e, Work<T>& w) {
  const Block& k = w.block[index];
  ContactBars<T> bars;
  wrench_bars(k, e, w, bars.F);
  bars.beta = -w.z[k.row];
  TouchBar<T> touch_bar{T(0), zero3<T>(), zero3<T>()};
  contact_seeds_adjoint(m, o, k, w.touch[index], w, bars, touch_bar);
  return touch_adjoint(m, k, w.touch[index].on, touch_bar, w);
}

// (P.1)  w = Mh^-1 (v1_bar - J' z) with z from the solver's adjoint; rates in w.w1, z in w.z
template <class T, class P>
FB_FN void paired_rates(const Model<T, P>& m, const Options<Real<T>>& o, const T* q,
                        const T* v1_bar, Work<T>& w) {
  solve_inertia(m.s, w, v1_bar, w.w1, w.wrench, w.twist);
  if (w.nrow == 0) return;
  for (int i = 0; i < w.nblock; ++i) {
    const Block& k = w.block[i];
    RowSeeds<T> e;
    block_seeds(m, o, i, q, w, e);
    for (int r = 0; r < k.rows; ++r)
      w.keep[k.row + r] = row_velocity(e, r, w.twist[k.linkA], w.twist[k.linkB], w.w1);
  }
  RowProblem<T> p = row_problem(m, o, w);
  p.keep = nullptr;
  for (int r = 0; r < w.nrow; ++r) w.mu_bar[r] = w.lo_bar[r] = w.hi_bar[r] = T(0);
  solve_rows_adjoint<T>(p, w.keep, w.z, w.mu_bar, w.lo_bar, w.hi_bar);
  apply_impulses(m.s, w, w.z, w.dv, w.twist);
  for (int d = 0; d < m.s.nv; ++d) w.w1[d] -= w.dv[d];
}

// where a step starts and what it gave; the cotangents of its results, and those it adds to (q:
// ambient)
template <class T>
struct StepPoint {
  const T *q, *v, *u, *v1;
};
template <class T>
struct StepBars {
  const T *q1, *v1;
  T *q, *v, *u;
  T* scratch;  // 4 nv numbers
};

// twists of the paired rates and of the new velocity, accelerations at the effective one, and their
// own cotangents
template <class T, class P>
FB_FN void field_bars(const Model<T, P>& m, const StepPoint<T>& x, T h, Work<T>& w, T* tau) {
  const Layout& s = m.s;
  for (int d = 0; d < s.nv; ++d) w.a_eff[d] = (x.v1[d] - x.v[d]) / h;
  link_twists(s, w, w.w1, w.twist);
  for (int l = 0; l < s.nlink; ++l) w.bar[l].w = w.twist[l];
  link_twists(s, w, x.v1, w.twist);
  for (int l = 0; l < s.nlink; ++l) w.bar[l].y = w.twist[l];
  inverse_dynamics(m, w.a_eff, tau, w, w.wrench);
  w.bar[0].w_bar = w.bar[0].y_bar = w.bar[0].v_bar = w.bar[0].pose = zero_force<T>();
  newton_euler_bars(m, -h, w);
}
// all rows; returns the lanes in which one that moves something has no adjoint
template <class T, class P>
FB_FN Mask<T> row_bars(const Model<T, P>& m, const Options<Real<T>>& o, const StepPoint<T>& x,
                       Work<T>& w, T* q_tan) {
  Mask<T> missing(false);
  for (int i = 0; i < w.nblock; ++i) {
    const Block& k = w.block[i];
    RowSeeds<T> e;
    block_seeds(m, o, i, x.q, w, e);
    if (k.kind == kBlockContact) {
      const Mask<T> without = contact_adjoint(m, o, i, e, w);
      // rows that are all held at zero move nothing, with or without an adjoint
      Mask<T> idle(true);
      for (int r = k.row; r < k.row + k.rows; ++r)
        idle = idle & (w.lam[r] == T(0)) & (w.z[r] == T(0));
      missing = missing | (without & !idle);
    } else if (k.kind == kBlockConnect || k.kind == kBlockWeldTurn) {
      Motion<T> F_bar[2][3];
      wrench_bars(k, e, w, F_bar);
      equality_seeds_adjoint(m, o, k, F_bar, w);
    } else {
      joint_seeds_adjoint(m, o, k, w.touch[i], x.q, x.v1, w, q_tan);
    }
  }
  return missing;
}

// (P.2)  the adjoint of a step that was just run in w: given bars of (q+, v+), add to those of (q,
// v, u) and, where w carries them, of the parameters.  Returns the lanes whose gradient is not to
// be had: an unfinished solve, or something without an adjoint.
template <class T, class P>
FB_FN Mask<T> step_adjoint(const Model<T, P>& m, const Options<Real<T>>& o, const StepPoint<T>& x,
                           const StepBars<T>& bar, Work<T>& w) {
  const Layout& s = m.s;
  const T h = T(m.theta.dt[0]);
  T *v1_bar = bar.scratch, *q_tan = v1_bar + s.nv, *tau_bar = q_tan + s.nv,
    *hD_bar = tau_bar + s.nv;
  T h_bar = T(0);
  for (int d = 0; d < s.nv; ++d) {
    v1_bar[d] = bar.v1[d];
    q_tan[d] = T(0);
  }
  integrate_adjoint(s, x.q, x.v1, m.theta.dt[0], bar.q1, bar.q, v1_bar, h_bar);
  paired_rates(m, o, x.q, v1_bar, w);
  field_bars(m, x, h, w, tau_bar);
  const Mask<T> missing = w.unconverged | row_bars(m, o, x, w, q_tan);
  sweep_bars(m, x.v, w.a_eff, w.w1, x.v1, w, q_tan, bar.v);
  if (w.derived_bar)
    for (int l = 1; l < s.nlink; ++l) link_pose_adjoint(m, l, x.q, w);

  // v* = v + h a: v_bar += Mh w, with M w from the swept accelerations; h meets the free
  // acceleration
  for (int d = 0; d < s.nv; ++d) {
    const T Mw = mul_add(w.hD[d], w.w1[d], -(dot(w.dof[d].S, w.bar[s.dof_link[d]].a_bar) / h));
    bar.v[d] += Mw;
    h_bar += Mw * w.qdd[d];
    tau_bar[d] = w.w1[d] * h;
    hD_bar[d] = -(tau_bar[d] * w.a_eff[d]);
  }
  if (w.theta_bar) w.theta_bar->dt[0] += h_bar;
  actuation_adjoint(m, x.q, x.v, x.u, tau_bar, hD_bar, w, q_tan, bar.v, bar.u);
  lift_tangent(s, x.q, q_tan, bar.q);
  return missing;
}

}  // namespace fb::FB_ISA
