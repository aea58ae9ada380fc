// Everything one block of worlds needs, and one step of it, forwards or backwards. S is the lanes'
// number or its dual; P that of the parameters: the machine number where all lanes share them, S
// where each has its own.
#pragma once
#include "core/dynamics/outputs.hpp"
#include "core/ties.hpp"
#include "engine/lanes.hpp"

namespace fb::FB_ISA {

FB_FN int largest_output(const Layout& s) {
  int largest = 0;
#define FB_X(name, ...) Output::name,
  for (Output kind : {FB_OUTPUTS(FB_X)})
#undef FB_X
    largest = output_size(s, kind) > largest ? output_size(s, kind) : largest;
  return largest;
}

template <class S, class P>
struct WorldBlock {
  using R = Real<S>;
  static constexpr bool kShared = sizeof(P) == sizeof(R);

  Model<S, P> m;
  Options<R> o;
  Work<S> w;
  S *x, *x1, *x2, *u, *u2;  // state, next state, another; controls, or an output's third input
  S *x_bar, *x1_bar, *u_bar, *t;   // cotangents; t: scratch of the step's adjoint
  S *param_bar, *lifted, *output;  // sums of parameters' cotangents; theirs lifted; an output
  Theta<S> theta_bar;
  Derived<S> derived_bar;
  P *own_theta, *own_derived;        // the block's own parameters, where lanes differ
  const P *all_theta, *all_derived;  // those in force, each in one array

