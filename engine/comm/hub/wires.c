#define _GNU_SOURCE /* accept4 */
#include "comm/hub/wires.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include "comm/heartbeat/reach.h"
#include "device/thread.h"

enum {
  CONNECT_MS = 5000, /* for each address of rank 0 */
  HELLO_S = 5        /* for whoever connects to say who it is */
};

/* In the order of bytes that all hosts of a job share, as the key. */
typedef struct hello {
  uint64_t key[2];
  int64_t rank;
} hello;

/* Where rank 0 is, for the others. */
typedef struct invitation {
  cel_card card;
  uint64_t key[2];
  uint16_t port; /* 0: there is none */
} invitation;

bool cel__wires_write(int file, const void *data, uint64_t size) {
  for (const char *at = data; size > 0;) {
    ssize_t n = send(file, at, size, MSG_NOSIGNAL);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    at += n;
    size -= (uint64_t)n;
  }
  return true;
}

bool cel__wires_read(int file, void *data, uint64_t size) {
  for (char *at = data; size > 0;) {
    ssize_t n = recv(file, at, size, 0);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    at += n;
    size -= (uint64_t)n;
  }
  return true;
}

/* ---- the others -----------------------------------------------------------
 */

/* 0, or why not. */
static int await_connected(int file) {
  struct pollfd one = {.fd = file, .events = POLLOUT};
  int n, fault = 0;
  socklen_t size = sizeof fault;
  do {
    n = poll(&one, 1, CONNECT_MS);
  } while (n < 0 && errno == EINTR);
  if (n == 0) return ETIMEDOUT;
  if (n < 0 || getsockopt(file, SOL_SOCKET, SO_ERROR, &fault, &size) != 0)
    return errno;
  return fault;
}

