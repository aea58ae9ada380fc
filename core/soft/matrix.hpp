// Symmetric matrices over the dofs with the sparsity of a tree and of what joins its branches,
// factored L' D L from the leaves to the root.  Proof: docs/derivations/soft.md.
#pragma once
#include "core/model/layout.hpp"

namespace fb::FB_ISA {

// entries below the diagonal: row i has columns col[start[i] .. start[i + 1]), ascending, and column j
// has rows below[first[j] .. first[j + 1]), ascending, whose entries lie at at[..]
struct DofPattern {
  int n, nsupernode;
  int *start, *col, *first, *below, *at;
  // rows that are factored together, supernode[k] .. supernode[k + 1) with an end behind the last: each
  // hangs on the one before it, has its columns, and what else hangs on it hangs on that one too
  int* supernode;
  bool tree;  // the columns of every row are the ancestors of its dof

  FB_INLINE int count(int i) const { return start[i + 1] - start[i]; }
  FB_INLINE int hanging(int j) const { return first[j + 1] - first[j]; }
  FB_INLINE const int* columns(int i) const { return col + start[i]; }
};
// value of (i, j) at the same place as its column; L in it after factor()
template <class T>
struct DofMatrix {
  DofPattern p;
  T *value, *diagonal;

  FB_INLINE T* row(int i) const { return value + p.start[i]; }
};

// rows of a supernode at most: in a tree, whose sums are held in registers, and in any other pattern
inline constexpr int kSupernode = 4, kLongSupernode = 6;
// rows of every column
FB_FN void find_rows(DofPattern& p) {
  const int n = p.n;
  for (int j = 0; j <= n; ++j) p.first[j] = 0;
  for (int e = 0; e < p.start[n]; ++e) ++p.first[p.col[e]];
  for (int j = 0, sum = 0; j <= n; ++j) p.first[j] = sum += p.first[j];
  for (int i = n - 1; i >= 0; --i)
    for (int e = p.start[i]; e < p.start[i + 1]; ++e) {
      const int k = --p.first[p.col[e]];
      p.below[k] = i;
      p.at[k] = e;
    }
}
// supernodes of a pattern whose rows and columns are known
FB_FN void find_supernodes(DofPattern& p) {
  // what hangs on i, and on i - 1 besides i
  const auto alike = [&](int i) {
    const int *own = p.below + p.first[i], *other = p.below + p.first[i - 1] + 1;
    for (int e = p.hanging(i) - 1; e >= 0; --e)
      if (own[e] != other[e]) return false;
    return true;
  };
  p.nsupernode = 0;
  for (int i = 0, size = 0; i < p.n; ++i) {
    const bool joins = size > 0 && size < (p.tree ? kSupernode : kLongSupernode) &&
                       p.count(i) == p.count(i - 1) + 1 && p.col[p.start[i + 1] - 1] == i - 1 &&
                       p.hanging(i - 1) == p.hanging(i) + 1 && (p.tree || alike(i));
    size = joins ? size + 1 : 1;
    if (!joins) p.supernode[p.nsupernode++] = i;
  }
  p.supernode[p.nsupernode] = p.n;
}
// all that a row hangs on, by way of the largest column of each
FB_FN void ancestor_pattern(int n, const int* parent, DofPattern& p) {
  p.start[0] = 0;
  for (int i = 0; i < n; ++i) {
    int at = p.start[i];
    if (parent[i] >= 0) {
      for (int e = p.start[parent[i]]; e < p.start[parent[i] + 1]; ++e) p.col[at++] = p.col[e];
      p.col[at++] = parent[i];
    }
    p.start[i + 1] = at;
  }
  find_rows(p);
  p.tree = true;
  find_supernodes(p);
}

// sets of dofs below each dof, one bit each; only words from the lowest on have been written
struct DofSets {
  unsigned long long* word;
  int *lowest, *largest, width;  // largest: that of each set, -1 for none, once it is filled

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
FB_INLINE int count_bits(unsigned long long x) {
  x -= (x >> 1) & 0x5555555555555555ull;
  x = (x & 0x3333333333333333ull) + ((x >> 2) & 0x3333333333333333ull);
  return int((((x + (x >> 4)) & 0x0f0f0f0f0f0f0f0full) * 0x0101010101010101ull) >> 56);
}

// what elimination adds to sets that hold the columns below the diagonal; returns how many there are then
FB_FN int fill_sets(int n, const DofSets& sets) {
  int entries = 0;
  for (int i = n - 1; i >= 0; --i) {
    const unsigned long long* own = sets.of(i);
    sets.largest[i] = -1;
    // the largest column takes over the rest
    for (int k = i >> 6; k >= sets.lowest[i]; --k) {
      entries += count_bits(own[k]);
      if (!own[k] || sets.largest[i] >= 0) continue;
      const int j = sets.largest[i] = 64 * k + highest_bit(own[k]);
      sets.add_all(j, i, k);
      sets.of(j)[k] |= own[k] & ~(1ull << (j & 63));
    }
  }
  return entries;
}
// by how much a pattern may grow to be that of a tree, which is quicker to factor
inline constexpr double kTreeGrowth = 1.25;
// (S.8)  the pattern with what elimination fills in, or a somewhat larger one: entries that are zero stay so
FB_FN void filled_pattern(const DofSets& sets, DofPattern& p) {
  const int n = p.n, entries = fill_sets(n, sets);
  // depths in the tree of the largest columns
  int all = 0;
  for (int i = 0; i < n; ++i) {
    p.first[i] = sets.largest[i] < 0 ? 0 : p.first[sets.largest[i]] + 1;
    all += p.first[i];
  }
  if (all <= kTreeGrowth * entries) return ancestor_pattern(n, sets.largest, p);
  int at = 0;
  for (int i = 0; i < n; ++i) {
    p.start[i] = at;
    for (int k = sets.lowest[i]; k <= i >> 6; ++k)
      for (unsigned long long left = sets.of(i)[k]; left; left &= left - 1)
        p.col[at++] = 64 * k + highest_bit(left & -left);
  }
  p.start[n] = at;
  find_rows(p);
  p.tree = false;
  find_supernodes(p);
}

// a number that the compiler knows, and all those below N one after another: what they index stays in
// registers
template <int N>
struct Fixed {
  static constexpr int n = N;
};
template <int N, int I = 0, class F>
FB_INLINE void each(F&& visit) {
  if constexpr (I < N) {
    visit(Fixed<I>{});
    each<N, I + 1>(visit);
  }
}
// the same from N - 1 down
template <int N, class F>
FB_INLINE void each_down(F&& visit) {
  if constexpr (N > 0) {
    visit(Fixed<N - 1>{});
    each_down<N - 1>(visit);
  }
}
// visit a supernode of at most that many rows with their number
template <int Most, class F>
FB_INLINE void with_supernode(const DofPattern& p, int k, F&& visit) {
  const int j = p.supernode[k], size = p.supernode[k + 1] - j;
  each<Most>([&](auto rows) {
    if (size == rows.n + 1) visit(Fixed<rows.n + 1>{}, j);
  });
}
// columns k .. k + C of the N rows from j on, less those of the rows below and of each other, where the
// factors of the columns of the supernode are known
template <int N, int C, class T>
FB_INLINE void eliminate_columns(const DofMatrix<T>& H, int j, int k) {
  const DofPattern& p = H.p;
  const int count = p.count(j);
  T x[N][C];
  each<N>([&](auto r) { each<C>([&](auto c) { x[r.n][c.n] = H.row(j + r.n)[k + c.n]; }); });
  for (int e = p.first[j + 1] - 1; e >= p.first[j] + N - 1; --e) {
    const T *l = H.value + p.at[e], *other = l - count + k;
    each<C>([&](auto c) {
      const T y = other[c.n];
      each<N>([&](auto r) { x[r.n][c.n] = sub_mul(x[r.n][c.n], l[r.n], y); });
    });
  }
  each_down<N>([&](auto i) {
    each<i.n>([&](auto r) {
      const T l = H.row(j + i.n)[count + r.n];
      each<C>([&](auto c) { x[r.n][c.n] = sub_mul(x[r.n][c.n], l, x[i.n][c.n]); });
    });
  });
  each<N>([&](auto r) { each<C>([&](auto c) { H.row(j + r.n)[k + c.n] = x[r.n][c.n]; }); });
}
// the columns of a supernode: factors of the rows below, then its own and its pivots
template <int N, class T>
FB_INLINE void factor_supernode(const DofMatrix<T>& H, int j) {
  const DofPattern& p = H.p;
  const int count = p.count(j);
  T x[N][N];
  each<N>([&](auto r) {
    each<r.n>([&](auto c) { x[r.n][c.n] = H.row(j + r.n)[count + c.n]; });
    x[r.n][r.n] = H.diagonal[j + r.n];
  });
  for (int e = p.first[j + 1] - 1; e >= p.first[j] + N - 1; --e) {
    T* own = H.value + p.at[e];
    const T inverse = H.diagonal[p.below[e]];
    T y[N];
    each<N>([&](auto r) { y[r.n] = own[r.n]; });
    each<N>([&](auto r) {
      const T l = y[r.n] * inverse;
      each<r.n + 1>([&](auto c) { x[r.n][c.n] = sub_mul(x[r.n][c.n], l, y[c.n]); });
      own[r.n] = l;
    });
  }
  each_down<N>([&](auto i) {
    const T inverse = T(1) / x[i.n][i.n];
    H.diagonal[j + i.n] = inverse;
    each_down<i.n>([&](auto r) {
      const T l = x[i.n][r.n] * inverse;
      each<r.n + 1>([&](auto c) { x[r.n][c.n] = sub_mul(x[r.n][c.n], l, x[i.n][c.n]); });
      H.row(j + i.n)[count + r.n] = l;
    });
  });
}
// supernode by supernode: what rows take from those below is summed in registers.  In a tree the columns of a
// row are the first of those below it
template <class T>
FB_FN void factor_tree(const DofMatrix<T>& H) {
  for (int k = H.p.nsupernode - 1; k >= 0; --k)
    with_supernode<kSupernode>(H.p, k, [&](auto rows, int j) {
      constexpr int N = rows.n;
      factor_supernode<N>(H, j);
      const int count = H.p.count(j);
      if (N == 1 && H.p.hanging(j) == 0) return;
      int c = 0;
      for (; c + 4 <= count; c += 4) eliminate_columns<N, 4>(H, j, c);
      if (c + 2 <= count) {
        eliminate_columns<N, 2>(H, j, c);
        c += 2;
      }
      if (c < count) eliminate_columns<N, 1>(H, j, c);
    });
}
// rows j .. j + N of a supernode in any pattern: their factors and pivots, then what the rows on which they
// hang lose
template <int N, class T>
FB_INLINE void eliminate_supernode(const DofMatrix<T>& H, int j) {
  const DofPattern& p = H.p;
  const int count = p.count(j), *col = p.columns(j);
  T inverse[N], *own[N];
  each<N>([&](auto r) { own[r.n] = H.row(j + r.n); });
  each_down<N>([&](auto i) {
    inverse[i.n] = H.diagonal[j + i.n] = T(1) / H.diagonal[j + i.n];
    each_down<i.n>([&](auto r) {
      const T x = own[i.n][count + r.n], l = x * inverse[i.n];
      H.diagonal[j + r.n] = sub_mul(H.diagonal[j + r.n], l, x);
      for (int k = 0; k < count + r.n; ++k) own[r.n][k] = sub_mul(own[r.n][k], l, own[i.n][k]);
      own[i.n][count + r.n] = l;
    });
  });
  for (int e = count - 1; e >= 0; --e) {
    const int i = col[e], *other = p.columns(i);
    T *to = H.row(i), l[N], pivot = H.diagonal[i];
    each_down<N>([&](auto r) {
      l[r.n] = own[r.n][e] * inverse[r.n];
      pivot = sub_mul(pivot, l[r.n], own[r.n][e]);
    });
    H.diagonal[i] = pivot;
    // columns that lie side by side in both go together
    for (int k = 0, at = 0; k < e;) {
      while (other[at] != col[k]) ++at;
      for (bool beside = true; beside; beside = k < e && other[at] == col[k]) {
        T x = to[at];
        each_down<N>([&](auto r) { x = sub_mul(x, l[r.n], own[r.n][k]); });
        to[at] = x;
        ++k;
        ++at;
      }
    }
    each<N>([&](auto r) { own[r.n][e] = l[r.n]; });
  }
}
// (S.9)  H = L' D L in place; diagonal holds 1 / D
template <class T>
FB_FN void factor(const DofMatrix<T>& H) {
  if (H.p.tree) return factor_tree(H);
  for (int k = H.p.nsupernode - 1; k >= 0; --k)
    with_supernode<kLongSupernode>(H.p, k,
                                   [&](auto rows, int j) { eliminate_supernode<rows.n>(H, j); });
}
// x = H^-1 x
template <class T>
FB_FN void solve(const DofMatrix<T>& H, T* x) {
  const DofPattern& p = H.p;
  for (int k = p.nsupernode - 1; k >= 0; --k)
    with_supernode<kLongSupernode>(p, k, [&](auto rows, int j) {
      constexpr int N = rows.n;
      const int count = p.count(j);
      T y[N];
      each<N>([&](auto r) { y[r.n] = x[j + r.n]; });
      for (int e = p.first[j + 1] - 1; e >= p.first[j] + N - 1; --e) {
        const T *l = H.value + p.at[e], other = x[p.below[e]];
        each<N>([&](auto r) { y[r.n] = sub_mul(y[r.n], l[r.n], other); });
      }
      each_down<N>([&](auto i) {
        each<i.n>([&](auto r) { y[r.n] = sub_mul(y[r.n], H.row(j + i.n)[count + r.n], y[i.n]); });
      });
      each<N>([&](auto r) { x[j + r.n] = y[r.n]; });
    });
  for (int k = 0; k < p.nsupernode; ++k)
    with_supernode<kLongSupernode>(p, k, [&](auto rows, int j) {
      constexpr int N = rows.n;
      const int count = p.count(j), *col = p.columns(j);
      T y[N];
      const T* own[N];
      each<N>([&](auto r) {
        y[r.n] = x[j + r.n] * H.diagonal[j + r.n];
        own[r.n] = H.row(j + r.n);
      });
      for (int e = 0; e < count; ++e) {
        const T other = x[col[e]];
        each<N>([&](auto r) { y[r.n] = sub_mul(y[r.n], own[r.n][e], other); });
      }
      each<N>([&](auto i) {
        each<N, i.n + 1>([&](auto r) { y[r.n] = sub_mul(y[r.n], own[r.n][count + i.n], y[i.n]); });
      });
      each<N>([&](auto r) { x[j + r.n] = y[r.n]; });
    });
}
// y = M x, M not factored
template <class T>
FB_FN void multiply(const DofMatrix<T>& M, const T* x, T* y) {
  const DofPattern& p = M.p;
  for (int k = 0; k < p.nsupernode; ++k)
    with_supernode<kLongSupernode>(p, k, [&](auto rows, int j) {
      constexpr int N = rows.n;
      const int count = p.count(j), *col = p.columns(j);
      T sum[N], in[N];
      const T* own[N];
      each<N>([&](auto r) {
        in[r.n] = x[j + r.n];
        sum[r.n] = M.diagonal[j + r.n] * in[r.n];
        own[r.n] = M.row(j + r.n);
      });
      for (int e = 0; e < count; ++e) {
        const T other = x[col[e]];
        each<N>([&](auto r) { sum[r.n] = mul_add(own[r.n][e], other, sum[r.n]); });
      }
      each<N>([&](auto r) {
        each<r.n>([&](auto i) { sum[r.n] = mul_add(own[r.n][count + i.n], in[i.n], sum[r.n]); });
        each<N, r.n + 1>(
            [&](auto i) { sum[r.n] = mul_add(own[i.n][count + r.n], in[i.n], sum[r.n]); });
      });
      for (int e = p.first[j] + N - 1; e < p.first[j + 1]; ++e) {
        const T *l = M.value + p.at[e], other = x[p.below[e]];
        each<N>([&](auto r) { sum[r.n] = mul_add(l[r.n], other, sum[r.n]); });
      }
      each<N>([&](auto r) { y[j + r.n] = sum[r.n]; });
    });
}

}  // namespace fb::FB_ISA
