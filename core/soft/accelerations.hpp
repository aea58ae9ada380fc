// The accelerations of a state under MuJoCo's law on one page, and their adjoint on the next.
// Proof: docs/derivations/soft.md.
#pragma once
#include "core/dynamics/integrate.hpp"
#include "core/dynamics/reached.hpp"
#include "core/dynamics/tendon.hpp"
#include "core/soft/adhesion.hpp"
#include "core/soft/fluid_metric.hpp"
#include "core/soft/gyroscopic.hpp"
#include "core/soft/in_double.hpp"

namespace fb::FB_ISA {

template <class T>
struct StepBars;

// (S.29)  (M + h D) acc = tau - c + J' f, with f of the constrained accelerations a; h D: what the
// integrator is implicit in
template <class T, class P>
FB_FN void soft_accelerations(const Model<T, P>& m, const Options<Real<T>>& o, const T* x,
                              const T* u, Mask<T> alive, Work<T>& w) {
  const Layout& s = m.s;
  SoftWork<T>& f = w.soft;
  const StepPoint<T> at = step_point<T>(s, x, u, nullptr);
  FB_STAGE(kinematics);
  kinematics(m, x, velocity_of(s, x), w);
  FB_STAGE(actuation);
  w.servos = o.integrator == kImplicitFast ? kAllServos : kNoServos;
  w.damped = o.integrator == kImplicitFast || (o.integrator == kEulerIntegrator && o.eulerdamp);
  actuation(m, at, w);
  FB_STAGE(articulated_body);
  smooth_forces(m, w);
  composite_mass(m, w);
  if (s.nheavy > 0) add_tendon_inertia(m, w);
  factor_metric(m, at, w);
  FB_STAGE(collision);
  collect_soft(m, o, x, alive, w);
  close_rows(w);
  if (w.ngroup > 0) {
    FB_STAGE(rows);
    open_soft_rows(m, o, at, w);
    if (s.nadhesion > 0) add_adhesion(m, at, w);
    FB_STAGE(newton);
    // from the motion without rows to the minimum
    for (int d = 0; d < s.nv; ++d) f.a[d] = without_tangent(f.smooth[d]);
    solve(f.A, f.a);
    for (int d = 0; d < s.nv; ++d) f.a[d] = without_tangent(f.a[d]);
    for (int d = 0; d < s.nwarm; ++d) f.warm[d] = without_tangent(warm_of(s, x)[d]);
    find_minimum(alive, w);
    for (int r = 0; s.nadhesion > 0 && r < f.nrow; ++r) f.loaded[r] += f.f[r];
    // all forces together are M a: sums over stiff rows would cancel
    multiply(f.M, f.a, f.Ma);
  }
  FB_STAGE(integration);
  for (int d = 0; d < s.nv; ++d) f.acc[d] = f.pushed[d] = select(f.touched, f.Ma[d], f.smooth[d]);
  solve(f.A, f.acc);
  if (o.integrator == kImplicitFast) turn_single_bodies(m, at, w);
  // worlds without rows have one acceleration
  for (int d = 0; d < s.nv; ++d) f.a[d] = select(f.touched, f.a[d], f.acc[d]);
  // what callers see of the rows: impulses
  for (int r = 0; r < f.nrow; ++r) w.solution.lam[r] = f.f[r] * m.theta.dt[0];
}
// the minimum, in double precision where the lanes' own does not do
template <class T>
FB_FN void find_minimum(Mask<T> alive, Work<T>& w) {
  SoftOutcome<T> out = soft_newton(w.soft, alive);
  if constexpr (!kIsDouble<T>)
    if (any(out.left)) finish_in_double(w, out);
  w.solution.unconverged = out.left & !(out.residual <= T(Real<T>(kSoftSlight)));
  w.solution.residual = out.residual;
  w.solution.sweeps = w.solution.factorisations = out.iterations;
}
// no rows yet, and nothing that only the hard law has
template <class T>
FB_FN void close_rows(Work<T>& w) {
  w.soft.nrow = w.problem.nrow = 0;
  w.soft.touched = w.solution.unconverged = w.solution.unrolled = w.large = w.recovery.moved =
      Mask<T>(false);
  w.solution.residual = w.solution.sweeps = w.solution.factorisations = T(0);
}
// whether the integrator is implicit in the forces of a fluid
template <class T>
FB_INLINE bool fluid_is_implicit(const Layout& s, const Work<T>& w) {
  return s.nfluid > 0 && w.servos == kAllServos;
}
// A += number at the dofs d and e, where M has one
template <class T>
FB_INLINE void add_number(DofMatrix<T>& A, int d, int e, T number) {
  if (d == e) {
    A.diagonal[d] += number;
    return;
  }
  const int* col = A.p.columns(d);
  for (int k = 0; k < A.p.count(d); ++k)
    if (col[k] == e) A.row(d)[k] += number;
}
// (S.40)  A -= h dspeed m m' of an actuator with moments m, where M has numbers
template <class T, class P>
FB_FN void add_reach_damping(const Model<T, P>& m, const StepPoint<T>& x, Work<T>& w) {
  for_reaching(m.s, [&](int a) {
    const Reach<T> r = reach(m, a, w);
    const T scale = reached_force(m, a, x, r, w).dspeed * -T(m.theta.dt[0]);
    reach_moments(m.s, r, w);
    for_moment_pairs(m.s, r, [&](int d, int e) {
      add_number(w.soft.A, d, e, w.moment[d] * w.moment[e] * scale);
    });
  });
}
// the same of actuators on joints with several dofs
template <class T, class P>
FB_FN void add_geared_damping(const Model<T, P>& m, const StepPoint<T>& x, Work<T>& w) {
  for_geared(m.s, [&](int a, int dof, int n) {
    const P* gear = m.theta.actuator_gear + 6 * a;
    const T scale = actuator_force(m, a, x).dspeed * -T(m.theta.dt[0]);
    for (int i = 0; i < n; ++i)
      for (int j = 0; j <= i; ++j)
        add_number(w.soft.A, dof + i, dof + j, scale * (gear[i] * gear[j]));
  });
}
// A = M + h D, and what a fluid and actuators on sites and on joints of several dofs add
template <class T, class P>
FB_FN void factor_metric(const Model<T, P>& m, const StepPoint<T>& x, Work<T>& w) {
  SoftWork<T>& f = w.soft;
  for (int e = 0; e < f.M.p.start[m.s.nv]; ++e) f.A.value[e] = f.M.value[e];
  for (int d = 0; d < m.s.nv; ++d)
    f.A.diagonal[d] = f.M.diagonal[d] + (w.hD[d] - T(m.theta.dof_armature[d]));
  if (m.s.ntendon > 0 && w.servos == kAllServos) add_tendon_damping(m, w);
  if (fluid_is_implicit(m.s, w)) {
    fluid_inertia(m, w);
    add_fluid_inertia(m.s, w);
  }
  if (reach_is_implicit(m.s, w)) add_reach_damping(m, x, w);
  if (w.servos == kAllServos) add_geared_damping(m, x, w);
  factor(f.A);
}
// rows exactly on the border between two zones
template <class T>
FB_FN T soft_ties(const Work<T>& w) {
  T count = T(0);
  for (int g = 0; g < w.ngroup; ++g) {
    const SoftBlock<T>& b = w.soft.group[g].block;
    const T* y = w.soft.y + w.group[g].row;
    Mask<T> tie(false);
    if (b.kind == kSoftOneSided) tie = y[0] == T(0);
    if (b.kind == kSoftFriction) tie = abs(b.D * y[0]) == b.loss;
    count += one_where<T>(tie & w.geometry[g].active);
  }
  return count;
}

// cotangents of all rows: forces and W in, links, dofs and parameters out
template <class T, class P>
FB_FN void soft_rows_adjoint(const Model<T, P>& m, const Options<Real<T>>& o, const StepPoint<T>& x,
                             Work<T>& w, T* q_tan, T* v_bar) {
  const bool safe = o.refsafe != 0;
  SlotBars<T> points;
  points.count = 0;
  for (int g = 0; g < w.ngroup; ++g) {
    const RowGroup& k = w.group[g];
    SoftBars<T> bars = soft_bars(w, g);
    switch (k.kind) {
      case kContactRows: {
        soft_contact_adjoint(m, o, g, bars, w, points);
        // contacts are the last of all rows
        const bool last = g + 1 == w.ngroup || w.group[g + 1].source != k.source;
        if (!last) break;
        if (points.count > 0) contact_point_adjoint(m, k, points, w);
        points.count = 0;
        break;
      }
      case kFrictionRows:
        soft_friction_adjoint(m, safe, g, bars, w, v_bar);
        break;
      case kLimitRows:
      case kBallLimitRows:
        soft_limit_adjoint(m, safe, g, x, bars, w, {q_tan, v_bar});
        break;
      case kJointEqualityRows:
        soft_coupling_adjoint(m, safe, g, x, bars, w, {q_tan, v_bar});
        break;
      case kTendonFrictionRows:
      case kTendonLimitRows:
        soft_tendon_adjoint(m, safe, g, bars, w);
        break;
      case kTendonEqualityRows:
        soft_tendon_coupling_adjoint(m, safe, g, bars, w);
        break;
      default:
        soft_equality_adjoint(m, safe, g, bars, w);
    }
  }
}
// (S.30)  f_bar = J W to y_bar and the cotangents of a group's block; nothing where it is off, since
// D is zero there
template <class T>
FB_FN SoftBars<T> soft_bars(Work<T>& w, int g) {
  SoftWork<T>& f = w.soft;
  const int r = w.group[g].row;
  const SoftBlock<T>& b = f.group[g].block;
  const Mask<T> on = w.geometry[g].active;
  SoftBars<T> bars{f.loaded + r, f.y_bar + r, w.w_rate, {}};
  bars.block.D = bars.block.loss = T(0);
  for (T& mu : bars.block.mu) mu = T(0);
  with_rows(b.rows, [&](auto rows) {
    T f_bar[rows.n];
    for (int i = 0; i < rows.n; ++i)
      f_bar[i] = f.shown ? f.f_bar[r + i] + f.z[r + i] : f.f_bar[r + i];
    soft_force_adjoint<rows.n>(b, f.y + r, f_bar, f.y_bar + r, bars.block);
  });
  bars.block.D = select(on, bars.block.D, T(0));
  return bars;
}
// (S.44)  cotangents c of the forces themselves, in f.z, and J' (df/dy)' c added to f.half; f.y_bar serves as scratch
template <class T, class P>
FB_FN void add_shown_forces(const Model<T, P>& m, Work<T>& w) {
  SoftWork<T>& f = w.soft;
  for (int g = 0; g < w.ngroup; ++g) {
    const RowGroup& k = w.group[g];
    const SoftBlock<T>& b = f.group[g].block;
    T* c = f.z + k.row;
    for (int i = 0; i < k.rows; ++i) c[i] = T(0);
    if (k.kind == kContactRows)
      for_contact_sides(m, g, w, [&](int body, const Force<T>* F) {
        for (int i = 0; i < k.rows; ++i) c[i] += dot(shown_twist(body, w), F[i]);
      });
    SoftBlockBar<T> unread;
    unread.D = unread.loss = T(0);
    for (T& mu : unread.mu) mu = T(0);
    with_rows(b.rows, [&](auto rows) {
      soft_force_adjoint<rows.n>(b, f.y + k.row, c, f.y_bar + k.row, unread);
    });
  }
  add_soft_forces(f, f.y_bar, f.half);
}
// -mu' dM (acc - a): both metrics hold M
template <class T, class P>
FB_FN void metric_adjoint(const Model<T, P>& m, const StepPoint<T>& x, Work<T>& w, T* q_tan) {
  SoftWork<T>& f = w.soft;
  for (int d = 0; d < m.s.nv; ++d) f.half[d] = f.acc[d] - f.a[d];
  link_twists(m.s, w, f.mu, w.twist);
  link_twists(m.s, w, f.half, w.twist2);
  still_bars(m, w);
  still_tree_adjoint(m, f.half, f.mu, x.q, w, q_tan);
}
// -<W, RNEA(q, v, a)> link by link; the twists of W and of a
template <class T, class P>
FB_FN void soft_motion_adjoint(const Model<T, P>& m, Work<T>& w) {
  const Layout& s = m.s;
  w.bar[0].w = w.bar[0].y = zero_motion<T>();
  w.bar[0].a_bar = zero_force<T>();
  for (int l = 1; l < s.nlink; ++l) {
    open_link_fields(s, l, w.w_rate, w.soft.a, w.soft.a, w);
    link_force_adjoint(m, l, T(-1), w);
  }
  if (m.applied) applied_wrenches_adjoint(m, T(1), w);
}
// the same for the six dofs of a free body without children
template <class T, class P>
FB_FN void add_reach_damping(const Model<T, P>& m, const StepPoint<T>& x, int link, Work<T>& w,
                             T* B) {
  const int d = m.s.link_dof[link];
  for_reaching(m.s, [&](int a) {
    const Reach<T> r = reach(m, a, w);
    const T scale = reached_force(m, a, x, r, w).dspeed * -T(m.theta.dt[0]);
    reach_moments(m.s, r, w);
    for (int i = 0; i < 6; ++i)
      for (int j = 0; j < 6; ++j) B[6 * i + j] += w.moment[d + i] * w.moment[d + j] * scale;
  });
}
template <class T, class P>
FB_FN void add_geared_damping(const Model<T, P>& m, const StepPoint<T>& x, int link, T* B) {
  for_geared(m.s, [&](int a, int dof, int) {
    if (dof != m.s.link_dof[link]) return;
    const P* gear = m.theta.actuator_gear + 6 * a;
    const T scale = actuator_force(m, a, x).dspeed * -T(m.theta.dt[0]);
    for (int i = 0; i < 6; ++i)
      for (int j = 0; j < 6; ++j) B[6 * i + j] += scale * (gear[i] * gear[j]);
  });
}
// accelerations of free bodies without children, with their gyroscopic torque at the end of the step
template <class T, class P>
FB_FN void turn_single_bodies(const Model<T, P>& m, const StepPoint<T>& x, Work<T>& w) {
  SoftWork<T>& f = w.soft;
  const T* v = x.v;
  for (int i = 0; i < f.nsingle; ++i) {
    const int first = m.s.link_dof[f.single[i]];
    open_gyro(m, f.single[i], v, w, f.gyro + 36 * i);
    if (fluid_is_implicit(m.s, w)) add_single_fluid(m, f.single[i], w, f.gyro + 36 * i);
    if (reach_is_implicit(m.s, w)) add_reach_damping(m, x, f.single[i], w, f.gyro + 36 * i);
    add_geared_damping(m, x, f.single[i], f.gyro + 36 * i);
    factor_gyro(f.gyro + 36 * i);
    for (int d = first; d < first + 6; ++d) f.acc[d] = f.pushed[d];
    solve_gyro(f.gyro + 36 * i, false, f.acc + first);
  }
}
// their mu, and what the torque adds to the bars
template <class T, class P>
FB_FN void turn_single_bodies_adjoint(const Model<T, P>& m, const T* v, const T* acc_bar, T* q_tan,
                                      T* v_bar, Work<T>& w) {
  SoftWork<T>& f = w.soft;
  for (int i = 0; i < f.nsingle; ++i) {
    const int l = f.single[i], first = m.s.link_dof[l];
    for (int d = first; d < first + 6; ++d) f.mu[d] = acc_bar[d];
    solve_gyro(f.gyro + 36 * i, true, f.mu + first);
    // -mu' d(h G) acc
    const GyroPair<T> g = gyro_pair(m, l, v, f.acc, f.mu, w);
    gyro_adjoint(m, l, g, f.mu, T(-m.theta.dt[0]), {q_tan, v_bar}, w);
    if (w.theta_bar) w.theta_bar->dt[0] -= gyro_value(g);
  }
}
// (S.31)  the adjoint of the accelerations that were just found in w: given acc_bar, add to the bars
// of the state and of the controls
template <class T, class P>
FB_FN void soft_acceleration_adjoint(const Model<T, P>& m, const Options<Real<T>>& o,
                                     const StepPoint<T>& x, const T* acc_bar,
                                     const StepBars<T>& bar, Work<T>& w) {
  const Layout& s = m.s;
  SoftWork<T>& f = w.soft;
  T *q_tan = bar.scratch, *tau_bar = q_tan + s.nv, *hD_bar = tau_bar + s.nv;
  T* v_bar = velocity_of(s, bar.x);
  // mu = (M + h D)^-1 acc_bar, W = H^-1 M mu
  for (int d = 0; d < s.nv; ++d) {
    q_tan[d] = T(0);
    f.mu[d] = acc_bar[d];
  }
  solve(f.A, f.mu);
  if (o.integrator == kImplicitFast) turn_single_bodies_adjoint(m, x.v, acc_bar, q_tan, v_bar, w);
  for (int d = 0; d < s.nv; ++d) w.w_rate[d] = f.mu[d];
  if (any(f.touched)) {
    multiply(f.M, f.mu, f.half);
    if (f.shown) add_shown_forces(m, w);
    solve(f.H, f.half);
    for (int d = 0; d < s.nv; ++d) w.w_rate[d] = select(f.touched, f.half[d], f.mu[d]);
    soft_rows_times(f, w.w_rate, f.f_bar);
    metric_adjoint(m, x, w, q_tan);
  }
  FB_STAGE(adjoint_fields);
  if (fluid_is_implicit(s, w)) fluid_inertia_adjoint(m, x, w, q_tan, v_bar);
  soft_motion_adjoint(m, w);
  FB_STAGE(adjoint_contacts);
  if (any(f.touched)) soft_rows_adjoint(m, o, x, w, q_tan, v_bar);
  // the world accelerates as well where it is part of an equality
  if (w.theta_bar) add3(-w.bar[0].a_bar.lin, w.theta_bar->gravity);
  FB_STAGE(adjoint_sweep);
  tree_adjoint<T, P>(m, {x.v, f.a, w.w_rate, f.a}, w, q_tan, v_bar);
  if (w.derived_bar)
    for (int l = 1; l < s.nlink; ++l) link_pose_adjoint(m, l, x.q, w);
  FB_STAGE(adjoint_actuation);
  for (int d = 0; d < s.nv; ++d) {
    tau_bar[d] = w.w_rate[d];
    const T metric_bar = -(f.mu[d] * f.acc[d]);
    hD_bar[d] = w.damped ? metric_bar : T(0);
    // armature is part of M in both metrics; that of the damped one is added below
    if (w.theta_bar)
      w.theta_bar->dof_armature[d] += (metric_bar - hD_bar[d]) - (w.w_rate[d] - f.mu[d]) * f.a[d];
  }
  if (s.ntendon > 0 && w.servos == kAllServos) add_tendon_damping_adjoint(m, w);
  if (s.nheavy > 0) add_tendon_inertia_adjoint(m, w);
  const ActuationBars<T> inputs{q_tan, v_bar, activation_of(s, bar.x), bar.u};
  if (s.nadhesion > 0 && any(f.touched)) add_adhesion_adjoint(m, x, inputs, w);
  actuation_adjoint<T, P>(m, x, {tau_bar, hD_bar}, inputs, w);
  lift_tangent(s, x.q, q_tan, bar.x);
}
}  // namespace fb::FB_ISA
