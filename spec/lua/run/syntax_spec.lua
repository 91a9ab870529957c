-- syntax.lua: what is said of a text that a ]] in it has ended early.
local syntax = require("celer.run.syntax")

local HINT = ": the text that [[ begins in line %d ends at the ]] in line %d; write [=[ ... ]=] "
  .. "around a text that holds ]]"

local function message(text)
  local chunk, why = syntax.load(text, "@x.lua")
  assert.is_nil(chunk)
  return why
end

describe("a mistake in Lua", function()
  for name, case in pairs {
    ["in the line of an index"] =
      { "local k = f [[\n  void g(int *a) { a[b[0]] = 3; }\n]]\n", 1, 2 },
    ["lines later"] =
      { "local a = [[x]]\nlocal k = f [[\n  a(b[c[i]]);\n\n\n  int x;\n]]\n", 2, 3 },
    ["behind quotes and comments"] = { [==[
-- don't [[
local s, t = "\\", 'a"[[\'' --[[ it's ]] local u = [=[ ]] ]=]
local k = f [[ a[b[0]] + 1; ]]
]==], 3, 3 },
  } do
    it("is put down to a ]] that ended a text: " .. name, function()
      local why = message(case[1])
      local _, bare = loadstring(case[1], "@x.lua")
      assert.equal(bare .. HINT:format(case[2], case[3]), why)
    end)
  end

  for name, text in pairs {
    ["without a text"] = "local x = = 3",
    ["before one"] = "local x = = 3\nlocal k = f [[ a[0] ]]",
    ["between two"] = "local k = f [[ a[0] ]]\nlocal x = = 3\nlocal l = f [[ a[0] ]]",
    ["behind the last"] = "local k = f [[ a[0] ]]\nlocal x = = 3\n",
    ["far from it"] = "local k = f [[ a[0] ]]\n\n\n\n\n\n\n\nlocal x = = t[u[1]]\n",
    ["within one that does not end"] = "local k = f [[ a[b[0] ]",
  } do
    it("is what Lua says it is: " .. name, function()
      assert.equal(select(2, loadstring(text, "@x.lua")), message(text))
    end)
  end
end)
