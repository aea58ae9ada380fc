// What the adjoint of a step needs of unfinished solves only: the cotangent of A where it is not
// -z lam'.  Proof: docs/derivations/step.md.
#pragma once
#include "core/contact/assemble.hpp"

namespace fb::FB_ISA {

// row i of group `index`, and E_r over all rows
template <class T>
struct DelassusRow {
  int index, i;
  const T* weights;
};
// (P.4)  one row of <E, dA>, E = A_bar + z lam' made symmetric: 2 dJ_r y - y' dMh Y with
// Y = Mh^-1 J_r', y = sum_j E_rj Y_j.  w.unit_row: zeros, before and after
template <class T, class P>
FB_FN void delassus_row_adjoint(const Model<T, P>& m, const Options<Real<T>>& o,
                                const StepPoint<T>& x, const DelassusRow<T>& row, Work<T>& w,
                                T* q_tan) {
  const Layout& s = m.s;
  const RowGroup& k = w.group[row.index];
  // Y and y, with their link twists
  T &one = w.unit_row[k.row + row.i], *Y = w.unit_rate, *y = w.weighted_rate;
  one = T(1);
  apply_impulses(s, w, w.unit_row, Y, w.twist2);
  one = T(0);
  apply_impulses(s, w, row.weights, y, w.twist);
  for (int d = 0; d < s.nv; ++d) w.hD_bar_extra[d] -= y[d] * Y[d];
  still_bars(m, w);
  // 2 dJ_r y: a row with the impulse 2 that meets the rates y
  const T zero[3] = {T(0), T(0), T(0)};
  T lam[3] = {T(0), T(0), T(0)};
  lam[row.i] = T(2);
  const RowBars<T> bars = row_bars<T>(k.row, lam, zero, zero, y);
  with_row_group<T>(k.kind, [&](auto rows) {
    rows.adjoint(m, o, GroupSpan{row.index, row.index + 1}, x, bars, w, q_tan);
  });
  still_tree_adjoint(m, Y, y, x.q, w, q_tan);
}
// (P.5)  all rows of <E, dA>, in the lanes of unrolled solves; hD_bar_extra takes the share of Mh's
// diagonal
template <class T, class P>
FB_FN void delassus_adjoint(const Model<T, P>& m, const Options<Real<T>>& o, const StepPoint<T>& x,
                            Work<T>& w, T* q_tan) {
  const Real<T> half(0.5);
  const T *lam = w.solution.lam, *z = w.row_bar.z;
  T* weights = w.row_weights;
  for (int r = 0; r < w.problem.nrow; ++r) w.unit_row[r] = T(0);
  int p = 0;
  for_islands(w.problem, [&](const Island& is) {
    const int first = is.first, n = is.n;
    const T* A_bar = w.row_bar.A + is.at;
    for (; p < w.ngroup && w.group[w.sorted[p]].row < first + n; ++p) {
      const RowGroup& k = w.group[w.sorted[p]];
      for (int i = 0; i < k.rows; ++i) {
        // E_r = (A_bar + A_bar' + z lam' + lam z')_r / 2
        const int a = k.row + i - first;
        for (int r = 0; r < w.problem.nrow; ++r) weights[r] = T(0);
        for (int b = 0; b < n; ++b) {
          const T e = A_bar[a * n + b] + A_bar[b * n + a] + z[first + a] * lam[first + b] +
                      z[first + b] * lam[first + a];
          weights[first + b] = select(w.solution.unrolled, e * half, T(0));
        }
        w.R_bar[first + a] += weights[first + a];
        delassus_row_adjoint(m, o, x, DelassusRow<T>{w.sorted[p], i, weights}, w, q_tan);
      }
    }
  });
}

}  // namespace fb::FB_ISA
