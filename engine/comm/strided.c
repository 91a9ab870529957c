#include "comm/strided.h"

#include <string.h>

uint64_t cel__strided_bytes(const cel_strided *piece, uint32_t pieces) {
  uint64_t sum = 0;
  for (uint32_t i = 0; i < pieces; ++i)
    sum += piece[i].count[0] * piece[i].count[1] * piece[i].run;
  return sum;
}

cel_strided cel__strided_merged(cel_strided s) {
  if (s.count[1] == 1 || s.stride[1] == s.run) {
    s.run *= s.count[1];
    s.count[1] = 1;
  }
  if (s.count[1] == 1 && (s.count[0] == 1 || s.stride[0] == s.run)) {
    s.run *= s.count[0];
    s.count[0] = 1;
  }
  return s;
}

void cel__strided_gather(const cel_strided *piece, uint32_t pieces,
                         void *dense) {
  char *to = dense;
  for (const cel_strided *p = piece; p < piece + pieces; ++p)
    for (uint64_t i = 0; p->run > 0 && i < p->count[0]; ++i)
      for (uint64_t j = 0; j < p->count[1]; ++j, to += p->run)
        memcpy(to, (char *)p->base + i * p->stride[0] + j * p->stride[1],
               p->run);
}

void cel__strided_scatter(const cel_strided *piece, uint32_t pieces,
                          const void *dense) {
  const char *from = dense;
  for (const cel_strided *p = piece; p < piece + pieces; ++p)
    for (uint64_t i = 0; p->run > 0 && i < p->count[0]; ++i)
      for (uint64_t j = 0; j < p->count[1]; ++j, from += p->run)
        memcpy((char *)p->base + i * p->stride[0] + j * p->stride[1], from,
               p->run);
}
