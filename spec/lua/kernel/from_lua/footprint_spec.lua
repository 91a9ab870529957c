-- What is derived of a kernel is what a careful user would have written.
local box = require "celer.box"
local mapper = require "celer.mapper.builtin"
local mappers = require "celer.kernel.from_lua.mappers"
local types = require "celer.data.types"
local variants = require "celer.kernel.from_lua.variant"

local min, max, floor = math.min, math.max, math.floor

-- The call of a kernel under a range of these extents, with arrays as {dims} or {dims, type},
-- all of the range's extents.
local function call_of(extents, arguments)
  local call = { items = #extents, least = {}, most = extents, wide = false, key = "",
    arguments = {} }
  for k, given in ipairs(arguments) do
    local argument = { number = k, name = "a" .. k, what = type(given) }
    if type(given) == "table" then
      argument.what, argument.dims, argument.extents = "array", given[1], {}
      argument.type = types.find(given[2] or "double")
      for d = 0, given[1] - 1 do argument.extents[d] = extents[d + 1] or extents[1] end
    else
      argument.value = given
    end
    call.arguments[k] = argument
  end
  return call
end

local function derive(f, extents, ...)
  local call = call_of(extents, { ... })
  local variant = variants.translate(f, call, "k")
  return function(number)
    return variant.uses[number].mode, mappers.bind(mappers.of(variant, number), call)
  end, variant
end

