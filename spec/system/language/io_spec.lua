-- Buffers in files: NPY, HDF5 and PNG, written and read in parts by all ranks.
local ffi = require("ffi")
local celer = require("spec.support.celer")
local scratch = require("spec.support.scratch")

local ranks = { {}, { ranks = 2 }, { ranks = 3 }, { ranks = 4 } }

local folder
setup(function()
  folder = scratch.folder()
end)
teardown(function() os.execute("rm -rf " .. folder) end)

local function names() return scratch.output("cd " .. folder .. " && ls -A") end

-- Runs `text` in the folder; what stands in it afterwards stays.
local function run(text, shape, prefix)
  scratch.write(folder .. "/case.lua", "local celer = require 'celer'; local q = celer.queue();"
    .. text)
  local argv = { "run", "--devices", celer.devices(shape.devices or 1, shape.ranks), "case.lua" }
  if prefix then
    local words = { "sh", "-c", prefix .. ' "$@"', "sh" }
    if shape.ranks then
      for word in ("mpirun --oversubscribe --allow-run-as-root -n " .. shape.ranks)
        :gmatch("%S+") do words[#words + 1] = word end
    end
    words[#words + 1] = celer.command()
    for _, word in ipairs(argv) do words[#words + 1] = word end
    return celer.exec(words, { cwd = folder })
  end
  return celer.run(argv, { ranks = shape.ranks, cwd = folder })
end

local function passes(text, shape)
  local r = run(text, shape or {})
  assert.equal("", r.stderr)
  assert.equal(0, r.status)
  return r.stdout
end

-- What NumPy writes: the header padded to a multiple of 64, then `data`.
local function npy(dict, data, version)
  local before = version == 2 and 12 or 10
  local text = dict .. (" "):rep(-(before + #dict + 1) % 64) .. "\n"
  local n = string.char(#text % 256, math.floor(#text / 256))
  return "\147NUMPY" .. (version == 2 and "\2\0" .. n .. "\0\0" or "\1\0" .. n) .. text
    .. (data or "")
end

local function bytes(ctype, ...)
  local n = select("#", ...)
  local data = ffi.new(ctype .. "[?]", n, ...)
  return ffi.string(data, n * ffi.sizeof(ctype))
end

describe("NPY", function()
  for _, shape in ipairs(ranks) do
    it("is written to the byte on " .. (shape.ranks or 1) .. " rank(s)", function()
      passes([[
local u = celer.buffer("int16_t", { 3, 2 }, { init = function(i, j) return 10 * i + j end })
celer.io.save("u.npy", u)
celer.io.save("part.npy", u, celer.box({ 1, 1 }, { 3, 2 }))
celer.io.save("one.npy", celer.buffer("double", {}, { init = 2.5 }))
celer.io.save("none.npy", celer.buffer("bool", { 0 }))
celer.io.save("wide.npy", celer.buffer("uint8_t", { 1, 5 }, { init = function(_, j) return j end }))
local pair = celer.struct("pair", "char tag; float x[2]; int64_t n;")
celer.io.save("pairs.npy", celer.buffer(pair, { 2 }, { init = function(i)
  return { tag = 65 + i, x = { i, 0.5 }, n = -i }
end }))]], shape)
      local function is(name, dict, data)
        assert.equal(npy(dict, data), scratch.read(folder .. "/" .. name))
      end
      is("u.npy", "{'descr': '<i2', 'fortran_order': False, 'shape': (3, 2), }",
        bytes("int16_t", 0, 1, 10, 11, 20, 21))
      is("part.npy", "{'descr': '<i2', 'fortran_order': False, 'shape': (2, 1), }",
        bytes("int16_t", 11, 21))
      is("one.npy", "{'descr': '<f8', 'fortran_order': False, 'shape': (), }", bytes("double", 2.5))
      is("none.npy", "{'descr': '|b1', 'fortran_order': False, 'shape': (0,), }")
      is("wide.npy", "{'descr': '|u1', 'fortran_order': False, 'shape': (1, 5), }", "\0\1\2\3\4")
      is("pairs.npy", "{'descr': [('tag', '|i1'), ('', '|V3'), ('x', '<f4', (2,)), "
        .. "('', '|V4'), ('n', '<i8')], 'fortran_order': False, 'shape': (2,), }",
        "A\0\0\0" .. bytes("float", 0, 0.5) .. "\0\0\0\0" .. bytes("int64_t", 0)
        .. "B\0\0\0" .. bytes("float", 1, 0.5) .. "\0\0\0\0" .. bytes("int64_t", -1))
      assert.is_nil(names():find("part\n.*%.part"))
      os.execute("rm " .. folder .. "/*")
    end)

    it("is read as NumPy writes it on " .. (shape.ranks or 1) .. " rank(s)", function()
      local function put(name, descr, dims, data, version)
        scratch.write(folder .. "/" .. name .. ".npy", npy(("{'descr': %s, 'fortran_order': False, "
          .. "'shape': (%s), }"):format(descr, dims), data, version))
      end
      put("f", "'<f4'", "2, 3", bytes("float", 0, 1, 2, 10, 11, 12))
      put("long", "'<i8'", "2,", bytes("int64_t", -5, 7), 2)
      put("complex", "'<c16'", "1,", bytes("double", 1.5, -2))
      put("flags", "'|b1'", "3,", "\1\0\1")
      put("fields", "[('a', '<i4'), ('', '|V4'), ('b', '<f8')]", "2,",
        bytes("int32_t", 4, 0) .. bytes("double", 0.25) .. bytes("int32_t", 5, 0)
        .. bytes("double", 0.75))
      assert.equal("checked\n", passes([[
local function same(what, a, b) if a ~= b then error(what .. ": " .. tostring(a), 2) end end
local f, long = celer.io.load("f.npy"), celer.io.load("long.npy")
local part = celer.io.load("f.npy", { box = celer.box({ 0, 1 }, { 2, 3 }), name = "part",
  type = "float" })
local complex, flags = celer.io.load("complex.npy"), celer.io.load("flags.npy")
local fields = celer.io.load("fields.npy", { type = celer.struct("rec", "int a; double b;") })
same("f", tostring(f), "buffer f.npy: float[2][3], 24 bytes")
same("part", tostring(part), "buffer part: float[2][2], 16 bytes")
same("long", tostring(long), "buffer long.npy: int64_t[2], 16 bytes")
local double = celer.buffer("float", { 2, 2 }, { name = "double" })
q:submit(function(cg)
  cg:host_task({ 2, 2 }, function(p, part, double)
    for i = p.min[0], p.max[0] - 1 do
      for j = p.min[1], p.max[1] - 1 do double:set(i, j, 2 * part(i, j)) end
    end
  end, cg:read(part), cg:discard_write(double))
end)
local a, b, c, d, e, g = q:wait(f, long, complex, flags, fields, double)
same("f", a(1, 2), 12)
same("part", g(0, 0) + g(1, 1), 2 + 24)
same("long", tonumber(b[0] + b[1]), 2)
same("complex", c[0].x + c[0].y, -0.5)
same("flags", d[0] and not d[1] and d[2], true)
same("fields", e[1].a + e[0].b + e[1].b, 6)
print "checked"]], shape))
      os.execute("rm " .. folder .. "/*")
    end)
  end

  it("keeps every type through a file, and stays as it was saved", function()
    assert.equal("checked\n", passes([[
local saved = {}
local types = { "bool", "char", "int8_t", "uint8_t", "int16_t", "uint16_t", "int", "unsigned",
  "int64_t", "uint64_t", "float", "double" }
for i = 2, 4 do
  for _, base in ipairs { "int", "uint", "float", "double" } do types[#types + 1] = base .. i end
end
local bump = function(part, v)
  local bytes = require("ffi").cast("uint8_t *", (v:pointer()))
  for i = 0, part.size[0] * 3 * v.type.size - 1 do bytes[i] = 1 - bytes[i] end
end
for n, name in ipairs(types) do
  local b = celer.buffer(name, { 5, 3 }, { name = name })
  q:submit(function(cg)
    cg:host_task({ 5 }, function(part, v)
      local bytes = require("ffi").cast("uint8_t *", (v:pointer()))
      for i = 0, part.size[0] * 3 * v.type.size - 1 do bytes[i] = (i * n + part.min[0]) % 2 end
    end, cg:discard_write(b, function(c) return celer.box({ c.min[0], 0 }, { c.max[0], 3 }) end))
  end)
  local was = q:fence(b)
  celer.io.save(name .. ".npy", b)
  celer.io.save(name .. ".h5", b, { dataset = "x/" .. name })
  q:submit(function(cg) -- after the save, so not in it
    cg:host_task({ 5 }, bump, cg:read_write(b, function(c)
      return celer.box({ c.min[0], 0 }, { c.max[0], 3 })
    end))
  end)
  saved[n] = { name, was, q:fence(b) }
end
for _, one in ipairs(saved) do
  local name, was, is = one[1], one[2]:get():string(), one[3]:get():string()
  local a, b = q:wait(celer.io.load(name .. ".npy", { type = name }),
    celer.io.load(name .. ".h5", { type = name, dataset = "x/" .. name }))
  if a:string() ~= was or b:string() ~= was or is == was then error(name) end
end
print "checked"]], { ranks = 3 }))
    os.execute("rm " .. folder .. "/*")
  end)

  it("is read in the parts that are needed", function()
    scratch.write(folder .. "/huge.npy",
      npy("{'descr': '<f8', 'fortran_order': False, 'shape': (68719476736, 2), }"))
    os.execute("truncate -s 1099511627904 " .. folder .. "/huge.npy")
    local file = assert(io.open(folder .. "/huge.npy", "r+b"))
    file:seek("set", 128 + 16 * 60000000007)
    file:write(bytes("double", 3, 4))
    file:close()
    assert.equal("3\t4\t0\n", passes([[
local u = celer.io.load("huge.npy")
local s = q:wait(celer.capture(u, celer.box({ 60000000006, 0 }, { 60000000008, 2 })))
print(s(60000000007, 0), s(60000000007, 1), s(60000000006, 1))]], { ranks = 2 }))
    os.execute("rm " .. folder .. "/*")
  end)

  it("is not replaced before all ranks have loaded it", function()
    for _, ending in ipairs { "png", "npy" } do
      assert.equal("7\n", passes(([[
local function put(value)
  celer.io.save("u.END", celer.buffer("uint8_t", { 1, 1 }, { init = function() return value end }),
    OPTIONS)
end
put(7)
q:wait()
-- Rank 1 is late.
if os.getenv("OMPI_COMM_WORLD_RANK") == "1" then os.execute("sleep 0.3") end
local old = celer.io.load("u.END")
put(8)
local sum = celer.buffer("int", { 2 })
q:submit(function(cg)
  cg:host_task({ 2 }, function(part, old, sum)
    for i = part.min[0], part.max[0] - 1 do sum[i] = old(0, 0) end
  end, cg:read(old, celer.all), cg:discard_write(sum))
end)
local s = q:wait(sum)
if s[0] ~= s[1] then error(("%d on one rank, %d on the other"):format(s[0], s[1])) end
print(s[0])]]):gsub("END", ending):gsub("OPTIONS", ending == "png" and "{ min = 0, max = 255 }"
        or "nil"), { ranks = 2 }))
    end
    os.execute("rm " .. folder .. "/*")
  end)

  it("may be replaced while a buffer still reads it", function()
    assert.equal("7\t8\n", passes([[
celer.io.save("u.npy", celer.buffer("int", { 4 }, { init = function() return 7 end }))
local old = celer.io.load("u.npy")
celer.io.save("u.npy", celer.buffer("int", { 4 }, { init = function() return 8 end }))
local new = celer.io.load("u.npy")
local a, b = q:wait(old, new)
print(a[3], b[3])]], { ranks = 3 }))
    os.execute("rm " .. folder .. "/*")
  end)
end)

describe("HDF5", function()
  for _, shape in ipairs(ranks) do
    it("is written as its own tools read it on " .. (shape.ranks or 1) .. " rank(s)", function()
      passes([[
local u = celer.buffer("float", { 4, 3 }, { init = function(i, j) return 10 * i + j end })
local body = celer.struct("body", "char c; double x; int id[2];")
celer.io.save("u.h5", u, celer.box({ 1, 1 }, { 4, 3 }))
celer.io.save("all.hdf5", { u = u, ["deep/flag"] = celer.buffer("bool", {}, { init = true }),
  bodies = celer.buffer(body, { 2 }, { init = function(i)
    return { c = i, x = i / 2, id = { i, 9 } }
  end }),
  none = celer.buffer("int", { 0, 3 }) })]], shape)
      local r = celer.exec({ "h5dump", "-w", "0", "-d", "/data", "u.h5" }, { cwd = folder })
      assert.matches("H5T_IEEE_F32LE", r.stdout, 1, true)
      assert.matches("(0,0): 11, 12,", r.stdout, 1, true)
      assert.matches("(2,0): 31, 32", r.stdout, 1, true)
      r = celer.exec({ "h5dump", "-w", "0", "all.hdf5" }, { cwd = folder })
      assert.equal("", r.stderr)
      for _, text in ipairs { '"FALSE"            0;', "(0): TRUE", "( 0, 3 ) / ( 0, 3 )",
        'H5T_ARRAY { [2] H5T_STD_I32LE } "id"', "1,\n            0.5,\n            [ 1, 9 ]" } do
        assert.matches(text, r.stdout, 1, true)
      end
      assert.equal("checked\n", passes([[
local function same(what, a, b) if a ~= b then error(what .. ": " .. tostring(a), 2) end end
local u = celer.io.load("u.h5")
local part = celer.io.load("all.hdf5", { dataset = "u", box = celer.box({ 2, 0 }, { 4, 2 }) })
local flag = celer.io.load("all.hdf5", { dataset = "deep/flag" })
local bodies = celer.io.load("all.hdf5", { dataset = "bodies",
  type = celer.struct("body", "char c; double x; int id[2];") })
same("name", tostring(u), "buffer u.h5:data: float[3][2], 24 bytes")
local a, b, c, d = q:wait(u, part, flag, bodies)
same("u", a(2, 1), 32)
same("part", b(1, 1), 31)
same("flag", c(), true)
same("bodies", d[1].x + d[1].id[1], 9.5)
print "checked"]], shape))
      os.execute("rm " .. folder .. "/*")
    end)
  end

  it("is read where it is chunked and compressed, in parts", function()
    scratch.write(folder .. "/text", ("1 2 3 4 5 6 7 8 9 10 11 12 13 14 15\n"):rep(4))
    scratch.write(folder .. "/conf", "PATH zip\nINPUT-CLASS TEXTIN\nINPUT-SIZE 32\nRANK 2\n"
      .. "DIMENSION-SIZES 4 15\nOUTPUT-CLASS IN\nOUTPUT-SIZE 32\nOUTPUT-ARCHITECTURE STD\n"
      .. "OUTPUT-BYTE-ORDER LE\nCHUNKED-DIMENSION-SIZES 3 4\nCOMPRESSION-TYPE GZIP\n"
      .. "COMPRESSION-PARAM 5\n")
    local r = celer.exec({ "h5import", "text", "-c", "conf", "-o", "z.h5" }, { cwd = folder })
    assert.equal(0, r.status, r.stdout .. r.stderr)
    assert.equal("15\t8\t40\n", passes([[
local z = celer.io.load("z.h5")
local part = celer.io.load("z.h5", { box = celer.box({ 1, 5 }, { 4, 9 }) })
local sums = celer.buffer("int", { 4 })
os.remove("z.h5") -- by one of the ranks; the buffer holds on to the file
q:submit(function(cg)
  cg:host_task({ 4 }, function(p, z, sums)
    for i = p.min[0], p.max[0] - 1 do sums[i] = z(i, 3) + z(i, 5) end
  end, cg:read(z, function(c) return celer.box({ c.min[0], 2 }, { c.max[0], 6 }) end),
    cg:discard_write(sums))
end)
local a, b, c = q:wait(z, part, sums)
print(a(3, 14), b(2, 2), c[0] + c[1] + c[2] + c[3])]], { ranks = 1 }))
    os.execute("rm -f " .. folder .. "/*")
  end)
end)

-- Boxes of buffers of random extents, saved, and boxes of those loaded.
local random = [==[
celer.seed(SEED)
local function value(i, j, k) return ((i or 0) * 1000 + (j or 0)) * 1000 + (k or 0) end
local function extents()
  local out = {}
  for d = 1, celer.random(0, 3) do out[d] = celer.random(0, 9) end
  if #out > 0 and celer.random(3) == 1 then out[celer.random(#out)] = celer.random(4000, 9000) end
  return out
end
local function part_of(size)
  local lo, hi = {}, {}
  for d = 1, #size do
    lo[d] = celer.random(0, size[d])
    hi[d] = celer.random(lo[d], size[d])
  end
  return celer.box(lo, hi)
end
for case = 1, 12 do
  local size = extents()
  local u = celer.buffer("double", size, { init = value })
  local outer = part_of(size)
  local saved = {}
  for d = 1, #size do saved[d] = outer.size[d - 1] end
  for _, ending in ipairs { "npy", "h5" } do
    local name, inner = ("%d.%s"):format(case, ending), part_of(saved)
    celer.io.save(name, u, { box = outer, replace = ending == "h5" or nil })
    local s = q:wait(celer.io.load(name, { box = inner }))
    local at = { 0, 0, 0 }
    for d = 1, #size do at[d] = outer.min[d - 1] + inner.min[d - 1] end
    local function check(...)
      local i, j, k = ...
      local wanted = value(i and i + at[1], j and j + at[2], k and k + at[3])
      if s(...) ~= wanted then
        error(("%s: (%s) is %d, not %d"):format(name, table.concat({ ... }, ", "), s(...), wanted))
      end
    end
    local n = inner.size
    if #size == 0 then check() end
    for i = 0, #size > 0 and n[0] - 1 or -1 do
      if #size == 1 then check(i) end
      for j = 0, #size > 1 and n[1] - 1 or -1 do
        if #size == 2 then check(i, j) end
        for k = 0, #size > 2 and n[2] - 1 or -1 do check(i, j, k) end
      end
    end
  end
end
print "checked"]==]

describe("any box of any buffer", function()
  for i, shape in ipairs(ranks) do
    it("comes back from a file on " .. (shape.ranks or 1) .. " rank(s)", function()
      for seed = 1, 3 do
        assert.equal("checked\n", passes((random:gsub("SEED", 10 * i + seed)), shape))
      end
      os.execute("rm " .. folder .. "/*")
    end)
  end
end)

describe("PNG", function()
  it("is written and read", function()
    assert.equal("30\t20\t0\t51\t255\tbuffer p.png: uint8_t[20][30], 600 bytes\n", passes([[
local u = celer.buffer("float", { 40, 60 }, { init = function(i, j) return i + j / 100 end })
celer.io.save("p.png", u, { box = celer.box({ 10, 0 }, { 30, 30 }), min = 10, max = 20 })
local p = celer.io.load("p.png")
local row = celer.io.load("p.png", { box = celer.box({ 2, 0 }, { 3, 30 }) })
local s, r = q:wait(p, row)
print(p.size[1], p.size[0], s(0, 0), r(0, 0), s(19, 29), p)]], { ranks = 3 }))
    os.execute("rm " .. folder .. "/*")
  end)

  it("is written into folders that are made for it", function()
    passes([[
local u = celer.buffer("int", { 2, 2 }, { init = { 0, 1, 2, 3 } })
for _, ending in ipairs { "png", "npy", "h5" } do
  celer.io.save("new/" .. ending .. "//u." .. ending, u)
  q:wait()
  assert(q:wait(celer.io.load("new/" .. ending .. "/u." .. ending)).size[0] == 2)
end
celer.png("./drawn//deep/u.png", q:wait(u))]])
    os.execute("rm -r " .. folder .. "/*")
  end)

  it("has colours, by number or its own", function()
    assert.equal("1\t2\t255\t85,85,255\t170,0,86\t80,80,80\n7,8,9\t255,0,0\n", passes([[
local function pixel(s, i, j) return table.concat({ s(i, j, 0), s(i, j, 1), s(i, j, 2) }, ",") end
local u = celer.buffer("float", { 1, 4 }, { init = { -9, 0, 1.5, 0 / 0 } })
celer.io.save("u.png", u, { min = -1, max = 2, colors = { 0xffffff, 0x0000ff, 0xff0001 } })
local rgb = celer.buffer("uint8_t", { 2, 1, 3 }, { init = { 7, 8, 9, 255, 0, 0 } })
celer.io.save("rgb.png", rgb)
local s, r, gray = q:wait(celer.io.load("u.png", { colors = "rgb" }),
  celer.io.load("rgb.png", { colors = "rgb" }), celer.io.load("u.png"))
print(r.size[1], r.size[0], gray(0, 0), pixel(s, 0, 1), pixel(s, 0, 2), pixel(s, 0, 3))
print(pixel(r, 0, 0), pixel(r, 1, 0))]], { ranks = 2 }))
    os.execute("rm " .. folder .. "/*")
  end)
end)

describe("a file that cannot be", function()
  it("read is refused at the script's line", function()
    local function put(name, dict, data)
      scratch.write(folder .. "/" .. name .. ".npy", npy(dict, data))
    end
    put("fortran", "{'descr': '<f4', 'fortran_order': True, 'shape': (2, 2), }", ("x"):rep(16))
    put("swapped", "{'descr': '>f4', 'fortran_order': False, 'shape': (2,), }", ("x"):rep(8))
    put("text", "{'descr': '<U5', 'fortran_order': False, 'shape': (2,), }", ("x"):rep(40))
    put("deep", "{'descr': '<f4', 'fortran_order': False, 'shape': (1, 1, 1, 1), }", "1234")
    put("torn", "{'descr': '<f4', 'fortran_order': False, 'shape': (100,), }", "1234")
    put("good", "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 2), }", ("x"):rep(16))
    put("record", "{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (2,), }",
      ("x"):rep(8))
    put("pair", "{'descr': [('x', '<f8'), ('y', '<f8')], 'fortran_order': False, "
      .. "'shape': (2,), }", ("x"):rep(32))
    put("none", "{'descr': '<f4', 'shape': (2,), }")
    scratch.write(folder .. "/short.npy", "\147NUM")
    scratch.write(folder .. "/cut.npy", "\147NUMPY\1\0\255\1{'descr'")
    scratch.write(folder .. "/junk.npy", ("junk"):rep(20))
    scratch.write(folder .. "/junk.h5", ("junk"):rep(20))
    scratch.write(folder .. "/junk.png", ("junk"):rep(20))
    scratch.write(folder .. "/short.png", "\137PNG")
    scratch.write(folder .. "/cut.png", "\137PNG\r\n\26\n\0\0")
    assert.equal("checked\n", passes([[

local function refused(words, ...)
  local ok, message = pcall(celer.io.load, ...)
  if ok or not tostring(message):find("^case.lua:%d+: ") or not message:find(words, 1, true) then
    error(words .. ": " .. tostring(message), 2)
  end
end
refused("cannot read absent.npy: No such file or directory", "absent.npy")
refused("cannot read no/such/x.h5: No such file or directory", "no/such/x.h5")
refused("cannot read absent.png: No such file or directory", "absent.png")
refused("it is in Fortran order; save it with numpy.ascontiguousarray", "fortran.npy")
refused("cannot read swapped.npy: its elements '>f4' are byte-swapped on this machine",
  "swapped.npy")
refused("no element type is like its '<U5'", "text.npy")
refused("it has 4 dimensions; 3 are the most", "deep.npy")
refused("it has 132 bytes and should have 528; it was not written to its end", "torn.npy")
refused("its elements are structs, [('a', '<f4')]; give the type: {type = celer.struct(...)}",
  "record.npy")
refused("('y', '<f8')]; give the type: {type = \"double2\"}, or {type = celer.struct(...)}",
  "pair.npy")
assert(tostring(celer.io.load("pair.npy", { type = "double2" })):find("double2[2]", 1, true))
for _, name in ipairs { "short", "cut", "junk" } do refused("it is no NPY file", name .. ".npy") end
refused("it is no HDF5 file", "junk.h5")
for _, name in ipairs { "short", "junk" } do
  refused("cannot read " .. name .. ".png: it is no PNG file", name .. ".png")
end
refused("cannot read cut.png: ", "cut.png")
refused("celer.io.load: good.npy: dataset is for HDF5", "good.npy", { dataset = "u" })
refused("it holds '<f4' (float), not double, which is '<f8'", "good.npy", { type = "double" })
refused("it holds [('a', '<f4')], not rec", "record.npy", { type = celer.struct("rec", "int a;") })
refused("the box has 1 dimension, what it holds has 2", "good.npy",
  { box = celer.box({ 0 }, { 1 }) })
refused("the box [0, 2) x [1, 3) leaves what it holds, which is 2 x 2", "good.npy",
  { box = celer.box({ 0, 1 }, { 2, 3 }) })
refused("unknown option 'tpye', did you mean type?", "good.npy", { tpye = "float" })
refused("the name must end in .npy, .h5, .hdf5 or .png", "good.txt")
refused("the first argument must be a file name, not a number", 3)
refused("the box must be a celer.box, not a table", "good.npy", { box = { 0, 1 } })
print "checked"]], { ranks = 2 }))
    os.execute("rm " .. folder .. "/*")
  end)

  it("saved is refused at the script's line", function()
    assert.equal("checked\n", passes([[

local u = celer.buffer("float", { 4, 3 }, { name = "u", init = function() return 0 end })
local odd = celer.struct("odd", "int a : 3; int b : 5;")
local function refused(words, ...)
  local ok, message = pcall(celer.io.save, ...)
  if ok or not tostring(message):find("^case.lua:%d+: ") or not message:find(words, 1, true) then
    error(words .. ": " .. tostring(message), 2)
  end
end
refused("the second argument must be a buffer, not a number", "a.npy", 3)
refused("the name must end in", "a", u)
refused("the box [0, 5) x [0, 3) leaves buffer u, which is 4 x 3", "a.npy", u,
  celer.box({ 0, 0 }, { 5, 3 }))
refused("a.npy holds one buffer; an HDF5 file takes a table of them", "a.npy", { u = u })
refused("dataset u must be a buffer, a number, a string or a boolean, not a queue", "a.h5",
  { u = q })
refused("dataset must be a name, not an empty string", "a.h5", u, { dataset = "" })
refused("celer.io.save: a.npy: dataset is for HDF5", "a.npy", u, { dataset = "x" })
refused("unknown option 'dataset'", "a.png", u, { dataset = "x" })
refused("must be a buffer, not a snapshot", "a.npy", q:wait(u))
for _, name in ipairs { "a/", "/a", "a//b", "./a", "a/.", "a\0b" } do
  refused("names no dataset: words with single slashes", "a.h5", u, { dataset = name })
end
refused("dataset 'a/b' cannot lie in 'a', which is a dataset itself", "a.h5",
  { a = u, ["a/b"] = u })
refused("unknown option 'max'", "a.npy", u, { max = 3 })
refused("struct odd has fields that are not plain", "a.npy", celer.buffer(odd, { 3 }))
refused("struct odd has fields that are not plain", "a.h5", celer.buffer(odd, { 3 }))
refused("line has neither 2 dimensions, nor 3", "a.png",
  celer.buffer("int", { 3 }, { name = "line" }))
refused("neither 2 dimensions, nor 3", "a.png", celer.buffer("int", { 3, 3, 2 }))
refused("does not hold numbers", "a.png", celer.buffer("float2", { 3, 3 }))
refused("none has no point to draw", "a.png", celer.buffer("int", { 3, 0 }, { name = "none" }))
refused("u has no point to draw", "a.png", u, celer.box({ 1, 1 }, { 1, 2 }))
refused("has 8192 x 8193 points, more than 2^26; draw a part of it", "a.png",
  celer.buffer("char", { 8192, 8193 }))
refused("unknown colors 'virdis', did you mean viridis?", "a.png", u, { colors = "virdis" })
refused("a box in the list of colors is no color", "a.png", u,
  { colors = { 0, celer.box({}, {}) } })
refused("16777216 in the list of colors is no color", "a.png", u, { colors = { 2 ^ 24, 0 } })
refused("max must be a number, not a string", "a.png", u, { max = "3" })
local ok, message = pcall(q.submit, q, function() celer.io.save("a.npy", u) end)
if ok or not message:find("inside the function of a q:submit", 1, true) then error(message) end
u:free()
refused("the buffer u was freed", "a.npy", u)
print "checked"]], { ranks = 2 }))
    assert.equal("case.lua\n", names())
  end)

  local function fails(words, path, shape, prefix)
    local r = run("\n\nlocal u = celer.buffer('double', { 4000, 3 }, "
      .. "{ init = function(i, j) return math.sin(i * i + 7 * j) end })\n"
      .. ("celer.io.save(%q, u)\nq:wait()\nprint 'not here'"):format(path), shape, prefix)
    assert.matches("case.lua:4: cannot write " .. words, r.stderr)
    assert.equal(1, select(2, r.stderr:gsub("celer: ", "")), r.stderr)
    assert.equal("", r.stdout)
    assert.equal(1, r.status)
    assert.equal("", scratch.output("find " .. folder .. " -name '*.npy.*.part' -size +0"))
  end

  for _, shape in ipairs { {}, { ranks = 3 } } do
    it("written ends all ranks, on " .. (shape.ranks or 1) .. " rank(s)", function()
      os.execute("mkdir " .. folder .. "/taken.npy")
      for _, ending in ipairs { "npy", "h5", "png" } do
        fails("case.lua[^\n]*: Not a directory", "case.lua/x." .. ending, shape)
        fails("/sys/x." .. ending .. "[^\n]*: %u%l+", "/sys/x." .. ending, shape)
      end
      fails("taken.npy: it is a folder", "taken.npy", shape)
      os.execute("rm -r " .. folder .. "/*")
    end)

    it("written to its end ends all ranks, on " .. (shape.ranks or 1) .. " rank(s)", function()
      if os.execute("unshare -m true 2>/dev/null") ~= 0 then pending("needs a mount") end
      os.execute("mkdir " .. folder .. "/full")
      -- One rank gives the room back; of several, one may write once more after that.
      local left = shape.ranks and "" or 'find full -size +0 -name "x.npy*"; '
      for _, ending in ipairs { "npy", "h5", "png" } do
        fails(("full/x.%s[^\n]*: [^\n]*No space left on device"):format(ending),
          "full/x." .. ending, shape, "unshare -m sh -c 'mount -t tmpfs -o size=16k none full; "
          .. '"$@"; code=$?; ' .. left .. "exit $code\' sh")
      end
      os.execute("rm -r " .. folder .. "/*")
    end)
  end
end)
