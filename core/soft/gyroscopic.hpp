// The gyroscopic torque of free bodies without children, which the integrator implicitfast takes at
// the end of the step.  Proof: docs/derivations/soft.md.
#pragma once
#include "core/soft/motion.hpp"

namespace fb::FB_ISA {

// (S.35)  s = y' G x, G the derivative of the velocity products by the angular velocity: force rows in
// the world, torque rows and w in the body; y = (p, n)
template <class T>
struct GyroPair {
  T mass;
  Vec3<T> com, w, x, n, c;  // c = R' p + n x com
  Sym3<T> I;
};
// (d/dw of w x (w x com)) x
template <class T>
FB_INLINE Vec3<T> swing(Vec3<T> w, Vec3<T> com, Vec3<T> x) {
  return -(cross(cross(w, com), x) + cross(w, cross(com, x)));
}
template <class T, class P>
FB_FN GyroPair<T> gyro_pair(const Model<T, P>& m, int l, const T* v, const T* x, const T* y,
                            const Work<T>& w) {
  const int d = m.s.link_dof[l];
  const P* I = m.derived.link_I + 6 * l;
  GyroPair<T> g;
  g.mass = T(m.derived.link_mass[l]);
  g.com = lift3<T>(m.derived.link_com + 3 * l);
  g.I = {T(I[0]), T(I[1]), T(I[2]), T(I[3]), T(I[4]), T(I[5])};
  g.w = lift3<T>(v + d + 3);
  g.x = lift3<T>(x + d + 3);
  g.n = lift3<T>(y + d + 3);
  g.c = mul_transposed(w.link[l].R, lift3<T>(y + d)) + cross(g.n, g.com);
  return g;
}
template <class T>
FB_FN T gyro_value(const GyroPair<T>& g) {
  return g.mass * dot(g.c, swing(g.w, g.com, g.x)) +
         dot(g.n, cross(g.w, mul(g.I, g.x)) - cross(mul(g.I, g.w), g.x));
}
// column i of G
template <class T, class P>
FB_FN void gyro_column(const Model<T, P>& m, int l, const T* v, int i, const Work<T>& w, T* out) {
  const P* J = m.derived.link_I + 6 * l;
  const Sym3<T> I{T(J[0]), T(J[1]), T(J[2]), T(J[3]), T(J[4]), T(J[5])};
  const Vec3<T> turn = lift3<T>(v + m.s.link_dof[l] + 3), e{T(i == 0), T(i == 1), T(i == 2)};
  const Vec3<T> com = lift3<T>(m.derived.link_com + 3 * l);
  const Vec3<T> pull = swing(turn, com, e) * T(m.derived.link_mass[l]);
  put3(mul(w.link[l].R, pull), out);
  put3(cross(turn, mul(I, e)) - cross(mul(I, turn), e) + cross(com, pull), out + 3);
}
// (S.36)  the cotangents of scale s: to the velocity, to the link's pose, mass, centre and inertia
template <class T, class P>
FB_FN void gyro_adjoint(const Model<T, P>& m, int l, const GyroPair<T>& g, const T* y, T scale,
                        StateBars<T> state, Work<T>& w) {
  const int d = m.s.link_dof[l];
  const Vec3<T> xc = cross(g.x, g.c), xn = cross(g.x, g.n), Ix = mul(g.I, g.x);
  const Vec3<T> pull = swing(g.w, g.com, g.x) * g.mass;
  const Vec3<T> w_bar =
      (cross(g.com, xc) + cross(cross(g.com, g.x), g.c)) * -g.mass + cross(Ix, g.n) - mul(g.I, xn);
  add3(w_bar * scale, state.v_bar + d + 3);
  // c holds R' p: the body turns, in body axes
  const Vec3<T> p = mul_transposed(w.link[l].R, lift3<T>(y + d));
  add3(cross(pull, p) * scale, state.q_tan + d + 3);
  if (!w.derived_bar) return;
  w.derived_bar->link_mass[l] += scale * dot(g.c, swing(g.w, g.com, g.x));
  const Vec3<T> com_bar =
      (cross(xc, g.w) + cross(g.x, cross(g.c, g.w))) * -g.mass + cross(pull, g.n);
  add3(com_bar * scale, w.derived_bar->link_com + 3 * l);
  // (n x w) . I x - (x x n) . I w
  const Vec3<T> left[2] = {cross(g.n, g.w), -xn}, right[2] = {g.x, g.w};
  T* out = w.derived_bar->link_I + 6 * l;
  for (int i = 0; i < 2; ++i) add_inertia_pair(left[i] * scale, right[i], out);
}

// B = M + h D + h G of a single body's six dofs
template <class T, class P>
FB_FN void open_gyro(const Model<T, P>& m, int l, const T* v, Work<T>& w, T* B) {
  const int d = m.s.link_dof[l];
  const SoftWork<T>& f = w.soft;
  const T h = T(m.theta.dt[0]);
  for (int i = 0; i < 6; ++i) {
    B[7 * i] = f.M.diagonal[d + i] + (w.hD[d + i] - T(m.theta.dof_armature[d + i]));
    for (int j = 0; j < i; ++j) B[6 * i + j] = B[6 * j + i] = f.M.row(d + i)[j];
  }
  if (m.s.ntendon > 0) add_body_damping(m, d, w, B);
  for (int j = 0; j < 3; ++j) {
    T column[6];
    gyro_column(m, l, v, j, w, column);
    for (int i = 0; i < 6; ++i) B[6 * i + 3 + j] = mul_add(column[i], h, B[6 * i + 3 + j]);
  }
}
// factored without pivots
template <class T>
FB_FN void factor_gyro(T* B) {
  for (int k = 0; k < 6; ++k) {
    B[7 * k] = T(1) / B[7 * k];
    for (int i = k + 1; i < 6; ++i) {
      B[6 * i + k] = B[6 * i + k] * B[7 * k];
      for (int j = k + 1; j < 6; ++j)
        B[6 * i + j] = sub_mul(B[6 * i + j], B[6 * i + k], B[6 * k + j]);
    }
  }
}
// x = B^-1 x, or with the transpose
template <class T>
FB_FN void solve_gyro(const T* B, bool transposed, T* x) {
  if (transposed) {
    for (int i = 0; i < 6; ++i) {
      for (int j = 0; j < i; ++j) x[i] = sub_mul(x[i], B[6 * j + i], x[j]);
      x[i] = x[i] * B[7 * i];
    }
    for (int i = 5; i >= 0; --i)
      for (int j = i + 1; j < 6; ++j) x[i] = sub_mul(x[i], B[6 * j + i], x[j]);
    return;
  }
  for (int i = 0; i < 6; ++i)
    for (int j = 0; j < i; ++j) x[i] = sub_mul(x[i], B[6 * i + j], x[j]);
  for (int i = 5; i >= 0; --i) {
    for (int j = i + 1; j < 6; ++j) x[i] = sub_mul(x[i], B[6 * i + j], x[j]);
    x[i] = x[i] * B[7 * i];
  }
}

}  // namespace fb::FB_ISA
