--- show.lua -- values as the session prints them.

local M = {}

local buffers -- celer.buffer, once there can be one

local MOST_ELEMENTS = 256 -- of a buffer that is shown with its contents

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

--- Prints its arguments: buffers by themselves, what is between them on a line.
function M.values(...)
  buffers = buffers or package.loaded["celer.buffer"]
  local line = {}
  local function flush()
    if #line > 0 then print(table.concat(line, "\t")) end
    line = {}
  end
  for i = 1, select("#", ...) do
    local value = (select(i, ...))
    if buffers and buffers.is_buffer(value) then
      flush()
      show_buffer(value)
    else
      line[#line + 1] = tostring(value)
    end
  end
  flush()
end

return M
