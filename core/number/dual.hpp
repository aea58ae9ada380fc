// Dual<S>: a value and its tangent, for forward mode and as the oracle of every adjoint.  S is
// double, float or a Lane.
#pragma once
#include "core/number/scalar.hpp"

namespace fb::FB_ISA {

template <class S>
struct Dual {
  S v, d;
  FB_INLINE Dual() {}
  FB_INLINE Dual(Real<S> s) : v(s), d(0) {}
  FB_INLINE Dual(int s) : v(s), d(0) {}
  FB_INLINE Dual(S value, S tangent) : v(value), d(tangent) {}
  FB_INLINE Dual operator-() const { return {-v, -d}; }
  FB_INLINE Dual& operator+=(Dual o) { return *this = *this + o; }
  FB_INLINE Dual& operator-=(Dual o) { return *this = *this - o; }
  FB_INLINE Dual& operator*=(Dual o) { return *this = *this * o; }
  friend FB_INLINE Dual operator+(Dual a, Dual b) { return {a.v + b.v, a.d + b.d}; }
  friend FB_INLINE Dual operator-(Dual a, Dual b) { return {a.v - b.v, a.d - b.d}; }
  friend FB_INLINE Dual operator*(Dual a, Dual b) { return {a.v * b.v, a.d * b.v + a.v * b.d}; }
  friend FB_INLINE Dual operator/(Dual a, Dual b) {
    const S q = a.v / b.v;
    return {q, (a.d - q * b.d) / b.v};
  }
  friend FB_INLINE Mask<S> operator<(Dual a, Dual b) { return a.v < b.v; }
  friend FB_INLINE Mask<S> operator>(Dual a, Dual b) { return a.v > b.v; }
  friend FB_INLINE Mask<S> operator<=(Dual a, Dual b) { return a.v <= b.v; }
  friend FB_INLINE Mask<S> operator>=(Dual a, Dual b) { return a.v >= b.v; }
  friend FB_INLINE Mask<S> operator==(Dual a, Dual b) { return a.v == b.v; }
};

template <class S>
struct Traits<Dual<S>> {
  using Real = typename Traits<S>::Real;
  using Mask = typename Traits<S>::Mask;
  static constexpr int lanes = Traits<S>::lanes;
};

// whether a number carries a tangent
template <class T>
inline constexpr bool kTangent = false;
template <class S>
inline constexpr bool kTangent<Dual<S>> = true;

template <class S>
FB_INLINE Dual<S> select(Mask<S> m, Dual<S> a, Dual<S> b) {
  return {select(m, a.v, b.v), select(m, a.d, b.d)};
}
template <class S>
FB_INLINE Dual<S> mul_add(Dual<S> a, Dual<S> b, Dual<S> c) {
  return {mul_add(a.v, b.v, c.v), mul_add(a.d, b.v, mul_add(a.v, b.d, c.d))};
}
template <class S>
FB_INLINE Dual<S> sub_mul(Dual<S> c, Dual<S> a, Dual<S> b) {
  return mul_add(-a, b, c);
}
// the tangent of sqrt at zero is taken as zero: a length that vanishes has no direction
template <class S>
FB_INLINE Dual<S> sqrt(Dual<S> a) {
  const S r = sqrt(a.v);
  return {r, select(r > S(0), a.d / (select(r > S(0), r, S(1)) * Real<S>(2)), S(0))};
}
template <class S>
FB_INLINE Dual<S> logarithm(Dual<S> a) {
  return {logarithm(a.v), a.d / a.v};
}
template <class S>
FB_INLINE Dual<S> power(Dual<S> a, Dual<S> p) {
  const S y = power(a.v, p.v);
  return {y, y * (p.d * logarithm(a.v) + p.v * a.d / a.v)};
}
template <class S>
FB_INLINE void sincos(Dual<S> a, Dual<S>& s, Dual<S>& c) {
  sincos(a.v, s.v, c.v);
  s.d = c.v * a.d;
  c.d = -(s.v * a.d);
}
template <class S>
FB_INLINE Dual<S> atan2_upper(Dual<S> y, Dual<S> x) {
  const S n = x.v * x.v + y.v * y.v;
  const S inv = S(1) / select(n > S(0), n, S(1));
  return {atan2_upper(y.v, x.v), (x.v * y.d - y.v * x.d) * inv};
}
template <class S>
FB_INLINE Dual<S> one_minus_exp(Dual<S> a) {
  const S e = one_minus_exp(a.v);
  return {e, (S(1) - e) * a.d};
}
template <class S>
FB_INLINE Mask<S> is_finite(Dual<S> a) {
  return is_finite(a.v) & is_finite(a.d);
}
template <class S>
FB_INLINE Mask<S> is_nothing(Dual<S> a) {
  return is_nothing(a.v) & is_nothing(a.d);
}
template <class S>
FB_INLINE auto lane(const Dual<S>& a, int k) {
  return lane(a.v, k);
}
template <class S>
FB_INLINE S primal(Dual<S> a) {
  return a.v;
}
// a number without a tangent among those that have one
template <class T, class S>
FB_INLINE T as_constant(S x) {
  if constexpr (kTangent<T>)
    return T(x, S(0));
  else
    return x;
}

}  // namespace fb::FB_ISA
