/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The cold part of `weft perf`: makes a reactor on the calling thread, connects the controllers
 * (ctrl.c, mpath.c), identifies the namespaces, checks the options against them, allocates all
 * memory, runs the passes (the load, then reading back what --verify wrote) and disconnects. Once
 * the reactor runs, everything is done in its callbacks.
 */
#include "base/clock.h"
#include "base/text.h"
#include "perf/cpu_time.h"
#include "perf/job.h"
#include "reactor/uring_remedy.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define TICK_MS        100
#define LOSS_TICKS_MAX 20 /* then the controller itself returned the path error */

void perf_options_init(struct perf_options *options)
{
	memset(options, 0, sizeof(*options));
	options->cpu = -1;
	options->spin_max_us = PERF_SPIN_MAX_US;
	options->nsid = 1;
	options->read_percent = 100;
	options->io_bytes = 4096;
	options->depth = 32;
	options->ctrls = 1;
	options->namespaces = 1;
	options->host.io_queues = 1;
	options->host.kato_ms = 30000;
	options->seed = 1;
}

/* ---- end ------------------------------------------------------------------------------------ */

static void job_end(struct perf_job *job)
{
	if (job->is_ending)
		return;
	job->is_ending = true;
	job->is_running = false;
	reactor_timer_cancel(&job->tick);
	reactor_timer_cancel(&job->pace_timer);
	reactor_timer_cancel(&job->measure_timer);
	if (job->pass != PERF_PASS_NONE)
		reactor_defer_cancel(&job->pace_awake);
	perf_ctrl_disconnect_all(job);
}

void perf_job_fail(struct perf_job *job, int res)
{
	if (!job->is_ending)
		job->end_result = res;
	job_end(job);
}

/* Ends the measurement of the current pass. */
static void pass_measure(struct perf_job *job)
{
	if (job->pass == PERF_PASS_VERIFY)
		job->result->verify_elapsed_ns =
			reactor_clock_ns(job->reactor) - job->pass_start_ns;
	else if (job->pass == PERF_PASS_LOAD)
		perf_measure_end(job);
}

void perf_job_on_lost(struct perf_job *job, const char *why)
{
	if (job->is_ending)
		return;
	text_copy(job->result->error, sizeof(job->result->error), why);
	pass_measure(job);
	perf_job_fail(job, -ECONNRESET);
}

/* ---- passes --------------------------------------------------------------------------------- */

static void pass_start(struct perf_job *job, enum perf_pass pass)
{
	const struct perf_options *options = job->options;

	job->pass = pass;
	job->is_running = true;
	job->cursor = 0;
	job->bytes_issued = 0;
	job->pass_start_ns = reactor_clock_ns(job->reactor);
	job->end_ns = 0;
	job->bytes_limit = 0;
	if (pass == PERF_PASS_LOAD) {
		job->bytes_limit = options->bytes;
		if (options->time_ms == 0 && options->bytes == 0)
			job->bytes_limit = job->units * options->io_bytes;
		perf_measure_start(job);
	}
	perf_io_start_all(job);
}

void perf_job_on_pass_end(struct perf_job *job)
{
	bool was_stopped = !job->is_running;

	if (job->is_ending)
		return;
	job->is_running = false;
	pass_measure(job);
	if (job->pass == PERF_PASS_LOAD && job->generations != NULL && !was_stopped)
		pass_start(job, PERF_PASS_VERIFY);
	else
		job_end(job);
}

static void progress_report(struct perf_job *job)
{
	uint64_t now_ns = reactor_clock_ns(job->reactor);
	uint64_t ios = job->ios_done - job->progress_ios;
	double seconds = (double)(now_ns - job->progress_ns) / 1e9;
	struct perf_progress progress = {
		.elapsed_ms = (now_ns - job->pass_start_ns) / NS_PER_MS,
		.ctrls_connected = job->ctrls_connected,
		.ctrls_total = job->ctrl_count,
		.is_verify_pass = job->pass == PERF_PASS_VERIFY,
		.iops = (double)ios / seconds,
		.mib_per_s = (double)ios * job->options->io_bytes / seconds / 1048576.0,
	};

	job->progress_ns = now_ns;
	job->progress_ios = job->ios_done;
	if (job->options->progress != NULL)
		job->options->progress(job->options->progress_arg, &progress);
}

