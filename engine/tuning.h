/* tuning.h -- costs and thresholds that depend on the machine, in one table.
 *
 * Who ports celer to another machine measures what is here, section by section:
 * each names its benchmarks (spec/bench/README.md), and spec/bench/HISTORY.md
 * has the figures that a value rests on. Values are for hosts of 2 to 64 cores
 * and, of GPUs, for the H200.
 *
 * Only what is a matter of speed stands here. Sizes of arrays, limits of
 * protocols and of CUDA, times that people wait, and when a piece of advice is
 * due stay with their code.
 *
 * To change a value that is marked so has a price besides:
 *   [graph]   it shapes commands or instructions: all ranks must have the same,
 *             and spec/bench/expected.json is to be renewed
 *   [rounds]  it decides in which order numbers are added, and so last bits
 *
 * Pure constants: any file may include this one, and it includes none.
 */
#ifndef CEL_TUNING_H
#define CEL_TUNING_H

/* ---- threads that wait ----------------------------------------------------
 * base/park.c, runtime/, exec/host.c. To wake a thread takes tens of us, and
 * 250 where its core sleeps, too; a thread that spins takes a core from others
 * meanwhile.
 *
 * Measure: bench_handover; `mpirun celer run spec/bench/wait.lua`;
 * spec/bench/ranks.lua; celer run --devices 1 spec/bench/loops.lua.
 */
enum {
  /* ns for which any waiter spins before it sleeps: what a wake costs. */
  CEL_TUNE_SPIN_NS = 20000,
  /* Cores of a rank; with fewer, its threads share them: who waits gives way
   * to the others. */
  CEL_TUNE_SPIN_CORES = 4,
  /* ns for which it does so before it sleeps: as long as two threads take to
   * hand work to each other and back. */
  CEL_TUNE_GIVE_WAY_NS = 30000,
  /* ns for which main, scheduler and executor spin while waits are usually
   * shorter: to be woken would take longer than a short task. */
  CEL_TUNE_LINGER_NS = 100000,
  /* Cores of a rank that this takes. */
  CEL_TUNE_LINGER_CORES = 4,
  /* us that main, scheduler and executor nap where nobody may wake them: for
   * room in a ring, or for a message. */
  CEL_TUNE_NAP_US = 50,
  /* us that the scheduler leaves their only core to main, which submits, if
   * main does not wait before and kernels need that core, too. As long as
   * between two ticks of Linux: to set a timer that rings before the next one
   * costs 10 us in a virtual machine, and its ring 15 more; and no sooner would
   * main lose the core. */
  CEL_TUNE_DOZE_US = 4000,
  /* Polls of a transport in a row until the executor naps: where ranks share
   * cores, where the rank has cores of its own, and where one is to spare. To
   * nap is to be late for the next message, and others in turn. */
  CEL_TUNE_POLLS_SHARED = 64,
  CEL_TUNE_POLLS_BOUND = 400,
  CEL_TUNE_POLLS_SPARE = 4000,
  /* Of the last, polls without letting others have the core, where they may
   * want it. */
  CEL_TUNE_POLLS_GREEDY = 1000,
  /* Cores of each rank from which on one is to spare: where ranks share all
   * cores, and where each has its own. */
  CEL_TUNE_SPARE_CORES_SHARED = 8,
  CEL_TUNE_SPARE_CORES_BOUND = 4,
  /* ns of a yield from which on others want the core; for how many times as
   * long no waiter yields then; and how often the executor naps before it does
   * again. */
  CEL_TUNE_CROWDED_NS = 500000,
  CEL_TUNE_CROWDED_TIMES = 50,
  CEL_TUNE_CROWDED_NAPS = 64,
  /* us between two looks for what other ranks tell, without requests. */
  CEL_TUNE_LISTEN_US = 20000,
  /* us without tasks after which the scheduler flushes the lookahead. */
  CEL_TUNE_SCHEDULER_IDLE_US = 20000,
  /* Groups that are each unlike the one before, after which what they come to
   * is remembered ever more seldom (task/known.h): that takes some 300
   * instructions. spec/bench/submit.lua, changing. */
  CEL_TUNE_KNOWN_MISSES = 8,
  /* Tasks that main takes in instead of the scheduler, before it waits: more
   * are done sooner by two threads. */
  CEL_TUNE_HELP_TASKS = 16,
  /* Tasks after which the scheduler wakes the executor, where cores are few. */
  CEL_TUNE_SCHEDULER_BATCH = 16,
  /* ns for which a host lane goes on in a chain without waking anybody: each
   * wake would cost a switch of threads. */
  CEL_TUNE_HUSH_NS = 50000,
  /* Followers of a job that are looked through to find whether it may. */
  CEL_TUNE_HUSH_FOLLOWERS = 8
};

