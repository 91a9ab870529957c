--- order.lua -- what is done with one path happens in the order of the script.
---
--- A path has one of a few elements of a buffer, by its hash: whoever writes a
--- file writes it first, whoever reads the file reads it. Paths that share one
--- wait for each other, no worse.
local box = require "celer.box"
local buffers = require "celer.data.buffer"
local mapper = require "celer.mapper.builtin"
local snapshot = require "celer.data.snapshot"

local M = {}

local SLOTS = 64
local slots

local function buffer()
  if not slots then
    local zeros = {}
    for i = 1, SLOTS do zeros[i] = 0 end
    slots = buffers.new("uint64_t", { SLOTS }, { name = "celer.io", init = zeros })
  end
  return slots
end

--- The same path without what names nothing: "u.h5" of "./u.h5".
---@param path string
---@return string
function M.plain(path)
  local out = path:gsub("/+", "/")
  local n
  repeat out, n = out:gsub("/%./", "/") until n == 0
  return (out:gsub("^%./", ""))
end

--- The element of a path, however it is written.
---@return integer
function M.slot(path)
  local h = 0
  path = M.plain(path)
  for i = 1, #path do h = (h * 31 + path:byte(i)) % 65521 end
  return h % SLOTS
end

local function part(slot) return mapper.fixed(box.new({ slot }, { slot + 1 })) end

function M.read(cg, slot) return cg:read(buffer(), part(slot)) end
function M.write(cg, slot) return cg:read_write(buffer(), part(slot)) end

--- Waits until what was submitted for the path is done; the element's value, the
--- same on all ranks. In a dry run it is what `dry` gives.
---@param slot integer
---@param dry? fun(): number|ffi.cdata*
function M.wait(slot, dry)
  local capture = snapshot.capture(buffer(), box.new({ slot }, { slot + 1 }),
    { dry = dry or 0 })
  return snapshot.request({ capture }):get()[slot]
end

return M
