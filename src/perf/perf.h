/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The load generator behind `weft perf` and the self-check of `weft serve`: what to do, what came
 * out. perf_run makes a reactor of its own on the calling thread and returns when all is done.
 */
#ifndef WEFT_PERF_PERF_H
#define WEFT_PERF_PERF_H

#include "base/histogram.h"
#include "host/host.h"
#include "host/mpath.h"

#include <stdatomic.h>
#include <sys/types.h>

#define PERF_ERROR_KINDS 16
/* It measures, and would otherwise measure how long it takes to wake up itself. */
#define PERF_SPIN_MAX_US 1000
#define PERF_UNITS_MAX   (64u * 1024 * 1024) /* that --verify keeps a generation of: 4 bytes each */

struct perf_progress {
	uint64_t elapsed_ms;
	unsigned ctrls_connected; /* less than ctrls_total: still connecting, and no load yet */
	unsigned ctrls_total;
	bool is_verify_pass;
	double iops; /* since the last call */
	double mib_per_s;
};

#define PERF_TARGETS_MAX 16
#define PERF_PATHS_MAX   64 /* of all targets together */

/* Several paths, or several targets: instead of host.addr and host.subsystem_nqn. */
struct perf_mpath_options {
	bool is_used;
	unsigned target_count;
	char nqns[PERF_TARGETS_MAX][NVME_NQN_BYTES];
	unsigned path_count;
	struct perf_path_option {
		unsigned target;
		struct net_addr addr;
	} paths[PERF_PATHS_MAX];
	enum path_policy policy;
	enum host_profile profile;
	struct host_timeouts timeouts;
	struct mpath_hedge hedge;
};

struct perf_options {
	struct host_config host; /* io_queue_size 0: what the depth needs */
	struct perf_mpath_options mpath;
	unsigned reactor_index;
	int cpu; /* -1: any */
	uint32_t spin_max_us;
	uint32_t nsid;
	bool is_random;
	unsigned read_percent; /* 100: only reads, 0: only writes */
	uint32_t io_bytes;     /* --bs */
	unsigned depth;        /* per queue */
	uint64_t rate;         /* commands per second over all queues; 0: as many as possible */
	unsigned ctrls;      /* that carry the load, each with host.io_queues queues; with mpath of
				each target, each with all its paths */
	unsigned idle_ctrls; /* connected beside them and never used */
	uint32_t namespaces; /* from nsid on, one chosen at random for every command */
	uint64_t time_ms;    /* 0: until `bytes` */
	uint64_t bytes;      /* 0: until `time_ms`; both 0: once through the region */
	uint64_t region_offset; /* bytes */
	uint64_t region_bytes;  /* 0: to the end of the namespace */
	uint64_t warmup_ms;     /* runs first, not counted */
	bool wants_verify;      /* stamp what is written, check what is read */
	uint64_t seed;
	pid_t watch_pid;        /* whose CPU time is told as well; 0: nobody's */
	bool counts_thread_cpu; /* CPU of this thread only: others in the process have their own
				   work */
	const atomic_bool
		*stop; /* becomes true: end early, as if the time were over; may be NULL */
	void (*progress)(void *arg,
			 const struct perf_progress *progress); /* once a second, or NULL */
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

/* A path in the measured time, over all controllers that use it. */
struct perf_path_result {
	uint64_t commands;
	uint64_t losses;
	uint64_t answered_ns; /* what they took, in all */
	bool is_live;         /* everywhere, at the end */
	char last_error[256];
};

struct perf_result {
	char error[512]; /* why it could not run or ended early; "" when it ran */
	struct perf_direction reads;
	struct perf_direction writes;
	uint64_t elapsed_ns; /* of the measured part: time_ms, or until `bytes` were answered */
	uint64_t cpu_ns;
	uint64_t watched_cpu_ns; /* of watch_pid */
	uint64_t connect_ns;     /* all controllers */
	unsigned ctrls;          /* that carried the load */
	uint64_t ctrl_ios_min;   /* of the slowest and the fastest controller of the load */
	uint64_t ctrl_ios_max;
	/* With `rate`: commands of the measured timetable that never left, and those answered after
	 * the time was over (not among `ios`, but their latency counts); and what the warm-up still
	 * owed when its timetable was dropped. */
	uint64_t rate_unsent;
	uint64_t rate_answered_late;
	uint64_t rate_warmup_unsent;
	struct histogram lateness;          /* with `rate`: from the time planned to submission */
	struct perf_direction verify_reads; /* the pass that reads back what was written */
	uint64_t verify_elapsed_ns;
	uint64_t verified_blocks;
	uint64_t verify_errors;
	char verify_first[160]; /* the first bad block, in words */
	uint64_t io_errors;
	unsigned error_kinds;
	struct perf_error_count errors[PERF_ERROR_KINDS];
	struct perf_path_result paths[PERF_PATHS_MAX]; /* as in options.mpath */
	struct mpath_hedge_stats hedge;
	/* What it ran on. */
	struct ctrl_identity identity;
	uint64_t ns_blocks;
	uint32_t block_bytes;
	unsigned queues; /* per controller */
	unsigned depth;
	uint64_t region_bytes; /* of one namespace */
};

void perf_options_init(struct perf_options *options);
/* 0: ran and found no error; -EIO: I/O or verify errors; -EINVAL: options that the namespace does
 * not allow; another -errno: could not connect or was cut off. `error` says more. */
int perf_run(const struct perf_options *options, struct perf_result *ret_result);

#endif
