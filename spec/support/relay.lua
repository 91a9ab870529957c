-- relay.lua -- stands in the link of each host that hosts.sh wires through it.
--
--   luajit relay.lua DELAY_MS LOSS_PERCENT RATE_MBIT MTU HOST...
--
-- For each HOST two TAP devices exist: HOST, on head's bridge, and HOST.far, which is about to
-- become the host's own interface. What comes from one goes to the other: later, some of it
-- not, and not faster than the rate (0: as it comes). Each link has half of the delay and of
-- the loss, as the way from one host to another has two links.
-- Says `ready` on stdout when it holds all devices, and ends by being killed.
local ffi = require("ffi")
local bit = require("bit")

ffi.cdef [[
struct pollfd { int fd; short events, revents; };
struct span { long s, ns; };
struct ifreq { char name[16]; short flags; char rest[22]; };
struct frame { double due; long size; };
int open(const char *, int, ...);
int ioctl(int, unsigned long, void *);
long read(int, void *, size_t);
long write(int, const void *, size_t);
int ppoll(struct pollfd *, unsigned long, const struct span *, const void *);
int clock_gettime(int, struct span *);
int prctl(int, unsigned long, ...);
char *strerror(int);
]]
local C = ffi.C
local O_RDWR, O_NONBLOCK, POLLIN, CLOCK_MONOTONIC, PR_SET_TIMERSLACK = 2, 0x800, 1, 1, 29
local TUNSETIFF, IFF_TAP, IFF_NO_PI = 0x400454ca, 2, 0x1000

-- A frame's bytes with its head, in memory. That one direction holds: in 8 MiB, one free slot
-- among them. What comes beyond is lost, as in a switch.
local BYTES = 2 ^ math.ceil(math.log(arg[4] + 64) / math.log(2))
local FRAMES = 2 ^ 23 / BYTES
local QUEUE_S = 0.05 -- and what would wait longer than that for the rate

local delay, loss = arg[1] / 2 * 1e-3, 1 - math.sqrt(1 - arg[2] / 100)
local byte_s = tonumber(arg[3]) > 0 and 8e-6 / arg[3] or 0

local function fail(what)
  error(("%s: %s"):format(what, ffi.string(C.strerror(ffi.errno()))), 0)
end

local function attach(name)
  local fd = C.open("/dev/net/tun", O_RDWR + O_NONBLOCK)
  if fd < 0 then fail("/dev/net/tun") end
  local request = ffi.new("struct ifreq", { name = name, flags = IFF_TAP + IFF_NO_PI })
  if C.ioctl(fd, TUNSETIFF, request) < 0 then fail(name) end
  return fd
end

local span = ffi.new("struct span")

local function now()
  C.clock_gettime(CLOCK_MONOTONIC, span)
  return tonumber(span.s) + tonumber(span.ns) * 1e-9
end

-- One direction of a link: frames in the order in which they came, which is that in which
-- they go. `first` and `last` only grow; `free_at` is when the wire has carried them all.
local function direction(from, to)
  return { from = from, to = to, first = 0, last = 0, free_at = 0,
    ring = ffi.new("struct frame[?]", FRAMES), bytes = ffi.new("uint8_t[?]", FRAMES * BYTES) }
end

-- Takes what has come.
local function take(d)
  while true do
    local slot = bit.band(d.last, FRAMES - 1)
    local frame, size = d.ring[slot], tonumber(C.read(d.from, d.bytes + slot * BYTES, BYTES))
    if size <= 0 then return end
    local time = now()
    local start = math.max(time, d.free_at)
    if start - time <= QUEUE_S and d.last - d.first < FRAMES - 1 and math.random() >= loss then
      d.free_at = start + size * byte_s
      frame.size, frame.due = size, d.free_at + delay
      d.last = d.last + 1
    end
  end
end

-- Hands on what is due; gives when the next is.
local function hand_on(d, time)
  while d.first < d.last do
    local slot = bit.band(d.first, FRAMES - 1)
    local frame = d.ring[slot]
    if frame.due > time then return frame.due end
    C.write(d.to, d.bytes + slot * BYTES, frame.size) -- a host that is gone loses it
    d.first = d.first + 1
  end
  return math.huge
end

local directions = {}
for i = 5, #arg do
  local near, far = attach(arg[i]), attach(arg[i] .. ".far")
  directions[#directions + 1] = direction(near, far)
  directions[#directions + 1] = direction(far, near)
end
C.prctl(PR_SET_TIMERSLACK, 1)
math.randomseed(#directions)
io.stdout:write("ready\n")
io.stdout:flush()

local polled = ffi.new("struct pollfd[?]", #directions)
for i, d in ipairs(directions) do
  polled[i - 1].fd, polled[i - 1].events = d.from, POLLIN
end
local pause = ffi.new("struct span")
while true do
  local time, next_due = now(), math.huge
  for _, d in ipairs(directions) do next_due = math.min(next_due, hand_on(d, time)) end
  local timeout = nil
  if next_due < math.huge then
    local left = math.max(next_due - now(), 0)
    pause.s = math.floor(left)
    pause.ns = (left - math.floor(left)) * 1e9
    timeout = pause
  end
  C.ppoll(polled, #directions, timeout, nil)
  for i, d in ipairs(directions) do
    if polled[i - 1].revents == POLLIN then
      take(d)
    elseif polled[i - 1].revents ~= 0 then -- the host is gone, and its device
      polled[i - 1].fd = -1
    end
  end
end
