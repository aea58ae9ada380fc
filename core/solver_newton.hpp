// Newton steps on the active set of the row problem, and the adjoint of the solution by the
// implicit function theorem. Proof: docs/derivations/solver.md.
#pragma once
#include "solver.hpp"

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
  const T x1 = mul_add(p.n[r + 1], T(p.reach), p.lam[r + 1]);
  const T x2 = mul_add(p.n[r + 2], T(p.reach), p.lam[r + 2]);
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
  const T x = mul_add(p.n[r], T(p.reach), p.lam[r]);
  return (x > p.lo[r]) & (x < p.hi[r]);
}

// (N.1)  row r of G = dF/dlam: D^-1 A where free or sticking, the identity where held, the turning
// cone where sliding. A is the island's scaled matrix, A_ij / D_j, so column j of it is row j of
// D^-1 A.
template <class T>
FB_FN void newton_tangent_rows(const RowProblem<T>& p, const T* A, int first, int n, int i,
                               const int* order, int size, T* G1, T* G2) {
  const int r = first + i;
  const TangentState<T> t = tangent_state(p, r);
  const Mask<T> free = row_free(p, r);
  const T p11 = (T(1) - t.e1 * t.e1) * t.f, p22 = (T(1) - t.e2 * t.e2) * t.f,
          p12 = -(t.e1 * t.e2) * t.f;
  const bool box = p.box_friction;
  for (int c = 0; c < size; ++c) {
    const int j = order[c];
    const T a1 = A[j * n + i + 1] * p.reach, a2 = A[j * n + i + 2] * p.reach;
    // sliding on the cone: d lam_t - mu e d lam_n - f P (d lam_t - D^-1 A d lam)
    const T one1 = T(j == i + 1 ? 1 : 0), one2 = T(j == i + 2 ? 1 : 0);
    const T m = j == i ? p.mu[r] : T(0);
    T s1 = one1 - m * t.e1, s2 = one2 - m * t.e2;
    if (!box) {
      s1 = sub_mul(sub_mul(s1, p11, one1 - a1), p12, one2 - a2);
      s2 = sub_mul(sub_mul(s2, p12, one1 - a1), p22, one2 - a2);
    }
    G1[c] = select(free, select(t.slide1, s1, a1), one1);
    G2[c] = select(free, select(t.slide2, s2, a2), one2);
  }
}

