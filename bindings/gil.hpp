// The interpreter's lock, given back for the length of a job, and calls that the end of the interpreter
// does not cut in two.
#pragma once
#include <nanobind/nanobind.h>
#include <unistd.h>

#include <atomic>
#include <thread>

#include "engine/engine.hpp"

namespace fb {

// A daemon thread that asks for the lock while the interpreter ends is unwound by force, which
// aborts the process where a frame does not allow it (before Python 3.14). Such a thread waits for
// the end of the process instead: `ending` is set by a function that runs at exit, which first lets
// those finish that are within a call and do not compute.
struct InterpreterEnd {
  static inline std::atomic<bool> ending{false};
  static inline std::atomic<int> within{0};
  static inline std::thread::id main;

  // a call begins, or goes on; without the lock a thread that comes too late waits here
  static void enter() {
    ++within;
    if (!ending || std::this_thread::get_id() == main) return;
    --within;
    for (;;) pause();
  }
  // called with the lock, when the interpreter begins to end
  static void begin() {
    main = std::this_thread::get_id();
    ending = true;
    PyThreadState* state = PyEval_SaveThread();
    while (within > 0) std::this_thread::yield();
    PyEval_RestoreThread(state);
  }
};

// within an EngineCall
class WithoutGil {
 public:
  WithoutGil() : state_(PyEval_SaveThread()) { --InterpreterEnd::within; }
  ~WithoutGil() {
    InterpreterEnd::enter();
    PyEval_RestoreThread(state_);
  }
  WithoutGil(const WithoutGil&) = delete;
  WithoutGil& operator=(const WithoutGil&) = delete;

 private:
  PyThreadState* state_;
};

// the engine that a method of it is called on, first of its arguments: from here to the end of the call,
// its other arguments and its answer included, the end of the interpreter waits
struct EngineCall {
  Engine* engine = nullptr;

  EngineCall() = default;
  EngineCall(const EngineCall&) = delete;
  EngineCall& operator=(const EngineCall&) = delete;
  ~EngineCall() {
    if (engine) --InterpreterEnd::within;
  }
  void begin(Engine* e) {
    engine = e;
    ++InterpreterEnd::within;
    if (!InterpreterEnd::ending || std::this_thread::get_id() == InterpreterEnd::main) return;
    // too late
    const WithoutGil wait;
  }
};

}  // namespace fb

namespace nanobind::detail {
template <>
struct type_caster<fb::EngineCall> {
  NB_TYPE_CASTER(fb::EngineCall, make_caster<fb::Engine>::Name)
  bool from_python(handle src, uint32_t flags, cleanup_list* cleanup) noexcept {
    make_caster<fb::Engine> engine;
    if (!engine.from_python(src, flags_for_local_caster<fb::Engine&>(flags), cleanup)) return false;
    value.begin(engine.operator fb::Engine*());
    return true;
  }
};
}  // namespace nanobind::detail
