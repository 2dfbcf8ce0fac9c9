/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The CPU time of another process of this machine, for `weft perf --watch-pid`: taken at the very
 * ends of the measured time, which nobody outside can hit.
 */
#ifndef WEFT_PERF_WATCH_H
#define WEFT_PERF_WATCH_H

#include <stdint.h>
#include <sys/types.h>

/* Nanoseconds that all living threads of `pid` have run. 0, or -errno when there is none. */
int perf_watch_cpu_ns(pid_t pid, uint64_t *ret_ns);

#endif
