// Positions on the manifold: q+ = q (+) h v+.  Proof: docs/derivations/integrate.md.
#pragma once
#include "core/dynamics/kinematics.hpp"

namespace fb::FB_ISA {

// (I.1)  cos(|x|/2) and sin(|x|/2)/|x| for a rotation vector x given x.x
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

// (I.2)  u+ = normalised(q) exp(h w), w in body axes, normalised again
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

// cotangent of q / |q|
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
// (I.4)  given c_bar and k_bar, the cotangent of x.x: dc = -k/4, dk = (c/2 - k) / (2 x.x), as a
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
// (I.5)  given out_bar, add to q_bar (ambient, 4), w_bar and h_bar
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

// (I.3)  all joints
template <class T, class P>
FB_FN void integrate(const Layout& s, const T* q, const T* v, P h, T* out) {
  for (int l = 1; l < s.nlink; ++l) {
    const int qa = s.link_qadr[l], da = s.link_dof[l], type = s.link_type[l];
    if (type == kHinge || type == kSlide) {
      out[qa] = q[qa] + v[da] * h;
      continue;
    }
    const int turn = type == kFree ? 3 : 0;
    for (int i = 0; i < turn; ++i) out[qa + i] = q[qa + i] + v[da + i] * h;
    integrate_quat(q + qa + turn, v + da + turn, h, out + qa + turn);
  }
}
// (I.6)  given out_bar (ambient, nq), add to q_bar (ambient), v_bar and h_bar
template <class T, class P>
FB_FN void integrate_adjoint(const Layout& s, const T* q, const T* v, P h, const T* out_bar,
                             T* q_bar, T* v_bar, T& h_bar) {
  for (int l = 1; l < s.nlink; ++l) {
    const int qa = s.link_qadr[l], da = s.link_dof[l], type = s.link_type[l];
    const int flat = type == kFree ? 3 : type == kBall ? 0 : 1;
    for (int i = 0; i < flat; ++i) {
      q_bar[qa + i] += out_bar[qa + i];
      v_bar[da + i] += out_bar[qa + i] * h;
      h_bar += out_bar[qa + i] * v[da + i];
    }
    if (type == kHinge || type == kSlide) continue;
    integrate_quat_adjoint(q + qa + flat, v + da + flat, h, out_bar + qa + flat, q_bar + qa + flat,
                           v_bar + da + flat, h_bar);
  }
}

// (I.7)  a tangent cotangent (nv) as an ambient one
// (nq): identity, and 2 u (0, t) / |q| on quaternions
template <class T>
FB_FN void lift_tangent(const Layout& s, const T* q, const T* tangent, T* q_bar) {
  for (int l = 1; l < s.nlink; ++l) {
    const int qa = s.link_qadr[l], da = s.link_dof[l], type = s.link_type[l];
    const int flat = type == kFree ? 3 : type == kBall ? 0 : 1;
    for (int i = 0; i < flat; ++i) q_bar[qa + i] += tangent[da + i];
    if (type == kHinge || type == kSlide) continue;
    const T* t = tangent + da + flat;
    add_quat_bar(q + qa + flat, Vec3<T>{t[0], t[1], t[2]}, q_bar + qa + flat);
  }
}
// (I.8)  the tangent cotangent (nv) of an ambient one (nq):
// identity, and vec(conj(q) q_bar) / 2 on quaternions
template <class T>
FB_FN void lower_tangent(const Layout& s, const T* q, const T* q_bar, T* tangent) {
  for (int l = 1; l < s.nlink; ++l) {
    const int qa = s.link_qadr[l], da = s.link_dof[l], type = s.link_type[l];
    const int flat = type == kFree ? 3 : type == kBall ? 0 : 1;
    for (int i = 0; i < flat; ++i) tangent[da + i] = q_bar[qa + i];
    if (type == kHinge || type == kSlide) continue;
    const T *x = q + qa + flat, *b = q_bar + qa + flat;
    const Quat<T> t = mul(conj(Quat<T>{x[0], x[1], x[2], x[3]}), Quat<T>{b[0], b[1], b[2], b[3]});
    tangent[da + flat] = t.x * Real<T>(0.5);
    tangent[da + flat + 1] = t.y * Real<T>(0.5);
    tangent[da + flat + 2] = t.z * Real<T>(0.5);
  }
}

}  // namespace fb::FB_ISA
