// Pairs whose geoms are too far apart for what the step may do to them are deferred: nobody looks for their
// contact points, unless the solve moves them by more.  Proof: docs/derivations/contact.md.
#pragma once
#include "core/contact/near.hpp"

namespace fb::FB_ISA {

// the geoms of a pair, their links, and the origins of these and of the contacts
template <class T>
struct PairAt {
  int pair, ga, gb, la, lb;
  Vec3<T> OA, OB, Oref;
};
template <class T>
FB_INLINE PairAt<T> pair_at(const Layout& s, int pair, const Work<T>& w) {
  const int ga = first_geom(s, pair), gb = second_geom(s, pair);
  const int la = s.geom_link[ga], lb = s.geom_link[gb];
  return {pair,
          ga,
          gb,
          la,
          lb,
          origin_of(s, w, la),
          origin_of(s, w, lb),
          origin_of(s, w, reference_link(la, lb))};
}
template <class T, class P>
FB_FN void collide_pair(const Model<T, P>& m, const PairAt<T>& x, Mask<T> near, T far,
                        const Work<T>& w, ContactPoint<T>* point) {
  collide(kind_of_pair(m.s, x.pair), place_shape(m, x.ga, w, w.geom[x.ga].centre + (x.OA - x.Oref)),
          place_shape(m, x.gb, w, w.geom[x.gb].centre + (x.OB - x.Oref)), reach_where(near, far),
          point);
}

// pairs that take so long to look at that boxes around them are asked first
FB_INLINE bool is_searched(const Layout& s, int ga, int gb) {
  return has_boxes(s, ga, gb) || (s.geom_type[ga] == kBox && s.geom_type[gb] == kBox);
}
// the smaller geom of a pair
template <class T, class P>
FB_INLINE int smaller_geom(const Model<T, P>& m, const PairAt<T>& x) {
  return all(m.derived.geom_radius[x.ga] < m.derived.geom_radius[x.gb]) ? x.ga : x.gb;
}
// (T.18)  a bound on the speed at which contacts of a pair that are nearer than `far` close or open, links having
// the motions VA and VB
template <class T, class P>
FB_FN T closing_speed(const Model<T, P>& m, const PairAt<T>& x, T far, Motion<T> VA, Motion<T> VB,
                      const Work<T>& w) {
  const int g = smaller_geom(m, x);
  const Vec3<T> c = w.geom[g].place;
  const Vec3<T> lin = (VB.lin + cross(VB.ang, c - x.OB)) - (VA.lin + cross(VA.ang, c - x.OA));
  return largest_speed(lin, VB.ang - VA.ang, far + T(m.derived.geom_radius[g]));
}
// (T.18)  contacts with a larger gap stay open whatever the motions of their links change by up to twice as much as
// the free motion changes them
template <class T, class P>
FB_FN T closing_gap(const Model<T, P>& m, const PairAt<T>& x, T far, const Work<T>& w) {
  const LinkWork<T>&A = w.link[x.la], &B = w.link[x.lb];
  const int g = smaller_geom(m, x);
  const T radius = far + T(m.derived.geom_radius[g]);
  T speed = closing_speed(m, x, far, A.v, B.v, w);
  for (int side = 0; side < 2; ++side) {
    const LinkWork<T>& k = side == 0 ? A : B;
    const Motion<T> change = k.v_free - k.v;
    const Vec3<T> c = w.geom[g].place - (side == 0 ? x.OA : x.OB);
    const T by = largest_speed(change.lin + cross(change.ang, c), change.ang, radius);
    speed += by + by;
  }
  return speed * m.theta.dt[0];
}
// the gap of a face's contacts may be less than the distance of two shapes by these shares of the distance and of
// the smaller one's radius
inline constexpr double kGapOfDistance = 0.06, kGapOfRadius = 2.5e-3;
// (T.18)  shapes farther apart than this have no contact nearer than the gap
template <class T, class P>
FB_INLINE T sure_distance(const Model<T, P>& m, const PairAt<T>& x, T gap) {
  return mul_add(gap, T(Real<T>(1 + kGapOfDistance)),
                 T(m.derived.geom_radius[smaller_geom(m, x)] * Real<T>(kGapOfRadius)));
}
template <class T>
FB_INLINE void defer_pair(const Layout& s, const DeferredPair<T>& x, Work<T>& w) {
  w.deferred[w.ndeferred++] = x;
  w.deferred_slots += pair_slots(kind_of_pair(s, x.pair));
}
// (T.18)  whether a contact of a deferred pair may close under the motions V
template <class T, class P>
FB_FN bool may_close(const Model<T, P>& m, const DeferredPair<T>& k, const Motion<T>* V,
                     const Work<T>& w) {
  const PairAt<T> x = pair_at(m.s, k.pair, w);
  const Motion<T> still = zero_motion<T>();
  const T speed =
      closing_speed(m, x, k.far, x.la > 0 ? V[x.la] : still, x.lb > 0 ? V[x.lb] : still, w);
  return any(k.near & !(speed * m.theta.dt[0] < k.gap));
}

}  // namespace fb::FB_ISA
