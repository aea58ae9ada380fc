// A model with one rollout to take, as bench/autodiff/build.py writes it, and what a run reports.
#pragma once
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <vector>

#include "bench/autodiff/number.hpp"
#include "core/number/dual.hpp"
#include "core/step.hpp"

namespace fb::autodiff {

namespace core = fb::FB_ISA;
using Numbers = std::vector<double>;

struct Scene {
  Layout s{};
  std::vector<int32_t> tables;
  Numbers theta, derived, vert, q, v, u;
  Options<double> options;
  int steps = 0;

  explicit Scene(const char* path) {
    std::FILE* file = std::fopen(path, "rb");
    if (!file) fail(path);
    const std::vector<int32_t> sizes = read<int32_t>(file, path);
    tables = read<int32_t>(file, path);
    s = core::bind_layout(core::read_sizes(sizes.data()), tables.data());
    theta = read<double>(file, path);
    vert = read<double>(file, path);
    vert.resize(vert.size() + 3);
    const Numbers o = read<double>(file, path);
    const double* next = o.data();
#define FB_X(name, ...) options.name = decltype(options.name)(*next++);
    FB_OPTIONS(FB_X)
#undef FB_X
    s.soft = options.contact == kSoftContact;
    for (Numbers* x : {&q, &v, &u}) *x = read<double>(file, path);
    steps = int(u.size()) / (s.nu > 0 ? s.nu : 1);
    std::fclose(file);
    derived.resize(core::derived_size(s));
    core::Theta<const double> view;
    core::bind<const double>(s, theta.data(), view);
    core::Derived<double> out;
    core::bind<double>(s, derived.data(), out);
    core::derive(s, view, vert.data(), out);
  }

  template <class T>
  core::Model<T, double> model() const {
    core::Model<T, double> m;
    m.s = s;
    // many rows would be solved in plain numbers, which no library sees
    m.s.dense_only = true;
    core::bind<const double>(s, theta.data(), m.theta);
    core::bind<const double>(s, derived.data(), m.derived);
    m.vert = vert.data();
    return m;
  }

 private:
  [[noreturn]] static void fail(const char* path) {
    std::fprintf(stderr, "autodiff: could not read %s, expected a scene by build.py\n", path);
    std::exit(2);
  }
  template <class X>
  static std::vector<X> read(std::FILE* file, const char* path) {
    int64_t n = 0;
    if (std::fread(&n, sizeof n, 1, file) != 1) fail(path);
    std::vector<X> x(static_cast<size_t>(n));
    if (n > 0 && std::fread(x.data(), sizeof(X), x.size(), file) != x.size()) fail(path);
    return x;
  }
};

// takes the steps one after another; x = (q, v) is replaced by the last state
template <class T>
struct Stepper {
  core::Model<T, double> m;
  std::vector<char> buffer;
  core::Work<T> w;
  std::vector<T> next;
  explicit Stepper(const Scene& scene) : m(scene.model<T>()), next(m.s.nq + m.s.nv) {
    // all bytes zero is a number without a tape in every library here
    buffer.assign(core::carve<T>(m.s, nullptr, w) + 64, char(0));
    char* base = buffer.data() + (64 - reinterpret_cast<uintptr_t>(buffer.data()) % 64) % 64;
    core::carve<T>(m.s, base, w);
  }
  void step(const Options<double>& o, std::vector<T>& x, const T* u) {
    core::step(m, o, x.data(), u, true, next.data(), w);
    x.swap(next);
  }
};

struct Clock {
  double wall = now(CLOCK_MONOTONIC), cpu = now(CLOCK_PROCESS_CPUTIME_ID);
  static double now(clockid_t id) {
    timespec t{};
    clock_gettime(id, &t);
    return double(t.tv_sec) + 1e-9 * double(t.tv_nsec);
  }
  std::vector<double> elapsed() const {
    return {now(CLOCK_MONOTONIC) - wall, now(CLOCK_PROCESS_CPUTIME_ID) - cpu};
  }
};

// the largest resident memory of this process so far, in kilobytes
inline long peak_kb() {
  char line[256];
  long kb = 0;
  if (std::FILE* file = std::fopen("/proc/self/status", "r")) {
    while (std::fgets(line, sizeof line, file))
      if (std::strncmp(line, "VmHWM:", 6) == 0) kb = std::atol(line + 6);
    std::fclose(file);
  }
  return kb;
}

inline void print_numbers(const char* name, const Numbers& x, const char* end) {
  std::printf("\"%s\": [", name);
  for (size_t i = 0; i < x.size(); ++i) std::printf("%s%.17g", i ? ", " : "", x[i]);
  std::printf("]%s", end);
}

}  // namespace fb::autodiff
