// Shapes and strides of a caller's arrays.
#include "engine/calls.hpp"

#include <cstring>
#include <initializer_list>

#include "core/dynamics/outputs.hpp"

namespace fb {
namespace {

// checks the arrays of one call
class Reader {
 public:
  Reader(const Engine& engine, long worlds) : engine_(engine), worlds_(worlds) {}

  void require(bool fits, const char* name) const {
    if (!fits)
      throw std::invalid_argument(std::string("array ") + name +
                                  " does not have the shape or dtype that the engine asks for");
  }
  // shapes are (worlds, ...) with -1 for any length; null where the array is not given
  template <class X>
  X* data(const char* name, const ArrayOf<X>& a, std::initializer_list<long> shape) const {
    if (!a.given()) return nullptr;
    bool fits = a.rank == int(shape.size()) && (!std::is_void_v<X> || is_real(a));
    auto own = a.shape.begin();
    for (const long n : shape) {
      fits = fits && (n < 0 || *own == n);
      ++own;
    }
    require(fits, name);
    return a.at;
  }
  // one row of n numbers in every world
  Source row(const char* name, const ArrayIn& a, long n) const {
    return {data(name, a, {worlds_, n}), n};
  }
  Target row(const char* name, const ArrayOut& a, long n) const {
    return {data(name, a, {worlds_, n}), n};
  }
  Source state(const ArrayIn& a) const { return row("x", a, engine_.state_size()); }
  Source control(const ArrayIn& a) const {
    require(a.given() || layout().nu == 0, "u");
    return row("u", a, layout().nu);
  }
  template <class X>
  X* per_world(const char* name, const ArrayOf<X>& a) const {
    return data(name, a, {worlds_});
  }
  StatusOut status(const StatusArrays& a) const {
    return {per_world("status", a.status), per_world("status_step", a.step)};
  }
  // as many numbers in every world, in any shape
  template <class X>
  X* numbers(const char* name, const ArrayOf<X>& a, long count) const {
    const int most = int(a.shape.size());
    long all = 1;
    for (int i = 0; i < a.rank && i < most; ++i) all *= a.shape[i];
    require(a.rank <= most && is_real(a) && all == worlds_ * count, name);
    return a.at;
  }
  // (rows, n) for all worlds or (worlds, rows, n); at least `rows` rows from row `first` on
  Rows shared_rows(const char* name, const ArrayIn& a, long first, long rows, long n) const {
    if (!a.given()) return {nullptr, 0, n};
    const bool own = a.rank == 3;
    const char* at =
        static_cast<const char*>(own ? data(name, a, {worlds_, -1, n}) : data(name, a, {-1, n}));
    const long length = a.shape[own ? 1 : 0];
    require(first >= 0 && first + rows <= length, name);
    return {at + first * n * engine_.real_bytes(), own ? length * n : 0, n};
  }
  // flat parameters, or a direction in them: (n) for all worlds or (worlds, n)
  Source theta(const char* name, const ArrayIn& a) const {
    const long n = engine_.theta_size();
    const bool own = a.rank == 2;
    return {own ? data(name, a, {worlds_, n}) : data(name, a, {n}), own ? n : 0};
  }
  // a row for each state, or one for all
  template <class X>
  Rows states(const char* name, const ArrayOf<X>& a) const {
    const long nx = engine_.state_size(), rows = a.shape[1];
    return {data(name, a, {worlds_, rows, nx}), rows * nx, rows > 1 ? nx : 0};
  }
  Cotangents cotangents(const char* name, const ArrayIn& a) const {
    return {data(name, a, {worlds_, -1, engine_.state_size()}), a.shape[1]};
  }
  // rows of (worlds, all, nu) from `first` on
  Target control_bars(const char* name, const ArrayOut& a, long first, long steps) const {
    const long nu = layout().nu;
    char* at = static_cast<char*>(data(name, a, {worlds_, -1, nu}));
    require(first >= 0 && first + steps <= a.shape[1], name);
    return {at + first * nu * engine_.real_bytes(), a.shape[1] * nu};
  }
  Target state_bars(const char* name, const ArrayOut& a) const {
    return row(name, a, engine_.state_size());
  }
  Target parameter_bars(const char* name, const ArrayOut& a) const {
    return row(name, a, engine_.theta_size() + engine_.derived_size());
  }
  // tangents along the states of a rollout
  template <class Arrays>
  RolloutTangent direction(const Arrays& a) const {
    require(a.x_dot.shape[1] == a.path.x.shape[1], "x_dot");
    return {states("x_dot", a.x_dot), shared_rows("du", a.du, 0, a.path.steps, layout().nu),
            theta("dtheta", a.dtheta)};
  }
  const Layout& layout() const { return engine_.layout(); }
  long worlds() const { return worlds_; }

