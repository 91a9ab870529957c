--- smooth.lua -- a stencil over `n` numbers, for programs that look at memory.
local celer = require "celer"

local smooth = celer.kernel [[
  kernel void smooth(item<1> it, in<float, 1> u, out<float, 1> v) {
    const int i = it[0], n = it.range(0);
    v(i) = (u(max(i - 1, 0)) + u(i) + u(min(i + 1, n - 1))) / 3;
  }
]]

--- A function that submits one step, with what `mapper()` gives.
return function(n, mapper)
  local q = celer.queue()
  local u = celer.buffer("float", { n }, { name = "u", init = function(i) return i end })
  local v = celer.buffer("float", { n }, { name = "v" })
  return function()
    q:submit(function(cg)
      local r = cg:read(u, mapper())
      cg:parallel_for({ n }, smooth, r, cg:discard_write(v))
    end)
    u, v = v, u
  end
end
