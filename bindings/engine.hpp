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

class Engine {
 public:
  Engine(nb::dict sizes, nb::dict tables, ReadArray theta, ReadArray vert, nb::dict options,
         const std::string& isa, int threads);

  int real_bytes() const { return one_->real_bytes; }
  int theta_numbers() const { return ntheta_; }
  int derived_numbers() const { return host::derived_size(layout_); }
  // null where the arrays do not have the shapes and types of one world; the caller then takes the
  // careful path
  nb::object step_one(nb::handle q, nb::handle v, nb::handle u);
  nb::object linearize_one(nb::handle q, nb::handle v, nb::handle u);
  void rollout(AnyArray q, AnyArray v, nb::object u, nb::object theta, AnyArray status,
               AnyArray status_step, AnyArray residual, AnyArray sweeps, nb::object progress);
  // q_bar and v_bar hold cotangents of all states and receive the gradient in their first row
  void vjp(ReadArray q, ReadArray v, nb::object u, nb::object theta, AnyArray q_bar, AnyArray v_bar,
           AnyArray u_bar, nb::object theta_bar, AnyArray status, AnyArray status_step);
  void evaluate(const std::string& job, ReadArray q, nb::object v, nb::object x, AnyArray y,
                nb::object theta);
  void contacts(ReadArray q, ReadArray v, nb::object u, nb::object theta, AnyArray numbers,
                AnyArray ids, AnyArray count, AnyArray overflow);
  // tangents of q, v, u and theta to those of the next state
  void jvp(ReadArray q, ReadArray v, nb::object u, nb::object theta, nb::tuple directions,
           AnyArray q_dot, AnyArray v_dot, AnyArray status, AnyArray status_step);
  void linearize(ReadArray q, ReadArray v, nb::object u, nb::object theta, AnyArray A, AnyArray B,
                 AnyArray status, AnyArray status_step);

 private:
  nb::dlpack::dtype dtype() const {
    return real_bytes() == 8 ? nb::dtype<double>() : nb::dtype<float>();
  }
  // point q, v, u of a task at the arrays of one world
  bool fits_one(nb::handle q, nb::handle v, nb::handle u, Task& t) const;
  Task blank_task(long worlds, nb::object theta);
  Task rollout_task(const ReadArray& q, const ReadArray& v, nb::object u, nb::object theta);
  void run(Job job, const Task& task);
  const Kernel* kernel_for(Job job, long worlds) const;
  char* workspace(int thread, size_t bytes);
  Pool& pool();
  class Use;

  Layout layout_{};
  EngineOptions options_{};
  std::map<std::string, std::vector<int32_t>> tables_;
  Buffer theta_, derived_, vert_;
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
