-- record.lua -- busted's plain output, and a record of how each spec ended.
--
--   cmake/busted.sh -o cmake/record.lua -Xoutput RECORD
--
-- RECORD is Lua, which cmake/specs.lua reads: began, ended and failed, each called
-- with a table; finished() stands last. A run that is cut short leaves what it had.
local busted = require "busted"
local pretty = require "pl.pretty"
local plain = require "busted.outputHandlers.plainTerminal"

local function text_of(message)
  return type(message) == "string" and message or pretty.write(message)
end

local function file_of(element)
  while element and element.descriptor ~= "file" do
    element = busted.parent(element)
  end
  return element and element.name
end

-- The line of `file` that defined the element, also where a module of
-- spec/support did that for it.
local function line_of(element, file)
  local trace = element.trace
  if not trace or not file then return nil end
  if trace.short_src == file then return trace.currentline end
  local plain_file = file:gsub("%p", "%%%0")
  return tonumber((trace.traceback or ""):match(plain_file .. ":(%d+):"))
end

return function(options)
  local handler = plain(options)
  -- Busted cuts what has commas in it.
  local record = assert(io.open(table.concat(options.arguments, ","), "w"))

  local function note(what, fields)
    local words = {}
    for name, value in pairs(fields) do
      words[#words + 1] = ("%s=%s"):format(name,
        type(value) == "string" and ("%q"):format(value) or tostring(value))
    end
    record:write(what, "{", table.concat(words, ","), "}\n")
    record:flush()
  end

  local function about(element, fields)
    fields = fields or {}
    fields.file = file_of(element)
    fields.line = line_of(element, fields.file)
    fields.name = handler.getFullName(element)
    return fields
  end

  -- What fails around specs (a file's text, a setup) has no name of its own to
  -- be run by.
  local function failed(element, _, message)
    note("failed", about(element, {
      spec = element.descriptor == "it", message = text_of(message),
    }))
    return nil, true
  end

  busted.subscribe({ "test", "start" }, function(element)
    note("began", about(element))
    return nil, true
  end)
  busted.subscribe({ "test", "end" }, function(element, _, status)
    note("ended", about(element, { status = status, seconds = element.duration }))
    return nil, true
  end)
  busted.subscribe({ "failure" }, failed)
  busted.subscribe({ "error" }, failed)
  busted.subscribe({ "suite", "end" }, function()
    note("finished", {})
    return nil, true
  end)
  return handler
end
