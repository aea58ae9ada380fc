#include "bindings/check.hpp"

#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <stdexcept>

#include "engine/check_params.hpp"
#include "engine/describe.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace fb {
namespace {

using Names = std::vector<std::string>;
using Ints = nb::ndarray<const int32_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Bits = nb::ndarray<const uint32_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Residuals = nb::ndarray<const double, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
template <class R>
using Rows = nb::ndarray<const R, nb::c_contig, nb::device::cpu>;

void make_checker(ParameterChecker* at, Ints sizes, Ints tables, Names bodies) {
  if (sizes.size() != kSizes) throw std::invalid_argument("sizes has a wrong length");
  const Sizes read = host::read_sizes(sizes.data());
  if (long(tables.size()) != host::table_size(read))
    throw std::invalid_argument("tables has a wrong length");
  new (at) ParameterChecker(host::bind_layout(read, tables.data()), std::move(bodies));
}

template <class R>
std::optional<Violation> check(const ParameterChecker& checker, Rows<R> theta, const Names& given,
                               double rounding) {
  const size_t n = size_t(checker.theta_size());
  if (theta.size() % n) throw std::invalid_argument("theta has a wrong length");
  std::vector<bool> asked;
#define FB_X(name, ...) \
  asked.push_back(std::find(given.begin(), given.end(), #name) != given.end());
  FB_PARAMETERS(FB_X)
#undef FB_X
  return checker.check<R>({theta.data(), long(theta.size() / n), theta.ndim() == 1, rounding},
                          asked);
}

}  // namespace

void bind_checks(nb::module_& m) {
  nb::class_<Violation>(m, "Violation", "What is wrong with a parameter.")
      .def_ro("parameter", &Violation::parameter)
      .def_ro("index", &Violation::index, "Row of the parameter.")
      .def_ro("world", &Violation::world, "-1 where all worlds share their parameters.")
      .def_ro("value", &Violation::value)
      .def_ro("rule", &Violation::rule)
      .def_ro("message", &Violation::message);
  nb::class_<ParameterChecker>(m, "ParameterChecker", "Checks values of a model's parameters.")
      .def("__init__", &make_checker, "sizes"_a, "tables"_a, "bodies"_a)
      .def("check", &check<double>, "theta"_a, "given"_a, "rounding"_a,
           "The first violation among the given parameters of one row, or of a row for each world.")
      .def("check", &check<float>, "theta"_a, "given"_a, "rounding"_a);
  m.def(
      "describe_worlds",
      [](Bits status, Ints step, std::optional<Residuals> residual) {
        return describe_worlds(status.data(), step.data(), residual ? residual->data() : nullptr,
                               long(status.size()));
      },
      "status"_a, "step"_a, "residual"_a.none() = nb::none(),
      "Each world that is not OK, at most ten of them; empty for none.");
}

}  // namespace fb
