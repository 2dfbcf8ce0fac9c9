/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The cold half of `weft perf`: makes a reactor on the calling thread, connects, asks for the
 * namespace, checks the options against it, prepares all memory, runs the passes (the load, then
 * reading back what --verify wrote) and disconnects. Everything after perf_run's first lines runs
 * in callbacks of that reactor.
 */
#include "base/clock.h"
#include "base/text.h"
#include "cli/perf_job.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

#define TICK_MS        100
#define LOSS_TICKS_MAX 20 /* a path error without `lost`: the controller sent it itself */

void perf_options_init(struct perf_options *options)
{
	memset(options, 0, sizeof(*options));
	options->cpu = -1;
	options->spin_max_us = 100;
	options->nsid = 1;
	options->read_percent = 100;
	options->io_bytes = 4096;
	options->depth = 32;
	options->host.io_queues = 1;
	options->host.kato_ms = 30000;
	options->seed = 1;
}

uint64_t perf_job_cpu_ns(const struct perf_job *job)
{
	return job->options->counts_thread_cpu ? clock_thread_cpu_ns() : clock_process_cpu_ns();
}

/* ---- end ------------------------------------------------------------------------------------ */

static void on_gone(void *arg)
{
	struct perf_job *job = arg;

	reactor_stop(job->reactor);
}

static void job_end(struct perf_job *job)
{
	struct host_ctrl *ctrl = job->ctrl;

	reactor_timer_cancel(&job->tick);
	job->ctrl = NULL;
	if (ctrl != NULL)
		host_disconnect(ctrl, on_gone, job);
}

static void job_fail(struct perf_job *job, int res)
{
	job->end_result = res;
	job_end(job);
}

/* What the pass that ends now measured. */
static void pass_measure(struct perf_job *job)
{
	uint64_t now_ns = reactor_clock_ns(job->reactor);

	if (job->pass == PERF_PASS_VERIFY) {
		job->result->verify_elapsed_ns = now_ns - job->pass_start_ns;
	} else if (job->is_measuring) {
		job->result->elapsed_ns = now_ns - job->measure_start_ns;
		job->result->cpu_ns = perf_job_cpu_ns(job) - job->cpu_start_ns;
	}
}

static void on_lost(struct host_ctrl *ctrl, void *arg, const struct host_error *error)
{
	struct perf_job *job = arg;

	if (job->ctrl == NULL)
		return;
	text_copy(job->result->error, sizeof(job->result->error), error->text);
	pass_measure(job);
	job_fail(job, -ECONNRESET);
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
		job->measure_start_ns = job->pass_start_ns + options->warmup_ms * NS_PER_MS;
		job->is_measuring = options->warmup_ms == 0;
		job->cpu_start_ns = perf_job_cpu_ns(job);
		if (options->time_ms > 0)
			job->end_ns = job->measure_start_ns + options->time_ms * NS_PER_MS;
		job->bytes_limit = options->bytes;
		if (options->time_ms == 0 && options->bytes == 0)
			job->bytes_limit = job->units * options->io_bytes;
	}
	perf_io_start_all(job);
}

