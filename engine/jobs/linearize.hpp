// Jacobians of one step for the worlds of a block.
#pragma once
#include "core/linearize/step.hpp"
#include "engine/jobs/linearize_soft.hpp"

namespace fb::FB_ISA {

// rows of v+ where a solve is differentiated sweep by sweep: one adjoint of the step for each
template <class T, class P>
FB_FN void unrolled_velocity_rows(const StepPoint<T>& at, WorldBlock<T, P>& b, LinearWork<T>& f) {
  const Layout& s = b.m.s;
  const StepBars<T> bars{b.x1_bar, b.x_bar, b.u_bar, b.t};
  for (int i = 0; i < s.nv; ++i) {
    for (int d = 0; d < state_size(s); ++d) b.x1_bar[d] = T(d == s.nq + i ? 1 : 0);
    adjoint_row(b.m, b.o, at, bars, b.w.solution.unrolled, b.w, f.dof_row(i));
  }
}
// row d of q+; where positions were moved, an adjoint of the step
template <class T, class P>
FB_FN void next_position_row(const StepPoint<T>& at, int d, WorldBlock<T, P>& b, LinearWork<T>& f) {
  position_row(b.m, d, f);
  if (!any(b.w.recovery.moved)) return;
  unit_position_bar(b.m.s, b.x1, d, f, b.x1_bar);
  const StepBars<T> bars{b.x1_bar, b.x_bar, b.u_bar, b.t};
  adjoint_row(b.m, b.o, at, bars, b.w.recovery.moved, b.w, f.line);
}

// numbers of one lane, a register at a time where they lie side by side; adding zero turns -0 to 0
template <class T>
FB_FN void store_columns(const T* x, int k, int n, Real<T>* out) {
  int c = 0;
  if constexpr (kLanes<T> == 1)
    for (; c + kPack<T> <= n; c += kPack<T>) put_pack<T>(pack_at(x + c) + Pack<T>(0), out + c);
  for (; c < n; ++c) out[c] = lane(x[c], k) + Real<T>(0);
}
// one row of (A, B) into the worlds of lanes [from, to)
template <class T>
FB_FN void store_line(const LinearizeTask& t, const WorldsOf<T>& block, int row, const T* line,
                      int from, int to) {
  using R = Real<T>;
  const Layout& s = t.layout;
  const int n = 2 * s.nv + s.na, nu = s.nu;
  for (int k = from; k < to && k < block.count(); ++k) {
    const long world = block.at(k);
    store_columns(line, k, n, static_cast<R*>(t.A) + (world * n + row) * n);
    store_columns(line + n, k, nu, static_cast<R*>(t.B) + (world * n + row) * nu);
  }
}

// rows of a step that was cut by hits: one adjoint of it for each
template <class T, class P>
FB_FN void hit_rows(const LinearizeTask& t, const WorldsOf<T>& block, WorldBlock<T, P>& b,
                    LinearWork<T>& f, Mask<T> here, Mask<T>& finite) {
  const Layout& s = b.m.s;
  const int nv = s.nv, n = 2 * nv + s.na;
  for (int i = 0; i < n; ++i) {
    for (int d = 0; d < nv; ++d) b.x2[d] = T(d == i ? 1 : 0);
    for (int d = 0; d < state_size(s); ++d) b.x1_bar[d] = T(i >= nv && d == s.nq + i - nv ? 1 : 0);
    if (i < nv) lift_tangent(s, b.x1, b.x2, b.x1_bar);
    adjoint_lanes(b);
    lower_tangent(s, b.x, b.x_bar, f.line);
    for (int d = 0; d < nv + s.na; ++d) f.line[nv + d] = b.x_bar[s.nq + d];
    for (int a = 0; a < s.nu; ++a) f.line[n + a] = b.u_bar[a];
    finite = finite & ((!here) | all_finite(f.line, n + s.nu));
    for (int k = 0; k < block.count(); ++k)
      if (mask_lane(here, k)) store_line(t, block, i, f.line, k, k + 1);
  }
}

// Jacobians of the step that was just run, for lanes [from, to)
template <class T, class P>
FB_FN void linearize_lanes(const LinearizeTask& t, const WorldsOf<T>& block, WorldBlock<T, P>& b,
                           LinearWork<T>& f, int from, int to) {
  const Layout& s = b.m.s;
  const StepPoint<T> at = step_point(s, b.x, b.u, velocity_of(s, b.x1));
  const Mask<T> missing = without_gradient(b);
  StepPart<T>& first = b.w.hit.part[0];
  // lanes that were not hit need the rows of the whole step
  if (b.w.hit.count > 0) step_velocity(b.m, b.o, b.x, b.u, first.on, first.v1, b.w);
  velocity_jacobian(b.m, b.o, at, b.w, f);
  // a state may be NaN where no Jacobian looks
  Mask<T> finite = all_finite(b.x1, state_size(s));
  if (any(b.w.solution.unrolled)) unrolled_velocity_rows(at, b, f);
  T* const scratch[4] = {b.x2, velocity_of(s, b.x_bar), b.x1_bar, b.x_bar};
  turn_blocks(b.m, at, b.x1, scratch, f);
  for (int d = 0; d < s.nv; ++d) {
    next_position_row(at, d, b, f);
    finite = finite & finite_columns(f.line, f.stride) & finite_columns(f.dof_row(d), f.stride);
    store_line(t, block, d, f.line, from, to);
    store_line(t, block, s.nv + d, f.dof_row(d), from, to);
  }
  for (int a = 0; a < s.nu; ++a) {
    if (s.act_adr[a] < 0) continue;
    activation_row(b.m, a, at, b.w, f);
    finite = finite & finite_columns(f.line, f.stride);
    store_line(t, block, 2 * s.nv + s.act_adr[a], f.line, from, to);
  }
  if (b.w.hit.count > 0) hit_rows(t, block, b, f, first.hit, finite);
  for (int k = from; k < to && k < block.count(); ++k) {
    const long world = block.at(k);
    const bool good = mask_lane(finite, k);
    t.status.status[world] |= !good ? kNonFinite : mask_lane(missing, k) ? kNoGradient : 0u;
    if (t.status.status[world]) t.status.step[world] = 0;
  }
}

template <class T>
FB_FN size_t linear_workspace(const Layout& s, size_t workspace, char* base, LinearWork<T>& f) {
  return workspace + carve_linear(s, base ? base + workspace : nullptr, f);
}

// workspace_bytes: of a block, after which lies what the Jacobian needs
template <class T, class P>
FB_FN void run_linearize(const LinearizeTask& t, long index, char* workspace,
                         size_t workspace_bytes) {
  const WorldsOf<T> block(t, index);
  if (t.layout.soft) {
    for (int k = 0; k < block.count(); ++k)
      linearize_world<T, P>(task_of_world<Real<T>>(t, block.at(k)), workspace);
    return;
  }
  WorldBlock<T, P> b;
  b.open(t, index, workspace, false);
  LinearWork<T> f;
  linear_workspace(b.m.s, workspace_bytes, workspace, f);
  const Layout& s = b.m.s;
  load(block, t.x, state_size(s), b.x);
  if (s.nu > 0) load(block, t.u, s.nu, b.u);
  step(b.m, b.o, b.x, b.u, Mask<T>(true), b.x1, b.w);
  const bool apart = any(b.w.overflow) || (any(b.w.large) && any(b.w.few));
  if (kLanes<T> == 1 || !apart) return linearize_lanes(t, block, b, f, 0, kLanes<T>);
  // too many rows together, or few and many, so each lane by itself
  for (int k = 0; k < block.count(); ++k) {
    step(b.m, b.o, b.x, b.u, only_lane<T>(k), b.x1, b.w);
    linearize_lanes(t, block, b, f, k, k + 1);
  }
}

}  // namespace fb::FB_ISA
