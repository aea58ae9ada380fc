// Outputs of a model, such as poses, and their gradients as calls of XLA.
#include "bindings/xla.hpp"
#include "bindings/xla_call.hpp"
#include "core/dynamics/outputs.hpp"

namespace fb {
namespace {

CallStateOrError take_seat(int64_t key, std::string_view output) {
  return seat_for(key, false, output_job(std::string(output)));
}

// numbers of an output in one world
size_t output_numbers(const Layout& s, Job job) {
  return size_t(host::output_size(s, Output(int(job) - int(Job::poses))));
}

// q of every output; v and a third input of some, empty for the others
void require_point(const Call& c, In q, In v, In x, In theta) {
  c.require(q, size_t(c.worlds) * c.nq);
  for (In a : {v, x}) c.require(a, a.element_count() ? size_t(c.worlds) * c.nv : 0);
  c.require_theta(theta);
}
Task open_task(const Call& c, EnginePool::Lease& m, In q, In v, In x, In theta) {
  Task t = c.task(m->engine, theta);
  t.q = q.untyped_data();
  t.v = v.element_count() ? v.untyped_data() : nullptr;
  t.x = x.element_count() ? x.untyped_data() : nullptr;
  return t;
}

ffi::Error output(CallState* seat, ffi::Dictionary, In q, In v, In x, In theta, Out y) {
  return guarded([&] {
    EnginePool& crew = *seat->crew;
    const Call c(crew, q, true, 0);
    require_point(c, q, v, x, theta);
    c.require(*y, c.worlds * output_numbers(crew.layout(), seat->job));
    refuse_values(crew, "featherback.jax", theta);
    if (c.worlds == 0) return;
    EnginePool::Lease m(crew);
    Task t = open_task(c, m, q, v, x, theta);
    t.y = y->untyped_data();
    m->engine.run(seat->job, t);
  });
}

// refuse a gradient with a NaN or infinity, by world
void refuse_nonfinite(const Call& c, const void* bars, long n, long stride) {
  for (long w = 0; w < c.worlds; ++w)
    if (!finite(static_cast<const char*>(bars) + w * stride * c.bytes, n, c.bytes))
      throw Refusal{"featherback.jax: the gradient of world " + std::to_string(w) +
                    " is not finite; look for a NaN, an infinity or a quaternion of length zero in "
                    "its inputs."};
}

ffi::Error output_vjp(CallState* seat, ffi::Dictionary, In q, In v, In x, In theta, In y_bar,
                      Out q_bar, Out v_bar, Out x_bar, Out theta_bar) {
  return guarded([&] {
    EnginePool& crew = *seat->crew;
    const Call c(crew, q, true, 0);
    require_point(c, q, v, x, theta);
    c.require(y_bar, c.worlds * output_numbers(crew.layout(), seat->job));
    c.require(*q_bar, q.element_count());
    c.require(*v_bar, v.element_count());
    c.require(*x_bar, x.element_count());
    const long rows = c.theta_rows(*theta_bar);
    c.require_finite("featherback.jax: the cotangent of an output", y_bar,
                     ", and zero where the loss does not depend on the output");
    EnginePool::Lease m(crew);
    Task t = open_task(c, m, q, v, x, theta);
    // the kernel reads cotangents where it writes the output; it does not change them
    t.y = const_cast<void*>(y_bar.untyped_data());
    t.q_bar = q_bar->untyped_data();
    t.v_bar = t.v ? v_bar->untyped_data() : nullptr;
    t.u_bar = t.x ? x_bar->untyped_data() : nullptr;
    const long numbers = c.ntheta + m->engine.derived_size();
    if (rows > 0) t.theta_bar = cleared(m->theta, size_t(c.worlds) * numbers * c.bytes);
    if (c.worlds > 0) m->engine.run(seat->job, t);
    refuse_nonfinite(c, t.q_bar, c.nq, c.nq);
    if (t.v_bar) refuse_nonfinite(c, t.v_bar, c.nv, c.nv);
    if (t.u_bar) refuse_nonfinite(c, t.u_bar, c.nv, c.nv);
    if (rows == 0) return;
    refuse_nonfinite(c, t.theta_bar, c.ntheta, numbers);
    sum_theta(c, static_cast<char*>(t.theta_bar), numbers, rows, theta_bar->untyped_data());
  });
}

}  // namespace
}  // namespace fb

XLA_FFI_DEFINE_HANDLER_SYMBOL(
    fb_xla_output_seat, fb::take_seat,
    xla::ffi::Ffi::BindInstantiate().Attr<int64_t>("key").Attr<std::string_view>("output"));
XLA_FFI_DEFINE_HANDLER_SYMBOL(fb_xla_output, fb::output, (fb::bind_arrays<4, 1>()));
XLA_FFI_DEFINE_HANDLER_SYMBOL(fb_xla_output_vjp, fb::output_vjp, (fb::bind_arrays<5, 4>()));
