// The contacts that a step sees, world by world, compact.
#pragma once
#include "engine/world_block.hpp"

namespace fb::FB_ISA {

// contact i of the groups, or of those aside, which carry nothing: (gap, point, normal, force on B,
// torque on B about the point) in the world
template <class T, class P>
FB_FN void contact_numbers(const WorldBlock<T, P>& b, const RowGroup& group,
                           const RowGeometry<T>& c, const T* lam, int rows, T* y) {
  const Layout& s = b.m.s;
  Vec3<T> t1, t2;
  if (s.soft) {
    const Tangents<T> frame = contact_frame(b.m, group, c.n, b.w).t;
    t1 = frame.t1;
    t2 = frame.t2;
  } else {
    tangents(c.n, t1, t2);
  }
  Vec3<T> f = zero3<T>(), twist = zero3<T>();
  if (rows >= 1) f = c.n * lam[0];
  if (rows >= 3) f += t1 * lam[1] + t2 * lam[2];
  if (rows >= 4) twist = c.n * lam[3];
  if (rows == 6) twist += t1 * lam[4] + t2 * lam[5];
  const Vec3<T> p = c.p + origin_of(s, b.w, reference_link(group.linkA, group.linkB));
  const T out[kContactSize] = {c.phi, p.x, p.y, p.z,     c.n.x,   c.n.y,  c.n.z,
                               f.x,   f.y, f.z, twist.x, twist.y, twist.z};
  for (int e = 0; e < kContactSize; ++e) y[e] = out[e];
}
// those of some lanes in the step that was just run, in the order in which they were found
template <class T, class P>
FB_FN void write_contacts(const ContactsTask& t, const WorldBlock<T, P>& b,
                          const WorldsOf<T>& block, Mask<T> lanes) {
  using R = Real<T>;
  const Layout& s = b.m.s;
  const T h = T(b.m.theta.dt[0]);
  for (int k = 0; k < block.count(); ++k)
    if (mask_lane(lanes, k)) {
      t.count[block.at(k)] = 0;
      t.overflow[block.at(k)] = mask_lane(b.w.overflow, k);
    }
  const auto write = [&](const RowGroup& group, const RowGeometry<T>& c, int rows) {
    const Mask<T> on = lanes & c.active;
    if (!any(on)) return;
    T y[kContactSize];
    contact_numbers(b, group, c, b.w.solution.lam + group.row, rows, y);
    // impulses to forces
    for (int e = 7; e < kContactSize; ++e) y[e] = y[e] / h;
    for (int k = 0; k < block.count(); ++k) {
      if (!mask_lane(on, k)) continue;
      const long world = block.at(k), at = world * s.max_contacts + t.count[world]++;
      R* numbers = static_cast<R*>(t.numbers) + at * kContactSize;
      for (int e = 0; e < kContactSize; ++e) numbers[e] = lane(y[e], k) + R(0);
      t.pair[at] = group.source;
    }
  };
  int a = 0;
  for (int i = 0; i < b.w.ngroup; ++i) {
    const RowGroup& group = b.w.group[i];
    if (group.kind != kContactRows) continue;
    for (; a < b.w.naside && b.w.aside[a].order < group.order; ++a)
      write(b.w.aside[a], b.w.aside_geometry[a], 0);
    // under the hard law rims are a group of their own
    int rows = group.rows;
    for (int j = i + 1; j < b.w.ngroup && b.w.group[j].kind == kRimRows; ++j)
      rows += b.w.group[j].rows;
    write(group, b.w.geometry[i], rows);
  }
  for (; a < b.w.naside; ++a) write(b.w.aside[a], b.w.aside_geometry[a], 0);
}

// a step that is hit shows the contacts of its first hit; one lane alone
template <class T, class P>
FB_FN void show_hit(WorldBlock<T, P>& b, Mask<T> lane) {
  const StepPoint<T> at = step_point<T>(b.m.s, b.x, b.u, velocity_of(b.m.s, b.x1));
  step_through_hits(b.m, b.o, at, lane, b.w);
  if (b.w.hit.count == 0) return;
  const Mask<T> overflow = b.w.overflow;
  const StepPart<T>& part = b.w.hit.part[0];
  hit_velocity(lane_model(b.m, b.w.hit), b.o, part, part.v_leave, b.w);
  b.w.overflow = overflow;
}

template <class T, class P>
FB_FN void run_contacts(const ContactsTask& t, long index, char* workspace) {
  WorldBlock<T, P> b;
  b.open(t, index, workspace, false);
  // all of them are shown
  b.w.defers = false;
  const WorldsOf<T> block(t, index);
  const Layout& s = b.m.s;
  load(block, t.x, state_size(s), b.x);
  if (s.nu > 0) load(block, t.u, s.nu, b.u);
  // lanes whose rows together exceed the capacity, or that may be hit, are evaluated in parts
  const auto evaluate = [&](Mask<T> only, bool alone) {
    if (s.soft)
      soft_accelerations(b.m, b.o, b.x, b.u, only, b.w);
    else
      step_velocity(b.m, b.o, b.x, b.u, only, velocity_of(s, b.x1), b.w);
    const bool comes = !s.soft && b.w.hit.ncoming > 0;
    if (!alone && (comes || any(b.w.overflow))) return true;
    if (comes) show_hit(b, only);
    write_contacts(t, b, block, only);
    return false;
  };
  const bool alone = kLanes<T> == 1;
  if (evaluate(Mask<T>(true), alone)) for_parts<T>(evaluate);
}

}  // namespace fb::FB_ISA
