/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The load generator behind `weft perf` and the self-check of `weft serve`: its options and
 * results. perf_run makes its own reactor on the calling thread and returns when everything is
 * done.
 */
#ifndef WEFT_PERF_PERF_H
#define WEFT_PERF_PERF_H

#include "base/histogram.h"
#include "host/host.h"
#include "host/mpath.h"

#include <stdatomic.h>
#include <sys/types.h>

#define PERF_ERROR_KINDS 16
/* High, so that the measured latency does not contain this thread's own wake-up. */
#define PERF_SPIN_MAX_US 1000
#define PERF_UNITS_MAX   (64u * 1024 * 1024) /* most units that --verify tracks, 4 bytes each */

struct perf_progress {
	uint64_t elapsed_ms;
	unsigned ctrls_connected; /* below ctrls_total: still connecting, without load */
	unsigned ctrls_total;
	bool is_verify_pass;
	double iops; /* since the last call */
	double mib_per_s;
};

#define PERF_TARGETS_MAX 16
#define PERF_PATHS_MAX   64 /* sum over all targets */

/* For several paths or several targets; replaces host.addr and host.subsystem_nqn. */
struct perf_mpath_options {
	bool is_used;
	unsigned target_count;
	char nqns[PERF_TARGETS_MAX][NVME_NQN_BYTES];
	unsigned path_count;
	struct perf_path_option {
		unsigned target;
		struct host_addr addr;
	} paths[PERF_PATHS_MAX];
	enum path_policy policy;
	enum host_profile profile;
	struct host_timeouts timeouts;
	struct mpath_hedge hedge;
};

struct perf_options {
	struct host_config host; /* io_queue_size 0: derived from depth */
	struct perf_mpath_options mpath;
	unsigned reactor_index;
	int cpu; /* -1: any */
	uint32_t spin_max_us;
	uint32_t nsid;
	bool is_random;
	unsigned read_percent; /* 100: only reads, 0: only writes */
	uint32_t io_bytes;     /* --bs, bytes per command */
	unsigned depth;        /* per queue */
	uint64_t rate;         /* commands per second over all queues; 0: as many as possible */
	unsigned ctrls;        /* of the load, each with host.io_queues queues; mpath: per target */
	unsigned idle_ctrls;   /* connected additionally and never used */
	uint32_t namespaces;   /* from nsid on; each command chooses one at random */
	uint64_t time_ms;      /* 0: until `bytes` */
	uint64_t bytes;        /* 0: until `time_ms`; both 0: one pass over the region */
	uint64_t region_offset; /* bytes */
	uint64_t region_bytes;  /* 0: to the end of the namespace */
	uint64_t warmup_ms;     /* runs first and is not measured */
	bool wants_verify;      /* stamp written blocks, check blocks read */
	uint64_t seed;
	pid_t watch_pid;         /* process whose CPU time is reported too; 0: none */
	bool counts_thread_cpu;  /* only this thread's CPU: the process has other work */
	const atomic_bool *stop; /* set to true: end early, as if time had ended; or NULL */
	void (*progress)(void *arg,
			 const struct perf_progress *progress); /* once per second, or NULL */
	void *progress_arg;
};

struct perf_direction {
	uint64_t ios;
	uint64_t bytes;
	struct histogram latency;
};

struct perf_error_count {
	nvme_status status;
	uint64_t count;
};

/* A path in the measured time, summed over all controllers that use it. */
struct perf_path_result {
	uint64_t commands;
	uint64_t losses;
	uint64_t answered_ns; /* sum of the commands' latencies */
	bool is_live;         /* live in every mpath at the end */
	char last_error[256];
};

struct perf_result {
	char error[512]; /* why the run failed or ended early; "" after a complete run */
	struct perf_direction reads;
	struct perf_direction writes;
	uint64_t elapsed_ns; /* measured time: time_ms, or until `bytes` were answered */
	uint64_t cpu_ns;
	uint64_t watched_cpu_ns; /* of watch_pid */
	uint64_t connect_ns;     /* time to connect all controllers */
	unsigned ctrls;          /* number of controllers with load */
	uint64_t ctrl_ios_min; /* commands of the slowest and the fastest controller of the load */
	uint64_t ctrl_ios_max;
	/* With `rate`: commands due in the measured time that were never submitted; commands
	 * answered after that time (not in `ios`, but in the latencies); commands that the warm-up
	 * still owed when its timetable was dropped. */
	uint64_t rate_unsent;
	uint64_t rate_answered_late;
	uint64_t rate_warmup_unsent;
	struct histogram lateness;          /* with `rate`: from due to submitted */
	struct perf_direction verify_reads; /* the pass that reads back what was written */
	uint64_t verify_elapsed_ns;
	uint64_t verified_blocks;
	uint64_t verify_errors;
	char verify_first[160]; /* describes the first bad block */
	uint64_t io_errors;
	unsigned error_kinds;
	struct perf_error_count errors[PERF_ERROR_KINDS];
	struct perf_path_result paths[PERF_PATHS_MAX]; /* in the order of options.mpath */
	struct mpath_hedge_stats hedge;
	/* The target that was measured. */
	struct ctrl_identity identity;
	uint64_t ns_blocks;
	uint32_t block_bytes;
	unsigned queues; /* per controller */
	unsigned depth;
	uint64_t region_bytes; /* of one namespace */
};

void perf_options_init(struct perf_options *options);
/* 0: no errors. -EIO: I/O or verify errors. -EINVAL: the namespace does not allow the options.
 * Another -errno: could not connect, or was cut off. `error` has details. */
int perf_run(const struct perf_options *options, struct perf_result *ret_result);

#endif
