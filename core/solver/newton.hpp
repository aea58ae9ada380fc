// Newton steps on the active set of the row problem, and the adjoint of the solution by the
// implicit function theorem. Proof: docs/derivations/solver.md.
#pragma once
#include "core/solver/pgs.hpp"

namespace fb::FB_ISA {

// state of one contact's tangents at the fixed point: where it slides, its direction e and the
// factor f = radius / |x|.  A disc without radius is slid on in every direction, also at zero slip
template <class T>
struct TangentState {
  T e1, e2, f;
  Mask<T> slide1, slide2;
};
template <class T>
FB_INLINE TangentState<T> tangent_state(const RowProblem<T>& p, int r) {
  TangentState<T> t;
  const T x1 = mul_add(p.n[r + 1], T(p.step_scale), p.lam[r + 1]);
  const T x2 = mul_add(p.n[r + 2], T(p.step_scale), p.lam[r + 2]);
  const T radius = p.mu[r] * p.lam[r];
  if (p.box_friction) {
    t.slide1 = (abs(x1) > radius) | !(radius > T(0));
    t.slide2 = (abs(x2) > radius) | !(radius > T(0));
    t.e1 = select(x1 < T(0), T(-1), T(1));
    t.e2 = select(x2 < T(0), T(-1), T(1));
    t.f = T(0);
    return t;
  }
  const T n2 = dot2(x1, x1, x2, x2);
  t.slide1 = t.slide2 = (n2 > radius * radius) | !(radius > T(0));
  const T inv = T(1) / sqrt(select(t.slide1 & (n2 > T(0)), n2, T(1)));
  t.e1 = x1 * inv;
  t.e2 = x2 * inv;
  t.f = radius * inv;
  return t;
}
// rows strictly between their bounds; a contact whose normal is held is held whole
template <class T>
FB_INLINE Mask<T> row_free(const RowProblem<T>& p, int r) {
  const T x = mul_add(p.n[r], T(p.step_scale), p.lam[r]);
  return (x > p.lo[r]) & (x < p.hi[r]);
}

// (N.1)  the tangents' rows of G = dF/dlam: D^-1 A where sticking, the identity where held, the
// turning cone where sliding: d lam_t - mu e d lam_n - f Q (d lam_t - D^-1 A d lam).  Beyond the
// contact's own three columns all of them are Q D^-1 A with some 2 x 2 matrix Q
template <class T>
FB_INLINE void newton_tangent_rows(const RowProblem<T>& p, const T* A, int n, int i, int c,
                                   const TangentState<T>& t, Mask<T> free, T mu, const int* order,
                                   int size, T* G1, T* G2) {
  const T zero = T(0), one = T(1);
  const T f = p.box_friction ? zero : t.f;
  const T p11 = (one - t.e1 * t.e1) * f, p22 = (one - t.e2 * t.e2) * f, p12 = -(t.e1 * t.e2) * f;
  const Mask<T> slide1 = free & t.slide1, slide2 = free & t.slide2;
  const T step_scale = T(p.step_scale);
  const T q11 = select(free, select(t.slide1, p11, one), zero) * step_scale;
  const T q22 = select(free, select(t.slide2, p22, one), zero) * step_scale;
  const T q12 = select(slide1, p12, zero) * step_scale;
  for (int d = 0; d < size; ++d) {
    const T *a = A + order[d] * n + i, a1 = a[1], a2 = a[2];
    G1[d] = mul_add(q11, a1, q12 * a2);
    G2[d] = mul_add(q22, a2, q12 * a1);
  }
  G1[c] -= select(slide1, mu * t.e1, zero);
  G2[c] -= select(slide2, mu * t.e2, zero);
  G1[c + 1] += select(slide1, one - p11, select(free, zero, one));
  G2[c + 2] += select(slide2, one - p22, select(free, zero, one));
  G1[c + 2] -= select(slide1, p12, zero);
  G2[c + 1] -= select(slide1, p12, zero);
}

// fill G (size x size, over the rows in order) of one island, and where asked for the right side
// P(lam + n) - lam; held rows become identity rows.  A is scaled, A_ij / D_j, so column j of it is
// row j of D^-1 A
template <class T>
FB_FN void newton_matrix(const RowProblem<T>& p, const T* A, int first, int n, const int* order,
                         int size, T* G, T* rhs = nullptr) {
  const T zero = T(0);
  for (int c = 0; c < size;) {
    const int i = order[c], r = first + i;
    const Mask<T> free = row_free(p, r);
    const T on = select(free, T(1), zero);
    for (int d = 0; d < size; ++d) G[c * size + d] = A[order[d] * n + i] * on;
    G[c * size + c] += T(1) - on;
    if (rhs) rhs[c] = p.n[r] * on;
    if (!p.cone[r]) {
      c += 1;
      continue;
    }
    const TangentState<T> t = tangent_state(p, r);
    newton_tangent_rows(p, A, n, i, c, t, free, p.mu[r], order, size, G + (c + 1) * size,
                        G + (c + 2) * size);
    if (rhs) {
      // reach n where sticking, the rim of the disc where sliding
      const T radius = p.mu[r] * p.lam[r];
      const T s1 = t.e1 * radius - p.lam[r + 1], s2 = t.e2 * radius - p.lam[r + 2];
      rhs[c + 1] = select(free, select(t.slide1, s1, p.n[r + 1] * p.step_scale), zero);
      rhs[c + 2] = select(free, select(t.slide2, s2, p.n[r + 2] * p.step_scale), zero);
    }
    c += 3;
  }
}

// rows of an island that are free in some live lane; a contact enters with all three
template <class T>
FB_FN int newton_order(const RowProblem<T>& p, int first, int n, Mask<T> live, int* order) {
  int size = 0;
  for (int i = 0; i < n;) {
    const int rows = p.cone[first + i] ? 3 : 1;
    if (any(live & row_free(p, first + i)))
      for (int e = 0; e < rows; ++e) order[size++] = i + e;
    i += rows;
  }
  return size;
}

// M x N numbers of G from (i, j) on, less the products
// of the first k columns and rows; in registers
template <int M, int N, class T>
FB_INLINE void lu_take(const T* G, int n, int i, int j, int k, T x[M][N]) {
#pragma GCC unroll 3
  for (int r = 0; r < M; ++r)
#pragma GCC unroll 3
    for (int c = 0; c < N; ++c) x[r][c] = G[(i + r) * n + j + c];
  for (int e = 0; e < k; ++e)
#pragma GCC unroll 3
    for (int r = 0; r < M; ++r)
#pragma GCC unroll 3
      for (int c = 0; c < N; ++c) x[r][c] = sub_mul(x[r][c], G[(i + r) * n + e], G[e * n + j + c]);
}
template <int M, int N, class T>
FB_INLINE void lu_put(const T x[M][N], int n, int i, int j, T* G) {
#pragma GCC unroll 3
  for (int r = 0; r < M; ++r)
#pragma GCC unroll 3
    for (int c = 0; c < N; ++c) G[(i + r) * n + j + c] = x[r][c];
}
// the block on the diagonal, reciprocal pivots in it; a row that depends on those before it but for
// round-off has no pivot, and takes no part
template <int M, class T>
FB_INLINE void lu_pivots(T* G, int n, int k) {
  const T least = T(Real<T>(kIsDouble<T> ? 1e-15 : 5e-7));
  T x[M][M];
  lu_take<M, M>(G, n, k, k, k, x);
#pragma GCC unroll 3
  for (int e = 0; e < M; ++e) {
    const Mask<T> found = (x[e][e] > least) | (x[e][e] < -least);
    const T inv = select(found, T(1) / select(found, x[e][e], T(1)), T(0));
    x[e][e] = inv;
#pragma GCC unroll 3
    for (int r = e + 1; r < M; ++r) {
      x[r][e] = x[r][e] * inv;
#pragma GCC unroll 3
      for (int c = e + 1; c < M; ++c) x[r][c] = sub_mul(x[r][c], x[r][e], x[e][c]);
    }
  }
  lu_put<M, M>(x, n, k, k, G);
}
// the block of N columns right of the diagonal block at k, and that of N rows below it
template <int M, int N, class T>
FB_INLINE void lu_beside(T* G, int n, int k, int j) {
  T x[M][N], y[N][M];
  lu_take<M, N>(G, n, k, j, k, x);
#pragma GCC unroll 3
  for (int e = 0; e < M; ++e)
#pragma GCC unroll 3
    for (int r = e + 1; r < M; ++r)
#pragma GCC unroll 3
      for (int c = 0; c < N; ++c) x[r][c] = sub_mul(x[r][c], G[(k + r) * n + k + e], x[e][c]);
  lu_put<M, N>(x, n, k, j, G);
  lu_take<N, M>(G, n, j, k, k, y);
#pragma GCC unroll 3
  for (int e = 0; e < M; ++e)
#pragma GCC unroll 3
    for (int r = 0; r < N; ++r) {
      y[r][e] = y[r][e] * G[(k + e) * n + k + e];
#pragma GCC unroll 3
      for (int c = e + 1; c < M; ++c) y[r][c] = sub_mul(y[r][c], y[r][e], G[(k + e) * n + k + c]);
    }
  lu_put<N, M>(y, n, j, k, G);
}
template <int M, class T>
FB_FN void lu_block(T* G, int n, int k) {
  lu_pivots<M>(G, n, k);
  int j = k + M;
  for (; j + 3 <= n; j += 3) lu_beside<M, 3>(G, n, k, j);
  for (; j < n; ++j) lu_beside<M, 1>(G, n, k, j);
}
// LU in place without pivoting, reciprocal pivots on the diagonal; blocks of three rows, which is
// what a contact has
template <class T>
FB_FN void lu_factor(T* G, int n) {
  int k = 0;
  for (; k + 3 <= n; k += 3) lu_block<3>(G, n, k);
  for (; k < n; ++k) lu_block<1>(G, n, k);
}
// sums take what was found last at their end, so that a row does not wait for the one before
template <class T>
FB_FN void lu_solve(const T* G, int n, T* x) {
  for (int i = 1; i < n; ++i) {
    T sum = x[i];
    for (int j = 0; j < i; ++j) sum = sub_mul(sum, G[i * n + j], x[j]);
    x[i] = sum;
  }
  for (int i = n - 1; i >= 0; --i) {
    T sum = x[i];
    for (int j = n - 1; j > i; --j) sum = sub_mul(sum, G[i * n + j], x[j]);
    x[i] = sum * G[i * n + i];
  }
}
// G' y = x
template <class T>
FB_FN void lu_solve_transposed(const T* G, int n, T* x) {
  for (int i = 0; i < n; ++i) {
    T sum = x[i];
    for (int j = 0; j < i; ++j) sum = sub_mul(sum, G[j * n + i], x[j]);
    x[i] = sum * G[i * n + i];
  }
  for (int i = n - 2; i >= 0; --i) {
    T sum = x[i];
    for (int j = n - 1; j > i; --j) sum = sub_mul(sum, G[j * n + i], x[j]);
    x[i] = sum;
  }
}

// held rows go to their bound first, so that the linear system is one of free rows only
template <class T>
FB_FN void settle_held_rows(RowProblem<T>& p, Mask<T> live) {
  Mask<T> moved(false);
  const auto settle = [&](int r, Mask<T> held, T bound) {
    const Mask<T> off = live & held & !(p.lam[r] == bound);
    moved = moved | off;
    p.lam[r] = select(off, bound, p.lam[r]);
  };
  for (int r = 0; r < p.nrow;) {
    const Mask<T> held = !row_free(p, r);
    const T x = mul_add(p.n[r], T(p.step_scale), p.lam[r]);
    settle(r, held, select(x > p.lo[r], p.hi[r], p.lo[r]));
    // a held normal is zero, and so is its friction
    if (p.cone[r]) {
      settle(r + 1, held, T(0));
      settle(r + 2, held, T(0));
    }
    r += p.cone[r] ? 3 : 1;
  }
  if (any(moved)) refresh_gradient(p, moved);
}

// (N.2)  lam += G^-1 (P(lam + n) - lam) on the rows that are not held
template <class T>
FB_FN void newton_step(RowProblem<T>& p, Mask<T> live) {
  settle_held_rows(p, live);
  const T* A = p.A;
  for (int k = 0; k < p.nisland; ++k) {
    const int first = p.island_row[k], n = p.island_row[k + 1] - first;
    const int size = newton_order(p, first, n, live, p.order);
    newton_matrix(p, A, first, n, p.order, size, p.lu, p.rhs);
    lu_factor(p.lu, size);
    lu_solve(p.lu, size, p.rhs);
    for (int c = 0; c < size; ++c) {
      const int r = first + p.order[c];
      p.lam[r] = select(live, p.lam[r] + p.rhs[c], p.lam[r]);
    }
    A += n * n;
  }
  refresh_gradient(p, live);
}

// up to kNewtonSteps full steps; the steps need not descend, so the best point is kept where none
// reaches the goal
inline constexpr int kNewtonSteps = 10;
template <class T>
FB_FN void newton_rounds(RowProblem<T>& p, Mask<T> live, T goal) {
  for (int r = 0; r < p.nrow; ++r) p.keep[r] = p.lam[r];
  for (int k = 0; k < kNewtonSteps && any(live); ++k) {
    newton_step(p, live);
    const T now = row_residual(p);
    const Mask<T> better = live & (now < p.residual);
    p.residual = select(better, now, p.residual);
    live = live & !(now <= goal);
    for (int r = 0; r < p.nrow; ++r) p.keep[r] = select(better, p.lam[r], p.keep[r]);
  }
  if (!any(live)) return;
  for (int r = 0; r < p.nrow; ++r) p.lam[r] = select(live, p.keep[r], p.lam[r]);
  refresh_gradient(p, live);
}

// impulses within tolerance of their bounds and cones are put on them
template <class T>
FB_FN void project_solution(RowProblem<T>& p) {
  for (int r = 0; r < p.nrow;) {
    p.lam[r] = clamp(p.lam[r], p.lo[r], p.hi[r]);
    if (p.cone[r] && !p.box_friction) {
      const T f = disc_factor(p.lam[r + 1], p.lam[r + 2], p.mu[r] * p.lam[r]);
      p.lam[r + 1] *= f;
      p.lam[r + 2] *= f;
    } else if (p.cone[r]) {
      const T radius = p.mu[r] * p.lam[r];
      p.lam[r + 1] = clamp(p.lam[r + 1], -radius, radius);
      p.lam[r + 2] = clamp(p.lam[r + 2], -radius, radius);
    }
    r += p.cone[r] ? 3 : 1;
  }
}

// the tangent of the solution: one Newton step at the
// solution, of which only the tangent part is taken
template <class T>
FB_FN void implicit_tangent(RowProblem<T>& p) {
  if constexpr (requires(T t) { t.d; }) {
    using S = decltype(p.lam[0].v);
    const auto with_tangent = [](T x, S d) { return T(x.v, d); };
    // an unrolled solve keeps the tangents that its sweeps carried
    for (int r = 0; r < p.nrow; ++r) p.spare[r] = p.lam[r];
    // a row held at a bound moves with it
    for (int r = 0; r < p.nrow; ++r) {
      const T x = p.lam[r] + p.n[r], held = select(x > p.lo[r], p.hi[r], p.lo[r]);
      p.lam[r] = with_tangent(p.lam[r], select(row_free(p, r), T(0), held).d);
    }
    for (int r = 0; r < p.nrow; ++r)
      if (p.cone[r])
        for (int e = 1; e < 3; ++e) p.lam[r + e] = with_tangent(p.lam[r + e], S(0));
    refresh_gradient(p, Mask<T>(true));
    for (int r = 0; r < p.nrow; ++r) p.keep[r] = p.lam[r];
    // the first step takes the rest of the residual,
    // which would leak into the tangents of the second
    newton_step(p, Mask<T>(true));
    newton_step(p, Mask<T>(true));
    for (int r = 0; r < p.nrow; ++r)
      p.lam[r] = select(p.unrolled, p.spare[r], with_tangent(p.keep[r], p.lam[r].d));
    // the rates follow the impulses, for those who differentiate once more
    refresh_gradient(p, Mask<T>(true));
  }
}

// (N.3)  solve to the tolerance: sweeps in growing runs, each followed by Newton rounds; where the
// cap is reached, plain sweeps from zero
template <class T>
FB_FN void solve_rows(RowProblem<T>& p, Mask<T> active) {
  FB_STAGE(sweeps);
  T scale = T(0);
  for (int r = 0; r < p.nrow; ++r) {
    p.lam[r] = T(0);
    scale = max(scale, abs(p.b[r]));
  }
  prepare_rows(p);
  const T goal = scale * p.tolerance;
  p.sweeps = T(0);
  p.residual = row_residual(p);
  Mask<T> live = active & (p.residual > goal);
  const Real<T> kStepScale[5] = {Real<T>(1), Real<T>(5), Real<T>(0.2), Real<T>(20), Real<T>(0.05)};
  int round = 0;
  for (int run = 4, done = 0; any(live) && done < p.max_sweeps; run *= 2) {
    for (int k = 0; k < run && done < p.max_sweeps; ++k, ++done) {
      sweep_rows(p, live);
      p.sweeps = p.sweeps + select(live, T(1), T(0));
    }
    p.residual = select(live, row_residual(p), p.residual);
    live = live & (p.residual > goal);
    if (!p.newton || !any(live)) continue;
    // a step that runs in circles at one reach often
    // ends at another; the solution is the same for all
    p.step_scale = kStepScale[round++ % 5];
    FB_STAGE(newton);
    newton_rounds(p, live, goal);
    FB_STAGE(sweeps);
    live = live & (p.residual > goal);
  }
  p.unconverged = live;
  if (any(live) && p.newton) {
    // the answer of an unfinished solve is that of plain sweeps: a function of its inputs that can
    // be reversed sweep by sweep
    for (int r = 0; r < p.nrow; ++r) p.lam[r] = select(live, T(0), p.lam[r]);
    refresh_gradient(p, live);
    for (int k = 0; k < p.max_sweeps; ++k) sweep_rows(p, live);
    p.residual = select(live, row_residual(p), p.residual);
  }
  p.unrolled = p.gradient == kGradientUnrolled   ? active
               : p.gradient == kGradientImplicit ? Mask<T>(false)
                                                 : p.unconverged;
  p.step_scale = Real<T>(1);
  project_solution(p);
  implicit_tangent(p);
}

// (N.4)  implicit adjoint at the solution in p (scaled A, lam, n, D): G' y = lam_bar; z holds b_bar
// = -z, A_bar = -z lam'; mu_bar (at normal rows), lo_bar and hi_bar are added to where not null
template <class T>
FB_FN void solve_rows_adjoint(RowProblem<T>& p, const T* lam_bar, T* z, T* mu_bar, T* lo_bar,
                              T* hi_bar) {
  const T* A = p.A;
  for (int k = 0; k < p.nisland; ++k) {
    const int first = p.island_row[k], n = p.island_row[k + 1] - first;
    // held rows matter to their bounds alone
    int size = n;
    for (int i = 0; i < n; ++i) p.order[i] = i;
    if (!lo_bar && !hi_bar) size = newton_order(p, first, n, Mask<T>(true), p.order);
    newton_matrix(p, A, first, n, p.order, size, p.lu);
    T* y = p.rhs;
    for (int c = 0; c < size; ++c) y[c] = lam_bar[first + p.order[c]];
    for (int i = 0; i < n; ++i) z[first + i] = T(0);
    lu_factor(p.lu, size);
    lu_solve_transposed(p.lu, size, y);
    for (int c = 0; c < size;) {
      const int r = first + p.order[c];
      const Mask<T> free = row_free(p, r);
      const T x = p.lam[r] + p.n[r];
      z[r] = select(free, y[c] / p.D[r], T(0));
      if (lo_bar) lo_bar[r] += select(free | (x > p.lo[r]), T(0), y[c]);
      if (hi_bar) hi_bar[r] += select(free | !(x > p.lo[r]), T(0), y[c]);
      if (p.cone[r]) tangent_rows_adjoint(p, r, free, y[c + 1], y[c + 2], z, mu_bar);
      c += p.cone[r] ? 3 : 1;
    }
    A += n * n;
  }
}
// (N.5)  z_t = y / D where sticking, f P y / D where
// sliding on the cone; mu_bar = lam_n e . y where sliding
template <class T>
FB_INLINE void tangent_rows_adjoint(const RowProblem<T>& p, int r, Mask<T> free, T y_rate, T y2,
                                    T* z, T* mu_bar) {
  const TangentState<T> t = tangent_state(p, r);
  const T zero = T(0);
  T s1 = zero, s2 = zero;
  if (!p.box_friction) {
    const T along = t.e1 * y_rate + t.e2 * y2;
    s1 = (y_rate - t.e1 * along) * t.f;
    s2 = (y2 - t.e2 * along) * t.f;
  }
  z[r + 1] = select(free, select(t.slide1, s1, y_rate) / p.D[r + 1], zero);
  z[r + 2] = select(free, select(t.slide2, s2, y2) / p.D[r + 2], zero);
  if (!mu_bar) return;
  const T slip = select(t.slide1, t.e1 * y_rate, zero) + select(t.slide2, t.e2 * y2, zero);
  mu_bar[r] += select(free, slip * p.lam[r], zero);
}

}  // namespace fb::FB_ISA
