-- Pictures are drawn of what any host has measured.
local cjson = require("cjson")
local celer = require("spec.support.celer")
local scratch = require("spec.support.scratch")

local host = { processor = "A & B", cores = 64, gpu = "4 x GPU", commit = "" }

local function both(row)
  local other = {}
  for name, value in pairs(row) do other[name] = value end
  row.collectives, other.collectives = true, false
  return row, other
end

-- Of each part a row or some, as figures/measure.lua makes them.
local function parts()
  local s, t = both { program = "all_gather", ranks = 2, us = { 4, 2, -1 } }
  local g, h = both { ranks = 4, apart = 16, from = 64, us = 8 }
  local d, e = both { ranks = 256, seconds = 1e-4 }
  local n, m = both { bodies = 1048576, ranks = 2, seconds = { 0.6, 0.5, 0.7 } }
  local c = { program = "stencil", bytes = 65536, ranks = 8,
    us = { collectives = { 20, 30 }, point_to_point = { 25 } } }
  local alone = { bodies = 1048576, ranks = 1, collectives = true, seconds = { 1, 1.1 } }
  return { scheduling = { rows = { s, t } }, generative = { rows = { g, h }, patches = 64 },
    communication_cpu = { rows = { c } }, nbody_dry = { rows = { d, e } },
    nbody_gpu = { rows = { alone, n, m } } }
end

local function figures(...)
  return celer.exec({ "luajit", "spec/bench/figures.lua", ... })
end

describe("the pictures of what was measured", function()
  it("say what was run and what was not", function()
    local folder = scratch.folder()
    for name, data in pairs(parts()) do
      data.host = host
      scratch.write(("%s/%s.json"):format(folder, name), cjson.encode(data))
    end
    local r = figures(folder, "draw=only")
    assert.equal(0, r.status, r.stderr)
    for name, words in pairs {
      scheduling = { "Dry runs, all of them", ">500 k</text>", "all_gather" },
      communication = { "Real runs", ">stencil, 8 ranks<", ">64 KiB<", "A &amp; B, 64 cores" },
      nbody = { "Solid: real runs", "Dashed: not run", "1,048,576 bodies on GPUs, 1 s", ">256<" },
      generative = { "Dry runs, all of them", ">S = 16<", "one of 4 ranks, collectives" },
    } do
      local text = scratch.read(("%s/%s.svg"):format(folder, name))
      for _, word in ipairs(words) do assert.matches(word, text, 1, true) end
      assert.is_nil(text:find("nan", 1, true), name)
      assert.is_nil(text:find("inf", 1, true), name)
    end
  end)

  it("leave out what was not measured, and know what they are called", function()
    local folder = scratch.folder()
    local r = figures(folder, "draw=only")
    assert.equal("", r.stdout, r.stderr)
    assert.matches("no figure heat", figures(folder, "heat").stderr, 1, true)
    assert.matches("no setting rank", figures(folder, "rank=2").stderr, 1, true)
  end)
end)
