// Recovery by positions: errors that the velocity of a step left are taken back by a displacement,
// the solution of a strictly convex problem over the violated rows.  Pure algebra.
// Proof: docs/derivations/recovery.md.
#pragma once
#include "core/solver/lu.hpp"
#include "core/solver/problem.hpp"

namespace fb::FB_ISA {

// compliance of the displacement over the inverse weight
inline constexpr double kRecoverySoftness = 0.1;
// impulses above this, times v_recover and over the inverse weight, are helped by the displacement
inline constexpr double kDeadLoad = 20;
// steps of Newton's method; a few are needed
inline constexpr int kRecoverySteps = 100;

// what is asked of positions, row by row in the solver's order
template <class T>
struct RecoveryRows {
  const T* R;     // compliance, in the diagonal of A
  const T* R0;    // default compliance; zero for rows that take no part
  const T* rest;  // rate at which the gap is still to be closed
  const T* lead;  // by how much the row opens beyond its gap term
  const int*
      together;  // at the first of the rows that have one error: their number; 0 at the others
  // the share that R0 is of the inverse weight, of contacts and limits and of equalities
  Real<T> share, equality_share;
  Mask<T> dense;  // lanes for which A is there
};
// the answer: the displacement's rate is Mh^-1 J' push
template <class T>
struct RecoverySolution {
  T* push;
  T* target;                  // c of the proof
  Mask<T>* on;                // rows that push
  Mask<T> moved, unfinished;  // lanes with something to take back; cap reached
  // scratch of one island: rows, 1 / sqrt(R1), velocities, their change, the next push, factors
  int* order;
  T *scale, *x, *dx, *next, *G, *rhs;
  T* z;  // of the adjoint
};

// (X.1)  the part g(y) = dead(y) / y of a load y >= 0 that is helped: none up to y0, then
// y - y0 less a half with a smooth start; and its slope
template <class T>
FB_INLINE T helped_part(T y, T y0, T& slope) {
  using R = Real<T>;
  const Mask<T> over = y > y0;
  const T size = select(over, y, T(1)), a = select(over, (y - y0) / y0, T(0));
  const Mask<T> start = a < T(1);
  const T dead = y0 * select(start, a * a * a * (T(1) - a * R(0.5)), a - T(R(0.5)));
  const T g = select(over, dead / size, T(0));
  slope = select(over, (select(start, a * a * (T(3) - a * R(2)), T(1)) - g) / size, T(0));
  return g;
}

// an equality pushes both ways
template <class T>
FB_INLINE Mask<T> pushes_both_ways(const RowProblem<T>& p, int r) {
  return p.lo[r] < T(0);
}

// the load y0 of a row from which on it is helped
template <class T>
FB_INLINE T least_load(const RowProblem<T>& p, const RecoveryRows<T>& a, int r) {
  const T share = select(pushes_both_ways(p, r), T(a.equality_share), T(a.share));
  return share * (p.options.v_recover * Real<T>(kDeadLoad));
}
// (X.2)  what is asked of N rows with one error, t / sqrt(1 + |t|^2 / v_recover^2) with
// t = rest - y g(|y|), y = R0 lam
template <int N, class T>
struct Asked {
  T t[N], y[N];
  T g, by_load, load;  // g with its slope, |y|
  T limit;             // 1 / sqrt(1 + |t|^2 / v_recover^2)
};
template <int N, class T>
FB_INLINE T length(const T* x) {
  if constexpr (N == 1) return abs(x[0]);
  T sum = x[0] * x[0];
  for (int i = 1; i < N; ++i) sum = mul_add(x[i], x[i], sum);
  return sqrt(sum);
}
template <int N, class T>
FB_INLINE Asked<N, T> asked_of(const RowProblem<T>& p, const RecoveryRows<T>& a, const T* lam,
                               int r) {
  Asked<N, T> x;
  const Real<T> top = p.options.v_recover;
  for (int i = 0; i < N; ++i) x.y[i] = a.R0[r + i] * lam[r + i];
  x.load = length<N>(x.y);
  x.g = helped_part(x.load, least_load(p, a, r), x.by_load);
  T square = T(0);
  for (int i = 0; i < N; ++i) {
    x.t[i] = a.rest[r + i] - x.y[i] * x.g;
    square = mul_add(x.t[i], x.t[i], square);
  }
  x.limit = T(1) / sqrt(mul_add(square, T(Real<T>(1) / (top * top)), T(1)));
  return x;
}
// lanes in which something is asked: an error is left, or a load is beyond what the velocity carries
template <int N, class T>
FB_INLINE Mask<T> something_asked(const RowProblem<T>& p, const RecoveryRows<T>& a, const T* lam,
                                  int r) {
  Mask<T> left(false);
  T square = T(0);
  for (int i = 0; i < N; ++i) {
    const T y = a.R0[r + i] * lam[r + i];
    square = mul_add(y, y, square);
    left = left | !(a.rest[r + i] == T(0));
  }
  const T y0 = least_load(p, a, r);
  return left | (square > y0 * y0);
}
template <int N, class T>
FB_INLINE void set_targets(const RowProblem<T>& p, const RecoveryRows<T>& a, const T* lam, int r,
                           Mask<T> part, RecoverySolution<T>& s) {
  const Mask<T> asked = part & something_asked<N>(p, a, lam, r);
  for (int i = 0; i < N; ++i) s.target[r + i] = T(0);
  if (!any(asked)) return;
  s.moved = s.moved | asked;
  const Asked<N, T> x = asked_of<N>(p, a, lam, r);
  for (int i = 0; i < N; ++i) s.target[r + i] = select(asked, x.t[i] * x.limit, T(0));
}

// (X.3)  c = w+ + lead + what is asked, w+ = A lam + b where the solve left the row open.  open(r):
// lanes in which it did; rate(r): w+ where there is no A
template <class T, class Open, class Rate>
FB_FN void recovery_targets(const RowProblem<T>& p, const RecoveryRows<T>& a, const T* lam,
                            Mask<T> live, Open&& open, Rate&& rate, RecoverySolution<T>& s) {
  s.moved = Mask<T>(false);
  for (int r = 0; r < p.nrow; ++r) {
    s.push[r] = T(0);
    s.on[r] = Mask<T>(false);
    if (a.together[r] == 0) continue;
    const Mask<T> part = live & (a.R0[r] > T(0));
    if (a.together[r] == 3)
      set_targets<3>(p, a, lam, r, part, s);
    else
      set_targets<1>(p, a, lam, r, part, s);
  }
  if (!any(s.moved)) return;
  for_islands(p, [&](const Island& is) {
    for (int i = 0; i < is.n; ++i) {
      const int r = is.first + i;
      if (!any(s.moved & (a.R0[r] > T(0)))) continue;
      T w = p.b[r];
      if (any(a.dense))
        for (int j = 0; j < is.n; ++j) w = mul_add(p.A[is.at + i * is.n + j], lam[is.first + j], w);
      if (!all(a.dense)) w = select(a.dense, w, rate(r));
      s.target[r] += select(open(r), w, T(0)) + a.lead[r];
    }
  });
}
template <int N, class T>
FB_INLINE void asked_adjoint(const RowProblem<T>& p, const RecoveryRows<T>& a, const T* lam, int r,
                             const T* c_bar, T* rest_bar, T* lam_bar) {
  const Asked<N, T> x = asked_of<N>(p, a, lam, r);
  const Real<T> top = p.options.v_recover;
  T along = T(0), loaded = T(0);
  for (int i = 0; i < N; ++i) along = mul_add(x.t[i], c_bar[r + i], along);
  along = along * x.limit * x.limit * (Real<T>(1) / (top * top));
  for (int i = 0; i < N; ++i) {
    rest_bar[r + i] = (c_bar[r + i] - x.t[i] * along) * x.limit;
    loaded = mul_add(x.y[i], rest_bar[r + i], loaded);
  }
  loaded = loaded * x.by_load / select(x.load > T(0), x.load, T(1));
  for (int i = 0; i < N; ++i)
    lam_bar[r + i] = -(mul_add(rest_bar[r + i], x.g, x.y[i] * loaded) * a.R0[r + i]);
}
// given the targets' cotangents, set those of `rest` and of lam, as far as they are asked by load
template <class T>
FB_FN void recovery_targets_adjoint(const RowProblem<T>& p, const RecoveryRows<T>& a, const T* lam,
                                    const T* c_bar, T* rest_bar, T* lam_bar) {
  for (int r = 0; r < p.nrow; ++r) {
    if (a.together[r] == 3)
      asked_adjoint<3>(p, a, lam, r, c_bar, rest_bar, lam_bar);
    else if (a.together[r] == 1)
      asked_adjoint<1>(p, a, lam, r, c_bar, rest_bar, lam_bar);
  }
}

// rows of an island that take part in some lane, those for which `which` holds
template <class T, class F>
FB_FN int recovery_order(const RecoveryRows<T>& a, const Island& is, F&& which,
                         RecoverySolution<T>& s) {
  int size = 0;
  for (int i = 0; i < is.n; ++i)
    if (any(a.R0[is.first + i] > T(0)) && which(is.first + i)) s.order[size++] = i;
  return size;
}
template <class T>
FB_FN int recovery_order(const RecoveryRows<T>& a, const Island& is, RecoverySolution<T>& s) {
  return recovery_order(a, is, [](int) { return true; }, s);
}

// (X.4)  (A - R + R1) push = rhs on the rows that are on, and zero on the others: rows are scaled by
// 1 / sqrt(R1), so that every pivot is at least one
template <class T>
FB_FN void recovery_factor(const RowProblem<T>& p, const RecoveryRows<T>& a, const Island& is,
                           int size, RecoverySolution<T>& s) {
  const T* A = p.A + is.at;
  for (int c = 0; c < size; ++c) {
    const int i = s.order[c], r = is.first + i;
    const Mask<T> both = pushes_both_ways(p, r);
    const T softness = select(both, T(Real<T>(kRecoverySoftness) / a.equality_share),
                              T(Real<T>(kRecoverySoftness) / a.share));
    const Mask<T> part = a.R0[r] > T(0);
    s.scale[c] = select(part, T(1) / sqrt(select(part, a.R0[r] * softness, T(1))), T(0));
  }
  for (int c = 0; c < size; ++c) {
    const int i = s.order[c], r = is.first + i;
    for (int d = 0; d < size; ++d) {
      const int j = s.order[d];
      T x = A[i * is.n + j];
      if (c == d) x -= a.R[r];
      const T g = select(s.on[r] & s.on[is.first + j], x * s.scale[c] * s.scale[d], T(0));
      s.G[c * size + d] = c == d ? g + T(1) : g;
    }
  }
  lu_factor(s.G, size);
}
// in: the right-hand side by place in the order; out: the push
template <class T>
FB_FN void recovery_solve(int first, int size, const RecoverySolution<T>& s, T* x) {
  for (int c = 0; c < size; ++c) x[c] = select(s.on[first + s.order[c]], x[c] * s.scale[c], T(0));
  lu_solve(s.G, size, x);
  for (int c = 0; c < size; ++c) x[c] = x[c] * s.scale[c];
}

// slope of the convex function along a step of Newton's method
template <class T>
FB_INLINE T recovery_slope(const RowProblem<T>& p, int first, int size,
                           const RecoverySolution<T>& s, T start, T bend, T t) {
  T sum = mul_add(bend, t, start);
  for (int c = 0; c < size; ++c) {
    const T y = mul_add(s.dx[c], t, s.x[c]) * s.scale[c];
    const Mask<T> on = pushes_both_ways(p, first + s.order[c]) | (y < T(0));
    sum += select(on, s.dx[c] * s.scale[c] * y, T(0));
  }
  return sum;
}
// (X.6)  where the slope is zero: between the last place with a negative one and the first with one
// that is not, of all places where a row changes sides
template <class T>
FB_FN T recovery_length(const RowProblem<T>& p, int first, int size, const RecoverySolution<T>& s,
                        T start, T bend) {
  const T s0 = recovery_slope(p, first, size, s, start, bend, T(0));
  T low = T(0), low_slope = s0, high = T(1);
  T high_slope = recovery_slope(p, first, size, s, start, bend, high);
  const Mask<T> full = high_slope <= abs(s0) * Real<T>(kIsDouble<T> ? 1e-9 : 1e-4);
  if (all(full)) return T(1);
  for (int c = 0; c < size; ++c) {
    const Mask<T> moves = !(s.dx[c] == T(0));
    const T t = -(s.x[c] / select(moves, s.dx[c], T(1)));
    const Mask<T> inside = moves & (t > low) & (t < high);
    if (!any(inside)) continue;
    const T f = recovery_slope(p, first, size, s, start, bend, t);
    const Mask<T> before = inside & (f < T(0)), after = inside & !(f < T(0));
    low = select(before, t, low);
    low_slope = select(before, f, low_slope);
    high = select(after, t, high);
    high_slope = select(after, f, high_slope);
  }
  const T rise = high_slope - low_slope;
  const T t = low - (high - low) * (low_slope / select(rise > T(0), rise, T(1)));
  return select(full, T(1), t);
}

// (X.5)  one step of Newton's method in the lanes of `live`; returns those that are not done
template <class T>
FB_FN Mask<T> recovery_step(const RowProblem<T>& p, const RecoveryRows<T>& a, const Island& is,
                            int size, Mask<T> live, RecoverySolution<T>& s) {
  const int first = is.first;
  const T* A = p.A + is.at;
  // x = J p + c at the last point; rows that are on there
  T level = T(0);
  for (int c = 0; c < size; ++c) {
    const int r = first + s.order[c];
    const Mask<T> on = (a.R0[r] > T(0)) & (pushes_both_ways(p, r) | (s.x[c] < T(0)));
    s.on[r] = select(live, on, s.on[r]);
    s.next[c] = -s.target[r];
  }
  recovery_factor(p, a, is, size, s);
  recovery_solve(first, size, s, s.next);
  // dx = (A - R) (next - push), slopes along it
  T start = T(0), bend = T(0);
  for (int c = 0; c < size; ++c) {
    const int i = s.order[c], r = first + i;
    T sum = T(0);
    for (int d = 0; d < size; ++d) {
      const int j = s.order[d];
      const T x = c == d ? A[i * is.n + j] - a.R[r] : A[i * is.n + j];
      sum = mul_add(x, s.next[d] - s.push[first + j], sum);
    }
    s.dx[c] = sum;
    start = mul_add(s.next[c] - s.push[r], s.x[c] - s.target[r], start);
    bend = mul_add(s.next[c] - s.push[r], sum, bend);
    const T scaled = s.target[r] * s.scale[c];
    level = mul_add(scaled, scaled, level);
  }
  const T t = recovery_length(p, first, size, s, start, bend);
  const T drop = recovery_slope(p, first, size, s, start, bend, T(0));
  const Mask<T> level_reached = !(-drop > level * Real<T>(kIsDouble<T> ? 1e-26 : 1e-12));
  const Mask<T> full = (t == T(1)) | level_reached;
  // a full step lands on the solution of its rows, whatever the way there
  Mask<T> changed(false);
  for (int c = 0; c < size; ++c) {
    const int r = first + s.order[c];
    T& push = s.push[r];
    push = select(live, select(full, s.next[c], mul_add(s.next[c] - push, t, push)), push);
    s.x[c] = select(live, mul_add(s.dx[c], select(full, T(1), t), s.x[c]), s.x[c]);
    const Mask<T> on = (a.R0[r] > T(0)) & (pushes_both_ways(p, r) | (s.x[c] < T(0)));
    changed = changed | (on & (!s.on[r])) | ((!on) & s.on[r]);
  }
  return live & !(level_reached | (full & !changed));
}

// (X.5)  the rows in the order, in the lanes of `live`
template <class T>
FB_FN void recover_island(const RowProblem<T>& p, const RecoveryRows<T>& a, const Island& is,
                          int size, Mask<T> live, RecoverySolution<T>& s) {
  for (int c = 0; c < size; ++c) s.x[c] = s.target[is.first + s.order[c]];
  for (int k = 0; k < kRecoverySteps && any(live); ++k)
    live = recovery_step(p, a, is, size, live, s);
  s.unfinished = s.unfinished | live;
}
// all islands, in those of `lanes` that have something to take back
template <class T>
FB_FN void recover_rows(const RowProblem<T>& p, const RecoveryRows<T>& a, Mask<T> lanes,
                        RecoverySolution<T>& s) {
  s.unfinished = Mask<T>(false);
  // islands of the other lanes may be larger than there is room for
  if (!any(s.moved & lanes)) return;
  for_islands(p, [&](const Island& is) {
    const int size = recovery_order(a, is, s);
    recover_island(p, a, is, size, s.moved & lanes, s);
  });
}
// (X.7)  z = (A - R + R1)^-1 push_bar on the rows that are on: the cotangent of the target is -z
template <class T>
FB_FN void recover_rows_adjoint(const RowProblem<T>& p, const RecoveryRows<T>& a, const T* push_bar,
                                RecoverySolution<T>& s) {
  for (int r = 0; r < p.nrow; ++r) s.z[r] = T(0);
  for_islands(p, [&](const Island& is) {
    const int size = recovery_order(a, is, s);
    recovery_factor(p, a, is, size, s);
    for (int c = 0; c < size; ++c) s.rhs[c] = push_bar[is.first + s.order[c]];
    recovery_solve(is.first, size, s, s.rhs);
    for (int c = 0; c < size; ++c) s.z[is.first + s.order[c]] = s.rhs[c];
  });
}

// all arrays of a solution: for up to `rows` rows, of which `part` take part
template <class T, class Carver>
FB_FN void carve_recovery(Carver& c, size_t rows, size_t part, RecoverySolution<T>& s) {
  for (T** x : {&s.push, &s.target, &s.z}) *x = c.template take<T>(rows);
  s.on = c.template take<Mask<T>>(rows);
  for (T** x : {&s.scale, &s.x, &s.dx, &s.next, &s.rhs}) *x = c.template take<T>(part);
  s.order = c.template take<int>(part);
  s.G = c.template take<T>(part * part);
}

}  // namespace fb::FB_ISA
