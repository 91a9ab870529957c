#include "command/read.h"

#include "base/hash.h"
#include "command/collective/bcast_tree.h"
#include "command/collective/pattern.h"
#include "tuning.h"

static void transfer(const cel__own *own, cel__transfers *out, int64_t peer,
                     int64_t order, const cel_buffer *buffer,
                     const cel_box *box) {
  cel__transfer t = {.order = order < 0 ? order + own->ranks : order,
                     .peer = peer,
                     .buffer = buffer,
                     .box = *box};
  cel_vec_push(out, t);
}

/* What I read of `box` and lack, cut by who owns it. */
static void receive(cel__own *own, const cel__version *v, uint32_t rep,
                    const cel_box *box, const cel_buffer *buffer,
                    cel__transfers *out) {
  const cel__boxes *lacks = cel__own_lacks(own, v, rep, own->me, box);
  for (uint32_t i = 0; i < lacks->n; ++i) {
    const cel_box *lacked = &lacks->at[i];
    if (v->owner_kind == CEL__ONE_RANK) {
      transfer(own, out, v->owner, own->me - v->owner, buffer, lacked);
      continue;
    }
    const cel__rep *parts = cel__rep_at(&own->reps, v->owner);
    cel__ranks it;
    cel_box part;
    for (bool more = cel__ranks_first(&it, parts, lacked); more;
         more = cel__ranks_next(&it))
      if (cel__rep_box(parts, it.rank, lacked, &part))
        transfer(own, out, it.rank, own->me - it.rank, buffer, &part);
  }
}

/* What others read of `box` and lack, of what I own. */
static void send(cel__own *own, const cel__version *v, uint32_t rep,
                 const cel_box *box, const cel_buffer *buffer,
                 cel__transfers *out) {
  cel_box mine;
  cel__ranks it;
  if (!cel__own_part(own, v, own->me, box, &mine)) return;
  for (bool more = cel__ranks_first(&it, cel__rep_at(&own->reps, rep), &mine);
       more; more = cel__ranks_next(&it)) {
    if (it.rank == own->me) continue;
    const cel__boxes *lacks = cel__own_lacks(own, v, rep, it.rank, &mine);
    for (uint32_t i = 0; i < lacks->n; ++i)
      transfer(own, out, it.rank, it.rank - own->me, buffer, &lacks->at[i]);
  }
}

/* Appends what was noted. */
static void repeat(const struct cel__given *slot, const cel_buffer *buffer,
                   cel__traffic *traffic) {
  for (uint32_t i = 0; i < slot->sends + slot->receives; ++i) {
    cel__transfer t = {slot->at[i].order, slot->at[i].peer, buffer,
                       slot->at[i].box};
    cel_vec_push(i < slot->sends ? &traffic->sends : &traffic->receives, t);
  }
}

static void note(struct cel__given *slot, const cel__transfer *send,
                 const cel__transfer *receive) {
  for (uint32_t i = 0; i < slot->sends + slot->receives; ++i) {
    const cel__transfer *t = i < slot->sends ? send++ : receive++;
    slot->at[i].order = t->order;
    slot->at[i].peer = t->peer;
    slot->at[i].box = t->box;
  }
}

/* Both, by messages. Loops read entries of the same versions alike. */
static void give(cel__own *own, uint32_t version, uint32_t rep,
                 const cel_box *box, const cel_buffer *buffer,
                 cel__traffic *traffic) {
  if (own->given == NULL)
    own->given = cel_alloc_zero(CEL__GIVEN * sizeof *own->given);
  uint64_t hash = cel_hash(box, sizeof *box, (uint64_t)version << 32 | rep);
  struct cel__given *slot = &own->given[hash % CEL__GIVEN];
  if (slot->version == version && slot->rep == rep &&
      cel_box_equal(&slot->box, box)) {
    repeat(slot, buffer, traffic);
    return;
  }
  uint32_t sends = traffic->sends.n, receives = traffic->receives.n;
  const cel__version *v = cel__own_version(own, version);
  send(own, v, rep, box, buffer, &traffic->sends);
  receive(own, v, rep, box, buffer, &traffic->receives);
  uint32_t sent = traffic->sends.n - sends;
  uint32_t received = traffic->receives.n - receives;
  if (sent + received > CEL__GIVEN_MOST) return;
  *slot = (struct cel__given){.version = version,
                              .rep = rep,
                              .box = *box,
                              .sends = sent,
                              .receives = received};
  note(slot, traffic->sends.at + sends, traffic->receives.at + receives);
}

