// routed.cuh -- what items have pushed, brought where it belongs by one GPU
// that has all of it: for lua/celer/arrays/routed.lua. Comes after celer.cuh,
// group.cuh and radix.cuh.
//
// Each push has a place, its item's slots one after the other. The places are
// put in order by their keys, equal ones as they are: so what comes to a key is
// in the order of items, as engine/comm/route.c has it, and so are the bits.
// Few keys are counted instead, and then values go where they belong at once.
#ifndef CELER_ROUTED_CUH
#define CELER_ROUTED_CUH

#include "radix.cuh"
#include "route.cuh"

namespace celer {

// The first of n numbers in order that is no less than `key`.
CELER_FN int64_t lower_bound(const uint32_t *sorted, int64_t n, uint32_t key) {
  int64_t low = 0;
  while (low < n) {
    const int64_t middle = (low + n) / 2;
    if (sorted[middle] < key)
      low = middle + 1;
    else
      n = middle;
  }
  return low;
}

// What groups of one launch know of each other's work, of so many phases: how
// many pieces were taken, and are done of each phase. All 0 at first, and again
// once all groups have left.
struct pieces_state {
  uint32_t next, left, none, passes, done[8];

  // Calls work(phase, piece) for all pieces, of which a phase has so many as
  // pieces(phase) says; negative: there is no such phase. Groups take pieces by
  // a counter, those of one phase after the other, and begin none before all of
  // the phase before are done. So a group waits only for what groups have
  // begun. What a phase wrote is seen after. Where pieces(phase) depends on
  // what earlier phases found, it may ask once all but the last of these are
  // done. `one`: a word of the group. Ahead: a group takes its next piece
  // before it works on one, which no piece of the same phase may then wait for.
  template <bool Ahead, class Pieces, class Work>
  CELER_FN void run(const group<1> &g, uint32_t *one, const Pieces &pieces,
                    const Work &work) {
    const int me = g.local(0);
    uint32_t taken = 0, done_here = 0;
    int64_t begin = 0;
    if (Ahead && me == 0) taken = atomicAdd(&next, 1u);
    for (int phase = 0;;) {
      if (me == 0) *one = Ahead ? taken : atomicAdd(&next, 1u);
      g.barrier();
      const int64_t piece = *one;
      g.barrier();
      for (;;) {
        const int64_t n = pieces(phase);
        if (piece - begin < n) break;
        if (done_here > 0) finish(g, phase, done_here);
        if (pieces(phase + 1) < 0) {
          if (me == 0) leave(g, phase + 1);
          return;
        }
        done_here = 0;
        wait(g, phase++, n);
        begin += n;
      }
      if (Ahead && me == 0) taken = atomicAdd(&next, 1u); // on its way
      work(phase, piece - begin);
      g.barrier();
      ++done_here;
    }
  }

private:
  CELER_FN void wait(const group<1> &g, int phase, int64_t pieces) {
    if (g.local(0) == 0) {
      while (heard(&done[phase]) < pieces) {
      }
      fence();
    }
    g.barrier();
  }
  CELER_FN void finish(const group<1> &g, int phase, uint32_t pieces) {
    g.barrier();
    if (g.local(0) != 0) return;
    fence();
    atomicAdd(&done[phase], pieces);
  }
  // One item of each group, which takes nothing any more.
  CELER_FN void leave(const group<1> &g, int phases) {
    if (atomicAdd(&left, 1u) + 1 < g.range(0) / g.size(0)) return;
    next = left = none = 0;
    for (int p = 0; p < phases; ++p) done[p] = 0;
  }
};

// Slots that lie apart: see route.cuh. Keys have 32 bits. `T`: what is pushed.
// `row`: words from the counts to the keys that were pushed first, and from
// those to the next ones; `value_row`: bytes from values to the next ones;
// `pitch`: from an item's value to the next item's. `end`: keys that there are,
// and the key of what was not pushed. `Most`: slots of an item where the
// compiler is to know, or 0.
template <class T, int Most> struct routed {
  const uint32_t *at;
  const char *values;
  uint32_t items, given, row;
  int64_t value_row;
  uint32_t pitch, end;
  static constexpr int block = 64; // CEL_ROUTE_BLOCK

  CELER_FN uint32_t most() const {
    return Most > 0 ? Most : given;
  }
  CELER_FN int64_t places() const {
    return int64_t(items) * most();
  }
  CELER_FN T value(uint32_t place) const {
    const char *const from =
        values + place % most() * value_row + int64_t(place / most()) * pitch;
    if constexpr (alignof(T) <= sizeof(word)) return *(const T *)from;
    T out;
    memcpy(&out, from, sizeof(T));
    return out;
  }
  CELER_FN uint32_t key(uint32_t place, uint32_t *pushes) const {
    const uint32_t item = place / most(), k = place % most();
    const uint32_t found = at[int64_t(1 + k) * row + item]; // beside the count
    *pushes = at[item];
    return *pushes <= most() && k < *pushes ? found : end;
  }

  // What is wrong, all 0 at first: how often the item has pushed that did so
  // most, above the complement of its number; the complement of the number of
  // the first item of which a key leads nowhere, and later that key; how many
  // values there are in bins without so much room.
  static CELER_FN void complain(unsigned long long *wrong, int64_t item,
                                uint32_t pushes) {
    if (pushes >= leads_nowhere)
      atomicMax(&wrong[1], ~(unsigned long long)item);
    else
      atomicMax(&wrong[0], (unsigned long long)pushes << 32 | ~uint32_t(item));
  }

  CELER_FN void name_key(unsigned long long *wrong) const {
    if (wrong[1] != 0)
      wrong[2] = *(const word *)(values + int64_t(~wrong[1]) * pitch);
  }

  // Calls take(place, key, times) for places [first, last): so often the key is
  // to be counted there. What items of a warp push first mostly has the same
  // key, and so has what they push next: then that is counted at once.
  template <class Take>
  CELER_FN void each_key(const group<1> &g, int64_t first, int64_t last,
                         unsigned long long *wrong, uint64_t *room_of_warps,
                         const Take &take) const {
    const warp w = {g, room_of_warps};
    const int me = g.local(0), size = g.size(0);
    const uint32_t n = most();
    const int by = n == 2 || n == 4 || n == 8 ? n : 1;
    const uint32_t like_me = ~0u / ((1u << by) - 1) << (w.lane() & (by - 1));
    constexpr int ahead = 4;
    for (int64_t begin = first; begin < last; begin += ahead * size) {
      uint32_t some[ahead], pushes[ahead]; // all on their way
#pragma unroll
      for (int j = 0; j < ahead; ++j) {
        const int64_t place = begin + j * size + me;
        some[j] = end;
        pushes[j] = 0;
        if (place < last) some[j] = key(uint32_t(place), &pushes[j]);
      }
#pragma unroll
      for (int j = 0; j < ahead; ++j) {
        const int64_t place = begin + j * size + me;
        const bool is_in = place < last;
        const uint32_t k = some[j];
        if (pushes[j] > n && place % n == 0)
          complain(wrong, place / n, pushes[j]);
        const uint32_t leader = w.of(k, w.lane() & (by - 1));
        const uint32_t in = w.ballot(is_in) & like_me;
        const bool is_alike = w.ballot(is_in && k == leader) == ~0u;
        if (is_in)
          take(place, k, !is_alike ? 1u : w.lane() < by ? ones(in) : 0u);
      }
    }
  }

  // Writes the keys of places [first, last), and counts their lowest digits,
  // so many; `mine` are Passes * 256 words of the group. Whether a place holds
  // nothing is noted in `*none`.
  template <int Passes>
  CELER_FN void keys(const group<1> &g, int64_t first, int64_t last,
                     uint32_t *to, uint32_t *counts, uint32_t *none,
                     unsigned long long *wrong, uint32_t *mine,
                     uint64_t *room_of_warps) const {
    using digits = radix<uint32_t, false>;
    const int me = g.local(0), size = g.size(0);
    for (int k = me; k < Passes * 256; k += size) mine[k] = 0;
    g.barrier();
    each_key(g, first, last, wrong, room_of_warps,
             [&](int64_t place, uint32_t k, uint32_t times) {
               to[place] = k;
               if (k == end) tell(none, 1u);
               if (times == 0) return;
#pragma unroll
               for (int p = 0; p < Passes; ++p)
                 atomicAdd(&mine[p * 256 + digits::digit(k, p)], times);
             });
    g.barrier();
    for (int k = me; k < Passes * 256; k += size)
      if (mine[k] != 0) atomicAdd(&counts[k], mine[k]);
  }

  // Where keys and their places are after so many passes, of four times as many
  // words as there are places.
  CELER_FN uint32_t *keys_of(uint32_t *at, int passes) const {
    return at + (passes & 1) * places();
  }
  template <class W> CELER_FN W *order_of(W *at, int passes) const {
    return at + (2 + (passes & 1)) * places();
  }

  static CELER_FN pieces_state *sort_state(const uint32_t *state) {
    return (pieces_state *)radix<uint32_t, false>{(uint32_t *)state, 0}.taken(
        4);
  }

  // Puts the places in order by their keys, and then calls finish(piece,
  // sorted, places) for so many pieces. All by one launch of groups of Threads
  // items. Phases: keys; a pass for each digit; the end, which also leaves the
  // state all 0 again, but for the number of passes. As many as keys below
  // `end` take are enough if each place has one.
  template <int Passes, int Fewer, int Threads, int Each, class Finish>
  CELER_FN void
  sort(const group<1> &g, uint32_t *at, uint32_t *state, int64_t counting,
       int64_t finishing, unsigned long long *wrong, unsigned char *room,
       uint32_t *few, uint64_t *room_of_warps, const Finish &finish) const {
    using pass = radix_pass<uint32_t, false, Threads, Each>;
    const int64_t n = places(), tiles = (n + pass::tile - 1) / pass::tile;
    const pass sorting = {{state, tiles}};
    pieces_state *const all = sort_state(state);
    const int me = g.local(0);
    int passes = 0; // not known
    const auto pieces = [&](int phase) -> int64_t {
      if (phase > 1 && passes == 0)
        passes = heard(&all->none) != 0 ? Passes : Fewer;
      return phase == 0            ? counting
             : phase == 1          ? tiles
             : phase <= passes     ? tiles
             : phase == passes + 1 ? finishing
                                   : -1;
    };
    all->run<false>(g, few, pieces, [&](int phase, int64_t piece) {
      if (phase == 0)
        return keys<Passes>(g, n * piece / counting, n * (piece + 1) / counting,
                            keys_of(at, 0), state, &all->none, wrong,
                            (uint32_t *)room, room_of_warps);
      const int p = phase - 1;
      if (phase == 1 || phase <= passes)
        return sorting.run(g, keys_of(at, p), keys_of(at, p + 1),
                           p > 0 ? order_of(at, p) : nullptr,
                           order_of(at, p + 1), n, p, room, few, room_of_warps,
                           piece);
      finish(piece, keys_of(at, passes), order_of(at, passes));
      uint32_t *const told = sorting.told(passes - 1, 0);
      const int64_t words = tiles * 256;
      for (int64_t k = words * piece / finishing + me;
           k < words * (piece + 1) / finishing; k += Threads)
        told[k] = 0;
      for (int k = me; k < Passes * 256 && piece == 0; k += Threads)
        state[k] = 0;
      if (me == 0 && piece == 0) all->passes = passes;
    });
  }

  // Where key i begins, up to `end`.
  CELER_FN int64_t begin_of(int64_t i, const uint32_t *sorted) const {
    return lower_bound(sorted, places(), uint32_t(i));
  }

  // A group's part of what was appended, one of so many: where bins begin, and
  // behind them the end of all, which stands in `count`, too; and the elements,
  // for which there is so much room.
  CELER_FN void append(const group<1> &g, int64_t part, int64_t parts,
                       const uint32_t *sorted, const uint32_t *order,
                       int64_t *offsets, T *into, int64_t *count, int64_t room,
                       unsigned long long *wrong) const {
    const int64_t n = places(), bins = int64_t(end) + 1, size = g.size(0);
    const int me = g.local(0);
    if (part == 0 && me == 0) name_key(wrong);
    for (int64_t i = bins * part / parts + me; i < bins * (part + 1) / parts;
         i += size) {
      const int64_t at = begin_of(i, sorted);
      offsets[i] = at < room ? at : room;
      if (i != int64_t(end)) continue;
      *count = offsets[i];
      if (at > room) wrong[3] = at;
    }
    const int64_t last = room * (part + 1) / parts;
    constexpr int ahead = 4;
    for (int64_t i = room * part / parts + me; i < last; i += ahead * size) {
      uint32_t from[ahead]; // all on their way; and then their values
      bool is_in[ahead];
#pragma unroll
      for (int j = 0; j < ahead; ++j) {
        const int64_t k = i + j * size;
        is_in[j] = k < last && k < n && sorted[k] < end;
        from[j] = is_in[j] ? order[k] : 0;
      }
      T found[ahead];
#pragma unroll
      for (int j = 0; j < ahead; ++j)
        if (is_in[j])
          found[j] = value(from[j]);
        else
          memset((void *)&found[j], 0, sizeof(T));
#pragma unroll
      for (int j = 0; j < ahead; ++j)
        if (i + j * size < last) into[i + j * size] = found[j];
    }
  }

  // Combines what came to one key, value_at(k) for k from `begin` to `stop`,
  // number by number, into E[Width] at `to`, by blocks: engine/comm/route.h.
  // The items of a group fetch Some values at once, and then each has a number
  // of a block. `staged`: room for those, and as many more as there are blocks
  // among them, so that blocks lie in different banks.
  template <class E, int Width, class Combine, int Some, class ValueAt>
  static CELER_FN void combine(const group<1> &g, uint32_t begin, uint32_t stop,
                               const ValueAt &value_at, E *to, bool keep,
                               E identity, T *staged) {
    static_assert(Some % block == 0, "whole blocks");
    const int me = g.local(0), size = g.size(0);
    E sum = identity;
    if (keep && me < Width) sum = to[me];
    for (int64_t at = begin; at < stop; at += Some) {
      const int count = int(stop - at < Some ? stop - at : Some);
      constexpr int ahead = 8;
      for (int k = me; k < count; k += ahead * size) {
        T next[ahead];
#pragma unroll
        for (int j = 0; j < ahead; ++j)
          if (k + j * size < count) next[j] = value_at(at + k + j * size);
#pragma unroll
        for (int j = 0; j < ahead; ++j) {
          const int i = k + j * size;
          if (i < count) staged[i + i / block] = next[j];
        }
      }
      g.barrier();
      const int blocks = (count + block - 1) / block;
      for (int i = me; i < blocks * Width; i += size) {
        const int b = i / Width, n = count - b * block;
        E *const from = (E *)&staged[b * (block + 1)] + i % Width;
        E part = from[0];
        if (b == 0 && at == begin) part = Combine()(sum, part);
        if (n >= block) {
#pragma unroll 16
          for (int k = 1; k < block; ++k)
            part = Combine()(part, from[k * Width]);
        } else {
          for (int k = 1; k < n; ++k) part = Combine()(part, from[k * Width]);
        }
        from[0] = part;
      }
      g.barrier();
      if (me < Width) {
        const E *const parts = (const E *)staged + me;
        if (at == begin) sum = parts[0];
#pragma unroll 4
        for (int b = at == begin ? 1 : 0; b < blocks; ++b)
          sum = Combine()(sum, parts[b * (block + 1) * Width]);
      }
      g.barrier();
    }
    if (me < Width) to[me] = sum;
  }
  // The same by one item.
  template <class E, int Width, class Combine, class ValueAt>
  static CELER_FN void combine(uint32_t begin, uint32_t stop,
                               const ValueAt &value_at, E *to, bool keep,
                               E identity) {
    E sum[Width], part[Width];
    for (int c = 0; c < Width; ++c) sum[c] = keep ? to[c] : identity;
    constexpr int ahead = 8;
    static_assert(block % ahead == 0, "a block begins with others");
    for (int64_t at = begin; at < stop; at += ahead) {
      T next[ahead];
#pragma unroll
      for (int k = 0; k < ahead; ++k)
        if (at + k < stop) next[k] = value_at(at + k);
      if (at - begin >= block) {
        const bool is_new = (at - begin) % block == 0;
        if (is_new && at - begin > block)
          for (int c = 0; c < Width; ++c) sum[c] = Combine()(sum[c], part[c]);
        for (int k = 0; k < ahead; ++k)
          if (at + k < stop)
            for (int c = 0; c < Width; ++c) {
              const E b = ((const E *)&next[k])[c];
              part[c] = is_new && k == 0 ? b : Combine()(part[c], b);
            }
        continue;
      }
#pragma unroll
      for (int k = 0; k < ahead; ++k)
        if (at + k < stop)
          for (int c = 0; c < Width; ++c)
            sum[c] = Combine()(sum[c], ((const E *)&next[k])[c]);
    }
    for (int c = 0; c < Width; ++c)
      to[c] = stop - begin > block ? Combine()(sum[c], part[c]) : sum[c];
  }
};

// Memory of a group, for whatever it is.
struct alignas(64) room_line {
  unsigned char at[64];
};

// The same for few keys, of so few bits. A piece is some tiles on end, each of
// Threads * Each places. Three phases: the keys of each piece are counted; a
// scan finds where the first value of each key goes in each piece; values go
// there, tile after tile of a piece, and in a tile in their order.
template <class T, int Most, int Bits, int Threads, int Each>
struct routed_few : routed<T, Most> {
  using base = routed<T, Most>;
  static constexpr int keys = 1 << Bits;
  static constexpr int warps = Threads / 32, tile = Threads * Each;
  static constexpr int most_pieces = 256;
  // Of memory of a group: bytes at least, more where it combines; and words.
  static constexpr int room = warps * keys * 2;
  static constexpr int words = keys + warps;
  static_assert(room >= 4 * keys && room >= 4 * Threads,
                "there is room for counts of a group, and for sums of items");

