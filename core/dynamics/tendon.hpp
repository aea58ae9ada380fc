// Tendons: lengths and their moments, the forces of springs, dampers and actuators on them, and the
// damping that the step treats implicitly.  Proof: docs/derivations/tendon.md.
#pragma once
#include "core/dynamics/actuation.hpp"
#include "core/dynamics/dynamics.hpp"
#include "core/dynamics/tendon_wrap.hpp"

namespace fb::FB_ISA {

// visit(k, d): entry k of the moments and its dof, for every dof that a tendon moves with; descending
template <class F>
FB_INLINE void for_tendon_dofs(const Layout& s, int t, F&& visit) {
  const int first = s.tendon_dofadr[t];
  for (int k = first; k < first + s.tendon_dofnum[t]; ++k) visit(k, s.tendon_dof[k]);
}

// (E.1)  a fixed tendon: length = sum coef q, J = coef
template <class T, class P>
FB_FN void fixed_tendon(const Model<T, P>& m, int t, const T* q, TendonWork<T>& y) {
  const Layout& s = m.s;
  for (int i = s.tendon_adr[t]; i < s.tendon_adr[t] + s.tendon_num[t]; ++i) {
    y.length[t] = mul_add(q[s.jnt_qadr[s.wrap_obj[i]]], T(m.theta.wrap_prm[i]), y.length[t]);
    y.J[s.wrap_at[i]] += T(m.theta.wrap_prm[i]);
  }
}
// given length_bar and J_bar, add to those of q, tangent, and of the coefficients
template <class T, class P>
FB_FN void fixed_tendon_adjoint(const Model<T, P>& m, int t, const T* q, T* q_bar, Work<T>& w) {
  const Layout& s = m.s;
  const TendonWork<T>& y = w.tendon;
  for (int i = s.tendon_adr[t]; i < s.tendon_adr[t] + s.tendon_num[t]; ++i) {
    q_bar[s.tendon_dof[s.wrap_at[i]]] += y.length_bar[t] * m.theta.wrap_prm[i];
    if (w.theta_bar)
      w.theta_bar->wrap_prm[i] +=
          y.J_bar[s.wrap_at[i]] + y.length_bar[t] * q[s.jnt_qadr[s.wrap_obj[i]]];
  }
}

// a straight part of a spatial tendon, from site a to site b, seen from their trees' origins
template <class T>
struct TendonPart {
  int linkA, linkB;
  Vec3<T> pa, pb, n;
  T length, inverse;  // inverse: 1 / length
};
template <class T, class P>
FB_FN TendonPart<T> tendon_part(const Model<T, P>& m, int siteA, int siteB, const Work<T>& w) {
  const Layout& s = m.s;
  TendonPart<T> x;
  x.linkA = s.site_link[siteA];
  x.linkB = s.site_link[siteB];
  const LinkWork<T>&A = w.link[x.linkA], &B = w.link[x.linkB];
  x.pa = A.r + mul(A.R, lift3<P>(m.derived.site_p + 3 * siteA));
  x.pb = B.r + mul(B.R, lift3<P>(m.derived.site_p + 3 * siteB));
  const Vec3<T> e = (x.pb - x.pa) + (origin_of(s, w, x.linkB) - origin_of(s, w, x.linkA));
  // points that coincide have no direction, and pull nowhere
  const T square = dot(e, e);
  const Mask<T> apart = square > T(Real<T>(1e-30));
  x.length = select(apart, sqrt(select(apart, square, T(1))), T(0));
  x.inverse = select(apart, T(1) / select(apart, x.length, T(1)), T(0));
  x.n = e * x.inverse;
  return x;
}
// J += S . F over the dofs that move a link
template <class T>
FB_INLINE void add_tendon_wrench(const Layout& s, int t, int link, const Force<T>& F, Work<T>& w) {
  int k = s.tendon_dofadr[t];
  for (int d = s.link_lastdof[link]; d >= 0; d = s.dof_parent[d]) {
    while (s.tendon_dof[k] != d) ++k;
    w.tendon.J[k] += dot(w.dof[d].S, F);
  }
}
// (E.14)  the part from site i of a path to the next: length = |p_b - p_a| share, J = n . (J_b - J_a) share
template <class T, class P>
FB_FN void straight_part(const Model<T, P>& m, int t, int i, T share, Work<T>& w) {
  const TendonPart<T> x = tendon_part(m, m.s.wrap_obj[i], m.s.wrap_obj[i + 1], w);
  w.tendon.length[t] = mul_add(x.length, share, w.tendon.length[t]);
  if (x.linkA == x.linkB) return;
  const Vec3<T> f = x.n * share;
  add_tendon_wrench(m.s, t, x.linkB, Force<T>{cross(x.pb, f), f}, w);
  add_tendon_wrench(m.s, t, x.linkA, -Force<T>{cross(x.pa, f), f}, w);
}
// what a cotangent of a point of a link gives to its pose and to a site there
template <class T>
FB_INLINE void add_site_bar(int link, int site, Vec3<T> p, Vec3<T> p_bar, Work<T>& w) {
  w.bar[link].pose += Force<T>{cross(p, p_bar), p_bar};
  if (w.derived_bar) add3(mul_transposed(w.link[link].R, p_bar), w.derived_bar->site_p + 3 * site);
}
// (E.15)  given length_bar and J_bar, whose twists of links are in w, add to those of sites, links and
// twists; return that of the share
template <class T, class P>
FB_FN T straight_part_adjoint(const Model<T, P>& m, int t, int i, T share, Work<T>& w) {
  const Layout& s = m.s;
  const TendonPart<T> x = tendon_part(m, s.wrap_obj[i], s.wrap_obj[i + 1], w);
  const Motion<T>&VA = w.twist[x.linkA], &VB = w.twist[x.linkB];
  const T length_bar = w.tendon.length_bar[t];
  const Vec3<T> f = x.n * share;
  const Vec3<T> rel = (VB.lin + cross(VB.ang, x.pb)) - (VA.lin + cross(VA.ang, x.pa));
  const Vec3<T> across = (rel - x.n * dot(x.n, rel)) * (x.inverse * share);
  const Vec3<T> e_bar = across + f * length_bar;
  add_site_bar(x.linkB, s.wrap_obj[i + 1], x.pb, e_bar + cross(f, VB.ang), w);
  add_site_bar(x.linkA, s.wrap_obj[i], x.pa, -e_bar - cross(f, VA.ang), w);
  w.bar[x.linkB].w_bar += Force<T>{cross(x.pb, f), f};
  w.bar[x.linkA].w_bar -= Force<T>{cross(x.pa, f), f};
  return dot(x.n, rel) + length_bar * x.length;
}

// a part of a spatial tendon from site a round a geom to site b: the three seen from their trees'
// origins, and the ends seen from the geom
template <class T>
struct WrappedPart {
  int linkA, linkB, linkG;
  Vec3<T> pa, pb, c;
  WrapEnds<T> ends;
};
template <class T, class P>
FB_FN WrappedPart<T> tendon_wrap(const Model<T, P>& m, int i, const Work<T>& w) {
  const Layout& s = m.s;
  const int g = s.wrap_obj[i + 1], side = s.wrap_side[i + 1], link = s.geom_link[g];
  const LinkWork<T>& G = w.link[link];
  const auto place = [&](int site) {
    const LinkWork<T>& k = w.link[s.site_link[site]];
    return k.r + mul(k.R, lift3<P>(m.derived.site_p + 3 * site));
  };
  WrappedPart<T> x;
  x.linkA = s.site_link[s.wrap_obj[i]];
  x.linkB = s.site_link[s.wrap_obj[i + 2]];
  x.linkG = link;
  x.pa = place(s.wrap_obj[i]);
  x.pb = place(s.wrap_obj[i + 2]);
  x.c = G.r + mul(G.R, lift3<P>(m.derived.geom_p + 3 * g));
  const Vec3<T> origin = origin_of(s, w, link), none = zero3<T>();
  WrapEnds<T>& e = x.ends;
  e.a = (x.pa - x.c) + (origin_of(s, w, x.linkA) - origin);
  e.b = (x.pb - x.c) + (origin_of(s, w, x.linkB) - origin);
  e.sided = side >= 0;
  e.side = none;
  if (e.sided) e.side = (place(side) - x.c) + (origin_of(s, w, s.site_link[side]) - origin);
  e.cylinder = s.wrap_type[i + 1] == kWrapCylinder;
  const Mat3<T> R = mul(G.R, m.derived.geom_R + 9 * g);
  e.x = column(R, 0);
  e.y = column(R, 1);
  e.radius = T(m.theta.geom_size[3 * g]);
  return x;
}
// (E.21)  J = (u_b . (J_b - J_g) - u_a . (J_a - J_g)) share, with the directions u of the path at its ends
template <class T, class P>
FB_FN void wrapped_part(const Model<T, P>& m, int t, int i, T share, Work<T>& w) {
  const WrappedPart<T> x = tendon_wrap(m, i, w);
  const WrapWay<Mask<T>> way = wrap_way(x.ends);
  const WrapPath<T> p = wrap_path(x.ends, way);
  w.tendon.length[t] = mul_add(p.length, share, w.tendon.length[t]);
  if (x.linkA == x.linkG && x.linkB == x.linkG) return;
  const Vec3<T> fa = p.leave * share, fb = p.arrive * share;
  add_tendon_wrench(m.s, t, x.linkB, Force<T>{cross(x.pb, fb), fb}, w);
  add_tendon_wrench(m.s, t, x.linkA, -Force<T>{cross(x.pa, fa), fa}, w);
  if (!any(way.wraps)) return;
  const Force<T> F{cross(x.c + p.on, fa) - cross(x.c + p.off, fb), fa - fb};
  add_tendon_wrench(m.s, t, x.linkG, select<T>(way.wraps, F, zero_force<T>()), w);
}
// what the cotangents of a wrapped part's geom, at its centre, give to its link and its placement
template <class T, class P>
FB_INLINE void add_wrap_bar(const Model<T, P>& m, int g, const WrappedPart<T>& x, Force<T> bar,
                            Work<T>& w) {
  w.bar[x.linkG].pose += Force<T>{bar.ang + cross(x.c, bar.lin), bar.lin};
  if (!w.derived_bar) return;
  const Mat3<T>& L = w.link[x.linkG].R;
  add3(mul_transposed(L, bar.lin), w.derived_bar->geom_p + 3 * g);
  if (x.ends.cylinder)
    add_rotation_bar(mul_transposed(L, bar.ang), m.derived.geom_R + 9 * g,
                     w.derived_bar->geom_R + 9 * g);
}
// (E.22)  the same as (E.15), of the geom and its radius as well: the slopes of the length change along
// the velocities of the ends as the ends' cotangents, by dual numbers
template <class T, class P>
FB_FN T wrapped_part_adjoint(const Model<T, P>& m, int t, int i, T share, Work<T>& w) {
  const Layout& s = m.s;
  const int g = s.wrap_obj[i + 1];
  const WrappedPart<T> x = tendon_wrap(m, i, w);
  const WrapWay<Mask<T>> way = wrap_way(x.ends);
  const T length_bar = w.tendon.length_bar[t];
  const Motion<T>&VA = w.twist[x.linkA], &VB = w.twist[x.linkB];
  const Motion<T> VG = select<T>(way.wraps, w.twist[x.linkG], zero_motion<T>());
  const Vec3<T> ga = x.c + x.ends.a, gb = x.c + x.ends.b;
  const Vec3<T> ra = (VA.lin + cross(VA.ang, x.pa)) - (VG.lin + cross(VG.ang, ga));
  const Vec3<T> rb = (VB.lin + cross(VB.ang, x.pb)) - (VG.lin + cross(VG.ang, gb));
  const WrapPath<Dual<T>> p = wrap_path<Dual<T>>(moving_ends(x.ends, ra, rb), way);
  const Vec3<T> fa = value_of(p.leave) * -share, fb = value_of(p.arrive) * share;
  const Vec3<T> a_bar = tangent_of(p.leave) * -share + fa * length_bar;
  const Vec3<T> b_bar = tangent_of(p.arrive) * share + fb * length_bar;
  add_site_bar(x.linkA, s.wrap_obj[i], x.pa, a_bar + cross(fa, VA.ang - VG.ang), w);
  add_site_bar(x.linkB, s.wrap_obj[i + 2], x.pb, b_bar + cross(fb, VB.ang - VG.ang), w);
  w.bar[x.linkA].w_bar += Force<T>{cross(x.pa, fa), fa};
  w.bar[x.linkB].w_bar += Force<T>{cross(x.pb, fb), fb};
  if (any(way.wraps)) {
    const Force<T> none = zero_force<T>();
    const Force<T> held{cross(ga, fa) + cross(gb, fb), fa + fb};
    w.bar[x.linkG].w_bar -= select<T>(way.wraps, held, none);
    const Vec3<T> turn =
        cross(x.ends.a, a_bar) + cross(x.ends.b, b_bar) + cross(ra, fa) + cross(rb, fb);
    add_wrap_bar(m, g, x, select<T>(way.wraps, -Force<T>{turn, a_bar + b_bar}, none), w);
    if (w.theta_bar)
      w.theta_bar->geom_size[3 * g] += mul_add(p.by_radius.v, length_bar, p.by_radius.d) * share;
  }
  return p.length.d + length_bar * p.length.v;
}

FB_INLINE bool goes_round(int wrap_type) {
  return wrap_type == kWrapSphere || wrap_type == kWrapCylinder;
}
// visit(i, divisor): the parts of a spatial tendon from site i of its path to the next site, and the
// entry of the parameters that divides them, -1 for none
template <class F>
FB_INLINE void for_tendon_parts(const Layout& s, int t, F&& visit) {
  int divisor = -1;
  for (int i = s.tendon_adr[t]; i + 1 < s.tendon_adr[t] + s.tendon_num[t]; ++i) {
    if (s.wrap_type[i] == kWrapPulley) divisor = i;
    if (s.wrap_type[i] == kWrapSite && s.wrap_type[i + 1] != kWrapPulley) visit(i, divisor);
  }
}
// a spatial tendon: the sum of its parts
template <class T, class P>
FB_FN void spatial_tendon(const Model<T, P>& m, int t, Work<T>& w) {
  for_tendon_parts(m.s, t, [&](int i, int divisor) {
    const T share = divisor < 0 ? T(1) : T(1) / T(m.theta.wrap_prm[divisor]);
    if (goes_round(m.s.wrap_type[i + 1]))
      wrapped_part(m, t, i, share, w);
    else
      straight_part(m, t, i, share, w);
  });
}
// with J_bar as rates of the dofs: the twists of the links that a tendon moves with, from the root up
template <class T>
FB_FN void tendon_twists(const Layout& s, int t, Work<T>& w) {
  const int first = s.tendon_dofadr[t];
  w.twist[0] = zero_motion<T>();
  for (int k = first + s.tendon_dofnum[t] - 1; k >= first; --k) {
    const int d = s.tendon_dof[k], l = s.dof_link[d];
    if (d == s.link_dof[l]) {
      w.twist[l] = w.twist[s.link_parent[l]];
      w.bar[l].w_bar = w.bar[l].pose = zero_force<T>();
    }
    w.twist[l] = mul_add(w.dof[d].S, w.tendon.J_bar[k], w.twist[l]);
  }
}
// the sweep of bodies at rest over these links, down to the root
template <class T, class P>
FB_FN void sweep_tendon_links(const Model<T, P>& m, int t, const T* q, T* q_bar, Work<T>& w) {
  const Layout& s = m.s;
  const int end = s.tendon_dofadr[t] + s.tendon_dofnum[t];
  for (int k = s.tendon_dofadr[t]; k < end;) {
    const int l = s.dof_link[s.tendon_dof[k]], first = s.link_dof[l], n = s.link_ndof[l];
    const int parent = s.link_parent[l];
    LinkBar<T>& b = w.bar[l];
    const T* rate = w.tendon.J_bar + k + n - 1;
    for (int i = world_axes(s.link_type[l]); i < n; ++i)
      b.pose += cross(w.dof[first + i].S, b.w_bar * rate[-i]);
    for (int d = first; d < first + n; ++d) q_bar[d] += dot(w.dof[d].S, b.pose);
    if (w.derived_bar) link_pose_adjoint(m, l, q, w);
    if (parent > 0) {
      w.bar[parent].w_bar += b.w_bar;
      w.bar[parent].pose += b.pose;
    }
    k += n;
  }
}
template <class T>
FB_INLINE bool has_no_bars(const Layout& s, int t, const TendonWork<T>& y) {
  Mask<T> none = is_nothing(y.length_bar[t]);
  for_tendon_dofs(s, t, [&](int k, int) { none = none & is_nothing(y.J_bar[k]); });
  return all(none);
}
// given length_bar and J_bar, add to those of q, tangent, of sites, geoms, links and divisors: with
// J_bar as rates of the dofs, and V the twists of links by them, J_bar . J = n . (V_b - V_a)
template <class T, class P>
FB_FN void spatial_tendon_adjoint(const Model<T, P>& m, int t, const T* q, T* q_bar, Work<T>& w) {
  const Layout& s = m.s;
  if (has_no_bars(s, t, w.tendon)) return;
  tendon_twists(s, t, w);
  for_tendon_parts(s, t, [&](int i, int divisor) {
    const T share = divisor < 0 ? T(1) : T(1) / T(m.theta.wrap_prm[divisor]);
    const T share_bar = goes_round(s.wrap_type[i + 1]) ? wrapped_part_adjoint(m, t, i, share, w)
                                                       : straight_part_adjoint(m, t, i, share, w);
    if (w.theta_bar && divisor >= 0) w.theta_bar->wrap_prm[divisor] -= share_bar * (share * share);
  });
  sweep_tendon_links(m, t, q, q_bar, w);
}

FB_INLINE bool is_spatial(const Layout& s, int t) {
  return s.tendon_num[t] > 0 && s.wrap_type[s.tendon_adr[t]] != kWrapJoint;
}
// what armature on tendons adds: core/dynamics/tendon_inertia.hpp
template <class T, class P>
FB_FN void tendon_biases(const Model<T, P>& m, Work<T>& w);
template <class T, class P>
FB_FN void tendon_biases_adjoint(const Model<T, P>& m, const T* q, const T* v,
                                 const ActuationBars<T>& bars, Work<T>& w);

// lengths, moments and speeds, from the kinematics in w; sets all cotangents to zero
template <class T, class P>
FB_FN void tendon_kinematics(const Model<T, P>& m, const T* q, const T* v, Work<T>& w) {
  const Layout& s = m.s;
  TendonWork<T>& y = w.tendon;
  for (int k = 0; k < s.ntendof; ++k) y.J[k] = y.J_bar[k] = T(0);
  for (int t = 0; t < s.ntendon; ++t) {
    y.length[t] = y.speed[t] = T(0);
    y.length_bar[t] = y.speed_bar[t] = y.damping_bar[t] = T(0);
    if (is_spatial(s, t))
      spatial_tendon(m, t, w);
    else
      fixed_tendon(m, t, q, y);
    for_tendon_dofs(s, t, [&](int k, int d) { y.speed[t] = mul_add(y.J[k], v[d], y.speed[t]); });
  }
  if (s.nheavy > 0) tendon_biases(m, w);
}
// (E.2)  given the cotangents that w has collected, add to those of (q, v), q tangent, and of the
// parameters; leaves them at zero
template <class T, class P>
FB_FN void tendon_kinematics_adjoint(const Model<T, P>& m, const T* q, const T* v,
                                     const ActuationBars<T>& bars, Work<T>& w) {
  const Layout& s = m.s;
  TendonWork<T>& y = w.tendon;
  if (s.nheavy > 0) tendon_biases_adjoint(m, q, v, bars, w);
  for (int t = 0; t < s.ntendon; ++t) {
    for_tendon_dofs(s, t, [&](int k, int d) {
      bars.v[d] += y.J[k] * y.speed_bar[t];
      y.J_bar[k] += v[d] * y.speed_bar[t];
    });
    if (is_spatial(s, t))
      spatial_tendon_adjoint(m, t, q, bars.q, w);
    else
      fixed_tendon_adjoint(m, t, q, bars.q, w);
    y.length_bar[t] = y.speed_bar[t] = y.damping_bar[t] = T(0);
  }
  for (int k = 0; k < s.ntendof; ++k) y.J_bar[k] = T(0);
}

// whether the damping of a tendon is a row's, as in the hard law, so that its explicit force is taken
// back; and whether it is implicit in any way
FB_INLINE bool has_damping_row(const Layout& s, int t, ServoDamping servos) {
  return servos == kDampingServos && s.tendon_rows[t] > 0;
}
FB_INLINE bool damps_implicitly(const Layout& s, int t, ServoDamping servos) {
  return servos == kAllServos || has_damping_row(s, t, servos);
}

// whether a tendon has inertia: under the hard law it is a row's
FB_INLINE bool carries_inertia(const Layout& s, int t) {
  return s.tendon_heavy[t] > 0 && (s.soft || s.tendon_rows[t] > 0);
}

// (E.3)  spring and damper: how far the length is out of the spring's range, and the force
template <class T>
struct TendonForce {
  T stretch, force;
  Mask<T> over, under;
};
template <class T, class P>
FB_INLINE TendonForce<T> tendon_force(const Model<T, P>& m, int t, const Work<T>& w) {
  const P* range = m.theta.tendon_lengthspring + 2 * t;
  const T length = w.tendon.length[t], speed = w.tendon.speed[t];
  TendonForce<T> f;
  f.over = length >= T(range[1]);
  f.under = (length <= T(range[0])) & !f.over;
  f.stretch = select(f.over, length - T(range[1]), select(f.under, length - T(range[0]), T(0)));
  f.force = -(f.stretch * m.theta.tendon_stiffness[t]) - speed * m.theta.tendon_damping[t];
  if (has_damping_row(m.s, t, w.servos)) f.force += speed * w.tendon.damping[t];
  if (carries_inertia(m.s, t)) f.force -= w.tendon.bias[t] * m.theta.tendon_armature[t];
  return f;
}

// (E.4)  the force of an actuator on a tendon
template <class T, class P>
FB_INLINE ActuatorForce<T> tendon_actuator_force(const Model<T, P>& m, int a, const StepPoint<T>& x,
                                                 const Work<T>& w) {
  const int t = m.s.act_tendon[a];
  const P gear = m.theta.actuator_gear[6 * a];
  ActuatorForce<T> f;
  f.length = w.tendon.length[t] * gear;
  f.speed = w.tendon.speed[t] * gear;
  f.input = actuator_input(m, a, x);
  actuator_law(m, a, f);
  return f;
}
// sums over the actuators of each dof: those on tendons
template <class T, class P>
FB_FN void add_tendon_actuators(const Model<T, P>& m, const StepPoint<T>& x, const Work<T>& w,
                                T* sums) {
  const Layout& s = m.s;
  for (int a = 0; a < s.nu; ++a) {
    if (s.act_tendon[a] < 0) continue;
    const T force = tendon_actuator_force(m, a, x, w).force * m.theta.actuator_gear[6 * a];
    for_tendon_dofs(s, s.act_tendon[a],
                    [&](int k, int d) { sums[d] = mul_add(w.tendon.J[k], force, sums[d]); });
  }
}
// (E.5)  tau += J' force of springs and dampers; and the implicit damping, that of servos with it
template <class T, class P>
FB_FN void tendon_forces(const Model<T, P>& m, const StepPoint<T>& x, Work<T>& w) {
  const Layout& s = m.s;
  for (int t = 0; t < s.ntendon; ++t)
    w.tendon.damping[t] = damps_implicitly(s, t, w.servos) ? T(m.theta.tendon_damping[t]) : T(0);
  for (int a = 0; a < s.nu; ++a) {
    if (s.act_tendon[a] < 0 || !damps_implicitly(s, s.act_tendon[a], w.servos)) continue;
    const P gear = m.theta.actuator_gear[6 * a];
    const T dspeed = tendon_actuator_force(m, a, x, w).dspeed;
    w.tendon.damping[s.act_tendon[a]] +=
        select(servo_damps(w.servos, dspeed), -dspeed, T(0)) * (gear * gear);
  }
  for (int t = 0; t < s.ntendon; ++t) {
    const T force = tendon_force(m, t, w).force;
    for_tendon_dofs(s, t,
                    [&](int k, int d) { w.tau[d] = mul_add(w.tendon.J[k], force, w.tau[d]); });
  }
}

// (E.6)  given tau_bar, add to the cotangents of lengths, speeds, moments and implicit damping
template <class T, class P>
FB_FN void tendon_forces_adjoint(const Model<T, P>& m, const T* tau_bar, Work<T>& w) {
  const Layout& s = m.s;
  TendonWork<T>& y = w.tendon;
  const T zero = T(0);
  for (int t = 0; t < s.ntendon; ++t) {
    const TendonForce<T> f = tendon_force(m, t, w);
    T force_bar = zero;
    for_tendon_dofs(s, t, [&](int k, int d) {
      force_bar = mul_add(y.J[k], tau_bar[d], force_bar);
      y.J_bar[k] += tau_bar[d] * f.force;
    });
    const T stretch_bar = -(force_bar * m.theta.tendon_stiffness[t]);
    y.length_bar[t] += select(f.over | f.under, stretch_bar, zero);
    y.speed_bar[t] -= force_bar * m.theta.tendon_damping[t];
    if (has_damping_row(m.s, t, w.servos)) {
      y.speed_bar[t] += force_bar * y.damping[t];
      y.damping_bar[t] += force_bar * y.speed[t];
    }
    if (carries_inertia(s, t)) {
      y.bias_bar[t] -= force_bar * m.theta.tendon_armature[t];
      if (w.theta_bar) w.theta_bar->tendon_armature[t] -= force_bar * y.bias[t];
    }
    if (!w.theta_bar) continue;
    w.theta_bar->tendon_stiffness[t] -= force_bar * f.stretch;
    w.theta_bar->tendon_lengthspring[2 * t] -= select(f.under, stretch_bar, zero);
    w.theta_bar->tendon_lengthspring[2 * t + 1] -= select(f.over, stretch_bar, zero);
    w.theta_bar->tendon_damping[t] -= force_bar * y.speed[t];
    if (damps_implicitly(s, t, w.servos)) w.theta_bar->tendon_damping[t] += y.damping_bar[t];
  }
}
// a joint at its force limit passes nothing; sums: before the limits
template <class T, class P>
FB_INLINE T passed_bar(const Model<T, P>& m, int d, const T* sums, const T* tau_bar) {
  const int j = m.s.dof_jnt[d];
  if (!m.s.jnt_forcelimited[j]) return tau_bar[d];
  const P* range = m.theta.jnt_actfrcrange + 2 * j;
  return select(clamp(sums[d], T(range[0]), T(range[1])) == sums[d], tau_bar[d], T(0));
}
// (E.7)  given tau_bar and the cotangents of implicit damping, the part of actuators on tendons
template <class T, class P>
FB_FN void tendon_actuators_adjoint(const Model<T, P>& m, const StepPoint<T>& x, const T* sums,
                                    const ForceBars<T>& in, const ActuationBars<T>& bars,
                                    Work<T>& w) {
  const Layout& s = m.s;
  TendonWork<T>& y = w.tendon;
  for (int a = 0; a < s.nu; ++a) {
    const int t = s.act_tendon[a];
    if (t < 0) continue;
    const P gear = m.theta.actuator_gear[6 * a];
    const ActuatorForce<T> f = tendon_actuator_force(m, a, x, w);
    T moment_bar = T(0);
    for_tendon_dofs(s, t, [&](int k, int d) {
      const T tau_bar = passed_bar(m, d, sums, in.tau);
      moment_bar = mul_add(y.J[k], tau_bar, moment_bar);
      y.J_bar[k] += tau_bar * f.force * gear;
    });
    // damping = sum gear^2 max(-dspeed, 0)
    const Mask<T> damps =
        servo_damps(w.servos, f.dspeed) & Mask<T>(damps_implicitly(s, t, w.servos));
    const T kv_bar = select(damps, y.damping_bar[t], T(0));
    const ActuatorBars<T> b =
        actuator_force_adjoint(m, a, f, moment_bar * gear, -(kv_bar * (gear * gear)), w);
    actuator_input_adjoint(m, a, x, f.input, b.input, bars, w);
    y.length_bar[t] += b.length * gear;
    y.speed_bar[t] += b.speed * gear;
    if (w.theta_bar)
      w.theta_bar->actuator_gear[6 * a] += moment_bar * f.force + b.length * y.length[t] +
                                           b.speed * y.speed[t] -
                                           kv_bar * f.dspeed * (gear * Real<T>(2));
  }
}
// what w has collected goes to a row of a Jacobian, over (q, v, act, u); tau_bar with it
template <class T, class P>
FB_FN void tendon_columns(const Model<T, P>& m, const StepPoint<T>& x, const T* sums,
                          const T* tau_bar, T* row, Work<T>& w) {
  const int nv = m.s.nv;
  const ActuationBars<T> bars{row, row + nv, row + 2 * nv, row + 2 * nv + m.s.na};
  tendon_actuators_adjoint<T, P>(m, x, sums, {tau_bar, tau_bar}, bars, w);
  tendon_kinematics_adjoint(m, x.q, x.v, bars, w);
}

}  // namespace fb::FB_ISA
