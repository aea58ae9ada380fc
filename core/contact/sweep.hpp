// Near pairs of a model whose pairs go by rule: boxes around the geoms of each world are compared, those
// of many moving geoms sorted along one axis.  Nothing is kept from step to step, and pairs are visited in
// the order of the list that they would make.  Proof: docs/derivations/contact.md.
#pragma once
#include "core/model/pair.hpp"
#include "core/number/pack.hpp"
#include "core/workspace.hpp"

namespace fb::FB_ISA {

// a box along the world's axes that holds a geom and all that may matter around it; size: of the numbers
// that its centre was summed from
template <class T>
struct GeomBox {
  Vec3<T> centre, half;
  T size;
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

// rows of boxes have room for a whole pack behind the last
FB_INLINE int box_stride(const Layout& s) { return s.nswept + kPack<float>; }
// (T.14)  boxes of the geoms in every lane, and some behind the last that meet none; so do those whose
// numbers are not finite
template <class T, class Box>
FB_FN void place_boxes(const Layout& s, Box&& around, SweepWork& b) {
  const int n = s.nswept, stride = box_stride(s);
  for (int i = 0; i < stride; ++i) {
    const GeomBox<T> x = around(s.swept_geom[i < n ? i : 0]);
    const T c[3] = {x.centre.x, x.centre.y, x.centre.z};
    const T half[3] = {x.half.x, x.half.y, x.half.z};
    const T slack = (x.size + largest_part(x.half)) * Real<T>(kBoxSlack);
    for (int k = 0; k < kLanes<T>; ++k) {
      float* box = b.box + size_t(k) * 6 * stride + i;
      bool finite = i < n;
      for (int e = 0; e < 3; ++e) {
        const T r = half[e] + slack;
        const float low = float(lane(c[e] - r, k)), high = float(lane(c[e] + r, k));
        finite = finite && low <= high;
        box[e * stride] = low > -kFarthest ? low : -kFarthest;
        box[(3 + e) * stride] = high < kFarthest ? high : kFarthest;
      }
      for (int e = 0; e < 3 && !finite; ++e) {
        box[e * stride] = kNowhere;
        box[(3 + e) * stride] = -kNowhere;
      }
    }
  }
}
// the axis along which the boxes of a lane spread most
FB_FN int widest_axis(int n, int stride, const float* box) {
  int best = 0;
  double most = -1;
  for (int e = 0; e < 3; ++e) {
    double sum = 0, squares = 0;
    int count = 0;
    for (int i = 0; i < n; ++i) {
      const double x = 0.5 * (double(box[e * stride + i]) + double(box[(3 + e) * stride + i]));
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
// boxes of a lane along that axis by where they begin, and those behind the last
FB_FN void sort_boxes(const Layout& s, const float* box, SweepWork& b) {
  const int n = s.nswept, stride = box_stride(s), axis = widest_axis(n, stride, box);
  for (int i = 0; i < n; ++i)
    b.word[i] = SweepWord(ordered_word(box[axis * stride + i])) << 32 | SweepWord(i);
  sort_words(n, 4, 7, b.word, b.other);
  for (int e = 0; e < 6; ++e) {
    const float* from = box + ((axis + e) % 3 + (e < 3 ? 0 : 3)) * stride;
    float* to = b.sorted + e * stride;
    for (int i = 0; i < n; ++i) to[i] = from[b.word[i] & 0xffffffffu];
    for (int i = n; i < stride; ++i) to[i] = from[i];
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
// moving geoms from which on sorting pays
inline constexpr int kManyMoving = 128;
// pairs whose boxes meet in one lane: each moving geom with all behind it; among many, each geom with
// those that begin before it ends
FB_FN bool sweep_lane(const Layout& s, int lane, GeomRange range, SweepWork& b) {
  using V = Pack<float>;
  constexpr int W = kPack<float>;
  const int n = s.nswept, stride = box_stride(s);
  const bool sorted = s.nmoving > kManyMoving;
  const float* low = b.box + size_t(lane) * 6 * stride;
  if (sorted) {
    sort_boxes(s, low, b);
    low = b.sorted;
  }
  const float* high = low + 3 * stride;
  const int* geom = sorted ? b.geom : s.swept_geom;
  for (int i = 0, count = sorted ? n : s.nmoving; i < count; ++i) {
    const float end = high[i];
    const V l0(low[i]), l1(low[stride + i]), l2(low[2 * stride + i]);
    const V h0(end), h1(high[stride + i]), h2(high[2 * stride + i]);
    for (int j = i + 1; j < n && !(sorted && low[j] > end); j += W) {
      const float *l = low + j, *h = high + j;
      const Mask<V> meet = (pack_at(l) <= h0) & (pack_at(h) >= l0) & (pack_at(l + stride) <= h1) &
                           (pack_at(h + stride) >= l1) & (pack_at(l + 2 * stride) <= h2) &
                           (pack_at(h + 2 * stride) >= l2);
      if (!any(meet)) continue;
      for (int e = 0; e < W; ++e)
        if (mask_lane(meet, e) && !add_found(s, geom[i], geom[j + e], range, b)) return false;
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
// (T.14)  visit the pairs that may be near in some lane, in their order.  around(g): the box of a geom, in
// the world; near(plane, g): whether the two may be near.  Where there are too many, in parts
template <class T, class Box, class Near, class F>
FB_FN void for_near_pairs(const Layout& s, Mask<T> alive, Box&& around, Near&& near, SweepWork& b,
                          F&& visit) {
  place_boxes<T>(s, around, b);
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
