// What a model tells besides its motion: poses, centres of mass, inertias, velocities, dynamics; and
// their adjoints.  Proof: docs/derivations/outputs.md.
#pragma once
#include "core/dynamics/com_outputs.hpp"
#include "core/dynamics/integrate.hpp"
#include "core/dynamics/tendon_inertia.hpp"

namespace fb::FB_ISA {

// numbers of an output in one world
FB_FN int output_size(const Sizes& s, Output kind) {
  switch (kind) {
#define FB_X(name, rank, rows, columns, ...) \
  case Output::name:                         \
    return (rows) * (columns);
    FB_OUTPUTS(FB_X)
#undef FB_X
  }
  return 0;
}

// (O.1)  pose of what is placed at (R0, p) in a link: x = O + r + R p, A = R R0
template <class T, class P>
FB_INLINE void placed_pose(const Model<T, P>& m, int link, const P* R0, const P* p,
                           const Work<T>& w, T* y) {
  const LinkWork<T>& k = w.link[link];
  const Vec3<T> x = origin_of(m.s, w, link) + k.r + mul(k.R, lift3<P>(p));
  const Mat3<T> A = mul(k.R, R0);
  y[0] = x.x;
  y[1] = x.y;
  y[2] = x.z;
  for (int e = 0; e < 9; ++e) y[3 + e] = A.a[e];
}
// (O.2)  given y_bar, add to the wrench on the link's place and, where asked for, to the placement
template <class T, class P>
FB_INLINE void placed_pose_adjoint(int link, const P* R0, const P* p, const T* y_bar, Work<T>& w,
                                   T* R0_bar, T* p_bar) {
  const LinkWork<T>& k = w.link[link];
  const Vec3<T> x_bar = lift3<T>(y_bar), c = mul_add(k.R, lift3<P>(p), k.r);
  const Mat3<T> A = mul(k.R, R0);
  Mat3<T> A_bar;
  for (int e = 0; e < 9; ++e) A_bar.a[e] = y_bar[3 + e];
  // a turn t changes A by [t] A
  Force<T> f{cross(c, x_bar), x_bar};
  for (int e = 0; e < 3; ++e) f.ang += cross(column(A, e), column(A_bar, e));
  w.bar[link].pose += f;
  if (!p_bar) return;
  add3(mul_transposed(k.R, x_bar), p_bar);
  const Mat3<T> B = mul_transposed(k.R, A_bar);
  for (int e = 0; e < 9; ++e) R0_bar[e] += B.a[e];
}

// all bodies, then all sites, with the kinematics in w
template <class T, class P>
FB_FN void poses(const Model<T, P>& m, T* y, const Work<T>& w) {
  const Layout& s = m.s;
  for (int i = 0; i < s.nbody; ++i)
    placed_pose(m, s.body_link[i], m.derived.body_R + 9 * i, m.derived.body_p + 3 * i, w,
                y + 12 * i);
  for (int i = 0; i < s.nsite; ++i)
    placed_pose(m, s.site_link[i], m.derived.site_R + 9 * i, m.derived.site_p + 3 * i, w,
                y + 12 * (s.nbody + i));
}

template <class T>
FB_INLINE void clear_pose_bars(const Layout& s, Work<T>& w) {
  for (int l = 0; l < s.nlink; ++l) w.bar[l].pose = zero_force<T>();
}
// (O.3)  leaves to root: a wrench on a link's place
// acts on its joints, its placement, and the link below
template <class T, class P>
FB_FN void pose_tree_adjoint(const Model<T, P>& m, const T* q, Work<T>& w, T* q_bar) {
  const Layout& s = m.s;
  for (int l = s.nlink - 1; l > 0; --l) {
    const int first = s.link_dof[l];
    for (int d = first; d < first + s.link_ndof[l]; ++d) q_bar[d] += dot(w.dof[d].S, w.bar[l].pose);
    if (w.derived_bar) link_pose_adjoint(m, l, q, w);
    w.bar[s.link_parent[l]].pose += w.bar[l].pose;
  }
}

// given y_bar, add to q_bar (tangent, nv) and to the parameters
template <class T, class P>
FB_FN void poses_adjoint(const Model<T, P>& m, const T* q, const T* y_bar, Work<T>& w, T* q_bar) {
  const Layout& s = m.s;
  clear_pose_bars(s, w);
  Derived<T>* out = w.derived_bar;
  for (int i = 0; i < s.nbody; ++i)
    placed_pose_adjoint(s.body_link[i], m.derived.body_R + 9 * i, m.derived.body_p + 3 * i,
                        y_bar + 12 * i, w, out ? out->body_R + 9 * i : nullptr,
                        out ? out->body_p + 3 * i : nullptr);
  for (int i = 0; i < s.nsite; ++i)
    placed_pose_adjoint(s.site_link[i], m.derived.site_R + 9 * i, m.derived.site_p + 3 * i,
                        y_bar + 12 * (s.nbody + i), w, out ? out->site_R + 9 * i : nullptr,
                        out ? out->site_p + 3 * i : nullptr);
  pose_tree_adjoint(m, q, w, q_bar);
}

// mass of all bodies but the world; one where there is none
template <class T, class P>
FB_INLINE T total_mass(const Model<T, P>& m) {
  T total(0);
  for (int b = 1; b < m.s.nbody; ++b) total += T(m.theta.body_mass[b]);
  return select(total > T(0), total, T(1));
}
// (O.4)  c = sum of m_b x_b / sum of m_b, over all bodies, those fixed in the world included
template <class T, class P>
FB_FN void center_of_mass(const Model<T, P>& m, T* y, const Work<T>& w) {
  const Layout& s = m.s;
  Vec3<T> sum = zero3<T>();
  for (int b = 1; b < s.nbody; ++b)
    sum += (origin_of(s, w, s.body_link[b]) + body_centre(m, b, w)) * T(m.theta.body_mass[b]);
  const T inv = T(1) / total_mass(m);
  y[0] = sum.x * inv;
  y[1] = sum.y * inv;
  y[2] = sum.z * inv;
}
// (O.5)  given y_bar, add to q_bar (tangent, nv) and to the parameters
template <class T, class P>
FB_FN void center_of_mass_adjoint(const Model<T, P>& m, const T* q, const T* y_bar, Work<T>& w,
                                  T* q_bar) {
  const Layout& s = m.s;
  clear_pose_bars(s, w);
  T y[3];
  center_of_mass(m, y, w);
  const Vec3<T> c = lift3<T>(y), share = lift3<T>(y_bar) * (T(1) / total_mass(m));
  for (int b = 1; b < s.nbody; ++b) {
    const Vec3<T> x = body_centre(m, b, w);
    body_centre_adjoint(m, b, x, share * T(m.theta.body_mass[b]), w);
    if (w.theta_bar)
      w.theta_bar->body_mass[b] += dot(share, origin_of(s, w, s.body_link[b]) + x - c);
  }
  pose_tree_adjoint(m, q, w, q_bar);
}

// (O.9)  joint-space inertia, dense nv x nv, armature included; the inertias of subtrees in w
template <class T, class P>
FB_FN void mass_matrix(const Model<T, P>& m, T* M, Work<T>& w) {
  const Layout& s = m.s;
  for (int i = 0; i < s.nv * s.nv; ++i) M[i] = T(0);
  for (int l = 1; l < s.nlink; ++l) {
    link_inertia(m, l, w);
    w.link[l].IA = dense(w.link[l].I);
  }
  for (int l = s.nlink - 1; l > 0; --l) {
    const int first = s.link_dof[l];
    for (int d = first; d < first + s.link_ndof[l]; ++d) {
      const Force<T> f = w.link[l].IA * w.dof[d].S;
      // dofs of the same joint, then all dofs nearer to the root
      for (int e = first + s.link_ndof[l] - 1; e >= 0; e = s.dof_parent[e])
        M[d * s.nv + e] = M[e * s.nv + d] = dot(w.dof[e].S, f);
      M[d * s.nv + d] += T(m.theta.dof_armature[d]);
    }
    if (s.link_parent[l] > 0) add(w.link[s.link_parent[l]].IA, w.link[l].IA);
  }
  if (s.nheavy > 0) add_tendon_mass(m, w, M);
}
// (O.6)  <M_bar, M> is a sum over columns j of M_bar_j' M e_j: the equation of motion of bodies at
// rest without gravity, paired with the rates M_bar_j at the accelerations e_j.  Given M_bar, add
// to q_bar (tangent, nv) and to the parameters; kinematics and inertias in w
template <class T, class P>
FB_FN void mass_matrix_adjoint(const Model<T, P>& m, const T* q, const T* M_bar, Work<T>& w,
                               T* q_bar) {
  const Layout& s = m.s;
  T *column = w.w_rate, *unit = w.unit_rate;
  for (int j = 0; j < s.nv; ++j) {
    for (int d = 0; d < s.nv; ++d) {
      column[d] = M_bar[d * s.nv + j];
      unit[d] = d == j ? T(1) : T(0);
    }
    link_twists(s, w, column, w.twist);
    link_twists(s, w, unit, w.twist2);
    for (int l = 1; l < s.nlink; ++l) {
      LinkBar<T>& b = w.bar[l];
      b.w_bar = w.link[l].I * w.twist2[l];
      b.a_bar = w.link[l].I * w.twist[l];
      b.pose = -(cross(w.twist[l], b.w_bar) + cross(w.twist2[l], b.a_bar));
      if (!w.derived_bar) continue;
      InertiaBar<T> I_bar{T(0), zero3<T>(), {T(0), T(0), T(0), T(0), T(0), T(0)}};
      add_pairing(I_bar, w.twist[l], w.twist2[l]);
      link_inertia_adjoint(m, l, I_bar, w);
    }
    still_tree_adjoint(m, unit, column, q, w, q_bar);
    if (w.theta_bar) w.theta_bar->dof_armature[j] += M_bar[j * s.nv + j];
  }
  if (s.nheavy > 0)
    add_tendon_mass_adjoint(m, [&](int d, int e) { return M_bar[d * s.nv + e]; }, w);
}

// what the adjoint of inverse dynamics leaves to its caller: placements of links and armature
template <class T, class P>
FB_FN void motion_parameter_adjoint(const Model<T, P>& m, const T* q, const T* a, const T* tau_bar,
                                    Work<T>& w) {
  if (!w.theta_bar) return;
  for (int l = 1; l < m.s.nlink; ++l) link_pose_adjoint(m, l, q, w);
  for (int d = 0; d < m.s.nv; ++d) w.theta_bar->dof_armature[d] += tau_bar[d] * a[d];
}

// where an output is taken; x: accelerations (inverse dynamics; zero for the bias) or forces
// (forward dynamics)
template <class T>
struct OutputPoint {
  const T *q, *v, *x;
};
// what its cotangents are added to; q: ambient
template <class T>
struct OutputBars {
  T *q, *v, *x;
};

// the same where tendons have armature, with M dense; leaves the accelerations of links in w
template <class T, class P>
FB_FN void heavy_forward_dynamics(const Model<T, P>& m, const T* tau, Work<T>& w) {
  const int nv = m.s.nv;
  T* M = w.tendon.inertia;
  for (int d = 0; d < nv; ++d) w.unit_rate[d] = T(0);
  inverse_dynamics(m, w.unit_rate, w.qdd, w, w.wrench);
  add_tendon_inverse(m, w.unit_rate, w.qdd, w);
  for (int d = 0; d < nv; ++d) w.qdd[d] = tau[d] - w.qdd[d];
  mass_matrix(m, M, w);
  factor_dense(nv, M);
  solve_dense(nv, M, w.qdd);
  inverse_dynamics(m, w.qdd, w.unit_rate, w, w.wrench);
}
// (O.7)  M a + c = tau, without springs, damping, contact and applied wrenches; a in w.qdd
template <class T, class P>
FB_FN void forward_dynamics(const Model<T, P>& m, const T* tau, Work<T>& w) {
  if (m.s.nheavy > 0) return heavy_forward_dynamics(m, tau, w);
  Model<T, P> bare = m;
  bare.applied = false;
  for (int d = 0; d < m.s.nv; ++d) w.hD[d] = T(m.theta.dof_armature[d]);
  articulated_body(bare, tau, w);
}
// (O.8)  tau_bar = M^-1 a_bar, and what inverse dynamics makes of -tau_bar.  Given a_bar, with the
// forward in w, add to bars.v and bars.x, to q_bar (tangent, nv) and to the parameters
template <class T, class P>
FB_FN void forward_dynamics_adjoint(const Model<T, P>& m, const OutputPoint<T>& at, const T* a_bar,
                                    const OutputBars<T>& bars, Work<T>& w, T* q_bar) {
  const Layout& s = m.s;
  if (s.nheavy > 0) {
    for (int d = 0; d < s.nv; ++d) w.w_rate[d] = a_bar[d];
    solve_dense(s.nv, w.tendon.inertia, w.w_rate);
  } else {
    solve_inertia(s, w, a_bar, w.w_rate, w.wrench, w.twist);
  }
  for (int d = 0; d < s.nv; ++d) {
    bars.x[d] += w.w_rate[d];
    w.w_rate[d] = -w.w_rate[d];
    w.a_eff[d] = T(0);
  }
  inverse_dynamics_adjoint<T, P>(m, at.v, w.qdd, w.w_rate, {q_bar, bars.v, w.a_eff}, w);
  motion_parameter_adjoint(m, at.q, w.qdd, w.w_rate, w);
  if (s.nheavy > 0) add_tendon_inverse_adjoint(m, w.qdd, w.w_rate, w.a_eff, w);
}

// any output; leaves in w what its adjoint reads
template <class T, class P>
FB_FN void output(const Model<T, P>& m, Output kind, const OutputPoint<T>& at, T* y, Work<T>& w) {
  kinematics(m, at.q, at.v, w);
  if (m.s.nheavy > 0) tendon_kinematics(m, at.q, at.v, w);
  switch (kind) {
    case Output::poses:
      return poses(m, y, w);
    case Output::center_of_mass:
      return center_of_mass(m, y, w);
    case Output::mass_matrix:
      return mass_matrix(m, y, w);
    case Output::bias:
    case Output::inverse_dynamics:
      inverse_dynamics(m, at.x, y, w, w.wrench);
      if (m.s.nheavy > 0) add_tendon_inverse(m, at.x, y, w);
      return;
    case Output::forward_dynamics:
      forward_dynamics(m, at.x, w);
      for (int d = 0; d < m.s.nv; ++d) y[d] = w.qdd[d];
      return;
    case Output::mass_centers:
      return mass_centers(m, y, w);
    case Output::com_inertias:
      return com_inertias(m, y, w);
    case Output::com_velocities:
      return com_velocities(m, y, w);
    case Output::contact_forces:  // those of a step: core/soft/contact_forces.hpp
      return;
  }
}
// given y_bar, with the forward in w, add to bars and to the parameters
template <class T, class P>
FB_FN void output_adjoint(const Model<T, P>& m, Output kind, const OutputPoint<T>& at,
                          const T* y_bar, const OutputBars<T>& bars, Work<T>& w) {
  T* q_bar = w.dv;
  for (int d = 0; d < m.s.nv; ++d) q_bar[d] = T(0);
  switch (kind) {
    case Output::poses:
      poses_adjoint(m, at.q, y_bar, w, q_bar);
      break;
    case Output::center_of_mass:
      center_of_mass_adjoint(m, at.q, y_bar, w, q_bar);
      break;
    case Output::mass_matrix:
      mass_matrix_adjoint(m, at.q, y_bar, w, q_bar);
      break;
    case Output::bias:
    case Output::inverse_dynamics:
      inverse_dynamics_adjoint<T, P>(m, at.v, at.x, y_bar, {q_bar, bars.v, bars.x}, w);
      motion_parameter_adjoint(m, at.q, at.x, y_bar, w);
      if (m.s.nheavy > 0) add_tendon_inverse_adjoint(m, at.x, y_bar, bars.x, w);
      break;
    case Output::forward_dynamics:
      forward_dynamics_adjoint(m, at, y_bar, bars, w, q_bar);
      break;
    case Output::mass_centers:
      clear_pose_bars(m.s, w);
      mass_centers_adjoint(m, y_bar, w);
      pose_tree_adjoint(m, at.q, w, q_bar);
      break;
    case Output::com_inertias:
      clear_pose_bars(m.s, w);
      com_inertias_adjoint(m, y_bar, w);
      pose_tree_adjoint(m, at.q, w, q_bar);
      break;
    case Output::com_velocities:
      com_velocities_adjoint(m, at.q, at.v, y_bar, w, q_bar, bars.v);
      break;
    case Output::contact_forces:
      break;
  }
  if (m.s.nheavy > 0)
    tendon_kinematics_adjoint<T, P>(m, at.q, at.v, {q_bar, bars.v, nullptr, nullptr}, w);
  lift_tangent(m.s, at.q, q_bar, bars.q);
}

}  // namespace fb::FB_ISA
