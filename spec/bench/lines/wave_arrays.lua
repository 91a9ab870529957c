local celer = require "celer"
local n, y, x = 400, celer.math.index(0), celer.math.index(1)
local u, up = celer.buffer("float", { n, n }), celer.buffer("float", { n, n })
u:set(celer.math.exp(-((y - 100) ^ 2 + (x - 130) ^ 2) / 300))
up:set(u)
for t = 1, 600 do
  local ys = u:shift(-1, 0, "clamped") + u:shift(1, 0, "clamped")
  local xs = u:shift(0, -1, "clamped") + u:shift(0, 1, "clamped")
  up:set(2 * u - up + 0.25 * (ys + xs - 4 * u))
  u, up = up, u
  if t % 100 == 0 then celer.io.save(("wave%d.png"):format(t), u, { colors = "diverging" }) end
end
