// Engines of one model for callers in any thread, without Python: each call takes an idle engine,
// or a new one where all are at work.
#pragma once
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "bindings/engine.hpp"

namespace fb {

// memory that is kept from call to call, unless it is much
class Scratch {
 public:
  char* take(size_t bytes) {
    if (bytes > bytes_) {
      buffer_ = aligned_buffer(bytes);
      bytes_ = bytes;
    }
    return buffer_.get();
  }
  void trim() {
    if (bytes_ <= kKept) return;
    buffer_.reset();
    bytes_ = 0;
  }

 private:
  static constexpr size_t kKept = size_t(1) << 24;
  Buffer buffer_;
  size_t bytes_ = 0;
};

// allowed values of a parameter, `count` numbers of theta in a row
struct Bounds {
  std::string name;
  int count;
  double low, high;
  std::string rule;
};

// what numbers of theta must be together, and the sentence where they are not
struct Rule {
  enum class Kind { length, order, inertia };
  Kind kind;
  int at, more;  // length: `more` numbers from `at` on; inertia: moments, and products at `more`
  std::string sentence;
};

class EnginePool {
 public:
  // an engine with the memory its calls need
  struct PooledEngine {
    explicit PooledEngine(const Engine& e) : engine(e) {}
    Engine engine;
    Scratch q, v, dq, dv, theta, theta_dot, status, status_step, unrolled, ties;
  };
  // a member for the length of one call
  class Lease {
   public:
    explicit Lease(EnginePool& crew) : crew_(crew), member_(crew.take()) {}
    ~Lease() { crew_.give_back(std::move(member_)); }
    Lease(const Lease&) = delete;
    Lease& operator=(const Lease&) = delete;
    PooledEngine* operator->() { return member_.get(); }

   private:
    EnginePool& crew_;
    std::unique_ptr<PooledEngine> member_;
  };

  EnginePool(const Engine& engine, std::map<unsigned, std::string> sentences,
             std::vector<Bounds> bounds, std::vector<Rule> rules)
      : sentences(std::move(sentences)),
        bounds(std::move(bounds)),
        rules(std::move(rules)),
        first_(engine) {}

  const Layout& layout() const { return first_.layout(); }
  int real_bytes() const { return first_.real_bytes(); }
  int theta_size() const { return first_.theta_size(); }

  // what a status bit means, and what parameters may be
  const std::map<unsigned, std::string> sentences;
  const std::vector<Bounds> bounds;
  const std::vector<Rule> rules;

 private:
  std::unique_ptr<PooledEngine> take() {
    {
      std::lock_guard<std::mutex> hold(mutex_);
      if (!idle_.empty()) {
        std::unique_ptr<PooledEngine> m = std::move(idle_.back());
        idle_.pop_back();
        return m;
      }
    }
    return std::make_unique<PooledEngine>(first_);
  }
  void give_back(std::unique_ptr<PooledEngine> m) {
    for (Scratch* s : {&m->q, &m->v, &m->dq, &m->dv, &m->theta, &m->theta_dot}) s->trim();
    std::lock_guard<std::mutex> hold(mutex_);
    idle_.push_back(std::move(m));
  }

  const Engine first_;
  std::mutex mutex_;
  std::vector<std::unique_ptr<PooledEngine>> idle_;
};

}  // namespace fb
