/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rate limits of log lines: at most ten per second for each call site, fewer for each peer. Any
 * thread; each call site or peer has its own state. Separate from log.c because libweft replaces
 * log.c with lib/log_route.c.
 */
#include "base/clock.h"
#include "base/log.h"

#define LOG_LINES_PER_WINDOW 10

static bool pass(struct log_limit *limit, uint32_t lines, uint64_t window_ns,
		 uint32_t *ret_held_back)
{
	/* Never 0: the initial value of an unused limit is 0. */
	uint64_t now_ns = clock_monotonic_ns() | 1;
	uint64_t start_ns = atomic_load_explicit(&limit->window_start_ns, memory_order_relaxed);

	*ret_held_back = 0;
	/* One thread opens the new window. A line of a thread that loses the race counts in either
	 * window. */
	if ((start_ns == 0 || now_ns - start_ns >= window_ns) &&
	    atomic_compare_exchange_strong(&limit->window_start_ns, &start_ns, now_ns))
		atomic_store(&limit->passed, 0);
	if (atomic_fetch_add(&limit->passed, 1) >= lines) {
		atomic_fetch_add(&limit->held_back, 1);
		return false;
	}
	*ret_held_back = atomic_exchange(&limit->held_back, 0);
	return true;
}

bool log_limit_pass(struct log_limit *limit, uint32_t *ret_held_back)
{
	return pass(limit, LOG_LINES_PER_WINDOW, NS_PER_S, ret_held_back);
}

bool log_peer_pass(struct log_limit *limit, uint32_t *ret_held_back)
{
	*ret_held_back = 0;
	return log_get_level() >= LOG_LEVEL_DEBUG ||
	       pass(limit, LOG_PEER_LINES, LOG_PEER_WINDOW_S * NS_PER_S, ret_held_back);
}
