--- compare.lua -- random functions: the interpreter against the kernels made of them.
---
---   celer run spec/random/functions/compare.lua SEED COUNT [BATCH [spoil]]
---
--- Each function is run by the interpreter for n items, with its reads recorded, and by the
--- kernel. Doubles and integers must be the same to the last bit; what was read must lie in the
--- derived boxes, for chunks made at random. What the interpreter refuses has to be refused as
--- a kernel, too. The last line is `N functions, N refused, N
--- differ, N leave their boxes`. With `spoil` each kernel adds 1 at the end, and must differ.
local celer = require "celer"
local box = require "celer.box"
local edges = require "celer.kernel.from_lua.edges"
local mappers = require "celer.kernel.from_lua.mappers"
local variants = require "celer.kernel.from_lua.variant"
local make = require "make"

local seed, count, batch = tonumber(arg[1]) or 1, tonumber(arg[2]) or 50, tonumber(arg[3]) or 50
local spoil = arg[4] == "spoil"
math.randomseed(seed)

local n, k, q, back, flag = 32, 0.75, 2, -3, true
local l = { [-1] = 2, [0] = 0, -1, 1, 3, -2 }
local t, p = { [0] = 2, -1, 0, 5 }, { feed = 0.03 }

local function helper(a, b)
  if a > b then return a - b end
  local s = 0
  for j = 1, 3 do s = s + b * j end
  return s
end

local function total(m, first)
  local s = 0
  for j = first, first + 2 do s = s * 0.5 + m[j] end
  return s
end

local function u_at(i)
  local x = math.sin(i * 1.7) * 3
  return i % 7 == 0 and math.floor(x) or x
end

-- Small, and as small and as large as they come.
local ends = { [5] = -2 ^ 31, [11] = 2 ^ 31 - 1, [17] = 2 ^ 30 + 1, [23] = -2 ^ 31 + 1 }
local function w_at(i) return ends[i] or (i * 5) % 11 - 4 end

-- What e holds beyond its edges, by what it is given as. How far the functions read is derived.
local beyond = {
  { "periodic", function(i) return u_at(i % n) end },
  { "clamped", function(i) return u_at(math.max(0, math.min(i, n - 1))) end },
  { "mirrored", function(i) return u_at(i < 0 and -1 - i or i < n and i or 2 * n - 1 - i) end },
  { "constant", function(i) return i >= 0 and i < n and u_at(i) or -2.5 end },
}
local edge -- of the function at hand

local u = celer.buffer("double", { n }, { name = "u", init = u_at })
local w = celer.buffer("int", { n }, { name = "w", init = w_at })
local C, S, Z = 1.25, -0.6875, 3
local scalar = celer.scalar("double", S, { name = "s" })
local whole = celer.scalar("int", Z, { name = "z" })

-- ---- the interpreter -----------------------------------------------------------------------

local item, reads -- reads[name][item][index]

-- An array whose reads are noted.
local function recording(name, at)
  local function get(_, i)
    if i == "size" then return { [0] = n } end
    if type(i) ~= "number" or i % 1 ~= 0 or i < 0 or i >= n then
      error("index " .. tostring(i))
    end
    reads[name][item] = reads[name][item] or {}
    reads[name][item][i] = true
    return at(i)
  end
  return setmetatable({}, { __index = get, __call = get })
end

local pu, pw = recording("u", u_at), recording("w", w_at)
local pe = setmetatable({}, { __index = function(_, i)
  if i % 1 ~= 0 or math.abs(i - item) > 3 then error("index " .. i) end
  return edge[2](i)
end })
local TOO_LONG = 3e6 -- instructions

local function interpret(f)
  local v, o = {}, {}
  reads = { u = {}, w = {} }
  jit.off(f, true)
  debug.sethook(function() error("it takes too long", 0) end, "", TOO_LONG)
  local ok, message = pcall(function()
    for i = 0, n - 1 do
      item, v[i], o[i] = i, 0, 0
      f(i, pu, pw, pe, v, o, C, S, Z)
    end
  end)
  debug.sethook()
  if not ok and message == "it takes too long" then return nil end
  return { v = v, o = o, reads = reads, message = not ok and message }
end

-- ---- the kernels ---------------------------------------------------------------------------

local function array(number, name, buffer)
  return { what = "array", number = number, name = name, dims = buffer.dims, type = buffer.type,
    extents = buffer.size }
end

local function call_of(v, o)
  local call = { items = 1, least = { 0 }, most = { n }, wide = false, key = "",
    arguments = { array(1, "u", u), array(2, "w", w), array(3, "e", u), array(4, "v", v),
      array(5, "o", o), { what = "number", number = 6, name = "c", value = C },
      array(7, "s", scalar), array(8, "z", whole) } }
  call.arguments[3].edge = { kind = edge[1], value = -2.5 }
  return call
end

local totals = { functions = 0, refused = 0, differ = 0, leave = 0 }
local reasons = {}

local function report(what, case, ...)
  totals[what] = totals[what] + 1
  if totals[what] > 3 then return end
  print(("seed %d, function %d: %s"):format(seed, case.number, (...)))
  print(case.text)
end

