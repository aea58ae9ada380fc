// The step on dual numbers, compiled for one instruction set, one machine number and one lane
// width.
#include "bindings/block.hpp"
#include "core/step.hpp"

namespace fb::FB_ISA {
namespace {

using D = Dual<T>;

// values and tangents of one block; no tangent where the caller gave none
void load_dual(const Task& t, long block, const void* value, const void* tangent, long strides[2],
               int n, D* out) {
  const R *x = static_cast<const R*>(value), *dx = static_cast<const R*>(tangent);
  for (int k = 0; k < W; ++k) {
    const long world = world_of(t, block, k);
    for (int i = 0; i < n; ++i) {
      set_lane(out[i].v, k, x[world * strides[0] + i]);
      set_lane(out[i].d, k, dx ? dx[world * strides[1] + i] : R(0));
    }
  }
}
void load_state(const Task& t, long block, const void* value, const void* tangent, int n, D* out) {
  long strides[2] = {n, n};
  load_dual(t, block, value, tangent, strides, n, out);
}
void store_tangent(const Task& t, long block, void* base, int n, const D* in) {
  R* x = static_cast<R*>(base);
  for (int k = 0; k < W && block * W + k < t.worlds; ++k)
    for (int i = 0; i < n; ++i) x[(block * W + k) * n + i] = lane(in[i].d, k) + R(0);
}

// everything one block needs; P is R where all lanes share parameters without tangents, D elsewhere
template <class P>
struct Bench {
  Model<D, P> m;
  Options<R> o;
  Work<D> w;
  D *q, *v, *u, *q1, *v1, *q2, *v2;
  P *theta, *derived;

  size_t carve_all(const Layout& s, char* base) {
    Carver c{base, 0};
    for (D** x : {&q, &q1, &q2}) *x = c.take<D>(s.nq);
    for (D** x : {&v, &v1, &v2}) *x = c.take<D>(s.nv);
    u = c.take<D>(s.nu);
    theta = c.take<P>(theta_size(s));
    derived = c.take<P>(derived_size(s));
    c.at = (c.at + 63) / 64 * 64;
    return c.at + carve(s, base ? base + c.at : nullptr, w);
  }
  void open(const Task& t, long block, char* base) {
    carve_all(*t.layout, base);
    m.s = *t.layout;
    m.vert = static_cast<const R*>(t.vert);
    o = options_of(*t.options);
    if constexpr (sizeof(P) == sizeof(R)) {
      bind<const P>(m.s, static_cast<const P*>(t.theta), m.theta);
      bind<const P>(m.s, static_cast<const P*>(t.derived), m.derived);
    } else {
      const int n = theta_size(m.s);
      long strides[2] = {t.theta_per_world ? n : 0, t.dtheta_per_world ? n : 0};
      load_dual(t, block, t.theta, t.dtheta, strides, n, theta);
      bind<const P>(m.s, theta, m.theta);
      Derived<P> out;
      bind<P>(m.s, derived, out);
      derive(m.s, m.theta, m.vert, out);
      bind<const P>(m.s, derived, m.derived);
    }
  }
};

// one step; when the rows of all lanes together exceed the capacity, each lane is stepped by
// itself. Returns the lanes without a tangent.
template <class P>
Mask<T> step_block(Bench<P>& b) {
  step(b.m, b.o, b.q, b.v, b.u, Mask<T>(true), b.q1, b.v1, b.w);
  if (W == 1 || !any(b.w.overflow)) return b.w.overflow;
  Mask<T> missing(false);
  const auto take = [](int n, Mask<T> only, const D* from, D* to) {
    for (int i = 0; i < n; ++i) to[i] = select(only, from[i], to[i]);
  };
  for (int k = 0; k < W; ++k) {
    Mask<T> only(false);
    set_mask_lane(only, k, true);
    step(b.m, b.o, b.q, b.v, b.u, only, b.q2, b.v2, b.w);
    take(b.m.s.nq, only, b.q2, b.q1);
    take(b.m.s.nv, only, b.v2, b.v1);
    missing = missing | (only & b.w.overflow);
  }
  return missing;
}

template <class P>
void run_jvp(const Task& t, long block, char* workspace) {
  Bench<P> b;
  b.open(t, block, workspace);
  const Layout& s = b.m.s;
  load_state(t, block, t.q, t.dq, s.nq, b.q);
  load_state(t, block, t.v, t.dv, s.nv, b.v);
  if (s.nu > 0) load_state(t, block, t.u, t.du, s.nu, b.u);
  const Mask<T> missing = step_block(b);
  Mask<T> finite(true);
  for (int i = 0; i < s.nq; ++i) finite = finite & is_finite(b.q1[i]);
  for (int i = 0; i < s.nv; ++i) finite = finite & is_finite(b.v1[i]);
  note_status(t, block, 0, kNonFinite, !finite);
  note_status(t, block, 0, kNoGradient, missing & finite);
  store_tangent(t, block, t.q_out, s.nq, b.q1);
  store_tangent(t, block, t.v_out, s.nv, b.v1);
}

void run(Job, const Task& t, long block, char* workspace) {
  if (t.theta_per_world || t.dtheta) return run_jvp<D>(t, block, workspace);
  run_jvp<R>(t, block, workspace);
}

size_t workspace_bytes(const Layout& s) {
  Bench<D> b;
  return b.carve_all(s, nullptr);
}

}  // namespace

extern const Kernel FB_NAME(dual);
const Kernel FB_NAME(dual) = {FB_TEXT(FB_ISA), int(sizeof(R)), W, workspace_bytes, nullptr, run};

}  // namespace fb::FB_ISA
