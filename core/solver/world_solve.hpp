// The exact solve of one world: sweeps and Newton steps, then the interior path from one start after
// another.  Machine numbers only.  Proof: docs/derivations/worlds.md.
#pragma once
#include "core/solver/begin_world.hpp"
#include "core/solver/convex.hpp"
#include "core/solver/path_continuation.hpp"

namespace fb::FB_ISA {

// one sweep from zero, and a few more; true where they end at the solution
template <class S>
FB_FN bool first_sweep(const WorldRows<S>& p, WorldScratch<S>& s, WorldOutcome& out) {
  for (int r = 0; r < p.nrow; ++r) s.lam[r] = S(0);
  clear_dofs(p, s.y2);
  sweep_world(p, s.lam, s.y2);
  return world_done(p, s, out.residual);
}
template <class S>
FB_FN bool more_sweeps(const WorldRows<S>& p, WorldScratch<S>& s, WorldOutcome& out) {
  for (int k = 0; k < 3; ++k) sweep_world(p, s.lam, s.y2);
  return world_done(p, s, out.residual);
}
// (V.12)  whether Newton steps from the sweeps would go round in circles: more rows act than there are dofs, or
// all contacts stick and rows with two bounds are between them
template <class S>
FB_FN bool is_overfull(const WorldRows<S>& p, const WorldScratch<S>& s) {
  int acting = 0, between = 0, stick = 0, others = 0;
  for (int b = 0; b < p.nblock; ++b) {
    const RowBlock& k = p.block[b];
    if (k.cone == kRimBlock) continue;
    for (int r = k.row; r < k.row + (k.cone ? 1 : k.rows); ++r) {
      const bool free = world_free(p, s.best, s.w, r, S(1));
      const bool sticks = k.cone && free && !world_tangents(p, k, s.best, s.w, S(1)).slide1;
      acting += !free ? 0 : sticks ? 3 : k.cone ? 2 : 1;
      between += free && !k.cone;
      stick += sticks;
      others += k.cone && !sticks;
    }
  }
  return acting > p.ndof || (others == 0 && stick > 0 && between > 1);
}
// (W.1)  Newton steps from the first sweeps.  The impulses are in s.best with their velocities in s.w
template <class S>
FB_FN bool newton_from_sweeps(const WorldRows<S>& p, WorldScratch<S>& s, int circle,
                              Real<S> most_growth, WorldOutcome& out) {
  S least(1e300);
  int since = 0;
  for (int k = 0;; ++k) {
    since = out.residual < least ? 0 : since + 1;
    least = since == 0 ? out.residual : least;
    const bool lost = since == circle || !(out.residual <= S(most_growth) * least);
    if (k == kNewtonSteps || lost) return false;
    row_velocities(p, s.lam, p.b, s.y, s.w);
    newton_world(p, s, S(1), true);
    out.exact = true;
    ++out.factorisations;
    if (world_done(p, s, out.residual)) return true;
  }
}
// a residual over the scale that needs no polish: the rounding of velocities
inline constexpr double kPolished = 1e-15;
// a residual within the tolerance is 1/R of it in the impulses, and derivatives see that: two more steps
// with the factors of the last one, if they lower the residual
template <class S>
FB_FN void polish_world(const WorldRows<S>& p, WorldScratch<S>& s, PathScratch<S>& x,
                        WorldOutcome& out) {
  for (int k = 0; k < 2 && out.residual > S(kPolished) * p.scale; ++k) {
    const S before = out.residual;
    for (int r = 0; r < p.nrow; ++r) s.lam[r] = x.nearest[r] = s.best[r];
    newton_world(p, s, S(1), !out.exact || out.residual > S(1e-3) * p.tolerance * p.scale);
    out.exact = true;
    world_done(p, s, out.residual);
    if (out.residual < before) continue;
    for (int r = 0; r < p.nrow; ++r) s.lam[r] = x.nearest[r];
    world_done(p, s, out.residual);
    return;
  }
}
// a number between 1/3 and 3 that belongs to a row and a draw
FB_INLINE double drawn_weight(int r, int draw) {
  unsigned h = (unsigned(r) + 1u) * 2654435761u ^ unsigned(draw) * 40503u * 2246822519u;
  h ^= h >> 15;
  h *= 2246822519u;
  h ^= h >> 13;
  return draw == 0 ? 1.0 : 1.0 / 3.0 + (h % 1024u) / 384.0;
}
// Newton steps from sweeps without a better point, and how much worse than the best one they may become, before
// convex ones are taken
inline constexpr int kWorldCircle = 2;
inline constexpr double kWorldGrowth = 10;
// the starts of the path, in their order
inline constexpr int kStarts = 8;
template <class S>
FB_FN PathStart<S> path_start(int k) {
  const PathStart<S> starts[kStarts] = {{S(0.3), S(1), S(1e-3), kReduce2000, 0, true},
                                        {S(0.3), S(1), S(1e-3), kReduce2000, 0, true, S(1e5)},
                                        {S(0.3), S(1), S(1e-3), kReduce2000, 1, true, S(1e6)},
                                        {S(1e2), S(1), S(1e-2), kReduce50},
                                        {S(0.3), S(0.3), S(1e-3), kReduce2000, 2, true},
                                        {S(1e2), S(1e4), S(1e-2), kReduce50},
                                        {S(0.3), S(0.1), S(1e-3), kReduce2000, 3, true},
                                        {S(1e2), S(1e2), S(1e-2), kReduce10FirstOrder}};
  return starts[k];
}
// so many of them come before the first continuation
inline constexpr int kStartsBefore = 2;
// the starts of the continuation are draws of one; a residual over the scale that ends them; how late friction
// comes in them
inline constexpr int kContinuations = 3;
inline constexpr double kContinued = 1e-7, kContinuedLate = 1e4;

// rows for each dof above which the states of the beginning are tried whatever the sweeps suggest
inline constexpr int kManyRows = 4;
// what comes before the path: nothing; convex steps; those and then sweeps and Newton steps; both in the order
// that the sweeps suggest
enum class WorldBegin { path, convex, overfull, sweeps };
template <class S>
FB_FN bool begin_world(WorldRows<S>& p, WorldScratch<S>& s, PathScratch<S>& x, WorldBegin begin,
                       WorldOutcome& out) {
  if (begin == WorldBegin::path) return false;
  const auto convex = [&] {
    const ConvexScratch<S> rows{x.now.lam,
                                x.now.w,
                                x.now.a,
                                x.now.eta,
                                x.now.h,
                                x.now.lower,
                                x.now.upper,
                                x.now.z_lower,
                                {x.next.lam, x.next.w, x.next.a, x.next.eta, x.next.h, x.bend.lam,
                                 x.bend.w, x.bend.a, x.bend.eta, x.bend.h, x.bend.lower}};
    return ConvexNewton<S>{p, s, rows}.solve(out);
  };
  if (begin == WorldBegin::convex) return convex();
  const auto newton = [&] { return newton_from_sweeps(p, s, kWorldCircle, kWorldGrowth, out); };
  if (begin == WorldBegin::sweeps) {
    if (first_sweep(p, s, out)) return true;
    const bool overfull = is_overfull(p, s);
    // many more rows than dofs are many more states than sweeps find
    const bool begins = overfull || p.nrow > kManyRows * p.ndof;
    if (begins && BeginStates<S>{p, s}.solve(out)) return true;
    // the first sweep is at hand where nothing came between
    if (!overfull)
      return (begins && first_sweep(p, s, out)) || more_sweeps(p, s, out) || newton() || convex();
  }
  return convex() || first_sweep(p, s, out) || more_sweeps(p, s, out) || newton();
}
// (V.16)  Newton steps from impulses that solve the problem without some of its rows
template <class S>
FB_FN bool newton_from(const WorldRows<S>& p, WorldScratch<S>& s, const S* start,
                       WorldOutcome& out) {
  for (int r = 0; r < p.nrow; ++r) s.lam[r] = start[r];
  return world_done(p, s, out.residual) ||
         newton_from_sweeps(p, s, kWorldCircle, kWorldGrowth, out);
}
// start: null, or impulses near the solution
template <class S>
FB_FN WorldOutcome solve_world(WorldRows<S>& p, WorldScratch<S>& s, PathScratch<S>& x,
                               WorldBegin begin, const S* start = nullptr) {
  WorldOutcome out{false, false, 0, 1, 0};
  prepare_world(p);
  envelope_of(p, s.H);
  if ((start && newton_from(p, s, start, out)) || begin_world(p, s, x, begin, out)) {
    out.solved = true;
    polish_world(p, s, x, out);
    return out;
  }
  if (p.nrim > 0)
    follow_paths<true>(p, s, x, out);
  else
    follow_paths<false>(p, s, x, out);
  return out;
}
// the path from one start after another, with rims beside the tangents or without
template <bool kRims, class S>
FB_FN void follow_paths(WorldRows<S>& p, WorldScratch<S>& s, PathScratch<S>& x, WorldOutcome& out) {
  using Path = InteriorPath<S, kRims>;
  S least(1e300);
  for (int r = 0; r < p.nrow; ++r) x.nearest[r] = S(0);
  S energy(0);
  for (int r = 0; r < p.nrow; ++r) energy = max(energy, p.b[r] * p.b[r] / p.D[r]);
  // (W.10)  the weight of a product: one for all, or D of its row
  const auto weight = [&](const PathStart<S>& from, int r) {
    const S own = from.energy && energy > S(0) ? p.scale * p.scale / energy : p.D[r];
    return own * S(drawn_weight(r, from.draw));
  };
  // true where `follow`, given the path of a start, ends at the solution
  const auto solves = [&](const PathStart<S>& from, auto&& follow) {
    ++out.stage;
    for (int r = 0; r < p.nrow; ++r) x.unit[r] = weight(from, r);
    out.solved = follow(Path{p, s, x, from, x.unit, p.scale});
    if (out.solved) {
      polish_world(p, s, x, out);
    } else if (out.residual < least) {
      least = out.residual;
      for (int r = 0; r < p.nrow; ++r) x.nearest[r] = s.best[r];
    }
    return out.solved;
  };
  const auto start = [&](int k) {
    return solves(path_start<S>(k), [&](const Path& path) { return path.follow(out); });
  };
  // what the path leaves where it turns
  const S size(0.3), product = size * p.scale * p.scale;
  const auto go_round = [&](int k) {
    if (least <= S(kContinued) * p.scale) return false;
    return solves({size, S(1), S(1e-3), kReduce50, k, true, S(kContinuedLate)},
                  [&](const Path& path) {
                    return PathContinuation<S, kRims>{path, product}.follow(out, least);
                  });
  };
  for (int k = 0; k < kStartsBefore; ++k)
    if (start(k)) return;
  if (go_round(0)) return;
  for (int k = kStartsBefore; k < kStarts; ++k)
    if (start(k)) return;
  for (int k = 1; k < kContinuations; ++k)
    if (go_round(k)) return;
  out.stage = 0;
  for (int r = 0; r < p.nrow; ++r) s.lam[r] = x.nearest[r];
  world_done(p, s, out.residual);
}

}  // namespace fb::FB_ISA
