// CUDA's words for a C++ compiler of the host: the threads of a launch run one after the other.
// Included before engine/cuda/jobs.cu, so that its kernels can be tested where there is no GPU.
#pragma once
#include <alloca.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <type_traits>

#define __global__
#define __device__
#define __shared__ static
#define __noinline__
#define __launch_bounds__(...)

struct Index {
  unsigned x = 0;
};
inline Index threadIdx, blockIdx, blockDim;
inline void __syncthreads() {}

// kernel(words...) for every thread of a grid
template <class Kernel, class... Words>
void launch_all(Kernel* kernel, long grid, long block, Words... words) {
  blockDim.x = unsigned(block);
  for (blockIdx.x = 0; blockIdx.x < grid; ++blockIdx.x)
    for (threadIdx.x = 0; threadIdx.x < block; ++threadIdx.x) kernel(words...);
}
