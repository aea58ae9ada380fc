// Rows on tendons: implicit damping, dry friction, the two ends of a range, couplings.
// Proof: docs/derivations/tendon.md.
#pragma once
#include "core/contact/constraint.hpp"
#include "core/dynamics/tendon_inertia.hpp"

namespace fb::FB_ISA {

// a row on the dofs of one tendon or, with second >= 0, of two; on up to two chains
template <class T>
FB_FN RowGroup& push_tendon_row(const Layout& s, Work<T>& w, int kind, int source, int first,
                                int second = -1) {
  RowGroup& k = push_group(w, kind, 1, source);
  TendonWork<T>& y = w.tendon;
  k.wide = y.used;
  int a = s.tendon_dofadr[first], b = second < 0 ? 0 : s.tendon_dofadr[second];
  const int end_a = a + s.tendon_dofnum[first];
  const int end_b = second < 0 ? 0 : b + s.tendon_dofnum[second];
  int start[2] = {-1, -1};
  while (a < end_a || b < end_b) {
    const int da = a < end_a ? s.tendon_dof[a] : -1, db = b < end_b ? s.tendon_dof[b] : -1;
    const int d = da > db ? da : db;
    y.dof[y.used++] = d;
    a += da == d;
    b += db == d;
    // the deepest dofs begin chains, and the others are on the way to the root
    if (start[0] < 0)
      start[0] = d;
    else if (common_dof(s, start[0], d) != d && start[1] < 0)
      start[1] = d;
  }
  k.nwide = y.used - k.wide;
  k.linkA = s.dof_link[start[0]];
  k.linkB = start[1] < 0 ? 0 : s.dof_link[start[1]];
  set_chains(s, k, start[0], start[1]);
  return k;
}
// what the numbers of a row meet: impulse and z, with the rates w and v+
template <class T>
struct RowRates {
  T lam, z;
  const T *w, *v1;
  FB_INLINE T at(int d) const { return lam * w[d] - z * v1[d]; }
};
// its numbers: scale times the moments of a tendon, in the lanes where it is active
template <class T>
FB_FN void set_tendon_row(const Layout& s, const RowGroup& k, int t, T scale, Mask<T> active,
                          const Work<T>& w) {
  const TendonWork<T>& y = w.tendon;
  int at = k.wide;
  for_tendon_dofs(s, t, [&](int i, int) { y.coef[at++] = select(active, y.J[i] * scale, T(0)); });
}
// given them, add to the cotangents of the moments: scale times lam w - z v+
template <class T>
FB_FN void set_tendon_row_adjoint(const Layout& s, int t, T scale, const RowRates<T>& rates,
                                  Work<T>& w) {
  for_tendon_dofs(s, t, [&](int i, int d) { w.tendon.J_bar[i] += rates.at(d) * scale; });
}

// inverse weight of a coupling: of both tendons
template <class T, class P>
FB_INLINE T tendon_coupling_weight(const Model<T, P>& m, int e) {
  const int t2 = m.s.eq_obj2[e];
  const P first = m.theta.tendon_invweight0[m.s.eq_obj1[e]];
  return T(t2 < 0 ? first : first + m.theta.tendon_invweight0[t2]);
}
// (E.8)  coupling of two tendons: phi = l1 - l1_0 - c0 - c1 y - ... - c4 y^4, y = l2 - l2_0
template <class T>
struct TendonCoupling {
  T phi, slope, bend, power[5];
};
template <class T, class P>
FB_FN TendonCoupling<T> tendon_coupling(const Model<T, P>& m, int e, const Work<T>& w) {
  const P* c = m.theta.eq_data + 11 * e;
  const int t1 = m.s.eq_obj1[e], t2 = m.s.eq_obj2[e];
  const T y = t2 < 0 ? T(0) : w.tendon.length[t2] - T(m.theta.tendon_length0[t2]);
  TendonCoupling<T> x{w.tendon.length[t1] - T(m.theta.tendon_length0[t1]),
                      T(0),
                      T(0),
                      {T(1), y, y * y, y * y * y, y * y * y * y}};
  for (int i = 0; i < (t2 < 0 ? 1 : 5); ++i) {
    x.phi -= x.power[i] * c[i];
    if (i > 0) x.slope += x.power[i - 1] * (c[i] * Real<T>(i));
    if (i > 1) x.bend += x.power[i - 2] * (c[i] * Real<T>(i * (i - 1)));
  }
  return x;
}
// (E.9)  given phi_bar and slope_bar, add to the lengths and to the parameters
template <class T, class P>
FB_FN void tendon_coupling_adjoint(const Model<T, P>& m, int e, const TendonCoupling<T>& x,
                                   T phi_bar, T slope_bar, Work<T>& w) {
  const int t1 = m.s.eq_obj1[e], t2 = m.s.eq_obj2[e];
  const T y_bar = x.bend * slope_bar - x.slope * phi_bar;
  w.tendon.length_bar[t1] += phi_bar;
  if (t2 >= 0) w.tendon.length_bar[t2] += y_bar;
  if (!w.theta_bar) return;
  w.theta_bar->tendon_length0[t1] -= phi_bar;
  if (t2 >= 0) w.theta_bar->tendon_length0[t2] -= y_bar;
  T* out = w.theta_bar->eq_data + 11 * e;
  for (int i = 0; i < (t2 < 0 ? 1 : 5); ++i) {
    out[i] -= x.power[i] * phi_bar;
    if (i > 0) out[i] += x.power[i - 1] * Real<T>(i) * slope_bar;
  }
}
// J1 - p' J2 on the dofs of both
template <class T, class P>
FB_FN void set_coupled_row(const Model<T, P>& m, const RowGroup& k, T slope, Mask<T> active,
                           const Work<T>& w) {
  const Layout& s = m.s;
  const TendonWork<T>& y = w.tendon;
  for (int c = k.wide; c < k.wide + k.nwide; ++c) y.coef[c] = T(0);
  const auto add = [&](int t, T scale) {
    int at = k.wide;
    for_tendon_dofs(s, t, [&](int i, int d) {
      while (y.dof[at] != d) ++at;
      y.coef[at] += select(active, y.J[i] * scale, T(0));
    });
  };
  add(s.eq_obj1[k.source], T(1));
  if (s.eq_obj2[k.source] >= 0) add(s.eq_obj2[k.source], -slope);
}

// one end of a range: side -1 is the lower, +1 the upper
template <class T, class P>
FB_INLINE T tendon_gap(const Model<T, P>& m, int t, int side, const Work<T>& w) {
  return (w.tendon.length[t] - T(m.theta.tendon_range[2 * t + (side > 0)])) * Real<T>(-side);
}
// couplings, and ends that are near or that the free motion crosses
template <class T, class P>
FB_FN void collect_tendon_gaps(const Model<T, P>& m, const Options<Real<T>>& o, Mask<T> alive,
                               Work<T>& w) {
  const Layout& s = m.s;
  w.tendon.used = 0;
  for (int e = 0; e < s.neq; ++e) {
    if (s.eq_type[e] != kTendonEquality || !s.eq_rows[e]) continue;
    push_tendon_row(s, w, kTendonEqualityRows, e, s.eq_obj1[e], s.eq_obj2[e]);
    w.geometry[w.ngroup - 1].active = alive;
  }
  for (int t = 0; t < s.ntendon; ++t) {
    if (!s.tendon_limited[t] || !s.tendon_rows[t]) continue;
    T rate = T(0);
    for_tendon_dofs(s, t, [&](int k, int d) { rate = mul_add(w.tendon.J[k], w.v_free[d], rate); });
    for (int side = -1; side <= 1; side += 2) {
      const T phi = tendon_gap(m, t, side, w), next = rate * Real<T>(-side) * m.theta.dt[0] + phi;
      const Mask<T> on = alive & ((phi < T(o.margin)) | (next < T(row_reach(o))));
      if (!any(on)) continue;
      push_tendon_row(s, w, kTendonLimitRows, t, t).side = side;
      w.geometry[w.ngroup - 1].phi = phi;
      w.geometry[w.ngroup - 1].active = on;
    }
  }
}

// (E.24)  a damper of strength B and armature a at the new velocity: compliance 1 / (h B + a), and the
// row asks for the speed that inertia keeps
template <class T>
struct TendonDrag {
  T R, beta;
};
template <class T, class P>
FB_INLINE TendonDrag<T> tendon_drag(const Model<T, P>& m, int t, Mask<T> on, const Work<T>& w) {
  if (!m.s.tendon_heavy[t])
    return {T(1) / (select(on, w.tendon.damping[t], T(1)) * m.theta.dt[0]), T(0)};
  const T a = T(m.theta.tendon_armature[t]), hB = w.tendon.damping[t] * m.theta.dt[0];
  const T R = T(1) / select(on, hB + a, T(1));
  return {R, -(a * w.tendon.speed[t] * R)};
}
// given bars of both, zero where it is off, add to those of speed, implicit damping and parameters
template <class T, class P>
FB_INLINE void tendon_drag_adjoint(const Model<T, P>& m, int t, Mask<T> on, TendonDrag<T> bar,
                                   Work<T>& w) {
  const T h = T(m.theta.dt[0]);
  TendonWork<T>& y = w.tendon;
  if (!m.s.tendon_heavy[t]) {
    // R = 1 / (h B)
    const T B = select(on, y.damping[t], T(1)), R_bar = bar.R / (h * B);
    y.damping_bar[t] -= R_bar / B;
    if (w.theta_bar) w.theta_bar->dt[0] -= R_bar / h;
    return;
  }
  const T a = T(m.theta.tendon_armature[t]), R = tendon_drag(m, t, on, w).R;
  const T sum_bar = (bar.beta * a * y.speed[t] - bar.R) * (R * R);
  y.damping_bar[t] += sum_bar * h;
  y.speed_bar[t] -= bar.beta * a * R;
  if (!w.theta_bar) return;
  w.theta_bar->tendon_armature[t] += sum_bar - bar.beta * y.speed[t] * R;
  w.theta_bar->dt[0] += sum_bar * y.damping[t];
}
// rows of damping and of armature
template <class T, class P>
FB_INLINE Mask<T> has_drag(const Model<T, P>& m, int t, const Work<T>& w) {
  const Mask<T> damped = w.tendon.damping[t] > T(0);
  return m.s.tendon_heavy[t] ? damped | (T(m.theta.tendon_armature[t]) > T(0)) : damped;
}
template <class T, class P>
FB_FN void collect_tendon_drag(const Model<T, P>& m, int t, Mask<T> alive, Work<T>& w) {
  const Mask<T> on = alive & has_drag(m, t, w);
  if (!any(on)) return;
  push_tendon_row(m.s, w, kTendonDampingRows, t, t);
  w.geometry[w.ngroup - 1].active = on;
}
// within a moment nothing damps, but armature keeps its speed
template <class T, class P>
FB_FN void collect_tendon_inertia(const Model<T, P>& m, Mask<T> alive, Work<T>& w) {
  for (int t = 0; t < m.s.ntendon; ++t) {
    w.tendon.damping[t] = T(0);
    if (carries_inertia(m.s, t)) collect_tendon_drag(m, t, alive, w);
  }
}

template <class T>
struct TendonRows {
  template <class P>
  FB_FN static void collect(const Model<T, P>& m, const Options<Real<T>>& o, const T*,
                            Mask<T> alive, Work<T>& w) {
    const Layout& s = m.s;
    if (s.ntendon == 0) return;
    collect_tendon_gaps(m, o, alive, w);
    for (int t = 0; t < s.ntendon; ++t) {
      if (!s.tendon_rows[t]) continue;
      collect_tendon_drag(m, t, alive, w);
      if (!s.tendon_dry[t]) continue;
      push_tendon_row(s, w, kTendonFrictionRows, t, t);
      w.geometry[w.ngroup - 1].active = alive;
    }
  }

