// Contact rows: contact points, the speculative law with restitution, tangents.
// Proof: docs/derivations/contact.md.
#pragma once
#include "core/contact/deferred.hpp"

namespace fb::FB_ISA {

// wrench of a unit impulse along d at p, about the origin p is measured from
template <class T>
FB_INLINE Force<T> point_force(Vec3<T> p, Vec3<T> d) {
  return {cross(p, d), d};
}

// (T.2)  two unit tangents, right-handed with n: from the world's x, or its y where n is near x
template <class T>
struct Tangents {
  Vec3<T> e, t1, t2;  // e: the world's axis
  T along, inverse;   // e . n, and 1 / |e - n (e . n)|
};
// the first along e, as far as it is across n
template <class T>
FB_INLINE Tangents<T> tangents_from(Vec3<T> n, Vec3<T> e, T along) {
  Tangents<T> f;
  f.e = e;
  f.along = along;
  const Vec3<T> a = f.e - n * f.along;
  f.inverse = T(1) / norm(a);
  f.t1 = a * f.inverse;
  f.t2 = cross(n, f.t1);
  return f;
}
template <class T>
FB_INLINE Tangents<T> tangents_of(Vec3<T> n) {
  const Mask<T> use_x = abs(n.x) < T(Real<T>(0.57735));
  const T o = T(0), i = T(1);
  return tangents_from(n, select(use_x, Vec3<T>{i, o, o}, Vec3<T>{o, i, o}),
                       select(use_x, n.x, n.y));
}
template <class T>
FB_INLINE void tangents(Vec3<T> n, Vec3<T>& t1, Vec3<T>& t2) {
  const Tangents<T> f = tangents_of(n);
  t1 = f.t1;
  t2 = f.t2;
}

// given t1_bar and t2_bar, add to n_bar; returns the cotangent of a = e - n (e . n)
template <class T>
FB_INLINE Vec3<T> tangents_adjoint(Vec3<T> n, const Tangents<T>& f, Vec3<T> t1_bar, Vec3<T> t2_bar,
                                   Vec3<T>& n_bar) {
  // t2 = n x t1
  n_bar += cross(f.t1, t2_bar);
  const Vec3<T> b = t1_bar + cross(t2_bar, n);
  // t1 = a / |a|, a = e - n (e . n)
  const Vec3<T> a_bar = (b - f.t1 * dot(f.t1, b)) * f.inverse;
  n_bar -= a_bar * f.along + f.e * dot(n, a_bar);
  return a_bar;
}

// lanes in which contacts of a pair may wait aside: those of the exact law that do not bounce
template <class T, class P>
FB_INLINE Mask<T> waits_aside(const Model<T, P>& m, const Options<Real<T>>& o, int pair,
                              const Work<T>& w) {
  if (!w.sets_aside || o.solver != kNewtonSolver || o.smoothing > 0) return Mask<T>(false);
  return !(T(restitution_of_pair(m, pair)) > T(0));
}
// (T.15)  whether a contact stays open while the motions of its links change by up to twice as much as the
// free motion changes them
template <class T, class P>
FB_INLINE Mask<T> stays_open(const Model<T, P>& m, const ContactPoint<T>& x, const LinkWork<T>& a,
                             Vec3<T> OA, const LinkWork<T>& b, Vec3<T> OB, Vec3<T> Oref) {
  const Force<T> fa = point_force(x.p + (Oref - OA), x.n), fb = point_force(x.p + (Oref - OB), x.n);
  const T va = dot(a.v, fa), vb = dot(b.v, fb);
  const T change = abs(dot(a.v_free, fa) - va) + abs(dot(b.v_free, fb) - vb);
  return x.phi + (vb - va - (change + change)) * T(m.theta.dt[0]) > T(0);
}
// what was collected so far: contacts, pairs that were looked at; whether pairs may be deferred, and whether there is too
// little room for those that do
struct Collected {
  int contacts, pairs;
  bool defers, crowded;
  // that of the first contact of the pair which is looked at
  FB_INLINE int order() const { return pairs * kMaxSlots; }
};
// whether a pair may be deferred in all lanes in which it is near
template <class T, class P>
FB_INLINE bool may_defer(const Model<T, P>& m, const Options<Real<T>>& o, int pair, Mask<T> near,
                         const Collected& at, const Work<T>& w) {
  return at.defers && !any(near & !waits_aside(m, o, pair, w)) &&
         at.contacts + w.deferred_slots + pair_slots(kind_of_pair(m.s, pair)) <= m.s.max_contacts;
}
// the normal velocity of a contact in the free motion
template <class T>
FB_INLINE T free_rate(const PairAt<T>& at, const ContactPoint<T>& x, const Work<T>& w) {
  return dot(w.link[at.lb].v_free, point_force(x.p + (at.Oref - at.OB), x.n)) -
         dot(w.link[at.la].v_free, point_force(x.p + (at.Oref - at.OA), x.n));
}
// lanes in which it matters: phi < margin, or the free motion closes the gap
template <class T, class P>
FB_INLINE Mask<T> matters(const Model<T, P>& m, const Options<Real<T>>& o, const ContactPoint<T>& x,
                          T rate) {
  return x.active & ((x.phi < T(o.margin)) | (x.phi + rate * m.theta.dt[0] < T(row_reach(o))));
}
template <class T>
FB_INLINE RowGroup contact_group(const Layout& s, const PairAt<T>& at, int order, int slot) {
  RowGroup b{};
  b.kind = kContactRows;
  b.rows = condim_of_pair(s, at.pair) == 1 ? 1 : 3;
  b.source = at.pair;
  b.order = order + slot;
  b.linkA = at.la;
  b.linkB = at.lb;
  b.side = slot;
  set_chains(s, b, s.link_lastdof[at.la], s.link_lastdof[at.lb]);
  return b;
}
template <class T>
FB_INLINE void set_aside(const RowGroup& b, const ContactPoint<T>& x, Mask<T> open, Work<T>& w) {
  w.aside[w.naside] = b;
  w.aside_geometry[w.naside] = x;
  w.aside_geometry[w.naside++].active = open;
}
// contact `slot` of a pair, in the lanes `on`
template <class T, class P>
FB_FN void add_contact(const Model<T, P>& m, const Options<Real<T>>& o, const PairAt<T>& at,
                       const RowGroup& b, const ContactPoint<T>& x, Mask<T> on, Work<T>& w) {
  const LinkWork<T>&A = w.link[at.la], &B = w.link[at.lb];
  // what is far from closing has no rows until the solve closes it
  const Mask<T> open =
      on & waits_aside(m, o, at.pair, w) & stays_open(m, x, A, at.OA, B, at.OB, at.Oref);
  if (any(open)) {
    set_aside(b, x, open, w);
    if (!any(on & !open)) return;
  }
  push_contact(b, x, on & !open, w);
  if (w.hit.cuts && any(T(restitution_of_pair(m, at.pair)) > T(0)))
    leave_out_hit(m, o, at.pair,
                  dot(B.v, point_force(x.p + (at.Oref - at.OB), x.n)) -
                      dot(A.v, point_force(x.p + (at.Oref - at.OA), x.n)),
                  free_rate(at, x, w), w);
  if (condim_of_pair(m.s, at.pair) > 3) push_rims(condim_of_pair(m.s, at.pair), w);
}
// the contact points of a pair in the lanes in which it is near; false where it is far, or deferred
template <class T, class P>
FB_FN bool find_points(const Model<T, P>& m, const Options<Real<T>>& o, const PairAt<T>& x,
                       Mask<T>& near, const Collected& at, Work<T>& w, ContactPoint<T>* point) {
  const Nearness<T> can = broad_phase(m, o, x.ga, x.gb, w);
  near = near & can.near;
  if (!any(near)) return false;
  if (!is_searched(m.s, x.ga, x.gb)) {
    collide_pair(m, x, near, can.far, w, point);
    return true;
  }
  const Vec3<T> way = w.geom[x.gb].centre - w.geom[x.ga].centre + (x.OB - x.OA);
  const T apart = boxes_apart(m, x.ga, x.gb, way, w);
  near = near & (apart < can.far);
  if (!any(near)) return false;
  if (!may_defer(m, o, x.pair, near, at, w)) {
    collide_pair(m, x, near, can.far, w, point);
    return true;
  }
  const DeferredPair<T> deferred{x.pair, at.order(), can.far, closing_gap(m, x, can.far, w), near};
  // a gap that is no number limits nothing
  const T reach = min(sure_distance(m, x, deferred.gap), can.far);
  const Mask<T> limited = near & (reach < can.far);
  if (any(near & (apart < reach))) collide_pair(m, x, near, reach, w, point);
  Mask<T> found(false);
  if (any(near & (apart < reach)))
    for (int k = 0; k < pair_slots(kind_of_pair(m.s, x.pair)); ++k)
      found = found | (near & point[k].active);
  if (!any(found) && any(limited)) {
    defer_pair(m.s, deferred, w);
    return false;
  }
  // lanes with contacts have all of them; others look farther with these
  if (any(limited & !found)) collide_pair(m, x, near, can.far, w, point);
  return true;
}
// add the contacts of one pair that matter in this step
template <class T, class P>
FB_FN void collect_pair(const Model<T, P>& m, const Options<Real<T>>& o, int pair, Mask<T> alive,
                        Collected& at, Work<T>& w) {
  const Layout& s = m.s;
  const PairAt<T> x = pair_at(s, pair, w);
  Mask<T> near = alive;
  ContactPoint<T> point[kMaxSlots];
  ++at.pairs;
  if (!find_points(m, o, x, near, at, w, point)) return;
  for (int k = 0; k < pair_slots(kind_of_pair(s, pair)); ++k) {
    const Mask<T> on = near & matters(m, o, point[k], free_rate(x, point[k], w));
    if (!any(on)) continue;
    at.crowded =
        at.crowded || (w.ndeferred > 0 && at.contacts + w.deferred_slots >= s.max_contacts);
    if (at.contacts == s.max_contacts || at.crowded) {
      w.overflow = w.overflow | on;
      continue;
    }
    ++at.contacts;
    add_contact(m, o, x, contact_group(s, x, at.order(), k), point[k], on, w);
  }
}
// the rims of the last group, a contact: rows of their own behind it, active where it is
template <class T>
FB_FN void push_rims(int condim, Work<T>& w) {
  const int contact = w.ngroup - 1;
  const RowGeometry<T>& x = w.geometry[contact];
  push_contact(rims_of(w.group[contact], condim), x, x.active, w);
  ++w.nrim;
}

// inverse weight of a contact
template <class T, class P>
FB_INLINE T contact_weight(const Model<T, P>& m, const RowGroup& k) {
  const int a = first_geom(m.s, k.source), b = second_geom(m.s, k.source);
  return row_weight(m, m.s.geom_body[a], m.s.geom_body[b], false);
}
// the normal's beta and what it leaves, those of the gap alone, and whether it is that of a bounce,
// from the velocity before the step
template <class T>
struct NormalTerm {
  T beta, rest, gap;
  Mask<T> bounces, soft;
};
template <class T, class P>
FB_INLINE NormalTerm<T> normal_term(const Model<T, P>& m, const Options<Real<T>>& o,
                                    const RowGroup& k, T phi, T before, T after) {
  const P h = m.theta.dt[0], e = restitution_of_pair(m, k.source);
  const GapTerm<1, T> g = gap_term<1>(gap_law(o, false), &phi, contact_weight(m, k), h);
  // a given compliance softens the recovery by itself, and must carry any weight
  NormalTerm<T> x;
  x.soft = T(compliance_of_pair(m, k.source)) > T(0);
  x.gap = select(x.soft, phi / T(h), g.beta[0]);
  x.rest = select(x.soft, T(0), g.rest[0]);
  const Mask<T> hit = (before < T(-o.v_rest)) & (phi + after * h < T(0)) & (T(e) > T(0));
  x.bounces = hit & (before * e < x.gap);
  x.beta = select(x.bounces, before * e, x.gap);
  return x;
}
// given the cotangents of the gap's beta and of what it leaves, that of phi; adds to the time step's
template <class T, class P>
FB_INLINE T normal_gap_bar(const Model<T, P>& m, const Options<Real<T>>& o, const RowGroup& k,
                           T phi, const GapBars<1, T>& bar, Mask<T> soft, Work<T>& w) {
  const T h = T(m.theta.dt[0]);
  T phi_bar, h_bar = T(0);
  gap_term_adjoint<1>(gap_law(o, false), &phi, contact_weight(m, k), m.theta.dt[0], bar, &phi_bar,
                      &h_bar);
  const auto& [beta_bar] = bar.beta;
  const T soft_bar = beta_bar / h;
  if (w.theta_bar) w.theta_bar->dt[0] += select(soft, -(soft_bar * phi / h), h_bar);
  return select(soft, soft_bar, phi_bar);
}

// a hit with restitution that the free motion brings, or that the step before has just missed: the
// row of the last group is left out in those lanes, and the step is cut there (core/step_hits.hpp)
template <class T, class P>
FB_FN void leave_out_hit(const Model<T, P>& m, const Options<Real<T>>& o, int pair, T before,
                         T after, Work<T>& w) {
  RowGeometry<T>& x = w.geometry[w.ngroup - 1];
  const P h = m.theta.dt[0];
  const Mask<T> closes = (before < T(-o.v_rest)) & (x.phi + after * h < T(0)) &
                         (T(restitution_of_pair(m, pair)) > T(0));
  const Mask<T> missed = x.phi > before * (h * Real<T>(2 * kLeastPart));
  const Mask<T> coming =
      x.active & closes &
      (missed | normal_term(m, o, w.group[w.ngroup - 1], x.phi, before, after).bounces);
  if (!any(coming)) return;
  x.active = x.active & !coming;
  w.hit.mask[w.hit.ncoming] = coming;
  w.hit.group[w.hit.ncoming++] = w.ngroup - 1;
}

// compliance over h^2 that counts as none: h is 1e30 in a hit
inline constexpr double kLeastSpring = 1e-36;

// (T.3)  b_n = J v* + beta, beta of the gap term; a hit with restitution replaces the gap:
// beta = min(beta, e J v)
template <class T, class P>
FB_FN void contact_data(const Model<T, P>& m, const Options<Real<T>>& o, const RowGroup& k,
                        const RowGeometry<T>& x, const Work<T>& w, RowData<T>& e) {
  const Layout& s = m.s;
  const LinkWork<T>&A = w.link[k.linkA], &B = w.link[k.linkB];
  const Vec3<T> Oref = origin_of(s, w, reference_link(k.linkA, k.linkB));
  const Vec3<T> pA = x.p + (Oref - origin_of(s, w, k.linkA)),
                pB = x.p + (Oref - origin_of(s, w, k.linkB));
  Vec3<T> d[3] = {x.n, x.n, x.n};
  if (k.rows == 3) tangents(x.n, d[1], d[2]);
  e.weight = contact_weight(m, k);
  const T share = e.weight * o.regularization;
  // the world does not move: its side stays zero
  const bool movesA = k.linkA > 0, movesB = k.linkB > 0;
  for (int i = 0; i < k.rows; ++i) {
    if (movesA) e.F[0][i] = -point_force(pA, d[i]);
    if (movesB) e.F[1][i] = point_force(pB, d[i]);
    e.b[i] = e.rest[i] = e.R0[i] = T(0);
    e.lo[i] = -unbounded<T>();
    e.hi[i] = unbounded<T>();
    e.R[i] = share;
  }
  // beta of the gap, or of the bounce from J v; R = compliance / h^2 where one is given and does not
  // vanish in a step without end
  const P h = m.theta.dt[0];
  T before = T(0), after = T(0);
  if (movesA) {
    before += dot(A.v, e.F[0][0]);
    after += dot(A.v_free, e.F[0][0]);
  }
  if (movesB) {
    before += dot(B.v, e.F[1][0]);
    after += dot(B.v_free, e.F[1][0]);
  }
  const T soft = T(compliance_of_pair(m, k.source)) / T(h * h);
  const NormalTerm<T> term = normal_term(m, o, k, x.phi, before, after);
  e.b[0] = term.beta;
  e.rest[0] = term.rest;
  e.lead = term.gap - term.beta;
  e.lo[0] = T(0);
  e.mu = T(friction_of_pair(m, k.source));
  e.cone = k.rows == 3 ? kConeRows : kNoCone;
  const Mask<T> springs = soft > T(Real<T>(kLeastSpring));
  e.R[0] = select(springs, soft, share);
  e.R0[0] = select(springs, T(0), share);
}

// (T.5)  cotangents of one contact's rows.  F[side][i]: of each row's wrenches; beta, rest, lead: of
// the normal's gap; R, mu: of its compliance and friction, read for parameters only
template <class T>
struct ContactBars {
  Motion<T> F[2][3];
  T beta, rest, lead, R, mu;
};

// (T.6)  from rows to the contact point and to the velocity before the step; given bars of the
// rows' data, add to point_bar and to v_bar of both links
template <class T, class P>
FB_FN void contact_data_adjoint(const Model<T, P>& m, const Options<Real<T>>& o, const RowGroup& k,
                                const RowGeometry<T>& x, ContactBars<T> bars, Work<T>& w,
                                ContactPointBar<T>& point_bar) {
  const Layout& s = m.s;
  const Vec3<T> Oref = origin_of(s, w, reference_link(k.linkA, k.linkB));
  const Vec3<T> p[2] = {x.p + (Oref - origin_of(s, w, k.linkA)),
                        x.p + (Oref - origin_of(s, w, k.linkB))};
  const Real<T> sign[2] = {Real<T>(-1), Real<T>(1)};
  const int at[2] = {k.linkA, k.linkB};
  const Tangents<T> frame = tangents_of(x.n);
  const Vec3<T> d[3] = {x.n, frame.t1, frame.t2};
  // beta of the gap, or min(beta, e J v) on a hit
  const P h = m.theta.dt[0], e = restitution_of_pair(m, k.source);
  T before = T(0), after = T(0);
  // the world does not move, and nothing comes back from it
  for (int q = 0; q < 2; ++q) {
    if (at[q] == 0) continue;
    before += dot(w.link[at[q]].v, point_force(p[q], d[0])) * sign[q];
    after += dot(w.link[at[q]].v_free, point_force(p[q], d[0])) * sign[q];
  }
  const NormalTerm<T> term = normal_term(m, o, k, x.phi, before, after);
  const GapBars<1, T> gap_bar{{select(term.bounces, bars.lead, bars.beta)}, {bars.rest}, T(0)};
  point_bar.phi += normal_gap_bar(m, o, k, x.phi, gap_bar, term.soft, w);
  const T hit_bar = select(term.bounces, bars.beta - bars.lead, T(0)), rate_bar = hit_bar * e;
  if (w.theta_bar) {
    add_restitution_bar(m, k.source, hit_bar * before, *w.theta_bar, *w.derived_bar);
    // R = compliance / h^2
    const T soft = T(compliance_of_pair(m, k.source));
    const Mask<T> springs = soft / T(h * h) > T(Real<T>(kLeastSpring));
    const T R_bar = select(springs, bars.R / T(h * h), T(0));
    add_compliance_bar(m, k.source, R_bar, *w.theta_bar, *w.derived_bar);
    w.theta_bar->dt[0] -= R_bar * soft * Real<T>(2) / T(h);
    add_friction_bar(m, k.source, bars.mu, *w.theta_bar, *w.derived_bar);
  }
  // a wrench (p x d, d) pairs with a motion x as p . (d x x.ang) and d . (x.ang x p + x.lin)
  Vec3<T> d_bar[3] = {zero3<T>(), zero3<T>(), zero3<T>()};
  for (int q = 0; q < 2; ++q) {
    if (at[q] == 0) continue;
    w.bar[at[q]].v_bar += point_force(p[q], d[0]) * (rate_bar * sign[q]);
    bars.F[q][0] += w.link[at[q]].v * rate_bar;
    for (int i = 0; i < k.rows; ++i) {
      const Motion<T> f = bars.F[q][i] * T(sign[q]);
      point_bar.p += cross(d[i], f.ang);
      d_bar[i] += cross(f.ang, p[q]) + f.lin;
    }
  }
  // d = (n, t1(n), t2(n))
  point_bar.n += d_bar[0];
  if (k.rows == 3) tangents_adjoint(x.n, frame, d_bar[1], d_bar[2], point_bar.n);
}

// (T.7)  from contact points of one pair to the poses of its two links; k is any group of the pair
template <class T, class P>
FB_FN void contact_point_adjoint(const Model<T, P>& m, const RowGroup& k,
                                 const SlotBars<T>& point_bars, Work<T>& w) {
  const Layout& s = m.s;
  const int g[2] = {first_geom(s, k.source), second_geom(s, k.source)},
            link[2] = {k.linkA, k.linkB};
  const Vec3<T> Oref = origin_of(s, w, reference_link(k.linkA, k.linkB));
  Shape<T> shape[2];
  ShapeBar<T> bar[2];
  for (int q = 0; q < 2; ++q) {
    const Vec3<T> c = geom_centre(m, g[q], w);
    shape[q] = place_shape(m, g[q], w, c + (origin_of(s, w, link[q]) - Oref));
    bar[q] = {zero_force<T>(), zero3<T>()};
  }
  // (phi, n, p) = collide(A, B)
  collide_adjoint(kind_of_pair(s, k.source), shape[0], shape[1], point_bars, bar[0], bar[1]);
  // the pose's wrench, moved from the common origin to each tree's
  for (int q = 0; q < 2; ++q) {
    const Force<T> f = bar[q].pose;
    const Vec3<T> arm = Oref - origin_of(s, w, link[q]);
    w.bar[link[q]].pose += Force<T>{f.ang + cross(arm, f.lin), f.lin};
    if (!w.derived_bar) continue;
    const Mat3<T>& R = w.link[link[q]].R;
    if (shape[q].nvert == 0) {
      add3(bar[q].size, w.theta_bar->geom_size + 3 * g[q]);
    } else {
      // stretch = scale / compiled scale - 1
      const Real<T>* s0 = shape[q].vert + 12;
      const Vec3<T> f = bar[q].size;
      add3(Vec3<T>{f.x / T(s0[0]), f.y / T(s0[1]), f.z / T(s0[2])},
           asset_size(s, *w.theta_bar, g[q]));
    }
    // p = r + R geom_p, axes = R geom_R
    add3(mul_transposed(R, f.lin), w.derived_bar->geom_p + 3 * g[q]);
    add_rotation_bar(mul_transposed(R, f.ang - cross(shape[q].p, f.lin)),
                     m.derived.geom_R + 9 * g[q], w.derived_bar->geom_R + 9 * g[q]);
  }
}

// one contact: wrenches, and the gap that moves -z beta; adds the cotangent of its point
template <class T, class P>
FB_FN void contact_adjoint(const Model<T, P>& m, const Options<Real<T>>& o, int index,
                           const RowBars<T>& rows, Work<T>& w, SlotBars<T>& point_bars) {
  const RowGroup& k = w.group[index];
  const int r = k.row - rows.first;
  ContactBars<T> bars;
  if (k.linkA > 0) wrench_adjoint(k, w.data[index], 0, rows, w, bars.F[0]);
  if (k.linkB > 0) wrench_adjoint(k, w.data[index], 1, rows, w, bars.F[1]);
  bars.beta = rows.beta[r];
  bars.rest = rows.rest[r];
  bars.lead = rows.lead[r];
  bars.R = rows.R[r];
  bars.mu = rows.mu[r];
  ContactPointBar<T> point_bar{T(0), zero3<T>(), zero3<T>()};
  contact_data_adjoint(m, o, k, w.geometry[index], bars, w, point_bar);
  add_slot(point_bars, k.side, w.geometry[index].feature, point_bar);
}
// lanes in which no row of a contact carries an impulse or a cotangent
template <class T>
FB_INLINE Mask<T> idle_rows(const RowGroup& k, const RowBars<T>& bars) {
  const int first = k.row - bars.first;
  Mask<T> idle = is_nothing(bars.mu[first]);
  for (int r = first; r < first + k.rows; ++r)
    idle = idle & is_nothing(bars.lam[r]) & is_nothing(bars.z[r]);
  return idle;
}

// (T.8)  pose wrenches of both links for a unit of each number of a contact point: phi, n, p
template <class T, class P>
FB_FN void contact_point_poses(const Model<T, P>& m, const RowGroup& k, Work<T>& w,
                               Force<T> pose[2][7]) {
  for (int e = 0; e < 7; ++e) {
    const ContactPointBar<T> unit{
        T(e == 0), {T(e == 1), T(e == 2), T(e == 3)}, {T(e == 4), T(e == 5), T(e == 6)}};
    LinkBar<T>&a = w.bar[k.linkA], &b = w.bar[k.linkB];
    a.pose = b.pose = zero_force<T>();
    SlotBars<T> bars;
    bars.count = 0;
    add_slot(bars, k.side, w.geometry[&k - w.group].feature, unit);
    contact_point_adjoint(m, k, bars, w);
    pose[0][e] = a.pose;
    pose[1][e] = b.pose;
  }
}
// (T.9)  the impulse of a contact: f at p, directions that turn with the normal
template <class T>
FB_FN void contact_stiffness(const Layout& s, const RowGroup& k, const RowGeometry<T>& x,
                             const Work<T>& w, const Force<T> pose[2][7], GroupStiffness<T>& H) {
  const Vec3<T> Oref = origin_of(s, w, reference_link(k.linkA, k.linkB));
  const Vec3<T> p[2] = {x.p + (Oref - origin_of(s, w, k.linkA)),
                        x.p + (Oref - origin_of(s, w, k.linkB))};
  const T* lam = w.solution.lam + k.row;
  const Tangents<T> frame = tangents_of(x.n);
  Vec3<T> f = x.n * lam[0];
  if (k.rows == 3) f += frame.t1 * lam[1] + frame.t2 * lam[2];
  const Vec3<T> axis[3] = {{T(1), T(0), T(0)}, {T(0), T(1), T(0)}, {T(0), T(0), T(1)}};
  Force<T> turned[2][3];  // pose for a unit velocity of the point
  for (int a = 0; a < 3; ++a) {
    Vec3<T> n_bar = axis[a] * lam[0];
    if (k.rows == 3) tangents_adjoint(x.n, frame, axis[a] * lam[1], axis[a] * lam[2], n_bar);
    for (int out = 0; out < 2; ++out) turned[out][a] = combine(pose[out] + 1, n_bar);
  }
  for (int out = 0; out < 2; ++out)
    for (int in = 0; in < 2; ++in)
      for (int a = 0; a < 3; ++a) {
        const Force<T> ang =
            combine(turned[out], cross(axis[a], p[in])) + combine(pose[out] + 4, cross(f, axis[a]));
        H.column[out][in][a] = in == 0 ? -ang : ang;
        H.column[out][in][3 + a] = in == 0 ? -turned[out][a] : turned[out][a];
      }
}
// the velocity of row i of a contact, and its gap: cotangents of the two links for z = 1
template <class T, class P>
FB_FN void contact_row_bars(const Model<T, P>& m, const Options<Real<T>>& o, int index, int i,
                            const Force<T> pose[2][7], Work<T>& w) {
  const RowGroup& k = w.group[index];
  const RowData<T>& e = w.data[index];
  ContactBars<T> bars;
  for (int side = 0; side < 2; ++side) {
    const int l = side == 0 ? k.linkA : k.linkB;
    clear_bar(w.bar[l]);
    for (int r = 0; r < k.rows; ++r) bars.F[side][r] = zero_motion<T>();
    bars.F[side][i] = -w.bar[l].y;
    w.bar[l].y_bar = -e.F[side][i];
  }
  bars.beta = T(i == 0 ? -1 : 0);
  bars.rest = bars.lead = bars.R = bars.mu = T(0);
  ContactPointBar<T> point{T(0), zero3<T>(), zero3<T>()};
  contact_data_adjoint(m, o, k, w.geometry[index], bars, w, point);
  for (int side = 0; side < 2; ++side)
    w.bar[side == 0 ? k.linkA : k.linkB].pose =
        mul_add(pose[side][0], point.phi, combine(pose[side] + 1, point.n)) +
        combine(pose[side] + 4, point.p);
}

template <class T>
struct ContactRows {
  template <class P>
  FB_FN static void collect(const Model<T, P>& m, const Options<Real<T>>& o, const T*,
                            Mask<T> alive, Work<T>& w) {
    bound_geoms(m, o, w);
    const int first = w.ngroup;
    Collected at{0, 0, w.defers, false};
    collect_all(m, o, alive, at, w);
    if (!at.crowded) return;
    // there is room for all that are awake
    w.ngroup = first;
    w.overflow = Mask<T>(false);
    at = {0, 0, false, false};
    collect_all(m, o, alive, at, w);
  }
  template <class P>
  FB_FN static void collect_all(const Model<T, P>& m, const Options<Real<T>>& o, Mask<T> alive,
                                Collected& at, Work<T>& w) {
    w.hit.ncoming = w.nrim = w.naside = w.ndeferred = w.deferred_slots = 0;
    w.last.any = false;
    w.last.growths = w.last.spent = T(0);
    const auto collect_one = [&](int pair) { collect_pair(m, o, pair, alive, at, w); };
    if (m.s.nruled > 0)
      return for_near_pairs<T>(
          m.s, alive, [&](int g) { return reached_box(m, o, g, w); },
          [&](int plane, int g) { return broad_phase(m, o, plane, g, w).near; }, w.sweep,
          collect_one);
    for (int pair = 0; pair < m.s.npair; ++pair)
      if (!is_apart(w.geom[m.s.pair_geom1[pair]], w.geom[m.s.pair_geom2[pair]])) collect_one(pair);
  }

