// The interior path followed to the point of the smooth law.  Machine numbers only.
// Proof: docs/derivations/worlds.md.
#pragma once
#include "core/solver/world_solve.hpp"

namespace fb::FB_ISA {

// to 1/2000 as on the path to the exact law, but from points whose velocities miss less
inline constexpr PathPace kReduce2000Feasible{0.03, 1e2, 5e-4, 0.2, 0.95, false, 100, 1};

// a residual of the central equations below which full steps go on until they gain no more, and one that
// no step betters
inline constexpr double kNearlyCentral = 1e-9, kCentral = 1e-16;

// (Y.6)  the largest residual of the central equations as a velocity, over the speed of the problem;
// missed: the largest of what the velocities miss
template <class S, bool kRims>
FB_FN S central_error(const InteriorPath<S, kRims>& path, S k, S missed) {
  const PathPoint<S>& q = path.x.now;
  const S V = path.speed;
  S worst = max(missed, path.slip_error()) / V;
  path.for_parts([](int, int) {},
                 [&](int, int, int r) {
                   if (is_fixed(path.p, r)) return;
                   worst = max(worst, abs(q.z_lower[r] - q.z_upper[r] - q.w[r]) / V);
                 });
  path.for_products(q, [&](S v, S impulse, S velocity) {
    const S e = abs(v - k) / (k + V * (impulse + velocity));
    worst = e > worst || !(e == e) ? e : worst;
  });
  return worst;
}
// (Y.7)  from x.now along the path to products k, then Newton steps; true where they end there.
// Contacts that weighed more on the way get their own weight on these steps
template <class S, bool kRims>
FB_FN bool follow_to(InteriorPath<S, kRims> path, S k, WorldOutcome& out) {
  const PathPoint<S>& q = path.x.now;
  const PathPace& pace = path.from.pace;
  S last(1e300), step(0);
  S& weight = path.from.cone_weight;
  int stalled = 0;
  for (int it = 0;; ++it) {
    const S missed = path.missed();
    S mean, least;
    path.products(q, mean, least);
    if (mean <= S(10) * k && weight != S(1)) {
      weight = weight > S(4) ? weight * S(0.25) : S(1);
      path.products(q, mean, least);
    }
    const S error = weight == S(1) ? central_error(path, k, missed) : S(1e100);
    out.residual = error * path.speed;
    // at the end of the digits a full step gains no more
    const bool ends = step == S(1) && error > S(0.5) * last;
    if (error <= S(kCentral) || (error <= S(kNearlyCentral) && ends)) return true;
    if (it == 2 * pace.max_iterations || !(error == error)) return false;
    last = error;
    path.linearise();
    ++out.factorisations;
    const bool central = least > S(pace.centred) * mean && missed * missed < S(pace.miss) * mean;
    const S most = S(30) * mean, to = most < k ? most : k;
    step = mean > S(10) * k ? path.advance(mean, central, k / mean) : path.newton(mean, to);
    stalled = step < S(0.02) ? stalled + 1 : 0;
    if (stalled == kStalled) return false;
  }
}

// (Y.8)  a point with products k beside the exact solution in s.best, velocities in s.w
template <class S, bool kRims>
struct BesideExact {
  const InteriorPath<S, kRims>& path;
  S k, small;

