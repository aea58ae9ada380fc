// What each stage of a step and of its adjoint costs: `main SCENE REPEATS` takes the steps of a
// scene REPEATS times and prints as JSON what each repeat spent by stage.
// FB_METER selects what is measured: 0 ticks of the processor's clock, 1 floating-point operations,
// 2 nothing; callgrind watches from outside.
#include "bench/profiling/stage.hpp"
// the stages must be known before the core is read
#include "bench/autodiff/scene.hpp"
#include "bench/profiling/counted.hpp"
#include "engine/kernel.hpp"
#include "engine/world_block.hpp"

namespace fb::profiling {

namespace core = fb::FB_ISA;
#if FB_METER == 1
uint64_t meter() { return core::operations; }
#endif

namespace {

using core::R;
using core::W;
#if FB_WIDTH == 1
using T = R;
#else
using T = core::Lane<R, W>;
#endif
#if FB_METER == 1
using S = core::Counted<T>;
#else
using S = T;
#endif

// a scene's numbers in the machine number of this program, and its block of worlds
struct Job {
  autodiff::Scene scene;
  std::vector<R> theta, vert, derived;
  std::vector<char> buffer;
  core::WorldBlock<S, R> b;
  int groups;

  explicit Job(const char* path)
      : scene(path),
        theta(scene.theta.begin(), scene.theta.end()),
        vert(scene.vert.begin(), scene.vert.end()),
        derived(scene.derived.begin(), scene.derived.end()),
        groups(int(scene.q.size()) / scene.s.nq / W) {
    buffer.assign(b.carve_all(scene.s, nullptr) + 64, char(0));
    const WorldsTask task{scene.s,     scene.options, theta.data(), derived.data(),
                          vert.data(), false,         groups * W};
    char* const end = buffer.data() + 64;
    b.open(task, 0, end - reinterpret_cast<uintptr_t>(end) % 64, false);
  }
  // W rows in a row are the lanes of one group
  void load(int group, const std::vector<double>& from, int n, S* to) const {
    for (int i = 0; i < n; ++i)
      for (int k = 0; k < W; ++k)
        core::set_lane(to[i], k, R(from[size_t(group * W + k) * size_t(n) + size_t(i)]));
  }
  void open(int group) {
    const Layout& s = scene.s;
    load(group, scene.q, s.nq, b.x);
    load(group, scene.v, s.nv, b.x + s.nq);
    load(group, scene.u, s.nu, b.u);
    for (int i = 0; i < core::state_size(s); ++i) b.x1_bar[i] = S(1);
  }
};

void print_spent(const char* name, const char* end) {
  std::printf("\"%s\": [", name);
  for (int k = 0; k < kStages; ++k)
    std::printf("%s%llu", k ? ", " : "", static_cast<unsigned long long>(spent[k]));
  std::printf("]%s", end);
}

// every group once; what lies between steps belongs to no stage
template <class F>
void measure(Job& job, F&& work) {
  turned();
  for (uint64_t& x : spent) x = 0;
  for (int g = 0; g < job.groups; ++g) {
    FB_STAGE(other);
    job.open(g);
    work(job.b);
  }
  FB_STAGE(other);
  spent[other] = 0;
}

// floating-point operations in a tick of chains of fused products: the most of some tries
#if FB_METER == 0
double peak() {
  constexpr int kChains = 16, kLength = 20000;
  double best = 0.0;
  for (int turn = 0; turn < 20; ++turn) {
    T x[kChains];
    for (int i = 0; i < kChains; ++i) x[i] = T(R(1) + R(i));
    T a = T(R(0.999)), c = T(R(1e-3));
    asm volatile("" : "+m"(a), "+m"(c));
    const uint64_t start = meter();
    for (int k = 0; k < kLength; ++k)
#pragma GCC unroll 16
      for (int i = 0; i < kChains; ++i) x[i] = core::mul_add(x[i], a, c);
    const double ticks = double(meter() - start);
    for (int i = 0; i < kChains; ++i) asm volatile("" : : "m"(x[i]));
    const double rate = 2.0 * W * kChains * kLength / ticks;
    best = rate > best ? rate : best;
  }
  return best;
}
double ticks_per_second() {
  const autodiff::Clock clock;
  const uint64_t start = meter();
  while (clock.elapsed()[0] < 0.05) {
  }
  return double(meter() - start) / clock.elapsed()[0];
}
#else
double peak() { return 0.0; }
double ticks_per_second() { return 0.0; }
#endif

}  // namespace
}  // namespace fb::profiling

int main(int count, char** arguments) {
  using namespace fb::profiling;
  if (count != 3) {
    std::fprintf(stderr, "profiling: got %d arguments, expected SCENE and REPEATS\n", count - 1);
    return 2;
  }
  Job job(arguments[1]);
  const int repeats = std::atoi(arguments[2]);
  std::printf("{\"width\": %d, \"steps\": %d, \"ticks_per_second\": %.17g, \"peak\": %.17g,\n", W,
              job.groups * W, ticks_per_second(), peak());
  std::printf("\"stages\": [");
  for (int k = 0; k < kStages; ++k) std::printf("%s\"%s\"", k ? ", " : "", kStageNames[k]);
  std::printf("],\n\"repeats\": [\n");
  for (int k = 0; k < repeats; ++k) {
    std::printf(k ? ",{" : "{");
    measure(job, [](auto& b) { core::step_block(b); });
    print_spent("forward", ", ");
    measure(job, [](auto& b) { core::adjoint_block(b); });
    print_spent("backward", "}\n");
  }
  std::printf("], \"peak_after\": %.17g}\n", peak());
  return 0;
}
