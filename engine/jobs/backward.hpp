// The backward pass over the steps of a rollout: one loop for plain numbers (vjp) and for dual
// numbers (hvp), whose tangent is the Hessian times a direction.
#pragma once
#include "engine/world_block.hpp"

namespace fb::FB_ISA {

// the tangents that a task has beside its arrays; a vjp has none
FB_INLINE RolloutTangent direction_of(const VjpTask&) { return {}; }
FB_INLINE RolloutTangent direction_of(const HvpTask& t) { return t.dot; }
FB_INLINE Cotangents x_cot_dot(const VjpTask&) { return {}; }
FB_INLINE Cotangents x_cot_dot(const HvpTask& t) { return t.x_cot_dot; }
FB_INLINE Target x_bar_dot(const VjpTask&) { return {}; }
FB_INLINE Target x_bar_dot(const HvpTask& t) { return t.x_bar_dot; }
FB_INLINE Target u_bar_dot(const VjpTask&) { return {}; }
FB_INLINE Target u_bar_dot(const HvpTask& t) { return t.u_bar_dot; }
FB_INLINE Target theta_bar_dot(const VjpTask&) { return {}; }
FB_INLINE Target theta_bar_dot(const HvpTask& t) { return t.theta_bar_dot; }

FB_INLINE Source as_source(const Target& x) { return {x.at, x.stride}; }

// the cotangent that the caller gave for state k, if any, is added to the numbers at(i)
template <class T, class F>
FB_INLINE void add_rows(const WorldsOf<T>& block, const Cotangents& c, long k, long steps, int n,
                        F&& at) {
  using R = Real<T>;
  const long row = k - (steps + 1 - c.rows);
  if (!c.at || row < 0) return;
  const R* from = static_cast<const R*>(c.at) + row * n;
  for (int l = 0; l < kLanes<T>; ++l) {
    const R* one = from + block.at(l) * c.rows * n;
    for (int i = 0; i < n; ++i) set_lane(at(i), l, lane(at(i), l) + one[i]);
  }
}
template <class T>
FB_FN void add_cotangent(const WorldsOf<T>& block, const Cotangents& c, const Cotangents&, long k,
                         long steps, int n, T* x) {
  add_rows<T>(block, c, k, steps, n, [=](int i) -> T& { return x[i]; });
}
template <class T>
FB_FN void add_cotangent(const WorldsOf<T>& block, const Cotangents& c, const Cotangents& dot,
                         long k, long steps, int n, Dual<T>* x) {
  add_rows<T>(block, c, k, steps, n, [=](int i) -> T& { return x[i].v; });
  add_rows<T>(block, dot, k, steps, n, [=](int i) -> T& { return x[i].d; });
}

// counts of every world, and where asked for a line of the trace
template <class S>
FB_FN void note_backward(const VjpTask& t, const WorldsOf<S>& block, long k,
                         const BackwardNotes<S>& n, S norm) {
  using R = Real<S>;
  note_status<S>(block, t.status, k, kNoGradient, n.missing);
  for (int l = 0; l < block.count(); ++l) {
    const long world = block.at(l);
    if (t.unrolled) t.unrolled[world] += mask_lane(n.unrolled, l);
    if (t.ties) t.ties[world] += int32_t(lane(n.ties, l));
    if (!t.trace) continue;
    R* row = static_cast<R*>(t.trace) + (world * t.steps + k) * kTraceSize;
    row[0] = lane(norm, l);
    row[1] = lane(n.contacts, l);
    row[2] = lane(n.residual, l);
    row[3] = R(mask_lane(n.unrolled, l));
    row[4] = lane(n.ties, l);
  }
}
// length of a state's cotangent, q in the tangent space
template <class S, class P>
FB_FN S bar_norm(WorldBlock<S, P>& b) {
  const Layout& s = b.m.s;
  lower_tangent(s, b.x, b.x_bar, b.x2);
  S sum(0);
  const S *v_bar = velocity_of(s, b.x_bar), *act_bar = activation_of(s, b.x_bar);
  for (int i = 0; i < s.nv; ++i) sum += b.x2[i] * b.x2[i] + v_bar[i] * v_bar[i];
  for (int i = 0; i < s.na; ++i) sum += act_bar[i] * act_bar[i];
  return sqrt(sum);
}

// state k of the rollout and the control that acts on it, with their tangents
template <class S, class P>
FB_FN void load_step(const Rows& x, const Rows& u, const RolloutTangent& dot,
                     const WorldsOf<S>& block, long k, WorldBlock<S, P>& b) {
  using R = Real<S>;
  load(block, row_of<R>(x, k), row_of<R>(dot.x, k), state_size(b.m.s), b.x);
  if (b.m.s.nu > 0) load(block, row_of<R>(u, k), row_of<R>(dot.u, k), b.m.s.nu, b.u);
}

// sums of the parameters' cotangents are kept in the caller's array between pieces of a rollout, so
// that any cut gives the same bits
template <class S, class P, class Task>
FB_FN void run_backward(const Task& t, long index, char* workspace) {
  WorldBlock<S, P> b;
  const RolloutTangent dot = direction_of(t);
  b.open(t, index, workspace, t.theta_bar.at != nullptr, dot.theta);
  const WorldsOf<S> block(t, index);
  const Layout& s = b.m.s;
  const int nx = state_size(s), nparam = theta_size(s) + derived_size(s);
  if (t.theta_bar.at) {
    load(block, as_source(t.theta_bar), as_source(theta_bar_dot(t)), nparam, b.param_bar);
    bind_parameter_bars(b);
  }
  load(block, as_source(t.x_bar), as_source(x_bar_dot(t)), nx, b.x_bar);
  for (long k = t.last_step - 1; k >= t.first_step; --k) {
    load_step(t.x, t.u, dot, block, k, b);
    // what the caller gave for this state joins what came back through the steps after it
    add_cotangent(block, t.x_cot, x_cot_dot(t), k + 1, t.steps, nx, b.x_bar);
    S* const next = b.x_bar;
    b.x_bar = b.x1_bar;
    b.x1_bar = next;
    const BackwardNotes<S> notes = adjoint_block(b);
    note_backward(t, block, k, notes, t.trace ? bar_norm(b) : S(0));
    if (s.nu > 0) {
      const Rows value{t.u_bar.at, t.u_bar.stride, s.nu};
      const Rows tangent{u_bar_dot(t).at, u_bar_dot(t).stride, s.nu};
      using R = Real<S>;
      store(block, row_of<R>(t.u_bar.at, value, k), row_of<R>(u_bar_dot(t).at, tangent, k), s.nu,
            b.u_bar);
    }
  }
  if (t.first_step == 0) add_cotangent(block, t.x_cot, x_cot_dot(t), 0, t.steps, nx, b.x_bar);
  store(block, t.x_bar, x_bar_dot(t), nx, b.x_bar);
  if (!t.theta_bar.at) return;
  if (t.first_step == 0 && t.finish_params) parameter_adjoint(b);
  store(block, t.theta_bar, theta_bar_dot(t), nparam, b.param_bar);
}

}  // namespace fb::FB_ISA
