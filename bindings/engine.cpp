#include "bindings/engine.hpp"

#include <chrono>
#include <cstring>
#include <new>
#include <stdexcept>

namespace fb {

Buffer aligned_buffer(size_t bytes) {
  return Buffer(static_cast<char*>(::operator new[](bytes + 64, std::align_val_t(64))));
}

namespace {

// a simulator is one thread's at a time: its scratch memory is not shared
struct Guard {
  explicit Guard(std::atomic<bool>& flag) : flag_(flag) {
    if (flag_.exchange(true))
      throw std::runtime_error(
          "this Simulator is already running in another thread; give each thread its own "
          "Simulator");
  }
  ~Guard() { flag_ = false; }
  std::atomic<bool>& flag_;
};

long rows_of(const ReadArray& a) { return long(a.shape(0)); }

// work(from, to) over all steps in pieces of about 50 ms, so that an interrupt is answered and
// progress is shown
template <class F>
void in_pieces(long steps, nb::object progress, F&& work) {
  using Clock = std::chrono::steady_clock;
  long piece = 1;
  for (long from = 0; from < steps;) {
    const long to = from + piece < steps ? from + piece : steps;
    const auto start = Clock::now();
    work(from, to);
    if (PyErr_CheckSignals() != 0) throw nb::python_error();
    if (!progress.is_none()) progress(to);
    const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
    if (seconds < 0.025) piece *= 2;
    if (seconds > 0.1 && piece > 1) piece /= 2;
    from = to;
  }
}

const void* data_of(nb::object o) { return o.is_none() ? nullptr : nb::cast<ReadArray>(o).data(); }

// arrays by name; one that is missing or None is not given
nb::object given(const nb::dict& arrays, const char* name) {
  return arrays.contains(name) ? nb::object(arrays[name]) : nb::none();
}
void* written(const nb::dict& arrays, const char* name) {
  nb::object o = given(arrays, name);
  return o.is_none() ? nullptr : nb::cast<AnyArray>(o).data();
}
Cotangent cotangent(const nb::dict& arrays, const char* name) {
  nb::object o = given(arrays, name);
  if (o.is_none()) return {nullptr, 0};
  ReadArray a = nb::cast<ReadArray>(o);
  return {a.data(), long(a.shape(1))};
}
void set_status(const nb::dict& arrays, Task& t) {
  t.status = static_cast<uint32_t*>(written(arrays, "status"));
  t.status_step = static_cast<int32_t*>(written(arrays, "status_step"));
}
// tangents of states, controls and parameters
void set_directions(const nb::dict& arrays, Task& t) {
  t.q_dot = written(arrays, "q_dot");
  t.v_dot = written(arrays, "v_dot");
  if (nb::object u = given(arrays, "du"); !u.is_none()) {
    ReadArray a = nb::cast<ReadArray>(u);
    t.du = a.data();
    t.du_world = a.ndim() == 3 ? long(a.shape(1) * a.shape(2)) : 0;
  }
  if (nb::object d = given(arrays, "dtheta"); !d.is_none()) {
    ReadArray a = nb::cast<ReadArray>(d);
    t.dtheta = a.data();
    t.dtheta_per_world = a.ndim() == 2;
  }
}

}  // namespace

Engine::Engine(IntArray sizes, IntArray tables, ReadArray theta, ReadArray vert,
               const EngineOptions& options, const std::string& isa, int threads)
    : options_(options),
      threads_(threads),
      pool_(std::make_unique<Pool>(threads)),
      scratch_(threads),
      scratch_bytes_(threads, 0) {
  const auto constants = std::make_shared<Constants>();
  constants_ = constants;
  if (sizes.size() != kSizes) throw std::invalid_argument("sizes has a wrong length");
  const Sizes read = host::read_sizes(sizes.data());
  if (long(tables.size()) != host::table_size(read))
    throw std::invalid_argument("tables has a wrong length");
  constants->tables.assign(tables.data(), tables.data() + tables.size());
  layout_ = host::bind_layout(read, constants->tables.data());
  const KernelSet* set = find_kernels(isa);
  if (!set) throw std::invalid_argument("no kernels for instruction set " + isa);
  const bool wide = theta.dtype() == nb::dtype<double>();
  one_ = wide ? set->double_one : set->float_one;
  many_ = wide ? set->double_many : set->float_many;
  dual_ = wide ? set->double_dual : set->float_dual;
  ntheta_ = host::theta_size(layout_);
  if (long(theta.size()) != ntheta_) throw std::invalid_argument("theta has a wrong length");
  const auto copy = [](const ReadArray& a) {
    Buffer b = aligned_buffer(a.nbytes());
    if (a.nbytes() > 0) std::memcpy(b.get(), a.data(), a.nbytes());
    return b;
  };
  constants->theta = copy(theta);
  constants->vert = copy(vert);
  constants->derived = aligned_buffer(derived_bytes());
  derived_other_ = aligned_buffer(derived_bytes());
  one_->derive(layout_, constants->theta.get(), constants->vert.get(), constants->derived.get());
}

Engine::Engine(const Engine& other)
    : layout_(other.layout_),
      options_(other.options_),
      constants_(other.constants_),
      one_(other.one_),
      many_(other.many_),
      dual_(other.dual_),
      ntheta_(other.ntheta_),
      threads_(other.threads_),
      pool_(std::make_unique<Pool>(threads_)),
      scratch_(threads_),
      scratch_bytes_(threads_, 0),
      derived_other_(aligned_buffer(other.derived_bytes())) {}

Task Engine::task(long worlds, const void* theta, bool theta_per_world) {
  Task t{};
  t.layout = &layout_;
  t.options = &options_;
  t.theta = constants_->theta.get();
  t.derived = constants_->derived.get();
  t.vert = constants_->vert.get();
  t.worlds = worlds;
  if (theta) {
    t.theta = theta;
    t.theta_per_world = theta_per_world;
    if (!theta_per_world) {
      one_->derive(layout_, t.theta, t.vert, derived_other_.get());
      t.derived = derived_other_.get();
    }
  }
  return t;
}

Task Engine::blank_task(long worlds, nb::object theta) {
  if (theta.is_none()) return task(worlds, nullptr, false);
  const ReadArray a = nb::cast<ReadArray>(theta);
  return task(worlds, a.data(), a.ndim() == 2);
}

char* Engine::workspace(int thread, size_t bytes) {
  if (scratch_bytes_[thread] < bytes) {
    scratch_[thread] = aligned_buffer(bytes);
    std::memset(scratch_[thread].get(), 0, bytes);
    scratch_bytes_[thread] = bytes;
  }
  return scratch_[thread].get();
}

// after a fork the old pool is left alone, since its threads are not there to be joined
Pool& Engine::pool() {
  if (!pool_->usable()) {
    (void)pool_.release();
    pool_ = std::make_unique<Pool>(threads_);
  }
  return *pool_;
}

size_t Engine::workspace_bytes() const {
  size_t most = 0;
  for (const Kernel* k : {one_, many_, dual_})
    if (k->workspace_bytes(layout_) > most) most = k->workspace_bytes(layout_);
  return most;
}

// lanes pay from two worlds on
const Kernel* Engine::kernel_for(Job job, long worlds) const {
  if (job == Job::jvp || job == Job::hvp) return dual_;
  return worlds > 1 ? many_ : one_;
}

void Engine::run(Job job, const Task& task) {
  const Kernel* k = kernel_for(job, task.worlds);
  const size_t bytes =
      job == Job::linearize ? k->linear_bytes(layout_) : k->workspace_bytes(layout_);
  for (size_t i = 0; i < scratch_.size(); ++i) workspace(int(i), bytes);
  const bool single = k->width == 1;
  const long blocks = single ? task.worlds : (task.worlds + k->width - 1) / k->width;
  // a block of one world shares a parameter between its lanes: it takes each world's row in turn
  if (single && task.theta_per_world && k != dual_) {
    const size_t row = size_t(ntheta_) * k->real_bytes;
    std::vector<Buffer> own(scratch_.size());
    for (Buffer& b : own) b = aligned_buffer(derived_bytes());
    pool().run(blocks, [&](int thread, long b) {
      Task t = task;
      t.theta = static_cast<const char*>(task.theta) + b * row;
      t.theta_per_world = false;
      k->derive(layout_, t.theta, t.vert, own[thread].get());
      t.derived = own[thread].get();
      k->run(job, t, b, scratch_[thread].get());
    });
    return;
  }
  pool().run(blocks, [&](int thread, long b) { k->run(job, task, b, scratch_[thread].get()); });
}

bool Engine::fits_one(nb::handle q, nb::handle v, nb::handle u, Task& t) const {
  using In = nb::ndarray<nb::ro, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
  const auto fits = [&](nb::handle h, int n, const void*& out) {
    In a;
    if (!nb::try_cast<In>(h, a, false) || a.dtype() != dtype() || int(a.shape(0)) != n)
      return false;
    out = a.data();
    return true;
  };
  if (!fits(q, layout_.nq, t.q) || !fits(v, layout_.nv, t.v)) return false;
  return layout_.nu > 0 ? fits(u, layout_.nu, t.u) : u.is_none();
}

nb::object Engine::step_one(nb::handle q, nb::handle v, nb::handle u) {
  Task given{};
  if (!fits_one(q, v, u, given)) return nb::none();
  Guard use(in_use_);
  Task t = blank_task(1, nb::none());
  uint32_t status = 0;
  int32_t status_step = -1;
  const size_t nq = layout_.nq, nv = layout_.nv, bytes = real_bytes();
  char* out = new char[(nq + nv) * bytes];
  nb::capsule owner(out, [](void* p) noexcept { delete[] static_cast<char*>(p); });
  // results are written one row behind the inputs
  t.q = given.q;
  t.v = given.v;
  t.u = given.u;
  t.q_step = long(nq);
  t.v_step = long(nv);
  t.q_out = out - nq * bytes;
  t.v_out = out + nq * bytes - nv * bytes;
  t.last_step = 1;
  t.status = &status;
  t.status_step = &status_step;
  {
    nb::gil_scoped_release release;
    const size_t need = one_->workspace_bytes(layout_);
    one_->run(Job::rollout, t, 0, workspace(0, need));
  }
  const auto array = [&](char* p, size_t n) {
    return nb::ndarray<nb::numpy>(p, {n}, owner, {}, dtype()).cast();
  };
  nb::object q1 = array(out, nq), v1 = array(out + nq * bytes, nv);
  return nb::make_tuple(q1, v1, status);
}

nb::object Engine::linearize_one(nb::handle q, nb::handle v, nb::handle u) {
  Task given{};
  if (!fits_one(q, v, u, given)) return nb::none();
  Guard use(in_use_);
  Task t = blank_task(1, nb::none());
  uint32_t status = 0;
  int32_t status_step = -1;
  const size_t n = 2 * size_t(layout_.nv), nu = layout_.nu, bytes = real_bytes();
  char* out = new char[n * (n + nu) * bytes];
  nb::capsule owner(out, [](void* p) noexcept { delete[] static_cast<char*>(p); });
  t.q = given.q;
  t.v = given.v;
  t.u = given.u;
  t.A = out;
  t.B = out + n * n * bytes;
  t.status = &status;
  t.status_step = &status_step;
  {
    nb::gil_scoped_release release;
    const size_t need = one_->linear_bytes(layout_);
    one_->run(Job::linearize, t, 0, workspace(0, need));
  }
  const auto array = [&](void* p, size_t columns) {
    return nb::ndarray<nb::numpy>(p, {n, columns}, owner, {}, dtype()).cast();
  };
  nb::object A = array(t.A, n), B = array(t.B, nu);
  return nb::make_tuple(A, B, status);
}

// states have a row each, (worlds, steps + 1, n), or one row that moves; steps are counted from
// u_first of the controls
Task Engine::rollout_task(nb::dict arrays) {
  const ReadArray q = nb::cast<ReadArray>(arrays["q"]), v = nb::cast<ReadArray>(arrays["v"]);
  const long rows = long(q.shape(1));
  Task t = blank_task(rows_of(q), given(arrays, "theta"));
  t.steps = arrays.contains("steps") ? nb::cast<long>(arrays["steps"]) : rows - 1;
  t.q = q.data();
  t.v = v.data();
  t.q_step = rows > 1 ? layout_.nq : 0;
  t.v_step = rows > 1 ? layout_.nv : 0;
  t.q_world = rows * layout_.nq;
  t.v_world = rows * layout_.nv;
  if (nb::object u = given(arrays, "u"); !u.is_none()) {
    const ReadArray a = nb::cast<ReadArray>(u);
    t.u = static_cast<const char*>(a.data()) + control_offset(arrays);
    t.u_step = layout_.nu;
    t.u_world = a.ndim() == 3 ? long(a.shape(1)) * layout_.nu : 0;
  }
  set_status(arrays, t);
  return t;
}
// bytes from the first control to that of the first step
long Engine::control_offset(const nb::dict& arrays) const {
  const long first = arrays.contains("u_first") ? nb::cast<long>(arrays["u_first"]) : 0;
  return first * layout_.nu * real_bytes();
}

void Engine::rollout(nb::dict arrays, nb::object progress) {
  Guard use(in_use_);
  Task t = rollout_task(arrays);
  t.q_out = written(arrays, "q");
  t.v_out = written(arrays, "v");
  t.residual = written(arrays, "residual");
  t.sweeps = written(arrays, "sweeps");
  in_pieces(t.steps, progress, [&](long from, long to) {
    t.first_step = from;
    t.last_step = to;
    nb::gil_scoped_release release;
    run(Job::rollout, t);
  });
}

void Engine::vjp(nb::dict arrays) {
  Guard use(in_use_);
  Task t = backward_task(arrays);
  t.u_bar = static_cast<char*>(written(arrays, "u_bar")) + control_offset(arrays);
  t.unrolled = static_cast<int32_t*>(written(arrays, "unrolled"));
  t.ties = static_cast<int32_t*>(written(arrays, "ties"));
  t.trace = written(arrays, "trace");
  t.finish_params = nb::cast<bool>(arrays["finish_params"]);
  backwards(Job::vjp, t);
}

void Engine::hvp(nb::dict arrays) {
  Guard use(in_use_);
  Task t = backward_task(arrays);
  set_directions(arrays, t);
  t.q_cot_dot = cotangent(arrays, "q_cot_dot");
  t.v_cot_dot = cotangent(arrays, "v_cot_dot");
  t.q_bar_dot = written(arrays, "q_bar_dot");
  t.v_bar_dot = written(arrays, "v_bar_dot");
  t.u_bar_dot = written(arrays, "u_bar_dot");
  t.theta_bar_dot = written(arrays, "theta_bar_dot");
  backwards(Job::hvp, t);
}

void Engine::jvp(nb::dict arrays) {
  Guard use(in_use_);
  Task t = rollout_task(arrays);
  set_directions(arrays, t);
  in_pieces(t.steps, nb::none(), [&](long from, long to) {
    t.first_step = from;
    t.last_step = to;
    nb::gil_scoped_release release;
    run(Job::jvp, t);
  });
}

// what the backward jobs share: the rollout, its cotangents, the bars so far
Task Engine::backward_task(nb::dict arrays) {
  Task t = rollout_task(arrays);
  const char* controls = arrays.contains("u_bar") ? "u_bar" : "u_bar_dot";
  t.u_bar_world = long(nb::cast<AnyArray>(arrays[controls]).shape(1)) * layout_.nu;
  t.q_cot = cotangent(arrays, "q_cot");
  t.v_cot = cotangent(arrays, "v_cot");
  t.q_bar = written(arrays, "q_bar");
  t.v_bar = written(arrays, "v_bar");
  t.theta_bar = written(arrays, "theta_bar");
  return t;
}

void Engine::backwards(Job job, Task& t) {
  in_pieces(t.steps, nb::none(), [&](long from, long to) {
    t.first_step = t.steps - to;
    t.last_step = t.steps - from;
    nb::gil_scoped_release release;
    run(job, t);
  });
}

Job output_job(const std::string& name) {
#define FB_X(name, ...) {#name, Job::name},
  static const std::map<std::string, Job> jobs = {FB_OUTPUTS(FB_X)};
#undef FB_X
  return jobs.at(name);
}

void Engine::evaluate(const std::string& job, ReadArray q, nb::object v, nb::object x, AnyArray y,
                      nb::object theta, nb::dict bars) {
  Guard use(in_use_);
  Task t = blank_task(rows_of(q), theta);
  t.q = q.data();
  t.v = data_of(v);
  t.x = data_of(x);
  t.y = y.data();
  for (const auto& [name, at] : {std::pair<const char*, void**>{"q", &t.q_bar},
                                 {"v", &t.v_bar},
                                 {"x", &t.u_bar},
                                 {"theta", &t.theta_bar}})
    if (bars.contains(name)) *at = nb::cast<AnyArray>(bars[name]).data();
  const Job which = output_job(job);
  nb::gil_scoped_release release;
  run(which, t);
}

void Engine::linearize(ReadArray q, ReadArray v, nb::object u, nb::object theta, AnyArray A,
                       AnyArray B, AnyArray status, AnyArray status_step) {
  Guard use(in_use_);
  Task t = blank_task(rows_of(q), theta);
  t.q = q.data();
  t.v = v.data();
  t.u = data_of(u);
  t.A = A.data();
  t.B = B.data();
  t.status = static_cast<uint32_t*>(status.data());
  t.status_step = static_cast<int32_t*>(status_step.data());
  nb::gil_scoped_release release;
  run(Job::linearize, t);
}

void Engine::contacts(ReadArray q, ReadArray v, nb::object u, nb::object theta, AnyArray numbers,
                      AnyArray ids, AnyArray count, AnyArray overflow) {
  Guard use(in_use_);
  Task t = blank_task(rows_of(q), theta);
  t.q = q.data();
  t.v = v.data();
  t.u = data_of(u);
  t.contact_numbers = numbers.data();
  t.contact_ids = static_cast<int32_t*>(ids.data());
  t.contact_count = static_cast<int32_t*>(count.data());
  t.contact_overflow = static_cast<uint8_t*>(overflow.data());
  nb::gil_scoped_release release;
  run(Job::contacts, t);
}

}  // namespace fb
