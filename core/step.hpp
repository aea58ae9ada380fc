// One step on one page, and its adjoint on the next.  Proof: docs/derivations/step.md.
#pragma once
#include "core/contact/aside.hpp"
#include "core/step_soft.hpp"

namespace fb::FB_ISA {

// free motion: v* = v + h a with Mh a + c = tau; leaves kinematics and the factorisation of Mh in w
template <class T, class P>
FB_FN void free_motion(const Model<T, P>& m, const T* x, const T* u, Work<T>& w) {
  const T* v = velocity_of(m.s, x);
  FB_STAGE(kinematics);
  kinematics(m, x, v, w);
  FB_STAGE(actuation);
  actuation(m, step_point<T>(m.s, x, u, nullptr), w);
  spin_forces(m, w.tau, w);
  FB_STAGE(articulated_body);
  articulated_body(m, w.tau, w);
  FB_STAGE(free_velocity);
  const T h = T(m.theta.dt[0]);
  w.v_begin = v;
  for (int d = 0; d < m.s.nv; ++d) w.v_free[d] = mul_add(w.qdd[d], h, v[d]);
  for (int l = 1; l < m.s.nlink; ++l) {
    Motion<T> a = w.link[m.s.link_parent[l]].v_free;
    const int first = m.s.link_dof[l];
    for (int d = first; d < first + m.s.link_ndof[l]; ++d) a = mul_add(w.dof[d].S, w.v_free[d], a);
    w.link[l].v_free = a;
  }
}

// (x, u) -> v+, and p in w; rows are built only in the lanes of `alive`
template <class T, class P>
FB_FN void step_velocity(const Model<T, P>& m, const Options<Real<T>>& o, const T* x, const T* u,
                         Mask<T> alive, T* v_next, Work<T>& w) {
  // v* = v + h a
  free_motion(m, x, u, w);
  FB_STAGE(collision);
  collect_rows(m, o, x, alive, w);
  do {
    impulses(m, o, x, alive, v_next, w);
    // p, where the velocity leaves something to positions
    if (w.problem.nrow > 0) recover(m, o, alive, w);
  } while (wake_contacts(m, o, v_next, moved_velocity(m.s, v_next, w), w));
}
// the rows that were collected act on v*: v+ = v* + Mh^-1 J' lam
template <class T, class P>
FB_FN void impulses(const Model<T, P>& m, const Options<Real<T>>& o, const T* x, Mask<T> alive,
                    T* v_next, Work<T>& w) {
  for (int d = 0; d < m.s.nv; ++d) v_next[d] = w.v_free[d];
  // J, b = J v* + beta and A = J Mh^-1 J' + R
  FB_STAGE(rows);
  order_rows(m.s, w);
  fill_rows(m, o, x, w);
  // too many rows in lanes that are small by themselves: as if there was no room for them
  if (sort_lanes(m.s, alive, w)) {
    w.overflow = Mask<T>(true);
    w.ngroup = w.problem.nrow = w.hit.ncoming = w.naside = w.ndeferred = 0;
  }
  FB_STAGE(assembly);
  if (any(w.few)) assemble_rows(m.s, w);
  w.solution.unconverged = w.solution.unrolled = Mask<T>(false);
  w.solution.residual = w.solution.sweeps = w.solution.factorisations = T(0);
  w.recovery.moved = Mask<T>(false);
  if (w.problem.nrow == 0) return;
  // lam of (A, b)
  solve_step(m.s, w);
  // lanes that keep their solution keep its count
  if (w.last.any) w.solution.factorisations += select(w.large & !w.last.grown, T(0), w.last.spent);
  // v+ = v* + Mh^-1 J' lam
  FB_STAGE(impulses);
  apply_impulses(m.s, w, w.solution.lam, w.dv, w.twist);
  for (int d = 0; d < m.s.nv; ++d) v_next[d] += w.dv[d];
}
// an ordinary step, or a part of one: v+ is set, then q+ = q (+) h v+ and act+
template <class T, class P>
FB_FN void step_part(const Model<T, P>& m, const Options<Real<T>>& o, const T* x, const T* u,
                     Mask<T> alive, T* x_next, Work<T>& w) {
  step_velocity(m, o, x, u, alive, velocity_of(m.s, x_next), w);
  FB_STAGE(integration);
  integrate(m.s, x, moved_velocity(m.s, velocity_of(m.s, x_next), w), m.theta.dt[0], x_next);
  if (m.s.na > 0)
    advance_activation(m, step_point<T>(m.s, x, u, nullptr), activation_of(m.s, x_next));
}

// the cotangents of a step's results, and those it adds to
template <class T>
struct StepBars {
  const T* x1;
  T *x, *u;
  T* scratch;  // 4 nv numbers
};

// (P.2)  the adjoint of one that was just run in w: given bars of x+, add to those of (x, u) and,
// where w carries them, of the parameters
template <class T, class P>
FB_FN void step_part_adjoint(const Model<T, P>& m, const Options<Real<T>>& o, const StepPoint<T>& x,
                             const StepBars<T>& bar, Work<T>& w) {
  const Layout& s = m.s;
  const T h = T(m.theta.dt[0]);
  T *v1_bar = bar.scratch, *q_tan = v1_bar + s.nv, *tau_bar = q_tan + s.nv,
    *hD_bar = tau_bar + s.nv;
  T* v_bar = velocity_of(s, bar.x);
  for (int d = 0; d < s.nv; ++d) {
    v1_bar[d] = velocity_of(s, bar.x1)[d];
    q_tan[d] = w.p_bar[d] = w.hD_bar_extra[d] = T(0);
  }
  FB_STAGE(adjoint_solve);
  // q+ = q (+) h (v+ + p), v+ = v* + Mh^-1 J' lam
  T h_bar =
      integrate_adjoint(s, x.q, moved_velocity(s, x.v1, w), m.theta.dt[0], bar.x1, bar.x, w.p_bar);
  for (int d = 0; d < s.nv; ++d) v1_bar[d] += w.p_bar[d];
  if (any(w.recovery.moved)) recover_adjoint(m, o, x, w, q_tan);
  velocity_adjoint(m, v1_bar, w);
  // <E, dA> where A_bar is not -z lam'
  if (any(w.solution.unrolled)) delassus_adjoint(m, o, x, w, q_tan);
  FB_STAGE(adjoint_fields);
  // -h d<w, RNEA(q, v, a_eff)>, rows lam' dJ w - z' dJ v+ - z' dbeta, both through the tree
  motion_adjoint(m, x, h, h_bar, w);
  FB_STAGE(adjoint_contacts);
  const RowProblemBar<T>& row = w.row_bar;
  RowBars<T> bars{0,          w.solution.lam, row.z,  w.neg_z, w.R_bar, w.zero_row,
                  w.zero_row, row.mu,         row.lo, row.hi,  w.w_rate};
  if (any(w.recovery.moved)) add_open_rows(w, bars);
  rows_adjoint(m, o, x, bars, w, q_tan);
  if (w.hit.pulled) coming_approach_adjoint(m, w);
  FB_STAGE(adjoint_sweep);
  tree_adjoint<T, P>(m, {x.v, w.a_eff, w.w_rate, x.v1}, w, q_tan, v_bar);
  if (w.derived_bar)
    for (int l = 1; l < s.nlink; ++l) link_pose_adjoint(m, l, x.q, w);

  // v* = v + h a: v_bar += Mh w, with M w from the swept accelerations; h meets the free acceleration
  for (int d = 0; d < s.nv; ++d) {
    const T Mw = mul_add(w.hD[d], w.w_rate[d], -(dot(w.dof[d].S, w.bar[s.dof_link[d]].a_bar) / h));
    v_bar[d] += Mw;
    h_bar += Mw * w.qdd[d];
    tau_bar[d] = w.w_rate[d] * h;
    hD_bar[d] = w.hD_bar_extra[d] - tau_bar[d] * w.a_eff[d];
  }
  if (w.theta_bar) w.theta_bar->dt[0] += h_bar;
  FB_STAGE(adjoint_actuation);
  // tau_bar = h w, hD_bar = -h w a_eff
  const ActuationBars<T> inputs{q_tan, v_bar, activation_of(s, bar.x), bar.u};
  actuation_adjoint<T, P>(m, x, {tau_bar, hD_bar}, inputs, w);
  if (s.na > 0) advance_activation_adjoint(m, x, activation_of(s, bar.x1), inputs, w);
  lift_tangent(s, x.q, q_tan, bar.x);
}

// (P.1)  w = Mh^-1 (v1_bar - J' z) with z from the solver's adjoint: rates in w.w_rate, cotangents of
// the problem in w.row_bar and w.R_bar
template <class T, class P>
FB_FN void velocity_adjoint(const Model<T, P>& m, const T* v1_bar, Work<T>& w) {
  // w_rate = L^-1 v1_bar
  reduce_force(m.s, w, v1_bar, w.w_rate, w.wrench);
  if (w.problem.nrow == 0) return expand_solution(m.s, w, w.w_rate, w.twist);
  FB_STAGE(adjoint_rows);
  // lam_bar = J Mh^-1 v1_bar, with what recovery adds; then z
  if (any(w.recovery.moved)) add_half_solved(m.s, w, w.open_z, w.w_rate);
  rows_times(m.s, w, w.w_rate, w.lam_bar);
  if (any(w.recovery.moved))
    for (int r = 0; r < w.problem.nrow; ++r) w.lam_bar[r] += w.lam_extra[r];
  RowProblemBar<T> bar = w.row_bar;
  if (!w.theta_bar) bar.lo = bar.hi = nullptr;
  solve_step_adjoint(m.s, w, bar);
  FB_STAGE(adjoint_impulses);
  // both halves of Mh^-1 are linear: w is expanded once, from L^-1 (v1_bar - J' z)
  for (int r = 0; r < w.problem.nrow; ++r) {
    w.R_bar[r] = -(bar.z[r] * w.solution.lam[r]);
    w.neg_z[r] = -bar.z[r];
    w.zero_row[r] = T(0);
  }
  add_half_solved(m.s, w, w.neg_z, w.w_rate);
  expand_solution(m.s, w, w.w_rate, w.twist);
}

// twists of the paired rates w and of the new velocity y, accelerations at a_eff = (v+ - v) / h, and
// the cotangents of -h <w, RNEA> that are each link's own
template <class T, class P>
FB_FN void motion_adjoint(const Model<T, P>& m, const StepPoint<T>& x, T h, T& h_bar, Work<T>& w) {
  const Layout& s = m.s;
  for (int d = 0; d < s.nv; ++d) w.a_eff[d] = (x.v1[d] - x.v[d]) / h;
  w.bar[0].w = w.bar[0].y = zero_motion<T>();
  w.bar[0].w_bar = w.bar[0].y_bar = w.bar[0].v_bar = w.bar[0].pose = zero_force<T>();
  w.link[0].a = gravity_acceleration<T>(m);
  for (int l = 1; l < s.nlink; ++l) {
    open_link_fields(s, l, w.w_rate, x.v1, w.a_eff, w);
    link_force_adjoint(m, l, -h, w);
    if (joint_turns(s.link_type[l])) spin_forces_adjoint(m, l, -h, h_bar, w);
  }
  if (m.applied) applied_wrenches_adjoint(m, h, w);
}

// (x, u) -> x+: an ordinary step, but in worlds that are hit within it
template <class T, class P>
FB_FN void step(const Model<T, P>& m, const Options<Real<T>>& o, const T* x, const T* u,
                Mask<T> alive, T* x_next, Work<T>& w) {
  if (m.s.soft) return soft_step(m, o, x, u, alive, x_next, w);
  step_part(m, o, x, u, alive, x_next, w);
  const StepPoint<T> at = step_point<T>(m.s, x, u, velocity_of(m.s, x_next));
  const Mask<T> hit = step_through_hits(m, o, at, alive, w);
  if (w.hit.count == 0) return;
  for (int i = 0; i < state_size(m.s); ++i) x_next[i] = select(hit, w.hit.x_next[i], x_next[i]);
}
// the adjoint of a step that was just run in w
template <class T, class P>
FB_FN void step_adjoint(const Model<T, P>& m, const Options<Real<T>>& o, const StepPoint<T>& x,
                        const StepBars<T>& bar, Work<T>& w) {
  if (m.s.soft) return soft_step_adjoint(m, o, x, bar, w);
  if (w.hit.count == 0) return step_part_adjoint(m, o, x, bar, w);
  step_through_hits_adjoint(m, o, x, bar, w);
}

}  // namespace fb::FB_ISA
