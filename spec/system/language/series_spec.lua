-- Fields over time in an HDF5 file, which its XDMF file describes.
local celer = require("spec.support.celer")
local scratch = require("spec.support.scratch")

local folder
setup(function() folder = scratch.folder() end)
teardown(function() os.execute("rm -rf " .. folder) end)

local function run(text, ranks)
  scratch.write(folder .. "/case.lua", "local celer = require 'celer'\n" .. text)
  return celer.run({ "run", "case.lua" }, { ranks = ranks, cwd = folder })
end

-- The elements of an XML text, in order: tag, attributes, what stands inside, and the one
-- around it. Tags must match.
local function elements(text)
  local out, open = {}, {}
  for slash, tag, rest, last, inside in text:gmatch "<(/?)(%w+)(.-)(/?)>([^<]*)" do
    if slash == "/" then
      assert.equal(tag, table.remove(open).tag)
    else
      local element = { tag = tag, inside = inside, parent = open[#open] }
      for name, value in rest:gmatch '(%w+)="(.-)"' do element[name] = value end
      out[#out + 1] = element
      if last ~= "/" then open[#open + 1] = element end
    end
  end
  assert.equal(0, #open)
  return out
end

local function numbers(text)
  local out = {}
  for word in text:gmatch "%S+" do out[#out + 1] = tonumber(word) end
  return out
end

local function product(list)
  local n = 1
  for _, x in ipairs(list) do n = n * x end
  return n
end

-- What a reader of the XDMF file finds: by step its time, the mesh, and by field the numbers.
local function read(path)
  local steps, field = {}, nil
  local xml = scratch.read(path)
  local count = xml:match '<!ENTITY steps "(%d+) *">'
  xml = xml:gsub("<!DOCTYPE [^%]]*%]>", ""):gsub("<[?!].->", ""):gsub("&steps;", count)
  for _, e in ipairs(elements(xml)) do
    local step = steps[#steps]
    if e.tag == "Grid" and e.GridType == "Uniform" then
      steps[#steps + 1] = { fields = {} }
    elseif e.tag == "Time" then
      step.time = tonumber(e.Value)
    elseif e.tag == "Topology" then
      step.mesh = e.Dimensions
    elseif e.tag == "Attribute" then
      field = { name = e.Name }
      step.fields[e.Name] = field
    elseif e.tag == "DataItem" and e.parent.tag == "Geometry" then
      step[step.origin and "spacing" or "origin"] = e.inside
    elseif e.tag == "DataItem" and e.Format == "XML" then
      local slab, n = numbers(e.inside), tonumber(e.Dimensions:match "^3 (%d)$")
      assert.equal(3 * n, #slab)
      field.start = table.concat(slab, ",", 1, n)
      field.count = table.concat(slab, ",", 2 * n + 1)
      assert.equal(product(numbers(step.mesh)), product { unpack(slab, 2 * n + 1) })
    elseif e.tag == "DataItem" and e.Format == "HDF" then
      local file, name = e.inside:match "^(.*):/(.*)$"
      field.type = e.NumberType .. e.Precision
      field.shape = e.Dimensions
      local pipe = assert(io.popen(("cd %s && h5dump -y -w 1 -d %s -s %s -c %s %s"):format(folder,
        name, field.start, field.count, file)))
      local text = pipe:read "*a"
      pipe:close()
      field.on_disk = text:match "DATASPACE  SIMPLE { %( ([%d, ]+) %)":gsub(",", "")
      field.values = numbers((text:match "DATA {(.-)}":gsub(",", " ")))
    end
  end
  return steps
end

describe("a series", function()
  for _, ranks in ipairs { 1, 3 } do
    it("is described as it lies in its file, and begins anew, on ranks: " .. ranks, function()
      if not celer.has_hdf5() then return pending("needs libhdf5-openmpi-dev") end
      local text = [[
local u = celer.buffer("float", { 3, 4 }, { init = function(y, x) return 10 * y + x end })
local v = celer.buffer("int", { 3, 4 }, { init = 7 })
local add = celer.kernel(function(y, x, u) u[y][x] = u[y][x] + 100 end)
local film = celer.series("new/film.h5", { origin = { -1, 2 }, spacing = { 0.5, 0.25 } })
for step = 1, STEPS do
  film:add(step / 4, { u = u, v = v })
  add({ 3, 4 }, u)
end
print(film)]]
      for _, steps in ipairs { 4, 3 } do
        local r = run(text:gsub("STEPS", steps), ranks)
        assert.equal("", r.stderr)
        assert.equal(("series new/film.h5 of %d steps\n"):format(steps), r.stdout:match "[^\n]*\n")
      end
      os.execute(("cp %s/new/film.h5 %s"):format(folder, folder))
      local steps = read(folder .. "/new/film.xdmf")
      assert.equal(3, #steps)
      for k, step in ipairs(steps) do
        assert.equal(k / 4, step.time)
        assert.same({ "1 3 4", "0 -1 2", "1 0.5 0.25" }, { step.mesh, step.origin, step.spacing })
        local want = {}
        for y = 0, 2 do
          for x = 0, 3 do want[#want + 1] = 10 * y + x + 100 * (k - 1) end
        end
        assert.same(want, step.fields.u.values)
        assert.same({ "Float4", "Int4" }, { step.fields.u.type, step.fields.v.type })
        assert.equal(7, step.fields.v.values[12])
        assert.same({ "3 3 4", "3 3 4" }, { step.fields.u.shape, step.fields.u.on_disk })
      end
    end)
  end

  it("costs the same however many steps there are, and is whole after each", function()
    if not celer.has_hdf5() then return pending("needs libhdf5-openmpi-dev") end
    local r = run [[
local u = celer.buffer("float", { 2, 2 }, { init = 0 })
local film = celer.series "long.h5"
local function file() return io.open("long.xdmf"):read "*a" end
local first
for step = 1, 12 do
  film:add(step, { u = u })
  celer.queue():wait()
  local text, kept = file(), first or ""
  local _, grids = text:gsub("<Time ", "")
  local is_whole = text:find("</Xdmf>\n$") and text:find(('"%d '):format(step), 1, true)
  first = text:match("<Domain>.*</Grid>\n</Grid>\n</Domain>"):sub(1, -#"</Grid>\n</Domain>" - 1)
  print(step, grids, is_whole ~= nil, first:sub(1, #kept) == kept)
end]]
    assert.equal("", r.stderr)
    for step = 1, 12 do
      assert.truthy(r.stdout:find(("%d\t%d\ttrue\ttrue\n"):format(step, step), 1, true), r.stdout)
    end
  end)

  it("holds fields in 3 dimensions", function()
    if not celer.has_hdf5() then return pending("needs libhdf5-openmpi-dev") end
    local r = run [[
local film = celer.series "solid.h5"
local function init(z, y, x) return 100 * z + 10 * y + x end
local u = celer.buffer("uint8_t", { 2, 3, 2 }, { init = init })
film:add(0, { u = u })
film:add(1e-3, { u = u })]]
    assert.equal("", r.stderr)
    local steps = read(folder .. "/solid.xdmf")
    assert.same({ 2, "2 3 2", 1e-3, "UChar1" },
      { #steps, steps[1].mesh, steps[2].time, steps[2].fields.u.type })
    assert.same({ 0, 1, 10, 11, 20, 21, 100, 101, 110, 111, 120, 121 }, steps[2].fields.u.values)
  end)

  it("refuses what it cannot hold", function()
    if not celer.has_hdf5() then return pending("needs libhdf5-openmpi-dev") end
    for text, message in pairs {
      ["celer.series 'a.png'"] = 'the first argument must be a file name that ends in '
        .. '.h5, not "a.png"',
      ["celer.series('a.h5', { spacing = 3 })"] = "spacing must be a list of numbers",
      ["f:add('x', { u = u })"] = "the first argument must be the time of the step, not a string",
      ["f:add(0, {})"] = "must be a table of buffers by name, such as { u = u }, not an empty one",
      ["f:add(0, u)"] = "must be a table of buffers by name, such as { u = u }, not a buffer",
      ["f:add(0, { time = u })"] = "cannot be the name of a field",
      ["f:add(0, { u = 3 })"] = "field u must be a buffer, not a number",
      ["f:add(0, { w = w })"] = "field w must hold numbers, in 2 or 3 dimensions",
      ["f:add(0, { u = u, v = v })"] = "field v does not have the extents of the others",
      ["f:add(0, { u = u }) f:add(1, { u = v })"] = "must be those of the first step",
    } do
      local r = run([[
local function int(extents) return celer.buffer("int", extents, { init = 0 }) end
local f, u, v, w = celer.series "f.h5", int { 2, 2 }, int { 2, 3 }, int(2)
]] .. text)
      assert.equal(1, r.status, text)
      assert.truthy(r.stderr:find("celer: case.lua:4: ", 1, true), r.stderr)
      assert.truthy(r.stderr:find(message, 1, true), r.stderr)
    end
  end)
end)