/* ---- scheduler and executor -----------------------------------------------
 * task/task_graph.c, command/, instr/, exec/, runtime/. How much is looked
 * through, kept or let run ahead.
 *
 * Measure: bench_graph, bench_ownership, bench_counts, bench_conflict,
 * bench_stencil_memory; luajit spec/bench/dryrun.lua.
 */
enum {
  /* Steps of the critical path, and tasks, that are a lap: in laps everything
   * is counted that waits for a part of the program. */
  CEL_TUNE_LAP_STEP = 4,
  CEL_TUNE_LAP_BREADTH = 64,
  /* Steps of the critical path, and tasks, from one horizon to the next: the
   * fewer, the less is kept, and the more horizons there are, each of which is
   * an agreement between ranks, a command and an instruction. [graph] */
  CEL_TUNE_HORIZON_STEP = 16,
  CEL_TUNE_HORIZON_BREADTH = 64,
  /* Bytes of the tasks since a horizon, from which on a lap ends with the next:
   * where each task lists all ranks, no more is kept than in a lap. */
  CEL_TUNE_HORIZON_BYTES = 1 << 16,
  /* Laps from the newest horizon that has been executed to the newest one that
   * is submitted, before main waits: few keep memory small, many keep the
   * executor at work. */
  CEL_TUNE_LAPS_AHEAD = 8,
  /* Laps for which commands are held back: without a new allocation, and at
   * most. Less than LAPS_AHEAD, or main would wait in vain. [graph] */
  CEL_TUNE_QUIET_LAPS = 2,
  CEL_TUNE_HELD_LAPS = 4,
  /* Bytes of buffers that have been freed, in one memory, whose tasks may not
   * have been carried out when more is allocated; or, where it is more, one
   * part in so many of a device's memory. As much as takes longer to compute on
   * than the executor to free it and to allocate. */
  CEL_TUNE_FREED_BYTES = 16 << 20,
  CEL_TUNE_FREED_SHARE = 64,
  /* Entries of the rings between main, scheduler and executor. */
  CEL_TUNE_RING = 4096,
  /* Instructions that the executor takes in, and issues, until it looks at
   * completions and messages again. */
  CEL_TUNE_EXECUTOR_BATCH = 256,
  CEL_TUNE_EXECUTOR_ISSUES = 256,
  /* Jobs under way in a lane of a device at most; more wait for room. */
  CEL_TUNE_LANE_DEPTH = 256,
  /* Sets of host tasks that were no better, after which the search for those
   * that start together ends ("Declarative Data Flow", section 4.4). */
  CEL_TUNE_CONFLICT_REJECTED = 100,
  /* Replications that a version of a buffer keeps between tasks. [graph] */
  CEL_TUNE_REPLICATIONS = 8,
  /* Interned versions and representations, and bytes of these, that are held at
   * least before those that nobody uses are swept. */
  CEL_TUNE_SWEEP_LEAST = 1024,
  CEL_TUNE_SWEEP_BYTES = 16 << 20,
  /* Footprints of tasks that are kept. */
  CEL_TUNE_FOOTPRINTS = 1024,
  /* Lists of what each rank has of a box: how many are kept, at most and at
   * least, and entries of all of them. */
  CEL_TUNE_PARTS_MOST = 32,
  CEL_TUNE_PARTS_LEAST = 2,
  CEL_TUNE_PARTS_ENTRIES = 1 << 19,
  /* Bytes of an arena's first block, and how much larger the next is at most.
   */
  CEL_TUNE_ARENA_FIRST = 4096,
  CEL_TUNE_ARENA_STEP = 32 << 10
};

