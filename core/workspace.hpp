// Scratch of one group of worlds: carved once from one buffer, reused by every step; nothing in it
// outlives a step.
#pragma once
#include <initializer_list>

#include "core/contact/row_group.hpp"
#include "core/number/dual.hpp"
#include "core/number/pack.hpp"
#include "core/soft/work.hpp"
#include "core/solver/smooth_path.hpp"
#include "core/solver/solver.hpp"
#include "core/solver/world_recovery.hpp"
#include "core/state.hpp"

namespace fb::FB_ISA {

template <class T>
struct LinkWork {
  Mat3<T> R;         // orientation in the world
  Vec3<T> r;         // origin, relative to the tree's origin
  Motion<T> v;       // twist
  Motion<T> c;       // velocity-product acceleration
  Motion<T> a;       // acceleration, gravity as an upward acceleration of the world
  Motion<T> v_free;  // twist after the free motion
  Force<T> p;        // bias force of the articulated body
  Inertia<T> I;
  Sym6<T> IA;
};
template <class T>
struct DofWork {
  Motion<T> S;
  Force<T> U;
  T Dinv;
};
// a geom as the broad phase sees it
template <class T>
struct GeomWork {
  Vec3<T> centre;  // about its tree's origin
  T speed;         // none of its points is faster in the free motion
  Vec3<T> place;   // its centre in the world
  T reach;  // how far from there a geom can be that it may touch within the step, less the reach of that one
};

// cotangents of one link's fields.  w: twist of the joint rates paired with the equation of motion;
// y: twist of the new velocity
template <class T>
struct LinkBar {
  Motion<T> w, y;
  Force<T> w_bar, y_bar, v_bar, a_bar;
  Force<T> pose;  // wrench about the tree's origin, paired with the world twist that moves the link
};

// one world by itself, in double precision whatever the lanes have
// trees that the rows of a world join; place: where a tree stands among those of its island, so that
// neighbours are near each other; -1 where no row moves it
struct WorldIslands {
  int *root, *place, *queue;
  // chains of groups: those that join each tree to others, by number, an entry a side; those of each
  // island, in the order of their rows
  int *joins, *next_join, *first, *last, *next;

