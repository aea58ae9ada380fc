// Generalised forces of joint springs, damping and actuators, and the damping that the step treats
// implicitly. Proof: docs/derivations/actuation.md.
#pragma once
#include "core/dynamics/kinematics.hpp"

namespace fb::FB_ISA {

// (A.1)  tau = -k (q - q_spring) - d v, on the manifold
// for ball and free joints; hD = armature + h d
template <class T, class P>
FB_FN void passive_forces(const Model<T, P>& m, const T* q, const T* v, Work<T>& w) {
  const Layout& s = m.s;
  const P h = m.theta.dt[0];
  for (int d = 0; d < s.nv; ++d) {
    const P damping = m.theta.dof_damping[d];
    w.tau[d] = -(v[d] * damping);
    w.hD[d] = T(m.theta.dof_armature[d] + h * damping);
  }
  for (int j = 0; j < s.njnt; ++j) {
    const P k = m.theta.jnt_stiffness[j];
    if (all(is_nothing(k))) continue;
    const int qa = s.jnt_qadr[j], da = s.jnt_dofadr[j], type = s.jnt_type[j];
    const P* ref = m.theta.qpos_spring + qa;
    if (type == kHinge || type == kSlide) {
      w.tau[da] -= (q[qa] - T(ref[0])) * k;
      continue;
    }
    const int turn = type == kFree ? 3 : 0;
    for (int i = 0; i < turn; ++i) w.tau[da + i] -= (q[qa + i] - T(ref[i])) * k;
    const T r[4] = {T(ref[turn]), T(ref[turn + 1]), T(ref[turn + 2]), T(ref[turn + 3])};
    const Vec3<T> e = log_quat(mul(conj(normalised(r)), normalised(q + qa + turn)));
    w.tau[da + turn] -= e.x * k;
    w.tau[da + turn + 1] -= e.y * k;
    w.tau[da + turn + 2] -= e.z * k;
  }
}

// (A.2)  length and speed of a joint transmission: gear
// . (q or log q), gear . v; a free joint has length zero
template <class T, class P>
FB_INLINE void transmission(const Model<T, P>& m, int a, const T* q, const T* v, T& length,
                            T& speed) {
  const Layout& s = m.s;
  const int j = s.act_jnt[a], qa = s.jnt_qadr[j], da = s.jnt_dofadr[j], type = s.jnt_type[j];
  const P* gear = m.theta.actuator_gear + 6 * a;
  if (type == kHinge || type == kSlide) {
    length = q[qa] * gear[0];
    speed = v[da] * gear[0];
    return;
  }
  length = T(0);
  speed = T(0);
  if (type == kBall) {
    const Vec3<T> e = log_quat(normalised(q + qa));
    length = e.x * gear[0] + e.y * gear[1] + e.z * gear[2];
  }
  for (int i = 0; i < (type == kBall ? 3 : 6); ++i) speed += v[da + i] * gear[i];
}

// (A.3)  one actuator: force = clamp(gain u + bias), and its slope in the speed
template <class T>
struct ActuatorForce {
  T ctrl, gain, raw, force, dspeed, length, speed;
};
template <class T, class P>
FB_INLINE ActuatorForce<T> actuator_force(const Model<T, P>& m, int a, const T* q, const T* v,
                                          const T* u) {
  const Layout& s = m.s;
  const P *gain = m.theta.actuator_gainprm + 3 * a, *bias = m.theta.actuator_biasprm + 3 * a;
  const P *cr = m.theta.actuator_ctrlrange + 2 * a, *fr = m.theta.actuator_forcerange + 2 * a;
  ActuatorForce<T> f;
  transmission(m, a, q, v, f.length, f.speed);
  f.ctrl = s.act_ctrllimited[a] ? clamp(u[a], T(cr[0]), T(cr[1])) : u[a];
  f.gain = T(gain[0]);
  f.dspeed = T(0);
  if (s.act_affine_gain[a]) {
    f.gain += f.length * gain[1] + f.speed * gain[2];
    f.dspeed = f.ctrl * gain[2];
  }
  f.raw = f.gain * f.ctrl;
  if (s.act_affine_bias[a]) {
    f.raw += T(bias[0]) + f.length * bias[1] + f.speed * bias[2];
    f.dspeed += T(bias[2]);
  }
  f.force = s.act_forcelimited[a] ? clamp(f.raw, T(fr[0]), T(fr[1])) : f.raw;
  // a force at its limit does not answer to the speed
  f.dspeed = select(f.raw == f.force, f.dspeed, T(0));
  return f;
}
// (A.5)  given the joint's tau_bar and hD_bar, add to q_bar, v_bar, u_bar and the actuator's
// parameters; nothing passes a force or control at its limit but to that limit
template <class T>
struct ActuatorBars {
  T force, ctrl, length, speed, dspeed;
};
template <class T, class P>
FB_INLINE ActuatorBars<T> actuator_force_adjoint(const Model<T, P>& m, int a,
                                                 const ActuatorForce<T>& f, const T* u, T force_bar,
                                                 T dspeed_bar, Work<T>& w) {
  const Layout& s = m.s;
  const P *gain = m.theta.actuator_gainprm + 3 * a, *bias = m.theta.actuator_biasprm + 3 * a;
  const Mask<T> moves = f.raw == f.force;
  const T zero = T(0);
  ActuatorBars<T> b{select(moves, force_bar, zero), zero, zero, zero,
                    select(moves, dspeed_bar, zero)};
  b.ctrl = b.force * f.gain;
  if (s.act_affine_gain[a]) {
    b.length += b.force * f.ctrl * gain[1];
    b.speed += b.force * f.ctrl * gain[2];
    b.ctrl += b.dspeed * gain[2];
  }
  if (s.act_affine_bias[a]) {
    b.length += b.force * bias[1];
    b.speed += b.force * bias[2];
  }
  if (!w.theta_bar) return b;
  Theta<T>& t = *w.theta_bar;
  T *g = t.actuator_gainprm + 3 * a, *c = t.actuator_biasprm + 3 * a;
  g[0] += b.force * f.ctrl;
  if (s.act_affine_gain[a]) {
    g[1] += b.force * f.ctrl * f.length;
    g[2] += b.force * f.ctrl * f.speed + b.dspeed * f.ctrl;
  }
  if (s.act_affine_bias[a]) {
    c[0] += b.force;
    c[1] += b.force * f.length;
    c[2] += b.force * f.speed + b.dspeed;
  }
  t.actuator_forcerange[2 * a] += select(f.raw < f.force, force_bar, zero);
  t.actuator_forcerange[2 * a + 1] += select(f.raw > f.force, force_bar, zero);
  t.actuator_ctrlrange[2 * a] += select(f.ctrl > u[a], b.ctrl, zero);
  t.actuator_ctrlrange[2 * a + 1] += select(f.ctrl < u[a], b.ctrl, zero);
  return b;
}
template <class T, class P>
FB_FN void actuator_adjoint(const Model<T, P>& m, int a, const T* q, const T* v, const T* u,
                            const T* act, const T* tau_bar, const T* hD_bar, Work<T>& w, T* q_bar,
                            T* v_bar, T* u_bar) {
  const Layout& s = m.s;
  const int j = s.act_jnt[a], qa = s.jnt_qadr[j], da = s.jnt_dofadr[j], type = s.jnt_type[j];
  const P* gear = m.theta.actuator_gear + 6 * a;
  const P* jr = m.theta.jnt_actfrcrange + 2 * j;
  const ActuatorForce<T> f = actuator_force(m, a, q, v, u);
  const int n = type == kFree ? 6 : type == kBall ? 3 : 1;
  // a joint at its force limit passes nothing
  Mask<T> inside(true);
  if (s.jnt_forcelimited[j]) inside = clamp(act[da], T(jr[0]), T(jr[1])) == act[da];
  T force_bar = T(0), kv_bar = T(0);
  for (int i = 0; i < n; ++i) force_bar += select(inside, tau_bar[da + i], T(0)) * gear[i];
  // hD = h gear^2 max(-dspeed, 0)
  if (n == 1) kv_bar = select(inside & (f.dspeed < T(0)), hD_bar[da], T(0)) * m.theta.dt[0];
  const ActuatorBars<T> b =
      actuator_force_adjoint(m, a, f, u, force_bar, -(kv_bar * (gear[0] * gear[0])), w);
  u_bar[a] += s.act_ctrllimited[a] ? select(f.ctrl == u[a], b.ctrl, T(0)) : b.ctrl;
  for (int i = 0; i < n; ++i) v_bar[da + i] += b.speed * gear[i];
  Vec3<T> e = zero3<T>();
  if (type == kBall) {
    e = log_quat(normalised(q + qa));
    const Vec3<T> g{T(gear[0]), T(gear[1]), T(gear[2])};
    add3(log_adjoint(e, g * b.length, -1), q_bar + da);
  } else if (n == 1) {
    e.x = q[qa];
    q_bar[da] += b.length * gear[0];
  }
  if (!w.theta_bar) return;
  T* gear_bar = w.theta_bar->actuator_gear + 6 * a;
  const T length[3] = {e.x, e.y, e.z};
  for (int i = 0; i < n; ++i) {
    gear_bar[i] += select(inside, tau_bar[da + i], T(0)) * f.force + b.speed * v[da + i];
    if (i < 3) gear_bar[i] += b.length * length[i];
  }
  if (n == 1) gear_bar[0] -= kv_bar * f.dspeed * (gear[0] * Real<T>(2));
}

// sums over the actuators of each dof before joint force limits: force and damping
template <class T, class P>
FB_FN void actuator_sums(const Model<T, P>& m, const T* q, const T* v, const T* u, T* act, T* kv) {
  const Layout& s = m.s;
  for (int d = 0; d < s.nv; ++d) act[d] = kv[d] = T(0);
  for (int a = 0; a < s.nu; ++a) {
    const int j = s.act_jnt[a];
    if (j < 0) continue;
    const int da = s.jnt_dofadr[j], type = s.jnt_type[j];
    const P* gear = m.theta.actuator_gear + 6 * a;
    const ActuatorForce<T> f = actuator_force(m, a, q, v, u);
    const int n = type == kFree ? 6 : type == kBall ? 3 : 1;
    for (int i = 0; i < n; ++i) act[da + i] += f.force * gear[i];
    // only damping is implicit: a servo that pushes along with the velocity stays explicit
    if (n == 1) kv[da] += max(-f.dspeed, T(0)) * (gear[0] * gear[0]);
  }
}

// (A.6)  tau += the sums within each joint's force limits; hD += h times the damping of those not
// at a limit
template <class T, class P>
FB_FN void actuate(const Model<T, P>& m, const T* q, const T* v, const T* u, Work<T>& w, T* act,
                   T* kv) {
  const Layout& s = m.s;
  actuator_sums(m, q, v, u, act, kv);
  const P h = m.theta.dt[0];
  for (int j = 0; j < s.njnt; ++j) {
    const int da = s.jnt_dofadr[j];
    if (!s.jnt_forcelimited[j]) continue;
    const T raw = act[da];
    act[da] = clamp(raw, T(m.theta.jnt_actfrcrange[2 * j]), T(m.theta.jnt_actfrcrange[2 * j + 1]));
    kv[da] = select(raw == act[da], kv[da], T(0));
  }
  for (int d = 0; d < s.nv; ++d) {
    w.tau[d] += act[d];
    w.hD[d] += kv[d] * h;
  }
}

// tau(q, v, u) and the diagonal that joins M in the step; w.qdd and w.vs serve as scratch
template <class T, class P>
FB_FN void actuation(const Model<T, P>& m, const T* q, const T* v, const T* u, Work<T>& w) {
  passive_forces(m, q, v, w);
  if (m.s.nu > 0) actuate(m, q, v, u, w, w.qdd, w.v_free);
}

// (A.7)  a joint's spring: tau = -k (q - ref), or -k log(ref^-1 q) on rotations
template <class T, class P>
FB_FN void spring_adjoint(const Model<T, P>& m, int j, const T* q, const T* tau_bar, Work<T>& w,
                          T* q_bar) {
  const int qa = m.s.jnt_qadr[j], da = m.s.jnt_dofadr[j], type = m.s.jnt_type[j];
  const P k = m.theta.jnt_stiffness[j];
  if (!w.theta_bar && all(is_nothing(k))) return;
  const P* ref = m.theta.qpos_spring + qa;
  const int flat = type == kFree ? 3 : type == kBall ? 0 : 1;
  for (int i = 0; i < flat; ++i) {
    q_bar[da + i] -= tau_bar[da + i] * k;
    if (!w.theta_bar) continue;
    w.theta_bar->jnt_stiffness[j] -= tau_bar[da + i] * (q[qa + i] - T(ref[i]));
    w.theta_bar->qpos_spring[qa + i] += tau_bar[da + i] * k;
  }
  if (type >= kSlide) return;
  const T r[4] = {T(ref[flat]), T(ref[flat + 1]), T(ref[flat + 2]), T(ref[flat + 3])};
  const Vec3<T> e = log_quat(mul(conj(normalised(r)), normalised(q + qa + flat)));
  const Vec3<T> t_bar = lift3<T>(tau_bar + da + flat);
  add3(-log_adjoint(e, t_bar * k, -1), q_bar + da + flat);
  if (!w.theta_bar) return;
  w.theta_bar->jnt_stiffness[j] -= dot(e, t_bar);
  // a turn of the reference acts from the left, the other way
  add_quat_bar(ref + flat, log_adjoint(e, t_bar * k, 1), w.theta_bar->qpos_spring + qa + flat);
}
// a joint whose actuators are held at its limit moves with the limit
template <class T, class P>
FB_INLINE void joint_force_limit_adjoint(const Model<T, P>& m, const T* act, const T* tau_bar,
                                         Theta<T>& theta_bar) {
  for (int j = 0; j < m.s.njnt; ++j) {
    if (!m.s.jnt_forcelimited[j]) continue;
    const int da = m.s.jnt_dofadr[j];
    const P* jr = m.theta.jnt_actfrcrange + 2 * j;
    theta_bar.jnt_actfrcrange[2 * j] += select(act[da] < T(jr[0]), tau_bar[da], T(0));
    theta_bar.jnt_actfrcrange[2 * j + 1] += select(act[da] > T(jr[1]), tau_bar[da], T(0));
  }
}
// (A.4)  given tau_bar and hD_bar, add to q_bar (tangent), v_bar, u_bar and the parameters
template <class T, class P>
FB_FN void actuation_adjoint(const Model<T, P>& m, const T* q, const T* v, const T* u,
                             const T* tau_bar, const T* hD_bar, Work<T>& w, T* q_bar, T* v_bar,
                             T* u_bar) {
  const Layout& s = m.s;
  for (int d = 0; d < s.nv; ++d) {
    v_bar[d] -= tau_bar[d] * m.theta.dof_damping[d];
    if (!w.theta_bar) continue;
    // hD = armature + h (damping + that of the servos)
    w.theta_bar->dof_armature[d] += hD_bar[d];
    w.theta_bar->dof_damping[d] += hD_bar[d] * m.theta.dt[0] - tau_bar[d] * v[d];
    w.theta_bar->dt[0] += hD_bar[d] * (w.hD[d] - T(m.theta.dof_armature[d])) / T(m.theta.dt[0]);
  }
  for (int j = 0; j < s.njnt; ++j) spring_adjoint(m, j, q, tau_bar, w, q_bar);
  if (s.nu == 0) return;
  // the unlimited sums tell which joints are held at their force limit
  T *act = w.qdd, *kv = w.dv;
  bool limited = false;
  for (int j = 0; j < s.njnt; ++j) limited = limited || s.jnt_forcelimited[j];
  if (limited) actuator_sums(m, q, v, u, act, kv);
  for (int a = 0; a < s.nu; ++a) {
    const int j = s.act_jnt[a];
    if (j < 0) continue;
    actuator_adjoint(m, a, q, v, u, act, tau_bar, hD_bar, w, q_bar, v_bar, u_bar);
  }
  if (w.theta_bar) joint_force_limit_adjoint(m, act, tau_bar, *w.theta_bar);
}

}  // namespace fb::FB_ISA