/* ---- messages and collectives ---------------------------------------------
 * command/, instr/, task/reduce.c, comm/mpi/. A message costs 1 to 2 us at
 * each end, a collective a few us whomever it is with. All ranks must agree.
 *
 * Measure: luajit spec/bench/collectives.lua; bench_graph messages; `mpirun
 * celer run spec/bench/reduce.lua`; spec/bench/figures.lua.
 */
enum {
  /* Bytes of a box up to which it travels with others in one message. [graph]
   */
  CEL_TUNE_SMALL_BYTES = 64 << 10,
  /* Bytes at which a message is cut. What leaves a device and arrives in one is
   * copied piece by piece meanwhile, so pieces are short; between GPUs that
   * reach each other nothing is copied, and they are long. [graph] */
  CEL_TUNE_LARGE_BYTES = 8 << 20,
  CEL_TUNE_NEAR_LARGE_BYTES = 1 << 30,
  /* Ranks that bring parts of a box by one RECEIVE: a stencil's neighbours are
   * not worth one. [graph] */
  CEL_TUNE_TOGETHER_PEERS = 16,
  /* Readers from which on a box is passed on along a tree; and where ranks are
   * on several hosts and there is much of it. [graph] */
  CEL_TUNE_TREE_LEAST = 16,
  CEL_TUNE_TREE_LEAST_HOSTS = 3,
  /* Ranks of a group that exchanges among itself, at least: with fewer,
   * messages are as good, as a collective costs some us, whomever it is with.
   * [graph] */
  CEL_TUNE_COLLECTIVE_GROUP = 4,
  /* Ranks at whose counts one looks in the time of a message. [graph] */
  CEL_TUNE_COLLECTIVE_MANY = 64,
  /* Entries of a buffer that one read meets, at most: of more, messages take
   * all along. [graph] */
  CEL_TUNE_COLLECTIVE_ENTRIES = 16,
  /* Bytes of all partial results of a reduction, up to which every rank gets
   * them and combines them itself: one step less. [graph] */
  CEL_TUNE_SHARED_ROWS_BYTES = 1 << 20,
  /* Bytes up to which a strided message is packed into staging memory; more
   * are described to MPI by a datatype. */
  CEL_TUNE_MPI_SMALL_BYTES = 64 << 10,
  /* Bytes of a message to another host up to which it is just sent, and MPI
   * buffers what comes early. Of more, the receiver announces that it is ready,
   * and it travels in parts of so many: with its head each is less than 64 KiB,
   * which Open MPI sends by TCP without asking the receiver. Both ends must
   * agree. spec/bench/hosts.lua. */
  CEL_TUNE_MPI_EAGER_BYTES = 60 << 10,
  /* Parts of a message, about: each is a request that every poll looks at. Of
   * longer messages MPI asks, which costs little beside what they take. */
  CEL_TUNE_MPI_PARTS = 256,
  /* Polls of the transport between two looks for texts, while it is busy. */
  CEL_TUNE_MPI_LISTEN_EVERY = 8,
  /* Messages to and from a rank, and requests of MPI, under way at once. */
  CEL_TUNE_MPI_WINDOW = 1024,
  CEL_TUNE_MPI_REQUESTS = 256,
  /* Pieces of staging memory of each size that are kept. */
  CEL_TUNE_MPI_KEPT = 32
};

/* ---- between GPUs ---------------------------------------------------------
 * comm/link/, comm/nccl/, comm/road/, instr/alike.c, instr/interior.c.
 *
 * Measure: luajit spec/bench/cuda/run.lua (exchanges, all-reduce, wave step);
 * spec/bench/figures.lua communication_gpu; luajit spec/bench/roads.lua.
 */
