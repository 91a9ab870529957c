#include "task/known.h"

#include <string.h>

#include "task/check.h"

static uint8_t first_of_buffer(const cel_group *group, uint32_t i) {
  uint8_t k = 0;
  while (group->access[k].buffer != group->access[i].buffer) ++k;
  return k;
}

static bool same_split(const cel_split_kind *a, const cel_split_kind *b) {
  for (int d = 0; d < CEL_DIMS; ++d)
    if (a->cut[d] != b->cut[d] || a->granularity[d] != b->granularity[d])
      return false;
  return true;
}

static bool is_plain(const cel_group *group) {
  return group->work != NULL && group->placement == CEL_PLACE_SPLIT &&
         group->collective_group == 0 && group->weights == NULL &&
         group->home == NULL && group->effects == 0 &&
         group->reduced.file == NULL;
}

static bool same_access(const cel_known_access *known, const int64_t *param,
                        const cel_group *group, uint32_t i) {
  const cel_access *access = &group->access[i];
  const cel_rule *rule = access->use.rule;
  if (access->reducer != NULL || access->rows != 0 || known->rule != rule->id ||
      known->mode != access->mode || known->disjoint != access->disjoint ||
      known->same != first_of_buffer(group, i) ||
      !cel_box_equal(&known->extent, &access->buffer->extent))
    return false;
  for (int32_t p = 0; p < rule->desc.params; ++p)
    if (param[p] != access->use.params[p]) return false;
  return true;
}

bool cel__known_holds(const cel_known *known, uint64_t graph,
                      const cel_group *group) {
  if (known->graph != graph || !is_plain(group) || known->kind != group->kind ||
      known->dims != group->dims ||
      known->oversubscribe != group->oversubscribe ||
      known->fold != group->fold || known->lua != group->work->lua ||
      memcmp(known->work_group, group->work->work_group,
             sizeof known->work_group) != 0 ||
      known->accesses != group->accesses ||
      !cel_box_equal(&known->range, &group->range) ||
      !same_split(&known->permitted, &group->permitted))
    return false;
  const int64_t *param = known->param;
  for (uint32_t i = 0; i < group->accesses; ++i) {
    if (!same_access(&known->access[i], param, group, i)) return false;
    param += group->access[i].use.rule->desc.params;
  }
  return true;
}

bool cel__known_note(cel_known *known, uint64_t graph, const cel_group *group) {
  known->graph = 0;
  if (!is_plain(group) || group->accesses > CEL_KNOWN_ACCESSES) return false;
  int32_t params = 0;
  for (uint32_t i = 0; i < group->accesses; ++i) {
    const cel_access *access = &group->access[i];
    if (cel__writes_apart(access))
      return false; /* what it may is no matter of
                       its shape */
    if (access->reducer != NULL || access->rows != 0 ||
        access->use.rule->listing != NULL)
      return false;
    int32_t n = access->use.rule->desc.params;
    if (params + n > CEL_KNOWN_PARAMS) return false;
    if (n > 0)
      memcpy(known->param + params, access->use.params,
             (size_t)n * sizeof *known->param);
    params += n;
    known->access[i] = (cel_known_access){.rule = access->use.rule->id,
                                          .mode = access->mode,
                                          .disjoint = access->disjoint,
                                          .same = first_of_buffer(group, i),
                                          .extent = access->buffer->extent};
  }
  known->graph = graph;
  known->kind = group->kind;
  known->dims = group->dims;
  known->oversubscribe = group->oversubscribe;
  known->fold = group->fold;
  known->lua = group->work->lua;
  memcpy(known->work_group, group->work->work_group, sizeof known->work_group);
  known->range = group->range;
  known->permitted = group->permitted;
  known->accesses = group->accesses;
  return true;
}
