// LU factors of a small dense matrix, in place and without pivoting; blocks of three rows, which is
// what a contact has.  Proof: docs/derivations/solver.md.
#pragma once
#include "core/number/panel.hpp"

namespace fb::FB_ISA {

// M x N numbers of G from (i, j) on, less the products of the first k columns and rows; in registers
template <int M, int N, class T>
FB_INLINE void lu_take(const T* G, int n, int i, int j, int k, T x[M][N]) {
#pragma GCC unroll 3
  for (int r = 0; r < M; ++r)
#pragma GCC unroll 3
    for (int c = 0; c < N; ++c) x[r][c] = G[(i + r) * n + j + c];
  for (int e = 0; e < k; ++e)
#pragma GCC unroll 3
    for (int r = 0; r < M; ++r)
#pragma GCC unroll 3
      for (int c = 0; c < N; ++c) x[r][c] = sub_mul(x[r][c], G[(i + r) * n + e], G[e * n + j + c]);
}
template <int M, int N, class T>
FB_INLINE void lu_put(const T x[M][N], int n, int i, int j, T* G) {
#pragma GCC unroll 3
  for (int r = 0; r < M; ++r)
#pragma GCC unroll 3
    for (int c = 0; c < N; ++c) G[(i + r) * n + j + c] = x[r][c];
}
// factors of a block in place, reciprocal pivots in it; a row that depends on those before it but for
// round-off has no pivot, and takes no part
template <int M, class T>
FB_INLINE void lu_eliminate(T (&x)[M][M]) {
  const T least = T(Real<T>(kIsDouble<T> ? 1e-15 : 5e-7));
#pragma GCC unroll 4
  for (int e = 0; e < M; ++e) {
    const Mask<T> found = (x[e][e] > least) | (x[e][e] < -least);
    const T inv = select(found, T(1) / select(found, x[e][e], T(1)), T(0));
    x[e][e] = inv;
#pragma GCC unroll 4
    for (int r = e + 1; r < M; ++r) {
      x[r][e] = x[r][e] * inv;
#pragma GCC unroll 4
      for (int c = e + 1; c < M; ++c) x[r][c] = sub_mul(x[r][c], x[r][e], x[e][c]);
    }
  }
}
// the block on the diagonal
template <int M, class T>
FB_INLINE void lu_pivots(T* G, int n, int k) {
  T x[M][M];
  lu_take<M, M>(G, n, k, k, k, x);
  lu_eliminate(x);
  lu_put<M, M>(x, n, k, k, G);
}
// the block of N columns right of the diagonal block at k, and that of N rows below it
template <int M, int N, class T>
FB_INLINE void lu_beside(T* G, int n, int k, int j) {
  T x[M][N], y[N][M];
  lu_take<M, N>(G, n, k, j, k, x);
#pragma GCC unroll 3
  for (int e = 0; e < M; ++e)
#pragma GCC unroll 3
    for (int r = e + 1; r < M; ++r)
#pragma GCC unroll 3
      for (int c = 0; c < N; ++c) x[r][c] = sub_mul(x[r][c], G[(k + r) * n + k + e], x[e][c]);
  lu_put<M, N>(x, n, k, j, G);
  lu_take<N, M>(G, n, j, k, k, y);
#pragma GCC unroll 3
  for (int e = 0; e < M; ++e)
#pragma GCC unroll 3
    for (int r = 0; r < N; ++r) {
      y[r][e] = y[r][e] * G[(k + e) * n + k + e];
#pragma GCC unroll 3
      for (int c = e + 1; c < M; ++c) y[r][c] = sub_mul(y[r][c], y[r][e], G[(k + e) * n + k + c]);
    }
  lu_put<N, M>(y, n, j, k, G);
}
template <int M, class T>
FB_FN void lu_block(T* G, int n, int k) {
  lu_pivots<M>(G, n, k);
  int j = k + M;
  for (; j + 3 <= n; j += 3) lu_beside<M, 3>(G, n, k, j);
  for (; j < n; ++j) lu_beside<M, 1>(G, n, k, j);
}
// ---- one world: four rows by four columns at a time.  Every number takes the same products in the same
// order as above, and has the same bits

// M rows of V from (i, j) on, less the products of the first k columns and rows
template <class V, int M, class S>
FB_INLINE void lu_take_rows(const S* G, int n, int i, int j, int k, V (&x)[M]) {
#pragma GCC unroll 4
  for (int r = 0; r < M; ++r) x[r] = numbers_at<V>(G + (i + r) * n + j);
  for (int e = 0; e < k; ++e) {
    const V u = numbers_at<V>(G + e * n + j);
#pragma GCC unroll 4
    for (int r = 0; r < M; ++r) x[r] = sub_mul(x[r], V(G[(i + r) * n + e]), u);
  }
}
// rows of U right of the diagonal block at i
template <class V, int M, class S>
FB_INLINE void lu_right(S* G, int n, int i, int j) {
  V x[M];
  lu_take_rows(G, n, i, j, i, x);
#pragma GCC unroll 4
  for (int e = 0; e < M; ++e)
#pragma GCC unroll 4
    for (int r = e + 1; r < M; ++r) x[r] = sub_mul(x[r], V(G[(i + r) * n + i + e]), x[e]);
#pragma GCC unroll 4
  for (int r = 0; r < M; ++r) put_numbers(x[r], G + (i + r) * n + j);
}
// a panel of columns of L, those of the diagonal block at j
template <int M, class S>
FB_INLINE void lu_left(S* G, int n, int i, int j) {
  constexpr int W = kPanel<S>;
  Panel<S> x[M];
  lu_take_rows(G, n, i, j, j, x);
  S l[W][M];
#pragma GCC unroll 4
  for (int c = 0; c < W; ++c) {
    const Panel<S> u = panel_at(G + (j + c) * n + j);
    const S inv = G[(j + c) * n + j + c];
#pragma GCC unroll 4
    for (int r = 0; r < M; ++r) {
      l[c][r] = lane(x[r], c) * inv;
      x[r] = sub_mul(x[r], Panel<S>(l[c][r]), u);
    }
  }
#pragma GCC unroll 4
  for (int r = 0; r < M; ++r)
#pragma GCC unroll 4
    for (int c = 0; c < W; ++c) G[(i + r) * n + j + c] = l[c][r];
}
// the diagonal block at i; V holds its M columns
template <class V, int M, class S>
FB_INLINE void lu_diagonal(S* G, int n, int i) {
  V block[M];
  lu_take_rows(G, n, i, i, i, block);
  S x[M][M];
#pragma GCC unroll 4
  for (int r = 0; r < M; ++r) put_numbers(block[r], x[r]);
  lu_eliminate(x);
#pragma GCC unroll 4
  for (int r = 0; r < M; ++r)
#pragma GCC unroll 4
    for (int c = 0; c < M; ++c) G[(i + r) * n + i + c] = x[r][c];
}
template <class S>
FB_FN void lu_factor_panels(S* G, int n) {
  constexpr int W = kPanel<S>;
  using V = Panel<S>;
  int i = 0;
  for (; i + W <= n; i += W) {
    for (int j = 0; j < i; j += W) lu_left<W>(G, n, i, j);
    lu_diagonal<V, W>(G, n, i);
    int j = i + W;
    for (; j + W <= n; j += W) lu_right<V, W>(G, n, i, j);
    for (; j < n; ++j) lu_right<S, W>(G, n, i, j);
  }
  // rows that fill no panel
  for (const int end = i; i < n; ++i) {
    for (int j = 0; j < end; j += W) lu_left<1>(G, n, i, j);
    for (int j = end; j < i; ++j) {
      S x[1];
      lu_take_rows(G, n, i, j, j, x);
      G[i * n + j] = x[0] * G[j * n + j];
    }
    lu_diagonal<S, 1>(G, n, i);
    for (int j = i + 1; j < n; ++j) lu_right<S, 1>(G, n, i, j);
  }
}

// reciprocal pivots stay on the diagonal
template <class T>
FB_FN void lu_factor(T* G, int n) {
  if constexpr (kPanel<T> > 1) return lu_factor_panels(G, n);
  int k = 0;
  for (; k + 3 <= n; k += 3) lu_block<3>(G, n, k);
  for (; k < n; ++k) lu_block<1>(G, n, k);
}
// sums take what was found last at their end, so that a row does not wait for the one before
template <class T>
FB_FN void lu_solve(const T* G, int n, T* x) {
  for (int i = 1; i < n; ++i) {
    T sum = x[i];
    for (int j = 0; j < i; ++j) sum = sub_mul(sum, G[i * n + j], x[j]);
    x[i] = sum;
  }
  for (int i = n - 1; i >= 0; --i) {
    T sum = x[i];
    for (int j = n - 1; j > i; --j) sum = sub_mul(sum, G[i * n + j], x[j]);
    x[i] = sum * G[i * n + i];
  }
}
// G' y = x
template <class T>
FB_FN void lu_solve_transposed(const T* G, int n, T* x) {
  for (int i = 0; i < n; ++i) {
    T sum = x[i];
    for (int j = 0; j < i; ++j) sum = sub_mul(sum, G[j * n + i], x[j]);
    x[i] = sum * G[i * n + i];
  }
  for (int i = n - 2; i >= 0; --i) {
    T sum = x[i];
    for (int j = n - 1; j > i; --j) sum = sub_mul(sum, G[j * n + i], x[j]);
    x[i] = sum;
  }
}

}  // namespace fb::FB_ISA
