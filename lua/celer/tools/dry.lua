--- dry.lua -- `celer run --dry-run N`: what captures bring when nothing is
--- executed, and the report at the end.
local ffi = require "ffi"
local core = require "celer.core"
local output = require "celer.run.output"
local place = require "celer.place"
local tables = require "celer.tables"
local types = require "celer.data.types"
local count = require("celer.words").count

local M = {}

-- ---- captured values --------------------------------------------------------

-- So often may one line bring the same in turn: a loop that waits for something else
-- never ends. It is zeros that nobody asked for, also where it was fewer of them and
-- took long; or what the script gives itself, and may know to be the same.
local MOST_ZEROS, SOME_ZEROS, SECONDS, MOST_GIVEN = 1000, 100, 1, 10000
local seen = {} -- by place: {times, since, value}; value nil: zeros
local zeros, given = false, false -- whether any were brought

local function note(name, value)
  local file, line = place.user()
  local at = ("%s:%d"):format(file or "?", line)
  local last = seen[at]
  if not last or last.value ~= value then
    last = { times = 0, since = core.time(), value = value }
    seen[at] = last
  end
  last.times = last.times + 1
  if value ~= nil and last.times >= MOST_GIVEN then
    place.fail("this line has brought %s of %s, which `dry` gives, %d times: nothing is "
      .. "executed in a dry run, so a loop that waits for another value does not end; give it "
      .. "one in the end: celer.capture(%s, nil, {dry = ...})", tostring(value), name,
      last.times, name)
  elseif value == nil and (last.times >= MOST_ZEROS or (last.times >= SOME_ZEROS
    and core.time() - last.since > SECONDS)) then
    place.fail("this line has brought zeros of %s %d times: nothing is executed in a dry "
      .. "run, so a loop that waits for another value does not end; give it one: "
      .. "celer.capture(%s, nil, {dry = ...})", name, last.times, name)
  end
end

--- Notes what the script was given in place of what it captured; raises when it seems
--- to wait for it to change.
---@param name string  of what was captured
---@param dry any  nil: zeros
function M.note(name, dry)
  if dry == nil then zeros = true else given = true end
  if type(dry) ~= "function" then note(name, dry) end
end

--- What the script raised, with why that may be: a check of results fails where
--- there are none. And whether something was captured.
---@param failure {message: string}
---@return {message: string}, boolean
function M.explain(failure)
  if not zeros or failure.message:find("this line has brought ", 1, true) then
    return failure, zeros or given
  end
  return { message = failure.message .. "\nnothing is executed here, and what the script "
    .. "captured is zero: give captures what it expects, by celer.capture(u, nil, {dry = ...}), "
    .. "or leave checks out" }, true
end

local function each_element(lo, hi, f)
  local at = 0
  for i = lo[1], hi[1] - 1 do
    for j = lo[2], hi[2] - 1 do
      for k = lo[3], hi[3] - 1 do
        f(at, i, j, k)
        at = at + 1
      end
    end
  end
end

--- Puts `dry`, a value or a function of the coordinates, into all elements of a
--- snapshot.
---@param buffer celer.buffer
---@param dry any
---@param data userdata
---@param bounds integer[]  six
function M.fill(buffer, dry, data, bounds)
  local to = ffi.cast(ffi.typeof("$ *", buffer.type.ctype), data)
  local lo, hi = { unpack(bounds, 1, 3) }, { unpack(bounds, 4, 6) }
  each_element(lo, hi, function(at, i, j, k)
    local value = dry
    if type(dry) == "function" then
      value = dry(unpack({ i, j, k }, 1, buffer.dims))
    end
    local fault = types.store(buffer.type, to, at, value)
    if fault then
      place.fail("celer.capture: `dry` of buffer %s: %s", buffer.name, fault)
    end
  end)
end

-- ---- the report -------------------------------------------------------------

local uncounted = { images = {}, routes = {} } -- by the names of indices, and of what is written

--- Notes that what images of an index bring is not counted, or what routes to a buffer bring: only
--- contents would tell.
---@param kind "images"|"routes"
---@param name string
function M.uncounted(kind, name) uncounted[kind][name] = true end

