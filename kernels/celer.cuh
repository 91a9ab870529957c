// celer.cuh -- the kernel language of celer; kernels/README.md explains it.
//
// One header for three compilers: NVRTC (which has no other header), g++ and
// clang++; the build puts the parts that it includes in their places. A kernel
// is a function `kernel void name(item<D> it, ...)`. The engine appends
// CELER_ENTRY(name) for each; the templates below then read the function's type
// and make of it
//   celer_run_<name>     host: runs a celer::call; CUDA: a __global__ function
//                        of one celer::arguments
//   celer_params_<name>  its parameters, an array of celer::param that ends
//                        with kind 0
// and what reduce.cuh adds.
// engine/device/kernel.h mirrors call, view, param and the kinds.
#ifndef CELER_CUH
#define CELER_CUH

#ifdef __CUDACC__
#define CELER_CUDA 1
#define CELER_FN __host__ __device__ __forceinline__
#define kernel static __device__ __forceinline__
#else
#ifndef CELER_ALWAYS // empty, where nothing counts but how fast it compiles
#define CELER_ALWAYS __attribute__((always_inline))
#endif
#define CELER_FN inline CELER_ALWAYS
#define kernel static inline CELER_ALWAYS __attribute__((unused))
#endif

#ifndef CELER_CUDA
#include <float.h>
#include <limits.h>
#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#define __device__
#define __host__
#define __global__
#define __constant__
#define __forceinline__ inline CELER_ALWAYS
#elif defined(__CUDACC_RTC__)
typedef signed char int8_t;
typedef short int16_t;
typedef int int32_t;
typedef long int64_t;
typedef unsigned char uint8_t;
typedef unsigned short uint16_t;
typedef unsigned int uint32_t;
typedef unsigned long uint64_t;
typedef long intptr_t;
typedef unsigned long uintptr_t;
#define M_PI 3.14159265358979323846
#define INFINITY __int_as_float(0x7f800000)
#define NAN __int_as_float(0x7fffffff)
#define FLT_MAX 3.40282346638528859812e+38f
#define FLT_MIN 1.17549435082228750797e-38f
#define FLT_EPSILON 1.19209289550781250000e-07f
#define DBL_MAX 1.79769313486231570815e+308
#define DBL_MIN 2.22507385850720138309e-308
#define DBL_EPSILON 2.22044604925031308085e-16
#define INT_MAX 2147483647
#define INT_MIN (-INT_MAX - 1)
#define UINT_MAX 4294967295u
#endif

// ---- what CUDA has and a host compiler lacks

#ifndef CELER_CUDA
#define CELER_VECTORS(T, name, align2, align4)                                 \
  struct alignas(align2) name##2 {                                             \
    T x, y;                                                                    \
  };                                                                           \
  struct name##3 {                                                             \
    T x, y, z;                                                                 \
  };                                                                           \
  struct alignas(align4) name##4 {                                             \
    T x, y, z, w;                                                              \
  };                                                                           \
  CELER_FN constexpr name##2 make_##name##2(T x, T y) {                        \
    return {x, y};                                                             \
  }                                                                            \
  CELER_FN constexpr name##3 make_##name##3(T x, T y, T z) {                   \
    return {x, y, z};                                                          \
  }                                                                            \
  CELER_FN constexpr name##4 make_##name##4(T x, T y, T z, T w) {              \
    return {x, y, z, w};                                                       \
  }
CELER_VECTORS(float, float, 8, 16)
CELER_VECTORS(double, double, 16, 16)
CELER_VECTORS(int, int, 8, 16)
CELER_VECTORS(unsigned, uint, 8, 16)
#undef CELER_VECTORS

CELER_FN float rsqrtf(float x) {
  return 1.0f / sqrtf(x);
}
CELER_FN double rsqrt(double x) {
  return 1.0 / sqrt(x);
}
CELER_FN float rsqrt(float x) {
  return 1.0f / sqrtf(x);
}
#endif

// As CUDA's for one type; also for two. With a NaN the result is unspecified.
// Branches, which tell the compiler more than `?:`: see row().
template <class A, class B>
CELER_FN constexpr auto min(A a, B b) -> decltype(true ? A() : B()) {
  using T = decltype(true ? A() : B());
  if (T(b) < T(a)) return T(b);
  return T(a);
}

template <class A, class B>
CELER_FN constexpr auto max(A a, B b) -> decltype(true ? A() : B()) {
  using T = decltype(true ? A() : B());
  if (T(a) < T(b)) return T(b);
  return T(a);
}

