// Connects and welds under MuJoCo's law: y holds the whole acceleration of the error, velocity
// products included.  Proof: docs/derivations/soft.md.
#pragma once
#include "core/contact/equality.hpp"
#include "core/soft/joint_rows.hpp"

namespace fb::FB_ISA {

// ---- the error of a weld's rotation

// (S.17)  frames of both sides, relative rotation Q = R2' R1, relative angular velocity and its rate in the
// second frame
template <class T>
struct WeldTurn {
  Mat3<T> R1, R2;
  Quaternion<T> Q;
  Vec3<T> beta, beta_dot;
};
template <class T>
FB_INLINE Vec3<T> half_turned(const Quaternion<T>& Q, Vec3<T> b) {
  return (b * Q.s + cross(b, Q.v)) * T(Real<T>(0.5));
}
// its transpose
template <class T>
FB_INLINE Vec3<T> half_turned_back(const Quaternion<T>& Q, Vec3<T> f) {
  return (f * Q.s + cross(Q.v, f)) * T(Real<T>(0.5));
}
// acc: with the accelerations of both links, else velocity products alone
template <class T, class P>
FB_FN WeldTurn<T> weld_turn(const Model<T, P>& m, const RowGroup& k, Motion<T> aA, Motion<T> aB,
                            const Work<T>& w) {
  const LinkWork<T>&A = w.link[k.linkA], &B = w.link[k.linkB];
  WeldTurn<T> x;
  x.R1 = mul(A.R, m.derived.eq_R1 + 9 * k.source);
  x.R2 = mul(B.R, m.derived.eq_R2 + 9 * k.source);
  Mat3<T> rel;
  for (int i = 0; i < 3; ++i)
    for (int j = 0; j < 3; ++j)
      rel.a[3 * i + j] =
          x.R2.a[i] * x.R1.a[j] + x.R2.a[3 + i] * x.R1.a[3 + j] + x.R2.a[6 + i] * x.R1.a[6 + j];
  x.Q = quaternion_of(rel);
  const Vec3<T> turn = A.v.ang - B.v.ang;
  x.beta = mul_transposed(x.R2, turn);
  x.beta_dot = mul_transposed(x.R2, (aA.ang - aB.ang) - cross(B.v.ang, turn));
  return x;
}

// ---- both kinds

template <class T>
struct EqualityPoints {
  Vec3<T> p1, p2, phi;
};
template <class T, class P>
FB_FN EqualityPoints<T> equality_points(const Model<T, P>& m, const RowGroup& k, const Work<T>& w) {
  const LinkWork<T>&A = w.link[k.linkA], &B = w.link[k.linkB];
  EqualityPoints<T> x;
  x.p1 = A.r + mul(A.R, lift3<P>(m.derived.eq_p1 + 3 * k.source));
  x.p2 = B.r + mul(B.R, lift3<P>(m.derived.eq_p2 + 3 * k.source));
  x.phi = (x.p1 - x.p2) + (origin_of(m.s, w, k.linkA) - origin_of(m.s, w, k.linkB));
  return x;
}
// (S.18)  the error of all rows of an equality, and its length, which the impedance sees
template <class T>
struct EqualityError {
  EqualityPoints<T> points;
  Vec3<T> turn;  // zero for a connect
  T size;
};
template <class T, class P>
FB_FN EqualityError<T> equality_error(const Model<T, P>& m, const RowGroup& k, const Work<T>& w) {
  EqualityError<T> x;
  x.points = equality_points(m, k, w);
  x.turn = zero3<T>();
  if (m.s.eq_type[k.source] == kWeld)
    x.turn = weld_turn(m, k, zero_motion<T>(), zero_motion<T>(), w).Q.v *
             T(m.theta.eq_data[11 * k.source + 10]);
  x.size = sqrt(dot(x.points.phi, x.points.phi) + dot(x.turn, x.turn));
  return x;
}
template <class T, class P>
FB_INLINE RowLaw<T, P> equality_law(const Model<T, P>& m, const RowGroup& k, T size) {
  const int e = k.source, a = equality_body(m.s, e, 0), b = equality_body(m.s, e, 1);
  const P* weight = m.theta.body_invweight0_mujoco + (k.kind == kWeldRotationRows ? 1 : 0);
  return {m.theta.eq_solref + kSolref * e, m.theta.eq_solimp + kSolimp * e, size,
          T(weight[2 * a] + weight[2 * b]), true};
}
// accelerations of both links at zero joint accelerations: w.soft holds them in w.link[].a
template <class T, class P>
FB_FN void soft_equality_data(const Model<T, P>& m, bool safe, int index, Work<T>& w) {
  const RowGroup& k = w.group[index];
  const LinkWork<T>&A = w.link[k.linkA], &B = w.link[k.linkB];
  SoftGroup<T>& e = w.soft.group[index];
  const EqualityError<T> x = equality_error(m, k, w);
  const RowLaw<T, P> law = equality_law(m, k, x.size);
  const Reference<T> r = reference(law, T(m.theta.dt[0]), safe);
  e.block.kind = kSoftEquality;
  e.block.D = r.D;
  e.ncoef = 0;
  Vec3<T> bias, error, vel;
  if (k.kind == kWeldRotationRows) {
    const T scale = T(m.theta.eq_data[11 * k.source + 10]);
    const WeldTurn<T> t = weld_turn(m, k, A.a, B.a, w);
    error = x.turn;
    vel = half_turned(t.Q, t.beta) * scale;
    bias = (half_turned(t.Q, t.beta_dot) - t.Q.v * (dot(t.beta, t.beta) * Real<T>(0.25))) * scale;
    for (int i = 0; i < 3; ++i) {
      const Vec3<T> d{T(i == 0), T(i == 1), T(i == 2)};
      const Vec3<T> torque = mul(t.R2, half_turned_back(t.Q, d)) * scale;
      e.F[0][i] = {torque, zero3<T>()};
      e.F[1][i] = {-torque, zero3<T>()};
    }
  } else {
    const EqualityPoints<T>& p = x.points;
    error = p.phi;
    vel = (A.v.lin + cross(A.v.ang, p.p1)) - (B.v.lin + cross(B.v.ang, p.p2));
    bias = point_acceleration(A.v, A.a, p.p1) - point_acceleration(B.v, B.a, p.p2);
    for (int i = 0; i < 3; ++i) {
      const Vec3<T> d{T(i == 0), T(i == 1), T(i == 2)};
      e.F[0][i] = point_force(p.p1, d);
      e.F[1][i] = -point_force(p.p2, d);
    }
  }
  const T v[3] = {vel.x, vel.y, vel.z}, c[3] = {bias.x, bias.y, bias.z},
          g[3] = {error.x, error.y, error.z};
  for (int i = 0; i < 3; ++i) {
    e.vel[i] = v[i];
    e.y0[i] = r.B * v[i] + r.Kd * g[i] + c[i];
  }
}

// one side of a connect's rows: Y, V, f pair with acceleration, velocity and W of the point p
template <class T>
FB_FN Vec3<T> point_adjoint(const LinkWork<T>& k, Vec3<T> p, Real<T> sign, Vec3<T> Y, Vec3<T> V,
                            Vec3<T> f, LinkBar<T>& b) {
  Y = Y * T(sign);
  V = V * T(sign);
  f = f * T(sign);
  b.w_bar += Force<T>{cross(p, f), f};
  return point_acceleration_adjoint(k.v, k.a, p, Y, V, b.v_bar, b.a_bar) + cross(f, b.w.ang);
}
template <class T>
FB_FN void connect_adjoint(const RowGroup& k, const EqualityPoints<T>& x, Vec3<T> Y, Vec3<T> V,
                           Vec3<T> f, Vec3<T> phi_bar, Work<T>& w) {
  const LinkWork<T>&A = w.link[k.linkA], &B = w.link[k.linkB];
  LinkBar<T>&a = w.bar[k.linkA], &b = w.bar[k.linkB];
  const Vec3<T> p1_bar = point_adjoint(A, x.p1, Real<T>(1), Y, V, f, a) + phi_bar,
                p2_bar = point_adjoint(B, x.p2, Real<T>(-1), Y, V, f, b) - phi_bar;
  a.pose += Force<T>{cross(x.p1, p1_bar), p1_bar};
  b.pose += Force<T>{cross(x.p2, p2_bar), p2_bar};
  if (!w.derived_bar) return;
  add3(mul_transposed(A.R, p1_bar), w.derived_bar->eq_p1 + 3 * k.source);
  add3(mul_transposed(B.R, p2_bar), w.derived_bar->eq_p2 + 3 * k.source);
}
// (S.19)  cotangents Qs, Qv of the relative quaternion, beta and beta_dot, to both frames and links
template <class T>
struct TurnBars {
  T s;
  Vec3<T> v, beta, beta_dot;
};
template <class T, class P>
FB_FN void turn_adjoint(const Model<T, P>& m, const RowGroup& k, const WeldTurn<T>& t,
                        const TurnBars<T>& bar, Vec3<T> w_torque, Work<T>& w) {
  const LinkWork<T>&A = w.link[k.linkA], &B = w.link[k.linkB];
  LinkBar<T>&a = w.bar[k.linkA], &b = w.bar[k.linkB];
  // gamma = R2' (theta_1 - theta_2)
  const Vec3<T> gamma = quaternion_of_adjoint(t.Q, bar.s, bar.v);
  const Vec3<T> rel = A.v.ang - B.v.ang;
  const Vec3<T> rate_bar = mul(t.R2, bar.beta_dot), turn_bar = mul(t.R2, bar.beta);
  const Vec3<T> rate = (A.a.ang - B.a.ang) - cross(B.v.ang, rel);
  const Vec3<T> theta1 = mul(t.R2, gamma);
  // vectors u in the second frame, R2' u: turning the frame moves them by R2' (u x theta_2)
  const Vec3<T> theta2 = cross(rate_bar, rate) + cross(turn_bar, rel) - theta1;
  // rate = a_A - a_B - v_B x rel
  const Vec3<T> rel_bar = turn_bar + cross(B.v.ang, rate_bar);
  a.a_bar.ang += rate_bar;
  b.a_bar.ang -= rate_bar;
  a.v_bar.ang += rel_bar;
  b.v_bar.ang += cross(rate_bar, rel) - rel_bar;
  a.w_bar.ang += w_torque;
  b.w_bar.ang -= w_torque;
  a.pose.ang += theta1;
  b.pose.ang += theta2;
  if (!w.derived_bar) return;
  const int e = k.source;
  add_rotation_bar(mul_transposed(A.R, theta1), m.derived.eq_R1 + 9 * e,
                   w.derived_bar->eq_R1 + 9 * e);
  add_rotation_bar(mul_transposed(B.R, theta2), m.derived.eq_R2 + 9 * e,
                   w.derived_bar->eq_R2 + 9 * e);
}
// rows of a weld's rotation: error_bar is the cotangent of scale Q.v
template <class T, class P>
FB_FN void weld_rotation_adjoint(const Model<T, P>& m, const RowGroup& k, Vec3<T> Y, Vec3<T> V,
                                 Vec3<T> f, Vec3<T> error_bar, Work<T>& w) {
  const LinkWork<T>&A = w.link[k.linkA], &B = w.link[k.linkB];
  const T scale = T(m.theta.eq_data[11 * k.source + 10]);
  const T quarter = T(Real<T>(0.25)), half = T(Real<T>(0.5));
  const WeldTurn<T> t = weld_turn(m, k, A.a, B.a, w);
  const T square = dot(t.beta, t.beta);
  const Vec3<T> pair = mul_transposed(t.R2, w.bar[k.linkA].w.ang - w.bar[k.linkB].w.ang);
  if (w.theta_bar) {
    const Vec3<T> acc = half_turned(t.Q, t.beta_dot) - t.Q.v * (square * quarter);
    w.theta_bar->eq_data[11 * k.source + 10] += dot(Y, acc) + dot(V, half_turned(t.Q, t.beta)) +
                                                dot(f, half_turned(t.Q, pair)) +
                                                dot(error_bar, t.Q.v);
  }
  Y = Y * scale;
  V = V * scale;
  f = f * scale;
  // half_turned(Q, b) = (b s + b x v) / 2, for b = beta_dot, beta and the paired rate
  TurnBars<T> bar;
  bar.beta_dot = half_turned_back(t.Q, Y);
  bar.beta = half_turned_back(t.Q, V) - t.beta * (dot(Y, t.Q.v) * half);
  const Vec3<T> pair_bar = half_turned_back(t.Q, f);
  bar.s = (dot(Y, t.beta_dot) + dot(V, t.beta) + dot(f, pair)) * half;
  bar.v = (cross(Y, t.beta_dot) + cross(V, t.beta) + cross(f, pair)) * half -
          Y * (square * quarter) + error_bar * scale;
  const Vec3<T> torque = mul(t.R2, pair_bar);
  turn_adjoint(m, k, t, bar, torque, w);
  // the paired rate is seen from the second frame as well
  const Vec3<T> theta2 = cross(torque, w.bar[k.linkA].w.ang - w.bar[k.linkB].w.ang);
  w.bar[k.linkB].pose.ang += theta2;
  if (w.derived_bar)
    add_rotation_bar(mul_transposed(B.R, theta2), m.derived.eq_R2 + 9 * k.source,
                     w.derived_bar->eq_R2 + 9 * k.source);
}
// (S.20)  the rows of a connect, or one half of those of a weld; the length of the whole error moves
// both halves' impedance
template <class T, class P>
FB_FN void soft_equality_adjoint(const Model<T, P>& m, bool safe, int index,
                                 const SoftBars<T>& bars, Work<T>& w) {
  const RowGroup& k = w.group[index];
  const SoftGroup<T>& e = w.soft.group[index];
  const EqualityError<T> x = equality_error(m, k, w);
  const RowLaw<T, P> law = equality_law(m, k, x.size);
  const Reference<T> r = reference(law, T(m.theta.dt[0]), safe);
  const bool rotation = k.kind == kWeldRotationRows;
  const Vec3<T> error = rotation ? x.turn : x.points.phi, Y = lift3<T>(bars.y_bar),
                f = lift3<T>(bars.f);
  const RowLawBar<T> bar =
      reference_adjoint(law, r, {bars.block.D, dot(Y, error), dot(Y, lift3<T>(e.vel))});
  const T along = bar.x / select(x.size > T(0), x.size, T(1));
  const Vec3<T> own = Y * r.Kd, phi_bar = x.points.phi * along, turn_bar = x.turn * along;
  const Vec3<T> none = zero3<T>(), V = Y * r.B;
  if (rotation) {
    weld_rotation_adjoint(m, k, Y, V, f, own + turn_bar, w);
    connect_adjoint(k, x.points, none, none, none, phi_bar, w);
  } else {
    connect_adjoint(k, x.points, Y, V, f, own + phi_bar, w);
    if (m.s.eq_type[k.source] == kWeld) weld_rotation_adjoint(m, k, none, none, none, turn_bar, w);
  }
  if (w.theta_bar)
    add_law_bar(bar, w.theta_bar->eq_solref + kSolref * k.source,
                w.theta_bar->eq_solimp + kSolimp * k.source, w.theta_bar->dt);
}

}  // namespace fb::FB_ISA
