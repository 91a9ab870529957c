/* What a profiler puts in the way of NVTX: writes each range to stderr. */
#include <stdio.h>

typedef void (*function)(void);

typedef struct callbacks {
  size_t size;
  int (*find_table)(int module, function ***out, unsigned *size);
} callbacks;

static int push(const char *name) {
  fprintf(stderr, "begin %s\n", name);
  return 0;
}

static int pop(void) {
  fprintf(stderr, "end\n");
  return 0;
}

int InitializeInjectionNvtx2(const void *(*tables)(unsigned));
int InitializeInjectionNvtx2(const void *(*tables)(unsigned)) {
  const callbacks *c = tables(1);
  function **table;
  unsigned size;
  if (c == NULL || c->size < sizeof *c || tables(3) == NULL) return 0;
  for (int module = 1; module <= 6; ++module)
    if (!c->find_table(module, &table, &size) || table[0] != NULL ||
        table[size] != NULL || table[1] == NULL)
      return 0;
  if (c->find_table(7, &table, &size) || !c->find_table(1, &table, &size) ||
      size != 16)
    return 0;
  *table[9] = (function)push;
  *table[11] = (function)pop;
  return 1;
}
