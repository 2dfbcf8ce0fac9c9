/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the files of a load share: run.c (passes, end), ctrl.c (connecting and disconnecting),
 * mpath.c (the same over several paths), io.c (commands) and measure.c (the measured time). All of
 * it belongs to the reactor that perf_run creates.
 */
#ifndef WEFT_PERF_JOB_H
#define WEFT_PERF_JOB_H

#include "base/prng.h"
#include "perf/pace.h"
#include "perf/perf.h"

#define PERF_GENERATION_NONE    0                /* never written in this run */
#define PERF_GENERATION_UNKNOWN (UINT32_MAX - 1) /* after a failed write: old or new data */
#define PERF_IOS_MAX            (4u * 1024 * 1024)

struct perf_job;

struct perf_ctrl {
	struct perf_job *job;
	struct host_ctrl *ctrl;        /* NULL: not connected yet, or closed */
	struct perf_mpath *perf_mpath; /* used instead of ctrl with several paths; NULL likewise */
	bool is_connected;
	uint64_t ios; /* commands answered in the measured time */
};

struct perf_mio;

/* At most one command in flight, with its own buffer. */
struct perf_io {
	struct host_cmd cmd;
	struct perf_job *job;
	struct perf_ctrl *ctrl;
	struct perf_mio *mio; /* with several paths: carries the command; else NULL */
	uint8_t *data;
	uint64_t started_ns; /* when it was submitted, or with --rate when it was due */
	uint64_t unit;
	unsigned queue;
	uint32_t generation;
	bool is_read;
	bool is_measured; /* submitted in the measured time */
};

enum perf_pass {
	PERF_PASS_NONE, /* not connected yet */
	PERF_PASS_LOAD,
	PERF_PASS_VERIFY, /* reads back what the load wrote */
};

struct perf_job {
	const struct perf_options *options;
	struct perf_result *result;
	struct reactor *reactor;
	struct reactor_msg start;
	struct reactor_timer tick;
	struct host_cmd identify_cmd;
	uint32_t identify_nsid;
	uint8_t *page;
	int end_result;
	bool is_ending;

	/* The controllers of the load first, then the idle ones. */
	struct perf_ctrl *ctrls;
	unsigned ctrl_count;
	unsigned load_ctrls;
	unsigned ctrls_asked;     /* controllers that were asked to connect */
	unsigned ctrls_connected; /* controllers that ever connected */
	unsigned ctrls_busy;      /* connecting, or at the end disconnecting */
	unsigned ctrls_left;      /* at the end: index of the next one to disconnect */
	uint64_t connect_start_ns;

	/* A unit is --bs bytes of the region. */
	uint64_t units;
	uint64_t region_first_block;
	uint32_t blocks_per_unit;
	uint32_t *generations; /* per unit; NULL unless writes are verified */
	uint8_t *busy;         /* per unit: a command is in flight on it */
	uint32_t next_generation;

	struct perf_io *ios;
	struct perf_mio *mios;                /* one for each of ios, or NULL */
	struct join *joins[PERF_TARGETS_MAX]; /* one per target, shared by all its mpaths */
	unsigned io_count;
	uint32_t transfer_max_bytes;
	uint8_t *buffer;
	size_t buffer_bytes;
	struct prng prng;

	/* --rate: ios without a command, longest idle first, so that queues take turns. */
	struct perf_io **idle_ios;
	unsigned idle_first;
	unsigned idle_count;
	struct perf_pace pace;
	struct reactor_timer pace_timer;
	uint64_t pace_armed_ns; /* 0: not armed */
	struct reactor_defer pace_awake;

