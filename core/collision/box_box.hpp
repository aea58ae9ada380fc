// A box against a box, for one world at a time: separating axes, then a clipped face, an edge pair
// or a vertex.  Proof: docs/derivations/collision.md.
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
  const T sign = sign_of(dot(d, u));
  const Vec3<T> n = u * sign;
  return {dot(d, n) - reach_of(a, n) - reach_of(b, n), n, i, j, sign};
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
  BoxAxis<T> best{T(Real<T>(-1e30)), a.axis[2], -1, -1, T(1)};
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

// an edge of a box along axis i, by the signs of the other two axes at it (bits)
struct BoxEdge {
  int i;
  uint32_t negative;
};
// the edge that lies farthest along `side` n
template <class T>
FB_INLINE BoxEdge find_edge(const BoxFrame<T>& f, int i, Vec3<T> n, T side) {
  uint32_t negative = 0;
  for (int k = 0; k < 3; ++k)
    if (k != i && side * sign_of(dot(n, f.axis[k])) < T(0)) negative |= 1u << k;
  return {i, negative};
}

// its middle
template <class T>
FB_INLINE Vec3<T> edge_middle(const BoxFrame<T>& f, const BoxEdge& e) {
  Vec3<T> x = f.p;
  for (int k = 0; k < 3; ++k)
    if (k != e.i) x += f.axis[k] * (f.half[k] * sign_at<T>(e.negative, k));
  return x;
}

// given x_bar, add to bar: the point moves with the box, and along two axes with their half extents
template <class T>
FB_INLINE void edge_middle_adjoint(const BoxFrame<T>& f, const BoxEdge& e, Vec3<T> x_bar,
                                   ShapeBar<T>& bar) {
  add_point(bar, edge_middle(f, e), x_bar);
  for (int k = 0; k < 3; ++k)
    if (k != e.i) add_half(bar, k, dot(f.axis[k], x_bar) * sign_at<T>(e.negative, k));
}

// feature of two edges, in kind: axes of A's (bits 2, 3) and of B's (4, 5), whether the normal is
// -(ua x ub) / |ua x ub| (6), signs of A's edge (7 to 9) and of B's (10 to 12)
template <class T>
FB_INLINE Feature<T> edges_feature(const BoxEdge& ea, const BoxEdge& eb, T sign) {
  return make_feature<T>(kBoxEdges | uint32_t(ea.i) << 2 | uint32_t(eb.i) << 4 |
                         uint32_t(sign < T(0)) << 6 | ea.negative << 7 | eb.negative << 10);
}

// (C.17)  the two edges that face each other along an edge axis; false if their lines come closest
// beyond an end
template <class T>
FB_INLINE bool edges_point(const BoxFrame<T>& a, const BoxFrame<T>& b, const BoxAxis<T>& at,
                           ContactPoint<T>& out) {
  if (at.i < 0) return false;
  const BoxEdge ea = find_edge(a, at.i, at.n, T(1)), eb = find_edge(b, at.j, at.n, T(-1));
  Vec3<T> xa = edge_middle(a, ea), xb = edge_middle(b, eb);
  const Vec3<T> ua = a.axis[at.i], ub = b.axis[at.j], arm = xa - xb, x = cross(ua, ub);
  const T c = dot(ua, arm), f = dot(ub, arm), cosine = dot(ua, ub), square = dot(x, x);
  const T s = (cosine * f - c) / square, t = (f - cosine * c) / square;
  if (abs(s) > a.half[at.i] || abs(t) > b.half[at.j]) return false;
  xa += ua * s;
  xb += ub * t;
  out = {dot(at.n, xb - xa), at.n, (xa + xb) * Real<T>(0.5), true, edges_feature(ea, eb, at.sign)};
  return true;
}

