// The calls of an Engine: each checks its arrays, fills the task of its job and runs it without the
// interpreter's lock.
#include "bindings/engine_calls.hpp"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>

#include <cmath>

#include "bindings/arrays.hpp"
#include "bindings/gil.hpp"
#include "core/dynamics/outputs.hpp"

namespace fb {
namespace {

Output output_named(const std::string& name) {
#define FB_X(word, ...) \
  if (name == #word) return Output::word;
  FB_OUTPUTS(FB_X)
#undef FB_X
  throw std::invalid_argument("there is no output " + name);
}

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

// a call's arrays, and its task with parameters
template <class Task>
Task open(Engine& engine, const CallArrays& call, const MaybeRead& theta) {
  const Source given = call.theta("theta", theta);
  return engine.task<Task>(call.worlds(), given.at, given.stride > 0);
}

// states have a row each, or one row that moves
void rollout(Engine& engine, WriteArray x, MaybeRead u, MaybeRead theta, StatusWords status,
             Counts status_step, long steps, long u_first, MaybeWrite residual, MaybeWrite sweeps,
             nb::object progress) {
  const Engine::Use use(engine);
  const CallArrays call(engine, long(x.shape(0)));
  const long nx = engine.state_size(), rows = x.ndim() > 1 ? long(x.shape(1)) : 0;
  auto t = open<RolloutTask>(engine, call, theta);
  t.x_out = call.data("x", x, {-1, -1, nx});
  call.require(rows == steps + 1 || rows == 1, "x");
  t.x = {t.x_out, rows * nx, rows > 1 ? nx : 0};
  t.u = call.shared_rows("u", u, u_first, steps, engine.layout().nu);
  t.status = call.status(status, status_step);
  t.residual = call.data("residual", residual, {call.worlds()});
  t.sweeps = call.data("sweeps", sweeps, {call.worlds()});
  run_pieces(steps, progress, [&](long from, long to) {
    t.first_step = from;
    t.last_step = to;
    engine.run(t);
  });
}

// the rollout that is differentiated
template <class Task>
long set_rollout(const Engine& engine, const CallArrays& call, const ReadArray& x,
                 const MaybeRead& u, long u_first, Task& t) {
  const long nx = engine.state_size();
  const void* at = call.data("x", x, {-1, -1, nx});
  const long steps = long(x.shape(1)) - 1;
  t.x = {at, (steps + 1) * nx, nx};
  t.u = call.shared_rows("u", u, u_first, steps, engine.layout().nu);
  return steps;
}
Cotangents cotangents(const CallArrays& call, const char* name, const MaybeRead& a, long nx) {
  if (!a) return {nullptr, 0};
  const void* at = call.data(name, *a, {call.worlds(), -1, nx});
  return {at, long(a->shape(1))};
}
// rows of (worlds, all, nu) from u_first on
Target control_bars(const Engine& engine, const CallArrays& call, const WriteArray& a, long u_first,
                    long steps) {
  const long nu = engine.layout().nu;
  char* at = static_cast<char*>(call.data("u_bar", a, {call.worlds(), -1, nu}));
  call.require(u_first + steps <= long(a.shape(1)), "u_bar");
  return {at + u_first * nu * engine.real_bytes(), long(a.shape(1)) * nu};
}
Target parameter_bars(const Engine& engine, const CallArrays& call, const MaybeWrite& a) {
  const long n = engine.theta_size() + engine.derived_size();
  return {call.data("theta_bar", a, {call.worlds(), n}), n};
}
template <class Task>
void run_backwards(Engine& engine, Task& t) {
  run_pieces(t.steps, nb::none(), [&](long from, long to) {
    t.first_step = t.steps - to;
    t.last_step = t.steps - from;
    engine.run(t);
  });
}

void vjp(Engine& engine, ReadArray x, MaybeRead u, MaybeRead theta, MaybeRead x_cot,
         WriteArray x_bar, WriteArray u_bar, MaybeWrite theta_bar, StatusWords status,
         Counts status_step, Counts unrolled, Counts ties, long u_first, bool finish_params,
         MaybeWrite trace) {
  const Engine::Use use(engine);
  const CallArrays call(engine, long(x.shape(0)));
  const long nx = engine.state_size();
  auto t = open<VjpTask>(engine, call, theta);
  t.steps = set_rollout(engine, call, x, u, u_first, t);
  t.x_cot = cotangents(call, "x_cot", x_cot, nx);
  t.x_bar = {call.data("x_bar", x_bar, {call.worlds(), nx}), nx};
  t.u_bar = control_bars(engine, call, u_bar, u_first, t.steps);
  t.theta_bar = parameter_bars(engine, call, theta_bar);
  t.finish_params = finish_params;
  t.status = call.status(status, status_step);
  t.unrolled = call.per_world("unrolled", unrolled);
  t.ties = call.per_world("ties", ties);
  t.trace = call.data("trace", trace, {call.worlds(), t.steps, kTraceSize});
  run_backwards(engine, t);
}

// tangents of all states, of controls and of parameters
RolloutTangent direction(const Engine& engine, const CallArrays& call, const void* x_dot,
                         long steps, const MaybeRead& du, const MaybeRead& dtheta) {
  const long nx = engine.state_size();
  return {{x_dot, (steps + 1) * nx, nx},
          call.shared_rows("du", du, 0, steps, engine.layout().nu),
          call.theta("dtheta", dtheta)};
}

void jvp(Engine& engine, ReadArray x, MaybeRead u, MaybeRead theta, WriteArray x_dot, MaybeRead du,
         MaybeRead dtheta, StatusWords status, Counts status_step) {
  const Engine::Use use(engine);
  const CallArrays call(engine, long(x.shape(0)));
  auto t = open<JvpTask>(engine, call, theta);
  const long steps = set_rollout(engine, call, x, u, 0, t);
  t.x_dot = call.data("x_dot", x_dot, {call.worlds(), steps + 1, engine.state_size()});
  t.dot = direction(engine, call, t.x_dot, steps, du, dtheta);
  t.status = call.status(status, status_step);
  run_pieces(steps, nb::none(), [&](long from, long to) {
    t.first_step = from;
    t.last_step = to;
    engine.run(t);
  });
}

void hvp(Engine& engine, ReadArray x, MaybeRead u, MaybeRead theta, ReadArray x_dot, MaybeRead du,
         MaybeRead dtheta, MaybeRead x_cot, MaybeRead x_cot_dot, WriteArray x_bar,
         WriteArray x_bar_dot, WriteArray u_bar_dot, MaybeWrite theta_bar, MaybeWrite theta_bar_dot,
         StatusWords status, Counts status_step) {
  const Engine::Use use(engine);
  const CallArrays call(engine, long(x.shape(0)));
  const long nx = engine.state_size(), worlds = call.worlds();
  auto t = open<HvpTask>(engine, call, theta);
  t.steps = set_rollout(engine, call, x, u, 0, t);
  const void* dots = call.data("x_dot", x_dot, {worlds, t.steps + 1, nx});
  t.dot = direction(engine, call, dots, t.steps, du, dtheta);
  t.x_cot = cotangents(call, "x_cot", x_cot, nx);
  t.x_cot_dot = cotangents(call, "x_cot_dot", x_cot_dot, nx);
  t.x_bar = {call.data("x_bar", x_bar, {worlds, nx}), nx};
  t.x_bar_dot = {call.data("x_bar_dot", x_bar_dot, {worlds, nx}), nx};
  t.u_bar_dot = control_bars(engine, call, u_bar_dot, 0, t.steps);
  t.theta_bar = parameter_bars(engine, call, theta_bar);
  t.theta_bar_dot = parameter_bars(engine, call, theta_bar_dot);
  t.finish_params = true;
  t.status = call.status(status, status_step);
  run_backwards(engine, t);
}

// one row of every world
Source one_row(const CallArrays& call, const char* name, const MaybeRead& a, long n) {
  return {call.data(name, a, {call.worlds(), n}), n};
}

void linearize(Engine& engine, ReadArray x, MaybeRead u, MaybeRead theta, WriteArray A,
               WriteArray B, StatusWords status, Counts status_step) {
  const Engine::Use use(engine);
  const CallArrays call(engine, long(x.shape(0)));
  const Layout& s = engine.layout();
  const long n = 2 * s.nv + s.na, worlds = call.worlds();
  auto t = open<LinearizeTask>(engine, call, theta);
  t.x = one_row(call, "x", x, engine.state_size());
  t.u = one_row(call, "u", u, s.nu);
  t.A = call.data("A", A, {worlds, n, n});
  t.B = call.data("B", B, {worlds, n, s.nu});
  t.status = call.status(status, status_step);
  const WithoutGil release;
  engine.run(t);
}

void contacts(Engine& engine, ReadArray x, MaybeRead u, MaybeRead theta, WriteArray numbers,
              nb::ndarray<int32_t, nb::ndim<2>, nb::c_contig, nb::device::cpu> pair, Counts count,
              PerWorld<uint8_t> overflow) {
  const Engine::Use use(engine);
  const CallArrays call(engine, long(x.shape(0)));
  const Layout& s = engine.layout();
  auto t = open<ContactsTask>(engine, call, theta);
  t.x = one_row(call, "x", x, engine.state_size());
  t.u = one_row(call, "u", u, s.nu);
  t.numbers = call.data("numbers", numbers, {call.worlds(), s.max_contacts, kContactSize});
  call.require(long(pair.shape(0)) == call.worlds() && long(pair.shape(1)) == s.max_contacts,
               "pair");
  t.pair = pair.data();
  t.count = call.per_world("count", count);
  t.overflow = call.per_world("overflow", overflow);
  const WithoutGil release;
  engine.run(t);
}

template <class Task>
void set_point(const Engine& engine, const CallArrays& call, const ReadArray& q, const MaybeRead& v,
               const MaybeRead& x, Task& t) {
  const Layout& s = engine.layout();
  t.q = call.data("q", q, {-1, s.nq});
  t.v = call.data("v", v, {call.worlds(), s.nv});
  t.x = call.data("x", x, {call.worlds(), s.nv});
}
void output(Engine& engine, const std::string& name, ReadArray q, MaybeRead v, MaybeRead x,
            MaybeRead theta, WriteArray y) {
  const Engine::Use use(engine);
  const CallArrays call(engine, long(q.shape(0)));
  auto t = open<OutputTask>(engine, call, theta);
  t.output = output_named(name);
  set_point(engine, call, q, v, x, t);
  const long size = host::output_size(engine.layout(), t.output);
  call.require(y.dtype() == call.dtype() && long(y.size()) == call.worlds() * size, "y");
  t.y = y.data();
  const WithoutGil release;
  engine.run(t);
}
void output_vjp(Engine& engine, const std::string& name, ReadArray q, MaybeRead v, MaybeRead x,
                MaybeRead theta, ReadArray y_bar, WriteArray q_bar, MaybeWrite v_bar,
                MaybeWrite x_bar, MaybeWrite theta_bar) {
  const Engine::Use use(engine);
  const CallArrays call(engine, long(q.shape(0)));
  const Layout& s = engine.layout();
  auto t = open<OutputVjpTask>(engine, call, theta);
  t.output = output_named(name);
  set_point(engine, call, q, v, x, t);
  const long size = host::output_size(s, t.output);
  call.require(y_bar.dtype() == call.dtype() && long(y_bar.size()) == call.worlds() * size,
               "y_bar");
  t.y_bar = y_bar.data();
  t.q_bar = call.data("q_bar", q_bar, {call.worlds(), s.nq});
  t.v_bar = call.data("v_bar", v_bar, {call.worlds(), s.nv});
  t.x_bar = call.data("x_bar", x_bar, {call.worlds(), s.nv});
  t.theta_bar = parameter_bars(engine, call, theta_bar);
  const WithoutGil release;
  engine.run(t);
}

}  // namespace

void bind_one_world(nb::class_<Engine>& c);

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
           "sweeps"_a = nb::none(), "progress"_a = nb::none())
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
