// Jacobians of one step under MuJoCo's law: a world stands in all lanes, and each lane takes the
// adjoint of another row.
#pragma once
#include "engine/world_block.hpp"

namespace fb::FB_ISA {

// a task of one world alone
template <class R>
FB_FN LinearizeTask task_of_world(const LinearizeTask& t, long world) {
  const Layout& s = t.layout;
  const long n = 2 * s.nv + s.na;
  LinearizeTask one = t;
  one.worlds = 1;
  one.x.at = static_cast<const R*>(t.x.at) + world * t.x.stride;
  if (t.u.at) one.u.at = static_cast<const R*>(t.u.at) + world * t.u.stride;
  if (t.theta_per_world) one.theta = static_cast<const R*>(t.theta) + world * theta_size(s);
  one.A = static_cast<R*>(t.A) + world * n * n;
  one.B = static_cast<R*>(t.B) + world * n * s.nu;
  one.status = {t.status.status + world, t.status.step + world};
  return one;
}
// cotangents of rows first, first + 1, ... of the next state, one a lane
template <class T, class P>
FB_FN void set_row_bars(WorldBlock<T, P>& b, int first) {
  const Layout& s = b.m.s;
  for (int d = 0; d < s.nv; ++d) b.x2[d] = T(0);
  for (int i = 0; i < state_size(s); ++i) b.x1_bar[i] = T(0);
  for (int k = 0; k < kLanes<T>; ++k)
    if (first + k < s.nv) set_lane(b.x2[first + k], k, Real<T>(1));
  lift_tangent(s, b.x1, b.x2, b.x1_bar);
  for (int k = 0; k < kLanes<T>; ++k)
    if (first + k >= s.nv && first + k < 2 * s.nv + s.na)
      set_lane(b.x1_bar[s.nq - s.nv + first + k], k, Real<T>(1));
}
// one world by itself
template <class T, class P>
FB_FN void linearize_world(const LinearizeTask& t, char* workspace) {
  using R = Real<T>;
  WorldBlock<T, P> b;
  b.open(t, 0, workspace, false);
  const WorldsOf<T> block(t, 0);
  const Layout& s = b.m.s;
  const int nv = s.nv, n = 2 * nv + s.na;
  load(block, t.x, state_size(s), b.x);
  if (s.nu > 0) load(block, t.u, s.nu, b.u);
  step(b.m, b.o, b.x, b.u, Mask<T>(true), b.x1, b.w);
  const Mask<T> missing = without_gradient(b);
  Mask<T> finite = all_finite(b.x1, state_size(s));
  T* line = b.t;
  for (int first = 0; first < n; first += kLanes<T>) {
    set_row_bars(b, first);
    adjoint_lanes(b);
    lower_tangent(s, b.x, b.x_bar, line);
    const T* rest = velocity_of(s, b.x_bar);
    finite =
        finite & all_finite(line, nv) & all_finite(rest, nv + s.na) & all_finite(b.u_bar, s.nu);
    for (int k = 0; k < kLanes<T> && first + k < n; ++k) {
      R *A = static_cast<R*>(t.A) + (first + k) * n, *B = static_cast<R*>(t.B) + (first + k) * s.nu;
      // adding zero turns -0 to 0
      for (int d = 0; d < nv; ++d) A[d] = lane(line[d], k) + R(0);
      for (int d = 0; d < nv + s.na; ++d) A[nv + d] = lane(rest[d], k) + R(0);
      for (int a = 0; a < s.nu; ++a) B[a] = lane(b.u_bar[a], k) + R(0);
    }
  }
  *t.status.status |= !all(finite) ? kNonFinite : any(missing) ? kNoGradient : 0u;
  if (*t.status.status) *t.status.step = 0;
}

}  // namespace fb::FB_ISA
