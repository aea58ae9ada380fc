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
// a rim of the smooth law: base has its coefficient and its weight
struct SmoothRimRows {
  int normal, base, first, n;
};
// visit the tangents' rims of the contact at r: one disc of two tangents, or two segments
template <class S, class F>
FB_INLINE void for_sliding_rims(const WorldRows<S>& p, int r, F&& visit) {
  if (!rubs(p, r)) return;
  if (!p.box) return visit(SmoothRimRows{r, r, r + 1, 2});
  visit(SmoothRimRows{r, r, r + 1, 1});
  visit(SmoothRimRows{r, r, r + 2, 1});
}
// visit the rims of a block: those of its tangents, or those beside them
template <class S, class F>
FB_INLINE void for_rims(const WorldRows<S>& p, const RowBlock& k, F&& visit) {
  if (k.cone == kContactBlock) return for_sliding_rims(p, k.row, visit);
  p.for_rims_beside(k.row - 3, [&](const Rim& m) {
    if (rubs(p, m.first)) visit(SmoothRimRows{m.normal, m.first, m.first, m.n});
  });
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
FB_INLINE SmoothRim<S> smooth_rim(const WorldRows<S>& p, const SmoothRimRows& at, const S* lam,
                                  const S* w) {
  const int r = at.normal, first = at.first, n = at.n;
  const S one = S(1), k = smooth_product(p, at.base), radius = p.mu[at.base] * lam[r];
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
    if (slip > h * p.D[first] * (r == at.base ? lam[r] : radius)) eta = slip;
  }
  const S t = eta / radius, g = k / eta;
  const S ke = one / (t + eta * size2 * S(2) / g + p.R[first]);
  m.kp = one / (t + p.R[first]);
  m.bend = -(eta * S(2) / g * ke * m.kp);
  m.turn = ke * eta * (one / lam[r] + p.mu[at.base] * (one + size2) / g);
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
  for_sliding_rims(p, r, [&](const SmoothRimRows& at) {
    const SmoothRim<S> m = smooth_rim(p, at, lam, w);
    for (int i = 0; i < at.n; ++i) {
      S* row = law.C[at.first - r + i];
      row[0] = m.a[i] * m.turn * law.C[0][0];
      for (int j = 0; j < at.n; ++j) row[at.first - r + j] = m.bend * m.a[i] * m.a[j];
      row[at.first - r + i] += m.kp;
    }
  });
}
// that of all blocks; rims beside the tangents follow the normal from block to block
template <class S>
FB_FN void smooth_laws(const WorldRows<S>& p, const WorldScratch<S>& s, const S* lam) {
  for (int b = 0; b < p.nblock; ++b) {
    const RowBlock& k = p.block[b];
    if (k.cone != kRimBlock) {
      smooth_law(p, k, lam, s.w, s.law[b]);
      continue;
    }
    clear_rims(k, s.law[b], s.cross);
    for_rims(p, k, [&](const SmoothRimRows& at) {
      const SmoothRim<S> m = smooth_rim(p, at, lam, s.w);
      for (int i = 0; i < at.n; ++i) {
        S* row = s.law[b].C[at.first - k.row + i] + (at.first - k.row);
        for (int j = 0; j < at.n; ++j) row[j] = m.bend * m.a[i] * m.a[j];
        row[i] += m.kp;
        s.cross[at.first + i] = m.a[i] * m.turn * s.law[b - 1].C[0][0];
      }
    });
  }
}

// (Y.5)  what the parameters of the law move its impulses by at fixed velocities, dlam = own: lam_n / mu
// counts as a change of the normal, bounds as (Y.4) says.  Given t of the impulses, the cotangents
template <class S>
FB_INLINE S smooth_friction_bar(const WorldRows<S>& p, const RowBlock& k, const S* lam, const S* w,
                                const S* t) {
  const int r = k.row;
  S sum = S(0);
  for_sliding_rims(p, r, [&](const SmoothRimRows& at) {
    const SmoothRim<S> m = smooth_rim(p, at, lam, w);
    for (int i = 0; i < at.n; ++i) sum += m.a[i] * m.turn * t[at.first + i];
  });
  return rubs(p, r) ? sum * lam[r] / p.mu[r] : S(0);
}
template <class S>
FB_INLINE S smooth_rim_bar(const WorldRows<S>& p, const Rim& at, const S* lam, const S* w,
                           const S* t) {
  if (!rubs(p, at.first)) return S(0);
  const SmoothRim<S> m = smooth_rim(p, {at.normal, at.first, at.first, at.n}, lam, w);
  S sum = m.a[0] * t[at.first];
  if (at.n == 2) sum += m.a[1] * t[at.first + 1];
  return sum * m.turn * lam[at.normal] / p.mu[at.first];
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
  for_rims(p, k, [&](const SmoothRimRows& at) {
    const SmoothRim<S> m = smooth_rim(p, at, lam, w);
    const S share = m.turn * lam[at.normal] / p.mu[at.base];
    for (int i = 0; i < at.n; ++i)
      own[at.first - r + i] = S(primal(m.a[i] * share) * p.mu[at.base].d);
  });
}

}  // namespace fb::FB_ISA
