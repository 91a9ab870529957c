/* program.h -- a random program: buffers and steps, as data.
 *
 * A step that computes is cut into *atoms*, the finest chunks that the task
 * permits. An atom reads what the rules say for it, mixes all of that with the
 * atom's own coordinates in an order-independent way, and writes what the rules
 * say for it. Whatever the split, each atom is computed once, and any stale or
 * wrong byte that it read shows in what it wrote.
 *
 * The atoms of an item-wise step are its items, whatever it permits. So it
 * means the same on each part of its range, also where such parts overlap.
 *
 * Elements that nobody wrote are masked: the interpreter notes, per step and
 * access, which elements hold something, and kernels skip the others.
 */
#ifndef SPEC_RANDOM_PROGRAM_H
#define SPEC_RANDOM_PROGRAM_H

#include <stdatomic.h>

#include "base/random.h"
#include "base/vec.h"
#include "comm/image.h"
#include "comm/route.h"
#include "fold/fold.h"
#include "runtime/engine.h"
#include "task/known.h"
#include "task/touched.h"

enum {
  MOST_BUFFERS = 20,
  MOST_STEPS = 68,
  MOST_ACCESSES = 4,
  MOST_OBJECTS = 4,
  MOST_EFFECTS = 3,
  MOST_BOXES = 64,
  MOST_FAMILIES = 3,
  MOST_IMAGE = 256, /* boxes of a chunk, by so many families along a range */
  MOST_CODE = 3072, /* as much as so many boxes may take */
  MOST_PARAMS = 12,
  MOST_TABLE = 65, /* more than a range has items */
  MOST_ELEMENTS = 512,
  MOST_RANKS = 16,
  MOST_DEVICES = 4,
  MOST_GROUPS = 3, /* of collective tasks */
  IMAGES = 3
};

typedef struct rule {
  cel_rule_desc desc; /* points to `box` and `code` */
  cel_rule_box box[MOST_BOXES];
  int64_t code[MOST_CODE];
  int64_t param[MOST_PARAMS];
  /* The engine is told what it gives for chunks, not what it is. Such a rule
   * may look bounds up by the chunk's, counted from the range's. */
  bool opaque;
  int64_t table[MOST_TABLE];
  bool around; /* made so that a chunk may have more than its parts */
  bool wraps;  /* around the buffer's ends */
} rule;

/* How the atoms of a step reduce into all of a buffer, by bytes or, the last,
 * by doubles that are whole numbers. WIDE is a sum whose rows have more bytes
 * in each element than the buffer. The mode is READ_WRITE where what it holds
 * counts, else DISCARD_WRITE. */
typedef enum reduce_op {
  REDUCE_NOT, /* an ordinary access */
  REDUCE_ADD,
  REDUCE_XOR,
  REDUCE_MAX,
  REDUCE_MIN,
  REDUCE_WIDE,
  REDUCE_DOUBLES
} reduce_op;

typedef struct access {
  int buffer;
  cel_mode mode;
  rule *rule;
  uint8_t *mask; /* consumes: which elements hold something; else null */
  reduce_op reduce;
  bool by_data; /* of what data say, see data.c; not hashed as others are */
} access;

typedef struct effect {
  int object;
  cel_order order;
} effect;

/* Where a task of CEL_PLACE_ONCE is done: at a rank; or where most of a box of
 * a buffer lies, which the interpreter works out. It is not told to the engine
 * where that is `unclear`: all ranks have come to have some of it, of which the
 * engine need not know, or something was reduced into it. */
typedef struct home {
  bool given, unclear;
  int rank;
  int buffer; /* or -1 */
  cel_box box;
} home;

/* What a step does that is one of data.c. NAME, GATHER and PUSH are kernels, by
 * atoms as all are; the others are the host tasks behind celer.image and
 * cg:route. */
