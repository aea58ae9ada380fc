// Contact rows: broad phase, touches, the speculative law with
// restitution, tangents.  Proof: docs/derivations/contact.md.
#pragma once
#include "core/collision/pairs.hpp"
#include "core/contact/constraint.hpp"

namespace fb::FB_ISA {

// link whose tree origin a contact is expressed about: the moving one, B before A
FB_INLINE int reference_link(int la, int lb) { return lb > 0 ? lb : la; }

// centre and axes of a geom relative to its tree's
// origin; the world's own link neither turns nor moves
template <class T, class P>
FB_INLINE Vec3<T> geom_centre(const Model<T, P>& m, int g, const Work<T>& w) {
  const int l = m.s.geom_link[g];
  if (l == 0) return lift3<T>(m.derived.geom_p + 3 * g);
  return mul_add(w.link[l].R, lift3<P>(m.derived.geom_p + 3 * g), w.link[l].r);
}
template <class T, class P>
FB_INLINE Mat3<T> geom_axes(const Model<T, P>& m, int g, const Work<T>& w) {
  const int l = m.s.geom_link[g];
  const P* G = m.derived.geom_R + 9 * g;
  if (l > 0) return mul(w.link[l].R, G);
  Mat3<T> R;
#pragma GCC unroll 9
  for (int e = 0; e < 9; ++e) R.a[e] = T(G[e]);
  return R;
}

// bound on the speed of any point of a geom in one step's free motion, by sums of absolute values
template <class T, class P>
FB_INLINE T geom_speed(Motion<T> v, Vec3<T> c, P radius) {
  const Vec3<T> l = v.lin + cross(v.ang, c);
  return abs(l.x) + abs(l.y) + abs(l.z) + (abs(v.ang.x) + abs(v.ang.y) + abs(v.ang.z)) * radius;
}

// (T.1)  can this pair touch within the step?  Centres relative to each link's own origin; `shift`
// brings A's to B's
template <class T, class P>
FB_INLINE Mask<T> broad_phase(const Model<T, P>& m, const Options<Real<T>>& o, int pair,
                              const Work<T>& w, Vec3<T> cA, Vec3<T> cB, Vec3<T> shift) {
  const Layout& s = m.s;
  const int ga = s.pair_geom1[pair], gb = s.pair_geom2[pair];
  const LinkWork<T>&A = w.link[s.geom_link[ga]], &B = w.link[s.geom_link[gb]];
  const P ra = m.derived.geom_radius[ga], rb = m.derived.geom_radius[gb];
  T step_scale = geom_speed(B.v_free, cB, rb);
  const Vec3<T> d = cB - cA - shift;
  if (s.geom_type[ga] == kPlane) {
    const P* G = m.derived.geom_R + 9 * ga;
    Vec3<T> n{T(G[2]), T(G[5]), T(G[8])};
    // a moving plane is as fast as its point nearest to B
    if (s.geom_link[ga] > 0) {
      n = mul(A.R, n);
      step_scale += geom_speed(A.v_free, cB - shift, rb);
    }
    return dot(n, d) - T(rb) < max(T(o.margin), step_scale * m.theta.dt[0]);
  }
  if (s.geom_link[ga] > 0) step_scale += geom_speed(A.v_free, cA, ra);
  const T far = max(T(o.margin), step_scale * m.theta.dt[0]) + T(ra) + T(rb);
  return dot(d, d) < far * far;
}

template <class T, class P>
FB_INLINE Shape<T> place_shape(const Model<T, P>& m, int g, const Work<T>& w, Vec3<T> centre) {
  Shape<T> x;
  x.type = ShapeType(m.s.geom_type[g]);
  x.p = centre;
  x.R = geom_axes(m, g, w);
  x.vert = m.vert + 3 * m.s.geom_vert[g];
  x.nvert = m.s.geom_nvert[g];
  x.size = x.nvert > 0 ? mesh_stretch<T>(x.vert, m.theta.mesh_scale + 3 * m.s.geom_mesh[g])
                       : lift3<T>(m.theta.geom_size + 3 * g);
  return x;
}

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
template <class T>
FB_INLINE Tangents<T> tangents_of(Vec3<T> n) {
  Tangents<T> f;
  const Mask<T> use_x = abs(n.x) < T(Real<T>(0.57735));
  const T o = T(0), i = T(1);
  f.e = select(use_x, Vec3<T>{i, o, o}, Vec3<T>{o, i, o});
  f.along = select(use_x, n.x, n.y);
  const Vec3<T> a = f.e - n * f.along;
  f.inverse = T(1) / norm(a);
  f.t1 = a * f.inverse;
  f.t2 = cross(n, f.t1);
  return f;
}
template <class T>
FB_INLINE void tangents(Vec3<T> n, Vec3<T>& t1, Vec3<T>& t2) {
  const Tangents<T> f = tangents_of(n);
  t1 = f.t1;
  t2 = f.t2;
}

// given t1_bar and t2_bar, add to n_bar
template <class T>
FB_INLINE void tangents_adjoint(Vec3<T> n, const Tangents<T>& f, Vec3<T> t1_bar, Vec3<T> t2_bar,
                                Vec3<T>& n_bar) {
  // t2 = n x t1
  n_bar += cross(f.t1, t2_bar);
  const Vec3<T> b = t1_bar + cross(t2_bar, n);
  // t1 = a / |a|, a = e - n (e . n)
  const Vec3<T> a_bar = (b - f.t1 * dot(f.t1, b)) * f.inverse;
  n_bar -= a_bar * f.along + f.e * dot(n, a_bar);
}

// add the touches of one pair that matter in this step
template <class T, class P>
FB_FN void collect_pair(const Model<T, P>& m, const Options<Real<T>>& o, int pair, Mask<T> alive,
                        int& contacts, Work<T>& w) {
  const Layout& s = m.s;
  const int ga = s.pair_geom1[pair], gb = s.pair_geom2[pair];
  const int la = s.geom_link[ga], lb = s.geom_link[gb], ref = reference_link(la, lb);
  const Vec3<T> cA = geom_centre(m, ga, w), cB = geom_centre(m, gb, w);
  const Vec3<T> OA = origin_of(s, w, la), OB = origin_of(s, w, lb), Oref = origin_of(s, w, ref);
  const Mask<T> near = alive & broad_phase(m, o, pair, w, cA, cB, OA - OB);
  if (!any(near)) return;
  ContactPoint<T> touch[kMaxSlots];
  collide(s.pair_kind[pair], place_shape(m, ga, w, cA + (OA - Oref)),
          place_shape(m, gb, w, cB + (OB - Oref)), touch);
  for (int k = 0; k < pair_slots(s.pair_kind[pair]); ++k) {
    const ContactPoint<T>& x = touch[k];
    const T rate = dot(w.link[lb].v_free, point_force(x.p + (Oref - OB), x.n)) -
                   dot(w.link[la].v_free, point_force(x.p + (Oref - OA), x.n));
    const Mask<T> on =
        near & x.active & ((x.phi < T(o.margin)) | (x.phi + rate * m.theta.dt[0] < T(0)));
    if (!any(on)) continue;
    if (contacts == s.max_contacts) {
      w.overflow = w.overflow | on;
      continue;
    }
    ++contacts;
    RowGroup& b = push_group(w, kContactRows, s.pair_condim[pair] == 1 ? 1 : 3, pair);
    w.geometry[w.ngroup - 1] = {x.phi, x.n, x.p, on};
    b.linkA = la;
    b.linkB = lb;
    b.side = k;
    set_chains(s, b, s.link_lastdof[la], s.link_lastdof[lb]);
  }
}

// the normal's beta, and whether it answers to the gap or to the velocity before the step
template <class T>
struct NormalTerm {
  T beta;
  Mask<T> follows_gap, bounces;
};
template <class T, class P>
FB_INLINE NormalTerm<T> normal_term(const Model<T, P>& m, const Options<Real<T>>& o, int pair,
                                    T phi, T before, T after) {
  const P h = m.theta.dt[0], e = m.derived.pair_restitution[pair];
  // a given compliance softens the recovery by itself, and must carry any weight
  const T full = phi / T(h);
  const Mask<T> hard = T(m.derived.pair_compliance[pair]) <= T(0);
  const Mask<T> bounded = hard & (full <= T(-o.v_recover));
  const T beta = select(bounded, T(-o.v_recover), full);
  const Mask<T> hit = (before < T(-o.v_rest)) & (phi + after * h < T(0)) & (T(e) > T(0));
  const Mask<T> bounces = hit & (before * e < beta);
  return {select(bounces, before * e, beta), !(bounces | bounded), bounces};
}

// (T.3)  b_n = J v* + beta, beta = max(phi / h, -v_recover); a hit with restitution replaces the
// gap: beta = min(beta, e J v)
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
  const T share = default_compliance(m, o, s.geom_body[s.pair_geom1[k.source]],
                                     s.geom_body[s.pair_geom2[k.source]], false);
  // the world does not move: its side stays zero
  const bool movesA = k.linkA > 0, movesB = k.linkB > 0;
  for (int i = 0; i < k.rows; ++i) {
    if (movesA) e.F[0][i] = -point_force(pA, d[i]);
    if (movesB) e.F[1][i] = point_force(pB, d[i]);
    e.b[i] = T(0);
    e.lo[i] = -unbounded<T>();
    e.hi[i] = unbounded<T>();
    e.R[i] = share;
  }
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
  const T soft = T(m.derived.pair_compliance[k.source]) / T(h * h);
  e.b[0] = normal_term(m, o, k.source, x.phi, before, after).beta;
  e.lo[0] = T(0);
  e.mu = T(m.derived.pair_mu[k.source]);
  e.R[0] = select(soft > T(0), soft, e.R[0]);
}

