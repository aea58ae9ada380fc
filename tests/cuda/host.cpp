// The kernels of one job on the host, by name, for tests/cuda/host_device.py.
#include "tests/cuda/host.hpp"

#include "engine/cuda/jobs.cu"

namespace fb::cuda {

#define FB_LAUNCH extern "C" void

#if defined(FB_JOB_model)
FB_LAUNCH launch_open_model(long grid, long block, const int64_t* w, WorldsTask* out, int64_t* f) {
  launch_all(open_model, grid, block, w, out, f);
}
FB_LAUNCH launch_derive_params(long grid, long block, const WorldsTask* m, const int64_t* w) {
  launch_all(derive_params, grid, block, m, w);
}
FB_LAUNCH launch_set_rows(long grid, long block, const int64_t* w) {
  launch_all(set_rows, grid, block, w);
}
#else
FB_LAUNCH launch_job(long grid, long block, const WorldsTask* m, const int64_t* w, char* memory,
                     int64_t bytes, int64_t slots) {
  launch_all(job, grid, block, m, w, memory, bytes, slots);
}
#endif

}  // namespace fb::cuda
