/* A random program as a person reads it, when it has failed. */
#include <inttypes.h>
#include <stdio.h>

#include "command/fuzz.h"

static void print_bound(const fuzz_bound *b) {
  if (b->a == 0)
    printf("%d", b->c);
  else if (b->divisor > 1)
    printf("%d*%s%d/%d%+d", b->a, b->of_max ? "max" : "min", b->dim, b->divisor,
           b->c);
  else
    printf("%d*%s%d%+d", b->a, b->of_max ? "max" : "min", b->dim, b->c);
}

static void print_task(const fuzz_program *p, const fuzz_task *t) {
  static const char *const kinds[] = {"kernel", "host", "horizon", "epoch",
                                      "free"};
  static const char *const places[] = {"split", "once", "each"};
  printf("%s", kinds[t->kind]);
  if (t->accesses > 0) {
    printf(" %s", places[t->placement]);
    for (int d = 0; d < t->dims; ++d)
      printf(" [%" PRId64 ",%" PRId64 ")%s%" PRId64, t->range.min[d],
             t->range.max[d], t->permitted.cut[d] ? "/" : "|",
             t->permitted.granularity[d]);
    for (int k = 0; t->weights > 0 && k < p->ranks; ++k)
      printf("%s%" PRId64, k ? ":" : " by ", p->weight[t->weights - 1][k]);
  }
  if (t->kind == CEL_TASK_FREE) {
    printf(" %c; rank by rank before task", 'a' + t->freed);
    for (int k = 0; k < p->ranks; ++k) printf(" %d", t->late[k]);
  }
  printf("\n");
  for (int i = 0; i < t->accesses; ++i) {
    const fuzz_access *a = &t->access[i];
    printf("      %s %c", cel_mode_name(a->mode), 'a' + a->buffer);
    for (int b = 0; b < a->boxes; ++b) {
      printf(b ? " u " : " ");
      for (int j = 0; j < p->buffer[a->buffer].dims; ++j) {
        printf(j ? "x[" : "[");
        print_bound(&a->bound[b][j][0]);
        printf(",");
        print_bound(&a->bound[b][j][1]);
        printf(")");
      }
    }
    if (a->each != 0) printf(" for each index of dimension %d", a->each - 1);
    printf("%s\n", a->params ? " (parameters)" : "");
  }
}

void fuzz_print(const fuzz_program *p) {
  printf("  ranks %d cap %d squeezed %#x small %" PRIu64 " large %" PRIu64
         " hosts %d\n",
         p->ranks, p->replications, p->squeeze, p->small_bytes, p->large_bytes,
         p->hosts);
  for (int b = 0; b < p->buffers; ++b) {
    printf("  buffer %c:", 'a' + b);
    for (int d = 0; d < p->buffer[b].dims; ++d)
      printf(" %" PRId64, p->buffer[b].ext[d]);
    printf(" of %d bytes%s\n", p->buffer[b].element_size,
           p->buffer[b].init ? ", initialised" : "");
  }
  for (int i = 0; i < p->tasks; ++i) {
    printf("  %2d: ", i);
    print_task(p, &p->task[i]);
  }
}
