// The calls of an Engine with arrays of Python.
#pragma once
#include <nanobind/nanobind.h>

namespace fb {

class Engine;

void bind_engine(nanobind::module_& m);
// steps and Jacobians of one world
void bind_one_world(nanobind::class_<Engine>& c);

}  // namespace fb
