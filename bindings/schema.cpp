// What Python must know of core/model/schema.hpp, as functions of featherback._core.
#include "bindings/schema.hpp"

#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/variant.h>
#include <nanobind/stl/vector.h>

#include <cctype>
#include <cmath>
#include <optional>
#include <sstream>
#include <stdexcept>
#include <string>
#include <tuple>
#include <variant>
#include <vector>

#include "core/model/layout.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace fb {
namespace {

using Names = std::vector<std::string>;
using SizeArray = nb::ndarray<const int32_t, nb::shape<kSizes>, nb::c_contig, nb::device::cpu>;

Names split(const std::string& text) {
  std::istringstream in(text);
  Names words;
  for (std::string word; in >> word;) words.push_back(word);
  return words;
}

// ---- names

#define FB_X(name, ...) #name,
Names size_names() { return {FB_SIZES(FB_X)}; }
Names table_names() { return {FB_TABLES(FB_X)}; }
Names parameter_names() { return {FB_PARAMETERS(FB_X)}; }
#undef FB_X

// ---- types of joints and rows

struct TypeRow {
  std::string name;
  int number;
};
struct JointRow : TypeRow {
  int nq, nv;
};

std::vector<JointRow> joint_types() {
  return {
#define FB_X(constant, name, number, nq, nv) JointRow{{#name, constant}, nq, nv},
      FB_JOINTS(FB_X)
#undef FB_X
  };
}
#define FB_X(constant, name, ...) TypeRow{#name, constant},
std::vector<TypeRow> equality_types() { return {FB_EQUALITIES(FB_X)}; }
std::vector<TypeRow> gain_types() { return {FB_GAINS(FB_X)}; }
std::vector<TypeRow> bias_types() { return {FB_BIASES(FB_X)}; }
std::vector<TypeRow> activation_types() { return {FB_ACTIVATIONS(FB_X)}; }
std::vector<TypeRow> wrap_types() { return {FB_WRAPS(FB_X)}; }
std::vector<TypeRow> transmission_types() { return {FB_TRANSMISSIONS(FB_X)}; }
std::vector<TypeRow> compensation_types() { return {FB_COMPENSATIONS(FB_X)}; }
std::vector<TypeRow> friction_rules() { return {FB_FRICTION_RULES(FB_X)}; }
#undef FB_X

// ---- shapes and pairs of shapes

// "kPlane" -> "plane"
std::string word_of(const char* enumerator) {
  std::string word(enumerator + 1);
  word[0] = char(std::tolower(word[0]));
  return word;
}

std::vector<std::tuple<std::string, int>> shape_types() {
#define FB_X(name, number) {word_of(#name), number},
  return {FB_SHAPES(FB_X)};
#undef FB_X
}

std::vector<std::tuple<std::string, int, int, int, int>> pair_table() {
#define FB_X(kind, a, b, slots, function) {word_of(#a) + "-" + word_of(#b), kind, a, b, slots},
  return {FB_PAIRS(FB_X)};
#undef FB_X
}

// the word for laws under which something acts, which must be one of them
#define FB_LAW(law) ((void)ActsUnder::law, #law)

// ---- parameters

struct ParameterRow {
  std::string name, rows;  // rows: of what there are rows, such as nbody
  int columns;
  std::string unit, rule;
  double least;  // a value below it has no meaning
  std::optional<std::string> no_gradient;
  std::string law;  // both, hard or mujoco
};

double least_value(ParameterRule rule) {
#define FB_X(name, least, ...) least,
  static constexpr double values[] = {FB_RULES(FB_X)};
#undef FB_X
  return values[int(rule)];
}

std::vector<ParameterRow> parameter_table() {
  const auto text = [](const char* reason) {
    return reason ? std::optional<std::string>(reason) : std::nullopt;
  };
  const auto size = [](std::string rows) { return rows.starts_with("s.") ? rows.substr(2) : rows; };
  return {
#define FB_X(name, rows, columns, unit, rule, where, no_gradient, law) \
  ParameterRow{#name,                                                  \
               size(#rows),                                            \
               columns,                                                \
               unit,                                                   \
               #rule,                                                  \
               least_value(ParameterRule::rule),                       \
               text(no_gradient),                                      \
               FB_LAW(law)},
      FB_PARAMETERS(FB_X)
#undef FB_X
  };
}

// ---- outputs

struct OutputRow {
  std::string name, result;
  Names inputs;
  std::vector<int> (*shape)(const Sizes&);
};

std::vector<OutputRow> output_table() {
  return {
#define FB_X(name, rank, rows, columns, inputs, result)                                    \
  OutputRow{#name, result, split(inputs), [](const Sizes& s) {                             \
              (void)s;                                                                     \
              return rank == 1 ? std::vector<int>{rows} : std::vector<int>{rows, columns}; \
            }},
      FB_OUTPUTS(FB_X)
#undef FB_X
  };
}

// ---- options

using Value = std::variant<double, int, std::string>;

// allowed values of an option
struct Allowed {
  std::string kind;  // real, whole, choice or fixed
  double least, most;
  bool open;  // the least value itself is not allowed
  Names choices;
};
Allowed at_least(double least) { return {"real", least, HUGE_VAL, false, {}}; }
Allowed zero_or_between(double least, double most) { return {"real", least, most, false, {}}; }
Allowed above(double least) { return {"real", least, HUGE_VAL, true, {}}; }
Allowed whole(int least, int most) { return {"whole", double(least), double(most), false, {}}; }
Allowed fixed() { return {"fixed", -HUGE_VAL, HUGE_VAL, false, {}}; }
Allowed choice(Names words) { return {"choice", 0.0, double(words.size() - 1), false, words}; }
#define FB_WORD(constant, word) #word,
#define FB_WORDS(list) choice({list(FB_WORD)})

// numbers as they are, a choice by its word
Value shown(double x, const Names&) { return x; }
Value shown(int x, const Names& words) { return words.empty() ? Value(x) : Value(words.at(x)); }
void read(double& x, const Value& value, const Names&) {
  x = std::holds_alternative<int>(value) ? std::get<int>(value) : std::get<double>(value);
}
void read(int& x, const Value& value, const Names&) { x = std::get<int>(value); }
template <class E>
  requires std::is_enum_v<E>
void read(E& x, const Value& value, const Names& words) {
  for (size_t i = 0; i < words.size(); ++i)
    if (words[i] == std::get<std::string>(value)) {
      x = E(i);
      return;
    }
  throw std::invalid_argument("no choice of this option: " + std::get<std::string>(value));
}

struct OptionRow {
  std::string name, law, doc;  // law: both, hard or mujoco
  Value value, value_float32;
  Allowed allowed;
};

template <class T>
Value default_of(T value, const Allowed& allowed) {
  if constexpr (std::is_floating_point_v<T>)
    return double(value);
  else
    return shown(int(value), allowed.choices);
}

const std::vector<OptionRow>& option_table() {
  static const std::vector<OptionRow> rows = {
#define FB_X(name, type, value, allowed, law, doc)                    \
  [] {                                                                \
    const Allowed a = allowed;                                        \
    const auto of = [&]<class R>(R) { return default_of(value, a); }; \
    return OptionRow{#name, FB_LAW(law), doc, of(1.0), of(1.0f), a};  \
  }(),
      FB_OPTIONS(FB_X)
#undef FB_X
  };
  return rows;
}

using EngineOptions = Options<double>;

// places of the options in the table
#define FB_X(name, ...) at_##name,
enum OptionAt : size_t { FB_OPTIONS(FB_X) };
#undef FB_X

const Names& choices_at(OptionAt at) { return option_table()[at].allowed.choices; }

// every option in the order of the table
std::vector<Value> values_of(const EngineOptions& o) {
#define FB_X(name, ...) shown(o.name, choices_at(at_##name)),
  return {FB_OPTIONS(FB_X)};
#undef FB_X
}
void set_values(EngineOptions& o, const std::vector<Value>& values) {
#define FB_X(name, ...) read(o.name, values.at(at_##name), choices_at(at_##name));
  FB_OPTIONS(FB_X)
#undef FB_X
}

nb::str text_of(const EngineOptions& o) {
  std::string text = "Options(";
  const std::vector<Value> values = values_of(o);
  for (size_t i = 0; i < values.size(); ++i)
    text += (i ? ", " : "") + option_table()[i].name + "=" +
            nb::cast<std::string>(nb::repr(nb::cast(values[i])));
  return nb::str((text + ")").c_str());
}

// how Python spells an option's type
template <class T>
using Shown = std::conditional_t<std::is_enum_v<T>, std::string, T>;

template <class T>
Shown<T> spelled(T x, OptionAt at) {
  return std::get<Shown<T>>(shown(x, choices_at(at)));
}

void bind_options(nb::module_& m) {
  nb::class_<EngineOptions> options(m, "Options", "Numerical options of an Engine.");
  options.def(
      "__init__",
      [](EngineOptions* o
#define FB_X(name, ...) , Shown<decltype(EngineOptions::name)> name
             FB_OPTIONS(FB_X)
#undef FB_X
      ) {
        new (o) EngineOptions;
#define FB_X(name, ...) Value(name),
        set_values(*o, {FB_OPTIONS(FB_X)});
#undef FB_X
      },
      nb::kw_only()
#define FB_X(name, ...) , nb::arg(#name) = spelled(EngineOptions{}.name, at_##name)
          FB_OPTIONS(FB_X));
#undef FB_X
#define FB_X(name, type, value, allowed, law, doc) \
  options.def_prop_ro(                             \
      #name, [](const EngineOptions& o) { return spelled(o.name, at_##name); }, doc ".");
  FB_OPTIONS(FB_X)
#undef FB_X
  options.def("__repr__", &text_of)
      .def("__eq__",
           [](const EngineOptions& a, nb::handle b) {
             return nb::isinstance<EngineOptions>(b) &&
                    values_of(a) == values_of(nb::cast<const EngineOptions&>(b));
           })
      .def("__hash__", [](const EngineOptions& o) { return nb::hash(text_of(o)); })
      .def("__getstate__", &values_of)
      .def("__setstate__", [](EngineOptions& o, const std::vector<Value>& values) {
        new (&o) EngineOptions;
        set_values(o, values);
      });
}

// ---- statuses

struct StatusRow {
  std::string name;
  unsigned bit;
  std::string sentence;
};
std::vector<StatusRow> status_table() {
  return {
#define FB_X(constant, name, bit, sentence) StatusRow{#name, constant, #name ": " sentence},
      FB_STATUSES(FB_X)
#undef FB_X
  };
}

// an IntFlag of Python, with a method that says what its bits mean
void bind_status(nb::module_& m) {
  nb::list members;
  members.append(nb::make_tuple("OK", 0));
  for (const StatusRow& row : status_table()) members.append(nb::make_tuple(row.name, row.bit));
  nb::object status = nb::module_::import_("enum").attr("IntFlag")("Status", members,
                                                                   "module"_a = m.attr("__name__"));
  status.attr("__doc__") = "State of a world after a step or a rollout; several bits may be set.";
  status.attr("OK").attr("__doc__") = "Nothing went wrong.";
  for (const StatusRow& row : status_table())
    status.attr(row.name.c_str()).attr("__doc__") = row.sentence;
  nb::cpp_function_def(
      [](nb::handle self) {
        const unsigned bits = nb::cast<unsigned>(nb::int_(self));
        Names found;
        for (const StatusRow& row : status_table())
          if (bits & row.bit) found.push_back(row.sentence);
        return found;
      },
      nb::scope(status), nb::name("sentences"), nb::is_method(),
      "Return one sentence for each bit that is set.");
  m.attr("Status") = status;
}

void bind_rows(nb::module_& m) {
  nb::class_<TypeRow>(m, "TypeRow", "A type by its name and its number in the tables.")
      .def_ro("name", &TypeRow::name)
      .def_ro("number", &TypeRow::number);
  nb::class_<JointRow, TypeRow>(m, "JointRow", "A type of joints, with its coordinates and dofs.")
      .def_ro("nq", &JointRow::nq)
      .def_ro("nv", &JointRow::nv);
  nb::class_<ParameterRow>(m, "ParameterRow", "A physical parameter.")
      .def_ro("name", &ParameterRow::name)
      .def_ro("rows", &ParameterRow::rows, "Name of the size that counts its rows, or a number.")
      .def_ro("columns", &ParameterRow::columns, "Numbers in a row.")
      .def_ro("unit", &ParameterRow::unit)
      .def_ro("rule", &ParameterRow::rule)
      .def_ro("least", &ParameterRow::least, "A value below it has no meaning.")
      .def_ro("no_gradient", &ParameterRow::no_gradient, "Why there is no gradient, or None.")
      .def_ro("law", &ParameterRow::law,
              "The contact law under which it acts: both, hard or mujoco.");
  nb::class_<OutputRow>(m, "OutputRow", "An output of a state.")
      .def_ro("name", &OutputRow::name)
      .def_ro("inputs", &OutputRow::inputs, "Names of its inputs, q first.")
      .def_ro("result", &OutputRow::result, "Symbol of its value.")
      .def(
          "shape",
          [](const OutputRow& row, SizeArray sizes) {
            return row.shape(host::read_sizes(sizes.data()));
          },
          "sizes"_a, "Its shape in one world of a model.");
  nb::class_<OptionRow>(m, "OptionRow", "A numerical option of a Simulator.")
      .def_ro("name", &OptionRow::name)
      .def_ro("law", &OptionRow::law, "The contact law under which it acts: both, hard or mujoco.")
      .def_ro("doc", &OptionRow::doc)
      .def_prop_ro(
          "kind", [](const OptionRow& r) { return r.allowed.kind; },
          "real, whole, choice, or fixed: not for the caller to choose.")
      .def_ro("default", &OptionRow::value)
      .def_ro("default_float32", &OptionRow::value_float32)
      .def_prop_ro("least", [](const OptionRow& r) { return r.allowed.least; })
      .def_prop_ro("most", [](const OptionRow& r) { return r.allowed.most; })
      .def_prop_ro(
          "open", [](const OptionRow& r) { return r.allowed.open; },
          "Whether the least value itself is not allowed.")
      .def_prop_ro("choices", [](const OptionRow& r) { return r.allowed.choices; });
  nb::class_<StatusRow>(m, "StatusRow", "What can go wrong in a world.")
      .def_ro("name", &StatusRow::name)
      .def_ro("bit", &StatusRow::bit)
      .def_ro("sentence", &StatusRow::sentence);
}

}  // namespace

void bind_schema(nb::module_& m) {
  bind_rows(m);
  bind_options(m);
  bind_status(m);
  m.def("size_names", &size_names, "Sizes that an Engine is built from, in their order.");
  m.def("table_names", &table_names,
        "Integer tables in the order in which they follow each other.");
  m.def("parameter_names", &parameter_names,
        "Physical parameters in the order in which they lie in a flat array.");
  m.def("joint_types", &joint_types, "Types of joints.");
  m.def("equality_types", &equality_types, "Types of equality constraints.");
  m.def("gain_types", &gain_types, "What multiplies the input of an actuator.");
  m.def("bias_types", &bias_types, "What an actuator adds to it.");
  m.def("activation_types", &activation_types, "How an activation follows its control.");
  m.def("wrap_types", &wrap_types, "What the path of a tendon is made of.");
  m.def("transmission_types", &transmission_types, "What an actuator acts on.");
  m.def("compensation_types", &compensation_types, "Where gravity compensation of a joint goes.");
  m.def("friction_rules", &friction_rules, "Whose friction a pair of geoms takes.");
  m.def("shape_types", &shape_types, "Shapes of geoms: (name, MuJoCo's number).");
  m.def("pair_table", &pair_table,
        "Pairs of shapes that can touch: (name, kind, shape A, shape B, contact points).");
  m.def("parameter_table", &parameter_table, "Physical parameters with their rules.");
  m.def("output_table", &output_table, "Outputs of a state.");
  m.def("option_table", &option_table, "Numerical options.");
  m.def("status_table", &status_table, "What can go wrong in a world.");
  m.def(
      "table_size",
      [](SizeArray sizes) { return host::table_size(host::read_sizes(sizes.data())); }, "sizes"_a,
      "Words of all integer tables together.");
}

}  // namespace fb