typedef enum data_work {
  DATA_NOT,
  DATA_NAME,   /* writes an index */
  DATA_GATHER, /* hashes the rows that an index names */
  DATA_PUSH,   /* values with keys, into an arena */
  DATA_FIND,
  DATA_MEET,
  DATA_BRING,
  DATA_COMBINE,
  DATA_APPEND
} data_work;

typedef enum step_kind {
  STEP_GROUP,
  STEP_BAD, /* a group that must be refused with `code` */
  STEP_FENCE,
  STEP_EPOCH,
  STEP_FREE,
  STEP_LOOK, /* a fence of a host object */
  STEP_END   /* of a host object */
} step_kind;

typedef struct step {
  step_kind kind;
  bool dropped; /* by the shrinker */
  bool wait;    /* FENCE, EPOCH: before the next step */
  cel_status code;
  int chain; /* item-wise: which chain it is of, from 1; 0: by chunks */
  data_work data;
  int image; /* NAME, GATHER, FIND, MEET, BRING: which; an entry of it */
  int after; /* MEET: the step that has found; COMBINE, APPEND: that pushes */
  int to;    /* PUSH, COMBINE, APPEND: the buffer */
  int from;  /* APPEND: where bins lie that are kept */
  cel_route_type type; /* likewise */
  bool wide;           /* likewise: keys of 64 bits */
  int by_data;         /* accesses of that */
  int number;          /* place in the program: the line of its errors */
  uint64_t salt; /* GROUP: makes its values its own; LOOK: what is taken */
  cel_task_kind task;
  cel_placement placement;
  home home;
  uint32_t collective; /* its group; 0: none */
  int dims;
  cel_box range;
  cel_split_kind permitted;
  int oversubscribe;
  bool rank_weights, device_weights; /* whether there are some */
  int64_t rank_weight[MOST_RANKS], device_weight[MOST_RANKS][MOST_DEVICES];
  int accesses;
  access access[MOST_ACCESSES];
  int effects;
  effect effect[MOST_EFFECTS]; /* GROUP: on different objects */
  int object;                  /* END, LOOK */
  int buffer;                  /* FENCE, FREE */
  /* FENCE: the same on each rank; or what the one access, of a task that every
   * rank does once, reads on it. */
  cel_box box;
  uint8_t *expect; /* FENCE: the whole buffer's bytes; of one that is apart
                      those of each rank, one after another */
  uint8_t *known;  /* FENCE: which elements hold something */
} step;

static inline bool step_fences(const step *s) {
  return s->kind == STEP_FENCE || s->kind == STEP_LOOK;
}

/* Of a buffer of data.c: only its steps write it, or touch it at all. */
typedef enum role { ROLE_NONE, ROLE_KEPT, ROLE_HIDDEN } role;

typedef struct buffer {
  int dims;
  role role;
  cel_box extent;
  uint32_t element_size;
  bool init;
  uint64_t type, contents; /* which; ranks agree on them */
  bool apart; /* each rank has its own contents; then there are first ones, and
                 host tasks write some of it */
} buffer;

/* Rows of `target` that the entries of `index` name, or, `through` another
 * image, the entries that this one names. `plan` and `copy` are each rank's
 * own. An entry names the rows from `low` to `high` around it; `odd`: some name
 * none. A rank gets all rows of at most `around` boxes; 0: these very rows. */
typedef struct data_image {
  cel_image_kind kind;
  int through; /* or -1 */
  int index, target, plan, copy;
  int64_t low, high, around;
  bool odd;
  int64_t late; /* of the plan's words: from here on they say what a chunk reads
                   (task/late.h) */
} data_image;

