// Small vectors, rotations, spatial motions and forces, rigid and articulated inertias; all in
// world-aligned axes about one origin. A is the wider of two number types in mixed products (T with
// a parameter type P).
#pragma once
#include "core/number/dual.hpp"

namespace fb::FB_ISA {

template <class T>
struct Vec3 {
  T x, y, z;
};
template <class T>
struct Mat3 {
  T a[9];  // row major
};
template <class T>
struct Sym3 {
  T xx, yy, zz, xy, xz, yz;
};
template <class T>
struct Motion {
  Vec3<T> ang, lin;
};
template <class T>
struct Force {
  Vec3<T> ang, lin;
};
// articulated inertia [[I, H], [H', M]]
template <class T>
struct Sym6 {
  Sym3<T> I;
  Mat3<T> H;
  Sym3<T> M;
};
// rigid inertia: mass, centre of mass, rotational inertia about the centre of mass
template <class T>
struct Inertia {
  T mass;
  Vec3<T> com;
  Sym3<T> Ic;
};
// cotangent of an Inertia in the coordinates in which a product is linear: mass, mass * com,
// inertia about the origin
template <class T>
struct InertiaBar {
  T mass;
  Vec3<T> mc;
  Sym3<T> Io;
};

template <class T>
FB_INLINE Vec3<T> zero3() {
  return {T(0), T(0), T(0)};
}
template <class T>
FB_INLINE Motion<T> zero_motion() {
  return {zero3<T>(), zero3<T>()};
}
template <class T>
FB_INLINE Force<T> zero_force() {
  return {zero3<T>(), zero3<T>()};
}

template <class T>
FB_INLINE Vec3<T> operator+(Vec3<T> a, Vec3<T> b) {
  return {a.x + b.x, a.y + b.y, a.z + b.z};
}
template <class T>
FB_INLINE Vec3<T> operator-(Vec3<T> a, Vec3<T> b) {
  return {a.x - b.x, a.y - b.y, a.z - b.z};
}
template <class T>
FB_INLINE Vec3<T> operator-(Vec3<T> a) {
  return {-a.x, -a.y, -a.z};
}
template <class T, class S>
FB_INLINE Vec3<T> operator*(Vec3<T> a, S s) {
  return {a.x * s, a.y * s, a.z * s};
}
// a s + b
template <class T>
FB_INLINE Vec3<T> mul_add(Vec3<T> a, T s, Vec3<T> b) {
  return {mul_add(a.x, s, b.x), mul_add(a.y, s, b.y), mul_add(a.z, s, b.z)};
}
template <class T>
FB_INLINE Vec3<T>& operator+=(Vec3<T>& a, Vec3<T> b) {
  return a = a + b;
}
template <class T>
FB_INLINE Vec3<T>& operator-=(Vec3<T>& a, Vec3<T> b) {
  return a = a - b;
}
template <class T>
FB_INLINE T dot(Vec3<T> a, Vec3<T> b) {
  return dot3(a.x, a.y, a.z, b.x, b.y, b.z);
}
template <class T>
FB_INLINE Vec3<T> cross(Vec3<T> a, Vec3<T> b) {
  return {det2(a.y, b.z, a.z, b.y), det2(a.z, b.x, a.x, b.z), det2(a.x, b.y, a.y, b.x)};
}
template <class T>
FB_INLINE T norm(Vec3<T> a) {
  return sqrt(dot(a, a));
}
template <class T>
FB_INLINE Vec3<T> select(Mask<T> m, Vec3<T> a, Vec3<T> b) {
  return {select(m, a.x, b.x), select(m, a.y, b.y), select(m, a.z, b.z)};
}
template <class T, class P>
FB_INLINE Vec3<T> lift3(const P* p) {
  return {T(p[0]), T(p[1]), T(p[2])};
}
template <class T>
FB_INLINE void put3(Vec3<T> x, T* out) {
  out[0] = x.x;
  out[1] = x.y;
  out[2] = x.z;
}
template <class T>
FB_INLINE void add3(Vec3<T> x, T* out) {
  out[0] += x.x;
  out[1] += x.y;
  out[2] += x.z;
}

// vectors with a tangent
template <class T>
FB_INLINE Vec3<Dual<T>> with_tangent(Vec3<T> x, Vec3<T> d) {
  return {{x.x, d.x}, {x.y, d.y}, {x.z, d.z}};
}
template <class T>
FB_INLINE Vec3<T> tangent_of(Vec3<Dual<T>> x) {
  return {x.x.d, x.y.d, x.z.d};
}
template <class T>
FB_INLINE Vec3<T> value_of(Vec3<Dual<T>> x) {
  return {x.x.v, x.y.v, x.z.v};
}

// R v and R' v, with R in T and v in T or a parameter type
template <class T, class P>
FB_INLINE Vec3<T> mul(const Mat3<T>& R, Vec3<P> v) {
  return {dot3(R.a[0], R.a[1], R.a[2], v.x, v.y, v.z), dot3(R.a[3], R.a[4], R.a[5], v.x, v.y, v.z),
          dot3(R.a[6], R.a[7], R.a[8], v.x, v.y, v.z)};
}
// R v + p
template <class T, class P>
FB_INLINE Vec3<T> mul_add(const Mat3<T>& R, Vec3<P> v, Vec3<T> p) {
  return {mul_add(R.a[0], T(v.x), mul_add(R.a[1], T(v.y), mul_add(R.a[2], T(v.z), p.x))),
          mul_add(R.a[3], T(v.x), mul_add(R.a[4], T(v.y), mul_add(R.a[5], T(v.z), p.y))),
          mul_add(R.a[6], T(v.x), mul_add(R.a[7], T(v.y), mul_add(R.a[8], T(v.z), p.z)))};
}
template <class T, class P>
FB_INLINE Vec3<T> mul_transposed(const Mat3<T>& R, Vec3<P> v) {
  return {dot3(R.a[0], R.a[3], R.a[6], v.x, v.y, v.z), dot3(R.a[1], R.a[4], R.a[7], v.x, v.y, v.z),
          dot3(R.a[2], R.a[5], R.a[8], v.x, v.y, v.z)};
}
template <class T>
FB_INLINE Vec3<T> mul(const Sym3<T>& A, Vec3<T> v) {
  return {dot3(A.xx, A.xy, A.xz, v.x, v.y, v.z), dot3(A.xy, A.yy, A.yz, v.x, v.y, v.z),
          dot3(A.xz, A.yz, A.zz, v.x, v.y, v.z)};
}
template <class T, class P>
FB_INLINE Mat3<T> mul(const Mat3<T>& A, const P* B) {
  Mat3<T> C;
#pragma GCC unroll 3
  for (int r = 0; r < 3; ++r)
#pragma GCC unroll 3
    for (int c = 0; c < 3; ++c)
      C.a[3 * r + c] = dot3(A.a[3 * r], A.a[3 * r + 1], A.a[3 * r + 2], B[c], B[3 + c], B[6 + c]);
  return C;
}
// A' B
template <class T>
FB_INLINE Mat3<T> mul_transposed(const Mat3<T>& A, const Mat3<T>& B) {
  Mat3<T> C;
  for (int r = 0; r < 3; ++r)
    for (int c = 0; c < 3; ++c)
      C.a[3 * r + c] = dot3(A.a[r], A.a[3 + r], A.a[6 + r], B.a[c], B.a[3 + c], B.a[6 + c]);
  return C;
}
template <class T>
FB_INLINE Vec3<T> column(const Mat3<T>& R, int c) {
  return {R.a[c], R.a[3 + c], R.a[6 + c]};
}
template <class T>
FB_INLINE Mat3<T> identity3() {
  return {{T(1), T(0), T(0), T(0), T(1), T(0), T(0), T(0), T(1)}};
}

// rotation matrix of a unit quaternion wxyz
template <class T>
FB_INLINE Mat3<T> rotation(T w, T x, T y, T z) {
  const T x2 = x + x, y2 = y + y, z2 = z + z;
  const T xx = x * x2, yy = y * y2, zz = z * z2, xy = x * y2, xz = x * z2, yz = y * z2;
  const T wx = w * x2, wy = w * y2, wz = w * z2;
  return {{T(1) - (yy + zz), xy - wz, xz + wy, xy + wz, T(1) - (xx + zz), yz - wx, xz - wy, yz + wx,
           T(1) - (xx + yy)}};
}

#define FB_SIX(S)                                                \
  template <class T>                                             \
  FB_INLINE S<T> operator+(S<T> a, S<T> b) {                     \
    return {a.ang + b.ang, a.lin + b.lin};                       \
  }                                                              \
  template <class T>                                             \
  FB_INLINE S<T> operator-(S<T> a, S<T> b) {                     \
    return {a.ang - b.ang, a.lin - b.lin};                       \
  }                                                              \
  template <class T>                                             \
  FB_INLINE S<T> operator-(S<T> a) {                             \
    return {-a.ang, -a.lin};                                     \
  }                                                              \
  template <class T>                                             \
  FB_INLINE S<T> operator*(S<T> a, T s) {                        \
    return {a.ang * s, a.lin * s};                               \
  }                                                              \
  template <class T>                                             \
  FB_INLINE S<T> mul_add(S<T> a, T s, S<T> b) {                  \
    return {mul_add(a.ang, s, b.ang), mul_add(a.lin, s, b.lin)}; \
  }                                                              \
  template <class T>                                             \
  FB_INLINE S<T>& operator+=(S<T>& a, S<T> b) {                  \
    return a = a + b;                                            \
  }                                                              \
  template <class T>                                             \
  FB_INLINE S<T>& operator-=(S<T>& a, S<T> b) {                  \
    return a = a - b;                                            \
  }                                                              \
  template <class T>                                             \
  FB_INLINE S<T> select(Mask<T> m, S<T> a, S<T> b) {             \
    return {select(m, a.ang, b.ang), select(m, a.lin, b.lin)};   \
  }
FB_SIX(Motion)
FB_SIX(Force)
#undef FB_SIX

// power, v x m, v x* f
template <class T>
FB_INLINE T dot(Motion<T> v, Force<T> f) {
  return mul_add(v.ang.x, f.ang.x,
                 mul_add(v.ang.y, f.ang.y, mul_add(v.ang.z, f.ang.z, dot(v.lin, f.lin))));
}
template <class T>
FB_INLINE Motion<T> cross(Motion<T> v, Motion<T> m) {
  return {cross(v.ang, m.ang), cross(v.ang, m.lin) + cross(v.lin, m.ang)};
}
template <class T>
FB_INLINE Force<T> cross(Motion<T> v, Force<T> f) {
  return {cross(v.ang, f.ang) + cross(v.lin, f.lin), cross(v.ang, f.lin)};
}

template <class T>
FB_INLINE Force<T> operator*(const Inertia<T>& I, Motion<T> v) {
  const Vec3<T> l = (v.lin + cross(v.ang, I.com)) * I.mass;
  return {mul(I.Ic, v.ang) + cross(I.com, l), l};
}
template <class T>
FB_INLINE Force<T> operator*(const Sym6<T>& A, Motion<T> v) {
  return {mul(A.I, v.ang) + mul(A.H, v.lin), mul_transposed(A.H, v.ang) + mul(A.M, v.lin)};
}
template <class T>
FB_INLINE void add(Sym3<T>& A, const Sym3<T>& B) {
  A.xx += B.xx;
  A.yy += B.yy;
  A.zz += B.zz;
  A.xy += B.xy;
  A.xz += B.xz;
  A.yz += B.yz;
}
template <class T>
FB_INLINE void add(Sym6<T>& A, const Sym6<T>& B) {
  add(A.I, B.I);
  add(A.M, B.M);
#pragma GCC unroll 9
  for (int e = 0; e < 9; ++e) A.H.a[e] += B.H.a[e];
}
template <class T>
FB_INLINE void subtract_outer(Sym3<T>& A, Vec3<T> u, Vec3<T> k) {
  A.xx = sub_mul(A.xx, u.x, k.x);
  A.yy = sub_mul(A.yy, u.y, k.y);
  A.zz = sub_mul(A.zz, u.z, k.z);
  A.xy = sub_mul(A.xy, u.x, k.y);
  A.xz = sub_mul(A.xz, u.x, k.z);
  A.yz = sub_mul(A.yz, u.y, k.z);
}
// A -= U K', with K parallel to U
template <class T>
FB_INLINE void subtract_outer(Sym6<T>& A, Force<T> U, Force<T> K) {
  subtract_outer(A.I, U.ang, K.ang);
  subtract_outer(A.M, U.lin, K.lin);
  const T u[3] = {U.ang.x, U.ang.y, U.ang.z}, k[3] = {K.lin.x, K.lin.y, K.lin.z};
#pragma GCC unroll 3
  for (int r = 0; r < 3; ++r)
#pragma GCC unroll 3
    for (int c = 0; c < 3; ++c) A.H.a[3 * r + c] = sub_mul(A.H.a[3 * r + c], u[r], k[c]);
}
// the 6x6 matrix of a rigid inertia about the origin
template <class T>
FB_INLINE Sym6<T> dense(const Inertia<T>& B) {
  const Vec3<T> c = B.com, h = c * B.mass;
  const T o = T(0), m = B.mass;
  return {
      {mul_add(h.y, c.y, mul_add(h.z, c.z, B.Ic.xx)), mul_add(h.x, c.x, mul_add(h.z, c.z, B.Ic.yy)),
       mul_add(h.x, c.x, mul_add(h.y, c.y, B.Ic.zz)), sub_mul(B.Ic.xy, h.x, c.y),
       sub_mul(B.Ic.xz, h.x, c.z), sub_mul(B.Ic.yz, h.y, c.z)},
      {{o, -h.z, h.y, h.z, o, -h.x, -h.y, h.x, o}},
      {m, m, m, o, o, o}};
}
// R J R' for a symmetric J given as (xx, yy, zz, xy, xz, yz)
template <class T, class P>
FB_INLINE Sym3<T> rotate(const Mat3<T>& R, const P* J) {
  T P9[9];
#pragma GCC unroll 3
  for (int r = 0; r < 3; ++r) {
    P9[3 * r] = dot3(R.a[3 * r], R.a[3 * r + 1], R.a[3 * r + 2], J[0], J[3], J[4]);
    P9[3 * r + 1] = dot3(R.a[3 * r], R.a[3 * r + 1], R.a[3 * r + 2], J[3], J[1], J[5]);
    P9[3 * r + 2] = dot3(R.a[3 * r], R.a[3 * r + 1], R.a[3 * r + 2], J[4], J[5], J[2]);
  }
  const auto e = [&](int a, int b) {
    return dot3(P9[3 * a], P9[3 * a + 1], P9[3 * a + 2], R.a[3 * b], R.a[3 * b + 1],
                R.a[3 * b + 2]);
  };
  return {e(0, 0), e(1, 1), e(2, 2), e(0, 1), e(0, 2), e(1, 2)};
}
// add d<x, I y> / d(mass, mc, Io): the product is linear in these ten numbers
template <class T>
FB_INLINE void add_pairing(InertiaBar<T>& I_bar, Motion<T> x, Motion<T> y) {
  I_bar.mass += dot(x.lin, y.lin);
  I_bar.mc += cross(y.lin, x.ang) - cross(y.ang, x.lin);
  I_bar.Io.xx += x.ang.x * y.ang.x;
  I_bar.Io.yy += x.ang.y * y.ang.y;
  I_bar.Io.zz += x.ang.z * y.ang.z;
  I_bar.Io.xy += x.ang.x * y.ang.y + x.ang.y * y.ang.x;
  I_bar.Io.xz += x.ang.x * y.ang.z + x.ang.z * y.ang.x;
  I_bar.Io.yz += x.ang.y * y.ang.z + x.ang.z * y.ang.y;
}

// acceleration of a point p of a link
template <class T>
FB_INLINE Vec3<T> point_acceleration(Motion<T> v, Motion<T> a, Vec3<T> p) {
  return a.lin + cross(a.ang, p) + cross(v.ang, v.lin + cross(v.ang, p));
}
// given its cotangent Y and that of the point's velocity V, add to those of twist and acceleration;
// return that of the point
template <class T>
FB_INLINE Vec3<T> point_acceleration_adjoint(Motion<T> v, Motion<T> a, Vec3<T> p, Vec3<T> Y,
                                             Vec3<T> V, Force<T>& v_bar, Force<T>& a_bar) {
  const Vec3<T> u = v.lin + cross(v.ang, p), u_bar = cross(Y, v.ang) + V;
  a_bar += Force<T>{cross(p, Y), Y};
  v_bar += Force<T>{cross(p, u_bar) + cross(u, Y), u_bar};
  return cross(Y, a.ang) + cross(u_bar, v.ang);
}

}  // namespace fb::FB_ISA
