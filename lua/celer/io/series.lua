--- series.lua -- fields over time: one HDF5 file, and an XDMF file that says what is in it.
---
--- A step is added to the XDMF file where its end was, by a task that follows those which write
--- the HDF5 file. How many steps there are, which is said with every step, stands once, in the
--- file's head: as an entity of XML, always of the same length. So a step costs the same however
--- many there are, and the file is whole after each.
local buffers = require "celer.data.buffer"
local files = require "celer.io.files"
local order = require "celer.io.order"
local place = require "celer.place"
local placement = require "celer.submit.placement"
local submit = require "celer.io.submit"
local tables = require "celer.tables"
local tasks = require "celer.io.tasks"
local words = require "celer.words"

local M = {}

local fail = place.fail

---@class celer.series
---@field path string  of the HDF5 file
---@field extents integer[]?  of all fields, from the first step on
---@field fields {name: string, kind: string, bytes: integer}[]?
---@field steps integer  that have been added
---@field bytes integer  of the XDMF file, without its end
---@field origin number[]?
---@field spacing number[]?
local Series = {}
Series.__index = Series
Series.__tostring = function(self)
  return ("series %s of %d steps"):format(self.path, self.steps)
end

local KINDS = { f = "Float", i = "Int", u = "UInt" }

local function kind_of(type_)
  local kind = KINDS[type_.class]
  if type_.size == 1 then kind = kind == "Int" and "Char" or "UChar" end
  return kind
end

-- ---- the XDMF file ----------------------------------------------------------------------------

local HEAD = [[
<?xml version="1.0"?>
<!DOCTYPE Xdmf SYSTEM "Xdmf.dtd" [<!ENTITY steps "%-16d">]>
<Xdmf Version="2.0">
<Domain>
<Grid Name="series" GridType="Collection" CollectionType="Temporal">
]]

local STEP = [[
<Grid Name="step %d" GridType="Uniform">
<Time Value="%.17g"/>
<Topology TopologyType="3DCoRectMesh" Dimensions="%s"/>
<Geometry GeometryType="ORIGIN_DXDYDZ">
<DataItem Format="XML" Dimensions="3">%s</DataItem>
<DataItem Format="XML" Dimensions="3">%s</DataItem>
</Geometry>
]]

local FIELD = [[
<Attribute Name="%s" AttributeType="Scalar" Center="Node">
<DataItem ItemType="HyperSlab" Dimensions="%s">
<DataItem Format="XML" Dimensions="3 %d">%s</DataItem>
<DataItem Format="HDF" NumberType="%s" Precision="%d" Dimensions="%s">%s:/%s</DataItem>
</DataItem>
</Attribute>
]]

local END = [[
</Grid>
</Domain>
</Xdmf>
]]

local function escaped(text)
  return (text:gsub("[&<>\"]", { ["&"] = "&amp;", ["<"] = "&lt;", [">"] = "&gt;",
    ['"'] = "&quot;" }))
end

