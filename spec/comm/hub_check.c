/* hub_check -- a session's ranks as processes, which share a hub and nothing
 * else. Run by hub_spec.lua. A fault is a line on stderr, and status 1. */
#define _GNU_SOURCE
#include "comm/hub/hub.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/random.h"
#include "device/clock.h"

enum { MOST = 64, ROOM = 4096 };

/* What all ranks see: a transport of two collectives, and what a case needs. */
static struct shared {
  pthread_barrier_t barrier;
  char bytes[ROOM];
  uint64_t size;
  atomic_int_fast64_t most;
  atomic_int child;
} * shared;

static cel_transport transport;
static cel_hub *hub;
static atomic_bool was_cut;
static void (*before_others)(void); /* rank 0, before they know where it is */

static void meet(void) {
  pthread_barrier_wait(&shared->barrier);
}

static cel_status broadcast(void *self, void **data, uint64_t *size) {
  (void)self;
  if (transport.rank == 0) {
    memcpy(shared->bytes, *data, *size);
    shared->size = *size;
    if (before_others != NULL) before_others();
  }
  meet();
  if (transport.rank != 0) {
    *size = shared->size;
    cel_free(*data);
    *data = cel_alloc(*size);
    memcpy(*data, shared->bytes, *size);
  }
  meet();
  return CEL_E_OK;
}

static cel_status all_reduce_max(void *self, int64_t *n) {
  (void)self;
  if (transport.rank == 0) atomic_store(&shared->most, *n);
  meet();
  int_fast64_t most = atomic_load(&shared->most);
  while (*n > most && !atomic_compare_exchange_weak(&shared->most, &most, *n)) {
  }
  meet();
  *n = atomic_load(&shared->most);
  meet();
  return CEL_E_OK;
}

static void cut(void) {
  atomic_store(&was_cut, true);
}

static _Noreturn void fail(const char *what, int64_t a, int64_t b) {
  fprintf(stderr, "rank %lld: %s: %lld, %lld\n", (long long)transport.rank,
          what, (long long)a, (long long)b);
  _exit(1);
}

static void open_hub(void) {
  if (cel_hub_open(&transport, cut, &hub) == CEL_E_OK) return;
  fprintf(stderr, "rank %lld: %s\n", (long long)transport.rank,
          cel_error_last()->text);
  _exit(1);
}

static void try_(cel_status status) {
  if (status != CEL_E_OK) fail(cel_error_last()->text, status, 0);
}

/* ---- lines ----------------------------------------------------------------
 */

/* What a rank does in a line: it submits so often, then ends, or fails. */
typedef struct plan {
  uint32_t submits[MOST];
  int64_t fails; /* the rank that does; -1: none */
  bool rings;    /* Ctrl-C comes */
} plan;

enum { LINES = 40 };
#define ENDLESS UINT32_MAX

static plan make_plan(cel_random *random) {
  plan p = {.fails = -1, .rings = cel_random_chance(random, 50)};
  bool fails = !p.rings && cel_random_chance(random, 50);
  uint32_t most = (uint32_t)cel_random_int(random, 0, 299);
  for (int64_t k = 0; k < transport.ranks; ++k)
    p.submits[k] = p.rings || fails ? ENDLESS : most;
  if (fails) {
    p.fails = cel_random_int(random, 0, transport.ranks - 1);
    p.submits[p.fails] = (uint32_t)cel_random_int(random, 0, 299);
  }
  return p;
}

static void ring(void) {
  uint64_t one = 1;
  if (write(cel_hub_bell(hub), &one, sizeof one) != sizeof one)
    fail("the bell", 0, 0);
}

static void run_line(const plan *p) {
  atomic_store(&was_cut, false);
  uint32_t n = 0, most = p->submits[transport.rank];
  int64_t after = transport.rank * 7 % 5;
  cel_hub_begin(hub);
  for (; n < most && cel_hub_pass(hub); ++n) {
    if (transport.rank == 0 && p->rings && n == 100) ring();
    if (n % 50 == after) usleep(1000);
  }
  cel_hub_over(hub);
  const char *said = atomic_load(&was_cut) ? "cut." : "said";
  try_(cel_hub_tell(hub, p->fails == transport.rank, said, 4));
}

