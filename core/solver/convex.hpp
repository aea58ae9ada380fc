// Newton's method with a line search for one world whose discs of friction keep their radii: the motion
// y = G' lam of its rows is the least of a convex function.  Machine numbers only.
// Proof: docs/derivations/worlds.md.
#pragma once
#include "core/solver/convex_line.hpp"

namespace fb::FB_ISA {

// at most so many steps at the first radii, at later ones, sets of radii, and factorisations before another
// set is tried
inline constexpr int kFirstSteps = 20, kConvexSteps = 25, kRadii = 20, kConvexFactors = 60,
                     kEndSteps = 2;
inline constexpr double kNear = 1e-4, kFar = 9, kWild = 5, kWildShare = 0.15, kMissed = 10;

// arrays of rows: velocities, their change along a step, reciprocal compliances, radii at the normals and at
// the first rows of rims beside them, and whether a row is held, and where
template <class S>
struct ConvexScratch {
  S *u, *du, *yield, *radius, *state;
  S *found, *found_before, *step;  // radii found, those before them, and what they differed by
  LineScratch<S> line;
};

template <class S>
struct ConvexNewton {
  const WorldRows<S>& p;
  WorldScratch<S>& s;
  ConvexScratch<S> x;

  // rows of a block that have bounds of their own, and those that have the radius
  FB_INLINE int alone(const RowBlock& k) const {
    return k.cone ? (k.cone == kContactBlock ? 1 : 0) : k.rows;
  }
  FB_INLINE S low(const RowBlock& k, int i) const {
    return i < alone(k) ? p.lo[k.row + i] : -x.radius[radius_at(k, i)];
  }
  FB_INLINE S high(const RowBlock& k, int i) const {
    return i < alone(k) ? p.hi[k.row + i] : x.radius[radius_at(k, i)];
  }
  // where the radius of row i of a block stands
  FB_INLINE int radius_at(const RowBlock& k, int i) const {
    return k.cone == kRimBlock ? k.row + i : k.row;
  }
  // whether the second and third row of a block are a disc, and its radius
  FB_INLINE bool is_disc(const RowBlock& k) const { return k.cone && !p.box && k.rows == 3; }
  FB_INLINE S disc_radius(const RowBlock& k) const { return x.radius[radius_at(k, 1)]; }

  // (F.2)  the length of the step dy, du = G dy, at which the slope is next to none
  FB_FN S length(const S* y, const S* dy) const {
    ConvexLine<S> line{x.line};
    for (int b = 0; b < p.nblock; ++b) {
      const RowBlock& k = p.block[b];
      const bool disc = is_disc(k);
      for (int i = 0; i < (disc ? 1 : k.rows); ++i) {
        const int r = k.row + i;
        line.add_row(x.u[r], x.du[r], x.yield[r], low(k, i), high(k, i));
      }
      const int t = k.row + 1;
      if (disc) line.add_disc(x.u + t, x.du + t, x.yield[t], disc_radius(k));
    }
    line.fill();
    const S yd = dot_panels(y, dy, p.ndof);
    S first = yd;
    for (int r = 0; r < p.nrow; ++r) first = sub_mul(first, x.du[r], s.lam[r]);
    return line.length(yd, dot_panels(dy, dy, p.ndof), first);
  }

