// Recovery by positions for one world, in its dofs: the problem of core/solver/recovery.hpp, where A
// is never formed.  Proof: docs/derivations/recovery.md.
#pragma once
#include "core/solver/recovery.hpp"
#include "core/solver/world_adjoint.hpp"

namespace fb::FB_ISA {

// compliance of the displacement, zero for rows that take no part, and the answer
template <class S>
struct WorldRecovery {
  S* R1;
  RecoverySolution<S> found;
};

// push = (A - R + R1)^-1 x on the rows that are on, zero on the others; x in s.lam, push in s.h
template <class S>
FB_FN void solve_pushes(const WorldRows<S>& p, WorldScratch<S>& s, const WorldRecovery<S>& k) {
  for (int b = 0; b < p.nblock; ++b) {
    for (auto& row : s.law[b].C)
      for (S& x : row) x = S(0);
    for (int i = 0; i < p.block[b].rows; ++i) {
      const int r = p.block[b].row + i;
      if (k.found.on[r]) s.law[b].C[i][i] = S(1) / k.R1[r];
    }
  }
  for (int r = 0; p.nrim > 0 && r < p.nrow; ++r) s.cross[r] = S(0);
  factor_law(p, s.law, s.cross, s.H);
  solve_rates_twice(p, s, false);
}
// rows that push at the velocities x = J p + c
template <class S>
FB_INLINE bool pushes(const WorldRows<S>& p, const WorldRecovery<S>& k, int r) {
  return k.R1[r] > S(0) && (p.lo[r] < S(0) || k.found.x[r] < S(0));
}

// Newton's method with an exact line search from zero; false where the cap is reached
template <class S>
FB_FN bool recover_world(const WorldRows<S>& p, WorldScratch<S>& s, WorldRecovery<S>& k) {
  RecoverySolution<S>& f = k.found;
  // rows by themselves, as the line search sees them
  RowProblem<S> rows{};
  rows.lo = p.lo;
  S level = S(0);
  for (int r = 0; r < p.nrow; ++r) {
    f.order[r] = r;
    const bool part = k.R1[r] > S(0);
    f.scale[r] = part ? S(1) / sqrt(k.R1[r]) : S(0);
    f.push[r] = S(0);
    f.x[r] = f.target[r];
    level = mul_add(f.target[r] * f.scale[r], f.target[r] * f.scale[r], level);
  }
  for (int step = 0; step < kRecoverySteps; ++step) {
    for (int r = 0; r < p.nrow; ++r) {
      f.on[r] = pushes(p, k, r);
      s.lam[r] = -f.target[r];
    }
    solve_pushes(p, s, k);
    S start = S(0), bend = S(0);
    for (int r = 0; r < p.nrow; ++r) {
      f.next[r] = s.h[r];
      s.h[r] = f.next[r] - f.push[r];
    }
    sum_rows(p, s.h, s.y);
    for (int b = 0; b < p.nblock; ++b) block_times(p, p.block[b], s.y, f.dx + p.block[b].row);
    for (int r = 0; r < p.nrow; ++r) {
      start = mul_add(s.h[r], f.x[r] - f.target[r], start);
      bend = mul_add(s.h[r], f.dx[r], bend);
    }
    const S drop = recovery_slope(rows, 0, p.nrow, f, start, bend, S(0));
    const bool level_reached = !(-drop > level * Real<S>(1e-26));
    const S t = recovery_length(rows, 0, p.nrow, f, start, bend);
    const bool full = level_reached || t == S(1);
    bool changed = false;
    for (int r = 0; r < p.nrow; ++r) {
      f.push[r] = full ? f.next[r] : mul_add(s.h[r], t, f.push[r]);
      f.x[r] = mul_add(f.dx[r], full ? S(1) : t, f.x[r]);
      changed = changed || f.on[r] != pushes(p, k, r);
    }
    if (level_reached || (full && !changed)) return true;
  }
  return false;
}
// z = (A - R + R1)^-1 push_bar on the rows that are on; push_bar in s.lam, z in s.h
template <class S>
FB_FN void recover_world_adjoint(const WorldRows<S>& p, WorldScratch<S>& s,
                                 const WorldRecovery<S>& k) {
  solve_pushes(p, s, k);
}

}  // namespace fb::FB_ISA
