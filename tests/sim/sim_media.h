/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A simulated medium: blocks in memory behind a volatile write cache, with delays, errors and
 * losses decided by a seed. Any simulated reactor.
 */
#ifndef WEFT_TESTS_SIM_MEDIA_H
#define WEFT_TESTS_SIM_MEDIA_H

#include "media/media.h"

struct sim_media_options {
	uint64_t seed;
	uint64_t block_count;
	uint32_t block_bytes;
	uint32_t delay_max_us;
	uint32_t spike_one_in;       /* operations that take 100 times as long; 0: never */
	uint32_t error_one_in;       /* operations that fail; 0: never */
	uint32_t cancel_deaf_one_in; /* cancellations that are ignored; 0: never */
	bool has_volatile_cache;
	bool can_discard;
	bool reads_zero_after_discard;
};

struct media *sim_media_open(const struct sim_media_options *options);
/* Each block that is not stable is kept or lost; operations in flight fail. */
void sim_media_power_loss(struct media *media);
/* Ends errors and spikes. */
void sim_media_heal(struct media *media);
/* Number of media not closed yet. */
unsigned sim_media_open_count(void);

#endif
