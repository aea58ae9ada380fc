// The pair functions of core/collision/pairs.hpp and their adjoints for the tests: scalars, lanes,
// tangents. A shape is 15 numbers: position (3), rotation (9, row major), size (3).
#pragma once
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>

#include <algorithm>
#include <cstddef>
#include <initializer_list>
#include <optional>
#include <utility>
#include <vector>

#include "core/collision/pairs.hpp"

namespace fb::ops {

namespace core = fb::FB_ISA;
namespace nb = nanobind;

using Table = nb::ndarray<const double, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
using Words = nb::ndarray<const int32_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Array = nb::ndarray<nb::numpy, double>;

inline constexpr int kShapeNumbers = 15, kTouchNumbers = 8, kBarNumbers = 18;
inline constexpr int kFeatureNumbers = 1 + core::kFeatureIds;

// a NumPy array that owns its numbers
inline Array make_array(std::vector<double> numbers, std::initializer_list<size_t> shape) {
  auto* kept = new std::vector<double>(std::move(numbers));
  nb::capsule owner(kept, [](void* p) noexcept { delete static_cast<std::vector<double>*>(p); });
  return Array(kept->data(), shape, owner);
}

// the shapes of a kind of pair
inline void shapes_of(int kind, ShapeType* types) {
#define FB_X(pair, a, b, slots, function) \
  if (kind == pair) {                     \
    types[0] = a;                         \
    types[1] = b;                         \
  }
  FB_PAIRS(FB_X)
#undef FB_X
}

// two shapes of one kind of pair in many worlds; the mesh is the same in all; hull: its topology
class ShapePairs {
 public:
  ShapePairs(int kind, Table a, Table b, Table vert, Words hull)
      : kind_(kind),
        shape_{std::move(a), std::move(b)},
        vert_(std::move(vert)),
        hull_(std::move(hull)) {
    if (kind < 0 || kind >= kPairKinds)
      throw nb::value_error("ShapePairs(): no such kind of pair.");
    require_shapes(shape_[0]);
    require_shapes(shape_[1]);
    shapes_of(kind, type_);
  }

  // (worlds, slots, 8): phi, n, p, on.  lanes: 1, 4 or 8 worlds in one number; single: in float32;
  // far: gap from which on a slot may be left out
  Array collide(int lanes, bool single, double far) const {
    return make_array(in_numbers(lanes, single, [&]<class T>(T) { return collide_in<T>(far); }),
                      {worlds(), slots(), size_t(kTouchNumbers)});
  }

  // (worlds, 8): gap, normal and point of the closest or deepest points, whether they are certain; for
  // pairs of the convex routine
  Array closest(bool single) const {
    return make_array(in_numbers(1, single,
                                 [&]<class T>(T) {
                                   if constexpr (core::kIsOneWorld<T>) return closest_in<T>();
                                   return std::vector<double>();
                                 }),
                      {worlds(), size_t(kTouchNumbers)});
  }

  // (worlds, slots, 3): the words of the features
  Array features(int lanes, bool single) const {
    return make_array(in_numbers(lanes, single, [&]<class T>(T) { return features_in<T>(); }),
                      {worlds(), slots(), size_t(kFeatureNumbers)});
  }

  // (worlds, slots, 7): the tangents of phi, n, p, given those of the shapes
  Array tangent(Table a_tan, Table b_tan) const {
    require_shapes(a_tan);
    require_shapes(b_tan);
    const Table* tans[2] = {&a_tan, &b_tan};
    std::vector<double> out;
    for (size_t w = 0; w < worlds(); ++w) {
      core::ContactPoint<D> touch[core::kMaxSlots];
      core::collide(kind_, dual_shape(0, w, *tans[0]), dual_shape(1, w, *tans[1]), D(kFar), touch);
      for (size_t j = 0; j < slots(); ++j) {
        const core::ContactPoint<D>& t = touch[j];
        for (const D& x : {t.phi, t.n.x, t.n.y, t.n.z, t.p.x, t.p.y, t.p.z}) out.push_back(x.d);
      }
    }
    return make_array(std::move(out), {worlds(), slots(), size_t(7)});
  }

