// Ops that need no model: small functions of the core over flat inputs.
#pragma once
#include "tests/native/ops_table.hpp"

namespace fb::ops {

template <class T>
core::Vec3<T> vec(const T* x) {
  return {x[0], x[1], x[2]};
}
template <class T>
core::Motion<T> motion(const T* x) {
  return {vec(x), vec(x + 3)};
}
template <class T>
core::Mat3<T> matrix(const T* x) {
  core::Mat3<T> R;
  for (int i = 0; i < 9; ++i) R.a[i] = x[i];
  return R;
}
template <class T>
void put(core::Vec3<T> v, T* y) {
  y[0] = v.x;
  y[1] = v.y;
  y[2] = v.z;
}
template <class T>
void put(core::Force<T> f, T* y) {
  put(f.ang, y);
  put(f.lin, y + 3);
}

// (mass, mc, Io, v, a) -> f
struct NewtonEulerOp {
  template <class T>
  static core::Inertia<T> inertia(const T* x) {
    const core::Vec3<T> h = vec(x + 1), c = h * (T(1) / x[0]);
    return {x[0],
            c,
            {x[4] - (h.y * c.y + h.z * c.z), x[5] - (h.x * c.x + h.z * c.z),
             x[6] - (h.x * c.x + h.y * c.y), x[7] + h.x * c.y, x[8] + h.x * c.z, x[9] + h.y * c.z}};
  }
  template <class T>
  void forward(const T* x, T* y) const {
    put(core::newton_euler(inertia(x), motion(x + 10), motion(x + 16)), y);
  }
  template <class T>
  void adjoint(const T* x, const T* y_bar, T* x_bar) const {
    core::InertiaBar<T> I{T(0), core::zero3<T>(), {T(0), T(0), T(0), T(0), T(0), T(0)}};
    core::Force<T> v = core::zero_force<T>(), a = core::zero_force<T>();
    core::newton_euler_adjoint(inertia(x), motion(x + 10), motion(x + 16), motion(y_bar), I, v, a);
    T bar[22] = {I.mass,  I.mc.x,  I.mc.y,  I.mc.z,  I.Io.xx,
                 I.Io.yy, I.Io.zz, I.Io.xy, I.Io.xz, I.Io.yz};
    put(v, bar + 10);
    put(a, bar + 16);
    for (int i = 0; i < 22; ++i) x_bar[i] += bar[i];
  }
};

struct NormalisedOp {
  template <class T>
  void forward(const T* x, T* y) const {
    const core::Quat<T> u = core::normalised(x);
    y[0] = u.w;
    y[1] = u.x;
    y[2] = u.y;
    y[3] = u.z;
  }
  template <class T>
  void adjoint(const T* x, const T* b, T* x_bar) const {
    core::normalised_adjoint(x, core::Quat<T>{b[0], b[1], b[2], b[3]}, x_bar);
  }
};

// x.x -> (cos(|x|/2), sin(|x|/2)/|x|)
struct HalfAngleOp {
  template <class T>
  void forward(const T* x, T* y) const {
    core::half_angle(x[0], y[0], y[1]);
  }
  template <class T>
  void adjoint(const T* x, const T* b, T* x_bar) const {
    x_bar[0] += core::half_angle_adjoint(x[0], b[0], b[1]);
  }
};

// 1 - exp(-x), whose slope the adjoint of activation takes from its value
struct OneMinusExpOp {
  template <class T>
  void forward(const T* x, T* y) const {
    y[0] = core::one_minus_exp(x[0]);
  }
  template <class T>
  void adjoint(const T* x, const T* b, T* x_bar) const {
    x_bar[0] += b[0] * (T(1) - core::one_minus_exp(x[0]));
  }
};

// (q, w, h) -> q+
struct IntegrateQuatOp {
  template <class T>
  void forward(const T* x, T* y) const {
    core::integrate_quat(x, x + 4, x[7], y);
  }
  template <class T>
  void adjoint(const T* x, const T* b, T* x_bar) const {
    core::integrate_quat_adjoint(x, x + 4, x[7], b, x_bar, x_bar + 4, x_bar[7]);
  }
};

// q -> rotation vector; the cotangent of a turn in body axes, or (side 1) of one in world axes seen
// from the body
struct LogOp {
  int side;
  template <class T>
  void forward(const T* x, T* y) const {
    put(core::log_quat(core::normalised(x)), y);
  }
  template <class T>
  void adjoint(const T* x, const T* b, T* x_bar) const {
    const core::Vec3<T> t = core::log_adjoint(core::log_quat(core::normalised(x)), vec(b), side);
    core::add_quat_bar(x, side < 0 ? t : core::mul_transposed(core::rotation_of(x), t), x_bar);
  }
};

// axis -> a frame whose third column lies along it; quaternion -> matrix
struct AxisFrameOp {
  template <class T>
  void forward(const T* x, T* y) const {
    const core::Mat3<T> F = core::axis_frame(x);
    for (int i = 0; i < 9; ++i) y[i] = F.a[i];
  }
  template <class T>
  void adjoint(const T* x, const T* b, T* x_bar) const {
    core::axis_frame_adjoint(x, matrix(b), x_bar);
  }
};
struct RotationOp {
  template <class T>
  void forward(const T* x, T* y) const {
    const core::Mat3<T> R = core::rotation_of(x);
    for (int i = 0; i < 9; ++i) y[i] = R.a[i];
  }
  template <class T>
  void adjoint(const T* x, const T* b, T* x_bar) const {
    core::rotation_of_adjoint(x, matrix(b), x_bar);
  }
};

struct TangentsOp {
  template <class T>
  void forward(const T* x, T* y) const {
    core::Vec3<T> t1, t2;
    core::tangents(vec(x), t1, t2);
    put(t1, y);
    put(t2, y + 3);
  }
  template <class T>
  void adjoint(const T* x, const T* b, T* x_bar) const {
    core::Vec3<T> n_bar = core::zero3<T>();
    core::tangents_adjoint(vec(x), core::tangents_of(vec(x)), vec(b), vec(b + 3), n_bar);
    x_bar[0] += n_bar.x;
    x_bar[1] += n_bar.y;
    x_bar[2] += n_bar.z;
  }
};

// two contacts, one bounded and one unilateral row: (B 8x8, b, mu1, mu2, bound) -> lam, with A = B
// B' + 0.1
struct SolveRowsOp {
  static constexpr int n = 8;
  int box;
  template <class T>
  struct Store {
    int island[2] = {0, n}, cone[n] = {1, 0, 0, 1, 0, 0, 0, 0};
    T A[n * n], b[n], lo[n], hi[n], mu[n];
    std::vector<char> buffer;
    core::RowProblem<T> p;
    typename core::RowSolver<T>::Solution s;
    T z[n], mu_bar[n], lo_bar[n], hi_bar[n], A_bar[n * n];
    Store(const T* x, int box, int plain_sweeps = 0) {
      using R = core::Real<T>;
      for (int i = 0; i < n; ++i) {
        for (int j = 0; j < n; ++j) {
          A[i * n + j] = T(R(i == j ? 0.1 : 0));
          for (int k = 0; k < n; ++k) A[i * n + j] += x[i * n + k] * x[j * n + k];
        }
        b[i] = x[n * n + i];
        lo[i] = T(R(i == 0 || i == 3 || i == 7 ? 0 : -1e30));
        hi[i] = T(R(1e30));
        mu[i] = T(0);
      }
      mu[0] = x[n * n + n];
      mu[3] = x[n * n + n + 1];
      hi[6] = x[n * n + n + 2];
      lo[6] = -hi[6];
      p = {n, 1, island, cone, A, b, lo, hi, mu, {}};
      p.options.tolerance = R(core::kIsDouble<T> ? 1e-13 : 1e-6);
      p.options.max_sweeps = 2000;
      p.options.friction = box ? kBoxFriction : kConeFriction;
      p.options.gradient = kGradientImplicit;
      if (plain_sweeps > 0) {
        p.options.tolerance = R(0);
        p.options.max_sweeps = plain_sweeps;
        p.options.solver = kPgsSolver;
        p.options.gradient = kGradientUnrolled;
      }
      const int sweeps = p.options.max_sweeps;
      core::Carver count{nullptr, 0};
      core::RowSolver<T>::carve(count, n, n, sweeps, s);
      buffer.assign(count.at + 64, char(0xff));
      char* base = buffer.data() + (64 - reinterpret_cast<uintptr_t>(buffer.data()) % 64) % 64;
      core::Carver carver{base, 0};
      core::RowSolver<T>::carve(carver, n, n, sweeps, s);
      core::RowSolver<T>::solve(p, core::Mask<T>(true), s, [](core::Mask<T> left) { return left; });
      core::RowSolver<T>::tangent(p, s);
    }
    void adjoint(const T* y_bar) {
      core::RowSolver<T>::adjoint(p, s, y_bar, {z, mu_bar, lo_bar, hi_bar, A_bar});
    }
    // from the problem to its inputs, A = B B'
    void add_to(const T* x, T* x_bar) const {
      for (int i = 0; i < n; ++i) {
        for (int j = 0; j < n; ++j)
          for (int k = 0; k < n; ++k) {
            x_bar[i * n + k] += A_bar[i * n + j] * x[j * n + k];
            x_bar[j * n + k] += A_bar[i * n + j] * x[i * n + k];
          }
        x_bar[n * n + i] -= z[i];
      }
      x_bar[n * n + n] += mu_bar[0];
      x_bar[n * n + n + 1] += mu_bar[3];
      x_bar[n * n + n + 2] += hi_bar[6] - lo_bar[6];
    }
  };
  template <class T>
  void forward(const T* x, T* y) const {
    Store<T> store(x, box);
    for (int i = 0; i < n; ++i) y[i] = store.s.lam[i];
  }
  template <class T>
  void adjoint(const T* x, const T* y_bar, T* x_bar) const {
    Store<T> store(x, box);
    store.adjoint(y_bar);
    for (int i = 0; i < n * n; ++i) store.A_bar[i] = -(store.z[i / n] * store.s.lam[i % n]);
    store.add_to(x, x_bar);
  }
};

// the same problem after a few plain sweeps, which reach nothing
struct UnrolledRowsOp {
  static constexpr int n = SolveRowsOp::n, sweeps = 7;
  int box;
  template <class T>
  void forward(const T* x, T* y) const {
    SolveRowsOp::Store<T> store(x, box, sweeps);
    for (int i = 0; i < n; ++i) y[i] = store.s.lam[i];
  }
  template <class T>
  void adjoint(const T* x, const T* y_bar, T* x_bar) const {
    SolveRowsOp::Store<T> store(x, box, sweeps);
    store.adjoint(y_bar);
    store.add_to(x, x_bar);
  }
};

// (phi, h) -> (beta, rest, R) of N rows of a given inverse weight
template <int N>
struct GapTermOp {
  bool equality;
  static constexpr double weight = 0.7;
  // that of double precision
  template <class T>
  core::GapLaw<core::Real<T>> law() const {
    using R = core::Real<T>;
    const auto wide = core::gap_law(Options<double>{}, equality);
    return {equality, R(wide.share), R(wide.v_hold), R(wide.growth), R(wide.v_jam)};
  }
  template <class T>
  void forward(const T* x, T* y) const {
    const auto g = core::gap_term<N>(law<T>(), x, T(core::Real<T>(weight)), x[N]);
    for (int i = 0; i < N; ++i) {
      y[i] = g.beta[i];
      y[N + i] = g.rest[i];
    }
    y[2 * N] = g.R;
  }
  template <class T>
  void adjoint(const T* x, const T* b, T* x_bar) const {
    core::GapBars<N, T> bar;
    for (int i = 0; i < N; ++i) {
      bar.beta[i] = b[i];
      bar.rest[i] = b[N + i];
    }
    bar.R = b[2 * N];
    T phi_bar[N];
    core::gap_term_adjoint<N>(law<T>(), x, T(core::Real<T>(weight)), x[N], bar, phi_bar, x_bar + N);
    for (int i = 0; i < N; ++i) x_bar[i] += phi_bar[i];
  }
};

// eight rows: three one-sided, of which the second is open, one that takes no part, three equalities
// with one error and one by itself.  (B 8x8, b, lam, rest, lead) -> push, with A = B B' + R
struct RecoverRowsOp {
  static constexpr int n = 8, open_row = 1, outside = 3;
  template <class T>
  struct Store {
    int island[2] = {0, n}, cone[n] = {}, together[n] = {1, 1, 1, 1, 3, 0, 0, 1};
    T A[n * n], lo[n], hi[n], mu[n], R[n], R0[n];
    const T *b, *lam;
    std::vector<char> buffer;
    core::RowProblem<T> p;
    core::RecoveryRows<T> rows;
    core::RecoverySolution<T> s;
    explicit Store(const T* x) : b(x + n * n), lam(b + n) {
      using R_ = core::Real<T>;
      for (int i = 0; i < n; ++i) {
        R[i] = R0[i] = T(R_(1e-4));
        lo[i] = T(R_(i < 4 ? 0 : -1e30));
        hi[i] = T(R_(1e30));
        mu[i] = T(0);
        for (int j = 0; j < n; ++j) {
          A[i * n + j] = i == j ? R[i] : T(0);
          for (int k = 0; k < n; ++k) A[i * n + j] += x[i * n + k] * x[j * n + k];
        }
      }
      R0[outside] = T(0);
      p = {n, 1, island, cone, A, b, lo, hi, mu, {}};
      rows = {R, R0, lam + n, lam + 2 * n, together, R_(1e-4), R_(1e-3), core::Mask<T>(true)};
      core::Carver count{nullptr, 0};
      core::carve_recovery(count, n, n, s);
      buffer.assign(count.at + 64, char(0xff));
      char* base = buffer.data() + (64 - reinterpret_cast<uintptr_t>(buffer.data()) % 64) % 64;
      core::Carver carver{base, 0};
      core::carve_recovery(carver, n, n, s);
      const auto open = [](int r) { return core::Mask<T>(r == open_row); };
      const core::Mask<T> all(true);
      core::recovery_targets(p, rows, lam, all, open, [](int) { return T(0); }, s);
      core::recover_rows(p, rows, all, s);
    }
  };
  template <class T>
  void forward(const T* x, T* y) const {
    Store<T> store(x);
    for (int i = 0; i < n; ++i) y[i] = store.s.push[i];
  }
  template <class T>
  void adjoint(const T* x, const T* y_bar, T* x_bar) const {
    Store<T> k(x);
    core::recover_rows_adjoint(k.p, k.rows, y_bar, k.s);
    T *b_bar = x_bar + n * n, *lam_bar = b_bar + n, *rest_bar = lam_bar + n;
    T *lead_bar = rest_bar + n, A_bar[n * n], c_bar[n], asked_rest[n], asked_lam[n];
    for (int i = 0; i < n; ++i) c_bar[i] = -k.s.z[i];
    core::recovery_targets_adjoint(k.p, k.rows, k.lam, c_bar, asked_rest, asked_lam);
    for (int i = 0; i < n; ++i) {
      const T w_bar = i == open_row ? c_bar[i] : T(0);
      for (int j = 0; j < n; ++j) {
        A_bar[i * n + j] = w_bar * k.lam[j] + c_bar[i] * k.s.push[j];
        lam_bar[j] += k.A[i * n + j] * w_bar;
      }
      b_bar[i] += w_bar;
      rest_bar[i] += asked_rest[i];
      lam_bar[i] += asked_lam[i];
      lead_bar[i] += c_bar[i];
    }
    for (int i = 0; i < n; ++i)
      for (int j = 0; j < n; ++j)
        for (int c = 0; c < n; ++c) {
          x_bar[i * n + c] += A_bar[i * n + j] * x[j * n + c];
          x_bar[j * n + c] += A_bar[i * n + j] * x[i * n + c];
        }
  }
};

inline const OpTable& table() {
  const char* unrolled = "solve_rows_unrolled sweep_rows row_step tangent_step prepare_rows";
  static const OpTable ops = {
      {"newton_euler",
       make_op(NewtonEulerOp{}, "newton_euler newton_euler_fields newton_euler_inertia", 22, 6)},
      {"normalised", make_op(NormalisedOp{}, "normalised", 4, 4)},
      {"half_angle", make_op(HalfAngleOp{}, "half_angle", 1, 2)},
      {"one_minus_exp", make_op(OneMinusExpOp{}, "", 1, 1)},
      {"integrate_quat", make_op(IntegrateQuatOp{}, "integrate_quat", 8, 4)},
      {"log_right", make_op(LogOp{-1}, "log", 4, 3)},
      {"log_left", make_op(LogOp{1}, "log", 4, 3)},
      {"axis_frame", make_op(AxisFrameOp{}, "axis_frame", 3, 9)},
      {"rotation_of", make_op(RotationOp{}, "rotation_of", 4, 9)},
      {"tangents", make_op(TangentsOp{}, "tangents", 3, 6)},
      {"solve_rows_cone", make_op(SolveRowsOp{0}, "solve_rows tangent_rows", 75, 8)},
      {"unrolled_rows_cone", make_op(UnrolledRowsOp{0}, unrolled, 75, 8)},
      {"unrolled_rows_box", make_op(UnrolledRowsOp{1}, unrolled, 75, 8)},
      {"gap_term", make_op(GapTermOp<1>{false}, "gap_term", 2, 3)},
      {"gap_term_coupling", make_op(GapTermOp<1>{true}, "gap_term", 2, 3)},
      {"gap_term_connect", make_op(GapTermOp<3>{true}, "gap_term", 4, 7)},
      {"recover_rows", make_op(RecoverRowsOp{}, "recover_rows recovery_targets asked", 96, 8)},
      {"solve_rows_box", make_op(SolveRowsOp{1}, "solve_rows tangent_rows", 75, 8)},
  };
  return ops;
}

}  // namespace fb::ops
