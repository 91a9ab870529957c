/* core_replay.h -- plans of command groups, as core_replay.c has them.
 *
 * A group comes to C with its arguments on the stack, and is described by a
 * cel__given. A plan is a userdata of Lua; only the group that a plan was made
 * of or one like it is submitted by it. Thread: main.
 */
#ifndef CEL_EMBED_CORE_CORE_REPLAY_H
#define CEL_EMBED_CORE_CORE_REPLAY_H

#include "embed/core/core_kernel.h"
#include "embed/core/core_submit.h"
#include "task/known.h"

/* At most; a group that has more has no plan. */
enum {
  CEL__PLAN_VARIABLES = 64, /* that mappers captured, and globals */
  CEL__PLAN_PARAMS = 64,    /* numbers of all mappers */
  CEL__PLAN_KNOWN = 8,      /* ranges with numbers for which a rule holds */
  CEL__PLAN_BOUNDS = 2 * CEL_DIMS,
  CEL__PLAN_WORDS = CEL__PLAN_ACCESSES * CEL__PLAN_BOUNDS +
                    CEL__PLAN_PARAMS, /* of one such set for all accesses */
  CEL__PLAN_VALUES = 1024,
  CEL__PLAN_NONE = UINT8_MAX
};

/* A variable that a mapper saw: its own, or of a function that it calls. Slots
 * are of the plan's table; positions are as in known.lua: 0 is the mapper, k
 * its variable k. */
typedef struct cel__plan_variable {
  const void *code; /* of a function that is known by it; null: by its value */
  uint16_t value;   /* slot of what it was */
  uint16_t name;    /* slot of a global's or a field's; 0: it is captured */
  uint16_t library; /* slot of the table whose field it is; 0: it is a global */
  uint8_t owner;    /* position of the function that has it */
  uint8_t same;  /* position of what it must be equal to; or CEL__PLAN_NONE */
  uint8_t index; /* of what is captured */
  uint8_t param; /* which number of the rule it is, from 1; 0: none */
} cel__plan_variable;

/* An access and its mapper. Pointers are to what the plan's table keeps. */
typedef struct cel__planned_access {
  const char *mode; /* how it is spelt: a string of Lua's, */
  int32_t as;       /* and as core_submit.h has it */
  uint64_t type;    /* of the buffer's elements */
  int32_t dims;     /* of the buffer; extents do not tell {n} from {n, 1} */
  cel_box extent;
  const void *code; /* the mapper's; the mapper where it is always the same */
  bool exact;
  const void *edge; /* what near<T, D> is told of edges; null: it is none */
  uint8_t first, variables; /* in plan.variables */
  uint8_t param;            /* the first in given.param */
  uint16_t check; /* slot of what tells whether the rule holds for other numbers
                     or another range; 0: it does */
  uint16_t word;  /* its first in a set of plan.seen */
  uint16_t words; /* the bounds of the range, then its numbers */
  uint16_t known, latest; /* sets, and the one that was met last */
  const cel_rule *rule;
  cel_late *late; /* null; or what it is late by */
  int64_t late_at;
} cel__planned_access;

typedef struct cel__group_plan {
  int32_t dims;
  cel_module *module;
  int32_t kernel;
  uint32_t arguments, accesses, params;
  uint32_t is_access; /* bits, by argument */
  uint16_t slots;     /* of its table that are taken */
  uint16_t words;
  cel__planned_access access[CEL__PLAN_ACCESSES];
  cel__plan_variable variables[CEL__PLAN_VARIABLES];
  int64_t seen[CEL__PLAN_KNOWN][CEL__PLAN_WORDS];
  cel_known task; /* what the last group of it came to */
} cel__group_plan;

/* Arguments: replay(plans, label, division, handles, group, range, ...) */
enum {
  CEL__REPLAY_PLANS = 1,
  CEL__REPLAY_LABEL,
  CEL__REPLAY_DIVISION,
  CEL__REPLAY_HANDLES,
  CEL__REPLAY_GROUP,
  CEL__REPLAY_RANGE,
  CEL__REPLAY_FIRST
};

/* An access of the group on the stack. */
typedef struct cel__given_access {
  const cel_buffer *buffer;
  const char *mode;
  int map; /* where it is on the stack */
} cel__given_access;

/* That group. */
typedef struct cel__given {
  int32_t dims;
  cel_box range;
  uint32_t arguments, accesses, values;
  cel__given_access access[CEL__PLAN_ACCESSES];
  int value[CEL__PLAN_ARGUMENTS]; /* where it is on the stack */
  uint32_t is_access;             /* bits, by argument */
  int64_t param[CEL__PLAN_PARAMS];
} cel__given;

/* A kernel's values. */
typedef struct cel__packed_values {
  unsigned char bytes[CEL__PLAN_VALUES];
  uint32_t size;
} cel__packed_values;

#endif