  // the impulse of row i of a block at its velocity; true where it is held, or free, as it was before
  FB_INLINE bool row_law(const RowBlock& k, int i, S* lam, BlockLaw<S>& law) const {
    const int r = k.row + i;
    const S v = -x.u[r] * x.yield[r], lo = low(k, i), hi = high(k, i);
    const bool free = v > lo && v < hi;
    lam[r] = clamp(v, lo, hi);
    law.C[i][i] = free ? x.yield[r] : S(0);
    return is_state(r, free ? S(0) : v > lo ? S(1) : S(-1));
  }
  FB_INLINE bool is_state(int r, S now) const {
    const bool same = x.state[r] == now;
    x.state[r] = now;
    return same;
  }
  // (F.1)  impulses at the velocities u, and the law linearised there
  FB_INLINE bool linearise(const RowBlock& k, S* lam, BlockLaw<S>& law) const {
    for (auto& row : law.C)
      for (S& c : row) c = S(0);
    const bool disc = is_disc(k);
    bool same = true;
    for (int i = 0; i < (disc ? 1 : k.rows); ++i) same = row_law(k, i, lam, law) && same;
    if (!disc) return same;
    const int r = k.row;
    const S c = x.yield[r + 1], v1 = -x.u[r + 1] * c, v2 = -x.u[r + 2] * c, radius = disc_radius(k);
    const S n2 = dot2(v1, v1, v2, v2);
    const bool slides = n2 > radius * radius;
    const S inv = slides ? S(1) / sqrt(n2) : S(1), e1 = v1 * inv, e2 = v2 * inv;
    const S f = radius * inv * c;
    lam[r + 1] = slides ? radius * e1 : v1;
    lam[r + 2] = slides ? radius * e2 : v2;
    law.C[1][1] = slides ? f * e2 * e2 : c;
    law.C[2][2] = slides ? f * e1 * e1 : c;
    law.C[1][2] = law.C[2][1] = slides ? -(f * e1 * e2) : S(0);
    return is_state(r + 1, slides ? S(1) : S(0)) && same;
  }
  // velocities u at y = s.y2
  FB_FN void find_velocities() const {
    for (int b = 0; b < p.nblock; ++b) {
      const RowBlock& k = p.block[b];
      block_times(p, k, s.y2, x.u + k.row);
      for (int r = k.row; r < k.row + k.rows; ++r) x.u[r] += p.b[r];
    }
  }
  // impulses, laws and states at u; first: contacts that are pressed stick from here on
  FB_FN bool look(bool first) const {
    bool same = true;
    for (int b = 0; b < p.nblock; ++b) {
      const RowBlock& k = p.block[b];
      if (first && k.cone == kContactBlock && x.u[k.row] < S(0)) set_radii(k.row, S(1e29));
      same = linearise(k, s.lam, s.law[b]) && same;
    }
    return same;
  }
  // of the tangents of the contact at r and of the rims beside them
  FB_INLINE void set_radii(int r, S radius) const {
    x.radius[r] = radius;
    for (int e = 3; e < 3 + p.rims[r]; ++e) x.radius[r + e] = radius;
  }
  // dy = H^-1 (G' lam - y)
  FB_FN void newton_direction(WorldOutcome& out) const {
    factor_law<true>(p, s.law, s.cross, s.H);
    out.exact = false;
    ++out.factorisations;
    sum_rows(p, s.lam, s.y);
    for (int d = 0; d < p.ndof; ++d) s.y[d] -= s.y2[d];
    solve_envelope(s.H, s.y);
  }

