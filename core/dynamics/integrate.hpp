// Positions on the manifold: q+ = q (+) h v+.  Proof: docs/derivations/integrate.md.
#pragma once
#include "core/dynamics/kinematics.hpp"

namespace fb::FB_ISA {

// (I.3)  all joints
template <class T, class P>
FB_FN void integrate(const Layout& s, const T* q, const T* v, P h, T* out) {
  for (int l = 1; l < s.nlink; ++l) {
    const int qa = s.link_qadr[l], da = s.link_dof[l];
    with_joint(s.link_type[l], [&](auto joint) { joint.integrate(q + qa, v + da, h, out + qa); });
  }
}
// (I.6)  given out_bar (ambient, nq), add to q_bar (ambient) and v_bar; returns the cotangent of h
template <class T, class P>
FB_FN T integrate_adjoint(const Layout& s, const T* q, const T* v, P h, const T* out_bar, T* q_bar,
                          T* v_bar) {
  T h_bar = T(0);
  for (int l = 1; l < s.nlink; ++l) {
    const int qa = s.link_qadr[l], da = s.link_dof[l];
    with_joint(s.link_type[l], [&](auto joint) {
      joint.integrate_adjoint(q + qa, v + da, h, out_bar + qa, q_bar + qa, v_bar + da, h_bar);
    });
  }
  return h_bar;
}

// (I.7)  a tangent cotangent (nv) as an ambient one (nq)
template <class T>
FB_FN void lift_tangent(const Layout& s, const T* q, const T* tangent, T* q_bar) {
  for (int l = 1; l < s.nlink; ++l) {
    const int qa = s.link_qadr[l], da = s.link_dof[l];
    with_joint(s.link_type[l],
               [&](auto joint) { joint.lift_tangent(q + qa, tangent + da, q_bar + qa); });
  }
}
// (I.8)  the tangent cotangent (nv) of an ambient one (nq)
template <class T>
FB_FN void lower_tangent(const Layout& s, const T* q, const T* q_bar, T* tangent) {
  for (int l = 1; l < s.nlink; ++l) {
    const int qa = s.link_qadr[l], da = s.link_dof[l];
    with_joint(s.link_type[l],
               [&](auto joint) { joint.lower_tangent(q + qa, q_bar + qa, tangent + da); });
  }
}

}  // namespace fb::FB_ISA
