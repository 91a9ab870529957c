-- Which functions return tables that they write down, with known fields alone.
local constructs = require("celer.host.constructs")
local instructions = require("celer.host.instructions")

local fields = { x = true, y = true, true, true }
local function is_field(key) return fields[key] end

-- Its own table t, and what it may call; g returns a table with another field.
local prelude = "local t, n, f, g = { x = 1 }, 2, math.sin, function() return { z = 1 } end "

local function only(text)
  local f = assert(loadstring(prelude .. "return function(i, j) " .. text .. " end"))()
  return constructs.only(f, is_field)
end

describe("celer.constructs", function()
  it("knows tables that a return, or a straight stretch before it, writes down", function()
    for _, text in ipairs { "return { x = i }", "return { x = 1, y = 2 }", "return {}",
      "return { 1, i }", "return { i, f(i) }", "return { x = f(i), y = n }",
      "return { x = i > 3 and 1 or 2, y = i == 1 and f(j) or n }",
      "if i > 3 then return { x = 1 } end return { y = i }",
      "if i > 3 then return { x = 1 } else return { y = i } end",
      "if i > 3 then return { x = 1 } end",
      "local v = { x = i } v.y = f(i) return v", "local v = {} v.x = 1 v[1] = 2 return v",
      "local v = { x = 1 } if i > 3 then v.y = 2 end return v",
      "local s = 0 for k = 1, i do s = s + k end return { x = s }",
      "while i > 3 do i = i - 1 end return { x = i }",
      "for k = 1, i do if f(k) > n then return { x = k } end end return { y = 1 }",
      "return { x = { z = i, 2 }, y = { 1, { w = j } } }",
      "local a, b = f(i), f(j) return { x = a, y = b }",
      "repeat i = i - 1 until i < 3 return { x = i }" } do
      assert.is_true(only(text), text)
    end
  end)

  it("does not where other fields may be", function()
    for _, text in ipairs { "return { z = 1 }", "return { x = i, z = i }", "return t", "return g()",
      "return { 1, 2, 3 }", "return { i, i, i }", "return { x = 1, [true] = 2 }",
      "return { x = i, [1.5] = i }", "return { [7] = i }",
      "local v = g() return v", "local v = { x = 1 } v.z = 2 return v",
      "local v = { x = 1 } if i > 3 then v.z = 2 end return v",
      "local v = { x = 1 } v[j] = 2 return v", "return { [j] = 1 }",
      "local v = { x = 1 } g(v) return v", "local v = { x = 1 } t.v = v return v",
      "local v = { x = 1 } local w = v w.z = 1 return v",
      "local v = { x = 1 } local function h() v.z = 1 end h() return v",
      "local v = { x = 1 } if i > 3 then v = g() end return v",
      "local v = t if i > 3 then v = { x = 1 } end return v",
      "local v = i > 3 and { x = 1 } or g() return v", "return i > 3 and { x = 1 } or t",
      "local v for k = 1, 2 do if v then return v end v = k == 1 and g() or { x = 1 } end",
      "local v = { x = 1 } for k = 1, i do v.z = k end return v",
      "local v = {} while i > 0 do v, i = g(), i - 1 end return v",
      "return { x = 1 }, 2", "return ...", "return i", "return nil",
      "local v = { x = 1 } v = setmetatable(v, {}) return v",
      "if i > 3 then return { x = 1 } end return g()" } do
      local text_of = text:gsub("%.%.%.", "unpack({ i })")
      assert.is_false(only(text_of), text)
    end
    assert.is_false(constructs.only(math.sin, is_field))
  end)

  it("is right about what random functions return", function()
    math.randomseed(11)
    local function pick(...) return (select(math.random(select("#", ...)), ...)) end
    local function expression(depth)
      if depth == 0 then return pick("i", "1", "n", "f(i)") end
      return pick(expression(0), "(i > 1 and " .. expression(depth - 1) .. " or "
        .. expression(depth - 1) .. ")", "f(" .. expression(depth - 1) .. ")")
    end
    local function made()
      return ("{ %s = %s, %s = %s }"):format(pick("x", "y"), expression(1),
        pick("x", "y", "x", "y", "z"), expression(2))
    end
    local function statement(depth)
      local v = pick("v", "w")
      local block = depth > 0 and statement(depth - 1) or v .. " = " .. made()
      return pick(v .. " = " .. made(), v .. " = " .. made(), v .. ".y = " .. expression(1),
        v .. ".z = 1", v .. "[1] = i", "v = w", v .. " = g()",
        "if i > " .. math.random(4) .. " then " .. block .. " end",
        "for k = 1, i do " .. block .. " end",
        "if i == " .. math.random(4) .. " then return " .. pick(v, made()) .. " end")
    end
    local proven = 0
    for _ = 1, 4000 do
      local text = { "local v, w = " .. made() .. ", " .. made() }
      for _ = 1, math.random(0, 3) do text[#text + 1] = statement(1) end
      text[#text + 1] = "return " .. pick("v", "w", made(), made())
      text = table.concat(text, " ")
      local f = assert(loadstring(prelude .. "return function(i) " .. text .. " end"))()
      if constructs.only(f, is_field) then
        proven = proven + 1
        for i = 1, 4 do
          local ok, value = pcall(f, i)
          assert.is_nil(ok and value.z, text)
        end
      end
    end
    assert.is_true(proven > 400, proven .. " are known")
  end)

  it("makes room for fields that string.dump has lost", function()
    -- How much memory the tables of a compiled loop take: none where they are never made.
    local function memory(f)
      local loop = loadstring [[
        local f, s = ..., 0
        for i = 1, 20000 do
          local t = f(i)
          if rawget(t, 0) == nil then s = s + t.x + t.y end
        end]]
      local before = collectgarbage("count")
      loop(f)
      return collectgarbage("count") - before
    end
    local read = loadstring(
      "return function(i) return { x = i, y = 1, z = 2, w = 3, v = 4, a = i, b = i } end")()
    local lost, mended = loadstring(string.dump(read)), loadstring(string.dump(read))
    instructions.make_room(mended)
    local outer = loadstring(
      "return function(i) return { x = i, y = 1, z = 2, w = 3, v = 4, a = i, b = i } end")
    instructions.keep_room(outer)
    local kept = loadstring(string.dump(outer))()
    collectgarbage()
    collectgarbage("stop")
    local a, b, c, d = memory(read), memory(lost), memory(mended), memory(kept)
    collectgarbage("restart")
    assert.is_true(a < 500 and b > 2000 and c < 500 and d < 500,
      ("%g, %g, %g, %g"):format(a, b, c, d))
    assert.same(read(5), kept(5))
    assert.same(read(5), mended(5))
    assert.same({ x = 5, y = 1, z = 2, w = 3, v = 4, a = 5, b = 5 }, mended(5))
  end)
end)
