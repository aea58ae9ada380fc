// The adjoint of a solve by its sweeps, reversed one by one: exact for what was executed, converged
// or not.  Proof: docs/derivations/solver.md.
#pragma once
#include "core/solver/newton.hpp"

namespace fb::FB_ISA {

// one island of the reversed sweeps
template <class T>
struct SweptIsland {
  int first, n;
  const T* A;  // A_ij / D_j
  T* A_bar;
};
template <class T>
FB_INLINE SweptIsland<T> swept_island(const ActiveSetSolution<T>& s, const Island& is, T* A_bar) {
  return {is.first, is.n, s.A_scaled + is.at, A_bar + is.at};
}

// (U.1)  w = A lam + b of one row
template <class T>
FB_INLINE T row_rate(const RowProblem<T>& p, const ActiveSetSolution<T>& s,
                     const SweptIsland<T>& is, int i, const T* lam) {
  T w = T(0);
  for (int j = 0; j < is.n; ++j) w = mul_add(is.A[j * is.n + i], lam[is.first + j], w);
  return mul_add(w, s.D[is.first + i], p.b[is.first + i]);
}
// (U.2)  x = lam - w / D of one row: given x_bar, add to bars of lam, b, A and D
template <class T>
FB_INLINE void row_step_adjoint(const ActiveSetSolution<T>& s, const SweptIsland<T>& is, int i,
                                T x_bar, T w) {
  const ReversedSweeps<T>& bar = s.reversed;
  const int first = is.first, n = is.n;
  const T D = s.D[first + i], w_bar = -(x_bar / D);
  bar.lam_bar[first + i] = x_bar;
  bar.z[first + i] -= w_bar;
  bar.D_bar[first + i] += x_bar * w / (D * D);
  // lam_bar += A_i w_bar, A_bar_i += w_bar lam'
  for (int j = 0; j < n; ++j) {
    bar.lam_bar[first + j] = mul_add(is.A[j * n + i] * D, w_bar, bar.lam_bar[first + j]);
    is.A_bar[i * n + j] = mul_add(w_bar, bar.now[first + j], is.A_bar[i * n + j]);
  }
}

// (U.3)  the tangents of one contact: now holds the new normal and, after this, the old tangents
template <class T>
FB_FN void tangent_step_adjoint(const RowProblem<T>& p, const ActiveSetSolution<T>& s,
                                const SweptIsland<T>& is, int i, const T* old) {
  const ReversedSweeps<T>& bar = s.reversed;
  const int r = is.first + i;
  T x[2], w[2], out_bar[2], x_bar[2];
  for (int e = 0; e < 2; ++e) {
    bar.now[r + 1 + e] = old[r + 1 + e];
    out_bar[e] = bar.lam_bar[r + 1 + e];
  }
  for (int e = 0; e < 2; ++e) {
    w[e] = row_rate(p, s, is, i + 1 + e, bar.now);
    x[e] = old[r + 1 + e] - w[e] / s.D[r + 1 + e];
  }
  const T radius = p.mu[r] * bar.now[r], zero = T(0);
  T radius_bar = zero;
  if (p.options.friction == kBoxFriction) {
    // lam_t = clamp(x, -radius, radius)
    for (int e = 0; e < 2; ++e) {
      const Mask<T> outside = abs(x[e]) > radius;
      radius_bar += select(outside, select(x[e] < zero, -out_bar[e], out_bar[e]), zero);
      x_bar[e] = select(outside, zero, out_bar[e]);
    }
  } else {
    // lam_t = radius e on the rim, x inside
    const T n2 = dot2(x[0], x[0], x[1], x[1]);
    const Mask<T> outside = n2 > radius * radius;
    const T inv = T(1) / sqrt(select(outside, n2, T(1)));
    const T e1 = x[0] * inv, e2 = x[1] * inv, along = e1 * out_bar[0] + e2 * out_bar[1];
    radius_bar = select(outside, along, zero);
    x_bar[0] = select(outside, (out_bar[0] - e1 * along) * radius * inv, out_bar[0]);
    x_bar[1] = select(outside, (out_bar[1] - e2 * along) * radius * inv, out_bar[1]);
  }
  bar.mu[r] += radius_bar * bar.now[r];
  bar.lam_bar[r] += radius_bar * p.mu[r];
  // both tangents read the old pair: their own bars are replaced before either adds to the other's
  bar.lam_bar[r + 1] = bar.lam_bar[r + 2] = zero;
  row_step_adjoint(s, is, i + 1, x_bar[0], w[0]);
  const T from_first = bar.lam_bar[r + 2];
  row_step_adjoint(s, is, i + 2, x_bar[1], w[1]);
  bar.lam_bar[r + 2] += from_first;
}

// (U.4)  one sweep of one island backwards; `old` are the impulses before it, `now` those after it
// on entry
template <class T>
FB_FN void sweep_rows_adjoint(const RowProblem<T>& p, const ActiveSetSolution<T>& s,
                              const SweptIsland<T>& is, const T* old) {
  const ReversedSweeps<T>& bar = s.reversed;
  for (int i = is.n - 1; i >= 0; --i) {
    if (i >= 2 && p.cone[is.first + i - 2]) {
      i -= 2;
      tangent_step_adjoint(p, s, is, i, old);
    }
    // lam = clamp(x, lo, hi)
    const int r = is.first + i;
    const T out_bar = bar.lam_bar[r], zero = T(0);
    bar.now[r] = old[r];
    const T w = row_rate(p, s, is, i, bar.now);
    const T x = old[r] - w / s.D[r];
    const Mask<T> low = x < p.lo[r];
    const Mask<T> high = x > p.hi[r];
    bar.lo[r] += select(low, out_bar, zero);
    bar.hi[r] += select(high, out_bar, zero);
    row_step_adjoint(s, is, i, select(low | high, zero, out_bar), w);
  }
}

// (U.5)  the diagonal D is made of A: its entries, and the larger eigenvalue of a tangent pair
template <class T>
FB_FN void prepare_rows_adjoint(const RowProblem<T>& p, const ActiveSetSolution<T>& s,
                                const SweptIsland<T>& is) {
  using R = Real<T>;
  const T *A = is.A, *D_bar = s.reversed.D_bar;
  T* A_bar = is.A_bar;
  const int n = is.n;
  for (int i = 0; i < n;) {
    const int r = is.first + i;
    A_bar[i * n + i] += D_bar[r];
    if (!p.cone[r]) {
      i += 1;
      continue;
    }
    // D = (a + c) / 2 + root of both tangents of a cone, root = |((a - c) / 2, o)|
    if (p.options.friction == kBoxFriction) {
      A_bar[(i + 1) * n + i + 1] += D_bar[r + 1];
      A_bar[(i + 2) * n + i + 2] += D_bar[r + 2];
    } else {
      // A over D, which both share: only ratios are asked for
      const T a = A[(i + 1) * n + i + 1], c = A[(i + 2) * n + i + 2];
      const T o = A[(i + 1) * n + i + 2], half = (a - c) * R(0.5);
      const T root = sqrt(dot2(half, half, o, o));
      const T inv = T(1) / select(root > T(0), root, T(1));
      const T sum_bar = D_bar[r + 1] + D_bar[r + 2], tilt = half * inv * R(0.5);
      A_bar[(i + 1) * n + i + 1] += sum_bar * (T(R(0.5)) + tilt);
      A_bar[(i + 2) * n + i + 2] += sum_bar * (T(R(0.5)) - tilt);
      A_bar[(i + 1) * n + i + 2] += sum_bar * o * inv;
    }
    i += 3;
  }
}

// sweeps whose states are kept at once: the fewest numbers where each block begins with two rows
FB_FN int sweep_block(int max_sweeps) {
  int n = 1;
  while (n * n < 2 * max_sweeps) ++n;
  return n;
}
// lanes that took fewer sweeps start later, so that all end together
template <class T>
FB_INLINE Mask<T> has_started(const ActiveSetSolution<T>& s, int sweep, int count) {
  return s.sweeps + T(sweep) >= T(count);
}
// the executed sweeps again, from zero; the solution itself is not touched
template <class T>
struct SweepsAgain {
  const RowProblem<T>& p;
  ActiveSetSolution<T> state;
  int count, block;  // sweeps in all, and in a block

