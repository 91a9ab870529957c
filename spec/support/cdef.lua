-- cdef.lua -- the engine's own headers, declared to FFI.
--
--   local c = require("spec.support.cdef")("region/box.h", "region/region.h")
--   local box = ffi.new("cel_box")
--
-- Headers hide from FFI, by `#ifndef CEL_CDEF`, what it cannot parse: system
-- headers, inline functions, macros that expand to code. The rest goes through
-- the C preprocessor and into ffi.cdef, each header once per process.
local ffi = require("ffi")

local M = {}
local declared = {} -- header path as the preprocessor names it -> true
local library

-- What C11 has and LuaJIT's parser lacks.
local shims = table.concat({
  "'-D_Static_assert(...)='",
  "-D_Noreturn= '-D_Atomic(x)=x'",
  "'-D_Alignas(x)=__attribute__((aligned(x)))'",
}, " ")

function M.build_folder()
  return os.getenv("CELER_BUILD") or "build/release"
end

local function preprocess(headers)
  local includes = {}
  for i, header in ipairs(headers) do
    includes[i] = ("#include \"%s\"\\n"):format(header)
  end
  local command = ("printf '%s' | %s -E -x c -DCEL_CDEF %s -I engine - 2>&1;"
    .. " echo; echo \"status $?\""):format(
    table.concat(includes), os.getenv("CC") or "cc", shims)
  command = command:gsub(" 2>&1; echo; echo \"status %$%?\"$",
    " 2>&1 && echo '/* done */'")
  local pipe = assert(io.popen(command))
  local text = pipe:read("*a")
  pipe:close()
  if not text:find("/* done */", 1, true) then
    error("cannot preprocess " .. table.concat(headers, ", ") .. ":\n" .. text, 3)
  end
  return text
end

-- Keeps the lines of headers not yet declared; also returns where each line
-- came from.
local function fresh_lines(text)
  local lines, places, seen = {}, {}, {}
  local file, number
  for line in text:gmatch("([^\n]*)\n") do
    local marked, name = line:match('^# (%d+) "([^"]*)"')
    if marked then
      file, number = name, tonumber(marked)
    else
      if file:match("^engine/") then
        seen[file] = true
        if not declared[file] and line:match("%S") then
          lines[#lines + 1] = line
          places[#lines] = file .. ":" .. number
        end
      end
      number = number + 1
    end
  end
  return lines, places, seen
end

-- Declares `headers` (paths from engine/) and returns the loaded libceler.
local function load(_, ...)
  local lines, places, seen = fresh_lines(preprocess({ ... }))
  local ok, message = pcall(ffi.cdef, table.concat(lines, "\n"))
  if not ok then
    local line = tonumber(message:match("at line (%d+)"))
    error(("%s: %s"):format(places[line] or "?", message), 2)
  end
  for file in pairs(seen) do declared[file] = true end
  library = library or ffi.load(M.build_folder() .. "/libceler.so")
  return library
end

return setmetatable(M, { __call = load })
