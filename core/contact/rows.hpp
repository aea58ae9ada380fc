// Constraint rows in joint space: half solves along the chains of dofs, A = J Mh^-1 J' over common
// ancestors, islands, and the adjoint of a group's wrenches.  Proof: docs/derivations/rows.md.
#pragma once
#include "core/dynamics/dynamics.hpp"

namespace fb::FB_ISA {

// deepest dof that two dofs have in common on the way to the root, -1 for none
FB_INLINE int common_dof(const Layout& s, int a, int b) {
  while (a != b) {
    if (a > b)
      a = s.dof_parent[a];
    else
      b = s.dof_parent[b];
  }
  return a;
}

FB_INLINE void set_chains(const Layout& s, RowGroup& k, int dofA, int dofB) {
  k.start[0] = dofA;
  k.start[1] = dofB;
  k.tree[0] = dofA < 0 ? -1 : s.dof_tree[dofA];
  k.tree[1] = dofB < 0 ? -1 : s.dof_tree[dofB];
}

// segment of half-solved row r that belongs to a side; both sides of one tree share a segment
template <class T>
FB_INLINE T* row_segment(const Layout& s, const Work<T>& w, const RowGroup& k, int r, int side) {
  const int seg = side == 1 && k.tree[0] == k.tree[1] ? 0 : side;
  return w.g + (size_t(2 * r + seg) * w.max_tree) - s.tree_dof[k.tree[side]];
}

// one dof of a half solve: g = S'F + coefficient, F -= U g / D
template <class T>
FB_INLINE void half_solve_dof(const Layout& s, Work<T>& w, const RowGroup& k, int d, int side,
                              const RowData<T>& e, Force<T>* F) {
  const DofWork<T>& f = w.dof[d];
  for (int i = 0; i < k.rows; ++i) {
    T g = dot(f.S, F[i]);
    for (int c = 0; c < e.ncoef; ++c)
      if (e.cdof[c] == d) g += e.coef[c];
    row_segment(s, w, k, k.row + i, side)[d] = g;
    F[i] = mul_add(f.U, -(g * f.Dinv), F[i]);
  }
}

// one axis of a free joint: only linear parts meet there
template <int I, int N, class T>
FB_INLINE void half_solve_axis(const DofWork<T>& f, int d, T* const* out, Force<T>* F) {
#pragma GCC unroll 3
  for (int i = 0; i < N; ++i) {
    const T g = part<I>(F[i].lin);
    out[i][d] = g;
    F[i].lin = mul_add(f.U.lin, -(g * f.Dinv), F[i].lin);
  }
}
// one chain, no coefficients: the wrenches stay in registers
template <int N, class T>
FB_INLINE void half_solve_chain(const Layout& s, Work<T>& w, const RowGroup& k, int side,
                                const Force<T>* wrench) {
  Force<T> F[N];
  T* out[N];
#pragma GCC unroll 3
  for (int i = 0; i < N; ++i) {
    F[i] = wrench[i];
    out[i] = row_segment(s, w, k, k.row + i, side);
  }
  const int tree = k.tree[side], first = s.tree_dof[tree];
  const int fixed = world_axes(s.link_type[s.tree_link[tree]]);
  for (int d = k.start[side]; d >= first + fixed; d = s.dof_parent[d]) {
    const DofWork<T>& f = w.dof[d];
    T g[N];
#pragma GCC unroll 3
    for (int i = 0; i < N; ++i) {
      g[i] = dot(f.S, F[i]);
      out[i][d] = g[i];
      g[i] = -(g[i] * f.Dinv);
    }
#pragma GCC unroll 3
    for (int i = 0; i < N; ++i) F[i] = mul_add(f.U, g[i], F[i]);
  }
  if (!fixed) return;
  half_solve_axis<2, N>(w.dof[first + 2], first + 2, out, F);
  half_solve_axis<1, N>(w.dof[first + 1], first + 1, out, F);
  half_solve_axis<0, N>(w.dof[first], first, out, F);
}
// whether a group is one row of one dof, none of a free joint's axes, at the end of its chain
template <class T>
FB_INLINE bool is_joint_row(const Layout& s, const RowGroup& k, const RowData<T>& e) {
  if (e.ncoef != 1 || k.rows != 1 || k.start[1] >= 0 || e.cdof[0] != k.start[0]) return false;
  return k.start[0] >= s.tree_dof[k.tree[0]] + world_axes(s.link_type[s.tree_link[k.tree[0]]]);
}
template <class T>
FB_INLINE void half_solve_joint(const Layout& s, Work<T>& w, const RowGroup& k, T coef) {
  T* out = row_segment(s, w, k, k.row, 0);
  const int tree = k.tree[0], first = s.tree_dof[tree], start = k.start[0];
  const int fixed = world_axes(s.link_type[s.tree_link[tree]]);
  out[start] = coef;
  Force<T> F = mul_add(w.dof[start].U, -(coef * w.dof[start].Dinv), zero_force<T>());
  for (int d = s.dof_parent[start]; d >= first + fixed; d = s.dof_parent[d]) {
    const DofWork<T>& f = w.dof[d];
    const T g = dot(f.S, F);
    out[d] = g;
    F = mul_add(f.U, -(g * f.Dinv), F);
  }
  if (!fixed) return;
  half_solve_axis<2, 1>(w.dof[first + 2], first + 2, &out, &F);
  half_solve_axis<1, 1>(w.dof[first + 1], first + 1, &out, &F);
  half_solve_axis<0, 1>(w.dof[first], first, &out, &F);
}
// one row with many coefficients, dofs descending, on up to two chains
template <class T>
FB_FN void half_solve_wide(const Layout& s, Work<T>& w, const RowGroup& k) {
  int a = k.start[0], b = k.start[1], at = k.wide;
  Force<T> F[2] = {zero_force<T>(), zero_force<T>()};
  while (a >= 0 || b >= 0) {
    if (a == b) {
      F[0] += F[1];
      b = -1;
    }
    const int side = a > b ? 0 : 1, d = side ? b : a;
    const DofWork<T>& f = w.dof[d];
    T g = dot(f.S, F[side]);
    if (at < k.wide + k.nwide && w.tendon.dof[at] == d) g += w.tendon.coef[at++];
    row_segment(s, w, k, k.row, side)[d] = g;
    F[side] = mul_add(f.U, -(g * f.Dinv), F[side]);
    (side ? b : a) = s.dof_parent[d];
  }
}
// (R.1)  g = L^-1 J' for the rows of a group: walk both chains rootward, joined where they meet
template <class T>
FB_FN void half_solve(const Layout& s, Work<T>& w, const RowGroup& k, const RowData<T>& e) {
  int a = k.start[0], b = k.start[1];
  if (e.ncoef == 0 && k.rows == 3 && a < 0) return half_solve_chain<3>(s, w, k, 1, e.F[1]);
  if (k.nwide > 0) return half_solve_wide(s, w, k);
  if (is_joint_row(s, k, e)) return half_solve_joint(s, w, k, e.coef[0]);
  Force<T> F[2][3];
  for (int side = 0; side < 2; ++side)
    for (int i = 0; i < k.rows; ++i) F[side][i] = e.F[side][i];
  while (a >= 0 || b >= 0) {
    if (a == b) {
      for (int i = 0; i < k.rows; ++i) F[0][i] += F[1][i];
      b = -1;
    }
    if (a > b) {
      half_solve_dof(s, w, k, a, 0, e, F[0]);
      a = s.dof_parent[a];
    } else {
      half_solve_dof(s, w, k, b, 1, e, F[1]);
      b = s.dof_parent[b];
    }
  }
}

// J x for a row of a group, from the links' twists and the joint rates; the world does not move
template <class T>
FB_INLINE T row_velocity(const Work<T>& w, const RowGroup& k, const RowData<T>& e, int i,
                         Motion<T> LinkWork<T>::* twist, const T* x) {
  T y = T(0);
  if (k.nwide > 0) {
    for (int c = k.wide; c < k.wide + k.nwide; ++c)
      y = mul_add(w.tendon.coef[c], x[w.tendon.dof[c]], y);
    return y;
  }
  if (k.linkA > 0) y += dot(w.link[k.linkA].*twist, e.F[0][i]);
  if (k.linkB > 0) y += dot(w.link[k.linkB].*twist, e.F[1][i]);
  for (int c = 0; c < e.ncoef; ++c) y = mul_add(e.coef[c], x[e.cdof[c]], y);
  return y;
}
template <class T>
FB_INLINE T free_row_velocity(const Work<T>& w, const RowGroup& k, const RowData<T>& e, int i) {
  return row_velocity(w, k, e, i, &LinkWork<T>::v_free, w.v_free);
}
template <class T>
FB_INLINE T begin_row_velocity(const Work<T>& w, const RowGroup& k, const RowData<T>& e, int i) {
  return row_velocity(w, k, e, i, &LinkWork<T>::v, w.v_begin);
}

// acc += gx gy' / D over one path to the root, from dof d on
template <int NX, int NY, class T>
FB_INLINE void delassus_path(const Layout& s, const Work<T>& w, int d, const T* const* gx,
                             const T* const* gy, T acc[3][3]) {
  T sum[NX][NY];
  const T *x[NX], *y[NY];
#pragma GCC unroll 3
  for (int i = 0; i < NX; ++i) x[i] = gx[i];
#pragma GCC unroll 3
  for (int j = 0; j < NY; ++j) y[j] = gy[j];
#pragma GCC unroll 3
  for (int i = 0; i < NX; ++i)
#pragma GCC unroll 3
    for (int j = 0; j < NY; ++j) sum[i][j] = acc[i][j];
  for (; d >= 0; d = s.dof_parent[d]) {
    const T inv = w.dof[d].Dinv;
#pragma GCC unroll 3
    for (int i = 0; i < NX; ++i) {
      const T t = x[i][d] * inv;
#pragma GCC unroll 3
      for (int j = 0; j < NY; ++j) sum[i][j] = mul_add(t, y[j][d], sum[i][j]);
    }
  }
#pragma GCC unroll 3
  for (int i = 0; i < NX; ++i)
#pragma GCC unroll 3
    for (int j = 0; j < NY; ++j) acc[i][j] = sum[i][j];
}
// the same over the dofs in the union of up to four paths
template <int NX, int NY, class T>
FB_INLINE void delassus_paths(const Layout& s, const Work<T>& w, int* at, int n, const T* const* gx,
                              const T* const* gy, T acc[3][3]) {
  if (n == 1) return delassus_path<NX, NY>(s, w, at[0], gx, gy, acc);
  T sum[NX][NY];
  for (int i = 0; i < NX; ++i)
    for (int j = 0; j < NY; ++j) sum[i][j] = acc[i][j];
  for (;;) {
    int d = at[0];
    for (int i = 1; i < n; ++i) d = at[i] > d ? at[i] : d;
    if (d < 0) break;
    const T inv = w.dof[d].Dinv;
    for (int i = 0; i < NX; ++i) {
      const T t = gx[i][d] * inv;
      for (int j = 0; j < NY; ++j) sum[i][j] = mul_add(t, gy[j][d], sum[i][j]);
    }
    for (int i = 0; i < n; ++i)
      if (at[i] == d) at[i] = s.dof_parent[d];
  }
  for (int i = 0; i < NX; ++i)
    for (int j = 0; j < NY; ++j) acc[i][j] = sum[i][j];
}
template <class T>
FB_INLINE void delassus_tree(const Layout& s, const Work<T>& w, const RowGroup& x,
                             const RowGroup& y, int tree, T acc[3][3]) {
  int at[4], n = 0;
  const T *gx[3], *gy[3];
  for (int a = 0; a < 2; ++a)
    for (int b = 0; b < 2; ++b) {
      if (x.tree[a] != tree || y.tree[b] != tree) continue;
      at[n++] = common_dof(s, x.start[a], y.start[b]);
      for (int i = 0; i < x.rows; ++i) gx[i] = row_segment(s, w, x, x.row + i, a);
      for (int j = 0; j < y.rows; ++j) gy[j] = row_segment(s, w, y, y.row + j, b);
    }
  if (x.rows == 3 && y.rows == 3) return delassus_paths<3, 3>(s, w, at, n, gx, gy, acc);
  if (x.rows == 3) return delassus_paths<3, 1>(s, w, at, n, gx, gy, acc);
  if (y.rows == 3) return delassus_paths<1, 3>(s, w, at, n, gx, gy, acc);
  delassus_paths<1, 1>(s, w, at, n, gx, gy, acc);
}

// visit(d, side) for the dofs that move a group, rootward
template <class F>
FB_INLINE void for_group_dofs(const Layout& s, const RowGroup& k, F&& visit) {
  int a = k.start[0], b = k.start[1];
  while (a >= 0 && b >= 0) {
    const int side = a >= b ? 0 : 1, d = side ? b : a;
    visit(d, side);
    if (a == d) a = s.dof_parent[d];
    if (b == d) b = s.dof_parent[d];
  }
  for (; a >= 0; a = s.dof_parent[a]) visit(a, 0);
  for (; b >= 0; b = s.dof_parent[b]) visit(b, 1);
}
// visit(d, side) the dofs that move a group: rootward, one tree after the other
template <class F>
FB_INLINE void for_tree_dofs(const Layout& s, const RowGroup& k, F&& visit) {
  if (k.tree[0] == k.tree[1]) return for_group_dofs(s, k, visit);
  for (int side = 0; side < 2; ++side)
    for (int d = k.start[side]; d >= 0; d = s.dof_parent[d]) visit(d, side);
}
// the half-solved rows of a group by side, each from dof zero on
template <int N, class T>
struct GroupRows {
  const T* g[2][N];
};
template <int N, class T>
FB_INLINE GroupRows<N, T> group_rows(const Layout& s, const Work<T>& w, const RowGroup& k) {
  GroupRows<N, T> x;
#pragma GCC unroll 3
  for (int side = 0; side < 2; ++side)
#pragma GCC unroll 3
    for (int i = 0; i < N; ++i)
      x.g[side][i] = k.start[side] < 0 ? nullptr : row_segment(s, w, k, k.row + i, side);
  return x;
}
// half-solved rows dof by dof, from dof `low` on; sum: three rows of products
template <class T>
struct RowTable {
  T *at, *sum;
  int low, stride;
};
// a piece of a chain of dofs: where their rows of a table begin, and N rows over D there
inline constexpr int kChain = 24;
template <int N, class T>
struct ChainPiece {
  int count = 0, at[kChain];
  T over[N][kChain];

