// A fixed set of threads that share out numbered blocks of work.  Blocks are independent, so the
// order in which they are taken is free.
#pragma once
#include <unistd.h>

#include <atomic>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace fb {

class Pool {
 public:
  explicit Pool(int threads) : process_(getpid()) {
    try {
      for (int i = 1; i < threads; ++i) workers_.emplace_back([this, i] { serve(i); });
    } catch (...) {
      stop();
      throw;
    }
  }
  ~Pool() { stop(); }
  // threads do not survive a fork: a pool is of use only in the process that made it
  bool usable() const { return process_ == getpid(); }
  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;

  // call work(thread, block) for every block; returns when all are done
  template <class F>
  void run(long blocks, F&& work) {
    if (workers_.empty() || blocks < 2) {
      for (long b = 0; b < blocks; ++b) work(0, b);
      return;
    }
    work_ = [&](int thread, long block) { work(thread, block); };
    {
      std::lock_guard<std::mutex> hold(mutex_);
      next_ = 0;
      blocks_ = blocks;
      busy_ = int(workers_.size());
      ++round_;
    }
    wake_.notify_all();
    take(0);
    std::unique_lock<std::mutex> hold(mutex_);
    done_.wait(hold, [this] { return busy_ == 0; });
  }

 private:
  void stop() {
    {
      std::lock_guard<std::mutex> hold(mutex_);
      stop_ = true;
    }
    wake_.notify_all();
    for (std::thread& t : workers_) t.join();
    workers_.clear();
  }
  void take(int thread) {
    for (long b = next_++; b < blocks_; b = next_++) work_(thread, b);
  }
  void serve(int thread) {
    long seen = 0;
    for (;;) {
      {
        std::unique_lock<std::mutex> hold(mutex_);
        wake_.wait(hold, [&] { return stop_ || round_ != seen; });
        if (stop_) return;
        seen = round_;
      }
      take(thread);
      std::lock_guard<std::mutex> hold(mutex_);
      if (--busy_ == 0) done_.notify_one();
    }
  }

  pid_t process_;
  std::vector<std::thread> workers_;
  std::mutex mutex_;
  std::condition_variable wake_, done_;
  std::function<void(int, long)> work_;
  std::atomic<long> next_{0};
  long blocks_ = 0, round_ = 0;
  int busy_ = 0;
  bool stop_ = false;
};

}  // namespace fb
