// What the handlers of XLA's calls share: pools of engines by key, checks of values, and how an error
// gets out.
#pragma once
#include <algorithm>
#include <cfenv>
#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <unordered_map>

#include "engine/calls.hpp"
#include "engine/describe.hpp"
#include "engine/engine_pool.hpp"
#include "xla/ffi/api/ffi.h"

namespace fb {

namespace ffi = xla::ffi;
using In = ffi::AnyBuffer;
using Out = ffi::Result<ffi::AnyBuffer>;

// ---- pools by key: a compiled function names its pool by a number, and holds it from then on

struct Registry {
  std::mutex mutex;
  std::unordered_map<int64_t, std::weak_ptr<EnginePool>> pools;
};
// never destroyed: compiled functions may outlive everything static
inline Registry& registry() {
  static Registry* r = new Registry;
  return *r;
}

// the caller holds the registry
inline std::shared_ptr<EnginePool> find_pool(int64_t key) {
  const auto at = registry().pools.find(key);
  return at == registry().pools.end() ? nullptr : at->second.lock();
}

// what a compiled function holds
struct CallState {
  static inline ffi::TypeId id = {};
  std::shared_ptr<EnginePool> pool;
  bool single = false;  // rollouts: a step, without an axis of steps
  Output output = {};   // outputs: which
};
using CallStateOrError = ffi::ErrorOr<std::unique_ptr<CallState>>;

inline CallStateOrError call_state(int64_t key, bool single, Output output) {
  std::lock_guard<std::mutex> hold(registry().mutex);
  std::shared_ptr<EnginePool> pool = find_pool(key);
  if (!pool)
    return ffi::Unexpected(ffi::Error::InvalidArgument(
        "featherback.jax: this compiled function was made for a Simulator that is not in this "
        "process; build an equal Simulator and call featherback.jax with it first."));
  return std::make_unique<CallState>(CallState{std::move(pool), single, output});
}

// ---- arrays

template <class X>
ArrayOf<X> array_at(X* at, ffi::DataType type, ffi::Span<const int64_t> shape) {
  ArrayOf<X> out{at, type == ffi::F64 ? 8 : type == ffi::F32 ? 4 : 0, int(shape.size()), {}};
  for (size_t i = 0; i < shape.size() && i < out.shape.size(); ++i) out.shape[i] = shape[i];
  return out;
}
inline ArrayIn array_of(In a) {
  return array_at<const void>(a.untyped_data(), a.element_type(), a.dimensions());
}
inline ArrayOut array_of(Out a) {
  return array_at<void>(a->untyped_data(), a->element_type(), a->dimensions());
}
template <ffi::DataType D>
auto array_of(ffi::ResultBuffer<D> a) {
  return array_at(a->typed_data(), D, a->dimensions());
}
// what a map does not have is empty
inline ArrayIn given_or_none(In a) { return a.element_count() ? array_of(a) : ArrayIn{}; }
inline ArrayOut given_or_none(Out a) { return a->element_count() ? array_of(a) : ArrayOut{}; }
// memory of the engine, (worlds, n)
inline ArrayOut array_of(char* at, const Engine& engine, long worlds, long n) {
  return {at, engine.real_bytes(), 2, {worlds, n}};
}

inline char* cleared(Scratch& scratch, size_t bytes) {
  return static_cast<char*>(std::memset(scratch.take(bytes), 0, bytes));
}

// cotangents of the worlds' parameters, summed at the end to the rows that a result has: none, or a
// share of the worlds each, in their order
class ThetaSums {
 public:
  ThetaSums(PooledEngine& own, Out result, long worlds)
      : engine_(own.engine), result_(result), worlds_(worlds) {
    const long n = engine_.theta_size(), count = long(result->element_count());
    rows_ = n ? count / n : 0;
    if (array_of(result).real_bytes != engine_.real_bytes() || rows_ * n != count ||
        (rows_ > 0 && worlds_ % rows_ != 0))
      throw std::invalid_argument(
          "array theta_bar does not have the shape or dtype that the "
          "engine asks for");
  }
  long row_size() const { return engine_.theta_size() + engine_.derived_size(); }
  // zeros to add to; nothing where no sum is asked for
  ArrayOut zeros(Scratch& scratch) {
    if (rows_ == 0) return {};
    const size_t bytes = size_t(worlds_) * row_size() * engine_.real_bytes();
    sums_ = cleared(scratch, bytes);
    return array_of(sums_, engine_, worlds_, row_size());
  }
  const char* sums() const { return sums_; }
  void finish() {
    if (rows_ == 0) return;
    if (engine_.real_bytes() == 8)
      add(reinterpret_cast<const double*>(sums_), static_cast<double*>(result_->untyped_data()));
    else
      add(reinterpret_cast<const float*>(sums_), static_cast<float*>(result_->untyped_data()));
  }

