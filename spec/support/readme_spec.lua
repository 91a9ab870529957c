-- What spec/README.md names is there.
local scratch = require("spec.support.scratch")

-- The text of a spec, with strings that are cut over lines whole again.
local function source(name)
  local text = scratch.look("spec/" .. name .. "_spec.lua")
  return text and text:gsub('"%s*%.%.%s*"', "")
end

describe("spec/README.md", function()
  local text = scratch.read("spec/README.md")

  it("names specs that are there", function()
    local n = 0
    for name, quoted in text:gmatch('`([%w_/]+)`( "[^`|]*)') do
      local spec = source(name)
      assert.is_string(spec, name)
      for words in quoted:gmatch('"([^"]+)"') do
        n = n + 1
        assert.is_truthy(spec:find(words, 1, true), name .. ": " .. words)
      end
    end
    assert.is_true(n > 100)
  end)

  it("shows each behaviour by a spec, or says why not", function()
    for row in text:match("\n## What is expected.*"):gmatch("\n(|[^\n]+)") do
      local what = row:match("^| ([^|]+) |")
      local shown = row:match('`[%w_/]+` "[^"]+"') or row:find("does not apply: ", 1, true)
      assert.is_truthy(shown or row:find("| shown by |", 1, true) or row:find("| --- |", 1, true),
        what)
    end
  end)
end)
