// Which geoms can touch within a step: spheres around them, then boxes along their axes; and geoms as
// shapes.  Proof: docs/derivations/contact.md.
#pragma once
#include "core/collision/pairs.hpp"
#include "core/contact/constraint.hpp"
#include "core/contact/sweep.hpp"

namespace fb::FB_ISA {

// link whose tree origin a contact is expressed about: the moving one, B before A
FB_INLINE int reference_link(int la, int lb) { return lb > 0 ? lb : la; }

// centre and axes of a geom relative to its tree's origin; the world's own link does not move
template <class T, class P>
FB_INLINE Vec3<T> geom_centre(const Model<T, P>& m, int g, const Work<T>& w) {
  const int l = m.s.geom_link[g];
  if (l == 0) return lift3<T>(m.derived.geom_p + 3 * g);
  return mul_add(w.link[l].R, lift3<P>(m.derived.geom_p + 3 * g), w.link[l].r);
}
template <class T, class P>
FB_INLINE Mat3<T> geom_axes(const Model<T, P>& m, int g, const Work<T>& w) {
  const int l = m.s.geom_link[g];
  const P* G = m.derived.geom_R + 9 * g;
  if (l > 0) return mul(w.link[l].R, G);
  Mat3<T> R;
#pragma GCC unroll 9
  for (int e = 0; e < 9; ++e) R.a[e] = T(G[e]);
  return R;
}

// bound on the speed of any point within `radius` of one that moves by lin, by sums of absolute values
template <class T, class P>
FB_INLINE T largest_speed(Vec3<T> lin, Vec3<T> ang, P radius) {
  return abs(lin.x) + abs(lin.y) + abs(lin.z) + (abs(ang.x) + abs(ang.y) + abs(ang.z)) * radius;
}

// the same around c, where a link has the motion v
template <class T, class P>
FB_INLINE T geom_speed(Motion<T> v, Vec3<T> c, P radius) {
  return largest_speed(v.lin + cross(v.ang, c), v.ang, radius);
}

// centres and speeds of all geoms, about each link's own origin
template <class T, class P>
FB_FN void bound_geoms(const Model<T, P>& m, const Options<Real<T>>& o, Work<T>& w) {
  const T margin = T(max(o.margin, row_reach(o)) * Real<T>(0.5));
  for (int g = 0; g < m.s.ngeom; ++g) {
    GeomWork<T>& x = w.geom[g];
    const Vec3<T> origin = origin_of(m.s, w, m.s.geom_link[g]);
    x.centre = geom_centre(m, g, w);
    x.speed = geom_speed(w.link[m.s.geom_link[g]].v_free, x.centre, m.derived.geom_radius[g]);
    x.place = x.centre + origin;
    x.reach = mul_add(x.speed, T(m.theta.dt[0]), margin + T(m.derived.geom_radius[g])) +
              (largest_part(x.centre) + largest_part(origin)) * Real<T>(kBoxSlack);
    if (m.s.geom_type[g] == kPlane) x.reach = T(Real<T>(1e30));
  }
}
// (T.17)  whether a pair is farther apart in all lanes than its geoms reach
template <class T>
FB_INLINE bool is_apart(const GeomWork<T>& a, const GeomWork<T>& b) {
  const Vec3<T> d = b.place - a.place;
  const T reach = a.reach + b.reach;
  return !any(dot(d, d) < reach * reach);
}
// whether a pair can touch within the step, and the gap up to which it matters there
template <class T>
struct Nearness {
  Mask<T> near;
  T far;
};
// (T.1)  can these geoms touch within the step?
template <class T, class P>
FB_INLINE Nearness<T> broad_phase(const Model<T, P>& m, const Options<Real<T>>& o, int ga, int gb,
                                  const Work<T>& w) {
  const Layout& s = m.s;
  // from A's origin to B's
  const Vec3<T> shift = origin_of(s, w, s.geom_link[ga]) - origin_of(s, w, s.geom_link[gb]);
  const P ra = m.derived.geom_radius[ga], rb = m.derived.geom_radius[gb];
  const Vec3<T> cB = w.geom[gb].centre, d = cB - w.geom[ga].centre - shift;
  T speed = w.geom[gb].speed;
  if (s.geom_type[ga] == kPlane) {
    const P* G = m.derived.geom_R + 9 * ga;
    Vec3<T> n{T(G[2]), T(G[5]), T(G[8])};
    // a moving plane is as fast as its point nearest to B
    if (s.geom_link[ga] > 0) {
      const LinkWork<T>& A = w.link[s.geom_link[ga]];
      n = mul(A.R, n);
      speed += geom_speed(A.v_free, cB - shift, rb);
    }
    const T far = max(T(o.margin), speed * m.theta.dt[0] + T(row_reach(o)));
    return {dot(n, d) - T(rb) < far, far};
  }
  if (s.geom_link[ga] > 0) speed += w.geom[ga].speed;
  const T far = max(T(o.margin), speed * m.theta.dt[0] + T(row_reach(o)));
  const T apart = far + T(ra) + T(rb);
  return {dot(d, d) < apart * apart, far};
}

// whether boxes around the two geoms of a pair are worth a look: where the search for the distance is long
FB_INLINE bool has_boxes(const Layout& s, int ga, int gb) {
  const auto searched = [](int type) {
    return type == kMesh || type == kCylinder || type == kEllipsoid;
  };
  const int a = s.geom_type[ga], b = s.geom_type[gb];
  return a != kPlane && a != kHfield && b != kHfield && (searched(a) || searched(b));
}
// (T.16)  how far an axis of one of the boxes parts them at least; d: from A's centre to B's
template <class T, class P>
FB_FN T boxes_apart(const Model<T, P>& m, int ga, int gb, Vec3<T> d, const Work<T>& w) {
  const P *a = m.derived.geom_box + 6 * ga, *b = m.derived.geom_box + 6 * gb;
  const Mat3<T> A = geom_axes(m, ga, w), B = geom_axes(m, gb, w), C = mul_transposed(A, B);
  const Vec3<T> way = d + mul(B, lift3<T>(b)) - mul(A, lift3<T>(a));
  const Vec3<T> x = mul_transposed(A, way), y = mul_transposed(B, way);
  const T along_a[3] = {x.x, x.y, x.z}, along_b[3] = {y.x, y.y, y.z};
  T apart = T(Real<T>(-1e30));
  for (int i = 0; i < 3; ++i) {
    T reach_a = T(a[3 + i]), reach_b = T(b[3 + i]);
    for (int j = 0; j < 3; ++j) {
      reach_a += abs(C.a[3 * i + j]) * b[3 + j];
      reach_b += abs(C.a[3 * j + i]) * a[3 + j];
    }
    const Real<T> slack = Real<T>(1 + kBoxSlack);
    apart = max(apart, abs(along_a[i]) - reach_a * slack);
    apart = max(apart, abs(along_b[i]) - reach_b * slack);
  }
  return apart;
}
template <class T, class P>
FB_INLINE Mask<T> boxes_near(const Model<T, P>& m, int ga, int gb, Vec3<T> d, T far,
                             const Work<T>& w) {
  return boxes_apart(m, ga, gb, d, w) < far;
}

// the box of a geom along the world's axes, about its centre there, and so much more around it
template <class T, class P>
FB_FN GeomBox<T> world_box(const Model<T, P>& m, int g, Vec3<T> centre, T more, const Work<T>& w) {
  const T size = largest_part(centre);
  if (m.s.geom_type[g] == kHfield) {
    const T r = T(m.derived.geom_radius[g]) + more;
    return {centre, {r, r, r}, size};
  }
  const P* x = m.derived.geom_box + 6 * g;
  const Mat3<T> R = geom_axes(m, g, w);
  T half[3];
  for (int i = 0; i < 3; ++i) {
    half[i] = more;
    for (int j = 0; j < 3; ++j) half[i] += abs(R.a[3 * i + j]) * x[3 + j];
  }
  return {centre + mul(R, lift3<T>(x)), {half[0], half[1], half[2]}, size};
}
// with what it can reach within the step, and half the margin
template <class T, class P>
FB_INLINE GeomBox<T> reached_box(const Model<T, P>& m, const Options<Real<T>>& o, int g,
                                 const Work<T>& w) {
  const GeomWork<T>& x = w.geom[g];
  const Vec3<T> origin = origin_of(m.s, w, m.s.geom_link[g]);
  const T margin = T(max(o.margin, row_reach(o)) * Real<T>(0.5));
  GeomBox<T> box = world_box(m, g, x.centre + origin, x.speed * m.theta.dt[0] + margin, w);
  box.size = largest_part(x.centre) + largest_part(origin);
  return box;
}

// a geom as a shape about `centre`, in world axes
template <class T, class P>
FB_INLINE Shape<T> place_shape(const Model<T, P>& m, int g, const Work<T>& w, Vec3<T> centre) {
  Shape<T> x;
  x.type = ShapeType(m.s.geom_type[g]);
  x.p = centre;
  x.R = geom_axes(m, g, w);
  x.vert = m.vert + 3 * m.s.geom_vert[g];
  x.nvert = m.s.geom_nvert[g];
  x.hull = x.nvert > 0 ? m.s.hull + m.s.geom_hull[g] : nullptr;
  x.size = x.nvert > 0 ? mesh_stretch<T>(x.vert, asset_size(m.s, m.theta, g))
                       : lift3<T>(m.theta.geom_size + 3 * g);
  return x;
}

}  // namespace fb::FB_ISA
