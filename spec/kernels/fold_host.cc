// Folds in one launch, by blocks on the processor (spec/device/gpu_host.h),
// against their steps one after another. fold_spec.lua puts the headers and the
// kernels before this. A second argument plants a fault, to be found.
namespace celer {
uint4 fold_room[(227 << 10) / sizeof(uint4)];
}

static int wrong;
static std::mt19937 chosen(1);
static int pick(int lo, int hi) {
  return lo + int(chosen() % unsigned(hi - lo + 1));
}
static void must(bool fine, const char *what) {
  if (fine) return;
  printf("differs: %s\n", what);
  exit(3);
}

struct plane {
  int h, w, pitch; // elements [0, h) x [0, w), and some beside
  std::vector<float> at;
  plane(int h, int w) : h(h), w(w), pitch(w + 3), at(size_t(h) * (w + 3)) {
    for (float &x : at) x = float(pick(-1000, 1000)) / 513;
  }
};

struct area {
  int min[2], max[2];
};

// What a step's launch is given: its box, then views and a value.
template <class Packed>
static void give(Packed &p, const area &box, const plane &of,
                 std::vector<plane *> views, float value) {
  memset((void *)&p, 0, sizeof p);
  for (int d = 0; d < 2; ++d) {
    p.where.min[d] = box.min[d];
    p.where.extent[d] = unsigned(box.max[d] - box.min[d]);
  }
  p.where.range[0] = of.h;
  p.where.range[1] = of.w;
  p.where.extent[2] = 1;
  unsigned char *to = p.bytes;
  for (plane *v : views) {
    float *origin = v->at.data();
    memcpy(to, &origin, 8);
    memcpy(to + 8, &v->pitch, 4);
    to += 24;
  }
  if (to + 4 <= p.bytes + sizeof p.bytes) memcpy(to, &value, 4);
}

static celer::fold_array give(plane &from, plane &to, const area &may) {
  celer::fold_array a = {};
  a.from = (const unsigned char *)from.at.data();
  a.to = (unsigned char *)to.at.data();
  a.stride0 = from.pitch;
  a.wide =
      (uintptr_t(a.from) | uintptr_t(a.to) | unsigned(from.pitch) * 4) % 16 ==
      0;
  a.loads = celer::loads_all;
  a.stores = 1;
  a.min[0] = may.min[0];
  a.max[0] = may.max[0];
  a.min[2] = may.min[1];
  a.max[2] = may.max[1];
  return a;
}

template <class Packed, class Run>
static void launch(Packed &p, unsigned gx, unsigned gy, unsigned bx,
                   unsigned by, Run *run) {
  void *params[] = {&p};
  gpu_launch((void *)run, gx, gy, 1, bx, by, 1, 0, nullptr, params, nullptr);
}

static unsigned over(int n, int by) {
  return unsigned((n + by - 1) / by);
}

// A fold's launch for what its last step computes, where items within `inner`
// are no step's last ones.
template <class Packed, class Step>
static void give_fold(Packed &p, const Step &last, const area &inner,
                      const celer::fold_array &first,
                      const celer::fold_array &second) {
  p.array.at[0] = first;
  p.array.at[1] = second;
  p.launch.where = last.where;
  for (int d = 0; d < 2; ++d) {
    p.launch.inner_min[d] = inner.min[d];
    p.launch.inner_max[d] = inner.max[d];
  }
}

// Steps that are not empty, each by a launch of its own.
template <class Step, size_t N, class Run>
static void one_by_one(Step *(&steps)[N], Run *run) {
  for (Step *s : steps) {
    if (s->where.extent[0] * s->where.extent[1] == 0) continue;
    s->where.flags = 3;
    launch(*s, over(int(s->where.extent[1]), 32),
           over(int(s->where.extent[0]), 32), 32, 8, run);
  }
}

// How a fold goes; of a stream so many rows are a block's, of a sheet so many
// warps.
enum way { TILE, STREAM, SHEET };
struct manner {
  way by;
  int each;
};
constexpr int HIGH = 5;

// Of a stream, whose first and last warp beside others have half as many rows.
constexpr int K = 4;
static unsigned warps_of(const area &chunk, int rows) {
  const int height = chunk.max[0] - chunk.min[0];
  const unsigned across = over(chunk.max[1] - (chunk.min[1] & -4), 128 - 2 * K);
  const unsigned outer = across < 2 ? across : 2;
  return (across - outer) * over(height, rows) +
         outer * over(height, (rows + 1) / 2);
}

// ---- tiles: the wave, K steps, on a part of what is there