enum {
  /* Bytes that an interior touches at least, on the processor and on GPUs:
   * below, its pieces cost more than to wait for a halo. On two H200 a stencil
   * of 64 MiB each is faster in pieces, on four one of 32. [graph] */
  CEL_TUNE_INTERIOR_BYTES = 4 << 20,
  CEL_TUNE_INTERIOR_BYTES_CUDA = 48 << 20,
  /* A task's instructions are remembered so often without being of use, and
   * then only one time of so many that it comes. [devices] */
  CEL_TUNE_AGAIN_MISSES = 4,
  CEL_TUNE_AGAIN_PAUSE = 64,
  /* A box that several devices of a rank need alike. Of what a message has at
   * most, one part in so many is what an entry has at least: below, more copies
   * cost more than they save. Slices that an owner gets at most, each of half a
   * message at least. [graph] */
  CEL_TUNE_ALIKE_SHARE = 8,
  CEL_TUNE_ALIKE_SLICES = 4,
  /* Bytes of a chained message at most: a slot of the mailbox holds it
   * (comm/link/mailbox.h). */
  CEL_TUNE_LINK_CHAIN_BYTES = 4 << 20,
  /* Bytes of a message, not chained, from which on it is written straight to
   * where it belongs in the other's memory. */
  CEL_TUNE_LINK_LANDING_BYTES = 4 << 20,
  /* Bytes that a kernel copies out of a slot at once; of more, the driver box
   * by box. */
  CEL_TUNE_LINK_SCATTER_BYTES = 256 << 10,
  /* Bytes that go as one part; of more, three quarters first, as they are
   * copied out of their slots while the rest comes. */
  CEL_TUNE_LINK_WHOLE = 16 << 20,
  /* Bytes of a message between hosts from which on it goes through pinned
   * memory in chunks; shorter ones are copied out and in by jobs of their own,
   * which follow kernels in their streams. From here on chunks are no slower
   * than a copy, a message and a copy in spec/bench/roads.lua. [graph] */
  CEL_TUNE_ROAD_FAR_BYTES = 4 << 20,
  /* From here on they go by NCCL if that is asked for: letters and two launches
   * cost some 90 us there, and a shorter message takes less by copies. [graph]
   */
  CEL_TUNE_ROAD_NCCL_FAR_BYTES = 1 << 20,
  /* Chunks that a message is cut into, about; bytes of one, of which it has a
   * multiple of the least: each costs some us at both ends, and the first and
   * the last overlap with nothing. [devices] */
  CEL_TUNE_ROAD_CHUNKS = 8,
  CEL_TUNE_ROAD_CHUNK_LEAST = 128 << 10,
  CEL_TUNE_ROAD_CHUNK_MOST = 1 << 20,
  /* Buffers for chunks that one direction of a pair of ranks has at a time: two
   * are copied to and from, and two more hide how long polls take; and of all
   * pairs. */
  CEL_TUNE_ROAD_DEPTH = 4,
  CEL_TUNE_ROAD_BUFFERS = 64,
  /* Bytes of a chunk that MPI takes from a GPU's memory: MPI cuts it again. */
  CEL_TUNE_ROAD_CHUNK_MOST_MPI = 4 << 20,
  /* Bytes that NCCL sends at a time, each of which takes two letters, 20 us or
   * so over Ethernet. Channels of a GPU that go by NCCL at most, and blocks of
   * threads that each takes of it: these must all find room beside each other,
   * and beside collectives. [devices] */
  CEL_TUNE_ROAD_NCCL_PART = 64 << 20,
  CEL_TUNE_ROAD_NCCL_LANES = 16,
  CEL_TUNE_ROAD_NCCL_BLOCKS = 4,
  /* Bytes of the messages by which a channel finds out whether NCCL is faster
   * than chunks. [devices] */
  CEL_TUNE_ROAD_TRIAL_BYTES = 8 << 20,
  /* Bytes of a collective from which on NCCL has it, where messages go straight
   * from GPU to GPU; and of one where each gets a part of its own. [graph] */
  CEL_TUNE_NCCL_LEAST_BYTES = 4 << 20,
  CEL_TUNE_NCCL_LEAST_PARTS_BYTES = 32 << 20,
  /* Of a GPU's memory, one part in so many: what a collective takes at most,
   * and its staging. [graph] */
  CEL_TUNE_NCCL_SHARE_MOST = 8,
  CEL_TUNE_NCCL_SHARE_STAGING = 128,
  /* Members up to which NCCL has what is in pairs, too: then all are connected
   * to each other. [graph] */
  CEL_TUNE_NCCL_PAIRS = 32,
  /* Polls between two looks at NCCL's errors. */
  CEL_TUNE_NCCL_POLLS = 1024
};