  template <class P>
  FB_FN static void data(const Model<T, P>& m, const Options<Real<T>>& o, int index, const T*,
                         const Work<T>& w, RowData<T>& e) {
    contact_data(m, o, w.group[index], w.geometry[index], w, e);
  }

  // the contacts of one pair; rows that are all held at zero move nothing
  template <class P>
  FB_FN static void adjoint(const Model<T, P>& m, const Options<Real<T>>& o, GroupSpan span,
                            const StepPoint<T>&, const RowBars<T>& bars, Work<T>& w, T*) {
    SlotBars<T> point_bars;
    point_bars.count = 0;
    for (int i = span.from; i < span.to; ++i)
      if (!all(idle_rows(w.group[i], bars))) contact_adjoint(m, o, i, bars, w, point_bars);
    if (point_bars.count > 0) contact_point_adjoint(m, w.group[span.from], point_bars, w);
  }

  template <class P>
  FB_FN static void columns(const Model<T, P>& m, const Options<Real<T>>& o, int index,
                            const StepPoint<T>&, Work<T>& w, LinearWork<T>& f) {
    const RowGroup& k = w.group[index];
    GroupStiffness<T> H;
    Force<T> pose[2][7];
    contact_point_poses(m, k, w, pose);
    contact_stiffness(m.s, k, w.geometry[index], w, pose, H);
    add_stiffness(m.s, k, H, T(m.theta.dt[0]), w, f);
    for (int i = 0; i < k.rows; ++i) {
      contact_row_bars(m, o, index, i, pose, w);
      add_row_columns(m.s, k, k.row + i, w, f);
    }
  }
};

}  // namespace fb::FB_ISA
