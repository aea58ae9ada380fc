// What a step moves without velocity: errors of contacts, limits and equalities that its velocity
// left.  Proof: docs/derivations/recovery.md.
#pragma once
#include "core/contact/solve.hpp"

namespace fb::FB_ISA {

template <class T>
FB_INLINE RecoveryRows<T> recovery_rows(const Options<Real<T>>& o, const Work<T>& w) {
  const Real<T> share = gap_law(o, false).share, equality_share = gap_law(o, true).share;
  return {w.R, w.R0, w.rest, w.lead, w.together, share, equality_share, w.few};
}
// lanes in which the solve left a row open; the smooth law leaves all of them open
template <class T>
FB_INLINE Mask<T> row_open(const Work<T>& w, int r) {
  if (w.problem.options.smoothing > 0) return !pushes_both_ways(w.problem, r);
  return !(pushes_both_ways(w.problem, r) | row_moves(w, r));
}

// targets and compliances of the open island, those of the rows that take part
template <class T>
FB_FN void open_recovery(const RecoveryRows<T>& a, Work<T>& w, int k) {
  using S = WorldNumber<T>;
  WorldWork<S>& o = w.one;
  for (int i = 0; i < o.rows.nrow; ++i) {
    const int r = o.row[i];
    const S share = o.rows.lo[i] < S(0) ? S(double(a.equality_share)) : S(double(a.share));
    o.recovery.R1[i] = number_of<S>(a.R0[r], k) * (S(kRecoverySoftness) / share);
    o.recovery.found.target[i] =
        o.recovery.R1[i] > S(0) ? number_of<S>(w.recovery.target[r], k) : S(0);
    o.recovery.found.on[i] = mask_lane(w.recovery.on[r], k);
  }
  prepare_world(o.rows);
  envelope_of(o.rows, o.scratch.H);
}
// f(k) at every open island of the lanes with many rows, each by itself
template <class T, class F>
FB_FN void for_large_islands(const Layout& s, const RecoveryRows<T>& a, Work<T>& w, F f) {
  for (int k = 0; k < kLanes<T>; ++k) {
    if (!mask_lane(w.large & w.recovery.moved, k)) continue;
    for_world_islands(s, w, k, w.one, [&] {
      open_recovery(a, w, k);
      f(k);
    });
  }
}
template <class T>
FB_FN void recover_large(const Layout& s, const RecoveryRows<T>& a, Work<T>& w) {
  WorldWork<WorldNumber<T>>& o = w.one;
  for_large_islands(s, a, w, [&](int k) {
    if (!recover_world(o.rows, o.scratch, o.recovery))
      set_mask_lane(w.recovery.unfinished, k, true);
    for (int i = 0; i < o.rows.nrow; ++i) {
      set_world_number(w.recovery.push[o.row[i]], k, o.recovery.found.push[i]);
      set_mask_lane(w.recovery.on[o.row[i]], k, o.recovery.found.on[i]);
    }
  });
}
template <class T>
FB_FN void recover_large_adjoint(const Layout& s, const RecoveryRows<T>& a, Work<T>& w) {
  WorldWork<WorldNumber<T>>& o = w.one;
  for_large_islands(s, a, w, [&](int k) {
    for (int i = 0; i < o.rows.nrow; ++i)
      o.scratch.lam[i] = number_of<WorldNumber<T>>(w.lam_bar[o.row[i]], k);
    recover_world_adjoint(o.rows, o.scratch, o.recovery);
    for (int i = 0; i < o.rows.nrow; ++i)
      set_world_number(w.recovery.z[o.row[i]], k, o.scratch.h[i]);
  });
}

// the island of each row in lane k, -1 for rows that are off there; true where an island of all lanes holds
// several of them
template <class T>
FB_FN bool own_islands(const Layout& s, const Work<T>& w, int k, int* island) {
  const WorldIslands& o = w.world.islands;
  find_islands(s, w, k, o);
  for (int i = 0; i < w.ngroup; ++i)
    for (int e = 0; e < w.group[i].rows; ++e)
      island[w.group[i].row + e] =
          mask_lane(w.geometry[i].active, k) ? o.find(tree_of(w.group[i])) : -1;
  bool several = false;
  for_islands(w.problem, [&](const Island& is) {
    int first = -1;
    for (int r = is.first; r < is.first + is.n; ++r) {
      if (island[r] >= 0 && first >= 0 && island[r] != first) several = true;
      if (first < 0) first = island[r];
    }
  });
  return several;
}
// (X.11)  lanes with few rows: each island by itself, as it is where no other lane joins it with another
template <class T>
FB_FN void recover_few(const Layout& s, const RecoveryRows<T>& a, Work<T>& w) {
  Mask<T> whole = w.few;
  int* island = w.world.row;
  const auto joined = [&](int k) {
    return mask_lane(w.few & w.recovery.moved, k) && own_islands(s, w, k, island);
  };
  const bool one = kLanes<T> == 1 || s.ntree < 2;
  for (int k = 0; !one && k < kLanes<T>; ++k)
    if (joined(k)) set_mask_lane(whole, k, false);
  recover_rows(w.problem, a, whole, w.recovery);
  for (int k = 0; !one && k < kLanes<T>; ++k) {
    if (mask_lane(whole, k) || !joined(k)) continue;
    Mask<T> lane(false);
    set_mask_lane(lane, k, true);
    for_islands(w.problem, [&](const Island& is) {
      for (int t = 0; t < s.ntree; ++t) {
        const int size = recovery_order(a, is, [&](int r) { return island[r] == t; }, w.recovery);
        if (size > 0) recover_island(w.problem, a, is, size, lane, w.recovery);
      }
    });
  }
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
      w.problem, rows, w.solution.lam, alive, [&](int r) { return row_open(w, r); },
      [&](int r) { return -(w.solution.descent[r] * w.solution.D[r]); }, w.recovery);
  if (!any(w.recovery.moved)) return;
  recover_few(m.s, rows, w);
  if (any(w.large)) recover_large(m.s, rows, w);
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
  if (any(w.few & k.moved))
    recover_rows_adjoint(w.problem, rows, w.lam_bar, k);
  else
    for (int r = 0; r < w.problem.nrow; ++r) k.z[r] = T(0);
  if (any(w.large)) recover_large_adjoint(s, rows, w);
  for (int r = 0; r < w.problem.nrow; ++r) {
    const T z = k.z[r] = select(k.moved, k.z[r], T(0));
    w.zero_row[r] = w.rest_bar[r] = w.lam_extra[r] = T(0);
    w.neg_z[r] = w.lead_bar[r] = -z;
    w.open_z[r] = select(row_open(w, r), -z, T(0));
  }
  recovery_targets_adjoint(w.problem, rows, w.solution.lam, w.neg_z, w.rest_bar, w.lam_extra);
  // w+ has R lam in it, where an open row carries something
  if (o.smoothing > 0)
    for (int r = 0; r < w.problem.nrow; ++r)
      w.lam_extra[r] = mul_add(w.R[r], w.open_z[r], w.lam_extra[r]);
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
// rows that were open and moved by their velocity: as if the solver's z had them.  Their compliance is
// nobody's parameter
template <class T>
FB_FN void add_open_rows(Work<T>& w, RowBars<T>& bars) {
  bars.lead = w.lead_bar;
  for (int r = 0; r < w.problem.nrow; ++r) {
    w.row_bar.z[r] -= w.open_z[r];
    w.neg_z[r] += w.open_z[r];
  }
}

}  // namespace fb::FB_ISA
