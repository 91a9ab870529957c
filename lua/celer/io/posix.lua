--- posix.lua -- files by descriptor: parts written and read at their place.
---
--- What fails returns nil and a message that names the path. Thread: any.
local bit = require "bit"
local core = require "celer.core"
local ffi = require "ffi"

-- Renamed, so that a script may declare these functions as it likes.
ffi.cdef [[
int celer_open(const char *path, int flags, ...) __asm__("open");
int celer_close(int fd) __asm__("close");
int64_t celer_pread(int fd, void *to, size_t n, int64_t at) __asm__("pread");
int64_t celer_pwrite(int fd, const void *from, size_t n, int64_t at)
  __asm__("pwrite");
int celer_ftruncate(int fd, int64_t size) __asm__("ftruncate");
int64_t celer_lseek(int fd, int64_t at, int whence) __asm__("lseek");
int celer_fsync(int fd) __asm__("fsync");
int celer_mkdir(const char *path, unsigned mode) __asm__("mkdir");
int celer_rmdir(const char *path) __asm__("rmdir");
int celer_rename(const char *from, const char *to) __asm__("rename");
int celer_unlink(const char *path) __asm__("unlink");
int celer_link(const char *path, const char *another) __asm__("link");
int celer_access(const char *path, int mode) __asm__("access");
int64_t celer_copy_file_range(int from, int64_t *at, int to, int64_t *there, size_t n,
  unsigned flags) __asm__("copy_file_range");
struct celer_statx { uint32_t mask, blksize; uint64_t attributes; uint32_t nlink, uid, gid;
  uint16_t mode, spare; uint64_t ino, size, blocks, attributes_mask;
  struct { int64_t s; uint32_t ns; int32_t spare; } atime, btime, ctime, mtime;
  uint64_t more[18]; };
int celer_statx(int folder, const char *path, int flags, unsigned mask,
  struct celer_statx *out) __asm__("statx");
const char *celer_strerror(int code) __asm__("strerror");
struct celer_dirent { uint64_t ino; int64_t off; uint16_t length; uint8_t type;
  char name[256]; };
void *celer_opendir(const char *path) __asm__("opendir");
struct celer_dirent *celer_readdir(void *folder) __asm__("readdir");
int celer_closedir(void *folder) __asm__("closedir");
]]
local C = ffi.C

local EINTR, ENOENT, EEXIST, ENOTDIR = 4, 2, 17, 20
local READ, WRITE, CREATE, TRUNCATE, CLOSE_ON_EXEC = 0, 2, 0x40, 0x200, 0x80000
local SEEK_END = 2
local MOST = 2 ^ 30 -- bytes in one call

local M = {}

local function fault(verb, path, code)
  code = code or ffi.errno()
  return nil, ("cannot %s %s: %s"):format(verb, path,
    ffi.string(C.celer_strerror(code))), code
end

---@class celer.file
---@field fd integer  -1 once closed
---@field path string
local File = {}
File.__index = File

-- `verb` is for the message of what fails.
local function open(path, flags, verb)
  local fd
  repeat
    fd = C.celer_open(path, bit.bor(flags, CLOSE_ON_EXEC), ffi.cast("int", 0x1b6))
  until fd >= 0 or ffi.errno() ~= EINTR
  if fd < 0 then return fault(verb, path) end
  return setmetatable({ fd = fd, path = path }, File)
end

--- For reading; the caller closes it.
---@return celer.file? file, string? message
function M.open(path) return open(path, READ, "read") end

--- For writing at any place of a file that is there.
---@return celer.file? file, string? message, boolean? absent
function M.change(path)
  local file, message, code = open(path, WRITE, "write")
  return file, message, code == ENOENT
end

--- A new, empty file for writing.
---@return celer.file? file, string? message
function M.create(path) return open(path, WRITE + CREATE + TRUNCATE, "write") end

--- Stands for a descriptor that another owns.
---@return celer.file
function M.borrow(fd, path) return setmetatable({ fd = fd, path = path }, File) end

--- Also tells of what was written late and failed.
function File:close()
  local fd = self.fd
  self.fd = -1
  if fd >= 0 and C.celer_close(fd) ~= 0 and ffi.errno() ~= EINTR then
    return fault("write", self.path)
  end
  return true
end

-- Until all `n` bytes are through `call`.
local function transfer(self, call, verb, p, n, at)
  p = ffi.cast("char *", p)
  while n > 0 do
    local moved = tonumber(call(self.fd, p, math.min(n, MOST), at))
    if moved > 0 then
      p, n, at = p + moved, n - moved, at + moved
    elseif moved == 0 then
      return nil, ("cannot %s %s: it ends before byte %.0f"):format(verb, self.path, at + n)
    elseif ffi.errno() ~= EINTR then
      return fault(verb, self.path)
    end
  end
  return true
end

--- All of the n bytes from place `at` on, or nil and a message.
function File:read(p, n, at) return transfer(self, C.celer_pread, "read", p, n, at) end
function File:write(p, n, at) return transfer(self, C.celer_pwrite, "write", p, n, at) end

