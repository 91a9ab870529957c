-- The bytecode that the library carries, beside the texts of its modules.
local celer = require("spec.support.celer")
local scratch = require("spec.support.scratch")

describe("celer's bytecode", function()
  it("is what LuaJIT makes of each module, with its lines", function()
    local path = scratch.path(".lua")
    scratch.write(path, [[
local core = require "celer.core"
local n = 0
for path in io.popen("find lua -name '*.lua'"):lines() do
  local text, code = core.embedded(path), core.embedded((path:gsub("%.lua$", ".bc")))
  local name = path:match "^lua/(.*)$"
  -- Constants of tables may have another order.
  assert(#string.dump(assert(loadstring(text, "=" .. name))) == #code, path)
  local made = assert(loadstring(code, "=text"))
  assert(debug.getinfo(made, "S").source == "=" .. name, path)
  n = n + 1
end
local info = debug.getinfo(require "celer".queue, "S")
print(n > 100, info.source, info.linedefined > 0)
]])
    local r = celer.run { "run", "--backend", "cpu", path }
    assert.equal("", r.stderr)
    assert.matches("^true\t=celer/[%w_/]+%.lua\ttrue\n$", r.stdout)
  end)
end)
