// Transmissions other than a joint in its own frame: joints in their parent's frame, sites, sites that
// are seen from others, slider-cranks.  Proof: docs/derivations/transmission.md.
#pragma once
#include "core/dynamics/gravcomp.hpp"

namespace fb::FB_ISA {

// a site: its axes in the world, its centre about its tree's origin, and the link that it is on
template <class T>
struct SitePlace {
  Mat3<T> R;
  Vec3<T> c;
  int link;
};
template <class T, class P>
FB_INLINE SitePlace<T> site_place(const Model<T, P>& m, int site, const Work<T>& w) {
  const int l = m.s.site_link[site];
  const LinkWork<T>& k = w.link[l];
  return {mul(k.R, m.derived.site_R + 9 * site),
          mul_add(k.R, lift3<P>(m.derived.site_p + 3 * site), k.r), l};
}
// cotangents of a site: of a turn of its axes and of its centre
template <class T>
struct SiteBars {
  Vec3<T> turn, c;
};
// to its place on its link; return the wrench on that link's place
template <class T, class P>
FB_INLINE Force<T> site_place_adjoint(const Model<T, P>& m, int site, const SitePlace<T>& at,
                                      const SiteBars<T>& bar, Work<T>& w) {
  if (w.derived_bar) {
    const Mat3<T>& L = w.link[at.link].R;
    add3(mul_transposed(L, bar.c), w.derived_bar->site_p + 3 * site);
    add_rotation_bar(mul_transposed(L, bar.turn), m.derived.site_R + 9 * site,
                     w.derived_bar->site_R + 9 * site);
  }
  return {bar.turn + cross(at.c, bar.c), bar.c};
}

// (I.3)  how an actuator reaches its dofs: its length, and the wrenches of a unit force on one or two
// links, each on the dofs from its link down to one that it does not move
template <class T>
struct Reach {
  T length;
  int count;
  int link[2], stop[2];
  Force<T> F[2];
};
// the dof below which two links move together, -1 for none
FB_INLINE int meeting_dof(const Layout& s, int l, int k) {
  int a = s.link_lastdof[l], b = s.link_lastdof[k];
  while (a != b) (a > b ? a : b) = s.dof_parent[a > b ? a : b];
  return a;
}
// visit(wrench, dof) all that an actuator moves
template <class T, class F>
FB_INLINE void for_reached(const Layout& s, const Reach<T>& r, F&& visit) {
  for (int k = 0; k < r.count; ++k)
    for (int d = s.link_lastdof[r.link[k]]; d != r.stop[k]; d = s.dof_parent[d]) visit(k, d);
}

// (I.4)  length of a slider-crank over the vector from slider to crank and the slider's axis, and its
// slopes; where the rod is too short the crank's place along the axis
template <class T>
struct CrankArm {
  T length, by_rod;
  Vec3<T> by_vec, by_axis;
};
template <class T>
FB_INLINE CrankArm<T> crank_arm(Vec3<T> vec, Vec3<T> axis, T rod) {
  const T along = dot(vec, axis), det = along * along + rod * rod - dot(vec, vec), zero = T(0);
  const Mask<T> meets = det > zero;
  const T root = select(meets, sqrt(select(meets, det, T(1))), zero);
  const T inv = select(meets, T(1) / select(meets, root, T(1)), zero), rest = T(1) - along * inv;
  return {along - root, -(rod * inv), axis * rest + vec * inv, vec * rest};
}

// what a transmission is made of
template <class T>
struct ReachPlaces {
  SitePlace<T> site, ref;
  Vec3<T> apart;  // from the second site to the first
};
template <class T, class P>
FB_INLINE ReachPlaces<T> reach_places(const Model<T, P>& m, int a, const Work<T>& w) {
  const Layout& s = m.s;
  ReachPlaces<T> at;
  at.site = at.ref = site_place(m, s.act_site[a], w);
  at.apart = zero3<T>();
  if (s.act_refsite[a] < 0) return at;
  at.ref = site_place(m, s.act_refsite[a], w);
  at.apart = at.site.c + origin_of(s, w, at.site.link) - at.ref.c - origin_of(s, w, at.ref.link);
  return at;
}
// rotation vector of a rotation matrix
template <class T>
FB_INLINE Vec3<T> rotation_vector(const Mat3<T>& R) {
  const Quaternion<T> Q = quaternion_of(R);
  return log_quat(Quat<T>{Q.s, Q.v.x, Q.v.y, Q.v.z});
}
// (I.5)  a site pushed along and about its own axes; a site seen from another, whose axes the force
// follows; a slider-crank
template <class T, class P>
FB_FN Reach<T> reach(const Model<T, P>& m, int a, const Work<T>& w) {
  const Layout& s = m.s;
  const P* gear = m.theta.actuator_gear + 6 * a;
  const ReachPlaces<T> at = reach_places(m, a, w);
  const Vec3<T> c1 = at.site.c, c2 = at.ref.c;
  Reach<T> r;
  r.length = T(0);
  r.count = s.act_refsite[a] < 0 ? 1 : 2;
  r.link[0] = at.site.link;
  r.link[1] = at.ref.link;
  r.stop[0] = r.stop[1] = -1;
  if (s.act_trn[a] == kCrankTransmission) {
    const Vec3<T> axis = column(at.ref.R, 2);
    const CrankArm<T> k = crank_arm(at.apart, axis, T(m.theta.actuator_cranklength[a]));
    const Vec3<T> v = k.by_vec * T(gear[0]);
    r.length = k.length * gear[0];
    r.F[0] = {cross(c1, v), v};
    r.F[1] = {cross(axis, k.by_axis * T(gear[0])) - cross(c2, v), -v};
    return r;
  }
  const Vec3<T> g = lift3<T>(gear), turn = lift3<T>(gear + 3);
  const Vec3<T> f = mul(at.ref.R, g), t = mul(at.ref.R, turn);
  r.F[0] = {t + cross(c1, f), f};
  if (r.count == 1) return r;
  r.F[1] = -Force<T>{t + cross(c2, f), f};
  r.length = dot(at.apart, f) + dot(rotation_vector(mul_transposed(at.ref.R, at.site.R)), turn);
  r.stop[0] = r.stop[1] = meeting_dof(s, r.link[0], r.link[1]);
  return r;
}
// cotangents: of the two sites, of the gear and of the rod
template <class T>
struct ReachBars {
  SiteBars<T> site, ref;
  Vec3<T> gear, turn;
  T rod;
};
// (I.6)  given the twists W of each wrench's dofs, the pairing sum W . F, and length_bar
template <class T, class P>
FB_FN ReachBars<T> site_reach_adjoint(const Model<T, P>& m, int a, const ReachPlaces<T>& at,
                                      const Motion<T>* W, T length_bar) {
  const P* gear = m.theta.actuator_gear + 6 * a;
  const Vec3<T> zero = zero3<T>(), g = lift3<T>(gear), turn = lift3<T>(gear + 3);
  const Vec3<T> f = mul(at.ref.R, g), t = mul(at.ref.R, turn);
  ReachBars<T> b{{zero, zero}, {zero, zero}, zero, zero, T(0)};
  Vec3<T> f_bar = W[0].lin + cross(W[0].ang, at.site.c), t_bar = W[0].ang;
  b.site.c = cross(f, W[0].ang);
  const bool two = m.s.act_refsite[a] >= 0;
  if (two) {
    f_bar -= W[1].lin + cross(W[1].ang, at.ref.c);
    t_bar -= W[1].ang;
    // the length: apart . f, and the rotation between the sites
    const Vec3<T> push = f * length_bar;
    b.ref.c = -cross(f, W[1].ang) - push;
    b.site.c += push;
    f_bar += at.apart * length_bar;
    const Vec3<T> e = rotation_vector(mul_transposed(at.ref.R, at.site.R));
    const Vec3<T> e_bar = turn * length_bar;
    b.turn = e * length_bar;
    b.site.turn = mul(at.site.R, log_adjoint(e, e_bar, -1));
    b.ref.turn = -mul(at.ref.R, log_adjoint(e, e_bar, 1));
  }
  // f and t turn with the axes that the gear is in
  Vec3<T>& axes = two ? b.ref.turn : b.site.turn;
  axes += cross(f, f_bar) + cross(t, t_bar);
  b.gear += mul_transposed(at.ref.R, f_bar);
  b.turn += mul_transposed(at.ref.R, t_bar);
  return b;
}
// (I.7)  the same of a slider-crank, whose wrenches are slopes: second derivatives by dual numbers
template <class T, class P>
FB_FN ReachBars<T> crank_reach_adjoint(const Model<T, P>& m, int a, const ReachPlaces<T>& at,
                                       const Motion<T>* W, T length_bar) {
  const Vec3<T> zero = zero3<T>(), axis = column(at.ref.R, 2), u = at.apart;
  const T gear = T(m.theta.actuator_gear[6 * a]), rod = T(m.theta.actuator_cranklength[a]);
  const Vec3<T> y = W[0].lin + cross(W[0].ang, at.site.c) - W[1].lin - cross(W[1].ang, at.ref.c);
  const Vec3<T> z = cross(W[1].ang, axis);
  using D = Dual<T>;
  const CrankArm<D> k =
      crank_arm(Vec3<D>{{u.x, y.x}, {u.y, y.y}, {u.z, y.z}},
                Vec3<D>{{axis.x, z.x}, {axis.y, z.y}, {axis.z, z.z}}, D(rod, T(0)));
  const Vec3<T> v = Vec3<T>{k.by_vec.x.v, k.by_vec.y.v, k.by_vec.z.v} * gear;
  const Vec3<T> n = Vec3<T>{k.by_axis.x.v, k.by_axis.y.v, k.by_axis.z.v} * gear;
  const Vec3<T> u_bar = Vec3<T>{k.by_vec.x.d, k.by_vec.y.d, k.by_vec.z.d} * gear + v * length_bar;
  const Vec3<T> axis_bar = Vec3<T>{k.by_axis.x.d, k.by_axis.y.d, k.by_axis.z.d} * gear +
                           n * length_bar + cross(n, W[1].ang);
  ReachBars<T> b{{zero, cross(v, W[0].ang) + u_bar},
                 {cross(axis, axis_bar), -cross(v, W[1].ang) - u_bar},
                 zero,
                 zero,
                 T(0)};
  b.gear.x = k.length.v * length_bar + k.length.d;
  b.rod = gear * (k.by_rod.v * length_bar + k.by_rod.d);
  return b;
}

// (I.8)  from a link to the root: the axes of the dofs that a wrench moves with some rates, and the
// wrench on the link's place
template <class T>
struct PathBars {
  int link, stop;
  Force<T> F, pose;
};
template <class T, class P>
FB_FN void path_adjoint(const Model<T, P>& m, const T* q, const PathBars<T>& at, const T* rates,
                        Work<T>& w, T* q_bar) {
  const Layout& s = m.s;
  Force<T> pose = at.pose;
  for (int l = at.link; l > 0; l = s.link_parent[l]) {
    const int first = s.link_dof[l], last = first + s.link_ndof[l];
    for (int d = first + world_axes(s.link_type[l]); d < last; ++d)
      if (d > at.stop) pose += cross(w.dof[d].S, at.F * rates[d]);
    for (int d = first; d < last; ++d) q_bar[d] += dot(w.dof[d].S, pose);
    if (!w.derived_bar) continue;
    w.bar[l].pose = pose;
    link_pose_adjoint(m, l, q, w);
  }
}
// given rates of the dofs and length_bar: what sum_d rates_d moment_d + length_bar length adds to
// q_bar (tangent), the gear, the rod and the sites
template <class T>
struct MomentBars {
  const T* rates;
  T length;
};
template <class T, class P>
FB_FN void reach_adjoint(const Model<T, P>& m, int a, const Reach<T>& r, const T* q,
                         const MomentBars<T>& in, Work<T>& w, T* q_bar) {
  const Layout& s = m.s;
  const ReachPlaces<T> at = reach_places(m, a, w);
  Motion<T> W[2] = {zero_motion<T>(), zero_motion<T>()};
  for_reached(s, r, [&](int k, int d) { W[k] = mul_add(w.dof[d].S, in.rates[d], W[k]); });
  const ReachBars<T> b = s.act_trn[a] == kCrankTransmission
                             ? crank_reach_adjoint(m, a, at, W, in.length)
                             : site_reach_adjoint(m, a, at, W, in.length);
  const SitePlace<T>* place[2] = {&at.site, &at.ref};
  const SiteBars<T>* bar[2] = {&b.site, &b.ref};
  const int site[2] = {s.act_site[a], s.act_refsite[a]};
  for (int k = 0; k < r.count; ++k) {
    const Force<T> pose = site_place_adjoint(m, site[k], *place[k], *bar[k], w);
    path_adjoint(m, q, {r.link[k], r.stop[k], r.F[k], pose}, in.rates, w, q_bar);
  }
  if (!w.theta_bar) return;
  add3(b.gear, w.theta_bar->actuator_gear + 6 * a);
  add3(b.turn, w.theta_bar->actuator_gear + 6 * a + 3);
  w.theta_bar->actuator_cranklength[a] += b.rod;
}

}  // namespace fb::FB_ISA
