/* What host tasks fail with in a session, which goes on. */
#include <stdio.h>
#include <string.h>

#include "runtime/internal.h"

void cel__engine_forgive(void *context, const cel_error *error) {
  cel_engine *e = context;
  pthread_mutex_lock(&e->lock);
  if (e->mishaps++ == 0) e->mishap = *error;
  pthread_mutex_unlock(&e->lock);
}

cel_status cel_engine_mishap(cel_engine *engine) {
  pthread_mutex_lock(&engine->lock);
  uint64_t n = engine->mishaps;
  cel_error first = n > 0 ? engine->mishap : (cel_error){.code = CEL_E_OK};
  engine->mishaps = 0;
  pthread_mutex_unlock(&engine->lock);
  if (n == 0) return CEL_E_OK;
  if (n > 1) {
    size_t at = strlen(first.text);
    snprintf(first.text + at, sizeof first.text - at,
             "; and %llu more have failed since", (unsigned long long)n - 1);
  }
  return cel_fail_with(&first);
}
