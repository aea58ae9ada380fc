// Engines of one model for callers in any thread, without Python: each call takes an idle engine,
// or a new one where all are at work.
#pragma once
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "engine/check_params.hpp"
#include "engine/engine.hpp"

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

// an engine with the memory its calls need
struct PooledEngine {
  explicit PooledEngine(const Engine& e) : engine(e) {}
  Engine engine;
  Scratch x_bar, x_dot, theta_bar, theta_bar_dot, status, status_step;
};

class EnginePool {
 public:
  // an engine for the length of one call
  class Lease {
   public:
    explicit Lease(EnginePool& pool) : pool_(pool), own_(pool.take()) {}
    ~Lease() { pool_.give_back(std::move(own_)); }
    Lease(const Lease&) = delete;
    Lease& operator=(const Lease&) = delete;
    PooledEngine* operator->() { return own_.get(); }
    PooledEngine& operator*() { return *own_; }

   private:
    EnginePool& pool_;
    std::unique_ptr<PooledEngine> own_;
  };

  // bodies: their names, for messages
  EnginePool(const Engine& engine, std::vector<std::string> bodies)
      : checker(engine.layout(), std::move(bodies)), first_(engine) {}

  const Layout& layout() const { return first_.layout(); }
  int real_bytes() const { return first_.real_bytes(); }
  int theta_size() const { return first_.theta_size(); }
  int state_size() const { return first_.state_size(); }

  const ParameterChecker checker;

 private:
  std::unique_ptr<PooledEngine> take() {
    {
      std::lock_guard<std::mutex> hold(mutex_);
      if (!idle_.empty()) {
        std::unique_ptr<PooledEngine> own = std::move(idle_.back());
        idle_.pop_back();
        return own;
      }
    }
    return std::make_unique<PooledEngine>(first_);
  }
  void give_back(std::unique_ptr<PooledEngine> own) {
    for (Scratch* s : {&own->x_bar, &own->x_dot, &own->theta_bar, &own->theta_bar_dot}) s->trim();
    std::lock_guard<std::mutex> hold(mutex_);
    idle_.push_back(std::move(own));
  }

  const Engine first_;
  std::mutex mutex_;
  std::vector<std::unique_ptr<PooledEngine>> idle_;
};

}  // namespace fb
