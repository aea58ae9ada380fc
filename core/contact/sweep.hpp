// Near pairs of a model whose pairs go by rule: boxes around the geoms of each world, sorted along one
// axis, each compared with those that begin before it ends.  Nothing is kept from step to step, and
// pairs are visited in the order of the list that they would make.  Proof: docs/derivations/contact.md.
#pragma once
#include "core/model/pair.hpp"
#include "core/number/pack.hpp"
#include "core/workspace.hpp"

namespace fb::FB_ISA {

// a sphere that holds a geom and all that may matter around it; size: of the numbers that its centre
// was summed from
template <class T>
struct GeomBall {
  Vec3<T> centre;
  T radius, size;
};
template <class T>
FB_INLINE T largest_part(Vec3<T> x) {
  return max(abs(x.x), max(abs(x.y), abs(x.z)));
}
// boxes are larger by this share of their numbers, which covers rounding to float
inline constexpr double kBoxSlack = 1e-6;
// no box ends farther out, and one that begins there meets none
inline constexpr float kFarthest = 3e38f, kNowhere = __builtin_huge_valf();

// numbers in ascending order of their bytes from `first` to `last`; equal ones keep their places
FB_FN void sort_words(int n, int first, int last, SweepWord*& word, SweepWord*& other) {
  for (int byte = first; byte <= last; ++byte) {
    int start[257] = {0};
    const int shift = 8 * byte;
    for (int i = 0; i < n; ++i) ++start[((word[i] >> shift) & 255) + 1];
    if (start[((word[0] >> shift) & 255) + 1] == n) continue;
    for (int e = 0; e < 256; ++e) start[e + 1] += start[e];
    for (int i = 0; i < n; ++i) other[start[(word[i] >> shift) & 255]++] = word[i];
    SweepWord* const t = word;
    word = other;
    other = t;
  }
}
// words whose order is that of the numbers
FB_INLINE unsigned ordered_word(float x) {
  unsigned u;
  __builtin_memcpy(&u, &x, sizeof(u));
  return u >> 31 ? ~u : u | 0x80000000u;
}

// (T.14)  boxes of the geoms in every lane; where numbers are not finite a box that meets none
template <class T, class Ball>
FB_FN void place_boxes(const Layout& s, Ball&& ball, SweepWork& b) {
  const int n = s.nswept;
  for (int i = 0; i < n; ++i) {
    const GeomBall<T> x = ball(s.swept_geom[i]);
    const T r = x.radius + (x.size + x.radius) * Real<T>(kBoxSlack);
    const T c[3] = {x.centre.x, x.centre.y, x.centre.z};
    for (int k = 0; k < kLanes<T>; ++k) {
      float* box = b.box + size_t(k) * 6 * n + i;
      bool finite = true;
      for (int e = 0; e < 3; ++e) {
        const float low = float(lane(c[e] - r, k)), high = float(lane(c[e] + r, k));
        finite = finite && low <= high;
        box[e * n] = low > -kFarthest ? low : -kFarthest;
        box[(3 + e) * n] = high < kFarthest ? high : kFarthest;
      }
      for (int e = 0; e < 3 && !finite; ++e) {
        box[e * n] = kNowhere;
        box[(3 + e) * n] = -kNowhere;
      }
    }
  }
}
// the axis along which the boxes of a lane spread most
FB_FN int widest_axis(int n, const float* box) {
  int best = 0;
  double most = -1;
  for (int e = 0; e < 3; ++e) {
    double sum = 0, squares = 0;
    int count = 0;
    for (int i = 0; i < n; ++i) {
      const double x = 0.5 * (double(box[e * n + i]) + double(box[(3 + e) * n + i]));
      const bool counts = x > -1e15 && x < 1e15;
      count += counts;
      sum += counts ? x : 0;
      squares += counts ? x * x : 0;
    }
    const double spread = count > 0 ? squares - sum * sum / count : 0;
    if (spread > most) {
      best = e;
      most = spread;
    }
  }
  return best;
}
// boxes of a lane along that axis by where they begin; behind the last some that meet none
FB_FN void sort_boxes(const Layout& s, int lane, SweepWork& b) {
  const int n = s.nswept, stride = n + kPack<float>;
  const float* box = b.box + size_t(lane) * 6 * n;
  const int axis = widest_axis(n, box);
  for (int i = 0; i < n; ++i)
    b.word[i] = SweepWord(ordered_word(box[axis * n + i])) << 32 | SweepWord(i);
  sort_words(n, 4, 7, b.word, b.other);
  for (int e = 0; e < 3; ++e) {
    const float *low = box + (axis + e) % 3 * n, *high = low + 3 * n;
    float *low_out = b.sorted + e * stride, *high_out = b.sorted + (3 + e) * stride;
    for (int i = 0; i < n; ++i) {
      const int from = int(b.word[i] & 0xffffffffu);
      low_out[i] = low[from];
      high_out[i] = high[from];
    }
    for (int i = n; i < stride; ++i) {
      low_out[i] = kNowhere;
      high_out[i] = -kNowhere;
    }
  }
  for (int i = 0; i < n; ++i) b.geom[i] = s.swept_geom[b.word[i] & 0xffffffffu];
}

// first geoms of the pairs that are looked for
struct GeomRange {
  int from, to;
};
// false where there is no room
FB_INLINE bool add_found(const Layout& s, int a, int b, GeomRange range, SweepWork& w) {
  const int ta = s.geom_type[a], tb = s.geom_type[b];
  const bool swap = tb < ta || (tb == ta && b < a);
  const int first = swap ? b : a, second = swap ? a : b;
  if (first < range.from || first >= range.to || !may_touch(s, first, second)) return true;
  if (w.nfound == w.capacity) return false;
  w.found[w.nfound++] = SweepWord(first) * SweepWord(s.ngeom) + SweepWord(second);
  return true;
}
// pairs whose boxes meet in one lane
FB_FN bool sweep_lane(const Layout& s, int lane, GeomRange range, SweepWork& b) {
  using V = Pack<float>;
  constexpr int W = kPack<float>;
  sort_boxes(s, lane, b);
  const int n = s.nswept, stride = n + W;
  const float* low[3] = {b.sorted, b.sorted + stride, b.sorted + 2 * stride};
  const float* high[3] = {b.sorted + 3 * stride, b.sorted + 4 * stride, b.sorted + 5 * stride};
  for (int i = 0; i < n; ++i) {
    const float end = high[0][i];
    const V l1(low[1][i]), h1(high[1][i]), l2(low[2][i]), h2(high[2][i]);
    for (int j = i + 1; j < n && low[0][j] <= end; j += W) {
      const Mask<V> meet = (pack_at(low[0] + j) <= V(end)) & (pack_at(low[1] + j) <= h1) &
                           (pack_at(high[1] + j) >= l1) & (pack_at(low[2] + j) <= h2) &
                           (pack_at(high[2] + j) >= l2);
      if (!any(meet)) continue;
      for (int e = 0; e < W; ++e)
        if (mask_lane(meet, e) && !add_found(s, b.geom[i], b.geom[j + e], range, b)) return false;
    }
  }
  return true;
}
// pairs of all lanes with first geoms in a range, sorted; false where there is no room for them
template <class T, class Near>
FB_FN bool find_pairs(const Layout& s, Mask<T> alive, GeomRange range, Near&& near, SweepWork& b) {
  b.nfound = 0;
  for (int p = 0; p < s.nplane; ++p) {
    const int a = s.swept_plane[p];
    if (a < range.from || a >= range.to) continue;
    for (int i = 0; i < s.nswept; ++i)
      if (may_touch(s, a, s.swept_geom[i]) && any(alive & near(a, s.swept_geom[i])) &&
          !add_found(s, a, s.swept_geom[i], range, b))
        return false;
  }
  for (int k = 0; k < kLanes<T>; ++k)
    if (mask_lane(alive, k) && !sweep_lane(s, k, range, b)) return false;
  if (b.nfound == 0) return true;
  int last = 0;
  for (SweepWord most = SweepWord(s.ngeom) * SweepWord(s.ngeom); most >> (8 * (last + 1)) > 0;)
    ++last;
  sort_words(b.nfound, 0, last, b.found, b.other);
  return true;
}
// (T.14)  visit the pairs that may be near in some lane, in their order.  ball(g): of a geom, in the
// world; near(plane, g): whether the two may be near.  Where there are too many, in parts
template <class T, class Ball, class Near, class F>
FB_FN void for_near_pairs(const Layout& s, Mask<T> alive, Ball&& ball, Near&& near, SweepWork& b,
                          F&& visit) {
  place_boxes<T>(s, ball, b);
  for (GeomRange range{0, s.ngeom}; range.from < s.ngeom; range = {range.to, s.ngeom}) {
    while (!find_pairs<T>(s, alive, range, near, b))
      range.to = range.from + (range.to - range.from + 1) / 2;
    for (int i = 0; i < b.nfound; ++i) {
      if (i > 0 && b.found[i] == b.found[i - 1]) continue;
      const int first = int(b.found[i] / SweepWord(s.ngeom));
      const int second = int(b.found[i] % SweepWord(s.ngeom));
      int pair = pair_of_geoms(s, first, second);
      visit(pair);
      // two explicit pairs may have the same geoms
      for (++pair; pair < s.npair; ++pair) {
        if (s.pair_geom1[pair] != first || s.pair_geom2[pair] != second) break;
        visit(pair);
      }
    }
  }
}

}  // namespace fb::FB_ISA