/* Bytes after which a channel finds out whether NCCL is faster than chunks: a
 * job that moves less is over before that pays. ns for which an end of a
 * channel waits for the other one's NCCL. [devices] */
#define CEL_TUNE_ROAD_TRY_BYTES (8ull << 30)
#define CEL_TUNE_ROAD_PATIENCE_NS 60000000000ll

/* ---- the processor as a device --------------------------------------------
 * device/cpu/, device/backend.c, device/host_memory.c, runtime/fence.c,
 * embed/core/core_backing.c.
 *
 * Measure: bench_device; luajit spec/bench/cpu_kernels/run.lua; celer run
 * spec/bench/tiles.lua.
 */
enum {
  /* Blocks that a job is cut into, for each thread: at least, and at most.
   * Short ones, as threads wait for each other's last; but each costs
   * something. */
  CEL_TUNE_CREW_BLOCKS = 8,
  CEL_TUNE_CREW_FINE_BLOCKS = 64,
  /* Items of a block: at least, of copies and of calls that reduce [rounds];
   * and where there are more than the least. */
  CEL_TUNE_CREW_ITEMS = 4,
  CEL_TUNE_CREW_FINE_ITEMS = 4096,
  /* Items to whose multiples rows are cut: keeps blocks of a row off each
   * other's cache lines. */
  CEL_TUNE_CREW_ALIGN_ITEMS = 16,
  /* Items of a row at a time where a kernel touches columns along its rows: the
   * lines of so many columns stay in the first cache. spec/bench/prk,
   * transpose. */
  CEL_TUNE_STRIP_ITEMS = 16,
  /* ns that what is left of a job must take, for each thread that is called to
   * help: one that sleeps, and costs a system call; one that still spins. */
  CEL_TUNE_CREW_ASLEEP_NS = 20000,
  CEL_TUNE_CREW_AWAKE_NS = 10000,
  /* ns that a thread looks for the blocks of a lane's next job, however few the
   * cores: the others end their last blocks of this one. */
  CEL_TUNE_CREW_SOON_NS = 5000,
  /* ns of work that a thread takes at a time, at least: threads that take the
   * next blocks of a range wait for one cache line. */
  CEL_TUNE_CREW_TAKE_NS = 1000,
  /* ns for which a lane goes on in a chain without waking the executor, which
   * would take a core from a kernel; 256 jobs in a lane take longer. */
  CEL_TUNE_CREW_HUSH_NS = 1000000,
  /* Of a job's blocks, one part in so many is run as one at most, untried. */
  CEL_TUNE_CREW_SHARE = 8,
  /* Folds (device/bands.h). A band has about so many items of a step: some
   * microseconds of work, beside which a call costs nothing, and few enough for
   * the bands of all steps to stay in a cache. */
  CEL_TUNE_BAND_ITEMS = 16384,
  /* What the bands of all steps touch: half of a core's second cache. */
  CEL_TUNE_BAND_BYTES = 1 << 20,
  /* So many runs for each thread, as threads wait for the last one; each at
   * least so many times as long as a seam is wide: seams read twice. */
  CEL_TUNE_BAND_RUNS = 4,
  /* Calls that wait in a lane are carried out in one pass where memory is what
   * they take: they touch more than caches hold, and an item takes no longer
   * than its elements' way. At most so many. */
  CEL_TUNE_FOLD_BYTES = 8 << 20,
  CEL_TUNE_FOLD_ITEM_PS = 16000,
  CEL_TUNE_FOLD_CALLS = 16,
  /* What ranks compute twice for a fold (fold/depth.h): so many items at most
   * for each message that it spares, as an item takes about a ns; or of those
   * of a chunk that is more than caches hold one part in so many. */
  CEL_TUNE_FOLD_MESSAGE_ITEMS = 10000,
  CEL_TUNE_FOLD_TWICE = 16,
  /* Of GPUs: so many for each message; and what one computes of steps that are
   * taken together while it waits for others' halos, which is 20 us. */
  CEL_TUNE_FOLD_GPU_MESSAGE_ITEMS = 1 << 20,
  CEL_TUNE_FOLD_EXCHANGE_ITEMS = 16 << 20,
  /* Buffers that the steps of such a fold are the first to write: those that a
   * simulation goes between, and not one for each step (fold/window.h). */
  CEL_TUNE_FOLD_FRESH = 2,
  CEL_TUNE_BAND_SEAMS = 8,
  /* Steps of a fold on GPUs that nobody has asked for, in one or two dimensions
   * or of elementwise tasks (fold/depth.c); spec/bench/fold.lua measures it. */
  CEL_TUNE_FOLD_GPU = 16,
  /* Steps where a device cannot hold what one touches, as far as they read one
   * item around theirs: a link to the host takes some 50 times as long for a
   * byte as a GPU's memory. */
  CEL_TUNE_FOLD_SPILL = 16,
  /* On GPUs (kernels/fold.cuh) so many steps go in one launch of tiles: more
   * compute more items twice than the memory that they save.
   * spec/bench/fold.lua measures it. */
  CEL_TUNE_FOLD_TILE_STEPS = 4,
  /* And of streams (kernels/stream.cuh), for chunks of two dimensions of so
   * many items, or of eight times as many where arrays have more than 8 bytes
   * of each, where registers hold so many bytes of a column; at most so many
   * rows to a block. */
  CEL_TUNE_FOLD_STREAM_STEPS = 8,
  CEL_TUNE_FOLD_STREAM_ITEMS = 5 << 19,
  CEL_TUNE_FOLD_STREAM_BYTES = 64,
  CEL_TUNE_FOLD_STREAM_ROWS = 320,
  /* And of sheets (kernels/sheet.cuh), which go before streams up to so many
   * items, as many times more where these take: of as many rows as have so many
   * bytes of a column, or half as many again. More rows to a warp would spare a
   * tenth of what is computed twice, and take a compiler twice as long. */
  CEL_TUNE_FOLD_SHEET_STEPS = 8,
  CEL_TUNE_FOLD_SHEET_ITEMS = 96 << 20,
  CEL_TUNE_FOLD_SHEET_BYTES = 64,
  /* Folds of a pattern and size that are timed in one launch, and as many in
   * one launch for each step (cuda_trial.h). */
  CEL_TUNE_FOLD_TRIALS = 2,
  /* Sequences of steps that begin with a kernel of one module, of which a
   * launch is kept: each takes some 100 KB, and a second of a compiler. */
  CEL_TUNE_FOLD_FUSED = 32,
  /* What lies beyond a fold's range and has to be copied to spare memory, for
   * one launch: at most this share of what it writes there, or so many bytes,
   * which take as long as a launch. */
  CEL_TUNE_FOLD_KEPT_SHARE = 16,
  CEL_TUNE_FOLD_KEPT_BYTES = 1 << 20,
  /* Runs of a kernel after which its estimate only shrinks by one part in so
   * many of what it is too long. */
  CEL_TUNE_USUAL_WARM = 3,
  CEL_TUNE_USUAL_SHRINKS = 4,
  /* ns that a call is expected to take at most which the executor carries out
   * itself: what waking a thread costs both, where it sleeps; where it spins.
   * So long, at most, others wait for the executor between two polls. */
  CEL_TUNE_BRIEF_NS = 10000,
  CEL_TUNE_BRIEF_AWAKE_NS = 1000,
  /* The same where the process has one core: about as long as another thread
   * would keep that from the executor. spec/bench/prk/prk.lua, wavefront. */
  CEL_TUNE_BRIEF_ALONE_NS = 1000000,
  /* us after which another thread takes the executor's place, when such a call
   * does not end, at least; twice that at most. */
  CEL_TUNE_BRIEF_WATCH_US = 50000,
  /* Others that each thread wakes that joins. */
  CEL_TUNE_CREW_WAKES = 2,
  /* Blocks of a reducing call at most, and bytes of all their rows. [rounds] */
  CEL_TUNE_PARTIAL_BLOCKS = 64,
  CEL_TUNE_PARTIAL_BYTES = 16 << 20,
  /* Elements of all rows for each item, up to which rows are begun whole: to
   * ask whether a line was begun costs each item more than that. */
  CEL_TUNE_PARTIAL_FEW = 1,
  /* Bytes that the executor copies itself, before a thread would be awake. */
  CEL_TUNE_INLINE_COPY = 16 << 10,
  /* A copy by several threads: how many at most, bytes for each at least, bytes
   * of its parts. */
  CEL_TUNE_WIDE_THREADS = 8,
  CEL_TUNE_WIDE_BYTES = 16 << 20,
  CEL_TUNE_WIDE_PART = 4 << 20,
  /* Bytes for which initial contents are asked at a time where they cannot be
   * written in place. */
  CEL_TUNE_INIT_STAGING = 1 << 20,
  /* Bytes of identities that are copied at a time: what stays in the first
   * cache. */
  CEL_TUNE_IDENTITY_BYTES = 8 << 10,
  /* Bytes of a mapping that gets huge pages: these make the first touch several
   * times faster. */
  CEL_TUNE_HUGE_PAGES = 4 << 20,
  /* Bytes of a snapshot from which on it has pages of its own: those that are
   * never touched cost nothing. */
  CEL_TUNE_FENCE_MAPPED = 32 << 20,
  /* Bytes behind Lua's handles (buffers, what fences hold) between two of its
   * collections at least: what takes as long to fill as a collection takes. */
  CEL_TUNE_COLLECT_BYTES = 64 << 20,
  /* Memory with a capacity is given back in so many blocks, of so many bytes at
   * most. [graph] */
  CEL_TUNE_MEMORY_BLOCKS = 2048,
  CEL_TUNE_MEMORY_BLOCK_MOST = 64 << 20
};