#define WAVE(k, a, b) celer::step<&wave, celer::margin<k, k, k, k>, a, b>
using wave_fold = celer::fold<
    celer::fold_elements<celer::element<4, 4>, celer::element<4, 4>>,
    WAVE(3, 0, 1), WAVE(2, 1, 0), WAVE(1, 0, 1), WAVE(0, 1, 0)>;
using wave_packed = celer::entry<&wave>::packed;

static void run_wave(const void *a) {
  celer::entry<&wave>::run(*(const wave_packed *)a);
}
using wave_stream = celer::stream<
    celer::margin<K, K, K, K>,
    celer::fold_elements<celer::element<4, 4>, celer::element<4, 4>>,
    WAVE(3, 0, 1), WAVE(2, 1, 0), WAVE(1, 0, 1), WAVE(0, 1, 0)>;
static void run_stream(const void *a) {
  wave_stream::run(*(const wave_fold::packed *)a);
}
static void run_tiles(const void *a) {
  wave_fold::tile<celer::margin<K, K, K, K>>(*(const wave_fold::packed *)a);
}
template <bool Ahead> static void run_sheet(const void *a) {
  using sheet = celer::sheet<
      celer::margin<K, K, K, K>, HIGH, Ahead,
      celer::fold_elements<celer::element<4, 4>, celer::element<4, 4>>,
      WAVE(3, 0, 1), WAVE(2, 1, 0), WAVE(1, 0, 1), WAVE(0, 1, 0)>;
  sheet::run(*(const wave_fold::packed *)a);
}

// Steps that compute less than the next one reads.
static void run_short(const void *a) {
  using fold = celer::fold<
      celer::fold_elements<celer::element<4, 4>, celer::element<4, 4>>,
      WAVE(3, 0, 1), WAVE(1, 1, 0), WAVE(1, 0, 1), WAVE(0, 1, 0)>;
  fold::tile<celer::margin<K, K, K, K>>(*(const fold::packed *)a);
}
static void run_short_stream(const void *a) {
  using stream = celer::stream<
      celer::margin<K, K, K, K>,
      celer::fold_elements<celer::element<4, 4>, celer::element<4, 4>>,
      WAVE(3, 0, 1), WAVE(1, 1, 0), WAVE(1, 0, 1), WAVE(0, 1, 0)>;
  stream::run(*(const stream::packed *)a);
}

static void run_short_sheet(const void *a) {
  using sheet = celer::sheet<
      celer::margin<K, K, K, K>, HIGH, true,
      celer::fold_elements<celer::element<4, 4>, celer::element<4, 4>>,
      WAVE(3, 0, 1), WAVE(1, 1, 0), WAVE(1, 0, 1), WAVE(0, 1, 0)>;
  sheet::run(*(const sheet::packed *)a);
}

// Blocks of `size` that lie within n items, for [min, max) of them.
static unsigned sheets_of(int min, int max, int n, int size) {
  const int first = std::max(min - K, 0);
  const int last = std::min(max + K, n) - size - first;
  return 1 + (last > 0 ? over(last, size - 2 * K) : 0);
}

// Blocks that have some sheets each.
template <class Packed, class Run>
static void launch_sheets(Packed &p, unsigned across, unsigned down, int warps,
                          Run *run) {
  p.launch.across = int(across);
  p.launch.down = int(down);
  launch(p, unsigned(pick(1, int(across * down))), 1, 32, unsigned(warps), run);
}

// One launch of so many blocks for the chunk.
template <class Packed, class Run>
static void launch_fold(Packed &p, const area &chunk, const manner &m,
                        Run *run) {
  const int height = chunk.max[0] - chunk.min[0],
            width = chunk.max[1] - chunk.min[1];
  const int n[] = {int(p.launch.where.range[0]), int(p.launch.where.range[1])};
  p.launch.where.flags = unsigned(m.each);
  if (m.by == STREAM)
    launch(p, warps_of(chunk, m.each), 1, 32, 1, run);
  else if (m.by == SHEET)
    launch_sheets(p, sheets_of(chunk.min[1] & -4, chunk.max[1], n[1], 128),
                  sheets_of(chunk.min[0], chunk.max[0], n[0], m.each * HIGH),
                  m.each, run);
  else
    launch(p, over(width, 64 - 2 * K), over(height, 64 - 2 * K), 64, 8, run);
}

static area grown(const area &box, int by, const area &within) {
  area r = box;
  for (int d = 0; d < 2; ++d) {
    r.min[d] = std::max(box.min[d] - by, within.min[d]);
    r.max[d] = std::min(box.max[d] + by, within.max[d]);
  }
  return r;
}

