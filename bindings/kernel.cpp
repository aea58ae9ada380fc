// The core compiled for one instruction set, one machine number and one lane width.
#include "bindings/linearize.hpp"

namespace fb::FB_ISA {
namespace {

// opens a block of a task whose parameters are shared, or each world's own
template <class P>
struct Desk : WorldBlock<T, P> {
  void open(const Task& t, long block, char* base) {
    this->open_shared(t, base);
    if constexpr (kLanes<P> > 1) {
      const int n = theta_size(this->m.s);
      load(t, block, t.theta, n, 0, n, this->theta);
      this->derive_own();
    }
  }
};

size_t workspace_bytes(const Layout& s) {
  Desk<T> b;
  return (b.carve_all(s, nullptr) + 63) / 64 * 64;
}
size_t linear_bytes(const Layout& s) {
  LinearWork<T> f;
  return workspace_bytes(s) + carve_linear(s, nullptr, f);
}

void keep_largest(const Task& t, long block, void* base, T x) {
  if (!base) return;
  R* out = static_cast<R*>(base);
  for (int k = 0; k < W && block * W + k < t.worlds; ++k)
    if (!(lane(x, k) <= out[block * W + k])) out[block * W + k] = lane(x, k);
}

template <class P>
void run_rollout(const Task& t, long block, char* workspace) {
  Desk<P> b;
  b.open(t, block, workspace);
  const Layout& s = b.m.s;
  load(t, block, t.q, t.q_world, t.first_step * t.q_step, s.nq, b.q);
  load(t, block, t.v, t.v_world, t.first_step * t.v_step, s.nv, b.v);
  for (long k = t.first_step; k < t.last_step; ++k) {
    if (s.nu > 0) load(t, block, t.u, t.u_world, k * t.u_step, s.nu, b.u);
    step_block(b);
    Mask<T> finite(true);
    for (int i = 0; i < s.nq; ++i) finite = finite & is_finite(b.q[i] = b.q1[i]);
    for (int i = 0; i < s.nv; ++i) finite = finite & is_finite(b.v[i] = b.v1[i]);
    note_status(t, block, k, kNonFinite, !finite);
    note_status(t, block, k, kContactOverflow, b.w.overflow);
    note_status(t, block, k, kUnconverged, b.w.solution.unconverged & finite);
    keep_largest(t, block, t.residual, b.w.solution.residual);
    keep_largest(t, block, t.sweeps, b.w.solution.sweeps);
    store(t, block, t.q_out, t.q_world, (k + 1) * t.q_step, s.nq, b.q);
    store(t, block, t.v_out, t.v_world, (k + 1) * t.v_step, s.nv, b.v);
  }
}

// the cotangent that the caller gave for state k, if any, is added
void add_cotangent(const Task& t, long block, const Cotangent& c, long k, int n, T* x) {
  const long row = k - (t.steps + 1 - c.rows);
  if (!c.at || row < 0) return;
  const R* from = static_cast<const R*>(c.at) + row * n;
  for (int l = 0; l < W; ++l) {
    const R* one = from + world_of(t, block, l) * c.rows * n;
    for (int i = 0; i < n; ++i) set_lane(x[i], l, lane(x[i], l) + one[i]);
  }
}

void note_backward(const Task& t, long block, long k, const BackwardNotes<T>& n, T norm) {
  note_status(t, block, k, kNoGradient, n.missing);
  for (int l = 0; l < W && block * W + l < t.worlds; ++l) {
    const long world = block * W + l;
    t.unrolled[world] += mask_lane(n.unrolled, l);
    t.ties[world] += int32_t(lane(n.ties, l));
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
template <class P>
T bar_norm(Desk<P>& b) {
  const Layout& s = b.m.s;
  lower_tangent(s, b.q, b.q_bar, b.v2);
  T sum(0);
  for (int i = 0; i < s.nv; ++i) sum += b.v2[i] * b.v2[i] + b.v_bar[i] * b.v_bar[i];
  return sqrt(sum);
}

// sums of the parameters' cotangents are kept in the caller's array between pieces of a rollout, so
// that any cut gives the same bits
template <class P>
void run_vjp(const Task& t, long block, char* workspace) {
  Desk<P> b;
  b.open(t, block, workspace);
  const Layout& s = b.m.s;
  const int numbers = theta_size(s) + derived_size(s);
  if (t.theta_bar) {
    load(t, block, t.theta_bar, numbers, 0, numbers, b.param_bar);
    bind_parameter_bars(b);
  }
  load(t, block, t.q_bar, s.nq, 0, s.nq, b.q_bar);
  load(t, block, t.v_bar, s.nv, 0, s.nv, b.v_bar);
  for (long k = t.last_step - 1; k >= t.first_step; --k) {
    load(t, block, t.q, t.q_world, k * t.q_step, s.nq, b.q);
    load(t, block, t.v, t.v_world, k * t.v_step, s.nv, b.v);
    if (s.nu > 0) load(t, block, t.u, t.u_world, k * t.u_step, s.nu, b.u);
    // what the caller gave for this state joins what came back through the steps after it
    add_cotangent(t, block, t.q_cot, k + 1, s.nq, b.q_bar);
    add_cotangent(t, block, t.v_cot, k + 1, s.nv, b.v_bar);
    std::swap(b.q_bar, b.q1_bar);
    std::swap(b.v_bar, b.v1_bar);
    const BackwardNotes<T> notes = adjoint_block(b);
    note_backward(t, block, k, notes, t.trace ? bar_norm(b) : T(0));
    if (s.nu > 0) store(t, block, t.u_bar, t.u_bar_world, k * s.nu, s.nu, b.u_bar);
  }
  if (t.first_step == 0) {
    add_cotangent(t, block, t.q_cot, 0, s.nq, b.q_bar);
    add_cotangent(t, block, t.v_cot, 0, s.nv, b.v_bar);
  }
  store(t, block, t.q_bar, s.nq, 0, s.nq, b.q_bar);
  store(t, block, t.v_bar, s.nv, 0, s.nv, b.v_bar);
  if (!t.theta_bar) return;
  if (t.first_step == 0 && t.finish_params) parameter_adjoint(b);
  store(t, block, t.theta_bar, numbers, 0, numbers, b.param_bar);
}

template <class P>
void run_linearize(const Task& t, long block, char* workspace) {
  Desk<P> b;
  b.open(t, block, workspace);
  LinearWork<T> f;
  carve_linear(b.m.s, workspace + workspace_bytes(b.m.s), f);
  linearize_block(t, block, b, f);
}

template <class P>
void run_evaluation(Job job, const Task& t, long block, char* workspace) {
  Desk<P> b;
  b.open(t, block, workspace);
  const int numbers = theta_size(b.m.s) + derived_size(b.m.s);
  if (t.theta_bar) {
    for (int i = 0; i < numbers; ++i) b.param_bar[i] = T(0);
    bind_parameter_bars(b);
  }
  evaluate(job, t, block, b, b.big);
  if (!t.theta_bar) return;
  parameter_adjoint(b);
  store(t, block, t.theta_bar, numbers, 0, numbers, b.param_bar);
}

// one world's contacts of one step, compact: (gap, point, normal, force on B) in the world, and
// (pair, slot) ids
template <class P>
void write_contacts(const Task& t, const Desk<P>& b, long world, int k) {
  const Layout& s = b.m.s;
  int32_t count = 0;
  R* numbers = static_cast<R*>(t.contact_numbers) + world * s.max_contacts * kContactSize;
  int32_t* ids = t.contact_ids + world * s.max_contacts;
  const R h = lane(T(b.m.theta.dt[0]), k);
  for (int i = 0; i < b.w.ngroup; ++i) {
    const RowGroup& x = b.w.group[i];
    const RowGeometry<T>& c = b.w.geometry[i];
    if (x.kind != kContactRows || !mask_lane(c.active, k)) continue;
    Vec3<T> t1, t2;
    tangents(c.n, t1, t2);
    Vec3<T> f = c.n * b.w.solution.lam[x.row];
    if (x.rows == 3) f += t1 * b.w.solution.lam[x.row + 1] + t2 * b.w.solution.lam[x.row + 2];
    const Vec3<T> p = c.p + origin_of(s, b.w, reference_link(x.linkA, x.linkB));
    const T y[kContactSize] = {c.phi, p.x, p.y, p.z, c.n.x, c.n.y, c.n.z, f.x, f.y, f.z};
    for (int e = 0; e < kContactSize; ++e)
      numbers[count * kContactSize + e] = lane(y[e], k) / (e < 7 ? R(1) : h) + R(0);
    ids[count++] = x.source;
  }
  t.contact_count[world] = count;
  t.contact_overflow[world] = mask_lane(b.w.overflow, k);
}
template <class P>
void run_contacts(const Task& t, long block, char* workspace) {
  Desk<P> b;
  b.open(t, block, workspace);
  const Layout& s = b.m.s;
  load(t, block, t.q, s.nq, 0, s.nq, b.q);
  load(t, block, t.v, s.nv, 0, s.nv, b.v);
  if (s.nu > 0) load(t, block, t.u, s.nu, 0, s.nu, b.u);
  for (int k = 0; k < W && block * W + k < t.worlds; ++k) {
    Mask<T> only(false);
    set_mask_lane(only, k, true);
    step(b.m, b.o, b.q, b.u, only, b.q1, b.w);
    write_contacts(t, b, block * W + k, k);
  }
}

template <class P>
void run_with(Job job, const Task& t, long block, char* workspace) {
  if (job == Job::rollout)
    run_rollout<P>(t, block, workspace);
  else if (job == Job::vjp)
    run_vjp<P>(t, block, workspace);
  else if (job == Job::linearize)
    run_linearize<P>(t, block, workspace);
  else if (job == Job::contacts)
    run_contacts<P>(t, block, workspace);
  else
    run_evaluation<P>(job, t, block, workspace);
}

void run(Job job, const Task& t, long block, char* workspace) {
  if constexpr (W > 1)
    if (t.theta_per_world) return run_with<T>(job, t, block, workspace);
  run_with<R>(job, t, block, workspace);
}

void derive_shared(const Layout& s, const void* theta, const void* vert, void* out) {
  Theta<const R> view;
  bind<const R>(s, static_cast<const R*>(theta), view);
  Derived<R> d;
  bind<R>(s, static_cast<R*>(out), d);
  derive(s, view, static_cast<const R*>(vert), d);
}

}  // namespace

extern const Kernel FB_NAME(kernel);
const Kernel FB_NAME(kernel) = {FB_TEXT(FB_ISA), int(sizeof(R)), W,  workspace_bytes,
                                linear_bytes,    derive_shared,  run};

}  // namespace fb::FB_ISA
