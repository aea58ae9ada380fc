#include "engine/describe.hpp"

#include <cstdio>
#include <sstream>

#include "core/model/schema.hpp"

namespace fb {

std::string describe_worlds(const uint32_t* status, const int32_t* step, const double* residual,
                            long worlds) {
  long bad = 0, told = 0;
  for (long w = 0; w < worlds; ++w) bad += status[w] != 0;
  if (bad == 0) return "";
  std::ostringstream text;
  text << bad << " of " << worlds << " worlds are not OK; the others are unaffected.";
  for (long w = 0; w < worlds && told < 10; ++w) {
    told += status[w] != 0;
    const auto tell = [&](StatusBit bit, const char* sentence) {
      if (!(status[w] & bit)) return;
      text << "\nworld " << w << ", first at step " << step[w] << ", " << sentence;
      if (bit != kUnconverged || !residual) return;
      char number[32];
      std::snprintf(number, sizeof number, "%.1e", residual[w]);
      text << " Its largest residual is " << number
           << " (m/s; a share of the accelerations under MuJoCo's law).";
    };
#define FB_X(constant, name, bit, sentence) tell(constant, #name ": " sentence);
    FB_STATUSES(FB_X)
#undef FB_X
  }
  if (bad > told) text << "\nand " << bad - told << " more worlds.";
  return text.str();
}

}  // namespace fb
