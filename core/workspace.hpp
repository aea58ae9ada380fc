// Scratch of one group of worlds: carved once from one buffer, reused by every step; nothing in it
// outlives a step.
#pragma once
#include <initializer_list>

#include "core/dynamics/spatial.hpp"
#include "core/model/layout.hpp"

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

// cotangents of one link's fields.  w: twist of the joint rates paired with the equation of motion;
// y: twist of the new velocity
template <class T>
struct LinkBar {
  Motion<T> w, y;
  Force<T> w_bar, y_bar, v_bar, a_bar;
  Force<T> pose;  // wrench about the tree's origin, paired with the world twist that moves the link
};

// one group of rows with a common structure: a contact (1 or 3), a limit, a dry friction, an
// equality (3, 3 + 3 or 1)
enum RowKind : int {
  kContactRows,
  kLimitRows,
  kBallLimitRows,
  kFrictionRows,
  kConnectRows,
  kWeldRotationRows,
  kJointEqualityRows
};
struct RowGroup {
  int kind, rows, row;    // row: first row in the solver's order
  int linkA, linkB;       // bodies of a contact or equality; for joint rows the joints' links
  int start[2], tree[2];  // where the two chains of dofs start, and in which tree; -1 for none
  int source, side;       // pair, joint or equality; slot of the pair, or -1 | +1 for a limit's end
};
template <class T>
struct RowGeometry {
  T phi;  // gap
  Vec3<T> n,
      p;  // normal from A to B; point relative to the origin of B's tree (of A's when B is static)
  Mask<T> active;
};

// what a block hands over for its rows: wrenches on its two links or coefficients on single dofs,
// and the row's data
template <class T>
struct RowData {
  Force<T> F[2][3];
  T coef[3];
  int cdof[3], ncoef;
  T b[3], lo[3], hi[3], R[3];  // R: compliance over h^2
  T mu;
};

template <class T>
struct Work {
  LinkWork<T>* link;
  DofWork<T>* dof;
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
  T *w_rate, *y_rate, *a_eff, *hD_bar_extra;  // adjoint only
  RowGroup* group;
  RowGeometry<T>* geometry;
  RowData<T>* data;  // of each group, for the adjoint
  T* g;              // half-solved rows, per row two segments of the longest tree
  T *A, *b, *lo, *hi, *mu, *lam;
  T *n, *n0, *D, *lu, *rhs, *keep, *R, *z, *mu_bar, *lo_bar, *hi_bar, *R_bar;
  // unfinished solves only: cotangents and states of the reversed sweeps
  T *u_z, *u_mu, *u_lo, *u_hi, *u_D, *u_now, *u_lam_bar, *u_saved, *u_A, *u_history;
  int *tree_island, *island_row, *cone, *order, *sorted;
  int ngroup, nrow, nisland, max_group, max_row, max_tree;
  Mask<T> overflow, unconverged, unrolled;  // unrolled: differentiated sweep by sweep
  T residual, sweeps;
};

// rows and blocks a model can have at once
FB_FN int group_capacity(const Layout& s) {
  int n = s.max_contacts + 2 * s.nlimit + s.nfriction;
  for (int e = 0; e < s.neq; ++e) n += s.eq_type[e] == kWeld ? 2 : 1;
  return n;
}
FB_FN int row_capacity(const Layout& s) {
  int n = 3 * s.max_contacts + 2 * s.nlimit + s.nfriction;
  for (int e = 0; e < s.neq; ++e) n += s.eq_type[e] == kWeld ? 6 : s.eq_type[e] == kConnect ? 3 : 1;
  return n;
}

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
  const size_t rows = w.max_row > 0 ? w.max_row : 1;
  w.link = c.take<LinkWork<T>>(s.nlink);
  w.dof = c.take<DofWork<T>>(s.nv);
  w.origin = c.take<Vec3<T>>(s.ntree + 1);
  w.twist = c.take<Motion<T>>(s.nlink);
  w.twist2 = c.take<Motion<T>>(s.nlink);
  w.wrench = c.take<Force<T>>(s.nlink);
  w.ext = c.take<Force<T>>(s.nlink);
  w.has_child_inertia = c.take<int>(s.nlink);
  w.bar = c.take<LinkBar<T>>(s.nlink);
  for (T** x : {&w.w_rate, &w.y_rate, &w.a_eff, &w.hD_bar_extra}) *x = c.take<T>(s.nv);
  for (T** x : {&w.tau, &w.hD, &w.qdd, &w.v_free, &w.dv}) *x = c.take<T>(s.nv);
  w.group = c.take<RowGroup>(w.max_group);
  w.geometry = c.take<RowGeometry<T>>(w.max_group);
  w.data = c.take<RowData<T>>(w.max_group);
  for (T** x : {&w.b, &w.lo, &w.hi, &w.mu, &w.lam, &w.n, &w.n0, &w.D, &w.rhs, &w.keep, &w.R, &w.z,
                &w.mu_bar, &w.lo_bar, &w.hi_bar, &w.R_bar})
    *x = c.take<T>(rows);
  for (int** x : {&w.cone, &w.order, &w.sorted}) *x = c.take<int>(rows);
  w.tree_island = c.take<int>(s.ntree + 1);
  w.island_row = c.take<int>(s.ntree + 2);
  w.g = c.take<T>(2 * rows * w.max_tree);
  w.A = c.take<T>(rows * rows);
  w.lu = c.take<T>(rows * rows);
  for (T** x : {&w.u_z, &w.u_mu, &w.u_lo, &w.u_hi, &w.u_D, &w.u_now, &w.u_lam_bar, &w.u_saved})
    *x = c.take<T>(rows);
  w.u_A = c.take<T>(rows * rows);
  w.u_history = c.take<T>(rows * s.max_sweeps);
  return c.at;
}

}  // namespace fb::FB_ISA
