-- refusals.lua -- a system that refuses celer memory, a thread, a process or a file, one
-- at a time, wherever celer's own code asks for one (spec/system/machine/refusing.c).
--
--   luajit spec/long/refusals.lua [--every N] [--from K] [--ranks 1,2] [--seconds S]
--
-- Whatever is refused, the run ends in time, by no signal, with status 0 and the right
-- result or with another status and one message without a word of celer's own sources.
-- A way is what a call is called by: each is refused once, and for good. What only a cold
-- cache asks for is refused with a cold cache. Then all is refused from a call on, for
-- each STEP-th of the calls. The last line is `N passed, N failed, 0 skipped`.
package.path = "./?.lua;" .. package.path
local celer = require("spec.support.celer")
local preload = require("spec.support.preload")
local run = require("spec.long.run")
local scratch = require("spec.support.scratch")

local M = {}

local STEP = 16

-- Of everything some, with a timeline: kernels, reductions, host tasks of each kind, a
-- host object, initial contents, captures, a file.
local PROGRAM = [==[
local celer = require "celer"
local q = celer.queue()
local n = 10007
local u = celer.buffer("float", { n }, { name = "u", init = function(i) return i % 7 end })
local v = celer.buffer("float", { n }, { name = "v" })
local s = celer.buffer("double", 1, { name = "s" })
local k = celer.kernel [[
  kernel void add(item<1> it, in<float, 1> u, out<float, 1> v) {
    v(it[0]) = u(it[0] == 0 ? 0 : it[0] - 1) + 1;
  }
  kernel void sum(item<1> it, in<float, 1> v, reducer<double> s) { s += v(it[0]); }
]]
local log = celer.host_object(function() return {} end, { name = "log" })
for step = 1, 3 do
  q:submit(function(cg)
    cg:parallel_for(n, k.add, cg:read(u, celer.neighborhood(1)), cg:discard_write(v))
  end)
  q:submit(function(cg) cg:parallel_for(n, k.sum, cg:read(v), cg:reduce(s, "sum")) end)
  q:submit(function(cg)
    cg:host_task(celer.on_master, function(_, v, log) log[#log + 1] = v[0] end,
      cg:read(v, celer.all), cg:side_effect(log))
  end)
  u, v = v, u
end
q:submit(function(cg)
  cg:host_task(celer.collective(), function(part) part.comm:barrier() end)
end)
celer.io.save(arg[1], u)
local sum, last = q:drain(s, u)
print(sum[0], last[n - 1])
]==]

local made -- { folder =, env = }

local function setting()
  if made then return made end
  local folder = scratch.folder()
  scratch.write(folder .. "/case.lua", PROGRAM)
  made = { folder = folder, env = preload("refusing", "-O1 -fno-omit-frame-pointer") }
  return made
end

-- Runs the program; `refuse` are the variables of refusing.c.
local function execute(ranks, cold, refuse)
  local at = setting()
  local cache = at.folder .. "/cache"
  if cold then os.execute("rm -rf '" .. cache .. "'") end
  local env = { CELER_CACHE = cache, CELER_ADVICE = "off", CELER_NO_SAMPLE = "0",
    OMPI_MCA_odls_base_sigkill_timeout = "1" }
  for _, variables in ipairs({ at.env, refuse }) do
    for name, value in pairs(variables) do env[name] = value end
  end
  return celer.run({ "run", "--devices", "1", "--trace", at.folder .. "/t.json", "case.lua",
    at.folder .. "/u.npy" }, { cwd = at.folder, ranks = ranks > 1 and ranks or nil,
    timeout = 60, env = env })
end

---@class spec.refusal
---@field way? string  the number of what asks; nil: of everything
---@field name string  the function that it asks by
---@field from? integer  the first call that is refused, of everything
---@field ranks integer  of the last of which it is refused
---@field cold boolean  whether kernels are to be compiled
---@field for_good boolean  whether what follows is refused, too
---@field wanted string  what the program prints

-- What asks, in the order of the first time; `seen` has those of before.
local function list(ranks, cold, seen, out)
  local path = scratch.path()
  local r = execute(ranks, cold, { REFUSE_LIST = path, REFUSE_RANK = ranks - 1 })
  assert(r.status == 0 and r.stderr == "", r.stderr)
  local calls = 0
  for way, name in scratch.read(path):gmatch("(%d+) ([%w_]+)\n") do
    calls = calls + 1
    if not cold and calls % STEP == 1 then
      out[#out + 1] = { name = name, from = calls, ranks = ranks, cold = cold, for_good = true,
        wanted = r.stdout }
    end
    if not seen[way] then
      seen[way] = true
      for _, for_good in ipairs({ false, true }) do
        out[#out + 1] = { way = way, name = name, ranks = ranks, cold = cold,
          for_good = for_good, wanted = r.stdout }
      end
    end
  end
end

--- All of them, for so many ranks each.
---@param ranks integer[]
---@return spec.refusal[]
function M.all(ranks)
  local out = {}
  for _, n in ipairs(ranks) do
    local seen = {}
    execute(n, true, {})
    list(n, false, seen, out)
    list(n, true, seen, out)
  end
  return out
end

local function judge(refusal, r)
  if r.timed_out then return "hangs" end
  local said = run.messages(r.stderr)
  if r.status == 0 then
    return (r.stdout ~= refusal.wanted and "prints something else")
      or (#said > 0 and "ends with status 0 and a message") or nil
  end
  if r.status > 128 then return "ends by a signal" end
  if #said ~= 1 then return ("says %d things"):format(#said) end
  local own = run.own_word(said[1]) or said[1]:match("invalid memory access")
  return own and "speaks of " .. own
end

--- Runs one.
---@param refusal spec.refusal
---@return string? fault  what is wrong with how it ended
---@return string outcome  "went on", "was told", "did not come to it"
---@return table result  of celer.run
function M.one(refusal)
  local path = scratch.path()
  local r = execute(refusal.ranks, refusal.cold, { REFUSE_WAY = refusal.way,
    REFUSE_AT = refusal.from, REFUSE_MOST = refusal.for_good and 0 or 1,
    REFUSE_RANK = refusal.ranks - 1, REFUSED = path })
  local refused = scratch.look(path)
  os.remove(path)
  return judge(refusal, r), not refused and "did not come to it"
    or r.status == 0 and "went on" or "was told", r
end

--- In words.
---@param refusal spec.refusal
---@return string
function M.describe(refusal)
  return ("%s, %s, %s%s, %d ranks"):format(refusal.name,
    refusal.way and "way " .. refusal.way or "all from call " .. refusal.from,
    refusal.for_good and "for good" or "once", refusal.cold and ", a cold cache" or "",
    refusal.ranks)
end

local function main(words)
  local options = run.parse(words)
  local passed, failed, outcomes, limit = 0, 0, {}, os.time() + (options.seconds or math.huge)
  for i, refusal in ipairs(M.all(options.ranks or { 1, 2 })) do
    if (i - (options.from or 1)) % (options.every or 1) == 0 and os.time() < limit then
      local fault, outcome, r = M.one(refusal)
      outcomes[outcome] = (outcomes[outcome] or 0) + 1
      if fault then
        failed = failed + 1
        print(("failed: %s: %s\n    status %d: %s"):format(M.describe(refusal), fault, r.status,
          (r.stderr:sub(1, 600):gsub("\n", "\n    "))))
        io.flush()
      else
        passed = passed + 1
      end
    end
  end
  for outcome, n in pairs(outcomes) do print(("%s: %d"):format(outcome, n)) end
  print(("%d passed, %d failed, 0 skipped"):format(passed, failed))
  os.exit(failed > 0 and 1 or 0)
end

if arg and arg[0] and arg[0]:find("long/refusals%.lua$") then main(arg) end

return M
