// What the module knows of a kernel: plain data in, one function per job, one set per (instruction
// set, number, lane width).
#pragma once
#include <cstddef>
#include <cstdint>

#include "core/model/layout.hpp"

namespace fb {

using EngineOptions = Options<double>;

// cotangents of the last `rows` states of a rollout, (worlds, rows, n); at is null for none
struct Cotangent {
  const void* at;
  long rows;
};

// Arrays are the caller's, C-contiguous; `real` numbers
// behind void pointers.  Strides count numbers.
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
  // vjp: q, v, u hold the rollout; the caller's cotangents of its last states; q_bar and v_bar,
  // (worlds, n), hold what came back through later steps and receive the gradient
  long steps;
  Cotangent q_cot, v_cot;
  void *q_bar, *v_bar, *u_bar;
  long u_bar_world;
  // (worlds, ntheta + nderived) sums so far, or null; what is derived goes to the parameters when
  // first_step is 0 and finish_params is set
  void* theta_bar;
  bool finish_params;
  int32_t *unrolled, *ties;  // (worlds), steps differentiated sweep by sweep, ties; added to
  void* trace;               // (worlds, steps, kTraceSize) or null
  // evaluations: input x, output y, one row per world; where q_bar is given, y holds cotangents,
  // and q_bar, v_bar, u_bar (of x) and theta_bar receive those of the inputs
  const void* x;
  void* y;
  void* contact_numbers;
  int32_t *contact_ids, *contact_count;
  uint8_t* contact_overflow;
  // jvp: q, v, u hold the rollout; row t of the tangents q_dot and v_dot is read at first_step,
  // rows up to last_step are written; du is laid out as u or null; dtheta is null for none
  // hvp: tangents of all states are read; those of the cotangents and bars lie beside them
  void *q_dot, *v_dot;
  const void *du, *dtheta;
  long du_world;
  bool dtheta_per_world;
  Cotangent q_cot_dot, v_cot_dot;
  void *q_bar_dot, *v_bar_dot, *u_bar_dot, *theta_bar_dot;
  // linearize: (worlds, 2 nv, 2 nv) and (worlds, 2 nv, nu)
  void *A, *B;
};

enum class Job : int {
  rollout,
  vjp,
#define FB_X(name, ...) name,
  FB_OUTPUTS(FB_X)
#undef FB_X
      contacts,
  linearize,
  jvp,
  hvp
};

// linear_bytes and derive are null in the kernels of dual numbers, which run the jobs jvp and hvp
// and no other
struct Kernel {
  const char* isa;
  int real_bytes, width;
  size_t (*workspace_bytes)(const Layout&);
  size_t (*linear_bytes)(const Layout&);  // the same for linearize
  void (*derive)(const Layout&, const void* theta, const void* vert, void* derived);
  // run worlds [block * width, (block + 1) * width) of a task
  void (*run)(Job, const Task&, long block, char* workspace);
};

// numbers per step in the trace of a vjp: length of the state's cotangent, contacts that push,
// residual, whether unrolled, ties
inline constexpr int kTraceSize = 5;

// numbers per contact in the contacts job: gap, point (3), normal (3), force on B (3)
inline constexpr int kContactSize = 10;

}  // namespace fb
