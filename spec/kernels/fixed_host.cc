// Sums in fixed point, of as many rows as are wanted. fixed_spec.lua puts
// headers before this, of the processor or of a GPU.
namespace {

template <class T> T sum(const T *x, long n, long rows, bool one_by_one) {
  celer::fixed<T> all = {};
  for (long r = 0; r < rows; ++r) {
    celer::fixed<T> row = {};
    celer::to_fixed<T> held;
    held.begin(&row);
    for (long i = r; i < n; i += rows)
      if (one_by_one)
        row.add(x[i]);
      else
        held.add(x[i]);
    held.flush();
    all.template add<celer::many_add>(row);
  }
  celer::fixed<T> other = {};
  other.template add<false>(all);
  return other.rounded();
}

} // namespace

#define SUM(name, T)                                                           \
  extern "C" __attribute__((visibility("default"))) T name(                    \
      const T *x, long n, long rows, int one_by_one) {                         \
    return sum(x, n, rows, one_by_one != 0);                                   \
  }
SUM(SPEC_DOUBLE, double)
SUM(SPEC_FLOAT, float)
