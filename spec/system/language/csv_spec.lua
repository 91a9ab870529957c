-- Tables of text, written and read.
local celer = require("spec.support.celer")
local preload = require("spec.support.preload")
local scratch = require("spec.support.scratch")

local folder
setup(function() folder = scratch.folder() end)
teardown(function() os.execute("rm -rf " .. folder) end)

local function run(text, ranks)
  scratch.write(folder .. "/case.lua", "local celer = require 'celer'; local q = celer.queue();"
    .. text)
  local r = celer.run({ "run", "case.lua" }, { ranks = ranks, cwd = folder })
  assert.equal("", r.stderr)
  assert.equal(0, r.status)
  return r.stdout
end

describe("a CSV file", function()
  it("is written to the byte, on two ranks", function()
    run([[
local b = celer.buffer("int64_t", { 2 }, { init = { 3, 9007199254740993LL } })
celer.csv.write("new/a.csv", { t = { 0.1, 1 / 3 }, n = q:wait(b), ["a,b"] = { 'say "x"', "" } })
celer.csv.write("b.csv", { t = { -1e300, 0 / 0 }, u = { "x", "y z" }, v = { 1, 1 } },
  { names = { "u", "t" }, separator = ";", header = false })]], 2)
    assert.equal('"a,b",n,t\n"say ""x""",3,0.1\n"",9007199254740993,0.33333333333333331\n',
      scratch.read(folder .. "/new/a.csv"))
    assert.equal("x;-1e+300\ny z;nan\n", scratch.read(folder .. "/b.csv"))
  end)

  it("is read, with quotes, line ends of all kinds and gaps", function()
    scratch.write(folder .. "/r.csv", '\239\187\191t,"a ""b"", c",gap,word\r\n'
      .. '1.5,"two\nlines",,0x10\r\n\r\n-2e3,,7,"3"')
    assert.equal("t|a \"b\", c|gap|word\n1.5 -2000 two\nlines||true 7|0x10 3\n2 7 x\n", run([[
local t, names = celer.csv.read("r.csv")
print(table.concat(names, "|"))
print(t.t[1] .. " " .. t.t[2] .. " " .. table.concat(t['a "b", c'], "|") .. "|"
  .. tostring(t.gap[1] ~= t.gap[1]) .. " " .. t.gap[2] .. "|" .. t.word[1] .. " " .. t.word[2])
celer.csv.write("s.csv", { { 7 }, { "x" } }, { header = false, separator = "%" })
local s = celer.csv.read("s.csv", { header = false, separator = "%", numbers = { 1 } })
print(#s .. " " .. s[1][1] .. " " .. s[2][1])]]))
  end)

  it("keeps every number and string", function()
    assert.equal("kept\n", run([[
local x, s = {}, {}
for i = 1, 2000 do
  x[i] = (math.random() - 0.5) * 10 ^ math.random(-300, 300)
  s[i] = "x" .. ('a",\r\n ;'):rep(2):sub(math.random(1, 8), math.random(0, 16))
end
celer.csv.write("k.csv", { x = x, s = s })
local t = celer.csv.read("k.csv", { numbers = { "x" } })
for i = 1, 2000 do assert(t.x[i] == x[i] and t.s[i] == s[i], i) end
print "kept"]]))
  end)

  it("is refused at the script's line", function()
    for name, text in pairs { ragged = "a,b\n1,2\n3\n", open = 'a,b\n1,"2\n3', after = 'a\n"1"2\n',
      within = 'a,b\n1,2"3\n', word = "a,b\n1,2\n1,x\n", twice = "a,a\n1,2\n", none = "" } do
      scratch.write(folder .. "/" .. name .. ".csv", text)
    end
    os.execute("mkdir " .. folder .. "/taken.csv")
    assert.equal("checked\n", run([[

local function refused(words, f, ...)
  local ok, message = pcall(f, ...)
  if ok or not tostring(message):find("^case.lua:%d+: ") or not message:find(words, 1, true) then
    error(words .. ": " .. tostring(message), 2)
  end
end
local read, write = celer.csv.read, celer.csv.write
refused("cannot read no.csv: No such file or directory", read, "no.csv")
refused("cannot read ragged.csv: line 3, column 1: the row has 1 field, the first one has 2", read,
  "ragged.csv")
refused("cannot read open.csv: line 2, column 3: the quote is not closed", read, "open.csv")
refused("after.csv: line 2, column 4: text follows a closing quote", read, "after.csv")
refused("within.csv: line 2, column 4: a quote stands within a field", read, "within.csv")
refused('word.csv: line 3, column 3: "x" of b is no number', read, "word.csv", { numbers = true })
refused("word.csv: line 1, column 1: there is no column c", read, "word.csv", { numbers = { "c" } })
refused('twice.csv: line 1, column 3: column "a" is there twice', read, "twice.csv")
refused("separator must be one character", read, "word.csv", { separator = "::" })
assert(next((read("none.csv"))) == nil)
refused("must be a table of columns", write, "a.csv", 3)
refused("not an empty table", write, "a.csv", {})
refused("column b has 1 row, column a has 2", write, "a.csv", { a = { 1, 2 }, b = { 1 } })
refused("column a[2] is a table, neither a number nor a string", write, "a.csv", { a = { 1, {} } })
refused("column a must be a list or a snapshot, not a number", write, "a.csv", { a = 3 })
refused("there is no column x", write, "a.csv", { a = {} }, { names = { "x" } })
refused("Not a directory", write, "case.lua/a.csv", { a = { 1 } })
refused("there is no celer.csv.raed, did you mean read?", function() return celer.csv.raed end)
refused("cannot write taken.csv: Is a directory", write, "taken.csv", { a = { 1 } })
print "checked"]]))
  end)

  it("leaves no part of a file, whether it cannot be written or the run is told to end", function()
    assert.equal("", scratch.output("ls " .. folder .. " | grep '[.]part$'"))
    scratch.write(folder .. "/slow.lua", "require('celer').csv.write('slow.csv', { x = { 1 } })")
    local env = preload("slow_disk")
    env.SLOW_DISK, env.SLOW_DISK_WHILE = "1", folder .. "/slow.lua"
    local r = celer.exec({ "sh", "-c", ([[
      %s run --backend cpu slow.lua & p=$!
      until [ -s slow.csv.part ] || ! kill -0 $p; do sleep 0.01; done
      kill -TERM $p; wait $p; ls slow.csv* 2>/dev/null]]):format(celer.command()) },
      { cwd = folder, env = env, timeout = 60 })
    assert.equal("", r.stdout)
    assert.matches("told to end", r.stderr)
  end)
end)
