// What a caller on the host tells a kernel: 64-bit words, read in a fixed order into the task of a
// job. A pointer is an address of the device, null where an array is not given.
#pragma once
#include "engine/task.hpp"

namespace fb::cuda {

struct Words {
  const int64_t* at;

  __device__ long number() { return long(*at++); }
  template <class X = void>
  __device__ X* pointer() {
    return reinterpret_cast<X*>(*at++);
  }
  __device__ Rows take_rows() {
    const void* first = pointer();
    const long world = number();
    return {first, world, number()};
  }
  __device__ Source take_source() {
    const void* first = pointer();
    return {first, number()};
  }
  __device__ RolloutTangent take_tangent() {
    RolloutTangent dot;
    dot.x = take_rows();
    dot.u = take_rows();
    dot.theta = take_source();
    return dot;
  }
  __device__ Target take_target() {
    void* first = pointer();
    return {first, number()};
  }
  __device__ Cotangents take_cotangents() {
    const void* first = pointer();
    return {first, number()};
  }
  __device__ StatusOut take_status() {
    uint32_t* bits = pointer<uint32_t>();
    return {bits, pointer<int32_t>()};
  }
};

// each reads what src/featherback/sim/cuda.py writes for the same job
__device__ inline void read_worlds(Words& w, WorldsTask& t) {
  t.theta = w.pointer();
  t.derived = w.pointer();
  t.theta_per_world = w.number() != 0;
  t.worlds = w.number();
}
__device__ inline void read_task(Words& w, RolloutTask& t) {
  t.x = w.take_rows();
  t.u = w.take_rows();
  t.x_out = w.pointer();
  t.first_step = w.number();
  t.last_step = w.number();
  t.status = w.take_status();
  t.touch = nullptr;
  t.chunk = 1;
  t.residual = w.pointer();
  t.sweeps = w.pointer();
  t.factorisations = w.pointer();
}
__device__ inline void read_task(Words& w, VjpTask& t) {
  t.x = w.take_rows();
  t.u = w.take_rows();
  t.steps = w.number();
  t.first_step = w.number();
  t.last_step = w.number();
  t.x_cot = w.take_cotangents();
  t.x_bar = w.take_target();
  t.u_bar = w.take_target();
  t.theta_bar = w.take_target();
  t.finish_params = w.number() != 0;
  t.status = w.take_status();
  t.unrolled = w.pointer<int32_t>();
  t.ties = w.pointer<int32_t>();
  t.trace = w.pointer();
}
__device__ inline void read_task(Words& w, JvpTask& t) {
  t.x = w.take_rows();
  t.u = w.take_rows();
  t.dot = w.take_tangent();
  t.x_dot = const_cast<void*>(t.dot.x.at);
  t.first_step = w.number();
  t.last_step = w.number();
  t.status = w.take_status();
}
__device__ inline void read_task(Words& w, HvpTask& t) {
  read_task(w, static_cast<VjpTask&>(t));
  t.dot = w.take_tangent();
  t.x_cot_dot = w.take_cotangents();
  t.x_bar_dot = w.take_target();
  t.u_bar_dot = w.take_target();
  t.theta_bar_dot = w.take_target();
}
__device__ inline void read_task(Words& w, LinearizeTask& t) {
  t.x = w.take_source();
  t.u = w.take_source();
  t.A = w.pointer();
  t.B = w.pointer();
  t.status = w.take_status();
}
__device__ inline void read_task(Words& w, ContactsTask& t) {
  t.x = w.take_source();
  t.u = w.take_source();
  t.numbers = w.pointer();
  t.pair = w.pointer<int32_t>();
  t.count = w.pointer<int32_t>();
  t.overflow = w.pointer<uint8_t>();
}
// the output, and what it is a function of
template <class Task>
__device__ inline void read_output(Words& w, Task& t) {
  t.output = Output(w.number());
  t.q = w.pointer();
  t.v = w.pointer();
  t.x = w.pointer();
}
__device__ inline void read_task(Words& w, OutputTask& t) {
  read_output(w, t);
  t.y = w.pointer();
}
__device__ inline void read_task(Words& w, OutputVjpTask& t) {
  read_output(w, t);
  t.y_bar = w.pointer();
  t.q_bar = w.pointer();
  t.v_bar = w.pointer();
  t.x_bar = w.pointer();
  t.theta_bar = w.take_target();
}

}  // namespace fb::cuda
