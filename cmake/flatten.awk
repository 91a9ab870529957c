# flatten.awk -- a kernel header with those that it includes in their places,
# under the names and lines that compilers are to say.
#
#   awk -v folder=kernels -f flatten.awk celer.cuh

function place(line, name) {
  printf "#line %d \"<celer>/%s\"\n", line, name
}

function copy(name,    path, line, n) {
  path = folder "/" name
  place(1, name)
  while ((n = (getline line < path)) > 0) put(line, name, ++number[name])
  if (n < 0) {
    print path " cannot be read" > "/dev/stderr"
    exit 1
  }
  close(path)
}

function put(line, name, at,    other) {
  if (line !~ /^#include "[a-z_]+\.cuh"$/) {
    print line
    return
  }
  other = line
  gsub(/^#include "|"$/, "", other)
  copy(other)
  place(at + 1, name)
}

BEGIN {
  copy(ARGV[1])
  exit 0
}
