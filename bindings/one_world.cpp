// One step, or its Jacobians, of one world: the short way for arrays of NumPy with one axis.
#include <nanobind/nanobind.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "bindings/arrays.hpp"
#include "bindings/engine_calls.hpp"
#include "bindings/gil.hpp"
#include "core/dynamics/joint.hpp"

namespace fb {
namespace {

using namespace nb::literals;

nb::dlpack::dtype real_type(const Engine& e) {
  return e.real_bytes() == 8 ? nb::dtype<double>() : nb::dtype<float>();
}

template <class R>
bool all_finite(const R* x, long n) {
  R sum(0);
  for (long i = 0; i < n; ++i) sum += x[i] - x[i];
  return sum == R(0);
}
// every joint that turns has a quaternion with a length
template <class R>
bool quaternions_point(const Layout& s, const R* x) {
  for (int j = 0; j < s.njnt; ++j) {
    const int at = host::with_joint(s.jnt_type[j], [](auto x) { return x.turns ? x.adds : -1; });
    if (at < 0) continue;
    const R* q = x + s.jnt_qadr[j] + at;
    if (q[0] == 0 && q[1] == 0 && q[2] == 0 && q[3] == 0) return false;
  }
  return true;
}

// arrays of NumPy itself: those of other frameworks may carry a graph, which is not cut here
bool is_numpy(nb::handle h) {
  static const nb::handle type =
      nb::object(nb::module_::import_("numpy").attr("ndarray")).release();
  return h.type().is(type);
}

// numbers of an array of NumPy with one axis, in either precision
struct Numbers {
  const char* at = nullptr;  // null: all are zero
  long bytes = 0, stride = 0;

  bool take(nb::handle h, long n) {
    using In = nb::ndarray<nb::ro, nb::ndim<1>, nb::device::cpu>;
    In a;
    if (!is_numpy(h) || !nb::try_cast<In>(h, a, false) || long(a.shape(0)) != n) return false;
    if (a.dtype() != nb::dtype<double>() && a.dtype() != nb::dtype<float>()) return false;
    at = static_cast<const char*>(a.data());
    bytes = a.dtype().bits / 8;
    stride = long(a.stride(0)) * bytes;
    return true;
  }
  bool take_or_zero(nb::handle h, long n) { return h.is_none() || take(h, n); }
  template <class R>
  R* copy(long n, R* to) const {
    if (!at)
      std::fill_n(to, n, R(0));
    else if (bytes == 8)
      copy_from<double>(n, to);
    else
      copy_from<float>(n, to);
    return to + n;
  }
  // what does not fit a float becomes infinite, as in NumPy
  template <class X, class R>
  void copy_from(long n, R* to) const {
    for (long i = 0; i < n; ++i) {
      X x;
      std::memcpy(&x, at + i * stride, sizeof(X));
      to[i] = R(x);
    }
  }
};

// arrays of one world; does not fit: the caller takes the careful way, which says what is wrong
struct OneWorld {
  Numbers q, v, act, warm, u;

  bool fits(const Layout& s, nb::handle q, nb::handle v, nb::handle act, nb::handle u) {
    return this->q.take(q, s.nq) && this->v.take(v, s.nv) && this->act.take_or_zero(act, s.na) &&
           this->u.take_or_zero(u, s.nu);
  }
  // accelerations are carried where the simulator has them
  bool fits_warm(const Layout& s, nb::handle warm) {
    return warm.is_none() || (s.nwarm > 0 && this->warm.take(warm, s.nwarm));
  }
  // (q, v, act, warm, u) into x; false where they are not valid
  bool copy(const Engine& e, char* x) const {
    return e.real_bytes() == 8 ? copy_as<double>(e.layout(), x) : copy_as<float>(e.layout(), x);
  }
  // a step hands on what is not finite in q or v; limits may hide it in act and u, a solve in warm
  template <class R>
  bool copy_as(const Layout& s, char* at) const {
    R *x = reinterpret_cast<R*>(at), *rest = v.copy(s.nv, q.copy(s.nq, x));
    u.copy(s.nu, warm.copy(s.nwarm, act.copy(s.na, rest)));
    return all_finite(rest, s.na + s.nwarm + s.nu) && quaternions_point(s, x);
  }
};

// memory that arrays of Python share
struct Shared {
  char* at;
  nb::capsule owner;
  nb::dlpack::dtype dtype;

