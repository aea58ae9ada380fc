// A contact point of two convex shapes as a function of its record, the poses and the sizes, and its
// adjoint: nothing is searched.  For one world at a time.  Proof: docs/derivations/convex.md.
#pragma once
#include "core/collision/convex_piece.hpp"

namespace fb::FB_ISA {

template <class T>
struct ConvexShapes {
  Convex<T> a, b;
};

// (CV.9)  the unknowns of a slot: places on both pieces, the normal, the distance g between the points
template <class T>
struct SlotState {
  PiecePlace<T> a, b;
  Vec3<T> n;
  T g;
};

// ---- small systems of linear equations

inline constexpr int kMostUnknowns = 8;
template <class T>
struct SmallSystem {
  T m[kMostUnknowns][kMostUnknowns], x[kMostUnknowns];
  int n;
};
// x becomes the solution; an unknown that the equations leave open is zero, and the answer is false
template <class T>
FB_OUTLINE bool solve_small(SmallSystem<T>& s) {
  const int n = s.n;
  T largest = T(0);
  for (int r = 0; r < n; ++r)
    for (int c = 0; c < n; ++c) largest = max(largest, abs(s.m[r][c]));
  const T least = largest * Real<T>(kIsDouble<T> ? 1e-14 : 1e-6);
  bool regular = true;
  for (int k = 0; k < n; ++k) {
    int pivot = k;
    for (int r = k + 1; r < n; ++r)
      if (abs(s.m[r][k]) > abs(s.m[pivot][k])) pivot = r;
    for (int c = 0; c < n && pivot != k; ++c) {
      const T kept = s.m[k][c];
      s.m[k][c] = s.m[pivot][c];
      s.m[pivot][c] = kept;
    }
    const T kept = s.x[k];
    s.x[k] = s.x[pivot];
    s.x[pivot] = kept;
    if (!(abs(s.m[k][k]) > least)) {
      regular = false;
      continue;
    }
    const T inverse = T(1) / s.m[k][k];
    for (int r = k + 1; r < n; ++r) {
      const T f = s.m[r][k] * inverse;
      for (int c = k + 1; c < n; ++c) s.m[r][c] -= f * s.m[k][c];
      s.x[r] -= f * s.x[k];
    }
  }
  for (int k = n - 1; k >= 0; --k) {
    if (!(abs(s.m[k][k]) > least)) {
      s.x[k] = T(0);
      continue;
    }
    T sum = s.x[k];
    for (int c = k + 1; c < n; ++c) sum -= s.m[k][c] * s.x[c];
    s.x[k] = sum / s.m[k][k];
  }
  return regular;
}

// ---- the conditions of a free slot

// both points with their tangents, A's and B's numbers of them
template <class T>
struct SlotEnds {
  PiecePoint<T> a, b;
  int da, db;
  FB_INLINE Vec3<T> tangent(int j) const { return j < da ? a.t[j] : b.t[j - da]; }
};
template <class T>
FB_INLINE SlotEnds<T> slot_ends(const ConvexShapes<T>& w, const SlotRecord& r,
                                const SlotState<T>& z) {
  return {point_of(w.a, r.a, z.a, z.n), point_of(w.b, r.b, z.b, z.n), dimension(r.a),
          dimension(r.b)};
}
template <class T>
FB_INLINE T component(Vec3<T> v, int k) {
  return k == 0 ? v.x : k == 1 ? v.y : v.z;
}
// (CV.10)  the matrix of the conditions x_B - x_A = g n, T_A' n = 0, T_B' n = 0, n . n = 1 in the
// unknowns (a, b, n, g), or its transpose
template <class T>
FB_FN void slot_matrix(const SlotEnds<T>& x, const SlotState<T>& z, bool transposed,
                       SmallSystem<T>& s) {
  const int d = x.da + x.db;
  s.n = d + 4;
  for (int r = 0; r < s.n; ++r)
    for (int c = 0; c < s.n; ++c) s.m[r][c] = T(0);
  const auto at = [&](int r, int c) -> T& { return transposed ? s.m[c][r] : s.m[r][c]; };
  for (int k = 0; k < 3; ++k) {
    for (int j = 0; j < d; ++j) {
      const T t = component(x.tangent(j), k);
      at(k, j) = j < x.da ? -t : t;
      at(3 + j, d + k) = t;
    }
    at(k, d + k) = -z.g;
    at(k, d + 3) = -component(z.n, k);
    at(d + 3, d + k) = component(z.n, k);
  }
  for (int j = 0; j < d; ++j) at(3 + j, j) = j < x.da ? x.a.bend : x.b.bend;
}

// one Newton step; how far n and g moved, or a negative number where the conditions leave a choice
template <class T>
FB_FN T newton_step(const ConvexShapes<T>& w, const SlotRecord& r, SlotState<T>& z) {
  const SlotEnds<T> x = slot_ends(w, r, z);
  const int d = x.da + x.db;
  SmallSystem<T> s;
  slot_matrix(x, z, false, s);
  const Vec3<T> miss = x.b.x - x.a.x - z.n * z.g;
  for (int k = 0; k < 3; ++k) s.x[k] = -component(miss, k);
  for (int j = 0; j < d; ++j) s.x[3 + j] = -dot(x.tangent(j), z.n);
  s.x[d + 3] = (T(1) - dot(z.n, z.n)) * Real<T>(0.5);
  const bool regular = solve_small(s);
  // a turn of at most half a radian
  T turn = T(0);
  for (int k = 0; k < 3; ++k) turn = max(turn, abs(s.x[d + k]));
  const T share = turn > T(Real<T>(0.5)) ? T(Real<T>(0.5)) / turn : T(1);
  for (int k = 0; k < s.n; ++k) s.x[k] = s.x[k] * share;
  z.a = stepped(r.a, z.a, s.x);
  z.b = stepped(r.b, z.b, s.x + x.da);
  const Vec3<T> n = z.n + Vec3<T>{s.x[d], s.x[d + 1], s.x[d + 2]};
  z.n = n * (T(1) / norm(n));
  z.g += s.x[d + 3];
  return regular ? max(turn, abs(s.x[d + 3])) : T(-1);
}

// (CV.10)  Newton's method from the normal z.n; where it finds no end the start stands, and the answer
// is false.  A tangent is exact one step after its value is
template <class T>
FB_FN bool solve_curved(const ConvexShapes<T>& w, const SlotRecord& r, int steps, SlotState<T>& z) {
  z.a = place_at(w.a, r.a, z.n);
  z.b = place_at(w.b, r.b, -z.n);
  z.g = dot(z.n, point_of(w.b, r.b, z.b, z.n).x - point_of(w.a, r.a, z.a, z.n).x);
  const SlotState<T> start = z;
  const Real<T> small(kIsDouble<T> ? (kTangent<T> ? 1e-13 : 1e-9) : (kTangent<T> ? 1e-6 : 3e-5));
  for (int k = 0; k < steps; ++k) {
    const T moved = newton_step(w, r, z);
    if (!(moved >= T(0))) break;
    if (moved <= T(small)) return true;
  }
  z = start;
  return false;
}

// ---- slots of corners only

// given the normal, the points on two pieces that together have two tangents; false if these lie in a
// plane with n
template <class T>
FB_FN bool solve_along(const ConvexShapes<T>& w, const SlotRecord& r, SlotState<T>& z) {
  const PiecePlace<T> first{{T(0), T(0)}, zero3<T>()};
  z.a = z.b = first;
  const PiecePoint<T> xa = point_of(w.a, r.a, first, z.n), xb = point_of(w.b, r.b, first, z.n);
  const int da = dimension(r.a);
  const Vec3<T> t0 = da > 0 ? -xa.t[0] : xb.t[0];
  const Vec3<T> t1 = da > 1 ? -xa.t[1] : da > 0 ? xb.t[0] : xb.t[1];
  const Vec3<T> arm = xa.x - xb.x, n = -z.n, t01 = cross(t0, t1);
  const T det = dot(t01, n);
  const Real<T> flat(kIsDouble<T> ? 1e-20 : 1e-12);
  if (!(det * det > dot(t0, t0) * dot(t1, t1) * flat)) return false;
  const T inverse = T(1) / det;
  T* place[2] = {da > 0 ? &z.a.a[0] : &z.b.a[0], da > 1   ? &z.a.a[1]
                                                 : da > 0 ? &z.b.a[0]
                                                          : &z.b.a[1]};
  *place[0] = dot(arm, cross(t1, n)) * inverse;
  *place[1] = dot(arm, cross(n, t0)) * inverse;
  z.g = dot(arm, t01) * inverse;
  return true;
}

// (CV.9)  a free slot of corners in closed form: the normal across both tangents, or along what is
// left of the arm between the pieces, on the side of `near`; false if that has no direction
template <class T>
FB_FN bool solve_corners(const ConvexShapes<T>& w, const SlotRecord& r, Vec3<T> near,
                         SlotState<T>& z) {
  const PiecePlace<T> first{{T(0), T(0)}, zero3<T>()};
  const int da = dimension(r.a), d = da + dimension(r.b);
  z.a = z.b = first;
  const PiecePoint<T> xa = point_of(w.a, r.a, first, near), xb = point_of(w.b, r.b, first, near);
  const Vec3<T> arm = xb.x - xa.x, t = da > 0 ? xa.t[0] : xb.t[0];
  const Vec3<T> u = da > 1 ? xa.t[1] : da > 0 ? xb.t[0] : xb.t[1];
  Vec3<T> across = arm;
  const T ra = piece_radius(w.a, r.a), rb = piece_radius(w.b, r.b);
  T scale = dot(xa.x, xa.x) + dot(xb.x, xb.x) + ra * ra + rb * rb + T(kNoLength<T>), along = T(0);
  if (d == 1) {
    along = dot(t, arm) / max(dot(t, t), T(kNoLength<T>));
    across = arm - t * along;
  }
  if (d == 2) {
    across = cross(t, u);
    scale = dot(t, t) * dot(u, u);
  }
  const T square = dot(across, across);
  const bool known = square > scale * Real<T>(kIsDouble<T> ? 1e-20 : 1e-10) && d <= 2;
  // without a direction of its own the normal is the given one, across the tangent
  if (!known) across = d == 1 ? near - t * (dot(t, near) / max(dot(t, t), T(kNoLength<T>))) : near;
  z.n = across * (T(1) / max(norm(across), T(Real<T>(1e-15))));
  if (dot(z.n, near) < T(0)) z.n = -z.n;
  if (d == 2) return known && solve_along(w, r, z);
  if (d == 1) (da > 0 ? z.a : z.b).a[0] = da > 0 ? along : -along;
  z.g = dot(z.n, arm);
  return known;
}

// ---- carried slots

// (CV.11)  the outward normal of the carrier's face; across: the product of two of its edges
template <class T>
struct CarrierPlane {
  Piece piece;
  PiecePoint<T> point;
  Vec3<T> across, n;
  T inverse;
};
template <class T>
FB_INLINE CarrierPlane<T> carrier_plane(const Convex<T>& c, int face) {
  CarrierPlane<T> p;
  int id[3];
  face_plane(c, face, id);
  p.piece = corners_piece(id, 3);
  p.point = point_of(c, p.piece, PiecePlace<T>{{T(0), T(0)}, zero3<T>()}, zero3<T>());
  p.across = cross(p.point.t[0], p.point.t[1]);
  p.inverse = T(1) / max(norm(p.across), T(Real<T>(1e-30)));
  p.n = p.across * p.inverse;
  return p;
}

// the slot of a record; near: about which normal it has.  False where it is not determined
template <class T>
FB_FN bool solve_slot(const ConvexShapes<T>& w, const SlotRecord& r, Vec3<T> near,
                      SlotState<T>& z) {
  if (r.carrier != kFreeNormal) {
    const bool on_a = r.carrier == kFaceOfA;
    const Vec3<T> out = carrier_plane(on_a ? w.a : w.b, r.face).n;
    z.n = on_a ? out : -out;
    z.g = T(0);
    return solve_along(w, r, z);
  }
  if (!is_curved(r.a) && !is_curved(r.b)) return solve_corners(w, r, near, z);
  z.n = near;
  return solve_curved(w, r, 8, z);
}

// (CV.9)  phi = g - r_A - r_B, p between the surfaces; origin: of the coordinates
template <class T>
FB_INLINE ContactPoint<T> slot_point(const ConvexShapes<T>& w, const SlotRecord& r,
                                     const SlotState<T>& z, Vec3<T> origin) {
  const Vec3<T> xa = point_of(w.a, r.a, z.a, z.n).x, xb = point_of(w.b, r.b, z.b, z.n).x;
  const T ra = piece_radius(w.a, r.a), rb = piece_radius(w.b, r.b);
  const Vec3<T> p = (xa + xb + z.n * (ra - rb)) * Real<T>(0.5) + origin;
  return {z.g - ra - rb, z.n, p, true, no_feature<T>()};
}

// ---- adjoints

// (CV.13)  a free slot: given bars of (a, b, n, g), the transposed system gives those of the points
template <class T>
FB_FN void free_slot_adjoint(const SlotEnds<T>& x, const SlotState<T>& z, Vec3<T> half,
                             Vec3<T> n_bar, T phi_bar, SlotEnds<T>& out) {
  const int d = x.da + x.db;
  SmallSystem<T> s;
  slot_matrix(x, z, true, s);
  for (int j = 0; j < d; ++j) s.x[j] = dot(x.tangent(j), half);
  for (int k = 0; k < 3; ++k) s.x[d + k] = component(n_bar, k);
  s.x[d + 3] = phi_bar;
  solve_small(s);
  const Vec3<T> l{s.x[0], s.x[1], s.x[2]};
  out.a.x = half + l;
  out.b.x = half - l;
  for (int j = 0; j < d; ++j) (j < x.da ? out.a.t[j] : out.b.t[j - x.da]) = z.n * (-s.x[3 + j]);
}

// (CV.14)  a carried slot: the same for (a, b, g), and the normal's bar goes to the face
template <class T>
FB_FN void carried_slot_adjoint(const SlotEnds<T>& x, const SlotState<T>& z, Vec3<T> half,
                                T phi_bar, Vec3<T>& n_bar, SlotEnds<T>& out) {
  const Vec3<T> t0 = x.da > 0 ? -x.tangent(0) : x.tangent(0);
  const Vec3<T> t1 = x.da > 1 ? -x.tangent(1) : x.tangent(1);
  const Vec3<T> n = -z.n, t01 = cross(t0, t1);
  const T inverse = T(1) / dot(t01, n);
  const T r0 = dot(x.tangent(0), half), r1 = dot(x.tangent(1), half);
  const Vec3<T> l = (cross(t1, n) * r0 + cross(n, t0) * r1 + t01 * phi_bar) * inverse;
  out.a.x = half + l;
  out.b.x = half - l;
  n_bar += l * z.g;
}

// (CV.14)  given the bar of a carrier's outward normal, add to that of its shape
template <class T>
FB_FN void carrier_adjoint(const Convex<T>& c, int face, Vec3<T> n_bar, Vec3<T> origin,
                           ShapeBar<T>& bar) {
  const CarrierPlane<T> p = carrier_plane(c, face);
  const Vec3<T> y = (n_bar - p.n * dot(p.n, n_bar)) * p.inverse;
  const PiecePoint<T> point_bar{zero3<T>(), {cross(p.point.t[1], y), cross(y, p.point.t[0])}, T(0)};
  point_adjoint(c, p.piece, PiecePlace<T>{{T(0), T(0)}, zero3<T>()}, point_bar, origin, bar);
}

// (CV.13), (CV.14)  given the bar of a slot, add to a_bar, b_bar
template <class T>
FB_FN void slot_adjoint(const ConvexShapes<T>& w, const SlotRecord& r, const SlotState<T>& z,
                        const ContactPointBar<T>& out_bar, Vec3<T> origin, ShapeBar<T>& a_bar,
                        ShapeBar<T>& b_bar) {
  const SlotEnds<T> ends = slot_ends(w, r, z);
  const Vec3<T> half = out_bar.p * Real<T>(0.5);
  const T along = dot(z.n, half);
  if (is_padded(w.a, r.a)) a_bar.size.x += along - out_bar.phi;
  if (is_padded(w.b, r.b)) b_bar.size.x += -along - out_bar.phi;
  Vec3<T> n_bar = out_bar.n + half * (piece_radius(w.a, r.a) - piece_radius(w.b, r.b));
  const Vec3<T> none = zero3<T>();
  SlotEnds<T> bars{{none, {none, none}, T(0)}, {none, {none, none}, T(0)}, ends.da, ends.db};
  if (r.carrier == kFreeNormal) {
    free_slot_adjoint(ends, z, half, n_bar, out_bar.phi, bars);
  } else {
    carried_slot_adjoint(ends, z, half, out_bar.phi, n_bar, bars);
    const bool on_a = r.carrier == kFaceOfA;
    carrier_adjoint(on_a ? w.a : w.b, r.face, on_a ? n_bar : -n_bar, origin, on_a ? a_bar : b_bar);
  }
  point_adjoint(w.a, r.a, z.a, bars.a, origin, a_bar);
  point_adjoint(w.b, r.b, z.b, bars.b, origin, b_bar);
}

}  // namespace fb::FB_ISA
