-- hosts.lua -- runs things on several hosts (hosts.sh), of which each run gets its own.
--
--   local hosts = require("spec.support.hosts")
--   local r = hosts.celer(3, { "run", "examples/hello.lua" }, { ranks = 6, bed = { delay = 1 } })
--
-- Specs use `hosts.it`, and are pending where `hosts.missing` has something to say.
local celer = require("spec.support.celer")
local scratch = require("spec.support.scratch")

local M = {}

---@class hosts.options
---@field ranks? integer  as many as there are hosts
---@field bed? table<string, any>  options of hosts.sh: a value, or true
---@field env? table<string, string>
---@field timeout? number
---@field cwd? string  which all hosts share

--- The folder that all hosts of a spec share: the specs' own.
local shared

local function argv_of(n, bed, words)
  shared = shared or scratch.folder():match("^(.*)/")
  local argv = { os.getenv("PWD") .. "/spec/support/hosts.sh", "--share", shared }
  for name, value in pairs(bed or {}) do
    argv[#argv + 1] = "--" .. name
    if value ~= true then argv[#argv + 1] = tostring(value) end
  end
  argv[#argv + 1] = tostring(n)
  for _, word in ipairs(words) do argv[#argv + 1] = tostring(word) end
  return argv
end

--- Runs words, or the text of a shell script, on the head of `n` hosts.
---@param n integer
---@param words string[]|string
---@param options? hosts.options
---@return {status: integer, stdout: string, stderr: string, timed_out: boolean}
function M.run(n, words, options)
  options = options or {}
  if type(words) == "string" then words = { "sh", "-c", words } end
  local r = celer.exec(argv_of(n, options.bed, words),
    { env = options.env, timeout = options.timeout, cwd = options.cwd })
  -- mpirun says so of an agent that was quicker than itself.
  r.stderr = r.stderr:gsub("%[head:%d+%] plm:rsh: Warning: setpgid[^\n]*\n", "")
  return r
end

--- Starts `celer` by mpirun on `n` hosts. Variables of celer reach the ranks, as they do on
--- one host; among them the cache, unless `CELER_CACHE` is false: then each host has its own.
---@param n integer
---@param args string[]
---@param options? hosts.options
function M.celer(n, args, options)
  options = options or {}
  local ranks = options.ranks or n
  local bed = { slots = math.ceil(ranks / n) }
  for name, value in pairs(options.bed or {}) do bed[name] = value end
  local env = { CELER_CACHE = os.getenv("CELER_CACHE") or celer.folder() .. "/kernel-cache",
    CELER_NO_SAMPLE = "1" }
  for name, value in pairs(options.env or {}) do env[name] = value or nil end
  local words = { "mpirun", "-n", ranks }
  for name, value in pairs(env) do
    words[#words + 1] = "-x"
    words[#words + 1] = name .. "=" .. value
  end
  words[#words + 1] = celer.command()
  for _, word in ipairs(args) do words[#words + 1] = word end
  return M.run(n, words, { bed = bed, timeout = options.timeout, cwd = options.cwd })
end

local reasons = {}

--- Why there can be no hosts, or none with `bed`; nil where there can.
---@param bed? table<string, any>
---@return string?
function M.missing(bed)
  local key = bed and next(bed) or ""
  if reasons[key] == nil then
    local r = M.run(1, { "true" }, { bed = bed })
    reasons[key] = r.status == 77 and r.stderr:match("hosts.sh: ([^\n]*)") or false
    assert(r.status == 0 or r.status == 77, r.stderr)
  end
  return reasons[key] or nil
end

--- A test that needs hosts: body(bed).
---@param name string
---@param body fun(bed?: table<string, any>)
---@param bed? table<string, any>
function M.it(name, body, bed)
  local busted = require("busted") -- here: others use this module, too
  busted.it(name, function()
    local why = M.missing(bed)
    if why then return busted.pending("cannot bring hosts up: " .. why) end
    body(bed)
  end)
end

return M
