--- definitions.lua -- what an editor knows of celer: `celer types`.
---
--- Names are loaded when first used, so an editor finds none in the sources. This writes
--- all that is public as declarations, in the notation of LuaCATS, from the comments
--- in the sources that the library carries: each name in `celer`, and the classes that
--- these speak of.
local core = require "celer.core"
local docs = require "celer.repl.docs"
local tables = require "celer.tables"

local M = {}

local HEADER = [[
---@meta celer
-- celer %s, written by `celer types`: for editors, and not to be run.

]]

-- ---- what there is -----------------------------------------------------------

-- Classes and aliases of all modules by name: {lines, name}, and methods of classes,
-- in the order of the sources.
local function scan()
  local found = {}
  for _, module in ipairs(docs.modules) do
    local lines, classes = docs.source(module), {}
    for at, line in ipairs(lines) do
      local name = line:match "^%-%-%-@class ([%w_.]+)" or line:match "^%-%-%-@alias ([%w_.]+)"
      if name then
        local last = at
        while (lines[last + 1] or ""):find "^%-%-%-" do last = last + 1 end
        found[name] = found[name] or { comment = {}, methods = {} }
        local comment = docs.comment_lines(lines, last + 1)
        if #comment > #found[name].comment then found[name].comment = comment end
        classes[(lines[last + 1] or ""):match "^local (%w+) =" or 0] = found[name]
      end
      local class, method, parameters = line:match "^function (%u%w*):([%a][%w_]*)%((.-)%)"
      if class and classes[class] then
        local methods = classes[class].methods
        methods[#methods + 1] = { name = method, parameters = parameters,
          comment = docs.comment_lines(lines, at) }
      end
    end
  end
  return found
end

-- What host and interop tasks are called with: nothing else speaks of it.
local arrivals = { "---@ celer.view celer.device_view celer.host_memory" }

-- Adds to `wanted` the classes that lines of comments speak of.
local function follow(lines, found, wanted)
  for _, line in ipairs(lines) do
    if line:find "^%-%-%-@" then
      for name in line:gmatch "celer%.[%w_.]+" do
        local class = found[name]
        if class and not wanted[name] then
          wanted[name] = class
          follow(class.comment, found, wanted)
          for _, method in ipairs(class.methods) do follow(method.comment, found, wanted) end
        end
      end
    end
  end
end

-- ---- text --------------------------------------------------------------------

local function put(out, lines)
  for _, line in ipairs(lines) do out[#out + 1] = line end
end

local function put_class(out, name, class)
  put(out, class.comment)
  if class.comment[#class.comment]:find "^%-%-%-@alias" then
    out[#out + 1] = ""
    return
  end
  local variable = name:gsub("%.", "_")
  out[#out + 1] = ("local %s = {}\n"):format(variable)
  for _, method in ipairs(class.methods) do
    put(out, method.comment)
    out[#out + 1] = ("function %s:%s(%s) end\n"):format(variable, method.name,
      method.parameters)
  end
end

local function put_value(out, path, value)
  local comment, parameters
  if type(value) == "function" then
    comment, parameters = docs.above(value)
    put(out, comment)
    out[#out + 1] = ("function %s(%s) end\n"):format(path, table.concat(parameters, ", "))
  else
    comment = docs.comment_of_name(path:match "[%w_]+$")
    put(out, comment)
    out[#out + 1] = path .. " = {}\n"
  end
  return comment
end

--- Everything public, as declarations.
---@return string
function M.text()
  local celer, found, wanted, functions = require "celer", scan(), {}, {}
  follow(arrivals, found, wanted)
  functions[1] = "---@class celer\nlocal celer = {}\n"
  for name in tables.sorted_pairs(getmetatable(celer).__names) do
    local value = celer[name]
    if docs.libraries[name] then
      local path = "celer." .. name
      functions[#functions + 1] = ("---@class %s\n%s = {}\n"):format(path, path)
      for one, f in tables.sorted_pairs(value) do
        follow(put_value(functions, path .. "." .. one, f), found, wanted)
      end
    else
      follow(put_value(functions, "celer." .. name, value), found, wanted)
    end
  end
  local out = { (HEADER:format(core.version())):sub(1, -2) }
  for name, class in tables.sorted_pairs(wanted) do put_class(out, name, class) end
  put(out, functions)
  out[#out + 1] = "return celer\n"
  return table.concat(out, "\n")
end

--- The command.
---@return integer status
function M.run()
  if core.rank() == 0 then io.write(M.text()) end
  return 0
end

return M