-- The points of what a mapper gives for a chunk, inside of the buffer.
local function points(map, chunk, extents)
  local out, shape = {}, box.shape(#extents, extents[1], extents[2])
  for _, one in ipairs { map(chunk, shape) } do
    for i = max(one.min[0], 0), min(one.max[0], extents[1]) - 1 do
      local lo, hi = extents[2] and max(one.min[1], 0) or 0,
        extents[2] and min(one.max[1], extents[2]) or 1
      for j = lo, hi - 1 do out[i * 1000 + j] = true end
    end
  end
  return out
end

-- Whether two mappers touch the same for all chunks.
local function same(extents, derived, by_hand)
  local n, m = extents[1], extents[2]
  for i = 0, n - 1 do
    for k = i + 1, n do
      for j = 0, m and m - 1 or 0, 3 do
        local chunk = m and box.chunk(2, i, j, nil, k, min(j + 4, m), nil, n, m)
          or box.chunk(1, i, nil, nil, k, nil, nil, n)
        assert.same(points(by_hand, chunk, extents), points(derived, chunk, extents))
      end
    end
  end
end

describe("a footprint", function()
  local n, m = 11, 9

  it("of a stencil along the axes is a cross", function()
    local of = derive(function(y, x, up, u)
      up[y][x] = up[y][x] + u[min(y + 1, n - 1)][x] + u[max(y - 1, 0)][x]
        + u[y][min(x + 1, m - 1)] + u[y][max(x - 1, 0)]
    end, { n, m }, { 2 }, { 2 })
    local mode, map = of(1)
    assert.equal("read_write", mode)
    same({ n, m }, map, mapper.one_to_one)
    mode, map = of(2)
    assert.equal("read", mode)
    same({ n, m }, map, function(chunk) return chunk:grow(1, 0), chunk:grow(0, 1) end)
  end)

  it("of rows that touch is one box", function()
    local of, variant = derive(function(x, f, g)
      for d = 0, 8 do g[d][x] = f[d][x] end
    end, { n }, { 2 }, { 2 })
    for number, mode in ipairs { "read", "discard_write" } do
      assert.equal(mode, (of(number)))
      assert.equal(1, #variant.uses[number].boxes)
      assert.equal(8, variant.uses[number].boxes[1][1].high.c)
    end
  end)

  it("of loops and conditions is their neighbourhood", function()
    local of = derive(function(y, x, u, v)
      local s = 0
      for dy = -1, 1 do
        for dx = -2, 2 do
          if y + dy >= 0 and y + dy < n and x + dx >= 0 and x + dx < m then
            s = s + u[y + dy][x + dx]
          end
        end
      end
      v[y][x] = s
    end, { n, m }, { 2 }, { 2 })
    local _, map = of(1)
    same({ n, m }, map, mapper.neighborhood(1, 2))
    assert.equal("discard_write", (of(2)))
  end)

  it("follows conditions that a variable keeps", function()
    local of = derive(function(i, u, w, x, y, v)
      local before, inside = i > 1, i > 0 and i < n - 1
      local behind = not (i >= n - 2 or i == 0)
      local at_end = i < 2 -- one of two: that says nothing of an item
      if i > n - 3 then at_end = true end
      local at = i
      if before then at = i - 2 end
      v[i] = u[at] + (inside and w[i + 1] or 0) + (behind and x[i + 2] or 0)
        + (at_end and y[i] or 0)
    end, { n }, { 1 }, { 1 }, { 1 }, { 1 }, { 1 })
    same({ n }, select(2, of(1)), function(chunk)
      return box.new({ max(chunk.min[0] - 2, 0) }, { max(chunk.max[0] - 2, min(chunk.max[0], 2)) })
    end)
    same({ n }, select(2, of(2)), function(chunk)
      return box.new({ max(chunk.min[0], 1) + 1 }, { min(chunk.max[0], n - 1) + 1 })
    end)
    same({ n }, select(2, of(3)), function(chunk)
      return box.new({ max(chunk.min[0], 1) + 2 }, { min(chunk.max[0], n - 2) + 2 })
    end)
    same({ n }, select(2, of(4)), mapper.one_to_one)
  end)

  it("of rows, of all and of other places is theirs", function()
    local of = derive(function(i, a, b, c, d)
      for j = 0, m - 1 do c[i][j] = a[i][j] + b[0][j] end
      d[n - 1 - i] = d[n - 1 - i] + 1
    end, { n }, { 2 }, { 2 }, { 2 }, { 1 })
    local _, map = of(1)
    local function rows(chunk) return box.new({ chunk.min[0], 0 }, { chunk.max[0], m }) end
    for i = 0, n - 1 do
      local chunk = box.chunk(1, i, nil, nil, i + 1, nil, nil, n)
      assert.same(points(rows, chunk, { n, m }), points(map, chunk, { n, m }))
      assert.same(points(function() return box.new({ 0, 0 }, { 1, m }) end, chunk, { n, m }),
        points(select(2, of(2)), chunk, { n, m }))
    end
    assert.equal("discard_write", (of(3)))
    local mode, turned = of(4)
    assert.equal("read_write", mode)
    same({ n }, turned, function(chunk)
      return box.new({ n - chunk.max[0] }, { n - chunk.min[0] })
    end)
  end)

  -- Whether what the mapper gives for a chunk is the box around what it gives for its parts.
  local function is_additive(map, shape)
    local function around(lo, hi)
      local one = points(map, box.chunk(1, lo, nil, nil, hi, nil, nil, n), shape)
      local out = { math.huge, math.huge, -math.huge, -math.huge }
      for point in pairs(one) do
        local i, j = floor(point / 1000), point % 1000
        out = { min(out[1], i), min(out[2], j), max(out[3], i), max(out[4], j) }
      end
      return out
    end
    for lo = 0, n - 2 do
      for hi = lo + 2, n do
        local a, b = around(lo, hi - 1), around(hi - 1, hi)
        assert.same({ min(a[1], b[1]), min(a[2], b[2]), max(a[3], b[3]), max(a[4], b[4]) },
          around(lo, hi))
      end
    end
  end

  local function follows_parts(text, f, ...)
    local of, variant = derive(f, { n }, ...)
    is_additive(select(2, of(1)), { n, select(1, ...)[1] == 2 and n or nil })
    if text then assert.equal(text, mappers.of(variant, 1).text) end
  end

  it("of a loop that some items do not run is that of the parts of a chunk", function()
    follows_parts("celer.box({ chunk.min[0] }, { 3 })", function(i, u, v)
      for k = i, 2 do v[i] = v[i] + u[k] end
    end, { 1 }, { 1 })
    follows_parts("celer.box({ celer.min(2, chunk.min[0]) + chunk.min[0] }, "
      .. "{ celer.min(2, chunk.max[0] - 1) + 3 })", function(i, u, v)
      for k = i, 2 do v[i] = v[i] + u[k + i] end
    end, { 1 }, { 1 })
    follows_parts(nil, function(i, u, v)
      for k = 2, i, -1 do v[i] = v[i] + u[min(max(k + i, 0), n - 1)] end
    end, { 1 }, { 1 })
    follows_parts(nil, function(i, u, v)
      for k = 0, i - 1 do v[i] = v[i] + u[min(floor(k / 2) + i, n - 1)] end
    end, { 1 }, { 1 })
    follows_parts(nil, function(i, u, v)
      for k = 2 * i, i + 1 do v[i] = v[i] + u[min(k, n - 1)] end
    end, { 1 }, { 1 })
    follows_parts("celer.box({ chunk.min[0], celer.min(chunk.min[0] + 1, n - 1) }, "
      .. "{ celer.min(chunk.max[0] - 1, n - 2) + 1, n })", function(i, u, v)
      for k = i + 1, n - 1 do v[i] = v[i] + u[i][k] end
    end, { 2 }, { 1 })
    follows_parts("celer.box({ celer.max(1, chunk.min[0]), 0 }, "
      .. "{ chunk.max[0], celer.max(0, chunk.max[0] - 2) + 1 })", function(i, u, v)
      for k = 0, i - 1 do v[i] = v[i] + u[i][k] end
    end, { 2 }, { 1 })
    follows_parts(nil, function(i, u, v)
      for k = i, 1 do v[i] = v[i] + u[i][(i - k) % n] end
    end, { 2 }, { 1 })
    follows_parts(nil, function(i, u, v)
      for k = 2 * i, i + 3 do v[i] = v[i] + u[i][k] + u[n - 1 - i][k + 1] end
    end, { 2 }, { 1 })
  end)

  it("of multiples that conditions keep inside is that of the parts of a chunk", function()
    follows_parts("celer.box({ 2 * celer.max(1, chunk.min[0]) - 2, celer.max(1, chunk.min[0]) }, "
      .. "{ 2 * celer.min(celer.floor((n + 1) / (2)), chunk.max[0] - 1) - 1, "
      .. "celer.min(celer.floor((n + 1) / (2)), chunk.max[0] - 1) + 1 })", function(i, u, v)
      local p = 2 * i - 2
      if p >= 0 and p < n then v[i] = u[p][i] end
    end, { 2 }, { 1 })
    follows_parts("celer.box({ 3 * celer.max(1, chunk.min[0]) - 1, 2 }, "
      .. "{ 3 * celer.min(2, chunk.max[0] - 1), 3 })", function(i, u, v)
      local p = 3 * i - 1
      if p > 0 and p < 8 then v[i] = u[p][2] end
    end, { 2 }, { 1 })
    follows_parts(nil, function(i, u, v)
      local p = 7 - 2 * i
      if p >= 0 and p < n then v[i] = u[min(i + 1, n - 1)][p] + u[floor(i / 2)][i] end
    end, { 2 }, { 1 })
    follows_parts(nil, function(i, u, v)
      local p = 2 * i - 2
      for k = 0, 3 do
        if p + k >= 0 and p + k < n then v[i] = v[i] + u[p + k][min(i, n - 1)] end
      end
    end, { 2 }, { 1 })
    follows_parts(nil, function(i, u, v) -- a box that no item reads makes no other one larger
      local p = 2 * i - 4
      if p > 0 and p < n then v[i] = u[p][i] end
      if i < n - 11 then v[i] = u[i][0] end
    end, { 2 }, { 1 })
    follows_parts("celer.box({ 2 * chunk.min[0] }, "
      .. "{ 2 * celer.min(4, celer.min(5, chunk.max[0] - 1)) + 1 })", function(i, u, v)
      if i < 6 and 2 * i ~= 10 then v[i] = u[2 * i] end
    end, { 1 }, { 1 })
  end)

  it("of what wraps around by a captured number is as of that number", function()
    local wide = 40
    for _, shift in ipairs { 1, 31, 0, -1, -31 } do
      local function f(i, u, v) v[i] = u[(i - shift) % wide] end
      local of, variant = derive(f, { wide }, { 1 }, { 1 })
      local _, map = of(1)
      for lo = 0, wide - 1 do
        for hi = lo + 1, wide do
          local wanted = {}
          for i = lo, hi - 1 do wanted[(i - shift) % wide * 1000] = true end
          local chunk = box.chunk(1, lo, nil, nil, hi, nil, nil, wide)
          assert.same(wanted, points(map, chunk, { wide }))
        end
      end
      local call = call_of({ wide }, { { 1 }, { 1 } })
      assert.is_true(variants.fits(variant, call))
      shift = shift > 0 and 32 or -32 -- too far for what was derived
      assert.is_false(variants.fits(variant, call))
    end
  end)

  it("of what wraps around is at both ends", function()
    local wide = 40
    local of = derive(function(i, u, v)
      v[i] = u[(i + 3) % wide] + u[(i - 2) % wide]
    end, { wide }, { 1 }, { 1 })
    local _, map = of(1)
    for lo = 0, wide - 1 do
      for hi = lo + 1, wide do
        local wanted = {}
        for i = lo, hi - 1 do
          wanted[(i + 3) % wide * 1000], wanted[(i - 2) % wide * 1000] = true, true
        end
        local chunk = box.chunk(1, lo, nil, nil, hi, nil, nil, wide)
        local got = points(map, chunk, { wide })
        -- What lies between the two is one box with them.
        for i = lo, hi - 1 do
          for d = -2, 3 do
            if i + d >= 0 and i + d < wide then wanted[(i + d) * 1000] = true end
          end
        end
        assert.same(wanted, got)
      end
    end
  end)

  it("knows the ends that conditions leave out", function()
    local of = derive(function(i, u, v)
      if i == 0 or i == n - 1 then v[i] = u[i] else v[i] = u[i - 1] + u[i + 1] end
    end, { n }, { 1 }, { 1 })
    local _, map = of(1)
    same({ n }, map, mapper.neighborhood(1))
    assert.equal("discard_write", (of(2)))
    of = derive(function(i, u, v)
      if i ~= n - 1 and i ~= n - 2 and i > 1 then v[i] = u[i - 2] + u[i + 2] end
    end, { n }, { 1 }, { 1 })
    local mode
    mode, map = of(2)
    assert.equal("write", mode)
    same({ n }, map, function(chunk)
      return box.new({ max(chunk.min[0], 2) }, { min(chunk.max[0], n - 2) })
    end)
    of = derive(function(i, j, u, v) -- both indices of u
      if i ~= 0 then v[i][j] = u[i][min(i + j, n - 1)] end
    end, { n, n }, { 2 }, { 2 })
    mode, map = of(1)
    assert.equal("read", mode)
    same({ n, n }, map, function(chunk)
      local first = max(chunk.min[0], 1)
      return box.new({ first, min(first + chunk.min[1], n - 1) },
        { chunk.max[0], min(chunk.max[0] + chunk.max[1] - 1, n) })
    end)
    of = derive(function(i, j, u, v) -- also what was computed before
      local k = i
      if j < 2 then k = min(i + 1, n - 1) end
      if i ~= 0 then v[i][j] = u[i][k] end
    end, { n, n }, { 2 }, { 2 })
    mode, map = of(1)
    assert.equal("read", mode)
    same({ n, n }, map, function(chunk)
      local first = max(chunk.min[0], 1)
      return box.new({ first, first }, { chunk.max[0], min(chunk.max[0] + 1, n) })
    end)
  end)

  -- The boxes hold what the items of a chunk read, and nothing else.
  local function is_tight(extents, f)
    local _, map = derive(f, extents, { #extents }, { #extents })(1)
    local seen, item = {}, nil
    local function array(before)
      return setmetatable({}, { __index = function(_, at)
        if #before + 1 < #extents then return array { at } end
        seen[item][#seen[item] + 1] = (before[1] or at) * 1000 + (before[1] and at or 0)
        return 0
      end })
    end
    for i = 0, extents[1] - 1 do
      for j = 0, (extents[2] or 1) - 1 do
        item = i * 1000 + j
        seen[item] = {}
        local v = { [i] = {} }
        if extents[2] then f(i, j, array {}, v) else f(i, array {}, v) end
      end
    end
    same(extents, map, function(chunk)
      local out = {}
      for i = chunk.min[0], chunk.max[0] - 1 do
        for j = extents[2] and chunk.min[1] or 0, extents[2] and chunk.max[1] - 1 or 0 do
          for _, at in ipairs(seen[i * 1000 + j]) do
            local y, x = floor(at / 1000), at % 1000
            out[#out + 1] = box.new({ y, x }, { y + 1, x + 1 })
          end
        end
      end
      return unpack(out)
    end)
  end

  it("of an index that a branch chooses is that of each arm", function()
    is_tight({ n }, function(i, u, v)
      local l, r = i - 1, i + 1
      if l < 0 then l = n - 1 end
      if r == n then r = 0 end
      v[i] = u[l] + u[i] + u[r]
    end)
    is_tight({ n }, function(i, u, v)
      local l, r = i - 2, i + 2
      if l < 0 then l = l + n end
      if r >= n then r = r - n end
      v[i] = u[l] + u[r] + u[i] + u[i > 0 and i - 1 or n - 1] + u[i + 1 == n and 0 or i + 1]
    end)
    is_tight({ n }, function(i, u, v)
      local at
      if i > 2 then at = i - 1 elseif i == 1 then at = 7 else at = i < 1 and n - 1 or 0 end
      v[i] = u[i] + u[at] + u[floor(n / 2) + (i > 5 and 1 or 0)]
    end)
    is_tight({ n }, function(i, u, v)
      if i > 4 then v[i] = u[i - 1] + u[i] else v[i] = u[i] + u[n - 1] + u[n - 2] end
    end)
    is_tight({ n, m }, function(y, x, u, v)
      local up, left = y - 1, x - 1
      if up < 0 then up = n - 1 end
      if left < 0 then left = m - 1 end
      v[y][x] = u[up][left] + u[y][left] + u[up][x] + u[y][x]
    end)
    is_tight({ n, m }, function(y, x, u, v)
      v[y][x] = u[y > 3 and 0 or 5][x] + u[y][y == n - 1 and 8 or x]
    end)
  end)

  it("of chosen indices costs what % does", function()
    local function text(f)
      local _, variant = derive(f, { n, m }, { 2 }, { 2 })
      return mappers.of(variant, 1).text:gsub(",\n +", ",\n"):gsub("(celer.box)", "\0%1")
    end
    local function sorted(f)
      local out = {}
      for one in text(f):gmatch "%z(celer.box%b())" do out[#out + 1] = one end
      table.sort(out)
      return out
    end
    local by_modulo = sorted(function(y, x, u, v)
      v[y][x] = u[(y - 1) % n][(x + 1) % m] + u[(y + 1) % n][(x - 1) % m] + u[y][x]
    end)
    assert.same(by_modulo, sorted(function(y, x, u, v)
      local up, down = y - 1, y + 1
      if up < 0 then up = n - 1 end
      if down == n then down = 0 end
      v[y][x] = u[up][x + 1 == m and 0 or x + 1] + u[down][x > 0 and x - 1 or m - 1] + u[y][x]
    end))
    assert.equal(9, #by_modulo)
  end)

  it("of an index that conditions on two coordinates choose is that of the parts of a chunk",
    function()
      local of = derive(function(y, x, u, v)
        local p = 1
        if y > 0 and y < n - 1 then p = (x > 0 and x < m - 1) and min(x + 1, m - 1) or 1 end
        v[y][x] = u[y + 1 >= n and 0 or y + 1][p]
      end, { n, m }, { 2 }, { 2 })
      local _, map = of(1)
      local function at(lo, hi, left, right)
        return points(map, box.chunk(2, lo, left, nil, hi, right, nil, n, m), { n, m })
      end
      for lo = 0, n - 2 do
        for hi = lo + 2, n do
          for left = 0, m - 3, 3 do
            local both = at(lo, hi - 1, left, left + 3)
            for point in pairs(at(hi - 1, hi, left, left + 3)) do both[point] = true end
            assert.same(both, at(lo, hi, left, left + 3))
          end
        end
      end
    end)

  it("has no boxes of ways that no item takes", function()
    local function inside(i, size)
      if i < 0 then return 0 end
      if i > size - 1 then return size - 1 end
      return i
    end
    local function f(y, x, u, v) v[y][x] = u[inside(y - 1, n)][inside(x + 1, m)] + u[y][x] end
    is_tight({ n, m }, f)
    local _, variant = derive(f, { n, m }, { 2 }, { 2 })
    assert.equal(5, #variant.uses[1].boxes)
  end)

  it("of more arms than there may be boxes is around them", function()
    local of = derive(function(i, j, u, v)
      local s = 0
      for k = 0, 11 do
        s = s + u[i > k and i - 1 or 0][j > 2 * k and j - 1 or m - 1]
      end
      v[i][j] = s
    end, { n, m }, { 2 }, { 2 })
    local _, map = of(1)
    same({ n, m }, map, function(chunk)
      return box.new({ 0, max(chunk.min[1] - 1, 0) }, { max(chunk.max[0] - 1, 1), m })
    end)
  end)

  it("multiplies and divides by what was captured", function()
    local by = 4
    local of = derive(function(i, u, v)
      local s = 0
      for k = 0, by - 1 do s = s + u[min(i * by + k, n - 1)] end
      v[i] = s
    end, { n }, { 1 }, { 1 })
    local _, map = of(1)
    same({ n }, map, function(chunk)
      return box.new({ min(chunk.min[0] * by, n - 1) }, { min(chunk.max[0] * by - 1, n - 1) + 1 })
    end)
    of = derive(function(i, u, v) v[i] = u[floor(i / by)] end, { n }, { 1 }, { 1 })
    _, map = of(1)
    same({ n }, map, function(chunk)
      return box.new({ floor(chunk.min[0] / by) }, { floor((chunk.max[0] - 1) / by) + 1 })
    end)
  end)

  it("of a triangle that is written is all of its rows", function()
    local of = derive(function(i, v) for j = 0, i do v[i][j] = 1 end end, { n }, { 2 })
    local mode, map = of(1)
    assert.equal("write", mode)
    for i = 0, n - 1 do
      local chunk = box.chunk(1, i, nil, nil, i + 1, nil, nil, n)
      assert.same(points(function() return box.new({ i, 0 }, { i + 1, n }) end, chunk, { n, n }),
        points(map, chunk, { n, n }))
    end
  end)

  it("discards what was there only where all of it is stored", function()
    local function mode(f, ...)
      local of = derive(f, { n }, ...)
      return (of(1))
    end
    assert.equal("discard_write", mode(function(i, v) v[i] = i end, { 1 }))
    assert.equal("discard_write", mode(function(i, v)
      if i > 3 then v[i] = 1 else v[i] = 2 end
    end, { 1 }))
    assert.equal("write", mode(function(i, v) if i > 3 then v[i] = 1 end end, { 1 }))
    assert.equal("write", mode(function(i, v) v[2 * i] = 1 end, { 1 }))
    assert.equal("write", mode(function(i, v)
      if i > 3 then return end
      v[i] = 1
    end, { 1 }))
    assert.equal("write", mode(function(i, v)
      for j = 0, i do v[i][j] = 1 end
    end, { 2 }))
    assert.equal("write", mode(function(i, v)
      for j = 0, n - 1 do
        if j == i then break end
        v[i][j] = 1
      end
    end, { 2 }))
    assert.equal("discard_write", mode(function(i, v) v[i][0], v[i][2] = 1, 2 end, { 2 }))
    assert.equal("discard_write", mode(function(i, v) v[i][0], v[i][1] = 1, 2 end, { 2 }))
    assert.equal("discard_write", mode(function(i, v) v[i].x, v[i].y = 1, 2 end, { 1, "float2" }))
    assert.equal("write", mode(function(i, v) v[i].x, v[i].z = 1, 2 end, { 1, "float3" }))
    assert.equal("read_write", mode(function(i, v) v[i][0] = v[i][1] end, { 2 }))
    assert.equal("discard_write", mode(function(i, v)
      v[i] = 0
      for k = 1, 3 do v[i] = v[i] + k end
    end, { 1 }))
    assert.equal("read_write", mode(function(i, v)
      for k = 1, 3 do v[i] = v[i] + k end
      v[i] = 0
    end, { 1 }))
    assert.equal("read_write", mode(function(i, v)
      if i > 3 then v[i] = 0 end
      v[i] = v[i] + 1
    end, { 1 }))
    assert.equal("read_write", mode(function(i, v)
      v[i].x = 0
      v[i].y = v[i].y + v[i].x
    end, { 1, "float2" }))
  end)

  it("of what was computed from elements is what it was clamped to", function()
    local function rule(f, ...)
      local of, variant = derive(f, { n }, ...)
      local mode = of(1)
      return mode, mappers.of(variant, 1).text, variant.uses[1].together or false
    end
    local function holds(wanted, f, ...)
      assert.same(wanted, { rule(f, ...) })
    end
    holds({ "read_write", "celer.box({ 0 }, { 9 })", true }, function(i, h, v)
      h[min(max(floor(v[i]), 0), 8)]:atomic_add(1)
    end, { 1, "int" }, { 1 })
    holds({ "read_write", "celer.box({ chunk.min[0] }, { chunk.max[0] })", false },
      function(i, h) h[i]:atomic_add(1) end, { 1, "int" })
    holds({ "read", "celer.box({ 2 }, { 6 })", false },
      function(i, u, w, v) v[i] = u[max(min(w[i], 5), 2)] end, { 1 }, { 1, "int" }, { 1 })
    holds({ "read", "celer.box({ celer.min(4, chunk.min[0]) }, { 5 })", false },
      function(i, u, w, v) v[i] = u[min(max(w[i], i), 4)] end, { 1 }, { 1, "int" }, { 1 })
    -- Where v[i] is a NaN, max(5, v[i]) is one, and then the other operand comes out.
    holds({ "read", "celer.box({ 1 }, { 8 })", false }, function(i, u, v)
      v[i] = u[min(max(max(5, floor(v[i])), i % 3 + 1), 7)]
    end, { 1 }, { 1 })
    holds({ "read", "celer.box({ 0 }, { 8 })", false }, function(i, u, v)
      v[i] = u[max(min(min(5, floor(v[i])), i % 3 + 5), 0)]
    end, { 1 }, { 1 })
  end)

  it("takes no bounds from a comparison of numbers", function()
    local q = 2
    local of = derive(function(i, w, v)
      if 2 > 100 then v[i] = w[min(i * q + 2, n - 1)] + w[i] end
    end, { n }, { 1 }, { 1 })
    local _, map = of(1)
    same({ n }, map, function(chunk)
      return chunk, box.new({ min(chunk.min[0] * 2 + 2, n - 1) }, { min(chunk.max[0] * 2 + 1, n) })
    end)
  end)

  it("says where items would collide, and what cannot be derived", function()
    local function fault(words, f, ...)
      local of = derive(f, { n }, ...)
      local ok, message = pcall(of, 1)
      assert.is_false(ok)
      assert.matches(words, message)
    end
    fault("two items may write", function(i, v) v[floor(i / 2)] = 1 end, { 1 })
    fault("two items may write", function(i, v) v[i - i] = 1 end, { 1 })
    local flat = derive(function(i, j, v) v[m * i + j] = 1 end, { n, m }, { 1 })
    assert.matches("by celer.access%(a1, mapper%)", (select(2, pcall(flat, 1))))
    fault("writes at another place", function(i, v) v[i], v[i + 1] = 1, 2 end, { 1 })
    fault("read where other items", function(i, v) v[i] = v[n - 1 - i] end, { 1 })
    fault("cannot be derived", function(i, u, v) v[i] = u[i * i % 7] + u[i * i] end, { 1 }, { 1 })
    fault("cannot be derived", function(i, u, v)
      local s = 0
      for k = 2 * i, n - 1 do s = s + u[k - i] end
      v[i] = s
    end, { 1 }, { 1 })
  end)

  it("of what is written in steps has what lies between, which stays as it is", function()
    local mode, map = derive(function(i, v) v[2 * i + 1] = i end, { n }, { 1 })(1)
    assert.equal("write", mode)
    same({ n }, map, function(chunk)
      return box.new({ 2 * chunk.min[0] + 1 }, { min(2 * chunk.max[0] + 1, n) })
    end)
  end)

  -- By conditions on sums, by several together, and by what loops say of their counters.
  it("of guarded sums and multiples ends where the conditions do", function()
    local function reads(f, by_hand)
      local of = derive(f, { n }, { 1 }, { 1 })
      same({ n }, (select(2, of(1))), by_hand)
    end
    local function upto(low, f)
      return function(chunk) return box.new({ low or chunk.min[0] }, { f(chunk) }) end
    end
    reads(function(i, u, v) if 2 * i < n then v[i] = u[2 * i] end end, function(chunk)
      return box.new({ 2 * chunk.min[0] }, { min(2 * chunk.max[0] - 1, n) })
    end)
    reads(function(i, u, v)
      if n - 2 - 2 * i >= 0 then v[i] = u[n - 2 - 2 * i] end
    end, function(chunk)
      return box.new({ max(n - 2 * chunk.max[0], 1) }, { n - 1 - 2 * chunk.min[0] })
    end)
    local of = derive(function(i, j, u, v)
      if i < j and j < 5 then v[i][j] = u[i + 1] end
    end, { n, m }, { 1 }, { 2 })
    local _, map = of(1)
    for i = 0, n - 1 do
      local chunk = box.chunk(2, i, 0, nil, i + 1, m, nil, n, m)
      assert.same(points(function() return box.new({ i + 1 }, { min(i + 2, 5) }) end, chunk, { n }),
        points(map, chunk, { n }))
    end
    reads(function(i, u, v)
      local s = 0
      for j = 0, i do s = s + u[i - j] end
      v[i] = s
    end, upto(0, function(chunk) return chunk.max[0] end))
    reads(function(i, u, v)
      local s = 0
      for j = 0, i do
        for k = 0, j do s = s + u[i - k] end
      end
      v[i] = s
    end, upto(0, function(chunk) return chunk.max[0] end))
    reads(function(i, u, v)
      local s = 0
      for j = i - 1, 0, -1 do s = s + u[i - 1 - j] end
      v[i] = s
    end, upto(0, function(chunk) return chunk.max[0] - 1 end))
    reads(function(i, u, v)
      local s = 0
      for j = i, n - 1 do s = s + u[j - i] end
      v[i] = s
    end, upto(0, function(chunk) return n - chunk.min[0] end))
    reads(function(i, u, v)
      local s = 0
      for j = 0, n - 1 - i do s = s + u[i + j] end
      v[i] = s
    end, upto(nil, function() return n end))
  end)

  it("of random conditions and loops holds what items read", function()
    math.randomseed(5)
    local random = math.random
    local function pick(...) return (select(random(select("#", ...)), ...)) end
    local function sum(...)
      return ("%d * %s + %d * %s + %d"):format(pick(1, 1, 1, 2, -1, -2, 3), pick(...),
        pick(0, 0, 1, -1, 1, 2), pick(...), random(-3, 5))
    end
    local function condition(at)
      return pick("%s >= 0", "%s < n", "%s <= 4", "0 < %s", "%s == 3", "not (%s < 2)"):format(
        pick(at, sum("i", "j", "k"), sum("i", "k")))
    end
    local function make()
      local at = sum("i", "j", "k")
      return ([[local n, m = ... return function(i, j, u, v)
        local s = 0
        for k = %s, %s%s do
          if %s and %s and %s then s = s + u[%s] end
        end
        v[i][j] = s
      end]]):format(pick("0", "i", "j + 1", sum("i", "j")), pick("n - 1", "i", "5", sum("i", "j")),
        pick("", "", ", -1", ", 2"), condition(at), condition(at), condition(at), at)
    end
    -- All that the items of a chunk read.
    local function recorded(f, chunk)
      local seen, u = {}, {}
      setmetatable(u, { __index = function(_, at) seen[at] = true return 0 end })
      for i = chunk.min[0], chunk.max[0] - 1 do
        for j = chunk.min[1], chunk.max[1] - 1 do f(i, j, u, { [i] = {} }) end
      end
      return seen
    end
    local function bounds(map, chunk)
      local low, high = math.huge, -math.huge
      for _, one in ipairs { map(chunk, box.shape(1, n)) } do
        if one.min[0] < one.max[0] then
          low, high = min(low, one.min[0]), max(high, one.max[0] - 1)
        end
      end
      return low, high
    end
    local derived, apart = 0, 0
    for _ = 1, 300 do
      local text = make()
      local f = loadstring(text)(n, m)
      local ok, _, map = pcall(function()
        return derive(loadstring(text)(n, m), { n, m }, { 1 }, { 2 })(1)
      end)
      for _ = 1, ok and map and 4 or 0 do
        derived = derived + 1
        local a, c = random(0, n - 2), random(0, m - 1)
        local b, d = random(a + 2, n), random(c + 1, m)
        local cut = random(a + 1, b - 1)
        local chunk = box.chunk(2, a, c, nil, b, d, nil, n, m)
        local low, high = bounds(map, chunk)
        for at in pairs(recorded(f, chunk)) do
          assert.is_true(low <= at and at <= high, text)
        end
        local low_a, high_a = bounds(map, box.chunk(2, a, c, nil, cut, d, nil, n, m))
        local low_b, high_b = bounds(map, box.chunk(2, cut, c, nil, b, d, nil, n, m))
        if low ~= min(low_a, low_b) or high ~= max(high_a, high_b) then apart = apart + 1 end
      end
    end
    assert.is_true(derived > 800, derived .. " are derived")
    assert.is_true(apart < derived / 100, apart .. " differ where no item reads") -- as of no turns
  end)

  it("relies on numbers only as they are", function()
    local small = 5
    local function f(i, u, v) v[i] = u[min(i + 1, small - 1)] end
    local of, variant = derive(f, { n }, { 1 }, { 1 })
    same({ n }, (select(2, of(1))), function(chunk)
      return box.new({ min(chunk.min[0] + 1, small - 1) }, { min(chunk.max[0], small - 1) + 1 })
    end)
    small = n
    assert.is_false(variants.fits(variant, call_of({ n }, { { 1 }, { 1 } })))
  end)
end)
