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

// (L.1)  velocity that closes a gap within one step, recovery from penetration bounded:
// max(phi / h, -v_recover)
template <class T, class P>
FB_INLINE T gap_velocity(const Options<Real<T>>& o, T phi, P h) {
  return max(phi / T(h), T(-o.v_recover));
}
// cotangent of the gap of a row: -z / h where the gap term is not bounded; both_ways: an equality's
// is bounded on both sides.  Adds to the time step's
template <class T, class P>
FB_INLINE T gap_bar(const Model<T, P>& m, const Options<Real<T>>& o, T z, T phi, bool both_ways,
                    Work<T>& w) {
  const T h = T(m.theta.dt[0]), rate = phi / h;
  Mask<T> follows = rate > T(-o.v_recover);
  if (both_ways) follows = follows & (rate < T(o.v_recover));
  const T phi_bar = select(follows, -(z / h), T(0));
  // b holds phi / h
  if (w.theta_bar) w.theta_bar->dt[0] -= phi_bar * phi / h;
  return phi_bar;
}

// (L.7)  default compliance of a row between two bodies: a share of their inverse weights at the
// reference pose.  A share of the row's own diagonal would turn with the pose, and the gradient
// would have to follow it
template <class T, class P>
FB_INLINE T default_compliance(const Model<T, P>& m, const Options<Real<T>>& o, int bodyA,
                               int bodyB, bool rotation) {
  const P* w = m.theta.body_invweight0 + (rotation ? 1 : 0);
  return T((w[2 * bodyA] + w[2 * bodyB]) * o.regularization);
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

// (L.11)  rows on joints: their adjoint with z = 1 is a row of C, and with a unit rate in place of w
// one of K
template <class Rows, class T, class P>
FB_FN void joint_row_columns(const Model<T, P>& m, const Options<Real<T>>& o, int index,
                             const StepPoint<T>& x, Work<T>& w, LinearWork<T>& f) {
  const int r = w.group[index].row;
  const T zero = T(0), one = T(1);
  const RowBars<T> bars{r, &zero, &one, &zero, &zero, &zero, &zero, f.one};
  Rows::adjoint(m, o, GroupSpan{index, index + 1}, x, bars, w, f.row(r));
}
template <class Rows, class T, class P>
FB_FN void joint_stiffness_columns(const Model<T, P>& m, const Options<Real<T>>& o, int index,
                                   const StepPoint<T>& x, Work<T>& w, LinearWork<T>& f) {
  const RowData<T>& e = w.data[index];
  const int r = w.group[index].row;
  const T zero = T(0);
  const RowBars<T> bars{r, w.solution.lam + r, &zero, &zero, &zero, &zero, &zero, f.one};
  for (int c = 0; c < e.ncoef; ++c) {
    const int d = e.cdof[c];
    f.one[d] = T(1);
    Rows::adjoint(m, o, GroupSpan{index, index + 1}, x, bars, w, f.dof_row(d));
    f.one[d] = T(0);
  }
}

}  // namespace fb::FB_ISA
