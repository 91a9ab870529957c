-- restarts.lua -- kills ranks and hosts at random moments; `celer run --restarts` has to come to
-- the result of a run that nobody disturbs.
--
--   luajit spec/long/restarts.lua [--kills 100] [--seed S] [--print]
--
-- Runs are on several hosts (spec/support/hosts.sh), with checkpoints several times a second.
-- Each is met by some kills: a rank, all ranks of a host, the launcher's daemon on a host, the
-- launcher, a host; or a host's link goes silent, for a while or for good; or no host can be
-- reached by the launcher for a while after its ranks are killed. A rank that finds
-- one of an earlier run alive is a fault, too. 100 kills take some ten minutes on two cores. The
-- last line is `N passed, N failed, N skipped`.
package.path = "./?.lua;" .. package.path
local celer = require("spec.support.celer")
local hosts = require("spec.support.hosts")
local scratch = require("spec.support.scratch")

local M = {}

-- Each element of u comes to depend on all others. `alive.k` is locked as long as a rank of the
-- k-th start lives.
local SCRIPT = [==[
local celer = require "celer"
local ffi = require "ffi"
ffi.cdef "int usleep(unsigned); int open(const char *, int, ...); int flock(int, int);"
local steps, folder, n = tonumber(arg[1]), arg[2], 1024 * 256
local start = tonumber(os.getenv "CELER_RESTARTED" or 0)
local SHARED, ALONE, AT_ONCE = 1, 2, 4
local function lock(k, how)
  return ffi.C.flock(ffi.C.open(folder .. "/alive." .. k, 0x42, ffi.cast("int", 0x1b6)), how) == 0
end
for k = 0, os.getenv "OMPI_COMM_WORLD_RANK" == "0" and start - 1 or -1 do
  if not lock(k, AT_ONCE + ALONE) then
    io.open(folder .. "/overlap", "a"):write(k, " ", start, "\n")
  end
end
lock(start, SHARED)
local q = celer.queue()
local step = celer.kernel [[
  kernel void step(item<1> it, in<unsigned, 1> u, out<unsigned, 1> v, unsigned t) {
    const int i = it[0], n = it.range(0);
    v(i) = 3 * u(i) + 5 * u((i * 7 + 1) % n) + t;
  }
]]
local kept, extra = celer.restore(folder .. "/kept")
local u = kept and kept.u
  or celer.buffer("unsigned", { n }, { name = "u", init = function(i) return i end })
local v = celer.buffer("unsigned", { n }, { name = "v" })
io.open(folder .. "/begun", "a"):write(start, "\n")
for t = kept and extra.step + 1 or 1, steps do
  q:submit(function(cg)
    cg:parallel_for({ n }, step, cg:read(u, celer.all), cg:discard_write(v), t)
  end)
  u, v = v, u
  ffi.C.usleep(10000)
  if t % 4 == 0 then q:wait() end
  celer.checkpoint_every(0.1, folder .. "/kept", { u = u }, { step = t })
end
local got, sum = q:wait(u), 0
for i = 0, n - 1 do sum = (sum * 31 + got[i]) % 2 ^ 40 end
print(("%.0f"):format(sum))
]==]

local STEPS = 250

-- Around what happens at HOST, one line for each that has been tried.
local SHELL = [[
export CELER_CACHE=@CACHE CELER_NO_SAMPLE=1 CELER_ADVICE=off
cd @FOLDER
# As with ssh, who ends the agent does not end what it has started.
printf '%s\n' '#!/bin/sh' '[ ! -e @FOLDER/deaf ] || exit 255' \
  "exec setsid -w $OMPI_MCA_plm_rsh_agent \"\$@\"" >agent && chmod +x agent
export OMPI_MCA_plm_rsh_agent=@FOLDER/agent
@CELER run --backend cpu --lost @LOST --restarts 99 -n @RANKS @FOLDER/case.lua @STEPS @FOLDER \
  2>@FOLDER/err & job=$!
goes() { kill -0 $job 2>/dev/null; }
starts() { grep -c 'restarts are left' @FOLDER/err; }
begun() { grep -cx "$1" @FOLDER/begun 2>/dev/null; }
hit() { # WHEN SECONDS NAME COMMAND: WHEN is "begun" or "starts"
  n=$(starts)
  while goes && [ "$1" = begun ] && [ "$(begun $n)" = 0 ]; do
    sleep 0.05; n=$(starts)
  done
  sleep "$2"
  n=$(starts)
  goes || return
  echo "tried $3" >>@FOLDER/log
  eval "$4"
  for _ in $(seq 400); do
    goes || break
    [ "$(starts)" = "$n" ] || { echo "restarted $3" >>@FOLDER/log; break; }
    sleep 0.1
  done
}
touch @FOLDER/begun
@EVENTS
wait $job; status=$?
exit $status]]

-- For good.
local lasting = { host = true, link = true, split = true }

-- What is done at a host, and how often.
local kinds = {
  { "rank", 4, "hosts at HOST 'pkill -KILL -n celer'" },
  { "ranks", 2, "hosts at HOST 'pkill -KILL celer'" },
  { "daemon", 1, "hosts at HOST 'pkill -KILL orted'" },
  { "launcher", 1, "pkill -KILL mpirun" },
  { "host", 2, "hosts kill HOST" },
  { "link", 1, "hosts cut HOST" },
  { "split", 1, "hosts cut HOST; pkill -KILL mpirun" },
  { "silence", 1, "hosts cut HOST; sleep SECONDS; hosts restore HOST" },
  { "deaf", 1, "touch deaf; hosts at HOST 'pkill -KILL celer'; sleep SECONDS; rm deaf" },
}

