// One job of the engine on a GPU, one thread a world: FB_JOB_rollout, FB_JOB_vjp and so on, for the
// machine number FB_REAL. With FB_JOB_model it is what opens a model instead. Blocks have at most 256
// threads, and a multiprocessor holds two of them with 128 registers a thread.
#define FB_ISA cuda
#include "engine/cuda/core.hpp"
#include "engine/cuda/words.hpp"

namespace fb::cuda {

using R = FB_REAL;

// scratch of a world, and where in it lies what a Jacobian needs besides
FB_FN size_t plain_bytes(const Layout& s) {
  WorldBlock<R, R> plain;
  return (plain.carve_all(s, nullptr) + 63) / 64 * 64;
}

#if defined(FB_JOB_model)

// the constant part of every task of a model, and figures about it
extern "C" __global__ void open_model(const int64_t* words, WorldsTask* out, int64_t* figures) {
  Words w{words};
  const int32_t *sizes = w.pointer<int32_t>(), *tables = w.pointer<int32_t>();
  const double* options = w.pointer<double>();
  WorldsTask t{};
  t.vert = w.pointer();
#define FB_X(name, ...) t.options.name = decltype(t.options.name)(*options++);
  FB_OPTIONS(FB_X)
#undef FB_X
  t.layout = bind_layout(read_sizes(sizes), tables);
  t.layout.dense_only = t.options.solver == kPgsSolver;
  t.layout.soft = t.options.contact == kSoftContact;
  t.layout.nwarm = t.layout.soft && t.options.warmstart ? t.layout.nv : 0;
  *out = t;
  WorldBlock<Dual<R>, Dual<R>> dual;
  LinearWork<R> linear;
  // scratch of a world: of most jobs, of linearize, of those on dual numbers
  figures[0] = int64_t(plain_bytes(t.layout));
  figures[1] = int64_t(linear_workspace(t.layout, plain_bytes(t.layout), nullptr, linear));
  figures[2] = int64_t(dual.carve_all(t.layout, nullptr));
}
// what is derived from parameters: one row, or one for every world
extern "C" __global__ void derive_params(const WorldsTask* model, const int64_t* words) {
  Words w{words};
  WorldsTask t = *model;
  read_worlds(w, t);
  const long world = long(blockIdx.x) * blockDim.x + threadIdx.x;
  if (world >= (t.theta_per_world ? t.worlds : 1)) return;
  Theta<const R> theta;
  bind<const R>(t.layout, static_cast<const R*>(t.theta) + world * theta_size(t.layout), theta);
  Derived<R> derived;
  R* const row = static_cast<R*>(const_cast<void*>(t.derived)) + world * derived_size(t.layout);
  bind<R>(t.layout, row, derived);
  derive(t.layout, theta, static_cast<const R*>(t.vert), derived);
}

// the first row of every world's states, from rows that lie one after the other
extern "C" __global__ void set_rows(const int64_t* words) {
  Words w{words};
  const R* from = w.pointer<const R>();
  R* to = w.pointer<R>();
  const long worlds = w.number(), n = w.number(), stride = w.number();
  const long world = long(blockIdx.x) * blockDim.x + threadIdx.x;
  for (long i = 0; world < worlds && i < n; ++i) to[world * stride + i] = from[world * n + i];
}

#else

// the job, and whether parameters are loaded by each world, with their tangents
#if defined(FB_JOB_rollout)
using Task = RolloutTask;
#define FB_RUN run_rollout<R, R>
#elif defined(FB_JOB_vjp)
using Task = VjpTask;
#define FB_RUN run_backward<R, R, VjpTask>
#elif defined(FB_JOB_jvp)
using Task = JvpTask;
#define FB_RUN run_jvp<Dual<R>, Dual<R>>
#define FB_LOADS
#elif defined(FB_JOB_hvp)
using Task = HvpTask;
#define FB_RUN run_backward<Dual<R>, Dual<R>, HvpTask>
#define FB_LOADS
#elif defined(FB_JOB_linearize)
using Task = LinearizeTask;
__device__ inline void linearize(const Task& t, long world, char* workspace) {
  run_linearize<R, R>(t, world, workspace, plain_bytes(t.layout));
}
#define FB_RUN linearize
#elif defined(FB_JOB_contacts)
using Task = ContactsTask;
#define FB_RUN run_contacts<R, R>
#elif defined(FB_JOB_output)
using Task = OutputTask;
#define FB_RUN run_output<R, R>
#elif defined(FB_JOB_output_vjp)
using Task = OutputVjpTask;
#define FB_RUN run_output_vjp<R, R>
#endif
__device__ __noinline__ void run_world(const Task& t, long world, char* workspace) {
  FB_RUN(t, world, workspace);
}

// the task that the threads of a block share
__device__ const Task& shared_task(const WorldsTask* model, const int64_t* words) {
  alignas(16) __shared__ char memory[sizeof(Task)];
  Task& t = *reinterpret_cast<Task*>(memory);
  if (threadIdx.x == 0) {
    Words w{words};
    static_cast<WorldsTask&>(t) = *model;
    read_worlds(w, t);
    read_task(w, t);
  }
  __syncthreads();
  return t;
}
// numbers share parameters between the worlds of a task: where each world has its own, its task has
// its row
__device__ void run_own(const Task& shared, long world, char* workspace) {
#if defined(FB_LOADS)
  return run_world(shared, world, workspace);
#endif
  if (!shared.theta_per_world) return run_world(shared, world, workspace);
  Task t = shared;
  t.theta = static_cast<const R*>(t.theta) + world * theta_size(t.layout);
  t.derived = static_cast<const R*>(t.derived) + world * derived_size(t.layout);
  t.theta_per_world = false;
  run_world(t, world, workspace);
}

// worlds in turns of `slots` threads. The scratch of a world, `bytes`, lies in the thread's local
// memory, which the hardware interleaves between threads; where it is too large for that, in memory
extern "C" __global__ void __launch_bounds__(256, 2)
    job(const WorldsTask* model, const int64_t* words, char* memory, int64_t bytes, int64_t slots) {
  const Task& t = shared_task(model, words);
  const long slot = long(blockIdx.x) * blockDim.x + threadIdx.x;
  if (slot >= slots) return;
  char* own = memory ? memory + slot * bytes : static_cast<char*>(alloca(bytes + 64));
  own += (64 - reinterpret_cast<uintptr_t>(own) % 64) % 64;
  // cotangents of tendons are zero but within an adjoint; the memory of a GPU holds anything
  if (t.layout.ntendon > 0 || t.layout.soft)
    for (int64_t i = 0; i < bytes / 8; ++i) reinterpret_cast<int64_t*>(own)[i] = 0;
  for (long world = slot; world < t.worlds; world += slots) run_own(t, world, own);
}

#endif

}  // namespace fb::cuda
