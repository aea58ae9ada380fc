// Under MuJoCo's law the worlds of a block share one set of rows and wait for the slowest solve, so worlds
// in which the same geoms touched at the end of the last step are put side by side.  A world has the
// same bits wherever it stands.
#pragma once
#include <cstdint>
#include <vector>

namespace fb {

class WorldOrder {
 public:
  // where a call notes what touches; of new worlds nothing is known
  uint32_t* touch(long worlds) {
    if (long(touch_.size()) != worlds) touch_.assign(size_t(worlds), 0);
    return touch_.data();
  }
  // the worlds by their numbers, those with the same one as they stand; null where all are alike, or where
  // so many worlds have told nothing yet
  const int32_t* sorted(long worlds) {
    const size_t n = touch_.size();
    if (long(n) != worlds) return nullptr;
    uint32_t common = ~0u, some = 0;
    for (const uint32_t x : touch_) {
      common &= x;
      some |= x;
    }
    if (common == some) return nullptr;
    order_.resize(n);
    other_.resize(n);
    for (size_t i = 0; i < n; ++i) order_[i] = int32_t(i);
    // byte by byte, leaving out those that all share
    for (int shift = 0; shift < 32; shift += 8)
      if (((common ^ some) >> shift & 255u) != 0) sort_by(shift);
    return order_.data();
  }

 private:
  void sort_by(int shift) {
    size_t start[257] = {0};
    for (const uint32_t x : touch_) ++start[(x >> shift & 255u) + 1];
    for (int e = 0; e < 256; ++e) start[e + 1] += start[e];
    for (const int32_t i : order_) other_[start[touch_[size_t(i)] >> shift & 255u]++] = i;
    order_.swap(other_);
  }
  std::vector<uint32_t> touch_;
  std::vector<int32_t> order_, other_;
};

}  // namespace fb
