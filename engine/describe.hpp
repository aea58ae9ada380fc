// Statuses of worlds in words.
#pragma once
#include <cstdint>
#include <string>

namespace fb {

// a text that names each world that is not OK, at most ten of them, with the step of its first bit;
// empty where all are OK.  residual: largest of the contact solve [m/s], or null
std::string describe_worlds(const uint32_t* status, const int32_t* step, const double* residual,
                            long worlds);

}  // namespace fb
