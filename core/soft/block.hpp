// The force of one group of rows under MuJoCo's law, f = -ds/dy with y = J a - aref, the Hessian of s
// and the adjoint of f.  Proof: docs/derivations/soft.md.
#pragma once
#include "core/soft/impedance.hpp"

namespace fb::FB_ISA {

// rows of one group: a contact of condim 6 has the most
inline constexpr int kSoftRows = 6;
enum SoftKind : int { kSoftEquality, kSoftFriction, kSoftOneSided, kSoftEllipse, kSoftPyramid };

// stiffness D = 1 / R of the first row; friction coefficients of a contact's other rows; dry
// friction; ratio: impratio
template <class T>
struct SoftBlock {
  int kind, rows;
  T D, mu[kSoftRows - 1], loss;
  Real<T> ratio;
};
template <class T>
struct SoftBlockBar {
  T D, mu[kSoftRows - 1], loss;
};

// (S.3)  an elliptic contact in the coordinates u = c y, c = (mu, mu_1 ..), mu = mu_1 / sqrt(ratio):
// s = E / 2 |r|^2, r = u - (u projected on the cone N >= mu T), E = D / mu^2
template <class T>
struct ConeResidual {
  T mu, E, N, length, rho, scale;  // slides: r = rho n, n = (1, -mu t); scale = 1 / (1 + mu^2)
  T c[kSoftRows], u[kSoftRows], r[kSoftRows], t[kSoftRows];
  Mask<T> sticks, slides;
};
template <class T>
FB_INLINE ConeResidual<T> cone_residual(const SoftBlock<T>& b, const T* y) {
  ConeResidual<T> x;
  const T zero = T(0), one = T(1);
  x.mu = b.mu[0] * (Real<T>(1) / sqrt(b.ratio));
  x.E = b.D / (x.mu * x.mu);
  x.c[0] = x.mu;
  x.u[0] = x.N = x.mu * y[0];
  T square = zero;
  for (int i = 1; i < b.rows; ++i) {
    x.c[i] = b.mu[i - 1];
    x.u[i] = b.mu[i - 1] * y[i];
    square = mul_add(x.u[i], x.u[i], square);
  }
  x.length = sqrt(square);
  const Mask<T> free = x.N >= x.mu * x.length;
  x.sticks = (!free) & (x.mu * x.N + x.length <= zero);
  x.slides = !(free | x.sticks);
  x.scale = one / mul_add(x.mu, x.mu, one);
  x.rho = (x.N - x.mu * x.length) * x.scale;
  const T inverse = one / select(x.slides, x.length, one);
  x.r[0] = select(x.sticks, x.N, select(x.slides, x.rho, zero));
  for (int i = 1; i < b.rows; ++i) {
    x.t[i] = x.u[i] * inverse;
    x.r[i] = select(x.sticks, x.u[i], select(x.slides, -(x.rho * x.mu * x.t[i]), zero));
  }
  return x;
}
// (dr / du) q, symmetric
template <class T>
FB_INLINE void cone_slope(const ConeResidual<T>& x, int rows, const T* q, T* out) {
  const T zero = T(0);
  T along = zero;
  for (int i = 1; i < rows; ++i) along = mul_add(x.t[i], q[i], along);
  const T nq = (q[0] - x.mu * along) * x.scale;
  const T turn = -(x.rho * x.mu) / select(x.slides, x.length, T(1));
  out[0] = select(x.sticks, q[0], select(x.slides, nq, zero));
  for (int i = 1; i < rows; ++i) {
    const T slide = turn * (q[i] - x.t[i] * along) - x.mu * x.t[i] * nq;
    out[i] = select(x.sticks, q[i], select(x.slides, slide, zero));
  }
}

// (S.4)  the edges of a pyramid, y_0 +- mu_k y_k, each with stiffness D
template <class T>
struct EdgePair {
  T up, down;  // min(0, y_0 +- mu_k y_k)
  T up_on, down_on;
};
template <class T>
FB_INLINE EdgePair<T> edge_pair(const SoftBlock<T>& b, const T* y, int k) {
  const T zero = T(0), one = T(1), side = b.mu[k - 1] * y[k];
  const T up = y[0] + side, down = y[0] - side;
  return {select(up < zero, up, zero), select(down < zero, down, zero),
          select(up < zero, one, zero), select(down < zero, one, zero)};
}

// (S.5)  f = -ds/dy
template <class T>
FB_INLINE void soft_force(const SoftBlock<T>& b, const T* y, T* f) {
  const T zero = T(0);
  if (b.kind == kSoftEquality) {
    for (int i = 0; i < b.rows; ++i) f[i] = -(b.D * y[i]);
  } else if (b.kind == kSoftFriction) {
    f[0] = clamp(-(b.D * y[0]), -b.loss, b.loss);
  } else if (b.kind == kSoftOneSided) {
    f[0] = select(y[0] < zero, -(b.D * y[0]), zero);
  } else if (b.kind == kSoftEllipse) {
    const ConeResidual<T> x = cone_residual(b, y);
    for (int i = 0; i < b.rows; ++i) f[i] = -(x.E * x.c[i] * x.r[i]);
  } else {
    f[0] = zero;
    for (int k = 1; k < b.rows; ++k) {
      const EdgePair<T> e = edge_pair(b, y, k);
      f[0] -= b.D * (e.up + e.down);
      f[k] = -(b.D * b.mu[k - 1] * (e.up - e.down));
    }
  }
}
// (S.6)  out = S z, S = -df/dy at y, positive semidefinite
template <class T>
FB_INLINE void soft_stiffness(const SoftBlock<T>& b, const T* y, const T* z, T* out) {
  const T zero = T(0);
  if (b.kind == kSoftEquality) {
    for (int i = 0; i < b.rows; ++i) out[i] = b.D * z[i];
  } else if (b.kind == kSoftFriction) {
    out[0] = select(abs(b.D * y[0]) < b.loss, b.D * z[0], zero);
  } else if (b.kind == kSoftOneSided) {
    out[0] = select(y[0] < zero, b.D * z[0], zero);
  } else if (b.kind == kSoftEllipse) {
    const ConeResidual<T> x = cone_residual(b, y);
    T q[kSoftRows], s[kSoftRows];
    for (int i = 0; i < b.rows; ++i) q[i] = x.c[i] * z[i];
    cone_slope(x, b.rows, q, s);
    for (int i = 0; i < b.rows; ++i) out[i] = x.E * x.c[i] * s[i];
  } else {
    out[0] = zero;
    for (int k = 1; k < b.rows; ++k) {
      const EdgePair<T> e = edge_pair(b, y, k);
      const T side = b.mu[k - 1] * z[k];
      const T up = b.D * e.up_on * (z[0] + side), down = b.D * e.down_on * (z[0] - side);
      out[0] += up + down;
      out[k] = b.mu[k - 1] * (up - down);
    }
  }
}

// (S.7)  given f_bar, set y_bar and add to the cotangents of D, friction and dry friction
template <class T>
FB_FN void soft_force_adjoint(const SoftBlock<T>& b, const T* y, const T* f_bar, T* y_bar,
                              SoftBlockBar<T>& bar) {
  const T zero = T(0);
  soft_stiffness(b, y, f_bar, y_bar);
  for (int i = 0; i < b.rows; ++i) y_bar[i] = -y_bar[i];
  if (b.kind == kSoftEquality) {
    for (int i = 0; i < b.rows; ++i) bar.D -= y[i] * f_bar[i];
  } else if (b.kind == kSoftFriction) {
    const T raw = -(b.D * y[0]);
    const Mask<T> held = abs(raw) < b.loss;
    bar.D -= select(held, y[0] * f_bar[0], zero);
    bar.loss += select(held, zero, select(raw > zero, f_bar[0], -f_bar[0]));
  } else if (b.kind == kSoftOneSided) {
    bar.D -= select(y[0] < zero, y[0] * f_bar[0], zero);
  } else if (b.kind == kSoftEllipse) {
    cone_force_adjoint(b, y, f_bar, y_bar, bar);
  } else {
    for (int k = 1; k < b.rows; ++k) {
      const EdgePair<T> e = edge_pair(b, y, k);
      const T mu = b.mu[k - 1], sum = e.up + e.down, side = e.up - e.down;
      bar.D -= sum * f_bar[0] + mu * side * f_bar[k];
      // f_0 = -D (up + down), f_k = -D mu (up - down), up and down by mu: +-y_k where they are on
      const T up_bar = -(b.D * (f_bar[0] + mu * f_bar[k])) * e.up_on,
              down_bar = -(b.D * (f_bar[0] - mu * f_bar[k])) * e.down_on;
      bar.mu[k - 1] += (up_bar - down_bar) * y[k] - b.D * side * f_bar[k];
    }
  }
}
// the part of an ellipse that is not y_bar
template <class T>
FB_FN void cone_force_adjoint(const SoftBlock<T>& b, const T* y, const T* f_bar, const T* y_bar,
                              SoftBlockBar<T>& bar) {
  const ConeResidual<T> x = cone_residual(b, y);
  const T zero = T(0);
  // f = -E c r(u; mu), u = c y: y_bar = c u_bar
  T E_bar = zero, mu_bar = zero;
  T rq = zero, tq = zero;
  for (int i = 0; i < b.rows; ++i) {
    E_bar -= x.c[i] * x.r[i] * f_bar[i];
    const T q = -(x.E * x.c[i] * f_bar[i]);
    if (i == 0)
      rq = q;
    else
      tq = mul_add(x.t[i], q, tq);
    const T c_bar = y_bar[i] / x.c[i] * y[i] - x.E * x.r[i] * f_bar[i];
    if (i == 0)
      mu_bar += c_bar;
    else
      bar.mu[i - 1] += c_bar;
  }
  // r = rho n by mu: rho' n + rho (0, -t)
  const T rho_mu = -(x.length + x.mu * x.rho * Real<T>(2)) * x.scale;
  mu_bar += select(x.slides, rho_mu * (rq - x.mu * tq) - x.rho * tq, zero);
  // E = D / mu^2, mu = mu_1 / sqrt(ratio)
  bar.D += E_bar / (x.mu * x.mu);
  mu_bar -= E_bar * x.E / x.mu * Real<T>(2);
  bar.mu[0] += mu_bar * (Real<T>(1) / sqrt(b.ratio));
}

}  // namespace fb::FB_ISA