-- Looks whether what was read lies in the boxes of the variant, for some chunks.
local function check_reads(case, variant, call)
  for number, name in ipairs { "u", "w" } do
    local use = variant.uses[number]
    if use and use.boxes then
      local map = mappers.bind(mappers.of(variant, number), call)
      for _ = 1, 6 do
        local lo = math.random(0, n - 1)
        local hi = math.random(lo + 1, n)
        local boxes = { map(box.new({ lo }, { hi })) }
        for i = lo, hi - 1 do
          for at in pairs(case.wanted.reads[name][i] or {}) do
            local inside = false
            for _, one in ipairs(boxes) do
              inside = inside or at >= one.min[0] and at < one.max[0]
            end
            if not inside then
              return report("leave", case, ("item %d reads %s[%d], outside of %s"):format(i,
                name, at, mappers.of(variant, number).text))
            end
          end
        end
      end
    end
  end
end

local function same(x, y)
  return x == y and (x ~= 0 or 1 / x == 1 / y) or x ~= x and y ~= y
end

local same_of = { v = same, o = function(x, y) return x == y end } -- an integer is no -0

local function compare(case, got)
  for _, name in ipairs { "v", "o" } do
    for i = 0, n - 1 do
      local x, y = got[name](i), case.wanted[name][i]
      if not same_of[name](x, y) then
        return report("differ", case, ("%s[%d] is %.17g in the kernel, and %.17g"):format(name, i,
          x, y))
      end
    end
  end
end

-- The access to an argument: derived where it can be.
local function access(cg, case, number, buffer)
  local use = case.variant.uses[number]
  local argument = case.call.arguments[number]
  if argument.edge then return cg:read(buffer, edges.mapper(use, argument)) end
  local known, mapper = pcall(mappers.of, case.variant, number)
  return cg[use.mode](cg, buffer, known and mappers.bind(mapper, case.call) or celer.all)
end

local function run(case, kernel)
  local v = celer.buffer("double", { n }, { name = "v", init = 0 })
  local o = celer.buffer("int", { n }, { name = "o", init = 0 })
  local buffers = { u, w, u, v, o, [7] = scalar, [8] = whole }
  local ok, message = pcall(celer.submit, function(cg)
    local passed = {}
    for j, parameter in ipairs(case.variant.order) do
      passed[j] = parameter.array and access(cg, case, parameter.array, buffers[parameter.array])
      if parameter.uniform then passed[j] = variants.value(parameter.uniform, case.call) end
    end
    cg:parallel_for({ n }, kernel, unpack(passed, 1, #case.variant.order))
  end)
  if not ok then
    return report("differ", case, ("it is refused: %s, its boxes %s"):format(message,
      case.variant.mappers[1] and case.variant.mappers[1].text or "given"))
  end
  local got = {}
  got.v, got.o = celer.wait(v, o)
  compare(case, got)
  v:free()
  o:free()
end

local function flush(cases)
  if #cases == 0 then return end
  local text = {}
  for j, case in ipairs(cases) do
    text[j] = case.variant.text
    if spoil then text[j] = text[j]:gsub("(.*v%(i0%) = )", "%1 1 + ") end
  end
  local kernels = celer.kernel(table.concat(text, "\n"), { options = { cuda = { "-fmad=false" } } })
  for _, case in ipairs(cases) do run(case, kernels["f" .. case.number]) end
end

-- Powers as kernels have them, and as they are computed there.
local powers = [[
local function power2(x) return x ^ 2 end
local function power3(x) return x ^ 3 end
local function power4(x) return x ^ 4 end
local function power_half(x) return x ^ 0.5 end
local function power_1(x) return x ^ -1 end
local function power_2(x) return x ^ -2 end
]]
local products = [[
local function power2(x) return x * x end
local function power3(x) return x * x * x end
local function power4(x) return (x * x) * (x * x) end
local function power_half(x) return x == -math.huge and math.huge or math.sqrt(x + 0) end
local function power_1(x) return 1 / x end
local function power_2(x) return 1 / (x * x) end
]]

-- A function of its text, with what it captures.
local function load_function(text, number, with)
  local chunk = assert(loadstring(("local n, k, q, back, helper, total, t, l, flag, p, celer = ..."
    .. "\n%s\nreturn function(i, u, w, e, v, o, c, s, z)\n%s\nend"):format(with, text),
    "=f" .. number))
  return chunk(n, k, q, back, helper, total, t, l, flag, p, celer)
end

local function translate(case, f, call)
  local ok, variant = pcall(variants.translate, f, call, "f" .. case.number)
  if ok then return variant end
  totals.refused = totals.refused + 1
  local reason = tostring(variant):gsub("^[^:]*:%d+: ", ""):gsub("%d+", "N")
  reasons[reason] = (reasons[reason] or 0) + 1
end

local sample = celer.buffer("double", { n }, { name = "v" })
local sample_of_whole = celer.buffer("int", { n }, { name = "o" })
local cases = {}
for number = 1, count do
  local case = { number = number, text = make.body() }
  edge = beyond[number % #beyond + 1]
  local f = load_function(case.text, number, powers)
  case.wanted = interpret(load_function(case.text, number, products))
  case.call = call_of(sample, sample_of_whole)
  case.variant = case.wanted and translate(case, f, case.call)
  if case.variant and case.wanted.message then
    report("differ", case, "it is a kernel, and the interpreter says " .. case.wanted.message)
  elseif case.variant then
    totals.functions = totals.functions + 1
    -- Also what it reads in vain has to lie in the boxes.
    check_reads(case, variants.translate(f, case.call, "f" .. number, true), case.call)
    cases[#cases + 1] = case
    if #cases == batch then
      flush(cases)
      cases = {}
    end
  end
end
flush(cases)
for reason, times in require("celer.tables").sorted_pairs(reasons) do
  print(("refused %d times: %s"):format(times, reason))
end
print(("%d functions, %d refused, %d differ, %d leave their boxes"):format(totals.functions,
  totals.refused, totals.differ, totals.leave))
