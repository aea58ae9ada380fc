// One step on one page, and its adjoint on the next.  Proof: docs/derivations/step.md.
#pragma once
#include "core/contact/contact.hpp"
#include "core/dynamics/actuation.hpp"
#include "core/dynamics/integrate.hpp"
#include "core/solver/unrolled.hpp"
#include "core/state.hpp"

namespace fb::FB_ISA {

// free motion: v* = v + h a with Mh a + c = tau; leaves kinematics and the factorisation of Mh in w
template <class T, class P>
FB_FN void free_motion(const Model<T, P>& m, const T* x, const T* u, Work<T>& w) {
  const T* v = velocity_of(m.s, x);
  FB_STAGE(kinematics);
  kinematics(m, x, v, w);
  FB_STAGE(actuation);
  actuation(m, step_point<T>(m.s, x, u, nullptr), w);
  FB_STAGE(articulated_body);
  articulated_body(m, w.tau, w);
  FB_STAGE(free_velocity);
  const T h = T(m.theta.dt[0]);
  for (int d = 0; d < m.s.nv; ++d) w.v_free[d] = mul_add(w.qdd[d], h, v[d]);
  for (int l = 1; l < m.s.nlink; ++l) {
    Motion<T> a = w.link[m.s.link_parent[l]].v_free;
    const int first = m.s.link_dof[l];
    for (int d = first; d < first + m.s.link_ndof[l]; ++d) a = mul_add(w.dof[d].S, w.v_free[d], a);
    w.link[l].v_free = a;
  }
}

template <class T, class P>
FB_FN RowProblem<T> row_problem(const Model<T, P>&, const Options<Real<T>>& o, Work<T>& w) {
  RowProblem<T> p;
  p.nrow = w.nrow;
  p.nisland = w.nisland;
  p.island_row = w.island_row;
  p.cone = w.cone;
  p.A = w.A;
  p.b = w.b;
  p.lo = w.lo;
  p.hi = w.hi;
  p.mu = w.mu;
  p.lam = w.lam;
  p.n = w.n;
  p.n0 = w.n0;
  p.D = w.D;
  p.lu = w.lu;
  p.rhs = w.rhs;
  p.keep = w.keep;
  p.spare = w.z;
  p.order = w.order;
  p.tolerance = o.tolerance;
  p.step_scale = Real<T>(1);
  p.max_sweeps = o.max_sweeps;
  p.box_friction = o.friction == kBoxFriction;
  p.newton = o.solver == kNewtonSolver;
  p.gradient = o.gradient;
  p.sweeps = w.sweeps;
  return p;
}

// (x, u) -> v+; rows are built only in the lanes of `alive`
template <class T, class P>
FB_FN void step_velocity(const Model<T, P>& m, const Options<Real<T>>& o, const T* x, const T* u,
                         Mask<T> alive, T* v_next, Work<T>& w) {
  free_motion(m, x, u, w);
  build_rows(m, o, x, alive, w);
  w.unconverged = w.unrolled = Mask<T>(false);
  w.residual = w.sweeps = T(0);
  for (int d = 0; d < m.s.nv; ++d) v_next[d] = w.v_free[d];
  if (w.nrow > 0) {
    RowProblem<T> p = row_problem(m, o, w);
    solve_rows(p, alive);
    w.unconverged = p.unconverged;
    w.unrolled = p.unrolled;
    w.residual = p.residual;
    w.sweeps = p.sweeps;
    FB_STAGE(impulses);
    apply_impulses(m.s, w, w.lam, w.dv, w.twist);
    for (int d = 0; d < m.s.nv; ++d) v_next[d] += w.dv[d];
  }
}
// (x, u) -> x+
template <class T, class P>
FB_FN void step(const Model<T, P>& m, const Options<Real<T>>& o, const T* x, const T* u,
                Mask<T> alive, T* x_next, Work<T>& w) {
  T* v_next = velocity_of(m.s, x_next);
  step_velocity(m, o, x, u, alive, v_next, w);
  FB_STAGE(integration);
  integrate(m.s, x, v_next, m.theta.dt[0], x_next);
  if (m.s.na > 0)
    advance_activation(m, step_point<T>(m.s, x, u, nullptr), activation_of(m.s, x_next));
}

// bars of the wrenches of one side of a block: they move <lam, J w> - <z, J v+>
template <class T>
FB_INLINE void side_wrench_adjoint(const RowGroup& k, const RowData<T>& e, int side, Work<T>& w,
                                   Motion<T> F_bar[3]) {
  LinkBar<T>& b = w.bar[side == 0 ? k.linkA : k.linkB];
  for (int i = 0; i < k.rows; ++i) {
    const T lam = w.lam[k.row + i], z = w.z[k.row + i];
    b.w_bar = mul_add(e.F[side][i], lam, b.w_bar);
    b.y_bar = mul_add(e.F[side][i], -z, b.y_bar);
    F_bar[i] = b.w * lam - b.y * z;
  }
}
template <class T>
FB_INLINE void wrench_adjoint(const RowGroup& k, const RowData<T>& e, Work<T>& w,
                              Motion<T> F_bar[2][3]) {
  for (int side = 0; side < 2; ++side) side_wrench_adjoint(k, e, side, w, F_bar[side]);
}
// one contact: wrenches, and the gap that moves -z beta; adds the cotangent of its touch
template <class T, class P>
FB_FN void contact_adjoint(const Model<T, P>& m, const Options<Real<T>>& o, int index, Work<T>& w,
                           SlotBars<T>& point_bars) {
  const RowGroup& k = w.group[index];
  ContactBars<T> bars;
  if (k.linkA > 0) side_wrench_adjoint(k, w.data[index], 0, w, bars.F[0]);
  if (k.linkB > 0) side_wrench_adjoint(k, w.data[index], 1, w, bars.F[1]);
  bars.beta = -w.z[k.row];
  ContactPointBar<T> point_bar{T(0), zero3<T>(), zero3<T>()};
  contact_data_adjoint(m, o, k, w.geometry[index], w, bars, point_bar);
  add_slot(point_bars, k.side, point_bar);
}

// (P.3)  lanes whose solve is unrolled take z and the rest from the reversed sweeps; their A_bar
// stays in w.u_A
template <class T>
FB_FN void unrolled_rows(RowProblem<T>& p, const T* lam_bar, Work<T>& w) {
  const Mask<T> live = w.unrolled;
  for (int r = 0; r < w.nrow; ++r) {
    w.u_saved[r] = w.lam[r];
    w.u_mu[r] = w.u_lo[r] = w.u_hi[r] = T(0);
  }
  const UnrolledBars<T> bars{w.u_z, w.u_mu, w.u_lo, w.u_hi, w.u_A, w.u_D, w.u_history, w.u_now};
  solve_rows_unrolled_adjoint(p, lam_bar, live, w.u_lam_bar, bars);
  for (int r = 0; r < w.nrow; ++r) {
    w.lam[r] = w.u_saved[r];
    w.z[r] = select(live, w.u_z[r], w.z[r]);
    w.mu_bar[r] = select(live, w.u_mu[r], w.mu_bar[r]);
    w.lo_bar[r] = select(live, w.u_lo[r], w.lo_bar[r]);
    w.hi_bar[r] = select(live, w.u_hi[r], w.hi_bar[r]);
  }
}

// (P.1)  w = Mh^-1 (v1_bar - J' z) with z from the solver's adjoint; rates in w.w_rate, z in w.z
template <class T, class P>
FB_FN void velocity_adjoint(const Model<T, P>& m, const Options<Real<T>>& o, const T* v1_bar,
                            Work<T>& w) {
  reduce_force(m.s, w, v1_bar, w.w_rate, w.wrench);
  if (w.nrow == 0) return expand_solution(m.s, w, w.w_rate, w.twist);
  FB_STAGE(adjoint_rows);
  T* lam_bar = w.R_bar;
  rows_times(m.s, w, w.w_rate, lam_bar);
  RowProblem<T> p = row_problem(m, o, w);
  for (int r = 0; r < w.nrow; ++r) w.mu_bar[r] = w.lo_bar[r] = w.hi_bar[r] = T(0);
  const bool bounds = w.theta_bar != nullptr;
  solve_rows_adjoint<T>(p, lam_bar, w.z, w.mu_bar, bounds ? w.lo_bar : nullptr,
                        bounds ? w.hi_bar : nullptr);
  if (any(w.unrolled)) unrolled_rows(p, lam_bar, w);
  FB_STAGE(adjoint_impulses);
  // both halves of Mh^-1 are linear: w is expanded once, from L^-1 (v1_bar - J' z)
  T* less = w.keep;
  for (int r = 0; r < w.nrow; ++r) {
    w.R_bar[r] = -(w.z[r] * w.lam[r]);
    less[r] = -w.z[r];
  }
  add_half_solved(m.s, w, less, w.w_rate);
  expand_solution(m.s, w, w.w_rate, w.twist);
}

// the cotangents of a step's results, and those it adds to
template <class T>
struct StepBars {
  const T* x1;
  T *x, *u;
  T* scratch;  // 4 nv numbers
};

// twists of the paired rates and of the new velocity,
// accelerations at the effective one, and their own cotangents
template <class T, class P>
FB_FN void motion_adjoint(const Model<T, P>& m, const StepPoint<T>& x, T h, Work<T>& w) {
  const Layout& s = m.s;
  for (int d = 0; d < s.nv; ++d) w.a_eff[d] = (x.v1[d] - x.v[d]) / h;
  w.bar[0].w = w.bar[0].y = zero_motion<T>();
  w.bar[0].w_bar = w.bar[0].y_bar = w.bar[0].v_bar = w.bar[0].pose = zero_force<T>();
  w.link[0].a = gravity_acceleration<T>(m);
  for (int l = 1; l < s.nlink; ++l) {
    LinkWork<T>& k = w.link[l];
    LinkBar<T>& b = w.bar[l];
    const int parent = s.link_parent[l], first = s.link_dof[l];
    b.w = w.bar[parent].w;
    b.y = w.bar[parent].y;
    k.a = w.link[parent].a + k.c;
    for (int d = first; d < first + s.link_ndof[l]; ++d) {
      const Motion<T> S = w.dof[d].S;
      b.w = mul_add(S, w.w_rate[d], b.w);
      b.y = mul_add(S, x.v1[d], b.y);
      k.a = mul_add(S, w.a_eff[d], k.a);
    }
    newton_euler_adjoint(m, l, -h, w);
  }
  if (m.applied) applied_wrenches_adjoint(m, h, w);
}
// lanes in which no row of a contact carries an impulse or a cotangent
template <class T>
FB_INLINE Mask<T> idle_rows(const RowGroup& k, const Work<T>& w) {
  Mask<T> idle = is_nothing(w.mu_bar[k.row]);
  for (int r = k.row; r < k.row + k.rows; ++r)
    idle = idle & is_nothing(w.lam[r]) & is_nothing(w.z[r]);
  return idle;
}
// the contacts of one pair, which follow each other from block i on; i moves past them.  Rows that
// are all held at zero move nothing
template <class T, class P>
FB_FN void pair_adjoint(const Model<T, P>& m, const Options<Real<T>>& o, int& i, Work<T>& w) {
  const RowGroup& first = w.group[i];
  SlotBars<T> bars;
  bars.count = 0;
  for (; i < w.ngroup && w.group[i].kind == kContactRows && w.group[i].source == first.source; ++i)
    if (!all(idle_rows(w.group[i], w))) contact_adjoint(m, o, i, w, bars);
  if (bars.count > 0) contact_point_adjoint(m, first, bars, w);
}
// all rows
template <class T, class P>
FB_FN void rows_adjoint(const Model<T, P>& m, const Options<Real<T>>& o, const StepPoint<T>& x,
                        Work<T>& w, T* q_tan) {
  for (int i = 0; i < w.ngroup;) {
    const RowGroup& k = w.group[i];
    if (k.kind == kContactRows) {
      pair_adjoint(m, o, i, w);
      continue;
    }
    if (k.kind == kConnectRows || k.kind == kWeldRotationRows) {
      Motion<T> F_bar[2][3];
      wrench_adjoint(k, w.data[i], w, F_bar);
      equality_data_adjoint(m, o, k, F_bar, w);
    } else {
      joint_row_data_adjoint(m, o, k, w.geometry[i], x.q, x.v1, w, q_tan);
    }
    ++i;
  }
}

// (P.4)  one row of <E, dA>, E = A_bar + z lam' made symmetric: 2 dJ_r y - y' dMh Y with Y = Mh^-1
// J_r', y = sum_j E_rj Y_j. rows: E_r over all rows; unit: zeros, used as scratch
template <class T, class P>
FB_FN void delassus_row_adjoint(const Model<T, P>& m, const Options<Real<T>>& o,
                                const StepPoint<T>& x, int index, int i, const T* rows, T* unit,
                                Work<T>& w, T* q_tan) {
  const Layout& s = m.s;
  const RowGroup& k = w.group[index];
  unit[k.row + i] = T(1);
  apply_impulses(s, w, unit, w.y_rate, w.twist2);
  unit[k.row + i] = T(0);
  apply_impulses(s, w, rows, w.dv, w.twist);
  for (int d = 0; d < s.nv; ++d) w.hD_bar_extra[d] -= w.dv[d] * w.y_rate[d];
  w.bar[0].w_bar = w.bar[0].y_bar = w.bar[0].v_bar = w.bar[0].pose = zero_force<T>();
  w.bar[0].w = w.bar[0].y = zero_motion<T>();
  for (int l = 1; l < s.nlink; ++l) {
    const LinkWork<T>& link = w.link[l];
    LinkBar<T>& b = w.bar[l];
    b.w = w.twist[l];
    b.y = zero_motion<T>();
    b.w_bar = -(link.I * w.twist2[l]);
    b.a_bar = -(link.I * b.w);
    b.y_bar = b.v_bar = zero_force<T>();
    b.pose = -(cross(b.w, b.w_bar) + cross(w.twist2[l], b.a_bar));
    if (!w.derived_bar) continue;
    InertiaBar<T> I_bar{T(0), zero3<T>(), {T(0), T(0), T(0), T(0), T(0), T(0)}};
    add_pairing(I_bar, -b.w, w.twist2[l]);
    link_inertia_adjoint(m, l, I_bar, w);
  }
  delassus_wrench_adjoint(m, o, x, index, i, w, q_tan);
  still_tree_adjoint(m, w.y_rate, w.dv, x.q, w, q_tan);
}
// the wrench of that row meets the rates 2 y, and its geometry with it
template <class T, class P>
FB_FN void delassus_wrench_adjoint(const Model<T, P>& m, const Options<Real<T>>& o,
                                   const StepPoint<T>& x, int index, int i, Work<T>& w, T* q_tan) {
  const RowGroup& k = w.group[index];
  const RowData<T>& e = w.data[index];
  // the adjoints of seeds read impulses and z from w: here the row's own are 2 and 0
  const T two = T(2), zero = T(0);
  T lam[3], z[3], R_bar = w.R_bar[k.row], mu_bar = w.mu_bar[k.row];
  for (int r = 0; r < k.rows; ++r) {
    lam[r] = w.lam[k.row + r];
    z[r] = w.z[k.row + r];
  }
  for (int r = 0; r < k.rows; ++r) {
    w.lam[k.row + r] = r == i ? two : zero;
    w.z[k.row + r] = zero;
  }
  w.R_bar[k.row] = w.mu_bar[k.row] = zero;
  T* rates = w.w_rate;
  w.w_rate = w.dv;
  if (k.kind == kContactRows) {
    SlotBars<T> bars;
    bars.count = 0;
    contact_adjoint(m, o, index, w, bars);
    contact_point_adjoint(m, k, bars, w);
  } else if (k.kind == kConnectRows || k.kind == kWeldRotationRows) {
    Motion<T> F_bar[2][3];
    wrench_adjoint(k, e, w, F_bar);
    equality_data_adjoint(m, o, k, F_bar, w);
  } else if (k.kind != kFrictionRows) {
    joint_row_data_adjoint(m, o, k, w.geometry[index], x.q, x.v1, w, q_tan);
  }
  w.w_rate = rates;
  for (int r = 0; r < k.rows; ++r) {
    w.lam[k.row + r] = lam[r];
    w.z[k.row + r] = z[r];
  }
  w.R_bar[k.row] = R_bar;
  w.mu_bar[k.row] = mu_bar;
}
// (P.5)  all rows of <E, dA>, in the lanes of unrolled
// solves; hD_bar_extra takes the share of Mh's diagonal
template <class T, class P>
FB_FN void delassus_adjoint(const Model<T, P>& m, const Options<Real<T>>& o, const StepPoint<T>& x,
                            Work<T>& w, T* q_tan) {
  const Real<T> half(0.5);
  T *rows = w.u_now, *unit = w.u_lam_bar;
  for (int r = 0; r < w.nrow; ++r) unit[r] = T(0);
  for (int p = 0; p < w.ngroup; ++p) {
    const RowGroup& k = w.group[w.sorted[p]];
    int island = 0, n = 0;
    const T* A = w.u_A;
    for (; w.island_row[island + 1] <= k.row; ++island) {
      n = w.island_row[island + 1] - w.island_row[island];
      A += n * n;
    }
    const int first = w.island_row[island];
    n = w.island_row[island + 1] - first;
    for (int i = 0; i < k.rows; ++i) {
      const int a = k.row + i - first;
      for (int r = 0; r < w.nrow; ++r) rows[r] = T(0);
      for (int b = 0; b < n; ++b) {
        const T e = A[a * n + b] + A[b * n + a] + w.z[first + a] * w.lam[first + b] +
                    w.z[first + b] * w.lam[first + a];
        rows[first + b] = select(w.unrolled, e * half, T(0));
      }
      w.R_bar[first + a] += rows[first + a];
      delassus_row_adjoint(m, o, x, w.sorted[p], i, rows, unit, w, q_tan);
    }
  }
}

// (P.2)  the adjoint of a step that was just run in w: given bars of x+, add to those of (x, u) and,
// where w carries them, of the parameters.
template <class T, class P>
FB_FN void step_adjoint(const Model<T, P>& m, const Options<Real<T>>& o, const StepPoint<T>& x,
                        const StepBars<T>& bar, Work<T>& w) {
  const Layout& s = m.s;
  const T h = T(m.theta.dt[0]);
  T *v1_bar = bar.scratch, *q_tan = v1_bar + s.nv, *tau_bar = q_tan + s.nv,
    *hD_bar = tau_bar + s.nv;
  T* v_bar = velocity_of(s, bar.x);
  T h_bar = T(0);
  for (int d = 0; d < s.nv; ++d) {
    v1_bar[d] = velocity_of(s, bar.x1)[d];
    q_tan[d] = T(0);
  }
  FB_STAGE(adjoint_solve);
  integrate_adjoint(s, x.q, x.v1, m.theta.dt[0], bar.x1, bar.x, v1_bar, h_bar);
  velocity_adjoint(m, o, v1_bar, w);
  for (int d = 0; d < s.nv; ++d) w.hD_bar_extra[d] = T(0);
  if (any(w.unrolled)) delassus_adjoint(m, o, x, w, q_tan);
  FB_STAGE(adjoint_fields);
  motion_adjoint(m, x, h, w);
  FB_STAGE(adjoint_contacts);
  rows_adjoint(m, o, x, w, q_tan);
  FB_STAGE(adjoint_sweep);
  tree_adjoint(m, x.v, w.a_eff, w.w_rate, x.v1, w, q_tan, v_bar);
  if (w.derived_bar)
    for (int l = 1; l < s.nlink; ++l) link_pose_adjoint(m, l, x.q, w);

  // v* = v + h a: v_bar += Mh w, with M w from the
  // swept accelerations; h meets the free acceleration
  for (int d = 0; d < s.nv; ++d) {
    const T Mw = mul_add(w.hD[d], w.w_rate[d], -(dot(w.dof[d].S, w.bar[s.dof_link[d]].a_bar) / h));
    v_bar[d] += Mw;
    h_bar += Mw * w.qdd[d];
    tau_bar[d] = w.w_rate[d] * h;
    hD_bar[d] = w.hD_bar_extra[d] - tau_bar[d] * w.a_eff[d];
  }
  if (w.theta_bar) w.theta_bar->dt[0] += h_bar;
  FB_STAGE(adjoint_actuation);
  const ActuationBars<T> bars{q_tan, v_bar, activation_of(s, bar.x), bar.u};
  actuation_adjoint<T, P>(m, x, {tau_bar, hD_bar}, bars, w);
  if (s.na > 0) advance_activation_adjoint(m, x, activation_of(s, bar.x1), bars, w);
  lift_tangent(s, x.q, q_tan, bar.x);
}

}  // namespace fb::FB_ISA
