// Equalities: connect and weld between bodies, coupled joints.
// Proof: docs/derivations/constraint.md.
#pragma once
#include "core/contact/constraint.hpp"

namespace fb::FB_ISA {

// body of side 0 or 1 of a connect or weld
FB_INLINE int equality_body(const Layout& s, int eq, int side) {
  const int obj = side == 0 ? s.eq_obj1[eq] : s.eq_obj2[eq];
  return s.eq_site[eq] ? s.site_body[obj] : obj;
}

// (L.5)  rotation vector of R1 R2', in the world, through the quaternion of the product
template <class T>
FB_FN Vec3<T> rotation_error(const Mat3<T>& R1, const Mat3<T>& R2) {
  Mat3<T> E;
  for (int r = 0; r < 3; ++r)
    for (int c = 0; c < 3; ++c)
      E.a[3 * r + c] = R1.a[3 * r] * R2.a[3 * c] + R1.a[3 * r + 1] * R2.a[3 * c + 1] +
                       R1.a[3 * r + 2] * R2.a[3 * c + 2];
  // axis times 2 sin(angle), and 2 cos(angle); exact up to a half turn, where the direction is lost
  const Vec3<T> a{E.a[7] - E.a[5], E.a[2] - E.a[6], E.a[3] - E.a[1]};
  const T c = E.a[0] + E.a[4] + E.a[8] - T(1);
  const T n2 = dot(a, a);
  const Mask<T> small = (n2 < T(Real<T>(1e-8))) & (c > T(0));
  const T n = sqrt(select(small | !(n2 > T(Real<T>(1e-30))), T(1), n2));
  const T f = select(small, T(Real<T>(0.5)) + n2 * Real<T>(1.0 / 48.0), atan2_upper(n, c) / n);
  return a * f;
}

// (L.4)  connect: p1 - p2 along the world's axes; a weld adds the rotation vector of R1 R2'
template <class T, class P>
FB_FN void equality_data(const Model<T, P>& m, const Options<Real<T>>& o, const RowGroup& k,
                         const Work<T>& w, RowData<T>& e) {
  const Layout& s = m.s;
  const LinkWork<T>&A = w.link[k.linkA], &B = w.link[k.linkB];
  const int eq = k.source;
  const Vec3<T> p1 = A.r + mul(A.R, lift3<P>(m.derived.eq_p1 + 3 * eq));
  const Vec3<T> p2 = B.r + mul(B.R, lift3<P>(m.derived.eq_p2 + 3 * eq));
  const bool rotation = k.kind == kWeldRotationRows;
  Vec3<T> phi;
  if (rotation) {
    const Mat3<T> R1 = mul(A.R, m.derived.eq_R1 + 9 * eq), R2 = mul(B.R, m.derived.eq_R2 + 9 * eq);
    phi = rotation_error(R1, R2);
  } else {
    phi = (p1 - p2) + (origin_of(s, w, k.linkA) - origin_of(s, w, k.linkB));
  }
  const T v[3] = {phi.x, phi.y, phi.z};
  const T weight = row_weight(m, equality_body(s, eq, 0), equality_body(s, eq, 1), rotation);
  for (int i = 0; i < 3; ++i) {
    const Vec3<T> d{T(i == 0), T(i == 1), T(i == 2)};
    e.F[0][i] = rotation ? Force<T>{d, zero3<T>()} : Force<T>{cross(p1, d), d};
    e.F[1][i] = rotation ? Force<T>{-d, zero3<T>()} : Force<T>{-cross(p2, d), -d};
    e.lo[i] = -unbounded<T>();
    e.hi[i] = unbounded<T>();
  }
  gap_row_data<3>(m, gap_law(o, true), v, weight, e);
}

// (L.10)  given bars of the rows' wrenches and of b, add to the poses of the links and to the anchors
template <class T, class P>
FB_FN void equality_data_adjoint(const Model<T, P>& m, const Options<Real<T>>& o, const RowGroup& k,
                                 const RowBars<T>& bars, const Motion<T> F_bar[2][3], Work<T>& w) {
  const Layout& s = m.s;
  const LinkWork<T>&A = w.link[k.linkA], &B = w.link[k.linkB];
  const int eq = k.source;
  const bool rotation = k.kind == kWeldRotationRows;
  const T weight = row_weight(m, equality_body(s, eq, 0), equality_body(s, eq, 1), rotation);
  const auto gap_bars = [&](Vec3<T> phi) {
    const T v[3] = {phi.x, phi.y, phi.z};
    return lift3<T>(gap_row_bars<3>(m, gap_law(o, true), v, weight, bars, k.row, w).phi);
  };
  LinkBar<T>&a = w.bar[k.linkA], &b = w.bar[k.linkB];
  if (rotation) {
    const Mat3<T> R1 = mul(A.R, m.derived.eq_R1 + 9 * eq), R2 = mul(B.R, m.derived.eq_R2 + 9 * eq);
    // e = log(R1 R2')
    const Vec3<T> e = rotation_error(R1, R2);
    const Vec3<T> e_bar = gap_bars(e);
    // R1 turns e from the left, R2 from the right and the other way
    const Vec3<T> t1 = log_adjoint(e, e_bar, 1), t2 = -log_adjoint(e, e_bar, -1);
    a.pose.ang += t1;
    b.pose.ang += t2;
    if (!w.derived_bar) return;
    add_rotation_bar(mul_transposed(A.R, t1), m.derived.eq_R1 + 9 * eq,
                     w.derived_bar->eq_R1 + 9 * eq);
    add_rotation_bar(mul_transposed(B.R, t2), m.derived.eq_R2 + 9 * eq,
                     w.derived_bar->eq_R2 + 9 * eq);
    return;
  }
  const Vec3<T> p1 = A.r + mul(A.R, lift3<P>(m.derived.eq_p1 + 3 * eq));
  const Vec3<T> p2 = B.r + mul(B.R, lift3<P>(m.derived.eq_p2 + 3 * eq));
  const Vec3<T> phi = (p1 - p2) + (origin_of(s, w, k.linkA) - origin_of(s, w, k.linkB));
  // phi = p1 - p2; F_A = (p1 x d, d), F_B = -(p2 x d, d)
  Vec3<T> p1_bar = gap_bars(phi), p2_bar = -p1_bar;
  for (int i = 0; i < 3; ++i) {
    const Vec3<T> d{T(i == 0), T(i == 1), T(i == 2)};
    p1_bar += cross(d, F_bar[0][i].ang);
    p2_bar -= cross(d, F_bar[1][i].ang);
  }
  a.pose += Force<T>{cross(p1, p1_bar), p1_bar};
  b.pose += Force<T>{cross(p2, p2_bar), p2_bar};
  if (!w.derived_bar) return;
  add3(mul_transposed(A.R, p1_bar), w.derived_bar->eq_p1 + 3 * eq);
  add3(mul_transposed(B.R, p2_bar), w.derived_bar->eq_p2 + 3 * eq);
}

// a connect or weld: its wrenches, then its data
template <class T, class P>
FB_FN void body_equality_adjoint(const Model<T, P>& m, const Options<Real<T>>& o, int index,
                                 const RowBars<T>& bars, Work<T>& w) {
  const RowGroup& k = w.group[index];
  Motion<T> F_bar[2][3];
  for (int side = 0; side < 2; ++side) wrench_adjoint(k, w.data[index], side, bars, w, F_bar[side]);
  equality_data_adjoint(m, o, k, bars, F_bar, w);
}

// impulses that turn with the links of a connect or weld: pose wrenches for unit twists of each link
template <class T, class P>
FB_FN void equality_stiffness(const Model<T, P>& m, const Options<Real<T>>& o, int index,
                              Work<T>& w, GroupStiffness<T>& H) {
  const RowGroup& k = w.group[index];
  const T zero[3] = {T(0), T(0), T(0)};
  const RowBars<T> bars = row_bars<T>(k.row, w.solution.lam + k.row, zero, zero, nullptr);
  LinkBar<T>&a = w.bar[k.linkA], &b = w.bar[k.linkB];
  for (int in = 0; in < 2; ++in)
    for (int c = 0; c < 6; ++c) {
      clear_bar(a);
      clear_bar(b);
      (in == 0 ? a : b).w = unit_motion<T>(c);
      body_equality_adjoint(m, o, index, bars, w);
      H.column[0][in][c] = a.pose;
      H.column[1][in][c] = b.pose;
    }
}
// the velocity of row i and its gap: cotangents of the two links for z = 1
template <class T, class P>
FB_FN void equality_row_bars(const Model<T, P>& m, const Options<Real<T>>& o, int index, int i,
                             Work<T>& w) {
  const RowGroup& k = w.group[index];
  const T zero[3] = {T(0), T(0), T(0)}, z[3] = {T(i == 0), T(i == 1), T(i == 2)};
  const T *lam = w.solution.lam + k.row, beta[3] = {-z[0], -z[1], -z[2]};
  const T R[3] = {-(z[0] * lam[0]), -(z[1] * lam[1]), -(z[2] * lam[2])};
  RowBars<T> bars = row_bars<T>(k.row, zero, z, zero, nullptr);
  bars.beta = beta;
  bars.R = R;
  clear_bar(w.bar[k.linkA]);
  clear_bar(w.bar[k.linkB]);
  body_equality_adjoint(m, o, index, bars, w);
}

// inverse weight of a coupling: of both joints
template <class T, class P>
FB_INLINE T coupling_weight(const Model<T, P>& m, const RowGroup& k) {
  const P first = m.theta.dof_invweight0[k.start[0]];
  return T(k.start[1] < 0 ? first : first + m.theta.dof_invweight0[k.start[1]]);
}
// q1 - q1_0 = c0 + c1 y + ... + c4 y^4 with y = q2 - q2_0
template <class T, class P>
FB_FN void joint_equality_data(const Model<T, P>& m, const Options<Real<T>>& o, const RowGroup& k,
                               const T* q, RowData<T>& e) {
  const Layout& s = m.s;
  joint_row_data(m, o, k, e);
  const P* c = m.theta.eq_data + 11 * k.source;
  const int q1 = s.jnt_qadr[s.eq_obj1[k.source]], j2 = s.eq_obj2[k.source];
  T phi = q[q1] - T(m.theta.qpos0[q1]) - T(c[0]);
  e.coef[0] = T(1);
  if (j2 >= 0) {
    const int q2 = s.jnt_qadr[j2];
    const T y = q[q2] - T(m.theta.qpos0[q2]);
    phi -= (((y * c[4] + T(c[3])) * y + T(c[2])) * y + T(c[1])) * y;
    e.ncoef = 2;
    e.cdof[1] = k.start[1];
    e.coef[1] =
        -(((y * (Real<T>(4) * c[4]) + T(c[3]) * Real<T>(3)) * y + T(c[2]) * Real<T>(2)) * y +
          T(c[1]));
  }
  e.lo[0] = -unbounded<T>();
  gap_row_data<1>(m, gap_law(o, true), &phi, coupling_weight(m, k), e);
}
// (L.9)  phi = q1 - q1_0 - p(y), coefficients 1 and -p'(y), y = q2 - q2_0
template <class T, class P>
FB_FN void joint_equality_adjoint(const Model<T, P>& m, const Options<Real<T>>& o,
                                  const RowGroup& k, const StepPoint<T>& x, const RowBars<T>& bars,
                                  Work<T>& w, T* q_tan) {
  const Layout& s = m.s;
  const T lam = bars.lam[k.row - bars.first], z = bars.z[k.row - bars.first];
  // phi, p'(y) and p''(y)
  const P* c = m.theta.eq_data + 11 * k.source;
  const int q1 = s.jnt_qadr[s.eq_obj1[k.source]], j2 = s.eq_obj2[k.source];
  const bool pair = j2 >= 0;
  const int q2 = pair ? s.jnt_qadr[j2] : 0, d2 = pair ? k.start[1] : 0;
  const T y = pair ? x.q[q2] - T(m.theta.qpos0[q2]) : T(0);
  T power[5] = {T(1), y, y * y, y * y * y, y * y * y * y}, phi = x.q[q1] - T(m.theta.qpos0[q1]);
  T slope = T(0), bend = T(0);
  for (int i = 0; i < 5; ++i) {
    if (i > 0 && !pair) break;
    phi -= power[i] * c[i];
    if (i > 0) slope += power[i - 1] * (c[i] * Real<T>(i));
    if (i > 1) bend += power[i - 2] * (c[i] * Real<T>(i * (i - 1)));
  }
  const T phi_bar =
      gap_row_bars<1>(m, gap_law(o, true), &phi, coupling_weight(m, k), bars, k.row, w).phi[0];
  q_tan[k.start[0]] += phi_bar;
  // the coefficient -p'(y) meets the rates of the second joint
  const T coef_bar = pair ? lam * bars.w_rate[d2] - z * x.v1[d2] : T(0);
  const T y_bar = -(slope * phi_bar + bend * coef_bar);
  if (pair) q_tan[d2] += y_bar;
  if (!w.theta_bar) return;
  // reference angles, and the coefficients of y^i
  w.theta_bar->qpos0[q1] -= phi_bar;
  if (pair) w.theta_bar->qpos0[q2] -= y_bar;
  T* out = w.theta_bar->eq_data + 11 * k.source;
  for (int i = 0; i < (pair ? 5 : 1); ++i) {
    out[i] -= power[i] * phi_bar;
    if (i > 0) out[i] -= power[i - 1] * Real<T>(i) * coef_bar;
  }
}

template <class T>
struct EqualityRows {
  // always there, in the order of the model
  template <class P>
  FB_FN static void collect(const Model<T, P>& m, const Options<Real<T>>&, const T*, Mask<T> alive,
                            Work<T>& w) {
    const Layout& s = m.s;
    for (int e = 0; e < s.neq; ++e) {
      const int a = s.eq_obj1[e], b = s.eq_obj2[e], type = s.eq_type[e];
      if (type == kNoEquality || type == kTendonEquality) continue;
      if (type == kJointEquality) {
        RowGroup& k = push_group(w, kJointEqualityRows, 1, e);
        k.linkA = s.jnt_link[a];
        k.linkB = b < 0 ? 0 : s.jnt_link[b];
        set_chains(s, k, s.jnt_dofadr[a], b < 0 ? -1 : s.jnt_dofadr[b]);
        w.geometry[w.ngroup - 1].active = alive;
        continue;
      }
      const int la = s.eq_site[e] ? s.site_link[a] : s.body_link[a];
      const int lb = s.eq_site[e] ? s.site_link[b] : s.body_link[b];
      if (la == lb) continue;
      for (int part = 0; part < (type == kWeld ? 2 : 1); ++part) {
        RowGroup& k = push_group(w, part ? kWeldRotationRows : kConnectRows, 3, e);
        k.linkA = la;
        k.linkB = lb;
        set_chains(s, k, s.link_lastdof[la], s.link_lastdof[lb]);
        w.geometry[w.ngroup - 1].active = alive;
      }
    }
  }

