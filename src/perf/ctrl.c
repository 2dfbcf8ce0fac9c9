/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The controllers of a `weft perf` job: those with load and those that stay idle. Runs on the job's
 * reactor. A few dozen are connected or disconnected at a time: one by one, a thousand would take
 * long, and all at once would overrun the target's listener.
 *
 * A controller that cannot be connected, or is lost, ends the job: a result with fewer controllers
 * than asked for would be misleading.
 */
#include "base/clock.h"
#include "base/text.h"
#include "perf/job.h"

#include <errno.h>
#include <stdio.h>
#include <sys/resource.h>

#define CTRL_WINDOW  32
#define FILES_BESIDE 64 /* rings, standard streams and other open files */

/* ---- open files ----------------------------------------------------------------------------- */

int perf_ctrl_files_raise(const struct perf_options *options, struct perf_result *result)
{
	uint64_t ctrls =
		(uint64_t)options->idle_ctrls +
		(uint64_t)options->ctrls * (options->mpath.is_used ? options->mpath.path_count : 1);
	uint64_t wanted = ctrls * (1 + options->host.io_queues) + FILES_BESIDE;
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= wanted)
		return 0;
	limit.rlim_cur = limit.rlim_max;
	if (limit.rlim_max >= wanted && setrlimit(RLIMIT_NOFILE, &limit) == 0)
		return 0;
	snprintf(result->error, sizeof(result->error),
		 "%lu controllers of %u queues need %lu open files, and the limit is %lu: raise it "
		 "(ulimit -Hn, or LimitNOFILE of the service)",
		 (unsigned long)ctrls, options->host.io_queues, (unsigned long)wanted,
		 (unsigned long)limit.rlim_max);
	return -EMFILE;
}

/* ---- connecting ----------------------------------------------------------------------------- */

static void connect_some(struct perf_job *job);

static void connect_failed(struct perf_ctrl *perf_ctrl, int res, const char *why)
{
	struct perf_job *job = perf_ctrl->job;
	struct perf_result *result = job->result;

	if (job->ctrl_count == 1)
		text_copy(result->error, sizeof(result->error), why);
	else
		snprintf(result->error, sizeof(result->error), "controller %u of %u: %.400s",
			 (unsigned)(perf_ctrl - job->ctrls) + 1, job->ctrl_count, why);
	perf_job_fail(job, res);
}

void perf_ctrl_on_open(struct perf_ctrl *perf_ctrl, int res, const char *why)
{
	struct perf_job *job = perf_ctrl->job;

	if (job->is_ending)
		return; /* disconnect_some handles it, if it still exists */
	job->ctrls_busy--;
	if (res != 0) {
		connect_failed(perf_ctrl, res, why);
		return;
	}
	perf_ctrl->is_connected = true;
	job->ctrls_connected++;
	if (job->ctrls_connected < job->ctrl_count) {
		connect_some(job);
		return;
	}
	job->result->connect_ns = reactor_clock_ns(job->reactor) - job->connect_start_ns;
	perf_job_on_connected(job);
}

static void on_connected(struct host_ctrl *ctrl, void *arg, int res, const struct host_error *error)
{
	struct perf_ctrl *perf_ctrl = arg;

	if (res != 0)
		perf_ctrl->ctrl = NULL;
	perf_ctrl_on_open(perf_ctrl, res, res != 0 ? error->text : NULL);
}

static void on_lost(struct host_ctrl *ctrl, void *arg, const struct host_error *error)
{
	struct perf_ctrl *perf_ctrl = arg;

	perf_job_on_lost(perf_ctrl->job, error->text);
}

static int connect_one(struct perf_ctrl *perf_ctrl, const struct host_config *config)
{
	static const struct host_callbacks callbacks = {.connected = on_connected, .lost = on_lost};

	if (perf_ctrl->job->options->mpath.is_used)
		return perf_mpath_open(perf_ctrl, config->io_queue_size);
	return host_connect(perf_ctrl->job->reactor, config, &callbacks, perf_ctrl,
			    &perf_ctrl->ctrl);
}

static void connect_some(struct perf_job *job)
{
	struct host_config config = job->options->host;

	if (config.io_queue_size == 0)
		config.io_queue_size = job->options->depth < 127 ? 128 : job->options->depth + 1;
	while (!job->is_ending && job->ctrls_busy < CTRL_WINDOW &&
	       job->ctrls_asked < job->ctrl_count) {
		struct perf_ctrl *perf_ctrl = &job->ctrls[job->ctrls_asked++];
		int res = connect_one(perf_ctrl, &config);

		if (res == 0)
			job->ctrls_busy++;
		else
			connect_failed(perf_ctrl, res, "out of memory");
	}
}

void perf_ctrl_connect_all(struct perf_job *job)
{
	job->connect_start_ns = reactor_clock_ns(job->reactor);
	for (unsigned i = 0; i < job->ctrl_count; i++)
		job->ctrls[i].job = job;
	connect_some(job);
}

/* ---- disconnecting -------------------------------------------------------------------------- */

static void disconnect_some(struct perf_job *job);

static void on_gone(void *arg)
{
	struct perf_ctrl *perf_ctrl = arg;

	perf_ctrl->ctrl = NULL;
	perf_ctrl->perf_mpath = NULL;
	perf_ctrl->job->ctrls_busy--;
	disconnect_some(perf_ctrl->job);
}

static void disconnect_some(struct perf_job *job)
{
	while (job->ctrls_busy < CTRL_WINDOW && job->ctrls_left < job->ctrls_asked) {
		struct perf_ctrl *perf_ctrl = &job->ctrls[job->ctrls_left++];

		if (perf_ctrl->ctrl == NULL && perf_ctrl->perf_mpath == NULL)
			continue;
		job->ctrls_busy++;
		if (perf_ctrl->perf_mpath != NULL)
			perf_mpath_close(perf_ctrl, on_gone);
		else
			host_disconnect(perf_ctrl->ctrl, on_gone, perf_ctrl);
	}
	if (job->ctrls_busy == 0)
		reactor_stop(job->reactor);
}

void perf_ctrl_disconnect_all(struct perf_job *job)
{
	/* From here on connecting controllers report only through on_gone. */
	job->ctrls_busy = 0;
	disconnect_some(job);
}
