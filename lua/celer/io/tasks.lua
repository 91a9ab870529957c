--- tasks.lua -- the host tasks that read and write files, on each rank.
---
--- A plan says how a buffer lies in a file (plan.lua). A file is written under
--- another name, with a number that rank 0 draws, and renamed when all ranks have
--- written: so what stands under its own name is whole, and nothing that is left
--- of another run can meddle.
local ffi = require "ffi"
local core = require "celer.core"
local posix = require "celer.io.posix"
local slab = require "celer.io.slab"

local M = {}

local function check(ok, message, ...)
  if ok then return ok, message, ... end
  error({ message = message }, 0) -- the place is that of the submission
end
M.check = check

-- Raises after the file is gone: what is left of a failure only takes room. For
-- rank 0 alone, while no other writes.
local function check_or_remove(path, ok, message)
  if not ok then
    posix.remove(path)
    core.not_left(path)
  end
  return check(ok, message)
end

-- Gives what is whole its own name.
local function put_in_place(from, path)
  check_or_remove(from, posix.rename(from, path))
  core.not_left(from)
end

--- A number that no other run draws, as a uint64_t.
function M.draw()
  local file = check(posix.open("/dev/urandom"))
  local number = ffi.new("uint64_t[1]")
  local ok, message = file:read(number, 8, 0)
  file:close()
  check(ok, message)
  return number[0]
end

local function temporary(path, number)
  return ("%s.%s.part"):format(path, bit.tohex(number, 16))
end