static const cel__choice *choose(cel__own *own, uint32_t version, uint32_t rep,
                                 bool tiles, const cel_box *box,
                                 const cel_buffer *buffer) {
  struct cel__chosen *slot = &own->chosen[(version ^ rep) % CEL__CHOSEN];
  if (slot->version != version || slot->rep != rep || slot->tiles != tiles ||
      slot->size != buffer->element_size ||
      !cel_box_equal(&slot->extent, &buffer->extent) ||
      !cel_box_equal(&slot->box, box))
    *slot = (struct cel__chosen){
        .version = version,
        .rep = rep,
        .tiles = tiles,
        .size = buffer->element_size,
        .extent = buffer->extent,
        .box = *box,
        .choice = cel__pattern_choose(own, cel__own_version(own, version), rep,
                                      tiles, box, buffer)};
  return &slot->choice;
}

/* Whether all exchange `box` together, or it is passed on; which is noted. */
static bool go_together(cel__own *own, uint32_t version, uint32_t rep,
                        bool tiles, const cel_box *box,
                        const cel_buffer *buffer, cel__traffic *traffic) {
  const cel__choice *choice = choose(own, version, rep, tiles, box, buffer);
  if (choice->pattern != CEL_PATTERN_NONE && !cel__own_join(own)) {
    if (!own->collectives) return false;
    choice = choose(own, version, rep, tiles, box, buffer);
  }
  if (choice->pattern != CEL_PATTERN_NONE) {
    cel__together t = {.choice = *choice, .buffer = buffer, .box = *box};
    cel_vec_push(&traffic->together, t);
    return true;
  }
  cel__bcast_tree tree;
  if (!cel__bcast_tree_find(own, cel__own_version(own, version), rep, box,
                            buffer, &tree))
    return false;
  cel_vec_push(&traffic->trees, tree);
  return true;
}

/* One entry's part x in the frame of a read; `tiles`: the ranks' boxes are
 * disjoint. */
static void read_entry(cel__own *own, const cel_map_entry *x, uint32_t rep,
                       bool tiles, const cel_box *hull,
                       const cel_buffer *buffer, cel__traffic *traffic) {
  uint32_t version = (uint32_t)x->value;
  uint32_t after = cel__own_after_reading(own, version, rep);
  if (after == version) return;
  cel_box box;
  cel_box_intersect(&x->box, hull, &box);
  /* Of a read that meets many entries each would be a collective, or passed on
   * alone, where messages take all of them along. */
  bool alone =
      own->collectives && own->entries.n <= CEL_TUNE_COLLECTIVE_ENTRIES;
  if (!alone || !go_together(own, version, rep, tiles, &box, buffer, traffic))
    give(own, version, rep, &box, buffer, traffic);
  cel_vec_push(&own->changes, (cel_map_entry){x->box, after});
}

static void read_shape(cel__own *own, const cel_map *map,
                       const cel_buffer *buffer, cel__shape *shape,
                       cel__traffic *traffic) {
  cel_map_query(map, &shape->hull, &own->entries);
  bool narrow = !cel_box_equal(&shape->hull, &shape->frame);
  for (uint32_t i = 0; i < own->entries.n; ++i) {
    cel_map_entry x = own->entries.at[i];
    if (x.value == CEL__UNINITIALISED) continue;
    if (narrow) { /* the hull must not split entries, the frame may */
      cel_map_at(map, x.box.min, &x);
      cel_box_intersect(&x.box, &shape->frame, &x.box);
    }
    uint32_t rep = cel__shape_rep(&own->reps, shape, &x.box);
    read_entry(own, &x, rep, shape->partition, &shape->hull, buffer, traffic);
  }
}

static void read_list(cel__own *own, const cel_map *map,
                      const cel_buffer *buffer, const cel__footprint *footprint,
                      cel__traffic *traffic) {
  const cel_box *hull = &footprint->hull;
  cel_map_query(map, hull, &own->entries);
  for (uint32_t i = 0; i < own->entries.n; ++i) {
    cel_map_entry x = own->entries.at[i];
    if (x.value == CEL__UNINITIALISED) continue;
    cel_map_at(map, x.box.min, &x);
    read_entry(own, &x, footprint->list, false, hull, buffer, traffic);
  }
}

/* Box after box: what one has brought, the next no longer lacks. */
void cel__read(cel__own *own, cel_map *map, const cel_buffer *buffer,
               cel__footprint *footprint, cel__traffic *traffic) {
  if (footprint->list != CEL__NO_ID)
    read_list(own, map, buffer, footprint, traffic);
  cel__own_change(own, map);
  for (uint32_t i = 0; i < footprint->shapes; ++i) {
    read_shape(own, map, buffer, &footprint->shape[i], traffic);
    cel__own_change(own, map);
  }
}
