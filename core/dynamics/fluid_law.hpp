// Force of a fluid on a part of a body, in the part's own axes: MuJoCo's two models, a box of the
// body's inertia and the ellipsoid of a geom.  Proof: docs/derivations/fluid.md.
#pragma once
#include "core/dynamics/spatial.hpp"

namespace fb::FB_ISA {

inline constexpr double kFluidPi = 3.14159265358979323846;
// what would be divided by counts as no less
inline constexpr double kFluidLeast = 1e-15;

// numbers of a part. Box: coef holds its drags, linear (turn, move) and quadratic by axis. Ellipsoid:
// coef holds a geom's fluid coefficients in MuJoCo's order, shape what follows from its semiaxes
template <class T>
struct FluidLaw {
  bool ellipsoid;
  T rho, mu;  // density and viscosity
  T coef[12];
  T shape[10];
};
enum BoxCoefficient : int { kDragTurn, kDragMove, kDragTurn2, kDragMove2 = 5 };
enum GeomCoefficient : int {
  kFluidScale,
  kBluntDrag,
  kSlenderDrag,
  kAngularDrag,
  kKuttaLift,
  kMagnusLift,
  kVirtualMass,
  kVirtualInertia = 9
};
enum EllipsoidNumber : int {
  kFluidVolume,
  kFluidDiameter,
  kFluidArea,
  kFluidMoment,
  kFluidNormal,
  kFluidMoments = 7
};

template <class T>
FB_INLINE Vec3<T> by_axis(Vec3<T> a, Vec3<T> b) {
  return {a.x * b.x, a.y * b.y, a.z * b.z};
}
// a number that is divided by
template <class T>
FB_INLINE T divisor(T x) {
  return max(x, T(Real<T>(kFluidLeast)));
}

// (Z.1)  f = -(linear + quadratic |x|) x, by axis
template <class T>
FB_INLINE Vec3<T> box_drag(T linear, const T* quadratic, Vec3<T> x) {
  const Vec3<T> size{abs(x.x), abs(x.y), abs(x.z)};
  return -(x * linear + by_axis(by_axis(lift3<T>(quadratic), size), x));
}
// given f_bar, add to x_bar and, unless null, to the cotangents of the two drags
template <class T>
FB_INLINE void box_drag_adjoint(T linear, const T* quadratic, Vec3<T> x, Vec3<T> f_bar,
                                Vec3<T>& x_bar, T* linear_bar, T* quadratic_bar) {
  const Vec3<T> size{abs(x.x), abs(x.y), abs(x.z)};
  const Vec3<T> slope = by_axis(lift3<T>(quadratic), size) * Real<T>(2);
  x_bar -= f_bar * linear + by_axis(slope, f_bar);
  if (!linear_bar) return;
  *linear_bar -= dot(x, f_bar);
  add3(-by_axis(by_axis(size, x), f_bar), quadratic_bar);
}

// how the fluid flows past an ellipsoid: momenta p and l of the fluid that it carries, the normal n of
// its cross-section, the area of that, and drags
template <class T>
struct Flow {
  Vec3<T> p, l, n, side, moment, K;
  T den, num, area, speed, cosine, turning, lift, blunt, drag, turn_drag;
};
template <class T>
FB_INLINE Flow<T> open_flow(const FluidLaw<T>& k, Motion<T> v) {
  using R = Real<T>;
  const R pi(kFluidPi);
  const T *c = k.coef, *s = k.shape;
  Flow<T> f;
  f.p = by_axis(lift3<T>(c + kVirtualMass), v.lin) * k.rho;
  f.l = by_axis(lift3<T>(c + kVirtualInertia), v.ang) * k.rho;
  f.n = by_axis(lift3<T>(s + kFluidNormal), v.lin);
  f.side = cross(f.n, v.lin);
  f.den = dot(f.n, f.n);
  f.num = dot(f.n, v.lin);
  f.speed = norm(v.lin);
  f.area = sqrt(f.den / divisor(f.num)) * pi;
  f.cosine = f.num / divisor(f.speed * f.den);
  f.lift = c[kKuttaLift] * k.rho * f.cosine * f.area;
  // linear and quadratic drag
  const T D = s[kFluidDiameter];
  f.blunt = f.area * c[kBluntDrag] + c[kSlenderDrag] * (s[kFluidArea] - f.area);
  f.drag = k.mu * D * R(3 * kFluidPi) + k.rho * f.speed * f.blunt;
  for (int i = 0; i < 3; ++i) {
    const T own = s[kFluidMoments + i];
    put_axis(f.K, i, c[kAngularDrag] * own + c[kSlenderDrag] * (s[kFluidMoment] - own));
  }
  f.moment = by_axis(f.K, v.ang);
  f.turning = norm(f.moment);
  f.turn_drag = k.mu * (D * D * D) * pi + k.rho * f.turning;
  return f;
}
template <class T>
FB_INLINE void put_axis(Vec3<T>& x, int i, T value) {
  (i == 0 ? x.x : i == 1 ? x.y : x.z) = value;
}
// (Z.2)  added mass, Magnus' and Kutta's lift, drag; all times the geom's own scale
template <class T>
FB_INLINE Force<T> ellipsoid_force(const FluidLaw<T>& k, Motion<T> v) {
  const Flow<T> f = open_flow(k, v);
  const T magnus = k.coef[kMagnusLift] * k.rho * k.shape[kFluidVolume];
  const Vec3<T> turn = cross(f.p, v.lin) + cross(f.l, v.ang) - v.ang * f.turn_drag;
  const Vec3<T> move = cross(f.p, v.ang) + cross(v.ang, v.lin) * magnus +
                       cross(f.side * f.lift, v.lin) - v.lin * f.drag;
  return Force<T>{turn, move} * k.coef[kFluidScale];
}
// cotangents of what a flow is made of, on the way back
template <class T>
struct FlowBars {
  Vec3<T> n, mom, K;
  T drag, turn_drag, lift, area, speed, cosine, den, num;
};
// those of area, cosine, speed and normal, from the drags and the lift on
template <class T>
FB_INLINE void flow_adjoint(const FluidLaw<T>& k, Motion<T> v, const Flow<T>& f, FlowBars<T>& b,
                            Force<T>& v_bar) {
  using R = Real<T>;
  const T *c = k.coef, zero = T(0), one = T(1);
  b.speed = b.drag * k.rho * f.blunt;
  b.area = b.drag * k.rho * f.speed * (c[kBluntDrag] - c[kSlenderDrag]) +
           b.lift * c[kKuttaLift] * k.rho * f.cosine;
  b.cosine = b.lift * c[kKuttaLift] * k.rho * f.area;
  // the cosine, then the area, each over a number that is held above zero
  const T past = f.speed * f.den, below = divisor(past), low = divisor(f.num);
  const T past_bar = select(past == below, -(b.cosine * f.cosine / below), zero);
  b.num = b.cosine / below;
  b.speed += past_bar * f.den;
  b.den = past_bar * f.speed;
  const Mask<T> some = f.area > zero;
  const T ratio_bar =
      select(some, b.area * R(kFluidPi * kFluidPi / 2) / select(some, f.area, one), zero);
  b.den += ratio_bar / low;
  b.num -= select(f.num == low, ratio_bar * (f.den / low) / low, zero);
  b.n += f.n * (b.den * R(2)) + v.lin * b.num;
  v_bar.lin += f.n * b.num + by_axis(lift3<T>(k.shape + kFluidNormal), b.n);
  const Mask<T> moves = f.speed > zero, turns = f.turning > zero;
  v_bar.lin += v.lin * select(moves, b.speed / select(moves, f.speed, one), zero);
  const T norm_bar = select(turns, b.turn_drag * k.rho / select(turns, f.turning, one), zero);
  b.mom = f.moment * norm_bar;
  b.K = by_axis(b.mom, v.ang);
  v_bar.ang += by_axis(b.mom, f.K);
}
// (Z.3)  given f_bar, add to v_bar and, unless null, to the cotangents of the law's numbers
template <class T>
FB_FN void ellipsoid_force_adjoint(const FluidLaw<T>& k, Motion<T> v, Motion<T> f_bar,
                                   Force<T>& v_bar, FluidLaw<T>* k_bar) {
  const Flow<T> f = open_flow(k, v);
  const T *c = k.coef, *s = k.shape;
  const T magnus = c[kMagnusLift] * k.rho * s[kFluidVolume];
  const Vec3<T> t = f_bar.ang * c[kFluidScale], g = f_bar.lin * c[kFluidScale];
  FlowBars<T> b;
  b.drag = -dot(v.lin, g);
  b.turn_drag = -dot(v.ang, t);
  // Kutta's lift: g . (side lift x v), side = n x v
  const Vec3<T> circ_bar = cross(v.lin, g), side_bar = circ_bar * f.lift;
  b.lift = dot(circ_bar, f.side);
  b.n = cross(v.lin, side_bar);
  v_bar.lin += cross(g, f.side * f.lift) + cross(side_bar, f.n) - g * f.drag;
  v_bar.ang -= t * f.turn_drag;
  flow_adjoint(k, v, f, b, v_bar);
  // Magnus' lift and the momenta
  v_bar.ang += cross(v.lin, g) * magnus + cross(g, f.p) + cross(t, f.l);
  v_bar.lin += cross(g, v.ang) * magnus + cross(t, f.p);
  const Vec3<T> p_bar = cross(v.ang, g) + cross(v.lin, t), l_bar = cross(v.ang, t);
  const Vec3<T> mass = lift3<T>(c + kVirtualMass), inertia = lift3<T>(c + kVirtualInertia);
  v_bar.lin += by_axis(mass, p_bar) * k.rho;
  v_bar.ang += by_axis(inertia, l_bar) * k.rho;
  if (!k_bar) return;
  FluidLaw<T>& out = *k_bar;
  const T magnus_bar = dot(g, cross(v.ang, v.lin));
  add3(by_axis(v.lin, p_bar) * k.rho, out.coef + kVirtualMass);
  add3(by_axis(v.ang, l_bar) * k.rho, out.coef + kVirtualInertia);
  out.rho += dot(by_axis(mass, v.lin), p_bar) + dot(by_axis(inertia, v.ang), l_bar) +
             magnus_bar * c[kMagnusLift] * s[kFluidVolume] +
             b.lift * c[kKuttaLift] * f.cosine * f.area + b.drag * f.speed * f.blunt +
             b.turn_drag * f.turning;
  out.coef[kMagnusLift] += magnus_bar * k.rho * s[kFluidVolume];
  out.shape[kFluidVolume] += magnus_bar * k.rho * c[kMagnusLift];
  out.coef[kKuttaLift] += b.lift * k.rho * f.cosine * f.area;
  // the scale multiplies all: this part's own force without it
  FluidLaw<T> plain = k;
  plain.coef[kFluidScale] = T(1);
  const Force<T> whole = ellipsoid_force(plain, v);
  out.coef[kFluidScale] += dot(f_bar, whole);
  drag_numbers_adjoint(k, v, f, b, out);
}
// the coefficients of both drags and the shape's numbers in them
template <class T>
FB_INLINE void drag_numbers_adjoint(const FluidLaw<T>& k, Motion<T> v, const Flow<T>& f,
                                    const FlowBars<T>& b, FluidLaw<T>& out) {
  using R = Real<T>;
  const T *c = k.coef, *s = k.shape, D = s[kFluidDiameter];
  const T quick = b.drag * k.rho * f.speed;
  out.mu += b.drag * D * R(3 * kFluidPi) + b.turn_drag * (D * D * D) * R(kFluidPi);
  out.shape[kFluidDiameter] +=
      k.mu * (b.drag * R(3 * kFluidPi) + b.turn_drag * (D * D) * R(3 * kFluidPi));
  out.coef[kBluntDrag] += quick * f.area;
  out.coef[kSlenderDrag] += quick * (s[kFluidArea] - f.area);
  out.shape[kFluidArea] += quick * c[kSlenderDrag];
  add3(by_axis(b.n, v.lin), out.shape + kFluidNormal);
  const T K_bar[3] = {b.K.x, b.K.y, b.K.z};
  for (int i = 0; i < 3; ++i) {
    const T own = s[kFluidMoments + i];
    out.coef[kAngularDrag] += K_bar[i] * own;
    out.coef[kSlenderDrag] += K_bar[i] * (s[kFluidMoment] - own);
    out.shape[kFluidMoment] += K_bar[i] * c[kSlenderDrag];
    out.shape[kFluidMoments + i] += K_bar[i] * (c[kAngularDrag] - c[kSlenderDrag]);
  }
}

// force and torque of either model at a velocity that is the part's own less the wind's
template <class T>
FB_FN Force<T> fluid_force(const FluidLaw<T>& k, Motion<T> v) {
  if (k.ellipsoid) return ellipsoid_force(k, v);
  return {box_drag(k.coef[kDragTurn], k.coef + kDragTurn2, v.ang),
          box_drag(k.coef[kDragMove], k.coef + kDragMove2, v.lin)};
}
// given f_bar, add to v_bar and, unless null, to the cotangents of the law's numbers
template <class T>
FB_FN void fluid_force_adjoint(const FluidLaw<T>& k, Motion<T> v, Motion<T> f_bar, Force<T>& v_bar,
                               FluidLaw<T>* k_bar) {
  if (k.ellipsoid) return ellipsoid_force_adjoint(k, v, f_bar, v_bar, k_bar);
  // coefficients that start with kDragTurn
  T* out = k_bar ? k_bar->coef : nullptr;
  box_drag_adjoint(k.coef[kDragTurn], k.coef + kDragTurn2, v.ang, f_bar.ang, v_bar.ang, out,
                   out ? out + kDragTurn2 : nullptr);
  box_drag_adjoint(k.coef[kDragMove], k.coef + kDragMove2, v.lin, f_bar.lin, v_bar.lin,
                   out ? out + kDragMove : nullptr, out ? out + kDragMove2 : nullptr);
}

// numbers of a law that is all zeros, to add to
template <class T>
FB_INLINE FluidLaw<T> no_fluid(bool ellipsoid) {
  FluidLaw<T> k;
  k.ellipsoid = ellipsoid;
  k.rho = k.mu = T(0);
  for (T& x : k.coef) x = T(0);
  for (T& x : k.shape) x = T(0);
  return k;
}

// (Z.4)  drags of the box that has a body's mass and principal moments of inertia
template <class T>
struct FluidBox {
  T mass, excess[3], side[3];  // excess: twice the second moments of mass
};
template <class T>
FB_INLINE FluidBox<T> fluid_box(T mass, const T* I) {
  FluidBox<T> b;
  b.mass = divisor(mass);
  for (int i = 0; i < 3; ++i) {
    b.excess[i] = divisor(I[(i + 1) % 3] + I[(i + 2) % 3] - I[i]);
    b.side[i] = sqrt(b.excess[i] / b.mass * Real<T>(6));
  }
  return b;
}
template <class T>
FB_FN void box_law(T mass, const T* I, FluidLaw<T>& k) {
  using R = Real<T>;
  const FluidBox<T> b = fluid_box(mass, I);
  const T D = (b.side[0] + b.side[1] + b.side[2]) * R(1.0 / 3);
  k.coef[kDragTurn] = k.mu * (D * D * D) * R(kFluidPi);
  k.coef[kDragMove] = k.mu * D * R(3 * kFluidPi);
  for (int i = 0; i < 3; ++i) {
    const T y = b.side[(i + 1) % 3], z = b.side[(i + 2) % 3];
    k.coef[kDragTurn2 + i] = k.rho * b.side[i] * (y * y * y * y + z * z * z * z) * R(1.0 / 64);
    k.coef[kDragMove2 + i] = k.rho * y * z * R(0.5);
  }
}
// (Z.5)  given its cotangents, add to those of mass, moments, and in k_bar of density and viscosity
template <class T>
FB_FN void box_law_adjoint(T mass, const T* I, const FluidLaw<T>& k, FluidLaw<T>& k_bar,
                           T& mass_bar, T* I_bar) {
  using R = Real<T>;
  const FluidBox<T> b = fluid_box(mass, I);
  const T D = (b.side[0] + b.side[1] + b.side[2]) * R(1.0 / 3), *c = k_bar.coef, zero = T(0);
  k_bar.mu += c[kDragTurn] * (D * D * D) * R(kFluidPi) + c[kDragMove] * D * R(3 * kFluidPi);
  const T D_bar = k.mu * R(3 * kFluidPi) * (c[kDragTurn] * (D * D) + c[kDragMove]);
  T side_bar[3];
  for (T& x : side_bar) x = D_bar * R(1.0 / 3);
  for (int i = 0; i < 3; ++i) {
    const int j = (i + 1) % 3, l = (i + 2) % 3;
    const T x = b.side[i], y = b.side[j], z = b.side[l];
    const T turn_bar = c[kDragTurn2 + i] * R(1.0 / 64), move_bar = c[kDragMove2 + i] * R(0.5);
    const T both = y * y * y * y + z * z * z * z;
    k_bar.rho += turn_bar * x * both + move_bar * y * z;
    side_bar[i] += turn_bar * k.rho * both;
    side_bar[j] += k.rho * (turn_bar * x * (y * y * y) * R(4) + move_bar * z);
    side_bar[l] += k.rho * (turn_bar * x * (z * z * z) * R(4) + move_bar * y);
  }
  for (int i = 0; i < 3; ++i) {
    const int j = (i + 1) % 3, l = (i + 2) % 3;
    const T slope = side_bar[i] * b.side[i] * R(0.5), excess = I[j] + I[l] - I[i];
    mass_bar -= select(mass == b.mass, slope / b.mass, zero);
    const T excess_bar = select(excess == b.excess[i], slope / b.excess[i], zero);
    I_bar[i] -= excess_bar;
    I_bar[j] += excess_bar;
    I_bar[l] += excess_bar;
  }
}

// (Z.6)  numbers of an ellipsoid with semiaxes a
template <class T>
FB_FN void ellipsoid_law(const T* a, FluidLaw<T>& k) {
  using R = Real<T>;
  const R pi(kFluidPi);
  const T most = max(max(a[0], a[1]), a[2]), least = min(min(a[0], a[1]), a[2]);
  const T sum = a[0] + a[1] + a[2], middle = sum - most - least, square = most * most;
  T* s = k.shape;
  s[kFluidVolume] = a[0] * a[1] * a[2] * R(4 * kFluidPi / 3);
  s[kFluidDiameter] = sum * R(2.0 / 3);
  s[kFluidArea] = most * middle * pi;
  s[kFluidMoment] = middle * (square * square) * R(8 * kFluidPi / 15);
  for (int i = 0; i < 3; ++i) {
    const T y = a[(i + 1) % 3], z = a[(i + 2) % 3], larger = max(y, z);
    s[kFluidNormal + i] = (y * z) * (y * z);
    s[kFluidMoments + i] = a[i] * ((larger * larger) * (larger * larger)) * R(8 * kFluidPi / 15);
  }
}
// given the cotangents of these numbers, add to a_bar; where two axes tie the later one moves
template <class T>
FB_FN void ellipsoid_law_adjoint(const T* a, const FluidLaw<T>& k_bar, T* a_bar) {
  using R = Real<T>;
  const R pi(kFluidPi), eight(8 * kFluidPi / 15);
  const T *b = k_bar.shape, zero = T(0);
  const T most = max(max(a[0], a[1]), a[2]), least = min(min(a[0], a[1]), a[2]);
  const T middle = a[0] + a[1] + a[2] - most - least, cube = most * most * most;
  const T middle_bar = b[kFluidArea] * most * pi + b[kFluidMoment] * (cube * most) * eight;
  const T most_bar =
      b[kFluidArea] * middle * pi + b[kFluidMoment] * middle * cube * R(4 * eight) - middle_bar;
  Mask<T> top_left(true), low_left(true);
  for (int i = 2; i >= 0; --i) {
    const int j = (i + 1) % 3, l = (i + 2) % 3;
    const T y = a[j], z = a[l];
    a_bar[i] +=
        b[kFluidVolume] * y * z * R(4 * kFluidPi / 3) + b[kFluidDiameter] * R(2.0 / 3) + middle_bar;
    const Mask<T> top = top_left & (a[i] == most), low = low_left & (a[i] == least);
    top_left = top_left & !top;
    low_left = low_left & !low;
    a_bar[i] += select(top, most_bar, zero) - select(low, middle_bar, zero);
    const T normal = b[kFluidNormal + i] * y * z * R(2), own = b[kFluidMoments + i] * eight;
    a_bar[j] += normal * z;
    a_bar[l] += normal * y;
    const T larger = max(y, z), three = larger * larger * larger;
    a_bar[i] += own * (three * larger);
    const T larger_bar = own * a[i] * three * R(4);
    a_bar[j] += select(y > z, larger_bar, zero);
    a_bar[l] += select(y > z, zero, larger_bar);
  }
}

}  // namespace fb::FB_ISA
