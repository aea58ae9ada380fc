// The engine behind a Simulator: one model, one set of options, its kernels, threads and scratch.
// Knows no Python; one caller at a time.
#pragma once
#include <sys/types.h>

#include <atomic>
#include <cstdlib>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "core/state.hpp"
#include "engine/dispatch.hpp"
#include "engine/lane_choice.hpp"
#include "engine/pool.hpp"
#include "engine/world_order.hpp"

namespace fb {

struct AlignedDelete {
  void operator()(char* p) const { ::operator delete[](p, std::align_val_t(64)); }
};
using Buffer = std::unique_ptr<char[], AlignedDelete>;
// throws OutOfMemory with a sentence
Buffer aligned_buffer(size_t bytes);

// aligned zeros of which only what is written to takes memory
class ZeroedBuffer {
 public:
  ZeroedBuffer() = default;
  // throws OutOfMemory with a sentence
  explicit ZeroedBuffer(size_t bytes);
  char* get() const { return at_; }

 private:
  struct Free {
    void operator()(void* p) const { std::free(p); }
  };
  std::unique_ptr<void, Free> memory_;
  char* at_ = nullptr;
};

struct OutOfMemory : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// numbers of the engine's dtype
struct Numbers {
  const void* at;
  size_t count;
};

// what an engine is built from
struct ModelArrays {
  std::vector<int32_t> sizes, tables;  // in the order of the schema
  Numbers theta, vert;
  int real_bytes;
};

class Engine {
 public:
  Engine(const ModelArrays& model, const EngineOptions& options, const std::string& isa,
         int threads);
  // another engine of the same model: what never changes is shared, threads and scratch are its own
  Engine(const Engine& other);

  const Layout& layout() const { return layout_; }
  int real_bytes() const { return one_->real_bytes; }
  int theta_size() const { return host::theta_size(layout_); }
  int derived_size() const { return host::derived_size(layout_); }
  int state_size() const { return host::state_size(layout_); }
  // of one thread, whatever the job
  size_t workspace_bytes() const;

  // a task with the model's parameters, or with theta, (ntheta) or (worlds, ntheta)
  template <class Task>
  Task task(long worlds, const void* theta = nullptr, bool theta_per_world = false) {
    Task t{};
    open_task(t, worlds, theta, theta_per_world);
    return t;
  }
#define FB_X(name, Task) void run(const Task& t);
  FB_JOBS(FB_X)
#undef FB_X
  // one world in this thread, with the least ado
  void run_one(const RolloutTask& t);
  void run_one(const LinearizeTask& t);

  // an engine is one thread's at a time: its scratch memory is not shared. A child process of a
  // fork is not the thread that held it
  class Use {
   public:
    explicit Use(Engine& engine);
    ~Use() { owner_ = 0; }
    Use(const Use&) = delete;
    Use& operator=(const Use&) = delete;

   private:
    std::atomic<pid_t>& owner_;
  };

 private:
  template <class Task>
  using JobOf = Kernel::Job<Task> Kernel::*;

  void open_task(WorldsTask& t, long worlds, const void* theta, bool theta_per_world);
  template <class Task>
  void run_job(JobOf<Task> job, const Task& task);
  template <class Task>
  void run_chosen(JobOf<Task> job, const Task& task, LaneChoice& choice);
  void run_ordered(const Kernel& k, const RolloutTask& task);
  template <class Task>
  void run_world(Kernel::Job<Task> job, const Task& task, long world, int thread, char* derived);
  std::vector<Buffer> own_derived(const WorldsTask& task) const;
  char* workspace(int thread, size_t bytes);
  Pool& pool();
  size_t derived_bytes() const { return size_t(derived_size()) * real_bytes(); }

  Layout layout_{};
  EngineOptions options_{};
  struct Constants {
    std::vector<int32_t> tables;
    Buffer theta, derived, vert;
  };
  std::shared_ptr<const Constants> constants_;
  const Kernel *one_ = nullptr, *many_ = nullptr, *dual_ = nullptr;
  int threads_;
  std::unique_ptr<Pool> pool_;
  std::vector<ZeroedBuffer> scratch_;
  std::vector<size_t> scratch_bytes_;
  Buffer derived_other_;
  LaneChoice rollout_choice_, vjp_choice_;
  WorldOrder order_;
  std::atomic<pid_t> owner_{0};
};

// work(from, to) over all steps in pieces of about 50 ms, then after(to), which may throw
void in_pieces(long steps, const std::function<void(long, long)>& work,
               const std::function<void(long)>& after);

}  // namespace fb
