/* Why nothing can hang.
 *
 * A transfer may wait here for three things: the window of its channel, the
 * bound on requests, and the other end. Take, of all incomplete transfers of
 * the job, the one that comes first in the global command order, T, on channel
 * (s, r) with number q. All that T's two ends depend on comes earlier and is
 * complete, so both will be handed over. Every earlier transfer of the channel
 * is complete at the receiver, so there base = q. The receiver has told the
 * sender all but less than size / 4 of that (or size / 2, for a window of two,
 * where it tells each one), so q < granted; the sender's requests for earlier
 * transfers end without anybody's help, so there base comes to be q, too. And
 * number `base` starts even where the bound is reached, at both ends. If T is
 * announced, the sender waits for that, too; the receiver announces T as it
 * starts. What waits for its announcement is not in the window, but `base`
 * cannot pass it. So T is on its way. The bound is thus exceeded by one message
 * per channel at most, with all of its parts.
 *
 * A bound without this exception would deadlock: it could be filled with
 * receives of which none can come before the one that was left out.
 */
#include "base/hash.h"
#include "comm/mpi/mpi.h"
#include "tuning.h"

/* --- peers ------------------------------------------------------------- */

static cel__mpi_peer **peer_slot(const cel__mpi *m, int64_t rank,
                                 uint8_t line) {
  uint64_t mask = m->peers.cap - 1;
  uint64_t i = cel_hash(&rank, sizeof rank, line) & mask;
  while (m->peers.at[i] != NULL && (m->peers.at[i]->side[0].peer != rank ||
                                    m->peers.at[i]->side[0].line != line))
    i = (i + 1) & mask;
  return &m->peers.at[i];
}

static void grow_peers(cel__mpi *m) {
  cel__mpi_peer **old = m->peers.at;
  uint32_t cap = m->peers.cap;
  m->peers.cap = cap == 0 ? 16 : cap * 2;
  m->peers.at = cel_alloc_zero(m->peers.cap * sizeof *m->peers.at);
  for (uint32_t i = 0; i < cap; ++i)
    if (old[i] != NULL)
      *peer_slot(m, old[i]->side[0].peer, old[i]->side[0].line) = old[i];
  cel_free(old);
}

/* Whether a rank is on another host. */
static bool is_apart(const cel__mpi *m, int64_t rank) {
  MPI_Group all, here;
  int of_all = (int)rank, of_here = MPI_UNDEFINED;
  MPI_Comm_group(MPI_COMM_WORLD, &all);
  MPI_Comm_group(m->host, &here);
  MPI_Group_translate_ranks(all, 1, &of_all, here, &of_here);
  MPI_Group_free(&all);
  MPI_Group_free(&here);
  return m->config.apart || of_here == MPI_UNDEFINED;
}

static cel__mpi_side *side_of(cel__mpi *m, int64_t rank, uint8_t line,
                              cel__mpi_role role) {
  cel_assert(rank >= 0 && rank < m->base.ranks && line < CEL__MPI_LINES);
  if (m->peers.n * 2 >= m->peers.cap) grow_peers(m);
  cel__mpi_peer **slot = peer_slot(m, rank, line);
  if (*slot == NULL) {
    *slot = cel_alloc_zero(sizeof **slot);
    ++m->peers.n;
    uint32_t size = m->config.window;
    for (int d = 0; d < 2; ++d) {
      (*slot)->side[d].peer = rank;
      (*slot)->side[d].line = line;
      (*slot)->side[d].apart = is_apart(m, rank);
      (*slot)->side[d].role = d == 0 ? CEL__SEND : CEL__RECEIVE;
      cel_mpi_window_init(&(*slot)->side[d].window, size,
                          d == 0 ? size / 2 : UINT64_MAX);
    }
  }
  return &(*slot)->side[role];
}

