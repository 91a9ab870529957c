#include "comm/route.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "comm/image.h"

/* ---- what was pushed ----------------------------------------------------- */

/* As kernels/route.cuh has it: the count of an item once a key of it has led
 * nowhere, beside what there was. The first word of values is that key. */
#define LEADS_NOWHERE (1u << 31)

static uint32_t pushed(const cel_route_slots *s, int64_t item) {
  return *(const uint32_t *)(s->at + item * s->step);
}

static const char *values_of(const cel_route_slots *s, int64_t item) {
  return s->values + item * s->pitch;
}

static int64_t key_of(const cel_route_slots *s, int64_t item, int64_t k) {
  const char *slot = s->at + item * s->step;
  return s->is_wide ? ((const int64_t *)slot)[1 + k]
                    : (int64_t)((const uint32_t *)slot)[1 + k];
}

void cel_route_look(const cel_route_slots *s, cel_route_fault *out) {
  *out = (cel_route_fault){.item = -1};
  for (int64_t i = 0; i < s->items; ++i) {
    int64_t n = pushed(s, i) & ~LEADS_NOWHERE;
    if (n > out->most) {
      out->most = n;
      out->most_item = s->first + i;
    }
    if (pushed(s, i) >= LEADS_NOWHERE && out->item < 0) {
      out->item = s->first + i;
      out->key = *(const int64_t *)values_of(s, i);
    }
  }
}

bool cel_route_is_fault(const cel_route_fault *fault, int64_t most) {
  return fault->item >= 0 || fault->most > most;
}

/* Ranks come in the order of their items: the first of each kind stays. */
static void join(cel_route_fault *sum, const cel_route_fault *next) {
  if (next->most > sum->most) {
    sum->most = next->most;
    sum->most_item = next->most_item;
  }
  if (sum->item < 0) {
    sum->item = next->item;
    sum->key = next->key;
  }
}

/* ---- the exchange -------------------------------------------------------- */

/* Of each rank: where its keys begin, and their end; elements for it, and from
 * it; where the next one for it goes. */
typedef struct table {
  int64_t ranks, *bound, *next;
  uint64_t *give, *get;
} table;

static table table_create(int64_t ranks, const cel_route_keys *keys) {
  table t = {.ranks = ranks,
             .bound = cel_alloc_zero((4 * (size_t)ranks + 1) * 8)};
  t.next = t.bound + ranks + 1;
  t.give = (uint64_t *)(t.next + ranks);
  t.get = t.give + ranks;
  for (int64_t k = 0; k <= ranks; ++k)
    t.bound[k] = cel_image_home(keys->rows, k, ranks) * keys->row;
  return t;
}

static void table_release(table *t) {
  cel_free(t->bound);
}

/* The rank that has a key, by halving. */
static int64_t search(const table *t, int64_t key) {
  int64_t low = 0, high = t->ranks;
  while (high - low > 1) {
    int64_t middle = low + (high - low) / 2;
    if (key < t->bound[middle])
      high = middle;
    else
      low = middle;
  }
  return low;
}

/* Mostly that of the key before. */
static int64_t owner(const table *t, int64_t key, int64_t last) {
  if (key >= t->bound[last] && key < t->bound[last + 1]) return last;
  return search(t, key);
}

static void count(const cel_route_slots *s, table *t) {
  int64_t rank = 0;
  for (int64_t i = 0; i < s->items; ++i) {
    int64_t n = pushed(s, i);
    for (int64_t k = 0; k < n; ++k) {
      rank = owner(t, key_of(s, i, k), rank);
      ++t->give[rank];
    }
  }
}

static void copy_value(char *to, const char *from, uint32_t bytes) {
  if (bytes == 8)
    memcpy(to, from, 8);
  else if (bytes == 4)
    memcpy(to, from, 4);
  else if (bytes == 16)
    memcpy(to, from, 16);
  else
    memcpy(to, from, bytes);
}