  FB_FN size_t carve_all(const Layout& s, char* base) {
    Carver c{base, 0};
    for (S** at : {&x, &x1, &x2, &x_bar, &x1_bar}) *at = c.take<S>(state_size(s));
    for (S** at : {&u2, &u_bar}) *at = c.take<S>(s.nu);
    u = c.take<S>(s.nu + s.nv);
    t = c.take<S>(4 * s.nv);
    const int n = theta_size(s) + derived_size(s);
    param_bar = c.take<S>(n);
    lifted = c.take<S>(n);
    output = c.take<S>(largest_output(s) + s.nv);
    own_theta = own_derived = nullptr;
    if constexpr (!kShared) {
      own_theta = c.take<P>(theta_size(s));
      own_derived = c.take<P>(derived_size(s));
    }
    c.at = (c.at + 63) / 64 * 64;
    return c.at + carve(s, base ? base + c.at : nullptr, w);
  }
  // parameters that all lanes share stay where the task has them; bars: a gradient will be asked of
  // them. dtheta: their tangents, where lanes have their own dual numbers
  FB_FN void open(const WorldsTask& task, long block, char* base, bool bars,
                  Source dtheta = {nullptr, 0}) {
    carve_all(task.layout, base);
    m.s = task.layout;
    m.vert = static_cast<const R*>(task.vert);
    o = options_as<R>(task.options);
    if constexpr (kShared) {
      all_theta = static_cast<const P*>(task.theta);
      all_derived = static_cast<const P*>(task.derived);
      bind<const P>(m.s, all_theta, m.theta);
      // wrenches are rare: without any, and without a gradient to give them, their loop is left out
      m.applied = bars;
      for (int i = 0; i < 6 * m.s.nbody; ++i)
        m.applied = m.applied || m.theta.xfrc_applied[i] != R(0);
    } else {
      const int n = theta_size(m.s);
      load(WorldsOf<P>(task, block), {task.theta, task.theta_per_world ? n : 0}, dtheta, n,
           own_theta);
      all_theta = own_theta;
      all_derived = own_derived;
      bind<const P>(m.s, all_theta, m.theta);
      Derived<P> out;
      bind<P>(m.s, own_derived, out);
      derive(m.s, m.theta, m.vert, out);
    }
    bind<const P>(m.s, all_derived, m.derived);
  }
};

template <class S>
FB_FN void take_where(Mask<S> only, int n, const S* from, S* to) {
  for (int i = 0; i < n; ++i) to[i] = select(only, from[i], to[i]);
}

// visit the lanes of a block in halves; visit(lanes, alone) returns whether their rows are too many
// together, and those are visited in halves again, down to lanes that are alone
template <class S, class F>
FB_FN void for_parts(F&& visit) {
  for (int first = 0, count = kLanes<S> / 2; first < kLanes<S>;) {
    if (visit(some_lanes<S>(first, count), count == 1)) {
      count /= 2;
      continue;
    }
    first += count;
    while (count < kLanes<S> / 2 && first % (2 * count) == 0) count *= 2;
  }
}

// one step; when the rows of all lanes together exceed the capacity, they are stepped in parts
template <class S, class P>
FB_FN void step_block(WorldBlock<S, P>& b) {
  step(b.m, b.o, b.x, b.u, Mask<S>(true), b.x1, b.w);
  if (kLanes<S> == 1 || !any(b.w.overflow)) return;
  Mask<S> overflow(false), unconverged(false), unrolled(false);
  S residual(0), sweeps(0), factorisations(0);
  for_parts<S>([&](Mask<S> only, bool alone) {
    step(b.m, b.o, b.x, b.u, only, b.x2, b.w);
    if (!alone && any(b.w.overflow)) return true;
    take_where(only, state_size(b.m.s), b.x2, b.x1);
    overflow = overflow | (only & b.w.overflow);
    unconverged = unconverged | (only & b.w.solution.unconverged);
    unrolled = unrolled | (only & b.w.solution.unrolled);
    residual = select(only, b.w.solution.residual, residual);
    sweeps = select(only, b.w.solution.sweeps, sweeps);
    factorisations = select(only, b.w.solution.factorisations, factorisations);
    return false;
  });
  b.w.overflow = overflow;
  b.w.solution.unconverged = unconverged;
  b.w.solution.unrolled = unrolled;
  b.w.solution.residual = residual;
  b.w.solution.sweeps = sweeps;
  b.w.solution.factorisations = factorisations;
}

// lanes of the step that was just run which have no gradient: contacts were left out, or were not
// solved and no sweeps are there to be reversed
template <class S, class P>
FB_FN Mask<S> without_gradient(const WorldBlock<S, P>& b) {
  const Mask<S> unsolved = b.w.solution.unconverged;
  return b.w.overflow | (b.m.s.soft ? unsolved : b.w.large & unsolved);
}
// what a backward step tells besides its bars
template <class S>
struct BackwardNotes {
  Mask<S> missing, unrolled;  // no gradient; differentiated sweep by sweep
  S ties, residual, contacts;
};

// the adjoint of the step that was just run: bars of the next state in x1_bar, those of the state
// and the controls are set
template <class S, class P>
FB_FN void adjoint_lanes(WorldBlock<S, P>& b) {
  const Layout& s = b.m.s;
  for (int i = 0; i < state_size(s); ++i) b.x_bar[i] = S(0);
  for (int i = 0; i < s.nu; ++i) b.u_bar[i] = S(0);
  const StepPoint<S> at = step_point(s, b.x, b.u, velocity_of(s, b.x1));
  const StepBars<S> bars{b.x1_bar, b.x_bar, b.u_bar, b.t};
  step_adjoint(b.m, b.o, at, bars, b.w);
}
// contacts that carry a force in the step that was just run
template <class S>
FB_FN S pushing_contacts(const Work<S>& w) {
  S count(0);
  for (int i = 0; i < w.ngroup; ++i)
    if (w.group[i].kind == kContactRows)
      count += one_where<S>(w.geometry[i].active & (w.solution.lam[w.group[i].row] > S(0)));
  return count;
}
// a step again, as its adjoint needs it: its velocity in x1, its hits in w
template <class S, class P>
FB_FN BackwardNotes<S> step_again(WorldBlock<S, P>& b, Mask<S> alive) {
  const Layout& s = b.m.s;
  const StepPoint<S> at = step_point(s, b.x, b.u, velocity_of(s, b.x1));
  if (s.soft)
    soft_step(b.m, b.o, b.x, b.u, alive, b.x1, b.w);
  else
    step_velocity(b.m, b.o, b.x, b.u, alive, velocity_of(s, b.x1), b.w);
  BackwardNotes<S> n;
  FB_STAGE(ties);
  n.ties = step_ties(b.m, b.o, at, b.w);
  n.contacts = pushing_contacts(b.w);
  Mask<S> hit(false);
  if (!s.soft) hit = step_through_hits(b.m, b.o, at, alive, b.w);
  if (b.w.hit.count > 0) {
    n.ties += select(hit, b.w.hit.ties, S(0));
    n.contacts += select(hit, b.w.hit.contacts, S(0));
  }
  n.residual = b.w.solution.residual;
  n.unrolled = b.w.solution.unrolled;
  n.missing = without_gradient(b);
  return n;
}
// one step of the backward pass: recompute the step, then its adjoint
template <class S, class P>
FB_FN BackwardNotes<S> adjoint_block(WorldBlock<S, P>& b) {
  const Layout& s = b.m.s;
  const int nx = state_size(s);
  const BackwardNotes<S> together = step_again(b, Mask<S>(true));
  if (kLanes<S> == 1 || !any(b.w.overflow)) {
    adjoint_lanes(b);
    return together;
  }
  // as in the forward pass: too many rows together, so in parts
  const int n = b.w.theta_bar ? theta_size(s) + derived_size(s) : 0;
  S *x = b.x2, *u = b.u2, *sum = b.lifted;
  BackwardNotes<S> all{Mask<S>(false), Mask<S>(false), S(0), S(0), S(0)};
  for_parts<S>([&](Mask<S> only, bool alone) {
    const BackwardNotes<S> one = step_again(b, only);
    if (!alone && any(b.w.overflow)) return true;
    for (int i = 0; i < n; ++i) sum[i] = b.param_bar[i];
    adjoint_lanes(b);
    all.missing = all.missing | (only & one.missing);
    all.unrolled = all.unrolled | (only & one.unrolled);
    all.ties = select(only, one.ties, all.ties);
    all.residual = select(only, one.residual, all.residual);
    all.contacts = select(only, one.contacts, all.contacts);
    for (int i = 0; i < n; ++i) b.param_bar[i] = select(only, b.param_bar[i], sum[i]);
    take_where(only, nx, b.x_bar, x);
    take_where(only, s.nu, b.u_bar, u);
    return false;
  });
  for (int i = 0; i < nx; ++i) b.x_bar[i] = x[i];
  for (int i = 0; i < s.nu; ++i) b.u_bar[i] = u[i];
  return all;
}

// the sums of the parameters' cotangents, once loaded into param_bar
template <class S, class P>
FB_FN void bind_parameter_bars(WorldBlock<S, P>& b) {
  const Layout& s = b.m.s;
  bind<S>(s, b.param_bar, b.theta_bar);
  bind<S>(s, b.param_bar + theta_size(s), b.derived_bar);
  b.w.theta_bar = &b.theta_bar;
  b.w.derived_bar = &b.derived_bar;
}
// from what is derived to the parameters themselves; shared ones are lifted into every lane
template <class S, class P>
FB_FN void parameter_adjoint(WorldBlock<S, P>& b) {
  const Layout& s = b.m.s;
  const int ntheta = theta_size(s), nderived = derived_size(s);
  for (int i = 0; i < ntheta; ++i) b.lifted[i] = S(b.all_theta[i]);
  for (int i = 0; i < nderived; ++i) b.lifted[ntheta + i] = S(b.all_derived[i]);
  Theta<const S> lifted;
  Derived<const S> value;
  bind<const S>(s, b.lifted, lifted);
  bind<const S>(s, b.lifted + ntheta, value);
  derive_adjoint(s, lifted, value, b.derived_bar, b.theta_bar);
}

}  // namespace fb::FB_ISA
