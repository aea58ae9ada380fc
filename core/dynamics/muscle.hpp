// Muscles: force over length and speed, passive force, and the dynamics of their activation.
// Proof: docs/derivations/muscle.md.
#pragma once
#include "core/workspace.hpp"

namespace fb::FB_ISA {

// what would be divided by counts as no less
inline constexpr double kMuscleLeast = 1e-15;
// numbers of a muscle's curves, in MuJoCo's order
enum MuscleNumber : int {
  kMuscleRange,
  kMuscleForce = 2,
  kMuscleScale,
  kMuscleShortest,
  kMuscleLongest,
  kMuscleSpeed,
  kMusclePassive,
  kMuscleLengthening,
  kMuscleNumbers
};
// the numbers of one muscle: its curves, the range of its length, the acceleration of a unit force
template <class T>
struct MuscleNumbers {
  T prm[kMuscleNumbers], range[2], acc0;
};
template <class T, class P>
FB_INLINE MuscleNumbers<T> muscle_numbers(const Model<T, P>& m, int k, const P* prm) {
  MuscleNumbers<T> n;
  for (int i = 0; i < kMuscleNumbers; ++i) n.prm[i] = T(prm[kMuscleNumbers * k + i]);
  for (int i = 0; i < 2; ++i) n.range[i] = T(m.theta.muscle_lengthrange[2 * k + i]);
  n.acc0 = T(m.theta.muscle_acc0[k]);
  return n;
}
// zeros to add to
template <class T>
FB_INLINE MuscleNumbers<T> no_muscle() {
  MuscleNumbers<T> n;
  for (T& x : n.prm) x = T(0);
  n.range[0] = n.range[1] = n.acc0 = T(0);
  return n;
}
// a number that is divided by, and what passes to it
template <class T>
FB_INLINE T at_least(T x) {
  return max(x, T(Real<T>(kMuscleLeast)));
}
template <class T>
FB_INLINE T passed(T x, T bar) {
  return select(x > T(Real<T>(kMuscleLeast)), bar, T(0));
}

// (Y.1)  length in units of the optimum, peak force, and the speed that counts as one
template <class T>
struct MuscleUnits {
  T force, rest, length, speed;  // rest: the optimal length; speed: one over the largest
};
template <class T>
FB_INLINE MuscleUnits<T> muscle_units(const MuscleNumbers<T>& n, T length) {
  MuscleUnits<T> u;
  const T strong = n.prm[kMuscleScale] / at_least(n.acc0);
  u.force = select(n.prm[kMuscleForce] < T(0), strong, n.prm[kMuscleForce]);
  u.rest = (n.range[1] - n.range[0]) / at_least(n.prm[1] - n.prm[0]);
  u.length = n.prm[0] + (length - n.range[0]) / at_least(u.rest);
  u.speed = T(1) / at_least(u.rest * n.prm[kMuscleSpeed]);
  return u;
}
// given their cotangents, add to length_bar and, unless null, to those of the numbers
template <class T>
FB_FN void muscle_units_adjoint(const MuscleNumbers<T>& n, T length, const MuscleUnits<T>& u,
                                MuscleUnits<T>& bar, T& length_bar, MuscleNumbers<T>* n_bar) {
  const T zero = T(0), rest = at_least(u.rest), wide = at_least(n.prm[1] - n.prm[0]);
  length_bar += bar.length / rest;
  if (!n_bar) return;
  const Mask<T> scaled = n.prm[kMuscleForce] < zero;
  const T by_scale = select(scaled, bar.force, zero) / at_least(n.acc0);
  n_bar->prm[kMuscleForce] += select(scaled, zero, bar.force);
  n_bar->prm[kMuscleScale] += by_scale;
  n_bar->acc0 -= passed(n.acc0, by_scale * u.force);
  const T product = u.rest * n.prm[kMuscleSpeed];
  const T product_bar = passed(product, -(bar.speed * u.speed * u.speed));
  n_bar->prm[kMuscleSpeed] += product_bar * u.rest;
  T rest_bar = bar.rest + product_bar * n.prm[kMuscleSpeed];
  rest_bar -= passed(u.rest, bar.length * (length - n.range[0]) / (rest * rest));
  const T span_bar = rest_bar / wide;
  const T wide_bar = passed(n.prm[1] - n.prm[0], -(span_bar * u.rest));
  n_bar->range[1] += span_bar;
  n_bar->range[0] -= span_bar + bar.length / rest;
  n_bar->prm[1] += wide_bar;
  n_bar->prm[0] += bar.length - wide_bar;
}

// (Y.2)  force over length: four parabolas, with the slope in the length and in the end of its side
template <class T>
struct LengthCurve {
  T value, slope, by_end;
  Mask<T> below;  // on the side of the shortest length
};
template <class T>
FB_INLINE LengthCurve<T> length_curve(const T* prm, T L) {
  using R = Real<T>;
  const T one = T(1), zero = T(0), half = T(R(0.5));
  const T shortest = prm[kMuscleShortest], longest = prm[kMuscleLongest];
  LengthCurve<T> c;
  c.below = L <= one;
  const T end = select(c.below, shortest, longest), side = select(c.below, one, -one);
  const T reach = (one - end) * side * half, width = at_least(reach);
  // the middle between the end and the optimum
  const Mask<T> outer = (L - (end + one) * half) * side <= zero;
  const T x = select(outer, L - end, one - L) * side / width;
  const Mask<T> inside = (shortest <= L) & (L <= longest);
  const T g = select(outer, x, -x);
  c.value = select(inside, select(outer, x * x * half, one - x * x * half), zero);
  c.slope = select(inside, x * side / width, zero);
  const T moved = select(outer, -side, zero) + passed(reach, x * side * half);
  c.by_end = select(inside, g * moved / width, zero);
  return c;
}
// (Y.3)  force over speed, its first two slopes, and theirs in the largest force of lengthening
template <class T>
struct SpeedCurve {
  T value, slope, bend, by_most, slope_by_most;
};
template <class T>
FB_INLINE SpeedCurve<T> speed_curve(T most, T V) {
  using R = Real<T>;
  const T one = T(1), zero = T(0), y = most - one, D = at_least(y), left = (y - V) / D;
  const Mask<T> shortens = (V > -one) & (V <= zero), lengthens = (V > zero) & (V <= y);
  const Mask<T> beyond = (V > zero) & (V > y);
  const T two = T(R(2)), rise = V + one;
  SpeedCurve<T> c;
  c.value = select(shortens, rise * rise, zero);
  c.value = select(lengthens, most - left * left * D, select(beyond, most, c.value));
  c.slope = select(shortens, rise * two, select(lengthens, left * two, zero));
  c.bend = select(shortens, two, select(lengthens, -(two / D), zero));
  c.by_most = select(lengthens, one - left * two + left * left, select(beyond, one, zero));
  c.slope_by_most = select(lengthens, (one - left) * two / D, zero);
  return c;
}

// (Y.4)  gain = -force FL FV, and its slope in the speed
template <class T>
struct MuscleGain {
  T gain, slope;
};
template <class T>
FB_FN MuscleGain<T> muscle_gain(const MuscleNumbers<T>& n, T length, T speed) {
  const MuscleUnits<T> u = muscle_units(n, length);
  const T peak = -(u.force * length_curve(n.prm, u.length).value);
  const SpeedCurve<T> v = speed_curve(n.prm[kMuscleLengthening], speed * u.speed);
  return {peak * v.value, peak * v.slope * u.speed};
}
// given the cotangents of both, add to length_bar, speed_bar and, unless null, to the numbers'
template <class T>
FB_FN void muscle_gain_adjoint(const MuscleNumbers<T>& n, T length, T speed,
                               const MuscleGain<T>& bar, T& length_bar, T& speed_bar,
                               MuscleNumbers<T>* n_bar) {
  const MuscleUnits<T> u = muscle_units(n, length);
  const LengthCurve<T> l = length_curve(n.prm, u.length);
  const SpeedCurve<T> v = speed_curve(n.prm[kMuscleLengthening], speed * u.speed);
  const T peak = -(u.force * l.value), steep = bar.slope * u.speed;
  const T peak_bar = bar.gain * v.value + steep * v.slope;
  const T V_bar = peak * (bar.gain * v.slope + steep * v.bend);
  const T curve_bar = -(peak_bar * u.force);
  MuscleUnits<T> u_bar{-(peak_bar * l.value), T(0), curve_bar * l.slope,
                       V_bar * speed + bar.slope * peak * v.slope};
  speed_bar += V_bar * u.speed;
  if (n_bar) {
    n_bar->prm[kMuscleLengthening] += peak * (bar.gain * v.by_most + steep * v.slope_by_most);
    n_bar->prm[kMuscleShortest] += select(l.below, curve_bar * l.by_end, T(0));
    n_bar->prm[kMuscleLongest] += select(l.below, T(0), curve_bar * l.by_end);
  }
  muscle_units_adjoint(n, length, u, u_bar, length_bar, n_bar);
}

// (Y.5)  passive force beyond the optimal length: a parabola, then a line; with its slopes in the
// length and in the longest
template <class T>
struct PassiveCurve {
  T value, slope, by_longest;
};
template <class T>
FB_INLINE PassiveCurve<T> passive_curve(T longest, T L) {
  using R = Real<T>;
  const T one = T(1), zero = T(0), half = T(R(0.5));
  const T reach = (longest - one) * half, width = at_least(reach), b = (longest + one) * half;
  const Mask<T> on = L > one, line = on & (L > b);
  const T x = select(line, L - b, L - one) / width, moved = passed(reach, x * half);
  PassiveCurve<T> c;
  c.value = select(line, half + x, select(on, x * x * half, zero));
  c.slope = select(line, one, select(on, x, zero)) / width;
  c.by_longest = -(select(line, half + moved, select(on, x * moved, zero)) / width);
  return c;
}
template <class T>
FB_FN T muscle_bias(const MuscleNumbers<T>& n, T length) {
  const MuscleUnits<T> u = muscle_units(n, length);
  return -(u.force * n.prm[kMusclePassive] * passive_curve(n.prm[kMuscleLongest], u.length).value);
}
// given its cotangent, add to length_bar and, unless null, to the numbers'
template <class T>
FB_FN void muscle_bias_adjoint(const MuscleNumbers<T>& n, T length, T bar, T& length_bar,
                               MuscleNumbers<T>* n_bar) {
  const MuscleUnits<T> u = muscle_units(n, length);
  const PassiveCurve<T> c = passive_curve(n.prm[kMuscleLongest], u.length);
  const T most = n.prm[kMusclePassive], curve_bar = -(bar * u.force * most);
  MuscleUnits<T> u_bar{-(bar * most * c.value), T(0), curve_bar * c.slope, T(0)};
  if (n_bar) {
    n_bar->prm[kMusclePassive] -= bar * u.force * c.value;
    n_bar->prm[kMuscleLongest] += curve_bar * c.by_longest;
  }
  muscle_units_adjoint(n, length, u, u_bar, length_bar, n_bar);
}

// (Y.6)  rate of the activation: (ctrl - act) / tau, with time constants for both ways, one of them
// or, within a width, a smooth step between them
template <class T>
struct MuscleRate {
  T rate, tau, excess, s, up, down, step, slope;  // slope: of the step
  Mask<T> smooth;
};
template <class T>
FB_INLINE MuscleRate<T> muscle_rate(const T* prm, T ctrl, T act) {
  using R = Real<T>;
  const T zero = T(0), one = T(1), least = T(R(kMuscleLeast));
  MuscleRate<T> r;
  r.s = clamp(act, zero, one) * R(1.5) + T(R(0.5));
  r.up = prm[0] * r.s;
  r.down = prm[1] / r.s;
  r.excess = clamp(ctrl, zero, one) - act;
  r.smooth = !(prm[2] < least);
  const T z = clamp(r.excess / select(r.smooth, prm[2], one) + T(R(0.5)), zero, one);
  const T polynomial = z * z * z * (z * R(3) * (z * R(2) - T(R(5))) + T(R(10)));
  r.step = select(r.smooth, polynomial, select(r.excess < zero, zero, one));
  r.slope = select(r.smooth, z * z * (one - z) * (one - z) * R(30), zero);
  r.tau = r.down + (r.up - r.down) * r.step;
  r.rate = r.excess / at_least(r.tau);
  return r;
}
// given its cotangent, add to ctrl_bar, act_bar and, unless null, to the three numbers'
template <class T>
FB_FN void muscle_rate_adjoint(const T* prm, T ctrl, T act, T bar, T& ctrl_bar, T& act_bar,
                               T* prm_bar) {
  using R = Real<T>;
  const T zero = T(0), one = T(1);
  const MuscleRate<T> r = muscle_rate(prm, ctrl, act);
  const T tau = at_least(r.tau), width = select(r.smooth, prm[2], one);
  const T tau_bar = passed(r.tau, -(bar * r.rate / tau));
  const T z_bar = tau_bar * (r.up - r.down) * r.slope;
  const T excess_bar = bar / tau + z_bar / width;
  const T up_bar = tau_bar * r.step, down_bar = tau_bar * (one - r.step);
  const T s_bar = up_bar * prm[0] - down_bar * r.down / r.s;
  ctrl_bar += select(clamp(ctrl, zero, one) == ctrl, excess_bar, zero);
  act_bar += select(clamp(act, zero, one) == act, s_bar * R(1.5), zero) - excess_bar;
  if (!prm_bar) return;
  prm_bar[0] += up_bar * r.s;
  prm_bar[1] += down_bar / r.s;
  prm_bar[2] -= z_bar * r.excess / (width * width);
}

}  // namespace fb::FB_ISA
