// Pairs of geoms that may touch.  The first npair numbers are listed in tables.  Where there are too
// many to list, the list has the explicit ones alone, and every other follows from its two geoms by
// rule: its number is npair + ngeom a + b, and one bit says whether it may touch.
#pragma once
#include "core/model/layout.hpp"

namespace fb::FB_ISA {

// kind of a pair by its shapes, the smaller number first; kPairKinds where they never touch
FB_INLINE int kind_of_shapes(int a, int b) {
  switch (8 * a + b) {
#define FB_X(kind, shape_a, shape_b, ...) \
  case 8 * shape_a + shape_b:             \
    return kind;
    FB_PAIRS(FB_X)
#undef FB_X
    default:
      return kPairKinds;
  }
}

FB_INLINE int ruled_pair(const Layout& s, int a, int b) { return s.npair + a * s.ngeom + b; }
FB_INLINE bool is_ruled(const Layout& s, int pair) { return pair >= s.npair; }
FB_INLINE int first_geom(const Layout& s, int pair) {
  return is_ruled(s, pair) ? (pair - s.npair) / s.ngeom : s.pair_geom1[pair];
}
FB_INLINE int second_geom(const Layout& s, int pair) {
  return is_ruled(s, pair) ? (pair - s.npair) % s.ngeom : s.pair_geom2[pair];
}
FB_INLINE int kind_of_pair(const Layout& s, int pair) {
  if (!is_ruled(s, pair)) return s.pair_kind[pair];
  return kind_of_shapes(s.geom_type[first_geom(s, pair)], s.geom_type[second_geom(s, pair)]);
}
// the geom of higher priority decides, else the larger number
FB_INLINE int condim_of_pair(const Layout& s, int pair) {
  if (!is_ruled(s, pair)) return s.pair_condim[pair];
  const int a = first_geom(s, pair), b = second_geom(s, pair);
  const int lead = s.geom_priority[a] - s.geom_priority[b];
  const int x = s.geom_condim[a], y = s.geom_condim[b];
  return lead > 0 ? x : lead < 0 ? y : x > y ? x : y;
}
FB_INLINE int rule_of_pair(const Layout& s, int pair) {
  if (!is_ruled(s, pair)) return s.pair_rule[pair];
  const int lead = s.geom_priority[first_geom(s, pair)] - s.geom_priority[second_geom(s, pair)];
  return lead > 0 ? kFirstFriction : lead < 0 ? kSecondFriction : kLargerFriction;
}
// number of the explicit pair, -1 for none
FB_INLINE int explicit_of_pair(const Layout& s, int pair) {
  return is_ruled(s, pair) ? -1 : s.pair_explicit[pair];
}
// whether two geoms may touch by rule, or have an explicit pair: rows of bits in whole words
FB_INLINE bool may_touch(const Layout& s, int a, int b) {
  const size_t row = size_t(a) * ((s.nruled + 31) / 32);
  return (unsigned(s.pair_allowed[row + b / 32]) >> (b % 32)) & 1u;
}
// number of the pair of two geoms, a of the smaller type: the list is sorted by both
FB_INLINE int pair_of_geoms(const Layout& s, int a, int b) {
  int low = 0, high = s.npair;
  while (low < high) {
    const int mid = (low + high) / 2, ga = s.pair_geom1[mid], gb = s.pair_geom2[mid];
    if (ga < a || (ga == a && gb < b))
      low = mid + 1;
    else
      high = mid;
  }
  const bool found = low < s.npair && s.pair_geom1[low] == a && s.pair_geom2[low] == b;
  return found ? low : ruled_pair(s, a, b);
}

// the larger of two numbers; equal ones have half of its derivative each
template <class P>
FB_INLINE P larger(P a, P b) {
  return select(a == b, (a + b) * Real<P>(0.5), max(a, b));
}
// coefficients of a pair, combined from its geoms'
template <class T, class P>
FB_INLINE P friction_of_pair(const Model<T, P>& m, int pair) {
  if (!is_ruled(m.s, pair)) return m.derived.pair_mu[pair];
  const P *a = m.theta.geom_friction + 3 * first_geom(m.s, pair),
          *b = m.theta.geom_friction + 3 * second_geom(m.s, pair);
  const int rule = rule_of_pair(m.s, pair);
  return rule == kFirstFriction ? *a : rule == kSecondFriction ? *b : larger(*a, *b);
}
template <class T, class P>
FB_INLINE P restitution_of_pair(const Model<T, P>& m, int pair) {
  if (!is_ruled(m.s, pair)) return m.derived.pair_restitution[pair];
  const P* e = m.theta.geom_restitution;
  return larger(e[first_geom(m.s, pair)], e[second_geom(m.s, pair)]);
}
template <class T, class P>
FB_INLINE P compliance_of_pair(const Model<T, P>& m, int pair) {
  if (!is_ruled(m.s, pair)) return m.derived.pair_compliance[pair];
  const P* c = m.theta.contact_compliance;
  return c[first_geom(m.s, pair)] + c[second_geom(m.s, pair)];
}

// shares of the larger of two numbers: all, none, or half where they are equal
template <class T>
FB_INLINE void add_larger_bar(T a, T b, T bar, T& a_bar, T& b_bar) {
  const T share = select(a == b, T(Real<T>(0.5)), select(a > b, T(1), T(0)));
  a_bar += bar * share;
  b_bar += bar * (T(1) - share);
}
// cotangents of a pair's coefficients: to what is derived for the list, else to the geoms' own
template <class T, class P>
FB_FN void add_friction_bar(const Model<T, P>& m, int pair, T bar, Theta<T>& theta_bar,
                            Derived<T>& derived_bar) {
  if (!is_ruled(m.s, pair)) {
    derived_bar.pair_mu[pair] += bar;
    return;
  }
  const int a = 3 * first_geom(m.s, pair), b = 3 * second_geom(m.s, pair);
  const int rule = rule_of_pair(m.s, pair);
  T &x = theta_bar.geom_friction[a], &y = theta_bar.geom_friction[b];
  if (rule == kFirstFriction) x += bar;
  if (rule == kSecondFriction) y += bar;
  if (rule == kLargerFriction)
    add_larger_bar(T(m.theta.geom_friction[a]), T(m.theta.geom_friction[b]), bar, x, y);
}
template <class T, class P>
FB_FN void add_restitution_bar(const Model<T, P>& m, int pair, T bar, Theta<T>& theta_bar,
                               Derived<T>& derived_bar) {
  if (!is_ruled(m.s, pair)) {
    derived_bar.pair_restitution[pair] += bar;
    return;
  }
  const int a = first_geom(m.s, pair), b = second_geom(m.s, pair);
  add_larger_bar(T(m.theta.geom_restitution[a]), T(m.theta.geom_restitution[b]), bar,
                 theta_bar.geom_restitution[a], theta_bar.geom_restitution[b]);
}
template <class T, class P>
FB_FN void add_compliance_bar(const Model<T, P>& m, int pair, T bar, Theta<T>& theta_bar,
                              Derived<T>& derived_bar) {
  if (!is_ruled(m.s, pair)) {
    derived_bar.pair_compliance[pair] += bar;
    return;
  }
  theta_bar.contact_compliance[first_geom(m.s, pair)] += bar;
  theta_bar.contact_compliance[second_geom(m.s, pair)] += bar;
}

}  // namespace fb::FB_ISA
