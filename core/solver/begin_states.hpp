// What the velocities at which a step begins say of the states of its rows.
// Proof: docs/derivations/worlds.md.
#pragma once
#include "core/solver/problem.hpp"

namespace fb::FB_ISA {

// slip below this share of what the free motion changes is none
inline constexpr double kStill = 1e-3;
// Newton steps from these states, what the first may leave of the scale, and each other one of the residual
// before it
inline constexpr int kBeginSteps = 4;
inline constexpr double kBeginLeaves = 0.1, kStepLeaves = 0.3;

// a row: its velocity at the beginning and after the free motion, bounds, compliance, diagonal of A
template <class T>
struct BeginRow {
  T before, b, lo, hi, R, D;
};
// (V.13)  where a row is held, and at which bound: dry friction that slides, a contact or a limit that opens
template <class T>
FB_INLINE Mask<T> begins_held(const BeginRow<T>& x, T& at) {
  const T none(Real<T>(1e29));
  const Mask<T> low = abs(x.lo) < none, high = abs(x.hi) < none, both = low & high;
  const Mask<T> opens = x.before + x.b > T(0), closes = x.before + x.b < T(0);
  const Mask<T> below = low & ((both & (x.before > -(x.R * x.lo))) | ((!both) & opens));
  const Mask<T> above = high & ((both & (x.before < -(x.R * x.hi))) | ((!both) & closes));
  const Mask<T> fixed = !(x.lo < x.hi);
  at = select(below | fixed, x.lo, select(above, x.hi, T(0)));
  return below | above | fixed;
}
// the normal impulse of a contact that is pressed: what its compliance says, or what stops it by itself
template <class T>
FB_INLINE T begin_normal(const BeginRow<T>& x) {
  return max(-(x.before / x.R), (x.before - x.b) / x.D);
}
// where a rim of this radius, of rows with compliance R, is slid on.  still: slip that is none
template <class T>
FB_INLINE Mask<T> begins_to_slide(T slip, T still, T radius, T R) {
  return slip > max(radius * R, still);
}

}  // namespace fb::FB_ISA