/* ---- GPUs -----------------------------------------------------------------
 * device/cuda/. To ask for an event costs its thread over 1 us while the
 * stream runs.
 *
 * Measure: luajit spec/bench/cuda/run.lua (chains, idle time between steps,
 * sums and histograms, copies); spec/bench/cuda/column.cu for short rows.
 */
enum {
  /* Submissions between two looks at the events. */
  CEL_TUNE_CUDA_BATCH = 16,
  /* Jobs of a lane that are asked for by one event first. */
  CEL_TUNE_CUDA_STRIDE = 8,
  /* Jobs under way in a lane that has much to do; ns between two looks at it.
   */
  CEL_TUNE_CUDA_DEEP = 8,
  CEL_TUNE_CUDA_DEEP_NS = 10000,
  /* Looks in vain before a GPU's thread naps, and for how many us. */
  CEL_TUNE_CUDA_POLLS = 2000,
  CEL_TUNE_CUDA_NAP_US = 20,
  /* ns without work before it sleeps: to wake it takes 40 us, and 250 where its
   * core sleeps, too. Cores that this takes besides one for each GPU. */
  CEL_TUNE_CUDA_LINGER_NS = 5000000,
  CEL_TUNE_CUDA_SPARE_CORES = 4,
  /* Entries of the ring from the executor to a GPU's thread. */
  CEL_TUNE_CUDA_RING = 8192,
  /* Items of a thread at most, where the GPU has threads left for so many
   * rounds. */
  CEL_TUNE_CUDA_ITEMS = 4,
  CEL_TUNE_CUDA_ITEMS_3D = 16,
  CEL_TUNE_CUDA_ROUNDS = 4,
  /* Bytes of rows that go by the kernel for strided copies, below this; rows of
   * one copy, at least. The driver copies row by row. */
  CEL_TUNE_CUDA_NARROW = 256,
  CEL_TUNE_CUDA_PACK_ROWS = 64,
  /* Threads of its blocks, and blocks beyond which others are as fast. */
  CEL_TUNE_CUDA_PACK_BLOCK = 256,
  CEL_TUNE_CUDA_PACK_GRID = 4096,
  /* Threads that a reduction of items strides by: about as many as a large GPU
   * has at a time. The same on all GPUs. [rounds] */
  CEL_TUNE_CUDA_STRIDING = 1 << 18,
  /* Bytes of a block's own copies of what it reduces into, at most, and
   * elements of these for each item: beyond, atomics in the GPU's memory are
   * faster. [rounds] */
  CEL_TUNE_CUDA_SHARED_BYTES = 32 << 10,
  CEL_TUNE_CUDA_SHARED_ELEMENTS = 4,
  /* Threads of a block, and blocks, that begin and combine rows. */
  CEL_TUNE_CUDA_ROWS_THREADS = 256,
  CEL_TUNE_CUDA_ROWS_BLOCKS = 1024,
  /* Bytes of a slab that small pieces are cut from; of a block of memory
   * without a capacity. */
  CEL_TUNE_CUDA_SLAB = 8 << 20,
  CEL_TUNE_CUDA_BLOCK = 64 << 20,
  /* Of a GPU's memory, one part in so many is lent to other ranks at most. */
  CEL_TUNE_CUDA_LENT_SHARE = 64
};
/* Bytes of idle memory that is kept at most: to map what is idle spares calls
 * of the driver. */
