/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The CPU time of another process of this machine, for `weft perf --watch-pid`. It is read exactly
 * at both ends of the measured time, which an outside observer cannot do.
 */
#ifndef WEFT_PERF_CPU_TIME_H
#define WEFT_PERF_CPU_TIME_H

#include <stdint.h>
#include <sys/types.h>

/* Nanoseconds that all existing threads of `pid` have run. 0, or -errno when the process does not
 * exist. */
int perf_cpu_time_ns(pid_t pid, uint64_t *ret_ns);

#endif
