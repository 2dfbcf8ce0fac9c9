/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A small, fast, seedable generator (xoshiro256**, seeded by splitmix64). For load patterns and
 * simulation; never for keys.
 */
#ifndef WEFT_BASE_PRNG_H
#define WEFT_BASE_PRNG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct prng {
	uint64_t state[4];
};

void prng_seed(struct prng *prng, uint64_t seed);
uint64_t prng_next(struct prng *prng);
/* Uniform in [0, bound); bound > 0. */
uint64_t prng_below(struct prng *prng, uint64_t bound);
/* True once in `n` on average. */
bool prng_one_in(struct prng *prng, uint64_t n);
void prng_fill(struct prng *prng, void *buf, size_t len_bytes);

#endif
