// Newton steps of one world from the states that its rows have at the velocities with which the step begins.
// Machine numbers only.  Proof: docs/derivations/worlds.md.
#pragma once
#include "core/solver/begin_states.hpp"
#include "core/solver/world_newton.hpp"

namespace fb::FB_ISA {

// laws of the rows in the states that they have at p.before
template <class S>
struct BeginStates {
  const WorldRows<S>& p;
  WorldScratch<S>& s;

  FB_INLINE BeginRow<S> row(int r) const {
    return {p.before[r], p.b[r], p.lo[r], p.hi[r], p.soft(r), p.D[r]};
  }
  // the law of n rows on a rim of radius mu times the normal's impulse: C, how they follow the normal, right sides;
  // true where they slide.  still: the share of what the free motion changes that is no slip
  FB_INLINE bool rim(int r, int n, S mu, S normal, Real<S> still, S (&C)[2], S (&follow)[2]) const {
    S slip(0), none(0);
    for (int i = r; i < r + n; ++i) {
      const S by = (p.b[i] - p.before[i]) * still;
      slip = mul_add(p.before[i], p.before[i], slip);
      none = mul_add(by, by, none);
    }
    slip = sqrt(slip);
    const bool slides = begins_to_slide(slip, sqrt(none), mu * normal, p.soft(r));
    for (int i = 0; i < n; ++i) {
      C[i] = slides ? S(0) : S(1) / p.soft(r + i);
      follow[i] = slides ? -(mu * p.before[r + i] / slip) : S(0);
      s.h[r + i] = slides ? S(0) : -(s.w[r + i] * C[i]);
    }
    return slides;
  }
  // tangents of block b, whose normal is pressed; true where one slides
  FB_INLINE bool tangents(int b) const {
    const int r = p.block[b].row;
    const S normal = begin_normal(row(r)), kn = s.law[b].C[0][0], mu = p.mu[r];
    bool slides = false;
    const int n = p.box ? 1 : 2;
    for (int i = 1; i < 3; i += n) {
      S C[2], follow[2];
      slides = rim(r + i, n, mu, normal, kStill, C, follow) || slides;
      for (int e = 0; e < n; ++e) {
        s.law[b].C[i + e][i + e] = C[e];
        s.law[b].C[i + e][0] = follow[e] * kn;
        s.h[r + i + e] += follow[e] * s.h[r];
      }
    }
    return slides;
  }
  FB_INLINE bool rims(int b) const {
    const RowBlock& k = p.block[b];
    const int r = k.row - 3;
    const S kn = s.law[b - 1].C[0][0], normal = kn > S(0) ? begin_normal(row(r)) : S(0);
    clear_rims(k, s.law[b], s.cross);
    bool slides = false;
    for (int i = k.row; i < k.row + k.rows; ++i) s.h[i] = S(0);
    if (!(kn > S(0))) return false;
    p.for_rims_beside(r, [&](const Rim& m) {
      S C[2], follow[2];
      slides = rim(m.first, m.n, p.mu[m.first], normal, 0, C, follow) || slides;
      for (int e = 0; e < m.n; ++e) {
        const int i = m.first + e;
        s.law[b].C[i - k.row][i - k.row] = C[e];
        s.cross[i] = follow[e] * kn;
        s.h[i] += follow[e] * s.h[r];
      }
    });
    return slides;
  }
  // the law of block b and its right side; true where something slides on a rim
  FB_INLINE bool set_law(int b) const {
    const RowBlock& k = p.block[b];
    if (k.cone == kRimBlock) return rims(b);
    BlockLaw<S>& law = s.law[b];
    for (auto& row : law.C)
      for (S& c : row) c = S(0);
    for (int i = 0; i < k.rows; ++i) s.h[k.row + i] = S(0);
    for (int i = 0; i < (k.cone ? 1 : k.rows); ++i) {
      S at;
      if (begins_held(row(k.row + i), at)) continue;
      law.C[i][i] = S(1) / p.soft(k.row + i);
      s.h[k.row + i] = -(s.w[k.row + i] * law.C[i][i]);
    }
    return k.cone && law.C[0][0] > S(0) && tangents(b);
  }
  // held rows at their bounds, the others without impulse
  FB_INLINE void start() const {
    for (int b = 0; b < p.nblock; ++b) {
      const RowBlock& k = p.block[b];
      for (int r = k.row; r < k.row + k.rows; ++r) s.lam[r] = S(0);
      for (int i = 0; k.cone != kRimBlock && i < (k.cone ? 1 : k.rows); ++i)
        begins_held(row(k.row + i), s.lam[k.row + i]);
    }
  }
  // the solution in s.best with its velocities in s.w; false where the steps do not come nearer
  FB_FN bool solve(WorldOutcome& out) const {
    start();
    row_velocities(p, s.lam, p.b, s.y, s.w);
    bool slides = false;
    for (int b = 0; b < p.nblock; ++b) slides = set_law(b) || slides;
    factor_law(p, s.law, s.cross, s.H);
    solve_law(p, s.law, s.cross, s.H, s.h, s.y, s.w);
    for (int r = 0; r < p.nrow; ++r) s.lam[r] += s.h[r];
    ++out.factorisations;
    S before = p.scale * S(kBeginLeaves / kStepLeaves);
    // where nothing slides the first factors are those of the exact law
    bool factor = slides;
    for (int k = 0; k < kBeginSteps; ++k) {
      row_velocities(p, s.lam, p.b, s.y, s.w);
      newton_world(p, s, S(1), factor);
      out.exact = true;
      out.factorisations += factor;
      factor = true;
      const bool done = world_done(p, s, out.residual);
      if (done) return true;
      if (!(out.residual < S(kStepLeaves) * before)) return false;
      before = out.residual;
    }
    return false;
  }
};

}  // namespace fb::FB_ISA
