// The calls of an Engine from Python: arrays become the task of a job, which runs without the
// interpreter's lock.
#include "bindings/engine_calls.hpp"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>

#include "bindings/arrays.hpp"
#include "bindings/gil.hpp"

namespace fb {
namespace {

using namespace nb::literals;
using StatusWords = PerWorld<uint32_t>;
using Counts = PerWorld<int32_t>;

std::vector<int32_t> copy(const Ints& a) { return {a.data(), a.data() + a.size()}; }

void make_engine(Engine* self, Ints sizes, Ints tables, ReadArray theta, ReadArray vert,
                 const EngineOptions& options, const std::string& isa, int threads) {
  const int bytes = int(theta.itemsize());
  new (self) Engine(
      {copy(sizes), copy(tables), {theta.data(), theta.size()}, {vert.data(), vert.size()}, bytes},
      options, isa, threads);
}

// between two pieces of a job an interrupt is answered and progress is shown
void run_pieces(long steps, const nb::object& progress,
                const std::function<void(long, long)>& work) {
  in_pieces(
      steps,
      [&](long from, long to) {
        WithoutGil release;
        work(from, to);
      },
      [&](long to) {
        if (PyErr_CheckSignals() != 0) throw nb::python_error();
        if (!progress.is_none()) progress(to);
      });
}

// the rollout that a job runs or differentiates
PathArrays<ArrayIn> path_of(const ReadArray& x, const MaybeRead& u, const MaybeRead& theta,
                            const StatusWords& status, const Counts& status_step,
                            long u_first = 0) {
  const ArrayIn states = array_of(x);
  const long steps = states.shape[1] - 1;
  return {states, array_of(u), array_of(theta),
          steps,  u_first,     {array_of(status), array_of(status_step)}};
}
// each runs the task that is made of a call's arrays
template <class Arrays>
void run_forwards(Engine& engine, const Arrays& given, const nb::object& progress = nb::none()) {
  const Engine::Use use(engine);
  auto t = make_task(engine, given);
  run_pieces(t.last_step, progress, [&](long from, long to) {
    t.first_step = from;
    t.last_step = to;
    engine.run(t);
  });
}
template <class Arrays>
void run_backwards(Engine& engine, const Arrays& given) {
  const Engine::Use use(engine);
  auto t = make_task(engine, given);
  run_pieces(t.steps, nb::none(), [&](long from, long to) {
    t.first_step = t.steps - to;
    t.last_step = t.steps - from;
    engine.run(t);
  });
}
template <class Arrays>
void run_at_once(Engine& engine, const Arrays& given) {
  const Engine::Use use(engine);
  const auto t = make_task(engine, given);
  const WithoutGil release;
  engine.run(t);
}

// states have a row each, or one row that moves
void rollout(const EngineCall& call, WriteArray x, MaybeRead u, MaybeRead theta, StatusWords status,
             Counts status_step, long steps, long u_first, MaybeWrite residual, MaybeWrite sweeps,
             MaybeWrite factorisations, nb::object progress) {
  const StatusArrays found{array_of(status), array_of(status_step)};
  run_forwards(*call.engine,
               RolloutArrays{{array_of(x), array_of(u), array_of(theta), steps, u_first, found},
                             array_of(residual),
                             array_of(sweeps),
                             array_of(factorisations)},
               progress);
}

void vjp(const EngineCall& call, ReadArray x, MaybeRead u, MaybeRead theta, MaybeRead x_cot,
         WriteArray x_bar, WriteArray u_bar, MaybeWrite theta_bar, StatusWords status,
         Counts status_step, Counts unrolled, Counts ties, long u_first, bool finish_params,
         MaybeWrite trace) {
  run_backwards(*call.engine, VjpArrays{.path = path_of(x, u, theta, status, status_step, u_first),
                                        .x_cot = array_of(x_cot),
                                        .x_bar = array_of(x_bar),
                                        .u_bar = array_of(u_bar),
                                        .theta_bar = array_of(theta_bar),
                                        .finish_params = finish_params,
                                        .unrolled = array_of(unrolled),
                                        .ties = array_of(ties),
                                        .trace = array_of(trace)});
}

void jvp(const EngineCall& call, ReadArray x, MaybeRead u, MaybeRead theta, WriteArray x_dot,
         MaybeRead du, MaybeRead dtheta, StatusWords status, Counts status_step) {
  run_forwards(*call.engine, JvpArrays{.path = path_of(x, u, theta, status, status_step),
                                       .x_dot = array_of(x_dot),
                                       .du = array_of(du),
                                       .dtheta = array_of(dtheta)});
}

void hvp(const EngineCall& call, ReadArray x, MaybeRead u, MaybeRead theta, ReadArray x_dot,
         MaybeRead du, MaybeRead dtheta, MaybeRead x_cot, MaybeRead x_cot_dot, WriteArray x_bar,
         WriteArray x_bar_dot, WriteArray u_bar_dot, MaybeWrite theta_bar, MaybeWrite theta_bar_dot,
         StatusWords status, Counts status_step) {
  run_backwards(*call.engine, HvpArrays{.path = path_of(x, u, theta, status, status_step),
                                        .x_dot = array_of(x_dot),
                                        .du = array_of(du),
                                        .dtheta = array_of(dtheta),
                                        .x_cot = array_of(x_cot),
                                        .x_cot_dot = array_of(x_cot_dot),
                                        .x_bar = array_of(x_bar),
                                        .x_bar_dot = array_of(x_bar_dot),
                                        .u_bar_dot = array_of(u_bar_dot),
                                        .theta_bar = array_of(theta_bar),
                                        .theta_bar_dot = array_of(theta_bar_dot)});
}

void linearize(const EngineCall& call, ReadArray x, MaybeRead u, MaybeRead theta, WriteArray A,
               WriteArray B, StatusWords status, Counts status_step) {
  run_at_once(*call.engine, LinearizeArrays{.x = array_of(x),
                                            .u = array_of(u),
                                            .theta = array_of(theta),
                                            .A = array_of(A),
                                            .B = array_of(B),
                                            .status = {array_of(status), array_of(status_step)}});
}

void contacts(const EngineCall& call, ReadArray x, MaybeRead u, MaybeRead theta, WriteArray numbers,
              nb::ndarray<int32_t, nb::ndim<2>, nb::c_contig, nb::device::cpu> pair, Counts count,
              PerWorld<uint8_t> overflow) {
  run_at_once(*call.engine, ContactsArrays{.x = array_of(x),
                                           .u = array_of(u),
                                           .theta = array_of(theta),
                                           .numbers = array_of(numbers),
                                           .pair = array_of(pair),
                                           .count = array_of(count),
                                           .overflow = array_of(overflow)});
}

OutputInputs inputs_of(const std::string& name, const ReadArray& q, const MaybeRead& v,
                       const MaybeRead& x, const MaybeRead& theta) {
  return {output_named(name), array_of(q), array_of(v), array_of(x), array_of(theta)};
}
void output(const EngineCall& call, const std::string& name, ReadArray q, MaybeRead v, MaybeRead x,
            MaybeRead theta, WriteArray y) {
  run_at_once(*call.engine, OutputArrays{.at = inputs_of(name, q, v, x, theta), .y = array_of(y)});
}
void output_vjp(const EngineCall& call, const std::string& name, ReadArray q, MaybeRead v,
                MaybeRead x, MaybeRead theta, ReadArray y_bar, WriteArray q_bar, MaybeWrite v_bar,
                MaybeWrite x_bar, MaybeWrite theta_bar) {
  run_at_once(*call.engine, OutputVjpArrays{.at = inputs_of(name, q, v, x, theta),
                                            .y_bar = array_of(y_bar),
                                            .q_bar = array_of(q_bar),
                                            .v_bar = array_of(v_bar),
                                            .x_bar = array_of(x_bar),
                                            .theta_bar = array_of(theta_bar)});
}

}  // namespace

void bind_engine(nb::module_& m) {
  const auto none = [](const char* name) { return nb::arg(name).none(); };
  nb::class_<Engine> c(m, "Engine", "One model compiled for stepping; see featherback.Simulator.");
  c.def("__init__", make_engine, "sizes"_a, "tables"_a, "theta"_a, "vert"_a, "options"_a, "isa"_a,
        "threads"_a)
      .def_prop_ro("theta_size", &Engine::theta_size)
      .def_prop_ro("derived_size", &Engine::derived_size)
      .def_prop_ro("state_size", &Engine::state_size)
      .def_prop_ro("workspace_bytes", &Engine::workspace_bytes)
      .def("rollout", rollout, "x"_a, none("u"), none("theta"), "status"_a, "status_step"_a,
           nb::kw_only(), "steps"_a, "u_first"_a = 0, "residual"_a = nb::none(),
           "sweeps"_a = nb::none(), "factorisations"_a = nb::none(), "progress"_a = nb::none())
      .def("vjp", vjp, "x"_a, none("u"), none("theta"), none("x_cot"), "x_bar"_a, "u_bar"_a,
           none("theta_bar"), "status"_a, "status_step"_a, "unrolled"_a, "ties"_a, nb::kw_only(),
           "u_first"_a = 0, "finish_params"_a = true, "trace"_a = nb::none())
      .def("jvp", jvp, "x"_a, none("u"), none("theta"), "x_dot"_a, none("du"), none("dtheta"),
           "status"_a, "status_step"_a)
      .def("hvp", hvp, "x"_a, none("u"), none("theta"), "x_dot"_a, none("du"), none("dtheta"),
           none("x_cot"), none("x_cot_dot"), "x_bar"_a, "x_bar_dot"_a, "u_bar_dot"_a,
           none("theta_bar"), none("theta_bar_dot"), "status"_a, "status_step"_a)
      .def("linearize", linearize, "x"_a, none("u"), none("theta"), "A"_a, "B"_a, "status"_a,
           "status_step"_a)
      .def("contacts", contacts, "x"_a, none("u"), none("theta"), "numbers"_a, "pair"_a, "count"_a,
           "overflow"_a)
      .def("output", output, "name"_a, "q"_a, none("v"), none("x"), none("theta"), "y"_a)
      .def("output_vjp", output_vjp, "name"_a, "q"_a, none("v"), none("x"), none("theta"),
           "y_bar"_a, "q_bar"_a, none("v_bar"), none("x_bar"), none("theta_bar"));
  bind_one_world(c);
}

}  // namespace fb
