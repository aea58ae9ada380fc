// Outputs of the worlds of one block, the forces of a step's contacts among them.
#pragma once
#include "core/soft/contact_forces.hpp"
#include "engine/jobs/output.hpp"

namespace fb::FB_ISA {

// the state and the controls that an output of a step reads
template <class T, class P, class Task>
FB_FN void load_drive(const Task& t, const WorldsOf<T>& block, WorldBlock<T, P>& b) {
  using R = Real<T>;
  const Layout& s = b.m.s;
  const R* drive = static_cast<const R*>(t.x);
  for (int i = 0; i < state_size(s); ++i) b.x[i] = T(0);
  load(block, {t.q, s.nq}, s.nq, b.x);
  load(block, {t.v, s.nv}, s.nv, velocity_of(s, b.x));
  if (s.na > 0) load(block, {drive, s.na + s.nu}, s.na, activation_of(s, b.x));
  if (s.nu > 0) load(block, {drive + s.na, s.na + s.nu}, s.nu, b.u);
}
// visit(lanes) those of a block whose contacts there is room for together, with the forces in them in y
template <class T, class P, class F>
FB_FN void for_contact_forces(WorldBlock<T, P>& b, T* y, F&& visit) {
  const auto evaluate = [&](Mask<T> only, bool alone) {
    contact_forces(b.m, b.o, b.x, b.u, only, y, b.w);
    if (!alone && any(b.w.overflow)) return true;
    visit(only);
    return false;
  };
  if (evaluate(Mask<T>(true), kLanes<T> == 1)) for_parts<T>(evaluate);
}

template <class T, class P>
FB_FN void run_contact_forces(const OutputTask& t, long index, char* workspace) {
  WorldBlock<T, P> b;
  b.open(t, index, workspace, false);
  const WorldsOf<T> block(t, index);
  const int n = output_size(b.m.s, t.output);
  load_drive(t, block, b);
  // poses take as much room as both
  T *y = b.output, *part = y + n;
  const T none = T(Real<T>(__builtin_nan("")));
  for_contact_forces(b, part, [&](Mask<T> only) {
    for (int i = 0; i < n; ++i) y[i] = select(only, select(b.w.overflow, none, part[i]), y[i]);
  });
  store(block, {t.y, n}, n, y);
}

template <class T, class P>
FB_FN void run_contact_forces_vjp(const OutputVjpTask& t, long index, char* workspace) {
  WorldBlock<T, P> b;
  b.open(t, index, workspace, t.theta_bar.at != nullptr);
  const WorldsOf<T> block(t, index);
  const Layout& s = b.m.s;
  const int n = output_size(s, t.output), nparam = theta_size(s) + derived_size(s);
  if (t.theta_bar.at)
    for (int i = 0; i < nparam; ++i) b.param_bar[i] = T(0);
  load_drive(t, block, b);
  T *y_bar = b.output, *part = y_bar + n;
  load(block, {t.y_bar, n}, n, y_bar);
  for (int i = 0; i < state_size(s); ++i) b.x_bar[i] = T(0);
  for (int i = 0; i < s.nu; ++i) b.u_bar[i] = T(0);
  const T none = T(Real<T>(__builtin_nan("")));
  for_contact_forces(b, part, [&](Mask<T> only) {
    // lanes that are not asked for have no cotangent, and get none
    for (int i = 0; i < n; ++i) part[i] = select(only, y_bar[i], T(0));
    if (t.theta_bar.at) bind_parameter_bars(b);
    contact_forces_adjoint(b.m, b.o, step_point<T>(s, b.x, b.u, nullptr), part,
                           {nullptr, b.x_bar, b.u_bar, b.t}, b.w);
    b.w.theta_bar = nullptr;
    b.w.derived_bar = nullptr;
    const Mask<T> missing = only & without_gradient(b);
    for (int i = 0; i < s.nq; ++i) b.x_bar[i] = select(missing, none, b.x_bar[i]);
  });
  using R = Real<T>;
  R* third_bar = static_cast<R*>(t.x_bar);
  store(block, {t.q_bar, s.nq}, s.nq, b.x_bar);
  store(block, {t.v_bar, s.nv}, s.nv, velocity_of(s, b.x_bar));
  if (third_bar) {
    store(block, {third_bar, s.na + s.nu}, s.na, activation_of(s, b.x_bar));
    store(block, {third_bar + s.na, s.na + s.nu}, s.nu, b.u_bar);
  }
  if (!t.theta_bar.at) return;
  bind_parameter_bars(b);
  parameter_adjoint(b);
  store(block, t.theta_bar, nparam, b.param_bar);
}

// any output
template <class T, class P>
FB_FN void run_any_output(const OutputTask& t, long index, char* workspace) {
  if (t.output == Output::contact_forces) return run_contact_forces<T, P>(t, index, workspace);
  run_output<T, P>(t, index, workspace);
}
template <class T, class P>
FB_FN void run_any_output_vjp(const OutputVjpTask& t, long index, char* workspace) {
  if (t.output == Output::contact_forces) return run_contact_forces_vjp<T, P>(t, index, workspace);
  run_output_vjp<T, P>(t, index, workspace);
}

}  // namespace fb::FB_ISA
