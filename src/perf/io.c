/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The hot part of `weft perf`: chooses the next unit and submits; on completion records, checks and
 * submits again. Runs on the job's reactor. Allocates nothing and reads the clock once per I/O.
 *
 * With --verify at most one command is in flight per unit, so the expected content of every read is
 * known. With --rate commands are submitted by a timetable (pace.c) that does not wait for answers.
 * All due commands are submitted in the same turn, and a command that was delayed because all ios
 * were busy counts as started when it was due. One timer is armed for the next due time; shortly
 * before it the reactor is kept from sleeping.
 */
#include "base/clock.h"
#include "perf/job.h"
#include "perf/stamp.h"

#define PACE_AWAKE_NS (20 * NS_PER_US) /* a wake-up takes longer than this */

/* ---- choosing ------------------------------------------------------------------------------- */

static bool pass_is_over(const struct perf_job *job, uint64_t now_ns)
{
	return !job->is_running || (job->end_ns != 0 && now_ns >= job->end_ns) ||
	       (job->bytes_limit != 0 && job->is_measuring &&
		job->bytes_issued >= job->bytes_limit);
}

/* The verify pass: chooses the next unit with known content. */
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
	/* There are at least as many units as ios, so a free one exists. */
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

static uint32_t nsid_choose(struct perf_job *job)
{
	const struct perf_options *options = job->options;

	if (options->namespaces == 1)
		return options->nsid;
	return options->nsid + (uint32_t)prng_below(&job->prng, options->namespaces);
}

/* False: the pass has no more work for this io. */
static bool io_submit(struct perf_io *io, uint64_t started_ns)
{
	struct perf_job *job = io->job;
	const struct perf_options *options = job->options;
	uint64_t first_block;
	uint32_t nsid;

	if (job->pass == PERF_PASS_LOAD)
		load_choose(job, io);
	else if (!verify_choose(job, io))
		return false;
	nsid = nsid_choose(job);
	first_block = job->region_first_block + io->unit * job->blocks_per_unit;
	if (io->is_read) {
		host_cmd_read(&io->cmd, nsid, first_block, job->blocks_per_unit, io->data,
			      options->io_bytes);
	} else {
		if (options->wants_verify) {
			struct perf_stamp_args args = io_stamp_args(io);

			perf_stamp_write(io->data, &args);
		}
		host_cmd_write(&io->cmd, nsid, first_block, job->blocks_per_unit, io->data,
			       options->io_bytes);
	}
	if (job->busy != NULL)
		job->busy[io->unit] = 1;
	io->started_ns = started_ns;
	io->is_measured = job->is_measuring;
	job->bytes_issued += options->io_bytes;
	job->in_flight++;
	if (io->mio != NULL)
		perf_mpath_submit(io, nsid);
	else
		host_submit_io(io->ctrl->ctrl, io->queue, &io->cmd);
	return true;
}

/* ---- the timetable -------------------------------------------------------------------------- */

static bool is_paced(const struct perf_job *job)
{
	return job->pass == PERF_PASS_LOAD && job->options->rate > 0;
}

static void idle_push(struct perf_job *job, struct perf_io *io)
{
	unsigned last = job->idle_first + job->idle_count++;

	job->idle_ios[last < job->io_count ? last : last - job->io_count] = io;
}

static struct perf_io *idle_pop(struct perf_job *job)
{
	struct perf_io *io = job->idle_ios[job->idle_first];

	if (++job->idle_first == job->io_count)
		job->idle_first = 0;
	job->idle_count--;
	return io;
}

/* Deferred work in every turn keeps the reactor from sleeping. The timer submits, because timers
 * run before the gathered sends of their turn. */
static void on_pace_awake(struct reactor_defer *defer)
{
	struct perf_job *job = container_of(defer, struct perf_job, pace_awake);

	if (job->pace_armed_ns != 0)
		reactor_defer(job->reactor, defer);
}

/* Arms the timer for the next due command; without an idle io the next answer submits instead. If
 * the command is due late enough, the timer fires early and is armed again, so that the time to
 * wake up does not delay the command. */
static void pace_arm(struct perf_job *job, uint64_t now_ns)
{
	bool may_spin = job->options->spin_max_us > 0;
	bool is_near = job->pace.due_ns < now_ns + PACE_AWAKE_NS;
	uint64_t wake_ns = job->pace.due_ns - (may_spin && !is_near ? PACE_AWAKE_NS : 0);

	if (job->idle_count == 0)
		return;
	if (may_spin && is_near)
		reactor_defer(job->reactor, &job->pace_awake);
	else
		reactor_defer_cancel(&job->pace_awake);
	if (wake_ns == job->pace_armed_ns)
		return;
	job->pace_armed_ns = wake_ns;
	reactor_timer_arm(&job->pace_timer, wake_ns);
}

static void pace_disarm(struct perf_job *job)
{
	reactor_timer_cancel(&job->pace_timer);
	reactor_defer_cancel(&job->pace_awake);
	job->pace_armed_ns = 0;
}