static void tiles(int h, int w, const area &chunk, const manner &m) {
  const area all = {{0, 0}, {h, w}};
  plane up(h, w), u(h, w), to0 = up, to1 = u, was0 = up, was1 = u;
  wave_fold::packed p;
  wave_packed *step[] = {&p.steps.first, &p.steps.rest.first,
                         &p.steps.rest.rest.first,
                         &p.steps.rest.rest.rest.first};
  area inner = all;
  for (int s = 0; s < K; ++s) {
    const area box = grown(chunk, K - 1 - s, all);
    std::vector<plane *> views = {&up, &u};
    if (s % 2 == 1) views = {&u, &up};
    give(*step[s], box, u, views, .25f);
    inner = grown(box, 0, inner);
  }
  const area read = grown(chunk, K, all);
  if (m.by == SHEET) inner.min[0] = read.min[0], inner.max[0] = read.max[0];
  give_fold(p, *step[K - 1], inner, give(was0, to0, read),
            give(was1, to1, read));
  if (wrong == 1) p.array.at[0].loads = 0; // each element is read
  one_by_one(step, run_wave); // in `up` and `u`; what the fold is given stays
  void (*const run[])(const void *) = {
      run_tiles, run_stream, pick(0, 1) ? run_sheet<true> : run_sheet<false>};
  void (*const amiss[])(const void *) = {run_short, run_short_stream,
                                         run_short_sheet};
  launch_fold(p, chunk, m, wrong == 2 ? amiss[m.by] : run[m.by]);
  // What is not of the chunk was not touched.
  plane want0 = was0, want1 = was1;
  for (int i = chunk.min[0]; i < chunk.max[0]; ++i)
    for (int j = chunk.min[1]; j < chunk.max[1]; ++j) {
      want0.at[size_t(i) * up.pitch + j] = up.at[size_t(i) * up.pitch + j];
      want1.at[size_t(i) * u.pitch + j] = u.at[size_t(i) * u.pitch + j];
    }
  const size_t bytes = up.at.size() * sizeof(float);
  must(memcmp(want0.at.data(), to0.at.data(), bytes) == 0, "up");
  must(memcmp(want1.at.data(), to1.at.data(), bytes) == 0, "u");
}

// ---- sheets of steps that reach further to one side than to the other

#define UNEVEN(k, a, b)                                                        \
  celer::step<&uneven, celer::margin<2 * k, k, k, 3 * k>, a, b>
using uneven_elements =
    celer::fold_elements<celer::element<4, 4>, celer::element<4, 4>>;
using uneven_fold = celer::fold<uneven_elements, UNEVEN(2, 0, 1),
                                UNEVEN(1, 1, 0), UNEVEN(0, 0, 1)>;
using uneven_packed = celer::entry<&uneven>::packed;

static void run_uneven(const void *a) {
  celer::entry<&uneven>::run(*(const uneven_packed *)a);
}
template <bool Ahead> static void run_uneven_sheet(const void *a) {
  celer::sheet<celer::margin<6, 3, 3, 9>, HIGH, Ahead, uneven_elements,
               UNEVEN(2, 0, 1), UNEVEN(1, 1, 0),
               UNEVEN(0, 0, 1)>::run(*(const uneven_fold::packed *)a);
}

static area grown_uneven(const area &box, int by, const area &within) {
  return {{std::max(box.min[0] - 2 * by, within.min[0]),
           std::max(box.min[1] - by, within.min[1])},
          {std::min(box.max[0] + by, within.max[0]),
           std::min(box.max[1] + 3 * by, within.max[1])}};
}

static void uneven_sheets(int h, int w, const area &chunk, int warps) {
  const area all = {{0, 0}, {h, w}};
  plane a(h, w), b(h, w), fa = a, fb = b, to = a, tob = b;
  uneven_fold::packed p;
  uneven_packed *step[] = {&p.steps.first, &p.steps.rest.first,
                           &p.steps.rest.rest.first};
  for (int s = 0; s < 3; ++s) {
    std::vector<plane *> views = {&a, &b};
    if (s % 2 == 1) views = {&b, &a};
    give(*step[s], grown_uneven(chunk, 2 - s, all), a, views, .25f);
  }
  const area read = grown_uneven(chunk, 3, all);
  give_fold(p, *step[2], chunk, give(fa, to, read), give(fb, tob, read));
  one_by_one(step, run_uneven);
  const int first0 = std::max(chunk.min[0] - 6, 0);
  const int first1 = std::max((chunk.min[1] & -4) - 4, 0);
  const int more0 = std::min(chunk.max[0] + 3, h) - first0 - warps * HIGH;
  const int more1 = std::min(chunk.max[1] + 12, w) - first1 - 128;
  launch_sheets(p, 1 + (more1 > 0 ? over(more1, 128 - 16) : 0),
                1 + (more0 > 0 ? over(more0, warps * HIGH - 9) : 0), warps,
                pick(0, 1) ? run_uneven_sheet<true> : run_uneven_sheet<false>);
  for (int i = 0; i < h; ++i)
    for (int j = 0; j < w; ++j) {
      const bool own = i >= chunk.min[0] && i < chunk.max[0] &&
                       j >= chunk.min[1] && j < chunk.max[1];
      const size_t at = size_t(i) * a.pitch + j;
      must(memcmp(&to.at[at], own ? &a.at[at] : &fa.at[at], 4) == 0, "uneven");
      must(memcmp(&tob.at[at], own ? &b.at[at] : &fb.at[at], 4) == 0,
           "uneven, the other");
    }
}