	enum perf_pass pass;
	bool is_running; /* the pass may submit new commands */
	bool is_measuring;
	bool suspects_loss; /* a path error occurred, so `lost` may follow */
	unsigned loss_ticks;
	unsigned in_flight;
	uint64_t cursor;       /* sequential: the next unit */
	uint64_t bytes_issued; /* in this pass, or since measuring began */
	uint64_t bytes_limit;
	struct reactor_timer measure_timer; /* the end of the warm-up, then of the measured time */
	uint64_t measure_start_ns;
	uint64_t end_ns; /* 0: no time limit, or not measuring yet */
	uint64_t cpu_start_ns;
	uint64_t watched_start_ns;

	uint64_t tick_count;
	uint64_t progress_ns;
	uint64_t progress_ios;
	uint64_t pass_start_ns;
	uint64_t ios_done; /* in all passes, with the warm-up */
};

/* io.c */
void perf_io_init(struct perf_job *job);
void perf_io_start_all(struct perf_job *job);
/* The pass was told to stop or its time has ended. Ends the pass when no command in flight would
 * end it. */
void perf_io_on_stop(struct perf_job *job);
/* A command was answered, or failed without an answer. */
void perf_io_on_end(struct perf_io *io, nvme_status status);
/* Restarts the timetable, without the commands that the warm-up still owed. */
void perf_io_on_measure_begin(struct perf_job *job);

/* ctrl.c. Connects all controllers; ends with perf_job_on_connected or perf_job_fail. */
void perf_ctrl_connect_all(struct perf_job *job);
/* Disconnects all controllers; ends with reactor_stop. */
void perf_ctrl_disconnect_all(struct perf_job *job);
/* Raises the limit of open files to the hard limit if needed. 0, or -EMFILE with result->error when
 * that is too low. */
int perf_ctrl_files_raise(const struct perf_options *options, struct perf_result *result);

/* A controller is connected, or failed to connect. why is NULL when res is 0. */
void perf_ctrl_on_open(struct perf_ctrl *perf_ctrl, int res, const char *why);

/* mpath.c: perf_ctrl.perf_mpath. Opening returns 0 or -errno; on 0 perf_ctrl_on_open follows.
 * `gone` is the last callback. */
int perf_mpath_open(struct perf_ctrl *perf_ctrl, unsigned io_queue_size);
void perf_mpath_close(struct perf_ctrl *perf_ctrl, void (*gone)(void *arg));
/* Called regularly while connecting, because some paths may never connect. */
void perf_mpath_check(struct perf_job *job);
/* Fills in the result's namespace and identity. 0, or -EINVAL with result->error. */
int perf_mpath_look(struct perf_job *job);
/* Call after ios are allocated. 0 or -ENOMEM. */
int perf_mpath_prepare(struct perf_job *job);
void perf_mpath_submit(struct perf_io *io, uint32_t nsid);
/* Called at the start and at the end of the measured time. */
void perf_mpath_on_measure_begin(struct perf_job *job);
void perf_mpath_on_measure_end(struct perf_job *job);

/* run.c */
void perf_job_on_connected(struct perf_job *job);
void perf_job_on_lost(struct perf_job *job, const char *why);
/* Writes result->error and returns -EINVAL. */
int perf_job_refuse(struct perf_job *job, const char *format, ...)
	__attribute__((format(printf, 2, 3)));
/* Takes the size and block size of one namespace. All namespaces get the same load, so the smallest
 * sets the region. 0, or -EINVAL with result->error. */
int perf_job_take_ns(struct perf_job *job, uint32_t nsid, const struct ns_identity *ns);
/* Ends the job. The first failure counts; the caller fills in result->error. */
void perf_job_fail(struct perf_job *job, int res);
/* Ends the pass. Call when no command is in flight and none will be submitted. */
void perf_job_on_pass_end(struct perf_job *job);

/* measure.c */
void perf_measure_init(struct perf_job *job);
/* The load begins: starts measuring at once, or after the warm-up. */
void perf_measure_start(struct perf_job *job);
/* The pass has ended or was cut off. Harmless when the measured time has already ended. */
void perf_measure_end(struct perf_job *job);

#endif
