#include "comm/cuda_mailbox.h"

enum { LAZY_ENABLE_PEER_ACCESS = 1 };

const cel_mail_size cel_mail_sizes[CEL_MAIL_SIZES] = {
    {0, 32, 256 << 10}, {32, 8, 4 << 20}, {40, 3, 28 << 20}};

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

CUdeviceptr cel_mailbox_slot(const cel_mailbox *mailbox, uint32_t slot) {
  cel_assert(slot < CEL_MAIL_SLOTS);
  return mailbox->base + offset_of(slot);
}

void cel_mailbox_close(cel_mailbox *mailbox) {
  if (mailbox->cuda == NULL) return;
  const cel_cuda_api *api = mailbox->cuda->api;
  for (int i = 0; i < CEL_MAIL_SLOTS; ++i)
    if (mailbox->event[i] != NULL) api->cuEventDestroy_v2(mailbox->event[i]);
  if (mailbox->base != 0 && mailbox->opened)
    api->cuIpcCloseMemHandle(mailbox->base);
  else if (mailbox->base != 0)
    api->cuMemFree_v2(mailbox->base);
  *mailbox = (cel_mailbox){0};
}

/* Closes what is there of it. */
static cel_status give_up(cel_mailbox *mailbox, const char *call,
                          CUresult code) {
  cel_status status = cel_mailbox_fail(mailbox->cuda, call, code);
  cel_mailbox_close(mailbox);
  return status;
}

cel_status cel_mailbox_make(cel_mailbox *mailbox, const cel_cuda *cuda,
                            cel_mailbox_handles *out) {
  const cel_cuda_api *api = cuda->api;
  *mailbox = (cel_mailbox){.cuda = cuda};
  api->cuCtxSetCurrent(cuda->device[0].context);
  CUresult code = api->cuMemAlloc_v2(&mailbox->base, offset_of(CEL_MAIL_SLOTS));
  if (code != CUDA_SUCCESS) return give_up(mailbox, "cuMemAlloc", code);
  code = api->cuIpcGetMemHandle(&out->memory, mailbox->base);
  if (code != CUDA_SUCCESS) return give_up(mailbox, "cuIpcGetMemHandle", code);
  for (int i = 0; i < CEL_MAIL_SLOTS && code == CUDA_SUCCESS; ++i) {
    code = api->cuEventCreate(&mailbox->event[i],
                              CU_EVENT_INTERPROCESS | CU_EVENT_DISABLE_TIMING);
    if (code == CUDA_SUCCESS)
      code = api->cuIpcGetEventHandle(&out->event[i], mailbox->event[i]);
  }
  return code == CUDA_SUCCESS ? CEL_E_OK
                              : give_up(mailbox, "cuIpcGetEventHandle", code);
}

cel_status cel_mailbox_open(cel_mailbox *mailbox, const cel_cuda *cuda,
                            const cel_mailbox_handles *handles) {
  const cel_cuda_api *api = cuda->api;
  *mailbox = (cel_mailbox){.cuda = cuda, .opened = true};
  api->cuCtxSetCurrent(cuda->device[0].context);
  CUresult code = api->cuIpcOpenMemHandle_v2(&mailbox->base, handles->memory,
                                             LAZY_ENABLE_PEER_ACCESS);
  if (code != CUDA_SUCCESS) return give_up(mailbox, "cuIpcOpenMemHandle", code);
  for (int i = 0; i < CEL_MAIL_SLOTS && code == CUDA_SUCCESS; ++i)
    code = api->cuIpcOpenEventHandle(&mailbox->event[i], handles->event[i]);
  return code == CUDA_SUCCESS ? CEL_E_OK
                              : give_up(mailbox, "cuIpcOpenEventHandle", code);
}
