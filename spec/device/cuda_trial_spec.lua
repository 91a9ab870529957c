-- Folds that are timed in one launch and in several: engine/device/cuda/cuda_trial.h, on the
-- driver of fake_driver.lua, whose clock goes on by one with each event.
local child = require("spec.support.child")
local fake = require("spec.device.fake_driver")

-- How folds of $ITEMS items go, a letter each: o in one launch, s in several, and in capitals
-- those that are timed. A fold takes as many ticks as $ONE or $SEVERAL says, in its turns. Of
-- $MEANWHILE folds none comes to its end before all are planned.
local PLANNED = [==[
  local ffi = require("ffi")
  local c = require("spec.support.cdef")("device/cuda/cuda_trial.h")
  local cuda = ffi.new("cel_cuda *[1]")
  assert(c.cel_cuda_open(ffi.new("int32_t[1]", 0), 1, cuda) == 0)
  local api, trials = cuda[0].api, ffi.new("cel_cuda_trial[?]", 16)
  local ticks, spent = ffi.new("CUevent[1]"), { o = 0, s = 0 }
  api.cuEventCreate(ticks, 0)

  local function took(way)
    local all = {}
    for n in os.getenv(way == "o" and "ONE" or "SEVERAL"):gmatch("%d+") do all[#all + 1] = n end
    spent[way] = spent[way] + 1
    return tonumber(all[spent[way]] or all[#all])
  end

  local function planned(items, final)
    local step = ffi.new("cel_fold_call[1]")
    step[0].call.chunk = { { 0, 0, 0 }, { items, 1, 1 } }
    local fold = ffi.new("cel_fold_job[1]", { { steps = 1, step = step } })
    local one = c.cel__cuda_trial_in_one(trials, final, fold)
    local goes = one and os.getenv("NO_ROOM") == nil
    fold[0].manner = goes and "CEL_FOLD_TO_SPARE" or "CEL_FOLD_PLAIN"
    return { fold = fold, step = step, way = one and "o" or "s", timed = fold[0].trial ~= nil }
  end

  local function carried_out(p)
    local job = ffi.new("cel_job", { kind = "CEL_JOB_FOLD", fold = p.fold })
    assert(c.cel__cuda_trial_mark(api, p.fold, false, nil) == 0)
    if p.timed then for _ = 2, took(p.way) do api.cuEventRecord(ticks[0], nil) end end
    assert(c.cel__cuda_trial_mark(api, p.fold, true, nil) == 0)
    c.cel__cuda_trial_answer(api, job, os.getenv("FAILS") == nil)
  end

  local text = {}
  for items in os.getenv("ITEMS"):gmatch("%d+") do
    local some = {}
    for i = 1, tonumber(os.getenv("MEANWHILE") or 1) do
      some[i] = planned(tonumber(items), os.getenv("SHORTER") == nil)
      text[#text + 1] = some[i].timed and some[i].way:upper() or some[i].way
    end
    for i = 1, #some do carried_out(some[i]) end
  end
  print(table.concat(text))
  c.cel__cuda_trials_clear(api, trials)
  assert(trials[0].from == nil and trials[0].times[1] == 0)
  c.cel_cuda_close(cuda[0])
]==]

describe("a trial of folds on a GPU", function()
  local function run(env)
    env.ITEMS = env.ITEMS or ("1000 "):rep(8)
    env.FAKE_GPUS = 1
    local r = child(PLANNED, fake.env(env))
    assert.equal("", r.stderr)
    return (r.stdout:gsub("\n", ""))
  end

  it("keeps what took the least time", function()
    assert.equal("OSOSoooo", run { ONE = "2", SEVERAL = "4" })
    assert.equal("OSOSssss", run { ONE = "4", SEVERAL = "2" })
  end)

  it("does not mind that one was slow once", function()
    assert.equal("OSOSoooo", run { ONE = "9 2", SEVERAL = "4" })
    assert.equal("OSOSssss", run { ONE = "4", SEVERAL = "9 2" })
  end)

  it("times one fold at a time, and has others go in one launch until then", function()
    assert.equal("OooSooOooSoosss", run { ITEMS = ("1000 "):rep(5), ONE = "4", SEVERAL = "2",
      MEANWHILE = "3" })
  end)

  it("is of sizes that are alike", function()
    assert.equal("OSOSsssO", run { ITEMS = ("1000 "):rep(5) .. "700 1020 9000", ONE = "4",
      SEVERAL = "2" })
    -- By item: those in several launches have more.
    assert.equal("OSOSss", run { ITEMS = ("300 1000 "):rep(3), ONE = "2", SEVERAL = "4" })
  end)

  it("asks for nothing where steps are to be left out, or a fold fails", function()
    assert.equal("oooooooo", run { SHORTER = "1", ONE = "4", SEVERAL = "2" })
    assert.equal("OOOOOOOO", run { FAILS = "1", ONE = "4", SEVERAL = "2" })
  end)

  it("does not ask for ever where there is no room to go in one launch", function()
    assert.equal("OOOOOOOOoo", run { NO_ROOM = "1", ITEMS = ("1000 "):rep(10), ONE = "4",
      SEVERAL = "2" })
  end)
end)
