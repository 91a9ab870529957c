/* What a task of fuzz_instr computes, on real memory and on the interpreter's.
 */
#include "instr/fuzz.h"

static uint64_t mix(uint64_t a, uint64_t b) {
  uint64_t both[2] = {a, b};
  return cel_hash(both, sizeof both, 0);
}

uint64_t fuzz_first_value(const cel_buffer *buffer, const int64_t at[3]) {
  return mix(buffer->id + 1000, (uint64_t)index_in(&buffer->extent, at));
}

cel_status fuzz_fill(const cel_init *init, const cel_box *box, void *out) {
  const cel_buffer *buffer = init->context;
  uint64_t *to = out;
  each_point(p, box) *to++ = fuzz_first_value(buffer, p);
  return CEL_E_OK;
}

/* A value and whether it means anything. */
typedef struct known {
  uint64_t value;
  bool defined;
} known;

/* Where a view's elements are; `defined` is null on real memory. */
typedef struct store {
  uint64_t *value;
  bool *defined;
  cel_box layout;
} store;

/* Adds up all that the unit reads. */
static known read_unit(const job *j, const cel_box *unit, const store *stores) {
  known sum = {j->work.hash, true};
  cel_region r = {0};
  for (uint32_t a = 0; a < j->accesses; ++a) {
    if (j->access[a].mode != CEL_MODE_READ) continue;
    require(cel_rule_eval(&j->access[a].use, unit, &r) == CEL_E_OK);
    for (uint32_t b = 0; b < r.n; ++b) each_point(p, &r.at[b]) {
        require(cel_box_covers(&stores[a].layout, &r.at[b]));
        int64_t i = index_in(&stores[a].layout, p);
        sum.value = mix(sum.value, stores[a].value[i]);
        if (stores[a].defined != NULL) sum.defined &= stores[a].defined[i];
      }
  }
  cel_region_release(&r);
  return sum;
}

static void write_element(cel_mode mode, known in, const store *s,
                          const int64_t p[3], uint32_t access) {
  int64_t i = index_in(&s->layout, p);
  uint64_t where = (uint64_t)(p[0] * 10007 + p[1] * 101 + p[2]) * 4 + access;
  uint64_t fresh = mix(in.value, where);
  /* `write` leaves some elements as they are. */
  if (mode == CEL_MODE_WRITE && (p[0] + p[1] + p[2]) % 3 == 0) return;
  if (mode == CEL_MODE_READ_WRITE) fresh = mix(fresh, s->value[i]);
  s->value[i] = fresh;
  if (s->defined != NULL)
    s->defined[i] =
        in.defined && (mode != CEL_MODE_READ_WRITE || s->defined[i]);
}

static void write_unit(const job *j, const cel_box *unit, known in,
                       const store *stores) {
  cel_region r = {0};
  for (uint32_t a = 0; a < j->accesses; ++a) {
    if (!cel_mode_produces(j->access[a].mode)) continue;
    require(cel_rule_eval(&j->access[a].use, unit, &r) == CEL_E_OK);
    for (uint32_t b = 0; b < r.n; ++b) each_point(p, &r.at[b]) {
        require(cel_box_covers(&stores[a].layout, &r.at[b]));
        write_element(j->access[a].mode, in, &stores[a], p, a);
      }
  }
  cel_region_release(&r);
}

/* Unit by unit: the pieces that no permitted split cuts. All units read before
 * any writes, which is what the program means. */
static void run_units(const job *j, const cel_box *chunk, const store *stores) {
  int64_t g[3], n[3];
  for (int d = 0; d < 3; ++d) {
    g[d] = j->permitted.cut[d] ? j->permitted.granularity[d]
                               : j->range.max[d] - j->range.min[d];
    require((chunk->min[d] - j->range.min[d]) % g[d] == 0);
    n[d] = (chunk->max[d] - chunk->min[d] + g[d] - 1) / g[d];
  }
  cel_box units = cel_box_sized(n[0], n[1], n[2]);
  CEL_VEC(known) ins = {0};
  for (int pass = 0; pass < 2; ++pass) {
    uint32_t i = 0;
    each_point(u, &units) {
      cel_box unit;
      for (int d = 0; d < 3; ++d) {
        unit.min[d] = chunk->min[d] + g[d] * u[d];
        unit.max[d] = unit.min[d] + g[d];
        if (unit.max[d] > chunk->max[d]) unit.max[d] = chunk->max[d];
      }
      if (pass == 0)
        cel_vec_push(&ins, read_unit(j, &unit, stores));
      else
        write_unit(j, &unit, ins.at[i++], stores);
    }
  }
  cel_vec_release(&ins);
}

static void check_job(const job *j, const store *s) {
  const cel_box *extent = &j->against->buffer.extent;
  each_point(p, extent) {
    int64_t i = index_in(extent, p);
    if (j->expect_defined[i] &&
        s->value[index_in(&s->layout, p)] != j->expect[i])
      fail("buffer %u (%" PRId64 ", %" PRId64 ", %" PRId64 ") is wrong",
           j->against->buffer.id, p[0], p[1], p[2]);
  }
}

cel_status fuzz_work(const cel_work *work, const cel_call *call) {
  job *j = work->context;
  store stores[ACCESSES];
  for (int32_t v = 0; v < call->views; ++v) {
    stores[v] = (store){call->view[v].base, NULL, call->view[v].layout};
    cel_region r = {0};
    require(cel_rule_eval(&j->access[v].use, &call->chunk, &r) == CEL_E_OK);
    cel_box hull = cel_region_hull(&r);
    require(cel_box_equal(&hull, &call->view[v].box));
    require((call->view[v].base == NULL) == cel_box_is_empty(&hull));
    cel_region_release(&r);
  }
  if (j->against != NULL)
    check_job(j, &stores[0]);
  else
    run_units(j, &call->chunk, stores);
  j->ran = true;
  return CEL_E_OK;
}

/* What a chunk promises to write over and no unit of it writes is lost. */
static void forget(const job *j, uint32_t a, const store *s) {
  cel_region r = {0};
  if (j->access[a].mode != CEL_MODE_DISCARD_WRITE) return;
  require(cel_rule_eval(&j->access[a].use, &j->range, &r) == CEL_E_OK);
  for (uint32_t b = 0; b < r.n; ++b)
    each_point(p, &r.at[b]) s->defined[index_in(&s->layout, p)] = false;
  cel_region_release(&r);
}

/* The same on the interpreter's memory. */
void fuzz_interpret(const world *w, const job *j) {
  store stores[ACCESSES];
  for (uint32_t a = 0; a < j->accesses; ++a) {
    const model *m = w->models.at[j->access[a].buffer->id];
    stores[a] = (store){m->value, m->defined, m->buffer.extent};
    forget(j, a, &stores[a]);
  }
  run_units(j, &j->range, stores);
}