/* In what one rank's program differs from that of the others; see differ.c. */
typedef enum difference {
  DIFFERS_NOT_AT_ALL,
  DIFFERS_BY_A_GROUP,
  DIFFERS_IN_VALUE,
  DIFFERS_IN_TEXT,
  DIFFERS_IN_NUMBER,
  DIFFERS_IN_MAPPER,
  DIFFERS_IN_MODE,
  DIFFERS_IN_BUFFER,
  DIFFERS_IN_RANGE,
  DIFFERS_IN_DIMS,
  DIFFERS_IN_KIND,
  DIFFERS_IN_PLACEMENT,
  DIFFERS_IN_HOME,
  DIFFERS_IN_COLLECTIVE,
  DIFFERS_IN_CUT,
  DIFFERS_IN_GRANULARITY,
  DIFFERS_IN_RUNS,
  DIFFERS_IN_RANK_WEIGHTS,
  DIFFERS_IN_DEVICE_WEIGHTS,
  DIFFERS_IN_OPERATOR,
  DIFFERS_IN_ONTO,
  DIFFERS_IN_EFFECT,
  DIFFERS_IN_ORDER,
  DIFFERS_IN_BOX,
  DIFFERS_IN_PART,
  DIFFERS_IN_CAPTURED,
  DIFFERS_IN_LOOKED,
  DIFFERS_IN_TAKEN,
  DIFFERS_IN_TYPE,
  DIFFERS_IN_LAYOUT,
  DIFFERS_IN_SIZE,
  DIFFERS_IN_EXTENT,
  DIFFERS_IN_CONTENTS,
  DIFFERS_IN_MAKER,
  DIFFERS_IN_SCOPE
} difference;

typedef struct oddity {
  difference what;
  int rank, step; /* whose, and where it first shows */
  step *instead;  /* of that step; owned; or null: all are the same, and */
  int buffer;     /* this buffer is what was `made`, or -1, */
  buffer made;
  int object; /* or this object is another, or -1 */
} oddity;

/* What folded.c does wrong, NEAR: the processor, to see that it shows. */
typedef enum harm {
  HARM_NOT,
  HARM_THIN,    /* it computes one item too few around a chunk */
  HARM_FLAT,    /* around what a chunk needs it computes nothing more */
  HARM_DEAD,    /* what only steps before the last write is not kept */
  HARM_DISCARD, /* what `write` keeps is not there around a chunk */
  HARM_REST,    /* a step that is left alone is left out */
  HARM_NEAR,    /* devices are told that steps read nothing around items */
  HARM_RIM,     /* what lies beyond a range stays where the rest was */
  HARM_STAY,    /* devices that leave a fold elsewhere leave it where it was */
  HARM_UNREAD,  /* devices are told that nobody reads what a fold leaves */
  HARM_KEPT,    /* what an index named is kept when it changes */
  HARM_STALE,   /* what was brought is kept when it changes */
  HARM_HASTE,   /* what ranks bring each other is not waited for */
  HARM_LATE     /* what is late comes to a row less */
} harm;

/* A rank that dies or falls silent (`fault`), on the cluster's clock; lost_ns
 * is 0: none does. */
typedef struct loss {
  int64_t lost_ns, begin_ns, ns; /* ns 0: for ever */
  int rank;
} loss;

