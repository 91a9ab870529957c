-- What `help` tells in a session.
local celer = require("spec.support.celer")
local scratch = require("spec.support.scratch")

local function session(text)
  local r = celer.run({ "repl" }, { stdin = text .. "\n" })
  assert.same({ "", 0 }, { r.stderr, r.status })
  return r.stdout
end

describe("help", function()
  it("lists the chapters of the guides", function()
    local seen = session "help()"
    local n = 0
    for title in scratch.read("lua/README.md"):gmatch "\n## ([^\n]+)" do
      n = n + 1
      assert.truthy(seen:find("\n  " .. title .. "\n", 1, true), title)
    end
    assert.is_true(n > 20)
    assert.truthy(seen:find("\n  Kernels: Work groups\n", 1, true))
    assert.equal(seen, session "help")
  end)

  it("gives a chapter as it stands in the guide", function()
    local function given(words, path, title)
      local begin = "\n## " .. title:gsub("%p", "%%%0")
      local text = (scratch.read(path) .. "\n## "):match(begin .. "\n+(.-)\n+## ")
      assert.truthy(text and #text > 200, title)
      assert.truthy(session(("help %q"):format(words)):find("\n\n" .. text .. "\n", 1, true))
    end
    given("range mappers", "lua/README.md", "Say what a chunk touches: range mappers")
    local tour = scratch.read("examples/tour.md"):match "^# .-\n\n(.*)\n$"
    assert.truthy(session("help 'tour'"):find(tour, 1, true))
    given("Make buffers", "lua/README.md", "Make buffers")
    given("work groups", "kernels/README.md", "Work groups")
    given("XDG_STATE_HOME", "lua/README.md", "Try things out: the REPL")
    given("xdg_state_home", "lua/README.md", "Try things out: the REPL")
  end)

  it("tells the same without a session", function()
    for _, words in ipairs { "buffer", "cg:read", "range mappers" } do
      local r = celer.run({ "help", words })
      assert.same({ "", 0 }, { r.stderr, r.status })
      assert.is_true(#r.stdout > 100)
      assert.truthy(session(("help %q"):format(words)):find(r.stdout, 1, true), words)
    end
    assert.matches("^Usage: celer help ", celer.run({ "help", "help" }).stdout)
    local r = celer.run({ "help", "bufer" }, { ranks = 2 })
    assert.same({ 'there is nothing on "bufer", did you mean celer.buffer?\n', 1 },
      { r.stdout, r.status })
  end)

  it("lists the chapters without a session, where it is given no words or unknown ones", function()
    local begins = { [""] = "^Usage: celer ", nosuch = '^there is nothing on "nosuch"\n' }
    for words, begin in pairs(begins) do
      local r = celer.run({ "help", words ~= "" and words or nil })
      assert.same({ "", words == "" and 0 or 1 }, { r.stderr, r.status })
      assert.matches(begin, r.stdout)
      for title in scratch.read("lua/README.md"):gmatch "\n## ([^\n]+)" do
        assert.truthy(r.stdout:find("\n  " .. title .. "\n", 1, true), title)
      end
    end
  end)

  it("finds words in capitals and in small letters", function()
    local small, capitals = session 'help "gpu"', session 'help "GPU"'
    assert.equal(small, capitals)
    assert.truthy(small:find('help "Options and environment variables"', 1, true), small)
  end)

  it("tells of functions what stands above them in the source", function()
    local above = scratch.read("lua/celer/mapper/builtin.lua"):match("%-%-%- ([^\n]+)\n"
      .. ("%-%-%-@[^\n]+\n"):rep(3) .. "function M.all%(")
    assert.equal("celer.all(chunk, buffer)\n  " .. above .. "\n  chunk           celer.chunk\n"
      .. "  buffer          celer.extents\n  gives celer.box\n"
      .. '  see help "Say what a chunk touches: range mappers"\n',
      (session("help(celer.all)"):gsub('\n           ".*$', "\n")))
    assert.equal(session "help(celer.buffer)", session "help 'celer.buffer'")
    local read_text = session "help 'cg:read'"
    assert.matches("^celer.command_group:read%(buffer, map, options%)\n  Reads the part", read_text)
    assert.matches("\n  map%? +celer.range_mapper: default: celer.one_to_one\n", read_text)
    assert.matches("^celer.io.load%(path, options%)\n", session "help(celer.io.load)")
    assert.equal(session "help(celer.io.load)", session "help 'celer.io.load'")
    assert.matches("^celer.communicator:barrier%(%)\n  Until", session "help 'comm:barrier'")
    assert.matches("^celer.once\n  Where a host task runs", session "help(celer.once)")
  end)

  it("has something to tell of every name in celer", function()
    assert.equal("true\n", (session [==[
      local said, names, print_ = 0, 0, print
      local function count(...) said = said + #table.concat { ... } end
      for name in celer.sorted_pairs(getmetatable(celer).__names) do
        for _, what in ipairs { celer[name], name, "celer." .. name } do
          said, print = 0, count
          help(what)
          print = print_
          if said < 50 then print(name, what, said) end
        end
        names = names + 1
      end
      print(names > 40)]==]:gsub("\n +", " ")))
  end)

  it("tells of objects what their class has", function()
    local seen = session "q = celer.queue() help(q) help(q.submit)"
    assert.matches("^queue\n", seen)
    assert.matches("\n  :submit%(f%) +Submits one command group", seen)
    assert.matches("\nceler.queue:submit%(f%)\n", seen)
    seen = session "help(celer.buffer('int', {3}, {name = 'u'}))"
    assert.matches("^buffer u: int%[3%], 12 bytes\n", seen)
    assert.matches("\n  dims +integer\n", seen)
    assert.matches("\n  :free%(%) +Gives the memory back", seen)
  end)

  it("has something to say of all that celer has", function()
    local seen = session "help(celer)"
    local listed = session [[
for name in celer.sorted_pairs(getmetatable(celer).__names) do print(name) end]]
    local n, libraries = 0, { io = "io.load", math = "math.sqrt" }
    for name in listed:gmatch "%S+" do
      n = n + 1
      assert.truthy(seen:find("\n  " .. (libraries[name] or name) .. " +%S",
        1) or seen:find("^  " .. name .. " +%S"), name)
    end
    assert.is_true(n > 30)
  end)

  it("has something to say of what it does not know", function()
    assert.equal('there is nothing on "chekpoint", did you mean celer.checkpoint?\n',
      session "help 'chekpoint'")
    assert.equal('there is nothing on "celer.bufer", did you mean celer.buffer?\n',
      session "help 'celer.bufer'")
    assert.equal('there is nothing on "celer.io.sav"\nhelp() lists the chapters\n',
      session "help 'celer.io.sav'")
    assert.equal('there is nothing on "zzzzzzzz"\nhelp() lists the chapters\n',
      session "help 'zzzzzzzz'")
    assert.equal("a number, of which nothing is written\n", session "help(3)")
    assert.equal("nil, of which nothing is written\n", session "help(nil)")
    assert.equal("a function, of which nothing is written\n", session "help(math.sin)")
  end)
end)
