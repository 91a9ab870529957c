-- layers.lua -- checks that a task falls down the layers and that an #include
-- only points up them. Usage: luajit cmake/layers.lua engine
--
-- 1. A file of engine/X includes headers of X and of folders before X only.
-- 2. celer.h may be included from `runtime` on.
-- 3. Pure folders include nothing of the system but the C library's plain part.
-- 4. Some system headers have one home: Lua's, MPI's and CUDA's.

local order = {
  "base", "region", "rule", "task", "command", "instr",
  "device", "comm", "exec", "runtime", "embed",
}
local last_pure = "instr"
local public_from = "runtime"

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

local rank = {}
for i, folder in ipairs(order) do rank[folder] = i end

-- Why `folder` may not include the project's `header`, or nil.
local function local_fault(folder, header, exists)
  if header == "celer.h" then
    if rank[folder] >= rank[public_from] then return nil end
    return ("celer.h is for %s and below"):format(public_from)
  end
  local target = header:match("^([^/]+)/")
  if not rank[target] then
    return "write it as \"folder/name.h\", from engine/"
  elseif rank[target] > rank[folder] then
    return ("%s comes after %s"):format(target, folder)
  elseif not exists(header) then
    return "there is no such file"
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
  if folder == nil then -- celer.h itself
    if bracket == "<" and pure_headers[header] then return nil end
    return "celer.h stands alone"
  elseif not rank[folder] then
    return ("engine/%s is no layer; add it to cmake/layers.lua"):format(folder)
  elseif bracket == "<" then
    return system_fault(folder, header, path)
  end
  return local_fault(folder, header, exists)
end

local function check_file(root, path, report)
  local folder = path:match("^([^/]+)/")
  local function exists(header)
    local file = io.open(root .. "/" .. header)
    return file and file:close()
  end
  local number = 0
  for line in io.lines(root .. "/" .. path) do
    number = number + 1
    local bracket, header = line:match('^%s*#%s*include%s*([<"])([^>"]+)')
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
os.exit(faults == 0 and 0 or 1)
