// One step under MuJoCo's law, by each of its integrators, and its adjoint.
// Proof: docs/derivations/soft.md.
#pragma once
#include "core/dynamics/integrate.hpp"
#include "core/soft/accelerations.hpp"
#include "core/step_hits.hpp"

namespace fb::FB_ISA {

// ---- the classical integrator of fourth order, on the manifold

// (S.33)  stages x_0 = x, x_i = x (+) h A_i (r, a)_(i-1); x+ = x (+) h sum B_i (r, a)_i, where r is the
// velocity, but for rotations that of the rotation vector u = h A_i r_(i-1) by which the stage is
// turned: r = w + u x w / 2 + k u x (u x w).  A solve starts where that of the stage before ended.
// Share of stage i in the rates of stage k, or in those of the end of the step
FB_FN double stage_share(int k, int i) {
  if (k == kSoftStages) return i == 0 || i + 1 == kSoftStages ? 1.0 / 6 : 1.0 / 3;
  if (i + 1 != k) return 0.0;
  return k + 1 == kSoftStages ? 1.0 : 0.5;
}

// given r_bar, add to u_bar and w_bar
template <class T>
FB_FN void turned_rate_adjoint(Vec3<T> u, Vec3<T> w, Vec3<T> r_bar, Vec3<T>& u_bar,
                               Vec3<T>& w_bar) {
  using R = Real<T>;
  const T s = dot(u, u), one = T(1);
  const Mask<T> small = s < T(R(1e-2));
  const T x = sqrt(select(small, one, s)) * R(0.5);
  T sine, cosine;
  sincos(x, sine, cosine);
  // k(s) and its slope
  const T cot = cosine / sine, far = select(small, one, s);
  const T k_far = (one - x * cot) / far;
  const T k_near =
      mul_add(s, mul_add(s, mul_add(s, T(R(1.0 / 1209600)), T(R(1.0 / 30240))), T(R(1.0 / 720))),
              T(R(1.0 / 12)));
  const T by_far = -((cot - x / (sine * sine)) / (x * R(8)) + k_far) / far;
  const T by_near = mul_add(s, mul_add(s, T(R(3.0 / 1209600)), T(R(2.0 / 30240))), T(R(1.0 / 720)));
  const T k = select(small, k_near, k_far), slope = select(small, by_near, by_far);
  const T ru = dot(r_bar, u), uw = dot(u, w), rw = dot(r_bar, w);
  u_bar += cross(w, r_bar) * R(0.5) + (r_bar * uw + w * ru - u * (rw * R(2))) * k +
           u * (slope * (ru * uw - s * rw) * R(2));
  w_bar += log_adjoint(u, r_bar, -1);
}
// visit the first of the three dofs of every rotation
template <class F>
FB_INLINE void for_turns(const Layout& s, F&& visit) {
  for (int l = 1; l < s.nlink; ++l)
    if (joint_turns(s.link_type[l])) visit(s.link_dof[l] + s.link_ndof[l] - 3);
}

// the accelerations of the solve go with the state, so that the next one may start there
template <class T>
FB_FN void carry_start(const Layout& s, const SoftWork<T>& f, T* x_next) {
  for (int d = 0; d < s.nwarm; ++d) warm_of(s, x_next)[d] = without_tangent(f.a[d]);
}
// rates of stage k, or of the end of the step: shares of those before it
template <class T>
FB_FN void stage_rates(const Layout& s, const SoftWork<T>& f, int k, T* r, T* a) {
  for (int d = 0; d < s.nv; ++d) {
    r[d] = a[d] = T(0);
    for (int i = 0; i < kSoftStages; ++i) {
      const Real<T> share(stage_share(k, i));
      if (share == Real<T>(0)) continue;
      r[d] = mul_add(f.stage_rate[i * s.nv + d], T(share), r[d]);
      a[d] = mul_add(f.stage_acc[i * s.nv + d], T(share), a[d]);
    }
  }
}
// cotangents on the way back through the stages
template <class T>
struct StageBars {
  T *rate, *acc, *drive;  // of all stages
  T *x, *r, *a;           // of one stage: its state, and the rates by which it was reached
  T h;
};
// visit the actuators that have an activation, and its place
template <class F>
FB_INLINE void for_activations(const Layout& s, F&& visit) {
  for (int a = 0; a < s.nu; ++a)
    if (s.act_adr[a] >= 0) visit(a, s.act_adr[a]);
}
// (S.39)  activation at stage k, act + h rate with the rate of the drives before it, or at the end of
// the step, where filters are exact and limits hold
FB_INLINE int stage_dynamics(int dyn, int k) {
  return dyn == kFilterExact && k < kSoftStages ? int(kFilter) : dyn;
}
template <class T, class P>
FB_INLINE Activation<T> stage_activation(const Model<T, P>& m, int a, int k, T act,
                                         const SoftWork<T>& f) {
  const Layout& s = m.s;
  Activation<T> y;
  y.ctrl = y.drive = T(0);
  for (int i = 0; i < kSoftStages; ++i) {
    const Real<T> share(stage_share(k, i));
    if (share == Real<T>(0)) continue;
    y.drive = mul_add(f.stage_drive[i * s.na + s.act_adr[a]], T(share), y.drive);
  }
  if (k == kSoftStages) {
    drive_activation(m, a, act, y);
    return y;
  }
  const int dyn = stage_dynamics(s.act_dyn[a], k);
  y.raw = y.next =
      dyn == kHeldActivation ? act : mul_add(y.drive, T(activation_gain(m, a, dyn)), act);
  return y;
}
// given those of the activations at stage k, or at the end, add to act_bar and to the drives before
template <class T, class P>
FB_FN void stage_activation_adjoint(const Model<T, P>& m, int k, const T* act, const T* out_bar,
                                    T* act_bar, const StageBars<T>& bars, Work<T>& w) {
  const Layout& s = m.s;
  for_activations(s, [&](int a, int at) {
    const Activation<T> y = stage_activation(m, a, k, act[at], w.soft);
    const int dyn = stage_dynamics(s.act_dyn[a], k);
    const T raw_bar = activation_limit_adjoint(a, y, out_bar[at], w);
    act_bar[at] += raw_bar;
    if (dyn == kHeldActivation) return;
    const T drive_bar = raw_bar * activation_gain(m, a, dyn);
    for (int i = 0; i < kSoftStages; ++i)
      bars.drive[i * s.na + at] += drive_bar * T(Real<T>(stage_share(k, i)));
    if (w.theta_bar) activation_gain_adjoint(m, a, dyn, raw_bar * y.drive, w);
  });
}
// x (+) h (r, a)
template <class T, class P>
FB_FN void soft_stage(const Model<T, P>& m, int k, const T* x, T* out, SoftWork<T>& f) {
  const Layout& s = m.s;
  T *r = f.stage_bar, *acc = r + s.nv;
  stage_rates(s, f, k, r, acc);
  for (int d = 0; d < s.nv; ++d)
    velocity_of(s, out)[d] = mul_add(acc[d], T(m.theta.dt[0]), velocity_of(s, x)[d]);
  integrate(s, x, r, m.theta.dt[0], out);
  const T* act = activation_of(s, x);
  for_activations(s, [&](int a, int at) {
    activation_of(s, out)[at] = stage_activation(m, a, k, act[at], f).next;
  });
  carry_start(s, f, out);
}
// accelerations of stage k; its rate, given that by which it was reached
template <class T, class P>
FB_FN void run_stage(const Model<T, P>& m, const Options<Real<T>>& o, int k, const T* r, const T* u,
                     Mask<T> alive, Work<T>& w) {
  const Layout& s = m.s;
  SoftWork<T>& f = w.soft;
  const T *x = f.stage + k * state_size(s), *v = velocity_of(s, x);
  T *rate = f.stage_rate + k * s.nv, *acc = f.stage_acc + k * s.nv;
  for (int d = 0; d < s.nv; ++d) rate[d] = v[d];
  if (k > 0)
    for_turns(s, [&](int d) {
      put3(log_adjoint(lift3<T>(r + d) * T(m.theta.dt[0]), lift3<T>(v + d), 1), rate + d);
    });
  soft_accelerations(m, o, x, u, alive, w);
  for (int d = 0; d < s.nv; ++d) acc[d] = f.acc[d];
  const T* act = activation_of(s, x);
  for_activations(s, [&](int a, int at) {
    f.stage_drive[k * s.na + at] = activation_drive(m, a, control(m, a, u), act[at]);
  });
  f.at_stage = k;
}
// all stages, and x+; what is told of the solves is that of the worst stage
template <class T, class P>
FB_FN void runge_kutta(const Model<T, P>& m, const Options<Real<T>>& o, const T* x, const T* u,
                       Mask<T> alive, T* x_next, Work<T>& w) {
  const Layout& s = m.s;
  SoftWork<T>& f = w.soft;
  Mask<T> unconverged(false), overflow(false);
  T residual = T(0), sweeps = T(0), factorisations = T(0);
  for (int i = 0; i < state_size(s); ++i) f.stage[i] = x[i];
  for (int k = 0; k < kSoftStages; ++k) {
    if (k > 0) soft_stage(m, k, x, f.stage + k * state_size(s), f);
    run_stage(m, o, k, f.stage_bar, u, alive, w);
    unconverged = unconverged | w.solution.unconverged;
    overflow = overflow | w.overflow;
    residual = max(residual, w.solution.residual);
    sweeps = max(sweeps, w.solution.sweeps);
    factorisations = max(factorisations, w.solution.factorisations);
  }
  soft_stage(m, kSoftStages, x, x_next, f);
  w.solution.unconverged = unconverged;
  w.overflow = overflow;
  w.solution.residual = residual;
  w.solution.sweeps = sweeps;
  w.solution.factorisations = factorisations;
}

// given out_bar of x (+) h (r, a), add to x_bar and to the rates of the stages before k; bars.r may
// hold what the stage's turn adds
template <class T, class P>
FB_FN void stage_adjoint(const Model<T, P>& m, int k, const T* x, const T* out_bar, T* x_bar,
                         StageBars<T>& bars, Work<T>& w) {
  const Layout& s = m.s;
  T *r = w.soft.step, *a = w.soft.grad;
  stage_rates(s, w.soft, k, r, a);
  bars.h += integrate_adjoint(s, x, r, m.theta.dt[0], out_bar, x_bar, bars.r);
  for (int d = 0; d < s.nv; ++d) {
    const T v1_bar = velocity_of(s, out_bar)[d];
    velocity_of(s, x_bar)[d] += v1_bar;
    bars.a[d] = v1_bar * m.theta.dt[0];
    bars.h += v1_bar * a[d];
  }
  for (int i = 0; i < kSoftStages; ++i) {
    const T share = T(Real<T>(stage_share(k, i)));
    for (int d = 0; d < s.nv; ++d) {
      bars.rate[i * s.nv + d] += bars.r[d] * share;
      bars.acc[i * s.nv + d] += bars.a[d] * share;
    }
  }
  stage_activation_adjoint(m, k, activation_of(s, x), activation_of(s, out_bar),
                           activation_of(s, x_bar), bars, w);
}
// the drives of stage k: to the activations in bars.x and to the controls
template <class T, class P>
FB_FN void stage_drive_adjoint(const Model<T, P>& m, int k, const T* u, T* u_bar,
                               const StageBars<T>& bars, Work<T>& w) {
  const Layout& s = m.s;
  const ActuationBars<T> inputs{nullptr, nullptr, activation_of(s, bars.x), u_bar};
  for_activations(s, [&](int a, int at) {
    if (s.act_dyn[a] == kHeldActivation) return;
    const T act = activation_of(s, w.soft.stage + k * state_size(s))[at];
    activation_drive_adjoint(m, a, u, act, bars.drive[k * s.na + at], inputs, w);
  });
}
// the rate of stage k: to the velocity in bars.x and to the rates by which it was reached in bars.r
template <class T, class P>
FB_FN void stage_rate_adjoint(const Model<T, P>& m, int k, StageBars<T>& bars, Work<T>& w) {
  const Layout& s = m.s;
  const T h = T(m.theta.dt[0]);
  T *v_bar = velocity_of(s, bars.x), *r = w.soft.step, *a = w.soft.grad;
  const T *rate_bar = bars.rate + k * s.nv, *v = velocity_of(s, w.soft.stage + k * state_size(s));
  for (int d = 0; d < s.nv; ++d) {
    v_bar[d] = rate_bar[d];
    bars.r[d] = T(0);
  }
  if (k == 0) return;
  stage_rates(s, w.soft, k, r, a);
  for_turns(s, [&](int d) {
    Vec3<T> u_bar = zero3<T>(), w_bar = zero3<T>();
    const Vec3<T> rate = lift3<T>(r + d);
    turned_rate_adjoint(rate * h, lift3<T>(v + d), lift3<T>(rate_bar + d), u_bar, w_bar);
    put3(w_bar, v_bar + d);
    put3(u_bar * h, bars.r + d);
    bars.h += dot(u_bar, rate);
  });
}
// (S.34)  stages backwards, each run again unless it is still in w
template <class T, class P>
FB_FN void runge_kutta_adjoint(const Model<T, P>& m, const Options<Real<T>>& o,
                               const StepPoint<T>& x, const StepBars<T>& bar, Work<T>& w) {
  const Layout& s = m.s;
  SoftWork<T>& f = w.soft;
  const int nx = state_size(s), n = kSoftStages * s.nv;
  T* at = f.stage_bar;
  const int shared = 2 * n + kSoftStages * s.na;
  T* const one = at + shared;
  StageBars<T> bars{at, at + n, at + 2 * n, one, one + nx, one + nx + s.nv, T(0)};
  for (int i = 0; i < shared; ++i) at[i] = T(0);
  for (int d = 0; d < s.nv; ++d) bars.r[d] = T(0);
  stage_adjoint(m, kSoftStages, x.q, bar.x1, bar.x, bars, w);
  for (int k = kSoftStages - 1; k >= 0; --k) {
    const T* stage = f.stage + k * nx;
    for (int i = 0; i < nx; ++i) bars.x[i] = T(0);
    stage_rate_adjoint(m, k, bars, w);
    stage_drive_adjoint(m, k, x.u, bar.u, bars, w);
    if (f.at_stage != k) {
      soft_accelerations(m, o, stage, x.u, Mask<T>(true), w);
      f.at_stage = k;
    }
    soft_acceleration_adjoint<T, P>(m, o, step_point<T>(s, stage, x.u, nullptr),
                                    bars.acc + k * s.nv, {nullptr, bars.x, bar.u, bar.scratch}, w);
    if (k > 0)
      stage_adjoint(m, k, x.q, bars.x, bar.x, bars, w);
    else
      for (int i = 0; i < nx; ++i) bar.x[i] += bars.x[i];
  }
  if (w.theta_bar) w.theta_bar->dt[0] += bars.h;
}

// ---- a step

template <class T, class P>
FB_FN void soft_step(const Model<T, P>& m, const Options<Real<T>>& o, const T* x, const T* u,
                     Mask<T> alive, T* x_next, Work<T>& w) {
  const Layout& s = m.s;
  if (o.integrator == kRungeKutta) return runge_kutta(m, o, x, u, alive, x_next, w);
  // v+ = v + h acc, q+ = q (+) h v+
  soft_accelerations(m, o, x, u, alive, w);
  T* v1 = velocity_of(s, x_next);
  for (int d = 0; d < s.nv; ++d)
    v1[d] = mul_add(w.soft.acc[d], T(m.theta.dt[0]), velocity_of(s, x)[d]);
  integrate(s, x, v1, m.theta.dt[0], x_next);
  if (s.na > 0) advance_activation(m, step_point<T>(s, x, u, nullptr), activation_of(s, x_next));
  carry_start(s, w.soft, x_next);
}
// the adjoint of a step that was just run in w
template <class T, class P>
FB_FN void soft_step_adjoint(const Model<T, P>& m, const Options<Real<T>>& o, const StepPoint<T>& x,
                             const StepBars<T>& bar, Work<T>& w) {
  if (o.integrator == kRungeKutta) return runge_kutta_adjoint(m, o, x, bar, w);
  const Layout& s = m.s;
  FB_STAGE(adjoint_solve);
  // q+ = q (+) h v+, v+ = v + h acc
  T *v_bar = velocity_of(s, bar.x), *acc_bar = w.p_bar;
  for (int d = 0; d < s.nv; ++d) acc_bar[d] = velocity_of(s, bar.x1)[d];
  T h_bar = integrate_adjoint(s, x.q, x.v1, m.theta.dt[0], bar.x1, bar.x, acc_bar);
  for (int d = 0; d < s.nv; ++d) {
    v_bar[d] += acc_bar[d];
    h_bar += w.soft.acc[d] * acc_bar[d];
    acc_bar[d] = acc_bar[d] * m.theta.dt[0];
  }
  if (w.theta_bar) w.theta_bar->dt[0] += h_bar;
  soft_acceleration_adjoint(m, o, x, acc_bar, bar, w);
  if (s.na == 0) return;
  // the activation reads nothing of the position
  const ActuationBars<T> inputs{nullptr, v_bar, activation_of(s, bar.x), bar.u};
  advance_activation_adjoint(m, x, activation_of(s, bar.x1), inputs, w);
}

}  // namespace fb::FB_ISA
