/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The hot half of `weft perf`: chooses the next unit, submits, and on completion records, checks
 * and submits again. Runs on the job's reactor; allocates nothing and reads the clock once per
 * I/O.
 *
 * With --verify no two commands are in flight on one unit, so what a read must find is known.
 */
#include "base/clock.h"
#include "cli/perf_job.h"
#include "cli/perf_stamp.h"

/* ---- choosing ------------------------------------------------------------------------------- */

static bool pass_is_over(const struct perf_job *job, uint64_t now_ns)
{
	return !job->is_running || (job->end_ns != 0 && now_ns >= job->end_ns) ||
	       (job->bytes_limit != 0 && job->is_measuring &&
		job->bytes_issued >= job->bytes_limit);
}

/* The verify pass: the next unit whose contents are known. */
static bool verify_choose(struct perf_job *job, struct perf_io *io)
{
	while (job->cursor < job->units) {
		uint32_t generation = job->generations[job->cursor];

		if (generation != PERF_GENERATION_NONE && generation != PERF_GENERATION_UNKNOWN) {
			io->unit = job->cursor++;
			io->generation = generation;
			io->is_read = true;
			return true;
		}
		job->cursor++;
	}
	return false;
}

static void load_choose(struct perf_job *job, struct perf_io *io)
{
	const struct perf_options *options = job->options;

	if (options->read_percent == 100 || options->read_percent == 0)
		io->is_read = options->read_percent == 100;
	else
		io->is_read = prng_below(&job->prng, 100) < options->read_percent;
	if (options->is_random) {
		io->unit = prng_below(&job->prng, job->units);
	} else {
		io->unit = job->cursor++;
		if (job->cursor == job->units)
			job->cursor = 0;
	}
	if (job->generations == NULL)
		return;
	/* There are at least as many units as commands, so a free one exists. */
	while (job->busy[io->unit])
		io->unit = io->unit + 1 < job->units ? io->unit + 1 : 0;
	io->generation = job->generations[io->unit];
	if (!io->is_read) {
		io->generation = job->next_generation++;
		if (job->next_generation == PERF_GENERATION_UNKNOWN)
			job->next_generation = PERF_GENERATION_NONE + 1;
	}
}

static struct perf_stamp_args io_stamp_args(const struct perf_io *io)
{
	const struct perf_job *job = io->job;

	return (struct perf_stamp_args){
		.seed = job->options->seed,
		.first_block = job->region_first_block + io->unit * job->blocks_per_unit,
		.block_bytes = job->result->block_bytes,
		.block_count = job->blocks_per_unit,
		.generation = job->generations != NULL ? io->generation : PERF_GENERATION_ANY,
	};
}

/* ---- submitting ----------------------------------------------------------------------------- */

/* False: the pass has no more work for this io. */
static bool io_submit(struct perf_io *io, uint64_t now_ns)
{
	struct perf_job *job = io->job;
	const struct perf_options *options = job->options;
	uint64_t first_block;

	if (pass_is_over(job, now_ns))
		return false;
	if (job->pass == PERF_PASS_LOAD)
		load_choose(job, io);
	else if (!verify_choose(job, io))
		return false;
	first_block = job->region_first_block + io->unit * job->blocks_per_unit;
	if (io->is_read) {
		host_cmd_read(&io->cmd, options->nsid, first_block, job->blocks_per_unit, io->data,
			      options->io_bytes);
	} else {
		if (options->wants_verify) {
			struct perf_stamp_args args = io_stamp_args(io);

			perf_stamp_write(io->data, &args);
		}
		host_cmd_write(&io->cmd, options->nsid, first_block, job->blocks_per_unit, io->data,
			       options->io_bytes);
	}
	if (job->busy != NULL)
		job->busy[io->unit] = 1;
	io->submitted_ns = now_ns;
	job->bytes_issued += options->io_bytes;
	job->in_flight++;
	host_submit_io(job->ctrl, io->queue, &io->cmd);
	return true;
}

/* ---- completing ----------------------------------------------------------------------------- */

static void error_count(struct perf_job *job, nvme_status status)
{
	struct perf_result *result = job->result;
	unsigned i = 0;

	result->io_errors++;
	while (i < result->error_kinds && !nvme_status_same(result->errors[i].status, status))
		i++;
	if (i == PERF_ERROR_KINDS)
		return;
	if (i == result->error_kinds)
		result->errors[result->error_kinds++].status = status;
	result->errors[i].count++;
}

static void read_verify(struct perf_io *io)
{
	struct perf_result *result = io->job->result;
	struct perf_stamp_args args = io_stamp_args(io);

	if (args.generation == PERF_GENERATION_NONE || args.generation == PERF_GENERATION_UNKNOWN)
		return;
	result->verify_errors += perf_stamp_check(io->data, &args, result->verify_first,
						  sizeof(result->verify_first));
	result->verified_blocks += args.block_count;
}

static void io_record(struct perf_io *io, uint64_t now_ns)
{
	struct perf_job *job = io->job;
	struct perf_direction *direction;

	if (job->pass == PERF_PASS_VERIFY) {
		direction = &job->result->verify_reads;
	} else {
		if (!job->is_measuring) {
			if (now_ns < job->measure_start_ns)
				return;
			job->is_measuring = true;
			job->measure_start_ns = now_ns;
			job->cpu_start_ns = perf_job_cpu_ns(job);
			job->bytes_issued = 0; /* --bytes does not count the warm-up */
			return;
		}
		direction = io->is_read ? &job->result->reads : &job->result->writes;
	}
	direction->ios++;
	direction->bytes += job->options->io_bytes;
	histogram_record(&direction->latency, now_ns - io->submitted_ns);
}

static void on_io_done(struct host_cmd *cmd)
{
	struct perf_io *io = container_of(cmd, struct perf_io, cmd);
	struct perf_job *job = io->job;
	bool is_ok = nvme_status_is_ok(cmd->status);
	uint64_t now_ns = reactor_clock_ns(job->reactor);

	job->in_flight--;
	job->ios_done++;
	if (job->busy != NULL)
		job->busy[io->unit] = 0;
	if (!io->is_read && job->generations != NULL)
		job->generations[io->unit] = is_ok ? io->generation : PERF_GENERATION_UNKNOWN;
	if (is_ok) {
		io_record(io, now_ns);
		if (io->is_read && job->options->wants_verify)
			read_verify(io);
	} else {
		error_count(job, cmd->status);
		if (nvme_status_same(cmd->status, NVME_SC_HOST_PATHING_ERROR)) {
			/* Usually the controller is being lost; the tick or `lost` goes on. */
			job->suspects_loss = true;
			job->is_running = false;
		}
	}
	if (!io_submit(io, now_ns) && job->in_flight == 0 && !job->suspects_loss)
		perf_job_on_pass_end(job);
}

void perf_io_start_all(struct perf_job *job)
{
	uint64_t now_ns = reactor_clock_ns(job->reactor);

	for (unsigned i = 0; i < job->io_count; i++) {
		job->ios[i].cmd.done = on_io_done;
		if (!io_submit(&job->ios[i], now_ns))
			break;
	}
	if (job->in_flight == 0)
		perf_job_on_pass_end(job);
}
