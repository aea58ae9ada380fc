// What the handlers of XLA's calls share: crews by key, checks, and how an error gets out.
#pragma once
#include <algorithm>
#include <cfenv>
#include <cmath>
#include <cstring>
#include <limits>
#include <sstream>
#include <unordered_map>

#include "bindings/crew.hpp"
#include "core/workspace.hpp"
#include "xla/ffi/api/ffi.h"

namespace fb {

namespace ffi = xla::ffi;
using In = ffi::AnyBuffer;
using Out = ffi::Result<ffi::AnyBuffer>;

// ---- crews by key: a compiled function names its crew by a number, and holds it from then on

struct Registry {
  std::mutex mutex;
  std::unordered_map<int64_t, std::weak_ptr<EnginePool>> crews;
};
// never destroyed: compiled functions may outlive everything static
inline Registry& registry() {
  static Registry* r = new Registry;
  return *r;
}

// the caller holds the registry
inline std::shared_ptr<EnginePool> find_crew(int64_t key) {
  const auto at = registry().crews.find(key);
  return at == registry().crews.end() ? nullptr : at->second.lock();
}

// what a compiled function holds
struct CallState {
  static inline ffi::TypeId id = {};
  std::shared_ptr<EnginePool> crew;
  bool single = false;     // rollouts: a step, without an axis of steps
  Job job = Job::rollout;  // outputs: which
};
using CallStateOrError = ffi::ErrorOr<std::unique_ptr<CallState>>;

inline CallStateOrError seat_for(int64_t key, bool single, Job job) {
  std::lock_guard<std::mutex> hold(registry().mutex);
  std::shared_ptr<EnginePool> crew = find_crew(key);
  if (!crew)
    return ffi::Unexpected(ffi::Error::InvalidArgument(
        "featherback.jax: this compiled function was made for a Simulator that is not in this "
        "process; build an equal Simulator and call featherback.jax with it first."));
  return std::make_unique<CallState>(CallState{std::move(crew), single, job});
}

struct Refusal {
  std::string sentence;
};

inline bool finite(const void* data, size_t n, int bytes) {
  const auto all = [n](const auto* x) {
    for (size_t i = 0; i < n; ++i)
      if (!std::isfinite(x[i])) return false;
    return true;
  };
  return bytes == 8 ? all(static_cast<const double*>(data)) : all(static_cast<const float*>(data));
}

// the sizes of one call
struct Call {
  const EnginePool& crew;
  long worlds, steps;
  int bytes, nq, nv, nu, ntheta;

