// The solver of sweeps and Newton steps on the active set, and its adjoint: by the implicit function
// theorem where the solve finished, by the reversed sweeps elsewhere.
// Proof: docs/derivations/solver.md.
#pragma once
#include "core/solver/begin_rows.hpp"
#include "core/solver/unrolled.hpp"

namespace fb::FB_ISA {

// impulses within tolerance of their bounds and cones are put on them
template <class T>
FB_FN void project_solution(const RowProblem<T>& p, ActiveSetSolution<T>& s) {
  for (int r = 0; r < p.nrow;) {
    s.lam[r] = clamp(s.lam[r], p.lo[r], p.hi[r]);
    if (p.cone[r]) project_tangents(p, p.mu[r] * s.lam[r], s.lam[r + 1], s.lam[r + 2]);
    r += p.cone[r] ? 3 : 1;
  }
}

// `count` sweeps at most, looked at after 4, 12, 28, ...; returns the lanes above their goal
template <class T>
FB_FN Mask<T> sweeps_to_goal(const RowProblem<T>& p, ActiveSetSolution<T>& s, Mask<T> live, T goal,
                             int count) {
  for (int run = 4, done = 0; any(live) && done < count; run *= 2) {
    for (int k = 0; k < run && done < count; ++k, ++done) {
      sweep_rows(p, s, live);
      s.sweeps = s.sweeps + select(live, T(1), T(0));
    }
    s.residual = select(live, row_residual(p, s), s.residual);
    live = live & (s.residual > goal);
  }
  return live;
}
// the answer of an unfinished solve is that of plain sweeps: a function of its inputs that can be
// reversed sweep by sweep
template <class T>
FB_FN void sweeps_from_zero(const RowProblem<T>& p, ActiveSetSolution<T>& s, Mask<T> live) {
  for (int r = 0; r < p.nrow; ++r) s.lam[r] = select(live, T(0), s.lam[r]);
  refresh_descent(p, s, live);
  for (int k = 0; k < p.options.max_sweeps; ++k) sweep_rows(p, s, live);
  s.sweeps = select(live, T(p.options.max_sweeps), s.sweeps);
  s.residual = select(live, row_residual(p, s), s.residual);
}

// (N.3)  solve to the tolerance in the lanes of `active`: a few sweeps, Newton steps, and what they
// leave by `finish`, which sets lam and residual and returns the lanes that it leaves in turn; those
// get plain sweeps
template <class T, class Finish>
FB_FN void solve_rows(const RowProblem<T>& p, Mask<T> active, ActiveSetSolution<T>& s,
                      Finish&& finish) {
  FB_STAGE(sweeps);
  T scale = T(0);
  for (int r = 0; r < p.nrow; ++r) {
    s.lam[r] = T(0);
    scale = select(opens_freely(p.b[r], p.lo[r], p.hi[r]), scale, max(scale, abs(p.b[r])));
  }
  prepare_rows(p, s);
  const bool newton = p.options.solver == kNewtonSolver;
  const T goal = scale * p.options.tolerance;
  s.sweeps = s.factorisations = T(0);
  s.residual = row_residual(p, s);
  const int most = newton && p.options.max_sweeps > 4 ? 4 : p.options.max_sweeps;
  Mask<T> live = active & (s.residual > goal);
  if (newton && p.before && p.options.gradient != kGradientUnrolled)
    live = newton_from_begin(p, s, live, goal, scale);
  live = sweeps_to_goal(p, s, live, goal, most);
  if (newton && any(live)) {
    FB_STAGE(newton);
    // those that would go round in circles are left to finish at once
    const Mask<T> full = p.ndof > 0 ? live & is_overfull(p, s) : Mask<T>(false);
    if (any(live & !full)) newton_rounds(p, s, live & !full, goal);
    live = live & (s.residual > goal);
    if (any(live)) {
      const Mask<T> left = finish(live);
      refresh_descent(p, s, live & !left);
      live = left;
    }
    if (any(live)) sweeps_from_zero(p, s, live);
  }
  s.unconverged = live;
  s.unrolled = p.options.gradient == kGradientUnrolled   ? active
               : p.options.gradient == kGradientImplicit ? Mask<T>(false)
                                                         : s.unconverged;
  project_solution(p, s);
}

// (N.4)  implicit adjoint at the solution: G' y = lam_bar, z = y / D on free rows; b_bar = -z,
// A_bar = -z lam'.  Sets z, mu (at normal rows) and, where they are not null, lo and hi
template <class T>
FB_FN void solve_rows_adjoint(const RowProblem<T>& p, const ActiveSetSolution<T>& s,
                              const T* lam_bar, const RowProblemBar<T>& bar) {
  const bool bounds = bar.lo != nullptr;
  for (int r = 0; r < p.nrow; ++r) bar.z[r] = bar.mu[r] = T(0);
  if (bounds)
    for (int r = 0; r < p.nrow; ++r) bar.lo[r] = bar.hi[r] = T(0);
  for_islands(p, [&](const Island& is) {
    // held rows matter to their bounds alone
    const int size = bounds ? factor_all_rows(p, s, is) : factor_free_rows(p, s, is);
    T* y = s.rhs;
    for (int c = 0; c < size; ++c) y[c] = lam_bar[is.first + s.order[c]];
    lu_solve_transposed(s.lu, size, y);
    for (int c = 0; c < size;) {
      const int r = is.first + s.order[c];
      const Mask<T> free = row_free(p, s, r);
      bar.z[r] = select(free, y[c] / s.D[r], T(0));
      if (bounds) {
        const Mask<T> above = s.descent[r] > T(0);
        bar.lo[r] += select(free | above, T(0), y[c]);
        bar.hi[r] += select(free | !above, T(0), y[c]);
      }
      if (p.cone[r]) tangent_rows_adjoint(p, s, r, free, y + c + 1, bar);
      c += p.cone[r] ? 3 : 1;
    }
  });
}
// (N.5)  z_t = y / D where sticking, f Q y / D where sliding on the cone; mu_bar = lam_n e . y where
// sliding
template <class T>
FB_INLINE void tangent_rows_adjoint(const RowProblem<T>& p, const ActiveSetSolution<T>& s, int r,
                                    Mask<T> free, const T* y, const RowProblemBar<T>& bar) {
  const TangentState<T> t = tangent_state(p, s, r);
  const T zero = T(0), y1 = y[0], y2 = y[1];
  T s1 = zero, s2 = zero;
  if (p.options.friction == kConeFriction) {
    const T along = t.e1 * y1 + t.e2 * y2;
    s1 = (y1 - t.e1 * along) * t.f;
    s2 = (y2 - t.e2 * along) * t.f;
  }
  bar.z[r + 1] = select(free, select(t.slide1, s1, y1) / s.D[r + 1], zero);
  bar.z[r + 2] = select(free, select(t.slide2, s2, y2) / s.D[r + 2], zero);
  const T slip = select(t.slide1, t.e1 * y1, zero) + select(t.slide2, t.e2 * y2, zero);
  bar.mu[r] += select(free, slip * s.lam[r], zero);
}

// the members of RowSolverFor
template <class T>
struct ActiveSetSolver {
  using Solution = ActiveSetSolution<T>;

