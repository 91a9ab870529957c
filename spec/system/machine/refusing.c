/* A system that refuses something to celer's own code: memory, a thread, a
 * process, a file. A library for LD_PRELOAD.
 *
 * A call counts where it returns to celer's own code. What it is called by, as
 * far as that is celer's, is its way, which has a number that is the same in
 * every run of a build.
 *
 *   REFUSE_LIST=FILE   a line for each call: way, function
 *   REFUSE_AT=K        calls are refused from the K-th on (1),
 *   REFUSE_MOST=M      M times (1; 0: for good),
 *   REFUSE_WAY=N       of that way alone,
 *   REFUSE_NAME=NAME   of that function alone
 *   REFUSE_RANK=R      on that rank alone
 *   REFUSED=FILE       a line for each that was refused: function
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <link.h>
#include <pthread.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { DEEPEST = 12, CELERS = 2 /* the library and the command */ };

/* Exported by glibc: dlsym allocates, and so cannot find them. */
void *__libc_malloc(size_t size);
void *__libc_calloc(size_t n, size_t size);
void *__libc_realloc(void *p, size_t size);
void *__libc_memalign(size_t alignment, size_t size);

static struct { uintptr_t from, to; } celer[CELERS];
static int celers;
static bool ready;
static _Thread_local bool inside;

/* ---- whose call ------------------------------------------------------------
 */

static int note_object(struct dl_phdr_info *info, size_t size, void *unused) {
  static bool library;
  (void)size, (void)unused;
  const char *slash = strrchr(info->dlpi_name, '/');
  const char *name = slash != NULL ? slash + 1 : info->dlpi_name;
  bool is_library = strncmp(name, "libceler.so", 11) == 0;
  bool is_command = name[0] == '\0';
  library = library || is_library;
  if ((!is_library && !is_command) || celers == CELERS) return 0;
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    const ElfW(Phdr) *part = &info->dlpi_phdr[i];
    if (part->p_type != PT_LOAD || (part->p_flags & PF_X) == 0) continue;
    celer[celers].from = info->dlpi_addr + part->p_vaddr;
    celer[celers].to = celer[celers].from + part->p_memsz;
  }
  ++celers;
  ready = library && celers == CELERS;
  return 0;
}

static bool is_mine(void) {
  const char *rank = getenv("OMPI_COMM_WORLD_RANK");
  const char *wanted = getenv("REFUSE_RANK");
  return wanted == NULL || strcmp(rank != NULL ? rank : "0", wanted) == 0;
}

__attribute__((constructor)) static void look(void) {
  inside = true;
  if (is_mine()) dl_iterate_phdr(note_object, NULL);
  inside = false;
}

/* The place in celer's code, counted from where that begins; 0: elsewhere. */
static uintptr_t place_of(uintptr_t at) {
  for (int i = 0; i < celers; ++i)
    if (at >= celer[i].from && at < celer[i].to)
      return at - celer[i].from + ((uintptr_t)i << 32) + 1;
  return 0;
}

/* What frame pointers lead to: celer is built with them, others may not be. */
typedef struct frame {
  const struct frame *caller;
  uintptr_t returns;
} frame;

static uint32_t way_of(const frame *at) {
  uint64_t hash = 14695981039346656037u;
  uintptr_t place;
  for (int i = 0; i < DEEPEST && (place = place_of(at->returns)) != 0; ++i) {
    hash = (hash ^ place) * 1099511628211u;
    at = at->caller;
  }
  return (uint32_t)(hash ^ hash >> 32);
}

/* ---- what is refused -------------------------------------------------------
 */

