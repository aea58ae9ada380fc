// The face of one box cut to the face of another, and the adjoint of the cuts, for one world at a
// time.  Proof: docs/derivations/collision.md.
#pragma once
#include "core/collision/one_world.hpp"
#include "core/collision/round.hpp"

namespace fb::FB_ISA {

template <class T>
struct BoxFrame {
  Vec3<T> p, axis[3];
  T half[3];
};
template <class T>
FB_INLINE BoxFrame<T> box_frame(const Shape<T>& s) {
  return {s.p, {column(s.R, 0), column(s.R, 1), column(s.R, 2)}, {s.size.x, s.size.y, s.size.z}};
}
// add to the cotangent of half extent i
template <class T>
FB_INLINE void add_half(ShapeBar<T>& bar, int i, T half_bar) {
  (i == 0 ? bar.size.x : i == 1 ? bar.size.y : bar.size.z) += half_bar;
}
template <class T>
FB_INLINE T sign_of(T x) {
  return select(x < T(0), T(-1), T(1));
}
// a sign as one bit: 1 for -1
template <class T>
FB_INLINE T sign_at(uint32_t bits, int shift) {
  return T(bits >> shift & 1 ? -1 : 1);
}
// a candidate axis: separation [m] along the unit vector n from A to B, which is `sign` times the
// axis; i, j: axes of A and B (-1: not involved)
template <class T>
struct BoxAxis {
  T sep;
  Vec3<T> n;
  int i, j;
  T sign;
};

// what carries the contact points: two edges, a face of one box and that of the other which is cut to
// it, or a vertex
enum BoxCase : uint32_t { kNoBoxCase, kBoxEdges, kBoxFace, kBoxVertex };
inline constexpr uint32_t kBoxCase = 3;

// points over a reference face: (u, v) along the face, w the height over it
template <class T>
struct FacePolygon {
  Vec3<T> x[8];
  int n;
};

// a side of the reference face: keep sign * (u or v) <= half; points within `slack` of the line are
// kept, not cut
template <class T>
struct FaceSide {
  bool along_v;
  T sign, half, slack;
};
template <class T>
FB_INLINE T within_side(const FaceSide<T>& side, Vec3<T> x) {
  return side.half - side.sign * (side.along_v ? x.y : x.x);
}

// where each corner lies, two bits a corner: within the side (1), beyond it (2), or on its line
template <class T>
FB_INLINE uint32_t corner_states(const FacePolygon<T>& poly, const FaceSide<T>& side) {
  uint32_t states = 0;
  for (int k = 0; k < poly.n; ++k) {
    const T d = within_side(side, poly.x[k]);
    const uint32_t state = d > side.slack ? 1u : d >= -side.slack ? 0u : 2u;
    states |= state << (2 * k);
  }
  return states;
}
// what a cut makes: corner j is corner from[j] of the polygon before, or lies on the way from there to
// the next one, where the side is crossed.  inner: of a corner whose one edge lies along the side's line
// the corner within at the end of its other edge, which is cut or not as the line moves; else -1
struct CutMap {
  int n, from[8], inner[8];
  bool crossed[8];
};
FB_INLINE int inner_corner(uint32_t states, int k, int n) {
  const int before = k > 0 ? k - 1 : n - 1, next = k + 1 < n ? k + 1 : 0;
  const uint32_t one = states >> (2 * before) & 3, other = states >> (2 * next) & 3;
  if ((states >> (2 * k) & 3) != 0 || one + other != 1) return -1;
  return one == 1 ? before : next;
}
FB_INLINE CutMap cut_map(uint32_t states, int n) {
  CutMap map;
  map.n = 0;
  for (int k = 0; k < n; ++k) {
    const uint32_t here = states >> (2 * k) & 3, there = states >> (k + 1 < n ? 2 * k + 2 : 0) & 3;
    if (here != 2 && map.n < 8) {
      map.from[map.n] = k;
      map.inner[map.n] = inner_corner(states, k, n);
      map.crossed[map.n++] = false;
    }
    if ((here ^ there) == 3 && map.n < 8) {
      map.from[map.n] = k;
      map.inner[map.n] = -1;
      map.crossed[map.n++] = true;
    }
  }
  return map;
}

// (C.16)  where the way from p to q crosses a side's line
template <class T>
FB_INLINE Vec3<T> crossing(const FaceSide<T>& side, Vec3<T> p, Vec3<T> q) {
  const T dp = within_side(side, p), dq = within_side(side, q);
  return p + (q - p) * (dp / (dp - dq));
}
// (C.44)  given x_bar, add to those of p, q and the half extent
template <class T>
FB_INLINE void crossing_adjoint(const FaceSide<T>& side, Vec3<T> p, Vec3<T> q, Vec3<T> x_bar,
                                Vec3<T>& p_bar, Vec3<T>& q_bar, T& half_bar) {
  // x = p + t (q - p), t = dp / (dp - dq), d = half -+ x_u
  const T dp = within_side(side, p), dq = within_side(side, q);
  const T inverse = T(1) / (dp - dq), t = dp * inverse;
  const T over = dot(x_bar, q - p) * inverse, dp_bar = over * (T(1) - t), dq_bar = over * t;
  p_bar += x_bar * (T(1) - t);
  q_bar += x_bar * t;
  (side.along_v ? p_bar.y : p_bar.x) -= side.sign * dp_bar;
  (side.along_v ? q_bar.y : q_bar.x) -= side.sign * dq_bar;
  half_bar += dp_bar + dq_bar;
}

// (C.16)  one Sutherland-Hodgman cut, given what it makes
template <class T>
FB_INLINE FacePolygon<T> cut_polygon(const FacePolygon<T>& old, const FaceSide<T>& side,
                                     const CutMap& map) {
  FacePolygon<T> out;
  out.n = map.n;
  for (int j = 0; j < map.n; ++j) {
    const int k = map.from[j];
    out.x[j] = old.x[k];
    if (map.crossed[j]) {
      out.x[j] = crossing(side, old.x[k], old.x[k + 1 < old.n ? k + 1 : 0]);
    } else if (map.inner[j] >= 0) {
      // the corner, and where its edge is cut, are one point; its derivative is the mean of both
      const Vec3<T> cut = crossing(side, old.x[map.inner[j]], old.x[k]);
      out.x[j] = (old.x[k] + cut) * Real<T>(0.5);
    }
  }
  return out;
}

// (C.44)  from the cut polygon's bars to those of the polygon before (`old`), and to the half extent
template <class T>
FB_INLINE void cut_polygon_adjoint(const FacePolygon<T>& old, const FaceSide<T>& side,
                                   const CutMap& map, FacePolygon<T>& bar, T& half_bar) {
  const FacePolygon<T> out_bar = bar;
  for (int k = 0; k < old.n; ++k) bar.x[k] = zero3<T>();
  for (int j = 0; j < map.n; ++j) {
    const int k = map.from[j], next = k + 1 < old.n ? k + 1 : 0, inner = map.inner[j];
    const Vec3<T> x_bar = out_bar.x[j], half = x_bar * Real<T>(0.5);
    if (is_nothing(x_bar)) continue;
    if (map.crossed[j]) {
      crossing_adjoint(side, old.x[k], old.x[next], x_bar, bar.x[k], bar.x[next], half_bar);
    } else if (inner >= 0) {
      bar.x[k] += half;
      crossing_adjoint(side, old.x[inner], old.x[k], half, bar.x[inner], bar.x[k], half_bar);
    } else {
      bar.x[k] += x_bar;
    }
  }
  bar.n = old.n;
}

// the axis of a box most nearly parallel to n
template <class T>
FB_INLINE int nearest_axis(const BoxFrame<T>& f, Vec3<T> n) {
  int m = 0;
  T most = abs(dot(n, f.axis[0]));
  for (int j = 1; j < 3; ++j) {
    const T here = abs(dot(n, f.axis[j]));
    if (here > most) {
      most = here;
      m = j;
    }
  }
  return m;
}

// a face of a box: the one at +half or -half along axis m
template <class T>
struct BoxFace {
  int m;
  T side;
};
// the four corners of a face, from the point o
template <class T>
FB_INLINE void face_corners(const BoxFrame<T>& f, const BoxFace<T>& face, Vec3<T> o,
                            Vec3<T>* corner) {
  const int m = face.m;
  const Vec3<T> e = f.axis[m] * (f.half[m] * face.side);
  const Vec3<T> centre = f.p + e - o;
  const Vec3<T> y = f.axis[(m + 1) % 3] * f.half[(m + 1) % 3];
  const Vec3<T> z = f.axis[(m + 2) % 3] * f.half[(m + 2) % 3];
  corner[0] = centre + y + z;
  corner[1] = centre - y + z;
  corner[2] = centre - y - z;
  corner[3] = centre + y - z;
}

// given the bars of the corners in the world, add to bar: they move with the box, and along its
// axes with its half extents
template <class T>
FB_INLINE void face_corners_adjoint(const BoxFrame<T>& f, const BoxFace<T>& face,
                                    const Vec3<T>* x_bar, ShapeBar<T>& bar) {
  const int m = face.m;
  Vec3<T> corner[4];
  face_corners(f, face, zero3<T>(), corner);
  for (int c = 0; c < 4; ++c) {
    if (is_nothing(x_bar[c])) continue;
    const T y = T(c == 0 || c == 3 ? 1 : -1), z = T(c < 2 ? 1 : -1);
    add_point(bar, corner[c], x_bar[c]);
    add_half(bar, m, dot(f.axis[m], x_bar[c]) * face.side);
    add_half(bar, (m + 1) % 3, dot(f.axis[(m + 1) % 3], x_bar[c]) * y);
    add_half(bar, (m + 2) % 3, dot(f.axis[(m + 2) % 3], x_bar[c]) * z);
  }
}

// the reference face k of box A or B: the normal from A to B, the outward normal n, two axes along
// the face and its four sides, and the face of the other box that is cut
template <class T>
struct FaceView {
  bool on_a;
  int k;
  Vec3<T> from_a, n, u, v;
  FaceSide<T> side[4];
  BoxFace<T> incident;
};
template <class T>
FB_INLINE FaceView<T> face_view(const BoxFrame<T>& ref, bool on_a, int k, Vec3<T> from_a,
                                const BoxFace<T>& incident) {
  const T hu = ref.half[(k + 1) % 3], hv = ref.half[(k + 2) % 3];
  const T slack = (hu + hv) * Real<T>(kIsDouble<T> ? 1e-9 : 1e-5);
  return {on_a,
          k,
          from_a,
          on_a ? from_a : -from_a,
          ref.axis[(k + 1) % 3],
          ref.axis[(k + 2) % 3],
          {{false, T(1), hu, slack},
           {false, T(-1), hu, slack},
           {true, T(1), hv, slack},
           {true, T(-1), hv, slack}},
          incident};
}

// the reference face of an axis, and the face of the other box most opposed to it
template <class T>
FB_INLINE FaceView<T> find_face_view(const BoxFrame<T>& a, const BoxFrame<T>& b,
                                     const BoxAxis<T>& at) {
  const bool on_a = at.i >= 0;
  const BoxFrame<T>& inc = on_a ? b : a;
  const Vec3<T> n = on_a ? at.n : -at.n;
  const int m = nearest_axis(inc, n);
  return face_view(on_a ? a : b, on_a, on_a ? at.i : at.j, at.n,
                   {m, -sign_of(dot(n, inc.axis[m]))});
}

// feature of a face, in kind: on which box (bit 2), its axis (3, 4) and the sign of the normal (5);
// axis (6, 7) and side (8) of the face that is cut.  In id: where the corners lie at the first two
// cuts and at the last two, 16 bits a cut
template <class T>
FB_INLINE uint32_t face_bits(const FaceView<T>& view, const BoxAxis<T>& at) {
  return kBoxFace | uint32_t(view.on_a) << 2 | uint32_t(view.k) << 3 |
         uint32_t(at.sign < T(0)) << 5 | uint32_t(view.incident.m) << 6 |
         uint32_t(view.incident.side < T(0)) << 8;
}
template <class T>
FB_INLINE FaceView<T> face_view_at(const BoxFrame<T>& a, const BoxFrame<T>& b, uint32_t kind) {
  const bool on_a = has_bits(kind, 4);
  const int k = int(kind >> 3 & 3), m = int(kind >> 6 & 3);
  const BoxFrame<T>& ref = on_a ? a : b;
  return face_view(ref, on_a, k, ref.axis[k] * sign_at<T>(kind, 5), {m, sign_at<T>(kind, 8)});
}
// where the corners lie at cut c
template <class T>
FB_INLINE uint32_t cut_states(const Feature<T>& f, int c) {
  return f.id[c / 2] >> (16 * (c % 2)) & 0xffff;
}

// (C.16)  the incident face in the coordinates of the reference face
template <class T>
FB_INLINE FacePolygon<T> incident_face(const BoxFrame<T>& ref, const BoxFrame<T>& inc,
                                       const FaceView<T>& view) {
  Vec3<T> corner[4];
  face_corners(inc, view.incident, ref.p, corner);
  FacePolygon<T> poly;
  poly.n = 4;
  for (int c = 0; c < 4; ++c)
    poly.x[c] = {dot(view.u, corner[c]), dot(view.v, corner[c]),
                 dot(view.n, corner[c]) - ref.half[view.k]};
  return poly;
}

// the contact point of a corner of the cut face: half its height below it
template <class T>
FB_INLINE Vec3<T> face_point(const BoxFrame<T>& ref, const FaceView<T>& view, Vec3<T> x) {
  return ref.p + view.u * x.x + view.v * x.y + view.n * (ref.half[view.k] + x.z * Real<T>(0.5));
}

// (C.16)  the incident face cut to the reference face, one
// contact point per corner; the number of slots written
template <class T>
FB_INLINE int face_points(const BoxFrame<T>& a, const BoxFrame<T>& b, const BoxAxis<T>& at,
                          ContactPoint<T>* out) {
  const FaceView<T> view = find_face_view(a, b, at);
  const BoxFrame<T>&ref = view.on_a ? a : b, &inc = view.on_a ? b : a;
  const T same = (view.side[0].half + view.side[2].half) * Real<T>(1e-4);
  FacePolygon<T> poly = incident_face(ref, inc, view);
  Feature<T> feature = make_feature<T>(face_bits(view, at));
  for (int c = 0; c < 4; ++c) {
    const uint32_t states = corner_states(poly, view.side[c]);
    feature.id[c / 2] |= states << (16 * (c % 2));
    poly = cut_polygon(poly, view.side[c], cut_map(states, poly.n));
  }
  for (int c = 0; c < poly.n; ++c) {
    const Vec3<T> x = poly.x[c];
    bool fresh = true;
    for (int j = 0; j < c; ++j)
      fresh = fresh && !(out[j].active && dot(poly.x[j] - x, poly.x[j] - x) < same * same);
    out[c] = {x.z, at.n, face_point(ref, view, x), fresh, feature};
  }
  return poly.n;
}

// a face with its cuts as recorded
template <class T>
struct CutFace {
  FaceView<T> view;
  FacePolygon<T> poly[5];
  CutMap map[4];
};
template <class T>
FB_INLINE void cut_face_at(const BoxFrame<T>& a, const BoxFrame<T>& b, const Feature<T>& f,
                           CutFace<T>& face) {
  face.view = face_view_at(a, b, f.kind);
  const bool on_a = face.view.on_a;
  face.poly[0] = incident_face(on_a ? a : b, on_a ? b : a, face.view);
  for (int c = 0; c < 4; ++c) {
    face.map[c] = cut_map(cut_states(f, c), face.poly[c].n);
    face.poly[c + 1] = cut_polygon(face.poly[c], face.view.side[c], face.map[c]);
  }
}

// (C.45)  given the bar of one slot, add to a_bar, b_bar: the cuts in reverse give the wrench of the
// incident box, (C.20) that of the other
template <class T>
FB_FN void face_points_adjoint(const BoxFrame<T>& a, const BoxFrame<T>& b, const CutFace<T>& face,
                               const SlotBar<T>& given, ShapeBar<T>& a_bar, ShapeBar<T>& b_bar) {
  const ContactPointBar<T>& out_bar = given.bar;
  const FaceView<T>& view = face.view;
  const BoxFrame<T>&ref = view.on_a ? a : b, &inc = view.on_a ? b : a;
  ShapeBar<T>&ref_bar = view.on_a ? a_bar : b_bar, &inc_bar = view.on_a ? b_bar : a_bar;
  if (given.slot >= face.poly[4].n) return;

  // p = o + u x + v y + n (half + z / 2), phi = z
  const T up = dot(view.n, out_bar.p), u_bar = dot(view.u, out_bar.p),
          v_bar = dot(view.v, out_bar.p);
  FacePolygon<T> bar;
  for (int k = 0; k < 8; ++k) bar.x[k] = zero3<T>();
  bar.x[given.slot] = {u_bar, v_bar, mul_add(up, T(Real<T>(0.5)), out_bar.phi)};
  add_half(ref_bar, view.k, up);
  for (int c = 3; c >= 0; --c) {
    T half_bar = T(0);
    cut_polygon_adjoint(face.poly[c], view.side[c], face.map[c], bar, half_bar);
    add_half(ref_bar, (view.k + (c < 2 ? 1 : 2)) % 3, half_bar);
  }

  // (x, y, z) = (u . d, v . d, n . d - half) at the corners o + d of the incident face
  Vec3<T> corner_bar[4];
  for (int c = 0; c < 4; ++c) {
    corner_bar[c] = view.u * bar.x[c].x + view.v * bar.x[c].y + view.n * bar.x[c].z;
    add_half(ref_bar, view.k, -bar.x[c].z);
  }
  ShapeBar<T> moved{zero_force<T>(), zero3<T>()};
  face_corners_adjoint(inc, view.incident, corner_bar, moved);
  inc_bar.size += moved.size;
  const Vec3<T> p = face_point(ref, view, face.poly[4].x[given.slot]);
  const ContactPoint<T> touch{T(0), view.from_a, p, true, given.feature};
  share_wrench(touch, out_bar, moved.pose, inc_bar, ref_bar);
}

}  // namespace fb::FB_ISA
