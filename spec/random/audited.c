/* Programs that are audited: each touch is marked, and the audit must find no
 * fault in any, whatever the cut, the pieces and the rounds. Fences read what
 * nobody wrote as well. */
#include <stdio.h>

#include "random/program.h"

void touched_mark(cel_touched *touched, const cel_box *promised,
                  const int64_t *point) {
  unsigned char *byte = &touched->map[index_of(promised, point)];
  if (*byte == 0)
    touched->outside++;
  else
    *byte |= CEL_TOUCHED;
}

bool audit_clean(const rank *r, char *text, size_t size) {
  const cel_audit_row *row;
  uint32_t n = r->audit != NULL ? cel_audit_rows(r->audit, &row) : 0;
  for (uint32_t i = 0; i < n; ++i) {
    const char *what = row[i].outside.count > 0 ? "touches too much"
                       : row[i].marks && row[i].undefined.count > 0
                           ? "reads what is undefined"
                       : row[i].seen.touched > row[i].seen.promised
                           ? "touches more than there is"
                           : NULL;
    if (what == NULL) continue;
    snprintf(text, size,
             "mismatch: rank %d: by the audit step %d, access %d %s", r->index,
             (int)row[i].location.line, (int)row[i].access, what);
    return false;
  }
  return true;
}
