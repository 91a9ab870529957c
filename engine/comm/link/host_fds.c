#define _GNU_SOURCE
#include "comm/link/host_fds.h"

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

struct cel_host_fds {
  int socket;
  int32_t local;
  char name[64];
};

typedef struct words {
  int32_t from;
  uint32_t number;
  uint64_t bytes;
} words;

typedef struct control {
  _Alignas(struct cmsghdr) char file[CMSG_SPACE(sizeof(int))];
  char who[CMSG_SPACE(sizeof(struct ucred))];
} control;

/* A name that begins with a zero is in no folder. */
static socklen_t address_of(const char *name, int32_t local,
                            struct sockaddr_un *out) {
  *out = (struct sockaddr_un){.sun_family = AF_UNIX};
  int n = snprintf(out->sun_path + 1, sizeof out->sun_path - 1, "%s-%d", name,
                   (int)local);
  return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)n);
}

cel_status cel_host_fds_open(const char *name, int32_t local,
                             cel_host_fds **out) {
  struct sockaddr_un address;
  socklen_t size = address_of(name, local, &address);
  int on = 1;
  int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (fd < 0 || bind(fd, (const struct sockaddr *)&address, size) != 0 ||
      setsockopt(fd, SOL_SOCKET, SO_PASSCRED, &on, sizeof on) != 0) {
    int why = errno;
    if (fd >= 0) close(fd);
    return cel_fail(CEL_E_IO, "socket %s: %s", name, strerror(why));
  }
  cel_host_fds *fds = cel_alloc_zero(sizeof *fds);
  fds->socket = fd;
  fds->local = local;
  snprintf(fds->name, sizeof fds->name, "%s", name);
  *out = fds;
  return CEL_E_OK;
}

void cel_host_fds_close(cel_host_fds *fds) {
  if (fds == NULL) return;
  close(fds->socket);
  cel_free(fds);
}

cel_status cel_host_fds_send(cel_host_fds *fds, int32_t to,
                             const cel_host_fd *what) {
  struct sockaddr_un address;
  control control = {0};
  words said = {fds->local, what->number, what->bytes};
  struct iovec bytes = {&said, sizeof said};
  struct msghdr message = {.msg_name = &address,
                           .msg_namelen = address_of(fds->name, to, &address),
                           .msg_iov = &bytes,
                           .msg_iovlen = 1,
                           .msg_control = control.file,
                           .msg_controllen = sizeof control.file};
  struct cmsghdr *head = CMSG_FIRSTHDR(&message);
  head->cmsg_level = SOL_SOCKET;
  head->cmsg_type = SCM_RIGHTS;
  head->cmsg_len = CMSG_LEN(sizeof what->file);
  memcpy(CMSG_DATA(head), &what->file, sizeof what->file);
  if (sendmsg(fds->socket, &message, MSG_NOSIGNAL) == (ssize_t)sizeof said)
    return CEL_E_OK;
  return cel_fail(CEL_E_IO, "handing a file over: %s", strerror(errno));
}

/* The first file; a stranger may have sent more than one. */
static int read_files(const struct cmsghdr *head) {
  int file = -1;
  for (size_t at = CMSG_LEN(0); at + sizeof file <= head->cmsg_len;
       at += sizeof file) {
    int next;
    memcpy(&next, (const char *)head + at, sizeof next);
    if (file < 0)
      file = next;
    else
      close(next);
  }
  return file;
}

/* What came along; the file is -1 where there is none. */
static uid_t read_control(struct msghdr *message, int *file) {
  uid_t user = (uid_t)-1;
  *file = -1;
  for (struct cmsghdr *head = CMSG_FIRSTHDR(message); head != NULL;
       head = CMSG_NXTHDR(message, head)) {
    struct ucred who;
    if (head->cmsg_level != SOL_SOCKET) continue;
    if (head->cmsg_type == SCM_RIGHTS) *file = read_files(head);
    if (head->cmsg_type != SCM_CREDENTIALS) continue;
    memcpy(&who, CMSG_DATA(head), sizeof who);
    user = who.uid;
  }
  return user;
}

bool cel_host_fds_take(cel_host_fds *fds, cel_host_fd *out) {
  for (;;) {
    control control;
    words said;
    struct iovec bytes = {&said, sizeof said};
    struct msghdr message = {.msg_iov = &bytes,
                             .msg_iovlen = 1,
                             .msg_control = &control,
                             .msg_controllen = sizeof control};
    int file;
    ssize_t n = recvmsg(fds->socket, &message, MSG_CMSG_CLOEXEC);
    if (n < 0) return false;
    uid_t user = read_control(&message, &file);
    if (file >= 0 && n == (ssize_t)sizeof said && user == geteuid()) {
      *out = (cel_host_fd){said.from, said.number, said.bytes, file};
      return true;
    }
    if (file >= 0) close(file);
  }
}
