#include "bindings/xla.hpp"

#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "bindings/xla_call.hpp"

namespace fb {
namespace {

// what Python holds; engines with equal keys are the same engine
class CrewHandle {
 public:
  CrewHandle(const Engine& engine, int64_t key, std::vector<std::string> bodies) {
    std::lock_guard<std::mutex> hold(registry().mutex);
    crew_ = find_crew(key);
    if (crew_) return;
    crew_ = std::make_shared<EnginePool>(engine, std::move(bodies));
    std::erase_if(registry().crews, [](const auto& x) { return x.second.expired(); });
    registry().crews[key] = crew_;
  }

 private:
  std::shared_ptr<EnginePool> crew_;
};

CallStateOrError take_seat(int64_t key, bool single) { return seat_for(key, single, Job::rollout); }

// ---- the calls.  A single step has no axis of steps: q is (worlds, nq) before and after it.

// rows of states in a call: those of a rollout, or one that moves
struct Rows {
  bool single;
  long count;
  Rows(const Call& c, bool single) : single(single), count(single ? 1 : c.steps + 1) {}
};

Call rollout_call(const CallState& seat, In first, In states) {
  const ffi::Span<const int64_t> shape = states.dimensions();
  return Call(*seat.crew, first, seat.single, shape.size() == 3 ? long(shape[1]) : 0);
}
// states (worlds, rows, n) and controls of a rollout, for a job over all its steps
Task state_task(const Call& c, EnginePool::Lease& m, Rows rows, In q, In v, In u, In theta) {
  Task t = c.task(m->engine, theta);
  t.q = q.untyped_data();
  t.v = v.untyped_data();
  t.u = u.untyped_data();
  t.q_step = rows.single ? 0 : c.nq;
  t.v_step = rows.single ? 0 : c.nv;
  t.u_step = c.nu;
  t.q_world = rows.count * c.nq;
  t.v_world = rows.count * c.nv;
  t.u_world = t.u_bar_world = c.steps * c.nu;
  t.steps = t.last_step = c.steps;
  t.status = reinterpret_cast<uint32_t*>(cleared(m->status, c.worlds * sizeof(uint32_t)));
  t.status_step = reinterpret_cast<int32_t*>(m->status_step.take(c.worlds * sizeof(int32_t)));
  std::fill_n(t.status_step, c.worlds, -1);
  return t;
}

ffi::Error rollout(CallState* seat, ffi::Dictionary, In q, In v, In u, In theta, Out q_out,
                   Out v_out, ffi::ResultBuffer<ffi::U32> status,
                   ffi::ResultBuffer<ffi::S32> status_step) {
  return guarded([&] {
    const Call c = rollout_call(*seat, q, *q_out);
    const Rows rows(c, seat->single);
    c.require(q, size_t(c.worlds) * c.nq);
    c.require(v, size_t(c.worlds) * c.nv);
    c.require(u, size_t(c.worlds) * c.steps * c.nu);
    c.require_theta(theta);
    c.require(*q_out, size_t(c.worlds) * rows.count * c.nq);
    c.require(*v_out, size_t(c.worlds) * rows.count * c.nv);
    c.require(long(status->element_count()) == c.worlds);
    c.require(long(status_step->element_count()) == c.worlds);
    refuse_values(c.crew, rows.single ? "step()" : "rollout()", theta);
    std::fill_n(status->typed_data(), c.worlds, 0u);
    std::fill_n(status_step->typed_data(), c.worlds, -1);
    // the first row is the start, and is replaced in a single step
    copy_rows(c.worlds, c.nq, c.bytes, q.untyped_data(), c.nq, q_out->untyped_data(),
              rows.count * c.nq);
    copy_rows(c.worlds, c.nv, c.bytes, v.untyped_data(), c.nv, v_out->untyped_data(),
              rows.count * c.nv);
    if (c.worlds == 0 || c.steps == 0) return;
    EnginePool::Lease m(*seat->crew);
    Task t = state_task(c, m, rows, *q_out, *v_out, u, theta);
    t.q_out = q_out->untyped_data();
    t.v_out = v_out->untyped_data();
    t.status = status->typed_data();
    t.status_step = status_step->typed_data();
    m->engine.run(Job::rollout, t);
  });
}

// the first state of each world that is not finite, as a status
void note_nonfinite(const Call& c, Rows rows, In q, In v, const Task& t) {
  if (finite(q.untyped_data(), q.element_count(), c.bytes) &&
      finite(v.untyped_data(), v.element_count(), c.bytes))
    return;
  const auto row = [&](In a, long i, long n) {
    return finite(static_cast<const char*>(a.untyped_data()) + i * n * c.bytes, n, c.bytes);
  };
  for (long i = c.worlds * rows.count - 1; i >= 0; --i) {
    if (row(q, i, c.nq) && row(v, i, c.nv)) continue;
    t.status[i / rows.count] = kNonFinite;
    t.status_step[i / rows.count] = int32_t(std::max(i % rows.count - 1, 0L));
  }
}
void refuse_status(const Call& c, const char* where, const Task& t) {
  refuse_worlds(where, c.worlds, t.status, t.status_step);
}

// the rollout of a derivative, and where the gradient goes
struct Backward {
  In q, v, u, theta, q_bar, v_bar;
  Out q0_bar, v0_bar, u_bar, theta_bar;

