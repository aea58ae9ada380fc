// Generalised forces of joint springs, damping and actuators, the damping that the step treats
// implicitly, and the activation of actuators. Proof: docs/derivations/actuation.md.
#pragma once
#include "core/dynamics/fluid.hpp"
#include "core/dynamics/muscle.hpp"
#include "core/state.hpp"

namespace fb::FB_ISA {

// tendons: core/dynamics/tendon.hpp
template <class T, class P>
FB_FN void tendon_kinematics(const Model<T, P>& m, const T* q, const T* v, Work<T>& w);
template <class T, class P>
FB_FN void tendon_forces(const Model<T, P>& m, const StepPoint<T>& x, Work<T>& w);
template <class T, class P>
FB_FN void add_tendon_actuators(const Model<T, P>& m, const StepPoint<T>& x, const Work<T>& w,
                                T* sums);

// (A.1)  tau = -k (q - q_spring) - d v, on the manifold
// for ball and free joints; hD = armature + h d
template <class T, class P>
FB_FN void passive_forces(const Model<T, P>& m, const T* q, const T* v, Work<T>& w) {
  const Layout& s = m.s;
  const P h = m.theta.dt[0];
  for (int d = 0; d < s.nv; ++d) {
    const P damping = m.theta.dof_damping[d];
    w.tau[d] = -(v[d] * damping);
    w.hD[d] = w.damped ? T(m.theta.dof_armature[d] + h * damping) : T(m.theta.dof_armature[d]);
  }
  for (int j = 0; j < s.njnt; ++j) {
    const P k = m.theta.jnt_stiffness[j];
    if (all(is_nothing(k))) continue;
    const int qa = s.jnt_qadr[j], da = s.jnt_dofadr[j];
    with_joint(s.jnt_type[j], [&](auto joint) {
      T x[joint.nv];
      joint.difference(q + qa, m.theta.qpos_spring + qa, x);
      for (int i = 0; i < joint.nv; ++i) w.tau[da + i] -= x[i] * k;
    });
  }
}

// (A.2)  length and speed of a joint transmission: gear
// . (q or log q), gear . v; a free joint has length zero
template <class T, class P>
FB_INLINE void transmission(const Model<T, P>& m, int a, const T* q, const T* v, T& length,
                            T& speed) {
  const Layout& s = m.s;
  const int j = s.act_jnt[a], qa = s.jnt_qadr[j], da = s.jnt_dofadr[j];
  const P* gear = m.theta.actuator_gear + 6 * a;
  with_joint(s.jnt_type[j], [&](auto joint) {
    length = T(0);
    if constexpr (joint.lengths > 0) {
      T x[joint.nv];
      joint.vector(q + qa, x);
      length = x[0] * gear[0];
      for (int i = 1; i < joint.lengths; ++i) length += x[i] * gear[i];
    }
    speed = v[da] * gear[0];
    for (int i = 1; i < joint.nv; ++i) speed += v[da + i] * gear[i];
  });
}
// given length_bar, add to q_bar (tangent) and, unless it is null, to gear_bar
template <class T, class P>
FB_INLINE void transmission_adjoint(const Model<T, P>& m, int a, const T* q, T length_bar, T* q_bar,
                                    T* gear_bar) {
  const Layout& s = m.s;
  const int j = s.act_jnt[a], qa = s.jnt_qadr[j], da = s.jnt_dofadr[j];
  const P* gear = m.theta.actuator_gear + 6 * a;
  with_joint(s.jnt_type[j], [&](auto joint) {
    if constexpr (joint.lengths > 0) {
      T x[joint.nv], x_bar[joint.nv];
      joint.vector(q + qa, x);
      for (int i = 0; i < joint.lengths; ++i) {
        x_bar[i] = length_bar * gear[i];
        if (gear_bar) gear_bar[i] += length_bar * x[i];
      }
      joint.vector_adjoint(x, x_bar, q_bar + da);
    }
  });
}

// what the cotangents of actuation are added to; q: tangent
template <class T>
struct ActuationBars {
  T *q, *v, *act, *u;
};
// cotangents of the joint forces and of the diagonal that joins M
template <class T>
struct ForceBars {
  const T *tau, *hD;
};

// actuators on sites and slider-cranks: core/dynamics/reached.hpp
template <class T, class P>
FB_FN void add_reached_actuators(const Model<T, P>& m, const StepPoint<T>& x, const Work<T>& w,
                                 T* sums);
template <class T, class P>
FB_FN void reached_actuators_adjoint(const Model<T, P>& m, const StepPoint<T>& x, const T* sums,
                                     const ForceBars<T>& in, const ActuationBars<T>& bars,
                                     Work<T>& w);

// the control of one actuator within its range
template <class T, class P>
FB_INLINE T control(const Model<T, P>& m, int a, const T* u) {
  const P* range = m.theta.actuator_ctrlrange + 2 * a;
  return m.s.act_ctrllimited[a] ? clamp(u[a], T(range[0]), T(range[1])) : u[a];
}
// given its cotangent, add to that of u, or of the limit that holds it
template <class T, class P>
FB_INLINE void control_adjoint(const Model<T, P>& m, int a, const T* u, T ctrl, T ctrl_bar,
                               const ActuationBars<T>& bars, Work<T>& w) {
  const T zero = T(0);
  bars.u[a] += m.s.act_ctrllimited[a] ? select(ctrl == u[a], ctrl_bar, zero) : ctrl_bar;
  if (!w.theta_bar) return;
  w.theta_bar->actuator_ctrlrange[2 * a] += select(ctrl > u[a], ctrl_bar, zero);
  w.theta_bar->actuator_ctrlrange[2 * a + 1] += select(ctrl < u[a], ctrl_bar, zero);
}

// (A.8)  activation of one actuator after the step: next = clamp(raw), raw = act + gain drive, with
// (gain, drive) = (h, ctrl), (h / tau, ctrl - act) or (1 - exp(-h / tau), ctrl - act)
template <class T>
struct Activation {
  T ctrl, drive, raw, next;
};
template <class T, class P>
FB_INLINE P time_constant(const Model<T, P>& m, int a) {
  return max(m.theta.actuator_dynprm[a], P(Real<P>(kLeastTimeConstant)));
}
template <class T, class P>
FB_INLINE P activation_gain(const Model<T, P>& m, int a, int dyn) {
  const P h = m.theta.dt[0], ratio = h / time_constant(m, a);
  if (dyn == kMuscleActivation) return h;
  return dyn == kIntegrator ? h : dyn == kFilter ? ratio : one_minus_exp(ratio);
}
// given its cotangent, add to those of h and of the time constant
template <class T, class P>
FB_INLINE void activation_gain_adjoint(const Model<T, P>& m, int a, int dyn, T gain_bar,
                                       Work<T>& w) {
  if (dyn == kIntegrator || dyn == kMuscleActivation) {
    w.theta_bar->dt[0] += gain_bar;
    return;
  }
  // a function of h / tau whose slope is 1 or exp(-h / tau)
  const P tau = time_constant(m, a), h = m.theta.dt[0], gain = activation_gain(m, a, dyn);
  const T ratio_bar = (dyn == kFilter ? gain_bar : gain_bar * (P(1) - gain)) / T(tau);
  w.theta_bar->dt[0] += ratio_bar;
  w.theta_bar->actuator_dynprm[a] -=
      select(T(m.theta.actuator_dynprm[a]) == T(tau), ratio_bar * (h / tau), T(0));
}
template <class T, class P>
FB_INLINE T activation_drive(const Model<T, P>& m, int a, T ctrl, T act) {
  if (m.s.act_dyn[a] != kMuscleActivation) return m.s.act_dyn[a] == kIntegrator ? ctrl : ctrl - act;
  const P* prm = m.theta.muscle_dynprm + 3 * m.s.act_muscle[a];
  const T own[3] = {T(prm[0]), T(prm[1]), T(prm[2])};
  return muscle_rate(own, ctrl, act).rate;
}
// given drive_bar, add to act_bar and to that of the control
template <class T, class P>
FB_INLINE void activation_drive_adjoint(const Model<T, P>& m, int a, const T* u, T act, T drive_bar,
                                        const ActuationBars<T>& bars, Work<T>& w) {
  const T ctrl = control(m, a, u);
  if (m.s.act_dyn[a] == kMuscleActivation) {
    const int k = 3 * m.s.act_muscle[a];
    const P* prm = m.theta.muscle_dynprm + k;
    const T own[3] = {T(prm[0]), T(prm[1]), T(prm[2])};
    T ctrl_bar = T(0);
    muscle_rate_adjoint(own, ctrl, act, drive_bar, ctrl_bar, bars.act[m.s.act_adr[a]],
                        w.theta_bar ? w.theta_bar->muscle_dynprm + k : nullptr);
    return control_adjoint(m, a, u, ctrl, ctrl_bar, bars, w);
  }
  if (m.s.act_dyn[a] != kIntegrator) bars.act[m.s.act_adr[a]] -= drive_bar;
  control_adjoint(m, a, u, ctrl, drive_bar, bars, w);
}
// from act by y.drive
template <class T, class P>
FB_INLINE void drive_activation(const Model<T, P>& m, int a, T act, Activation<T>& y) {
  const int dyn = m.s.act_dyn[a];
  const P* range = m.theta.actuator_actrange + 2 * a;
  y.raw = dyn == kHeldActivation ? act : act + y.drive * activation_gain(m, a, dyn);
  y.next = m.s.act_limited[a] ? clamp(y.raw, T(range[0]), T(range[1])) : y.raw;
}
template <class T, class P>
FB_INLINE Activation<T> next_activation(const Model<T, P>& m, int a, const StepPoint<T>& x) {
  const T act = x.act[m.s.act_adr[a]];
  Activation<T> y;
  y.ctrl = control(m, a, x.u);
  y.drive = activation_drive(m, a, y.ctrl, act);
  drive_activation(m, a, act, y);
  return y;
}
// given next_bar, return raw_bar; nothing passes a limit but to the limit
template <class T>
FB_INLINE T activation_limit_adjoint(int a, const Activation<T>& y, T next_bar, Work<T>& w) {
  const T zero = T(0);
  if (w.theta_bar) {
    w.theta_bar->actuator_actrange[2 * a] += select(y.raw < y.next, next_bar, zero);
    w.theta_bar->actuator_actrange[2 * a + 1] += select(y.raw > y.next, next_bar, zero);
  }
  return select(y.raw == y.next, next_bar, zero);
}
// (A.9)  given next_bar, add to act_bar, u_bar and the parameters; nothing passes a limit but to
// the limit
template <class T, class P>
FB_FN void next_activation_adjoint(const Model<T, P>& m, int a, const StepPoint<T>& x, T next_bar,
                                   const ActuationBars<T>& bars, Work<T>& w) {
  const Activation<T> y = next_activation(m, a, x);
  const int dyn = m.s.act_dyn[a];
  const T raw_bar = activation_limit_adjoint(a, y, next_bar, w);
  bars.act[m.s.act_adr[a]] += raw_bar;
  if (dyn == kHeldActivation) return;
  activation_drive_adjoint(m, a, x.u, x.act[m.s.act_adr[a]], raw_bar * activation_gain(m, a, dyn),
                           bars, w);
  if (w.theta_bar) activation_gain_adjoint(m, a, dyn, raw_bar * y.drive, w);
}
// all activations after the step
template <class T, class P>
FB_FN void advance_activation(const Model<T, P>& m, const StepPoint<T>& x, T* act1) {
  for (int a = 0; a < m.s.nu; ++a)
    if (m.s.act_adr[a] >= 0) act1[m.s.act_adr[a]] = next_activation(m, a, x).next;
}
// given their cotangents, add to act_bar, u_bar and the parameters
template <class T, class P>
FB_FN void advance_activation_adjoint(const Model<T, P>& m, const StepPoint<T>& x,
                                      const T* act1_bar, const ActuationBars<T>& bars, Work<T>& w) {
  for (int a = 0; a < m.s.nu; ++a)
    if (m.s.act_adr[a] >= 0) next_activation_adjoint(m, a, x, act1_bar[m.s.act_adr[a]], bars, w);
}

// given the bars of forces, of the implicit damping, of lengths and of moments, which w collects
template <class T, class P>
FB_FN void tendon_forces_adjoint(const Model<T, P>& m, const T* tau_bar, Work<T>& w);
template <class T, class P>
FB_FN void tendon_actuators_adjoint(const Model<T, P>& m, const StepPoint<T>& x, const T* sums,
                                    const ForceBars<T>& in, const ActuationBars<T>& bars,
                                    Work<T>& w);
template <class T, class P>
FB_FN void tendon_kinematics_adjoint(const Model<T, P>& m, const T* q, const T* v,
                                     const ActuationBars<T>& bars, Work<T>& w);

// where an actuator's slope in the speed joins the mass matrix: of the hard law only damping does, and
// a servo that pushes along with the velocity stays explicit
template <class T>
FB_INLINE Mask<T> servo_damps(ServoDamping servos, T dspeed) {
  return servos == kDampingServos ? dspeed < T(0) : Mask<T>(servos == kAllServos);
}

// (A.10)  what an actuator's gain multiplies: its control, its activation, or that after the step
template <class T, class P>
FB_INLINE T actuator_input(const Model<T, P>& m, int a, const StepPoint<T>& x) {
  const int at = m.s.act_adr[a];
  if (at < 0) return control(m, a, x.u);
  return m.s.act_early[a] ? next_activation(m, a, x).next : x.act[at];
}
// given its cotangent, add to act_bar, u_bar and the parameters
template <class T, class P>
FB_INLINE void actuator_input_adjoint(const Model<T, P>& m, int a, const StepPoint<T>& x, T input,
                                      T input_bar, const ActuationBars<T>& bars, Work<T>& w) {
  const int at = m.s.act_adr[a];
  if (at < 0) return control_adjoint(m, a, x.u, input, input_bar, bars, w);
  if (m.s.act_early[a]) return next_activation_adjoint(m, a, x, input_bar, bars, w);
  bars.act[at] += input_bar;
}

// (A.3)  one actuator: force = clamp(gain input + bias), and its slope in the speed
template <class T>
struct ActuatorForce {
  T input, gain, raw, force, dspeed, length, speed;
};
// from the length, the speed and the input that f has
template <class T, class P>
FB_INLINE void actuator_law(const Model<T, P>& m, int a, ActuatorForce<T>& f) {
  const Layout& s = m.s;
  const P *gain = m.theta.actuator_gainprm + 3 * a, *bias = m.theta.actuator_biasprm + 3 * a;
  const P* fr = m.theta.actuator_forcerange + 2 * a;
  f.gain = T(gain[0]);
  f.dspeed = T(0);
  if (s.act_affine_gain[a]) {
    f.gain += f.length * gain[1] + f.speed * gain[2];
    f.dspeed = f.input * gain[2];
  }
  if (s.nmuscle > 0 && s.act_muscle_gain[a]) {
    const MuscleGain<T> g =
        muscle_gain(muscle_numbers(m, s.act_muscle[a], m.theta.muscle_gainprm), f.length, f.speed);
    f.gain = g.gain;
    f.dspeed = f.input * g.slope;
  }
  f.raw = f.gain * f.input;
  if (s.act_affine_bias[a]) {
    f.raw += T(bias[0]) + f.length * bias[1] + f.speed * bias[2];
    f.dspeed += T(bias[2]);
  }
  if (s.nmuscle > 0 && s.act_muscle_bias[a])
    f.raw += muscle_bias(muscle_numbers(m, s.act_muscle[a], m.theta.muscle_biasprm), f.length);
  f.force = s.act_forcelimited[a] ? clamp(f.raw, T(fr[0]), T(fr[1])) : f.raw;
  // a force at its limit does not answer to the speed
  f.dspeed = select(f.raw == f.force, f.dspeed, T(0));
}
template <class T, class P>
FB_INLINE ActuatorForce<T> actuator_force(const Model<T, P>& m, int a, const StepPoint<T>& x) {
  ActuatorForce<T> f;
  transmission(m, a, x.q, x.v, f.length, f.speed);
  f.input = actuator_input(m, a, x);
  actuator_law(m, a, f);
  return f;
}
// (A.5)  given the joint's tau_bar and hD_bar, add to q_bar, v_bar, act_bar, u_bar and the
// actuator's parameters; nothing passes a force at its limit but to that limit
template <class T>
struct ActuatorBars {
  T force, input, length, speed, dspeed;
};
// the part of a muscle's curves, and their numbers
template <class T, class P>
FB_FN void muscle_force_adjoint(const Model<T, P>& m, int a, const ActuatorForce<T>& f,
                                ActuatorBars<T>& b, Work<T>& w) {
  const int k = m.s.act_muscle[a], at = kMuscleNumbers * k;
  Theta<T>* t = w.theta_bar;
  const auto add = [&](const MuscleNumbers<T>& bar, T* prm_bar) {
    for (int i = 0; i < kMuscleNumbers; ++i) prm_bar[at + i] += bar.prm[i];
    for (int i = 0; i < 2; ++i) t->muscle_lengthrange[2 * k + i] += bar.range[i];
    t->muscle_acc0[k] += bar.acc0;
  };
  if (m.s.act_muscle_gain[a]) {
    const MuscleNumbers<T> n = muscle_numbers(m, k, m.theta.muscle_gainprm);
    MuscleNumbers<T> bar = no_muscle<T>();
    const MuscleGain<T> g = muscle_gain(n, f.length, f.speed);
    const MuscleGain<T> g_bar{b.force * f.input, b.dspeed * f.input};
    muscle_gain_adjoint(n, f.length, f.speed, g_bar, b.length, b.speed, t ? &bar : nullptr);
    b.input += b.dspeed * g.slope;
    if (t) add(bar, t->muscle_gainprm);
  }
  if (m.s.act_muscle_bias[a]) {
    const MuscleNumbers<T> n = muscle_numbers(m, k, m.theta.muscle_biasprm);
    MuscleNumbers<T> bar = no_muscle<T>();
    muscle_bias_adjoint(n, f.length, b.force, b.length, t ? &bar : nullptr);
    if (t) add(bar, t->muscle_biasprm);
  }
}
template <class T, class P>
FB_INLINE ActuatorBars<T> actuator_force_adjoint(const Model<T, P>& m, int a,
                                                 const ActuatorForce<T>& f, T force_bar,
                                                 T dspeed_bar, Work<T>& w) {
  const Layout& s = m.s;
  const P *gain = m.theta.actuator_gainprm + 3 * a, *bias = m.theta.actuator_biasprm + 3 * a;
  const Mask<T> moves = f.raw == f.force;
  const T zero = T(0);
  ActuatorBars<T> b{select(moves, force_bar, zero), zero, zero, zero,
                    select(moves, dspeed_bar, zero)};
  b.input = b.force * f.gain;
  if (s.act_affine_gain[a]) {
    b.length += b.force * f.input * gain[1];
    b.speed += b.force * f.input * gain[2];
    b.input += b.dspeed * gain[2];
  }
  if (s.act_affine_bias[a]) {
    b.length += b.force * bias[1];
    b.speed += b.force * bias[2];
  }
  if (s.nmuscle > 0 && s.act_muscle[a] >= 0) muscle_force_adjoint(m, a, f, b, w);
  if (!w.theta_bar) return b;
  Theta<T>& t = *w.theta_bar;
  T *g = t.actuator_gainprm + 3 * a, *c = t.actuator_biasprm + 3 * a;
  if (!s.act_muscle_gain[a]) g[0] += b.force * f.input;
  if (s.act_affine_gain[a]) {
    g[1] += b.force * f.input * f.length;
    g[2] += b.force * f.input * f.speed + b.dspeed * f.input;
  }
  if (s.act_affine_bias[a]) {
    c[0] += b.force;
    c[1] += b.force * f.length;
    c[2] += b.force * f.speed + b.dspeed;
  }
  t.actuator_forcerange[2 * a] += select(f.raw < f.force, force_bar, zero);
  t.actuator_forcerange[2 * a + 1] += select(f.raw > f.force, force_bar, zero);
  return b;
}
// visit(a, dof, n) the actuators on joints with n > 1 dofs: their moments are their gears
template <class F>
FB_INLINE void for_geared(const Layout& s, F&& visit) {
  for (int a = 0; a < s.nu; ++a) {
    const int j = s.act_jnt[a], n = j < 0 ? 1 : joint_dofs(s.jnt_type[j]);
    if (n > 1) visit(a, s.jnt_dofadr[j], n);
  }
}
// (A.13)  -mu' dA acc of A = M - h dspeed g g': that of the gears g and of h; return that of dspeed
template <class T, class P>
FB_FN T geared_damping_adjoint(const Model<T, P>& m, int a, int dof, int n, T dspeed, Work<T>& w) {
  const T *mu = w.soft.mu + dof, *acc = w.soft.acc + dof, h = T(m.theta.dt[0]);
  const P* gear = m.theta.actuator_gear + 6 * a;
  T along_mu = T(0), along_acc = T(0);
  for (int i = 0; i < n; ++i) {
    along_mu += mu[i] * gear[i];
    along_acc += acc[i] * gear[i];
  }
  if (w.theta_bar) {
    w.theta_bar->dt[0] += along_mu * along_acc * dspeed;
    T* gear_bar = w.theta_bar->actuator_gear + 6 * a;
    for (int i = 0; i < n; ++i)
      gear_bar[i] += (mu[i] * along_acc + acc[i] * along_mu) * (h * dspeed);
  }
  return along_mu * along_acc * h;
}
// sums: the joints' actuator forces before their limits
template <class T, class P>
FB_FN void actuator_adjoint(const Model<T, P>& m, int a, const StepPoint<T>& x, const T* sums,
                            const ForceBars<T>& in, const ActuationBars<T>& bars, Work<T>& w) {
  const Layout& s = m.s;
  const int j = s.act_jnt[a], da = s.jnt_dofadr[j], n = joint_dofs(s.jnt_type[j]);
  const P* gear = m.theta.actuator_gear + 6 * a;
  const P* jr = m.theta.jnt_actfrcrange + 2 * j;
  const ActuatorForce<T> f = actuator_force(m, a, x);
  // a joint at its force limit passes nothing
  Mask<T> inside(true);
  if (s.jnt_forcelimited[j]) inside = clamp(sums[da], T(jr[0]), T(jr[1])) == sums[da];
  T force_bar = T(0), kv_bar = T(0), dspeed_bar = T(0);
  for (int i = 0; i < n; ++i) force_bar += select(inside, in.tau[da + i], T(0)) * gear[i];
  if (n == 1) {
    // hD = h gear^2 max(-dspeed, 0)
    kv_bar = select(inside & servo_damps(w.servos, f.dspeed), in.hD[da], T(0)) * m.theta.dt[0];
    dspeed_bar = -(kv_bar * (gear[0] * gear[0]));
  } else if (w.servos == kAllServos) {
    dspeed_bar = geared_damping_adjoint(m, a, da, n, f.dspeed, w);
  }
  const ActuatorBars<T> b = actuator_force_adjoint(m, a, f, force_bar, dspeed_bar, w);
  actuator_input_adjoint(m, a, x, f.input, b.input, bars, w);
  for (int i = 0; i < n; ++i) bars.v[da + i] += b.speed * gear[i];
  T* gear_bar = w.theta_bar ? w.theta_bar->actuator_gear + 6 * a : nullptr;
  transmission_adjoint(m, a, x.q, b.length, bars.q, gear_bar);
  if (!gear_bar) return;
  for (int i = 0; i < n; ++i)
    gear_bar[i] += select(inside, in.tau[da + i], T(0)) * f.force + b.speed * x.v[da + i];
  if (n == 1) gear_bar[0] -= kv_bar * f.dspeed * (gear[0] * Real<T>(2));
}

// sums over the actuators of each dof before joint force limits: force and damping
template <class T, class P>
FB_FN void actuator_sums(const Model<T, P>& m, const StepPoint<T>& x, const Work<T>& w, T* sums,
                         T* kv) {
  const Layout& s = m.s;
  for (int d = 0; d < s.nv; ++d) sums[d] = kv[d] = T(0);
  if (s.ngravcomp > 0)
    for_compensated(s, kActuatorCompensation, [&](int, int d) { sums[d] = w.compensation[d]; });
  for (int a = 0; a < s.nu; ++a) {
    const int j = s.act_jnt[a];
    if (j < 0) continue;
    const int da = s.jnt_dofadr[j], n = joint_dofs(s.jnt_type[j]);
    const P* gear = m.theta.actuator_gear + 6 * a;
    const ActuatorForce<T> f = actuator_force(m, a, x);
    for (int i = 0; i < n; ++i) sums[da + i] += f.force * gear[i];
    if (n == 1)
      kv[da] += select(servo_damps(w.servos, f.dspeed), -f.dspeed, T(0)) * (gear[0] * gear[0]);
  }
  if (s.ntendon > 0) add_tendon_actuators(m, x, w, sums);
  if (s.nreach > 0) add_reached_actuators(m, x, w, sums);
}

// (A.6)  tau += the sums within each joint's force limits; hD += h times the damping of those not
// at a limit
template <class T, class P>
FB_FN void actuate(const Model<T, P>& m, const StepPoint<T>& x, Work<T>& w, T* sums, T* kv) {
  const Layout& s = m.s;
  actuator_sums(m, x, w, sums, kv);
  const P h = m.theta.dt[0];
  for (int j = 0; j < s.njnt; ++j) {
    const int da = s.jnt_dofadr[j];
    if (!s.jnt_forcelimited[j]) continue;
    const T raw = sums[da];
    sums[da] = clamp(raw, T(m.theta.jnt_actfrcrange[2 * j]), T(m.theta.jnt_actfrcrange[2 * j + 1]));
    kv[da] = select(raw == sums[da], kv[da], T(0));
  }
  for (int d = 0; d < s.nv; ++d) {
    w.tau[d] += sums[d];
    w.hD[d] += kv[d] * h;
  }
}

// tau(q, v, act, u) and the diagonal that joins M in the step; w.qdd and w.v_free serve as scratch
template <class T, class P>
FB_FN void actuation(const Model<T, P>& m, const StepPoint<T>& x, Work<T>& w) {
  if (m.s.ntendon > 0) tendon_kinematics(m, x.q, x.v, w);
  passive_forces(m, x.q, x.v, w);
  if (m.s.ngravcomp > 0) {
    gravity_compensation(m, w);
    for_compensated(m.s, kPassiveCompensation, [&](int, int d) { w.tau[d] += w.compensation[d]; });
  }
  if (m.s.nfluid > 0) fluid_forces(m, w, w.qdd);
  if (m.s.nu > 0) actuate(m, x, w, w.qdd, w.v_free);
  if (m.s.ntendon > 0) tendon_forces(m, x, w);
}

// (A.7)  a joint's spring
template <class T, class P>
FB_FN void spring_adjoint(const Model<T, P>& m, int j, const T* q, const T* tau_bar, Work<T>& w,
                          T* q_bar) {
  const int qa = m.s.jnt_qadr[j], da = m.s.jnt_dofadr[j];
  const P k = m.theta.jnt_stiffness[j];
  if (!w.theta_bar && all(is_nothing(k))) return;
  const P* ref = m.theta.qpos_spring + qa;
  with_joint(m.s.jnt_type[j], [&](auto joint) {
    T x[joint.nv], x_bar[joint.nv];
    joint.difference(q + qa, ref, x);
    for (int i = 0; i < joint.nv; ++i) {
      x_bar[i] = -(tau_bar[da + i] * k);
      if (w.theta_bar) w.theta_bar->jnt_stiffness[j] -= tau_bar[da + i] * x[i];
    }
    T* ref_bar = w.theta_bar ? w.theta_bar->qpos_spring + qa : nullptr;
    joint.difference_adjoint(ref, x, x_bar, q_bar + da, ref_bar);
  });
}
// a joint whose actuators are held at its limit moves with the limit
template <class T, class P>
FB_INLINE void joint_force_limit_adjoint(const Model<T, P>& m, const T* sums, const T* tau_bar,
                                         Theta<T>& theta_bar) {
  for (int j = 0; j < m.s.njnt; ++j) {
    if (!m.s.jnt_forcelimited[j]) continue;
    const int da = m.s.jnt_dofadr[j];
    const P* jr = m.theta.jnt_actfrcrange + 2 * j;
    theta_bar.jnt_actfrcrange[2 * j] += select(sums[da] < T(jr[0]), tau_bar[da], T(0));
    theta_bar.jnt_actfrcrange[2 * j + 1] += select(sums[da] > T(jr[1]), tau_bar[da], T(0));
  }
}
// the part of all actuators; leaves their sums in w.qdd where a joint has a limit
template <class T, class P>
FB_FN void actuators_adjoint(const Model<T, P>& m, const StepPoint<T>& x, const ForceBars<T>& in,
                             const ActuationBars<T>& bars, Work<T>& w) {
  const Layout& s = m.s;
  // the unlimited sums tell which joints are held at their force limit
  T *sums = w.qdd, *kv = w.dv;
  bool limited = false;
  for (int j = 0; j < s.njnt; ++j) limited = limited || s.jnt_forcelimited[j];
  if (limited) actuator_sums(m, x, w, sums, kv);
  for (int a = 0; a < s.nu; ++a)
    if (s.act_jnt[a] >= 0) actuator_adjoint(m, a, x, sums, in, bars, w);
  if (s.ntendon > 0) tendon_actuators_adjoint(m, x, sums, in, bars, w);
  if (s.nreach > 0) reached_actuators_adjoint(m, x, sums, in, bars, w);
  if (w.theta_bar) joint_force_limit_adjoint(m, sums, in.tau, *w.theta_bar);
}
// that of gravity compensation: nothing passes where it is not applied, or a limit holds it
template <class T, class P>
FB_FN void compensation_adjoint(const Model<T, P>& m, const T* q, const T* sums, const T* tau_bar,
                                Work<T>& w, T* q_bar) {
  T* out_bar = w.unit_rate;
  for (int d = 0; d < m.s.nv; ++d) {
    const int j = m.s.dof_jnt[d];
    const P* jr = m.theta.jnt_actfrcrange + 2 * j;
    const Mask<T> inside = clamp(sums[d], T(jr[0]), T(jr[1])) == sums[d];
    const Mask<T> passive(m.s.jnt_gravcomp[j] == kPassiveCompensation);
    const Mask<T> driven = inside & Mask<T>(m.s.jnt_gravcomp[j] == kActuatorCompensation);
    out_bar[d] = select(passive | driven, tau_bar[d], T(0));
  }
  gravity_compensation_adjoint(m, q, out_bar, w, q_bar);
}
// (A.4)  given tau_bar and hD_bar, add to q_bar (tangent), v_bar, act_bar, u_bar and the parameters
template <class T, class P>
FB_FN void actuation_adjoint(const Model<T, P>& m, const StepPoint<T>& x, const ForceBars<T>& in,
                             const ActuationBars<T>& bars, Work<T>& w) {
  const Layout& s = m.s;
  for (int d = 0; d < s.nv; ++d) {
    bars.v[d] -= in.tau[d] * m.theta.dof_damping[d];
    if (!w.theta_bar) continue;
    // hD = armature + h (damping + that of the servos)
    w.theta_bar->dof_armature[d] += in.hD[d];
    w.theta_bar->dof_damping[d] += in.hD[d] * m.theta.dt[0] - in.tau[d] * x.v[d];
    w.theta_bar->dt[0] += in.hD[d] * (w.hD[d] - T(m.theta.dof_armature[d])) / T(m.theta.dt[0]);
  }
  for (int j = 0; j < s.njnt; ++j) spring_adjoint(m, j, x.q, in.tau, w, bars.q);
  if (s.ntendon > 0) tendon_forces_adjoint(m, in.tau, w);
  if (s.nu > 0) actuators_adjoint(m, x, in, bars, w);
  if (s.ngravcomp > 0) compensation_adjoint(m, x.q, w.qdd, in.tau, w, bars.q);
  if (s.nfluid > 0) fluid_forces_adjoint(m, x.q, x.v, in.tau, w, bars.q, bars.v);
  if (s.ntendon > 0) tendon_kinematics_adjoint(m, x.q, x.v, bars, w);
}

}  // namespace fb::FB_ISA
