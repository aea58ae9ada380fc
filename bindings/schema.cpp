// What Python must know of core/model/schema.hpp, as functions of featherback._core.
#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <cctype>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "core/model/schema.hpp"

namespace nb = nanobind;

namespace fb {
namespace {

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

}  // namespace

void bind_schema(nb::module_& m) {
  m.def("shape_types", &shape_types, "Shapes of geoms: (name, MuJoCo's number).");
  m.def("pair_table", &pair_table,
        "Pairs of shapes that can touch: (name, kind, shape A, shape B, contact points).");
}

}  // namespace fb
