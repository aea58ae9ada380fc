// Outputs of a model, and their adjoints, over the worlds of one block.
#pragma once
#include "bindings/block.hpp"
#include "core/dynamics/outputs.hpp"

namespace fb::FB_ISA {
namespace {

// the output of a job, which bears its name
inline Output output_of(Job job) { return Output(int(job) - int(Job::poses)); }
static_assert(int(Output::poses) == 0);

// room for the largest output, and for the cotangent of its third input
inline size_t evaluation_size(const Layout& s) {
  size_t most = 0;
#define FB_X(name, ...) Output::name,
  for (Output kind : {FB_OUTPUTS(FB_X)}) {
#undef FB_X
    const size_t n = size_t(output_size(s, kind));
    most = n > most ? n : most;
  }
  return most + s.nv;
}

// B: an opened block whose third input lies in u; room: evaluation_size.  Where the task has a
// q_bar, its y holds cotangents, and q_bar, v_bar and u_bar receive those of the inputs
template <class B>
void evaluate(Job job, const Task& t, long block, B& b, T* room) {
  const Layout& s = b.m.s;
  const Output kind = output_of(job);
  const int n = output_size(s, kind);
  T *y = room, *x_bar = room + n;
  load(t, block, t.q, s.nq, 0, s.nq, b.q);
  for (int i = 0; i < s.nv; ++i) b.v[i] = b.u[i] = T(0);
  if (t.v) load(t, block, t.v, s.nv, 0, s.nv, b.v);
  if (t.x) load(t, block, t.x, s.nv, 0, s.nv, b.u);
  const OutputPoint<T> at{b.q, b.v, b.u};
  output(b.m, kind, at, y, b.w);
  if (!t.q_bar) return store(t, block, t.y, n, 0, n, y);
  load(t, block, t.y, n, 0, n, y);
  for (int i = 0; i < s.nq; ++i) b.q_bar[i] = T(0);
  for (int i = 0; i < s.nv; ++i) b.v_bar[i] = x_bar[i] = T(0);
  output_adjoint(b.m, kind, at, y, {b.q_bar, b.v_bar, x_bar}, b.w);
  store(t, block, t.q_bar, s.nq, 0, s.nq, b.q_bar);
  if (t.v_bar) store(t, block, t.v_bar, s.nv, 0, s.nv, b.v_bar);
  if (t.u_bar) store(t, block, t.u_bar, s.nv, 0, s.nv, x_bar);
}

}  // namespace
}  // namespace fb::FB_ISA
