// Rows differentiated column by column: what their impulses and their velocities change by when the
// links they act on move.  Proof: docs/derivations/linearize.md.
#pragma once
#include "core/linearize/tree.hpp"

namespace fb::FB_ISA {

// stiffness of a block between its two links: pose of `out` answers to the rates of `in`
template <class T>
struct GroupStiffness {
  Force<T> column[2][2][6];  // [out][in][coordinate of in]
};
template <class T>
FB_INLINE void clear_bar(LinkBar<T>& b) {
  b.w = zero_motion<T>();
  b.w_bar = b.y_bar = b.v_bar = b.pose = zero_force<T>();
}
template <class T>
FB_INLINE Motion<T> unit_motion(int c) {
  return {{T(c == 0), T(c == 1), T(c == 2)}, {T(c == 3), T(c == 4), T(c == 5)}};
}

// (J.7)  pose wrenches of both links for a unit of each number of a touch: phi, n, p
template <class T, class P>
FB_FN void contact_point_poses(const Model<T, P>& m, const RowGroup& k, Work<T>& w,
                               Force<T> pose[2][7]) {
  for (int e = 0; e < 7; ++e) {
    const ContactPointBar<T> unit{
        T(e == 0), {T(e == 1), T(e == 2), T(e == 3)}, {T(e == 4), T(e == 5), T(e == 6)}};
    LinkBar<T>&a = w.bar[k.linkA], &b = w.bar[k.linkB];
    a.pose = b.pose = zero_force<T>();
    SlotBars<T> bars;
    bars.count = 0;
    add_slot(bars, k.side, unit);
    contact_point_adjoint(m, k, bars, w);
    pose[0][e] = a.pose;
    pose[1][e] = b.pose;
  }
}
template <class T>
FB_INLINE Force<T> combine(const Force<T>* pose, Vec3<T> x) {
  return mul_add(pose[2], x.z, mul_add(pose[1], x.y, pose[0] * x.x));
}

// (J.8)  the impulse of a contact: f at p, directions that turn with the normal
template <class T>
FB_FN void contact_stiffness(const Layout& s, const RowGroup& k, const RowGeometry<T>& x,
                             const Work<T>& w, const Force<T> pose[2][7], GroupStiffness<T>& H) {
  const Vec3<T> Oref = origin_of(s, w, reference_link(k.linkA, k.linkB));
  const Vec3<T> p[2] = {x.p + (Oref - origin_of(s, w, k.linkA)),
                        x.p + (Oref - origin_of(s, w, k.linkB))};
  const T* lam = w.solution.lam + k.row;
  const Tangents<T> frame = tangents_of(x.n);
  Vec3<T> f = x.n * lam[0];
  if (k.rows == 3) f += frame.t1 * lam[1] + frame.t2 * lam[2];
  const Vec3<T> axis[3] = {{T(1), T(0), T(0)}, {T(0), T(1), T(0)}, {T(0), T(0), T(1)}};
  Force<T> turned[2][3];  // pose for a unit velocity of the point
  for (int a = 0; a < 3; ++a) {
    Vec3<T> n_bar = axis[a] * lam[0];
    if (k.rows == 3) tangents_adjoint(x.n, frame, axis[a] * lam[1], axis[a] * lam[2], n_bar);
    for (int out = 0; out < 2; ++out) turned[out][a] = combine(pose[out] + 1, n_bar);
  }
  for (int out = 0; out < 2; ++out)
    for (int in = 0; in < 2; ++in)
      for (int a = 0; a < 3; ++a) {
        const Force<T> ang =
            combine(turned[out], cross(axis[a], p[in])) + combine(pose[out] + 4, cross(f, axis[a]));
        H.column[out][in][a] = in == 0 ? -ang : ang;
        H.column[out][in][3 + a] = in == 0 ? -turned[out][a] : turned[out][a];
      }
}
// the velocity of row i of a contact, and its gap: cotangents of the two links for z = 1
template <class T, class P>
FB_FN void contact_row_adjoint(const Model<T, P>& m, const Options<Real<T>>& o, int index, int i,
                               const Force<T> pose[2][7], Work<T>& w) {
  const RowGroup& k = w.group[index];
  const RowData<T>& e = w.data[index];
  ContactBars<T> bars;
  for (int side = 0; side < 2; ++side) {
    const int l = side == 0 ? k.linkA : k.linkB;
    clear_bar(w.bar[l]);
    for (int r = 0; r < k.rows; ++r) bars.F[side][r] = zero_motion<T>();
    bars.F[side][i] = -w.bar[l].y;
    w.bar[l].y_bar = -e.F[side][i];
  }
  bars.beta = T(i == 0 ? -1 : 0);
  ContactPointBar<T> touch{T(0), zero3<T>(), zero3<T>()};
  contact_data_adjoint(m, o, k, w.geometry[index], w, bars, touch);
  for (int side = 0; side < 2; ++side)
    w.bar[side == 0 ? k.linkA : k.linkB].pose =
        mul_add(pose[side][0], touch.phi, combine(pose[side] + 1, touch.n)) +
        combine(pose[side] + 4, touch.p);
}

// the same two for connects and welds, whose adjoint says both
template <class T, class P>
FB_FN void equality_stiffness(const Model<T, P>& m, const Options<Real<T>>& o, int index,
                              Work<T>& w, GroupStiffness<T>& H) {
  const RowGroup& k = w.group[index];
  for (int i = 0; i < k.rows; ++i) w.row_bar.z[k.row + i] = T(0);
  for (int in = 0; in < 2; ++in)
    for (int c = 0; c < 6; ++c) {
      LinkBar<T>&a = w.bar[k.linkA], &b = w.bar[k.linkB];
      clear_bar(a);
      clear_bar(b);
      (in == 0 ? a : b).w = unit_motion<T>(c);
      Motion<T> F_bar[2][3];
      wrench_adjoint(k, w.data[index], w, F_bar);
      equality_data_adjoint(m, o, k, F_bar, w);
      H.column[0][in][c] = a.pose;
      H.column[1][in][c] = b.pose;
    }
}
template <class T, class P>
FB_FN void equality_row_adjoint(const Model<T, P>& m, const Options<Real<T>>& o, int index, int i,
                                Work<T>& w) {
  const RowGroup& k = w.group[index];
  T lam[3];
  for (int r = 0; r < 3; ++r) {
    lam[r] = w.solution.lam[k.row + r];
    w.solution.lam[k.row + r] = T(0);
    w.row_bar.z[k.row + r] = T(r == i ? 1 : 0);
  }
  clear_bar(w.bar[k.linkA]);
  clear_bar(w.bar[k.linkB]);
  Motion<T> F_bar[2][3];
  wrench_adjoint(k, w.data[index], w, F_bar);
  equality_data_adjoint(m, o, k, F_bar, w);
  for (int r = 0; r < 3; ++r) w.solution.lam[k.row + r] = lam[r];
}

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
    Force<T> F = zero_force<T>();
    for (int i = 0; i < k.rows; ++i) F = mul_add(e.F[side][i], w.solution.lam[k.row + i], F);
    b.F -= F * (T(1) / h);
    for (int c = 0; c < 6; ++c) {
      const Force<T> y = H.column[side][side][c] + cross(unit_motion<T>(c), F);
      const T v[6] = {y.ang.x, y.ang.y, y.ang.z, y.lin.x, y.lin.y, y.lin.z};
      for (int r = 0; r < 6; ++r) b.H[6 * r + c] += v[r];
    }
    // links that both move: the impulse on this one answers to the other's place
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
    const Force<T> pose = b.pose + cross(b.y, b.y_bar) + cross(w.link[l].v, b.v_bar);
    for (int j = s.link_lastdof[l]; j >= 0; j = s.dof_parent[j]) {
      const DofMoves<T>& e = f.move[j];
      row[j] += dot(w.dof[j].S, pose) + dot(e.eta, b.y_bar) + dot(e.psi, b.v_bar);
      row[s.nv + j] += dot(w.dof[j].S, b.v_bar);
    }
  }
}