static void pace_end(struct perf_job *job, uint64_t now_ns)
{
	pace_disarm(job);
	/* The pass ended by its time, not by --bytes or a signal: commands still due count as
	 * missed. */
	if (job->is_running && job->end_ns != 0 && now_ns >= job->end_ns)
		job->result->rate_unsent = perf_pace_owed(&job->pace, job->end_ns);
	if (job->in_flight == 0 && !job->suspects_loss)
		perf_job_on_pass_end(job);
}

static bool pace_is_due(const struct perf_job *job, uint64_t now_ns)
{
	return job->pace.due_ns <= now_ns && (job->end_ns == 0 || job->pace.due_ns < job->end_ns);
}

static void pace_run(struct perf_job *job, uint64_t now_ns)
{
	while (job->idle_count > 0 && pace_is_due(job, now_ns) && !pass_is_over(job, now_ns)) {
		if (job->is_measuring)
			histogram_record(&job->result->lateness, now_ns - job->pace.due_ns);
		io_submit(idle_pop(job), job->pace.due_ns);
		perf_pace_take(&job->pace);
	}
	if (pass_is_over(job, now_ns))
		pace_end(job, now_ns);
	else
		pace_arm(job, now_ns);
}

static void on_pace_timer(struct reactor_timer *timer)
{
	struct perf_job *job = container_of(timer, struct perf_job, pace_timer);

	job->pace_armed_ns = 0;
	pace_run(job, reactor_clock_ns(job->reactor));
}

void perf_io_on_measure_begin(struct perf_job *job)
{
	if (!is_paced(job))
		return;
	job->result->rate_warmup_unsent = perf_pace_owed(&job->pace, job->measure_start_ns);
	pace_disarm(job);
	perf_pace_start(&job->pace, job->options->rate, job->measure_start_ns);
	pace_run(job, job->measure_start_ns);
}

void perf_io_on_stop(struct perf_job *job)
{
	if (is_paced(job))
		pace_run(job, reactor_clock_ns(job->reactor));
	else if (job->in_flight == 0 && !job->suspects_loss)
		perf_job_on_pass_end(job);
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

/*
 * What is counted.
 *
 * IOPS: commands answered in the measured time, including those in flight at its start, excluding
 * those in flight at its end. In a closed loop both numbers equal the depth, so neither end biases
 * the rate. With --rate only commands of the timetable that began with the measured time, or the
 * backlog of the warm-up would be added.
 *
 * Latency: the same commands. With --rate also those answered after the end, because leaving out
 * the slowest would improve the result.
 */
static void io_record(struct perf_io *io, uint64_t now_ns)
{
	struct perf_job *job = io->job;
	struct perf_direction *direction = io->is_read ? &job->result->reads : &job->result->writes;

	if (job->pass == PERF_PASS_VERIFY) {
		direction = &job->result->verify_reads;
	} else if (is_paced(job) && !io->is_measured) {
		return;
	} else if (!job->is_measuring) {
		if (!is_paced(job))
			return;
		job->result->rate_answered_late++;
		histogram_record(&direction->latency, now_ns - io->started_ns);
		return;
	}
	direction->ios++;
	direction->bytes += job->options->io_bytes;
	io->ctrl->ios++;
	histogram_record(&direction->latency, now_ns - io->started_ns);
}

void perf_io_on_end(struct perf_io *io, nvme_status status)
{
	struct perf_job *job = io->job;
	bool is_ok = nvme_status_is_ok(status);
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
	} else if (!job->is_ending) {
		error_count(job, status);
		if (io->mio == NULL && nvme_status_same(status, NVME_SC_HOST_PATHING_ERROR)) {
			/* Usually the controller is being lost: on_tick or `lost` continues. */
			job->suspects_loss = true;
			job->is_running = false;
		}
	}
	if (is_paced(job)) {
		idle_push(job, io);
		pace_run(job, now_ns);
		return;
	}
	if (!pass_is_over(job, now_ns) && io_submit(io, now_ns))
		return;
	if (job->in_flight == 0 && !job->suspects_loss)
		perf_job_on_pass_end(job);
}

static void on_io_done(struct host_cmd *cmd)
{
	perf_io_on_end(container_of(cmd, struct perf_io, cmd), cmd->status);
}

void perf_io_init(struct perf_job *job)
{
	reactor_timer_init(job->reactor, &job->pace_timer, on_pace_timer);
	reactor_defer_init(&job->pace_awake, on_pace_awake);
	for (unsigned i = 0; i < job->io_count; i++) {
		job->ios[i].job = job;
		job->ios[i].cmd.done = on_io_done;
		if (job->idle_ios != NULL)
			job->idle_ios[i] = &job->ios[i];
	}
}

void perf_io_start_all(struct perf_job *job)
{
	uint64_t now_ns = reactor_clock_ns(job->reactor);

	if (is_paced(job)) {
		job->idle_count = job->io_count;
		perf_pace_start(&job->pace, job->options->rate,
				job->is_measuring ? job->measure_start_ns : now_ns);
		pace_run(job, now_ns);
		return;
	}
	for (unsigned i = 0; i < job->io_count; i++) {
		if (pass_is_over(job, now_ns) || !io_submit(&job->ios[i], now_ns))
			break;
	}
	if (job->in_flight == 0)
		perf_job_on_pass_end(job);
}
