-- exchanges.lua -- for the specs of what all ranks exchange: questions to the
-- commands of ranks.lua, and tasks that have something exchanged.
local assert = require("luassert")
local ffi = require("ffi")
local ranks = require("spec.command.ranks")
local program = require("spec.task.program")
local c = require("spec.support.cdef")("command/command.h")

local M = {}

-- The collectives of rank k for a task, as "pattern buffer@box, buffer@box".
function M.exchanges(r, k, task)
  local list = {}
  for i, command in ipairs(r:of(k, "collective", task)) do
    local x, boxes = command.raw.exchange, {}
    local pattern = ffi.string(c.cel_pattern_name(x.pattern))
    while x ~= nil do
      boxes[#boxes + 1] = ("%d@%s"):format(x.buffer.id, ranks.box_text(x.box, x.buffer.dims))
      x = x.next
    end
    list[i] = pattern .. " " .. table.concat(boxes, ", ")
  end
  return list
end

-- What rank k gives of the first box of the first one.
function M.mine(r, k, task)
  local x = r:of(k, "collective", task)[1].raw.exchange
  return ranks.box_text(x.mine, x.buffer.dims)
end

-- No rank sends anything for the task.
function M.silent(r, task)
  for k = 0, r.n - 1 do
    assert.same({}, r:messages(k, "push", task))
    assert.same({}, r:messages(k, "await_push", task))
  end
end

-- Nothing is large unless the configuration says so.
function M.new(n, config)
  config = config or {}
  config.collectives = true
  config.small_bytes = config.small_bytes or 2 ^ 50
  return ranks.new(n, config)
end

-- All ranks write their part of `u` in dimension d, or rank 0 all of it.
function M.write(r, u, n, placement)
  return r:submit({ range = { n }, placement = placement,
    { u, "discard_write", program.same(1) } })
end

function M.read_all(r, u, n)
  return r:submit({ range = { n }, { u, "read", program.all(1) } })
end

-- Rows, or columns with some of their neighbours, of a matrix.
function M.rows() return { { program.span(0), program.whole(1) } } end
function M.columns(more)
  return { { program.whole(0), program.span(0, -(more or 0), more or 0) } }
end

return M
