-- luacheck: std none
std = "luajit"
cache = false
max_line_length = 100
exclude_files = { "build" }
files["spec"] = { std = "+busted" }
files[".luacheckrc"] = { ignore = { "111", "112", "113" } }