  // point_bar (worlds, 7) of one slot -> (worlds, 18), added to bars that are all `start`; features
  // (worlds, 3): those of the slot, or those found here
  Array adjoint(int slot, Table point_bar, std::optional<Table> features, int lanes, bool single,
                double start) const {
    require_bar(slot, point_bar);
    const Table* given = features ? &*features : nullptr;
    return make_array(
        in_numbers(lanes, single,
                   [&]<class T>(T) { return adjoint_in<T>(slot, point_bar, given, start); }),
        {worlds(), size_t(kBarNumbers)});
  }

  // the tangents of the 18 numbers, for shapes that move and a cotangent that does not
  Array adjoint_tangent(int slot, Table a_tan, Table b_tan, Table point_bar) const {
    require_shapes(a_tan);
    require_shapes(b_tan);
    require_bar(slot, point_bar);
    std::vector<double> out;
    for (size_t w = 0; w < worlds(); ++w) {
      const double* t = &point_bar(w, 0);
      const core::Shape<D> a = dual_shape(0, w, a_tan), b = dual_shape(1, w, b_tan);
      core::ContactPoint<D> found[core::kMaxSlots];
      core::collide(kind_, a, b, D(kFar), found);
      core::ShapeBar<D> bars[2] = {start_bar<D>(0), start_bar<D>(0)};
      core::SlotBars<D> touch;
      touch.count = 0;
      core::add_slot<D>(touch, slot, found[slot].feature,
                        {t[0], {t[1], t[2], t[3]}, {t[4], t[5], t[6]}});
      core::collide_adjoint<D>(kind_, a, b, touch, bars[0], bars[1]);
      D bar[kBarNumbers];
      read_bars(bars, bar);
      for (const D& x : bar) out.push_back(x.d);
    }
    return make_array(std::move(out), {worlds(), size_t(kBarNumbers)});
  }

  size_t slots() const { return size_t(core::pair_slots(kind_)); }

 private:
  using D = core::Dual<double>;
  static constexpr double kFar = 1e9;

  size_t worlds() const { return shape_[0].shape(0); }

  template <class F>
  static std::vector<double> in_numbers(int lanes, bool single, F run) {
    if (single) return lanes == 1 ? run(float()) : run(core::Lane<float, 8>());
    return lanes == 1   ? run(double())
           : lanes == 4 ? run(core::Lane<double, 4>())
                        : run(core::Lane<double, 8>());
  }

  void require_shapes(const Table& table) const {
    if (table.shape(0) != worlds() || table.shape(1) != kShapeNumbers)
      throw nb::value_error("ShapePairs(): shapes must be two tables of (worlds, 15).");
  }
  void require_bar(int slot, const Table& point_bar) const {
    if (slot < 0 || slot >= int(slots())) throw nb::value_error("adjoint(): no such slot.");
    if (point_bar.shape(0) != worlds() || point_bar.shape(1) != 7)
      throw nb::value_error("adjoint(): point_bar must be a table of (worlds, 7).");
  }

  template <class T>
  core::Shape<T> make_shape(int which, const T* x, const core::Real<T>* vert) const {
    // the first five rows of a mesh are its own numbers
    const size_t rows = vert_.shape(0);
    const int nvert = rows == 0 ? 0 : int(rows) - core::kMeshFrame / 3;
    const int32_t* hull = hull_.shape(0) == 0 ? nullptr : hull_.data();
    core::Shape<T> s{type_[which], {x[0], x[1], x[2]}, {}, {x[12], x[13], x[14]}, vert, nvert,
                     hull};
    for (int e = 0; e < 9; ++e) s.R.a[e] = x[3 + e];
    return s;
  }
  core::Shape<D> dual_shape(int which, size_t world, const Table& tan) const {
    D x[kShapeNumbers];
    for (int e = 0; e < kShapeNumbers; ++e) x[e] = {shape_[which](world, e), tan(world, e)};
    return make_shape<D>(which, x, vert_.data());
  }

