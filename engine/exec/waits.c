#include "exec/waits.h"

#include "base/amount.h"
#include "base/text.h"
#include "comm/communicator.h"

enum { TOLD = 8, PIECES = 4, BOX_TEXT = 160 };

typedef struct writer {
  char *text;
  size_t size;
} writer;

static const cel_node *node_at(const cel_window *window, uint64_t id) {
  return &window->ring[id & window->mask];
}

/* ---- every instruction --------------------------------------------------- */

/* After a failure: then it keeps no record, and is not done. */
static bool is_back(const cel_node *node) {
  return (node->state == CEL_NODE_ISSUED || node->state == CEL_NODE_POSTED) &&
         node->record == NULL;
}

static bool is_there(const cel_node *node, uint32_t i) {
  return node->state == CEL_NODE_ISSUED &&
         (is_back(node) || node->record->messages.at[i].there);
}

/* Those of the instruction that are not there. */
static void list_messages(const cel_node *node, writer *w) {
  uint32_t i = 0;
  for (const cel_sent *m = &node->instr->message; m != NULL; m = m->next)
    if (!is_there(node, i++))
      cel_text_append(w->text, w->size, " peer %lld message %llu, %llu bytes%s",
                      (long long)m->peer, (unsigned long long)m->sequence,
                      (unsigned long long)m->bytes,
                      m->direct ? ", direct" : "");
}

static void list_node(const cel_window *window, const cel_node *node,
                      writer *w) {
  static const char *const states[] = {"waiting", "ready",    "posted",
                                       "issued",  "returned", "done"};
  const cel_instr *instr = node->instr;
  cel_text_append(w->text, w->size, "  I%llu %s %s",
                  (unsigned long long)instr->id, cel_instr_name(instr->kind),
                  states[node->state]);
  if (instr->kind == CEL_INSTR_COLLECTIVE)
    cel_text_append(w->text, w->size, " %s %llu",
                    cel_pattern_name(instr->collective.exchange->pattern),
                    (unsigned long long)instr->collective.exchange->nth);
  else if (cel_instr_lane_of(instr->kind) == CEL_LANE_COMM)
    list_messages(node, w);
  for (uint32_t i = 0; i < instr->deps; ++i) {
    uint64_t id = instr->dep[i].id;
    if (id >= window->base && node_at(window, id)->state != CEL_NODE_DONE)
      cel_text_append(w->text, w->size, " <- I%llu", (unsigned long long)id);
  }
  cel_text_append(w->text, w->size, "\n");
}

void cel_waits_list(const cel_window *window, char *text, size_t size) {
  writer w = {text, size};
  if (size > 0) text[0] = '\0';
  for (uint64_t id = window->base; id < window->next; ++id)
    if (node_at(window, id)->state != CEL_NODE_DONE)
      list_node(window, node_at(window, id), &w);
}

/* ---- what is under way --------------------------------------------------- */

static void tell_task(const cel_instr *instr, writer *w) {
  const cel_task *task = instr->task;
  if (task == NULL) return;
  if (task->name != NULL)
    cel_text_append(w->text, w->size, " '%s'", task->name);
  if (task->location.file != NULL)
    cel_text_append(w->text, w->size, " (%s:%d)", task->location.file,
                    task->location.line);
}

static void tell_box(const cel_buffer *buffer, const cel_box *box, writer *w) {
  char text[BOX_TEXT];
  cel_box_print(box, buffer->dims, text, sizeof text);
  cel_text_append(w->text, w->size, "%s%s%s",
                  buffer->name != NULL ? buffer->name : "a buffer",
                  buffer->dims > 0 ? " " : "", buffer->dims > 0 ? text : "");
}

/* Of a task's effects, the first that orders it among ranks, or among those of
 * this rank that exclude each other; null: there is none. */
static const cel_object *object_of(const cel_task *task, cel_scope scope) {
  for (uint32_t i = 0; i < task->effects; ++i)
    if (task->effect[i].object->scope == scope &&
        (scope == CEL_SCOPE_CLUSTER ||
         task->effect[i].order != CEL_ORDER_SEQUENTIAL))
      return task->effect[i].object;
  return NULL;
}

static const char *name_of(const cel_object *object) {
  return object->name != NULL ? object->name : "without a name";
}

/* What has no pieces tells that an object is the other one's now. */
static void tell_turn(const cel_instr *instr, writer *w) {
  const cel_object *object = object_of(instr->task, CEL_SCOPE_CLUSTER);
  cel_text_append(w->text, w->size,
                  instr->kind == CEL_INSTR_SEND
                      ? "rank %lld to hear that host object %s is free"
                      : "rank %lld to be done with host object %s",
                  (long long)instr->message.peer,
                  object != NULL ? name_of(object) : "of the cluster");
}

static void tell_pieces(const cel_instr *instr, const cel_sent *m, writer *w) {
  char bytes[CEL_AMOUNT_TEXT];
  cel_amount_text(m->bytes, bytes, sizeof bytes);
  cel_text_append(w->text, w->size,
                  instr->kind == CEL_INSTR_SEND
                      ? "rank %lld to take a message of %s: "
                      : "a message from rank %lld, %s: ",
                  (long long)m->peer, bytes);
  for (uint32_t i = 0; i < m->pieces && i < PIECES; ++i) {
    const cel_place_in *in = &m->piece[i];
    if (i > 0) cel_text_append(w->text, w->size, ", ");
    tell_box(in->allocation->buffer, &in->box, w);
  }
  if (m->pieces > PIECES) cel_text_append(w->text, w->size, ", ...");
}