typedef struct program {
  uint64_t seed;
  int ranks, devices;
  bool own_memory, lookahead;
  bool cuda;          /* on GPUs, where there are threads */
  int hosts;          /* whose ranks exchange direct messages; 0: none; in one
                         process */
  bool exchanges;     /* what all exchange goes by collectives */
  bool alike;         /* devices of all ranks are of one kind */
  int fold;           /* steps of a chain that may be one; 0: as many as
                         fold/depth.h says */
  bool by_messages;   /* or is one step, but of messages */
  int64_t count_most; /* of which wider ones are carried out otherwise; or 0 */
  int64_t tree_least; /* see command.h; or 0 */
  uint64_t direct_bytes;
  uint64_t far_bytes;   /* of those with ranks of other hosts; 0: none */
  uint64_t chain_bytes; /* in one process; where it chains */
  cel_collective_limits collective; /* likewise */
  uint64_t grain;                   /* of devices' memories; simulated */
  uint64_t whole, block;            /* see backend.h; simulated */
  int room;    /* of each device's own memory, in percent of what is enough for
                  every step; below 100 a run may end for want of it; 0: no limit
                */
  bool chains; /* jobs begin after jobs of other lanes; simulated */
  uint32_t squeeze; /* the ranks with tiny caches in the command graph, as
                       bits; without threads */
  uint32_t cap;     /* on replications; 0: none that shows */
  int collectives;  /* how often a task is of every rank, in percent */
  int horizon_step, horizon_breadth, laps_ahead;
  uint64_t small_bytes, large_bytes;
  int64_t interior_bytes;
  uint64_t sweep_bytes;
  bool spares; /* devices take folds as one, and may leave them elsewhere */
  uint32_t together_peers;
  uint64_t freed_bytes; /* see instr.h */
  cel_fault fault;      /* to see the checks fail */
  uint64_t fault_at;
  harm harm;
  loss loss;
  oddity odd;
  int failing_step; /* whose kernels fail; -1: none */
  int buffers;
  buffer buffer[MOST_BUFFERS];
  int fields; /* the last of the buffers, which chains are made of */
  /* Of data.c, where there are any: the first image is that of a list's
   * elements by its offsets, the second one goes through these. The list moves
   * to another buffer, of another length, and back, as lists do that grow. */
  bool has_data;
  int index, offsets, values, spare, arena;
  data_image image[IMAGES];
  int objects;
  cel_scope scope[MOST_OBJECTS];
  uint32_t releases; /* the objects whose end is told, as bits */
  int steps;
  step *step[MOST_STEPS];
} program;

/* room.c: how much memory of its own a device gets, where it has some and is
 * given it by so many bytes. */
uint64_t program_capacity(const program *p, uint64_t block);
/* Whether a rank's engine has failed for want of memory, and may. */
struct rank;
bool program_lacks_room(const program *p, const struct rank *ranks);

/* generate.c: the caller owns the result and gives it to program_destroy. */
program *program_generate(uint64_t seed, int ranks);
/* One more, which has its number. */
step *step_add(program *p);
/* chains.c: adds the fields of a program that is to have chains; and to one
 * that has fields maybe a chain, which may free others of its buffers. */
void fields_generate(program *p);
bool seed_has_fields(uint64_t seed);
void chain_generate(program *p, bool *freed);
bool same_weights(const step *a, const step *b);
bool same_split(const step *a, const step *b);
/* generate.c: how a step is cut. */
void split_generate(cel_random *r, step *s);
/* data.c: whether a seed's program has images, routes and lists, where it has a
 * buffer to read so; adds their buffers; and maybe some steps. */
bool seed_has_data(uint64_t seed);
void data_buffers_generate(program *p);
void data_generate(program *p, const bool *freed);
/* The buffer that is read in the place of this one, of which it is a copy. */
int data_source(const program *p, int buffer);
/* What has become of images and of an arena, step by step. */
typedef struct data_state {
  uint32_t version[MOST_BUFFERS];
  int pushed;   /* by step */
  int64_t held; /* that a list has at most */
  int in;       /* the buffer where its elements are */
  struct image_state {
    const step *find; /* the last one */
    uint32_t of, had; /* versions: of the index then, of what was brought */
    int inner, with;  /* the image's before it, and this one's, met then */
    int met;          /* how often */
    bool current, brought;
  } image[IMAGES];
} data_state;
/* Whether a step has what it needs of those before it; notes a step. */
bool data_stands(const program *p, const step *s, const data_state *state);
void data_note(const program *p, const step *s, data_state *state);
/* Whether all of what an index names, or bins hold, is written. */
bool data_defined(const program *p, const step *s, uint8_t *const *known);
struct place;
/* An atom of a kernel: `sum` is what it has read as others do. */
bool data_atom(const program *p, const step *s, const cel_box *atom,
               const struct place *places, uint64_t sum);
/* A host task, in the interpreter's memory; and as the engine does it. */
void data_run(const program *p, const step *s, char *const *bytes);
cel_status data_call(const program *p, const step *s, const cel_call *call);
/* The kernels of a group fail, if there is one. */
void program_fail(program *p);
/* lost.c: a rank is lost, or only silent for a while; where there are several.
 */
