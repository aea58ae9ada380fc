// The interior path of one world from one start: follow lam_n w_n = eta g = k / U, w_t + eta a = 0 with
// a = lam_t / (mu lam_n), g = mu lam_n h, h = 1 - |a|^2 to k = 0, then end with Newton steps on the
// active set.  Machine numbers only.  Proof: docs/derivations/worlds.md.
#pragma once
#include "core/solver/convex.hpp"

namespace fb::FB_ISA {

// a point of the path, or a direction; arrays of rows.  A contact has a at its tangents, eta and h at
// its normal (at each tangent where friction is a box); rims beside them have eta and h at their first row; a bounded row has its distances to the bounds
// and their multipliers
template <class S>
struct PathPoint {
  S *lam, *w, *a, *eta, *h, *lower, *upper, *z_lower, *z_upper;
};
// how fast k falls.  A point is central where its least product is above `centred` of the mean and the
// square of what its velocities miss below `miss` times it; k goes to
// `least` of itself at best from there, else to `recentre`; steps are `share` of the longest, or all but
// five times what k goes to; slips: k waits for them too, and there are no second-order terms
struct PathPace {
  double centred, miss, least, recentre, share;
  bool slips;
  int max_iterations, newton_steps;
};
// named by the largest reduction of k in a step
inline constexpr PathPace kReduce2000{0.03, 1e4, 5e-4, 0.2, 0.95, false, 100, 1};
inline constexpr PathPace kReduce50{0.1, 1, 0.02, 0.6, 0.9, false, 100, 3};
inline constexpr PathPace kReduce10FirstOrder{0.1, 1, 0.1, 0.8, 0.9, true, 160, 3};
// what a start tries: the size of the first impulses, the weight of contacts against that of bounded
// rows in the products, how far from the mean the least of them may be, how fast
template <class S>
struct PathStart {
  S size, cone_weight, central;
  PathPace pace;
  int draw = 0;         // weights of single rows, drawn anew for each number; 0: all alike
  bool energy = false;  // the start shares the energy evenly, not the speed
  S late = S(1);        // how many times the products of normals those of rims are, at least
};
template <class S>
struct PathScratch {
  PathPoint<S> now, next, predictor, corrector, bend;
  S *miss, *g_dot;  // w - (A lam + b); change of g, of the predictor
  S* first_miss;    // w - (A lam + b) of the start
  S* unit;          // weights of the products
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

// so many steps in a row of less than a fiftieth end a try
inline constexpr int kStalled = 25;

// so many times those of normals the products of rims are at most, where a start does not ask for more
inline constexpr double kLate = 100;
// steps in the states that the path shows
inline constexpr int kStateSteps = 3;

// kRims: whether contacts may have rims beside their tangents
template <class S, bool kRims>
struct InteriorPath {
  const WorldRows<S>& p;
  WorldScratch<S>& s;
  PathScratch<S>& x;
  PathStart<S> from;
  const S* unit;  // weights of the products
  S speed;        // of the start