  // whether the factors at hand are those of the exact law too: no contact that is pressed slides
  FB_FN bool sticks() const {
    for (int b = 0; b < p.nblock; ++b) {
      const RowBlock& k = p.block[b];
      if (!k.cone || !(x.state[p.normal_of(k)] == S(0))) continue;
      for (int i = alone(k); i < k.rows; ++i)
        if (!(is_disc(k) && i == 2) && !(x.state[k.row + i] == S(0))) return false;
    }
    return true;
  }
  // (F.3)  y = s.y2 to the least of the function, impulses in s.lam; false where the steps do not end.  first:
  // the states are those of the start, which was a whole step
  FB_FN bool minimise(WorldOutcome& out, int most, bool first) const {
    bool whole = first;
    for (int r = 0; r < p.nrow && !first; ++r) x.state[r] = S(2);
    find_velocities();
    for (int step = 0;; ++step) {
      if (look(first) && whole) {
        out.exact = sticks();
        return true;
      }
      if (step == most) return false;
      newton_direction(out);
      for (int b = 0; b < p.nblock; ++b) block_times(p, p.block[b], s.y, x.du + p.block[b].row);
      S a = length(s.y2, s.y);
      whole = abs(a - S(1)) < S(1e-6);
      a = whole ? S(1) : a;
      for (int d = 0; d < p.ndof; ++d) s.y2[d] = mul_add(a, s.y[d], s.y2[d]);
      for (int r = 0; r < p.nrow; ++r) x.u[r] = mul_add(a, x.du[r], x.u[r]);
    }
  }
  // the motion of a world whose rows all stick, but for contacts and limits that open
  FB_FN void start(WorldOutcome& out) const {
    for (int b = 0; b < p.nblock; ++b) {
      const RowBlock& k = p.block[b];
      for (auto& row : s.law[b].C)
        for (S& c : row) c = S(0);
      for (int i = 0; i < k.rows; ++i) {
        const int r = k.row + i, first = k.cone ? p.normal_of(k) : r;
        const bool opens = !is_bound(p.hi[first]) && is_bound(p.lo[first]) && !(p.b[first] < S(0));
        s.law[b].C[i][i] = opens || is_fixed(p, r) ? S(0) : x.yield[r];
        s.lam[r] = is_fixed(p, r) ? p.lo[r] : -p.b[r] * s.law[b].C[i][i];
        x.state[r] = !opens ? S(0) : r == first ? S(-1) : S(1);
        if (k.cone && opens) x.radius[r] = S(0);
      }
    }
    clear_dofs(p, s.y2);
    newton_direction(out);
    for (int d = 0; d < p.ndof; ++d) s.y2[d] = s.y[d];
  }

