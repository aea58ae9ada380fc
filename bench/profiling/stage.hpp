// Stages of a step and of its adjoint: what FB_STAGE does in this program.
#pragma once
#include <cstdint>

#define FB_STAGES(X)                                                                               \
  X(other)                                                                                         \
  X(kinematics)                                                                                    \
  X(actuation)                                                                                     \
  X(articulated_body)                                                                              \
  X(free_velocity) X(collision) X(rows) X(assembly) X(sweeps) X(newton) X(impulses) X(integration) \
      X(ties) X(adjoint_solve) X(adjoint_rows) X(adjoint_impulses) X(adjoint_fields)               \
          X(adjoint_contacts) X(adjoint_sweep) X(adjoint_actuation)

namespace fb::profiling {

#define FB_X(name) name,
enum Stage : int { FB_STAGES(FB_X) kStages };
#undef FB_X
#define FB_X(name) #name,
inline const char* const kStageNames[] = {FB_STAGES(FB_X)};
#undef FB_X

// what has been spent in each stage so far, the stage that runs, and where the meter stood when it
// began
inline uint64_t spent[kStages], since;
inline int running = other;

#if FB_METER == 0
inline uint64_t meter() { return __builtin_ia32_rdtsc(); }
#elif FB_METER == 1
uint64_t meter();
#endif

#if FB_METER == 2
// callgrind writes what it has counted when this is entered, and the name says for which stage
#define FB_X(name) \
  __attribute__((noinline)) inline void ended_##name() { asm volatile(""); }
FB_STAGES(FB_X)
#undef FB_X
// ... and here it goes from forwards to backwards, or back
__attribute__((noinline)) inline void turned() { asm volatile(""); }
inline void enter(int stage) {
  switch (running) {
#define FB_X(name)  \
  case name:        \
    ended_##name(); \
    break;
    FB_STAGES(FB_X)
#undef FB_X
  }
  running = stage;
}
#else
inline void turned() {}
inline __attribute__((always_inline)) void enter(int stage) {
  const uint64_t now = meter();
  spent[running] += now - since;
  since = now;
  running = stage;
}
#endif

}  // namespace fb::profiling

#define FB_STAGE(name) fb::profiling::enter(fb::profiling::name)
