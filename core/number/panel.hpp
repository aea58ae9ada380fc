// Panels: a few numbers of one world side by side.  The bits are those of one after another.
#pragma once
#include <type_traits>

#include "core/number/lane.hpp"
#include "core/number/scalar.hpp"

namespace fb::FB_ISA {

// numbers side by side: four machine numbers whatever the processor, so that the bits are its own
template <class S>
struct PanelOf {
  using type = S;
  static constexpr int width = 1;
};
#if !defined(__CUDACC__)
template <>
struct PanelOf<double> {
  using type = Lane<double, 4>;
  static constexpr int width = 4;
};
#endif
template <class S>
using Panel = typename PanelOf<S>::type;
template <class S>
inline constexpr int kPanel = PanelOf<S>::width;
template <class S>
FB_INLINE int whole_panels(int n) {
  return (n + kPanel<S> - 1) / kPanel<S> * kPanel<S>;
}
template <class S>
FB_INLINE Panel<S> panel_at(const S* x) {
  if constexpr (kPanel<S> == 1) {
    return *x;
  } else {
    Panel<S> p;
    __builtin_memcpy(&p.x, x, sizeof(p));
    return p;
  }
}
template <class S>
FB_INLINE void put_panel(Panel<S> p, S* x) {
  if constexpr (kPanel<S> == 1)
    *x = p;
  else
    __builtin_memcpy(x, &p.x, sizeof(p));
}
template <class S>
FB_INLINE S sum_of_panel(Panel<S> p) {
  if constexpr (kPanel<S> == 1)
    return p;
  else
    return (lane(p, 0) + lane(p, 2)) + (lane(p, 1) + lane(p, 3));
}
// x . y of n numbers, whole panels
template <class S>
FB_INLINE S dot_panels(const S* x, const S* y, int n) {
  Panel<S> sum(Real<S>(0));
  for (int k = 0; k < n; k += kPanel<S>) sum = mul_add(panel_at(x + k), panel_at(y + k), sum);
  return sum_of_panel<S>(sum);
}
// V numbers at x, a panel or one
template <class V, class S>
FB_INLINE V numbers_at(const S* x) {
  if constexpr (std::is_same_v<V, S>)
    return *x;
  else
    return panel_at(x);
}
template <class V, class S>
FB_INLINE void put_numbers(V v, S* x) {
  if constexpr (std::is_same_v<V, S>)
    *x = v;
  else
    put_panel<S>(v, x);
}
// visit(j, V) at the panels of n columns, and at the columns that fill none: V is a panel or a number
template <class S, class F>
FB_INLINE void for_columns(int n, F&& visit) {
  int j = 0;
  for (; j + kPanel<S> <= n; j += kPanel<S>) visit(j, Panel<S>(Real<S>(0)));
  if constexpr (kPanel<S> > 1)
    for (; j < n; ++j) visit(j, S(0));
}

}  // namespace fb::FB_ISA
