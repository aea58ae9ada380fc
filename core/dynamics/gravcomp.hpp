// Gravity compensation: forces on bodies that carry a share of their weight.
// Proof: docs/derivations/forces.md.
#pragma once
#include "core/dynamics/dynamics.hpp"

namespace fb::FB_ISA {

// (GC.1)  joint forces of wrenches on links: out_d = S_d . F of all links above; F is used up
template <class T>
FB_FN void wrench_forces(const Layout& s, const Work<T>& w, Force<T>* F, T* out) {
  for (int l = s.nlink - 1; l > 0; --l) {
    const int first = s.link_dof[l];
    for (int d = first; d < first + s.link_ndof[l]; ++d) out[d] = dot(w.dof[d].S, F[l]);
    F[s.link_parent[l]] += F[l];
  }
}

// visit(body, link, share of its weight, centre, force) the bodies that are carried
template <class T, class P, class F>
FB_INLINE void for_carried(const Model<T, P>& m, const Work<T>& w, bool all_bodies, F&& visit) {
  const Vec3<T> g = lift3<T>(m.theta.gravity);
  for (int b = 1; b < m.s.nbody; ++b) {
    const int l = m.s.body_link[b];
    const P share = m.theta.body_gravcomp[b] * m.theta.body_mass[b];
    if (l == 0 || (!all_bodies && all(is_nothing(share)))) continue;
    visit(b, l, share, body_centre(m, b, w), g * -T(share));
  }
}
// (GC.2)  the force -c m g at each body's centre of mass, as joint forces in w.compensation
template <class T, class P>
FB_FN void gravity_compensation(const Model<T, P>& m, Work<T>& w) {
  for (int l = 0; l < m.s.nlink; ++l) w.wrench[l] = zero_force<T>();
  for_carried(m, w, false, [&](int, int l, P, Vec3<T> c, Vec3<T> f) {
    w.wrench[l] += Force<T>{cross(c, f), f};
  });
  wrench_forces(m.s, w, w.wrench, w.compensation);
}
// (GC.3)  given the cotangents of these forces, add to q_bar (tangent) and the parameters
template <class T, class P>
FB_FN void gravity_compensation_adjoint(const Model<T, P>& m, const T* q, const T* out_bar,
                                        Work<T>& w, T* q_bar) {
  link_twists(m.s, w, out_bar, w.twist);
  for (int l = 0; l < m.s.nlink; ++l)
    w.bar[l].w_bar = w.bar[l].a_bar = w.bar[l].pose = zero_force<T>();
  const Vec3<T> g = lift3<T>(m.theta.gravity);
  for_carried(m, w, w.theta_bar, [&](int b, int l, P share, Vec3<T> c, Vec3<T> f) {
    const Motion<T> x = w.twist[l];
    w.bar[l].w_bar += Force<T>{cross(c, f), f};
    body_centre_adjoint(m, b, c, cross(f, x.ang), w);
    if (!w.theta_bar) return;
    // the rate of the body's centre under out_bar
    const Vec3<T> f_bar = x.lin + cross(x.ang, c);
    const T share_bar = -dot(g, f_bar);
    add3(f_bar * -T(share), w.theta_bar->gravity);
    w.theta_bar->body_mass[b] += share_bar * m.theta.body_gravcomp[b];
    w.theta_bar->body_gravcomp[b] += share_bar * m.theta.body_mass[b];
  });
  still_tree_adjoint(m, out_bar, out_bar, q, w, q_bar);
}

// (GC.4)  visit(joint, dof) all dofs of joints that are compensated in one way
template <class F>
FB_INLINE void for_compensated(const Layout& s, CompensationType way, F&& visit) {
  for (int d = 0; d < s.nv; ++d)
    if (s.jnt_gravcomp[s.dof_jnt[d]] == way) visit(s.dof_jnt[d], d);
}

}  // namespace fb::FB_ISA