 private:
  template <class R>
  void add(const R* x, R* y) const {
    const long n = engine_.theta_size();
    std::fill_n(y, rows_ * n, R(0));
    for (long w = 0; w < worlds_; ++w)
      for (long i = 0; i < n; ++i) y[w * rows_ / worlds_ * n + i] += x[w * row_size() + i];
  }

  const Engine& engine_;
  Out result_;
  long worlds_, rows_;
  char* sums_ = nullptr;
};

// ---- values

struct Refusal {
  std::string sentence;
};

// the first number that is not finite; n where all are
inline size_t first_nonfinite(const void* data, size_t n, int bytes) {
  const auto find = [n](const auto* x) {
    return size_t(std::find_if(x, x + n, [](auto y) { return !std::isfinite(y); }) - x);
  };
  return bytes == 8 ? find(static_cast<const double*>(data))
                    : find(static_cast<const float*>(data));
}
inline bool finite(const void* data, size_t n, int bytes) {
  return first_nonfinite(data, n, bytes) == n;
}
inline void require_finite(const EnginePool& pool, const std::string& name, In a,
                           const char* hint = "") {
  if (!finite(a.untyped_data(), a.element_count(), pool.real_bytes()))
    throw Refusal{name + " holds a NaN or infinity; give finite numbers" + hint + "."};
}

inline void refuse_worlds(const char* where, long worlds, const StatusOut& found) {
  const std::string text = describe_worlds(found.status, found.step, nullptr, worlds);
  if (!text.empty()) throw Refusal{where + (": " + text)};
}

template <class R>
void refuse_rows(const ParameterChecker& checker, const std::string& where, In theta) {
  const auto* rows = static_cast<const R*>(theta.untyped_data());
  const long count = long(theta.element_count()) / checker.theta_size();
  const bool shared = theta.dimensions().size() == 1;
  const auto bad = checker.check<R>({rows, count, shared, std::numeric_limits<R>::epsilon()}, {});
  if (bad) throw Refusal{where + ": " + bad->message};
}
// values that only a compiled function sees; their shape is checked
inline void refuse_values(const EnginePool& pool, const std::string& where, In theta) {
  if (theta.element_count() == 0) return;
  if (pool.real_bytes() == 8)
    refuse_rows<double>(pool.checker, where, theta);
  else
    refuse_rows<float>(pool.checker, where, theta);
}

// ---- how a call runs

// XLA computes with denormal numbers made zero; ours keep them, in threads started here too
class PlainFloats {
 public:
  PlainFloats() {
    std::fegetenv(&before_);
    std::fesetenv(FE_DFL_ENV);
  }
  ~PlainFloats() { std::fesetenv(&before_); }

 private:
  std::fenv_t before_;
};

// run what may throw, and hand its sentence to XLA
template <class F>
ffi::Error guarded(F&& work) {
  const PlainFloats plain;
  try {
    work();
    return ffi::Error::Success();
  } catch (const Refusal& r) {
    return ffi::Error::InvalidArgument(r.sentence);
  } catch (const std::invalid_argument& e) {
    // a guard against calls past featherback.jax, which checks shapes itself
    return ffi::Error::InvalidArgument(std::string("featherback.jax: ") + e.what() + ".");
  } catch (const std::exception& e) {
    return ffi::Error::Internal(std::string("featherback.jax: ") + e.what());
  }
}

// every stage is given all attributes; what they say is in the state of the call
inline auto bind_call() { return ffi::Ffi::Bind().Ctx<ffi::State<CallState>>().Attrs(); }
// arrays in, and then at least one array out
template <int Arguments, int Results, class B = decltype(bind_call())>
auto bind_arrays(B binding = bind_call()) {
  if constexpr (Arguments > 0)
    return bind_arrays<Arguments - 1, Results>(std::move(binding).template Arg<In>());
  else if constexpr (Results > 1)
    return bind_arrays<0, Results - 1>(std::move(binding).template Ret<ffi::AnyBuffer>());
  else
    return std::move(binding).template Ret<ffi::AnyBuffer>();
}

}  // namespace fb
