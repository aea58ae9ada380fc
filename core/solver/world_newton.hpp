// Sweeps and Newton steps on the active set for one world, in its dofs.
// Proof: docs/derivations/worlds.md.
#pragma once
#include "core/solver/world_rows.hpp"

namespace fb::FB_ISA {

// scratch of the solvers of one world; arrays of rows unless they say otherwise
template <class S>
struct WorldScratch {
  S *lam, *w, *h, *best, *rest, *kept, *own;
  S* cross;   // how rims follow the velocity of their normal; set and read at blocks of rims only
  S *y, *y2;  // of dofs
  BlockLaw<S>* law;
  Envelope<S> H;
};

// (V.3)  one projected Gauss-Seidel sweep with y = G' lam kept
template <class S>
FB_FN void sweep_world(const WorldRows<S>& p, S* lam, S* y) {
  for (int b = 0; b < p.nblock; ++b) {
    const RowBlock& k = p.block[b];
    S d[3] = {S(0), S(0), S(0)};
    const auto take = [&](int i, S next) {
      d[i] = next - lam[k.row + i];
      lam[k.row + i] = next;
      const S* g = p.row_of(k, i);
      const Panel<S> by(d[i]);
      p.for_panels(k, [&](int at, int c) {
        put_panel(mul_add(panel_at(g + c), by, panel_at(y + at)), y + at);
      });
    };
    const auto target = [&](int i) {
      const int r = k.row + i;
      const S* g = p.row_of(k, i);
      Panel<S> sum(Real<S>(0));
      p.for_panels(k,
                   [&](int at, int c) { sum = mul_add(panel_at(g + c), panel_at(y + at), sum); });
      const S u = p.b[r] + sum_of_panel<S>(sum);
      return lam[r] - mul_add(p.R[r], lam[r], u) / p.D[r];
    };
    if (k.cone == kRimBlock) {
      p.for_rims_beside(k.row - 3, [&](const Rim& m) {
        const int i = m.first - k.row;
        S x[2] = {target(i), m.n == 2 ? target(i + 1) : S(0)};
        project_rim(p, m, lam[m.normal], x);
        for (int e = 0; e < m.n; ++e) take(i + e, x[e]);
      });
      continue;
    }
    const int alone = k.cone ? 1 : k.rows;
    for (int i = 0; i < alone; ++i) take(i, clamp(target(i), p.lo[k.row + i], p.hi[k.row + i]));
    if (!k.cone) continue;
    S x[3] = {lam[k.row], target(1), target(2)};
    project_block(p, k, lam[k.row], x);
    take(1, x[1]);
    take(2, x[2]);
  }
}

// the tangents of a contact at x = lam - reach w / D: where they slide, the direction and the
// factor radius / |x|
template <class S>
struct WorldTangents {
  S e1, e2, f;
  bool slide1, slide2;
};
template <class S>
FB_INLINE WorldTangents<S> world_tangents(const WorldRows<S>& p, const RowBlock& k, const S* lam,
                                          const S* w, Real<S> reach) {
  WorldTangents<S> t;
  const int r = k.row;
  const S radius = p.mu[r] * lam[r];
  const S x1 = lam[r + 1] - w[r + 1] / p.D[r + 1] * reach;
  const S x2 = lam[r + 2] - w[r + 2] / p.D[r + 2] * reach;
  const bool none = !(radius > S(0));
  if (p.box) {
    t.slide1 = none || abs(x1) > radius;
    t.slide2 = none || abs(x2) > radius;
    t.e1 = select(x1 < S(0), S(-1), S(1));
    t.e2 = select(x2 < S(0), S(-1), S(1));
    t.f = S(0);
    return t;
  }
  const S n2 = dot2(x1, x1, x2, x2);
  t.slide1 = t.slide2 = none || n2 > radius * radius;
  const bool turns = n2 > S(0);
  const S inv = S(1) / sqrt(select(turns, n2, S(1)));
  t.e1 = select(turns, x1 * inv, S(1));
  t.e2 = select(turns, x2 * inv, S(0));
  t.f = select(turns, radius * inv, S(0));
  return t;
}

// the same of a rim: a segment has its direction in e1 and no curvature
template <class S>
FB_INLINE WorldTangents<S> rim_state(const WorldRows<S>& p, const Rim& m, const S* lam, const S* w,
                                     Real<S> reach) {
  WorldTangents<S> t;
  const int r = m.first;
  const S radius = p.mu[r] * lam[m.normal];
  const S x1 = lam[r] - w[r] / p.D[r] * reach;
  const S x2 = m.n == 2 ? lam[r + 1] - w[r + 1] / p.D[r + 1] * reach : S(0);
  const S n2 = dot2(x1, x1, x2, x2);
  t.slide1 = t.slide2 = !(radius > S(0)) || n2 > radius * radius;
  const bool turns = n2 > S(0);
  const S inv = S(1) / sqrt(select(turns, n2, S(1)));
  t.e1 = select(turns, x1 * inv, S(1));
  t.e2 = select(turns, x2 * inv, S(0));
  t.f = m.n == 2 ? select(turns, radius * inv, S(0)) : S(0);
  return t;
}

// whether the row looks between its bounds
template <class S>
FB_INLINE bool world_free(const WorldRows<S>& p, const S* lam, const S* w, int r, Real<S> reach) {
  const S x = lam[r] - w[r] / p.D[r] * reach;
  return x > p.lo[r] && x < p.hi[r];
}

// (V.4)  the exact law of a block, linearised at (lam, w), and where asked for its right side
template <class S>
FB_FN void exact_law(const WorldRows<S>& p, const RowBlock& k, const S* lam, const S* w,
                     Real<S> reach, BlockLaw<S>& law, S* h) {
  const S zero = S(0), one = S(1);
  for (auto& row : law.C)
    for (S& x : row) x = zero;
  const int alone = k.cone ? 1 : k.rows;
  for (int i = 0; i < alone; ++i) {
    const int r = k.row + i;
    const bool free = world_free(p, lam, w, r, reach);
    law.C[i][i] = free ? one / p.soft(r) : zero;
    if (h) h[i] = free ? -(w[r] / p.soft(r)) : zero;
  }
  if (!k.cone) return;
  const int r = k.row;
  if (!world_free(p, lam, w, r, reach)) {
    if (h) h[1] = h[2] = zero;
    return;
  }
  const WorldTangents<S> t = world_tangents(p, k, lam, w, reach);
  const S mu = p.mu[r], radius = mu * lam[r], kn = law.C[0][0];
  const S miss1 = radius * t.e1 - lam[r + 1], miss2 = radius * t.e2 - lam[r + 2];
  if (p.box || !t.slide1) {
    // each tangent sticks, or follows the normal
    const S e[2] = {t.e1, t.e2}, miss[2] = {miss1, miss2};
    const bool slide[2] = {t.slide1, t.slide2};
    for (int i = 0; i < 2; ++i) {
      const S k_t = slide[i] ? zero : one / p.soft(r + 1 + i);
      law.C[1 + i][1 + i] = k_t;
      law.C[1 + i][0] = slide[i] ? mu * e[i] * kn : zero;
      if (h) h[1 + i] = slide[i] ? miss[i] + mu * e[i] * h[0] : -(w[r + 1 + i] * k_t);
    }
    return;
  }
  // on the rim: the normal carries it along e, the cone's curvature lets it turn
  const S rho = p.D[r + 1] / reach, den = one - t.f + t.f * p.soft(r + 1) / rho;
  law = cone_law(kn, zero, t.f / (rho * den), mu, t.e1, t.e2);
  if (!h) return;
  const S along = t.e1 * miss1 + t.e2 * miss2 + mu * h[0];
  const S across = (t.e1 * miss2 - t.e2 * miss1) / den;
  h[1] = along * t.e1 - across * t.e2;
  h[2] = along * t.e2 + across * t.e1;
}

// (V.10)  the same of a rim whose normal is free: C of its rows, how they follow the normal's velocity, right sides
template <class S>
struct RimLaw {
  S C[2][2], cross[2], h[2];
};
// kn, hn: C and the right side of the normal
template <class S>
FB_INLINE RimLaw<S> rim_law(const WorldRows<S>& p, const Rim& m, const S* lam, const S* w,
                            Real<S> reach, S kn, S hn) {
  const WorldTangents<S> t = rim_state(p, m, lam, w, reach);
  const S zero = S(0), one = S(1), mu = p.mu[m.first], e[2] = {t.e1, t.e2};
  RimLaw<S> law{{{zero, zero}, {zero, zero}}, {zero, zero}, {zero, zero}};
  for (int i = 0; i < m.n; ++i) {
    const int r = m.first + i;
    law.C[i][i] = t.slide1 ? zero : one / p.soft(r);
    law.cross[i] = t.slide1 ? mu * e[i] * kn : zero;
    law.h[i] = t.slide1 ? mu * e[i] * (lam[m.normal] + hn) - lam[r] : -(w[r] * law.C[i][i]);
  }
  if (!t.slide1 || m.n == 1) return law;
  // the disc's curvature lets it turn
  const S rho = p.D[m.first] / reach, den = one - t.f + t.f * p.soft(m.first) / rho;
  const S kp = t.f / (rho * den), along = t.e1 * law.h[0] + t.e2 * law.h[1];
  const S across = (t.e2 * lam[m.first] - t.e1 * lam[m.first + 1]) / den;
  law.C[0][0] = kp * t.e2 * t.e2;
  law.C[1][1] = kp * t.e1 * t.e1;
  law.C[0][1] = law.C[1][0] = -(kp * t.e1 * t.e2);
  law.h[0] = along * t.e1 - across * t.e2;
  law.h[1] = along * t.e2 + across * t.e1;
  return law;
}
// the rims of block b
template <class S>
FB_FN void exact_rims(const WorldRows<S>& p, const WorldScratch<S>& s, int b, const S* lam,
                      Real<S> reach, S* h) {
  const RowBlock& k = p.block[b];
  const int n = k.row - 3;
  clear_rims(k, s.law[b], s.cross);
  for (int r = k.row; h && r < k.row + k.rows; ++r) h[r] = S(0);
  if (!world_free(p, lam, s.w, n, reach)) return;
  const S kn = S(1) / p.soft(n);
  p.for_rims_beside(n, [&](const Rim& m) {
    const RimLaw<S> law = rim_law(p, m, lam, s.w, reach, kn, -(s.w[n] * kn));
    for (int i = 0; i < m.n; ++i) {
      const int at = m.first - k.row;
      for (int j = 0; j < m.n; ++j) s.law[b].C[at + i][at + j] = law.C[i][j];
      s.cross[m.first + i] = law.cross[i];
      if (h) h[m.first + i] = law.h[i];
    }
  });
}
// the exact law of all blocks; h: null where only the law is wanted
template <class S>
FB_FN void exact_laws(const WorldRows<S>& p, const WorldScratch<S>& s, const S* lam, Real<S> reach,
                      S* h) {
  for (int b = 0; b < p.nblock; ++b) {
    const RowBlock& k = p.block[b];
    if (k.cone == kRimBlock)
      exact_rims(p, s, b, lam, reach, h);
    else
      exact_law(p, k, lam, s.w, reach, s.law[b], h ? h + k.row : nullptr);
  }
}

// rows that look outside their bounds are put on them first; true where one was not there
template <class S>
FB_FN bool hold_world(const WorldRows<S>& p, S* lam, const S* w, Real<S> reach) {
  bool moved = false;
  const auto put = [&](int r, S at) {
    moved = moved || !(lam[r] == at);
    lam[r] = at;
  };
  for (int b = 0; b < p.nblock; ++b) {
    const RowBlock& k = p.block[b];
    if (k.cone == kRimBlock) continue;
    const int alone = k.cone ? 1 : k.rows;
    for (int r = k.row; r < k.row + alone; ++r) {
      if (world_free(p, lam, w, r, reach)) continue;
      const S x = lam[r] - w[r] / p.D[r] * reach;
      put(r, x > p.lo[r] ? p.hi[r] : p.lo[r]);
      if (!k.cone) continue;
      for (int e = 1; e < 3 + p.rims[r]; ++e) put(r + e, S(0));
    }
  }
  return moved;
}
// (V.5)  one Newton step, with new factors or with those of the last one; lam and w in, lam out
template <class S>
FB_FN void newton_world(const WorldRows<S>& p, WorldScratch<S>& s, Real<S> reach, bool factor) {
  if (hold_world(p, s.lam, s.w, reach)) row_velocities(p, s.lam, p.b, s.y, s.w);
  exact_laws(p, s, s.lam, reach, s.h);
  if (factor) factor_law(p, s.law, s.cross, s.H);
  solve_law(p, s.law, s.cross, s.H, s.h, s.y, s.w);
  for (int r = 0; r < p.nrow; ++r) s.lam[r] = s.lam[r] + s.h[r];
}

// how a solve of one world went
struct WorldOutcome {
  bool solved;
  bool exact;  // the factors at hand are those of the exact law
  int factorisations, stage;
  double residual;
};

// s.best = P(s.lam) with s.w its velocities: its residual
template <class S>
FB_FN bool world_done(const WorldRows<S>& p, WorldScratch<S>& s, Real<S>& residual) {
  project_world(p, s.lam, s.best);
  row_velocities(p, s.best, p.b, s.y, s.w);
  Real<S> loads;
  residual = world_residual(p, s.best, s.w, loads);
  return is_solved(p, residual, loads);
}

}  // namespace fb::FB_ISA
