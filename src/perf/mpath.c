/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `weft perf` over several paths or to several targets. The load then runs on a perf_mpath instead
 * of a controller: one mpath (host/mpath.h) with all paths of one target. Runs on the job's
 * reactor. Only submission differs; io.c decides when to submit and what to count.
 *
 * A perf_mpath is connected when all its paths are, or when the missing paths have had the connect
 * time-out once more. A path lost later appears in the report, and the load continues over the
 * other paths by the rules of docs/failover.md. When no path is left for fast-io-fail, the job
 * ends. Paths to different subsystems are refused before the load begins, because verifying needs
 * one set of data.
 */
#include "base/clock.h"
#include "base/text.h"
#include "perf/job.h"

#include <errno.h>
#include <stdlib.h>

#define TRANSFER_MAX_BYTES (1u << 20) /* when the controller gives no limit */

struct perf_mpath {
	struct perf_ctrl *perf_ctrl;
	struct mpath *mpath;
	struct mpath_ns **nss; /* options.namespaces entries, from options.nsid on */
	unsigned target;
	bool is_ready;
	uint64_t ready_by_ns;
	void (*gone)(void *arg);
};

/* Carries the command of a perf_io. */
struct perf_mio {
	struct mpath_io io;
	struct iovec iov;
	struct perf_io *perf_io;
};

/* ---- opening and closing -------------------------------------------------------------------- */

static bool paths_are_complete(const struct perf_mpath *perf_mpath)
{
	for (unsigned i = 0; i < mpath_path_count(perf_mpath->mpath); i++) {
		struct path_info info;

		mpath_path_info(perf_mpath->mpath, i, &info);
		if (info.state != PATH_LIVE)
			return false;
	}
	return true;
}

/* Whether some path could not join the others; *ret_info holds the reason. */
static bool has_refused_path(const struct perf_mpath *perf_mpath, struct path_info *ret_info)
{
	for (unsigned i = 0; i < mpath_path_count(perf_mpath->mpath); i++) {
		mpath_path_info(perf_mpath->mpath, i, ret_info);
		if (ret_info->refusal[0] != '\0')
			return true;
	}
	return false;
}

static void ready_check(struct perf_mpath *perf_mpath)
{
	struct reactor *reactor = perf_mpath->perf_ctrl->job->reactor;
	struct path_info info;

	if (!perf_mpath->is_ready || perf_mpath->perf_ctrl->is_connected)
		return;
	if (has_refused_path(perf_mpath, &info)) {
		perf_ctrl_on_open(perf_mpath->perf_ctrl, -EUCLEAN, info.refusal);
		return;
	}
	if (paths_are_complete(perf_mpath) || reactor_clock_ns(reactor) >= perf_mpath->ready_by_ns)
		perf_ctrl_on_open(perf_mpath->perf_ctrl, 0, NULL);
}

void perf_mpath_check(struct perf_job *job)
{
	for (unsigned i = 0; i < job->ctrls_asked && !job->is_ending; i++) {
		if (job->ctrls[i].perf_mpath != NULL)
			ready_check(job->ctrls[i].perf_mpath);
	}
}

static void on_ready(struct mpath *mpath, void *arg, int res, const struct host_error *error)
{
	struct perf_mpath *perf_mpath = arg;
	struct perf_job *job = perf_mpath->perf_ctrl->job;

	if (res != 0) {
		perf_ctrl_on_open(perf_mpath->perf_ctrl, res, error->text);
		return;
	}
	if (job->is_ending)
		return;
	perf_mpath->is_ready = true;
	perf_mpath->ready_by_ns = reactor_clock_ns(job->reactor) +
				  job->options->mpath.timeouts.connect_ms * NS_PER_MS;
	ready_check(perf_mpath);
}

static void config_fill(const struct perf_options *options, const struct perf_mpath *perf_mpath,
			unsigned io_queue_size, struct mpath_config *config)
{
	const struct host_config *host = &options->host;

	*config = (struct mpath_config){
		.host_id = host->host_id,
		.timeouts = options->mpath.timeouts,
		.policy = options->mpath.policy,
		.hedge = options->mpath.hedge,
		.io_queues = host->io_queues,
		.io_queue_size = io_queue_size,
		.wants_header_digest = host->wants_header_digest,
		.wants_data_digest = host->wants_data_digest,
		.numa_node = -1,
		.seed = options->seed +
			(uint64_t)(perf_mpath->perf_ctrl - perf_mpath->perf_ctrl->job->ctrls),
	};
	text_copy(config->subsystem_nqn, sizeof(config->subsystem_nqn),
		  options->mpath.nqns[perf_mpath->target]);
	text_copy(config->host_nqn, sizeof(config->host_nqn), host->host_nqn);
}

