// Foreign<A>: the number of an autodiff library as a number of the core.  It lives in the core's
// namespace, so that the core's templates find its functions; every operation is the library's own.
#pragma once
#include <cstdio>
#include <cstdlib>

#include "core/number/scalar.hpp"

namespace fb::FB_ISA {

// what a library must tell of its number: the value, and whether it is a constant zero
template <class A>
struct Library;

template <class A>
struct Foreign {
  A a;
  Foreign() {}
  Foreign(double s) : a(s) {}
  Foreign(int s) : a(double(s)) {}
  Foreign(const A& x) : a(x) {}
  Foreign operator-() const { return Foreign(-a); }
  Foreign& operator+=(const Foreign& o) { return *this = *this + o; }
  Foreign& operator-=(const Foreign& o) { return *this = *this - o; }
  Foreign& operator*=(const Foreign& o) { return *this = *this * o; }
  friend Foreign operator+(const Foreign& x, const Foreign& y) { return Foreign(x.a + y.a); }
  friend Foreign operator-(const Foreign& x, const Foreign& y) { return Foreign(x.a - y.a); }
  friend Foreign operator*(const Foreign& x, const Foreign& y) { return Foreign(x.a * y.a); }
  friend Foreign operator/(const Foreign& x, const Foreign& y) { return Foreign(x.a / y.a); }
  // a double stays one: libraries have cheaper operations for it
  friend Foreign operator*(const Foreign& x, double y) { return Foreign(x.a * y); }
  friend Foreign operator+(const Foreign& x, double y) { return Foreign(x.a + y); }
  friend bool operator<(const Foreign& x, const Foreign& y) { return value(x) < value(y); }
  friend bool operator>(const Foreign& x, const Foreign& y) { return value(x) > value(y); }
  friend bool operator<=(const Foreign& x, const Foreign& y) { return value(x) <= value(y); }
  friend bool operator>=(const Foreign& x, const Foreign& y) { return value(x) >= value(y); }
  friend bool operator==(const Foreign& x, const Foreign& y) { return value(x) == value(y); }
  friend double value(const Foreign& x) { return Library<A>::value(x.a); }
};

template <class A>
struct Traits<Foreign<A>> {
  using Real = double;
  using Mask = bool;
  static constexpr int lanes = 1;
};

template <class A>
Foreign<A> select(bool m, const Foreign<A>& a, const Foreign<A>& b) {
  return m ? a : b;
}
template <class A>
Foreign<A> mul_add(const Foreign<A>& a, const Foreign<A>& b, const Foreign<A>& c) {
  return a * b + c;
}
template <class A>
Foreign<A> sub_mul(const Foreign<A>& c, const Foreign<A>& a, const Foreign<A>& b) {
  return c - a * b;
}
// a length that vanishes has no direction: its derivative is taken as zero
template <class A>
Foreign<A> sqrt(const Foreign<A>& x) {
  using std::sqrt;
  return value(x) > 0.0 ? Foreign<A>(sqrt(x.a)) : Foreign<A>(0.0);
}
template <class A>
void sincos(const Foreign<A>& x, Foreign<A>& s, Foreign<A>& c) {
  using std::cos, std::sin;
  s = Foreign<A>(sin(x.a));
  c = Foreign<A>(cos(x.a));
}
template <class A>
Foreign<A> atan2_upper(const Foreign<A>& y, const Foreign<A>& x) {
  using std::atan2;
  return Foreign<A>(atan2(y.a, x.a));
}
template <class A>
bool is_finite(const Foreign<A>& x) {
  return std::isfinite(value(x));
}
template <class A>
bool is_nothing(const Foreign<A>& x) {
  return Library<A>::nothing(x.a);
}
template <class A>
double lane(const Foreign<A>& x, int) {
  return value(x);
}
// what Newton steps leave is solved in plain numbers: its derivatives are unknown to the library
template <class A>
void set_lane(Foreign<A>&, int, double) {
  std::fprintf(stderr, "autodiff: a contact solve went beyond Newton steps, expected none\n");
  std::exit(3);
}
template <class A>
double primal(const Foreign<A>& x) {
  return value(x);
}

}  // namespace fb::FB_ISA
