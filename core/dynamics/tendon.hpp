// Tendons: lengths and their moments, the forces of springs, dampers and actuators on them, and the
// damping that the step treats implicitly.  Proof: docs/derivations/tendon.md.
#pragma once
#include "core/dynamics/actuation.hpp"
#include "core/dynamics/dynamics.hpp"

namespace fb::FB_ISA {

// visit(k, d): entry k of the moments and its dof, for every dof that a tendon moves with; descending
template <class F>
FB_INLINE void for_tendon_dofs(const Layout& s, int t, F&& visit) {
  const int first = s.tendon_dofadr[t];
  for (int k = first; k < first + s.tendon_dofnum[t]; ++k) visit(k, s.tendon_dof[k]);
}

// (E.1)  a fixed tendon: length = sum coef q, J = coef
template <class T, class P>
FB_FN void fixed_tendon(const Model<T, P>& m, int t, const T* q, TendonWork<T>& y) {
  const Layout& s = m.s;
  for (int i = s.tendon_adr[t]; i < s.tendon_adr[t] + s.tendon_num[t]; ++i) {
    y.length[t] = mul_add(q[s.jnt_qadr[s.wrap_obj[i]]], T(m.theta.wrap_prm[i]), y.length[t]);
    y.J[s.wrap_at[i]] += T(m.theta.wrap_prm[i]);
  }
}
// given length_bar and J_bar, add to those of q, tangent, and of the coefficients
template <class T, class P>
FB_FN void fixed_tendon_adjoint(const Model<T, P>& m, int t, const T* q, T* q_bar, Work<T>& w) {
  const Layout& s = m.s;
  const TendonWork<T>& y = w.tendon;
  for (int i = s.tendon_adr[t]; i < s.tendon_adr[t] + s.tendon_num[t]; ++i) {
    q_bar[s.tendon_dof[s.wrap_at[i]]] += y.length_bar[t] * m.theta.wrap_prm[i];
    if (w.theta_bar)
      w.theta_bar->wrap_prm[i] +=
          y.J_bar[s.wrap_at[i]] + y.length_bar[t] * q[s.jnt_qadr[s.wrap_obj[i]]];
  }
}

// a straight part of a spatial tendon, from site a to site b, seen from their trees' origins
template <class T>
struct TendonPart {
  int linkA, linkB;
  Vec3<T> pa, pb, n;
  T length, inverse;  // inverse: 1 / length
};
template <class T, class P>
FB_FN TendonPart<T> tendon_part(const Model<T, P>& m, int siteA, int siteB, const Work<T>& w) {
  const Layout& s = m.s;
  TendonPart<T> x;
  x.linkA = s.site_link[siteA];
  x.linkB = s.site_link[siteB];
  const LinkWork<T>&A = w.link[x.linkA], &B = w.link[x.linkB];
  x.pa = A.r + mul(A.R, lift3<P>(m.derived.site_p + 3 * siteA));
  x.pb = B.r + mul(B.R, lift3<P>(m.derived.site_p + 3 * siteB));
  const Vec3<T> e = (x.pb - x.pa) + (origin_of(s, w, x.linkB) - origin_of(s, w, x.linkA));
  // points that coincide have no direction, and pull nowhere
  const T square = dot(e, e);
  const Mask<T> apart = square > T(Real<T>(1e-30));
  x.length = select(apart, sqrt(select(apart, square, T(1))), T(0));
  x.inverse = select(apart, T(1) / select(apart, x.length, T(1)), T(0));
  x.n = e * x.inverse;
  return x;
}
// visit(i, divisor, part): the straight parts of a spatial tendon from site i of its path to the next,
// and the entry of the parameters that divides them, -1 for none
template <class T, class P, class F>
FB_INLINE void for_tendon_parts(const Model<T, P>& m, int t, const Work<T>& w, F&& visit) {
  const Layout& s = m.s;
  int divisor = -1;
  for (int i = s.tendon_adr[t]; i + 1 < s.tendon_adr[t] + s.tendon_num[t]; ++i) {
    if (s.wrap_type[i] == kWrapPulley) divisor = i;
    if (s.wrap_type[i] == kWrapPulley || s.wrap_type[i + 1] == kWrapPulley) continue;
    visit(i, divisor, tendon_part(m, s.wrap_obj[i], s.wrap_obj[i + 1], w));
  }
}
// J += S . F over the dofs that move a link
template <class T>
FB_INLINE void add_tendon_wrench(const Layout& s, int t, int link, const Force<T>& F, Work<T>& w) {
  int k = s.tendon_dofadr[t];
  for (int d = s.link_lastdof[link]; d >= 0; d = s.dof_parent[d]) {
    while (s.tendon_dof[k] != d) ++k;
    w.tendon.J[k] += dot(w.dof[d].S, F);
  }
}
// (E.14)  a spatial tendon: length = sum |p_b - p_a| / divisor, J = n . (J_b - J_a) / divisor
template <class T, class P>
FB_FN void spatial_tendon(const Model<T, P>& m, int t, Work<T>& w) {
  for_tendon_parts(m, t, w, [&](int, int divisor, const TendonPart<T>& x) {
    const T share = divisor < 0 ? T(1) : T(1) / T(m.theta.wrap_prm[divisor]);
    w.tendon.length[t] = mul_add(x.length, share, w.tendon.length[t]);
    if (x.linkA == x.linkB) return;
    const Vec3<T> f = x.n * share;
    add_tendon_wrench(m.s, t, x.linkB, Force<T>{cross(x.pb, f), f}, w);
    add_tendon_wrench(m.s, t, x.linkA, -Force<T>{cross(x.pa, f), f}, w);
  });
}
// what a cotangent of a point of a link gives to its pose and to a site there
template <class T>
FB_INLINE void add_site_bar(int link, int site, Vec3<T> p, Vec3<T> p_bar, Work<T>& w) {
  w.bar[link].pose += Force<T>{cross(p, p_bar), p_bar};
  if (w.derived_bar) add3(mul_transposed(w.link[link].R, p_bar), w.derived_bar->site_p + 3 * site);
}
// (E.15)  given length_bar and J_bar, add to those of q, tangent, of sites, links and divisors: with
// J_bar as rates of the dofs, and V the twists of links by them, J_bar . J = n . (V_b - V_a)
template <class T, class P>
FB_FN void spatial_tendon_adjoint(const Model<T, P>& m, int t, const T* q, T* q_bar, Work<T>& w) {
  const Layout& s = m.s;
  TendonWork<T>& y = w.tendon;
  T *rate = w.weighted_rate, *zero = w.unit_rate;
  for (int d = 0; d < s.nv; ++d) rate[d] = zero[d] = T(0);
  for_tendon_dofs(s, t, [&](int k, int d) { rate[d] = y.J_bar[k]; });
  link_twists(s, w, rate, w.twist);
  for (int l = 0; l < s.nlink; ++l)
    w.bar[l].w_bar = w.bar[l].a_bar = w.bar[l].pose = zero_force<T>();
  for_tendon_parts(m, t, w, [&](int i, int divisor, const TendonPart<T>& x) {
    const Motion<T>&VA = w.twist[x.linkA], &VB = w.twist[x.linkB];
    const T share = divisor < 0 ? T(1) : T(1) / T(m.theta.wrap_prm[divisor]);
    const Vec3<T> f = x.n * share;
    const Vec3<T> rel = (VB.lin + cross(VB.ang, x.pb)) - (VA.lin + cross(VA.ang, x.pa));
    const Vec3<T> across = (rel - x.n * dot(x.n, rel)) * (x.inverse * share);
    const Vec3<T> e_bar = across + f * y.length_bar[t];
    add_site_bar(x.linkB, s.wrap_obj[i + 1], x.pb, e_bar + cross(f, VB.ang), w);
    add_site_bar(x.linkA, s.wrap_obj[i], x.pa, -e_bar - cross(f, VA.ang), w);
    w.bar[x.linkB].w_bar += Force<T>{cross(x.pb, f), f};
    w.bar[x.linkA].w_bar -= Force<T>{cross(x.pa, f), f};
    if (w.theta_bar && divisor >= 0)
      w.theta_bar->wrap_prm[divisor] -=
          (dot(x.n, rel) + y.length_bar[t] * x.length) * (share * share);
  });
  still_tree_adjoint(m, zero, rate, q, w, q_bar);
}

FB_INLINE bool is_spatial(const Layout& s, int t) {
  return s.tendon_num[t] > 0 && s.wrap_type[s.tendon_adr[t]] != kWrapJoint;
}
// lengths, moments and speeds, from the kinematics in w; sets all cotangents to zero
template <class T, class P>
FB_FN void tendon_kinematics(const Model<T, P>& m, const T* q, const T* v, Work<T>& w) {
  const Layout& s = m.s;
  TendonWork<T>& y = w.tendon;
  for (int k = 0; k < s.ntendof; ++k) y.J[k] = y.J_bar[k] = T(0);
  for (int t = 0; t < s.ntendon; ++t) {
    y.length[t] = y.speed[t] = T(0);
    y.length_bar[t] = y.speed_bar[t] = y.damping_bar[t] = T(0);
    if (is_spatial(s, t))
      spatial_tendon(m, t, w);
    else
      fixed_tendon(m, t, q, y);
    for_tendon_dofs(s, t, [&](int k, int d) { y.speed[t] = mul_add(y.J[k], v[d], y.speed[t]); });
  }
}
// (E.2)  given the cotangents that w has collected, add to those of (q, v), q tangent, and of the
// parameters; leaves them at zero
template <class T, class P>
FB_FN void tendon_kinematics_adjoint(const Model<T, P>& m, const T* q, const T* v,
                                     const ActuationBars<T>& bars, Work<T>& w) {
  const Layout& s = m.s;
  TendonWork<T>& y = w.tendon;
  for (int t = 0; t < s.ntendon; ++t) {
    for_tendon_dofs(s, t, [&](int k, int d) {
      bars.v[d] += y.J[k] * y.speed_bar[t];
      y.J_bar[k] += v[d] * y.speed_bar[t];
    });
    if (is_spatial(s, t))
      spatial_tendon_adjoint(m, t, q, bars.q, w);
    else
      fixed_tendon_adjoint(m, t, q, bars.q, w);
    y.length_bar[t] = y.speed_bar[t] = y.damping_bar[t] = T(0);
  }
  for (int k = 0; k < s.ntendof; ++k) y.J_bar[k] = T(0);
}

// whether the damping of a tendon is a row's, as in the hard law, so that its explicit force is taken
// back; and whether it is implicit in any way
FB_INLINE bool has_damping_row(const Layout& s, int t, ServoDamping servos) {
  return servos == kDampingServos && s.tendon_rows[t] > 0;
}
FB_INLINE bool damps_implicitly(const Layout& s, int t, ServoDamping servos) {
  return servos == kAllServos || has_damping_row(s, t, servos);
}

// (E.3)  spring and damper: how far the length is out of the spring's range, and the force
template <class T>
struct TendonForce {
  T stretch, force;
  Mask<T> over, under;
};
template <class T, class P>
FB_INLINE TendonForce<T> tendon_force(const Model<T, P>& m, int t, const Work<T>& w) {
  const P* range = m.theta.tendon_lengthspring + 2 * t;
  const T length = w.tendon.length[t], speed = w.tendon.speed[t];
  TendonForce<T> f;
  f.over = length >= T(range[1]);
  f.under = (length <= T(range[0])) & !f.over;
  f.stretch = select(f.over, length - T(range[1]), select(f.under, length - T(range[0]), T(0)));
  f.force = -(f.stretch * m.theta.tendon_stiffness[t]) - speed * m.theta.tendon_damping[t];
  if (has_damping_row(m.s, t, w.servos)) f.force += speed * w.tendon.damping[t];
  return f;
}

// (E.4)  the force of an actuator on a tendon
template <class T, class P>
FB_INLINE ActuatorForce<T> tendon_actuator_force(const Model<T, P>& m, int a, const StepPoint<T>& x,
                                                 const Work<T>& w) {
  const int t = m.s.act_tendon[a];
  const P gear = m.theta.actuator_gear[6 * a];
  ActuatorForce<T> f;
  f.length = w.tendon.length[t] * gear;
  f.speed = w.tendon.speed[t] * gear;
  f.input = actuator_input(m, a, x);
  actuator_law(m, a, f);
  return f;
}
// sums over the actuators of each dof: those on tendons
template <class T, class P>
FB_FN void add_tendon_actuators(const Model<T, P>& m, const StepPoint<T>& x, const Work<T>& w,
                                T* sums) {
  const Layout& s = m.s;
  for (int a = 0; a < s.nu; ++a) {
    if (s.act_tendon[a] < 0) continue;
    const T force = tendon_actuator_force(m, a, x, w).force * m.theta.actuator_gear[6 * a];
    for_tendon_dofs(s, s.act_tendon[a],
                    [&](int k, int d) { sums[d] = mul_add(w.tendon.J[k], force, sums[d]); });
  }
}
// (E.5)  tau += J' force of springs and dampers; and the implicit damping, that of servos with it
template <class T, class P>
FB_FN void tendon_forces(const Model<T, P>& m, const StepPoint<T>& x, Work<T>& w) {
  const Layout& s = m.s;
  for (int t = 0; t < s.ntendon; ++t)
    w.tendon.damping[t] = damps_implicitly(s, t, w.servos) ? T(m.theta.tendon_damping[t]) : T(0);
  for (int a = 0; a < s.nu; ++a) {
    if (s.act_tendon[a] < 0 || !damps_implicitly(s, s.act_tendon[a], w.servos)) continue;
    const P gear = m.theta.actuator_gear[6 * a];
    const T dspeed = tendon_actuator_force(m, a, x, w).dspeed;
    w.tendon.damping[s.act_tendon[a]] +=
        select(servo_damps(w.servos, dspeed), -dspeed, T(0)) * (gear * gear);
  }
  for (int t = 0; t < s.ntendon; ++t) {
    const T force = tendon_force(m, t, w).force;
    for_tendon_dofs(s, t,
                    [&](int k, int d) { w.tau[d] = mul_add(w.tendon.J[k], force, w.tau[d]); });
  }
}

// (E.6)  given tau_bar, add to the cotangents of lengths, speeds, moments and implicit damping
template <class T, class P>
FB_FN void tendon_forces_adjoint(const Model<T, P>& m, const T* tau_bar, Work<T>& w) {
  const Layout& s = m.s;
  TendonWork<T>& y = w.tendon;
  const T zero = T(0);
  for (int t = 0; t < s.ntendon; ++t) {
    const TendonForce<T> f = tendon_force(m, t, w);
    T force_bar = zero;
    for_tendon_dofs(s, t, [&](int k, int d) {
      force_bar = mul_add(y.J[k], tau_bar[d], force_bar);
      y.J_bar[k] += tau_bar[d] * f.force;
    });
    const T stretch_bar = -(force_bar * m.theta.tendon_stiffness[t]);
    y.length_bar[t] += select(f.over | f.under, stretch_bar, zero);
    y.speed_bar[t] -= force_bar * m.theta.tendon_damping[t];
    if (has_damping_row(m.s, t, w.servos)) {
      y.speed_bar[t] += force_bar * y.damping[t];
      y.damping_bar[t] += force_bar * y.speed[t];
    }
    if (!w.theta_bar) continue;
    w.theta_bar->tendon_stiffness[t] -= force_bar * f.stretch;
    w.theta_bar->tendon_lengthspring[2 * t] -= select(f.under, stretch_bar, zero);
    w.theta_bar->tendon_lengthspring[2 * t + 1] -= select(f.over, stretch_bar, zero);
    w.theta_bar->tendon_damping[t] -= force_bar * y.speed[t];
    if (damps_implicitly(s, t, w.servos)) w.theta_bar->tendon_damping[t] += y.damping_bar[t];
  }
}
// a joint at its force limit passes nothing; sums: before the limits
template <class T, class P>
FB_INLINE T passed_bar(const Model<T, P>& m, int d, const T* sums, const T* tau_bar) {
  const int j = m.s.dof_jnt[d];
  if (!m.s.jnt_forcelimited[j]) return tau_bar[d];
  const P* range = m.theta.jnt_actfrcrange + 2 * j;
  return select(clamp(sums[d], T(range[0]), T(range[1])) == sums[d], tau_bar[d], T(0));
}
// (E.7)  given tau_bar and the cotangents of implicit damping, the part of actuators on tendons
template <class T, class P>
FB_FN void tendon_actuators_adjoint(const Model<T, P>& m, const StepPoint<T>& x, const T* sums,
                                    const ForceBars<T>& in, const ActuationBars<T>& bars,
                                    Work<T>& w) {
  const Layout& s = m.s;
  TendonWork<T>& y = w.tendon;
  for (int a = 0; a < s.nu; ++a) {
    const int t = s.act_tendon[a];
    if (t < 0) continue;
    const P gear = m.theta.actuator_gear[6 * a];
    const ActuatorForce<T> f = tendon_actuator_force(m, a, x, w);
    T moment_bar = T(0);
    for_tendon_dofs(s, t, [&](int k, int d) {
      const T tau_bar = passed_bar(m, d, sums, in.tau);
      moment_bar = mul_add(y.J[k], tau_bar, moment_bar);
      y.J_bar[k] += tau_bar * f.force * gear;
    });
    // damping = sum gear^2 max(-dspeed, 0)
    const Mask<T> damps =
        servo_damps(w.servos, f.dspeed) & Mask<T>(damps_implicitly(s, t, w.servos));
    const T kv_bar = select(damps, y.damping_bar[t], T(0));
    const ActuatorBars<T> b =
        actuator_force_adjoint(m, a, f, moment_bar * gear, -(kv_bar * (gear * gear)), w);
    actuator_input_adjoint(m, a, x, f.input, b.input, bars, w);
    y.length_bar[t] += b.length * gear;
    y.speed_bar[t] += b.speed * gear;
    if (w.theta_bar)
      w.theta_bar->actuator_gear[6 * a] += moment_bar * f.force + b.length * y.length[t] +
                                           b.speed * y.speed[t] -
                                           kv_bar * f.dspeed * (gear * Real<T>(2));
  }
}
// what w has collected goes to a row of a Jacobian, over (q, v, act, u); tau_bar with it
template <class T, class P>
FB_FN void tendon_columns(const Model<T, P>& m, const StepPoint<T>& x, const T* sums,
                          const T* tau_bar, T* row, Work<T>& w) {
  const int nv = m.s.nv;
  const ActuationBars<T> bars{row, row + nv, row + 2 * nv, row + 2 * nv + m.s.na};
  tendon_actuators_adjoint<T, P>(m, x, sums, {tau_bar, tau_bar}, bars, w);
  tendon_kinematics_adjoint(m, x.q, x.v, bars, w);
}

}  // namespace fb::FB_ISA
