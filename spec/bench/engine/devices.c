/* devices.c -- what one step of a stencil costs the scheduler on a rank with
 * several devices.
 *
 *   bench_devices
 *   bench_devices once DEVICES DIMENSIONS SIZE STEPS
 *
 * A wave as in topologies.h, on one rank, in strips or in tiles over 1 to 8
 * devices; of SIZE x SIZE elements. Chunks of 512 x 512 stay whole, of 16,384 x
 * 16,384 they are cut around their interiors. Task, command and instruction
 * graph, without threads, giving up what horizons have made old.
 *
 * A figure is microseconds of processor time per step, the least of some
 * batches, between steps that have settled; and how often that is of one
 * device's. `once` makes so many steps, for a profiler or a counter of
 * instructions. The last line is JSON.
 */
#include <string.h>
#include <time.h>

#include "bench/engine/topologies.h"
#include "tuning.h"

enum { BATCHES = 15, STEPS = 400 };

static const int64_t sizes[] = {512, 16384};

typedef struct wave {
  run r;
  cel_buffer *field[2];
  const cel_rule *same, *near;
  int64_t size;
} wave;

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return (double)t.tv_sec * 1e6 + (double)t.tv_nsec * 1e-3;
}

static void step(wave *w) {
  cel_access a[2] = {access_of(w->field[0], CEL_MODE_READ_WRITE, w->same, NULL),
                     access_of(w->field[1], CEL_MODE_READ, w->near, NULL)};
  submit(&w->r, 2, w->size, w->size, 2, a);
  cel_buffer *swap = w->field[0];
  w->field[0] = w->field[1], w->field[1] = swap;
}

static void steps(wave *w, int n) {
  for (int i = 0; i < n; ++i) step(w);
}

static void wave_open(wave *w, const setup *setup, int dims, int64_t size) {
  *w = (wave){.size = size};
  in_tiles = dims == 2;
  run_open(&w->r, setup, 0);
  w->same = rule_of(&w->r, 2, 2, 1, same2);
  w->near = rule_of(&w->r, 2, 2, 2, cross);
  for (int i = 0; i < 2; ++i) {
    w->field[i] = buffer_new(&w->r, 2, size, size, false);
    cel_access fill =
        access_of(w->field[i], CEL_MODE_DISCARD_WRITE, w->same, NULL);
    submit(&w->r, 2, size, size, 1, &fill);
  }
}

/* What a step has in instructions, and takes. */
typedef struct figure {
  double us, instructions;
} figure;

static figure measure(int32_t devices, int dims, int64_t size) {
  setup s = {.stage = INSTRS, .ranks = 1, .devices = devices};
  wave w;
  figure f = {.us = 1e300};
  wave_open(&w, &s, dims, size);
  steps(&w, STEPS);
  for (int i = 0; i < BATCHES; ++i) {
    uint64_t before = w.r.n_instrs;
    double begin = now();
    steps(&w, STEPS);
    double us = (now() - begin) / STEPS;
    if (us < f.us) f.us = us;
    f.instructions = (double)(w.r.n_instrs - before) / STEPS;
  }
  run_close(&w.r);
  return f;
}

static void draw(void) {
  printf("us per step (times one device's), instructions per step\n");
  printf("%-24s%24s%24s%24s%24s\n", "devices", "1", "2", "4", "8");
  figure all[2][2][4];
  for (int z = 0; z < 2; ++z)
    for (int dims = 1; dims <= 2; ++dims) {
      printf("%5d x %-5d in %-7s", (int)sizes[z], (int)sizes[z],
             dims == 1 ? "strips" : "tiles");
      for (int i = 0; i < 4; ++i) {
        figure f = all[z][dims - 1][i] = measure(1 << i, dims, sizes[z]);
        printf("%10.2f (%4.1f) %7.2f", f.us, f.us / all[z][dims - 1][0].us,
               f.instructions);
        fflush(stdout);
      }
      printf("\n");
    }
  printf("{\"bench\": \"devices\", \"rows\": [");
  for (int i = 0; i < 16; ++i) {
    const figure *f = &all[i / 8][i / 4 % 2][i % 4];
    printf("%s{\"size\": %d, \"dims\": %d, \"devices\": %d, \"us\": %.4g, "
           "\"instructions\": %.4g}",
           i > 0 ? ", " : "", (int)sizes[i / 8], i / 4 % 2 + 1, 1 << i % 4,
           f->us, f->instructions);
  }
  printf("]}\n");
}

static int32_t number(const char *text) {
  return (int32_t)strtol(text, NULL, 10);
}

int main(int argc, char **argv) {
  retiring = true;
  interior_bytes = CEL_TUNE_INTERIOR_BYTES;
  if (argc == 6 && strcmp(argv[1], "once") == 0) {
    setup s = {.stage = INSTRS, .ranks = 1, .devices = number(argv[2])};
    wave w;
    wave_open(&w, &s, number(argv[3]), number(argv[4]));
    steps(&w, number(argv[5]));
    printf("%d instructions\n", (int)w.r.n_instrs);
    run_close(&w.r);
    return 0;
  }
  draw();
  return 0;
}
