// Dry friction of joints: one bounded row a dof, always there.
// Proof: docs/derivations/constraint.md.
#pragma once
#include "core/contact/constraint.hpp"

namespace fb::FB_ISA {

template <class T>
struct FrictionRows {
  template <class P>
  FB_FN static void collect(const Model<T, P>& m, const Options<Real<T>>&, const T*, Mask<T> alive,
                            Work<T>& w) {
    const Layout& s = m.s;
    for (int i = 0; i < s.nfriction; ++i) {
      const int d = s.friction_dof[i];
      RowGroup& k = push_group(w, kFrictionRows, 1, d);
      k.linkA = s.dof_link[d];
      set_chains(s, k, d, -1);
      w.geometry[w.ngroup - 1].active = alive;
    }
  }

  // (L.3)  |lam| <= h frictionloss
  template <class P>
  FB_FN static void data(const Model<T, P>& m, const Options<Real<T>>& o, int index, const T*,
                         const Work<T>& w, RowData<T>& e) {
    const RowGroup& k = w.group[index];
    joint_row_data(m, o, k, e);
    e.coef[0] = T(1);
    e.b[0] = e.rest[0] = e.R0[0] = T(0);
    e.hi[0] = T(m.theta.dof_frictionloss[k.source] * m.theta.dt[0]);
    e.lo[0] = -e.hi[0];
  }

  // (L.6)  hi = -lo = h frictionloss; the row itself is constant
  template <class P>
  FB_FN static void adjoint(const Model<T, P>& m, const Options<Real<T>>&, GroupSpan span,
                            const StepPoint<T>&, const RowBars<T>& bars, Work<T>& w, T*) {
    if (!w.theta_bar) return;
    for (int i = span.from; i < span.to; ++i) {
      const RowGroup& k = w.group[i];
      const int r = k.row - bars.first;
      const T bound_bar = bars.hi[r] - bars.lo[r];
      w.theta_bar->dof_frictionloss[k.source] += bound_bar * m.theta.dt[0];
      w.theta_bar->dt[0] += bound_bar * m.theta.dof_frictionloss[k.source];
    }
  }

  // nothing of the row answers to the state
  template <class P>
  FB_FN static void columns(const Model<T, P>&, const Options<Real<T>>&, int, const StepPoint<T>&,
                            Work<T>&, LinearWork<T>&) {}
};

}  // namespace fb::FB_ISA