  // What groups share, in words: their work; where each key begins; how many
  // values it has; and of each piece how many values there are of a key, and
  // then how many in the pieces before it.
  enum { begins_at = 16, totals_at = begins_at + keys + 32 };
  enum { table_at = totals_at + keys };
  static_assert(sizeof(pieces_state) <= 4 * begins_at, "there is room for it");
  uint32_t *state;
  int64_t pieces;
  unsigned long long *wrong;

  const group<1> &g;
  unsigned char *own;
  uint32_t *few; // of each key where its next value goes; a word of each warp
  uint64_t *room_of_warps;

  CELER_FN uint32_t *begins() const {
    return state + begins_at;
  }
  CELER_FN uint32_t *row(int64_t piece) const {
    return state + table_at + piece * keys;
  }
  CELER_FN int64_t tile_of(int64_t piece) const {
    return (base::places() + tile - 1) / tile * piece / pieces;
  }

  CELER_FN void count(int64_t piece) const {
    uint32_t *const mine = (uint32_t *)own;
    const int me = g.local(0);
    for (int k = me; k < keys; k += Threads) mine[k] = 0;
    g.barrier();
    base::each_key(g, tile_of(piece) * tile,
                   min(tile_of(piece + 1) * tile, base::places()), wrong,
                   room_of_warps, [&](int64_t, uint32_t k, uint32_t times) {
                     if (times > 0 && k < base::end) atomicAdd(&mine[k], times);
                   });
    g.barrier();
    for (int k = me; k < keys; k += Threads) row(piece)[k] = mine[k];
  }