template <class T, class L, class H>
CELER_FN constexpr T clamp(T x, L lo, H hi) {
  if (T(hi) < x) x = T(hi);
  if (x < T(lo)) return T(lo);
  return x;
}

namespace celer {

using index = long long;

// ---- what crosses from the engine; mirrored in engine/device

struct box {
  index min[3], max[3];
};

// Of an array that is reduced into: elements [own_begin, own_end) are the
// block's own. Others go to a row of which lines of 64 bytes hold something; an
// item that comes to another line begins it with the identity.
struct lines {
  index own_begin, own_end;
  index along; // not 0: what lies at items' own coordinates is the block's own
  void *row;
  unsigned char *begun; // for each line, then for any
  index count, stride;  // lines; bytes from one row's to the next's
  const void *identity;
};

struct touched;
struct view {
  void *base;
  box layout, promised;
  touched *marks; // with CELER_MARK; else null
  const lines *lines_of;
  bool holds;
};

struct call {
  box chunk, range;
  int rank, ranks, views;
  const view *view_at;
  const unsigned char *values;
  const int *group; // items of a group in each dimension
  int strip;        // items of a row at a time; 0: all
};

enum kind : int {
  none,
  an_item,
  an_in,
  an_out,
  an_inout,
  a_value,
  a_group,
  a_local,
  a_reducer
};

struct param {
  int kind, dims, class_, size, align;
  char type[44];
  int tile[3];
};

static_assert(sizeof(view) == 128 && sizeof(call) == 144 &&
                  sizeof(param) == 76 && sizeof(lines) == 64,
              "engine/device/kernel.h says the same");

// ---- the work item: its coordinates in the whole index space

template <int D> struct item {
  static_assert(D >= 0 && D <= 3, "an item has 0 to 3 dimensions");
  index at[D > 0 ? D : 1], size[D > 0 ? D : 1];
  int here[D > 0 ? D : 1];

  // Coordinate in dimension d; dimension 0 is the slowest.
  CELER_FN constexpr index operator[](int d) const {
    return at[d];
  }
  // Extent of the whole index space in dimension d.
  CELER_FN constexpr index range(int d) const {
    return size[d];
  }
  // Position in the whole index space, counted row by row.
  CELER_FN constexpr index linear() const {
    index r = D > 0 ? at[0] : 0;
    for (int d = 1; d < D; ++d) r = r * size[d] + at[d];
    return r;
  }
  // Coordinate in its tile (tile.cuh); 0 of an item that has none.
  CELER_FN constexpr int local(int d) const {
    return here[d];
  }
};

// ---- accessors: global coordinates; `origin` is where (0, 0, 0) would lie

// In elements. A GPU multiplies 32-bit numbers several times faster; what is
// held in longer rows or planes than that, or has more rows, is compiled with
// CELER_WIDE.
#if defined(CELER_CUDA) && !defined(CELER_WIDE)
using stride = int;
#else
using stride = index;
#endif

template <class P> struct traits;

} // namespace celer

#ifdef CELER_MARK
#define CELER_CHECK 1
#include "mark.cuh"
#elif defined(CELER_SAMPLE)
#define CELER_CHECK 1
#include "sample.cuh"
#elif defined(CELER_CHECK)
#include "bounds.cuh"
#endif

