// Rims of a contact: friction against turning about the normal (condim 4), and against rolling (condim 6),
// rows of their own behind the contact's.  Proof: docs/derivations/contact.md.
#pragma once
#include "core/contact/contact.hpp"

namespace fb::FB_ISA {

// (T.10)  coefficient of turning (number 1) or rolling (2): that of an explicit pair, of the geom of higher
// priority, or the larger; an explicit pair has one for every row, of which rolling takes the first
template <class T, class P>
FB_INLINE T rim_friction(const Model<T, P>& m, int pair, int number) {
  const int rule = rule_of_pair(m.s, pair);
  const P *a = m.theta.geom_friction + 3 * first_geom(m.s, pair) + number,
          *b = m.theta.geom_friction + 3 * second_geom(m.s, pair) + number;
  return T(rule == kOwnFriction
               ? m.theta.pair_friction_rest[4 * explicit_of_pair(m.s, pair) + number]
           : rule == kFirstFriction  ? *a
           : rule == kSecondFriction ? *b
                                     : larger(*a, *b));
}
// given its cotangent, add to those of the parameters; equal ones share it
template <class T, class P>
FB_FN void rim_friction_adjoint(const Model<T, P>& m, int pair, int number, T bar, Work<T>& w) {
  const int rule = rule_of_pair(m.s, pair);
  if (rule == kOwnFriction) {
    w.theta_bar->pair_friction_rest[4 * explicit_of_pair(m.s, pair) + number] += bar;
    return;
  }
  const int a = 3 * first_geom(m.s, pair) + number, b = 3 * second_geom(m.s, pair) + number;
  const T x = T(m.theta.geom_friction[a]), y = T(m.theta.geom_friction[b]), one = T(1), zero = T(0);
  const T mine = rule == kFirstFriction ? one
                 : rule == kSecondFriction
                     ? zero
                     : select(x == y, T(Real<T>(0.5)), select(x > y, one, zero));
  w.theta_bar->geom_friction[a] += bar * mine;
  w.theta_bar->geom_friction[b] += bar * (one - mine);
}

// (T.11)  wrenches (d, 0) for d = n, t1, t2: b = J v*, at most mu lam_n of the contact
template <class T, class P>
FB_FN void rim_data(const Model<T, P>& m, const Options<Real<T>>& o, const RowGroup& k,
                    const RowGeometry<T>& x, RowData<T>& e) {
  Vec3<T> d[3] = {x.n, x.n, x.n};
  if (k.rows == 3) tangents(x.n, d[1], d[2]);
  const int a = m.s.geom_body[first_geom(m.s, k.source)],
            b = m.s.geom_body[second_geom(m.s, k.source)];
  e.weight = row_weight(m, a, b, true);
  for (int i = 0; i < k.rows; ++i) {
    if (k.linkA > 0) e.F[0][i] = {-d[i], zero3<T>()};
    if (k.linkB > 0) e.F[1][i] = {d[i], zero3<T>()};
    e.b[i] = e.rest[i] = e.R0[i] = T(0);
    e.lo[i] = -unbounded<T>();
    e.hi[i] = unbounded<T>();
    e.R[i] = e.weight * o.regularization;
  }
  e.cone = kRimsOfCone;
  e.mu = rim_friction<T>(m, k.source, 1);
  e.roll = k.rows == 3 ? rim_friction<T>(m, k.source, 2) : T(0);
}
// given bars of the wrenches, add to the normal's
template <class T>
FB_FN void rim_data_adjoint(const RowGroup& k, const RowGeometry<T>& x, const Motion<T> F_bar[2][3],
                            ContactPointBar<T>& point_bar) {
  Vec3<T> d_bar[3] = {zero3<T>(), zero3<T>(), zero3<T>()};
  for (int i = 0; i < k.rows; ++i) {
    if (k.linkA > 0) d_bar[i] -= F_bar[0][i].ang;
    if (k.linkB > 0) d_bar[i] += F_bar[1][i].ang;
  }
  point_bar.n += d_bar[0];
  if (k.rows == 3) tangents_adjoint(x.n, tangents_of(x.n), d_bar[1], d_bar[2], point_bar.n);
}

// (T.12)  the impulse of rims: a torque that turns with the normal
template <class T>
FB_FN void rim_stiffness(const RowGroup& k, const RowGeometry<T>& x, const Work<T>& w,
                         const Force<T> pose[2][7], GroupStiffness<T>& H) {
  const T* lam = w.solution.lam + k.row;
  const Tangents<T> frame = tangents_of(x.n);
  for (int a = 0; a < 3; ++a) {
    const Vec3<T> axis{T(a == 0), T(a == 1), T(a == 2)};
    Vec3<T> n_bar = axis * lam[0];
    if (k.rows == 3) tangents_adjoint(x.n, frame, axis * lam[1], axis * lam[2], n_bar);
    for (int out = 0; out < 2; ++out) {
      const Force<T> turned = combine(pose[out] + 1, n_bar);
      H.column[out][0][a] = -turned;
      H.column[out][1][a] = turned;
      H.column[out][0][3 + a] = H.column[out][1][3 + a] = zero_force<T>();
    }
  }
}
// the velocity of row i of rims: cotangents of the two links for z = 1
template <class T>
FB_FN void rim_row_bars(int index, int i, const Force<T> pose[2][7], Work<T>& w) {
  const RowGroup& k = w.group[index];
  Motion<T> F_bar[2][3];
  for (int side = 0; side < 2; ++side) {
    const int l = side == 0 ? k.linkA : k.linkB;
    clear_bar(w.bar[l]);
    for (int r = 0; r < k.rows; ++r) F_bar[side][r] = zero_motion<T>();
    F_bar[side][i] = -w.bar[l].y;
    w.bar[l].y_bar = -w.data[index].F[side][i];
  }
  ContactPointBar<T> point{T(0), zero3<T>(), zero3<T>()};
  rim_data_adjoint(k, w.geometry[index], F_bar, point);
  for (int side = 0; side < 2; ++side)
    w.bar[side == 0 ? k.linkA : k.linkB].pose = combine(pose[side] + 1, point.n);
}

template <class T>
struct RimRows {
  template <class P>
  FB_FN static void data(const Model<T, P>& m, const Options<Real<T>>& o, int index, const T*,
                         const Work<T>& w, RowData<T>& e) {
    rim_data(m, o, w.group[index], w.geometry[index], e);
  }

