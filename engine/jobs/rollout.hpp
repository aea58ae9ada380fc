// Steps of one block of worlds, one after the other.
#pragma once
#include "engine/world_block.hpp"

namespace fb::FB_ISA {

// how many groups act in each world, and the first of them: worlds with like numbers are alike
template <class T>
FB_FN void note_touch(const WorldsOf<T>& block, const Work<T>& w, uint32_t* out) {
  for (int k = 0; k < block.count(); ++k) {
    uint32_t count = 0, first = 0;
    for (int g = 0; g < w.ngroup; ++g) {
      if (!mask_lane(w.geometry[g].active, k)) continue;
      const uint32_t own = uint32_t(2 * w.group[g].source) + (w.group[g].kind == kContactRows);
      if (count < 3) first |= (own & 511u) << (9 * (2 - count));
      count += count < 31;
    }
    out[block.at(k)] = count << 27 | first;
  }
}
// the steps of one block that is open
template <class T, class P>
FB_FN void roll_block(WorldBlock<T, P>& b, const RolloutTask& t, long index) {
  using R = Real<T>;
  const WorldsOf<T> block(t, index);
  const Layout& s = b.m.s;
  const int nx = state_size(s);
  load(block, row_of<R>(t.x, t.first_step), nx, b.x);
  for (long k = t.first_step; k < t.last_step; ++k) {
    if (s.nu > 0) load(block, row_of<R>(t.u, k), s.nu, b.u);
    step_block(b);
    Mask<T> finite(true);
    for (int i = 0; i < nx; ++i) finite = finite & is_finite(b.x[i] = b.x1[i]);
    note_status<T>(block, t.status, k, kNonFinite, !finite);
    note_status<T>(block, t.status, k, kContactOverflow, b.w.overflow);
    note_status<T>(block, t.status, k, kUnconverged, b.w.solution.unconverged & finite);
    note_largest(block, t.residual, b.w.solution.residual);
    note_largest(block, t.sweeps, b.w.solution.sweeps);
    note_largest(block, t.factorisations, b.w.solution.factorisations);
    store(block, row_of<R>(t.x_out, t.x, k + 1), nx, b.x);
  }
  if (t.touch && t.first_step < t.last_step) note_touch(block, b.w, t.touch);
}
template <class T, class P>
FB_FN void run_rollout(const RolloutTask& t, long index, char* workspace) {
  WorldBlock<T, P> b;
  const long chunk = t.chunk > 1 ? t.chunk : 1, worlds = kLanes<T>;
  for (long i = index * chunk; i < (index + 1) * chunk && i * worlds < t.worlds; ++i) {
    // what lanes share is opened once
    if (i == index * chunk || !b.kShared) b.open(t, i, workspace, false);
    roll_block(b, t, i);
  }
}

}  // namespace fb::FB_ISA
