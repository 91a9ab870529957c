#include "instr/instr.h"

static const struct {
  const char *name;
  cel_instr_lane lane;
} kinds[] = {
#define KIND_ROW(NAME, name, lane) {#name, CEL_LANE_##lane},
    CEL_INSTR_KINDS(KIND_ROW)
#undef KIND_ROW
};

const char *cel_instr_name(cel_instr_kind kind) {
  return kinds[kind].name;
}

cel_instr_lane cel_instr_lane_of(cel_instr_kind kind) {
  return kinds[kind].lane;
}
