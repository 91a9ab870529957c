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
    return r;
  }
};

template <class S>
static inline void combine_chunk(const call *c, int number, bool onto) {
  const view &rows = c->view_at[0], &into = c->view_at[1];
  for (index i = c->chunk.min[0]; i < c->chunk.max[0]; ++i)
    combiner<S>::run(number, onto, rows.base, rows.promised.min[0],
                     rows.promised.max[0], rows.layout.max[1], into.base, i,
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
