/* internal.h -- one rank's engine, as its parts see it.
 *
 * Threads and what each may touch: `main` holds the task graph and the buffers,
 * `scheduler` the command and instruction graphs, `executor` the executor;
 * between them are two rings, and atomics that only grow. `lock` guards the
 * records of failures.
 *
 * Retirement: the executor publishes the newest executed horizon (`reached`);
 * the scheduler then drops commands and instructions that are older and
 * publishes `retired`; main then drops tasks and freed buffers.
 */
#ifndef CEL_RUNTIME_INTERNAL_H
#define CEL_RUNTIME_INTERNAL_H

#include <pthread.h>
#include <stdatomic.h>

#include "base/confined.h"
#include "base/park.h"
#include "base/ring.h"
#include "base/vec.h"
#include "fold/window.h"
#include "runtime/divergence.h"
#include "runtime/engine.h"
#include "runtime/idle.h"
#include "runtime/watchdog.h"

/* A horizon or epoch under way, for the scheduler to retire what it closes. */
typedef struct cel_horizon_ids {
  uint64_t task, command, instr; /* instr: 0 while held back */
} cel_horizon_ids;

/* What one thread does at a time: the one that is there for it, or main while
 * it waits, which spares the ways to that thread and back. */
typedef struct cel_role {
  _Atomic(bool) taken;
  cel_thread_kind before; /* what who has it is else */
} cel_role;

typedef struct cel_scheduler {
  cel_command_graph *commands;
  cel_instr_graph *instrs;
  CEL_VEC(cel_horizon_ids) horizons; /* oldest first */
  uint64_t retired;                  /* task id */
  cel_status status;                 /* of the step under way */
  void *held;    /* a task that waits for what is late (task/late.h); or null */
  bool dropping; /* one instruction was not handed over: none is after it */
} cel_scheduler;

/* Collectives between devices, which start when they are first needed
 * (joining.c): not asked for; to be started by the executor; there, or not. */
typedef enum cel__joining {
  CEL__JOINING_NOT,
  CEL__JOINING_ASKED,
  CEL__JOINING_DONE,
  CEL__JOINING_REFUSED
} cel__joining;

typedef struct cel_owned_buffer {
  cel_buffer *buffer;
  uint64_t freed; /* id of the last task when it was freed; 0: alive */
} cel_owned_buffer;

typedef struct cel_owned_object {
  cel_object *object;
  uint64_t freed; /* as a buffer's */
} cel_owned_object;

/* What one thread writes for each task, and another one reads, has lines of its
 * own: a line that two of them write goes to and fro. */
struct cel_engine {
  cel_engine_config config;
  int polls;      /* before the executor naps, while messages are under way */
  bool own_cores; /* of this rank alone */
  bool to_spare;  /* more cores than threads, but for those of kernels */
  cel_rules *rules;
  cel_task_graph *graph;  /* main's */
  cel_fold_window *folds; /* main's: between that and the ring */
  cel_ring *tasks;        /* to the scheduler: cel_task, or &flush */
  cel_ring *instrs;       /* to the executor */
  cel_executor *executor;
  pthread_t scheduler_thread, executor_thread, stand_in_thread;
  bool has_executor, has_stand_in;
  /* Written seldom. */
  _Alignas(CEL_LINE) _Atomic(bool) failed;
  _Atomic(bool) stop, abandoned;
  _Atomic(bool) lost;        /* by main: `loss` is there for the executor */
  _Atomic(uint64_t) retired; /* task id; by the scheduler; only grows */
  _Atomic(uint64_t) reached; /* task id; by the executor; as the next */
  _Atomic(uint64_t) horizons_done; /* and epochs, as horizons_made */
  _Atomic(uint64_t) laps_done;     /* up to the newest of these */
  _Atomic(bool) awaits;            /* by main: it waits */
  _Atomic(bool) hurries;           /* by main: it waits, or is about to */
  _Atomic(bool) dozes; /* by the scheduler: it is woken for no more tasks */
  /* By main, before it looks: it waits until fewer horizons are under way; the
   * executor looks when one is done. One of them sees the other's. */
  _Atomic(bool) awaits_turn;
  _Alignas(CEL_LINE) cel_park park;
  _Alignas(CEL_LINE) cel_park scheduler_park;
  /* main */
  _Alignas(CEL_LINE) CEL_VEC(cel_owned_buffer) buffers;
  uint32_t buffers_made;
  CEL_VEC(cel_owned_object) objects;
  uint32_t objects_made;
  uint64_t last_task, retired_seen;
  uint64_t laps_made;            /* up to the newest horizon or epoch */
  uint64_t laps_ahead, fold_lap; /* that main may be; of the last fold for which
                                    it may be so far */
  int64_t began, main_began;     /* at the first submission; times.c */
  const cel_rule *fence_rule[4]; /* by dimensions */
  bool stopped;
  cel_location at; /* of what main submitted last */
  int64_t waited;  /* by main, ns */
  cel_error loss;  /* what found a device lost */
  char flush;
  bool helps;                                  /* it takes in what it pushes */
  _Atomic(uint64_t) horizons_made, tasks_made; /* only grow, as all of these */
  /* scheduler */
  _Alignas(CEL_LINE) cel_scheduler scheduler;
  cel_role scheduling; /* who has it holds the above */
  _Atomic(uint64_t) commands_made, instrs_made;
  _Atomic(cel__joining)
      joining; /* asked by the scheduler, then the executor's */
  char no_joining[CEL_JOIN_WHY]; /* why it was refused */
  /* executor */
  _Alignas(CEL_LINE) _Atomic(uint64_t) moves; /* steps with progress */
  cel_role executing; /* who has it holds the executor, and what is here */
  _Atomic(bool) lent; /* by main, which has it, and sleeps in config.park */
  cel_park off_duty;  /* of the thread, when it finds that */
  int crowded;        /* naps left before it tries to yield again */
  bool told_others;
  cel_watchdog watchdog; /* control messages move nothing */
  cel_idle idle;
  _Alignas(CEL_LINE) cel_divergence divergence;
  pthread_mutex_t lock; /* guards the three */
  cel_error failure;
  cel_error mishap; /* the first that was not asked for */
  uint64_t mishaps; /* how many there are */
};