  // (E.10)  a damper of strength B at the new velocity is a row of compliance 1 / (h B)
  template <class P>
  FB_FN static void data(const Model<T, P>& m, const Options<Real<T>>& o, int index, const T*,
                         const Work<T>& w, RowData<T>& e) {
    const RowGroup& k = w.group[index];
    const RowGeometry<T>& x = w.geometry[index];
    const int t = k.source;
    if (k.kind == kTendonEqualityRows) {
      const TendonCoupling<T> c = tendon_coupling(m, k.source, w);
      set_coupled_row(m, k, c.slope, x.active, w);
      e.hi[0] = unbounded<T>();
      e.lo[0] = -e.hi[0];
      gap_row_data<1>(m, gap_law(o, true), &c.phi, tendon_coupling_weight(m, k.source), e);
      return;
    }
    e.weight = T(m.theta.tendon_invweight0[t]);
    set_tendon_row(m.s, k, t, T(k.kind == kTendonLimitRows ? -k.side : 1), x.active, w);
    e.hi[0] = unbounded<T>();
    e.lo[0] = k.kind == kTendonLimitRows ? T(0) : -e.hi[0];
    e.b[0] = e.rest[0] = e.R0[0] = T(0);
    if (k.kind == kTendonLimitRows) gap_row_data<1>(m, gap_law(o, false), &x.phi, e.weight, e);
    if (k.kind == kTendonDampingRows) {
      const TendonDrag<T> drag = tendon_drag(m, t, x.active, w);
      e.R[0] = drag.R;
      e.b[0] = drag.beta;
    }
    if (k.kind != kTendonFrictionRows) return;
    e.R[0] = e.weight * o.regularization;
    e.hi[0] = T(m.theta.tendon_frictionloss[t] * m.theta.dt[0]);
    e.lo[0] = -e.hi[0];
  }

