--- formats.lua -- what a file's name says of its contents.
---
--- Each has load(path, options), which gives what the file holds or nil and why
--- not, and prepare(plan, buffer, shape, options), which completes a plan or gives
--- nil and why not. A PNG is not written in parts.
local ffi = require "ffi"
local core = require "celer.core"
local dtype = require "celer.io.dtype"
local hdf5 = require "celer.io.hdf5"
local npy = require "celer.io.npy"
local posix = require "celer.io.posix"

local M = {}

---@class celer.io.found
---@field file celer.file|table  to read from
---@field at integer?  the byte where the data begins; nil: hdf5.read
---@field descr string  the elements, as dtype.lua
---@field shape integer[]
---@field dataset string?
---@field id integer?  HDF5's, without `at`
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

M.hdf5 = {
  datasets = true,
  load = function(path, options) return hdf5.open(path, options.dataset) end,
  prepare = function(plan, buffer, shape, options)
    local library, message = hdf5.library()
    if not library then return nil, message end
    plan.kind, plan.shape = hdf5.kind(buffer.type), shape
    plan.dataset = options.dataset or "data"
    if not plan.kind then return nil, not_plain(buffer.type) end
    local fault = hdf5.name_fault(plan.dataset, options.others or {})
    return not fault, fault
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
