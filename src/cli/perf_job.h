/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What perf_run.c (connect, passes, end) and perf_io.c (one I/O after the other) share. All of it
 * belongs to the reactor that perf_run creates.
 */
#ifndef WEFT_CLI_PERF_JOB_H
#define WEFT_CLI_PERF_JOB_H

#include "base/prng.h"
#include "cli/perf.h"

#define PERF_GENERATION_NONE    0                /* never written in this run */
#define PERF_GENERATION_UNKNOWN (UINT32_MAX - 1) /* a write failed: old or new, nobody knows */

struct perf_job;

/* One command in flight at most, with a buffer of its own. */
struct perf_io {
	struct host_cmd cmd;
	struct perf_job *job;
	uint8_t *data;
	uint64_t submitted_ns;
	uint64_t unit;
	unsigned queue;
	uint32_t generation;
	bool is_read;
};

enum perf_pass {
	PERF_PASS_LOAD,
	PERF_PASS_VERIFY, /* reads back what the load wrote */
};

struct perf_job {
	const struct perf_options *options;
	struct perf_result *result;
	struct reactor *reactor;
	struct reactor_msg start;
	struct reactor_timer tick;
	struct host_ctrl *ctrl;
	struct host_cmd identify_cmd;
	uint8_t *page;
	int end_result;

	/* Units are pieces of --bs bytes of the region. */
	uint64_t units;
	uint64_t region_first_block;
	uint32_t blocks_per_unit;
	uint32_t *generations; /* per unit; NULL unless writes are verified */
	uint8_t *busy;         /* per unit: a command is in flight on it */
	uint32_t next_generation;

	struct perf_io *ios;
	unsigned io_count;
	uint8_t *buffer;
	size_t buffer_bytes;
	struct prng prng;

	enum perf_pass pass;
	bool is_running; /* of the pass: new commands may be made */
	bool is_measuring;
	bool suspects_loss; /* a command ended with a path error: perhaps `lost` follows */
	unsigned loss_ticks;
	unsigned in_flight;
	uint64_t cursor;       /* sequential: next unit */
	uint64_t bytes_issued; /* in this pass */
	uint64_t bytes_limit;
	uint64_t measure_start_ns;
	uint64_t end_ns; /* 0: no time limit */
	uint64_t cpu_start_ns;

	uint64_t tick_count;
	uint64_t progress_ns;
	uint64_t progress_ios;
	uint64_t pass_start_ns;
	uint64_t ios_done; /* all passes, warm-up too */
};

/* perf_io.c */
void perf_io_start_all(struct perf_job *job);
/* perf_run.c: nothing is in flight and nothing more will be. */
void perf_job_on_pass_end(struct perf_job *job);
uint64_t perf_job_cpu_ns(const struct perf_job *job);

#endif
