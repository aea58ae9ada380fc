// Projected Gauss-Seidel sweeps over the rows, which find the active set, and what a solution of
// theirs carries.  Proof: docs/derivations/solver.md.
#pragma once
#include "core/number/panel.hpp"
#include "core/solver/problem.hpp"

namespace fb::FB_ISA {

// scratch of the reversed sweeps (unrolled.hpp)
template <class T>
struct ReversedSweeps {
  T *lam, *descent;     // of the sweeps run again
  int block;            // sweeps whose states are kept at once
  T* history;           // impulses before each sweep of a block, block * nrow
  T* begin;             // impulses and descents where each block begins
  T* now;               // impulses within a sweep
  T *lam_bar, *D_bar;   // cotangents of the impulses and of the fixed point's diagonal
  T *z, *mu, *lo, *hi;  // cotangents of the problem, in all lanes
};

// the fixed point lam = P(lam + descent) with D and the scaled A beside it.  Everything is found by
// solve and read by its derivatives; scratch is alive within one call only
template <class T>
struct ActiveSetSolution : RowSolution<T> {
  T* A_scaled;                // A_ij / D_j, laid out as the problem's A
  T* D;                       // diagonal of the fixed point
  T *descent, *descent0;      // -(A lam + b) / D, n of the proof; the same where lam is zero
  T* inv_D;                   // scratch of prepare_rows
  T *lu, *rhs;                // scratch: an island's linear system
  int* order;                 // scratch: its rows
  T* best_lam;                // scratch of newton_rounds
  T *swept_lam, *solved_lam;  // scratch of the tangents
  ReversedSweeps<T> reversed;
};

// (S.1)  D: the diagonal, and for a tangent pair of a cone the larger eigenvalue of its block.
// Sets D, A_scaled = A D^-1 and descent = descent0 = -b / D
template <class T>
FB_FN void prepare_rows(const RowProblem<T>& p, ActiveSetSolution<T>& s) {
  using R = Real<T>;
  for_islands(p, [&](const Island& is) {
    const int first = is.first, n = is.n;
    const T* A = p.A + is.at;
    T* scaled = s.A_scaled + is.at;
    for (int i = 0; i < n;) {
      const int rows = p.cone[first + i] ? 3 : 1;
      for (int e = 0; e < rows; ++e) {
        const T d = A[(i + e) * n + i + e];
        s.D[first + i + e] = select(d > T(0), d, T(1));
      }
      if (rows == 3 && p.options.friction == kConeFriction) {
        const T a = A[(i + 1) * n + i + 1], c = A[(i + 2) * n + i + 2], o = A[(i + 1) * n + i + 2];
        const T half = (a - c) * R(0.5);
        const T top = (a + c) * R(0.5) + sqrt(dot2(half, half, o, o));
        s.D[first + i + 1] = s.D[first + i + 2] = select(top > T(0), top, T(1));
      }
      i += rows;
    }
    for (int j = 0; j < n; ++j) {
      const T inv = T(1) / s.D[first + j];
      s.inv_D[j] = inv;
      s.descent[first + j] = s.descent0[first + j] = -(p.b[first + j] * inv);
    }
    for (int i = 0; i < n; ++i)
      for_columns<T>(n, [&]<class V>(int j, V) {
        put_numbers(numbers_at<V>(A + i * n + j) * numbers_at<V>(s.inv_D + j), scaled + i * n + j);
      });
  });
}

// (S.2)  the point of the disc of radius r nearest to x, and the factor that takes x there
template <class T>
FB_INLINE T disc_factor(T x1, T x2, T r) {
  const T n2 = dot2(x1, x1, x2, x2);
  const Mask<T> outside = n2 > r * r;
  if (!any(outside)) return T(1);
  return select(outside, r / sqrt(select(outside, n2, T(1))), T(1));
}

// the tangents x = (t1, t2) of a contact, taken to the disc or box of this radius
template <class T>
FB_INLINE void project_tangents(const RowProblem<T>& p, T radius, T& t1, T& t2) {
  if (p.options.friction == kBoxFriction) {
    t1 = clamp(t1, -radius, radius);
    t2 = clamp(t2, -radius, radius);
  } else {
    const T f = disc_factor(t1, t2, radius);
    t1 = t1 * f;
    t2 = t2 * f;
  }
}

// (S.3)  one sweep: each row, then each tangent pair, takes its clamped step and the descents
// follow; frozen where not live
template <class T>
FB_FN void sweep_rows(const RowProblem<T>& p, ActiveSetSolution<T>& s, Mask<T> live) {
  for_islands(p, [&](const Island& is) {
    const int first = is.first, n = is.n;
    T* g = s.descent + first;
    for (int i = 0; i < n;) {
      const int r = first + i;
      // d = clamp(lam + n, lo, hi) - lam
      const T now = s.lam[r];
      const T d = select(live, min(max(g[i], p.lo[r] - now), p.hi[r] - now), T(0));
      s.lam[r] = now + d;
      const T* A0 = s.A_scaled + is.at + i * n;
      if (!p.cone[r]) {
        for_columns<T>(n, [&]<class V>(int j, V) {
          put_numbers(sub_mul(numbers_at<V>(g + j), numbers_at<V>(A0 + j), V(d)), g + j);
        });
        i += 1;
        continue;
      }
      // (d1, d2) = P(lam_t + n_t) - lam_t, with the radius of the new normal
      T t1 = s.lam[r + 1] + sub_mul(g[i + 1], A0[i + 1], d);
      T t2 = s.lam[r + 2] + sub_mul(g[i + 2], A0[i + 2], d);
      project_tangents(p, p.mu[r] * s.lam[r], t1, t2);
      const T d1 = select(live, t1 - s.lam[r + 1], T(0)),
              d2 = select(live, t2 - s.lam[r + 2], T(0));
      s.lam[r + 1] += d1;
      s.lam[r + 2] += d2;
      const T *A1 = A0 + n, *A2 = A1 + n;
      for_columns<T>(n, [&]<class V>(int j, V) {
        V x = sub_mul(numbers_at<V>(g + j), numbers_at<V>(A0 + j), V(d));
        x = sub_mul(x, numbers_at<V>(A1 + j), V(d1));
        put_numbers(sub_mul(x, numbers_at<V>(A2 + j), V(d2)), g + j);
      });
      i += 3;
    }
  });
}

// (S.4)  residual: the largest D |lam - P(lam - (A lam + b) / D)|, a velocity
template <class T>
FB_FN T row_residual(const RowProblem<T>& p, const ActiveSetSolution<T>& s) {
  T worst = T(0);
  const auto see = [&](T e, T D) {
    const T x = abs(e) * D;
    worst = select(x > worst, x, select(x == x, worst, x));
  };
  for (int r = 0; r < p.nrow;) {
    see(min(max(s.lam[r] + s.descent[r], p.lo[r]), p.hi[r]) - s.lam[r], s.D[r]);
    if (!p.cone[r]) {
      r += 1;
      continue;
    }
    T t1 = s.lam[r + 1] + s.descent[r + 1], t2 = s.lam[r + 2] + s.descent[r + 2];
    project_tangents(p, p.mu[r] * s.lam[r], t1, t2);
    see(t1 - s.lam[r + 1], s.D[r + 1]);
    see(t2 - s.lam[r + 2], s.D[r + 2]);
    r += 3;
  }
  return worst;
}

// N numbers V of -(A lam + b) / D in one island, from j on, kept in registers
template <class V, int N, class T>
FB_INLINE void fresh_descent(ActiveSetSolution<T>& s, const Island& is, int j, Mask<T> where) {
  constexpr int W = std::is_same_v<V, T> ? 1 : kPanel<T>;
  const T* A = s.A_scaled + is.at + j;
  V g[N];
#pragma GCC unroll 6
  for (int c = 0; c < N; ++c) g[c] = numbers_at<V>(s.descent0 + is.first + j + c * W);
  for (int i = 0; i < is.n; ++i) {
    const V lam(s.lam[is.first + i]);
#pragma GCC unroll 6
    for (int c = 0; c < N; ++c) g[c] = sub_mul(g[c], numbers_at<V>(A + i * is.n + c * W), lam);
  }
#pragma GCC unroll 6
  for (int c = 0; c < N; ++c) {
    T* out = s.descent + is.first + j + c * W;
    if constexpr (W > 1) {
      if (where) put_numbers(g[c], out);
    } else {
      *out = select(where, g[c], *out);
    }
  }
}
// recompute the descents in the lanes of `where`; the others keep theirs to the last bit
template <class T>
FB_FN void refresh_descent(const RowProblem<T>& p, ActiveSetSolution<T>& s, Mask<T> where) {
  constexpr int W = kPanel<T>;
  for_islands(p, [&](const Island& is) {
    int j = 0;
    if constexpr (W > 1) {
      for (; j + 3 * W <= is.n; j += 3 * W) fresh_descent<Panel<T>, 3>(s, is, j, where);
      for (; j + W <= is.n; j += W) fresh_descent<Panel<T>, 1>(s, is, j, where);
    }
    for (; j + 6 <= is.n; j += 6) fresh_descent<T, 6>(s, is, j, where);
    for (; j + 3 <= is.n; j += 3) fresh_descent<T, 3>(s, is, j, where);
    for (; j < is.n; ++j) fresh_descent<T, 1>(s, is, j, where);
  });
}

}  // namespace fb::FB_ISA