-- Three numbers from the first dimension to the last: a plane is one point thick.
local function three(list, missing)
  local out = {}
  for d = 1, 3 do out[d] = ("%.17g"):format(list[d - 3 + #list] or missing) end
  return table.concat(out, " ")
end

-- Which part of a dataset a step is: where it begins, every element, and how many.
local function part_of(step, extents)
  local n = #extents
  return ("%d%s%s 1 %s"):format(step, (" 0"):rep(n), (" 1"):rep(n + 1), table.concat(extents, " "))
end

local function step_text(self, step, time)
  local extents = self.extents
  local mesh, file = three(extents, 1), escaped(self.path:match "[^/]*$")
  local all = "&steps; " .. table.concat(extents, " ")
  local out = { STEP:format(step, time, mesh, three(self.origin or {}, 0),
    three(self.spacing or {}, 1)) }
  for _, field in ipairs(self.fields) do
    local name = escaped(field.name)
    out[#out + 1] = FIELD:format(name, mesh, #extents + 1, part_of(step, extents), field.kind,
      field.bytes, all, file, name)
  end
  out[#out + 1] = "</Grid>\n"
  return table.concat(out)
end

-- Adds the next step.
local function describe(self, time)
  local call = "celer.series"
  local path, at, slot = self.path:gsub("%.h5$", ".xdmf"), self.bytes, order.slot(self.path)
  local text, head = step_text(self, self.steps, time), HEAD:format(self.steps + 1)
  if at == 0 then at = #head end
  submit.task(call, "describe", function(cg)
    return placement.on_master, tasks.add_text, order.write(cg, slot), path, head, at, text .. END
  end)
  submit.finish(call, slot)
  self.steps, self.bytes = self.steps + 1, at + #text
end

-- ---- steps ------------------------------------------------------------------------------------

-- The fields of a step, which must be those of the first.
local function fields_of(fields)
  local out, first = {}, nil
  if type(fields) ~= "table" or getmetatable(fields) or not next(fields) then
    fail("series:add: the second argument must be a table of buffers by name, such as { u = u }, "
      .. "not %s", getmetatable(fields) and words.a(fields) or
      type(fields) == "table" and "an empty one" or words.a(fields))
  end
  for name, buffer in tables.sorted_pairs(fields) do
    if type(name) ~= "string" or name == "time" or name:find("/", 1, true) then
      fail("series:add: %s cannot be the name of a field", words.a(name))
    elseif not buffers.is_buffer(buffer) then
      fail("series:add: field %s must be a buffer, not %s", name, words.a(buffer))
    elseif buffer.dims < 2 or not KINDS[buffer.type.class] then
      fail("series:add: field %s must hold numbers, in 2 or 3 dimensions", name)
    end
    first = first or buffer
    for d = 1, 3 do
      if buffer.shape[d] ~= first.shape[d] then
        fail("series:add: field %s does not have the extents of the others", name)
      end
    end
    out[#out + 1] = { name = name, kind = kind_of(buffer.type), bytes = buffer.type.size }
  end
  return out, first.shape
end

local function check_same(self, fields, extents)
  local same = #fields == #self.fields and #extents == #self.extents
  for k, field in ipairs(self.fields) do
    same = same and fields[k].name == field.name and fields[k].kind == field.kind
      and fields[k].bytes == field.bytes
  end
  for d, n in ipairs(self.extents) do same = same and extents[d] == n end
  if not same then
    fail("series:add: names, types and extents of the fields must be those of the first step")
  end
end

--- Adds a step: buffers as they are now, and its time. Tasks that follow go on meanwhile.
---@param time number
---@param fields table<string, celer.buffer>
function Series:add(time, fields)
  if type(time) ~= "number" or time - time ~= 0 then
    fail("series:add: the first argument must be the time of the step, not %s",
      type(time) == "number" and tostring(time) or words.a(time))
  end
  local described, extents = fields_of(fields)
  if self.fields then
    check_same(self, described, extents)
  else
    self.fields, self.extents = described, extents
  end
  local datasets = { time = time }
  for name, buffer in pairs(fields) do datasets[name] = buffer end
  if self.steps == 0 then -- a file of this run
    files.save(self.path, {}, { attributes = { writer = "celer" }, replace = true })
  end
  files.save(self.path, datasets, { append = true })
  describe(self, time)
end

-- ---- a new one --------------------------------------------------------------------------------

local known = { origin = true, spacing = true }

--- A series of steps in the HDF5 file `path`, which ends in .h5, with an XDMF file beside it.
--- What another run left there goes.
---@param path string
---@param options? {origin: number[]?, spacing: number[]?}  for each dimension of the fields
---@return celer.series
function M.new(path, options)
  if type(path) ~= "string" or not path:find "[^/]%.h5$" then
    fail("celer.series: the first argument must be a file name that ends in .h5, not %s",
      type(path) == "string" and ("%q"):format(path) or words.a(path))
  end
  options = options == nil and {} or options
  words.check_options("celer.series", options, known)
  for name in pairs(known) do
    local list = options[name]
    for d = 1, list == nil and 0 or 3 do
      local x = type(list) == "table" and list[d] or nil
      if type(x) ~= "number" and (d < 3 or x ~= nil) then
        fail("celer.series: %s must be a list of numbers, one for each dimension", name)
      end
    end
  end
  return setmetatable({ path = path, steps = 0, bytes = 0,
    origin = options.origin, spacing = options.spacing }, Series)
end

return M
