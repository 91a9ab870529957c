-- Each folder of the engine has a page, which names what lies there.
local scratch = require("spec.support.scratch")

-- Whether a page has the name of a file, or of those that begin like it.
local function names(page, file)
  if page:find("%f[%w_]" .. file .. "%f[^%w_]") then return true end
  for prefix in page:gmatch "([%w_]+_)%*%.c" do
    if file:sub(1, #prefix) == prefix then return true end
  end
end

describe("the page of", function()
  for folder in scratch.output("cd engine && ls -d */"):gmatch "([^/\n]+)/" do
    it(folder .. " names every file, and leads from the engine's page", function()
      local page = scratch.read("engine/" .. folder .. "/README.md")
      for _, path in ipairs(scratch.files("engine/" .. folder, "%.[ch]$")) do
        local file = path:match "([%w_]+)%.[ch]$"
        assert.truthy(names(page, file), path .. " is not on its folder's page")
      end
      assert.truthy(scratch.read("engine/README.md"):find("](" .. folder .. ")", 1, true))
    end)
  end
end)