void program_lose(program *p);
/* Whether all its ranks have ended; whether those that were to end have, and
 * one of each part has said so. */
struct rank;
bool program_is_lost(const program *p, const struct rank *ranks);
bool program_verify_loss(const program *p, const struct rank *ranks, char *text,
                         size_t size);
void losses_print(void);
/* A group that does something; -1: there is none. */
int some_group(cel_random *r, const program *p);
void program_destroy(program *p);
void step_destroy(step *s);
void program_print(const program *p);

/* differ.c: one rank's program differs from the others' in one thing, if there
 * are others. */
void program_diverge(program *p);
void difference_print(const program *p);
/* In what, and how often. */
void differences_print(void);
/* Step `at`, a buffer and an object as they are on a rank; null: it has no such
 * step. */
const step *step_on(const program *p, int rank, int at);
const buffer *buffer_on(const program *p, int rank, int b);
/* What some buffers are to have room for: all, or less. False: others. */
bool buffer_room(const buffer *what, cel_box *out);
uint64_t maker_on(const program *p, int rank, int o);
cel_scope scope_on(const program *p, int rank, int o);

/* rules.c */
/* The boxes for one chunk, clipped, empty ones dropped; how many. `left`
 * (may be null) becomes true when one that is not clamped leaves the buffer. */
int rule_image(const rule *r, const cel_box *range, const cel_box *extent,
               const cel_box *chunk, cel_box out[MOST_IMAGE], bool *left);
/* Whether it has a box for each index of a chunk. */
bool rule_has_families(const rule *r);
/* An opaque rule for a group without accesses: what it gives for the chunks
 * that there will be. The caller owns the reference. */
const cel_rule *rule_list(const rule *r, const cel_group *group, bool reduces,
                          const cel_box *extent, cel_engine *engine);
/* All of the buffer, for any chunk. */
rule *rule_whole(cel_random *r, const step *s, const buffer *b);
/* Rows: those of the chunk, counted from `from`, and `more` behind them; or
 * the share that rank `chunk` has of so many, and of the last one one more. */
rule *rule_rows(cel_random *r, const step *s, const buffer *b, int64_t from,
                int64_t more);
rule *rule_share(cel_random *r, const step *s, const buffer *b, int ranks,
                 bool end);
/* Of the first two dimensions what a tile of the step has, but for the `whole`
 * one: what the step's range has of that. Of the others all. */
rule *rule_tile(cel_random *r, const step *s, const buffer *b, int whole);
/* The chunk, and what lies so far below and above it; less than 0: it begins or
 * ends within. */
typedef struct stencil {
  int64_t low[CEL_DIMS], high[CEL_DIMS];
  bool axes;     /* but nothing that is off along two dimensions */
  bool clamped;  /* to the buffer */
  bool in_range; /* within the step's range, which lies in the buffer */
  bool held;     /* no item reads beyond the range's last or first alone */
  bool wraps[CEL_DIMS]; /* around the buffer's ends, as if these met */
  bool cut;             /* there from the other end on, as by i % n */
} stencil;
rule *rule_stencil(cel_random *r, const step *s, const buffer *b,
                   const stencil *what);
/* Picks a rule for a mode; one that step_valid may still refuse. Some that only
 * read have more for a chunk than for its parts, or many boxes. */
rule *rule_generate(cel_random *r, const step *s, const buffer *b, bool write);
/* One of a kind that must be refused, and with what; null when there is none
 * for this step and buffer. */
rule *rule_generate_bad(cel_random *r, const step *s, const buffer *b,
                        cel_mode *mode, cel_status *code);

