// Rollouts and their derivatives as calls of XLA, and how Python reaches the handlers.
#include "bindings/xla.hpp"

#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "bindings/xla_call.hpp"

namespace nb = nanobind;

namespace fb {
namespace {

// what Python holds; engines with equal keys are the same engine
class PoolHandle {
 public:
  PoolHandle(const Engine& engine, int64_t key, std::vector<std::string> bodies) {
    std::lock_guard<std::mutex> hold(registry().mutex);
    pool_ = find_pool(key);
    if (pool_) return;
    pool_ = std::make_shared<EnginePool>(engine, std::move(bodies));
    std::erase_if(registry().pools, [](const auto& x) { return x.second.expired(); });
    registry().pools[key] = pool_;
  }

 private:
  std::shared_ptr<EnginePool> pool_;
};

CallStateOrError rollout_state(int64_t key, bool single) { return call_state(key, single, {}); }

// ---- the calls.  A single step has no axis of steps: x is (worlds, nx) before and after it.

// an array with its axis of steps
template <class X>
ArrayOf<X> with_rows(const ArrayOf<X>& a, bool single) {
  if (!single || a.rank != 2) return a;
  return {a.at, a.real_bytes, 3, {a.shape[0], 1, a.shape[1]}};
}

ffi::Error rollout(CallState* state, ffi::Dictionary, In x, In u, In theta, Out x_all,
                   ffi::ResultBuffer<ffi::U32> status, ffi::ResultBuffer<ffi::S32> status_step) {
  return guarded([&] {
    EnginePool::Lease own(*state->pool);
    const ArrayIn controls = with_rows(array_of(u), state->single);
    const ArrayOut states = with_rows(array_of(x_all), state->single);
    const RolloutTask t = make_task(
        own->engine, RolloutArrays{.path = {.x = states,
                                            .u = controls,
                                            .theta = given_or_none(theta),
                                            .steps = controls.shape[1],
                                            .status = {array_of(status), array_of(status_step)}},
                                   .residual = {},
                                   .sweeps = {}});
    // the first row is the start, and is replaced in a single step
    set_first_rows(own->engine, "x", array_of(x), states);
    refuse_values(*state->pool, state->single ? "step()" : "rollout()", theta);
    std::fill_n(t.status.status, t.worlds, 0u);
    std::fill_n(t.status.step, t.worlds, -1);
    own->engine.run(t);
  });
}

// the rollout that is differentiated, with memory for its statuses
PathArrays<ArrayIn> path_of(const CallState& state, PooledEngine& own, In x, In u, In theta) {
  const ArrayIn states = with_rows(array_of(x), state.single);
  const ArrayIn controls = with_rows(array_of(u), state.single);
  const long worlds = states.shape[0];
  auto* status = reinterpret_cast<uint32_t*>(own.status.take(worlds * sizeof(uint32_t)));
  auto* step = reinterpret_cast<int32_t*>(own.status_step.take(worlds * sizeof(int32_t)));
  std::fill_n(status, worlds, 0u);
  std::fill_n(step, worlds, -1);
  return {.x = states,
          .u = controls,
          .theta = given_or_none(theta),
          .steps = controls.shape[1],
          .status = {{status, 0, 1, {worlds}}, {step, 0, 1, {worlds}}}};
}

// the first state of each world that is not finite, as a status; states are (worlds, rows, nx)
void note_nonfinite(const ArrayIn& states, const StatusOut& found) {
  const auto [worlds, rows, n, none] = states.shape;
  const int bytes = states.real_bytes;
  if (finite(states.at, worlds * rows * n, bytes)) return;
  for (long i = worlds * rows - 1; i >= 0; --i) {
    if (finite(static_cast<const char*>(states.at) + i * n * bytes, n, bytes)) continue;
    found.status[i / rows] = kNonFinite;
    found.step[i / rows] = int32_t(std::max(i % rows - 1, 0L));
  }
}

// what a derivative is called in a refusal, and how it answers for its worlds
struct Caller {
  const EnginePool& pool;
  const char* where;