--- Makes a file of the plan's size that begins with its header; or nil, message.
---@param plan celer.io.plan
function M.create(path, plan)
  local file, fault = posix.create(path)
  if not file then return nil, fault end
  local ok, message = file:write(plan.header, #plan.header, 0)
  if ok then
    ok, message = file:resize(plan.at + slab.volume(plan.window) * plan.size)
  end
  local closed, late = file:close()
  return ok and closed, message or late
end

-- ---- what a file was before -------------------------------------------------

-- A save that only adds steps leaves what the file was under another name, which follows
-- from the number in the path's slot: the save's at first, then one for the file that
-- took its place. So it is not taken for anything else.
local function spare(path, number) return temporary(path, bit.bnot(number)) end

local function version(path)
  local text = posix.version(path)
  return text and slab.hash_text(text)
end

-- Whether the last save has left one, and nobody has changed the file since; it is then
-- called `name`.
local function take_spare(path, number, name)
  if version(path) ~= number or not posix.rename(spare(path, number), name) then return false end
  core.not_left(spare(path, number))
  return true
end

local function leave_spare(path, number)
  local name = spare(path, number)
  core.leftover(name)
  if not posix.link(path, name) then core.not_left(name) end
end

-- After the commit; the number by which it is found.
local function settle_spare(path, number)
  local new = version(path)
  if not new or not posix.exists(spare(path, number)) then return number end
  core.leftover(spare(path, new))
  posix.rename(spare(path, number), spare(path, new))
  core.not_left(spare(path, number))
  return new
end

-- ---- writing ----------------------------------------------------------------

-- What runs that failed or were killed have left of the path, and spares.
local function remove_left(path, except)
  local folder, name = path:match("^(.*/)([^/]*)$")
  name = name or path
  for _, other in ipairs(posix.list(folder or ".")) do
    local tail = other:sub(1, #name) == name and other:sub(#name + 1)
    if tail and tail:find("^%.%x+%.part$") and #tail == 22 and path .. tail ~= except then
      posix.remove((folder or "") .. other)
      core.not_left(path .. tail)
    end
  end
end

--- Rank 0, first.
---@param plans celer.io.plan[]
---@param request celer.io.request?  of HDF5
---@param places celer.view?  of HDF5, which get where pieces begin
function M.begin(_, slot, at, path, plans, request, places)
  local number = M.draw()
  if #posix.list(path) > 0 then
    check(nil, ("cannot write %s: it is a folder"):format(path))
  end
  check(posix.make_folders_for(path))
  local name = temporary(path, number)
  core.leftover(name)
  local is_kept = request and take_spare(path, slot(at), name) or false
  remove_left(path, name)
  if request then
    local _, grows = check_or_remove(name, require("celer.io.hdf5.changes").make(path, name,
      plans, request, places, is_kept))
    if grows then leave_spare(path, number) end
  else
    check_or_remove(name, M.create(name, plans[1]))
  end
  slot:set(at, number)
end

-- The b-th block of a plan, as six numbers.
local function block(plan, b)
  local part, d = { unpack(plan.window) }, plan.along
  part[d] = plan.window[d] + b * plan.step
  part[d + 3] = math.min(part[d] + plan.step, plan.window[d + 3])
  return part
end

--- Writes this rank's blocks, and their hashes into `sums`.
---@param places celer.view?  where the plan's pieces begin; else it has one, at plan.at
function M.write_blocks(path, plan, data, sums, places)
  local file, fault, absent = posix.change(path)
  check(file, absent and ("cannot write %s: rank 0 has made it, but it is not there on %s; all "
    .. "ranks must see the same files"):format(path, core.host_name()) or fault)
  local p, ok, message = data:window().pointer, true, nil
  for b = sums.min[0], sums.max[0] - 1 do
    local part = block(plan, b)
    if places then
      ok, message = slab.write_pieces(file, places, plan.first, plan.tall, plan.size,
        plan.window, p, data.layout, part)
    else
      ok, message = slab.write(file, plan.at, plan.size, plan.window, p, data.layout, part)
    end
    if not ok then break end
    sums:set(b, slab.hash(plan.size, plan.window, p, data.layout, part))
  end
  -- Other ranks may be writing, so the name stays; the room is given back.
  if not ok then file:resize(0) end
  local closed, late = file:close()
  check(ok, message)
  check(closed, late)
end

--- All ranks.
function M.write(_, data, slot, sums, at, path, plan, places)
  M.write_blocks(temporary(path, slot(at)), plan, data, sums, places)
end

--- All ranks: nothing but that each has submitted this, and so all before it. What
--- a rank loads from a file must not be replaced before.
function M.here(_, _, here)
  for i = here.min[0], here.max[0] - 1 do here[i] = 1 end
end
M.sync = M.here

--- Rank 0, when all have written.
function M.commit(_, slot, at, path)
  put_in_place(temporary(path, slot(at)), path)
  slot:set(at, settle_spare(path, slot(at)))
end

--- All ranks, so that each one's q:wait waits for the commit.
function M.seen() end

--- Rank 0: puts `text` at a place of a file, from there on all of it; then its head, which
--- always is as long. A text that begins where the head ends begins the file anew.
function M.add_text(_, _, path, head, at, text)
  local file = check((at == #head and posix.create or posix.change)(path))
  local ok, message = file:write(text, #text, at)
  if ok then ok, message = file:write(head, #head, 0) end
  local closed, late = file:close()
  check(ok, message)
  check(closed, late)
end

--- Rank 0: a picture of a buffer.
function M.picture(_, data, _, _, path, options, chosen)
  local name = temporary(path, M.draw())
  remove_left(path)
  core.leftover(name)
  check_or_remove(name, pcall(require("celer.io.image").write, name, data, options,
    chosen))
  put_in_place(name, path)
end

--- Reads this rank's blocks; their hashes must be as in `expected`, and go into
--- `sums`.
function M.read_blocks(path, plan, data, sums, expected)
  local file = check(posix.open(path))
  local p = data:window().pointer
  for b = sums.min[0], sums.max[0] - 1 do
    local part = block(plan, b)
    check(slab.read(file, plan.at, plan.size, plan.window, p, data.layout, part))
    local hash = slab.hash(plan.size, plan.window, p, data.layout, part)
    if hash ~= expected[b] then
      check(nil, ("%s is damaged: what is in it is not what was written"):format(path))
    end
    sums:set(b, hash)
  end
  file:close()
end

--- The initial contents of a buffer that was loaded. Where the file is not one
--- that a part of can be read from, HDF5's library does it.
---@param from {fd: integer, path: string, at: integer?, size: integer,
---  window: integer[], place: string, id: ffi.cdata*?, step: integer?}
function M.fill(part, to, from)
  local ok, message
  if from.at then
    ok, message = slab.read(posix.borrow(from.fd, from.path), from.at, from.size,
      from.window, to, part, part)
  else
    ok, message = require("celer.io.hdf5.datasets").read(from.id, from.path, from.window, to,
      part, from.step)
  end
  if not ok then error({ message = from.place .. message }, 0) end
end

return M
