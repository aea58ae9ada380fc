// Symmetric matrices over the dofs with the sparsity of a tree and of what joins its branches,
// factored L' D L from the leaves to the root.  Proof: docs/derivations/soft.md.
#pragma once
#include "core/model/layout.hpp"

namespace fb::FB_ISA {

// entries below the diagonal: row i has columns col[start[i] .. start[i + 1]), ascending
struct DofPattern {
  int n;
  int *start, *col;

  FB_INLINE int count(int i) const { return start[i + 1] - start[i]; }
  FB_INLINE const int* columns(int i) const { return col + start[i]; }
};
// value of (i, j) at the same place as its column; L in it after factor()
template <class T>
struct DofMatrix {
  DofPattern p;
  T *value, *diagonal;

  FB_INLINE T* row(int i) const { return value + p.start[i]; }
};

// ancestors of every dof
FB_FN void tree_pattern(const Layout& s, DofPattern& p) {
  p.n = s.nv;
  p.start[0] = 0;
  for (int i = 0; i < s.nv; ++i) {
    const int parent = s.dof_parent[i];
    int at = p.start[i];
    if (parent >= 0) {
      for (int e = p.start[parent]; e < p.start[parent + 1]; ++e) p.col[at++] = p.col[e];
      p.col[at++] = parent;
    }
    p.start[i + 1] = at;
  }
}

// sets of dofs below each dof, one bit each; only words from the lowest on have been written
struct DofSets {
  unsigned long long* word;
  int *lowest, width;

  FB_INLINE unsigned long long* of(int i) const { return word + size_t(i) * width; }
  FB_INLINE void clear(int i) const {
    lowest[i] = i >> 6;
    of(i)[i >> 6] = 0;
  }
  // words from `low` on may be written to
  FB_INLINE void reach(int i, int low) const {
    for (; lowest[i] > low;) of(i)[--lowest[i]] = 0;
  }
  FB_INLINE void add(int i, int j) const {
    reach(i, j >> 6);
    of(i)[j >> 6] |= 1ull << (j & 63);
  }
  // what set j has, below its own word where that is asked for
  FB_INLINE void add_all(int i, int j, int below) const {
    reach(i, lowest[j]);
    for (int e = lowest[j]; e < below; ++e) of(i)[e] |= of(j)[e];
  }
};
FB_INLINE int set_words(int n) { return (n + 63) / 64; }
// of a word that is not zero
FB_INLINE int highest_bit(unsigned long long word) { return 63 - __builtin_clzll(word); }

// (S.8)  the pattern with what elimination fills in: sets hold the columns below the diagonal
FB_FN void filled_pattern(const DofSets& sets, DofPattern& p) {
  const int n = p.n;
  for (int i = n - 1; i > 0; --i) {
    const unsigned long long* own = sets.of(i);
    // the largest column takes over the rest
    for (int k = i >> 6; k >= sets.lowest[i]; --k) {
      if (!own[k]) continue;
      const int j = 64 * k + highest_bit(own[k]);
      sets.add_all(j, i, k);
      sets.of(j)[k] |= own[k] & ~(1ull << (j & 63));
      break;
    }
  }
  int at = 0;
  for (int i = 0; i < n; ++i) {
    p.start[i] = at;
    for (int k = sets.lowest[i]; k <= i >> 6; ++k)
      for (unsigned long long left = sets.of(i)[k]; left; left &= left - 1)
        p.col[at++] = 64 * k + highest_bit(left & -left);
  }
  p.start[n] = at;
}

// (S.9)  H = L' D L in place; diagonal holds 1 / D
template <class T>
FB_FN void factor(const DofMatrix<T>& H) {
  for (int i = H.p.n - 1; i >= 0; --i) {
    const T inverse = T(1) / H.diagonal[i];
    H.diagonal[i] = inverse;
    T* own = H.row(i);
    const int* col = H.p.columns(i);
    for (int e = H.p.count(i) - 1; e >= 0; --e) {
      const int j = col[e];
      const T l = own[e] * inverse;
      T* to = H.row(j);
      H.diagonal[j] = sub_mul(H.diagonal[j], l, own[e]);
      if (H.p.count(j) == e) {
        for (int k = 0; k < e; ++k) to[k] = sub_mul(to[k], l, own[k]);
      } else {
        const int* other = H.p.columns(j);
        for (int k = 0, at = 0; k < e; ++k, ++at) {
          while (other[at] != col[k]) ++at;
          to[at] = sub_mul(to[at], l, own[k]);
        }
      }
      own[e] = l;
    }
  }
}
// x = H^-1 x
template <class T>
FB_FN void solve(const DofMatrix<T>& H, T* x) {
  for (int i = H.p.n - 1; i >= 0; --i) {
    const T y = x[i];
    const int* col = H.p.columns(i);
    const T* own = H.row(i);
    for (int e = 0; e < H.p.count(i); ++e) x[col[e]] = sub_mul(x[col[e]], own[e], y);
    x[i] = y * H.diagonal[i];
  }
  for (int i = 0; i < H.p.n; ++i) {
    T y = x[i];
    const int* col = H.p.columns(i);
    const T* own = H.row(i);
    for (int e = 0; e < H.p.count(i); ++e) y = sub_mul(y, own[e], x[col[e]]);
    x[i] = y;
  }
}
// y = M x, M not factored
template <class T>
FB_FN void multiply(const DofMatrix<T>& M, const T* x, T* y) {
  for (int i = 0; i < M.p.n; ++i) {
    T sum = M.diagonal[i] * x[i];
    const int* col = M.p.columns(i);
    const T* own = M.row(i);
    for (int e = 0; e < M.p.count(i); ++e) {
      sum = mul_add(own[e], x[col[e]], sum);
      y[col[e]] = mul_add(own[e], x[i], y[col[e]]);
    }
    y[i] = sum;
  }
}

}  // namespace fb::FB_ISA
