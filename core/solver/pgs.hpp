// The mixed complementarity problem of one step: w = A lam + b, bounded rows and friction cones.
// Projected Gauss-Seidel sweeps find the active set, Newton steps on it finish.  Pure algebra; rows
// of one island are dense among themselves and zero elsewhere. Proof: docs/derivations/solver.md.
#pragma once
#include "core/model/schema.hpp"

namespace fb::FB_ISA {

template <class T>
struct RowProblem {
  int nrow, nisland;
  const int* island_row;  // first row of each island, then nrow
  const int* cone;        // 1 at the normal of a three-row contact, 0 elsewhere
  T* A;                   // per island n x n, concatenated; scaled by prepare_rows to A_ij / D_j
  const T *b, *lo, *hi;   // bounds of bounded rows and of normals
  const T* mu;            // at the normal row
  T *lam, *n, *D;         // impulse; -(A lam + b) / D; diagonal of the fixed point
  T* n0;                  // n where lam is zero
  T *lu, *rhs, *keep, *spare;
  int* order;
  Real<T> tolerance, step_scale;  // reach: the Newton step looks at lam + reach n
  int max_sweeps, box_friction, newton, gradient;
  T residual, sweeps;
  Mask<T> unconverged, unrolled;  // unrolled: its derivative is that of the sweeps
};

// (S.1)  D: the diagonal, and for a tangent pair of a cone the larger eigenvalue of its block
template <class T>
FB_FN void prepare_rows(RowProblem<T>& p) {
  using R = Real<T>;
  T* A = p.A;
  for (int k = 0; k < p.nisland; ++k) {
    const int first = p.island_row[k], n = p.island_row[k + 1] - first;
    for (int i = 0; i < n;) {
      const int rows = p.cone[first + i] ? 3 : 1;
      for (int e = 0; e < rows; ++e) {
        const T d = A[(i + e) * n + i + e];
        p.D[first + i + e] = select(d > T(0), d, T(1));
      }
      if (rows == 3 && !p.box_friction) {
        const T a = A[(i + 1) * n + i + 1], c = A[(i + 2) * n + i + 2], o = A[(i + 1) * n + i + 2];
        const T half = (a - c) * R(0.5);
        const T top = (a + c) * R(0.5) + sqrt(dot2(half, half, o, o));
        p.D[first + i + 1] = p.D[first + i + 2] = select(top > T(0), top, T(1));
      }
      i += rows;
    }
    for (int j = 0; j < n; ++j) {
      const T inv = T(1) / p.D[first + j];
      p.rhs[first + j] = inv;
      p.n[first + j] = p.n0[first + j] = -(p.b[first + j] * inv);
    }
    for (int i = 0; i < n; ++i)
      for (int j = 0; j < n; ++j) A[i * n + j] = A[i * n + j] * p.rhs[first + j];
    A += n * n;
  }
}

// (S.2)  the point of the disc of radius r nearest to x, and the factor that takes x there
template <class T>
FB_INLINE T disc_factor(T x1, T x2, T r) {
  const T n2 = dot2(x1, x1, x2, x2);
  const Mask<T> outside = n2 > r * r;
  if (!any(outside)) return T(1);
  return select(outside, r / sqrt(select(outside, n2, T(1))), T(1));
}

// new tangents of a contact for x = lam + n, given n
template <class T>
FB_INLINE void project_tangents(const RowProblem<T>& p, int r, T n1, T n2, T radius, T& t1, T& t2) {
  const T x1 = p.lam[r + 1] + n1, x2 = p.lam[r + 2] + n2;
  if (p.box_friction) {
    t1 = clamp(x1, -radius, radius);
    t2 = clamp(x2, -radius, radius);
  } else {
    const T f = disc_factor(x1, x2, radius);
    t1 = x1 * f;
    t2 = x2 * f;
  }
}

// (S.3)  one sweep: each row, then each tangent pair, takes its clamped step and the gradients
// follow; frozen where not live
template <class T>
FB_FN void sweep_rows(RowProblem<T>& p, Mask<T> live) {
  const T* A = p.A;
  for (int k = 0; k < p.nisland; ++k) {
    const int first = p.island_row[k], n = p.island_row[k + 1] - first;
    T* g = p.n + first;
    for (int i = 0; i < n;) {
      const int r = first + i;
      const T now = p.lam[r];
      const T d = select(live, min(max(g[i], p.lo[r] - now), p.hi[r] - now), T(0));
      p.lam[r] = now + d;
      const T* A0 = A + i * n;
      if (!p.cone[r]) {
        for (int j = 0; j < n; ++j) g[j] = sub_mul(g[j], A0[j], d);
        i += 1;
        continue;
      }
      T t1, t2;
      const T g1 = sub_mul(g[i + 1], A0[i + 1], d), g2 = sub_mul(g[i + 2], A0[i + 2], d);
      project_tangents(p, r, g1, g2, p.mu[r] * p.lam[r], t1, t2);
      const T d1 = select(live, t1 - p.lam[r + 1], T(0)),
              d2 = select(live, t2 - p.lam[r + 2], T(0));
      p.lam[r + 1] += d1;
      p.lam[r + 2] += d2;
      const T *A1 = A0 + n, *A2 = A1 + n;
      for (int j = 0; j < n; ++j)
        g[j] = sub_mul(sub_mul(sub_mul(g[j], A0[j], d), A1[j], d1), A2[j], d2);
      i += 3;
    }
    A += n * n;
  }
}

// (S.4)  residual: the largest D |lam - P(lam - (A lam + b) / D)|, a velocity
template <class T>
FB_FN T row_residual(const RowProblem<T>& p) {
  T worst = T(0);
  const auto see = [&](T e, T D) {
    const T x = abs(e) * D;
    worst = select(x > worst, x, select(x == x, worst, x));
  };
  for (int r = 0; r < p.nrow;) {
    see(min(max(p.lam[r] + p.n[r], p.lo[r]), p.hi[r]) - p.lam[r], p.D[r]);
    if (!p.cone[r]) {
      r += 1;
      continue;
    }
    T t1, t2;
    project_tangents(p, r, p.n[r + 1], p.n[r + 2], p.mu[r] * p.lam[r], t1, t2);
    see(t1 - p.lam[r + 1], p.D[r + 1]);
    see(t2 - p.lam[r + 2], p.D[r + 2]);
    r += 3;
  }
  return worst;
}

// N numbers of n = -(A lam + b) / D in one island, from j on, kept in registers
template <int N, class T>
FB_INLINE void fresh_gradient(const RowProblem<T>& p, const T* A, int first, int n, int j,
                              Mask<T> where) {
  T g[N];
#pragma GCC unroll 6
  for (int c = 0; c < N; ++c) g[c] = p.n0[first + j + c];
  for (int i = 0; i < n; ++i)
#pragma GCC unroll 6
    for (int c = 0; c < N; ++c) g[c] = sub_mul(g[c], A[i * n + j + c], p.lam[first + i]);
#pragma GCC unroll 6
  for (int c = 0; c < N; ++c) p.n[first + j + c] = select(where, g[c], p.n[first + j + c]);
}
// recompute n in the lanes of `where`; the others keep theirs to the last bit
template <class T>
FB_FN void refresh_gradient(RowProblem<T>& p, Mask<T> where) {
  const T* A = p.A;
  for (int k = 0; k < p.nisland; ++k) {
    const int first = p.island_row[k], n = p.island_row[k + 1] - first;
    int j = 0;
    for (; j + 6 <= n; j += 6) fresh_gradient<6>(p, A, first, n, j, where);
    for (; j + 3 <= n; j += 3) fresh_gradient<3>(p, A, first, n, j, where);
    for (; j < n; ++j) fresh_gradient<1>(p, A, first, n, j, where);
    A += n * n;
  }
}

}  // namespace fb::FB_ISA