  FB_FN void start() const {
    path.for_parts([&](int, int r) { cone(r); }, [&](int, int, int r) { bounded(r); });
  }
  FB_INLINE void cone(int r) const {
    const PathPoint<S>& q = path.x.now;
    const S *lam = path.s.best, *w = path.s.w, W = path.weight(r);
    const bool loaded = lam[r] * W >= w[r];
    // the larger of the two factors keeps its value
    const S factor = loaded ? lam[r] * W : w[r], size = factor > small ? factor : small;
    q.lam[r] = loaded ? size / W : k / (W * size);
    q.w[r] = loaded ? k / size : size;
    for (int e = 0; e < 3 + path.rims(r); ++e) {
      q.eta[r + e] = S(1);
      q.h[r + e] = S(1);
      if (e > 0) q.lam[r + e] = q.w[r + e] = q.a[r + e] = S(0);
    }
    path.for_rims(r, [&](const auto& m) { rim(m, loaded ? path.p.mu[m.base] * lam[r] : S(0)); });
  }
  // radius: of the exact solution, zero where it is not loaded
  FB_INLINE void rim(const typename InteriorPath<S, kRims>::PathRim& m, S radius) const {
    const PathPoint<S>& q = path.x.now;
    const S *lam = path.s.best + m.first, *w = path.s.w + m.first;
    const bool two = m.n == 2;
    const S slip = sqrt(dot2(w[0], w[0], two ? w[1] : S(0), two ? w[1] : S(0)));
    const S inside = radius > S(0) ? S(1) / radius : S(0);
    S a[2] = {lam[0] * inside, two ? lam[1] * inside : S(0)};
    const S now = path.p.mu[m.base] * q.lam[m.normal], W = path.weight(m.base);
    S size2 = dot2(a[0], a[0], a[1], a[1]), h = S(1) - size2;
    if (slip > small && (!(radius > S(0)) || h < S(1e-3))) {
      a[0] = -w[0] / slip;
      a[1] = two ? -w[1] / slip : S(0);
      size2 = S(1);
      h = k / (W * now * slip);
    }
    h = h > S(0.5) && size2 == S(1) ? S(0.5) : h < S(1e-9) ? S(1e-9) : h;
    const S shrink = size2 > S(0) ? sqrt((S(1) - h) / size2) : S(0);
    q.h[m.at] = h;
    q.eta[m.at] = k / (W * now * h);
    for (int e = 0; e < m.n; ++e) {
      q.a[m.first + e] = a[e] * shrink;
      q.lam[m.first + e] = now * q.a[m.first + e];
      q.w[m.first + e] = -(q.eta[m.at] * q.a[m.first + e]);
    }
  }
  FB_INLINE void bounded(int r) const {
    const PathPoint<S>& q = path.x.now;
    const WorldRows<S>& p = path.p;
    const bool low = path.has_lower(r), high = path.has_upper(r);
    const S W = path.unit[r], half = low && high ? (p.hi[r] - p.lo[r]) * S(0.5) : S(1e300);
    S lam = path.s.best[r];
    const S speed = abs(path.s.w[r]);
    // a held row is as far from its bound as its velocity says
    S least = speed > small ? k / (W * speed) : small / W;
    least = least < half ? least : half;
    if (low && lam - p.lo[r] < least) lam = p.lo[r] + least;
    if (high && p.hi[r] - lam < least) lam = p.hi[r] - least;
    q.lam[r] = lam;
    q.lower[r] = low ? lam - p.lo[r] : S(1);
    q.upper[r] = high ? p.hi[r] - lam : S(1);
    q.z_lower[r] = low ? k / (W * q.lower[r]) : S(0);
    q.z_upper[r] = high ? k / (W * q.upper[r]) : S(0);
    q.w[r] = q.z_lower[r] - q.z_upper[r];
  }
};

// impulses of the smooth law in s.best with their velocities in s.w; those of the least residual where
// none is a solution
template <bool kRims, class S>
FB_FN WorldOutcome solve_smooth_path(WorldRows<S>& p, WorldScratch<S>& s, PathScratch<S>& x) {
  const PathStart<S> starts[] = {
      {S(0.3), S(1), S(1e-3), kReduce2000Feasible}, {S(1e2), S(1), S(1e-2), kReduce50},
      {S(1e2), S(1e4), S(1e-2), kReduce50},         {S(1e2), S(1e2), S(1e-2), kReduce10FirstOrder},
      {S(1e2), S(1), S(1e-2), kReduce10FirstOrder}, {S(1e2), S(1e4), S(1e-2), kReduce10FirstOrder},
      {S(1e6), S(1), S(1e-4), kReduce50},           {S(0.3), S(1), S(1e-3), kReduce2000},
      {S(3), S(1), S(1e-3), kReduce2000Feasible},   {S(0.03), S(1), S(1e-3), kReduce2000}};
  WorldOutcome out{false, false, 0, 0, 0};
  prepare_world(p);
  envelope_of(p, s.H);
  const S k = p.smoothing * p.smoothing, speed = p.scale > p.smoothing ? p.scale : p.smoothing;
  S least(1e300);
  for (int r = 0; r < p.nrow; ++r) s.best[r] = S(0);
  const auto follow = [&](const InteriorPath<S, kRims>& path) {
    ++out.stage;
    out.solved = follow_to(path, k, out);
    if (!out.solved && !(out.residual < least)) return;
    least = out.residual;
    for (int r = 0; r < p.nrow; ++r) s.best[r] = x.now.lam[r];
  };
  for (const PathStart<S>& from : starts) {
    const InteriorPath<S, kRims> path{p, s, x, from, p.W, speed};
    path.start();
    follow(path);
    if (out.solved) break;
  }
  // the path may turn back on its way down; another branch comes up from the exact solution
  if (!out.solved && solve_world(p, s, x, WorldBegin::sweeps).solved) {
    const InteriorPath<S, kRims> path{p, s, x, starts[1], p.W, speed};
    BesideExact<S, kRims>{path, S(1e-6) * k, S(1e-3) * p.smoothing}.start();
    follow(path);
  }
  out.residual = least;
  row_velocities(p, s.best, p.b, s.y, s.w);
  return out;
}
template <class S>
FB_FN WorldOutcome solve_smooth(WorldRows<S>& p, WorldScratch<S>& s, PathScratch<S>& x) {
  return p.nrim > 0 ? solve_smooth_path<true>(p, s, x) : solve_smooth_path<false>(p, s, x);
}

}  // namespace fb::FB_ISA
