// The pair functions of core/collision/pairs.hpp and their adjoints for the tests: scalars, lanes,
// tangents. A shape is 15 numbers: position (3), rotation (9, row major), size (3).
#pragma once
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/pair.h>

#include <algorithm>
#include <cstddef>
#include <initializer_list>
#include <utility>
#include <vector>

#include "core/collision/pairs.hpp"

namespace fb::ops {

namespace core = fb::FB_ISA;
namespace nb = nanobind;

using Table = nb::ndarray<const double, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
using Array = nb::ndarray<nb::numpy, double>;

inline constexpr int kShapeNumbers = 15, kTouchNumbers = 8, kBarNumbers = 18;

// a NumPy array that owns its numbers
inline Array make_array(std::vector<double> numbers, std::initializer_list<size_t> shape) {
  auto* kept = new std::vector<double>(std::move(numbers));
  nb::capsule owner(kept, [](void* p) noexcept { delete static_cast<std::vector<double>*>(p); });
  return Array(kept->data(), shape, owner);
}

// rows of a table of vertices that are vertices: the first five are the mesh's own numbers
inline int hull_count(size_t rows) { return rows == 0 ? 0 : int(rows) - core::kMeshFrame / 3; }

template <class T>
core::Shape<T> make_shape(const T* x, const core::Real<T>* vert, int nvert) {
  core::Shape<T> s{{x[0], x[1], x[2]}, {}, {x[12], x[13], x[14]}, vert, nvert};
  for (int e = 0; e < 9; ++e) s.R.a[e] = x[3 + e];
  return s;
}

// worlds first .. first + W - 1 of a table of shapes, the last world repeated beyond the end
template <class T>
core::Shape<T> load_shapes(const Table& table, size_t first,
                           const std::vector<core::Real<T>>& vert) {
  T x[kShapeNumbers];
  for (int e = 0; e < kShapeNumbers; ++e)
    for (int k = 0; k < core::kLanes<T>; ++k) {
      const size_t world = std::min(first + size_t(k), table.shape(0) - 1);
      core::set_lane(x[e], k, core::Real<T>(table(world, e)));
    }
  return make_shape<T>(x, vert.data(), hull_count(vert.size() / 3));
}

// (worlds, slots, 8): phi, n, p, on
template <class T>
std::vector<double> collide_worlds(int kind, const Table& a, const Table& b, const Table& vert) {
  const size_t worlds = a.shape(0), slots = size_t(core::pair_slots(kind));
  const std::vector<core::Real<T>> hull(vert.data(), vert.data() + vert.size());
  std::vector<double> out(worlds * slots * kTouchNumbers);
  core::ContactPoint<T> touch[core::kMaxSlots];
  for (size_t first = 0; first < worlds; first += core::kLanes<T>) {
    core::collide(kind, load_shapes<T>(a, first, hull), load_shapes<T>(b, first, hull), touch);
    for (size_t k = 0; k < size_t(core::kLanes<T>) && first + k < worlds; ++k)
      for (size_t j = 0; j < slots; ++j) {
        const core::ContactPoint<T>& t = touch[j];
        const T numbers[7] = {t.phi, t.n.x, t.n.y, t.n.z, t.p.x, t.p.y, t.p.z};
        double* row = &out[((first + k) * slots + j) * kTouchNumbers];
        for (int e = 0; e < 7; ++e) row[e] = double(core::lane(numbers[e], int(k)));
        row[7] = core::mask_lane(t.active, int(k)) ? 1.0 : 0.0;
      }
  }
  return out;
}

inline void check_tables(int kind, const Table& a, const Table& b) {
  if (kind < 0 || kind >= core::kPairKinds)
    throw nb::value_error("collide(): no such kind of pair.");
  if (a.shape(0) != b.shape(0) || a.shape(1) != kShapeNumbers || b.shape(1) != kShapeNumbers)
    throw nb::value_error("collide(): shapes must be two tables of (worlds, 15).");
}

// lanes: 1, 4 or 8 worlds in one number; single: in float32
inline Array collide(int kind, Table a, Table b, Table vert, int lanes, bool single) {
  check_tables(kind, a, b);
  std::vector<double> out;
  if (single)
    out = lanes == 1 ? collide_worlds<float>(kind, a, b, vert)
                     : collide_worlds<core::Lane<float, 8>>(kind, a, b, vert);
  else
    out = lanes == 1   ? collide_worlds<double>(kind, a, b, vert)
          : lanes == 4 ? collide_worlds<core::Lane<double, 4>>(kind, a, b, vert)
                       : collide_worlds<core::Lane<double, 8>>(kind, a, b, vert);
  return make_array(std::move(out),
                    {a.shape(0), size_t(core::pair_slots(kind)), size_t(kTouchNumbers)});
}

// (worlds, slots, 7): the tangents of phi, n, p
inline Array collide_tangent(int kind, Table a, Table a_tan, Table b, Table b_tan, Table vert) {
  using D = core::Dual<double>;
  check_tables(kind, a, b);
  check_tables(kind, a_tan, b_tan);
  const size_t worlds = a.shape(0), slots = size_t(core::pair_slots(kind));
  std::vector<double> out(worlds * slots * 7);
  core::ContactPoint<D> touch[core::kMaxSlots];
  for (size_t w = 0; w < worlds; ++w) {
    D x[kShapeNumbers], y[kShapeNumbers];
    for (int e = 0; e < kShapeNumbers; ++e) {
      x[e] = {a(w, e), a_tan(w, e)};
      y[e] = {b(w, e), b_tan(w, e)};
    }
    const int nvert = hull_count(vert.shape(0));
    core::collide(kind, make_shape<D>(x, vert.data(), nvert), make_shape<D>(y, vert.data(), nvert),
                  touch);
    for (size_t j = 0; j < slots; ++j) {
      const core::ContactPoint<D>& t = touch[j];
      const D numbers[7] = {t.phi, t.n.x, t.n.y, t.n.z, t.p.x, t.p.y, t.p.z};
      for (int e = 0; e < 7; ++e) out[(w * slots + j) * 7 + e] = numbers[e].d;
    }
  }
  return make_array(std::move(out), {worlds, slots, size_t(7)});
}

// the cotangents of worlds first .. first + W - 1, the last world repeated beyond the end
template <class T>
core::ContactPointBar<T> load_touch_bars(const Table& table, size_t first) {
  T x[7];
  for (int e = 0; e < 7; ++e)
    for (int k = 0; k < core::kLanes<T>; ++k) {
      const size_t world = std::min(first + size_t(k), table.shape(0) - 1);
      core::set_lane(x[e], k, core::Real<T>(table(world, e)));
    }
  return {x[0], {x[1], x[2], x[3]}, {x[4], x[5], x[6]}};
}

// a bar whose numbers are multiples of `start`, all different
template <class T>
core::ShapeBar<T> shape_bar(core::Real<T> start) {
  using R = core::Real<T>;
  const core::Vec3<T> x{T(start), T(start * 2), T(start * 3)};
  return {{x, x * R(10)}, x * R(100)};
}

// the 18 numbers of two bars: pose (6) and size (3) of A, then of B
template <class T>
void read_shape_bars(const core::ShapeBar<T>* bars, T* x) {
  for (int s = 0; s < 2; ++s) {
    const core::Vec3<T> parts[3] = {bars[s].pose.ang, bars[s].pose.lin, bars[s].size};
    for (int e = 0; e < 3; ++e) {
      T* at = x + s * 9 + e * 3;
      at[0] = parts[e].x;
      at[1] = parts[e].y;
      at[2] = parts[e].z;
    }
  }
}

template <class T>
std::vector<double> adjoint_worlds(int kind, int slot, const Table& a, const Table& b,
                                   const Table& vert, const Table& point_bar, double start) {
  using R = core::Real<T>;
  const size_t worlds = a.shape(0);
  const std::vector<core::Real<T>> hull(vert.data(), vert.data() + vert.size());
  std::vector<double> out(worlds * kBarNumbers);
  for (size_t first = 0; first < worlds; first += core::kLanes<T>) {
    core::ShapeBar<T> bars[2] = {shape_bar<T>(R(start)), shape_bar<T>(R(start))};
    core::SlotBars<T> touch{};
    core::add_slot(touch, slot, load_touch_bars<T>(point_bar, first));
    core::collide_adjoint(kind, load_shapes<T>(a, first, hull), load_shapes<T>(b, first, hull),
                          touch, bars[0], bars[1]);
    T x[kBarNumbers];
    read_shape_bars(bars, x);
    for (size_t k = 0; k < size_t(core::kLanes<T>) && first + k < worlds; ++k)
      for (int e = 0; e < kBarNumbers; ++e)
        out[(first + k) * kBarNumbers + e] = double(core::lane(x[e], int(k)));
  }
  return out;
}

inline void check_touch_bar(int kind, int slot, const Table& a, const Table& point_bar) {
  if (slot < 0 || slot >= core::pair_slots(kind))
    throw nb::value_error("collide_adjoint(): no such slot.");
  if (point_bar.shape(0) != a.shape(0) || point_bar.shape(1) != 7)
    throw nb::value_error("collide_adjoint(): point_bar must be a table of (worlds, 7).");
}

// point_bar (worlds, 7) of one slot -> (worlds, 18), added to bars that are all `start`; lanes: 1
// or 4 worlds in one number (8 in float32)
inline Array collide_adjoint(int kind, int slot, Table a, Table b, Table vert, Table point_bar,
                             int lanes, bool single, double start) {
  check_tables(kind, a, b);
  check_touch_bar(kind, slot, a, point_bar);
  const auto run = [&]<class T>(T) {
    return adjoint_worlds<T>(kind, slot, a, b, vert, point_bar, start);
  };
  std::vector<double> out;
  if (single)
    out = lanes == 1 ? run(float()) : run(core::Lane<float, 8>());
  else
    out = lanes == 1 ? run(double()) : run(core::Lane<double, 4>());
  return make_array(std::move(out), {a.shape(0), size_t(kBarNumbers)});
}

// the tangents of the 18 numbers, for shapes that move and a cotangent that does not
inline Array collide_adjoint_tangent(int kind, int slot, std::pair<Table, Table> a,
                                     std::pair<Table, Table> b, Table vert, Table point_bar) {
  using D = core::Dual<double>;
  check_tables(kind, a.first, b.first);
  check_tables(kind, a.second, b.second);
  check_touch_bar(kind, slot, a.first, point_bar);
  const size_t worlds = a.first.shape(0);
  const int nvert = hull_count(vert.shape(0));
  std::vector<double> out(worlds * kBarNumbers);
  for (size_t w = 0; w < worlds; ++w) {
    D x[kShapeNumbers], y[kShapeNumbers], bar[kBarNumbers];
    for (int e = 0; e < kShapeNumbers; ++e) {
      x[e] = {a.first(w, e), a.second(w, e)};
      y[e] = {b.first(w, e), b.second(w, e)};
    }
    const double* t = &point_bar(w, 0);
    core::ShapeBar<D> bars[2] = {shape_bar<D>(0), shape_bar<D>(0)};
    core::SlotBars<D> touch{};
    core::add_slot<D>(touch, slot, {t[0], {t[1], t[2], t[3]}, {t[4], t[5], t[6]}});
    core::collide_adjoint<D>(kind, make_shape<D>(x, vert.data(), nvert),
                             make_shape<D>(y, vert.data(), nvert), touch, bars[0], bars[1]);
    read_shape_bars(bars, bar);
    for (int e = 0; e < kBarNumbers; ++e) out[w * kBarNumbers + e] = bar[e].d;
  }
  return make_array(std::move(out), {worlds, size_t(kBarNumbers)});
}

}  // namespace fb::ops

inline void register_collision_ops(nanobind::module_& m) {
  using namespace nanobind::literals;
  m.def("pair_slots", [](int kind) { return fb::ops::core::pair_slots(kind); }, "kind"_a);
  m.def("collide", &fb::ops::collide, "kind"_a, "a"_a, "b"_a, "vert"_a, "lanes"_a = 1,
        "single"_a = false);
  m.def("collide_tangent", &fb::ops::collide_tangent, "kind"_a, "a"_a, "a_tan"_a, "b"_a, "b_tan"_a,
        "vert"_a);
  m.def("collide_adjoint", &fb::ops::collide_adjoint, "kind"_a, "slot"_a, "a"_a, "b"_a, "vert"_a,
        "point_bar"_a, "lanes"_a = 1, "single"_a = false, "start"_a = 0.0);
  m.def("collide_adjoint_tangent", &fb::ops::collide_adjoint_tangent, "kind"_a, "slot"_a, "a"_a,
        "b"_a, "vert"_a, "point_bar"_a);
}
