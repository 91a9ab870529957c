-- Each folder of the engine has a page, which names what lies there.
local function lines(command)
  local pipe = assert(io.popen(command))
  local out = {}
  for line in pipe:lines() do out[#out + 1] = line end
  pipe:close()
  return out
end

local function read(path)
  local file = assert(io.open(path), path .. " is missing")
  local text = file:read "*a"
  file:close()
  return text
end

-- Whether a page has the name of a file, or of those that begin like it.
local function names(page, file)
  if page:find("%f[%w_]" .. file .. "%f[^%w_]") then return true end
  for prefix in page:gmatch "([%w_]+_)%*%.c" do
    if file:sub(1, #prefix) == prefix then return true end
  end
end

describe("the page of", function()
  for _, folder in ipairs(lines "cd engine && ls -d */ | tr -d /") do
    it(folder .. " names every file, and leads from the engine's page", function()
      local page = read("engine/" .. folder .. "/README.md")
      for _, path in ipairs(lines("ls engine/" .. folder .. "/*.[ch]")) do
        local file = path:match "([%w_]+)%.[ch]$"
        assert.truthy(names(page, file), path .. " is not on its folder's page")
      end
      assert.truthy(read("engine/README.md"):find("](" .. folder .. ")", 1, true))
    end)
  end
end)
