--- plain.lua -- CUDA files with plain __global__ functions, as they are.
local core = require "celer.core"
local kernel = require "celer.kernel.kernel"
local place = require "celer.place"
local words = require "celer.words"

local fail = place.fail

local M = {}

--- A number that each chunk has of its own; code as plain.cuh reads it.
---@class celer.plain_argument
local Placeholder = {}
Placeholder.__index = Placeholder

function Placeholder:__tostring() return self.name end

local function placeholder(name, kind, dimension)
  dimension = dimension == nil and 0 or dimension
  if dimension ~= 0 and dimension ~= 1 and dimension ~= 2 then
    fail("%s: a dimension is 0, 1 or 2", name)
  end
  return setmetatable({ name = name, code = kind * 1024 + dimension }, Placeholder)
end

--- For an integer of a kernel from celer.cuda_module: how many items of dimension
--- `d` (0) the chunk has.
---@param d? integer
---@return celer.plain_argument
function M.chunk_size(d) return placeholder("celer.chunk_size", 0, d) end

--- Where the chunk begins in dimension `d` of the range.
---@param d? integer
---@return celer.plain_argument
function M.chunk_start(d) return placeholder("celer.chunk_start", 1, d) end

--- How many items the whole range has in dimension `d`.
---@param d? integer
---@return celer.plain_argument
function M.range_size(d) return placeholder("celer.range_size", 2, d) end

--- How many elements lie between two neighbours along dimension `d` of what
--- argument number `argument` points to.
---@param argument integer
---@param d? integer
---@return celer.plain_argument
function M.stride(argument, d)
  if type(argument) ~= "number" or argument % 1 ~= 0 or argument < 1 or argument > 64 then
    fail("celer.stride: which argument? a whole number from 1")
  end
  local made = placeholder("celer.stride", 3, d)
  made.code = made.code + (argument - 1) * 4
  return made
end

function M.is_placeholder(value) return getmetatable(value) == Placeholder end

-- x first, as CUDA has it.
local function block_of(block)
  if type(block) == "number" then block = { block } end
  if type(block) ~= "table" or #block < 1 or #block > 3 then
    fail("celer.cuda_module: block must be 1 to 3 numbers of threads such as {16, 16}")
  end
  local threads = 1
  for _, n in ipairs(block) do
    if type(n) ~= "number" or n % 1 ~= 0 or n < 1 then
      fail("celer.cuda_module: the threads of a block must be whole numbers")
    end
    threads = threads * n
  end
  if threads > 1024 then
    fail("celer.cuda_module: a block has 1024 threads at most, not %d", threads)
  end
  return block, threads
end

local known = { block = true, defines = true, options = true }

--- Loads a CUDA file for kernels of `block` threads (256): a range has as many
--- dimensions as the block. Its __global__ functions by name, always as a table.
---@param path string  beside the script
---@param options? {block: integer|integer[], defines: table?, options: table?}
---@return table<string, celer.kernel>
function M.load(path, options)
  options = options == nil and {} or options
  if type(path) ~= "string" then
    fail("celer.cuda_module: expected the path of a CUDA file, not %s", words.a(path))
  end
  words.check_options("celer.cuda_module", options, known)
  local block, threads = block_of(options.block or 256)
  if place.check(core.devices()) ~= "cuda" then
    fail("celer.cuda_module: %s holds kernels for a GPU, and this run computes on "
      .. "the processor; celer info says why", path)
  end
  local shape = ("#define CELER_PLAIN_DIMS %d\n#define CELER_PLAIN_THREADS %d\n"
    .. "#define CELER_PLAIN_BLOCK %s\n"):format(#block, threads, table.concat(block, ", "))
  return kernel.load(path, { defines = options.defines, options = options.options },
    { block = block, prelude = shape .. core.embedded("kernels/plain.cuh") })
end

return M