// (T.5)  cotangents of one contact's rows.  F_bar[side][i]: of each row's wrenches; beta_bar: of
// the normal's b
template <class T>
struct ContactBars {
  Motion<T> F[2][3];
  T beta;
};

// (T.6)  from rows to the touch and to the velocity before the step; given bars of seeds, add to
// point_bar and to v_bar of both links
template <class T, class P>
FB_FN void contact_data_adjoint(const Model<T, P>& m, const Options<Real<T>>& o, const RowGroup& k,
                                const RowGeometry<T>& x, Work<T>& w, ContactBars<T> bars,
                                ContactPointBar<T>& point_bar) {
  const Layout& s = m.s;
  const Vec3<T> Oref = origin_of(s, w, reference_link(k.linkA, k.linkB));
  const Vec3<T> p[2] = {x.p + (Oref - origin_of(s, w, k.linkA)),
                        x.p + (Oref - origin_of(s, w, k.linkB))};
  const Real<T> sign[2] = {Real<T>(-1), Real<T>(1)};
  const int at[2] = {k.linkA, k.linkB};
  const Tangents<T> frame = tangents_of(x.n);
  const Vec3<T> d[3] = {x.n, frame.t1, frame.t2};
  // beta = max(phi / h, -v_recover), or min(beta, e J v) on a hit
  const P h = m.theta.dt[0], e = m.derived.pair_restitution[k.source];
  T before = T(0), after = T(0);
  // the world does not move, and nothing comes back from it
  for (int q = 0; q < 2; ++q) {
    if (at[q] == 0) continue;
    before += dot(w.link[at[q]].v, point_force(p[q], d[0])) * sign[q];
    after += dot(w.link[at[q]].v_free, point_force(p[q], d[0])) * sign[q];
  }
  const NormalTerm<T> term = normal_term(m, o, k.source, x.phi, before, after);
  point_bar.phi += select(term.follows_gap, bars.beta / T(h), T(0));
  const T rate_bar = select(term.bounces, bars.beta * e, T(0));
  if (w.theta_bar) {
    w.theta_bar->dt[0] -= select(term.follows_gap, bars.beta * x.phi / T(h * h), T(0));
    w.derived_bar->pair_restitution[k.source] += select(term.bounces, bars.beta * before, T(0));
    // R = compliance / h^2
    const T soft = T(m.derived.pair_compliance[k.source]);
    const T R_bar = select(soft > T(0), w.R_bar[k.row] / T(h * h), T(0));
    w.derived_bar->pair_compliance[k.source] += R_bar;
    w.theta_bar->dt[0] -= R_bar * soft * Real<T>(2) / T(h);
    w.derived_bar->pair_mu[k.source] += w.mu_bar[k.row];
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
  point_bar.n += d_bar[0];
  if (k.rows == 3) tangents_adjoint(x.n, frame, d_bar[1], d_bar[2], point_bar.n);
}

// (T.7)  from touches of one pair to the places of its two links; k is any block of the pair
template <class T, class P>
FB_FN void contact_point_adjoint(const Model<T, P>& m, const RowGroup& k,
                                 const SlotBars<T>& point_bars, Work<T>& w) {
  const Layout& s = m.s;
  const int g[2] = {s.pair_geom1[k.source], s.pair_geom2[k.source]}, link[2] = {k.linkA, k.linkB};
  const Vec3<T> Oref = origin_of(s, w, reference_link(k.linkA, k.linkB));
  Shape<T> shape[2];
  ShapeBar<T> bar[2];
  for (int q = 0; q < 2; ++q) {
    const Vec3<T> c = geom_centre(m, g[q], w);
    shape[q] = place_shape(m, g[q], w, c + (origin_of(s, w, link[q]) - Oref));
    bar[q] = {zero_force<T>(), zero3<T>()};
  }
  collide_adjoint(s.pair_kind[k.source], shape[0], shape[1], point_bars, bar[0], bar[1]);
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
           w.theta_bar->mesh_scale + 3 * s.geom_mesh[g[q]]);
    }
    add3(mul_transposed(R, f.lin), w.derived_bar->geom_p + 3 * g[q]);
    add_rotation_bar(mul_transposed(R, f.ang - cross(shape[q].p, f.lin)),
                     m.derived.geom_R + 9 * g[q], w.derived_bar->geom_R + 9 * g[q]);
  }
}

