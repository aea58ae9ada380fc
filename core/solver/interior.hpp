// The interior point method for one world: follow lam_n w_n = eta g = k / D, w_t + eta a = 0 with
// a = lam_t / (mu lam_n), g = mu lam_n h, h = 1 - |a|^2 to k = 0, then end with Newton steps on the
// active set.  Machine numbers only.  Proof: docs/derivations/worlds.md.
#pragma once
#include "core/solver/world_newton.hpp"

namespace fb::FB_ISA {

// a point of the path, or a direction; arrays of rows.  A contact has a at its tangents, eta and h at
// its normal; a bounded row has its distances to the bounds and their multipliers
template <class S>
struct PathPoint {
  S *lam, *w, *a, *eta, *h, *lower, *upper, *z_lower, *z_upper;
};
// what a start tries: the size of the first impulses, the share of the longest step, how central
template <class S>
struct PathStart {
  S size, share, central;
};
template <class S>
struct PathScratch {
  PathPoint<S> now, next, predictor, corrector;
  S *miss, *g_dot;  // w - (A lam + b); change of g, of the predictor
  S* nearest;       // the impulses of the least residual so far
};

// cosine and sine to fourth order, made of unit length: a turn by about this angle, |x| <= 1
template <class S>
FB_INLINE S cos_small(S x) {
  const S t = x * S(0.5);
  return (S(1) - t * t) / (S(1) + t * t);
}
template <class S>
FB_INLINE S sin_small(S x) {
  const S t = x * S(0.5);
  return x / (S(1) + t * t);
}

template <class S>
struct InteriorPath {
  const WorldRows<S>& p;
  WorldScratch<S>& s;
  PathScratch<S>& x;

  FB_INLINE bool rubs(int r) const { return p.mu[r] > S(1e-10); }
  FB_INLINE bool has_lower(int r) const { return is_bound(p.lo[r]) && !is_fixed(p, r); }
  FB_INLINE bool has_upper(int r) const { return is_bound(p.hi[r]) && !is_fixed(p, r); }
  FB_INLINE S g_of(const PathPoint<S>& q, int r) const { return p.mu[r] * q.lam[r] * q.h[r]; }
  template <class Cone, class Bounded>
  FB_INLINE void for_parts(Cone&& cone, Bounded&& bounded) const {
    for (int b = 0; b < p.nblock; ++b) {
      const RowBlock& k = p.block[b];
      if (k.cone)
        cone(b, k.row);
      else
        for (int r = k.row; r < k.row + k.rows; ++r) bounded(b, r - k.row, r);
    }
  }

  // far inside, where all products are alike
  FB_FN void start(S size) const {
    const S V = p.scale;
    PathPoint<S>& q = x.now;
    for_parts(
        [&](int, int r) {
          q.lam[r] = size * V / p.D[r];
          q.w[r] = q.eta[r] = V;
          q.h[r] = S(1);
          for (int e = 1; e < 3; ++e) q.lam[r + e] = q.w[r + e] = q.a[r + e] = S(0);
        },
        [&](int, int, int r) {
          const bool low = has_lower(r), high = has_upper(r);
          const S far = size * V / p.D[r], half = (p.hi[r] - p.lo[r]) * S(0.5);
          q.lower[r] = low && high ? half : low ? far : S(1);
          q.upper[r] = low && high ? half : high ? far : S(1);
          q.lam[r] = low              ? p.lo[r] + q.lower[r]
                     : high           ? p.hi[r] - q.upper[r]
                     : is_fixed(p, r) ? p.lo[r]
                                      : S(0);
          q.z_lower[r] = low ? V : S(0);
          q.z_upper[r] = high ? V : S(0);
          q.w[r] = q.z_lower[r] - q.z_upper[r];
        });
  }

  // mean and least of the products
  FB_FN void products(const PathPoint<S>& q, S& mean, S& least) const {
    S sum(0);
    int count = 0;
    least = S(1e300);
    const auto see = [&](S v) {
      sum += v;
      least = v < least || !(v == v) ? v : least;
      ++count;
    };
    for_parts(
        [&](int, int r) {
          see(q.lam[r] * q.w[r] * p.D[r]);
          if (rubs(r)) see(q.eta[r] * g_of(q, r) * p.D[r]);
        },
        [&](int, int, int r) {
          if (has_lower(r)) see(q.lower[r] * q.z_lower[r] * p.D[r]);
          if (has_upper(r)) see(q.upper[r] * q.z_upper[r] * p.D[r]);
        });
    mean = count ? sum / S(count) : S(0);
    least = count ? least : S(0);
  }

