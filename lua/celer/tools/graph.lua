--- graph.lua -- `celer graph`: one of a script's three graphs, as a drawing.
local core = require "celer.core"
local output = require "celer.run.output"
local queue = require "celer.submit.queue"
local settings = require "celer.settings"

local M = {}

local MOST = 1000 -- nodes that are drawn unless --nodes says otherwise

-- ---- the command line -------------------------------------------------------

-- Settings of a run that change what its graphs are.
local shared = { backend = true, devices = true, ["device-memory"] = true,
  ["horizon-step"] = true, fold = true, log = true }

--- What the command takes.
function M.add_options(graph)
  graph:usage "Usage: celer graph [options] script.lua [args...]"
  graph:argument("script", "a Lua file"):args(1)
  graph:argument("args", "what the script finds in `arg`; those that begin with - after --")
    :args("*")
  graph:option("--graph", "which: task (the default), command or instruction")
    :argname("GRAPH"):target("which"):choices { "task", "command", "instruction" }:default("task")
    :show_default(false)
  graph:option("--ranks", "as if it ran on N ranks; 1 by default"):argname("N")
  graph:option("--rank", "whose graph: 0 by default"):argname("K")
  graph:option("-o", "where it goes: DOT to stdout by default, or to FILE.dot; "
    .. "another ending is a format of Graphviz: FILE.svg, FILE.pdf"):argname("FILE"):target("out")
  graph:option("--nodes", ("the first N nodes are drawn; %d by default"):format(MOST))
    :argname("N")
  for _, setting in ipairs(settings.list) do
    if shared[setting.name] then
      graph:option("--" .. setting.name, setting.text):argname(setting.value)
        :target(setting.name)
    end
  end
end

local function whole(options, name, low, high, default)
  local value = options[name]
  if not value then return default end
  local n = tonumber(value)
  if n and n % 1 == 0 and n >= low and n <= high then return n end
  return nil, ("--%s must be a whole number from %d to %d, not %q"):format(name, low, high,
    value)
end

local function has_dot() return os.execute("command -v dot >/dev/null 2>&1") == 0 end

-- The format that a file's name asks Graphviz for, or nil: none. Or nil and why
-- not.
local function format_of(path)
  local ending = path and path:match("%.(%w+)$")
  if not path or ending == "dot" or ending == "gv" then return nil end
  if not ending then
    return nil, ("-o %s: end the name in .dot, or for Graphviz in .svg or .pdf"):format(path)
  elseif not has_dot() then
    return nil, ("-o %s needs Graphviz, whose command dot is not found here: install it, "
      .. "or end the name in .dot"):format(path)
  end
  return ending
end

--- What is to be drawn, for settings.resolve and M.begin: where no launcher has
--- started several ranks they are imagined, and nothing is executed. Nil and a
--- message for what is wrong.
---@param options table  as parsed; gets what a dry run needs
---@return {ranks: integer, rank: integer, most: integer, format: string?}?, string?
function M.resolve(options)
  local launched = core.launched()
  local _, started = core.rank()
  local ranks, why = whole(options, "ranks", 1, 2 ^ 24, started)
  if not ranks then return nil, why end
  if launched and ranks ~= started then
    return nil, ("--ranks %d: %d were started; without mpirun or srun any number is "
      .. "imagined"):format(ranks, started)
  end
  if options.rank and not options.ranks and not launched then
    return nil, "--rank goes with --ranks N"
  end
  local rank, fault = whole(options, "rank", 0, ranks - 1, 0)
  local most, many = whole(options, "nodes", 1, 1000000, MOST)
  local format, lacking = format_of(options.out)
  if fault or many or lacking then return nil, fault or many or lacking end
  if not launched then
    options["dry-run"], options["as-rank"] = ranks, rank
  end
  return { ranks = ranks, rank = rank, most = most, format = format, graph = options.which,
    out = options.out, script = options.script }
end

-- ---- the drawing ------------------------------------------------------------

local colors = { kernel = "#cfe8cf", execute = "#cfe8cf", host = "#fff0c2",
  copy = "#d5e3f5", init = "#d5e3f5", push = "#f5d9d0", send = "#f5d9d0",
  await_push = "#f9e6df", receive = "#f9e6df", collective = "#ead9f2",
  horizon = "#dddddd", epoch = "#cccccc" }

-- What lies behind an edge: data, or that something is overwritten, or order alone.
local styles = { ["true"] = "", anti = " [style=dashed]", output = " [style=dotted]",
  order = ' [color="#aaaaaa"]' }
-- In any order, but never at the same time.
local apart = ' [dir=none, color="#d04030", constraint=false]'

local function quoted(text) return '"' .. text:gsub('[\\"]', "\\%0") .. '"' end

-- Lines of a label, which dot aligns left.
local function label(lines)
  local out = {}
  for i, line in ipairs(lines) do out[i] = line:gsub('[\\"]', "\\%0") .. "\\l" end
  return '"' .. table.concat(out) .. '"'
end

local function place_of(node)
  if not node.file then return nil end
  local from = node.callers and ", called from " .. node.callers or ""
  return ("%s:%d%s"):format(node.file, node.line, from)