static void pack(const cel_route_slots *s, table *t, cel_route_came *out) {
  int64_t rank = 0;
  for (int64_t i = 0; i < s->items; ++i) {
    const char *value = values_of(s, i);
    int64_t n = pushed(s, i);
    for (int64_t k = 0; k < n; ++k, value += s->bytes) {
      int64_t key = key_of(s, i, k), at;
      rank = owner(t, key, rank);
      at = t->next[rank]++;
      out->key[at] = key;
      copy_value(out->value + at * s->bytes, value, s->bytes);
    }
  }
}

static cel_route_came came_create(int64_t count, uint32_t bytes) {
  return (cel_route_came){NULL, count, cel_alloc((size_t)count * 8 + 1),
                          cel_alloc((size_t)count * bytes + 1)};
}

/* Values that came one after the other, with their keys: of 64 bits, or of 32.
 * An item that has made a mistake has `is_wrong`, and none. */
typedef struct run {
  int64_t count;
  const int64_t *key;
  const uint32_t *narrow; /* or null */
  const char *value;
  bool is_wrong;
} run;

/* Where they lie: packed, or in slots with keys of 64 or 32 bits. */
typedef enum layout { PACKED, WIDE, NARROW } layout;

/* All of them, by value: what is written beside changes nothing of it. */
typedef struct runs {
  int64_t count;
  layout layout;
  cel_route_slots slots;
  cel_route_came came;
} runs;

static runs runs_of(const cel_route_came *came) {
  runs out = {1, PACKED, {0}, *came};
  if (came->slots != NULL) {
    out.slots = *came->slots;
    out.count = out.slots.items;
    out.layout = out.slots.is_wide ? WIDE : NARROW;
  }
  return out;
}

/* Loops over all are compiled for each layout, which then is a constant. */
#define INLINE static inline __attribute__((always_inline))
#define BY_LAYOUT(f, all, ...)                                                 \
  ((all)->layout == NARROW ? f(all, NARROW, __VA_ARGS__)                       \
   : (all)->layout == WIDE ? f(all, WIDE, __VA_ARGS__)                         \
                           : f(all, PACKED, __VA_ARGS__))

INLINE run run_of(const runs *all, layout layout, int64_t i) {
  const cel_route_slots *s = &all->slots;
  if (layout == PACKED)
    return (run){all->came.count, all->came.key, NULL, all->came.value, false};
  const uint32_t *slot = (const uint32_t *)(s->at + i * s->step);
  bool is_wrong = slot[0] > s->most;
  return (run){is_wrong ? 0 : slot[0], (const int64_t *)slot + 1,
               layout == WIDE ? NULL : slot + 1, values_of(s, i), is_wrong};
}

INLINE int64_t key_at(const run *r, int64_t i) {
  return r->narrow != NULL ? (int64_t)r->narrow[i] : r->key[i];
}

static bool is_wrong(const cel_route_came *came) {
  cel_route_fault fault = {.item = -1};
  if (came->slots != NULL) cel_route_look(came->slots, &fault);
  return came->slots != NULL && cel_route_is_fault(&fault, came->slots->most);
}

void cel_route_release(cel_route_came *came) {
  cel_free(came->key);
  cel_free(came->value);
  *came = (cel_route_came){0};
}

static void scale(table *t, uint64_t by, uint64_t over) {
  for (int64_t k = 0; k < t->ranks; ++k) {
    t->give[k] = t->give[k] / over * by;
    t->get[k] = t->get[k] / over * by;
  }
}

/* What ranks tell each other first: how much is to come, or what is wrong. To
 * most it is nothing. */
typedef struct notice {
  uint64_t count, is_wrong;
  cel_route_fault fault;
} notice;

static cel_status tell(cel_comm *comm, table *t, bool is_wrong,
                       cel_route_fault *fault) {
  notice *mine = cel_alloc_zero(2 * (size_t)t->ranks * sizeof *mine);
  notice *theirs = mine + t->ranks;
  for (int64_t k = 0; k < t->ranks; ++k) {
    mine[k].count = t->give[k];
    mine[k].is_wrong = is_wrong;
    if (is_wrong) mine[k].fault = *fault;
  }
  cel_status status = cel_comm_notify(comm, mine, sizeof *mine, theirs);
  *fault = (cel_route_fault){.item = -1};
  for (int64_t k = 0; status == CEL_E_OK && k < t->ranks; ++k) {
    t->get[k] = theirs[k].count;
    if (theirs[k].is_wrong) join(fault, &theirs[k].fault);
  }
  cel_free(mine);
  return status;
}

