#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <mpi.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "comm/file.h"
#include "comm/mpi/mpi.h"

struct cel_file {
  MPI_File file;
  char *path;
};

/* MPI's texts begin with the name of their code. */
static cel_status check(const char *path, int code, const char *doing) {
  char text[MPI_MAX_ERROR_STRING + 1];
  if (code == MPI_SUCCESS) return CEL_E_OK;
  cel__mpi_text(code, text);
  const char *name_end =
      strncmp(text, "MPI_ERR_", 8) == 0 ? strstr(text, ": ") : NULL;
  return cel_fail(CEL_E_IO, "cannot %s %s: %s", doing, path,
                  name_end != NULL ? name_end + 2 : text);
}

static int flags_of(cel_file_mode mode) {
  switch (mode) {
  case CEL_FILE_READ: return MPI_MODE_RDONLY;
  case CEL_FILE_WRITE: return MPI_MODE_CREATE | MPI_MODE_WRONLY;
  case CEL_FILE_UPDATE: return MPI_MODE_CREATE | MPI_MODE_RDWR;
  }
  cel_bug("a file mode %d", (int)mode);
}

/* Ranks that open a file in different ways would wait for each other. */
static cel_status agree(MPI_Comm comm, const char *path, cel_file_mode mode) {
  int both[2] = {(int)mode, -(int)mode};
  CEL_TRY(check(path,
                MPI_Allreduce(MPI_IN_PLACE, both, 2, MPI_INT, MPI_MAX, comm),
                "open"));
  if (both[0] == -both[1]) return CEL_E_OK;
  return cel_fail(CEL_E_IO, "cannot open %s: the ranks give different modes",
                  path);
}

/* MPI opens one for reading. All ranks find it so, or see other files. */
static bool is_folder(const char *path) {
  struct stat info;
  return stat(path, &info) == 0 && S_ISDIR(info.st_mode);
}

/* The caller frees it. */
static char *mark_name(const char *path, uint64_t number) {
  size_t size = strlen(path) + sizeof ".0123456789abcdef.part";
  char *name = cel_alloc_zero(size);
  snprintf(name, size, "%s.%016" PRIx64 ".part", path, number);
  return name;
}

/* Makes an empty file beside `path`, under a name with a number that no other
 * has. False where that cannot be, as beside /dev/null. */
static bool make_mark(const char *path, uint64_t *number) {
  if (getrandom(number, sizeof *number, 0) != sizeof *number) return false;
  char *name = mark_name(path, *number);
  int fd = open(name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  cel_free(name);
  return fd >= 0 && close(fd) == 0;
}

/* MPI creates a file on one rank and opens it on the others, which wait for
 * ever where one of them does not find it. */
static cel_status see_one_file(MPI_Comm comm, const char *path,
                               cel_file_mode mode) {
  int rank, ranks, code;
  uint64_t mark[2] = {0, 0}; /* whether there is one, and its number */
  MPI_Comm_rank(comm, &rank);
  MPI_Comm_size(comm, &ranks);
  if (rank == 0 && mode != CEL_FILE_READ) mark[0] = make_mark(path, &mark[1]);
  CEL_TRY(check(path, MPI_Bcast(mark, 2, MPI_UINT64_T, 0, comm), "open"));
  char *name = mark[0] ? mark_name(path, mark[1]) : cel_strdup(path);
  bool sees = access(name, F_OK) == 0;
  int some[2] = {sees, sees ? 0 : ranks - rank}; /* the first that does not */
  code = MPI_Allreduce(MPI_IN_PLACE, some, 2, MPI_INT, MPI_MAX, comm);
  if (rank == 0 && mark[0]) unlink(name);
  cel_free(name);
  CEL_TRY(check(path, code, "open"));
  if (!some[0] || some[1] == 0) return CEL_E_OK;
  return cel_fail(CEL_E_IO,
                  "cannot open %s: rank %d does not see the files there that "
                  "other ranks see; all ranks must see the same files",
                  path, ranks - some[1]);
}

cel_status cel_file_open(cel_comm *c, const char *path, cel_file_mode mode,
                         cel_file **out) {
  MPI_Comm comm;
  MPI_File file;
  CEL_TRY(cel_comm_handle(c, &comm));
  CEL_TRY(agree(comm, path, mode));
  CEL_TRY(see_one_file(comm, path, mode));
  if (is_folder(path))
    return cel_fail(CEL_E_IO, "cannot open %s: %s", path, strerror(EISDIR));
  CEL_TRY(check(path,
                MPI_File_open(comm, path, flags_of(mode), MPI_INFO_NULL, &file),
                "open"));
  if (mode == CEL_FILE_WRITE) {
    cel_status status = check(path, MPI_File_set_size(file, 0), "truncate");
    if (status != CEL_E_OK) {
      MPI_File_close(&file);
      return status;
    }
  }
  cel_file *f = cel_alloc_zero(sizeof *f);
  f->file = file;
  f->path = cel_strdup(path);
  *out = f;
  return CEL_E_OK;
}

cel_status cel_file_write(cel_file *f, uint64_t offset, const void *data,
                          uint64_t bytes, bool all) {
  int count;
  MPI_Datatype type;
  MPI_Status status;
  MPI_Count written = 0;
  MPI_Offset at = (MPI_Offset)offset;
  int code = cel__mpi_bytes_begin(bytes, &count, &type);
  if (code == MPI_SUCCESS)
    code = all ? MPI_File_write_at_all(f->file, at, data, count, type, &status)
               : MPI_File_write_at(f->file, at, data, count, type, &status);
  if (code == MPI_SUCCESS)
    code = MPI_Get_elements_x(&status, MPI_BYTE, &written);
  cel__mpi_bytes_end(&type);
  CEL_TRY(check(f->path, code, "write"));
  if ((uint64_t)written == bytes) return CEL_E_OK;
  return cel_fail(CEL_E_IO, "cannot write %s: of %llu bytes %llu were written",
                  f->path, (unsigned long long)bytes,
                  (unsigned long long)written);
}

cel_status cel_file_read(cel_file *f, uint64_t offset, void *data,
                         uint64_t bytes, bool all, uint64_t *got) {
  int count;
  MPI_Datatype type;
  MPI_Status status;
  MPI_Count read = 0;
  MPI_Offset at = (MPI_Offset)offset;
  int code = cel__mpi_bytes_begin(bytes, &count, &type);
  if (code == MPI_SUCCESS)
    code = all ? MPI_File_read_at_all(f->file, at, data, count, type, &status)
               : MPI_File_read_at(f->file, at, data, count, type, &status);
  if (code == MPI_SUCCESS) code = MPI_Get_elements_x(&status, MPI_BYTE, &read);
  cel__mpi_bytes_end(&type);
  CEL_TRY(check(f->path, code, "read"));
  *got = (uint64_t)read;
  return CEL_E_OK;
}

cel_status cel_file_size(cel_file *f, uint64_t *out) {
  MPI_Offset size = 0;
  CEL_TRY(check(f->path, MPI_File_get_size(f->file, &size), "ask the size of"));
  *out = (uint64_t)size;
  return CEL_E_OK;
}

cel_status cel_file_close(cel_file *f) {
  cel_status status = check(f->path, MPI_File_close(&f->file), "close");
  cel_free(f->path);
  cel_free(f);
  return status;
}
