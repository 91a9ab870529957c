/* A cuBLAS for examples/matmul_cublas.lua on the driver of
 * spec/device/fake_driver.lua, whose memory is the host's. */
typedef void *handle;

int cublasCreate_v2(handle *out);
int cublasSetStream_v2(handle h, handle stream);
int cublasSgemm_v2(handle h, int ta, int tb, int m, int n, int k,
                   const float *alpha, const float *a, int lda, const float *b,
                   int ldb, const float *beta, float *c, int ldc);

int cublasCreate_v2(handle *out) {
  static char there;
  *out = &there;
  return 0;
}

int cublasSetStream_v2(handle h, handle stream) {
  return h == 0 || stream == 0;
}

int cublasSgemm_v2(handle h, int ta, int tb, int m, int n, int k,
                   const float *alpha, const float *a, int lda, const float *b,
                   int ldb, const float *beta, float *c, int ldc) {
  if (h == 0 || ta != 0 || tb != 0 || *alpha != 1 || *beta != 0) return 7;
  for (int i = 0; i < m; ++i)
    for (int j = 0; j < n; ++j) {
      double sum = 0;
      for (int l = 0; l < k; ++l) sum += a[l * lda + i] * b[j * ldb + l];
      c[j * ldc + i] = (float)sum;
    }
  return 0;
}