// (J.11)  rows on joints: their adjoint with z = 1 is a row of C, with a unit rate one of K
template <class T, class P>
FB_FN void joint_columns(const Model<T, P>& m, const Options<Real<T>>& o, int index,
                         const StepPoint<T>& x, Work<T>& w, LinearWork<T>& f) {
  const RowGroup& k = w.group[index];
  const RowData<T>& e = w.data[index];
  const T lam = w.solution.lam[k.row];
  T* rates = w.w_rate;
  w.w_rate = f.one;
  w.row_bar.z[k.row] = T(0);
  if (k.kind != kFrictionRows && k.kind != kLimitRows)
    for (int c = 0; c < e.ncoef; ++c) {
      const int d = e.cdof[c];
      f.one[d] = T(1);
      joint_row_data_adjoint(m, o, k, w.geometry[index], x.q, x.v1, w, f.dof_row(d));
      f.one[d] = T(0);
    }
  w.solution.lam[k.row] = T(0);
  w.row_bar.z[k.row] = T(1);
  joint_row_data_adjoint(m, o, k, w.geometry[index], x.q, x.v1, w, f.row(k.row));
  w.solution.lam[k.row] = lam;
  w.w_rate = rates;
}

// columns of one block
template <class T, class P>
FB_FN void group_columns(const Model<T, P>& m, const Options<Real<T>>& o, int index,
                         const StepPoint<T>& x, Work<T>& w, LinearWork<T>& f) {
  const RowGroup& k = w.group[index];
  for (int r = k.row; r < k.row + k.rows; ++r)
    for (int c = 0; c < f.stride; ++c) f.row(r)[c] = T(0);
  GroupStiffness<T> H;
  Force<T> pose[2][7];
  if (k.kind == kContactRows) {
    contact_point_poses(m, k, w, pose);
    contact_stiffness(m.s, k, w.geometry[index], w, pose, H);
  } else if (k.kind == kConnectRows || k.kind == kWeldRotationRows) {
    equality_stiffness(m, o, index, w, H);
  } else {
    joint_columns(m, o, index, x, w, f);
    return;
  }
  add_stiffness(m.s, k, H, T(m.theta.dt[0]), w, f);
  for (int i = 0; i < k.rows; ++i) {
    if (k.kind == kContactRows)
      contact_row_adjoint(m, o, index, i, pose, w);
    else
      equality_row_adjoint(m, o, index, i, w);
    add_row_columns(m.s, k, k.row + i, w, f);
  }
}

}  // namespace fb::FB_ISA
