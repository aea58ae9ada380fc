// Shapes, touches and the vocabulary of the pair functions.  Proof: docs/derivations/collision.md.
#pragma once
#include "dual.hpp"
#include "lane.hpp"
#include "spatial.hpp"

// a function that is compiled once per number type, so that every caller runs the same instructions
#ifdef __CUDACC__
#define FB_OUTLINE __host__ __device__ __noinline__
#else
#define FB_OUTLINE __attribute__((noinline))
#endif

namespace fb::FB_ISA {

// pose in common world-aligned axes; sizes [m] as in MuJoCo: sphere (radius), capsule and cylinder
// (radius, half length along local z), box (half extents), ellipsoid (semi-axes).  A plane is
// infinite, passes through p and has R's third column as normal.  A mesh is the hull of nvert
// vertices in its own frame, the same in every lane and never differentiated.
template <class T>
struct Shape {
  Vec3<T> p;
  Mat3<T> R;
  Vec3<T> size;
  const Real<T>* vert;
  int nvert;
};

// phi: gap [m], > 0 apart; n: unit normal from A to B; p: midway between the two surfaces; on:
// whether the slot carries a candidate.  The numbers of a slot that is off are finite and mean
// nothing.
template <class T>
struct Touch {
  T phi;
  Vec3<T> n, p;
  Mask<T> on;
};

// pose: wrench about the common origin, paired with the world twist that moves the whole shape
template <class T>
struct ShapeBar {
  Force<T> pose;
  Vec3<T> size;
};
template <class T>
struct TouchBar {
  T phi;
  Vec3<T> n, p;
};

enum PairKind : int {
  kPlaneSphere,
  kPlaneCapsule,
  kPlaneBox,
  kPlaneCylinder,
  kPlaneEllipsoid,
  kPlaneMesh,
  kSphereSphere,
  kSphereCapsule,
  kSphereBox,
  kCapsuleCapsule,
  kCapsuleBox,
  kBoxBox,
  kPairKinds
};

// the number of slots a pair function writes
FB_INLINE constexpr int pair_slots(int kind) {
  switch (kind) {
    case kPlaneBox:
    case kBoxBox:
      return 8;
    case kPlaneCylinder:
    case kPlaneMesh:
      return 4;
    case kCapsuleBox:
      return 3;
    case kPlaneCapsule:
    case kCapsuleCapsule:
      return 2;
    default:
      return 1;
  }
}
inline constexpr int kMaxSlots = 8;

// a vector whose squared length is below this has no direction
template <class T>
inline constexpr Real<T> kNoLength = Real<T>(1e-30);

template <class T>
struct Direction {
  Vec3<T> u;
  T length;
};

// unit vector along v, or the fallback where v has no direction (its length is then zero and has no
// derivative)
template <class T>
FB_INLINE Direction<T> direction(Vec3<T> v, Vec3<T> fallback) {
  const T square = dot(v, v);
  const Mask<T> known = square > T(kNoLength<T>);
  const T length = sqrt(select(known, square, T(0)));
  const T inverse = T(1) / select(known, length, T(1));
  return {select(known, v * inverse, fallback), length};
}

// the touch of a point at signed height phi along n over a surface, seen from the point: p lies
// half the gap back
template <class T>
FB_INLINE Touch<T> touch_of_point(Vec3<T> x, T phi, Vec3<T> n, Mask<T> on) {
  return {phi, n, x - n * (phi * Real<T>(0.5)), on};
}

// (C.8)  two balls: n = (cb - ca) / |cb - ca|, phi = |cb - ca| - ra - rb, p = ca + (ra + phi / 2) n
template <class T>
FB_INLINE Touch<T> touch_of_balls(Vec3<T> ca, T ra, Vec3<T> cb, T rb, Vec3<T> fallback) {
  const Direction<T> d = direction(cb - ca, fallback);
  const T phi = d.length - ra - rb;
  return {phi, d.u, ca + d.u * (ra + phi * Real<T>(0.5)), Mask<T>(true)};
}

}  // namespace fb::FB_ISA
