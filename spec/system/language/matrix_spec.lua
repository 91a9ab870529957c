-- Sparse matrices in files of the Matrix Market.
local scratch = require("spec.support.scratch")
local script = require("spec.support.script")

local REAL = "%%MatrixMarket matrix coordinate real general\n"

-- What reading such a text prints, or says.
local function read(text, more)
  local path = scratch.path ".mtx"
  scratch.write(path, text)
  return script.run(("local m = celer.matrix.read(%q)\n"):format(path) .. (more
    or "print(m.rows, m.columns, table.concat(m.ptr, ' '), table.concat(m.col, ' '), "
    .. "table.concat(m.val, ' '))"), { devices = 1 }), path
end

describe("celer.matrix", function()
  local function reads(want, text)
    local r = read(text)
    assert.equal("", r.stderr)
    assert.equal(want, r.stdout)
  end

  it("reads general, symmetric and skew-symmetric ones, and patterns", function()
    reads("2\t3\t0 2 3\t0 2 1\t1.5 -2 3\n",
      REAL .. "% a comment\n\n2 3 3\n2 2 3\n1 3 -2e0\n1 1 1.5")
    reads("2\t2\t0 2 3\t0 1 0\t4 7 7\n",
      "%%MatrixMarket matrix coordinate integer symmetric\r\n2 2 2\r\n1 1 4\r\n2 1 7\r\n")
    reads("2\t2\t0 1 2\t1 0\t-7 7\n",
      "%%MatrixMarket MATRIX Coordinate Real Skew-Symmetric\n2 2 1\n2 1 7\n")
    reads("3\t2\t0 0 1 1\t0\t1\n", "%%MatrixMarket matrix coordinate pattern general\n3 2 1\n2 1\n")
    reads("0\t0\t0\t\t\n", REAL .. "0 0 0\n")
  end)

  it("adds entries of one place", function()
    reads("1\t3\t0 2\t0 2\t4 5\n", REAL .. "1 3 4\n1 3 2\n1 1 4\n1 3 2\n1 3 1\n")
  end)

  it("says in which line a file is wrong", function()
    for _, case in ipairs {
      { "", "line 1: it must begin with %%%%MatrixMarket" },
      { "%%MatrixMarket matrix array real general\n2 2\n", "line 1: the matrix is array" },
      { "%%MatrixMarket matrix coordinate complex general\n1 1 0\n",
        "line 1: its values are complex" },
      { "%%MatrixMarket matrix coordinate real hermitian\n1 1 0\n", "line 1: it is hermitian" },
      { REAL, "it must say how many rows" },
      { REAL .. "2 2\n", "line 2: it must say how many rows" },
      { REAL .. "2 2 2\n1 1 1\n", "it ends with 1 entries missing" },
      { REAL .. "2 2 1\n1 1 1\n2 2 1\n", "line 4: there are more entries" },
      { REAL .. "2 2 1\n1 3 1\n", "line 3: column 3 is none from 1 to 2" },
      { REAL .. "2 2 1\n0 1 1\n", "line 3: row 0 is none from 1 to 2" },
      { REAL .. "2 2 1\n1 1\n", "line 3: an entry has a row and a column, and a number" },
      { REAL .. "2 2 1\n1 1 x\n", "line 3: x is no number" },
      { REAL .. "90000 90000 4000000000\n", "line 2: that is more than 2%^31" },
    } do
      local r, path = read(case[1])
      assert.equal(1, r.status, case[2])
      assert.truthy(r.stderr:find("cannot read " .. path .. ": ", 1, true), r.stderr)
      assert.matches(case[2], r.stderr)
    end
  end)

  it("says what is wrong with what is to be written", function()
    local r = script.run([[
local function try(...) print((select(2, pcall(celer.matrix.write, ...)))) end
local good = { ptr = { 0, 1 }, col = { 0 }, val = { 1 } }
try(nil, good)
try("x.mtx", 3)
try("x.mtx", { ptr = { 0, 1 }, col = { 0 } })
try("x.mtx", { ptr = { 0, 2 }, col = { 0 }, val = { 1 } })
try("x.mtx", { ptr = { 0, 1 }, col = { 1 }, val = { 1 } })
try("x.mtx", { ptr = { 0, 2, 1, 2 }, col = { 0, 1 }, val = { 1, 1 } })
try("/proc/none/x.mtx", good)
]], { devices = 1 })
    local wants = { "must be a file name", "must be a table with ptr, col and val",
      "needs val, a list", "col 1 and val 1", "col%[0%] is 1", "ptr%[2%] is less", "cannot" }
    local k = 0
    for line in r.stdout:gmatch "[^\n]+" do
      k = k + 1
      assert.matches("case.lua:%d+: .*" .. wants[k], line)
    end
    assert.equal(#wants, k)
  end)

  -- Bands, scrambled meshes and Kronecker graphs, from buffers to a file and back.
  script.everywhere("writes what it reads again, to the bit", [==[
local n, folder = 60, arg[0]:match "^(.*)/"
local function pattern(kind, i, k)
  if kind == "band" then return (i + k) % n end
  if kind == "mesh" then return k == 4 and i * 7919 % n or (i + 3 * k) % n end
  return math.floor(i / 2 ^ k) * (k + 1) % n
end
for _, kind in ipairs { "band", "mesh", "kronecker" } do
  local ptr, col, val = { 0 }, {}, {}
  for i = 0, n - 1 do
    local row = {}
    for k = 0, 4 do row[pattern(kind, i, k)] = (i + k) / 7 - 3 end
    for j, x in celer.sorted_pairs(row) do col[#col + 1], val[#val + 1] = j, x end
    ptr[i + 2] = #col
  end
  local function buffers(m)
    local entries = #m.col
    return celer.buffer("int", n + 1, { init = m.ptr }),
      celer.buffer("int", entries, { init = m.col }),
      celer.buffer("double", entries, { init = m.val })
  end
  local P, C, V = buffers { ptr = ptr, col = col, val = val }
  local x = celer.buffer("double", n, { init = function(i) return i * i % 13 / 11 end })
  local y, z = celer.buffer("double", n), celer.buffer("double", n)
  celer.spmv(y, P, C, V, x)
  local p, c, v = q:wait(P, C, V)
  celer.matrix.write(folder .. "/" .. kind .. ".mtx", { ptr = p, col = c, val = v })
  q:submit(function(cg) -- others read once it is there
    cg:host_task(celer.collective(), function(part) part.comm:barrier() end)
  end)
  q:wait()
  local m = celer.matrix.read(folder .. "/" .. kind .. ".mtx")
  same("rows", m.rows, n)
  same("columns", table.concat(m.col, " "), table.concat(col, " "))
  local P2, C2, V2 = buffers(m)
  celer.spmv(z, P2, C2, V2, x)
  local a, b = q:wait(y, z)
  for i = 0, n - 1 do same("element", b(i), a(i)) end
end
]==])
end)
