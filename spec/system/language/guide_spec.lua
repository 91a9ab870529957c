-- Every program of the guide prints exactly what stands below it.
local cuda = require("spec.device.cuda")
local celer = require("spec.support.celer")
local scratch = require("spec.support.scratch")
local terminal = require("spec.support.terminal")

local folder = scratch.path(".guide")

-- All fenced blocks in order: their language, text, and the heading above.
local function blocks(path)
  local out, title, open = {}, nil, nil
  for line in scratch.read(path):gmatch("([^\n]*)\n") do
    local fence = line:match("^```(%S*)$")
    if fence == "" and open then
      out[#out + 1], open = open, nil
    elseif fence then
      open = { kind = fence, title = title, text = "" }
    elseif open then
      open.text = open.text .. line .. "\n"
    else
      title = line:match("^## (.*)") or title
    end
  end
  return out
end

local function run(code, ranks)
  scratch.write(folder .. "/guide.lua", code)
  return celer.run({ "run", "guide.lua" }, { ranks = ranks, cwd = folder, env = celer.sampled })
end

local function check(expected, r)
  assert.equal("", r.stderr)
  assert.equal(expected, r.stdout)
  assert.equal(0, r.status)
end

describe("README.md", function()
  it("has a program that prints what it says", function()
    local text = scratch.read("README.md"):match("\n## A program\n(.-)\n## ")
    local code = {}
    for line in text:gmatch("([^\n]*)\n") do code[#code + 1] = line:match("^    (.*)") end
    check(text:match("prints (%d+)") .. "\n", run(table.concat(code, "\n")))
    assert.is_true(#table.concat(code, "\n"):gsub("[^\n]*%S[^\n]*", "x"):gsub("\n", "") <= 9)
  end)

  it("has a wave in 14 lines, which draws the same pictures on three ranks", function()
    local code = blocks("README.md")
    for _, block in ipairs(code) do
      if block.kind == "lua" then code = block.text end
    end
    assert.equal(14, select(2, code:gsub("\n", "")))
    local drawn = {}
    for _, ranks in ipairs { 1, 3 } do
      check("", run(code, ranks))
      for t = 100, 600, 100 do
        local picture = scratch.read(("%s/wave%d.png"):format(folder, t))
        assert.equal("\137PNG", picture:sub(1, 4))
        drawn[t] = drawn[t] or picture
        assert.is_true(drawn[t] == picture)
      end
    end
    assert.is_true(drawn[100] ~= drawn[600])
  end)

  it("names every example", function()
    local text = scratch.read("README.md")
    for path in io.popen("ls examples/*"):lines() do
      local name = path:match("([%w_]+%.%w+)$")
      if name then assert.truthy(text:find(name, 1, true), name) end
    end
  end)
end)

setup(function() os.execute("mkdir -p '" .. folder .. "'") end)
teardown(function() os.execute("rm -rf '" .. folder .. "'") end)

describe("the guide", function()
  local all, programs, seen = blocks("lua/README.md"), {}, {}
  for i, block in ipairs(all) do
    if block.kind == "lua" then
      seen[block.title] = (seen[block.title] or 0) + 1
      programs[#programs + 1] = { code = block.text, after = all[i + 1],
        title = ("%s (%d)"):format(block.title, seen[block.title]) }
    end
  end

  it("has programs, each with what it prints", function()
    assert.is_true(#programs >= 10)
    for _, program in ipairs(programs) do
      assert.equal("text", program.after and program.after.kind, program.title)
    end
  end)

  for _, program in ipairs(programs) do
    it(program.title, function() check(program.after.text, run(program.code)) end)
  end

  it("prints the same on three ranks", function()
    local tried = 0
    for _, program in ipairs(programs) do
      if program.title:find("range mappers (1)", 1, true) then
        tried = tried + 1
        check(program.after.text, run(program.code, 3))
      end
    end
    assert.equal(1, tried)
  end)

  it("counts the lines of examples as they are", function()
    local section = scratch.read("lua/README.md"):match("\n### How long programs are\n(.-)\n## ")
    local tried = 0
    for name, lines in section:gmatch("\n| `([%w_]+)` | (%d+) |") do
      local count = 0
      for line in io.lines("examples/" .. name .. ".lua") do
        local comment = line:match("^%s*%-%-") or line:match("^%s*//")
        if line:find("%S") and not comment then count = count + 1 end
      end
      assert.equal(tonumber(lines), count, name)
      tried = tried + 1
    end
    assert.equal(4, tried)
  end)

  for _, program in ipairs(programs) do
    if program.title:find("^Recipes") then
      it(program.title .. ", on three ranks", function()
        check(program.after.text, run(program.code, 3))
      end)
    end
  end

  it("has ranks that come late lose no rows of a file of all", function()
    local late = [[
require("celer").queue():wait() -- all ranks have begun
local remove = os.remove
function os.remove(path)
  if require("celer.core").rank() == 2 then os.execute "sleep 0.5" end
  return remove(path)
end
]]
    local tried = 0
    for _, program in ipairs(programs) do
      if program.code:find('scope = "cluster"', 1, true) then
        tried = tried + 1
        check("[0] " .. program.after.text, run(late .. program.code, 3))
      end
    end
    assert.equal(1, tried)
  end)

  -- A transcript, in a new session.
  local function replay(transcript)
    local t = terminal.open({}, { cwd = folder, env = { XDG_STATE_HOME = folder } })
    assert.equal(transcript, t:replay(transcript))
    assert.equal(0, t:close())
  end

  -- What a command says of the program before it.
  local function shows(...)
    local line = "$ celer " .. table.concat({ ... }, " ") .. "\n"
    for i, block in ipairs(all) do
      if block.text:sub(1, #line) == line then
        run(all[i - 2].text)
        local r = celer.run({ ... }, { cwd = folder })
        assert.same({ block.text:sub(#line + 1), 1 }, { r.stdout .. r.stderr, r.status })
        return
      end
    end
    error "it shows nothing"
  end

  it("shows what celer check says", function() shows("check", "guide.lua") end)
  it("shows what --check-nan says", function() shows("run", "--check-nan", "guide.lua") end)

  it("shows a session as it is", function()
    local tried = 0
    for _, block in ipairs(all) do
      if block.kind == "console" then
        tried = tried + 1
        replay(block.text)
      end
    end
    assert.equal(1, tried)
  end)

  it("leads through a session as it is", function()
    local transcript = {}
    for i, block in ipairs(blocks("examples/tour.md")) do
      assert.equal("console", block.kind)
      transcript[i] = block.text
    end
    assert.is_true(#transcript > 5)
    replay(table.concat(transcript))
  end)
end)

describe("the page of kernels", function()
  local by_kind, kernels = {}, {}
  for _, block in ipairs(blocks("kernels/README.md")) do
    by_kind[block.kind] = block.text
    if block.kind == "cpp" then
      kernels[#kernels + 1] = ("print(require('celer').kernel [[%s]])\n"):format(block.text)
    end
  end

  it("has kernels that compile", function()
    check("kernel step(item<2>, inout<float, 2>, in<float, 2>, float)\n"
      .. "kernel blur(item<2>, near<float, 2>, out<float, 2>)\n"
      .. "kernel multiply(tile<16, 16>, in<float, 2>, in<float, 2>, out<float, 2>, "
      .. "local<float, 256>, local<float, 256>, int)\n", run(table.concat(kernels)))
  end)

  it("has a CUDA file that compiles, and is called as it says", function()
    if cuda.no_nvrtc then return pending(cuda.no_nvrtc) end
    scratch.write(folder .. "/saxpy.cu", by_kind["c++"])
    local before = [[local celer = require "celer"
      local q, one = celer.queue(), { init = function() return 1 end }
      local x, y = celer.buffer("float", { 1000 }, one), celer.buffer("float", { 1000 }, one)
    ]]
    scratch.write(folder .. "/guide.lua", before .. by_kind.lua)
    local r = celer.run({ "build", "--arch", "sm_90", "guide.lua" }, { cwd = folder })
    assert.equal("", r.stdout)
    assert.matches("^celer: build: %d compiled, ", r.stderr)
    assert.equal(0, r.status)
  end)
end)
