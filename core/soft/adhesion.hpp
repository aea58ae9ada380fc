// Actuators that hold a body at its contacts, under MuJoCo's law.  Proof: docs/derivations/soft.md.
#pragma once
#include "core/dynamics/actuation.hpp"
#include "core/soft/motion.hpp"

namespace fb::FB_ISA {

// visit the actuators that act on the contacts of a body
template <class F>
FB_INLINE void for_adhesion(const Layout& s, F&& visit) {
  for (int a = 0; s.nadhesion > 0 && a < s.nu; ++a)
    if (s.act_body[a] >= 0) visit(a);
}
// visit(group) the contacts of a body's geoms
template <class T, class F>
FB_INLINE void for_body_contacts(const Layout& s, int body, const Work<T>& w, F&& visit) {
  for (int g = 0; g < w.ngroup; ++g) {
    const RowGroup& k = w.group[g];
    if (k.kind != kContactRows) continue;
    if (s.geom_body[first_geom(s, k.source)] == body ||
        s.geom_body[second_geom(s, k.source)] == body)
      visit(g);
  }
}
// 1 / number of a body's contacts that act, 0 where none does
template <class T>
FB_FN T contact_share(const Layout& s, int body, const Work<T>& w) {
  T count = T(0);
  for_body_contacts(s, body, w, [&](int g) { count += one_where<T>(w.geometry[g].active); });
  return select(count > T(0), T(1) / max(count, T(1)), T(0));
}
// such an actuator has no length, and its law does not know its speed
template <class T, class P>
FB_INLINE ActuatorForce<T> adhesion_force(const Model<T, P>& m, int a, const StepPoint<T>& x) {
  ActuatorForce<T> f;
  f.length = f.speed = T(0);
  f.input = actuator_input(m, a, x);
  actuator_law(m, a, f);
  return f;
}

// (S.41)  smooth forces += J' pull: an actuator with force F pulls with F / n along the normal of each of
// the n contacts of its body; the pulls in f.loaded
template <class T, class P>
FB_FN void add_adhesion(const Model<T, P>& m, const StepPoint<T>& x, Work<T>& w) {
  const Layout& s = m.s;
  SoftWork<T>& f = w.soft;
  for (int r = 0; r < f.nrow; ++r) f.loaded[r] = T(0);
  for_adhesion(s, [&](int a) {
    const T pull = adhesion_force(m, a, x).force * contact_share(s, s.act_body[a], w);
    for_body_contacts(s, s.act_body[a], w, [&](int g) {
      f.loaded[w.group[g].row] -= select(w.geometry[g].active, pull, T(0));
    });
  });
  add_soft_forces(f, f.loaded, f.smooth);
}
// (S.42)  given f_bar = J W, add to those of controls, activations and parameters; what moves the
// normals has f.loaded in place of the rows' forces
template <class T, class P>
FB_FN void add_adhesion_adjoint(const Model<T, P>& m, const StepPoint<T>& x,
                                const ActuationBars<T>& bars, Work<T>& w) {
  const Layout& s = m.s;
  const SoftWork<T>& f = w.soft;
  for_adhesion(s, [&](int a) {
    T sum = T(0);
    for_body_contacts(s, s.act_body[a], w, [&](int g) {
      sum -= select(w.geometry[g].active, f.f_bar[w.group[g].row], T(0));
    });
    const ActuatorForce<T> force = adhesion_force(m, a, x);
    const T force_bar = sum * contact_share(s, s.act_body[a], w);
    const ActuatorBars<T> b = actuator_force_adjoint(m, a, force, force_bar, T(0), w);
    actuator_input_adjoint(m, a, x, force.input, b.input, bars, w);
  });
}

}  // namespace fb::FB_ISA