// seeds of any block; rows that are off in a lane become zero rows held at zero
template <class T, class P>
FB_FN void group_data(const Model<T, P>& m, const Options<Real<T>>& o, int index, const T* q,
                      const Work<T>& w, RowData<T>& e) {
  const RowGroup& k = w.group[index];
  const RowGeometry<T>& x = w.geometry[index];
  e.ncoef = 0;
  for (int i = 0; i < 3; ++i) e.F[0][i] = e.F[1][i] = zero_force<T>();
  e.mu = T(0);
  if (k.kind == kContactRows)
    contact_data(m, o, k, x, w, e);
  else if (k.kind == kConnectRows || k.kind == kWeldRotationRows)
    equality_data(m, o, k, w, e);
  else
    joint_row_data(m, o, k, x, q, e);
  if (all(x.active)) return;
  const T zero = T(0);
  for (int i = 0; i < k.rows; ++i) {
    for (int side = 0; side < 2; ++side)
      e.F[side][i] = select(x.active, e.F[side][i], zero_force<T>());
    e.b[i] = select(x.active, e.b[i], zero);
    e.lo[i] = select(x.active, e.lo[i], zero);
    e.hi[i] = select(x.active, e.hi[i], zero);
  }
  for (int c = 0; c < e.ncoef; ++c) e.coef[c] = select(x.active, e.coef[c], zero);
  e.mu = select(x.active, e.mu, zero);
}

