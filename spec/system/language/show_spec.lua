-- Pictures in terminals, which are read back pixel by pixel.
local celer = require("spec.support.celer")
local scratch = require("spec.support.scratch")
local terminal = require("spec.support.terminal")

local folder
setup(function() folder = scratch.folder() end)
teardown(function() os.execute("rm -rf " .. folder) end)

local function run(text, ranks)
  scratch.write(folder .. "/case.lua", "local celer = require 'celer'\n" .. text)
  return celer.run({ "run", "case.lua" }, { ranks = ranks, cwd = folder })
end

local function shown(text, ranks)
  local r = run(text, ranks)
  assert.equal("", r.stderr)
  assert.equal(0, r.status)
  return r.stdout
end

-- A picture of 7 rows and 5 columns in gray, and what its pixels are.
local GRAY = [[
local u = celer.buffer("float", { 7, 5 }, { init = function(y, x) return 36 * y + x end })
celer.show(u, { as = "%s", min = 0, max = 255, scale = %d })]]
local function gray(y, x) return 36 * y + x end

-- ---- readers --------------------------------------------------------------------------------

-- Half blocks: rows of pixels as "red;green;blue", or "none" below the last.
local function blocks(text)
  local rows = {}
  for line in text:gmatch "([^\n]*)\n" do
    local ink, paper
    local upper, lower = {}, {}
    local rest = line
    while rest ~= "" do
      local code, after = rest:match "^\27%[([%d;]*)m(.*)"
      if code then
        ink = code:match "^38;2;(.*)" or ink
        paper = code:match "^48;2;(.*)" or (code == "49" and "none") or paper
        rest = after
      else
        assert.equal("▀", rest:sub(1, 3))
        upper[#upper + 1], lower[#lower + 1] = ink, paper
        rest = rest:sub(4)
      end
    end
    assert.equal("\27[0m", line:sub(-4))
    rows[#rows + 1], rows[#rows + 2] = upper, lower
  end
  return rows
end

local function kitty(text)
  local bytes, size, more = {}, nil, "1"
  for head, body in text:gmatch "\27_G(.-);(.-)\27\\" do
    assert.equal("1", more)
    assert.is_true(#body <= 4096)
    size = size or { head:match "^a=T,q=2,f=24,s=(%d+),v=(%d+)," }
    more = head:match "m=(%d)$"
    scratch.write(folder .. "/piece", body)
    local pipe = assert(io.popen("base64 -d " .. folder .. "/piece"))
    bytes[#bytes + 1] = pipe:read "*a"
    pipe:close()
  end
  assert.equal("0", more)
  return table.concat(bytes), tonumber(size[1]), tonumber(size[2])
end

-- Sixels: colours as "red;green;blue" in percent, by row and column from 0 on.
local function sixels(text)
  local width, height, body = text:match '^\27P0;1q"1;1;(%d+);(%d+)(.*)\27\\\n$'
  local colors, at, x, top, color = {}, {}, 0, 0, nil
  for y = 0, height + 5 do at[y] = {} end
  local function put(letter, n)
    local bits = letter:byte() - 63
    for i = x, x + n - 1 do
      for k = 0, 5 do
        if math.floor(bits / 2 ^ k) % 2 == 1 then
          assert.is_nil(at[top + k][i])
          at[top + k][i] = colors[color]
        end
      end
    end
    x = x + n
  end
  body = body:gsub("#(%d+);2;(%d+;%d+;%d+)", function(k, what) colors[k] = what return "" end)
  for word, rest in body:gmatch "([#!]?%d*)([^#!]?)" do
    if word:sub(1, 1) == "#" then color = word:sub(2) end
    if rest == "$" then
      x = 0
    elseif rest == "-" then
      x, top = 0, top + 6
    elseif rest ~= "" then
      put(rest, word:sub(1, 1) == "!" and tonumber(word:sub(2)) or 1)
    end
  end
  return at, tonumber(width), tonumber(height)
end

-- ---- what is shown ----------------------------------------------------------------------------

describe("celer.show", function()
  for _, ranks in ipairs { 1, 3 } do
    it("draws half blocks, two pixels each, on " .. ranks .. " rank(s)", function()
      local rows = blocks(shown(GRAY:format("blocks", 1), ranks))
      assert.equal(8, #rows)
      for y = 0, 6 do
        for x = 0, 4 do
          local v = gray(y, x)
          assert.equal(("%d;%d;%d"):format(v, v, v), rows[y + 1][x + 1])
        end
      end
      assert.same({ "none", "none", "none", "none", "none" }, rows[8])
    end)
  end

  it("has nothing sent to ranks that show nothing", function()
    scratch.write(folder .. "/case.lua", [[
      local celer = require "celer"
      local u = celer.buffer("float", { 300, 40 })
      celer.kernel(function(y, x, u) u[y][x] = y + x end)({ 300, 40 }, u)
      celer.show(u, { as = "blocks" })
    ]])
    -- Of a collective rank 0 would count its own part, too.
    local r = celer.run({ "run", "--log", "info", "--no-collectives", "case.lua" },
      { ranks = 3, cwd = folder })
    assert.equal(0, r.status, r.stderr)
    assert.matches("0 messages with 0 bytes", r.stderr) -- of rank 0
    assert.is_true(#blocks(r.stdout) > 0)
  end)

  it("draws by kitty's protocol, in pieces", function()
    local bytes, width, height = kitty(shown(GRAY:format("kitty", 20)))
    assert.same({ 100, 140, 100 * 140 * 3 }, { width, height, #bytes })
    for y = 0, 139, 19 do
      for x = 0, 99, 19 do
        local at = 3 * (y * 100 + x) + 1
        assert.equal(gray(math.floor(y / 20), math.floor(x / 20)), bytes:byte(at))
      end
    end
  end)

  it("draws plots that name no file", function()
    local bytes, width, height = kitty(shown([[
local x, y = { 0, 1, 2 }, { 1, 0, 2 }
celer.plot(x, y, { as = "kitty", title = "t" })
celer.plot(x, y) -- this is no terminal
celer.plot("plot.png", x, y, { title = "t" })
celer.wait()
local p = celer.wait(celer.io.load("plot.png", { colors = "rgb" }))
local out = io.open("plot.raw", "w")
out:write(p:string())
out:close()]], 2))
    assert.same({ 800, 500 }, { width, height })
    assert.equal(scratch.read(folder .. "/plot.raw"), bytes)
  end)

  it("draws lines of plots as thick as half blocks are", function()
    local dark = 0
    for _, row in ipairs(blocks(shown [[celer.plot({ 0, 1 }, { 0, 1 }, { as = "blocks" })]])) do
      for x = 20, 60 do
        if tonumber(row[x]:match "^%d+" or 255) < 120 then dark = dark + 1 end
      end
    end
    assert.is_true(dark > 20)
  end)

  it("draws sixels of 216 colours", function()
    local at, width, height = sixels(shown(GRAY:format("sixel", 2)))
    assert.same({ 10, 14 }, { width, height })
    for y = 0, 13 do
      for x = 0, 9 do
        local v = math.floor(gray(math.floor(y / 2), math.floor(x / 2)) * 5 / 255 + 0.5) * 20
        assert.equal(("%d;%d;%d"):format(v, v, v), at[y][x])
      end
    end
  end)

  it("makes wide pictures as wide as the terminal, by means", function()
    local rows = blocks(shown [[
local u = celer.buffer("float", { 4, 160 }, { init = function(y, x) return x % 2 * 100 + y end })
celer.show(u, { as = "blocks", min = 0, max = 255 })]])
    assert.same({ 2, 80 }, { #rows, #rows[1] })
    assert.equal("51;51;51", rows[1][1]) -- of 0, 100, 1 and 101, rounded up
  end)

  it("shows colours, fields and planes, and snapshots", function()
    local out = shown [[
local rgb = celer.buffer("uint8_t", { 2, 1, 3 }, { init = function(y, _, c) return 10 * y + c end })
celer.show(celer.wait(rgb), { as = "blocks" })
local cell = celer.struct("cell", "float a, b;")
local u = celer.buffer(cell, { 2, 1, 2 }, { init = function(y, _, k) return { 0, 9 * y + k } end })
celer.show(u, { as = "blocks", field = "b", plane = { dim = 2, at = 1 }, min = 0, max = 255 })]]
    local rows = blocks(out)
    assert.same({ "0;1;2", "10;11;12", "1;1;1", "10;10;10" },
      { rows[1][1], rows[2][1], rows[3][1], rows[4][1] })
  end)

  it("shows nothing where there is no terminal", function()
    assert.equal("", shown 'celer.show(celer.buffer("float", { 2, 2 }, { init = 1 }))')
  end)

  for _, words in ipairs { {}, { "repl", "-n", "2" } } do
    it("draws in a session what its terminal can: celer " .. table.concat(words, " "), function()
      local t = terminal.open(words, { cwd = folder, env = { XDG_STATE_HOME = folder } })
      t:wait "1> "
      t:enter('u = celer.buffer("float", { 2, 2 }, { init = 1 })', 2)
      t:type "celer.show(u, { min = 0, max = 1 })\r"
      t:wait "\n"
      assert.matches("48;2;255;255;255m▀▀\27%[0m", t:wait "3> ")
      assert.equal(0, t:close())
    end)
  end

  it("says what it cannot show", function()
    for text, message in pairs {
      ["celer.show(3)"] = "the first argument must be a buffer or a snapshot, not a number",
      ["celer.show(u, { as = 'ascii' })"] = 'as must be "kitty", "sixel" or "blocks", not "ascii"',
      ["celer.show(u, { width = 3 })"] = "celer.show: .*width",
      ["celer.show(v)"] = "celer.show: .*v has neither 2 dimensions, nor 3",
    } do
      local r = run("local u = celer.buffer('int', { 2, 2 }, { init = 1, name = 'u' })\n"
        .. "local v = celer.buffer('int', 2, { init = 1, name = 'v' })\n" .. text)
      assert.equal(1, r.status, text)
      assert.matches("case.lua:4: .*" .. message, r.stderr)
    end
  end)
end)

describe("the way to draw", function()
  it("follows the environment", function()
    local lua = [[
local terminal = require "celer.draw.terminal"
for _, case in ipairs {
  { TERM = "xterm-kitty" }, { TERM = "xterm-256color", TERM_PROGRAM = "WezTerm" },
  { TERM = "xterm", KITTY_WINDOW_ID = "1" }, { TERM = "foot" }, { TERM = "mlterm" }, {},
  { TERM = "xterm-256color" }, { TERM = "screen.xterm", TERM_PROGRAM = "ghostty" },
  { TERM = "xterm-kitty", TMUX = "/tmp/x" } } do
  io.write(terminal.way(function(name) return case[name] end), " ")
end]]
    assert.equal("kitty kitty kitty sixel sixel blocks blocks blocks blocks ", shown(lua))
  end)
end)
