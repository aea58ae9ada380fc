// How long the convex routine takes for many placements of two shapes, and MuJoCo's routines for the
// same ones, called from the same program.  Loaded by bench/convex.py.
#include <mujoco/mujoco.h>

#include <chrono>
#include <cstring>

#include "core/collision/convex.hpp"

namespace {

namespace core = fb::FB_ISA;
using Clock = std::chrono::steady_clock;
using Distance = mjtNum (*)(const mjModel*, const mjData*, int, int, mjtNum, mjtNum*);

double since(Clock::time_point start) {
  return std::chrono::duration<double, std::nano>(Clock::now() - start).count();
}

}  // namespace

extern "C" {

// two types of shape, their placements (15 numbers each), the mesh with its topology
struct Placements {
  int type[2], worlds, rows, words;
  const double *a, *b, *vert;
  const int32_t* hull;
};

static core::Shape<double> shape_of(const Placements& x, int which, int w) {
  const double* s = (which == 0 ? x.a : x.b) + size_t(15) * size_t(w);
  const int nvert = x.rows == 0 ? 0 : x.rows - core::kMeshFrame / 3;
  core::Shape<double> out{
      fb::ShapeType(x.type[which]),   {s[0], s[1], s[2]}, {}, {s[12], s[13], s[14]}, x.vert, nvert,
      x.words == 0 ? nullptr : x.hull};
  for (int e = 0; e < 9; ++e) out.R.a[e] = s[3 + e];
  return out;
}

// nanoseconds a placement of the contact points of shapes nearer than `far`; sum: of all gaps
double time_ours(const Placements* x, double far, double* sum) {
  core::ContactPoint<double> out[core::kMostPoints];
  const auto start = Clock::now();
  for (int w = 0; w < x->worlds; ++w) {
    core::convex_one(shape_of(*x, 0, w), shape_of(*x, 1, w), far, out);
    for (const auto& t : out) *sum += t.active ? t.phi : 0.0;
  }
  return since(start) / x->worlds;
}

// the same of the bars of all slots
double time_adjoint(const Placements* x, double far, double* sum) {
  double spent = 0;
  core::ContactPoint<double> out[core::kMostPoints];
  for (int w = 0; w < x->worlds; ++w) {
    const auto a = shape_of(*x, 0, w), b = shape_of(*x, 1, w);
    core::convex_one(a, b, far, out);
    core::SlotBars<double> bars;
    bars.count = 0;
    for (int k = 0; k < core::kMostPoints; ++k)
      if (out[k].active)
        core::add_slot(bars, k, out[k].feature, {1.0, {1.0, 1.0, 1.0}, {1.0, 1.0, 1.0}});
    core::ShapeBar<double> a_bar{}, b_bar{};
    const auto start = Clock::now();
    core::convex_one_adjoint(a, b, bars, a_bar, b_bar);
    spent += since(start);
    *sum += a_bar.size.x + b_bar.size.x;
  }
  return spent / x->worlds;
}

// poses: position and rotation (12 numbers) of both geoms.  distance: its function, or nothing for
// the collision function of the pair
double time_mujoco(mjModel* m, mjData* d, const double* poses, int worlds, Distance distance,
                   mjfCollision collide, double margin, double* sum) {
  mjPreContact found[mjMAXCONPAIR];
  const auto start = Clock::now();
  for (int w = 0; w < worlds; ++w) {
    for (int g = 0; g < 2; ++g) {
      const double* p = poses + size_t(24 * w + 12 * g);
      std::memcpy(d->geom_xpos + 3 * g, p, 3 * sizeof(double));
      std::memcpy(d->geom_xmat + 9 * g, p + 3, 9 * sizeof(double));
    }
    if (distance != nullptr)
      *sum += distance(m, d, 0, 1, margin, nullptr);
    else
      *sum += collide(m, d, found, 0, 1, margin);
  }
  return since(start) / worlds;
}
}
