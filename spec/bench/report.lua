--- report.lua -- what the commands that run benchmarks share.
---
---   local report = require("spec.bench.report")
---   print(report.line(report.machine()))
---   local j = report.decode(report.output_of({ "luajit", "spec/bench/hello.lua", 5 }))
local cjson = require("cjson")
local celer = require("spec.support.celer")

local M = {}

--- The path of a program of the build: "graph" is bench_graph.
---@param name string
function M.bin(name) return celer.folder() .. "/bench_" .. name end

local function output(command)
  local pipe = assert(io.popen(command .. " 2>/dev/null"))
  local text = pipe:read("*a")
  pipe:close()
  return (text:gsub("%s+$", ""))
end

function M.load() return tonumber((output("cat /proc/loadavg"):match("%S+"))) end

function M.machine()
  return { processor = output("lscpu | sed -n 's/^Model name: *//p' | head -1"),
    cores = tonumber(output("nproc")), load = M.load(),
    compiler = output("${CXX:-c++} --version | head -1"),
    celer = output("git rev-parse --short HEAD") }
end

--- The machine in one line.
function M.line(m)
  return ("%s, %d cores, load %.1f, %s, celer %s"):format(m.processor, m.cores, m.load,
    m.compiler, m.celer)
end

--- The last line of JSON, or with `lines` all of them.
---@param text string
---@param lines? boolean
function M.decode(text, lines)
  local all = {}
  for line in text:gmatch("[^\n]+") do
    if line:sub(1, 1) == "{" then all[#all + 1] = cjson.decode(line) end
  end
  if lines then return all end
  return assert(all[#all], "no JSON in what it printed")
end

--- What a benchmark prints; throws when it fails. Scripts are told the build, which celer
--- itself must not see.
---@param argv table
---@param options {timeout: number?, env: table?}
function M.output_of(argv, options)
  local env = { CELER_BUILD = argv[1] == "luajit" and os.getenv("CELER_BUILD") or nil }
  for name, value in pairs(options.env or {}) do env[name] = value end
  local r = celer.exec(argv, { timeout = options.timeout, env = env })
  if r.status ~= 0 then error(r.stderr .. r.stdout, 0) end
  return r.stdout
end

--- `sense`: "<=" or ">=".
function M.is_met(value, sense, bound)
  if sense == "<=" then return value <= bound end
  return value >= bound
end

function M.median(values)
  local sorted = { unpack(values) }
  table.sort(sorted)
  return sorted[math.ceil(#sorted / 2)]
end

--- Options of a command line, by name without dashes; those of --only as a set, and whether
--- there are some. Throws `usage` for what is none.
---@param words string[]
---@param usage string
---@param flags string[]  those without a value, beside --list
---@param numbers? table<string, integer>  those with a number from 1 on, and what else it is
function M.options(words, usage, flags, numbers)
  local o = { only = {}, celer = celer.command(), bin = M.bin }
  for name, default in pairs(numbers or {}) do o[name] = default end
  local is_flag = { list = true }
  for _, name in ipairs(flags) do is_flag[name] = true end
  local i = 1
  while words[i] do
    local name, value = words[i]:match "^%-%-(.+)$", words[i + 1]
    if is_flag[name] then
      o[name] = true
    elseif name == "only" and value then
      o.only[value], o.some, i = true, true, i + 1
    elseif name == "json" and value then
      o.json, i = value, i + 1
    elseif numbers and numbers[name] and (tonumber(value) or 0) >= 1 then
      o[name], i = math.floor(tonumber(value)), i + 1
    else
      error(usage, 0)
    end
    i = i + 1
  end
  return o
end

function M.save(path, result)
  local file = assert(io.open(path, "w"))
  file:write(cjson.encode(result), "\n")
  file:close()
end

return M