  Shared(const Engine& e, size_t count)
      : at(new char[count * e.real_bytes()]),
        owner(at, [](void* p) noexcept { delete[] static_cast<char*>(p); }),
        dtype(real_type(e)) {}
  nb::object array(size_t first, std::initializer_list<size_t> shape) const {
    char* p = at + first * (dtype.bits / 8);
    return nb::ndarray<nb::numpy>(p, shape, owner, {}, dtype).cast();
  }
};

// the job of one world; its status
template <class Task>
uint32_t run_one(Engine& e, Task& t) {
  uint32_t status = 0;
  int32_t status_step = -1;
  t.status = {&status, &status_step};
  const WithoutGil release;
  e.run_one(t);
  return status;
}

nb::object step_one(const EngineCall& call, nb::handle q, nb::handle v, nb::handle act,
                    nb::handle u, nb::handle warm, bool return_status) {
  Engine& e = *call.engine;
  const Layout& s = e.layout();
  OneWorld given;
  if (!given.fits(s, q, v, act, u) || !given.fits_warm(s, warm)) return nb::none();
  const Engine::Use use(e);
  auto t = e.task<RolloutTask>(1);
  const Shared out(e, e.state_size() + s.nu);
  if (!given.copy(e, out.at)) return nb::none();
  // one row that moves
  t.x = {out.at, 0, 0};
  t.x_out = out.at;
  t.u = {out.at + e.state_size() * e.real_bytes(), 0, 0};
  t.last_step = 1;
  const uint32_t status = run_one(e, t);
  if (status & kNonFinite) return nb::none();
  const nb::object q1 = out.array(0, {size_t(s.nq)}), v1 = out.array(s.nq, {size_t(s.nv)});
  if (s.na == 0 && warm.is_none() && !return_status) return nb::make_tuple(q1, v1);
  nb::list parts;
  parts.append(q1);
  parts.append(v1);
  if (s.na > 0) parts.append(out.array(s.nq + s.nv, {size_t(s.na)}));
  if (!warm.is_none()) parts.append(out.array(s.nq + s.nv + s.na, {size_t(s.nwarm)}));
  if (return_status) parts.append(status);
  return nb::tuple(parts);
}

nb::object linearize_one(const EngineCall& call, nb::handle q, nb::handle v, nb::handle act,
                         nb::handle u) {
  Engine& e = *call.engine;
  const Layout& s = e.layout();
  OneWorld given;
  if (!given.fits(s, q, v, act, u)) return nb::none();
  const Engine::Use use(e);
  auto t = e.task<LinearizeTask>(1);
  const size_t n = 2 * s.nv + s.na, nu = s.nu;
  const Shared out(e, n * (n + nu)), x(e, e.state_size() + nu);
  if (!given.copy(e, x.at)) return nb::none();
  t.x = {x.at, 0};
  t.u = {x.at + e.state_size() * e.real_bytes(), 0};
  t.A = out.at;
  t.B = out.at + n * n * e.real_bytes();
  if (run_one(e, t)) return nb::none();
  return nb::make_tuple(out.array(0, {n, n}), out.array(n * n, {n, nu}));
}

}  // namespace

void bind_one_world(nb::class_<Engine>& c) {
  const auto none = [](const char* name) { return nb::arg(name).none(); };
  c.def("step_one", step_one, none("q"), none("v"), none("act"), none("u"), none("warm"),
        "return_status"_a)
      .def("linearize_one", linearize_one, none("q"), none("v"), none("act"), none("u"));
}

}  // namespace fb
