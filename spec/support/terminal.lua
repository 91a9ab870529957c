-- terminal.lua -- the built `celer` on a terminal of its own, as a person has it.
--
--   local t = require("spec.support.terminal").open({ "repl" })
--   t:wait "1> "
--   assert.equal("3", t:enter "1 + 2")
--   assert.equal(0, t:close())
--
-- Nothing sleeps: each step waits for what must appear, and fails after TIMEOUT
-- with what did.
local ffi = require "ffi"
local celer = require("spec.support.celer")

ffi.cdef [[
  int forkpty(int *master, char *name, const void *termios, const void *size);
  int execvp(const char *file, const char *const argv[]);
  void _exit(int status);
  typedef struct { int fd; short events, revents; } terminal_poll;
  int poll(terminal_poll *fds, unsigned long n, int timeout);
  long read(int fd, void *data, size_t size);
  long write(int fd, const void *data, size_t size);
  int close(int fd);
  int fcntl(int fd, int command, ...);
  int waitpid(int pid, int *status, int options);
  int kill(int pid, int signal);
]]

local c = ffi.C
local TIMEOUT = 200000 -- ms
local SIGINT, SIGKILL = 2, 9

local M = { SIGINT = SIGINT }

---@class terminal
---@field seen string  what appeared and was not waited for
---@field all string   all that appeared
local Terminal = {}
Terminal.__index = Terminal

--- Starts `celer` with `args`. The terminal knows no colours and moves its cursor
--- by backspaces alone, unless `term` says otherwise.
---@param args string[]
---@param options? {env: table?, cwd: string?, term: string?, command: string?}
function M.open(args, options)
  options = options or {}
  local env = { TERM = options.term or "xterm" }
  for name, value in pairs(options.env or {}) do env[name] = value end
  local words = { "sh", "-c", ("cd '%s' && exec %s \"$@\""):format(
    options.cwd or os.getenv "PWD", celer.environment(env)), "sh",
    options.command or celer.command() }
  for _, word in ipairs(args) do words[#words + 1] = word end
  local argv = ffi.new("const char *[?]", #words + 1)
  for i, word in ipairs(words) do argv[i - 1] = word end
  local size = ffi.new("unsigned short[4]", 40, 160, 0, 0)
  local master = ffi.new("int[1]")
  local pid = c.forkpty(master, nil, nil, size)
  assert(pid >= 0, "no terminal")
  if pid == 0 then
    c.execvp("sh", argv)
    c._exit(127)
  end
  return setmetatable({ fd = master[0], pid = pid, seen = "", all = "" }, Terminal)
end

-- Takes in what appears; false when nothing does in time, nil at the end.
function Terminal:take()
  local fds = ffi.new("terminal_poll", self.fd, 1, 0)
  if c.poll(fds, 1, TIMEOUT) <= 0 then return false end
  local data = ffi.new("char[4096]")
  local n = tonumber(c.read(self.fd, data, 4096))
  if n <= 0 then return nil end
  local text = ffi.string(data, n)
  self.seen, self.all = self.seen .. text, self.all .. text
  return true
end

--- Waits for plain text; gives what came before it.
---@param text string
---@return string
function Terminal:wait(text)
  local from, to
  repeat
    from, to = self.seen:find(text, 1, true)
    if not from then
      local more = self:take()
      if not more then
        error(("waited for %q; %s after %q"):format(text,
          more == nil and "the end came" or "nothing came", self.seen), 2)
      end
    end
  until from
  local before = self.seen:sub(1, from - 1)
  self.seen = self.seen:sub(to + 1)
  return before
end

--- Types `text`, as it is, while what appears is taken in.
function Terminal:type(text)
  local F_SETFL, O_NONBLOCK, POLLIN, POLLOUT = 4, 2048, 1, 4
  c.fcntl(self.fd, F_SETFL, ffi.cast("int", O_NONBLOCK))
  while text ~= "" do
    local fds = ffi.new("terminal_poll", self.fd, POLLIN + POLLOUT, 0)
    if c.poll(fds, 1, TIMEOUT) <= 0 then error("nobody reads what is typed", 2) end
    if fds.revents % 2 == 1 then self:take() end
    local n = tonumber(c.write(self.fd, text, #text))
    if n > 0 then text = text:sub(n + 1) end
  end
  c.fcntl(self.fd, F_SETFL, ffi.cast("int", 0))
end

--- What a person sees of `text`: without what moves the cursor.
local function plain(text)
  text = text:gsub("\27%[[%d;?]*%a", ""):gsub("\r", "")
  return (text:gsub("[^\n]\b", ""))
end

--- Types a line and waits for the next prompt: what appears in between. The
--- number of the line is that of its prompt, which must have been waited for.
---@param line string
---@param number integer  of the next prompt
---@param more? boolean  it will be one for more of the same
---@return string
function Terminal:enter(line, number, more)
  self:type(line .. "\r")
  self:wait "\n"
  local shown = self:wait(("%d>%s "):format(number, more and ">" or ""))
  return (plain(shown):gsub("\n$", ""))
end

function Terminal:signal(number) c.kill(self.pid, number) end

--- Waits until the program ends of itself: its status, or minus the signal that
--- ended it.
---@return integer
function Terminal:status()
  local more
  repeat more = self:take() until not more
  if more == false then c.kill(self.pid, SIGKILL) end
  local status = ffi.new("int[1]")
  c.waitpid(self.pid, status, 0)
  c.close(self.fd)
  local signal = status[0] % 128
  return signal > 0 and -signal or math.floor(status[0] / 256) % 256
end

--- Types what a transcript has behind its prompts, from the first on: the
--- transcript that comes of it.
---@param transcript string
---@return string
function Terminal:replay(transcript)
  local out, prompt, typed = {}, nil, nil
  local function enter(next_prompt)
    if not prompt then return self:wait(next_prompt) end
    local number, more = next_prompt:match "^(%d+)>(>?)"
    local shown = self:enter(typed, tonumber(number), more == ">")
    out[#out + 1] = prompt .. typed .. "\n" .. (shown == "" and "" or shown .. "\n")
  end
  for line in transcript:gmatch "[^\n]+" do
    local next_prompt, text = line:match "^(%d+>>? )(.*)$"
    if next_prompt then
      enter(next_prompt)
      prompt, typed = next_prompt, text
    end
  end
  enter(("%d> "):format(tonumber(prompt:match "%d+") + 1))
  return table.concat(out)
end

--- Ctrl-D on an empty line, and the end.
function Terminal:close()
  self:type "\4"
  return self:status()
end

return M
