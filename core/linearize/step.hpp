// The Jacobian of a step with respect to (q, v, act, u): that of the new velocity from the equations
// of the step, differentiated column by column, and one factorised solve for all columns; then those
// of position and activation.  Proof: docs/derivations/linearize.md.
#pragma once
#include "core/linearize/rows.hpp"

namespace fb::FB_ISA {

template <class T>
FB_FN size_t carve_linear(const Layout& s, char* base, LinearWork<T>& f) {
  Carver c{base, 0};
  const int rows = row_capacity(s), columns = 2 * s.nv + s.na + s.nu, unit = kPack<T>;
  f.stride = (columns + unit - 1) / unit * unit;
  f.body = c.take<Subtree<T>>(s.nlink);
  f.move = c.take<DofMoves<T>>(s.nv);
  f.one = c.take<T>(s.nv);
  f.to = c.take<T>(s.nv);
  f.turn = c.take<T>(6 * size_t(s.nv));
  f.line = c.take<T>(f.stride);
  f.L = c.take<T>(size_t(s.nv) * s.nv);
  f.K = c.take<T>(size_t(s.nv) * f.stride);
  f.C = c.take<T>(size_t(rows > 0 ? rows : 1) * f.stride);
  return c.at;
}

// lanes in which a group answers to the problem: rims as their normal does
template <class T>
FB_INLINE Mask<T> group_moves(const Work<T>& w, const RowGroup& k) {
  return row_moves(w, k.kind == kRimRows ? k.row - 3 : k.row);
}

// visit(d, r, g) every dof of the groups that move in some lane, with each row's half-solved number
// there
template <class T, class F>
FB_INLINE void for_moving_rows(const Layout& s, const Work<T>& w, F&& visit) {
  for (int p = 0; p < w.ngroup; ++p) {
    const RowGroup& k = w.group[w.sorted[p]];
    if (!any(group_moves(w, k))) continue;
    for_group_dofs(s, k, [&](int d, int side) {
      for (int i = 0; i < k.rows; ++i)
        visit(d, k.row + i, row_segment(s, w, k, k.row + i, side)[d]);
    });
  }
}

// (J.14)  change of the impulses; K holds L^-1 K, and L^-1 (K + J' dlam) after
template <class T>
FB_FN void impulse_columns(const Layout& s, Work<T>& w, const LinearWork<T>& f) {
  // C -= J Mh^-1 K
  for_moving_rows(s, w, [&](int d, int r, T g) {
    add_columns(-(g * w.dof[d].Dinv), f.dof_row(d), f.row(r), f.stride);
  });
  solve_step_columns(s, w, f.stride, f.C);
  // K += g dlam
  for_moving_rows(s, w,
                  [&](int d, int r, T g) { add_columns(g, f.row(r), f.dof_row(d), f.stride); });
}

// leaves to root: the equation's columns, tree by tree; then L^-1 of them
template <class T, class P>
FB_FN void equation_columns(const Model<T, P>& m, const StepPoint<T>& x, Work<T>& w,
                            LinearWork<T>& f) {
  const Layout& s = m.s;
  const T h = T(m.theta.dt[0]);
  for (int l = s.nlink - 1; l > 0; --l) {
    for (int d = s.link_dof[l]; d < s.link_dof[l] + s.link_ndof[l]; ++d)
      pair_columns(s, l, d, h, w, f);
    if (s.link_parent[l] > 0) add_subtree(f.body[l], f.body[s.link_parent[l]]);
  }
  actuation_columns(m, x, h, w, f);
  for (int d = s.nv - 1; d >= 0; --d)
    for (int e = s.dof_parent[d]; e >= 0; e = s.dof_parent[e]) {
      const T l = dot(w.dof[e].S, w.dof[d].U) * w.dof[d].Dinv;
      f.L[size_t(d) * s.nv + e] = l;
      add_columns(-l, f.dof_row(d), f.dof_row(e), f.stride);
    }
}

// (J.12)  d v+ / d(q, v, act, u) of the step that was just run in w, in the rows of f.K: q tangent.
// Holds where the solve is differentiated by the implicit function theorem
template <class T, class P>
FB_FN void velocity_jacobian(const Model<T, P>& m, const Options<Real<T>>& o, const StepPoint<T>& x,
                             Work<T>& w, LinearWork<T>& f) {
  const Layout& s = m.s;
  for (size_t i = 0; i < size_t(s.nv) * f.stride; ++i) f.K[i] = T(0);
  for (int d = 0; d < s.nv; ++d) f.one[d] = f.to[d] = T(0);
  open_fields(m, x, w, f);
  if (m.applied) applied_columns(m, T(m.theta.dt[0]), w, f);
  // dry friction of a tendon turns with it at its bound too
  for (int i = 0; i < w.ngroup; ++i) {
    clear_columns(w.group[i], f);
    if (any(group_moves(w, w.group[i])) || w.group[i].kind == kTendonFrictionRows)
      group_columns(m, o, i, x, w, f);
  }
  equation_columns(m, x, w, f);
  if (w.problem.nrow > 0) impulse_columns(s, w, f);
  for (int d = 0; d < s.nv; ++d) {
    T* row = f.dof_row(d);
    scale_columns(w.dof[d].Dinv, row, f.stride);
    for (int e = s.dof_parent[d]; e >= 0; e = s.dof_parent[e])
      add_columns(-f.L[size_t(d) * s.nv + e], f.dof_row(e), row, f.stride);
  }
}

// (J.15)  the blocks of the integration that belong to quaternions, one axis of all at a time
template <class T, class P>
FB_FN void turn_blocks(const Model<T, P>& m, const StepPoint<T>& x, const T* q1, T* const* scratch,
                       LinearWork<T>& f) {
  const Layout& s = m.s;
  T *tangent = scratch[0], *v_bar = scratch[1], *q1_bar = scratch[2], *q_bar = scratch[3];
  for (int i = 0; i < 3; ++i) {
    for (int d = 0; d < s.nv; ++d) tangent[d] = v_bar[d] = T(0);
    for (int a = 0; a < s.nq; ++a) q1_bar[a] = q_bar[a] = T(0);
    bool any_turn = false;
    for (int l = 1; l < s.nlink; ++l) {
      if (!joint_turns(s.link_type[l])) continue;
      tangent[s.link_dof[l] + s.link_ndof[l] - 3 + i] = T(1);
      any_turn = true;
    }
    if (!any_turn) return;
    lift_tangent(s, q1, tangent, q1_bar);
    integrate_adjoint(s, x.q, x.v1, m.theta.dt[0], q1_bar, q_bar, v_bar);
    lower_tangent(s, x.q, q_bar, tangent);
    for (int l = 1; l < s.nlink; ++l) {
      if (!joint_turns(s.link_type[l])) continue;
      const int d = s.link_dof[l] + s.link_ndof[l] - 3;
      for (int j = 0; j < 3; ++j) {
        f.turn[6 * (d + i) + j] = tangent[d + j];
        f.turn[6 * (d + i) + 3 + j] = v_bar[d + j];
      }
    }
  }
}
// (J.16)  row d of d(q+) / d(q, v, act, u) into f.line
template <class T, class P>
FB_FN void position_row(const Model<T, P>& m, int d, LinearWork<T>& f) {
  const Layout& s = m.s;
  const int l = s.dof_link[d], last = s.link_dof[l] + s.link_ndof[l];
  if (!joint_turns(s.link_type[l]) || d < last - 3) {
    set_columns(T(m.theta.dt[0]), f.dof_row(d), f.line, f.stride);
    f.line[d] += T(1);
    return;
  }
  const T* turn = f.turn + 6 * d;
  set_columns(turn[3], f.dof_row(last - 3), f.line, f.stride);
  for (int j = 1; j < 3; ++j) add_columns(turn[3 + j], f.dof_row(last - 3 + j), f.line, f.stride);
  for (int j = 0; j < 3; ++j) f.line[last - 3 + j] += turn[j];
}
// (J.18)  one row of the Jacobian by the adjoint of the step, in the lanes of `here`; bar.x1 holds the
// cotangent of that row's number
template <class T, class P>
FB_FN void adjoint_row(const Model<T, P>& m, const Options<Real<T>>& o, const StepPoint<T>& x,
                       const StepBars<T>& bar, Mask<T> here, Work<T>& w, T* row) {
  const Layout& s = m.s;
  for (int i = 0; i < state_size(s); ++i) bar.x[i] = T(0);
  for (int a = 0; a < s.nu; ++a) bar.u[a] = T(0);
  step_adjoint(m, o, x, bar, w);
  T* tangent = bar.scratch;
  lower_tangent(s, x.q, bar.x, tangent);
  const T* v_bar = velocity_of(s, bar.x);
  for (int d = 0; d < s.nv; ++d) row[d] = select(here, tangent[d], row[d]);
  for (int d = 0; d < s.nv + s.na; ++d) row[s.nv + d] = select(here, v_bar[d], row[s.nv + d]);
  T* control = row + 2 * s.nv + s.na;
  for (int a = 0; a < s.nu; ++a) control[a] = select(here, bar.u[a], control[a]);
}
// the cotangent of coordinate d of the next position x1, for such a row
template <class T>
FB_FN void unit_position_bar(const Layout& s, const T* x1, int d, LinearWork<T>& f, T* x1_bar) {
  for (int i = 0; i < state_size(s); ++i) x1_bar[i] = T(0);
  f.one[d] = T(1);
  lift_tangent(s, x1, f.one, x1_bar);
  f.one[d] = T(0);
}
// (J.17)  the row of actuator a in d(act+) / d(q, v, act, u) into f.line
template <class T, class P>
FB_FN void activation_row(const Model<T, P>& m, int a, const StepPoint<T>& x, Work<T>& w,
                          LinearWork<T>& f) {
  for (int c = 0; c < f.stride; ++c) f.line[c] = T(0);
  T *act = f.line + 2 * m.s.nv, *u = act + m.s.na;
  next_activation_adjoint<T, P>(m, a, x, T(1), {f.line, f.line + m.s.nv, act, u}, w);
}

}  // namespace fb::FB_ISA
