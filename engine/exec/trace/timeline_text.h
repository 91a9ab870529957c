/* timeline_text.h -- one record of a timeline as lines of JSON.
 *
 * Each event is a line that ends in a comma; the first mention of a track also
 * gives its name. Confined to the timeline's thread.
 */
#ifndef CEL_EXEC_TRACE_TIMELINE_TEXT_H
#define CEL_EXEC_TRACE_TIMELINE_TEXT_H

#include "base/text.h"
#include "exec/trace/span.h"

#ifndef CEL_CDEF
typedef struct cel_text_track {
  int32_t tid;
  int64_t end; /* of its last span */
} cel_text_track;

/* All zero but for the first three to begin. The holder owns it. */
typedef struct cel_timeline_text {
  int64_t rank;
  int64_t offset;       /* added to all times, ns */
  int32_t kernel_lanes; /* of a device; those above are for copies */
  cel_text out;         /* what was made; whoever writes it empties it */
  CEL_VEC(cel_text_track) tracks;
} cel_timeline_text;

/* The opening bracket, and what the rank is called. */
void cel_timeline_text_begin(cel_timeline_text *text, const char *host);
void cel_timeline_text_add(cel_timeline_text *text, const cel_span *span);
/* The last event, without a comma, and the closing bracket. */
void cel_timeline_text_end(cel_timeline_text *text);
void cel_timeline_text_release(cel_timeline_text *text);
#endif

#endif
