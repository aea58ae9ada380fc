// Rows of columns: as many of them side by side as fill a register, a lane by itself or several
// plain numbers.  The bits do not depend on how many.
#pragma once
#include "core/number/lane.hpp"
#include "core/number/scalar.hpp"

namespace fb::FB_ISA {

template <class T>
struct PackOf {
  using type = T;
  static constexpr int size = 1;
};
#if !defined(__CUDACC__)
#if defined(__AVX512F__)
inline constexpr int kRegisterBytes = 64;
#elif defined(__AVX2__)
inline constexpr int kRegisterBytes = 32;
#else
inline constexpr int kRegisterBytes = 16;
#endif
template <>
struct PackOf<double> {
  static constexpr int size = kRegisterBytes / 8;
  using type = Lane<double, size>;
};
template <>
struct PackOf<float> {
  static constexpr int size = kRegisterBytes / 4;
  using type = Lane<float, size>;
};
#endif
template <class T>
using Pack = typename PackOf<T>::type;
template <class T>
inline constexpr int kPack = PackOf<T>::size;
template <class T>
FB_INLINE Pack<T> pack_at(const T* x) {
  if constexpr (kPack<T> == 1) {
    return *x;
  } else {
    Pack<T> p;
    __builtin_memcpy(&p.x, x, sizeof(p));
    return p;
  }
}
template <class T>
FB_INLINE void put_pack(Pack<T> p, T* x) {
  if constexpr (kPack<T> == 1)
    *x = p;
  else
    __builtin_memcpy(x, &p.x, sizeof(p));
}

// the sum of a pack's numbers, one after another
template <class T>
FB_INLINE T sum_of_pack(Pack<T> p) {
  if constexpr (kPack<T> == 1) {
    return p;
  } else {
    T sum = lane(p, 0);
    for (int e = 1; e < kPack<T>; ++e) sum += lane(p, e);
    return sum;
  }
}

// y += a x and y *= a over n columns, a whole number of packs
template <class T>
FB_INLINE void add_columns(T a, const T* x, T* y, int n) {
  const Pack<T> s(a);
  for (int c = 0; c < n; c += kPack<T>) put_pack(mul_add(pack_at(x + c), s, pack_at(y + c)), y + c);
}
template <class T>
FB_INLINE void scale_columns(T a, T* y, int n) {
  const Pack<T> s(a);
  for (int c = 0; c < n; c += kPack<T>) put_pack(pack_at(y + c) * s, y + c);
}
// y = a x
template <class T>
FB_INLINE void set_columns(T a, const T* x, T* y, int n) {
  const Pack<T> s(a);
  for (int c = 0; c < n; c += kPack<T>) put_pack(pack_at(x + c) * s, y + c);
}
// lanes in which all columns are finite
template <class T>
FB_INLINE Mask<T> finite_columns(const T* x, int n) {
  Pack<T> sum(0);
  for (int c = 0; c < n; c += kPack<T>) sum = mul_add(pack_at(x + c), Pack<T>(0), sum);
  if constexpr (kPack<T> == 1)
    return sum == T(0);
  else
    return all(sum == Pack<T>(0));
}

}  // namespace fb::FB_ISA
