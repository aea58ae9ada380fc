// Everything one block of worlds needs, and one step of it, forwards or backwards.  S is the lanes'
// number or its dual, P that of the parameters.
#pragma once
#include "bindings/evaluate.hpp"
#include "core/ties.hpp"

namespace fb::FB_ISA {
namespace {

template <class S, class P>
struct WorldBlock {
  Model<S, P> m;
  Options<R> o;
  Work<S> w;
  S *q, *v, *u, *q1, *v1, *q2, *v2, *u2;
  S *q_bar, *v_bar, *u_bar, *q1_bar, *v1_bar, *t, *param_bar, *lifted;
  Theta<S> theta_bar;
  Derived<S> derived_bar;
  P *theta, *derived;  // the block's own parameters, where lanes differ
  S* big;              // evaluation_size

  size_t carve_all(const Layout& s, char* base) {
    Carver c{base, 0};
    S** const at[5][2] = {{&q, &v}, {&q1, &v1}, {&q2, &v2}, {&q_bar, &v_bar}, {&q1_bar, &v1_bar}};
    for (const auto& [x, rate] : at) {
      *x = c.take<S>(state_size(s));
      *rate = *x + s.nq;
    }
    for (S** x : {&u2, &u_bar}) *x = c.take<S>(s.nu);
    u = c.take<S>(s.nu + s.nv);
    t = c.take<S>(4 * s.nv);
    const int n = theta_size(s) + derived_size(s);
    param_bar = c.take<S>(n);
    lifted = c.take<S>(n);
    big = c.take<S>(evaluation_size(s));
    theta = derived = nullptr;
    if constexpr (sizeof(P) > sizeof(R)) {
      theta = c.take<P>(theta_size(s));
      derived = c.take<P>(derived_size(s));
    }
    c.at = (c.at + 63) / 64 * 64;
    return c.at + carve(s, base ? base + c.at : nullptr, w);
  }
  // parameters that all lanes share stay where the task has them
  void open_shared(const Task& t, char* base) {
    carve_all(*t.layout, base);
    m.s = *t.layout;
    m.vert = static_cast<const R*>(t.vert);
    o = options_of(*t.options);
    if constexpr (sizeof(P) == sizeof(R)) {
      bind<const P>(m.s, static_cast<const P*>(t.theta), m.theta);
      bind<const P>(m.s, static_cast<const P*>(t.derived), m.derived);
      // wrenches are rare: without any, and without a gradient to give them, their loop is left out
      m.applied = t.theta_bar != nullptr;
      for (int i = 0; i < 6 * m.s.nbody; ++i)
        m.applied = m.applied || m.theta.xfrc_applied[i] != R(0);
    }
  }
  // those of the block, once they are loaded
  void derive_own() {
    bind<const P>(m.s, theta, m.theta);
    Derived<P> out;
    bind<P>(m.s, derived, out);
    fb::FB_ISA::derive(m.s, m.theta, m.vert, out);
    bind<const P>(m.s, derived, m.derived);
  }
};

template <class S>
void take_where(Mask<S> only, int n, const S* from, S* to) {
  for (int i = 0; i < n; ++i) to[i] = select(only, from[i], to[i]);
}
inline Mask<T> only_lane(int k) {
  Mask<T> only(false);
  set_mask_lane(only, k, true);
  return only;
}

// one step; when the rows of all lanes together exceed the capacity, each lane is stepped by itself
template <class S, class P>
void step_block(WorldBlock<S, P>& b) {
  step(b.m, b.o, b.q, b.u, Mask<S>(true), b.q1, b.w);
  if (W == 1 || !any(b.w.overflow)) return;
  Mask<S> overflow(false), unconverged(false), unrolled(false);
  S residual(0), sweeps(0);
  for (int k = 0; k < W; ++k) {
    const Mask<S> only = only_lane(k);
    step(b.m, b.o, b.q, b.u, only, b.q2, b.w);
    take_where(only, b.m.s.nq, b.q2, b.q1);
    take_where(only, b.m.s.nv, b.v2, b.v1);
    overflow = overflow | (only & b.w.overflow);
    unconverged = unconverged | (only & b.w.solution.unconverged);
    unrolled = unrolled | (only & b.w.solution.unrolled);
    residual = select(only, b.w.solution.residual, residual);
    sweeps = select(only, b.w.solution.sweeps, sweeps);
  }
  b.w.overflow = overflow;
  b.w.solution.unconverged = unconverged;
  b.w.solution.unrolled = unrolled;
  b.w.solution.residual = residual;
  b.w.solution.sweeps = sweeps;
}

// what a backward step tells besides its bars
template <class S>
struct BackwardNotes {
  Mask<S> missing, unrolled;  // no gradient; differentiated sweep by sweep
  S ties, residual, contacts;
};

// the adjoint of the step that was just run; bars of the next state in q1_bar, v1_bar
template <class S, class P>
void adjoint_lanes(WorldBlock<S, P>& b) {
  const Layout& s = b.m.s;
  for (int i = 0; i < s.nq; ++i) b.q_bar[i] = S(0);
  for (int i = 0; i < s.nv; ++i) b.v_bar[i] = S(0);
  for (int i = 0; i < s.nu; ++i) b.u_bar[i] = S(0);
  const StepPoint<S> at = step_point(b.m.s, b.q, b.u, b.v1);
  const StepBars<S> bars{b.q1_bar, b.q_bar, b.u_bar, b.t};
  step_adjoint(b.m, b.o, at, bars, b.w);
}
// contacts that carry a force in the step that was just run
template <class S>
S pushing_contacts(const Work<S>& w) {
  S count(0);
  for (int i = 0; i < w.ngroup; ++i)
    if (w.group[i].kind == kContactRows)
      count += one_where<S>(w.geometry[i].active & (w.solution.lam[w.group[i].row] > S(0)));
  return count;
}
template <class S, class P>
BackwardNotes<S> noted_adjoint(WorldBlock<S, P>& b) {
  const StepPoint<S> at = step_point(b.m.s, b.q, b.u, b.v1);
  BackwardNotes<S> n;
  FB_STAGE(ties);
  n.ties = step_ties(b.m, b.o, at, b.w);
  n.contacts = pushing_contacts(b.w);
  n.residual = b.w.solution.residual;
  n.unrolled = b.w.solution.unrolled;
  n.missing = b.w.overflow;
  adjoint_lanes(b);
  return n;
}
// one step of the backward pass: recompute the step, then its adjoint
template <class S, class P>
BackwardNotes<S> adjoint_block(WorldBlock<S, P>& b) {
  const Layout& s = b.m.s;
  step_velocity(b.m, b.o, b.q, b.u, Mask<S>(true), b.v1, b.w);
  if (W == 1 || !any(b.w.overflow)) return noted_adjoint(b);
  // as in the forward pass: too many rows together, so each lane by itself
  const int n = b.w.theta_bar ? theta_size(s) + derived_size(s) : 0;
  S *q = b.q2, *v = b.v2, *u = b.u2, *sum = b.lifted;
  BackwardNotes<S> all{Mask<S>(false), Mask<S>(false), S(0), S(0), S(0)};
  for (int k = 0; k < W; ++k) {
    const Mask<S> only = only_lane(k);
    for (int i = 0; i < n; ++i) sum[i] = b.param_bar[i];
    step_velocity(b.m, b.o, b.q, b.u, only, b.v1, b.w);
    const BackwardNotes<S> one = noted_adjoint(b);
    all.missing = all.missing | (only & one.missing);
    all.unrolled = all.unrolled | (only & one.unrolled);
    all.ties = select(only, one.ties, all.ties);
    all.residual = select(only, one.residual, all.residual);
    all.contacts = select(only, one.contacts, all.contacts);
    for (int i = 0; i < n; ++i) b.param_bar[i] = select(only, b.param_bar[i], sum[i]);
    take_where(only, s.nq, b.q_bar, q);
    take_where(only, s.nv, b.v_bar, v);
    take_where(only, s.nu, b.u_bar, u);
  }
  for (int i = 0; i < s.nq; ++i) b.q_bar[i] = q[i];
  for (int i = 0; i < s.nv; ++i) b.v_bar[i] = v[i];
  for (int i = 0; i < s.nu; ++i) b.u_bar[i] = u[i];
  return all;
}

// the sums of the parameters' cotangents, once loaded into param_bar
template <class S, class P>
void bind_parameter_bars(WorldBlock<S, P>& b) {
  const Layout& s = b.m.s;
  bind<S>(s, b.param_bar, b.theta_bar);
  bind<S>(s, b.param_bar + theta_size(s), b.derived_bar);
  b.w.theta_bar = &b.theta_bar;
  b.w.derived_bar = &b.derived_bar;
}
// from what is derived to the parameters themselves; shared ones are lifted into every lane
template <class S, class P>
void parameter_adjoint(WorldBlock<S, P>& b) {
  const Layout& s = b.m.s;
  const int ntheta = theta_size(s), n = ntheta + derived_size(s);
  for (int i = 0; i < ntheta; ++i) b.lifted[i] = S(b.m.theta.dt[i]);
  for (int i = 0; i < n - ntheta; ++i) b.lifted[ntheta + i] = S(b.m.derived.link_R[i]);
  Theta<const S> theta;
  Derived<const S> value;
  bind<const S>(s, b.lifted, theta);
  bind<const S>(s, b.lifted + ntheta, value);
  derive_adjoint(s, theta, value, b.derived_bar, b.theta_bar);
}

}  // namespace
}  // namespace fb::FB_ISA
