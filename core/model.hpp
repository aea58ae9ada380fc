// From parameters in body frames to placements and inertias in link frames, once per set of
// parameters. Proof: docs/derivations/model.md.
#pragma once
#include "layout.hpp"
#include "spatial.hpp"

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
template <class P>
FB_INLINE Placement<P> compose(const Placement<P>& X, const Mat3<P>& R, Vec3<P> p) {
  return {mul(X.R, R.a), X.p + mul(X.R, p)};
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

// (M.2)  place the links of one body: G is the body's frame before its joints, in the frame of the
// link below; returns it after them
template <class P>
FB_FN Placement<P> derive_joints(const Layout& s, const Theta<const P>& theta, int body,
                                 Placement<P> G, Derived<P>& out) {
  for (int j = s.body_jntadr[body]; j < s.body_jntadr[body] + s.body_jntnum[body]; ++j) {
    const int link = s.jnt_link[j], type = s.jnt_type[j];
    if (type == kFree) {
      // a free joint's position is the world's; the placement is not used
      store<P>({identity3<P>(), zero3<P>()}, out.link_R + 9 * link, out.link_p + 3 * link);
      G = {identity3<P>(), zero3<P>()};
      continue;
    }
    const Vec3<P> anchor = lift3<P>(theta.jnt_pos + 3 * j);
    const Mat3<P> F = type == kBall ? identity3<P>() : axis_frame(theta.jnt_axis + 3 * j);
    store(compose(G, F, anchor), out.link_R + 9 * link, out.link_p + 3 * link);
    // the body seen from its link: F' (x - anchor)
    for (int r = 0; r < 3; ++r)
      for (int c = 0; c < 3; ++c) G.R.a[3 * r + c] = F.a[3 * c + r];
    G.p = -mul_transposed(F, anchor);
  }
  return G;
}

// (M.3)  add a body's mass, first moment and inertia about the link's origin, in link axes
template <class P>
FB_FN void derive_inertia(const Theta<const P>& theta, int body, const Placement<P>& X, P* mass,
                          P* mc, P* Io) {
  const P m = theta.body_mass[body];
  const Vec3<P> c = X.p + mul(X.R, lift3<P>(theta.body_ipos + 3 * body));
  const Mat3<P> R = mul(X.R, rotation_of(theta.body_iquat + 4 * body).a);
  const P* d = theta.body_inertia + 3 * body;
  const P J[6] = {d[0], d[1], d[2], P(0), P(0), P(0)};
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

// radius of the sphere about the geom's centre that holds it; a plane has none
template <class P>
FB_INLINE P bounding_radius(int type, const P* size, P hull_radius) {
  enum {
    kPlane = 0,
    kSphere = 2,
    kCapsule = 3,
    kEllipsoid = 4,
    kCylinder = 5,
    kBox = 6,
    kMesh = 7
  };
  if (type == kSphere) return size[0];
  if (type == kCapsule) return size[0] + size[1];
  if (type == kEllipsoid) return max(size[0], max(size[1], size[2]));
  if (type == kCylinder) return sqrt(size[0] * size[0] + size[1] * size[1]);
  if (type == kBox) return sqrt(size[0] * size[0] + size[1] * size[1] + size[2] * size[2]);
  return type == kMesh ? hull_radius : P(0);
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
    R far(0);
    for (int k = 0; k < s.geom_nvert[g]; ++k) {
      const R* x = vert + 3 * (s.geom_vert[g] + k);
      far = max(far, x[0] * x[0] + x[1] * x[1] + x[2] * x[2]);
    }
    out.geom_radius[g] = bounding_radius<P>(s.geom_type[g], theta.geom_size + 3 * g, P(sqrt(far)));
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
                                               : max(fa, fb);
    out.pair_restitution[k] = max(theta.geom_restitution[a], theta.geom_restitution[b]);
    out.pair_compliance[k] = theta.contact_compliance[a] + theta.contact_compliance[b];
  }
}

// (M.6)  equality anchors: the two frames that a connect or weld holds together, in their links
template <class P>
FB_FN void derive_equalities(const Layout& s, const Theta<const P>& theta, Derived<P>& out) {
  for (int e = 0; e < s.neq; ++e) {
    if (s.eq_type[e] == kJointEquality || s.eq_type[e] == kNoEquality) continue;
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

}  // namespace fb::FB_ISA