  void refuse_status(const WorldsTask& t, const StatusOut& found) const {
    refuse_worlds(where, t.worlds, found);
  }
  void refuse_nonfinite(const WorldsTask& t, const ArrayIn& states, const StatusOut& found) const {
    note_nonfinite(states, found);
    refuse_status(t, found);
  }
  // directions in states or cotangents of them, named by the part of the state at fault
  void require_finite_states(In a, const std::string& before, const std::string& after,
                             const char* hint) const {
    const size_t at = first_nonfinite(a.untyped_data(), a.element_count(), pool.real_bytes());
    if (at == a.element_count()) return;
    const Layout& s = pool.layout();
    const int i = int(at % pool.state_size());
    const int rest = i - s.nq - s.nv;
    const char* part = i < s.nq ? "q" : rest < 0 ? "v" : rest < s.na ? "act" : "warm";
    throw Refusal{where + (": " + before) + part + after +
                  " holds a NaN or infinity; give finite numbers" + hint + "."};
  }
  void require_finite_cotangents(In x_bar) const {
    require_finite_states(x_bar, "", "_bar",
                          ", and zero where the loss does not depend on the state");
  }
  void require_finite_direction(In dx, In du, In dtheta) const {
    require_finite_states(dx, "d", "", "");
    require_finite(pool, where + std::string(": du"), du);
    require_finite(pool, where + std::string(": dparams"), dtheta);
  }
};

ffi::Error vjp(CallState* state, ffi::Dictionary, In x, In u, In theta, In x_bar, Out x0_bar,
               Out u_bar, Out theta_bar) {
  return guarded([&] {
    const Caller caller{*state->pool, "vjp()"};
    EnginePool::Lease own(*state->pool);
    const PathArrays<ArrayIn> path = path_of(*state, *own, x, u, theta);
    ThetaSums sums(*own, theta_bar, path.x.shape[0]);
    const VjpTask t =
        make_task(own->engine, VjpArrays{.path = path,
                                         .x_cot = with_rows(array_of(x_bar), state->single),
                                         .x_bar = array_of(x0_bar),
                                         .u_bar = with_rows(array_of(u_bar), state->single),
                                         .theta_bar = sums.zeros(own->theta_bar)});
    caller.require_finite_cotangents(x_bar);
    caller.refuse_nonfinite(t, path.x, t.status);
    std::memset(x0_bar->untyped_data(), 0, x0_bar->size_bytes());
    own->engine.run(t);
    // a single step does not keep the state behind it
    if (state->single) note_nonfinite(with_rows(array_of(*x0_bar), true), t.status);
    caller.refuse_status(t, t.status);
    sums.finish();
    const char* grew =
        ", which the gradient left on the way back: take fewer steps, or smaller cotangents";
    for (Out a : {x0_bar, u_bar, theta_bar})
      require_finite(*state->pool, "vjp(): a gradient", *a, grew);
  });
}

ffi::Error jvp(CallState* state, ffi::Dictionary, In x, In u, In theta, In dx, In du, In dtheta,
               Out x_dot) {
  return guarded([&] {
    const Caller caller{*state->pool, "jvp()"};
    EnginePool::Lease own(*state->pool);
    const ArrayOut dots = with_rows(array_of(x_dot), state->single);
    const JvpTask t = make_task(own->engine, JvpArrays{.path = path_of(*state, *own, x, u, theta),
                                                       .x_dot = dots,
                                                       .du = with_rows(array_of(du), state->single),
                                                       .dtheta = given_or_none(dtheta)});
    set_first_rows(own->engine, "dx", array_of(dx), dots);
    caller.require_finite_direction(dx, du, dtheta);
    own->engine.run(t);
    caller.refuse_status(t, t.status);
  });
}

// the tangent of vjp along a direction in the rollout's start, controls and parameters, and along
// one in the cotangents of its states
ffi::Error hvp(CallState* state, ffi::Dictionary, In x, In u, In theta, In x_bar, In dx, In du,
               In dtheta, In x_bar_dot, Out x0_dot, Out u_dot, Out theta_dot) {
  return guarded([&] {
    const bool single = state->single;
    const Caller caller{*state->pool, "hessian_vector_product()"};
    EnginePool::Lease own(*state->pool);
    Engine& engine = own->engine;
    const PathArrays<ArrayIn> path = path_of(*state, *own, x, u, theta);
    const JvpArrays along{
        .path = path,
        .x_dot = {own->x_dot.take(x.size_bytes()), path.x.real_bytes, 3, path.x.shape},
        .du = with_rows(array_of(du), single),
        .dtheta = given_or_none(dtheta)};
    ThetaSums plain(*own, theta_dot, path.x.shape[0]), sums = plain;
    const JvpTask tangent = make_task(engine, along);
    const HvpTask t =
        make_task(engine, HvpArrays{.path = path,
                                    .x_dot = along.x_dot,
                                    .du = along.du,
                                    .dtheta = along.dtheta,
                                    .x_cot = with_rows(array_of(x_bar), single),
                                    .x_cot_dot = with_rows(array_of(x_bar_dot), single),
                                    .x_bar = array_of(cleared(own->x_bar, x0_dot->size_bytes()),
                                                      engine, path.x.shape[0], engine.state_size()),
                                    .x_bar_dot = array_of(x0_dot),
                                    .u_bar_dot = with_rows(array_of(u_dot), single),
                                    .theta_bar = plain.zeros(own->theta_bar),
                                    .theta_bar_dot = sums.zeros(own->theta_bar_dot)});
    caller.require_finite_cotangents(x_bar);
    caller.require_finite_direction(dx, du, dtheta);
    set_first_rows(engine, "dx", array_of(dx), along.x_dot);
    // a single step needs the tangents before it only
    if (!single) engine.run(tangent);
    caller.refuse_status(t, t.status);
    caller.refuse_nonfinite(t, path.x, t.status);
    std::memset(x0_dot->untyped_data(), 0, x0_dot->size_bytes());
    engine.run(t);
    caller.refuse_nonfinite(t, with_rows(array_of(*x0_dot), true), t.status);
    sums.finish();
  });
}

}  // namespace

XLA_FFI_DEFINE_HANDLER_SYMBOL(
    fb_xla_rollout_state, rollout_state,
    ffi::Ffi::BindInstantiate().Attr<int64_t>("key").Attr<bool>("single"));
XLA_FFI_DEFINE_HANDLER_SYMBOL(
    fb_xla_rollout, rollout,
    (bind_arrays<3, 1>().Ret<ffi::Buffer<ffi::U32>>().Ret<ffi::Buffer<ffi::S32>>()));
XLA_FFI_DEFINE_HANDLER_SYMBOL(fb_xla_vjp, vjp, (bind_arrays<4, 3>()));
XLA_FFI_DEFINE_HANDLER_SYMBOL(fb_xla_jvp, jvp, (bind_arrays<6, 1>()));
XLA_FFI_DEFINE_HANDLER_SYMBOL(fb_xla_hvp, hvp, (bind_arrays<8, 3>()));

void bind_xla(nb::module_& m) {
  using namespace nb::literals;
  nb::class_<PoolHandle>(m, "EnginePool", "Engines of one model for XLA; see featherback.jax.")
      .def(nb::init<const Engine&, int64_t, std::vector<std::string>>(), "engine"_a, "key"_a,
           "bodies"_a);
  m.def(
      "xla_handlers",
      [] {
        const auto capsule = [](Handler* f) { return nb::capsule(reinterpret_cast<void*>(f)); };
        const auto stages = [&](Handler* state, Handler* execute) {
          nb::dict d;
          d["instantiate"] = capsule(state);
          d["execute"] = capsule(execute);
          return d;
        };
        nb::dict d;
        d["rollout"] = stages(fb_xla_rollout_state, fb_xla_rollout);
        d["vjp"] = stages(fb_xla_rollout_state, fb_xla_vjp);
        d["jvp"] = stages(fb_xla_rollout_state, fb_xla_jvp);
        d["hvp"] = stages(fb_xla_rollout_state, fb_xla_hvp);
        d["output"] = stages(fb_xla_output_state, fb_xla_output);
        d["output_vjp"] = stages(fb_xla_output_state, fb_xla_output_vjp);
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