/* atoms.c */
/* The finest chunks of a step, or its items; `n` of them, in order. */
int atom_count(const step *s);
cel_box atom_at(const step *s, int i);
/* Whether any permitted split gives the same result. */
bool step_valid(const program *p, const step *s);
/* Whether some chunk has more by this access than its parts have. */
bool has_gaps(const program *p, const step *s, const access *a);
/* Whether tiles can be made of two buffers; a step that writes the first by
 * tiles and one that reads rows or columns of these and writes the second. */
bool tiles_suit(const program *p, int first, int second);
void tiles_generate(cel_random *r, const program *p, int first, int second,
                    step *writes, step *reads);
/* The same, where all but the last access are known to be valid. */
bool step_valid_last(const program *p, const step *s);
/* Calls for each point of the union of boxes, each once. */
void each_point(const cel_box *box, int n,
                void (*visit)(void *, const int64_t *), void *context);
int64_t index_of(const cel_box *layout, const int64_t *point);

/* Where an access of a running atom finds its elements. */
typedef struct place {
  char *base;
  cel_box layout;
  cel_box promised;     /* points outside it must not be touched */
  cel_touched *touched; /* where it is audited */
  bool row;             /* of partial results: it is reduced into */
} place;
/* An element, null where it is not promised; `marks`: in audits it is touched.
 */
char *place_element(const place *at, const int64_t *point, uint32_t size,
                    bool marks);
/* What a fence brings to rank k; the zero box where that is nothing. */
cel_box fence_box(const program *p, const step *s, int k);
/* Whether access `number` writes this point of its image. */
bool atom_writes(const step *s, int number, const int64_t *point);
/* Computes one atom; `others` goes into all that it writes. False when a rule's
 * image is not all promised. */
bool atom_run(const program *p, const step *s, const cel_box *atom,
              const place *places, uint64_t others);
/* What the atom of one rank, of a collective task, tells the other ranks: of
 * all that it reads. */
uint64_t atom_tells(const program *p, const step *s, const cel_box *atom,
                    const place *places);

/* reduce.c */
/* Adds a reduction to a step that has room for one, where there is a buffer for
 * it. */
void reduce_generate(cel_random *r, const program *p, step *s, int buffer);
/* Whether an access reduces. */
bool reduces(const access *a);
void reduce_begin(reduce_op op, char *to, uint64_t elements, uint32_t size);
void reduce_into(reduce_op op, char *to, const char *from, uint64_t elements,
                 uint32_t size);
/* What an atom that has the number `value` adds to each element: of an engine's
 * row, or of what the buffer holds. */
void reduce_atom(reduce_op op, char *to, bool row, uint64_t elements,
                 uint32_t size, uint64_t value);
/* Bytes of an element of a row. */
uint32_t reduce_row_size(reduce_op op, uint32_t size);
/* How an engine is to do that; lives as long as the program runs. */
const cel_reducer *reduce_reducer(reduce_op op, uint32_t size);

/* interpret.c: fills masks, expectations and codes, one step after another.
 * False when a step can no longer stand (after dropping others). */
bool program_interpret(program *p);
/* What one task comes to, in all of the buffers. */
void step_run(const program *p, const step *s, char *const *bytes);
/* Where rank k has its own of a buffer that is apart; else all of it. */
char *bytes_of_rank(const program *p, int buffer, char *bytes, int k);
/* Whether this access, or any of the step, is of a buffer that is apart. */
bool is_apart(const program *p, const access *a);
bool touches_apart(const program *p, const step *s);
/* All of a buffer's first contents, of one that is apart of each rank; owned.
 */
char *initial_contents(const program *p, int buffer);
/* An element's first contents. */
void initial_bytes(int buffer, const int64_t *point, void *out, uint32_t size);

/* Rank k's chunk of a step; false when it has none. */
bool step_chunk(const program *p, const step *s, int k, cel_box *chunk);
/* Whether each rank computes all of it. */
bool step_for_all(const program *p, const step *s);
/* Whether it has a home that the engine is told. */
bool step_placed(const step *s);
/* Whether a device's thread waits for it, should it be a kernel. */
static inline bool step_alike(const step *s) {
  return s->salt % 5 != 0;
}

