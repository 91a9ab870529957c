/* reach.h -- where a rank can be reached: sockets, addresses, host.
 *
 * A host may have several networks, of which some lead nowhere, and names of
 * hosts may resolve to anything. So a rank gives its peers all its addresses,
 * and they try them.
 */
#ifndef CEL_COMM_HEARTBEAT_REACH_H
#define CEL_COMM_HEARTBEAT_REACH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { CEL_CARD_ADDRESSES = 8, CEL_CARD_HOST = 64 };

/* Where a rank hears; plain bytes, for its peers. */
typedef struct cel_card {
  uint64_t host_id; /* equal where ranks reach each other by the loopback */
  uint64_t key;     /* what is for it, and not for others, has this */
  uint32_t address[CEL_CARD_ADDRESSES]; /* IPv4, as in a datagram; 0: none */
  uint16_t beats, news;                 /* ports; 0: it has none */
  char host[CEL_CARD_HOST];
} cel_card;

/* This host and its addresses; no key and no ports. */
void cel__reach_describe(cel_card *out);

/* Two sockets, for beats and for news, and the card that leads to them; -1, and
 * a card without ports, where the system gives none. On the loopback alone,
 * where all ranks are of one host. */
void cel__reach_open(bool one_host, cel_card *out, int *beats, int *news);

/* Leaves, of a peer's addresses, those to try from here: the loopback within a
 * host, else all but those that this host has, too (bridges of containers have
 * the same on each host). */
void cel__reach_narrow(const cel_card *mine, cel_card *peer);

/* The networks of this host in words: "eth0 10.0.0.1, eth1 10.1.0.1". Thread:
 * any. */
void cel_reach_describe(char *text, size_t size);

#endif
