// Derivatives of a world's solution by the implicit function theorem, in its dofs: the adjoint, the
// tangent and columns.  Proof: docs/derivations/worlds.md.
#pragma once
#include "core/solver/smooth_law.hpp"

namespace fb::FB_ISA {

// factors of the law at the solution s.best; its velocities are left in s.w
template <class S>
FB_FN void factor_solution(WorldRows<S>& p, WorldScratch<S>& s) {
  prepare_world(p);
  envelope_of(p, s.H);
  row_velocities(p, s.best, p.b, s.y, s.w);
  if (p.smoothing > 0)
    smooth_laws(p, s, s.best);
  else
    exact_laws(p, s, s.best, Real<S>(1), static_cast<S*>(nullptr));
  factor_law(p, s.law, s.cross, s.H);
}
// h = C x of all blocks, or C' x
template <class S>
FB_FN void law_times(const WorldRows<S>& p, const WorldScratch<S>& s, bool transposed, const S* x,
                     S* h) {
  const BlockLaw<S>* law = s.law;
  for (int b = 0; b < p.nblock; ++b) {
    const RowBlock& k = p.block[b];
    for (int i = 0; i < k.rows; ++i) {
      S sum = S(0);
      for (int j = 0; j < k.rows; ++j)
        sum = mul_add(transposed ? law[b].C[j][i] : law[b].C[i][j], x[k.row + j], sum);
      h[k.row + i] = sum;
    }
    if (k.cone != kRimBlock) continue;
    // the normal carries its rims
    for (int n = k.row - 3, r = k.row; r < k.row + k.rows; ++r)
      (transposed ? h[n] : h[r]) =
          mul_add(s.cross[r], transposed ? x[r] : x[n], transposed ? h[n] : h[r]);
  }
}

// x - G q with H q = G' C x, or with both transposed: x in place; h, y: scratch
template <class S>
FB_FN void solve_rates(const WorldRows<S>& p, WorldScratch<S>& s, bool transposed, S* x) {
  law_times(p, s, transposed, x, s.h);
  sum_rows(p, s.h, s.y);
  if (transposed)
    solve_envelope_transposed(s.H, s.y);
  else
    solve_envelope(s.H, s.y);
  for (int b = 0; b < p.nblock; ++b) {
    const RowBlock& k = p.block[b];
    S u[3];
    block_times(p, k, s.y, u);
    for (int i = 0; i < k.rows; ++i) x[k.row + i] = x[k.row + i] - u[i];
  }
}
// (V.6)  t + G G' C t = x, C transposed where asked for: x in s.lam becomes t, C t is left in s.h.
// C is as large as 1/R where a row is free, and t there as small as R: what is lost in x - G q is found
// again by one solve for the rest
template <class S>
FB_FN void solve_rates_twice(const WorldRows<S>& p, WorldScratch<S>& s, bool transposed) {
  for (int r = 0; r < p.nrow; ++r) s.rest[r] = s.lam[r];
  solve_rates(p, s, transposed, s.lam);
  law_times(p, s, transposed, s.lam, s.h);
  sum_rows(p, s.h, s.y);
  for (int b = 0; b < p.nblock; ++b) {
    const RowBlock& k = p.block[b];
    S u[3];
    block_times(p, k, s.y, u);
    for (int i = 0; i < k.rows; ++i)
      s.rest[k.row + i] = s.rest[k.row + i] - s.lam[k.row + i] - u[i];
  }
  for (int r = 0; r < p.nrow; ++r) s.kept[r] = s.h[r];
  solve_rates(p, s, transposed, s.rest);
  law_times(p, s, transposed, s.rest, s.h);
  for (int r = 0; r < p.nrow; ++r) {
    s.lam[r] = s.lam[r] + s.rest[r];
    s.h[r] = s.h[r] + s.kept[r];
  }
}
// (V.7)  the adjoint: t + G G' C' t = lam_bar, z = C' t; b_bar = -z, mu_bar = lam_n e . t where a
// contact slides, t of a held row goes to its bound.  lam_bar in s.lam; t is left in s.lam, z in s.h
template <class S>
FB_FN void world_adjoint(const WorldRows<S>& p, WorldScratch<S>& s) {
  solve_rates_twice(p, s, true);
}
// mu_bar of a contact from t
template <class S>
FB_INLINE S friction_bar(const WorldRows<S>& p, const WorldScratch<S>& s, const RowBlock& k) {
  const int r = k.row;
  if (p.smoothing > 0) return smooth_friction_bar(p, k, s.best, s.w, s.lam);
  if (!world_free(p, s.best, s.w, r, Real<S>(1))) return S(0);
  const WorldTangents<S> t = world_tangents(p, k, s.best, s.w, Real<S>(1));
  S sum = S(0);
  if (t.slide1) sum = mul_add(t.e1, s.lam[r + 1], sum);
  if (t.slide2) sum = mul_add(t.e2, s.lam[r + 2], sum);
  return sum * s.best[r];
}
// mu_bar of a rim from t
template <class S>
FB_INLINE S rim_friction_bar(const WorldRows<S>& p, const WorldScratch<S>& s, const Rim& m) {
  if (p.smoothing > 0) return smooth_rim_bar(p, m, s.best, s.w, s.lam);
  if (!world_free(p, s.best, s.w, m.normal, Real<S>(1))) return S(0);
  const WorldTangents<S> t = rim_state(p, m, s.best, s.w, Real<S>(1));
  if (!t.slide1) return S(0);
  S sum = t.e1 * s.lam[m.first];
  if (m.n == 2) sum = mul_add(t.e2, s.lam[m.first + 1], sum);
  return sum * s.best[m.normal];
}
// bars of a row's bounds from t: a row that still moves down is held by the upper one
template <class S>
FB_INLINE void bound_bars(const WorldRows<S>& p, const WorldScratch<S>& s, int r, S& lo_bar,
                          S& hi_bar) {
  if (p.smoothing > 0) return smooth_bound_bars(p, r, s.best, s.w, s.lam[r], lo_bar, hi_bar);
  lo_bar = hi_bar = S(0);
  if (!world_free(p, s.best, s.w, r, Real<S>(1))) (s.w[r] < S(0) ? hi_bar : lo_bar) = s.lam[r];
}

// what a row's own law moves its impulse by at fixed velocities: with its bound where it is held, with
// the coefficient of friction on the rim
template <class S>
FB_FN void own_tangents(const WorldRows<S>& p, const WorldScratch<S>& s, const RowBlock& k,
                        S* own) {
  if (p.smoothing > 0) return smooth_own_tangents(p, k, s.best, s.w, own);
  const int alone = k.cone ? 1 : k.rows, r = k.row;
  for (int i = 0; i < k.rows; ++i) own[i] = S(0);
  if (k.cone == kRimBlock)
    return p.for_rims_beside(r - 3, [&](const Rim& m) {
      if (!world_free(p, s.best, s.w, m.normal, Real<S>(1))) return;
      const WorldTangents<S> t = rim_state(p, m, s.best, s.w, Real<S>(1));
      const S turn = S(primal(s.best[m.normal]) * p.mu[m.first].d);
      if (!t.slide1) return;
      own[m.first - r] = S(primal(t.e1)) * turn;
      if (m.n == 2) own[m.first - r + 1] = S(primal(t.e2)) * turn;
    });
  for (int i = 0; i < alone; ++i) {
    if (world_free(p, s.best, s.w, r + i, Real<S>(1))) continue;
    own[i] = S((s.w[r + i] < S(0) ? p.hi : p.lo)[r + i].d);
  }
  if (!k.cone || !world_free(p, s.best, s.w, r, Real<S>(1))) return;
  const WorldTangents<S> t = world_tangents(p, k, s.best, s.w, Real<S>(1));
  const S turn = S(primal(s.best[r]) * p.mu[r].d);
  if (t.slide1) own[1] = S(primal(t.e1)) * turn;
  if (t.slide2) own[2] = S(primal(t.e2)) * turn;
}
// (V.9)  the tangent of the solution s.best, which has none yet: t + G G' C t = -(dw + G G' own),
// dlam = own + C t, where dw is the change of the velocities at fixed impulses
template <class S>
FB_FN void world_tangent(WorldRows<S>& p, WorldScratch<S>& s) {
  factor_solution(p, s);
  for (int b = 0; b < p.nblock; ++b) own_tangents(p, s, p.block[b], s.own + p.block[b].row);
  sum_rows(p, s.own, s.y);
  for (int b = 0; b < p.nblock; ++b) {
    const RowBlock& k = p.block[b];
    S u[3];
    block_times(p, k, s.y, u);
    for (int i = 0; i < k.rows; ++i) s.lam[k.row + i] = S(-(s.w[k.row + i].d + primal(u[i])));
  }
  solve_rates_twice(p, s, false);
  for (int r = 0; r < p.nrow; ++r)
    s.best[r] = S(primal(s.best[r]), primal(s.own[r]) + primal(s.h[r]));
}

}  // namespace fb::FB_ISA
