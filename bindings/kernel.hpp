// What the module knows of a kernel: plain data in, one function per job, one set per (instruction
// set, number, lane width).
#pragma once
#include <cstddef>
#include <cstdint>

#include "core/layout.hpp"

namespace fb {

struct EngineOptions {
  double margin, v_recover, v_rest, tolerance, regularisation;
  int max_sweeps, box_friction, exact_finish;
};

// Arrays are the caller's, C-contiguous; `real` numbers behind void pointers.  Strides count
// numbers.
struct Task {
  const Layout* layout;
  const EngineOptions* options;
  const void* theta;    // (ntheta) or (worlds, ntheta)
  const void* derived;  // of a shared theta; null where theta is per world
  const void* vert;
  bool theta_per_world;
  long worlds, first_step, last_step;
  // rollout: row t of q and v is read at first_step, rows up to last_step are written
  const void *q, *v, *u;
  void *q_out, *v_out;
  long q_world, q_step, v_world, v_step, u_world, u_step;
  uint32_t* status;         // (worlds), bits are added
  int32_t* status_step;     // (worlds), step of the first bit, -1 before
  void *residual, *sweeps;  // (worlds), largest so far; may be null
  // vjp: q, v, u hold the rollout; q_bar and v_bar like them on entry; row first_step of them and
  // u_bar receive the gradient
  void *q_bar, *v_bar, *u_bar;
  long u_bar_world;
  // (worlds, ntheta + nderived) sums so far, or null; complete once first_step is 0, when row
  // ntheta and on mean nothing
  void* theta_bar;
  // evaluations: input x, output y, one row per world
  const void* x;
  void* y;
  void* contact_numbers;
  int32_t *contact_ids, *contact_count;
  uint8_t* contact_overflow;
  // jvp: tangents of q, v, u and theta, each or null; those of the next state go to q_out and
  // v_out, one row per world
  const void *dq, *dv, *du, *dtheta;
  bool dtheta_per_world;
  // linearize: (worlds, 2 nv, 2 nv) and (worlds, 2 nv, nu)
  void *A, *B;
};

enum class Job : int {
  rollout,
  vjp,
  mass_matrix,
  inverse_dynamics,
  forward_dynamics,
  bias,
  poses,
  contacts,
  linearize,
  jvp
};

struct Kernel {
  const char* isa;
  int real_bytes, width;
  size_t (*workspace_bytes)(const Layout&);
  // null in the kernels of dual numbers, which run the jvp job and no other
  void (*derive)(const Layout&, const void* theta, const void* vert, void* derived);
  // run worlds [block * width, (block + 1) * width) of a task; for linearize a block is one world
  void (*run)(Job, const Task&, long block, char* workspace);
};

// numbers per contact in the contacts job: gap, point (3), normal (3), force on B (3)
inline constexpr int kContactNumbers = 10;

}  // namespace fb
