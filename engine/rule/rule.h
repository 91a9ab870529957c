/* rule.h -- compiled range mappers: from a chunk to boxes of a buffer.
 *
 * A rule has one or more boxes; each box has, per buffer dimension, a lower and
 * an upper bound, an expression over the chunk, the index space, the buffer and
 * numeric parameters (the numbers that a Lua mapper captured). Expressions are
 * small postfix programs. Rules are interned by content: equal programs are one
 * rule with one id, and `hash` is equal on all ranks.
 *
 * A *use* of a rule is the rule with its parameters, the extent of the index
 * space and of the buffer filled in. Each bound is brought to linear form, if
 * it has one; where it becomes a*chunk.{min|max}[d] + c the box is *affine*,
 * which is what symbolic ownership works on. Boxes that are not affine are
 * evaluated chunk by chunk.
 *
 * A mapper that has no such form is *opaque*: its rule lists what the mapper
 * gave for the chunks of the actual split, and is evaluated for these alone.
 *
 * A box may stand for a *family*: one box for each index of the chunk in one
 * dimension, of which its programs know the index (ITEM) and nothing else of
 * the chunk in that dimension. What a chunk maps to is the union. So a family
 * is a union homomorphism along that dimension by its form (family.h).
 *
 * Leaving the buffer: a box marked `clamp` (a neighbourhood) is clamped to the
 * buffer; any other box that leaves it is the user's error.
 *
 * Integers stay within 2^53; overflow is CEL_E_RANGE. Division is floor.
 * Pure. A rule is immutable once made, and lives until its last reference is
 * given up: whoever interned it holds one, and the task graph one per access
 * until the task is retired. The store and the references are confined to one
 * thread (main); reading a rule is safe from any while a task has it.
 */
#ifndef CEL_RULE_RULE_H
#define CEL_RULE_RULE_H

#include "base/status.h"
#include "region/region.h"
#include "region/split.h"

/* NAME, operands popped, text. Codes of the postfix programs: each is one
 * int64_t, CONST and the variables are followed by one operand. */
#define CEL_RULE_OPS(_)                                                        \
  _(CONST, 0, "constant: next word")                                           \
  _(PARAM, 0, "parameter: next word")                                          \
  _(MIN, 0, "chunk.min[next word]")                                            \
  _(MAX, 0, "chunk.max[next word]")                                            \
  _(GLOBAL_MIN, 0, "start of the index space in dimension [next word]")        \
  _(GLOBAL_MAX, 0, "end of the index space in dimension [next word]")          \
  _(BUFFER, 0, "extent of the buffer in dimension [next word]")                \
  _(ITEM, 0, "index of a family, which runs along dimension [next word]")      \
  _(ADD, 2, "a + b")                                                           \
  _(SUB, 2, "a - b")                                                           \
  _(MUL, 2, "a * b")                                                           \
  _(FLOORDIV, 2, "floor(a / b), b a positive constant")                        \
  _(LOW, 2, "min(a, b)")                                                       \
  _(HIGH, 2, "max(a, b)")

typedef enum cel_rule_op {
#define CEL_RULE_ENUM(name, pops, text) CEL_RULE_##name,
  CEL_RULE_OPS(CEL_RULE_ENUM)
#undef CEL_RULE_ENUM
      CEL_RULE_OPS_N
} cel_rule_op;

enum { CEL_RULE_BOXES = 64, CEL_RULE_PARAMS = 32 }; /* at most */
/* Boxes that the families of a rule come to for one chunk, at most: layers
 * below keep a record for each, and take about a microsecond. */
enum { CEL_RULE_REGION = 1 << 16 };

/* One box: in buffer dimension j the program of the lower bound is
 * code[start[j][0] .. start[j][0] + length[j][0]), of the upper bound ...[1].
 */
typedef struct cel_rule_box {
  int32_t start[3][2], length[3][2];
  bool clamp;
  int32_t each; /* 0: one box; d + 1: a family along dimension d of the chunk */
} cel_rule_box;

/* What the tracer hands over. */
typedef struct cel_rule_desc {
  int32_t task_dims, buffer_dims;
  int32_t boxes;  /* 0: touches nothing */
  int32_t params; /* parameters used: PARAM operands are below this */
  const cel_rule_box *box;
  const int64_t *code;
  int32_t code_length;
} cel_rule_desc;

/* What an opaque mapper, which has no program, gave for the chunks that it was
 * asked about: see listing.h. */
typedef struct cel_listing cel_listing;

typedef struct cel_rule {
  uint64_t id; /* >= 1, ascending, never given again */
  uint64_t hash;
  cel_rule_desc desc;   /* owned; no boxes where there is a listing */
  cel_listing *listing; /* owned; null: it has programs */
  /* One box, of which each buffer dimension j follows the chunk in dimension
   * follows[j], one of its own, or (-1) is the same for all chunks: such a rule
   * is a union homomorphism, and chunks that are disjoint in a dimension that
   * it follows have disjoint images. Most mappers are so. */
  bool plain;
  bool families; /* some box is one */
  int32_t follows[3];
  struct cel_rules *store;
  struct cel_rule *next; /* in its chain */
  uint64_t references;
} cel_rule;

typedef struct cel_rules cel_rules;

cel_rules *cel_rules_create(void);
/* Frees the store and every rule that is left. */
void cel_rules_destroy(cel_rules *rules);
/* Validates and interns; *out is owned by the store and comes with a reference.
 * Fails with CEL_E_ARGUMENT for a malformed program. Thread: main. */
cel_status cel_rules_intern(cel_rules *rules, const cel_rule_desc *desc,
                            const cel_rule **out);
/* The same for an opaque mapper, listed for a task and a buffer of so many
 * dimensions; copied. Thread: main. */
