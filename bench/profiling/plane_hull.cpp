// How long a hull on a plane takes for many placements, and MuJoCo's routine for the same ones, called
// from the same program.  Loaded by bench/plane_hull.py.
#include <mujoco/mujoco.h>

#include <chrono>
#include <cstring>
#include <vector>

#include "core/collision/plane.hpp"

namespace {

namespace core = fb::FB_ISA;
using Clock = std::chrono::steady_clock;

double since(Clock::time_point start) {
  return std::chrono::duration<double, std::nano>(Clock::now() - start).count();
}

// hulls of nvert vertices over the plane z = 0, 12 numbers each: position and rotation; hull: its
// topology, nothing for a scan
struct Hulls {
  int worlds, nvert;
  const double *pose, *vert;
  const int32_t* hull;
};

template <class T>
double time_in(const Hulls* x, double far, double* sum) {
  using R = core::Real<T>;
  constexpr int kWorlds = core::kLanes<T>;
  const std::vector<R> vert(x->vert, x->vert + core::kMeshFrame + 3 * x->nvert);
  const T o(0), i(1);
  const core::Shape<T> plane{
      fb::kPlane, {o, o, o}, {{i, o, o, o, i, o, o, o, i}}, {o, o, o}, nullptr, 0, nullptr};
  std::vector<core::Shape<T>> shapes;
  for (int w = 0; w + kWorlds <= x->worlds; w += kWorlds) {
    core::Shape<T> s{fb::kMesh, {o, o, o}, {}, {o, o, o}, vert.data(), x->nvert, x->hull};
    T* numbers[12] = {&s.p.x, &s.p.y, &s.p.z};
    for (int e = 0; e < 9; ++e) numbers[3 + e] = &s.R.a[e];
    for (int e = 0; e < 12; ++e)
      for (int k = 0; k < kWorlds; ++k)
        core::write_world(*numbers[e], k, R(x->pose[12 * (w + k) + e]));
    shapes.push_back(s);
  }
  core::ContactPoint<T> out[core::kHullPoints];
  const auto start = Clock::now();
  for (const core::Shape<T>& s : shapes) {
    core::plane_mesh(plane, s, T(R(far)), out);
    for (const auto& t : out) *sum += core::bits_at(t.feature.id[0], 0);
  }
  return since(start) / double(shapes.size() * kWorlds);
}

}  // namespace

extern "C" {

// nanoseconds a placement, with so many worlds in a number; sum: of the vertices found
double time_ours(const Hulls* x, int lanes, int single, double far, double* sum) {
  if (single)
    return lanes == 1 ? time_in<float>(x, far, sum) : time_in<core::Lane<float, 8>>(x, far, sum);
  return lanes == 1 ? time_in<double>(x, far, sum) : time_in<core::Lane<double, 4>>(x, far, sum);
}

double time_mujoco(mjModel* m, mjData* d, const double* poses, int worlds, mjfCollision collide,
                   double margin, double* sum) {
  mjPreContact found[mjMAXCONPAIR];
  const auto start = Clock::now();
  for (int w = 0; w < worlds; ++w) {
    std::memcpy(d->geom_xpos + 3, poses + 12 * w, 3 * sizeof(double));
    std::memcpy(d->geom_xmat + 9, poses + 12 * w + 3, 9 * sizeof(double));
    *sum += collide(m, d, found, 0, 1, margin);
  }
  return since(start) / worlds;
}
}
