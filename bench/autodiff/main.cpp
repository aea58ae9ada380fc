// The core's rollout and its gradient by an autodiff library: `main SCENE SECONDS` runs it once for
// the peak of memory, again until SECONDS are spent, and prints the samples as JSON.
// FB_TOOL selects the library: 0 none (double), 1 CppAD, 2 Ceres jets.
#if FB_TOOL == 1
#include <cppad/cppad.hpp>
#elif FB_TOOL == 2
#include <ceres/jet.h>
#endif

#include "bench/autodiff/scene.hpp"

namespace fb::autodiff {

// one rollout: its last state, the gradient of the sum of its numbers, seconds (wall, processor)
struct Run {
  Numbers state, gradient, forward, backward;
  double recorded = 0.0;
};

#if FB_TOOL == 1
using Scalar = CppAD::AD<double>;
#elif FB_TOOL == 2
// as many derivatives as the state of the model has numbers
using Scalar = ceres::Jet<double, FB_STATE>;
#endif

}  // namespace fb::autodiff

#if FB_TOOL == 1
namespace fb::FB_ISA {
template <>
struct Library<autodiff::Scalar> {
  // the value of a number while its tape records
  static double value(const autodiff::Scalar& a) { return CppAD::Value(CppAD::Var2Par(a)); }
  static bool nothing(const autodiff::Scalar& a) { return CppAD::IdenticalZero(a); }
};
}  // namespace fb::FB_ISA
#elif FB_TOOL == 2
namespace fb::FB_ISA {
template <>
struct Library<autodiff::Scalar> {
  static double value(const autodiff::Scalar& a) { return a.a; }
  static bool nothing(const autodiff::Scalar& a) { return a.a == 0.0 && a.v.isZero(0.0); }
};
}  // namespace fb::FB_ISA
#endif

namespace fb::autodiff {

#if FB_TOOL == 0

// the values alone
inline Run run(const Scene& scene) {
  Run out;
  const Clock clock;
  Stepper<double> stepper(scene);
  std::vector<double> x(scene.q);
  x.insert(x.end(), scene.v.begin(), scene.v.end());
  for (int t = 0; t < scene.steps; ++t)
    stepper.step(scene.options, x, scene.u.data() + size_t(t) * scene.s.nu);
  out.forward = clock.elapsed();
  out.state = x;
  return out;
}

#elif FB_TOOL == 1

// one tape from initial state and all controls to the last state; comparisons are not recorded
inline Run run(const Scene& scene) {
  using T = core::Foreign<Scalar>;
  Run out;
  const size_t n = scene.q.size() + scene.v.size();
  Clock clock;
  std::vector<Scalar> in(n + scene.u.size());
  for (size_t i = 0; i < in.size(); ++i)
    in[i] = i < scene.q.size() ? scene.q[i] : i < n ? scene.v[i - scene.q.size()] : scene.u[i - n];
  CppAD::Independent(in, size_t(0), false);
  std::vector<T> x(in.begin(), in.begin() + long(n)), u(scene.s.nu);
  Stepper<T> stepper(scene);
  for (int t = 0; t < scene.steps; ++t) {
    for (int a = 0; a < scene.s.nu; ++a) u[a] = T(in[n + size_t(t) * scene.s.nu + a]);
    stepper.step(scene.options, x, u.data());
  }
  std::vector<Scalar> y(n);
  for (size_t i = 0; i < n; ++i) y[i] = x[i].a;
  // the values of all variables are computed once more, which the reverse sweep needs
  CppAD::ADFun<double> tape(in, y);
  out.forward = clock.elapsed();
  clock = Clock();
  out.gradient = tape.Reverse(1, Numbers(n, 1.0));
  out.backward = clock.elapsed();
  out.recorded = double(tape.size_var());
  for (const Scalar& a : y) out.state.push_back(CppAD::Value(a));
  return out;
}

#elif FB_TOOL == 2

// one derivative for each number of the initial state, carried along; controls are constants
inline Run run(const Scene& scene) {
  using T = core::Foreign<Scalar>;
  Run out;
  const size_t n = scene.q.size() + scene.v.size();
  Clock clock;
  std::vector<T> x(n), u(scene.s.nu);
  for (size_t i = 0; i < n; ++i)
    x[i] = T(Scalar(i < scene.q.size() ? scene.q[i] : scene.v[i - scene.q.size()], int(i)));
  Stepper<T> stepper(scene);
  for (int t = 0; t < scene.steps; ++t) {
    for (int a = 0; a < scene.s.nu; ++a) u[a] = T(scene.u[size_t(t) * scene.s.nu + a]);
    stepper.step(scene.options, x, u.data());
  }
  out.forward = clock.elapsed();
  clock = Clock();
  out.gradient.assign(n, 0.0);
  for (size_t i = 0; i < n; ++i)
    for (size_t j = 0; j < n; ++j) out.gradient[j] += x[i].a.v[long(j)];
  out.backward = clock.elapsed();
  for (const T& a : x) out.state.push_back(value(a));
  return out;
}

#endif

}  // namespace fb::autodiff

int main(int count, char** arguments) {
  using namespace fb::autodiff;
  if (count != 3) {
    std::fprintf(stderr, "autodiff: got %d arguments, expected SCENE and SECONDS\n", count - 1);
    return 2;
  }
  const Scene scene(arguments[1]);
  const double limit = std::atof(arguments[2]);
  const long idle = peak_kb();
  const Clock start;
  const Run first = run(scene);
  const long peak = peak_kb();
  std::vector<Run> runs{first};
  while (start.elapsed()[0] < limit && runs.size() < 200) {
    runs.push_back(run(scene));
    runs.back().gradient.clear();
  }
  std::printf("{\"idle_kb\": %ld, \"peak_kb\": %ld, \"recorded\": %.17g, ", idle, peak,
              first.recorded);
  Numbers forward, backward;
  // the first run warms up where there are others
  for (size_t k = runs.size() > 1 ? 1 : 0; k < runs.size(); ++k) {
    forward.insert(forward.end(), runs[k].forward.begin(), runs[k].forward.end());
    backward.insert(backward.end(), runs[k].backward.begin(), runs[k].backward.end());
  }
  print_numbers("forward", forward, ", ");
  print_numbers("backward", backward, ", ");
  print_numbers("state", first.state, ", ");
  print_numbers("gradient", first.gradient, "}\n");
  return 0;
}
