/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The measured time of `weft perf`. It starts after the warm-up and lasts as long as asked from
 * that moment on, even if that moment came late. CPU times are taken at both ends. Runs on the
 * job's reactor, by one timer; io.c counts commands in between.
 *
 * It ends at its time, not with the last answers, which are awaited but not counted. With --bytes
 * it ends when all bytes are answered.
 */
#include "base/clock.h"
#include "perf/cpu_time.h"
#include "perf/job.h"

static uint64_t job_cpu_ns(const struct perf_job *job)
{
	return job->options->counts_thread_cpu ? clock_thread_cpu_ns() : clock_process_cpu_ns();
}

static uint64_t job_watched_ns(const struct perf_job *job)
{
	uint64_t ns = 0;

	if (job->options->watch_pid != 0)
		perf_cpu_time_ns(job->options->watch_pid, &ns);
	return ns;
}

static void measure_begin(struct perf_job *job)
{
	const struct perf_options *options = job->options;

	job->is_measuring = true;
	job->bytes_issued = 0; /* --bytes does not count the warm-up */
	/* Before the time starts, because reading /proc takes long. */
	job->watched_start_ns = job_watched_ns(job);
	if (options->mpath.is_used)
		perf_mpath_on_measure_begin(job);
	job->cpu_start_ns = job_cpu_ns(job);
	job->measure_start_ns = reactor_clock_ns(job->reactor);
	if (options->time_ms > 0) {
		job->end_ns = job->measure_start_ns + options->time_ms * NS_PER_MS;
		reactor_timer_arm(&job->measure_timer, job->end_ns);
	}
}

static void ctrls_compare(struct perf_job *job)
{
	struct perf_result *result = job->result;

	result->ctrl_ios_min = UINT64_MAX;
	for (unsigned i = 0; i < job->load_ctrls; i++) {
		uint64_t ios = job->ctrls[i].ios;

		if (ios < result->ctrl_ios_min)
			result->ctrl_ios_min = ios;
		if (ios > result->ctrl_ios_max)
			result->ctrl_ios_max = ios;
	}
}

void perf_measure_end(struct perf_job *job)
{
	uint64_t watched_ns;

	if (!job->is_measuring)
		return;
	job->is_measuring = false;
	reactor_timer_cancel(&job->measure_timer);
	job->result->elapsed_ns = reactor_clock_ns(job->reactor) - job->measure_start_ns;
	job->result->cpu_ns = job_cpu_ns(job) - job->cpu_start_ns;
	/* A process that has ended has 0, or less than before: no result then. */
	watched_ns = job_watched_ns(job);
	if (watched_ns > job->watched_start_ns)
		job->result->watched_cpu_ns = watched_ns - job->watched_start_ns;
	ctrls_compare(job);
	if (job->options->mpath.is_used)
		perf_mpath_on_measure_end(job);
}

static void on_measure_timer(struct reactor_timer *timer)
{
	struct perf_job *job = container_of(timer, struct perf_job, measure_timer);
	const struct perf_result *result = job->result;

	if (job->pass != PERF_PASS_LOAD || !job->is_running)
		return; /* interrupted or lost: the last answer ends the pass */
	if (!job->is_measuring) {
		measure_begin(job);
		perf_io_on_measure_begin(job);
		return;
	}
	/* If no command was answered in time, the time is extended to the first answers; otherwise
	 * there would be no result. */
	if (result->reads.ios + result->writes.ios > 0)
		perf_measure_end(job);
	perf_io_on_stop(job);
}

void perf_measure_init(struct perf_job *job)
{
	reactor_timer_init(job->reactor, &job->measure_timer, on_measure_timer);
}

void perf_measure_start(struct perf_job *job)
{
	uint64_t warmup_ns = job->options->warmup_ms * NS_PER_MS;

	job->is_measuring = false;
	if (warmup_ns == 0)
		measure_begin(job);
	else
		reactor_timer_arm(&job->measure_timer, job->pass_start_ns + warmup_ns);
}
