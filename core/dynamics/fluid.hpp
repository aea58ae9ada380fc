// Forces of a fluid on bodies that move through it, and their adjoint.
// Proof: docs/derivations/fluid.md.
#pragma once
#include "core/dynamics/fluid_law.hpp"
#include "core/dynamics/gravcomp.hpp"

namespace fb::FB_ISA {

// axes of a part of a body in the world, and its centre about the tree's origin
template <class T>
struct FluidPlace {
  Mat3<T> R;
  Vec3<T> c;
};
template <class T, class P>
FB_FN FluidPlace<T> fluid_place(const Model<T, P>& m, int part, const Work<T>& w) {
  const int b = m.s.fluid_body[part], g = m.s.fluid_geom[part];
  const LinkWork<T>& k = w.link[m.s.body_link[b]];
  if (g >= 0)
    return {mul(k.R, m.derived.geom_R + 9 * g),
            mul_add(k.R, lift3<P>(m.derived.geom_p + 3 * g), k.r)};
  return {inertia_axes(m, b, w), body_centre(m, b, w)};
}
// given the cotangents of a turn of the axes and of the centre, add to those of the link's place and
// of the geom, or of the body's frame and inertia
template <class T, class P>
FB_FN void fluid_place_adjoint(const Model<T, P>& m, int part, Vec3<T> c, Vec3<T> turn_bar,
                               Vec3<T> c_bar, Work<T>& w) {
  const int b = m.s.fluid_body[part], g = m.s.fluid_geom[part], l = m.s.body_link[b];
  if (g < 0) {
    inertia_axes_adjoint(m, b, turn_bar, w);
    body_centre_adjoint(m, b, c, c_bar, w);
    return;
  }
  w.bar[l].pose.ang += turn_bar;
  w.bar[l].pose += Force<T>{cross(c, c_bar), c_bar};
  if (!w.theta_bar) return;
  add3(mul_transposed(w.link[l].R, c_bar), w.derived_bar->geom_p + 3 * g);
  add_rotation_bar(mul_transposed(w.link[l].R, turn_bar), m.derived.geom_R + 9 * g,
                   w.derived_bar->geom_R + 9 * g);
}

// (Z.7)  a twist as the part sees it: its turn, and the velocity of its centre, less the wind's
template <class T>
FB_INLINE Motion<T> local_motion(const FluidPlace<T>& at, Motion<T> x, Vec3<T> wind) {
  return {mul_transposed(at.R, x.ang), mul_transposed(at.R, x.lin + cross(x.ang, at.c) - wind)};
}
// cotangents of a place
template <class T>
struct PlaceBars {
  Vec3<T> turn, c;
};
// given its cotangent, add to those of the place; return that of the twist, whose linear part is the
// opposite of the wind's
template <class T>
FB_INLINE Force<T> local_motion_adjoint(const FluidPlace<T>& at, Motion<T> x, Vec3<T> wind,
                                        Force<T> out_bar, PlaceBars<T>& bars) {
  const Vec3<T> ang = mul(at.R, out_bar.ang), lin = mul(at.R, out_bar.lin);
  bars.turn -= cross(x.ang, ang) + cross(x.lin + cross(x.ang, at.c) - wind, lin);
  bars.c += cross(lin, x.ang);
  return {ang + cross(at.c, lin), lin};
}

// semiaxes of the ellipsoid that stands for a geom
template <class T, class P>
FB_INLINE void semiaxes(int type, const P* size, T* a) {
  const bool round = type == kSphere || type == kCapsule || type == kCylinder;
  a[0] = T(size[0]);
  a[1] = T(size[round ? 0 : 1]);
  a[2] = T(type == kSphere ? size[0] : type == kCylinder ? size[1] : size[2]);
  if (type == kCapsule) a[2] = T(size[0] + size[1]);
}
// given their cotangents, add to size_bar
template <class T>
FB_INLINE void semiaxes_adjoint(int type, const T* a_bar, T* size_bar) {
  const bool round = type == kSphere || type == kCapsule || type == kCylinder;
  size_bar[0] += a_bar[0];
  size_bar[round ? 0 : 1] += a_bar[1];
  if (type == kCapsule) size_bar[0] += a_bar[2];
  size_bar[type == kSphere ? 0 : type == kCylinder || type == kCapsule ? 1 : 2] += a_bar[2];
}
// numbers of a part's law
template <class T, class P>
FB_FN FluidLaw<T> fluid_law(const Model<T, P>& m, int part) {
  const int b = m.s.fluid_body[part], g = m.s.fluid_geom[part];
  FluidLaw<T> k = no_fluid<T>(g >= 0);
  k.rho = T(m.theta.density[0]);
  k.mu = T(m.theta.viscosity[0]);
  T x[3];
  if (g >= 0) {
    for (int i = 0; i < 12; ++i) k.coef[i] = T(m.theta.geom_fluid[12 * g + i]);
    semiaxes(m.s.geom_type[g], m.theta.geom_size + 3 * g, x);
    ellipsoid_law(x, k);
    return k;
  }
  for (int i = 0; i < 3; ++i) x[i] = T(m.theta.body_inertia[3 * b + i]);
  box_law(T(m.theta.body_mass[b]), x, k);
  return k;
}
// given their cotangents, which it uses up, add to the parameters
template <class T, class P>
FB_FN void fluid_law_adjoint(const Model<T, P>& m, int part, FluidLaw<T>& k_bar, Work<T>& w) {
  const int b = m.s.fluid_body[part], g = m.s.fluid_geom[part];
  const FluidLaw<T> k = fluid_law(m, part);
  Theta<T>& t = *w.theta_bar;
  T x[3];
  if (g >= 0) {
    T x_bar[3] = {T(0), T(0), T(0)};
    semiaxes(m.s.geom_type[g], m.theta.geom_size + 3 * g, x);
    ellipsoid_law_adjoint(x, k_bar, x_bar);
    semiaxes_adjoint(m.s.geom_type[g], x_bar, t.geom_size + 3 * g);
    for (int i = 0; i < 12; ++i) t.geom_fluid[12 * g + i] += k_bar.coef[i];
  } else {
    for (int i = 0; i < 3; ++i) x[i] = T(m.theta.body_inertia[3 * b + i]);
    box_law_adjoint(T(m.theta.body_mass[b]), x, k, k_bar, t.body_mass[b], t.body_inertia + 3 * b);
  }
  t.density[0] += k_bar.rho;
  t.viscosity[0] += k_bar.mu;
}

// (Z.8)  tau += joint forces of the fluid; out is scratch of nv
template <class T, class P>
FB_FN void fluid_forces(const Model<T, P>& m, Work<T>& w, T* out) {
  const Layout& s = m.s;
  const Vec3<T> wind = lift3<T>(m.theta.wind);
  for (int l = 0; l < s.nlink; ++l) w.wrench[l] = zero_force<T>();
  for (int i = 0; i < s.nfluid; ++i) {
    const int l = s.body_link[s.fluid_body[i]];
    const FluidPlace<T> at = fluid_place(m, i, w);
    const Force<T> f = fluid_force(fluid_law(m, i), local_motion(at, w.link[l].v, wind));
    const Vec3<T> push = mul(at.R, f.lin);
    w.wrench[l] += Force<T>{mul(at.R, f.ang) + cross(at.c, push), push};
  }
  wrench_forces(s, w, w.wrench, out);
  for (int d = 0; d < s.nv; ++d) w.tau[d] += out[d];
}
// (Z.9)  given tau_bar, add to q_bar (tangent), v_bar and the parameters
template <class T, class P>
FB_FN void fluid_forces_adjoint(const Model<T, P>& m, const T* q, const T* v, const T* tau_bar,
                                Work<T>& w, T* q_bar, T* v_bar) {
  const Layout& s = m.s;
  const Vec3<T> wind = lift3<T>(m.theta.wind), still = zero3<T>();
  link_twists(s, w, tau_bar, w.twist);
  for (int l = 0; l < s.nlink; ++l)
    w.bar[l].w_bar = w.bar[l].a_bar = w.bar[l].pose = zero_force<T>();
  for (int i = 0; i < s.nfluid; ++i) {
    const int l = s.body_link[s.fluid_body[i]];
    const FluidPlace<T> at = fluid_place(m, i, w);
    const FluidLaw<T> k = fluid_law(m, i);
    const Motion<T> x = local_motion(at, w.link[l].v, wind);
    FluidLaw<T> k_bar = no_fluid<T>(k.ellipsoid);
    Force<T> x_bar = zero_force<T>();
    fluid_force_adjoint(k, x, local_motion(at, w.twist[l], still), x_bar,
                        w.theta_bar ? &k_bar : nullptr);
    PlaceBars<T> place{still, still};
    w.bar[l].w_bar += local_motion_adjoint(at, w.twist[l], still, fluid_force(k, x), place);
    const Force<T> moved = local_motion_adjoint(at, w.link[l].v, wind, x_bar, place);
    w.bar[l].a_bar += moved;
    fluid_place_adjoint(m, i, at.c, place.turn, place.c, w);
    if (!w.theta_bar) continue;
    add3(-moved.lin, w.theta_bar->wind);
    fluid_law_adjoint(m, i, k_bar, w);
  }
  still_tree_adjoint(m, v, tau_bar, q, w, q_bar);
  for (int d = 0; d < s.nv; ++d) v_bar[d] += dot(w.dof[d].S, w.bar[s.dof_link[d]].a_bar);
}

}  // namespace fb::FB_ISA
