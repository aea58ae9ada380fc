// The row problem of one world in the dofs that its rows move: A = G G' + R is never formed.  What
// the lanes' dense solver does not finish, or is not meant for, is solved here.
// Proof: docs/derivations/worlds.md.
#pragma once
#include "core/solver/envelope.hpp"
#include "core/solver/problem.hpp"

namespace fb::FB_ISA {

// a run of rows that the same dofs move: a contact (a normal and two tangents), or rows with bounds
struct RowBlock {
  int row, rows, cone;  // first row, how many; cone: 1 for a contact with friction
  int dof, ndof;        // its dofs, ascending, from `dof` on in WorldRows::dof
  int value;            // rows x ndof numbers from here on in WorldRows::G
};

template <class S>
struct WorldRows {
  int nrow, ndof, nblock;
  RowBlock* block;
  int* dof;
  S* G;
  S *b, *lo, *hi, *mu, *R;
  S* D;           // diagonal of A; for the tangents of a cone the larger eigenvalue of their block
  Real<S> scale;  // largest |b|
  Real<S> tolerance;  // of the residual, relative to scale
  bool box;           // each tangent by itself

  FB_INLINE const S* row_of(const RowBlock& k, int i) const { return G + k.value + i * k.ndof; }
};

// whether a bound is none
template <class S>
FB_INLINE bool is_bound(S x) {
  return primal(abs(x)) < Real<S>(1e29);
}
// a row that cannot move: both bounds are one
template <class S>
FB_INLINE bool is_fixed(const WorldRows<S>& p, int r) {
  return !(p.lo[r] < p.hi[r]);
}

// u = G y of a block
template <class S>
FB_INLINE void block_times(const WorldRows<S>& p, const RowBlock& k, const S* y, S* u) {
  for (int i = 0; i < k.rows; ++i) {
    const S* g = p.row_of(k, i);
    S sum = S(0);
    for (int c = 0; c < k.ndof; ++c) sum = mul_add(g[c], y[p.dof[k.dof + c]], sum);
    u[i] = sum;
  }
}
// y += G' lam of a block
template <class S>
FB_INLINE void add_block(const WorldRows<S>& p, const RowBlock& k, const S* lam, S* y) {
  for (int i = 0; i < k.rows; ++i) {
    const S* g = p.row_of(k, i);
    for (int c = 0; c < k.ndof; ++c) {
      S& out = y[p.dof[k.dof + c]];
      out = mul_add(g[c], lam[i], out);
    }
  }
}
template <class S>
FB_FN void sum_rows(const WorldRows<S>& p, const S* lam, S* y) {
  for (int d = 0; d < p.ndof; ++d) y[d] = S(0);
  for (int b = 0; b < p.nblock; ++b) add_block(p, p.block[b], lam + p.block[b].row, y);
}
// w = G (G' lam) + R lam + b; y: scratch, G' lam on return.  b: null for none
template <class S>
FB_FN void row_velocities(const WorldRows<S>& p, const S* lam, const S* b, S* y, S* w) {
  sum_rows(p, lam, y);
  for (int i = 0; i < p.nblock; ++i) {
    const RowBlock& k = p.block[i];
    block_times(p, k, y, w + k.row);
    for (int r = k.row; r < k.row + k.rows; ++r)
      w[r] = mul_add(p.R[r], lam[r], b ? w[r] + b[r] : w[r]);
  }
}

// D and the scale
template <class S>
FB_FN void prepare_world(WorldRows<S>& p) {
  using R = Real<S>;
  p.scale = R(0);
  for (int i = 0; i < p.nblock; ++i) {
    const RowBlock& k = p.block[i];
    for (int e = 0; e < k.rows; ++e) {
      const S* g = p.row_of(k, e);
      const S d = dot_run(g, g, k.ndof) + p.R[k.row + e];
      p.D[k.row + e] = select(d > S(0), d, S(1));
      p.scale = max(p.scale, primal(abs(p.b[k.row + e])));
    }
    if (!k.cone || p.box) continue;
    S &a = p.D[k.row + 1], &c = p.D[k.row + 2];
    const S half = (a - c) * R(0.5), o = dot_run(p.row_of(k, 1), p.row_of(k, 2), k.ndof);
    a = c = (a + c) * R(0.5) + sqrt(dot2(half, half, o, o));
  }
}

// lam taken to its bounds; tangents to the disc or box of the normal
template <class S>
FB_FN void project_block(const WorldRows<S>& p, const RowBlock& k, S normal, S* lam) {
  if (!k.cone) {
    for (int i = 0; i < k.rows; ++i) lam[i] = clamp(lam[i], p.lo[k.row + i], p.hi[k.row + i]);
    return;
  }
  lam[0] = clamp(lam[0], p.lo[k.row], p.hi[k.row]);
  const S radius = p.mu[k.row] * normal;
  if (p.box) {
    lam[1] = clamp(lam[1], -radius, radius);
    lam[2] = clamp(lam[2], -radius, radius);
    return;
  }
  const S n2 = dot2(lam[1], lam[1], lam[2], lam[2]);
  if (!(n2 > radius * radius)) return;
  const S f = radius / sqrt(n2);
  lam[1] = lam[1] * f;
  lam[2] = lam[2] * f;
}
template <class S>
FB_FN void project_world(const WorldRows<S>& p, const S* lam, S* out) {
  for (int r = 0; r < p.nrow; ++r) out[r] = lam[r];
  for (int i = 0; i < p.nblock; ++i) {
    const RowBlock& k = p.block[i];
    project_block(p, k, clamp(out[k.row], p.lo[k.row], p.hi[k.row]), out + k.row);
  }
}
// the largest D |lam - P(lam - w / D)|; loads: the largest D |lam|, whose rounding is its floor
template <class S>
FB_FN Real<S> world_residual(const WorldRows<S>& p, const S* lam, const S* w, Real<S>& loads) {
  Real<S> worst(0);
  loads = Real<S>(0);
  for (int i = 0; i < p.nblock; ++i) {
    const RowBlock& k = p.block[i];
    S x[3];
    for (int e = 0; e < k.rows; ++e) x[e] = lam[k.row + e] - w[k.row + e] / p.D[k.row + e];
    project_block(p, k, lam[k.row], x);
    for (int e = 0; e < k.rows; ++e) {
      const Real<S> now = primal(abs(x[e] - lam[k.row + e]) * p.D[k.row + e]);
      worst = now > worst || !(now == now) ? now : worst;
      loads = max(loads, primal(abs(lam[k.row + e]) * p.D[k.row + e]));
    }
  }
  return worst;
}
template <class S>
FB_INLINE bool is_solved(const WorldRows<S>& p, Real<S> residual, Real<S> loads) {
  const Real<S> rounding = Real<S>(8 * 2.2e-16) * loads, goal = p.tolerance * p.scale;
  return residual <= (goal > rounding ? goal : rounding);
}

// ---- the linear systems: H = 1 + G' C G for a law dlam = -C du + h

// C of one block: 3 x 3 for a contact, else a diagonal
template <class S>
struct BlockLaw {
  S C[3][3];
};
// a contact's law in its own frame: dlam_n = -kn du_n, dlam_e = -ke du_e + ct dlam_n,
// dlam_p = -kp du_p, with e along the friction and p across
template <class S>
FB_INLINE BlockLaw<S> cone_law(S kn, S ke, S kp, S ct, S e1, S e2) {
  const S turn = ct * kn, off = (ke - kp) * e1 * e2;
  return {{{kn, S(0), S(0)},
           {turn * e1, ke * e1 * e1 + kp * e2 * e2, off},
           {turn * e2, off, ke * e2 * e2 + kp * e1 * e1}}};
}

// first entries of the rows of H: every block joins its dofs
template <class S>
FB_FN void envelope_of(const WorldRows<S>& p, Envelope<S>& H) {
  H.n = p.ndof;
  for (int d = 0; d < p.ndof; ++d) H.first[d] = d;
  for (int i = 0; i < p.nblock; ++i) {
    const RowBlock& k = p.block[i];
    const int least = p.dof[k.dof];
    for (int c = 1; c < k.ndof; ++c) {
      int& first = H.first[p.dof[k.dof + c]];
      first = least < first ? least : first;
    }
  }
  layout_envelope(H);
}
// H += G' C G of a block
template <class S>
FB_FN void add_law(const WorldRows<S>& p, const RowBlock& k, const BlockLaw<S>& law,
                   const Envelope<S>& H) {
  const int *dof = p.dof + k.dof, n = k.ndof;
  for (int c = 0; c < n; ++c) {
    // x = row c of G' C
    S x[3], z[3];
    for (int j = 0; j < k.rows; ++j) {
      x[j] = z[j] = S(0);
      for (int i = 0; i < k.rows; ++i) {
        x[j] = mul_add(p.row_of(k, i)[c], law.C[i][j], x[j]);
        z[j] = mul_add(law.C[j][i], p.row_of(k, i)[c], z[j]);
      }
    }
    const int d = dof[c];
    S *lower = H.lower_row(d) - H.first[d], *upper = H.upper_column(d) - H.first[d];
    for (int j = 0; j < k.rows; ++j) {
      const S* g = p.row_of(k, j);
      for (int i = 0; i < c; ++i) {
        lower[dof[i]] = mul_add(x[j], g[i], lower[dof[i]]);
        upper[dof[i]] = mul_add(z[j], g[i], upper[dof[i]]);
      }
      H.diagonal[d] = mul_add(x[j], g[c], H.diagonal[d]);
    }
  }
}
template <class S>
FB_FN void factor_law(const WorldRows<S>& p, const BlockLaw<S>* law, const Envelope<S>& H) {
  clear_envelope(H);
  for (int i = 0; i < p.nblock; ++i) add_law(p, p.block[i], law[i], H);
  factor_envelope(H);
}
// (V.2)  dlam = h - C G dy with H dy = G' h; h in, dlam out; y: scratch of the dofs
template <class S>
FB_FN void solve_law(const WorldRows<S>& p, const BlockLaw<S>* law, const Envelope<S>& H, S* h,
                     S* y) {
  sum_rows(p, h, y);
  solve_envelope(H, y);
  for (int b = 0; b < p.nblock; ++b) {
    const RowBlock& k = p.block[b];
    S u[3];
    block_times(p, k, y, u);
    for (int i = 0; i < k.rows; ++i)
      for (int j = 0; j < k.rows; ++j) h[k.row + i] = sub_mul(h[k.row + i], law[b].C[i][j], u[j]);
  }
}

}  // namespace fb::FB_ISA
