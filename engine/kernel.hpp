// Names of the kernels: one set of jobs for each instruction set, machine number and lane width.
#pragma once

#define FB_TEXT2(x) #x
#define FB_TEXT(x) FB_TEXT2(x)
#define FB_NAME3(kind, real, width) kind##_##real##_##width
#define FB_NAME2(kind, real, width) FB_NAME3(kind, real, width)
#define FB_NAME(kind) FB_NAME2(kind, FB_REAL, FB_WIDTH)

namespace fb::FB_ISA {

using R = FB_REAL;
constexpr int W = FB_WIDTH;

}  // namespace fb::FB_ISA
