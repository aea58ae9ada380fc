// Memory, kernels and threads of an engine.
#include "engine/engine.hpp"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <new>
#include <system_error>

namespace fb {

namespace {
[[noreturn]] void refuse_scratch(size_t bytes) {
  throw OutOfMemory("there is no memory for " + std::to_string((bytes >> 20) + 1) +
                    " MiB of scratch; take fewer worlds, threads or max_contacts (see "
                    "Simulator.memory).");
}
}  // namespace

Buffer aligned_buffer(size_t bytes) {
  char* p = static_cast<char*>(::operator new[](bytes + 64, std::align_val_t(64), std::nothrow));
  if (!p) refuse_scratch(bytes);
  return Buffer(p);
}

ZeroedBuffer::ZeroedBuffer(size_t bytes) : memory_(std::calloc(bytes + 128, 1)) {
  if (!memory_) refuse_scratch(bytes);
  char* const base = static_cast<char*>(memory_.get());
  at_ = base + (64 - reinterpret_cast<uintptr_t>(base) % 64) % 64;
}

namespace {

std::unique_ptr<Pool> make_pool(int threads) {
  try {
    return std::make_unique<Pool>(threads);
  } catch (const std::system_error&) {
    throw std::runtime_error("the system refuses to start " + std::to_string(threads) +
                             " threads; pass a smaller number as threads, or raise its limits "
                             "(ulimit -u, ulimit -v).");
  }
}

Buffer copy_of(const Numbers& x, int real_bytes) {
  const size_t bytes = x.count * real_bytes;
  Buffer b = aligned_buffer(bytes);
  if (bytes > 0) std::memcpy(b.get(), x.at, bytes);
  return b;
}

}  // namespace

Engine::Use::Use(Engine& engine) : owner_(engine.owner_) {
  const pid_t own = getpid();
  pid_t before = owner_.load();
  if (before == own || !owner_.compare_exchange_strong(before, own))
    throw std::runtime_error(
        "this Simulator is already running in another thread; give each thread its own Simulator");
}

Engine::Engine(const ModelArrays& model, const EngineOptions& options, const std::string& isa,
               int threads)
    : options_(options),
      threads_(threads),
      pool_(make_pool(threads)),
      scratch_(threads),
      scratch_bytes_(threads, 0) {
  const auto constants = std::make_shared<Constants>();
  constants_ = constants;
  constants->tables = model.tables;
  if (model.sizes.size() != sizeof(Sizes) / sizeof(int))
    throw std::invalid_argument("sizes has a wrong length");
  const Sizes sizes = host::read_sizes(model.sizes.data());
  if (long(model.tables.size()) != host::table_size(sizes))
    throw std::invalid_argument("tables has a wrong length");
  layout_ = host::bind_layout(sizes, constants->tables.data());
  layout_.dense_only = options.solver == kPgsSolver;
  layout_.soft = options.contact == kSoftContact;
  layout_.nwarm = layout_.soft && options.warmstart ? layout_.nv : 0;
  const KernelSet* set = find_kernels(isa);
  if (!set) throw std::invalid_argument("no kernels for instruction set " + isa);
  const bool wide = model.real_bytes == 8;
  one_ = wide ? set->double_one : set->float_one;
  many_ = wide ? set->double_many : set->float_many;
  dual_ = wide ? set->double_dual : set->float_dual;
  if (long(model.theta.count) != theta_size())
    throw std::invalid_argument("theta has a wrong length");
  constants->theta = copy_of(model.theta, model.real_bytes);
  constants->vert = copy_of(model.vert, model.real_bytes);
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
      threads_(other.threads_),
      pool_(make_pool(threads_)),
      scratch_(threads_),
      scratch_bytes_(threads_, 0),
      derived_other_(aligned_buffer(other.derived_bytes())) {}

void Engine::open_task(WorldsTask& t, long worlds, const void* theta, bool theta_per_world) {
  t.layout = layout_;
  t.options = options_;
  t.theta = constants_->theta.get();
  t.derived = constants_->derived.get();
  t.vert = constants_->vert.get();
  t.worlds = worlds;
  if (!theta) return;
  t.theta = theta;
  t.theta_per_world = theta_per_world;
  if (theta_per_world) return;
  one_->derive(layout_, t.theta, t.vert, derived_other_.get());
  t.derived = derived_other_.get();
}

char* Engine::workspace(int thread, size_t bytes) {
  if (scratch_bytes_[thread] < bytes) {
    scratch_bytes_[thread] = 0;
    scratch_[thread] = ZeroedBuffer();
    scratch_[thread] = ZeroedBuffer(bytes);
    scratch_bytes_[thread] = bytes;
  }
  return scratch_[thread].get();
}

// after a fork the old pool is left alone, since its threads are not there to be joined
Pool& Engine::pool() {
  if (!pool_->usable()) {
    (void)pool_.release();
    pool_ = make_pool(threads_);
  }
  return *pool_;
}

size_t Engine::workspace_bytes() const {
  size_t largest = 0;
  for (const Kernel* k : {one_, many_, dual_})
    if (k->workspace_bytes(layout_) > largest) largest = k->workspace_bytes(layout_);
  return largest;
}

// a block of one world shares a parameter between its lanes: it takes each world's row in turn
template <class Task>
void Engine::run_world(Kernel::Job<Task> job, const Task& task, long world, int thread,
                       char* derived) {
  if (!task.theta_per_world) return job(task, world, scratch_[thread].get());
  Task t = task;
  const size_t row = size_t(theta_size()) * real_bytes();
  t.theta = static_cast<const char*>(task.theta) + world * row;
  t.theta_per_world = false;
  one_->derive(layout_, t.theta, t.vert, derived);
  t.derived = derived;
  job(t, world, scratch_[thread].get());
}
// of each thread, where every world has its own parameters
std::vector<Buffer> Engine::own_derived(const WorldsTask& task) const {
  std::vector<Buffer> own(scratch_.size());
  if (task.theta_per_world)
    for (Buffer& b : own) b = aligned_buffer(derived_bytes());
  return own;
}

// blocks in lanes or world by world, as it was quicker before; one of them is now and then begun in the
// other way
template <class Task>
void Engine::run_chosen(JobOf<Task> job, const Task& task, LaneChoice& choice) {
  using Clock = std::chrono::steady_clock;
  const long width = many_->width, blocks = (task.worlds + width - 1) / width;
  const long steps = task.last_step - task.first_step, trial = choice.trial(steps, width);
  const std::vector<Buffer> own = own_derived(task);
  std::vector<LaneChoice::Spent> spent(scratch_.size());
  const auto run_steps = [&](int thread, long block, long from, long to, bool alone) {
    Task t = task;
    t.first_step = from;
    t.last_step = to;
    const auto start = Clock::now();
    const long end = (block + 1) * width < task.worlds ? (block + 1) * width : task.worlds;
    if (alone)
      for (long k = block * width; k < end; ++k)
        run_world(one_->*job, t, k, thread, own[thread].get());
    else
      (many_->*job)(t, block, scratch_[thread].get());
    spent[thread].seconds[alone] += std::chrono::duration<double>(Clock::now() - start).count();
    spent[thread].steps[alone] += (to - from) * (end - block * width);
  };
  const long tried = blocks > 0 ? choice.next_block() % blocks : 0;
  pool().run(blocks, [&](int thread, long b) {
    const long n = b == tried ? trial : 0;
    // a backward pass begins with the last steps
    const bool back = std::is_same_v<Task, VjpTask>;
    const long cut = back ? task.last_step - n : task.first_step + n;
    const bool alone = choice.alone();
    if (n > 0)
      run_steps(thread, b, back ? cut : task.first_step, back ? task.last_step : cut, !alone);
    // a rollout without steps has a gradient too
    if (n == 0 || n < steps)
      run_steps(thread, b, back ? task.first_step : cut, back ? cut : task.last_step, alone);
  });
  choice.note(spent);
}

// blocks from which on it pays to put like worlds side by side, and to do so at each step
constexpr long kOrderedBlocks = 4, kManyBlocks = 32;
// shares of a step for each thread, and the most blocks that are opened at once
constexpr long kShares = 4, kMostBlocks = 16;

// lanes pay from two worlds on, unless contacts are many
template <class Task>
void Engine::run_job(JobOf<Task> job, const Task& task) {
  const bool rows_in_lanes = std::is_same_v<Task, LinearizeTask> && layout_.soft;
  const Kernel* k = task.worlds > 1 || rows_in_lanes ? many_ : one_;
  if (!(k->*job)) k = dual_;
  const size_t bytes =
      std::is_same_v<Task, LinearizeTask> ? k->linear_bytes(layout_) : k->workspace_bytes(layout_);
  for (size_t i = 0; i < scratch_.size(); ++i) workspace(int(i), bytes);
  if constexpr (std::is_same_v<Task, RolloutTask> || std::is_same_v<Task, VjpTask>) {
    constexpr bool back = std::is_same_v<Task, VjpTask>;
    if (k->width > 1 && !layout_.soft)
      return run_chosen(job, task, back ? vjp_choice_ : rollout_choice_);
  }
  if (k->width == 1 && task.theta_per_world && k != dual_) {
    const std::vector<Buffer> own = own_derived(task);
    return pool().run(task.worlds, [&](int thread, long world) {
      run_world(k->*job, task, world, thread, own[thread].get());
    });
  }
  const long blocks = (task.worlds + k->width - 1) / k->width;
  if constexpr (std::is_same_v<Task, RolloutTask>)
    if (layout_.soft && k->width > 1 && blocks >= kOrderedBlocks) return run_ordered(*k, task);
  Task t = task;
  if constexpr (std::is_same_v<Task, ContactsTask>) t.order = order_.sorted(task.worlds);
  pool().run(blocks, [&](int thread, long b) { (k->*job)(t, b, scratch_[thread].get()); });
}
// like worlds side by side; among many they are put in order anew at each step
void Engine::run_ordered(const Kernel& k, const RolloutTask& task) {
  RolloutTask t = task;
  t.touch = order_.touch(task.worlds);
  const long blocks = (task.worlds + k.width - 1) / k.width;
  while (t.first_step < task.last_step) {
    t.order = order_.sorted(task.worlds);
    const bool anew = t.order && blocks >= kManyBlocks;
    t.last_step = anew ? t.first_step + 1 : task.last_step;
    t.chunk = anew ? std::clamp(blocks / (kShares * threads_), 1l, kMostBlocks) : 1;
    pool().run((blocks + t.chunk - 1) / t.chunk,
               [&](int thread, long c) { k.rollout(t, c, scratch_[thread].get()); });
    t.first_step = t.last_step;
  }
}
#define FB_X(name, Task) \
  void Engine::run(const Task& t) { run_job(&Kernel::name, t); }
FB_JOBS(FB_X)
#undef FB_X

void Engine::run_one(const RolloutTask& t) {
  one_->rollout(t, 0, workspace(0, one_->workspace_bytes(layout_)));
}
void Engine::run_one(const LinearizeTask& t) {
  const Kernel* k = layout_.soft ? many_ : one_;
  k->linearize(t, 0, workspace(0, k->linear_bytes(layout_)));
}

void in_pieces(long steps, const std::function<void(long, long)>& work,
               const std::function<void(long)>& after) {
  using Clock = std::chrono::steady_clock;
  long piece = 1;
  for (long from = 0; from < steps;) {
    const long to = from + piece < steps ? from + piece : steps;
    const auto start = Clock::now();
    work(from, to);
    after(to);
    const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
    if (seconds < 0.025) piece *= 2;
    if (seconds > 0.1 && piece > 1) piece /= 2;
    from = to;
  }
}

}  // namespace fb
