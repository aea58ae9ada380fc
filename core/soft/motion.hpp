// Mass matrix and smooth forces for MuJoCo's law, and the rows of all groups in joint space.
// Proof: docs/derivations/soft.md.
#pragma once
#include "core/soft/body_rows.hpp"
#include "core/soft/contact_rows.hpp"
#include "core/soft/tendon_rows.hpp"

namespace fb::FB_ISA {

// moments of a rigid inertia about the origin: those of links that are joined add up
template <class T>
FB_INLINE RigidMoments<T> moments_of(const Inertia<T>& B) {
  const Vec3<T> c = B.com, h = c * B.mass;
  return {
      B.mass,
      h,
      {mul_add(h.y, c.y, mul_add(h.z, c.z, B.Ic.xx)), mul_add(h.x, c.x, mul_add(h.z, c.z, B.Ic.yy)),
       mul_add(h.x, c.x, mul_add(h.y, c.y, B.Ic.zz)), sub_mul(B.Ic.xy, h.x, c.y),
       sub_mul(B.Ic.xz, h.x, c.z), sub_mul(B.Ic.yz, h.y, c.z)}};
}
template <class T>
FB_INLINE Force<T> operator*(const RigidMoments<T>& A, Motion<T> v) {
  const Vec3<T> h = A.h, x = v.lin, w = v.ang;
  const Vec3<T> turn{det2(h.y, x.z, h.z, x.y), -det2(h.x, x.z, h.z, x.x), det2(h.x, x.y, h.y, x.x)};
  const Vec3<T> push{-det2(h.y, w.z, h.z, w.y), det2(h.x, w.z, h.z, w.x),
                     -det2(h.x, w.y, h.y, w.x)};
  return {mul(A.I, w) + turn, push + x * A.mass};
}
// (S.21)  M by composite inertias: all links of a tree have one origin, so inertias add up
template <class T, class P>
FB_FN void composite_mass(const Model<T, P>& m, Work<T>& w) {
  const Layout& s = m.s;
  SoftWork<T>& f = w.soft;
  for (int l = 1; l < s.nlink; ++l) f.moments[l] = moments_of(w.link[l].I);
  for (int l = s.nlink - 1; l > 0; --l)
    if (s.link_parent[l] > 0) {
      RigidMoments<T>&all = f.moments[s.link_parent[l]], &own = f.moments[l];
      all.mass += own.mass;
      all.h += own.h;
      add(all.I, own.I);
    }
  for (int d = 0; d < s.nv; ++d) {
    const Force<T> F = f.moments[s.dof_link[d]] * w.dof[d].S;
    f.M.diagonal[d] = dot(w.dof[d].S, F) + T(m.theta.dof_armature[d]);
    const int* col = f.M.p.columns(d);
    T* row = f.M.row(d);
    for (int e = 0; e < f.M.p.count(d); ++e) row[e] = dot(w.dof[col[e]].S, F);
  }
}
// (S.22)  tau - c: velocity products, gravity and applied wrenches; leaves the accelerations of links
// at zero joint accelerations in w.link[].a
template <class T, class P>
FB_FN void smooth_forces(const Model<T, P>& m, Work<T>& w) {
  const Layout& s = m.s;
  if (m.applied) applied_wrenches(m, w);
  w.link[0].a = gravity_acceleration<T>(m);
  Force<T>* F = w.wrench;
  F[0] = zero_force<T>();
  for (int l = 1; l < s.nlink; ++l) {
    LinkWork<T>& k = w.link[l];
    link_inertia(m, l, w);
    k.a = w.link[s.link_parent[l]].a + k.c;
    F[l] = newton_euler(k.I, k.v, k.a);
    if (m.applied) F[l] -= w.ext[l];
  }
  for (int l = s.nlink - 1; l > 0; --l) {
    const int first = s.link_dof[l];
    for (int d = first; d < first + s.link_ndof[l]; ++d)
      w.soft.smooth[d] = w.tau[d] - dot(w.dof[d].S, F[l]);
    F[s.link_parent[l]] += F[l];
  }
}

// (S.23)  groups that act in this state: equalities, dry friction, limits, contacts
template <class T, class P>
FB_FN void collect_soft(const Model<T, P>& m, const Options<Real<T>>& o, const T* q, Mask<T> alive,
                        Work<T>& w) {
  w.ngroup = 0;
  w.overflow = Mask<T>(false);
  w.hit.ncoming = w.hit.count = 0;
  EqualityRows<T>::collect(m, o, q, alive, w);
  FrictionRows<T>::collect(m, o, q, alive, w);
  collect_soft_limits(m, q, alive, w);
  if (m.s.ntendon > 0) collect_soft_tendons(m, alive, w);
  collect_soft_contacts(m, alive, w);
}
// data of one group; in lanes where it is off its stiffness is zero
template <class T, class P>
FB_FN void soft_group_data(const Model<T, P>& m, const Options<Real<T>>& o, int index,
                           const StepPoint<T>& x, Work<T>& w) {
  const bool safe = o.refsafe != 0;
  const RowGroup& k = w.group[index];
  SoftBlock<T>& b = w.soft.group[index].block;
  b.rows = k.rows;
  b.loss = T(0);
  switch (k.kind) {
    case kContactRows:
      soft_contact_data(m, o, index, w);
      break;
    case kFrictionRows:
      soft_friction_data(m, safe, index, x.v, w);
      break;
    case kLimitRows:
    case kBallLimitRows:
      soft_limit_data(m, safe, index, x.v, w);
      break;
    case kJointEqualityRows:
      soft_coupling_data(m, safe, index, x, w);
      break;
    case kTendonFrictionRows:
    case kTendonLimitRows:
      soft_tendon_data(m, safe, index, x.v, w);
      break;
    case kTendonEqualityRows:
      soft_tendon_coupling_data(m, safe, index, x.v, w);
      break;
    default:
      soft_equality_data(m, safe, index, w);
  }
  const Mask<T> on = w.geometry[index].active;
  b.D = select(on, b.D, T(0));
  b.loss = select(on, b.loss, T(0));
}

// one chain of dofs that moves a group, and its numbers of J, by the wrenches of the link at its end
template <class T>
FB_FN int chain_jacobian(const Layout& s, int rows, int dof, const Force<T>* wrench,
                         const Work<T>& w, int* dofs, T* J) {
  int n = 0;
  with_rows(rows, [&](auto count) {
    constexpr int N = count.n;
    Force<T> F[N];
    each<N>([&](auto i) { F[i.n] = wrench[i.n]; });
    for (int d = dof; d >= 0; d = s.dof_parent[d], ++n, J += N) {
      const Motion<T> S = w.dof[d].S;
      dofs[n] = d;
      each<N>([&](auto i) { J[i.n] = dot(S, F[i.n]); });
    }
  });
  return n;
}
// dofs that move a group, descending, and its numbers of J there
template <class T>
FB_FN int group_jacobian(const Layout& s, const RowGroup& k, const SoftGroup<T>& e,
                         const Work<T>& w, int* dofs, T* J) {
  int n = 0;
  const auto put = [&](int d, auto&& number) {
    dofs[n] = d;
    for (int i = 0; i < k.rows; ++i) J[n * k.rows + i] = number(i);
    ++n;
  };
  if (k.nwide > 0) {
    for (int c = k.wide; c < k.wide + k.nwide; ++c)
      put(w.tendon.dof[c], [&](int) { return w.tendon.coef[c]; });
    return n;
  }
  if (e.ncoef > 0) {
    int order[3] = {0, 1, 2};
    for (int i = 1; i < e.ncoef; ++i)
      for (int j = i; j > 0 && e.cdof[order[j]] > e.cdof[order[j - 1]]; --j) {
        const int t = order[j];
        order[j] = order[j - 1];
        order[j - 1] = t;
      }
    for (int c = 0; c < e.ncoef; ++c) put(e.cdof[order[c]], [&](int) { return e.coef[order[c]]; });
    return n;
  }
  int a = k.start[0], b = k.start[1];
  // one chain alone
  if (a < 0 || b < 0) return chain_jacobian(s, k.rows, a < 0 ? b : a, e.F[a < 0], w, dofs, J);
  while (a >= 0 || b >= 0) {
    if (a == b) {
      // below a common dof the two forces of a contact cancel
      if (k.kind == kContactRows) break;
      put(a, [&](int i) { return dot(w.dof[a].S, e.F[0][i] + e.F[1][i]); });
      a = b = s.dof_parent[a];
    } else if (a > b) {
      put(a, [&](int i) { return dot(w.dof[a].S, e.F[0][i]); });
      a = s.dof_parent[a];
    } else {
      put(b, [&](int i) { return dot(w.dof[b].S, e.F[1][i]); });
      b = s.dof_parent[b];
    }
  }
  return n;
}
// whether the dofs of a group lie on one path to the root
FB_FN bool on_one_path(const Layout& s, const int* dofs, int n) {
  for (int i = 0; i + 1 < n; ++i) {
    int d = dofs[i];
    while (d > dofs[i + 1]) d = s.dof_parent[d];
    if (d != dofs[i + 1]) return false;
  }
  return true;
}

// (S.24)  data and rows of all groups, and the pattern of H
template <class T, class P>
FB_FN void open_soft_rows(const Model<T, P>& m, const Options<Real<T>>& o, const StepPoint<T>& x,
                          Work<T>& w) {
  const Layout& s = m.s;
  SoftWork<T>& f = w.soft;
  int dof = 0, entry = 0, block = 0;
  bool plain = true;
  f.nrow = 0;
  f.ngroup = w.ngroup;
  f.touched = Mask<T>(false);
  for (int i = 0; i < w.ngroup; ++i) {
    RowGroup& k = w.group[i];
    SoftGroup<T>& e = f.group[i];
    k.row = e.row = f.nrow;
    f.nrow += k.rows;
    f.touched = f.touched | w.geometry[i].active;
    soft_group_data(m, o, i, x, w);
    e.dof = dof;
    e.entry = entry;
    e.block_at = block;
    block += k.rows * k.rows;
    e.ndof = group_jacobian(s, k, e, w, f.dof + dof, f.J + entry);
    dof += e.ndof;
    entry += e.ndof * k.rows;
    e.joins = !on_one_path(s, f.dof + e.dof, e.ndof);
    plain = plain && !e.joins;
  }
  if (!plain) joined_pattern(s, w);
  f.H.p = plain ? f.tree : f.joined;
  place_groups(f);
}
// the pattern where groups join branches or trees
template <class T>
FB_FN void joined_pattern(const Layout& s, Work<T>& w) {
  SoftWork<T>& f = w.soft;
  const DofSets& sets = f.sets;
  for (int d = 0; d < s.nv; ++d) {
    const int parent = s.dof_parent[d];
    sets.clear(d);
    if (parent < 0) continue;
    sets.add_all(d, parent, (parent >> 6) + 1);
    sets.add(d, parent);
  }
  for (int i = 0; i < w.ngroup; ++i) {
    const SoftGroup<T>& e = f.group[i];
    if (!e.joins) continue;
    for (int k = 0; k < e.ndof; ++k)
      for (int l = k + 1; l < e.ndof; ++l) sets.add(f.dof[e.dof + k], f.dof[e.dof + l]);
  }
  filled_pattern(sets, f.joined);
}
// where the pairs of dofs of each group lie in H
template <class T>
FB_FN void place_groups(SoftWork<T>& f) {
  int at = 0;
  for (int i = 0; i < f.ngroup; ++i) {
    SoftGroup<T>& e = f.group[i];
    const int* dofs = f.dof + e.dof;
    const bool whole = e.ndof > 0 && f.H.p.tree && f.H.p.count(dofs[0]) + 1 == e.ndof;
    e.place = whole ? -1 : at;
    if (whole) continue;
    for (int k = 0; k < e.ndof; ++k) {
      int p = f.H.p.start[dofs[k] + 1];
      for (int l = k + 1; l < e.ndof; ++l) {
        do --p;
        while (f.H.p.col[p] != dofs[l]);
        f.place[at++] = p;
      }
    }
  }
}

// out = J x
template <class T>
FB_FN void soft_rows_times(const SoftWork<T>& f, const T* x, T* out) {
  for (int g = 0; g < f.ngroup; ++g) {
    const SoftGroup<T>& e = f.group[g];
    with_rows(e.block.rows, [&](auto rows) {
      constexpr int N = rows.n;
      const T* J = f.J + e.entry;
      T y[N];
      for (int i = 0; i < N; ++i) y[i] = T(0);
      for (int k = 0; k < e.ndof; ++k, J += N)
        for (int i = 0; i < N; ++i) y[i] = mul_add(J[i], x[f.dof[e.dof + k]], y[i]);
      for (int i = 0; i < N; ++i) out[f.group[g].row + i] = y[i];
    });
  }
}
// x += J' f
template <class T>
FB_FN void add_soft_forces(const SoftWork<T>& f, const T* force, T* x) {
  for (int g = 0; g < f.ngroup; ++g) {
    const SoftGroup<T>& e = f.group[g];
    with_rows(e.block.rows, [&](auto rows) {
      constexpr int N = rows.n;
      const T *y = force + f.group[g].row, *J = f.J + e.entry;
      for (int k = 0; k < e.ndof; ++k, J += N) {
        T sum = x[f.dof[e.dof + k]];
        for (int i = 0; i < N; ++i) sum = mul_add(J[i], y[i], sum);
        x[f.dof[e.dof + k]] = sum;
      }
    });
  }
}

}  // namespace fb::FB_ISA
