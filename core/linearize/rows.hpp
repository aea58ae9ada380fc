// Rows differentiated column by column: what their impulses and their velocities change by when the
// links they act on move.  Proof: docs/derivations/linearize.md.
#pragma once
#include "core/linearize/tree.hpp"

namespace fb::FB_ISA {

// (J.9)  an impulse rides with its link as part of the force there; what is left is stiffness
template <class T>
FB_FN void add_stiffness(const Layout& s, const RowGroup& k, const GroupStiffness<T>& H, T h,
                         Work<T>& w, LinearWork<T>& f) {
  const RowData<T>& e = w.data[&k - w.group];
  const int link[2] = {k.linkA, k.linkB};
  for (int side = 0; side < 2; ++side) {
    if (link[side] == 0) continue;
    Subtree<T>& b = f.body[link[side]];
    load_subtree(b);
    // F -= F_c / h, H += H_side + x -> x x* F_c
    Force<T> F = zero_force<T>();
    for (int i = 0; i < k.rows; ++i) F = mul_add(e.F[side][i], w.solution.lam[k.row + i], F);
    b.F -= F * (T(1) / h);
    for (int c = 0; c < 6; ++c) {
      const Force<T> y = H.column[side][side][c] + cross(unit_motion<T>(c), F);
      const T v[6] = {y.ang.x, y.ang.y, y.ang.z, y.lin.x, y.lin.y, y.lin.z};
      for (int r = 0; r < 6; ++r) b.H[6 * r + c] += v[r];
    }
    // links that both move: the impulse on this one answers to the other's pose, K_ij += S_j . H S_i
    if (link[1 - side] == 0) continue;
    const Force<T>* cross_column = H.column[1 - side][side];
    for (int i = s.link_lastdof[link[side]]; i >= 0; i = s.dof_parent[i]) {
      const Motion<T> S = w.dof[i].S;
      const Force<T> y = combine(cross_column, S.ang) + combine(cross_column + 3, S.lin);
      for (int j = s.link_lastdof[link[1 - side]]; j >= 0; j = s.dof_parent[j])
        f.dof_row(i)[j] += dot(w.dof[j].S, y);
    }
  }
}
// (J.10)  from the cotangents of both links to the columns of row r
template <class T>
FB_FN void add_row_columns(const Layout& s, const RowGroup& k, int r, const Work<T>& w,
                           LinearWork<T>& f) {
  T* row = f.row(r);
  for (int side = 0; side < 2; ++side) {
    const int l = side == 0 ? k.linkA : k.linkB;
    if (l == 0) continue;
    const LinkBar<T>& b = w.bar[l];
    // C_j = S_j . (pose + y x* y_bar + v x* v_bar) + eta_j . y_bar + psi_j . v_bar
    const Force<T> pose = b.pose + cross(b.y, b.y_bar) + cross(w.link[l].v, b.v_bar);
    for (int j = s.link_lastdof[l]; j >= 0; j = s.dof_parent[j]) {
      const DofMoves<T>& e = f.move[j];
      row[j] += dot(w.dof[j].S, pose) + dot(e.eta, b.y_bar) + dot(e.psi, b.v_bar);
      row[s.nv + j] += dot(w.dof[j].S, b.v_bar);
    }
  }
}

// columns of one group, to add to; those of groups that do not move are read where a world is large
template <class T>
FB_INLINE void clear_columns(const RowGroup& k, LinearWork<T>& f) {
  for (int r = k.row; r < k.row + k.rows; ++r)
    for (int c = 0; c < f.stride; ++c) f.row(r)[c] = T(0);
}
template <class T, class P>
FB_FN void group_columns(const Model<T, P>& m, const Options<Real<T>>& o, int index,
                         const StepPoint<T>& x, Work<T>& w, LinearWork<T>& f) {
  with_row_group<T>(w.group[index].kind, [&](auto rows) { rows.columns(m, o, index, x, w, f); });
}

}  // namespace fb::FB_ISA
