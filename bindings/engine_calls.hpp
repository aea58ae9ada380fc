// The calls of an Engine with arrays of Python.
#pragma once
#include <nanobind/nanobind.h>

namespace fb {

void bind_engine(nanobind::module_& m);

}  // namespace fb