static void tick_arm(struct perf_job *job)
{
	reactor_timer_arm(&job->tick, reactor_now_ns(job->reactor) + TICK_MS * NS_PER_MS);
}

static void job_interrupt(struct perf_job *job)
{
	if (job->pass == PERF_PASS_NONE) {
		text_copy(job->result->error, sizeof(job->result->error),
			  "interrupted before the load began");
		perf_job_fail(job, -EINTR);
		return;
	}
	job->is_running = false;
	perf_io_on_stop(job);
}

static void on_tick(struct reactor_timer *timer)
{
	struct perf_job *job = container_of(timer, struct perf_job, tick);
	const atomic_bool *stop = job->options->stop;

	tick_arm(job);
	if (++job->tick_count % (1000 / TICK_MS) == 0)
		progress_report(job);
	if (stop != NULL && atomic_load_explicit(stop, memory_order_relaxed))
		job_interrupt(job);
	if (job->pass == PERF_PASS_NONE && job->options->mpath.is_used)
		perf_mpath_check(job);
	if (job->suspects_loss && job->in_flight == 0 && ++job->loss_ticks > LOSS_TICKS_MAX)
		perf_job_on_pass_end(job);
}

/* ---- preparing ------------------------------------------------------------------------------ */

int perf_job_refuse(struct perf_job *job, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(job->result->error, sizeof(job->result->error), format, args);
	va_end(args);
	return -EINVAL;
}

/* Checks the options against the namespace, and computes the units. 0 or -EINVAL. */
static int region_check(struct perf_job *job)
{
	const struct perf_options *options = job->options;
	struct perf_result *result = job->result;
	uint32_t max_bytes = job->transfer_max_bytes;
	uint64_t ns_bytes = result->ns_blocks * result->block_bytes;
	uint64_t region_bytes = options->region_bytes;

	if (options->io_bytes == 0 || options->io_bytes % result->block_bytes != 0)
		return perf_job_refuse(job, "--bs %u is not a multiple of the block size, %u",
				       options->io_bytes, result->block_bytes);
	if (options->io_bytes > max_bytes || options->io_bytes / result->block_bytes > 65536)
		return perf_job_refuse(job, "--bs %u exceeds the transfer limit of a command, %u",
				       options->io_bytes, max_bytes);
	if (options->region_offset % result->block_bytes != 0)
		return perf_job_refuse(job, "--offset is not a multiple of the block size, %u",
				       result->block_bytes);
	if (options->region_offset >= ns_bytes)
		return perf_job_refuse(job,
				       "--offset is beyond the end of the namespace (%lu bytes)",
				       (unsigned long)ns_bytes);
	if (region_bytes == 0)
		region_bytes = ns_bytes - options->region_offset;
	if (region_bytes > ns_bytes - options->region_offset)
		return perf_job_refuse(
			job, "--size ends %lu bytes beyond the namespace (%lu bytes)",
			(unsigned long)(region_bytes + options->region_offset - ns_bytes),
			(unsigned long)ns_bytes);
	job->blocks_per_unit = options->io_bytes / result->block_bytes;
	job->units = region_bytes / options->io_bytes;
	job->region_first_block = options->region_offset / result->block_bytes;
	result->region_bytes = job->units * options->io_bytes;
	if (job->units == 0)
		return perf_job_refuse(job, "the region is smaller than --bs %u",
				       options->io_bytes);
	return 0;
}

static int generations_prepare(struct perf_job *job)
{
	if (!job->options->wants_verify || job->options->read_percent == 100)
		return 0;
	if (job->units > PERF_UNITS_MAX)
		return perf_job_refuse(
			job,
			"--verify tracks at most %u pieces of --bs; the region has %lu: "
			"give --size or a larger --bs",
			PERF_UNITS_MAX, (unsigned long)job->units);
	job->generations = calloc(job->units, sizeof(*job->generations));
	job->busy = calloc(job->units, 1);
	job->next_generation = PERF_GENERATION_NONE + 1;
	if (job->io_count > job->units)
		job->io_count = (unsigned)job->units;
	return job->generations != NULL && job->busy != NULL ? 0 : -ENOMEM;
}

