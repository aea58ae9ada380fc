// The equation of motion differentiated column by column: inverse dynamics by composite bodies, and
// the forces of joints.  Proof: docs/derivations/linearize.md.
#pragma once
#include "core/step.hpp"

namespace fb::FB_ISA {

// what all links above a joint are together: inertia about the tree's origin, momentum p and the
// matrix D of velocity products, force F, and the stiffness H of impulses that do not ride along
template <class T>
struct Subtree {
  T mass;
  Vec3<T> mc, p;
  Sym3<T> Io;
  Mat3<T> D;
  Force<T> F;
  int loaded;  // whether H is in use
  T H[36];     // pose = H w, both in the order (ang, lin)
};
// how the fields of all links above a dof move, beyond being carried by its S: with a unit of its q
// by psi in v, phi + psi x v in a, eta in the new velocity; with a unit of its rate by S in v, rho
// + S x v in a
template <class T>
struct DofMoves {
  Motion<T> psi, phi, rho, eta;
};
template <class T>
struct LinearWork {
  Subtree<T>* body;
  DofMoves<T>* move;
  T* L;         // nv x nv, L_ed of Mh = L D L' in row d
  T *K, *C;     // columns (q, v, act, u) of every dof and of every row
  T *one, *to;  // zeros of nv, used as scratch
  T* turn;      // nv x 6: how the next turn of a quaternion answers to the last and to its rates
  T* line;      // one row
  int stride;   // columns, rounded up to whole registers

