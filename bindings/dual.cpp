// The step and its adjoint on dual numbers, compiled for one instruction set, one machine number
// and one lane width.
#include "bindings/bench.hpp"

namespace fb::FB_ISA {
namespace {

using D = Dual<T>;

// where a value or its tangent lies: world w starts at stride * w; null stands for zero
struct Source {
  const void* at;
  long stride;
};

// values and tangents of one block
void load_dual(const Task& t, long block, Source value, Source tangent, int n, D* out) {
  const R *x = static_cast<const R*>(value.at), *dx = static_cast<const R*>(tangent.at);
  for (int k = 0; k < W; ++k) {
    const long world = world_of(t, block, k);
    for (int i = 0; i < n; ++i) {
      set_lane(out[i].v, k, x ? x[world * value.stride + i] : R(0));
      set_lane(out[i].d, k, dx ? dx[world * tangent.stride + i] : R(0));
    }
  }
}
Source shifted(const void* at, long offset, long stride) {
  return {at ? static_cast<const R*>(at) + offset : nullptr, stride};
}
void store_part(const Task& t, long block, void* base, long stride, int n, const D* in, bool dot) {
  if (!base) return;
  R* x = static_cast<R*>(base);
  for (int k = 0; k < W && block * W + k < t.worlds; ++k)
    for (int i = 0; i < n; ++i)
      x[(block * W + k) * stride + i] = lane(dot ? in[i].d : in[i].v, k) + R(0);
}

// P is R where all lanes share parameters without tangents, D elsewhere
template <class P>
struct Desk : WorldBlock<D, P> {
  void open(const Task& t, long block, char* base) {
    this->open_shared(t, base);
    if constexpr (sizeof(P) > sizeof(R)) {
      const int n = theta_size(this->m.s);
      const Source value{t.theta, t.theta_per_world ? n : 0};
      load_dual(t, block, value, {t.dtheta, t.dtheta_per_world ? n : 0}, n, this->theta);
      this->derive_own();
    }
  }
  // state k of the rollout with its tangent, and the control that acts on it
  void load_state(const Task& t, long block, long k) {
    const Layout& s = this->m.s;
    load_dual(t, block, shifted(t.q, k * t.q_step, t.q_world),
              shifted(t.q_dot, k * t.q_step, t.q_world), s.nq, this->q);
    load_dual(t, block, shifted(t.v, k * t.v_step, t.v_world),
              shifted(t.v_dot, k * t.v_step, t.v_world), s.nv, this->v);
    if (s.nu > 0)
      load_dual(t, block, shifted(t.u, k * t.u_step, t.u_world),
                shifted(t.du, k * s.nu, t.du_world), s.nu, this->u);
  }
};

template <class P>
void run_jvp(const Task& t, long block, char* workspace) {
  Desk<P> b;
  b.open(t, block, workspace);
  const Layout& s = b.m.s;
  for (long k = t.first_step; k < t.last_step; ++k) {
    b.load_state(t, block, k);
    step_block(b);
    Mask<T> finite(true);
    for (int i = 0; i < s.nq; ++i) finite = finite & is_finite(b.q1[i]);
    for (int i = 0; i < s.nv; ++i) finite = finite & is_finite(b.v1[i]);
    note_status(t, block, k, kNonFinite, !finite);
    note_status(t, block, k, kNoGradient, b.w.overflow & finite);
    R *q = static_cast<R*>(t.q_dot) + (k + 1) * t.q_step,
      *v = static_cast<R*>(t.v_dot) + (k + 1) * t.v_step;
    store_part(t, block, q, t.q_world, s.nq, b.q1, true);
    store_part(t, block, v, t.v_world, s.nv, b.v1, true);
  }
}

// the caller's cotangent of state k, with its tangent, is added
void add_cotangent(const Task& t, long block, const Cotangent& c, const Cotangent& dot, long k,
                   int n, D* x) {
  for (const bool tangent : {false, true}) {
    const Cotangent& from = tangent ? dot : c;
    const long row = k - (t.steps + 1 - from.rows);
    if (!from.at || row < 0) continue;
    const R* at = static_cast<const R*>(from.at) + row * n;
    for (int l = 0; l < W; ++l) {
      const R* one = at + world_of(t, block, l) * from.rows * n;
      for (int i = 0; i < n; ++i) {
        T& part = tangent ? x[i].d : x[i].v;
        set_lane(part, l, lane(part, l) + one[i]);
      }
    }
  }
}

// the backward pass of the vjp job on dual numbers: its tangent is the Hessian times the direction
void run_hvp(const Task& t, long block, char* workspace) {
  Desk<D> b;
  b.open(t, block, workspace);
  const Layout& s = b.m.s;
  const int numbers = theta_size(s) + derived_size(s);
  if (t.theta_bar) {
    load_dual(t, block, {t.theta_bar, numbers}, {t.theta_bar_dot, numbers}, numbers, b.param_bar);
    bind_parameter_bars(b);
  }
  load_dual(t, block, {t.q_bar, s.nq}, {t.q_bar_dot, s.nq}, s.nq, b.q_bar);
  load_dual(t, block, {t.v_bar, s.nv}, {t.v_bar_dot, s.nv}, s.nv, b.v_bar);
  for (long k = t.last_step - 1; k >= t.first_step; --k) {
    b.load_state(t, block, k);
    add_cotangent(t, block, t.q_cot, t.q_cot_dot, k + 1, s.nq, b.q_bar);
    add_cotangent(t, block, t.v_cot, t.v_cot_dot, k + 1, s.nv, b.v_bar);
    std::swap(b.q_bar, b.q1_bar);
    std::swap(b.v_bar, b.v1_bar);
    note_status(t, block, k, kNoGradient, adjoint_block(b).missing);
    R* u = static_cast<R*>(t.u_bar_dot) + k * s.nu;
    if (s.nu > 0) store_part(t, block, u, t.u_bar_world, s.nu, b.u_bar, true);
  }
  if (t.first_step == 0) {
    add_cotangent(t, block, t.q_cot, t.q_cot_dot, 0, s.nq, b.q_bar);
    add_cotangent(t, block, t.v_cot, t.v_cot_dot, 0, s.nv, b.v_bar);
    if (t.theta_bar) parameter_adjoint(b);
  }
  for (const bool dot : {false, true}) {
    store_part(t, block, dot ? t.q_bar_dot : t.q_bar, s.nq, s.nq, b.q_bar, dot);
    store_part(t, block, dot ? t.v_bar_dot : t.v_bar, s.nv, s.nv, b.v_bar, dot);
    if (t.theta_bar)
      store_part(t, block, dot ? t.theta_bar_dot : t.theta_bar, numbers, numbers, b.param_bar, dot);
  }
}

void run(Job job, const Task& t, long block, char* workspace) {
  if (job == Job::hvp) return run_hvp(t, block, workspace);
  if (t.theta_per_world || t.dtheta) return run_jvp<D>(t, block, workspace);
  run_jvp<R>(t, block, workspace);
}

size_t workspace_bytes(const Layout& s) {
  Desk<D> b;
  return b.carve_all(s, nullptr);
}

}  // namespace

extern const Kernel FB_NAME(dual);
const Kernel FB_NAME(dual) = {FB_TEXT(FB_ISA), int(sizeof(R)), W,  workspace_bytes,
                              nullptr,         nullptr,        run};

}  // namespace fb::FB_ISA
