// One struct a joint type: its coordinates, where it puts its link, how its axes move, and the
// adjoints.  Everything else asks these.  Proof: docs/derivations/joint.md.
#pragma once
#include "core/dynamics/quaternion.hpp"
#include "core/model/schema.hpp"

namespace fb::FB_ISA {

// cotangents of what a joint's twist is made of: axes of the world, axes that ride on the link, and
// the twist of the parent
template <class T>
struct TwistBars {
  Force<T> fixed, riding, parent;
};

// coordinates: `adds` numbers that add, then a quaternion if the joint turns about a point
template <int Adds, bool Turns>
struct Coordinates {
  static constexpr int adds = Adds, nq = Adds + (Turns ? 4 : 0), nv = Adds + (Turns ? 3 : 0);
  static constexpr bool turns = Turns;

  // (B.1)  q+ = q (+) h v
  template <class T, class P>
  FB_INLINE static void integrate(const T* q, const T* v, P h, T* out) {
    for (int i = 0; i < adds; ++i) out[i] = q[i] + v[i] * h;
    if constexpr (turns) integrate_quat(q + adds, v + adds, h, out + adds);
  }
  // (B.2)  given out_bar (ambient), add to q_bar (ambient), v_bar and h_bar
  template <class T, class P>
  FB_INLINE static void integrate_adjoint(const T* q, const T* v, P h, const T* out_bar, T* q_bar,
                                          T* v_bar, T& h_bar) {
    for (int i = 0; i < adds; ++i) {
      q_bar[i] += out_bar[i];
      v_bar[i] += out_bar[i] * h;
      h_bar += out_bar[i] * v[i];
    }
    if constexpr (turns)
      integrate_quat_adjoint(q + adds, v + adds, h, out_bar + adds, q_bar + adds, v_bar + adds,
                             h_bar);
  }

  // (B.3)  a tangent cotangent (nv) added as an ambient one (nq)
  template <class T>
  FB_INLINE static void lift_tangent(const T* q, const T* tangent, T* q_bar) {
    for (int i = 0; i < adds; ++i) q_bar[i] += tangent[i];
    if constexpr (turns) add_quat_bar(q + adds, lift3<T>(tangent + adds), q_bar + adds);
  }
  // (B.4)  the tangent cotangent (nv) of an ambient one (nq)
  template <class T>
  FB_INLINE static void lower_tangent(const T* q, const T* q_bar, T* tangent) {
    for (int i = 0; i < adds; ++i) tangent[i] = q_bar[i];
    if constexpr (turns) put3(turn_bar(q + adds, q_bar + adds), tangent + adds);
  }

  // (B.5)  x = q (-) ref, nv numbers: differences, and the rotation vector of ref^-1 q
  template <class T, class P>
  FB_INLINE static void difference(const T* q, const P* ref, T* x) {
    for (int i = 0; i < adds; ++i) x[i] = q[i] - T(ref[i]);
    if constexpr (turns) {
      const P* r = ref + adds;
      const T u[4] = {T(r[0]), T(r[1]), T(r[2]), T(r[3])};
      put3(log_quat(mul(conj(normalised(u)), normalised(q + adds))), x + adds);
    }
  }
  // (B.6)  given x and x_bar, add to q_bar (tangent) and, unless it is null, to ref_bar (ambient)
  template <class T, class P>
  FB_INLINE static void difference_adjoint(const P* ref, const T* x, const T* x_bar, T* q_bar,
                                           T* ref_bar) {
    for (int i = 0; i < adds; ++i) {
      q_bar[i] += x_bar[i];
      if (ref_bar) ref_bar[i] -= x_bar[i];
    }
    if constexpr (turns) {
      const Vec3<T> e = lift3<T>(x + adds), e_bar = lift3<T>(x_bar + adds);
      add3(log_adjoint(e, e_bar, -1), q_bar + adds);
      // a turn of the reference acts from the left, the other way
      if (ref_bar) add_quat_bar(ref + adds, log_adjoint(e, -e_bar, 1), ref_bar + adds);
    }
  }