 private:
  template <class X>
  bool is_real(const ArrayOf<X>& a) const {
    return a.real_bytes == engine_.real_bytes();
  }

  const Engine& engine_;
  long worlds_;
};

template <class Task>
Task open_task(Engine& engine, const Reader& read, const ArrayIn& theta) {
  const Source given = read.theta("theta", theta);
  return engine.task<Task>(read.worlds(), given.at, given.stride > 0);
}
// the states, controls, parameters and statuses of a job
template <class Task, class X>
Task open_path(Engine& engine, const Reader& read, const PathArrays<X>& given) {
  const long rows = given.x.shape[1];
  auto t = open_task<Task>(engine, read, given.theta);
  t.x = read.states("x", given.x);
  t.u = read.shared_rows("u", given.u, given.u_first, given.steps, read.layout().nu);
  t.status = read.status(given.status);
  t.last_step = given.steps;
  read.require(rows == given.steps + 1 || rows == 1, "x");
  read.require(given.u.given() || read.layout().nu == 0 || given.steps == 0, "u");
  return t;
}
// a derivative does not move the states
template <class Task>
Task open_derivative(Engine& engine, const Reader& read, const PathArrays<ArrayIn>& path) {
  auto t = open_path<Task>(engine, read, path);
  read.require(path.x.shape[1] == path.steps + 1 || path.steps == 1, "x");
  return t;
}
// one that runs backwards
template <class Task, class Arrays>
Task open_backward(Engine& engine, const Reader& read, const Arrays& given) {
  auto t = open_derivative<Task>(engine, read, given.path);
  t.steps = given.path.steps;
  t.x_cot = read.cotangents("x_cot", given.x_cot);
  t.x_bar = read.state_bars("x_bar", given.x_bar);
  t.theta_bar = read.parameter_bars("theta_bar", given.theta_bar);
  return t;
}

}  // namespace

RolloutTask make_task(Engine& engine, const RolloutArrays& given) {
  const Reader read(engine, given.path.x.shape[0]);
  auto t = open_path<RolloutTask>(engine, read, given.path);
  t.x_out = given.path.x.at;
  t.residual = read.data("residual", given.residual, {read.worlds()});
  t.sweeps = read.data("sweeps", given.sweeps, {read.worlds()});
  t.factorisations = read.data("factorisations", given.factorisations, {read.worlds()});
  return t;
}

VjpTask make_task(Engine& engine, const VjpArrays& given) {
  const PathArrays<ArrayIn>& path = given.path;
  const Reader read(engine, path.x.shape[0]);
  auto t = open_backward<VjpTask>(engine, read, given);
  t.u_bar = read.control_bars("u_bar", given.u_bar, path.u_first, path.steps);
  t.finish_params = given.finish_params;
  t.unrolled = read.per_world("unrolled", given.unrolled);
  t.ties = read.per_world("ties", given.ties);
  t.trace = read.data("trace", given.trace, {read.worlds(), path.steps, kTraceSize});
  return t;
}

JvpTask make_task(Engine& engine, const JvpArrays& given) {
  const Reader read(engine, given.path.x.shape[0]);
  auto t = open_derivative<JvpTask>(engine, read, given.path);
  t.x_dot = given.x_dot.at;
  t.dot = read.direction(given);
  return t;
}

HvpTask make_task(Engine& engine, const HvpArrays& given) {
  const Reader read(engine, given.path.x.shape[0]);
  auto t = open_backward<HvpTask>(engine, read, given);
  t.dot = read.direction(given);
  t.x_cot_dot = read.cotangents("x_cot_dot", given.x_cot_dot);
  t.x_bar_dot = read.state_bars("x_bar_dot", given.x_bar_dot);
  t.u_bar_dot = read.control_bars("u_bar_dot", given.u_bar_dot, 0, given.path.steps);
  t.theta_bar_dot = read.parameter_bars("theta_bar_dot", given.theta_bar_dot);
  t.finish_params = true;
  return t;
}

namespace {

// numbers of the third input of an output: a force, an acceleration, or activations and controls
int third_size(const Layout& s, Output kind) {
  return kind == Output::contact_forces ? s.na + s.nu : s.nv;
}
// q of every output; v and a third input of some
template <class Task>
Task open_output(Engine& engine, const Reader& read, const OutputInputs& given) {
  auto t = open_task<Task>(engine, read, given.theta);
  t.output = given.output;
  t.q = read.row("q", given.q, read.layout().nq).at;
  t.v = read.row("v", given.v, read.layout().nv).at;
  t.x = read.row("x", given.x, third_size(read.layout(), given.output)).at;
  return t;
}

}  // namespace

OutputTask make_task(Engine& engine, const OutputArrays& given) {
  const Reader read(engine, given.at.q.shape[0]);
  auto t = open_output<OutputTask>(engine, read, given.at);
  t.y = read.numbers("y", given.y, host::output_size(read.layout(), given.at.output));
  return t;
}
OutputVjpTask make_task(Engine& engine, const OutputVjpArrays& given) {
  const Reader read(engine, given.at.q.shape[0]);
  auto t = open_output<OutputVjpTask>(engine, read, given.at);
  t.y_bar = read.numbers("y_bar", given.y_bar, host::output_size(read.layout(), given.at.output));
  t.q_bar = read.row("q_bar", given.q_bar, read.layout().nq).at;
  t.v_bar = read.row("v_bar", given.v_bar, read.layout().nv).at;
  t.x_bar = read.row("x_bar", given.x_bar, third_size(read.layout(), given.at.output)).at;
  t.theta_bar = read.parameter_bars("theta_bar", given.theta_bar);
  return t;
}

ContactsTask make_task(Engine& engine, const ContactsArrays& given) {
  const Reader read(engine, given.x.shape[0]);
  const long worlds = read.worlds(), most = read.layout().max_contacts;
  auto t = open_task<ContactsTask>(engine, read, given.theta);
  t.x = read.state(given.x);
  t.u = read.control(given.u);
  t.numbers = read.data("numbers", given.numbers, {worlds, most, kContactSize});
  t.pair = read.data("pair", given.pair, {worlds, most});
  t.count = read.per_world("count", given.count);
  t.overflow = read.per_world("overflow", given.overflow);
  return t;
}

LinearizeTask make_task(Engine& engine, const LinearizeArrays& given) {
  const Reader read(engine, given.x.shape[0]);
  const Layout& s = read.layout();
  const long n = 2 * s.nv + s.na;
  auto t = open_task<LinearizeTask>(engine, read, given.theta);
  t.x = read.state(given.x);
  t.u = read.control(given.u);
  t.A = read.data("A", given.A, {read.worlds(), n, n});
  t.B = read.data("B", given.B, {read.worlds(), n, s.nu});
  t.status = read.status(given.status);
  return t;
}

void set_first_rows(const Engine& engine, const char* name, const ArrayIn& from,
                    const ArrayOut& states) {
  const Reader read(engine, states.shape[0]);
  const Rows to = read.states("x", states);
  const Source row = read.row(name, from, engine.state_size());
  const long bytes = engine.real_bytes();
  read.require(states.given() && states.shape[1] > 0, "x");
  for (long w = 0; w < read.worlds(); ++w)
    std::memcpy(static_cast<char*>(states.at) + w * to.world * bytes,
                static_cast<const char*>(row.at) + w * row.stride * bytes, row.stride * bytes);
}

Output output_named(const std::string& name) {
#define FB_X(word, ...) \
  if (name == #word) return Output::word;
  FB_OUTPUTS(FB_X)
#undef FB_X
  throw std::invalid_argument("there is no output " + name);
}

}  // namespace fb