local random

local function pick_kind(dead, count, name)
  local all = 0
  for _, kind in ipairs(kinds) do
    if kind[1] == name then return kind, lasting[name] end
  end
  for _, kind in ipairs(kinds) do all = all + kind[2] end
  local at = random(all)
  for _, kind in ipairs(kinds) do
    at = at - kind[2]
    if at <= 0 then
      -- One host at least is left.
      local lasts = lasting[kind[1]]
      return lasts and dead >= count - 2 and kinds[1] or kind, lasts
    end
  end
end

-- Lines of SHELL.
local function events_for(count, n, names)
  local lines, gone, dead = {}, {}, 0
  for i = 1, n do
    local kind, lasts = pick_kind(dead, count, names and names[i])
    local host
    repeat host = random(count) until not gone[host]
    if lasts and kind ~= kinds[1] then gone[host], dead = true, dead + 1 end
    lines[i] = ('hit %s %.2f %s "%s"'):format(random(4) == 1 and "starts" or "begun",
      random(), kind[1], kind[3]:gsub("HOST", "h" .. host):gsub("SECONDS",
        ("%.1f"):format(random() * 4)))
  end
  return table.concat(lines, "\n")
end

local wanted

local function result_alone()
  if not wanted then
    local folder = scratch.folder()
    local r = celer.run({ "run", "--backend", "cpu", "-e", SCRIPT, STEPS, folder })
    assert(r.status == 0, r.stderr)
    wanted = r.stdout
  end
  return wanted
end

--- One run, with some kills: what is wrong, or nil; and how often each kind was tried, and has
--- led to another start.
---@param seed integer
---@param kills integer
---@param names? string[]  the kinds, if they are not to be random
---@param lost? integer
---@return string? fault, table<string, integer> tried, table<string, integer> restarted
function M.one(seed, kills, names, lost)
  math.randomseed(seed)
  random = math.random
  local count, folder = 2 + random(2), scratch.folder()
  local per_host = random(2)
  scratch.write(folder .. "/case.lua", SCRIPT)
  local text = SHELL:gsub("@(%u+)", { CACHE = os.getenv("CELER_CACHE")
    or celer.folder() .. "/kernel-cache", CELER = celer.command(), FOLDER = folder,
    RANKS = tostring(count * per_host), STEPS = tostring(STEPS),
    LOST = tostring(lost or random(10) == 1 and 8 or 2), -- who is slow to end, and who is not
    EVENTS = events_for(count, kills, names) })
  local want = result_alone()
  local r = hosts.run(count, text, { bed = { slots = per_host }, timeout = 120 * kills + 120 })
  local tried, restarted = {}, {}
  for what, kind in (scratch.look(folder .. "/log") or ""):gmatch "(%a+) (%a+)\n" do
    local list = what == "tried" and tried or restarted
    list[kind] = (list[kind] or 0) + 1
  end
  local overlap = scratch.look(folder .. "/overlap")
  local said = scratch.look(folder .. "/err") or ""
  local fault = r.status ~= 0 and ("status %d"):format(r.status)
    or r.stdout:match("[^\n]*\n$") ~= want -- daemons, too, write to stdout
      and ("said %q, wanted %q"):format(r.stdout, want)
    or overlap and ("two runs at one time: %s"):format(overlap)
  os.execute("rm -rf '" .. folder .. "/kept'")
  if fault then
    fault = ("%s\n%s\n%s%s"):format(fault, text:match "\nhit .*$", r.stderr, said)
  end
  return fault or nil, tried, restarted, said
end

local function total(list)
  local n = 0
  for _, kind in ipairs(kinds) do n = n + (list[kind[1]] or 0) end
  return n
end

local function main(words)
  local kills, seed, prints = 100, 1, false
  for i = 1, #words do
    if words[i] == "--kills" then kills = tonumber(words[i + 1]) end
    if words[i] == "--seed" then seed = tonumber(words[i + 1]) end
    if words[i] == "--print" then prints = true end
  end
  local why = hosts.missing()
  if why then
    print("skipped: " .. why)
    print("0 passed, 0 failed, 1 skipped")
    return
  end
  local tried, restarted, passed, failed = {}, {}, 0, 0
  while total(tried) < kills do
    local fault, t, s, said = M.one(seed, math.min(5, kills - total(tried)))
    if prints then io.write(said) end
    for _, kind in ipairs(kinds) do
      local name = kind[1]
      tried[name] = (tried[name] or 0) + (t[name] or 0)
      restarted[name] = (restarted[name] or 0) + (s[name] or 0)
    end
    passed, failed = passed + (fault and 0 or 1), failed + (fault and 1 or 0)
    if fault then print(("failed: seed %d: %s"):format(seed, fault)) end
    if fault and total(t) == 0 then break end
    seed = seed + 1
    io.flush()
  end
  for _, kind in ipairs(kinds) do
    print(("%-9s %3d times, %3d restarts"):format(kind[1], tried[kind[1]], restarted[kind[1]]))
  end
  print(("%d kills in %d runs, %d restarts"):format(total(tried), passed + failed,
    total(restarted)))
  print(("%d passed, %d failed, 0 skipped"):format(passed, failed))
  os.exit(failed > 0 and 1 or 0)
end

if arg and arg[0] and arg[0]:find("long/restarts%.lua$") then main(arg) end

return M
