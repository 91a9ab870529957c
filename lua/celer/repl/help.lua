--- help.lua -- `help` of a session: the guides and the comments of the sources.
local docs = require "celer.repl.docs"
local tables = require "celer.tables"
local words = require "celer.words"

local COLUMN, WIDTH = 18, 78 -- where texts begin in a list; of a line
local MENTIONS = 4 -- chapters named below a function

local function names_of_celer() return getmetatable(require "celer").__names end

local function put(...) print(table.concat({ ... })) end

-- ---- text -------------------------------------------------------------------

local function first_sentence(doc)
  local prose = table.concat(doc.text, " ")
  return prose:match "^.-%.%f[%s%z]" or prose
end

-- A name, and beside it a text of as many lines as it takes.
local function item(name, text)
  local line = "  " .. name .. (" "):rep(math.max(2, COLUMN - 2 - #name))
  local bare = true
  for word in text:gmatch "%S+" do
    if not bare and #line + #word > WIDTH then
      put((line:gsub(" $", "")))
      line = (" "):rep(COLUMN)
    end
    line, bare = line .. word .. " ", false
  end
  put((line:gsub(" +$", "")))
end

local function put_entries(list)
  for _, one in ipairs(list) do
    item(one.name, one.text == "" and one.type or one.type .. ": " .. one.text)
  end
end

-- Chapters whose prose has `phrase`, in capitals or not, most often first.
local function chapters_with(phrase)
  local found, times, place = {}, {}, {}
  local pattern = phrase:lower():gsub("%p", "%%%0") .. "%f[^%w_]"
  for at, section in ipairs(docs.sections()) do
    local _, n = section.prose:gsub(pattern, "")
    times[section], place[section] = n, at
    if n > 0 then found[#found + 1] = section end
  end
  table.sort(found, function(a, b)
    return times[a] > times[b] or (times[a] == times[b] and place[a] < place[b])
  end)
  return found
end

local function put_mentions(phrase)
  for i, chapter in ipairs(chapters_with(phrase)) do
    if i > MENTIONS then break end
    put(i == 1 and "  see help " or "           ", ("%q"):format(chapter.title))
  end
end

-- ---- things -----------------------------------------------------------------

local function put_doc(name, doc)
  put(name, "(", table.concat(doc.parameters, ", "), ")")
  for _, line in ipairs(doc.text) do put("  ", line) end
  put_entries(doc.params)
  for _, result in ipairs(doc.returns) do put("  gives ", result) end
  put_mentions((name:gsub("^.*:", ":")))
end

-- "celer.buffer", "celer.io.load"; nil for others.
local function name_in_celer(f)
  local celer = require "celer"
  for name in tables.sorted_pairs(names_of_celer()) do
    if rawget(celer, name) == f then return "celer." .. name end
  end
  for library in tables.sorted_pairs(docs.libraries) do
    for name, value in tables.sorted_pairs(rawget(celer, library) or {}) do
      if value == f then return ("celer.%s.%s"):format(library, name) end
    end
  end
end

local function of_function(f)
  local doc = docs.of_function(f)
  if not doc or #doc.text == 0 then return put "a function, of which nothing is written" end
  put_doc(name_in_celer(f) or doc.name, doc)
end

-- What is no function, such as celer.once.
local function of_value(path)
  put(path)
  for _, line in ipairs(docs.comment_of_name(path:match "[%w_]+$")) do
    if not line:find "^%-%-%-@" then put(" ", (line:gsub("^%-%-%-", ""))) end
  end
  put_mentions(path)
end

local function of_class(value, doc)
  put(tostring(value))
  if #doc.text > 0 then put("  ", table.concat(doc.text, "\n  ")) end
  put_entries(doc.fields)
  for name, f in tables.sorted_pairs(doc.methods) do
    local method = docs.of_function(f)
    item(":" .. name .. "(" .. table.concat(method.parameters, ", ") .. ")",
      first_sentence(method))
  end
  put_mentions(doc.class)
end

local function put_function(name, f)
  item(name, first_sentence(docs.of_function(f)))
end

local function of_library(library)
  for one, f in tables.sorted_pairs(require("celer")[library]) do
    put_function(library .. "." .. one, f)
  end
end

local function of_celer()
  local celer = require "celer"
  for name in tables.sorted_pairs(names_of_celer()) do
    local value = celer[name]
    local chapter = chapters_with("celer." .. name)[1]
    if docs.libraries[name] then
      of_library(name)
    elseif type(value) == "function" then
      put_function(name, value)
    elseif chapter then
      item(name, ("see help %q"):format(chapter.title))
    end
  end
end

-- ---- words ------------------------------------------------------------------

local function chapters()
  local out = {}
  for _, section in ipairs(docs.sections()) do out[#out + 1] = "  " .. section.title end
  return table.concat(out, "\n")
end

local function overview()
  return 'help(x) tells of a thing: help(celer), help(celer.buffer), help(q), help(q.submit).\n'
    .. 'help "words" of a name, "cg:read", or gives a chapter of the guide:\n\n' .. chapters()
end

-- The chapters whose titles have all words of `text`.
local function chapters_titled(text)
  local found = {}
  for _, section in ipairs(docs.sections()) do
    local title, all = section.title:lower(), true
    if title == text:lower() then return { section } end
    for word in text:lower():gmatch "%S+" do all = all and title:find(word, 1, true) end
    if all then found[#found + 1] = section end
  end
  return found
end

local function put_chapters(found)
  if #found == 1 then return put(found[1].title, "\n\n", found[1].text) end
  for _, one in ipairs(found) do put("  help ", ("%q"):format(one.title)) end
end

-- False, and whether a name is near.
local function nothing(text)
  local all = {}
  for name in tables.sorted_pairs(names_of_celer()) do all[#all + 1] = name end
  local near = words.nearest(text:match "^celer%.(.+)" or text, all)
  put("there is nothing on ", ("%q"):format(text),
    near and (", did you mean celer.%s?"):format(near) or "")
  return false, near ~= nil
end

-- False: there is nothing on that; and whether it has said what may be meant.
local function of_words(text)
  local name = text:match "^celer%.([%w_]+)$" or text
  if names_of_celer()[name] then
    local value = require("celer")[name]
    if type(value) == "function" then return of_function(value) end
    if docs.libraries[name] then return of_library(name) end
    return of_value("celer." .. name)
  end
  local library, one = text:match "^celer%.(%w+)%.([%w_]+)$"
  local found_in = docs.libraries[library or ""] and rawget(require("celer")[library], one)
  if found_in then return of_function(found_in) end
  local methods = docs.methods(text:match "[:.]([%w_]+)$" or text)
  for _, doc in ipairs(methods) do put_doc(doc.of .. ":" .. (text:match "[%w_]+$"), doc) end
  if #methods > 0 then return end
  local found = chapters_titled(text)
  if #found == 0 then found = chapters_with(text) end
  if #found == 0 then return nothing(text) end
  put_chapters(found)
end

local function help(_, ...)
  local value = ...
  if select("#", ...) == 0 then return put(overview()) end
  if type(value) == "string" then
    local known, advised = of_words(value)
    if known == false and not advised then put "help() lists the chapters" end
    return
  end
  if type(value) == "function" then return of_function(value) end
  if value == require "celer" then return of_celer() end
  local doc = docs.of_class(value)
  if doc then return of_class(value, doc) end
  local path = value ~= nil and name_in_celer(value)
  local library = path and path:match "^celer%.(%w+)$"
  if library and docs.libraries[library] then return of_library(library) end
  if path then return of_value(path) end
  put(words.a(value), ", of which nothing is written")
end

return setmetatable({ of_words = of_words, chapters = chapters },
  { __call = help, __tostring = overview })
