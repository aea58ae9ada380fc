// Rows on joints under MuJoCo's law: limits, dry friction, couplings of two joints.
// Proof: docs/derivations/soft.md.
#pragma once
#include "core/contact/limit.hpp"
#include "core/soft/reference.hpp"
#include "core/soft/work.hpp"

namespace fb::FB_ISA {

// what the adjoint of a group is given: forces, cotangents of y and of its block, and W, whose link
// twists are in w.bar[].w; those of the accelerations are in w.bar[].y
template <class T>
struct SoftBars {
  const T *f, *y_bar, *W;
  SoftBlockBar<T> block;
};

// where cotangents of the position, in the tangent space, and of the velocity are added
template <class T>
struct StateBars {
  T *q_tan, *v_bar;
};

// ---- limits

template <class T, class P>
FB_FN void collect_soft_limit(const Model<T, P>& m, int j, int side, const T* q, Mask<T> alive,
                              Work<T>& w) {
  const Layout& s = m.s;
  const int qa = s.jnt_qadr[j], da = s.jnt_dofadr[j];
  const P* range = m.theta.jnt_range + 2 * j;
  const bool ball = joint_turns(s.jnt_type[j]);
  T phi;
  Vec3<T> axis = zero3<T>();
  if (ball) {
    const Vec3<T> e = log_quat(normalised(q + qa));
    const T angle = norm(e);
    phi = T(max(range[0], range[1])) - angle;
    // without a rotation the axis is x
    axis = e * (T(1) / select(angle > T(0), angle, T(1)));
    axis.x = select(angle > T(0), axis.x, T(1));
  } else {
    phi = (q[qa] - T(range[side > 0])) * Real<T>(-side);
  }
  const Mask<T> on = alive & (phi < T(m.theta.jnt_margin[j]));
  if (!any(on)) return;
  RowGroup& k = push_group(w, ball ? kBallLimitRows : kLimitRows, 1, j);
  RowGeometry<T>& x = w.geometry[w.ngroup - 1];
  x.phi = phi;
  x.n = axis;
  x.active = on;
  k.side = side;
  k.linkA = s.jnt_link[j];
  set_chains(s, k, da + (ball ? 2 : 0), -1);
}
template <class T, class P>
FB_FN void collect_soft_limits(const Model<T, P>& m, const T* q, Mask<T> alive, Work<T>& w) {
  for (int i = 0; i < m.s.nlimit; ++i) {
    const int j = m.s.limit_jnt[i];
    if (joint_turns(m.s.jnt_type[j]))
      collect_soft_limit(m, j, 1, q, alive, w);
    else
      for (int side = -1; side <= 1; side += 2) collect_soft_limit(m, j, side, q, alive, w);
  }
}
template <class T, class P>
FB_INLINE RowLaw<T, P> limit_law(const Model<T, P>& m, const RowGroup& k, T phi) {
  const int j = k.source, first = m.s.jnt_dofadr[j];
  return {m.theta.jnt_solref + kSolref * j, m.theta.jnt_solimp + kSolimp * j,
          phi - T(m.theta.jnt_margin[j]), T(m.theta.dof_invweight0[first]), true};
}
// the one row of a limit: coefficients, speed, block
template <class T, class P>
FB_FN void soft_limit_data(const Model<T, P>& m, bool safe, int index, const T* v, Work<T>& w) {
  const RowGroup& k = w.group[index];
  const RowGeometry<T>& x = w.geometry[index];
  SoftGroup<T>& e = w.soft.group[index];
  const RowLaw<T, P> law = limit_law(m, k, x.phi);
  const Reference<T> r = reference(law, T(m.theta.dt[0]), safe);
  e.block.kind = kSoftOneSided;
  e.block.D = r.D;
  e.ncoef = k.kind == kLimitRows ? 1 : 3;
  e.cdof[0] = k.start[0] - (e.ncoef - 1);
  e.coef[0] = T(-k.side);
  if (e.ncoef == 3) {
    e.cdof[1] = e.cdof[0] + 1;
    e.cdof[2] = e.cdof[0] + 2;
    e.coef[0] = -x.n.x;
    e.coef[1] = -x.n.y;
    e.coef[2] = -x.n.z;
  }
  e.vel[0] = T(0);
  for (int c = 0; c < e.ncoef; ++c) e.vel[0] = mul_add(e.coef[c], v[e.cdof[c]], e.vel[0]);
  e.y0[0] = r.B * e.vel[0] + r.Kd * law.x;
}
// (S.12)  given bars, add to those of the state and of the parameters
template <class T, class P>
FB_FN void soft_limit_adjoint(const Model<T, P>& m, bool safe, int index, const StepPoint<T>& at,
                              const SoftBars<T>& bars, Work<T>& w, StateBars<T> state) {
  const RowGroup& k = w.group[index];
  const RowGeometry<T>& x = w.geometry[index];
  const SoftGroup<T>& e = w.soft.group[index];
  const int j = k.source, da = e.cdof[0];
  const RowLaw<T, P> law = limit_law(m, k, x.phi);
  const Reference<T> r = reference(law, T(m.theta.dt[0]), safe);
  const T y_bar = bars.y_bar[0], vel_bar = y_bar * r.B;
  const RowLawBar<T> bar =
      reference_adjoint(law, r, {bars.block.D, y_bar * law.x, y_bar * e.vel[0]});
  const T phi_bar = bar.x + y_bar * r.Kd;
  for (int c = 0; c < e.ncoef; ++c) state.v_bar[e.cdof[c]] += e.coef[c] * vel_bar;
  const P* range = m.theta.jnt_range + 2 * j;
  Mask<T> upper(k.side > 0);
  if (e.ncoef == 1) {
    state.q_tan[da] += phi_bar * Real<T>(-k.side);
  } else {
    // coefficients -n: n_bar = -(f W + y_bar a + vel_bar v), phi = range - |e|
    const Vec3<T> rates = lift3<T>(bars.W + da) * bars.f[0] + lift3<T>(w.soft.a + da) * y_bar +
                          lift3<T>(at.v + da) * vel_bar;
    const Vec3<T> e3 = log_quat(normalised(at.q + m.s.jnt_qadr[j]));
    const T angle = norm(e3), one = T(1);
    const T inverse = select(angle > T(0), one / select(angle > T(0), angle, one), T(0));
    const Vec3<T> e_bar = (x.n * dot(x.n, rates) - rates) * inverse - x.n * phi_bar;
    add3(select(x.active, log_adjoint(e3, e_bar, -1), zero3<T>()), state.q_tan + da);
    upper = T(range[1]) >= T(range[0]);
  }
  if (!w.theta_bar) return;
  // a hinge: phi = -side (q - end); a ball: phi = the larger end - angle
  const T end_bar = e.ncoef == 1 ? phi_bar * Real<T>(k.side) : phi_bar;
  T* out = w.theta_bar->jnt_range + 2 * j;
  out[0] += select(upper, T(0), end_bar);
  out[1] += select(upper, end_bar, T(0));
  w.theta_bar->jnt_margin[j] -= phi_bar;
  add_law_bar(bar, w.theta_bar->jnt_solref + kSolref * j, w.theta_bar->jnt_solimp + kSolimp * j,
              w.theta_bar->dt);
}

// ---- dry friction

template <class T, class P>
FB_INLINE RowLaw<T, P> friction_law(const Model<T, P>& m, int d) {
  return {m.theta.dof_solref + kSolref * d, m.theta.dof_solimp + kSolimp * d, T(0),
          T(m.theta.dof_invweight0[d]), false};
}
template <class T, class P>
FB_FN void soft_friction_data(const Model<T, P>& m, bool safe, int index, const T* v, Work<T>& w) {
  const int d = w.group[index].source;
  SoftGroup<T>& e = w.soft.group[index];
  const Reference<T> r = reference(friction_law(m, d), T(m.theta.dt[0]), safe);
  e.block.kind = kSoftFriction;
  e.block.D = r.D;
  e.block.loss = T(m.theta.dof_frictionloss[d]);
  e.ncoef = 1;
  e.cdof[0] = d;
  e.coef[0] = T(1);
  e.vel[0] = v[d];
  e.y0[0] = r.B * v[d];
}
template <class T, class P>
FB_FN void soft_friction_adjoint(const Model<T, P>& m, bool safe, int index,
                                 const SoftBars<T>& bars, Work<T>& w, T* v_bar) {
  const int d = w.group[index].source;
  const RowLaw<T, P> law = friction_law(m, d);
  const Reference<T> r = reference(law, T(m.theta.dt[0]), safe);
  v_bar[d] += bars.y_bar[0] * r.B;
  if (!w.theta_bar) return;
  const RowLawBar<T> bar =
      reference_adjoint(law, r, {bars.block.D, T(0), bars.y_bar[0] * w.soft.group[index].vel[0]});
  w.theta_bar->dof_frictionloss[d] += bars.block.loss;
  add_law_bar(bar, w.theta_bar->dof_solref + kSolref * d, w.theta_bar->dof_solimp + kSolimp * d,
              w.theta_bar->dt);
}

// ---- couplings: q1 - q1_0 = c0 + c1 y + ... + c4 y^4 with y = q2 - q2_0

template <class T>
struct Coupling {
  T phi, slope, bend, power[5];
};
template <class T, class P>
FB_FN Coupling<T> coupling(const Model<T, P>& m, const RowGroup& k, const T* q) {
  const Layout& s = m.s;
  const P* c = m.theta.eq_data + 11 * k.source;
  const int q1 = s.jnt_qadr[s.eq_obj1[k.source]], j2 = s.eq_obj2[k.source];
  const T y = j2 < 0 ? T(0) : q[s.jnt_qadr[j2]] - T(m.theta.qpos0[s.jnt_qadr[j2]]);
  Coupling<T> x{
      q[q1] - T(m.theta.qpos0[q1]), T(0), T(0), {T(1), y, y * y, y * y * y, y * y * y * y}};
  for (int i = 0; i < (j2 < 0 ? 1 : 5); ++i) {
    x.phi -= x.power[i] * c[i];
    if (i > 0) x.slope += x.power[i - 1] * (c[i] * Real<T>(i));
    if (i > 1) x.bend += x.power[i - 2] * (c[i] * Real<T>(i * (i - 1)));
  }
  return x;
}
template <class T, class P>
FB_INLINE RowLaw<T, P> coupling_law(const Model<T, P>& m, const RowGroup& k, T phi) {
  return {m.theta.eq_solref + kSolref * k.source, m.theta.eq_solimp + kSolimp * k.source, phi,
          coupling_weight(m, k), true};
}
template <class T, class P>
FB_FN void soft_coupling_data(const Model<T, P>& m, bool safe, int index, const StepPoint<T>& at,
                              Work<T>& w) {
  const RowGroup& k = w.group[index];
  SoftGroup<T>& e = w.soft.group[index];
  const Coupling<T> x = coupling(m, k, at.q);
  const Reference<T> r = reference(coupling_law(m, k, x.phi), T(m.theta.dt[0]), safe);
  e.block.kind = kSoftEquality;
  e.block.D = r.D;
  e.ncoef = k.start[1] < 0 ? 1 : 2;
  e.cdof[0] = k.start[0];
  e.cdof[1] = k.start[1];
  e.coef[0] = T(1);
  e.coef[1] = -x.slope;
  e.vel[0] = at.v[k.start[0]];
  if (e.ncoef == 2) e.vel[0] = mul_add(e.coef[1], at.v[k.start[1]], e.vel[0]);
  e.y0[0] = r.B * e.vel[0] + r.Kd * x.phi;
}
template <class T, class P>
FB_FN void soft_coupling_adjoint(const Model<T, P>& m, bool safe, int index, const StepPoint<T>& at,
                                 const SoftBars<T>& bars, Work<T>& w, StateBars<T> state) {
  const Layout& s = m.s;
  const RowGroup& k = w.group[index];
  const SoftGroup<T>& e = w.soft.group[index];
  const Coupling<T> x = coupling(m, k, at.q);
  const RowLaw<T, P> law = coupling_law(m, k, x.phi);
  const Reference<T> r = reference(law, T(m.theta.dt[0]), safe);
  const T y_bar = bars.y_bar[0], vel_bar = y_bar * r.B;
  const RowLawBar<T> bar =
      reference_adjoint(law, r, {bars.block.D, y_bar * x.phi, y_bar * e.vel[0]});
  const T phi_bar = bar.x + y_bar * r.Kd;
  const int d1 = k.start[0], d2 = k.start[1];
  state.q_tan[d1] += phi_bar;
  state.v_bar[d1] += vel_bar;
  T slope_bar = T(0), x_bar = T(0);
  if (e.ncoef == 2) {
    state.v_bar[d2] -= x.slope * vel_bar;
    slope_bar = -(bars.f[0] * bars.W[d2] + y_bar * w.soft.a[d2] + vel_bar * at.v[d2]);
    x_bar = x.bend * slope_bar - x.slope * phi_bar;
    state.q_tan[d2] += x_bar;
  }
  if (!w.theta_bar) return;
  const int q1 = s.jnt_qadr[s.eq_obj1[k.source]], j2 = s.eq_obj2[k.source];
  w.theta_bar->qpos0[q1] -= phi_bar;
  if (j2 >= 0) w.theta_bar->qpos0[s.jnt_qadr[j2]] -= x_bar;
  T* out = w.theta_bar->eq_data + 11 * k.source;
  for (int i = 0; i < (j2 < 0 ? 1 : 5); ++i) {
    out[i] -= x.power[i] * phi_bar;
    if (i > 0) out[i] += x.power[i - 1] * Real<T>(i) * slope_bar;
  }
  add_law_bar(bar, w.theta_bar->eq_solref + kSolref * k.source,
              w.theta_bar->eq_solimp + kSolimp * k.source, w.theta_bar->dt);
}

}  // namespace fb::FB_ISA