// ---- a range that leaves the rim of the arrays out, which the steps read

// And perhaps a table, which no step writes.
template <auto F, int... Table> struct rimmed {
  template <int Left, int A, int B>
  using step =
      celer::step<F, celer::margin<Left, Left, Left, Left>, A, B, Table...>;
  using elements =
      celer::fold_elements<celer::element<4, 4>, celer::element<4, 4>>;
  using fold = celer::fold<elements, step<3, 0, 1>, step<2, 1, 0>,
                           step<1, 0, 1>, step<0, 1, 0>>;
  using stream =
      celer::stream<celer::margin<K, K, K, K>, elements, step<3, 0, 1>,
                    step<2, 1, 0>, step<1, 0, 1>, step<0, 1, 0>>;
  using packed = typename celer::entry<F>::packed;
  static void run_one(const void *a) {
    celer::entry<F>::run(*(const packed *)a);
  }
  static void run_tiles(const void *a) {
    fold::template tile<celer::margin<K, K, K, K>>(
        *(const typename fold::packed *)a);
  }
  static void run_stream(const void *a) {
    stream::run(*(const typename fold::packed *)a);
  }
};

// Of the second array only the rim is loaded: its first step writes the rest.
template <class Of, bool Table>
static void rims(int h, int w, const manner &m) {
  const area range = {{1, 2}, {h - 3, w - 1}}, all = {{0, 0}, {h, w}};
  plane a(h, w), b(h, w), fa = a, fb = b, to = a, tob = b, by(7, 5);
  typename Of::fold::packed p;
  typename Of::packed *step[] = {&p.steps.first, &p.steps.rest.first,
                                 &p.steps.rest.rest.first,
                                 &p.steps.rest.rest.rest.first};
  for (int s = 0; s < K; ++s) {
    std::vector<plane *> views = {&a, &b};
    if (s % 2 == 1) views = {&b, &a};
    if (Table) views.push_back(&by);
    give(*step[s], range, a, views, .25f);
  }
  give_fold(p, *step[K - 1], range, give(fa, to, all), give(fb, tob, all));
  if (!Table) p.array.at[1].loads = 1; // with it, some are left as they are
  for (int i = range.min[0]; i < range.max[0] && !Table; ++i)
    for (int j = range.min[1]; j < range.max[1]; ++j)
      fb.at[size_t(i) * fb.pitch + j] = 1e9f;
  one_by_one(step, Of::run_one);
  launch_fold(p, range, m, m.by == STREAM ? Of::run_stream : Of::run_tiles);
  must(memcmp(a.at.data(), to.at.data(), a.at.size() * sizeof(float)) == 0,
       "within a rim");
  must(memcmp(b.at.data(), tob.at.data(), b.at.size() * sizeof(float)) == 0,
       "within a rim, the other");
}

// ---- ends that meet, by blocks that go on at the other end

// What no step writes is read around its items, too.
#define ROUND(f, k, a, b)                                                      \
  celer::step<f, celer::margin<2 * k, k, k, 2 * k>, a, b, -1>
using round_margin = celer::margin<2 * K, K, K, 2 * K, true>;
using round_elements =
    celer::fold_elements<celer::element<4, 4>, celer::element<4, 4>>;
