/* core_recall.h -- what a function that was submitted before has read. */
#ifndef CEL_EMBED_CORE_CORE_RECALL_H
#define CEL_EMBED_CORE_CORE_RECALL_H

enum { CEL__RECALL_CHECKS = 44 };

/* Where a value is read: a variable of the function itself, or of one that it
 * captured; a field, or one by the metatable; or how many keys a table has. */
typedef enum cel__recall_way {
  CEL__RECALL_OWN = 1,
  CEL__RECALL_VARIABLE,
  CEL__RECALL_FIELD,
  CEL__RECALL_INHERITED,
  CEL__RECALL_KEYS
} cel__recall_way;

#endif
