// The interior path followed by pseudo-arclength continuation, also round its turning points: products
// and what the velocities miss are the share theta of those of the start, and theta is an unknown.
// Machine numbers only.  Proof: docs/derivations/worlds.md.
#pragma once
#include "core/solver/interior_path.hpp"

namespace fb::FB_ISA {

// steps of one start; the shortest before it is given up; how far from the path a point may be, and
// what steps aim at
inline constexpr int kContinuationSteps = 3000;
inline constexpr double kShortestArc = 1e-8, kOffPath = 0.25, kOffAim = 0.05;

template <class S, bool kRims>
struct PathContinuation {
  const InteriorPath<S, kRims>& path;
  S first_product;

  // where a step stands.  x.next is the point before
  struct State {
    S theta = S(1), theta_before = S(1);
    S arc = S(0.3);     // length of the step
    S cross = S(1e-6);  // products over scale^2 below which Newton steps are tried
    bool retry = false;
  };
  // T = d(point) / d(log theta): 1 + its square, its largest number; the plane normal to it holds
  // corrector + shift T, whose largest number is `off`
  struct Tangent {
    S square = S(1), largest = S(1), shift = S(0), off = S(0);
  };

  // (W.7)  far inside, all products alike
  FB_FN void start() const {
    const PathPoint<S>& q = path.x.now;
    path.start();
    path.for_parts(
        [&](int, int r) {
          path.for_rims(r, [&](const auto& m) {
            q.eta[m.at] = first_product / (path.rim_weight(m) * path.g_of(q, m));
          });
        },
        [&](int, int, int r) {
          if (path.has_lower(r)) q.z_lower[r] = first_product / (path.unit[r] * q.lower[r]);
          if (path.has_upper(r)) q.z_upper[r] = first_product / (path.unit[r] * q.upper[r]);
          q.w[r] = q.z_lower[r] - q.z_upper[r];
        });
    path.missed();
    for (int r = 0; r < path.p.nrow; ++r) path.x.first_miss[r] = path.x.miss[r];
  }

  // visit(change in d, change in e) of every factor of a product over the factor, and of the tangents
  // over sqrt(h)
  template <class F>
  FB_INLINE void for_changes(const PathPoint<S>& d, const PathPoint<S>& e, F&& visit) const {
    const PathPoint<S>& q = path.x.now;
    const auto see = [&](S dv, S ev, S v) { visit(dv / v, ev / v); };
    path.for_parts(
        [&](int, int r) {
          see(d.lam[r], e.lam[r], q.lam[r]);
          see(d.w[r], e.w[r], q.w[r]);
          path.for_rims(r, [&](const auto& m) {
            see(d.eta[m.at], e.eta[m.at], q.eta[m.at]);
            see(d.h[m.at], e.h[m.at], path.g_of(q, m));
            const S root = sqrt(q.h[m.at]);
            for (int t = m.first; t < m.first + m.n; ++t) see(d.a[t], e.a[t], root);
          });
        },
        [&](int, int, int r) {
          if (path.has_lower(r)) {
            see(d.lam[r], e.lam[r], q.lower[r]);
            see(d.z_lower[r], e.z_lower[r], q.z_lower[r]);
          }
          if (path.has_upper(r)) {
            see(d.lam[r], e.lam[r], q.upper[r]);
            see(d.z_upper[r], e.z_upper[r], q.z_upper[r]);
          }
        });
  }
  // d = scale d + s e
  FB_FN void combine(const PathPoint<S>& d, S scale, const PathPoint<S>& e, S s) const {
    S* to[] = {d.lam, d.w, d.a, d.eta, d.h, d.z_lower, d.z_upper};
    const S* from[] = {e.lam, e.w, e.a, e.eta, e.h, e.z_lower, e.z_upper};
    for (int k = 0; k < 7; ++k)
      for (int r = 0; r < path.p.nrow; ++r) to[k][r] = scale * to[k][r] + s * from[k][r];
  }