/* Whether it was cut, as where this machine is too busy to wait for. */
static bool check_ends(const plan *p, const cel_hub_end *end) {
  uint64_t least = UINT64_MAX, most = 0;
  bool cuts = false;
  for (int64_t k = 0; k < transport.ranks; ++k) {
    if (!end[k].ended) fail("has not ended", k, 0);
    if (end[k].size != 4) fail("has not said so", k, 0);
    cuts = cuts || memcmp(end[k].said, "cut.", 4) == 0;
    if (k == p->fails) continue;
    if (end[k].passed < least) least = end[k].passed;
    if (end[k].passed > most) most = end[k].passed;
  }
  if (cuts) return true;
  bool behind = p->fails >= 0 && end[p->fails].passed < most;
  if (least != most && !behind)
    fail("ended at different places", (int64_t)least, (int64_t)most);
  if (p->fails >= 0 && !behind && most != end[p->fails].passed)
    fail("not where the rank has failed", (int64_t)most,
         (int64_t)end[p->fails].passed);
  return false;
}

static void run_lines(uint64_t seed) {
  cel_random random = {seed};
  int were_cut = 0;
  open_hub();
  for (int line = 0; line < LINES; ++line) {
    plan p = make_plan(&random);
    if (transport.rank == 0) {
      try_(cel_hub_give(hub, true, &line, sizeof line));
    } else {
      void *text;
      uint64_t size;
      try_(cel_hub_take(hub, &text, &size));
      if (size != sizeof line || memcmp(text, &line, size) != 0)
        fail("another line", line, (int64_t)size);
      cel_free(text);
    }
    run_line(&p);
    if (transport.rank == 0) {
      const cel_hub_end *end;
      try_(cel_hub_gather(hub, &end));
      were_cut += check_ends(&p, end);
    }
    meet();
  }
  if (were_cut == LINES) fail("all lines were cut", LINES, 0);
  cel_hub_close(hub);
}

static void lines(int argument) {
  run_lines((uint64_t)argument);
}

/* A rank computes, and submits nothing. */
static void cuts(int argument) {
  (void)argument;
  open_hub();
  void *text;
  uint64_t size;
  if (transport.rank == 0)
    try_(cel_hub_give(hub, true, "", 0));
  else
    try_(cel_hub_take(hub, &text, &size));
  meet();
  cel_hub_begin(hub);
  if (transport.rank == 0) ring();
  while (!atomic_load(&was_cut)) usleep(100);
  cel_hub_over(hub);
  try_(cel_hub_tell(hub, false, "", 0));
  const cel_hub_end *end;
  if (transport.rank == 0) try_(cel_hub_gather(hub, &end));
  meet();
  cel_hub_close(hub);
}

/* ---- the system -----------------------------------------------------------
 */

static void ignore(int number) {
  (void)number;
}

/* Signals interrupt whatever waits. */
static void signals(int argument) {
  struct sigaction action = {.sa_handler = ignore};
  struct itimerval often = {{0, 300}, {0, 300}};
  sigaction(SIGALRM, &action, NULL);
  setitimer(ITIMER_REAL, &often, NULL);
  run_lines((uint64_t)argument);
}

/* The system gives it so many files more. */
static void leave_files(int n) {
  struct rlimit limit;
  getrlimit(RLIMIT_NOFILE, &limit);
  limit.rlim_cur = 0;
  while (n >= 0)
    if (fcntl((int)limit.rlim_cur++, F_GETFD) < 0) --n;
  --limit.rlim_cur;
  setrlimit(RLIMIT_NOFILE, &limit);
}

/* To a rank the system gives so few files more: the session begins, or each
 * rank has an error, which nobody waits for. */
static void open_scarce(void) {
  cel_status status = cel_hub_open(&transport, cut, &hub);
  meet();
  if (status == CEL_E_OK) cel_hub_close(hub);
  if (status != CEL_E_OK && status != CEL_E_CANCELLED)
    printf("rank %lld: %s\n", (long long)transport.rank,
           cel_error_last()->text);
}

static void scarce_first(int files) {
  if (transport.rank == 0) leave_files(files);
  open_scarce();
}

static void lead_nowhere(void) {
  int null = open("/dev/null", O_WRONLY);
  dup2(null, STDERR_FILENO);
  close(null);
}

static void scarce_other(int files) {
  if (transport.rank == 1) {
    lead_nowhere();
    leave_files(files);
  }
  open_scarce();
}

/* C's own streams drop what a signal interrupts. */
static void write_line(int i) {
  char text[16];
  size_t size = (size_t)snprintf(text, sizeof text, "%d\n", i), done = 0;
  while (done < size) {
    ssize_t n = write(STDOUT_FILENO, text + done, size - done);
    if (n > 0) done += (size_t)n;
    if (n < 0 && errno != EINTR) fail("a line cannot be written", i, errno);
  }
}