/* What was packed, to those that have the keys. */
static cel_status send(cel_comm *comm, table *t, uint32_t bytes,
                       const cel_route_came *mine, cel_route_came *out) {
  scale(t, 8, 1);
  CEL_TRY(cel_comm_all_to_allv(comm, mine->key, t->give, out->key, t->get));
  scale(t, bytes, 8);
  return cel_comm_all_to_allv(comm, mine->value, t->give, out->value, t->get);
}

static cel_status exchange(cel_comm *comm, const cel_route_slots *s, table *t,
                           cel_route_fault *fault, cel_route_came *out) {
  int64_t sent = 0, got = 0;
  cel_route_look(s, fault);
  bool is_wrong = cel_route_is_fault(fault, s->most);
  if (!is_wrong) count(s, t);
  CEL_TRY(tell(comm, t, is_wrong, fault));
  if (cel_route_is_fault(fault, s->most)) return CEL_E_OK;
  for (int64_t k = 0; k < t->ranks; ++k) {
    t->next[k] = sent;
    sent += (int64_t)t->give[k];
    got += (int64_t)t->get[k];
  }
  cel_route_came mine = came_create(sent, s->bytes);
  pack(s, t, &mine);
  cel_route_came came = came_create(got, s->bytes);
  cel_status status = send(comm, t, s->bytes, &mine, &came);
  cel_route_release(&mine);
  if (status == CEL_E_OK)
    *out = came;
  else
    cel_route_release(&came);
  return status;
}

cel_status cel_route_exchange(cel_comm *comm, const cel_route_slots *s,
                              const cel_route_keys *keys,
                              cel_route_fault *fault, cel_route_came *out) {
  *out = (cel_route_came){0};
  *fault = (cel_route_fault){.item = -1};
  if (comm->ranks == 1) {
    out->slots = s;
    return CEL_E_OK;
  }
  table t = table_create(comm->ranks, keys);
  cel_status status = exchange(comm, s, &t, fault, out);
  table_release(&t);
  return status;
}

/* ---- combining ----------------------------------------------------------- */

/* How many values of an element's block have come; and whether that is another
 * block than the first. */
enum { FULL = CEL_ROUTE_BLOCK, LATER = 2 * FULL };
typedef uint8_t progress;

/* Counts the values of elements whose keys are alike in their last bits. */
INLINE bool count_alike(const runs *all, layout layout, int64_t mask,
                        progress *count) {
  for (int64_t k = 0; k < all->count; ++k) {
    run r = run_of(all, layout, k);
    for (int64_t i = 0; i < r.count; ++i)
      if (++count[key_at(&r, i) & mask] > FULL) return true;
  }
  return false;
}

/* Whether one of n elements may get more values than a block has. Where few
 * come to many, none does, and what all elements would cost is spared. */
static bool may_fill(const runs *all, int64_t n) {
  enum { LEAST = 1 << 10, USUAL = 8 };
  int64_t most =
      all->layout == PACKED ? all->came.count : all->count * all->slots.most;
  if (most <= FULL) return false;
  if (most / FULL >= n) return true;
  int64_t counts = LEAST;
  while (counts * USUAL < most) counts *= 2;
  progress *count = cel_alloc_zero((size_t)counts);
  bool out = BY_LAYOUT(count_alike, all, counts - 1, count);
  cel_free(count);
  return out;
}

/* Sums and products of signed numbers wrap as those of unsigned ones do, in
 * `wide`, which no promotion makes signed again.
 *
 * What the newest block of an element comes to stands in `into` while it is the
 * first one, and in `block` later. Where FULL is set, the next value begins
 * another one. Without `have` no element has more than one.
 *
 * Numbers alone: items that come one after the other mostly push to the same
 * elements, so the newest two are kept in registers, each of another key. That
 * spares what writing and reading one again takes, which each sum waits for. */