void perf_job_on_pass_end(struct perf_job *job)
{
	bool was_stopped = !job->is_running;

	if (job->ctrl == NULL)
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

static void on_tick(struct reactor_timer *timer)
{
	struct perf_job *job = container_of(timer, struct perf_job, tick);
	const atomic_bool *stop = job->options->stop;

	tick_arm(job);
	if (++job->tick_count % (1000 / TICK_MS) == 0)
		progress_report(job);
	if (stop != NULL && atomic_load_explicit(stop, memory_order_relaxed))
		job->is_running = false;
	if (job->suspects_loss && job->in_flight == 0 && ++job->loss_ticks > LOSS_TICKS_MAX)
		perf_job_on_pass_end(job);
}

/* ---- preparing ------------------------------------------------------------------------------ */

static int options_refuse(struct perf_job *job, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

static int options_refuse(struct perf_job *job, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(job->result->error, sizeof(job->result->error), format, args);
	va_end(args);
	return -EINVAL;
}

/* Do the options fit the namespace? Fills in units. */
static int region_check(struct perf_job *job)
{
	const struct perf_options *options = job->options;
	struct perf_result *result = job->result;
	uint32_t max_bytes = host_ctrl_transfer_max_bytes(job->ctrl);
	uint64_t ns_bytes = result->ns_blocks * result->block_bytes;
	uint64_t region_bytes = options->region_bytes;

	if (options->io_bytes == 0 || options->io_bytes % result->block_bytes != 0)
		return options_refuse(job, "--bs %u is not a multiple of the block size, %u",
				      options->io_bytes, result->block_bytes);
	if (options->io_bytes > max_bytes || options->io_bytes / result->block_bytes > 65536)
		return options_refuse(job, "--bs %u is more than one command may move, %u",
				      options->io_bytes, max_bytes);
	if (options->region_offset % result->block_bytes != 0)
		return options_refuse(job, "--offset is not a multiple of the block size, %u",
				      result->block_bytes);
	if (options->region_offset >= ns_bytes)
		return options_refuse(job, "--offset lies behind the end of the namespace (%lu)",
				      (unsigned long)ns_bytes);
	if (region_bytes == 0)
		region_bytes = ns_bytes - options->region_offset;
	if (region_bytes > ns_bytes - options->region_offset)
		return options_refuse(
			job, "--size ends %lu bytes behind the namespace (%lu)",
			(unsigned long)(region_bytes + options->region_offset - ns_bytes),
			(unsigned long)ns_bytes);
	job->blocks_per_unit = options->io_bytes / result->block_bytes;
	job->units = region_bytes / options->io_bytes;
	job->region_first_block = options->region_offset / result->block_bytes;
	result->region_bytes = job->units * options->io_bytes;
	if (job->units == 0)
		return options_refuse(job, "the region is smaller than --bs %u", options->io_bytes);
	return 0;
}

static int generations_prepare(struct perf_job *job)
{
	if (!job->options->wants_verify || job->options->read_percent == 100)
		return 0;
	if (job->units > PERF_UNITS_MAX)
		return options_refuse(job,
				      "--verify keeps track of %u pieces of --bs at most; the "
				      "region has %lu: give --size or a larger --bs",
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
	job->buffer_bytes = stride * job->io_count;
	job->buffer = mmap(NULL, job->buffer_bytes, PROT_READ | PROT_WRITE,
			   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (job->buffer == MAP_FAILED)
		job->buffer = NULL;
	if (job->ios == NULL || job->buffer == NULL)
		return -ENOMEM;
	/* Contents that neither compress nor deduplicate; also touches every page. */
	prng_fill(&job->prng, job->buffer, job->buffer_bytes);
	for (unsigned i = 0; i < job->io_count; i++) {
		job->ios[i].job = job;
		job->ios[i].queue = i % job->result->queues;
		job->ios[i].data = job->buffer + i * stride;
	}
	return 0;
}

static void on_identified(struct host_cmd *cmd)
{
	struct perf_job *job = container_of(cmd, struct perf_job, identify_cmd);
	struct perf_result *result = job->result;
	struct ns_identity ns;
	int res = 0;

	if (nvme_status_same(cmd->status, NVME_SC_HOST_PATHING_ERROR))
		return; /* `lost` follows */
	if (!nvme_status_is_ok(cmd->status) || identify_ns_decode(job->page, &ns) != 0 ||
	    ns.block_count == 0 || ns.block_bytes < 512)
		res = options_refuse(job,
				     "there is no namespace %u in %s; `weft identify` lists them",
				     job->options->nsid, job->options->host.subsystem_nqn);
	if (res == 0) {
		result->ns_blocks = ns.block_count;
		result->block_bytes = ns.block_bytes;
		res = region_check(job);
	}
	if (res == 0)
		res = memory_prepare(job);
	if (res == -ENOMEM)
		text_copy(result->error, sizeof(result->error), "out of memory for the buffers");
	if (res != 0) {
		job_fail(job, res);
		return;
	}
	job->progress_ns = reactor_clock_ns(job->reactor);
	tick_arm(job);
	pass_start(job, PERF_PASS_LOAD);
}

static void on_connected(struct host_ctrl *ctrl, void *arg, int res, const struct host_error *error)
{
	struct perf_job *job = arg;
	struct perf_result *result = job->result;

	if (res != 0) {
		text_copy(result->error, sizeof(result->error), error->text);
		job->end_result = res;
		job->ctrl = NULL;
		reactor_stop(job->reactor);
		return;
	}
	result->identity = *host_ctrl_identity(ctrl);
	result->queues = host_ctrl_io_queues(ctrl);
	result->depth = job->options->depth;
	if (result->depth > host_ctrl_io_depth(ctrl))
		result->depth = host_ctrl_io_depth(ctrl);
	if (result->queues == 0) {
		options_refuse(job, "%s gives no I/O queues; is it a discovery controller?",
			       job->options->host.subsystem_nqn);
		job_fail(job, -EINVAL);
		return;
	}
	job->io_count = result->queues * result->depth;
	job->identify_cmd.done = on_identified;
	host_cmd_identify(&job->identify_cmd, job->options->nsid, IDENTIFY_NS, job->page);
	host_submit_admin(ctrl, &job->identify_cmd);
}

static void on_start(struct reactor_msg *msg)
{
	struct perf_job *job = container_of(msg, struct perf_job, start);
	static const struct host_callbacks callbacks = {.connected = on_connected, .lost = on_lost};
	struct host_config config = job->options->host;
	int res;

	if (config.io_queue_size == 0)
		config.io_queue_size = job->options->depth < 127 ? 128 : job->options->depth + 1;
	reactor_timer_init(job->reactor, &job->tick, on_tick);
	res = host_connect(job->reactor, &config, &callbacks, job, &job->ctrl);
	if (res != 0) {
		text_copy(job->result->error, sizeof(job->result->error), "out of memory");
		job->end_result = res;
		reactor_stop(job->reactor);
	}
}

static void job_free(struct perf_job *job)
{
	if (job->buffer != NULL)
		munmap(job->buffer, job->buffer_bytes);
	free(job->ios);
	free(job->generations);
	free(job->busy);
	free(job->page);
	free(job);
}

int perf_run(const struct perf_options *options, struct perf_result *ret_result)
{
	struct perf_job *job = calloc(1, sizeof(*job));
	struct reactor_config config = {.index = options->reactor_index,
					.cpu = options->cpu,
					.spin_max_us = options->spin_max_us};
	int res = -ENOMEM;

	memset(ret_result, 0, sizeof(*ret_result));
	histogram_init(&ret_result->reads.latency);
	histogram_init(&ret_result->writes.latency);
	histogram_init(&ret_result->verify_reads.latency);
	if (job == NULL)
		return -ENOMEM;
	job->options = options;
	job->result = ret_result;
	prng_seed(&job->prng, options->seed);
	job->page = calloc(1, NVME_PAGE_BYTES);
	if (job->page != NULL)
		res = reactor_create(&config, &job->reactor);
	if (res == 0) {
		reactor_post(job->reactor, &job->start, on_start);
		reactor_run(job->reactor);
		reactor_destroy(job->reactor);
		res = job->end_result;
	} else {
		snprintf(ret_result->error, sizeof(ret_result->error),
			 "cannot start io_uring: %s; is it disabled (kernel.io_uring_disabled)?",
			 strerror(-res));
	}
	if (res == 0 && (ret_result->io_errors > 0 || ret_result->verify_errors > 0))
		res = -EIO;
	job_free(job);
	return res;
}