namespace celer {

template <class T> struct bare { using type = T; };
template <class T> struct bare<const T> : bare<T> {};
template <class T> struct bare<T &> : bare<T> {};

template <class T> struct accessed {
  using type = T &;
  static constexpr bool in_registers = false;
};
#ifdef CELER_STREAM
// What is read may be in registers, which have no address.
template <class T> struct accessed<const T> {
  using type = T;
  static constexpr bool in_registers = true;
};
#endif

template <class T, int D> struct accessor {
  static_assert(D >= 0 && D <= 3, "a buffer has 0 to 3 dimensions");
  T *origin;
  alignas(8) stride stride0; // of the slower dimensions
  alignas(8) stride stride1;
#ifdef CELER_CHECK
  checked check;
#elif defined(CELER_FOLD)
  T *own; // the only element that an item touches, for itself; or null
  // In a tile: `origin` is of element (from0, from1). In a stream `column` has
  // `depth` rows of that column, row from0 at `age`, and `beside` is that
  // element among those of its row, so many of them to its left and right.
  int from0 = 0, from1 = 0, pitch = 0; // in elements; 0: in neither
  int age = 0, depth = 0, left = 0, right = 0;
  T *column = nullptr, *beside = nullptr;
#endif

  using given = typename accessed<T>::type;

  template <class... I> CELER_FN given operator()(I... i) const {
    static_assert(sizeof...(I) == D,
                  "an accessor takes as many coordinates as it has dimensions");
    return at(index(i)...);
  }
  CELER_FN given operator[](index i) const {
    static_assert(D == 1, "only a one-dimensional accessor is also an array");
    return at(i);
  }

private:
  template <class... I> CELER_FN given at(I... i) const {
#ifdef CELER_CHECK
    const index where[] = {i..., 0};
    return *check.template guard<T, D>(where, &place(i...));
#elif defined(CELER_FOLD)
    if (own != nullptr) return *own;
    if constexpr (D == 1 && accessed<T>::in_registers)
      if (pitch > 0) return read_by(from0, int(i)...);
    if constexpr (D == 2)
      if (pitch > 0) return near_by(int(i)...);
    return place(i...);
#else
    return place(i...);
#endif
  }
#ifdef CELER_FOLD
  CELER_FN given near_by(int i, int j) const {
    if constexpr (accessed<T>::in_registers)
      if (depth > 0) return read_by(i, j);
    return origin[(i - from0) * pitch + (j - from1)];
  }
  // All are read and one is taken, so that no address depends on what is not
  // known beforehand: else these were no registers.
  CELER_FN typename bare<T>::type read_by(int i, int j) const {
    typename bare<T>::type r = column[age * pitch];
    if (j == from1) {
#pragma unroll
      for (int k = 0; k < depth; ++k) {
        typename bare<T>::type other = column[k * pitch];
        if (k == age + from0 - i) r = other;
      }
    } else {
#pragma unroll
      for (int k = -left; k <= right; ++k) {
        typename bare<T>::type other = beside[k];
        if (k == j - from1) r = other;
      }
    }
    return r;
  }
#endif
  CELER_FN T &place() const {
    return *origin;
  }
  CELER_FN T &place(index i) const {
    return origin[i];
  }
  CELER_FN T &place(index i, index j) const {
    return origin[i * stride0 + j];
  }
  CELER_FN T &place(index i, index j, index k) const {
    return origin[i * stride0 + j * stride1 + k];
  }
};

// A parameter for one item.
template <class P> CELER_FN P marked(P p, const index *item, int item_dims) {
#ifdef CELER_CHECK
  if constexpr (traits<P>::views == 1) {
    p.check.item = item;
    p.check.item_dims = item_dims;
  }
#endif
  return p;
}

template <class T, int D> struct in : accessor<const T, D> {};
template <class T, int D> struct out : accessor<T, D> {};
template <class T, int D> struct inout : accessor<T, D> {};

// ---- types, described

template <class T> struct is_pointer { static constexpr bool value = false; };
template <class T> struct is_pointer<T *> {
  static constexpr bool value = true;
};

constexpr void copy_text(char *to, const char *from, int n) {
  for (int i = 0; i < n && i < 43; ++i) to[i] = from[i];
}

constexpr int length(const char *text) {
  int n = 0;
  while (text[n] != 0) ++n;
  return n;
}

// The compiler's own spelling of T, out of "... [with T = spelling]".
template <class T> constexpr void spell(char *to) {
  const char *text = __PRETTY_FUNCTION__;
  int n = length(text), begin = 0;
  for (int i = 0; i + 1 < n; ++i)
    if (text[i] == 'T' && (text[i + 1] == '=' || text[i + 1] == ' ') &&
        (text[i - 1] == ' ' || text[i - 1] == '['))
      begin = i + 1;
  while (text[begin] == ' ' || text[begin] == '=') ++begin;
  int end = begin;
  while (end < n && text[end] != ';' && text[end] != ']') ++end;
  copy_text(to, text + begin, end - begin);
}

template <class T> struct describe {
  static constexpr int class_ = __is_enum(T) ? 'i' : 's';
  static constexpr void name(char *to) {
    spell<T>(to);
  }
};

#define CELER_TYPE(T, letter)                                                  \
  template <> struct describe<T> {                                             \
    static constexpr int class_ = letter;                                      \
    static constexpr void name(char *to) {                                     \
      copy_text(to, #T, sizeof(#T) - 1);                                       \
    }                                                                          \
  };
CELER_TYPE(bool, 'b')
CELER_TYPE(char, 'i')
CELER_TYPE(signed char, 'i')
CELER_TYPE(short, 'i')
CELER_TYPE(int, 'i')
CELER_TYPE(long, 'i')
CELER_TYPE(long long, 'i')
CELER_TYPE(unsigned char, 'u')
CELER_TYPE(unsigned short, 'u')
CELER_TYPE(unsigned int, 'u')
CELER_TYPE(unsigned long, 'u')
CELER_TYPE(unsigned long long, 'u')
CELER_TYPE(float, 'f')
CELER_TYPE(double, 'f')
CELER_TYPE(float2, 's')
CELER_TYPE(float3, 's')
CELER_TYPE(float4, 's')
CELER_TYPE(double2, 's')
CELER_TYPE(double3, 's')
#if defined(CELER_CUDA) && defined(__NVCC_DIAG_PRAGMA_SUPPORT__)
#pragma nv_diag_suppress 1215, 1444 // CUDA 13 would rename double4
#endif
CELER_TYPE(double4, 's')
CELER_TYPE(int2, 's')
CELER_TYPE(int3, 's')
CELER_TYPE(int4, 's')
CELER_TYPE(uint2, 's')
CELER_TYPE(uint3, 's')
CELER_TYPE(uint4, 's')
#undef CELER_TYPE

template <class T> constexpr param param_of(int kind, int dims) {
  static_assert(!is_pointer<T>::value,
                "a kernel takes buffers by accessors, not by pointers");
  static_assert(__is_trivially_copyable(T),
                "elements and values must be trivially copyable");
  param p = {kind, dims, describe<T>::class_, int(sizeof(T)), int(alignof(T)),
             {}};
  describe<T>::name(p.type);
  return p;
}

// ---- parameters: what each kind needs and how it is made

template <class P> struct traits { // a value
  static constexpr int kind = a_value, views = 0;
  static constexpr index size = sizeof(P), align = alignof(P);
  static constexpr param describe() {
    return param_of<P>(a_value, 0);
  }
};

template <class T, int D, int K> struct accessor_traits {
  static constexpr int kind = K, views = 1;
  static constexpr index size = 24, align = 8; // as a GPU is given it
  static constexpr param describe() {
    return param_of<T>(K, D);
  }
};
template <class T, int D>
struct traits<in<T, D>> : accessor_traits<T, D, an_in> {};
template <class T, int D>
struct traits<out<T, D>> : accessor_traits<T, D, an_out> {};
template <class T, int D>
struct traits<inout<T, D>> : accessor_traits<T, D, an_inout> {};

template <int D> struct traits<item<D>> {
  static constexpr int kind = an_item, views = 0, dims = D;
  static constexpr param describe() {
    return {an_item, D, 0, 0, 0, {}};
  }
};

// What a parameter is told beside its view, of its buffer's edges (near.cuh) or
// of where values go (route.cuh): a value of its own, behind it.
template <class P> struct edge_of {
  static constexpr index size = 0;
  static constexpr bool is_near = false;
  static constexpr param describe() {
    return {};
  }
};

// What such a parameter knows of its item: nothing; where accesses are checked,
// that it is to be held to its reach. Or that no index leaves the buffer; none
// but in the last dimension; none in the last one; that the item lies in it;
// and that an index may lead farther than an extent.
enum known : int {
  anywhere,
  held_to_reach,
  inside,
  at_ends,
  inside_row,
  at_edge,
  far_out
};
template <int Known, class P> CELER_FN P knowing(P p) {
  return p;
}

// Items from which no index leaves a buffer, and whether one may lead farther
// than an extent.
template <int D> struct inner {
  stride begin[D > 0 ? D : 1], end[D > 0 ? D : 1];
  stride size[D > 0 ? D : 1]; // of the smallest buffer
  bool far = false;           // to turn once may not be enough

  CELER_FN inner() {
    for (int d = 0; d < D; ++d) {
      begin[d] = 0;
      size[d] = end[d] = stride(~0ull >> (65 - 8 * sizeof(stride)));
    }
  }
  template <class P> CELER_FN void keep(const P &p) {
    if constexpr (edge_of<P>::is_near) {
      for (int d = 0; d < D; ++d) {
        const stride least = p.edges->reach[d], most = p.edges->size[d] - least;
        if (least > begin[d]) begin[d] = least;
        if (most < end[d]) end[d] = most;
        if (p.edges->size[d] < size[d]) size[d] = p.edges->size[d];
      }
      far = far || p.edges->is_far;
    }
  }
  // After that: of a range that exceeds a buffer, items lie outside. Known of
  // GPUs' wide kernels alone, which such launches have.
  CELER_FN void range_over(const index *range) {
    for (int d = 0; d < D; ++d) far = far || range[d] > size[d];
  }
  CELER_FN bool holds(int d, stride i) const {
    return i >= begin[d] && i < end[d];
  }
};

constexpr index aligned(index at, index align) {
  return (at + align - 1) / align * align;
}

template <int... I> struct indices {};
template <int N, int... I> struct count_up : count_up<N - 1, N - 1, I...> {};
template <int... I> struct count_up<0, I...> { using type = indices<I...>; };

template <int N> struct params { param at[N + 1]; };

// What a parameter takes of the shared memory that groups have on a GPU.
template <class P> struct shared_of { static constexpr index bytes = 0; };

// CELER_KERNEL(name) is a kernel's address, also where there are functions of
// its name, as NVRTC has all(int), and C div(int, int): of these, the one whose
// first parameter is an item, a tile or a group. Not so where there are
// templates: engine/device/compile/source.c lists these. Whatever else is one
// function is taken as it is, and refused by `signature`.
template <int D, class... P>
constexpr auto chosen(void (*f)(item<D>, P...), int) {
  return f;
}
template <int D, class... P>
constexpr auto chosen(void (*f)(const item<D> &, P...), int) {
  return f;
}
template <class F> constexpr F chosen(F f, ...) {
  return f;
}
#define CELER_KERNEL(name) celer::chosen(&name, 0)

template <class F> struct signature {
  static_assert(sizeof(F) == 0, "a kernel is a function that returns void");
};

template <class Item, class... P> struct signature<void (*)(Item, P...)> {
  using first = traits<typename bare<Item>::type>;
  static_assert(first::kind == an_item || first::kind == a_group,
                "the first parameter of a kernel is item<D>, tile<N, ...> or "
                "group<D>");
  static constexpr int count = sizeof...(P);
  static constexpr int dims = first::dims;
  static constexpr bool reduces =
      ((traits<typename bare<P>::type>::kind == a_reducer) || ... || false);
  static constexpr int edges =
      (int(edge_of<typename bare<P>::type>::size > 0) + ... + 0);
  static constexpr bool has_near =
      (edge_of<typename bare<P>::type>::is_near || ... || false);
  static constexpr int described = count + edges;
  static constexpr int element_bytes =
      ((traits<typename bare<P>::type>::views *
        traits<typename bare<P>::type>::describe().size) +
       ... + 0);
  using all = typename count_up<count>::type;

  static constexpr params<described + 1> describe() {
    const param own[] = {traits<typename bare<P>::type>::describe()..., {}};
    const param edge[] = {edge_of<typename bare<P>::type>::describe()..., {}};
    params<described + 1> out = {{first::describe()}};
    for (int k = 0, n = 1; k < count; ++k) {
      out.at[n++] = own[k];
      if (edge[k].kind != none) out.at[n++] = edge[k];
    }
    return out;
  }

  // Which view, or where among the packed values, parameter k is.
  static constexpr int view_of(int k) {
    const int views[] = {traits<typename bare<P>::type>::views..., 0};
    int n = 0;
    for (int i = 0; i < k; ++i) n += views[i];
    return n;
  }
  static constexpr index value_at(int k) {
    const index size[] = {traits<typename bare<P>::type>::size..., 0};
    const index align[] = {traits<typename bare<P>::type>::align..., 1};
    const index edge[] = {edge_of<typename bare<P>::type>::size..., 0};
    const int views[] = {traits<typename bare<P>::type>::views..., 0};
    index at = 0;
    for (int i = 0; i < k; ++i)
      if (views[i] == 0 || edge[i] > 0)
        at = aligned(at, align[i]) + (views[i] == 0 ? size[i] : edge[i]);
    return aligned(at, align[k]);
  }
  // The same where accessors are packed too.
  static constexpr index argument_at(int k) {
    const index size[] = {traits<typename bare<P>::type>::size..., 0};
    const index align[] = {traits<typename bare<P>::type>::align..., 1};
    index at = 0;
    for (int i = 0; i < k; ++i) at = aligned(at, align[i]) + size[i];
    return aligned(at, align[k]);
  }
  // Where what is promised of all views begins, with CELER_CHECK; the end.
  static constexpr index boxes_at() {
    return aligned(argument_at(count), 8);
  }
  static constexpr index packed_size() {
#if defined(CELER_CHECK) && defined(CELER_CUDA)
    return boxes_at() + promises_size(view_of(count));
#else
    return argument_at(count);
#endif
  }
};

template <auto F>
using described = params<signature<decltype(F)>::described + 1>;

} // namespace celer

#ifdef CELER_CUDA
#include "launch.cuh"
#else
#include "loop.cuh"
#endif

// What an entry has beside, where there are reducers.
#define CELER_REDUCES(name)

using celer::in;
using celer::inout;
using celer::item;
using celer::out;

#endif
