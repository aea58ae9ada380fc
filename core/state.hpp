// A state x = (q, v, act, warm) lies in one array: configuration (ambient), velocity, actuator
// activation, and where the layout has it the accelerations of the last solve. Its tangents and
// cotangents are laid out alike.
#pragma once
#include "core/model/layout.hpp"

namespace fb::FB_ISA {

FB_INLINE int state_size(const Layout& s) { return s.nq + s.nv + s.na + s.nwarm; }
template <class T>
FB_INLINE T* velocity_of(const Layout& s, T* x) {
  return x + s.nq;
}
template <class T>
FB_INLINE T* activation_of(const Layout& s, T* x) {
  return x + s.nq + s.nv;
}
template <class T>
FB_INLINE T* warm_of(const Layout& s, T* x) {
  return x + s.nq + s.nv + s.na;
}

// where a step starts, and the velocity it gave
template <class T>
struct StepPoint {
  const T *q, *v, *act, *u, *v1;
};
template <class T>
FB_INLINE StepPoint<T> step_point(const Layout& s, const T* x, const T* u, const T* v1) {
  return {x, velocity_of(s, x), activation_of(s, x), u, v1};
}

}  // namespace fb::FB_ISA
