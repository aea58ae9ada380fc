// What rows of all kinds share: the gap term, compliance, and the columns of rows on joints.
// Proof: docs/derivations/constraint.md.
#pragma once
#include "core/contact/rows.hpp"
#include "core/state.hpp"

namespace fb::FB_ISA {

template <class T>
FB_INLINE T unbounded() {
  return T(Real<T>(1e30));
}

// (L.12)  how a row recovers: its compliance as a share of the inverse weight, the speed up to which
// velocity closes an error at once, and how compliance grows as that speed is used up
template <class R>
struct GapLaw {
  bool equality;  // an error on both sides
  R share, v_hold, growth;
};
template <class R>
FB_INLINE GapLaw<R> gap_law(const Options<R>& o, bool equality) {
  if (equality) return {true, o.regularization * R(sizeof(R) == 8 ? 10 : 1), o.v_recover, R(1)};
  return {false, o.regularization, R(sizeof(R) == 8 ? 2e-4 : 2e-3), R(0)};
}
// a deep overlap presses with this over the inverse weight [m/s^2]
inline constexpr double kJamAcceleration = 250;

// (L.13)  s(u): all of an error u up to delta, then less and less, down to jam; with its derivatives
template <class T>
struct HeldError {
  T s, by_u, by_delta, by_jam;
};
template <class T>
FB_INLINE HeldError<T> held_error(T u, T delta, T jam) {
  const Mask<T> over = u > delta;
  const T x = select(over, (u - delta) / delta, T(0)), inv = T(1) / mul_add(x * x, x, T(1));
  const T steep = (x * inv) * (x * inv) * Real<T>(3) * ((u - jam) / delta);
  return {select(over, mul_add(u - jam, inv, jam), u), select(over, inv - steep, T(1)),
          select(over, steep * (u / delta), T(0)), select(over, T(1) - inv, T(0))};
}

// (L.1)  the velocity beta that closes a gap within one step, as far as velocity may do it; rest is
// left to positions.  beta + rest = phi / h
template <class T>
struct GapTerm {
  T beta, rest, R;
  T sign, delta;  // the error is u = sign phi
  HeldError<T> held;
};
// weight: the row's inverse weight
template <class T, class P>
FB_INLINE GapTerm<T> gap_term(const GapLaw<Real<T>>& law, T phi, T weight, P h) {
  GapTerm<T> g;
  g.sign = law.equality ? select(phi < T(0), T(-1), T(1)) : T(-1);
  g.delta = T(h) * law.v_hold;
  const T u = phi * g.sign;
  g.held = held_error(u, g.delta, T(h) * T(h) * (law.share * Real<T>(kJamAcceleration)));
  g.beta = g.held.s * g.sign / T(h);
  g.rest = (u - g.held.s) * g.sign / T(h);
  g.R = weight * law.share;
  if (!law.equality) return g;
  const T used = g.held.s / g.delta;
  g.R += weight * (used * used * law.growth);
  return g;
}
// cotangents of a row's gap term, of what it leaves, and of its compliance
template <class T>
struct GapBars {
  T beta, rest, R;
};
// (L.14)  the cotangent of the gap; adds to that of the time step unless it is null
template <class T, class P>
FB_INLINE T gap_term_adjoint(const GapLaw<Real<T>>& law, const GapTerm<T>& g, T weight, P h,
                             const GapBars<T>& bar, T* h_bar) {
  T s_bar = (bar.beta - bar.rest) * g.sign / T(h), delta_bar = T(0);
  if (law.equality) {
    // R = weight (share + growth (s / delta)^2)
    const T used_bar = bar.R * weight * (g.held.s / g.delta * (law.growth * Real<T>(2)));
    s_bar += used_bar / g.delta;
    delta_bar = -(used_bar * g.held.s / (g.delta * g.delta));
  }
  if (h_bar) {
    // beta and rest by 1 / h; delta = h v_hold, jam = h^2 share a
    const T jam_bar = s_bar * g.held.by_jam * T(h) * (law.share * Real<T>(2 * kJamAcceleration));
    *h_bar += (delta_bar + s_bar * g.held.by_delta) * law.v_hold + jam_bar -
              (bar.beta * g.beta + bar.rest * g.rest) / T(h);
  }
  return mul_add(s_bar, g.held.by_u, bar.rest * g.sign / T(h)) * g.sign;
}

// (L.7)  inverse weight of a row between two bodies, at the reference pose: its default compliance is
// a share of it.  A share of the row's own diagonal would turn with the pose, and the gradient would
// have to follow it
template <class T, class P>
FB_INLINE T row_weight(const Model<T, P>& m, int bodyA, int bodyB, bool rotation) {
  const P* w = m.theta.body_invweight0 + (rotation ? 1 : 0);
  return T(w[2 * bodyA] + w[2 * bodyB]);
}

template <class T>
FB_INLINE RowGroup& push_group(Work<T>& w, int kind, int rows, int source) {
  RowGroup& k = w.group[w.ngroup];
  k = {};
  k.kind = kind;
  k.rows = rows;
  k.source = source;
  w.geometry[w.ngroup].active = Mask<T>(true);
  ++w.ngroup;
  return k;
}

// one row on joints: its bounds and coefficient unless its kind says otherwise, and its compliance
template <class T, class P>
FB_INLINE void joint_row_data(const Model<T, P>& m, const Options<Real<T>>& o, const RowGroup& k,
                              RowData<T>& e) {
  e.lo[0] = T(0);
  e.hi[0] = unbounded<T>();
  e.ncoef = 1;
  e.cdof[0] = k.start[0];
  e.R[0] = T(m.theta.dof_invweight0[k.start[0]] * o.regularization);
}
// the gap term of row i, and what positions are asked for
template <class T, class P>
FB_INLINE void gap_row_data(const Model<T, P>& m, const GapLaw<Real<T>>& law, T phi, T weight,
                            int i, RowData<T>& e) {
  const GapTerm<T> g = gap_term(law, phi, weight, m.theta.dt[0]);
  e.b[i] = g.beta;
  e.rest[i] = g.rest;
  e.R[i] = g.R;
  e.R0[i] = weight * law.share;
}
// cotangent of the gap of row r
template <class T, class P>
FB_INLINE T gap_row_bar(const Model<T, P>& m, const GapLaw<Real<T>>& law, T phi, T weight,
                        const RowBars<T>& bars, int r, Work<T>& w) {
  const int at = r - bars.first;
  const GapBars<T> bar{bars.beta[at], bars.rest[at], bars.R[at]};
  return gap_term_adjoint(law, gap_term(law, phi, weight, m.theta.dt[0]), weight, m.theta.dt[0],
                          bar, w.theta_bar ? w.theta_bar->dt : nullptr);
}

// (L.11)  rows on joints: their adjoint with z = 1 is a row of C, and with a unit rate in place of w
// one of K
template <class Rows, class T, class P>
FB_FN void joint_row_columns(const Model<T, P>& m, const Options<Real<T>>& o, int index,
                             const StepPoint<T>& x, Work<T>& w, LinearWork<T>& f) {
  const int r = w.group[index].row;
  const T zero = T(0), one = T(1), beta = T(-1), R = -w.solution.lam[r];
  RowBars<T> bars = row_bars(r, &zero, &one, &zero, f.one);
  bars.beta = &beta;
  bars.R = &R;
  Rows::adjoint(m, o, GroupSpan{index, index + 1}, x, bars, w, f.row(r));
}
template <class Rows, class T, class P>
FB_FN void joint_stiffness_columns(const Model<T, P>& m, const Options<Real<T>>& o, int index,
                                   const StepPoint<T>& x, Work<T>& w, LinearWork<T>& f) {
  const RowData<T>& e = w.data[index];
  const int r = w.group[index].row;
  const T zero = T(0);
  const RowBars<T> bars = row_bars(r, w.solution.lam + r, &zero, &zero, f.one);
  for (int c = 0; c < e.ncoef; ++c) {
    const int d = e.cdof[c];
    f.one[d] = T(1);
    Rows::adjoint(m, o, GroupSpan{index, index + 1}, x, bars, w, f.dof_row(d));
    f.one[d] = T(0);
  }
}

}  // namespace fb::FB_ISA
