// Ops of a given model: dynamics, integration, actuation and the whole step, over (q, v, a) or over
// (x, u) with the state x = (q, v, act).
#pragma once
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <limits>
#include <memory>
#include <stdexcept>

#include "core/linearize/step.hpp"
#include "engine/task.hpp"
#include "tests/native/ops_table.hpp"

namespace fb::ops {

namespace nb = nanobind;

using IntArray = nb::ndarray<const int32_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

// a model's arrays in one machine number
template <class R>
struct ModelNumbers {
  std::vector<R> theta, derived, vert;
  void fill(const Layout& s, const Numbers& theta64, const Numbers& vert64) {
    theta = convert<R>(theta64);
    vert = convert<R>(vert64);
    vert.resize(vert.size() + 3);
    derived.resize(core::derived_size(s));
    core::Theta<const R> view;
    core::bind<const R>(s, theta.data(), view);
    core::Derived<R> out;
    core::bind<R>(s, derived.data(), out);
    core::derive(s, view, vert.data(), out);
  }
};

struct ModelBox {
  Layout s{};
  std::vector<int32_t> tables;
  ModelNumbers<double> wide;
  ModelNumbers<float> narrow;
  EngineOptions options{};

  template <class T>
  core::Model<T, core::Real<T>> model() const {
    using R = core::Real<T>;
    const ModelNumbers<R>& n = numbers<R>();
    core::Model<T, R> m;
    m.s = s;
    core::bind<const R>(s, n.theta.data(), m.theta);
    core::bind<const R>(s, n.derived.data(), m.derived);
    m.vert = n.vert.data();
    return m;
  }
  template <class R>
  const ModelNumbers<R>& numbers() const {
    if constexpr (sizeof(R) == 8)
      return wide;
    else
      return narrow;
  }
  template <class T>
  Options<core::Real<T>> opts() const {
    using R = core::Real<T>;
    auto o = core::options_as<R>(options);
    // single precision cannot reach a tolerance meant for double
    if (sizeof(R) == 4 && options.tolerance < 1e-4) o.tolerance = R(1e-4);
    return o;
  }
};

// scratch for one call, every number of it NaN: what is read before it is written shows
template <class T>
struct Scratch {
  std::vector<char> buffer;
  core::Work<T> w;
  explicit Scratch(const Layout& s) {
    const size_t bytes = core::carve<T>(s, nullptr, w);
    buffer.assign(bytes + 64, char(0xff));
    char* base = buffer.data() + (64 - reinterpret_cast<uintptr_t>(buffer.data()) % 64) % 64;
    core::carve<T>(s, base, w);
  }
};

template <class T>
T not_a_number() {
  return T(std::numeric_limits<core::Real<T>>::quiet_NaN());
}

using Box = std::shared_ptr<ModelBox>;

// (q, v, a) -> tau
struct InverseDynamicsOp {
  Box box;
  template <class T>
  void forward(const T* x, T* y) const {
    const auto m = box->model<T>();
    Scratch<T> k(m.s);
    core::kinematics(m, x, x + m.s.nq, k.w);
    core::inverse_dynamics(m, x + m.s.nq + m.s.nv, y, k.w, k.w.wrench);
  }
  template <class T>
  void adjoint(const T* x, const T* y_bar, T* x_bar) const {
    const auto m = box->model<T>();
    const int nq = m.s.nq, nv = m.s.nv;
    Scratch<T> k(m.s);
    std::vector<T> tau(nv), tangent(nv, T(0));
    core::kinematics(m, x, x + nq, k.w);
    core::inverse_dynamics(m, x + nq + nv, tau.data(), k.w, k.w.wrench);
    const core::MotionBars<T> bars{tangent.data(), x_bar + nq, x_bar + nq + nv};
    core::inverse_dynamics_adjoint(m, x + nq, x + nq + nv, y_bar, bars, k.w);
    core::lift_tangent(m.s, x, tangent.data(), x_bar);
  }
};

// (q, v) -> q+
struct IntegrateOp {
  Box box;
  template <class T>
  void forward(const T* x, T* y) const {
    const auto m = box->model<T>();
    core::integrate(m.s, x, x + m.s.nq, m.theta.dt[0], y);
  }
  template <class T>
  void adjoint(const T* x, const T* y_bar, T* x_bar) const {
    const auto m = box->model<T>();
    core::integrate_adjoint(m.s, x, x + m.s.nq, m.theta.dt[0], y_bar, x_bar, x_bar + m.s.nq);
  }
};

// (x, u) -> (tau, hD, implicit damping of tendons)
struct ActuationOp {
  Box box;
  template <class T>
  void forward(const T* x, T* y) const {
    const auto m = box->model<T>();
    const int nv = m.s.nv;
    Scratch<T> k(m.s);
    core::kinematics(m, x, x + m.s.nq, k.w);
    core::actuation(m, core::step_point<T>(m.s, x, x + core::state_size(m.s), nullptr), k.w);
    for (int d = 0; d < nv; ++d) {
      y[d] = k.w.tau[d];
      y[nv + d] = k.w.hD[d];
    }
    for (int i = 0; i < m.s.ntendon; ++i) y[2 * nv + i] = k.w.tendon.damping[i];
  }
  template <class T>
  void adjoint(const T* x, const T* y_bar, T* x_bar) const {
    const auto m = box->model<T>();
    const int nq = m.s.nq, nv = m.s.nv, nx = core::state_size(m.s);
    using R = core::Real<T>;
    Scratch<T> k(m.s);
    std::vector<T> tangent(nv, T(0));
    const core::StepPoint<T> at = core::step_point<T>(m.s, x, x + nx, nullptr);
    core::kinematics(m, at.q, at.v, k.w);
    core::actuation(m, at, k.w);
    for (int i = 0; i < m.s.ntendon; ++i) k.w.tendon.damping_bar[i] = y_bar[2 * nv + i];
    const core::ActuationBars<T> bars{tangent.data(), x_bar + nq, x_bar + nq + nv, x_bar + nx};
    core::actuation_adjoint<T, R>(m, at, {y_bar, y_bar + nv}, bars, k.w);
    core::lift_tangent(m.s, x, tangent.data(), x_bar);
  }
};

// (x, u) -> act+
struct ActivationOp {
  Box box;
  template <class T>
  void forward(const T* x, T* y) const {
    const auto m = box->model<T>();
    core::advance_activation(m, core::step_point<T>(m.s, x, x + core::state_size(m.s), nullptr), y);
  }
  template <class T>
  void adjoint(const T* x, const T* y_bar, T* x_bar) const {
    const auto m = box->model<T>();
    const int nq = m.s.nq, nv = m.s.nv, nx = core::state_size(m.s);
    Scratch<T> k(m.s);
    const core::StepPoint<T> at = core::step_point<T>(m.s, x, x + nx, nullptr);
    const core::ActuationBars<T> bars{nullptr, x_bar + nq, x_bar + nq + nv, x_bar + nx};
    core::advance_activation_adjoint(m, at, y_bar, bars, k.w);
  }
};

// (x, u) -> x+
struct StepOp {
  Box box;
  template <class T>
  void forward(const T* x, T* y) const {
    const auto m = box->model<T>();
    Scratch<T> k(m.s);
    core::step(m, box->opts<T>(), x, x + core::state_size(m.s), core::Mask<T>(true), y, k.w);
  }
  template <class T>
  void adjoint(const T* x, const T* y_bar, T* x_bar) const {
    const auto m = box->model<T>();
    const int nx = core::state_size(m.s);
    Scratch<T> k(m.s);
    std::vector<T> y(nx), t(4 * m.s.nv, not_a_number<T>());
    core::step(m, box->opts<T>(), x, x + nx, core::Mask<T>(true), y.data(), k.w);
    const core::StepPoint<T> at = core::step_point<T>(m.s, x, x + nx, y.data() + m.s.nq);
    const core::StepBars<T> bars{y_bar, x_bar, x_bar + nx, t.data()};
    core::step_adjoint(m, box->opts<T>(), at, bars, k.w);
  }
};

// theta -> everything derived from it
struct DeriveOp {
  Box box;
  template <class T>
  void forward(const T* x, T* y) const {
    using R = core::Real<T>;
    core::Theta<const T> theta;
    core::bind<const T>(box->s, x, theta);
    core::Derived<T> out;
    core::bind<T>(box->s, y, out);
    core::derive(box->s, theta, box->template numbers<R>().vert.data(), out);
    // bounds steer the broad phase and carry no gradient
    for (int g = 0; g < box->s.ngeom; ++g) out.geom_radius[g] = T(0);
    for (int e = 0; e < 6 * box->s.ngeom; ++e) out.geom_box[e] = T(0);
  }
  template <class T>
  void adjoint(const T* x, const T* y_bar, T* x_bar) const {
    const Layout& s = box->s;
    std::vector<T> y(core::derived_size(s)), bars(y_bar, y_bar + y.size());
    forward(x, y.data());
    core::Theta<const T> theta;
    core::bind<const T>(s, x, theta);
    core::Derived<const T> value;
    core::bind<const T>(s, y.data(), value);
    core::Theta<T> theta_bar;
    core::bind<T>(s, x_bar, theta_bar);
    core::Derived<T> bar;
    core::bind<T>(s, bars.data(), bar);
    core::derive_adjoint(s, theta, value, bar, theta_bar);
  }
};

// (x, u, theta) -> x+
struct StepThetaOp {
  Box box;
  template <class T>
  struct Bound {
    core::Model<T, T> m;
    std::vector<T> derived;
    Bound(const ModelBox& box, const T* theta) : derived(core::derived_size(box.s)) {
      m.s = box.s;
      m.vert = box.numbers<core::Real<T>>().vert.data();
      core::bind<const T>(m.s, theta, m.theta);
      core::Derived<T> out;
      core::bind<T>(m.s, derived.data(), out);
      core::derive(m.s, m.theta, m.vert, out);
      core::bind<const T>(m.s, derived.data(), m.derived);
    }
  };
  template <class T>
  void forward(const T* x, T* y) const {
    const int nx = core::state_size(box->s);
    const Bound<T> b(*box, x + nx + box->s.nu);
    Scratch<T> k(b.m.s);
    core::step(b.m, box->opts<T>(), x, x + nx, core::Mask<T>(true), y, k.w);
  }
  template <class T>
  void adjoint(const T* x, const T* y_bar, T* x_bar) const {
    const int nx = core::state_size(box->s), at_theta = nx + box->s.nu;
    const Bound<T> b(*box, x + at_theta);
    Scratch<T> k(b.m.s);
    std::vector<T> y(nx), t(4 * box->s.nv, not_a_number<T>()), bars(b.derived.size(), T(0));
    core::Theta<T> theta_bar;
    core::bind<T>(b.m.s, x_bar + at_theta, theta_bar);
    core::Derived<T> bar;
    core::bind<T>(b.m.s, bars.data(), bar);
    core::step(b.m, box->opts<T>(), x, x + nx, core::Mask<T>(true), y.data(), k.w);
    k.w.theta_bar = &theta_bar;
    k.w.derived_bar = &bar;
    const core::StepPoint<T> at = core::step_point<T>(b.m.s, x, x + nx, y.data() + box->s.nq);
    const core::StepBars<T> step_bars{y_bar, x_bar, x_bar + nx, t.data()};
    core::step_adjoint(b.m, box->opts<T>(), at, step_bars, k.w);
    core::derive_adjoint(b.m.s, b.m.theta, b.m.derived, bar, theta_bar);
  }
};

// (q, v, x, theta) -> an output
struct OutputOp {
  Box box;
  Output kind;
  template <class T>
  void forward(const T* x, T* y) const {
    const int nq = box->s.nq, nv = box->s.nv;
    const StepThetaOp::Bound<T> b(*box, x + nq + 2 * nv);
    Scratch<T> k(b.m.s);
    core::output<T, T>(b.m, kind, {x, x + nq, x + nq + nv}, y, k.w);
  }
  template <class T>
  void adjoint(const T* x, const T* y_bar, T* x_bar) const {
    const int nq = box->s.nq, nv = box->s.nv, at_theta = nq + 2 * nv;
    const StepThetaOp::Bound<T> b(*box, x + at_theta);
    Scratch<T> k(b.m.s);
    std::vector<T> y(core::output_size(b.m.s, kind)), bars(b.derived.size(), T(0));
    core::Theta<T> theta_bar;
    core::bind<T>(b.m.s, x_bar + at_theta, theta_bar);
    core::Derived<T> bar;
    core::bind<T>(b.m.s, bars.data(), bar);
    const core::OutputPoint<T> at{x, x + nq, x + nq + nv};
    core::output<T, T>(b.m, kind, at, y.data(), k.w);
    k.w.theta_bar = &theta_bar;
    k.w.derived_bar = &bar;
    core::output_adjoint<T, T>(b.m, kind, at, y_bar, {x_bar, x_bar + nq, x_bar + nq + nv}, k.w);
    core::derive_adjoint(b.m.s, b.m.theta, b.m.derived, bar, theta_bar);
  }
};

// sizes and tables in the order of the schema
inline Box make_box(const IntArray& sizes, const IntArray& tables, const Numbers& theta,
                    const Numbers& vert, const EngineOptions& options) {
  Box box = std::make_shared<ModelBox>();
  box->tables.assign(tables.data(), tables.data() + tables.size());
  box->s = core::bind_layout(core::read_sizes(sizes.data()), box->tables.data());
  box->s.dense_only = options.solver == kPgsSolver;
  box->s.soft = options.contact == kSoftContact;
  box->s.nwarm = box->s.soft && options.warmstart ? box->s.nv : 0;
  const Layout& s = box->s;
  box->wide.fill(s, theta, vert);
  box->narrow.fill(s, theta, vert);
  box->options = options;
  return box;
}

// the row problem of a step, before it is solved: A of each island, b, lo, hi, mu, and where cones
// and islands start
struct RowDump {
  Numbers A, b, lo, hi, mu;
  std::vector<int> cone, island;
};
inline RowDump dump_rows(const Box& box, const Numbers& x) {
  auto m = box->model<double>();
  // A of however many rows
  m.s.dense_only = true;
  Scratch<double> k(m.s);
  core::free_motion(m, x.data(), x.data() + core::state_size(m.s), k.w);
  k.w.sets_aside = false;
  core::collect_rows(m, box->opts<double>(), x.data(), true, k.w);
  core::order_rows(m.s, k.w);
  core::fill_rows(m, box->opts<double>(), x.data(), k.w);
  core::assemble_rows(m.s, k.w);
  const int n = k.w.problem.nrow;
  RowDump d;
  d.island.assign(k.w.island_row, k.w.island_row + k.w.problem.nisland + 1);
  size_t size = 0;
  for (int i = 0; i < k.w.problem.nisland; ++i) {
    const size_t rows = d.island[i + 1] - d.island[i];
    size += rows * rows;
  }
  d.A.assign(k.w.A, k.w.A + size);
  d.b.assign(k.w.b, k.w.b + n);
  d.lo.assign(k.w.lo, k.w.lo + n);
  d.hi.assign(k.w.hi, k.w.hi + n);
  d.mu.assign(k.w.mu, k.w.mu + n);
  d.cone.assign(k.w.cone, k.w.cone + n);
  return d;
}

// A and B of the step from (x, u), side by side: 2 nv + na rows
inline Numbers linearized_step(const Box& box, const Numbers& x) {
  const auto m = box->model<double>();
  const Layout& s = m.s;
  const int nq = s.nq, nv = s.nv, nx = core::state_size(s), columns = 2 * nv + s.na + s.nu;
  Scratch<double> k(s);
  core::LinearWork<double> f;
  std::vector<char> buffer(core::carve_linear<double>(s, nullptr, f) + 64, char(0xff));
  core::carve_linear<double>(s, buffer.data() + 64 - uintptr_t(buffer.data()) % 64, f);
  Numbers y(nx), t(2 * nv + 2 * nq), out;
  core::step(m, box->opts<double>(), x.data(), x.data() + nx, true, y.data(), k.w);
  const auto at = core::step_point<double>(s, x.data(), x.data() + nx, y.data() + nq);
  core::velocity_jacobian(m, box->opts<double>(), at, k.w, f);
  double* const scratch[4] = {t.data(), t.data() + nv, t.data() + 2 * nv, t.data() + 2 * nv + nq};
  core::turn_blocks(m, at, y.data(), scratch, f);
  const auto add = [&](const double* row) { out.insert(out.end(), row, row + columns); };
  Numbers x1_bar(nx), x_bar(nx), u_bar(s.nu), steps(4 * nv);
  const core::StepBars<double> bars{x1_bar.data(), x_bar.data(), u_bar.data(), steps.data()};
  for (int d = 0; d < nv; ++d) {
    core::position_row(m, d, f);
    if (k.w.recovery.moved) {
      core::unit_position_bar(s, y.data(), d, f, x1_bar.data());
      core::adjoint_row(m, box->opts<double>(), at, bars, true, k.w, f.line);
    }
    add(f.line);
  }
  for (int d = 0; d < nv; ++d) add(f.dof_row(d));
  for (int a = 0; a < s.nu; ++a) {
    if (s.act_adr[a] < 0) continue;
    core::activation_row(m, a, at, k.w, f);
    add(f.line);
  }
  return out;
}

inline OpTable model_table(const Box& box) {
  const size_t nq = box->s.nq, nv = box->s.nv, na = box->s.na, nu = box->s.nu, nx = nq + nv + na;
  const size_t ntheta = core::theta_size(box->s);
  const char* derive =
      "derive derive_shapes derive_equalities derive_centre derive_inertia derive_joints attach "
      "compose";
  const char* actuation =
      "actuation actuators actuator actuator_input compensation gravity_compensation fluid_forces "
      "fluid_force ellipsoid_force flow box_drag fluid_place local_motion muscle_force muscle_gain "
      "muscle_bias muscle_rate reached_actuator reached_actuators reach site_reach crank_reach "
      "site_place path tendon_forces tendon_actuators tendon_kinematics fixed_tendon "
      "spatial_tendon straight_part wrapped_part";
  const char* step_theta =
      "step solve_rows_unrolled delassus delassus_row still_tree applied_wrenches "
      "link_pose "
      "link_inertia actuator_force actuator_input control next_activation "
      "activation_gain activation_limit activation_drive spring fluid_law semiaxes ellipsoid_law "
      "box_law drag_numbers muscle_units "
      "joint_force_limit collide";
  const char* step =
      "step solve_step island world velocity recover recover_world recover_large motion link_force "
      "rows tree axis "
      "wrench contact contact_point contact_data rim_data rim_friction "
      "body_equality "
      "equality_data joint_equality ball_limit log actuation actuator transmission difference "
      "vector twist placement advance_activation integrate inverse_dynamics "
      "spin_torque spin_forces step_part step_through_hits hit_state hit_velocity hit_moment "
      "coming_approach "
      "soft_step soft_motion metric soft_rows soft_contact contact_wrench frame_axis soft_equality "
      "connect point weld_rotation turn soft_limit soft_friction soft_coupling soft_acceleration "
      "turn_single_bodies gyro runge_kutta stage stage_rate turned_rate "
      "stage_activation stage_drive set_tendon_row tendon_coupling soft_moment soft_tendon "
      "soft_tendon_coupling add_tendon_damping add_tendon_inertia tendon_drag tendon_biases "
      "part_motion point_acceleration add_adhesion fluid_inertia fluid_twist slope reach_damping "
      "geared_damping";
  const auto output = [&](Output kind, const char* adjoint_of) {
    return make_op(OutputOp{box, kind}, adjoint_of, nq + 2 * nv + ntheta,
                   size_t(core::output_size(box->s, kind)));
  };
  return {
      {"output_poses", output(Output::poses, "output poses placed_pose pose_tree")},
      {"output_center_of_mass", output(Output::center_of_mass, "center_of_mass body_centre")},
      {"output_mass_matrix", output(Output::mass_matrix, "mass_matrix add_tendon_mass")},
      {"output_inverse_dynamics",
       output(Output::inverse_dynamics, "inverse_dynamics motion_parameter add_tendon_inverse")},
      {"output_forward_dynamics", output(Output::forward_dynamics, "forward_dynamics")},
      {"output_mass_centers", output(Output::mass_centers, "mass_centers tree_centre for_bodies")},
      {"output_com_inertias",
       output(Output::com_inertias, "com_inertias turned_inertia inertia_axes")},
      {"output_com_velocities", output(Output::com_velocities, "com_velocities")},
      {"inverse_dynamics", make_op(InverseDynamicsOp{box}, "inverse_dynamics", nq + 2 * nv, nv)},
      {"integrate", make_op(IntegrateOp{box}, "integrate", nq + nv, nq)},
      {"actuation", make_op(ActuationOp{box}, actuation, nx + nu, 2 * nv + box->s.ntendon)},
      {"activation", make_op(ActivationOp{box}, "advance_activation next_activation", nx + nu, na)},
      {"step", make_op(StepOp{box}, step, nx + nu, nx)},
      {"derive", make_op(DeriveOp{box}, derive, ntheta, core::derived_size(box->s))},
      {"step_theta", make_op(StepThetaOp{box}, step_theta, nx + nu + ntheta, nx)},
  };
}

}  // namespace fb::ops
