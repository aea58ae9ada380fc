// Outputs of a model, such as poses, and their gradients as calls of XLA. q is there for every
// output; v and a third input are empty where an output does not read them.
#include "bindings/xla.hpp"
#include "bindings/xla_call.hpp"

namespace fb {
namespace {

CallStateOrError output_state(int64_t key, std::string_view output) {
  return call_state(key, false, output_named(std::string(output)));
}

OutputInputs inputs_of(const CallState& state, In q, In v, In x, In theta) {
  return {state.output, array_of(q), given_or_none(v), given_or_none(x), given_or_none(theta)};
}
ffi::Error output(CallState* state, ffi::Dictionary, In q, In v, In x, In theta, Out y) {
  return guarded([&] {
    EnginePool::Lease own(*state->pool);
    const OutputTask t = make_task(
        own->engine, OutputArrays{.at = inputs_of(*state, q, v, x, theta), .y = array_of(y)});
    refuse_values(*state->pool, "featherback.jax", theta);
    own->engine.run(t);
  });
}

// refuse a gradient with a NaN or infinity, by world
void refuse_nonfinite(const Engine& engine, long worlds, const void* bars, long n, long stride) {
  const int bytes = engine.real_bytes();
  for (long w = 0; bars && w < worlds; ++w)
    if (!finite(static_cast<const char*>(bars) + w * stride * bytes, n, bytes))
      throw Refusal{"featherback.jax: the gradient of world " + std::to_string(w) +
                    " is not finite; look for a NaN, an infinity or a quaternion of length zero in "
                    "its inputs."};
}

ffi::Error output_vjp(CallState* state, ffi::Dictionary, In q, In v, In x, In theta, In y_bar,
                      Out q_bar, Out v_bar, Out x_bar, Out theta_bar) {
  return guarded([&] {
    EnginePool::Lease own(*state->pool);
    const Engine& engine = own->engine;
    const Layout& s = engine.layout();
    ThetaSums sums(*own, theta_bar, array_of(q).shape[0]);
    const OutputVjpTask t =
        make_task(own->engine, OutputVjpArrays{.at = inputs_of(*state, q, v, x, theta),
                                               .y_bar = array_of(y_bar),
                                               .q_bar = array_of(q_bar),
                                               .v_bar = given_or_none(v_bar),
                                               .x_bar = given_or_none(x_bar),
                                               .theta_bar = sums.zeros(own->theta_bar)});
    require_finite(*state->pool, "featherback.jax: the cotangent of an output", y_bar,
                   ", and zero where the loss does not depend on the output");
    own->engine.run(t);
    refuse_nonfinite(engine, t.worlds, t.q_bar, s.nq, s.nq);
    refuse_nonfinite(engine, t.worlds, t.v_bar, s.nv, s.nv);
    const long third = array_of(x_bar).shape[1];
    refuse_nonfinite(engine, t.worlds, t.x_bar, third, third);
    refuse_nonfinite(engine, t.worlds, sums.sums(), engine.theta_size(), sums.row_size());
    sums.finish();
  });
}

}  // namespace
}  // namespace fb

XLA_FFI_DEFINE_HANDLER_SYMBOL(
    fb_xla_output_state, fb::output_state,
    xla::ffi::Ffi::BindInstantiate().Attr<int64_t>("key").Attr<std::string_view>("output"));
XLA_FFI_DEFINE_HANDLER_SYMBOL(fb_xla_output, fb::output, (fb::bind_arrays<4, 1>()));
XLA_FFI_DEFINE_HANDLER_SYMBOL(fb_xla_output_vjp, fb::output_vjp, (fb::bind_arrays<5, 4>()));
