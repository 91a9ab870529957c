#include <string.h>

#include "base/hash.h"
#include "rule/eval.h"
#include "rule/fold.h"
#include "rule/listing.h"

/* Rules by content: chains by hash, fewer rules than chains. */
struct cel_rules {
  cel_rule **head;
  uint32_t heads; /* a power of two */
  uint32_t count;
  uint64_t ids;
};

cel_rules *cel_rules_create(void) {
  cel_rules *rules = cel_alloc_zero(sizeof *rules);
  rules->heads = 64;
  rules->head = cel_alloc_zero(rules->heads * sizeof *rules->head);
  return rules;
}

static void rule_free(cel_rule *rule) {
  cel_free((void *)rule->desc.code); /* and its boxes */
  cel__listing_destroy(rule->listing);
  cel_free(rule);
}

void cel_rules_destroy(cel_rules *rules) {
  if (!rules) return;
  for (uint32_t i = 0; i < rules->heads; ++i)
    for (cel_rule *rule = rules->head[i]; rule != NULL;) {
      cel_rule *next = rule->next;
      rule_free(rule);
      rule = next;
    }
  cel_free(rules->head);
  cel_free(rules);
}

uint32_t cel_rules_count(const cel_rules *rules) {
  return rules->count;
}

static int pops(int64_t op) {
  static const int8_t n[] = {
#define CEL_RULE_POPS(name, pops, text) pops,
      CEL_RULE_OPS(CEL_RULE_POPS)
#undef CEL_RULE_POPS
  };
  return n[op];
}

/* Whether `word` may follow the variable `op` in a box that is a family along
 * dimension `each` - 1, or none. */
static bool operand_fits(const cel_rule_desc *desc, int each, int64_t op,
                         int64_t word) {
  switch (op) {
  case CEL_RULE_ITEM: return word == each - 1;
  case CEL_RULE_MIN:
  case CEL_RULE_MAX:
    return word >= 0 && word < desc->task_dims && word != each - 1;
  case CEL_RULE_CONST: return word <= CEL_RULE_LIMIT && word >= -CEL_RULE_LIMIT;
  case CEL_RULE_PARAM: return word >= 0 && word < desc->params;
  case CEL_RULE_BUFFER: return word >= 0 && word < desc->buffer_dims;
  default: return word >= 0 && word < desc->task_dims;
  }
}

/* A program pushes one value in all, never pops what is not there, and stays
 * within the depth. Null when it does, else what is wrong. */
static const char *program_flaw(const cel_rule_desc *desc, int each,
                                const int64_t *code, int length) {
  int depth = 0;
  for (int i = 0; i < length; ++i) {
    int64_t op = code[i];
    if (op < 0 || op >= CEL_RULE_OPS_N) return "an unknown operation";
    if (depth < pops(op)) return "an operation without operands";
    depth += 1 - pops(op);
    if (depth > CEL_RULE_DEPTH) return "an expression nested too deeply";
    if (pops(op) > 0) continue;
    if (++i >= length) return "a variable cut short";
    if (!operand_fits(desc, each, op, code[i]))
      return "an operand out of range";
  }
  return depth == 1 ? NULL : "a program that is no single value";
}

static const char *desc_flaw(const cel_rule_desc *desc) {
  if (desc->task_dims < 0 || desc->task_dims > CEL_DIMS ||
      desc->buffer_dims < 0 || desc->buffer_dims > CEL_DIMS)
    return "more than three dimensions";
  if (desc->boxes < 0 || desc->boxes > CEL_RULE_BOXES)
    return "more than 64 boxes";
  if (desc->params < 0 || desc->params > CEL_RULE_PARAMS)
    return "more than 32 captured numbers";
  if (desc->code_length < 0 || desc->code_length > CEL_RULE_WORDS)
    return "expressions too long";
  for (int b = 0; b < desc->boxes; ++b) {
    int each = desc->box[b].each;
    if (each < 0 || each > desc->task_dims)
      return "boxes along a dimension that is not there";
    for (int j = 0; j < desc->buffer_dims; ++j)
      for (int upper = 0; upper < 2; ++upper) {
        int start = desc->box[b].start[j][upper],
            n = desc->box[b].length[j][upper];
        if (start < 0 || n < 0 || start > desc->code_length - n)
          return "a program outside the code";
        const char *flaw = program_flaw(desc, each, desc->code + start, n);
        if (flaw) return flaw;
      }
  }
  return NULL;
}

static bool has_item(const int64_t *code, int length) {
  for (int i = 0; i<length; i += pops(code[i])> 0 ? 1 : 2)
    if (code[i] == CEL_RULE_ITEM) return true;
  return false;
}

/* A family that is [i, i + 1) in one dimension of the buffer, and does not
 * depend on i in the others, is the chunk there, and one that does not depend
 * on it at all is one box: rules as most others are. Its programs are the last
 * of `total` words; returns how many there are then. */
