// Actuators that reach their dofs through sites: their forces, and what the integrator implicitfast takes
// of them.  Proof: docs/derivations/actuation.md.
#pragma once
#include "core/dynamics/actuation.hpp"
#include "core/dynamics/reach.hpp"

namespace fb::FB_ISA {

// (A.11)  an actuator that reaches its dofs through sites: force and, explicit, its speed
template <class T, class P>
FB_FN ActuatorForce<T> reached_force(const Model<T, P>& m, int a, const StepPoint<T>& x,
                                     const Reach<T>& r, const Work<T>& w) {
  ActuatorForce<T> f;
  f.length = r.length;
  f.speed = T(0);
  for_reached(m.s, r, [&](int k, int d) { f.speed += dot(w.dof[d].S, r.F[k]) * x.v[d]; });
  f.input = actuator_input(m, a, x);
  actuator_law(m, a, f);
  return f;
}
// whether the integrator is implicit in the speed of such an actuator
template <class T>
FB_INLINE bool reach_is_implicit(const Layout& s, const Work<T>& w) {
  return s.nreach > 0 && w.servos == kAllServos;
}
// its moments, in w.moment
template <class T>
FB_FN void reach_moments(const Layout& s, const Reach<T>& r, Work<T>& w) {
  for (int d = 0; d < s.nv; ++d) w.moment[d] = T(0);
  for_reached(s, r, [&](int k, int d) { w.moment[d] += dot(w.dof[d].S, r.F[k]); });
}
// visit(d, e) the dofs e above and below d that have moments, d among them: where M has numbers
template <class T, class F>
FB_INLINE void for_moment_pairs(const Layout& s, const Reach<T>& r, F&& visit) {
  for (int k = 0; k < r.count; ++k)
    for (int d = s.link_lastdof[r.link[k]]; d != r.stop[k]; d = s.dof_parent[d]) {
      // dofs of both paths are visited once
      if (k == 1 && d <= meeting_dof(s, r.link[0], r.link[1])) break;
      for (int e = d; e >= 0 && e != r.stop[k]; e = s.dof_parent[e]) visit(d, e);
    }
}
// (A.12)  -mu' dA acc of A = M - h dspeed m m' where M has numbers: those of the moments in
// w.moment_bar; return that of dspeed
template <class T, class P>
FB_FN T reach_damping_adjoint(const Model<T, P>& m, const Reach<T>& r, T dspeed, Work<T>& w) {
  const T *mu = w.soft.mu, *acc = w.soft.acc, h = T(m.theta.dt[0]);
  T pairs = T(0);
  reach_moments(m.s, r, w);
  const auto add = [&](int d, int e) {
    pairs += w.moment[d] * w.moment[e] * mu[d] * acc[e];
    w.moment_bar[d] += w.moment[e] * mu[d] * acc[e] * (h * dspeed);
    w.moment_bar[e] += w.moment[d] * mu[d] * acc[e] * (h * dspeed);
  };
  for_moment_pairs(m.s, r, [&](int d, int e) {
    add(d, e);
    if (d != e) add(e, d);
  });
  if (w.theta_bar) w.theta_bar->dt[0] += pairs * dspeed;
  return pairs * h;
}
template <class T, class P>
FB_FN void reached_actuator_adjoint(const Model<T, P>& m, int a, const StepPoint<T>& x,
                                    const T* sums, const ForceBars<T>& in,
                                    const ActuationBars<T>& bars, Work<T>& w) {
  const Layout& s = m.s;
  const Reach<T> r = reach(m, a, w);
  const ActuatorForce<T> f = reached_force(m, a, x, r, w);
  T *passed_bar = w.unit_rate, *rates = w.weighted_rate, force_bar = T(0), dspeed_bar = T(0);
  for_reached(s, r, [&](int k, int d) {
    // a joint at its force limit passes nothing
    const int j = s.dof_jnt[d];
    const P* jr = m.theta.jnt_actfrcrange + 2 * j;
    passed_bar[d] = in.tau[d];
    if (s.jnt_forcelimited[j])
      passed_bar[d] = select(clamp(sums[d], T(jr[0]), T(jr[1])) == sums[d], in.tau[d], T(0));
    force_bar += passed_bar[d] * dot(w.dof[d].S, r.F[k]);
    w.moment_bar[d] = T(0);
  });
  if (reach_is_implicit(s, w)) dspeed_bar = reach_damping_adjoint(m, r, f.dspeed, w);
  const ActuatorBars<T> b = actuator_force_adjoint(m, a, f, force_bar, dspeed_bar, w);
  actuator_input_adjoint(m, a, x, f.input, b.input, bars, w);
  reach_moments(s, r, w);
  for (int d = 0; d < s.nv; ++d) bars.v[d] += b.speed * w.moment[d];
  // dofs of both wrenches have one rate
  for_reached(s, r, [&](int, int d) {
    rates[d] = w.moment_bar[d] + f.force * passed_bar[d] + b.speed * x.v[d];
  });
  reach_adjoint(m, a, r, x.q, {rates, b.length}, w, bars.q);
}
// visit the actuators that reach their dofs through sites
template <class F>
FB_INLINE void for_reaching(const Layout& s, F&& visit) {
  for (int a = 0; s.nreach > 0 && a < s.nu; ++a)
    if (s.act_site[a] >= 0) visit(a);
}

// all of them, added to the sums of each dof
template <class T, class P>
FB_FN void add_reached_actuators(const Model<T, P>& m, const StepPoint<T>& x, const Work<T>& w,
                                 T* sums) {
  for_reaching(m.s, [&](int a) {
    const Reach<T> r = reach(m, a, w);
    const ActuatorForce<T> f = reached_force(m, a, x, r, w);
    for_reached(m.s, r, [&](int k, int d) { sums[d] += dot(w.dof[d].S, r.F[k]) * f.force; });
  });
}
// given tau_bar, add to q_bar (tangent), v_bar, act_bar, u_bar and the parameters
template <class T, class P>
FB_FN void reached_actuators_adjoint(const Model<T, P>& m, const StepPoint<T>& x, const T* sums,
                                     const ForceBars<T>& in, const ActuationBars<T>& bars,
                                     Work<T>& w) {
  for_reaching(m.s, [&](int a) { reached_actuator_adjoint(m, a, x, sums, in, bars, w); });
}

}  // namespace fb::FB_ISA
