// How the worlds of a block get into the lanes of a number and back, with their tangents where the
// number carries them. W worlds, lanes of S, make a block.
#pragma once
#include "core/number/dual.hpp"
#include "core/number/lane.hpp"
#include "core/workspace.hpp"
#include "engine/task.hpp"

namespace fb::FB_ISA {

// which of a task's worlds are those of a block: lanes past the last world repeat it
template <int W>
struct BlockWorlds {
  long first, worlds;
  const int32_t* order;
  FB_INLINE BlockWorlds(const WorldsTask& t, long block)
      : first(block * W), worlds(t.worlds), order(t.order) {}
  FB_INLINE long at(int k) const {
    const long place = first + k < worlds ? first + k : worlds - 1;
    return order ? order[place] : place;
  }
  FB_INLINE int count() const { return worlds - first < W ? int(worlds - first) : W; }
};
template <class S>
using WorldsOf = BlockWorlds<kLanes<S>>;

// row k of every world
FB_INLINE Source row_of(const Rows& x, long k, int real_bytes) {
  return {x.at ? static_cast<const char*>(x.at) + k * x.row * real_bytes : nullptr, x.world};
}
template <class R>
FB_INLINE Source row_of(const Rows& x, long k) {
  return row_of(x, k, int(sizeof(R)));
}
template <class R>
FB_INLINE Target row_of(void* at, const Rows& like, long k) {
  return {at ? static_cast<R*>(at) + k * like.row : nullptr, like.world};
}

// n numbers of every world
template <class T>
FB_FN void load(const WorldsOf<T>& block, Source from, int n, T* out) {
  using R = Real<T>;
  constexpr int W = kLanes<T>;
  const R* row[W];
  for (int k = 0; k < W; ++k) row[k] = static_cast<const R*>(from.at) + block.at(k) * from.stride;
  // a register is filled before it is stored: a read soon after does not wait for its parts
  for (int i = 0; i < n; ++i) {
    T x;
    for (int k = 0; k < W; ++k) set_lane(x, k, row[k][i]);
    out[i] = x;
  }
}
// values with their tangents; numbers that carry none leave them
template <class T>
FB_FN void load(const WorldsOf<T>& block, Source from, Source, int n, T* out) {
  load(block, from, n, out);
}
template <class T>
FB_FN void load(const WorldsOf<T>& block, Source value, Source tangent, int n, Dual<T>* out) {
  using R = Real<T>;
  const R *x = static_cast<const R*>(value.at), *dx = static_cast<const R*>(tangent.at);
  for (int k = 0; k < kLanes<T>; ++k) {
    const long world = block.at(k);
    for (int i = 0; i < n; ++i) {
      set_lane(out[i].v, k, x ? x[world * value.stride + i] : R(0));
      set_lane(out[i].d, k, dx ? dx[world * tangent.stride + i] : R(0));
    }
  }
}

// adding zero turns -0 into 0, so that equal states have equal bits
template <class T>
FB_FN void store(const WorldsOf<T>& block, Target to, int n, const T* in) {
  using R = Real<T>;
  if (!to.at) return;
  for (int k = 0; k < block.count(); ++k) {
    R* row = static_cast<R*>(to.at) + block.at(k) * to.stride;
    for (int i = 0; i < n; ++i) row[i] = lane(in[i], k) + R(0);
  }
}
template <class T>
FB_FN void store(const WorldsOf<T>& block, Target to, Target, int n, const T* in) {
  store(block, to, n, in);
}
template <class T>
FB_FN void store(const WorldsOf<T>& block, Target value, Target tangent, int n, const Dual<T>* in) {
  using R = Real<T>;
  for (int k = 0; k < block.count(); ++k) {
    const long world = block.at(k);
    R *x = static_cast<R*>(value.at), *dx = static_cast<R*>(tangent.at);
    for (int i = 0; x && i < n; ++i) x[world * value.stride + i] = lane(in[i].v, k) + R(0);
    for (int i = 0; dx && i < n; ++i) dx[world * tangent.stride + i] = lane(in[i].d, k) + R(0);
  }
}

template <class T>
FB_FN void note_status(const WorldsOf<T>& block, const StatusOut& out, long step, unsigned bit,
                       Mask<T> m) {
  if (!any(m)) return;
  for (int k = 0; k < block.count(); ++k) {
    const long world = block.at(k);
    if (!mask_lane(m, k)) continue;
    if (!out.status[world]) out.step[world] = int32_t(step);
    out.status[world] |= bit;
  }
}
// the largest so far
template <class T>
FB_FN void note_largest(const WorldsOf<T>& block, void* base, T x) {
  using R = Real<T>;
  if (!base) return;
  R* out = static_cast<R*>(base);
  for (int k = 0; k < block.count(); ++k)
    if (!(lane(x, k) <= out[block.at(k)])) out[block.at(k)] = lane(x, k);
}

template <class T>
FB_INLINE Mask<T> some_lanes(int first, int count) {
  Mask<T> m(false);
  for (int k = first; k < first + count; ++k) set_mask_lane(m, k, true);
  return m;
}
template <class T>
FB_INLINE Mask<T> only_lane(int k) {
  return some_lanes<T>(k, 1);
}
template <class T>
FB_FN Mask<T> all_finite(const T* x, int n) {
  Mask<T> finite(true);
  for (int i = 0; i < n; ++i) finite = finite & is_finite(x[i]);
  return finite;
}

}  // namespace fb::FB_ISA
