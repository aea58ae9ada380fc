// featherback._core: the engine, the instruction sets,
// and the names that Python must spell as the core does.
#include <nanobind/nanobind.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <cstdlib>
#include <stdexcept>

#include "bindings/check.hpp"
#include "bindings/engine_calls.hpp"
#include "bindings/gil.hpp"
#include "bindings/schema.hpp"
#include "bindings/xla.hpp"
#include "engine/engine.hpp"

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
  nb::register_exception_translator([](const std::exception_ptr& p, void*) {
    try {
      std::rethrow_exception(p);
    } catch (const fb::OutOfMemory& e) {
      PyErr_SetString(PyExc_MemoryError, e.what());
    }
  });
  // see InterpreterEnd
  nb::module_::import_("atexit").attr("register")(nb::cpp_function(&fb::InterpreterEnd::begin));
  fb::bind_engine(m);
  fb::bind_xla(m);
}