  // numbers of worlds first .. first + W - 1, the last world repeated beyond the end
  template <class T>
  void load(const Table& table, size_t first, int numbers, T* x) const {
    for (int e = 0; e < numbers; ++e)
      for (int k = 0; k < core::kLanes<T>; ++k) {
        const size_t world = std::min(first + size_t(k), worlds() - 1);
        core::set_lane(x[e], k, core::Real<T>(table(world, e)));
      }
  }
  template <class T>
  core::Shape<T> load_shape(int which, size_t first, const std::vector<core::Real<T>>& hull) const {
    T x[kShapeNumbers];
    load(shape_[which], first, kShapeNumbers, x);
    return make_shape<T>(which, x, hull.data());
  }
  template <class T>
  std::vector<core::Real<T>> hull() const {
    return {vert_.data(), vert_.data() + vert_.size()};
  }

  template <class T>
  std::vector<double> collide_in(double far) const {
    const auto vert = hull<T>();
    std::vector<double> out(worlds() * slots() * kTouchNumbers);
    core::ContactPoint<T> touch[core::kMaxSlots];
    for (size_t first = 0; first < worlds(); first += core::kLanes<T>) {
      core::collide(kind_, load_shape<T>(0, first, vert), load_shape<T>(1, first, vert),
                    T(core::Real<T>(far)), touch);
      for (size_t k = 0; k < size_t(core::kLanes<T>) && first + k < worlds(); ++k)
        for (size_t j = 0; j < slots(); ++j) {
          const core::ContactPoint<T>& t = touch[j];
          const T numbers[7] = {t.phi, t.n.x, t.n.y, t.n.z, t.p.x, t.p.y, t.p.z};
          double* row = &out[((first + k) * slots() + j) * kTouchNumbers];
          for (int e = 0; e < 7; ++e) row[e] = double(core::lane(numbers[e], int(k)));
          row[7] = core::mask_lane(t.active, int(k)) ? 1.0 : 0.0;
        }
    }
    return out;
  }

  template <class T>
  std::vector<double> closest_in() const {
    const auto vert = hull<T>();
    std::vector<double> out;
    for (size_t w = 0; w < worlds(); ++w) {
      const auto shapes = core::convex_shapes(load_shape<T>(0, w, vert), load_shape<T>(1, w, vert));
      const core::Closest<T> found = core::closest_contact(shapes, T(kFar));
      const core::ConvexSlot<T>& slot = found.slot;
      const core::ContactPoint<T> t =
          core::slot_point(shapes, slot.record, slot.state, load_shape<T>(0, w, vert).p);
      for (const T x : {t.phi, t.n.x, t.n.y, t.n.z, t.p.x, t.p.y, t.p.z, T(found.sure)})
        out.push_back(double(x));
    }
    return out;
  }

  template <class T>
  std::vector<double> features_in() const {
    const auto vert = hull<T>();
    std::vector<double> out;
    for (size_t first = 0; first < worlds(); first += core::kLanes<T>) {
      core::ContactPoint<T> touch[core::kMaxSlots];
      core::collide(kind_, load_shape<T>(0, first, vert), load_shape<T>(1, first, vert),
                    T(core::Real<T>(kFar)), touch);
      for (int k = 0; k < core::kLanes<T> && first + size_t(k) < worlds(); ++k)
        for (size_t j = 0; j < slots(); ++j) {
          const core::Feature<T>& f = touch[j].feature;
          out.push_back(core::bits_at(f.kind, k));
          for (const auto& id : f.id) out.push_back(core::bits_at(id, k));
        }
    }
    return out;
  }
  template <class T>
  core::Feature<T> load_feature(const Table& table, size_t first) const {
    core::Feature<T> f = core::no_feature<T>();
    for (int k = 0; k < core::kLanes<T>; ++k) {
      const double* x = &table(std::min(first + size_t(k), worlds() - 1), 0);
      core::set_bits(f.kind, k, uint32_t(x[0]));
      for (int i = 0; i < core::kFeatureIds; ++i) core::set_bits(f.id[i], k, uint32_t(x[1 + i]));
    }
    return f;
  }

