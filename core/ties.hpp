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
// controls, activations and forces exactly at their limits
template <class T, class P>
FB_FN T actuator_ties(const Model<T, P>& m, const Options<Real<T>>& o, const StepPoint<T>& x,
                      const Work<T>& w) {
  T count = T(0);
  for (int a = 0; a < m.s.nu; ++a) {
    if (m.s.act_jnt[a] < 0) continue;
    const P *cr = m.theta.actuator_ctrlrange + 2 * a, *fr = m.theta.actuator_forcerange + 2 * a;
    if (m.s.act_ctrllimited[a]) count += one_where<T>((x.u[a] == T(cr[0])) | (x.u[a] == T(cr[1])));
    if (m.s.act_adr[a] >= 0 && m.s.act_limited[a]) {
      const P* ar = m.theta.actuator_actrange + 2 * a;
      const T raw = raw_activation(m, o, a, x, w);
      count += one_where<T>((raw == T(ar[0])) | (raw == T(ar[1])));
    }
    if (!m.s.act_forcelimited[a]) continue;
    const ActuatorForce<T> f = actuator_force(m, a, x);
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
