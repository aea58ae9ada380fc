// The rows of a step solved, and the derivatives of their solution: few rows in lanes by RowSolver,
// many, and what it leaves, world by world in the dofs.  Proof: docs/derivations/worlds.md.
#pragma once
#include "core/contact/assemble.hpp"
#include "core/contact/world_problem.hpp"

namespace fb::FB_ISA {

// a residual below this share of the largest row velocity, or below this velocity, matters to nobody
inline constexpr double kSlight = 1e-6, kSlightSpeed = 1e-8;

// ---- lanes and worlds

// whether lane k has an island of more than kDenseRows rows, or more than a dense problem holds
template <class T>
FB_FN bool is_large(const Layout& s, Work<T>& w, int k) {
  const WorldIslands& o = w.world.islands;
  int *rows = o.queue, most = 0, entries = 0;
  find_islands(s, w, k, o);
  for (int t = 0; t < s.ntree; ++t) rows[t] = 0;
  for (int i = 0; i < w.ngroup; ++i)
    if (mask_lane(w.geometry[i].active, k)) rows[o.find(tree_of(w.group[i]))] += w.group[i].rows;
  for (int t = 0; t < s.ntree; ++t) {
    most = rows[t] > most ? rows[t] : most;
    entries += rows[t] * rows[t];
  }
  return most > kDenseRows || entries > kDenseCapacity * kDenseCapacity;
}
// whether lane k has rims beside its friction discs, which the lanes' solver does not know
template <class T>
FB_FN bool has_rims(const Work<T>& w, int k) {
  for (int i = 0; i < w.ngroup; ++i)
    if (w.group[i].kind == kRimRows && mask_lane(w.geometry[i].active, k)) return true;
  return false;
}
// large lanes, and the others; true where those do not fit into one dense problem
template <class T>
FB_FN bool sort_lanes(const Layout& s, Mask<T> alive, Work<T>& w) {
  w.large = Mask<T>(false);
  w.few = alive;
  if (w.problem.options.solver == kInteriorSolver) {
    w.large = alive;
    w.few = Mask<T>(false);
    return false;
  }
  if (s.dense_only || (w.nrim == 0 && w.problem.nrow <= kDenseRows)) return false;
  for (int k = 0; k < kLanes<T>; ++k)
    if (mask_lane(alive, k) && ((w.nrim > 0 && has_rims(w, k)) || is_large(s, w, k)))
      set_mask_lane(w.large, k, true);
  w.few = alive & !w.large;
  size_t entries = 0;
  for_islands(w.problem, [&](const Island& is) { entries += size_t(is.n) * is.n; });
  return entries > size_t(kDenseCapacity) * kDenseCapacity && any(w.few);
}
// a row's number in lane k
template <class T>
FB_INLINE void set_world_number(T& x, int k, double value) {
  set_lane(x, k, Real<T>(value));
}
template <class S>
FB_INLINE void set_world_number(Dual<S>& x, int k, double value) {
  set_lane(x.v, k, Real<S>(value));
  set_lane(x.d, k, Real<S>(0));
}
template <class S>
FB_INLINE void set_world_number(Dual<S>& x, int k, Dual<double> value) {
  set_lane(x.v, k, Real<S>(value.v));
  set_lane(x.d, k, Real<S>(value.d));
}
// the solution of the rows that are open in w.one
template <class T>
FB_FN void open_solution(Work<T>& w, int k) {
  for (int r = 0; r < w.one.rows.nrow; ++r)
    w.one.scratch.best[r] = number_of<WorldNumber<T>>(w.solution.lam[w.one.row[r]], k);
}

// lanes in which a row's impulse answers to the problem: in the smooth law all do
template <class T>
FB_INLINE Mask<T> row_moves(const Work<T>& w, int r) {
  if (w.problem.options.smoothing > 0) return Mask<T>(true);
  return RowSolver<T>::moves(w.problem, w.solution, r);
}
// places where the derivative is a choice: the smooth law has none
template <class T>
FB_INLINE T row_ties(const Work<T>& w) {
  if (w.problem.options.smoothing > 0) return T(0);
  const T ties = RowSolver<T>::ties(w.problem, w.solution);
  return w.nrim > 0 ? ties + rim_ties(w) : ties;
}
// rims on the edge of their discs
template <class T>
FB_FN T rim_ties(const Work<T>& w) {
  T count = T(0);
  const auto target = [&](int r) { return w.solution.lam[r] + w.solution.descent[r]; };
  const auto see = [&](T square, T radius) {
    count += one_where<T>((radius > T(0)) & (square == radius * radius));
  };
  for (int i = 0; i < w.ngroup; ++i) {
    const RowGroup& k = w.group[i];
    if (k.kind != kRimRows) continue;
    const T normal = select(w.geometry[i].active, w.solution.lam[k.row - 3], T(0));
    T square[3] = {};
    for (int e = 0; e < k.rows; ++e) square[e] = target(k.row + e) * target(k.row + e);
    see(square[0], w.mu[k.row] * normal);
    if (k.rows == 1) continue;
    const T radius = w.mu[k.row + 1] * normal;
    if (w.problem.options.friction == kBoxFriction) {
      see(square[1], radius);
      see(square[2], radius);
    } else {
      see(square[1] + square[2], radius);
    }
  }
  return count;
}

// ---- solve

// sweeps and Newton steps where the path was not followed to its end; its point if they fail too
template <class S>
FB_FN WorldOutcome after_path(WorldRows<S>& p, WorldScratch<S>& s, const PathScratch<S>& x,
                              WorldOutcome out) {
  WorldOutcome other{false, false, out.factorisations, 1, 0};
  other.solved = first_sweep(p, s, other) || more_sweeps(p, s, other) ||
                 newton_from_sweeps(p, s, kNewtonCircle, 1e300, other);
  if (other.solved) return other;
  for (int r = 0; r < p.nrow; ++r) s.lam[r] = x.nearest[r];
  world_done(p, s, out.residual);
  return out;
}
// the open island by the solver that is asked for; begin: where the interior point method is not asked
// for by name
template <class T>
FB_FN WorldOutcome solve_island(Work<T>& w, WorldBegin begin, const double* start) {
  WorldRows<double>& p = w.world.rows;
  if (p.smoothing > 0) return solve_smooth(p, w.world.scratch, w.path);
  const bool path = w.problem.options.solver == kInteriorSolver;
  WorldOutcome out =
      solve_world(p, w.world.scratch, w.path, path ? WorldBegin::path : begin, start);
  // what the path leaves is tried without it
  if (path && !out.solved) out = after_path(p, w.world.scratch, w.path, out);
  out.solved = out.solved || out.residual <= max(kSlight * p.scale, kSlightSpeed);
  return out;
}
// velocities of the open island's rows at the beginning of the step
template <class T>
FB_FN void set_before(Work<T>& w, int k) {
  WorldWork<double>& o = w.world;
  int r = 0;
  for (int i = o.islands.first[o.islands.queue[0]]; i >= 0; i = o.islands.next[i])
    for (int e = 0; e < w.group[i].rows; ++e) {
      const RowData<T>& data = w.data[i];
      o.rows.before[r++] =
          number_of<double>(data.b[e] + begin_row_velocity(w, w.group[i], data, e), k);
    }
}
// impulses of the open island's rows in the solve before, zero in those that it did not have
template <class T>
FB_FN void set_start(Work<T>& w, int k) {
  const WorldIslands& o = w.world.islands;
  int r = 0;
  for (int i = o.first[o.queue[0]]; i >= 0; i = o.next[i])
    for (int e = 0, at = w.group[i].before; e < w.group[i].rows; ++e)
      w.path.nearest[r++] = at < 0 ? 0 : number_of<double>(w.last.lam[at + e], k);
}
// lane k as the solve before has left it; tangents are found anew
template <class T>
FB_FN bool keep_lane(Work<T>& w, int k) {
  const auto put = [&](const T* from, T* to, int at, int r) {
    set_world_number(to[r], k, number_of<double>(from[at], k));
  };
  ActiveSetSolution<T>& x = w.solution;
  for (int i = 0; i < w.ngroup; ++i) {
    const RowGroup& g = w.group[i];
    if (g.before < 0 || !mask_lane(w.geometry[i].active, k)) continue;
    for (int e = 0; e < g.rows; ++e) {
      put(w.last.lam, x.lam, g.before + e, g.row + e);
      put(w.last.D, x.D, g.before + e, g.row + e);
      put(w.last.descent, x.descent, g.before + e, g.row + e);
    }
  }
  put(&w.last.residual, &x.residual, 0, 0);
  put(&w.last.factorisations, &x.factorisations, 0, 0);
  return !mask_lane(w.last.unconverged, k);
}
// lane k by itself, island by island; false where one is not solved, not even nearly.  A large lane
// has no other answer
template <class T>
FB_FN bool solve_lane(const Layout& s, Work<T>& w, int k, bool large) {
  WorldWork<double>& o = w.world;
  ActiveSetSolution<T>& x = w.solution;
  bool solved = true;
  double worst = 0;
  int factorisations = 0;
  const bool grown = large && w.last.any;
  const double before = large ? 0 : double(primal(number_of<WorldNumber<T>>(x.factorisations, k)));
  // where there is one island, the lanes' own Newton steps have failed on it or were not tried
  const WorldBegin begin = large || has_islands(s, w, k, o.islands) ? WorldBegin::sweeps
                           : before > 0                             ? WorldBegin::convex
                                                                    : WorldBegin::overfull;
  for_world_islands(s, w, k, o, [&] {
    if (o.rows.tolerance > 1e-8) o.rows.tolerance = 1e-8;
    set_before(w, k);
    if (grown) set_start(w, k);
    const WorldOutcome out = solve_island(w, begin, grown ? w.path.nearest : nullptr);
    solved = solved && out.solved;
    factorisations = out.factorisations > factorisations ? out.factorisations : factorisations;
    worst = out.residual > worst || !(out.residual == out.residual) ? out.residual : worst;
    for (int i = 0; i < o.rows.nrow; ++i) {
      const int r = o.row[i];
      set_world_number(x.lam[r], k, o.scratch.best[i]);
      if (!large) continue;
      set_world_number(x.D[r], k, o.rows.D[i]);
      set_world_number(x.descent[r], k, -o.scratch.w[i] / o.rows.D[i]);
    }
  });
  set_world_number(x.residual, k, worst);
  set_world_number(x.factorisations, k, before + factorisations);
  return solved;
}
template <class T>
FB_FN Mask<T> solve_lanes(const Layout& s, Work<T>& w, Mask<T> live, bool large) {
  for (int k = 0; k < kLanes<T>; ++k) {
    if (!mask_lane(live, k)) continue;
    const bool kept = large && w.last.any && !mask_lane(w.last.grown, k);
    if (kept ? keep_lane(w, k) : solve_lane(s, w, k, large)) set_mask_lane(live, k, false);
  }
  return live;
}
// impulses of the rows in w, and their tangents where T has some
template <class T>
FB_FN void solve_step(const Layout& s, Work<T>& w) {
  if (any(w.few)) {
    RowSolver<T>::solve(w.problem, w.few, w.solution,
                        [&](Mask<T> left) { return solve_lanes(s, w, left, false); });
    RowSolver<T>::tangent(w.problem, w.solution);
  }
  if (!any(w.large)) return;
  FB_STAGE(newton);
  if (!any(w.few)) {
    w.solution.sweeps = w.solution.factorisations = T(0);
    for (int r = 0; r < w.problem.nrow; ++r) {
      w.solution.lam[r] = w.solution.descent[r] = T(0);
      w.solution.D[r] = T(1);
    }
  }
  for (int r = 0; r < w.problem.nrow; ++r)
    w.solution.lam[r] = select(w.large, T(0), w.solution.lam[r]);
  w.solution.unconverged = w.solution.unconverged | solve_lanes(s, w, w.large, true);
  if constexpr (kTangent<T>)
    for (int k = 0; k < kLanes<T>; ++k) {
      if (!mask_lane(w.large, k)) continue;
      for_world_islands(s, w, k, w.one, [&] {
        open_solution(w, k);
        world_tangent(w.one.rows, w.one.scratch);
        row_velocities(w.one.rows, w.one.scratch.best, w.one.rows.b, w.one.scratch.y,
                       w.one.scratch.w);
        for (int i = 0; i < w.one.rows.nrow; ++i) {
          const int r = w.one.row[i];
          set_world_number(w.solution.lam[r], k, w.one.scratch.best[i]);
          set_world_number(w.solution.D[r], k, w.one.rows.D[i]);
          set_world_number(w.solution.descent[r], k, -(w.one.scratch.w[i] / w.one.rows.D[i]));
        }
      });
    }
}

// ---- derivatives

// bars of the open island's problem; those of the bounds where they are asked for
template <class T>
FB_FN void island_adjoint(Work<T>& w, int k, const RowProblemBar<T>& bar) {
  WorldWork<WorldNumber<T>>& o = w.one;
  open_solution(w, k);
  factor_solution(o.rows, o.scratch);
  for (int r = 0; r < o.rows.nrow; ++r)
    o.scratch.lam[r] = number_of<WorldNumber<T>>(w.lam_bar[o.row[r]], k);
  world_adjoint(o.rows, o.scratch);
  for (int r = 0; r < o.rows.nrow; ++r) {
    set_world_number(bar.z[o.row[r]], k, o.scratch.h[r]);
    if (!bar.lo) continue;
    WorldNumber<T> lo, hi;
    bound_bars(o.rows, o.scratch, r, lo, hi);
    set_world_number(bar.lo[o.row[r]], k, lo);
    set_world_number(bar.hi[o.row[r]], k, hi);
  }
  for (int b = 0; b < o.rows.nblock; ++b) {
    const RowBlock& at = o.rows.block[b];
    if (at.cone == kContactBlock)
      set_world_number(bar.mu[o.row[at.row]], k, friction_bar(o.rows, o.scratch, at));
    if (at.cone == kRimBlock) set_rim_bars(w, k, at, bar);
  }
}
// those of the coefficients of rims: of turning at the first row, of rolling at the second
template <class T>
FB_FN void set_rim_bars(Work<T>& w, int k, const RowBlock& at, const RowProblemBar<T>& bar) {
  using S = WorldNumber<T>;
  const WorldWork<S>& o = w.one;
  S sum[2] = {S(0), S(0)};
  o.rows.for_rims_beside(at.row - 3, [&](const Rim& m) {
    sum[m.first > at.row] += rim_friction_bar(o.rows, o.scratch, m);
  });
  set_world_number(bar.mu[o.row[at.row]], k, sum[0]);
  if (at.rows == 3) set_world_number(bar.mu[o.row[at.row + 1]], k, sum[1]);
}
// w.lam_bar to the cotangents of the problem, all of them set: bounds matter to dry friction alone,
// which has its rows in every lane
template <class T>
FB_FN void solve_step_adjoint(const Layout& s, Work<T>& w, const RowProblemBar<T>& bar) {
  if (any(w.few)) RowSolver<T>::adjoint(w.problem, w.solution, w.lam_bar, bar);
  if (!any(w.large)) return;
  for (int r = 0; r < w.problem.nrow; ++r) {
    bar.z[r] = select(w.few, bar.z[r], T(0));
    bar.mu[r] = select(w.few, bar.mu[r], T(0));
  }
  for (int k = 0; k < kLanes<T>; ++k)
    if (mask_lane(w.large, k))
      for_world_islands(s, w, k, w.one, [&] { island_adjoint(w, k, bar); });
}

// (V.8)  dlam = C t, t + G G' C t = c, for n columns of the open island
template <class T>
FB_FN void island_columns(Work<T>& w, int k, int n, T* C) {
  WorldWork<WorldNumber<T>>& o = w.one;
  open_solution(w, k);
  factor_solution(o.rows, o.scratch);
  for (int c = 0; c < n; ++c) {
    for (int r = 0; r < o.rows.nrow; ++r)
      o.scratch.lam[r] = number_of<WorldNumber<T>>(C[size_t(o.row[r]) * n + c], k);
    solve_rates_twice(o.rows, o.scratch, false);
    for (int r = 0; r < o.rows.nrow; ++r)
      set_world_number(C[size_t(o.row[r]) * n + c], k, o.scratch.h[r]);
  }
}
// changes of the row velocities with the opposite sign in, changes of the impulses out; lanes with
// few rows and lanes with many are not taken together
template <class T>
FB_FN void solve_step_columns(const Layout& s, Work<T>& w, int n, T* C) {
  if (any(w.few)) return RowSolver<T>::columns(w.problem, w.solution, n, C);
  for (int k = 0; k < kLanes<T>; ++k)
    if (mask_lane(w.large, k))
      for_world_islands(s, w, k, w.one, [&] { island_columns(w, k, n, C); });
}

}  // namespace fb::FB_ISA
