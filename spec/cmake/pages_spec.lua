-- Each folder of the engine has a page, which names what lies there.
local scratch = require("spec.support.scratch")

-- Whether a page has the name of a file, or of those that begin like it.
local function names(page, file)
  if page:find("%f[%w_]" .. file .. "%f[^%w_]") then return true end
  for prefix in page:gmatch "([%w_]+_)%*%.c" do
    if file:sub(1, #prefix) == prefix then return true end
  end
end

-- Whether a page leads to the page of a folder or of a room.
local function leads(page, folder)
  return page:find("](" .. folder .. ")", 1, true)
    or page:find("](" .. folder .. "/README.md)", 1, true)
end

describe("the page of", function()
  for folder in scratch.output("cd engine && find . -mindepth 1 -type d"):gmatch "%./([^\n]+)" do
    it(folder .. " names every file, and another page leads there", function()
      local page = scratch.read("engine/" .. folder .. "/README.md")
      for name in scratch.output("ls engine/" .. folder):gmatch "([%w_]+)%.[ch]\n" do
        assert.truthy(names(page, name), name .. " is not on its folder's page")
      end
      local above, room = folder:match "^(.*)/([^/]+)$"
      assert.truthy(leads(scratch.read("engine/README.md"), folder))
      if above then assert.truthy(leads(scratch.read("engine/" .. above .. "/README.md"), room)) end
    end)
  end
end)