  // (W.2)  the law linearised at the point
  FB_FN void linearise() const {
    const PathPoint<S>& q = x.now;
    for_parts(
        [&](int b, int r) {
          const S kn = q.lam[r] / (q.w[r] + q.lam[r] * p.R[r]);
          const S a1 = q.a[r + 1], a2 = q.a[r + 2], size2 = dot2(a1, a1, a2, a2);
          if (!rubs(r)) {
            s.law[b] = cone_law(kn, S(0), S(0), S(0), S(1), S(0));
            return;
          }
          const S size = sqrt(size2), inv = size > S(0) ? S(1) / size : S(0);
          const S e1 = size > S(0) ? a1 * inv : S(1), e2 = a2 * inv, g = g_of(q, r);
          const S t = q.eta[r] / (p.mu[r] * q.lam[r]);
          const S ke = S(1) / (t + S(2) * q.eta[r] * size2 / g + p.R[r + 1]);
          const S kp = S(1) / (t + p.R[r + 1]);
          const S ct = ke * q.eta[r] * size * (S(1) / q.lam[r] + p.mu[r] * (S(1) + size2) / g);
          s.law[b] = cone_law(kn, ke, kp, ct, e1, e2);
        },
        [&](int b, int i, int r) {
          if (i == 0)
            for (auto& row : s.law[b].C)
              for (S& v : row) v = S(0);
          s.law[b].C[i][i] =
              is_fixed(p, r)
                  ? S(0)
                  : S(1) / (q.z_lower[r] / q.lower[r] + q.z_upper[r] / q.upper[r] + p.R[r]);
        });
    factor_law(p, s.law, s.H);
  }

  // (W.3)  the right side of one contact towards products `aim`; f: the predictor, or null
  FB_INLINE void cone_side(int b, int r, S aim, const PathPoint<S>* f, S* h) const {
    const PathPoint<S>& q = x.now;
    S tn = aim / p.D[r] - q.lam[r] * q.w[r];
    if (f) tn -= f->lam[r] * f->w[r];
    h[0] = (q.lam[r] * x.miss[r] + tn) / (q.w[r] + q.lam[r] * p.R[r]);
    h[1] = h[2] = S(0);
    if (!rubs(r)) return;
    const S g = g_of(q, r);
    S tg = aim / p.D[r] - q.eta[r] * g, r2(0), side[2];
    if (f) tg -= f->eta[r] * x.g_dot[r];
    for (int e = 0; e < 2; ++e) side[e] = q.w[r + 1 + e] + q.eta[r] * q.a[r + 1 + e];
    if (f) {
      const S turn = f->eta[r] - q.eta[r] * f->lam[r] / q.lam[r];
      for (int e = 0; e < 2; ++e) {
        const S da = f->a[r + 1 + e];
        side[e] += turn * da;
        r2 += p.mu[r] * q.lam[r] * da * da;
      }
    }
    // C of the tangents maps a velocity to an impulse, whichever their frame
    const S push = (tg + q.eta[r] * r2) / g;
    const BlockLaw<S>& law = s.law[b];
    S rt[2];
    for (int e = 0; e < 2; ++e) rt[e] = x.miss[r + 1 + e] - side[e] - push * q.a[r + 1 + e];
    const S turn = law.C[0][0];
    for (int i = 0; i < 2; ++i)
      h[1 + i] = law.C[1 + i][1] * rt[0] + law.C[1 + i][2] * rt[1] +
                 (turn > S(0) ? law.C[1 + i][0] / turn * h[0] : S(0));
  }
  FB_INLINE S bounded_side(int b, int i, int r, S aim, const PathPoint<S>* f) const {
    const PathPoint<S>& q = x.now;
    S side = q.z_lower[r] - q.z_upper[r] - q.w[r] + x.miss[r];
    if (has_lower(r)) side += lower_side(r, aim, f);
    if (has_upper(r)) side -= upper_side(r, aim, f);
    return s.law[b].C[i][i] * side;
  }
  FB_INLINE S lower_side(int r, S aim, const PathPoint<S>* f) const {
    const PathPoint<S>& q = x.now;
    S t = aim / p.D[r] - q.lower[r] * q.z_lower[r];
    if (f) t -= f->lam[r] * f->z_lower[r];
    return t / q.lower[r];
  }
  FB_INLINE S upper_side(int r, S aim, const PathPoint<S>* f) const {
    const PathPoint<S>& q = x.now;
    S t = aim / p.D[r] - q.upper[r] * q.z_upper[r];
    if (f) t += f->lam[r] * f->z_upper[r];
    return t / q.upper[r];
  }