int perf_mpath_open(struct perf_ctrl *perf_ctrl, unsigned io_queue_size)
{
	static const struct mpath_callbacks callbacks = {.ready = on_ready};
	struct perf_job *job = perf_ctrl->job;
	const struct perf_mpath_options *options = &job->options->mpath;
	struct perf_mpath *perf_mpath = calloc(1, sizeof(*perf_mpath));
	struct host_addr addrs[MPATH_PATHS_MAX];
	struct mpath_config config;
	unsigned addr_count = 0;
	int res;

	if (perf_mpath == NULL)
		return -ENOMEM;
	perf_mpath->perf_ctrl = perf_ctrl;
	perf_mpath->target = (unsigned)(perf_ctrl - job->ctrls) % options->target_count;
	perf_mpath->nss = calloc(job->options->namespaces, sizeof(struct mpath_ns *));
	config_fill(job->options, perf_mpath, io_queue_size, &config);
	if (job->joins[perf_mpath->target] == NULL)
		job->joins[perf_mpath->target] = join_create();
	config.join = job->joins[perf_mpath->target];
	for (unsigned i = 0; i < options->path_count; i++) {
		if (options->paths[i].target == perf_mpath->target)
			addrs[addr_count++] = options->paths[i].addr;
	}
	res = perf_mpath->nss == NULL ? -ENOMEM
				      : mpath_open(job->reactor, &config, addrs, addr_count,
						   &callbacks, perf_mpath, &perf_mpath->mpath);
	if (res == 0) {
		perf_ctrl->perf_mpath = perf_mpath;
		return 0;
	}
	free(perf_mpath->nss);
	free(perf_mpath);
	return res;
}

static void on_mpath_gone(void *arg)
{
	struct perf_mpath *perf_mpath = arg;
	struct perf_ctrl *perf_ctrl = perf_mpath->perf_ctrl;
	void (*gone)(void *arg) = perf_mpath->gone;

	free(perf_mpath->nss);
	free(perf_mpath);
	gone(perf_ctrl);
}

void perf_mpath_close(struct perf_ctrl *perf_ctrl, void (*gone)(void *arg))
{
	struct perf_mpath *perf_mpath = perf_ctrl->perf_mpath;

	perf_mpath->gone = gone;
	mpath_close(perf_mpath->mpath, on_mpath_gone, perf_mpath);
}

/* ---- namespaces ----------------------------------------------------------------------------- */

static int namespaces_look(struct perf_job *job, struct perf_mpath *perf_mpath)
{
	const struct ctrl_identity *identity = mpath_identity(perf_mpath->mpath);
	uint32_t max_bytes = TRANSFER_MAX_BYTES;

	if (identity != NULL && identity->transfer_max_bytes != 0)
		max_bytes = identity->transfer_max_bytes;
	if (job->transfer_max_bytes == 0 || max_bytes < job->transfer_max_bytes)
		job->transfer_max_bytes = max_bytes;
	for (uint32_t i = 0; i < job->options->namespaces; i++) {
		uint32_t nsid = job->options->nsid + i;
		struct ns_info info;
		int res;

		perf_mpath->nss[i] = mpath_ns_find(perf_mpath->mpath, nsid);
		if (perf_mpath->nss[i] != NULL)
			mpath_ns_info(perf_mpath->nss[i], &info);
		if (perf_mpath->nss[i] == NULL || info.is_gone || info.identity.block_count == 0 ||
		    info.identity.block_bytes < 512)
			return perf_job_refuse(job,
					       "there is no namespace %u in %s; `weft identify` "
					       "lists the namespaces",
					       nsid, job->options->mpath.nqns[perf_mpath->target]);
		res = perf_job_take_ns(job, nsid, &info.identity);
		if (res != 0)
			return res;
	}
	return 0;
}