  // radii of the impulses; the largest of them and the largest change of one, velocities; true where no
  // tangents are beyond them.  miss: the largest change of one that is slid on
  FB_FN bool find_radii(S& largest, S& change, S& miss) const {
    bool within = true;
    largest = change = miss = S(0);
    const auto see = [&](int r, S radius, S D, bool slides) {
      const S apart = abs(radius - x.radius[r]) * D;
      largest = max(largest, radius * D);
      change = max(change, apart);
      miss = slides ? max(miss, apart) : miss;
      x.found[r] = radius;
    };
    for (int b = 0; b < p.nblock; ++b) {
      const int r = p.block[b].row;
      if (p.block[b].cone != kContactBlock) continue;
      const S radius = p.mu[r] * max(s.lam[r], S(0)), t1 = s.lam[r + 1], t2 = s.lam[r + 2];
      const S most = radius + S(1e-9) * p.scale / p.D[r + 1];
      within = within && !(dot2(t1, t1, t2, t2) > most * most);
      see(r, radius, p.D[r + 1], !(x.state[r + 1] == S(0)) || (p.box && !(x.state[r + 2] == S(0))));
    }
    for_rim_blocks([&](const Rim& m) {
      const int r = m.first;
      const S radius = p.mu[r] * max(s.lam[m.normal], S(0)), t1 = s.lam[r];
      const S t2 = m.n == 2 ? s.lam[r + 1] : S(0), most = radius + S(1e-9) * p.scale / p.D[r];
      within = within && !(dot2(t1, t1, t2, t2) > most * most);
      see(r, radius, p.D[r], !(x.state[r] == S(0)));
    });
    return within;
  }
  // visit all rims beside tangents
  template <class F>
  FB_INLINE void for_rim_blocks(F&& visit) const {
    for (int b = 0; b < p.nblock && p.nrim > 0; ++b)
      if (p.block[b].cone == kRimBlock) p.for_rims_beside(p.block[b].row - 3, visit);
  }
  // (F.6)  the next radii: what the last two sets and those found from them say of a map that is linear
  FB_FN void next_radii(bool both) const {
    S top(0), bottom(0);
    const auto see = [&](int r, S D) {
      const S now = (x.found[r] - x.radius[r]) * D, less = now - x.step[r];
      top = mul_add(now, less, top);
      bottom = mul_add(less, less, bottom);
      x.step[r] = now;
    };
    for (int b = 0; b < p.nblock; ++b)
      if (p.block[b].cone == kContactBlock) see(p.block[b].row, p.D[p.block[b].row + 1]);
    for_rim_blocks([&](const Rim& m) { see(m.first, p.D[m.first]); });
    const S share = both && bottom > S(0) ? clamp(top / bottom, S(-kFar), S(0.5)) : S(0);
    const auto set = [&](int r) {
      const S next = x.found[r] - share * (x.found[r] - x.found_before[r]);
      x.found_before[r] = x.found[r];
      x.radius[r] = max(next, S(0));
    };
    for (int b = 0; b < p.nblock; ++b)
      if (p.block[b].cone == kContactBlock) set(p.block[b].row);
    for_rim_blocks([&](const Rim& m) { set(m.first); });
  }
  // (F.5)  the exact law of a contact that slides, against its slip
  FB_INLINE void sliding_law(const RowBlock& k, BlockLaw<S>& law, S* h) const {
    const int r = k.row;
    const S t1 = s.lam[r + 1], t2 = s.lam[r + 2], size = sqrt(dot2(t1, t1, t2, t2));
    const S w1 = s.w[r + 1], w2 = s.w[r + 2], slip = sqrt(dot2(w1, w1, w2, w2));
    const bool slips = dot2(t1, w1, t2, w2) < S(0);
    const S inv = slips ? S(-1) / slip : size > S(0) ? S(1) / size : S(0);
    const S e1 = slips ? w1 * inv : size > S(0) ? t1 * inv : S(1), e2 = (slips ? w2 : t2) * inv;
    const S mu = p.mu[r], den = slip + size * p.soft(r + 1);
    law = cone_law(law.C[0][0], S(0), size / den, mu, e1, e2);
    const S along = mu * (s.lam[r] + h[0]) - dot2(t1, e1, t2, e2);
    const S across = (e2 * t1 - e1 * t2) * slip / den;
    h[1] = along * e1 - across * e2;
    h[2] = along * e2 + across * e1;
  }
  // the law of a block in which every row keeps the state of the convex solution
  FB_INLINE void state_law(const RowBlock& k, BlockLaw<S>& law, S* h) const {
    const int r = k.row;
    for (auto& row : law.C)
      for (S& c : row) c = S(0);
    for (int i = 0; i < k.rows; ++i) {
      const bool free = x.state[r + (is_disc(k) && i == 2 ? 1 : i)] == S(0);
      law.C[i][i] = free ? x.yield[r + i] : S(0);
      h[i] = free ? -(s.w[r + i] * x.yield[r + i]) : S(0);
    }
    if (!k.cone) return;
    const bool open = !(law.C[0][0] > S(0));
    if (is_disc(k)) {
      if (!open && x.state[r + 1] == S(1)) return sliding_law(k, law, h);
    } else {
      for (int i = 1; i < 3 && !open; ++i) {
        if (x.state[r + i] == S(0)) continue;
        law.C[i][0] = x.state[r + i] * p.mu[r] * law.C[0][0];
        h[i] = x.state[r + i] * p.mu[r] * (s.lam[r] + h[0]) - s.lam[r + i];
      }
    }
    for (int i = 1; i < 3 && open; ++i) {
      law.C[i][i] = S(0);
      h[i] = -s.lam[r + i];
    }
  }
  // the same of the rims of block b, after the block of their normal
  FB_INLINE void rim_state_law(int b) const {
    const RowBlock& k = p.block[b];
    const int n = k.row - 3;
    const S kn = s.law[b - 1].C[0][0], carried = s.lam[n] + s.h[n];
    clear_rims(k, s.law[b], s.cross);
    p.for_rims_beside(n, [&](const Rim& m) {
      const int r = m.first, i = r - k.row;
      const S t1 = s.lam[r], t2 = m.n == 2 ? s.lam[r + 1] : S(0), size = sqrt(dot2(t1, t1, t2, t2));
      const S e[2] = {size > S(0) ? t1 / size : S(1), size > S(0) ? t2 / size : S(0)};
      const bool sticks = x.state[r] == S(0), open = !(kn > S(0));
      for (int a = 0; a < m.n; ++a) {
        s.law[b].C[i + a][i + a] = sticks && !open ? x.yield[r + a] : S(0);
        s.cross[r + a] = sticks || open ? S(0) : p.mu[r] * e[a] * kn;
        s.h[r + a] = open     ? -s.lam[r + a]
                     : sticks ? -(s.w[r + a] * x.yield[r + a])
                              : (p.mu[r] * carried - size) * e[a];
      }
      if (sticks || open || m.n == 1) return;
      const S slip = sqrt(dot2(s.w[r], s.w[r], s.w[r + 1], s.w[r + 1]));
      const S turn = size / (slip + size * p.soft(r)), across[2] = {-e[1], e[0]};
      for (int a = 0; a < 2; ++a)
        for (int c = 0; c < 2; ++c) s.law[b].C[i + a][i + c] = turn * across[a] * across[c];
    });
  }
  // steps of the exact law from s.lam, every row in the state that it has
  FB_FN bool end(WorldOutcome& out, int most) const {
    for (int k = 0; k < most; ++k) {
      const S before = out.residual;
      row_velocities(p, s.lam, p.b, s.y, s.w);
      for (int b = 0; b < p.nblock; ++b)
        if (p.block[b].cone == kRimBlock)
          rim_state_law(b);
        else
          state_law(p.block[b], s.law[b], s.h + p.block[b].row);
      factor_law(p, s.law, s.cross, s.H);
      solve_law(p, s.law, s.cross, s.H, s.h, s.y, s.w);
      for (int r = 0; r < p.nrow; ++r) s.lam[r] += s.h[r];
      ++out.factorisations;
      if (world_done(p, s, out.residual)) return true;
      if (!(out.residual < before)) return false;
    }
    return false;
  }
  // a Newton step of the exact law, which looks for states anew, then those that keep them
  FB_FN bool ends(WorldOutcome& out, bool near) const {
    for (int r = 0; r < p.nrow; ++r) x.u[r] = s.lam[r];
    row_velocities(p, s.lam, p.b, s.y, s.w);
    newton_world(p, s, S(1), !out.exact);
    out.factorisations += out.exact ? 0 : 1;
    out.exact = true;
    if (world_done(p, s, out.residual)) return true;
    if (!near) return false;
    for (int r = 0; r < p.nrow; ++r) s.lam[r] = x.u[r];
    world_done(p, s, out.residual);
    return end(out, kEndSteps);
  }
  // whether radii that changed by so much are not going to settle
  FB_INLINE bool is_astray(int k, S largest, S change, S last) const {
    if (k < 2) return k == 1 && change > S(kWild) * p.scale && change > S(kWildShare) * largest;
    return change > S(k == 2 ? 0.5 : 0.9) * last;
  }
  // (F.4)  the solution in s.best with its velocities in s.w; false where the radii do not settle
  FB_FN bool solve(WorldOutcome& out) const {
    for (int r = 0; r < p.nrow; ++r) {
      x.yield[r] = S(1) / p.soft(r);
      x.radius[r] = S(1e29);
      x.found_before[r] = x.step[r] = S(0);
    }
    const int before = out.factorisations;
    start(out);
    S last(1e300);
    for (int k = 0; k < kRadii && out.factorisations < before + kConvexFactors; ++k) {
      if (!minimise(out, k == 0 ? kFirstSteps : kConvexSteps, k == 0) && k > 0) return false;
      S largest, change, miss;
      const bool within = find_radii(largest, change, miss);
      if (k > 0 || within) {
        // what a radius that is slid on has changed by is left by the exact law
        const bool slides = miss > S(kMissed) * p.tolerance * p.scale;
        if (!slides && world_done(p, s, out.residual)) return true;
        const bool near = change < S(kNear) * p.scale;
        if ((near || k < 2) && ends(out, near)) return true;
        const S size = dot_panels(s.y2, s.y2, p.ndof);
        if (!(size == size) || is_astray(k, largest, change, last)) return false;
        last = change;
      }
      next_radii(k > 1);
    }
    return false;
  }
};

}  // namespace fb::FB_ISA
