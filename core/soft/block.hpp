// The force of one group of rows under MuJoCo's law, f = -ds/dy with y = J a - aref, the Hessian of s
// and the adjoint of f.  Proof: docs/derivations/soft.md.
#pragma once
#include "core/soft/impedance.hpp"

namespace fb::FB_ISA {

// rows of one group: a contact of condim 6 has the most
inline constexpr int kSoftRows = 6;
enum SoftKind : int { kSoftEquality, kSoftFriction, kSoftOneSided, kSoftEllipse, kSoftPyramid };

// stiffness D = 1 / R of the first row; friction coefficients of a contact's other rows; dry
// friction; root: 1 / sqrt(impratio)
template <class T>
struct SoftBlock {
  int kind, rows;
  T D, mu[kSoftRows - 1], loss;
  Real<T> root;
};
template <class T>
struct SoftBlockBar {
  T D, mu[kSoftRows - 1], loss;
};

// a number of rows that the compiler knows
template <int N>
struct RowCount {
  static constexpr int n = N;
};
template <class F>
FB_INLINE void with_rows(int rows, F&& visit) {
  switch (rows) {
    case 1:
      return visit(RowCount<1>{});
    case 3:
      return visit(RowCount<3>{});
    case 4:
      return visit(RowCount<4>{});
    default:
      return visit(RowCount<6>{});
  }
}

// (S.3)  an elliptic contact in the coordinates u = c y, c = (mu, mu_1 ..), mu = mu_1 / sqrt(ratio):
// s = E / 2 |r|^2, r = u - (u projected on the cone N >= mu T), E = D / mu^2
template <int N, class T>
struct ConeResidual {
  T mu, E, length, inverse, rho,
      scale;                 // slides: r = rho n, n = (1, -mu t); scale = 1 / (1 + mu^2)
  T c[N], u[N], r[N], t[N];  // inverse: 1 / length
  Mask<T> sticks, slides;
};
template <int N, class T>
FB_INLINE ConeResidual<N, T> cone_residual(const SoftBlock<T>& b, const T* y) {
  ConeResidual<N, T> x;
  const T zero = T(0), one = T(1);
  x.mu = b.mu[0] * b.root;
  x.E = b.D / (x.mu * x.mu);
  x.c[0] = x.mu;
  x.u[0] = x.mu * y[0];
  T square = zero;
  for (int i = 1; i < N; ++i) {
    x.c[i] = b.mu[i - 1];
    x.u[i] = b.mu[i - 1] * y[i];
    square = mul_add(x.u[i], x.u[i], square);
  }
  x.length = sqrt(square);
  const Mask<T> free = x.u[0] >= x.mu * x.length;
  x.sticks = (!free) & (x.mu * x.u[0] + x.length <= zero);
  x.slides = !(free | x.sticks);
  x.scale = one / mul_add(x.mu, x.mu, one);
  x.rho = (x.u[0] - x.mu * x.length) * x.scale;
  x.inverse = one / select(x.slides, x.length, one);
  x.r[0] = select(x.sticks, x.u[0], select(x.slides, x.rho, zero));
  for (int i = 1; i < N; ++i) {
    x.t[i] = x.u[i] * x.inverse;
    x.r[i] = select(x.sticks, x.u[i], select(x.slides, -(x.rho * x.mu * x.t[i]), zero));
  }
  return x;
}
// (dr / du) q, symmetric
template <int N, class T>
FB_INLINE void cone_slope(const ConeResidual<N, T>& x, const T* q, T* out) {
  const T zero = T(0);
  T along = zero;
  for (int i = 1; i < N; ++i) along = mul_add(x.t[i], q[i], along);
  const T nq = (q[0] - x.mu * along) * x.scale, turn = -(x.rho * x.mu) * x.inverse;
  out[0] = select(x.sticks, q[0], select(x.slides, nq, zero));
  for (int i = 1; i < N; ++i) {
    const T slide = turn * (q[i] - x.t[i] * along) - x.mu * x.t[i] * nq;
    out[i] = select(x.sticks, q[i], select(x.slides, slide, zero));
  }
}

// (S.4)  the edges of a pyramid, y_0 +- mu_k y_k, each with stiffness D
template <class T>
struct EdgePair {
  T up, down;              // min(0, y_0 +- mu_k y_k)
  T stiff_up, stiff_down;  // D where they push
};
template <class T>
FB_INLINE EdgePair<T> edge_pair(const SoftBlock<T>& b, const T* y, int k) {
  const T zero = T(0), side = b.mu[k - 1] * y[k], up = y[0] + side, down = y[0] - side;
  return {select(up < zero, up, zero), select(down < zero, down, zero),
          select(up < zero, b.D, zero), select(down < zero, b.D, zero)};
}

// (S.6)  S = -df/dy at y, positive semidefinite
template <int N, class T>
FB_INLINE void soft_stiffness(const SoftBlock<T>& b, const T* y, T S[N][N]) {
  const T zero = T(0);
  if constexpr (N == 1) {
    S[0][0] = b.D;
    if (b.kind == kSoftFriction) S[0][0] = select(abs(b.D * y[0]) < b.loss, b.D, zero);
    if (b.kind == kSoftOneSided) S[0][0] = select(y[0] < zero, b.D, zero);
    return;
  }
  for (int i = 0; i < N; ++i)
    for (int j = 0; j < N; ++j) S[i][j] = zero;
  if (b.kind == kSoftEquality) {
    for (int i = 0; i < N; ++i) S[i][i] = b.D;
  } else if (b.kind == kSoftEllipse) {
    const ConeResidual<N, T> x = cone_residual<N>(b, y);
    for (int i = 0; i < N; ++i) {
      T unit[N], column[N];
      for (int j = 0; j < N; ++j) unit[j] = T(i == j ? 1 : 0);
      cone_slope<N>(x, unit, column);
      for (int j = 0; j <= i; ++j) S[i][j] = S[j][i] = x.E * x.c[i] * x.c[j] * column[j];
    }
  } else {
    for (int k = 1; k < N; ++k) {
      const EdgePair<T> e = edge_pair(b, y, k);
      const T mu = b.mu[k - 1], both = e.stiff_up + e.stiff_down;
      S[0][0] += both;
      S[0][k] = S[k][0] = mu * (e.stiff_up - e.stiff_down);
      S[k][k] = mu * mu * both;
    }
  }
}
// s at y
template <int N, class T>
FB_INLINE T soft_cost(const SoftBlock<T>& b, const T* y) {
  const T half = T(Real<T>(0.5)), zero = T(0);
  T sum = zero;
  if (N > 1 && b.kind == kSoftEllipse) {
    const ConeResidual<N, T> x = cone_residual<N>(b, y);
    for (int i = 0; i < N; ++i) sum = mul_add(x.r[i], x.r[i], sum);
    return x.E * sum * half;
  }
  if (N > 1 && b.kind == kSoftPyramid) {
    for (int k = 1; k < N; ++k) {
      const EdgePair<T> e = edge_pair(b, y, k);
      sum += e.up * e.up + e.down * e.down;
    }
    return b.D * sum * half;
  }
  for (int i = 0; i < N; ++i) sum = mul_add(y[i], y[i], sum);
  sum = b.D * sum * half;
  if (b.kind == kSoftOneSided) return select(y[0] < zero, sum, zero);
  if (b.kind != kSoftFriction) return sum;
  const T held = abs(b.D * y[0]), reach = b.loss / select(b.D > zero, b.D, T(1));
  return select(held < b.loss, sum, b.loss * (abs(y[0]) - reach * half));
}
// (S.5)  f = -ds/dy
template <int N, class T>
FB_INLINE void soft_force(const SoftBlock<T>& b, const T* y, T* f) {
  const T zero = T(0);
  if constexpr (N == 1) {
    f[0] = -(b.D * y[0]);
    if (b.kind == kSoftFriction) f[0] = clamp(f[0], -b.loss, b.loss);
    if (b.kind == kSoftOneSided) f[0] = select(y[0] < zero, f[0], zero);
  } else if (b.kind == kSoftEquality) {
    for (int i = 0; i < N; ++i) f[i] = -(b.D * y[i]);
  } else if (b.kind == kSoftEllipse) {
    const ConeResidual<N, T> x = cone_residual<N>(b, y);
    for (int i = 0; i < N; ++i) f[i] = -(x.E * x.c[i] * x.r[i]);
  } else {
    f[0] = zero;
    for (int k = 1; k < N; ++k) {
      const EdgePair<T> e = edge_pair(b, y, k);
      f[0] -= b.D * (e.up + e.down);
      f[k] = -(b.D * b.mu[k - 1] * (e.up - e.down));
    }
  }
}
// the part of an ellipse's adjoint that is not y_bar
template <int N, class T>
FB_FN void cone_force_adjoint(const SoftBlock<T>& b, const T* y, const T* f_bar, const T* y_bar,
                              SoftBlockBar<T>& bar) {
  const ConeResidual<N, T> x = cone_residual<N>(b, y);
  const T zero = T(0);
  // f = -E c r(u; mu), u = c y: y_bar = c u_bar
  T E_bar = zero, mu_bar = zero, tq = zero;
  for (int i = 0; i < N; ++i) {
    E_bar -= x.c[i] * x.r[i] * f_bar[i];
    if (i > 0) tq = sub_mul(tq, x.t[i], x.E * x.c[i] * f_bar[i]);
    const T c_bar = y_bar[i] / x.c[i] * y[i] - x.E * x.r[i] * f_bar[i];
    (i == 0 ? mu_bar : bar.mu[i - 1]) += c_bar;
  }
  // r = rho n by mu: rho' n + rho (0, -t)
  const T rho_mu = -(x.length + x.mu * x.rho * Real<T>(2)) * x.scale;
  const T nq = -(x.E * x.c[0] * f_bar[0]) - x.mu * tq;
  mu_bar += select(x.slides, rho_mu * nq - x.rho * tq, zero);
  // E = D / mu^2, mu = mu_1 / sqrt(ratio)
  bar.D += E_bar / (x.mu * x.mu);
  mu_bar -= E_bar * x.E / x.mu * Real<T>(2);
  bar.mu[0] += mu_bar * b.root;
}
// (S.7)  given f_bar, set y_bar and add to the cotangents of D, friction and dry friction
template <int N, class T>
FB_FN void soft_force_adjoint(const SoftBlock<T>& b, const T* y, const T* f_bar, T* y_bar,
                              SoftBlockBar<T>& bar) {
  const T zero = T(0);
  T S[N][N];
  soft_stiffness<N>(b, y, S);
  for (int i = 0; i < N; ++i) {
    y_bar[i] = zero;
    for (int j = 0; j < N; ++j) y_bar[i] = sub_mul(y_bar[i], S[i][j], f_bar[j]);
  }
  if (b.kind == kSoftEquality) {
    for (int i = 0; i < N; ++i) bar.D -= y[i] * f_bar[i];
  } else if (b.kind == kSoftFriction) {
    const T raw = -(b.D * y[0]);
    const Mask<T> held = abs(raw) < b.loss;
    bar.D -= select(held, y[0] * f_bar[0], zero);
    bar.loss += select(held, zero, select(raw > zero, f_bar[0], -f_bar[0]));
  } else if (b.kind == kSoftOneSided) {
    bar.D -= select(y[0] < zero, y[0] * f_bar[0], zero);
  } else if constexpr (N > 1) {
    if (b.kind == kSoftEllipse) return cone_force_adjoint<N>(b, y, f_bar, y_bar, bar);
    for (int k = 1; k < N; ++k) {
      const EdgePair<T> e = edge_pair(b, y, k);
      const T mu = b.mu[k - 1], sum = e.up + e.down, side = e.up - e.down;
      bar.D -= sum * f_bar[0] + mu * side * f_bar[k];
      // f_0 = -D (up + down), f_k = -D mu (up - down), up and down by mu: +-y_k where they push
      const T up_bar = -(e.stiff_up * (f_bar[0] + mu * f_bar[k])),
              down_bar = -(e.stiff_down * (f_bar[0] - mu * f_bar[k]));
      bar.mu[k - 1] += (up_bar - down_bar) * y[k] - b.D * side * f_bar[k];
    }
  }
}

// slope f z and curvature z' S z along z
template <int N, class T>
FB_INLINE void soft_along(const SoftBlock<T>& b, const T* y, const T* z, T& slope, T& bend) {
  T f[N];
  if (N > 1 && b.kind == kSoftEllipse) {
    const ConeResidual<N, T> x = cone_residual<N>(b, y);
    T q[N], s[N];
    for (int i = 0; i < N; ++i) q[i] = x.c[i] * z[i];
    cone_slope<N>(x, q, s);
    for (int i = 0; i < N; ++i) {
      slope = mul_add(x.E * x.r[i], q[i], slope);
      bend = mul_add(x.E * s[i], q[i], bend);
    }
    return;
  }
  soft_force<N>(b, y, f);
  for (int i = 0; i < N; ++i) slope = sub_mul(slope, f[i], z[i]);
  if (N > 1 && b.kind == kSoftPyramid) {
    for (int k = 1; k < N; ++k) {
      const EdgePair<T> e = edge_pair(b, y, k);
      const T side = b.mu[k - 1] * z[k], up = z[0] + side, down = z[0] - side;
      bend = mul_add(e.stiff_up * up, up, mul_add(e.stiff_down * down, down, bend));
    }
    return;
  }
  T S[N][N];
  soft_stiffness<N>(b, y, S);
  for (int i = 0; i < N; ++i) bend = mul_add(S[i][i] * z[i], z[i], bend);
}

}  // namespace fb::FB_ISA
