// LU factors of a sparse matrix of symmetric structure, without pivoting, in panels of a few rows: rows
// of L and columns of U are kept from the panel of their first entry to the diagonal, and nothing
// outside them ever fills.  Proof: docs/derivations/worlds.md.
#pragma once
#include "core/number/panel.hpp"

namespace fb::FB_ISA {

// n rows, a whole number of panels.  Panel I has its first entry in panel first[I]; the columns k of its
// rows of L before the diagonal block, and the rows k of its columns of U, begin at start[I] of their
// arrays, a panel each.  diagonal: the blocks by columns, then their factors; inv_pivot: reciprocal
// diagonal of U
template <class S>
struct Envelope {
  int n;
  int *first, *start;
  S *lower, *upper, *diagonal, *inv_pivot;

  FB_INLINE int panels() const { return n / kPanel<S>; }
  // column 0 of L in panel I, as if it had one, and row 0 of U
  FB_INLINE S* lower_panel(int I) const { return lower + offset(I); }
  FB_INLINE S* upper_panel(int I) const { return upper + offset(I); }
  FB_INLINE S* block(int I) const { return diagonal + I * kPanel<S> * kPanel<S>; }

 private:
  FB_INLINE long offset(int I) const { return long(start[I] - first[I] * kPanel<S>) * kPanel<S>; }
};

// starts of the panels, from their first entries
template <class S>
FB_FN void layout_envelope(Envelope<S>& e) {
  int at = 0;
  for (int I = 0; I < e.panels(); ++I) {
    e.start[I] = at;
    at += (I - e.first[I]) * kPanel<S>;
  }
  e.start[e.panels()] = at;
}
// the identity; the upper triangle too where the matrix has its own
template <bool kSymmetric = false, class S>
FB_FN void clear_envelope(const Envelope<S>& e) {
  constexpr int W = kPanel<S>;
  const Panel<S> none(Real<S>(0));
  const int end = e.start[e.panels()] * W;
  for (int k = 0; k < end; k += W) put_panel(none, e.lower + k);
  if constexpr (!kSymmetric)
    for (int k = 0; k < end; k += W) put_panel(none, e.upper + k);
  for (int k = 0; k < e.n * W; k += W) put_panel(none, e.diagonal + k);
  for (int I = 0; I < e.panels(); ++I)
    for (int c = 0; c < W; ++c) e.block(I)[c * W + c] = S(1);
}

// factors of a diagonal block in place: L below, U on and above
template <class S>
FB_INLINE void factor_block(S* d, S* inv_pivot) {
  constexpr int W = kPanel<S>;
#pragma GCC unroll 4
  for (int c = 0; c < W; ++c) {
    const S inv = inv_pivot[c] = S(1) / d[c * W + c];
#pragma GCC unroll 4
    for (int i = c + 1; i < W; ++i) {
      const S l = d[c * W + i] = d[c * W + i] * inv;
#pragma GCC unroll 4
      for (int k = c + 1; k < W; ++k) d[k * W + i] = sub_mul(d[k * W + i], l, d[k * W + c]);
    }
  }
}
// (V.1)  panel I against panel J: L_IJ = (A_IJ - L_I U_J) U_JJ^-1, U_JI = L_JJ^-1 (A_JI - L_J U_I)
template <bool kSymmetric, class S>
FB_INLINE void factor_pair(const Envelope<S>& e, int I, int J) {
  constexpr int W = kPanel<S>;
  S *Li = e.lower_panel(I), *Ui = e.upper_panel(I);
  const S *Lj = e.lower_panel(J), *Uj = e.upper_panel(J), *d = e.block(J);
  const int from = (e.first[I] > e.first[J] ? e.first[I] : e.first[J]) * W, to = J * W;
  Panel<S> low[W], up[W];
#pragma GCC unroll 4
  for (int c = 0; c < W; ++c) {
    low[c] = panel_at(Li + (to + c) * W);
    if constexpr (!kSymmetric) up[c] = panel_at(Ui + (to + c) * W);
  }
  for (int k = from; k < to; ++k) {
    const Panel<S> l = panel_at(Li + k * W), u = panel_at(Ui + k * W);
#pragma GCC unroll 4
    for (int c = 0; c < W; ++c) {
      low[c] = sub_mul(low[c], l, Panel<S>(Uj[k * W + c]));
      if constexpr (!kSymmetric) up[c] = sub_mul(up[c], u, Panel<S>(Lj[k * W + c]));
    }
  }
#pragma GCC unroll 4
  for (int c = 0; c < W; ++c) {
    if constexpr (kSymmetric) up[c] = low[c];
    low[c] = low[c] * Panel<S>(e.inv_pivot[to + c]);
#pragma GCC unroll 4
    for (int k = c + 1; k < W; ++k) {
      low[k] = sub_mul(low[k], low[c], Panel<S>(d[k * W + c]));
      if constexpr (!kSymmetric) up[k] = sub_mul(up[k], up[c], Panel<S>(d[c * W + k]));
    }
    put_panel(low[c], Li + (to + c) * W);
    put_panel(up[c], Ui + (to + c) * W);
  }
}
template <bool kSymmetric = false, class S>
FB_FN void factor_envelope(const Envelope<S>& e) {
  constexpr int W = kPanel<S>;
  for (int I = 0; I < e.panels(); ++I) {
    for (int J = e.first[I]; J < I; ++J) factor_pair<kSymmetric>(e, I, J);
    const S *Li = e.lower_panel(I), *Ui = e.upper_panel(I);
    S* d = e.block(I);
    Panel<S> column[W];
#pragma GCC unroll 4
    for (int c = 0; c < W; ++c) column[c] = panel_at(d + c * W);
    for (int k = e.first[I] * W; k < I * W; ++k) {
      const Panel<S> l = panel_at(Li + k * W);
#pragma GCC unroll 4
      for (int c = 0; c < W; ++c) column[c] = sub_mul(column[c], l, Panel<S>(Ui[k * W + c]));
    }
#pragma GCC unroll 4
    for (int c = 0; c < W; ++c) put_panel(column[c], d + c * W);
    factor_block(d, e.inv_pivot + I * W);
  }
}

// x of a panel less what the columns before it take, for L or for U'
template <class S>
FB_INLINE void take_columns(const Envelope<S>& e, int I, const S* A, S* x) {
  constexpr int W = kPanel<S>;
  Panel<S> at = panel_at(x + I * W);
  for (int k = e.first[I] * W; k < I * W; ++k)
    at = sub_mul(at, panel_at(A + k * W), Panel<S>(x[k]));
  put_panel(at, x + I * W);
}
// what x of a panel takes from those before it, for U or for L'
template <class S>
FB_INLINE void take_rows(const Envelope<S>& e, int I, const S* A, S* x) {
  constexpr int W = kPanel<S>;
  const Panel<S> at = panel_at(x + I * W);
  for (int k = e.first[I] * W; k < I * W; ++k)
    x[k] = x[k] - sum_of_panel<S>(panel_at(A + k * W) * at);
}
// x = H^-1 x
template <class S>
FB_FN void solve_envelope(const Envelope<S>& e, S* x) {
  constexpr int W = kPanel<S>;
  for (int I = 0; I < e.panels(); ++I) {
    take_columns(e, I, e.lower_panel(I), x);
    const S* d = e.block(I);
    for (int c = 0; c < W; ++c)
      for (int i = c + 1; i < W; ++i)
        x[I * W + i] = sub_mul(x[I * W + i], d[c * W + i], x[I * W + c]);
  }
  for (int I = e.panels() - 1; I >= 0; --I) {
    const S* d = e.block(I);
    for (int c = W - 1; c >= 0; --c) {
      const S at = x[I * W + c] = x[I * W + c] * e.inv_pivot[I * W + c];
      for (int i = 0; i < c; ++i) x[I * W + i] = sub_mul(x[I * W + i], d[c * W + i], at);
    }
    take_rows(e, I, e.upper_panel(I), x);
  }
}
// x = H'^-1 x
template <class S>
FB_FN void solve_envelope_transposed(const Envelope<S>& e, S* x) {
  constexpr int W = kPanel<S>;
  for (int I = 0; I < e.panels(); ++I) {
    take_columns(e, I, e.upper_panel(I), x);
    const S* d = e.block(I);
    for (int c = 0; c < W; ++c) {
      for (int i = 0; i < c; ++i) x[I * W + c] = sub_mul(x[I * W + c], d[c * W + i], x[I * W + i]);
      x[I * W + c] = x[I * W + c] * e.inv_pivot[I * W + c];
    }
  }
  for (int I = e.panels() - 1; I >= 0; --I) {
    const S* d = e.block(I);
    for (int c = W - 1; c >= 0; --c)
      for (int i = c + 1; i < W; ++i)
        x[I * W + c] = sub_mul(x[I * W + c], d[c * W + i], x[I * W + i]);
    take_rows(e, I, e.lower_panel(I), x);
  }
}

}  // namespace fb::FB_ISA
