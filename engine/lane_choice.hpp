// Whether the worlds of a block are run in lanes or one by one: what a step took in each way decides.
// Both give the same bits.  Lanes wait for the slowest of them and share one set of rows, which does
// not pay where worlds have many contacts, or each its own.
#pragma once
#include <vector>

namespace fb {

class LaneChoice {
 public:
  // what one thread spent, in lanes and one by one, and the steps of all its worlds
  struct Spent {
    double seconds[2] = {0, 0};
    long steps[2] = {0, 0};
  };

  bool alone() const { return alone_; }
  // steps of one block of worlds that are to be run in the other way, at most `steps`: as many as the
  // time that is set aside for trials pays for
  long trial(long steps, long worlds) const {
    if (seconds_ <= 0 || steps == 0) return 0;
    const double cost = cost_[!alone_] * double(worlds);
    if (cost <= 0) return 1;
    const double paid = (kTrials * seconds_ - tried_) / cost;
    if (paid < 1) return 0;
    const long most = steps < kTrialSteps ? steps : kTrialSteps;
    return paid < double(most) ? long(paid) : most;
  }
  // the block that is tried next: one after another
  long next_block() { return block_++; }
  void note(const std::vector<Spent>& threads) {
    Spent sum;
    for (const Spent& t : threads)
      for (int way = 0; way < 2; ++way) {
        sum.seconds[way] += t.seconds[way];
        sum.steps[way] += t.steps[way];
      }
    for (int way = 0; way < 2; ++way) {
      seconds_ += sum.seconds[way];
      if (sum.steps[way] == 0) continue;
      const double now = sum.seconds[way] / double(sum.steps[way]);
      cost_[way] = cost_[way] > 0 ? kKept * cost_[way] + (1 - kKept) * now : now;
    }
    tried_ += sum.seconds[!alone_];
    if (cost_[!alone_] > 0 && cost_[!alone_] < kGain * cost_[alone_]) alone_ = !alone_;
  }

 private:
  // the share of the time that trials may take, the steps of one, the weight of what was known before,
  // and the share of its cost to which a change must lower a step
  static constexpr double kTrials = 0.02, kKept = 0.5, kGain = 0.9;
  static constexpr long kTrialSteps = 4;
  bool alone_ = false;
  long block_ = 0;
  double cost_[2] = {0, 0}, seconds_ = 0, tried_ = 0;
};

}  // namespace fb
