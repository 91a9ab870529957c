--- counts.lua -- figures that are the same in every run and on every machine, and what
--- they should be.
---
--- What bench_counts and dry runs of the examples count, beside spec/bench/expected.json.
--- `luajit spec/bench/all.lua --counts` prints it; --renew writes that file anew, for a
--- change that is meant to cost so much; spec/bench/counts_spec.lua is a part of all specs.
local cjson = require("cjson")
local celer = require("spec.support.celer")
local dry = require("spec.bench.dry")

local M = {}

local EXPECTED = "spec/bench/expected.json"

-- How much may differ: with the C library, and by a block of an arena, in bytes.
local SLACK = { allocations = 0.02, held = 0.02 }
local BLOCK = { held = 96 * 1024 }

-- Name, script and arguments, ranks; as a rank inside.
local PROGRAMS = "all_gather,two_all_gathers,weighted_all_gather,broadcast,broadcast_most," ..
  "broadcast_few,broadcast_gather,scatter_gather,all_to_all,stencil"
local dry_runs = {
  { "wave_sim", "examples/wave_sim.lua 131072 200 1000000 /tmp", 4 },
  { "wave_sim", "examples/wave_sim.lua 131072 200 1000000 /tmp", 65536 },
  { "wave_sim 2d", "examples/wave_sim.lua 131072 200 1000000 /tmp 2d", 65536 },
  { "jacobi", "examples/jacobi.lua 65536 5", 65536 },
  { "rsim", "examples/rsim.lua 65536 5", 65536 },
  { "cg", "examples/cg.lua 65536 3", 65536 },
  { "patterns", "spec/bench/patterns.lua " .. PROGRAMS .. " 4096 steps=10", 8 },
}

-- The counts of one dry run: no times, and nothing nested.
local function dry_run(command, ranks)
  local report = dry.run(command, { ranks = ranks })
  local counts = { buffer_allocations = report.allocations, buffer_bytes = report.memory[1].peak }
  for _, key in ipairs { "tasks", "commands", "instructions", "copies", "bytes_copied" } do
    counts[key] = report[key]
  end
  for key, value in pairs(report.messages) do counts[key] = value end
  return counts
end

local function graphs()
  local r = celer.exec({ (celer.command():gsub("celer$", "bench_counts")) })
  assert(r.status == 0, r.stderr)
  local all = {}
  for line in r.stdout:gmatch("[^\n]+") do
    local row = cjson.decode(line)
    local name = row.name
    row.name = nil
    for key, value in pairs(row) do
      if value == cjson.null then row[key] = nil end
    end
    all[name] = row
  end
  return all
end

--- All counts, by case and by what is counted.
---@return table<string, table<string, number>>
function M.measure()
  local all = graphs()
  for _, run in ipairs(dry_runs) do
    all[("dry run of %s, %d ranks"):format(run[1], run[3])] = dry_run(run[2], run[3])
  end
  return all
end

function M.expected()
  local file = assert(io.open(EXPECTED))
  local text = file:read("*a")
  file:close()
  return cjson.decode(text)
end

local function sorted(t)
  local keys = {}
  for key in pairs(t) do keys[#keys + 1] = key end
  table.sort(keys)
  return keys
end

--- What is more than it should be, and what is less, in words. Cases that have come or
--- gone are more, too: they are not watched.
---@return string[] more
---@return string[] less
function M.compare(measured, expected)
  local more, less = {}, {}
  for _, case in ipairs(sorted(measured)) do
    local want = expected[case]
    if not want then more[#more + 1] = case .. " is not expected" end
    for _, key in ipairs(want and sorted(measured[case]) or {}) do
      local is, was = measured[case][key], want[key]
      local text = ("%s: %s %s, expected %s"):format(case, key, is, tostring(was))
      local slack = (was or 0) * (SLACK[key] or 0) + (BLOCK[key] or 0)
      if not was or is > was + slack then
        more[#more + 1] = text
      elseif is < was - slack then
        less[#less + 1] = text
      end
    end
  end
  for _, case in ipairs(sorted(expected)) do
    if not measured[case] then more[#more + 1] = case .. " is not measured" end
  end
  return more, less
end

--- Writes what is expected from now on, one case to a line.
function M.renew(measured)
  local lines = {}
  for _, case in ipairs(sorted(measured)) do
    local parts = {}
    for _, key in ipairs(sorted(measured[case])) do
      parts[#parts + 1] = ('"%s": %.0f'):format(key, measured[case][key])
    end
    lines[#lines + 1] = ('  "%s": {%s}'):format(case, table.concat(parts, ", "))
  end
  local file = assert(io.open(EXPECTED, "w"))
  file:write("{\n", table.concat(lines, ",\n"), "\n}\n")
  file:close()
end

return M
