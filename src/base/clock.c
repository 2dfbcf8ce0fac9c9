/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Real time from the kernel's clocks, in nanoseconds.
 *
 * Any thread. The monotonic clock is read through the vDSO: about 25 ns, no system call. The two
 * CPU clocks are system calls: use them for reports, not on the I/O path.
 */
#include "base/clock.h"

#include "base/check.h"

#include <time.h>

static uint64_t clock_read_ns(clockid_t id)
{
	struct timespec now;

	CHECK(clock_gettime(id, &now) == 0);
	return (uint64_t)now.tv_sec * NS_PER_S + (uint64_t)now.tv_nsec;
}

uint64_t clock_monotonic_ns(void)
{
	return clock_read_ns(CLOCK_MONOTONIC);
}

uint64_t clock_realtime_ns(void)
{
	return clock_read_ns(CLOCK_REALTIME);
}

uint64_t clock_process_cpu_ns(void)
{
	return clock_read_ns(CLOCK_PROCESS_CPUTIME_ID);
}

uint64_t clock_thread_cpu_ns(void)
{
	return clock_read_ns(CLOCK_THREAD_CPUTIME_ID);
}
