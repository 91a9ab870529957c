#include "comm/communicator.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"

static const uint8_t sizes[] = {
#define SIZE(NAME, type, size) sizeof(type),
    CEL_COMM_TYPES(SIZE)
#undef SIZE
};

#define CHECK_SIZE(NAME, type, size)                                           \
  _Static_assert(sizeof(type) == (size), "size of " #type);
CEL_COMM_TYPES(CHECK_SIZE)
#undef CHECK_SIZE

/* ---- what the watchdog says of it ------------------------------------------
 */

/* NAME, what follows the task's name. */
#define CALLS(_)                                                               \
  _(BARRIER, "comm:barrier")                                                   \
  _(BROADCAST, "comm:broadcast")                                               \
  _(GATHER, "comm:gather")                                                     \
  _(REDUCE, "comm:reduce or comm:scan")                                        \
  _(ALL_TO_ALL, "comm:all_to_all")                                             \
  _(RECEIVE, "comm:receive")                                                   \
  _(END, "its end")

typedef enum call {
  IN_NONE,
#define CALL(NAME, text) IN_##NAME,
  CALLS(CALL)
#undef CALL
} call;

static const char *const call_text[] = {"",
#define TEXT(NAME, text) text,
                                        CALLS(TEXT)
#undef TEXT
};

enum { GROUPS = 65 };

/* By group: the call, and of a letter its tag and rank. */
static _Atomic(uint64_t) now_in[GROUPS];

static void enter_for(const cel_comm *c, call what, int64_t peer, int32_t tag) {
  uint64_t word = (uint64_t)what | (uint64_t)tag << 8 | (uint64_t)peer << 32;
  if (c->group < GROUPS)
    atomic_store_explicit(&now_in[c->group], word, memory_order_relaxed);
}

static void enter(const cel_comm *c, call what) {
  enter_for(c, what, 0, 0);
}

static cel_status leave(const cel_comm *c, cel_status status) {
  enter(c, IN_NONE);
  return status;
}

void cel_comm_tell(uint32_t group, char *text, size_t size) {
  if (group >= GROUPS) return;
  uint64_t word = atomic_load_explicit(&now_in[group], memory_order_relaxed);
  call what = (call)(word & 0xff);
  if (what == IN_NONE) return;
  cel_text_append(text, size, "; it is in %s", call_text[what]);
  if (what == IN_RECEIVE)
    cel_text_append(text, size, ", until rank %llu sends with tag %llu",
                    (unsigned long long)(word >> 32),
                    (unsigned long long)(word >> 8 & 0xffffff));
  else if (what == IN_END)
    cel_text_append(text, size, ", until what it sent is received");
  else
    cel_text_append(text, size, ", until all ranks come there");
}

/* ---- what this rank has sent -----------------------------------------------
 */

static _Atomic(uint64_t) sent_messages, sent_bytes;

static void note_sent(uint64_t messages, uint64_t bytes) {
  atomic_fetch_add_explicit(&sent_messages, messages, memory_order_relaxed);
  atomic_fetch_add_explicit(&sent_bytes, bytes, memory_order_relaxed);
}

/* Parts for other ranks. */
static void note_parts(const cel_comm *c, const uint64_t *give) {
  for (int64_t k = 0; k < c->ranks; ++k)
    if (k != c->rank && give[k] > 0) note_sent(1, give[k]);
}

void cel_comm_count(uint64_t *messages, uint64_t *bytes) {
  *messages = atomic_load_explicit(&sent_messages, memory_order_relaxed);
  *bytes = atomic_load_explicit(&sent_bytes, memory_order_relaxed);
}

/* A null slot is what a communicator cannot do. */
static cel_status check_slot(bool there) {
  return there ? CEL_E_OK
               : cel_fail(CEL_E_COMM, "this communicator cannot do that");
}

/* ---- calls of all ranks ----------------------------------------------------
 */

static cel_status check_rank(const cel_comm *c, int64_t rank, int64_t least) {
  if (rank >= least && rank < c->ranks) return CEL_E_OK;
  return cel_fail(CEL_E_ARGUMENT, "there is no rank %lld, of %lld",
                  (long long)rank, (long long)c->ranks);
}

cel_status cel_comm_barrier(cel_comm *c) {
  if (c->ranks == 1) return CEL_E_OK;
  enter(c, IN_BARRIER);
  return leave(c, c->barrier(c));
}

cel_status cel_comm_broadcast(cel_comm *c, void *data, uint64_t bytes,
                              int64_t root) {
  CEL_TRY(check_rank(c, root, 0));
  if (c->ranks == 1) return CEL_E_OK;
  CEL_TRY(check_slot(c->broadcast != NULL));
  if (c->rank == root) note_sent(1, bytes);
  enter(c, IN_BROADCAST);
  return leave(c, c->broadcast(c, data, bytes, root));
}

cel_status cel_comm_gather(cel_comm *c, const void *mine, uint64_t bytes,
                           void *all, int64_t root) {
  CEL_TRY(check_rank(c, root, CEL_COMM_ALL));
  if (c->ranks > 1) {
    if (c->rank != root) note_sent(1, bytes);
    enter(c, IN_GATHER);
    return leave(c, c->gather(c, mine, bytes, all, root));
  }
  if (bytes > 0) memcpy(all, mine, bytes);
  return CEL_E_OK;
}

cel_status cel_comm_reduce(cel_comm *c, cel_comm_op op, cel_comm_type type,
                           const void *mine, void *out, uint64_t count,
                           int64_t root) {
  cel_comm_sum what = {op, type, count};
  CEL_TRY(check_rank(c, root, CEL_COMM_BEFORE));
  if (c->ranks > 1) {
    CEL_TRY(check_slot(c->reduce != NULL));
    if (c->rank != root) note_sent(1, what.count * sizes[type]);
    enter(c, IN_REDUCE);
    return leave(c, c->reduce(c, &what, mine, out, root));
  }
  if (count > 0 && mine != NULL && root != CEL_COMM_BEFORE)
    memcpy(out, mine, count * sizes[type]);
  return CEL_E_OK;
}

cel_status cel_comm_all_to_all(cel_comm *c, const void *mine, uint64_t bytes,
                               void *all) {
  if (c->ranks > 1) {
    CEL_TRY(check_slot(c->all_to_all != NULL));
    note_sent(1, (uint64_t)(c->ranks - 1) * bytes);
    enter(c, IN_ALL_TO_ALL);
    return leave(c, c->all_to_all(c, mine, bytes, all));
  }
  if (bytes > 0) memcpy(all, mine, bytes);
  return CEL_E_OK;
}

static bool is_zero(const char *data, uint64_t bytes) {
  return bytes == 0 || (data[0] == 0 && memcmp(data, data + 1, bytes - 1) == 0);
}

cel_status cel_comm_notify(cel_comm *c, const void *mine, uint64_t bytes,
                           void *all) {
  if (c->ranks < CEL_COMM_MANY || c->notify == NULL)
    return cel_comm_all_to_all(c, mine, bytes, all);
  bool *is_sent = cel_alloc((size_t)c->ranks * sizeof *is_sent);
  for (int64_t k = 0; k < c->ranks; ++k) {
    is_sent[k] = !is_zero((const char *)mine + (uint64_t)k * bytes, bytes);
    if (is_sent[k] && k != c->rank) note_sent(1, bytes);
  }
  memset(all, 0, (uint64_t)c->ranks * bytes);
  enter(c, IN_ALL_TO_ALL);
  cel_status status = c->notify(c, mine, bytes, is_sent, all);
  cel_free(is_sent);
  return leave(c, status);
}

cel_status cel_comm_all_to_allv(cel_comm *c, const void *mine,
                                const uint64_t *give, void *all,
                                const uint64_t *get) {
  if (c->ranks > 1) {
    CEL_TRY(check_slot(c->all_to_allv != NULL));
    note_parts(c, give);
    enter(c, IN_ALL_TO_ALL);
    return leave(c, c->all_to_allv(c, mine, give, all, get));
  }
  cel_assert(give[0] == get[0]);
  if (give[0] > 0) memcpy(all, mine, give[0]);
  return CEL_E_OK;
}

/* ---- letters ---------------------------------------------------------------
 */

struct cel_comm_letter {
  cel_comm_letter *next;
  int64_t from;
  int32_t tag;
  cel_comm_head head;
  void *data; /* to itself; else it is still to come */
};

static cel_status check_letter(const cel_comm *c, int64_t peer, int32_t tag) {
  CEL_TRY(check_rank(c, peer, 0));
  if (tag < 0 || tag >= CEL_COMM_TAGS)
    return cel_fail(CEL_E_ARGUMENT, "there is no tag %d", (int)tag);
  return check_slot(peer == c->rank || c->send != NULL);
}

/* Where the oldest of this rank and tag hangs, or is to be put. */
static cel_comm_letter **find(cel_comm *c, int64_t from, int32_t tag) {
  cel_comm_letter **at = &c->letters;
  while (*at != NULL && ((*at)->from != from || (*at)->tag != tag))
    at = &(*at)->next;
  return at;
}

static void put(cel_comm *c, int64_t from, int32_t tag,
                const cel_comm_head *head, void *data) {
  cel_comm_letter **at = &c->letters, *made = cel_alloc(sizeof *made);
  while (*at != NULL) at = &(*at)->next;
  *made =
      (cel_comm_letter){.from = from, .tag = tag, .head = *head, .data = data};
  *at = made;
}

static void drop(cel_comm_letter **at) {
  cel_comm_letter *letter = *at;
  *at = letter->next;
  free(letter->data);
  cel_free(letter);
}

cel_status cel_comm_send(cel_comm *c, int64_t to, int32_t tag,
                         const cel_comm_head *head, const void *data) {
  CEL_TRY(check_letter(c, to, tag));
  uint64_t bytes = head->size * head->count;
  void *copy = malloc(bytes > 0 ? bytes : 1);
  if (copy == NULL)
    return cel_fail(CEL_E_MEMORY, "no memory to send %llu bytes",
                    (unsigned long long)bytes);
  if (bytes > 0) memcpy(copy, data, bytes);
  if (to != c->rank) {
    note_sent(1, bytes);
    return c->send(c, to, tag, head, copy);
  }
  put(c, to, tag, head, copy);
  return CEL_E_OK;
}

cel_status cel_comm_await(cel_comm *c, int64_t from, int32_t tag,
                          cel_comm_head *out) {
  CEL_TRY(check_letter(c, from, tag));
  cel_comm_letter *letter = *find(c, from, tag);
  if (letter != NULL) {
    *out = letter->head;
    return CEL_E_OK;
  }
  if (from == c->rank)
    return cel_fail(CEL_E_ARGUMENT,
                    "comm:receive: rank %lld has sent itself nothing with tag "
                    "%d",
                    (long long)from, (int)tag);
  enter_for(c, IN_RECEIVE, from, tag);
  CEL_TRY(leave(c, c->await(c, from, tag, out)));
  put(c, from, tag, out, NULL);
  return CEL_E_OK;
}

cel_status cel_comm_take(cel_comm *c, int64_t from, int32_t tag, void *into) {
  cel_comm_letter **at = find(c, from, tag);
  cel_assert(*at != NULL);
  uint64_t bytes = (*at)->head.size * (*at)->head.count;
  cel_status status = CEL_E_OK;
  if (bytes > 0 && from == c->rank) memcpy(into, (*at)->data, bytes);
  if (bytes > 0 && from != c->rank) {
    enter_for(c, IN_RECEIVE, from, tag);
    status = leave(c, c->take(c, from, tag, into, bytes));
  }
  drop(at);
  return status;
}

cel_status cel_comm_settle(cel_comm *c, bool failed) {
  cel_status status = CEL_E_OK;
  if (c->letters != NULL && !failed)
    status = cel_fail(
        CEL_E_ARGUMENT,
        "the task has ended without comm:receive(%lld, %d), which would give "
        "what rank %lld has sent",
        (long long)c->letters->from, (int)c->letters->tag,
        (long long)c->letters->from);
  while (c->letters != NULL) drop(&c->letters);
  if (failed || status != CEL_E_OK || c->settle == NULL) return status;
  enter(c, IN_END);
  return leave(c, c->settle(c));
}

/* ---- the rest --------------------------------------------------------------
 */

cel_status cel_comm_handle(cel_comm *c, void *out) {
  CEL_TRY(check_slot(c->handle != NULL));
  return c->handle(c, out);
}

void cel_comm_destroy(cel_comm *c) {
  if (c == NULL) return;
  while (c->letters != NULL) drop(&c->letters);
  c->destroy(c);
}
