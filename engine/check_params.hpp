// The one checker of parameter values, for every way into the engine. The rules are the schema's.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "core/model/layout.hpp"

namespace fb {

// what is wrong with a number of a parameter, or with numbers that go together
struct Violation {
  std::string parameter;
  int index;     // row of the parameter
  long world;    // -1 where all worlds share their parameters
  double value;  // the number at fault; of a range its lower end, of an inertia its eigenvalue
  std::string rule;
  std::string message;  // one sentence, which begins with the parameter
};

// parameters as rows of a flat array
template <class R>
struct ThetaRows {
  const R* data;
  long worlds;      // rows
  bool shared;      // one row, which serves all worlds
  double rounding;  // relative error of the numbers as they were given
};

class ParameterChecker {
 public:
  // bodies: their names, for messages
  ParameterChecker(const Layout& layout, std::vector<std::string> bodies);

  int theta_size() const { return size_; }
  // the first violation: by parameter, then by world, then by row.  given: for each parameter
  // whether it is looked at; empty for all
  template <class R>
  std::optional<Violation> check(const ThetaRows<R>& theta, const std::vector<bool>& given) const;

 private:
  struct Parameter {
    const char *name, *unit;
    ParameterRule rule;
    int start, rows, columns;
    std::vector<bool> in_force;  // the rows in which the rule is in force
  };
  template <class R>
  std::optional<Violation> check_row(const Parameter& p, int row, const R* x) const;
  template <class R>
  std::optional<Violation> check_inertia(int body, long world, const ThetaRows<R>& theta) const;

  std::vector<Parameter> parameters_;
  std::vector<std::string> bodies_;
  int moments_ = 0, products_ = 0;  // places among the parameters
  int size_ = 0;
};

}  // namespace fb
