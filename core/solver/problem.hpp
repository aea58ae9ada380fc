// The mixed complementarity problem of one step and its solution, as every solver sees them:
// w = A lam + b, bounded rows and friction cones.  Pure algebra.  Proof: docs/derivations/solver.md.
#pragma once
#include "core/model/schema.hpp"

namespace fb::FB_ISA {

// worlds with an island of more rows than this are solved in their dofs; the islands of a dense problem
// fill no more than the square of its capacity
inline constexpr int kDenseRows = 48, kDenseCapacity = 96;
// Newton steps on the active set at most, and so many in a row without a better point
inline constexpr int kNewtonSteps = 10, kNewtonCircle = 3;

// what is asked.  A solver reads it and never writes to it.  Rows of one island are dense among
// themselves and zero elsewhere
template <class T>
struct RowProblem {
  int nrow, nisland;
  const int* island_row;  // first row of each island, then nrow
  const int* cone;        // 1 at the normal of a three-row contact, 0 elsewhere
  const T* A;             // per island n x n, one after another
  const T *b, *lo, *hi;   // bounds of bounded rows and of normals
  const T* mu;            // at the normal row
  Options<Real<T>> options;
  int ndof = 0;  // dofs of the world, zero where nobody knows
  // velocities at which the step begins, with the same terms as b, and compliances; null where nobody knows
  const T *before = nullptr, *R = nullptr;
};

// what every solver answers; its own Solution adds the representation that its derivatives need
template <class T>
struct RowSolution {
  T* lam;                         // impulses
  T residual;                     // a velocity
  T sweeps, factorisations;       // that the lane took
  Mask<T> unconverged, unrolled;  // unrolled: its derivative is that of the executed sweeps
};

// cotangents of a problem: b_bar = -z, A_bar = -z lam'; in the lanes of `unrolled` A_bar is A.
// lo and hi are null where nobody asks, A is written only where some lane is unrolled
template <class T>
struct RowProblemBar {
  T *z, *mu, *lo, *hi, *A;
};

// rows [first, first + n) and where their block of A starts
struct Island {
  int first, n;
  size_t at;
};
template <class T, class F>
FB_INLINE void for_islands(const RowProblem<T>& p, F&& visit) {
  size_t at = 0;
  for (int k = 0; k < p.nisland; ++k) {
    const int first = p.island_row[k], n = p.island_row[k + 1] - first;
    visit(Island{first, n, at});
    at += size_t(n) * n;
  }
}

// (S.5)  where a row with a lower bound alone is left open by the free motion: its velocity is that of a gap,
// which may be large, and measures nothing that is solved
template <class T>
FB_INLINE Mask<T> opens_freely(T b, T lo, T hi) {
  const T none(Real<T>(1e29));
  return (abs(lo) < none) & !(abs(hi) < none) & !(b < T(0));
}

// a solver: a struct of a number type with these members.  z and z_bar go to b with the opposite
// sign; columns are rows of `stride` numbers, the change of the row velocities in, that of the
// impulses out, for the rows that move in some lane
template <class S, class T>
concept RowSolverFor =
    requires(const RowProblem<T>& p, typename S::Solution& s, const T* lam_bar,
             const RowProblemBar<T>& bar, Mask<T> active, T* C, Mask<T> (*finish)(Mask<T>)) {
      static_cast<RowSolution<T>&>(s);
      // lam and its status; finish takes the lanes that it leaves and returns those still left
      S::solve(p, active, s, finish);
      S::adjoint(p, s, lam_bar, bar);  // cotangents of the problem, all of them set
      S::tangent(p, s);                // of lam, where T is a dual number
      S::columns(p, s, 0, C);          // G dlam = C, in place
      S::moves(p, s, 0);               // lanes in which a row's impulse answers to the problem
      S::ties(p, s);                   // places where the derivative is a choice
    };

}  // namespace fb::FB_ISA
