// Number types of the core: what every T must offer, for plain double and float.
// T is double | float | Lane<R, W> (lane.hpp) | Dual<S> (dual.hpp).  All names live in one
// namespace per instruction set, so that no inline helper built for one instruction set is ever
// linked into the code of another.
#pragma once
#include <cmath>
#include <cstdint>

#ifndef FB_ISA
#define FB_ISA host
#endif

// FB_INLINE: always inlined; FB_FN: the compiler may choose.  Both run on a GPU as well
#ifdef __CUDACC__
#define FB_INLINE __host__ __device__ __forceinline__
#define FB_FN __host__ __device__ inline
#else
#define FB_INLINE inline __attribute__((always_inline))
#define FB_FN inline
#endif

// FB_STAGE(name): here a stage of the step begins.  Nothing,
// but in bench/profiling, which measures every stage
#ifndef FB_STAGE
#define FB_STAGE(name)
#endif

namespace fb::FB_ISA {

// Real<T>: the machine number inside T.  Mask<T>: the result of comparing two T.  kLanes<T>: worlds
// in one T.
template <class T>
struct Traits {
  using Real = T;
  using Mask = bool;
  static constexpr int lanes = 1;
};
template <class T>
using Real = typename Traits<T>::Real;
template <class T>
using Mask = typename Traits<T>::Mask;
template <class T>
inline constexpr int kLanes = Traits<T>::lanes;
template <class T>
inline constexpr bool kIsDouble = sizeof(Real<T>) == 8;

FB_INLINE bool any(bool m) { return m; }
FB_INLINE bool all(bool m) { return m; }
FB_INLINE bool mask_lane(bool m, int) { return m; }
FB_INLINE void set_mask_lane(bool& m, int, bool b) { m = b; }

FB_INLINE double select(bool m, double a, double b) { return m ? a : b; }
FB_INLINE float select(bool m, float a, float b) { return m ? a : b; }
FB_INLINE bool select(bool m, bool a, bool b) { return m ? a : b; }
FB_INLINE double sqrt(double a) { return __builtin_sqrt(a); }
FB_INLINE float sqrt(float a) { return __builtin_sqrtf(a); }
// a^p and log a for a > 0
FB_INLINE double power(double a, double p) { return __builtin_pow(a, p); }
FB_INLINE float power(float a, float p) { return __builtin_powf(a, p); }
FB_INLINE double logarithm(double a) { return __builtin_log(a); }
FB_INLINE float logarithm(float a) { return __builtin_logf(a); }

// a b + c and c - a b in one rounding where the processor has it.
// Contraction by the compiler is off: which of two products it would
// fuse differs between scalar and vector code, and with it the last bit.
#if defined(__FMA__) || defined(__aarch64__) || defined(__CUDACC__)
#define FB_FUSED 1
FB_INLINE double mul_add(double a, double b, double c) { return __builtin_fma(a, b, c); }
FB_INLINE float mul_add(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
FB_INLINE double sub_mul(double c, double a, double b) { return __builtin_fma(-a, b, c); }
FB_INLINE float sub_mul(float c, float a, float b) { return __builtin_fmaf(-a, b, c); }
#else
FB_INLINE double mul_add(double a, double b, double c) { return a * b + c; }
FB_INLINE float mul_add(float a, float b, float c) { return a * b + c; }
FB_INLINE double sub_mul(double c, double a, double b) { return c - a * b; }
FB_INLINE float sub_mul(float c, float a, float b) { return c - a * b; }
#endif
// where a number is zero, and its tangent, if it has one
template <class T>
FB_INLINE Mask<T> is_nothing(T x) {
  return x == T(0);
}
// x . y of three numbers each, the last product first
template <class T, class P>
FB_INLINE T dot3(T x0, T x1, T x2, P y0, P y1, P y2) {
  return mul_add(x0, T(y0), mul_add(x1, T(y1), x2 * T(y2)));
}
// x0 y0 + x1 y1 and x0 y0 - x1 y1
template <class T>
FB_INLINE T dot2(T x0, T y0, T x1, T y1) {
  return mul_add(x0, y0, x1 * y1);
}
template <class T>
FB_INLINE T det2(T x0, T y0, T x1, T y1) {
  return sub_mul(x0 * y0, x1, y1);
}

// lane k of a number, as the machine number
FB_INLINE double lane(double a, int) { return a; }
FB_INLINE float lane(float a, int) { return a; }
FB_INLINE void set_lane(double& a, int, double x) { a = x; }
FB_INLINE void set_lane(float& a, int, float x) { a = x; }

// the value without its tangent; the identity for numbers that carry none
FB_INLINE double primal(double a) { return a; }
FB_INLINE float primal(float a) { return a; }

template <class T>
FB_INLINE T max(T a, T b) {
  return select(a > b, a, b);
}
template <class T>
FB_INLINE T min(T a, T b) {
  return select(a < b, a, b);
}
template <class T>
FB_INLINE T abs(T a) {
  return select(a < T(0), -a, a);
}
// a NaN stays a NaN
template <class T>
FB_INLINE T clamp(T a, T lo, T hi) {
  return select(a < lo, lo, select(a > hi, hi, a));
}
template <class T>
FB_INLINE Mask<T> is_finite(T a) {
  return (a - a) == T(0);
}
// for counting
template <class T>
FB_INLINE T one_where(Mask<T> m) {
  return select(m, T(1), T(0));
}

// nearest integer, ties to even, for |a| < 2^51 (2^22 in float)
template <class T>
FB_INLINE T round_near(T a) {
  const Real<T> magic = kIsDouble<T> ? Real<T>(6755399441055744.0) : Real<T>(12582912.0);
  return (a + magic) - magic;
}

// sin and cos on [-pi/4, pi/4] as polynomials in r
// (coefficients: minimax, double; shorter set, float)
template <class T>
FB_INLINE void sincos_kernel(T r, T& s, T& c) {
  using R = Real<T>;
  const T z = r * r;
  if constexpr (kIsDouble<T>) {
    T p = mul_add(z, T(R(1.58969099521155010221e-10)), T(R(-2.50507602534068634195e-08)));
    p = mul_add(p, z, T(R(2.75573137070700676789e-06)));
    p = mul_add(p, z, T(R(-1.98412698298579493134e-04)));
    p = mul_add(p, z, T(R(8.33333333332248946124e-03)));
    p = mul_add(p, z, T(R(-1.66666666666666324348e-01)));
    s = mul_add(p, z * r, r);
    T t = mul_add(z, T(R(-1.13596475577881948265e-11)), T(R(2.08757232129817482790e-09)));
    t = mul_add(t, z, T(R(-2.75573143513906633035e-07)));
    t = mul_add(t, z, T(R(2.48015872894767294178e-05)));
    t = mul_add(t, z, T(R(-1.38888888888741095749e-03)));
    t = mul_add(t, z, T(R(4.16666666666666019037e-02)));
    c = mul_add(t, z * z, sub_mul(T(1), z, T(R(0.5))));
  } else {
    T p = mul_add(z, T(R(-1.9515295891e-4f)), T(R(8.3321608736e-3f)));
    p = mul_add(p, z, T(R(-1.6666654611e-1f)));
    s = mul_add(p, z * r, r);
    T t = mul_add(z, T(R(2.443315711809948e-5f)), T(R(-1.388731625493765e-3f)));
    t = mul_add(t, z, T(R(4.166664568298827e-2f)));
    c = mul_add(t, z * z, sub_mul(T(1), z, T(R(0.5))));
  }
}

// sin and cos to about an ulp for |a| < 1e5: reduction by pi/2 in three parts, then the kernel; no
// branch, no libm.  NaN where an angle is so large that its neighbours lie turns apart
template <class T>
FB_INLINE void sincos(T a, T& s, T& c) {
  using R = Real<T>;
  const T k = round_near(a * R(0.63661977236758134308));
  T r;
  if constexpr (kIsDouble<T>) {
    r = sub_mul(a, k, T(R(1.57079632673412561417)));
    r = sub_mul(r, k, T(R(6.07710050630396597660e-11)));
    r = sub_mul(r, k, T(R(2.02226624879595063154e-21)));
  } else {
    r = sub_mul(a, k, T(R(1.5703125f)));
    r = sub_mul(r, k, T(R(4.837512969970703125e-4f)));
    r = sub_mul(r, k, T(R(7.54978942e-8f)));
  }
  const R most = kIsDouble<T> ? R(2251799813685248.0) : R(4194304.0);
  r = select(abs(a) < T(most), r, T(R(__builtin_nan(""))));
  T ks, kc;
  sincos_kernel(r, ks, kc);
  // quadrant in {-2 .. 2}
  const T m = sub_mul(k, round_near(k * R(0.25)), T(4));
  const Mask<T> odd = (m * m) == T(1);
  const T s1 = select(odd, kc, ks), c1 = select(odd, ks, kc);
  s = select((m < T(R(-0.5))) | (m > T(R(1.5))), -s1, s1);
  c = select((m > T(R(0.5))) | (m < T(R(-1.5))), -c1, c1);
}

// atan for a >= 0: reduction to [0, 0.66], then a rational approximation
template <class T>
FB_INLINE T atan_positive(T a) {
  using R = Real<T>;
  const Mask<T> large = a > T(R(2.41421356237309504880));
  const Mask<T> medium = a > T(R(0.66));
  const T x = select(large, T(-1) / max(a, T(1)), select(medium, (a - T(1)) / (a + T(1)), a));
  const T y = select(large, T(R(1.57079632679489661923)),
                     select(medium, T(R(0.78539816339744830962)), T(0)));
  const T z = x * x;
  T p = mul_add(z, T(R(-8.750608600031904122785e-1)), T(R(-1.615753718733365076637e1)));
  p = mul_add(p, z, T(R(-7.500855792314704667340e1)));
  p = mul_add(p, z, T(R(-1.228866684490136173410e2)));
  p = mul_add(p, z, T(R(-6.485021904942025371773e1)));
  T q = z + R(2.485846490142306297962e1);
  q = mul_add(q, z, T(R(1.650270098316988542046e2)));
  q = mul_add(q, z, T(R(4.328810604912902668951e2)));
  q = mul_add(q, z, T(R(4.853903996359136964868e2)));
  q = mul_add(q, z, T(R(1.945506571482613964425e2)));
  return y + mul_add(x, z * p / q, x);
}

// angle of the half plane y >= 0: atan2(y, x) in [0, pi]; zero at the origin
template <class T>
FB_INLINE T atan2_upper(T y, T x) {
  using R = Real<T>;
  const T ax = abs(x);
  const T hi = max(ax, y), lo = min(ax, y);
  const T t = atan_positive(lo / select(hi > T(0), hi, T(1)));
  const T first = select(y > ax, T(R(1.57079632679489661923)) - t, t);
  return select(x < T(0), T(R(3.14159265358979323846)) - first, first);
}

// 1 - exp(-a) for a >= 0 to a few ulp: a Taylor polynomial at a / 64, then 1 - exp(-2 x) = e (2 - e)
// six times
template <class T>
FB_INLINE T one_minus_exp(T a) {
  using R = Real<T>;
  const T x = min(a, T(R(40))) * R(1.0 / 64.0);
  T p = T(1);
  for (int k = 15; k > 1; --k) p = sub_mul(T(1), x * p, T(R(1.0 / k)));
  T e = x * p;
  for (int k = 0; k < 6; ++k) e = e * (T(2) - e);
  return e;
}

}  // namespace fb::FB_ISA
