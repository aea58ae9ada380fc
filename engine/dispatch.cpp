// Which kernels were built, and which this processor runs.
#include "engine/dispatch.hpp"

#include <cstdlib>
#include <cstring>

namespace fb {

#define FB_DECLARE(isa, wide_double, wide_float)                              \
  namespace isa {                                                             \
  extern const Kernel kernel_double_1, kernel_float_1;                        \
  extern const Kernel kernel_double_##wide_double, dual_double_##wide_double; \
  extern const Kernel kernel_float_##wide_float, dual_float_##wide_float;     \
  }
#define FB_ROW(isa, wide_double, wide_float) \
  {#isa,                                     \
   &isa::kernel_double_1,                    \
   &isa::kernel_double_##wide_double,        \
   &isa::dual_double_##wide_double,          \
   &isa::kernel_float_1,                     \
   &isa::kernel_float_##wide_float,          \
   &isa::dual_float_##wide_float}

#ifdef FB_HAVE_base
FB_DECLARE(base, 1, 1)
#endif
#ifdef FB_HAVE_avx2
FB_DECLARE(avx2, 4, 8)
#endif
#ifdef FB_HAVE_avx512
FB_DECLARE(avx512, 8, 16)
#endif
#ifdef FB_HAVE_neon
FB_DECLARE(neon, 2, 4)
#endif

namespace {

bool processor_has(const char* isa) {
#if defined(__x86_64__)
  __builtin_cpu_init();
  const bool v3 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
                  __builtin_cpu_supports("bmi2");
  if (!std::strcmp(isa, "avx2")) return v3;
  if (!std::strcmp(isa, "avx512"))
    return v3 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
           __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") &&
           __builtin_cpu_supports("avx512cd");
#endif
  (void)isa;
  return true;
}

// narrowest first
const KernelSet kSets[] = {
#ifdef FB_HAVE_base
    FB_ROW(base, 1, 1),
#endif
#ifdef FB_HAVE_avx2
    FB_ROW(avx2, 4, 8),
#endif
#ifdef FB_HAVE_avx512
    FB_ROW(avx512, 8, 16),
#endif
#ifdef FB_HAVE_neon
    FB_ROW(neon, 2, 4),
#endif
};

}  // namespace

std::vector<std::string> available_isas() {
  std::vector<std::string> names;
  for (const KernelSet& k : kSets)
    if (processor_has(k.isa)) names.push_back(k.isa);
  return names;
}

const KernelSet* find_kernels(const std::string& isa) {
  for (const KernelSet& k : kSets)
    if (isa == k.isa && processor_has(k.isa)) return &k;
  return nullptr;
}

}  // namespace fb
