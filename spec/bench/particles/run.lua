--- run.lua -- examples with particles beside the same by hand, in turns: in C on one core, or in
--- CUDA C++ on one GPU.
---
---   luajit spec/bench/particles/run.lua [--gpu] [--repeat N] [name ...]
---
--- The C programs have the same algorithm and are compiled by the compiler of kernels, with its
--- flags; both programs have the same core (`taskset`). Those of CUDA are compiled by nvcc, or lie
--- compiled in the folder that CELER_BY_HAND names. From the root of the tree; CELER_BUILD names
--- the build (build/release). `ratio`: C's processor time of a step over that of all of celer's
--- threads, or on a GPU time on the clock, by the least that each had in any turn; target: at least
--- 0.8. The last line is JSON.
package.path = "./?.lua;" .. package.path
local cjson = require("cjson")
local celer = require("spec.support.celer")
local compile = require("spec.bench.compile")

local here = "spec/bench/particles/"

-- Name; the arguments of the example's short run and of its long one, and the steps between; those
-- of the program by hand.
local on_core = {
  { "molecules", "12,10", "12,40", 30, { 12, 40 } },
  { "plasma", "256,2000,2", "256,2000,6", 128, { 256, 2000, 6 } },
}
local on_gpu = { -- the short run also has LuaJIT compile what submits, which takes some 100 steps
  { "molecules", "12,100", "12,600", 500, { 12, 600 } },
  { "molecules", "40,100", "40,500", 400, { 40, 500 } },
  { "plasma", "256,2000,4", "256,2000,20", 512, { 256, 2000, 20 } },
  { "plasma", "16384,400,4", "16384,400,12", 256, { 16384, 400, 12 } },
  { "plasma", "65536,100,4", "65536,100,12", 256, { 65536, 100, 12 } },
}

local is_gpu, repeats, names = false, 3, {}
for i, word in ipairs(arg) do
  if word == "--repeat" then
    repeats = tonumber(arg[i + 1])
  elseif word == "--gpu" then
    is_gpu = true
  elseif not tonumber(word) then
    names[word] = true
  end
end

local function must(argv)
  if not is_gpu then
    for i, word in ipairs { "taskset", "-c", "1" } do table.insert(argv, i, word) end
  end
  local r = celer.exec(argv, { timeout = 600 })
  assert(r.status == 0, table.concat(argv, " ") .. "\n" .. r.stderr .. r.stdout)
  return cjson.decode((assert(r.stdout:match('{"seconds": [^\n]*}'), r.stdout)))
end

local folder = assert(io.popen("mktemp -d")):read("*l")

local function by_hand(name)
  local program = folder .. "/" .. name
  if not is_gpu then
    compile(program, here .. name .. ".c", { "-lm" })
  elseif os.getenv "CELER_BY_HAND" then
    program = os.getenv "CELER_BY_HAND" .. "/" .. name
  else
    local r = celer.exec({ "nvcc", "-O3", "-std=c++17", "-arch=native", "--extended-lambda", "-o",
      program, here .. name .. ".cu" }, { timeout = 600 })
    assert(r.status == 0, r.stderr)
  end
  return program
end

local rows = {}
print(("%-26s %14s %14s %8s"):format("us per step", is_gpu and "CUDA" or "C", "celer", "ratio"))
for _, b in ipairs(is_gpu and on_gpu or on_core) do
  if names[b[1]] or next(names) == nil then
    local program = by_hand(b[1])
    local hand, ours = math.huge, math.huge
    for _ = 1, repeats do
      local one = must { program, unpack(b[5]) }
      local mine = must { celer.command(), "run", "--backend", is_gpu and "cuda" or "cpu",
        "--devices", 1, "--advice", "off", here .. "example.lua", b[1], b[2], b[3], b[4] }
      assert(math.abs(one.result / mine.result - 1) < 1e-6, b[1] .. ": the results differ")
      hand, ours = math.min(hand, one.seconds), math.min(ours, mine[is_gpu and "wall" or "seconds"])
    end
    rows[#rows + 1] = { name = b[1], arguments = b[3], hand_us = hand * 1e6, celer_us = ours * 1e6,
      ratio = hand / ours, target = 0.8 }
    print(("%-26s %14.1f %14.1f %8.2f"):format(b[1] .. " " .. b[3], hand * 1e6, ours * 1e6,
      hand / ours))
  end
end
os.execute("rm -r '" .. folder .. "'")
print(cjson.encode { bench = "particles", rows = rows })
