--- profile.lua -- the table that `celer run --profile` writes at the end.
local core = require "celer.core"

local M = {}

local HEAD = { "kind", "task", "", "count", "total ms", "mean us", "max us", "MiB", "GB/s" }
local OFTEN = 8 -- tasks of a line that could have been taken together
local WORDS = 3 -- columns that begin with these are words, the others numbers

-- With three digits of the fraction for what is small.
local function number(value)
  return (value < 1000 and "%.3f" or "%.0f"):format(value)
end

local function cells(row)
  local copied = row.bytes > 0
  return { row.kind, row.name or "-", row.way or "", tostring(row.count),
    number(row.total / 1e6), number(row.total / row.count / 1e3), number(row.max / 1e3),
    copied and number(row.bytes / 2 ^ 20) or "",
    copied and row.total > 0 and number(row.bytes / row.total) or "" }
end

-- What took longest comes first.
local function sorted(rows)
  for i, row in ipairs(rows) do row.at = i end
  table.sort(rows, function(a, b)
    if a.total ~= b.total then return a.total > b.total end
    return a.at < b.at
  end)
  return rows
end

-- Lines of cells, each column as wide as its widest.
local function align(lines)
  local out, width = {}, {}
  for _, line in ipairs(lines) do
    for i, cell in ipairs(line) do width[i] = math.max(width[i] or 0, #cell) end
  end
  for _, line in ipairs(lines) do
    local text = {}
    for i, cell in ipairs(line) do
      text[i] = ("%" .. (i <= WORDS and "-" or "") .. width[i] .. "s"):format(cell)
    end
    out[#out + 1] = table.concat(text, "  "):gsub("%s+$", "") .. "\n"
  end
  return table.concat(out)
end

-- Why tasks that come again and again were carried out one by one.
local function alone(list)
  local lines = {}
  for _, one in ipairs(list) do
    if one.count >= OFTEN then
      lines[#lines + 1] = ("celer: %s:%d: %s was not taken together with others, %d times: %s\n")
        :format(one.file or "?", one.line, one.name, one.count, one.why)
    end
  end
  return table.concat(lines)
end

--- Writes the table of this rank to stderr, in one piece. `which` is --output's
--- value: "all" for every rank, else rank 0. Nothing without --profile, or when
--- nothing was computed.
---@param which string?
function M.write(which)
  local rank, ranks = core.rank()
  local rows, alones = core.profile()
  if not rows or #rows == 0 or (rank ~= 0 and which ~= "all") then return end
  local lines = { HEAD }
  for _, row in ipairs(sorted(rows)) do lines[#lines + 1] = cells(row) end
  io.stderr:write(("celer: profile of rank %d of %d\n"):format(rank, ranks), align(lines),
    alone(alones))
end

return M
