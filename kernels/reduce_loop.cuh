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

// The same of a sum in fixed point.
template <class T> struct held_fixed {
  to_fixed<T> to;

  CELER_FN held_fixed(void *row) {
    to.begin((fixed<T> *)row);
  }
  held_fixed(const held_fixed &) = delete;
  CELER_FN ~held_fixed() {
    to.flush();
  }
};

template <class T> static CELER_FN reducer<T, 0> copied(held_fixed<T> &h) {
  return {(T *)&h.to, op_fixed};
}

template <class T, int V, index At> struct bind<reducer<T, 0>, V, At> {
  static CELER_FN auto from(const call *c) {
    void *row = c->view_at[V].base;
    if constexpr (may_be_fixed<T> && op_of(V) == op_fixed)
      return held_fixed<T>(row);
    else
      return held<T>{(T *)row, *(T *)row, op_of(V)};
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
    r.here = nullptr;
    return r;
  }
};

template <class T, int R, int D>
static CELER_FN reducer<T, R> placed(const reducer<T, R> &given,
                                     const item<D> &it) {
  reducer<T, R> r = given;
  if constexpr (R > 0 && R <= D) r.here = it.at + D - R;
  return r;
}

// ---- lines

template <class T> constexpr index line_elements = 64 / sizeof(T);

template <class T>
static __attribute__((noinline)) void set_line(T *line, const void *identity) {
  T value;
  memcpy(&value, identity, sizeof value);
  for (index i = 0; i < line_elements<T>; ++i) line[i] = value;
}

// Where the block combines onto the element `at` of an array: there if it is
// the block's own, else in a line that then holds something. What is outside of
// the array, which checks have found, is in no line.
template <class T>
static CELER_FN T *find_place(const lines &seen, T *array, T *at) {
  const uintptr_t bytes = (uintptr_t)at - (uintptr_t)array;
  const index i = index(bytes / sizeof(T)), line = index(bytes / 64);
#ifdef CELER_CHECK
  if ((uintptr_t)line >= (uintptr_t)seen.count) return at;
#endif
  if (i >= seen.own_begin && i < seen.own_end) return at;
  T *row = (T *)seen.row;
  if (__builtin_expect(seen.begun[line] == 0, 0)) {
    seen.begun[line] = seen.begun[seen.count] = 1;
    set_line(row + line * line_elements<T>, seen.identity);
  }
  return row + i;
}

// ---- combining rows

template <class T>
static CELER_FN void combine_span(int op, const T *__restrict row,
                                  T *__restrict into, index begin, index end) {
  for (index i = begin; i < end; ++i) into[i] = apply<T>(op, into[i], row[i]);
}

// What blocks have in rows, of elements [begin, end) of line `l`, comes to what
// block `owner` has combined where it belongs: in the order of blocks.
template <class T> struct line_of_rows {
  int op;
  const T *rows;
  index first, last, pitch; // rows
  const lines *of;
  index l;

  CELER_FN bool has(index r) const {
    return of->begun[r * of->stride + l] != 0;
  }
  CELER_FN void combine(index owner, T *into, index begin, index end) const {
    T before[line_elements<T>];
    bool any = false;
    for (index r = first; r < owner; ++r) {
      if (!has(r)) continue;
      const T *row = rows + r * pitch + begin;
      if (any)
        combine_span(op, row, before, 0, end - begin);
      else
        memcpy((void *)before, row, (end - begin) * sizeof(T));
      any = true;
    }
    for (index i = begin; any && i < end; ++i)
      into[i] = apply<T>(op, before[i - begin], into[i]);
    for (index r = owner < first ? first : owner; r < last; ++r)
      if (has(r)) combine_span(op, rows + r * pitch, into, begin, end);
  }
};

// Whether some row has one of 8 lines from `l` on; there are 8 more bytes than
// lines.
static CELER_FN bool any_has(const lines &of, index first, index last,
                             index l) {
  for (index r = first; r < last; ++r) {
    unsigned long some;
    memcpy(&some, of.begun + r * of.stride + l, sizeof some);
    if (some != 0) return true;
  }
  return false;
}

// Those lines of each row that hold something. Blocks with elements of their
// own have them in their order. Where an array had something before, that and
// what the owner came to is the first.
template <class T>
static CELER_FN void combine_lines(int op, bool onto, const T *rows,
                                   index first, index last, index pitch,
                                   T *into, const elements &of) {
  const lines *owner = of.seen + first, *const none = of.seen + last;
  bool any = false;
  for (index r = first; r < last; ++r)
    any |= of.seen->begun[r * of.seen->stride + of.seen->count] != 0;
  if (!any) return;
  for (index l = 0; l < of.seen->count; ++l) {
    if (l % 8 == 0 && !any_has(*of.seen, first, last, l)) {
      l += 7;
      continue;
    }
    const line_of_rows<T> line{op, rows, first, last, pitch, of.seen, l};
    index i = l * line_elements<T>;
    const index end =
        i + line_elements<T> < of.end ? i + line_elements<T> : of.end;
    while (i < end) {
      while (owner < none && owner->own_end <= i) ++owner;
      const bool owned = owner < none && owner->own_begin <= i;
      index to = owner == none ? end
                 : owned       ? owner->own_end
                               : owner->own_begin;
      if (to > end) to = end;
      line.combine(owned && !onto ? owner - of.seen : first, into, i, to);
      i = to;
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
    return combine_lines(op, onto, rows, first, end, pitch, into, of);
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
static inline void combine_chunk(const call *c, int number, int how) {
  const view &rows = c->view_at[0], &into = c->view_at[1];
  combiner<S>::run(number, how, rows.base, rows.promised.min[0],
                   rows.promised.max[0], rows.layout.max[1], into.base,
                   {c->chunk.min[0], c->chunk.max[0], rows.lines_of},
                   typename S::all());
}

#undef CELER_REDUCES
#define CELER_REDUCES(name)                                                    \
  CELER_EXPORT void celer_combine_##name(const celer::call *celer_given,       \
                                         int celer_view, int celer_how) {      \
    celer::combine_chunk<celer::signature<decltype(CELER_KERNEL(name))>>(      \
        celer_given, celer_view, celer_how);                                   \
  }

} // namespace celer
