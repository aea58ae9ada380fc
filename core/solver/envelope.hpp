// LU factors of a sparse matrix of symmetric structure, without pivoting: rows of L and columns of U
// are kept from their first entry to the diagonal, and nothing outside them ever fills.
// Proof: docs/derivations/worlds.md.
#pragma once
#include "core/number/pack.hpp"

namespace fb::FB_ISA {

// x . y of n numbers, several at a time where S is a machine number
template <class S>
FB_INLINE S dot_run(const S* x, const S* y, int n) {
  S sum = S(0);
  int k = 0;
  if constexpr (kPack<S> > 1) {
    if (n >= kPack<S>) {
      Pack<S> wide(Real<S>(0));
      for (; k + kPack<S> <= n; k += kPack<S>) wide = mul_add(pack_at(x + k), pack_at(y + k), wide);
      sum = sum_of_pack<S>(wide);
    }
  }
  for (; k < n; ++k) sum = mul_add(x[k], y[k], sum);
  return sum;
}
// y -= a x
template <class S>
FB_INLINE void sub_run(S a, const S* x, S* y, int n) {
  int k = 0;
  if constexpr (kPack<S> > 1) {
    const Pack<S> wide(a);
    for (; k + kPack<S> <= n; k += kPack<S>)
      put_pack(sub_mul(pack_at(y + k), wide, pack_at(x + k)), y + k);
  }
  for (; k < n; ++k) y[k] = sub_mul(y[k], a, x[k]);
}

// row i of L and column i of U, each from index first[i] to i - 1, begin at `start[i]` of their
// arrays; inv_pivot: reciprocal diagonal of U
template <class S>
struct Envelope {
  int n;
  int *first, *start;
  S *lower, *upper, *diagonal, *inv_pivot;

  FB_INLINE S* lower_row(int i) const { return lower + start[i]; }
  FB_INLINE S* upper_column(int i) const { return upper + start[i]; }
  // numbers in each of the two triangles
  FB_INLINE int size() const { return n > 0 ? start[n] : 0; }
};

// starts of the rows, from their first entries
template <class S>
FB_FN void layout_envelope(Envelope<S>& e) {
  int at = 0;
  for (int i = 0; i < e.n; ++i) {
    e.start[i] = at;
    at += i - e.first[i];
  }
  e.start[e.n] = at;
}
// the identity
template <class S>
FB_FN void clear_envelope(const Envelope<S>& e) {
  for (int k = 0; k < e.size(); ++k) e.lower[k] = e.upper[k] = S(0);
  for (int i = 0; i < e.n; ++i) e.diagonal[i] = S(1);
}
// (V.1)  L_ij = (a_ij - L_i . U_j) / u_j, U_ji = a_ji - L_j . U_i, sums over what both have
template <class S>
FB_FN void factor_envelope(const Envelope<S>& e) {
  for (int i = 0; i < e.n; ++i) {
    const int fi = e.first[i];
    S *Li = e.lower_row(i), *Ui = e.upper_column(i);
    for (int j = fi; j < i; ++j) {
      const int fj = e.first[j], from = fi > fj ? fi : fj, n = j - from;
      const S *Lj = e.lower_row(j) + (from - fj), *Uj = e.upper_column(j) + (from - fj);
      Li[j - fi] = (Li[j - fi] - dot_run(Li + (from - fi), Uj, n)) * e.inv_pivot[j];
      Ui[j - fi] = Ui[j - fi] - dot_run(Lj, Ui + (from - fi), n);
    }
    e.inv_pivot[i] = S(1) / (e.diagonal[i] - dot_run(Li, Ui, i - fi));
  }
}
// x = H^-1 x
template <class S>
FB_FN void solve_envelope(const Envelope<S>& e, S* x) {
  for (int i = 0; i < e.n; ++i)
    x[i] = x[i] - dot_run(e.lower_row(i), x + e.first[i], i - e.first[i]);
  for (int i = e.n - 1; i >= 0; --i) {
    x[i] = x[i] * e.inv_pivot[i];
    sub_run(x[i], e.upper_column(i), x + e.first[i], i - e.first[i]);
  }
}
// x = H'^-1 x
template <class S>
FB_FN void solve_envelope_transposed(const Envelope<S>& e, S* x) {
  for (int i = 0; i < e.n; ++i)
    x[i] = (x[i] - dot_run(e.upper_column(i), x + e.first[i], i - e.first[i])) * e.inv_pivot[i];
  for (int i = e.n - 1; i >= 0; --i) sub_run(x[i], e.lower_row(i), x + e.first[i], i - e.first[i]);
}

}  // namespace fb::FB_ISA