  // (W.4)  a direction with the factors of linearise(); g_dot is set with the predictor only
  FB_FN void direction(S aim, const PathPoint<S>* f, PathPoint<S>& d) const {
    const PathPoint<S>& q = x.now;
    for_parts([&](int b, int r) { cone_side(b, r, aim, f, s.h + r); },
              [&](int b, int i, int r) { s.h[r] = bounded_side(b, i, r, aim, f); });
    solve_law(p, s.law, s.H, s.h, s.y);
    for (int r = 0; r < p.nrow; ++r) d.lam[r] = s.h[r];
    row_velocities(p, d.lam, static_cast<const S*>(nullptr), s.y, d.w);
    for (int r = 0; r < p.nrow; ++r) d.w[r] -= x.miss[r];
    for_parts([&](int, int r) { cone_direction(r, aim, f, d); },
              [&](int, int, int r) {
                d.z_lower[r] = has_lower(r)
                                   ? lower_side(r, aim, f) - q.z_lower[r] / q.lower[r] * d.lam[r]
                                   : S(0);
                d.z_upper[r] = has_upper(r)
                                   ? upper_side(r, aim, f) + q.z_upper[r] / q.upper[r] * d.lam[r]
                                   : S(0);
              });
  }
  FB_INLINE void cone_direction(int r, S aim, const PathPoint<S>* f, PathPoint<S>& d) const {
    const PathPoint<S>& q = x.now;
    d.eta[r] = d.h[r] = S(0);
    S da[2] = {S(0), S(0)};
    if (rubs(r)) {
      const S g = g_of(q, r), mu = p.mu[r], ln = q.lam[r];
      S tg = aim / p.D[r] - q.eta[r] * g, r2(0), size2(0), along(0);
      if (f) tg -= f->eta[r] * x.g_dot[r];
      for (int e = 1; e < 3; ++e) {
        const S bend = f ? f->a[r + e] : S(0);
        r2 += mu * ln * bend * bend;
        size2 += q.a[r + e] * q.a[r + e];
        along += q.a[r + e] * d.lam[r + e];
        da[e - 1] =
            (d.lam[r + e] / mu - q.a[r + e] * d.lam[r]) / ln - (f ? bend * (f->lam[r] / ln) : S(0));
      }
      const S dg = mu * (S(1) + size2) * d.lam[r] - S(2) * along - r2;
      d.eta[r] = (tg - q.eta[r] * dg) / g;
      d.h[r] = dg;
    }
    d.a[r + 1] = da[0];
    d.a[r + 2] = da[1];
  }

  // the longest step that stays inside
  FB_FN S longest(const PathPoint<S>& d) const {
    const PathPoint<S>& q = x.now;
    S most(1e300);
    const auto keep = [&](S v, S dv) {
      if (dv < S(0) && -v / dv < most) most = -v / dv;
    };
    for_parts(
        [&](int, int r) {
          keep(q.lam[r], d.lam[r]);
          keep(q.w[r], d.w[r]);
          if (!rubs(r)) return;
          keep(q.eta[r], d.eta[r]);
          // far from the middle the tangents turn by an angle of at most one
          const S a1 = q.a[r + 1], a2 = q.a[r + 2], size2 = dot2(a1, a1, a2, a2);
          const S turn = abs(a1 * d.a[r + 2] - a2 * d.a[r + 1]);
          if (size2 > S(0.25) && turn * most > size2) most = size2 / turn;
        },
        [&](int, int, int r) {
          if (has_lower(r)) {
            keep(q.lower[r], d.lam[r]);
            keep(q.z_lower[r], d.z_lower[r]);
          }
          if (has_upper(r)) {
            keep(q.upper[r], -d.lam[r]);
            keep(q.z_upper[r], d.z_upper[r]);
          }
        });
    return most;
  }

