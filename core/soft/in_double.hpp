// Lanes in single precision whose minimum was not found are finished in double precision, one by one.
#pragma once
#include "core/contact/solve.hpp"
#include "core/soft/newton.hpp"

namespace fb::FB_ISA {

// lane k of a problem, with the lanes' own tables of integers
template <class T, class S>
FB_FN void open_lane(const SoftWork<T>& f, int k, SoftWork<S>& to) {
  const auto copy = [&](const T* from, int n, S* out) {
    for (int i = 0; i < n; ++i) out[i] = number_of<S>(from[i], k);
  };
  const int n = f.M.p.n;
  to.ngroup = f.ngroup;
  to.nrow = f.nrow;
  to.touched = true;
  to.dof = f.dof;
  to.place = f.place;
  to.M.p = f.M.p;
  to.A.p = f.A.p;
  to.H.p = f.H.p;
  copy(f.M.value, f.M.p.start[n], to.M.value);
  copy(f.M.diagonal, n, to.M.diagonal);
  copy(f.smooth, n, to.smooth);
  copy(f.warm, f.nwarm, to.warm);
  for (int g = 0; g < f.ngroup; ++g) {
    const SoftGroup<T>& e = f.group[g];
    SoftGroup<S>& o = to.group[g];
    o.block.kind = e.block.kind;
    o.block.rows = e.block.rows;
    o.block.root = e.block.root;
    o.block.D = number_of<S>(e.block.D, k);
    o.block.loss = number_of<S>(e.block.loss, k);
    copy(e.block.mu, e.block.rows - 1, o.block.mu);
    copy(e.y0, e.block.rows, o.y0);
    copy(f.J + e.entry, e.ndof * e.block.rows, to.J + e.entry);
    o.row = e.row;
    o.dof = e.dof;
    o.ndof = e.ndof;
    o.entry = e.entry;
    o.block_at = e.block_at;
    o.place = e.place;
  }
}
// from the motion without rows to the minimum
template <class S>
FB_FN SoftOutcome<S> solve_lane(SoftWork<S>& f) {
  const int n = f.M.p.n;
  for (int e = 0; e < f.M.p.start[n]; ++e) f.A.value[e] = f.M.value[e];
  for (int d = 0; d < n; ++d) {
    f.A.diagonal[d] = f.M.diagonal[d];
    f.a[d] = without_tangent(f.smooth[d]);
  }
  factor(f.A);
  solve(f.A, f.a);
  for (int d = 0; d < n; ++d) f.a[d] = without_tangent(f.a[d]);
  return soft_newton(f, true);
}
template <class T>
FB_FN void finish_in_double(Work<T>& w, SoftOutcome<T>& out) {
  using S = WorldNumber<T>;
  SoftWork<T>& f = w.soft;
  SoftWork<S>& one = w.soft_one;
  const int n = f.M.p.n;
  const auto back = [&](const S* from, int count, int k, T* to) {
    for (int i = 0; i < count; ++i) set_world_number(to[i], k, from[i]);
  };
  for (int k = 0; k < kLanes<T>; ++k) {
    if (!mask_lane(out.left, k)) continue;
    open_lane(f, k, one);
    const SoftOutcome<S> found = solve_lane(one);
    set_mask_lane(out.left, k, found.left);
    set_world_number(out.residual, k, primal(found.residual));
    set_world_number(out.iterations, k, primal(found.iterations));
    back(one.a, n, k, f.a);
    back(one.y, f.nrow, k, f.y);
    back(one.f, f.nrow, k, f.f);
    back(one.H.value, f.H.p.start[n], k, f.H.value);
    back(one.H.diagonal, n, k, f.H.diagonal);
  }
}

}  // namespace fb::FB_ISA
