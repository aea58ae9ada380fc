// The smooth law of one world: the point of the interior path at which all products are the square of
// the smoothing, over the rows' inverse weights.  Its blocks, and how impulses follow the parameters
// of the law.  Proof: docs/derivations/worlds.md.
#pragma once
#include "core/solver/world_newton.hpp"

namespace fb::FB_ISA {

// (Y.1)  the product of a row: of impulse and velocity, a kinetic energy
template <class S>
FB_INLINE S smooth_product(const WorldRows<S>& p, int r) {
  return S(p.smoothing * p.smoothing) / p.W[r];
}
// tangents of a contact that cannot rub carry nothing
template <class S>
FB_INLINE bool rubs(const WorldRows<S>& p, int r) {
  return p.mu[r] > S(1e-10);
}
// visit(first, n) the rims of the contact at r: one disc of two tangents, or two segments
template <class S, class F>
FB_INLINE void for_rims(const WorldRows<S>& p, int r, F&& visit) {
  if (!rubs(p, r)) return;
  if (!p.box) return visit(r + 1, 2);
  visit(r + 1, 1);
  visit(r + 2, 1);
}

// (Y.2)  the normal: dlam_n = -kn du_n
template <class S>
FB_INLINE S smooth_normal(const WorldRows<S>& p, int r, const S* lam) {
  return S(1) / (smooth_product(p, r) / (lam[r] * lam[r]) + p.R[r]);
}
// (Y.3)  a rim: dlam_t = -(kp + bend a a') du_t + a turn dlam_n
template <class S>
struct SmoothRim {
  S a[2], kp, bend, turn;
};
template <class S>
FB_INLINE SmoothRim<S> smooth_rim(const WorldRows<S>& p, int r, int first, int n, const S* lam,
                                  const S* w) {
  const S one = S(1), k = smooth_product(p, r), radius = p.mu[r] * lam[r];
  SmoothRim<S> m;
  m.a[0] = lam[first] / radius;
  m.a[1] = n == 2 ? lam[first + 1] / radius : S(0);
  const S size2 = dot2(m.a[0], m.a[0], m.a[1], m.a[1]);
  // near the rim impulses have lost the digits of 1 - |a|^2, and the slip -w_t = eta a has them
  S h = one - size2;
  if (!(h > S(1e-16))) h = S(1e-16);
  S eta = k / (radius * h);
  if (size2 > S(0.25)) {
    const S slip = -(m.a[0] * w[first] + (n == 2 ? m.a[1] * w[first + 1] : S(0))) / size2;
    if (slip > h * p.D[first] * lam[r]) eta = slip;
  }
  const S t = eta / radius, g = k / eta;
  const S ke = one / (t + eta * size2 * S(2) / g + p.R[first]);
  m.kp = one / (t + p.R[first]);
  m.bend = -(eta * S(2) / g * ke * m.kp);
  m.turn = ke * eta * (one / lam[r] + p.mu[r] * (one + size2) / g);
  return m;
}
// (Y.4)  a row between bounds: dlam = c (-du + lower dlo + upper dhi)
template <class S>
struct SmoothBounds {
  S c, lower, upper;
};
template <class S>
FB_INLINE SmoothBounds<S> smooth_bounds(const WorldRows<S>& p, int r, const S* lam, const S* w) {
  const S zero = S(0), k = smooth_product(p, r);
  if (is_fixed(p, r)) return {zero, zero, zero};
  const bool low = is_bound(p.lo[r]), high = is_bound(p.hi[r]);
  S below = low ? lam[r] - p.lo[r] : S(1), above = high ? p.hi[r] - lam[r] : S(1);
  // the multiplier of the nearer bound from the velocity, where the impulse has lost the distance
  if (low && high && below < above) {
    const S z = w[r] + k / above;
    if (z > p.D[r] * below) below = k / z;
  } else if (low && high) {
    const S z = k / below - w[r];
    if (z > p.D[r] * above) above = k / z;
  }
  const S lower = low ? k / (below * below) : zero, upper = high ? k / (above * above) : zero;
  return {S(1) / (lower + upper + p.R[r]), lower, upper};
}

// the law of a block, linearised at (lam, w)
template <class S>
FB_FN void smooth_law(const WorldRows<S>& p, const RowBlock& k, const S* lam, const S* w,
                      BlockLaw<S>& law) {
  for (auto& row : law.C)
    for (S& x : row) x = S(0);
  if (!k.cone) {
    for (int i = 0; i < k.rows; ++i) law.C[i][i] = smooth_bounds(p, k.row + i, lam, w).c;
    return;
  }
  const int r = k.row;
  law.C[0][0] = smooth_normal(p, r, lam);
  for_rims(p, r, [&](int first, int n) {
    const SmoothRim<S> m = smooth_rim(p, r, first, n, lam, w);
    for (int i = 0; i < n; ++i) {
      S* row = law.C[first - r + i];
      row[0] = m.a[i] * m.turn * law.C[0][0];
      for (int j = 0; j < n; ++j) row[first - r + j] = m.bend * m.a[i] * m.a[j];
      row[first - r + i] += m.kp;
    }
  });
}

// (Y.5)  what the parameters of the law move its impulses by at fixed velocities, dlam = own: lam_n / mu
// counts as a change of the normal, bounds as (Y.4) says.  Given t of the impulses, the cotangents
template <class S>
FB_INLINE S smooth_friction_bar(const WorldRows<S>& p, const RowBlock& k, const S* lam, const S* w,
                                const S* t) {
  const int r = k.row;
  S sum = S(0);
  for_rims(p, r, [&](int first, int n) {
    const SmoothRim<S> m = smooth_rim(p, r, first, n, lam, w);
    for (int i = 0; i < n; ++i) sum += m.a[i] * m.turn * t[first + i];
  });
  return rubs(p, r) ? sum * lam[r] / p.mu[r] : S(0);
}
template <class S>
FB_INLINE void smooth_bound_bars(const WorldRows<S>& p, int r, const S* lam, const S* w, S t,
                                 S& lo_bar, S& hi_bar) {
  const SmoothBounds<S> m = smooth_bounds(p, r, lam, w);
  lo_bar = is_fixed(p, r) ? t * S(0.5) : m.c * m.lower * t;
  hi_bar = is_fixed(p, r) ? t * S(0.5) : m.c * m.upper * t;
}
template <class S>
FB_FN void smooth_own_tangents(const WorldRows<S>& p, const RowBlock& k, const S* lam, const S* w,
                               S* own) {
  const int r = k.row;
  for (int i = 0; i < k.rows; ++i) own[i] = S(0);
  if (!k.cone) {
    for (int i = 0; i < k.rows; ++i) {
      S lower, upper;
      smooth_bound_bars(p, r + i, lam, w, S(1), lower, upper);
      own[i] = S(primal(lower) * p.lo[r + i].d + primal(upper) * p.hi[r + i].d);
    }
    return;
  }
  for_rims(p, r, [&](int first, int n) {
    const SmoothRim<S> m = smooth_rim(p, r, first, n, lam, w);
    const S share = m.turn * lam[r] / p.mu[r];
    for (int i = 0; i < n; ++i) own[first - r + i] = S(primal(m.a[i] * share) * p.mu[r].d);
  });
}

}  // namespace fb::FB_ISA
