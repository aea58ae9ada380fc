// MuJoCo's impedance d(x) and the spring and damper (K, B) of a row's reference acceleration, from
// solimp and solref.  Proof: docs/derivations/soft.md.
#pragma once
#include "core/model/layout.hpp"
#include "core/number/dual.hpp"

namespace fb::FB_ISA {

// numbers of solimp and of solref
inline constexpr int kSolimp = 5, kSolref = 2;
// impedances are taken within these bounds; what is smaller than the last number counts as zero
inline constexpr double kLeastImpedance = 1e-4, kMostImpedance = 0.9999, kSoftLeast = 1e-15;

// (S.1)  d, and its derivatives by x and by the five numbers
template <class T>
struct Impedance {
  T d, by_x, by[kSolimp];
};
// u^p / m^(p - 1) with its derivatives by u, m and p; 0 <= u <= m
template <class T>
struct Sigmoid {
  T y, by_u, by_m, by_p;
};
template <class T>
FB_INLINE Sigmoid<T> sigmoid(T u, T m, T p) {
  const T one = T(1), ratio = u / m;
  const Mask<T> square = p == T(2), some = ratio > T(0);
  // ratio^(p - 1), at once where p is two and has no tangent
  T r = ratio;
  if (kTangent<T> || !all(square)) r = power(select(some, ratio, one), p - one);
  r = select(some, r, select(p > one, T(0), one));
  T log = T(0);
  if (any(some & (u < m))) log = select(some, logarithm(select(some, ratio, one)), T(0));
  const T y = r * u;
  return {y, p * r, (one - p) * r * ratio, y * log};
}
template <class T, class P>
FB_INLINE Impedance<T> impedance(const P* solimp, T x) {
  const T zero = T(0), one = T(1);
  const T lo = T(Real<T>(kLeastImpedance)), hi = T(Real<T>(kMostImpedance));
  const T raw[kSolimp] = {T(solimp[0]), T(solimp[1]), T(solimp[2]), T(solimp[3]), T(solimp[4])};
  const T d0 = clamp(raw[0], lo, hi), d1 = clamp(raw[1], lo, hi), mid = clamp(raw[3], lo, hi);
  const T width = max(raw[2], zero), p = max(raw[4], one);
  const Mask<T> flat = width <= T(Real<T>(kSoftLeast));
  const T w = select(flat, one, width), u = min(abs(x) / w, one), rise = d1 - d0;
  const Mask<T> over = !(abs(x) < w), low = u <= mid;
  // both halves are the same curve, the upper one turned about the middle
  const Sigmoid<T> s = sigmoid(select(low, u, one - u), select(low, mid, one - mid), p);
  const T y = select(low, s.y, one - s.y), by_p = select(low, s.by_p, -s.by_p);
  const Mask<T> inside = !(flat | over);
  Impedance<T> f;
  f.d = select(flat, (d0 + d1) * Real<T>(0.5), select(over, d1, mul_add(y, rise, d0)));
  f.by_x = select(inside, select(x < zero, -one, one) * rise * s.by_u / w, zero);
  const T half = T(Real<T>(0.5));
  f.by[0] = select(flat, half, select(over, zero, one - y));
  f.by[1] = select(flat, half, select(over, one, y));
  f.by[2] = select(inside, -(rise * s.by_u * u / w), zero);
  f.by[3] = select(inside, rise * s.by_m, zero);
  f.by[4] = select(inside & (p > one), rise * by_p, zero);
  // a number that is out of bounds has no derivative
  f.by[0] = select(d0 == raw[0], f.by[0], zero);
  f.by[1] = select(d1 == raw[1], f.by[1], zero);
  f.by[3] = select(mid == raw[3], f.by[3], zero);
  return f;
}

// (S.2)  stiffness K and damping B, with their derivatives by solref, by solimp[1] and by h
template <class T>
struct Spring {
  T K, B, K_by[kSolref], B_by[kSolref], K_by_d, B_by_d, K_by_h, B_by_h;
};
template <class T, class P>
FB_INLINE Spring<T> row_spring(const P* solref, const P* solimp, T h, bool safe) {
  const T zero = T(0), one = T(1), two = T(2), least = T(Real<T>(kSoftLeast));
  const T r0 = T(solref[0]), r1 = T(solref[1]), raw = T(solimp[1]);
  const T d = clamp(raw, T(Real<T>(kLeastImpedance)), T(Real<T>(kMostImpedance)));
  const Mask<T> own = ((r0 > zero) & (r1 > zero)) | ((r0 <= zero) & (r1 <= zero));
  const Mask<T> direct = own & (r0 <= zero), bound = d == raw;
  // numbers of different sign: the default instead
  const T given = select(own, r0, T(Real<T>(0.02))), z = select(own & (r1 > zero), r1, one);
  const Mask<T> slow = Mask<T>(safe) & (given < two * h);
  const T t = select(slow, two * h, select(direct, one, given));
  const T dt = d * t, dtz = dt * z, square = max(dtz * dtz, least), line = max(dt, least);
  const T K = one / square, B = two / line;
  const Mask<T> live = own & !slow;
  Spring<T> s;
  s.K = select(direct, -(r0 / (d * d)), K);
  s.B = select(direct, -(r1 / d), B);
  s.K_by[0] = select(direct, -(one / (d * d)), select(live, -(two * K / t), zero));
  s.K_by[1] = select(direct, zero, select(own, -(two * K / z), zero));
  s.B_by[0] = select(direct, zero, select(live, -(B / t), zero));
  s.B_by[1] = select(direct, -(one / d), zero);
  s.K_by_d = select(bound, -(two * s.K / d), zero);
  s.B_by_d = select(bound, -(s.B / d), zero);
  const Mask<T> by_step = slow & !direct;
  s.K_by_h = select(by_step, -(two * K / h), zero);
  s.B_by_h = select(by_step, -(B / h), zero);
  return s;
}

}  // namespace fb::FB_ISA