static int settle_family(cel_rule_box *box, int dims, int64_t *code,
                         int total) {
  int at = -1;
  for (int j = 0; j < dims && box->each != 0; ++j) {
    int64_t *lo = code + box->start[j][0], *hi = code + box->start[j][1];
    int32_t n_lo = box->length[j][0], n_hi = box->length[j][1];
    if (!has_item(lo, n_lo) && !has_item(hi, n_hi)) continue;
    bool is_chunk = n_lo == 2 && lo[0] == CEL_RULE_ITEM && n_hi == 5 &&
                    hi[0] == CEL_RULE_ITEM && hi[2] == CEL_RULE_CONST &&
                    hi[3] == 1 && hi[4] == CEL_RULE_ADD;
    if (!is_chunk || at >= 0) return total;
    at = j;
  }
  box->each = 0;
  if (at < 0) return total;
  code[box->start[at][0]] = CEL_RULE_MIN;
  code[box->start[at][1]] = CEL_RULE_MAX;
  int end = box->start[at][1] + box->length[at][1], less = 3;
  memmove(code + end - less, code + end, (size_t)(total - end) * sizeof *code);
  box->length[at][1] -= less;
  for (int j = at + 1; j < dims; ++j)
    for (int upper = 0; upper < 2; ++upper) box->start[j][upper] -= less;
  return total - less;
}

/* Rewrites *desc so that equal programs have equal descriptions, however they
 * were laid out: unused fields zero, programs in order and folded, none shared.
 * Code and boxes of the result are new, and one block, which begins with the
 * code. */
static cel_rule_desc canonical(const cel_rule_desc *desc) {
  int room = 0, total = 0;
  for (int b = 0; b < desc->boxes; ++b)
    for (int j = 0; j < desc->buffer_dims; ++j)
      room += desc->box[b].length[j][0] + desc->box[b].length[j][1];
  int64_t *code = cel_alloc((size_t)room * sizeof *code +
                            (size_t)desc->boxes * sizeof *desc->box + 1);
  cel_rule_box *box = (cel_rule_box *)(code + room);
  for (int b = 0; b < desc->boxes; ++b) {
    const cel_rule_box *from = &desc->box[b];
    box[b] = (cel_rule_box){.clamp = from->clamp, .each = from->each};
    for (int j = 0; j < desc->buffer_dims; ++j)
      for (int upper = 0; upper < 2; ++upper) {
        box[b].start[j][upper] = total;
        total += box[b].length[j][upper] =
            cel__program_fold(desc->code + from->start[j][upper],
                              from->length[j][upper], NULL, code + total);
      }
    total = settle_family(&box[b], desc->buffer_dims, code, total);
  }
  return (cel_rule_desc){.task_dims = desc->task_dims,
                         .buffer_dims = desc->buffer_dims,
                         .boxes = desc->boxes,
                         .params = desc->params,
                         .box = box,
                         .code = code,
                         .code_length = total};
}

/* Of a canonical description, in which lengths say where programs begin. */
static uint64_t desc_hash(const cel_rule_desc *desc) {
  int32_t counts[] = {desc->task_dims, desc->buffer_dims, desc->boxes,
                      desc->params};
  uint64_t hash = cel_hash(counts, sizeof counts, 0);
  for (int b = 0; b < desc->boxes; ++b)
    hash = cel_hash(desc->box[b].length, sizeof desc->box[b].length,
                    hash ^ (uint64_t)desc->box[b].clamp ^
                        (uint64_t)desc->box[b].each << 1);
  return cel_hash(desc->code, (size_t)desc->code_length * sizeof *desc->code,
                  hash);
}

static bool desc_equal(const cel_rule_desc *a, const cel_rule_desc *b) {
  if (a->task_dims != b->task_dims || a->buffer_dims != b->buffer_dims ||
      a->boxes != b->boxes || a->params != b->params ||
      a->code_length != b->code_length)
    return false;
  for (int i = 0; i < a->boxes; ++i)
    if (a->box[i].clamp != b->box[i].clamp ||
        a->box[i].each != b->box[i].each ||
        memcmp(a->box[i].length, b->box[i].length, sizeof a->box[i].length) !=
            0)
      return false;
  return memcmp(a->code, b->code, (size_t)a->code_length * sizeof *a->code) ==
         0;
}

static cel_rule **head_of(const cel_rules *rules, uint64_t hash) {
  return &rules->head[(uint32_t)hash & (rules->heads - 1)];
}

static void table_grow(cel_rules *rules) {
  cel_rule **old = rules->head;
  uint32_t n = rules->heads;
  rules->heads *= 2;
  rules->head = cel_alloc_zero(rules->heads * sizeof *rules->head);
  for (uint32_t i = 0; i < n; ++i)
    for (cel_rule *rule = old[i]; rule != NULL;) {
      cel_rule *next = rule->next, **head = head_of(rules, rule->hash);
      rule->next = *head;
      *head = rule;
      rule = next;
    }
  cel_free(old);
}

