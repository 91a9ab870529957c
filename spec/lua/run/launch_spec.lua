-- launch.lua: what is known of a launcher's hosts, and what it is started with.
local scratch = require("spec.support.scratch")
local launch = require("celer.run.launch")
local core = require("celer.core")

local file = scratch.path(".hosts")

-- The words without those that all have.
local function words_of(launcher, left)
  core.environment = core.environment or function() return {} end
  local text = " " .. table.concat(launch.words(launcher, { "prog" }, {}, left), " ")
  return (text:gsub(" %-%-mca oob_%S+ %d+", ""):gsub("^ ", ""))
end

-- Found, with the file's lines.
local function find(words, lines, ranks)
  scratch.write(file, lines or "")
  return assert(launch.find(words:gsub("FILE", file), ranks))
end

-- All hosts but those of these names.
local function without(launcher, ...)
  local gone, out = {}, {}
  for _, name in ipairs { ... } do gone[name] = true end
  for _, host in ipairs(launcher.hosts) do
    if not gone[host.name] then out[#out + 1] = host end
  end
  return out
end

describe("a launcher's hosts", function()
  if os.execute "mpirun --version >/dev/null 2>&1" ~= 0 then
    pending "mpirun is not installed"
    return
  end

  it("are those of --host, which choose from those of --hostfile", function()
    for _, words in ipairs {
      "mpirun --hostfile FILE --host a,c:2", "mpirun -H a,c:2 -hostfile FILE" } do
      local launcher = find(words, "a slots=4\nb slots=4\nc slots=4\n", 3)
      assert.equal("mpirun --hostfile " .. file .. " --host a,c:2 -n 3 prog", words_of(launcher))
      assert.equal("mpirun --hostfile " .. file .. " --host c:2 -n 2 prog",
        words_of(launcher, without(launcher, "a")))
    end
  end)

  it("are left out of a list", function()
    local launcher = find("mpirun --host a:2,b,b -x V", nil, 4)
    assert.equal("mpirun -x V --host a:2,b,b -n 4 prog", words_of(launcher))
    assert.equal("mpirun -x V --host a:2 -n 2 prog", words_of(launcher, without(launcher, "b")))
    assert.equal("mpirun -x V --host b,b -n 2 prog", words_of(launcher, without(launcher, "a")))
  end)

  it("are left out of a file", function()
    core.leftover = core.leftover or function() end
    local launcher = find("mpirun --hostfile FILE",
      "# all\na slots=2\n\nb slots=3 max_slots=4\n", 5)
    assert.equal("mpirun --hostfile " .. file .. " -n 5 prog", words_of(launcher))
    local other = words_of(launcher, without(launcher, "a"))
      :match "^mpirun %-%-hostfile (%S+) %-n 3 prog$"
    assert.equal("b slots=3 max_slots=4\n", scratch.read(other))
    os.remove(other)
  end)

  it("have as many ranks as before if there is room, else their part of them", function()
    local function ranks(words, lines, n, ...)
      local launcher = find(words, lines, n)
      return launch.ranks_on(launcher, without(launcher, ...))
    end
    assert.equal(4, ranks("mpirun --hostfile FILE", "a slots=4\nb slots=4\n", 4, "a"))
    assert.equal(4, ranks("mpirun --hostfile FILE", "a slots=4\nb slots=4\n", 6, "a"))
    assert.equal(8, ranks("mpirun --hostfile FILE", "a slots=4\nb slots=4\n", 16, "a"))
    assert.equal(1, ranks("mpirun --host a,b", "", 2, "b"))
    assert.equal(3, ranks("mpirun --host a:1,b:3", "", 4, "a"))
    -- As many slots as cores, which are nobody knows how many.
    assert.equal(8, ranks("mpirun --hostfile FILE", "a\nb\n", 8))
    assert.equal(4, ranks("mpirun --hostfile FILE", "a\nb\n", 8, "b"))
    assert.equal(6, ranks("mpirun --hostfile FILE", "a\nb\nc slots=2\n", 9, "c"))
    assert.equal(2, ranks("mpirun --host a:*,b:*", "", 4, "b"))
    assert.equal(1, ranks("mpirun --hostfile FILE", "a\nb\n", 1, "b"))
  end)
end)
