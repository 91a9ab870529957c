--- docs.lua -- what is written about celer's own things, for help and completion.
---
--- Nothing is written twice: functions and classes are described by the comments
--- above them, in the sources that the library carries, and the rest by the guides.
local core = require "celer.core"

local M = {}

--- The modules that have what is public, but for the functions in `celer` itself.
M.modules = { "submit.queue", "submit.declare", "submit.group", "data.buffer", "box", "data.view",
  "data.snapshot", "data.object", "kernel.kernel", "submit.weights", "host.communicator",
  "host.shared_file", "data.device_view", "data.host_memory", "host.lane", "submit.hints",
  "submit.collective", "submit.image", "submit.route", "kernel.nd_range", "data.types",
  "mapper.builtin", "data.list",
  "submit.placement", "io.files", "io.hdf5.datasets", "io.hdf5.values", "io.palette",
  "submit.balance", "kernel.plain", "kernel.from_lua.function", "io.image", "io.csv",
  "draw.plot", "draw.show", "io.series", "arrays.expression", "arrays.math", "arrays.make",
  "arrays.skeletons", "arrays.scan", "arrays.spmv",
  "run.progress" }

--- Names in celer that are tables of functions.
M.libraries = { io = true, math = true }

local texts = {} -- lines of a source, by name

