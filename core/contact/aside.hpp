// Contacts that the free motion leaves open wait without rows: most of them carry nothing, and rows cost
// more than a look at their gap.  One that the solve closes gets its rows, and the step is solved again.
// Proof: docs/derivations/contact.md.
#pragma once
#include "core/contact/contact.hpp"

namespace fb::FB_ISA {

// how often a lane is solved again with the contacts of links that touch, before all are taken in
inline constexpr int kMostGrowths = 2;

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
    w.group[at].before = -1;
    w.geometry[at] = w.aside_geometry[i];
    w.geometry[at].active = Mask<T>(false);
    if (count == 2) {
      w.group[at + 1] = rims_of(w.group[at], condim);
      w.geometry[at + 1] = w.geometry[at];
      ++w.nrim;
    }
  }
  for (int g = at; g < at + count; ++g) w.geometry[g].active = w.geometry[g].active | lanes;
  w.aside_geometry[i].active = w.aside_geometry[i].active & !lanes;
}
// what the solve has found, for the next one
template <class T>
FB_FN void keep_solution(Mask<T> grown, Work<T>& w) {
  SolveBefore<T>& k = w.last;
  const auto& x = w.solution;
  for (int r = 0; r < w.problem.nrow; ++r) {
    k.lam[r] = x.lam[r];
    k.D[r] = x.D[r];
    k.descent[r] = x.descent[r];
  }
  for (int i = 0; i < w.ngroup; ++i) w.group[i].before = w.group[i].row;
  k.residual = x.residual;
  k.factorisations = x.factorisations;
  k.spent = select(grown, x.factorisations, k.spent);
  k.unconverged = x.unconverged;
  k.grown = grown;
  k.growths += select(grown, T(1), T(0));
  k.any = true;
}
// the contacts of a deferred pair wait aside from here on
template <class T, class P>
FB_FN void resume_pair(const Model<T, P>& m, const Options<Real<T>>& o, const DeferredPair<T>& k,
                       Work<T>& w) {
  const PairAt<T> x = pair_at(m.s, k.pair, w);
  ContactPoint<T> point[kMaxSlots];
  collide_pair(m, x, k.near, k.far, w, point);
  for (int e = 0; e < pair_slots(kind_of_pair(m.s, k.pair)); ++e) {
    const Mask<T> on = k.near & matters(m, o, point[e], free_rate(x, point[e], w));
    if (any(on)) set_aside(contact_group(m.s, x, k.order, e), point[e], on, w);
  }
}
// those of which `closes` says so
template <class T, class P, class F>
FB_FN void resume_pairs(const Model<T, P>& m, const Options<Real<T>>& o, Work<T>& w, F&& closes) {
  int left = 0;
  for (int i = 0; i < w.ndeferred; ++i) {
    const DeferredPair<T> k = w.deferred[i];
    if (closes(k))
      resume_pair(m, o, k, w);
    else
      w.deferred[left++] = k;
  }
  w.ndeferred = left;
}
// contacts that the new velocity, or the one that moves positions, would close become groups, and with them
// all of their links; where that happens too often in a lane all of its contacts do.  True where there are
// new ones
template <class T, class P>
FB_FN bool wake_contacts(const Model<T, P>& m, const Options<Real<T>>& o, const T* v,
                         const T* moved, Work<T>& w) {
  if (w.naside + w.ndeferred == 0 || w.problem.nrow == 0) return false;
  link_twists(m.s, w, v, w.twist);
  if (moved != v) link_twists(m.s, w, moved, w.twist2);
  resume_pairs(m, o, w, [&](const DeferredPair<T>& k) {
    return may_close(m, k, w.twist, w) || (moved != v && may_close(m, k, w.twist2, w));
  });
  Mask<T>* touched = w.last.touched;
  for (int l = 0; l < m.s.nlink; ++l) touched[l] = Mask<T>(false);
  Mask<T> grown = Mask<T>(false);
  for (int i = 0; i < w.naside; ++i) {
    Mask<T> closes = closes_aside(m, i, w.twist, w);
    if (moved != v) closes = closes | closes_aside(m, i, w.twist2, w);
    grown = grown | closes;
    const int links[] = {w.aside[i].linkA, w.aside[i].linkB};
    for (int l : links) touched[l] = touched[l] | closes;
  }
  if (!any(grown)) return false;
  resume_pairs(m, o, w, [](const DeferredPair<T>&) { return true; });
  const Mask<T> all_of_them = grown & (w.last.growths >= T(Real<T>(kMostGrowths)));
  keep_solution(grown, w);
  for (int i = 0; i < w.naside; ++i) {
    // a link of the world joins nothing
    Mask<T> now = all_of_them;
    const int links[] = {w.aside[i].linkA, w.aside[i].linkB};
    for (int l : links)
      if (l > 0) now = now | touched[l];
    now = now & w.aside_geometry[i].active;
    if (any(now)) wake_contact(m, i, now, w);
  }
  return true;
}

}  // namespace fb::FB_ISA
