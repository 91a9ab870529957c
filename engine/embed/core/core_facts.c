/* Numbers that C and Lua share, by list and name. */
#include "embed/core/core_facts.h"

#include "base/limits.h"
#include "base/operator.h"
#include "comm/communicator.h"
#include "comm/report.h"
#include "embed/choice.h"
#include "embed/core/core.h"
#include "embed/core/core_kernel.h"
#include "embed/core/core_recall.h"
#include "embed/core/core_submit.h"
#include "fold/fold.h"
#include "rule/eval.h"

#define MODE(NAME, name, consumes, produces) {"mode", #name, CEL_MODE_##NAME},
#define ORDER(NAME, name) {"order", #name, CEL_ORDER_##NAME},
#define OP(NAME, name) {"operator", #name, CEL_OP_##NAME},
#define RULE_OP(NAME, pops, text) {"rule", #NAME, CEL_RULE_##NAME},
#define STATUS(NAME, text) {"status", #NAME, CEL_E_##NAME},
#define LOW(class_, size, low, high) {"low", #class_ #size, low},
#define HIGH(class_, size, low, high) {"high", #class_ #size, high},

const cel_fact cel_facts[] = {
    CEL_MODES(MODE){"mode", "read_disjoint", CEL__READ_DISJOINT},
    CEL_ORDERS(ORDER) CEL_OPS(OP)
        CEL_RULE_OPS(RULE_OP){"rule", "N", CEL_RULE_OPS_N},
    CEL_STATUSES(STATUS){"access", "buffer", CEL__ACCESS_BUFFER},
    {"access", "spelt", CEL__ACCESS_SPELT},
    {"access", "map", CEL__ACCESS_MAP},
    {"access", "owner", CEL__ACCESS_OWNER},
    {"hidden", "handle", CEL__ACCESS_HANDLE},
    {"placement", "split", CEL_PLACE_SPLIT},
    {"placement", "once", CEL_PLACE_ONCE},
    {"placement", "each", CEL_PLACE_EACH},
    {"param", "ITEM", CEL_PARAM_ITEM},
    {"param", "IN", CEL_PARAM_IN},
    {"param", "OUT", CEL_PARAM_OUT},
    {"param", "INOUT", CEL_PARAM_INOUT},
    {"param", "VALUE", CEL_PARAM_VALUE},
    {"param", "GROUP", CEL_PARAM_GROUP},
    {"param", "LOCAL", CEL_PARAM_LOCAL},
    {"param", "REDUCER", CEL_PARAM_REDUCER},
    CEL__WHOLES(LOW) CEL__WHOLES(HIGH){"proof", "proved", CEL_PROVED},
    {"proof", "refuted", CEL_REFUTED},
    {"class", "constant", CEL_RULE_IS_CONSTANT},
    {"class", "identity", CEL_RULE_IS_IDENTITY},
    {"class", "permutation", CEL_RULE_IS_PERMUTATION},
    {"class", "monotone affine", CEL_RULE_IS_AFFINE},
    {"class", "general", CEL_RULE_IS_GENERAL},
    {"exit", "lost", CEL_EXIT_LOST},
    {"limit", "devices", CEL_DEVICES},
    {"limit", "gpus_listed", CEL_CHOICE_LIST},
    {"limit", "architectures", CEL_TARGETS},
    {"limit", "accesses", CEL__ACCESSES},
    {"limit", "effects", CEL__EFFECTS},
    {"limit", "params", CEL__PARAMETERS},
    {"limit", "value_bytes", CEL__VALUES},
    {"limit", "runs", CEL__RUNS},
    {"limit", "fold", CEL_FOLD_STEPS},
    {"limit", "entries", CEL__ENTRIES},
    {"limit", "plan_accesses", CEL__PLAN_ACCESSES},
    {"limit", "plan_arguments", CEL__PLAN_ARGUMENTS},
    {"limit", "recall_checks", CEL__RECALL_CHECKS},
    {"recall", "own", CEL__RECALL_OWN},
    {"recall", "variable", CEL__RECALL_VARIABLE},
    {"recall", "field", CEL__RECALL_FIELD},
    {"recall", "inherited", CEL__RECALL_INHERITED},
    {"recall", "keys", CEL__RECALL_KEYS},
    {"limit", "comm_many", CEL_COMM_MANY},
    {"limit", "rule_boxes", CEL_RULE_BOXES},
    {"limit", "rule_params", CEL_RULE_PARAMS},
    {"limit", "rule_words", CEL_RULE_WORDS},
    {"limit", "rule_depth", CEL_RULE_DEPTH},
    {"limit", "rule_number", (double)CEL_RULE_LIMIT},
    {NULL, NULL, 0},
};

/* {list = {name = number}} */
void cel__push_facts(lua_State *L) {
  lua_newtable(L);
  for (const cel_fact *f = cel_facts; f->list != NULL; ++f) {
    lua_getfield(L, -1, f->list);
    if (lua_isnil(L, -1)) {
      lua_pop(L, 1);
      lua_newtable(L);
      lua_pushvalue(L, -1);
      lua_setfield(L, -3, f->list);
    }
    cel__set_number(L, f->name, f->value);
    lua_pop(L, 1);
  }
}