// (T.4)  all rows of the step: collect, order, half solve, assemble
template <class T, class P>
FB_FN void build_rows(const Model<T, P>& m, const Options<Real<T>>& o, const T* q, Mask<T> alive,
                      Work<T>& w) {
  const Layout& s = m.s;
  FB_STAGE(collision);
  w.ngroup = 0;
  w.overflow = Mask<T>(false);
  collect_equalities(m, alive, w);
  collect_limits(m, o, q, alive, w);
  int contacts = 0;
  for (int pair = 0; pair < s.npair; ++pair) collect_pair(m, o, pair, alive, contacts, w);
  FB_STAGE(rows);
  order_rows(s, w);
  for (int p = 0; p < w.ngroup; ++p) {
    const RowGroup& k = w.group[w.sorted[p]];
    RowData<T>& e = w.data[w.sorted[p]];
    group_data(m, o, w.sorted[p], q, w, e);
    for (int i = 0; i < k.rows; ++i) {
      const int r = k.row + i;
      w.b[r] = e.b[i] + free_row_velocity(w, k, e, i);
      w.lo[r] = e.lo[i];
      w.hi[r] = e.hi[i];
      w.R[r] = e.R[i];
      w.mu[r] = e.mu;
      w.cone[r] = 0;
    }
    if (k.kind == kContactRows && k.rows == 3) w.cone[k.row] = 1;
    half_solve(s, w, k, e);
  }
  FB_STAGE(assembly);
  T* A = w.A;
  for (int i = 0, from = 0; i < w.nisland; ++i) {
    const int first = w.island_row[i], n = w.island_row[i + 1] - first;
    int to = from;
    while (to < w.ngroup && w.group[w.sorted[to]].row < first + n) ++to;
    assemble_island(s, w, from, to, first, n, A);
    A += n * n;
    from = to;
  }
}

}  // namespace fb::FB_ISA
