// Tendons under MuJoCo's law: rows of dry friction, of the two ends of a range and of couplings, and
// the damping that the integrator implicitfast is implicit in.  Proof: docs/derivations/tendon.md.
#pragma once
#include "core/contact/tendon.hpp"
#include "core/soft/joint_rows.hpp"

namespace fb::FB_ISA {

// couplings, dry friction, and ends below their margin
template <class T, class P>
FB_FN void collect_soft_tendons(const Model<T, P>& m, Mask<T> alive, Work<T>& w) {
  const Layout& s = m.s;
  w.tendon.used = 0;
  const auto push = [&](int kind, int source, int first, int second, Mask<T> on) {
    RowGroup& k = push_tendon_row(s, w, kind, source, first, second);
    w.geometry[w.ngroup - 1].active = on;
    return &k;
  };
  for (int e = 0; e < s.neq; ++e)
    if (s.eq_type[e] == kTendonEquality)
      push(kTendonEqualityRows, e, s.eq_obj1[e], s.eq_obj2[e], alive);
  for (int t = 0; t < s.ntendon; ++t) {
    if (s.tendon_dry[t]) push(kTendonFrictionRows, t, t, -1, alive);
    for (int side = -1; s.tendon_limited[t] && side <= 1; side += 2) {
      const T phi = tendon_gap(m, t, side, w);
      const Mask<T> on = alive & (phi < T(m.theta.tendon_margin[t]));
      if (!any(on)) continue;
      push(kTendonLimitRows, t, t, -1, on)->side = side;
      w.geometry[w.ngroup - 1].phi = phi;
    }
  }
}

// an end of a range, or dry friction
template <class T, class P>
FB_FN RowLaw<T, P> tendon_law(const Model<T, P>& m, const RowGroup& k, T phi) {
  const int t = k.source;
  const T weight = T(m.theta.tendon_invweight0[t]);
  if (k.kind == kTendonFrictionRows)
    return {m.theta.tendon_solref_fri + kSolref * t, m.theta.tendon_solimp_fri + kSolimp * t, T(0),
            weight, false};
  return {m.theta.tendon_solref_lim + kSolref * t, m.theta.tendon_solimp_lim + kSolimp * t,
          phi - T(m.theta.tendon_margin[t]), weight, true};
}
// speed of the row from its numbers of J
template <class T>
FB_INLINE T wide_speed(const RowGroup& k, const T* v, const Work<T>& w) {
  T speed = T(0);
  for (int c = k.wide; c < k.wide + k.nwide; ++c)
    speed = mul_add(w.tendon.coef[c], v[w.tendon.dof[c]], speed);
  return speed;
}
template <class T, class P>
FB_FN void soft_tendon_data(const Model<T, P>& m, bool safe, int index, const T* v, Work<T>& w) {
  const RowGroup& k = w.group[index];
  const bool dry = k.kind == kTendonFrictionRows;
  SoftGroup<T>& e = w.soft.group[index];
  const RowLaw<T, P> law = tendon_law(m, k, w.geometry[index].phi);
  const Reference<T> r = reference(law, T(m.theta.dt[0]), safe);
  set_tendon_row(m.s, k, k.source, T(dry ? 1 : -k.side), Mask<T>(true), w);
  e.block.kind = dry ? kSoftFriction : kSoftOneSided;
  e.block.D = r.D;
  if (dry) e.block.loss = T(m.theta.tendon_frictionloss[k.source]);
  e.ncoef = 0;
  e.vel[0] = wide_speed(k, v, w);
  e.y0[0] = r.B * e.vel[0];
  if (!dry) e.y0[0] += r.Kd * law.x;
}
// what y_bar and the force of a row give to the numbers of J, f W + y_bar a + vel_bar v, times scale,
// and to the speed
template <class T>
FB_FN void soft_moment_adjoint(const Layout& s, int t, T scale, const SoftBars<T>& bars, T vel_bar,
                               Work<T>& w) {
  for_tendon_dofs(s, t, [&](int k, int d) {
    w.tendon.J_bar[k] += (bars.f[0] * bars.W[d] + bars.y_bar[0] * w.soft.a[d]) * scale;
  });
  // vel = scale J v: the speed of the tendon has its own cotangent
  w.tendon.speed_bar[t] += vel_bar * scale;
}
template <class T, class P>
FB_FN void soft_tendon_adjoint(const Model<T, P>& m, bool safe, int index, const SoftBars<T>& bars,
                               Work<T>& w) {
  const RowGroup& k = w.group[index];
  const int t = k.source;
  const bool dry = k.kind == kTendonFrictionRows;
  const T zero = T(0), x = w.geometry[index].phi;
  const RowLaw<T, P> law = tendon_law(m, k, x);
  const Reference<T> r = reference(law, T(m.theta.dt[0]), safe);
  const T y_bar = bars.y_bar[0], scale = T(dry ? 1 : -k.side);
  const RowLawBar<T> bar = reference_adjoint(
      law, r, {bars.block.D, dry ? zero : y_bar * law.x, y_bar * w.soft.group[index].vel[0]});
  soft_moment_adjoint(m.s, t, scale, bars, y_bar * r.B, w);
  const T phi_bar = dry ? zero : bar.x + y_bar * r.Kd;
  if (!dry) w.tendon.length_bar[t] += phi_bar * scale;
  if (!w.theta_bar) return;
  Theta<T>& out = *w.theta_bar;
  if (dry) {
    out.tendon_frictionloss[t] += bars.block.loss;
    return add_law_bar(bar, out.tendon_solref_fri + kSolref * t,
                       out.tendon_solimp_fri + kSolimp * t, out.dt);
  }
  out.tendon_range[2 * t + (k.side > 0)] -= phi_bar * scale;
  out.tendon_margin[t] -= phi_bar;
  add_law_bar(bar, out.tendon_solref_lim + kSolref * t, out.tendon_solimp_lim + kSolimp * t,
              out.dt);
}

// couplings
template <class T, class P>
FB_INLINE RowLaw<T, P> tendon_coupling_law(const Model<T, P>& m, int e, T phi) {
  return {m.theta.eq_solref + kSolref * e, m.theta.eq_solimp + kSolimp * e, phi,
          tendon_coupling_weight(m, e), true};
}
template <class T, class P>
FB_FN void soft_tendon_coupling_data(const Model<T, P>& m, bool safe, int index, const T* v,
                                     Work<T>& w) {
  const RowGroup& k = w.group[index];
  SoftGroup<T>& e = w.soft.group[index];
  const TendonCoupling<T> c = tendon_coupling(m, k.source, w);
  const Reference<T> r = reference(tendon_coupling_law(m, k.source, c.phi), T(m.theta.dt[0]), safe);
  set_coupled_row(m, k, c.slope, Mask<T>(true), w);
  e.block.kind = kSoftEquality;
  e.block.D = r.D;
  e.ncoef = 0;
  e.vel[0] = wide_speed(k, v, w);
  e.y0[0] = r.B * e.vel[0] + r.Kd * c.phi;
}
template <class T, class P>
FB_FN void soft_tendon_coupling_adjoint(const Model<T, P>& m, bool safe, int index,
                                        const SoftBars<T>& bars, Work<T>& w) {
  const RowGroup& k = w.group[index];
  const int t2 = m.s.eq_obj2[k.source];
  const TendonCoupling<T> c = tendon_coupling(m, k.source, w);
  const RowLaw<T, P> law = tendon_coupling_law(m, k.source, c.phi);
  const Reference<T> r = reference(law, T(m.theta.dt[0]), safe);
  const T y_bar = bars.y_bar[0], vel_bar = y_bar * r.B;
  const RowLawBar<T> bar =
      reference_adjoint(law, r, {bars.block.D, y_bar * c.phi, y_bar * w.soft.group[index].vel[0]});
  soft_moment_adjoint(m.s, m.s.eq_obj1[k.source], T(1), bars, vel_bar, w);
  T slope_bar = T(0);
  if (t2 >= 0) {
    soft_moment_adjoint(m.s, t2, -c.slope, bars, vel_bar, w);
    for_tendon_dofs(m.s, t2, [&](int i, int d) {
      slope_bar -= w.tendon.J[i] * (bars.f[0] * bars.W[d] + y_bar * w.soft.a[d]);
    });
    slope_bar -= w.tendon.speed[t2] * vel_bar;
  }
  tendon_coupling_adjoint(m, k.source, c, bar.x + y_bar * r.Kd, slope_bar, w);
  if (w.theta_bar)
    add_law_bar(bar, w.theta_bar->eq_solref + kSolref * k.source,
                w.theta_bar->eq_solimp + kSolimp * k.source, w.theta_bar->dt);
}

// (E.13)  pairs of dofs of a tendon that the mass matrix has: visit(i, j, place), entries of J, the
// place in the matrix or -1 on its diagonal.  MuJoCo leaves out the others
template <class T, class F>
FB_INLINE void for_tendon_pairs(const Layout& s, int t, const DofMatrix<T>& A, F&& visit) {
  const int first = s.tendon_dofadr[t], end = first + s.tendon_dofnum[t];
  for (int i = first; i < end; ++i) {
    visit(i, i, -1);
    const int d = s.tendon_dof[i];
    int p = A.p.start[d + 1] - 1;
    for (int j = i + 1; j < end; ++j) {
      while (p >= A.p.start[d] && A.p.col[p] > s.tendon_dof[j]) --p;
      if (p >= A.p.start[d] && A.p.col[p] == s.tendon_dof[j]) visit(i, j, p);
    }
  }
}
// B += h B J' J on the six dofs from `first` on, in a matrix of their own
template <class T, class P>
FB_FN void add_body_damping(const Model<T, P>& m, int first, const Work<T>& w, T* B) {
  const Layout& s = m.s;
  const TendonWork<T>& y = w.tendon;
  for (int t = 0; t < s.ntendon; ++t) {
    const T hB = y.damping[t] * m.theta.dt[0];
    for_tendon_dofs(s, t, [&](int i, int a) {
      for_tendon_dofs(s, t, [&](int j, int b) {
        const int row = a - first, column = b - first;
        if (row < 0 || row > 5 || column < 0 || column > 5) return;
        B[6 * row + column] = mul_add(hB * y.J[i], y.J[j], B[6 * row + column]);
      });
    });
  }
}
// (E.25)  M += a J' J
template <class T, class P>
FB_FN void add_tendon_inertia(const Model<T, P>& m, Work<T>& w) {
  const Layout& s = m.s;
  SoftWork<T>& f = w.soft;
  const TendonWork<T>& y = w.tendon;
  for (int t = 0; t < s.ntendon; ++t) {
    if (!s.tendon_heavy[t]) continue;
    for_tendon_pairs(s, t, f.M, [&](int i, int j, int place) {
      T& to = place < 0 ? f.M.diagonal[s.tendon_dof[i]] : f.M.value[place];
      to = mul_add(y.J[i] * m.theta.tendon_armature[t], y.J[j], to);
    });
  }
}
// given M_bar = -mu (acc - a)' - W a'
template <class T, class P>
FB_FN void add_tendon_inertia_adjoint(const Model<T, P>& m, Work<T>& w) {
  const Layout& s = m.s;
  const SoftWork<T>& f = w.soft;
  TendonWork<T>& y = w.tendon;
  const auto M_bar = [&](int d, int e) {
    return -(f.mu[d] * (f.acc[e] - f.a[e])) - w.w_rate[d] * f.a[e];
  };
  for (int t = 0; t < s.ntendon; ++t) {
    if (!s.tendon_heavy[t]) continue;
    const T armature = T(m.theta.tendon_armature[t]);
    T sum = T(0);
    for_tendon_pairs(s, t, f.M, [&](int i, int j, int place) {
      const int d = s.tendon_dof[i], e = s.tendon_dof[j];
      const T bar = place < 0 ? M_bar(d, e) : M_bar(d, e) + M_bar(e, d);
      sum += y.J[i] * y.J[j] * bar;
      y.J_bar[i] += y.J[j] * bar * armature;
      y.J_bar[j] += y.J[i] * bar * armature;
    });
    if (w.theta_bar) w.theta_bar->tendon_armature[t] += sum;
  }
}
// A += h B J' J
template <class T, class P>
FB_FN void add_tendon_damping(const Model<T, P>& m, Work<T>& w) {
  const Layout& s = m.s;
  SoftWork<T>& f = w.soft;
  const TendonWork<T>& y = w.tendon;
  for (int t = 0; t < s.ntendon; ++t) {
    const T hB = y.damping[t] * m.theta.dt[0];
    for_tendon_pairs(s, t, f.A, [&](int i, int j, int place) {
      T& to = place < 0 ? f.A.diagonal[s.tendon_dof[i]] : f.A.value[place];
      to = mul_add(hB * y.J[i], y.J[j], to);
    });
  }
}
// given A_bar = -mu acc'
template <class T, class P>
FB_FN void add_tendon_damping_adjoint(const Model<T, P>& m, Work<T>& w) {
  const Layout& s = m.s;
  const SoftWork<T>& f = w.soft;
  TendonWork<T>& y = w.tendon;
  for (int t = 0; t < s.ntendon; ++t) {
    const T B = y.damping[t], h = T(m.theta.dt[0]);
    T sum = T(0);
    for_tendon_pairs(s, t, f.A, [&](int i, int j, int place) {
      const int a = s.tendon_dof[i], b = s.tendon_dof[j];
      T bar = -(f.mu[a] * f.acc[b]);
      if (place >= 0) bar -= f.mu[b] * f.acc[a];
      sum += y.J[i] * y.J[j] * bar;
      y.J_bar[i] += y.J[j] * bar * (h * B);
      y.J_bar[j] += y.J[i] * bar * (h * B);
    });
    y.damping_bar[t] += sum * h;
    if (w.theta_bar) w.theta_bar->dt[0] += sum * B;
  }
}

}  // namespace fb::FB_ISA
