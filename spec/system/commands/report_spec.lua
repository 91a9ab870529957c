-- celer info --report: what to send with a report of a fault.
local celer = require("spec.support.celer")

describe("celer info --report", function()
  local function report(options)
    local r = celer.run({ "info", "--report" }, options)
    assert.equal(0, r.status, r.stderr)
    return r.stdout
  end

  it("says what celer info says, and then what the host has", function()
    local text = report { env = { CELER_DEVICES = "1", NCCL_DEBUG = "INFO" } }
    local host = assert(io.open "/proc/sys/kernel/hostname"):read "*l"
    local before, after = text:match("^celer .-(\nranks    1, [^\n]*\n)\nhost     " .. host
      .. "\nbuild    %x+\n(.*)$")
    assert.is_truthy(before, text)
    for _, line in ipairs { "system   [^\n]+, Linux %d", "memory   %d+%.%d GiB\n",
      "limit    open files %d+, at most %d+\n", "network  lo, ", "library  /[^\n]*/libluajit",
      "variable CELER_DEVICES=1\n", "variable NCCL_DEBUG=INFO\n" } do
      assert.matches("\n" .. line, "\n" .. after)
    end
  end)

  it("does not show what looks like a secret", function()
    local text = report { env = { CELER_TOKEN = "abcdef", NCCL_SECRET_KEY = "abcdef",
      UCX_password = "abcdef", FI_API_KEY = "abcdef" } }
    assert.matches("\nvariable NCCL_SECRET_KEY=(not shown)\n", text, 1, true)
    assert.not_matches("abcdef", text, 1, true)
  end)

  it("shows what has such a word within another", function()
    local text = report { env = { UCX_IB_PKEY = "0x7fff", FI_PASSIVE = "yes", UCX_MONKEY = "m" } }
    for _, shown in ipairs { "UCX_IB_PKEY=0x7fff", "FI_PASSIVE=yes", "UCX_MONKEY=m" } do
      assert.matches("\nvariable " .. shown .. "\n", text, 1, true)
    end
  end)

  it("names each host once, whatever the number of its ranks", function()
    local _, hosts = report({ ranks = 3 }):gsub("\nhost ", "")
    assert.equal(1, hosts)
  end)
end)
