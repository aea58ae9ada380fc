// The accelerations of a state under MuJoCo's law: the minimum of a strictly convex function by
// Newton's method with an exact line search.  Proof: docs/derivations/soft.md.
#pragma once
#include "core/soft/motion.hpp"

namespace fb::FB_ISA {

// iterations at most, evaluations of one line search, share of the slope at which it ends, and the
// Newton decrement, relative to that of the accelerations, at which the minimum is found
inline constexpr int kSoftIterations = 100, kSoftSearch = 50;
inline constexpr double kSoftSlope = 0.1;
template <class R>
inline constexpr R kSoftTolerance = sizeof(R) == 8 ? R(1e-12) : R(1e-6);
// a decrement that no longer falls is good enough below this; one below the next matters to nobody
template <class R>
inline constexpr R kSoftFloor = sizeof(R) == 8 ? R(1e-7) : R(1e-4);
inline constexpr double kSoftSlight = 1e-6;

// what came of a solve: lanes in which the minimum was not found, the decrement there, iterations
template <class T>
struct SoftOutcome {
  Mask<T> left;
  T residual, iterations;
};

// a number without its tangent
template <class T>
FB_INLINE T without_tangent(T x) {
  if constexpr (kTangent<T>) x.d = decltype(x.d)(0);
  return x;
}
// forces of all rows at y
template <class T>
FB_FN void soft_forces(SoftWork<T>& f, const T* y, T* force) {
  for (int g = 0; g < f.ngroup; ++g) {
    const SoftBlock<T>& b = f.group[g].block;
    const int r = f.group[g].row;
    with_rows(b.rows, [&](auto rows) { soft_force<rows.n>(b, y + r, force + r); });
  }
}
// S of one group at y, its lower half; where it is what it was
template <int N, class T>
FB_INLINE Mask<T> update_group_stiffness(SoftGroup<T>& e, const T* y, T* kept) {
  T S[N][N];
  Mask<T> same(true);
  soft_stiffness<N>(e.block, y, S);
  // the normal's number is zero only where all are
  e.idle = all(is_nothing(S[0][0]));
  for (int i = 0; i < N; ++i)
    for (int j = 0; j <= i; ++j) {
      same = same & is_nothing(S[i][j] - kept[N * i + j]);
      kept[N * i + j] = S[i][j];
    }
  return same;
}
// S of all blocks at y; whether it differs from what it was
template <class T>
FB_FN bool update_stiffness(SoftWork<T>& f) {
  Mask<T> same(true);
  for (int g = 0; g < f.ngroup; ++g) {
    SoftGroup<T>& e = f.group[g];
    with_rows(e.block.rows, [&](auto rows) {
      same = same & update_group_stiffness<rows.n>(e, f.y + e.row, f.S + e.block_at);
    });
  }
  return !all(same);
}
// forces and S of all rows at y, and what the forces push with; whether S differs from what it was
template <class T>
FB_FN bool push_rows(SoftWork<T>& f) {
  Mask<T> same(true);
  for (int d = 0; d < f.M.p.n; ++d) f.pushed[d] = T(0);
  for (int g = 0; g < f.ngroup; ++g) {
    SoftGroup<T>& e = f.group[g];
    with_rows(e.block.rows, [&](auto rows) {
      constexpr int N = rows.n;
      T force[N];
      soft_force<N>(e.block, f.y + e.row, force);
      for (int i = 0; i < N; ++i) f.f[e.row + i] = force[i];
      same = same & update_group_stiffness<N>(e, f.y + e.row, f.S + e.block_at);
      // where a normal does not push, nothing does
      if (all(is_nothing(force[0])) && (N == 1 || e.block.kind != kSoftEquality)) return;
      const T* J = f.J + e.entry;
      for (int k = 0; k < e.ndof; ++k, J += N) {
        T& out = f.pushed[f.dof[e.dof + k]];
        T sum = out;
        for (int i = 0; i < N; ++i) sum = mul_add(J[i], force[i], sum);
        out = sum;
      }
    });
  }
  return !all(same);
}
// S J of one dof
template <int N, class T>
FB_INLINE void stiff_column(const T S[N][N], const T* J, T* SJ) {
  for (int i = 0; i < N; ++i) {
    SJ[i] = S[i][0] * J[0];
    for (int j = 1; j < N; ++j) SJ[i] = mul_add(S[i][j], J[j], SJ[i]);
  }
}
template <int N, class T>
FB_INLINE T add_product(const T* x, const T* y, T sum) {
  for (int i = 0; i < N; ++i) sum = mul_add(x[i], y[i], sum);
  return sum;
}
// H += J' S J of one group, two dofs at a time; kWhole: its dofs are all that the first one hangs on
template <int N, bool kWhole, class T>
FB_FN void add_group_stiffness(const SoftWork<T>& f, const SoftGroup<T>& e, const DofMatrix<T>& H) {
  const int *dofs = f.dof + e.dof, *place = f.place + (kWhole ? 0 : e.place), n = e.ndof;
  const T *J = f.J + e.entry, *kept = f.S + e.block_at;
  T S[N][N], x[N], y[N];
  for (int i = 0; i < N; ++i)
    for (int j = 0; j < N; ++j) S[i][j] = kept[i < j ? N * j + i : N * i + j];
  for (int k = 0; k + 1 < n; k += 2, J += 2 * N) {
    stiff_column<N>(S, J, x);
    stiff_column<N>(S, J + N, y);
    T &dx = H.diagonal[dofs[k]], &dy = H.diagonal[dofs[k + 1]];
    dx = add_product<N>(x, J, dx);
    dy = add_product<N>(y, J + N, dy);
    const int left = n - k - 2;
    // where the numbers of both lie, the first with the second dof
    T *px = H.value, *py = H.value;
    const int *ix = place, *iy = place + left + 1;
    if (kWhole) {
      px = H.row(dofs[k]) + left;
      py = H.row(dofs[k + 1]) + left;
    } else {
      px = H.value + *ix++;
      place = iy + left;
    }
    *px = add_product<N>(x, J + N, *px);
    const T* other = J + 2 * N;
    for (int l = 0; l < left; ++l, other += N) {
      if (kWhole) {
        --px;
        --py;
      } else {
        px = H.value + ix[l];
        py = H.value + iy[l];
      }
      *px = add_product<N>(x, other, *px);
      *py = add_product<N>(y, other, *py);
    }
  }
  if (n % 2 == 0) return;
  stiff_column<N>(S, J, x);
  T& last = H.diagonal[dofs[n - 1]];
  last = add_product<N>(x, J, last);
}
// (S.25)  H = M + J' S J, factored
template <class T>
FB_FN void factor_hessian(SoftWork<T>& f) {
  const DofMatrix<T>&M = f.M, &H = f.H;
  const int n = M.p.n, entries = H.p.start[n];
  for (int i = 0; i < n; ++i) H.diagonal[i] = M.diagonal[i];
  if (entries == M.p.start[n]) {
    for (int e = 0; e < entries; ++e) H.value[e] = M.value[e];
  } else {
    for (int e = 0; e < entries; ++e) H.value[e] = T(0);
    for (int i = 0; i < n; ++i) {
      const int *from = M.p.columns(i), *to = H.p.columns(i);
      for (int e = 0, at = 0; e < M.p.count(i); ++e, ++at) {
        while (to[at] != from[e]) ++at;
        H.row(i)[at] = M.row(i)[e];
      }
    }
  }
  for (int g = 0; g < f.ngroup; ++g) {
    const SoftGroup<T>& e = f.group[g];
    // nothing where no lane pushes
    if (e.idle) continue;
    with_rows(e.block.rows, [&](auto rows) {
      if (e.place < 0)
        add_group_stiffness<rows.n, true>(f, e, H);
      else
        add_group_stiffness<rows.n, false>(f, e, H);
    });
  }
  factor(H);
}

// (S.26)  slope and curvature of s along z at y + t z
template <class T>
FB_FN void search_slope(SoftWork<T>& f, T t, T& slope, T& bend) {
  for (int g = 0; g < f.ngroup; ++g) {
    const SoftBlock<T>& b = f.group[g].block;
    const int at = f.group[g].row;
    with_rows(b.rows, [&](auto rows) {
      T y[rows.n];
      for (int i = 0; i < rows.n; ++i) y[i] = mul_add(t, f.z[at + i], f.y[at + i]);
      soft_along<rows.n>(b, y, f.z + at, slope, bend);
    });
  }
}
// (S.27)  the zero of the slope along the step, by Newton's method within a bracket
template <class T>
FB_FN T line_search(SoftWork<T>& f, T g0, T g1, T start, Mask<T> live) {
  const T zero = T(0), one = T(1), two = T(2);
  T lo = zero, hi = zero, t = one, before = T(Real<T>(1e30));
  Mask<T> open(true), left = live;  // open: no upper end yet
  for (int k = 0; k < kSoftSearch && any(left); ++k) {
    T slope = mul_add(t, g1, g0), bend = g1;
    search_slope(f, t, slope, bend);
    left = left & (abs(slope) > start * Real<T>(kSoftSlope));
    const Mask<T> below = slope < zero;
    lo = select(left & below, t, lo);
    hi = select(left & !below, t, hi);
    open = open & !(left & !below);
    const T newton = t - slope / bend;
    // a bracket that was not halved is: from end to end Newton's steps would not close it
    const T width = hi - lo;
    const Mask<T> closes = (newton < hi) & !(width > before * Real<T>(0.5));
    const Mask<T> inside = (newton > lo) & (open | closes);
    before = select(open, before, width);
    const T other = select(open, two * t, (lo + hi) * Real<T>(0.5));
    const T next = select(inside, newton, other);
    left = left & !(next == t);
    t = select(left, next, t);
  }
  // not found: the lower end, where the function is lower than at the start
  return select(left, select(lo > zero, lo, t * Real<T>(0.5)), t);
}

// y = J a + y0
template <class T>
FB_FN void open_rows_at(SoftWork<T>& f) {
  soft_rows_times(f, f.a, f.y);
  for (int g = 0; g < f.ngroup; ++g)
    for (int i = 0; i < f.group[g].block.rows; ++i) f.y[f.group[g].row + i] += f.group[g].y0[i];
}

// (S.38)  the carried accelerations, where they cost less than the start that was chosen; f.z and
// f.Mstep serve as scratch
template <class T>
FB_FN void start_warm(SoftWork<T>& f, T least) {
  const int n = f.M.p.n;
  const T half = T(Real<T>(0.5));
  soft_rows_times(f, f.warm, f.z);
  multiply(f.M, f.warm, f.Mstep);
  T cost = T(0);
  for (int d = 0; d < n; ++d) cost = mul_add(f.Mstep[d] * half - f.smooth[d], f.warm[d], cost);
  for (int g = 0; g < f.ngroup; ++g) {
    const SoftGroup<T>& e = f.group[g];
    with_rows(e.block.rows, [&](auto rows) {
      for (int i = 0; i < rows.n; ++i) f.z[e.row + i] += e.y0[i];
      cost += soft_cost<rows.n>(e.block, f.z + e.row);
    });
  }
  const Mask<T> warm = cost < least;
  if (!any(warm)) return;
  for (int d = 0; d < n; ++d) {
    f.a[d] = select(warm, f.warm[d], f.a[d]);
    f.Ma[d] = select(warm, f.Mstep[d], f.Ma[d]);
  }
  for (int r = 0; r < f.nrow; ++r) f.y[r] = select(warm, f.z[r], f.y[r]);
}
// at rest, y = y0, in some lanes
template <class T>
FB_FN void start_at_rest(SoftWork<T>& f, Mask<T> rest) {
  for (int d = 0; d < f.M.p.n; ++d) {
    f.a[d] = select(rest, T(0), f.a[d]);
    f.Ma[d] = select(rest, T(0), f.Ma[d]);
  }
  for (int g = 0; g < f.ngroup; ++g)
    for (int i = 0; i < f.group[g].block.rows; ++i) {
      T& y = f.y[f.group[g].row + i];
      y = select(rest, f.group[g].y0[i], y);
    }
}
// (S.37)  where to start: at the motion without rows in f.a, or at rest where that costs less, as it
// does where a robot stands or sticks, or where the last solve ended.  a, Ma and y there; returns the
// size of smooth accelerations
template <class T>
FB_FN T choose_start(SoftWork<T>& f) {
  const int n = f.M.p.n;
  const T half = T(Real<T>(0.5));
  open_rows_at(f);
  multiply(f.M, f.a, f.Ma);
  T size = T(0), moving = T(0), resting = T(0);
  for (int d = 0; d < n; ++d) {
    size = mul_add(f.smooth[d], f.a[d], size);
    moving = mul_add(f.Ma[d] * half - f.smooth[d], f.a[d], moving);
  }
  for (int g = 0; g < f.ngroup; ++g) {
    const SoftGroup<T>& e = f.group[g];
    with_rows(e.block.rows, [&](auto rows) {
      moving += soft_cost<rows.n>(e.block, f.y + e.row);
      resting += soft_cost<rows.n>(e.block, e.y0);
    });
  }
  const Mask<T> rest = resting < moving;
  if (any(rest)) start_at_rest(f, rest);
  if (f.nwarm > 0) start_warm(f, select(rest, resting, moving));
  return size;
}
// x' H^-1 x with the factors
template <class T>
FB_FN T inverse_norm(const SoftWork<T>& f, const T* x) {
  const DofMatrix<T>& H = f.H;
  T sum = T(0);
  for (int i = 0; i < H.p.n; ++i) f.half[i] = x[i];
  for (int i = H.p.n - 1; i >= 0; --i) {
    const T y = f.half[i];
    const int* col = H.p.columns(i);
    for (int e = 0; e < H.p.count(i); ++e) f.half[col[e]] = sub_mul(f.half[col[e]], H.row(i)[e], y);
    sum = mul_add(y * y, H.diagonal[i], sum);
  }
  return sum;
}
// x' M x
template <class T>
FB_FN T motion_norm(const SoftWork<T>& f, const T* x) {
  T sum = T(0);
  multiply(f.M, x, f.half);
  for (int i = 0; i < f.M.p.n; ++i) sum = mul_add(x[i], f.half[i], sum);
  return sum;
}
// (S.28)  the Newton step at a: grad = -dF/da in f.grad, step = H^-1 grad; returns grad' step
template <class T>
FB_FN T newton_step(SoftWork<T>& f, bool first) {
  const int n = f.M.p.n;
  // where no row has changed its zone H is what it was
  if (push_rows(f) || first) factor_hessian(f);
  for (int d = 0; d < n; ++d) f.step[d] = f.grad[d] = (f.smooth[d] + f.pushed[d]) - f.Ma[d];
  solve(f.H, f.step);
  T decrement = T(0);
  for (int d = 0; d < n; ++d) decrement = mul_add(f.step[d], f.grad[d], decrement);
  return decrement;
}
// along the step to the minimum there; Ma and y follow
template <class T>
FB_FN void take_step(SoftWork<T>& f, T decrement, Mask<T> live) {
  const int n = f.M.p.n;
  multiply(f.M, f.step, f.Mstep);
  soft_rows_times(f, f.step, f.z);
  T g0 = T(0), g1 = T(0);
  for (int d = 0; d < n; ++d) {
    g0 = mul_add(f.Ma[d] - f.smooth[d], f.step[d], g0);
    g1 = mul_add(f.Mstep[d], f.step[d], g1);
  }
  const T t = select(live, line_search(f, g0, g1, decrement, live), T(0));
  for (int d = 0; d < n; ++d) {
    f.a[d] = without_tangent(mul_add(t, f.step[d], f.a[d]));
    f.Ma[d] = mul_add(t, f.Mstep[d], f.Ma[d]);
  }
  for (int r = 0; r < f.nrow; ++r) f.y[r] = mul_add(t, f.z[r], f.y[r]);
  if constexpr (kTangent<T>) {
    multiply(f.M, f.a, f.Ma);
    open_rows_at(f);
  }
}
// (S.32)  the minimum: a, y and f, with H at the minimum factored.  Starts at f.a, from which forces
// and accelerations have the size that the decrement is compared with
template <class T>
FB_FN SoftOutcome<T> soft_newton(SoftWork<T>& f, Mask<T> alive) {
  const int n = f.M.p.n;
  const T zero = T(0);
  const T size = choose_start(f);
  Mask<T> live = alive & f.touched, lost(false);
  T best = T(Real<T>(1e30)), stalled = zero, rel = zero, iterations = zero;
  for (int k = 0;; ++k) {
    const T decrement = newton_step(f, k == 0);
    T own = zero;
    for (int d = 0; d < n; ++d) own = mul_add(f.a[d], f.Ma[d], own);
    const auto relative = [&](T scale) {
      return sqrt(abs(decrement) / select(scale > zero, scale, T(1)));
    };
    T scale = max(size, own), now = relative(scale);
    // how often in turn it did not fall: far from the end it may rise
    const Mask<T> falls = now < best;
    stalled = select(live, select(falls, zero, stalled + T(1)), stalled);
    best = select(live & falls, now, best);
    // where it stalls, the forces of stiff rows may be all that rounding leaves, or the accelerations
    // stand still while forces that cancel are rounded
    const Mask<T> slow = live & (stalled >= T(3));
    if (any(slow)) {
      now = relative(select(slow, max(scale, inverse_norm(f, f.pushed)), scale));
      now = select(slow, min(now, sqrt(motion_norm(f, f.step) / select(scale > zero, scale, T(1)))),
                   now);
    }
    rel = select(live, now, rel);
    const Mask<T> done =
        (now <= T(kSoftTolerance<Real<T>>)) | ((stalled >= T(3)) & (now <= T(kSoftFloor<Real<T>>)));
    // a matrix that rounding has made indefinite is of no use
    const Mask<T> bad = (decrement < zero) & !(now <= T(kSoftFloor<Real<T>>));
    lost = lost | (live & (bad | !is_finite(primal(now))));
    live = live & !(done | lost);
    if (!any(live) || k == kSoftIterations) break;
    iterations += select(live, T(1), zero);
    take_step(f, decrement, live);
  }
  // a last whole step, after which the factors are those of the minimum
  for (int d = 0; d < n; ++d) f.a[d] = select(live, f.a[d], f.a[d] + f.step[d]);
  open_rows_at(f);
  soft_forces(f, f.y, f.f);
  // tangents of the adjoint need those of H at the minimum
  if constexpr (kTangent<T>)
    if (update_stiffness(f)) factor_hessian(f);
  return {Mask<T>(live | lost), rel, iterations};
}

}  // namespace fb::FB_ISA
