// Arrays that Python hands over, checked against the engine before a job reads them.
#pragma once
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <initializer_list>
#include <optional>
#include <stdexcept>
#include <string>

#include "engine/engine.hpp"

namespace fb {

namespace nb = nanobind;

using Ints = nb::ndarray<const int32_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using ReadArray = nb::ndarray<nb::ro, nb::c_contig, nb::device::cpu>;  // only read
using WriteArray = nb::ndarray<nb::c_contig, nb::device::cpu>;         // written to
using MaybeRead = std::optional<ReadArray>;
using MaybeWrite = std::optional<WriteArray>;
template <class X>
using PerWorld = nb::ndarray<X, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

// the arrays of one call
class CallArrays {
 public:
  CallArrays(const Engine& engine, long worlds) : engine_(engine), worlds_(worlds) {}

  long worlds() const { return worlds_; }
  nb::dlpack::dtype dtype() const {
    return engine_.real_bytes() == 8 ? nb::dtype<double>() : nb::dtype<float>();
  }
  // shapes are (worlds, ...) with -1 for any length
  template <class A>
  auto* data(const char* name, const A& a, std::initializer_list<long> shape) const {
    bool fits = a.dtype() == dtype() && a.ndim() == shape.size();
    size_t axis = 0;
    for (const long n : shape) {
      fits = fits && (n < 0 || long(a.shape(axis)) == n);
      ++axis;
    }
    require(fits, name);
    return a.data();
  }
  template <class A>
  auto* data(const char* name, const std::optional<A>& a, std::initializer_list<long> shape) const {
    return a ? data(name, *a, shape) : nullptr;
  }
  template <class X>
  X* per_world(const char* name, const PerWorld<X>& a) const {
    require(long(a.shape(0)) == worlds_, name);
    return a.data();
  }
  StatusOut status(const PerWorld<uint32_t>& status, const PerWorld<int32_t>& step) const {
    return {per_world("status", status), per_world("status_step", step)};
  }
  // (rows, n) for all worlds or (worlds, rows, n); at least `rows` rows from row `first` on
  Rows shared_rows(const char* name, const MaybeRead& a, long first, long rows, long n) const {
    if (!a) return {nullptr, 0, n};
    const bool own = a->ndim() == 3;
    const char* at =
        static_cast<const char*>(own ? data(name, *a, {worlds_, -1, n}) : data(name, *a, {-1, n}));
    const long length = long(a->shape(own ? 1 : 0));
    require(first >= 0 && first + rows <= length, name);
    return {at + first * n * engine_.real_bytes(), own ? length * n : 0, n};
  }
  // flat parameters, or a direction in them: (n) for all worlds or (worlds, n)
  Source theta(const char* name, const MaybeRead& a) const {
    if (!a) return {nullptr, 0};
    const long n = engine_.theta_size();
    const bool own = a->ndim() == 2;
    return {own ? data(name, *a, {worlds_, n}) : data(name, *a, {n}), own ? n : 0};
  }
  void require(bool fits, const char* name) const {
    if (!fits)
      throw std::invalid_argument(std::string("array ") + name +
                                  " does not have the shape or dtype that the engine asks for");
  }

 private:
  const Engine& engine_;
  long worlds_;
};

}  // namespace fb