  // the sums += over' times the table, panel by panel of the columns before `end`
  FB_INLINE void add(const RowTable<T>& x, int end) {
    for (int j = 0; j < end; j += kPanel<T>) {
      Panel<T> acc[N];
#pragma GCC unroll 3
      for (int i = 0; i < N; ++i) acc[i] = panel_at(x.sum + i * x.stride + j);
      for (int c = 0; c < count; ++c) {
        const Panel<T> y = panel_at(x.at + at[c] + j);
#pragma GCC unroll 3
        for (int i = 0; i < N; ++i) acc[i] = mul_add(Panel<T>(over[i][c]), y, acc[i]);
      }
#pragma GCC unroll 3
      for (int i = 0; i < N; ++i) put_panel(acc[i], x.sum + i * x.stride + j);
    }
    count = 0;
  }
};
// those of a group, from column `row` on, and their products with the columns up to their own
template <int N, class T>
FB_INLINE void add_to_table(const Layout& s, const Work<T>& w, const RowGroup& k, int row,
                            const RowTable<T>& x) {
  const GroupRows<N, T> rows = group_rows<N>(s, w, k);
  ChainPiece<N, T> piece;
  for (int j = 0; j < N * x.stride; j += kPanel<T>) put_panel(Panel<T>(Real<T>(0)), x.sum + j);
  for_tree_dofs(s, k, [&](int d, int side) {
    const T inv = w.dof[d].Dinv;
    const int c = piece.count++;
    piece.at[c] = (d - x.low) * x.stride;
#pragma GCC unroll 3
    for (int i = 0; i < N; ++i) {
      const T g = x.at[piece.at[c] + row + i] = rows.g[side][i][d];
      piece.over[i][c] = g * inv;
    }
    if (c + 1 == kChain) piece.add(x, row + N);
  });
  piece.add(x, row + N);
}
// one world's island by panels of its rows: half-solved rows stand dof by dof, with zeros where a dof does not
// move a row.  Every number takes the same products in the same order as below, and has the same bits.  False
// where there is no room
template <class T>
FB_FN bool assemble_panels(const Layout& s, Work<T>& w, int from, int to, const Island& is) {
  const int n = is.n, stride = whole_panels<T>(n);
  int low = s.nv, high = 0;
  for (int p = from; p < to; ++p) {
    const RowGroup& k = w.group[w.sorted[p]];
    for (int side = 0; side < 2; ++side) {
      if (k.start[side] < 0) continue;
      low = s.tree_dof[k.tree[side]] < low ? s.tree_dof[k.tree[side]] : low;
      high = k.start[side] >= high ? k.start[side] + 1 : high;
    }
  }
  const int dofs = high - low;
  if (n < 9 || dofs > 2 * n || size_t(dofs + 3) * stride > w.max_by_dof) return false;
  const RowTable<T> table{w.by_dof, w.by_dof + dofs * stride, low, stride};
  T* A = w.A + is.at;
  for (int i = 0; i < dofs * stride; i += kPanel<T>) put_panel(Panel<T>(Real<T>(0)), table.at + i);
  for (int p = from; p < to; ++p) {
    const RowGroup& x = w.group[w.sorted[p]];
    const int row = x.row - is.first;
    if (x.rows == 3)
      add_to_table<3>(s, w, x, row, table);
    else
      add_to_table<1>(s, w, x, row, table);
    for (int i = 0; i < x.rows; ++i) {
      for (int j = 0; j <= row + i; ++j)
        A[(row + i) * n + j] = A[j * n + row + i] = table.sum[i * stride + j];
      A[(row + i) * (n + 1)] += w.R[x.row + i];
    }
  }
  return true;
}
// (R.2)  A = J Mh^-1 J' + R of one island, dense: the rows of groups [from, to) in sorted order
template <class T>
FB_FN void assemble_island(const Layout& s, Work<T>& w, int from, int to, const Island& is) {
  if constexpr (kPanel<T> > 1)
    if (assemble_panels(s, w, from, to, is)) return;
  const int first = is.first, n = is.n;
  T* A = w.A + is.at;
  for (int p = from; p < to; ++p) {
    const RowGroup& x = w.group[w.sorted[p]];
    for (int q = from; q <= p; ++q) {
      const RowGroup& y = w.group[w.sorted[q]];
      T acc[3][3];
      for (auto& row : acc)
        for (T& e : row) e = T(0);
      for (int a = 0; a < 2; ++a) {
        const int tree = x.tree[a];
        if (tree < 0 || (a == 1 && tree == x.tree[0])) continue;
        if (tree == y.tree[0] || tree == y.tree[1]) delassus_tree(s, w, x, y, tree, acc);
      }
      for (int i = 0; i < x.rows; ++i)
        for (int j = 0; j < y.rows; ++j)
          A[(x.row - first + i) * n + y.row - first + j] =
              A[(y.row - first + j) * n + x.row - first + i] = acc[i][j];
    }
    for (int i = 0; i < x.rows; ++i) A[(x.row - first + i) * (n + 1)] += w.R[x.row + i];
  }
}

// x += L^-1 J' lam of a group of N rows
template <int N, class T>
FB_INLINE void add_group_rows(const Layout& s, const Work<T>& w, const RowGroup& k, const T* lam,
                              T* x) {
  const GroupRows<N, T> rows = group_rows<N>(s, w, k);
  T l[N];
#pragma GCC unroll 3
  for (int i = 0; i < N; ++i) l[i] = lam[k.row + i];
  for_group_dofs(s, k, [&](int d, int side) {
    T sum = x[d];
#pragma GCC unroll 3
    for (int i = 0; i < N; ++i) sum = mul_add(rows.g[side][i][d], l[i], sum);
    x[d] = sum;
  });
}
// the same for all groups
template <class T>
FB_FN void add_half_solved(const Layout& s, const Work<T>& w, const T* lam, T* x) {
  for (int p = 0; p < w.ngroup; ++p) {
    const RowGroup& k = w.group[w.sorted[p]];
    if (k.rows == 3)
      add_group_rows<3>(s, w, k, lam, x);
    else
      add_group_rows<1>(s, w, k, lam, x);
  }
}
// (R.3)  Mh^-1 J' lam into dv, and the link twists of it into V: sum the half-solved rows, then one
// sweep leafward
template <class T>
FB_FN void apply_impulses(const Layout& s, Work<T>& w, const T* lam, T* dv, Motion<T>* V) {
  for (int d = 0; d < s.nv; ++d) dv[d] = T(0);
  add_half_solved(s, w, lam, dv);
  expand_solution(s, w, dv, V);
}

// (R.4)  J Mh^-1 f of a group of N rows, from x = L^-1 f
template <int N, class T>
FB_INLINE void group_times(const Layout& s, const Work<T>& w, const RowGroup& k, const T* x,
                           T* out) {
  const GroupRows<N, T> rows = group_rows<N>(s, w, k);
  T sum[N];
#pragma GCC unroll 3
  for (int i = 0; i < N; ++i) sum[i] = T(0);
  for_group_dofs(s, k, [&](int d, int side) {
    const T y = x[d] * w.dof[d].Dinv;
#pragma GCC unroll 3
    for (int i = 0; i < N; ++i) sum[i] = mul_add(rows.g[side][i][d], y, sum[i]);
  });
#pragma GCC unroll 3
  for (int i = 0; i < N; ++i) out[k.row + i] = sum[i];
}
// the same for all groups
template <class T>
FB_FN void rows_times(const Layout& s, const Work<T>& w, const T* x, T* out) {
  for (int p = 0; p < w.ngroup; ++p) {
    const RowGroup& k = w.group[p];
    if (k.rows == 3)
      group_times<3>(s, w, k, x, out);
    else
      group_times<1>(s, w, k, x, out);
  }
}

// (R.5)  adjoint of one side's wrenches: with link twists w and y of the paired rates they move
// <lam, J w> - <z, J v+>.  Adds to the link's w_bar and y_bar, sets F_bar = w lam - y z
template <class T>
FB_INLINE void wrench_adjoint(const RowGroup& k, const RowData<T>& e, int side,
                              const RowBars<T>& bars, Work<T>& w, Motion<T> F_bar[3]) {
  LinkBar<T>& b = w.bar[side == 0 ? k.linkA : k.linkB];
  for (int i = 0; i < k.rows; ++i) {
    const T lam = bars.lam[k.row - bars.first + i], z = bars.z[k.row - bars.first + i];
    b.w_bar = mul_add(e.F[side][i], lam, b.w_bar);
    b.y_bar = mul_add(e.F[side][i], -z, b.y_bar);
    F_bar[i] = b.w * lam - b.y * z;
  }
}
// link bars of a fresh start, for columns
template <class T>
FB_INLINE void clear_bar(LinkBar<T>& b) {
  b.w = zero_motion<T>();
  b.w_bar = b.y_bar = b.v_bar = b.pose = zero_force<T>();
}
template <class T>
FB_INLINE Motion<T> unit_motion(int c) {
  return {{T(c == 0), T(c == 1), T(c == 2)}, {T(c == 3), T(c == 4), T(c == 5)}};
}
// columns[0] x + columns[1] y + columns[2] z
template <class T>
FB_INLINE Force<T> combine(const Force<T>* columns, Vec3<T> x) {
  return mul_add(columns[2], x.z, mul_add(columns[1], x.y, columns[0] * x.x));
}

// islands: trees that rows join; groups sorted by island, rows numbered in that order
template <class T>
FB_FN void order_rows(const Layout& s, Work<T>& w) {
  // union of trees, each with the smallest of its island as root
  int* root = w.tree_island;
  for (int t = 0; t < s.ntree; ++t) root[t] = t;
  const auto find = [&](int t) {
    while (root[t] != t) t = root[t];
    return t;
  };
  for (int p = 0; p < w.ngroup; ++p) {
    const RowGroup& k = w.group[p];
    if (k.tree[0] < 0 || k.tree[1] < 0) continue;
    const int a = find(k.tree[0]), b = find(k.tree[1]);
    // the smaller tree leads, so that every root precedes its members
    root[a > b ? a : b] = a > b ? b : a;
  }
  // where the groups of each island begin among all
  int* start = w.world.islands.queue;
  const auto island = [&](const RowGroup& k) {
    return find(k.tree[0] >= 0 ? k.tree[0] : k.tree[1]);
  };
  for (int t = 0; t <= s.ntree; ++t) start[t] = 0;
  for (int p = 0; p < w.ngroup; ++p) ++start[island(w.group[p]) + 1];
  for (int t = 0; t < s.ntree; ++t) start[t + 1] += start[t];
  for (int p = 0; p < w.ngroup; ++p) w.sorted[start[island(w.group[p])]++] = p;
  // number the rows, island by island in the order of discovery
  w.problem.nrow = 0;
  w.problem.nisland = 0;
  for (int p = 0, last = -1; p < w.ngroup; ++p) {
    RowGroup& k = w.group[w.sorted[p]];
    if (island(k) != last) w.island_row[w.problem.nisland++] = w.problem.nrow;
    last = island(k);
    k.row = w.problem.nrow;
    w.problem.nrow += k.rows;
  }
  w.island_row[w.problem.nisland] = w.problem.nrow;
}

}  // namespace fb::FB_ISA
