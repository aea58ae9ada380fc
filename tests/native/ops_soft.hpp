// Ops of MuJoCo's contact law: impedance, spring, reference and the forces of one group without a
// model, and the parameters of every pair of a model.
#pragma once
#include "core/soft/contact_forces.hpp"
#include "tests/native/ops_model.hpp"
#include "tests/native/ops_pure.hpp"

namespace fb::ops {

// (a, p) -> (a^p, log a), with the slopes that an impedance takes
struct PowerOp {
  template <class T>
  void forward(const T* x, T* y) const {
    y[0] = core::power(x[0], x[1]);
    y[1] = core::logarithm(x[0]);
  }
  template <class T>
  void adjoint(const T* x, const T* b, T* x_bar) const {
    const T y = core::power(x[0], x[1]);
    x_bar[0] += (b[0] * x[1] * y + b[1]) / x[0];
    x_bar[1] += b[0] * y * core::logarithm(x[0]);
  }
};

// (solimp, x) -> d
struct ImpedanceOp {
  static constexpr int n = core::kSolimp;
  template <class T>
  void forward(const T* x, T* y) const {
    y[0] = core::impedance(x, x[n]).d;
  }
  template <class T>
  void adjoint(const T* x, const T* b, T* x_bar) const {
    const core::Impedance<T> f = core::impedance(x, x[n]);
    for (int i = 0; i < n; ++i) x_bar[i] += f.by[i] * b[0];
    x_bar[n] += f.by_x * b[0];
  }
};

// (solref, solimp[1], h) -> (K, B)
struct RowSpringOp {
  bool safe;
  template <class T>
  core::Spring<T> spring(const T* x) const {
    const T solimp[2] = {T(0), x[2]};
    return core::row_spring(x, solimp, x[3], safe);
  }
  template <class T>
  void forward(const T* x, T* y) const {
    const core::Spring<T> s = spring(x);
    y[0] = s.K;
    y[1] = s.B;
  }
  template <class T>
  void adjoint(const T* x, const T* b, T* x_bar) const {
    const core::Spring<T> s = spring(x);
    for (int i = 0; i < core::kSolref; ++i) x_bar[i] += s.K_by[i] * b[0] + s.B_by[i] * b[1];
    x_bar[2] += s.K_by_d * b[0] + s.B_by_d * b[1];
    x_bar[3] += s.K_by_h * b[0] + s.B_by_h * b[1];
  }
};

// (solref, solimp, x, weight, h) -> (D, K d, B)
struct ReferenceOp {
  bool sprung;
  template <class T>
  core::RowLaw<T, T> law(const T* x) const {
    return {x, x + 2, x[7], x[8], sprung};
  }
  template <class T>
  void forward(const T* x, T* y) const {
    const core::Reference<T> r = core::reference(law(x), x[9], true);
    y[0] = r.D;
    y[1] = r.Kd;
    y[2] = r.B;
  }
  template <class T>
  void adjoint(const T* x, const T* b, T* x_bar) const {
    const core::RowLaw<T, T> given = law(x);
    const core::Reference<T> r = core::reference(given, x[9], true);
    const auto bar = core::reference_adjoint<T, T>(given, r, {b[0], b[1], b[2]});
    core::add_law_bar(bar, x_bar, x_bar + 2, x_bar + 9);
    x_bar[7] += bar.x;
    x_bar[8] += bar.weight;
  }
};

// (D, y) -> f of N rows, with dry friction or the friction coefficients between where the kind of row
// has them
template <int N>
struct SoftForceOp {
  core::SoftKind kind;
  static constexpr double root = 0.8;  // 1 / sqrt(impratio)
  static constexpr bool cone(core::SoftKind k) {
    return k == core::kSoftEllipse || k == core::kSoftPyramid;
  }
  int others() const { return cone(kind) ? N - 1 : kind == core::kSoftFriction ? 1 : 0; }
  template <class T>
  core::SoftBlock<T> block(const T* x) const {
    core::SoftBlock<T> b;
    b.kind = kind;
    b.rows = N;
    b.D = x[0];
    b.loss = kind == core::kSoftFriction ? x[1] : T(0);
    b.root = core::Real<T>(root);
    if (cone(kind))
      for (int i = 1; i < N; ++i) b.mu[i - 1] = x[i];
    return b;
  }
  template <class T>
  void forward(const T* x, T* y) const {
    core::soft_force<N>(block(x), x + 1 + others(), y);
  }
  template <class T>
  void adjoint(const T* x, const T* f_bar, T* x_bar) const {
    core::SoftBlockBar<T> bar;
    bar.D = bar.loss = T(0);
    for (T& mu : bar.mu) mu = T(0);
    T y_bar[N];
    core::soft_force_adjoint<N>(block(x), x + 1 + others(), f_bar, y_bar, bar);
    x_bar[0] += bar.D;
    if (kind == core::kSoftFriction) x_bar[1] += bar.loss;
    if (cone(kind))
      for (int i = 1; i < N; ++i) x_bar[i] += bar.mu[i - 1];
    for (int i = 0; i < N; ++i) x_bar[1 + others() + i] += y_bar[i];
  }
};
template <int N>
Op soft_force_op(core::SoftKind kind) {
  const SoftForceOp<N> op{kind};
  return make_op(op, "soft_force cone_force", 1 + op.others() + N, N);
}

// a quaternion of any length -> that of its matrix, scalar first
struct QuaternionOfOp {
  template <class T>
  void forward(const T* x, T* y) const {
    const core::Quaternion<T> Q = core::quaternion_of(core::rotation_of(x));
    y[0] = Q.s;
    put(Q.v, y + 1);
  }
  template <class T>
  void adjoint(const T* x, const T* b, T* x_bar) const {
    const core::Mat3<T> R = core::rotation_of(x);
    const core::Vec3<T> turn =
        core::quaternion_of_adjoint(core::quaternion_of(R), b[0], vec(b + 1));
    core::add_quat_bar(x, core::mul_transposed(R, turn), x_bar);
  }
};

// theta -> for every pair: solref, solreffriction, solimp, margin, five friction coefficients
struct ContactLawOp {
  Box box;
  static constexpr int own = 2 * core::kSolref + core::kSolimp + 1, n = own + core::kSoftRows - 1;
  template <class T>
  void forward(const T* x, T* y) const {
    const StepThetaOp::Bound<T> b(*box, x);
    for (int pair = 0; pair < box->s.npair; ++pair, y += n) {
      const core::ContactLaw<T> law = core::contact_law(b.m, pair);
      for (int i = 0; i < core::kSolref; ++i) {
        y[i] = law.solref[i];
        y[core::kSolref + i] = law.solreffriction[i];
      }
      for (int i = 0; i < core::kSolimp; ++i) y[2 * core::kSolref + i] = law.solimp[i];
      y[own - 1] = law.margin;
      for (int i = own; i < n; ++i) y[i] = core::contact_friction(b.m, pair, i - own + 1);
    }
  }
  template <class T>
  void adjoint(const T* x, const T* y_bar, T* x_bar) const {
    const StepThetaOp::Bound<T> b(*box, x);
    Scratch<T> k(b.m.s);
    std::vector<T> bars(b.derived.size(), T(0));
    core::Theta<T> theta_bar;
    core::bind<T>(b.m.s, x_bar, theta_bar);
    core::Derived<T> derived_bar;
    core::bind<T>(b.m.s, bars.data(), derived_bar);
    k.w.theta_bar = &theta_bar;
    k.w.derived_bar = &derived_bar;
    for (int pair = 0; pair < box->s.npair; ++pair, y_bar += n) {
      core::RowLawBar<T> bar;
      bar.weight = bar.h = T(0);
      for (int i = 0; i < core::kSolref; ++i) bar.solref[i] = y_bar[i];
      for (int i = 0; i < core::kSolimp; ++i) bar.solimp[i] = y_bar[2 * core::kSolref + i];
      // x is the gap less the margin
      bar.x = -y_bar[own - 1];
      const core::ContactLaw<T> law = core::contact_law(b.m, pair);
      core::contact_law_adjoint(b.m, pair, law, bar, y_bar + core::kSolref, theta_bar);
      for (int i = own; i < n; ++i)
        core::contact_friction_adjoint(b.m, pair, i - own + 1, y_bar[i], k.w);
    }
    core::derive_adjoint(b.m.s, b.m.theta, b.m.derived, derived_bar, theta_bar);
  }
};

// (q, v, act, u, theta) -> the forces of contacts on all bodies
struct ContactForcesOp {
  Box box;
  template <class T>
  void forward(const T* x, T* y) const {
    const int nx = core::state_size(box->s);
    const StepThetaOp::Bound<T> b(*box, x + nx + box->s.nu);
    Scratch<T> k(b.m.s);
    core::contact_forces(b.m, box->opts<T>(), x, x + nx, core::Mask<T>(true), y, k.w);
  }
  template <class T>
  void adjoint(const T* x, const T* y_bar, T* x_bar) const {
    const int nx = core::state_size(box->s), at_theta = nx + box->s.nu, n = 6 * box->s.nbody;
    const StepThetaOp::Bound<T> b(*box, x + at_theta);
    Scratch<T> k(b.m.s);
    std::vector<T> y(n), t(4 * box->s.nv, not_a_number<T>()), bars(b.derived.size(), T(0));
    core::Theta<T> theta_bar;
    core::bind<T>(b.m.s, x_bar + at_theta, theta_bar);
    core::Derived<T> bar;
    core::bind<T>(b.m.s, bars.data(), bar);
    core::contact_forces(b.m, box->opts<T>(), x, x + nx, core::Mask<T>(true), y.data(), k.w);
    k.w.theta_bar = &theta_bar;
    k.w.derived_bar = &bar;
    y.assign(y_bar, y_bar + n);
    const core::StepBars<T> bars_of_step{nullptr, x_bar, x_bar + nx, t.data()};
    core::contact_forces_adjoint(b.m, box->opts<T>(),
                                 core::step_point<T>(b.m.s, x, x + nx, nullptr), y.data(),
                                 bars_of_step, k.w);
    core::derive_adjoint(b.m.s, b.m.theta, b.m.derived, bar, theta_bar);
  }
};

inline void add_soft_ops(OpTable& ops) {
  using namespace core;
  ops["power"] = make_op(PowerOp{}, "", 2, 2);
  ops["impedance"] = make_op(ImpedanceOp{}, "", 6, 1);
  ops["row_spring_safe"] = make_op(RowSpringOp{true}, "", 4, 2);
  ops["row_spring_as_given"] = make_op(RowSpringOp{false}, "", 4, 2);
  ops["reference"] = make_op(ReferenceOp{true}, "reference", 10, 3);
  ops["reference_unsprung"] = make_op(ReferenceOp{false}, "reference", 10, 3);
  ops["quaternion_of"] = make_op(QuaternionOfOp{}, "quaternion_of", 4, 4);
  ops["soft_equality_1"] = soft_force_op<1>(kSoftEquality);
  ops["soft_equality_3"] = soft_force_op<3>(kSoftEquality);
  ops["soft_friction"] = soft_force_op<1>(kSoftFriction);
  ops["soft_one_sided"] = soft_force_op<1>(kSoftOneSided);
  ops["soft_ellipse_3"] = soft_force_op<3>(kSoftEllipse);
  ops["soft_ellipse_4"] = soft_force_op<4>(kSoftEllipse);
  ops["soft_ellipse_6"] = soft_force_op<6>(kSoftEllipse);
  ops["soft_pyramid_3"] = soft_force_op<3>(kSoftPyramid);
  ops["soft_pyramid_4"] = soft_force_op<4>(kSoftPyramid);
  ops["soft_pyramid_6"] = soft_force_op<6>(kSoftPyramid);
}
inline void add_soft_ops(const Box& box, OpTable& ops) {
  ops["contact_law"] = make_op(ContactLawOp{box}, "contact_law contact_friction",
                               core::theta_size(box->s), size_t(ContactLawOp::n) * box->s.npair);
  if (!box->s.soft) return;
  const size_t nx = core::state_size(box->s), ntheta = core::theta_size(box->s);
  ops["contact_forces"] = make_op(ContactForcesOp{box}, "contact_forces shown_centre",
                                  nx + box->s.nu + ntheta, size_t(6) * box->s.nbody);
}

}  // namespace fb::ops