  void require(const Call& c, Rows rows, const std::string& where) {
    const char* hint = ", and zero where the loss does not depend on the state";
    for (In a : {q, q_bar}) c.require(a, size_t(c.worlds) * rows.count * c.nq);
    for (In a : {v, v_bar}) c.require(a, size_t(c.worlds) * rows.count * c.nv);
    for (In a : {u, *u_bar}) c.require(a, size_t(c.worlds) * c.steps * c.nu);
    c.require_theta(theta);
    c.require(*q0_bar, size_t(c.worlds) * c.nq);
    c.require(*v0_bar, size_t(c.worlds) * c.nv);
    c.require_finite(where + ": q_bar", q_bar, hint);
    c.require_finite(where + ": v_bar", v_bar, hint);
  }
  // clear what the job adds to
  void clear() {
    for (Out a : {q0_bar, v0_bar, u_bar}) std::memset(a->untyped_data(), 0, a->size_bytes());
  }
};

ffi::Error vjp(CallState* seat, ffi::Dictionary, In q, In v, In u, In theta, In q_bar, In v_bar,
               Out q0_bar, Out v0_bar, Out u_bar, Out theta_bar) {
  return guarded([&] {
    const Call c = rollout_call(*seat, q, q);
    const Rows rows(c, seat->single);
    Backward b{q, v, u, theta, q_bar, v_bar, q0_bar, v0_bar, u_bar, theta_bar};
    b.require(c, rows, "vjp()");
    b.clear();
    const long sums = c.theta_rows(*theta_bar);
    EnginePool::Lease m(*seat->crew);
    Task t = state_task(c, m, rows, q, v, u, theta);
    const long numbers = c.ntheta + m->engine.derived_size();
    t.q_cot = {q_bar.untyped_data(), rows.count};
    t.v_cot = {v_bar.untyped_data(), rows.count};
    t.q_bar = q0_bar->untyped_data();
    t.v_bar = v0_bar->untyped_data();
    t.u_bar = u_bar->untyped_data();
    t.finish_params = true;
    t.unrolled = reinterpret_cast<int32_t*>(cleared(m->unrolled, c.worlds * sizeof(int32_t)));
    t.ties = reinterpret_cast<int32_t*>(cleared(m->ties, c.worlds * sizeof(int32_t)));
    if (sums > 0) t.theta_bar = cleared(m->theta, size_t(c.worlds) * numbers * c.bytes);
    if (c.steps == 0) {
      std::memcpy(t.q_bar, q_bar.untyped_data(), q_bar.size_bytes());
      std::memcpy(t.v_bar, v_bar.untyped_data(), v_bar.size_bytes());
    } else if (c.worlds > 0) {
      note_nonfinite(c, rows, q, v, t);
      refuse_status(c, "vjp()", t);
      m->engine.run(Job::vjp, t);
      // a single step does not keep the state behind it
      if (rows.single) note_nonfinite(c, rows, *q0_bar, *v0_bar, t);
      refuse_status(c, "vjp()", t);
    }
    if (sums > 0)
      sum_theta(c, static_cast<char*>(t.theta_bar), numbers, sums, theta_bar->untyped_data());
    const char* grew =
        ", which the gradient left on the way back: take fewer steps, or smaller cotangents";
    for (Out a : {q0_bar, v0_bar, u_bar, theta_bar})
      c.require_finite("vjp(): a gradient", *a, grew);
  });
}

// a direction in the start, the controls and the parameters of a rollout
struct Direction {
  In dq, dv, du, dtheta;

