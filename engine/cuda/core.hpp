// The core for a GPU. A function that many places call, or few worlds reach, is compiled once and
// called: without this the compiler copies the step wherever one begins, and takes very long. What every
// link and joint does in every step stays open to be inlined.
#pragma once
#include "engine/cuda/stages.hpp"
// what is inlined
#include "core/dynamics/joint.hpp"
#include "core/model/layout.hpp"

#ifdef __CUDACC__
#define FB_OPEN __host__ __device__ inline
#define FB_CLOSED __host__ __device__ __noinline__ inline
#else
#define FB_OPEN inline
#define FB_CLOSED inline
#endif

// scratch, shapes, solvers
#undef FB_FN
#define FB_FN FB_CLOSED
#include "core/workspace.hpp"

// the tree
#undef FB_FN
#define FB_FN FB_OPEN
#include "core/dynamics/dynamics.hpp"
#include "core/dynamics/integrate.hpp"
#include "core/dynamics/spin.hpp"

// contacts, steps, jobs
#undef FB_FN
#define FB_FN FB_CLOSED
#include "core/step.hpp"
#include "engine/jobs/backward.hpp"
#include "engine/jobs/contacts.hpp"
#include "engine/jobs/linearize.hpp"
#include "engine/jobs/output.hpp"
#include "engine/jobs/rollout.hpp"
#include "engine/jobs/tangent.hpp"
