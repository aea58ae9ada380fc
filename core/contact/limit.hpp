// Limits of joints: the two ends of a hinge or slide, the largest angle of a ball.
// Proof: docs/derivations/constraint.md.
#pragma once
#include "core/contact/constraint.hpp"

namespace fb::FB_ISA {

// a ball: phi = range - |e|, with e the rotation vector
template <class T, class P>
FB_FN void collect_ball_limit(const Model<T, P>& m, const Options<Real<T>>& o, int j, const T* q,
                              Mask<T> alive, Work<T>& w) {
  const Layout& s = m.s;
  const int da = s.jnt_dofadr[j];
  const P* range = m.theta.jnt_range + 2 * j;
  const Vec3<T> e = log_quat(normalised(q + s.jnt_qadr[j]));
  const T angle = norm(e);
  const T phi = T(max(range[0], range[1])) - angle;
  const Vec3<T> axis = e * (T(1) / select(angle > T(0), angle, T(1)));
  const T rate = -(axis.x * w.v_free[da] + axis.y * w.v_free[da + 1] + axis.z * w.v_free[da + 2]);
  const Mask<T> on = alive & ((phi < T(o.margin)) | (phi + rate * m.theta.dt[0] < T(row_reach(o))));
  if (!any(on)) return;
  RowGroup& k = push_group(w, kBallLimitRows, 1, j);
  RowGeometry<T>& x = w.geometry[w.ngroup - 1];
  x.phi = phi;
  x.n = axis;
  x.active = on;
  k.linkA = s.jnt_link[j];
  set_chains(s, k, da + 2, -1);
}
// one end of a hinge or slide: side -1 is the lower, +1 the upper
template <class T, class P>
FB_FN void collect_limit(const Model<T, P>& m, const Options<Real<T>>& o, int j, int side, T q,
                         Mask<T> alive, Work<T>& w) {
  const Layout& s = m.s;
  const int da = s.jnt_dofadr[j];
  const Real<T> sign = Real<T>(-side);
  const T phi = (q - T(m.theta.jnt_range[2 * j + (side > 0)])) * sign;
  const Mask<T> on =
      alive & ((phi < T(o.margin)) | (phi + w.v_free[da] * sign * m.theta.dt[0] < T(row_reach(o))));
  if (!any(on)) return;
  RowGroup& k = push_group(w, kLimitRows, 1, j);
  RowGeometry<T>& x = w.geometry[w.ngroup - 1];
  x.phi = phi;
  x.active = on;
  k.side = side;
  k.linkA = s.jnt_link[j];
  set_chains(s, k, da, -1);
}

template <class T, class P>
FB_INLINE T limit_weight(const Model<T, P>& m, const RowGroup& k) {
  return T(m.theta.dof_invweight0[k.start[0]]);
}

// (L.8)  phi = range - |e|, coefficients -e / |e|, with e the rotation vector
template <class T, class P>
FB_FN void ball_limit_adjoint(const Model<T, P>& m, const Options<Real<T>>& o, int index,
                              const StepPoint<T>& at, const RowBars<T>& bars, Work<T>& w,
                              T* q_tan) {
  const RowGroup& k = w.group[index];
  const RowGeometry<T>& x = w.geometry[index];
  const int j = k.source, da = k.start[0] - 2;
  const T lam = bars.lam[k.row - bars.first], z = bars.z[k.row - bars.first];
  const T phi_bar =
      gap_row_bars<1>(m, gap_law(o, false), &x.phi, limit_weight(m, k), bars, k.row, w).phi[0];
  const Vec3<T> e = log_quat(normalised(at.q + m.s.jnt_qadr[j]));
  const T angle = norm(e);
  // n_bar = z v+ - lam w; e_bar = (1 - n n') n_bar / |e| - n phi_bar
  const Vec3<T> n_bar = lift3<T>(at.v1 + da) * z - lift3<T>(bars.w_rate + da) * lam;
  const Vec3<T> e_bar =
      (n_bar - x.n * dot(x.n, n_bar)) * (T(1) / select(angle > T(0), angle, T(1))) - x.n * phi_bar;
  add3(select(x.active, log_adjoint(e, e_bar, -1), zero3<T>()), q_tan + da);
  if (!w.theta_bar) return;
  const P* range = m.theta.jnt_range + 2 * j;
  T* out = w.theta_bar->jnt_range + 2 * j;
  const Mask<T> upper = T(range[1]) >= T(range[0]);
  out[0] += select(x.active & !upper, phi_bar, T(0));
  out[1] += select(x.active & upper, phi_bar, T(0));
}

template <class T>
struct LimitRows {
  // (L.2)  active below the margin or when the free motion crosses the end
  template <class P>
  FB_FN static void collect(const Model<T, P>& m, const Options<Real<T>>& o, const T* q,
                            Mask<T> alive, Work<T>& w) {
    for (int i = 0; i < m.s.nlimit; ++i) {
      const int j = m.s.limit_jnt[i];
      if (joint_turns(m.s.jnt_type[j])) {
        collect_ball_limit(m, o, j, q, alive, w);
        continue;
      }
      for (int side = -1; side <= 1; side += 2)
        collect_limit(m, o, j, side, q[m.s.jnt_qadr[j]], alive, w);
    }
  }

