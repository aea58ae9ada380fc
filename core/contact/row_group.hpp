// Row groups: what a step's rows are made of.  A kind of group is a struct in a file of its own, with
// collect, data, adjoint and columns; where a kind is chosen, it is chosen here.
// Proof: docs/derivations/rows.md.
#pragma once
#include "core/dynamics/spatial.hpp"
#include "core/model/layout.hpp"

namespace fb::FB_ISA {

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
      p;  // normal from A to B; point relative to the origin of B's tree (A's if B is static)
  Mask<T> active;
};

// what a group hands over for its rows: wrenches on its two links or coefficients on single dofs,
// and the row's data
template <class T>
struct RowData {
  Force<T> F[2][3];
  T coef[3];
  int cdof[3], ncoef;
  T b[3], lo[3], hi[3], R[3];  // R: compliance over h^2
  T mu;
};

// rows and groups a model can have at once
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

}  // namespace fb::FB_ISA