  // Of 32 keys how many values there are in the pieces before each one; each
  // warp has some pieces on end.
  CELER_FN void scan(int64_t part) const {
    const warp w = {g, room_of_warps};
    constexpr int each = (most_pieces + warps - 1) / warps;
    const int first = w.number() * each, me = g.local(0);
    uint32_t *const column = state + table_at + part * 32 + w.lane();
    uint32_t *const sums = (uint32_t *)own;
    uint32_t found[each], sum = 0;
#pragma unroll
    for (int k = 0; k < each; ++k)
      found[k] = first + k < pieces ? column[(first + k) * keys] : 0;
#pragma unroll
    for (int k = 0; k < each; ++k) sum += found[k];
    sums[me] = sum;
    g.barrier();
    uint32_t before = 0;
    for (int k = 0; k < w.number(); ++k) before += sums[k * 32 + w.lane()];
#pragma unroll
    for (int k = 0; k < each; ++k) {
      if (first + k < pieces) column[(first + k) * keys] = before;
      before += found[k];
    }
    if (w.number() == warps - 1)
      state[totals_at + part * 32 + w.lane()] = before;
  }

  // Where the next value of each key goes in a piece. Gives how many there are.
  // One piece calls start(key, where it begins), also for keys.
  template <class Start>
  CELER_FN int64_t begin(int64_t piece, const Start &start) const {
    const warp w = {g, room_of_warps};
    constexpr int each = (keys + Threads - 1) / Threads;
    uint32_t *const sums = few + keys;
    const int first = g.local(0) * each;
    uint32_t sum = 0;
    for (int k = first; k < first + each && k < keys; ++k)
      sum += state[totals_at + k];
    uint32_t upto = sum;
#pragma unroll
    for (int by = 1; by < 32; by *= 2) {
      const uint32_t other = w.of(upto, w.lane() - by);
      if (w.lane() >= by) upto += other;
    }
    if (w.lane() == 31) sums[w.number()] = upto;
    g.barrier();
    uint32_t at = upto - sum, total = 0;
    for (int k = 0; k < warps; ++k) {
      if (k < w.number()) at += sums[k];
      total += sums[k];
    }
    for (int k = first; k < first + each && k < keys; ++k) {
      if (piece == 0) start(k, at);
      few[k] = at + row(piece)[k];
      at += state[totals_at + k];
    }
    if (piece == 0 && g.local(0) == 0) {
      start(keys, total);
      base::name_key(wrong);
    }
    return total;
  }

