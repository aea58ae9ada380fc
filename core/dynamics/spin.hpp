// The gyroscopic torque of links that turn freely, taken at the middle of the step, so that a fast
// spin keeps its energy.  Proof: docs/derivations/spin.md.
#pragma once
#include "core/dynamics/kinematics.hpp"

namespace fb::FB_ISA {

// what the step's middle needs of a link: K = I + h / 2 D, D = [w] I - [I w], K y = w x I w
template <class T>
struct Spin {
  Sym3<T> I;
  Vec3<T> w, Iw, y, Dy;
  Vec3<T> inverse[3];  // columns of the inverse of K
  T half;              // h / 2, zero where K is not used
  Mask<T> dropped;     // where the spin is too fast for the step
};
// D x, and D' x
template <class T>
FB_INLINE Vec3<T> spin_times(const Spin<T>& k, Vec3<T> x) {
  return cross(k.w, mul(k.I, x)) - cross(k.Iw, x);
}
template <class T>
FB_INLINE Vec3<T> spin_transposed(const Spin<T>& k, Vec3<T> x) {
  return mul(k.I, cross(x, k.w)) + cross(k.Iw, x);
}
template <class T>
FB_INLINE Spin<T> open_spin(const Sym3<T>& I, Vec3<T> w, T h) {
  const T zero = T(0), one = T(1), half = h * Real<T>(0.5);
  Spin<T> k{I, w, mul(I, w), zero3<T>(), zero3<T>(), {}, half, Mask<T>(false)};
  // K' e_i are the rows of K
  const Vec3<T> e[3] = {{one, zero, zero}, {zero, one, zero}, {zero, zero, one}};
  Vec3<T> row[3];
  for (int i = 0; i < 3; ++i) row[i] = mul(I, e[i]) + spin_transposed(k, e[i]) * half;
  const T det = dot(row[0], cross(row[1], row[2])), size = I.xx + I.yy + I.zz;
  const T still = dot(mul(I, e[0]), cross(mul(I, e[1]), mul(I, e[2])));
  const Mask<T> solid = still > size * size * size * Real<T>(1e-9);
  const Mask<T> slow = (det > still * Real<T>(0.5)) & (dot(w, w) * half * half < T(Real<T>(0.5)));
  const T scale = select(solid & slow, one / select(solid & slow, det, one), zero);
  k.half = select(solid & slow, half, zero);
  k.dropped = solid & !slow;
  for (int i = 0; i < 3; ++i) k.inverse[i] = cross(row[(i + 1) % 3], row[(i + 2) % 3]) * scale;
  const Vec3<T> g = cross(w, k.Iw);
  k.y = k.inverse[0] * g.x + k.inverse[1] * g.y + k.inverse[2] * g.z;
  k.Dy = spin_times(k, k.y);
  return k;
}

// (G.1)  what the middle of the step adds to w x I w: I K^-1 (w x I w) - w x I w = -h / 2 D y
template <class T>
FB_INLINE Vec3<T> spin_torque(const Spin<T>& k) {
  return select(k.dropped, cross(k.Iw, k.w), k.Dy * -k.half);
}
// (G.2)  given its cotangent: those of w and h, and pairs for that of I
template <class T>
struct SpinBars {
  Vec3<T> w;
  T h;
  Vec3<T> left[4], right[4];  // I_bar is the sum of left right'
};
template <class T>
FB_INLINE SpinBars<T> spin_torque_adjoint(const Spin<T>& k, Vec3<T> bar) {
  const Vec3<T> x = spin_transposed(k, bar) * -k.half;
  const Vec3<T> solved{dot(k.inverse[0], x), dot(k.inverse[1], x), dot(k.inverse[2], x)};
  const Vec3<T> r = select(k.dropped, -bar, solved);
  const Vec3<T> sum = bar + r, a = sum * -k.half;
  const Vec3<T> ay = cross(a, k.y), rw = cross(r, k.w);
  const Mask<T> moves = k.half > T(0);
  SpinBars<T> out{cross(mul(k.I, k.y), a) + mul(k.I, ay + rw) + cross(k.Iw, r),
                  select(moves, dot(sum, k.Dy) * Real<T>(-0.5), T(0)),
                  {cross(a, k.w), ay, rw, -r},
                  {k.y, k.w, k.w, k.y}};
  return out;
}

template <class T, class P>
FB_INLINE Spin<T> link_spin(const Model<T, P>& m, int l, const Work<T>& w) {
  return open_spin(rotate(w.link[l].R, m.derived.link_I + 6 * l), w.link[l].v.ang,
                   T(m.theta.dt[0]));
}
// (G.3)  joint forces of all of these torques, taken from tau
template <class T, class P>
FB_FN void spin_forces(const Model<T, P>& m, T* tau, const Work<T>& w) {
  for (int l = 1; l < m.s.nlink; ++l) {
    if (!joint_turns(m.s.link_type[l])) continue;
    const Vec3<T> torque = spin_torque(link_spin(m, l, w));
    for (int d = m.s.link_lastdof[l]; d >= 0; d = m.s.dof_parent[d])
      tau[d] -= dot(w.dof[d].S.ang, torque);
  }
}
// (G.4)  within the sweep of -h <w, RNEA>: one link's share, added to its own bars; adds to h_bar
template <class T, class P>
FB_FN void spin_forces_adjoint(const Model<T, P>& m, int l, T scale, T& h_bar, Work<T>& w) {
  LinkBar<T>& b = w.bar[l];
  const Spin<T> k = link_spin(m, l, w);
  const Vec3<T> torque = spin_torque(k) * scale, pair = b.w.ang;
  const SpinBars<T> bar = spin_torque_adjoint(k, pair * scale);
  b.w_bar.ang += torque;
  b.v_bar.ang += bar.w;
  b.pose.ang -= cross(pair, torque) + cross(k.w, bar.w);
  h_bar += bar.h;
  if (!w.derived_bar) return;
  // I = R link_I R': the pairs, seen from the link
  T* out = w.derived_bar->link_I + 6 * l;
  for (int i = 0; i < 4; ++i)
    add_inertia_pair(mul_transposed(w.link[l].R, bar.left[i]),
                     mul_transposed(w.link[l].R, bar.right[i]), out);
}
// (G.5)  for columns: the torque joins the link's force, its slope in w the velocity products
template <class T, class P>
FB_FN void add_spin(const Model<T, P>& m, int l, const Work<T>& w, Vec3<T>& force, Mat3<T>& D) {
  const T zero = T(0), one = T(1);
  const Vec3<T> e[3] = {{one, zero, zero}, {zero, one, zero}, {zero, zero, one}};
  const Spin<T> k = link_spin(m, l, w);
  force += spin_torque(k);
  for (int i = 0; i < 3; ++i) {
    const Vec3<T> row = spin_torque_adjoint(k, e[i]).w;
    D.a[3 * i] += row.x;
    D.a[3 * i + 1] += row.y;
    D.a[3 * i + 2] += row.z;
  }
}

}  // namespace fb::FB_ISA
