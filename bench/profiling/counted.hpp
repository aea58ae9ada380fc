// Counted<S>: a number of the core that counts its floating-point operations, in every lane.
#pragma once
#include "core/collision/pairs.hpp"

namespace fb::FB_ISA {

// operations so far: one for +, -, *, /, sqrt, powers and logarithms, two for a fused product and sum
inline uint64_t operations = 0;

template <class S>
struct Counted {
  S x;
  S beside;  // the core tells lanes from parameters by their size
  Counted() {}
  Counted(Real<S> s) : x(s) {}
  Counted(int s) : x(s) {}
  static Counted of(S value, int count) {
    operations += uint64_t(count) * kLanes<S>;
    Counted r;
    r.x = value;
    return r;
  }
  Counted operator-() const { return of(-x, 0); }
  Counted& operator+=(Counted o) { return *this = *this + o; }
  Counted& operator-=(Counted o) { return *this = *this - o; }
  Counted& operator*=(Counted o) { return *this = *this * o; }
  friend Counted operator+(Counted a, Counted b) { return of(a.x + b.x, 1); }
  friend Counted operator-(Counted a, Counted b) { return of(a.x - b.x, 1); }
  friend Counted operator*(Counted a, Counted b) { return of(a.x * b.x, 1); }
  friend Counted operator/(Counted a, Counted b) { return of(a.x / b.x, 1); }
  friend Mask<S> operator<(Counted a, Counted b) { return a.x < b.x; }
  friend Mask<S> operator>(Counted a, Counted b) { return a.x > b.x; }
  friend Mask<S> operator<=(Counted a, Counted b) { return a.x <= b.x; }
  friend Mask<S> operator>=(Counted a, Counted b) { return a.x >= b.x; }
  friend Mask<S> operator==(Counted a, Counted b) { return a.x == b.x; }
};

template <class S>
struct Traits<Counted<S>> {
  using Real = typename Traits<S>::Real;
  using Mask = typename Traits<S>::Mask;
  static constexpr int lanes = Traits<S>::lanes;
};
template <class S>
struct BitsOf<Counted<S>> : BitsOf<S> {};

template <class S>
Counted<S> select(Mask<S> m, Counted<S> a, Counted<S> b) {
  return Counted<S>::of(select(m, a.x, b.x), 0);
}
template <class S>
Counted<S> mul_add(Counted<S> a, Counted<S> b, Counted<S> c) {
  return Counted<S>::of(mul_add(a.x, b.x, c.x), 2);
}
template <class S>
Counted<S> sub_mul(Counted<S> c, Counted<S> a, Counted<S> b) {
  return Counted<S>::of(sub_mul(c.x, a.x, b.x), 2);
}
template <class S>
Counted<S> sqrt(Counted<S> a) {
  return Counted<S>::of(sqrt(a.x), 1);
}
template <class S>
Counted<S> power(Counted<S> a, Counted<S> p) {
  return Counted<S>::of(power(a.x, p.x), 1);
}
template <class S>
Counted<S> logarithm(Counted<S> a) {
  return Counted<S>::of(logarithm(a.x), 1);
}
template <class S>
Real<S> plain(Counted<S> a) {
  return a.x;
}
template <class S>
auto lane(const Counted<S>& a, int k) {
  return lane(a.x, k);
}
template <class S>
void set_lane(Counted<S>& a, int k, Real<S> value) {
  set_lane(a.x, k, value);
}
template <class S>
S primal(Counted<S> a) {
  return a.x;
}

// one world of a group, for pairs whose lanes take their turns
template <class R, int W>
struct OneWorld<Counted<Lane<R, W>>> {
  using type = Counted<R>;
};
template <class R, int W>
Counted<R> read_world(const Counted<Lane<R, W>>& a, int k) {
  return Counted<R>(a.x.x[k]);
}
template <class R, int W>
void write_world(Counted<Lane<R, W>>& a, int k, Counted<R> value) {
  a.x.x[k] = value.x;
}
template <class S>
void write_world(Counted<S>& a, int, Counted<S> value) {
  a = value;
}

}  // namespace fb::FB_ISA
