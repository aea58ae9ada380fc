// The line search of convex steps: rows with bounds and discs of friction packed into panels, so that a
// look along the step takes four of them at a time.  Proof: docs/derivations/worlds.md.
#pragma once
#include "core/solver/world_newton.hpp"

namespace fb::FB_ISA {

// so much of the slope is left by a line search, in so many looks
inline constexpr int kLooks = 40;
inline constexpr double kSlopeLeft = 0.01;

// impulses without bounds -u / R at the start of a step, du, 1 / R, and the bounds; of a disc the pair, and its
// radius
template <class S>
struct LineScratch {
  S *v, *d, *yield, *low, *high;
  S *v1, *v2, *d1, *d2, *yields, *radius;
};

template <class S>
struct ConvexLine {
  LineScratch<S> x;
  int nrow = 0, ndisc = 0;

  FB_INLINE void add_row(S u, S du, S yield, S low, S high) {
    const int i = nrow++;
    x.v[i] = -u * yield;
    x.d[i] = du;
    x.yield[i] = yield;
    x.low[i] = low;
    x.high[i] = high;
  }
  FB_INLINE void add_disc(const S* u, const S* du, S yield, S radius) {
    const int i = ndisc++;
    x.v1[i] = -u[0] * yield;
    x.v2[i] = -u[1] * yield;
    x.d1[i] = du[0];
    x.d2[i] = du[1];
    x.yields[i] = yield;
    x.radius[i] = radius;
  }
  // whole panels: what is added does not move
  FB_FN void fill() {
    const S none(0), one(1), pair[2] = {none, none};
    while (nrow % kPanel<S> != 0) add_row(none, none, none, -one, one);
    while (ndisc % kPanel<S> != 0) add_disc(pair, pair, none, one);
  }

  // (F.2)  what the rows add to the slope of the function at u + a du, and how it grows with a
  FB_FN void look(S a, S& slope, S& growth) const {
    using V = Panel<S>;
    const V by(a), zero(Real<S>(0)), one(Real<S>(1));
    V sum = zero, grow = zero;
    for (int i = 0; i < nrow; i += kPanel<S>) {
      const V d = panel_at(x.d + i), c = d * panel_at(x.yield + i);
      const V lo = panel_at(x.low + i), hi = panel_at(x.high + i);
      const V v = sub_mul(panel_at(x.v + i), by, c);
      sum = sub_mul(sum, d, min(max(v, lo), hi));
      grow = mul_add(d, select((v > lo) & (v < hi), c, zero), grow);
    }
    for (int i = 0; i < ndisc; i += kPanel<S>) {
      const V d1 = panel_at(x.d1 + i), d2 = panel_at(x.d2 + i), c = panel_at(x.yields + i);
      const V v1 = sub_mul(panel_at(x.v1 + i), by, c * d1);
      const V v2 = sub_mul(panel_at(x.v2 + i), by, c * d2), radius = panel_at(x.radius + i);
      const V n2 = mul_add(v1, v1, v2 * v2), out = mul_add(d1, v1, d2 * v2);
      const auto slides = n2 > radius * radius;
      const V inv = one / sqrt(select(slides, n2, one)), f = select(slides, radius * inv, one);
      const V turn = (d1 * v2 - d2 * v1) * inv, square = mul_add(d1, d1, d2 * d2);
      sum = sub_mul(sum, out, f);
      grow = mul_add(f * c, select(slides, turn * turn, square), grow);
    }
    slope = slope + sum_of_panel<S>(sum);
    growth = growth + sum_of_panel<S>(grow);
  }
  // the length at which the slope is next to none; yd = y . dy, dd = |dy|^2, first: the slope at zero
  FB_FN S length(S yd, S dd, S first) const {
    S low(0), high(-1), a(1);
    for (int k = 1; k < kLooks; ++k) {
      S slope = mul_add(a, dd, yd), growth = dd;
      look(a, slope, growth);
      if (abs(slope) <= S(kSlopeLeft) * abs(first)) break;
      (slope < S(0) ? low : high) = a;
      const S next = a - slope / growth;
      const bool inside = next > low && (high < S(0) || next < high);
      a = inside ? next : high < S(0) ? S(2) * a : S(0.5) * (low + high);
    }
    return a;
  }
};

}  // namespace fb::FB_ISA