#define COMBINE(type, wide)                                                    \
  INLINE type join_##type(cel_route_op op, type a, type b) {                   \
    switch (op) {                                                              \
    case CEL_ROUTE_SUM: return (type)((wide)a + (wide)b);                      \
    case CEL_ROUTE_PROD: return (type)((wide)a * (wide)b);                     \
    case CEL_ROUTE_MIN: return b < a || NAN_OF(b) ? b : a;                     \
    case CEL_ROUTE_MAX: return a < b || NAN_OF(b) ? b : a;                     \
    case CEL_ROUTE_AND: return AND(a, b);                                      \
    case CEL_ROUTE_OR: return OR(a, b);                                        \
    }                                                                          \
    return a;                                                                  \
  }                                                                            \
  /* The next value of an element. */                                          \
  INLINE void take_##type(cel_route_op op, bool blocks, type *newest,          \
                          progress *have, type b, type *into) {                \
    if (!blocks || (*have & FULL) == 0) {                                      \
      *newest = join_##type(op, *newest, b);                                   \
      ++*have;                                                                 \
      return;                                                                  \
    }                                                                          \
    *into = *have >= LATER ? join_##type(op, *into, *newest) : *newest;        \
    *newest = b;                                                               \
    *have = LATER + 1;                                                         \
  }                                                                            \
  INLINE bool alone_##type(const runs *all, layout layout, cel_route_op op,    \
                           progress *have, type *block, type *into) {          \
    bool wrong = false, blocks = have != NULL;                                 \
    int64_t key_1 = -1, key_2 = -1;                                            \
    type value_1 = 0, value_2 = 0;                                             \
    progress have_1 = 0, have_2 = 0;                                           \
    for (int64_t k = 0; k < all->count; ++k) {                                 \
      run r = run_of(all, layout, k);                                          \
      const type *from = (const type *)r.value;                                \
      wrong |= r.is_wrong;                                                     \
      if (layout != PACKED && r.count == 2 && key_at(&r, 0) == key_1 &&        \
          key_at(&r, 1) == key_2 &&                                            \
          (!blocks || ((have_1 | have_2) & FULL) == 0)) {                      \
        value_1 = join_##type(op, value_1, from[0]);                           \
        value_2 = join_##type(op, value_2, from[1]);                           \
        ++have_1;                                                              \
        ++have_2;                                                              \
        continue;                                                              \
      }                                                                        \
      for (int64_t i = 0; i < r.count; ++i) {                                  \
        int64_t key = key_at(&r, i);                                           \
        if (key == key_1) {                                                    \
          take_##type(op, blocks, &value_1, &have_1, from[i], &into[key]);     \
          continue;                                                            \
        }                                                                      \
        if (key != key_2) {                                                    \
          if (key_1 >= 0) {                                                    \
            (blocks && have_1 >= LATER ? block : into)[key_1] = value_1;       \
            if (blocks) have[key_1] = have_1;                                  \
          }                                                                    \
          key_1 = key_2;                                                       \
          value_1 = value_2;                                                   \
          have_1 = have_2;                                                     \
          key_2 = key;                                                         \
          have_2 = blocks ? have[key] : 0;                                     \
          value_2 = (blocks && have_2 >= LATER ? block : into)[key];           \
        }                                                                      \
        take_##type(op, blocks, &value_2, &have_2, from[i], &into[key]);       \
      }                                                                        \
    }                                                                          \
    if (key_1 >= 0) {                                                          \
      (blocks && have_1 >= LATER ? block : into)[key_1] = value_1;             \
      if (blocks) have[key_1] = have_1;                                        \
    }                                                                          \
    if (key_2 >= 0) {                                                          \
      (blocks && have_2 >= LATER ? block : into)[key_2] = value_2;             \
      if (blocks) have[key_2] = have_2;                                        \
    }                                                                          \
    return wrong;                                                              \
  }                                                                            \
  INLINE bool wide_##type(const runs *all, cel_route_op op, int64_t width,     \
                          progress *have, type *block, type *into) {           \
    bool wrong = false, blocks = have != NULL;                                 \
    for (int64_t k = 0; k < all->count; ++k) {                                 \
      run r = run_of(all, all->layout, k);                                     \
      const type *from = (const type *)r.value;                                \
      wrong |= r.is_wrong;                                                     \
      for (int64_t i = 0; i < r.count; ++i) {                                  \
        int64_t at = key_at(&r, i) * width;                                    \
        for (int64_t c = at; c < at + width; ++c) {                            \
          progress seen = blocks ? have[c] : 0;                                \
          type value = (blocks && seen >= LATER ? block : into)[c];            \
          take_##type(op, blocks, &value, &seen, *from++, &into[c]);           \
          (blocks && seen >= LATER ? block : into)[c] = value;                 \
          if (blocks) have[c] = seen;                                          \
        }                                                                      \
      }                                                                        \
    }                                                                          \
    return wrong;                                                              \
  }                                                                            \
  INLINE bool each_##type(const runs *all, cel_route_op op, int64_t width,     \
                          progress *have, type *block, type *into) {           \
    return width > 1 ? wide_##type(all, op, width, have, block, into)          \
           : all->layout == NARROW                                             \
               ? alone_##type(all, NARROW, op, have, block, into)              \
               : alone_##type(all, all->layout, op, have, block, into);        \
  }                                                                            \
  static bool combine_##type(cel_route_op op, const cel_route_came *came,      \
                             int64_t first, int64_t n, int64_t width,          \
                             type *into) {                                     \
    runs all = runs_of(came);                                                  \
    bool wrong = false, by_blocks = HAS_BLOCKS(op) && may_fill(&all, n);       \
    size_t numbers = by_blocks ? (size_t)(n * width) : 0;                      \
    progress *have = cel_alloc_zero(numbers + 1);                              \
    type *block = cel_alloc(numbers * sizeof *block + 1);                      \
    progress *have_0 = have - first * width;                                   \
    type *block_0 = block - first * width, *into_0 = into - first * width;     \
    switch (op) {                                                              \
    case CEL_ROUTE_SUM: EACH(type, CEL_ROUTE_SUM);                             \
    case CEL_ROUTE_PROD: EACH(type, CEL_ROUTE_PROD);                           \
    case CEL_ROUTE_MIN: EACH(type, CEL_ROUTE_MIN);                             \
    case CEL_ROUTE_MAX: EACH(type, CEL_ROUTE_MAX);                             \
    case CEL_ROUTE_AND: EACH(type, CEL_ROUTE_AND);                             \
    case CEL_ROUTE_OR: EACH(type, CEL_ROUTE_OR);                               \
    }                                                                          \
    for (size_t i = 0; i < numbers; ++i)                                       \
      if (have[i] >= LATER) into[i] = join_##type(op, into[i], block[i]);      \
    cel_free(block);                                                           \
    cel_free(have);                                                            \
    return !wrong;                                                             \
  }
