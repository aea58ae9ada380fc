// The engine behind a Simulator: one model, one set of options, its kernels, threads and scratch.
// Owns shapes and memory, no physics.
#pragma once
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <atomic>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "bindings/dispatch.hpp"
#include "bindings/pool.hpp"

namespace fb {

namespace nb = nanobind;

using IntArray = nb::ndarray<const int32_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using AnyArray = nb::ndarray<nb::c_contig, nb::device::cpu>;           // written to
using ReadArray = nb::ndarray<nb::ro, nb::c_contig, nb::device::cpu>;  // only read

struct AlignedDelete {
  void operator()(char* p) const { ::operator delete[](p, std::align_val_t(64)); }
};
using Buffer = std::unique_ptr<char[], AlignedDelete>;
Buffer aligned_buffer(size_t bytes);

// the job of an output by its name
Job output_job(const std::string& name);

class Engine {
 public:
  // sizes and tables in the order of the schema
  Engine(IntArray sizes, IntArray tables, ReadArray theta, ReadArray vert,
         const EngineOptions& options, const std::string& isa, int threads);
  // another engine of the same model: what never changes is shared, threads and scratch are its own
  Engine(const Engine& other);

  const Layout& layout() const { return layout_; }
  int real_bytes() const { return one_->real_bytes; }
  int theta_size() const { return ntheta_; }
  int derived_size() const { return host::derived_size(layout_); }
  // of one thread, whatever the job
  size_t workspace_bytes() const;
  // null where the arrays do not have the shapes and types
  // of one world; the caller then takes the careful path
  nb::object step_one(nb::handle q, nb::handle v, nb::handle u);
  nb::object linearize_one(nb::handle q, nb::handle v, nb::handle u);
  // rollouts and their derivatives: arrays by the names of the task's fields
  void rollout(nb::dict arrays, nb::object progress);
  void vjp(nb::dict arrays);
  void jvp(nb::dict arrays);
  void hvp(nb::dict arrays);
  // with bars ("q", "v", "x", "theta") y holds cotangents, and the bars receive those of the inputs
  void evaluate(const std::string& job, ReadArray q, nb::object v, nb::object x, AnyArray y,
                nb::object theta, nb::dict bars);
  void contacts(ReadArray q, ReadArray v, nb::object u, nb::object theta, AnyArray numbers,
                AnyArray ids, AnyArray count, AnyArray overflow);
  void linearize(ReadArray q, ReadArray v, nb::object u, nb::object theta, AnyArray A, AnyArray B,
                 AnyArray status, AnyArray status_step);

  // for callers without Python, one at a time: a task with the model's parameters, or with theta,
  // (ntheta) or (worlds, ntheta), where it is given
  Task task(long worlds, const void* theta, bool theta_per_world);
  void run(Job job, const Task& task);

 private:
  nb::dlpack::dtype dtype() const {
    return real_bytes() == 8 ? nb::dtype<double>() : nb::dtype<float>();
  }
  // point q, v, u of a task at the arrays of one world
  bool fits_one(nb::handle q, nb::handle v, nb::handle u, Task& t) const;
  Task blank_task(long worlds, nb::object theta);
  Task rollout_task(nb::dict arrays);
  long control_offset(const nb::dict& arrays) const;
  Task backward_task(nb::dict arrays);
  void backwards(Job job, Task& t);
  const Kernel* kernel_for(Job job, long worlds) const;
  size_t derived_bytes() const { return size_t(derived_size()) * real_bytes(); }
  char* workspace(int thread, size_t bytes);
  Pool& pool();
  class Use;

  Layout layout_{};
  EngineOptions options_{};
  struct Constants {
    std::vector<int32_t> tables;
    Buffer theta, derived, vert;
  };
  std::shared_ptr<const Constants> constants_;
  const Kernel *one_ = nullptr, *many_ = nullptr, *dual_ = nullptr;
  int ntheta_ = 0;
  int threads_;
  std::unique_ptr<Pool> pool_;
  std::vector<Buffer> scratch_;
  std::vector<size_t> scratch_bytes_;
  Buffer derived_other_;
  std::atomic<bool> in_use_{false};
};

}  // namespace fb