/* What is written goes at once. -1: there is no connection; errno says why. */
static int connect_to(uint32_t address, uint16_t port) {
  struct sockaddr_in to = {.sin_family = AF_INET,
                           .sin_port = htons(port),
                           .sin_addr.s_addr = address};
  int one = 1, fault = 0, none = 0;
  int file = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (file < 0) return -1;
  if (connect(file, (struct sockaddr *)&to, sizeof to) != 0) fault = errno;
  if (fault == EINPROGRESS || fault == EINTR) fault = await_connected(file);
  if (fault == 0) {
    ioctl(file, FIONBIO, &none);
    setsockopt(file, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    return file;
  }
  close(file);
  errno = fault;
  return -1;
}

static cel_status reach(const invitation *to, const cel_card *mine,
                        int64_t rank, int *out) {
  char tried[CEL_CARD_ADDRESSES * 20] = "";
  size_t n = 0;
  hello who = {.key = {to->key[0], to->key[1]}, .rank = rank};
  for (int i = 0; i < CEL_CARD_ADDRESSES && to->card.address[i] != 0; ++i) {
    struct in_addr address = {to->card.address[i]};
    n += (size_t)snprintf(tried + n, sizeof tried - n, "%s%s",
                          n > 0 ? ", " : "", inet_ntoa(address));
    *out = connect_to(to->card.address[i], to->port);
    if (*out >= 0 && cel__wires_write(*out, &who, sizeof who)) return CEL_E_OK;
    int why = errno;
    if (*out >= 0) close(*out);
    *out = -1;
    errno = why;
  }
  return cel_fail(CEL_E_COMM,
                  "rank %lld on %s cannot reach rank 0 on %s (tried %s, port "
                  "%d): %s; a session needs TCP from all hosts to that of rank "
                  "0",
                  (long long)rank, mine->host, to->card.host,
                  n > 0 ? tried : "no address", to->port,
                  n > 0 ? strerror(errno) : "it has no network");
}

static cel_status join(invitation *to, int64_t rank, int *out) {
  cel_card mine;
  if (to->port == 0)
    return cel_fail(CEL_E_CANCELLED, "rank 0 cannot listen for the others");
  cel__reach_describe(&mine);
  cel__reach_narrow(&mine, &to->card);
  return reach(to, &mine, rank, out);
}

/* ---- rank 0 ---------------------------------------------------------------
 */

/* Where the others may connect to; -1: nowhere. */
static int invite(invitation *out, bool one_host) {
  cel__reach_describe(&out->card);
  if (getrandom(out->key, sizeof out->key, 0) != sizeof out->key) return -1;
  struct sockaddr_in here = {
      .sin_family = AF_INET,
      .sin_addr.s_addr = htonl(one_host ? INADDR_LOOPBACK : INADDR_ANY)};
  socklen_t size = sizeof here;
  int file = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (file < 0) return -1;
  if (bind(file, (struct sockaddr *)&here, size) == 0 &&
      listen(file, SOMAXCONN) == 0 &&
      getsockname(file, (struct sockaddr *)&here, &size) == 0) {
    out->port = ntohs(here.sin_port);
    return file;
  }
  close(file);
  return -1;
}

/* Takes in the others while main waits for them: as many may come at a time as
 * there are, and the system keeps few waiting. */
typedef struct reception {
  const invitation *own;
  int listening;
  int64_t ranks;
  int *file; /* by rank */
  int fault; /* why it has ended before all were there; 0: they are */
} reception;

/* Whoever connects and is no rank of this job is sent away. */
static bool admit(const reception *r, int file) {
  int one = 1;
  hello who;
  struct timeval most = {.tv_sec = HELLO_S};
  setsockopt(file, SOL_SOCKET, SO_RCVTIMEO, &most, sizeof most);
  bool good = cel__wires_read(file, &who, sizeof who) &&
              memcmp(who.key, r->own->key, sizeof who.key) == 0 &&
              who.rank > 0 && who.rank < r->ranks && r->file[who.rank] < 0;
  most.tv_sec = 0;
  setsockopt(file, SOL_SOCKET, SO_RCVTIMEO, &most, sizeof most);
  setsockopt(file, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
  if (good)
    r->file[who.rank] = file;
  else
    close(file);
  return good;
}

/* accept gives what has happened to a connection before it was taken, too. */
static bool ends_reception(int fault) {
  return fault == EMFILE || fault == ENFILE || fault == ENOBUFS ||
         fault == ENOMEM || fault == EINVAL || fault == EBADF || fault == EPERM;
}

static void *receive(void *context) {
  reception *r = context;
  for (int64_t there = 1; there < r->ranks && r->fault == 0;) {
    int file = accept4(r->listening, NULL, NULL, SOCK_CLOEXEC);
    if (file >= 0)
      there += admit(r, file);
    else if (ends_reception(errno))
      r->fault = errno;
  }
  return NULL;
}

static cel_status fail_reception(const reception *r) {
  return cel_fail(CEL_E_COMM, "rank 0 cannot take in %lld other ranks: %s%s",
                  (long long)r->ranks - 1, strerror(r->fault),
                  r->fault == EMFILE || r->fault == ENFILE ? " (see ulimit -n)"
                                                           : "");
}

/* ---- all ------------------------------------------------------------------
 */

/* A rank's own failure, that of others, or none. Collective. */
static cel_status agree(cel_transport *t, cel_status own) {
  cel_error error = *cel_error_last();
  int64_t faults = own != CEL_E_OK;
  CEL_TRY(t->control.all_reduce_max(t->control.self, &faults));
  if (own != CEL_E_OK) return cel_fail_with(&error);
  return faults == 0 ? CEL_E_OK
                     : cel_fail(CEL_E_CANCELLED, "ranks cannot be connected");
}

static cel_status connect_first(cel_transport *t, reception *r,
                                invitation *own) {
  void *data = own;
  uint64_t size = sizeof *own;
  pthread_t thread;
  r->listening = invite(own, t->local_ranks == t->ranks);
  int why = errno;
  CEL_TRY(t->control.broadcast(t->control.self, &data, &size));
  cel_status status = r->listening >= 0
                          ? cel_thread_start(&thread, receive, r, "connections")
                          : cel_fail(CEL_E_COMM,
                                     "cannot listen for other "
                                     "ranks: %s",
                                     strerror(why));
  bool receives = status == CEL_E_OK;
  status = agree(t, status);
  if (status != CEL_E_OK && r->listening >= 0)
    shutdown(r->listening, SHUT_RDWR); /* who does not come is not awaited */
  if (receives) pthread_join(thread, NULL);
  if (r->listening >= 0) close(r->listening);
  if (status == CEL_E_OK)
    status = agree(t, r->fault == 0 ? CEL_E_OK : fail_reception(r));
  return status;
}

static cel_status connect_other(cel_transport *t, int *out) {
  void *data = NULL;
  uint64_t size = 0;
  CEL_TRY(t->control.broadcast(t->control.self, &data, &size));
  cel_status status = join(data, t->rank, out);
  cel_free(data);
  CEL_TRY(agree(t, status));
  return agree(t, CEL_E_OK); /* rank 0 has taken in all */
}

cel_status cel__wires_connect(cel_transport *t, int *file) {
  if (t->rank != 0) return connect_other(t, &file[0]);
  invitation own = {.port = 0};
  reception r = {.own = &own, .ranks = t->ranks, .file = file};
  return connect_first(t, &r, &own);
}
