/* random_programs [--threads | --cuda | --mpi | --dry | --folded]
 *                 [--count N] [--seconds N] [--seed S] [--ranks R] [--shrink]
 *                 [--print] [--data] [--chains] [--diverge] [--fail] [--lose]
 *                 [--most N] [--fault NAME]: drop, swap, duplicate; thin,
 *                 flat, dead, discard, rest; near, rim, stay, unread; kept,
 *                 stale, haste, late
 *
 * Runs random programs on a simulated cluster and compares with a sequential
 * interpreter; with --threads on threads and the CPU backend. A failure prints
 * its seed: `--seed S --count 1` runs it again, the same way without --threads.
 * With --cuda it runs on threads and the GPUs of this machine, and exits with
 * 77 where there is none. With --mpi it is one rank of an MPI job, and nothing
 * is simulated. With --dry each rank makes a dry run, and their graphs are
 * checked. With --folded there is no engine, but an interpreter that takes
 * steps together. With --data only programs that have images, routes and lists
 * are run, and counted; with --chains those that have fields. With --diverge
 * one rank's program differs in one thing, with --fail a task fails; every rank
 * must say so. With --lose a rank dies or falls silent; all end, or all go on.
 * With --most it ends at so many failures.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "device/cuda/cuda.h"
#include "random/last_words.h"
#include "random/program.h"

/* Without threads the thread sanitizer has nothing to see. */
#ifdef __SANITIZE_THREAD__
#define THREADS true
#else
#define THREADS false
#endif

typedef struct options {
  bool threads, cuda, mpi, dry, folded, shrink, print, data, chains, diverge,
      fail, lose;
  uint64_t seed, count, most;
  double seconds;
  int ranks;
  cel_fault fault;
  harm harm;
} options;

static char text[1 << 16];

static int usage(void) {
  fprintf(
      stderr,
      "random_programs [--threads | --cuda | --mpi | --dry | --folded]\n"
      "  [--count N] [--seconds N] [--seed S] [--ranks R] [--shrink] [--print] "
      "[--data] [--chains] "
      "[--diverge] [--fail] [--lose]\n"
      "  [--most N] [--fault "
      "drop|swap|duplicate|thin|flat|dead|discard|rest|near|rim|stay|unread|"
      "kept|stale|haste|late]"
      "\n");
  return 2;
}

static bool parse_fault(const char *name, cel_fault *out) {
  static const char *const names[] = {"none", "drop", "swap", "duplicate"};
  for (int i = 0; i < 4; ++i) {
    if (strcmp(names[i], name) != 0) continue;
    *out = (cel_fault)i;
    return true;
  }
  return false;
}

static bool parse_harm(const char *name, harm *out) {
  static const char *const names[] = {
      NULL,  "thin", "flat",   "dead", "discard", "rest",  "near",
      "rim", "stay", "unread", "kept", "stale",   "haste", "late"};
  for (int i = HARM_NOT + 1; i <= HARM_LATE; ++i)
    if (strcmp(names[i], name) == 0) *out = (harm)i;
  return *out != HARM_NOT;
}

static bool parse_value(options *o, const char *name, const char *value) {
  if (strcmp(name, "--count") == 0)
    o->count = strtoull(value, NULL, 0);
  else if (strcmp(name, "--seed") == 0)
    o->seed = strtoull(value, NULL, 0);
  else if (strcmp(name, "--most") == 0)
    o->most = strtoull(value, NULL, 0);
  else if (strcmp(name, "--seconds") == 0)
    o->seconds = strtod(value, NULL);
  else if (strcmp(name, "--ranks") == 0)
    o->ranks = atoi(value);
  else if (strcmp(name, "--fault") == 0)
    return parse_fault(value, &o->fault) || parse_harm(value, &o->harm);
  else
    return false;
  return o->ranks <= MOST_RANKS;
}

static bool parse(int argc, char **argv, options *o) {
  for (int i = 1; i < argc; ++i) {
    if (strcmp(argv[i], "--threads") == 0)
      o->threads = true;
    else if (strcmp(argv[i], "--cuda") == 0)
      o->cuda = o->threads = true;
    else if (strcmp(argv[i], "--mpi") == 0)
      o->mpi = true;
    else if (strcmp(argv[i], "--dry") == 0)
      o->dry = true;
    else if (strcmp(argv[i], "--folded") == 0)
      o->folded = true;
    else if (strcmp(argv[i], "--shrink") == 0)
      o->shrink = true;
    else if (strcmp(argv[i], "--diverge") == 0)
      o->diverge = true;
    else if (strcmp(argv[i], "--fail") == 0)
      o->fail = true;
    else if (strcmp(argv[i], "--lose") == 0)
      o->lose = true;
    else if (strcmp(argv[i], "--data") == 0)
      o->data = true;
    else if (strcmp(argv[i], "--chains") == 0)
      o->chains = true;
    else if (strcmp(argv[i], "--print") == 0)
      o->print = true;
    else if (i + 1 == argc || !parse_value(o, argv[i], argv[i + 1]))
      return false;
    else
      ++i;
  }
  if (o->count == 0) o->count = o->seconds > 0 ? UINT64_MAX : 1000;
  return true;
}

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* Keeps the GPUs' contexts, which take long to make, from program to program.
 * False, and why in `text`, where there is no GPU. */
