-- What ranks hear of each other, and how all of them end when one is lost.
local ffi = require("ffi")
jit.off(true, true)
local c = require("spec.support.cdef")("comm/heartbeat/beats.h")

local SECOND = 1e9

-- A job of ranks that beat, on a clock of its own. Time goes by steps of 50 ms; a datagram
-- arrives with the next one, unless `cut` says that there is no way, or it goes astray.
local Job = {}
Job.__index = Job

-- `host` says on which host a rank is; by default it is alone there.
local function job(ranks, lost, random, host)
  local last, first = {}, {} -- on each host
  local self = setmetatable({ ranks = ranks, now = 1000 * SECOND, spoke = {}, ended = {},
    stopped = {}, dead = {}, astray = 0, queue = {}, beats = {}, sent = 0,
    random = random or function() return 1 end, cut = function() return false end }, Job)
  for k = 0, ranks - 1 do
    self.beats[k], self.queue[k] = ffi.new("cel_beats"), {}
    c.cel_beats_init(self.beats[k], k, ranks)
    local d = 1
    while d < ranks do
      c.cel_beats_meet(self.beats[k], (k + d) % ranks)
      c.cel_beats_meet(self.beats[k], (k - d) % ranks)
      d = 2 * d
    end
  end
  for k = 0, host and ranks - 1 or -1 do
    local h = host(k)
    first[h] = first[h] or k
    for a, b in pairs({ [k] = last[h], [last[h] or k] = k }) do
      c.cel_beats_meet(self.beats[a], b)
    end
    last[h] = k
  end
  for h, k in pairs(last) do
    c.cel_beats_meet(self.beats[k], first[h])
    c.cel_beats_meet(self.beats[first[h]], k)
  end
  for k = 0, ranks - 1 do
    c.cel_beats_start(self.beats[k], lost * SECOND, self.now + self.random() * SECOND)
  end
  return self
end

function Job:say(k)
  local b, beat = self.beats[k], ffi.new("cel_beat")
  for i = 0, b.peers - 1 do
    local to = tonumber(b.peer[i].rank)
    if c.cel_beats_say(b, i, self.now, beat) then
      self.sent = self.sent + 1
      if not self.cut(k, to) and self.random() * 100 >= self.astray then
        table.insert(self.queue[to], ffi.new("cel_beat", beat))
      end
    end
  end
end

function Job:step_rank(k)
  local b = self.beats[k]
  for _, beat in ipairs(self.queue[k]) do c.cel_beats_hear(b, beat, self.now) end
  self.queue[k] = {}
  if c.cel_beats_tick(b, self.now) then self:say(k) end
  if b.phase >= c.CEL_BEATS_SPEAK then
    self.ended[k] = true
    if b.phase == c.CEL_BEATS_SPEAK then
      table.insert(self.spoke, { finder = k, lost = tonumber(b.lost) })
    end
  end
end

function Job:run(seconds)
  for _ = 1, seconds * 20 do
    self.now = self.now + SECOND / 20
    for k = 0, self.ranks - 1 do
      if not (self.ended[k] or self.stopped[k] or self.dead[k]) then self:step_rank(k) end
    end
  end
end

-- Whether all ranks that are not dead or stopped have ended; or none has.
function Job:all_ended(yes)
  for k = 0, self.ranks - 1 do
    if not (self.stopped[k] or self.dead[k]) and (self.ended[k] or false) ~= yes then
      return false
    end
  end
  return true
end

-- A generator of its own, so that a seed gives the same everywhere.
local function generator(seed)
  return function()
    seed = (seed * 16807) % 2147483647
    return seed / 2147483647
  end
end

