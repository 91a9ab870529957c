-- layers.lua -- checks that a task falls down the layers and that an #include
-- only points up them. Usage: luajit cmake/layers.lua engine
--
-- 1. A file of engine/X includes headers of X and of folders before X only.
--    engine/tuning.h is above all folders: any file may include it, it none.
-- 2. Pure folders include nothing of the system but the C library's plain part.
-- 3. Some system headers have one home: Lua's, MPI's and CUDA's.
-- 4. A folder's rooms stand on its ground floor, not on each other.
-- 5. No modules, each a .c and its .h, include each other in a circle.

local order = {
  "base", "region", "rule", "task", "fold", "command", "instr",
  "device", "comm", "exec", "runtime", "embed",
}
local last_pure = "instr"
local top = "tuning.h"

local pure_headers = {}
for name in ([[stdint stdbool stddef string stdlib stdio stdarg math inttypes
    limits assert errno stdatomic xxhash]]):gmatch("%S+") do
  pure_headers[name .. ".h"] = true
end

-- Files of pure folders that have to ask the OS, and for what. Their headers
-- stay plain. Each row needs a reason.
local exceptions = {
  -- Threads sleep on a futex; whoever hands work over needs it, from exec up.
  -- Before, they spin where there are cores to spare.
  ["base/park.c"] = {
    ["linux/futex.h"] = true, ["sched.h"] = true, ["sys/syscall.h"] = true,
    ["time.h"] = true, ["unistd.h"] = true,
  },
}

-- Pattern of a system header -> the folders that may include it.
local homes = {
  { "^lua", { exec = true, embed = true } },
  { "^lauxlib", { exec = true, embed = true } },
  { "^mpi%.h$", { comm = true } },
  { "^cuda", { device = true } },
  { "^nvrtc", { device = true } },
}

-- Room -> the other rooms of its folder, its ground floor among them, whose headers it
-- may include.
local rooms = {
  ["comm/link"] = { comm = true },
  ["comm/heartbeat"] = { comm = true },
  ["comm/hub"] = { comm = true, ["comm/heartbeat"] = true },
  ["comm/mpi"] = { comm = true, ["comm/heartbeat"] = true },
  ["comm/nccl"] = { comm = true },
  ["comm/road"] = { comm = true, ["comm/nccl"] = true },
  ["comm/simulated"] = { comm = true, ["comm/heartbeat"] = true },
  ["command"] = { ["command/collective"] = true, ["command/own"] = true },
  ["command/collective"] = { command = true, ["command/own"] = true },
  ["command/own"] = { command = true },
  ["device/compile"] = { device = true },
  ["device/cpu"] = { device = true },
  ["device/cuda"] = { device = true, ["device/compile"] = true },
  ["device/module"] = { device = true, ["device/compile"] = true, ["device/cuda"] = true },
  ["embed/core"] = { embed = true },
  ["exec"] = { ["exec/audit"] = true, ["exec/trace"] = true },
  ["exec/audit"] = { exec = true },
  ["exec/trace"] = { exec = true },
}

local rank = {}
for i, folder in ipairs(order) do rank[folder] = i end

-- Why a file in `room` of `folder` may not include the project's `header`, or nil.
local function local_fault(room, folder, header, exists)
  if header == top then return nil end
  local target = header:match("^([^/]+)/")
  if not rank[target] then
    return "write it as \"folder/name.h\", from engine/"
  elseif rank[target] > rank[folder] then
    return ("%s comes after %s"):format(target, folder)
  elseif not exists(header) then
    return "there is no such file"
  end
  local other = header:match("^(.+)/")
  if target == folder and other ~= room and not (rooms[room] or {})[other] then
    return ("%s does not stand on %s"):format(room, other)
  end
end

-- Why `path` in `folder` may not include the system's `header`, or nil.
local function system_fault(folder, header, path)
  if (exceptions[path] or {})[header] then return nil end
  if rank[folder] <= rank[last_pure] and not pure_headers[header] then
    return ("%s is pure: no system headers beyond plain C"):format(folder)
  end
  for _, home in ipairs(homes) do
    if header:match(home[1]) and not home[2][folder] then
      return ("it has no business in %s"):format(folder)
    end
  end
end

local function fault(path, folder, bracket, header, exists)
  if path == top then
    return "it is pure constants, and includes nothing"
  elseif not rank[folder] then
    return ("engine/%s is no layer; add it to cmake/layers.lua"):format(folder)
  elseif bracket == "<" then
    return system_fault(folder, header, path)
  end
  return local_fault(path:match("^(.+)/"), folder, header, exists)
end

local includes = {} -- module -> the modules that it includes

local function note_include(path, header)
  local from, to = path:gsub("%.[ch]$", ""), header:gsub("%.h$", "")
  includes[from] = includes[from] or {}
  if from ~= to then includes[from][to] = true end
end

local function check_file(root, path, report)
  local folder = path:match("^([^/]+)/") or path
  local function exists(header)
    local file = io.open(root .. "/" .. header)
    return file and file:close()
  end
  local number = 0
  for line in io.lines(root .. "/" .. path) do
    number = number + 1
    local bracket, header = line:match('^%s*#%s*include%s*([<"])([^>"]+)')
    if bracket == '"' and header ~= top then note_include(path, header) end
    local why = header and fault(path, folder, bracket, header, exists)
    if why then
      report(("%s/%s:%d: may not include %s: %s"):format(
        root, path, number, header, why))
    end
  end
end

local root = assert(arg[1], "usage: layers.lua ENGINE_FOLDER"):gsub("/$", "")
local faults = 0
local function report(text)
  faults = faults + 1
  io.stderr:write(text, "\n")
end
local list = assert(io.popen(("cd '%s' && find . -name '*.[ch]'"):format(root)))
for path in list:lines() do check_file(root, path:sub(3), report) end
list:close()

-- All that `module` includes, and what that includes.
local function reach(module, seen)
  for next in pairs(includes[module] or {}) do
    if not seen[next] then
      seen[next] = true
      reach(next, seen)
    end
  end
  return seen
end

local reached = {}
for module in pairs(includes) do reached[module] = reach(module, {}) end
for module, others in pairs(reached) do
  local circle = {}
  for other in pairs(others[module] and others or {}) do
    if (reached[other] or {})[module] then circle[#circle + 1] = other end
  end
  table.sort(circle)
  if circle[1] == module then
    report("these include each other: " .. table.concat(circle, ", "))
  end
end
os.exit(faults == 0 and 0 or 1)