end

-- `boxed`: the box says what its task is.
local function node_line(node, letter, boxed)
  local lines = { ("%s%.0f %s"):format(letter, node.id, node.kind) }
  if node.name and not boxed then lines[1] = lines[1] .. " " .. node.name end
  for line in node.text:gmatch("[^\n]+") do lines[#lines + 1] = line end
  if not boxed then lines[#lines + 1] = place_of(node) end
  return ("n%.0f [label=%s, fillcolor=%q];"):format(node.id, label(lines),
    colors[node.kind] or "#ffffff")
end

-- Nodes of each task in a box of their own.
local function add_boxes(out, nodes, letter)
  local tasks, order = {}, {}
  for _, node in ipairs(nodes) do
    if not tasks[node.task] then
      tasks[node.task] = {}
      order[#order + 1] = node.task
    end
    table.insert(tasks[node.task], node)
  end
  for _, task in ipairs(order) do
    local first = tasks[task][1]
    local boxed = task > 0 and first.name
    if boxed then
      out[#out + 1] = ("subgraph cluster_%.0f {"):format(task)
      out[#out + 1] = ("label=%s;"):format(label { ("T%.0f %s"):format(task, first.name),
        place_of(first) })
    end
    for _, node in ipairs(tasks[task]) do out[#out + 1] = node_line(node, letter, boxed) end
    if boxed then out[#out + 1] = "}" end
  end
end

local function add_edges(out, nodes)
  local known = {}
  for _, node in ipairs(nodes) do known[node.id] = true end
  for _, node in ipairs(nodes) do
    for _, dep in ipairs(node.after) do
      if known[dep.id] then
        out[#out + 1] = ("n%.0f -> n%.0f%s;"):format(dep.id, node.id, styles[dep.kind])
      end
    end
    for _, id in ipairs(node.excludes) do
      out[#out + 1] = ("n%.0f -> n%.0f%s;"):format(id, node.id, apart)
    end
  end
end

--- DOT of what core.drawn gives.
---@param nodes table[]
---@param what {graph: string, rank: integer, ranks: integer, script: string}
---@return string
function M.dot(nodes, what)
  local letter = what.graph:sub(1, 1):upper()
  local whose = what.graph == "task" and "" or (" of rank %d of %d"):format(what.rank, what.ranks)
  local out = {
    "digraph celer {",
    ("label=%s;"):format(quoted(("%s: %s graph%s"):format(what.script, what.graph, whose))),
    'labelloc=t; fontname="sans-serif"; fontsize=11;',
    'node [shape=box, style="filled,rounded", fontname="sans-serif", fontsize=10];',
    'edge [arrowsize=0.7];',
  }
  if what.graph == "task" then
    for _, node in ipairs(nodes) do out[#out + 1] = node_line(node, letter) end
  else
    add_boxes(out, nodes, letter)
  end
  add_edges(out, nodes)
  out[#out + 1] = "}"
  return table.concat(out, "\n") .. "\n"
end

-- ---- the run ----------------------------------------------------------------

local function write(path, text)
  local ok, message = output.write_file(path, text)
  if not ok then error({ message = "-o " .. message }, 0) end
end

local function shell(word) return "'" .. word:gsub("'", "'\\''") .. "'" end

-- By Graphviz.
local function convert(what, text)
  local path = os.tmpname()
  core.leftover(path)
  write(path, text)
  local status = os.execute(("dot -T%s -o %s %s"):format(what.format, shell(what.out), path))
  os.remove(path)
  core.not_left(path)
  if status ~= 0 then
    error({ message = ("-o %s: Graphviz could not draw it"):format(what.out) }, 0)
  end
end

-- A loop may wait for what nothing brings, as nothing is executed.
local function end_with_the_last_node()
  local ended = false
  queue.watch(function()
    if ended or not core.drawn_all() then return end
    ended = true
    os.exit(0)
  end)
  return function() return ended end
end

local function never() return false end

--- Has the engine keep its nodes, before it runs; gives what is to be called at
--- the end, when nothing is under way.
---@param what table  M.resolve's
---@return fun()
function M.begin(what)
  local rank = core.rank()
  local to_stdout = output.aside(core.launched() and rank or 0)
  if rank ~= what.rank then return function() end end
  core.draw(what.graph, what.most)
  local has_ended = core.dry() and end_with_the_last_node() or never
  return function()
    local nodes, left_out = core.drawn()
    local text = M.dot(nodes, what)
    if what.format then convert(what, text)
    elseif what.out then write(what.out, text)
    else to_stdout(text) end
    if has_ended() then
      io.stderr:write(("celer: warning: the first %d nodes of the graph are drawn, and the "
        .. "script was ended where it went on; --nodes N draws more\n"):format(#nodes))
    elseif left_out > 0 then
      io.stderr:write(("celer: warning: the graph has %.0f nodes, of which the first %d are "
        .. "drawn; --nodes N draws more\n"):format(#nodes + left_out, #nodes))
    end
  end
end

return M