  // (B.7)  the coordinates as nv numbers: as they are, and a rotation vector
  template <class T>
  FB_INLINE static void vector(const T* q, T* x) {
    for (int i = 0; i < adds; ++i) x[i] = q[i];
    if constexpr (turns) put3(log_quat(normalised(q + adds)), x + adds);
  }
  // (B.8)  given x and x_bar, add to q_bar (tangent)
  template <class T>
  FB_INLINE static void vector_adjoint(const T* x, const T* x_bar, T* q_bar) {
    for (int i = 0; i < adds; ++i) q_bar[i] += x_bar[i];
    if constexpr (turns)
      add3(log_adjoint(lift3<T>(x + adds), lift3<T>(x_bar + adds), -1), q_bar + adds);
  }
};

// a joint placed in its parent, all of whose axes ride on its link
template <int Adds, bool Turns>
struct Riding : Coordinates<Adds, Turns> {
  static constexpr int world_axes = 0;
  static constexpr int lengths = Adds + (Turns ? 3 : 0);  // dofs that an actuator's length counts
  static constexpr bool placed = true;

  // (B.9)  v = v_parent + S v, c = v_parent x (S v); D holds an axis S of each dof
  template <class D, class T>
  FB_INLINE static void twist(const D* d, const T* rate, Motion<T> parent, Motion<T>& v,
                              Motion<T>& c) {
    Motion<T> own = d[0].S * rate[0];
    if constexpr (Turns) own = mul_add(d[1].S, rate[1], mul_add(d[2].S, rate[2], own));
    v = parent + own;
    c = cross(parent, own);
  }
  // (B.10)  given c_bar, add to the bars of the joint's part of v and to the parent's
  template <class T>
  FB_INLINE static void twist_adjoint(const T*, Motion<T> v, Motion<T> parent, Force<T> c_bar,
                                      TwistBars<T>& bars) {
    bars.riding -= cross(parent, c_bar);
    bars.parent += cross(v - parent, c_bar);
  }
};

struct HingeJoint : Riding<1, false> {
  static constexpr bool has_axis = true;

  // (B.11)  the link's rotation R and origin r, which comes in as the joint's; E: the joint's frame
  template <class T, class P>
  FB_INLINE static void pose(const Mat3<T>& E, const T* q, const P* q0, Mat3<T>& R, Vec3<T>&) {
    T sn, cs;
    sincos(q[0] - T(q0[0]), sn, cs);
#pragma GCC unroll 3
    for (int i = 0; i < 9; i += 3) {
      R.a[i] = dot2(E.a[i], cs, E.a[i + 1], sn);
      R.a[i + 1] = det2(E.a[i + 1], cs, E.a[i], sn);
      R.a[i + 2] = E.a[i + 2];
    }
  }
  // (B.12)  motion subspace
  template <class T, class D>
  FB_INLINE static void axes(const Mat3<T>& R, Vec3<T> r, D* d) {
    const Vec3<T> axis = column(R, 2);
    d[0].S = {axis, cross(r, axis)};
  }
  // (B.13)  the point that a turn of the joint's frame turns the link about
  template <class T, class P>
  FB_INLINE static Vec3<T> pivot(const Mat3<T>&, Vec3<T> r, const T*, const P*) {
    return r;
  }
};

struct SlideJoint : Riding<1, false> {
  static constexpr bool has_axis = true;

  template <class T, class P>
  FB_INLINE static void pose(const Mat3<T>& E, const T* q, const P* q0, Mat3<T>& R, Vec3<T>& r) {
    R = E;
    r += column(E, 2) * (q[0] - T(q0[0]));
  }
  template <class T, class D>
  FB_INLINE static void axes(const Mat3<T>& R, Vec3<T>, D* d) {
    d[0].S = {zero3<T>(), column(R, 2)};
  }
  // a slide turns about the point it starts from
  template <class T, class P>
  FB_INLINE static Vec3<T> pivot(const Mat3<T>& R, Vec3<T> r, const T* q, const P* q0) {
    return r - column(R, 2) * (q[0] - T(q0[0]));
  }
};

// three turns about the axes of the link
template <class T, class D>
FB_INLINE void turning_axes(const Mat3<T>& R, Vec3<T> r, D* d) {
  for (int i = 0; i < 3; ++i) {
    const Vec3<T> axis = column(R, i);
    d[i].S = {axis, cross(r, axis)};
  }
}

struct BallJoint : Riding<0, true> {
  static constexpr bool has_axis = false;

