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
  T m[kMostUnknowns][kMostUnknowns];
  int n, pivot[kMostUnknowns];
  bool open[kMostUnknowns];
};
// rows are swapped and m becomes L and U; an unknown that the equations leave open counts as zero, and
// the answer is false
template <class T>
FB_OUTLINE bool factor_small(SmallSystem<T>& s) {
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
    s.pivot[k] = pivot;
    s.open[k] = !(abs(s.m[k][k]) > least);
    regular = regular && !s.open[k];
    const T inverse = T(1) / (s.open[k] ? T(1) : s.m[k][k]);
    for (int r = k + 1; r < n; ++r) {
      const T f = s.open[k] ? T(0) : s.m[r][k] * inverse;
      s.m[r][k] = f;
      for (int c = k + 1; c < n && !s.open[k]; ++c) s.m[r][c] -= f * s.m[k][c];
    }
  }
  return regular;
}
template <class T>
FB_INLINE void swap_numbers(T* x, int i, int j) {
  const T kept = x[i];
  x[i] = x[j];
  x[j] = kept;
}
// x becomes the solution
template <class T>
FB_FN void solve_small(const SmallSystem<T>& s, T* x) {
  for (int k = 0; k < s.n; ++k) swap_numbers(x, k, s.pivot[k]);
  for (int k = 0; k < s.n; ++k)
    for (int r = k + 1; r < s.n; ++r) x[r] -= s.m[r][k] * x[k];
  for (int k = s.n - 1; k >= 0; --k) {
    for (int c = k + 1; c < s.n; ++c) x[k] -= s.m[k][c] * x[c];
    x[k] = s.open[k] ? T(0) : x[k] / s.m[k][k];
  }
}
// the same steps transposed, in reverse: that of the transposed system, with the same unknowns open
template <class T>
FB_FN void solve_small_transposed(const SmallSystem<T>& s, T* x) {
  for (int k = 0; k < s.n; ++k) {
    x[k] = s.open[k] ? T(0) : x[k] / s.m[k][k];
    for (int c = k + 1; c < s.n; ++c) x[c] -= s.m[k][c] * x[k];
  }
  for (int k = s.n - 1; k >= 0; --k)
    for (int r = k + 1; r < s.n; ++r) x[k] -= s.m[r][k] * x[r];
  for (int k = s.n - 1; k >= 0; --k) swap_numbers(x, k, s.pivot[k]);
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
// unknowns (a, b, n, g)
template <class T>
FB_FN void slot_matrix(const SlotEnds<T>& x, const SlotState<T>& z, SmallSystem<T>& s) {
  const int d = x.da + x.db;
  s.n = d + 4;
  for (int r = 0; r < s.n; ++r)
    for (int c = 0; c < s.n; ++c) s.m[r][c] = T(0);
  for (int k = 0; k < 3; ++k) {
    for (int j = 0; j < d; ++j) {
      const T t = component(x.tangent(j), k);
      s.m[k][j] = j < x.da ? -t : t;
      s.m[3 + j][d + k] = t;
    }
    s.m[k][d + k] = -z.g;
    s.m[k][d + 3] = -component(z.n, k);
    s.m[d + 3][d + k] = component(z.n, k);
  }
  for (int j = 0; j < d; ++j) s.m[3 + j][j] = j < x.da ? x.a.bend : x.b.bend;
}
// how far a state is from the conditions
template <class T>
FB_INLINE void slot_misses(const SlotEnds<T>& x, const SlotState<T>& z, T* miss) {
  const Vec3<T> arm = x.b.x - x.a.x - z.n * z.g;
  for (int k = 0; k < 3; ++k) miss[k] = component(arm, k);
  for (int j = 0; j < x.da + x.db; ++j) miss[3 + j] = dot(x.tangent(j), z.n);
  miss[x.da + x.db + 3] = (dot(z.n, z.n) - T(1)) * Real<T>(0.5);
}
// a state some steps of its unknowns on
template <class T>
FB_INLINE SlotState<T> stepped(const SlotRecord& r, const SlotState<T>& z, const T* step) {
  const int da = dimension(r.a), d = da + dimension(r.b);
  return {stepped(r.a, z.a, step), stepped(r.b, z.b, step + da),
          z.n + Vec3<T>{step[d], step[d + 1], step[d + 2]}, z.g + step[d + 3]};
}

// one Newton step; how far n and g moved, or a negative number where the conditions leave a choice
template <class R>
FB_FN R newton_step(const ConvexShapes<R>& w, const SlotRecord& r, SlotState<R>& z) {
  const SlotEnds<R> x = slot_ends(w, r, z);
  const int d = x.da + x.db;
  SmallSystem<R> s;
  R step[kMostUnknowns];
  slot_matrix(x, z, s);
  slot_misses(x, z, step);
  const bool regular = factor_small(s);
  solve_small(s, step);
  // a turn of at most half a radian
  R turn = R(0);
  for (int k = 0; k < 3; ++k) turn = max(turn, abs(step[d + k]));
  const R share = turn > R(0.5) ? R(0.5) / turn : R(1);
  for (int k = 0; k < s.n; ++k) step[k] *= -share;
  z = stepped(r, z, step);
  z.n = z.n * (R(1) / norm(z.n));
  return regular ? max(turn, abs(step[d + 3])) : R(-1);
}

// a normal across the tangents of flat pieces, near n
template <class R>
FB_FN Vec3<R> across_pieces(const ConvexShapes<R>& w, const SlotRecord& r, Vec3<R> n) {
  const PiecePlace<R> first{{R(0), R(0)}, {R(1), R(0), R(0)}};
  const int da = is_curved(r.a) ? 0 : dimension(r.a), db = is_curved(r.b) ? 0 : dimension(r.b);
  if (da + db == 0) return n;
  const PiecePoint<R> a = point_of(w.a, r.a, first, n), b = point_of(w.b, r.b, first, n);
  const Vec3<R> t = da > 0 ? a.t[0] : b.t[0];
  Vec3<R> x = n - t * (dot(t, n) / max(dot(t, t), R(kNoLength<R>)));
  if (da + db > 1) {
    const Vec3<R> u = da > 1 ? a.t[1] : da > 0 ? b.t[0] : b.t[1], tu = cross(t, u);
    x = dot(tu, n) < R(0) ? -tu : tu;
  }
  const R length = norm(x);
  return length > R(1e-15) ? x * (R(1) / length) : n;
}

// the state of a normal: places where curved pieces look along it
template <class R>
FB_INLINE void start_curved(const ConvexShapes<R>& w, const SlotRecord& r, Vec3<R> n,
                            SlotState<R>& z) {
  z.n = n;
  z.a = place_at(w.a, r.a, n);
  z.b = place_at(w.b, r.b, -n);
  z.g = dot(n, point_of(w.b, r.b, z.b, n).x - point_of(w.a, r.a, z.a, n).x);
}
// the place on a flat piece nearest to x
template <class R>
FB_FN void move_beside(const Convex<R>& c, const Piece& f, Vec3<R> x, PiecePlace<R>& at) {
  if (is_curved(f) || f.kind == kOneCorner) return;
  const PiecePoint<R> first = point_of(c, f, PiecePlace<R>{{R(0), R(0)}, at.m}, x);
  const Vec3<R> arm = x - first.x, t = first.t[0];
  const bool plane = f.kind == kThreeCorners;
  const R tt = dot(t, t), tu = plane ? dot(t, first.t[1]) : R(0);
  const R uu = plane ? dot(first.t[1], first.t[1]) : R(1), ua = plane ? dot(first.t[1], arm) : R(0);
  const R inverse = R(1) / max(tt * uu - tu * tu, R(kNoLength<R>)), ta = dot(t, arm);
  at.a[0] = (uu * ta - tu * ua) * inverse;
  at.a[1] = (tt * ua - tu * ta) * inverse;
}
// the point of another piece that a rim is to lie beside, as its cap sees it: a corner; of an edge that passes
// by it the one nearest to its axis, of one that passes over it a crossing; of others the middle of the shape
template <class R>
FB_FN Vec3<R> beside_rim(const Convex<R>& c, const Convex<R>& other, const Piece& f) {
  const bool corners = f.kind == kOneCorner || f.kind == kTwoCorners;
  const Vec3<R> first = corners ? corner_of(other, f.id[0]) : other.p;
  const Vec3<R> y = mul_transposed(c.R, first - c.p);
  if (f.kind != kTwoCorners) return y;
  const Vec3<R> t = mul_transposed(c.R, corner_of(other, f.id[1]) - first);
  const R inverse = R(1) / max(t.x * t.x + t.y * t.y, R(kNoLength<R>));
  const R foot = -(t.x * y.x + t.y * y.y) * inverse;
  const Vec3<R> x = y + t * foot;
  const R chord = sqrt(max(c.size.x * c.size.x - x.x * x.x - x.y * x.y, R(0)) * inverse);
  return x + t * (foot < R(0.5) ? chord : -chord);
}
// the place on a rim nearest to another piece, where its cap lies across the normal d: all of it is as deep
template <class R>
FB_FN void turn_rim(const Convex<R>& c, const Piece& f, const Convex<R>& other,
                    const Piece& other_piece, Vec3<R> d, PiecePlace<R>& at) {
  if (!is_curved(f) || f.kind == kOvalPiece) return;
  const Vec3<R> q = mul_transposed(c.R, d), y = beside_rim(c, other, other_piece);
  const R rho = sqrt(y.x * y.x + y.y * y.y), level = R(kIsDouble<R> ? 1e-9 : 1e-5);
  if (q.x * q.x + q.y * q.y < level * level && rho > c.size.x * R(1e-6))
    at.m = Vec3<R>{y.x, y.y, R(0)} * (R(1) / rho);
}
// (CV.10)  where the conditions leave a choice: the normal turned across the flat pieces, the place where
// a curved piece looks along it, of a rim all around that nearest to the other piece, and that beside it
template <class R>
FB_FN void choose_curved(const ConvexShapes<R>& w, const SlotRecord& r, Vec3<R> near,
                         SlotState<R>& z) {
  start_curved(w, r, across_pieces(w, r, near), z);
  turn_rim(w.a, r.a, w.b, r.b, z.n, z.a);
  turn_rim(w.b, r.b, w.a, r.a, z.n, z.b);
  move_beside(w.a, r.a, point_of(w.b, r.b, z.b, z.n).x, z.a);
  move_beside(w.b, r.b, point_of(w.a, r.a, z.a, z.n).x, z.b);
}
// whether the tangent at the place on a rim lies across the normal d.  Where the cap does too but for a
// small angle, the conditions hardly see the place
template <class R>
FB_INLINE bool is_level(const Convex<R>& c, const Piece& f, const PiecePlace<R>& at, Vec3<R> d) {
  if (!is_curved(f) || f.kind == kOvalPiece) return true;
  const Vec3<R> q = mul_transposed(c.R, d);
  const R along = q.x * at.m.y - q.y * at.m.x, square = q.x * q.x + q.y * q.y;
  return along * along < square * R(1e-3) + R(kIsDouble<R> ? 1e-24 : 1e-10);
}
// how far the points of a slot are from lying over each other along its normal, as those of coaxial
// shapes may
template <class R>
FB_INLINE R apart_across(const ConvexShapes<R>& w, const SlotRecord& r, const SlotState<R>& z) {
  const Vec3<R> xa = point_of(w.a, r.a, z.a, z.n).x, xb = point_of(w.b, r.b, z.b, z.n).x;
  return norm(xb - xa - z.n * z.g);
}
// whether they do: where a tangent of a rim lies along an edge, places run off while the normal stays
template <class R>
FB_INLINE bool lies_over(const ConvexShapes<R>& w, const SlotRecord& r, const SlotState<R>& z) {
  const R most = R(kIsDouble<R> ? 1e-6 : 1e-3), size = extent_of(w.a) + extent_of(w.b);
  return apart_across(w, r, z) < size * most;
}
// (CV.10)  Newton's method from the normal z.n; where it finds no end a choice stands, and the answer is
// false
template <class R>
FB_FN bool solve_curved(const ConvexShapes<R>& w, const SlotRecord& r, int steps, SlotState<R>& z) {
  const Vec3<R> near = z.n;
  // a plane has the normal, which tells the sides of a rim apart that lies nearly along it
  const bool plane = r.a.kind == kThreeCorners || r.b.kind == kThreeCorners;
  start_curved(w, r, plane ? across_pieces(w, r, near) : near, z);
  R moved = R(1);
  bool over = false;
  for (int k = 0; k < steps && moved >= R(0) && !over; ++k) {
    moved = newton_step(w, r, z);
    over = moved >= R(0) && moved <= R(kIsDouble<R> ? 1e-9 : 3e-5) && lies_over(w, r, z);
  }
  const bool ended = moved >= R(0) && moved < R(kIsDouble<R> ? 1e-7 : 1e-3);
  const bool found = ended && is_level(w.a, r.a, z.a, z.n) && is_level(w.b, r.b, z.b, z.n) &&
                     (over || lies_over(w, r, z));
  if (!found) choose_curved(w, r, near, z);
  return found;
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
  // the product of tangents nearly along each other is rounded; across the one it is so of both
  const bool parallel = d == 2 && square < scale * Real<T>(kIsDouble<T> ? 1e-10 : 1e-4);
  if (parallel) across -= t * (dot(t, across) / max(dot(t, t), T(kNoLength<T>)));
  const bool known = square > scale * Real<T>(kIsDouble<T> ? 1e-20 : 1e-10) && d <= 2;
  // what is left of a long arm is rounded along the tangent
  const bool close = d == 1 && square < scale * Real<T>(kIsDouble<T> ? 1e-12 : 1e-6);
  if (close) across -= t * (dot(t, across) / max(dot(t, t), T(kNoLength<T>)));
  const Vec3<T> rest = across;
  // without a direction of its own the normal is the given one, across the tangent
  if (!known) across = d == 1 ? near - t * (dot(t, near) / max(dot(t, t), T(kNoLength<T>))) : near;
  z.n = across * (T(1) / max(norm(across), T(Real<T>(1e-15))));
  if (dot(z.n, near) < T(0)) z.n = -z.n;
  if (d == 2) {
    const bool regular = known && solve_along(w, r, z);
    if (parallel) z.g = dot(z.n, arm);
    return regular;
  }
  if (d == 1) (da > 0 ? z.a : z.b).a[0] = da > 0 ? along : -along;
  z.g = dot(z.n, close ? rest : arm);
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

// a free slot; near: about which normal it has
template <class R>
FB_FN bool solve_free(const ConvexShapes<R>& w, const SlotRecord& r, Vec3<R> near,
                      SlotState<R>& z) {
  if (!is_curved(r.a) && !is_curved(r.b)) return solve_corners(w, r, near, z);
  z.n = near;
  return solve_curved(w, r, 8, z);
}
template <class R>
FB_INLINE PiecePlace<Dual<R>> lifted(const PiecePlace<R>& at) {
  return {{Dual<R>(at.a[0]), Dual<R>(at.a[1])},
          {Dual<R>(at.m.x), Dual<R>(at.m.y), Dual<R>(at.m.z)}};
}
// (CV.10)  with tangents: dz = -J^-1 dF at the value's solution
template <class R>
FB_FN bool solve_free(const ConvexShapes<Dual<R>>& w, const SlotRecord& r, Vec3<Dual<R>> near,
                      SlotState<Dual<R>>& z) {
  using D = Dual<R>;
  const ConvexShapes<R> values{plain(w.a), plain(w.b)};
  SlotState<R> at;
  const bool found = solve_free(values, r, plain(near), at);
  z = {lifted(at.a), lifted(at.b), {D(at.n.x), D(at.n.y), D(at.n.z)}, D(at.g)};
  SmallSystem<R> s;
  D miss[kMostUnknowns], step[kMostUnknowns];
  R turn[kMostUnknowns];
  slot_misses(slot_ends(w, r, z), z, miss);
  slot_matrix(slot_ends(values, r, at), at, s);
  factor_small(s);
  for (int k = 0; k < s.n; ++k) turn[k] = -miss[k].d;
  solve_small(s, turn);
  for (int k = 0; k < s.n; ++k) step[k] = {R(0), turn[k]};
  z = stepped(r, z, step);
  return found;
}

// the slot of a record; near: about which normal it has.  False where it is not determined
template <class T>
FB_FN bool solve_slot(const ConvexShapes<T>& w, const SlotRecord& r, Vec3<T> near,
                      SlotState<T>& z) {
  if (r.carrier == kFreeNormal) return solve_free(w, r, near, z);
  const bool on_a = r.carrier == kFaceOfA;
  const Vec3<T> out = carrier_plane(on_a ? w.a : w.b, r.face).n;
  z.n = on_a ? out : -out;
  z.g = T(0);
  return solve_along(w, r, z);
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
  T bar[kMostUnknowns];
  slot_matrix(x, z, s);
  for (int j = 0; j < d; ++j) bar[j] = dot(x.tangent(j), half);
  for (int k = 0; k < 3; ++k) bar[d + k] = component(n_bar, k);
  bar[d + 3] = phi_bar;
  factor_small(s);
  solve_small_transposed(s, bar);
  const Vec3<T> l{bar[0], bar[1], bar[2]};
  out.a.x = half + l;
  out.b.x = half - l;
  for (int j = 0; j < d; ++j) (j < x.da ? out.a.t[j] : out.b.t[j - x.da]) = z.n * (-bar[3 + j]);
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
