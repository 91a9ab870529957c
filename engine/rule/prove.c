#include "rule/rule.h"

cel_proof cel_rule_prove_disjoint(const cel_rule_use *use,
                                  const cel_split_kind *kind,
                                  cel_counter_example *why) {
  (void)use, (void)kind, (void)why;
  return CEL_UNKNOWN;
}

cel_proof cel_rule_prove_union(const cel_rule_use *use,
                               const cel_split_kind *kind,
                               cel_counter_example *why) {
  (void)use, (void)kind, (void)why;
  return CEL_UNKNOWN;
}
