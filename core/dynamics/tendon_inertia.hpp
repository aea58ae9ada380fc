// Armature on tendons: the acceleration of a length at zero joint accelerations, and what armature adds to
// the joint inertia and to inverse dynamics.  Proof: docs/derivations/tendon.md.
#pragma once
#include "core/dynamics/tendon.hpp"

namespace fb::FB_ISA {

// accelerations of all links at zero joint accelerations, without gravity, in w.twist2
template <class T>
FB_FN void bias_accelerations(const Layout& s, Work<T>& w) {
  w.twist2[0] = zero_motion<T>();
  for (int l = 1; l < s.nlink; ++l) w.twist2[l] = w.twist2[s.link_parent[l]] + w.link[l].c;
}

// (E.23)  a straight part: its ends' relative velocity and acceleration, those across it, and the
// acceleration of its length, n . acc + |across|^2 / length
template <class T>
struct PartMotion {
  Vec3<T> rel, acc, across;
  T bias;
};
template <class T>
FB_INLINE PartMotion<T> part_motion(const TendonPart<T>& x, const Work<T>& w) {
  const Motion<T>&VA = w.link[x.linkA].v, &VB = w.link[x.linkB].v;
  PartMotion<T> y;
  y.rel = (VB.lin + cross(VB.ang, x.pb)) - (VA.lin + cross(VA.ang, x.pa));
  y.acc = point_acceleration(VB, w.twist2[x.linkB], x.pb) -
          point_acceleration(VA, w.twist2[x.linkA], x.pa);
  y.across = y.rel - x.n * dot(x.n, y.rel);
  y.bias = dot(x.n, y.acc) + dot(y.across, y.across) * x.inverse;
  return y;
}
// given bias_bar of the part from site i of a path, add to those of links and sites
template <class T, class P>
FB_FN void part_motion_adjoint(const Model<T, P>& m, int i, const TendonPart<T>& x,
                               const PartMotion<T>& y, T bias_bar, Work<T>& w) {
  const T two = T(Real<T>(2)), square = dot(y.across, y.across);
  const Vec3<T> acc_bar = x.n * bias_bar, rel_bar = y.across * (bias_bar * x.inverse * two);
  // n turns by what is across of the change of p_b - p_a
  const Vec3<T> n_bar = (y.acc - y.rel * (dot(x.n, y.rel) * x.inverse * two)) * bias_bar;
  const Vec3<T> e_bar = (n_bar - x.n * dot(x.n, n_bar)) * x.inverse -
                        x.n * (bias_bar * square * x.inverse * x.inverse);
  const auto end = [&](int link, int site, Vec3<T> p, Real<T> sign) {
    const T side = T(sign);
    LinkBar<T>& b = w.bar[link];
    const Vec3<T> p_bar = point_acceleration_adjoint(
        w.link[link].v, w.twist2[link], p, acc_bar * side, rel_bar * side, b.v_bar, b.a_bar);
    add_site_bar(link, site, p, p_bar + e_bar * side, w);
  };
  end(x.linkB, m.s.wrap_obj[i + 1], x.pb, Real<T>(1));
  end(x.linkA, m.s.wrap_obj[i], x.pa, Real<T>(-1));
}

// visit(part, first site of it, entry that divides it, share): straight parts of a spatial tendon
template <class T, class P, class F>
FB_INLINE void for_heavy_parts(const Model<T, P>& m, int t, const Work<T>& w, F&& visit) {
  if (!is_spatial(m.s, t)) return;
  for_tendon_parts(m.s, t, [&](int i, int divisor) {
    const T share = divisor < 0 ? T(1) : T(1) / T(m.theta.wrap_prm[divisor]);
    visit(tendon_part(m, m.s.wrap_obj[i], m.s.wrap_obj[i + 1], w), i, divisor, share);
  });
}
// of all tendons with armature: none goes round a geom, and the moments of fixed ones are constant
template <class T, class P>
FB_FN void tendon_biases(const Model<T, P>& m, Work<T>& w) {
  TendonWork<T>& y = w.tendon;
  bias_accelerations(m.s, w);
  for (int t = 0; t < m.s.ntendon; ++t) {
    y.bias[t] = y.bias_bar[t] = T(0);
    if (!m.s.tendon_heavy[t]) continue;
    for_heavy_parts(m, t, w, [&](const TendonPart<T>& x, int, int, T share) {
      y.bias[t] = mul_add(part_motion(x, w).bias, share, y.bias[t]);
    });
  }
}
template <class T>
FB_INLINE bool has_bias_bars(const Layout& s, const TendonWork<T>& y) {
  Mask<T> none(true);
  for (int t = 0; t < s.ntendon; ++t) none = none & is_nothing(y.bias_bar[t]);
  return !all(none);
}
// (E.26)  given their cotangents in w, add to those of (q, v), q tangent, and of the parameters: one sweep
// of links that move without joint accelerations; leaves them at zero
template <class T, class P>
FB_FN void tendon_biases_adjoint(const Model<T, P>& m, const T* q, const T* v,
                                 const ActuationBars<T>& bars, Work<T>& w) {
  const Layout& s = m.s;
  TendonWork<T>& y = w.tendon;
  if (!has_bias_bars(s, y)) return;
  bias_accelerations(s, w);
  for (int l = 0; l < s.nlink; ++l) {
    LinkBar<T>& b = w.bar[l];
    b.w_bar = b.y_bar = b.v_bar = b.a_bar = b.pose = zero_force<T>();
  }
  for (int t = 0; t < s.ntendon; ++t) {
    if (!s.tendon_heavy[t]) continue;
    for_heavy_parts(m, t, w, [&](const TendonPart<T>& x, int i, int divisor, T share) {
      const PartMotion<T> part = part_motion(x, w);
      part_motion_adjoint(m, i, x, part, y.bias_bar[t] * share, w);
      if (w.theta_bar && divisor >= 0)
        w.theta_bar->wrap_prm[divisor] -= y.bias_bar[t] * part.bias * (share * share);
    });
    y.bias_bar[t] = T(0);
  }
  T* still = w.unit_rate;
  for (int d = 0; d < s.nv; ++d) still[d] = T(0);
  tree_adjoint<T, P>(m, {v, still, still, nullptr}, w, bars.q, bars.v);
  if (!w.derived_bar) return;
  // forces between links hold each other: nothing is left for gravity
  add3(-w.bar[0].a_bar.lin, w.theta_bar->gravity);
  for (int l = 1; l < s.nlink; ++l) link_pose_adjoint(m, l, q, w);
}

// (E.27)  visit(i, j): entries of J of the pairs of dofs that armature couples.  MuJoCo's law has those of
// one path to the root alone
template <class F>
FB_INLINE void for_inertia_pairs(const Layout& s, int t, F&& visit) {
  const int first = s.tendon_dofadr[t], end = first + s.tendon_dofnum[t];
  for (int i = first; i < end; ++i)
    for (int j = i; j < end; ++j) {
      int d = s.tendon_dof[i];
      while (d > s.tendon_dof[j]) d = s.dof_parent[d];
      if (!s.soft || d == s.tendon_dof[j]) visit(i, j);
    }
}
// M += a J' J, dense
template <class T, class P>
FB_FN void add_tendon_mass(const Model<T, P>& m, const Work<T>& w, T* M) {
  const Layout& s = m.s;
  const TendonWork<T>& y = w.tendon;
  for (int t = 0; t < s.ntendon; ++t) {
    if (!carries_inertia(s, t)) continue;
    for_inertia_pairs(s, t, [&](int i, int j) {
      const int d = s.tendon_dof[i], e = s.tendon_dof[j];
      M[d * s.nv + e] += y.J[i] * m.theta.tendon_armature[t] * y.J[j];
      M[e * s.nv + d] = M[d * s.nv + e];
    });
  }
}
// given M_bar(d, e), add to the cotangents of moments and armature
template <class T, class P, class F>
FB_FN void add_tendon_mass_adjoint(const Model<T, P>& m, F&& M_bar, Work<T>& w) {
  const Layout& s = m.s;
  TendonWork<T>& y = w.tendon;
  for (int t = 0; t < s.ntendon; ++t) {
    if (!carries_inertia(s, t)) continue;
    const T armature = T(m.theta.tendon_armature[t]);
    T sum = T(0);
    for_inertia_pairs(s, t, [&](int i, int j) {
      const int d = s.tendon_dof[i], e = s.tendon_dof[j];
      const T bar = i == j ? M_bar(d, d) : M_bar(d, e) + M_bar(e, d);
      sum += y.J[i] * y.J[j] * bar;
      y.J_bar[i] += y.J[j] * bar * armature;
      y.J_bar[j] += y.J[i] * bar * armature;
    });
    if (w.theta_bar) w.theta_bar->tendon_armature[t] += sum;
  }
}

// (E.28)  tau += a J' (J acc + bias)
template <class T, class P>
FB_FN void add_tendon_inverse(const Model<T, P>& m, const T* acc, T* tau, const Work<T>& w) {
  const Layout& s = m.s;
  const TendonWork<T>& y = w.tendon;
  for (int t = 0; t < s.ntendon; ++t) {
    if (!carries_inertia(s, t)) continue;
    const T armature = T(m.theta.tendon_armature[t]);
    for_tendon_dofs(s, t, [&](int k, int d) { tau[d] += y.J[k] * armature * y.bias[t]; });
    for_inertia_pairs(s, t, [&](int i, int j) {
      const int d = s.tendon_dof[i], e = s.tendon_dof[j];
      const T number = y.J[i] * armature * y.J[j];
      tau[d] = mul_add(number, acc[e], tau[d]);
      if (i != j) tau[e] = mul_add(number, acc[d], tau[e]);
    });
  }
}
// given tau_bar, add to acc_bar and to the cotangents of moments, biases and armature
template <class T, class P>
FB_FN void add_tendon_inverse_adjoint(const Model<T, P>& m, const T* acc, const T* tau_bar,
                                      T* acc_bar, Work<T>& w) {
  const Layout& s = m.s;
  TendonWork<T>& y = w.tendon;
  for (int t = 0; t < s.ntendon; ++t) {
    if (!carries_inertia(s, t)) continue;
    const T armature = T(m.theta.tendon_armature[t]);
    T force_bar = T(0);
    for_tendon_dofs(s, t, [&](int k, int d) {
      force_bar = mul_add(y.J[k], tau_bar[d], force_bar);
      y.J_bar[k] += tau_bar[d] * armature * y.bias[t];
    });
    y.bias_bar[t] += force_bar * armature;
    if (w.theta_bar) w.theta_bar->tendon_armature[t] += force_bar * y.bias[t];
    for_inertia_pairs(s, t, [&](int i, int j) {
      const int d = s.tendon_dof[i], e = s.tendon_dof[j];
      const T number = y.J[i] * armature * y.J[j];
      acc_bar[e] = mul_add(number, tau_bar[d], acc_bar[e]);
      if (i != j) acc_bar[d] = mul_add(number, tau_bar[e], acc_bar[d]);
    });
  }
  add_tendon_mass_adjoint(m, [&](int d, int e) { return tau_bar[d] * acc[e]; }, w);
}

// M = L D L' in place, dense; the diagonal holds 1 / D
template <class T>
FB_FN void factor_dense(int n, T* M) {
  for (int k = 0; k < n; ++k) {
    M[k * n + k] = T(1) / M[k * n + k];
    for (int i = k + 1; i < n; ++i) {
      const T l = M[i * n + k] * M[k * n + k];
      for (int j = k + 1; j <= i; ++j) M[i * n + j] = sub_mul(M[i * n + j], l, M[j * n + k]);
    }
    for (int i = k + 1; i < n; ++i) M[i * n + k] = M[i * n + k] * M[k * n + k];
  }
}
// x = M^-1 x
template <class T>
FB_FN void solve_dense(int n, const T* M, T* x) {
  for (int i = 0; i < n; ++i)
    for (int j = 0; j < i; ++j) x[i] = sub_mul(x[i], M[i * n + j], x[j]);
  for (int i = n - 1; i >= 0; --i) {
    x[i] = x[i] * M[i * n + i];
    for (int j = i + 1; j < n; ++j) x[i] = sub_mul(x[i], M[j * n + i], x[j]);
  }
}

}  // namespace fb::FB_ISA