-- The lines of the celer source that a function comes from; nil for others.
local function lines_of(source)
  local path = source:match "^=(celer/.*)$"
  if not path then return nil end
  if not texts[path] then
    local lines = {}
    for line in (core.embedded("lua/" .. path) .. "\n"):gmatch "([^\n]*)\n" do
      lines[#lines + 1] = line
    end
    texts[path] = lines
  end
  return texts[path]
end

-- ---- comments ---------------------------------------------------------------

---@class celer.doc
---@field text string[]  lines of prose
---@field params {name: string, type: string, text: string}[]
---@field fields {name: string, type: string, text: string}[]
---@field returns string[]
---@field class string?
---@field name string?  of functions, as their source has it
---@field parameters string[]?  of functions
---@field method boolean?  it is called with a colon

-- "type  what it is": types hold spaces inside brackets alone.
local function split_type(rest)
  local depth, at = 0, 1
  while at <= #rest do
    local c = rest:sub(at, at)
    if c:find "[({<%[]" then depth = depth + 1 end
    if c:find "[)}>%]]" then depth = depth - 1 end
    if c == " " and depth == 0 and not rest:sub(1, at - 1):find "[:,|]$" then break end
    at = at + 1
  end
  return rest:sub(1, at - 1), (rest:sub(at):gsub("^%s+", ""))
end

local function add_entry(list, rest)
  local name, after = rest:match "^(%S+)%s+(.*)$"
  local kind, text = split_type(after or "")
  list[#list + 1] = { name = name or rest, type = kind, text = text }
end

-- One line of a comment, without its dashes.
local function take(doc, line)
  local tag, rest = line:match "^@(%a+)%s*(.*)$"
  if tag == "param" then add_entry(doc.params, rest)
  elseif tag == "field" then add_entry(doc.fields, rest)
  elseif tag == "return" then doc.returns[#doc.returns + 1] = rest
  elseif tag == "class" then doc.class = rest:match "^[%w_.]+"
  elseif not tag then doc.text[#doc.text + 1] = line:gsub("^ ", "") end
end

--- The lines of a module's source.
---@param module string
---@return string[]
function M.source(module) return lines_of("=celer/" .. module:gsub("%.", "/") .. ".lua") end

--- The comment that ends above line `at`, as it stands.
---@param lines string[]
---@param at integer
---@return string[]
function M.comment_lines(lines, at)
  local first = at
  while first > 1 and lines[first - 1]:find "^%s*%-%-%-" do first = first - 1 end
  local out = {}
  for k = first, at - 1 do out[#out + 1] = lines[k]:gsub("^%s+", "") end
  return out
end

-- The comment that ends above line `at`; nil for none.
local function comment_above(lines, at)
  local comment = M.comment_lines(lines, at)
  if #comment == 0 then return nil end
  local doc = { text = {}, params = {}, fields = {}, returns = {} }
  for _, line in ipairs(comment) do take(doc, (line:gsub("^%s*%-%-%-", ""))) end
  return doc
end

-- The class that a source calls `name`: "celer.queue" for Queue.
local function class_called(lines, name)
  for at, line in ipairs(lines) do
    if line:find("^local " .. name .. " =") then
      local doc = comment_above(lines, at)
      return doc and doc.class
    end
  end
end

-- ---- functions --------------------------------------------------------------

local function names_of_parameters(f, info)
  local out = {}
  for i = 1, info.nparams do out[i] = debug.getlocal(f, i) end
  if info.isvararg then out[#out + 1] = "..." end
  return out
end

--- The comment above a function of celer's as it stands, and its parameters.
---@param f function
---@return string[] comment, string[] parameters
function M.above(f)
  local info = debug.getinfo(f, "Su")
  return M.comment_lines(lines_of(info.source), info.linedefined), names_of_parameters(f, info)
end

--- The comment above what a module gives to celer.<name>, where that is no function.
---@param name string
---@return string[]
function M.comment_of_name(name)
  local entry = getmetatable(require "celer").__names[name]
  local lines = M.source(entry[1])
  for at, line in ipairs(lines) do
    if line:find("^M%." .. tostring(entry[2]) .. " = ") then return M.comment_lines(lines, at) end
  end
  return {}
end

--- What is written above a function of celer's, with `parameters`, their names;
--- nil for functions of others. One without a comment has no text.
---@param f function
---@return celer.doc?
function M.of_function(f)
  local info = debug.getinfo(f, "Su")
  local lines = lines_of(info.source)
  if not lines then return nil end
  local doc = comment_above(lines, info.linedefined)
    or { text = {}, params = {}, fields = {}, returns = {} }
  doc.parameters = names_of_parameters(f, info)
  local line = lines[info.linedefined]
  doc.name = line:match "function ([%w_.:]+)" or "function"
  local class, method = line:match "^function (%u%w+):([%w_]+)"
  if class then doc.name = (class_called(lines, class) or class) .. ":" .. method end
  doc.method = line:find "^function [%w_]+:" ~= nil
  if doc.method then table.remove(doc.parameters, 1) end
  return doc
end

-- ---- classes ----------------------------------------------------------------

local classes = setmetatable({}, { __mode = "k" }) -- by metatable; false: none

-- The source that a class stands in, and the name that it has there.
local function find_class(meta)
  for _, f in pairs(meta) do
    local info = type(f) == "function" and debug.getinfo(f, "S")
    local lines = info and lines_of(info.source)
    local name = lines and lines[info.linedefined]:match "^function ([%w_]+)[.:]"
    if name then return lines, name end
  end
end

local function describe_class(meta)
  local lines, name = find_class(meta)
  if not lines then return nil end
  for at, line in ipairs(lines) do
    if line:find("^local " .. name .. " =") then
      local doc = comment_above(lines, at)
      return doc and doc.class and doc
    end
  end
end

--- What is written about the class of a value, with `methods`, by name; nil for
--- values that are of no class of celer's.
---@param value any
---@return celer.doc?
function M.of_class(value)
  local meta = type(value) == "table" and getmetatable(value)
  if type(meta) ~= "table" then return nil end
  if classes[meta] == nil then
    local doc = describe_class(meta) or false
    if doc then
      doc.methods = {}
      for _, class in ipairs { rawget(meta, "__inherits") or meta, meta } do
        for key, f in pairs(class) do
          if type(f) == "function" and not key:find "^_" then doc.methods[key] = f end
        end
      end
    end
    classes[meta] = doc
  end
  return classes[meta] or nil
end

-- ---- by name ----------------------------------------------------------------

local function add_methods(out, lines, wanted)
  for at, line in ipairs(lines) do
    local class, name, parameters = line:match "^function (%u%w*):([%w_]+)%((.-)%)"
    local doc = name == wanted and comment_above(lines, at)
    if doc then
      doc.of, doc.parameters, doc.method = class_called(lines, class), {}, true
      for one in parameters:gmatch "[^, ]+" do table.insert(doc.parameters, one) end
      out[#out + 1] = doc
    end
  end
end

--- What is written about methods of this name, each `of` a class.
---@param name string
---@return celer.doc[]
function M.methods(name)
  local out = {}
  for _, module in ipairs(M.modules) do add_methods(out, M.source(module), name) end
  return out
end

local objects = { ["celer.queue"] = "q:", ["celer.command_group"] = "cg:" }

--- How a method of the queue or of a command group is called: "q:wait"; nil for
--- what is none.
---@param name any
---@return string?
function M.method(name)
  for _, doc in ipairs(M.methods(name)) do
    if objects[doc.of] then return objects[doc.of] .. name end
  end
end

-- ---- guides -----------------------------------------------------------------

---@class celer.section
---@field title string
---@field text string  as it stands in the guide
---@field prose string  without programs, in small letters, to search in

local sections

-- Each with what comes before its titles, and how they begin.
local guides = {
  { "examples/tour.md", "", "^# (.*)$" },
  { "lua/README.md", "", "^## (.*)$" },
  { "kernels/README.md", "Kernels: ", "^## (.*)$" },
}

--- The chapters of the guides: the tour, the user's, then those of kernels.
---@return celer.section[]
function M.sections()
  if sections then return sections end
  sections = {}
  for _, guide in ipairs(guides) do
    local section, fenced
    for line in (core.embedded(guide[1]) .. "\n"):gmatch "([^\n]*)\n" do
      if line:find "^```" then fenced = not fenced end
      local title = not fenced and line:match(guide[3])
      if title then
        section = { title = guide[2] .. title, text = "" }
        sections[#sections + 1] = section
      elseif section then
        section.text = section.text .. line .. "\n"
      end
    end
  end
  for _, section in ipairs(sections) do
    section.text = section.text:gsub("^\n+", ""):gsub("\n+$", "")
    section.prose = section.text:gsub("```.-```", ""):lower()
  end
  return sections
end

return M
