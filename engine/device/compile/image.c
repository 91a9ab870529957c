#include "device/compile/image.h"

#include <elf.h>
#include <stdlib.h>
#include <string.h>

static const char kernel_prefix[] = "celer_run_";

/* ---- ELF: what is read may be damaged, so all offsets are checked */

static const void *part(const cel_text *image, uint64_t at, uint64_t bytes) {
  return at <= image->n && bytes <= image->n - at ? image->at + at : NULL;
}

static const Elf64_Ehdr *header_of(const cel_text *image) {
  const Elf64_Ehdr *h = part(image, 0, sizeof *h);
  bool fine = h != NULL && memcmp(h->e_ident, ELFMAG, SELFMAG) == 0 &&
              h->e_ident[EI_CLASS] == ELFCLASS64 &&
              h->e_shentsize == sizeof(Elf64_Shdr) && h->e_shoff % 8 == 0;
  return fine ? h : NULL;
}

static const Elf64_Shdr *section_at(const cel_text *image, uint32_t i) {
  const Elf64_Ehdr *h = header_of(image);
  if (i >= h->e_shnum) return NULL;
  return part(image, h->e_shoff + i * sizeof(Elf64_Shdr), sizeof(Elf64_Shdr));
}

/* A symbol's name; empty when it lies nowhere. */
static const char *name_of(const cel_text *image, const Elf64_Shdr *symbols,
                           const Elf64_Sym *symbol) {
  const Elf64_Shdr *names = section_at(image, symbols->sh_link);
  if (names == NULL || symbol->st_name >= names->sh_size ||
      part(image, names->sh_offset, names->sh_size) == NULL)
    return "";
  const char *name = image->at + names->sh_offset + symbol->st_name;
  uint64_t left = names->sh_size - symbol->st_name;
  return memchr(name, '\0', left) != NULL ? name : "";
}

/* Calls `see` with each symbol until it says true. */
static void each_symbol(const cel_text *image, void *context,
                        bool (*see)(void *, const char *, const Elf64_Sym *)) {
  const Elf64_Ehdr *h = header_of(image);
  for (uint32_t i = 0; i < h->e_shnum; ++i) {
    const Elf64_Shdr *s = section_at(image, i);
    if (s == NULL || (s->sh_type != SHT_SYMTAB && s->sh_type != SHT_DYNSYM) ||
        s->sh_entsize != sizeof(Elf64_Sym) || s->sh_offset % 8 != 0 ||
        part(image, s->sh_offset, s->sh_size) == NULL)
      continue;
    const Elf64_Sym *symbol = (const void *)(image->at + s->sh_offset);
    for (uint64_t k = 0; k < s->sh_size / sizeof *symbol; ++k)
      if (see(context, name_of(image, s, &symbol[k]), &symbol[k])) return;
  }
}

typedef struct search {
  const cel_text *image;
  const char *name;
  cel_text *out;
  bool found;
} search;

static bool take_constant(void *context, const char *name,
                          const Elf64_Sym *symbol) {
  search *s = context;
  if (strcmp(name, s->name) != 0) return false;
  const Elf64_Shdr *in = section_at(s->image, symbol->st_shndx);
  if (in == NULL || in->sh_type == SHT_NOBITS) return false;
  const char *at =
      part(s->image, in->sh_offset + symbol->st_value - in->sh_addr,
           symbol->st_size);
  if (at == NULL) return false;
  cel_text_add(s->out, at, symbol->st_size);
  return s->found = true;
}

/* A name may stand in two symbol tables of a library. */
static void add_kernel(cel_text *out, const char *name, size_t length) {
  const char *at = cel_text_string(out);
  for (size_t n; *at != '\0'; at += n + 1) {
    n = strcspn(at, "\n");
    if (n == length && memcmp(at, name, n) == 0) return;
  }
  cel_text_add(out, name, length);
  cel_text_add(out, "\n", 1);
}

/* A name with a dot is a part that the compiler has split off. */
static bool take_kernel(void *context, const char *name,
                        const Elf64_Sym *symbol) {
  (void)symbol;
  size_t skip = sizeof kernel_prefix - 1;
  if (strncmp(name, kernel_prefix, skip) == 0 && strchr(name, '.') == NULL)
    add_kernel(context, name + skip, strlen(name + skip));
  return false;
}

/* ---- PTX */

/* After `.b8 name[64] = {`, numbers. */
static bool ptx_constant(const cel_text *image, const char *name,
                         cel_text *out) {
  size_t length = strlen(name);
  for (const char *at = cel_text_string(image); (at = strstr(at, name)) != NULL;
       at += length) {
    const char *end = at + length;
    if (*end != '[') continue;
    end = strchr(end, ']');
    if (end == NULL || strncmp(end, "] = {", 5) != 0) continue;
    for (end += 5; *end != '}' && *end != '\0'; end += strspn(end, " ,\n")) {
      char *rest;
      char byte = (char)strtol(end, &rest, 10);
      if (rest == end) return false;
      cel_text_add(out, &byte, 1);
      end = rest;
    }
    return true;
  }
  return false;
}

static void ptx_kernels(const cel_text *image, cel_text *out) {
  static const char entry[] = ".entry celer_run_";
  for (const char *at = cel_text_string(image);
       (at = strstr(at, entry)) != NULL;) {
    at += sizeof entry - 1;
    add_kernel(out, at, strcspn(at, "( \n"));
  }
}

/* ---- both */

bool cel_image_constant(const cel_text *image, const char *name,
                        cel_text *out) {
  search s = {.image = image, .name = name, .out = out};
  if (header_of(image) == NULL) return ptx_constant(image, name, out);
  each_symbol(image, &s, take_constant);
  return s.found;
}

void cel_image_kernels(const cel_text *image, cel_text *out) {
  if (header_of(image) == NULL)
    ptx_kernels(image, out);
  else
    each_symbol(image, out, take_kernel);
}

int32_t cel_image_architecture(const cel_text *image) {
  enum { CUDA = 190, MOVED = 8 };
  const Elf64_Ehdr *h = header_of(image);
  if (h != NULL)
    return h->e_machine != CUDA ? 0
           : h->e_ident[EI_ABIVERSION] >= MOVED
               ? (int32_t)(h->e_flags >> 8 & 0xff)
               : (int32_t)(h->e_flags & 0xff);
  const char *target = strstr(cel_text_string(image), "\n.target sm_");
  return target != NULL ? (int32_t)strtol(target + 12, NULL, 10) : 0;
}