void cel__mpi_release_peers(cel__mpi *m) {
  for (uint32_t i = 0; i < m->peers.cap; ++i) {
    if (m->peers.at[i] == NULL) continue;
    for (int d = 0; d < 2; ++d) {
      cel_mpi_window_release(&m->peers.at[i]->side[d].window);
      cel_vec_release(&m->peers.at[i]->side[d].unannounced);
      cel_vec_release(&m->peers.at[i]->side[d].announced);
    }
    cel_free(m->peers.at[i]);
  }
  cel_free(m->peers.at);
}

/* --- reporting --------------------------------------------------------- */

void cel__mpi_report(cel__mpi *m, uint64_t ticket, bool good) {
  cel_done done = {ticket, NULL};
  if (!good) {
    done.error = cel_alloc(sizeof m->error);
    *done.error = m->error;
  }
  cel_vec_push(&m->done, done);
}

/* A transfer has ended that MPI does not hold (or holds in a job that ends). */
static void end(cel__mpi *m, cel__mpi_transfer *transfer, bool good) {
  cel__mpi_report(m, transfer->message->ticket, good);
  cel_free(transfer);
  --m->transfers;
}

void cel__mpi_forget_waiting(cel__mpi *m) {
  for (uint32_t i = 0; i < m->peers.cap; ++i)
    for (int d = 0; m->peers.at[i] != NULL && d < 2; ++d) {
      cel__mpi_side *side = &m->peers.at[i]->side[d];
      cel_mpi_window *w = &side->window;
      for (uint32_t k = 0; k < w->waiting.n; ++k)
        cel_free(w->waiting.at[k].item);
      cel_vec_clear(&w->waiting);
      while (side->unannounced.n > 0) cel_free(cel_vec_pop(&side->unannounced));
    }
}

void cel__mpi_fail_all(cel__mpi *m) {
  for (uint32_t i = 0; i < m->row.n; ++i) {
    cel__mpi_row *row = &m->row.at[i];
    if (row->role > CEL__COLLECTIVE || row->what == NULL) continue;
    cel__mpi_transfer *transfer = row->what;
    if (row->role == CEL__COLLECTIVE)
      cel__mpi_joined(m, row->what, false);
    else if (--transfer->parts == 0)
      end(m, transfer, false);
    row->what = NULL; /* the request stays: MPI may write on */
  }
  for (uint32_t i = 0; i < m->peers.cap; ++i)
    for (int d = 0; m->peers.at[i] != NULL && d < 2; ++d) {
      cel__mpi_side *side = &m->peers.at[i]->side[d];
      cel_mpi_window *w = &side->window;
      for (uint32_t k = 0; k < w->waiting.n; ++k)
        end(m, w->waiting.at[k].item, false);
      cel_vec_clear(&w->waiting);
      while (side->unannounced.n > 0)
        end(m, cel_vec_pop(&side->unannounced), false);
    }
}

void cel__mpi_check(const cel__mpi *m) {
  uint32_t rows[2] = {0}, lined = 0;
  if (m->failed) return;
  for (uint32_t i = 0; i < m->row.n; ++i)
    if (m->row.at[i].role <= CEL__RECEIVE) ++rows[m->row.at[i].role];
  for (uint32_t i = 0; i < m->peers.cap; ++i)
    for (int d = 0; m->peers.at[i] != NULL && d < 2; ++d) {
      cel_mpi_window_check(&m->peers.at[i]->side[d].window);
      lined += m->peers.at[i]->side[d].lined;
    }
  for (int d = 0; d < 2; ++d) {
    const cel__mpi_flow *flow = &m->flow[d];
    if (rows[d] != flow->in_flight)
      cel_bug("%u transfers are under way, not %u", rows[d], flow->in_flight);
    if (flow->in_flight > flow->most + (m->peers.n + 1) * m->parts_most)
      cel_bug("%u transfers are too many", flow->in_flight);
    for (const cel__mpi_side *s = flow->first; s != NULL; s = s->next) {
      if (!s->lined || s->role != (cel__mpi_role)d)
        cel_bug("a side is in a line that it is not of");
      --lined;
    }
  }
  if (lined != 0) cel_bug("%u sides are in no line", lined);
}

/* --- starting ---------------------------------------------------------- */

