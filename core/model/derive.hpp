// From parameters in body frames to placements and inertias in link frames, once per set of
// parameters. Proof: docs/derivations/model.md.
#pragma once
#include "core/dynamics/joint.hpp"
#include "core/model/layout.hpp"
#include "core/model/mesh.hpp"
#include "core/model/pair.hpp"

namespace fb::FB_ISA {

template <class P>
struct Placement {
  Mat3<P> R;
  Vec3<P> p;
};

template <class P>
FB_INLINE Mat3<P> rotation_of(const P* quat) {
  const P n = sqrt(quat[0] * quat[0] + quat[1] * quat[1] + quat[2] * quat[2] + quat[3] * quat[3]);
  const P i = P(1) / select(n > P(0), n, P(1));
  return rotation<P>(quat[0] * i, quat[1] * i, quat[2] * i, quat[3] * i);
}
// given the cotangent of the matrix, add to that of the quaternion, normalisation included
template <class P>
FB_FN void rotation_of_adjoint(const P* quat, const Mat3<P>& R_bar, P* quat_bar) {
  const P n = sqrt(quat[0] * quat[0] + quat[1] * quat[1] + quat[2] * quat[2] + quat[3] * quat[3]);
  const P i = P(1) / select(n > P(0), n, P(1));
  const P w = quat[0] * i, x = quat[1] * i, y = quat[2] * i, z = quat[3] * i;
  const P* b = R_bar.a;
  const Vec3<P> skew{b[7] - b[5], b[2] - b[6], b[3] - b[1]};
  // R = 1 + 2 w [v] + 2 [v]^2 on unit quaternions
  const P u[4] = {w, x, y, z};
  const P g[4] = {
      (skew.x * x + skew.y * y + skew.z * z) * Real<P>(2),
      (skew.x * w + (b[1] + b[3]) * y + (b[2] + b[6]) * z - (b[4] + b[8]) * x * Real<P>(2)) *
          Real<P>(2),
      (skew.y * w + (b[1] + b[3]) * x + (b[5] + b[7]) * z - (b[0] + b[8]) * y * Real<P>(2)) *
          Real<P>(2),
      (skew.z * w + (b[2] + b[6]) * x + (b[5] + b[7]) * y - (b[0] + b[4]) * z * Real<P>(2)) *
          Real<P>(2)};
  const P along = g[0] * w + g[1] * x + g[2] * y + g[3] * z;
  for (int k = 0; k < 4; ++k) quat_bar[k] += (g[k] - u[k] * along) * i;
}
template <class P>
FB_INLINE Placement<P> zero_placement() {
  Placement<P> X;
  for (P& e : X.R.a) e = P(0);
  X.p = zero3<P>();
  return X;
}
// A += x y'
template <class P>
FB_INLINE void add_outer(Mat3<P>& A, Vec3<P> x, Vec3<P> y) {
  const P u[3] = {x.x, x.y, x.z}, v[3] = {y.x, y.y, y.z};
  for (int r = 0; r < 3; ++r)
    for (int c = 0; c < 3; ++c) A.a[3 * r + c] += u[r] * v[c];
}
// A += B C'
template <class P>
FB_INLINE void add_product_transposed(Mat3<P>& A, const Mat3<P>& B, const Mat3<P>& C) {
  for (int r = 0; r < 3; ++r)
    for (int c = 0; c < 3; ++c)
      A.a[3 * r + c] += dot3(B.a[3 * r], B.a[3 * r + 1], B.a[3 * r + 2], C.a[3 * c], C.a[3 * c + 1],
                             C.a[3 * c + 2]);
}
template <class P>
FB_INLINE void add(Mat3<P>& A, const Mat3<P>& B) {
  for (int e = 0; e < 9; ++e) A.a[e] += B.a[e];
}
template <class P>
FB_INLINE Placement<P> compose(const Placement<P>& X, const Mat3<P>& R, Vec3<P> p) {
  return {mul(X.R, R.a), X.p + mul(X.R, p)};
}
// given the cotangent of X (R, p), add to those of X, R and p
template <class P>
FB_INLINE void compose_adjoint(const Placement<P>& X, const Mat3<P>& R, Vec3<P> p,
                               const Placement<P>& out_bar, Placement<P>& X_bar, Mat3<P>& R_bar,
                               Vec3<P>& p_bar) {
  add_product_transposed(X_bar.R, out_bar.R, R);
  add_outer(X_bar.R, out_bar.p, p);
  X_bar.p += out_bar.p;
  add(R_bar, mul_transposed(X.R, out_bar.R));
  p_bar += mul_transposed(X.R, out_bar.p);
}
template <class P>
FB_INLINE Placement<P> placement_at(const P* R, const P* p) {
  Placement<P> X;
  for (int e = 0; e < 9; ++e) X.R.a[e] = R[e];
  X.p = lift3<P>(p);
  return X;
}
template <class P>
FB_INLINE void store(const Placement<P>& X, P* R, P* p) {
  for (int e = 0; e < 9; ++e) R[e] = X.R.a[e];
  p[0] = X.p.x;
  p[1] = X.p.y;
  p[2] = X.p.z;
}

// (M.1)  a rotation whose third column is the unit vector along the axis; the first two are free,
// since the joint turns about the third
template <class P>
FB_FN Mat3<P> axis_frame(const P* axis) {
  const Vec3<P> raw = lift3<P>(axis);
  const P n = norm(raw);
  const Vec3<P> z = raw * (P(1) / select(n > P(0), n, P(1)));
  // the world axis least aligned with z gives the first column
  const Mask<P> use_x = (abs(z.x) <= abs(z.y)) & (abs(z.x) <= abs(z.z));
  const Mask<P> use_y = abs(z.y) <= abs(z.z);
  const Vec3<P> ex{P(1), P(0), P(0)}, ey{P(0), P(1), P(0)}, ez{P(0), P(0), P(1)};
  const Vec3<P> e = select(use_x, ex, select(use_y, ey, ez));
  const Vec3<P> t = cross(e, z);
  const Vec3<P> x = t * (P(1) / norm(t));
  const Vec3<P> y = cross(z, x);
  return {{x.x, y.x, z.x, x.y, y.y, z.y, x.z, y.z, z.z}};
}

// given the cotangent of the frame, add to that of the axis
template <class P>
FB_FN void axis_frame_adjoint(const P* axis, const Mat3<P>& F_bar, P* axis_bar) {
  const Vec3<P> raw = lift3<P>(axis);
  const P n = norm(raw);
  const P inv = P(1) / select(n > P(0), n, P(1));
  const Mat3<P> F = axis_frame(axis);
  const Vec3<P> x = column(F, 0), z = column(F, 2), y_bar = column(F_bar, 1);
  const Mask<P> use_x = (abs(z.x) <= abs(z.y)) & (abs(z.x) <= abs(z.z));
  const Mask<P> use_y = abs(z.y) <= abs(z.z);
  const Vec3<P> ex{P(1), P(0), P(0)}, ey{P(0), P(1), P(0)}, ez{P(0), P(0), P(1)};
  const Vec3<P> e = select(use_x, ex, select(use_y, ey, ez));
  // y = z x x, x = t / |t|, t = e x z, z = raw / |raw|
  const Vec3<P> x_bar = column(F_bar, 0) + cross(y_bar, z);
  const Vec3<P> t_bar = (x_bar - x * dot(x, x_bar)) * (P(1) / norm(cross(e, z)));
  const Vec3<P> z_bar = column(F_bar, 2) + cross(x, y_bar) + cross(t_bar, e);
  const Vec3<P> g = (z_bar - z * dot(z, z_bar)) * inv;
  axis_bar[0] += g.x;
  axis_bar[1] += g.y;
  axis_bar[2] += g.z;
}

// rotation of joint j's frame in its body
template <class P>
FB_INLINE Mat3<P> joint_frame(const Layout& s, const Theta<const P>& theta, int j) {
  return joint_has_axis(s.jnt_type[j]) ? axis_frame(theta.jnt_axis + 3 * j) : identity3<P>();
}
// the body's frame after joint j, in that joint's link: F' and -F' anchor
template <class P>
FB_INLINE Placement<P> after_joint(const Layout& s, const Theta<const P>& theta, int j) {
  if (!joint_placed(s.jnt_type[j])) return {identity3<P>(), zero3<P>()};
  const Mat3<P> F = joint_frame(s, theta, j);
  Placement<P> G;
  for (int r = 0; r < 3; ++r)
    for (int c = 0; c < 3; ++c) G.R.a[3 * r + c] = F.a[3 * c + r];
  G.p = -mul_transposed(F, lift3<P>(theta.jnt_pos + 3 * j));
  return G;
}

// (M.2)  place the links of one body: G is the body's frame before its joints, in the frame of the
// link below; returns it after them
template <class P>
FB_FN Placement<P> derive_joints(const Layout& s, const Theta<const P>& theta, int body,
                                 Placement<P> G, Derived<P>& out) {
  for (int j = s.body_jntadr[body]; j < s.body_jntadr[body] + s.body_jntnum[body]; ++j) {
    const int link = s.jnt_link[j];
    if (!joint_placed(s.jnt_type[j])) {
      // its position is the world's; the placement is not used
      store<P>({identity3<P>(), zero3<P>()}, out.link_R + 9 * link, out.link_p + 3 * link);
      G = {identity3<P>(), zero3<P>()};
      continue;
    }
    const Vec3<P> anchor = lift3<P>(theta.jnt_pos + 3 * j);
    const Mat3<P> F = joint_frame(s, theta, j);
    store(compose(G, F, anchor), out.link_R + 9 * link, out.link_p + 3 * link);
    // the body seen from its link: F' (x - anchor)
    G = after_joint(s, theta, j);
  }
  return G;
}

// (M.7)  given the cotangent of the frame after the joints and those of the links, add to jnt_pos
// and jnt_axis; returns the cotangent of the frame before the joints
template <class P>
FB_FN Placement<P> derive_joints_adjoint(const Layout& s, const Theta<const P>& theta, int body,
                                         const Placement<P>& G, const Derived<P>& bar,
                                         Placement<P> G_bar, Theta<P>& theta_bar) {
  const int first = s.body_jntadr[body];
  for (int j = first + s.body_jntnum[body] - 1; j >= first; --j) {
    const int link = s.jnt_link[j];
    Placement<P> before_bar = zero_placement<P>();
    if (!joint_placed(s.jnt_type[j])) return before_bar;
    const Vec3<P> anchor = lift3<P>(theta.jnt_pos + 3 * j);
    const Mat3<P> F = joint_frame(s, theta, j);
    Mat3<P> F_bar = zero_placement<P>().R;
    // after the joint: R = F', p = -F' anchor
    for (int r = 0; r < 3; ++r)
      for (int c = 0; c < 3; ++c) F_bar.a[3 * c + r] += G_bar.R.a[3 * r + c];
    add_outer(F_bar, -anchor, G_bar.p);
    Vec3<P> anchor_bar = -mul(F, G_bar.p);
    const Placement<P> link_bar = placement_at(bar.link_R + 9 * link, bar.link_p + 3 * link);
    compose_adjoint(j == first ? G : after_joint(s, theta, j - 1), F, anchor, link_bar, before_bar,
                    F_bar, anchor_bar);
    if (joint_has_axis(s.jnt_type[j]))
      axis_frame_adjoint(theta.jnt_axis + 3 * j, F_bar, theta_bar.jnt_axis + 3 * j);
    theta_bar.jnt_pos[3 * j] += anchor_bar.x;
    theta_bar.jnt_pos[3 * j + 1] += anchor_bar.y;
    theta_bar.jnt_pos[3 * j + 2] += anchor_bar.z;
    G_bar = before_bar;
  }
  return G_bar;
}

// (M.3)  add a body's mass, first moment and inertia about the link's origin, in link axes
template <class P>
FB_FN void derive_inertia(const Theta<const P>& theta, int body, const Placement<P>& X, P* mass,
                          P* mc, P* Io) {
  const P m = theta.body_mass[body];
  const Vec3<P> c = X.p + mul(X.R, lift3<P>(theta.body_ipos + 3 * body));
  const Mat3<P> R = mul(X.R, rotation_of(theta.body_iquat + 4 * body).a);
  const P *d = theta.body_inertia + 3 * body, *o = theta.body_inertia_products + 3 * body;
  const P J[6] = {d[0], d[1], d[2], o[0], o[1], o[2]};
  const Sym3<P> I = rotate(R, J);
  const Vec3<P> h = c * m;
  *mass += m;
  mc[0] += h.x;
  mc[1] += h.y;
  mc[2] += h.z;
  Io[0] += I.xx + h.y * c.y + h.z * c.z;
  Io[1] += I.yy + h.x * c.x + h.z * c.z;
  Io[2] += I.zz + h.x * c.x + h.y * c.y;
  Io[3] += I.xy - h.x * c.y;
  Io[4] += I.xz - h.x * c.z;
  Io[5] += I.yz - h.y * c.z;
}

// the symmetric matrix B whose pairing with a symmetric matrix is that of six cotangents, and tr(B)
// c - B c
template <class P>
FB_INLINE Sym3<P> halved(const P* b) {
  const Real<P> h(0.5);
  return {b[0], b[1], b[2], b[3] * h, b[4] * h, b[5] * h};
}
template <class P>
FB_INLINE Vec3<P> steiner_gradient(const Sym3<P>& B, Vec3<P> c) {
  return c * (B.xx + B.yy + B.zz) - mul(B, c);
}
// cotangents of a link's sums: mass, first moment, inertia about its origin
template <class P>
struct SumBars {
  P mass;
  const P *mc, *Io;
};
// (M.8)  given the cotangents of the sums, add to the body's parameters and to X_bar
template <class P>
FB_FN void derive_inertia_adjoint(const Theta<const P>& theta, int body, const Placement<P>& X,
                                  const SumBars<P>& sums, Placement<P>& X_bar,
                                  Theta<P>& theta_bar) {
  const P m = theta.body_mass[body];
  const Vec3<P> ipos = lift3<P>(theta.body_ipos + 3 * body), c = X.p + mul(X.R, ipos);
  const Mat3<P> Q = rotation_of(theta.body_iquat + 4 * body), R = mul(X.R, Q.a);
  const P *d = theta.body_inertia + 3 * body, *o = theta.body_inertia_products + 3 * body;
  const Sym3<P> B = halved(sums.Io);
  const Vec3<P> g = steiner_gradient(B, c), mc = lift3<P>(sums.mc);
  theta_bar.body_mass[body] += sums.mass + dot(mc, c) + dot(c, g);
  const Vec3<P> c_bar = (mc + g * Real<P>(2)) * m;
  // I = R J R'
  const Vec3<P> r[3] = {column(R, 0), column(R, 1), column(R, 2)};
  const Vec3<P> Br[3] = {mul(B, r[0]), mul(B, r[1]), mul(B, r[2])};
  const P J[9] = {d[0], o[0], o[1], o[0], d[1], o[2], o[1], o[2], d[2]};
  Mat3<P> R_bar;
  for (int k = 0; k < 3; ++k) {
    theta_bar.body_inertia[3 * body + k] += dot(r[k], Br[k]);
    // products lie in the order xy, xz, yz
    const int i = k < 2 ? 0 : 1, j = k < 1 ? 1 : 2;
    theta_bar.body_inertia_products[3 * body + k] += dot(r[i], Br[j]) * Real<P>(2);
    const Vec3<P> col = (Br[0] * J[k] + Br[1] * J[3 + k] + Br[2] * J[6 + k]) * Real<P>(2);
    R_bar.a[k] = col.x;
    R_bar.a[3 + k] = col.y;
    R_bar.a[6 + k] = col.z;
  }
  add_product_transposed(X_bar.R, R_bar, Q);
  rotation_of_adjoint(theta.body_iquat + 4 * body, mul_transposed(X.R, R_bar),
                      theta_bar.body_iquat + 4 * body);
  X_bar.p += c_bar;
  add_outer(X_bar.R, c_bar, ipos);
  const Vec3<P> i = mul_transposed(X.R, c_bar);
  theta_bar.body_ipos[3 * body] += i.x;
  theta_bar.body_ipos[3 * body + 1] += i.y;
  theta_bar.body_ipos[3 * body + 2] += i.z;
}

// (M.4)  from sums about the link's origin to centre of mass and inertia about it
template <class P>
FB_FN void derive_centre(P mass, P* com, P* I) {
  const P inv = P(1) / select(mass > P(0), mass, P(1));
  const Vec3<P> c{com[0] * inv, com[1] * inv, com[2] * inv};
  const Vec3<P> h = c * mass;
  I[0] -= h.y * c.y + h.z * c.z;
  I[1] -= h.x * c.x + h.z * c.z;
  I[2] -= h.x * c.x + h.y * c.y;
  I[3] += h.x * c.y;
  I[4] += h.x * c.z;
  I[5] += h.y * c.z;
  com[0] = c.x;
  com[1] = c.y;
  com[2] = c.z;
}

// (M.9)  cotangents of (mass, centre, inertia about it)
// become those of the sums, in place; com is the centre
template <class P>
FB_FN void derive_centre_adjoint(P mass, const P* com, P& mass_bar, P* com_bar, const P* I_bar) {
  const P inv = P(1) / select(mass > P(0), mass, P(1));
  const Vec3<P> c = lift3<P>(com), g = steiner_gradient(halved(I_bar), c);
  const Vec3<P> c_bar = lift3<P>(com_bar) - g * (mass * Real<P>(2));
  mass_bar -= dot(c, g) + dot(c, c_bar) * inv;
  com_bar[0] = c_bar.x * inv;
  com_bar[1] = c_bar.y * inv;
  com_bar[2] = c_bar.z * inv;
}

// radius of the sphere about the geom's centre that holds it; a plane has none
template <class P>
FB_INLINE P bounding_radius(int type, const P* size, P hull_radius) {
  if (type == kSphere) return size[0];
  if (type == kCapsule) return size[0] + size[1];
  if (type == kEllipsoid) return max(size[0], max(size[1], size[2]));
  if (type == kCylinder) return sqrt(size[0] * size[0] + size[1] * size[1]);
  if (type == kBox) return sqrt(size[0] * size[0] + size[1] * size[1] + size[2] * size[2]);
  return type == kMesh || type == kHfield ? hull_radius : P(0);
}

// distance of the farthest corner of a box around a height field from its middle
template <class P, class R>
FB_FN P field_radius(const P* size, const R* field) {
  const P depth = P(field[kMeshFrame] / field[14]), z = size[2] * max(depth, P(1));
  return sqrt(size[0] * size[0] + size[1] * size[1] + z * z);
}
// the box that holds a geom, in its frame: centre and half sizes.  Neither planes nor fields have one
template <class P>
FB_INLINE void bounding_box(int type, const P* size, P* box) {
  const bool round = type == kSphere || type == kCapsule || type == kCylinder;
  for (int i = 0; i < 3; ++i) {
    box[i] = P(0);
    box[3 + i] = round ? size[0] : size[i];
  }
  if (type == kCapsule) box[5] = size[0] + size[1];
  if (type == kCylinder) box[5] = size[1];
}
// a mesh geom: the distance of its farthest vertex from the origin of its frame, and its box there
template <class P, class R>
FB_FN P hull_bounds(const Layout& s, const Theta<const P>& theta, const R* vert, int g, P* box) {
  const R* mesh = vert + 3 * s.geom_vert[g];
  const MeshMap<P> map =
      mesh_map<P>(mesh, mesh_stretch<P>(mesh, theta.mesh_scale + 3 * s.geom_mesh[g]));
  P far(0), low[3] = {far, far, far}, high[3] = {far, far, far};
  for (int k = 0; k < s.geom_nvert[g]; ++k) {
    const Vec3<P> v = mesh_vertex<P>(mesh, map, k);
    const P x[3] = {v.x, v.y, v.z};
    far = max(far, x[0] * x[0] + x[1] * x[1] + x[2] * x[2]);
    for (int i = 0; i < 3; ++i) {
      low[i] = k == 0 ? x[i] : min(low[i], x[i]);
      high[i] = k == 0 ? x[i] : max(high[i], x[i]);
    }
  }
  for (int i = 0; i < 3; ++i) {
    box[i] = (low[i] + high[i]) * Real<P>(0.5);
    box[3 + i] = (high[i] - low[i]) * Real<P>(0.5);
  }
  return sqrt(far);
}
// sphere and box around a geom
template <class P, class R>
FB_FN void bound_geom(const Layout& s, const Theta<const P>& theta, const R* vert, int g,
                      Derived<P>& out) {
  const int type = s.geom_type[g];
  P *box = out.geom_box + 6 * g, hull_radius(0);
  bounding_box(type, theta.geom_size + 3 * g, box);
  if (s.geom_nvert[g] > 0)
    hull_radius = type == kHfield ? field_radius(asset_size(s, theta, g), vert + 3 * s.geom_vert[g])
                                  : hull_bounds(s, theta, vert, g, box);
  out.geom_radius[g] = bounding_radius<P>(type, theta.geom_size + 3 * g, hull_radius);
}

// (M.5)  geoms, sites and pairs: frames in their links, combined coefficients
template <class P, class R>
FB_FN void derive_shapes(const Layout& s, const Theta<const P>& theta, const R* vert,
                         Derived<P>& out) {
  for (int g = 0; g < s.ngeom; ++g) {
    const int b = s.geom_body[g];
    const Placement<P> X = placement_at(out.body_R + 9 * b, out.body_p + 3 * b);
    store(compose(X, rotation_of(theta.geom_quat + 4 * g), lift3<P>(theta.geom_pos + 3 * g)),
          out.geom_R + 9 * g, out.geom_p + 3 * g);
    bound_geom(s, theta, vert, g, out);
  }
  for (int k = 0; k < s.nsite; ++k) {
    const int b = s.site_body[k];
    const Placement<P> X = placement_at(out.body_R + 9 * b, out.body_p + 3 * b);
    store(compose(X, rotation_of(theta.site_quat + 4 * k), lift3<P>(theta.site_pos + 3 * k)),
          out.site_R + 9 * k, out.site_p + 3 * k);
  }
  for (int k = 0; k < s.npair; ++k) {
    const int a = s.pair_geom1[k], b = s.pair_geom2[k];
    const P fa = theta.geom_friction[3 * a], fb = theta.geom_friction[3 * b];
    const int rule = s.pair_rule[k];
    out.pair_mu[k] = rule == kOwnFriction      ? theta.pair_friction[k]
                     : rule == kFirstFriction  ? fa
                     : rule == kSecondFriction ? fb
                                               : larger(fa, fb);
    out.pair_restitution[k] = larger(theta.geom_restitution[a], theta.geom_restitution[b]);
    out.pair_compliance[k] = theta.contact_compliance[a] + theta.contact_compliance[b];
  }
}

// position and rotation of a thing on a body, or their cotangents
template <class P>
struct Attachment {
  P *pos, *quat;
};
// given the cotangent of its frame in the link, add to its own and to the body's
template <class P>
FB_INLINE void attach_adjoint(const Placement<P>& X, const Attachment<const P>& at,
                              const Placement<P>& out_bar, int body, Derived<P>& bar,
                              const Attachment<P>& at_bar) {
  Placement<P> X_bar = zero_placement<P>();
  Mat3<P> R_bar = zero_placement<P>().R;
  Vec3<P> p_bar = zero3<P>();
  compose_adjoint(X, rotation_of(at.quat), lift3<P>(at.pos), out_bar, X_bar, R_bar, p_bar);
  rotation_of_adjoint(at.quat, R_bar, at_bar.quat);
  add3(p_bar, at_bar.pos);
  const Placement<P> now = placement_at(bar.body_R + 9 * body, bar.body_p + 3 * body);
  add(X_bar.R, now.R);
  store<P>({X_bar.R, X_bar.p + now.p}, bar.body_R + 9 * body, bar.body_p + 3 * body);
}
// (M.10)  given cotangents of geoms, sites and pairs, add to their parameters and to the bodies'
// frames. Where two frictions or restitutions tie in a maximum, each takes half
template <class P>
FB_FN void derive_shapes_adjoint(const Layout& s, const Theta<const P>& theta,
                                 const Derived<const P>& value, Derived<P>& bar,
                                 Theta<P>& theta_bar) {
  const auto body_at = [&](int b) {
    return placement_at(value.body_R + 9 * b, value.body_p + 3 * b);
  };
  for (int g = 0; g < s.ngeom; ++g)
    attach_adjoint<P>(body_at(s.geom_body[g]), {theta.geom_pos + 3 * g, theta.geom_quat + 4 * g},
                      placement_at(bar.geom_R + 9 * g, bar.geom_p + 3 * g), s.geom_body[g], bar,
                      {theta_bar.geom_pos + 3 * g, theta_bar.geom_quat + 4 * g});
  for (int k = 0; k < s.nsite; ++k)
    attach_adjoint<P>(body_at(s.site_body[k]), {theta.site_pos + 3 * k, theta.site_quat + 4 * k},
                      placement_at(bar.site_R + 9 * k, bar.site_p + 3 * k), s.site_body[k], bar,
                      {theta_bar.site_pos + 3 * k, theta_bar.site_quat + 4 * k});
  for (int k = 0; k < s.npair; ++k) {
    const int a = s.pair_geom1[k], b = s.pair_geom2[k], rule = s.pair_rule[k];
    P &fa = theta_bar.geom_friction[3 * a], &fb = theta_bar.geom_friction[3 * b];
    if (rule == kOwnFriction) theta_bar.pair_friction[k] += bar.pair_mu[k];
    if (rule == kFirstFriction) fa += bar.pair_mu[k];
    if (rule == kSecondFriction) fb += bar.pair_mu[k];
    if (rule == kLargerFriction)
      add_larger_bar(theta.geom_friction[3 * a], theta.geom_friction[3 * b], bar.pair_mu[k], fa,
                     fb);
    add_larger_bar(theta.geom_restitution[a], theta.geom_restitution[b], bar.pair_restitution[k],
                   theta_bar.geom_restitution[a], theta_bar.geom_restitution[b]);
    theta_bar.contact_compliance[a] += bar.pair_compliance[k];
    theta_bar.contact_compliance[b] += bar.pair_compliance[k];
  }
}

// whether an equality holds two bodies together
FB_INLINE bool joins_bodies(int type) { return type == kConnect || type == kWeld; }

// (M.6)  equality anchors: the two frames that a connect or weld holds together, in their links
template <class P>
FB_FN void derive_equalities(const Layout& s, const Theta<const P>& theta, Derived<P>& out) {
  for (int e = 0; e < s.neq; ++e) {
    store<P>({identity3<P>(), zero3<P>()}, out.eq_R1 + 9 * e, out.eq_p1 + 3 * e);
    store<P>({identity3<P>(), zero3<P>()}, out.eq_R2 + 9 * e, out.eq_p2 + 3 * e);
    if (!joins_bodies(s.eq_type[e])) continue;
    const P* data = theta.eq_data + 11 * e;
    const bool weld = s.eq_type[e] == kWeld;
    const int a = s.eq_obj1[e], b = s.eq_obj2[e];
    if (s.eq_site[e]) {
      store(placement_at(out.site_R + 9 * a, out.site_p + 3 * a), out.eq_R1 + 9 * e,
            out.eq_p1 + 3 * e);
      store(placement_at(out.site_R + 9 * b, out.site_p + 3 * b), out.eq_R2 + 9 * e,
            out.eq_p2 + 3 * e);
      continue;
    }
    const Placement<P> X1 = placement_at(out.body_R + 9 * a, out.body_p + 3 * a);
    const Placement<P> X2 = placement_at(out.body_R + 9 * b, out.body_p + 3 * b);
    const Mat3<P> turn = weld ? rotation_of(data + 6) : identity3<P>();
    store(compose(X1, turn, lift3<P>(weld ? data + 3 : data)), out.eq_R1 + 9 * e,
          out.eq_p1 + 3 * e);
    store(compose(X2, identity3<P>(), lift3<P>(weld ? data : data + 3)), out.eq_R2 + 9 * e,
          out.eq_p2 + 3 * e);
  }
}

// (M.12)  given cotangents of the two frames, add to eq_data and to the frames they are made of
template <class P>
FB_FN void derive_equalities_adjoint(const Layout& s, const Theta<const P>& theta,
                                     const Derived<const P>& value, Derived<P>& bar,
                                     Theta<P>& theta_bar) {
  const auto pass = [&](const Placement<P>& out_bar, P* R, P* p) {
    Placement<P> now = placement_at<P>(R, p);
    add(now.R, out_bar.R);
    store<P>({now.R, now.p + out_bar.p}, R, p);
  };
  for (int e = 0; e < s.neq; ++e) {
    if (!joins_bodies(s.eq_type[e])) continue;
    const bool weld = s.eq_type[e] == kWeld;
    const int obj[2] = {s.eq_obj1[e], s.eq_obj2[e]};
    const P* data = theta.eq_data + 11 * e;
    P* data_bar = theta_bar.eq_data + 11 * e;
    const Placement<P> out_bar[2] = {placement_at<P>(bar.eq_R1 + 9 * e, bar.eq_p1 + 3 * e),
                                     placement_at<P>(bar.eq_R2 + 9 * e, bar.eq_p2 + 3 * e)};
    for (int side = 0; side < 2; ++side) {
      const int b = obj[side];
      if (s.eq_site[e]) {
        pass(out_bar[side], bar.site_R + 9 * b, bar.site_p + 3 * b);
        continue;
      }
      const int at = (side == 0) == weld ? 3 : 0;
      const Mat3<P> turn = weld && side == 0 ? rotation_of(data + 6) : identity3<P>();
      Placement<P> X_bar = zero_placement<P>();
      Mat3<P> R_bar = zero_placement<P>().R;
      Vec3<P> p_bar = zero3<P>();
      compose_adjoint(placement_at(value.body_R + 9 * b, value.body_p + 3 * b), turn,
                      lift3<P>(data + at), out_bar[side], X_bar, R_bar, p_bar);
      if (weld && side == 0) rotation_of_adjoint(data + 6, R_bar, data_bar + 6);
      data_bar[at] += p_bar.x;
      data_bar[at + 1] += p_bar.y;
      data_bar[at + 2] += p_bar.z;
      pass(X_bar, bar.body_R + 9 * b, bar.body_p + 3 * b);
    }
  }
}

// fill `out` from `theta`
template <class P, class R>
FB_FN void derive(const Layout& s, const Theta<const P>& theta, const R* vert, Derived<P>& out) {
  for (int l = 0; l < s.nlink; ++l) {
    store<P>({identity3<P>(), zero3<P>()}, out.link_R + 9 * l, out.link_p + 3 * l);
    out.link_mass[l] = P(0);
    for (int e = 0; e < 3; ++e) out.link_com[3 * l + e] = P(0);
    for (int e = 0; e < 6; ++e) out.link_I[6 * l + e] = P(0);
  }
  store<P>({identity3<P>(), zero3<P>()}, out.body_R, out.body_p);
  for (int b = 1; b < s.nbody; ++b) {
    const int parent = s.body_parent[b], link = s.body_link[b];
    const Placement<P> X = placement_at(out.body_R + 9 * parent, out.body_p + 3 * parent);
    const Placement<P> G =
        compose(X, rotation_of(theta.body_quat + 4 * b), lift3<P>(theta.body_pos + 3 * b));
    const Placement<P> B = derive_joints(s, theta, b, G, out);
    store(B, out.body_R + 9 * b, out.body_p + 3 * b);
    if (link > 0)
      derive_inertia(theta, b, B, out.link_mass + link, out.link_com + 3 * link,
                     out.link_I + 6 * link);
  }
  for (int l = 1; l < s.nlink; ++l)
    derive_centre(out.link_mass[l], out.link_com + 3 * l, out.link_I + 6 * l);
  derive_shapes(s, theta, vert, out);
  derive_equalities(s, theta, out);
}

// (M.11)  given the cotangents of all derived values, which it uses up, add to theta_bar
template <class P>
FB_FN void derive_adjoint(const Layout& s, const Theta<const P>& theta,
                          const Derived<const P>& value, Derived<P>& bar, Theta<P>& theta_bar) {
  // equalities first: those between sites add to the sites
  derive_equalities_adjoint(s, theta, value, bar, theta_bar);
  derive_shapes_adjoint(s, theta, value, bar, theta_bar);
  for (int l = 1; l < s.nlink; ++l)
    derive_centre_adjoint<P>(value.link_mass[l], value.link_com + 3 * l, bar.link_mass[l],
                             bar.link_com + 3 * l, bar.link_I + 6 * l);
  for (int b = s.nbody - 1; b > 0; --b) {
    const int parent = s.body_parent[b], link = s.body_link[b];
    const Placement<P> X = placement_at(value.body_R + 9 * b, value.body_p + 3 * b);
    const Placement<P> U = placement_at(value.body_R + 9 * parent, value.body_p + 3 * parent);
    Placement<P> X_bar = placement_at(bar.body_R + 9 * b, bar.body_p + 3 * b);
    if (link > 0)
      derive_inertia_adjoint<P>(
          theta, b, X, {bar.link_mass[link], bar.link_com + 3 * link, bar.link_I + 6 * link}, X_bar,
          theta_bar);
    const Mat3<P> Q = rotation_of(theta.body_quat + 4 * b);
    const Placement<P> G = compose(U, Q, lift3<P>(theta.body_pos + 3 * b));
    const Placement<P> G_bar = derive_joints_adjoint(s, theta, b, G, bar, X_bar, theta_bar);
    attach_adjoint<P>(U, {theta.body_pos + 3 * b, theta.body_quat + 4 * b}, G_bar, parent, bar,
                      {theta_bar.body_pos + 3 * b, theta_bar.body_quat + 4 * b});
  }
}

}  // namespace fb::FB_ISA
