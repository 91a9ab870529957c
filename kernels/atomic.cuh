// atomic.cuh -- CUDA's atomics for the processor, on what any accessor gives:
// atomicAdd(&a(i), x). Comes after celer.cuh where a source uses them; a GPU
// has its own. Each returns what was there before; order between different
// places is relaxed, as on a GPU.
#if !defined(CELER_ATOMIC_CUH) && !defined(CELER_CUDA)
#define CELER_ATOMIC_CUH

namespace celer {

// Replaces *at by next(*at); returns what was there.
template <class T, class F> inline T replace(T *at, const F &next) {
  T old, fresh;
  __atomic_load(at, &old, __ATOMIC_RELAXED);
  do fresh = next(old);
  while (!__atomic_compare_exchange(at, &old, &fresh, true, __ATOMIC_RELAXED,
                                    __ATOMIC_RELAXED));
  return old;
}

} // namespace celer

#define CELER_ATOMIC(name, expression)                                         \
  template <class T, class V> inline T name(T *at, V value) {                  \
    const T by = T(value);                                                     \
    return celer::replace(at, [by](T old) -> T { return expression; });        \
  }
CELER_ATOMIC(atomicAdd, T(old + by))
CELER_ATOMIC(atomicSub, T(old - by))
CELER_ATOMIC(atomicMin, by < old ? by : old)
CELER_ATOMIC(atomicMax, old < by ? by : old)
CELER_ATOMIC(atomicAnd, T(old &by))
CELER_ATOMIC(atomicOr, T(old | by))
CELER_ATOMIC(atomicXor, T(old ^ by))
CELER_ATOMIC(atomicExch, by)
CELER_ATOMIC(atomicInc, old >= by ? T(0) : T(old + 1))
CELER_ATOMIC(atomicDec, old == 0 || old > by ? by : T(old - 1))
#undef CELER_ATOMIC

template <class T, class A, class B> inline T atomicCAS(T *at, A old, B fresh) {
  const T was = T(old), by = T(fresh);
  return celer::replace(at, [was, by](T now) { return now == was ? by : now; });
}

#endif
