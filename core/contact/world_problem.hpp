// The rows of one lane as problems of one world, island by island: half-solved rows become G, over
// the dofs that some row moves, leaves first.  Proof: docs/derivations/worlds.md.
#pragma once
#include "core/contact/rows.hpp"
#include "core/solver/world_rows.hpp"

namespace fb::FB_ISA {

// lane k of a number, with its tangent where S carries one
template <class S, class T>
FB_INLINE S number_of(const T& x, int k) {
  if constexpr (kTangent<S>)
    return S(lane(x.v, k), lane(x.d, k));
  else
    return S(lane(x, k));
}

FB_INLINE int tree_of(const RowGroup& g) { return g.tree[0] >= 0 ? g.tree[0] : g.tree[1]; }

// islands of the groups that are active in lane k
template <class T>
FB_FN void find_islands(const Layout& s, const Work<T>& w, int k, const WorldIslands& o) {
  for (int t = 0; t < s.ntree; ++t) {
    o.root[t] = t;
    o.place[t] = -1;
  }
  for (int i = 0; i < w.ngroup; ++i) {
    const RowGroup& g = w.group[i];
    if (!mask_lane(w.geometry[i].active, k) || g.tree[0] < 0 || g.tree[1] < 0) continue;
    const int a = o.find(g.tree[0]), b = o.find(g.tree[1]);
    o.root[a > b ? a : b] = a > b ? b : a;
  }
}
// whether the groups that are active in lane k form more than one
template <class T>
FB_FN bool has_islands(const Layout& s, const Work<T>& w, int k, const WorldIslands& o) {
  find_islands(s, w, k, o);
  int root = -1;
  for (int i = 0; i < w.ngroup; ++i) {
    if (!mask_lane(w.geometry[i].active, k)) continue;
    const int t = o.find(tree_of(w.group[i]));
    if (root >= 0 && t != root) return true;
    root = t;
  }
  return false;
}
// chains of the groups that are active in lane k, once the islands are known
template <class T>
FB_FN void chain_groups(const Layout& s, const Work<T>& w, int k, const WorldIslands& o) {
  for (int t = 0; t < s.ntree; ++t) o.joins[t] = o.first[t] = -1;
  for (int i = w.ngroup - 1; i >= 0; --i) {
    const int* tree = w.group[i].tree;
    if (!mask_lane(w.geometry[i].active, k) || tree[0] < 0 || tree[1] < 0) continue;
    for (int side = 1; side >= 0; --side) {
      o.next_join[2 * i + side] = o.joins[tree[side]];
      o.joins[tree[side]] = 2 * i + side;
    }
  }
  for (int i = 0; i < w.ngroup; ++i) {
    const int index = w.sorted[i];
    if (!mask_lane(w.geometry[index].active, k)) continue;
    const int t = o.find(tree_of(w.group[index]));
    (o.first[t] < 0 ? o.first[t] : o.next[o.last[t]]) = index;
    o.last[t] = index;
    o.next[index] = -1;
  }
}
// breadth first from the island's root over what the groups join; returns how many trees there are
template <class T>
FB_FN int place_trees(const Work<T>& w, int root, const WorldIslands& o) {
  int n = 0;
  o.place[root] = n;
  o.queue[n++] = root;
  for (int at = 0; at < n; ++at)
    for (int e = o.joins[o.queue[at]]; e >= 0; e = o.next_join[e]) {
      const int other = w.group[e / 2].tree[1 - e % 2];
      if (o.place[other] >= 0) continue;
      o.place[other] = n;
      o.queue[n++] = other;
    }
  return n;
}

// visit(d, side) the dofs of a group: rootward, the tree that has its place first before the other
template <class F>
FB_INLINE void for_world_dofs(const Layout& s, const RowGroup& g, const WorldIslands& o,
                              F&& visit) {
  if (g.tree[0] < 0 || g.tree[1] < 0 || g.tree[0] == g.tree[1]) return for_group_dofs(s, g, visit);
  const int first = o.place[g.tree[0]] < o.place[g.tree[1]] ? 0 : 1;
  for (int e = 0; e < 2; ++e) {
    const int side = e == 0 ? first : 1 - first;
    for (int d = g.start[side]; d >= 0; d = s.dof_parent[d]) visit(d, side);
  }
}
// dofs from d towards the root that no other limb joins: number has the children of each
FB_INLINE int limb_length(const Layout& s, int d, const int* number) {
  int n = 1;
  for (; s.dof_parent[d] >= 0 && s.dof_parent[d] == d - 1 && number[d - 1] == 1; --d) ++n;
  return n;
}
// number the dofs that the island's rows move, tree by tree from the leaves to the root; a limb that would
// reach into one more panel than it fills begins with a panel of its own
template <class S, class T>
FB_FN int number_dofs(const Layout& s, const Work<T>& w, int trees, const WorldIslands& o,
                      int* number) {
  for (int e = 0; e < trees; ++e) {
    const int t = o.queue[e];
    for (int d = 0; d < s.tree_ndof[t]; ++d) number[s.tree_dof[t] + d] = -1;
  }
  for (int i = o.first[o.queue[0]]; i >= 0; i = o.next[i])
    for_group_dofs(s, w.group[i], [&](int d, int) { number[d] = 0; });
  int n = 0;
  for (int e = 0; e < trees; ++e) {
    const int first = s.tree_dof[o.queue[e]], last = first + s.tree_ndof[o.queue[e]] - 1;
    for (int d = last; d >= first; --d)
      if (number[d] >= 0 && s.dof_parent[d] >= 0) ++number[s.dof_parent[d]];
    for (int d = last; d >= first;) {
      if (number[d] < 0) {
        --d;
        continue;
      }
      const int length = limb_length(s, d, number), start = whole_panels<S>(n);
      if (whole_panels<S>(n + length) >
          start + whole_panels<S>(length) - (start > n ? kPanel<S> : 0))
        n = start;
      for (const int end = d - length; d > end; --d) number[d] = n++;
    }
  }
  return whole_panels<S>(n);
}

// one block of rows, those of a group
template <class S, class T>
FB_FN void add_world_block(const Layout& s, const Work<T>& w, int k, const RowGroup& g,
                           WorldWork<S>& world) {
  WorldRows<S>& p = world.rows;
  const WorldIslands& o = world.islands;
  const RowBlock* last = p.nblock > 0 ? &p.block[p.nblock - 1] : nullptr;
  RowBlock& b = p.block[p.nblock++];
  const int kind = g.kind == kRimRows ? kRimBlock : w.cone[g.row] ? kContactBlock : kBoundedBlock;
  p.rims[p.nrow] = 0;
  if (kind == kRimBlock) {
    p.rims[p.nrow - 3] = g.rows;
    ++p.nrim;
  }
  b = {p.nrow, g.rows,
       kind,   last ? last->run + last->nrun : 0,
       0,      last ? last->value + last->rows * last->width : 0,
       0};
  constexpr int W = kPanel<S>;
  for_world_dofs(s, g, o, [&](int d, int) {
    const int at = world.number[d] / W * W;
    DofRun* run = p.run + b.run + b.nrun;
    const int end = b.nrun > 0 ? run[-1].dof + run[-1].count : -1;
    if (at < end) return;
    if (at == end)
      run[-1].count += W;
    else
      run[0] = {at, W}, ++b.nrun;
    b.width += W;
  });
  for (int e = 0; e < g.rows; ++e) {
    const T* side[2];
    for (int c = 0; c < 2; ++c)
      side[c] = g.start[c] < 0 ? nullptr : row_segment(s, w, g, g.row + e, c);
    S* out = p.G + b.value + e * b.width;
    for (int c = 0; c < b.width; ++c) out[c] = S(0);
    const DofRun* run = p.run + b.run;
    for_world_dofs(s, g, o, [&](int d, int c) {
      const int at = world.number[d];
      for (; at >= run->dof + run->count; ++run) out += run->count;
      out[at - run->dof] = number_of<S>(side[c][d], k) * world.root[d];
    });
    const int r = p.nrow + e, from = g.row + e;
    world.row[r] = from;
    p.b[r] = number_of<S>(w.b[from], k);
    p.lo[r] = number_of<S>(w.lo[from], k);
    p.hi[r] = number_of<S>(w.hi[from], k);
    p.R[r] = number_of<S>(w.R[from], k);
    p.mu[r] = number_of<S>(w.mu[from], k);
    p.W[r] = number_of<S>(w.weight[from], k);
    if (!(p.W[r] > S(0))) p.W[r] = S(1);
  }
  p.nrow += g.rows;
}

// visit every island of lane k: its rows are in o.rows then
template <class S, class T, class F>
FB_FN void for_world_islands(const Layout& s, const Work<T>& w, int k, WorldWork<S>& o, F&& visit) {
  find_islands(s, w, k, o.islands);
  chain_groups(s, w, k, o.islands);
  for (int t = 0; t < s.ntree; ++t) {
    // where nothing moves a tree there are no rows
    if (o.islands.root[t] != t || o.islands.first[t] < 0) continue;
    WorldRows<S>& p = o.rows;
    p.nrow = p.nblock = p.nrim = 0;
    const int trees = place_trees(w, t, o.islands);
    p.ndof = number_dofs<S>(s, w, trees, o.islands, o.number);
    for (int e = 0; e < trees; ++e)
      for (int d = 0, first = s.tree_dof[o.islands.queue[e]]; d < s.tree_ndof[o.islands.queue[e]];
           ++d)
        o.root[first + d] = sqrt(number_of<S>(w.dof[first + d].Dinv, k));
    for (int i = o.islands.first[t]; i >= 0; i = o.islands.next[i])
      add_world_block(s, w, k, w.group[i], o);
    p.box = w.problem.options.friction == kBoxFriction;
    p.tolerance = Real<S>(w.problem.options.tolerance);
    p.smoothing = Real<S>(w.problem.options.smoothing);
    visit();
    // the next island's trees have their own places
    for (int e = 0; e < trees; ++e) o.islands.place[o.islands.queue[e]] = -1;
  }
}

}  // namespace fb::FB_ISA
