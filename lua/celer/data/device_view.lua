--- device_view.lua -- part of a buffer in a GPU's memory, for an interop task.
---
--- Lua cannot touch what is there; it has bounds, and a pointer for libraries.
local place = require "celer.place"
local view = require "celer.data.view"

---@class celer.device_view
---@field name string  the buffer's, for messages
---@field dims integer
---@field type celer.type
---@field min table<integer, integer>  first coordinates, indexed from 0
---@field max table<integer, integer>  one past the last
---@field size table<integer, integer>
local DeviceView = { __noun = "view of a GPU's memory" }
local M = {}

local function refuse(self)
  place.fail("%s is in the memory of GPU %d here, where Lua cannot read or write "
    .. "elements; give %s:pointer() to a library, or use a host task",
    rawget(self, "name"), rawget(self, "device"), rawget(self, "name"))
end

DeviceView.__call, DeviceView.__newindex = refuse, refuse
DeviceView.set, DeviceView.string = refuse, refuse

--- As a host task's, but the address is one of the GPU.
---@return ffi.cdata* pointer, integer? ...  distances
function DeviceView:pointer()
  place.method(self, DeviceView, "view:pointer")
  return view.pointer(self)
end

--- As a host task's, of the GPU's memory.
---@return celer.window
function DeviceView:window()
  place.method(self, DeviceView, "view:window")
  return view.window(self)
end

function DeviceView:__index(key)
  if type(key) == "number" then refuse(self) end
  if key == "size" then return self.box.size end
  return DeviceView[key]
end

function DeviceView:__tostring()
  return ("%s: %s %s on GPU %d"):format(self.name, self.type.name, tostring(self.box),
    self.device)
end

DeviceView.__capture = view.View.__capture

--- `v` as a view of memory of the device with this number; it is changed.
---@param v celer.view
---@param device integer
---@return celer.device_view
function M.of(v, device)
  rawset(v, "device", device) -- a plain one would be an element
  return setmetatable(v, DeviceView)
end

return M