template <auto F> struct rounds {
  using fold = celer::fold<round_elements, ROUND(F, 3, 0, 1), ROUND(F, 2, 1, 0),
                           ROUND(F, 1, 0, 1), ROUND(F, 0, 1, 0)>;
  using entry = celer::entry<F>;
  using packed = typename entry::packed;
  static void run_one(const void *a) { // which asks at each item
    entry::run_all(*(const packed *)a, typename entry::sig::all());
  }
  static void run_tiles(const void *a) {
    fold::template tile<round_margin>(*(const typename fold::packed *)a);
  }
  template <bool Ahead> static void run_sheet(const void *a) {
    celer::sheet<round_margin, HIGH, Ahead, round_elements, ROUND(F, 3, 0, 1),
                 ROUND(F, 2, 1, 0), ROUND(F, 1, 0, 1),
                 ROUND(F, 0, 1, 0)>::run(*(const typename fold::packed *)a);
  }
  // A view that knows its buffer's edges; the value behind all.
  static void give_near(packed &p, int k, plane &of) {
    unsigned char *to = p.bytes + entry::sig::argument_at(k);
    auto &e = *(celer::edge<float> *)(to + 24);
    const int n[] = {of.h, of.w};
    float *origin = of.at.data();
    memcpy(to, &origin, 8);
    memcpy(to + 8, &of.pitch, 4);
    e = {};
    e.turn = 1;
    for (int d = 0; d < 2; ++d) {
      e.size[d] = e.low[d] = n[d];
      e.high[d] = -n[d];
      e.reach[d] = 2;
    }
  }
  static void give_all(packed &p, const area &all, plane &to, plane &from,
                       plane &by) {
    constexpr int last = entry::sig::count - 1;
    const float value = .25f;
    give(p, all, to, {&to}, 0);
    for (int k = 1; k < last; ++k) give_near(p, k, k == 1 ? from : by);
    memcpy(p.bytes + entry::sig::argument_at(last), &value, sizeof value);
  }
};

// All of it, or what may go on at the other end, in each dimension.
static area turning_part_of(int h, int w, const manner &m) {
  const int n[] = {h, w};
  const int size[] = {m.by == SHEET ? m.each * HIGH : 64,
                      m.by == SHEET ? 128 : 64};
  area a = {{0, 0}, {h, w}};
  for (int d = 0; d < 2; ++d) {
    if (pick(0, 2) == 0) continue;
    const int items = pick(1, n[d] - 4 * K);
    a.min[d] = pick(-20, std::min(2 * n[d] - size[d] - items, n[d] - 1));
    a.max[d] = a.min[d] + items;
  }
  return a;
}

// What a step computes of it, which grows to a side by `below` and `above`; as
// much as an array has of it is there, or all, and more.
static area turning(const area &chunk, int by, const area &all) {
  area a = chunk;
  for (int d = 0; d < 2; ++d) {
    if (chunk.max[d] - chunk.min[d] == all.max[d]) continue;
    a.min[d] -= (d == 0 ? 2 : 1) * by;
    a.max[d] += (d == 0 ? 1 : 2) * by;
  }
  return a;
}

template <class Of> static void torus(int h, int w, const manner &m) {
  const area all = {{0, 0}, {h, w}}, chunk = turning_part_of(h, w, m);
  plane up(h, w), u(h, w), to0 = up, to1 = u, was0 = up, was1 = u, by(h, w);
  typename Of::fold::packed p;
  typename Of::packed *step[] = {&p.steps.first, &p.steps.rest.first,
                                 &p.steps.rest.rest.first,
                                 &p.steps.rest.rest.rest.first};
  for (int s = 0; s < K; ++s) // one after another, all of it
    Of::give_all(*step[s], all, s % 2 == 0 ? up : u, s % 2 == 0 ? u : up, by);
  one_by_one(step, Of::run_one);
  area inner = all;
  for (int s = 0; s < K; ++s) {
    const area box = turning(chunk, K - 1 - s, all);
    for (int d = 0; d < 2; ++d) {
      step[s]->where.min[d] = box.min[d];
      step[s]->where.extent[d] = unsigned(box.max[d] - box.min[d]);
      inner.min[d] = std::max(inner.min[d], box.min[d]);
      inner.max[d] = std::min(inner.max[d], box.max[d]);
    }
  }
  area read = turning(chunk, K, all);
  for (int d = 0; d < 2; ++d)
    if (chunk.max[d] - chunk.min[d] == all.max[d]) {
      read.min[d] = -(1 << 30);
      read.max[d] = 1 << 30;
    }
  give_fold(p, *step[K - 1], inner, give(was0, to0, read),
            give(was1, to1, read));
  if (wrong == 1) --p.launch.where.range[1]; // where blocks turn
  if (wrong == 2) ++p.launch.where.min[0];   // what is left
  const int height = chunk.max[0] - chunk.min[0],
            width = chunk.max[1] - chunk.min[1];
  if (m.by == SHEET)
    launch_sheets(p, over(chunk.max[1] - (chunk.min[1] & -4), 128 - 12),
                  over(height, m.each * HIGH - 3 * K), m.each,
                  pick(0, 1) ? Of::template run_sheet<true>
                             : Of::template run_sheet<false>);
  else
    launch(p, over(width, 64 - 3 * K), over(height, 64 - 3 * K), 64, 8,
           Of::run_tiles);
  // What is not of the chunk was not touched.
  plane want0 = was0, want1 = was1;
  for (int i = chunk.min[0]; i < chunk.max[0]; ++i)
    for (int j = chunk.min[1]; j < chunk.max[1]; ++j) {
      const int y = (i + h) % h, x = (j + w) % w;
      want0.at[size_t(y) * up.pitch + x] = up.at[size_t(y) * up.pitch + x];
      want1.at[size_t(y) * u.pitch + x] = u.at[size_t(y) * u.pitch + x];
    }
  const size_t bytes = up.at.size() * sizeof(float);
  must(memcmp(want0.at.data(), to0.at.data(), bytes) == 0, "round ends");
  must(memcmp(want1.at.data(), to1.at.data(), bytes) == 0,
       "round ends, the other");
}

