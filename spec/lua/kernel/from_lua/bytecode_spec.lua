-- What is known of LuaJIT's instructions is what this LuaJIT says of them.
local bytecode = require "celer.kernel.from_lua.bytecode"
local util = require "jit.util"

local function names_of(f)
  local out = {}
  for pc, i in ipairs(assert(bytecode.read(f))) do out[pc] = i.op end
  return table.concat(out, " ")
end

describe("bytecode", function()
  it("has the names that LuaJIT gives its instructions", function()
    local known, vmdef = pcall(require, "jit.vmdef")
    if not known then
      pending "this LuaJIT came without jit.vmdef"
      return
    end
    local function sample(a, b, t)
      for k = 1, 10 do
        if a < k or not b then t[k] = -a ^ 2 elseif a == "x" then t.x = #t .. "y" end
      end
      while a ~= b do a = a + 1 % b end
      repeat local f = function() return a end until f()
      return sample, sample(a, nil, t.y[1])
    end
    local code = assert(bytecode.read(sample))
    for pc, i in ipairs(code) do
      local op = bit.band((util.funcbc(sample, pc)), 0xff)
      assert.equal((vmdef.bcnames:sub(6 * op + 1, 6 * op + 6):gsub(" ", "")), i.op)
    end
    assert.is_true(#code > 30)
  end)

  it("reads what was written, though the function has been compiled since", function()
    local function sum(n)
      local s = 0
      for k = 1, n do s = s + k end
      return s
    end
    local fresh = names_of(sum)
    for _ = 1, 200 do sum(200) end
    assert.equal(fresh, names_of(sum))
    local code = bytecode.read(sum)
    local last
    for pc, i in ipairs(code) do
      if i.op == "FORL" then last = pc end
    end
    assert.equal("ADDVV", code[code[last].to].op)
  end)

  it("knows loops that lead back into each other", function()
    local function f(a)
      ::one::
      a = a + 1
      ::two::
      if a < 3 then goto one end
      a = a - 2
      if a > 5 then goto two end
      return a
    end
    local code = bytecode.read(f)
    local lasts = {}
    for _, last in pairs(code.back) do lasts[last] = true end
    local n = 0
    for _ in pairs(lasts) do n = n + 1 end
    assert.equal(1, n)
  end)

  it("refuses a function that was stripped", function()
    local f = loadstring(string.dump(function(i, u) u[i] = 1 end, true))
    local code, reason = bytecode.read(f)
    assert.is_nil(code)
    assert.matches("stripped", reason)
  end)
end)
