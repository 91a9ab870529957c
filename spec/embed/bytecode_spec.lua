-- The bytecode that the library carries, beside the texts of its modules.
local celer = require("spec.support.celer")
local scratch = require("spec.support.scratch")
local instructions = require("celer.host.instructions")
jit.off(true, true)

describe("celer's bytecode", function()
  local function printed(text)
    local path = scratch.path(".lua")
    scratch.write(path, text)
    local r = celer.run { "run", "--backend", "cpu", path }
    assert.equal("", r.stderr)
    return r.stdout
  end

  it("is there of each module, with its lines", function()
    assert.matches("^true\t=celer/[%w_/]+%.lua\ttrue\n$", printed [[
local core = require "celer.core"
local n = 0
for path in io.popen("find lua -name '*.lua'"):lines() do
  local text, code = core.embedded(path), core.embedded((path:gsub("%.lua$", ".bc")))
  local name = path:match "^lua/(.*)$"
  local read, made = assert(loadstring(text, "=" .. name)), assert(loadstring(code, "=text"))
  assert(#string.dump(read) <= #code, path)
  local a, b = debug.getinfo(read, "SL"), debug.getinfo(made, "SL")
  assert(a.source == b.source and a.lastlinedefined == b.lastlinedefined, path)
  for line in pairs(a.activelines) do assert(b.activelines[line], path) end
  n = n + 1
end
local info = debug.getinfo(require "celer".queue, "S")
print(n > 100, info.source, info.linedefined > 0)
]])
  end)

  it("is what modules are loaded from, unless another LuaJIT made it", function()
    assert.equal("true\tadvice\tfalse\n", printed [[
local loader = package.loaders[2]
local _, compiled = debug.getupvalue(loader, 1)
debug.setupvalue(loader, 1, false)
package.loaded["celer.words"] = nil
local again = require "celer.words"
print(compiled, again.advice and "advice", (select(2, debug.getupvalue(loader, 1))))
]])
  end)

  -- What it is dumped to, and loaded from there.
  local function kept(text)
    local f = loadstring(text)
    instructions.keep_room(f)
    return loadstring(string.dump(f))
  end

  local function keys(t)
    local out = {}
    for k in pairs(t) do out[#out + 1] = tostring(k) end
    table.sort(out)
    return table.concat(out, " ")
  end

  it("has no values of its own in tables", function()
    local made = kept("local x, y, c, d = ... return { x, a = x, b = y, c = c and d or y, d = 4 }")
    assert.same({ 1, a = 1, b = 2, c = 3, d = 4 }, made(1, 2, true, 3))
    assert.equal("d", keys(made()))
    assert.equal("1 a d", keys(made(1)))
    local within = kept("return function(x) local t = { k = 1, a = x } return t end")()
    assert.equal("k", keys(within()))
    assert.equal("a k", keys(within(0)))
  end)

  it("has none where a field is set later, or not in any case", function()
    assert.equal("a", keys(kept("local t = { a = 1 } if ... then t.b = 2 end return t")()))
    assert.equal("a", keys(kept("local t = { a = 1 } for i = 1, ... do t.b = i end return t")(0)))
    assert.equal("a", keys(kept(
      "local t = { a = 1 } while ... do t.b = 1 break end return t")()))
    assert.equal("a", keys(kept(
      "local t = { a = 1 } for k in pairs(...) do t.b = k end return t")({})))
    local seen
    kept("local t = { a = 1 } local f = ... f(t) t.b = 2")(function(t) seen = keys(t) end)
    assert.equal("a", seen)
    kept("local t = { a = 1 } local f, g = ... g(function() return t end) t.b = 2")(nil,
      function(get) seen = keys(get()) end)
    assert.equal("a", seen)
    seen = nil
    kept("local t = { a = 1 } repeat local go = (...)(t) t.b = 2 until go")(function(t)
      seen = seen or keys(t)
      return true
    end)
    assert.equal("a", seen)
  end)
end)
