--- compare.lua -- random functions: kernels made of them against a reference evaluator and the
--- interpreter.
---
---   celer run spec/random/functions/compare.lua FIRST COUNT [BATCH [FAULT]]
---
--- Functions FIRST, FIRST + 1, ... are made each from its number, and compiled BATCH at a time,
--- which divides 200: of eight times 200 one as users' kernels are, the others quickly (case.lua).
--- A function that fails is printed with its number, and then as small as it can be made:
---
---   celer run spec/random/functions/compare.lua NUMBER 1
---
--- - The kernel computes what the evaluator does, to the last bit; also after captured numbers
---   have changed, without a compile.
--- - So does the interpreter, where there are no floats. With floats each element lies within the
---   bound that follows from its roundings (bounds.lua), or is undecided.
--- - What an item touches lies in the derived boxes of chunks made at random, and so do the boxes
---   of a chunk's parts. A box that is overwritten without having been read is overwritten
---   completely.
--- - What the interpreter refuses has to be refused as a kernel, too.
--- - A kernel that is compiled quickly does nothing that has no meaning in C++.
---
--- The last line is `N functions, N refused, N differ, N leave their boxes, N of N boxes are
--- tight`. With a FAULT (faults.lua) the compiler has that, which must be found.
jit.off() -- each function is another: compiling what interprets it takes longer than that
collectgarbage("setpause", 1000)

local celer = require "celer"
local case_of = require "case"
local faults = require "faults"
local shrink = require "shrink"
local sorted_pairs = require("celer.tables").sorted_pairs

local first, count, batch = tonumber(arg[1]) or 1, tonumber(arg[2]) or 50, tonumber(arg[3]) or 100
local fault = faults.plant(arg[4])

local totals = { functions = 0, refused = 0, differ = 0, leave = 0, boxes = 0, tight = 0,
  bounded = 0, undecided = 0 }
local reasons = {}

-- Fails in the same way.
local function fails(like, what)
  return function(dims, text)
    local case = case_of.new(like.is_record and 1 or 2, dims, text)
    case.quick, case.edge = like.quick, like.edge
    local failure = case_of.prepare(case)
    if not failure and case.variant then
      local ok, failures = pcall(case_of.compute, { case }, fault)
      failure = ok and failures[case]
    end
    return failure and failure.what == what
  end
end

local function report(case, failure)
  totals[failure.what] = totals[failure.what] + 1
  if totals[failure.what] > 3 then return end
  print(("function %d of %d dimensions: %s"):format(case.number, case.dims, failure.message))
  print(case.text)
  if fault.name then return end
  print "as small as it gets:"
  print(shrink.shrink(case.dims, case.text, fails(case, failure.what)))
end

local function flush(cases)
  local failures = case_of.compute(cases, fault)
  for _, case in ipairs(cases) do
    if failures[case] then report(case, failures[case]) end
  end
end

local cases = {}
for number = first, first + count - 1 do
  local case = case_of.new(number)
  local failure = case_of.prepare(case)
  if failure then
    report(case, failure)
  elseif case.variant then
    totals.functions = totals.functions + 1
    totals.bounded = totals.bounded + case.bounded
    totals.undecided = totals.undecided + case.undecided
    totals.boxes, totals.tight = totals.boxes + case.boxes, totals.tight + case.tight
    cases[#cases + 1] = case
  elseif case.refused then
    totals.refused = totals.refused + 1
    local reason = case.refused:gsub("^[^:]*:%d+: ", ""):gsub("%d+", "N"):gsub("'%w+'", "'...'")
    reasons[reason] = (reasons[reason] or 0) + 1
  end
  if (number + 1) % batch == 0 or number == first + count - 1 then
    flush(cases)
    cases = {}
    celer.wait()
  end
end
for reason, times in sorted_pairs(reasons) do
  print(("refused %d times: %s"):format(times, reason))
end
print(("%d elements with floats lie within their bounds, %d are undecided"):format(totals.bounded,
  totals.undecided))
print(("%d functions, %d refused, %d differ, %d leave their boxes, %d of %d boxes are tight")
  :format(totals.functions, totals.refused, totals.differ, totals.leave, totals.tight,
  totals.boxes))