int perf_mpath_look(struct perf_job *job)
{
	struct perf_result *result = job->result;
	const struct ctrl_identity *identity = mpath_identity(job->ctrls[0].perf_mpath->mpath);
	int res = 0;

	if (identity != NULL)
		result->identity = *identity;
	result->queues = job->options->host.io_queues;
	result->depth = job->options->depth;
	for (unsigned i = 0; res == 0 && i < job->ctrl_count; i++)
		res = namespaces_look(job, job->ctrls[i].perf_mpath);
	return res;
}

/* ---- commands ------------------------------------------------------------------------------- */

/* This mpath can serve no more commands. Results of the others alone would be misleading. */
static void job_give_up(struct perf_job *job, const struct perf_mpath *perf_mpath)
{
	if (job->result->error[0] == '\0')
		perf_job_refuse(job,
				"all paths to %.200s are lost, or its namespace was removed or "
				"formatted with another block size",
				job->options->mpath.nqns[perf_mpath->target]);
	job->is_running = false;
}

static void on_mio_done(struct mpath_io *mpath_io)
{
	struct perf_mio *mio = container_of(mpath_io, struct perf_mio, io);
	struct perf_io *io = mio->perf_io;
	nvme_status status = mpath_io->status;

	if (mpath_io->result == MPATH_OK) {
		status = NVME_SC_SUCCESS;
	} else if (mpath_io->result != MPATH_STATUS) {
		status = NVME_SC_HOST_PATHING_ERROR;
		job_give_up(io->job, io->ctrl->perf_mpath);
	}
	perf_io_on_end(io, status);
}

int perf_mpath_prepare(struct perf_job *job)
{
	job->mios = calloc(job->io_count, sizeof(*job->mios));
	if (job->mios == NULL)
		return -ENOMEM;
	for (unsigned i = 0; i < job->io_count; i++) {
		struct perf_mio *mio = &job->mios[i];

		job->ios[i].mio = mio;
		mio->perf_io = &job->ios[i];
		mio->io.done = on_mio_done;
		mio->io.iov = &mio->iov;
		mio->io.iov_count = 1;
		mio->iov.iov_base = job->ios[i].data;
		mio->iov.iov_len = job->options->io_bytes;
		mio->io.data_bytes = job->options->io_bytes;
		mio->io.block_bytes = job->result->block_bytes;
	}
	return 0;
}

void perf_mpath_submit(struct perf_io *io, uint32_t nsid)
{
	struct mpath_io *mpath_io = &io->mio->io;

	mpath_io->sqe = io->cmd.sqe;
	mpath_io->direction = io->cmd.direction;
	mpath_submit(io->ctrl->perf_mpath->nss[nsid - io->job->options->nsid], mpath_io);
}

/* ---- the measured time ---------------------------------------------------------------------- */

/* Adds the counters of all paths, times sign. Called with -1 at the start and 1 at the end, so that
 * the difference remains. */
static void paths_count(struct perf_job *job, uint64_t sign)
{
	struct perf_result *result = job->result;

	for (unsigned i = 0; i < job->ctrl_count; i++) {
		const struct perf_mpath *perf_mpath = job->ctrls[i].perf_mpath;
		struct mpath_hedge_stats stats;
		unsigned index = 0;

		mpath_hedge_stats(perf_mpath->mpath, &stats);
		result->hedge.reads += sign * stats.reads;
		result->hedge.twins += sign * stats.twins;
		result->hedge.wins += sign * stats.wins;
		result->hedge.threshold_ns = stats.threshold_ns;
		for (unsigned k = 0; k < job->options->mpath.path_count; k++) {
			struct perf_path_result *path = &result->paths[k];
			struct path_info info;

			if (job->options->mpath.paths[k].target != perf_mpath->target)
				continue;
			mpath_path_info(perf_mpath->mpath, index++, &info);
			path->commands += sign * info.commands;
			path->losses += sign * info.losses;
			path->answered_ns += sign * info.answered_ns;
			path->is_live &= info.state == PATH_LIVE;
			text_copy(path->last_error, sizeof(path->last_error), info.last_error);
		}
	}
}

void perf_mpath_on_measure_begin(struct perf_job *job)
{
	paths_count(job, UINT64_MAX);
}

void perf_mpath_on_measure_end(struct perf_job *job)
{
	for (unsigned k = 0; k < job->options->mpath.path_count; k++)
		job->result->paths[k].is_live = true;
	paths_count(job, 1);
}
