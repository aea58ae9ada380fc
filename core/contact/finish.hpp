// What the lanes' solver leaves, world by world: see core/solver/interior.hpp.
#pragma once
#include "core/contact/world_problem.hpp"

namespace fb::FB_ISA {

// a residual below this share of the largest row velocity matters to nobody
inline constexpr double kSlight = 1e-6;

// solve lane k from its rows alone; false where it is not solved
template <class T>
FB_FN bool finish_world(const Layout& s, Work<T>& w, int k) {
  WorldWork& o = w.world;
  world_problem(s, w, k, o.number, o.row, o.rows);
  if (o.rows.tolerance > 1e-8) o.rows.tolerance = 1e-8;
  const WorldOutcome out = solve_world(o.rows, o.scratch, o.path, false);
  const bool solved = out.solved || out.residual <= kSlight * o.rows.scale;
  if (!solved) return false;
  for (int r = 0; r < o.rows.nrow; ++r)
    set_value_lane(w.solution.lam[o.row[r]], k, Real<T>(o.scratch.best[r]));
  set_value_lane(w.solution.residual, k, Real<T>(out.residual));
  return true;
}
// those of `live`; returns the lanes that are still not solved
template <class T>
FB_FN Mask<T> finish_worlds(const Layout& s, Work<T>& w, Mask<T> live) {
  for (int k = 0; k < kLanes<T>; ++k)
    if (mask_lane(live, k) && finish_world(s, w, k)) set_mask_lane(live, k, false);
  return live;
}

}  // namespace fb::FB_ISA
