-- What can go wrong with steps that are taken together, and how it ends.
local celer = require("spec.support.celer")
local scratch = require("spec.support.scratch")

local WAVE = [[
local celer = require "celer"
local q = celer.queue()
local rank = tonumber(os.getenv "OMPI_COMM_WORLD_RANK" or 0)
local h, w = HEIGHT, WIDTH
local function bump(i, j) return (i * 7 + j * 3) % 11 end
local u = celer.buffer("float", { h, w }, { name = "u", init = bump })
local v = celer.buffer("float", { h, w }, { name = "v", init = bump })
local k = celer.kernel [=[
  kernel void step(item<2> it, in<float, 2> u, inout<float, 2> v, int far) {
    v(it[0], it[1]) = u(it[0] - 1, it[1]) + u(it[0] + far, it[1]) - 1.5f * v(it[0], it[1]);
  }
]=]
local range = celer.box({ 1, 0 }, { h - 1, w })
q:hint(HINT)
local function step(far)
  q:submit(function(cg)
    cg:parallel_for(range, k, cg:read(u, celer.neighborhood(1, 0)), cg:read_write(v), far)
  end)
  u, v = v, u
end
local function total()
  local found, sum = q:fence(u):get(), 0
  for i = 0, h - 1 do for j = 0, w - 1 do sum = sum + (1 + (7 * i + j) % 13) * found(i, j) end end
  return ("%.17g"):format(sum)
end
]]

local function write(text, options)
  options = options or {}
  local path = scratch.path(".lua")
  local values = { HEIGHT = options.height or 64, WIDTH = options.width or 16,
    HINT = options.hint or "{ fold = 8 }" }
  scratch.write(path, (WAVE:gsub("%u+", values)) .. text)
  return path
end

local function run(text, options, words)
  options = options or {}
  local path = write(text, options)
  local line = { "run", "--advice", "off" }
  for _, word in ipairs(words or {}) do line[#line + 1] = word end
  line[#line + 1] = path
  return celer.run(line, { ranks = options.ranks, timeout = 60 }), path
end

-- The line on which the text of `write` has `what`.
local function line_of(path, what)
  local n = 0
  for line in io.lines(path) do
    n = n + 1
    if line:find(what, 1, true) then return n end
  end
end

describe("steps that are taken together", function()
  -- The seventh of eight.
  local WRONG = [[
for _ = 1, 6 do step(1) end
q:submit(function(cg)
  cg:parallel_for(range, k, cg:read(u, celer.neighborhood(1, 0)), cg:read_write(v), FAR) -- wrong
end)
step(1)
print(total())
]]

  it("name the step that goes wrong by its line", function()
    local function expect(far, words, what)
      for ranks = 1, 2 do
        local r, path = run(WRONG:gsub("FAR", far), { ranks = ranks > 1 and ranks or nil }, words)
        assert.not_equal(0, r.status, r.stdout)
        assert.matches(what:gsub("LINE", line_of(path, "wrong")), r.stderr)
      end
    end
    expect("2", { "--no-sample", "--check-bounds" }, ":LINE: kernel step: item .- touches element")
    expect("900000000", { "--no-sample" }, "invalid memory access in kernel step %(.-:LINE%)")
  end)

  local STEPS = "for _ = 1, 21 do step(1) end\nprint(total())"

  it("may need more rows than neighbours have, or than there are", function()
    for _, hint in ipairs { "{ fold = 64 }", "{ fold = 9, weights = { 0, 1, 3, 0 } }" } do
      local want = run(STEPS, { height = 9, hint = "{ fold = 1 }" }).stdout
      for ranks = 3, 4 do
        local own = hint:gsub("{ 0, 1, 3, 0 }", ranks == 3 and "{ 0, 1, 3 }" or "%0")
        local r = run(STEPS, { height = 9, hint = own, ranks = ranks })
        assert.equal(0, r.status, r.stderr)
        assert.equal(want, r.stdout)
      end
    end
  end)

  it("do not mind when a rank's collector frees what they wrote", function()
    local text = [[
for t = 1, 40 do
  u = v
  v = celer.buffer("float", { h, w }, { init = bump })
  step(1)
  if t % (3 + 4 * rank) == 0 then collectgarbage() end
end
print(total())
]]
    local want = run(text, { hint = "{ fold = 1 }" }).stdout
    for ranks = 1, 3 do
      local r = run(text, { ranks = ranks > 1 and ranks or nil })
      assert.equal(0, r.status, r.stderr)
      assert.equal(want, r.stdout)
    end
  end)

  it("end with a message where not even one row of them fits", function()
    local r, path = run("for _ = 1, 8 do\n  step(1)\nend\nprint(total())", { width = 100000 },
      { "--device-memory", "1M" })
    assert.not_equal(0, r.status)
    assert.matches(("%s:%d: "):format(path, line_of(path, "cg:parallel_for")), r.stderr, 1, true)
    assert.matches("1.0 MiB", r.stderr, 1, true)
  end)

  it("end where a rank dies between them", function()
    local r = run([[
local ffi = require "ffi"
ffi.cdef "int getpid(void); int kill(int, int);"
for t = 1, 1000 do
  if t == 501 and rank == 1 then ffi.C.kill(ffi.C.getpid(), 10) end
  step(1)
end
print(total())
]], { ranks = 3 })
    assert.is_false(r.timed_out)
    assert.not_equal(0, r.status)
  end)

  -- Three of eight are held back meanwhile.
  it("end by Ctrl-C, wherever it comes", function()
    for _, text in ipairs { "for _ = 1, 3 do step(1) end\nio.stderr:write 'up\\n'\n"
      .. "while true do end", "io.stderr:write 'up\\n'\nwhile true do step(1) end" } do
      local path = write(text)
      local start = celer.command() .. " run --advice off " .. path
      local r = celer.exec({ "bash", "-c", "set -m; " .. start .. " 2>" .. path .. ".err & p=$!\n"
        .. "until grep -q up " .. path .. ".err; do sleep 0.1; done; kill -INT $p\n"
        .. "wait $p 2>/dev/null; status=$?; cat " .. path .. ".err; exit $status" },
        { timeout = 60 })
      assert.is_false(r.timed_out)
      assert.not_equal(0, r.status)
      assert.equal("up\nceler: interrupted\n", r.stdout)
    end
  end)
end)