  // (E.11)  given the rows' bars, add to those of moments, lengths, implicit damping and parameters
  template <class P>
  FB_FN static void adjoint(const Model<T, P>& m, const Options<Real<T>>& o, GroupSpan span,
                            const StepPoint<T>& x, const RowBars<T>& bars, Work<T>& w, T*) {
    for (int i = span.from; i < span.to; ++i) {
      const RowGroup& k = w.group[i];
      const int r = k.row - bars.first, t = k.source;
      const Mask<T> on = w.geometry[i].active;
      const T zero = T(0);
      const RowRates<T> rates{select(on, bars.lam[r], zero), select(on, bars.z[r], zero),
                              bars.w_rate, x.v1};
      if (k.kind == kTendonEqualityRows) {
        coupled_bars(m, o, i, rates, bars, w);
        continue;
      }
      const T scale = T(k.kind == kTendonLimitRows ? -k.side : 1);
      set_tendon_row_adjoint(m.s, t, scale, rates, w);
      if (k.kind == kTendonLimitRows) {
        const T weight = T(m.theta.tendon_invweight0[t]), *phi = &w.geometry[i].phi;
        const T phi_bar = select(
            on, gap_row_bars<1>(m, gap_law(o, false), phi, weight, bars, k.row, w).phi[0], zero);
        w.tendon.length_bar[t] += phi_bar * scale;
        if (w.theta_bar) w.theta_bar->tendon_range[2 * t + (k.side > 0)] -= phi_bar * scale;
      } else if (k.kind == kTendonDampingRows) {
        tendon_drag_adjoint(m, t, on, {select(on, bars.R[r], zero), select(on, bars.beta[r], zero)},
                            w);
      } else if (w.theta_bar) {
        const T bound_bar = select(on, bars.hi[r] - bars.lo[r], zero);
        w.theta_bar->tendon_frictionloss[t] += bound_bar * m.theta.dt[0];
        w.theta_bar->dt[0] += bound_bar * m.theta.tendon_frictionloss[t];
      }
    }
  }
  // a coupling
  template <class P>
  FB_FN static void coupled_bars(const Model<T, P>& m, const Options<Real<T>>& o, int index,
                                 const RowRates<T>& rates, const RowBars<T>& bars, Work<T>& w) {
    const RowGroup& k = w.group[index];
    const int t2 = m.s.eq_obj2[k.source];
    const TendonCoupling<T> c = tendon_coupling(m, k.source, w);
    const T weight = tendon_coupling_weight(m, k.source);
    const GapLaw<Real<T>> law = gap_law(o, true);
    const T gap_bar = gap_row_bars<1>(m, law, &c.phi, weight, bars, k.row, w).phi[0];
    const T phi_bar = select(w.geometry[index].active, gap_bar, T(0));
    set_tendon_row_adjoint(m.s, m.s.eq_obj1[k.source], T(1), rates, w);
    T slope_bar = T(0);
    if (t2 >= 0) {
      set_tendon_row_adjoint(m.s, t2, -c.slope, rates, w);
      for_tendon_dofs(m.s, t2, [&](int i, int d) { slope_bar -= w.tendon.J[i] * rates.at(d); });
    }
    tendon_coupling_adjoint(m, k.source, c, phi_bar, slope_bar, w);
  }