  template <class T>
  std::vector<double> adjoint_in(int slot, const Table& point_bar, const Table* features,
                                 double start) const {
    const auto vert = hull<T>();
    std::vector<double> out(worlds() * kBarNumbers);
    for (size_t first = 0; first < worlds(); first += core::kLanes<T>) {
      const core::Shape<T> a = load_shape<T>(0, first, vert), b = load_shape<T>(1, first, vert);
      core::ContactPoint<T> found[core::kMaxSlots];
      if (features)
        found[slot].feature = load_feature<T>(*features, first);
      else
        core::collide(kind_, a, b, T(core::Real<T>(kFar)), found);
      T t[7], x[kBarNumbers];
      load(point_bar, first, 7, t);
      core::ShapeBar<T> bars[2] = {start_bar<T>(start), start_bar<T>(-start)};
      core::SlotBars<T> touch;
      touch.count = 0;
      core::add_slot<T>(touch, slot, found[slot].feature,
                        {t[0], {t[1], t[2], t[3]}, {t[4], t[5], t[6]}});
      core::collide_adjoint(kind_, a, b, touch, bars[0], bars[1]);
      read_bars(bars, x);
      for (size_t k = 0; k < size_t(core::kLanes<T>) && first + k < worlds(); ++k)
        for (int e = 0; e < kBarNumbers; ++e)
          out[(first + k) * kBarNumbers + e] = double(core::lane(x[e], int(k)));
    }
    return out;
  }

  // a bar whose numbers are multiples of `start`, all different
  template <class T>
  static core::ShapeBar<T> start_bar(double start) {
    using R = core::Real<T>;
    const core::Vec3<T> x{T(R(start)), T(R(start) * 2), T(R(start) * 3)};
    return {{x, x * R(10)}, x * R(100)};
  }
  // the 18 numbers of two bars: pose (6) and size (3) of A, then of B
  template <class T>
  static void read_bars(const core::ShapeBar<T>* bars, T* x) {
    for (int s = 0; s < 2; ++s)
      for (const core::Vec3<T>& part : {bars[s].pose.ang, bars[s].pose.lin, bars[s].size}) {
        *x++ = part.x;
        *x++ = part.y;
        *x++ = part.z;
      }
  }

  int kind_;
  ShapeType type_[2];
  Table shape_[2], vert_;
  Words hull_;
};

}  // namespace fb::ops

inline void register_collision_ops(nanobind::module_& m) {
  using namespace nanobind::literals;
  using fb::ops::ShapePairs, fb::ops::Table, fb::ops::Words;
  nanobind::class_<ShapePairs>(m, "ShapePairs", "Two shapes of one kind of pair in many worlds.")
      .def(nanobind::init<int, Table, Table, Table, Words>(), "kind"_a, "a"_a, "b"_a, "vert"_a,
           "hull"_a)
      .def("collide", &ShapePairs::collide, "lanes"_a = 1, "single"_a = false, "far"_a = 1e9)
      .def("closest", &ShapePairs::closest, "single"_a = false)
      .def("tangent", &ShapePairs::tangent, "a_tan"_a, "b_tan"_a)
      .def("features", &ShapePairs::features, "lanes"_a = 1, "single"_a = false)
      .def("adjoint", &ShapePairs::adjoint, "slot"_a, "point_bar"_a,
           "features"_a = nanobind::none(), "lanes"_a = 1, "single"_a = false, "start"_a = 0.0)
      .def("adjoint_tangent", &ShapePairs::adjoint_tangent, "slot"_a, "a_tan"_a, "b_tan"_a,
           "point_bar"_a);
}