static inline bool step_waits(const step *s) {
  return (s->salt & 12) == 0;
}

/* record.c: what one rank's graphs emitted. The records are copies. */
typedef struct node {
  uint64_t id;
  int kind;
  int step;      /* tasks: which step submitted it */
  uint64_t lap;  /* tasks */
  uint64_t task; /* its id; later its shared number */
  uint64_t last; /* commands: not 0: of the last task of a fold, likewise; the
                    pieces are what it reads */
  /* Tasks that combine what was reduced: the buffer, plus 1, whether onto
   * what it held, and whether every rank does. */
  int combined;
  bool onto, alike;
  uint32_t deps;
  cel_dep *dep;
  /* Messages of commands and instructions; of a collective, the root, the
   * number, the devices that it is between as `bytes`, the pattern as `nth`,
   * and as pieces the whole, what this rank gives, and what it gets: of several
   * boxes that of all, but the whole of the first. */
  int64_t peer;
  uint64_t sequence, bytes;
  bool direct;     /* instructions */
  uint64_t nth;    /* instructions */
  uint32_t object; /* commands: a token's object, plus 1 */
  /* Of all messages of a command, too. */
  uint32_t pieces;
  cel_piece *piece; /* commands; `buffer` is not to be followed */
  int *buffer;      /* commands: which of the program's each piece is of; -1:
                       none of them */
} node;

typedef struct nodes {
  node *at;
  uint32_t n, cap;
} nodes;

/* How many collectives there were, and of each pattern; in pairs, in groups, of
 * several boxes, with parts of nothing between others. */
typedef struct tally {
  uint64_t collectives, of[CEL_PATTERN_ALL_REDUCE + 1];
  uint64_t pairs, groups, joined, holes;
  uint64_t
      passed; /* messages that are sent after others have come for a task */
  uint64_t together;                  /* RECEIVEs of several messages */
  uint64_t folds[CEL_FOLD_STEPS + 1]; /* executed, by their steps */
} tally;

typedef struct record {
  nodes tasks, commands, instrs;
  /* Those of both: the kind and number of what they are of. */
  nodes command_messages, instr_messages;
  int step;
  tally tally;
  uint64_t awaited; /* the task of the last await-push */
} record;
record *record_create(void);
void record_destroy(record *r);
/* Of all records that have been destroyed. Thread: as record_destroy's. */
tally records_tally(void);
void record_hook(record *r, cel_engine_config *config);
/* The step that is being submitted. Thread: main of that rank. */
void record_step(record *r, int step);

/* Once, when the run is over: tasks get the numbers that they have without the
 * frees, which come on each rank at another time. */
void record_share_numbers(record *r);

/* invariants.c: false and a text when what the graphs emitted is wrong. */
bool records_check(const program *p, record **records, char *text, size_t size);

/* cluster.c, threads.c: runs the program; false and a text on a mismatch. */
bool program_run(const program *p, char *text, size_t size);
bool program_run_threads(const program *p, char *text, size_t size);

/* folded.c: without an engine, but with steps of chains taken together. */
bool program_run_folded(const program *p, char *text, size_t size);
void folds_print(void);

/* imagined.c: the same for dry runs of all ranks, whose graphs are checked. */
bool program_run_dry(const program *p, char *text, size_t size);

/* processes.c: runs programs as one rank of an MPI job, which a mismatch ends.
 * Whether this is rank 0. */
bool programs_run_mpi(uint64_t seed, uint64_t count);

/* What tasks have done to a host object. */
typedef struct object_state {
  uint64_t fold;                /* by sequential effects */
  uint64_t alone;               /* by exclusive ones */
  _Atomic(uint64_t) sum;        /* by relaxed ones */
  _Atomic(uint64_t) collective; /* by those of all ranks as one */
  _Atomic(int) strict, relaxed; /* who is inside */
  _Atomic(uint64_t) together;   /* how many of a step, and that many times its
                                   number in the upper half */
  _Atomic(int) released;
  _Atomic(bool) wrong;
  _Atomic(bool) out_of_turn; /* a task of all ranks */
} object_state;

