// featherback._core: the engine, the instruction sets,
// and the names that Python must spell as the core does.
#include <nanobind/nanobind.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <cstdlib>
#include <stdexcept>

#include "bindings/check.hpp"
#include "bindings/engine.hpp"
#include "bindings/schema.hpp"
#include "bindings/xla.hpp"

namespace nb = nanobind;
using namespace nb::literals;

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

}  // namespace

NB_MODULE(_core, m) {
  // frameworks keep graphs, and so engines, beyond the end of the interpreter
  nb::set_leak_warnings(false);
  g_isa = chosen_isa();
  m.def("isa", [] { return g_isa; }, "Instruction set of the kernels in use.");
  m.def("available_isas", &fb::available_isas, "Instruction sets this processor and build offer.");
  m.attr("CONTACT_NUMBERS") = fb::kContactSize;
  m.attr("TRACE_NUMBERS") = fb::kTraceSize;

  fb::bind_schema(m);
  fb::bind_checks(m);
  nb::class_<fb::Engine>(m, "Engine", "One model compiled for stepping; see featherback.Simulator.")
      .def(nb::init<fb::IntArray, fb::IntArray, fb::ReadArray, fb::ReadArray,
                    const fb::EngineOptions&, const std::string&, int>(),
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