  // (W.8)  Newton's step at fixed theta into x.corrector, T into x.predictor
  FB_FN void directions(S theta) const {
    PathScratch<S>& x = path.x;
    path.linearise();
    path.missed();
    path.direction(S(0), nullptr, x.predictor);
    for (int r = 0; r < path.p.nrow; ++r) x.miss[r] -= theta * x.first_miss[r];
    path.direction(theta * first_product, nullptr, x.corrector);
    combine(x.predictor, S(-1), x.corrector, S(1));
  }
  FB_FN Tangent tangent() const {
    const PathScratch<S>& x = path.x;
    Tangent t;
    S along(0);
    for_changes(x.predictor, x.corrector, [&](S u, S d) {
      t.square += u * u;
      along += u * d;
      t.largest = max(t.largest, abs(u));
    });
    t.shift = -along / t.square;
    for_changes(x.predictor, x.corrector, [&](S u, S d) {
      const S v = abs(d + t.shift * u);
      t.off = v > t.off || !(v == v) ? v : t.off;
    });
    return t;
  }
  // theta falls along the path where det H > 0 and grows where det H < 0
  FB_FN S orientation() const {
    bool falls = true;
    for (int d = 0; d < path.p.ndof; ++d) falls ^= path.s.H.inv_pivot[d] < S(0);
    return falls ? S(-1) : S(1);
  }

  // (W.9)  second-order terms of the step x.corrector to theta (1 + s), in the plane normal to T, are
  // added to it; returns what they add to s
  FB_FN S bend(S theta, S s, const Tangent& t) const {
    PathScratch<S>& x = path.x;
    for (int r = 0; r < path.p.nrow; ++r) {
      x.miss[r] -= s * theta * x.first_miss[r];
      x.g_dot[r] = x.corrector.h[r];
    }
    path.direction(theta * (S(1) + s) * first_product, &x.corrector, x.bend);
    combine(x.bend, S(1), x.corrector, S(-1));
    S along(0), largest(0);
    for_changes(x.predictor, x.bend, [&](S u, S d) { along += u * d; });
    const S shift = -along / t.square;
    for_changes(x.predictor, x.bend, [&](S u, S d) {
      const S v = abs(d + shift * u);
      largest = v > largest || !(v == v) ? v : largest;
    });
    if (!(largest < S(0.5))) return S(0);
    combine(x.corrector, S(1), x.bend, S(1));
    combine(x.corrector, S(1), x.predictor, shift);
    return shift;
  }
  FB_FN void step(State& at, const Tangent& t) const {
    PathScratch<S>& x = path.x;
    S s = t.shift + orientation() * at.arc / t.largest;
    combine(x.corrector, S(1), x.predictor, s);
    s += bend(at.theta, s, t);
    const S most = S(0.9) * path.longest(x.corrector), taken = most < S(1) ? most : S(1);
    path.moved(x.corrector, taken);
    swap_points();
    at.theta_before = at.theta;
    at.theta *= max(S(1) + taken * s, S(0.05));
  }
  FB_FN void swap_points() const {
    const PathPoint<S> old = path.x.now;
    path.x.now = path.x.next;
    path.x.next = old;
  }
  // a point too far from the path is given up for a shorter step from the one before; false where
  // there is none
  FB_FN bool go_back(State& at) const {
    swap_points();
    at.theta = at.theta_before;
    at.arc *= S(0.25);
    at.retry = true;
    return at.arc >= S(kShortestArc);
  }
  FB_FN void lengthen(State& at, S off) const {
    const S by = sqrt(sqrt(S(kOffAim) / max(off, S(1e-4))));
    at.arc *= by > S(2) ? S(2) : by;
    if (at.arc > S(64)) at.arc = S(64);
  }

  // the solution in s.best with its velocities in s.w; x.nearest and `least` keep the point of the
  // least residual
  FB_FN bool follow(WorldOutcome& out, S& least) const {
    const S unit = path.p.scale * path.p.scale;
    State at;
    start();
    for (int it = 0; it < kContinuationSteps; ++it) {
      directions(at.theta);
      out.exact = false;
      ++out.factorisations;
      const Tangent t = tangent();
      const bool on_path = t.off < S(kOffPath);
      if (!on_path && (it == 0 || at.retry)) return false;
      if (!on_path) {
        if (!go_back(at)) return false;
        continue;
      }
      if (!at.retry) lengthen(at, t.off);
      at.retry = false;
      const S products = at.theta * first_product / unit;
      if (products <= at.cross) {
        if (ends(out, least)) return true;
        at.cross = S(0.1) * products;
        directions(at.theta);
      }
      step(at, t);
    }
    return false;
  }
  // Newton steps from here, the point itself kept where it is the nearest
  FB_FN bool ends(WorldOutcome& out, S& least) const {
    const WorldRows<S>& p = path.p;
    for (int r = 0; r < p.nrow; ++r) path.s.lam[r] = path.x.now.lam[r];
    if (world_done(p, path.s, out.residual)) return true;
    if (out.residual < least) {
      least = out.residual;
      for (int r = 0; r < p.nrow; ++r) path.x.nearest[r] = path.s.best[r];
    }
    return path.cross_over(out) || path.end_in_states(out);
  }
};

}  // namespace fb::FB_ISA