// (C.43)  given out_bar, add to a_bar, b_bar; n = +- (ua x ub) / |ua x ub|
template <class T>
FB_FN void edges_point_adjoint(const BoxFrame<T>& a, const BoxFrame<T>& b, const SlotBar<T>& given,
                               ShapeBar<T>& a_bar, ShapeBar<T>& b_bar) {
  const ContactPointBar<T>& out_bar = given.bar;
  const uint32_t kind = given.feature.kind;
  const BoxEdge ea{int(kind >> 2 & 3), kind >> 7 & 7}, eb{int(kind >> 4 & 3), kind >> 10 & 7};
  const Vec3<T> ua = a.axis[ea.i], ub = b.axis[eb.i], x = cross(ua, ub);
  const T square = dot(x, x), inverse = T(1) / square, sign = sign_at<T>(kind, 6);
  const Vec3<T> n = x * (T(1) / sqrt(square)) * sign;
  const Vec3<T> arm = edge_middle(a, ea) - edge_middle(b, eb);
  const T c = dot(ua, arm), f = dot(ub, arm), cosine = dot(ua, ub);
  const T s = (cosine * f - c) * inverse, t = (f - cosine * c) * inverse;

  // phi = n . (xb + t ub - xa - s ua), p the mean of both points
  const Vec3<T> half_bar = out_bar.p * Real<T>(0.5), push = n * out_bar.phi;
  const Vec3<T> at_a_bar = half_bar - push, at_b_bar = half_bar + push;
  const Vec3<T> n_bar = out_bar.n + (ub * t - ua * s - arm) * out_bar.phi;
  const T s_bar = dot(ua, at_a_bar) * inverse, t_bar = dot(ub, at_b_bar) * inverse;

  // s |x|^2 = b f - c, t |x|^2 = f - b c with b = ua . ub, c = ua . arm, f = ub . arm
  const T cosine_bar = s_bar * f - t_bar * c, f_bar = s_bar * cosine + t_bar;
  const T c_bar = -(s_bar + t_bar * cosine), square_bar = -(s_bar * s + t_bar * t);
  const T scale = sqrt(inverse) * sign;
  const Vec3<T> x_bar = x * (square_bar * Real<T>(2)) + (n_bar - n * dot(n, n_bar)) * scale;
  const Vec3<T> arm_bar = ua * c_bar + ub * f_bar;
  const Vec3<T> ua_bar = at_a_bar * s + arm * c_bar + ub * cosine_bar + cross(ub, x_bar);
  const Vec3<T> ub_bar = at_b_bar * t + arm * f_bar + ua * cosine_bar + cross(x_bar, ua);
  edge_middle_adjoint(a, ea, at_a_bar + arm_bar, a_bar);
  edge_middle_adjoint(b, eb, at_b_bar - arm_bar, b_bar);
  add_direction(a_bar, ua, ua_bar);
  add_direction(b_bar, ub, ub_bar);
}

// feature of a vertex, in kind: its number (bits 2 to 5), eight of A, then eight of B; then where it
// lies against the other box (BoxSides)
inline constexpr int kVertexSides = 6;

// (C.18)  the vertex of either box closest to the other box (deepest in it, if inside)
template <class T>
FB_INLINE ContactPoint<T> vertex_point(const Shape<T>& a, const Shape<T>& b) {
  ContactPoint<T> best{T(Real<T>(1e30)), column(a.R, 2), a.p, true, no_feature<T>()};
  for (uint32_t c = 0; c < 16; ++c) {
    const bool of_a = c < 8;
    const Shape<T>&from = of_a ? a : b, &to = of_a ? b : a;
    const Vec3<T> corner{(c & 1) ? from.size.x : -from.size.x, (c & 2) ? from.size.y : -from.size.y,
                         (c & 4) ? from.size.z : -from.size.z};
    const Vec3<T> x = from.p + mul(from.R, corner), local = mul_transposed(to.R, x - to.p);
    const BoxSides<T> sides = find_box_sides(local, to.size);
    const BoxPoint<T> at = point_box(local, to.size, sides);
    if (!(at.distance < best.phi)) continue;
    const Vec3<T> n = mul(to.R, at.n);
    best = {at.distance, of_a ? -n : n, x - n * (at.distance * Real<T>(0.5)), true,
            make_feature<T>(kBoxVertex | c << 2 | box_bits(sides) << kVertexSides)};
  }
  return best;
}

// (C.46)  given out_bar, add to a_bar, b_bar: a ball of no radius on the other box, whose normal is
// reversed if it is A
template <class T>
FB_FN void vertex_point_adjoint(const Shape<T>& a, const Shape<T>& b, const SlotBar<T>& given,
                                ShapeBar<T>& a_bar, ShapeBar<T>& b_bar) {
  const ContactPointBar<T>& out_bar = given.bar;
  const int vertex = int(given.feature.kind >> 2 & 15);
  const bool of_a = vertex < 8;
  const Shape<T>&from = of_a ? a : b, &to = of_a ? b : a;
  ShapeBar<T>&from_bar = of_a ? a_bar : b_bar, &to_bar = of_a ? b_bar : a_bar;
  const Vec3<T> corner = box_corner(from, vertex), x = mul_transposed(to.R, corner - to.p);
  const BoxSides<T> sides = box_sides_at<T>(given.feature.kind >> kVertexSides);
  const BoxPoint<T> at = point_box(x, to.size, sides);
  const ContactPointBar<T> point_bar{out_bar.phi, of_a ? out_bar.n : -out_bar.n, out_bar.p};
  Vec3<T> x_bar = zero3<T>();
  BoxPoint<T> at_bar{T(0), zero3<T>()};
  T r_bar = T(0);
  ball_on_box_adjoint(to, T(0), at, point_bar, x_bar, r_bar, at_bar);
  point_box_adjoint(x, to.size, sides, at_bar, x_bar, to_bar.size);
  ShapeBar<T> moved{zero_force<T>(), zero3<T>()};
  box_corner_adjoint(from, vertex, mul(to.R, x_bar), moved);
  from_bar.size += moved.size;
  ContactPoint<T> touch;
  ball_on_box(to, {corner, T(0)}, at, true, given.feature, touch);
  share_wrench(touch, point_bar, moved.pose, from_bar, to_bar);
}

