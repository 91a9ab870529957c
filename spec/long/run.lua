-- run.lua -- runs mistakes, and looks how each ends.
--
--   luajit spec/long/run.lua [--every N] [--from K] [--ranks 1,3] [--seconds S] [--only WORDS]
--
-- Each must end within S seconds (5) with a status that is not 0 and one message that
-- names its line, without a word of celer's own sources; no process, no temporary file
-- and no shared memory is left. `--every N` takes each N-th, from the K-th on. The last
-- line is `N passed, N failed, 0 skipped`.
package.path = "./?.lua;" .. package.path
local celer = require("spec.support.celer")
local mistakes = require("spec.long.mistakes")
local scratch = require("spec.support.scratch")

local M = {}

-- Words of celer's own inside, which tell a user nothing.
local OWN = { "celer/[%w_/]+%.lua", "engine/", "libceler", "internal error", "%[string",
  "%[builtin", "MPI_", "stack traceback" }

--- What of celer's own a message speaks of; nil: nothing.
---@param message string
---@return string?
function M.own_word(message)
  for _, pattern in ipairs(OWN) do
    local found = message:match(pattern)
    if found then return found end
  end
end

-- Processes with `mark` in their environment.
local function processes(mark)
  return scratch.output(("grep -lszF '%s' /proc/[0-9]*/environ | grep -v /proc/self"):format(mark))
end

local function leftovers(folder, mark)
  local list = {}
  for _ = 1, 50 do -- a launcher's helpers end just after it
    list = processes(mark)
    if list == "" then break end
    os.execute("sleep 0.1")
  end
  return list .. scratch.output(("ls -A '%s/tmp'; ls -A /dev/shm | grep %s"):format(folder, mark))
end

-- What rank 0 adds where the launcher ends it since another rank has died.
local CONSEQUENCE = "^celer: told to end, by SIGTERM: .*another rank that has ended"

--- The messages: "celer: " begins each; warnings are none. Ranks that die of the same at
--- the same time have one.
---@param stderr string
---@return string[]
function M.messages(stderr)
  local list, seen = {}, {}
  for line in ("\n" .. stderr):gmatch("\n(celer: [^\n]*)") do
    line = line:gsub("^celer: rank %d+: ", "celer: ")
    if not line:find("^celer: [^\n]*warning: ") and not line:find(CONSEQUENCE)
      and not seen[line] then
      list[#list + 1], seen[line] = line, true
    end
  end
  return list
end

local function names_line(mistake, stderr)
  if mistake.anywhere then return stderr:find("case%.lua:%d+") ~= nil end
  for line in stderr:gmatch("case%.lua:(%d+)") do
    if mistake.lines[tonumber(line)] then return true end
  end
  return false
end

-- What is wrong with how a mistake ended; nil where nothing is.
local function judge(mistake, r, seconds, limit, left)
  local stderr = r.stderr
  if r.timed_out then return "hangs" end
  if r.status == 0 then return "ends with status 0" end
  if left ~= "" then return "leaves behind: " .. left end
  if mistake.silent then return stderr ~= "" and "has something to say" or nil end
  local said = M.messages(stderr)
  if #said == 0 then return "says nothing" end
  if #said > 1 then return ("says %d things"):format(#said) end
  if not names_line(mistake, stderr) then return "does not name the line" end
  if mistake.words and not stderr:find(mistake.words) then
    return "does not say '" .. mistake.words .. "'"
  end
  local own = M.own_word(said[1])
  if own then return "speaks of " .. own end
  if seconds > limit then return ("takes %.1f s"):format(seconds) end
end

local function now()
  local file = assert(io.open("/proc/uptime"))
  local seconds = file:read("*n")
  file:close()
  return seconds
end

--- Runs one on so many ranks.
---@param mistake spec.mistake
---@param ranks integer
---@param limit? number  seconds
---@return string? fault  what is wrong with how it ended
---@return table result  of celer.run
function M.one(mistake, ranks, limit)
  local folder = scratch.folder()
  local mark = "mistake" .. folder:gsub("%W", "")
  os.execute("mkdir '" .. folder .. "/tmp'")
  scratch.write(folder .. "/case.lua", mistake.text)
  local began = now()
  local r = celer.run({ "run", "--devices", "1", "case.lua" }, { cwd = folder,
    ranks = ranks > 1 and ranks or nil, timeout = 60,
    env = { TMPDIR = folder .. "/tmp", CELER_ADVICE = "off", CELER_NO_SAMPLE = "0",
      OMPI_MCA_odls_base_sigkill_timeout = "1", SPEC_MARK = mark } })
  local seconds = now() - began
  local fault = judge(mistake, r, seconds, limit or math.huge, leftovers(folder, mark))
  os.execute("rm -rf '" .. folder .. "'")
  return fault, r
end

--- What `options` asks for: each mistake with each number of ranks.
---@param options {every: integer?, from: integer?, ranks: integer[]?, only: string?}
---@return {mistake: spec.mistake, ranks: integer}[]
function M.chosen(options)
  local list = {}
  for i, mistake in ipairs(mistakes.all()) do
    local mine = (i - (options.from or 1)) % (options.every or 1) == 0
    if mine and (not options.only or mistake.name:find(options.only, 1, true)) then
      for _, ranks in ipairs(options.ranks or { 1, 3 }) do
        if ranks > 1 or not mistake.several then
          list[#list + 1] = { mistake = mistake, ranks = ranks }
        end
      end
    end
  end
  return list
end

--- Options of a command line.
---@param words string[]
---@return table
function M.parse(words)
  local options = {}
  for i = 1, #words, 2 do
    local name = assert(words[i]:match("^%-%-(%a+)$"), "run.lua --every N --ranks 1,3 ...")
    local value = assert(words[i + 1], "a value for " .. words[i])
    options[name] = tonumber(value) or value
  end
  if options.ranks then
    local ranks = {}
    for word in tostring(options.ranks):gmatch("%d+") do ranks[#ranks + 1] = tonumber(word) end
    options.ranks = ranks
  end
  return options
end

local function main(words)
  local options = M.parse(words)
  local passed, failed, slowest = 0, 0, 0
  for _, one in ipairs(M.chosen(options)) do
    local began = now()
    local fault, r = M.one(one.mistake, one.ranks, options.seconds or 5)
    slowest = math.max(slowest, now() - began)
    if fault and fault:find "^takes" then -- another program had the machine
      fault, r = M.one(one.mistake, one.ranks, options.seconds or 5)
    end
    if fault then
      failed = failed + 1
      print(("failed: %s, %d ranks: %s\n    status %d: %s"):format(one.mistake.name, one.ranks,
        fault, r.status, (r.stderr:sub(1, 600):gsub("\n", "\n    "))))
    else
      passed = passed + 1
    end
    io.flush()
  end
  print(("the longest took %.1f s"):format(slowest))
  print(("%d passed, %d failed, 0 skipped"):format(passed, failed))
  os.exit(failed > 0 and 1 or 0)
end

if arg and arg[0] and arg[0]:find("long/run%.lua$") then main(arg) end

return M
