// Where a step stands exactly on the border between two modes, so that its derivative is a choice:
// how many such places there are.  Read after a step; changes nothing.
#pragma once
#include "core/step.hpp"

namespace fb::FB_ISA {

// an activation after the step that was just run in w, before its limits
template <class T, class P>
FB_FN T raw_activation(const Model<T, P>& m, const Options<Real<T>>& o, int a,
                       const StepPoint<T>& x, const Work<T>& w) {
  if (m.s.soft && o.integrator == kRungeKutta)
    return stage_activation(m, a, kSoftStages, x.act[m.s.act_adr[a]], w.soft).raw;
  return next_activation(m, a, x).raw;
}
// whether an actuator acts on anything
FB_INLINE bool acts(const Layout& s, int a) {
  return s.act_jnt[a] >= 0 || s.act_tendon[a] >= 0 || s.act_site[a] >= 0 || s.act_body[a] >= 0;
}
// the force of an actuator, whatever it acts on
template <class T, class P>
FB_FN ActuatorForce<T> any_actuator_force(const Model<T, P>& m, int a, const StepPoint<T>& x,
                                          const Work<T>& w) {
  const Layout& s = m.s;
  if (s.act_tendon[a] >= 0) return tendon_actuator_force(m, a, x, w);
  if (s.act_site[a] >= 0) return reached_force(m, a, x, reach(m, a, w), w);
  return s.act_jnt[a] >= 0 ? actuator_force(m, a, x) : adhesion_force(m, a, x);
}
// whether an activation stands where a muscle changes from one time constant to the other
template <class T, class P>
FB_FN Mask<T> is_at_switch(const Model<T, P>& m, int a, const StepPoint<T>& x) {
  if (m.s.act_dyn[a] != kMuscleActivation) return Mask<T>(false);
  const P* prm = m.theta.muscle_dynprm + 3 * m.s.act_muscle[a];
  const T own[3] = {T(prm[0]), T(prm[1]), T(prm[2])};
  const MuscleRate<T> r = muscle_rate(own, control(m, a, x.u), x.act[m.s.act_adr[a]]);
  return (r.excess == T(0)) & (!r.smooth);
}
// controls, activations and forces exactly at their limits, muscles between their time constants
template <class T, class P>
FB_FN T actuator_ties(const Model<T, P>& m, const Options<Real<T>>& o, const StepPoint<T>& x,
                      const Work<T>& w) {
  T count = T(0);
  for (int a = 0; a < m.s.nu; ++a) {
    if (!acts(m.s, a)) continue;
    const P *cr = m.theta.actuator_ctrlrange + 2 * a, *fr = m.theta.actuator_forcerange + 2 * a;
    if (m.s.act_ctrllimited[a]) count += one_where<T>((x.u[a] == T(cr[0])) | (x.u[a] == T(cr[1])));
    if (m.s.act_adr[a] >= 0) count += one_where<T>(is_at_switch(m, a, x));
    if (m.s.act_adr[a] >= 0 && m.s.act_limited[a]) {
      const P* ar = m.theta.actuator_actrange + 2 * a;
      const T raw = raw_activation(m, o, a, x, w);
      count += one_where<T>((raw == T(ar[0])) | (raw == T(ar[1])));
    }
    if (!m.s.act_forcelimited[a]) continue;
    const ActuatorForce<T> f = any_actuator_force(m, a, x, w);
    count += one_where<T>((f.raw == T(fr[0])) | (f.raw == T(fr[1])));
  }
  return count;
}

// of the step that was just run in w
template <class T, class P>
FB_FN T step_ties(const Model<T, P>& m, const Options<Real<T>>& o, const StepPoint<T>& x,
                  Work<T>& w) {
  T count = actuator_ties(m, o, x, w);
  if (m.s.soft) return count + soft_ties(w);
  if (w.problem.nrow > 0) count += row_ties(w);
  return count;
}

}  // namespace fb::FB_ISA
