// The op table: a name, sizes, and the same template run in every number type.
#pragma once
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "core/dynamics/outputs.hpp"
#include "core/number/dual.hpp"
#include "core/number/lane.hpp"
#include "core/step.hpp"

namespace fb::ops {

namespace core = fb::FB_ISA;
using Numbers = std::vector<double>;

struct Op {
  std::string adjoint_of;  // the core functions whose adjoints this op checks, separated by spaces
  size_t inputs, outputs;
  std::function<Numbers(const Numbers&)> forward, forward_float, forward_lanes;
  std::function<Numbers(const Numbers&, const Numbers&)> tangent, adjoint_float, adjoint_lanes;
  std::function<Numbers(const Numbers&, const Numbers&, const Numbers&)> adjoint;
};
using OpTable = std::map<std::string, Op>;

inline constexpr int kOpLanes = 4;

template <class T>
std::vector<T> convert(const Numbers& x) {
  std::vector<T> y(x.size());
  for (size_t i = 0; i < x.size(); ++i) y[i] = T(core::Real<T>(x[i]));
  return y;
}
template <class T>
Numbers widen(const std::vector<T>& x) {
  return {x.begin(), x.end()};
}

// one vector in each lane, and back
using OpLane = core::Lane<double, kOpLanes>;
inline std::vector<OpLane> into_lanes(const Numbers& x, size_t n) {
  std::vector<OpLane> y(n);
  for (int k = 0; k < kOpLanes; ++k)
    for (size_t i = 0; i < n; ++i) core::set_lane(y[i], k, x[k * n + i]);
  return y;
}
inline Numbers from_lanes(const std::vector<OpLane>& x) {
  Numbers y(kOpLanes * x.size());
  for (int k = 0; k < kOpLanes; ++k)
    for (size_t i = 0; i < x.size(); ++i) y[k * x.size() + i] = core::lane(x[i], k);
  return y;
}

// F offers forward<T>(x, y) and adjoint<T>(x, y_bar, x_bar), the latter adding to x_bar
template <class F>
Op make_op(F f, std::string adjoint_of, size_t inputs, size_t outputs) {
  Op op{adjoint_of, inputs, outputs, {}, {}, {}, {}, {}, {}, {}};
  op.forward = [=](const Numbers& x) {
    Numbers y(outputs);
    f.template forward<double>(x.data(), y.data());
    return y;
  };
  op.forward_float = [=](const Numbers& x) {
    std::vector<float> y(outputs);
    f.template forward<float>(convert<float>(x).data(), y.data());
    return widen(y);
  };
  op.forward_lanes = [=](const Numbers& x) {
    std::vector<OpLane> out(outputs);
    f.template forward<OpLane>(into_lanes(x, inputs).data(), out.data());
    return from_lanes(out);
  };
  op.tangent = [=](const Numbers& x, const Numbers& x_tan) {
    using D = core::Dual<double>;
    std::vector<D> in(inputs), out(outputs);
    for (size_t i = 0; i < inputs; ++i) in[i] = D(x[i], x_tan[i]);
    f.template forward<D>(in.data(), out.data());
    Numbers y(outputs);
    for (size_t i = 0; i < outputs; ++i) y[i] = out[i].d;
    return y;
  };
  op.adjoint = [=](const Numbers& x, const Numbers& y_bar, const Numbers& x_bar) {
    Numbers bar = x_bar;
    f.template adjoint<double>(x.data(), y_bar.data(), bar.data());
    return bar;
  };
  op.adjoint_lanes = [=](const Numbers& x, const Numbers& y_bar) {
    std::vector<OpLane> bar(inputs, OpLane(0));
    f.template adjoint<OpLane>(into_lanes(x, inputs).data(), into_lanes(y_bar, outputs).data(),
                               bar.data());
    return from_lanes(bar);
  };
  op.adjoint_float = [=](const Numbers& x, const Numbers& y_bar) {
    std::vector<float> bar(inputs, 0.0f);
    f.template adjoint<float>(convert<float>(x).data(), convert<float>(y_bar).data(), bar.data());
    return widen(bar);
  };
  return op;
}

}  // namespace fb::ops
