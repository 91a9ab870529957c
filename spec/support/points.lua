-- points.lua -- a cel_box, point by point.
local M = {}

function M.volume(box)
  local v = 1
  for d = 0, 2 do v = v * tonumber(box.max[d] - box.min[d]) end
  return v
end

--- Index of a point in dense memory of `box`.
function M.offset(box, i, j, l)
  local e1, e2 = tonumber(box.max[1] - box.min[1]), tonumber(box.max[2] - box.min[2])
  return ((i - tonumber(box.min[0])) * e1 + j - tonumber(box.min[1])) * e2
    + l - tonumber(box.min[2])
end

--- Calls f(i, j, l) for each point.
function M.each(box, f)
  for i = tonumber(box.min[0]), tonumber(box.max[0]) - 1 do
    for j = tonumber(box.min[1]), tonumber(box.max[1]) - 1 do
      for l = tonumber(box.min[2]), tonumber(box.max[2]) - 1 do f(i, j, l) end
    end
  end
end

return M