--- Makes it `size` bytes long.
function File:resize(size)
  if C.celer_ftruncate(self.fd, size) ~= 0 then return fault("write", self.path) end
  return true
end

---@return integer bytes
function File:size() return tonumber(C.celer_lseek(self.fd, 0, SEEK_END)) end

--- Returns when it is on disk.
function File:sync()
  if C.celer_fsync(self.fd) ~= 0 then return fault("write", self.path) end
  return true
end

--- Makes the names in a folder last.
function M.sync_folder(path)
  local folder, message = open(path, READ, "open")
  if not folder then return nil, message end
  local ok, why = folder:sync()
  folder:close()
  return ok, why
end

--- A folder; that it is there already is no failure.
function M.make_folder(path)
  if C.celer_mkdir(path, 0x1ff) ~= 0 and ffi.errno() ~= EEXIST then
    return fault("make the folder", path)
  end
  return true
end

--- Replaces `to`, whole, whatever happens.
function M.rename(from, to)
  if C.celer_rename(from, to) ~= 0 then return fault("write", to) end
  return true
end

function M.remove(path) return C.celer_unlink(path) == 0 end

--- Gives a file a second name; false where the file system has none.
function M.link(path, another) return C.celer_link(path, another) == 0 end

--- Words that are others when a name stands for another file, or what is in it has
--- changed; nil where there is none.
---@return string?
function M.version(path)
  local HERE, BASIC = -100, 0x7ff -- AT_FDCWD, STATX_BASIC_STATS
  local now = ffi.new("struct celer_statx")
  if C.celer_statx(HERE, path, 0, BASIC, now) ~= 0 then return nil end
  return ("%s %s %s %d"):format(tostring(now.ino), tostring(now.size), tostring(now.mtime.s),
    now.mtime.ns)
end

--- Whether there is something of this name.
function M.exists(path) return C.celer_access(path, 0) == 0 end

function M.remove_folder(path) return C.celer_rmdir(path) == 0 end

--- The folders in which a file is to lie, as far as they are missing.
function M.make_folders_for(path)
  local at = 1
  while true do
    local slash = path:find("/", at + 1, true)
    if not slash then return true end
    local ok, message = M.make_folder(path:sub(1, slash - 1))
    if not ok then return nil, message end
    at = slash
  end
end

--- Names in a folder; none where there is no such folder.
---@return string[]
function M.list(path)
  local folder, names = C.celer_opendir(path), {}
  if folder == nil then return names end
  local entry = C.celer_readdir(folder)
  while entry ~= nil do
    names[#names + 1] = ffi.string(entry.name)
    entry = C.celer_readdir(folder)
  end
  C.celer_closedir(folder)
  return names
end

--- All of a file; nil, a message and whether it is not there.
---@return string? text, string? message, boolean? absent
function M.read_all(path)
  local file, message, code = M.open(path)
  if not file then return nil, message, code == ENOENT or code == ENOTDIR end
  local n = file:size()
  local data = ffi.new("char[?]", math.max(n, 1))
  local ok, why = file:read(data, n, 0)
  file:close()
  if not ok then return nil, why end
  return ffi.string(data, n)
end

--- Copies n bytes from a place of one file to a place of another.
---@param from celer.file
---@param to celer.file
function M.copy_part(from, at, to, there, n)
  local step = 2 ^ 22
  local block = ffi.new("char[?]", math.min(step, n))
  for i = 0, n - 1, step do
    local ok, message = from:read(block, math.min(step, n - i), at + i)
    if ok then ok, message = to:write(block, math.min(step, n - i), there + i) end
    if not ok then return nil, message end
  end
  return true
end

-- By the system, which may have both share what is on disk; false where it cannot.
local function copy_range(from, to)
  local moved
  repeat
    moved = tonumber(C.celer_copy_file_range(from.fd, nil, to.fd, nil, MOST, 0))
  until moved == 0 or moved < 0 and ffi.errno() ~= EINTR
  return moved == 0
end

--- A new file with what another holds.
function M.copy(path, to)
  local from, message = M.open(path)
  if not from then return nil, message end
  local out, fault_ = M.create(to)
  local ok = out ~= nil
  if ok and not copy_range(from, out) then
    ok, fault_ = M.copy_part(from, 0, out, 0, from:size())
  end
  from:close()
  if not out then return nil, fault_ end
  local closed, late = out:close()
  return ok and closed, fault_ or late
end

--- A new file with this text, which is on disk before it returns.
function M.write_all(path, text)
  local file, message = M.create(path)
  if not file then return nil, message end
  local ok, why = file:write(text, #text, 0)
  if ok then ok, why = file:sync() end
  local closed, late = file:close()
  if not ok then return nil, why end
  return closed, late
end

--- Writes a text as a file, which has its name when all is written; folders that are missing are
--- made.
---@param path string
---@param text string
---@return true? ok, string? message
function M.replace(path, text)
  local ok, message = M.make_folders_for(path)
  if not ok then return ok, message end
  local part = path .. ".part"
  core.leftover(part)
  ok, message = M.write_all(part, text)
  if ok then ok, message = M.rename(part, path) end
  if not ok then M.remove(part) end
  core.not_left(part)
  return ok, message
end

return M