// (C.15)-(C.18)  one world: an edge pair, a clipped face, or, where boxes are apart and the face
// misses the closest point, one contact point.  None where an axis keeps the boxes further apart than far
template <class T>
FB_OUTLINE void box_box_one(const Shape<T>& a, const Shape<T>& b, T far, ContactPoint<T>* out) {
  using R = Real<T>;
  const BoxFrame<T> fa = box_frame(a), fb = box_frame(b);
  const T small_a = min(a.size.x, min(a.size.y, a.size.z)),
          small_b = min(b.size.x, min(b.size.y, b.size.z));
  const T small = min(small_a, small_b);
  const T beyond = far + small * R(1e-3);
  clear_points<pair_slots(kBoxBox)>(a, out);

  const BoxAxis<T> face = best_face_axis(fa, fb, small * R(1e-4));
  if (face.sep > beyond) return;
  const BoxAxis<T> edge = best_edge_axis(fa, fb);
  if (edge.sep > beyond) return;
  const bool prefer_edge = edge.sep > face.sep + abs(face.sep) * R(0.05) + small * R(1e-3);
  const bool apart = max(face.sep, edge.sep) > T(0);
  if (prefer_edge && edges_point(fa, fb, edge, out[0])) return;

  // a face that reaches down to the separation of its axis holds the closest point
  const int count = prefer_edge && apart ? 0 : face_points(fa, fb, face, out);
  T lowest = T(R(1e30));
  for (int k = 0; k < count; ++k) lowest = min(lowest, out[k].phi);
  const T slack = small * R(1e-2);
  if (count > 0 && !(apart && lowest > face.sep + slack)) return;

  ContactPoint<T> single;
  if (!(edge.sep > face.sep && edges_point(fa, fb, edge, single))) single = vertex_point(a, b);
  if (count > 0 && single.phi > lowest - slack) return;
  clear_points<pair_slots(kBoxBox)>(a, out);
  out[0] = single;
}

// given the bars of some slots, add to a_bar, b_bar: what carries them is differentiated.  The slots
// of a face share its cuts
template <class T>
FB_OUTLINE void box_box_one_adjoint(const Shape<T>& a, const Shape<T>& b, const SlotBars<T>& bars,
                                    ShapeBar<T>& a_bar, ShapeBar<T>& b_bar) {
  const BoxFrame<T> fa = box_frame(a), fb = box_frame(b);
  CutFace<T> face;
  bool is_cut = false;
  for (int i = 0; i < bars.count; ++i) {
    const SlotBar<T>& given = bars.at[i];
    if (is_nothing(given.bar)) continue;
    const uint32_t found = given.feature.kind & kBoxCase;
    if (found == kBoxFace && !is_cut) cut_face_at(fa, fb, given.feature, face);
    is_cut = is_cut || found == kBoxFace;
    if (found == kBoxFace) face_points_adjoint(fa, fb, face, given, a_bar, b_bar);
    if (found == kBoxEdges) edges_point_adjoint(fa, fb, given, a_bar, b_bar);
    if (found == kBoxVertex) vertex_point_adjoint(a, b, given, a_bar, b_bar);
  }
}

// (C.15)-(C.18)  lanes take their turns
template <class T>
FB_INLINE void box_box(const Shape<T>& a, const Shape<T>& b, T far, ContactPoint<T>* out) {
  collide_worlds<pair_slots(kBoxBox)>(
      a, b, far, out,
      [](const auto& a, const auto& b, auto far, auto* out) { box_box_one(a, b, far, out); });
}

// given the bars of some slots, add to a_bar, b_bar
template <class T>
FB_INLINE void box_box_adjoint(const Shape<T>& a, const Shape<T>& b, const SlotBars<T>& bars,
                               ShapeBar<T>& a_bar, ShapeBar<T>& b_bar) {
  collide_worlds_adjoint(a, b, bars, a_bar, b_bar,
                         [](const auto& a, const auto& b, const auto& bars, auto& a_bar,
                            auto& b_bar) { box_box_one_adjoint(a, b, bars, a_bar, b_bar); });
}

}  // namespace fb::FB_ISA
