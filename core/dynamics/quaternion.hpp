// Unit quaternions of ball and free joints: products, rotation vectors, integration, and their
// adjoints.  Proof: docs/derivations/quaternion.md.
#pragma once
#include "core/dynamics/spatial.hpp"

namespace fb::FB_ISA {

template <class T>
struct Quat {
  T w, x, y, z;
};
template <class T>
FB_INLINE Quat<T> mul(Quat<T> a, Quat<T> b) {
  return {
      a.w * b.w - a.x * b.x - a.y * b.y - a.z * b.z, a.w * b.x + a.x * b.w + a.y * b.z - a.z * b.y,
      a.w * b.y - a.x * b.z + a.y * b.w + a.z * b.x, a.w * b.z + a.x * b.y - a.y * b.x + a.z * b.w};
}
template <class T>
FB_INLINE Quat<T> conj(Quat<T> a) {
  return {a.w, -a.x, -a.y, -a.z};
}

// (Q.1)  q / |q|
template <class T>
FB_INLINE Quat<T> normalised(const T* q) {
  const T n = sqrt(q[0] * q[0] + q[1] * q[1] + q[2] * q[2] + q[3] * q[3]);
  const T i = T(1) / n;
  return {q[0] * i, q[1] * i, q[2] * i, q[3] * i};
}
// (Q.2)  given u_bar, add to q_bar
template <class T>
FB_INLINE void normalised_adjoint(const T* q, Quat<T> u_bar, T* q_bar) {
  const Quat<T> u = normalised(q);
  const T n = sqrt(q[0] * q[0] + q[1] * q[1] + q[2] * q[2] + q[3] * q[3]);
  const T along = u.w * u_bar.w + u.x * u_bar.x + u.y * u_bar.y + u.z * u_bar.z;
  q_bar[0] += (u_bar.w - u.w * along) / n;
  q_bar[1] += (u_bar.x - u.x * along) / n;
  q_bar[2] += (u_bar.y - u.y * along) / n;
  q_bar[3] += (u_bar.z - u.z * along) / n;
}

// (Q.3)  cos(|x|/2) and sin(|x|/2)/|x| for a rotation vector x given x.x
template <class T>
FB_INLINE void half_angle(T x2, T& c, T& k) {
  using R = Real<T>;
  const Mask<T> small = x2 < T(R(1e-6));
  const T n = sqrt(select(small, T(1), x2));
  T s;
  sincos(n * R(0.5), s, c);
  k = select(small, T(R(0.5)) - x2 * R(1.0 / 48.0) + x2 * x2 * R(1.0 / 3840.0), s / n);
  c = select(small, T(1) - x2 * R(0.125) + x2 * x2 * R(1.0 / 384.0), c);
}
// (Q.4)  given c_bar and k_bar, the cotangent of x.x: dc = -k/4, dk = (c/2 - k) / (2 x.x), as a
// series near zero
template <class T>
FB_INLINE T half_angle_adjoint(T x2, T c_bar, T k_bar) {
  using R = Real<T>;
  T c, k;
  half_angle(x2, c, k);
  const Mask<T> small = x2 < T(R(1e-6));
  const T series = T(R(-1.0 / 48.0)) + x2 * R(1.0 / 1920.0);
  const T dk = select(small, series, (c * R(0.5) - k) / select(small, T(1), x2 * R(2)));
  return dk * k_bar - k * c_bar * R(0.25);
}

// (Q.5)  u+ = normalised(q) exp(h w), w in body axes, normalised again
template <class T, class P>
FB_INLINE void integrate_quat(const T* q, const T* w, P h, T* out) {
  const Quat<T> u = normalised(q);
  const Vec3<T> x{w[0] * h, w[1] * h, w[2] * h};
  T c, k;
  half_angle(dot(x, x), c, k);
  const Quat<T> r = mul(u, Quat<T>{c, x.x * k, x.y * k, x.z * k});
  const T y[4] = {r.w, r.x, r.y, r.z};
  const Quat<T> v = normalised(y);
  out[0] = v.w;
  out[1] = v.x;
  out[2] = v.y;
  out[3] = v.z;
}
// (Q.6)  given out_bar, add to q_bar (ambient, 4), w_bar and h_bar
template <class T, class P>
FB_INLINE void integrate_quat_adjoint(const T* q, const T* w, P h, const T* out_bar, T* q_bar,
                                      T* w_bar, T& h_bar) {
  const Quat<T> u = normalised(q);
  const Vec3<T> x{w[0] * h, w[1] * h, w[2] * h};
  T c, k;
  half_angle(dot(x, x), c, k);
  const Quat<T> e{c, x.x * k, x.y * k, x.z * k}, r = mul(u, e);
  const T y[4] = {r.w, r.x, r.y, r.z};
  T y_bar[4] = {T(0), T(0), T(0), T(0)};
  normalised_adjoint(y, Quat<T>{out_bar[0], out_bar[1], out_bar[2], out_bar[3]}, y_bar);
  // <r_bar, u e> = <r_bar conj(e), u> = <conj(u) r_bar, e>
  const Quat<T> r_bar{y_bar[0], y_bar[1], y_bar[2], y_bar[3]};
  normalised_adjoint(q, mul(r_bar, conj(e)), q_bar);
  const Quat<T> e_bar = mul(conj(u), r_bar);
  const Vec3<T> ev{e_bar.x, e_bar.y, e_bar.z};
  const T x2_bar = half_angle_adjoint(dot(x, x), e_bar.w, dot(x, ev));
  const Vec3<T> x_bar = ev * k + x * (x2_bar * Real<T>(2));
  w_bar[0] += x_bar.x * h;
  w_bar[1] += x_bar.y * h;
  w_bar[2] += x_bar.z * h;
  h_bar += x_bar.x * w[0] + x_bar.y * w[1] + x_bar.z * w[2];
}

// the unit quaternion of a rotation matrix, scalar first; its sign is free
template <class T>
struct Quaternion {
  T s;
  Vec3<T> v;
};
template <class T>
FB_FN Quaternion<T> quaternion_of(const Mat3<T>& R) {
  const T* a = R.a;
  const T one = T(1), quarter = T(Real<T>(0.25));
  // four times the squares; the largest is divided by
  const T x[4] = {one + a[0] + a[4] + a[8], one + a[0] - a[4] - a[8], one - a[0] + a[4] - a[8],
                  one - a[0] - a[4] + a[8]};
  const T sx = a[7] - a[5], sy = a[2] - a[6], sz = a[3] - a[1];
  const T xy = a[1] + a[3], xz = a[2] + a[6], yz = a[5] + a[7];
  const Mask<T> use_s = (x[0] >= x[1]) & (x[0] >= x[2]) & (x[0] >= x[3]);
  const Mask<T> use_x = (x[1] >= x[2]) & (x[1] >= x[3]), use_y = x[2] >= x[3];
  const auto pick = [&](T s, T i, T j, T k) {
    return select(use_s, s, select(use_x, i, select(use_y, j, k)));
  };
  const T largest = pick(x[0], x[1], x[2], x[3]), scale = sqrt(quarter / largest);
  return {pick(x[0], sx, sy, sz) * scale,
          {pick(sx, x[1], xy, xz) * scale, pick(sy, xy, x[2], yz) * scale,
           pick(sz, xz, yz, x[3]) * scale}};
}
// given the cotangents of Q, that of a turn gamma of R in the axes of its rows: dQ = 1/2 (0, gamma) Q
template <class T>
FB_INLINE Vec3<T> quaternion_of_adjoint(const Quaternion<T>& Q, T s_bar, Vec3<T> v_bar) {
  return (v_bar * Q.s + cross(Q.v, v_bar) - Q.v * s_bar) * T(Real<T>(0.5));
}
// (Q.7)  rotation vector of a unit quaternion: the shorter way round, smooth at zero, (0, 0, 0) at
// the identity
template <class T>
FB_INLINE Vec3<T> log_quat(Quat<T> u) {
  using R = Real<T>;
  const T flip = select(u.w < T(0), T(-1), T(1));
  const Vec3<T> v = Vec3<T>{u.x, u.y, u.z} * flip;
  const T w = u.w * flip;
  const T n2 = dot(v, v);
  const Mask<T> small = n2 < T(R(1e-8));
  const T n = sqrt(select(small, T(1), n2));
  const T series = (T(2) - n2 * R(2.0 / 3.0) / (w * w)) / w;
  return v * select(small, series, atan2_upper(n, w) * R(2) / n);
}
// (Q.8)  cotangent of a rotation vector e as one of a small turn: J' e_bar = e_bar + side e x e_bar
// / 2 + k e x (e x e_bar) with k = (1 - (a/2) cot(a/2)) / a^2; side -1 for a turn on the right
// (body axes), +1 on the left (world axes)
template <class T>
FB_FN Vec3<T> log_adjoint(Vec3<T> e, Vec3<T> e_bar, int side) {
  using R = Real<T>;
  const T a2 = dot(e, e);
  const Mask<T> small = a2 < T(R(1e-4));
  const T half = sqrt(select(small, T(1), a2)) * R(0.5);
  T s, c;
  sincos(half, s, c);
  const T series = T(R(1.0 / 12.0)) + a2 * R(1.0 / 720.0) + a2 * a2 * R(1.0 / 30240.0);
  const T k = select(small, series, (T(1) - half * c / s) / select(small, T(1), a2));
  const Vec3<T> x = cross(e, e_bar);
  return e_bar + x * R(0.5 * side) + cross(e, x) * k;
}
// (Q.9)  ambient cotangent of an unnormalised quaternion that pairs as t does with a turn in body axes
template <class T, class P>
FB_INLINE void add_quat_bar(const P* quat, Vec3<T> t, T* quat_bar) {
  const T x[4] = {T(quat[0]), T(quat[1]), T(quat[2]), T(quat[3])};
  const T f = T(2) / sqrt(x[0] * x[0] + x[1] * x[1] + x[2] * x[2] + x[3] * x[3]);
  const Quat<T> g = mul(normalised(x), Quat<T>{T(0), t.x, t.y, t.z});
  quat_bar[0] += g.w * f;
  quat_bar[1] += g.x * f;
  quat_bar[2] += g.y * f;
  quat_bar[3] += g.z * f;
}
// (Q.10)  the cotangent of a turn in body axes that pairs as an ambient one does with its quaternion
template <class T>
FB_INLINE Vec3<T> turn_bar(const T* quat, const T* quat_bar) {
  const Quat<T> t = mul(conj(Quat<T>{quat[0], quat[1], quat[2], quat[3]}),
                        Quat<T>{quat_bar[0], quat_bar[1], quat_bar[2], quat_bar[3]});
  return {t.x * Real<T>(0.5), t.y * Real<T>(0.5), t.z * Real<T>(0.5)};
}

}  // namespace fb::FB_ISA