bool cel__mpi_in_parts(const cel__mpi *m, const cel__mpi_transfer *transfer) {
  return transfer->side->apart &&
         transfer->message->bytes > m->config.announced_bytes;
}

static void start_part(cel__mpi *m, cel__mpi_transfer *transfer, void *base,
                       int count, MPI_Datatype type) {
  const cel_posted *message = transfer->message;
  cel__mpi_role role = transfer->side->role;
  int window = (int)m->config.window;
  int place = (int)(message->sequence & (m->config.window - 1));
  int length = cel__mpi_length_class(message->bytes, m->tag_lengths);
  int tag = 1 + place + window * (length * CEL__MPI_LINES + message->line);
  int code, peer = (int)message->peer;
  MPI_Request request;
  if (role == CEL__SEND) {
    code = MPI_Isend(base, count, type, peer, tag, m->data, &request);
    if (cel__mpi_bad(m, code, "sending to", peer)) return;
  } else {
    code = MPI_Irecv(base, count, type, peer, tag, m->data, &request);
    if (cel__mpi_bad(m, code, "receiving from", peer)) return;
  }
  ++m->flow[role].in_flight;
  if (++transfer->parts > m->parts_most) m->parts_most = transfer->parts;
  cel__mpi_track(m, request, role, transfer);
}

/* Parts of one message have one tag: MPI matches them in order. */
static void start_parts(cel__mpi *m, cel__mpi_transfer *transfer, char *base) {
  uint64_t left = transfer->message->bytes, part = m->config.part_bytes;
  if (part < left / CEL_TUNE_MPI_PARTS) part = left / CEL_TUNE_MPI_PARTS;
  while (left > 0 && !m->failed) {
    if (part > left) part = left;
    start_part(m, transfer, base, (int)part, MPI_BYTE);
    base += part;
    left -= part;
  }
  if (transfer->side->role == CEL__RECEIVE && !m->failed)
    cel__mpi_announce(m, transfer->side, transfer->message->sequence);
}

static void start(cel__mpi *m, cel__mpi_transfer *transfer) {
  int count;
  void *base;
  MPI_Datatype type;
  if (cel__mpi_pack(m, transfer, &base, &count, &type) != CEL_E_OK)
    cel__mpi_fail(m);
  else if (cel__mpi_in_parts(m, transfer))
    start_parts(m, transfer, base);
  else
    start_part(m, transfer, base, count, type);
  if (transfer->parts > 0) return;
  cel__mpi_unpack(m, transfer, false);
  end(m, transfer, false);
}

static void line_up(cel__mpi_flow *flow, cel__mpi_side *side) {
  if (side->lined || !cel_mpi_window_ready(&side->window, false)) return;
  side->lined = true;
  side->next = NULL;
  if (flow->last != NULL)
    flow->last->next = side;
  else
    flow->first = side;
  flow->last = side;
}

static cel__mpi_side *line_pop(cel__mpi_flow *flow) {
  cel__mpi_side *side = flow->first;
  flow->first = side->next;
  if (flow->first == NULL) flow->last = NULL;
  side->lined = false;
  return side;
}

/* Starts what may start, side by side in turn. */
static void pump(cel__mpi *m, cel__mpi_flow *flow) {
  while (flow->first != NULL && flow->in_flight < flow->most && !m->failed) {
    cel__mpi_side *side = line_pop(flow);
    cel__mpi_transfer *transfer = cel_mpi_window_take(&side->window, false);
    if (transfer != NULL) start(m, transfer);
    line_up(flow, side);
  }
}

/* Something about `side` has changed that may let a transfer start. */
static void changed(cel__mpi *m, cel__mpi_side *side) {
  cel__mpi_flow *flow = &m->flow[side->role];
  line_up(flow, side);
  pump(m, flow);
  if (m->failed) return; /* the next poll fails what waits */
  cel__mpi_transfer *first = cel_mpi_window_take(&side->window, true);
  if (first != NULL) start(m, first);
}

/* Whether its receiver has announced that number, which is then forgotten. */
static bool is_announced(cel__mpi_side *side, uint64_t sequence) {
  for (uint32_t i = 0; i < side->announced.n; ++i) {
    if (side->announced.at[i] != sequence) continue;
    cel_vec_swap_out(&side->announced, i);
    return true;
  }
  return false;
}