/* The first one that is missing, and how many with it. */
static void tell_messages(const cel_node *node, writer *w) {
  const cel_instr *instr = node->instr;
  const cel_sent *first = NULL;
  uint32_t i = 0, missing = 0;
  for (const cel_sent *m = &instr->message; m != NULL; m = m->next) {
    if (is_there(node, i++)) continue;
    if (first == NULL) first = m;
    ++missing;
  }
  if (first == NULL) first = &instr->message;
  if (first->pieces == 0)
    tell_turn(instr, w);
  else
    tell_pieces(instr, first, w);
  if (missing > 1)
    cel_text_append(w->text, w->size, "; and %u more from other ranks",
                    missing - 1);
  cel_text_append(w->text, w->size, "; for task");
  tell_task(instr, w);
}

static void tell_collective(const cel_node *node, writer *w) {
  const cel_exchange *x = node->instr->collective.exchange;
  cel_text_append(w->text, w->size, "a collective, %s of ",
                  cel_pattern_name(x->pattern));
  tell_box(x->buffer, &x->box, w);
  if (x->next != NULL) cel_text_append(w->text, w->size, ", ...");
  cel_text_append(w->text, w->size,
                  node->state == CEL_NODE_ISSUED
                      ? ", with all ranks"
                      : ", which others come before that are not ready");
  cel_text_append(w->text, w->size, "; for task");
  tell_task(node->instr, w);
}

static void tell_copy(const cel_instr *instr, writer *w) {
  cel_text_append(w->text, w->size,
                  instr->kind == CEL_INSTR_INIT ? "the initial contents of "
                                                : "a copy of ");
  tell_box(instr->copy.to->buffer, &instr->copy.box, w);
  cel_text_append(w->text, w->size, "; for task");
  tell_task(instr, w);
}

static void tell_release(const cel_instr *instr, writer *w) {
  const cel_object *object = instr->task->ended;
  cel_text_append(w->text, w->size, "the end of host object %s",
                  name_of(object));
  if (object->location.file != NULL)
    cel_text_append(w->text, w->size, " (%s:%d)", object->location.file,
                    object->location.line);
}

static void tell_state(const cel_node *node, writer *w) {
  const cel_instr *instr = node->instr;
  uint32_t group = instr->task->collective_group;
  const cel_object *object = instr->kind == CEL_INSTR_HOST
                                 ? object_of(instr->task, CEL_SCOPE_RANK)
                                 : NULL;
  if (node->state == CEL_NODE_ISSUED)
    cel_text_append(w->text, w->size, ": it was begun, or is next in its lane");
  else if (object != NULL)
    cel_text_append(w->text, w->size, ": others are at host object %s",
                    name_of(object));
  else
    cel_text_append(w->text, w->size, ": it is not begun");
  if (group != 0) cel_comm_tell(group, w->text, w->size);
}

static void tell_run(const cel_node *node, writer *w) {
  const cel_instr *instr = node->instr;
  char text[BOX_TEXT];
  cel_text_append(w->text, w->size,
                  instr->kind == CEL_INSTR_KERNEL ? "task" : "host task");
  tell_task(instr, w);
  if (instr->task->dims > 0) {
    cel_box_print(&instr->run.chunk, instr->task->dims, text, sizeof text);
    cel_text_append(w->text, w->size, ", chunk %s", text);
  }
  if (instr->kind == CEL_INSTR_KERNEL && node->lane != CEL_NO_LANE)
    cel_text_append(w->text, w->size, ", on device %d", instr->device);
  tell_state(node, w);
}

static void tell_node(const cel_node *node, writer *w) {
  const cel_instr *instr = node->instr;
  cel_text_append(w->text, w->size, "  ");
  switch (instr->kind) {
  case CEL_INSTR_SEND:
  case CEL_INSTR_RECEIVE: tell_messages(node, w); break;
  case CEL_INSTR_COLLECTIVE: tell_collective(node, w); break;
  case CEL_INSTR_COPY:
  case CEL_INSTR_INIT: tell_copy(instr, w); break;
  case CEL_INSTR_KERNEL:
  case CEL_INSTR_HOST: tell_run(node, w); break;
  case CEL_INSTR_RELEASE: tell_release(instr, w); break;
  default:
    cel_text_append(w->text, w->size, "%s", cel_instr_name(instr->kind));
    break;
  }
  cel_text_append(w->text, w->size, "\n");
}

bool cel_waits_tell(const cel_window *window, char *text, size_t size) {
  writer w = {text, size};
  uint64_t under_way = 0, behind = 0;
  if (size > 0) text[0] = '\0';
  for (uint64_t id = window->base; id < window->next; ++id) {
    const cel_node *node = node_at(window, id);
    if (node->state == CEL_NODE_DONE || is_back(node)) continue;
    if (node->incomplete > 0)
      ++behind;
    else if (under_way++ < TOLD)
      tell_node(node, &w);
  }
  if (under_way > TOLD)
    cel_text_append(text, size, "  and %llu more\n",
                    (unsigned long long)(under_way - TOLD));
  if (behind > 0)
    cel_text_append(text, size, "%llu instruction%s for these.\n",
                    (unsigned long long)behind,
                    behind == 1 ? " waits" : "s wait");
  return under_way > 0;
}
