// Where a step stands exactly on the border between two modes, so that its derivative is a choice:
// how many such places there are.  Read after a step; changes nothing.
#pragma once
#include "core/step.hpp"

namespace fb::FB_ISA {

// controls and forces exactly at their limits
template <class T, class P>
FB_FN T actuator_ties(const Model<T, P>& m, const T* q, const T* v, const T* u) {
  T count = T(0);
  for (int a = 0; a < m.s.nu; ++a) {
    if (m.s.act_jnt[a] < 0) continue;
    const P *cr = m.theta.actuator_ctrlrange + 2 * a, *fr = m.theta.actuator_forcerange + 2 * a;
    if (m.s.act_ctrllimited[a]) count += one_where<T>((u[a] == T(cr[0])) | (u[a] == T(cr[1])));
    if (!m.s.act_forcelimited[a]) continue;
    const ActuatorForce<T> f = actuator_force(m, a, q, v, u);
    count += one_where<T>((f.raw == T(fr[0])) | (f.raw == T(fr[1])));
  }
  return count;
}

// of the step that was just run in w; contacts that recover at exactly the largest speed count too
template <class T, class P>
FB_FN T step_ties(const Model<T, P>& m, const Options<Real<T>>& o, const StepPoint<T>& x,
                  Work<T>& w) {
  T count = actuator_ties(m, x.q, x.v, x.u);
  if (w.problem.nrow > 0) count += RowSolver<T>::ties(w.problem, w.solution);
  const T deepest = -(T(m.theta.dt[0]) * o.v_recover);
  for (int i = 0; i < w.ngroup; ++i)
    if (w.group[i].kind == kContactRows)
      count += one_where<T>(w.geometry[i].active & (w.geometry[i].phi == deepest));
  return count;
}

}  // namespace fb::FB_ISA