// ---- one dimension

#define FLOW(k, a, b) celer::step<&flow, celer::margin<0, 0, 2 * k, k>, a, b>
using flow_elements =
    celer::fold_elements<celer::element<4, 4>, celer::element<4, 4>>;
using flow_fold = celer::fold<flow_elements, FLOW(3, 0, 1), FLOW(2, 1, 0),
                              FLOW(1, 0, 1), FLOW(0, 1, 0)>;
using flow_stream =
    celer::stream<celer::margin<0, 0, 2 * K, K>, flow_elements, FLOW(3, 0, 1),
                  FLOW(2, 1, 0), FLOW(1, 0, 1), FLOW(0, 1, 0)>;
using flow_packed = celer::entry<&flow>::packed;

// Rows lie as far apart as elements take, whatever these are.
using short_stream = celer::stream<
    celer::margin<0, 0, 2, 1>,
    celer::fold_elements<celer::element<2, 2>, celer::element<1, 1>>,
    FLOW(0, 0, 1)>;
static_assert(sizeof(short_stream::piece<celer::element<2, 2>>) == 8 &&
              sizeof(short_stream::piece<celer::element<1, 1>>) == 4 &&
              sizeof(short_stream::piece<celer::element<12, 4>>) == 48);

static void run_flow(const void *a) {
  celer::entry<&flow>::run(*(const flow_packed *)a);
}
static void run_flow_stream(const void *a) {
  flow_stream::run(*(const flow_fold::packed *)a);
}

// Items [begin, end) of n.
static void row(int n, int begin, int end) {
  plane a(1, n), b(1, n), fa = a, fb = b, to = a, tob = b;
  flow_fold::packed p;
  flow_packed *step[] = {&p.steps.first, &p.steps.rest.first,
                         &p.steps.rest.rest.first,
                         &p.steps.rest.rest.rest.first};
  int inner[2] = {0, n};
  for (int s = 0; s < K; ++s) {
    const int from = std::max(begin - 2 * (K - 1 - s), 0);
    const int stop = std::min(end + K - 1 - s, n);
    std::vector<plane *> views = {&a, &b};
    if (s % 2 == 1) views = {&b, &a};
    give(*step[s], area{{from, 0}, {stop, 1}}, a, views, .25f);
    step[s]->where.range[0] = n;
    inner[0] = std::max(inner[0], from);
    inner[1] = std::min(inner[1], stop);
  }
  const area read = {{0, std::max(begin - 2 * K, 0)},
                     {1, std::min(end + K, n)}};
  p.array.at[0] = give(fa, to, read);
  p.array.at[1] = give(fb, tob, read);
  if (wrong == 1) p.array.at[1].loads = 0; // the kernel leaves some out
  p.launch.where = step[K - 1]->where;
  p.launch.where.flags = 1;
  p.launch.inner_min[1] = inner[0];
  p.launch.inner_max[1] = inner[1];
  for (flow_packed *s : step) {
    s->where.flags = 3;
    launch(*s, over(int(s->where.extent[0]), 256 * 4), 1, 256, 1, run_flow);
  }
  launch(p, over(end - (begin & -4), 128 - 2 * K - K), 1, 32, 1,
         run_flow_stream);
  for (int i = 0; i < n; ++i) {
    const bool own = i >= begin && i < end;
    must(memcmp(&to.at[i], own ? &a.at[i] : &fa.at[i], 4) == 0, "a row");
    must(memcmp(&tob.at[i], own ? &b.at[i] : &fb.at[i], 4) == 0, "the other");
  }
}

// ---- chains: y = a(x), z = b(y, x), x = c(z), with y left out

#define PLAIN(f, ...) celer::step<&f, celer::margin<0, 0, 0, 0>, __VA_ARGS__>
using chain_fold =
    celer::fold<celer::fold_elements<celer::element<4, 4>, celer::element<4, 4>,
                                     celer::element<4, 4>>,
                PLAIN(first, 0, 1), PLAIN(second, 1, 0, 2), PLAIN(third, 2, 0)>;

