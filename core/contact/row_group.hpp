// Row groups: what a step's rows are made of.  A kind of group is a struct in a file of its own, with
// collect, data, adjoint and columns; where a kind is chosen, it is chosen here.
// Proof: docs/derivations/rows.md.
#pragma once
#include "core/collision/shape.hpp"
#include "core/model/pair.hpp"

namespace fb::FB_ISA {

// one group of rows with a common structure: a contact (1 or 3), the rims behind it (1 or 3), a limit, a dry
// friction, an equality (3, 3 + 3 or 1)
enum RowKind : int {
  kContactRows,
  kRimRows,
  kLimitRows,
  kBallLimitRows,
  kFrictionRows,
  kConnectRows,
  kWeldRotationRows,
  kJointEqualityRows,
  kTendonDampingRows,
  kTendonFrictionRows,
  kTendonLimitRows,
  kTendonEqualityRows
};
struct RowGroup {
  int kind, rows, row;    // row: first row in the solver's order
  int before;             // that in the step's solve before this one, -1 for none
  int linkA, linkB;       // bodies of a contact or equality; for joint rows the joints' links
  int start[2], tree[2];  // where the two chains of dofs start, and in which tree; -1 for none
  int source, side;       // pair, joint or equality; slot of the pair, or -1 | +1 for a limit's end
  int wide, nwide;        // of a row on tendons: its numbers of J in w.tendon, and how many
  int order;              // of a contact: its place among those that were found
};
// gap, normal from A to B, and point relative to the origin of B's tree (of A's where B is static),
// in the lanes where the group is active; with all that the contact's adjoint needs of it.  A limit
// has its gap in phi, and a ball's its axis in n
template <class T>
using RowGeometry = ContactPoint<T>;

// what a group hands over for its rows: wrenches on its two links or coefficients on single dofs,
// and the row's data
template <class T>
struct RowData {
  Force<T> F[2][3];
  T coef[3];
  int cdof[3], ncoef;
  T b[3], lo[3], hi[3], R[3];  // R: compliance over h^2
  // recovery by positions: its share of the gap's rate, the default compliance (zero: none), and by
  // how much a bounce opens the normal's gap beyond its term
  T rest[3], R0[3], lead;
  T weight;    // the rows' inverse weight
  T mu, roll;  // roll: of the second and third row of rims
  int cone;    // a ConeRows
};
// rows without a cone, a normal and its tangents, rims whose radii follow the normal three rows before them
enum ConeRows : int { kNoCone, kConeRows, kRimsOfCone };

// the most rows that a contact can have with its rims; rows and groups a model can have at once
FB_FN int contact_rows(const Layout& s) {
  int most = 3;
  for (int p = 0; p < s.npair; ++p) most = s.pair_condim[p] > most ? s.pair_condim[p] : most;
  for (int g = 0; g < s.nruled; ++g) most = s.geom_condim[g] > most ? s.geom_condim[g] : most;
  return most;
}
FB_FN int group_capacity(const Layout& s) {
  int n = s.max_contacts + 2 * s.nlimit + s.nfriction + 4 * s.ntendon;
  for (int e = 0; e < s.neq; ++e) n += s.eq_type[e] == kWeld ? 2 : 1;
  return !s.soft && contact_rows(s) > 3 ? n + s.max_contacts : n;
}
FB_FN int row_capacity(const Layout& s) {
  int n = contact_rows(s) * s.max_contacts + 2 * s.nlimit + s.nfriction + 4 * s.ntendon;
  for (int e = 0; e < s.neq; ++e) n += s.eq_type[e] == kWeld ? 6 : s.eq_type[e] == kConnect ? 3 : 1;
  return n;
}

// those that recovery by positions can act on: normals, limits, equalities
FB_FN int recovery_capacity(const Layout& s) {
  return row_capacity(s) - (contact_rows(s) - 1) * s.max_contacts - s.nfriction;
}

// what the adjoint of a group's data pairs with: the change of <lam, J w> - <z, J v+>, and
// cotangents of the row's data.  Arrays of rows begin at row `first`
template <class T>
struct RowBars {
  int first;
  const T *lam, *z;       // impulses, and z of the solver's adjoint
  const T *beta, *R;      // of gap terms and compliance
  const T *rest, *lead;   // of what recovery by positions is asked for
  const T *mu, *lo, *hi;  // of friction and bounds; read for parameters only
  const T* w_rate;        // w; its link twists are in w.bar[].w, those of v+ in w.bar[].y
};
// impulses and z alone; zero: as many zeros as there are rows
template <class T>
FB_INLINE RowBars<T> row_bars(int first, const T* lam, const T* z, const T* zero, const T* w_rate) {
  return {first, lam, z, zero, zero, zero, zero, zero, zero, zero, w_rate};
}
// groups [from, to) of one kind and one source, such as the contacts of a pair
struct GroupSpan {
  int from, to;
};

// stiffness of a group between its two links: the pose of `out` answers to the rates of `in`
template <class T>
struct GroupStiffness {
  Force<T> column[2][2][6];  // [out][in][coordinate of in]
};
// where columns go when a step is linearised (core/linearize)
template <class T>
struct LinearWork;

// A kind of rows is a struct with these static functions:
//   collect(m, o, q, alive, w)                    add the groups that matter in this step
//   data(m, o, index, q, w, e)                    wrenches or coefficients, b, bounds, compliance
//   adjoint(m, o, span, x, bars, w, q_tan)        given bars, add to links, dofs and parameters
//   columns(m, o, index, x, w, f)                 the same for every column of a linearisation
template <class T>
struct EqualityRows;
template <class T>
struct FrictionRows;
template <class T>
struct LimitRows;
template <class T>
struct TendonRows;
template <class T>
struct ContactRows;
template <class T>
struct RimRows;

// all of them, in the order in which a step collects them; contacts bring their rims
template <class T, class F>
FB_INLINE void for_row_groups(F&& visit) {
  visit(EqualityRows<T>{});
  visit(FrictionRows<T>{});
  visit(LimitRows<T>{});
  visit(TendonRows<T>{});
  visit(ContactRows<T>{});
}
// the one of a kind
template <class T, class F>
FB_INLINE void with_row_group(int kind, F&& visit) {
  switch (kind) {
    case kContactRows:
      return visit(ContactRows<T>{});
    case kRimRows:
      return visit(RimRows<T>{});
    case kLimitRows:
    case kBallLimitRows:
      return visit(LimitRows<T>{});
    case kFrictionRows:
      return visit(FrictionRows<T>{});
    case kTendonDampingRows:
    case kTendonFrictionRows:
    case kTendonLimitRows:
    case kTendonEqualityRows:
      return visit(TendonRows<T>{});
    default:
      return visit(EqualityRows<T>{});
  }
}

}  // namespace fb::FB_ISA
