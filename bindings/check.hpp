// What Python asks of the checks in engine/.
#pragma once
#include <nanobind/nanobind.h>

namespace fb {

void bind_checks(nanobind::module_& m);

}  // namespace fb
