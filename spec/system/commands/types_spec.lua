-- `celer types`: what editors know of celer is all that there is, and fits it.
local celer = require("spec.support.celer")

local r = celer.run { "types" }
local text = r.stdout

-- Names that lines of the text give, by a pattern.
local function names(pattern)
  local out = {}
  for name in text:gmatch(pattern) do out[name] = true end
  return out
end

describe("celer types", function()
  it("writes declarations that are Lua, and name what is required", function()
    assert.same({ "", 0 }, { r.stderr, r.status })
    assert.truthy(text:find "^%-%-%-@meta celer\n")
    local given = assert(loadstring(text))()
    assert.equal("function", type(given.buffer))
    assert.equal("function", type(given.io.save))
  end)

  -- What there is, the program itself says.
  it("has all that celer and its objects have", function()
    local there = celer.run { "-e", [==[
      local group = require("celer.submit.group").new({})
      for name in celer.sorted_pairs(getmetatable(celer).__names) do print("celer." .. name) end
      for name in celer.sorted_pairs(celer.io) do print("celer.io." .. name) end
      local v = celer.buffer("int", { 2 }, { init = { 1, 2 } })
      local q, b = celer.queue(), celer.box({ 0 }, { 1 })
      local o = celer.host_object(function() return 1 end)
      for class, value in celer.sorted_pairs { queue = q, command_group = group, buffer = v,
        box = b, view = q:wait(v), future = q:fence(v), host_object = o,
        divided_snapshot = q:wait(celer.capture(v, function() return b end)) } do
        for name, f in celer.sorted_pairs(getmetatable(value)) do
          if type(f) == "function" and name:sub(1, 1) ~= "_" then
            print("celer_" .. class .. ":" .. name)
          end
        end
      end
    ]==] }
    assert.same({ "", 0 }, { there.stderr, there.status })
    local declared = names "\nfunction ([%w_.:]+)%("
    for name in pairs(names "\n(celer%.[%w_.]+) = {}") do declared[name] = true end
    local n = 0
    for name in there.stdout:gmatch "[^\n]+" do
      n = n + 1
      assert.truthy(declared[name], name .. " is not declared")
    end
    assert.is_true(n > 70)
  end)

  it("says of each function what it does, takes and gives, in the words of its source", function()
    local n = 0
    local first, documented = nil, {}
    for line in text:gmatch "([^\n]*)\n" do
      local name, parameters = line:match "^function ([%w_.:]+)%((.-)%) end$"
      if name then
        n = n + 1
        assert.matches("^%-%-%- %u", first, 1, false, name .. ": nothing is written above it")
        assert.equal(parameters, table.concat(documented, ", "), name)
      end
      if not line:find "^%-%-%-" then
        first, documented = nil, {}
      else
        first = first or line
        documented[#documented + 1] = line:match "^%-%-%-@param ([%w_.]+)"
      end
    end
    assert.is_true(n > 70)
  end)

  it("declares each class that it speaks of", function()
    local declared = names "%-%-%-@class (celer[%w_.]*)"
    for name in pairs(names "%-%-%-@alias (celer[%w_.]*)") do declared[name] = true end
    for line in text:gmatch "%-%-%-@[^\n]+" do
      local types = line:gsub("^(%-%-%-@%a+ [^ ]+ .-)  .*$", "%1")
      for name in types:gmatch "celer%.[%w_.]*[%w_]" do
        assert.truthy(declared[name], name .. " in " .. line)
      end
    end
  end)
end)
