// What XLA calls: rollouts, outputs and their derivatives as custom calls on the host.
#pragma once
#include <nanobind/nanobind.h>

#include "xla/ffi/api/c_api.h"

namespace fb {

// add the pools of engines and the capsules of the handlers to the module
void bind_xla(nanobind::module_& m);

}  // namespace fb

using Handler = XLA_FFI_Error*(XLA_FFI_CallFrame*);
extern "C" Handler fb_xla_rollout_state, fb_xla_rollout, fb_xla_vjp, fb_xla_jvp, fb_xla_hvp;
extern "C" Handler fb_xla_output_state, fb_xla_output, fb_xla_output_vjp;