describe("the heartbeat of a job", function()
  it("costs each rank two beats a second, however many ranks there are", function()
    for _, ranks in ipairs({ 3, 100, 1000 }) do
      local j = job(ranks, 60, generator(ranks))
      j:run(10)
      assert.is_true(math.abs(j.sent / ranks - 20) <= 2.1, j.sent / ranks)
    end
  end)

  it("knows about twice the logarithm of all ranks", function()
    for ranks, peers in pairs({ [2] = 1, [3] = 2, [4] = 3, [5] = 4, [1024] = 19 }) do
      assert.equal(peers, job(ranks, 60).beats[0].peers)
    end
  end)

  it("goes on after a silence that is not long enough, and has a word for it", function()
    local j = job(2, 10)
    j:run(5)
    j.cut = function() return true end
    j:run(9)
    local silence = tonumber(c.cel_beats_silence(j.beats[0], 0, j.now)) / SECOND
    assert.is_true(silence >= 8.5 and silence <= 10, silence)
    j.cut = function() return false end
    j:run(30)
    assert.is_true(j:all_ended(false))
    assert.equal(0, tonumber(c.cel_beats_silence(j.beats[0], 0, j.now)))
  end)

  it("ends on both sides of a link that stays silent", function()
    local j = job(2, 10)
    j:run(5)
    j.cut = function() return true end
    j:run(12)
    assert.is_true(j:all_ended(true))
    assert.same({ { finder = 0, lost = 1 }, { finder = 1, lost = 0 } }, j.spoke)
  end)

  it("takes no rank for lost in the time in which it was stopped itself", function()
    local j = job(3, 10)
    j:run(5)
    for k = 0, 2 do j.queue[k], j.stopped[k] = {}, true end -- no beat is on its way
    j:run(1000)
    j.stopped = {}
    j:run(30)
    assert.is_true(j:all_ended(false))
  end)

  it("ends a rank that was stopped for too long as soon as it goes on", function()
    local j = job(3, 10)
    j:run(5)
    j.stopped[1] = true
    j:run(20)
    assert.is_true(j:all_ended(true))
    assert.same({ 1, 1 }, { #j.spoke, j.spoke[1].lost })
    j.stopped = {}
    j:run(5)
    assert.is_true(j.ended[1])
    assert.equal(1, #j.spoke)
  end)

  it("does not miss ranks that say goodbye, nor such as never were heard of", function()
    local j = job(3, 10)
    j.cut = function(from, to) return from + to == 1 end -- 0 and 1
    j:run(5)
    assert.is_true(c.cel_beats_unreached(j.beats[0], 0))
    assert.is_false(c.cel_beats_unreached(j.beats[0], 1))
    local bye = ffi.new("cel_beat", { kind = c.CEL_BEAT_BYE, from = 2 })
    for k = 0, 1 do table.insert(j.queue[k], bye) end
    j.dead[2] = true
    j:run(30)
    assert.is_true(j:all_ended(false))
  end)

  it("ends all when one rank ends the job, and nobody else speaks", function()
    local j = job(20, 10)
    j:run(5)
    c.cel_beats_end(j.beats[7], j.now)
    j:run(5)
    assert.is_true(j:all_ended(true))
    assert.equal(0, #j.spoke)
  end)

  it("tells all within a second, of 1,000 ranks", function()
    local j = job(1000, 5)
    j:run(3)
    j.dead[500] = true
    for _ = 1, 200 do
      j:run(0.05)
      if j.beats[499].phase ~= 0 or j.beats[501].phase ~= 0 then break end
    end
    j:run(1)
    for k = 0, 999 do assert.is_true(k == 500 or j.beats[k].phase ~= c.CEL_BEATS_ON) end
    j:run(4)
    assert.is_true(j:all_ended(true))
    assert.equal(1, #j.spoke)
  end)

  -- Hosts of several ranks; some die, are stopped, or are cut off from others, for a while or
  -- for ever, while datagrams go astray. The ranks that can still reach each other are a part.
  local function random_job(seed)
    local random = generator(seed)
    local function pick(n) return math.floor(random() * n) end
    local ranks, hosts = 2 + pick(30), 2 + pick(4)
    local lost = 5 + pick(20)
    local round = pick(2) == 0
    local function host(k) return round and k % hosts or math.floor(k * hosts / ranks) end
    local j = job(ranks, lost, random, host)
    j.astray = pick(6)
    j:run(5)
    local odd, fault = pick(hosts), pick(4)
    local short = pick(2) == 0
    if fault == 0 then
      for k = 0, ranks - 1 do j.dead[k] = host(k) == odd or nil end
      short = false
    elseif fault == 1 then
      for k = 0, ranks - 1 do j.stopped[k] = host(k) == odd or nil end
    elseif fault == 2 then
      j.cut = function(from, to) return (host(from) == odd) ~= (host(to) == odd) end
    else -- one way alone
      j.cut = function(from, to) return host(from) == odd and host(to) ~= odd end
    end
    local some = false -- of the ranks are on that host, and some are not
    for k = 1, ranks - 1 do some = some or (host(k) == odd) ~= (host(0) == odd) end
    j:run(short and lost / 2 or 2 * lost + 8)
    if short then
      j.cut, j.stopped = function() return false end, {}
      j:run(3 * lost)
    end
    return j, some and not short, fault
  end

  it("ends in each part that is left, and says so once there; or goes on", function()
    local ends, goes_on = 0, 0
    for seed = 1, 300 do
      local j, is_lost, fault = random_job(seed * 7919)
      local what = ("seed %d, fault %d, %d ranks"):format(seed, fault, j.ranks)
      assert.is_true(j:all_ended(is_lost), what)
      local least = is_lost and 1 or 0
      assert.is_true(#j.spoke >= least and #j.spoke <= (fault >= 2 and 2 or 1) * least, what)
      if is_lost then ends = ends + 1 else goes_on = goes_on + 1 end
    end
    assert.is_true(ends > 50 and goes_on > 50)
  end)
end)
