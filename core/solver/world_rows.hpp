// The row problem of one world in the dofs that its rows move: A = G G' + R is never formed.  What
// the lanes' dense solver does not finish, or is not meant for, is solved here.
// Proof: docs/derivations/worlds.md.
#pragma once
#include "core/solver/envelope.hpp"
#include "core/solver/problem.hpp"

namespace fb::FB_ISA {

// what the rows of a block are: rows with bounds, a normal and two tangents, or the rims of the contact
// block before them
enum BlockKind : int { kBoundedBlock, kContactBlock, kRimBlock };
// a run of rows that the same dofs move
struct RowBlock {
  int row, rows, cone;  // first row, how many; cone: a BlockKind
  int run, nrun;        // its dofs, in runs from `run` on in WorldRows::run
  int value, width;     // rows x width numbers from here on in WorldRows::G
};
// consecutive dofs, runs ascending, each a whole number of panels: a row of G has zeros at the dofs that do
// not move it
struct DofRun {
  int dof, count;
};

// one or two rows whose impulse is at most mu[first] times that of the normal: turning about it, rolling
struct Rim {
  int normal, first, n;
};

template <class S>
struct WorldRows {
  int nrow, ndof, nblock, nrim;  // nrim: blocks of rims
  RowBlock* block;
  int* rims;  // at a normal: the rows of the rims that follow its tangents, 0, 1 or 3
  DofRun* run;
  S* G;
  S *b, *lo, *hi, *mu, *R;
  S* before;      // velocities at which the step begins, with the same terms as b
  S* W;           // inverse weights, which the products of the smooth law are measured by
  S* D;           // diagonal of A; for the tangents of a cone the larger eigenvalue of their block
  Real<S> scale;  // largest |b|
  Real<S> tolerance;  // of the residual, relative to scale
  Real<S> smoothing;  // a velocity; zero for the exact law
  bool box;           // each tangent by itself