static void write_line(const char *variable, const char *format, ...) {
  char line[256];
  va_list more;
  va_start(more, format);
  int n = vsnprintf(line, sizeof line, format, more);
  va_end(more);
  const char *path = getenv(variable);
  if (path == NULL) return;
  int file = (int)syscall(SYS_openat, AT_FDCWD, path,
                          O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  if (file < 0) return;
  (void)!write(file, line, (size_t)n);
  close(file);
}

static unsigned long number_in(const char *variable, unsigned long otherwise) {
  const char *text = getenv(variable);
  return text != NULL ? strtoul(text, NULL, 10) : otherwise;
}

static bool is_turn(const frame *at, const char *name) {
  static atomic_ulong calls;
  uint32_t way = way_of(at);
  write_line("REFUSE_LIST", "%u %s\n", way, name);
  const char *function = getenv("REFUSE_NAME");
  if (getenv("REFUSE_AT") == NULL && getenv("REFUSE_WAY") == NULL) return false;
  if (function != NULL && strcmp(function, name) != 0) return false;
  if (number_in("REFUSE_WAY", way) != way) return false;
  unsigned long call = atomic_fetch_add(&calls, 1) + 1;
  unsigned long first = number_in("REFUSE_AT", 1);
  unsigned long most = number_in("REFUSE_MOST", 1);
  if (call < first || (most != 0 && call >= first + most)) return false;
  write_line("REFUSED", "%s\n", name);
  return true;
}

static bool refuses(const frame *at, const char *name) {
  if (!ready || inside || place_of(at->returns) == 0) return false;
  inside = true;
  int before = errno;
  bool refused = is_turn(at, name);
  errno = before;
  inside = false;
  return refused;
}

#define REFUSES(name) refuses(__builtin_frame_address(0), name)

/* ---- memory ----------------------------------------------------------------
 */

static void *no_memory(void) {
  errno = ENOMEM;
  return NULL;
}

void *malloc(size_t size) {
  return REFUSES("malloc") ? no_memory() : __libc_malloc(size);
}

void *calloc(size_t n, size_t size) {
  return REFUSES("calloc") ? no_memory() : __libc_calloc(n, size);
}

void *realloc(void *p, size_t size) {
  return REFUSES("realloc") ? no_memory() : __libc_realloc(p, size);
}

void *aligned_alloc(size_t alignment, size_t size) {
  return REFUSES("aligned_alloc") ? no_memory()
                                  : __libc_memalign(alignment, size);
}

int posix_memalign(void **out, size_t alignment, size_t size) {
  if (REFUSES("posix_memalign")) return ENOMEM;
  void *p = __libc_memalign(alignment, size);
  if (p == NULL) return ENOMEM;
  *out = p;
  return 0;
}

char *strdup(const char *text) {
  size_t size = strlen(text) + 1;
  void *copy = REFUSES("strdup") ? no_memory() : __libc_malloc(size);
  return copy != NULL ? memcpy(copy, text, size) : NULL;
}

void *mmap(void *at, size_t size, int protection, int flags, int file,
           off_t offset) {
  if (REFUSES("mmap")) {
    errno = ENOMEM;
    return MAP_FAILED;
  }
  return (void *)syscall(SYS_mmap, at, size, protection, flags, file, offset);
}

/* ---- threads and processes -------------------------------------------------
 */

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

int pthread_create(pthread_t *thread, const pthread_attr_t *attributes,
                   void *(*run)(void *), void *argument) {
  if (REFUSES("pthread_create")) return EAGAIN;
  return REAL(pthread_create)(thread, attributes, run, argument);
}

int posix_spawnp(pid_t *child, const char *file,
                 const posix_spawn_file_actions_t *actions,
                 const posix_spawnattr_t *attributes, char *const argv[],
                 char *const environment[]) {
  if (REFUSES("posix_spawnp")) return EAGAIN;
  return REAL(posix_spawnp)(child, file, actions, attributes, argv,
                            environment);
}

int posix_spawn(pid_t *child, const char *file,
                const posix_spawn_file_actions_t *actions,
                const posix_spawnattr_t *attributes, char *const argv[],
                char *const environment[]) {
  if (REFUSES("posix_spawn")) return EAGAIN;
  return REAL(posix_spawn)(child, file, actions, attributes, argv, environment);
}

pid_t fork(void) {
  if (REFUSES("fork")) {
    errno = EAGAIN;
    return -1;
  }
  return REAL(fork)();
}

/* ---- files -----------------------------------------------------------------
 */

static int no_file(void) {
  errno = EMFILE;
  return -1;
}

static void *no_stream(void) {
  errno = EMFILE;
  return NULL;
}

static int open_at(int folder, const char *path, int flags, va_list more) {
  mode_t mode = 0;
  if ((flags & O_CREAT) != 0 || (flags & O_TMPFILE) == O_TMPFILE)
    mode = va_arg(more, mode_t);
  return (int)syscall(SYS_openat, folder, path, flags, mode);
}

int open(const char *path, int flags, ...) {
  if (REFUSES("open")) return no_file();
  va_list more;
  va_start(more, flags);
  int file = open_at(AT_FDCWD, path, flags, more);
  va_end(more);
  return file;
}

int openat(int folder, const char *path, int flags, ...) {
  if (REFUSES("openat")) return no_file();
  va_list more;
  va_start(more, flags);
  int file = open_at(folder, path, flags, more);
  va_end(more);
  return file;
}

int socket(int domain, int type, int protocol) {
  if (REFUSES("socket")) return no_file();
  return (int)syscall(SYS_socket, domain, type, protocol);
}

int pipe2(int ends[2], int flags) {
  if (REFUSES("pipe2")) return no_file();
  return (int)syscall(SYS_pipe2, ends, flags);
}

int eventfd(unsigned int count, int flags) {
  if (REFUSES("eventfd")) return no_file();
  return (int)syscall(SYS_eventfd2, count, flags);
}

int memfd_create(const char *name, unsigned int flags) {
  if (REFUSES("memfd_create")) return no_file();
  return (int)syscall(SYS_memfd_create, name, flags);
}

int dup(int file) {
  return REFUSES("dup") ? no_file() : (int)syscall(SYS_dup, file);
}

int shm_open(const char *name, int flags, mode_t mode) {
  if (REFUSES("shm_open")) return no_file();
  return REAL(shm_open)(name, flags, mode);
}

FILE *fopen(const char *path, const char *mode) {
  return REFUSES("fopen") ? no_stream() : REAL(fopen)(path, mode);
}

DIR *opendir(const char *path) {
  return REFUSES("opendir") ? no_stream() : REAL(opendir)(path);
}

void *dlopen(const char *path, int flags) {
  return REFUSES("dlopen") ? no_stream() : REAL(dlopen)(path, flags);
}

char *realpath(const char *path, char *out) {
  return REFUSES("realpath") ? no_memory() : REAL(realpath)(path, out);
}
