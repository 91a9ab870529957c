#include "comm/link/mailbox.h"

enum { LAZY_ENABLE_PEER_ACCESS = 1 };

const cel_mail_size cel_mail_sizes[CEL_MAIL_SIZES] = {
    {0, 16, 256 << 10}, {16, 4, 4 << 20}, {20, 2, 48 << 20}};

/* Where a slot begins, or where the last one ends. */
static uint64_t offset_of(uint32_t slot) {
  uint64_t at = 0;
  for (int i = 0; i < CEL_MAIL_SIZES; ++i) {
    const cel_mail_size *size = &cel_mail_sizes[i];
    if (slot <= size->first + size->slots)
      return at + (slot - size->first) * size->bytes;
    at += size->slots * size->bytes;
  }
  return at;
}

cel_status cel_mailbox_fail(const cel_cuda *cuda, const char *call,
                            CUresult code) {
  return cel_fail(CEL_E_MISSING, "%s: %s", call,
                  cel_cuda_api_text(cuda->api, code));
}

CUdeviceptr cel_mailbox_slot(CUdeviceptr base, uint32_t slot) {
  cel_assert(slot < CEL_MAIL_SLOTS);
  return base + offset_of(slot);
}

static void destroy_events(const cel_cuda *cuda, CUevent *events) {
  for (int i = 0; i < CEL_MAIL_SLOTS; ++i) {
    if (events[i] != NULL) cuda->api->cuEventDestroy_v2(events[i]);
    events[i] = NULL;
  }
}

void cel_mailbox_let_go(cel_mailbox *mailbox) {
  if (mailbox->cuda == NULL) return;
  destroy_events(mailbox->cuda, mailbox->arrived);
  if (mailbox->out != 0) mailbox->cuda->api->cuIpcCloseMemHandle(mailbox->out);
  mailbox->out = 0;
}

void cel_mailbox_close(cel_mailbox *mailbox) {
  if (mailbox->cuda == NULL) return;
  destroy_events(mailbox->cuda, mailbox->filled);
  if (mailbox->in != 0) mailbox->cuda->api->cuMemFree_v2(mailbox->in);
  *mailbox = (cel_mailbox){0};
}

cel_status cel_mailbox_make(cel_mailbox *mailbox, const cel_cuda *cuda,
                            cel_mailbox_handles *out) {
  const cel_cuda_api *api = cuda->api;
  *mailbox = (cel_mailbox){.cuda = cuda};
  api->cuCtxSetCurrent(cuda->device[0].context);
  CUresult code = api->cuMemAlloc_v2(&mailbox->in, offset_of(CEL_MAIL_SLOTS));
  if (code != CUDA_SUCCESS) return cel_mailbox_fail(cuda, "cuMemAlloc", code);
  code = api->cuIpcGetMemHandle(&out->memory, mailbox->in);
  if (code != CUDA_SUCCESS)
    return cel_mailbox_fail(cuda, "cuIpcGetMemHandle", code);
  for (int i = 0; i < CEL_MAIL_SLOTS && code == CUDA_SUCCESS; ++i) {
    code = api->cuEventCreate(&mailbox->filled[i],
                              CU_EVENT_INTERPROCESS | CU_EVENT_DISABLE_TIMING);
    if (code == CUDA_SUCCESS)
      code = api->cuIpcGetEventHandle(&out->event[i], mailbox->filled[i]);
  }
  return code == CUDA_SUCCESS
             ? CEL_E_OK
             : cel_mailbox_fail(cuda, "cuIpcGetEventHandle", code);
}

cel_status cel_mailbox_open(cel_mailbox *mailbox,
                            const cel_mailbox_handles *theirs) {
  const cel_cuda *cuda = mailbox->cuda;
  const cel_cuda_api *api = cuda->api;
  api->cuCtxSetCurrent(cuda->device[0].context);
  CUresult code = api->cuIpcOpenMemHandle_v2(&mailbox->out, theirs->memory,
                                             LAZY_ENABLE_PEER_ACCESS);
  if (code != CUDA_SUCCESS)
    return cel_mailbox_fail(cuda, "cuIpcOpenMemHandle", code);
  for (int i = 0; i < CEL_MAIL_SLOTS && code == CUDA_SUCCESS; ++i)
    code = api->cuIpcOpenEventHandle(&mailbox->arrived[i], theirs->event[i]);
  return code == CUDA_SUCCESS
             ? CEL_E_OK
             : cel_mailbox_fail(cuda, "cuIpcOpenEventHandle", code);
}
