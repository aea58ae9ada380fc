// featherback._oracle: forwards and adjoints of the core by name, over one flat vector of inputs, for
// the tests. Each op is a struct with a forward and an adjoint written once in T; it is run in
// double, float, lanes and dual numbers.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "tests/native/collision_ops.hpp"
#include "tests/native/ops_soft.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace fb::ops {
namespace {

using Vector = nb::ndarray<const double, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

Array output(const Numbers& x) { return make_array(x, {x.size()}); }
Numbers input(const Vector& a) { return {a.data(), a.data() + a.size()}; }

// the ops of no model, or of one
struct OpSet {
  OpTable ops;
  const Op& at(const std::string& name) const { return ops.at(name); }
};

// the rows and the Jacobian of one step
void register_steps(nb::module_& m) {
  m.def(
      "rows",
      [](IntArray sizes, IntArray tables, Vector theta, Vector vert, const EngineOptions& options,
         Vector x) {
        const RowDump d =
            dump_rows(make_box(sizes, tables, input(theta), input(vert), options), input(x));
        return nb::make_tuple(output(d.A), output(d.b), output(d.lo), output(d.hi), output(d.mu),
                              d.cone, d.island);
      },
      "The row problem of the step from (x, u): A by islands, b, lo, hi, mu, cone, island.");
  m.def(
      "linearize",
      [](IntArray sizes, IntArray tables, Vector theta, Vector vert, const EngineOptions& options,
         Vector x) {
        const Box box = make_box(sizes, tables, input(theta), input(vert), options);
        const size_t n = 2 * box->s.nv + box->s.na;
        const Numbers y = linearized_step(box, input(x));
        return make_array(y, {n, n + box->s.nu});
      },
      "A and B of the step from (x, u), side by side.");
}

}  // namespace

NB_MODULE(_oracle, m) {
  register_collision_ops(m);
  nb::class_<OpSet>(m, "OpSet", "A table of ops.")
      .def("names",
           [](const OpSet& s) {
             std::vector<std::string> names;
             for (const auto& [name, op] : s.ops) names.push_back(name);
             return names;
           })
      .def("sizes",
           [](const OpSet& s, const std::string& n) {
             return nb::make_tuple(s.at(n).inputs, s.at(n).outputs);
           })
      .def("adjoint_of", [](const OpSet& s, const std::string& n) { return s.at(n).adjoint_of; })
      .def("forward", [](const OpSet& s, const std::string& n,
                         Vector x) { return output(s.at(n).forward(input(x))); })
      .def("forward_float", [](const OpSet& s, const std::string& n,
                               Vector x) { return output(s.at(n).forward_float(input(x))); })
      .def("forward_lanes",
           [](const OpSet& s, const std::string& n, Vector x) {
             const Numbers y = s.at(n).forward_lanes(input(x));
             return make_array(y, {size_t(kOpLanes), y.size() / kOpLanes});
           })
      .def("tangent", [](const OpSet& s, const std::string& n, Vector x,
                         Vector x_tan) { return output(s.at(n).tangent(input(x), input(x_tan))); })
      .def("adjoint",
           [](const OpSet& s, const std::string& n, Vector x, Vector y_bar, Vector x_bar) {
             return output(s.at(n).adjoint(input(x), input(y_bar), input(x_bar)));
           })
      .def("adjoint_lanes",
           [](const OpSet& s, const std::string& n, Vector x, Vector y_bar) {
             const Numbers bar = s.at(n).adjoint_lanes(input(x), input(y_bar));
             return make_array(bar, {size_t(kOpLanes), bar.size() / kOpLanes});
           })
      .def("adjoint_float", [](const OpSet& s, const std::string& n, Vector x, Vector y_bar) {
        return output(s.at(n).adjoint_float(input(x), input(y_bar)));
      });
  m.def(
      "pure_ops",
      [] {
        OpSet set{table()};
        add_soft_ops(set.ops);
        return set;
      },
      "Ops that need no model.");
  m.def(
      "model_ops",
      [](IntArray sizes, IntArray tables, Vector theta, Vector vert, const EngineOptions& options) {
        const Box box = make_box(sizes, tables, input(theta), input(vert), options);
        OpSet set{model_table(box)};
        add_soft_ops(box, set.ops);
        return set;
      },
      "Ops of one model, from the arrays an Engine is built from.");
  register_steps(m);
  m.attr("LANES") = kOpLanes;
}

}  // namespace fb::ops
