// Lane<R, W>: W worlds in one value, one register wide (compiler vector extensions).
#pragma once
#ifndef __CUDACC__
#include "core/number/scalar.hpp"
#if defined(__AVX2__)
#include <immintrin.h>
#endif

namespace fb::FB_ISA {

template <class R>
struct MaskWord {
  using type = int64_t;
};
template <>
struct MaskWord<float> {
  using type = int32_t;
};

template <class R, int W>
struct LaneMask {
  typedef typename MaskWord<R>::type V __attribute__((vector_size(W * sizeof(R))));
  V m;
  FB_INLINE LaneMask() {}
  FB_INLINE LaneMask(bool b) : m(V{} - typename MaskWord<R>::type(b ? 1 : 0)) {}
  FB_INLINE explicit LaneMask(V v) : m(v) {}
  friend FB_INLINE LaneMask operator&(LaneMask a, LaneMask b) { return LaneMask(a.m & b.m); }
  friend FB_INLINE LaneMask operator|(LaneMask a, LaneMask b) { return LaneMask(a.m | b.m); }
  friend FB_INLINE LaneMask operator!(LaneMask a) { return LaneMask(~a.m); }
  friend FB_INLINE LaneMask operator&(LaneMask a, bool b) { return a & LaneMask(b); }
  friend FB_INLINE LaneMask operator|(LaneMask a, bool b) { return a | LaneMask(b); }
};

template <class R, int W>
struct Lane {
  typedef R V __attribute__((vector_size(W * sizeof(R))));
  V x;
  FB_INLINE Lane() {}
  FB_INLINE Lane(R s) : x(s - V{}) {}
  FB_INLINE Lane(int s) : x(R(s) - V{}) {}
  FB_INLINE static Lane of(V v) {
    Lane r;
    r.x = v;
    return r;
  }
  FB_INLINE Lane operator-() const { return of(-x); }
  FB_INLINE Lane& operator+=(Lane o) {
    x += o.x;
    return *this;
  }
  FB_INLINE Lane& operator-=(Lane o) {
    x -= o.x;
    return *this;
  }
  FB_INLINE Lane& operator*=(Lane o) {
    x *= o.x;
    return *this;
  }
#define FB_LANE_OP(op)                                                         \
  friend FB_INLINE Lane operator op(Lane a, Lane b) { return of(a.x op b.x); } \
  friend FB_INLINE Lane operator op(R a, Lane b) { return of(a op b.x); }      \
  friend FB_INLINE Lane operator op(Lane a, R b) { return of(a.x op b); }
  FB_LANE_OP(+)
  FB_LANE_OP(-)
  FB_LANE_OP(*)
  FB_LANE_OP(/)
#undef FB_LANE_OP
#define FB_LANE_COMPARE(op)                                          \
  friend FB_INLINE LaneMask<R, W> operator op(Lane a, Lane b) {      \
    return LaneMask<R, W>((typename LaneMask<R, W>::V)(a.x op b.x)); \
  }
  FB_LANE_COMPARE(<)
  FB_LANE_COMPARE(>)
  FB_LANE_COMPARE(<=)
  FB_LANE_COMPARE(>=)
  FB_LANE_COMPARE(==)
#undef FB_LANE_COMPARE
};

template <class R_, int W>
struct Traits<Lane<R_, W>> {
  using Real = R_;
  using Mask = LaneMask<R_, W>;
  static constexpr int lanes = W;
};

template <class R, int W>
FB_INLINE Lane<R, W> select(LaneMask<R, W> m, Lane<R, W> a, Lane<R, W> b) {
  return Lane<R, W>::of(m.m ? a.x : b.x);
}
template <class R, int W>
FB_INLINE LaneMask<R, W> select(LaneMask<R, W> m, LaneMask<R, W> a, LaneMask<R, W> b) {
  return LaneMask<R, W>((m.m & a.m) | (~m.m & b.m));
}
template <class R, int W>
FB_INLINE bool any(LaneMask<R, W> m) {
#if defined(__AVX512F__)
  if constexpr (sizeof(m) == 64) return _mm512_test_epi64_mask((__m512i)m.m, (__m512i)m.m) != 0;
#endif
#if defined(__AVX2__)
  if constexpr (sizeof(m) == 32) return _mm256_testz_si256((__m256i)m.m, (__m256i)m.m) == 0;
#endif
  typename MaskWord<R>::type r = 0;
  for (int k = 0; k < W; ++k) r |= m.m[k];
  return r != 0;
}
template <class R, int W>
FB_INLINE bool all(LaneMask<R, W> m) {
  return !any(!m);
}
template <class R, int W>
FB_INLINE bool mask_lane(LaneMask<R, W> m, int k) {
  return m.m[k] != 0;
}
template <class R, int W>
FB_INLINE void set_mask_lane(LaneMask<R, W>& m, int k, bool b) {
  m.m[k] = b ? -1 : 0;
}
template <class R, int W>
FB_INLINE R lane(const Lane<R, W>& a, int k) {
  return a.x[k];
}
template <class R, int W>
FB_INLINE void set_lane(Lane<R, W>& a, int k, R v) {
  a.x[k] = v;
}
template <class R, int W>
FB_INLINE Lane<R, W> primal(Lane<R, W> a) {
  return a;
}

template <class R, int W>
FB_INLINE Lane<R, W> mul_add(Lane<R, W> a, Lane<R, W> b, Lane<R, W> c) {
  using L = Lane<R, W>;
  using V [[maybe_unused]] = typename L::V;
#if defined(__AVX512F__)
  if constexpr (sizeof(L) == 64 && sizeof(R) == 8)
    return L::of((V)_mm512_fmadd_pd((__m512d)a.x, (__m512d)b.x, (__m512d)c.x));
  if constexpr (sizeof(L) == 64 && sizeof(R) == 4)
    return L::of((V)_mm512_fmadd_ps((__m512)a.x, (__m512)b.x, (__m512)c.x));
#endif
#if defined(__AVX2__)
  if constexpr (sizeof(L) == 32 && sizeof(R) == 8)
    return L::of((V)_mm256_fmadd_pd((__m256d)a.x, (__m256d)b.x, (__m256d)c.x));
  if constexpr (sizeof(L) == 32 && sizeof(R) == 4)
    return L::of((V)_mm256_fmadd_ps((__m256)a.x, (__m256)b.x, (__m256)c.x));
#endif
  L r;
  for (int k = 0; k < W; ++k) r.x[k] = mul_add(a.x[k], b.x[k], c.x[k]);
  return r;
}
// GCC 12 does not fold the sign into the product of an intrinsic
template <class R, int W>
FB_INLINE Lane<R, W> sub_mul(Lane<R, W> c, Lane<R, W> a, Lane<R, W> b) {
  using L = Lane<R, W>;
  using V [[maybe_unused]] = typename L::V;
#if defined(__AVX512F__)
  if constexpr (sizeof(L) == 64 && sizeof(R) == 8)
    return L::of((V)_mm512_fnmadd_pd((__m512d)a.x, (__m512d)b.x, (__m512d)c.x));
  if constexpr (sizeof(L) == 64 && sizeof(R) == 4)
    return L::of((V)_mm512_fnmadd_ps((__m512)a.x, (__m512)b.x, (__m512)c.x));
#endif
#if defined(__AVX2__)
  if constexpr (sizeof(L) == 32 && sizeof(R) == 8)
    return L::of((V)_mm256_fnmadd_pd((__m256d)a.x, (__m256d)b.x, (__m256d)c.x));
  if constexpr (sizeof(L) == 32 && sizeof(R) == 4)
    return L::of((V)_mm256_fnmadd_ps((__m256)a.x, (__m256)b.x, (__m256)c.x));
#endif
  return mul_add(-a, b, c);
}

template <class R, int W>
FB_INLINE Lane<R, W> sqrt(Lane<R, W> a) {
  using L = Lane<R, W>;
#if defined(__AVX512F__)
  if constexpr (sizeof(L) == 64 && sizeof(R) == 8)
    return L::of((typename L::V)_mm512_maskz_sqrt_pd(__mmask8(-1), (__m512d)a.x));
  if constexpr (sizeof(L) == 64 && sizeof(R) == 4)
    return L::of((typename L::V)_mm512_maskz_sqrt_ps(__mmask16(-1), (__m512)a.x));
#endif
#if defined(__AVX2__)
  if constexpr (sizeof(L) == 32 && sizeof(R) == 8)
    return L::of((typename L::V)_mm256_sqrt_pd((__m256d)a.x));
  if constexpr (sizeof(L) == 32 && sizeof(R) == 4)
    return L::of((typename L::V)_mm256_sqrt_ps((__m256)a.x));
#endif
  L r;
  for (int k = 0; k < W; ++k) r.x[k] = sqrt(a.x[k]);
  return r;
}
template <class R, int W>
FB_FN Lane<R, W> power(Lane<R, W> a, Lane<R, W> p) {
  Lane<R, W> y;
  for (int k = 0; k < W; ++k) y.x[k] = power(R(a.x[k]), R(p.x[k]));
  return y;
}
template <class R, int W>
FB_FN Lane<R, W> logarithm(Lane<R, W> a) {
  Lane<R, W> y;
  for (int k = 0; k < W; ++k) y.x[k] = logarithm(R(a.x[k]));
  return y;
}

}  // namespace fb::FB_ISA
#endif
