--- shrink.lua -- a function that fails, with all left out that it does not need for that.
local M = {}

local MOST = 400 -- functions that are tried

local function opens(line)
  return line:find "^%s*if .* then$" or line:find " do$" or line:find "^%s*do$"
    or line:find "^%s*repeat$"
end

local function closes(line) return line:find "^%s*end$" or line:find "^%s*until " end

-- The line that ends what begins at a line.
local function last_of(lines, first)
  if not opens(lines[first]) then return first end
  local depth = 0
  for k = first, #lines do
    if opens(lines[k]) then depth = depth + 1 end
    if closes(lines[k]) then depth = depth - 1 end
    if depth == 0 then return k end
  end
  return first
end

local function without(lines, gone)
  local out = {}
  for k, line in ipairs(lines) do
    if not gone(k) then out[#out + 1] = line end
  end
  return out
end

-- Without a statement, or with what stands in it alone. Gives a smaller function that fails; nil
-- if there is none.
local function without_lines(lines, try)
  for k = 1, #lines do
    local last = last_of(lines, k)
    local found = try(without(lines, function(j) return j >= k and j <= last end))
      or last > k and try(without(lines, function(j) return j == k or j == last end))
    if found then return found end
  end
end

-- With something simple in the place of an expression.
local function with_simple(lines, try)
  for k, line in ipairs(lines) do
    local candidates = {}
    local head = line:match "^(.- = )"
    if head then candidates[1] = head .. "1" end
    for at in line:gmatch "()%(" do
      local group = line:match("^%b()", at)
      if group and #group > 4 then
        for _, simple in ipairs { "(1)", "(i)" } do
          candidates[#candidates + 1] = line:sub(1, at - 1) .. simple .. line:sub(at + #group)
        end
      end
    end
    for _, candidate in ipairs(candidates) do
      if #candidate < #line then
        local other = { unpack(lines) }
        other[k] = candidate
        local found = try(other)
        if found then return found end
      end
    end
  end
end

--- The text of a function as small as it gets.
---@param dims integer
---@param text string
---@param fails fun(dims: integer, text: string): boolean?
---@return string
function M.shrink(dims, text, fails)
  local lines, tried = {}, 0
  for line in text:gmatch "[^\n]+" do lines[#lines + 1] = line end
  local function try(other)
    tried = tried + 1
    if tried > MOST then return nil end
    local ok, failed = pcall(fails, dims, table.concat(other, "\n"))
    return ok and failed and other or nil
  end
  while true do
    local smaller = without_lines(lines, try) or with_simple(lines, try)
    if not smaller then return table.concat(lines, "\n") end
    lines = smaller
  end
end

return M