#define CEL_TUNE_CUDA_IDLE_MOST (2ull << 30)

/* ---- samples --------------------------------------------------------------
 * device/sample.c, device/module/, device/cuda/cuda_sample.c: items of first
 * launches that a checked build computes.
 *
 * Measure: luajit spec/bench/sample.lua.
 */
enum {
  /* What may be spent on checks: ns, and one part in so many of the time since
   * the start. */
  CEL_TUNE_SAMPLE_NS = 20000000,
  CEL_TUNE_SAMPLE_SHARE = 100,
  /* Launches of a kernel with the same mappers that are sampled. */
  CEL_TUNE_SAMPLE_LAUNCHES = 4,
  /* On the processor: items in a row; how much slower a checked item is than
   * one that is vectorised, at most, and ns besides. */
  CEL_TUNE_SAMPLE_ROW = 8,
  CEL_TUNE_SAMPLE_SLOWER = 32,
  CEL_TUNE_SAMPLE_BEGIN_NS = 500,
  /* On a GPU: items of a patch, and the part of a chunk that one is at most;
   * how much slower checks are than the launch, at most, and ns besides. */
  CEL_TUNE_SAMPLE_PATCH_ITEMS = 4096,
  CEL_TUNE_SAMPLE_PATCH_SHARE = 8,
  CEL_TUNE_SAMPLE_CUDA_SLOWER = 16,
  CEL_TUNE_SAMPLE_CUDA_BEGIN_NS = 300000
};

/* ---- the timeline ---------------------------------------------------------
 * exec/trace/.
 *
 * Measure: any program with --trace beside it without.
 */
enum {
  /* Records of a ring: a power of two. Longer: its owner waits less often for a
   * slow file. */
  CEL_TUNE_TIMELINE_RECORDS = 1 << 14,
  /* us that an owner naps for room in its ring. */
  CEL_TUNE_TIMELINE_ROOM_US = 10000,
  /* Bytes that are written at once. */
  CEL_TUNE_TIMELINE_WRITE = 1 << 18
};

_Static_assert((int)CEL_TUNE_HELD_LAPS < (int)CEL_TUNE_LAPS_AHEAD,
               "main would wait for what the lookahead holds back");
_Static_assert((CEL_TUNE_TIMELINE_RECORDS & (CEL_TUNE_TIMELINE_RECORDS - 1)) ==
                   0,
               "counters of a timeline's ring wrap around");

#endif
