// One step, or its Jacobians, of one world: the short way for arrays that fit as they are.
#include <nanobind/nanobind.h>

#include <cmath>

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
bool all_finite(const void* data, long n) {
  const R* x = static_cast<const R*>(data);
  R sum(0);
  for (long i = 0; i < n; ++i) sum += x[i] - x[i];
  return sum == R(0);
}
// every joint that turns has a quaternion with a length
template <class R>
bool quaternions_point(const Layout& s, const void* data) {
  for (int j = 0; j < s.njnt; ++j) {
    const int at = host::with_joint(s.jnt_type[j], [](auto x) { return x.turns ? x.adds : -1; });
    if (at < 0) continue;
    const R* q = static_cast<const R*>(data) + s.jnt_qadr[j] + at;
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

// arrays of one world; does not fit: the caller takes the careful way, which says what is wrong
struct OneWorld {
  const void *q = nullptr, *v = nullptr, *act = nullptr, *u = nullptr;

  // a step hands on what is not finite in q or v; limits may hide it in act and u
  bool fits(const Engine& e, nb::handle q, nb::handle v, nb::handle act, nb::handle u) {
    const Layout& s = e.layout();
    if (!take(e, q, s.nq, this->q) || !take(e, v, s.nv, this->v)) return false;
    if (!take(e, act, s.na, this->act) || !take(e, u, s.nu, this->u)) return false;
    return e.real_bytes() == 8 ? valid<double>(s) : valid<float>(s);
  }
  static bool take(const Engine& e, nb::handle h, long n, const void*& out) {
    using In = nb::ndarray<nb::ro, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
    if (n == 0 && h.is_none()) return true;
    In a;
    if (!is_numpy(h) || !nb::try_cast<In>(h, a, false)) return false;
    if (a.dtype() != real_type(e) || long(a.shape(0)) != n) return false;
    out = a.data();
    return true;
  }
  template <class R>
  bool valid(const Layout& s) const {
    return all_finite<R>(act, s.na) && all_finite<R>(u, s.nu) && quaternions_point<R>(s, q);
  }
  // x = (q, v, act)
  void copy_state(const Engine& e, char* x) const {
    const Layout& s = e.layout();
    const size_t bytes = e.real_bytes();
    std::memcpy(x, q, s.nq * bytes);
    if (s.nv > 0) std::memcpy(x + s.nq * bytes, v, s.nv * bytes);
    if (s.na > 0) std::memcpy(x + (s.nq + s.nv) * bytes, act, s.na * bytes);
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
                    nb::handle u, bool return_status) {
  Engine& e = *call.engine;
  OneWorld given;
  if (!given.fits(e, q, v, act, u)) return nb::none();
  const Engine::Use use(e);
  const Layout& s = e.layout();
  auto t = e.task<RolloutTask>(1);
  const Shared out(e, e.state_size());
  given.copy_state(e, out.at);
  // one row that moves
  t.x = {out.at, 0, 0};
  t.x_out = out.at;
  t.u = {given.u, 0, 0};
  t.last_step = 1;
  const uint32_t status = run_one(e, t);
  if (status & kNonFinite) return nb::none();
  const nb::object q1 = out.array(0, {size_t(s.nq)}), v1 = out.array(s.nq, {size_t(s.nv)});
  if (s.na == 0 && !return_status) return nb::make_tuple(q1, v1);
  if (s.na == 0) return nb::make_tuple(q1, v1, status);
  const nb::object act1 = out.array(s.nq + s.nv, {size_t(s.na)});
  return return_status ? nb::make_tuple(q1, v1, act1, status) : nb::make_tuple(q1, v1, act1);
}

nb::object linearize_one(const EngineCall& call, nb::handle q, nb::handle v, nb::handle act,
                         nb::handle u) {
  Engine& e = *call.engine;
  OneWorld given;
  if (!given.fits(e, q, v, act, u)) return nb::none();
  const Engine::Use use(e);
  const Layout& s = e.layout();
  auto t = e.task<LinearizeTask>(1);
  const size_t n = 2 * s.nv + s.na, nu = s.nu;
  const Shared out(e, n * (n + nu)), x(e, e.state_size());
  given.copy_state(e, x.at);
  t.x = {x.at, 0};
  t.u = {given.u, 0};
  t.A = out.at;
  t.B = out.at + n * n * e.real_bytes();
  if (run_one(e, t)) return nb::none();
  return nb::make_tuple(out.array(0, {n, n}), out.array(n * n, {n, nu}));
}

}  // namespace

void bind_one_world(nb::class_<Engine>& c) {
  const auto none = [](const char* name) { return nb::arg(name).none(); };
  c.def("step_one", step_one, none("q"), none("v"), none("act"), none("u"), "return_status"_a)
      .def("linearize_one", linearize_one, none("q"), none("v"), none("act"), none("u"));
}

}  // namespace fb