static bool is_constant(const int64_t *code, int length) {
  for (int i = 0; i < length; ++i) {
    if (code[i] == CEL_RULE_MIN || code[i] == CEL_RULE_MAX) return false;
    if (pops(code[i]) == 0) ++i; /* its operand */
  }
  return true;
}

/* What buffer dimension j of box 0 follows; -2: something else. */
static int follows(const cel_rule_desc *desc, int j) {
  const int64_t *lo = desc->code + desc->box[0].start[j][0];
  const int64_t *hi = desc->code + desc->box[0].start[j][1];
  int32_t n_lo = desc->box[0].length[j][0], n_hi = desc->box[0].length[j][1];
  if (is_constant(lo, n_lo) && is_constant(hi, n_hi)) return -1;
  bool spans = n_lo == 2 && n_hi == 2 && lo[0] == CEL_RULE_MIN &&
               hi[0] == CEL_RULE_MAX && lo[1] == hi[1];
  return spans ? (int)lo[1] : -2;
}

static void look_whether_plain(cel_rule *rule) {
  unsigned used = 0;
  for (int b = 0; b < rule->desc.boxes; ++b)
    rule->families |= rule->desc.box[b].each != 0;
  rule->plain =
      rule->listing == NULL && rule->desc.boxes == 1 && !rule->families;
  for (int j = 0; j < rule->desc.buffer_dims && rule->plain; ++j) {
    int d = follows(&rule->desc, j);
    rule->plain = d == -1 || (d >= 0 && (used >> d & 1) == 0);
    if (d >= 0) used |= 1u << d;
    rule->follows[j] = d;
  }
}

/* A new one, with a reference. Takes what it owns. */
static const cel_rule *add(cel_rules *rules, uint64_t hash,
                           const cel_rule_desc *desc, cel_listing *listing) {
  if (rules->count == rules->heads) table_grow(rules);
  cel_rule *rule = cel_alloc(sizeof *rule), **head = head_of(rules, hash);
  *rule = (cel_rule){.id = ++rules->ids,
                     .hash = hash,
                     .desc = *desc,
                     .listing = listing,
                     .follows = {-1, -1, -1},
                     .store = rules,
                     .next = *head,
                     .references = 1};
  look_whether_plain(rule);
  *head = rule;
  ++rules->count;
  return rule;
}

cel_status cel_rules_intern(cel_rules *rules, const cel_rule_desc *desc,
                            const cel_rule **out) {
  const char *flaw = desc_flaw(desc);
  if (flaw)
    return cel_fail(CEL_E_ARGUMENT, "the range mapper compiled to %s", flaw);
  cel_rule_desc own = canonical(desc);
  uint64_t hash = desc_hash(&own);
  cel_rule *known = *head_of(rules, hash);
  while (known && (known->hash != hash || known->listing != NULL ||
                   !desc_equal(&known->desc, &own)))
    known = known->next;
  if (known) {
    cel_free((void *)own.code);
    ++known->references;
    *out = known;
    return CEL_E_OK;
  }
  *out = add(rules, hash, &own, NULL);
  return CEL_E_OK;
}

void cel_rules_list(cel_rules *rules, int32_t task_dims, int32_t buffer_dims,
                    const cel_listing *listing, const cel_rule **out) {
  cel_rule_desc desc = {.task_dims = task_dims, .buffer_dims = buffer_dims};
  cel_listing *own = cel__listing_copy(listing);
  uint64_t hash =
      cel__listing_hash(own) ^ (uint64_t)(task_dims * 4 + buffer_dims);
  cel_rule *known = *head_of(rules, hash);
  while (known && (known->hash != hash || known->listing == NULL ||
                   known->desc.task_dims != task_dims ||
                   known->desc.buffer_dims != buffer_dims ||
                   !cel__listing_equal(known->listing, own)))
    known = known->next;
  if (known) {
    cel__listing_destroy(own);
    ++known->references;
    *out = known;
    return;
  }
  *out = add(rules, hash, &desc, own);
}

/* The store's own: only what readers see is immutable. */
static cel_rule *owned(const cel_rule *rule) {
  return (cel_rule *)rule;
}

void cel_rule_retain(const cel_rule *rule) {
  ++owned(rule)->references;
}

void cel_rule_release(const cel_rule *rule) {
  cel_assert(rule->references > 0);
  if (--owned(rule)->references > 0) return;
  cel_rule **at = head_of(rule->store, rule->hash);
  while (*at != rule) at = &(*at)->next;
  *at = rule->next;
  --rule->store->count;
  rule_free(owned(rule));
}
