#include "engine/check_params.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <utility>

namespace fb {
namespace {

// eigenvalues may lie below zero by this many times the rounding of the matrix
constexpr double kRounding = 64;

bool listed(int i, const int32_t* list, int n) { return std::find(list, list + n, i) != list + n; }

const char* name_of(ParameterRule rule) {
#define FB_X(name, ...) #name,
  static const char* const names[] = {FB_RULES(FB_X)};
#undef FB_X
  return names[int(rule)];
}
// how a refusal ends
std::string advice(ParameterRule rule) {
#define FB_X(name, least, text) text,
  static const char* const texts[] = {FB_RULES(FB_X)};
#undef FB_X
  return texts[int(rule)];
}

std::string number(double x) {
  char text[32];
  std::snprintf(text, sizeof text, "%g", x);
  return text;
}
std::string entry(const char* name, int row) {
  return std::string("params[\"") + name + "\"][" + std::to_string(row) + "]";
}

// the least eigenvalue of a symmetric matrix, by Jacobi's rotations
double least_eigenvalue(double (&a)[3][3]) {
  for (int sweep = 0; sweep < 12; ++sweep)
    for (const auto& [p, q] : {std::pair{0, 1}, {0, 2}, {1, 2}}) {
      if (a[p][q] == 0) continue;
      const double half = (a[q][q] - a[p][p]) / (2 * a[p][q]);
      const double t = std::copysign(1 / (std::abs(half) + std::hypot(half, 1.0)), half);
      const double c = 1 / std::hypot(t, 1.0), s = t * c;
      const int r = 3 - p - q;
      const double rp = a[r][p], rq = a[r][q];
      a[p][p] -= t * a[p][q];
      a[q][q] += t * a[p][q];
      a[p][q] = a[q][p] = 0;
      a[r][p] = a[p][r] = c * rp - s * rq;
      a[r][q] = a[q][r] = s * rp + c * rq;
    }
  return std::min({a[0][0], a[1][1], a[2][2]});
}

}  // namespace

ParameterChecker::ParameterChecker(const Layout& s, std::vector<std::string> bodies)
    : bodies_(std::move(bodies)) {
  const auto add = [&](Parameter p, auto&& in_force) {
    p.start = size_;
    for (int i = 0; i < p.rows; ++i) p.in_force.push_back(in_force(i));
    if (p.rule == ParameterRule::moments) moments_ = int(parameters_.size());
    if (p.rule == ParameterRule::products) products_ = int(parameters_.size());
    size_ += p.rows * p.columns;
    parameters_.push_back(std::move(p));
  };
#define FB_X(name, rows, columns, unit, rule, where, ...)                    \
  add({#name, unit, ParameterRule::rule, 0, rows, columns, {}}, [&](int i) { \
    (void)i;                                                                 \
    return where;                                                            \
  });
  FB_PARAMETERS(FB_X)
#undef FB_X
}

template <class R>
std::optional<Violation> ParameterChecker::check(const ThetaRows<R>& theta,
                                                 const std::vector<bool>& given) const {
  const auto asked = [&](int k) { return given.empty() || given[k]; };
  for (int k = 0; k < kParameters; ++k) {
    const Parameter& p = parameters_[k];
    const bool inertia = k == products_ && (asked(moments_) || asked(products_));
    if (!asked(k) && !inertia) continue;
    for (long world = 0; world < theta.worlds; ++world)
      for (int i = 0; i < p.rows; ++i) {
        std::optional<Violation> found;
        if (asked(k)) found = check_row(p, i, theta.data + world * size_ + p.start + i * p.columns);
        if (!found && inertia) found = check_inertia(i, world, theta);
        if (!found) continue;
        found->world = theta.shared ? -1 : world;
        return found;
      }
  }
  return std::nullopt;
}

// one row of a parameter by itself
template <class R>
std::optional<Violation> ParameterChecker::check_row(const Parameter& p, int row,
                                                     const R* x) const {
  const auto refuse = [&](double value, const std::string& what, ParameterRule rule) {
    return Violation{p.name, row, -1, value, name_of(p.rule), what + "; " + advice(rule)};
  };
  // of the whole parameter, and of this row
  const auto refuse_all = [&](double value, const std::string& what, ParameterRule rule) {
    return refuse(value, std::string("params[\"") + p.name + "\"] " + what, rule);
  };
  const auto refuse_row = [&](double value, const std::string& what) {
    return refuse(value, entry(p.name, row) + " " + what, p.rule);
  };
  const bool in_force = p.in_force[row];
  // ends of a range that limits nothing may be infinite
  const bool open = p.rule == ParameterRule::range && !in_force;
  for (int i = 0; i < p.columns; ++i)
    if (open ? std::isnan(x[i]) : !std::isfinite(x[i]))
      return refuse_all(x[i], "holds a NaN or infinity", ParameterRule::any);
  const R *end = x + p.columns, *least = std::min_element(x, end), *most = std::max_element(x, end);
  switch (p.rule) {
    case ParameterRule::any:
    case ParameterRule::products:
      break;
    case ParameterRule::positive:
      if (*least <= 0) return refuse_all(*least, "is " + number(*least) + " " + p.unit, p.rule);
      break;
    case ParameterRule::not_negative:
    case ParameterRule::moments:
    case ParameterRule::fraction:
    case ParameterRule::friction_loss:
    case ParameterRule::tendon_inertia:
      if (*least < 0)
        return refuse_all(*least, "holds " + number(*least) + " " + p.unit,
                          ParameterRule::not_negative);
      if (p.rule == ParameterRule::fraction && *most > 1)
        return refuse_all(*most, "holds " + number(*most), p.rule);
      if (p.rule == ParameterRule::friction_loss && !in_force && *most > 0)
        return refuse_row(*most,
                          "is > 0, but the model was loaded with none there, so it has no "
                          "friction row");
      if (p.rule == ParameterRule::tendon_inertia && !in_force && *most > 0)
        return refuse_row(*most, "is > 0, but the model was loaded with none there");
      break;
    case ParameterRule::nonzero:
      if (std::find(x, end, R(0)) != end) return refuse_all(0, "holds 0", p.rule);
      break;
    case ParameterRule::quaternion:
    case ParameterRule::axis:
      if (in_force && *least == 0 && *most == 0) return refuse_row(0, "is zero");
      break;
    case ParameterRule::range:
      if (in_force && x[0] > x[1])
        return refuse_row(x[0], "is from " + number(x[0]) + " to " + number(x[1]));
  }
  return std::nullopt;
}

// moments and products of one body: its inertia has no eigenvalue below zero
template <class R>
std::optional<Violation> ParameterChecker::check_inertia(int body, long world,
                                                         const ThetaRows<R>& theta) const {
  const Parameter &moments = parameters_[moments_], &products = parameters_[products_];
  const R* row = theta.data + world * size_ + 3 * body;
  const double x = row[moments.start], y = row[moments.start + 1], z = row[moments.start + 2];
  const double xy = row[products.start], xz = row[products.start + 1], yz = row[products.start + 2];
  // moments alone are eigenvalues, and looked at one by one
  if (xy == 0 && xz == 0 && yz == 0) return std::nullopt;
  const double a = y * z - yz * yz, b = x * z - xz * xz, c = x * y - xy * xy;
  const double volume = x * a - xy * (xy * z - yz * xz) + xz * (xy * yz - y * xz);
  if (a >= 0 && b >= 0 && c >= 0 && volume >= 0) return std::nullopt;
  double matrix[3][3] = {{x, xy, xz}, {xy, y, yz}, {xz, yz, z}};
  const double least = least_eigenvalue(matrix);
  if (least >= -kRounding * theta.rounding * (x + y + z)) return std::nullopt;
  const std::string where = theta.shared ? "" : " of world " + std::to_string(world);
  return Violation{products.name,
                   body,
                   -1,
                   least,
                   name_of(products.rule),
                   entry(moments.name, body) + " and " + entry(products.name, body) +
                       " give body \"" + bodies_.at(body) + "\"" + where +
                       " an inertia with the eigenvalue " + number(least) + " " + products.unit +
                       "; " + advice(products.rule)};
}

template std::optional<Violation> ParameterChecker::check(const ThetaRows<double>&,
                                                          const std::vector<bool>&) const;
template std::optional<Violation> ParameterChecker::check(const ThetaRows<float>&,
                                                          const std::vector<bool>&) const;

}  // namespace fb
