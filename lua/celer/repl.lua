--- repl.lua -- a plain interactive session on a single node.
local core = require "celer.core"

local M = {}

local function is_incomplete(message)
  return message:find("'<eof>'", 1, true) ~= nil
end

-- Reads lines until they make a chunk; nil at the end of input.
local function read_chunk()
  local text, prompt = nil, "> "
  while true do
    io.write(prompt)
    io.flush()
    local line = io.read()
    if not line then return nil end
    text = text and text .. "\n" .. line or line
    local chunk = loadstring("return " .. text, "=stdin")
    if chunk then return chunk end
    local message
    chunk, message = loadstring(text, "=stdin")
    if chunk or not is_incomplete(message) then return chunk, message end
    prompt = ">> "
  end
end

local function report(ok, ...)
  if not ok then
    io.stderr:write("celer: ", tostring((...)), "\n")
  elseif select("#", ...) > 0 then
    print(...)
  end
end

--- Reads and runs lines until the input ends.
function M.run()
  local _, ranks = core.rank()
  if ranks > 1 then
    error({ message = "the interactive session runs on a single rank; start "
      .. "`celer run script.lua` under srun or mpirun" }, 0)
  end
  jit.off() -- so that Ctrl-C reaches a running line
  celer = require "celer" -- luacheck: ignore
  print(("celer %s"):format(core.info().version))
  while true do
    local chunk, message = read_chunk()
    if chunk then
      report(pcall(chunk))
    elseif message then
      report(false, message)
    else
      io.write("\n")
      require("celer.queue").finish()
      return 0
    end
  end
end

return M