  // (T.13)  wrenches to the normal, and so to the poses; coefficients to the parameters
  template <class P>
  FB_FN static void adjoint(const Model<T, P>& m, const Options<Real<T>>&, GroupSpan span,
                            const StepPoint<T>&, const RowBars<T>& bars, Work<T>& w, T*) {
    for (int i = span.from; i < span.to; ++i) {
      const RowGroup& k = w.group[i];
      if (all(idle_rows(k, bars) & is_nothing(bars.mu[k.row - bars.first + k.rows / 2]))) continue;
      Motion<T> F_bar[2][3];
      if (k.linkA > 0) wrench_adjoint(k, w.data[i], 0, bars, w, F_bar[0]);
      if (k.linkB > 0) wrench_adjoint(k, w.data[i], 1, bars, w, F_bar[1]);
      ContactPointBar<T> point_bar{T(0), zero3<T>(), zero3<T>()};
      rim_data_adjoint(k, w.geometry[i], F_bar, point_bar);
      SlotBars<T> point_bars;
      point_bars.count = 0;
      add_slot(point_bars, k.side, w.geometry[i].feature, point_bar);
      contact_point_adjoint(m, k, point_bars, w);
      if (!w.theta_bar) continue;
      rim_friction_adjoint(m, k.source, 1, bars.mu[k.row - bars.first], w);
      if (k.rows == 3) rim_friction_adjoint(m, k.source, 2, bars.mu[k.row - bars.first + 1], w);
    }
  }

  template <class P>
  FB_FN static void columns(const Model<T, P>& m, const Options<Real<T>>&, int index,
                            const StepPoint<T>&, Work<T>& w, LinearWork<T>& f) {
    const RowGroup& k = w.group[index];
    GroupStiffness<T> H;
    Force<T> pose[2][7];
    contact_point_poses(m, k, w, pose);
    rim_stiffness(k, w.geometry[index], w, pose, H);
    add_stiffness(m.s, k, H, T(m.theta.dt[0]), w, f);
    for (int i = 0; i < k.rows; ++i) {
      rim_row_bars(index, i, pose, w);
      add_row_columns(m.s, k, k.row + i, w, f);
    }
  }
};

}  // namespace fb::FB_ISA
