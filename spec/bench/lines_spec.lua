-- Small programs have as many lines as spec/bench/lines/README.md says, and compute the same.
local celer = require "spec.support.celer"
local scratch = require "spec.support.scratch"

local folder = "spec/bench/lines/"

local function read(path)
  local file = assert(io.open(path))
  local text = file:read "*a"
  file:close()
  return text
end

describe("spec/bench/lines", function()
  it("has as many lines as its table says", function()
    local rows = 0
    for smooth, wave, n, m in read(folder .. "README.md"):gmatch(
      "%[smooth%]%((%S-)%), %[wave%]%((%S-)%)%) | (%d+) | (%d+) |") do
      rows = rows + 1
      for name, want in pairs { [smooth] = n, [wave] = m } do
        local _, count = read(folder .. name):gsub("[^\n]+\n", "")
        assert.equal(tonumber(want), count, name)
      end
    end
    assert.equal(5, rows)
  end)

  it("smooths by whole buffers", function()
    assert.equal("10\n", celer.run({ "run", folder .. "smooth_arrays.lua" }).stdout)
  end)

  it("computes the wave of README.md by whole buffers", function()
    local sums = {}
    local kernel = read("README.md"):match("\n```lua\n(.-)```")
    for k, text in ipairs { kernel, read(folder .. "wave_arrays.lua") } do
      local path = scratch.folder() .. "/wave.lua"
      local file = assert(io.open(path, "w"))
      file:write(text, [[
        local row = celer.drain(celer.capture(u, celer.box({ 200, 0 }, { 201, n })))
        local sum = 0
        for x = 0, n - 1 do sum = sum + row(200, x) end
        print(("%.5f"):format(sum))]])
      file:close()
      sums[k] = celer.run({ "run", path }, { cwd = scratch.folder() }).stdout
    end
    assert.equal("15.30700\n", sums[1])
    assert.equal(sums[1], sums[2])
  end)
end)
