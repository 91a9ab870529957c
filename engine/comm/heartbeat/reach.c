#include "comm/heartbeat/reach.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/hash.h"

/* A socket for datagrams to an address, and its port; -1: none. */
static int open_socket(uint32_t address, uint16_t *port) {
  int file = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  struct sockaddr_in here = {.sin_family = AF_INET, .sin_addr.s_addr = address};
  socklen_t size = sizeof here;
  if (file < 0) return -1;
  if (bind(file, (struct sockaddr *)&here, size) != 0 ||
      getsockname(file, (struct sockaddr *)&here, &size) != 0) {
    close(file);
    return -1;
  }
  *port = ntohs(here.sin_port);
  return file;
}

/* The IPv4 address of an interface that is up; 0 where it has none, or is the
 * loopback. */
static uint32_t address_of(const struct ifaddrs *a) {
  if ((a->ifa_flags & IFF_UP) == 0 || (a->ifa_flags & IFF_LOOPBACK) != 0 ||
      a->ifa_addr == NULL || a->ifa_addr->sa_family != AF_INET)
    return 0;
  return ((const struct sockaddr_in *)(const void *)a->ifa_addr)
      ->sin_addr.s_addr;
}

static void list_addresses(cel_card *out) {
  struct ifaddrs *all;
  int n = 0;
  if (getifaddrs(&all) != 0) return;
  for (struct ifaddrs *a = all; a != NULL && n < CEL_CARD_ADDRESSES;
       a = a->ifa_next)
    if (address_of(a) != 0) out->address[n++] = address_of(a);
  freeifaddrs(all);
}

void cel_reach_describe(char *text, size_t size) {
  struct ifaddrs *all;
  size_t n = 0;
  snprintf(text, size, "no network");
  if (getifaddrs(&all) != 0) return;
  for (struct ifaddrs *a = all; a != NULL && n < size; a = a->ifa_next) {
    char address[INET_ADDRSTRLEN] = "";
    struct in_addr ip = {address_of(a)};
    if (ip.s_addr == 0) continue;
    inet_ntop(AF_INET, &ip, address, sizeof address);
    n += (size_t)snprintf(text + n, size - n, "%s%s %s", n > 0 ? ", " : "",
                          a->ifa_name, address);
  }
  freeifaddrs(all);
}

/* The kernel that runs, and its network namespace, as containers have. */
static uint64_t find_host(void) {
  char boot[64] = "";
  struct stat net = {0};
  int file = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
  if (file >= 0) {
    (void)!read(file, boot, sizeof boot - 1);
    close(file);
  }
  (void)!stat("/proc/self/ns/net", &net);
  return cel_hash(boot, sizeof boot, (uint64_t)net.st_ino);
}

void cel__reach_describe(cel_card *out) {
  *out = (cel_card){.host_id = find_host()};
  if (gethostname(out->host, sizeof out->host - 1) != 0)
    snprintf(out->host, sizeof out->host, "?");
  list_addresses(out);
}

void cel__reach_open(bool one_host, cel_card *out, int *beats, int *news) {
  cel__reach_describe(out);
  if (getrandom(&out->key, sizeof out->key, GRND_NONBLOCK) < 0)
    out->key = out->host_id ^ (uint64_t)getpid();
  uint32_t address = htonl(one_host ? INADDR_LOOPBACK : INADDR_ANY);
  *beats = open_socket(address, &out->beats);
  *news = open_socket(address, &out->news);
  if (*beats < 0 || *news < 0) out->beats = out->news = 0;
}

static bool has(const cel_card *card, uint32_t address) {
  for (int i = 0; i < CEL_CARD_ADDRESSES; ++i)
    if (card->address[i] == address) return true;
  return false;
}

void cel__reach_narrow(const cel_card *mine, cel_card *peer) {
  uint32_t found[CEL_CARD_ADDRESSES] = {0};
  int n = 0;
  if (peer->host_id == mine->host_id)
    found[n++] = htonl(INADDR_LOOPBACK);
  else
    for (int i = 0; i < CEL_CARD_ADDRESSES && peer->address[i] != 0; ++i)
      if (!has(mine, peer->address[i])) found[n++] = peer->address[i];
  memcpy(peer->address, found, sizeof found);
}
