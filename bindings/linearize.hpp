// Jacobians of one step for the worlds of a block.
#pragma once
#include "bindings/bench.hpp"
#include "core/linearize/step.hpp"

namespace fb::FB_ISA {
namespace {

// rows of v+ where a solve is differentiated sweep by sweep: one adjoint of the step for each
template <class B>
void unrolled_rows(B& b, LinearWork<T>& f) {
  const Layout& s = b.m.s;
  const Mask<T> here = b.w.solution.unrolled;
  for (int i = 0; i < s.nv; ++i) {
    for (int d = 0; d < s.nv; ++d) b.v1_bar[d] = T(d == i ? 1 : 0);
    for (int d = 0; d < s.nq; ++d) b.q1_bar[d] = T(0);
    adjoint_lanes(b);
    lower_tangent(s, b.q, b.q_bar, b.v2);
    T* row = f.dof_row(i);
    for (int d = 0; d < s.nv; ++d) row[d] = select(here, b.v2[d], row[d]);
    for (int d = 0; d < s.nv; ++d) row[s.nv + d] = select(here, b.v_bar[d], row[s.nv + d]);
    for (int a = 0; a < s.nu; ++a) row[2 * s.nv + a] = select(here, b.u_bar[a], row[2 * s.nv + a]);
  }
}

// numbers of one lane, a register at a time where
// they lie side by side; adding zero turns -0 into 0
inline void store_columns(const T* x, int k, int n, R* out) {
  int c = 0;
  if constexpr (W == 1)
    for (; c + kPack<T> <= n; c += kPack<T>)
      put_pack(pack_at(x + c) + Pack<T>(0), reinterpret_cast<T*>(out) + c);
  for (; c < n; ++c) out[c] = lane(x[c], k) + R(0);
}
// one row of (A, B) into the worlds of lanes [from, to)
inline void store_line(const Task& t, long block, int row, const T* line, int from, int to) {
  const int nv = t.layout->nv, nu = t.layout->nu, n = 2 * nv;
  for (int k = from; k < to && block * W + k < t.worlds; ++k) {
    const long world = block * W + k;
    store_columns(line, k, n, static_cast<R*>(t.A) + (world * n + row) * n);
    store_columns(line + n, k, nu, static_cast<R*>(t.B) + (world * n + row) * nu);
  }
}

// Jacobians of the step that was just run, for lanes [from, to)
template <class B>
void linearize_lanes(const Task& t, long block, B& b, LinearWork<T>& f, int from, int to) {
  const Layout& s = b.m.s;
  const StepPoint<T> at = step_point(s, b.q, b.u, b.v1);
  const Mask<T> missing = b.w.overflow;
  Mask<T> finite(true);
  velocity_jacobian(b.m, b.o, at, b.w, f);
  // a state may be NaN where no Jacobian looks
  for (int i = 0; i < s.nq; ++i) finite = finite & is_finite(b.q1[i]);
  for (int i = 0; i < s.nv; ++i) finite = finite & is_finite(b.v1[i]);
  if (any(b.w.solution.unrolled)) unrolled_rows(b, f);
  T* const scratch[4] = {b.v2, b.v_bar, b.q1_bar, b.q_bar};
  turn_blocks(b.m, at, b.q1, scratch, f);
  for (int d = 0; d < s.nv; ++d) {
    position_row(b.m, d, f);
    finite = finite & finite_columns(f.line, f.stride) & finite_columns(f.dof_row(d), f.stride);
    store_line(t, block, d, f.line, from, to);
    store_line(t, block, s.nv + d, f.dof_row(d), from, to);
  }
  for (int k = from; k < to && block * W + k < t.worlds; ++k) {
    const long world = block * W + k;
    const bool good = mask_lane(finite, k);
    t.status[world] |= !good ? kNonFinite : mask_lane(missing, k) ? kNoGradient : 0u;
    if (t.status[world]) t.status_step[world] = 0;
  }
}

template <class B>
void linearize_block(const Task& t, long block, B& b, LinearWork<T>& f) {
  const Layout& s = b.m.s;
  load(t, block, t.q, s.nq, 0, s.nq, b.q);
  load(t, block, t.v, s.nv, 0, s.nv, b.v);
  if (s.nu > 0) load(t, block, t.u, s.nu, 0, s.nu, b.u);
  step(b.m, b.o, b.q, b.u, Mask<T>(true), b.q1, b.w);
  if (W == 1 || !any(b.w.overflow)) return linearize_lanes(t, block, b, f, 0, W);
  // too many rows together, so each lane by itself
  for (int k = 0; k < W && block * W + k < t.worlds; ++k) {
    step(b.m, b.o, b.q, b.u, only_lane(k), b.q1, b.w);
    linearize_lanes(t, block, b, f, k, k + 1);
  }
}

}  // namespace
}  // namespace fb::FB_ISA
