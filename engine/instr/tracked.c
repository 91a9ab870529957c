#include "instr/tracked.h"

#include "base/sort.h"

void cel__tracked_destroy(cel__tracked *tracked) {
  cel_track_destroy(tracked->track);
  cel__outline_drop(tracked->outline);
  cel_vec_release(&tracked->ids);
  cel_free(tracked);
}

size_t cel__tracked_bytes(const cel__tracked *tracked) {
  enum { TRACKED = 96 }; /* about what an entry takes */
  return (size_t)TRACKED * cel_track_count(tracked->track) +
         tracked->ids.cap * sizeof *tracked->ids.at;
}

enum { BOUNDS = 2 * CEL_DIMS };

/* Calls fn for each id among the words of a tracker, as cel_track_save has
 * them, or for each slot. */
static void each_id(cel_track_words *words,
                    void (*fn)(uint64_t *, cel_track_words *),
                    cel_track_words *ids) {
  for (uint64_t *at = words->at; at < words->at + words->n;) {
    at += BOUNDS;
    fn(at++, ids);
    for (uint64_t readers = *at++; readers > 0; --readers) fn(at++, ids);
  }
}

static void list_id(uint64_t *id, cel_track_words *ids) {
  cel_vec_push(ids, *id);
}

static void put_slot(uint64_t *id, cel_track_words *ids) {
  *id = cel__slot_of(ids, *id);
}

static void put_id(uint64_t *slot, cel_track_words *ids) {
  *slot = ids->at[*slot];
}

static int compare_ids(const void *a, const void *b) {
  uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
  return (x > y) - (x < y);
}

uint32_t cel__slot_of(const cel_track_words *ids, uint64_t id) {
  uint32_t from = 0, to = ids->n;
  while (from < to) {
    uint32_t middle = from + (to - from) / 2;
    if (ids->at[middle] < id)
      from = middle + 1;
    else
      to = middle;
  }
  cel_assert(from < ids->n && ids->at[from] == id);
  return from;
}

/* The ids of the words, each once. */
static void list_ids(cel_track_words *words, cel_track_words *ids) {
  cel_vec_clear(ids);
  each_id(words, list_id, ids);
  cel_sort(ids->at, ids->n, sizeof *ids->at, compare_ids);
  uint32_t n = 0;
  for (uint32_t i = 0; i < ids->n; ++i)
    if (n == 0 || ids->at[n - 1] != ids->at[i]) ids->at[n++] = ids->at[i];
  ids->n = n;
}

void cel__tracked_open(cel__tracked *tracked) {
  cel__outline *outline = tracked->outline;
  if (tracked->ahead) {
    cel_track_words *words = &outline->all->words;
    cel_vec_clear(words);
    for (uint32_t i = 0; i < outline->n; ++i)
      cel_vec_push(words, outline->words[i]);
    each_id(words, put_id, &tracked->ids);
    cel_track_load(tracked->track, words);
  }
  tracked->ahead = false;
  tracked->outline = NULL;
  cel__outline_drop(outline);
}

/* Ids below the floor become the floor, if no two become one by that. */
static bool raise_ids(cel_track_words *ids, uint64_t floor) {
  if (ids->n == 0 || ids->at[0] >= floor) return true;
  if (ids->n > 1 && ids->at[1] <= floor) return false;
  ids->at[0] = floor;
  return true;
}

cel__outline *cel__tracked_outline(cel__tracked *tracked, cel__outlines *all,
                                   uint64_t floor) {
  if (tracked->ahead && raise_ids(&tracked->ids, floor)) tracked->floor = floor;
  if (tracked->floor != floor) cel__tracked_track(tracked, floor);
  if (tracked->outline == NULL) {
    cel_track_save(tracked->track, &all->words);
    list_ids(&all->words, &tracked->ids);
    each_id(&all->words, put_slot, &tracked->ids);
    tracked->outline = cel__outline_intern(all);
  }
  return tracked->outline;
}

void cel__tracked_become(cel__tracked *tracked, cel__outline *outline,
                         cel_track_words *ids) {
  cel_track_words old = tracked->ids;
  tracked->ids = *ids;
  *ids = old;
  cel__outline_hold(outline);
  cel__outline_drop(tracked->outline);
  tracked->outline = outline;
  tracked->ahead = true;
}
