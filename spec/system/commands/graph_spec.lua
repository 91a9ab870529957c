-- celer graph: what is drawn of a script's graphs, for imagined ranks and for ones
-- that were started.
local celer = require("spec.support.celer")
local scratch = require("spec.support.scratch")

local PROGRAM = [==[
local celer = require "celer"
local q = celer.queue()
local n, steps = 60, tonumber(arg[1]) or 2
local k = celer.kernel [=[
  kernel void smooth(item<1> it, in<float, 1> a, out<float, 1> b) { b(it[0]) = a(it[0]); }
]=]
local a = celer.buffer("float", n, { name = "a", init = function(i) return i end })
local b = celer.buffer("float", n, { name = "b" })
local log = celer.host_object(function() return {} end, { name = "log" })
for _ = 1, steps do
  q:submit(function(cg)
    cg:name "smooth \"it\""
    cg:parallel_for(n, k, cg:read(a, celer.neighborhood(1)), cg:discard_write(b))
  end)
  a, b = b, a
end
q:submit(function(cg)
  cg:name "look"
  cg:host_task(1, function() end, cg:read(a, celer.all), cg:side_effect(log))
end)
print "from the script"
q:drain()
]==]

-- The nodes of DOT by name, {label lines}; its edges, "from to" to style; and the
-- boxes' labels, in order.
local function parse(text)
  local nodes, edges, boxes = {}, {}, {}
  assert.equal("digraph celer {\n", text:match("^[^\n]*\n"))
  for line in text:gmatch("[^\n]+") do
    local name, label = line:match('^(n%d+) %[label="(.*)", fillcolor="#%x+"%];$')
    local from, to, style = line:match("^(n%d+) %-> (n%d+)(.*);$")
    if name then
      assert.is_nil(nodes[name])
      nodes[name] = {}
      for part in label:gmatch("(.-)\\l") do
        table.insert(nodes[name], (part:gsub("\\(.)", "%1")))
      end
    elseif from then
      edges[from .. " " .. to] = style
    elseif line:find('^label="T') then
      boxes[#boxes + 1] = line:match('^label="(.*)\\l";$'):gsub("\\l", ", ")
    end
  end
  for edge in pairs(edges) do
    for name in edge:gmatch("%S+") do assert.truthy(nodes[name], edge) end
  end
  return nodes, edges, boxes
end

-- The node whose first line ends so.
local function named(nodes, words, nth)
  local list = {}
  for name, lines in pairs(nodes) do
    if lines[1]:find("^%a%d+ " .. words .. "$") then list[#list + 1] = tonumber(name:sub(2)) end
  end
  table.sort(list)
  return "n" .. assert(list[nth or 1], words)
end

describe("celer graph", function()
  local folder, script
  before_each(function()
    folder = scratch.folder()
    script = folder .. "/case.lua"
    scratch.write(script, PROGRAM)
  end)
  after_each(function() os.execute("rm -r " .. folder) end)

  local function graph(...)
    return celer.run({ "graph", script, ... })
  end

  it("draws tasks, with what they touch and their lines", function()
    local r = graph()
    assert.same({ 0, "from the script\n" }, { r.status, r.stderr })
    local nodes, edges = parse(r.stdout)
    local kernel = 'kernel smooth "it"'
    local first, second = named(nodes, kernel, 1), named(nodes, kernel, 2)
    local look, epoch = named(nodes, "host look"), named(nodes, "epoch", 2)
    assert.same({ 'T2 kernel smooth "it"', "over [0,60)", "read a [0,60)",
      "discard_write b [0,60)", script .. ":13" }, nodes[first])
    assert.same({ "T4 host look", "over [0,1)", "read a [0,60)", "sequential effect on log",
      script .. ":19" }, nodes[look])
    assert.equal("", edges[first .. " " .. second])
    assert.equal("", edges[second .. " " .. look])
    assert.equal(' [color="#aaaaaa"]', edges[look .. " " .. epoch])
  end)

  -- The figure of Knorr et al., Declarative Data Flow: 1 sequential, 2 exclusive, 3 and 4
  -- relaxed, 5 exclusive, 6
  -- sequential; 7 and 8 have a buffer between them, 9 and 10 objects of their own.
  it("draws between which tasks there are conflicts", function()
    scratch.write(script, [==[
local celer = require "celer"
local q = celer.queue()
local o = celer.host_object("struct { int n; }", { name = "o" })
local u = celer.buffer("int", 8, { name = "u", init = 0 })
local function touch(name, object, order, ...)
  local accesses = { ... }
  q:submit(function(cg)
    cg:name(name)
    for i, mode in ipairs(accesses) do accesses[i] = cg[mode](cg, u) end
    cg:host_task({ 8 }, function() end, cg:side_effect(object, order), unpack(accesses))
  end)
end
for i, order in ipairs { "sequential", "exclusive", "relaxed", "relaxed", "exclusive",
  "sequential" } do touch("t" .. i, o, order) end
touch("t7", o, "exclusive", "read_write")
touch("t8", o, "exclusive", "read_write")
q:wait()
touch("t9", o, "exclusive")
o:free()
local p = celer.host_object("struct { int n; }", { name = "p" })
touch("t10", p, "exclusive")
]==])
    for _, which in ipairs { "task", "command" } do
      local r = graph("--graph", which, "--ranks", "2")
      assert.same({ 0, "" }, { r.status, r.stderr })
      local nodes, edges = parse(r.stdout)
      local number, seen = {}, {}
      for i = 1, 10 do
        number[which == "task" and named(nodes, "host t" .. i) or named(nodes, "execute", i)] = i
      end
      for edge, style in pairs(edges) do
        local from, to = edge:match("(%S+) (%S+)")
        if style:find("dir=none", 1, true) then
          seen[#seen + 1] = ("%d-%d"):format(number[from], number[to])
        end
      end
      table.sort(seen)
      assert.same({ "2-3", "2-4", "2-5", "3-5", "4-5" }, seen)
    end
  end)

  it("draws conflicts about objects that are gone", function()
    scratch.write(script, [==[
local celer = require "celer"
local q = celer.queue()
for i = 1, 20 do
  local o = celer.host_object(function() return {} end, { name = "o" .. i })
  for _ = 1, 2 do
    q:submit(function(cg)
      cg:host_task(celer.on_master, function() end, cg:side_effect(o, "exclusive"))
    end)
  end
  o:free()
  if i % 5 == 0 then q:wait() end
end]==])
    for _, which in ipairs { "task", "command" } do
      local r = graph("--graph", which)
      assert.same({ 0, "" }, { r.status, r.stderr })
      local _, edges = parse(r.stdout)
      local conflicts = 0
      for _, style in pairs(edges) do
        if style:find("dir=none", 1, true) then conflicts = conflicts + 1 end
      end
      assert.equal(20, conflicts)
    end
  end)

  it("draws the commands of a rank of many, with messages", function()
    local r = graph("--ranks", "6", "--rank", "1", "--graph", "command", "--fold", "1")
    local nodes, edges, boxes = parse(r.stdout)
    assert.same({ 'T2 smooth "it", ' .. script .. ":13", 'T3 smooth "it", ' .. script .. ":13",
      "T4 look, " .. script .. ":19" }, { (boxes[1]:gsub("\\", "")), (boxes[2]:gsub("\\", "")),
      boxes[3] })
    local first, second = named(nodes, "execute", 1), named(nodes, "execute", 2)
    assert.same({ "chunk [10,20)", "read b [9,21)", "discard_write a [10,20)" },
      { unpack(nodes[second], 2) })
    local sent, got = {}, {}
    for name, lines in pairs(nodes) do
      for i = 2, #lines - 1, 2 do -- a message and its only piece
        local message = lines[i] .. " " .. lines[i + 1]
        if lines[1]:find("await_push$") then
          got[message] = edges[name .. " " .. second]
        elseif lines[1]:find("push$") then
          sent[message] = edges[first .. " " .. name] or edges[second .. " " .. name]
        end
      end
    end
    assert.same({ ["from rank 0, 4 bytes b [9,10)"] = "",
      ["from rank 2, 4 bytes b [20,21)"] = "" }, got)
    assert.same({ ["to rank 0, 4 bytes b [10,11)"] = "", ["to rank 2, 4 bytes b [19,20)"] = "",
      ["to rank 0, 40 bytes a [10,20)"] = "" }, sent)
  end)

  it("draws instructions, on as many devices as are asked for", function()
    local r = graph("--graph", "instruction", "--devices", "2")
    local nodes, edges = parse(r.stdout)
    local kernels = {}
    for _, lines in pairs(nodes) do
      if lines[1]:find("kernel$") then kernels[lines[2]] = (kernels[lines[2]] or 0) + 1 end
    end
    assert.same({ ["chunk [0,30) on device 0"] = 2, ["chunk [30,60) on device 1"] = 2 }, kernels)
    local init, copy = named(nodes, "init"), named(nodes, "copy")
    assert.equal("in host", nodes[init][3])
    assert.equal("host to device memory 0", nodes[copy][3])
    assert.equal("", edges[init .. " " .. copy])
    assert.truthy(named(nodes, "alloc"))
  end)

  it("executes nothing, unless ranks were started: then it draws what one of them does",
    function()
      local touch = PROGRAM:gsub("host_task%(1, function%(%) end",
        "host_task(1, function() io.open('" .. folder .. "/touched', 'w'):close() end")
      scratch.write(script, touch)
      for _, which in ipairs { "task", "command", "instruction" } do
        local imagined = graph("--ranks", "3", "--rank", "2", "--graph", which,
          "--backend", "cpu")
        assert.equal(0, imagined.status, imagined.stderr)
        assert.is_nil(io.open(folder .. "/touched"))
        local started = celer.run({ "graph", script, "--rank", "2", "--graph", which,
          "--backend", "cpu" }, { ranks = 3 })
        assert.same({ 0, "from the script\n" }, { started.status, started.stderr })
        assert.equal(imagined.stdout, started.stdout)
        assert.is_true(os.remove(folder .. "/touched"))
      end
    end)

  it("draws no more nodes than asked for, and says so", function()
    local r = graph("--nodes", "3", "5000")
    local nodes, n = parse(r.stdout), 0
    for _ in pairs(nodes) do n = n + 1 end
    assert.equal(3, n)
    assert.equal("celer: warning: the first 3 nodes of the graph are drawn, and the script was "
      .. "ended where it went on; --nodes N draws more\n", r.stderr)
    assert.equal(0, r.status)
    r = celer.run({ "graph", "--nodes", "3", script }, { ranks = 2 }) -- executed, to its end
    assert.truthy(r.stderr:find("celer: warning: the graph has %d+ nodes, of which the first 3 "
      .. "are drawn; %-%-nodes N draws more\n"), r.stderr)
  end)

  it("ends a loop that waits for what is not computed, with what is drawn", function()
    scratch.write(script, [==[
local celer = require "celer"
local q = celer.queue()
local x = celer.buffer("double", {}, { name = "x", init = 1 })
repeat
  q:submit(function(cg)
    cg:host_task(celer.once, function() end, cg:read_write(x))
  end)
until q:wait(WHAT)() > 100
print "not here"
]==])
    local text = scratch.read(script)
    for _, what in ipairs { "x", "celer.capture(x, nil, { dry = 1 })" } do
      scratch.write(script, (text:gsub("WHAT", what)))
      for _, which in ipairs { "task", "command", "instruction" } do
        local r = graph("--graph", which, "--nodes", "50", "--ranks", "3")
        local n = 0
        for _ in pairs((parse(r.stdout))) do n = n + 1 end
        assert.equal(50, n)
        assert.equal("celer: warning: the first 50 nodes of the graph are drawn, and the script "
          .. "was ended where it went on; --nodes N draws more\n", r.stderr)
        assert.equal(0, r.status)
      end
    end
  end)

  it("writes files, by Graphviz in other formats", function()
    local r = graph("-o", folder .. "/g.dot", "--graph", "command")
    assert.same({ 0, "" }, { r.status, r.stdout })
    parse(scratch.read(folder .. "/g.dot"))
    if os.execute("command -v dot >/dev/null 2>&1") ~= 0 then
      return pending("no Graphviz here")
    end
    for _, which in ipairs { "task", "command", "instruction" } do
      r = graph("-o", folder .. "/" .. which .. ".svg", "--graph", which, "--ranks", "2")
      assert.same({ 0, "", "from the script\n" }, { r.status, r.stdout, r.stderr })
      local svg = scratch.read(folder .. "/" .. which .. ".svg")
      assert.truthy(svg:find("smooth &quot;it&quot;", 1, true))
      assert.truthy(svg:find("</svg>", 1, true))
    end
  end)

  it("says what is wrong with how it was called, and with the script", function()
    local function refused(message, ...)
      local r = graph(...)
      assert.same({ 2, "celer: " .. message .. "\n", "" }, { r.status, r.stderr, r.stdout })
    end
    refused('--ranks must be a whole number from 1 to 16777216, not "0"', "--ranks", "0")
    refused('--rank must be a whole number from 0 to 2, not "3"', "--ranks", "3", "--rank", "3")
    refused("--rank goes with --ranks N", "--rank", "0")
    refused('--nodes must be a whole number from 1 to 1000000, not "x"', "--nodes", "x")
    refused("-o g: end the name in .dot, or for Graphviz in .svg or .pdf", "-o", "g")
    assert(os.execute(("ln -s $(command -v timeout) %s/timeout"):format(folder)) == 0)
    local r = celer.run({ "graph", script, "-o", "g.svg" }, { env = { PATH = folder } })
    assert.equal("celer: -o g.svg needs Graphviz, whose command dot is not found here: "
      .. "install it, or end the name in .dot\n", r.stderr)
    r = celer.run({ "graph", script, "--ranks", "4" }, { ranks = 2 })
    assert.equal("celer: --ranks 4: 2 were started; without mpirun or srun any number is "
      .. "imagined\n", r.stderr:match("celer: [^\n]*\n"))
    r = graph("-o", folder .. "/none/g.dot")
    assert.not_equal(0, r.status)
    assert.truthy(r.stderr:find("celer: -o " .. folder .. "/none/g.dot: No such file", 1, true))
    scratch.write(script, "error 'at once'")
    r = graph()
    assert.same({ "celer: " .. script .. ":1: at once\n", "" }, { r.stderr, r.stdout })
  end)
end)