  template <class P>
  FB_FN static void data(const Model<T, P>& m, const Options<Real<T>>& o, int index, const T* q,
                         const Work<T>& w, RowData<T>& e) {
    const RowGroup& k = w.group[index];
    if (k.kind == kJointEqualityRows)
      joint_equality_data(m, o, k, q, e);
    else
      equality_data(m, o, k, w, e);
  }

  template <class P>
  FB_FN static void adjoint(const Model<T, P>& m, const Options<Real<T>>& o, GroupSpan span,
                            const StepPoint<T>& x, const RowBars<T>& bars, Work<T>& w, T* q_tan) {
    for (int i = span.from; i < span.to; ++i)
      if (w.group[i].kind == kJointEqualityRows)
        joint_equality_adjoint(m, o, w.group[i], x, bars, w, q_tan);
      else
        body_equality_adjoint(m, o, i, bars, w);
  }

  template <class P>
  FB_FN static void columns(const Model<T, P>& m, const Options<Real<T>>& o, int index,
                            const StepPoint<T>& x, Work<T>& w, LinearWork<T>& f) {
    const RowGroup& k = w.group[index];
    if (k.kind == kJointEqualityRows) {
      joint_stiffness_columns<EqualityRows<T>>(m, o, index, x, w, f);
      joint_row_columns<EqualityRows<T>>(m, o, index, x, w, f);
      return;
    }
    GroupStiffness<T> H;
    equality_stiffness(m, o, index, w, H);
    add_stiffness(m.s, k, H, T(m.theta.dt[0]), w, f);
    for (int i = 0; i < k.rows; ++i) {
      equality_row_bars(m, o, index, i, w);
      add_row_columns(m.s, k, k.row + i, w, f);
    }
  }
};

}  // namespace fb::FB_ISA
