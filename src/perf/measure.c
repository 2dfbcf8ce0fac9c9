/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The measured time of `weft perf`: begins when the warm-up is over, lasts as long as was asked
 * from that very moment, however late it came, and takes the CPU times at both ends. Runs on the
 * job's reactor, by one timer; what is counted in between is io.c's.
 *
 * It ends at its time and not when the last answers are in: those are waited for, and not counted.
 * With --bytes it lasts until all of them are answered.
 */
#include "base/clock.h"
#include "perf/job.h"
#include "perf/watch.h"

static uint64_t job_cpu_ns(const struct perf_job *job)
{
	return job->options->counts_thread_cpu ? clock_thread_cpu_ns() : clock_process_cpu_ns();
}

static uint64_t job_watched_ns(const struct perf_job *job)
{
	uint64_t ns = 0;

	if (job->options->watch_pid != 0)
		perf_watch_cpu_ns(job->options->watch_pid, &ns);
	return ns;
}

static void measure_begin(struct perf_job *job)
{
	const struct perf_options *options = job->options;

	job->is_measuring = true;
	job->bytes_issued = 0; /* --bytes does not count the warm-up */
	/* Reading /proc takes long: outside of the time. */
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
	/* A process that is gone has 0, or less than before: nothing is known then. */
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
		return; /* interrupted or lost: the last answer ends it */
	if (!job->is_measuring) {
		measure_begin(job);
		perf_io_on_measure_begin(job);
		return;
	}
	/* When nothing at all was answered in the time, the first answers are waited for, and the
	 * time with them: else there would be nothing to tell. */
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