  // (W.5)  the point a step along d: tangents go straight, or in step with the normal where the
  // straight way comes too near to the rim
  FB_FN void moved(const PathPoint<S>& d, S step) const {
    const PathPoint<S>& q = x.now;
    PathPoint<S>& n = x.next;
    for (int r = 0; r < p.nrow; ++r) {
      n.lam[r] = q.lam[r] + step * d.lam[r];
      n.w[r] = q.w[r] + step * d.w[r];
    }
    for_parts([&](int, int r) { cone_moved(r, d, step); },
              [&](int, int, int r) {
                n.z_lower[r] = q.z_lower[r] + step * d.z_lower[r];
                n.z_upper[r] = q.z_upper[r] + step * d.z_upper[r];
                n.lower[r] = has_lower(r) ? q.lower[r] + step * d.lam[r] : S(1);
                n.upper[r] = has_upper(r) ? q.upper[r] - step * d.lam[r] : S(1);
              });
  }
  FB_INLINE void cone_moved(int r, const PathPoint<S>& d, S step) const {
    const PathPoint<S>& q = x.now;
    PathPoint<S>& n = x.next;
    n.eta[r] = q.eta[r] + step * d.eta[r];
    if (!rubs(r)) {
      n.a[r + 1] = n.a[r + 2] = n.lam[r + 1] = n.lam[r + 2] = S(0);
      n.h[r] = S(1);
      return;
    }
    const S radius = p.mu[r] * n.lam[r], a1 = q.a[r + 1], a2 = q.a[r + 2];
    S u1, u2;
    const S h_turned = turned(r, step * d.a[r + 1], step * d.a[r + 2], u1, u2);
    const S s1 = (q.lam[r + 1] + step * d.lam[r + 1]) / radius - a1;
    const S s2 = (q.lam[r + 2] + step * d.lam[r + 2]) / radius - a2;
    const S h_straight = q.h[r] - (S(2) * a1 + s1) * s1 - (S(2) * a2 + s2) * s2;
    const bool straight = h_straight >= S(0.5) * (h_turned < q.h[r] ? h_turned : q.h[r]);
    n.h[r] = straight ? h_straight : h_turned;
    n.a[r + 1] = straight ? a1 + s1 : u1;
    n.a[r + 2] = straight ? a2 + s2 : u2;
    n.lam[r + 1] = radius * n.a[r + 1];
    n.lam[r + 2] = radius * n.a[r + 2];
  }
  // a turned by its change da and moved outwards by it, but never to the rim: what would take more
  // than half of h takes a share of it that falls as 1 / t
  FB_INLINE S turned(int r, S d1, S d2, S& u1, S& u2) const {
    const PathPoint<S>& q = x.now;
    const S a1 = q.a[r + 1], a2 = q.a[r + 2], size2 = dot2(a1, a1, a2, a2), h = q.h[r];
    S t;
    if (size2 > S(0.25)) {
      const S size = sqrt(size2), out = (a1 * d1 + a2 * d2) / size;
      const S angle = (a1 * d2 - a2 * d1) / size2;
      const S c = cos_small(angle), v = sin_small(angle);
      u1 = (a1 * c - a2 * v) / size;
      u2 = (a2 * c + a1 * v) / size;
      t = (S(2) * size + out) * out / h;
    } else {
      u1 = a1 + d1;
      u2 = a2 + d2;
      const S length2 = dot2(u1, u1, u2, u2), inv = length2 > S(0) ? S(1) / sqrt(length2) : S(0);
      u1 *= inv;
      u2 *= inv;
      t = (h - S(1) + length2) / h;
    }
    S next = t < S(0.5) ? h * (S(1) - t) : h * S(0.25) / t;
    if (next > S(1)) next = S(1);
    const S size = sqrt(S(1) - next);
    u1 *= size;
    u2 *= size;
    return next;
  }

  // (W.6)  predictor, corrector, and cuts until the point is central enough
  FB_FN void advance(S k, bool central, const PathStart<S>& from) const {
    direction(S(0), nullptr, x.predictor);
    for_parts([&](int, int r) { x.g_dot[r] = x.predictor.h[r]; }, [](int, int, int) {});
    S left = longest(x.predictor);
    left = S(1) - (left < S(1) ? left : S(1));
    S aim = left * left * left;
    aim = central ? (aim < S(0.02) ? S(0.02) : aim) : aim < S(0.6) ? S(0.6) : aim;
    direction(aim * k, central ? &x.predictor : nullptr, x.corrector);
    const auto length = [&] {
      const S most = from.share * longest(x.corrector);
      return most < S(1) ? most : S(1);
    };
    S step = length();
    for (int cut = 0; cut < 12; ++cut) {
      moved(x.corrector, step);
      S mean, least;
      products(x.next, mean, least);
      if (least >= from.central * mean && mean <= S(2) * k) break;
      step *= S(0.7);
      if (cut == 3) {
        direction(S(0.5) * k, nullptr, x.corrector);
        step = length();
      }
    }
    const PathPoint<S> old = x.now;
    x.now = x.next;
    x.next = old;
  }

