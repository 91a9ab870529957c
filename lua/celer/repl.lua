--- repl.lua -- a plain interactive session on a single node.
local buffers -- celer.buffer, once there can be one
local core = require "celer.core"

local M = {}

local MOST_ELEMENTS = 256 -- of a buffer that is shown with its contents

local function is_incomplete(message)
  return message:find("'<eof>'", 1, true) ~= nil
end

-- Reads lines until they make a chunk; nil at the end of input.
local function read_chunk(prompt)
  local text
  while true do
    if prompt then
      io.write(text and ">> " or "> ")
      io.flush()
    end
    local line = io.read()
    if not line then
      return nil, text and select(2, loadstring(text, "=stdin"))
    end
    text = text and text .. "\n" .. line or line
    local chunk = loadstring("return " .. text:gsub("^=", ""), "=stdin")
    if chunk then return chunk end
    local message
    chunk, message = loadstring(text, "=stdin")
    if chunk or not is_incomplete(message) then return chunk, message end
  end
end

local function word(view, value)
  return view.type.name == "float" and ("%.7g"):format(value) or tostring(value)
end

-- The elements of a snapshot, one line for each row.
local function rows(view, index, out)
  local dims, d = view.dims, #index
  if d >= dims - 1 then
    local line = {}
    for i = 0, dims > 0 and view.max[d] - 1 or 0 do
      if dims > 0 then index[d + 1] = i end
        line[#line + 1] = word(view, view(unpack(index)))
      index[d + 1] = nil
    end
    out[#out + 1] = line
    return
  end
  for i = 0, view.max[d] - 1 do
    index[d + 1] = i
    rows(view, index, out)
    index[d + 1] = nil
  end
end

local function lines_of(view)
  local lines, width = {}, 3
  rows(view, {}, lines)
  for _, line in ipairs(lines) do
    for _, w in ipairs(line) do width = math.max(width, #w) end
  end
  for i, line in ipairs(lines) do
    for j, w in ipairs(line) do line[j] = (" "):rep(width - #w) .. w end
    lines[i] = " " .. table.concat(line, " ")
  end
  return lines
end

-- A small buffer is shown with its contents, by an implicit fence.
local function show_buffer(b)
  print(tostring(b))
  if b.freed then return print " freed" end
  local total = b.bytes / b.type.size
  if total == 0 or total > MOST_ELEMENTS or b.type.class == "s" then return end
  local snapshot = require("celer.queue").new():fence(b):get()
  print(table.concat(lines_of(snapshot), "\n"))
end

local function show(...)
  buffers = buffers or package.loaded["celer.buffer"]
  for i = 1, select("#", ...) do
    local value = (select(i, ...))
    if buffers and buffers.is_buffer(value) then show_buffer(value)
    else print(value) end
  end
end

-- pcall's results of a line: whether all went well, or the error.
local function outcome(ok, ...)
  if not ok then return false, (...) end
  return pcall(show, ...)
end

local function complain(message)
  io.flush()
  io.stderr:write("celer: ", tostring(message), "\n")
end

local function greet()
  local i = core.info()
  local backend, devices, list = core.devices()
  if not backend then return complain(devices) end -- the message
  local what = backend == "cpu" and ("%s cores"):format(i.cores or "?")
    or core.gpu(list[1]).name
  print(("celer %s  1 rank, %d device%s (%s, %s)"):format(i.version, devices,
    devices == 1 and "" or "s", backend, what))
end

--- Reads and runs lines until the input ends. The status is 1 when a line
--- failed and nobody was there to see it.
---@return integer status
function M.run()
  local _, ranks = core.rank()
  if ranks > 1 then
    error({ message = "the interactive session runs on a single rank; start "
      .. "`celer run script.lua` under srun or mpirun" }, 0)
  end
  jit.off() -- so that Ctrl-C reaches a running line
  celer = require "celer" -- luacheck: ignore
  local person, failed = core.terminal(), false
  if person then greet() end
  while true do
    local chunk, message = read_chunk(person)
    if not chunk and not message then break end
    local ok = chunk ~= nil
    if ok then ok, message = outcome(pcall(chunk)) end
    if not ok then complain(message) end
    failed = failed or not ok
  end
  if person then io.write("\n") end
  require("celer.queue").finish()
  return failed and not person and 1 or 0
end

return M
