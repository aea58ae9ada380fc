// The read-only description of a model: sizes, integer tables, and where each named parameter lies
// in a flat array. Bodies and joints are the user's (MuJoCo's numbering).  A link is one joint's
// moving frame; link 0 is the world.  A body with k joints owns k links, of which the last carries
// it; a body without joints rides on the link of its parent.  A tree is one root link and all
// below.
#pragma once
#include "core/model/schema.hpp"

namespace fb {

struct Sizes {
#define FB_X(name) int name;
  FB_SIZES(FB_X)
#undef FB_X
};
// sizes, and the integer tables, which lie one after another in one array of the caller's
struct Layout : Sizes {
#define FB_X(name, count) const int32_t* name;
  FB_TABLES(FB_X)
#undef FB_X
  bool dense_only;  // all rows of a world in one dense problem, however many: solver "pgs"
  bool soft;        // MuJoCo's contact law
  int nwarm;        // accelerations that a state carries to start a solve at: nv or none
};

#define FB_X(...) +1
inline constexpr int kSizes = 0 FB_SIZES(FB_X);
inline constexpr int kParameters = 0 FB_PARAMETERS(FB_X);
#undef FB_X

}  // namespace fb

namespace fb::FB_ISA {

// sizes in the order of the schema
FB_INLINE Sizes read_sizes(const int32_t* numbers) {
  Sizes s;
#define FB_X(name) s.name = *numbers++;
  FB_SIZES(FB_X)
#undef FB_X
  return s;
}
// words of all tables together
FB_INLINE long table_size(const Sizes& s) {
  long at = 0;
#define FB_X(name, count) at += s.count;
  FB_TABLES(FB_X)
#undef FB_X
  return at;
}
// tables: all of them in the order of the schema, in memory of the host or of a device
FB_INLINE Layout bind_layout(const Sizes& sizes, const int32_t* tables) {
  Layout s;
  static_cast<Sizes&>(s) = sizes;
#define FB_X(name, count) \
  s.name = tables;        \
  tables += s.count;
  FB_TABLES(FB_X)
#undef FB_X
  s.dense_only = s.soft = false;
  s.nwarm = 0;
  return s;
}

// options in another number type
template <class R, class S>
FB_INLINE Options<R> options_as(const Options<S>& from) {
  Options<R> o;
#define FB_X(name, ...) o.name = decltype(o.name)(from.name);
  FB_OPTIONS(FB_X)
#undef FB_X
  return o;
}

// named views into one flat array of parameters (or of their cotangents)
template <class P>
struct Theta {
#define FB_X(name, ...) P* name;
  FB_PARAMETERS(FB_X)
#undef FB_X
};
template <class P>
struct Derived {
#define FB_X(name, count) P* name;
  FB_DERIVED(FB_X)
#undef FB_X
};

// point a view at a flat array; return its length
template <class P>
FB_INLINE int bind(const Sizes& s, P* base, Theta<P>& view) {
  int at = 0;
#define FB_X(name, rows, columns, ...) \
  view.name = base + at;               \
  at += (rows) * (columns);
  FB_PARAMETERS(FB_X)
#undef FB_X
  return at;
}
template <class P>
FB_INLINE int bind(const Sizes& s, P* base, Derived<P>& view) {
  int at = 0;
#define FB_X(name, count) \
  view.name = base + at;  \
  at += count;
  FB_DERIVED(FB_X)
#undef FB_X
  return at;
}
// where the sizes of a geom's mesh or height field lie
template <class P>
FB_INLINE P* asset_size(const Layout& s, const Theta<P>& theta, int g) {
  return (s.geom_type[g] == kHfield ? theta.hfield_size : theta.mesh_scale) + 3 * s.geom_mesh[g];
}
FB_INLINE int theta_size(const Sizes& s) {
  int at = 0;
#define FB_X(name, rows, columns, ...) at += (rows) * (columns);
  FB_PARAMETERS(FB_X)
#undef FB_X
  return at;
}
FB_INLINE int derived_size(const Sizes& s) {
  int at = 0;
#define FB_X(name, count) at += count;
  FB_DERIVED(FB_X)
#undef FB_X
  return at;
}

// everything a step reads: structure, parameters and what
// is derived from them, hull vertices, numerical options
template <class T, class P>
struct Model {
  Layout s;
  Theta<const P> theta;
  Derived<const P> derived;
  const Real<T>* vert;
  bool applied = true;  // whether any number of xfrc_applied is not zero
};

}  // namespace fb::FB_ISA
