// Where the warps of a block wait for each other: at the stages of a step, so that they fetch the
// same instructions, which are more than the instruction cache holds. A thread that has left waits
// for nobody, and nobody waits for it. FB_NO_WAIT leaves it out. Included before the core.
#pragma once

#if defined(__CUDA_ARCH__) && !defined(FB_NO_WAIT)
#define FB_WAIT() asm volatile("barrier.sync 0;")
#else
#define FB_WAIT()
#endif

// stages that every world reaches once in a step
#define FB_AT_kinematics FB_WAIT()
#define FB_AT_actuation FB_WAIT()
#define FB_AT_articulated_body FB_WAIT()
#define FB_AT_free_velocity FB_WAIT()
#define FB_AT_collision FB_WAIT()
#define FB_AT_integration FB_WAIT()
#define FB_AT_adjoint_solve FB_WAIT()
#define FB_AT_adjoint_fields FB_WAIT()
#define FB_AT_adjoint_contacts FB_WAIT()
#define FB_AT_adjoint_sweep FB_WAIT()
#define FB_AT_adjoint_actuation FB_WAIT()
// those that only some reach
#define FB_AT_rows
#define FB_AT_assembly
#define FB_AT_sweeps
#define FB_AT_newton
#define FB_AT_impulses
#define FB_AT_adjoint_rows
#define FB_AT_adjoint_impulses
#define FB_AT_ties
#define FB_STAGE(name) FB_AT_##name