  FB_FN SweepsAgain(const RowProblem<T>& problem, const ActiveSetSolution<T>& s)
      : p(problem), state(s), count(0), block(s.reversed.block) {
    state.lam = s.reversed.lam;
    state.descent = s.reversed.descent;
    for (int r = 0; r < p.nrow; ++r) state.lam[r] = T(0);
    refresh_descent(p, state, Mask<T>(true));
    while (count < p.options.max_sweeps && any(s.unrolled & (s.sweeps > T(count)))) ++count;
  }
  FB_INLINE int last(int first) const { return first + block < count ? first + block : count; }
  FB_INLINE T* begin(int first) const {
    return state.reversed.begin + size_t(2) * (first / block) * p.nrow;
  }
  // the state before sweep `first` is kept, or taken from where it was kept
  FB_FN void keep(int first) {
    for (int r = 0; r < p.nrow; ++r) {
      begin(first)[r] = state.lam[r];
      begin(first)[p.nrow + r] = state.descent[r];
    }
  }
  FB_FN void take(int first) {
    for (int r = 0; r < p.nrow; ++r) {
      state.lam[r] = begin(first)[r];
      state.descent[r] = begin(first)[p.nrow + r];
    }
  }
  // the sweeps of one block, their states in history
  FB_FN void run(int first) {
    for (int k = first; k < last(first); ++k) {
      T* row = state.reversed.history + size_t(k - first) * p.nrow;
      for (int r = 0; r < p.nrow; ++r) row[r] = state.lam[r];
      sweep_rows(p, state, has_started(state, k, count));
    }
  }
};

// (U.6)  the whole solve in the lanes of `unrolled`: run the sweeps again from zero, keeping the states
// where blocks begin, then back block by block.  Sets the cotangents there; other lanes get zero bars
// of A and keep the others
template <class T>
FB_FN void solve_rows_unrolled_adjoint(const RowProblem<T>& p, const ActiveSetSolution<T>& s,
                                       const T* lam_bar, const RowProblemBar<T>& bar) {
  const ReversedSweeps<T>& u = s.reversed;
  const Mask<T> live = s.unrolled;
  for_islands(p, [&](const Island& is) {
    for (int i = 0; i < is.n * is.n; ++i) bar.A[is.at + i] = T(0);
  });
  for (int r = 0; r < p.nrow; ++r) {
    u.lam_bar[r] = select(live, lam_bar[r], T(0));
    u.D_bar[r] = u.z[r] = u.mu[r] = u.lo[r] = u.hi[r] = T(0);
  }
  SweepsAgain<T> again(p, s);
  int first = 0;
  for (; first < again.count; first += again.block) {
    again.keep(first);
    again.run(first);
  }
  for (int r = 0; r < p.nrow; ++r) u.now[r] = u.lam[r];
  for (int end = again.count; end > 0; end = first) {
    // the states of the last block are still there
    first = (end - 1) / again.block * again.block;
    if (end < again.count) {
      again.take(first);
      again.run(first);
    }
    for (int k = end - 1; k >= first; --k) {
      // before its first sweep a lane has nothing left to pass on
      for (int r = 0; r < p.nrow; ++r)
        u.lam_bar[r] = select(has_started(s, k, again.count), u.lam_bar[r], T(0));
      const T* old = u.history + size_t(k - first) * p.nrow;
      for_islands(
          p, [&](const Island& is) { sweep_rows_adjoint(p, s, swept_island(s, is, bar.A), old); });
    }
  }
  for_islands(p, [&](const Island& is) { prepare_rows_adjoint(p, s, swept_island(s, is, bar.A)); });
  for (int r = 0; r < p.nrow; ++r) {
    bar.z[r] = select(live, u.z[r], bar.z[r]);
    bar.mu[r] = select(live, u.mu[r], bar.mu[r]);
    if (bar.lo) bar.lo[r] = select(live, u.lo[r], bar.lo[r]);
    if (bar.hi) bar.hi[r] = select(live, u.hi[r], bar.hi[r]);
  }
}

}  // namespace fb::FB_ISA
