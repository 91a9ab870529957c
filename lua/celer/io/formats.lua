--- formats.lua -- what a file's name says of its contents.
---
--- Each has load(path, options), which gives what the file holds or nil and why
--- not, and prepare(plan, buffer, shape, name, options), which completes a plan or
--- gives nil and why not. A PNG is not written in parts. Where files hold buffers by
--- name, list(path) gives all that is in one, or nil and why not.
local ffi = require "ffi"
local core = require "celer.core"
local dtype = require "celer.io.dtype"
local datasets = require "celer.io.hdf5.datasets"
local kinds = require "celer.io.hdf5.types"
local library = require "celer.io.hdf5.library"
local npy = require "celer.io.npy"
local posix = require "celer.io.posix"
local slab = require "celer.io.slab"

local M = {}

---@class celer.io.found
---@field file celer.file|table  to read from
---@field at integer?  the byte where the data begins; nil: hdf5.read
---@field descr string  the elements, as dtype.lua
---@field shape integer[]
---@field dataset string?
---@field id ffi.cdata*?  HDF5's, an int64_t, without `at`
---@field step integer?  of an HDF5 dataset, of which it is all
---@field small boolean?  the file is in memory

local function not_plain(type_)
  return ("struct %s has fields that are not plain"):format(type_.name)
end

M.npy = {
  load = function(path)
    local file, message = posix.open(path)
    if not file then return nil, message end
    local found, fault = npy.read(file)
    if found then
      found.file = file
      return found
    end
    file:close()
    return nil, ("cannot read %s: %s"):format(path, fault)
  end,
  prepare = function(plan, buffer, shape)
    local descr = dtype.describe(buffer.type)
    if not descr then return nil, not_plain(buffer.type) end
    plan.header = npy.header(descr, shape)
    plan.at = #plan.header
    return true
  end,
}

-- Bytes of a step that lie together; a larger one is cut into rows.
local PIECE, LARGEST = 2 ^ 24, 2 ^ 32 - 1

-- Completes the plan of a step that a dataset gets; or nil and why it cannot.
local function cut_step(plan, shape)
  local rows, row = shape[1] or 1, plan.size
  for d = 2, #shape do row = row * shape[d] end
  if row > LARGEST then
    return nil, ("a row of it has %.0f bytes, and HDF5 keeps at most %.0f together"):format(row,
      LARGEST)
  end
  plan.pieces = math.max(1, math.ceil(rows / math.max(1, math.floor(PIECE / math.max(1, row)))))
  plan.tall = math.max(1, math.ceil(rows / plan.pieces))
  plan.pieces = math.max(1, math.ceil(rows / plan.tall))
  return true
end

M.hdf5 = {
  datasets = true,
  load = function(path, options) return datasets.open(path, options.dataset, options.step) end,
  list = datasets.list,
  prepare = function(plan, buffer, shape, name, options)
    local opened, message = library.open()
    if not opened then return nil, message end
    plan.kind, plan.shape, plan.dataset = kinds.kind(buffer.type), shape, name
    if not plan.kind then return nil, not_plain(buffer.type) end
    plan.descr, plan.empty = dtype.describe(buffer.type), slab.volume(plan.window) == 0
    plan.grows = options.append or nil
    plan.pieces, plan.tall = 1, math.max(1, shape[1] or 1)
    if not plan.grows then return true end
    return cut_step(plan, shape)
  end,
}

-- A file that is a string.
local Text = {}
Text.__index = Text
function Text:read(to, n, at)
  ffi.copy(to, self.text:sub(at + 1, at + n), n)
  return true
end
function Text:size() return #self.text end
function Text:close() self.text = "" end

local SIGNATURE = "\137PNG\r\n\26\n"

local function is_png(file)
  local start = ffi.new("char[?]", #SIGNATURE)
  return file:size() >= #SIGNATURE and file:read(start, #SIGNATURE, 0)
    and ffi.string(start, #SIGNATURE) == SIGNATURE
end

M.png = {
  picture = true,
  load = function(path, options)
    local file, message = posix.open(path) -- says more than libpng
    if not file then return nil, message end
    local good = is_png(file)
    file:close()
    if not good then return nil, ("cannot read %s: it is no PNG file"):format(path) end
    local rgb = options.colors == "rgb"
    local pixels, height, width = core.png_read(path, rgb)
    if not pixels then return nil, height end
    return { file = setmetatable({ text = pixels }, Text), at = 0, descr = "'|u1'",
      shape = { height, width, rgb and 3 or nil }, small = true }
  end,
}

local endings = { npy = "npy", h5 = "hdf5", hdf5 = "hdf5", png = "png" }

--- The format of a file, or nil.
function M.of(path)
  local ending = path:match("%.(%w+)$")
  return M[endings[ending and ending:lower()]]
end

return M
