-- specs.lua -- the specs, and those that fail once more.
--
--   luajit cmake/specs.lua REPORT [BUSTED'S ARGUMENTS...]
--
-- After the suite each spec that failed runs again, alone: on a machine that others
-- use, a spec may fail for want of time. If it fails again, it failed. If it passes
-- then, it passed, and is reported as `unsteady:`, for it is never meant to be. What
-- failed around specs (a file's text, a setup) runs again as a whole file. More than
-- MOST are not chance, and not run again.
--
-- REPORT gets what failed, in short, and not more than a log's end may hold;
-- REPORT.full all of it.
-- The last line is `N passed, N failed, N skipped`; the exit status 1 where one failed.
local MOST = 8
local LINES, COLUMNS = 8, 200 -- of a message in short,
local MESSAGES = 40 -- and of these

local report_path = assert(arg[1], "specs.lua REPORT [ARGUMENTS...]")

local function quote(word) return "'" .. word:gsub("'", "'\\''") .. "'" end

---@class specs.run
---@field status integer  busted's
---@field count table<string, integer>  specs by how they ended
---@field failed table[]  what failed
---@field last? table  the spec that ran last
---@field finished boolean
---@field seconds table<string, number>  of each file

-- Runs busted with `words`.
---@return specs.run
local function busted(words)
  local path = report_path .. ".record"
  local command = { "cmake/busted.sh", "-o", "cmake/record.lua", "-Xoutput", quote(path) }
  for _, word in ipairs(words) do command[#command + 1] = quote(word) end
  io.flush()
  local status = os.execute(table.concat(command, " "))
  -- The status of a shell, or the signal that ended it.
  status = status >= 256 and status / 256 or status > 0 and 128 + status or 0
  local run = { status = status, count = {}, failed = {}, seconds = {} }
  local record = loadfile(path) or function() end -- not finished, then
  os.remove(path)
  setfenv(record, {
    began = function(spec) run.last = spec end,
    ended = function(spec)
      run.count[spec.status] = (run.count[spec.status] or 0) + 1
      run.last = nil
      run.seconds[spec.file] = (run.seconds[spec.file] or 0) + (spec.seconds or 0)
    end,
    failed = function(spec) run.failed[#run.failed + 1] = spec end,
    finished = function() run.finished = true end,
  })
  record()
  return run
end

-- A run that ends in the middle, or says that something failed and not what, failed
-- once more than it knows.
local function complete(run)
  if run.finished and (run.status == 0 or #run.failed > 0) then return end
  local spec = run.last or { name = "busted" }
  run.failed[#run.failed + 1] = {
    file = spec.file, line = spec.line, name = spec.name, cut = true,
    message = ("busted ended with status %d %s"):format(run.status,
      run.last and "in the middle of this spec" or "between two specs"),
  }
end

local function print_slowest(run)
  local files = {}
  for file in pairs(run.seconds) do files[#files + 1] = file end
  table.sort(files, function(a, b) return run.seconds[a] > run.seconds[b] end)
  local words = {}
  for i = 1, math.min(10, #files) do
    words[i] = ("%s %.0f s"):format(files[i], run.seconds[files[i]])
  end
  print("== slowest: " .. table.concat(words, ", "))
end

local function place(spec)
  if not spec.file then return spec.name end
  return ("%s:%s %s"):format(spec.file, spec.line or 1, spec.name)
end

local function short(message)
  local lines, rest = {}, 0
  for line in message:gmatch "[^\n]+" do
    if #lines < LINES then
      lines[#lines + 1] = #line > COLUMNS and line:sub(1, COLUMNS) .. "..." or line
    else
      rest = rest + 1
    end
  end
  if rest > 0 then lines[#lines + 1] = ("(%d lines more)"):format(rest) end
  return (table.concat(lines, "\n"):gsub("\n", "\n    "))
end

-- Runs one again; whether it passes.
local function again(spec)
  print("== again: " .. place(spec))
  local words = {}
  if spec.spec then
    words[1] = "--filter=^" .. spec.name:gsub("%p", "%%%0") .. "$"
  end
  words[#words + 1] = spec.file
  local run = busted(words)
  return run.finished and run.status == 0 and (run.count.success or 0) > 0
end

local brief = assert(io.open(report_path, "w"))
local full = assert(io.open(report_path .. ".full", "w"))

local reported = 0
local function report(word, spec)
  reported = reported + 1
  if reported <= MESSAGES then
    brief:write(("%s: %s: %s\n"):format(word, place(spec), short(spec.message)))
  end
  full:write(("%s: %s:\n%s\n\n"):format(word, place(spec), spec.message))
end

local run = busted({ unpack(arg, 2) })
complete(run)
print_slowest(run)
local passed, failed = run.count.success or 0, 0
local verdicts = {} -- of those that ran again
for _, spec in ipairs(run.failed) do
  local key = (spec.file or "") .. "\n" .. (spec.spec and spec.name or "")
  if verdicts[key] == nil then
    verdicts[key] = #run.failed <= MOST and not spec.cut and spec.file ~= nil and again(spec)
  end
  report(verdicts[key] and "unsteady" or "failed", spec)
  if verdicts[key] then passed = passed + 1 else failed = failed + 1 end
end
if #run.failed > MOST then
  brief:write(("%d failed: too many to run each again\n"):format(#run.failed))
end
if reported > MESSAGES then
  brief:write(("and %d more\n"):format(reported - MESSAGES))
end
if #run.failed > 0 then
  brief:write(("all of each message: %s.full\n"):format(report_path))
end
brief:close()
full:close()
print(("%d passed, %d failed, %d skipped"):format(passed, failed, run.count.pending or 0))
os.exit(failed > 0 and 1 or 0)
