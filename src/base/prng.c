/* SPDX-License-Identifier: Apache-2.0 */
/*
 * xoshiro256** (Blackman and Vigna, 2018), its state filled by splitmix64 from one seed.
 *
 * Runs on the thread of the struct's owner; nothing is shared. The same seed gives the same
 * sequence on every machine, because the simulator reports a failure as a seed.
 */
#include "base/prng.h"

#include "base/check.h"

#include <string.h>

static uint64_t prng_rotate_left(uint64_t value, unsigned bits)
{
	return value << bits | value >> (64 - bits);
}

void prng_seed(struct prng *prng, uint64_t seed)
{
	for (unsigned i = 0; i < 4; i++) {
		uint64_t mixed;

		seed += 0x9e3779b97f4a7c15ull;
		mixed = seed;
		mixed = (mixed ^ mixed >> 30) * 0xbf58476d1ce4e5b9ull;
		mixed = (mixed ^ mixed >> 27) * 0x94d049bb133111ebull;
		prng->state[i] = mixed ^ mixed >> 31;
	}
}

uint64_t prng_next(struct prng *prng)
{
	uint64_t *s = prng->state;
	uint64_t result = prng_rotate_left(s[1] * 5, 7) * 9;
	uint64_t shifted = s[1] << 17;

	s[2] ^= s[0];
	s[3] ^= s[1];
	s[1] ^= s[2];
	s[0] ^= s[3];
	s[2] ^= shifted;
	s[3] = prng_rotate_left(s[3], 45);
	return result;
}

uint64_t prng_below(struct prng *prng, uint64_t bound)
{
	uint64_t reject_below, value;

	CHECK(bound > 0);
	/* 2^64 mod bound: the number of values to reject so that all results are equally likely. */
	reject_below = -bound % bound;
	do {
		value = prng_next(prng);
	} while (value < reject_below);
	return value % bound;
}

bool prng_one_in(struct prng *prng, uint64_t n)
{
	return prng_below(prng, n) == 0;
}

void prng_fill(struct prng *prng, void *buf, size_t len_bytes)
{
	uint8_t *to = buf;

	while (len_bytes > 0) {
		uint64_t value = prng_next(prng);
		size_t piece = len_bytes < sizeof(value) ? len_bytes : sizeof(value);

		memcpy(to, &value, piece);
		to += piece;
		len_bytes -= piece;
	}
}
