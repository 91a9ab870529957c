// routed.cuh -- what items have pushed, brought where it belongs by one GPU
// that has all of it: for lua/celer/arrays/routed.lua. Comes after celer.cuh,
// group.cuh and radix.cuh.
//
// Each push has a place, its item's slots one after the other. The places are
// put in order by their keys, equal ones as they are: so what comes to a key is
// in the order of items, as engine/comm/route.c has it, and so are the bits.
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

// What groups know of each other's work: pieces that were taken, and that were
// done of each phase. All 0 at first, and again once all groups have left.
struct sort_state {
  uint32_t next, left, none, passes, done[8];

  static CELER_FN sort_state *in(uint32_t *state) {
    return (sort_state *)radix<uint32_t, false>{state, 0}.taken(4);
  }
  static CELER_FN uint32_t passes_of(const uint32_t *state) {
    return in((uint32_t *)state)->passes;
  }
  // Until so many pieces of a phase are done; what they wrote is seen after.
  CELER_FN void wait(const group<1> &g, int phase, int64_t pieces) {
    if (g.local(0) == 0) {
      while (heard(&done[phase]) < pieces) {
      }
      fence();
    }
    g.barrier();
  }
  // So many pieces of a phase are done.
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

// Slots of an arena, all counts and keys before all values. Keys have 32 bits.
// `T`: what is pushed. `end`: keys that there are, and the key of what was not
// pushed. `pitch`: bytes from an item's values to the next one's.
template <class T> struct routed {
  const uint32_t *at;
  const char *values;
  uint32_t items, most, pitch, end;
  static constexpr int block = 64; // CEL_ROUTE_BLOCK

  CELER_FN int64_t places() const {
    return int64_t(items) * most;
  }
  CELER_FN T value(uint32_t place) const {
    const char *const from = values + int64_t(place / most) * pitch;
    if constexpr (alignof(T) <= sizeof(word))
      return ((const T *)from)[place % most];
    T out;
    memcpy(&out, from + place % most * sizeof(T), sizeof(T));
    return out;
  }
  CELER_FN uint32_t key(uint32_t place, uint32_t *pushes) const {
    const uint32_t *const slot = at + int64_t(place / most) * (1 + most);
    const uint32_t k = place % most;
    const uint32_t found = slot[1 + k]; // on its way beside the count
    *pushes = slot[0];
    return *pushes <= most && k < *pushes ? found : end;
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

  // Writes the keys of places [first, last), and counts their lowest digits,
  // so many; `mine` are Passes * 256 words of the group. What items of a warp
  // push first mostly has the same key, and so has what they push next: then
  // that is counted at once. Whether a place holds nothing is noted in `*none`.
  template <int Passes>
  CELER_FN void keys(const group<1> &g, int64_t first, int64_t last,
                     uint32_t *to, uint32_t *counts, uint32_t *none,
                     unsigned long long *wrong, uint32_t *mine,
                     uint64_t *room_of_warps) const {
    using digits = radix<uint32_t, false>;
    const warp w = {g, room_of_warps};
    const int me = g.local(0), size = g.size(0);
    const int by = most == 2 || most == 4 || most == 8 ? most : 1;
    const uint32_t like_me = ~0u / ((1u << by) - 1) << (w.lane() & (by - 1));
    for (int k = me; k < Passes * 256; k += size) mine[k] = 0;
    g.barrier();
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
        if (is_in) to[place] = k;
        if (is_in && k == end) tell(none, 1u);
        if (pushes[j] > most && place % most == 0)
          complain(wrong, place / most, pushes[j]);
        const uint32_t leader = w.of(k, w.lane() & (by - 1));
        const uint32_t in = w.ballot(is_in) & like_me;
        const bool is_alike = w.ballot(is_in && k == leader) == ~0u;
        if (!is_in || (is_alike && w.lane() >= by)) continue;
#pragma unroll
        for (int p = 0; p < Passes; ++p)
          atomicAdd(&mine[p * 256 + digits::digit(k, p)],
                    is_alike ? uint32_t(ones(in)) : 1u);
      }
    }
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

  // Puts the places in order by their keys, and then calls finish(piece,
  // sorted, places) for so many pieces. All by one launch of groups of Threads
  // items: they take pieces of work by a counter, those of one phase after the
  // other, and begin none before all of the phase before are done. So a group
  // waits only for what groups have begun. Phases: keys; a pass for each digit;
  // the end, which also leaves the state all 0 again, but for the number of
  // passes. As many as keys below `end` take are enough if each place has one.
  template <int Passes, int Fewer, int Threads, int Each, class Finish>
  CELER_FN void
  sort(const group<1> &g, uint32_t *at, uint32_t *state, int64_t counting,
       int64_t finishing, unsigned long long *wrong, unsigned char *room,
       uint32_t *few, uint64_t *room_of_warps, const Finish &finish) const {
    using pass = radix_pass<uint32_t, false, Threads, Each>;
    const int64_t n = places(), tiles = (n + pass::tile - 1) / pass::tile;
    const pass sorting = {{state, tiles}};
    sort_state *const all = sort_state::in(state);
    const int me = g.local(0);
    int passes = Fewer, last = 0; // the phase of the pieces that this group has
    uint32_t done = 0;
    for (;;) {
      if (me == 0) *few = atomicAdd(&all->next, 1u);
      g.barrier();
      int64_t piece = *few;
      g.barrier();
      int phase = 0;
      if (piece >= counting) {
        if (last == 0) { // then it is known how many passes there are
          all->finish(g, 0, done);
          all->wait(g, 0, counting);
          if (heard(&all->none) != 0) passes = Passes;
          done = 0;
          last = 1;
        }
        piece -= counting;
        phase = int(min(piece / tiles, int64_t(passes))) + 1;
        piece -= (phase - 1) * tiles;
      }
      if (phase > last) {
        all->finish(g, last, done);
        all->wait(g, phase - 1, tiles);
        done = 0;
        last = phase;
      }
      if (phase > passes && piece >= finishing) break;
      if (phase == 0) {
        keys<Passes>(g, n * piece / counting, n * (piece + 1) / counting,
                     keys_of(at, 0), state, &all->none, wrong, (uint32_t *)room,
                     room_of_warps);
      } else if (phase <= passes) {
        const int p = phase - 1;
        sorting.run(g, keys_of(at, p), keys_of(at, p + 1),
                    p > 0 ? order_of(at, p) : nullptr, order_of(at, p + 1), n,
                    p, room, few, room_of_warps, piece);
      } else {
        finish(piece, keys_of(at, passes), order_of(at, passes));
        uint32_t *const told = sorting.told(passes - 1, 0);
        const int64_t words = tiles * 256;
        for (int64_t k = words * piece / finishing + me;
             k < words * (piece + 1) / finishing; k += Threads)
          told[k] = 0;
        for (int k = me; k < Passes * 256 && piece == 0; k += Threads)
          state[k] = 0;
        if (me == 0 && piece == 0) all->passes = passes;
      }
      ++done;
    }
    if (me == 0) all->leave(g, Passes + 2);
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

  // Combines what came to one key, the places from `begin` to `stop`, number by
  // number, into E[Width] at `to`, by blocks: engine/comm/route.h. The items of
  // a group fetch Some values at once, and then each has a number of a block.
  // `staged`: room for those, and as many more as there are blocks among them,
  // so that blocks lie in different banks.
  template <class E, int Width, class Combine, int Some>
  CELER_FN void combine(const group<1> &g, uint32_t begin, uint32_t stop,
                        const uint32_t *order, E *to, bool keep, E identity,
                        T *staged) const {
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
          if (k + j * size < count) next[j] = value(order[at + k + j * size]);
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
  template <class E, int Width, class Combine>
  CELER_FN void combine(uint32_t begin, uint32_t stop, const uint32_t *order,
                        E *to, bool keep, E identity) const {
    E sum[Width], part[Width];
    for (int c = 0; c < Width; ++c) sum[c] = keep ? to[c] : identity;
    constexpr int ahead = 8;
    static_assert(block % ahead == 0, "a block begins with others");
    for (int64_t at = begin; at < stop; at += ahead) {
      T next[ahead];
#pragma unroll
      for (int k = 0; k < ahead; ++k)
        if (at + k < stop) next[k] = value(order[at + k]);
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

} // namespace celer

#endif
