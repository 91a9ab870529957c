-- What a fold's launch computes, with blocks on the processor.
local k = require("spec.device.compile")
local celer = require("spec.support.celer")
local scratch = require("spec.support.scratch")

local KERNELS = [[
kernel void wave(item<2> it, inout<float, 2> up, in<float, 2> u, float c) {
  const int y = it[0], x = it[1], h = it.range(0), w = it.range(1);
  const float uy = u(min(y + 1, h - 1), x) + u(max(y - 1, 0), x);
  const float ux = u(y, min(x + 1, w - 1)) + u(y, max(x - 1, 0));
  if (up(y, x) > 1.75f) return;
  up(y, x) = 2 * u(y, x) - up(y, x) + c * (ux + uy - 4 * u(y, x));
}
kernel void open(item<2> it, in<float, 2> a, out<float, 2> b, float c) {
  const int y = it[0], x = it[1];
  b(y, x) = c * (a(y - 1, x) + a(y + 1, x) + a(y, x - 1) + a(y, x + 1)) - a(y, x) * 0.5f;
}
kernel void through(item<2> it, in<float, 2> a, out<float, 2> b, in<float, 2> by, float c) {
  const int y = it[0], x = it[1];
  if (by(x % 7, y % 5) > 1.5f) return;
  b(y, x) = c * (a(y - 1, x) + a(y + 1, x) + a(y, x - 1) + a(y, x + 1)) - a(y, x) * 0.5f;
}
kernel void uneven(item<2> it, in<float, 2> a, inout<float, 2> b, float c) {
  const int y = it[0], x = it[1], h = it.range(0), w = it.range(1);
  const float ys = a(max(y - 2, 0), x) + a(min(y + 1, h - 1), x);
  b(y, x) = c * (ys - a(y, max(x - 1, 0)) + a(y, min(x + 3, w - 1))) - b(y, x) + x - 0.5f * y;
}
kernel void flow(item<1> it, in<float, 1> a, out<float, 1> b, float c) {
  const int x = it[0], n = it.range(0);
  if (a(x) > 1.75f) return;
  b(x) = a(x) + c * (a(max(x - 2, 0)) + a(min(x + 1, n - 1)) - 2 * a(x)) * b(x);
}
kernel void first(item<2> it, in<float, 2> x, out<float, 2> y) {
  y(it[0], it[1]) = x(it[0], it[1]) * 3 + it[1];
}
kernel void second(item<2> it, in<float, 2> y, in<float, 2> x, out<float, 2> z) {
  const int i = it[0], j = it[1];
  if (x(i, j) > 0.5f) return;
  z(i, j) = y(i, j) - x(i, j);
}
kernel void third(item<2> it, in<float, 2> z, inout<float, 2> x) {
  x(it[0], it[1]) += z(it[0], it[1]);
}
kernel void total(item<2> it, in<float, 2> x, reducer<float> sum, in<float, 2> y,
                  reducer<double> squares) {
  sum += x(it[0], it[1]);
  squares += x(it[0], it[1]) * y(it[0], it[1]);
}
]]

local ROUND = [[
kernel void cross(item<2> it, inout<float, 2> b, near<float, 2> a, float c) {
  const int y = it[0], x = it[1];
  if (b(y, x) > 1.75f) return;
  const float ys = a(y - 2, x) + a(y + 1, x);
  b(y, x) = c * (ys - a(y, x - 1) + a(y, x + 2)) - b(y, x) + x * 0.01f - 0.5f * (y == 1);
}
kernel void corners(item<2> it, inout<float, 2> b, near<float, 2> a, near<float, 2> by, float c) {
  const int y = it[0], x = it[1];
  b(y, x) = c * (a(y - 2, x - 1) + a(y + 1, x + 2) - by(y + 2, x - 2)) - b(y, x) + y * 0.01f;
}
]]

describe("a fold's launch", function()
  local folder, program = scratch.folder(), nil
  setup(function()
    local host = assert(io.open("spec/kernels/fold_host.cc")):read("*a")
    scratch.write(folder .. "/unit.cpp", table.concat({
      '#include "spec/device/gpu_host.h"', "#define CELER_FOLD 1", "#define CELER_STREAM 1",
      "#define CELER_SHEET 1", k.header, k.embedded("near.cuh"),
      (k.embedded("reduce.cuh"):gsub("extern __shared__", "extern")), KERNELS, ROUND,
      (k.embedded("fold.cuh"):gsub("extern __shared__", "extern")),
      "#undef min\n#undef max\n", host,
    }, "\n"))
    program = folder .. "/unit"
    local command = ("%s -std=c++17 -O1 -ffp-contract=off -w -I. %s/unit.cpp -o %s"):format(
      os.getenv("CXX") or "c++", folder, program)
    assert(os.execute(command) == 0, command)
  end)

  local function run(...)
    return celer.exec({ program, ... })
  end

  for _, way in ipairs({ "tile", "stream", "sheet", "torus", "row", "chain", "sum" }) do
    it(("by %s has the bits of its steps, whatever its size"):format(way), function()
      local r = run(way)
      assert.equal("alike\n", r.stdout .. r.stderr)
    end)
  end

  local faults = { "tile 1", "tile 2", "stream 1", "stream 2", "sheet 1", "sheet 2", "torus 1",
    "torus 2", "row 1", "chain 1", "sum 1" }
  for _, fault in ipairs(faults) do
    it("is found to be wrong where it is: " .. fault, function()
      local r = run(fault:match("(%l+) (%d)"))
      assert.equal(3, r.status, r.stdout .. r.stderr)
    end)
  end
end)

describe("a fold's entry", function()
  local nvrtc = require("spec.device.cuda").no_nvrtc == nil
  local function margins(m) return ("(%d, %d, %d, %d), "):format(m, m, m, m) end
  local elements = "celer::fold_elements<celer::element<4, 4>, celer::element<4, 4>>"

  local function entry(macro, kernel, steps, m)
    local rows = macro == "CELER_SHEET" and "6, 16, true, " or ""
    local line = { macro, "(", m and margins(steps) or "", rows, elements }
    for s = 1, steps do
      local left = m and steps - s or 0
      local arrays = s % 2 == 1 and "0, 1" or "1, 0"
      line[#line + 1] = (", celer::step<CELER_KERNEL(%s), celer::margin<%d, %d, %d, %d>, %s>")
        :format(kernel, left, left, left, left, arrays)
    end
    line[#line + 1] = ")\n"
    return table.concat(line)
  end

  for _, case in ipairs({ { "CELER_TILE", "wave", 4, true }, { "CELER_FLOW", "wave", 4, true },
      { "CELER_FLOW", "open", 3, true }, { "CELER_SHEET", "wave", 2, true },
      { "CELER_CHAIN", "first", 2 } }) do
    it(("compiles for a GPU: %s of %d steps of %s"):format(case[1], case[3], case[2]), function()
      if not nvrtc then return pending("no NVRTC here") end
      local options = { "-DCELER_FOLD=1" }
      if case[1] == "CELER_FLOW" then options[2] = "-DCELER_STREAM=1" end
      if case[1] == "CELER_SHEET" then
        options[2], options[3] = "-DCELER_STREAM=1", "-DCELER_SHEET=1"
      end
      local kernels = KERNELS:match("^(.-)kernel void total") -- which takes reduce.cuh
      local made, _, why = k.check_cuda(
        kernels .. k.embedded("fold.cuh") .. entry(unpack(case)),
        { architecture = 90, options = options })
      assert.truthy(made, why)
    end)
  end
end)
