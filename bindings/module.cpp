// featherback._core: the engine, the instruction sets,
// and the names that Python must spell as the core does.
#include <nanobind/nanobind.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <cstdlib>
#include <cstring>
#include <stdexcept>

#include "bindings/engine.hpp"
#include "bindings/xla.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace fb {
void bind_schema(nb::module_& m);  // schema.cpp
}

namespace {

// FEATHERBACK_ISA forces an instruction set; otherwise the widest that runs here
std::string chosen_isa() {
  const std::vector<std::string> names = fb::available_isas();
  const char* forced = std::getenv("FEATHERBACK_ISA");
  if (!forced || !*forced) return names.back();
  std::string all;
  for (const std::string& n : names) {
    if (n == forced) return n;
    all += (all.empty() ? "" : ", ") + n;
  }
  throw std::runtime_error(std::string("FEATHERBACK_ISA is \"") + forced +
                           "\"; this processor and build offer " + all +
                           "; unset it or choose one of these.");
}
std::string g_isa;

std::vector<std::string> names_of(const char* what) {
  std::vector<std::string> n;
#define FB_X(name, ...) n.push_back(#name);
  if (!std::strcmp(what, "sizes")) {
    FB_SIZES(FB_X)
  } else if (!std::strcmp(what, "tables")) {
    FB_TABLES(FB_X)
  } else {
    FB_PARAMETERS(FB_X)
  }
#undef FB_X
  return n;
}

}  // namespace

NB_MODULE(_core, m) {
  // frameworks keep graphs, and so engines, beyond the end of the interpreter
  nb::set_leak_warnings(false);
  g_isa = chosen_isa();
  m.def("isa", [] { return g_isa; }, "Instruction set of the kernels in use.");
  m.def("available_isas", &fb::available_isas, "Instruction sets this processor and build offer.");
  m.def("size_names", [] { return names_of("sizes"); }, "Sizes that an Engine is built from.");
  m.def("table_names", [] { return names_of("tables"); }, "Integer tables, in any order.");
  m.def(
      "parameter_names", [] { return names_of("parameters"); },
      "Physical parameters in the order in which they lie in a flat array.");
  fb::bind_schema(m);
  m.attr("CONTACT_NUMBERS") = fb::kContactSize;
  m.attr("TRACE_NUMBERS") = fb::kTraceSize;

  nb::class_<fb::Engine>(m, "Engine", "One model compiled for stepping; see featherback.Simulator.")
      .def(nb::init<nb::dict, nb::dict, fb::ReadArray, fb::ReadArray, nb::dict, const std::string&,
                    int>(),
           "sizes"_a, "tables"_a, "theta"_a, "vert"_a, "options"_a, "isa"_a, "threads"_a)
      .def_prop_ro("theta_size", &fb::Engine::theta_size)
      .def_prop_ro("derived_size", &fb::Engine::derived_size)
      .def_prop_ro("workspace_bytes", &fb::Engine::workspace_bytes)
      .def("step_one", &fb::Engine::step_one, "q"_a.none(), "v"_a.none(), "u"_a.none())
      .def("linearize_one", &fb::Engine::linearize_one, "q"_a.none(), "v"_a.none(), "u"_a.none())
      .def("rollout", &fb::Engine::rollout, "arrays"_a, "progress"_a.none())
      .def("vjp", &fb::Engine::vjp, "arrays"_a)
      .def("jvp", &fb::Engine::jvp, "arrays"_a)
      .def("hvp", &fb::Engine::hvp, "arrays"_a)
      .def("linearize", &fb::Engine::linearize, "q"_a, "v"_a, "u"_a.none(), "theta"_a.none(), "A"_a,
           "B"_a, "status"_a, "status_step"_a)
      .def("evaluate", &fb::Engine::evaluate, "job"_a, "q"_a, "v"_a.none(), "x"_a.none(), "y"_a,
           "theta"_a.none(), "bars"_a)
      .def("contacts", &fb::Engine::contacts, "q"_a, "v"_a, "u"_a.none(), "theta"_a.none(),
           "numbers"_a, "ids"_a, "count"_a, "overflow"_a);
  fb::bind_xla(m);
}
