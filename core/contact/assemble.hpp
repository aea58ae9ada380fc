// From row groups to the row problem of a step, and from its cotangents back to them.
// Proof: docs/derivations/contact.md.
#pragma once
#include "core/contact/contact.hpp"
#include "core/contact/equality.hpp"
#include "core/contact/friction.hpp"
#include "core/contact/limit.hpp"
#include "core/contact/rim.hpp"
#include "core/contact/tendon.hpp"

namespace fb::FB_ISA {

// (T.4)  the groups that matter in this step: equalities, dry friction, limits, contacts
template <class T, class P>
FB_FN void collect_rows(const Model<T, P>& m, const Options<Real<T>>& o, const T* q, Mask<T> alive,
                        Work<T>& w) {
  w.ngroup = 0;
  w.overflow = Mask<T>(false);
  for_row_groups<T>([&](auto rows) { rows.collect(m, o, q, alive, w); });
}

// data of any group; rows that are off in a lane become zero rows held at zero
template <class T, class P>
FB_FN void group_data(const Model<T, P>& m, const Options<Real<T>>& o, int index, const T* q,
                      const Work<T>& w, RowData<T>& e) {
  const RowGroup& k = w.group[index];
  e.ncoef = e.cone = 0;
  for (int i = 0; i < 3; ++i) e.F[0][i] = e.F[1][i] = zero_force<T>();
  e.mu = e.lead = T(0);
  with_row_group<T>(k.kind, [&](auto rows) { rows.data(m, o, index, q, w, e); });
  const Mask<T> active = w.geometry[index].active;
  if (all(active)) return;
  const T zero = T(0);
  for (int i = 0; i < k.rows; ++i) {
    for (int side = 0; side < 2; ++side)
      e.F[side][i] = select(active, e.F[side][i], zero_force<T>());
    e.b[i] = select(active, e.b[i], zero);
    e.lo[i] = select(active, e.lo[i], zero);
    e.hi[i] = select(active, e.hi[i], zero);
    e.rest[i] = select(active, e.rest[i], zero);
  }
  for (int c = 0; c < e.ncoef; ++c) e.coef[c] = select(active, e.coef[c], zero);
  e.mu = select(active, e.mu, zero);
  e.lead = select(active, e.lead, zero);
}

// the rows of all groups in the solver's order: b = J v* + beta, bounds, friction, and g = L^-1 J'
template <class T, class P>
FB_FN void fill_rows(const Model<T, P>& m, const Options<Real<T>>& o, const T* q, Work<T>& w) {
  // the velocities of the beginning matter where dry friction may hold a robot that stands
  const bool begins = m.s.nfriction > 1;
  for (int p = 0; p < w.ngroup; ++p) {
    const RowGroup& k = w.group[w.sorted[p]];
    RowData<T>& e = w.data[w.sorted[p]];
    group_data(m, o, w.sorted[p], q, w, e);
    for (int i = 0; i < k.rows; ++i) {
      const int r = k.row + i;
      w.b[r] = e.b[i] + free_row_velocity(w, k, e, i);
      if (begins) w.before[r] = e.b[i] + begin_row_velocity(w, k, e, i);
      w.lo[r] = e.lo[i];
      w.hi[r] = e.hi[i];
      w.R[r] = e.R[i];
      w.weight[r] = e.weight;
      w.mu[r] = e.mu;
      w.rest[r] = e.rest[i];
      w.R0[r] = e.R0[i];
      w.lead[r] = i == 0 ? e.lead : T(0);
      w.cone[r] = 0;
      w.together[r] = e.cone ? 1 : 0;
    }
    if (!e.cone) w.together[k.row] = k.rows;
    w.cone[k.row] = e.cone == kConeRows;
    if (e.cone == kRimsOfCone && k.rows == 3) w.mu[k.row + 1] = w.mu[k.row + 2] = e.roll;
    half_solve(m.s, w, k, e);
  }
  w.problem.options = o;
  w.problem.ndof = m.s.nv;
  w.problem.before = begins ? w.before : nullptr;
}

// A = J Mh^-1 J' + R, island by island
template <class T>
FB_FN void assemble_rows(const Layout& s, Work<T>& w) {
  int from = 0;
  for_islands(w.problem, [&](const Island& is) {
    int to = from;
    while (to < w.ngroup && w.group[w.sorted[to]].row < is.first + is.n) ++to;
    assemble_island(s, w, from, to, is);
    from = to;
  });
}

// the adjoint of the rows' data: given impulses, z and rates, add to links, dofs and parameters
template <class T, class P>
FB_FN void rows_adjoint(const Model<T, P>& m, const Options<Real<T>>& o, const StepPoint<T>& x,
                        const RowBars<T>& bars, Work<T>& w, T* q_tan) {
  for (int i = 0; i < w.ngroup;) {
    const RowGroup& k = w.group[i];
    GroupSpan span{i, i + 1};
    while (span.to < w.ngroup && w.group[span.to].kind == k.kind &&
           w.group[span.to].source == k.source)
      ++span.to;
    with_row_group<T>(k.kind, [&](auto rows) { rows.adjoint(m, o, span, x, bars, w, q_tan); });
    i = span.to;
  }
}

}  // namespace fb::FB_ISA