  // Calls put(at, value) for the values of a piece.
  template <class Put>
  CELER_FN void place(int64_t piece, const Put &put) const {
    const warp w = {g, room_of_warps};
    const int me = g.local(0);
    uint16_t *const counts = (uint16_t *)own, *const mine =
                                                  counts + w.number() * keys;
    for (int64_t t = tile_of(piece); t < tile_of(piece + 1); ++t) {
      for (int k = me; k < warps * keys / 2; k += Threads)
        ((uint32_t *)own)[k] = 0;
      const int64_t first = t * tile + w.number() * 32 * Each + w.lane();
      uint32_t key[Each], at[Each];
#pragma unroll
      for (int i = 0; i < Each; ++i) {
        uint32_t pushes;
        key[i] = base::end;
        if (first + 32 * i < base::places())
          key[i] = base::key(uint32_t(first + 32 * i), &pushes);
      }
      g.barrier();
#pragma unroll
      for (int i = 0; i < Each; ++i) {
        const bool is_in = key[i] < base::end;
        const uint32_t k = key[i] & (keys - 1);
        const uint32_t alike = w.template match<Bits>(k) & w.ballot(is_in);
        const int last = highest(alike);
        uint32_t next = 0;
        if (is_in && w.lane() == last) {
          next = mine[k];
          mine[k] = uint16_t(next + ones(alike));
        }
        at[i] = w.of(next, last) + ones(alike & ((1u << w.lane()) - 1));
        w.wait();
      }
      g.barrier();
      uint32_t total[(keys + Threads - 1) / Threads];
#pragma unroll
      for (int j = 0; j * Threads < keys; ++j) {
        const int k = me + j * Threads;
        total[j] = 0;
        if (k >= keys) continue;
#pragma unroll
        for (int v = 0; v < warps; ++v) {
          const uint32_t c = counts[v * keys + k];
          counts[v * keys + k] = uint16_t(total[j]);
          total[j] += c;
        }
      }
      g.barrier();
      constexpr int ahead = sizeof(T) > 16 ? 1 : Each;
#pragma unroll
      for (int i = 0; i < Each; i += ahead) {
        T found[ahead];
#pragma unroll
        for (int j = 0; j < ahead; ++j)
          if (key[i + j] < base::end)
            found[j] = base::value(uint32_t(first + 32 * (i + j)));
#pragma unroll
        for (int j = 0; j < ahead; ++j)
          if (const uint32_t k = key[i + j]; k < base::end)
            put(few[k] + mine[k] + at[i + j], found[j]);
      }
      g.barrier();
#pragma unroll
      for (int j = 0; j * Threads < keys; ++j)
        if (me + j * Threads < keys) few[me + j * Threads] += total[j];
    }
  }