#define EACH(type, op)                                                         \
  wrong = HAS_BLOCKS(op) && by_blocks                                          \
              ? each_##type(&all, op, width, have_0, block_0, into_0)          \
              : each_##type(&all, op, width, NULL, NULL, into_0);              \
  break
#define NAN_OF(x) false
#define HAS_BLOCKS(op) false /* in any order they come to the same */
#define AND(a, b) ((a) & (b))
#define OR(a, b) ((a) | (b))
COMBINE(int8_t, uint32_t)
COMBINE(int16_t, uint32_t)
COMBINE(int32_t, uint32_t)
COMBINE(int64_t, uint64_t)
COMBINE(uint8_t, uint32_t)
COMBINE(uint16_t, uint32_t)
COMBINE(uint32_t, uint32_t)
COMBINE(uint64_t, uint64_t)
#undef NAN_OF
#undef AND
#undef OR
#undef HAS_BLOCKS
#define NAN_OF(x) isnan(x)
#define HAS_BLOCKS(op) ((op) == CEL_ROUTE_SUM || (op) == CEL_ROUTE_PROD)
#define AND(a, b) ((void)(b), a) /* none: the caller sees to it */
#define OR(a, b) ((void)(b), a)
COMBINE(float, float)
COMBINE(double, double)
#undef NAN_OF
#undef AND
#undef OR
#undef HAS_BLOCKS
#undef COMBINE
#undef EACH

