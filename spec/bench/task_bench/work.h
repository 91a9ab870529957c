/* work.h -- what one point of the stencil computes, in C and in celer's kernel
 * alike: the compute-bound kernel of Task Bench, `iterations` times one
 * multiplication and one addition of each of 64 numbers. The factors keep them
 * finite. As in Task Bench, to set them and to multiply them is part of every
 * point, some 80 ns, and does not count as iterations. */
__device__ __attribute__((noinline)) double work(long iterations) {
  double a[64];
  for (int i = 0; i < 64; ++i) a[i] = 1.2345;
  for (long n = 0; n < iterations; ++n)
    for (int i = 0; i < 64; ++i) a[i] = a[i] * 0.5 + 0.625;
  double product = 1;
  for (int i = 0; i < 64; ++i) product *= a[i];
  return product;
}
