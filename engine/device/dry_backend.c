/* Devices of a dry run. A job is complete as soon as it is submitted, and
 * nothing is done for it. Memory is addresses that nobody may touch, and an
 * account of what would be behind them. */
#include "base/vec.h"
#include "device/backend.h"
#include "region/region.h"

enum { KERNEL_LANES = 2, COPY_LANES = 2, LINE = 4096 };

/* Beyond what a process can have: what is touched by mistake faults. */
#define FIRST_ADDRESS ((uint64_t)1 << 48)
#define LAST_ADDRESS ((uint64_t)1 << 63)

/* What was reserved and not released. */
typedef struct span {
  uint64_t address, bytes;
  int32_t memory;
  cel_region
      committed; /* bytes of it, in dimension 0; empty where it is whole */
} span;

typedef struct dry {
  cel_backend face;    /* first */
  CEL_VEC(span) spans; /* by address */
  uint64_t next;       /* address */
  CEL_VEC(uint64_t) done;
  cel_dry_work work;
} dry;

static bool is_whole(const cel_backend *b, uint64_t bytes) {
  return b->grain == 0 || bytes < b->whole;
}

static void use(dry *d, int32_t memory, uint64_t bytes) {
  uint64_t used = d->work.used[memory] += bytes;
  if (used > d->work.peak[memory]) d->work.peak[memory] = used;
}

static cel_status reserve(cel_backend *b, int32_t memory, uint64_t bytes,
                          void **out) {
  dry *d = (dry *)b;
  cel_assert(memory >= 0 && memory < b->memories);
  if (bytes > LAST_ADDRESS - d->next - LINE)
    return cel_fail(CEL_E_MEMORY, "the dry run has used up its addresses");
  span s = {.address = d->next, .bytes = bytes, .memory = memory};
  d->next += (bytes / LINE + 1) * LINE;
  if (is_whole(b, bytes)) use(d, memory, bytes);
  cel_vec_push(&d->spans, s);
  *out = (void *)(uintptr_t)s.address;
  return CEL_E_OK;
}

static uint32_t index_of(const dry *d, const void *p) {
  uint32_t low = 0, high = d->spans.n;
  while (low < high) {
    uint32_t middle = (low + high) / 2;
    if (d->spans.at[middle].address < (uint64_t)(uintptr_t)p)
      low = middle + 1;
    else
      high = middle;
  }
  if (low == d->spans.n || d->spans.at[low].address != (uint64_t)(uintptr_t)p)
    cel_bug("%p was not reserved in this dry run", p);
  return low;
}

static void release(cel_backend *b, int32_t memory, void *p, uint64_t bytes) {
  dry *d = (dry *)b;
  uint32_t i = index_of(d, p);
  span *s = &d->spans.at[i];
  cel_assert(s->memory == memory && s->bytes == bytes);
  d->work.used[memory] -=
      is_whole(b, bytes) ? bytes : (uint64_t)cel_region_volume(&s->committed);
  cel_region_release(&s->committed);
  memmove(s, s + 1, (--d->spans.n - i) * sizeof *s);
}

static cel_box bytes_of(uint64_t begin, uint64_t end) {
  return (cel_box){{(int64_t)begin, 0, 0}, {(int64_t)end, 1, 1}};
}

static cel_status commit(cel_backend *b, int32_t memory, void *p,
                         uint64_t begin, uint64_t end) {
  dry *d = (dry *)b;
  span *s = &d->spans.at[index_of(d, p)];
  cel_box box = bytes_of(begin, end);
  uint64_t before = (uint64_t)cel_region_volume(&s->committed);
  cel_assert(s->memory == memory && end <= s->bytes);
  cel_region_add(&s->committed, &box);
  use(d, memory, (uint64_t)cel_region_volume(&s->committed) - before);
  return CEL_E_OK;
}

static void decommit(cel_backend *b, int32_t memory, void *p, uint64_t begin,
                     uint64_t end) {
  dry *d = (dry *)b;
  span *s = &d->spans.at[index_of(d, p)];
  cel_box box = bytes_of(begin, end);
  uint64_t before = (uint64_t)cel_region_volume(&s->committed);
  cel_region_remove(&s->committed, &box);
  d->work.used[memory] -= before - (uint64_t)cel_region_volume(&s->committed);
}

static void submit(cel_backend *b, int32_t device, int32_t lane, cel_job *job) {
  dry *d = (dry *)b;
  cel_assert(device >= 0 && device < b->devices);
  (void)device, (void)lane;
  if (job->kind == CEL_JOB_CALL) d->work.kernels++;
  cel_vec_push(&d->done, job->ticket);
}

static uint32_t poll(cel_backend *b, cel_done *out, uint32_t max) {
  dry *d = (dry *)b;
  uint32_t n = 0;
  while (n < max && n < d->done.n) {
    out[n] = (cel_done){.ticket = d->done.at[n]};
    ++n;
  }
  cel_vec_drop_first(&d->done, n); /* lanes are in order */
  return n;
}

static void destroy(cel_backend *b) {
  dry *d = (dry *)b;
  for (uint32_t i = 0; i < d->spans.n; ++i)
    cel_region_release(&d->spans.at[i].committed);
  cel_vec_release(&d->spans);
  cel_vec_release(&d->done);
  cel_free(d);
}

cel_status cel_backend_dry(const cel_backend_config *config,
                           cel_backend **out) {
  if (config->devices < 1 || config->devices > CEL_DEVICES)
    return cel_fail(CEL_E_RANGE, "1 to %d devices, not %d", CEL_DEVICES,
                    config->devices);
  dry *d = cel_alloc_zero(sizeof *d);
  bool own = config->own_memory || config->devices > 1 || config->capacity > 0;
  d->next = FIRST_ADDRESS;
  d->face = (cel_backend){
      .name = "dry",
      .devices = config->devices,
      .memories = own ? 1 + config->devices : 1,
      .kernel_lanes = KERNEL_LANES,
      .copy_lanes = COPY_LANES,
      .lua = true,
      .grain = config->grain,
      .whole = config->whole,
      .block = config->block != 0 || config->grain == 0
                   ? config->block
                   : cel__backend_block(config->capacity, config->grain),
      .reserve = reserve,
      .release = release,
      .commit = commit,
      .decommit = decommit,
      .submit = submit,
      .poll = poll,
      .destroy = destroy,
  };
  for (int32_t i = 0; own && i < config->devices; ++i) {
    d->face.device_memory[i] = 1 + i;
    d->face.capacity[1 + i] = config->capacity;
  }
  *out = &d->face;
  return CEL_E_OK;
}

void cel_backend_dry_count(const cel_backend *b, cel_dry_work *out) {
  *out = ((const dry *)b)->work;
}
