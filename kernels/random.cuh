// random.cuh -- random numbers that depend on nothing but who asks for them:
// Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3").
// Comes after celer.cuh where a source has the word philox.
//   philox random(seed, it.linear(), step);
//   const float x = random.uniform();
// Numbers are blocks of four, enciphered from a counter of 128 bits: which
// block of the stream (32), the step (32) and the item (64). The seed is the
// key.
#ifndef CELER_RANDOM_CUH
#define CELER_RANDOM_CUH

namespace celer {

struct random_block {
  uint32_t word[4];
};

CELER_FN random_block encipher(random_block c, uint32_t key0, uint32_t key1) {
#pragma unroll
  for (int round = 0; round < 10; ++round) {
    const uint64_t a = uint64_t(0xd2511f53u) * c.word[0];
    const uint64_t b = uint64_t(0xcd9e8d57u) * c.word[2];
    c = {{uint32_t(b >> 32) ^ c.word[1] ^ key0, uint32_t(b),
          uint32_t(a >> 32) ^ c.word[3] ^ key1, uint32_t(a)}};
    key0 += 0x9e3779b9u;
    key1 += 0xbb67ae85u;
  }
  return c;
}

// Number `draw` of a stream of doubles in [0, 1), in steps of 2^-53. Two words
// of a philox each: see uniform_double. Mirrored in lua/celer/run/philox.lua.
CELER_FN double philox_at(uint64_t seed, uint64_t item, uint64_t step = 0,
                          uint64_t draw = 0) {
  const random_block b = encipher({{uint32_t(draw >> 1), uint32_t(step),
                                    uint32_t(item), uint32_t(item >> 32)}},
                                  uint32_t(seed), uint32_t(seed >> 32));
  const bool odd = (draw & 1) != 0;
  const uint32_t high = (odd ? b.word[2] : b.word[0]) >> 5,
                 low = (odd ? b.word[3] : b.word[1]) >> 6;
  return (double(high) * 67108864 + low) * 1.1102230246251565e-16;
}

} // namespace celer

// A stream of 2^34 numbers of 32 bits.
class philox {
public:
  CELER_FN philox(uint64_t seed, uint64_t item, uint32_t step = 0)
      : seed(seed), item(item), step(step), drawn(0), block() {
  }

  CELER_FN uint32_t bits() {
    const uint32_t i = uint32_t(drawn & 3);
    if (i == 0)
      block = celer::encipher(
          {{uint32_t(drawn >> 2), step, uint32_t(item), uint32_t(item >> 32)}},
          uint32_t(seed), uint32_t(seed >> 32));
    ++drawn;
    // An index would put the block into memory on a GPU.
    return i == 0   ? block.word[0]
           : i == 1 ? block.word[1]
           : i == 2 ? block.word[2]
                    : block.word[3];
  }
  // A whole number from 0 to n - 1.
  CELER_FN uint32_t below(uint32_t n) {
    return uint32_t(uint64_t(bits()) * n >> 32);
  }
  // In [0, 1), in steps of 2^-24.
  CELER_FN float uniform() {
    return float(bits() >> 8) * 5.9604644775390625e-8f;
  }
  // The same in steps of 2^-53: two of its numbers.
  CELER_FN double uniform_double() {
    const uint32_t high = bits() >> 5, low = bits() >> 6;
    return (double(high) * 67108864 + low) * 1.1102230246251565e-16;
  }
  // Of mean 0 and variance 1.
  CELER_FN float normal() {
    const float far = sqrtf(-2 * logf(1 - uniform()));
    return far * cosf(6.2831853071795865f * uniform());
  }

private:
  uint64_t seed, item;
  uint32_t step;
  uint64_t drawn;
  celer::random_block block;
};

#endif
