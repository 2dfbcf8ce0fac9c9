/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How long a peer may be silent before nothing of it may begin. Any thread reads and writes the
 * two numbers; each is true by itself, and no order between them is needed.
 */
#ifndef WEFT_BASE_SILENCE_H
#define WEFT_BASE_SILENCE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct silence {
	atomic_ulong last_ns; /* when the peer was last heard */
	atomic_ulong max_ns;  /* how long ago that may be; 0: any time */
};

static inline bool silence_is_too_long(const struct silence *silence, uint64_t now_ns)
{
	uint64_t max_ns = atomic_load_explicit(&silence->max_ns, memory_order_relaxed);
	uint64_t last_ns = atomic_load_explicit(&silence->last_ns, memory_order_relaxed);

	/* Turns of reactors do not begin at the same time: last_ns may lie ahead of now_ns. */
	return max_ns != 0 && now_ns > last_ns && now_ns - last_ns > max_ns;
}

#endif
