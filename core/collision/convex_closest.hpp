// The closest or deepest points of two convex shapes: the slot of a search, and of all directions of
// about the same overlap the best.  For one world at a time.  Proof: docs/derivations/convex.md.
#pragma once
#include "core/collision/convex_polish.hpp"

namespace fb::FB_ISA {

// the largest extent of two shapes
template <class R>
FB_INLINE R pair_size(const ConvexShapes<R>& w) {
  return max(extent_of(w.a), extent_of(w.b)) * R(2);
}
// a search in progress, loose at first where shapes are curved
template <class R>
struct Search {
  const ConvexShapes<R>& shapes;
  ConvexPair<R> pair;
  R reach, size;
  bool curved;
  SearchLevel<R> level;
  SearchResult<R> result;
  FB_INLINE Search(const ConvexShapes<R>& w, R far)
      : shapes(w),
        pair{w.a, w.b, zero3<R>(), 0, 0},
        reach(far + core_radius(w.a) + core_radius(w.b)),
        size(pair_size(w)),
        curved(is_curved(w.a) || is_curved(w.b)) {}
  // false if the shapes are farther apart than asked for
  FB_INLINE bool run(bool tight) {
    level = search_level<R>(curved, tight);
    return search(pair, reach, size, level, result) != Found::kFar;
  }
};
// a slot, if it is better than the one in hand; false if it is no least overlap
template <class R>
FB_FN bool take_slot(const Search<R>& s, const ConvexSlot<R>& slot, Closest<R>& out) {
  // of equals the first stands, since later ones may be all but singular
  if (!out.sure || slot.phi > out.slot.phi + s.size * kSmallMiss<R>) out.slot = slot;
  out.sure = true;
  return is_least_overlap(s.shapes, slot.record, slot.state);
}
// the slot of a direction with its supports; false if it is not accepted, or no least overlap
template <class R>
FB_FN bool take_search(const Search<R>& s, const SearchResult<R>& from, Closest<R>& out) {
  SearchLevel<R> level = s.level;
  level.near = R(0.05);
  ConvexSlot<R> slot;
  return polish(s.shapes, from, s.size, level, slot) && take_slot(s, slot, out);
}
// whether a separation of the cores is better than the slot in hand by more than a number
template <class R>
FB_INLINE bool is_better(const Search<R>& s, R g, R by, const Closest<R>& out) {
  const R padding = core_radius(s.shapes.a) + core_radius(s.shapes.b);
  return g - padding > out.slot.phi + by;
}
// the slot of a direction alone, by the supports around it, nearer ones as long as the direction is better
template <class R>
FB_FN void take_direction(Search<R>& s, Vec3<R> n, R g, Closest<R>& out) {
  SearchLevel<R> level = s.level;
  level.near = R(0.05);
  SearchResult<R> from;
  from.n = n;
  from.g = g;
  R tilt(1e-3);
  for (int k = 0; k < (kIsDouble<R> ? 3 : 1); ++k, tilt = tilt * R(1e-2)) {
    from.simplex = supports_around(s.pair, n, tilt);
    ConvexSlot<R> slot;
    if (polish(s.shapes, from, s.size, level, slot)) take_slot(s, slot, out);
    if (out.sure && !is_better(s, g, s.size * kSmallMiss<R>, out)) return;
  }
}
// (CV.20)  the slots along the normals of faces that look along a slot's, and across axes that lie across
// it: kinks of the overlap, where it may be less by so little that the search does not see it
template <class R>
FB_FN void take_flat_sides(Search<R>& s, Closest<R>& out) {
  const Vec3<R> n = out.slot.state.n;
  for (int k = 0; k < 2; ++k) {
    const Convex<R>& c = k == 0 ? s.shapes.a : s.shapes.b;
    const FlatSide<R> side = flat_side(c, k == 0 ? n : -n);
    if (side.flat == Flat::kNone) continue;
    const Vec3<R> axis = column(c.R, 2), across = n - axis * dot(axis, n);
    const Vec3<R> next = side.flat == Flat::kAxis ? across * (R(1) / max(norm(across), R(1e-30)))
                                                  : side.n * R(k == 0 ? 1 : -1);
    const Vec3<R> turn = next - n;
    if (dot(turn, turn) < R(kIsDouble<R> ? 1e-24 : 1e-10)) continue;
    const R g = -overlap_along(s.pair, next);
    if (is_better(s, g, -s.size * R(1e-5), out)) take_direction(s, next, g, out);
  }
}
// the slots of a few tied directions as well; false if the best of all may not be the least overlap
template <class R>
FB_FN bool settles_ties(Search<R>& s, Closest<R>& out) {
  const bool touch = out.slot.phi < s.size * R(kIsDouble<R> ? 1e-7 : 1e-5);
  if (s.result.found != Found::kOverlap) {
    if (s.curved && touch) take_flat_sides(s, out);
    return true;
  }
  if (s.result.crowded) return false;
  if (!s.curved) return true;
  // each face of the search's polytope bounds the overlap along the directions that it stands for
  R open = R(-1e30);
  if (!is_least_overlap(s.shapes, out.slot.record, out.slot.state)) open = s.result.g;
  for (int k = 0; k < s.result.ties; ++k) {
    SearchResult<R> next;
    next.n = s.result.tie[k].n;
    next.g = s.result.tie[k].gap;
    next.simplex = s.result.tie[k].simplex;
    if (!take_search(s, next, out)) open = max(open, next.g);
  }
  take_flat_sides(s, out);
  return !is_better(s, open, s.size * kSmallMiss<R>, out) &&
         is_least_overlap(s.shapes, out.slot.record, out.slot.state);
}
// (CV.20)  curved shapes that overlap along several directions by about as much: the slot of the least
// overlap of all climbs that end in one.  Where none does, the search's direction is the best of them
template <class R>
FB_OUTLINE void deepest_slot(Search<R>& s, Closest<R>& out) {
  const SearchLevel<R> tight = search_level<R>(true, true);
  const GjkLimits<R> limit{R(1e30), tight.gjk, tight.slack * s.size, tight.thin * s.size, s.size};
  const ClimbStarts<R> starts = climb_starts(s.pair, s.result.n, s.result.tie, s.result.ties);
  R best = R(1e30);
  const SearchResult<R> first = s.result;
  for (int trial = 0; trial < starts.n; ++trial) {
    SearchResult<R> next = first;
    next.n = starts.at[trial];
    next.g = -climb(s.pair, next.n);
    next.simplex = supports_around(s.pair, next.n, R(1e-3));
    take_direction(s, next.n, next.g, out);
    const Depth<R> d = depth_from(s.pair, next.n, s.size, limit);
    if (d.known) {
      SearchResult<R> moved = first;
      moved.n = d.n;
      moved.g = d.gap;
      moved.simplex = d.simplex;
      take_search(s, moved, out);
      if (!(moved.g < next.g)) next = moved;
    }
    if (-next.g < best) {
      best = -next.g;
      s.result = next;
    }
  }
  if (out.sure) take_flat_sides(s, out);
  // a climb may end where no record is accepted
  if (out.sure && !is_better(s, s.result.g, s.size * kSmallMiss<R>, out)) return;
  ConvexSlot<R> slot;
  const bool sure = nearest_record(s.shapes, s.result, s.size, s.level.near, slot);
  // along its normal the shapes overlap by no more than what its points miss besides
  if (out.sure && !(slot.phi - past_of(s.shapes, slot.record, slot.state) > out.slot.phi)) return;
  out.slot = slot;
  out.sure = sure;
}

// (CV.15)  the slot of signed distance of a search that has run.  A tight search comes second, where
// the polish of a loose one is not accepted
template <class R>
FB_OUTLINE Closest<R> polished(Search<R>& s) {
  Closest<R> out;
  out.found = Found::kApart;
  out.sure = polish(s.shapes, s.result, s.size, s.level, out.slot);
  if (out.sure && settles_ties(s, out)) return out;
  if (s.curved && !out.sure) {
    if (!s.run(true)) {
      out.found = Found::kFar;
      return out;
    }
    out.sure = polish(s.shapes, s.result, s.size, s.level, out.slot);
    if (out.sure && settles_ties(s, out)) return out;
  }
  // of two polytopes the search leaves one direction, unless one of its faces degenerates
  const bool overlap = s.result.found == Found::kOverlap, many = s.curved || s.result.crowded;
  if (!overlap || !many)
    out.sure = nearest_record(s.shapes, s.result, s.size, s.level.near, out.slot);
  if (overlap && (many || !out.sure)) deepest_slot(s, out);
  return out;
}
// the slot of signed distance
template <class R>
FB_FN Closest<R> closest_contact(const ConvexShapes<R>& w, R far) {
  Search<R> s(w, far);
  if (s.run(false)) return polished(s);
  Closest<R> out;
  out.found = Found::kFar;
  return out;
}

}  // namespace fb::FB_ISA
