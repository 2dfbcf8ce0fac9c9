/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How long a peer may be silent before its commands may no longer begin. Any thread reads and
 * writes the two numbers. Each number is valid by itself; no order between them is needed.
 */
#ifndef WEFT_BASE_SILENCE_H
#define WEFT_BASE_SILENCE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct silence {
	atomic_ulong last_ns; /* when the peer was last heard */
	atomic_ulong max_ns;  /* longest allowed time since last_ns; 0: no limit */
};

static inline bool silence_is_too_long(const struct silence *silence, uint64_t now_ns)
{
	uint64_t max_ns = atomic_load_explicit(&silence->max_ns, memory_order_relaxed);
	uint64_t last_ns = atomic_load_explicit(&silence->last_ns, memory_order_relaxed);

	/* last_ns may be later than now_ns, because turns of reactors begin at different times. */
	return max_ns != 0 && now_ns > last_ns && now_ns - last_ns > max_ns;
}

#endif