static bool hold_gpus(cel_cuda **out) {
  int32_t n = cel_cuda_count(text, sizeof text), ordinal[CEL_DEVICES];
  if (n > CEL_DEVICES) n = CEL_DEVICES;
  for (int32_t d = 0; d < n; ++d) ordinal[d] = d;
  return n > 0 && cel_cuda_open(ordinal, n, out) == CEL_E_OK;
}

/* Whether it passed. */
static bool run_seed(const options *o, uint64_t seed) {
  last_words_of(seed);
  program *p = program_generate(seed, o->ranks);
  p->fault = o->fault;
  p->harm = o->harm;
  p->cuda = o->cuda;
  p->fault_at = 1 + seed % 5;
  if (o->diverge) program_diverge(p);
  if (o->fail) program_fail(p);
  if (o->lose) program_lose(p);
  if (o->print) program_print(p);
  census_take(p);
  bool (*run)(const program *, char *, size_t) = o->folded ? program_run_folded
                                                 : o->dry  ? program_run_dry
                                                 : o->threads
                                                     ? program_run_threads
                                                     : program_run;
  bool passed = run(p, text, sizeof text);
  if (!passed) {
    printf("seed %llu: %s\n", (unsigned long long)seed, text);
    if (o->shrink) {
      program_shrink(p, run);
      run(p, text, sizeof text);
      program_print(p);
      printf("seed %llu, shrunk: %s\n", (unsigned long long)seed, text);
    }
    fflush(stdout);
  }
  program_destroy(p);
  return passed;
}

static void print_tally(tally t) {
  printf("%llu collectives of all ranks:", (unsigned long long)t.collectives);
  for (int k = CEL_PATTERN_BROADCAST; k <= CEL_PATTERN_ALL_REDUCE; ++k)
    printf(" %llu %s,", (unsigned long long)t.of[k], cel_pattern_name(k));
  printf(" of these %llu in pairs, %llu in groups, %llu of several boxes, "
         "%llu where ranks between others have nothing; %llu messages passed "
         "on; %llu receives of several messages\n",
         (unsigned long long)t.pairs, (unsigned long long)t.groups,
         (unsigned long long)t.joined, (unsigned long long)t.holes,
         (unsigned long long)t.passed, (unsigned long long)t.together);
  uint64_t few = 0, more = 0;
  for (int n = 2; n <= CEL_FOLD_STEPS; ++n)
    *(n < 4 ? &few : &more) += t.folds[n];
  printf("folds executed: %llu of 2 or 3 steps, %llu of more\n",
         (unsigned long long)few, (unsigned long long)more);
  rank_print_folds();
}

int main(int argc, char **argv) {
  options o = {.seed = 1, .threads = THREADS, .most = UINT64_MAX};
  if (!parse(argc, argv, &o)) return usage();
  last_words_init();
  uint64_t run = 0, failures = 0;
  cel_cuda *gpus = NULL;
  if (o.cuda && !hold_gpus(&gpus)) {
    printf("%s\n", text);
    return 77;
  }
  if (o.mpi) {
    if (programs_run_mpi(o.seed, o.count))
      printf("%llu programs, 0 failures\n", (unsigned long long)o.count);
    return 0;
  }
  double end = now() + o.seconds;
  for (uint64_t seed = o.seed;
       run < o.count && failures < o.most && (o.seconds <= 0 || now() < end);
       ++seed) {
    if (o.data && !seed_has_data(seed)) continue;
    if (o.chains && !seed_has_fields(seed)) continue;
    failures += !run_seed(&o, seed);
    ++run;
  }
  if (gpus != NULL) cel_cuda_close(gpus);
  census_print();
  if (o.diverge) differences_print();
  if (o.lose) losses_print();
  if (o.folded) folds_print();
  print_tally(records_tally());
  printf("%llu passed, %llu failed\n", (unsigned long long)(run - failures),
         (unsigned long long)failures);
  printf("%llu programs, %llu failures\n", (unsigned long long)run,
         (unsigned long long)failures);
  return failures > 0;
}
