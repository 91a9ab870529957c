--- settings.lua -- options of a run, each with an environment variable.
local core = require "celer.core"
local nearest = require("celer.words").nearest

local M = {}

--- NAME, value name, what it does, choices or check. One list: the options of
--- `celer run`, the variables CELER_<NAME> and the help come from it.
M.list = {
  { name = "backend", value = "NAME", text = "cpu, or cuda where there is a GPU",
    choices = { "cpu" } },
  { name = "devices", value = "N", text = "CPU devices per rank, 1 to 8",
    number = { 1, 8 } },
  { name = "log", value = "LEVEL",
    text = "error, warning (the default), info (a summary) or debug (tracebacks)",
    choices = { "error", "warning", "info", "debug" } },
  { name = "output", value = "WHICH",
    text = "whose print appears: master (the default) or all",
    choices = { "master", "all" } },
  { name = "horizon-step", value = "N", text = "steps between horizons",
    number = { 1, 1000 } },
}

-- Variables that other parts read themselves.
local others = { CELER_CACHE = true }

local function variable(name)
  return "CELER_" .. name:upper():gsub("%-", "_")
end

-- Why `value` does not do for `setting`, or nil.
local function fault(setting, value)
  if setting.choices then
    for _, choice in ipairs(setting.choices) do
      if value == choice then return nil end
    end
    return ("must be %s"):format(table.concat(setting.choices, ", "))
  end
  local n, range = tonumber(value), setting.number
  if not n or n % 1 ~= 0 or n < range[1] or n > range[2] then
    return ("must be a whole number from %d to %d"):format(range[1], range[2])
  end
end

--- Settings from the options given (by name) over those of the environment;
--- nil and a message for what is wrong with either.
---@param given table<string, string>
---@return table<string, string>? settings, string? message
function M.resolve(given)
  local environment, names = core.environment(), {}
  for _, setting in ipairs(M.list) do names[#names + 1] = variable(setting.name) end
  for name in pairs(others) do names[#names + 1] = name end
  local known = {}
  for _, name in ipairs(names) do known[name] = true end
  for name in pairs(environment) do
    if not known[name] then
      local near = nearest(name, names)
      return nil, ("unknown environment variable %s%s"):format(name,
        near and (", did you mean %s?"):format(near)
        or "; there are " .. table.concat(names, ", "))
    end
  end
  local out = {}
  for _, setting in ipairs(M.list) do
    local name = setting.name
    local value = given[name] or environment[variable(name)]
    local why = value and fault(setting, value)
    if why then
      return nil, ("%s %s, not %q"):format(given[name] and "--" .. name
        or variable(name), why, value)
    end
    out[name] = value
  end
  return out
end

return M