static void run_chain(const void *a) {
  chain_fold::chain(*(const chain_fold::packed *)a);
}
static void run_first(const void *a) {
  celer::entry<&first>::run(*(const celer::entry<&first>::packed *)a);
}
static void run_second(const void *a) {
  celer::entry<&second>::run(*(const celer::entry<&second>::packed *)a);
}
static void run_third(const void *a) {
  celer::entry<&third>::run(*(const celer::entry<&third>::packed *)a);
}

static void chains(int h, int w, const area &chunk) {
  plane x(h, w), y(h, w), z(h, w), fx = x, fy = y, fz = z;
  chain_fold::packed p;
  give(p.steps.first, chunk, x, {&x, &y}, 0);
  give(p.steps.rest.first, chunk, x, {&y, &x, &z}, 0);
  give(p.steps.rest.rest.first, chunk, x, {&z, &x}, 0);
  p.launch.where = p.steps.first.where;
  p.launch.where.flags = 1;
  p.array.at[0] = give(fx, fx, chunk);
  p.array.at[1] = give(fy, fy, chunk);
  p.array.at[2] = give(fz, fz, chunk);
  p.array.at[1].loads = p.array.at[1].stores = 0;
  if (wrong > 0) p.array.at[2].loads = 0; // the kernel leaves some out
  const unsigned gx = over(chunk.max[1] - chunk.min[1], 32);
  const unsigned gy = over(chunk.max[0] - chunk.min[0], 16);
  p.steps.first.where.flags = p.steps.rest.first.where.flags =
      p.steps.rest.rest.first.where.flags = 1;
  launch(p.steps.first, gx, gy, 32, 8, run_first);
  launch(p.steps.rest.first, gx, gy, 32, 8, run_second);
  launch(p.steps.rest.rest.first, gx, gy, 32, 8, run_third);
  const plane before = fy;
  launch(p, gx, gy, 32, 8, run_chain);
  const size_t bytes = x.at.size() * sizeof(float);
  must(memcmp(x.at.data(), fx.at.data(), bytes) == 0, "x");
  must(memcmp(z.at.data(), fz.at.data(), bytes) == 0, "z");
  must(memcmp(before.at.data(), fy.at.data(), bytes) == 0, "y, left out");
}

// ---- the same, and sums of x and of x * y at its end

using sum_fold =
    celer::fold<celer::fold_elements<celer::element<4, 4>, celer::element<4, 4>,
                                     celer::element<4, 4>>,
                PLAIN(first, 0, 1), PLAIN(second, 1, 0, 2), PLAIN(third, 2, 0),
                PLAIN(total, 0, -1, 1, -1)>;
using total_entry = celer::entry<&total>;

static void run_sum(const void *a) {
  sum_fold::chain(*(const sum_fold::packed *)a);
}
static void run_total(const void *a) {
  total_entry::run(*(const total_entry::packed *)a);
}

struct sums {
  float sum;
  double squares;
};

static void give_sums(total_entry::packed &p, sums &to) {
  auto &sum =
      *(celer::reduced<float> *)(p.bytes + total_entry::sig::argument_at(1));
  auto &squares =
      *(celer::reduced<double> *)(p.bytes + total_entry::sig::argument_at(3));
  sum = {};
  squares = {};
  sum.row = &to.sum;
  squares.row = &to.squares;
}

static void give_total(total_entry::packed &p, const area &chunk, plane &x,
                       plane &y, sums &to, unsigned lane) {
  total_entry::packed two;
  give(p, chunk, x, {&x, &y}, 0);
  two = p;
  memcpy(p.bytes + total_entry::sig::argument_at(2), two.bytes + 24, 24);
  give_sums(p, to);
  p.where.flags = lane;
}

