// What contacts exert on each body under MuJoCo's law, as an output of a state, and its adjoint.
// Proof: docs/derivations/soft.md.
#pragma once
#include "core/soft/accelerations.hpp"

namespace fb::FB_ISA {

// (S.43)  for each body the sum of its contacts' forces, and of their torques about the body's centre of mass;
// nothing for the world
template <class T, class P>
FB_FN void contact_forces(const Model<T, P>& m, const Options<Real<T>>& o, const T* x, const T* u,
                          Mask<T> alive, T* y, Work<T>& w) {
  const Layout& s = m.s;
  soft_accelerations(m, o, x, u, alive, w);
  for (int i = 0; i < 6 * s.nbody; ++i) y[i] = T(0);
  for (int g = 0; g < w.ngroup; ++g) {
    if (w.group[g].kind != kContactRows) continue;
    const T* f = w.soft.f + w.group[g].row;
    for_contact_sides(m, g, w, [&](int body, const Force<T>* F) {
      Force<T> sum = zero_force<T>();
      for (int i = 0; i < w.group[g].rows; ++i) sum += F[i] * f[i];
      add3(sum.lin, y + 6 * body);
      add3(sum.ang - cross(body_centre(m, body, w), sum.lin), y + 6 * body + 3);
    });
  }
}
// given y_bar, of the forces that were just found in w, add to the bars of the state and of the controls; y_bar
// becomes the twists that pair with the forces
template <class T, class P>
FB_FN void contact_forces_adjoint(const Model<T, P>& m, const Options<Real<T>>& o,
                                  const StepPoint<T>& x, T* y_bar, const StepBars<T>& bar,
                                  Work<T>& w) {
  for (int b = 0; b < m.s.nbody; ++b) {
    // t . ((p - c) x f) + g . f  =  (g + c x t + t x p) . f
    const Vec3<T> g = lift3<T>(y_bar + 6 * b), t = lift3<T>(y_bar + 6 * b + 3);
    put3(t, y_bar + 6 * b);
    put3(g + cross(body_centre(m, b, w), t), y_bar + 6 * b + 3);
  }
  // forces of stiff rows need the stiffness of the minimum itself
  if constexpr (kIsDouble<T>)
    if (w.ngroup > 0 && update_stiffness(w.soft)) factor_hessian(w.soft);
  w.soft.shown = y_bar;
  for (int d = 0; d < m.s.nv; ++d) w.p_bar[d] = T(0);
  soft_acceleration_adjoint(m, o, x, w.p_bar, bar, w);
  w.soft.shown = nullptr;
}

}  // namespace fb::FB_ISA
