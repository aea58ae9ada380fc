// The jobs on plain numbers, compiled for one instruction set, one machine number and one lane
// width.
#include "engine/jobs/backward.hpp"
#include "engine/jobs/contact_forces.hpp"
#include "engine/jobs/contacts.hpp"
#include "engine/jobs/linearize.hpp"
#include "engine/jobs/rollout.hpp"
#include "engine/kernel.hpp"

namespace fb::FB_ISA {
namespace {

#if FB_WIDTH == 1
using T = R;
#else
using T = Lane<R, W>;
#endif

size_t workspace_bytes(const Layout& s) {
  WorldBlock<T, T> b;
  return (b.carve_all(s, nullptr) + 63) / 64 * 64;
}
size_t linear_bytes(const Layout& s) {
  LinearWork<T> f;
  return linear_workspace(s, workspace_bytes(s), nullptr, f);
}

// parameters are shared by all lanes, or each world's own
template <class Task, void (*Shared)(const Task&, long, char*),
          void (*Own)(const Task&, long, char*)>
void run(const Task& t, long block, char* workspace) {
  if (W > 1 && t.theta_per_world) return Own(t, block, workspace);
  Shared(t, block, workspace);
}
template <class P>
void linearize(const LinearizeTask& t, long block, char* workspace) {
  run_linearize<T, P>(t, block, workspace, workspace_bytes(t.layout));
}

void derive_shared(const Layout& s, const void* theta, const void* vert, void* out) {
  Theta<const R> view;
  bind<const R>(s, static_cast<const R*>(theta), view);
  Derived<R> d;
  bind<R>(s, static_cast<R*>(out), d);
  derive(s, view, static_cast<const R*>(vert), d);
}

}  // namespace

extern const Kernel FB_NAME(kernel);
const Kernel FB_NAME(kernel) = {
    .isa = FB_TEXT(FB_ISA),
    .real_bytes = int(sizeof(R)),
    .width = W,
    .workspace_bytes = workspace_bytes,
    .linear_bytes = linear_bytes,
    .derive = derive_shared,
    .rollout = run<RolloutTask, run_rollout<T, R>, run_rollout<T, T>>,
    .vjp = run<VjpTask, run_backward<T, R, VjpTask>, run_backward<T, T, VjpTask>>,
    .output = run<OutputTask, run_any_output<T, R>, run_any_output<T, T>>,
    .output_vjp = run<OutputVjpTask, run_any_output_vjp<T, R>, run_any_output_vjp<T, T>>,
    .contacts = run<ContactsTask, run_contacts<T, R>, run_contacts<T, T>>,
    .linearize = run<LinearizeTask, linearize<R>, linearize<T>>,
};

}  // namespace fb::FB_ISA
