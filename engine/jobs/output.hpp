// Outputs of a model, and their adjoints, over the worlds of one block.
#pragma once
#include "engine/world_block.hpp"

namespace fb::FB_ISA {

// the inputs that an output reads; those it does not have are zero
template <class T, class P, class Task>
FB_FN OutputPoint<T> load_point(const Task& t, const WorldsOf<T>& block, WorldBlock<T, P>& b) {
  const Layout& s = b.m.s;
  T* v = velocity_of(s, b.x);
  for (int i = 0; i < s.nv; ++i) v[i] = b.u[i] = T(0);
  load(block, {t.q, s.nq}, s.nq, b.x);
  if (t.v) load(block, {t.v, s.nv}, s.nv, v);
  if (t.x) load(block, {t.x, s.nv}, s.nv, b.u);
  return {b.x, v, b.u};
}

template <class T, class P>
FB_FN void run_output(const OutputTask& t, long index, char* workspace) {
  WorldBlock<T, P> b;
  b.open(t, index, workspace, false);
  const WorldsOf<T> block(t, index);
  const Output kind = t.output;
  const int n = output_size(b.m.s, kind);
  const OutputPoint<T> at = load_point(t, block, b);
  output(b.m, kind, at, b.output, b.w);
  store(block, {t.y, n}, n, b.output);
}

template <class T, class P>
FB_FN void run_output_vjp(const OutputVjpTask& t, long index, char* workspace) {
  WorldBlock<T, P> b;
  b.open(t, index, workspace, t.theta_bar.at != nullptr);
  const WorldsOf<T> block(t, index);
  const Layout& s = b.m.s;
  const Output kind = t.output;
  const int n = output_size(s, kind), nparam = theta_size(s) + derived_size(s);
  if (t.theta_bar.at) {
    for (int i = 0; i < nparam; ++i) b.param_bar[i] = T(0);
    bind_parameter_bars(b);
  }
  const OutputPoint<T> at = load_point(t, block, b);
  output(b.m, kind, at, b.output, b.w);
  load(block, {t.y_bar, n}, n, b.output);
  T *v_bar = velocity_of(s, b.x_bar), *third_bar = b.output + n;
  for (int i = 0; i < s.nq + s.nv; ++i) b.x_bar[i] = T(0);
  for (int i = 0; i < s.nv; ++i) third_bar[i] = T(0);
  output_adjoint(b.m, kind, at, b.output, {b.x_bar, v_bar, third_bar}, b.w);
  store(block, {t.q_bar, s.nq}, s.nq, b.x_bar);
  store(block, {t.v_bar, s.nv}, s.nv, v_bar);
  store(block, {t.x_bar, s.nv}, s.nv, third_bar);
  if (!t.theta_bar.at) return;
  parameter_adjoint(b);
  store(block, t.theta_bar, nparam, b.param_bar);
}

}  // namespace fb::FB_ISA
