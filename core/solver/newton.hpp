// Newton steps on the active set of the row problem, and the linear systems at its solution: the
// implicit tangents, columns and ties.  Proof: docs/derivations/solver.md.
#pragma once
#include "core/number/pack.hpp"
#include "core/solver/lu.hpp"
#include "core/solver/pgs.hpp"

namespace fb::FB_ISA {

// x = lam + descent of one row: where its projection looks
template <class T>
FB_INLINE T row_target(const ActiveSetSolution<T>& s, int r) {
  return s.lam[r] + s.descent[r];
}

// state of one contact's tangents at the fixed point: where it slides, its direction e and the
// factor f = radius / |x|.  A disc without radius is slid on in every direction, also at zero slip
template <class T>
struct TangentState {
  T e1, e2, f;
  Mask<T> slide1, slide2;
};
template <class T>
FB_INLINE TangentState<T> tangent_state(const RowProblem<T>& p, const ActiveSetSolution<T>& s,
                                        int r) {
  TangentState<T> t;
  const T x1 = row_target(s, r + 1), x2 = row_target(s, r + 2);
  const T radius = p.mu[r] * s.lam[r];
  if (p.options.friction == kBoxFriction) {
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
FB_INLINE Mask<T> row_free(const RowProblem<T>& p, const ActiveSetSolution<T>& s, int r) {
  const T x = row_target(s, r);
  return (x > p.lo[r]) & (x < p.hi[r]);
}

// the states of rows and tangents at their targets
template <class T>
struct TargetStates {
  const RowProblem<T>& p;
  const ActiveSetSolution<T>& s;

  FB_INLINE Mask<T> free(int r) const { return row_free(p, s, r); }
  FB_INLINE TangentState<T> tangents(int r) const { return tangent_state(p, s, r); }
};

// the linear system of one island over some of its rows: G is size x size, in s.lu
template <class T>
struct NewtonSystem {
  Island island;
  const T* A;  // the island's A_ij / D_j: column j of it is row j of D^-1 A
  const int* order;
  int size;
  T *G, *rhs;  // rhs: null where only G is wanted
};

// (N.1)  the tangents' rows of G = dF/dlam: D^-1 A where sticking, the identity where held, the
// turning cone where sliding: d lam_t - mu e d lam_n - f Q (d lam_t - D^-1 A d lam).  Beyond the
// contact's own three columns all of them are Q D^-1 A with some 2 x 2 matrix Q
template <class T>
FB_INLINE void newton_tangent_rows(const RowProblem<T>& p, const NewtonSystem<T>& sys, int c,
                                   const TangentState<T>& t, Mask<T> free) {
  const int i = sys.order[c], n = sys.island.n;
  T *G1 = sys.G + (c + 1) * sys.size, *G2 = G1 + sys.size;
  const T zero = T(0), one = T(1), mu = p.mu[sys.island.first + i];
  const T f = p.options.friction == kBoxFriction ? zero : t.f;
  const T p11 = (one - t.e1 * t.e1) * f, p22 = (one - t.e2 * t.e2) * f, p12 = -(t.e1 * t.e2) * f;
  const Mask<T> slide1 = free & t.slide1, slide2 = free & t.slide2;
  // rows of Q D^-1 A: Q = 1 where sticking, f (1 - e e') where sliding, zero where held
  const T q11 = select(free, select(t.slide1, p11, one), zero);
  const T q22 = select(free, select(t.slide2, p22, one), zero);
  const T q12 = select(slide1, p12, zero);
  for (int d = 0; d < sys.size; ++d) {
    const T *a = sys.A + sys.order[d] * n + i, a1 = a[1], a2 = a[2];
    G1[d] = mul_add(q11, a1, q12 * a2);
    G2[d] = mul_add(q22, a2, q12 * a1);
  }
  // the contact's own columns: -mu e on the normal, 1 - f (1 - e e') or the identity on the pair
  G1[c] -= select(slide1, mu * t.e1, zero);
  G2[c] -= select(slide2, mu * t.e2, zero);
  G1[c + 1] += select(slide1, one - p11, select(free, zero, one));
  G2[c + 2] += select(slide2, one - p22, select(free, zero, one));
  G1[c + 2] -= select(slide1, p12, zero);
  G2[c + 1] -= select(slide1, p12, zero);
}

// fill G of one island, and where asked for the right side P(lam + n) - lam; held rows become
// identity rows
template <class T, class States>
FB_FN void newton_matrix(const RowProblem<T>& p, const ActiveSetSolution<T>& s,
                         const NewtonSystem<T>& sys, const States& states) {
  const int size = sys.size, n = sys.island.n;
  const T zero = T(0);
  T *G = sys.G, *rhs = sys.rhs;
  for (int c = 0; c < size;) {
    const int i = sys.order[c], r = sys.island.first + i;
    const Mask<T> free = states.free(r);
    const T on = select(free, T(1), zero);
    for (int d = 0; d < size; ++d) G[c * size + d] = sys.A[sys.order[d] * n + i] * on;
    G[c * size + c] += T(1) - on;
    if (rhs) rhs[c] = s.descent[r] * on;
    if (!p.cone[r]) {
      c += 1;
      continue;
    }
    const TangentState<T> t = states.tangents(r);
    newton_tangent_rows(p, sys, c, t, free);
    if (rhs) {
      // n where sticking, the rim of the disc where sliding
      const T radius = p.mu[r] * s.lam[r];
      const T s1 = t.e1 * radius - s.lam[r + 1], s2 = t.e2 * radius - s.lam[r + 2];
      rhs[c + 1] = select(free, select(t.slide1, s1, s.descent[r + 1]), zero);
      rhs[c + 2] = select(free, select(t.slide2, s2, s.descent[r + 2]), zero);
    }
    c += 3;
  }
}

// rows of an island that are free in some live lane; a contact enters with all three
template <class T, class States>
FB_FN int newton_order(const RowProblem<T>& p, const ActiveSetSolution<T>& s, const Island& is,
                       Mask<T> live, const States& states) {
  int size = 0;
  for (int i = 0; i < is.n;) {
    const int rows = p.cone[is.first + i] ? 3 : 1;
    if (any(live & states.free(is.first + i)))
      for (int e = 0; e < rows; ++e) s.order[size++] = i + e;
    i += rows;
  }
  return size;
}
// G of the first `size` rows of s.order, filled and factorised
template <class T, class States>
FB_INLINE void factor_island(const RowProblem<T>& p, const ActiveSetSolution<T>& s,
                             const Island& is, int size, T* rhs, const States& states) {
  newton_matrix(p, s, NewtonSystem<T>{is, s.A_scaled + is.at, s.order, size, s.lu, rhs}, states);
  lu_factor(s.lu, size);
}
// the same for the rows that are free at their targets in some live lane; returns their number
template <class T>
FB_INLINE int factor_free_rows(const RowProblem<T>& p, const ActiveSetSolution<T>& s,
                               const Island& is) {
  const TargetStates<T> states{p, s};
  const int size = newton_order(p, s, is, Mask<T>(true), states);
  factor_island(p, s, is, size, static_cast<T*>(nullptr), states);
  return size;
}

// the same for all rows of an island
template <class T>
FB_INLINE int factor_all_rows(const RowProblem<T>& p, const ActiveSetSolution<T>& s,
                              const Island& is) {
  for (int i = 0; i < is.n; ++i) s.order[i] = i;
  factor_island(p, s, is, is.n, static_cast<T*>(nullptr), TargetStates<T>{p, s});
  return is.n;
}

// held rows go to their bound first, so that the linear system is one of free rows only
template <class T>
FB_FN void settle_held_rows(const RowProblem<T>& p, ActiveSetSolution<T>& s, Mask<T> live) {
  Mask<T> moved(false);
  const auto settle = [&](int r, Mask<T> held, T bound) {
    const Mask<T> off = live & held & !(s.lam[r] == bound);
    moved = moved | off;
    s.lam[r] = select(off, bound, s.lam[r]);
  };
  for (int r = 0; r < p.nrow;) {
    const Mask<T> held = !row_free(p, s, r);
    settle(r, held, select(row_target(s, r) > p.lo[r], p.hi[r], p.lo[r]));
    // a held normal is zero, and so is its friction
    if (p.cone[r]) {
      settle(r + 1, held, T(0));
      settle(r + 2, held, T(0));
    }
    r += p.cone[r] ? 3 : 1;
  }
  if (any(moved)) refresh_descent(p, s, moved);
}

// (N.2)  lam += G^-1 (P(lam + n) - lam) on the rows that are not held.  Tangents alone: what is left of
// the residual counts as none, whose product with the tangent of G^-1 they would get too
template <class T>
FB_FN void newton_step(const RowProblem<T>& p, ActiveSetSolution<T>& s, Mask<T> live,
                       bool tangents = false) {
  settle_held_rows(p, s, live);
  solve_states(p, s, live, TargetStates<T>{p, s}, tangents);
}
// the same in given states, with held rows at their bounds
template <class T, class States>
FB_FN void solve_states(const RowProblem<T>& p, ActiveSetSolution<T>& s, Mask<T> live,
                        const States& states, bool tangents) {
  for_islands(p, [&](const Island& is) {
    const int size = newton_order(p, s, is, live, states);
    factor_island(p, s, is, size, s.rhs, states);
    if constexpr (requires(T t) { t.d; })
      for (int c = 0; tangents && c < size; ++c) s.rhs[c].v = decltype(s.rhs[c].v)(0);
    lu_solve(s.lu, size, s.rhs);
    for (int c = 0; c < size; ++c) {
      T& lam = s.lam[is.first + s.order[c]];
      lam = select(live, lam + s.rhs[c], lam);
    }
  });
  refresh_descent(p, s, live);
}

// (N.8)  lanes in which steps on the active set would go round in circles: more rows act than there are
// dofs, or all contacts stick and rows with bounds of their own are between them; not where all rows act, which
// one step solves
template <class T>
FB_FN Mask<T> is_overfull(const RowProblem<T>& p, const ActiveSetSolution<T>& s) {
  using S = decltype(primal(s.lam[0]));
  S acting(0), between(0);
  Mask<T> sticks(false), others(false), held(false);
  const S zero(0), one(1);
  for (int r = 0; r < p.nrow;) {
    const Mask<T> free = row_free(p, s, r);
    if (p.cone[r]) {
      const Mask<T> slides = tangent_state(p, s, r).slide1;
      acting += select(free, select(slides, one + one, one + one + one), zero);
      sticks = sticks | (free & !slides);
      // a contact that is not there has no room between its bounds
      others = others | ((p.lo[r] < p.hi[r]) & (slides | !free));
    } else {
      acting += select(free, one, zero);
      between += select(free, one, zero);
      held = held | ((p.lo[r] < p.hi[r]) & !free);
    }
    r += p.cone[r] ? 3 : 1;
  }
  const Mask<T> full = acting > S(Real<T>(p.ndof)), stands = sticks & !others & (between > one);
  return (held | others) & (full | stands);
}
// up to kNewtonSteps full steps; the steps need not descend, so the best point is kept where none
// reaches the goal.  Steps that have found no better point for long go round in circles
template <class T>
FB_FN void newton_rounds(const RowProblem<T>& p, ActiveSetSolution<T>& s, Mask<T> live, T goal) {
  for (int r = 0; r < p.nrow; ++r) s.best_lam[r] = s.lam[r];
  Mask<T> left(false);
  T since = T(0);
  for (int k = 0; k < kNewtonSteps && any(live); ++k) {
    newton_step(p, s, live);
    s.factorisations = s.factorisations + select(live, T(1), T(0));
    const T now = row_residual(p, s);
    const Mask<T> better = live & (now < s.residual);
    s.residual = select(better, now, s.residual);
    since = select(better, T(0), since + T(1));
    const Mask<T> open = live & !(now <= goal), circle = open & !(since < T(kNewtonCircle));
    left = left | circle;
    live = open & !circle;
    for (int r = 0; r < p.nrow; ++r) s.best_lam[r] = select(better, s.lam[r], s.best_lam[r]);
  }
  left = left | live;
  if (!any(left)) return;
  for (int r = 0; r < p.nrow; ++r) s.lam[r] = select(left, s.best_lam[r], s.lam[r]);
  refresh_descent(p, s, left);
}

// the tangent of the solution: one Newton step at the solution, of which only the tangent part is
// taken
template <class T>
FB_FN void implicit_tangent(const RowProblem<T>& p, ActiveSetSolution<T>& s) {
  if constexpr (requires(T t) { t.d; }) {
    using S = decltype(s.lam[0].v);
    const auto with_tangent = [](T x, S d) { return T(x.v, d); };
    // an unrolled solve keeps the tangents that its sweeps carried
    for (int r = 0; r < p.nrow; ++r) s.swept_lam[r] = s.lam[r];
    // a row held at a bound moves with it
    for (int r = 0; r < p.nrow; ++r) {
      const T x = s.lam[r] + s.descent[r], held = select(x > p.lo[r], p.hi[r], p.lo[r]);
      s.lam[r] = with_tangent(s.lam[r], select(row_free(p, s, r), T(0), held).d);
    }
    for (int r = 0; r < p.nrow; ++r)
      if (p.cone[r])
        for (int e = 1; e < 3; ++e) s.lam[r + e] = with_tangent(s.lam[r + e], S(0));
    refresh_descent(p, s, Mask<T>(true));
    for (int r = 0; r < p.nrow; ++r) s.solved_lam[r] = s.lam[r];
    // the second step finds again what the first one has lost to rounding
    newton_step(p, s, Mask<T>(true), true);
    newton_step(p, s, Mask<T>(true), true);
    for (int r = 0; r < p.nrow; ++r)
      s.lam[r] = select(s.unrolled, s.swept_lam[r], with_tangent(s.solved_lam[r], s.lam[r].d));
    // the descents follow the impulses, for those who differentiate once more
    refresh_descent(p, s, Mask<T>(true));
  }
}

// (N.6)  right-hand side of the impulses' change, Z C of one row or contact: rows that are held get
// none, sliding pairs turn.  C: the first of its rows of n columns
template <class T>
FB_FN void masked_columns(const RowProblem<T>& p, const ActiveSetSolution<T>& s, int r, int n,
                          T* C) {
  using V = Pack<T>;
  const Mask<T> free = row_free(p, s, r);
  const T zero = T(0);
  scale_columns(select(free, T(1) / s.D[r], zero), C, n);
  if (!p.cone[r]) return;
  const TangentState<T> t = tangent_state(p, s, r);
  T *C1 = C + n, *C2 = C1 + n;
  const V inv1(select(free, T(1) / s.D[r + 1], zero)), inv2(select(free, T(1) / s.D[r + 2], zero));
  const V e1(t.e1), e2(t.e2), turn(p.options.friction == kBoxFriction ? zero : t.f);
  const Mask<V> slide1(t.slide1), slide2(t.slide2);
  for (int c = 0; c < n; c += kPack<T>) {
    const V y1 = pack_at(C1 + c) * inv1, y2 = pack_at(C2 + c) * inv2, along = e1 * y1 + e2 * y2;
    put_pack(select(slide1, (y1 - e1 * along) * turn, y1), C1 + c);
    put_pack(select(slide2, (y2 - e2 * along) * turn, y2), C2 + c);
  }
}
// G X = C in place for `size` rows of n columns, in the order of the factors of G
template <class T>
FB_FN void solve_columns(const T* G, const int* order, int size, int n, T* C) {
  const auto row = [&](int c) { return C + size_t(order[c]) * n; };
  for (int i = 1; i < size; ++i)
    for (int j = 0; j < i; ++j) add_columns(-G[i * size + j], row(j), row(i), n);
  for (int i = size - 1; i >= 0; --i) {
    for (int j = i + 1; j < size; ++j) add_columns(-G[i * size + j], row(j), row(i), n);
    scale_columns(G[i * size + i], row(i), n);
  }
}
// (N.7)  G dlam = Z C, island by island and in place: C holds the change of the row velocities at
// fixed impulses with the opposite sign, n columns a row.  Rows held in all lanes are left alone
template <class T>
FB_FN void implicit_columns(const RowProblem<T>& p, const ActiveSetSolution<T>& s, int n, T* C) {
  for_islands(p, [&](const Island& is) {
    const int size = factor_free_rows(p, s, is);
    for (int c = 0; c < size;) {
      const int r = is.first + s.order[c];
      masked_columns(p, s, r, n, C + size_t(r) * n);
      c += p.cone[r] ? 3 : 1;
    }
    solve_columns(s.lu, s.order, size, n, C + size_t(is.first) * n);
  });
}

// rows at a bound that does not push, tangents on the edge of their cone
template <class T>
FB_FN T active_set_ties(const RowProblem<T>& p, const ActiveSetSolution<T>& s) {
  T count = T(0);
  for (int r = 0; r < p.nrow;) {
    const T x = s.lam[r] + s.descent[r];
    count += one_where<T>((p.lo[r] < p.hi[r]) & ((x == p.lo[r]) | (x == p.hi[r])));
    if (!p.cone[r]) {
      r += 1;
      continue;
    }
    const T x1 = s.lam[r + 1] + s.descent[r + 1], x2 = s.lam[r + 2] + s.descent[r + 2];
    const T radius = p.mu[r] * s.lam[r];
    const Mask<T> rubs = radius > T(0);
    if (p.options.friction == kBoxFriction) {
      count += one_where<T>(rubs & (abs(x1) == radius)) + one_where<T>(rubs & (abs(x2) == radius));
    } else {
      count += one_where<T>(rubs & (dot2(x1, x1, x2, x2) == radius * radius));
    }
    r += 3;
  }
  return count;
}

}  // namespace fb::FB_ISA
