// What a step under MuJoCo's law keeps: row groups with their blocks, rows in joint space, matrices
// over the dofs.  Part of a block's workspace, used where the layout says that the law is soft.
#pragma once
#include "core/contact/row_group.hpp"
#include "core/soft/block.hpp"
#include "core/soft/matrix.hpp"

namespace fb::FB_ISA {

// stages of the integrator of fourth order
inline constexpr int kSoftStages = 4;

// one group: wrenches on its two links or coefficients on single dofs, its block, and what its
// reference acceleration is made of, y = J a + y0
template <class T>
struct SoftGroup {
  SoftBlock<T> block;
  Force<T> F[2][kSoftRows];
  T coef[3];
  int cdof[3], ncoef;
  T vel[kSoftRows], y0[kSoftRows];
  // its first row; where its dofs, its numbers of J and of S, and its places in H begin, -1 where its
  // dofs have all columns of the first one
  int row, dof, ndof, entry, block_at, place;
  bool joins, idle;  // its dofs lie on several branches; S is zero in all lanes
};

// mass, mass times centre, inertia about the origin
template <class T>
struct RigidMoments {
  T mass;
  Vec3<T> h;
  Sym3<T> I;
};

template <class T>
struct SoftWork {
  SoftGroup<T>* group;
  int ngroup, nrow;
  Mask<T> touched;  // lanes in which some row is active
  int* dof;         // dofs that move each group, descending
  T* J;             // [dof of the group][row of the group]
  T* S;             // -df/dy of each group
  int* place;       // of (k, l), l < k of a group's dofs in H
  T *y, *f, *z;     // by row
  T* loaded;        // f and what adhesion pulls with; f itself where nothing does
  T *y_bar, *f_bar;
  // where the contacts' forces are an output: the twist that pairs with those on each body, or null
  const T* shown;
  // accelerations: of the constrained motion, and as integrated; generalised forces
  T *a, *acc, *smooth, *pushed;
  T* warm;  // where a solve may start, nwarm numbers or none
  int nwarm;
  T *step, *grad, *Ma, *Mstep, *mu, *half;
  RigidMoments<T>* moments;  // of each link and all that it carries
  Sym6<T>* composite;        // what a fluid adds to them
  Vec3<T>* centre;           // of each geom, in the world
  // of the integrator of fourth order: states, rates, accelerations and drives of activations of its
  // stages, and their cotangents
  T *stage, *stage_rate, *stage_acc, *stage_drive, *stage_bar;
  int at_stage;             // the stage whose rows are in the workspace
  DofPattern tree, joined;  // of M and A, and of H where no group joins branches; of other H
  DofMatrix<T> M, A, H;
  DofSets sets;
  // of the integrator implicitfast: free bodies without children, and their six dofs' matrices
  int *single, nsingle;
  T* gyro;
};

// links of bodies that move freely and carry nothing; returns how many
FB_FN int single_bodies(const Layout& s, int* link) {
  int n = 0;
  for (int b = 1; b < s.nbody; ++b) {
    const int l = s.body_link[b];
    bool alone = s.body_jntnum[b] == 1 && s.link_type[l] == kFree;
    for (int c = 1; alone && c < s.nlink; ++c) alone = s.link_parent[c] != l;
    if (alone) link[n++] = l;
  }
  return n;
}
// the longest chain of dofs
FB_FN int longest_chain(const Layout& s) {
  int most = 1;
  for (int d = 0; d < s.nv; ++d) {
    int n = 0;
    for (int e = d; e >= 0; e = s.dof_parent[e]) ++n;
    most = n > most ? n : most;
  }
  return most;
}
template <class Carver>
FB_FN void carve_pattern(const Layout& s, Carver& c, size_t entries, DofPattern& p) {
  p.n = s.nv;
  for (int** x : {&p.start, &p.first}) *x = c.template take<int>(s.nv + 1);
  for (int** x : {&p.col, &p.below, &p.at}) *x = c.template take<int>(entries);
  p.supernode = c.template take<int>(s.nv + 1);
}
template <class T, class Carver>
FB_FN void carve_matrix(const Layout& s, Carver& c, size_t entries, DofMatrix<T>& m) {
  m.value = c.template take<T>(entries);
  m.diagonal = c.template take<T>(s.nv);
}
template <class T, class Carver>
FB_FN void carve_soft(const Layout& s, Carver& c, SoftWork<T>& w) {
  if (!s.soft) return;
  const size_t groups = group_capacity(s) + 1, n = s.nv > 0 ? s.nv : 1;
  const size_t rows = row_capacity(s) + 1, wide = contact_rows(s);
  const size_t chain = size_t(2) * longest_chain(s), both = chain < n && s.ntendon == 0 ? chain : n;
  size_t tree = 0;
  for (int d = 0; d < s.nv; ++d)
    for (int e = s.dof_parent[d]; e >= 0; e = s.dof_parent[e]) ++tree;
  w.group = c.template take<SoftGroup<T>>(groups);
  w.dof = c.template take<int>(groups * both);
  w.J = c.template take<T>(groups * both * wide);
  w.S = c.template take<T>(groups * wide * wide);
  w.place = c.template take<int>(groups * both * both / 2);
  for (T** x : {&w.y, &w.f, &w.z, &w.y_bar, &w.f_bar}) *x = c.template take<T>(rows);
  w.loaded = s.nadhesion > 0 ? c.template take<T>(rows) : w.f;
  for (T** x :
       {&w.a, &w.acc, &w.smooth, &w.pushed, &w.step, &w.grad, &w.Ma, &w.Mstep, &w.mu, &w.half})
    *x = c.template take<T>(n);
  w.shown = nullptr;
  w.nwarm = s.nwarm;
  w.warm = c.template take<T>(s.nwarm);
  const size_t nx = s.nq + s.nv + s.na + s.nwarm;
  w.stage = c.template take<T>(kSoftStages * nx);
  w.stage_rate = c.template take<T>(kSoftStages * n);
  w.stage_acc = c.template take<T>(kSoftStages * n);
  w.stage_drive = c.template take<T>(kSoftStages * s.na);
  w.stage_bar = c.template take<T>(kSoftStages * (2 * n + s.na) + nx + 2 * n);
  w.moments = c.template take<RigidMoments<T>>(s.nlink);
  w.composite = c.template take<Sym6<T>>(s.nfluid > 0 ? s.nlink : 0);
  w.centre = c.template take<Vec3<T>>(s.ngeom);
  carve_pattern(s, c, tree + 1, w.tree);
  carve_pattern(s, c, n * (n - 1) / 2 + 1, w.joined);
  carve_matrix(s, c, tree + 1, w.M);
  carve_matrix(s, c, tree + 1, w.A);
  carve_matrix(s, c, n * (n - 1) / 2 + 1, w.H);
  w.single = c.template take<int>(s.nbody);
  w.gyro = c.template take<T>(size_t(36) * s.nbody);
  // with a null base there is nothing to write to
  if (w.tree.start) {
    w.nsingle = single_bodies(s, w.single);
    ancestor_pattern(s.nv, s.dof_parent, w.tree);
    w.M.p = w.A.p = w.H.p = w.tree;
  }
  w.sets.width = set_words(s.nv);
  w.sets.word = c.template take<unsigned long long>(n * w.sets.width);
  for (int** x : {&w.sets.lowest, &w.sets.largest}) *x = c.template take<int>(n);
}

}  // namespace fb::FB_ISA
