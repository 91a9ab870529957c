// mark.cuh -- `celer check`, on the processor: what accessors touch, and what
// else. A part of celer.cuh.
namespace celer {

// Mirrored in engine/task/touched.h.
struct touched {
  unsigned char *map; // 1: promised, 2: touched
  index outside;
  int set, item_dims;
  index at[3], item[3];
  unsigned long long *who; // null, or an item for each: its place in chunk, + 1
  box chunk;
};

constexpr unsigned long long several_items = ~0ull;

// What an accessor knows beside its strides.
struct checked {
  box promised;
  const index *item;
  int item_dims, view;
  touched *marks; // null: what is promised is not known by elements

  CELER_FN void look(const celer::view &v, int number) {
    promised = v.promised;
    view = number;
    marks = v.marks;
  }

  // Where the element lies; where none is promised, some other place.
  template <class T, int D> CELER_FN T *guard(const index *at, T *place) const {
    return holds<D>(at) ? place : missed<T, D>(at);
  }

private:
  // Marks the element, if it was promised.
  template <int D> CELER_FN bool holds(const index *at) const {
    for (int d = 0; d < D; ++d)
      if (at[d] < promised.min[d] || at[d] >= promised.max[d]) return false;
    if (promised.min[0] >= promised.max[0]) return false;
    if (marks == nullptr) return true;
    index place = 0;
    for (int d = 0; d < D; ++d)
      place =
          place * (promised.max[d] - promised.min[d]) + at[d] - promised.min[d];
    if (marks->map[place] == 0) return false;
    marks->map[place] = 3;
    if (marks->who != nullptr) note(marks->who + place);
    return true;
  }

  // Several threads may note at once: whoever finds another item says so.
  CELER_FN void note(unsigned long long *who) const {
    const box &c = marks->chunk;
    unsigned long long me = 0;
    for (int d = 0; d < item_dims; ++d)
      me = me * (c.max[d] - c.min[d]) + (item[d] - c.min[d]);
    unsigned long long other = __atomic_exchange_n(who, ++me, __ATOMIC_RELAXED);
    if (other != 0 && other != me)
      __atomic_store_n(who, several_items, __ATOMIC_RELAXED);
  }

  template <class T, int D>
  __attribute__((noinline)) T *missed(const index *at) const {
    static thread_local struct {
      alignas(T) unsigned char bytes[sizeof(T)];
    } scratch;
    memset(&scratch, 0, sizeof scratch);
    if (marks == nullptr) return (T *)&scratch;
    __atomic_fetch_add(&marks->outside, 1, __ATOMIC_RELAXED);
    if (__atomic_exchange_n(&marks->set, 1, __ATOMIC_RELAXED) == 0) {
      for (int d = 0; d < D; ++d) marks->at[d] = at[d];
      for (int d = 0; d < item_dims; ++d) marks->item[d] = item[d];
      marks->item_dims = item_dims;
    }
    return (T *)&scratch;
  }
};

} // namespace celer
