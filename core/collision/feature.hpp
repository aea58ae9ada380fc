// What carried a contact point: the decisions of a pair function, kept beside the point's numbers, so
// that an adjoint differentiates the case that was taken and never searches again.
// Proof: docs/derivations/collision.md.
#pragma once
#include "core/number/dual.hpp"
#include "core/number/lane.hpp"

namespace fb::FB_ISA {

// Bits<T>: a word of at least 32 bits for each world of a T
template <class T>
struct BitsOf {
  using type = uint32_t;
};
template <class T>
using Bits = typename BitsOf<T>::type;
template <class S>
struct BitsOf<Dual<S>> : BitsOf<S> {};

// b where m, no bit elsewhere
FB_INLINE uint32_t bits_where(bool m, uint32_t b) { return m ? b : 0; }
FB_INLINE uint32_t select(bool m, uint32_t a, uint32_t b) { return m ? a : b; }
// whether any bit of b is set, and whether the bits of a field have a value
FB_INLINE bool has_bits(uint32_t x, uint32_t b) { return (x & b) != 0; }
FB_INLINE bool bits_are(uint32_t x, uint32_t field, uint32_t value) { return (x & field) == value; }
// the word of world k
FB_INLINE uint32_t bits_at(uint32_t x, int) { return x; }
FB_INLINE void set_bits(uint32_t& x, int, uint32_t b) { x = b; }

#ifndef __CUDACC__
template <class R>
struct BitsWord {
  using type = uint64_t;
};
template <>
struct BitsWord<float> {
  using type = uint32_t;
};
template <class R, int W>
struct LaneBits {
  using Word = typename BitsWord<R>::type;
  typedef Word V __attribute__((vector_size(W * sizeof(R))));
  V x;
  FB_INLINE LaneBits() {}
  FB_INLINE LaneBits(uint32_t b) : x(V{} + Word(b)) {}
  FB_INLINE explicit LaneBits(V v) : x(v) {}
  friend FB_INLINE LaneBits operator|(LaneBits a, LaneBits b) { return LaneBits(a.x | b.x); }
  friend FB_INLINE LaneBits operator<<(LaneBits a, int n) { return LaneBits(a.x << n); }
  friend FB_INLINE LaneBits operator>>(LaneBits a, int n) { return LaneBits(a.x >> n); }
  friend FB_INLINE LaneMask<R, W> operator==(LaneBits a, LaneBits b) {
    return LaneMask<R, W>((typename LaneMask<R, W>::V)(a.x == b.x));
  }
};
template <class R, int W>
struct BitsOf<Lane<R, W>> {
  using type = LaneBits<R, W>;
};
template <class R, int W>
FB_INLINE LaneBits<R, W> bits_where(LaneMask<R, W> m, uint32_t b) {
  using B = LaneBits<R, W>;
  return B((typename B::V)m.m & typename B::Word(b));
}
template <class R, int W>
FB_INLINE LaneBits<R, W> select(LaneMask<R, W> m, LaneBits<R, W> a, LaneBits<R, W> b) {
  return LaneBits<R, W>(m.m ? a.x : b.x);
}
template <class R, int W>
FB_INLINE LaneMask<R, W> has_bits(LaneBits<R, W> x, uint32_t b) {
  using B = LaneBits<R, W>;
  return !(B(x.x & typename B::Word(b)) == B(0));
}
template <class R, int W>
FB_INLINE LaneMask<R, W> bits_are(LaneBits<R, W> x, uint32_t field, uint32_t value) {
  using B = LaneBits<R, W>;
  return B(x.x & typename B::Word(field)) == B(value);
}
template <class R, int W>
FB_INLINE uint32_t bits_at(const LaneBits<R, W>& x, int k) {
  return uint32_t(x.x[k]);
}
template <class R, int W>
FB_INLINE void set_bits(LaneBits<R, W>& x, int k, uint32_t b) {
  x.x[k] = b;
}
#endif

// kind: which case of the pair function, and its small choices; id: numbers of faces, edges or
// vertices that need more room.  Each pair function says what its bits are; a slot whose number says
// all (a corner of a box on a plane) has none
inline constexpr int kFeatureIds = 2;
template <class T>
struct Feature {
  Bits<T> kind, id[kFeatureIds];
};
template <class T>
FB_INLINE Feature<T> make_feature(Bits<T> kind) {
  return {kind, {Bits<T>(0u), Bits<T>(0u)}};
}
template <class T>
FB_INLINE Feature<T> no_feature() {
  return make_feature<T>(Bits<T>(0u));
}

}  // namespace fb::FB_ISA
