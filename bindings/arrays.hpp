// Arrays that Python hands over, as the calls of an engine take them.
#pragma once
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <optional>

#include "engine/calls.hpp"

namespace fb {

namespace nb = nanobind;

using Ints = nb::ndarray<const int32_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using ReadArray = nb::ndarray<nb::ro, nb::c_contig, nb::device::cpu>;  // only read
using WriteArray = nb::ndarray<nb::c_contig, nb::device::cpu>;         // written to
using MaybeRead = std::optional<ReadArray>;
using MaybeWrite = std::optional<WriteArray>;
template <class X>
using PerWorld = nb::ndarray<X, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

template <class... Config>
auto array_of(const nb::ndarray<Config...>& a) {
  const bool real = a.dtype().code == uint8_t(nb::dlpack::dtype_code::Float);
  ArrayOf<std::remove_pointer_t<decltype(a.data())>> out{
      a.data(), real ? a.dtype().bits / 8 : 0, int(a.ndim()), {}};
  for (size_t i = 0; i < a.ndim() && i < out.shape.size(); ++i) out.shape[i] = long(a.shape(i));
  return out;
}
inline ArrayIn array_of(const MaybeRead& a) { return a ? array_of(*a) : ArrayIn{}; }
inline ArrayOut array_of(const MaybeWrite& a) { return a ? array_of(*a) : ArrayOut{}; }

}  // namespace fb
