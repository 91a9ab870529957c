-- specs.lua -- the specs, several files at a time, and those that fail once more.
--
--   luajit cmake/specs.lua REPORT [FILES, FOLDERS OR BUSTED'S --NAME=VALUE...]
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
local PATIENCE = 1800 -- seconds for a file, which then has failed
-- Files at a time: half of what a spec takes is waiting, for mpirun's ranks and other programs.
local LANES_PER_CORE, MOST_LANES = 2, 8

local report_path = assert(arg[1], "specs.lua REPORT [ARGUMENTS...]")

local function quote(word) return "'" .. word:gsub("'", "'\\''") .. "'" end

local function lines_of(command)
  local pipe, lines = assert(io.popen(command)), {}
  for line in pipe:lines() do lines[#lines + 1] = line end
  pipe:close()
  return lines
end

---@class specs.run
---@field count table<string, integer>  specs by how they ended
---@field failed table[]  what failed
---@field good boolean  busted's own word: all of it ran, and passed
---@field seconds number

-- What busted left of a run of `file`, which it takes away. A run that ends in the middle,
-- or says that something failed and not what, failed once more than it knows.
---@return specs.run
local function read(stem, file)
  local run = { count = {}, failed = {}, seconds = 0 }
  local finished, last
  local status = tonumber(lines_of("cat " .. quote(stem .. ".status"))[1]) or -1
  local record = loadfile(stem .. ".record") or function() end -- not begun, then
  os.remove(stem .. ".record")
  os.remove(stem .. ".status")
  setfenv(record, {
    began = function(spec) last = spec end,
    ended = function(spec)
      run.count[spec.status] = (run.count[spec.status] or 0) + 1
      last = nil
      run.seconds = run.seconds + (spec.seconds or 0)
    end,
    failed = function(spec) run.failed[#run.failed + 1] = spec end,
    finished = function() finished = true end,
  })
  record()
  run.good = finished and status == 0
  if not run.good and (not finished or #run.failed == 0) then
    local spec = last or { name = file }
    run.failed[#run.failed + 1] = {
      file = spec.file, line = spec.line, name = spec.name, cut = true,
      message = ("busted ended with status %d %s"):format(status,
        last and "in the middle of this spec" or "between two specs"),
    }
  end
  return run
end

-- Runs busted for each of `files`, as many at a time as there are lanes. What one says
-- comes in one piece, when it ends.
---@return specs.run[]
local function busted(files, options)
  local lanes = math.min(LANES_PER_CORE * lines_of("nproc")[1], MOST_LANES)
  local list_path = report_path .. ".list"
  local list = assert(io.open(list_path, "w"))
  for i, file in ipairs(files) do
    local stem = quote(report_path .. "." .. i)
    list:write(("rm -f %s.*; timeout -s ABRT %d cmake/busted.sh -o cmake/record.lua ")
      :format(stem, PATIENCE),
      ("-Xoutput %s.record %s %s >%s.log 2>&1; echo $? >%s.status; ")
      :format(stem, options, quote(file), stem, stem),
      ("(flock 9; echo %s; cat %s.log; echo) 9>>%s; rm %s.log\0")
      :format(quote("== " .. file), stem, quote(list_path), stem))
  end
  list:close()
  io.flush()
  os.execute(("xargs -0 -P %d -n 1 sh -c <%s"):format(lanes, quote(list_path)))
  os.remove(list_path)
  local runs = {}
  for i, file in ipairs(files) do
    runs[i] = read(report_path .. "." .. i, file)
  end
  return runs
end

local function print_slowest(files, runs)
  local order = {}
  for i = 1, #files do order[i] = i end
  table.sort(order, function(a, b) return runs[a].seconds > runs[b].seconds end)
  local words = {}
  for i = 1, math.min(10, #order) do
    words[i] = ("%s %.0f s"):format(files[order[i]], runs[order[i]].seconds)
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
local function again(spec, options)
  print("== again: " .. place(spec))
  if spec.spec then
    options = options .. " " .. quote("--filter=^" .. spec.name:gsub("%p", "%%%0") .. "$")
  end
  local run = busted({ spec.file }, options)[1]
  return run.good and (run.count.success or 0) > 0
end

local function usage(format, ...)
  io.stderr:write("specs.lua: ", format:format(...), "\n")
  os.exit(2)
end

-- Folders whose files start programs: these take longest.
local STARTING = { "spec/system/", "spec/random/", "spec/long/", "spec/comm/", "spec/device/" }

local function starts(file)
  for _, folder in ipairs(STARTING) do
    if file:sub(1, #folder) == folder then return true end
  end
  return false
end

-- The files that the arguments name, and the options among them. Large files begin, and
-- short ones end, so that no lane is left alone with one at the end.
local function arguments()
  local roots, options, files = {}, {}, {}
  for _, word in ipairs { unpack(arg, 2) } do
    local is_option = word:sub(1, 1) == "-"
    if is_option and not word:find "=" then usage("%s: write --NAME=VALUE", word) end
    local list = is_option and options or roots
    list[#list + 1] = is_option and quote(word) or word
  end
  for _, root in ipairs(roots[1] and roots or { "spec" }) do
    local found = #files
    for _, line in ipairs(lines_of(("find %s -name '*_spec.lua' -printf '%%s %%p\\n'")
      :format(quote(root)))) do
      local size, file = line:match "^(%d+) (.*)$"
      files[#files + 1] = { size = tonumber(size), file = file, starts = starts(file) }
    end
    if #files == found then usage("%s: there are no specs", root) end
  end
  table.sort(files, function(a, b)
    if a.starts ~= b.starts then return a.starts end
    return a.size > b.size or a.size == b.size and a.file < b.file
  end)
  for i, entry in ipairs(files) do files[i] = entry.file end
  return files, table.concat(options, " ")
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

local files, options = arguments()
local runs = busted(files, options)
print_slowest(files, runs)
local passed, failed, pending, wrong = 0, 0, 0, {}
for _, run in ipairs(runs) do
  passed = passed + (run.count.success or 0)
  pending = pending + (run.count.pending or 0)
  for _, spec in ipairs(run.failed) do wrong[#wrong + 1] = spec end
end
local verdicts = {} -- of those that ran again
for _, spec in ipairs(wrong) do
  local key = (spec.file or "") .. "\n" .. (spec.spec and spec.name or "")
  if verdicts[key] == nil then
    verdicts[key] = #wrong <= MOST and not spec.cut and spec.file ~= nil
      and again(spec, options)
  end
  report(verdicts[key] and "unsteady" or "failed", spec)
  if verdicts[key] then passed = passed + 1 else failed = failed + 1 end
end
if #wrong > MOST then
  brief:write(("%d failed: too many to run each again\n"):format(#wrong))
end
if reported > MESSAGES then
  brief:write(("and %d more\n"):format(reported - MESSAGES))
end
if #wrong > 0 then
  brief:write(("all of each message: %s.full\n"):format(report_path))
end
brief:close()
full:close()
print(("%d passed, %d failed, %d skipped"):format(passed, failed, pending))
os.exit(failed > 0 and 1 or 0)
