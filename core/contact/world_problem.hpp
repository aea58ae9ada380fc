// The rows of one lane as a problem of one world: half-solved rows become G, over the dofs that some
// row moves, leaves first.  Proof: docs/derivations/worlds.md.
#pragma once
#include "core/contact/rows.hpp"
#include "core/solver/world_rows.hpp"

namespace fb::FB_ISA {

// lane k of a number is set; its tangent is none
template <class T>
FB_INLINE void set_value_lane(T& x, int k, Real<T> value) {
  if constexpr (kTangent<T>) {
    set_lane(x.v, k, value);
    set_lane(x.d, k, Real<T>(0));
  } else {
    set_lane(x, k, value);
  }
}
// lane k of a number, with its tangent where S carries one
template <class S, class T>
FB_INLINE S number_of(const T& x, int k) {
  if constexpr (kTangent<S>)
    return S(lane(x.v, k), lane(x.d, k));
  else
    return S(lane(x, k));
}

// number the dofs that the lane's rows move, from the leaves to the root
template <class T>
FB_FN int number_dofs(const Layout& s, const Work<T>& w, int k, int* number) {
  for (int d = 0; d < s.nv; ++d) number[d] = -1;
  for (int p = 0; p < w.ngroup; ++p)
    if (mask_lane(w.geometry[p].active, k))
      for_group_dofs(s, w.group[p], [&](int d, int) { number[d] = 0; });
  int n = 0;
  for (int d = s.nv - 1; d >= 0; --d)
    if (number[d] == 0) number[d] = n++;
  return n;
}

// rows of the groups that are active in lane k; row: where each stands in the lanes' problem
template <class S, class T>
FB_FN void world_problem(const Layout& s, const Work<T>& w, int k, int* number, int* row,
                         WorldRows<S>& p) {
  p.ndof = number_dofs(s, w, k, number);
  p.nrow = p.nblock = 0;
  int dofs = 0, values = 0;
  for (int i = 0; i < w.ngroup; ++i) {
    const int index = w.sorted[i];
    const RowGroup& g = w.group[index];
    if (!mask_lane(w.geometry[index].active, k)) continue;
    RowBlock& b = p.block[p.nblock++];
    b = {p.nrow, g.rows, w.cone[g.row], dofs, 0, values};
    for_group_dofs(s, g, [&](int d, int) { p.dof[dofs + b.ndof++] = number[d]; });
    for (int e = 0; e < g.rows; ++e) {
      const T* side[2];
      for (int c = 0; c < 2; ++c)
        side[c] = g.start[c] < 0 ? nullptr : row_segment(s, w, g, g.row + e, c);
      S* out = p.G + values + e * b.ndof;
      for_group_dofs(s, g, [&](int d, int c) {
        *out++ = number_of<S>(side[c][d], k) * sqrt(number_of<S>(w.dof[d].Dinv, k));
      });
      const int r = p.nrow + e, from = g.row + e;
      row[r] = from;
      p.b[r] = number_of<S>(w.b[from], k);
      p.lo[r] = number_of<S>(w.lo[from], k);
      p.hi[r] = number_of<S>(w.hi[from], k);
      p.R[r] = number_of<S>(w.R[from], k);
      p.mu[r] = number_of<S>(w.mu[from], k);
    }
    p.nrow += g.rows;
    dofs += b.ndof;
    values += b.ndof * g.rows;
  }
  p.box = w.problem.options.friction == kBoxFriction;
  p.tolerance = Real<S>(w.problem.options.tolerance);
}

}  // namespace fb::FB_ISA
