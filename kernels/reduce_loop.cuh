// reduce_loop.cuh -- reducers on the processor. A part of reduce.cuh.
namespace celer {

// One element, while a call computes it.
template <class T> struct held {
  T *row;
  T value;
  int op;

  CELER_FN ~held() {
    *row = value;
  }
};

template <class T> static CELER_FN reducer<T, 0> copied(held<T> &h) {
  return {&h.value, h.op};
}

template <class T, int V, index At> struct bind<reducer<T, 0>, V, At> {
  static CELER_FN held<T> from(const call *c) {
    T *row = (T *)c->view_at[V].base;
    return {row, *row, op_of(V)};
  }
};

template <class T, int D, int V, index At> struct bind<reducer<T, D>, V, At> {
  static CELER_FN reducer<T, D> from(const call *c) {
    reducer<T, D> r;
    const inout<T, D> row = bind<inout<T, D>, V, At>::from(c);
    r.row = row;
    r.op = op_of(V);
    const view &v = c->view_at[V];
    r.seen = v.lines_of != nullptr ? *v.lines_of : lines{};
    return r;
  }
};

// ---- lines

template <class T> constexpr index line_elements = 64 / sizeof(T);

template <class T>
static __attribute__((noinline)) void set_line(T *line, const void *identity) {
  T value;
  memcpy(&value, identity, sizeof value);
  for (index i = 0; i < line_elements<T>; ++i) line[i] = value;
}

// Sees to it that an element's line holds something. What is outside of the
// row, which checks have found, is in no line.
template <class T>
static CELER_FN void begin_line(const lines &seen, T *row, const T *at) {
  const index line = index(((uintptr_t)at - (uintptr_t)row) / 64);
#ifdef CELER_CHECK
  if ((uintptr_t)line >= (uintptr_t)seen.count) return;
#endif
  if (__builtin_expect(seen.begun[line] != 0, 1)) return;
  seen.begun[line] = 1;
  set_line(row + line * line_elements<T>, seen.identity);
}

// ---- combining rows

template <class T>
static CELER_FN void combine_span(int op, const T *__restrict row,
                                  T *__restrict into, index begin, index end) {
  for (index i = begin; i < end; ++i) into[i] = apply<T>(op, into[i], row[i]);
}

// Those lines of each row that hold something; where no row does, the identity.
template <class T>
static CELER_FN void combine_lines(int op, const T *rows, index first,
                                   index end, index pitch, T *into,
                                   const elements &of) {
  const lines &seen = *of.seen;
  for (index r = first; r < end; ++r) {
    const unsigned char *begun = seen.begun + r * seen.stride;
    for (index l = 0; l < seen.count; ++l) {
      unsigned long none;
      memcpy(&none, begun + l, sizeof none); // there are more bytes than lines
      if (none == 0) {
        l += index(sizeof none) - 1;
      } else if (begun[l] != 0) {
        const index at = l * line_elements<T>, last = at + line_elements<T>;
        combine_span(op, rows + r * pitch, into, at,
                     last < of.end ? last : of.end);
      }
    }
  }
}

// In the order of rows, each whole, so that compilers vectorise it, but only so
// many elements at a time as stay in the first cache.
template <class T>
static CELER_FN void combine_rows(int op, bool onto, const T *rows, index first,
                                  index end, index pitch, T *into,
                                  const elements &of) {
  if (of.seen != nullptr)
    return combine_lines(op, rows, first, end, pitch, into, of);
  constexpr index some = 8192 / index(sizeof(T)) + 1;
  for (index i = of.begin; i < of.end; i += some) {
    const index last = of.end - i < some ? of.end : i + some;
    if (!onto)
      memcpy((void *)(into + i), rows + first * pitch + i,
             (last - i) * sizeof(T));
    for (index r = onto ? first : first + 1; r < end; ++r)
      combine_span(op, rows + r * pitch, into, i, last);
  }
}

template <class S>
static inline void combine_chunk(const call *c, int number, bool onto) {
  const view &rows = c->view_at[0], &into = c->view_at[1];
  combiner<S>::run(number, onto, rows.base, rows.promised.min[0],
                   rows.promised.max[0], rows.layout.max[1], into.base,
                   {c->chunk.min[0], c->chunk.max[0], rows.lines_of},
                   typename S::all());
}

#undef CELER_REDUCES
#define CELER_REDUCES(name)                                                    \
  CELER_EXPORT void celer_combine_##name(const celer::call *celer_given,       \
                                         int celer_view, int celer_onto) {     \
    celer::combine_chunk<celer::signature<decltype(CELER_KERNEL(name))>>(      \
        celer_given, celer_view, celer_onto != 0);                             \
  }

} // namespace celer