  template <class T, class P>
  FB_INLINE static void pose(const Mat3<T>& E, const T* q, const P*, Mat3<T>& R, Vec3<T>&) {
    const Quat<T> u = normalised(q);
    R = mul(E, rotation(u.w, u.x, u.y, u.z).a);
  }
  template <class T, class D>
  FB_INLINE static void axes(const Mat3<T>& R, Vec3<T> r, D* d) {
    turning_axes(R, r, d);
  }
  template <class T, class P>
  FB_INLINE static Vec3<T> pivot(const Mat3<T>&, Vec3<T> r, const T*, const P*) {
    return r;
  }
};

// placed in the world: it moves along the world's axes, which do not ride on its link, and turns
struct FreeJoint : Coordinates<3, true> {
  static constexpr int world_axes = 3, lengths = 0;
  static constexpr bool placed = false, has_axis = false;

  template <class T, class P>
  FB_INLINE static void pose(const T* q, const P*, Mat3<T>& R, Vec3<T>& r) {
    r = lift3<T>(q);
    const Quat<T> u = normalised(q + 3);
    R = rotation(u.w, u.x, u.y, u.z);
  }
  template <class T, class D>
  FB_INLINE static void axes(const Mat3<T>& R, Vec3<T> r, D* d) {
    const T o = T(0), i = T(1);
    d[0].S = {zero3<T>(), {i, o, o}};
    d[1].S = {zero3<T>(), {o, i, o}};
    d[2].S = {zero3<T>(), {o, o, i}};
    turning_axes(R, r, d + 3);
  }
  // c = (0, v_lin) x (S v)
  template <class D, class T>
  FB_INLINE static void twist(const D* d, const T* rate, Motion<T>, Motion<T>& v, Motion<T>& c) {
    const Motion<T> lin{zero3<T>(), lift3<T>(rate)};
    const Motion<T> ang = mul_add(d[3].S, rate[3], mul_add(d[4].S, rate[4], d[5].S * rate[5]));
    v = lin + ang;
    c = cross(lin, ang);
  }
  template <class T>
  FB_INLINE static void twist_adjoint(const T* rate, Motion<T> v, Motion<T>, Force<T> c_bar,
                                      TwistBars<T>& bars) {
    const Motion<T> lin{zero3<T>(), lift3<T>(rate)};
    bars.fixed += cross(v - lin, c_bar);
    bars.riding -= cross(lin, c_bar);
  }
};

// f with the struct of a joint type
template <class F>
FB_INLINE constexpr decltype(auto) with_joint(int type, F&& f) {
  if (type == kHinge) return f(HingeJoint{});
  if (type == kSlide) return f(SlideJoint{});
  if (type == kBall) return f(BallJoint{});
  return f(FreeJoint{});
}
FB_INLINE constexpr bool joint_has_sizes(int type, int nq, int nv) {
  return with_joint(type, [=](auto joint) { return joint.nq == nq && joint.nv == nv; });
}
// every joint of the schema has its struct
#define FB_X(constant, name, number, nq, nv) static_assert(joint_has_sizes(constant, nq, nv));
FB_JOINTS(FB_X)
#undef FB_X
FB_INLINE int joint_dofs(int type) {
  return with_joint(type, [](auto joint) { return joint.nv; });
}
FB_INLINE int world_axes(int type) {
  return with_joint(type, [](auto joint) { return joint.world_axes; });
}
FB_INLINE bool joint_turns(int type) {
  return with_joint(type, [](auto joint) { return joint.turns; });
}
FB_INLINE bool joint_placed(int type) {
  return with_joint(type, [](auto joint) { return joint.placed; });
}
FB_INLINE bool joint_has_axis(int type) {
  return with_joint(type, [](auto joint) { return joint.has_axis; });
}

}  // namespace fb::FB_ISA
