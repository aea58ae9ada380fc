// Forward mode along the states of a rollout, in dual numbers.
#pragma once
#include "engine/jobs/backward.hpp"

namespace fb::FB_ISA {

template <class D, class P>
FB_FN void run_jvp(const JvpTask& t, long index, char* workspace) {
  using R = Real<D>;
  WorldBlock<D, P> b;
  b.open(t, index, workspace, false, t.dot.theta);
  const WorldsOf<D> block(t, index);
  const int nx = state_size(b.m.s);
  for (long k = t.first_step; k < t.last_step; ++k) {
    load_step(t.x, t.u, t.dot, block, k, b);
    step_block(b);
    const Mask<D> finite = all_finite(b.x1, nx);
    note_status<D>(block, t.status, k, kNonFinite, !finite);
    note_status<D>(block, t.status, k, kNoGradient, without_gradient(b) & finite);
    store(block, Target{nullptr, 0}, row_of<R>(t.x_dot, t.dot.x, k + 1), nx, b.x1);
  }
}

}  // namespace fb::FB_ISA
