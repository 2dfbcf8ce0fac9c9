/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Later network faults for the older worlds; see sim_late.h. One thread; strikes from the world's
 * simulated control reactor.
 */
#include "sim_late.h"

#include "base/clock.h"

/* Every seed from here on draws these faults; below, one seed in seven. */
#define LATE_SEEDS     100000
#define ONE_WAY_MAX_MS 4000

static uint32_t maybe(struct prng *prng, uint32_t low, uint32_t high)
{
	return prng_one_in(prng, 3) ? low + (uint32_t)prng_below(prng, high - low + 1) : 0;
}

void late_choose(struct late *late, uint64_t seed)
{
	if (seed < LATE_SEEDS && seed % 7 != 5)
		return;
	late->is_on = true;
	prng_seed(&late->prng, seed * 0xbf58476d1ce4e5b9ull + 11);
	late->one_way_one_in = maybe(&late->prng, 3, 30);
	late->limit_one_in = maybe(&late->prng, 2, 20);
	late->end_one_in = maybe(&late->prng, 3, 30);
	late->slow_ppm = maybe(&late->prng, 1000, 200000);
	late->flip_one_in = maybe(&late->prng, 100, 2000);
}

void late_shrink(struct late *late, bool (*feature)(void *arg, unsigned feature, bool is_chosen),
		 void *arg)
{
	uint32_t *const figures[LATE_FEATURES] = {
		[LATE_ONE_WAY] = &late->one_way_one_in, [LATE_LIMITS] = &late->limit_one_in,
		[LATE_END_EVENTS] = &late->end_one_in,  [LATE_SLOW] = &late->slow_ppm,
		[LATE_FLIPS] = &late->flip_one_in,
	};

	for (unsigned i = 0; i < LATE_FEATURES; i++) {
		if (!feature(arg, i, *figures[i] > 0))
			*figures[i] = 0;
	}
}

static bool strikes(struct late *late, uint32_t one_in)
{
	return one_in > 0 && prng_one_in(&late->prng, one_in);
}

void late_strike(struct late *late, struct sim *sim, unsigned number, const struct net_addr *server,
		 bool (*happens)(void *arg), void *arg)
{
	struct late_server *of = &late->servers[number];

	if (!late->is_on)
		return;
	if (of->one_way_until_ns == 0 && strikes(late, late->one_way_one_in)) {
		uint64_t ms = 1 + prng_below(&late->prng, ONE_WAY_MAX_MS);
		bool to_server = prng_one_in(&late->prng, 2);

		if (happens(arg)) {
			of->one_way_until_ns = sim_now(sim) + ms * NS_PER_MS;
			of->to_server = to_server;
			late->one_ways++;
			sim_net_partition_one_way(sim, server, to_server, true);
		}
	}
	if (strikes(late, late->limit_one_in)) {
		/* From a slow modem to a limit without effect. */
		uint64_t bytes_per_s = 20000ull << prng_below(&late->prng, 12);

		if (happens(arg)) {
			of->is_limited = true;
			late->limits++;
			sim_net_limit(sim, server, bytes_per_s);
		}
	}
	if (strikes(late, late->end_one_in)) {
		bool to_server = prng_one_in(&late->prng, 2);

		if (happens(arg))
			late->ends += sim_net_half_close(sim, server, to_server);
	}
}

void late_heal(struct late *late, struct sim *sim, unsigned number, const struct net_addr *server,
	       uint64_t now_ns)
{
	struct late_server *of = &late->servers[number];

	if (of->one_way_until_ns > 0 && of->one_way_until_ns <= now_ns) {
		of->one_way_until_ns = 0;
		sim_net_partition_one_way(sim, server, of->to_server, false);
	}
	if (of->is_limited && now_ns == UINT64_MAX) {
		of->is_limited = false;
		sim_net_limit(sim, server, 0);
	}
}

void late_flip(struct late *late, uint8_t *bytes, size_t len_bytes)
{
	if (len_bytes == 0 || !strikes(late, late->flip_one_in))
		return;
	late->flips++;
	bytes[prng_below(&late->prng, len_bytes)] ^= (uint8_t)(1u << prng_below(&late->prng, 8));
}

bool late_can_break(const struct late *late)
{
	return late->one_way_one_in || late->limit_one_in || late->end_one_in || late->slow_ppm ||
	       late->flip_one_in;
}