static void begin(const void *identity, int64_t n, int64_t bytes, char *into) {
  for (int64_t i = 0; i < n; ++i)
    memcpy(into + i * bytes, identity, (size_t)bytes);
}

bool cel_route_combine(const cel_route_came *came, const cel_route_type *type,
                       int64_t first, int64_t n, const void *identity,
                       void *into) {
  if (identity != NULL)
    begin(identity, n, (int64_t)type->size * type->count, into);
  else if (is_wrong(came))
    return false;
#define CALL(name) combine_##name(type->op, came, first, n, type->count, into)
  bool is_signed = type->class_ == 'i', real = type->class_ == 'f';
  switch (type->size) {
  case 1: return is_signed ? CALL(int8_t) : CALL(uint8_t);
  case 2: return is_signed ? CALL(int16_t) : CALL(uint16_t);
  case 4:
    return real ? CALL(float) : is_signed ? CALL(int32_t) : CALL(uint32_t);
  case 8:
    return real ? CALL(double) : is_signed ? CALL(int64_t) : CALL(uint64_t);
  default: cel_bug("numbers of %d bytes", type->size);
  }
#undef CALL
}

/* ---- appending ----------------------------------------------------------- */

/* Of ranks' shares of a row of values where each begins, and the end. */
static cel_status bounds_of(cel_comm *comm, int64_t mine, int64_t *bound) {
  CEL_TRY(cel_comm_gather(comm, &mine, sizeof mine, bound, CEL_COMM_ALL));
  int64_t at = 0;
  for (int64_t k = 0; k < comm->ranks; ++k) {
    int64_t n = bound[k];
    bound[k] = at;
    at += n;
  }
  bound[comm->ranks] = at;
  return CEL_E_OK;
}

static uint64_t overlap(const int64_t *a, const int64_t *b) {
  int64_t low = a[0] > b[0] ? a[0] : b[0], high = a[1] < b[1] ? a[1] : b[1];
  return high > low ? (uint64_t)(high - low) : 0;
}

/* Values that ranks share as `has` says, to those that `wants` names: both in
 * the order of ranks. */
static cel_status move(cel_comm *comm, uint32_t bytes, const int64_t *has,
                       const char *from, const int64_t *wants, char *to) {
  int64_t ranks = comm->ranks, me = comm->rank;
  uint64_t *give = cel_alloc_zero(2 * (size_t)ranks * sizeof *give);
  uint64_t *get = give + ranks;
  for (int64_t k = 0; k < ranks; ++k) {
    give[k] = bytes * overlap(has + me, wants + k);
    get[k] = bytes * overlap(has + k, wants + me);
  }
  cel_status status = cel_comm_all_to_allv(comm, from, give, to, get);
  cel_free(give);
  return status;
}

/* This rank's bins, one behind the other. */
typedef struct filled {
  int64_t count; /* negative: an item has made a mistake */
  int64_t *end;  /* of each bin */
  char *value;
} filled;

/* Adds to `next` how much came to each bin; whether an item was wrong. */
INLINE bool count_bins(const runs *all, layout layout, int64_t first,
                       int64_t *next) {
  bool wrong = false;
  int64_t last = 0, alike = 0; /* a bin, and how many came to it on end */
  for (int64_t k = 0; k < all->count; ++k) {
    run r = run_of(all, layout, k);
    wrong |= r.is_wrong;
    if (layout != PACKED && r.count == 1 && key_at(&r, 0) - first == last) {
      ++alike; /* as most */
      continue;
    }
    for (int64_t i = 0; i < r.count; ++i, ++alike) {
      int64_t bin = key_at(&r, i) - first;
      if (bin == last) continue;
      next[last] += alike;
      last = bin;
      alike = 0;
    }
  }
  next[last] += alike;
  return wrong;
}

