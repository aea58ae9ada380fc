// Stiffness and reference of the rows of a group from MuJoCo's solref and solimp, with their adjoint.
// Proof: docs/derivations/soft.md.
#pragma once
#include "core/contact/constraint.hpp"
#include "core/soft/block.hpp"

namespace fb::FB_ISA {

// R of rows without an inverse weight; single precision cannot tell their J from zero otherwise
template <class R>
inline constexpr R kRigidCompliance = sizeof(R) == 8 ? R(kSoftLeast) : R(1e-4);

// what a group's rows take from the model: x is the gap beyond the margin that the impedance sees,
// weight the approximate diagonal of J M^-1 J'
template <class T, class P>
struct RowLaw {
  const P *solref, *solimp;
  T x, weight;
  bool sprung;  // rows of dry friction have no spring
};
// (S.10)  R = (1 - d) / d weight, D = 1 / R, and the numbers of y0 = B vel + K d x
template <class T>
struct Reference {
  Impedance<T> imp;
  Spring<T> spring;
  T R, D, K, B, Kd;
  Mask<T> least;  // R is at its least
};
template <class T, class P>
FB_INLINE Reference<T> reference(const RowLaw<T, P>& law, T h, bool safe) {
  Reference<T> r;
  r.imp = impedance(law.solimp, law.x);
  r.spring = row_spring(law.solref, law.solimp, h, safe);
  const T raw = (T(1) - r.imp.d) / r.imp.d * law.weight;
  r.least = raw < T(Real<T>(kSoftLeast));
  r.R = select(r.least, T(kRigidCompliance<Real<T>>), raw);
  r.D = T(1) / r.R;
  r.K = law.sprung ? r.spring.K : T(0);
  r.B = r.spring.B;
  r.Kd = r.K * r.imp.d;
  return r;
}

// cotangents of D, of K d and of B; and what they become
template <class T>
struct ReferenceBar {
  T D, Kd, B;
};
template <class T>
struct RowLawBar {
  T x, weight, solref[kSolref], solimp[kSolimp], h;
};
// (S.11)
template <class T, class P>
FB_FN RowLawBar<T> reference_adjoint(const RowLaw<T, P>& law, const Reference<T>& r,
                                     const ReferenceBar<T>& bar) {
  const T zero = T(0), d = r.imp.d, Kd_bar = law.sprung ? bar.Kd : zero;
  RowLawBar<T> out;
  const T R_bar = select(r.least, zero, -(bar.D * r.D * r.D));
  const T K_bar = Kd_bar * d, d_bar = Kd_bar * r.K - R_bar * law.weight / (d * d);
  out.weight = R_bar * (T(1) - d) / d;
  out.x = d_bar * r.imp.by_x;
  for (int i = 0; i < kSolref; ++i)
    out.solref[i] = K_bar * r.spring.K_by[i] + bar.B * r.spring.B_by[i];
  for (int i = 0; i < kSolimp; ++i) out.solimp[i] = d_bar * r.imp.by[i];
  out.solimp[1] += K_bar * r.spring.K_by_d + bar.B * r.spring.B_by_d;
  out.h = K_bar * r.spring.K_by_h + bar.B * r.spring.B_by_h;
  return out;
}
template <class T>
FB_INLINE void add_law_bar(const RowLawBar<T>& bar, T* solref_bar, T* solimp_bar, T* h_bar) {
  for (int i = 0; i < kSolref; ++i) solref_bar[i] += bar.solref[i];
  for (int i = 0; i < kSolimp; ++i) solimp_bar[i] += bar.solimp[i];
  *h_bar += bar.h;
}

}  // namespace fb::FB_ISA
