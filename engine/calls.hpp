// The calls of an engine: arrays of a caller, checked against the model, become the task of a job.
// Knows neither Python nor XLA.
#pragma once
#include <array>
#include <type_traits>

#include "engine/engine.hpp"

namespace fb {

// an array of a caller, C-contiguous
template <class X>
struct ArrayOf {
  X* at = nullptr;
  int real_bytes = 0;  // of a real number; 0 for another type
  int rank = -1;       // -1 where it is not given
  std::array<long, 4> shape{};

  bool given() const { return rank >= 0; }
  operator ArrayOf<const X>() const
    requires(!std::is_const_v<X>)
  {
    return {at, real_bytes, rank, shape};
  }
};
using ArrayIn = ArrayOf<const void>;
using ArrayOut = ArrayOf<void>;

// (worlds) each
struct StatusArrays {
  ArrayOf<uint32_t> status;
  ArrayOf<int32_t> step;
};

// what all jobs along the states of a rollout share. x: (worlds, rows, nx), a row for each state or
// one for all: in a rollout it moves, in a derivative it is that before a single step. u: (rows, nu)
// for all worlds or (worlds, rows, nu), from row u_first on. theta: (ntheta) or (worlds, ntheta)
template <class X>
struct PathArrays {
  X x;
  ArrayIn u, theta;
  long steps = 0, u_first = 0;
  StatusArrays status;
};

struct RolloutArrays {
  PathArrays<ArrayOut> path;
  ArrayOut residual, sweeps, factorisations;  // (worlds)
};
// x_cot: (worlds, rows, nx), of the last states. u_bar: (worlds, all steps, nu), rows from u_first
// on are written. theta_bar: (worlds, theta_size + derived_size)
struct VjpArrays {
  PathArrays<ArrayIn> path;
  ArrayIn x_cot;
  ArrayOut x_bar, u_bar, theta_bar;
  bool finish_params = true;
  ArrayOf<int32_t> unrolled = {}, ties = {};
  ArrayOut trace = {};
};
// x_dot: laid out as x; du and dtheta as u and theta
struct JvpArrays {
  PathArrays<ArrayIn> path;
  ArrayOut x_dot;
  ArrayIn du, dtheta;
};
struct HvpArrays {
  PathArrays<ArrayIn> path;
  ArrayIn x_dot, du, dtheta, x_cot, x_cot_dot;
  ArrayOut x_bar, x_bar_dot, u_bar_dot, theta_bar, theta_bar_dot;
};

// one row of every world
struct OutputInputs {
  Output output;
  ArrayIn q, v, x, theta;
};
struct OutputArrays {
  OutputInputs at;
  ArrayOut y;
};
struct OutputVjpArrays {
  OutputInputs at;
  ArrayIn y_bar;
  ArrayOut q_bar, v_bar, x_bar, theta_bar;
};
struct ContactsArrays {
  ArrayIn x, u, theta;
  ArrayOut numbers;
  ArrayOf<int32_t> pair, count;
  ArrayOf<uint8_t> overflow;
};
struct LinearizeArrays {
  ArrayIn x, u, theta;
  ArrayOut A, B;
  StatusArrays status;
};

// a job over all steps; std::invalid_argument names an array that does not fit
RolloutTask make_task(Engine& engine, const RolloutArrays& given);
VjpTask make_task(Engine& engine, const VjpArrays& given);
JvpTask make_task(Engine& engine, const JvpArrays& given);
HvpTask make_task(Engine& engine, const HvpArrays& given);
OutputTask make_task(Engine& engine, const OutputArrays& given);
OutputVjpTask make_task(Engine& engine, const OutputVjpArrays& given);
ContactsTask make_task(Engine& engine, const ContactsArrays& given);
LinearizeTask make_task(Engine& engine, const LinearizeArrays& given);

// the first row of every world's states, from one state of each
void set_first_rows(const Engine& engine, const char* name, const ArrayIn& from,
                    const ArrayOut& states);

Output output_named(const std::string& name);

}  // namespace fb
