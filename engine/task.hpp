// What a job is given: plain data, one struct a job. Arrays are the caller's, C-contiguous, in one
// memory space with the tables of the layout; `real` numbers behind void pointers; strides count
// numbers. x is a state (q, v, act, warm), rows of worlds lie one after the other.
#pragma once
#include <cstddef>
#include <cstdint>

#include "core/model/layout.hpp"

namespace fb {

using EngineOptions = Options<double>;

// the model, its parameters and how many worlds: part of every task
struct WorldsTask {
  Layout layout;
  EngineOptions options;
  const void* theta;    // (ntheta) or (worlds, ntheta)
  const void* derived;  // of a shared theta; null where theta is per world
  const void* vert;
  bool theta_per_world;
  long worlds;
  const int32_t* order;  // the world at each place of the blocks; null: places are worlds
};

// numbers of every world: world w starts at w * stride; null for none
struct Source {
  const void* at;
  long stride;
};
struct Target {
  void* at;
  long stride;
};
// rows of every world: row k of world w starts at w * world + k * row
struct Rows {
  const void* at;
  long world, row;
};

// bits are added; step: that of the first bit, -1 before
struct StatusOut {
  uint32_t* status;
  int32_t* step;
};

// row first_step of x is read, rows up to last_step are written
struct RolloutTask : WorldsTask {
  Rows x, u;
  void* x_out;  // laid out as x
  long first_step, last_step;
  StatusOut status;
  void *residual, *sweeps, *factorisations;  // (worlds), largest so far; may be null
  uint32_t* touch;  // (worlds), what touches in the last step, under MuJoCo's law; may be null
  long chunk;       // blocks that one call of the job takes in turn; less than one counts as one
};

// cotangents of the last `rows` states of a rollout, (worlds, rows, nx); null for none
struct Cotangents {
  const void* at;
  long rows;
};
// steps first_step to last_step of a rollout of `steps` steps, backwards
struct VjpTask : WorldsTask {
  Rows x, u;
  long steps, first_step, last_step;
  Cotangents x_cot;
  Target x_bar;  // holds what came back through later steps, and receives the gradient
  Target u_bar;  // (worlds, steps, nu); written
  // sums of the parameters' cotangents so far, theta and what is derived from it, or null; the
  // latter goes to the parameters when first_step is 0 and finish_params is set
  Target theta_bar;
  bool finish_params;
  StatusOut status;
  int32_t *unrolled, *ties;  // (worlds), added to; may be null
  void* trace;               // (worlds, steps, kTraceSize) or null
};

// tangents of states, controls and parameters; null for zeros
struct RolloutTangent {
  Rows x, u;
  Source theta;
};
// row first_step of the tangents is read, rows up to last_step are written
struct JvpTask : WorldsTask {
  Rows x, u;
  RolloutTangent dot;
  void* x_dot;  // that of dot, written
  long first_step, last_step;
  StatusOut status;
};
// the tangent of a vjp along tangents of all states
struct HvpTask : VjpTask {
  RolloutTangent dot;
  Cotangents x_cot_dot;
  Target x_bar_dot, u_bar_dot, theta_bar_dot;
};

// an output of a model at q, v and its own third input x, one row of y for each world
struct OutputTask : WorldsTask {
  Output output;
  const void *q, *v, *x;
  void* y;
};
struct OutputVjpTask : WorldsTask {
  Output output;
  const void *q, *v, *x, *y_bar;
  void *q_bar, *v_bar, *x_bar;  // the last two may be null
  Target theta_bar;             // written
};

// contacts that a step sees, at most max_contacts a world
struct ContactsTask : WorldsTask {
  Source x, u;
  void* numbers;  // (worlds, max_contacts, kContactSize): gap, point, normal, force and torque on B
  int32_t *pair, *count;
  uint8_t* overflow;
};
inline constexpr int kContactSize = 13;

// Jacobians of a step: A (worlds, n, n), B (worlds, n, nu), n = 2 nv + na
struct LinearizeTask : WorldsTask {
  Source x, u;
  void *A, *B;
  StatusOut status;
};

// numbers per step in the trace of a vjp: length of the state's cotangent, contacts that push,
// residual, whether unrolled, ties
inline constexpr int kTraceSize = 5;

// every job: its name and its task
// clang-format off
#define FB_JOBS(X)                                                                                 \
  X(rollout, RolloutTask) X(vjp, VjpTask) X(jvp, JvpTask) X(hvp, HvpTask)                          \
  X(output, OutputTask) X(output_vjp, OutputVjpTask)                                               \
  X(contacts, ContactsTask) X(linearize, LinearizeTask)
// clang-format on

// the jobs of one instruction set, machine number and lane width, each on the worlds
// [block * width, (block + 1) * width); those that are null are not built
struct Kernel {
  template <class Task>
  using Job = void (*)(const Task&, long block, char* workspace);

  const char* isa;
  int real_bytes, width;
  size_t (*workspace_bytes)(const Layout&);
  size_t (*linear_bytes)(const Layout&) = nullptr;  // the same for linearize
  void (*derive)(const Layout&, const void* theta, const void* vert, void* derived) = nullptr;
#define FB_X(name, Task) Job<Task> name = nullptr;
  FB_JOBS(FB_X)
#undef FB_X
};

}  // namespace fb
