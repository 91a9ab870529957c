--- faults.lua -- faults that a compiler could have, planted to show that they are found.
local linear = require "celer.kernel.from_lua.linear"
local ranges = require "celer.kernel.from_lua.ranges"
local unroll = require "celer.kernel.from_lua.unroll"

local M = {}

local function same(text) return text end

-- Changes the counts of loops that are written out.
local function recount(change)
  local counts = unroll.counts
  function unroll.counts(lift, i, pc)
    local list = counts(lift, i, pc)
    if list then change(list, lift:get(i.a + 2).k) end
    return list
  end
end

-- Without its first store to each array that has two.
local function without_stores(text)
  for name in ("vhor"):gmatch "." do
    local store = "\n  " .. name .. "%b()[%.%a]* = [^\n]*"
    if select(2, text:gsub(store, "")) > 1 then text = text:gsub(store, "", 1) end
  end
  return text
end

local function replacing(pattern, by)
  return function(text) return (text:gsub(pattern, by)) end
end

---@class random.fault
---@field text fun(text: string): string  what becomes of a kernel's C++
---@field plant? function  what is changed in the compiler
---@field head? string  C++ in front of all kernels

---@type table<string, random.fault>
local faults = {
  ["one more"] = { text = replacing("(.*\n  [vh]%b() = )", "%1 1 + ") },
  ["a turn too many"] = { plant = function()
    recount(function(list, step) list[#list + 1] = list[#list] + step end)
  end },
  ["a turn too few"] = { plant = function()
    recount(function(list) if #list > 1 then list[#list] = nil end end)
  end },
  ["no rounding"] = { text = replacing("%(float%)", "(double)") },
  ["remainders of C"] = { text = replacing("lua::mod_whole<", "c_mod<"),
    head = "template <class T> CELER_FN T c_mod(T a, T b) { return a % b; }\n" },
  ["quotients of C"] = { text = replacing("lua::div_whole<", "c_div<"),
    head = "template <class T> CELER_FN T c_div(T a, T b) { return a / b; }\n" },
  ["a wrapped operand"] = { text = replacing("%(int%)%(%-%(", "(-(int)(") },
  ["another wrap"] = { text = replacing("lua::wrap_before<", "lua::wrap_behind<") },
  ["a saturated integer"] = { text = replacing("lua::whole<", "saturated<"),
    head = "template <class T> CELER_FN long long saturated(T x) {\n"
      .. "  return x >= T(9.2e18) ? 0x7fffffffffffffffLL : (long long)x;\n}\n" },
  ["-0 below 0"] = { text = replacing("lua::(m[ia][nx]<double>)", "zeros_%1"),
    head = "template <class T> CELER_FN T zeros_min(T a, T b) {\n"
      .. "  return a < b || (a == b && signbit(a)) ? a : b;\n}\n"
      .. "template <class T> CELER_FN T zeros_max(T a, T b) {\n"
      .. "  return a > b || (a == b && signbit(b)) ? a : b;\n}\n" },
  -- By it an index that was clamped may be a NaN, which leaves its buffer: a batch may crash.
  ["another NaN"] = { text = replacing("lua::(m[ia][nx]<double>)", "first_%1"),
    head = "template <class T> CELER_FN T first_min(T a, T b) { return b < a ? b : a; }\n"
      .. "template <class T> CELER_FN T first_max(T a, T b) { return b > a ? b : a; }\n" },
  ["a lost sign"] = { text = replacing("(lua::first_m%a+<int>%([^,\n]*), %(%-", "%1, (") },
  ["no -0"] = { text = replacing("lua::minus<(%w+)>%(", "(%1)(-") },
  ["a 0 in sight"] = { text = replacing("lua::sub<%w+>", "in_sight"),
    head = "#define in_sight(a, b) ((a) - (b))\n" },
  ["a lost store"] = { text = without_stores },
  ["a lost field"] = { text = replacing("\n  a%d+%.y = [^\n]*(\nB%d+:;)", "%1") },
  ["a box of too few chunks"] = { plant = function()
    local needs = ranges.needs
    function ranges.needs(...)
      local out = needs(...)
      for _, need in pairs(out) do need.late = need.late and linear.shift(need.late, 1) end
      return out
    end
  end },
  ["a thin box"] = { plant = function()
    local spans = ranges.spans
    function ranges.spans(...)
      local list, cause = spans(...)
      for _, span in ipairs(list or {}) do span.high = linear.shift(span.high, -1) end
      return list, cause
    end
  end },
}

--- Plants a fault; without a name none.
---@param name? string
---@return random.fault
function M.plant(name)
  if not name then return { text = same, head = "" } end
  local fault = faults[name] or error("there is no fault " .. name)
  if fault.plant then fault.plant() end
  return { name = name, text = fault.text or same, head = fault.head or "" }
end

M.names = {}
for name in require("celer.tables").sorted_pairs(faults) do M.names[#M.names + 1] = name end

return M
