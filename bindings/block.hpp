// What the kernels of one instruction set, machine number and lane width share: the number type,
// and how worlds get into lanes and back.
#pragma once
#include "bindings/kernel.hpp"
#include "core/number/dual.hpp"
#include "core/number/lane.hpp"
#include "core/workspace.hpp"

namespace fb::FB_ISA {
namespace {

using R = FB_REAL;
#if FB_WIDTH == 1
using T = R;
#else
using T = Lane<R, FB_WIDTH>;
#endif
constexpr int W = FB_WIDTH;

// world that lane k of a block stands for; the last block repeats the last world
inline long world_of(const Task& t, long block, int k) {
  const long w = block * W + k;
  return w < t.worlds ? w : t.worlds - 1;
}
inline void load(const Task& t, long block, const void* base, long stride, long offset, int n,
                 T* out) {
  const R* row[W];
  for (int k = 0; k < W; ++k)
    row[k] = static_cast<const R*>(base) + offset + world_of(t, block, k) * stride;
  // a register is filled before it is stored: a read soon after does not wait for its parts
  for (int i = 0; i < n; ++i) {
    T x;
    for (int k = 0; k < W; ++k) set_lane(x, k, row[k][i]);
    out[i] = x;
  }
}
// adding zero turns -0 into 0, so that equal states have equal bits
inline void store(const Task& t, long block, void* base, long stride, long offset, int n,
                  const T* in) {
  R* x = static_cast<R*>(base) + offset;
  for (int k = 0; k < W && block * W + k < t.worlds; ++k) {
    R* row = x + (block * W + k) * stride;
    for (int i = 0; i < n; ++i) row[i] = lane(in[i], k) + R(0);
  }
}

inline void note_status(const Task& t, long block, long step, unsigned bit, Mask<T> m) {
  if (!any(m)) return;
  for (int k = 0; k < W && block * W + k < t.worlds; ++k) {
    const long world = block * W + k;
    if (!mask_lane(m, k)) continue;
    if (!t.status[world]) t.status_step[world] = int32_t(step);
    t.status[world] |= bit;
  }
}

}  // namespace

#define FB_TEXT2(x) #x
#define FB_TEXT(x) FB_TEXT2(x)
#define FB_NAME3(kind, real, width) kind##_##real##_##width
#define FB_NAME2(kind, real, width) FB_NAME3(kind, real, width)
#define FB_NAME(kind) FB_NAME2(kind, FB_REAL, FB_WIDTH)

}  // namespace fb::FB_ISA