/* Where what came goes, and how much there is: `length` of what each bin held,
 * or null. Until all are there, `end` is where the next one of a bin goes. */
static filled measure(const cel_route_came *came, const cel_route_bins *b,
                      const int64_t *length) {
  filled out = {0, cel_alloc_zero((size_t)(b->count + 1) * 8), NULL};
  int64_t *next = out.end;
  runs all = runs_of(came);
  bool wrong = BY_LAYOUT(count_bins, &all, b->first, next);
  for (int64_t i = 0; i < b->count; ++i) {
    int64_t n = next[i] + (length != NULL ? length[i] : 0);
    next[i] = out.count;
    out.count += n;
  }
  if (wrong) out.count = -1;
  return out;
}

/* `next`: where the next value of each bin goes. */
INLINE void fill_bins(const runs *all, layout layout, int64_t first,
                      int64_t *next, char *value, uint32_t bytes) {
  int64_t last = 0, at = next[0]; /* a bin, and where its next one goes */
  for (int64_t k = 0; k < all->count; ++k) {
    run r = run_of(all, layout, k);
    if (layout != PACKED && r.count == 1 && key_at(&r, 0) - first == last) {
      copy_value(value + at++ * bytes, r.value, bytes); /* as most */
      continue;
    }
    for (int64_t i = 0; i < r.count; ++i, ++at) {
      int64_t bin = key_at(&r, i) - first;
      if (bin != last) {
        next[last] = at;
        at = next[last = bin];
      }
      copy_value(value + at * bytes, r.value + i * bytes, bytes);
    }
  }
  next[last] = at;
}

/* `old`: what bins held, one behind the other. */
static void fill(filled *f, const cel_route_came *came, const cel_route_bins *b,
                 const int64_t *length, const char *old) {
  int64_t *next = f->end;
  uint32_t bytes = b->bytes;
  char *value = f->value;
  for (int64_t i = 0; length != NULL && i < b->count; ++i) {
    size_t size = (size_t)length[i] * bytes;
    if (size > 0) memcpy(value + next[i] * bytes, old, size);
    old += size;
    next[i] += length[i];
  }
  runs all = runs_of(came);
  if (bytes == 16) /* a constant, as of two doubles: no test for each value */
    BY_LAYOUT(fill_bins, &all, b->first, next, value, 16);
  else
    BY_LAYOUT(fill_bins, &all, b->first, next, value, bytes);
}

/* How ranks share values, by their bins and by their places. */
typedef struct shares {
  int64_t *by_bin, *by_place;
} shares;

static void share_places(cel_comm *comm, int64_t room, int64_t total,
                         int64_t *bound) {
  for (int64_t k = 0; k <= comm->ranks; ++k) {
    int64_t at = cel_image_home(room, k, comm->ranks);
    bound[k] = at < total ? at : total;
  }
}

/* What a rank's offsets say; on the last one the end of all is among them. */
typedef struct stretch {
  int64_t n, first, last;
  bool grows;
} stretch;

static stretch stretch_of(const cel_route_bins *b, bool last) {
  stretch out = {.n = b->count + last, .grows = true};
  if (out.n == 0) return out;
  out.first = b->offset[0];
  out.last = b->offset[out.n - 1];
  for (int64_t i = 1; i < out.n; ++i)
    out.grows = out.grows && b->offset[i] >= b->offset[i - 1];
  return out;
}

