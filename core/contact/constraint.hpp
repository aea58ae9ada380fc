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
// velocity closes an error at once, how compliance grows as that speed is used up, and the speed that
// deep errors are left with
template <class R>
struct GapLaw {
  bool equality;  // an error on both sides
  R share, v_hold, growth, v_jam;
};
template <class R>
FB_INLINE GapLaw<R> gap_law(const Options<R>& o, bool equality) {
  const bool wide = sizeof(R) == 8;
  // equalities have one law in all precisions
  const R share = equality ? R(1e-4) : o.regularization;
  if (equality) return {true, share, o.v_recover, R(1), share * o.v_recover};
  return {false, share, o.v_recover * R(wide ? 4e-4 : 4e-3), R(0), share * o.v_recover};
}

// (L.13)  the part f(u) = s(u) / u of an error u that velocity closes: all of it up to delta, then
// less and less, down to s = jam; with its derivatives
template <class T>
struct HeldPart {
  T f, by_u, by_delta, by_jam;
};
template <class T>
FB_INLINE HeldPart<T> held_part(T u, T delta, T jam) {
  const Mask<T> over = u > delta;
  if (!any(over)) return {T(1), T(0), T(0), T(0)};
  const T size = select(over, u, T(1)), x = select(over, (u - delta) / delta, T(0));
  const T inv = T(1) / mul_add(x * x, x, T(1)), s = mul_add(u - jam, inv, jam);
  const T steep = (x * inv) * (x * inv) * Real<T>(3) * ((u - jam) / delta), f = s / size;
  const T zero = T(0);
  return {select(over, f, T(1)), select(over, (inv - steep - f) / size, zero),
          select(over, steep / delta, zero), select(over, (T(1) - inv) / size, zero)};
}

// a row is built where the free motion ends nearer than this: the smooth law acts before rows close,
// and hardly any more at the margin
template <class R>
FB_INLINE R row_reach(const Options<R>& o) {
  return o.smoothing > R(0) ? o.margin : R(0);
}

// (L.1)  the velocity beta that closes the gaps of N rows within one step, as far as velocity may do
// it; rest is left to positions.  beta + rest = phi / h.  Three rows have one error, its length
template <int N, class T>
struct GapTerm {
  T beta[N], rest[N], R;
  T size, square, delta;  // the error, its square
  HeldPart<T> held;
};
// weight: the inverse weight of the rows
template <int N, class T, class P>
FB_INLINE GapTerm<N, T> gap_term(const GapLaw<Real<T>>& law, const T* phi, T weight, P h) {
  GapTerm<N, T> g;
  g.square = phi[0] * phi[0];
  for (int i = 1; i < N; ++i) g.square = mul_add(phi[i], phi[i], g.square);
  if constexpr (N == 1)
    g.size = law.equality ? abs(phi[0]) : -phi[0];
  else
    g.size = sqrt(g.square);
  g.delta = T(h) * law.v_hold;
  g.held = held_part(g.size, g.delta, T(h) * law.v_jam);
  for (int i = 0; i < N; ++i) {
    g.beta[i] = phi[i] * g.held.f / T(h);
    g.rest[i] = phi[i] * (T(1) - g.held.f) / T(h);
  }
  g.R = weight * law.share;
  if (!law.equality) return g;
  const T used = g.held.f / g.delta;
  g.R += weight * (used * used * g.square * law.growth);
  return g;
}
// cotangents of gap terms, of what they leave, and of compliance
template <int N, class T>
struct GapBars {
  T beta[N], rest[N], R;  // R: summed over the rows
};
// (L.14)  the cotangents of the gaps; adds to that of the time step unless it is null
template <int N, class T, class P>
FB_INLINE void gap_term_adjoint(const GapLaw<Real<T>>& law, const T* phi, T weight, P h,
                                const GapBars<N, T>& bar, T* phi_bar, T* h_bar) {
  const GapTerm<N, T> g = gap_term<N>(law, phi, weight, h);
  const T f = g.held.f;
  // R = weight (share + growth (f u / delta)^2)
  const T used_bar =
      law.equality ? bar.R * weight * (law.growth * Real<T>(2)) / (g.delta * g.delta) : T(0);
  T f_bar = used_bar * f * g.square, scale_bar = T(0);
  for (int i = 0; i < N; ++i) {
    f_bar = mul_add((bar.beta[i] - bar.rest[i]) / T(h), phi[i], f_bar);
    scale_bar += bar.beta[i] * g.beta[i] + bar.rest[i] * g.rest[i];
  }
  // the error's direction is its sign where it is one number
  const T along = f_bar * g.held.by_u / select(g.size > T(0), g.size, T(1));
  for (int i = 0; i < N; ++i)
    phi_bar[i] = (bar.beta[i] * f + bar.rest[i] * (T(1) - f)) / T(h) +
                 phi[i] * mul_add(used_bar * f, f, along);
  if (!h_bar) return;
  // beta and rest by 1 / h; delta = h v_hold, jam = h v_jam
  *h_bar += f_bar * (g.held.by_delta * law.v_hold + g.held.by_jam * law.v_jam) -
            (used_bar * f * f * g.square + scale_bar) / T(h);
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

// a contact and its geometry in some lanes
template <class T>
FB_INLINE void push_contact(const RowGroup& b, const RowGeometry<T>& x, Mask<T> active,
                            Work<T>& w) {
  w.group[w.ngroup] = b;
  w.geometry[w.ngroup] = x;
  w.geometry[w.ngroup++].active = active;
}
// the rims of a contact, rows behind it
FB_INLINE RowGroup rims_of(const RowGroup& contact, int condim) {
  RowGroup b = contact;
  b.kind = kRimRows;
  b.rows = condim == 4 ? 1 : 3;
  return b;
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
  e.weight = T(m.theta.dof_invweight0[k.start[0]]);
}
// the gap terms of N rows, and what positions are asked for
template <int N, class T, class P>
FB_INLINE void gap_row_data(const Model<T, P>& m, const GapLaw<Real<T>>& law, const T* phi,
                            T weight, RowData<T>& e) {
  const GapTerm<N, T> g = gap_term<N>(law, phi, weight, m.theta.dt[0]);
  e.weight = weight;
  for (int i = 0; i < N; ++i) {
    e.b[i] = g.beta[i];
    e.rest[i] = g.rest[i];
    e.R[i] = g.R;
    e.R0[i] = weight * law.share;
  }
}
// cotangents of the gaps of N rows from row r on
template <int N, class T>
struct GapRowBars {
  T phi[N];
};
template <int N, class T, class P>
FB_INLINE GapRowBars<N, T> gap_row_bars(const Model<T, P>& m, const GapLaw<Real<T>>& law,
                                        const T* phi, T weight, const RowBars<T>& bars, int r,
                                        Work<T>& w) {
  GapBars<N, T> bar{{}, {}, T(0)};
  GapRowBars<N, T> out;
  for (int i = 0; i < N; ++i) {
    const int at = r - bars.first + i;
    bar.beta[i] = bars.beta[at];
    bar.rest[i] = bars.rest[at];
    bar.R += bars.R[at];
  }
  gap_term_adjoint<N>(law, phi, weight, m.theta.dt[0], bar, out.phi,
                      w.theta_bar ? w.theta_bar->dt : nullptr);
  return out;
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
