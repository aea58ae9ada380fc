// A box against a box, for one world at a time: separating axes, then a clipped face, an edge pair
// or a vertex. Proof: docs/derivations/collision.md.
#pragma once
#include "core/collision/box_face.hpp"

namespace fb::FB_ISA {

// extent of the box along a unit vector, from its centre
template <class T>
FB_INLINE T reach_of(const BoxFrame<T>& f, Vec3<T> n) {
  return f.half[0] * abs(dot(n, f.axis[0])) + f.half[1] * abs(dot(n, f.axis[1])) +
         f.half[2] * abs(dot(n, f.axis[2]));
}

// edges of A and B count as parallel below this squared sine
inline constexpr double kParallelEdges = 1e-6;

template <class T>
FB_INLINE BoxAxis<T> axis_of(const BoxFrame<T>& a, const BoxFrame<T>& b, Vec3<T> u, int i, int j) {
  const Vec3<T> d = b.p - a.p;
  const Vec3<T> n = u * sign_of(dot(d, u));
  return {dot(d, n) - reach_of(a, n) - reach_of(b, n), n, i, j};
}

// (C.15)  the face axis of largest separation; B's faces must beat A's by `bias`
template <class T>
FB_INLINE BoxAxis<T> best_face_axis(const BoxFrame<T>& a, const BoxFrame<T>& b, T bias) {
  BoxAxis<T> best = axis_of(a, b, a.axis[0], 0, -1);
  for (int i = 1; i < 3; ++i) {
    const BoxAxis<T> next = axis_of(a, b, a.axis[i], i, -1);
    if (next.sep > best.sep) best = next;
  }
  best.sep += bias;
  for (int j = 0; j < 3; ++j) {
    const BoxAxis<T> next = axis_of(a, b, b.axis[j], -1, j);
    if (next.sep > best.sep) best = next;
  }
  if (best.i >= 0) best.sep -= bias;
  return best;
}

// (C.15)  the edge axis of largest separation; i = -1 if all edges are parallel
template <class T>
FB_INLINE BoxAxis<T> best_edge_axis(const BoxFrame<T>& a, const BoxFrame<T>& b) {
  BoxAxis<T> best{T(Real<T>(-1e30)), a.axis[2], -1, -1};
  for (int i = 0; i < 3; ++i)
    for (int j = 0; j < 3; ++j) {
      const Vec3<T> x = cross(a.axis[i], b.axis[j]);
      const T square = dot(x, x);
      if (square < T(Real<T>(kParallelEdges))) continue;
      const BoxAxis<T> next = axis_of(a, b, x * (T(1) / sqrt(square)), i, j);
      if (next.sep > best.sep) best = next;
    }
  return best;
}

// the middle of the edge along axis i that lies farthest along `side` n
template <class T>
FB_INLINE Vec3<T> edge_point(const BoxFrame<T>& f, int i, Vec3<T> n, T side) {
  Vec3<T> x = f.p;
  for (int k = 0; k < 3; ++k)
    if (k != i) x += f.axis[k] * (f.half[k] * (side * sign_of(dot(n, f.axis[k]))));
  return x;
}

// given x_bar, add to bar: the point moves with the box, and along two axes with their half extents
template <class T>
FB_INLINE void edge_point_adjoint(const BoxFrame<T>& f, int i, Vec3<T> n, T side, Vec3<T> x_bar,
                                  ShapeBar<T>& bar) {
  add_point(bar, edge_point(f, i, n, side), x_bar);
  for (int k = 0; k < 3; ++k)
    if (k != i) add_half(bar, k, dot(f.axis[k], x_bar) * (side * sign_of(dot(n, f.axis[k]))));
}

// (C.17)  the two edges that face each other along an edge axis; false if their lines come closest
// beyond an end
template <class T>
FB_INLINE bool edge_point(const BoxFrame<T>& a, const BoxFrame<T>& b, const BoxAxis<T>& at,
                          ContactPoint<T>& out) {
  if (at.i < 0) return false;
  Vec3<T> xa = edge_point(a, at.i, at.n, T(1)), xb = edge_point(b, at.j, at.n, T(-1));
  const Vec3<T> ua = a.axis[at.i], ub = b.axis[at.j], arm = xa - xb, x = cross(ua, ub);
  const T c = dot(ua, arm), f = dot(ub, arm), cosine = dot(ua, ub), square = dot(x, x);
  const T s = (cosine * f - c) / square, t = (f - cosine * c) / square;
  if (abs(s) > a.half[at.i] || abs(t) > b.half[at.j]) return false;
  xa += ua * s;
  xb += ub * t;
  out = {dot(at.n, xb - xa), at.n, (xa + xb) * Real<T>(0.5), true};
  return true;
}

// (C.43)  given out_bar, add to a_bar, b_bar; n = +- (ua x ub) / |ua x ub|
template <class T>
FB_FN void edge_point_adjoint(const BoxFrame<T>& a, const BoxFrame<T>& b, const BoxAxis<T>& at,
                              const ContactPointBar<T>& out_bar, ShapeBar<T>& a_bar,
                              ShapeBar<T>& b_bar) {
  const Vec3<T> n = at.n, ua = a.axis[at.i], ub = b.axis[at.j], x = cross(ua, ub);
  const Vec3<T> xa = edge_point(a, at.i, n, T(1)), xb = edge_point(b, at.j, n, T(-1));
  const Vec3<T> arm = xa - xb;
  const T c = dot(ua, arm), f = dot(ub, arm), cosine = dot(ua, ub), inverse = T(1) / dot(x, x);
  const T s = (cosine * f - c) * inverse, t = (f - cosine * c) * inverse;

  // phi = n . (xb + t ub - xa - s ua), p the mean of both points
  const Vec3<T> half_bar = out_bar.p * Real<T>(0.5), push = n * out_bar.phi;
  const Vec3<T> at_a_bar = half_bar - push, at_b_bar = half_bar + push;
  const Vec3<T> n_bar = out_bar.n + (ub * t - ua * s - arm) * out_bar.phi;
  const T s_bar = dot(ua, at_a_bar) * inverse, t_bar = dot(ub, at_b_bar) * inverse;

  // s |x|^2 = b f - c, t |x|^2 = f - b c with b = ua . ub, c = ua . arm, f = ub . arm
  const T cosine_bar = s_bar * f - t_bar * c, f_bar = s_bar * cosine + t_bar;
  const T c_bar = -(s_bar + t_bar * cosine), square_bar = -(s_bar * s + t_bar * t);
  const T scale = sqrt(inverse) * sign_of(dot(n, x));
  const Vec3<T> x_bar = x * (square_bar * Real<T>(2)) + (n_bar - n * dot(n, n_bar)) * scale;
  const Vec3<T> arm_bar = ua * c_bar + ub * f_bar;
  const Vec3<T> ua_bar = at_a_bar * s + arm * c_bar + ub * cosine_bar + cross(ub, x_bar);
  const Vec3<T> ub_bar = at_b_bar * t + arm * f_bar + ua * cosine_bar + cross(x_bar, ua);
  edge_point_adjoint(a, at.i, n, T(1), at_a_bar + arm_bar, a_bar);
  edge_point_adjoint(b, at.j, n, T(-1), at_b_bar - arm_bar, b_bar);
  add_direction(a_bar, ua, ua_bar);
  add_direction(b_bar, ub, ub_bar);
}

// (C.18)  the vertex of either box closest to the other box (deepest in it, if inside), and its
// number: eight of A, then eight of B
template <class T>
FB_INLINE ContactPoint<T> vertex_touch(const Shape<T>& a, const Shape<T>& b, int& vertex) {
  ContactPoint<T> best{T(Real<T>(1e30)), column(a.R, 2), a.p, true};
  vertex = 0;
  for (int c = 0; c < 16; ++c) {
    const bool of_a = c < 8;
    const Shape<T>&from = of_a ? a : b, &to = of_a ? b : a;
    const Vec3<T> corner{(c & 1) ? from.size.x : -from.size.x, (c & 2) ? from.size.y : -from.size.y,
                         (c & 4) ? from.size.z : -from.size.z};
    const Vec3<T> x = from.p + mul(from.R, corner);
    const BoxPoint<T> at = point_box(mul_transposed(to.R, x - to.p), to.size);
    if (!(at.distance < best.phi)) continue;
    const Vec3<T> n = mul(to.R, at.n);
    best = {at.distance, of_a ? -n : n, x - n * (at.distance * Real<T>(0.5)), true};
    vertex = c;
  }
  return best;
}

// (C.46)  given out_bar, add to a_bar, b_bar: a ball of no radius on the other box, whose normal is
// reversed if it is A
template <class T>
FB_FN void vertex_touch_adjoint(const Shape<T>& a, const Shape<T>& b, int vertex,
                                const ContactPointBar<T>& out_bar, ShapeBar<T>& a_bar,
                                ShapeBar<T>& b_bar) {
  const bool of_a = vertex < 8;
  const Shape<T>&from = of_a ? a : b, &to = of_a ? b : a;
  ShapeBar<T>&from_bar = of_a ? a_bar : b_bar, &to_bar = of_a ? b_bar : a_bar;
  const Vec3<T> corner = box_corner(from, vertex), x = mul_transposed(to.R, corner - to.p);
  const BoxPoint<T> at = point_box(x, to.size);
  const ContactPointBar<T> point_bar{out_bar.phi, of_a ? out_bar.n : -out_bar.n, out_bar.p};
  Vec3<T> x_bar = zero3<T>();
  BoxPoint<T> at_bar{T(0), zero3<T>()};
  T r_bar = T(0);
  ball_on_box_adjoint(to, T(0), at, point_bar, x_bar, r_bar, at_bar);
  point_box_adjoint(x, to.size, at_bar, x_bar, to_bar.size);
  ShapeBar<T> moved{zero_force<T>(), zero3<T>()};
  box_corner_adjoint(from, vertex, mul(to.R, x_bar), moved);
  from_bar.size += moved.size;
  ContactPoint<T> touch;
  ball_on_box(to, corner, T(0), at, true, touch);
  share_wrench(touch, point_bar, moved.pose, from_bar, to_bar);
}

template <class T>
FB_INLINE void clear_touches(const Shape<T>& a, ContactPoint<T>* out) {
  for (int k = 0; k < pair_slots(kBoxBox); ++k) out[k] = {T(0), column(a.R, 2), a.p, false};
}

template <class T>
FB_INLINE bool is_nothing(Vec3<T> x) {
  return is_nothing(x.x) && is_nothing(x.y) && is_nothing(x.z);
}

// what carries the touches: two edges, a face (both along `axis`), or a vertex
template <class T>
struct BoxFeature {
  enum Kind { kEdges, kFace, kVertex } kind;
  BoxAxis<T> axis;
  int vertex;
};

// (C.15)-(C.18)  one world: an edge pair, a clipped face, or, where boxes are apart and the face
// misses the closest point, one touch
template <class T>
FB_OUTLINE BoxFeature<T> box_box_one(const Shape<T>& a, const Shape<T>& b, ContactPoint<T>* out) {
  using R = Real<T>;
  using Feature = BoxFeature<T>;
  const BoxFrame<T> fa = box_frame(a), fb = box_frame(b);
  const T small_a = min(a.size.x, min(a.size.y, a.size.z)),
          small_b = min(b.size.x, min(b.size.y, b.size.z));
  const T small = min(small_a, small_b);
  clear_touches(a, out);

  const BoxAxis<T> face = best_face_axis(fa, fb, small * R(1e-4)), edge = best_edge_axis(fa, fb);
  const bool prefer_edge = edge.sep > face.sep + abs(face.sep) * R(0.05) + small * R(1e-3);
  const bool apart = max(face.sep, edge.sep) > T(0);
  if (prefer_edge && edge_point(fa, fb, edge, out[0])) return {Feature::kEdges, edge, 0};

  // a face that reaches down to the separation of its axis holds the closest point
  const int count = prefer_edge && apart ? 0 : face_touches(fa, fb, face, out);
  T lowest = T(R(1e30));
  for (int k = 0; k < count; ++k) lowest = min(lowest, out[k].phi);
  const T slack = small * R(1e-2);
  if (count > 0 && !(apart && lowest > face.sep + slack)) return {Feature::kFace, face, 0};

  ContactPoint<T> single;
  Feature found{Feature::kEdges, edge, 0};
  if (!(edge.sep > face.sep && edge_point(fa, fb, edge, single))) {
    found.kind = Feature::kVertex;
    single = vertex_touch(a, b, found.vertex);
  }
  if (count > 0 && single.phi > lowest - slack) return {Feature::kFace, face, 0};
  clear_touches(a, out);
  out[0] = single;
  return found;
}

template <class T>
FB_INLINE bool is_nothing(const ContactPointBar<T>& x) {
  return is_nothing(x.phi) && is_nothing(x.n) && is_nothing(x.p);
}
// given the bar of a slot, add to a_bar, b_bar
template <class T>
FB_OUTLINE void box_box_one_adjoint(const Shape<T>& a, const Shape<T>& b, const SlotBar<T>& given,
                                    ShapeBar<T>& a_bar, ShapeBar<T>& b_bar) {
  const ContactPointBar<T>& out_bar = given.bar;
  ContactPoint<T> touch[pair_slots(kBoxBox)];
  const BoxFeature<T> found = box_box_one(a, b, touch);
  const BoxFrame<T> fa = box_frame(a), fb = box_frame(b);
  if (found.kind == BoxFeature<T>::kFace)
    face_touches_adjoint(fa, fb, found.axis, given.slot, out_bar, a_bar, b_bar);
  else if (given.slot == 0 && found.kind == BoxFeature<T>::kEdges)
    edge_point_adjoint(fa, fb, found.axis, out_bar, a_bar, b_bar);
  else if (given.slot == 0)
    vertex_touch_adjoint(a, b, found.vertex, out_bar, a_bar, b_bar);
}

// the number type of one world of T, and how to read and write its lanes
template <class T>
struct OneWorld {
  using type = T;
};
#ifndef __CUDACC__
template <class R, int W>
struct OneWorld<Lane<R, W>> {
  using type = R;
};
template <class R, int W>
struct OneWorld<Dual<Lane<R, W>>> {
  using type = Dual<R>;
};
template <class R, int W>
FB_INLINE R world_of(const Lane<R, W>& a, int k) {
  return a.x[k];
}
template <class R, int W>
FB_INLINE Dual<R> world_of(const Dual<Lane<R, W>>& a, int k) {
  return {a.v.x[k], a.d.x[k]};
}
template <class R, int W>
FB_INLINE void set_world(Lane<R, W>& a, int k, R v) {
  a.x[k] = v;
}
template <class R, int W>
FB_INLINE void set_world(Dual<Lane<R, W>>& a, int k, Dual<R> v) {
  a.v.x[k] = v.v;
  a.d.x[k] = v.d;
}
template <class T, class S = typename OneWorld<T>::type>
FB_INLINE Vec3<S> world_of(const Vec3<T>& a, int k) {
  return {world_of(a.x, k), world_of(a.y, k), world_of(a.z, k)};
}
template <class T, class S = typename OneWorld<T>::type>
FB_INLINE Shape<S> world_of(const Shape<T>& a, int k) {
  Shape<S> s{a.type, world_of(a.p, k), {}, world_of(a.size, k), a.vert, a.nvert};
  for (int e = 0; e < 9; ++e) s.R.a[e] = world_of(a.R.a[e], k);
  return s;
}
template <class T, class S>
FB_INLINE void set_world(Vec3<T>& a, int k, const Vec3<S>& v) {
  set_world(a.x, k, v.x);
  set_world(a.y, k, v.y);
  set_world(a.z, k, v.z);
}
template <class T, class S = typename OneWorld<T>::type>
FB_INLINE ShapeBar<S> world_of(const ShapeBar<T>& a, int k) {
  return {{world_of(a.pose.ang, k), world_of(a.pose.lin, k)}, world_of(a.size, k)};
}
template <class T, class S>
FB_INLINE void set_world(ShapeBar<T>& a, int k, const ShapeBar<S>& v) {
  set_world(a.pose.ang, k, v.pose.ang);
  set_world(a.pose.lin, k, v.pose.lin);
  set_world(a.size, k, v.size);
}
#endif

// lanes take their turns: the branches of one world do not suit another
template <class T>
FB_INLINE void box_box(const Shape<T>& a, const Shape<T>& b, ContactPoint<T>* out) {
  using S = typename OneWorld<T>::type;
  if constexpr (sizeof(S) == sizeof(T) && sizeof(Mask<T>) == sizeof(bool)) {
    box_box_one(a, b, out);
  } else {
    ContactPoint<S> one[pair_slots(kBoxBox)];
    for (int k = 0; k < kLanes<T>; ++k) {
      box_box_one(world_of(a, k), world_of(b, k), one);
      for (int j = 0; j < pair_slots(kBoxBox); ++j) {
        set_world(out[j].phi, k, one[j].phi);
        set_world(out[j].n, k, one[j].n);
        set_world(out[j].p, k, one[j].p);
        out[j].active.m[k] = one[j].active ? -1 : 0;
      }
    }
  }
}

// given the bar of a slot, add to a_bar, b_bar; a world without a cotangent is passed over
template <class T>
FB_INLINE void box_box_adjoint(const Shape<T>& a, const Shape<T>& b, const SlotBar<T>& given,
                               ShapeBar<T>& a_bar, ShapeBar<T>& b_bar) {
  using S = typename OneWorld<T>::type;
  if constexpr (sizeof(S) == sizeof(T) && sizeof(Mask<T>) == sizeof(bool)) {
    if (!is_nothing(given.bar)) box_box_one_adjoint(a, b, given, a_bar, b_bar);
  } else {
    for (int k = 0; k < kLanes<T>; ++k) {
      const ContactPointBar<T>& bar = given.bar;
      const SlotBar<S> own{given.slot,
                           {world_of(bar.phi, k), world_of(bar.n, k), world_of(bar.p, k)}};
      if (is_nothing(own.bar)) continue;
      ShapeBar<S> own_a = world_of(a_bar, k), own_b = world_of(b_bar, k);
      box_box_one_adjoint(world_of(a, k), world_of(b, k), own, own_a, own_b);
      set_world(a_bar, k, own_a);
      set_world(b_bar, k, own_b);
    }
  }
}

}  // namespace fb::FB_ISA