  void require(const Call& c, const std::string& where) const {
    c.require(dq, size_t(c.worlds) * c.nq);
    c.require(dv, size_t(c.worlds) * c.nv);
    c.require(du, size_t(c.worlds) * c.steps * c.nu);
    c.require_theta(dtheta);
    c.require_finite(where + ": dq", dq);
    c.require_finite(where + ": dv", dv);
    c.require_finite(where + ": du", du);
    c.require_finite(where + ": dparams", dtheta);
  }
  // fill the tangents of all states, or of the state behind a single step, from those of the first
  void run(const Call& c, Rows rows, EnginePool::Lease& m, const char* where, Task& t) const {
    set(c, t);
    copy_rows(c.worlds, c.nq, c.bytes, dq.untyped_data(), c.nq, t.q_dot, rows.count * c.nq);
    copy_rows(c.worlds, c.nv, c.bytes, dv.untyped_data(), c.nv, t.v_dot, rows.count * c.nv);
    if (c.worlds == 0 || c.steps == 0) return;
    m->engine.run(Job::jvp, t);
    refuse_status(c, where, t);
  }
  void set(const Call& c, Task& t) const {
    t.du = du.untyped_data();
    t.du_world = c.steps * c.nu;
    t.dtheta = dtheta.element_count() ? dtheta.untyped_data() : nullptr;
    t.dtheta_per_world = dtheta.dimensions().size() == 2;
  }
};

ffi::Error jvp(CallState* seat, ffi::Dictionary, In q, In v, In u, In theta, In dq, In dv, In du,
               In dtheta, Out q_dot, Out v_dot) {
  return guarded([&] {
    const Call c = rollout_call(*seat, q, q);
    const Rows rows(c, seat->single);
    const Direction d{dq, dv, du, dtheta};
    for (In a : {q, *q_dot}) c.require(a, size_t(c.worlds) * rows.count * c.nq);
    for (In a : {v, *v_dot}) c.require(a, size_t(c.worlds) * rows.count * c.nv);
    c.require(u, size_t(c.worlds) * c.steps * c.nu);
    c.require_theta(theta);
    d.require(c, "jvp()");
    EnginePool::Lease m(*seat->crew);
    Task t = state_task(c, m, rows, q, v, u, theta);
    t.q_dot = q_dot->untyped_data();
    t.v_dot = v_dot->untyped_data();
    d.run(c, rows, m, "jvp()", t);
  });
}

// the tangent of vjp along a direction in the rollout's start, controls and parameters, and along
// one in the cotangents of its states
ffi::Error hvp(CallState* seat, ffi::Dictionary, In q, In v, In u, In theta, In q_bar, In v_bar,
               In dq, In dv, In du, In dtheta, In q_bar_dot, In v_bar_dot, Out q0_dot, Out v0_dot,
               Out u_dot, Out theta_dot) {
  return guarded([&] {
    const Call c = rollout_call(*seat, q, q);
    const Rows rows(c, seat->single);
    Backward b{q, v, u, theta, q_bar, v_bar, q0_dot, v0_dot, u_dot, theta_dot};
    const Direction d{dq, dv, du, dtheta};
    b.require(c, rows, "hessian_vector_product()");
    b.clear();
    d.require(c, "hessian_vector_product()");
    c.require(q_bar_dot, q_bar.element_count());
    c.require(v_bar_dot, v_bar.element_count());
    const long sums = c.theta_rows(*theta_dot);
    EnginePool::Lease m(*seat->crew);
    Task t = state_task(c, m, rows, q, v, u, theta);
    const long numbers = c.ntheta + m->engine.derived_size();
    const size_t params = size_t(c.worlds) * numbers * c.bytes;
    // a single step needs the tangents before it only
    t.q_dot = m->dq.take(q.size_bytes());
    t.v_dot = m->dv.take(v.size_bytes());
    if (rows.single) {
      d.set(c, t);
      std::memcpy(t.q_dot, dq.untyped_data(), dq.size_bytes());
      std::memcpy(t.v_dot, dv.untyped_data(), dv.size_bytes());
    } else {
      d.run(c, rows, m, "hessian_vector_product()", t);
    }
    t.q_cot = {q_bar.untyped_data(), rows.count};
    t.v_cot = {v_bar.untyped_data(), rows.count};
    t.q_cot_dot = {q_bar_dot.untyped_data(), rows.count};
    t.v_cot_dot = {v_bar_dot.untyped_data(), rows.count};
    t.q_bar = cleared(m->q, q0_dot->size_bytes());
    t.v_bar = cleared(m->v, v0_dot->size_bytes());
    t.q_bar_dot = q0_dot->untyped_data();
    t.v_bar_dot = v0_dot->untyped_data();
    t.u_bar_dot = u_dot->untyped_data();
    if (sums > 0) t.theta_bar = cleared(m->theta, params);
    if (sums > 0) t.theta_bar_dot = cleared(m->theta_dot, params);
    if (c.steps == 0) {
      std::memcpy(t.q_bar_dot, q_bar_dot.untyped_data(), q_bar_dot.size_bytes());
      std::memcpy(t.v_bar_dot, v_bar_dot.untyped_data(), v_bar_dot.size_bytes());
    } else if (c.worlds > 0) {
      note_nonfinite(c, rows, q, v, t);
      refuse_status(c, "hessian_vector_product()", t);
      m->engine.run(Job::hvp, t);
      note_nonfinite(c, Rows(c, true), *q0_dot, *v0_dot, t);
      refuse_status(c, "hessian_vector_product()", t);
    }
    if (sums > 0)
      sum_theta(c, static_cast<char*>(t.theta_bar_dot), numbers, sums, theta_dot->untyped_data());
  });
}

}  // namespace

XLA_FFI_DEFINE_HANDLER_SYMBOL(
    fb_xla_seat, take_seat, ffi::Ffi::BindInstantiate().Attr<int64_t>("key").Attr<bool>("single"));
XLA_FFI_DEFINE_HANDLER_SYMBOL(
    fb_xla_rollout, rollout,
    (bind_arrays<4, 2>().Ret<ffi::Buffer<ffi::U32>>().Ret<ffi::Buffer<ffi::S32>>()));
XLA_FFI_DEFINE_HANDLER_SYMBOL(fb_xla_vjp, vjp, (bind_arrays<6, 4>()));
XLA_FFI_DEFINE_HANDLER_SYMBOL(fb_xla_jvp, jvp, (bind_arrays<8, 2>()));
XLA_FFI_DEFINE_HANDLER_SYMBOL(fb_xla_hvp, hvp, (bind_arrays<12, 4>()));

void bind_xla(nb::module_& m) {
  using namespace nb::literals;
  nb::class_<CrewHandle>(m, "EnginePool", "Engines of one model for XLA; see featherback.jax.")
      .def(nb::init<const Engine&, int64_t, std::vector<std::string>>(), "engine"_a, "key"_a,
           "bodies"_a);
  m.def(
      "xla_handlers",
      [] {
        const auto capsule = [](Handler* f) { return nb::capsule(reinterpret_cast<void*>(f)); };
        const auto stages = [&](Handler* seat, Handler* execute) {
          nb::dict d;
          d["instantiate"] = capsule(seat);
          d["execute"] = capsule(execute);
          return d;
        };
        nb::dict d;
        d["rollout"] = stages(fb_xla_seat, fb_xla_rollout);
        d["vjp"] = stages(fb_xla_seat, fb_xla_vjp);
        d["jvp"] = stages(fb_xla_seat, fb_xla_jvp);
        d["hvp"] = stages(fb_xla_seat, fb_xla_hvp);
        d["output"] = stages(fb_xla_output_seat, fb_xla_output);
        d["output_vjp"] = stages(fb_xla_output_seat, fb_xla_output_vjp);
        return d;
      },
      "Handlers of XLA's foreign function interface, by name and stage.");
  m.def(
      "xla_state_type",
      [] {
        static const ffi::TypeInfo info = ffi::MakeTypeInfo<CallState>();
        nb::dict d;
        d["type_id"] = nb::capsule(static_cast<void*>(&CallState::id));
        d["type_info"] = nb::capsule(static_cast<const void*>(&info));
        return d;
      },
      "What a compiled function holds of a Simulator, as XLA registers types.");
}

}  // namespace fb