static int memory_prepare(struct perf_job *job)
{
	const struct perf_options *options = job->options;
	size_t stride = ((size_t)options->io_bytes + 4095) & ~(size_t)4095;
	int res = generations_prepare(job);

	if (res != 0)
		return res;
	job->ios = calloc(job->io_count, sizeof(*job->ios));
	if (options->rate > 0)
		job->idle_ios = calloc(job->io_count, sizeof(*job->idle_ios));
	job->buffer_bytes = stride * job->io_count;
	job->buffer = mmap(NULL, job->buffer_bytes, PROT_READ | PROT_WRITE,
			   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (job->buffer == MAP_FAILED)
		job->buffer = NULL;
	if (job->ios == NULL || job->buffer == NULL || (options->rate > 0 && job->idle_ios == NULL))
		return -ENOMEM;
	/* Random content neither compresses nor deduplicates; filling also touches every page. */
	prng_fill(&job->prng, job->buffer, job->buffer_bytes);
	for (unsigned i = 0; i < job->io_count; i++) {
		job->ios[i].ctrl = &job->ctrls[i % job->load_ctrls];
		job->ios[i].queue = i / job->load_ctrls % job->result->queues;
		job->ios[i].data = job->buffer + i * stride;
	}
	perf_io_init(job);
	perf_measure_init(job);
	return options->mpath.is_used ? perf_mpath_prepare(job) : 0;
}

static void load_prepare(struct perf_job *job)
{
	int res = region_check(job);

	if (res == 0)
		res = memory_prepare(job);
	if (res == -ENOMEM)
		text_copy(job->result->error, sizeof(job->result->error),
			  "out of memory for the buffers");
	if (res != 0) {
		perf_job_fail(job, res);
		return;
	}
	job->progress_ns = reactor_clock_ns(job->reactor);
	pass_start(job, PERF_PASS_LOAD);
}

static void identify_next(struct perf_job *job);

int perf_job_take_ns(struct perf_job *job, uint32_t nsid, const struct ns_identity *ns)
{
	struct perf_result *result = job->result;

	if (result->block_bytes != 0 && ns->block_bytes != result->block_bytes)
		return perf_job_refuse(job,
				       "namespace %u has %u-byte blocks, the namespaces before it "
				       "have %u-byte blocks",
				       nsid, ns->block_bytes, result->block_bytes);
	if (result->block_bytes == 0 || ns->block_count < result->ns_blocks)
		result->ns_blocks = ns->block_count;
	result->block_bytes = ns->block_bytes;
	return 0;
}

static int namespace_take(struct perf_job *job, const struct host_cmd *cmd)
{
	struct ns_identity ns;

	if (!nvme_status_is_ok(cmd->status) || identify_ns_decode(job->page, &ns) != 0 ||
	    ns.block_count == 0 || ns.block_bytes < 512)
		return perf_job_refuse(
			job, "there is no namespace %u in %s; `weft identify` lists the namespaces",
			job->identify_nsid, job->options->host.subsystem_nqn);
	return perf_job_take_ns(job, job->identify_nsid, &ns);
}

static void on_identified(struct host_cmd *cmd)
{
	struct perf_job *job = container_of(cmd, struct perf_job, identify_cmd);
	int res;

	if (job->is_ending || nvme_status_same(cmd->status, NVME_SC_HOST_PATHING_ERROR))
		return; /* `lost` follows */
	res = namespace_take(job, cmd);
	if (res != 0)
		perf_job_fail(job, res);
	else if (++job->identify_nsid - job->options->nsid < job->options->namespaces)
		identify_next(job);
	else
		load_prepare(job);
}

static void identify_next(struct perf_job *job)
{
	memset(&job->identify_cmd, 0, sizeof(job->identify_cmd));
	job->identify_cmd.done = on_identified;
	host_cmd_identify(&job->identify_cmd, job->identify_nsid, IDENTIFY_NS, job->page);
	host_submit_admin(job->ctrls[0].ctrl, &job->identify_cmd);
}

/* Takes the minimum that every controller of the load grants. */
static void queues_compare(struct perf_job *job)
{
	struct perf_result *result = job->result;

	result->queues = UINT32_MAX;
	result->depth = job->options->depth;
	for (unsigned i = 0; i < job->load_ctrls; i++) {
		const struct host_ctrl *ctrl = job->ctrls[i].ctrl;

		if (host_ctrl_io_queues(ctrl) < result->queues)
			result->queues = host_ctrl_io_queues(ctrl);
		if (host_ctrl_io_depth(ctrl) < result->depth)
			result->depth = host_ctrl_io_depth(ctrl);
	}
	result->identity = *host_ctrl_identity(job->ctrls[0].ctrl);
	job->transfer_max_bytes = host_ctrl_transfer_max_bytes(job->ctrls[0].ctrl);
}

static int ios_count(struct perf_job *job)
{
	const struct perf_result *result = job->result;
	uint64_t io_count = (uint64_t)job->load_ctrls * result->queues * result->depth;

	if (result->queues == 0)
		return perf_job_refuse(job,
				       "%s grants no I/O queues; is it a discovery controller?",
				       job->options->host.subsystem_nqn);
	if (io_count > PERF_IOS_MAX)
		return perf_job_refuse(
			job,
			"%lu commands in flight exceed the limit of %u; lower --depth, "
			"--queues or --controllers",
			(unsigned long)io_count, PERF_IOS_MAX);
	job->io_count = (unsigned)io_count;
	return 0;
}

void perf_job_on_connected(struct perf_job *job)
{
	bool is_mpath = job->options->mpath.is_used;
	int res = 0;

	job->result->ctrls = job->load_ctrls;
	if (is_mpath)
		res = perf_mpath_look(job);
	else
		queues_compare(job);
	if (res == 0)
		res = ios_count(job);
	if (res != 0) {
		perf_job_fail(job, res);
	} else if (is_mpath) {
		load_prepare(job);
	} else {
		job->identify_nsid = job->options->nsid;
		identify_next(job);
	}
}

static void on_start(struct reactor_msg *msg)
{
	struct perf_job *job = container_of(msg, struct perf_job, start);

	reactor_timer_init(job->reactor, &job->tick, on_tick);
	job->progress_ns = job->pass_start_ns = reactor_clock_ns(job->reactor);
	tick_arm(job);
	perf_ctrl_connect_all(job);
}

static void job_free(struct perf_job *job)
{
	if (job->buffer != NULL)
		munmap(job->buffer, job->buffer_bytes);
	free(job->ios);
	free(job->mios);
	for (unsigned i = 0; i < PERF_TARGETS_MAX; i++)
		join_put(job->joins[i]);
	free(job->idle_ios);
	free(job->ctrls);
	free(job->generations);
	free(job->busy);
	free(job->page);
	free(job);
}

static int job_run(struct perf_job *job)
{
	const struct perf_options *options = job->options;
	struct reactor_config config = {.index = options->reactor_index,
					.cpu = options->cpu,
					.spin_max_us = options->spin_max_us};
	uint64_t watched_ns;
	int res;

	prng_seed(&job->prng, options->seed);
	job->load_ctrls = options->ctrls;
	if (options->mpath.is_used)
		job->load_ctrls *= options->mpath.target_count;
	job->ctrl_count = job->load_ctrls + options->idle_ctrls;
	job->ctrls = calloc(job->ctrl_count, sizeof(*job->ctrls));
	job->page = calloc(1, NVME_PAGE_BYTES);
	if (job->page == NULL || job->ctrls == NULL)
		return -ENOMEM;
	res = perf_ctrl_files_raise(options, job->result);
	if (res != 0)
		return res;
	if (options->watch_pid != 0 && perf_cpu_time_ns(options->watch_pid, &watched_ns) != 0)
		return perf_job_refuse(job, "--watch-pid: there is no process %d",
				       (int)options->watch_pid);
	res = reactor_create(&config, &job->reactor);
	if (res != 0) {
		snprintf(job->result->error, sizeof(job->result->error),
			 "cannot start io_uring: %s; %s", strerror(-res), uring_remedy(res));
		return res;
	}
	reactor_post(job->reactor, &job->start, on_start);
	reactor_run(job->reactor);
	reactor_destroy(job->reactor);
	return job->end_result;
}

int perf_run(const struct perf_options *options, struct perf_result *ret_result)
{
	struct perf_job *job = calloc(1, sizeof(*job));
	int res;

	memset(ret_result, 0, sizeof(*ret_result));
	histogram_init(&ret_result->reads.latency);
	histogram_init(&ret_result->writes.latency);
	histogram_init(&ret_result->verify_reads.latency);
	histogram_init(&ret_result->lateness);
	if (job == NULL)
		return -ENOMEM;
	job->options = options;
	job->result = ret_result;
	res = job_run(job);
	if (res == 0 && (ret_result->io_errors > 0 || ret_result->verify_errors > 0))
		res = -EIO;
	job_free(job);
	return res;
}