// fill G (size x size, over the rows in order) of one island; held rows become identity rows
template <class T>
FB_FN void newton_matrix(const RowProblem<T>& p, const T* A, int first, int n, const int* order,
                         int size, T* G) {
  for (int c = 0; c < size;) {
    const int i = order[c], r = first + i;
    const Mask<T> free = row_free(p, r);
    for (int d = 0; d < size; ++d)
      G[c * size + d] = select(free, A[order[d] * n + i], T(order[d] == i ? 1 : 0));
    if (!p.cone[r]) {
      c += 1;
      continue;
    }
    newton_tangent_rows(p, A, first, n, i, order, size, G + (c + 1) * size, G + (c + 2) * size);
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

// LU in place without pivoting, reciprocal pivots on the diagonal; a row that depends on those
// before it but for round-off has no pivot, and takes no part
template <class T>
FB_FN void lu_factor(T* G, int n) {
  const T least = T(Real<T>(kIsDouble<T> ? 1e-15 : 5e-7));
  for (int k = 0; k < n; ++k) {
    const Mask<T> lost = !(abs(G[k * n + k]) > least);
    const T inv = select(lost, T(0), T(1) / select(lost, T(1), G[k * n + k]));
    G[k * n + k] = inv;
    for (int i = k + 1; i < n; ++i) {
      const T l = G[i * n + k] * inv;
      G[i * n + k] = l;
      for (int j = k + 1; j < n; ++j) G[i * n + j] = sub_mul(G[i * n + j], l, G[k * n + j]);
    }
  }
}
template <class T>
FB_FN void lu_solve(const T* G, int n, T* x) {
  for (int i = 1; i < n; ++i)
    for (int j = 0; j < i; ++j) x[i] = sub_mul(x[i], G[i * n + j], x[j]);
  for (int i = n - 1; i >= 0; --i) {
    for (int j = i + 1; j < n; ++j) x[i] = sub_mul(x[i], G[i * n + j], x[j]);
    x[i] = x[i] * G[i * n + i];
  }
}
// G' y = x
template <class T>
FB_FN void lu_solve_transposed(const T* G, int n, T* x) {
  for (int i = 0; i < n; ++i) {
    for (int j = 0; j < i; ++j) x[i] = sub_mul(x[i], G[j * n + i], x[j]);
    x[i] = x[i] * G[i * n + i];
  }
  for (int i = n - 2; i >= 0; --i)
    for (int j = i + 1; j < n; ++j) x[i] = sub_mul(x[i], G[j * n + i], x[j]);
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
    const T x = mul_add(p.n[r], T(p.reach), p.lam[r]);
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
    newton_matrix(p, A, first, n, p.order, size, p.lu);
    for (int c = 0; c < size;) {
      const int r = first + p.order[c];
      const Mask<T> free = row_free(p, r);
      p.rhs[c] = select(free, p.n[r], T(0));
      if (!p.cone[r]) {
        c += 1;
        continue;
      }
      // P(x) - lam: reach n where sticking, the rim of the disc where sliding
      const TangentState<T> t = tangent_state(p, r);
      const T radius = p.mu[r] * p.lam[r];
      p.rhs[c + 1] =
          select(free, select(t.slide1, t.e1 * radius - p.lam[r + 1], p.n[r + 1] * p.reach), T(0));
      p.rhs[c + 2] =
          select(free, select(t.slide2, t.e2 * radius - p.lam[r + 2], p.n[r + 2] * p.reach), T(0));
      c += 3;
    }
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

// the tangent of the solution: one Newton step at the solution, of which only the tangent part is
// taken
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
    // the first step takes the rest of the residual, which would leak into the tangents of the
    // second
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
  const Real<T> kReach[5] = {Real<T>(1), Real<T>(5), Real<T>(0.2), Real<T>(20), Real<T>(0.05)};
  int round = 0;
  for (int run = 4, done = 0; any(live) && done < p.max_sweeps; run *= 2) {
    for (int k = 0; k < run && done < p.max_sweeps; ++k, ++done) {
      sweep_rows(p, live);
      p.sweeps = p.sweeps + select(live, T(1), T(0));
    }
    p.residual = select(live, row_residual(p), p.residual);
    live = live & (p.residual > goal);
    if (!p.exact_finish || !any(live)) continue;
    // a step that runs in circles at one reach often ends at another; the solution is the same for
    // all
    p.reach = kReach[round++ % 5];
    FB_STAGE(newton);
    newton_rounds(p, live, goal);
    FB_STAGE(sweeps);
    live = live & (p.residual > goal);
  }
  p.unconverged = live;
  if (any(live) && p.exact_finish) {
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
  p.reach = Real<T>(1);
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
// (N.5)  z_t = y / D where sticking, f P y / D where sliding on the cone; mu_bar = lam_n e . y
// where sliding
template <class T>
FB_INLINE void tangent_rows_adjoint(const RowProblem<T>& p, int r, Mask<T> free, T y1, T y2, T* z,
                                    T* mu_bar) {
  const TangentState<T> t = tangent_state(p, r);
  const T zero = T(0);
  T s1 = zero, s2 = zero;
  if (!p.box_friction) {
    const T along = t.e1 * y1 + t.e2 * y2;
    s1 = (y1 - t.e1 * along) * t.f;
    s2 = (y2 - t.e2 * along) * t.f;
  }
  z[r + 1] = select(free, select(t.slide1, s1, y1) / p.D[r + 1], zero);
  z[r + 2] = select(free, select(t.slide2, s2, y2) / p.D[r + 2], zero);
  if (!mu_bar) return;
  const T slip = select(t.slide1, t.e1 * y1, zero) + select(t.slide2, t.e2 * y2, zero);
  mu_bar[r] += select(free, slip * p.lam[r], zero);
}

}  // namespace fb::FB_ISA
