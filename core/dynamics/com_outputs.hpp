// Centres of mass of bodies and of the kinematic trees that they belong to, and inertias and
// velocities about the latter; and their adjoints.  Proof: docs/derivations/outputs.md.
#pragma once
#include "core/dynamics/dynamics.hpp"

namespace fb::FB_ISA {

// what hangs on one child of the world: bodies first to end - 1, numbered depth first
struct BodyTree {
  int first, end;
};
FB_FN BodyTree tree_from(const Layout& s, int first) {
  int end = first + 1;
  while (end < s.nbody && s.body_parent[end] != 0) ++end;
  return {first, end};
}

// centre of mass of a body from O, the origin of another link of its kinematic tree
template <class T, class P>
FB_INLINE Vec3<T> centre_from(const Model<T, P>& m, int body, Vec3<T> O, const Work<T>& w) {
  return (origin_of(m.s, w, m.s.body_link[body]) - O) + body_centre(m, body, w);
}
// (O.10)  c = sum of m_b x_b / sum of m_b over the bodies of a tree, that of its first where none has
// a mass, from the origin O of its first link that moves; inv: one over the sum, zero there
template <class T>
struct TreeCentre {
  Vec3<T> O, c;
  T inv;
};
template <class T, class P>
FB_FN TreeCentre<T> tree_centre(const Model<T, P>& m, BodyTree tree, const Work<T>& w) {
  const Vec3<T> O = origin_of(m.s, w, m.s.body_link[tree.first]);
  Vec3<T> sum = zero3<T>();
  T mass(0);
  for (int b = tree.first; b < tree.end; ++b) {
    sum += centre_from(m, b, O, w) * T(m.theta.body_mass[b]);
    mass += T(m.theta.body_mass[b]);
  }
  const Mask<T> some = mass > T(0);
  const T inv = T(1) / select(some, mass, T(1));
  return {O, select(some, sum * inv, centre_from(m, tree.first, O, w)), select(some, inv, T(0))};
}
// (O.11)  given its cotangent, add to the wrenches on the places of links and to the parameters
template <class T, class P>
FB_FN void tree_centre_adjoint(const Model<T, P>& m, BodyTree tree, const TreeCentre<T>& at,
                               Vec3<T> c_bar, Work<T>& w) {
  const Vec3<T> share = c_bar * at.inv;
  for (int b = tree.first; b < tree.end; ++b) {
    Vec3<T> x_bar = share * T(m.theta.body_mass[b]);
    if (b == tree.first) x_bar = select(at.inv > T(0), x_bar, c_bar);
    body_centre_adjoint(m, b, body_centre(m, b, w), x_bar, w);
    if (w.theta_bar) w.theta_bar->body_mass[b] += dot(share, centre_from(m, b, at.O, w) - at.c);
  }
}

// visit(body, the centre of its tree) for every body but the world
template <class T, class P, class F>
FB_INLINE void for_bodies(const Model<T, P>& m, const Work<T>& w, F&& visit) {
  for (int first = 1; first < m.s.nbody;) {
    const BodyTree tree = tree_from(m.s, first);
    const TreeCentre<T> at = tree_centre(m, tree, w);
    for (int b = tree.first; b < tree.end; ++b) visit(b, at);
    first = tree.end;
  }
}
// the same, where visit adds to the cotangent of that centre as well
template <class T, class P, class F>
FB_INLINE void for_bodies_adjoint(const Model<T, P>& m, Work<T>& w, F&& visit) {
  for (int first = 1; first < m.s.nbody;) {
    const BodyTree tree = tree_from(m.s, first);
    const TreeCentre<T> at = tree_centre(m, tree, w);
    Vec3<T> c_bar = zero3<T>();
    for (int b = tree.first; b < tree.end; ++b) visit(b, at, c_bar);
    tree_centre_adjoint(m, tree, at, c_bar, w);
    first = tree.end;
  }
}

// (O.12)  of each body its centre of mass, then that of its tree; zero for the world
template <class T, class P>
FB_FN void mass_centers(const Model<T, P>& m, T* y, const Work<T>& w) {
  for (int i = 0; i < 6; ++i) y[i] = T(0);
  for_bodies(m, w, [&](int b, const TreeCentre<T>& tree) {
    put3(tree.O + centre_from(m, b, tree.O, w), y + 6 * b);
    put3(tree.O + tree.c, y + 6 * b + 3);
  });
}
// given y_bar, add to the wrenches on the places of links and to the parameters
template <class T, class P>
FB_FN void mass_centers_adjoint(const Model<T, P>& m, const T* y_bar, Work<T>& w) {
  for_bodies_adjoint(m, w, [&](int b, const TreeCentre<T>&, Vec3<T>& tree_bar) {
    body_centre_adjoint(m, b, body_centre(m, b, w), lift3<T>(y_bar + 6 * b), w);
    tree_bar += lift3<T>(y_bar + 6 * b + 3);
  });
}

// (O.13)  R J R', the inertia of a body about its centre along the world's axes
template <class T, class P>
FB_INLINE Sym3<T> turned_inertia(const Model<T, P>& m, int b, const Mat3<T>& R) {
  const P *d = m.theta.body_inertia + 3 * b, *o = m.theta.body_inertia_products + 3 * b;
  const P J[6] = {d[0], d[1], d[2], o[0], o[1], o[2]};
  return rotate(R, J);
}
// (O.14)  given the cotangent as a symmetric matrix B, add to J and return the turn of R
template <class T, class P>
FB_FN Vec3<T> turned_inertia_adjoint(const Model<T, P>& m, int b, const Mat3<T>& R,
                                     const Sym3<T>& B, Work<T>& w) {
  const P *d = m.theta.body_inertia + 3 * b, *o = m.theta.body_inertia_products + 3 * b;
  const P J[9] = {d[0], o[0], o[1], o[0], d[1], o[2], o[1], o[2], d[2]};
  const Vec3<T> r[3] = {column(R, 0), column(R, 1), column(R, 2)};
  const Vec3<T> Br[3] = {mul(B, r[0]), mul(B, r[1]), mul(B, r[2])};
  Vec3<T> turn = zero3<T>();
  for (int k = 0; k < 3; ++k) {
    const Vec3<T> r_bar = Br[0] * T(J[k]) + Br[1] * T(J[3 + k]) + Br[2] * T(J[6 + k]);
    turn += cross(r[k], r_bar) * Real<T>(2);
    if (!w.theta_bar) continue;
    // products lie in the order xy, xz, yz
    const int i = k < 2 ? 0 : 1, j = k < 1 ? 1 : 2;
    w.theta_bar->body_inertia[3 * b + k] += dot(r[k], Br[k]);
    w.theta_bar->body_inertia_products[3 * b + k] += dot(r[i], Br[j]) * Real<T>(2);
  }
  return turn;
}
// (O.15)  inertia of each body about its tree's centre (xx, yy, zz, xy, xz, yz), its first moment and
// its mass; zero for the world
template <class T, class P>
FB_FN void com_inertias(const Model<T, P>& m, T* y, const Work<T>& w) {
  for (int i = 0; i < 10; ++i) y[i] = T(0);
  for_bodies(m, w, [&](int b, const TreeCentre<T>& tree) {
    const Sym3<T> I = turned_inertia(m, b, inertia_axes(m, b, w));
    const Vec3<T> x = centre_from(m, b, tree.O, w) - tree.c, h = x * T(m.theta.body_mass[b]);
    T* out = y + 10 * b;
    out[0] = I.xx + h.y * x.y + h.z * x.z;
    out[1] = I.yy + h.x * x.x + h.z * x.z;
    out[2] = I.zz + h.x * x.x + h.y * x.y;
    out[3] = I.xy - h.x * x.y;
    out[4] = I.xz - h.x * x.z;
    out[5] = I.yz - h.y * x.z;
    put3(h, out + 6);
    out[9] = T(m.theta.body_mass[b]);
  });
}
// (O.16)  given y_bar, add to the wrenches on the places of links and to the parameters
template <class T, class P>
FB_FN void com_inertias_adjoint(const Model<T, P>& m, const T* y_bar, Work<T>& w) {
  for_bodies_adjoint(m, w, [&](int b, const TreeCentre<T>& tree, Vec3<T>& tree_bar) {
    const T* bar = y_bar + 10 * b;
    const Sym3<T> B = halved(bar);
    inertia_axes_adjoint(m, b, turned_inertia_adjoint(m, b, inertia_axes(m, b, w), B, w), w);
    const Vec3<T> c = body_centre(m, b, w), h_bar = lift3<T>(bar + 6);
    const Vec3<T> x = centre_from(m, b, tree.O, w) - tree.c, g = steiner_gradient(B, x);
    const Vec3<T> x_bar = (h_bar + g * Real<T>(2)) * T(m.theta.body_mass[b]);
    body_centre_adjoint(m, b, c, x_bar, w);
    tree_bar -= x_bar;
    if (w.theta_bar) w.theta_bar->body_mass[b] += bar[9] + dot(h_bar, x) + dot(x, g);
  });
}

// (O.17)  angular velocity of each body, and velocity of the point of it that is at its tree's centre
// of mass; zero for the world
template <class T, class P>
FB_FN void com_velocities(const Model<T, P>& m, T* y, const Work<T>& w) {
  for (int i = 0; i < 6; ++i) y[i] = T(0);
  for_bodies(m, w, [&](int b, const TreeCentre<T>& tree) {
    const int l = m.s.body_link[b];
    const Motion<T> v = w.link[l].v;
    put3(v.ang, y + 6 * b);
    put3(v.lin + cross(v.ang, tree.c - (origin_of(m.s, w, l) - tree.O)), y + 6 * b + 3);
  });
}
// (O.18)  given y_bar, add to q_bar (tangent, nv), v_bar and to the parameters
template <class T, class P>
FB_FN void com_velocities_adjoint(const Model<T, P>& m, const T* q, const T* v, const T* y_bar,
                                  Work<T>& w, T* q_bar, T* v_bar) {
  const Layout& s = m.s;
  for (int l = 0; l < s.nlink; ++l) {
    LinkBar<T>& b = w.bar[l];
    b.w_bar = b.y_bar = b.v_bar = b.a_bar = b.pose = zero_force<T>();
  }
  for_bodies_adjoint(m, w, [&](int b, const TreeCentre<T>& tree, Vec3<T>& tree_bar) {
    const int l = s.body_link[b];
    const Vec3<T> lin_bar = lift3<T>(y_bar + 6 * b + 3),
                  arm = tree.c - (origin_of(s, w, l) - tree.O);
    w.bar[l].v_bar += Force<T>{lift3<T>(y_bar + 6 * b) + cross(arm, lin_bar), lin_bar};
    tree_bar += cross(lin_bar, w.link[l].v.ang);
  });
  T* none = w.w_rate;
  for (int d = 0; d < s.nv; ++d) none[d] = T(0);
  tree_adjoint(m, {v, none, none, nullptr}, w, q_bar, v_bar);
  if (!w.theta_bar) return;
  for (int l = 1; l < s.nlink; ++l) link_pose_adjoint(m, l, q, w);
}

}  // namespace fb::FB_ISA
