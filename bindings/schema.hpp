// The schema of core/model/schema.hpp as values of Python, one function a list.
#pragma once
#include <nanobind/nanobind.h>

namespace fb {

void bind_schema(nanobind::module_& m);

}  // namespace fb