  // of the products of a normal
  FB_INLINE S weight(int r) const { return unit[r] * from.cone_weight; }
  FB_INLINE bool rubs(int r) const { return p.mu[r] > S(1e-10); }
  FB_INLINE bool has_lower(int r) const { return is_bound(p.lo[r]) && !is_fixed(p, r); }
  FB_INLINE bool has_upper(int r) const { return is_bound(p.hi[r]) && !is_fixed(p, r); }
  // the rims of the contact at r: one disc of two tangents, or two segments, and those beside them; eta and h
  // stand at `at`, coefficient and weight at `base`
  struct PathRim {
    int normal, at, first, n, base;
  };
  // (W.12)  of the products of a rim
  FB_INLINE S rim_weight(const PathRim& m) const {
    if (!from.energy) return weight(m.base);
    const S apart = m.base == m.normal ? p.D[m.first] / p.D[m.normal] : S(1);
    return weight(m.base) / max(clamp(apart, S(1), S(kLate)), from.late);
  }
  template <class F>
  FB_INLINE void for_rims(int r, F&& visit) const {
    if constexpr (kRims)
      p.for_rims_beside(r, [&](const Rim& m) {
        if (rubs(m.first)) visit(PathRim{r, m.first, m.first, m.n, m.first});
      });
    if (!rubs(r)) return;
    if (!p.box) return visit(PathRim{r, r, r + 1, 2, r});
    visit(PathRim{r, r + 1, r + 1, 1, r});
    visit(PathRim{r, r + 2, r + 2, 1, r});
  }
  // rows of the rims beside the tangents of the contact at r
  FB_INLINE int rims(int r) const {
    if constexpr (kRims) return p.rims[r];
    return 0;
  }
  FB_INLINE S g_of(const PathPoint<S>& q, const PathRim& m) const {
    return p.mu[m.base] * q.lam[m.normal] * q.h[m.at];
  }
  // the second of a pair, zero for a segment
  FB_INLINE S second(const PathRim& m, const S* v) const {
    return m.n == 2 ? v[m.first + 1] : S(0);
  }
  template <class Cone, class Bounded>
  FB_INLINE void for_parts(Cone&& cone, Bounded&& bounded) const {
    for (int b = 0; b < p.nblock; ++b) {
      const RowBlock& k = p.block[b];
      if (kRims && k.cone == kRimBlock) continue;
      if (k.cone)
        cone(b, k.row);
      else
        for (int r = k.row; r < k.row + k.rows; ++r) bounded(b, r - k.row, r);
    }
  }

