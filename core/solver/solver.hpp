// The solver of the step.  Another one is a file with the members of RowSolverFor (problem.hpp), and
// the line below.
#pragma once
#include "core/solver/active_set.hpp"

namespace fb::FB_ISA {

template <class T>
using RowSolver = ActiveSetSolver<T>;

static_assert(RowSolverFor<RowSolver<double>, double>);

}  // namespace fb::FB_ISA
