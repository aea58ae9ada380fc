// Derivatives of a world's solution by the implicit function theorem, in its dofs: the adjoint, the
// tangent and columns.  Proof: docs/derivations/worlds.md.
#pragma once
#include "core/solver/world_newton.hpp"

namespace fb::FB_ISA {

// factors of the exact law at the solution s.best; its velocities are left in s.w
template <class S>
FB_FN void factor_solution(WorldRows<S>& p, WorldScratch<S>& s) {
  prepare_world(p);
  envelope_of(p, s.H);
  row_velocities(p, s.best, p.b, s.y, s.w);
  for (int b = 0; b < p.nblock; ++b)
    exact_law(p, p.block[b], s.best, s.w, Real<S>(1), s.law[b], static_cast<S*>(nullptr));
  factor_law(p, s.law, s.H);
}
// h = C x of all blocks, or C' x
template <class S>
FB_FN void law_times(const WorldRows<S>& p, const BlockLaw<S>* law, bool transposed, const S* x,
                     S* h) {
  for (int b = 0; b < p.nblock; ++b) {
    const RowBlock& k = p.block[b];
    for (int i = 0; i < k.rows; ++i) {
      S sum = S(0);
      for (int j = 0; j < k.rows; ++j)
        sum = mul_add(transposed ? law[b].C[j][i] : law[b].C[i][j], x[k.row + j], sum);
      h[k.row + i] = sum;
    }
  }
}

// (V.6)  H' q = G' C' lam_bar, t = lam_bar - G q, z = C' t; b_bar = -z, mu_bar = lam_n e . t where a
// contact slides, t of a held row goes to its bound.  lam_bar in s.lam; t is left in s.lam, z in s.h
template <class S>
FB_FN void world_adjoint(const WorldRows<S>& p, WorldScratch<S>& s) {
  law_times(p, s.law, true, s.lam, s.h);
  sum_rows(p, s.h, s.y);
  solve_envelope_transposed(s.H, s.y);
  for (int b = 0; b < p.nblock; ++b) {
    const RowBlock& k = p.block[b];
    S u[3];
    block_times(p, k, s.y, u);
    for (int i = 0; i < k.rows; ++i) s.lam[k.row + i] = s.lam[k.row + i] - u[i];
  }
  law_times(p, s.law, true, s.lam, s.h);
}
// mu_bar of a contact from t
template <class S>
FB_INLINE S friction_bar(const WorldRows<S>& p, const WorldScratch<S>& s, const RowBlock& k) {
  const int r = k.row;
  if (!world_free(p, s.best, s.w, r, Real<S>(1))) return S(0);
  const WorldTangents<S> t = world_tangents(p, k, s.best, s.w, Real<S>(1));
  S sum = S(0);
  if (t.slide1) sum = mul_add(t.e1, s.lam[r + 1], sum);
  if (t.slide2) sum = mul_add(t.e2, s.lam[r + 2], sum);
  return sum * s.best[r];
}

// the tangent of the solution s.best, whose tangent part is set: two Newton steps, the first of which
// takes the rest of the residual
template <class S>
FB_FN void world_tangent(WorldRows<S>& p, WorldScratch<S>& s) {
  prepare_world(p);
  envelope_of(p, s.H);
  for (int r = 0; r < p.nrow; ++r) s.lam[r] = S(primal(s.best[r]));
  for (int k = 0; k < 2; ++k) {
    row_velocities(p, s.lam, p.b, s.y, s.w);
    newton_world(p, s, Real<S>(1));
  }
  for (int r = 0; r < p.nrow; ++r) s.best[r] = S(primal(s.best[r]), s.lam[r].d);
}

}  // namespace fb::FB_ISA
