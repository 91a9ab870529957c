--- collectives.lua -- the programs of Knorr et al., Collective Communication Patterns, with
--- collectives and without.
---
---   luajit spec/bench/collectives.lua [ranks] [rounds] [programs] [sizes] [milliseconds]
---     [backend]
---
--- Runs patterns.lua as so many ranks of this host, by turns with collectives and with
--- --no-collectives, and prints medians: microseconds of a step, and how many times as
--- fast collectives are. A rank has one device, of the processor unless `backend` is cuda.
--- The host needs cores for all ranks, best eight for each; where it has not, threads wait
--- for each other, and the counts alone say something: collectives, messages and
--- instructions of a rank in a step, by a dry run, with collectives and without. The last
--- line is JSON; `figures.lua` draws it.
local cjson = require("cjson")
local celer = require("spec.support.celer")
local dry = require("spec.bench.dry")

local ALL = { "all_gather", "two_all_gathers", "weighted_all_gather", "broadcast",
  "broadcast_most", "broadcast_few", "broadcast_gather", "scatter_gather", "all_to_all", "stencil" }
local ranks, rounds = tonumber(arg[1]) or 8, tonumber(arg[2]) or 5
local programs = arg[3] ~= "" and arg[3] or table.concat(ALL, ",")
local sizes = arg[4] or "1024,4096,65536,1048576,16777216"
local milliseconds = arg[5] or 500
local backend = arg[6] or "cpu"
local STEPS = 64 -- of a dry run

-- By program and size, and whether with collectives: microseconds of a step, of all
-- batches of all runs.
local rows, row_of = {}, {}

local function run(collectives)
  local words = { "run", "--backend", backend, "--devices", "1" }
  if not collectives then words[#words + 1] = "--no-collectives" end
  for _, word in ipairs { "spec/bench/patterns.lua", programs, sizes, milliseconds } do
    words[#words + 1] = word
  end
  local r = celer.run(words, { ranks = ranks, timeout = 3600 })
  assert(r.status == 0, r.stderr)
  for _, row in ipairs(cjson.decode(r.stdout:match("[^\n]+\n$")).rows) do
    local key = row.program .. row.bytes
    if not row_of[key] then
      rows[#rows + 1] = { program = row.program, bytes = row.bytes, [true] = {}, [false] = {} }
      row_of[key] = rows[#rows]
    end
    for _, us in ipairs(row.all) do table.insert(row_of[key][collectives], us) end
  end
end

-- Of a rank inside, per step.
local function counts(row, collectives)
  local report = dry.run(("spec/bench/patterns.lua %s %d steps=%d"):format(row.program, row.bytes,
    STEPS), { ranks = ranks, words = not collectives and { "--no-collectives" } or nil })
  local sent = report.messages
  return { collectives = sent.collectives / STEPS, messages = (sent.sent + sent.received) / STEPS,
    instructions = report.instructions / STEPS }
end

local function middle(list)
  table.sort(list)
  return list[math.ceil(#list / 2)]
end

for round = 1, rounds do
  for turn = 0, 1 do run((round + turn) % 2 == 0) end
end
print(("%d ranks; collectives, messages and instructions: with / without"):format(ranks))
print(("%-17s %9s %12s %12s %6s %5s %13s %13s"):format("us per step", "bytes", "collectives",
  "messages", "times", "coll.", "messages", "instructions"))
for _, row in ipairs(rows) do
  row.collectives, row.point_to_point = middle(row[true]), middle(row[false])
  row.all = { collectives = row[true], point_to_point = row[false] }
  row[true], row[false] = nil, nil
  row.times = row.point_to_point / row.collectives
  local with, without = counts(row, true), counts(row, false)
  row.count = { collectives = with, point_to_point = without }
  print(("%-17s %9d %12.2f %12.2f %6.2f %5.2f %6.2f/%6.2f %6.2f/%6.2f"):format(row.program,
    row.bytes, row.collectives, row.point_to_point, row.times, with.collectives, with.messages,
    without.messages, with.instructions, without.instructions))
end
print(cjson.encode { bench = "collectives", ranks = ranks, backend = backend, rows = rows })