/* rank.c: one rank's side of a run, common to both. */
typedef struct rank {
  const program *program;
  int index;
  cel_transport *transport;
  cel_backend *backend;
  struct cel_cuda *cuda; /* what the backend drives, if it does */
  cel_host_lanes *host;
  cel_park park;
  cel_engine *engine;
  void (*saw_fence)(void *context, const cel_fence *fence); /* may be null */
  record *record;   /* null: nobody looks */
  cel_audit *audit; /* null: it is not audited */
  cel_known known;  /* of all groups, most of which are unlike */
  const cel_buffer *buffer[MOST_BUFFERS];
  const cel_object *object[MOST_OBJECTS];
  object_state own[MOST_OBJECTS];
  object_state *shared; /* by object, of all ranks; null between processes */
  bool ended[MOST_OBJECTS], late_object[MOST_OBJECTS];
  cel_fence *fence[MOST_STEPS];
  cel_fence *plan[IMAGES]; /* what the last one of each image has said */
  bool late[MOST_BUFFERS]; /* mentioned for the last time, not freed yet */
  int pc;
  int waiting; /* 0: no; 1: for fence[pc]; 2: for `epoch` */
  bool asked;
  uint64_t epoch;
  bool finished;
} rank;
/* objects.c: a running task's effects, around what else it does, which may have
 * to be done again. False when it is not given what it was promised. */
bool objects_enter(const program *p, const step *s, const cel_call *call);
void objects_leave(const program *p, const step *s, const cel_call *call,
                   bool done);
/* The engine's, made when it is first mentioned; and its end. */
const cel_object *object_of(rank *r, int o);
void object_end(rank *r, int o);
/* Submits a fence of what the object has come to; `salt`: see step. */
cel_status object_look(rank *r, int o, uint64_t salt, cel_location place,
                       cel_fence **out);
/* Whether fence `i` brought what the steps before it do. */
bool object_seen(const rank *r, int i, char *text, size_t size);
/* Whether all objects have become what they must. */
bool objects_verify(const rank *r, char *text, size_t size);

/* audited.c: marks a point, and whether the audit of a rank found no fault. */
void touched_mark(cel_touched *touched, const cel_box *promised,
                  const int64_t *point);
bool audit_clean(const rank *r, char *text, size_t size);

void rank_open_gpus(rank *r);
/* Creates the backend of a rank with threads; opens its GPUs, if there are to
 * be some that are not open. */
void rank_backend(rank *r);
/* Creates the engine over what is there already. */
/* Devices that are simulated, which carry out all that is put on streams. */
void rank_simulated(rank *r);
/* Counts the folds that its devices are given, and harms them as the program
 * says. Of all ranks alike; not where they are in threads, but to harm. */
void rank_watch(rank *r);
void rank_print_folds(void);
/* fake_gpus.c: what they exchange goes by a fake of NCCL. All ranks. */
void rank_fake_gpus(rank *r);
void rank_start(rank *r, bool threads);
/* Submits step pc, nothing else. False and a text when it went wrong. */
bool rank_submit(rank *r, char *text, size_t size);
/* Compares a fence that is ready with what it must hold; all fences. */
bool rank_verify_fence(const rank *r, int i, char *text, size_t size);
bool rank_verify(const rank *r, char *text, size_t size);
/* After cel_engine_stop. */
void rank_release(rank *r);

/* Whether trouble was planted, and whether this rank has heard of it as it
 * should: the texts name the step. */
bool program_troubled(const program *p);
bool rank_troubled(const rank *r, char *text, size_t size);

/* census.c: what programs have, by name; and says how often it was there. */
void census_take(const program *p);
void census_print(void);

/* shrink.c: the smallest program that still fails; replaces *p. */
void program_shrink(program *p, bool (*run)(const program *, char *, size_t));

#endif
