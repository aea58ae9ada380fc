// Hits with restitution happen when they happen: a step that is hit is cut there, the hit is solved
// at that pose with the velocities of that moment, and an ordinary step of what is left follows.
// Proof: docs/derivations/hit.md.
#pragma once
#include "core/dynamics/integrate.hpp"
#include "core/dynamics/spin.hpp"
#include "core/dynamics/tendon.hpp"
#include "core/step_recovery.hpp"
#include "core/step_unrolled.hpp"

namespace fb::FB_ISA {

template <class T>
struct StepBars;

// ---- the moment of the first hit

// how a contact that is coming closes its gap: normal velocities at the two ends of the part
template <class T>
struct Approach {
  T phi, rate, change;  // change: of the rate, by the end of the part
  T tau;
  Mask<T> hits, clipped;  // clipped: too deep at the beginning, hit at once
};
// (H.2)  the moment at which phi + tau (rate + change / 2) + tau^2 change / (2 h) vanishes; it lies
// at least `least` before the end of the part
template <class T>
FB_INLINE Approach<T> hit_moment(T phi, T rate, T change, T h, T least) {
  const Real<T> half(0.5), two(2);
  const T b = rate + change * half, square = b * b - phi * change * two / h;
  const Mask<T> real = square > T(0);
  const T width = sqrt(select(real, square, T(1))) - b;
  const Mask<T> closes = real & (width > T(0));
  const T tau = phi * two / select(closes, width, T(1));
  const Mask<T> clipped = tau < least * -two;
  const Mask<T> hits = closes & (tau < h - least);
  return {phi, rate, change, select(clipped, T(0), tau), hits, clipped};
}
// (H.3)  given tau_bar: cotangents of the gap, of both velocities and of h
template <class T>
struct ApproachBars {
  T phi, rate, rate1, h;
};
template <class T>
FB_INLINE ApproachBars<T> hit_moment_adjoint(const Approach<T>& a, T h, T tau_bar) {
  const Real<T> half(0.5);
  const T share = a.tau / h;
  const T slope = a.rate + a.change * (share + half);
  const Mask<T> moves = a.hits & !a.clipped;
  const T phi_bar = select(moves, -(tau_bar / select(moves, slope, T(1))), T(0));
  const T change_bar = phi_bar * a.tau * (share + Real<T>(1)) * half;
  return {phi_bar, phi_bar * a.tau - change_bar, change_bar,
          -(phi_bar * share * share * a.change * half)};
}

// the unit impulse of a contact's normal on its two links, each about its own tree's origin
template <class T>
struct NormalWrench {
  Force<T> A, B;
};
template <class T>
FB_INLINE NormalWrench<T> normal_wrench(const Layout& s, const Work<T>& w, int index) {
  const RowGroup& k = w.group[index];
  const RowGeometry<T>& x = w.geometry[index];
  const Vec3<T> O = origin_of(s, w, reference_link(k.linkA, k.linkB));
  return {-point_force(x.p + (O - origin_of(s, w, k.linkA)), x.n),
          point_force(x.p + (O - origin_of(s, w, k.linkB)), x.n)};
}
// the approach of coming hit c in the part that was just run; w.twist: twists of its new velocity
template <class T>
FB_INLINE Approach<T> coming_approach(const Layout& s, const Work<T>& w, int c, T h, T least) {
  const int index = w.hit.group[c];
  const RowGroup& k = w.group[index];
  const NormalWrench<T> F = normal_wrench(s, w, index);
  T rate = T(0), rate1 = T(0);
  if (k.linkA > 0) {
    rate += dot(w.link[k.linkA].v, F.A);
    rate1 += dot(w.twist[k.linkA], F.A);
  }
  if (k.linkB > 0) {
    rate += dot(w.link[k.linkB].v, F.B);
    rate1 += dot(w.twist[k.linkB], F.B);
  }
  return hit_moment(w.geometry[index].phi, rate, rate1 - rate, h, least);
}
// within the adjoint of a part: the place of the contact whose approach set the moment, and the
// velocity before
template <class T, class P>
FB_FN void coming_approach_adjoint(const Model<T, P>& m, Work<T>& w) {
  HitWork<T>& k = w.hit;
  for (int c = 0; c < k.ncoming; ++c) {
    const Mask<T> here = k.first == T(c);
    const T zero = T(0), phi_bar = select(here, k.phi_bar, zero),
            rate_bar = select(here, k.rate_bar, zero), rate1_bar = select(here, k.rate1_bar, zero);
    if (all(is_nothing(phi_bar))) continue;
    const int index = k.group[c];
    const RowGroup& g = w.group[index];
    const RowGeometry<T>& x = w.geometry[index];
    const NormalWrench<T> F = normal_wrench(m.s, w, index);
    const Vec3<T> O = origin_of(m.s, w, reference_link(g.linkA, g.linkB));
    ContactPointBar<T> point{phi_bar, zero3<T>(), zero3<T>()};
    for (int side = 0; side < 2; ++side) {
      const int l = side == 0 ? g.linkA : g.linkB;
      if (l == 0) continue;
      const Force<T>& f = side == 0 ? F.A : F.B;
      LinkBar<T>& b = w.bar[l];
      b.v_bar = mul_add(f, rate_bar, b.v_bar);
      b.y_bar = mul_add(f, rate1_bar, b.y_bar);
      const Motion<T> F_bar =
          (w.link[l].v * rate_bar + b.y * rate1_bar) * T(Real<T>(side == 0 ? -1 : 1));
      point.p += cross(x.n, F_bar.ang);
      point.n += cross(F_bar.ang, x.p + (O - origin_of(m.s, w, l))) + F_bar.lin;
    }
    SlotBars<T> slots;
    slots.count = 0;
    add_slot(slots, g.side, x.feature, point);
    contact_point_adjoint(m, g, slots, w);
  }
}

// (H.1)  lanes of the part in w that are hit before it ends; sets when and by what
template <class T>
FB_FN void first_hit(const Layout& s, T least, StepPart<T>& part, Work<T>& w) {
  part.hit = Mask<T>(false);
  part.tau = part.geom[0] = part.geom[1] = part.travel = w.hit.first = T(0);
  if (w.hit.ncoming == 0) return;
  link_twists(s, w, part.v1, w.twist);
  for (int c = 0; c < w.hit.ncoming; ++c) {
    const Approach<T> a = coming_approach(s, w, c, part.h, least);
    const Mask<T> sooner = (!part.hit) | (a.tau < part.tau);
    const Mask<T> first = part.on & w.hit.mask[c] & a.hits & sooner;
    part.tau = select(first, a.tau, part.tau);
    const int pair = w.group[w.hit.group[c]].source;
    part.geom[0] = select(first, T(first_geom(s, pair)), part.geom[0]);
    part.geom[1] = select(first, T(second_geom(s, pair)), part.geom[1]);
    part.travel = select(first, -(a.rate * part.h), part.travel);
    w.hit.first = select(first, T(c), w.hit.first);
    part.hit = part.hit | first;
  }
}

// ---- parts of different lengths

// a model whose parameters are every lane's own, so that lanes can have steps of their own length
template <class T, class P>
FB_FN Model<T, T> lane_model(const Model<T, P>& m, HitWork<T>& k) {
  Model<T, T> out;
  out.s = m.s;
  out.vert = m.vert;
  out.applied = m.applied;
  if constexpr (sizeof(P) == sizeof(T)) {
    out.theta = m.theta;
    out.derived = m.derived;
  } else {
    const Layout& s = m.s;
    Theta<T> theta;
    Derived<T> derived;
    bind<T>(s, k.theta, theta);
    bind<T>(s, k.derived, derived);
    if (!k.lifted) {
#define FB_X(name, rows, columns, ...) \
  for (int i = 0; i < (rows) * (columns); ++i) theta.name[i] = T(m.theta.name[i]);
      FB_PARAMETERS(FB_X)
#undef FB_X
#define FB_X(name, count) \
  for (int i = 0; i < count; ++i) derived.name[i] = T(m.derived.name[i]);
      FB_DERIVED(FB_X)
#undef FB_X
      k.lifted = true;
    }
    bind<const T>(s, k.theta, out.theta);
    bind<const T>(s, k.derived, out.derived);
  }
  return out;
}
// the same model with another length of the step
template <class T>
FB_INLINE Model<T, T> with_step(Model<T, T> m, const T& h) {
  m.theta.dt = &h;
  return m;
}

// ---- the hit

// (H.4)  contacts and limits that touch at the hit: no farther than the contact that is hit, whose
// gap is not quite zero since the root took its normal velocity to change evenly
template <class T>
FB_FN void keep_touching(const Layout& s, const Options<Real<T>>& o, const StepPart<T>& part,
                         Work<T>& w) {
  const T far = T(Real<T>(1e30));
  T gap = far;
  for (int i = 0; i < w.ngroup; ++i)
    if (w.group[i].kind == kContactRows) {
      const int pair = w.group[i].source;
      const Mask<T> its =
          (part.geom[0] == T(first_geom(s, pair))) & (part.geom[1] == T(second_geom(s, pair)));
      gap = select(w.geometry[i].active & its, min(gap, w.geometry[i].phi), gap);
    }
  const Real<T> slack(kIsDouble<T> ? 1e-6 : 1e-3);
  const T reach =
      select(gap < far, max(gap, T(0)), T(0)) + T(o.margin * Real<T>(1e-3)) + part.travel * slack;
  for (int i = 0; i < w.ngroup; ++i) {
    const int kind = w.group[i].kind;
    RowGeometry<T>& x = w.geometry[i];
    if (kind == kContactRows || kind == kRimRows || kind == kLimitRows || kind == kBallLimitRows ||
        kind == kTendonLimitRows)
      x.active = x.active & (x.phi <= reach);
  }
}
// (H.5)  the hit that ends a part, v_leave = v_hit + M^-1 J' lam: the contact rows of a step without
// end, whose gaps ask for no velocity.  Dry friction has no impulse within a moment
template <class T>
FB_FN void hit_velocity(const Model<T, T>& m, const Options<Real<T>>& o, const StepPart<T>& part,
                        T* v_leave, Work<T>& w) {
  const Layout& s = m.s;
  const T *x = part.x_hit, *v = velocity_of(s, x);
  kinematics(m, x, v, w);
  for (int d = 0; d < s.nv; ++d) {
    w.tau[d] = T(0);
    w.hD[d] = T(m.theta.dof_armature[d]);
  }
  articulated_body(m, w.tau, w);
  w.v_begin = v;
  for (int d = 0; d < s.nv; ++d) w.v_free[d] = v[d];
  for (int l = 1; l < s.nlink; ++l) w.link[l].v_free = w.link[l].v;
  w.ngroup = 0;
  w.overflow = Mask<T>(false);
  w.hit.cuts = w.sets_aside = false;
  EqualityRows<T>::collect(m, o, x, part.hit, w);
  LimitRows<T>::collect(m, o, x, part.hit, w);
  if (s.ntendon > 0) {
    tendon_kinematics(m, x, v, w);
    collect_tendon_gaps(m, o, part.hit, w);
    if (s.nheavy > 0) collect_tendon_inertia(m, part.hit, w);
  }
  ContactRows<T>::collect(m, o, x, part.hit, w);
  w.hit.cuts = w.sets_aside = true;
  keep_touching(s, o, part, w);
  const T endless = T(Real<T>(1e30));
  impulses(with_step(m, endless), o, x, part.hit, v_leave, w);
}

// (H.8)  adjoint of (H.5): given v_bar of the velocity that leaves, add to q_tan and to that of v_hit
template <class T>
FB_FN void hit_velocity_adjoint(const Model<T, T>& m, const Options<Real<T>>& o,
                                const StepPoint<T>& x, const T* leave_bar, T* q_tan, T* v_bar,
                                Work<T>& w) {
  const Layout& s = m.s;
  velocity_adjoint(m, leave_bar, w);
  for (int d = 0; d < s.nv; ++d) w.hD_bar_extra[d] = T(0);
  if (any(w.solution.unrolled)) delassus_adjoint(m, o, x, w, q_tan);
  // -<w, M (v_leave - v_hit)>, with twists y of v_leave and v of v_hit
  clear_bar(w.bar[0]);
  w.bar[0].y = zero_motion<T>();
  for (int l = 1; l < s.nlink; ++l) {
    const LinkWork<T>& k = w.link[l];
    LinkBar<T>& b = w.bar[l];
    const int parent = s.link_parent[l], first = s.link_dof[l];
    b.w = w.bar[parent].w;
    b.y = w.bar[parent].y;
    for (int d = first; d < first + s.link_ndof[l]; ++d) {
      b.w = mul_add(w.dof[d].S, w.w_rate[d], b.w);
      b.y = mul_add(w.dof[d].S, x.v1[d], b.y);
    }
    const Motion<T> jump = b.y - k.v;
    b.v_bar = k.I * b.w;
    b.y_bar = -b.v_bar;
    b.w_bar = -(k.I * jump);
    b.pose = -(cross(b.w, b.w_bar) + cross(jump, b.y_bar));
    if (!w.derived_bar) continue;
    InertiaBar<T> I_bar{T(0), zero3<T>(), {T(0), T(0), T(0), T(0), T(0), T(0)}};
    add_pairing(I_bar, -b.w, jump);
    link_inertia_adjoint(m, l, I_bar, w);
  }
  const RowProblemBar<T>& row = w.row_bar;
  // no row of a hit has bounds of its own
  const RowBars<T> bars{0,          w.solution.lam, row.z,      w.neg_z,    w.R_bar, w.zero_row,
                        w.zero_row, row.mu,         w.zero_row, w.zero_row, w.w_rate};
  rows_adjoint(m, o, x, bars, w, q_tan);
  for (int l = s.nlink - 1; l > 0; --l) {
    LinkBar<T>& b = w.bar[l];
    const int first = s.link_dof[l], last = first + s.link_ndof[l], parent = s.link_parent[l];
    for (int d = first + world_axes(s.link_type[l]); d < last; ++d)
      b.pose += cross(w.dof[d].S,
                      mul_add(b.w_bar, w.w_rate[d], mul_add(b.y_bar, x.v1[d], b.v_bar * x.v[d])));
    for (int d = first; d < last; ++d) {
      q_tan[d] += dot(w.dof[d].S, b.pose);
      v_bar[d] += mul_add(w.hD[d], w.w_rate[d], dot(w.dof[d].S, b.v_bar));
      if (w.theta_bar)
        w.theta_bar->dof_armature[d] += w.hD_bar_extra[d] - w.w_rate[d] * (x.v1[d] - x.v[d]);
    }
    if (w.derived_bar) link_pose_adjoint(m, l, x.q, w);
    if (parent == 0) continue;
    w.bar[parent].w_bar += b.w_bar;
    w.bar[parent].y_bar += b.y_bar;
    w.bar[parent].v_bar += b.v_bar;
    w.bar[parent].pose += b.pose;
  }
  if (s.ntendon > 0)
    tendon_kinematics_adjoint<T, T>(m, x.q, x.v, {q_tan, v_bar, nullptr, nullptr}, w);
}

// (H.6)  where a part is hit: q_hit = q (+) tau (v + (1 + s) d / 2), v_hit = v + (s + 1/2) d with
// d = v1 - v and s = tau / h; velocities of a step stand for the middle of it
template <class T>
FB_FN void hit_state(const Model<T, T>& m, const StepPart<T>& part, const T* u, Work<T>& w) {
  const Layout& s = m.s;
  const Real<T> half(0.5);
  const T share = part.tau / part.h, mean = (share + Real<T>(1)) * half;
  const T* v = velocity_of(s, part.x);
  for (int d = 0; d < s.nv; ++d) {
    const T change = part.v1[d] - v[d];
    w.hit.mean[d] = mul_add(change, mean, v[d]);
    velocity_of(s, part.x_hit)[d] = mul_add(change, share + half, v[d]);
  }
  integrate(s, part.x, w.hit.mean, part.tau, part.x_hit);
  if (s.na > 0)
    advance_activation(with_step(m, part.tau), step_point<T>(s, part.x, u, nullptr),
                       activation_of(s, part.x_hit));
}
// (H.10)  from the bars of where a part begins, x_bar, through the hit before it to the part that the
// hit ended: x_bar becomes what that part's state gets directly, v1_bar is set; moments in w.hit
template <class T>
FB_FN void hit_state_adjoint(const Model<T, T>& m, const Options<Real<T>>& o,
                             const StepPart<T>& part, const T* u, T* x_bar, T* v1_bar, Work<T>& w) {
  HitWork<T>& k = w.hit;
  const Layout& s = m.s;
  const Real<T> half(0.5);
  const T *v = velocity_of(s, part.x), share = part.tau / part.h;
  T *leave_bar = velocity_of(s, x_bar), *q_tan = k.scratch, *v_bar = k.mean_bar;
  T *state_bar = k.x_hit_bar, *mean_bar = velocity_of(s, state_bar);
  const T endless = T(Real<T>(1e30));
  // v_leave from (q_hit, v_hit)
  const StepPoint<T> at = step_point<T>(s, part.x_hit, u, part.v_leave);
  hit_velocity(m, o, part, k.mean, w);
  for (int d = 0; d < s.nv; ++d) {
    q_tan[d] = v_bar[d] = T(0);
    k.change_bar[d] = -(leave_bar[d] * half);
  }
  hit_velocity_adjoint(with_step(m, endless), o, at, leave_bar, q_tan, v_bar, w);
  lift_tangent(s, at.q, q_tan, x_bar);
  // act_hit and q_hit = q (+) tau mean
  for (int i = 0; i < state_size(s); ++i) state_bar[i] = T(0);
  k.theta_bar.dt[0] = T(0);
  const T mean = (share + Real<T>(1)) * half;
  for (int d = 0; d < s.nv; ++d) k.mean[d] = mul_add(part.v1[d] - v[d], mean, v[d]);
  k.tau_bar += integrate_adjoint(s, part.x, k.mean, part.tau, x_bar, state_bar, mean_bar);
  const ActuationBars<T> inputs{q_tan, mean_bar, activation_of(s, state_bar), k.u_bar};
  if (s.na > 0)
    advance_activation_adjoint(with_step(m, part.tau), step_point<T>(s, part.x, u, nullptr),
                               activation_of(s, x_bar), inputs, w);
  k.tau_bar += k.theta_bar.dt[0];
  // v_hit = v + (s + 1/2) d and mean = v + (1 + s) d / 2, d = v1 - v
  T share_bar = T(0);
  for (int d = 0; d < s.nv; ++d) {
    const T change = part.v1[d] - v[d];
    share_bar += (v_bar[d] + mean_bar[d] * half) * change;
    const T change_bar = k.change_bar[d] + v_bar[d] * (share + half) + mean_bar[d] * mean;
    v1_bar[d] = change_bar;
    mean_bar[d] += v_bar[d] - change_bar;
  }
  k.tau_bar += share_bar / part.h;
  k.h_bar -= share_bar * share / part.h;
  for (int i = 0; i < state_size(s); ++i) x_bar[i] = state_bar[i];
}

// (H.7)  the part after a hit: it begins at the hit's place, half a part's change before the velocity
// that leaves
template <class T>
FB_FN void next_part(const Layout& s, const StepPart<T>& part, StepPart<T>& next) {
  const Real<T> half(0.5);
  for (int i = 0; i < state_size(s); ++i) next.x[i] = part.x_hit[i];
  for (int d = 0; d < s.nv; ++d) {
    const T change = part.v1[d] - velocity_of(s, part.x)[d];
    velocity_of(s, next.x)[d] = part.v_leave[d] - change * half;
  }
  next.h = part.h - part.tau;
  next.on = part.hit;
}

// what the solves of all parts say together
template <class T>
struct PartNotes {
  Mask<T> overflow, unconverged, unrolled;
  T residual, sweeps, factorisations;
};
template <class T>
FB_INLINE PartNotes<T> part_notes(const Work<T>& w) {
  return {w.overflow,          w.solution.unconverged, w.solution.unrolled,
          w.solution.residual, w.solution.sweeps,      w.solution.factorisations};
}
template <class T>
FB_INLINE void join_notes(PartNotes<T>& n, Mask<T> on, const Work<T>& w) {
  n.overflow = n.overflow | (on & w.overflow);
  n.unconverged = n.unconverged | (on & w.solution.unconverged);
  n.unrolled = n.unrolled | (on & w.solution.unrolled);
  n.residual = select(on, max(n.residual, w.solution.residual), n.residual);
  n.sweeps = select(on, n.sweeps + w.solution.sweeps, n.sweeps);
  n.factorisations = select(on, n.factorisations + w.solution.factorisations, n.factorisations);
}
template <class T>
FB_FN void count_hit(Mask<T> on, Work<T>& w) {
  if (w.problem.nrow > 0) w.hit.ties += select(on, row_ties(w), T(0));
  for (int i = 0; i < w.ngroup; ++i)
    if (w.group[i].kind == kContactRows)
      w.hit.contacts +=
          one_where<T>(on & w.geometry[i].active & (w.solution.lam[w.group[i].row] > T(0)));
}

// (H.9)  the moment's cotangents of the part that was just run, found again: the gap's and the
// velocities' wait in w.hit for the part's adjoint, v1_bar and h_bar are added to
template <class T>
FB_FN void pull_moment(const Layout& s, T least, StepPart<T>& part, T* v1_bar, Work<T>& w) {
  HitWork<T>& k = w.hit;
  first_hit(s, least, part, w);
  k.pulled = true;
  k.phi_bar = k.rate_bar = k.rate1_bar = T(0);
  for (int l = 0; l < s.nlink; ++l) w.wrench[l] = zero_force<T>();
  for (int c = 0; c < k.ncoming; ++c) {
    const Mask<T> here = part.hit & (k.first == T(c));
    if (!any(here)) continue;
    const ApproachBars<T> bar =
        hit_moment_adjoint(coming_approach(s, w, c, part.h, least), part.h, k.tau_bar);
    const RowGroup& g = w.group[k.group[c]];
    const T rate1_bar = select(here, bar.rate1, T(0));
    k.phi_bar = select(here, bar.phi, k.phi_bar);
    k.rate_bar = select(here, bar.rate, k.rate_bar);
    k.rate1_bar = select(here, rate1_bar, k.rate1_bar);
    k.h_bar += select(here, bar.h, T(0));
    const NormalWrench<T> F = normal_wrench(s, w, k.group[c]);
    if (g.linkA > 0) w.wrench[g.linkA] += F.A * rate1_bar;
    if (g.linkB > 0) w.wrench[g.linkB] += F.B * rate1_bar;
  }
  // v1_bar += J' rate1_bar
  for (int l = s.nlink - 1; l > 0; --l) {
    for (int d = s.link_dof[l]; d < s.link_dof[l] + s.link_ndof[l]; ++d)
      v1_bar[d] += dot(w.dof[d].S, w.wrench[l]);
    if (s.link_parent[l] > 0) w.wrench[s.link_parent[l]] += w.wrench[l];
  }
}
// parameters' cotangents of one part go to a place of their own, and from there to the lanes' sums
template <class T>
FB_FN void open_part_bars(const Layout& s, HitWork<T>& k) {
  bind<T>(s, k.param_bar, k.theta_bar);
  bind<T>(s, k.param_bar + theta_size(s), k.derived_bar);
  for (int i = 0; i < theta_size(s) + derived_size(s); ++i) k.param_bar[i] = T(0);
}
template <class T>
FB_FN void add_part_bars(const Layout& s, Mask<T> on, Theta<T>* theta, Derived<T>* derived,
                         const HitWork<T>& k) {
  const T zero = T(0);
#define FB_X(name, rows, columns, ...)         \
  for (int i = 0; i < (rows) * (columns); ++i) \
    theta->name[i] += select(on, k.theta_bar.name[i], zero);
  FB_PARAMETERS(FB_X)
#undef FB_X
#define FB_X(name, count) \
  for (int i = 0; i < count; ++i) derived->name[i] += select(on, k.derived_bar.name[i], zero);
  FB_DERIVED(FB_X)
#undef FB_X
}

// the hits of the step that was just begun in w, x.v1 its velocity: their states in w.hit, and where
// the step ends in w.hit.x_next.  Returns the lanes that are hit.  Hits beyond kMaxHits happen at the
// end of their part
template <class T, class P>
FB_FN Mask<T> step_through_hits(const Model<T, P>& m0, const Options<Real<T>>& o,
                                const StepPoint<T>& x, Mask<T> alive, Work<T>& w) {
  HitWork<T>& k = w.hit;
  k.count = 0;
  if (k.ncoming == 0) return Mask<T>(false);
  const Layout& s = m0.s;
  const T least = T(m0.theta.dt[0]) * Real<T>(kLeastPart);
  StepPart<T>& begin = k.part[0];
  begin.h = T(m0.theta.dt[0]);
  begin.on = alive;
  for (int d = 0; d < s.nv; ++d) begin.v1[d] = x.v1[d];
  first_hit(s, least, begin, w);
  if (!any(begin.hit)) return begin.hit;
  for (int i = 0; i < state_size(s); ++i) begin.x[i] = x.q[i];
  const Model<T, T> m = lane_model(m0, k);
  PartNotes<T> notes = part_notes(w);
  k.ties = k.contacts = T(0);
  T* end = k.x1_bar;
  for (; k.count < kMaxHits && any(k.part[k.count].hit); ++k.count) {
    StepPart<T>&part = k.part[k.count], &next = k.part[k.count + 1];
    hit_state(m, part, x.u, w);
    hit_velocity(m, o, part, part.v_leave, w);
    join_notes(notes, part.hit, w);
    count_hit(part.hit, w);
    next_part(s, part, next);
    const Model<T, T> rest = with_step(m, next.h);
    k.cuts = k.count + 1 < kMaxHits;
    step_part(rest, o, next.x, x.u, next.on, end, w);
    k.cuts = true;
    for (int d = 0; d < s.nv; ++d) next.v1[d] = velocity_of(s, end)[d];
    for (int i = 0; i < state_size(s); ++i) k.x_next[i] = select(next.on, end[i], k.x_next[i]);
    join_notes(notes, next.on, w);
    first_hit(s, least, next, w);
  }
  w.overflow = notes.overflow;
  w.solution.unconverged = notes.unconverged;
  w.solution.unrolled = notes.unrolled;
  w.solution.residual = notes.residual;
  w.solution.sweeps = notes.sweeps;
  w.solution.factorisations = notes.factorisations;
  return begin.hit;
}
// (H.11)  the adjoint of a step that was cut, part by part from the last; lanes that were not hit
// have the first part alone
template <class T, class P>
FB_FN void step_through_hits_adjoint(const Model<T, P>& m0, const Options<Real<T>>& o,
                                     const StepPoint<T>& x, const StepBars<T>& bar, Work<T>& w) {
  HitWork<T>& k = w.hit;
  const Layout& s = m0.s;
  const int nx = state_size(s), hits = k.count;
  const T least = T(m0.theta.dt[0]) * Real<T>(kLeastPart), zero = T(0);
  const Model<T, T> m = lane_model(m0, k);
  Theta<T>* const theta_bar = w.theta_bar;
  Derived<T>* const derived_bar = w.derived_bar;
  for (int i = 0; i < nx; ++i) {
    k.x1_bar[i] = bar.x1[i];
    k.x_bar[i] = zero;
  }
  for (int n = hits; n > 0; --n) {
    StepPart<T>&part = k.part[n], &before = k.part[n - 1];
    const Model<T, T> own = with_step(m, part.h);
    open_part_bars(s, k);
    w.theta_bar = &k.theta_bar;
    w.derived_bar = &k.derived_bar;
    for (int a = 0; a < s.nu; ++a) k.u_bar[a] = zero;
    // the part itself
    k.cuts = n < kMaxHits;
    step_velocity(own, o, part.x, x.u, part.on, part.v1, w);
    if (n < hits) pull_moment(s, least, part, velocity_of(s, k.x1_bar), w);
    const StepBars<T> bars{k.x1_bar, k.x_bar, k.u_bar, k.scratch};
    step_part_adjoint(own, o, step_point<T>(s, part.x, x.u, part.v1), bars, w);
    // h = that of the part before less its tau
    const T h_bar =
        n < hits ? k.theta_bar.dt[0] + select(part.hit, k.h_bar, zero) : k.theta_bar.dt[0];
    k.tau_bar = -h_bar;
    k.h_bar = h_bar;
    // the hit before it
    hit_state_adjoint(m, o, before, x.u, k.x_bar, velocity_of(s, k.x1_bar), w);
    k.theta_bar.dt[0] = zero;
    for (int a = 0; a < s.nu; ++a) bar.u[a] += select(before.hit, k.u_bar[a], zero);
    if (theta_bar) add_part_bars(s, before.hit, theta_bar, derived_bar, k);
    for (int i = 0; i < nx; ++i) {
      const bool rate = i >= s.nq && i < s.nq + s.nv;
      k.x1_bar[i] = select(before.hit, rate ? k.x1_bar[i] : zero, bar.x1[i]);
      k.x_bar[i] = select(before.hit, k.x_bar[i], zero);
    }
    k.h_bar = select(before.hit, k.h_bar, zero);
  }
  w.theta_bar = theta_bar;
  w.derived_bar = derived_bar;
  // the first part, with what the hits say of it
  StepPart<T>& begin = k.part[0];
  step_velocity(m0, o, x.q, x.u, begin.on, begin.v1, w);
  pull_moment(s, least, begin, velocity_of(s, k.x1_bar), w);
  for (int i = 0; i < nx; ++i) bar.x[i] += k.x_bar[i];
  if (theta_bar) theta_bar->dt[0] += k.h_bar;
  step_part_adjoint(m0, o, step_point<T>(s, x.q, x.u, begin.v1),
                    {k.x1_bar, bar.x, bar.u, bar.scratch}, w);
  k.pulled = false;
}

}  // namespace fb::FB_ISA
