/* Beside the data: credits that open windows, announcements, and short texts.
 *
 * Credits and announcements are a word of 8 bytes, a number and in its lowest
 * bits which of them it is, and of which line. They are always expected: a few
 * receives for them stand open.
 * Texts are rare and of any size: now and then poll looks whether one has come.
 */
#include "comm/mpi/mpi.h"

/* --- credits and announcements ------------------------------------------ */

enum { ANNOUNCES = 1, LINE_SHIFT = 1, KIND_BITS = 3 };

static void send_word(cel__mpi *m, const cel__mpi_side *side, uint64_t number,
                      uint64_t kind) {
  uint64_t *value = cel_alloc(sizeof *value);
  MPI_Request request;
  *value = number << KIND_BITS | kind | (uint64_t)side->line << LINE_SHIFT;
  int code = MPI_Isend(value, 1, MPI_UINT64_T, (int)side->peer, CEL__TAG_CREDIT,
                       m->control, &request);
  if (cel__mpi_breaks(m, code, "sending a credit to", side->peer)) return;
  ++m->words_out;
  cel__mpi_track(m, request, CEL__WORD_OUT, value);
}

void cel__mpi_send_credit(cel__mpi *m, const cel__mpi_side *side,
                          uint64_t base) {
  send_word(m, side, base, 0);
}

void cel__mpi_announce(cel__mpi *m, const cel__mpi_side *side,
                       uint64_t sequence) {
  send_word(m, side, sequence, ANNOUNCES);
}

static void expect_credit(cel__mpi *m, uint64_t *value) {
  MPI_Request request;
  int code = MPI_Irecv(value, 1, MPI_UINT64_T, MPI_ANY_SOURCE, CEL__TAG_CREDIT,
                       m->control, &request);
  if (!cel__mpi_breaks(m, code, "receiving credits", -1))
    cel__mpi_track(m, request, CEL__CREDIT_IN, value);
}

void cel__mpi_expect_credits(cel__mpi *m) {
  if (m->credits) return;
  m->credits = true;
  for (int i = 0; i < CEL__CREDIT_RECEIVES; ++i)
    expect_credit(m, cel_alloc(sizeof(uint64_t)));
}

/* --- texts ------------------------------------------------------------- */

/* A text travels as the tail of cel_told: kind, size, bytes. */
_Static_assert(offsetof(cel_told, size) == offsetof(cel_told, kind) + 4 &&
                   offsetof(cel_told, data) == offsetof(cel_told, kind) + 8,
               "kind, size and data of cel_told lie side by side");
enum { TELL_HEAD = 8 };

void cel__mpi_tell(void *self, int64_t peer, int32_t kind, const void *data,
                   uint32_t size) {
  cel__mpi *m = self;
  cel_assert_driver();
  if (m->base.broken != NULL) return;
  char *bytes = cel_alloc(TELL_HEAD + (size_t)size);
  MPI_Request request;
  memcpy(bytes, &kind, sizeof kind);
  memcpy(bytes + 4, &size, sizeof size);
  if (size > 0) memcpy(bytes + TELL_HEAD, data, size);
  int code = MPI_Isend(bytes, (int)(TELL_HEAD + size), MPI_BYTE, (int)peer,
                       CEL__TAG_TELL, m->control, &request);
  if (cel__mpi_breaks(m, code, "telling", peer)) return;
  ++m->words_out;
  cel__mpi_track(m, request, CEL__WORD_OUT, bytes);
}

void cel__mpi_listen(cel__mpi *m) {
  int there = 0, bytes = 0;
  MPI_Status status;
  if (m->base.broken != NULL) return;
  if (m->telling) return; /* one at a time keeps their order */
  int code =
      MPI_Iprobe(MPI_ANY_SOURCE, CEL__TAG_TELL, m->control, &there, &status);
  if (cel__mpi_breaks(m, code, "looking for messages", -1) || !there) return;
  MPI_Get_count(&status, MPI_BYTE, &bytes);
  cel_told *told = cel_alloc(sizeof *told + (size_t)bytes - TELL_HEAD);
  MPI_Request request;
  told->peer = status.MPI_SOURCE;
  code = MPI_Irecv(&told->kind, bytes, MPI_BYTE, status.MPI_SOURCE,
                   CEL__TAG_TELL, m->control, &request);
  if (cel__mpi_breaks(m, code, "being told by", told->peer)) return;
  m->telling = true;
  cel__mpi_track(m, request, CEL__TELL_IN, told);
}

cel_told *cel__mpi_told(void *self) {
  cel__mpi *m = self;
  cel_assert_driver();
  if (m->told_head == m->told.n) return NULL;
  cel_told *told = m->told.at[m->told_head++];
  if (m->told_head == m->told.n) m->told_head = m->told.n = 0;
  return told;
}

/* --- completions ------------------------------------------------------- */

void cel__mpi_control_ended(cel__mpi *m, cel__mpi_row row,
                            const MPI_Status *status) {
  switch (row.role) {
  case CEL__WORD_OUT:
    --m->words_out;
    cel_free(row.what);
    break;
  case CEL__CREDIT_IN: {
    uint64_t word = *(uint64_t *)row.what, number = word >> KIND_BITS;
    uint8_t line = word >> LINE_SHIFT & (CEL__MPI_LINES - 1);
    expect_credit(m, row.what);
    if (word & ANNOUNCES)
      cel__mpi_announced(m, status->MPI_SOURCE, line, number);
    else
      cel__mpi_granted(m, status->MPI_SOURCE, line, number);
    break;
  }
  case CEL__TELL_IN:
    m->telling = false;
    cel_vec_push(&m->told, row.what);
    break;
  case CEL__BALLOT_IN: cel__mpi_voted(m, row.what); break;
  case CEL__CALL: ((cel__mpi_call *)row.what)->over = true; break;
  default: cel_bug("request of role %d", (int)row.role);
  }
}

void cel__mpi_release_control(cel__mpi *m) {
  for (cel_told *told; (told = cel__mpi_told(m)) != NULL;) cel_free(told);
  cel_vec_release(&m->told);
}