  Call(const EnginePool& crew, In state, bool single, long rows)
      : crew(crew),
        worlds(state.dimensions().size() < 2 ? -1 : long(state.dimensions()[0])),
        steps(single ? 1 : rows - 1),
        bytes(crew.real_bytes()),
        nq(crew.layout().nq),
        nv(crew.layout().nv),
        nu(crew.layout().nu),
        ntheta(crew.theta_size()) {
    require(worlds >= 0 && steps >= 0);
  }
  // a guard against calls past featherback.jax, which checks shapes itself
  void require(bool fits) const {
    if (!fits) throw Refusal{"featherback.jax: the buffers do not fit the Simulator."};
  }
  void require(In a, size_t numbers) const {
    const ffi::DataType real = bytes == 8 ? ffi::F64 : ffi::F32;
    require(a.element_type() == real && a.element_count() == numbers);
  }
  // parameters or a direction in them: none, one row for all worlds, or one for each
  void require_theta(In a) const {
    const size_t rank = a.dimensions().size();
    require(a, a.element_count() == 0 ? 0 : size_t(ntheta) * (rank == 2 ? worlds : 1));
  }
  // rows of parameters that a cotangent of them is summed to: none, or a share of the worlds each
  long theta_rows(In a) const {
    const long rows = ntheta ? long(a.element_count()) / ntheta : 0;
    require(a, size_t(rows) * ntheta);
    require(rows == 0 || worlds % rows == 0);
    return rows;
  }
  void require_finite(const std::string& name, In a, const char* hint = "") const {
    if (!finite(a.untyped_data(), a.element_count(), bytes))
      throw Refusal{name + " holds a NaN or infinity; give finite numbers" + hint + "."};
  }
  Task task(Engine& engine, In theta) const {
    const void* data = theta.element_count() ? theta.untyped_data() : nullptr;
    return engine.task(worlds, data, theta.dimensions().size() == 2);
  }
};

// the sentence of featherback.sim.status: worlds that are not OK, at most ten of them
inline void refuse_worlds(const EnginePool& crew, const char* where, long worlds,
                          const uint32_t* status, const int32_t* step) {
  long bad = 0;
  for (long w = 0; w < worlds; ++w) bad += status[w] != 0;
  if (bad == 0) return;
  std::ostringstream text;
  text << where << ": " << bad << " of " << worlds
       << " worlds are not OK; the others are unaffected.";
  long told = 0;
  for (long w = 0; w < worlds && told < 10; ++w) {
    told += status[w] != 0;
    for (const auto& [bit, sentence] : crew.sentences)
      if (status[w] & bit)
        text << "\nworld " << w << ", first at step " << step[w] << ", " << sentence;
  }
  if (bad > told) text << "\nand " << bad - told << " more worlds.";
  throw Refusal{text.str()};
}

// whether a symmetric matrix has no eigenvalue below -slack, by elimination from the largest number
// of the diagonal on
inline bool semidefinite(double (&a)[3][3], double slack) {
  for (int k = 0; k < 3; ++k) {
    int p = k;
    for (int i = k + 1; i < 3; ++i)
      if (a[i][i] > a[p][p]) p = i;
    std::swap(a[k], a[p]);
    for (auto& row : a) std::swap(row[k], row[p]);
    if (a[k][k] <= slack) {
      // what is left must be nothing
      for (int i = k; i < 3; ++i)
        for (int j = k; j < 3; ++j)
          if (std::abs(a[i][j]) > slack) return false;
      return true;
    }
    for (int i = k + 1; i < 3; ++i)
      for (int j = k + 1; j < 3; ++j) a[i][j] -= a[i][k] * a[k][j] / a[k][k];
  }
  return true;
}

// whether numbers of a row of theta go together
template <class R>
bool holds(const Rule& rule, const R* theta) {
  const R *x = theta + rule.at, *more = theta + rule.more;
  if (rule.kind == Rule::Kind::order) return x[0] <= x[1];
  if (rule.kind == Rule::Kind::length)
    return std::any_of(x, x + rule.more, [](R number) { return number != 0; });
  double a[3][3] = {{x[0], more[0], more[1]}, {more[0], x[1], more[2]}, {more[1], more[2], x[2]}};
  const double eps = std::numeric_limits<R>::epsilon();
  return semidefinite(a, 64 * eps * (a[0][0] + a[1][1] + a[2][2]));
}

// one row of theta
template <class R>
void refuse_row(const EnginePool& crew, const char* where, const R* theta) {
  size_t at = 0;
  for (const Bounds& b : crew.bounds)
    for (int i = 0; i < b.count; ++i, ++at) {
      const double x = theta[at];
      if (x >= b.low && x <= b.high) continue;
      std::ostringstream text;
      text << where << ": params[\"" << b.name << "\"] holds ";
      if (std::isfinite(x))
        text << x << "; it must be " << b.rule << ".";
      else
        text << "a NaN or infinity; give finite numbers.";
      throw Refusal{text.str()};
    }
  for (const Rule& rule : crew.rules)
    if (!holds(rule, theta)) throw Refusal{where + (": " + rule.sentence)};
}
inline void refuse_values(const EnginePool& crew, const char* where, In theta) {
  const size_t n = crew.theta_size();
  for (size_t at = 0; at < theta.element_count(); at += n) {
    if (crew.real_bytes() == 8)
      refuse_row(crew, where, static_cast<const double*>(theta.untyped_data()) + at);
    else
      refuse_row(crew, where, static_cast<const float*>(theta.untyped_data()) + at);
  }
}

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
  } catch (const std::exception& e) {
    return ffi::Error::Internal(std::string("featherback.jax: ") + e.what());
  }
}

inline char* cleared(Scratch& scratch, size_t bytes) {
  return static_cast<char*>(std::memset(scratch.take(bytes), 0, bytes));
}

// rows of `n` numbers every `from` and `to` numbers
inline void copy_rows(long rows, long n, int bytes, const void* from, long from_step, void* to,
                      long to_step) {
  for (long i = 0; i < rows; ++i)
    std::memcpy(static_cast<char*>(to) + i * to_step * bytes,
                static_cast<const char*>(from) + i * from_step * bytes, n * bytes);
}

// sums of the worlds' parameter cotangents: row r of `to` takes its share of the worlds, in order
inline void sum_theta(const Call& c, const char* from, long numbers, long rows, void* to) {
  const auto sum = [&](const auto* x, auto* y) {
    std::fill_n(y, rows * c.ntheta, 0);
    for (long w = 0; w < c.worlds; ++w)
      for (int i = 0; i < c.ntheta; ++i)
        y[w * rows / c.worlds * c.ntheta + i] += x[w * numbers + i];
  };
  if (c.bytes == 8)
    sum(reinterpret_cast<const double*>(from), static_cast<double*>(to));
  else
    sum(reinterpret_cast<const float*>(from), static_cast<float*>(to));
}

// every stage is given all attributes; what they say is in the seat
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