  // (W.10)  the velocity of a row at the start
  FB_INLINE S first_speed(int r) const {
    return from.energy ? speed * sqrt(p.D[r] / unit[r]) : speed;
  }
  // far inside, where all products are alike
  FB_FN void start() const {
    PathPoint<S>& q = x.now;
    for_parts(
        [&](int, int r) {
          const S V = first_speed(r);
          q.lam[r] = from.size * (speed / V) * speed / weight(r);
          q.w[r] = V;
          for (int e = 0; e < 3 + rims(r); ++e) {
            q.eta[r + e] = V;
            q.h[r + e] = S(1);
          }
          for (int e = 1; e < 3 + rims(r); ++e) q.lam[r + e] = q.w[r + e] = q.a[r + e] = S(0);
          if (!from.energy) return;
          for_rims(r, [&](const PathRim& m) {
            q.eta[m.at] = from.size * speed * speed / (rim_weight(m) * g_of(q, m));
          });
        },
        [&](int, int, int r) {
          const bool low = has_lower(r), high = has_upper(r);
          const S V = first_speed(r), far = from.size * (speed / V) * speed / unit[r];
          const S half = (p.hi[r] - p.lo[r]) * S(0.5);
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

  // visit all products, each times its weight, and their factors: a weighted impulse, a velocity
  template <class F>
  FB_INLINE void for_products(const PathPoint<S>& q, F&& see) const {
    for_parts(
        [&](int, int r) {
          see(q.lam[r] * q.w[r] * weight(r), q.lam[r] * weight(r), q.w[r]);
          for_rims(r, [&](const PathRim& m) {
            const S g = g_of(q, m);
            see(q.eta[m.at] * g * rim_weight(m), g * rim_weight(m), q.eta[m.at]);
          });
        },
        [&](int, int, int r) {
          if (has_lower(r))
            see(q.lower[r] * q.z_lower[r] * unit[r], q.lower[r] * unit[r], q.z_lower[r]);
          if (has_upper(r))
            see(q.upper[r] * q.z_upper[r] * unit[r], q.upper[r] * unit[r], q.z_upper[r]);
        });
  }
  // mean and least of the products
  FB_FN void products(const PathPoint<S>& q, S& mean, S& least) const {
    S sum(0);
    int count = 0;
    least = S(1e300);
    for_products(q, [&](S v, S, S) {
      sum += v;
      least = v < least || !(v == v) ? v : least;
      ++count;
    });
    mean = count ? sum / S(count) : S(0);
    least = count ? least : S(0);
  }

  // w - (A lam + b) into miss, and the largest of it
  FB_FN S missed() const {
    row_velocities(p, x.now.lam, p.b, s.y, x.miss);
    S worst(0);
    for (int r = 0; r < p.nrow; ++r) {
      x.miss[r] = x.now.w[r] - x.miss[r];
      worst = max(worst, abs(x.miss[r]));
    }
    return worst;
  }

  // the largest |w_t + eta a|
  FB_FN S slip_error() const {
    const PathPoint<S>& q = x.now;
    S worst(0);
    for_parts(
        [&](int, int r) {
          for_rims(r, [&](const PathRim& m) {
            for (int e = m.first; e < m.first + m.n; ++e)
              worst = max(worst, abs(q.w[e] + q.eta[m.at] * q.a[e]));
          });
        },
        [](int, int, int) {});
    return worst;
  }

  // (W.2)  the law linearised at the point
  FB_FN void linearise() const {
    const PathPoint<S>& q = x.now;
    for_parts(
        [&](int b, int r) {
          const S kn = q.lam[r] / (q.w[r] + q.lam[r] * p.soft(r));
          s.law[b] = cone_law(kn, S(0), S(0), S(0), S(1), S(0));
          if (rims(r) > 0) clear_rims(p.block[b + 1], s.law[b + 1], s.cross);
          for_rims(r, [&](const PathRim& m) {
            const S a1 = q.a[m.first], a2 = second(m, q.a), size2 = dot2(a1, a1, a2, a2);
            const S size = sqrt(size2), inv = size > S(0) ? S(1) / size : S(0);
            const S e1 = size > S(0) ? a1 * inv : S(1), e2 = a2 * inv, g = g_of(q, m);
            const S R = p.soft(m.first), eta = q.eta[m.at], t = eta / (p.mu[m.base] * q.lam[r]);
            const S ke = S(1) / (t + S(2) * eta * size2 / g + R), kp = S(1) / (t + R);
            const S ct = ke * eta * size * (S(1) / q.lam[r] + p.mu[m.base] * (S(1) + size2) / g);
            if (kRims && m.base != r) {
              const int i = m.first - r - 3;
              const BlockLaw<S> law = cone_law(kn, ke, kp, ct, e1, e2);
              for (int a = 0; a < m.n; ++a) {
                s.cross[m.first + a] = law.C[1 + a][0];
                for (int c = 0; c < m.n; ++c) s.law[b + 1].C[i + a][i + c] = law.C[1 + a][1 + c];
              }
            } else if (m.n == 2) {
              s.law[b] = cone_law(kn, ke, kp, ct, e1, e2);
            } else {
              s.law[b].C[m.first - r][0] = ct * kn * e1;
              s.law[b].C[m.first - r][m.first - r] = ke;
            }
          });
        },
        [&](int b, int i, int r) {
          if (i == 0)
            for (auto& row : s.law[b].C)
              for (S& v : row) v = S(0);
          s.law[b].C[i][i] =
              is_fixed(p, r)
                  ? S(0)
                  : S(1) / (q.z_lower[r] / q.lower[r] + q.z_upper[r] / q.upper[r] + p.soft(r));
        });
    factor_law(p, s.law, s.cross, s.H);
  }

  // (W.3)  the right side of one contact towards products `aim`; f: the predictor, or null
  FB_INLINE void cone_side(int b, int r, S aim, const PathPoint<S>* f, S* h) const {
    const PathPoint<S>& q = x.now;
    S tn = aim / weight(r) - q.lam[r] * q.w[r];
    if (f) tn -= f->lam[r] * f->w[r];
    h[0] = (q.lam[r] * x.miss[r] + tn) / (q.w[r] + q.lam[r] * p.soft(r));
    for (int i = 1; i < 3 + rims(r); ++i) h[i] = S(0);
    S rt[kRims ? 6 : 3] = {};
    for_rims(r, [&](const PathRim& m) {
      const S g = g_of(q, m), eta = q.eta[m.at];
      S tg = aim / rim_weight(m) - eta * g, r2(0), turn(0);
      if (f) {
        tg -= f->eta[m.at] * x.g_dot[m.at];
        turn = f->eta[m.at] - eta * f->lam[r] / q.lam[r];
      }
      for (int e = m.first; e < m.first + m.n; ++e) {
        const S da = f ? f->a[e] : S(0);
        rt[e - r] = x.miss[e] - q.w[e] - eta * q.a[e] - turn * da;
        r2 += p.mu[m.base] * q.lam[r] * da * da;
      }
      for (int e = m.first; e < m.first + m.n; ++e) rt[e - r] -= (tg + eta * r2) / g * q.a[e];
    });
    // C of the tangents maps a velocity to an impulse, and the normal's share of them follows it
    const BlockLaw<S>& law = s.law[b];
    for (int i = 1; i < 3; ++i)
      h[i] = law.C[i][1] * rt[1] + law.C[i][2] * rt[2] + law.C[i][0] / law.C[0][0] * h[0];
    for (int i = 0; i < rims(r); ++i) {
      h[3 + i] = s.cross[r + 3 + i] / law.C[0][0] * h[0];
      for (int j = 0; j < rims(r); ++j)
        h[3 + i] = mul_add(s.law[b + 1].C[i][j], rt[3 + j], h[3 + i]);
    }
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
    S t = aim / unit[r] - q.lower[r] * q.z_lower[r];
    if (f) t -= f->lam[r] * f->z_lower[r];
    return t / q.lower[r];
  }
  FB_INLINE S upper_side(int r, S aim, const PathPoint<S>* f) const {
    const PathPoint<S>& q = x.now;
    S t = aim / unit[r] - q.upper[r] * q.z_upper[r];
    if (f) t += f->lam[r] * f->z_upper[r];
    return t / q.upper[r];
  }

  // (W.4)  a direction with the factors of linearise(); g_dot is set with the predictor only
  FB_FN void direction(S aim, const PathPoint<S>* f, PathPoint<S>& d) const {
    const PathPoint<S>& q = x.now;
    for_parts([&](int b, int r) { cone_side(b, r, aim, f, s.h + r); },
              [&](int b, int i, int r) { s.h[r] = bounded_side(b, i, r, aim, f); });
    solve_law(p, s.law, s.cross, s.H, s.h, s.y, d.w);
    for (int r = 0; r < p.nrow; ++r) {
      d.lam[r] = s.h[r];
      d.w[r] += p.R[r] * d.lam[r] - x.miss[r];
    }
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
    for (int e = 0; e < 3 + rims(r); ++e) d.eta[r + e] = d.h[r + e] = S(0);
    for (int e = 1; e < 3 + rims(r); ++e) d.a[r + e] = S(0);
    for_rims(r, [&](const PathRim& m) {
      const S g = g_of(q, m), mu = p.mu[m.base], ln = q.lam[r];
      S tg = aim / rim_weight(m) - q.eta[m.at] * g, r2(0), size2(0), along(0);
      if (f) tg -= f->eta[m.at] * x.g_dot[m.at];
      for (int e = m.first; e < m.first + m.n; ++e) {
        const S bend = f ? f->a[e] : S(0);
        r2 += mu * ln * bend * bend;
        size2 += q.a[e] * q.a[e];
        along += q.a[e] * d.lam[e];
        d.a[e] = (d.lam[e] / mu - q.a[e] * d.lam[r]) / ln - (f ? bend * (f->lam[r] / ln) : S(0));
      }
      const S dg = mu * (S(1) + size2) * d.lam[r] - S(2) * along - r2;
      d.eta[m.at] = (tg - q.eta[m.at] * dg) / g;
      d.h[m.at] = dg;
    });
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
          for_rims(r, [&](const PathRim& m) {
            keep(q.eta[m.at], d.eta[m.at]);
            // far from the middle the tangents turn by an angle of at most one
            const S a1 = q.a[m.first], a2 = second(m, q.a), size2 = dot2(a1, a1, a2, a2);
            const S turn = abs(a1 * second(m, d.a) - a2 * d.a[m.first]);
            if (size2 > S(0.25) && turn * most > size2) most = size2 / turn;
          });
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
    for (int e = 0; e < 3 + rims(r); ++e) {
      n.eta[r + e] = q.eta[r + e] + step * d.eta[r + e];
      n.h[r + e] = S(1);
    }
    if (!rubs(r)) n.a[r + 1] = n.a[r + 2] = n.lam[r + 1] = n.lam[r + 2] = S(0);
    for (int e = 3; e < 3 + rims(r); ++e)
      if (!rubs(r + e)) n.a[r + e] = n.lam[r + e] = S(0);
    for_rims(r, [&](const PathRim& m) {
      const S radius = p.mu[m.base] * n.lam[r];
      S turned_to[2], straight_to[2], h_straight = q.h[m.at];
      const S h_turned = turned(m, step * d.a[m.first], step * second(m, d.a), turned_to);
      for (int e = 0; e < m.n; ++e) {
        const S a = q.a[m.first + e];
        straight_to[e] = (q.lam[m.first + e] + step * d.lam[m.first + e]) / radius;
        h_straight -= (a + straight_to[e]) * (straight_to[e] - a);
      }
      const bool straight = h_straight >= S(0.5) * (h_turned < q.h[m.at] ? h_turned : q.h[m.at]);
      n.h[m.at] = straight ? h_straight : h_turned;
      for (int e = 0; e < m.n; ++e) {
        n.a[m.first + e] = straight ? straight_to[e] : turned_to[e];
        n.lam[m.first + e] = radius * n.a[m.first + e];
      }
    });
  }
  // a turned by its change da and moved outwards by it, but never to the rim: what would take more
  // than half of h takes a share of it that falls as 1 / t
  FB_INLINE S turned(const PathRim& m, S d1, S d2, S* to) const {
    const PathPoint<S>& q = x.now;
    const S a1 = q.a[m.first], a2 = second(m, q.a), size2 = dot2(a1, a1, a2, a2), h = q.h[m.at];
    S t, u1, u2;
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
    to[0] = u1 * size;
    to[1] = u2 * size;
    return next;
  }

  // (W.6)  predictor, corrector, and cuts until the point is central enough; to products of no less
  // than the share `floor` of k
  FB_FN S advance(S k, bool central, S floor = S(0)) const {
    direction(S(0), nullptr, x.predictor);
    for (int r = 0; r < p.nrow; ++r) x.g_dot[r] = x.predictor.h[r];
    S left = longest(x.predictor);
    left = S(1) - (left < S(1) ? left : S(1));
    S aim = left * left * left;
    const S least(central ? from.pace.least : from.pace.recentre);
    aim = aim < least ? least : aim;
    aim = aim < floor ? floor : aim;
    direction(aim * k, central && !from.pace.slips ? &x.predictor : nullptr, x.corrector);
    return take(k, max(S(from.pace.share), S(1) - S(5) * aim));
  }
  // Newton's step to products `to`, from the mean k
  FB_FN S newton(S k, S to) const {
    direction(to, nullptr, x.corrector);
    return take(k > to ? k : to, S(from.pace.share));
  }
  FB_FN S take(S k, S share) const {
    const auto length = [&] {
      const S most = share * longest(x.corrector);
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
    return step;
  }

  // Newton steps from the projected point; true where they end at the solution, which is in s.best
  FB_FN bool cross_over(WorldOutcome& out) const {
    for (int r = 0; r < p.nrow; ++r) s.lam[r] = s.best[r];
    for (int k = 0; k < from.pace.newton_steps; ++k) {
      newton_world(p, s, S(1), true);
      out.exact = true;
      ++out.factorisations;
      if (world_done(p, s, out.residual)) return true;
      if (!(out.residual == out.residual)) return false;
      row_velocities(p, s.lam, p.b, s.y, s.w);
    }
    return false;
  }

  // (W.11)  steps of the exact law in the states that the last two points of the path, x.next and x.now,
  // show; true where they end at the solution
  FB_FN bool end_in_states(WorldOutcome& out) const {
    const PathPoint<S>&q = x.now, &before = x.next;
    S *state = x.bend.lam, *yield = x.bend.w;
    for (int r = 0; r < p.nrow; ++r) {
      s.lam[r] = q.lam[r];
      yield[r] = S(1) / p.soft(r);
      state[r] = S(0);
    }
    // whether the first of two factors goes to zero
    const auto falls = [](S a, S a_before, S b, S b_before) { return a * b_before < b * a_before; };
    const auto hold = [&](int r, S side, S bound) {
      state[r] = side;
      s.lam[r] = bound;
    };
    for_parts(
        [&](int, int r) {
          if (falls(q.lam[r], before.lam[r], q.w[r], before.w[r])) hold(r, S(-1), S(0));
          if (!rubs(r)) state[r + 1] = state[r + 2] = S(1);
          for_rims(r, [&](const PathRim& m) {
            if (!falls(g_of(q, m), g_of(before, m), q.eta[m.at], before.eta[m.at])) return;
            for (int e = m.first; e < m.first + m.n; ++e)
              state[e] = m.n == 2 || q.a[e] > S(0) ? S(1) : S(-1);
          });
        },
        [&](int, int, int r) {
          if (is_fixed(p, r)) state[r] = S(-1);
          if (has_lower(r) && falls(q.lower[r], before.lower[r], q.z_lower[r], before.z_lower[r]))
            hold(r, S(-1), p.lo[r]);
          if (has_upper(r) && falls(q.upper[r], before.upper[r], q.z_upper[r], before.z_upper[r]))
            hold(r, S(1), p.hi[r]);
        });
    ConvexScratch<S> rows{};
    rows.state = state;
    rows.yield = yield;
    out.residual = 1e300;
    return ConvexNewton<S>{p, s, rows}.end(out, kStateSteps);
  }

  // the solution in s.best with its velocities in s.w; false where the path was not followed to its
  // end
  FB_FN bool follow(WorldOutcome& out) const {
    S cross(1e-6);
    int stalled = 0;
    start();
    for (int it = 0;; ++it) {
      S worst = missed(), mean, least;
      products(x.now, mean, least);
      const S V2 = p.scale * p.scale;
      const bool near = mean <= cross * V2 && worst < S(1e-2) * p.scale;
      const bool last = it == from.pace.max_iterations || stalled == kStalled || !(mean == mean);
      if (near || last) {
        for (int r = 0; r < p.nrow; ++r) s.lam[r] = x.now.lam[r];
        if (world_done(p, s, out.residual) || (near && cross_over(out))) return true;
        cross = S(1e-2) * mean / V2;
      }
      if (last) return false;
      linearise();
      out.exact = false;
      ++out.factorisations;
      if (from.pace.slips) worst = max(worst, slip_error());
      const S step = advance(
          mean, least > S(from.pace.centred) * mean && worst * worst < S(from.pace.miss) * mean);
      stalled = step < S(0.02) ? stalled + 1 : 0;
    }
  }
};

}  // namespace fb::FB_ISA