  FB_INLINE const S* row_of(const RowBlock& k, int i) const { return G + k.value + i * k.width; }
  // compliance in linearised laws, where next to none would be more than a pivot can hold
  FB_INLINE S soft(int r) const { return max(R[r], D[r] * Real<S>(1e-11)); }
  FB_INLINE int first_panel(const RowBlock& k) const { return run[k.run].dof / kPanel<S>; }
  // the row whose impulse is the measure of a block's radii
  FB_INLINE int normal_of(const RowBlock& k) const {
    return k.cone == kRimBlock ? k.row - 3 : k.row;
  }
  // (V.10)  visit the rims beside the tangents of the contact at r: one that turns, a disc that rolls, which is
  // two segments where friction is a box
  template <class F>
  FB_INLINE void for_rims_beside(int r, F&& visit) const {
    if (rims[r] == 0) return;
    visit(Rim{r, r + 3, 1});
    if (rims[r] == 1) return;
    if (!box) return visit(Rim{r, r + 4, 2});
    visit(Rim{r, r + 4, 1});
    visit(Rim{r, r + 5, 1});
  }
  // visit(dof, column) at every panel of a block's columns
  template <class F>
  FB_INLINE void for_panels(const RowBlock& k, F&& visit) const {
    int column = 0;
    for (int e = k.run; e < k.run + k.nrun; ++e)
      for (int c = 0; c < run[e].count; c += kPanel<S>, column += kPanel<S>)
        visit(run[e].dof + c, column);
  }
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

// visit(rows) with the number of a block's rows as a constant
template <class F>
FB_INLINE void with_rows_of(const RowBlock& k, F&& visit) {
  if (k.rows == 1) return visit(std::integral_constant<int, 1>());
  if (k.rows == 2) return visit(std::integral_constant<int, 2>());
  visit(std::integral_constant<int, 3>());
}
// u = G y of a block
template <class S>
FB_INLINE void block_times(const WorldRows<S>& p, const RowBlock& k, const S* y, S* u) {
  with_rows_of(k, [&](auto rows) {
    constexpr int n = decltype(rows)::value;
    Panel<S> sum[n];
    for (int i = 0; i < n; ++i) sum[i] = Panel<S>(Real<S>(0));
    p.for_panels(k, [&](int d, int c) {
      const Panel<S> x = panel_at(y + d);
      for (int i = 0; i < n; ++i) sum[i] = mul_add(panel_at(p.row_of(k, i) + c), x, sum[i]);
    });
    for (int i = 0; i < n; ++i) u[i] = sum_of_panel<S>(sum[i]);
  });
}
// y += G' lam of a block
template <class S>
FB_INLINE void add_block(const WorldRows<S>& p, const RowBlock& k, const S* lam, S* y) {
  with_rows_of(k, [&](auto rows) {
    constexpr int n = decltype(rows)::value;
    Panel<S> by[n];
    for (int i = 0; i < n; ++i) by[i] = Panel<S>(lam[i]);
    p.for_panels(k, [&](int d, int c) {
      Panel<S> x = panel_at(y + d);
      for (int i = 0; i < n; ++i) x = mul_add(panel_at(p.row_of(k, i) + c), by[i], x);
      put_panel(x, y + d);
    });
  });
}
template <class S>
FB_INLINE void clear_dofs(const WorldRows<S>& p, S* y) {
  for (int d = 0; d < p.ndof; ++d) y[d] = S(0);
}
template <class S>
FB_FN void sum_rows(const WorldRows<S>& p, const S* lam, S* y) {
  clear_dofs(p, y);
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

// D and the scale, which no row has a part in that the free motion leaves open
template <class S>
FB_FN void prepare_world(WorldRows<S>& p) {
  using R = Real<S>;
  p.scale = R(0);
  for (int i = 0; i < p.nblock; ++i) {
    const RowBlock& k = p.block[i];
    for (int e = 0; e < k.rows; ++e) {
      const S* g = p.row_of(k, e);
      const S d = dot_panels(g, g, k.width) + p.R[k.row + e];
      p.D[k.row + e] = select(d > S(0), d, S(1));
      if (!opens_freely(p.b[k.row + e], p.lo[k.row + e], p.hi[k.row + e]))
        p.scale = max(p.scale, primal(abs(p.b[k.row + e])));
    }
    if (!k.cone || p.box) continue;
    if (k.cone == kRimBlock) {
      // the trace of the rolling pair: no less than the larger eigenvalue, and smooth where both are one
      if (k.rows == 3) p.D[k.row + 1] = p.D[k.row + 2] = p.D[k.row + 1] + p.D[k.row + 2];
      continue;
    }
    S &a = p.D[k.row + 1], &c = p.D[k.row + 2];
    const S half = (a - c) * R(0.5), o = dot_panels(p.row_of(k, 1), p.row_of(k, 2), k.width);
    a = c = (a + c) * R(0.5) + sqrt(dot2(half, half, o, o));
  }
}

// the rows of one rim taken to its disc or segment
template <class S>
FB_INLINE void project_rim(const WorldRows<S>& p, const Rim& m, S normal, S* lam) {
  const S radius = p.mu[m.first] * normal;
  if (m.n == 1) {
    lam[0] = clamp(lam[0], -radius, radius);
    return;
  }
  const S n2 = dot2(lam[0], lam[0], lam[1], lam[1]);
  if (!(n2 > radius * radius)) return;
  const S f = radius / sqrt(n2);
  lam[0] = lam[0] * f;
  lam[1] = lam[1] * f;
}
// lam taken to its bounds; tangents and rims to the discs or boxes of the normal
template <class S>
FB_FN void project_block(const WorldRows<S>& p, const RowBlock& k, S normal, S* lam) {
  if (k.cone == kRimBlock)
    return p.for_rims_beside(
        k.row - 3, [&](const Rim& m) { project_rim(p, m, normal, lam + (m.first - k.row)); });
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
    const int n = p.normal_of(k);
    project_block(p, k, clamp(out[n], p.lo[n], p.hi[n]), out + k.row);
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
    project_block(p, k, lam[p.normal_of(k)], x);
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

// C of one block: 3 x 3 for a contact and for rims, else a diagonal
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

// rims that answer to nothing
template <class S>
FB_INLINE void clear_rims(const RowBlock& k, BlockLaw<S>& law, S* cross) {
  for (auto& row : law.C)
    for (S& x : row) x = S(0);
  for (int r = k.row; r < k.row + k.rows; ++r) cross[r] = S(0);
}

// first entries of the panels of H: every block joins its dofs
template <class S>
FB_FN void envelope_of(const WorldRows<S>& p, Envelope<S>& H) {
  H.n = p.ndof;
  for (int I = 0; I < H.panels(); ++I) H.first[I] = I;
  for (int i = 0; i < p.nblock; ++i) {
    const RowBlock& k = p.block[i];
    const int least = p.first_panel(k);
    p.for_panels(k, [&](int d, int) {
      int& first = H.first[d / kPanel<S>];
      first = least < first ? least : first;
    });
  }
  layout_envelope(H);
}
// C of a block times a panel of columns of its rows, and C' times them
template <int Rows, bool kSymmetric, class S>
FB_INLINE void law_products(const RowBlock& k, const BlockLaw<S>& law, const S* g,
                            S (&x)[Rows][kPanel<S>], S (&z)[Rows][kPanel<S>]) {
  const auto& C = law.C;
  Panel<S> v[Rows];
  for (int i = 0; i < Rows; ++i) v[i] = panel_at(g + i * k.width);
  for (int i = 0; i < Rows; ++i) {
    Panel<S> left = Panel<S>(C[i][i]) * v[i], right = left;
    if (Rows == 3 && k.cone)
      for (int j = 0; j < Rows; ++j) {
        if (j == i) continue;
        left = mul_add(Panel<S>(C[i][j]), v[j], left);
        if constexpr (!kSymmetric) right = mul_add(Panel<S>(C[j][i]), v[j], right);
      }
    put_panel(left, x[i]);
    if constexpr (!kSymmetric) put_panel(right, z[i]);
  }
}
// a panel of columns of H += G' x, x one number a row and column
template <int Rows, class S>
FB_INLINE void add_products(const S* G, int width, const S (&x)[Rows][kPanel<S>], S* out) {
  constexpr int W = kPanel<S>;
  Panel<S> g[Rows], sum[W];
#pragma GCC unroll 4
  for (int i = 0; i < Rows; ++i) g[i] = panel_at(G + i * width);
#pragma GCC unroll 4
  for (int c = 0; c < W; ++c) {
    sum[c] = panel_at(out + c * W);
#pragma GCC unroll 4
    for (int i = 0; i < Rows; ++i) sum[c] = mul_add(g[i], Panel<S>(x[i][c]), sum[c]);
    put_panel(sum[c], out + c * W);
  }
}
// H += G' C G of a block: panel by panel of its columns, from the diagonal block down, and the rows beside
template <int Rows, bool kSymmetric, class S>
FB_FN void add_law(const WorldRows<S>& p, const RowBlock& k, const BlockLaw<S>& law,
                   const Envelope<S>& H) {
  constexpr int W = kPanel<S>;
  const S* G = p.G + k.value;
  const DofRun* end = p.run + k.run + k.nrun;
  for (const DofRun* run = p.run + k.run; run < end; ++run)
    for (int d = run->dof; d < run->dof + run->count; d += W, G += W) {
      S x[Rows][W], z[Rows][W];
      law_products<Rows, kSymmetric>(k, law, G, x, z);
      add_products<Rows>(G, k.width, x, H.block(d / W));
      const S* below = G + W;
      int at = d + W;
      for (const DofRun* rest = run;;) {
        for (; at < rest->dof + rest->count; at += W, below += W) {
          add_products<Rows>(below, k.width, x, H.lower_panel(at / W) + d * W);
          if constexpr (!kSymmetric)
            add_products<Rows>(below, k.width, z, H.upper_panel(at / W) + d * W);
        }
        if (++rest == end) break;
        at = rest->dof;
      }
    }
}
// whether no row of a block answers to any
template <class S>
FB_INLINE bool is_held(const RowBlock& k, const BlockLaw<S>& law) {
  if constexpr (kPanel<S> == 1) return false;
  for (int i = 0; i < k.rows; ++i)
    if (!(law.C[i][i] == S(0))) return false;
  return true;
}
template <bool kSymmetric, class S>
FB_INLINE void add_law(const WorldRows<S>& p, const RowBlock& k, const BlockLaw<S>& law,
                       const Envelope<S>& H) {
  with_rows_of(k, [&](auto rows) { add_law<decltype(rows)::value, kSymmetric>(p, k, law, H); });
}
// (V.11)  H += (sum_i cross_i G_i)' G_n: the rims of a block follow their normal n, whose rows have the same dofs
template <class S>
FB_FN void add_cross(const WorldRows<S>& p, const RowBlock& k, const S* cross,
                     const Envelope<S>& H) {
  constexpr int W = kPanel<S>;
  const S *G = p.G + k.value, *N = G - 3 * k.width;
  const auto carried = [&](const S* g, S(&x)[1][W]) {
    Panel<S> sum = Panel<S>(cross[0]) * panel_at(g);
    for (int i = 1; i < k.rows; ++i)
      sum = mul_add(Panel<S>(cross[i]), panel_at(g + i * k.width), sum);
    put_panel(sum, x[0]);
  };
  p.for_panels(k, [&](int d, int c) {
    S rim[1][W], normal[1][W];
    carried(G + c, rim);
    put_panel(panel_at(N + c), normal[0]);
    add_products<1>(rim[0], 0, normal, H.block(d / W));
    p.for_panels(k, [&](int at, int e) {
      if (at <= d) return;
      S below[1][W];
      carried(G + e, below);
      add_products<1>(below[0], 0, normal, H.lower_panel(at / W) + d * W);
      add_products<1>(N + e, 0, rim, H.upper_panel(at / W) + d * W);
    });
  });
}
// cross: how rims follow their normal's velocity, by row; read at blocks of rims only, and not where H is
// symmetric
template <bool kSymmetric = false, class S>
FB_FN void factor_law(const WorldRows<S>& p, const BlockLaw<S>* law, const S* cross,
                      const Envelope<S>& H) {
  clear_envelope<kSymmetric>(H);
  for (int i = 0; i < p.nblock; ++i)
    if (!is_held(p.block[i], law[i])) add_law<kSymmetric>(p, p.block[i], law[i], H);
  if constexpr (!kSymmetric)
    for (int i = 0; i < p.nblock && p.nrim > 0; ++i)
      if (p.block[i].cone == kRimBlock) add_cross(p, p.block[i], cross + p.block[i].row, H);
  factor_envelope<kSymmetric>(H);
}
// (V.2)  dlam = h - C G dy with H dy = G' h; h in, dlam out; u = G dy, the change of the velocities
// but for R dlam; y: scratch of the dofs
template <class S>
FB_FN void solve_law(const WorldRows<S>& p, const BlockLaw<S>* law, const S* cross,
                     const Envelope<S>& H, S* h, S* y, S* u) {
  sum_rows(p, h, y);
  solve_envelope(H, y);
  for (int b = 0; b < p.nblock; ++b) {
    const RowBlock& k = p.block[b];
    S* v = u + k.row;
    block_times(p, k, y, v);
    for (int i = 0; i < k.rows; ++i)
      for (int j = 0; j < k.rows; ++j) h[k.row + i] = sub_mul(h[k.row + i], law[b].C[i][j], v[j]);
    if (k.cone != kRimBlock) continue;
    for (int r = k.row; r < k.row + k.rows; ++r) h[r] = sub_mul(h[r], cross[r], u[k.row - 3]);
  }
}

}  // namespace fb::FB_ISA
