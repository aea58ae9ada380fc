// Rows of joints and equalities: limits, dry friction, connect,
// weld, coupled joints.  Proof: docs/derivations/constraint.md.
#pragma once
#include "core/contact/rows.hpp"

namespace fb::FB_ISA {

template <class T>
FB_INLINE T unbounded() {
  return T(Real<T>(1e30));
}

// (L.1)  velocity that closes a gap within one step, recovery
// from penetration bounded: max(phi / h, -v_recover)
template <class T, class P>
FB_INLINE T gap_velocity(const Options<Real<T>>& o, T phi, P h) {
  return max(phi / T(h), T(-o.v_recover));
}

template <class T>
FB_INLINE RowGroup& push_group(Work<T>& w, int kind, int rows, int source) {
  RowGroup& k = w.group[w.ngroup];
  k = {};
  k.kind = kind;
  k.rows = rows;
  k.source = source;
  w.geometry[w.ngroup].active = Mask<T>(true);
  ++w.ngroup;
  return k;
}

// (L.2)  gap to the lower or upper end of a hinge or slide; active below the margin or when the
// free motion crosses it
template <class T, class P>
FB_FN void collect_limits(const Model<T, P>& m, const Options<Real<T>>& o, const T* q,
                          Mask<T> alive, Work<T>& w) {
  const Layout& s = m.s;
  const P h = m.theta.dt[0];
  for (int i = 0; i < s.nlimit; ++i) {
    const int j = s.limit_jnt[i], qa = s.jnt_qadr[j], da = s.jnt_dofadr[j];
    const P* range = m.theta.jnt_range + 2 * j;
    if (s.jnt_type[j] == kBall) {
      const Vec3<T> e = log_quat(normalised(q + qa));
      const T angle = norm(e);
      const T phi = T(max(range[0], range[1])) - angle;
      const Vec3<T> axis = e * (T(1) / select(angle > T(0), angle, T(1)));
      const T rate =
          -(axis.x * w.v_free[da] + axis.y * w.v_free[da + 1] + axis.z * w.v_free[da + 2]);
      const Mask<T> on = alive & ((phi < T(o.margin)) | (phi + rate * h < T(0)));
      if (!any(on)) continue;
      RowGroup& k = push_group(w, kBallLimitRows, 1, j);
      w.geometry[w.ngroup - 1] = {phi, axis, zero3<T>(), on};
      k.linkA = s.jnt_link[j];
      set_chains(s, k, da + 2, -1);
      continue;
    }
    for (int side = -1; side <= 1; side += 2) {
      const Real<T> sign = Real<T>(-side);
      const T phi = (q[qa] - T(range[side > 0])) * sign;
      const Mask<T> on = alive & ((phi < T(o.margin)) | (phi + w.v_free[da] * sign * h < T(0)));
      if (!any(on)) continue;
      RowGroup& k = push_group(w, kLimitRows, 1, j);
      w.geometry[w.ngroup - 1] = {phi, zero3<T>(), zero3<T>(), on};
      k.side = side;
      k.linkA = s.jnt_link[j];
      set_chains(s, k, da, -1);
    }
  }
}

// dry friction rows, equality rows: always there
template <class T, class P>
FB_FN void collect_equalities(const Model<T, P>& m, Mask<T> alive, Work<T>& w) {
  const Layout& s = m.s;
  for (int e = 0; e < s.neq; ++e) {
    const int a = s.eq_obj1[e], b = s.eq_obj2[e], type = s.eq_type[e];
    if (type == kNoEquality) continue;
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
  for (int i = 0; i < s.nfriction; ++i) {
    const int d = s.friction_dof[i];
    RowGroup& k = push_group(w, kFrictionRows, 1, d);
    k.linkA = s.dof_link[d];
    set_chains(s, k, d, -1);
    w.geometry[w.ngroup - 1].active = alive;
  }
}

// (L.3)  joint rows: a coefficient on one dof, on the three of a ball, or on two coupled joints
template <class T, class P>
FB_FN void joint_row_data(const Model<T, P>& m, const Options<Real<T>>& o, const RowGroup& k,
                          const RowGeometry<T>& x, const T* q, RowData<T>& e) {
  const Layout& s = m.s;
  const P h = m.theta.dt[0];
  e.lo[0] = T(0);
  e.hi[0] = unbounded<T>();
  e.ncoef = 1;
  e.cdof[0] = k.start[0];
  e.R[0] = T(m.theta.dof_invweight0[k.start[0]] * o.regularization);
  if (k.kind == kFrictionRows) {
    e.coef[0] = T(1);
    e.b[0] = T(0);
    e.hi[0] = T(m.theta.dof_frictionloss[k.source] * h);
    e.lo[0] = -e.hi[0];
  } else if (k.kind == kLimitRows) {
    e.coef[0] = T(-k.side);
    e.b[0] = gap_velocity(o, x.phi, h);
  } else if (k.kind == kBallLimitRows) {
    e.ncoef = 3;
    for (int i = 0; i < 3; ++i) e.cdof[i] = k.start[0] - 2 + i;
    e.coef[0] = -x.n.x;
    e.coef[1] = -x.n.y;
    e.coef[2] = -x.n.z;
    e.b[0] = gap_velocity(o, x.phi, h);
  } else {
    // q1 - q1_0 = c0 + c1 x + ... + c4 x^4 with x = q2 - q2_0
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
    e.b[0] = clamp(phi / T(h), T(-o.v_recover), T(o.v_recover));
  }
}

// what a one-row block gives its adjoint: impulse, z,
// and where the gap term is not bounded its cotangent
template <class T>
struct RowBar {
  T lam, z, phi;
};
template <class T, class P>
FB_INLINE RowBar<T> row_bar(const Model<T, P>& m, const Options<Real<T>>& o, const Work<T>& w,
                            int row, T phi, bool both_ways) {
  const T h = T(m.theta.dt[0]), rate = phi / h;
  Mask<T> follows = rate > T(-o.v_recover);
  if (both_ways) follows = follows & (rate < T(o.v_recover));
  const T phi_bar = select(follows, -(w.row_bar.z[row] / h), T(0));
  // b holds phi / h
  if (w.theta_bar) w.theta_bar->dt[0] -= phi_bar * phi / h;
  return {w.solution.lam[row], w.row_bar.z[row], phi_bar};
}

// (L.6)  rows of one joint: given the row's bars, add to q_bar (tangent) and the parameters; v1 is
// the step's new velocity
template <class T, class P>
FB_FN void joint_row_data_adjoint(const Model<T, P>& m, const Options<Real<T>>& o,
                                  const RowGroup& k, const RowGeometry<T>& x, const T* q,
                                  const T* v1, Work<T>& w, T* q_bar) {
  if (k.kind == kFrictionRows) {
    // hi = -lo = h frictionloss
    if (!w.theta_bar) return;
    const T bound_bar = w.row_bar.hi[k.row] - w.row_bar.lo[k.row];
    w.theta_bar->dof_frictionloss[k.source] += bound_bar * m.theta.dt[0];
    w.theta_bar->dt[0] += bound_bar * m.theta.dof_frictionloss[k.source];
  } else if (k.kind == kLimitRows) {
    const T phi_bar = select(x.active, row_bar(m, o, w, k.row, x.phi, false).phi, T(0));
    q_bar[k.start[0]] += phi_bar * Real<T>(-k.side);
    if (w.theta_bar)
      w.theta_bar->jnt_range[2 * k.source + (k.side > 0)] += phi_bar * Real<T>(k.side);
  } else if (k.kind == kBallLimitRows) {
    ball_limit_adjoint(m, o, k, x, q, v1, w, q_bar);
  } else {
    joint_equality_adjoint(m, o, k, q, v1, w, q_bar);
  }
}
// (L.8)  phi = range - |e|, coefficients -e / |e|, with e the rotation vector
template <class T, class P>
FB_FN void ball_limit_adjoint(const Model<T, P>& m, const Options<Real<T>>& o, const RowGroup& k,
                              const RowGeometry<T>& x, const T* q, const T* v1, Work<T>& w,
                              T* q_bar) {
  const int j = k.source, da = k.start[0] - 2;
  const RowBar<T> r = row_bar(m, o, w, k.row, x.phi, false);
  const Vec3<T> e = log_quat(normalised(q + m.s.jnt_qadr[j]));
  const T angle = norm(e);
  const Vec3<T> n_bar = lift3<T>(v1 + da) * r.z - lift3<T>(w.w_rate + da) * r.lam;
  const Vec3<T> e_bar =
      (n_bar - x.n * dot(x.n, n_bar)) * (T(1) / select(angle > T(0), angle, T(1))) - x.n * r.phi;
  add3(select(x.active, log_adjoint(e, e_bar, -1), zero3<T>()), q_bar + da);
  if (!w.theta_bar) return;
  const P* range = m.theta.jnt_range + 2 * j;
  T* out = w.theta_bar->jnt_range + 2 * j;
  const Mask<T> upper = T(range[1]) >= T(range[0]);
  out[0] += select(x.active & !upper, r.phi, T(0));
  out[1] += select(x.active & upper, r.phi, T(0));
}
// (L.9)  phi = q1 - q1_0 - p(y), coefficients 1 and -p'(y), y = q2 - q2_0
template <class T, class P>
FB_FN void joint_equality_adjoint(const Model<T, P>& m, const Options<Real<T>>& o,
                                  const RowGroup& k, const T* q, const T* v1, Work<T>& w,
                                  T* q_bar) {
  const Layout& s = m.s;
  const P* c = m.theta.eq_data + 11 * k.source;
  const int q1 = s.jnt_qadr[s.eq_obj1[k.source]], j2 = s.eq_obj2[k.source];
  const bool pair = j2 >= 0;
  const int q2 = pair ? s.jnt_qadr[j2] : 0, d2 = pair ? k.start[1] : 0;
  const T y = pair ? q[q2] - T(m.theta.qpos0[q2]) : T(0);
  T power[5] = {T(1), y, y * y, y * y * y, y * y * y * y}, phi = q[q1] - T(m.theta.qpos0[q1]);
  T slope = T(0), bend = T(0);
  for (int i = 0; i < 5; ++i) {
    if (i > 0 && !pair) break;
    phi -= power[i] * c[i];
    if (i > 0) slope += power[i - 1] * (c[i] * Real<T>(i));
    if (i > 1) bend += power[i - 2] * (c[i] * Real<T>(i * (i - 1)));
  }
  const RowBar<T> r = row_bar(m, o, w, k.row, phi, true);
  q_bar[k.start[0]] += r.phi;
  // the coefficient -p'(y) meets the rates of the second joint
  const T coef_bar = pair ? r.lam * w.w_rate[d2] - r.z * v1[d2] : T(0);
  const T y_bar = -(slope * r.phi + bend * coef_bar);
  if (pair) q_bar[d2] += y_bar;
  if (!w.theta_bar) return;
  w.theta_bar->qpos0[q1] -= r.phi;
  if (pair) w.theta_bar->qpos0[q2] -= y_bar;
  T* out = w.theta_bar->eq_data + 11 * k.source;
  for (int i = 0; i < (pair ? 5 : 1); ++i) {
    out[i] -= power[i] * r.phi;
    if (i > 0) out[i] -= power[i - 1] * Real<T>(i) * coef_bar;
  }
}

// (L.7)  default compliance of a row between two bodies: a share of their inverse weights at the
// reference pose.  A share of the row's own diagonal would turn with the pose, and the gradient
// would have to follow it
template <class T, class P>
FB_INLINE T default_compliance(const Model<T, P>& m, const Options<Real<T>>& o, int bodyA,
                               int bodyB, bool turn) {
  const P* w = m.theta.body_invweight0 + (turn ? 1 : 0);
  return T((w[2 * bodyA] + w[2 * bodyB]) * o.regularization);
}
// body of side 0 or 1 of a connect or weld
FB_INLINE int equality_body(const Layout& s, int eq, int side) {
  const int obj = side == 0 ? s.eq_obj1[eq] : s.eq_obj2[eq];
  return s.eq_site[eq] ? s.site_body[obj] : obj;
}

// (L.4)  connect: p1 - p2 along the world's axes; weld adds the rotation vector of R1 R2'
template <class T, class P>
FB_FN void equality_data(const Model<T, P>& m, const Options<Real<T>>& o, const RowGroup& k,
                         const Work<T>& w, RowData<T>& e) {
  const Layout& s = m.s;
  const LinkWork<T>&A = w.link[k.linkA], &B = w.link[k.linkB];
  const int eq = k.source;
  const Vec3<T> p1 = A.r + mul(A.R, lift3<P>(m.derived.eq_p1 + 3 * eq));
  const Vec3<T> p2 = B.r + mul(B.R, lift3<P>(m.derived.eq_p2 + 3 * eq));
  const bool turn = k.kind == kWeldRotationRows;
  Vec3<T> phi;
  if (turn) {
    const Mat3<T> R1 = mul(A.R, m.derived.eq_R1 + 9 * eq), R2 = mul(B.R, m.derived.eq_R2 + 9 * eq);
    phi = rotation_error(R1, R2);
  } else {
    phi = (p1 - p2) + (origin_of(s, w, k.linkA) - origin_of(s, w, k.linkB));
  }
  const T v[3] = {phi.x, phi.y, phi.z};
  const T soft = default_compliance(m, o, equality_body(s, eq, 0), equality_body(s, eq, 1), turn);
  for (int i = 0; i < 3; ++i) {
    const Vec3<T> d{T(i == 0), T(i == 1), T(i == 2)};
    e.F[0][i] = turn ? Force<T>{d, zero3<T>()} : Force<T>{cross(p1, d), d};
    e.F[1][i] = turn ? Force<T>{-d, zero3<T>()} : Force<T>{-cross(p2, d), -d};
    e.lo[i] = -unbounded<T>();
    e.hi[i] = unbounded<T>();
    e.R[i] = soft;
    e.b[i] = clamp(v[i] / T(m.theta.dt[0]), T(-o.v_recover), T(o.v_recover));
  }
}

// (L.5)  rotation vector of R1 R2', in the world, through the quaternion of the product
template <class T>
FB_FN Vec3<T> rotation_error(const Mat3<T>& R1, const Mat3<T>& R2) {
  Mat3<T> E;
  for (int r = 0; r < 3; ++r)
    for (int c = 0; c < 3; ++c)
      E.a[3 * r + c] = R1.a[3 * r] * R2.a[3 * c] + R1.a[3 * r + 1] * R2.a[3 * c + 1] +
                       R1.a[3 * r + 2] * R2.a[3 * c + 2];
  // axis times 2 sin(angle), and 2 cos(angle); exact
  // up to a half turn, where the direction is lost
  const Vec3<T> a{E.a[7] - E.a[5], E.a[2] - E.a[6], E.a[3] - E.a[1]};
  const T c = E.a[0] + E.a[4] + E.a[8] - T(1);
  const T n2 = dot(a, a);
  const Mask<T> small = (n2 < T(Real<T>(1e-8))) & (c > T(0));
  const T n = sqrt(select(small | !(n2 > T(Real<T>(1e-30))), T(1), n2));
  const T f = select(small, T(Real<T>(0.5)) + n2 * Real<T>(1.0 / 48.0), atan2_upper(n, c) / n);
  return a * f;
}

// (L.10)  given bars of the rows' wrenches and of b, add to the links' places and to the anchors
template <class T, class P>
FB_FN void equality_data_adjoint(const Model<T, P>& m, const Options<Real<T>>& o, const RowGroup& k,
                                 const Motion<T> F_bar[2][3], Work<T>& w) {
  const Layout& s = m.s;
  const LinkWork<T>&A = w.link[k.linkA], &B = w.link[k.linkB];
  const int eq = k.source;
  LinkBar<T>&a = w.bar[k.linkA], &b = w.bar[k.linkB];
  if (k.kind == kWeldRotationRows) {
    const Mat3<T> R1 = mul(A.R, m.derived.eq_R1 + 9 * eq), R2 = mul(B.R, m.derived.eq_R2 + 9 * eq);
    const Vec3<T> e = rotation_error(R1, R2);
    const Vec3<T> e_bar{row_bar(m, o, w, k.row, e.x, true).phi,
                        row_bar(m, o, w, k.row + 1, e.y, true).phi,
                        row_bar(m, o, w, k.row + 2, e.z, true).phi};
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
  Vec3<T> p1_bar{row_bar(m, o, w, k.row, phi.x, true).phi,
                 row_bar(m, o, w, k.row + 1, phi.y, true).phi,
                 row_bar(m, o, w, k.row + 2, phi.z, true).phi};
  Vec3<T> p2_bar = -p1_bar;
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

}  // namespace fb::FB_ISA