  // Calls start(key, at) where a key begins, and put(at, value) for each value;
  // for each piece finish(piece, values in all); and then combine(piece) for so
  // many pieces more, or, where that is negative, for none. By one launch.
  template <class Start, class Put, class Finish, class Combine>
  CELER_FN void run(int64_t combining, const Start &start, const Put &put,
                    const Finish &finish, const Combine &combine) const {
    const auto pieces_of = [&](int phase) -> int64_t {
      return phase == 1   ? keys / 32
             : phase == 3 ? combining
             : phase < 3  ? pieces
                          : -1;
    };
    ((pieces_state *)state)
        ->run<true>(g, few, pieces_of, [&](int phase, int64_t p) {
          if (phase == 0) return count(p);
          if (phase == 1) return scan(p);
          if (phase == 3) return combine(p);
          const int64_t total = begin(p, start);
          place(p, put);
          finish(p, total);
        });
  }

  // Appends all, as routed::append does.
  CELER_FN void append(int64_t *offsets, T *into, int64_t *count,
                       int64_t most) const {
    run(
        -1,
        [&](int64_t k, int64_t at) {
          if (k > base::end) return;
          offsets[k] = at < most ? at : most;
          if (k < base::end) return;
          *count = offsets[k];
          if (at > most) wrong[3] = at;
        },
        [&](int64_t at, const T &value) {
          if (at < most) into[at] = value;
        },
        [&](int64_t piece, int64_t total) {
          const int64_t behind = max(most - total, int64_t(0));
          const int64_t last = total + behind * (piece + 1) / pieces;
          for (int64_t i = total + behind * piece / pieces + g.local(0);
               i < last; i += Threads)
            memset((void *)&into[i], 0, sizeof(T));
        },
        [](int64_t) {});
  }

  // Combines what came to each key into E[Width] at `to`: by a group each,
  // which fetches Some values at once, or where that is 0 by an item. `sorted`:
  // room for all values.
  template <class E, int Width, class Combine, int Some>
  CELER_FN void combine(T *sorted, E *to, bool keep, E identity) const {
    const auto value_at = [&](int64_t k) { return sorted[k]; };
    run(
        Some > 0 ? base::end : (base::end + Threads - 1) / Threads,
        [&](int64_t k, int64_t at) { begins()[k] = uint32_t(at); },
        [&](int64_t at, const T &value) { sorted[at] = value; },
        [](int64_t, int64_t) {},
        [&](int64_t piece) {
          const int64_t k = Some > 0 ? piece : piece * Threads + g.local(0);
          if (k >= base::end) return;
          const uint32_t *const at = begins() + k;
          if constexpr (Some > 0)
            base::template combine<E, Width, Combine, Some>(
                g, at[0], at[1], value_at, to + k * Width, keep, identity,
                (T *)own);
          else
            base::template combine<E, Width, Combine>(
                at[0], at[1], value_at, to + k * Width, keep, identity);
        });
  }
};

} // namespace celer

#endif
