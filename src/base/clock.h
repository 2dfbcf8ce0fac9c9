/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Real time, for code outside the reactor (tools, logs). Code above the reactor asks
 * reactor_now_ns() instead, which the simulator controls.
 */
#ifndef WEFT_BASE_CLOCK_H
#define WEFT_BASE_CLOCK_H

#include <stdint.h>

#define NS_PER_US 1000ull
#define NS_PER_MS 1000000ull
#define NS_PER_S  1000000000ull

uint64_t clock_monotonic_ns(void);
uint64_t clock_realtime_ns(void);
/* CPU time this process / this thread has used. */
uint64_t clock_process_cpu_ns(void);
uint64_t clock_thread_cpu_ns(void);

#endif
