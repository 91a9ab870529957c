--- kept.lua -- functions that show faults which few random functions do, as small as they got.
---
--- They have the number that they were found by, and stay as they are where make.lua makes another
--- function of it.

---@type table<integer, {dims: integer, text: string}>
return {
  [9] = { dims = 3, text = [[
  h[i][j][k] = math.min((1), -(i), j)]] },
  [57] = { dims = 3, text = [[
  r[i][j][k].n = bit.bxor((1), math.max(j, -(math.abs(k)), (1)))]] },
  [3005917] = { dims = 1, text = [[
  local m2 = { x = t[(i) % 4], y = e[i + 1], n = math.floor(1), z = b[(1) % n].z }
  r[i] = m2
  v[i] = (math.floor(math.abs(1e-3)) - t[(i) % 4])]] },
  [5121706] = { dims = 1, text = [[
  r[i] = { x = (1), y = math.min(-0.0, (-((1 + w[math.max(i)])) < -0.0 and -(1) or -0.0)),
    n = math.floor(1), z = { x = w[(i) % n], y = (1) } }]] },
  [10140982] = { dims = 1, text = [[
  local s15 = 0
  ::top_s15::
  s15 = s15 + 1
  if s15 < 2 and 0.1 > power2(u[i]) then goto top_s15 end
  local m = 2 > s15 % (i - i) and 2 or s15 % (i - i)
  v[i] = helper(power4(s15), m > 2 and m or 2)]] },
}
