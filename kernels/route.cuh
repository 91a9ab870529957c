// route.cuh -- route<T, D>: an item says where its results go. It stands after
// celer.cuh where a source mentions it.
//
// Each item has slots of its own in a buffer beside: how often it has pushed,
// in 32 bits, then the keys, then the values. So no item waits for another, and
// what comes of all does not depend on their order. Host tasks bring it where
// it belongs (engine/comm/route.h). Where one GPU has all, its kernels do
// (routed.cuh), and slots lie *apart*: the counts of all items, then the keys
// that each has pushed first, those that each has pushed next..., and so the
// values: then a warp writes side by side.
#ifndef CELER_ROUTE_CUH
#define CELER_ROUTE_CUH

namespace celer {

// What a parameter is told beside its view. Mirrored in
// lua/celer/submit/route.lua.
struct routing {
  index size[3];   // of what it leads to
  index first[3];  // of the range: its slots are the first ones
  index across[2]; // extents of the range behind the first one
  // Bytes from an item's count to its values, or, where slots lie apart, from
  // the first item's.
  index values;
  // Where they do: bytes from a count to the item's first key, and from each
  // key to its next one; from each of its values to the next one.
  index next_key, next_value;
  int most;        // pushes of an item for which there are slots
  int words;       // that an item has
  int step, pitch; // bytes from an item to the next: of counts, and of values
  int is_wide;     // keys have 64 bits, not 32
  int is_apart;
};
// In the place of an item's count once a key of it has led nowhere, beside what
// there was; in the first word of values then is that key.
constexpr uint32_t leads_nowhere = 1u << 31;

using word = unsigned long long;

// What stands in slots. The types differ by what is pushed, so that compilers
// know that another route, and values, change nothing of it.
template <class T> struct slot_count { uint32_t pushes; };
template <class T> struct slot_key { uint32_t at; };

// A coordinate that leaves the buffer, in `bits` of a key that says so.
CELER_FN constexpr word outside_of(index i, int bits) {
  const index half = index(1) << (bits - 1);
  return word(clamp(i, -half, half - 1) + half);
}

template <class T, int D = 1> struct route : accessor<word, 3> {
  static_assert(D >= 1 && D <= 3, "route<T, D> has 1 to 3 dimensions");
  routing to;
  slot_count<T> *slot; // of the item
  char *values;

  // Sends a value to an element, or to a bin.
  CELER_FN void push(index i, const T &value) const {
    static_assert(D == 1, "push takes as many coordinates as the route has "
                          "dimensions, and a value");
    put(holds(0, i), word(i), value);
  }
  CELER_FN void push(index i, index j, const T &value) const {
    static_assert(D == 2, "push takes as many coordinates as the route has "
                          "dimensions, and a value");
    const bool is_in = holds(0, i) && holds(1, j);
    put(is_in,
        is_in ? word(i * to.size[1] + j)
              : word(1) << 62 | outside_of(i, 31) << 31 | outside_of(j, 31),
        value);
  }
  CELER_FN void push(index i, index j, index k, const T &value) const {
    static_assert(D == 3, "push takes as many coordinates as the route has "
                          "dimensions, and a value");
    const bool is_in = holds(0, i) && holds(1, j) && holds(2, k);
    put(is_in,
        is_in ? word((i * to.size[1] + j) * to.size[2] + k)
              : word(1) << 62 | outside_of(i, 20) << 40 |
                    outside_of(j, 20) << 20 | outside_of(k, 20),
        value);
  }

  // Before an item pushes.
  CELER_FN void begin(const index *item, int dims) {
    index at[3] = {0, 0, 0};
    for (int d = 0; d < dims; ++d) at[d] = item[d] - to.first[d];
    if (dims == 1 || to.is_apart) { // of one dimension, rows lie side by side
      index i = at[0];
      for (int d = 1; d < dims; ++d) i = i * to.across[d - 1] + at[d];
      slot = (slot_count<T> *)((char *)this->origin + i * to.step);
      values = (char *)this->origin + to.values + i * to.pitch;
    } else {
      slot = (slot_count<T> *)(this->origin + at[0] * this->stride0 +
                               (dims > 1 ? at[1] * this->stride1 : 0) +
                               (dims > 2 ? at[2] * to.words : 0));
      values = (char *)slot + to.values;
    }
#ifdef CELER_MARK // an item has all of its slots
    this->check.item = item;
    this->check.item_dims = dims;
    for (index w = 0; w < to.words; ++w)
      (*this)(at[0], dims > 1 ? at[1] : w,
              dims > 2   ? at[2] * to.words + w
              : dims > 1 ? w
                         : 0) = 0;
#endif
    slot->pushes = 0;
  }

private:
  CELER_FN bool holds(int d, index i) const {
    return i >= 0 && i < to.size[d];
  }
  CELER_FN void put(bool is_in, word key, const T &value) const {
    const uint32_t n = slot->pushes;
    if (n >= leads_nowhere) return;
    slot->pushes = n + 1;
    if (n >= uint32_t(to.most)) return; // counted: so many would have done
    if (!is_in) {
      slot->pushes = leads_nowhere | (n + 1);
      *(word *)values = key;
      return;
    }
    if (to.is_apart) {
      ((slot_key<T> *)((char *)slot + (1 + n) * to.next_key))->at =
          uint32_t(key);
      store<true>(values + n * to.next_value, value);
      return;
    }
    if (to.is_wide)
      ((word *)slot)[1 + n] = key;
    else
      ((slot_key<T> *)slot)[1 + n].at = uint32_t(key);
    store<false>(values + n * sizeof(T), value);
  }
  // Values that lie apart are at multiples of their size, if that is 16.
  template <bool IsApart>
  static CELER_FN void store(char *into, const T &value) {
#ifdef CELER_CUDA
    if constexpr (IsApart && sizeof(T) == 16 && alignof(T) == 8) {
      uint4 all;
      memcpy(&all, &value, 16);
      *(uint4 *)into = all;
      return;
    }
#endif
    if constexpr (alignof(T) <= sizeof(word)) {
      *(T *)into = value;
    } else {
      const word *from = (const word *)&value;
      for (size_t w = 0; w < sizeof(T) / sizeof(word); ++w)
        ((word *)into)[w] = from[w];
    }
  }
};

template <class T, int D> struct traits<route<T, D>> {
  static constexpr int kind = an_out, views = 1;
  static constexpr index size = 24 + sizeof(routing), align = 8;
  // The engine is told of words, which are the elements of the view.
  static constexpr param describe() {
    param p = param_of<T>(an_out, D);
    p.size = p.align = sizeof(word);
    return p;
  }
};

template <class T, int D> struct edge_of<route<T, D>> {
  static constexpr index size = sizeof(routing);
  static constexpr bool is_near = false;
  static constexpr param describe() {
    return {a_value, D, 's', int(size), 8, "routing", {int(sizeof(T))}};
  }
};

#ifdef CELER_CUDA

template <class T, int D, class S, int K> struct bind<route<T, D>, S, K> {
  template <class A>
  static __device__ __forceinline__ route<T, D>
  from(const A &a, const index *item, int item_dims) {
    static_assert(S::first::kind == an_item,
                  "route<T, D> is for kernels of item<D>");
    route<T, D> p;
    static_cast<accessor<word, 3> &>(p) =
        bind<out<word, 3>, S, K>::from(a, item, item_dims);
    p.to = *(const routing *)(a.bytes + S::argument_at(K) + 24);
    p.begin(item, item_dims);
    return p;
  }
};

#else

template <class T, int D, int V, index At> struct bind<route<T, D>, V, At> {
  static CELER_FN route<T, D> from(const call *c) {
    route<T, D> p;
    static_cast<accessor<word, 3> &>(p) = bind<out<word, 3>, V, At>::from(c);
    memcpy((void *)&p.to, c->values + At, sizeof p.to);
    return p;
  }
};

template <class T, int R, int D>
static CELER_FN route<T, R> placed(const route<T, R> &given,
                                   const item<D> &it) {
  route<T, R> p = given;
  p.begin(it.at, D);
  return p;
}

#endif

} // namespace celer

using celer::route;

#endif
