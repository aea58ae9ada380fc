// The kernels of one instruction set, and how to find them.
#pragma once
#include <string>
#include <vector>

#include "engine/task.hpp"

namespace fb {

struct KernelSet {
  const char* isa;
  const Kernel *double_one, *double_many, *double_dual;
  const Kernel *float_one, *float_many, *float_dual;
};

std::vector<std::string> available_isas();
const KernelSet* find_kernels(const std::string& isa);  // null where not built or not supported

}  // namespace fb
