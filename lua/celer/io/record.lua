--- record.lua -- a checkpoint's folder, and the host tasks that change it.
---
---   folder/manifest               what the checkpoint holds: the last complete one
---   folder/data-<number>/1-u.npy  its buffers
---   folder/data-<another>/...     of one that is being written, or was when it
---                                 was killed; the next one removes it
---
--- A checkpoint is committed by renaming its manifest, after all data is on disk.
--- Before that moment the folder holds the last one, after it the new one, and
--- only then the last one's data goes. Data folders have numbers drawn at
--- random, so that processes left of a killed run cannot meddle.
---
--- A manifest is a line of text, the hash of the rest in hexadecimal, and a table
--- encoded by string.buffer.
local codec = require "string.buffer"
local ffi = require "ffi"
local core = require "celer.core"
local posix = require "celer.io.posix"
local reals = require "celer.data.reals"
local slab = require "celer.io.slab"
local tasks = require "celer.io.tasks"

local check = tasks.check
local M = {}

local FIRST_LINE = "celer checkpoint 1\n"

---@class celer.io.entry
---@field name string|number  the key in the table that was given
---@field type string
---@field fields string?  of a struct
---@field extents integer[]
---@field plan celer.io.plan  with `file`
---@field sums string  the hashes of its blocks

---@class celer.io.manifest
---@field data string  the folder of the data
---@field entries celer.io.entry[]
---@field extra any

--- What the folder holds; its hash is another for each checkpoint. Nil and no
--- message: there is none.
---@return celer.io.manifest? manifest, string|ffi.cdata* fault_or_hash
function M.read(path)
  local name = path .. "/manifest"
  local text, fault, absent = posix.read_all(name)
  if absent then return nil end
  if not text then return nil, fault end
  if text:sub(1, #FIRST_LINE) ~= FIRST_LINE then
    return nil, ("%s is no checkpoint"):format(name)
  end
  local expected, body = text:sub(#FIRST_LINE + 1, #FIRST_LINE + 16),
    text:sub(#FIRST_LINE + 18)
  local hash = slab.hash_text(body)
  local ok, manifest = pcall(codec.decode, body)
  if not ok or bit.tohex(hash, 16) ~= expected then
    return nil, ("%s is damaged: what is in it is not what was written"):format(name)
  end
  manifest.extra = reals.plain(manifest.extra)
  return manifest, hash
end

local function text_of(manifest)
  local body = codec.encode(manifest)
  return FIRST_LINE .. bit.tohex(slab.hash_text(body), 16) .. "\n" .. body
end

local function data_folder(path, number)
  return ("%s/data-%s"):format(path, bit.tohex(number, 16))
end

local function remove_data(folder)
  for _, name in ipairs(posix.list(folder)) do
    if name:find("%.npy$") then posix.remove(folder .. "/" .. name) end
  end
  posix.remove_folder(folder)
end

-- Data that no checkpoint needs.
local function remove_others(path, manifest)
  for _, name in ipairs(posix.list(path)) do
    if name:find("^data%-%x+$") and #name == 21 and not (manifest and manifest.data == name) then
      remove_data(path .. "/" .. name)
    end
  end
end

-- For rank 0 alone, while no other writes.
local function check_or_remove(folder, ok, message)
  if not ok then
    remove_data(folder)
    core.not_left(folder)
  end
  return check(ok, message)
end

--- Rank 0, first.
---@param plans celer.io.plan[]
function M.begin(_, slot, at, path, plans)
  check(posix.make_folder(path))
  local old, fault = M.read(path)
  if not old and fault then check(nil, "cannot write the checkpoint: " .. fault) end
  remove_others(path, old)
  local number = tasks.draw()
  local folder = data_folder(path, number)
  core.leftover(folder)
  check(posix.make_folder(folder))
  for _, plan in ipairs(plans) do
    check_or_remove(folder, tasks.create(folder .. "/" .. plan.file, plan))
  end
  slot:set(at, number)
end

--- All ranks: to the system, which is as fast as memory while it has some.
function M.write(_, data, slot, sums, at, path, plan)
  tasks.write_blocks(data_folder(path, slot(at)) .. "/" .. plan.file, plan, data, sums)
end

local function sync_file(name)
  local file, message = posix.change(name)
  if not file then return nil, message end
  local ok, why = file:sync()
  file:close()
  return ok, why
end

--- All ranks: to the disk, while the program goes on. One task for all, so that
--- no more than one of a rank's threads is waiting.
function M.sync(_, slot, synced, at, path, plans)
  local folder = data_folder(path, slot(at))
  for _, plan in ipairs(plans) do
    check(sync_file(folder .. "/" .. plan.file))
  end
  for i = synced.min[0], synced.max[0] - 1 do synced[i] = 1 end
end

-- Replaces the manifest; whatever happens there is the old one or the new one. The data
-- is no leftover any more before the new one is.
local function replace(path, folder, text)
  local part = path .. "/manifest.part"
  check_or_remove(folder, posix.sync_folder(folder))
  core.leftover(part)
  check_or_remove(folder, posix.write_all(part, text))
  core.not_left(folder)
  check_or_remove(folder, posix.rename(part, path .. "/manifest"))
  core.not_left(part)
  check(posix.sync_folder(path))
end

--- Rank 0, when all data is on disk. `about` has the entries, to be completed, and
--- extra.
---@param about celer.io.manifest
function M.commit(_, slot, at, path, plans, about, ...)
  local folder = data_folder(path, slot(at))
  for i, entry in ipairs(about.entries) do
    entry.plan, entry.sums = plans[i], (select(i, ...)):string()
    entry.plan.header = nil
  end
  about.data = folder:match("[^/]*$")
  replace(path, folder, text_of(about))
  remove_others(path, about)
end

--- Rank 0: what the last complete one is, for all ranks; 0: there is none.
function M.find(_, slot, at, path)
  local manifest, hash = M.read(path)
  if not manifest and hash then check(nil, "cannot restore: " .. hash) end
  slot:set(at, manifest and hash or 0)
end

--- All ranks.
---@param entry celer.io.entry
function M.restore(_, data, sums, path, folder, entry)
  local name = ("%s/%s/%s"):format(path, folder, entry.plan.file)
  tasks.read_blocks(name, entry.plan, data, sums, ffi.cast("const uint64_t *", entry.sums))
end

--- Rank 0, when all have read: only then may the next checkpoint remove them.
function M.restored() end

return M