-- The names of a kind as text; nil where there is none.
local function names_of(kind)
  local names = {}
  for name in tables.sorted_pairs(uncounted[kind]) do names[#names + 1] = name end
  return names[1] and table.concat(names, ", ")
end

local units = { "B", "KiB", "MiB", "GiB", "TiB", "PiB" }

--- "1.5 GiB".
---@param bytes number
---@return string
function M.amount(bytes)
  local unit = 1
  while bytes >= 1024 and unit < #units do bytes, unit = bytes / 1024, unit + 1 end
  return (unit == 1 and "%.0f %s" or "%.1f %s"):format(bytes, units[unit])
end

local function per_task(seconds, tasks)
  return ("%.2f us"):format(tasks > 0 and seconds / tasks * 1e6 or 0)
end

local function memory_rows(r, add)
  for _, memory in ipairs(r.memory) do
    add(memory.device and "memory of device " .. memory.device or "memory of the host",
      M.amount(memory.peak), memory.limit and "of " .. M.amount(memory.limit) or "at its peak")
  end
end

-- Rows of what, how much and more of it.
local function rows(r)
  local out = {}
  local function add(...) out[#out + 1] = { ... } end
  local s, m = r.seconds, r.messages
  add("tasks", ("%.0f"):format(r.tasks), ("in %.3f s: %.0f per second"):format(s.wall,
    s.wall > 0 and r.tasks / s.wall or 0))
  add("commands", ("%.0f"):format(r.commands), "")
  add("instructions", ("%.0f"):format(r.instructions), ("with %s, %s, %s of %s"):format(
    count(r.kernels, "kernel"), count(r.allocations, "allocation"),
    ("%.0f %s"):format(r.copies, r.copies == 1 and "copy" or "copies"),
    M.amount(r.bytes_copied)))
  add("messages sent", ("%.0f"):format(m.sent), M.amount(m.bytes_sent))
  add("messages received", ("%.0f"):format(m.received), ("%s; %s in all"):format(
    M.amount(m.bytes_received), count(m.peers, "peer")))
  if m.collectives > 0 then
    add("collectives", ("%.0f"):format(m.collectives), ("%s, among all ranks"):format(
      M.amount(m.bytes_shared)))
  end
  memory_rows(r, add)
  local images, routes = names_of "images", names_of "routes"
  if r.routes then
    add("routes send", ("%.0f"):format(r.routes.sent), ("%s; %s in all"):format(
      M.amount(r.routes.bytes_sent), count(r.routes.peers, "peer")))
    add("routes receive", ("%.0f"):format(r.routes.received), ("%s; %s among all ranks"):format(
      M.amount(r.routes.bytes_received), count(r.routes.collectives, "collective")))
  end
  if images then
    add("not counted", "", ("what images of %s bring; celer.image(index, { dry = mapper }) counts "
      .. "a mapper in their place"):format(images))
  end
  if routes then
    add("not counted", "", ("what items push to %s, between ranks; cg:route(out, how, { dry = "
      .. "mapper }) counts what they push to the mapper's boxes"):format(routes))
  end
  add("cost of a task", per_task(s.main + s.scheduler + s.executor, r.tasks),
    ("main %s, scheduler %s, executor %s"):format(per_task(s.main, r.tasks),
      per_task(s.scheduler, r.tasks), per_task(s.executor, r.tasks)))
  return out
end

local function text_of(r)
  local lines = { ("celer: dry run as rank %.0f of %.0f, %s; nothing was executed\n"):format(
    r.rank, r.ranks, count(r.devices, "device")) }
  local width = { 0, 0 }
  local all = rows(r)
  for _, row in ipairs(all) do
    for i = 1, 2 do width[i] = math.max(width[i], #row[i]) end
  end
  local format = ("%%-%ds  %%%ds  %%s"):format(width[1], width[2])
  for _, row in ipairs(all) do
    lines[#lines + 1] = format:format(unpack(row)):gsub("%s+$", "") .. "\n"
  end
  return table.concat(lines)
end

local function json(value)
  if type(value) == "number" then return ("%.17g"):format(value) end
  if type(value) == "string" then return ("%q"):format(value) end
  local list = {}
  if #value > 0 then
    for i, item in ipairs(value) do list[i] = json(item) end
    return "[" .. table.concat(list, ", ") .. "]"
  end
  for key, item in tables.sorted_pairs(value) do
    list[#list + 1] = ("%q: %s"):format(key, json(item))
  end
  return "{" .. table.concat(list, ", ") .. "}"
end

local NOTHING = { rank = 0, ranks = 0, devices = 0, tasks = 0 }

--- Writes the report to stderr, and as JSON into a file; nothing where this is no
--- dry run.
---@param path string?
function M.write(path)
  if not core.dry() then return end
  local r = core.dry_report()
  if r then
    r.uncounted_images, r.uncounted_routes = names_of "images", names_of "routes"
    r.routes = require("celer.tools.dry_routes").total()
  end
  io.stdout:flush()
  io.stderr:write(r and text_of(r) or "celer: dry run: nothing was submitted\n")
  if not path then return end
  local ok, message = output.write_file(path, json(r or NOTHING) .. "\n")
  if not ok then error({ message = "--report: " .. message }, 0) end
end

return M
