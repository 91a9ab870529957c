/* work.h -- what a task does to its data, as a function of plain memory.
 *
 * A kernel compiled for the CPU, a C callback of a random program, a Lua host
 * task and the copy into a fence's snapshot are all one thing: a function that
 * is called with a chunk and with one view per access. A kernel for another
 * device carries that device's own handle beside it. A Lua interop task is a
 * kernel's work with `lua` set: it is called where a kernel would be launched,
 * and enqueues what works on the views' memory.
 *
 * A work is immutable once submitted. It is counted: the task graph holds one
 * reference until the task has been executed and retired.
 */
#ifndef CEL_TASK_WORK_H
#define CEL_TASK_WORK_H

#include "base/operator.h"
#include "base/status.h"
#include "region/box.h"

/* One access, seen from a running chunk. The element at global coordinates
 * (i, j, k) lies at base + (((i - layout.min[0]) * ext1 + (j - layout.min[1]))
 * * ext2 + (k - layout.min[2])) * element_size, with ext = layout's extents.
 * `box` is the hull of what the mapper promised for this chunk, empty when it
 * promised nothing (base is then null). */
typedef struct cel_view {
  void *base;
  cel_box layout;
  cel_box box;
  struct cel_touched *touched; /* for works that mark it; else null */
  /* Of what is reduced into: what a block of the call has for itself; null: all
   * of it. */
  const struct cel_lines *lines;
  bool holds; /* and the call combines onto what that holds */
} cel_view;

/* Of a long array that is reduced into, some elements are one block's alone: it
 * combines them where they belong. Of all others it has a row of its own, and
 * lines of CEL_LINE bytes in that hold something once the block has come to
 * them: all of a row costs more than the few elements of most blocks. There is
 * memory for all of the last line. celer::lines, in kernels/celer.cuh. */
typedef struct cel_lines {
  int64_t own_begin, own_end;
  int64_t along; /* not 0: each item's own coordinates are among them */
  void *row;
  unsigned char *begun; /* a byte for each line, not 0: it holds something; then
                           one for all of them */
  int64_t count;
  int64_t stride;       /* where many rows are seen: from one's to the next's */
  const void *identity; /* of one element, what others are to begin with */
} cel_lines;

typedef struct cel_call {
  cel_box chunk; /* the part of the index space to compute */
  cel_box range; /* the whole index space */
  int32_t rank, ranks;
  int32_t views;
  const cel_view *view;      /* in the order of the task's accesses */
  const void *values;        /* the work's packed scalar arguments */
  const int32_t *work_group; /* the work's */
  int32_t strip; /* of a kernel's rows, so many items at a time; 0: all */
  /* A kernel's work: which device; of a GPU the number that the driver gives
   * it, and the CUstream that the call is to enqueue on. Else null. */
  int32_t device;
  void *stream;
  /* A collective task: what its group talks through. Else null. */
  struct cel_comm *comm;
  int32_t effects;
  const struct cel_effect *effect; /* the task's */
  /* A kernel's: some items are to be looked at, see device/sample.h; or null.
   */
  const struct cel_sample *sample;
} cel_call;

typedef struct cel_work cel_work;

/* One view of a kernel that it does not write to but reduces into: dense memory
 * of the shape of the buffer that is reduced into, layout and box alike. On the
 * processor every element holds the identity when the call begins, or where the
 * view `holds` something else that, and the call combines onto it; where the
 * view has `lines`, which only works that `begin` are given, the call begins
 * each line that it comes to of those. On a GPU the kernel begins it all.
 * Operators are associative and commutative, but for their rounding. */
typedef struct cel_reducer {
  int32_t view;
  uint32_t element_size; /* of the view, and so of rows */
  cel_box extent;        /* of the buffer */
  int32_t dims;          /* of the buffer */
  int32_t item_dims;     /* of the work's items; 0: not known */
  const void *identity;  /* of one element */
  cel_operator by;       /* an element is one number of it, or several */
  bool begins;           /* the work and those that combine heed `lines` */
  /* Works of two views: rows of partial results, [first, last) x elements, and
   * the result, dense. They combine all rows in order, those elements of them
   * that their chunk counts; where the rows' view has `lines`, the lines that
   * hold anything. `onto` begins with what the result holds. */
  cel_work *combine, *combine_onto;
  /* The same, where the result is the buffer and no other row. Null where these
   * are alike; else elements of the buffer may have another size. */
  cel_work *settle, *settle_onto;
} cel_reducer;

struct cel_work {
  int32_t references; /* atomic; touched by retain and release alone */
  /* Runs the call; a failure sets the calling thread's error record. For a
   * kernel `fn` computes any sub-box of the chunk and may be called for
   * disjoint ones at the same time. Thread: worker, executor. */
  cel_status (*fn)(const cel_work *work, const cel_call *call);
  /* In place of `fn` where nothing is carried out, and so no memory is behind
   * the views; null: nothing is called. Thread: executor. */
  void (*stand_in)(const cel_work *work, const cel_call *call);
  /* Called when the last reference goes; frees the work. Thread: any. */
  void (*destroy)(cel_work *work);
  /* The same for a GPU, see device/cuda/cuda.h; null: for the processor alone.
   */
  const struct cel_cuda_kernel *cuda;
  const void *values; /* packed scalar arguments, 16-byte aligned */
  uint32_t values_size;
  int32_t work_group[3]; /* items of one, which chunks never cut; 0: none */
  uint64_t hash;         /* equal on all ranks; part of the divergence hash */
  int32_t reducers; /* in the order of their views; they live with the work */
  const cel_reducer *reducer;
  bool marks;    /* marks what it touches of views with `touched` */
  bool combines; /* is a reducer's `combine`; its values are its maker's */
  bool lua;      /* needs a thread with a Lua state */
  bool objects;  /* and that where Lua host objects live */
  bool brief;    /* on the host, and yet done as soon as it can begin */
  bool tiny;     /* takes no longer than to wake a host lane for it */
  bool samples;  /* a kernel's: its calls are given a sample */
  bool turns;    /* a kernel's: it touches columns along its rows */
  bool alike;    /* a kernel's: it does nothing but what accesses tell, and so
                    it makes no difference how many ranks compute it */
  bool waits;    /* a GPU's thread waits for what it has launched: backend.h */
  /* The maker's own. With `fn`, by which calls are known again: how long they
   * usually take. */
  void *context;
};

#ifndef CEL_CDEF
void cel_work_retain(cel_work *work);
void cel_work_release(cel_work *work);
#endif

#endif
