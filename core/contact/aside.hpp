// Contacts that the free motion leaves open wait without rows: most of them carry nothing, and rows cost
// more than a look at their gap.  One that the solve closes gets its rows, and the step is solved again.
// Proof: docs/derivations/contact.md.
#pragma once
#include "core/contact/contact.hpp"

namespace fb::FB_ISA {

// (T.15)  lanes in which a contact that waits would be closed by the velocity whose twists are V
template <class T, class P>
FB_INLINE Mask<T> closes_aside(const Model<T, P>& m, int i, const Motion<T>* V, const Work<T>& w) {
  const RowGroup& k = w.aside[i];
  const RowGeometry<T>& x = w.aside_geometry[i];
  const Vec3<T> O = origin_of(m.s, w, reference_link(k.linkA, k.linkB));
  T rate = T(0);
  if (k.linkA > 0)
    rate -= dot(V[k.linkA], point_force(x.p + (O - origin_of(m.s, w, k.linkA)), x.n));
  if (k.linkB > 0)
    rate += dot(V[k.linkB], point_force(x.p + (O - origin_of(m.s, w, k.linkB)), x.n));
  return x.active & (x.phi + rate * T(m.theta.dt[0]) <= T(0));
}

// room for `count` groups at `at`, those behind it move on
template <class T>
FB_FN void open_groups(int at, int count, Work<T>& w) {
  for (int i = w.ngroup - 1; i >= at; --i) {
    w.group[i + count] = w.group[i];
    w.geometry[i + count] = w.geometry[i];
  }
  for (int c = 0; c < w.hit.ncoming; ++c)
    if (w.hit.group[c] >= at) w.hit.group[c] += count;
  w.ngroup += count;
}
// contact i of those aside, with its rims, becomes a group of these lanes: at its place among the others,
// which other lanes may have given it already
template <class T, class P>
FB_FN void wake_contact(const Model<T, P>& m, int i, Mask<T> lanes, Work<T>& w) {
  const RowGroup& k = w.aside[i];
  const int condim = condim_of_pair(m.s, k.source), count = condim > 3 ? 2 : 1;
  int at = w.ngroup;
  while (at > 0 && (w.group[at - 1].kind == kContactRows || w.group[at - 1].kind == kRimRows) &&
         w.group[at - 1].order >= k.order)
    --at;
  const bool there = at < w.ngroup && w.group[at].order == k.order;
  if (!there) {
    open_groups(at, count, w);
    w.group[at] = k;
    w.geometry[at] = w.aside_geometry[i];
    w.geometry[at].active = Mask<T>(false);
    if (count == 2) {
      w.group[at + 1] = rims_of(k, condim);
      w.geometry[at + 1] = w.geometry[at];
      ++w.nrim;
    }
  }
  for (int g = at; g < at + count; ++g) w.geometry[g].active = w.geometry[g].active | lanes;
  w.aside_geometry[i].active = w.aside_geometry[i].active & !lanes;
}
// contacts that the new velocity, or the one that moves positions, would close become groups; where that
// happens again in a lane all of its contacts do.  True where there are new ones
template <class T, class P>
FB_FN bool wake_contacts(const Model<T, P>& m, const T* v, const T* moved, Work<T>& w) {
  if (w.naside == 0 || w.problem.nrow == 0) return false;
  link_twists(m.s, w, v, w.twist);
  if (moved != v) link_twists(m.s, w, moved, w.twist2);
  const auto closes = [&](int i) {
    const Mask<T> now = closes_aside(m, i, w.twist, w);
    return moved == v ? now : now | closes_aside(m, i, w.twist2, w);
  };
  Mask<T> lanes = Mask<T>(false);
  for (int i = 0; i < w.naside; ++i) lanes = lanes | closes(i);
  if (!any(lanes)) return false;
  const Mask<T> again = lanes & w.woken;
  w.woken = w.woken | lanes;
  for (int i = 0; i < w.naside; ++i) {
    const Mask<T> now = closes(i) | (w.aside_geometry[i].active & again);
    if (any(now)) wake_contact(m, i, now, w);
  }
  return true;
}

}  // namespace fb::FB_ISA