/* All three threads. Thread: any. */
void cel__engine_wake(cel_engine *engine);
/* Keeps the first failure and wakes everybody. Thread: any. */
void cel__engine_fail(cel_engine *engine, const cel_error *error);
bool cel__engine_failed(const cel_engine *engine);

/* Passes on what main found lost, once. Thread: executor. */
void cel__engine_take_loss(cel_engine *engine);
/* Keeps it for cel_engine_mishap. Thread: executor. */
void cel__engine_forgive(void *engine, const cel_error *error);

/* False where another thread has it. The caller is of that kind until it
 * leaves. Thread: main, or the role's. */
bool cel__role_take(cel_role *role, cel_thread_kind kind);
void cel__role_leave(cel_role *role);

/* Makes the executor, and finds which cores its thread has. Thread: main. */
void cel__executor_init(cel_engine *engine);
/* Main is the executor until it gives that back; false where the thread is at
 * work, or spins, and has news as soon as main. Thread: main, which is about to
 * wait. */
bool cel__executor_borrow(cel_engine *engine);
/* Moves it on, or waits for news of anything, for `most_us` at most. `polls`
 * counts looks in vain, from 0. False when that took so long that the thread
 * has been given it back. Thread: main, in between. */
bool cel__executor_turn(cel_engine *engine, int *polls, uint32_t most_us);
/* If main has it, and does not come back: its thread gets it. Thread: that
 * which stands in. */
bool cel__executor_take_back(cel_engine *engine);
/* What is left is the thread's. Thread: main. */
void cel__executor_give_back(cel_engine *engine);
/* Wakes who is the executor. Thread: any. */
void cel__executor_wake(cel_engine *engine);
/* Tells main, wherever it sleeps, that something is there. Thread: any. */
void cel__main_wake(cel_engine *engine);
/* Takes instructions in and moves the executor on until it is to stop. */
void *cel__executor_main(void *engine);
/* Takes the executor's place when that carries out something too long
 * (device/aside.h). */
void *cel__stand_in_main(void *engine);

void cel__scheduler_init(cel_engine *engine);
void cel__scheduler_release(cel_engine *engine);
/* Takes in one item; whether there was any. Thread: scheduler. */
bool cel__scheduler_step(cel_engine *engine);
/* Takes in a few items instead of its thread, unless that is at work or spins;
 * false where it leaves some to it. Thread: main, while it waits. */
bool cel__scheduler_help(cel_engine *engine);
void *cel__scheduler_main(void *engine);

/* All that was submitted is carried out, and then collectives between devices
 * start; whether they do, as on all ranks. Thread: scheduler. */
bool cel__joining_ask(void *engine);
/* Does what is asked, once nothing is under way; whether it is done. Thread:
 * executor. */
bool cel__joining_step(cel_engine *engine);

/* Waits until `ready` or a failure; without threads it only looks. Thread:
 * main. */
cel_status cel__engine_await(cel_engine *engine,
                             bool (*ready)(const cel_engine *, const void *),
                             const void *context, bool (*interrupted)(void));
/* From now on threads' times count. Thread: main. */
void cel__engine_begin(cel_engine *engine);
/* Ends the buffers and objects that were freed before task `retired`. Thread:
 * main. */
void cel__owned_retire(cel_engine *engine, uint64_t retired);
/* Ends all of them. Thread: main. */
void cel__owned_release(cel_engine *engine);
/* 0 where nobody writes a timeline. Thread: main, scheduler. */
int64_t cel__engine_now(const cel_engine *engine);
/* Something of a task that began then has been done, if anybody writes that
 * down. Thread: main for SUBMIT and WAIT, scheduler for SCHEDULE. */
void cel__engine_add_span(cel_engine *engine, cel_span_kind kind, uint64_t task,
                          const char *name, cel_location location,
                          int64_t begin);
/* Hands a task or the flush mark to the scheduler. Thread: main. */
void cel__engine_pass(cel_engine *engine, void *item);

#endif