static void sums_of_chains(int h, int w, const area &chunk) {
  plane x(h, w), y(h, w), z(h, w), fx = x, fy = y, fz = z;
  sum_fold::packed p;
  total_entry::packed by_itself;
  sums plain = {}, folded = {};
  give(p.steps.first, chunk, x, {&x, &y}, 0);
  give(p.steps.rest.first, chunk, x, {&y, &x, &z}, 0);
  give(p.steps.rest.rest.first, chunk, x, {&z, &x}, 0);
  p.array.at[0] = give(fx, fx, chunk);
  p.array.at[1] = give(fy, fy, chunk);
  p.array.at[2] = give(fz, fz, chunk);
  p.array.at[1].loads = 0;
  p.array.at[2].stores = 0;
  const unsigned gx = over(chunk.max[1] - chunk.min[1], 32);
  const unsigned gy = over(chunk.max[0] - chunk.min[0], 8);
  launch(p.steps.first, gx, gy, 32, 8, run_first);
  launch(p.steps.rest.first, gx, gy, 32, 8, run_second);
  launch(p.steps.rest.rest.first, gx, gy, 32, 8, run_third);
  give_total(by_itself, chunk, x, y, plain, 3);
  give_total(p.steps.rest.rest.rest.first, chunk, x, y, folded, 5);
  p.launch.where = by_itself.where;
  // Fewer blocks than items have: they stride.
  const unsigned rx = std::min(gx, unsigned(pick(1, 3)));
  const unsigned ry = std::min(gy, unsigned(pick(1, 4)));
  launch(by_itself, rx, ry, 32, 8, run_total);
  const plane before = fz;
  launch(p, rx, wrong == 1 ? ry + 1 : ry, 32, 8, run_sum);
  const size_t bytes = x.at.size() * sizeof(float);
  must(memcmp(x.at.data(), fx.at.data(), bytes) == 0, "x");
  must(memcmp(y.at.data(), fy.at.data(), bytes) == 0, "y");
  must(memcmp(before.at.data(), fz.at.data(), bytes) == 0, "z, left out");
  must(memcmp(&plain.sum, &folded.sum, sizeof plain.sum) == 0, "the sum");
  must(memcmp(&plain.squares, &folded.squares, sizeof plain.squares) == 0,
       "the sum of squares");
}

static area part_of(int h, int w) {
  area a;
  a.min[0] = pick(0, h - 1);
  a.min[1] = pick(0, w - 1);
  a.max[0] = pick(a.min[0] + 1, h);
  a.max[1] = pick(a.min[1] + 1, w);
  return a;
}

int main(int argc, char **argv) {
  const char *what = argv[1];
  const bool sheets = strcmp(what, "sheet") == 0;
  const bool streams = sheets || strcmp(what, "stream") == 0;
  const bool tiled = streams || strcmp(what, "tile") == 0;
  const auto some = [&](int most) {
    return sheets    ? manner{SHEET, pick(3, 9)}
           : streams ? manner{STREAM, pick(1, most)}
                     : manner{TILE, 0};
  };
  if (argc > 2) wrong = atoi(argv[2]);
  for (int i = 0; i < 12 && strcmp(what, "torus") == 0; ++i) {
    torus<rounds<&corners>>(pick(64, 180), pick(64, 180), {TILE, 0});
    torus<rounds<&cross>>(pick(64, 180), pick(64, 180), {TILE, 0});
    const int warps = pick(3, 9), width = 128 + pick(0, 250);
    torus<rounds<&cross>>(pick(warps * HIGH, 110),
                          i % 2 == 0 ? width & -4 : width, {SHEET, warps});
  }
  for (int i = 0; i < 12; ++i) {
    const int h = pick(sheets ? 45 : streams ? 16 : 1, sheets ? 110 : 150);
    const int w = sheets    ? pick(128, 380)
                  : streams ? pick(16, 700)
                            : pick(1, 150);
    const area chunk = i % 3 == 0 ? area{{0, 0}, {h, w}} : part_of(h, w);
    if (tiled)
      tiles(h, w, chunk, some(40));
    else if (strcmp(what, "torus") == 0)
      break;
    else if (strcmp(what, "row") == 0)
      row(w * 16, i % 3 == 0 ? 0 : pick(0, w), pick(w + 1, w * 16));
    else if (strcmp(what, "sum") == 0)
      sums_of_chains(h, w, chunk);
    else
      chains(h, w, chunk);
  }
  if (streams && !sheets) tiles(130, 900, {{0, 0}, {130, 900}}, some(40));
  if (tiled && !streams) tiles(250, 200, {{0, 0}, {250, 200}}, some(0));
  for (int i = 0; i < 6 && tiled && !sheets; ++i) {
    const int h = pick(16, 90), w = pick(16, streams ? 600 : 150);
    rims<rimmed<&open>, false>(h, w, some(40));
    rims<rimmed<&through, -1>, true>(h, w, some(40));
  }
  // What is inner ends where the range does.
  if (streams && !sheets) tiles(24, 500, {{0, 0}, {24, 500}}, some(10));
  if (sheets) tiles(45, 128, {{0, 0}, {45, 128}}, {SHEET, 9});
  for (int i = 0; i < 6 && sheets; ++i) {
    const int h = pick(40, 90), w = pick(128, 300);
    const area chunk = i % 3 == 0 ? area{{0, 0}, {h, w}} : part_of(h, w);
    uneven_sheets(h, w, chunk, pick(4, 8));
  }
  if (tiled && !streams) tiles(172, 172, {{0, 0}, {172, 172}}, some(0));
  printf("alike\n");
}
