// The adjoint of a solve by its sweeps, reversed one by one: exact for what was executed, converged
// or not. Proof: docs/derivations/solver.md.
#pragma once
#include "core/solver/newton.hpp"

namespace fb::FB_ISA {

// what the reversed sweeps give back, added to: cotangents of b (as z = -b_bar), mu, bounds, and A
// (dense by island)
template <class T>
struct UnrolledBars {
  T *z, *mu, *lo, *hi, *A;
  T* D;        // scratch: cotangent of the fixed point's diagonal
  T* history;  // scratch: impulses before each sweep, max_sweeps * nrow
  T* now;      // scratch: impulses within a sweep
};

// (U.1)  w = A lam + b of one row: A is kept scaled, A_ij / D_j
template <class T>
FB_INLINE T row_rate(const RowProblem<T>& p, const T* A, int first, int n, int i, const T* lam) {
  T w = T(0);
  for (int j = 0; j < n; ++j) w = mul_add(A[j * n + i], lam[first + j], w);
  return mul_add(w, p.D[first + i], p.b[first + i]);
}
// (U.2)  x = lam - w / D of one row: given x_bar, add to bars of lam, b, A and D
template <class T>
FB_INLINE void row_step_adjoint(const RowProblem<T>& p, const T* A, int first, int n, int i,
                                T x_bar, T w, T* lam_bar, T* A_bar, const UnrolledBars<T>& bars) {
  const T D = p.D[first + i], w_bar = -(x_bar / D);
  lam_bar[first + i] = x_bar;
  bars.z[first + i] -= w_bar;
  bars.D[first + i] += x_bar * w / (D * D);
  for (int j = 0; j < n; ++j) {
    lam_bar[first + j] = mul_add(A[j * n + i] * D, w_bar, lam_bar[first + j]);
    A_bar[i * n + j] = mul_add(w_bar, bars.now[first + j], A_bar[i * n + j]);
  }
}

// (U.3)  the tangents of one contact: now holds the new normal and, after this, the old tangents
template <class T>
FB_FN void tangent_step_adjoint(const RowProblem<T>& p, const T* A, int first, int n, int i,
                                const T* old, T* lam_bar, T* A_bar, const UnrolledBars<T>& bars) {
  const int r = first + i;
  T x[2], w[2], out_bar[2], x_bar[2];
  for (int e = 0; e < 2; ++e) {
    bars.now[r + 1 + e] = old[r + 1 + e];
    out_bar[e] = lam_bar[r + 1 + e];
  }
  for (int e = 0; e < 2; ++e) {
    w[e] = row_rate(p, A, first, n, i + 1 + e, bars.now);
    x[e] = old[r + 1 + e] - w[e] / p.D[r + 1 + e];
  }
  const T radius = p.mu[r] * bars.now[r], zero = T(0);
  T radius_bar = zero;
  if (p.box_friction) {
    for (int e = 0; e < 2; ++e) {
      const Mask<T> outside = abs(x[e]) > radius;
      radius_bar += select(outside, select(x[e] < zero, -out_bar[e], out_bar[e]), zero);
      x_bar[e] = select(outside, zero, out_bar[e]);
    }
  } else {
    const T n2 = dot2(x[0], x[0], x[1], x[1]);
    const Mask<T> outside = n2 > radius * radius;
    const T inv = T(1) / sqrt(select(outside, n2, T(1)));
    const T e1 = x[0] * inv, e2 = x[1] * inv, along = e1 * out_bar[0] + e2 * out_bar[1];
    radius_bar = select(outside, along, zero);
    x_bar[0] = select(outside, (out_bar[0] - e1 * along) * radius * inv, out_bar[0]);
    x_bar[1] = select(outside, (out_bar[1] - e2 * along) * radius * inv, out_bar[1]);
  }
  bars.mu[r] += radius_bar * bars.now[r];
  lam_bar[r] += radius_bar * p.mu[r];
  // both tangents read the old pair: their own bars are replaced before either adds to the other's
  lam_bar[r + 1] = lam_bar[r + 2] = zero;
  T keep = zero;
  row_step_adjoint(p, A, first, n, i + 1, x_bar[0], w[0], lam_bar, A_bar, bars);
  keep = lam_bar[r + 2];
  row_step_adjoint(p, A, first, n, i + 2, x_bar[1], w[1], lam_bar, A_bar, bars);
  lam_bar[r + 2] += keep;
}

// (U.4)  one sweep of one island backwards; `old` are
// the impulses before it, `now` those after it on entry
template <class T>
FB_FN void sweep_rows_adjoint(const RowProblem<T>& p, const T* A, int first, int n, const T* old,
                              T* lam_bar, T* A_bar, const UnrolledBars<T>& bars) {
  for (int i = n - 1; i >= 0; --i) {
    const int r = first + i;
    if (i >= 2 && p.cone[r - 2]) {
      i -= 2;
      tangent_step_adjoint(p, A, first, n, i, old, lam_bar, A_bar, bars);
    }
    const int row = first + i;
    const T out_bar = lam_bar[row], zero = T(0);
    bars.now[row] = old[row];
    const T w = row_rate(p, A, first, n, i, bars.now);
    const T x = old[row] - w / p.D[row];
    const Mask<T> low = x<p.lo[row], high = x> p.hi[row];
    bars.lo[row] += select(low, out_bar, zero);
    bars.hi[row] += select(high, out_bar, zero);
    row_step_adjoint(p, A, first, n, i, select(low | high, zero, out_bar), w, lam_bar, A_bar, bars);
  }
}

// (U.5)  the diagonal D is made of A: its entries, and the larger eigenvalue of a tangent pair
template <class T>
FB_FN void prepare_rows_adjoint(const RowProblem<T>& p, const T* A, int first, int n, T* A_bar,
                                const UnrolledBars<T>& bars) {
  using R = Real<T>;
  for (int i = 0; i < n;) {
    const int r = first + i;
    A_bar[i * n + i] += bars.D[r];
    if (!p.cone[r]) {
      i += 1;
      continue;
    }
    const T a = A[(i + 1) * n + i + 1] * p.D[r + 1], c = A[(i + 2) * n + i + 2] * p.D[r + 2];
    const T o = A[(i + 1) * n + i + 2] * p.D[r + 2], half = (a - c) * R(0.5);
    const T root = sqrt(dot2(half, half, o, o));
    const T inv = T(1) / select(root > T(0), root, T(1));
    const T D_bar = bars.D[r + 1] + bars.D[r + 2], tilt = half * inv * R(0.5);
    if (p.box_friction) {
      A_bar[(i + 1) * n + i + 1] += bars.D[r + 1];
      A_bar[(i + 2) * n + i + 2] += bars.D[r + 2];
    } else {
      A_bar[(i + 1) * n + i + 1] += D_bar * (T(R(0.5)) + tilt);
      A_bar[(i + 2) * n + i + 2] += D_bar * (T(R(0.5)) - tilt);
      A_bar[(i + 1) * n + i + 2] += D_bar * o * inv;
    }
    i += 3;
  }
}

// (U.6)  the whole solve: run the sweeps again from zero, keeping every state, then back.  Lanes
// outside `live` get zero bars
template <class T>
FB_FN void solve_rows_unrolled_adjoint(RowProblem<T>& p, const T* lam_bar_in, Mask<T> live,
                                       T* lam_bar, const UnrolledBars<T>& bars) {
  size_t numbers = 0;
  for (int k = 0; k < p.nisland; ++k) {
    const size_t n = p.island_row[k + 1] - p.island_row[k];
    numbers += n * n;
  }
  for (size_t i = 0; i < numbers; ++i) bars.A[i] = T(0);
  for (int r = 0; r < p.nrow; ++r) {
    lam_bar[r] = select(live, lam_bar_in[r], T(0));
    bars.D[r] = bars.z[r] = T(0);
    p.lam[r] = T(0);
  }
  refresh_gradient(p, Mask<T>(true));
  // lanes that took fewer sweeps start later, so that all end together
  int count = 0;
  while (count < p.max_sweeps && any(live & (p.sweeps > T(count)))) ++count;
  const auto started = [&](int s) { return p.sweeps + T(s) >= T(count); };
  for (int s = 0; s < count; ++s) {
    for (int r = 0; r < p.nrow; ++r) bars.history[size_t(s) * p.nrow + r] = p.lam[r];
    sweep_rows(p, started(s));
  }
  for (int r = 0; r < p.nrow; ++r) bars.now[r] = p.lam[r];
  for (int s = count - 1; s >= 0; --s) {
    // before its first sweep a lane has nothing left to pass on
    for (int r = 0; r < p.nrow; ++r) lam_bar[r] = select(started(s), lam_bar[r], T(0));
    const T* old = bars.history + size_t(s) * p.nrow;
    const T* A = p.A;
    T* A_bar = bars.A;
    for (int k = 0; k < p.nisland; ++k) {
      const int first = p.island_row[k], n = p.island_row[k + 1] - first;
      sweep_rows_adjoint(p, A, first, n, old, lam_bar, A_bar, bars);
      A += n * n;
      A_bar += n * n;
    }
  }
  const T* A = p.A;
  T* A_bar = bars.A;
  for (int k = 0; k < p.nisland; ++k) {
    const int first = p.island_row[k], n = p.island_row[k + 1] - first;
    prepare_rows_adjoint(p, A, first, n, A_bar, bars);
    A += n * n;
    A_bar += n * n;
  }
}

}  // namespace fb::FB_ISA