  // (E.12)  the adjoint with z = 1 is a row of C, and with a unit rate in place of w one of K
  template <class P>
  FB_FN static void columns(const Model<T, P>& m, const Options<Real<T>>& o, int index,
                            const StepPoint<T>& x, Work<T>& w, LinearWork<T>& f) {
    const RowGroup& k = w.group[index];
    const GroupSpan span{index, index + 1};
    const T zero = T(0), one = T(1), beta = T(-1), R = -w.solution.lam[k.row];
    RowBars<T> bars = row_bars(k.row, &zero, &one, &zero, f.one);
    bars.beta = &beta;
    bars.R = &R;
    adjoint(m, o, span, x, bars, w, nullptr);
    tendon_columns(m, x, w.qdd, f.one, f.row(k.row), w);
    // the moments of a coupling and of spatial tendons answer to the state
    const bool moves = k.kind == kTendonEqualityRows || is_spatial(m.s, k.source);
    bars = row_bars(k.row, w.solution.lam + k.row, &zero, &zero, f.one);
    for (int c = k.wide; moves && c < k.wide + k.nwide; ++c) {
      const int d = w.tendon.dof[c];
      f.one[d] = T(1);
      adjoint(m, o, span, x, bars, w, nullptr);
      f.one[d] = T(0);
      tendon_columns(m, x, w.qdd, f.one, f.dof_row(d), w);
    }
  }
};

}  // namespace fb::FB_ISA