  template <class Finish>
  FB_FN static void solve(const RowProblem<T>& p, Mask<T> active, Solution& s, Finish&& finish) {
    solve_rows(p, active, s, finish);
  }
  FB_FN static void adjoint(const RowProblem<T>& p, const Solution& s, const T* lam_bar,
                            const RowProblemBar<T>& bar) {
    solve_rows_adjoint(p, s, lam_bar, bar);
    if (any(s.unrolled)) solve_rows_unrolled_adjoint(p, s, lam_bar, bar);
  }
  FB_FN static void tangent(const RowProblem<T>& p, Solution& s) { implicit_tangent(p, s); }
  FB_FN static void columns(const RowProblem<T>& p, const Solution& s, int n, T* C) {
    implicit_columns(p, s, n, C);
  }
  FB_INLINE static Mask<T> moves(const RowProblem<T>& p, const Solution& s, int r) {
    return row_free(p, s, r);
  }
  FB_FN static T ties(const RowProblem<T>& p, const Solution& s) { return active_set_ties(p, s); }

  // all arrays of a solution, for up to `rows` rows in islands whose blocks fill dense x dense numbers
  template <class Carver>
  FB_FN static void carve(Carver& c, size_t rows, size_t dense, int max_sweeps, Solution& s) {
    ReversedSweeps<T>& u = s.reversed;
    for (T** x : {&s.lam, &s.D, &s.descent, &s.descent0, &s.inv_D, &s.rhs, &s.best_lam,
                  &s.swept_lam, &s.solved_lam, &u.lam, &u.descent, &u.now, &u.lam_bar, &u.D_bar,
                  &u.z, &u.mu, &u.lo, &u.hi})
      *x = c.template take<T>(rows);
    s.order = c.template take<int>(rows);
    s.A_scaled = c.template take<T>(dense * dense);
    s.lu = c.template take<T>(dense * dense);
    u.block = sweep_block(max_sweeps);
    u.history = c.template take<T>(rows * u.block);
    u.begin = c.template take<T>(2 * rows * ((max_sweeps + u.block - 1) / u.block));
  }
};

}  // namespace fb::FB_ISA