  // (L.3)  lam >= 0 and the gap term; a coefficient on one dof, or on the three of a ball
  template <class P>
  FB_FN static void data(const Model<T, P>& m, const Options<Real<T>>& o, int index, const T*,
                         const Work<T>& w, RowData<T>& e) {
    const RowGroup& k = w.group[index];
    const RowGeometry<T>& x = w.geometry[index];
    joint_row_data(m, o, k, e);
    gap_row_data<1>(m, gap_law(o, false), &x.phi, limit_weight(m, k), e);
    e.coef[0] = T(-k.side);
    if (k.kind == kLimitRows) return;
    e.ncoef = 3;
    for (int i = 0; i < 3; ++i) e.cdof[i] = k.start[0] - 2 + i;
    e.coef[0] = -x.n.x;
    e.coef[1] = -x.n.y;
    e.coef[2] = -x.n.z;
  }

  // (L.6)  phi = +-(q - end): given the row's bars, add to q_tan and to the range
  template <class P>
  FB_FN static void adjoint(const Model<T, P>& m, const Options<Real<T>>& o, GroupSpan span,
                            const StepPoint<T>& x, const RowBars<T>& bars, Work<T>& w, T* q_tan) {
    for (int i = span.from; i < span.to; ++i) {
      const RowGroup& k = w.group[i];
      const RowGeometry<T>& g = w.geometry[i];
      if (k.kind == kBallLimitRows) {
        ball_limit_adjoint(m, o, i, x, bars, w, q_tan);
        continue;
      }
      const T phi_bar = select(
          g.active,
          gap_row_bars<1>(m, gap_law(o, false), &g.phi, limit_weight(m, k), bars, k.row, w).phi[0],
          T(0));
      q_tan[k.start[0]] += phi_bar * Real<T>(-k.side);
      if (w.theta_bar)
        w.theta_bar->jnt_range[2 * k.source + (k.side > 0)] += phi_bar * Real<T>(k.side);
    }
  }

  template <class P>
  FB_FN static void columns(const Model<T, P>& m, const Options<Real<T>>& o, int index,
                            const StepPoint<T>& x, Work<T>& w, LinearWork<T>& f) {
    // the coefficient of a hinge or slide is constant
    if (w.group[index].kind == kBallLimitRows)
      joint_stiffness_columns<LimitRows<T>>(m, o, index, x, w, f);
    joint_row_columns<LimitRows<T>>(m, o, index, x, w, f);
  }
};

}  // namespace fb::FB_ISA