/* Where the bins of each rank begin, and the end of all. */
static cel_status begin_bins(cel_comm *comm, const cel_route_bins *b,
                             int64_t *begin) {
  int64_t ranks = comm->ranks, at = 0, wrong = -1;
  stretch mine = stretch_of(b, comm->rank == ranks - 1);
  stretch *all = cel_alloc_zero((size_t)ranks * sizeof *all);
  cel_status status =
      cel_comm_gather(comm, &mine, sizeof mine, all, CEL_COMM_ALL);
  for (int64_t k = 0; status == CEL_E_OK && k < ranks; ++k) {
    if (all[k].n == 0) continue;
    if (wrong < 0 && (!all[k].grows || all[k].first < at)) wrong = k;
    at = all[k].last;
  }
  begin[ranks] = at;
  for (int64_t k = ranks; k-- > 0;)
    begin[k] = all[k].n > 0 ? all[k].first : begin[k + 1];
  cel_free(all);
  CEL_TRY(status);
  if (wrong < 0 && at > b->held_room) wrong = ranks - 1;
  if (wrong < 0) return CEL_E_OK;
  return cel_fail(CEL_E_RANGE,
                  "cg:route: offsets grow, from 0 to what there is room "
                  "for, and those of the bins of rank %" PRId64 " do not",
                  wrong);
}

/* Brings what this rank's bins hold; *length and *old are the caller's. */
static cel_status bring(cel_comm *comm, const cel_route_bins *b, shares *s,
                        int64_t **length, char **old) {
  int64_t me = comm->rank, *begin = s->by_bin;
  CEL_TRY(begin_bins(comm, b, begin));
  *length = cel_alloc((size_t)(b->count + 1) * 8);
  for (int64_t i = 0; i < b->count; ++i)
    (*length)[i] =
        (i + 1 < b->count ? b->offset[i + 1] : begin[me + 1]) - b->offset[i];
  *old = cel_alloc((size_t)(begin[me + 1] - begin[me]) * b->bytes + 1);
  share_places(comm, b->held_room, begin[comm->ranks], s->by_place);
  return move(comm, b->bytes, s->by_place, b->held, begin, *old);
}

/* Writes the bins where they belong, and zeros behind them. */
static cel_status place(cel_comm *comm, const cel_route_bins *b, shares *s,
                        const filled *f, int64_t total) {
  int64_t me = comm->rank, base = s->by_bin[me];
  for (int64_t i = b->count; i-- > 0;)
    b->offset[i] = base + (i > 0 ? f->end[i - 1] : 0);
  if (me == comm->ranks - 1) b->offset[b->count] = total;
  share_places(comm, b->room, total, s->by_place);
  int64_t share = cel_image_home(b->room, me + 1, comm->ranks) -
                  cel_image_home(b->room, me, comm->ranks);
  int64_t used = s->by_place[me + 1] - s->by_place[me];
  if (share > used)
    memset((char *)b->values + used * b->bytes, 0,
           (size_t)(share - used) * b->bytes);
  if (f->value == b->values) return CEL_E_OK;
  return move(comm, b->bytes, s->by_bin, f->value, s->by_place, b->values);
}

static cel_status append(cel_comm *comm, const cel_route_came *came,
                         const cel_route_bins *b, shares *s, int64_t *total) {
  int64_t *length = NULL;
  char *old = NULL;
  cel_status status =
      b->held_room > 0 ? bring(comm, b, s, &length, &old) : CEL_E_OK;
  if (status == CEL_E_OK) {
    filled f = measure(came, b, length);
    status = bounds_of(comm, f.count, s->by_bin);
    *total = s->by_bin[comm->ranks];
    if (status == CEL_E_OK && *total >= 0 && *total <= b->room) {
      bool alone = comm->ranks == 1; /* what bins held lies in `old` now */
      f.value = alone ? b->values : cel_alloc((size_t)f.count * b->bytes + 1);
      fill(&f, came, b, length, old);
      status = place(comm, b, s, &f, *total);
      if (!alone) cel_free(f.value);
    }
    cel_free(f.end);
  }
  cel_free(length);
  cel_free(old);
  return status;
}

cel_status cel_route_append(cel_comm *comm, const cel_route_came *came,
                            const cel_route_bins *b, int64_t *total) {
  size_t n = (size_t)comm->ranks + 1;
  shares s = {.by_bin = cel_alloc_zero(2 * n * sizeof *s.by_bin)};
  s.by_place = s.by_bin + n;
  cel_status status = append(comm, came, b, &s, total);
  cel_free(s.by_bin);
  return status;
}
