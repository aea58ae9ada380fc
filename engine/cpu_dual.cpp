// The jobs on dual numbers, compiled for one instruction set, one machine number and one lane
// width.
#include "engine/jobs/tangent.hpp"
#include "engine/kernel.hpp"

namespace fb::FB_ISA {
namespace {

#if FB_WIDTH == 1
using D = Dual<R>;
#else
using D = Dual<Lane<R, W> >;
#endif

size_t workspace_bytes(const Layout& s) {
  WorldBlock<D, D> b;
  return b.carve_all(s, nullptr);
}

// parameters without tangents that all lanes share need no dual numbers
void jvp(const JvpTask& t, long block, char* workspace) {
  if (t.theta_per_world || t.dot.theta.at) return run_jvp<D, D>(t, block, workspace);
  run_jvp<D, R>(t, block, workspace);
}

}  // namespace

extern const Kernel FB_NAME(dual);
const Kernel FB_NAME(dual) = {
    .isa = FB_TEXT(FB_ISA),
    .real_bytes = int(sizeof(R)),
    .width = W,
    .workspace_bytes = workspace_bytes,
    .jvp = jvp,
    .hvp = run_backward<D, D, HvpTask>,
};

}  // namespace fb::FB_ISA
