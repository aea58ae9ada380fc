// The interpreter's lock, given back for the length of a job.
#pragma once
#include <nanobind/nanobind.h>
#include <unistd.h>

#include <atomic>
#include <thread>

namespace fb {

// A daemon thread that asks for the lock while the interpreter ends is unwound by force, which
// aborts the process where a frame does not allow it (before Python 3.14). Such a thread waits for
// the end of the process instead: `ending` is set by a function that runs at exit, which first lets
// those in that are asking already.
struct InterpreterEnd {
  static inline std::atomic<bool> ending{false};
  static inline std::atomic<int> asking{0};
  static inline std::thread::id main;

  // called with the lock, when the interpreter begins to end
  static void begin() {
    main = std::this_thread::get_id();
    ending = true;
    PyThreadState* state = PyEval_SaveThread();
    while (asking > 0) std::this_thread::yield();
    PyEval_RestoreThread(state);
  }
};

class WithoutGil {
 public:
  WithoutGil() : state_(PyEval_SaveThread()) {}
  ~WithoutGil() {
    ++InterpreterEnd::asking;
    if (InterpreterEnd::ending && std::this_thread::get_id() != InterpreterEnd::main) {
      --InterpreterEnd::asking;
      for (;;) pause();
    }
    PyEval_RestoreThread(state_);
    --InterpreterEnd::asking;
  }
  WithoutGil(const WithoutGil&) = delete;
  WithoutGil& operator=(const WithoutGil&) = delete;

 private:
  PyThreadState* state_;
};

}  // namespace fb