/* Of rank 1 nobody reads what it writes. It leaves a process behind, which
 * keeps its stdout. */
static void words(int signals_too) {
  if (signals_too != 0) {
    struct sigaction action = {.sa_handler = ignore};
    struct itimerval often = {{0, 300}, {0, 300}};
    sigaction(SIGALRM, &action, NULL);
    setitimer(ITIMER_REAL, &often, NULL);
  }
  if (transport.rank == 1) {
    int null = open("/dev/null", O_WRONLY);
    dup2(null, STDOUT_FILENO);
    close(null);
  }
  open_hub();
  if (transport.rank == 1) {
    pid_t child = fork();
    if (child == 0) {
      execlp("sleep", "sleep", "1000", (char *)NULL);
      _exit(127);
    }
    atomic_store(&shared->child, child);
    for (int i = 0; i < 20000; ++i) write_line(i);
  }
  cel_hub_close(hub);
}

/* Strangers connect before the others do: one leaves, one says something else,
 * one says too little and stays. */
static void send_strangers(void) {
  struct sockaddr_in at;
  char bytes[64] = "GET / HTTP/1.0\r\n\r\n";
  for (int file = 3; file < 64; ++file) {
    int listens = 0;
    socklen_t size = sizeof listens;
    if (getsockopt(file, SOL_SOCKET, SO_ACCEPTCONN, &listens, &size) != 0 ||
        !listens)
      continue;
    size = sizeof at;
    getsockname(file, (struct sockaddr *)&at, &size);
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    for (size_t said = 0; said <= sizeof bytes; said += sizeof bytes / 4) {
      int stranger = socket(AF_INET, SOCK_STREAM, 0);
      if (connect(stranger, (struct sockaddr *)&at, sizeof at) != 0 ||
          send(stranger, bytes, said, 0) != (ssize_t)said)
        fail("no stranger", file, (int64_t)said);
      if (said != 16) close(stranger);
    }
    return;
  }
  fail("nobody listens", 0, 0);
}

static void strangers(int argument) {
  before_others = send_strangers;
  run_lines((uint64_t)argument);
}

/* A rank ends without a word. */
static void loss(int argument) {
  (void)argument;
  const cel_hub_end *end;
  void *text;
  uint64_t size;
  open_hub();
  meet();
  if (transport.rank == 1) _exit(0);
  if (transport.rank != 0) {
    while (cel_hub_take(hub, &text, &size) == CEL_E_OK) cel_free(text);
  } else {
    (void)cel_hub_give(hub, true, "", 0);
    (void)cel_hub_tell(hub, false, "", 0);
    if (cel_hub_gather(hub, &end) == CEL_E_OK) fail("misses nobody", 0, 0);
    printf("%s\n", cel_error_last()->text);
  }
  cel_hub_close(hub);
}

/* ---- all ------------------------------------------------------------------
 */

static const struct {
  const char *name;
  void (*run)(int argument);
} cases[] = {
    {"lines", lines},     {"cuts", cuts},
    {"signals", signals}, {"scarce_first", scarce_first},
    {"words", words},     {"scarce_other", scarce_other},
    {"loss", loss},       {"strangers", strangers},
};

static void share(int ranks) {
  pthread_barrierattr_t all;
  shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE,
                MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (shared == MAP_FAILED) exit(2);
  pthread_barrierattr_init(&all);
  pthread_barrierattr_setpshared(&all, PTHREAD_PROCESS_SHARED);
  pthread_barrier_init(&shared->barrier, &all, (unsigned)ranks);
}

/* hub_check CASE RANKS ARGUMENT */
int main(int argc, char **argv) {
  int ranks = argc == 4 ? atoi(argv[2]) : 0, bad = 0;
  void (*run)(int) = NULL;
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; ++i)
    if (argc == 4 && strcmp(argv[1], cases[i].name) == 0) run = cases[i].run;
  if (run == NULL || ranks < 2 || ranks > MOST) return 2;
  share(ranks);
  for (int k = 0; k < ranks; ++k) {
    if (fork() != 0) continue;
    transport =
        (cel_transport){.rank = k, .ranks = ranks, .local_ranks = ranks};
    transport.control.broadcast = broadcast;
    transport.control.all_reduce_max = all_reduce_max;
    run(atoi(argv[3]));
    fflush(stdout);
    _exit(0);
  }
  for (int k = 0; k < ranks; ++k) {
    int status;
    wait(&status);
    bad |= status;
  }
  if (atomic_load(&shared->child) > 0)
    kill(atomic_load(&shared->child), SIGKILL);
  return bad != 0;
}