  FB_INLINE int find(int t) const {
    while (root[t] != t) t = root[t];
    return t;
  }
};
template <class S>
struct WorldWork {
  WorldRows<S> rows;
  WorldScratch<S> scratch;
  WorldRecovery<S> recovery;
  int *number,
      *row;  // of each dof in `rows`, -1 for none; of each of its rows in the lanes' problem
  S* root;   // D^-1/2 of each dof
  WorldIslands islands;
};
template <class T>
struct WorldNumberOf {
  using type = double;
};
template <class S>
struct WorldNumberOf<Dual<S>> {
  using type = Dual<double>;
};
template <class T>
using WorldNumber = typename WorldNumberOf<T>::type;
// a step that is hit is cut into parts, each an ordinary step; the first begins where the step does,
// every other where a hit ended the part before it (core/step_hits.hpp)
inline constexpr int kMaxHits = 8;
// no part of a step is shorter than this share of the step: what would be hit later than that is
// hit in the next step, at a moment that may lie that far before its beginning
inline constexpr double kLeastPart = 1.0 / 16;
template <class T>
struct StepPart {
  T *x, *v1;           // where it begins, and the velocity that its rows gave
  T *x_hit, *v_leave;  // state at the hit that ends it, and the velocity after that hit
  T h, tau;            // its length unless it is hit, and when it is hit
  T geom[2], travel;   // whose contact is hit first, and how far that would travel in h
  Mask<T> on, hit;     // lanes that have this part, and those in which a hit ends it
};
template <class T>
struct HitWork {
  bool cuts;      // whether rows of coming hits are left out, so that the step is cut
  bool pulled;    // whether the moment of the first hit has cotangents
  int ncoming;    // groups left out
  int* group;     // which
  Mask<T>* mask;  // and in which lanes
  int count;      // hits one after the other; the step has count + 1 parts
  StepPart<T> part[kMaxHits + 1];
  T* x_next;         // where the last part ends
  T ties, contacts;  // of the hits
  // the model's parameters in every lane's own numbers, since lanes cut their steps differently
  T *theta, *derived, *param_bar;
  bool lifted;
  Theta<T> theta_bar;
  Derived<T> derived_bar;
  // cotangents on the way back through the parts
  T *x1_bar, *x_bar, *u_bar, *x_hit_bar, *change_bar, *mean, *mean_bar, *scratch;
  T tau_bar, h_bar;
  T first, phi_bar, rate_bar, rate1_bar;  // of the group whose hit comes first
};

// solves of one step, each with more rows than the one before it, and what that has found
template <class T>
struct SolveBefore {
  bool any;                           // whether there was one
  Mask<T> grown;                      // lanes that have rows which it did not have
  T growths;                          // how often a lane has got some
  Mask<T>* touched;                   // by link, lanes in which a contact of it closes
  T *lam, *D, *descent;               // by row
  T residual, factorisations, spent;  // spent: those of a lane before it got rows
  Mask<T> unconverged;
};
// tendons: lengths, speeds, the damping that joins the step implicitly, accelerations of lengths at zero
// joint accelerations, and moments, the derivatives of lengths by the dofs of tendon_dof; their
// cotangents, which are zero but within an adjoint; and the dofs and numbers of J of the rows on tendons,
// one group's after another's
template <class T>
struct TendonWork {
  T *length, *speed, *damping, *bias, *J;
  T *length_bar, *speed_bar, *damping_bar, *bias_bar, *J_bar;
  T* inertia;  // factor of the mass matrix, dense: of forward dynamics where tendons have armature
  T* coef;
  int* dof;
  int used;  // of coef and dof
};

// near pairs of a model whose pairs go by rule: boxes of every lane's geoms, those of one lane in the
// order of where they begin, and what was found
using SweepWord = unsigned long long;
struct SweepWork {
  float *box, *sorted;  // box: of lane k low and high ends, then geoms
  int* geom;            // of the sorted boxes
  SweepWord *word, *found, *other;
  int nfound, capacity;
};

// a pair whose contacts, nearer than `far` in the lanes of `near`, all have more than `gap` between them; order:
// that of its first contact
template <class T>
struct DeferredPair {
  int pair, order;
  T far, gap;
  Mask<T> near;
};

// which velocity slopes of actuators join the mass matrix: those that damp, none, or all
enum ServoDamping : int { kDampingServos, kNoServos, kAllServos };

template <class T>
struct Work {
  LinkWork<T>* link;
  DofWork<T>* dof;
  GeomWork<T>* geom;
  Vec3<T>* origin;         // of each tree, in the world
  Motion<T>* twist;        // scratch, one per link
  Motion<T>* twist2;       // scratch, one per link
  Force<T>* wrench;        // scratch, one per link
  Force<T>* ext;           // applied to each link, about the tree's origin
  int* has_child_inertia;  // 1 where a link has received the articulated inertia of a link above it
  LinkBar<T>* bar;         // adjoint only
  // cotangents of the parameters and of what is derived from them; null where nobody asks
  Theta<T>* theta_bar;
  Derived<T>* derived_bar;
  T *tau, *hD, *qdd, *v_free, *dv;
  const T* v_begin;                  // velocity at which the step begins
  T* compensation;                   // of gravity, by dof
  T *moment, *moment_bar;            // of one actuator that reaches its dofs through sites
  T *w_rate, *a_eff, *hD_bar_extra;  // adjoint only
  RowGroup* group;
  RowGeometry<T>* geometry;
  RowData<T>* data;  // of each group, for the adjoint
  T* g;              // half-solved rows, per row two segments of the longest tree
  T* by_dof;         // those of one world's island dof by dof, scratch of its assembly
  size_t max_by_dof;
  int ngroup, nrim, max_group, max_row, max_tree;  // nrim: groups that are rims
  // contacts that the free motion leaves open, without rows until the solve closes them
  RowGroup* aside;
  RowGeometry<T>* aside_geometry;
  int naside;
  bool sets_aside;
  // pairs that are too far apart for any contact of theirs to close, without contact points; the slots they have
  DeferredPair<T>* deferred;
  int ndeferred, deferred_slots;
  bool defers;
  SolveBefore<T> last;
  Mask<T> overflow;
  // rows in the solver's order: groups and assembly write them, the problem shows them to the solver
  T *A, *b, *lo, *hi, *mu;
  T* before;  // row velocities at the beginning of the step, with the terms of b
  T* R;       // compliance over h^2, in the diagonal of A
  T* weight;  // inverse weights
  // recovery by positions: what is asked of it row by row, its answer, and the displacement's rate
  T *rest, *R0, *lead;
  int* together;  // at the first of the rows that have one error: their number; 0 at the others
  RecoverySolution<T> recovery;
  T *p, *v_moved;  // v_moved = v+ + p
  int *tree_island, *island_row, *cone;
  int* sorted;  // groups in the order of their rows
  RowProblem<T> problem;
  typename RowSolver<T>::Solution solution;
  // worlds by themselves: values, and with tangents where T has some; lanes with few and many rows
  WorldWork<double> world;
  WorldWork<WorldNumber<T>> one;
  PathScratch<double> path;
  Mask<T> few, large;
  // adjoint of the rows
  T *lam_bar, *R_bar;
  T* neg_z;                  // -z, for J' z
  RowProblemBar<T> row_bar;  // cotangents of the problem
  T *zero_row, *rest_bar;    // zeros; cotangents of `rest`
  // what recovery adds to z, to the cotangents of bounces and to those of impulses
  T *open_z, *lead_bar, *lam_extra;
  T *p_bar, *p_rate;
  // scratch of delassus_adjoint (unfinished solves only), by row and by dof; unit_rate: of mass_matrix too
  T *unit_row, *row_weights, *unit_rate, *weighted_rate;
  HitWork<T> hit;
  // under MuJoCo's law; one lane by itself, where the lanes are in single precision
  SoftWork<T> soft;
  SoftWork<WorldNumber<T>> soft_one;
  ServoDamping servos;  // of the step
  bool damped;          // whether joint damping joins the mass matrix
  TendonWork<T> tendon;
  SweepWork sweep;
};

// hand out consecutive, aligned pieces of a buffer; with a null base it only counts
struct Carver {
  char* base;
  size_t at;
  template <class X>
  FB_FN X* take(size_t n) {
    at = (at + 63) / 64 * 64;
    X* x = base ? reinterpret_cast<X*>(base + at) : nullptr;
    at += n * sizeof(X);
    return x;
  }
};

// dofs of a world in whole panels at most, and those of its longest row: a limb begins at a panel of its
// own, and wherever limbs part there are two more than before
struct PanelCounts {
  int all, row;
};
template <class S>
FB_FN PanelCounts count_panels(const Layout& s) {
  constexpr int W = kPanel<S>;
  int limbs = 1, trees = 1, deepest = 1;
  for (int d = 1; d < s.nv; ++d) {
    if (s.dof_parent[d] < 0) ++trees;
    if (s.dof_parent[d] >= 0 && s.dof_parent[d] != d - 1) limbs += 2;
    if (d + 1 < s.nv && s.dof_parent[d + 1] == d) continue;
    int depth = 0;
    for (int e = d; e >= 0; e = s.dof_parent[e]) ++depth;
    deepest = depth > deepest ? depth : deepest;
  }
  const int n = s.nv > 0 ? s.nv : 1, all = n + (W - 1) * (limbs + trees);
  const int row = deepest + 2 * (W - 1) * limbs;
  return {whole_panels<S>(all < W * n ? all : W * n),
          whole_panels<S>(row < W * deepest ? row : W * deepest)};
}
// scratch of one world, for up to `rows` rows in `groups` groups
template <class S>
FB_FN void carve_world(const Layout& s, Carver& c, int rows, int groups, int max_tree,
                       WorldWork<S>& w) {
  const PanelCounts panels = count_panels<S>(s);
  const size_t m = rows > 0 ? rows : 1, g = groups > 0 ? groups : 1;
  const size_t n = panels.all, W = kPanel<S>;
  WorldRows<S>& p = w.rows;
  for (S** x : {&p.b, &p.lo, &p.hi, &p.mu, &p.R, &p.W, &p.D, &p.before}) *x = c.take<S>(m);
  p.block = c.take<RowBlock>(g);
  p.rims = c.take<int>(m);
  p.run = c.take<DofRun>(2 * g * max_tree);
  p.G = c.take<S>(2 * m * panels.row);
  w.number = c.take<int>(s.nv > 0 ? s.nv : 1);
  w.row = c.take<int>(m);
  w.root = c.take<S>(s.nv > 0 ? s.nv : 1);
  for (int** x : {&w.islands.root, &w.islands.place, &w.islands.queue, &w.islands.joins,
                  &w.islands.first, &w.islands.last})
    *x = c.take<int>(s.ntree + 1);
  w.islands.next_join = c.take<int>(2 * g);
  w.islands.next = c.take<int>(g);
  WorldScratch<S>& t = w.scratch;
  for (S** x : {&t.lam, &t.w, &t.h, &t.best, &t.rest, &t.kept, &t.own, &t.cross}) *x = c.take<S>(m);
  for (S** x : {&t.y, &t.y2}) *x = c.take<S>(n);
  t.H.diagonal = c.take<S>(n * W);
  t.H.inv_pivot = c.take<S>(n);
  RecoverySolution<S>& f = w.recovery.found;
  for (S** x : {&w.recovery.R1, &f.push, &f.target, &f.z, &f.scale, &f.x, &f.dx, &f.next, &f.rhs})
    *x = c.take<S>(m);
  f.on = c.take<bool>(m);
  f.order = c.take<int>(m);
  t.law = c.take<BlockLaw<S>>(g);
  t.H.first = c.take<int>(n / W);
  t.H.start = c.take<int>(n / W + 1);
  for (S** x : {&t.H.lower, &t.H.upper}) *x = c.take<S>(n * (n - W) / 2 + W);
}
FB_FN void carve_path(Carver& c, int rows, PathScratch<double>& path) {
  const size_t m = whole_panels<double>(rows > 0 ? rows : 1);
  for (PathPoint<double>* q : {&path.now, &path.next, &path.predictor, &path.corrector, &path.bend})
    for (double** x :
         {&q->lam, &q->w, &q->a, &q->eta, &q->h, &q->lower, &q->upper, &q->z_lower, &q->z_upper})
      *x = c.take<double>(m);
  for (double** x : {&path.miss, &path.g_dot, &path.first_miss, &path.unit, &path.nearest})
    *x = c.take<double>(m);
}

// the problem of the rows, its solution and its cotangents
template <class T>
FB_FN void carve_rows(const Layout& s, Carver& c, Work<T>& w) {
  const size_t rows = w.max_row > 0 ? w.max_row : 1;
  if (s.soft) {
    w.solution.lam = c.take<T>(rows);
    return;
  }
  RowProblemBar<T>& bar = w.row_bar;
  for (T** x : {&w.b,        &w.lo,          &w.hi,       &w.mu,        &w.R,      &w.lam_bar,
                &w.R_bar,    &w.neg_z,       &bar.z,      &bar.mu,      &bar.lo,   &bar.hi,
                &w.unit_row, &w.row_weights, &w.rest,     &w.R0,        &w.lead,   &w.zero_row,
                &w.rest_bar, &w.open_z,      &w.lead_bar, &w.lam_extra, &w.weight, &w.before})
    *x = c.take<T>(rows);
  for (int** x : {&w.cone, &w.sorted, &w.together}) *x = c.take<int>(rows);
  for (T** x : {&w.last.lam, &w.last.D, &w.last.descent}) *x = c.take<T>(rows);
  w.tree_island = c.take<int>(s.ntree + 1);
  w.island_row = c.take<int>(s.ntree + 2);
  w.g = c.take<T>(2 * rows * w.max_tree);
  const size_t capacity(kDenseCapacity), dense = s.dense_only || rows < capacity ? rows : capacity;
  const size_t part = recovery_capacity(s) + 1;
  carve_recovery(c, rows, part < dense ? part : dense, w.recovery);
  w.A = c.take<T>(dense * dense);
  w.max_by_dof = kPanel<T> > 1 ? dense * dense : 0;
  w.by_dof = c.take<T>(w.max_by_dof);
  bar.A = c.take<T>(dense * dense);
  RowSolver<T>::carve(c, rows, dense, s.max_sweeps, w.solution);
  w.problem.island_row = w.island_row;
  w.problem.cone = w.cone;
  w.problem.A = w.A;
  w.problem.b = w.b;
  w.problem.R = w.R;
  w.problem.lo = w.lo;
  w.problem.hi = w.hi;
  w.problem.mu = w.mu;
}

// worlds by themselves, and with tangents where T has some
template <class T>
FB_FN void carve_worlds(const Layout& s, Carver& c, Work<T>& w) {
  carve_world(s, c, w.max_row, w.max_group, w.max_tree, w.world);
  carve_path(c, w.max_row, w.path);
  if constexpr (kTangent<T>)
    carve_world(s, c, w.max_row, w.max_group, w.max_tree, w.one);
  else
    w.one = w.world;
}

// states and cotangents of a step that is cut
template <class T>
FB_FN void carve_hits(const Layout& s, Carver& c, Work<T>& w) {
  HitWork<T>& k = w.hit;
  const int nx = state_size(s);
  k.cuts = true;
  k.lifted = k.pulled = false;
  k.ncoming = k.count = 0;
  k.group = c.take<int>(w.max_group);
  k.mask = c.take<Mask<T>>(w.max_group);
  for (StepPart<T>& part : k.part) {
    for (T** x : {&part.x, &part.x_hit}) *x = c.take<T>(nx);
    for (T** x : {&part.v1, &part.v_leave}) *x = c.take<T>(s.nv);
  }
  for (T** x : {&k.x_next, &k.x1_bar, &k.x_bar, &k.x_hit_bar}) *x = c.take<T>(nx);
  for (T** x : {&k.change_bar, &k.mean, &k.mean_bar}) *x = c.take<T>(s.nv);
  k.u_bar = c.take<T>(s.nu);
  k.scratch = c.take<T>(4 * s.nv);
  // one lane reads those of the model
  constexpr bool kLifts = kLanes<T> > 1 || kTangent<T>;
  k.theta = c.take<T>(kLifts ? theta_size(s) : 0);
  k.derived = c.take<T>(kLifts ? derived_size(s) : 0);
  k.param_bar = c.take<T>(theta_size(s) + derived_size(s));
}

template <class T>
FB_FN void carve_tendons(const Layout& s, Carver& c, TendonWork<T>& w) {
  size_t wide = 4 * size_t(s.ntendof);
  for (int e = 0; e < s.neq; ++e)
    if (s.eq_type[e] == kTendonEquality) wide += 2 * size_t(s.nv);
  for (T** x : {&w.length, &w.speed, &w.damping, &w.length_bar, &w.speed_bar, &w.damping_bar})
    *x = c.take<T>(s.ntendon);
  for (T** x : {&w.bias, &w.bias_bar}) *x = c.take<T>(s.nheavy > 0 ? s.ntendon : 0);
  w.inertia = c.take<T>(s.nheavy > 0 ? size_t(s.nv) * s.nv : 0);
  for (T** x : {&w.J, &w.J_bar}) *x = c.take<T>(s.ntendof);
  w.coef = c.take<T>(wide);
  w.dof = c.take<int>(wide);
}

// pairs of boxes for which there is room, in each lane and by geom
inline constexpr int kMeetings = 16;
FB_FN void carve_sweep(const Layout& s, Carver& c, int lanes, SweepWork& w) {
  const size_t n = s.nswept, room = n * kMeetings > size_t(s.ngeom) ? n * kMeetings : s.ngeom;
  w.capacity = int(room) * lanes;
  w.box = c.take<float>((n + kPack<float>)*6 * lanes);
  w.sorted = c.take<float>((n + kPack<float>)*6);
  w.geom = c.take<int>(n);
  for (SweepWord** x : {&w.word, &w.found, &w.other}) *x = c.take<SweepWord>(w.capacity);
}

template <class T>
FB_FN size_t carve(const Layout& s, char* base, Work<T>& w) {
  Carver c{base, 0};
  w.theta_bar = nullptr;
  w.derived_bar = nullptr;
  w.max_group = group_capacity(s);
  w.max_row = row_capacity(s);
  w.max_tree = 1;
  for (int t = 0; t < s.ntree; ++t)
    w.max_tree = s.tree_ndof[t] > w.max_tree ? s.tree_ndof[t] : w.max_tree;
  w.link = c.take<LinkWork<T>>(s.nlink);
  w.dof = c.take<DofWork<T>>(s.nv);
  w.geom = c.take<GeomWork<T>>(s.ngeom);
  w.origin = c.take<Vec3<T>>(s.ntree + 1);
  w.twist = c.take<Motion<T>>(s.nlink);
  w.twist2 = c.take<Motion<T>>(s.nlink);
  w.wrench = c.take<Force<T>>(s.nlink);
  w.ext = c.take<Force<T>>(s.nlink);
  w.has_child_inertia = c.take<int>(s.nlink);
  w.bar = c.take<LinkBar<T>>(s.nlink);
  for (T** x : {&w.w_rate, &w.a_eff, &w.hD_bar_extra, &w.unit_rate, &w.weighted_rate})
    *x = c.take<T>(s.nv);
  for (T** x : {&w.tau, &w.hD, &w.qdd, &w.v_free, &w.dv, &w.p, &w.v_moved, &w.p_bar, &w.p_rate})
    *x = c.take<T>(s.nv);
  w.compensation = c.take<T>(s.ngravcomp > 0 ? s.nv : 0);
  for (T** x : {&w.moment, &w.moment_bar}) *x = c.take<T>(s.nreach > 0 ? s.nv : 0);
  w.group = c.take<RowGroup>(w.max_group);
  w.geometry = c.take<RowGeometry<T>>(w.max_group);
  w.data = c.take<RowData<T>>(w.max_group);
  w.aside = c.take<RowGroup>(s.soft ? 0 : s.max_contacts);
  w.aside_geometry = c.take<RowGeometry<T>>(s.soft ? 0 : s.max_contacts);
  w.deferred = c.take<DeferredPair<T>>(s.soft ? 0 : s.max_contacts);
  w.last.touched = c.take<Mask<T>>(s.nlink);
  carve_rows(s, c, w);
  if (s.soft) {
    carve_soft(s, c, w.soft);
    if constexpr (!kIsDouble<T>) carve_soft(s, c, w.soft_one);
  } else {
    carve_worlds(s, c, w);
    carve_hits(s, c, w);
  }
  if (s.ntendon > 0) carve_tendons(s, c, w.tendon);
  if (s.nruled > 0) carve_sweep(s, c, kLanes<T>, w.sweep);
  w.nrim = w.naside = w.ndeferred = 0;
  w.sets_aside = w.defers = true;
  w.servos = kDampingServos;
  w.damped = true;
  return c.at;
}

}  // namespace fb::FB_ISA
