// Newton steps in lanes from the states that rows have at the velocities with which the step begins.
// Proof: docs/derivations/worlds.md.
#pragma once
#include "core/solver/begin_states.hpp"
#include "core/solver/newton.hpp"

namespace fb::FB_ISA {

// the states of rows and tangents at p.before
template <class T>
struct BeginRows {
  using S = decltype(primal(std::declval<T>()));
  const RowProblem<T>& p;
  const ActiveSetSolution<T>& s;

  FB_INLINE BeginRow<S> row(int r) const {
    const S D = primal(s.D[r]);
    return {primal(p.before[r]),
            primal(p.b[r]),
            primal(p.lo[r]),
            primal(p.hi[r]),
            max(primal(p.R[r]), D * Real<T>(1e-11)),
            D};
  }
  FB_INLINE Mask<T> free(int r) const {
    S at;
    return !begins_held(row(r), at);
  }
  // tangents of a contact that is pressed, without the curvature of the disc
  FB_INLINE TangentState<T> tangents(int r) const {
    const S radius = primal(p.mu[r]) * begin_normal(row(r)), zero(0), one(1);
    const BeginRow<S> x = row(r + 1), y = row(r + 2);
    const S cx = (x.b - x.before) * Real<T>(kStill), cy = (y.b - y.before) * Real<T>(kStill);
    TangentState<T> t;
    t.f = T(0);
    if (p.options.friction == kBoxFriction) {
      t.slide1 = begins_to_slide(abs(x.before), abs(cx), radius, x.R);
      t.slide2 = begins_to_slide(abs(y.before), abs(cy), radius, y.R);
      t.e1 = as_constant<T>(select(x.before > zero, -one, one));
      t.e2 = as_constant<T>(select(y.before > zero, -one, one));
      return t;
    }
    const S slip = sqrt(dot2(x.before, x.before, y.before, y.before));
    t.slide1 = t.slide2 = begins_to_slide(slip, sqrt(dot2(cx, cx, cy, cy)), radius, x.R);
    const S inv = one / select(t.slide1, slip, one);
    t.e1 = as_constant<T>(-(x.before * inv));
    t.e2 = as_constant<T>(-(y.before * inv));
    return t;
  }
};

// (V.14)  lanes that stand with dry friction: more rows than dofs, among them contacts and rows between two
// bounds
template <class T>
FB_FN Mask<T> stands_dry(const RowProblem<T>& p) {
  using S = decltype(primal(p.b[0]));
  S rows(0), dry(0), contacts(0);
  const S zero(0), one(1), none(Real<T>(1e29));
  for (int r = 0; r < p.nrow;) {
    const S lo = primal(p.lo[r]), hi = primal(p.hi[r]), on = select(lo < hi, one, zero);
    const bool cone = p.cone[r];
    rows += cone ? on + on + on : on;
    contacts += cone ? on : zero;
    dry += select((abs(lo) < none) & (abs(hi) < none), on, zero);
    r += cone ? 3 : 1;
  }
  return (dry > one) & (contacts > zero) & (rows > S(Real<T>(p.ndof)));
}
// (V.15)  Newton steps from the states of the beginning, in lanes that stand with dry friction; returns the
// lanes of live above their goal, whose impulses are zero again
template <class T>
FB_FN Mask<T> newton_from_begin(const RowProblem<T>& p, ActiveSetSolution<T>& s, Mask<T> live,
                                T goal, T scale) {
  const Mask<T> dry = live & stands_dry(p);
  if (!any(dry)) return live;
  const T start = s.residual;
  const BeginRows<T> states{p, s};
  for (int r = 0; r < p.nrow;) {
    decltype(primal(s.lam[0])) at;
    begins_held(states.row(r), at);
    s.lam[r] = select(dry, as_constant<T>(at), s.lam[r]);
    r += p.cone[r] ? 3 : 1;
  }
  refresh_descent(p, s, dry);
  solve_states(p, s, dry, states, false);
  Mask<T> open = dry;
  T least = scale * Real<T>(kBeginLeaves);
  for (int k = 0; any(open); ++k) {
    const T now = row_residual(p, s);
    s.factorisations = s.factorisations + select(open, T(1), T(0));
    s.residual = select(open, now, s.residual);
    open = open & (now > goal) & (k == 0 ? open : now < least);
    if (k > 0) least = now * Real<T>(kStepLeaves);
    if (k == kBeginSteps) break;
    if (any(open)) newton_step(p, s, open);
  }
  const Mask<T> left = dry & !(s.residual <= goal);
  if (!any(left)) return live & !dry;
  for (int r = 0; r < p.nrow; ++r) s.lam[r] = select(left, T(0), s.lam[r]);
  refresh_descent(p, s, left);
  s.residual = select(left, start, s.residual);
  return live & (left | !dry);
}

}  // namespace fb::FB_ISA