void cel_rules_list(cel_rules *rules, int32_t task_dims, int32_t buffer_dims,
                    const cel_listing *listing, const cel_rule **out);
/* One reference more, or less: the last one frees. Thread: main. */
void cel_rule_retain(const cel_rule *rule);
void cel_rule_release(const cel_rule *rule);
/* Rules that live. */
uint32_t cel_rules_count(const cel_rules *rules);

/* A rule with everything but the chunk known. */
typedef struct cel_rule_use {
  const cel_rule *rule;
  const int64_t *params; /* rule->desc.params of them; borrowed */
  cel_box range;         /* the whole index space */
  cel_box extent;        /* the whole buffer */
} cel_rule_use;

/* Boxes for one chunk, clipped to the buffer, empty ones dropped, *out becomes
 * their canonical union. CEL_E_RANGE when a box not marked clamp leaves the
 * buffer (the error text shows chunk and box), when arithmetic overflows, when
 * families come to more than CEL_RULE_REGION boxes, or when an opaque mapper
 * was not asked about the chunk. */
cel_status cel_rule_eval(const cel_rule_use *use, const cel_box *chunk,
                         cel_region *out);
/* Box b of a rule with programs alone, clipped; the zero box when empty. Of a
 * family the box around what it comes to for the chunk. */
cel_status cel_rule_eval_box(const cel_rule_use *use, int b,
                             const cel_box *chunk, cel_box *out);

/* One bound as a linear function of the chunk: a * chunk.{min|max}[dim] + c;
 * a == 0 is the constant c. */
typedef struct cel_affine {
  int64_t a, c;
  int32_t dim;
  bool of_max; /* of chunk.max rather than chunk.min */
} cel_affine;

/* A box in affine form: in buffer dimension j it is [lo[j], hi[j]) within
 * `clip`, which lies within the buffer. */
typedef struct cel_affine_box {
  cel_affine lo[3], hi[3];
  cel_box clip;
} cel_affine_box;

/* Brings box b of a rule with programs to affine form. False when it cannot be
 * (the box must then be evaluated per chunk). A bound like max(e, constant)
 * becomes e with a tighter clip. A family whose boxes touch each other is one
 * box. */
bool cel_rule_to_affine(const cel_rule_use *use, int b, cel_affine_box *out);

/* ---- what can be proved, under the splits that the task permits ---------- */

typedef enum cel_proof { CEL_PROVED, CEL_REFUTED, CEL_UNKNOWN } cel_proof;

/* Which splits are permitted. */
typedef struct cel_split_kind {
  bool cut[3];            /* dimensions that may be cut */
  int64_t granularity[3]; /* cuts lie at multiples of it, from range.min */
} cel_split_kind;

/* A pair of chunks and a point that refute a property. Of an opaque mapper the
 * pair that refutes a union is one of several parts and the chunk that they
 * make up. */
typedef struct cel_counter_example {
  cel_box a, b;
  int64_t point[3];
} cel_counter_example;

/* Non-overlap (Knorr et al., Collective Communication Patterns, equation 3):
 * the images of disjoint chunks of any permitted split are disjoint. Of an
 * opaque mapper nothing is known here. */
cel_proof cel_rule_prove_disjoint(const cel_rule_use *use,
                                  const cel_split_kind *kind,
                                  cel_counter_example *why);
/* Whether that is seen at once, as the rule is plain and follows all cuts. */
bool cel_rule_plainly_disjoint(const cel_rule_use *use,
                               const cel_split_kind *kind);
/* Non-overlap of two uses taken together, over one index space and one buffer:
 * what a chunk maps to under either is disjoint from what a disjoint chunk maps
 * to under either. CEL_UNKNOWN also where the two do not fit into one rule. */
cel_proof cel_rule_prove_pair_disjoint(const cel_rule_use *a,
                                       const cel_rule_use *b,
                                       const cel_split_kind *kind,
                                       cel_counter_example *why);
/* Whether chunks keep out of each other's way in what they read and write of
 * one buffer: what a chunk maps to under `reads` is disjoint from what a
 * disjoint chunk maps to under `writes`. *why: the first reads what the second
 * writes. */
cel_proof cel_rule_prove_uncrossed(const cel_rule_use *reads,
                                   const cel_rule_use *writes,
                                   const cel_split_kind *kind,
                                   cel_counter_example *why);
/* Union homomorphism (Knorr et al., Collective Communication Patterns, equation
 * 2): r(a u b) = r(a) u r(b). */
cel_proof cel_rule_prove_union(const cel_rule_use *use,
                               const cel_split_kind *kind,
                               cel_counter_example *why);
/* What is enough for reading: r(a u b) holds r(a) u r(b), and no more than the
 * box around that. What lies between is moved and not used. Only looks for
 * counter-examples: ask it where the union is refuted. */
cel_proof cel_rule_prove_hull(const cel_rule_use *use,
                              const cel_split_kind *kind,
                              cel_counter_example *why);

/* Whether a chunk certainly maps to all that its parts map to: then the range
 * maps to all that any chunk does. */
bool cel_rule_grows(const cel_rule_use *use, const cel_split_kind *kind);

typedef enum cel_rule_class {
  CEL_RULE_IS_CONSTANT,
  CEL_RULE_IS_IDENTITY,
  CEL_RULE_IS_PERMUTATION,
  CEL_RULE_IS_AFFINE,
  CEL_RULE_IS_GENERAL
} cel_rule_class;
cel_rule_class cel_rule_classify(const cel_rule_use *use);

/* Writes the rule as text, "[chunk.min0 - 1, chunk.max0 + 1) x ...", into
 * `text`; returns the length that it takes (as snprintf). */
int cel_rule_print(const cel_rule *rule, const int64_t *params, char *text,
                   int size);

#endif