static void post(cel__mpi *m, const cel_posted *message, cel__mpi_role role) {
  cel_assert_driver();
  cel_assert(!message->direct);
  if (m->failed) {
    cel__mpi_report(m, message->ticket, false);
    return;
  }
  cel__mpi_transfer *transfer = cel_alloc(sizeof *transfer);
  cel__mpi_side *side = side_of(m, message->peer, message->line, role);
  *transfer = (cel__mpi_transfer){
      .message = message, .side = side, .type = MPI_DATATYPE_NULL};
  ++m->transfers;
  if (role == CEL__SEND && cel__mpi_in_parts(m, transfer) &&
      !is_announced(side, message->sequence)) {
    cel_vec_push(&side->unannounced, transfer);
    return;
  }
  cel_mpi_window_add(&side->window, message->sequence, transfer);
  changed(m, side);
}

void cel__mpi_announced(cel__mpi *m, int64_t peer, uint8_t line,
                        uint64_t sequence) {
  cel__mpi_side *side = side_of(m, peer, line, CEL__SEND);
  for (uint32_t i = 0; i < side->unannounced.n; ++i) {
    cel__mpi_transfer *transfer = side->unannounced.at[i];
    if (transfer->message->sequence != sequence) continue;
    cel_vec_swap_out(&side->unannounced, i);
    cel_mpi_window_add(&side->window, sequence, transfer);
    changed(m, side);
    return;
  }
  cel_vec_push(&side->announced, sequence);
}

void cel__mpi_send(void *self, const cel_posted *message) {
  cel__mpi_expect_credits(self);
  post(self, message, CEL__SEND);
}

void cel__mpi_receive(void *self, const cel_posted *message) {
  post(self, message, CEL__RECEIVE);
}

/* --- completing -------------------------------------------------------- */

/* Tells the sender, a quarter of the window at a time. */
static void credit(cel__mpi *m, cel__mpi_side *side) {
  uint64_t quarter = m->config.window / 4;
  if (side->window.base - side->told < (quarter > 0 ? quarter : 1)) return;
  side->told = side->window.base;
  cel__mpi_send_credit(m, side, side->told);
}

/* Both ends know how long each message is; if they disagree, a rank has gone
 * astray and its data must not be taken for good. */
static bool whole(cel__mpi *m, const cel__mpi_transfer *transfer) {
  if (transfer->side->role == CEL__SEND) return true;
  const cel_posted *message = transfer->message;
  if (transfer->got == message->bytes) return true;
  cel_fail(CEL_E_COMM,
           "message %llu from rank %lld holds %lld bytes, but %llu are "
           "expected: the two ranks do not run the same program",
           (unsigned long long)message->sequence, (long long)message->peer,
           (long long)transfer->got, (unsigned long long)message->bytes);
  cel__mpi_fail(m);
  return false;
}

void cel__mpi_arrived(cel__mpi *m, cel__mpi_transfer *transfer,
                      const MPI_Status *status) {
  cel__mpi_side *side = transfer->side;
  MPI_Count got = 0;
  if (status != NULL && side->role == CEL__RECEIVE)
    MPI_Get_elements_x(status, MPI_BYTE, &got);
  transfer->got += (uint64_t)got;
  transfer->failed |= status == NULL;
  --m->flow[side->role].in_flight;
  if (--transfer->parts > 0) return;
  bool good = !transfer->failed && whole(m, transfer);
  cel__mpi_unpack(m, transfer, good);
  cel_mpi_window_complete(&side->window, transfer->message->sequence);
  end(m, transfer, good);
  if (side->role == CEL__RECEIVE && good) credit(m, side);
  changed(m, side);
}

void cel__mpi_granted(cel__mpi *m, int64_t peer, uint8_t line, uint64_t base) {
  cel__mpi_side *side = side_of(m, peer, line, CEL__SEND);
  cel_mpi_window_credit(&side->window, base);
  changed(m, side);
}