  // Newton steps from the projected point; true where they end at the solution, which is in s.best
  FB_FN bool cross_over(WorldOutcome& out) const {
    for (int r = 0; r < p.nrow; ++r) s.lam[r] = s.best[r];
    for (int k = 0; k < 3; ++k) {
      newton_world(p, s, S(1));
      ++out.factorisations;
      if (world_done(p, s, out.residual)) return true;
      if (!(out.residual == out.residual)) return false;
      row_velocities(p, s.lam, p.b, s.y, s.w);
    }
    return false;
  }

  // the solution in s.best with its velocities in s.w; false where the path was not followed to its
  // end
  FB_FN bool follow(const PathStart<S>& from, int max_iterations, WorldOutcome& out) const {
    S cross(1e-6);
    start(from.size);
    for (int it = 0; it <= max_iterations; ++it) {
      row_velocities(p, x.now.lam, p.b, s.y, x.miss);
      S worst(0), mean, least;
      for (int r = 0; r < p.nrow; ++r) {
        x.miss[r] = x.now.w[r] - x.miss[r];
        worst = max(worst, abs(x.miss[r]));
      }
      products(x.now, mean, least);
      for (int r = 0; r < p.nrow; ++r) s.lam[r] = x.now.lam[r];
      if (world_done(p, s, out.residual)) return true;
      if (!(mean == mean)) return false;
      const S V2 = p.scale * p.scale;
      if (mean <= cross * V2 && worst < S(1e-2) * p.scale) {
        if (cross_over(out)) return true;
        cross = S(1e-2) * mean / V2;
      }
      if (it == max_iterations) break;
      linearise();
      ++out.factorisations;
      advance(mean, least > S(0.1) * mean && worst * worst < mean, from);
    }
    return false;
  }
};

// (W.1)  sweeps and Newton steps from zero, then the path from several starts.  The impulses are in
// s.best with their velocities in s.w: those of the least residual where none is a solution
inline constexpr int kWorldNewtonSteps = 10;
template <class S>
FB_FN bool newton_from_sweeps(const WorldRows<S>& p, WorldScratch<S>& s, WorldOutcome& out) {
  for (int r = 0; r < p.nrow; ++r) s.lam[r] = S(0);
  for (int d = 0; d < p.ndof; ++d) s.y2[d] = S(0);
  for (int k = 0; k < 4; ++k) sweep_world(p, s.lam, s.y2);
  for (int k = 0;; ++k) {
    if (world_done(p, s, out.residual)) return true;
    if (k == kWorldNewtonSteps || !(out.residual == out.residual)) return false;
    row_velocities(p, s.lam, p.b, s.y, s.w);
    newton_world(p, s, S(1));
    ++out.factorisations;
  }
}
template <class S>
FB_FN WorldOutcome solve_world(WorldRows<S>& p, WorldScratch<S>& s, PathScratch<S>& x, bool begin) {
  const PathStart<S> starts[5] = {{S(1e2), S(0.9), S(1e-2)},
                                  {S(1e6), S(0.9), S(1e-4)},
                                  {S(1e4), S(0.8), S(1e-2)},
                                  {S(1e4), S(0.95), S(1e-4)},
                                  {S(1e2), S(0.5), S(1e-2)}};
  WorldOutcome out{false, 0, 1, 0};
  prepare_world(p);
  envelope_of(p, s.H);
  if (begin && newton_from_sweeps(p, s, out)) {
    out.solved = true;
    return out;
  }
  S least(1e300);
  for (int r = 0; r < p.nrow; ++r) x.nearest[r] = S(0);
  const InteriorPath<S> path{p, s, x};
  for (int k = 0; k < 5; ++k) {
    out.stage = 2 + k;
    out.solved = path.follow(starts[k], 100, out);
    if (out.solved) return out;
    if (!(out.residual < least)) continue;
    least = out.residual;
    for (int r = 0; r < p.nrow; ++r) x.nearest[r] = s.best[r];
  }
  out.stage = 0;
  for (int r = 0; r < p.nrow; ++r) s.lam[r] = x.nearest[r];
  world_done(p, s, out.residual);
  return out;
}

}  // namespace fb::FB_ISA
