// Contact rows under MuJoCo's law: which contacts, mixing of the geoms' parameters, the frame, the
// elliptic and the pyramidal cone.  Proof: docs/derivations/soft.md.
#pragma once
#include "core/contact/contact.hpp"
#include "core/soft/joint_rows.hpp"

namespace fb::FB_ISA {

// friction coefficients count as no smaller
inline constexpr double kLeastFriction = 1e-5;

// (S.13)  parameters of a pair: its own, or those of its two geoms by their shares
template <class P>
struct ContactLaw {
  P solref[kSolref], solreffriction[kSolref], solimp[kSolimp], margin;
  int own;     // number of the explicit pair, -1 for none
  P share[2];  // of solimp
  P solref_share[2][kSolref];
};
// share of the first geom, from both numbers solmix
template <class P>
FB_INLINE P mixing_share(P a, P b) {
  const P least = P(Real<P>(kSoftLeast)), zero = P(0), one = P(1);
  const Mask<P> some_a = a >= least, some_b = b >= least;
  const P sum = select(some_a & some_b, a + b, one);
  return select(some_a & some_b, a / sum,
                select(some_a, one, select(some_b, zero, P(Real<P>(0.5)))));
}
template <class T, class P>
FB_FN ContactLaw<P> contact_law(const Model<T, P>& m, int pair) {
  const Layout& s = m.s;
  const auto& t = m.theta;
  ContactLaw<P> x;
  x.own = explicit_of_pair(s, pair);
  const P zero = P(0), one = P(1);
  for (int i = 0; i < kSolref; ++i) x.solreffriction[i] = zero;
  if (x.own >= 0) {
    for (int i = 0; i < kSolref; ++i) {
      x.solref[i] = t.pair_solref[kSolref * x.own + i];
      x.solreffriction[i] = t.pair_solreffriction[kSolref * x.own + i];
    }
    for (int i = 0; i < kSolimp; ++i) x.solimp[i] = t.pair_solimp[kSolimp * x.own + i];
    x.margin = t.pair_margin[x.own];
    return x;
  }
  const int a = first_geom(s, pair), b = second_geom(s, pair), rule = rule_of_pair(s, pair);
  x.share[0] = rule == kFirstFriction    ? one
               : rule == kSecondFriction ? zero
                                         : mixing_share(t.geom_solmix[a], t.geom_solmix[b]);
  x.share[1] = one - x.share[0];
  const P *ra = t.geom_solref + kSolref * a, *rb = t.geom_solref + kSolref * b;
  // numbers of the direct form are not mixed: the smaller ones
  const Mask<P> standard = ((ra[0] > zero) & (rb[0] > zero)) | Mask<P>(rule != kLargerFriction);
  for (int i = 0; i < kSolref; ++i) {
    const P first = select(ra[i] < rb[i], one, zero);
    x.solref_share[0][i] = select(standard, x.share[0], first);
    x.solref_share[1][i] = one - x.solref_share[0][i];
    x.solref[i] = x.solref_share[0][i] * ra[i] + x.solref_share[1][i] * rb[i];
  }
  for (int i = 0; i < kSolimp; ++i)
    x.solimp[i] =
        x.share[0] * t.geom_solimp[kSolimp * a + i] + x.share[1] * t.geom_solimp[kSolimp * b + i];
  x.margin = t.geom_margin[a] + t.geom_margin[b];
  return x;
}
// given cotangents, add to the parameters
template <class T, class P>
FB_FN void contact_law_adjoint(const Model<T, P>& m, int pair, const ContactLaw<P>& x,
                               const RowLawBar<T>& bar, const T* solreff_bar, Theta<T>& out) {
  const int own = x.own, a = first_geom(m.s, pair), b = second_geom(m.s, pair);
  out.dt[0] += bar.h;
  if (own >= 0) {
    for (int i = 0; i < kSolref; ++i) {
      out.pair_solref[kSolref * own + i] += bar.solref[i];
      out.pair_solreffriction[kSolref * own + i] += solreff_bar[i];
    }
    for (int i = 0; i < kSolimp; ++i) out.pair_solimp[kSolimp * own + i] += bar.solimp[i];
    out.pair_margin[own] -= bar.x;
    return;
  }
  for (int q = 0; q < 2; ++q) {
    const int g = q == 0 ? a : b;
    for (int i = 0; i < kSolref; ++i)
      out.geom_solref[kSolref * g + i] += bar.solref[i] * T(x.solref_share[q][i]);
    for (int i = 0; i < kSolimp; ++i)
      out.geom_solimp[kSolimp * g + i] += bar.solimp[i] * T(x.share[q]);
    out.geom_margin[g] -= bar.x;
  }
}

// (S.14)  MuJoCo's frame: the first tangent from the world's y, or its z where n is near y
template <class T>
FB_INLINE Tangents<T> soft_tangents(Vec3<T> n) {
  const T o = T(0), i = T(1);
  const Mask<T> use_y = (n.y < T(Real<T>(0.5))) & (n.y > T(Real<T>(-0.5)));
  return tangents_from(n, select(use_y, Vec3<T>{o, i, o}, Vec3<T>{o, o, i}),
                       select(use_y, n.y, n.z));
}

// the frame of a contact: on a plane the first tangent of a capsule lies along its axis, unless that
// is upright
template <class T>
struct ContactFrame {
  Tangents<T> t;
  Mask<T> rides;  // t.e is the axis of geom B
};
template <class T, class P>
FB_FN ContactFrame<T> contact_frame(const Model<T, P>& m, const RowGroup& k, Vec3<T> n,
                                    const Work<T>& w) {
  const Tangents<T> fixed = soft_tangents(n);
  if (kind_of_pair(m.s, k.source) != kPlaneCapsule) return {fixed, Mask<T>(false)};
  const Mat3<T> R = geom_axes(m, second_geom(m.s, k.source), w);
  const Vec3<T> axis{R.a[2], R.a[5], R.a[8]};
  const T along = dot(axis, n);
  const Vec3<T> across = axis - n * along;
  const Mask<T> rides = dot(across, across) > T(Real<T>(1e-28));
  return {tangents_from(n, select(rides, axis, fixed.e), select(rides, along, fixed.along)), rides};
}
// the cotangent of the axis that a frame rides on
template <class T, class P>
FB_FN void frame_axis_adjoint(const Model<T, P>& m, const RowGroup& k, const ContactFrame<T>& f,
                              Vec3<T> n, Vec3<T> a_bar, Work<T>& w) {
  const int g = second_geom(m.s, k.source), l = m.s.geom_link[g];
  const Vec3<T> e_bar = select(f.rides, a_bar - n * dot(n, a_bar), zero3<T>());
  const Vec3<T> turn = cross(f.t.e, e_bar);
  w.bar[l].pose.ang += turn;
  if (w.derived_bar)
    add_rotation_bar(mul_transposed(w.link[l].R, turn), m.derived.geom_R + 9 * g,
                     w.derived_bar->geom_R + 9 * g);
}

// the gap below which a pair has contacts
template <class T, class P>
FB_INLINE T soft_margin(const Model<T, P>& m, int pair) {
  const int own = explicit_of_pair(m.s, pair);
  return T(own >= 0 ? m.theta.pair_margin[own]
                    : m.theta.geom_margin[first_geom(m.s, pair)] +
                          m.theta.geom_margin[second_geom(m.s, pair)]);
}
// can this pair be nearer than the margin?  Spheres around both, or around B before a plane
template <class T, class P>
FB_INLINE Mask<T> soft_broad_phase(const Model<T, P>& m, int ga, int gb, T margin,
                                   const Work<T>& w) {
  const Vec3<T> d = w.soft.centre[gb] - w.soft.centre[ga];
  const P rb = m.derived.geom_radius[gb];
  if (m.s.geom_type[ga] == kPlane) {
    const P* G = m.derived.geom_R + 9 * ga;
    const int l = m.s.geom_link[ga];
    Vec3<T> n{T(G[2]), T(G[5]), T(G[8])};
    if (l > 0) n = mul(w.link[l].R, n);
    return dot(n, d) - T(rb) < margin;
  }
  const T far = margin + T(m.derived.geom_radius[ga] + rb);
  return dot(d, d) < far * far;
}
// the third axis of a geom, that of a capsule or the normal of a plane
template <class T, class P>
FB_INLINE Vec3<T> soft_geom_axis(const Model<T, P>& m, int g, const Work<T>& w) {
  const P* G = m.derived.geom_R + 9 * g;
  const Vec3<P> z{G[2], G[5], G[8]};
  const int l = m.s.geom_link[g];
  return l > 0 ? mul(w.link[l].R, z) : Vec3<T>{T(z.x), T(z.y), T(z.z)};
}
// the same for a capsule before a plane or before another capsule, along the normal or along the line
// of their centres, by the spheres at their ends; rounding is made up for
template <class T, class P>
FB_FN Mask<T> capsules_near(const Model<T, P>& m, int pair, T margin, const Work<T>& w) {
  const int ga = first_geom(m.s, pair), gb = second_geom(m.s, pair);
  const P *a = m.theta.geom_size + 3 * ga, *b = m.theta.geom_size + 3 * gb;
  const Vec3<T> cA = w.soft.centre[ga], cB = w.soft.centre[gb], d = cB - cA;
  const Vec3<T> x = soft_geom_axis(m, ga, w), y = soft_geom_axis(m, gb, w);
  const T far = margin + (largest_part(cA) + largest_part(cB)) * Real<T>(kBoxSlack) + T(b[0]);
  if (kind_of_pair(m.s, pair) == kPlaneCapsule)
    return dot(x, d) < mul_add(abs(dot(x, y)), T(b[1]), far);
  const T square = dot(d, d), ends = abs(dot(x, d)) * a[1] + abs(dot(y, d)) * b[1];
  return square <= mul_add(sqrt(square), far + T(a[0]), ends);
}
// a geom and its margin, or half of the largest one of an explicit pair
template <class T, class P>
FB_INLINE GeomBox<T> soft_geom_box(const Model<T, P>& m, int g, T least, const Work<T>& w) {
  const Vec3<T> c = w.soft.centre[g];
  GeomBox<T> box = world_box(m, g, c, max(T(m.theta.geom_margin[g]), least), w);
  box.size = largest_part(c) + largest_part(origin_of(m.s, w, m.s.geom_link[g]));
  return box;
}
// contacts nearer than the margin, in lanes whose pair passed the broad phase
template <class T, class P>
FB_FN void collect_soft_pair(const Model<T, P>& m, int pair, T margin, Mask<T> near, int& contacts,
                             Work<T>& w) {
  const Layout& s = m.s;
  const int ga = first_geom(s, pair), gb = second_geom(s, pair), kind = kind_of_pair(s, pair);
  if (kind == kPlaneCapsule || kind == kCapsuleCapsule) {
    near = near & capsules_near(m, pair, margin, w);
    if (!any(near)) return;
  }
  if (has_boxes(s, ga, gb)) {
    near = near & boxes_near(m, ga, gb, w.soft.centre[gb] - w.soft.centre[ga], margin, w);
    if (!any(near)) return;
  }
  const int la = s.geom_link[ga], lb = s.geom_link[gb], ref = reference_link(la, lb);
  const Vec3<T> cA = geom_centre(m, ga, w), cB = geom_centre(m, gb, w);
  const Vec3<T> OA = origin_of(s, w, la), OB = origin_of(s, w, lb), Oref = origin_of(s, w, ref);
  ContactPoint<T> point[kMaxSlots];
  collide(kind_of_pair(s, pair), place_shape(m, ga, w, cA + (OA - Oref)),
          place_shape(m, gb, w, cB + (OB - Oref)), reach_where(near, margin), point);
  for (int k = 0; k < pair_slots(kind_of_pair(s, pair)); ++k) {
    const Mask<T> on = near & point[k].active & (point[k].phi < margin);
    if (!any(on)) continue;
    if (contacts == s.max_contacts) {
      w.overflow = w.overflow | on;
      continue;
    }
    ++contacts;
    RowGroup& b = push_group(w, kContactRows, condim_of_pair(s, pair), pair);
    w.geometry[w.ngroup - 1] = point[k];
    w.geometry[w.ngroup - 1].active = on;
    b.linkA = la;
    b.linkB = lb;
    b.side = k;
    set_chains(s, b, s.link_lastdof[la], s.link_lastdof[lb]);
  }
}
// all of them
template <class T, class P>
FB_FN void collect_soft_contacts(const Model<T, P>& m, Mask<T> alive, Work<T>& w) {
  const Layout& s = m.s;
  for (int g = 0; g < s.ngeom; ++g)
    w.soft.centre[g] = geom_centre(m, g, w) + origin_of(s, w, s.geom_link[g]);
  int contacts = 0;
  const auto collect_one = [&](int pair) {
    const T margin = soft_margin(m, pair);
    const Mask<T> near =
        alive & soft_broad_phase(m, first_geom(s, pair), second_geom(s, pair), margin, w);
    if (any(near)) collect_soft_pair(m, pair, margin, near, contacts, w);
  };
  if (s.nruled == 0) {
    for (int pair = 0; pair < s.npair; ++pair) collect_one(pair);
    return;
  }
  T half = -unbounded<T>();
  for (int e = 0; e < s.nexplicit; ++e) half = max(half, T(m.theta.pair_margin[e]) * Real<T>(0.5));
  for_near_pairs<T>(
      s, alive, [&](int g) { return soft_geom_box(m, g, half, w); },
      [&](int plane, int g) {
        return soft_broad_phase(m, plane, g, soft_margin(m, pair_of_geoms(s, plane, g)), w);
      },
      w.sweep, collect_one);
}

// friction coefficient of rows 1 .. rows - 1: sliding twice, turning, rolling twice; an explicit pair
// has five numbers, a geom three
FB_INLINE int friction_number(int row) { return row < 3 ? 0 : row < 4 ? 1 : 2; }
// where the second to fifth number of an explicit pair lie, or null
template <class T>
FB_INLINE T* own_friction(T* rest, int own, int row) {
  return own < 0 || row < 2 ? nullptr : rest + 4 * own + row - 2;
}
template <class T, class P>
FB_INLINE T contact_friction(const Model<T, P>& m, int pair, int row) {
  const int number = friction_number(row), rule = rule_of_pair(m.s, pair);
  const P* own = own_friction(m.theta.pair_friction_rest, explicit_of_pair(m.s, pair), row);
  const P *a = m.theta.geom_friction + 3 * first_geom(m.s, pair) + number,
          *b = m.theta.geom_friction + 3 * second_geom(m.s, pair) + number;
  const P raw = own                       ? *own
                : number == 0             ? friction_of_pair(m, pair)
                : rule == kFirstFriction  ? *a
                : rule == kSecondFriction ? *b
                                          : larger(*a, *b);
  return T(max(raw, P(Real<P>(kLeastFriction))));
}
template <class T, class P>
FB_FN void contact_friction_adjoint(const Model<T, P>& m, int pair, int row, T bar, Work<T>& w) {
  const int number = friction_number(row), rule = rule_of_pair(m.s, pair);
  const int explicit_pair = explicit_of_pair(m.s, pair);
  const T zero = T(0), one = T(1);
  const P* own = own_friction(m.theta.pair_friction_rest, explicit_pair, row);
  const auto add = [&](P value, T share, T& out) {
    out += select(T(value) > T(Real<T>(kLeastFriction)), bar * share, zero);
  };
  if (own)
    return add(*own, one, *own_friction(w.theta_bar->pair_friction_rest, explicit_pair, row));
  if (number == 0)
    return add_friction_bar(
        m, pair, select(T(friction_of_pair(m, pair)) > T(Real<T>(kLeastFriction)), bar, zero),
        *w.theta_bar, *w.derived_bar);
  const int a = 3 * first_geom(m.s, pair) + number, b = 3 * second_geom(m.s, pair) + number;
  const T x = T(m.theta.geom_friction[a]), y = T(m.theta.geom_friction[b]);
  // equal ones share it
  const T mine = rule == kFirstFriction ? one
                 : rule == kSecondFriction
                     ? zero
                     : select(x > y, one, select(x < y, zero, one * T(Real<T>(0.5))));
  add(m.theta.geom_friction[a], mine, w.theta_bar->geom_friction[a]);
  add(m.theta.geom_friction[b], one - mine, w.theta_bar->geom_friction[b]);
}

// inverse weight that MuJoCo gives a contact
template <class T, class P>
FB_INLINE T soft_contact_weight(const Model<T, P>& m, int pair) {
  const P* weight = m.theta.body_invweight0_mujoco;
  return T(weight[2 * m.s.geom_body[first_geom(m.s, pair)]] +
           weight[2 * m.s.geom_body[second_geom(m.s, pair)]]);
}
// the law of a contact's normal: that of a pyramid has the weight of an edge
template <class T, class P>
FB_INLINE RowLaw<T, P> soft_contact_law(const Model<T, P>& m, const ContactLaw<P>& law, int pair,
                                        const SoftBlock<T>& b, T phi) {
  const T weight = soft_contact_weight(m, pair);
  const T edge = b.kind == kSoftPyramid ? mul_add(b.mu[0], b.mu[0], T(1)) : T(1);
  return {law.solref, law.solimp, phi - T(law.margin), weight * edge, true};
}
// tangent rows of an explicit pair may have a damping of their own
template <class T, class P>
FB_INLINE Mask<T> own_damping(const ContactLaw<P>& law, const SoftBlock<T>& b) {
  if (law.own < 0 || b.kind != kSoftEllipse) return Mask<T>(false);
  const T x = T(law.solreffriction[0]), y = T(law.solreffriction[1]);
  return !((x == T(0)) & (y == T(0)));
}

// directions of a contact's rows: normal and tangents, for forces and then for torques
template <class T>
FB_INLINE void contact_wrenches(const RowGroup& k, Vec3<T> p, const Vec3<T>* d, Real<T> sign,
                                Force<T>* F) {
  for (int i = 0; i < k.rows; ++i)
    F[i] = i < 3 ? point_force(p, d[i]) * T(sign) : Force<T>{d[i - 3] * T(sign), zero3<T>()};
}
// (S.15)  wrenches, friction, stiffness and reference of a contact
template <class T, class P>
FB_FN void soft_contact_data(const Model<T, P>& m, const Options<Real<T>>& o, int index,
                             Work<T>& w) {
  const Layout& s = m.s;
  const RowGroup& k = w.group[index];
  const RowGeometry<T>& x = w.geometry[index];
  SoftGroup<T>& e = w.soft.group[index];
  const Vec3<T> Oref = origin_of(s, w, reference_link(k.linkA, k.linkB));
  const int link[2] = {k.linkA, k.linkB};
  const Tangents<T> frame = contact_frame(m, k, x.n, w).t;
  const Vec3<T> d[3] = {x.n, frame.t1, frame.t2};
  for (int i = 0; i < k.rows; ++i) e.vel[i] = T(0);
  for (int q = 0; q < 2; ++q) {
    if (link[q] == 0) continue;
    contact_wrenches(k, x.p + (Oref - origin_of(s, w, link[q])), d, Real<T>(q == 0 ? -1 : 1),
                     e.F[q]);
    for (int i = 0; i < k.rows; ++i) e.vel[i] += dot(w.link[link[q]].v, e.F[q][i]);
  }
  e.ncoef = 0;
  SoftBlock<T>& b = e.block;
  b.kind = k.rows == 1 ? kSoftOneSided : o.cone == kEllipticCone ? kSoftEllipse : kSoftPyramid;
  const Real<T> ratio = max(o.impratio, Real<T>(kSoftLeast));
  b.root = Real<T>(1) / sqrt(ratio);
  for (int i = 1; i < k.rows; ++i) b.mu[i - 1] = contact_friction(m, k.source, i);
  const ContactLaw<P> law = contact_law(m, k.source);
  const RowLaw<T, P> row = soft_contact_law(m, law, k.source, b, x.phi);
  const T h = T(m.theta.dt[0]);
  const Reference<T> r = reference(row, h, o.refsafe != 0);
  b.D = r.D;
  // all edges of a pyramid: R = 2 mu_1^2 / ratio R_0
  if (b.kind == kSoftPyramid) b.D = r.D * ratio / (b.mu[0] * b.mu[0] * Real<T>(2));
  T B = r.B;
  const Mask<T> own = own_damping(law, b);
  if (any(own))
    B = select(own, row_spring<T>(law.solreffriction, law.solimp, h, o.refsafe != 0).B, B);
  e.y0[0] = r.B * e.vel[0] + r.Kd * row.x;
  for (int i = 1; i < k.rows; ++i) e.y0[i] = B * e.vel[i];
}

// what pairs with the forces that contacts exert on a body: the twist of f.shown, none for the world
template <class T>
FB_INLINE Motion<T> shown_twist(int body, const Work<T>& w) {
  if (body == 0) return zero_motion<T>();
  const T* C = w.soft.shown + 6 * body;
  return {lift3<T>(C), lift3<T>(C + 3)};
}
// visit(body, wrenches of its rows) both sides of a contact, those fixed in the world included
template <class T, class P, class Visit>
FB_INLINE void for_contact_sides(const Model<T, P>& m, int index, const Work<T>& w, Visit&& visit) {
  const Layout& s = m.s;
  const RowGroup& k = w.group[index];
  const RowGeometry<T>& x = w.geometry[index];
  const Vec3<T> Oref = origin_of(s, w, reference_link(k.linkA, k.linkB));
  const Tangents<T> frame = contact_frame(m, k, x.n, w).t;
  const Vec3<T> d[3] = {x.n, frame.t1, frame.t2};
  for (int q = 0; q < 2; ++q) {
    const int body = s.geom_body[q == 0 ? first_geom(s, k.source) : second_geom(s, k.source)];
    Force<T> F[kSoftRows];
    contact_wrenches(k, x.p + (Oref - origin_of(s, w, q == 0 ? k.linkA : k.linkB)), d,
                     Real<T>(q == 0 ? -1 : 1), F);
    if (body > 0) visit(body, F);
  }
}
// (S.45)  the centre of a body, about which the torque of a contact's forces is taken
template <class T, class P>
FB_FN void shown_centre_adjoint(const Model<T, P>& m, const RowGroup& k, int body, const Vec3<T>* d,
                                Real<T> sign, Work<T>& w) {
  const T* f = w.soft.f + k.row;
  Vec3<T> force = zero3<T>();
  for (int i = 0; i < k.rows && i < 3; ++i) force += d[i] * (f[i] * sign);
  const Vec3<T> torque_bar = shown_twist(body, w).ang;
  body_centre_adjoint(m, body, body_centre(m, body, w), cross(torque_bar, force), w);
}
// (S.16)  cotangents of a contact's wrenches and of its gap, to the contact's point
template <class T, class P>
FB_FN void contact_wrench_adjoint(const Model<T, P>& m, int index, const SoftBars<T>& bars,
                                  const T* vel_bar, Work<T>& w, ContactPointBar<T>& point) {
  const Layout& s = m.s;
  const RowGroup& k = w.group[index];
  const RowGeometry<T>& x = w.geometry[index];
  const SoftGroup<T>& e = w.soft.group[index];
  const Vec3<T> Oref = origin_of(s, w, reference_link(k.linkA, k.linkB));
  const ContactFrame<T> frame = contact_frame(m, k, x.n, w);
  const Vec3<T> d[3] = {x.n, frame.t.t1, frame.t.t2};
  Vec3<T> d_bar[3] = {zero3<T>(), zero3<T>(), zero3<T>()};
  const int body[2] = {s.geom_body[first_geom(s, k.source)], s.geom_body[second_geom(s, k.source)]};
  for (int q = 0; q < 2; ++q) {
    const int l = q == 0 ? k.linkA : k.linkB;
    const bool shown = w.soft.shown && body[q] > 0;
    if (l == 0 && !shown) continue;
    LinkBar<T>& b = w.bar[l];
    const Vec3<T> p = x.p + (Oref - origin_of(s, w, l));
    const Real<T> sign(q == 0 ? -1 : 1);
    for (int i = 0; i < k.rows; ++i) {
      Motion<T> F_bar = zero_motion<T>();
      if (l > 0) {
        b.w_bar = mul_add(e.F[q][i], bars.f[i], b.w_bar);
        b.y_bar = mul_add(e.F[q][i], bars.y_bar[i], b.y_bar);
        b.v_bar = mul_add(e.F[q][i], vel_bar[i], b.v_bar);
        F_bar = (b.w * bars.f[i] + b.y * bars.y_bar[i] + w.link[l].v * vel_bar[i]) * T(sign);
      }
      if (shown) F_bar += shown_twist(body[q], w) * (w.soft.f[k.row + i] * sign);
      if (i >= 3) {
        d_bar[i - 3] += F_bar.ang;
        continue;
      }
      point.p += cross(d[i], F_bar.ang);
      d_bar[i] += cross(F_bar.ang, p) + F_bar.lin;
    }
    if (shown) shown_centre_adjoint(m, k, body[q], d, sign, w);
  }
  point.n += d_bar[0];
  if (k.rows == 1) return;
  const Vec3<T> a_bar = tangents_adjoint(x.n, frame.t, d_bar[1], d_bar[2], point.n);
  if (any(frame.rides)) frame_axis_adjoint(m, k, frame, x.n, a_bar, w);
}
// one contact; adds the cotangent of its point
template <class T, class P>
FB_FN void soft_contact_adjoint(const Model<T, P>& m, const Options<Real<T>>& o, int index,
                                SoftBars<T> bars, Work<T>& w, SlotBars<T>& point_bars) {
  const RowGroup& k = w.group[index];
  const RowGeometry<T>& x = w.geometry[index];
  const SoftGroup<T>& e = w.soft.group[index];
  const SoftBlock<T>& b = e.block;
  const bool safe = o.refsafe != 0;
  const T h = T(m.theta.dt[0]);
  const ContactLaw<P> law = contact_law(m, k.source);
  const RowLaw<T, P> row = soft_contact_law(m, law, k.source, b, x.phi);
  const Reference<T> r = reference(row, h, safe);
  const Mask<T> own = own_damping(law, b);
  const Spring<T> side = row_spring<T>(law.solreffriction, law.solimp, h, safe);
  T vel_bar[kSoftRows], B_bar = bars.y_bar[0] * e.vel[0], side_bar = T(0);
  vel_bar[0] = bars.y_bar[0] * r.B;
  for (int i = 1; i < k.rows; ++i) {
    vel_bar[i] = bars.y_bar[i] * select(own, side.B, r.B);
    B_bar += select(own, T(0), bars.y_bar[i] * e.vel[i]);
    side_bar += select(own, bars.y_bar[i] * e.vel[i], T(0));
  }
  T D_bar = bars.block.D;
  if (b.kind == kSoftPyramid) {
    // D = D_0 ratio / (2 mu^2), and the weight grows by 1 + mu^2
    const Real<T> ratio = max(o.impratio, Real<T>(kSoftLeast));
    const T scale = ratio / (b.mu[0] * b.mu[0] * Real<T>(2));
    bars.block.mu[0] -= D_bar * b.D / b.mu[0] * Real<T>(2);
    D_bar = D_bar * scale;
  }
  RowLawBar<T> bar = reference_adjoint(row, r, {D_bar, bars.y_bar[0] * row.x, B_bar});
  if (b.kind == kSoftPyramid)
    bars.block.mu[0] += bar.weight * soft_contact_weight(m, k.source) * b.mu[0] * Real<T>(2);
  bar.x += bars.y_bar[0] * r.Kd;
  ContactPointBar<T> point{bar.x, zero3<T>(), zero3<T>()};
  contact_wrench_adjoint(m, index, bars, vel_bar, w, point);
  add_slot(point_bars, k.side, x.feature, point);
  if (!w.theta_bar) return;
  T solreff_bar[kSolref];
  for (int i = 0; i < kSolref; ++i) solreff_bar[i] = side_bar * side.B_by[i];
  bar.solimp[1] += side_bar * side.B_by_d;
  bar.h += side_bar * side.B_by_h;
  contact_law_adjoint(m, k.source, law, bar, solreff_bar, *w.theta_bar);
  for (int i = 1; i < k.rows; ++i)
    contact_friction_adjoint(m, k.source, i, bars.block.mu[i - 1], w);
}

}  // namespace fb::FB_ISA
