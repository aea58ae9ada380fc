// What a step moves without velocity: errors of contacts, limits and equalities that its velocity
// left.  Proof: docs/derivations/recovery.md.
#pragma once
#include "core/contact/assemble.hpp"

namespace fb::FB_ISA {

template <class T>
FB_INLINE RecoveryRows<T> recovery_rows(const Options<Real<T>>& o, const Work<T>& w) {
  const Real<T> share = gap_law(o, false).share, equality_share = gap_law(o, true).share;
  return {w.R, w.R0, w.rest, w.lead, w.together, share, equality_share};
}
// lanes in which the solve left a row open
template <class T>
FB_INLINE Mask<T> row_open(const Work<T>& w, int r) {
  return !(pushes_both_ways(w.problem, r) | RowSolver<T>::moves(w.problem, w.solution, r));
}

// v+ + p
template <class T>
FB_INLINE const T* moved_velocity(const Layout& s, const T* v1, const Work<T>& w) {
  if (!any(w.recovery.moved)) return v1;
  for (int d = 0; d < s.nv; ++d) w.v_moved[d] = v1[d] + w.p[d];
  return w.v_moved;
}

// (X.8)  the displacement's rate p = Mh^-1 J' push of the step that was just solved in w
template <class T, class P>
FB_FN void recover(const Model<T, P>& m, const Options<Real<T>>& o, Mask<T> alive, Work<T>& w) {
  const RecoveryRows<T> rows = recovery_rows(o, w);
  recovery_targets(
      w.problem, rows, w.solution.lam, alive, [&](int r) { return row_open(w, r); }, w.recovery);
  if (!any(w.recovery.moved)) return;
  recover_rows(w.problem, rows, w.recovery);
  w.solution.unconverged = w.solution.unconverged | w.recovery.unfinished;
  apply_impulses(m.s, w, w.recovery.push, w.p, w.twist);
}
// (X.9)  given p_bar in w, add -q' dMh p + push' dJ q - z' dJ p - z' dc to links and parameters; sets
// what goes on to the velocities and impulses of the step: open_z, lead_bar and lam_extra
template <class T, class P>
FB_FN void recover_adjoint(const Model<T, P>& m, const Options<Real<T>>& o, const StepPoint<T>& x,
                           Work<T>& w, T* q_tan) {
  const Layout& s = m.s;
  RecoverySolution<T>& k = w.recovery;
  T* q = w.p_rate;
  // q = Mh^-1 (p_bar - J' z)
  reduce_force(s, w, w.p_bar, q, w.wrench);
  rows_times(s, w, q, w.lam_bar);
  const RecoveryRows<T> rows = recovery_rows(o, w);
  recover_rows_adjoint(w.problem, rows, w.lam_bar, k);
  for (int r = 0; r < w.problem.nrow; ++r) {
    const T z = k.z[r] = select(k.moved, k.z[r], T(0));
    w.zero_row[r] = w.rest_bar[r] = w.lam_extra[r] = T(0);
    w.neg_z[r] = w.lead_bar[r] = -z;
    w.open_z[r] = select(row_open(w, r), -z, T(0));
  }
  recovery_targets_adjoint(w.problem, rows, w.solution.lam, w.neg_z, w.rest_bar, w.lam_extra);
  add_half_solved(s, w, w.neg_z, q);
  expand_solution(s, w, q, w.twist);
  for (int d = 0; d < s.nv; ++d) w.hD_bar_extra[d] -= q[d] * w.p[d];
  // -q' dMh p, with the twists of q and p
  link_twists(s, w, w.p, w.twist2);
  still_bars(m, w);
  for (int l = 1; l < s.nlink; ++l) w.bar[l].y = w.twist2[l];
  RowBars<T> bars = row_bars<T>(0, k.push, k.z, w.zero_row, q);
  bars.rest = w.rest_bar;
  StepPoint<T> at = x;
  at.v1 = w.p;
  rows_adjoint(m, o, at, bars, w, q_tan);
  // p is an acceleration at rest and a new velocity at once
  for (int l = 1; l < s.nlink; ++l) w.bar[l].a_bar += w.bar[l].y_bar;
  still_tree_adjoint(m, w.p, q, x.q, w, q_tan);
}
// rows that were open and moved by their velocity: as if the solver's z had them
template <class T>
FB_FN void add_open_rows(Work<T>& w, RowBars<T>& bars) {
  bars.lead = w.lead_bar;
  for (int r = 0; r < w.problem.nrow; ++r) {
    w.row_bar.z[r] -= w.open_z[r];
    w.neg_z[r] += w.open_z[r];
  }
}

}  // namespace fb::FB_ISA