  FB_INLINE T* dof_row(int d) const { return K + size_t(d) * stride; }
  FB_INLINE T* row(int r) const { return C + size_t(r) * stride; }
};

template <class T>
FB_INLINE Force<T> inertia_times(const Subtree<T>& b, Motion<T> m) {
  return {mul(b.Io, m.ang) + cross(b.mc, m.lin), m.lin * b.mass + cross(m.ang, b.mc)};
}
// (J.3)  B psi = I (psi x v) + psi x* (I v) + v x* (I psi), which sees the turn of psi alone
template <class T>
FB_INLINE Force<T> products_times(const Subtree<T>& b, Vec3<T> turn) {
  return {mul(b.D, turn), cross(turn, b.p) * Real<T>(2)};
}
// the turn that B' S pairs with
template <class T>
FB_INLINE Vec3<T> products_transposed(const Subtree<T>& b, Motion<T> S) {
  return mul_transposed(b.D, S.ang) + cross(b.p, S.lin) * Real<T>(2);
}
template <class T>
FB_INLINE Force<T> stiffness_times(const Subtree<T>& b, Motion<T> S) {
  const T x[6] = {S.ang.x, S.ang.y, S.ang.z, S.lin.x, S.lin.y, S.lin.z};
  T y[6];
  for (int r = 0; r < 6; ++r) {
    y[r] = b.H[6 * r] * x[0];
    for (int c = 1; c < 6; ++c) y[r] = mul_add(b.H[6 * r + c], x[c], y[r]);
  }
  return {{y[0], y[1], y[2]}, {y[3], y[4], y[5]}};
}
template <class T>
FB_INLINE Force<T> stiffness_transposed(const Subtree<T>& b, Motion<T> S) {
  const T x[6] = {S.ang.x, S.ang.y, S.ang.z, S.lin.x, S.lin.y, S.lin.z};
  T y[6];
  for (int c = 0; c < 6; ++c) {
    y[c] = b.H[c] * x[0];
    for (int r = 1; r < 6; ++r) y[c] = mul_add(b.H[6 * r + c], x[r], y[c]);
  }
  return {{y[0], y[1], y[2]}, {y[3], y[4], y[5]}};
}
template <class T>
FB_INLINE void load_subtree(Subtree<T>& b) {
  if (b.loaded) return;
  b.loaded = 1;
  for (int i = 0; i < 36; ++i) b.H[i] = T(0);
}

// (J.1)  one link by itself; its force is that of inverse dynamics
template <class T>
FB_INLINE void open_subtree(const LinkWork<T>& k, Subtree<T>& b) {
  const Sym6<T> I = dense(k.I);
  const Real<T> half(0.5), two(2);
  b.mass = k.I.mass;
  b.mc = k.I.com * k.I.mass;
  b.Io = I.I;
  b.p = (k.v.lin + cross(k.v.ang, k.I.com)) * k.I.mass;
  b.F = newton_euler(k.I, k.v, k.a);
  b.loaded = 0;
  // second moments, then their product with the velocity field
  const T mean = (b.Io.xx + b.Io.yy + b.Io.zz) * half;
  const Vec3<T> P[3] = {{mean - b.Io.xx, -b.Io.xy, -b.Io.xz},
                        {-b.Io.xy, mean - b.Io.yy, -b.Io.yz},
                        {-b.Io.xz, -b.Io.yz, mean - b.Io.zz}};
  const T mc[3] = {b.mc.x, b.mc.y, b.mc.z}, trace = dot(k.v.lin, b.mc) * two;
  for (int c = 0; c < 3; ++c) {
    const Vec3<T> Q = mul_add(k.v.lin, mc[c], cross(k.v.ang, P[c])) * two;
    b.D.a[c] = -Q.x;
    b.D.a[3 + c] = -Q.y;
    b.D.a[6 + c] = -Q.z;
    b.D.a[4 * c] += trace;
  }
}
template <class T>
FB_INLINE void add_subtree(const Subtree<T>& b, Subtree<T>& parent) {
  parent.mass += b.mass;
  parent.mc += b.mc;
  parent.p += b.p;
  add(parent.Io, b.Io);
  parent.F += b.F;
  for (int i = 0; i < 9; ++i) parent.D.a[i] += b.D.a[i];
  if (!b.loaded) return;
  load_subtree(parent);
  for (int i = 0; i < 36; ++i) parent.H[i] += b.H[i];
}

// (J.2)  fields of all links at the effective acceleration, and how each dof moves them
template <class T, class P>
FB_FN void open_fields(const Model<T, P>& m, const StepPoint<T>& x, Work<T>& w, LinearWork<T>& f) {
  const Layout& s = m.s;
  const T h = T(m.theta.dt[0]);
  for (int d = 0; d < s.nv; ++d) w.a_eff[d] = (x.v1[d] - x.v[d]) / h;
  w.link[0].a = gravity_acceleration<T>(m);
  w.bar[0].y = zero_motion<T>();
  for (int l = 1; l < s.nlink; ++l) {
    LinkWork<T>& k = w.link[l];
    const int parent = s.link_parent[l], first = s.link_dof[l], last = first + s.link_ndof[l];
    const int riding = first + world_axes(s.link_type[l]);
    Motion<T> vp = w.link[parent].v, ap = w.link[parent].a, yp = w.bar[parent].y;
    // the world axes of a free joint belong to what carries its turn
    for (int d = first; d < riding; ++d) {
      f.move[d] = {zero_motion<T>(), zero_motion<T>(), zero_motion<T>(), zero_motion<T>()};
      vp = mul_add(w.dof[d].S, x.v[d], vp);
      ap = mul_add(w.dof[d].S, w.a_eff[d], ap);
      yp = mul_add(w.dof[d].S, x.v1[d], yp);
    }
    k.a = ap + k.c;
    w.bar[l].y = yp;
    for (int d = riding; d < last; ++d) {
      const Motion<T> S = w.dof[d].S, psi = cross(vp, S);
      k.a = mul_add(S, w.a_eff[d], k.a);
      w.bar[l].y = mul_add(S, x.v1[d], w.bar[l].y);
      f.move[d] = {psi, cross(ap, S) - cross(psi, vp), psi - cross(S, k.v), cross(yp, S)};
    }
    open_subtree(k, f.body[l]);
    if (joint_turns(s.link_type[l])) add_spin(m, l, w, f.body[l].F.ang, f.body[l].D);
  }
}

// (J.4)  columns of one dof against its own link and all below, rows of it against all below
template <class T>
FB_FN void pair_columns(const Layout& s, int l, int d, T h, const Work<T>& w, LinearWork<T>& f) {
  const Subtree<T>& b = f.body[l];
  const DofMoves<T>& e = f.move[d];
  const Motion<T> S = w.dof[d].S;
  const int first = s.link_dof[l], nv = s.nv;
  const int riding = first + world_axes(s.link_type[l]);
  const Force<T> U = inertia_times(b, S);
  Force<T> own = (inertia_times(b, e.phi) + products_times(b, e.psi.ang)) * -h, G = zero_force<T>();
  if (b.loaded) {
    own += stiffness_transposed(b, S);
    G = stiffness_times(b, S);
  }
  const Force<T> below = own - cross(S, b.F) * h;
  const Force<T> rate = U - (inertia_times(b, e.rho) + products_times(b, S.ang)) * h;
  const Vec3<T> turn = products_transposed(b, S) * -h;
  const Force<T> Uh = U * -h;
  for (int i = first; i < first + s.link_ndof[l]; ++i) {
    f.dof_row(i)[d] += dot(w.dof[i].S, i < riding ? below : own);
    f.dof_row(i)[nv + d] += dot(w.dof[i].S, rate);
  }
  f.dof_row(d)[nv + d] += w.hD[d];
  for (int i = s.dof_parent[first]; i >= 0; i = s.dof_parent[i]) {
    const Motion<T> Si = w.dof[i].S;
    const DofMoves<T>& p = f.move[i];
    f.dof_row(i)[d] += dot(Si, below);
    f.dof_row(i)[nv + d] += dot(Si, rate);
    f.dof_row(d)[i] += dot(p.phi, Uh) + dot(p.psi.ang, turn) + dot(Si, G);
    f.dof_row(d)[nv + i] += dot(Si, U) + dot(p.rho, Uh) + dot(Si.ang, turn);
  }
}

// (J.5)  wrenches applied to bodies stay in the world when their link turns
template <class T, class P>
FB_FN void applied_columns(const Model<T, P>& m, T h, Work<T>& w, LinearWork<T>& f) {
  const Layout& s = m.s;
  for (int b = 1; b < s.nbody; ++b) {
    const int l = s.body_link[b];
    if (l == 0) continue;
    const P* x = m.theta.xfrc_applied + 6 * b;
    const Vec3<T> push = lift3<T>(x), turn = lift3<T>(x + 3), c = body_centre(m, b, w);
    Subtree<T>& k = f.body[l];
    load_subtree(k);
    k.F -= Force<T>{turn + cross(c, push), push};
    for (int a = 0; a < 3; ++a) {
      const Vec3<T> e{T(a == 0), T(a == 1), T(a == 2)}, lin = cross(push, e) * h;
      const Vec3<T> ang = cross(turn, e) * h + cross(c, lin);
      const T row[6] = {ang.x, ang.y, ang.z, lin.x, lin.y, lin.z};
      for (int i = 0; i < 6; ++i) k.H[6 * a + i] += row[i];
    }
  }
}

// (J.6)  springs, damping and actuators: the adjoint of one joint's force at a time
template <class T, class P>
FB_FN void actuation_columns(const Model<T, P>& m, const StepPoint<T>& x, T h, Work<T>& w,
                             LinearWork<T>& f) {
  const Layout& s = m.s;
  const int nv = s.nv;
  T *sums = w.qdd, *kv = w.dv, *tau_bar = f.one, *hD_bar = f.to;
  for (int d = 0; d < nv; ++d) f.dof_row(d)[nv + d] -= T(m.theta.dof_damping[d]) * h;
  for (int j = 0; j < s.njnt; ++j) {
    const int n = joint_dofs(s.jnt_type[j]);
    for (int d = s.jnt_dofadr[j]; d < s.jnt_dofadr[j] + n; ++d) {
      tau_bar[d] = h;
      spring_adjoint(m, j, x.q, tau_bar, w, f.dof_row(d));
      tau_bar[d] = T(0);
    }
  }
  if (s.nu > 0) actuator_sums(m, x, w, sums, kv);
  for (int d = 0; d < nv && (s.ngravcomp > 0 || s.nfluid > 0 || s.nreach > 0); ++d) {
    T* row = f.dof_row(d);
    tau_bar[d] = h;
    if (s.ngravcomp > 0) compensation_adjoint(m, x.q, sums, tau_bar, w, row);
    if (s.nfluid > 0) fluid_forces_adjoint(m, x.q, x.v, tau_bar, w, row, row + nv);
    const ActuationBars<T> bars{row, row + nv, row + 2 * nv, row + 2 * nv + s.na};
    if (s.nreach > 0) reached_actuators_adjoint<T, P>(m, x, sums, {tau_bar, hD_bar}, bars, w);
    tau_bar[d] = T(0);
  }
  for (int a = 0; a < s.nu; ++a) {
    const int j = s.act_jnt[a];
    if (j < 0) continue;
    const int n = joint_dofs(s.jnt_type[j]);
    for (int d = s.jnt_dofadr[j]; d < s.jnt_dofadr[j] + n; ++d) {
      T* row = f.dof_row(d);
      tau_bar[d] = h;
      hD_bar[d] = -(h * w.a_eff[d]);
      const ActuationBars<T> bars{row, row + nv, row + 2 * nv, row + 2 * nv + s.na};
      actuator_adjoint<T, P>(m, a, x, sums, {tau_bar, hD_bar}, bars, w);
      tau_bar[d] = hD_bar[d] = T(0);
    }
  }
  if (s.ntendon == 0) return;
  for (int d = 0; d < nv; ++d) {
    tau_bar[d] = h;
    tendon_forces_adjoint(m, tau_bar, w);
    tendon_columns(m, x, sums, tau_bar, f.dof_row(d), w);
    tau_bar[d] = T(0);
  }
}

}  // namespace fb::FB_ISA
